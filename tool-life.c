/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extend_sandbox, suspend_sandbox, resume_sandbox, list_warm_pools: what the
 * platform can do with a sandbox between its creation and its end (contract:
 * agent-sandbox 4.2, 4.4, 4.5, 4.7).
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "buf.h"
#include "call.h"
#include "claim.h"
#include "config.h"
#include "env.h"
#include "error.h"
#include "handle.h"
#include "jsonw.h"
#include "k8s.h"
#include "manifest.h"
#include "tools-sandbox.h"
#include "watch.h"

enum { SLACK_MS = 60 * 1000, TIMEOUT_MAX_S = 600 };

static enum step
no_memory(struct error *err)
{
	error_set(err, ERR_SYSTEM, "out of memory");
	return STEP_FAIL;
}

/* ------------------------------------------------------------ extend */

struct extend {
	struct handle h;
	bool asked;		/* the PATCH is under way */
	struct claim_life life;
	char until[40];		/* "": for ever */
};

static const struct arg extend_args[] = {
	HANDLE_ARGS,
	{ "shutdown_after_seconds", ARG_INT, ARG_NULL | ARG_ABOVE | ARG_TERSE,
	    0, 0, "300", .help = "null: never." },
	{ NULL }
};

static enum step
extend_start(struct call *c, struct json args, struct error *err)
{
	static const char name[] = "shutdown_after_seconds";
	enum json_type type = json_type(json_get(args, name));
	const struct env *env = c->env;
	struct extend *x = c->data;

	x->life = (struct claim_life){ .given = type != JSON_NONE,
	    .never = type == JSON_NULL, .most_ms = env->config->pod.life_ms };
	if (!x->life.never)
		x->life.life_s = tools_int(c->tool, args, name);
	return handle_start(c, args, &x->h, err) == -1 ? STEP_FAIL : STEP_WAIT;
}

/* The UID keeps the patch off another claim of that name. */
static void
extend_body(struct buf *out, const struct extend *x, const struct claim *claim)
{
	struct jsonw w;

	jsonw_init(&w, out);
	jsonw_object(&w, NULL);
	jsonw_object(&w, "metadata");
	jsonw_str(&w, "uid", claim->uid);
	jsonw_end(&w);
	jsonw_object(&w, "spec");
	jsonw_object(&w, "lifecycle");
	if (x->until[0] == '\0')
		jsonw_null(&w, "shutdownTime");
	else
		jsonw_str(&w, "shutdownTime", x->until);
	/* Without a policy the claim would stay when its time is over. */
	if (claim->shutdown[0] == '\0')
		jsonw_str(&w, "shutdownPolicy", "Delete");
	jsonw_end(&w);
	jsonw_end(&w);
	jsonw_end(&w);
}

static enum step
extend_done(struct call *c, const struct event *ev, struct error *err)
{
	const struct env *env = c->env;
	struct json_doc *doc;
	struct claim claim;
	struct jsonw w;

	if ((doc = call_doc(ev, err, "answer to the change")) == NULL)
		return STEP_FAIL;
	claim_read(&claim, json_root(doc), env->config->session_label);
	json_free(doc);
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	claim_tell_end(&w, &claim);
	jsonw_end(&w);
	return STEP_DONE;
}

static enum step
extend_next(struct call *c, const struct event *ev, struct error *err)
{
	const struct env *env = c->env;
	struct extend *x = c->data;
	struct claim claim;
	struct buf path, body;

	if (x->asked) {
		x->h.op = NULL;
		return extend_done(c, ev, err);
	}
	if (handle_read(c, ev, &x->h, &claim, err) == -1)
		return STEP_FAIL;
	if (claim.deleting || claim_expired(&claim)) {
		claim_explain(&claim, err);
		return STEP_FAIL;
	}
	x->life.born = manifest_time(claim.created);
	if (claim_until(x->until, &x->life, err) == -1)
		return STEP_FAIL;
	x->asked = true;
	buf_init(&path, 1024);
	buf_init(&body, 1024);
	claim_path(&path, x->h.namespace, x->h.name);
	extend_body(&body, x, &claim);
	x->h.op = k8s_send(env->k8s, "PATCH", path.data, body.data, 0,
	    call_event, c);
	buf_free(&path);
	buf_free(&body);
	return x->h.op != NULL ? STEP_WAIT : no_memory(err);
}

static void
extend_release(struct call *c)
{
	struct extend *x = c->data;

	handle_close(&x->h);
}

const struct tool tool_extend_sandbox = {
	.name = "extend_sandbox", .title = "Extend sandbox",
	.help = "Set anew when a sandbox ends.",
	.family = "agent-sandbox", .args = extend_args,
	.hints = HINT_IDEMPOTENT, .size = sizeof(struct extend),
	.start = extend_start, .next = extend_next, .release = extend_release,
};

/* ------------------------------------------------- suspend and resume */

struct mode {
	struct handle h;
	struct watch *watch;
	bool asked, suspend;
	long timeout_s;
	char uid[64], version[64];
	struct claim claim;
};

static const struct arg mode_args[] = {
	HANDLE_ARGS,
	{ "timeout", ARG_INT, ARG_ABOVE, 0, 0, "180", .help = NULL },
	{ NULL }
};

static enum step
mode_start(struct call *c, struct json args, struct error *err)
{
	struct mode *m = c->data;

	m->suspend = c->tool == &tool_suspend_sandbox;
	m->timeout_s = tools_int(c->tool, args, "timeout");
	if (m->timeout_s > TIMEOUT_MAX_S)
		m->timeout_s = TIMEOUT_MAX_S;
	call_deadline(c, m->timeout_s * 1000 + SLACK_MS);
	return handle_start(c, args, &m->h, err) == -1 ? STEP_FAIL : STEP_WAIT;
}

/* Its pod is gone, or it has a pod again, which has an address of its own. */
static bool
reached(const struct mode *m)
{
	const struct claim *c = &m->claim;

	if (m->suspend)
		return claim_suspended(c) && c->address[0] == '\0' &&
		    strstr(c->message, "suspending") == NULL;
	return c->ready && c->address[0] != '\0';
}

static enum step
mode_done(struct call *c)
{
	struct mode *m = c->data;
	struct jsonw w;

	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	claim_tell(&w, &m->claim);
	jsonw_end(&w);
	return STEP_DONE;
}

static enum step
mode_ask(struct call *c, const struct event *ev, struct error *err)
{
	const struct env *env = c->env;
	struct mode *m = c->data;
	struct buf path;

	if (handle_read(c, ev, &m->h, &m->claim, err) == -1)
		return STEP_FAIL;
	if (reached(m))
		return mode_done(c);
	if (m->claim.deleting || claim_expired(&m->claim) ||
	    m->claim.sandbox[0] == '\0') {
		claim_explain(&m->claim, err);
		return STEP_FAIL;
	}
	(void)snprintf(m->uid, sizeof(m->uid), "%s", m->claim.uid);
	(void)snprintf(m->version, sizeof(m->version), "%s",
	    m->claim.version);
	m->asked = true;
	buf_init(&path, 1024);
	buf_puts(&path, "/apis/agents.x-k8s.io/v1beta1/namespaces/");
	k8s_escape(&path, m->h.namespace);
	buf_puts(&path, "/sandboxes/");
	k8s_escape(&path, m->claim.sandbox);
	m->h.op = k8s_send(env->k8s, "PATCH", path.data, m->suspend ?
	    "{\"spec\":{\"operatingMode\":\"Suspended\"}}" :
	    "{\"spec\":{\"operatingMode\":\"Running\"}}", 0, call_event, c);
	buf_free(&path);
	return m->h.op != NULL ? STEP_WAIT : no_memory(err);
}

/* From the version seen before the change, so that nothing is missed. */
static enum step
mode_watch(struct call *c, const struct event *ev, struct error *err)
{
	const struct env *env = c->env;
	struct mode *m = c->data;
	struct buf path;

	m->h.op = NULL;
	if (ev->err != NULL) {
		*err = *ev->err;
		return STEP_FAIL;
	}
	call_progress(c, m->suspend ? "suspending" : "resuming");
	buf_init(&path, 1024);
	claim_path(&path, m->h.namespace, NULL);
	buf_printf(&path, "?fieldSelector=metadata.name%%3D%s", m->h.name);
	m->watch = watch_open(env->k8s, path.data, m->version, call_event, c);
	buf_free(&path);
	if (m->watch == NULL)
		return no_memory(err);
	call_timer(c, m->timeout_s * 1000);
	return STEP_WAIT;
}

static enum step
mode_seen(struct call *c, const struct event *ev, struct error *err)
{
	const struct env *env = c->env;
	struct mode *m = c->data;
	struct claim claim;

	claim_read(&claim, ev->object, env->config->session_label);
	if (strcmp(claim.uid, m->uid) != 0)
		return STEP_WAIT;
	m->claim = claim;
	if (strcmp(ev->verb, "DELETED") == 0 || claim.deleting ||
	    claim_expired(&claim)) {
		m->claim.deleting = !claim_expired(&claim);
		claim_explain(&m->claim, err);
		return STEP_FAIL;
	}
	if (reached(m))
		return mode_done(c);
	if (claim.message[0] != '\0')
		call_progress(c, "%s", claim.message);
	return STEP_WAIT;
}

static enum step
mode_next(struct call *c, const struct event *ev, struct error *err)
{
	struct mode *m = c->data;

	switch (ev->type) {
	case EVENT_REPLY:
		return m->asked ? mode_watch(c, ev, err) : mode_ask(c, ev, err);
	case EVENT_OBJECT:
		return mode_seen(c, ev, err);
	case EVENT_TIMER:
		error_set(err, ERR_TIMEOUT, "Sandbox claim '%s' is not %s "
		    "within %ld seconds; it still may be later.%s%s",
		    m->h.name, m->suspend ? "suspended" : "ready",
		    m->timeout_s, m->claim.message[0] != '\0' ?
		    " The cluster says: " : "", m->claim.message);
		return STEP_FAIL;
	case EVENT_END:
		m->watch = NULL;
		*err = *ev->err;
		return STEP_FAIL;
	default:
		return STEP_WAIT;
	}
}

static void
mode_release(struct call *c)
{
	struct mode *m = c->data;

	handle_close(&m->h);
	watch_close(m->watch);
}

#define MODE_ROW							\
	.family = "agent-sandbox", .args = mode_args,			\
	.size = sizeof(struct mode), .start = mode_start,		\
	.next = mode_next, .release = mode_release

const struct tool tool_suspend_sandbox = {
	.name = "suspend_sandbox", .title = "Suspend sandbox",
	.help = "Stop a sandbox's pod; only files on its volumes stay.",
	.hints = HINT_DESTRUCTIVE | HINT_IDEMPOTENT, MODE_ROW
};

const struct tool tool_resume_sandbox = {
	.name = "resume_sandbox", .title = "Resume sandbox",
	.help = "Start a suspended sandbox again.",
	.hints = HINT_IDEMPOTENT, MODE_ROW
};

/* --------------------------------------------------------- warm pools */

struct pools {
	char namespace[64];
	struct k8s_op *op;
};

static const struct arg pools_args[] = {
	{ "namespace", ARG_STRING, ARG_REQUIRED, .help = NULL },
	{ NULL }
};

static enum step
pools_start(struct call *c, struct json args, struct error *err)
{
	const struct env *env = c->env;
	struct pools *p = c->data;
	char path[256];

	if (handle_namespace(c, args, p->namespace, err) == -1)
		return STEP_FAIL;
	(void)snprintf(path, sizeof(path), "/apis/extensions.agents.x-k8s.io/"
	    "v1beta1/namespaces/%s/sandboxwarmpools?limit=%d", p->namespace,
	    LIMIT_LIST);
	p->op = k8s_send(env->k8s, "GET", path, NULL, 0, call_event, c);
	return p->op != NULL ? STEP_WAIT : no_memory(err);
}

static void
pool_write(struct jsonw *w, const struct config *config, struct json o)
{
	char name[254] = "", template[254] = "";
	long replicas = 1, ready = 0;

	(void)json_str(json_path(o, "metadata.name"), name, sizeof(name));
	(void)json_str(json_path(o, "spec.sandboxTemplateRef.name"), template,
	    sizeof(template));
	(void)json_int(json_path(o, "spec.replicas"), 0, INT32_MAX, &replicas);
	(void)json_int(json_path(o, "status.readyReplicas"), 0, INT32_MAX,
	    &ready);
	if (!config_allows(config->pools, name))
		return;
	jsonw_object(w, NULL);
	jsonw_str(w, "name", name);
	jsonw_int(w, "replicas", replicas);
	jsonw_int(w, "ready", ready);
	jsonw_str(w, "template", template);
	jsonw_end(w);
}

static enum step
pools_next(struct call *c, const struct event *ev, struct error *err)
{
	const struct env *env = c->env;
	struct pools *p = c->data;
	struct json_doc *doc;
	struct json m, root;
	struct jsonw w;

	p->op = NULL;
	if ((doc = call_doc(ev, err, "list of warm pools")) == NULL)
		return STEP_FAIL;
	root = json_root(doc);
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_array(&w, "pools");
	for (m = json_first(json_get(root, "items"));
	    json_type(m) != JSON_NONE; m = json_next(m))
		pool_write(&w, env->config, m);
	jsonw_end(&w);
	jsonw_bool(&w, "truncated",
	    json_bytes(json_path(root, "metadata.continue")) > 0);
	jsonw_end(&w);
	json_free(doc);
	return STEP_DONE;
}

static void
pools_release(struct call *c)
{
	struct pools *p = c->data;

	k8s_cancel(p->op);
}

const struct tool tool_list_warm_pools = {
	.name = "list_warm_pools", .title = "List warm pools",
	.help = "List warm pools, with replicas ready.",
	.family = "agent-sandbox", .args = pools_args,
	.hints = HINT_READ_ONLY | HINT_IDEMPOTENT,
	.size = sizeof(struct pools), .start = pools_start,
	.next = pools_next, .release = pools_release,
};
