/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolve - the address of a name that is learned only at run time.
 *
 * The C library's resolver would open files and block the loop for seconds.
 * This one asks the name servers that were read before the confinement, over
 * UDP: A, then AAAA, each server in turn, twice. The name is absolute, and
 * /etc/hosts has no say. Of the addresses the first that address_ok() lets
 * pass is taken.
 */
#ifndef RESOLVE_H
#define RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct error;
struct loop;
struct resolve;

enum { RESOLVE_SERVERS = 3 };

struct resolvers {
	struct sockaddr_storage server[RESOLVE_SERVERS];
	size_t n;
	bool loopback;		/* may be an answer; for tests */
};

/* From the text of a resolv.conf(5), or one "ADDRESS[:PORT]". */
void resolvers_read(struct resolvers *r, const char *text);
int resolvers_set(struct resolvers *r, const char *server, struct error *err);

/* Once, from loop_turn(); the operation is gone then. err when address is
 * NULL. name is copied, r borrowed. */
typedef void resolved(void *arg, const char *address, const struct error *err);
struct resolve *resolve_start(struct loop *l, const struct resolvers *r,
    const char *name, resolved *done, void *arg);	/* NULL: no memory */
void resolve_cancel(struct resolve *r);		/* NULL is fine */

#endif
