/* SPDX-License-Identifier: Apache-2.0 */
/*
 * content - the bytes that a long string stands for, from the stash, piece by
 * piece: JSON's escapes undone, and base64 decoded where it is that.
 */
#ifndef CONTENT_H
#define CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base64.h"
#include "buf.h"
#include "error.h"
#include "spill.h"

struct digest;
struct spilled;

enum content_kind { CONTENT_TEXT, CONTENT_BASE64, CONTENT_LOOSE };

struct content {
	struct spill_span span;
	enum content_kind kind;
	struct error err;		/* why a function returned -1 */
	/* content_measure(): how many they are, and their SHA-256 in hex */
	uint64_t size;
	char sha256[65];

	/* content.c's own */
	struct spilled *spilled;	/* held */
	uint64_t at;			/* raw bytes taken */
	struct base64 base64;
	struct buf out;
	size_t given;			/* of out */
	bool ended;
	struct digest *hash;		/* or NULL */
};

/* Zeroed before. hash: the SHA-256 is wanted. */
int content_open(struct content *c, struct spilled *p,
    const struct spill_span *span, enum content_kind kind, bool hash,
    struct error *err);
void content_close(struct content *c);	/* a zeroed one is fine */

/*
 * Reads some MiB on: 1 when there is more, 0 when all of it was good (then
 * what is given begins at its begin), or -1.
 */
int content_measure(struct content *c);
/* As web_req.give; c is a void * for that. 0 at the end, -1: c->err. */
long content_give(void *c, char *dst, size_t size);
void content_rewind(void *c);

#endif
