/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "buf.h"
#include "call.h"
#include "config.h"
#include "env.h"
#include "error.h"
#include "handle.h"
#include "k8s.h"
#include "names.h"

int
handle_namespace(const struct call *c, struct json args, char *dst,
    struct error *err)
{
	const struct env *env = c->env;

	if (!json_str(json_get(args, "namespace"), dst, 64))
		return error_set(err, ERR_INPUT, "namespace: longer than 63 "
		    "characters");
	if (name_label("namespace", dst, err) == -1)
		return -1;
	if (!config_allows(env->config->namespaces, dst))
		return error_set(err, ERR_INPUT, "namespace '%s' is not one "
		    "this server may use; allowed: %s", dst,
		    env->config->namespaces);
	return 0;
}

int
handle_check(const struct call *c, struct json args, struct handle *h,
    struct error *err)
{
	if (handle_namespace(c, args, h->namespace, err) == -1)
		return -1;
	if (!json_str(json_get(args, "sandbox_claim_name"), h->name,
	    sizeof(h->name)))
		return error_set(err, ERR_INPUT, "sandbox_claim_name: longer "
		    "than 253 characters");
	return name_subdomain("sandbox_claim_name", h->name, err);
}

int
handle_send(struct call *c, struct handle *h, struct error *err)
{
	const struct env *env = c->env;
	struct buf path;

	buf_init(&path, 1024);
	claim_path(&path, h->namespace, h->name);
	h->op = k8s_send(env->k8s, "GET", path.data, NULL, 0, call_event, c);
	buf_free(&path);
	if (h->op == NULL)
		return error_set(err, ERR_SYSTEM, "out of memory");
	return 0;
}

int
handle_start(struct call *c, struct json args, struct handle *h,
    struct error *err)
{
	return handle_check(c, args, h, err) == -1 ? -1 :
	    handle_send(c, h, err);
}

int
handle_read(struct call *c, const struct event *ev, struct handle *h,
    struct claim *claim, struct error *err)
{
	const struct env *env = c->env;
	struct json_doc *doc;

	h->op = NULL;
	if (ev->err != NULL && ev->err->code != ERR_GONE) {
		*err = *ev->err;
		return -1;
	}
	if (ev->err == NULL) {
		doc = json_parse_lax(ev->data, ev->len, err);
		if (doc == NULL)
			return error_wrap(err, "claim '%s'", h->name);
		claim_read(claim, json_root(doc), env->config->session_label);
		json_free(doc);
		if (strcmp(env->config->handles, "any") == 0 ||
		    (claim->marked &&
		    strcmp(claim->session, env->session) == 0))
			return 0;
	}
	return error_set(err, ERR_GONE, "Sandbox claim '%s' is not found in "
	    "namespace '%s'.", h->name, h->namespace);
}

int
handle_ready(struct call *c, const struct event *ev, struct handle *h,
    struct claim *claim, struct error *err)
{
	if (handle_read(c, ev, h, claim, err) == -1)
		return -1;
	if (claim->ready && !claim->deleting && claim->sandbox[0] != '\0')
		return 0;
	claim_explain(claim, err);
	return -1;
}

void
handle_close(struct handle *h)
{
	k8s_cancel(h->op);
	h->op = NULL;
}
