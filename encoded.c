/* SPDX-License-Identifier: Apache-2.0 */
#include "encoded.h"
#include "stash.h"

enum {
	PIECE = 16 * 1024,	/* encoded at once */
	FULL = 64 * 1024	/* of text, then it goes to the stash */
};

void
encoded_begin(struct encoded *e, struct stash *stash)
{
	*e = (struct encoded){ .stash = stash };
	buf_init(&e->text, FULL + 2 * PIECE);
	digest_begin(&e->digest);
}

/* No memory, or what the stash says, is told at the end. */
static void
spill(struct encoded *e)
{
	if (e->spilled == NULL)
		e->spilled = spilled_new(e->stash);
	if (e->spilled == NULL || !buf_ok(&e->text)) {
		e->text.failed = true;
		return;
	}
	spilled_put(e->spilled, e->text.data, e->text.len);
	buf_reset(&e->text, e->text.cap);
}

void
encoded_put(void *arg, const char *data, size_t len)
{
	struct encoded *e = arg;
	size_t n;

	digest_put(&e->digest, data, len);
	e->size += len;
	for (; len > 0 && buf_ok(&e->text); data += n, len -= n) {
		n = len < PIECE ? len : PIECE;
		base64_encode(&e->base64, data, n, &e->text);
		if (e->text.len >= FULL)
			spill(e);
	}
}

int
encoded_end(struct encoded *e, struct error *err)
{
	base64_encode_end(&e->base64, &e->text);
	digest_end(&e->digest, e->sha256);
	if (e->spilled != NULL && e->text.len > 0)
		spill(e);
	if (!buf_ok(&e->text))
		return error_set(err, ERR_SYSTEM, "out of memory");
	if (e->spilled == NULL || e->spilled->err.code == ERR_NONE)
		return 0;
	*err = e->spilled->err;
	return -1;
}

void
encoded_free(struct encoded *e)
{
	buf_free(&e->text);
	spilled_drop(e->spilled);
	e->spilled = NULL;
}
