/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buf - a growable run of bytes with a ceiling.
 *
 * Writers never report failure one by one. The first write that would pass
 * the ceiling, or that finds no memory, marks the buffer failed and drops its
 * bytes; so does every later one. Ask buf_ok() once, when the writing is done.
 */
#ifndef BUF_H
#define BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
	char *data;		/* owned; NUL-terminated once non-NULL */
	size_t len;
	size_t cap;
	size_t max;		/* ceiling for len, fixed by buf_init() */
	bool failed;
};

void buf_init(struct buf *b, size_t max);
void buf_free(struct buf *b);
bool buf_ok(const struct buf *b);
size_t buf_room(const struct buf *b);	/* bytes left below the ceiling */

void buf_put(struct buf *b, const void *data, size_t len);
void buf_puts(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Drop the first n bytes; n must not be greater than b->len. */
void buf_drop(struct buf *b, size_t n);
/* Empty it and clear the mark; memory above keep bytes is given back. */
void buf_reset(struct buf *b, size_t keep);
/* As buf_free(), the bytes overwritten first: for credentials. */
void buf_wipe(struct buf *b);

#endif
