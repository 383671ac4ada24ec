/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listing - a folder's entries out of a runtime's answer, one at a time.
 *
 * The answer is as long as the folder, so it is never held: each entry is
 * passed on when it is complete. Two forms: JSON, whose entries are the
 * objects in an array; and records, each after a mark that no name holds.
 */
#ifndef LISTING_H
#define LISTING_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"
#include "json.h"

struct error;

struct listing_entry {
	const char *name;	/* borrowed; name_len bytes */
	size_t name_len;
	bool folder;
	long size;
	double mtime;		/* seconds since 1970 */
};
typedef void listing_fn(void *arg, const struct listing_entry *e);

struct listing {
	listing_fn *fn;
	void *arg;
	const char *mark;	/* of records, borrowed; NULL: JSON */
	int level;		/* JSON: how many brackets are around entries */
	int depth;
	bool begun, string, escape, item;
	struct buf held;	/* the entry being read */
};

/* level: 1 for [{},...], 2 for {"entries":[{},...]}. */
void listing_json(struct listing *l, int level, listing_fn *fn, void *arg);
/* "MARK MODE SIZE SECONDS ./NAME\n" each, MODE in hexadecimal. */
void listing_records(struct listing *l, const char *mark, listing_fn *fn,
    void *arg);
int listing_feed(struct listing *l, const char *data, size_t len,
    struct error *err);
/* The answer is over; -1 when it was not whole. */
int listing_end(struct listing *l, struct error *err);
void listing_free(struct listing *l);

/* "2026-11-30T16:30:33Z" or with a fraction, in seconds; 0: it is no time. */
double listing_time(const char *text);

#endif
