/* SPDX-License-Identifier: Apache-2.0 */
/* The part of kubeconfig that is about the user. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base64.h"
#include "budget.h"
#include "buf.h"
#include "error.h"
#include "kubeconfig-own.h"

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

char *
kube_path(const struct reader *r, const char *path)
{
	const char *file = r->tree->file, *slash = strrchr(file, '/');
	char *joined;

	if (path[0] == '/' || slash == NULL)
		return strdup(path);
	if (asprintf(&joined, "%.*s/%s", (int)(slash - file), file, path) == -1)
		return NULL;
	return joined;
}

/* The token goes into a header field, so nothing but visible ASCII. */
int
kubeconfig_token(const char *token, struct error *err)
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

/* As tree_str(); an empty string is none, as in client-go. */
static int
text_of(const struct reader *r, unsigned map, const char *key, unsigned *node,
    struct error *err)
{
	if (tree_str(r->tree, map, key, node, err) == -1)
		return -1;
	if (*node != 0 && tree_text(r->tree, *node)[0] == '\0')
		*node = 0;
	return 0;
}

/* The file that a key names; *path is the caller's to free, also on error. */
static char *
named_file(const struct reader *r, unsigned node, char **path, size_t *len,
    struct error *err)
{
	*path = kube_path(r, tree_text(r->tree, node));
	if (*path == NULL) {
		kube_no_memory(err);
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
	const char *text = tree_text(r->tree, node);
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
		kube_no_memory(err);
		return NULL;
	}
	*len = out.len;
	return out.data;
}

/* KEY-data beats KEY, as in client-go. */
int
kube_pem(const struct reader *r, unsigned map, const char *key,
    enum pem_kind kind, char **to, struct error *err)
{
	char data_key[64], *path = NULL, *text;
	unsigned node;
	size_t len;

	(void)snprintf(data_key, sizeof(data_key), "%s-data", key);
	if (text_of(r, map, data_key, &node, err) == -1)
		return -1;
	if (node != 0) {
		key = data_key;
		text = inline_data(r, node, &len, err);
	} else {
		if (text_of(r, map, key, &node, err) == -1)
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
		return kube_wrap(r, node, key, err);
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

	if (text_of(r, user, key, &node, err) == -1)
		return -1;
	if (node != 0) {
		kc->token = named_file(r, node, &kc->token_file, &len, err);
		if (kc->token == NULL)
			return kube_wrap(r, node, key, err);
	} else {
		key = "token";
		if (text_of(r, user, key, &node, err) == -1 ||
		    kube_set(&kc->token, tree_text(r->tree, node), err) == -1)
			return -1;
		if (node == 0)
			return 0;
	}
	trim(kc->token);
	if (kubeconfig_token(kc->token, err) == -1)
		return kube_wrap(r, node, key, err);
	return 0;
}

/* --- as somebody else --------------------------------------------------- */

/* The header field "name: value". Anything that would end it and begin another
 * is refused, and blanks at the ends, which get lost. */
static int
field_add(struct kubeconfig *kc, const struct reader *r, unsigned node,
    const char *key, const char *name, struct error *err)
{
	const char *value = tree_text(r->tree, node), *c;
	size_t n = 0;

	if (value == NULL)
		return tree_error(r->tree, node, err, "%s must be a string",
		    key);
	for (c = value; *c != '\0'; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			break;
	if (*value == '\0' || *c != '\0' || *value == ' ' || c[-1] == ' ')
		return tree_error(r->tree, node, err, "%s: empty, or with "
		    "control characters, or with a blank at an end", key);
	while (kc->impersonate != NULL && kc->impersonate[n] != NULL)
		n++;
	if (n >= LIMIT_IMPERSONATE)
		return tree_error(r->tree, node, err, "%s: more than %d "
		    "header fields of impersonation", key, LIMIT_IMPERSONATE);
	if (kc->impersonate == NULL && (kc->impersonate = calloc(
	    LIMIT_IMPERSONATE + 1, sizeof(char *))) == NULL)
		return kube_no_memory(err);
	if (asprintf(&kc->impersonate[n], "Impersonate-%s: %s", name,
	    value) != -1)
		return 0;
	kc->impersonate[n] = NULL;
	return kube_no_memory(err);
}

/* A list of strings, each a field of this name. */
static int
fields_add(struct kubeconfig *kc, const struct reader *r, unsigned list,
    const char *key, const char *name, struct error *err)
{
	const struct tree *t = r->tree;
	unsigned item;

	if (t->nodes[list].kind != TREE_LIST)
		return tree_error(t, list, err, "%s must be a list", key);
	for (item = t->nodes[list].child; item != 0; item = t->nodes[item].next)
		if (field_add(kc, r, item, key, name, err) == -1)
			return -1;
	return 0;
}

/* RFC 9110's token characters stay, but the escape itself: as client-go. */
static bool
extra_name(const char *key, char *out, size_t size)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$&'*+-.^_`|~";
	size_t n = (size_t)snprintf(out, size, "Extra-");

	for (; *key != '\0' && n + 4 < size; key++)
		if (strchr(plain, *key) != NULL)
			out[n++] = *key;
		else
			n += (size_t)snprintf(out + n, size - n, "%%%02X",
			    (unsigned)(unsigned char)*key);
	out[n] = '\0';
	return *key == '\0' && n > 6;
}

static int
extras_add(struct kubeconfig *kc, const struct reader *r, unsigned map,
    struct error *err)
{
	static const char key[] = "as-user-extra";
	const struct tree *t = r->tree;
	unsigned k, v;
	char name[512];

	if (t->nodes[map].kind != TREE_MAP)
		return tree_error(t, map, err, "%s must be a mapping", key);
	for (k = t->nodes[map].child; k != 0; k = t->nodes[v].next) {
		v = t->nodes[k].next;
		if (t->nodes[k].kind != TREE_SCALAR ||
		    !extra_name(t->nodes[k].text, name, sizeof(name)))
			return tree_error(t, k, err, "%s: a key is empty or "
			    "too long", key);
		if (fields_add(kc, r, v, key, name, err) == -1)
			return -1;
	}
	return 0;
}

static int
impersonate_take(struct kubeconfig *kc, const struct reader *r, unsigned user,
    struct error *err)
{
	static const char *const keys[] = { "as", "as-uid", "as-groups",
	    "as-user-extra" };
	unsigned nodes[COUNT(keys)], bare = 0;
	const struct tree *t = r->tree;
	const char *text;
	size_t i;

	for (i = 0; i < COUNT(keys); i++) {
		if (tree_get(t, user, keys[i], &nodes[i], err) == -1)
			return -1;
		text = tree_text(t, nodes[i]);
		if (text != NULL && *text == '\0')
			nodes[i] = 0;
		if (i > 0 && nodes[i] != 0 && t->nodes[nodes[i]].child == 0 &&
		    text == NULL)
			nodes[i] = 0;
		if (i > 0 && nodes[i] != 0)
			bare = nodes[i];
	}
	if (nodes[0] == 0 && bare != 0)
		return tree_error(t, bare, err, "a uid, groups or extras to "
		    "impersonate need a user: as");
	if ((nodes[0] != 0 && field_add(kc, r, nodes[0], keys[0], "User",
	    err) == -1) ||
	    (nodes[1] != 0 && field_add(kc, r, nodes[1], keys[1], "Uid",
	    err) == -1) ||
	    (nodes[2] != 0 && fields_add(kc, r, nodes[2], keys[2], "Group",
	    err) == -1))
		return -1;
	return nodes[3] != 0 ? extras_add(kc, r, nodes[3], err) : 0;
}

/* --- who we are --------------------------------------------------------- */

/* RFC 7617. Kubernetes has had none since 1.19; what is before it may. */
static int
basic_take(struct kubeconfig *kc, const struct reader *r, unsigned user,
    struct error *err)
{
	const char *name, *password, *c;
	unsigned nodes[2];
	struct base64 state = { .n = 0 };
	struct buf out;

	if (tree_str(r->tree, user, "username", &nodes[0], err) == -1 ||
	    tree_str(r->tree, user, "password", &nodes[1], err) == -1)
		return -1;
	name = nodes[0] != 0 ? tree_text(r->tree, nodes[0]) : "";
	password = nodes[1] != 0 ? tree_text(r->tree, nodes[1]) : "";
	if (*name == '\0' && *password == '\0')
		return 0;
	for (c = name; *c != '\0' && *c != ':'; c++)
		continue;
	if (*name == '\0' || *c != '\0' || strlen(name) + strlen(password) >
	    LIMIT_TOKEN / 2)
		return tree_error(r->tree, nodes[*name == '\0'], err,
		    "username: missing beside a password, with a colon, or "
		    "too long");
	buf_init(&out, LIMIT_TOKEN);
	base64_encode(&state, name, strlen(name), &out);
	base64_encode(&state, ":", 1, &out);
	base64_encode(&state, password, strlen(password), &out);
	base64_encode_end(&state, &out);
	if (!buf_ok(&out)) {
		buf_wipe(&out);
		return kube_no_memory(err);
	}
	kc->basic = out.data;
	return 0;
}

/*
 * Leaving it out would make us somebody else than the user meant, most likely
 * nobody, and the cluster's 403 would not say why.
 */
static int
user_refuse(const struct reader *r, unsigned user, struct error *err)
{
	unsigned node;

	if (tree_get(r->tree, user, "auth-provider", &node, err) == -1)
		return -1;
	if (node == 0)
		return 0;
	return tree_error(r->tree, node, err, "auth-provider: not supported "
	    "(Kubernetes 1.26 removed it); use an exec plugin of your "
	    "provider, a tokenFile or a client certificate");
}

/* What is sent with each request beats a plugin, as in client-go. */
static int
exec_take(struct kubeconfig *kc, const struct reader *r, unsigned user,
    const struct tree *its_tree, unsigned cluster, struct error *err)
{
	unsigned node;

	if (tree_get(r->tree, user, "exec", &node, err) == -1)
		return -1;
	if (node == 0 || kc->token != NULL || kc->basic != NULL)
		return 0;
	return kube_exec(kc, r, node, its_tree, cluster, err);
}

int
kube_user(struct kubeconfig *kc, const struct reader *r, unsigned user,
    const struct tree *its_tree, unsigned cluster, struct error *err)
{
	if (user_refuse(r, user, err) == -1 ||
	    kube_pem(r, user, "client-certificate", PEM_CERT, &kc->cert,
	    err) == -1 ||
	    kube_pem(r, user, "client-key", PEM_KEY, &kc->key, err) == -1 ||
	    token_take(kc, r, user, err) == -1 ||
	    basic_take(kc, r, user, err) == -1 ||
	    impersonate_take(kc, r, user, err) == -1)
		return -1;
	if ((kc->cert == NULL) != (kc->key == NULL))
		return tree_error(r->tree, user, err,
		    "user \"%s\": client-certificate and client-key belong "
		    "together, but there is only one", kc->user);
	if (kc->token != NULL && kc->basic != NULL)
		return tree_error(r->tree, user, err,
		    "user \"%s\": a token and a password contradict each "
		    "other; remove one", kc->user);
	return exec_take(kc, r, user, its_tree, cluster, err);
}
