/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources and prompts: sandboxes://{namespace} as the Python original has
 * it, one content item a sandbox; and a list of what can be read, for clients
 * that do not know templates.
 */
#include <stdio.h>
#include <string.h>

#include "buf.h"
#include "call.h"
#include "claim.h"
#include "config.h"
#include "env.h"
#include "error.h"
#include "jsonw.h"
#include "k8s.h"
#include "names.h"
#include "tools-sandbox.h"

static const char scheme[] = "sandboxes://";

struct read {
	char uri[256];
	struct k8s_op *op;
};

static const char about[] = "The sandboxes of this session in a namespace: "
    "one text item each, the name of its claim.";

static enum step
templates_start(struct call *c, struct json args, struct error *err)
{
	struct jsonw w;

	(void)args;
	(void)err;
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_array(&w, "resourceTemplates");
	jsonw_object(&w, NULL);
	jsonw_str(&w, "name", "get_sandboxes");
	jsonw_str(&w, "title", "Sandboxes in a namespace");
	jsonw_str(&w, "uriTemplate", "sandboxes://{namespace}");
	jsonw_str(&w, "description", about);
	jsonw_str(&w, "mimeType", "text/plain");
	jsonw_end(&w);
	jsonw_end(&w);
	jsonw_end(&w);
	return STEP_DONE;
}

static void
list_one(struct jsonw *w, const char *namespace)
{
	char text[128];

	jsonw_object(w, NULL);
	(void)snprintf(text, sizeof(text), "%s%s", scheme, namespace);
	jsonw_str(w, "uri", text);
	(void)snprintf(text, sizeof(text), "sandboxes in %s", namespace);
	jsonw_str(w, "name", text);
	jsonw_str(w, "description", about);
	jsonw_str(w, "mimeType", "text/plain");
	jsonw_end(w);
}

/* The namespaces the operator allows, else the kubeconfig's own. */
static enum step
list_start(struct call *c, struct json args, struct error *err)
{
	const struct env *env = c->env;
	const char *at = env->config->namespaces;
	struct jsonw w;
	char one[64];		/* no namespace is longer */

	(void)args;
	(void)err;
	if (at == NULL)
		at = env->namespace;
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_array(&w, "resources");
	while (config_item(&at, one, sizeof(one)))
		list_one(&w, one);
	jsonw_end(&w);
	jsonw_end(&w);
	return STEP_DONE;
}

static int
hex(char c)
{
	const char *digits = "0123456789abcdef", *at;

	at = strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c);
	return c != '\0' && at != NULL ? (int)(at - digits) : -1;
}

/* The namespace in a URI, percent-decoded. -1: there can be no such thing. */
static int
uri_namespace(const char *uri, char *dst, size_t size)
{
	size_t n = 0;

	if (strncmp(uri, scheme, sizeof(scheme) - 1) != 0)
		return -1;
	for (uri += sizeof(scheme) - 1; *uri != '\0'; uri++) {
		int c = *uri;

		if (c == '%') {
			if (hex(uri[1]) == -1 || hex(uri[2]) == -1)
				return -1;
			c = hex(uri[1]) * 16 + hex(uri[2]);
			uri += 2;
		}
		if (c == 0 || n + 1 >= size)
			return -1;
		dst[n++] = (char)c;
	}
	dst[n] = '\0';
	return 0;
}

static enum step
read_start(struct call *c, struct json args, struct error *err)
{
	const struct env *env = c->env;
	struct read *r = c->data;
	char namespace[64];
	struct buf path;

	if (!json_str(json_get(args, "uri"), r->uri, sizeof(r->uri)) ||
	    uri_namespace(r->uri, namespace, sizeof(namespace)) == -1 ||
	    name_label("namespace", namespace, err) == -1 ||
	    !config_allows(env->config->namespaces, namespace)) {
		error_set(err, ERR_GONE, "Resource not found: '%.200s'",
		    r->uri);
		return STEP_FAIL;
	}
	buf_init(&path, 2048);
	claim_list_path(&path, namespace, env->config->session_label,
	    env->session);
	r->op = k8s_send(env->k8s, "GET", path.data, NULL, 0, call_event, c);
	buf_free(&path);
	if (r->op != NULL)
		return STEP_WAIT;
	error_set(err, ERR_SYSTEM, "out of memory");
	return STEP_FAIL;
}

static enum step
read_next(struct call *c, const struct event *ev, struct error *err)
{
	struct read *r = c->data;
	struct json_doc *doc;
	struct jsonw w;
	struct json m;
	char name[254];

	r->op = NULL;
	if (ev->err != NULL) {
		*err = *ev->err;
		/* Of the cluster's things, not of the client's words. */
		if (err->code == ERR_INPUT || err->code == ERR_GONE)
			err->code = ERR_CLUSTER;
		return STEP_FAIL;
	}
	if ((doc = json_parse_lax(ev->data, ev->len, err)) == NULL)
		return STEP_FAIL;
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_array(&w, "contents");
	for (m = json_first(json_get(json_root(doc), "items"));
	    json_type(m) != JSON_NONE; m = json_next(m)) {
		if (!json_str(json_path(m, "metadata.name"), name,
		    sizeof(name)))
			continue;
		jsonw_object(&w, NULL);
		jsonw_str(&w, "uri", r->uri);
		jsonw_str(&w, "mimeType", "text/plain");
		jsonw_str(&w, "text", name);
		jsonw_end(&w);
	}
	jsonw_end(&w);
	jsonw_end(&w);
	json_free(doc);
	return STEP_DONE;
}

static void
read_release(struct call *c)
{
	struct read *r = c->data;

	k8s_cancel(r->op);
}

static const struct tool templates = {
	.name = "resources/templates/list",
	.start = templates_start,
};

static const struct tool list = {
	.name = "resources/list",
	.start = list_start,
};

static const struct tool read_row = {
	.name = "resources/read",
	.size = sizeof(struct read),
	.start = read_start,
	.next = read_next,
	.release = read_release,
};

const struct tool *const sandbox_methods[] = {
	&list, &templates, &read_row, NULL
};
