/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define JSMN_STATIC
#define JSMN_STRICT
#define JSMN_PARENT_LINKS
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include <jsmn.h>
#pragma GCC diagnostic pop

#include "buf.h"
#include "error.h"
#include "json.h"
#include "budget.h"
#include "spill.h"
#include "utf8.h"

struct json_doc {
	const char *text;
	int count;
	bool lax;			/* of equal keys the last one counts */
	const char *far_base;		/* json_far_set() */
	const struct spill_span *far;
	size_t nfar;
	jsmntok_t tok[];
};

static const struct json none = { NULL, -1 };

/*
 * The checker. jsmn in strict mode still lets through {,}, [1,,3], [01],
 * {"a":"b":"c"}, control characters in strings and two values in a row, and
 * on input nested n deep it takes time in n squared. One pass over the bytes
 * beforehand refuses all of that, bounds the depth and counts the tokens.
 */
struct check {
	const unsigned char *p, *end;
	const char *why;		/* set where it fails */
	enum error_code code;
	size_t values, keys;
	size_t depth;
	char close[LIMIT_JSON_DEPTH];	/* what ends each open scope */
};

static bool
refuse(struct check *c, const char *why)
{
	c->why = why;
	c->code = ERR_INPUT;
	return false;
}

static bool
too_much(struct check *c, const char *why)
{
	c->why = why;
	c->code = ERR_LIMIT;
	return false;
}

static void
skip_space(struct check *c)
{
	while (c->p < c->end && (*c->p == ' ' || *c->p == '\t' ||
	    *c->p == '\r' || *c->p == '\n'))
		c->p++;
}

static bool
eat(struct check *c, char want)
{
	if (c->p == c->end || *c->p != (unsigned char)want)
		return false;
	c->p++;
	return true;
}

static bool
digits(struct check *c)
{
	const unsigned char *start = c->p;

	while (c->p < c->end && *c->p >= '0' && *c->p <= '9')
		c->p++;
	return c->p > start;
}

static bool
check_number(struct check *c)
{
	bool minus = eat(c, '-');

	if (!eat(c, '0') && !digits(c))
		return refuse(c, minus ? "a digit is missing" :
		    c->p == c->end ? "the text ends too early" :
		    "a value is missing");
	if (eat(c, '.') && !digits(c))
		return refuse(c, "a digit is missing");
	if (eat(c, 'e') || eat(c, 'E')) {
		if (!eat(c, '+'))
			(void)eat(c, '-');
		if (!digits(c))
			return refuse(c, "a digit is missing");
	}
	return true;
}

static bool
check_word(struct check *c, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n) != 0)
		return refuse(c, "an unknown word");
	c->p += n;
	return true;
}

static bool
hex4(const unsigned char *p, const unsigned char *end, unsigned *out)
{
	unsigned v = 0;

	if (end - p < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		unsigned ch = p[i];

		if (ch >= '0' && ch <= '9')
			v = v * 16 + (ch - '0');
		else if ((ch | 32) >= 'a' && (ch | 32) <= 'f')
			v = v * 16 + ((ch | 32) - 'a' + 10);
		else
			return false;
	}
	*out = v;
	return true;
}

/* What follows a backslash. */
static bool
check_escape(struct check *c)
{
	unsigned hi, lo;

	if (c->p == c->end || *c->p == 0 ||
	    strchr("\"\\/bfnrtu", *c->p) == NULL)
		return refuse(c, "an unknown escape in a string");
	if (*c->p++ != 'u')
		return true;
	if (!hex4(c->p, c->end, &hi))
		return refuse(c, "four hexadecimal digits are missing");
	if (hi >= 0xdc00 && hi <= 0xdfff)
		return refuse(c, "a lone surrogate in a string");
	if (hi >= 0xd800 && hi <= 0xdbff) {
		if (c->end - c->p < 10 || c->p[4] != '\\' || c->p[5] != 'u' ||
		    !hex4(c->p + 6, c->end, &lo) || lo < 0xdc00 || lo > 0xdfff)
			return refuse(c, "a lone surrogate in a string");
		c->p += 6;
	}
	c->p += 4;
	return true;
}

static bool
check_string(struct check *c)
{
	size_t n;

	if (!eat(c, '"'))
		return refuse(c, "a key in quotes is missing");
	while (c->p < c->end && *c->p != '"') {
		if (*c->p == '\\') {
			c->p++;
			if (!check_escape(c))
				return false;
			continue;
		}
		if (*c->p < ' ')
			return refuse(c, "a control character in a string");
		if (*c->p < 0x80)
			n = 1;
		else if ((n = utf8_len(c->p, c->end)) == 0)
			return refuse(c, "ill-formed UTF-8 in a string");
		c->p += n;
	}
	if (!eat(c, '"'))
		return refuse(c, "the text ends in a string");
	return true;
}

static bool
check_key(struct check *c)
{
	skip_space(c);
	c->keys++;
	if (!check_string(c))
		return false;
	skip_space(c);
	return eat(c, ':') || refuse(c, "a colon is missing");
}

/* A value; where it opens a scope that isn't empty, only up to its first. */
static bool
check_value(struct check *c, bool *opened)
{
	char open;

	*opened = false;
	skip_space(c);
	if (++c->values > LIMIT_JSON_TOKENS)
		return too_much(c, "too many values");
	open = c->p < c->end ? (char)*c->p : '\0';
	switch (open) {
	case '"':
		return check_string(c);
	case 't':
		return check_word(c, "true");
	case 'f':
		return check_word(c, "false");
	case 'n':
		return check_word(c, "null");
	case '{':
	case '[':
		break;
	default:
		return check_number(c);
	}
	if (c->depth == LIMIT_JSON_DEPTH)
		return too_much(c, "nested too deep");
	c->p++;
	c->close[c->depth] = open == '{' ? '}' : ']';
	skip_space(c);
	if (eat(c, c->close[c->depth]))
		return true;
	*opened = true;
	c->depth++;
	return open == '[' || check_key(c);
}

static bool
check_text(struct check *c)
{
	bool opened;
	char close;

	do {
		if (!check_value(c, &opened))
			return false;
		while (!opened && c->depth > 0) {
			close = c->close[c->depth - 1];
			skip_space(c);
			if (eat(c, ',')) {
				if (close == '}' && !check_key(c))
					return false;
				break;
			}
			if (!eat(c, close))
				return refuse(c, c->p == c->end ?
				    "the text ends too early" : close == '}' ?
				    "a comma or } is missing" :
				    "a comma or ] is missing");
			c->depth--;
		}
	} while (c->depth > 0);
	skip_space(c);
	return c->p == c->end || refuse(c, "more text after the value");
}

/* A string's bytes, unescaped one by one. */
struct text {
	const unsigned char *p, *end;
	unsigned char held[4];		/* what an escape stands for */
	size_t at, n;
};

static size_t
put_utf8(unsigned char *s, unsigned cp)
{
	size_t n = 0;

	if (cp < 0x80) {
		s[n++] = (unsigned char)cp;
		return n;
	}
	if (cp < 0x800) {
		s[n++] = (unsigned char)(0xc0 | cp >> 6);
	} else {
		if (cp < 0x10000) {
			s[n++] = (unsigned char)(0xe0 | cp >> 12);
		} else {
			s[n++] = (unsigned char)(0xf0 | cp >> 18);
			s[n++] = (unsigned char)(0x80 | (cp >> 12 & 0x3f));
		}
		s[n++] = (unsigned char)(0x80 | (cp >> 6 & 0x3f));
	}
	s[n++] = (unsigned char)(0x80 | (cp & 0x3f));
	return n;
}

/* t->p is past the backslash of an escape that check_escape() has seen. */
static void
unescape(struct text *t)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char *f;
	unsigned cp = *t->p++, lo;

	if (cp != 'u') {
		if ((f = strchr(from, (int)cp)) != NULL)
			cp = (unsigned char)to[f - from];
	} else if (hex4(t->p, t->end, &cp)) {
		t->p += 4;
		if (cp >= 0xd800 && cp <= 0xdbff &&
		    t->end - t->p >= 6 && hex4(t->p + 2, t->end, &lo)) {
			cp = 0x10000 + ((cp - 0xd800) << 10) + (lo - 0xdc00);
			t->p += 6;
		}
	}
	t->n = put_utf8(t->held, cp);
	t->at = 0;
}

static struct text
text_of(const struct json_doc *doc, int i)
{
	const jsmntok_t *t = &doc->tok[i];

	return (struct text){
		.p = (const unsigned char *)doc->text + t->start,
		.end = (const unsigned char *)doc->text + t->end,
	};
}

static int
next_byte(struct text *t)
{
	if (t->at == t->n) {
		if (t->p == t->end)
			return -1;
		if (*t->p != '\\')
			return *t->p++;
		t->p++;
		unescape(t);
	}
	return t->held[t->at++];
}

/*
 * Equal keys. All keys of the document are sorted by object, hash and bytes,
 * so that equal ones come side by side: n log n whatever was sent, hash
 * collisions made on purpose included.
 */
struct key {
	uint64_t hash;
	int object;
	int tok;
};

static int
key_order(const void *va, const void *vb, void *doc)
{
	const struct key *a = va, *b = vb;
	struct text s, t;
	int c, d;

	if (a->object != b->object)
		return a->object < b->object ? -1 : 1;
	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	s = text_of(doc, a->tok);
	t = text_of(doc, b->tok);
	do {
		c = next_byte(&s);
		d = next_byte(&t);
	} while (c == d && c != -1);
	return c < d ? -1 : c > d;
}

static bool
is_key(const struct json_doc *doc, int i)
{
	int parent = doc->tok[i].parent;

	return parent >= 0 && doc->tok[parent].type == JSMN_OBJECT;
}

static size_t
keys_collect(const struct json_doc *doc, struct key *keys)
{
	struct text t;
	size_t n = 0;
	int c;

	for (int i = 0; i < doc->count; i++) {
		if (!is_key(doc, i))
			continue;
		keys[n] = (struct key){ 0xcbf29ce484222325, 0, i };
		keys[n].object = doc->tok[i].parent;
		t = text_of(doc, i);
		while ((c = next_byte(&t)) != -1)
			keys[n].hash = (keys[n].hash ^ (unsigned)c) *
			    0x100000001b3;
		n++;
	}
	return n;
}

static int
keys_differ(struct json_doc *doc, size_t count, struct error *err)
{
	struct key *keys;
	size_t n;
	int r = 0;

	if (count < 2)
		return 0;
	if ((keys = calloc(count, sizeof(*keys))) == NULL)
		return error_sys(err, "JSON");
	n = keys_collect(doc, keys);
	qsort_r(keys, n, sizeof(*keys), key_order, doc);
	for (size_t i = 1; i < n && r == 0; i++)
		if (key_order(&keys[i - 1], &keys[i], doc) == 0) {
			const jsmntok_t *t = &doc->tok[keys[i].tok];

			r = error_set(err, ERR_INPUT, "JSON: the key \"%.*s\" "
			    "is there twice, at byte %d",
			    t->end - t->start > 64 ? 64 : t->end - t->start,
			    doc->text + t->start, t->start);
		}
	free(keys);
	return r;
}

/* jsmn wants more after a number or word at the root, so take those here. */
static void
scalar(struct json_doc *doc, size_t len)
{
	int start = 0, end = (int)len;

	while (strchr(" \t\r\n", doc->text[start]) != NULL)
		start++;
	while (strchr(" \t\r\n", doc->text[end - 1]) != NULL)
		end--;
	doc->tok[0] = (jsmntok_t){ JSMN_PRIMITIVE, start, end, 0, -1 };
	if (doc->text[start] == '"')
		doc->tok[0] = (jsmntok_t){ JSMN_STRING, start + 1, end - 1,
		    0, -1 };
	doc->count = 1;
}

static struct json_doc *
parse(const char *text, size_t len, bool lax, struct error *err)
{
	struct check c = { .p = (const unsigned char *)text,
	    .end = (const unsigned char *)text + len };
	struct json_doc *doc;
	jsmn_parser parser;
	size_t n;

	if (len > INT32_MAX) {
		error_set(err, ERR_LIMIT, "JSON: longer than 2 GiB");
		return NULL;
	}
	if (!check_text(&c)) {
		error_set(err, c.code, "%s: %s, at byte %zu",
		    c.code == ERR_LIMIT ? "JSON" : "not JSON", c.why,
		    (size_t)(c.p - (const unsigned char *)text));
		return NULL;
	}
	n = c.values + c.keys;
	doc = malloc(sizeof(*doc) + n * sizeof(doc->tok[0]));
	if (doc == NULL) {
		error_sys(err, "JSON");
		return NULL;
	}
	doc->text = text;
	doc->lax = lax;
	doc->nfar = 0;
	jsmn_init(&parser);
	doc->count = jsmn_parse(&parser, text, len, doc->tok, (unsigned)n);
	if (doc->count < 0 && n == 1)
		scalar(doc, len);
	if (doc->count != (int)n) {
		error_set(err, ERR_INPUT, "not JSON");
		json_free(doc);
		return NULL;
	}
	if (!lax && keys_differ(doc, c.keys, err) == -1) {
		json_free(doc);
		return NULL;
	}
	return doc;
}

struct json_doc *
json_parse(const char *text, size_t len, struct error *err)
{
	return parse(text, len, false, err);
}

struct json_doc *
json_parse_lax(const char *text, size_t len, struct error *err)
{
	return parse(text, len, true, err);
}

void
json_free(struct json_doc *doc)
{
	free(doc);
}

struct json
json_root(const struct json_doc *doc)
{
	return doc != NULL ? (struct json){ doc, 0 } : none;
}

static const jsmntok_t *
tok(struct json v)
{
	return v.doc == NULL || v.tok < 0 ? NULL : &v.doc->tok[v.tok];
}

enum json_type
json_type(struct json v)
{
	const jsmntok_t *t = tok(v);

	if (t == NULL)
		return JSON_NONE;
	if (t->type == JSMN_OBJECT)
		return JSON_OBJECT;
	if (t->type == JSMN_ARRAY)
		return JSON_ARRAY;
	if (t->type == JSMN_STRING)
		return JSON_STRING;
	switch (v.doc->text[t->start]) {
	case 'n':
		return JSON_NULL;
	case 't':
	case 'f':
		return JSON_BOOL;
	default:
		return JSON_NUMBER;
	}
}

const char *
json_raw(struct json v, size_t *len)
{
	const jsmntok_t *t = tok(v);
	int quotes = t != NULL && t->type == JSMN_STRING;

	*len = t == NULL ? 0 : (size_t)(t->end - t->start + 2 * quotes);
	return t == NULL ? "" : v.doc->text + t->start - quotes;
}

size_t
json_count(struct json v)
{
	const jsmntok_t *t = tok(v);

	return t != NULL && (t->type == JSMN_OBJECT || t->type == JSMN_ARRAY) ?
	    (size_t)t->size : 0;
}

struct json
json_first(struct json v)
{
	if (json_count(v) == 0)
		return none;
	return (struct json){ v.doc,
	    v.tok + (json_type(v) == JSON_OBJECT ? 2 : 1) };
}

struct json
json_key(struct json member)
{
	const jsmntok_t *t = tok(member);

	if (t == NULL || t->parent < 0 || !is_key(member.doc, t->parent))
		return none;
	return (struct json){ member.doc, t->parent };
}

struct json
json_next(struct json member)
{
	const jsmntok_t *t = tok(member);
	int key = json_key(member).tok, scope, i;

	if (t == NULL || t->parent < 0)
		return none;
	scope = key >= 0 ? member.doc->tok[key].parent : t->parent;
	i = member.tok + 1;
	while (i < member.doc->count && member.doc->tok[i].start < t->end)
		i++;
	if (i == member.doc->count || member.doc->tok[i].parent != scope)
		return none;
	return (struct json){ member.doc, key >= 0 ? i + 1 : i };
}

struct json
json_at(struct json v, size_t i)
{
	struct json m;

	if (json_type(v) != JSON_ARRAY || i >= json_count(v))
		return none;
	for (m = json_first(v); i > 0; i--)
		m = json_next(m);
	return m;
}

static bool
equal(struct json v, const char *s, size_t len)
{
	struct text t = text_of(v.doc, v.tok);
	const char *end = s + len;
	int c;

	/* "\u006eame" and "name" are the same key to everyone else. */
	while ((c = next_byte(&t)) != -1)
		if (s == end || c != (unsigned char)*s++)
			return false;
	return s == end;
}

static struct json
member(struct json v, const char *key, size_t len)
{
	struct json m, found = none;

	if (json_type(v) != JSON_OBJECT)
		return none;
	for (m = json_first(v); m.tok >= 0; m = json_next(m)) {
		if (!equal(json_key(m), key, len))
			continue;
		found = m;
		if (!v.doc->lax)
			break;
	}
	return found;
}

struct json
json_get(struct json v, const char *key)
{
	return member(v, key, strlen(key));
}

struct json
json_path(struct json v, const char *path)
{
	size_t n;

	for (;; path += n + 1) {
		n = strcspn(path, ".");
		v = member(v, path, n);
		if (path[n] == '\0')
			return v;
	}
}

bool
json_is(struct json v, const char *s)
{
	return json_type(v) == JSON_STRING && equal(v, s, strlen(s));
}

/* An exponent's value; past a billion it is all the same. */
static long
exponent(const char *p, const char *end)
{
	bool minus = p < end && *p == '-';
	long e = 0;

	if (p < end && (*p == '-' || *p == '+'))
		p++;
	for (; p < end && e < 1000000000; p++)
		e = e * 10 + (*p - '0');
	return minus ? -e : e;
}

bool
json_int(struct json v, long min, long max, long *out)
{
	size_t len;
	const char *p = json_raw(v, &len), *end = p + len, *e = p;
	long n = 0, point = 0, seen = 0;
	bool minus, fraction = false;

	if (json_type(v) != JSON_NUMBER)
		return false;
	if ((minus = *p == '-'))
		p++;
	for (e = p; e < end && (*e | 32) != 'e'; e++) {
		fraction |= *e == '.';
		point += !fraction;
	}
	if (e < end)
		point += exponent(e + 1, end);
	/* Digits before the point make the number, those after must be 0. */
	for (; p < e; p++) {
		if (*p == '.')
			continue;
		if (seen++ < point) {
			if (__builtin_mul_overflow(n, 10L, &n) ||
			    __builtin_sub_overflow(n, (long)(*p - '0'), &n))
				return false;
		} else if (*p != '0') {
			return false;
		}
	}
	for (; n != 0 && seen < point; seen++)
		if (__builtin_mul_overflow(n, 10L, &n))
			return false;
	if (!minus && __builtin_sub_overflow(0L, n, &n))
		return false;
	if (n < min || n > max)
		return false;
	*out = n;
	return true;
}

bool
json_double(struct json v, double *out)
{
	struct buf text;
	size_t len;
	const char *raw = json_raw(v, &len);
	double d = 0;
	bool good;

	if (json_type(v) != JSON_NUMBER)
		return false;
	buf_init(&text, len);
	buf_put(&text, raw, len);
	good = buf_ok(&text);
	if (good)
		d = strtod(text.data, NULL);
	buf_free(&text);
	if (!good || !isfinite(d))
		return false;
	*out = d;
	return true;
}

bool
json_bool(struct json v, bool *out)
{
	size_t len;

	if (json_type(v) != JSON_BOOL)
		return false;
	*out = *json_raw(v, &len) == 't';
	return true;
}

size_t
json_unescape(const char *raw, size_t len, bool whole, size_t *at, char *dst,
    size_t size)
{
	enum { ESCAPE = 12 };	/* bytes of the longest, two surrogates */
	const unsigned char *start = (const unsigned char *)raw, *slash;
	struct text t = { .p = start + *at, .end = start + len };
	size_t n = 0, run;

	while (t.p < t.end && n < size) {
		run = (size_t)(t.end - t.p);
		if (run > size - n)
			run = size - n;
		if ((slash = memchr(t.p, '\\', run)) != NULL)
			run = (size_t)(slash - t.p);
		memcpy(dst + n, t.p, run);
		n += run;
		t.p += run;
		if (slash == NULL)
			continue;
		if (size - n < sizeof(t.held))
			break;		/* the escape may not fit */
		if (!whole && t.end - t.p < ESCAPE)
			break;
		t.p++;
		unescape(&t);
		memcpy(dst + n, t.held, t.n);
		n += t.n;
	}
	*at = (size_t)(t.p - start);
	return n;
}

size_t
json_piece(struct json v, size_t *at, char *dst, size_t size)
{
	struct text t;

	if (json_type(v) != JSON_STRING)
		return 0;
	t = text_of(v.doc, v.tok);
	return json_unescape((const char *)t.p, (size_t)(t.end - t.p), true,
	    at, dst, size);
}

bool
json_text(struct json v, struct buf *out)
{
	char piece[4096];
	size_t at = 0, n;

	if (json_type(v) != JSON_STRING)
		return false;
	buf_puts(out, "");	/* so that data is not NULL */
	while ((n = json_piece(v, &at, piece, sizeof(piece))) != 0)
		buf_put(out, piece, n);
	return buf_ok(out);
}

/* Bytes of the string and how many of them begin a code point, or are NUL. */
static size_t
measure(struct json v, size_t *chars, bool *nul)
{
	char piece[4096];
	size_t at = 0, n, bytes = 0;

	*chars = 0;
	*nul = false;
	while ((n = json_piece(v, &at, piece, sizeof(piece))) != 0) {
		bytes += n;
		for (size_t i = 0; i < n; i++)
			*chars += ((unsigned char)piece[i] & 0xc0) != 0x80;
		*nul = *nul || memchr(piece, 0, n) != NULL;
	}
	return bytes;
}

size_t
json_chars(struct json v)
{
	size_t chars;
	bool nul;

	(void)measure(v, &chars, &nul);
	return chars;
}

size_t
json_bytes(struct json v)
{
	size_t chars;
	bool nul;

	return measure(v, &chars, &nul);
}

bool
json_str(struct json v, char *dst, size_t size)
{
	struct text t;
	size_t chars;
	bool nul;
	int c;

	if (json_type(v) != JSON_STRING || measure(v, &chars, &nul) >= size ||
	    nul)
		return false;
	t = text_of(v.doc, v.tok);
	while ((c = next_byte(&t)) != -1)
		*dst++ = (char)c;
	*dst = '\0';
	return true;
}

/* --- strings that are elsewhere ----------------------------------------- */

void
json_far_set(struct json_doc *doc, const char *base,
    const struct spill_span *spans, size_t n)
{
	doc->far_base = base;
	doc->far = spans;
	doc->nfar = n;
}

/* How many of them begin before the byte at of the text. */
static size_t
fars_before(const struct json_doc *doc, long at)
{
	size_t lo = 0, hi = doc->nfar, mid;

	at += doc->text - doc->far_base;
	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if ((long)doc->far[mid].at < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

const struct spill_span *
json_far(struct json v)
{
	const jsmntok_t *t = tok(v);
	size_t i;

	if (t == NULL || t->type != JSMN_STRING || v.doc->nfar == 0)
		return NULL;
	i = fars_before(v.doc, t->start - 1);
	return i < fars_before(v.doc, t->start) ? &v.doc->far[i] : NULL;
}

size_t
json_fars(struct json v)
{
	const jsmntok_t *t = tok(v);

	if (t == NULL || v.doc->nfar == 0)
		return 0;
	return fars_before(v.doc, t->end + 1) -
	    fars_before(v.doc, t->start - 1);
}
