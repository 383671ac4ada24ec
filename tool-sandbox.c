/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get_sandbox_status, list_sandboxes, delete_sandbox.
 */
#include <string.h>

#include "buf.h"
#include "call.h"
#include "claim.h"
#include "config.h"
#include "env.h"
#include "error.h"
#include "handle.h"
#include "jsonw.h"
#include "k8s.h"
#include "tools-sandbox.h"

/* ------------------------------------------------------------ status */

struct status {
	struct handle h;
};

static const struct arg handle_args[] = { HANDLE_ARGS, { NULL } };

static const struct arg status_out[] = {
	{ "status", ARG_STRING, ARG_REQUIRED, .help = NULL },
	{ "ready", ARG_BOOL, ARG_REQUIRED, .help = NULL },
	{ "message", ARG_STRING, ARG_REQUIRED, .help = NULL },
	{ "shutdown_time", ARG_STRING, ARG_REQUIRED | ARG_NULL, .help = NULL },
	{ NULL }
};

static enum step
status_start(struct call *c, struct json args, struct error *err)
{
	struct status *s = c->data;

	return handle_start(c, args, &s->h, err) == -1 ? STEP_FAIL : STEP_WAIT;
}

static enum step
status_next(struct call *c, const struct event *ev, struct error *err)
{
	struct status *s = c->data;
	struct claim claim;
	struct jsonw w;

	jsonw_init(&w, &c->structured);
	if (handle_read(c, ev, &s->h, &claim, err) == 0) {
		jsonw_object(&w, NULL);
		claim_tell(&w, &claim);
		jsonw_end(&w);
		return STEP_DONE;
	}
	if (err->code != ERR_GONE)
		return STEP_FAIL;
	jsonw_object(&w, NULL);
	jsonw_str(&w, "status", "SandboxNotFound");
	jsonw_bool(&w, "ready", false);
	jsonw_str(&w, "message", err->text);
	jsonw_null(&w, "shutdown_time");
	jsonw_end(&w);
	return STEP_DONE;
}

static void
status_release(struct call *c)
{
	struct status *s = c->data;

	handle_close(&s->h);
}

const struct tool tool_get_sandbox_status = {
	.name = "get_sandbox_status",
	.title = "Sandbox status",
	.help = "Is it ready, why not, and when does it end?",
	.family = "agent-sandbox",
	.args = handle_args,
	.out = status_out,
	.hints = HINT_READ_ONLY | HINT_IDEMPOTENT,
	.size = sizeof(struct status),
	.start = status_start,
	.next = status_next,
	.release = status_release,
};

/* -------------------------------------------------------------- list */

struct list {
	char namespace[64];
	struct k8s_op *op;
};

static const struct arg list_args[] = {
	{ "namespace", ARG_STRING, ARG_REQUIRED, .help = NULL },
	{ NULL }
};

static enum step
list_start(struct call *c, struct json args, struct error *err)
{
	struct list *l = c->data;
	struct env *env = c->env;
	struct buf path;

	if (handle_namespace(c, args, l->namespace, err) == -1)
		return STEP_FAIL;
	buf_init(&path, 2048);
	claim_list_path(&path, l->namespace, env->config->session_label,
	    env->session);
	l->op = k8s_send(env->k8s, "GET", path.data, NULL, 0, call_event, c);
	buf_free(&path);
	if (l->op != NULL)
		return STEP_WAIT;
	error_set(err, ERR_SYSTEM, "out of memory");
	return STEP_FAIL;
}

static void
list_write(struct call *c, struct json root)
{
	const struct env *env = c->env;
	struct claim claim;
	struct jsonw w;
	struct json m;
	size_t more;

	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_array(&w, "sandboxes");
	for (m = json_first(json_get(root, "items"));
	    json_type(m) != JSON_NONE; m = json_next(m)) {
		claim_read(&claim, m, env->config->session_label);
		jsonw_object(&w, NULL);
		jsonw_str(&w, "sandbox_claim_name", claim.name);
		jsonw_str(&w, "warmpool", claim.pool);
		jsonw_str(&w, "created", claim.created);
		claim_tell(&w, &claim);
		jsonw_end(&w);
	}
	jsonw_end(&w);
	more = json_bytes(json_path(root, "metadata.continue"));
	jsonw_bool(&w, "truncated", more > 0);
	jsonw_end(&w);
}

static enum step
list_next(struct call *c, const struct event *ev, struct error *err)
{
	struct list *l = c->data;
	struct json_doc *doc;

	l->op = NULL;
	if ((doc = call_doc(ev, err, "list of sandbox claims")) == NULL)
		return STEP_FAIL;
	list_write(c, json_root(doc));
	json_free(doc);
	return STEP_DONE;
}

static void
list_release(struct call *c)
{
	struct list *l = c->data;

	k8s_cancel(l->op);
}

const struct tool tool_list_sandboxes = {
	.name = "list_sandboxes",
	.title = "List sandboxes",
	.help = "List this session's sandboxes.",
	.family = "agent-sandbox",
	.args = list_args,
	.hints = HINT_READ_ONLY | HINT_IDEMPOTENT,
	.size = sizeof(struct list),
	.start = list_start,
	.next = list_next,
	.release = list_release,
};

/* ------------------------------------------------------------ delete */

struct delete {
	struct handle h;
	bool asked;		/* the DELETE is under way */
};

static enum step
delete_start(struct call *c, struct json args, struct error *err)
{
	struct delete *d = c->data;

	return handle_start(c, args, &d->h, err) == -1 ? STEP_FAIL : STEP_WAIT;
}

static enum step
delete_next(struct call *c, const struct event *ev, struct error *err)
{
	struct delete *d = c->data;
	struct env *env = c->env;
	struct claim claim;
	struct buf path, body;

	if (d->asked) {
		d->h.op = NULL;
		/* Gone, or replaced by another of that name: ours is away. */
		if (ev->err == NULL || ev->err->code == ERR_GONE ||
		    ev->err->code == ERR_CONFLICT)
			return STEP_DONE;
		*err = *ev->err;
		return STEP_FAIL;
	}
	if (handle_read(c, ev, &d->h, &claim, err) == -1)
		return STEP_FAIL;
	d->asked = true;
	buf_init(&path, 1024);
	buf_init(&body, 1024);
	claim_path(&path, d->h.namespace, d->h.name);
	claim_delete_body(&body, claim.uid);
	call_holds(c, "sandbox claim %s/%s", d->h.namespace, d->h.name);
	d->h.op = k8s_send(env->k8s, "DELETE", path.data, body.data, 0,
	    call_event, c);
	buf_free(&path);
	buf_free(&body);
	if (d->h.op != NULL)
		return STEP_WAIT;
	error_set(err, ERR_SYSTEM, "out of memory");
	return STEP_FAIL;
}

/* A DELETE that was sent is not hung up on: it is what was wanted. */
static enum step
delete_stop(struct call *c)
{
	struct delete *d = c->data;

	return d->asked && d->h.op != NULL ? STEP_WAIT : STEP_DONE;
}

static void
delete_release(struct call *c)
{
	struct delete *d = c->data;

	handle_close(&d->h);
}

const struct tool tool_delete_sandbox = {
	.name = "delete_sandbox",
	.title = "Delete sandbox",
	.help = "Delete a sandbox as soon as it is no longer needed.",
	.family = "agent-sandbox",
	.args = handle_args,
	.hints = HINT_DESTRUCTIVE | HINT_IDEMPOTENT,
	.size = sizeof(struct delete),
	.start = delete_start,
	.next = delete_next,
	.stop = delete_stop,
	.release = delete_release,
};
