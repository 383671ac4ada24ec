/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "../../buf.h"
#include "../../http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
head(const struct http *h, struct buf *out)
{
	char dst[64];
	long n;

	assert(h->method[0] != '\0' && h->target[0] != '\0');
	assert(h->n_fields <= HTTP_FIELDS);
	/* Never two lengths. */
	assert(http_count(h, "Content-Length") +
	    http_count(h, "Transfer-Encoding") <= 1);
	n = http_query(strchr(h->target, '?'), "a", dst, sizeof(dst));
	assert(n < (long)sizeof(dst));
	buf_printf(out, "[%s %s %d %d %d]", h->method, h->target, h->minor,
	    h->keep_alive, h->expects);
}

static int
requests(const uint8_t *data, size_t size, size_t piece, struct buf *out)
{
	const char *p, *text = (const char *)data;
	struct http_piece got;
	enum http_event e;
	struct http h;
	size_t at, n;

	http_init(&h, 300, 1000);
	for (at = 0; at < size; at += n) {
		n = size - at < piece ? size - at : piece;
		p = text + at;
		while ((e = http_feed(&h, &p, text + at + n, &got)) !=
		    HTTP_MORE) {
			if (e == HTTP_HEAD)
				head(&h, out);
			if (e == HTTP_DATA) {
				assert(got.len > 0 && h.body_len <= 1000);
				buf_put(out, got.data, got.len);
			}
			if (e == HTTP_END)
				http_next(&h);
			if (e == HTTP_BAD)
				goto out;
		}
		assert(p == text + at + n);
	}
out:
	n = (size_t)h.status;
	http_free(&h);
	return (int)n;
}

/* In one piece, byte by byte or in threes: the same must come out. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t pieces[] = { SIZE_MAX, 1, 3 };
	struct buf out[3];
	int rc[3];

	for (size_t i = 0; i < 3; i++) {
		buf_init(&out[i], 4 << 20);
		buf_puts(&out[i], "");
		rc[i] = requests(data, size, pieces[i], &out[i]);
		assert(rc[i] == rc[0]);
		/* A body too long is refused before or after its first part. */
		assert(rc[0] == 413 || (out[i].len == out[0].len &&
		    memcmp(out[i].data, out[0].data, out[0].len) == 0));
	}
	for (size_t i = 0; i < 3; i++)
		buf_free(&out[i]);
	return 0;
}
