/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget.h"
#include "error.h"
#include "kubeconfig-own.h"
#include "proxy.h"

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

int
kube_no_memory(struct error *err)
{
	return error_set(err, ERR_SYSTEM, "kubeconfig: no memory");
}

int
kube_set(char **to, const char *s, struct error *err)
{
	if (s != NULL && (*to = strdup(s)) == NULL)
		return kube_no_memory(err);
	return 0;
}

void
kube_wipe(char *s)
{
	if (s != NULL)
		explicit_bzero(s, strlen(s));
	free(s);
}

void
kube_wipe_list(char **list)
{
	char **at;

	for (at = list; at != NULL && *at != NULL; at++)
		kube_wipe(*at);
	free(list);
}

int
kube_wrap(const struct reader *r, unsigned node, const char *key,
    struct error *err)
{
	return error_wrap(err, "%s:%u: %s", r->tree->file,
	    r->tree->nodes[node].line, key);
}

/* The underscore is no host name's, but Docker's network has such. */
static bool
is_host(const char *s, size_t len)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";

	return len != 0 && len <= 253 && strspn(s, letters) >= len;
}

/* The host at s into kc; where it ends, or NULL. */
static const char *
host_take(struct kubeconfig *kc, const char *s)
{
	struct in6_addr address;
	size_t len;

	if (*s == '[') {
		len = strcspn(++s, "]");
		if (s[len] != ']' ||
		    (kc->host = strndup(s, len)) == NULL ||
		    inet_pton(AF_INET6, kc->host, &address) != 1)
			return NULL;
		return s + len + 1;
	}
	len = strcspn(s, ":/");
	if (!is_host(s, len) || (kc->host = strndup(s, len)) == NULL)
		return NULL;
	return s + len;
}

/* ":port" or nothing at s; where it ends, or NULL. */
static const char *
port_take(struct kubeconfig *kc, const char *s, const char *preset)
{
	size_t len;

	if (*s != ':') {
		kc->port = strdup(preset);
		return s;
	}
	len = strspn(++s, "0123456789");
	if (len == 0 || len > 5 || (kc->port = strndup(s, len)) == NULL)
		return NULL;
	if (strtol(kc->port, NULL, 10) < 1 ||
	    strtol(kc->port, NULL, 10) > 65535)
		return NULL;
	return s + len;
}

/* It is put before paths of ours: no query, no fragment, nothing to quote. */
static bool
is_path(const char *s)
{
	const char *c;

	for (c = s; *c != '\0'; c++)
		if (*c <= ' ' || *c > '~' || strchr("?#\\\"<>", *c) != NULL)
			return false;
	return *s == '/' || *s == '\0';
}

/* http(s)://host[:port][/path]; the path is a proxy's, Rancher's for one. */
static int
server_take(struct kubeconfig *kc, const char *url, struct error *err)
{
	bool tls = strncasecmp(url, "https://", 8) == 0;
	const char *at = NULL, *open = "", *close = "";
	size_t len;

	if (tls || strncasecmp(url, "http://", 7) == 0)
		at = host_take(kc, url + (tls ? 8 : 7));
	if (at != NULL)
		at = port_take(kc, at, tls ? "443" : "80");
	if (at == NULL || !is_path(at))
		return error_set(err, ERR_CONFIG,
		    "must be https://HOST[:PORT][/PATH] (an IPv6 address in "
		    "brackets), or http:// for a test");
	len = strlen(at);
	while (len > 0 && at[len - 1] == '/')
		len--;
	if (strchr(kc->host, ':') != NULL) {
		open = "[";
		close = "]";
	}
	if (kc->port == NULL || asprintf(&kc->server, "%s://%s%s%s:%s%.*s",
	    tls ? "https" : "http", open, kc->host, close, kc->port, (int)len,
	    at) == -1) {
		kc->server = NULL;
		return kube_no_memory(err);
	}
	return 0;
}

static int
proxy_take(struct kubeconfig *kc, const struct reader *r, unsigned cluster,
    struct error *err)
{
	unsigned node;

	if (tree_str(r->tree, cluster, "proxy-url", &node, err) == -1)
		return -1;
	if (node == 0 || tree_text(r->tree, node)[0] == '\0')
		return 0;
	if ((kc->proxy = proxy_url(tree_text(r->tree, node), err)) != NULL)
		return 0;
	return kube_wrap(r, node, "proxy-url", err);
}

static int
cluster_take(struct kubeconfig *kc, const struct reader *r, unsigned cluster,
    struct error *err)
{
	const struct tree *t = r->tree;
	unsigned node;

	if (tree_str(t, cluster, "server", &node, err) == -1)
		return -1;
	if (node == 0)
		return tree_error(t, cluster, err, "the cluster has no server");
	if (server_take(kc, tree_text(t, node), err) == -1)
		return kube_wrap(r, node, "server", err);
	if (kube_pem(r, cluster, "certificate-authority", PEM_CA, &kc->ca,
	    err) == -1 || proxy_take(kc, r, cluster, err) == -1 ||
	    tree_bool(t, cluster, "insecure-skip-tls-verify", &kc->insecure,
	    err) == -1 ||
	    tree_str(t, cluster, "tls-server-name", &node, err) == -1)
		return -1;
	if (kc->ca != NULL)
		kc->left_out = pem_check(kc->ca, strlen(kc->ca), PEM_CA, err);
	/* As client-go: who gives a CA wants it to be asked. */
	if (kc->insecure && kc->ca != NULL)
		return tree_error(t, cluster, err, "insecure-skip-tls-verify "
		    "and a certificate-authority contradict each other; "
		    "remove one");
	if (node == 0)
		return 0;
	if (!is_host(tree_text(t, node), strlen(tree_text(t, node))))
		return tree_error(t, node, err,
		    "tls-server-name: must be a host name");
	return kube_set(&kc->tls_name, tree_text(t, node), err);
}

/* The names of a list after those that are there: false when it is full. */
static bool
names_join(const struct tree *t, unsigned list, char *out, size_t size)
{
	size_t at = strlen(out);
	unsigned item, node;
	struct error ignored;
	int n;

	for (item = t->nodes[list].child; item != 0;
	    item = t->nodes[item].next) {
		if (tree_str(t, item, "name", &node, &ignored) == -1 ||
		    node == 0)
			continue;
		n = snprintf(out + at, size - at, "%s\"%s\"",
		    at != 0 ? ", " : "", tree_text(t, node));
		if (n < 0 || (size_t)n >= size - at) {
			(void)snprintf(out + size - 4, 4, "...");
			return false;
		}
		at += (size_t)n;
	}
	return true;
}

/* What there is of a kind, for an error that says so. */
static void
names_all(const struct reader *r, const char *kind, char *out, size_t size)
{
	struct error ignored;
	char list_key[16];
	unsigned list;
	size_t i;

	out[0] = '\0';
	(void)snprintf(list_key, sizeof(list_key), "%ss", kind);
	for (i = 0; i < r->n; i++)
		if (tree_get(&r->trees[i], 0, list_key, &list,
		    &ignored) == 0 && list != 0 &&
		    !names_join(&r->trees[i], list, out, size))
			return;
}

/* The entry called name in the list; 0: none is. Names are unique in a file,
 * as client-go demands. */
static int
entry_in(const struct tree *t, const char *kind, unsigned list,
    const char *name, unsigned *found, struct error *err)
{
	unsigned item, node;

	*found = 0;
	for (item = t->nodes[list].child; item != 0;
	    item = t->nodes[item].next) {
		if (tree_str(t, item, "name", &node, err) == -1)
			return -1;
		if (node == 0 || strcmp(tree_text(t, node), name) != 0)
			continue;
		if (*found != 0)
			return tree_error(t, item, err,
			    "a second %s is called \"%s\"", kind, name);
		*found = item;
	}
	return 0;
}

static int
entry_absent(const struct reader *r, const char *kind, const char *name,
    const struct tree *there, unsigned list, struct error *err)
{
	char names[400];

	if (there == NULL)
		return tree_error(&r->trees[0], list, err,
		    "there is no list of %ss", kind);
	names_all(r, kind, names, sizeof(names));
	return tree_error(there, list, err,
	    "no %s is called \"%.100s\"; there is %s", kind, name,
	    names[0] != '\0' ? names : "none");
}

/*
 * The body of the entry called name in contexts, clusters or users: what is
 * under kind ("context", ...), 0 if nothing is. The first file that has such
 * an entry has all of it, and is r->tree from here on.
 */
static int
entry_find(struct reader *r, const char *kind, const char *name,
    unsigned *body, struct error *err)
{
	const struct tree *there = NULL;
	unsigned list, found, first = 0;
	char list_key[16];
	size_t i;

	(void)snprintf(list_key, sizeof(list_key), "%ss", kind);
	for (i = 0; i < r->n; i++) {
		r->tree = &r->trees[i];
		if (tree_get(r->tree, 0, list_key, &list, err) == -1)
			return -1;
		if (list == 0)
			continue;
		if (r->tree->nodes[list].kind != TREE_LIST)
			return tree_error(r->tree, list, err,
			    "there is no list of %s", list_key);
		if (there == NULL) {
			there = r->tree;
			first = list;
		}
		if (entry_in(r->tree, kind, list, name, &found, err) == -1)
			return -1;
		if (found != 0)
			return tree_get(r->tree, found, kind, body, err);
	}
	return entry_absent(r, kind, name, there, first, err);
}

/* The first file that says which. */
static int
context_choose(struct kubeconfig *kc, const struct reader *r,
    const char *context, struct error *err)
{
	char names[400];
	unsigned node = 0;
	size_t i;

	if (context != NULL)
		return kube_set(&kc->context, context, err);
	for (i = 0; i < r->n; i++) {
		if (tree_str(&r->trees[i], 0, "current-context", &node,
		    err) == -1)
			return -1;
		if (node != 0 && tree_text(&r->trees[i], node)[0] != '\0')
			return kube_set(&kc->context,
			    tree_text(&r->trees[i], node), err);
	}
	names_all(r, "context", names, sizeof(names));
	return tree_error(&r->trees[0], 0, err, "no current-context; choose a "
	    "context of %s", names[0] != '\0' ? names : "(there is none)");
}

/* A manifest given by mistake is better named than searched for contexts. */
static int
kind_check(const struct tree *t, struct error *err)
{
	static const char *const rows[][2] = { { "apiVersion", "v1" },
	    { "kind", "Config" } };
	unsigned node;
	size_t i;

	for (i = 0; i < COUNT(rows); i++) {
		if (tree_str(t, 0, rows[i][0], &node, err) == -1)
			return -1;
		if (node != 0 && strcmp(tree_text(t, node), rows[i][1]) != 0)
			return tree_error(t, node, err,
			    "not a kubeconfig: %s is \"%.40s\", not \"%s\"",
			    rows[i][0], tree_text(t, node), rows[i][1]);
	}
	return 0;
}

/* DNS-1123 label: it becomes part of paths. */
static bool
is_label(const char *s)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
	size_t len = strlen(s);

	return len != 0 && len <= 63 && strspn(s, letters) == len &&
	    s[0] != '-' && s[len - 1] != '-';
}

static int
namespace_take(struct kubeconfig *kc, const struct tree *t, unsigned context,
    struct error *err)
{
	unsigned node;

	if (tree_str(t, context, "namespace", &node, err) == -1)
		return -1;
	if (node == 0 || tree_text(t, node)[0] == '\0')
		return kube_set(&kc->namespace, "default", err);
	if (!is_label(tree_text(t, node)))
		return tree_error(t, node, err, "namespace: 1 to 63 of a-z, "
		    "0-9 and -, not at the ends");
	return kube_set(&kc->namespace, tree_text(t, node), err);
}

/* The cluster that the context names; r->tree is its file then. */
static int
context_cluster(struct kubeconfig *kc, struct reader *r, unsigned context,
    unsigned *body, struct error *err)
{
	const struct tree *t = r->tree;
	unsigned cluster;

	if (tree_str(t, context, "cluster", &cluster, err) == -1)
		return -1;
	if (cluster == 0)
		return tree_error(t, context, err,
		    "context \"%s\" names no cluster", kc->context);
	if (entry_find(r, "cluster", tree_text(t, cluster), body, err) == -1)
		return -1;
	if (*body == 0)
		return tree_error(t, cluster, err, "cluster \"%s\" is empty",
		    tree_text(t, cluster));
	return cluster_take(kc, r, *body, err);
}

static int
context_take(struct kubeconfig *kc, struct reader *r, const char *context,
    struct error *err)
{
	const struct tree *t;
	unsigned at, cluster, user, body;

	if (context_choose(kc, r, context, err) == -1 ||
	    entry_find(r, "context", kc->context, &at, err) == -1)
		return -1;
	t = r->tree;
	if (at == 0)
		return tree_error(t, 0, err, "context \"%s\" is empty",
		    kc->context);
	if (kube_set(&kc->source, t->file, err) == -1 ||
	    namespace_take(kc, t, at, err) == -1 ||
	    tree_str(t, at, "user", &user, err) == -1 ||
	    context_cluster(kc, r, at, &cluster, err) == -1)
		return -1;
	/* Neither no user nor an empty one is wrong: that is anonymous. */
	if (kube_set(&kc->user, user != 0 ? tree_text(t, user) : "", err) == -1)
		return -1;
	if (kc->user[0] == '\0')
		return 0;
	t = r->tree;
	if (entry_find(r, "user", kc->user, &body, err) == -1)
		return -1;
	return body != 0 ? kube_user(kc, r, body, t, cluster, err) : 0;
}

/* touch(1) makes such files, and kubectl takes them. */
static bool
is_blank(const struct kubeconfig_text *file)
{
	return strspn(file->text, " \t\r\n") == file->len;
}

/* Each file by itself: whatever is wrong has a name and a line. */
static int
trees_parse(struct reader *r, struct tree *trees,
    const struct kubeconfig_text *files, size_t n, struct error *err)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (files[i].len > LIMIT_KUBECONFIG)
			return error_set(err, ERR_LIMIT, "%s: larger than a "
			    "kubeconfig may be (%d bytes)", files[i].name,
			    LIMIT_KUBECONFIG);
		if (n > 1 && is_blank(&files[i]))
			continue;
		if (tree_parse(&trees[r->n], files[i].name, files[i].text,
		    files[i].len, err) == -1)
			return -1;
		if (kind_check(&trees[r->n++], err) == -1)
			return -1;
	}
	if (r->n == 0)
		return error_set(err, ERR_CONFIG, "%s: empty, and so are all "
		    "others", files[0].name);
	return 0;
}

int
kubeconfig_merge(struct kubeconfig *kc, const struct kubeconfig_text *files,
    size_t n, const char *context, kubeconfig_read *read_file, void *arg,
    struct error *err)
{
	struct tree *trees = calloc(n, sizeof(*trees));
	struct reader r = { .trees = trees, .read_file = read_file,
	    .arg = arg };
	int ret;

	*kc = (struct kubeconfig){ .source = NULL };
	if (trees == NULL)
		return kube_no_memory(err);
	ret = trees_parse(&r, trees, files, n, err);
	if (ret == 0)
		ret = context_take(kc, &r, context, err);
	while (r.n > 0)
		tree_free(&trees[--r.n]);
	free(trees);
	if (ret == -1)
		kubeconfig_free(kc);
	return ret;
}

int
kubeconfig_parse(struct kubeconfig *kc, const char *name, const char *text,
    size_t len, const char *context, kubeconfig_read *read_file, void *arg,
    struct error *err)
{
	struct kubeconfig_text file = { .name = name, .text = text,
	    .len = len };

	return kubeconfig_merge(kc, &file, 1, context, read_file, arg, err);
}

void
kubeconfig_free(struct kubeconfig *kc)
{
	free(kc->source);
	free(kc->server);
	free(kc->host);
	free(kc->port);
	free(kc->ca);
	free(kc->cert);
	kube_wipe(kc->key);
	kube_wipe(kc->token);
	kube_wipe(kc->basic);
	kube_wipe_list(kc->impersonate);
	kube_exec_free(kc->exec);
	free(kc->token_file);
	free(kc->tls_name);
	kube_wipe(kc->proxy);
	free(kc->proxy_ca);
	free(kc->user);
	free(kc->context);
	free(kc->namespace);
	free(kc->readable);
	*kc = (struct kubeconfig){ .source = NULL };
}
