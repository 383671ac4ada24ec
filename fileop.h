/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fileop - what can be done with the files of a sandbox, by any runtime.
 *
 * sandboxd and the legacy runtime have a REST interface of their own; what
 * it lacks, and everything where there is no runtime, is a small /bin/sh
 * script in the pod (fileop-script.c). Names go there as variables, contents
 * as bytes. A write is transferred beside its target, compared by size and,
 * where the pod has sha256sum, by SHA-256, and only then put in place, so a
 * broken transfer leaves the old content. The agent of a session of bash has
 * all of it as REST, and no script is run.
 */
#ifndef FILEOP_H
#define FILEOP_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"
#include "event.h"
#include "listing.h"

struct env;
struct sandboxd_port;
struct fileop;

enum fileop_verb {
	FILEOP_READ, FILEOP_WRITE, FILEOP_LIST, FILEOP_STAT, FILEOP_EXISTS,
	FILEOP_DELETE, FILEOP_MOVE
};

/* Bytes to write that are not in memory: web.h says how give() works. It may
 * be called from the begin on again, after rewind(). */
struct fileop_source {
	size_t size;
	const char *sha256;	/* in hex */
	long (*give)(void *arg, char *dst, size_t size);
	void (*rewind)(void *arg);
	void *arg;
};

/* FILEOP_WRITE: where. */
enum { FILEOP_WHOLE = -2, FILEOP_END = -1 };

struct fileop_req {
	enum fileop_verb verb;
	const char *namespace, *sandbox, *address, *claim;	/* run.h */
	const struct sandboxd_port *agent;	/* or that of a session */
	const char *token;			/* ... and its token */
	const char *path, *to;	/* as path.h made them; to: MOVE */
	struct buf data;	/* WRITE: taken over by fileop_start() */
	/* WRITE: instead of data, or NULL; borrowed until EVENT_END */
	const struct fileop_source *source;
	long offset;		/* READ: from; WRITE: at, or as above */
	long length;		/* READ: at most so many bytes */
	/* READ: they go there as they come, not into the result; or NULL */
	void (*take)(void *arg, const char *data, size_t len);
	void *take_arg;
	/* DELETE: a folder with all in it. MOVE: over what is there. STAT:
	 * the SHA-256 too. */
	bool all;
	listing_fn *entry;	/* LIST; called with arg */
	long timeout_ms;
	bool known;		/* run.h */
};

struct fileop_result {
	bool exists;
	const char *type;	/* STAT: file, directory, symlink, other */
	long size;		/* of the file, now */
	long modified;		/* STAT: seconds since 1970 */
	unsigned mode;		/* STAT: permission bits */
	char sha256[65];	/* WRITE, READ: of the bytes moved; or "" */
	bool compared;		/* WRITE: by SHA-256 in the pod too */
	struct buf data;	/* READ */
};

/*
 * The strings in req are copied. Ends with EVENT_END; err: ERR_GONE when the
 * file is not there, ERR_CONFLICT when what is there is in the way, ERR_LOST
 * when the transfer was short, ... Nothing is repeated.
 */
struct fileop *fileop_start(struct env *env, const struct fileop_req *req,
    event_fn *fn, void *arg);	/* NULL: no memory; req->data is freed */
/* Valid in the function called for EVENT_END, no longer; its data may be freed
 * as soon as it is not needed. */
struct fileop_result *fileop_result(struct fileop *f);
void fileop_stop(struct fileop *f);	/* EVENT_END follows */
void fileop_close(struct fileop *f);	/* NULL is fine */

#endif
