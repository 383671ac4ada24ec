/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#define ZLIB_CONST
#include <zlib.h>

#include "cargo.h"

enum {
	GZIP_WINDOW = 15 + 16,	/* zlib: 32 KB, and only gzip's header */
	GZIP_MIN = 18,		/* header and trailer */
};

struct cargo {
	const unsigned char *data;
	size_t len, given;	/* of what is given, unpacked */
	bool packed;
	z_stream z;
};

/* The trailer ends with the length, the lowest byte first. */
static size_t
unpacked_len(const unsigned char *data, size_t len)
{
	size_t n = 0;

	if (len < GZIP_MIN)
		return 1;	/* of which none will come */
	for (size_t i = 1; i <= 4; i++)
		n = n << 8 | data[len - i];
	return n;
}

struct cargo *
cargo_open(const void *data, size_t len, bool packed)
{
	struct cargo *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->data = data;
	c->len = len;
	c->packed = packed;
	if (!packed)
		return c;
	c->len = unpacked_len(data, len);
	c->z.next_in = data;
	c->z.avail_in = (unsigned)len;
	if (inflateInit2(&c->z, GZIP_WINDOW) != Z_OK) {
		free(c);
		return NULL;
	}
	return c;
}

void
cargo_close(struct cargo *c)
{
	if (c == NULL)
		return;
	if (c->packed)
		(void)inflateEnd(&c->z);
	free(c);
}

size_t
cargo_len(const struct cargo *c)
{
	return c->len;
}

/* Is this the end, as the trailer has it? It may not have been looked at. */
static bool
ends_well(struct cargo *c, int r)
{
	unsigned char past;

	if (r == Z_OK) {
		c->z.next_out = &past;
		c->z.avail_out = sizeof(past);
		r = inflate(&c->z, Z_NO_FLUSH);
	}
	return r == Z_STREAM_END && c->z.total_out == c->len;
}

static bool
unpack(struct cargo *c, void *to, size_t size)
{
	int r;

	c->z.next_out = to;
	c->z.avail_out = (unsigned)size;
	r = inflate(&c->z, Z_NO_FLUSH);
	if (c->z.avail_out != 0)
		return false;
	return c->given + size == c->len ? ends_well(c, r) : r == Z_OK;
}

long
cargo_give(struct cargo *c, void *to, size_t size)
{
	if (size > c->len - c->given)
		size = c->len - c->given;
	if (!c->packed)
		memcpy(to, c->data + c->given, size);
	else if (size > 0 && !unpack(c, to, size))
		return -1;
	c->given += size;
	return (long)size;
}
