/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../buf.h"
#include "../../excerpt.h"
#include "../../utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Pieces take turns at the streams; each is repeated to fill the budget. */
static struct excerpt *
run(const uint8_t *data, size_t size, size_t piece)
{
	struct excerpt *x = excerpt_open(128 + data[0]);
	size_t times = 1 + data[1] % 64, half = size / 2, n;

	assert(x != NULL);
	for (int stream = 0; stream < 2; stream++) {
		const uint8_t *p = stream == 0 ? data : data + half;
		size_t len = stream == 0 ? half : size - half;

		for (size_t i = 0; i < times; i++)
			for (size_t at = 0; at < len; at += n) {
				n = len - at < piece ? len - at : piece;
				assert(excerpt_put(x, stream, p + at, n) == 0);
			}
	}
	return x;
}

static size_t
count(const struct buf *b)
{
	const unsigned char *p = (const unsigned char *)b->data;
	const unsigned char *end = p + b->len;
	size_t n, chars = 0;

	for (; p < end; p += n, chars++) {
		n = utf8_len(p, end);
		assert(n != 0);
	}
	return chars;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t pieces[] = { SIZE_MAX, 1, 7 };
	struct excerpt_totals t, first[2];
	struct buf out, want[2];
	struct excerpt *x;
	char line[40];
	size_t chars;

	if (size < 2)
		return 0;
	for (size_t i = 0; i < 3; i++) {
		x = run(data, size, pieces[i]);
		chars = 0;
		for (int s = 0; s < 2; s++) {
			buf_init(&out, 1 << 20);
			buf_puts(&out, "");
			excerpt_text(x, s, &out, &t);
			assert(buf_ok(&out));
			chars += count(&out);
			assert(t.truncated || count(&out) == t.total);
			if (i == 0) {
				want[s] = out;
				first[s] = t;
				continue;
			}
			assert(memcmp(&t, &first[s], sizeof(size_t) * 3) == 0);
			assert(out.len == want[s].len &&
			    memcmp(out.data, want[s].data, out.len) == 0);
			buf_free(&out);
		}
		assert(chars <= 128u + data[0]);
		excerpt_last_line(x, line, sizeof(line));
		assert(strlen(line) < sizeof(line));
		excerpt_close(x);
	}
	buf_free(&want[0]);
	buf_free(&want[1]);
	return 0;
}
