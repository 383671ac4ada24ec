/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"

void
buf_init(struct buf *b, size_t max)
{
	assert(max < SIZE_MAX / 4);
	*b = (struct buf){ .max = max };
}

void
buf_free(struct buf *b)
{
	free(b->data);
	*b = (struct buf){ .max = b->max };
}

bool
buf_ok(const struct buf *b)
{
	return !b->failed;
}

size_t
buf_room(const struct buf *b)
{
	return b->failed ? 0 : b->max - b->len;
}

/* Make room for len more bytes and a NUL. */
static bool
grow(struct buf *b, size_t len)
{
	size_t cap = b->cap != 0 ? b->cap : 256;
	char *data;

	if (b->failed || len > buf_room(b)) {
		b->failed = true;
		return false;
	}
	if (b->len + len < b->cap)
		return true;
	while (cap < b->len + len + 1)
		cap *= 2;
	if (cap > b->max + 1)
		cap = b->max + 1;
	if ((data = realloc(b->data, cap)) == NULL) {
		b->failed = true;
		return false;
	}
	b->data = data;
	b->cap = cap;
	return true;
}

void
buf_put(struct buf *b, const void *data, size_t len)
{
	if (!grow(b, len))
		return;
	if (len != 0)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void
buf_puts(struct buf *b, const char *s)
{
	buf_put(b, s, strlen(s));
}

void
buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0) {
		b->failed = true;
		return;
	}
	if (!grow(b, (size_t)n))
		return;
	va_start(ap, fmt);
	(void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

void
buf_drop(struct buf *b, size_t n)
{
	assert(n <= b->len);
	if (n == 0)
		return;
	memmove(b->data, b->data + n, b->len - n + 1);
	b->len -= n;
}

void
buf_reset(struct buf *b, size_t keep)
{
	if (b->cap > keep) {
		buf_free(b);
		return;
	}
	b->len = 0;
	b->failed = false;
	if (b->data != NULL)
		b->data[0] = '\0';
}

void
buf_wipe(struct buf *b)
{
	if (b->data != NULL)
		explicit_bzero(b->data, b->cap);
	buf_free(b);
}
