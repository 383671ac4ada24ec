/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent - a client of the agent in a session's pod (mcp-sandbox-agent(1);
 * contract: cli-mcp-server 14; works with the original's agent too).
 *
 * It is reached at the pod's address from inside the cluster, and through a
 * tunnel from anywhere else, as the connection type says.
 */
#ifndef AGENT_H
#define AGENT_H

#include <stdbool.h>

#include "event.h"
#include "sandboxd.h"

struct agent;
struct env;
struct error;
struct web_op;

/* address: the pod's as its status has it. NULL: err. */
struct agent *agent_open(struct env *env, const char *namespace,
    const char *pod, const char *address, struct error *err);
/* One more who has it; each closes it once, and the last one means it. */
struct agent *agent_hold(struct agent *a);
void agent_close(struct agent *a);	/* NULL is fine */

/* Its port, for others who speak to it (files). Lives as long as a. */
const struct sandboxd_port *agent_port(const struct agent *a);

struct agent_req {
	const char *method, *path;	/* path with its query */
	const char *token;		/* NULL: none is sent */
	const char *body;	/* JSON unless type says else; or NULL */
	size_t body_len;
	const char *type;
	long first_byte_ms;		/* -1: however long it takes */
	size_t max_body;
};
/* EVENT_REPLY comes, as web_send() has it. Never repeated. */
struct web_op *agent_send(struct agent *a, const struct agent_req *req,
    event_fn *fn, void *arg, struct error *err);

/*
 * What a reply means that is no 2xx, or has an err. true: nothing of the
 * request can have reached the agent, so that it may be sent again; only to be
 * trusted when no other request is under way through the same tunnel.
 */
bool agent_explain(struct agent *a, const struct web_op *op,
    const struct event *ev, struct error *err);

#endif
