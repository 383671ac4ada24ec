/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front - the client's end: lines in, lines out (MCP, stdio transport).
 *
 * Reads as long as less than LIMIT_REPLY waits to be written, so a client
 * that does not read cannot make us hold more than its own calls' answers.
 * A line that is too long (intake.h) is skipped to its end and answered. At
 * the end of input, on SIGTERM, SIGINT or SIGHUP, or when nobody reads any
 * more: what is complete is written, the rest is stopped, within
 * LIMIT_DRAIN_MS.
 */
#ifndef FRONT_H
#define FRONT_H

#include <sys/types.h>

struct error;
struct log;
struct loop;
struct mcp_caller;
struct mcp_rows;
struct stash;

struct front {
	struct loop *loop;
	const struct mcp_rows *rows;
	void *env;			/* for the calls */
	const struct log *log;
	const struct mcp_caller *caller;	/* or NULL */
	int in, out;
	int signals;			/* a signalfd, or -1 */
	struct stash *stash;		/* for long strings, or NULL */
};

/*
 * A descriptor like fd that never blocks a write and leaves the original's
 * flags alone. Before confinement. Returns fd itself where that is not to be
 * had.
 */
int front_unblocked(int fd);

/*
 * write(2) without blocking, once poll() says that fd is ready: a socket or
 * our own description of a pipe never blocks; of anything else so much is
 * written as a pipe takes whole.
 */
ssize_t front_put(int fd, const char *data, size_t len);

/*
 * Returns the exit status: 0; 2 when something had to be left in the cluster
 * (it is named in the log); 65 after LIMIT_BAD_LINES; -1 with err set.
 */
int front_lines(const struct front *f, struct error *err);

#endif
