/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json - read one JSON document without copying it.
 *
 * json_parse() accepts exactly RFC 8259 in UTF-8 (jsmn alone is more
 * forgiving), without a lone surrogate and without two equal keys in one
 * object, and turns the text into a flat array of jsmn tokens. Everything
 * else works on a struct json: a borrowed window on one value. A window is
 * valid as long as its document, is passed by value, and is never NULL:
 * asking for a member that is not there gives JSON_NONE, and asking that for
 * a member gives JSON_NONE again. So a path is walked in one expression and
 * checked once, at its end.
 */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct error;
struct json_doc;
struct spill_span;

enum json_type {
	JSON_NONE, JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING,
	JSON_ARRAY, JSON_OBJECT
};

struct json {
	const struct json_doc *doc;
	int tok;		/* index of its token; -1 for JSON_NONE */
};

/*
 * text is borrowed: it must outlive the document. Depth and number of values
 * are bounded by budget.h. The error says what and at which byte.
 * json_parse_lax() is for the API server's and the pod's bytes: as strict,
 * but of equal keys the last one counts, as it does for them.
 */
struct json_doc *json_parse(const char *text, size_t len, struct error *err);
struct json_doc *json_parse_lax(const char *text, size_t len,
    struct error *err);
void json_free(struct json_doc *doc);
struct json json_root(const struct json_doc *doc);	/* NULL: JSON_NONE */

enum json_type json_type(struct json v);
size_t json_count(struct json v);	/* members or elements */
struct json json_get(struct json v, const char *key);
struct json json_at(struct json v, size_t i);
/* "a.b.c", for fixed paths of keys without dots. */
struct json json_path(struct json v, const char *path);

/* Walk: for (m = json_first(v); json_type(m) != JSON_NONE; m = json_next(m)) */
struct json json_first(struct json v);	/* first element or member's value */
struct json json_next(struct json member);
/* A member's key; JSON_NONE in arrays. */
struct json json_key(struct json member);

bool json_is(struct json v, const char *s);	/* a string equal to s */
/* An integral number (1, 1.0, 1e2) from min to max. */
bool json_int(struct json v, long min, long max, long *out);
bool json_double(struct json v, double *out);
bool json_bool(struct json v, bool *out);
bool json_text(struct json v, struct buf *out);		/* unescaped, UTF-8 */
bool json_str(struct json v, char *dst, size_t size);	/* no NUL; fits */
/* Code points and bytes of a string once unescaped, without unescaping it. */
size_t json_chars(struct json v);
size_t json_bytes(struct json v);
/* The bytes as sent; a string with its quotes. */
const char *json_raw(struct json v, size_t *len);

/*
 * Strings that have left the text (spill.h), where it has "" for them now:
 * spans are borrowed, as text is, and count from base, which is in it or just
 * before it. json_far(): where v's bytes are; NULL: here. json_fars(): how many
 * such strings are in v.
 */
void json_far_set(struct json_doc *doc, const char *base,
    const struct spill_span *spans, size_t n);
const struct spill_span *json_far(struct json v);
size_t json_fars(struct json v);

/*
 * A string's bytes in pieces, for strings too long to hold twice: starts at
 * *at = 0; fills dst with at most size (>= 4) bytes and returns how many; 0
 * at the end.
 */
size_t json_piece(struct json v, size_t *at, char *dst, size_t size);
/* The same for raw bytes of a string known to be well-formed, from an escape's
 * begin on or between two; whole: they are not cut at their end, else what may
 * be cut is left. */
size_t json_unescape(const char *raw, size_t len, bool whole, size_t *at,
    char *dst, size_t size);

#endif
