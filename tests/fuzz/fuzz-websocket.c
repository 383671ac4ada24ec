/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../buf.h"
#include "../../error.h"
#include "../../budget.h"
#include "../../websocket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int
got(void *arg, enum ws_op op, const char *data, size_t len)
{
	buf_printf(arg, "%d:%zu:", (int)op, len);
	buf_put(arg, data, len);
	return 0;
}

static int
frames(const uint8_t *data, size_t size, size_t piece, struct buf *out)
{
	struct error err;
	struct ws_reader r;
	size_t n;
	int rc = 0;

	ws_reader_init(&r);
	for (size_t at = 0; at < size && rc == 0; at += n) {
		n = size - at < piece ? size - at : piece;
		rc = ws_feed(&r, data + at, n, got, out, &err);
	}
	ws_reader_free(&r);
	return rc;
}

static int
handshake(const uint8_t *data, size_t size, size_t piece, struct buf *out)
{
	static const unsigned char nonce[17] = "the sample nonce";
	struct error err;
	struct ws_handshake h;
	size_t n, used;
	int rc = 0;

	ws_handshake_init(&h, nonce, "a, b");
	for (size_t at = 0; at < size && rc == 0; at += used) {
		n = size - at < piece ? size - at : piece;
		rc = ws_handshake(&h, data + at, n, &used, &err);
		assert(used <= n && (rc != 0 || used == n));
	}
	if (rc == 0) {
		rc = ws_handshake(&h, NULL, 0, &used, &err);
		assert(rc == -1);
	}
	assert(h.body.len <= 65536 && strlen(h.protocol) < 64);
	buf_printf(out, "%ld %s ", h.status, h.protocol);
	buf_put(out, h.body.data, h.body.len);
	ws_handshake_free(&h);
	return rc;
}

/* In one piece, byte by byte or in threes: the same must come out. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t pieces[] = { SIZE_MAX, 1, 3 };
	struct buf out[3];
	int rc[3];

	if (size == 0)
		return 0;
	for (size_t i = 0; i < 3; i++) {
		buf_init(&out[i], 4 << 20);
		buf_puts(&out[i], "");
		rc[i] = (data[0] & 1) != 0 ?
		    handshake(data + 1, size - 1, pieces[i], &out[i]) :
		    frames(data + 1, size - 1, pieces[i], &out[i]);
		assert(rc[i] == rc[0]);
		assert(out[i].len == out[0].len);
		assert(memcmp(out[i].data, out[0].data, out[0].len) == 0);
	}
	for (size_t i = 0; i < 3; i++)
		buf_free(&out[i]);
	return 0;
}
