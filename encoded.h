/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encoded - bytes as base64, for an answer of any length: what passes a few
 * pages goes into the stash.
 */
#ifndef ENCODED_H
#define ENCODED_H

#include <stdint.h>

#include "base64.h"
#include "buf.h"
#include "digest.h"
#include "error.h"

struct spilled;
struct stash;

struct encoded {
	uint64_t size;			/* bytes put */
	/* After encoded_end(): */
	char sha256[65];		/* theirs, in hex */
	struct spilled *spilled;	/* the text, held; or NULL, when ... */
	struct buf text;		/* ... all of it is here */

	/* encoded.c's own */
	struct stash *stash;
	struct base64 base64;
	struct digest digest;
};

void encoded_begin(struct encoded *e, struct stash *stash);
void encoded_put(void *e, const char *data, size_t len);
/* -1: not all of it could be kept. */
int encoded_end(struct encoded *e, struct error *err);
void encoded_free(struct encoded *e);		/* a zeroed one is fine */

#endif
