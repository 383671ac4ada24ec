/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "base64.h"
#include "buf.h"
#include "budget.h"
#include "config.h"
#include "env.h"
#include "errand.h"
#include "error.h"
#include "jsonw.h"
#include "k8s.h"
#include "loop.h"
#include "mono.h"
#include "podwait.h"
#include "setup.h"
#include "web.h"

enum {
	FOLLOW_MS = 80,		/* between two looks for the winner's pod */
	LOCK_MS = 4000,		/* a Secret without a pod is left over then */
	OWNED_MS = 300,		/* the same when its pod has gone */
	ASSIGN_MS = 10000,
	WARM_MAX = 32,		/* warm pods that are tried */
	ROUNDS = 5,		/* pods that go while we look at them */
};

enum state {
	SETUP_LIST, SETUP_TOKEN, SETUP_LOCK, SETUP_LOOK, SETUP_FOLLOW,
	SETUP_UNLOCK, SETUP_POOL, SETUP_CLAIM, SETUP_ASSIGN, SETUP_CREATE,
	SETUP_WAIT, SETUP_CLEAN,
};

struct setup {
	struct env *env;
	event_fn *fn;
	void *arg;
	enum state state;
	char namespace[64], session[64];
	const char *key;
	size_t key_len;
	struct errands *errands;
	struct pod known;
	struct agent *known_agent;
	bool doubt;

	struct k8s_op *op;
	struct web_op *assign;
	struct podwait *wait;
	struct loop_timer *timer;

	struct pod pod;
	struct agent *agent;
	char token[TOKEN_SIZE];
	struct pod warm[WARM_MAX];
	size_t nwarm, iwarm;
	char secret[64];		/* uid of the Secret, ours or seen */
	long secret_ms;			/* when it was first seen */
	bool locked;			/* that Secret is ours */
	bool made;			/* that pod is ours */
	bool claimed;			/* it was a warm one */
	bool collided;			/* its name was taken */
	bool aborted, ended;
	unsigned rounds;
	struct error why;		/* SETUP_CLEAN: what is said then */
};

static void list(struct setup *s);
static void create(struct setup *s);
static void claim(struct setup *s);

/* --- the end ------------------------------------------------------------- */

void
setup_close(struct setup *s)
{
	if (s == NULL || s->ended)
		return;
	k8s_cancel(s->op);
	web_cancel(s->assign);
	podwait_close(s->wait);
	loop_timer_del(s->timer);
	agent_close(s->agent);
	explicit_bzero(s->token, sizeof(s->token));
	free(s);
}

void
setup_result(struct setup *s, struct setup_result *out)
{
	out->pod = s->pod;
	out->agent = s->agent;
	out->fresh = s->made;
	memcpy(out->token, s->token, sizeof(out->token));
	s->agent = NULL;
}

static void
finish(struct setup *s, const struct error *why)
{
	struct event ev = { .type = EVENT_END };
	struct error err;

	if (why != NULL) {
		err = *why;
		ev.err = &err;
	}
	s->ended = true;
	s->fn(s->arg, &ev);
	s->ended = false;
	setup_close(s);
}

static event_fn on_reply;

static void
send(struct setup *s, enum state state, const char *method, struct buf *path,
    struct buf *body)
{
	s->state = state;
	if (buf_ok(path) && (body == NULL || buf_ok(body)))
		s->op = k8s_send(s->env->k8s, method, path->data, body != NULL ?
		    body->data : NULL, 0, on_reply, s);
	buf_free(path);
	if (body != NULL)
		buf_wipe(body);
	if (s->op == NULL)
		finish(s, &(struct error){ ERR_SYSTEM, "out of memory" });
}

static void
remove_secret(struct setup *s, enum state state)
{
	struct buf path, body;
	char name[96];

	buf_init(&path, 1024);
	buf_init(&body, 1024);
	manifest_secret_name(name, s->session);
	manifest_path(&path, s->namespace, "secrets", name);
	manifest_delete(&body, s->secret, NULL, -1);
	send(s, state, "DELETE", &path, &body);
}

/* What we made goes again: the pod, then the Secret, then it is said why. */
static void
clean(struct setup *s)
{
	struct buf path, body;

	if (s->made) {
		s->made = false;
		buf_init(&path, 1024);
		buf_init(&body, 1024);
		manifest_path(&path, s->namespace, "pods", s->pod.name);
		manifest_delete(&body, s->pod.uid, NULL, 1);
		send(s, SETUP_CLEAN, "DELETE", &path, &body);
	} else if (s->locked) {
		s->locked = false;
		remove_secret(s, SETUP_CLEAN);
	} else {
		finish(s, &s->why);
	}
}

static void
cleaned(struct setup *s, const struct event *ev)
{
	if (ev->err != NULL && ev->err->code != ERR_GONE &&
	    ev->err->code != ERR_CONFLICT)
		error_set(&s->why, s->why.code, "%.400s; and left behind, "
		    "until its idle time is over: pod '%.100s' (%.200s)",
		    s->why.text, s->pod.name, ev->err->text);
	clean(s);
}

static void
fail(struct setup *s, const struct error *why)
{
	s->why = *why;
	clean(s);
}

static void
fail_memory(struct setup *s)
{
	fail(s, &(struct error){ ERR_SYSTEM, "out of memory" });
}

static void
say(struct setup *s, const char *text)
{
	struct event ev = { .type = EVENT_DATA, .data = text,
	    .len = strlen(text) };

	if (!s->aborted)
		s->fn(s->arg, &ev);
}

/* Its time is over, or it is tried again from the start. */
static void
restart(struct setup *s, const struct error *why)
{
	agent_close(s->agent);
	s->agent = NULL;
	s->doubt = false;
	if (++s->rounds > ROUNDS)
		fail(s, why);
	else
		list(s);
}

/* --- the Secret ---------------------------------------------------------- */

/* The Secret goes with the pod, and so does not outlive the session. */
static void
own_secret(struct setup *s)
{
	struct buf path, body;
	char name[96];

	manifest_secret_name(name, s->session);
	buf_init(&path, 1024);
	buf_init(&body, 1024);
	manifest_path(&path, s->namespace, "secrets", name);
	manifest_owner(&body, &s->pod);
	errand_send(s->errands, "PATCH", path.data, body.data);
	buf_free(&path);
	buf_free(&body);
}

static void
get_secret(struct setup *s, enum state state)
{
	struct buf path;
	char name[96];

	manifest_secret_name(name, s->session);
	buf_init(&path, 1024);
	manifest_path(&path, s->namespace, "secrets", name);
	send(s, state, "GET", &path, NULL);
}

static void
lock(struct setup *s)
{
	struct buf path, body;

	if (s->locked) {	/* ours already: its pod went */
		create(s);
		return;
	}
	if ((s->key != NULL ? token_of(s->key, s->key_len, s->session,
	    s->token) : token_random(s->token)) == -1) {
		fail_memory(s);
		return;
	}
	buf_init(&path, 1024);
	buf_init(&body, 4096);
	manifest_path(&path, s->namespace, "secrets", NULL);
	manifest_secret(&body, &s->env->config->pod, s->session, s->token);
	send(s, SETUP_LOCK, "POST", &path, &body);
}

static void
follow(void *arg)
{
	struct setup *s = arg;

	s->timer = NULL;
	list(s);
}

/* Somebody else's Secret, and no pod yet. */
static void
looked(struct setup *s, struct json secret)
{
	char uid[64] = "";
	long now = mono_ms();
	bool owned = json_count(json_path(secret, "metadata.ownerReferences")) >
	    0;

	(void)json_str(json_path(secret, "metadata.uid"), uid, sizeof(uid));
	if (strcmp(uid, s->secret) != 0) {
		(void)snprintf(s->secret, sizeof(s->secret), "%s", uid);
		s->secret_ms = now;
	}
	if (now - s->secret_ms >= (owned ? OWNED_MS : LOCK_MS)) {
		remove_secret(s, SETUP_UNLOCK);
		return;
	}
	say(s, "another server is making the session's pod");
	s->state = SETUP_FOLLOW;
	s->timer = loop_timer_add(s->env->loop, FOLLOW_MS, follow, s);
}

/* --- the pod that is there ----------------------------------------------- */

static void
on_wait(void *arg, const struct event *ev)
{
	struct setup *s = arg;
	struct error err;

	if (ev->type == EVENT_DATA) {
		if (!s->aborted)
			s->fn(s->arg, ev);
		return;
	}
	if (ev->type != EVENT_END)
		return;
	if (ev->err == NULL)
		s->agent = podwait_take(s->wait, &s->pod);
	s->wait = NULL;
	if (s->aborted) {
		clean(s);
	} else if (ev->err == NULL) {
		finish(s, NULL);
	} else if (ev->err->code == ERR_GONE && !s->made) {
		restart(s, ev->err);
	} else {
		err = *ev->err;
		error_wrap(&err, "wait for pod ready");
		/* Nobody has used what never began; it would be in the way. */
		if (err.code == ERR_CLUSTER && !s->made && !s->pod.begun)
			errand_delete(s->errands, s->namespace, &s->pod, 1);
		fail(s, &err);
	}
}

static void
wait_for(struct setup *s)
{
	struct podwait_req req = { .namespace = s->namespace,
	    .name = s->pod.name, .uid = s->pod.uid,
	    .ours = s->made && !s->claimed, .timeout_ms = LIMIT_POD_MS };

	s->state = SETUP_WAIT;
	s->wait = podwait_start(s->env, &req, on_wait, s);
	if (s->wait == NULL)
		fail_memory(s);
}

/* The pod is known, and so is the token: how does its agent do? */
static void
use(struct setup *s)
{
	struct error err;

	if (!s->pod.ready || s->doubt) {
		/* Its maker may have gone before it could. */
		if (!s->pod.ready)
			own_secret(s);
		wait_for(s);
		return;
	}
	s->agent = agent_open(s->env, s->namespace, s->pod.name,
	    s->pod.address, &err);
	if (s->agent == NULL)
		fail(s, &err);
	else
		finish(s, NULL);
}

static void
found(struct setup *s, const struct pod *pod)
{
	bool same = strcmp(pod->uid, s->known.uid) == 0;

	s->pod = *pod;
	if (s->locked) {	/* made by one whom we took for dead */
		s->locked = false;
		own_secret(s);
		use(s);
		return;
	}
	if (same && s->known_agent != NULL && s->token[0] != '\0' &&
	    !s->doubt) {
		finish(s, NULL);
		return;
	}
	if (s->key == NULL && (!same || s->token[0] == '\0')) {
		get_secret(s, SETUP_TOKEN);
		return;
	}
	if (s->key != NULL && token_of(s->key, s->key_len, s->session,
	    s->token) == -1)
		fail_memory(s);
	else
		use(s);
}

static void
got_token(struct setup *s, const struct event *ev, struct json secret)
{
	struct base64 b = { .n = 0 };
	struct buf raw, text;
	struct error err = { ERR_NONE, "" };

	if (ev->err != NULL && ev->err->code == ERR_GONE) {
		/* Nobody can speak to this pod any more. */
		errand_delete(s->errands, s->namespace, &s->pod, 1);
		restart(s, ev->err);
		return;
	}
	if (ev->err != NULL) {
		fail(s, ev->err);
		return;
	}
	buf_init(&text, 1024);
	buf_init(&raw, sizeof(s->token) - 1);
	if (!json_text(json_path(secret, "data.token"), &text) ||
	    base64_decode(&b, text.data, text.len, &raw, &err) == -1 ||
	    base64_decode_end(&b, &err) == -1 || !buf_ok(&raw) ||
	    raw.len == 0 || strlen(raw.data) != raw.len)
		error_set(&err, ERR_CLUSTER, "the session's Secret holds no "
		    "token of ours");
	else
		(void)snprintf(s->token, sizeof(s->token), "%s", raw.data);
	buf_wipe(&text);
	buf_wipe(&raw);
	if (err.code != ERR_NONE) {
		fail(s, &err);
		return;
	}
	if (s->pod.ready && json_count(json_path(secret,
	    "metadata.ownerReferences")) == 0)
		own_secret(s);
	use(s);
}

static void
list(struct setup *s)
{
	struct buf path;

	buf_init(&path, 2048);
	manifest_list(&path, s->namespace, "pods", s->env->config->pod.domain,
	    s->session);
	send(s, SETUP_LIST, "GET", &path, NULL);
}

/* The best of the session's pods; those that are over go now. */
static void
listed(struct setup *s, struct json items)
{
	const char *domain = s->env->config->pod.domain;
	struct pod pod, best = { .name = "" };

	for (struct json m = json_first(items); json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		pod_read(&pod, m, domain);
		if (pod.deleting)
			continue;
		if (pod.ended)
			errand_delete(s->errands, s->namespace, &pod, 0);
		else if (best.name[0] == '\0' || pod_order(&pod, &best) < 0)
			best = pod;
	}
	if (best.name[0] != '\0')
		found(s, &best);
	else
		lock(s);
}

/* --- a warm pod ---------------------------------------------------------- */

static void
pool(struct setup *s)
{
	struct buf path;

	buf_init(&path, 2048);
	manifest_list(&path, s->namespace, "pods", s->env->config->pod.domain,
	    "");
	send(s, SETUP_POOL, "GET", &path, NULL);
}

static void
pooled(struct setup *s, struct json items)
{
	struct pod pod;

	s->nwarm = s->iwarm = 0;
	for (struct json m = json_first(items); json_type(m) != JSON_NONE &&
	    s->nwarm < WARM_MAX; m = json_next(m)) {
		pod_read(&pod, m, s->env->config->pod.domain);
		if (!pod.deleting && !pod.ended)
			s->warm[s->nwarm++] = pod;
	}
	qsort(s->warm, s->nwarm, sizeof(s->warm[0]), pod_order);
	claim(s);
}

/* The next one, if it is still nobody's. */
static void
claim(struct setup *s)
{
	struct buf path, body;
	char now[40];

	if (s->iwarm >= s->nwarm) {
		create(s);
		return;
	}
	s->pod = s->warm[s->iwarm++];
	manifest_now(now);
	buf_init(&path, 1024);
	buf_init(&body, 2048);
	manifest_path(&path, s->namespace, "pods", s->pod.name);
	manifest_claim(&body, s->env->config->pod.domain, s->session,
	    s->pod.version, now);
	send(s, SETUP_CLAIM, "PATCH", &path, &body);
}

/* An agent that was not told whose it is, or was told another, is no use. */
static void
poisoned(struct setup *s)
{
	errand_delete(s->errands, s->namespace, &s->pod, 1);
	agent_close(s->agent);
	s->agent = NULL;
	s->made = s->claimed = false;
	if (s->aborted)
		clean(s);
	else
		claim(s);
}

static void
on_assign(void *arg, const struct event *ev)
{
	struct setup *s = arg;

	if (ev->type != EVENT_REPLY)
		return;
	s->assign = NULL;
	if (ev->err != NULL || ev->status != 200) {
		poisoned(s);
		return;
	}
	if (s->aborted) {
		clean(s);
		return;
	}
	own_secret(s);
	errand_warm(s->errands, s->namespace);
	finish(s, NULL);
}

static void
assign(struct setup *s)
{
	struct agent_req req = { .method = "POST", .path = "/assign",
	    .first_byte_ms = ASSIGN_MS, .max_body = 4096 };
	struct error err;
	struct jsonw w;
	struct buf body;

	s->state = SETUP_ASSIGN;
	buf_init(&body, 1024);
	jsonw_init(&w, &body);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "token", s->token);
	jsonw_end(&w);
	req.body = body.data;
	req.body_len = body.len;
	if (buf_ok(&body))
		s->assign = agent_send(s->agent, &req, on_assign, s, &err);
	buf_wipe(&body);
	if (s->assign == NULL)
		fail_memory(s);
}

static void
on_claimed_wait(void *arg, const struct event *ev)
{
	struct setup *s = arg;

	if (ev->type != EVENT_END) {
		if (ev->type == EVENT_DATA && !s->aborted)
			s->fn(s->arg, ev);
		return;
	}
	if (ev->err == NULL)
		s->agent = podwait_take(s->wait, &s->pod);
	s->wait = NULL;
	if (s->aborted)
		clean(s);
	else if (ev->err == NULL)
		assign(s);
	else
		poisoned(s);
}

static void
claimed(struct setup *s, const struct event *ev, struct json object)
{
	struct podwait_req req = { .namespace = s->namespace,
	    .timeout_ms = LIMIT_POD_MS };
	struct error err;

	if (ev->err != NULL) {
		claim(s);	/* another's now, or gone */
		return;
	}
	pod_read(&s->pod, object, s->env->config->pod.domain);
	s->made = s->claimed = true;
	if (s->aborted) {
		clean(s);
		return;
	}
	if (s->pod.ready) {
		s->agent = agent_open(s->env, s->namespace, s->pod.name,
		    s->pod.address, &err);
		if (s->agent == NULL)
			fail(s, &err);
		else
			assign(s);
		return;
	}
	req.name = s->pod.name;
	req.uid = s->pod.uid;
	s->state = SETUP_WAIT;
	s->wait = podwait_start(s->env, &req, on_claimed_wait, s);
	if (s->wait == NULL)
		fail_memory(s);
}

/* --- a new pod ----------------------------------------------------------- */

static void
create(struct setup *s)
{
	struct buf path, body;
	char now[40], hex[9];

	s->pod = (struct pod){ .name = "" };
	if (token_hex(hex, 4) == -1) {
		fail_memory(s);
		return;
	}
	(void)snprintf(s->pod.name, sizeof(s->pod.name), "cli-mcp-sandbox-%s",
	    s->collided ? hex : s->session);
	say(s, "creating the session's pod");
	manifest_now(now);
	buf_init(&path, 1024);
	buf_init(&body, LIMIT_MANIFEST);
	manifest_path(&path, s->namespace, "pods", NULL);
	manifest_pod(&body, &s->env->config->pod, s->pod.name, s->session,
	    now);
	send(s, SETUP_CREATE, "POST", &path, &body);
}

static void
created(struct setup *s, const struct event *ev, struct json object)
{
	struct error err;

	if (ev->err == NULL) {
		pod_read(&s->pod, object, s->env->config->pod.domain);
		s->made = true;
		if (s->aborted) {
			clean(s);
			return;
		}
		own_secret(s);
		wait_for(s);
		return;
	}
	err = *ev->err;
	error_wrap(&err, "create sandbox pod");
	/* Is it one that is about to go, or did our answer get lost? */
	if (strcmp(ev->reason, "AlreadyExists") == 0)
		s->collided = true;
	else if (err.code != ERR_LOST && err.code != ERR_TIMEOUT) {
		fail(s, &err);
		return;
	}
	if (s->aborted)
		fail(s, &s->why);
	else
		restart(s, &err);
}

/* --- events -------------------------------------------------------------- */

static void
locked(struct setup *s, const struct event *ev, struct json object)
{
	if (ev->err == NULL) {
		(void)json_str(json_path(object, "metadata.uid"), s->secret,
		    sizeof(s->secret));
		s->locked = true;
		if (s->aborted)
			clean(s);
		else if (s->env->config->pod.pool_size > 0)
			pool(s);
		else
			create(s);
		return;
	}
	if (s->aborted)
		finish(s, &s->why);
	else if (ev->err->code == ERR_CONFLICT)
		get_secret(s, SETUP_LOOK);
	else
		fail(s, ev->err);
}

static void
replied(struct setup *s, const struct event *ev, struct json object)
{
	switch (s->state) {
	case SETUP_LIST:
		listed(s, json_get(object, "items"));
		break;
	case SETUP_TOKEN:
		got_token(s, ev, object);
		break;
	case SETUP_LOCK:
		locked(s, ev, object);
		break;
	case SETUP_LOOK:
		if (ev->err == NULL)
			looked(s, object);
		else
			list(s);	/* gone meanwhile */
		break;
	case SETUP_UNLOCK:
		list(s);
		break;
	case SETUP_POOL:
		pooled(s, json_get(object, "items"));
		break;
	case SETUP_CLAIM:
		claimed(s, ev, object);
		break;
	case SETUP_CREATE:
		created(s, ev, object);
		break;
	default:
		cleaned(s, ev);
		break;
	}
}

/* Replies that are a failure where they stand. */
static bool
fatal(const struct setup *s, const struct event *ev)
{
	if (ev->err == NULL)
		return false;
	return s->state == SETUP_LIST || s->state == SETUP_POOL ||
	    (s->state == SETUP_LOOK && ev->err->code != ERR_GONE) ||
	    (s->state == SETUP_UNLOCK && ev->err->code != ERR_GONE &&
	    ev->err->code != ERR_CONFLICT);
}

static void
on_reply(void *arg, const struct event *ev)
{
	struct setup *s = arg;
	struct json_doc *doc = NULL;
	struct error err;

	s->op = NULL;
	if (fatal(s, ev)) {
		fail(s, ev->err);
		return;
	}
	if (ev->err == NULL && (doc = json_parse_lax(ev->data, ev->len,
	    &err)) == NULL) {
		error_wrap(&err, "the API server's answer");
		fail(s, &err);
		return;
	}
	replied(s, ev, json_root(doc));
	json_free(doc);
}

static void
abort_due(void *arg)
{
	struct setup *s = arg;

	s->timer = NULL;
	clean(s);
}

void
setup_abort(struct setup *s)
{
	if (s->aborted)
		return;
	s->aborted = true;
	error_set(&s->why, ERR_CANCELLED, "cancelled");
	/* What is being made is waited for: it can be removed only then. */
	if ((s->op != NULL && (s->state == SETUP_LOCK ||
	    s->state == SETUP_CLAIM || s->state == SETUP_CREATE ||
	    s->state == SETUP_CLEAN)) || s->assign != NULL)
		return;
	k8s_cancel(s->op);
	s->op = NULL;
	podwait_close(s->wait);
	s->wait = NULL;
	loop_timer_del(s->timer);
	s->timer = loop_timer_add(s->env->loop, 0, abort_due, s);
}

struct setup *
setup_start(struct env *env, const struct setup_req *req, event_fn *fn,
    void *arg)
{
	struct setup *s = calloc(1, sizeof(*s));
	struct buf path;

	if (s == NULL)
		return NULL;
	s->env = env;
	s->fn = fn;
	s->arg = arg;
	s->key = req->key;
	s->key_len = req->key_len;
	s->errands = req->errands;
	s->known_agent = req->agent;
	s->doubt = req->doubt;
	if (req->pod != NULL)
		s->known = *req->pod;
	(void)snprintf(s->namespace, sizeof(s->namespace), "%s",
	    req->namespace);
	(void)snprintf(s->session, sizeof(s->session), "%s", req->session);
	(void)snprintf(s->token, sizeof(s->token), "%s", req->token);
	buf_init(&path, 2048);
	manifest_list(&path, s->namespace, "pods", env->config->pod.domain,
	    s->session);
	s->op = k8s_send(env->k8s, "GET", path.data, NULL, 0, on_reply, s);
	buf_free(&path);
	if (s->op != NULL)
		return s;
	free(s);
	return NULL;
}
