/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front-http - the client's end: MCP's Streamable HTTP on one connection, and
 * what else a server is asked (contracts: agent-sandbox 1.11, cli-mcp-server
 * 4).
 *
 *	POST /mcp		one message; the answer is JSON, or a stream of
 *				events from the first notification on, or once
 *				it takes longer than LIMIT_HTTP_QUIET_MS
 *	GET /any, POST /any?sessionid=	the transport of 2024-11-05, where it
 *				is wanted: a stream, whose first event says
 *				where to post; other processes have the posts
 *	GET /healthz, /live	this process routes HTTP
 *	GET /readyz, /health	and reaches the cluster
 *	GET /metrics		stats.h
 *	DELETE /sessions/ID	ends a session's sandboxes
 *	GET /.well-known/oauth-protected-resource	RFC 9728, if it is set
 *
 * A client of revision 2026-07-28 that closes the connection has cancelled its
 * request; with an older one, the call runs to its end. On SIGTERM the request
 * under way is answered, within drain_ms, and no other.
 */
#ifndef FRONT_HTTP_H
#define FRONT_HTTP_H

#include <stdbool.h>

struct auth;
struct env;
struct error;
struct log;
struct loop;
struct mcp_rows;
struct stats;
struct tls;

/* err NULL: all is deleted, or there was nothing. */
typedef void front_ended(void *arg, const struct error *err);

struct front_http {
	struct loop *loop;
	const struct mcp_rows *rows;
	const struct env *env;		/* NULL: tools need none */
	const struct auth *auth;
	struct stats *stats;		/* may be NULL */
	const struct log *log;
	bool audit;			/* a line for each call, and refusal */
	const char *hosts, *origins;	/* guard.h, may be NULL */
	const char *health_namespace;	/* for /health; NULL: env's own */
	/*
	 * Begins to end a session; ended comes once, from the loop. -1: it
	 * could not begin. NULL: there is no /sessions.
	 */
	int (*end_session)(const struct env *env, const char *session,
	    front_ended *ended, void *arg, struct error *err);
	long drain_ms;
	int in, out;
	struct tls *tls;		/* for TCP; NULL: plain */
	int meet;			/* meet.h: speak 2024-11-05's, or -1 */
	int signals;			/* a signalfd, or -1 */
};

/* As front_lines(): 0, 2 when something had to be left, -1 with err set. */
int front_http(const struct front_http *f, struct error *err);

#endif
