/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "buf.h"
#include "call.h"
#include "config.h"
#include "env.h"
#include "error.h"
#include "handle.h"
#include "k8s.h"
#include "link.h"
#include "loop.h"
#include "mono.h"
#include "names.h"

static bool
owned(const struct env *env, const struct claim *claim)
{
	return strcmp(env->config->handles, "any") == 0 || (claim->marked &&
	    strcmp(claim->session, env->session) == 0);
}

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

static void
on_known(void *arg)
{
	struct handle *h = arg;
	struct event ev = { .type = EVENT_REPLY, .reason = "", .data = "" };

	h->timer = NULL;
	call_event(h->call, &ev);
}

/* No request for what is known; whose it is, is compared again. */
static bool
recall(struct call *c, struct handle *h)
{
	const struct env *env = c->env;
	const struct claim *known = h->enter ? link_claim(env->links,
	    h->namespace, h->name) : NULL;

	if (known == NULL || !owned(env, known))
		return false;
	h->claim = *known;
	h->call = c;
	h->timer = loop_timer_add(env->loop, 0, on_known, h);
	h->known = h->timer != NULL;
	return h->known;
}

static int
send_get(struct call *c, struct handle *h, struct error *err)
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

	/* Who does more than enter it may change it. */
	if (!h->enter)
		link_disclaim(env->links, h->namespace, h->name);
	return recall(c, h) ? 0 : send_get(c, h, err);
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
		if (owned(env, claim))
			return 0;
	}
	return error_set(err, ERR_GONE, "Sandbox claim '%s' is not found in "
	    "namespace '%s'.", h->name, h->namespace);
}

int
handle_ready(struct call *c, const struct event *ev, struct handle *h,
    struct claim *claim, struct error *err)
{
	if (h->known) {
		*claim = h->claim;
		return 0;
	}
	if (handle_read(c, ev, h, claim, err) == -1)
		return -1;
	if (!claim->ready || claim->deleting || claim->sandbox[0] == '\0') {
		claim_explain(claim, err);
		return -1;
	}
	h->claim = *claim;
	h->read_ms = mono_ms();
	if (h->doubt.code == ERR_NONE)
		return 0;
	*err = h->doubt;
	return -1;
}

bool
handle_over(struct call *c, struct handle *h, const struct error *err)
{
	const struct env *env = c->env;

	if (!h->known) {
		if (h->enter && err == NULL)
			link_keep(env->links, &h->claim, h->read_ms);
		return false;
	}
	if (err == NULL || c->state != CALL_RUNNING ||
	    link_claim(env->links, h->namespace, h->name) != NULL ||
	    (err->code != ERR_GONE && err->code != ERR_CLUSTER))
		return false;
	if (err->code != ERR_GONE)
		h->doubt = *err;
	return handle_reread(c, h);
}

bool
handle_reread(struct call *c, struct handle *h)
{
	const struct env *env = c->env;
	struct error ignored;

	if (!h->known || c->state != CALL_RUNNING)
		return false;
	h->known = h->enter = false;
	link_disclaim(env->links, h->namespace, h->name);
	return send_get(c, h, &ignored) == 0;
}

void
handle_close(struct handle *h)
{
	k8s_cancel(h->op);
	loop_timer_del(h->timer);
	h->op = NULL;
	h->timer = NULL;
}
