/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "budget.h"
#include "buf.h"
#include "claim.h"
#include "config.h"
#include "env.h"
#include "error.h"
#include "file.h"
#include "gateway.h"
#include "json.h"
#include "k8s.h"
#include "link.h"
#include "mono.h"
#include "names.h"
#include "resolve.h"
#include "router.h"
#include "tunnel.h"
#include "web.h"

enum {
	PROBE_MS = 5000,
	KNOCK_MS = 1500,	/* for a pod that no policy hides from us */
	GRACE_S = 20		/* run.c's, to end what is over its time */
};

struct links {
	const struct env *env;
	struct link *first;		/* that are found */
	struct search *searches;	/* for others */
	struct router *router;		/* NULL: no such connection type */
	struct resolvers resolvers;
};

/* Who waits for a search; calls at once to one sandbox share it. */
struct link_find {
	struct search *search;
	link_found *done;
	void *arg;
	char claim[64];
	struct link_find *next;
};

struct search {
	struct links *links;
	struct link *link;		/* being filled in */
	struct link_find *waiting;
	struct k8s_op *req;
	struct web_op *probe;
	struct gateway *gateway;
	struct resolve *resolve;
	int declared;			/* enum runtime, or UNKNOWN */
	bool direct;			/* the probe goes past the tunnel */
	bool over;
	struct search *next;
};

enum { UNKNOWN = -1 };

/* --- all links ---------------------------------------------------------- */

static bool
is_routed(const struct config *c)
{
	return c->route == CONNECTION_GATEWAY || c->route == CONNECTION_DIRECT;
}

static int
resolvers_open(struct links *ls, const struct config *c, struct error *err)
{
	struct error ignored;
	char *text;
	size_t len;

	ls->resolvers.loopback = c->loopback;
	if (c->nameserver != NULL)
		return resolvers_set(&ls->resolvers, c->nameserver, err);
	text = file_read(NULL, "/etc/resolv.conf", &len, &ignored);
	if (text != NULL)
		resolvers_read(&ls->resolvers, text);
	free(text);
	return 0;
}

struct links *
links_open(const struct env *env, struct error *err)
{
	struct links *ls = calloc(1, sizeof(*ls));

	if (ls == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	ls->env = env;
	if (resolvers_open(ls, env->config, err) == 0 &&
	    (!is_routed(env->config) ||
	    (ls->router = router_open(env->config, err)) != NULL))
		return ls;
	links_close(ls);
	return NULL;
}

static void
destroy(struct link *l)
{
	tunnel_close(l->tunnel[0]);
	tunnel_close(l->tunnel[1]);
	free(l->claim);
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
	router_close(ls->router);
	free(ls);
}

struct link *
link_agent(const struct sandboxd_port *port, const char *token)
{
	struct link *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	l->runtime = RUNTIME_AGENT;
	l->rest = *port;
	l->users = 1;
	(void)snprintf(l->fields[0], sizeof(l->fields[0]),
	    "Authorization: Bearer %s", token);
	return l;
}

void
link_drop(struct links *ls, struct link *l)
{
	if (l == NULL)
		return;
	l->users--;
	if (l->runtime == RUNTIME_AGENT) {
		explicit_bzero(l->fields[0], sizeof(l->fields[0]));
		free(l);
		return;
	}
	sweep(ls);
}

void
link_keep(struct links *ls, const struct claim *c, long read_ms)
{
	struct link *l;

	for (l = ls->first; l != NULL; l = l->next)
		if (!l->stale && l->runtime == RUNTIME_NONE &&
		    l->identity[0] != '\0' &&
		    strcmp(l->namespace, c->namespace) == 0 &&
		    strcmp(l->sandbox, c->sandbox) == 0 &&
		    strcmp(l->address, c->address) == 0)
			break;
	if (l == NULL)
		return;
	if (l->claim == NULL && (l->claim = malloc(sizeof(*c))) == NULL)
		return;
	*l->claim = *c;
	l->claim_ms = read_ms;
}

const struct claim *
link_claim(const struct links *ls, const char *namespace, const char *name)
{
	for (const struct link *l = ls->first; l != NULL; l = l->next)
		if (!l->stale && l->claim != NULL &&
		    strcmp(l->claim->name, name) == 0 &&
		    strcmp(l->claim->namespace, namespace) == 0 &&
		    mono_ms() - l->claim_ms < LIMIT_KNOWN_MS &&
		    !claim_expired(l->claim))
			return l->claim;
	return NULL;
}

void
link_disclaim(struct links *ls, const char *namespace, const char *name)
{
	for (struct link *l = ls->first; l != NULL; l = l->next)
		if (l->claim != NULL && strcmp(l->claim->name, name) == 0 &&
		    strcmp(l->claim->namespace, namespace) == 0) {
			free(l->claim);
			l->claim = NULL;
		}
}

void
link_forget(struct link *l)
{
	l->stale = true;
	/* A Gateway may have moved. */
	if (l->router != NULL && l->router->config->route ==
	    CONNECTION_GATEWAY)
		l->router->url[0] = '\0';
}

/* --- the end of a search ------------------------------------------------ */

static void
search_out(struct search *f)
{
	struct search **at = &f->links->searches;

	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
}

/* Only now others may know of the link. */
/* Two claims may race for a warm Sandbox: is it this one's? */
static bool
belongs(const struct link *l, const char *claim)
{
	return l->owner[0] == '\0' || claim[0] == '\0' ||
	    strcmp(l->owner, claim) == 0;
}

static void
finish(struct search *f, const struct error *err)
{
	struct link *l = f->link;
	struct link_find *w;
	struct error other;

	search_out(f);
	f->over = true;
	l->stale = err != NULL;
	l->users = 1;
	l->next = f->links->first;
	f->links->first = l;
	while ((w = f->waiting) != NULL) {
		f->waiting = w->next;
		if (err == NULL && !belongs(l, w->claim)) {
			error_set(&other, ERR_CONFLICT, "Sandbox '%s' was "
			    "given to another claim: delete this one and "
			    "create a sandbox anew", l->sandbox);
			w->done(w->arg, NULL, &other);
		} else {
			l->users += err == NULL;
			w->done(w->arg, err == NULL ? l : NULL, err);
		}
		free(w);
	}
	link_drop(f->links, l);
	free(f);
}

static void
no_memory(struct search *f)
{
	struct error err;

	error_set(&err, ERR_SYSTEM, "out of memory");
	finish(f, &err);
}

/* --- ports -------------------------------------------------------------- */

static const struct error *
why(void *tunnel)
{
	return tunnel_error(tunnel);
}

/*
 * The host's name is only the key under which libcurl keeps the connection,
 * and what errors show: every pod has its own, and the address is told apart.
 */
static void
port_name(struct sandboxd_port *p, const struct link *l, long port,
    const char *address)
{
	bool six = strchr(address, ':') != NULL;
	char host[330];

	if (l->host[0] != '\0')
		(void)snprintf(host, sizeof(host), "%s", l->host);
	else
		(void)snprintf(host, sizeof(host), "%.253s.%.63s", l->pod,
		    l->namespace);
	(void)snprintf(p->url, sizeof(p->url), "http://%s:%ld", host, port);
	(void)snprintf(p->resolve, sizeof(p->resolve), "%s:%ld:%s%s%s", host,
	    port, six ? "[" : "", address, six ? "]" : "");
}

static int
port_tunnel(struct links *ls, struct link *l, int i, long port,
    struct sandboxd_port *p)
{
	port_name(p, l, port, "127.0.0.1");
	if (l->tunnel[i] == NULL)
		l->tunnel[i] = tunnel_open(ls->env->k8s, l->namespace, l->pod,
		    (uint16_t)port);
	p->open_socket = tunnel_socket;
	p->open_arg = l->tunnel[i];
	p->why = why;
	return l->tunnel[i] == NULL ? -1 : 0;
}

/* Both of a runtime's ports; false: no memory. */
static bool
ports(struct search *f, enum runtime runtime)
{
	const struct config *c = f->links->env->config;
	struct links *ls = f->links;
	struct link *l = f->link;
	long rest = runtime == RUNTIME_LEGACY ? c->server_port : c->rest_port;

	if (f->direct) {
		port_name(&l->rest, l, rest, l->ip);
		if (runtime == RUNTIME_SANDBOXD)
			port_name(&l->grpc, l, c->grpc_port, l->ip);
		return true;
	}
	/* A tunnel leads to one port. */
	tunnel_close(l->tunnel[1]);
	l->tunnel[1] = NULL;
	return (runtime != RUNTIME_SANDBOXD ||
	    port_tunnel(ls, l, 0, c->grpc_port, &l->grpc) == 0) &&
	    port_tunnel(ls, l, 1, rest, &l->rest) == 0;
}

/* --- which runtime answers ---------------------------------------------- */

static void way(struct search *f);

static void
settle(struct search *f, enum runtime runtime)
{
	f->link->runtime = runtime;
	if (runtime != RUNTIME_NONE && !ports(f, runtime))
		no_memory(f);
	else
		finish(f, NULL);
}

static void ask(struct search *f, enum runtime runtime);

/* Nothing answers where f->direct points. */
static void
nobody(struct search *f)
{
	const struct config *c = f->links->env->config;
	struct error err;

	if (f->direct) {
		f->direct = false;
		way(f);
	} else if (c->route == CONNECTION_AUTO) {
		settle(f, RUNTIME_NONE);
	} else {
		error_set(&err, ERR_CLUSTER, "sandbox '%s' runs neither "
		    "sandboxd on ports %ld and %ld nor the legacy runtime on "
		    "port %ld, which the tunnel needs: use connection type "
		    "'exec' or 'auto'", f->link->sandbox, c->rest_port,
		    c->grpc_port, c->server_port);
		finish(f, &err);
	}
}

static void
on_answer(void *arg, const struct event *ev)
{
	struct search *f = arg;
	enum runtime runtime = f->link->runtime;
	bool legacy = f->links->env->config->route == CONNECTION_TUNNEL ||
	    f->direct, ok = false;
	struct json_doc *doc = NULL;
	struct error err;

	if (ev->type != EVENT_REPLY)
		return;
	f->probe = NULL;
	if (ev->err == NULL && ev->status == 200 &&
	    (doc = json_parse_lax(ev->data, ev->len, &err)) != NULL)
		ok = json_type(json_get(json_root(doc), "status")) ==
		    JSON_STRING;
	json_free(doc);
	if (ok)
		settle(f, runtime);
	else if (runtime == RUNTIME_SANDBOXD && f->declared == UNKNOWN &&
	    legacy)
		ask(f, RUNTIME_LEGACY);
	else
		nobody(f);
}

/* Is it there? Both say {"status": ...} when asked for their health. */
static void
ask(struct search *f, enum runtime runtime)
{
	struct link *l = f->link;
	struct error err = { ERR_NONE, "" };
	struct web_req req = { .method = "GET", .max_body = 4096 };
	char url[512];

	l->runtime = runtime;
	if (!ports(f, runtime)) {
		no_memory(f);
		return;
	}
	(void)snprintf(url, sizeof(url), "%s%s", l->rest.url,
	    runtime == RUNTIME_LEGACY ? "/" : "/v1/health");
	req.url = url;
	req.resolve = l->rest.resolve;
	req.open_socket = l->rest.open_socket;
	req.open_arg = l->rest.open_arg;
	req.total_ms = f->direct ? KNOCK_MS : PROBE_MS;
	f->probe = web_send(f->links->env->web, &req, on_answer, f, &err);
	if (f->probe == NULL)
		finish(f, &err);
}

/* --- which way leads there ---------------------------------------------- */

static void
field(struct link *l, size_t i, const char *name, const char *value)
{
	(void)snprintf(l->fields[i], sizeof(l->fields[i]), "%s: %s", name,
	    value);
}

/* The router's address is known: what it has to be told of this sandbox. */
static void
routed(struct search *f)
{
	const struct config *c = f->links->env->config;
	struct link *l = f->link;
	struct error err;
	char port[8];

	l->router = f->links->router;
	l->runtime = f->declared == RUNTIME_SANDBOXD ? RUNTIME_SANDBOXD :
	    RUNTIME_LEGACY;
	(void)snprintf(port, sizeof(port), "%ld", l->runtime ==
	    RUNTIME_LEGACY ? c->server_port : c->rest_port);
	if (name_label("X-Sandbox-ID", l->sandbox, &err) == -1) {
		error_set(&err, ERR_INPUT, "sandbox '%s' can't be reached "
		    "through a router: it takes names of at most 63 "
		    "characters without a dot", l->sandbox);
		finish(f, &err);
		return;
	}
	field(l, 0, "X-Sandbox-ID", l->sandbox);
	field(l, 1, "X-Sandbox-Namespace", l->namespace);
	field(l, 2, "X-Sandbox-Port", port);
	if (c->router_pod_ip && l->ip[0] != '\0')
		field(l, 3, "X-Sandbox-Pod-IP", l->ip);
	(void)snprintf(l->rest.url, sizeof(l->rest.url), "%s", l->router->url);
	(void)snprintf(l->rest.resolve, sizeof(l->rest.resolve), "%s",
	    l->router->resolve);
	finish(f, NULL);
}

static void
on_resolved(void *arg, const char *address, const struct error *err)
{
	struct search *f = arg;
	struct config const *c = f->links->env->config;
	struct error copy;

	f->resolve = NULL;
	if (err != NULL) {
		error_set(&copy, err->code, "sandbox '%s': %.400s%s",
		    f->link->sandbox, err->text,
		    c->route == CONNECTION_IN_CLUSTER ? ". It has one only if "
		    "its template asks for a Service; else set "
		    "K8S_SANDBOX_CONNECTION__USE_POD_IP=true" : "");
		finish(f, &copy);
	} else if (is_routed(c)) {
		router_set(f->links->router, f->link->host, address);
		routed(f);
	} else {
		(void)snprintf(f->link->ip, sizeof(f->link->ip), "%s",
		    address);
		settle(f, (enum runtime)f->declared);
	}
}

static void
look_up(struct search *f)
{
	f->resolve = resolve_start(f->links->env->loop, &f->links->resolvers,
	    f->link->host, on_resolved, f);
	if (f->resolve == NULL)
		no_memory(f);
}

static void
on_gateway(void *arg, const char *host, const struct error *err)
{
	struct search *f = arg;
	char address[ADDRESS_SIZE];
	bool literal;

	f->gateway = NULL;
	if (err != NULL) {
		finish(f, err);
		return;
	}
	(void)snprintf(f->link->host, sizeof(f->link->host), "%s", host);
	if (!address_ok(host, f->links->env->config->loopback, address,
	    &literal)) {
		look_up(f);
		return;
	}
	router_set(f->links->router, host, address);
	routed(f);
}

static void
by_gateway(struct search *f)
{
	const struct env *env = f->links->env;

	if (f->links->router->url[0] != '\0') {
		routed(f);
		return;
	}
	f->gateway = gateway_find(env->k8s, env->config, on_gateway, f);
	if (f->gateway == NULL)
		no_memory(f);
}

/* To the pod itself; the runtime is settled. */
static void
by_address(struct search *f)
{
	struct link *l = f->link;
	struct error err;

	if (l->ip[0] != '\0') {
		settle(f, (enum runtime)f->declared);
		return;
	}
	error_set(&err, ERR_CLUSTER, l->address[0] == '\0' ? "sandbox '%s' "
	    "has no pod address: it is not ready" : "the pod address of "
	    "sandbox '%s' is not used: it is this machine, a neighbour or a "
	    "metadata service", l->sandbox);
	finish(f, &err);
}

static void
by_name(struct search *f)
{
	struct error err;

	if (f->link->host[0] != '\0') {
		look_up(f);
		return;
	}
	error_set(&err, ERR_CLUSTER, "sandbox '%s' has no Service FQDN: enable "
	    "service on the template, or set K8S_SANDBOX_CONNECTION__MODE to "
	    "in-cluster-pod-ip", f->link->sandbox);
	finish(f, &err);
}

static void
by_tunnel(struct search *f)
{
	bool any = f->links->env->config->route == CONNECTION_AUTO;

	if (f->declared == UNKNOWN)
		ask(f, RUNTIME_SANDBOXD);
	else if (f->declared == RUNTIME_SANDBOXD)
		settle(f, RUNTIME_SANDBOXD);
	else if (f->declared == RUNTIME_LEGACY && !any)
		settle(f, RUNTIME_LEGACY);
	else
		/* exec is there as well, streams and loses no byte. */
		nobody(f);
}

/* Past the API server, if this is a pod too and nothing is in between. */
static void
by_itself(struct search *f)
{
	if (!f->direct || f->declared == RUNTIME_NONE)
		by_tunnel(f);
	else
		ask(f, f->declared == RUNTIME_LEGACY ? RUNTIME_LEGACY :
		    RUNTIME_SANDBOXD);
}

static void
way(struct search *f)
{
	const struct config *c = f->links->env->config;

	switch (c->route) {
	case CONNECTION_EXEC:
		settle(f, RUNTIME_NONE);
		break;
	case CONNECTION_TUNNEL:
		by_tunnel(f);
		break;
	case CONNECTION_AUTO:
		by_itself(f);
		break;
	case CONNECTION_GATEWAY:
		by_gateway(f);
		break;
	case CONNECTION_DIRECT:
		routed(f);
		break;
	case CONNECTION_IN_CLUSTER:
		if (f->declared != RUNTIME_SANDBOXD)
			f->declared = RUNTIME_LEGACY;
		(c->use_pod_ip ? by_address : by_name)(f);
		break;
	case CONNECTION_SANDBOXD_IN_CLUSTER:
		f->declared = RUNTIME_SANDBOXD;
		(strcmp(c->mode, "in-cluster-pod-ip") == 0 ? by_address :
		    by_name)(f);
		break;
	}
}

/* --- the Sandbox -------------------------------------------------------- */

/* Which runtime do the declared ports belong to? */
static int
runtime_of(const struct config *c, struct json containers)
{
	struct json m, p;
	long port;
	int found = UNKNOWN;

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
			else if (found == UNKNOWN)
				found = RUNTIME_NONE;
		}
	return found;
}

static void
read_container(struct link *l, const struct config *c, struct json o)
{
	struct json notes = json_path(o, "spec.podTemplate.metadata."
	    "annotations");
	struct json first = json_at(json_path(o, "spec.podTemplate.spec."
	    "containers"), 0);

	if (c->container != NULL)
		(void)snprintf(l->container, sizeof(l->container), "%s",
		    c->container);
	else if (!json_str(json_get(notes,
	    "kubectl.kubernetes.io/default-container"), l->container,
	    sizeof(l->container)))
		(void)json_str(json_get(first, "name"), l->container,
		    sizeof(l->container));
}

/* Where it is, by the claim's word, its own, or a rule. */
static void
read_place(struct search *f, struct json o)
{
	const struct config *c = f->links->env->config;
	struct link *l = f->link;
	bool literal;

	if (!address_ok(l->address, c->loopback, l->ip, &literal))
		l->ip[0] = '\0';
	if (c->route == CONNECTION_IN_CLUSTER && !c->use_pod_ip)
		(void)snprintf(l->host, sizeof(l->host), "%.100s.%s.svc.%.80s",
		    l->sandbox, l->namespace, c->cluster_domain);
	if (c->route == CONNECTION_SANDBOXD_IN_CLUSTER &&
	    strcmp(c->mode, "in-cluster-service") == 0 &&
	    (!json_str(json_path(o, "status.serviceFQDN"), l->host,
	    sizeof(l->host)) || !address_name(l->host)))
		l->host[0] = '\0';
	f->direct = c->route == CONNECTION_IN_CLUSTER ||
	    c->route == CONNECTION_SANDBOXD_IN_CLUSTER ||
	    (c->route == CONNECTION_AUTO && c->in_cluster &&
	    l->ip[0] != '\0');
}

/* The controller's mark; without one, nothing is compared. */
static void
read_owner(struct link *l, struct json o)
{
	struct json m = json_first(json_path(o, "metadata.ownerReferences"));

	for (; json_type(m) != JSON_NONE; m = json_next(m))
		if (json_is(json_get(m, "kind"), "SandboxClaim"))
			(void)json_str(json_get(m, "uid"), l->owner,
			    sizeof(l->owner));
}

static void
read_sandbox(struct search *f, struct json o)
{
	const struct config *c = f->links->env->config;
	struct link *l = f->link;

	(void)json_str(json_get(json_path(o, "metadata.annotations"),
	    "agents.x-k8s.io/pod-name"), l->pod, sizeof(l->pod));
	read_owner(l, o);
	read_container(l, c, o);
	read_place(f, o);
	f->declared = runtime_of(c, json_path(o, "spec.podTemplate.spec."
	    "containers"));
	way(f);
}

static void
on_sandbox(void *arg, const struct event *ev)
{
	struct search *f = arg;
	struct json_doc *doc;
	struct error err = { ERR_NONE, "" };

	f->req = NULL;
	/* Without the right to read it, its name is the pod's by rule. */
	if (ev->err != NULL && ev->status == 403) {
		read_sandbox(f, json_root(NULL));
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
    const char *address, const char *claim)
{
	for (struct link *l = ls->first; l != NULL; l = l->next) {
		if (l->stale || strcmp(l->namespace, namespace) != 0 ||
		    strcmp(l->sandbox, sandbox) != 0)
			continue;
		if (strcmp(l->address, address) == 0 && belongs(l, claim))
			return l;
		l->stale = true;
	}
	return NULL;
}

static struct search *
search_known(struct links *ls, const char *namespace, const char *sandbox,
    const char *address)
{
	struct search *f = ls->searches;

	while (f != NULL && (strcmp(f->link->namespace, namespace) != 0 ||
	    strcmp(f->link->sandbox, sandbox) != 0 ||
	    strcmp(f->link->address, address) != 0))
		f = f->next;
	return f;
}

static struct search *
search_start(struct links *ls, const char *namespace, const char *sandbox,
    const char *address)
{
	struct search *f = calloc(1, sizeof(*f));
	struct link *l = calloc(1, sizeof(*l));
	struct buf path;

	if (f == NULL || l == NULL) {
		free(f);
		free(l);
		return NULL;
	}
	*f = (struct search){ .links = ls, .link = l, .declared = UNKNOWN,
	    .next = ls->searches };
	ls->searches = f;
	(void)snprintf(l->namespace, sizeof(l->namespace), "%s", namespace);
	(void)snprintf(l->sandbox, sizeof(l->sandbox), "%s", sandbox);
	(void)snprintf(l->pod, sizeof(l->pod), "%s", sandbox);
	(void)snprintf(l->address, sizeof(l->address), "%s", address);
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

struct link_find *
link_find(struct links *ls, const char *namespace, const char *sandbox,
    const char *address, const char *claim, link_found *done, void *arg)
{
	struct link *l = known(ls, namespace, sandbox, address, claim);
	struct link_find *w, **at;
	struct search *f;
	struct error err;

	if (l != NULL) {
		l->users++;
		done(arg, l, NULL);
		return NULL;
	}
	w = calloc(1, sizeof(*w));
	if (w == NULL || ((f = search_known(ls, namespace, sandbox, address))
	    == NULL && (f = search_start(ls, namespace, sandbox, address))
	    == NULL)) {
		free(w);
		error_set(&err, ERR_SYSTEM, "out of memory");
		done(arg, NULL, &err);
		return NULL;
	}
	*w = (struct link_find){ .search = f, .done = done, .arg = arg };
	(void)snprintf(w->claim, sizeof(w->claim), "%s", claim);
	for (at = &f->waiting; *at != NULL; at = &(*at)->next)
		;
	*at = w;
	return w;
}

/* The last who waits takes the search along. */
void
link_find_cancel(struct link_find *w)
{
	struct link_find **at;
	struct search *f;

	if (w == NULL)
		return;
	f = w->search;
	for (at = &f->waiting; *at != w; at = &(*at)->next)
		;
	*at = w->next;
	free(w);
	if (f->waiting != NULL || f->over)
		return;
	k8s_cancel(f->req);
	web_cancel(f->probe);
	gateway_cancel(f->gateway);
	resolve_cancel(f->resolve);
	search_out(f);
	destroy(f->link);
	free(f);
}

/* --- a request on the way ----------------------------------------------- */

int
link_aim(struct link_aim *a, const struct link *l, const char *path,
    long timeout_ms, struct web_req *req, struct error *err)
{
	size_t n = 0, most = sizeof(a->headers) / sizeof(a->headers[0]) -
	    LINK_FIELDS - 3;

	*a = (struct link_aim){ .headers = { NULL } };
	buf_init(&a->url, 64 << 10);
	buf_init(&a->token, LIMIT_TOKEN + 64);
	buf_printf(&a->url, "%s%s", l->rest.url, path);
	for (; req->headers != NULL && req->headers[n] != NULL && n < most; n++)
		a->headers[n] = req->headers[n];
	for (size_t i = 0; i < LINK_FIELDS; i++)
		if (l->fields[i][0] != '\0')
			a->headers[n++] = l->fields[i];
	if (l->router != NULL && timeout_ms > 0) {
		(void)snprintf(a->timeout, sizeof(a->timeout),
		    "X-Sandbox-Timeout: %ld", (timeout_ms + 999) / 1000 +
		    GRACE_S);
		a->headers[n++] = a->timeout;
	}
	if (l->router != NULL && router_token(l->router, &a->token, err) == -1)
		return -1;
	if (a->token.len > 0)
		a->headers[n++] = a->token.data;
	if (!buf_ok(&a->url) || !buf_ok(&a->token))
		return error_set(err, ERR_LIMIT, "the path is too long");
	req->url = a->url.data;
	req->headers = a->headers;
	req->resolve = l->rest.resolve[0] != '\0' ? l->rest.resolve : NULL;
	req->open_socket = l->rest.open_socket;
	req->open_arg = l->rest.open_arg;
	req->tls = l->router != NULL ? &l->router->tls : NULL;
	/* A tunnel tells us when it has ended; an idle connection may not. */
	req->fresh |= strcmp(req->method, "POST") == 0 &&
	    req->open_socket == NULL;
	return 0;
}

void
link_unaim(struct link_aim *a)
{
	buf_free(&a->url);
	buf_wipe(&a->token);
}

/* The words of a refusal: {"detail"}, {"message"}, or the text itself. */
static void
detail(const struct event *ev, char *dst, size_t size)
{
	struct error err;
	struct json_doc *doc = NULL;
	struct json root, v;
	struct buf b;

	buf_init(&b, 64 << 10);
	if (ev->len > 0)
		doc = json_parse_lax(ev->data, ev->len, &err);
	root = json_root(doc);
	v = json_get(root, "detail");
	if (json_type(v) == JSON_ARRAY)
		v = json_get(json_at(v, 0), "msg");
	if (json_type(v) != JSON_STRING)
		v = json_get(root, "message");
	if (json_type(v) == JSON_STRING)
		(void)json_text(v, &b);
	else if (doc == NULL && ev->len > 0)
		buf_put(&b, ev->data, ev->len < 512 ? ev->len : 512);
	buf_put(&b, "", 0);
	(void)snprintf(dst, size, "%s", b.data != NULL ? b.data : "");
	buf_free(&b);
	json_free(doc);
}

void
link_explain(struct link *l, const struct event *ev, long waited_ms,
    struct error *err)
{
	const char *who = l->runtime == RUNTIME_LEGACY ?
	    "the legacy runtime" : l->runtime == RUNTIME_AGENT ?
	    "the agent" : "sandboxd";
	const struct error *reason = NULL;
	char text[512];

	if (ev->status == 0 || (ev->status >= 200 && ev->status <= 299)) {
		if (l->rest.why != NULL && ev->err->code == ERR_LOST)
			reason = l->rest.why(l->rest.open_arg);
		*err = reason != NULL ? *reason : *ev->err;
		if (l->router != NULL)
			who = "the router";
		error_wrap(err, "%s", who);
		if (ev->status == 0)
			link_forget(l);
		return;
	}
	detail(ev, text, sizeof(text));
	if (l->router != NULL && router_explain(ev->status, text, waited_ms,
	    err)) {
		link_forget(l);
		return;
	}
	if (ev->status >= 300 && ev->status <= 399)
		error_set(err, ERR_CLUSTER, "%s redirects (%ld), which is not "
		    "followed: is it listening there?", who, ev->status);
	else
		error_set(err, error_of_http(ev->status), "%s: status %ld"
		    "%s%.500s", who, ev->status, text[0] != '\0' ? ": " : "",
		    text);
	if (ev->status >= 500)
		link_forget(l);
}
