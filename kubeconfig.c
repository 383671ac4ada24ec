/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base64.h"
#include "buf.h"
#include "error.h"
#include "kubeconfig.h"
#include "budget.h"
#include "pem.h"
#include "tree.h"

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

/* What reads one file. */
struct reader {
	struct tree tree;
	kubeconfig_read *read_file;
	void *arg;
};

static int
no_memory(struct error *err)
{
	return error_set(err, ERR_SYSTEM, "kubeconfig: no memory");
}

static int
set(char **to, const char *s, struct error *err)
{
	if (s != NULL && (*to = strdup(s)) == NULL)
		return no_memory(err);
	return 0;
}

static void
wipe(char *s)
{
	if (s != NULL)
		explicit_bzero(s, strlen(s));
	free(s);
}

/* "PATH" seen from the folder of the file that names it. */
static char *
path_from(const char *file, const char *path)
{
	const char *slash = strrchr(file, '/');
	char *joined;

	if (path[0] == '/' || slash == NULL)
		return strdup(path);
	if (asprintf(&joined, "%.*s/%s", (int)(slash - file), file, path) == -1)
		return NULL;
	return joined;
}

/* The token goes into a header field, so nothing but visible ASCII. */
static int
token_check(const char *token, struct error *err)
{
	const char *c;

	for (c = token; *c != '\0'; c++)
		if (*c <= ' ' || *c > '~')
			return error_set(err, ERR_CONFIG, "a token has no "
			    "blanks or control characters; this one has");
	if (c == token)
		return error_set(err, ERR_CONFIG, "the token is empty");
	if (c - token > LIMIT_TOKEN)
		return error_set(err, ERR_LIMIT,
		    "longer than a token may be (%d bytes)", LIMIT_TOKEN);
	return 0;
}

/* An editor, or echo, ends the file with a newline. */
static void
trim(char *s)
{
	size_t len = strlen(s);

	while (len > 0 && strchr(" \t\r\n", s[len - 1]) != NULL)
		s[--len] = '\0';
}

/* The place of the key goes before what is wrong with its value. */
static int
key_wrap(const struct reader *r, unsigned node, const char *key,
    struct error *err)
{
	return error_wrap(err, "%s:%u: %s", r->tree.file,
	    r->tree.nodes[node].line, key);
}

/* The file that a key names; *path is the caller's to free, also on error. */
static char *
named_file(const struct reader *r, unsigned node, char **path, size_t *len,
    struct error *err)
{
	*path = path_from(r->tree.file, tree_text(&r->tree, node));
	if (*path == NULL) {
		no_memory(err);
		return NULL;
	}
	if (r->read_file == NULL) {
		error_set(err, ERR_CONFIG, "files may not be read here");
		return NULL;
	}
	return r->read_file(r->arg, *path, len, err);
}

static char *
inline_data(const struct reader *r, unsigned node, size_t *len,
    struct error *err)
{
	const char *text = tree_text(&r->tree, node);
	struct base64 state = { .n = 0 };
	struct buf out;

	buf_init(&out, LIMIT_KUBECONFIG);
	if (base64_decode(&state, text, strlen(text), &out, err) == -1 ||
	    base64_decode_end(&state, err) == -1) {
		err->code = ERR_CONFIG;
		buf_wipe(&out);
		return NULL;
	}
	/* Not even an empty text is NULL, and each ends with a NUL. */
	buf_put(&out, "", 0);
	if (!buf_ok(&out) || out.data == NULL) {
		buf_wipe(&out);
		no_memory(err);
		return NULL;
	}
	*len = out.len;
	return out.data;
}

/* KEY-data beats KEY, as in client-go. */
static int
pem_take(const struct reader *r, unsigned map, const char *key,
    enum pem_kind kind, char **to, struct error *err)
{
	char data_key[64], *path = NULL, *text;
	unsigned node;
	size_t len;

	(void)snprintf(data_key, sizeof(data_key), "%s-data", key);
	if (tree_str(&r->tree, map, data_key, &node, err) == -1)
		return -1;
	if (node != 0) {
		key = data_key;
		text = inline_data(r, node, &len, err);
	} else {
		if (tree_str(&r->tree, map, key, &node, err) == -1)
			return -1;
		if (node == 0)
			return 0;
		text = named_file(r, node, &path, &len, err);
	}
	if (text != NULL && pem_check(text, len, kind, err) == -1) {
		if (path != NULL)
			error_wrap(err, "%s", path);
		explicit_bzero(text, len);
		free(text);
		text = NULL;
	}
	free(path);
	if (text == NULL)
		return key_wrap(r, node, key, err);
	*to = text;
	return 0;
}

/* tokenFile beats token, as in client-go. */
static int
token_take(struct kubeconfig *kc, const struct reader *r, unsigned user,
    struct error *err)
{
	const char *key = "tokenFile";
	unsigned node;
	size_t len;

	if (tree_str(&r->tree, user, key, &node, err) == -1)
		return -1;
	if (node != 0) {
		kc->token = named_file(r, node, &kc->token_file, &len, err);
		if (kc->token == NULL)
			return key_wrap(r, node, key, err);
	} else {
		key = "token";
		if (tree_str(&r->tree, user, key, &node, err) == -1 ||
		    set(&kc->token, tree_text(&r->tree, node), err) == -1)
			return -1;
		if (node == 0)
			return 0;
	}
	trim(kc->token);
	if (token_check(kc->token, err) == -1)
		return key_wrap(r, node, key, err);
	return 0;
}

/*
 * Leaving one of these out would make us somebody else than the user meant,
 * most likely nobody, and the cluster's 403 would not say why.
 */
static int
user_refuse(const struct reader *r, unsigned user, struct error *err)
{
	static const char basic[] = "passwords are not supported (Kubernetes "
	    "1.19 removed them); use a client certificate or a tokenFile";
	static const char as[] = "impersonation is not supported; use a user "
	    "that has the rights itself";
	static const struct {
		const char *key, *why;
	} rows[] = {
		{ "exec", "credential plugins are not run here; write what "
		    "the plugin prints as token to a file, and name that "
		    "with tokenFile" },
		{ "auth-provider", "auth providers are not supported "
		    "(Kubernetes 1.26 removed them); use a tokenFile or a "
		    "client certificate" },
		{ "username", basic }, { "password", basic },
		{ "as", as }, { "as-uid", as }, { "as-groups", as },
		{ "as-user-extra", as },
	};
	const char *text;
	unsigned node;
	size_t i;

	for (i = 0; i < COUNT(rows); i++) {
		if (tree_get(&r->tree, user, rows[i].key, &node, err) == -1)
			return -1;
		text = tree_text(&r->tree, node);
		if (node != 0 && (text == NULL || text[0] != '\0'))
			return tree_error(&r->tree, node, err, "%s: %s",
			    rows[i].key, rows[i].why);
	}
	return 0;
}

static int
user_take(struct kubeconfig *kc, const struct reader *r, unsigned user,
    struct error *err)
{
	if (user_refuse(r, user, err) == -1 ||
	    pem_take(r, user, "client-certificate", PEM_CERT, &kc->cert,
	    err) == -1 ||
	    pem_take(r, user, "client-key", PEM_KEY, &kc->key, err) == -1 ||
	    token_take(kc, r, user, err) == -1)
		return -1;
	if ((kc->cert == NULL) != (kc->key == NULL))
		return tree_error(&r->tree, user, err,
		    "user \"%s\": client-certificate and client-key belong "
		    "together, but there is only one", kc->user);
	return 0;
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
		return no_memory(err);
	}
	return 0;
}

/* The value may hold a password, so that no error quotes it. */
static int
proxy_take(struct kubeconfig *kc, const struct reader *r, unsigned cluster,
    struct error *err)
{
	static const char *const schemes[] = { "http://", "https://",
	    "socks5://", "socks5h://" };
	const char *url;
	unsigned node;
	size_t i, len;

	if (tree_str(&r->tree, cluster, "proxy-url", &node, err) == -1)
		return -1;
	if ((url = tree_text(&r->tree, node)) == NULL || *url == '\0')
		return 0;
	for (i = 0; i < COUNT(schemes); i++) {
		len = strlen(schemes[i]);
		if (strncmp(url, schemes[i], len) == 0 && url[len] != '\0')
			return set(&kc->proxy, url, err);
	}
	return tree_error(&r->tree, node, err, "proxy-url: must be http://, "
	    "https://, socks5:// or socks5h:// and a host");
}

static int
cluster_take(struct kubeconfig *kc, const struct reader *r, unsigned cluster,
    struct error *err)
{
	const struct tree *t = &r->tree;
	unsigned node;

	if (tree_str(t, cluster, "server", &node, err) == -1)
		return -1;
	if (node == 0)
		return tree_error(t, cluster, err, "the cluster has no server");
	if (server_take(kc, tree_text(t, node), err) == -1)
		return key_wrap(r, node, "server", err);
	if (pem_take(r, cluster, "certificate-authority", PEM_CA, &kc->ca,
	    err) == -1 || proxy_take(kc, r, cluster, err) == -1 ||
	    tree_bool(t, cluster, "insecure-skip-tls-verify", &kc->insecure,
	    err) == -1 ||
	    tree_str(t, cluster, "tls-server-name", &node, err) == -1)
		return -1;
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
	return set(&kc->tls_name, tree_text(t, node), err);
}

/* All names of a list, for an error that says what there is. */
static void
names_join(const struct tree *t, unsigned list, char *out, size_t size)
{
	unsigned item, node;
	struct error ignored;
	size_t at = 0;
	int n;

	out[0] = '\0';
	for (item = t->nodes[list].child; item != 0;
	    item = t->nodes[item].next) {
		if (tree_str(t, item, "name", &node, &ignored) == -1 ||
		    node == 0)
			continue;
		n = snprintf(out + at, size - at, "%s\"%s\"",
		    at != 0 ? ", " : "", tree_text(t, node));
		if (n < 0 || (size_t)n >= size - at) {
			(void)snprintf(out + size - 4, 4, "...");
			return;
		}
		at += (size_t)n;
	}
}

/*
 * The body of the entry called name in contexts, clusters or users: what is
 * under kind ("context", ...), 0 if nothing is. Names are unique, as
 * client-go demands.
 */
static int
entry_find(const struct tree *t, const char *kind, const char *name,
    unsigned *body, struct error *err)
{
	char list_key[16], names[400];
	unsigned list, item, node, found = 0;

	(void)snprintf(list_key, sizeof(list_key), "%ss", kind);
	if (tree_get(t, 0, list_key, &list, err) == -1)
		return -1;
	if (list == 0 || t->nodes[list].kind != TREE_LIST)
		return tree_error(t, list, err, "there is no list of %s",
		    list_key);
	for (item = t->nodes[list].child; item != 0;
	    item = t->nodes[item].next) {
		if (tree_str(t, item, "name", &node, err) == -1)
			return -1;
		if (node == 0 || strcmp(tree_text(t, node), name) != 0)
			continue;
		if (found != 0)
			return tree_error(t, item, err,
			    "a second %s is called \"%s\"", kind, name);
		found = item;
	}
	if (found != 0)
		return tree_get(t, found, kind, body, err);
	names_join(t, list, names, sizeof(names));
	return tree_error(t, list, err, "no %s is called \"%.100s\"; there is %s",
	    kind, name, names[0] != '\0' ? names : "none");
}

static int
context_choose(struct kubeconfig *kc, const struct tree *t,
    const char *context, struct error *err)
{
	unsigned node, list;
	char names[400] = "";

	if (context != NULL)
		return set(&kc->context, context, err);
	if (tree_str(t, 0, "current-context", &node, err) == -1)
		return -1;
	if (node != 0 && tree_text(t, node)[0] != '\0')
		return set(&kc->context, tree_text(t, node), err);
	if (tree_get(t, 0, "contexts", &list, err) == -1)
		return -1;
	if (list != 0)
		names_join(t, list, names, sizeof(names));
	return tree_error(t, node, err, "no current-context; choose a context "
	    "of %s", names[0] != '\0' ? names : "(there is none)");
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
		return set(&kc->namespace, "default", err);
	if (!is_label(tree_text(t, node)))
		return tree_error(t, node, err, "namespace: 1 to 63 of a-z, "
		    "0-9 and -, not at the ends");
	return set(&kc->namespace, tree_text(t, node), err);
}

static int
context_take(struct kubeconfig *kc, const struct reader *r,
    const char *context, struct error *err)
{
	const struct tree *t = &r->tree;
	unsigned at, cluster, user, body;

	if (kind_check(t, err) == -1 ||
	    context_choose(kc, t, context, err) == -1 ||
	    entry_find(t, "context", kc->context, &at, err) == -1)
		return -1;
	if (at == 0)
		return tree_error(t, 0, err, "context \"%s\" is empty",
		    kc->context);
	if (namespace_take(kc, t, at, err) == -1 ||
	    tree_str(t, at, "cluster", &cluster, err) == -1 ||
	    tree_str(t, at, "user", &user, err) == -1)
		return -1;
	if (cluster == 0)
		return tree_error(t, at, err, "context \"%s\" names no cluster",
		    kc->context);
	if (entry_find(t, "cluster", tree_text(t, cluster), &body, err) == -1)
		return -1;
	if (body == 0)
		return tree_error(t, cluster, err, "cluster \"%s\" is empty",
		    tree_text(t, cluster));
	if (cluster_take(kc, r, body, err) == -1)
		return -1;
	/* Neither no user nor an empty one is wrong: that is anonymous. */
	if (set(&kc->user, user != 0 ? tree_text(t, user) : "", err) == -1)
		return -1;
	if (kc->user[0] == '\0')
		return 0;
	if (entry_find(t, "user", kc->user, &body, err) == -1)
		return -1;
	return body != 0 ? user_take(kc, r, body, err) : 0;
}

int
kubeconfig_parse(struct kubeconfig *kc, const char *name, const char *text,
    size_t len, const char *context, kubeconfig_read *read_file, void *arg,
    struct error *err)
{
	struct reader r = { .read_file = read_file, .arg = arg };
	int ret;

	*kc = (struct kubeconfig){ .source = NULL };
	if (len > LIMIT_KUBECONFIG)
		return error_set(err, ERR_LIMIT,
		    "%s: larger than a kubeconfig may be (%d bytes)", name,
		    LIMIT_KUBECONFIG);
	if (tree_parse(&r.tree, name, text, len, err) == -1)
		return -1;
	ret = set(&kc->source, name, err);
	if (ret == 0)
		ret = context_take(kc, &r, context, err);
	tree_free(&r.tree);
	if (ret == -1)
		kubeconfig_free(kc);
	return ret;
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
	wipe(kc->key);
	wipe(kc->token);
	free(kc->token_file);
	free(kc->tls_name);
	wipe(kc->proxy);
	free(kc->user);
	free(kc->context);
	free(kc->namespace);
	*kc = (struct kubeconfig){ .source = NULL };
}
