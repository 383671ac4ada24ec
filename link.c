/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "config.h"
#include "env.h"
#include "error.h"
#include "json.h"
#include "k8s.h"
#include "budget.h"
#include "link.h"
#include "tunnel.h"
#include "web.h"

enum { PROBE_MS = 5000 };

struct links {
	const struct env *env;
	struct link *first;
};

struct link_find {
	struct links *links;
	struct link *link;		/* being filled in; held */
	struct k8s_op *req;
	struct web_op *probe;
	link_found *done;
	void *arg;
};

struct links *
links_open(const struct env *env)
{
	struct links *ls = calloc(1, sizeof(*ls));

	if (ls != NULL)
		ls->env = env;
	return ls;
}

static void
destroy(struct link *l)
{
	tunnel_close(l->tunnel[0]);
	tunnel_close(l->tunnel[1]);
	free(l);
}

/* Take out what is stale and unused; the newest come first, 16 are kept. */
static void
sweep(struct links *ls)
{
	struct link **at = &ls->first, *l;
	unsigned n = 0;

	while ((l = *at) != NULL) {
		if (l->users == 0 && (l->stale || ++n > LIMIT_LINKS)) {
			*at = l->next;
			destroy(l);
		} else {
			at = &l->next;
		}
	}
}

void
links_close(struct links *ls)
{
	struct link *l, *next;

	if (ls == NULL)
		return;
	for (l = ls->first; l != NULL; l = next) {
		next = l->next;
		destroy(l);
	}
	free(ls);
}

void
link_drop(struct links *ls, struct link *l)
{
	if (l == NULL)
		return;
	l->users--;
	sweep(ls);
}

void
link_forget(struct link *l)
{
	l->stale = true;
}

static void
finish(struct link_find *f, const struct error *err)
{
	struct link *l = f->link;

	if (err != NULL) {
		l->stale = true;
		link_drop(f->links, l);
		l = NULL;
	}
	f->done(f->arg, l, err);
	free(f);
}

static const struct error *
why(void *tunnel)
{
	return tunnel_error(tunnel);
}

/*
 * The host's name is only the key under which libcurl keeps the connection:
 * every pod has its own, and a numeric address spares it the look-up.
 */
static int
open_port(struct links *ls, struct link *l, int i, long port,
    struct sandboxd_port *p)
{
	l->tunnel[i] = tunnel_open(ls->env->k8s, l->namespace, l->pod,
	    (uint16_t)port);
	(void)snprintf(p->url, sizeof(p->url), "http://%.253s.%.63s:%ld",
	    l->pod, l->namespace, port);
	(void)snprintf(p->resolve, sizeof(p->resolve), "%.253s.%.63s:%ld:"
	    "127.0.0.1", l->pod, l->namespace, port);
	p->open_socket = tunnel_socket;
	p->open_arg = l->tunnel[i];
	p->why = why;
	return l->tunnel[i] == NULL ? -1 : 0;
}

static int
open_ports(struct links *ls, struct link *l, struct error *err)
{
	const struct config *c = ls->env->config;

	if (open_port(ls, l, 0, c->grpc_port, &l->grpc) == -1 ||
	    open_port(ls, l, 1, c->rest_port, &l->rest) == -1)
		return error_set(err, ERR_SYSTEM, "out of memory");
	return 0;
}

/* Settle on the runtime that was recognised; an error where it can't be. */
static void
settle(struct link_find *f, enum runtime runtime)
{
	const struct config *c = f->links->env->config;
	struct link *l = f->link;
	struct error err = { ERR_NONE, "" };

	l->runtime = c->route == CONNECTION_EXEC ? RUNTIME_NONE : runtime;
	if (l->runtime == RUNTIME_LEGACY && c->route == CONNECTION_AUTO)
		l->runtime = RUNTIME_NONE;
	if (l->runtime == RUNTIME_SANDBOXD && l->tunnel[0] == NULL)
		(void)open_ports(f->links, l, &err);
	if (c->route == CONNECTION_TUNNEL && l->runtime != RUNTIME_SANDBOXD)
		error_set(&err, ERR_CLUSTER, "sandbox '%s' runs no sandboxd on "
		    "ports %ld and %ld, which the tunnel needs: use connection "
		    "type 'exec' or 'auto'", l->sandbox, c->rest_port,
		    c->grpc_port);
	finish(f, err.code == ERR_NONE ? NULL : &err);
}

static void
on_probe(void *arg, const struct event *ev)
{
	struct link_find *f = arg;
	struct json_doc *doc = NULL;
	struct error err;
	bool ok = false;

	if (ev->type != EVENT_REPLY)
		return;
	f->probe = NULL;
	if (ev->err == NULL && ev->status == 200 &&
	    (doc = json_parse_lax(ev->data, ev->len, &err)) != NULL)
		ok = json_type(json_get(json_root(doc), "status")) ==
		    JSON_STRING;
	json_free(doc);
	settle(f, ok ? RUNTIME_SANDBOXD : RUNTIME_NONE);
}

/* No port is declared: ask for sandboxd's health through the tunnel. */
static void
probe(struct link_find *f)
{
	struct link *l = f->link;
	struct error err = { ERR_NONE, "" };
	struct web_req req = { .method = "GET", .max_body = 4096,
	    .total_ms = PROBE_MS };
	char url[512];

	if (f->links->env->config->route == CONNECTION_EXEC) {
		settle(f, RUNTIME_NONE);
		return;
	}
	if (open_ports(f->links, l, &err) == 0) {
		(void)snprintf(url, sizeof(url), "%s/v1/health", l->rest.url);
		req.url = url;
		req.resolve = l->rest.resolve;
		req.open_socket = l->rest.open_socket;
		req.open_arg = l->rest.open_arg;
		f->probe = web_send(f->links->env->web, &req, on_probe, f,
		    &err);
	}
	if (f->probe == NULL)
		finish(f, &err);
}

/* Which runtime do the declared ports belong to? -1: none is declared. */
static int
runtime_of(const struct config *c, struct json containers)
{
	struct json m, p;
	long port;
	int found = -1;

	for (m = json_first(containers); json_type(m) != JSON_NONE;
	    m = json_next(m))
		for (p = json_first(json_get(m, "ports"));
		    json_type(p) != JSON_NONE; p = json_next(p)) {
			if (!json_int(json_get(p, "containerPort"), 1, 65535,
			    &port))
				continue;
			if (port == c->grpc_port)
				return RUNTIME_SANDBOXD;
			if (port == c->server_port)
				found = RUNTIME_LEGACY;
			else if (found == -1)
				found = RUNTIME_NONE;
		}
	return found;
}

static void
read_sandbox(struct link_find *f, struct json o)
{
	const struct config *c = f->links->env->config;
	struct link *l = f->link;
	struct json spec = json_path(o, "spec.podTemplate.spec.containers");
	struct json notes = json_path(o, "spec.podTemplate.metadata."
	    "annotations");
	int runtime;

	(void)json_str(json_get(json_path(o, "metadata.annotations"),
	    "agents.x-k8s.io/pod-name"), l->pod, sizeof(l->pod));
	if (c->container != NULL)
		(void)snprintf(l->container, sizeof(l->container), "%s",
		    c->container);
	else if (!json_str(json_get(notes,
	    "kubectl.kubernetes.io/default-container"), l->container,
	    sizeof(l->container)))
		(void)json_str(json_get(json_at(spec, 0), "name"),
		    l->container, sizeof(l->container));
	if ((runtime = runtime_of(c, spec)) == -1)
		probe(f);
	else
		settle(f, (enum runtime)runtime);
}

static void
on_sandbox(void *arg, const struct event *ev)
{
	struct link_find *f = arg;
	struct json_doc *doc;
	struct error err = { ERR_NONE, "" };

	f->req = NULL;
	/* Without the right to read it, its name is the pod's by rule. */
	if (ev->err != NULL && ev->status == 403) {
		probe(f);
		return;
	}
	if (ev->err != NULL) {
		err = *ev->err;
		if (ev->status == 404)
			error_set(&err, ERR_GONE, "Underlying Sandbox '%s' "
			    "not found.", f->link->sandbox);
		finish(f, &err);
		return;
	}
	if ((doc = json_parse_lax(ev->data, ev->len, &err)) == NULL) {
		error_wrap(&err, "sandbox '%s'", f->link->sandbox);
		finish(f, &err);
		return;
	}
	read_sandbox(f, json_root(doc));
	json_free(doc);
}

static struct link *
known(struct links *ls, const char *namespace, const char *sandbox,
    const char *address)
{
	for (struct link *l = ls->first; l != NULL; l = l->next) {
		if (l->stale || strcmp(l->namespace, namespace) != 0 ||
		    strcmp(l->sandbox, sandbox) != 0)
			continue;
		if (strcmp(l->address, address) == 0)
			return l;
		l->stale = true;
	}
	return NULL;
}

struct link_find *
link_find(struct links *ls, const char *namespace, const char *sandbox,
    const char *address, link_found *done, void *arg)
{
	struct link_find *f;
	struct link *l = known(ls, namespace, sandbox, address);
	struct buf path;

	if (l != NULL) {
		l->users++;
		done(arg, l, NULL);
		return NULL;
	}
	f = calloc(1, sizeof(*f));
	l = calloc(1, sizeof(*l));
	if (f == NULL || l == NULL) {
		struct error err;

		free(f);
		free(l);
		error_set(&err, ERR_SYSTEM, "out of memory");
		done(arg, NULL, &err);
		return NULL;
	}
	*f = (struct link_find){ ls, l, NULL, NULL, done, arg };
	(void)snprintf(l->namespace, sizeof(l->namespace), "%s", namespace);
	(void)snprintf(l->sandbox, sizeof(l->sandbox), "%s", sandbox);
	(void)snprintf(l->pod, sizeof(l->pod), "%s", sandbox);
	(void)snprintf(l->address, sizeof(l->address), "%s", address);
	l->users = 1;
	l->next = ls->first;
	ls->first = l;
	buf_init(&path, 1024);
	buf_puts(&path, "/apis/agents.x-k8s.io/v1beta1/namespaces/");
	k8s_escape(&path, namespace);
	buf_puts(&path, "/sandboxes/");
	k8s_escape(&path, sandbox);
	f->req = k8s_send(ls->env->k8s, "GET", path.data, NULL, 0, on_sandbox,
	    f);
	buf_free(&path);
	return f;
}

void
link_find_cancel(struct link_find *f)
{
	if (f == NULL)
		return;
	k8s_cancel(f->req);
	web_cancel(f->probe);
	f->link->stale = true;
	link_drop(f->links, f->link);
	free(f);
}
