/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../buf.h"
#include "../../error.h"
#include "../../grpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Read the fields and write them again: reading that gives the same. */
static void
fields(const char *data, size_t len)
{
	const char *p = data, *end = data + len, *q;
	struct pb_field f, g;
	struct buf again;

	while (pb_next(&p, end, &f) == 1) {
		assert(f.number > 0 && p <= end);
		buf_init(&again, 1 << 22);
		if (f.type == 2) {
			assert(f.data + f.len == p);
			pb_bytes(&again, f.number, f.data, f.len);
		} else {
			pb_varint(&again, f.number, f.value);
		}
		q = again.data;
		assert(pb_next(&q, again.data + again.len, &g) == 1);
		assert(q == again.data + again.len);
		assert(g.number == f.number && g.len == f.len &&
		    g.value == f.value);
		buf_free(&again);
	}
}

static int
got(void *arg, const char *data, size_t len)
{
	fields(data, len);
	buf_printf(arg, "%zu:", len);
	buf_put(arg, data, len);
	return 0;
}

static int
feed(const uint8_t *data, size_t size, size_t piece, struct buf *out)
{
	struct error err;
	struct grpc_reader r;
	size_t n;
	int rc = 0;

	grpc_reader_init(&r);
	for (size_t at = 0; at < size && rc == 0; at += n) {
		n = size - at < piece ? size - at : piece;
		rc = grpc_feed(&r, data + at, n, got, out, &err);
	}
	(void)grpc_reader_idle(&r);
	grpc_reader_free(&r);
	return rc;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole, bytes;
	char text[40];
	int rc;

	buf_init(&whole, 1 << 22);
	buf_init(&bytes, 1 << 22);
	buf_puts(&whole, "");
	buf_puts(&bytes, "");
	rc = feed(data, size, SIZE_MAX, &whole);
	assert(feed(data, size, 1, &bytes) == rc);
	assert(whole.len == bytes.len);
	assert(memcmp(whole.data, bytes.data, whole.len) == 0);
	fields((const char *)data, size);
	grpc_message_decode((const char *)data, size, text, sizeof(text));
	assert(strlen(text) < sizeof(text));
	buf_free(&whole);
	buf_free(&bytes);
	return 0;
}
