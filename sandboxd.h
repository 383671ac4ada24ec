/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandboxd - a client of the sandbox daemon: ProcessService over gRPC (h2c),
 * files over REST (contract: agent-sandbox 3). How its sockets open is the
 * caller's: web_req.open_socket, or plain TCP to the URL's host.
 */
#ifndef SANDBOXD_H
#define SANDBOXD_H

#include <stdbool.h>
#include <stddef.h>

#include "event.h"

struct error;
struct loop;
struct sandboxd_run;
struct web;

/* Where one of its two ports is. */
struct sandboxd_port {
	char url[400];		/* "http://host:port", its own for each pod */
	char resolve[512];		/* or "" */
	int (*open_socket)(void *arg);	/* NULL: TCP */
	void *open_arg;
	/* The reason behind a lost connection, or NULL. */
	const struct error *(*why)(void *open_arg);
};

struct sandboxd_start {
	const char *const *argv;
	const char *const *env;		/* name, value, name, value, NULL */
	const char *cwd;		/* NULL: the daemon's root */
	const char *input;	/* all of stdin; borrowed until the end */
	size_t input_len;
};

/*
 * Start with stdin given and closed (WriteStdin, then eof). EVENT_OPEN when
 * the process runs; EVENT_DATA with channel 1 or 2; EVENT_END with code, or
 * err: ERR_GONE for NOT_FOUND, ERR_DENIED, ERR_INPUT, ERR_LOST when the
 * stream ended without an exit event, ... never repeated. p is borrowed until
 * the end, as input is.
 */
struct sandboxd_run *sandboxd_run(struct web *w, const struct sandboxd_port *p,
    const struct sandboxd_start *start, event_fn *fn, void *arg,
    struct error *err);
/* To the process group; signo is SIGINT, SIGTERM or SIGKILL. A run that is
 * closed at once may take it with it: wait for its EVENT_END. */
void sandboxd_signal(struct sandboxd_run *r, int signo);
void sandboxd_close(struct sandboxd_run *r);	/* NULL is fine */

#endif
