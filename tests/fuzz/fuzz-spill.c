/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../buf.h"
#include "../../error.h"
#include "../../json.h"
#include "../../spill.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
keep(void *arg, const char *raw, size_t len)
{
	buf_put(arg, raw, len);
}

/* The message as it was before its strings left it. */
static void
fold(const struct spill *s, const struct buf *gone, struct buf *out)
{
	size_t at = 0;

	for (size_t i = 0; i < s->nspans; i++) {
		const struct spill_span *span = &s->spans[i];

		assert(span->at >= at && s->text.data[span->at] == '"' &&
		    s->text.data[span->at + 1] == '"');
		buf_put(out, s->text.data + at, span->at + 1 - at);
		buf_put(out, gone->data + span->from, span->len);
		assert(span->escapes == (memchr(gone->data + span->from, '\\',
		    span->len) != NULL));
		at = span->at + 1;
	}
	buf_put(out, s->text.data == NULL ? "" : s->text.data + at,
	    s->text.len - at);
}

/* First byte: how it is cut; second: what is long. The rest is the message. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_doc *all, *left = NULL;
	struct buf gone, again;
	struct error err;
	struct spill s;
	const char *text;
	size_t piece, n;

	if (size < 2)
		return 0;
	text = (const char *)data + 2;
	piece = 1 + data[0] % 32;
	size -= 2;
	buf_init(&gone, 1 << 22);
	buf_init(&again, 1 << 22);
	spill_init(&s, data[1] % 64, 1 << 22, keep, &gone);
	for (size_t at = 0; at < size; at += n) {
		n = size - at < piece ? size - at : piece;
		spill_feed(&s, text + at, n);
	}
	if (spill_end(&s, &err) == 0)
		left = json_parse(s.text.data == NULL ? "" : s.text.data,
		    s.text.len, &err);
	all = json_parse(text, size, &err);
	assert((all == NULL) == (left == NULL));
	if (left != NULL) {
		fold(&s, &gone, &again);
		assert(again.len == size &&
		    memcmp(again.data, text, size) == 0);
	}
	json_free(all);
	json_free(left);
	buf_free(&gone);
	buf_free(&again);
	spill_free(&s);
	return 0;
}
