/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link - how a sandbox is reached, found once and kept for the connection.
 *
 * The Sandbox object names the pod (annotation agents.x-k8s.io/pod-name, else
 * its own name) and, by the ports of its template, the runtime that listens
 * in it; where it declares none, the tunnel is asked. Tunnels stay open, so
 * a second command costs one round trip.
 */
#ifndef LINK_H
#define LINK_H

#include <stdbool.h>

#include "sandboxd.h"

struct env;
struct error;
struct links;
struct link_find;
struct tunnel;

enum runtime { RUNTIME_NONE, RUNTIME_SANDBOXD, RUNTIME_LEGACY };

struct link {
	char namespace[64], sandbox[254];
	char address[64];	/* the pod's, to see that it changed; never shown */
	char pod[254], container[254];
	enum runtime runtime;
	struct tunnel *tunnel[2];
	struct sandboxd_port grpc, rest;
	unsigned users;		/* link_drop() to come */
	bool stale;		/* found anew the next time */
	struct link *next;
};

struct links *links_open(const struct env *env);	/* NULL: no memory */
void links_close(struct links *ls);

/*
 * done comes once: with the link, held for the caller until link_drop(), or
 * with NULL and the error. For a link that is known it comes before this
 * returns, and NULL is returned. address: the pod's as the claim says it; a
 * link to another one is not used again.
 */
typedef void link_found(void *arg, struct link *l, const struct error *err);
struct link_find *link_find(struct links *ls, const char *namespace,
    const char *sandbox, const char *address, link_found *done, void *arg);
void link_find_cancel(struct link_find *f);	/* NULL is fine */

void link_drop(struct links *ls, struct link *l);	/* NULL is fine */
/* What came of it was lost: do not use it for the next call. */
void link_forget(struct link *l);

#endif
