/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "blocker.h"
#include "buf.h"
#include "config.h"
#include "deliver.h"
#include "env.h"
#include "error.h"
#include "k8s.h"
#include "loop.h"
#include "mono.h"
#include "podwait.h"
#include "web.h"

enum {
	LOOK_MS = 150,		/* between two looks at the pod; later ... */
	LOOK_LATER_MS = 500,
	LATER_MS = 5000,	/* ... than this */
	HEALTH_MS = 30,	/* until the agent is asked again, doubled ... */
	HEALTH_MAX_MS = 1000,	/* ... up to this */
	ANSWER_MS = 5000,	/* for its answer */
	OTHERS_MS = 2000,	/* whoever made the pod serves it by then */
	TRIES = 3,		/* to bring the agent in */
};

struct podwait {
	struct env *env;
	event_fn *fn;
	void *arg;
	char namespace[64], name[254], uid[64];
	bool ours, delivered, probing;
	unsigned tries;
	long begin_ms, until_ms, waiting_ms, health_ms;
	struct loop_timer *timer, *health_timer;
	struct k8s_op *get;
	struct web_op *health;
	struct deliver *deliver;
	struct agent *agent;
	struct pod pod;			/* as last seen */
	struct blocker_clock clock;
	struct error last;		/* why it is not there yet */
	bool ended;			/* in the last callback */
};

void
podwait_close(struct podwait *w)
{
	if (w == NULL || w->ended)
		return;
	loop_timer_del(w->timer);
	loop_timer_del(w->health_timer);
	k8s_cancel(w->get);
	web_cancel(w->health);
	deliver_close(w->deliver);
	agent_close(w->agent);
	free(w);
}

struct agent *
podwait_take(struct podwait *w, struct pod *pod)
{
	struct agent *a = w->agent;

	w->agent = NULL;
	*pod = w->pod;
	return a;
}

static void
finish(struct podwait *w, const struct error *why)
{
	struct event ev = { .type = EVENT_END };
	struct error err;

	if (why != NULL) {
		err = *why;
		ev.err = &err;
	}
	w->ended = true;
	w->fn(w->arg, &ev);
	w->ended = false;
	podwait_close(w);
}

static void
say(struct podwait *w, const char *text)
{
	struct event ev = { .type = EVENT_DATA, .data = text,
	    .len = strlen(text) };

	w->fn(w->arg, &ev);
}

static void look(void *arg);
static void ask(void *arg);

static void
again(struct podwait *w)
{
	w->timer = loop_timer_add(w->env->loop, mono_ms() - w->begin_ms >
	    LATER_MS ? LOOK_LATER_MS : LOOK_MS, look, w);
}

/* Any answer will do: 503 is how the original says its shell is to be started
 * anew, which the next command does. */
static void
on_health(void *arg, const struct event *ev)
{
	struct podwait *w = arg;

	if (ev->type != EVENT_REPLY)
		return;
	if (ev->err == NULL) {
		w->health = NULL;
		finish(w, NULL);
		return;
	}
	(void)agent_explain(w->agent, w->health, ev, &w->last);
	w->health = NULL;
	w->health_ms = w->health_ms == 0 ? HEALTH_MS : 2 * w->health_ms;
	if (w->health_ms > HEALTH_MAX_MS)
		w->health_ms = HEALTH_MAX_MS;
	w->health_timer = loop_timer_add(w->env->loop, w->health_ms, ask, w);
}

static void
ask(void *arg)
{
	struct podwait *w = arg;
	struct agent_req req = { .method = "GET", .path = "/health",
	    .first_byte_ms = ANSWER_MS, .max_body = 4096 };
	struct error err;

	w->health_timer = NULL;
	w->probing = true;
	if (w->agent == NULL)
		w->agent = agent_open(w->env, w->namespace, w->name,
		    w->pod.address, &err);
	if (w->agent != NULL)
		w->health = agent_send(w->agent, &req, on_health, w, &err);
	if (w->health == NULL)
		finish(w, &err);
}

/* Its end may be told badly: the container ends as soon as it has the file. */
static void
on_deliver(void *arg, const struct event *ev)
{
	struct podwait *w = arg;

	w->deliver = NULL;
	w->delivered = ev->err == NULL;
	if (ev->err == NULL)
		return;
	w->last = *ev->err;
	w->waiting_ms = 0;
	if (ev->err->code == ERR_CONFIG || ev->err->code == ERR_DENIED ||
	    ++w->tries >= TRIES)
		finish(w, ev->err);
}

static void
serve(struct podwait *w)
{
	long now = mono_ms();

	if (w->waiting_ms == 0)
		w->waiting_ms = now;
	if (w->deliver != NULL || w->delivered ||
	    (!w->ours && now - w->waiting_ms < OTHERS_MS))
		return;
	w->deliver = deliver_start(w->env, w->namespace, w->name, on_deliver,
	    w);
	if (w->deliver == NULL)
		finish(w, &(struct error){ ERR_SYSTEM, "out of memory" });
}

static void
seen(struct podwait *w, struct json object)
{
	const struct config *c = w->env->config;
	struct error err = { ERR_NONE, "" };
	char text[512];
	int r;

	pod_read(&w->pod, object, c->pod.domain);
	r = blocker_pod(object, &w->clock, mono_ms(), c->unschedulable_s *
	    1000, text, sizeof(text), &err);
	if (strcmp(w->pod.uid, w->uid) != 0 || w->pod.deleting) {
		error_set(&err, ERR_GONE, "pod '%s' was deleted", w->name);
		finish(w, &err);
	} else if (r == 1 || w->pod.ended) {
		if (r == 0)
			error_set(&err, ERR_GONE, "pod '%s' ended", w->name);
		else if (w->pod.ended)
			err.code = ERR_GONE;
		finish(w, &err);
	} else {
		if (text[0] != '\0' || !w->pod.begun)
			say(w, text[0] != '\0' ? text : "starting the pod");
		again(w);
		if (w->pod.waiting)
			serve(w);
		else if (w->pod.begun && !w->probing)
			ask(w);
	}
}

static void
on_pod(void *arg, const struct event *ev)
{
	struct podwait *w = arg;
	struct error err;
	struct json_doc *doc;

	w->get = NULL;
	if (ev->err != NULL) {
		finish(w, ev->err);
		return;
	}
	if ((doc = json_parse_lax(ev->data, ev->len, &err)) == NULL) {
		error_wrap(&err, "pod '%s'", w->name);
		finish(w, &err);
		return;
	}
	seen(w, json_root(doc));
	json_free(doc);
}

static void
look(void *arg)
{
	struct podwait *w = arg;
	struct error err;
	struct buf path;

	w->timer = NULL;
	if (mono_ms() > w->until_ms) {
		error_set(&err, ERR_TIMEOUT, "pod '%s' did not become ready "
		    "within %ld s%s%.400s", w->name, (w->until_ms -
		    w->begin_ms) / 1000, w->last.code != ERR_NONE ? ": " : "",
		    w->last.text);
		finish(w, &err);
		return;
	}
	buf_init(&path, 1024);
	manifest_path(&path, w->namespace, "pods", w->name);
	w->get = k8s_send(w->env->k8s, "GET", path.data, NULL, 0, on_pod, w);
	buf_free(&path);
	if (w->get == NULL)
		finish(w, &(struct error){ ERR_SYSTEM, "out of memory" });
}

struct podwait *
podwait_start(struct env *env, const struct podwait_req *req, event_fn *fn,
    void *arg)
{
	struct podwait *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return NULL;
	w->env = env;
	w->fn = fn;
	w->arg = arg;
	w->ours = req->ours;
	w->begin_ms = mono_ms();
	w->until_ms = w->begin_ms + req->timeout_ms;
	(void)snprintf(w->namespace, sizeof(w->namespace), "%s",
	    req->namespace);
	(void)snprintf(w->name, sizeof(w->name), "%s", req->name);
	(void)snprintf(w->uid, sizeof(w->uid), "%s", req->uid);
	w->timer = loop_timer_add(env->loop, 0, look, w);
	if (w->timer == NULL) {
		free(w);
		return NULL;
	}
	return w;
}
