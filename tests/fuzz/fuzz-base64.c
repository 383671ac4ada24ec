/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../base64.h"
#include "../../buf.h"
#include "../../error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int
decode(const uint8_t *data, size_t size, size_t piece, struct buf *out)
{
	struct base64 b = { .n = 0 };
	struct error err;
	size_t n;

	for (size_t at = 0; at < size; at += n) {
		n = size - at < piece ? size - at : piece;
		if (base64_decode(&b, data + at, n, out, &err) == -1)
			return -1;
	}
	return base64_decode_end(&b, &err);
}

static void
encode(const void *data, size_t size, struct buf *out)
{
	struct base64 b = { .n = 0 };

	base64_encode(&b, data, size, out);
	base64_encode_end(&b, out);
}

static void
squeeze(const uint8_t *data, size_t size, struct buf *out)
{
	for (size_t i = 0; i < size; i++)
		if (memchr(" \t\r\n", data[i], 4) == NULL)
			buf_put(out, data + i, 1);
}

/* Text that is taken has one meaning: writing that gives the text again. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf bytes, slow, text, plain;
	int rc;

	buf_init(&bytes, 1 << 22);
	buf_init(&slow, 1 << 22);
	buf_init(&text, 1 << 22);
	buf_init(&plain, 1 << 22);
	buf_puts(&bytes, "");
	buf_puts(&slow, "");
	buf_puts(&text, "");
	buf_puts(&plain, "");
	rc = decode(data, size, SIZE_MAX, &bytes);
	assert(decode(data, size, 1, &slow) == rc);
	if (rc == 0) {
		assert(bytes.len == slow.len &&
		    memcmp(bytes.data, slow.data, slow.len) == 0);
		encode(bytes.data, bytes.len, &text);
		squeeze(data, size, &plain);
		assert(strcmp(text.data, plain.data) == 0);
	}
	buf_reset(&text, 0);
	buf_reset(&bytes, 0);
	buf_puts(&text, "");
	encode(data, size, &text);
	assert(decode((const uint8_t *)text.data, text.len, 5, &bytes) == 0);
	assert(bytes.len == size &&
	    (size == 0 || memcmp(bytes.data, data, size) == 0));
	buf_free(&bytes);
	buf_free(&slow);
	buf_free(&text);
	buf_free(&plain);
	return 0;
}
