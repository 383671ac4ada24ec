/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "jsonw.h"
#include "utf8.h"

enum { DEPTH = 8 * sizeof(unsigned long) };

void
jsonw_init(struct jsonw *w, struct buf *out)
{
	*w = (struct jsonw){ .out = out };
}

/* The escape for the character of n bytes at p; 0: it needs none. */
static size_t
escape(char esc[6], const unsigned char *p, size_t n)
{
	static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
	static const char hex[] = "0123456789abcdef";
	const char *f;
	unsigned c = *p;

	memcpy(esc, "\\u0000", 6);
	if (n == 1 && c != 0 && (f = strchr(from, (int)c)) != NULL) {
		esc[1] = to[f - from];
		return 2;
	}
	if (n == 2)
		c = (c & 31) << 6 | (p[1] & 63);
	else if (n == 3)
		c = (c & 15) << 12 | (p[1] & 63u) << 6 | (p[2] & 63);
	if (n == 4 || (c >= ' ' && c < 0x7f) ||
	    (c >= 0xa0 && c != 0x2028 && c != 0x2029))
		return 0;
	for (int i = 0; i < 4; i++)
		esc[2 + i] = hex[c >> (12 - 4 * i) & 15];
	return 6;
}

static bool
plain(unsigned char c)
{
	return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

static uint64_t
any(uint64_t bytes, uint64_t byte)
{
	const uint64_t ones = 0x0101010101010101;

	bytes ^= ones * byte;
	return (bytes - ones) & ~bytes;
}

/* Where the next byte is that may not be plain: eight at a time first. */
static const unsigned char *
skip_plain(const unsigned char *p, const unsigned char *end)
{
	const uint64_t high = 0x8080808080808080;
	uint64_t v;

	for (; end - p >= 8; p += 8) {
		memcpy(&v, p, 8);
		if (((v | (v - 0x2020202020202020) | any(v, '"') |
		    any(v, '\\') | any(v, 0x7f)) & high) != 0)
			break;
	}
	while (p < end && plain(*p))
		p++;
	return p;
}

static void
quote(struct jsonw *w, const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s, *end = p + len;
	const unsigned char *run;
	char esc[6];
	size_t n, k;

	buf_put(w->out, "\"", 1);
	while (p < end) {
		run = p;
		p = skip_plain(p, end);
		if (p > run)
			buf_put(w->out, run, (size_t)(p - run));
		if (p == end)
			break;
		if ((n = utf8_len(p, end)) == 0) {
			buf_puts(w->out, "\xef\xbf\xbd");
			n = utf8_bad(p, end);
		} else if ((k = escape(esc, p, n)) > 0) {
			buf_put(w->out, esc, k);
		} else {
			buf_put(w->out, p, n);
		}
		p += n;
	}
	buf_put(w->out, "\"", 1);
}

size_t
jsonw_fit(const void *s, size_t len, size_t max, size_t *took)
{
	const unsigned char *p = s;
	char esc[6];
	size_t at, n, k;

	*took = 0;
	for (at = 0; at < len; at += n, *took += k) {
		n = k = 1;
		if (!plain(p[at])) {
			n = utf8_len(p + at, p + len);
			k = n == 0 ? 3 : escape(esc, p + at, n);
			k = k == 0 ? n : k;
			n = n == 0 ? utf8_bad(p + at, p + len) : n;
		}
		if (k > max - *took)
			break;
	}
	return at;
}

static void
item(struct jsonw *w, const char *key)
{
	assert((key != NULL) == (w->objects >> w->depth & 1));
	assert(w->depth > 0 || !w->comma);
	if (w->comma)
		buf_put(w->out, ",", 1);
	w->comma = true;
	if (key != NULL) {
		quote(w, key, strlen(key));
		buf_put(w->out, ":", 1);
	}
}

static void
open_with(struct jsonw *w, const char *key, char bracket)
{
	item(w, key);
	buf_put(w->out, &bracket, 1);
	w->comma = false;
	w->depth++;
	assert(w->depth < DEPTH);
	w->objects &= ~(1UL << w->depth);
	if (bracket == '{')
		w->objects |= 1UL << w->depth;
}

void
jsonw_object(struct jsonw *w, const char *key)
{
	open_with(w, key, '{');
}

void
jsonw_array(struct jsonw *w, const char *key)
{
	open_with(w, key, '[');
}

void
jsonw_end(struct jsonw *w)
{
	assert(w->depth > 0);
	buf_put(w->out, w->objects >> w->depth & 1 ? "}" : "]", 1);
	w->comma = true;
	w->depth--;
}

void
jsonw_bytes(struct jsonw *w, const char *key, const void *s, size_t len)
{
	item(w, key);
	quote(w, s, len);
}

void
jsonw_str(struct jsonw *w, const char *key, const char *s)
{
	jsonw_bytes(w, key, s, strlen(s));
}

void
jsonw_int(struct jsonw *w, const char *key, long n)
{
	item(w, key);
	buf_printf(w->out, "%ld", n);
}

void
jsonw_double(struct jsonw *w, const char *key, double d)
{
	char text[32];

	if (!isfinite(d)) {
		jsonw_null(w, key);	/* JSON has no word for it */
		return;
	}
	/* The shortest of these that reads back as the same number. */
	for (int digits = 15; digits <= 17; digits++) {
		(void)snprintf(text, sizeof(text), "%.*g", digits, d);
		if (!(strtod(text, NULL) < d) && !(strtod(text, NULL) > d))
			break;
	}
	item(w, key);
	buf_puts(w->out, text);
}

void
jsonw_bool(struct jsonw *w, const char *key, bool b)
{
	item(w, key);
	buf_puts(w->out, b ? "true" : "false");
}

void
jsonw_null(struct jsonw *w, const char *key)
{
	item(w, key);
	buf_puts(w->out, "null");
}

void
jsonw_raw(struct jsonw *w, const char *key, const char *s, size_t len)
{
	item(w, key);
	buf_put(w->out, s, len);
}
