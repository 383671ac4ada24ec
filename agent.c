/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "agent.h"
#include "buf.h"
#include "budget.h"
#include "config.h"
#include "env.h"
#include "error.h"
#include "json.h"
#include "manifest.h"
#include "token.h"
#include "tunnel.h"
#include "web.h"

struct agent {
	struct env *env;
	struct tunnel *tunnel;
	struct sandboxd_port port;
	char pod[254];
	unsigned users;
};

/* By its address only where we are inside the cluster ourselves. */
static bool
by_address(const struct config *c)
{
	switch (c->route) {
	case CONNECTION_AUTO:
	case CONNECTION_GATEWAY:
	case CONNECTION_DIRECT:
		return c->in_cluster;
	case CONNECTION_IN_CLUSTER:
	case CONNECTION_SANDBOXD_IN_CLUSTER:
		return true;
	default:
		return false;
	}
}

static const struct error *
tunnel_why(void *tunnel)
{
	return tunnel_error(tunnel);
}

static int
open_address(struct agent *a, const char *address, struct error *err)
{
	char literal[ADDRESS_SIZE];
	bool is;

	if (!address_ok(address, a->env->config->loopback, literal, &is))
		return error_set(err, ERR_CLUSTER, "pod '%s' has an address "
		    "that no pod may have", a->pod);
	(void)snprintf(a->port.url, sizeof(a->port.url),
	    strchr(literal, ':') != NULL ? "http://[%s]:%d" : "http://%s:%d",
	    literal, AGENT_PORT);
	return 0;
}

/* The name is only libcurl's key for the connection: one for each pod. */
static int
open_tunnel(struct agent *a, const char *namespace, struct error *err)
{
	a->tunnel = tunnel_open(a->env->k8s, namespace, a->pod, AGENT_PORT);
	if (a->tunnel == NULL)
		return error_set(err, ERR_SYSTEM, "out of memory");
	(void)snprintf(a->port.url, sizeof(a->port.url),
	    "http://%.253s.%.63s:%d", a->pod, namespace, AGENT_PORT);
	(void)snprintf(a->port.resolve, sizeof(a->port.resolve),
	    "%.253s.%.63s:%d:127.0.0.1", a->pod, namespace, AGENT_PORT);
	a->port.open_socket = tunnel_socket;
	a->port.open_arg = a->tunnel;
	a->port.why = tunnel_why;
	return 0;
}

struct agent *
agent_open(struct env *env, const char *namespace, const char *pod,
    const char *address, struct error *err)
{
	struct agent *a = calloc(1, sizeof(*a));
	int r;

	if (a == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	a->env = env;
	a->users = 1;
	(void)snprintf(a->pod, sizeof(a->pod), "%s", pod);
	r = by_address(env->config) ? open_address(a, address, err) :
	    open_tunnel(a, namespace, err);
	if (r == 0)
		return a;
	agent_close(a);
	return NULL;
}

struct agent *
agent_hold(struct agent *a)
{
	a->users++;
	return a;
}

void
agent_close(struct agent *a)
{
	if (a == NULL || --a->users > 0)
		return;
	tunnel_close(a->tunnel);
	free(a);
}

const struct sandboxd_port *
agent_port(const struct agent *a)
{
	return &a->port;
}

struct web_op *
agent_send(struct agent *a, const struct agent_req *req, event_fn *fn,
    void *arg, struct error *err)
{
	char url[1024], auth[TOKEN_SIZE + 512], type[100];
	const char *headers[4] = { NULL };
	struct web_req w = { .method = req->method, .url = url,
	    .headers = headers, .body = req->body, .body_len = req->body_len,
	    .first_byte_ms = req->first_byte_ms,
	    .idle_ms = req->first_byte_ms, .max_body = req->max_body };
	size_t n = 0;
	struct web_op *op;

	(void)snprintf(url, sizeof(url), "%s%s", a->port.url, req->path);
	if (a->port.resolve[0] != '\0')
		w.resolve = a->port.resolve;
	w.open_socket = a->port.open_socket;
	w.open_arg = a->port.open_arg;
	if (req->token != NULL) {
		(void)snprintf(auth, sizeof(auth), "Authorization: Bearer %s",
		    req->token);
		headers[n++] = auth;
	}
	(void)snprintf(type, sizeof(type), "Content-Type: %s",
	    req->type != NULL ? req->type : "application/json");
	if (req->body != NULL)
		headers[n++] = type;
	op = web_send(a->env->web, &w, fn, arg, err);
	explicit_bzero(auth, sizeof(auth));
	return op;
}

/* The agent's own words: {"error":"text"}, or {"message":"text"} of files. */
static void
words(const struct event *ev, char *dst, size_t size)
{
	struct json_doc *doc;
	struct error err;
	struct json m;

	dst[0] = '\0';
	if ((doc = json_parse_lax(ev->data, ev->len, &err)) == NULL)
		return;
	m = json_get(json_root(doc), "error");
	if (json_type(m) != JSON_STRING)
		m = json_get(json_root(doc), "message");
	(void)json_str(m, dst, size);
	json_free(doc);
}

/* The tunnel took the bytes, but there was nobody to give them to. */
static bool
refused(const struct error *why)
{
	return strstr(why->text, "connection refused") != NULL ||
	    strstr(why->text, "unable to upgrade") != NULL ||
	    why->code == ERR_GONE;
}

bool
agent_explain(struct agent *a, const struct web_op *op,
    const struct event *ev, struct error *err)
{
	const struct error *why = a->port.why != NULL ?
	    a->port.why(a->port.open_arg) : NULL;
	char text[400];

	if (ev->err != NULL) {
		bool unsent = !web_sent(op) || (why != NULL && refused(why));

		*err = ev->err->code == ERR_LOST && why != NULL ? *why :
		    *ev->err;
		if (err->code != ERR_TIMEOUT && err->code != ERR_LIMIT)
			err->code = ERR_LOST;
		error_wrap(err, "agent in pod '%s'", a->pod);
		return unsent;
	}
	words(ev, text, sizeof(text));
	error_set(err, ev->status == 401 || ev->status == 403 ? ERR_DENIED :
	    ev->status == 404 ? ERR_GONE : ev->status == 409 ? ERR_CONFLICT :
	    ev->status == 400 || ev->status == 416 ? ERR_INPUT :
	    ev->status == 503 ? ERR_BUSY : ERR_CLUSTER,
	    "agent in pod '%s': %s%sunexpected status %ld", a->pod, text,
	    text[0] != '\0' ? ", " : "", ev->status);
	return false;
}
