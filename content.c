/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "content.h"
#include "digest.h"
#include "json.h"
#include "stash.h"

enum {
	PIECE = 64 * 1024,	/* read at once */
	TURN = 4 << 20,		/* measured in one turn of the loop */
};

int
content_open(struct content *c, struct spilled *p,
    const struct spill_span *span, enum content_kind kind, bool hash,
    struct error *err)
{
	*c = (struct content){ .span = *span, .kind = kind,
	    .spilled = spilled_hold(p) };
	buf_init(&c->out, 2 * PIECE);
	content_rewind(c);
	if (!hash)
		return 0;
	if ((c->hash = malloc(sizeof(*c->hash))) == NULL)
		return error_sys(err, "content");
	digest_begin(c->hash);
	return 0;
}

void
content_close(struct content *c)
{
	free(c->hash);
	c->hash = NULL;
	buf_free(&c->out);
	spilled_drop(c->spilled);
	c->spilled = NULL;
}

void
content_rewind(void *arg)
{
	struct content *c = arg;

	c->at = 0;
	c->given = 0;
	c->ended = false;
	c->base64 = (struct base64){ .loose = c->kind == CONTENT_LOOSE };
	buf_reset(&c->out, 0);
}

/* The next raw bytes into out, as they are meant. */
static int
refill(struct content *c)
{
	char raw[PIECE], text[PIECE];
	uint64_t left = c->span.len - c->at;
	size_t n = left < PIECE ? (size_t)left : PIECE, used = n;
	const char *p = raw;

	buf_reset(&c->out, 2 * PIECE);
	c->given = 0;
	if (left == 0) {
		c->ended = true;
		return c->kind == CONTENT_TEXT ? 0 :
		    base64_decode_end(&c->base64, &c->err);
	}
	if (spilled_read(c->spilled, c->span.from + c->at, raw, n,
	    &c->err) == -1)
		return -1;
	if (c->span.escapes) {
		used = 0;
		n = json_unescape(raw, n, n == left, &used, text,
		    sizeof(text));
		p = text;
	}
	c->at += used;
	if (c->kind == CONTENT_TEXT)
		buf_put(&c->out, p, n);
	else if (base64_decode(&c->base64, p, n, &c->out, &c->err) == -1)
		return -1;
	return buf_ok(&c->out) ? 0 :
	    error_set(&c->err, ERR_SYSTEM, "out of memory");
}

long
content_give(void *arg, char *dst, size_t size)
{
	struct content *c = arg;
	size_t done = 0, n;

	/* As much as there is room for: each piece costs its turns. */
	while (done < size) {
		if (c->given == c->out.len && c->ended)
			break;
		if (c->given == c->out.len && refill(c) == -1)
			return -1;
		n = c->out.len - c->given;
		n = n < size - done ? n : size - done;
		if (n > 0)
			memcpy(dst + done, c->out.data + c->given, n);
		c->given += n;
		done += n;
	}
	return (long)done;
}

int
content_measure(struct content *c)
{
	uint64_t until = c->at + TURN;

	while (c->at < until) {
		if (refill(c) == -1)
			return -1;
		if (c->ended) {
			if (c->hash != NULL)
				digest_end(c->hash, c->sha256);
			content_rewind(c);
			return 0;
		}
		c->size += c->out.len;
		if (c->hash != NULL)
			digest_put(c->hash, c->out.data, c->out.len);
	}
	return 1;
}
