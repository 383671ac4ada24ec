/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A result from a pod, whole and byte by byte: both come to the same end, what
 * is written is JSON and fits. The first bytes choose the caps.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../buf.h"
#include "../../error.h"
#include "../../job-result.h"
#include "../../job-state.h"
#include "../../json.h"
#include "../../jsonw.h"

enum { FIXED = 4096 };		/* keys, and a message of 400 bytes */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int
feed(struct job_result *r, const char *data, size_t size, size_t piece)
{
	struct error err;
	size_t n;

	for (size_t at = 0; at < size; at += n) {
		n = size - at < piece ? size - at : piece;
		if (job_result_feed(r, data + at, n, &err) == -1)
			return -1;
	}
	return 0;
}

static void
write_out(struct job_result *r, size_t room, struct buf *b)
{
	static const struct job_pod pod = { .exit_code = -1 };
	struct json_doc *d;
	struct error err;
	struct jsonw w;

	job_result_judge(r, &pod, 60);
	buf_init(b, 1 << 24);
	jsonw_init(&w, b);
	job_result_write(&w, NULL, r);
	if (!buf_ok(b))
		return;
	assert(b->len <= room + FIXED);
	d = json_parse_lax(b->data, b->len, &err);
	assert(d != NULL || err.code == ERR_LIMIT);
	json_free(d);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct job_result a, b;
	struct buf x, y;
	size_t room;
	long max;
	int ra, rb;

	if (size < 2)
		return 0;
	max = data[0] * 16L;
	room = data[1] * 64U;
	job_result_init(&a, max, room);
	job_result_init(&b, max, room);
	ra = feed(&a, (const char *)data + 2, size - 2, size);
	rb = feed(&b, (const char *)data + 2, size - 2, 1);
	assert(ra == rb);
	write_out(&a, room, &x);
	write_out(&b, room, &y);
	if (ra == 0 && buf_ok(&x) && buf_ok(&y))
		assert(a.total[0] == b.total[0] && a.files == b.files);
	buf_free(&x);
	buf_free(&y);
	job_result_free(&a);
	job_result_free(&b);
	return 0;
}
