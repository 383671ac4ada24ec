/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stash - the file that holds what is too long for memory.
 *
 * One for a process, without a name, opened before the confinement in the
 * folder TMPDIR, else in /var/tmp or /tmp, and cut into blocks. What belongs
 * to one message is a chain of them, written from its begin to its end, read
 * anywhere, and given back (to the file system, too) when the last who holds
 * it lets go.
 */
#ifndef STASH_H
#define STASH_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "spill.h"

struct stash;

/* Where it is to be had is found out here. NULL: no memory. */
struct stash *stash_open(void);
void stash_close(struct stash *s);	/* NULL is fine */
/* Why there is none; NULL: there is one. s may be NULL. */
const struct error *stash_why(const struct stash *s);
const char *stash_folder(const struct stash *s);	/* "" without one */

/* The long strings of one message (spill.h). */
struct spilled {
	struct spill_span *spans;	/* owned */
	size_t nspans;
	uint64_t len;			/* bytes of the strings */
	struct error err;	/* why they are not all kept, or ERR_NONE */

	/* stash.c's own */
	struct stash *stash;
	unsigned holders;
	unsigned first, last;		/* blocks */
	uint64_t read_at;		/* number of a block in the chain */
	unsigned read_block;		/* and which it is */
};

/* A message in which the bytes of one are missing, at these places. */
struct spilled_in {
	struct spilled *spilled;	/* borrowed */
	unsigned n;
	size_t at[2];			/* ascending */
};

struct spilled *spilled_new(struct stash *s);	/* held once; NULL: no memory */
/* Returns p, which may be NULL. */
struct spilled *spilled_hold(struct spilled *p);
void spilled_drop(struct spilled *p);		/* NULL is fine */
/* What can't be kept is said in p->err, once; then nothing of it is kept. */
void spilled_put(struct spilled *p, const char *data, size_t len);
/* n bytes of those put, from at on. */
int spilled_read(struct spilled *p, uint64_t at, char *dst, size_t n,
    struct error *err);

#endif
