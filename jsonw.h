/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jsonw - write one JSON document into a struct buf.
 *
 * key is NULL inside an array and at the root. Nothing here returns an error:
 * the buffer remembers (buf.h), and a misplaced key or an unclosed object
 * trips an assertion, because that is our bug and never the client's. Output
 * is one line of ASCII-safe UTF-8: controls, U+2028, U+2029 and DEL escaped;
 * ill-formed bytes of jsonw_bytes() become U+FFFD.
 */
#ifndef JSONW_H
#define JSONW_H

#include <stdbool.h>
#include <stddef.h>

struct buf;

struct jsonw {
	struct buf *out;	/* borrowed */
	int depth;
	unsigned long objects;	/* bit n: the scope at depth n takes keys */
	bool comma;		/* something precedes at this depth */
};

void jsonw_init(struct jsonw *w, struct buf *out);
void jsonw_object(struct jsonw *w, const char *key);
void jsonw_array(struct jsonw *w, const char *key);
void jsonw_end(struct jsonw *w);		/* closes the innermost */
void jsonw_str(struct jsonw *w, const char *key, const char *s);
void jsonw_bytes(struct jsonw *w, const char *key, const void *s, size_t len);
void jsonw_int(struct jsonw *w, const char *key, long n);
void jsonw_double(struct jsonw *w, const char *key, double d);
void jsonw_bool(struct jsonw *w, const char *key, bool b);
void jsonw_null(struct jsonw *w, const char *key);
/* How many of the bytes take at most max as jsonw_bytes() writes them, without
 * the quotes; whole characters. *took: what those take. */
size_t jsonw_fit(const void *s, size_t len, size_t max, size_t *took);
/* One value that is JSON already. */
void jsonw_raw(struct jsonw *w, const char *key, const char *s, size_t len);

#endif
