/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front-own - what the files of the HTTP front share: one connection and the
 * request that it serves now. For front-*.c only.
 */
#ifndef FRONT_OWN_H
#define FRONT_OWN_H

#include <stdbool.h>

#include "auth.h"
#include "buf.h"
#include "config.h"
#include "env.h"
#include "intake.h"
#include "mcp.h"

struct front_http;
struct http;
struct httpd;
struct k8s_op;
struct loop_fd;
struct sse_box;
struct sse_courier;
struct tls_conn;

#define TEXT "text/plain; charset=utf-8"
#define JSON "application/json"
#define NO_STORE "Cache-Control: no-store\r\n"
#define EVENTS "Cache-Control: no-cache, no-transform\r\n" \
	"X-Accel-Buffering: no\r\n"

/* What the calls of one caller, in one of its sessions, work with. */
struct as {
	struct as *next;
	struct front *h;
	struct caller who;
	struct env env;
	struct config config;
	char *namespaces;	/* owned */
	struct mcp_caller caller;
};

struct route;

struct front {
	const struct front_http *f;
	struct mcp *mcp;
	struct httpd *d;
	struct tls_conn *tls;
	struct loop_fd *sig;
	struct peer peer;
	struct as *all;

	/* The request under way. */
	const struct route *route;
	const struct http *http;
	struct intake in;
	struct buf letter;		/* a body for another's stream */
	struct caller who;
	char path[512];
	char session[64];		/* the one to end */
	int status;			/* refused with it; 0: it is not */
	const char *extra, *why;
	bool review;			/* the token is asked about first */
	int accepts;
	struct k8s_op *op;
	bool ending;			/* f->end_session() is under way */
	bool owed;			/* the answer is mcp's */
	long ticket;

	/* The transport of 2024-11-05. */
	struct sse_box *box;	/* this is the stream, as long as it lives */
	struct sse_courier *courier;	/* this is a post to another's */

	/* The token that was asked about last. */
	unsigned char seen[32];
	struct caller seen_who;
	long seen_ms;			/* until then, 0: none */

	bool told;			/* of one refusal, on this connection */
	long stop_ms;			/* calls are cancelled then, or -1 */
	bool stopped;			/* they were */
};

struct route {
	const char *path;
	bool below;			/* and everything below it */
	const char *methods;		/* as in Allow; NULL: any */
	bool open;			/* for everybody */
	void (*run)(struct front *h);
};

/* front-http.c: what is answered, now or once the body is read. */
void front_answer(struct front *h, int status, const char *type,
    const char *body);
void front_refuse(struct front *h, int status, const char *extra,
    const char *why);
void front_answer_refusal(struct front *h);
/* Whose session the request is of; NULL: no memory. */
struct as *front_as(struct front *h);

/* front-sse.c: the transport of 2024-11-05. */
void front_stream(struct front *h);
void front_end_stream(struct front *h);

/* front-probe.c: what others than MCP clients ask. */
void front_healthz(struct front *h);
void front_live(struct front *h);
void front_readyz(struct front *h);
void front_health(struct front *h);
void front_metrics(struct front *h);
void front_metadata(struct front *h);
void front_sessions(struct front *h);

#endif
