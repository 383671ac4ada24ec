/* SPDX-License-Identifier: Apache-2.0 */
/* The answer of a pod: read in two cuts, it says the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../buf.h"
#include "../../error.h"
#include "../../legacy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
add(void *arg, const struct event *ev)
{
	struct buf *b = arg;

	if (ev->len == 0 || (ev->channel != 1 && ev->channel != 2))
		abort();
	buf_put(&b[ev->channel - 1], ev->data, ev->len);
}

static int
read_all(const char *text, size_t len, size_t step, struct buf b[2],
    long *code)
{
	struct error err = { ERR_NONE, "" };
	struct legacy_answer a;
	int r = 0;

	buf_init(&b[0], 8 << 20);
	buf_init(&b[1], 8 << 20);
	legacy_answer_init(&a, "MARK", add, b);
	for (size_t at = 0; r == 0 && at < len; at += step)
		r = legacy_answer_feed(&a, text + at, len - at < step ?
		    len - at : step);
	if (r == 0)
		r = legacy_answer_end(&a, code, &err);
	if (r == 0 ? err.code != ERR_NONE : *code != 0)
		abort();
	legacy_answer_free(&a);
	return r;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf b[2], c[2];
	long one = 0, two = 0;
	int r = read_all((const char *)data, size, size + 1, b, &one);

	if (r != read_all((const char *)data, size, 1, c, &two) || one != two)
		abort();
	for (int i = 0; i < 2; i++) {
		/* How much of what is wrong was handed on depends. */
		if (r == 0 && (b[i].len != c[i].len || (b[i].len > 0 &&
		    memcmp(b[i].data, c[i].data, b[i].len) != 0)))
			abort();
		buf_free(&b[i]);
		buf_free(&c[i]);
	}
	return 0;
}
