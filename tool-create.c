/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create_sandbox: a claim on a warm pool, watched until it is ready.
 *
 *   POOL --> POST --> WATCH --> done
 *              \\        \--(fails, deadline, cancel)--> DELETE
 *               \\--(answer lost)--> FIND --> DELETE
 *                \--(name is taken)--> ADOPT --> WATCH --> done
 *
 * What was adopted was there before this call and is never deleted by it.
 */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "blocker.h"
#include "buf.h"
#include "call.h"
#include "claim.h"
#include "config.h"
#include "env.h"
#include "error.h"
#include "handle.h"
#include "jsonw.h"
#include "k8s.h"
#include "mono.h"
#include "names.h"
#include "tools-sandbox.h"
#include "watch.h"

enum { LOOK_MS = 1500, READY_MAX_S = 86400, LABELS_MAX = 64 };

enum create_state {
	CREATE_POOL,		/* is there such a pool? */
	CREATE_POST,		/* the claim's answer */
	CREATE_ADOPT,		/* whose is the claim of that name? */
	CREATE_WATCH,		/* its Ready condition */
	CREATE_FIND,		/* was it made? The answer was lost */
	CREATE_DELETE		/* its removal */
};

struct create {
	enum create_state state;
	char namespace[64], pool[254], name[64], request[24];
	bool named;		/* by the caller */
	bool adopted;
	char uid[64], version[64], shutdown[40];
	bool made;		/* it is in the cluster, or may be */
	bool done;		/* it is the caller's now */
	unsigned tries;		/* of the DELETE */
	struct buf body;
	struct k8s_op *op;
	struct watch *watch;
	struct blocker *blocker;
	struct claim claim;	/* as last seen */
	long ready_ms, until_ms;
};

static const struct arg args[] = {
	{ "warmpool", ARG_STRING, ARG_REQUIRED, .help = NULL },
	{ "namespace", ARG_STRING, ARG_REQUIRED, .help = NULL },
	{ "sandbox_ready_timeout", ARG_INT, 0, -READY_MAX_S, READY_MAX_S,
	    "180", .help = NULL },
	{ "labels", ARG_MAP, ARG_NULL, 0, 0, "null", .help = NULL },
	{ "shutdown_after_seconds", ARG_INT, ARG_NULL, 0, 0, "300", .help =
	    "null: never." },
	{ "pod_labels", ARG_MAP, ARG_NULL, 0, 0, "null", .help =
	    "sandbox.users.io/KEY" },
	{ "pod_annotations", ARG_MAP, ARG_NULL, 0, 0, "null", .help = NULL },
	{ "name", ARG_STRING, ARG_NULL | ARG_TERSE, 1, 63, NULL, .help =
	    "A handle to make, or yours to return." },
	{ "env", ARG_MAP, ARG_NULL | ARG_TERSE, 0, LIMIT_ENV, NULL, .help =
	    "If the template allows it." },
	{ NULL }
};

static const struct arg out[] = {
	{ "sandbox_claim_name", ARG_STRING, ARG_REQUIRED, .help = NULL },
	{ "shutdown_time", ARG_STRING, ARG_REQUIRED | ARG_NULL, .help = NULL },
	{ NULL }
};

/* Keys and values of a map of labels, before anything is sent. */
static int
check_labels(const char *what, struct json map, struct error *err)
{
	char key[400], value[80], where[80];
	struct json m;

	if (json_count(map) > LABELS_MAX)
		return error_set(err, ERR_INPUT, "%s: at most %d members",
		    what, LABELS_MAX);
	for (m = json_first(map); json_type(m) != JSON_NONE; m = json_next(m)) {
		if (!json_str(json_key(m), key, sizeof(key)))
			return error_set(err, ERR_INPUT, "%s: a key is longer "
			    "than 316 characters", what);
		if (name_label_key(what, key, err) == -1)
			return -1;
		(void)snprintf(where, sizeof(where), "%s: value of %.40s",
		    what, key);
		if (!json_str(m, value, sizeof(value)))
			return error_set(err, ERR_INPUT, "%s is longer than "
			    "63 characters", where);
		if (name_label_value(where, value, err) == -1)
			return -1;
	}
	return 0;
}

/* The controller refuses others, but only when the claim is there. */
static int
check_domains(const char *list, struct json map, struct error *err)
{
	char key[400], domain[254];
	const char *rest;
	struct json m;

	for (m = json_first(map); json_type(m) != JSON_NONE; m = json_next(m)) {
		size_t len, n;
		bool good = false;

		(void)json_str(json_key(m), key, sizeof(key));
		len = strcspn(key, "/");
		rest = list;
		while (!good && config_item(&rest, domain, sizeof(domain))) {
			n = strlen(domain);
			good = key[len] == '/' && len >= n &&
			    strncmp(key + len - n, domain, n) == 0 &&
			    (len == n || key[len - n - 1] == '.');
		}
		if (!good)
			return error_set(err, ERR_INPUT, "pod_labels: the "
			    "cluster does not allow the key '%.100s': it must "
			    "begin with one of these domains, or one below, "
			    "and a slash: %s", key, list);
	}
	return 0;
}

static int
check_env(struct json map, struct error *err)
{
	char name[256];
	struct json m;

	for (m = json_first(map); json_type(m) != JSON_NONE; m = json_next(m)) {
		if (!json_str(json_key(m), name, sizeof(name)))
			return error_set(err, ERR_INPUT, "env: a name is "
			    "longer than 255 bytes");
		if (name_variable("env", name, err) == -1)
			return -1;
	}
	return 0;
}

static int
random_text(char *dst, size_t size)
{
	unsigned char raw[8];

	if (getrandom(raw, sizeof(raw), 0) != sizeof(raw))
		return -1;
	for (size_t i = 0; i < sizeof(raw) && 2 * i + 3 <= size; i++)
		(void)snprintf(dst + 2 * i, 3, "%02x", raw[i]);
	return 0;
}

static int
choose_name(struct create *s, struct json arguments, struct error *err)
{
	struct json name = json_get(arguments, "name");

	if (random_text(s->request, sizeof(s->request)) == -1)
		return error_sys(err, "a name for the claim");
	s->named = json_type(name) == JSON_STRING;
	if (!s->named) {
		(void)snprintf(s->name, sizeof(s->name), "sandbox-claim-%s",
		    s->request);
		return 0;
	}
	if (!json_str(name, s->name, sizeof(s->name)))
		return error_set(err, ERR_INPUT, "name: longer than 63 "
		    "characters");
	return name_label("name", s->name, err);
}

static int
check_lifetime(const struct config *config, struct create *s,
    struct json arguments, struct error *err)
{
	static const char name[] = "shutdown_after_seconds";
	enum json_type type = json_type(json_get(arguments, name));
	struct claim_life life = { .given = type != JSON_NONE,
	    .never = type == JSON_NULL, .most_ms = config->pod.life_ms };

	if (!life.never)
		life.life_s = tools_int(&tool_create_sandbox, arguments, name);
	if (!life.never && life.life_s <= 0)
		return error_set(err, ERR_INPUT, "%s must be positive, got "
		    "%ld", name, life.life_s);
	return claim_until(s->shutdown, &life, err);
}

static int
check(struct call *c, struct create *s, struct json arguments,
    struct error *err)
{
	const struct env *env = c->env;

	if (!json_str(json_get(arguments, "warmpool"), s->pool,
	    sizeof(s->pool)))
		return error_set(err, ERR_INPUT, "warmpool: longer than 253 "
		    "characters");
	if (name_subdomain("warmpool", s->pool, err) == -1)
		return -1;
	if (!config_allows(env->config->pools, s->pool))
		return error_set(err, ERR_INPUT, "warm pool '%s' is not one "
		    "this server may use; allowed: %s", s->pool,
		    env->config->pools);
	if (handle_namespace(c, arguments, s->namespace, err) == -1 ||
	    check_labels("labels", json_get(arguments, "labels"), err) == -1 ||
	    check_labels("pod_labels", json_get(arguments, "pod_labels"),
	    err) == -1 || check_domains(env->config->pod_label_domains,
	    json_get(arguments, "pod_labels"), err) == -1 ||
	    check_env(json_get(arguments, "env"), err) == -1 ||
	    choose_name(s, arguments, err) == -1)
		return -1;
	return check_lifetime(env->config, s, arguments, err);
}

static enum step
send_request(struct call *c, const char *method, const char *path,
    const char *body, struct error *err)
{
	const struct env *env = c->env;
	struct create *s = c->data;

	s->op = k8s_send(env->k8s, method, path, body, 0, call_event, c);
	if (s->op != NULL)
		return STEP_WAIT;
	error_set(err, ERR_SYSTEM, "out of memory");
	return STEP_FAIL;
}

/* The claim that is to be made, checked, into s->body. */
static int
create_body(struct call *c, struct create *s, struct json arguments,
    struct error *err)
{
	const struct env *env = c->env;
	struct claim_new n = { .name = s->name, .pool = s->pool,
	    .label_key = env->config->session_label, .session = env->session,
	    .labels = json_get(arguments, "labels"),
	    .pod_labels = json_get(arguments, "pod_labels"),
	    .pod_annotations = json_get(arguments, "pod_annotations"),
	    .env = json_get(arguments, "env") };
	char now[40];

	if (check(c, s, arguments, err) == -1)
		return -1;
	if (claim_time(now, time(NULL)) == -1)
		return error_sys(err, "the time");
	n.requested = now;
	n.request = s->named ? s->request : NULL;
	n.shutdown = s->shutdown[0] != '\0' ? s->shutdown : NULL;
	buf_init(&s->body, LIMIT_STDIN);
	claim_write(&s->body, &n);
	return buf_ok(&s->body) ? 0 : error_set(err, ERR_LIMIT, "labels, "
	    "annotations and env are longer than %d bytes", LIMIT_STDIN);
}

static int
create_plan(struct call *c, struct json arguments, struct buf *path,
    struct buf *body, struct error *err)
{
	struct create s = { .state = CREATE_POST };
	int r = create_body(c, &s, arguments, err);

	if (r == 0) {
		claim_path(path, s.namespace, NULL);
		buf_put(body, s.body.data, s.body.len);
	}
	buf_free(&s.body);
	return r;
}

static enum step
create_start(struct call *c, struct json arguments, struct error *err)
{
	struct create *s = c->data;
	char path[512];

	if (create_body(c, s, arguments, err) == -1)
		return STEP_FAIL;
	s->ready_ms = tools_int(c->tool, arguments, "sandbox_ready_timeout") *
	    1000;
	call_deadline(c, (s->ready_ms > 0 ? s->ready_ms : 0) + 120 * 1000L);
	(void)snprintf(path, sizeof(path), "/apis/extensions.agents.x-k8s.io/"
	    "v1beta1/namespaces/%s/sandboxwarmpools/%s", s->namespace,
	    s->pool);
	s->state = CREATE_POOL;
	return send_request(c, "GET", path, NULL, err);
}

/* What the caller waits for is more than a moment when nothing is ready. */
static void
tell_pool(struct call *c, const struct event *ev)
{
	struct create *s = c->data;
	struct error ignored;
	struct json_doc *doc;
	long replicas = 1, ready = 0;

	if (ev->err != NULL ||
	    (doc = json_parse_lax(ev->data, ev->len, &ignored)) == NULL)
		return;
	(void)json_int(json_path(json_root(doc), "spec.replicas"), 0, 1 << 20,
	    &replicas);
	(void)json_int(json_path(json_root(doc), "status.readyReplicas"), 0,
	    1 << 20, &ready);
	json_free(doc);
	if (ready == 0)
		call_progress(c, "pool empty, %ld pending: starting a new pod "
		    "for claim %s", replicas, s->name);
	else
		call_progress(c, "creating claim %s", s->name);
}

/* The pool is there, or we may not look: make the claim. */
static enum step
post(struct call *c, const struct event *ev, struct error *err)
{
	struct create *s = c->data;
	struct buf path;
	enum step step;

	if (ev->err != NULL && ev->err->code == ERR_GONE) {
		error_set(err, ERR_GONE, "SandboxWarmPool requested does not "
		    "exist: '%s' in namespace '%s'. Ask for one that does, or "
		    "have it created", s->pool, s->namespace);
		return STEP_FAIL;
	}
	if (ev->err != NULL && ev->status != 403) {
		*err = *ev->err;
		return STEP_FAIL;
	}
	tell_pool(c, ev);
	buf_init(&path, 1024);
	claim_path(&path, s->namespace, NULL);
	s->state = CREATE_POST;
	s->until_ms = mono_ms() + (s->ready_ms > 0 ? s->ready_ms : 0);
	s->made = true;
	call_holds(c, "maybe sandbox claim %s/%s", s->namespace, s->name);
	step = send_request(c, "POST", path.data, s->body.data, err);
	s->made = step == STEP_WAIT;
	buf_free(&path);
	return step;
}

/* Follow this one claim from the version that the create answered. */
static enum step
watch(struct call *c, struct error *err)
{
	const struct env *env = c->env;
	struct create *s = c->data;
	struct buf path;

	buf_init(&path, 1024);
	claim_path(&path, s->namespace, NULL);
	buf_printf(&path, "?fieldSelector=metadata.name%%3D%s", s->name);
	s->state = CREATE_WATCH;
	s->watch = watch_open(env->k8s, path.data, s->version, call_event, c);
	buf_free(&path);
	if (s->watch == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return STEP_FAIL;
	}
	call_timer(c, 0);
	return STEP_WAIT;
}

/* The name is taken: whose is it? */
static enum step
ask_whose(struct call *c, struct error *err)
{
	struct create *s = c->data;
	struct buf path;
	enum step step;

	s->made = false;
	s->state = CREATE_ADOPT;
	buf_init(&path, 1024);
	claim_path(&path, s->namespace, s->name);
	step = send_request(c, "GET", path.data, NULL, err);
	buf_free(&path);
	return step;
}

static enum step
posted(struct call *c, const struct event *ev, struct error *err)
{
	const struct env *env = c->env;
	struct create *s = c->data;
	struct json_doc *doc;

	buf_free(&s->body);
	if (ev->err != NULL) {
		*err = *ev->err;
		/* Refused: nothing was made. Anything else: nobody knows. */
		s->made = (ev->status < 400 || ev->status > 499) &&
		    ev->err->code != ERR_TLS;
		if (s->named && ev->status == 409 &&
		    c->state == CALL_RUNNING &&
		    strcmp(ev->reason, "AlreadyExists") == 0)
			return ask_whose(c, err);
		return STEP_FAIL;
	}
	if ((doc = call_doc(ev, err, "answer to the claim")) == NULL)
		return STEP_FAIL;
	claim_read(&s->claim, json_root(doc), env->config->session_label);
	json_free(doc);
	if (s->claim.uid[0] == '\0' || strcmp(s->claim.name, s->name) != 0) {
		error_set(err, ERR_CLUSTER, "the API server's answer is not "
		    "the claim '%s' that was sent", s->name);
		return STEP_FAIL;
	}
	(void)snprintf(s->uid, sizeof(s->uid), "%s", s->claim.uid);
	(void)snprintf(s->version, sizeof(s->version), "%s",
	    s->claim.version);
	call_holds(c, "sandbox claim %s/%s", s->namespace, s->name);
	return watch(c, err);
}

static enum step
ready(struct call *c)
{
	struct create *s = c->data;
	struct jsonw w;

	s->done = true;
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "sandbox_claim_name", s->name);
	if (s->claim.shutdown[0] != '\0')
		jsonw_str(&w, "shutdown_time", s->claim.shutdown);
	else
		jsonw_null(&w, "shutdown_time");
	jsonw_end(&w);
	return STEP_DONE;
}

/* A claim of that name is there: ours and of that pool, or not for us. */
static enum step
adopt(struct call *c, const struct event *ev, struct error *err)
{
	const struct env *env = c->env;
	struct create *s = c->data;
	struct json_doc *doc;

	if ((doc = call_doc(ev, err, "claim '%s'", s->name)) == NULL)
		return STEP_FAIL;
	claim_read(&s->claim, json_root(doc), env->config->session_label);
	json_free(doc);
	if (!s->claim.marked || strcmp(s->claim.session, env->session) != 0)
		error_set(err, ERR_CONFLICT, "the name '%s' is taken by "
		    "somebody else in namespace '%s': choose another", s->name,
		    s->namespace);
	else if (strcmp(s->claim.pool, s->pool) != 0)
		error_set(err, ERR_CONFLICT, "your sandbox '%s' is of warm "
		    "pool '%s', not '%s': choose another name", s->name,
		    s->claim.pool, s->pool);
	else if (s->claim.deleting || s->claim.failed)
		claim_explain(&s->claim, err);
	else
		s->adopted = true;
	if (!s->adopted)
		return STEP_FAIL;
	(void)snprintf(s->uid, sizeof(s->uid), "%s", s->claim.uid);
	(void)snprintf(s->version, sizeof(s->version), "%s",
	    s->claim.version);
	if (s->claim.ready && s->claim.sandbox[0] != '\0')
		return ready(c);
	return watch(c, err);
}

static enum step
seen(struct call *c, const struct event *ev, struct error *err)
{
	const struct env *env = c->env;
	struct create *s = c->data;
	struct claim claim;

	claim_read(&claim, ev->object, env->config->session_label);
	/* Another object of that name is none of our business. */
	if (s->uid[0] != '\0' && strcmp(claim.uid, s->uid) != 0)
		return STEP_WAIT;
	s->claim = claim;
	if (strcmp(ev->verb, "DELETED") == 0 || claim.deleting) {
		s->made = s->made && strcmp(ev->verb, "DELETED") != 0;
		error_set(err, ERR_GONE, "SandboxClaim '%s' was deleted while "
		    "waiting for claim readiness", s->name);
		return STEP_FAIL;
	}
	if (claim.failed) {
		claim_explain(&claim, err);
		return STEP_FAIL;
	}
	if (claim.ready && claim.sandbox[0] != '\0')
		return ready(c);
	if (claim.message[0] != '\0')
		call_progress(c, "%s", claim.message);
	return STEP_WAIT;
}

/*
 * It is not ready yet. Look for what blocks it every now and then, so that
 * the answer is a reason within seconds instead of a time-out.
 */
static enum step
waiting(struct call *c, struct error *err)
{
	const struct env *env = c->env;
	struct create *s = c->data;
	long left = s->until_ms - mono_ms();

	if (left <= 0) {
		error_set(err, ERR_TIMEOUT, "Could not resolve claim readiness "
		    "from claim '%s' within %ld seconds.%s%s", s->name,
		    s->ready_ms / 1000, s->claim.message[0] != '\0' ?
		    " The cluster says: " : "", s->claim.message);
		return STEP_FAIL;
	}
	if (s->blocker == NULL)
		s->blocker = blocker_open(env, s->namespace);
	else if (blocker_look(s->blocker, s->claim.sandbox[0] != '\0' ?
	    s->claim.sandbox : s->name, &s->claim, call_event, c, err) == -1)
		return STEP_FAIL;
	call_timer(c, left < LOOK_MS ? left : LOOK_MS);
	return STEP_WAIT;
}

static enum step
waited(struct call *c, const struct event *ev, struct error *err)
{
	switch (ev->type) {
	case EVENT_OBJECT:
		return seen(c, ev, err);
	case EVENT_TIMER:
		return waiting(c, err);
	case EVENT_REPLY:	/* the blocker's: an error is the reason */
		if (ev->err == NULL) {
			if (ev->len > 0)
				call_progress(c, "%s", ev->data);
			return STEP_WAIT;
		}
		*err = *ev->err;
		return STEP_FAIL;
	case EVENT_END:
		((struct create *)c->data)->watch = NULL;
		*err = *ev->err;
		return STEP_FAIL;
	default:
		return STEP_WAIT;
	}
}

static enum step
remove_claim(struct call *c)
{
	struct create *s = c->data;
	struct buf path, body;
	struct error err;
	enum step step;

	s->state = CREATE_DELETE;
	buf_init(&path, 1024);
	buf_init(&body, 1024);
	claim_path(&path, s->namespace, s->name);
	claim_delete_body(&body, s->uid);
	step = send_request(c, "DELETE", path.data, body.data, &err);
	buf_free(&path);
	buf_free(&body);
	return step == STEP_WAIT ? STEP_WAIT : STEP_DONE;
}

/*
 * Ours by our session and its random name, or by what this call wrote into it:
 * delete it by its UID only.
 */
static enum step
found(struct call *c, const struct event *ev)
{
	const struct env *env = c->env;
	struct create *s = c->data;
	struct json_doc *doc = NULL;
	struct error err;

	if (ev->err == NULL)
		doc = json_parse_lax(ev->data, ev->len, &err);
	if (doc != NULL) {
		claim_read(&s->claim, json_root(doc),
		    env->config->session_label);
		json_free(doc);
		if (strcmp(s->claim.session, env->session) == 0 &&
		    (!s->named || strcmp(s->claim.request, s->request) == 0)) {
			(void)snprintf(s->uid, sizeof(s->uid), "%s",
			    s->claim.uid);
			return remove_claim(c);
		}
	} else if (ev->err == NULL || ev->err->code != ERR_GONE) {
		call_left(c, "maybe sandbox claim %s/%s", s->namespace,
		    s->name);
	}
	s->made = false;
	return STEP_DONE;
}

static enum step
removed(struct call *c, const struct event *ev)
{
	struct create *s = c->data;

	if (ev->err == NULL || ev->err->code == ERR_GONE ||
	    ev->err->code == ERR_CONFLICT) {
		s->made = false;
		return STEP_DONE;
	}
	if (++s->tries < LIMIT_RETRIES && ev->err->code != ERR_DENIED) {
		call_timer(c, 500L << s->tries);
		return STEP_WAIT;
	}
	call_left(c, "sandbox claim %s/%s", s->namespace, s->name);
	return STEP_DONE;
}

static enum step
find(struct call *c)
{
	struct create *s = c->data;
	struct buf path;
	struct error err;
	enum step step;

	s->state = CREATE_FIND;
	buf_init(&path, 1024);
	claim_path(&path, s->namespace, s->name);
	step = send_request(c, "GET", path.data, NULL, &err);
	buf_free(&path);
	return step == STEP_WAIT ? STEP_WAIT : STEP_DONE;
}

static enum step
stopping(struct call *c, const struct event *ev)
{
	struct create *s = c->data;
	struct error err;

	switch (s->state) {
	case CREATE_POST:
		/* The answer we did not hang up on. */
		if (ev->type != EVENT_REPLY)
			return STEP_WAIT;
		if (posted(c, ev, &err) == STEP_FAIL && !s->made)
			return STEP_DONE;
		watch_close(s->watch);
		s->watch = NULL;
		call_timer(c, -1);
		return s->uid[0] != '\0' ? remove_claim(c) : find(c);
	case CREATE_FIND:
		return found(c, ev);
	case CREATE_DELETE:
		if (ev->type == EVENT_TIMER)
			return remove_claim(c);
		return removed(c, ev);
	default:
		return STEP_DONE;
	}
}

static enum step
create_next(struct call *c, const struct event *ev, struct error *err)
{
	struct create *s = c->data;

	if (ev->type == EVENT_REPLY && s->state != CREATE_WATCH)
		s->op = NULL;
	if (c->state == CALL_STOPPING)
		return stopping(c, ev);
	switch (s->state) {
	case CREATE_POOL:
		return post(c, ev, err);
	case CREATE_POST:
		return posted(c, ev, err);
	case CREATE_ADOPT:
		return adopt(c, ev, err);
	default:
		return waited(c, ev, err);
	}
}

/*
 * Hanging up on a create leaves us not knowing whether there is a claim, and
 * a delete sent on another connection may get there first: wait for the
 * answer, then delete what it names.
 */
static enum step
create_stop(struct call *c)
{
	struct create *s = c->data;

	watch_close(s->watch);
	s->watch = NULL;
	blocker_close(s->blocker);
	s->blocker = NULL;
	call_timer(c, -1);
	if (s->done || !s->made)
		return STEP_DONE;
	if (s->state == CREATE_POST && s->op != NULL)
		return STEP_WAIT;
	return s->uid[0] != '\0' ? remove_claim(c) : find(c);
}

static void
create_release(struct call *c)
{
	struct create *s = c->data;

	k8s_cancel(s->op);
	watch_close(s->watch);
	blocker_close(s->blocker);
	buf_free(&s->body);
}

const struct tool tool_create_sandbox = {
	.name = "create_sandbox",
	.title = "Create sandbox",
	.help = "Take a sandbox from a warm pool and wait until it is ready.",
	.family = "agent-sandbox",
	.args = args,
	.out = out,
	.hints = HINT_OPEN_WORLD,
	.size = sizeof(struct create),
	.plan = create_plan,
	.start = create_start,
	.next = create_next,
	.stop = create_stop,
	.release = create_release,
};
