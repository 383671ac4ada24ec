/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claim - the SandboxClaim as we write and read it
 * (extensions.agents.x-k8s.io/v1beta1; contract: agent-sandbox 2.2, 2.3, 4).
 */
#ifndef CLAIM_H
#define CLAIM_H

#include <stdbool.h>

#include "json.h"

struct buf;
struct jsonw;
struct error;

/* What one reading of a claim says. Texts are cut to fit. */
struct claim {
	char namespace[64], name[254];
	char uid[64], version[64];
	char session[64];	/* value of the session label; "" if none */
	bool marked;		/* has the session label at all */
	char pool[254];
	char sandbox[254];	/* "" until one is bound */
	char address[64];	/* the pod's; never shown */
	char created[40], shutdown[40];	/* RFC 3339, or "" */
	bool deleting;
	bool ready;		/* the Ready condition is True */
	bool failed;		/* it will not become ready by itself */
	char request[40];	/* which create made it, or "" */
	char reason[80];	/* of the Ready condition, or "" */
	char message[512];
};

/* Fields that are not there stay empty. label_key: the session label's. */
void claim_read(struct claim *c, struct json object, const char *label_key);

bool claim_expired(const struct claim *c);
bool claim_suspended(const struct claim *c);
/* Its members status, ready, message, shutdown_time; or the last one only. */
void claim_tell(struct jsonw *w, const struct claim *c);
void claim_tell_end(struct jsonw *w, const struct claim *c);

/* Why a claim that is not ready is not, and what to do about it. */
void claim_explain(const struct claim *c, struct error *err);

/* ".../namespaces/NS/sandboxclaims[/NAME]" */
void claim_path(struct buf *out, const char *namespace, const char *name);

/* The claims of one session, at most LIMIT_LIST of them. */
void claim_list_path(struct buf *out, const char *namespace,
    const char *label_key, const char *session);

struct claim_new {
	const char *name;
	const char *pool;
	const char *requested;		/* now, RFC 3339 */
	const char *request;		/* to know it again, or NULL */
	const char *shutdown;		/* RFC 3339, or NULL: none */
	const char *label_key, *session;
	struct json labels, pod_labels, pod_annotations, env;
};
void claim_write(struct buf *out, const struct claim_new *n);

/* Body of a DELETE that touches this very object and nothing else. */
void claim_delete_body(struct buf *out, const char *uid);

/* "2026-11-30T16:35:33Z" for a time in seconds; dst holds 40 bytes. -1: past
 * the year 9999. */
/*
 * When a sandbox is to end, into dst: life_s from now, "" if never, and at most
 * most_ms (0: no bound) from born, which is 0 for one that is made now. Past
 * the bound: an error if it was asked for, else cut.
 */
struct claim_life {
	bool given, never;
	long life_s, most_ms;
	long long born;
};
int claim_until(char dst[40], const struct claim_life *l, struct error *err);
int claim_time(char dst[40], long long seconds);

#endif
