/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link - how a sandbox is reached, found once and kept for the connection.
 *
 * The Sandbox object names the pod (annotation agents.x-k8s.io/pod-name, else
 * its own name) and, by the ports of its template, the runtime that listens
 * in it; where it declares none, the pod is asked. Which way leads there is
 * the connection type's: a tunnel through the API server, the pod's address
 * or name, or a router (contract: agent-sandbox 2.5, 5.1). Tunnels stay open,
 * so a second command costs one round trip.
 */
#ifndef LINK_H
#define LINK_H

#include <stdbool.h>

#include "buf.h"
#include "sandboxd.h"
#include "web.h"

struct claim;
struct env;
struct error;
struct links;
struct link_find;
struct tunnel;

/* AGENT: that of a session of bash, which no search finds. */
enum runtime {
	RUNTIME_NONE, RUNTIME_SANDBOXD, RUNTIME_LEGACY, RUNTIME_AGENT
};

struct router;

enum { LINK_FIELDS = 5, LINK_IDENTITY = 64 };

struct link {
	char namespace[64], sandbox[254];
	char address[64]; /* the pod's, to see that it changed; never shown */
	char owner[64];	/* the uid of the claim it was given to, or "" */
	char pod[254], container[254];
	char host[256];		/* its DNS name, where that is the way */
	char ip[48];		/* what is dialled: the pod's, the name's */
	enum runtime runtime;
	struct tunnel *tunnel[2];
	struct sandboxd_port grpc;	/* url "": no way there */
	struct sandboxd_port rest;	/* the legacy runtime's too */
	struct router *router;		/* in between, or NULL */
	/*
	 * Which container exec leads to, as it says itself (run.c), and the
	 * claim by which it was found: while it says the same, the claim need
	 * not be asked for.
	 */
	char identity[LINK_IDENTITY];
	struct claim *claim;
	long claim_ms;			/* when it was read */
	char fields[LINK_FIELDS][300];	/* its header fields; "": none more */
	unsigned users;		/* link_drop() to come */
	bool stale;		/* found anew the next time */
	struct link *next;
};

/* Before the confinement: a router's files are read. NULL: err. */
struct links *links_open(const struct env *env, struct error *err);
void links_close(struct links *ls);

/*
 * done comes once: with the link, held for the caller until link_drop(), or
 * with NULL and the error. For a link that is known it comes before this
 * returns, and NULL is returned. address: the pod's as the claim says it; a
 * link to another one is not used again. claim: its uid; where the Sandbox
 * says that it was given to another one, the error is ERR_CONFLICT.
 */
typedef void link_found(void *arg, struct link *l, const struct error *err);
struct link_find *link_find(struct links *ls, const char *namespace,
    const char *sandbox, const char *address, const char *claim,
    link_found *done, void *arg);
void link_find_cancel(struct link_find *f);	/* NULL is fine */

/*
 * The link to an agent that is known already, for one use; port is borrowed.
 * link_drop() frees it. NULL: no memory.
 */
struct link *link_agent(const struct sandboxd_port *port, const char *token);
void link_drop(struct links *ls, struct link *l);	/* NULL is fine */
/*
 * What was read of a claim at read_ms is kept, if its sandbox is known by now
 * and only exec leads there. link_claim(): what is known of one, or NULL when
 * that is nothing, too old, or was forgotten.
 */
void link_keep(struct links *ls, const struct claim *c, long read_ms);
const struct claim *link_claim(const struct links *ls, const char *namespace,
    const char *name);
void link_disclaim(struct links *ls, const char *namespace, const char *name);
/* What came of it was lost: do not use it for the next call. */
void link_forget(struct link *l);

/*
 * Aim req at path (begins with '/', percent-encoded) on l->rest: its URL,
 * socket, TLS, and after the fields that req has, the router's. timeout_ms:
 * the whole call's, for X-Sandbox-Timeout; 0: not said. All of it lives until
 * link_unaim(), which may come right after web_send(). A POST goes on a
 * connection that is surely alive, so that nothing is in doubt after it.
 */
struct link_aim {
	struct buf url, token;
	char timeout[48];
	const char *headers[24];
};
int link_aim(struct link_aim *a, const struct link *l, const char *path,
    long timeout_ms, struct web_req *req, struct error *err);
void link_unaim(struct link_aim *a);
/*
 * What a reply means that is no 2xx or has an err: the tunnel's reason, the
 * router's own answers and time limits, the runtime's message. waited_ms:
 * since it was sent. Status 404 becomes ERR_GONE, 403 ERR_DENIED, ...
 */
void link_explain(struct link *l, const struct event *ev, long waited_ms,
    struct error *err);

#endif
