/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listener - "mcp-sandbox serve": sockets, and a process for each connection.
 *
 * The process that listens reads no byte of a client's. It accepts, counts
 * (in all, and by source: an IPv4 address, an IPv6 /64, a uid) and forks; a
 * connection over a limit is told 503 and closed. On SIGTERM it stops
 * listening, passes the signal on and waits for the rest to finish.
 */
#ifndef LISTENER_H
#define LISTENER_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct log;
struct stats;

enum { LISTENER_MAX = 16 };

/* A socket's file that we have made, and the folder it is in. */
struct listener_file {
	int fd, folder;		/* O_PATH */
	char path[108];		/* the folder's */
	const char *name;	/* in that folder; borrowed from the address */
};

struct listener {
	struct listener_file files[LISTENER_MAX];
	size_t nfiles;
	int fds[LISTENER_MAX];
	size_t n;
	bool far;	/* one is TCP of another address than loopback */
	bool near;		/* one is TCP of a loopback address */
	int children;		/* a signalfd for SIGCHLD */
	int meet;		/* in a new process: meet.h, or -1 */
};

/*
 * Each address: HOST:PORT (a literal or localhost), [IPv6]:PORT, :PORT for all
 * addresses, or a path, unix:PATH. A socket file nobody listens on any more is
 * replaced; a new one gets this mode, and is removed when serving ends, unless
 * another has taken its place. The addresses are borrowed until then.
 */
int listener_open(struct listener *l, const char *const *addresses, size_t n,
    unsigned mode, const struct log *log, struct error *err);
/* How many descriptors from 3 on are systemd's (LISTEN_FDS), for us. */
size_t listener_inherited(void);
/* Take these instead of opening any. */
int listener_take(struct listener *l, size_t n, struct error *err);
void listener_close(struct listener *l);
/* The files of sockets; not for those that were forked. */
void listener_remove(const struct listener *l);

struct listener_how {
	long connections, per_source;	/* limits */
	long drain_ms;
	int signals;			/* a signalfd that ends it */
	bool tls;			/* over TCP: nothing is said in plain */
	bool meets;			/* connections find each other */
	const struct log *log;
	struct stats *stats;
};

/*
 * 1: this is a new process, *fd is its connection, all else is closed.
 * 0: ended by a signal. -1: err.
 */
int listener_serve(struct listener *l, const struct listener_how *how, int *fd,
    struct error *err);

/* For tests: "HOST:PORT" and so on into a socket address. The length or 0. */
size_t listener_address(const char *text, void *address, size_t size);

#endif
