/* SPDX-License-Identifier: Apache-2.0 */
/* The part of kubeconfig that is about credential plugins. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base64.h"
#include "budget.h"
#include "buf.h"
#include "error.h"
#include "json.h"
#include "jsonw.h"
#include "kubeconfig-own.h"

#define GROUP	"client.authentication.k8s.io/"

/* --- YAML as JSON ------------------------------------------------------- */

/* What YAML takes for a number, a boolean or null is written the same in
 * JSON, if it is JSON at all (not 0x1f, .5 or yes). */
static void
put_scalar(struct jsonw *w, const char *key, const struct tree_node *n)
{
	struct json_doc *doc = NULL;
	struct error ignored;

	if (n->plain && *n->text != '\0' && *n->text != '"' &&
	    strchr("{[", *n->text) == NULL)
		doc = json_parse(n->text, strlen(n->text), &ignored);
	if (doc != NULL)
		jsonw_raw(w, key, n->text, strlen(n->text));
	else if (n->plain && (*n->text == '\0' || strcmp(n->text, "~") == 0))
		jsonw_null(w, key);
	else
		jsonw_str(w, key, n->text);
	json_free(doc);
}

/* As deep as the tree, which has its limit (TREE_DEPTH). */
static void
put_node(struct jsonw *w, const char *key, const struct tree *t, unsigned at)
{
	unsigned child;

	switch (t->nodes[at].kind) {
	case TREE_SCALAR:
		put_scalar(w, key, &t->nodes[at]);
		return;
	case TREE_LIST:
		jsonw_array(w, key);
		for (child = t->nodes[at].child; child != 0;
		    child = t->nodes[child].next)
			put_node(w, NULL, t, child);
		break;
	case TREE_MAP:
		jsonw_object(w, key);
		for (child = t->nodes[at].child; child != 0;
		    child = t->nodes[t->nodes[child].next].next)
			if (t->nodes[child].kind == TREE_SCALAR)
				put_node(w, t->nodes[child].text, t,
				    t->nodes[child].next);
		break;
	}
	jsonw_end(w);
}

/* --- KUBERNETES_EXEC_INFO ----------------------------------------------- */

static int
put_ca(struct jsonw *w, const char *pem, struct error *err)
{
	struct base64 state = { .n = 0 };
	struct buf out;

	buf_init(&out, 2 * LIMIT_KUBECONFIG);
	base64_encode(&state, pem, strlen(pem), &out);
	base64_encode_end(&state, &out);
	if (buf_ok(&out))
		jsonw_str(w, "certificate-authority-data", out.data);
	buf_free(&out);
	return buf_ok(&out) ? 0 : kube_no_memory(err);
}

/* The cluster's extension that is meant for plugins, as "config". */
static int
put_config(struct jsonw *w, const struct tree *t, unsigned cluster,
    struct error *err)
{
	unsigned list, item, name, body;

	if (tree_get(t, cluster, "extensions", &list, err) == -1)
		return -1;
	if (list == 0 || t->nodes[list].kind != TREE_LIST)
		return 0;
	for (item = t->nodes[list].child; item != 0;
	    item = t->nodes[item].next) {
		if (tree_str(t, item, "name", &name, err) == -1)
			return -1;
		if (name == 0 || strcmp(tree_text(t, name), GROUP "exec") != 0)
			continue;
		if (tree_get(t, item, "extension", &body, err) == -1)
			return -1;
		if (body != 0)
			put_node(w, "config", t, body);
		return 0;
	}
	return 0;
}

static int
put_cluster(struct jsonw *w, const struct kubeconfig *kc, const struct tree *t,
    unsigned cluster, struct error *err)
{
	bool uncompressed;

	jsonw_object(w, "cluster");
	jsonw_str(w, "server", kc->server);
	if (kc->tls_name != NULL)
		jsonw_str(w, "tls-server-name", kc->tls_name);
	if (kc->insecure)
		jsonw_bool(w, "insecure-skip-tls-verify", true);
	if (kc->ca != NULL && put_ca(w, kc->ca, err) == -1)
		return -1;
	if (kc->proxy != NULL)
		jsonw_str(w, "proxy-url", kc->proxy);
	if (tree_bool(t, cluster, "disable-compression", &uncompressed,
	    err) == -1)
		return -1;
	if (uncompressed)
		jsonw_bool(w, "disable-compression", true);
	if (put_config(w, t, cluster, err) == -1)
		return -1;
	jsonw_end(w);
	return 0;
}

static int
put_info(struct buf *out, const struct kubeconfig *kc, bool with_cluster,
    const struct tree *t, unsigned cluster, struct error *err)
{
	struct jsonw w;

	buf_puts(out, "KUBERNETES_EXEC_INFO=");
	jsonw_init(&w, out);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "kind", "ExecCredential");
	jsonw_str(&w, "apiVersion", kc->exec->version);
	jsonw_object(&w, "spec");
	jsonw_bool(&w, "interactive", false);
	if (with_cluster && put_cluster(&w, kc, t, cluster, err) == -1)
		return -1;
	jsonw_end(&w);
	jsonw_end(&w);
	return buf_ok(out) ? 0 : kube_no_memory(err);
}

/* --- its parts ---------------------------------------------------------- */

static int
version_take(struct kubeconfig *kc, const struct reader *r, unsigned exec,
    struct error *err)
{
	const char *text;
	unsigned node;

	if (tree_str(r->tree, exec, "apiVersion", &node, err) == -1)
		return -1;
	text = node != 0 ? tree_text(r->tree, node) : "";
	if (strcmp(text, GROUP "v1") == 0 || strcmp(text, GROUP "v1beta1") == 0)
		return kube_set(&kc->exec->version, text, err);
	return tree_error(r->tree, node != 0 ? node : exec, err,
	    "exec: apiVersion must be %sv1 or %sv1beta1 (older ones were "
	    "removed in Kubernetes 1.24; have your provider's tool write the "
	    "kubeconfig again)", GROUP, GROUP);
}

/* Standard input is the MCP client's, nobody can be asked there. */
static int
mode_check(const struct reader *r, unsigned exec, struct error *err)
{
	const char *text;
	unsigned node;

	if (tree_str(r->tree, exec, "interactiveMode", &node, err) == -1)
		return -1;
	if (node == 0)
		return 0;
	text = tree_text(r->tree, node);
	if (strcmp(text, "Never") == 0 || strcmp(text, "IfAvailable") == 0)
		return 0;
	if (strcmp(text, "Always") == 0)
		return tree_error(r->tree, node, err, "exec: interactiveMode: "
		    "Always needs a terminal, but standard input carries MCP; "
		    "log in beforehand and set IfAvailable, or use a "
		    "tokenFile");
	return tree_error(r->tree, node, err, "exec: interactiveMode must be "
	    "Never or IfAvailable");
}

static int
command_take(struct kubeconfig *kc, const struct reader *r, unsigned exec,
    struct error *err)
{
	const char *text;
	unsigned node;

	if (tree_str(r->tree, exec, "command", &node, err) == -1)
		return -1;
	text = node != 0 ? tree_text(r->tree, node) : "";
	if (*text == '\0')
		return tree_error(r->tree, exec, err, "exec: no command");
	/* In $PATH what has no slash, as a shell does. */
	kc->exec->command = strchr(text, '/') != NULL ? kube_path(r, text) :
	    strdup(text);
	return kc->exec->command != NULL ? 0 : kube_no_memory(err);
}

/* How many are in the list that key names; *list 0: it is not there. */
static int
list_of(const struct tree *t, unsigned exec, const char *key, unsigned *list,
    size_t *n, struct error *err)
{
	unsigned item;

	*n = 0;
	if (tree_get(t, exec, key, list, err) == -1)
		return -1;
	if (*list == 0)
		return 0;
	if (t->nodes[*list].kind != TREE_LIST)
		return tree_error(t, *list, err, "exec: %s must be a list",
		    key);
	for (item = t->nodes[*list].child; item != 0;
	    item = t->nodes[item].next)
		++*n;
	if (*n <= LIMIT_PLUGIN_WORDS)
		return 0;
	return tree_error(t, *list, err, "exec: %s: more than %d", key,
	    LIMIT_PLUGIN_WORDS);
}

static int
args_take(struct kubeconfig *kc, const struct reader *r, unsigned exec,
    struct error *err)
{
	const struct tree *t = r->tree;
	unsigned list, item;
	char **argv;
	size_t n;

	if (list_of(t, exec, "args", &list, &n, err) == -1)
		return -1;
	if ((argv = calloc(n + 2, sizeof(*argv))) == NULL)
		return kube_no_memory(err);
	kc->exec->argv = argv;
	if (kube_set(argv++, kc->exec->command, err) == -1)
		return -1;
	for (item = list != 0 ? t->nodes[list].child : 0; item != 0;
	    item = t->nodes[item].next) {
		if (t->nodes[item].kind != TREE_SCALAR)
			return tree_error(t, item, err, "exec: args: each "
			    "must be a string");
		if (kube_set(argv++, t->nodes[item].text, err) == -1)
			return -1;
	}
	return 0;
}

static int
variable_take(const struct tree *t, unsigned item, char **to,
    struct error *err)
{
	unsigned name, value;
	const char *text;

	if (tree_str(t, item, "name", &name, err) == -1 ||
	    tree_str(t, item, "value", &value, err) == -1)
		return -1;
	text = name != 0 ? tree_text(t, name) : "";
	if (*text == '\0' || strchr(text, '=') != NULL)
		return tree_error(t, item, err, "exec: env: each needs a "
		    "name, without \"=\"");
	if (asprintf(to, "%s=%s", text, value != 0 ? tree_text(t, value) :
	    "") != -1)
		return 0;
	*to = NULL;
	return kube_no_memory(err);
}

static int
env_take(struct kubeconfig *kc, const struct reader *r, unsigned exec,
    const struct tree *its_tree, unsigned cluster, struct error *err)
{
	const struct tree *t = r->tree;
	unsigned list, item;
	bool with_cluster;
	struct buf info;
	char **env;
	size_t n;

	if (list_of(t, exec, "env", &list, &n, err) == -1 ||
	    tree_bool(t, exec, "provideClusterInfo", &with_cluster,
	    err) == -1)
		return -1;
	if ((env = calloc(n + 2, sizeof(*env))) == NULL)
		return kube_no_memory(err);
	kc->exec->env = env;
	for (item = list != 0 ? t->nodes[list].child : 0; item != 0;
	    item = t->nodes[item].next)
		if (variable_take(t, item, env++, err) == -1)
			return -1;
	buf_init(&info, 4 * LIMIT_KUBECONFIG);
	if (put_info(&info, kc, with_cluster, its_tree, cluster, err) == -1) {
		buf_wipe(&info);
		return -1;
	}
	*env = info.data;
	return 0;
}

int
kube_exec(struct kubeconfig *kc, const struct reader *r, unsigned exec,
    const struct tree *its_tree, unsigned cluster, struct error *err)
{
	unsigned hint;

	if ((kc->exec = calloc(1, sizeof(*kc->exec))) == NULL)
		return kube_no_memory(err);
	kc->exec->ms = LIMIT_PLUGIN_MS;
	if (version_take(kc, r, exec, err) == -1 ||
	    mode_check(r, exec, err) == -1 ||
	    command_take(kc, r, exec, err) == -1 ||
	    args_take(kc, r, exec, err) == -1 ||
	    env_take(kc, r, exec, its_tree, cluster, err) == -1 ||
	    tree_str(r->tree, exec, "installHint", &hint, err) == -1)
		return -1;
	return kube_set(&kc->exec->hint, tree_text(r->tree, hint), err);
}

void
kube_exec_free(struct kubeconfig_exec *exec)
{
	if (exec == NULL)
		return;
	free(exec->command);
	free(exec->version);
	kube_wipe_list(exec->argv);
	kube_wipe_list(exec->env);
	free(exec->hint);
	free(exec);
}
