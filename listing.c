/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "error.h"
#include "listing.h"

enum {
	ENTRY_MAX = 16 * 1024,	/* a name has 255 bytes, escaped six times */
	DEPTH_MAX = 64
};

static void
init(struct listing *l, listing_fn *fn, void *arg)
{
	*l = (struct listing){ .fn = fn, .arg = arg };
	buf_init(&l->held, ENTRY_MAX);
}

void
listing_json(struct listing *l, int level, listing_fn *fn, void *arg)
{
	init(l, fn, arg);
	l->level = level;
}

void
listing_records(struct listing *l, const char *mark, listing_fn *fn, void *arg)
{
	init(l, fn, arg);
	l->mark = mark;
}

void
listing_free(struct listing *l)
{
	buf_free(&l->held);
}

double
listing_time(const char *text)
{
	struct tm tm = { 0 };
	double fraction = 0;
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

	if (rest == NULL)
		return 0;
	if (*rest == '.')
		fraction = strtod(rest, NULL);
	return (double)timegm(&tm) + (isfinite(fraction) ? fraction : 0);
}

/* --- records ------------------------------------------------------------- */

static int
bad(struct error *err)
{
	return error_set(err, ERR_CLUSTER, "the list of files is not what was "
	    "asked for");
}

static int
record(struct listing *l, char *text, size_t len, struct error *err)
{
	struct listing_entry e = { 0 };
	unsigned mode;
	int at = 0;
	long when;

	text[len] = '\0';
	if (sscanf(text, "%x %ld %ld %n", &mode, &e.size, &when, &at) != 3 ||
	    at == 0)
		return bad(err);
	e.name = text + at;
	if (e.name[0] == '.' && e.name[1] == '/')
		e.name += 2;
	e.name_len = len - (size_t)(e.name - text);
	e.folder = S_ISDIR(mode);
	e.mtime = (double)when;
	l->fn(l->arg, &e);
	return 0;
}

/* All whole records in held; at the end of the list, the last one too. */
static int
records(struct listing *l, bool over, struct error *err)
{
	size_t n = strlen(l->mark), len;
	char *text, *next;

	while (l->held.len >= n) {
		text = l->held.data;
		if (memcmp(text, l->mark, n) != 0)
			return bad(err);
		next = memmem(text + n, l->held.len - n, l->mark, n);
		if (next == NULL && !over)
			return 0;
		len = next != NULL ? (size_t)(next - text) : l->held.len;
		/* The newline before the next mark is not the name's. */
		if (len < n + 2 || text[len - 1] != '\n' ||
		    record(l, text + n, len - n - 1, err) == -1)
			return bad(err);
		buf_drop(&l->held, len);
	}
	return l->held.len > 0 && over ? bad(err) : 0;
}

/* --- JSON ---------------------------------------------------------------- */

static int
object(struct listing *l, struct error *err)
{
	struct json_doc *doc = json_parse_lax(l->held.data, l->held.len, err);
	struct json o = json_root(doc);
	struct listing_entry e = { 0 };
	char when[64];
	struct buf name;

	if (doc == NULL)
		return -1;
	buf_init(&name, ENTRY_MAX);
	(void)json_text(json_get(o, "name"), &name);
	e.name = name.data != NULL ? name.data : "";
	e.name_len = name.len;
	e.folder = json_is(json_get(o, "type"), "directory");
	(void)json_int(json_get(o, "size"), 0, INT64_MAX, &e.size);
	if (json_str(json_get(o, "modified_at"), when, sizeof(when)))
		e.mtime = listing_time(when);
	else
		(void)json_double(json_get(o, "mod_time"), &e.mtime);
	l->fn(l->arg, &e);
	buf_free(&name);
	json_free(doc);
	return 0;
}

/* Outside of strings: brackets. -1: these are not what was asked for. */
static int
bracket(struct listing *l, char c, struct error *err)
{
	if (c == '{' || c == '[') {
		if (l->depth == l->level && c == '{') {
			l->item = true;
			buf_reset(&l->held, ENTRY_MAX);
		}
		return ++l->depth > DEPTH_MAX ? bad(err) : 0;
	}
	if (c == '}' || c == ']')
		return --l->depth < 0 ? bad(err) : 0;
	return 0;
}

static int
json_byte(struct listing *l, char c, struct error *err)
{
	if (!l->begun && strchr(" \t\r\n", c) == NULL) {
		l->begun = true;
		if (c != (l->level == 1 ? '[' : '{'))
			return bad(err);
	} else if (l->begun && l->depth == 0) {
		return strchr(" \t\r\n", c) != NULL ? 0 : bad(err);
	}
	if (l->string) {
		l->string = c != '"' || l->escape;
		l->escape = c == '\\' && !l->escape;
	} else if (c == '"') {
		l->string = true;
	} else if (bracket(l, c, err) == -1) {
		return -1;
	}
	if (!l->item)
		return 0;
	buf_put(&l->held, &c, 1);
	if (!buf_ok(&l->held))
		return error_set(err, ERR_LIMIT, "an entry of the list is "
		    "longer than %d bytes", ENTRY_MAX);
	if (l->depth > l->level)
		return 0;
	l->item = false;
	return object(l, err);
}

/* --- either -------------------------------------------------------------- */

int
listing_feed(struct listing *l, const char *data, size_t len,
    struct error *err)
{
	size_t n;

	for (; l->mark != NULL && len > 0; data += n, len -= n) {
		n = len < 4096 ? len : 4096;
		buf_put(&l->held, data, n);
		if (!buf_ok(&l->held) || records(l, false, err) == -1)
			return bad(err);
	}
	for (; len > 0; len--)
		if (json_byte(l, *data++, err) == -1)
			return -1;
	return 0;
}

int
listing_end(struct listing *l, struct error *err)
{
	if (l->mark != NULL)
		return records(l, true, err);
	if (!l->begun || l->depth != 0)
		return error_set(err, ERR_LOST, "the list of files ended "
		    "before it was whole");
	return 0;
}
