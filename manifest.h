/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest - a session's pod and Secret as we write and read them
 * (contract: cli-mcp-server 8; Pod Security Standards, level restricted).
 *
 * A pod without a session is a warm one. Unless its image has the agent, the
 * pod waits in an init container for it to be put into a shared folder
 * (deliver.h), for INSTALL_S at most, so that a pod nobody serves ends.
 */
#ifndef MANIFEST_H
#define MANIFEST_H

#include <stdbool.h>

#include "json.h"

struct buf;
struct config_pod;
struct jsonw;

#define POD_CONTAINER	"sandbox"
#define POD_INIT	"agent"
#define POD_AGENT	"/mcp-sandbox/mcp-sandbox-agent"

enum { AGENT_PORT = 8090, INSTALL_S = 300 };

/* What one reading of a pod says. */
struct pod {
	char name[254], uid[64], version[64];
	char session[64];	/* "": it is a warm one */
	char address[64];	/* never shown */
	char created[40];	/* creationTimestamp */
	char active[40]; /* last activity, else when it was made, or "" */
	char made[40];		/* our annotation, or "" */
	bool ready, deleting;
	bool ended;		/* Succeeded or Failed */
	bool begun;		/* its container runs */
	bool waiting;		/* its init container waits for the agent */
};
void pod_read(struct pod *p, struct json object, const char *domain);
/* Which is better to have: ready first, then begun, then the oldest. */
int pod_order(const void *a, const void *b);	/* of struct pod, for qsort */

/* name NULL: the collection. resource: "pods", "secrets". */
void manifest_path(struct buf *out, const char *namespace,
    const char *resource, const char *name);
/* session NULL: all of ours; "": warm pods only. */
void manifest_list(struct buf *out, const char *namespace,
    const char *resource, const char *domain, const char *session);
void manifest_secret_name(char dst[96], const char *session);

/* now: RFC 3339. session NULL: a warm pod. */
void manifest_pod(struct buf *out, const struct config_pod *c,
    const char *name, const char *session, const char *now);
void manifest_secret(struct buf *out, const struct config_pod *c,
    const char *session, const char *token);

/* Merge patches. */
void manifest_claim(struct buf *out, const char *domain, const char *session,
    const char *version, const char *now);
void manifest_active(struct buf *out, const char *domain, const char *now);
/* The Secret goes when the pod does. version: the Secret's, or NULL. */
void manifest_owner(struct buf *out, const struct pod *owner);

/* Body of a DELETE of this very object, unless it changed meanwhile when
 * version is not NULL. grace: seconds, -1: the object's own. */
void manifest_delete(struct buf *out, const char *uid, const char *version,
    long grace);

/*
 * Members of a securityContext, of a container's and of either one's: nothing
 * may be gained, and nobody is root. uid 0: the image's own, or what the
 * cluster chooses.
 */
void manifest_powerless(struct jsonw *w);
void manifest_nobody(struct jsonw *w, long uid);
void manifest_mount(struct jsonw *w, const char *name, const char *path,
    bool read_only);
void manifest_variable(struct jsonw *w, const char *name, const char *value);
/* "a=b,c=d" as an object, or "a,b" as a list of objects with a name. NULL:
 * nothing is written. */
void manifest_items(struct jsonw *w, const char *key, const char *text,
    bool pairs);

/* Seconds since 1970 of an RFC 3339 time in UTC; -1: it is none. */
long long manifest_time(const char *text);
void manifest_now(char dst[40]);

#endif
