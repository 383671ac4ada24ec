/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "buf.h"
#include "error.h"
#include "json.h"
#include "jsonw.h"
#include "spill.h"
#include "tools.h"
#include "utf8.h"

enum {
	NESTING = 8,		/* tables inside tables; ours have two, three */
	FAULTS_MAX = 640,	/* room left in struct error for the rest */
	VALUE_MAX = 48,		/* of a refused value that is quoted */
};

static const struct {
	const char *name, *said;
	const char *min, *max;
} kinds[] = {
	[ARG_STRING] = { "string", "a string", "minLength", "maxLength" },
	[ARG_INT] = { "integer", "an integer", "minimum", "maximum" },
	[ARG_NUMBER] = { "number", "a number", "minimum", "maximum" },
	[ARG_BOOL] = { "boolean", "true or false", NULL, NULL },
	[ARG_MAP] = { "object", "an object", "minProperties", "maxProperties" },
	[ARG_OBJECT] = { "object", "an object", NULL, NULL },
	[ARG_ARRAY] = { "array", "an array", "minItems", "maxItems" },
};

static bool
is_number(const struct arg *a)
{
	return a->type == ARG_INT || a->type == ARG_NUMBER;
}

/* A length has a lower bound only if it is above 0; a number may be below. */
static bool
has_min(const struct arg *a)
{
	if (is_number(a))
		return a->min != 0 || a->max != 0 || a->flags & ARG_ABOVE;
	return a->min > 0;
}

static bool
has_max(const struct arg *a)
{
	return a->max != LONG_MAX && (a->max > a->min ||
	    (a->max == a->min && a->max != 0));
}

const struct tool *
tools_find(const struct tool *const *rows, struct json name)
{
	for (; rows != NULL && *rows != NULL; rows++)
		if (json_is(name, (*rows)->name))
			return *rows;
	return NULL;
}

/* --- schemas ------------------------------------------------------------- */

static void table_schema(struct jsonw *, const struct arg *, bool, int);

/* The keywords that say what a value is, without its name or meaning. */
static void
type_schema(struct jsonw *w, const struct arg *a, bool in, int depth)
{
	bool told = is_number(a) || !(a->flags & ARG_TERSE);

	jsonw_str(w, "type", kinds[a->type].name);
	if (a->one_of != NULL) {
		jsonw_array(w, "enum");
		for (const char *const *s = a->one_of; *s != NULL; s++)
			jsonw_str(w, NULL, *s);
		jsonw_end(w);
	}
	if (told && kinds[a->type].min != NULL && has_min(a))
		jsonw_int(w, a->flags & ARG_ABOVE ? "exclusiveMinimum" :
		    kinds[a->type].min, a->min);
	if (told && kinds[a->type].max != NULL && has_max(a))
		jsonw_int(w, kinds[a->type].max, a->max);
	if (a->type == ARG_MAP) {
		jsonw_object(w, "additionalProperties");
		jsonw_str(w, "type", "string");
		jsonw_end(w);
	} else if (a->type == ARG_OBJECT && a->of != NULL) {
		table_schema(w, a->of, in, depth + 1);
	} else if (a->type == ARG_ARRAY && a->of != NULL) {
		jsonw_object(w, "items");
		if (a->of->help != NULL)
			jsonw_str(w, "description", a->of->help);
		type_schema(w, a->of, in, depth + 1);
		jsonw_end(w);
	}
}

static void
arg_schema(struct jsonw *w, const struct arg *a, bool in, int depth)
{
	jsonw_object(w, a->name);
	if (a->help != NULL)
		jsonw_str(w, "description", a->help);
	if (a->flags & ARG_NULL && !(a->flags & ARG_TERSE)) {
		jsonw_array(w, "anyOf");
		jsonw_object(w, NULL);
		type_schema(w, a, in, depth);
		jsonw_end(w);
		jsonw_object(w, NULL);
		jsonw_str(w, "type", "null");
		jsonw_end(w);
		jsonw_end(w);
	} else {
		type_schema(w, a, in, depth);
	}
	if (a->def != NULL)
		jsonw_raw(w, "default", a->def, strlen(a->def));
	if (a->header != NULL)
		jsonw_str(w, "x-mcp-header", a->header);
	jsonw_end(w);
}

/* Into an object whose "type" is written. Only input is closed to others. */
static void
table_schema(struct jsonw *w, const struct arg *args, bool in, int depth)
{
	const struct arg *a;
	bool any = false;

	assert(depth < NESTING);
	jsonw_object(w, "properties");
	for (a = args; a != NULL && a->name != NULL; a++) {
		arg_schema(w, a, in, depth);
		any = any || a->flags & ARG_REQUIRED;
	}
	jsonw_end(w);
	if (any) {
		jsonw_array(w, "required");
		for (a = args; a->name != NULL; a++)
			if (a->flags & ARG_REQUIRED)
				jsonw_str(w, NULL, a->name);
		jsonw_end(w);
	}
	if (in)
		jsonw_bool(w, "additionalProperties", false);
}

static void
schema(struct jsonw *w, const char *key, const struct arg *args, bool in)
{
	jsonw_object(w, key);
	jsonw_str(w, "type", "object");
	table_schema(w, args, in, 0);
	jsonw_end(w);
}

/* All four: what is not said is taken for the worse (ToolAnnotations). */
static void
annotations(struct jsonw *w, unsigned hints)
{
	jsonw_object(w, "annotations");
	jsonw_bool(w, "readOnlyHint", hints & HINT_READ_ONLY);
	jsonw_bool(w, "destructiveHint", hints & HINT_DESTRUCTIVE);
	jsonw_bool(w, "idempotentHint", hints & HINT_IDEMPOTENT);
	jsonw_bool(w, "openWorldHint", hints & HINT_OPEN_WORLD);
	jsonw_end(w);
}

void
tools_list(struct jsonw *w, const struct tool *const *rows)
{
	const struct tool *t;

	jsonw_array(w, "tools");
	for (; rows != NULL && (t = *rows) != NULL; rows++) {
		jsonw_object(w, NULL);
		jsonw_str(w, "name", t->name);
		if (t->title != NULL)
			jsonw_str(w, "title", t->title);
		jsonw_str(w, "description", t->help);
		if (t->in_schema != NULL)
			jsonw_raw(w, "inputSchema", t->in_schema,
			    strlen(t->in_schema));
		else
			schema(w, "inputSchema", t->args, true);
		if (t->out != NULL)
			schema(w, "outputSchema", t->out, false);
		annotations(w, t->hints);
		jsonw_end(w);
	}
	jsonw_end(w);
}

/* --- values -------------------------------------------------------------- */

/* Digits with a sign and blanks around, and a fraction of zeros only. */
static bool
digits_int(const char *s, long *n)
{
	char *end;
	int sign = 0;

	s += strspn(s, " ");
	if (*s == '+' || *s == '-')
		sign = 1;
	if (s[sign] < '0' || s[sign] > '9')
		return false;
	*n = strtol(s, &end, 10);	/* past a long: its last value */
	if (*end == '.' && end[1] == '0')
		end += 1 + strspn(end + 1, "0");
	end += strspn(end, " ");
	return *end == '\0';
}

/* Integers beyond a long are given as its end, and fail a bound or not. */
static bool
lax_int(struct json v, long *n)
{
	char text[64];
	double d;
	bool b;

	switch (json_type(v)) {
	case JSON_NUMBER:
		if (json_int(v, LONG_MIN, LONG_MAX, n))
			return true;
		/* Not integral, or far too large for any of our bounds. */
		if (!json_double(v, &d) || (d > -9.2e18 && d < 9.2e18))
			return false;
		*n = d < 0 ? LONG_MIN : LONG_MAX;
		return true;
	case JSON_BOOL:
		(void)json_bool(v, &b);
		*n = b;
		return true;
	case JSON_STRING:
		return json_str(v, text, sizeof(text)) && digits_int(text, n);
	default:
		return false;
	}
}

static bool
lax_bool(struct json v, bool *b)
{
	static const char *const words[][2] = {
		{ "false", "true" }, { "no", "yes" }, { "off", "on" },
		{ "0", "1" }, { "f", "t" }, { "n", "y" },
	};
	char text[8];
	long n;

	if (json_bool(v, b))
		return true;
	if (json_int(v, 0, 1, &n)) {
		*b = n;
		return true;
	}
	if (!json_str(v, text, sizeof(text)))
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		for (size_t j = 0; j < 2; j++)
			if (strcasecmp(text, words[i][j]) == 0) {
				*b = j;
				return true;
			}
	return false;
}

/* --- checking ------------------------------------------------------------ */

struct check {
	struct buf text;	/* the faults, "; " between them */
	size_t n;
	size_t shown;
	char path[128];		/* of the table being checked, "" or "a[3]." */
};

/* One more fault of the value v at name, unless v is JSON_NONE. */
static void fault(struct check *k, const char *name, struct json v,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static void
fault(struct check *k, const char *name, struct json v, const char *fmt, ...)
{
	char rule[256], value[VALUE_MAX + 1] = "";
	va_list ap;
	size_t len;
	const char *raw = json_raw(v, &len);
	int n;

	k->n++;
	va_start(ap, fmt);
	(void)vsnprintf(rule, sizeof(rule), fmt, ap);
	va_end(ap);
	if (json_type(v) != JSON_NONE) {
		n = len > VALUE_MAX ? VALUE_MAX : (int)len;
		(void)snprintf(value, sizeof(value), "%.*s", n, raw);
		utf8_clean(value, true);
	}
	n = snprintf(NULL, 0, "; %s%s %s, not %s...", k->path, name, rule,
	    value);
	if (k->shown + 1 < k->n || (size_t)n > buf_room(&k->text))
		return;		/* only counted, as all that follow */
	k->shown++;
	buf_printf(&k->text, "%s%s%s %s", k->n > 1 ? "; " : "", k->path, name,
	    rule);
	if (value[0] != '\0')
		buf_printf(&k->text, ", not %s%s", value,
		    len > VALUE_MAX ? "..." : "");
}

/* "must be an integer above 0 and at most 600" */
static void
bounds_fault(struct check *k, const char *name, const struct arg *a,
    struct json v)
{
	const char *unit = a->type == ARG_STRING ? " characters" :
	    a->type == ARG_ARRAY ? " elements" :
	    a->type == ARG_MAP ? " members" : "";
	const char *verb = is_number(a) ? "must be " : "must have ";
	const char *what = is_number(a) ? kinds[a->type].said : "";
	const char *gap = is_number(a) ? " " : "";
	/* A long value is not worth showing, its size is. */
	struct json shown = is_number(a) ? v : (struct json){ NULL, -1 };

	if (has_min(a) && has_max(a))
		fault(k, name, shown, "%s%s%s%s %ld and at most %ld%s", verb,
		    what, gap, a->flags & ARG_ABOVE ? "above" : "at least",
		    a->min, a->max, unit);
	else if (has_min(a))
		fault(k, name, shown, "%s%s%s%s %ld%s", verb, what, gap,
		    a->flags & ARG_ABOVE ? "above" : "at least", a->min, unit);
	else if (has_max(a))
		fault(k, name, shown, "%s%s%sat most %ld%s", verb, what, gap,
		    a->max, unit);
}

static bool
in_bounds(const struct arg *a, double n)
{
	if (has_min(a) && (n < (double)a->min ||
	    (a->flags & ARG_ABOVE && n <= (double)a->min)))
		return false;
	return !has_max(a) || n <= (double)a->max;
}

static void check_table(struct check *k, const struct arg *args,
    struct json v, bool open, int depth);
static void check_value(struct check *k, const char *name,
    const struct arg *a, struct json v, int depth);

static void
type_fault(struct check *k, const char *name, const struct arg *a,
    struct json v)
{
	if (is_number(a) && (has_min(a) || has_max(a)))
		bounds_fault(k, name, a, v);
	else
		fault(k, name, v, "must be %s%s", kinds[a->type].said,
		    a->flags & ARG_NULL ? " or null" : "");
}

static void
check_string(struct check *k, const char *name, const struct arg *a,
    struct json v)
{
	const struct json none = { NULL, -1 };
	char list[200] = "";
	size_t at = 0;
	int n;

	if (json_far(v) != NULL) {
		if ((a->flags & ARG_LONG) == 0)
			fault(k, name, none, "must have at most %d bytes as "
			    "it is sent", SPILL_FROM);
		return;
	}
	if (a->one_of == NULL) {
		if ((has_min(a) || has_max(a)) &&
		    !in_bounds(a, (double)json_chars(v)))
			bounds_fault(k, name, a, v);
		return;
	}
	for (const char *const *s = a->one_of; *s != NULL; s++) {
		if (json_is(v, *s))
			return;
		n = snprintf(list + at, sizeof(list) - at, "%s\"%s\"",
		    at > 0 ? ", " : "", *s);
		if (n > 0 && (size_t)n < sizeof(list) - at)
			at += (size_t)n;
	}
	list[at] = '\0';
	fault(k, name, v, "must be one of %s", list);
}

static void
check_map(struct check *k, const char *name, const struct arg *a,
    struct json v)
{
	char key[64], at[160];

	if (!in_bounds(a, (double)json_count(v)))
		bounds_fault(k, name, a, v);
	for (struct json m = json_first(v); json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		if (json_type(m) == JSON_STRING && json_far(m) == NULL)
			continue;
		if (!json_str(json_key(m), key, sizeof(key)))
			(void)snprintf(key, sizeof(key), "...");
		(void)snprintf(at, sizeof(at), "%.80s[\"%s\"]", name, key);
		if (json_far(m) != NULL)
			fault(k, at, (struct json){ NULL, -1 }, "must have at "
			    "most %d bytes as it is sent", SPILL_FROM);
		else
			fault(k, at, m, "must be a string");
	}
}

/* The members of the object at name, named by the path that leads there. */
static void
check_inside(struct check *k, const char *name, const struct arg *of,
    struct json v, int depth)
{
	size_t len = strlen(k->path);

	(void)snprintf(k->path + len, sizeof(k->path) - len, "%s.", name);
	check_table(k, of, v, false, depth + 1);
	k->path[len] = '\0';
}

static void
check_array(struct check *k, const char *name, const struct arg *a,
    struct json v, int depth)
{
	char at[96];
	size_t i = 0;

	if (!in_bounds(a, (double)json_count(v))) {
		bounds_fault(k, name, a, v);
		return;
	}
	if (a->of == NULL)
		return;
	for (struct json m = json_first(v); json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		(void)snprintf(at, sizeof(at), "%.64s[%zu]", name, i++);
		check_value(k, at, a->of, m, depth + 1);
	}
}

static void
check_value(struct check *k, const char *name, const struct arg *a,
    struct json v, int depth)
{
	static const enum json_type want[] = {
		[ARG_STRING] = JSON_STRING, [ARG_NUMBER] = JSON_NUMBER,
		[ARG_MAP] = JSON_OBJECT, [ARG_OBJECT] = JSON_OBJECT,
		[ARG_ARRAY] = JSON_ARRAY, [ARG_INT] = JSON_NUMBER,
		[ARG_BOOL] = JSON_BOOL,
	};
	double d;
	bool b;
	long n;

	if (a->flags & ARG_NULL && json_type(v) == JSON_NULL)
		return;
	if (a->type == ARG_INT ? !lax_int(v, &n) :
	    a->type == ARG_BOOL ? !lax_bool(v, &b) :
	    json_type(v) != want[a->type])
		type_fault(k, name, a, v);
	else if (a->type == ARG_INT && !in_bounds(a, (double)n))
		bounds_fault(k, name, a, v);
	else if (a->type == ARG_NUMBER &&
	    (!json_double(v, &d) || !in_bounds(a, d)))
		bounds_fault(k, name, a, v);
	else if (a->type == ARG_STRING)
		check_string(k, name, a, v);
	else if (a->type == ARG_MAP)
		check_map(k, name, a, v);
	else if (a->type == ARG_OBJECT && a->of != NULL)
		check_inside(k, name, a->of, v, depth);
	else if (a->type == ARG_ARRAY)
		check_array(k, name, a, v, depth);
}

static const struct arg *
find(const struct arg *args, struct json key)
{
	for (; args != NULL && args->name != NULL; args++)
		if (json_is(key, args->name))
			return args;
	return NULL;
}

static void
unknown(struct check *k, const struct arg *args, struct json key)
{
	char name[64], list[200] = "";
	size_t at = 0;
	int n;

	if (!json_str(key, name, sizeof(name)))
		(void)snprintf(name, sizeof(name), "(a name too long)");
	for (; args != NULL && args->name != NULL; args++) {
		n = snprintf(list + at, sizeof(list) - at, "%s%s",
		    at > 0 ? ", " : "", args->name);
		if (n < 0 || (size_t)n >= sizeof(list) - at)
			break;
		at += (size_t)n;
	}
	list[at] = '\0';
	fault(k, name, (struct json){ NULL, -1 },
	    "is not known here (there is: %s)", at > 0 ? list : "none");
}

/* open: members without a row are none of our business. */
static void
check_table(struct check *k, const struct arg *args, struct json v, bool open,
    int depth)
{
	const struct arg *a;
	struct json none = { NULL, -1 };

	assert(depth < NESTING);
	for (a = args; a != NULL && a->name != NULL; a++)
		if (a->flags & ARG_REQUIRED &&
		    json_type(json_get(v, a->name)) == JSON_NONE)
			fault(k, a->name, none, "is missing");
	for (struct json m = json_first(v); json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		if ((a = find(args, json_key(m))) != NULL)
			check_value(k, a->name, a, m, depth);
		else if (!open)
			unknown(k, args, json_key(m));
	}
}

int
tools_check(const struct tool *tool, struct json args, struct error *err)
{
	struct check k = { .n = 0 };
	int r = 0;

	if (tool->in_schema != NULL)
		return 0;
	buf_init(&k.text, FAULTS_MAX);
	check_table(&k, tool->args, args, strchr(tool->name, '/') != NULL, 0);
	if (k.n == 0)
		r = 0;
	else if (!buf_ok(&k.text) || k.text.data == NULL)
		r = error_set(err, ERR_INPUT, "%s: %zu bad arguments",
		    tool->name, k.n);
	else if (k.n > k.shown)
		r = error_set(err, ERR_INPUT, "%s: %s; and %zu more faults",
		    tool->name, k.text.data, k.n - k.shown);
	else
		r = error_set(err, ERR_INPUT, "%s: %s", tool->name,
		    k.text.data);
	buf_free(&k.text);
	return r;
}

/* --- after the check ----------------------------------------------------- */

static const struct arg *
row(const struct tool *t, const char *name)
{
	const struct arg *a = t->args;

	assert(a != NULL);
	while (a->name != NULL && strcmp(a->name, name) != 0)
		a++;
	assert(a->name != NULL);
	return a;
}

bool
tools_has(struct json args, const char *name)
{
	enum json_type type = json_type(json_get(args, name));

	return type != JSON_NONE && type != JSON_NULL;
}

long
tools_int(const struct tool *t, struct json args, const char *name)
{
	const struct arg *a = row(t, name);
	struct json v = json_get(args, name);
	long n = 0;

	if (json_type(v) == JSON_NONE && a->def != NULL)
		return strtol(a->def, NULL, 10);
	return lax_int(v, &n) ? n : 0;
}

bool
tools_bool(const struct tool *t, struct json args, const char *name)
{
	const struct arg *a = row(t, name);
	struct json v = json_get(args, name);
	bool b = false;

	if (json_type(v) == JSON_NONE && a->def != NULL)
		return strcmp(a->def, "true") == 0;
	return lax_bool(v, &b) && b;
}
