/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "ask.h"
#include "config.h"
#include "doctor.h"
#include "env.h"
#include "jsonw.h"
#include "k8s.h"
#include "kubeconfig.h"

#define CLAIMS "extensions.agents.x-k8s.io"
#define SANDBOXES "agents.x-k8s.io"

enum { VERBS_MAX = 8 };

struct doctor {
	struct env *env;
	int fd;
	bool missing, denied;
};

/* What the tools of a family ask for, as deploy/ grants it. */
static const struct right {
	unsigned family;
	const char *group, *resource, *part;
	const char *verbs[VERBS_MAX];
} rights[] = {
	{ FAMILY_SANDBOX, CLAIMS, "sandboxclaims", "",
	    { "create", "get", "list", "watch", "patch", "delete" } },
	{ FAMILY_SANDBOX, CLAIMS, "sandboxwarmpools", "", { "get", "list" } },
	{ FAMILY_SANDBOX, SANDBOXES, "sandboxes", "",
	    { "get", "list", "watch", "patch" } },
	{ FAMILY_SANDBOX, "", "pods", "", { "get", "list", "watch" } },
	{ FAMILY_SANDBOX, "", "pods", "exec", { "get", "create" } },
	{ FAMILY_SANDBOX, "", "pods", "portforward", { "get", "create" } },
	{ FAMILY_SANDBOX, "", "events", "", { "list" } },
	{ FAMILY_BASH, "", "pods", "",
	    { "create", "get", "list", "patch", "delete" } },
	{ FAMILY_BASH, "", "secrets", "",
	    { "create", "get", "list", "patch", "delete" } },
	{ FAMILY_BASH, "", "pods", "exec", { "get", "create" } },
	{ FAMILY_BASH, "", "pods", "portforward", { "get", "create" } },
	{ FAMILY_JOBS, "batch", "jobs", "",
	    { "create", "get", "list", "patch", "delete" } },
	{ FAMILY_JOBS, "", "pods", "", { "get", "list", "watch" } },
	{ FAMILY_JOBS, "", "pods", "exec", { "get", "create" } },
	{ FAMILY_JOBS, "", "pods", "log", { "get" } },
	{ FAMILY_JOBS, "", "events", "", { "list" } },
};

static const struct {
	unsigned bit;
	const char *name;
} families[] = {
	{ FAMILY_SANDBOX, "agent-sandbox" }, { FAMILY_BASH, "bash" },
	{ FAMILY_JOBS, "jobs" },
};

static void
good(const struct doctor *d, const char *what, const char *text)
{
	say(d->fd, "ok    %-14s %s", what, text);
}

static void
bad(const struct doctor *d, const char *what, const char *text)
{
	say(d->fd, "NO    %-14s %s", what, text);
}

/* --- the API server ----------------------------------------------------- */

static bool
server(struct doctor *d, const struct kubeconfig *kc)
{
	char version[64] = "of unknown version", text[512];
	struct asked a;
	bool there = ask(d->env, &a, "GET", "/version", NULL) == 0;

	if (there) {
		(void)json_str(json_get(json_root(a.doc), "gitVersion"),
		    version, sizeof(version));
		(void)snprintf(text, sizeof(text), "%.300s: Kubernetes %s%s",
		    kc->server, version, strncmp(kc->server, "https:", 6) != 0 ?
		    ", without TLS" : kc->insecure ? ", nobody checks who it "
		    "is" : "");
		good(d, "API server", text);
	} else {
		bad(d, "API server", a.err.text);
		d->missing = true;
	}
	asked_free(&a);
	return there;
}

/* Is the API there that brings the family's objects? */
static bool
served(struct doctor *d, const char *group, const char *version)
{
	char path[128];
	struct asked a;
	bool there;

	(void)snprintf(path, sizeof(path), "/apis/%s/%s", group, version);
	there = ask(d->env, &a, "GET", path, NULL) == 0;
	if (there)
		good(d, "API", path + strlen("/apis/"));
	else
		bad(d, "API", a.err.text);
	d->missing |= !there;
	asked_free(&a);
	return there;
}

/* A pool is where sandboxes come from. */
static void
pools(struct doctor *d, const char *namespace)
{
	struct asked a;
	struct json m;
	char name[254], text[600];
	size_t n = 0;

	(void)snprintf(text, sizeof(text), "/apis/" CLAIMS "/v1beta1/"
	    "namespaces/%.253s/sandboxwarmpools", namespace);
	if (ask(d->env, &a, "GET", text, NULL) == -1) {
		bad(d, "warm pool", a.err.text);
		d->denied |= a.err.code == ERR_DENIED;
		d->missing |= a.err.code != ERR_DENIED;
	}
	for (m = json_first(json_path(json_root(a.doc), "items"));
	    json_type(m) != JSON_NONE; m = json_next(m)) {
		(void)json_str(json_path(m, "metadata.name"), name,
		    sizeof(name));
		if (!config_allows(d->env->config->pools, name))
			continue;
		(void)snprintf(text, sizeof(text), "%s in %.253s", name,
		    namespace);
		good(d, "warm pool", text);
		n++;
	}
	if (a.doc != NULL && n == 0) {
		(void)snprintf(text, sizeof(text), "none in %.253s that may be "
		    "used: create a SandboxWarmPool", namespace);
		bad(d, "warm pool", text);
		d->missing = true;
	}
	asked_free(&a);
}

/* --- rights ------------------------------------------------------------- */

static void
review(struct buf *out, const struct right *r, const char *verb,
    const char *namespace)
{
	struct jsonw w;

	jsonw_init(&w, out);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "apiVersion", "authorization.k8s.io/v1");
	jsonw_str(&w, "kind", "SelfSubjectAccessReview");
	jsonw_object(&w, "spec");
	jsonw_object(&w, "resourceAttributes");
	jsonw_str(&w, "namespace", namespace);
	jsonw_str(&w, "verb", verb);
	jsonw_str(&w, "group", r->group);
	jsonw_str(&w, "resource", r->resource);
	if (r->part[0] != '\0')
		jsonw_str(&w, "subresource", r->part);
	jsonw_end(&w);
	jsonw_end(&w);
	jsonw_end(&w);
}

/* 1: yes, 0: no, -1: nobody knows, and why says why. */
static int
may(struct doctor *d, const struct right *r, const char *verb,
    const char *namespace, struct error *why)
{
	struct asked a;
	struct buf body;
	bool yes = false;
	int known = -1;

	buf_init(&body, 4096);
	review(&body, r, verb, namespace);
	if (buf_ok(&body))
		known = ask(d->env, &a, "POST", "/apis/authorization.k8s.io/v1"
		    "/selfsubjectaccessreviews", body.data);
	else
		a = (struct asked){ .err = { ERR_SYSTEM, "out of memory" } };
	if (known == 0)
		(void)json_bool(json_path(json_root(a.doc), "status.allowed"),
		    &yes);
	*why = a.err;
	asked_free(&a);
	buf_free(&body);
	return known == 0 ? yes : -1;
}

static void
right(struct doctor *d, const char *family, const struct right *r,
    const char *namespace)
{
	char have[128] = "", lack[128] = "", text[1200], *list;
	struct error why;
	int yes;

	for (size_t i = 0; i < VERBS_MAX && r->verbs[i] != NULL; i++) {
		yes = may(d, r, r->verbs[i], namespace, &why);
		if (yes == -1) {
			bad(d, "rights", why.text);
			d->missing = true;
			return;
		}
		list = yes ? have : lack;
		(void)snprintf(list + strlen(list), sizeof(have) -
		    strlen(list), "%s%s", list[0] != '\0' ? " " : "",
		    r->verbs[i]);
	}
	(void)snprintf(text, sizeof(text), "%s in %.253s: %s%s%s%s%s: %s%s",
	    family, namespace, r->resource, r->part[0] != '\0' ? "/" : "",
	    r->part, r->group[0] != '\0' ? " of " : "", r->group,
	    lack[0] != '\0' ? "not allowed: " : have, lack);
	if (lack[0] != '\0')
		bad(d, "rights", text);
	else
		good(d, "rights", text);
	d->denied |= lack[0] != '\0';
}

/* --- families ----------------------------------------------------------- */

static void
namespace_check(struct doctor *d, size_t family, const char *namespace)
{
	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++)
		if (rights[i].family == families[family].bit)
			right(d, families[family].name, &rights[i], namespace);
	if (families[family].bit == FAMILY_SANDBOX)
		pools(d, namespace);
}

/* The namespaces that callers may name, or the one that they get. */
static void
family_check(struct doctor *d, size_t family)
{
	const struct config *c = d->env->config;
	const char *own = families[family].bit == FAMILY_BASH ?
	    c->pod.namespace : families[family].bit == FAMILY_JOBS ?
	    c->job.namespace : NULL, *p = c->namespaces;
	char one[254];

	if (own == NULL)
		own = d->env->namespace;
	if (families[family].bit != FAMILY_SANDBOX || p == NULL) {
		namespace_check(d, family, own);
		return;
	}
	while (config_item(&p, one, sizeof(one)))
		namespace_check(d, family, one);
}

int
doctor_run(struct env *env, const struct kubeconfig *kc, unsigned offered,
    int fd)
{
	struct doctor d = { .env = env, .fd = fd };

	say(fd, "ok    %-14s %.300s, context %.100s, user %.100s, namespace "
	    "%.253s", "kubeconfig", kc->source, kc->context != NULL ?
	    kc->context : "-", kc->user != NULL && kc->user[0] != '\0' ?
	    kc->user : "-", env->namespace);
	if (!server(&d, kc))
		return EX_UNAVAILABLE;
	if (offered & FAMILY_SANDBOX && (!served(&d, SANDBOXES, "v1beta1") ||
	    !served(&d, CLAIMS, "v1beta1")))
		offered &= ~(unsigned)FAMILY_SANDBOX;
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if (offered & families[i].bit)
			family_check(&d, i);
	return d.missing ? EX_UNAVAILABLE : d.denied ? EX_NOPERM : 0;
}
