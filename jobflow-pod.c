/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "call.h"
#include "config.h"
#include "env.h"
#include "error.h"
#include "jobflow-own.h"
#include "json.h"
#include "k8s.h"
#include "mono.h"
#include "watch.h"

enum {
	FIRST_MS = 250,
	LOOK_MS = 1000,			/* between looks at what is not there */
	SUBMIT_MS = 50 * 1000,		/* a client waits for its answer */
	CANCEL_MS = 3000,	/* for a command that is about to begin */
	PULL_MS = 4000,			/* a pull may fail once and then work */
};

static void
on_look(void *arg, const struct event *ev)
{
	flow_event(arg, ev, FROM_LOOK);
}

static void
on_watch(void *arg, const struct event *ev)
{
	flow_event(arg, ev, FROM_WATCH);
}

/* How long a pod may take to start. */
static long
start_ms(const struct call *c)
{
	const struct jobflow *f = c->data;
	long most = f->mode == FLOW_CANCEL ? CANCEL_MS :
	    f->mode == FLOW_SUBMIT ? SUBMIT_MS : LONG_MAX;

	return flow_settings(c)->start_s * 1000 > most ? most :
	    flow_settings(c)->start_s * 1000;
}

enum step
flow_watch(struct call *c, struct error *err)
{
	const struct env *env = c->env;
	struct jobflow *f = c->data;
	struct buf path;
	char rest[80];

	(void)snprintf(rest, sizeof(rest), "?labelSelector=run-id%%3D%s",
	    f->job.run_id);
	flow_path(c, &path, "pods", NULL, rest);
	f->state = FLOW_WATCH;
	f->start_until_ms = mono_ms() + start_ms(c);
	f->watch = watch_open(env->k8s, path.data, NULL, on_watch, c);
	buf_free(&path);
	if (f->watch == NULL)
		return flow_no_memory(err);
	call_timer(c, f->mode == FLOW_FETCH ? FIRST_MS : LOOK_MS);
	return STEP_WAIT;
}

/* What a container said before it failed; its own words explain it best. */
static enum step
ask_log(struct call *c, struct error *err)
{
	const struct env *env = c->env;
	struct jobflow *f = c->data;
	struct buf path;
	char rest[80];

	(void)snprintf(rest, sizeof(rest), "/log?container=%s&tailLines=10"
	    "&limitBytes=4096", f->pod.log_of);
	flow_path(c, &path, "pods", f->pod.name, rest);
	f->look = k8s_send(env->k8s, "GET", path.data, NULL, 10000, on_look,
	    c);
	buf_free(&path);
	return f->look == NULL ? flow_no_memory(err) : STEP_WAIT;
}

static enum step
log_came(struct call *c, const struct event *ev, struct error *err)
{
	struct jobflow *f = c->data;
	struct error text;

	if (ev->err == NULL && ev->len > 0) {
		error_set(&text, ERR_CLUSTER, "%s: %.380s", f->pod.message,
		    ev->data);
		(void)snprintf(f->pod.message, sizeof(f->pod.message),
		    "%.399s", text.text);
	}
	return flow_failed(c, f->pod.reason, f->pod.message, err);
}

enum step
flow_gave_up(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;

	if (f->look != NULL)
		return STEP_WAIT;
	if (f->pod.broken && f->pod.log_of != NULL && !f->pod_gone)
		return ask_log(c, err);
	return flow_failed(c, f->pod.broken ? f->pod.reason : "deleted",
	    f->pod.broken ? f->pod.message : "its pod was deleted", err);
}

static enum step
not_begun(struct call *c, struct error *err)
{
	return flow_failed(c, "cancelled", "it was cancelled before its "
	    "command began", err);
}

/* What follows from the pod as it is now. */
static enum step
look_at_pod(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;
	const struct job_pod *p = &f->pod;

	if (f->look != NULL)
		return STEP_WAIT;
	if (f->dead_until_ms != 0)
		return flow_pod_said(f) ? flow_judged(c, err) : STEP_WAIT;
	if (f->collect != NULL && !(p->broken && !p->main_runs &&
	    !p->main_ended && strcmp(p->reason, "image_error") == 0))
		return STEP_WAIT;
	if (p->broken)
		return flow_gave_up(c, err);
	if (f->mode == FLOW_CANCEL && !p->placed)
		return not_begun(c, err);
	if (p->inject_done && !f->injected) {
		f->injected = true;
		if (f->mode == FLOW_SUBMIT)
			return flow_submitted(c, err);
	}
	if ((p->inject_runs || p->placed) && !f->injected &&
	    f->inject == NULL && (f->mode == FLOW_RUN ||
	    f->mode == FLOW_SUBMIT))
		return flow_inject(c, err);
	if (f->mode == FLOW_RUN ? f->injected && f->inject == NULL &&
	    !p->over && !p->deleting : f->mode != FLOW_SUBMIT &&
	    p->reader_runs && (p->main_runs || p->main_ended))
		return f->path[0] != '\0' ? flow_range(c, err) :
		    flow_collect(c, err);
	if (p->over || p->deleting)
		return flow_failed(c, "deleted", p->over ?
		    "its result is no longer kept" : "its pod was deleted",
		    err);
	if (p->message[0] != '\0')
		call_progress(c, "%s", p->message);
	else if (f->injected)
		call_progress(c, "starting the command");
	return f->mode == FLOW_FETCH && mono_ms() >= f->wait_until_ms ?
	    flow_not_yet(c, err) : STEP_WAIT;
}

bool
flow_owns(const struct jobflow *f, struct json pod)
{
	struct json m = json_first(json_path(pod, "metadata.ownerReferences"));

	while (json_type(m) != JSON_NONE && !json_is(json_get(m, "uid"),
	    f->uid))
		m = json_next(m);
	return json_type(m) != JSON_NONE;
}

enum step
flow_seen(struct call *c, const struct event *ev, struct error *err)
{
	const struct env *env = c->env;
	struct jobflow *f = c->data;

	if (ev->type == EVENT_END) {
		f->watch = NULL;
		*err = *ev->err;
		return STEP_FAIL;
	}
	if (ev->type != EVENT_OBJECT || !flow_owns(f, ev->object))
		return STEP_WAIT;
	f->pod_seen = true;
	if (f->mode == FLOW_FETCH) {
		buf_free(&f->shrink);
		buf_init(&f->shrink, 256 << 10);
		job_pod_shrink(&f->shrink, ev->object);
	}
	job_pod_read(&f->pod, ev->object, (long)time(NULL),
	    env->config->unschedulable_s);
	if (!f->pod.pull_failed)
		f->pull_ms = 0;
	else if (f->pull_ms == 0)
		f->pull_ms = mono_ms();
	if (strcmp(ev->verb, "DELETED") == 0) {
		f->pod_gone = true;
		if (f->dead_until_ms != 0)
			return flow_judged(c, err);
		/* Its last words may be on their way. */
		if (f->collect != NULL)
			return STEP_WAIT;
		return flow_gave_up(c, err);
	}
	return look_at_pod(c, err);
}

/* No pod is there: the controller may say why. */
static enum step
ask_events(struct call *c, struct error *err)
{
	const struct env *env = c->env;
	struct jobflow *f = c->data;
	struct buf path;
	char rest[200];

	(void)snprintf(rest, sizeof(rest), "?fieldSelector="
	    "involvedObject.uid%%3D%s%%2Creason%%3DFailedCreate&limit=5",
	    f->uid);
	flow_path(c, &path, "events", NULL, rest);
	f->look = k8s_send(env->k8s, "GET", path.data, NULL, 10000, on_look,
	    c);
	buf_free(&path);
	return f->look == NULL ? flow_no_memory(err) : STEP_WAIT;
}

static enum step
events_came(struct call *c, const struct event *ev, struct error *err)
{
	struct jobflow *f = c->data;
	struct error ignored;
	struct json_doc *doc = ev->err != NULL ? NULL :
	    json_parse_lax(ev->data, ev->len, &ignored);
	struct json m = json_first(json_get(json_root(doc), "items"));
	size_t at = 0, n;

	n = json_piece(json_get(m, "message"), &at, f->refused,
	    sizeof(f->refused) - 1);
	f->refused[n] = '\0';
	json_free(doc);
	if (f->pod_seen)
		return STEP_WAIT;
	if (n == 0)
		return f->mode == FLOW_FETCH && mono_ms() >=
		    f->wait_until_ms ? flow_not_yet(c, err) : STEP_WAIT;
	return flow_failed(c, job_refusal(f->refused), f->refused, err);
}

enum step
flow_tick(struct call *c, struct error *err)
{
	const struct env *env = c->env;
	struct jobflow *f = c->data;
	long now = mono_ms();

	call_timer(c, LOOK_MS);
	if (f->unread) {
		error_set(err, ERR_SYSTEM, "run failed: the files can't be "
		    "read any more");
		return STEP_FAIL;
	}
	if (f->dead_until_ms != 0)
		return now >= f->dead_until_ms ? flow_judged(c, err) :
		    STEP_WAIT;
	if (f->pull_ms != 0 && now - f->pull_ms >= PULL_MS)
		return flow_failed(c, "image_error", f->pod.message, err);
	if (f->collect != NULL || f->look != NULL)
		return STEP_WAIT;
	if (f->mode == FLOW_CANCEL && now >= f->start_until_ms &&
	    !f->pod.reader_runs)
		return not_begun(c, err);
	if (!f->pod_seen) {
		if (f->object.finished)
			return flow_failed(c, "deleted", f->object.message,
			    err);
		return ask_events(c, err);
	}
	if (f->mode == FLOW_FETCH && f->wait_until_ms - now < LOOK_MS)
		call_timer(c, f->wait_until_ms - now);
	if (f->mode != FLOW_FETCH && now >= f->start_until_ms)
		return flow_failed(c, strstr(f->pod.message,
		    "nodes are available") != NULL ? "unschedulable" :
		    "image_error",
		    f->pod.message[0] != '\0' ? f->pod.message :
		    "its pod did not start in time", err);
	/* The clock alone makes a pod that no node takes a hopeless one. */
	if (!f->pod.inject_runs && !f->injected && f->pod.message[0] != '\0' &&
	    strstr(f->pod.message, "nodes are available") != NULL &&
	    now - (f->start_until_ms - flow_settings(c)->start_s * 1000) >=
	    env->config->unschedulable_s * 1000 + LOOK_MS)
		return flow_failed(c, "unschedulable", f->pod.message, err);
	return look_at_pod(c, err);
}

enum step
flow_looked(struct call *c, const struct event *ev, struct error *err)
{
	struct jobflow *f = c->data;

	f->look = NULL;
	return f->pod.broken ? log_came(c, ev, err) : events_came(c, ev, err);
}
