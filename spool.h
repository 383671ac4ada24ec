/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool - all that a command prints, kept for as long as there is room.
 *
 * The first bytes are kept: in memory while they are few, then in a file
 * without a name. When the file is full, or the disk, only the end is kept
 * besides, in a ring. What lies between is counted. Any place in what is kept
 * can be read, by byte or by line, also while more comes in.
 */
#ifndef SPOOL_H
#define SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

/* Where the files are, and how much all of them may hold together. */
struct spool_store {
	char dir[4096];		/* "": no place; all stays in memory */
	uint64_t used, max;	/* bytes in files */
	uint64_t each;		/* bytes of one spool that are kept */
};

struct spool {
	struct spool_store *store;	/* borrowed */
	struct buf head;	/* the first bytes, while there is no file */
	char *ring;
	size_t ring_len, ring_at;	/* bytes in it, where the oldest is */
	uint64_t kept;		/* how many are kept from the first on */
	uint64_t total;
	uint64_t newlines;
	char last;		/* byte */
	int fd;			/* -1: no file */
	bool full;		/* nothing is added to what is kept */
};

/* Takes the first of the directories that can be written to. */
void spool_store_init(struct spool_store *s, const char *const *dirs);
void spool_init(struct spool *s, struct spool_store *store);
void spool_free(struct spool *s);

void spool_put(struct spool *s, const void *data, size_t len);
/* No more is likely to come: more than a little memory goes to a file. */
void spool_settle(struct spool *s);

/*
 * Up to size bytes from offset on. How many; 0 at the end, -1 inside the part
 * that was not kept.
 */
long spool_read(const struct spool *s, uint64_t offset, char *dst,
    size_t size);
uint64_t spool_lines(const struct spool *s);

/*
 * Where the lines from number (1: the first; -1: the last) begin, and how many
 * bytes they have: at most lines of them, at most max bytes. number becomes
 * the positive one. 0, or -1 if there is no such line among what is kept.
 */
int spool_find(const struct spool *s, int64_t *number, uint64_t lines,
    uint64_t max, uint64_t *offset, uint64_t *len);

/* The first and the last bytes that are kept, at most max together; all of
 * them in head if they fit. False: no memory. */
bool spool_excerpt(const struct spool *s, size_t max, struct buf *head,
    struct buf *tail);

#endif
