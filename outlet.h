/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outlet - bytes on their way to the client, in the order they were put.
 *
 * What is too long for memory stays in the stash (stash.h) until it is its
 * turn, and is read from there a piece at a time.
 */
#ifndef OUTLET_H
#define OUTLET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

struct error;
struct spilled;
struct spilled_in;

struct outlet {
	struct buf out;		/* put() may be any writer of a buf */

	/* outlet.c's own */
	size_t gone;		/* of out, from its beginning */
	uint64_t went;		/* of out, ever */
	struct outlet_far *first, *last;
};

enum { OUTLET_PIECE = 64 * 1024 };

void outlet_init(struct outlet *o, size_t max);
void outlet_free(struct outlet *o);
/* All that waits is forgotten; memory above keep bytes is given back. */
void outlet_reset(struct outlet *o, size_t keep);
bool outlet_empty(const struct outlet *o);
size_t outlet_held(const struct outlet *o);	/* bytes in memory */

/* A message, and what goes into it; far may be NULL. It may be taken, another
 * buffer left in its place. */
void outlet_message(struct outlet *o, struct buf *json,
    const struct spilled_in *far);
uint64_t outlet_length(size_t len, const struct spilled_in *far);

/* Some of what comes next, maybe in piece: nothing when *n is 0. */
int outlet_next(struct outlet *o, char piece[OUTLET_PIECE], const char **p,
    size_t *n, struct error *err);
void outlet_took(struct outlet *o, size_t n);	/* so many of them are gone */

#endif
