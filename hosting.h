/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hosting - what main() does differently for HTTP.
 *
 * Either one connection is on standard input and output (--http), or this
 * process listens ("serve") and each connection gets a process of its own.
 * What listens is confined, too, and has read every secret but those of the
 * cluster's connections: TLS's random numbers must not be the same in two
 * processes, so nothing of it is set up before the fork.
 */
#ifndef HOSTING_H
#define HOSTING_H

#include <stdbool.h>
#include <stddef.h>

#include "auth.h"
#include "listener.h"

struct config;
struct env;
struct error;
struct log;
struct mcp_rows;
struct stats;
struct tls;

enum hosting_mode { HOSTING_LINES, HOSTING_ONE, HOSTING_SERVE };

struct hosting {
	enum hosting_mode mode;
	const struct config *config;
	const struct log *log;
	struct auth auth;
	struct stats *stats;
	struct listener listener;
	size_t inherited;	/* descriptors from systemd */
	int in, out;		/* the connection */
	bool meets;		/* the transport is that of 2024-11-05 */
	int signals;
	char *own;		/* the default socket's path */
	struct tls *tls;	/* NULL: plain */
	char *credentials[3];	/* paths of systemd's, for it */
	const char *folder;	/* stash.h; set before hosting_accept() */
};

/* Before anything is closed: what of it to keep. Returns how many. */
size_t hosting_keep(struct hosting *h, int keep[LISTENER_MAX]);

/*
 * Secrets and sockets, once the settings are known. key: 32 bytes that seal
 * requestState, the same in every process that shares a key file or a parent.
 */
int hosting_open(struct hosting *h, const struct config *c,
    const struct log *log, int signals, unsigned char *key, struct error *err);

/*
 * Serve until a signal: 0, or -1. 1: a new process with a connection, which
 * goes on with its set-up. paths: what these may open for it, NULL at the end.
 */
int hosting_accept(struct hosting *h, const char *const *paths,
    struct error *err);

/* The connection, from its first byte to its end: as front_http(). */
int hosting_run(struct hosting *h, const struct mcp_rows *rows,
    const struct env *env, struct error *err);
void hosting_close(struct hosting *h);

#endif
