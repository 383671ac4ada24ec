/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jobwire - what a server and the runner in a job's pod say to each other.
 *
 * A record is a letter, eight hexadecimal digits, a newline and so many bytes.
 * To the runner (files to put before the command starts):
 *   G glob of wanted artifacts, F path of a file, M its mode (octal), D bytes
 *   of it, Z end.
 * From the runner (what became of the command):
 *   P a line of output, S state (JSON), O and E standard output and error,
 *   A an artifact (JSON), D bytes of it, Z end.
 * Pure; a stream without Z was cut.
 */
#ifndef JOBWIRE_H
#define JOBWIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct error;

enum { JOBWIRE_HEAD = 10, JOBWIRE_MAX = 1 << 24 };

void jobwire_head(char head[JOBWIRE_HEAD], char type, size_t len);
void jobwire_put(struct buf *out, char type, const void *data, size_t len);

/* Zeroed to begin with. */
struct jobwire {
	char head[JOBWIRE_HEAD];
	unsigned n;		/* bytes of head so far */
	size_t left;		/* of the payload */
	bool ended;		/* Z came */
};

/*
 * Bytes of any size in; fn is called for each piece of a payload, with last
 * for the final one (which is empty for an empty payload). -1 from fn or for
 * what is no record (ERR_CLUSTER) ends it. Nothing may follow Z.
 */
typedef int jobwire_fn(void *arg, char type, const char *data, size_t len,
    bool last);
int jobwire_feed(struct jobwire *w, const char *data, size_t len,
    jobwire_fn *fn, void *arg, struct error *err);

/*
 * How many bytes of the next file of size go inline, in the order they come:
 * the one that crosses the cap is cut, whatever follows a full cap counts as
 * cut too, even if it is empty (vectors: artifact_collection).
 */
struct jobwire_cap {
	uint64_t max, taken;
	bool truncated;
};
uint64_t jobwire_take(struct jobwire_cap *c, uint64_t size);

/* '*' and '?' stay within a part of a path, '**' does not. */
bool jobwire_glob(const char *pattern, const char *path);

#endif
