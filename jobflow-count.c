/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "call.h"
#include "error.h"
#include "job-config.h"
#include "jobflow-own.h"
#include "json.h"
#include "k8s.h"
#include "mono.h"

enum {
	PAGE = 150,			/* objects of a list at once */
	QUEUE_MS = 400, QUEUE_JITTER = 800,
};

static enum step
list(struct call *c, const char *kind, struct error *err)
{
	struct jobflow *f = c->data;
	struct buf rest;
	enum step step;

	buf_init(&rest, 2048);
	buf_printf(&rest, "?labelSelector=app%%3D" JOB_APP "&limit=%d", PAGE);
	if (f->next[0] != '\0') {
		buf_puts(&rest, "&continue=");
		k8s_escape(&rest, f->next);
	}
	step = flow_request(c, "GET", kind, NULL, rest.data, NULL, err);
	buf_free(&rest);
	return step;
}

static int
over_add(struct jobflow *f, unsigned long long id)
{
	size_t cap = f->cover == 0 ? 64 : 2 * f->cover;
	unsigned long long *more;

	if (f->nover == f->cover) {
		if ((more = realloc(f->over, cap * sizeof(*more))) == NULL)
			return -1;
		f->over = more;
		f->cover = cap;
	}
	f->over[f->nover++] = id;
	return 0;
}

static int
compare(const void *a, const void *b)
{
	const unsigned long long *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static unsigned long long
id_of(struct json object)
{
	char id[JOB_RUN_ID] = "";

	(void)json_str(json_path(object, "metadata.labels.run-id"), id,
	    sizeof(id));
	return strtoull(id, NULL, 16);
}

/* A kept result does not count: its command has ended. */
static int
count_pods(struct jobflow *f, struct json items)
{
	struct job_pod pod;
	struct json m;

	for (m = json_first(items); json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		job_pod_read(&pod, m, 0, 0);
		if ((pod.main_ended || pod.over) && over_add(f, id_of(m)) ==
		    -1)
			return -1;
	}
	return 0;
}

static void
count_jobs(struct jobflow *f, struct json items)
{
	struct job_object job;
	unsigned long long id;
	struct json m;

	for (m = json_first(items); json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		job_object_read(&job, m);
		id = id_of(m);
		if (job.finished || job.deleting ||
		    strcmp(job.token, f->job.token) == 0 ||
		    (f->nover > 0 && bsearch(&id, f->over, f->nover,
		    sizeof(id), compare) != NULL))
			continue;
		f->live++;
	}
}

enum step
flow_count(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;

	f->nover = 0;
	f->live = 0;
	f->next[0] = '\0';
	f->state = FLOW_COUNT_PODS;
	return list(c, "pods", err);
}

static enum step
post(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;
	enum step step;

	call_progress(c, "creating job %s", f->job.token);
	f->state = FLOW_POST;
	f->made = true;
	step = flow_request(c, "POST", "jobs", NULL, "", f->body.data, err);
	f->made = step == STEP_WAIT;
	return step;
}

enum step
flow_queue(struct call *c)
{
	struct jobflow *f = c->data;
	unsigned char dice = 0;

	f->state = FLOW_QUEUE;
	call_progress(c, "waiting: %ld jobs are running, %ld may", f->live,
	    flow_settings(c)->concurrent);
	if (getrandom(&dice, 1, 0) != 1)
		dice = 128;
	call_timer(c, QUEUE_MS + QUEUE_JITTER * dice / 256);
	return STEP_WAIT;
}

static enum step
too_many(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;

	if (f->mode == FLOW_RUN && mono_ms() < f->queue_until_ms) {
		/* Made, and one too many: ours goes, and comes back later. */
		return f->made ? jobflow_delete(c) : flow_queue(c);
	}
	error_set(err, ERR_BUSY, "%ld jobs are running and no more than %ld "
	    "may run at once: try again when one of them has ended", f->live,
	    flow_settings(c)->concurrent);
	return STEP_FAIL;
}

/*
 * Counted before the create, so that what can't run is not made; and after
 * it, when every job that was made earlier shows. Of two that come at once
 * both may step back, but never do both go on: the runner is not given to a
 * pod before the second count.
 */
enum step
flow_counted(struct call *c, const struct event *ev, struct error *err)
{
	struct jobflow *f = c->data;
	bool pods = f->state == FLOW_COUNT_PODS;
	struct json_doc *doc;
	int r = 0;

	if ((doc = call_doc(ev, err, "list of %s", pods ? "pods" : "jobs")) ==
	    NULL)
		return STEP_FAIL;
	if (pods)
		r = count_pods(f, json_get(json_root(doc), "items"));
	else
		count_jobs(f, json_get(json_root(doc), "items"));
	f->next[0] = '\0';
	(void)json_str(json_path(json_root(doc), "metadata.continue"),
	    f->next, sizeof(f->next));
	json_free(doc);
	if (r == -1)
		return flow_no_memory(err);
	if (f->next[0] != '\0')
		return list(c, pods ? "pods" : "jobs", err);
	if (pods) {
		if (f->nover > 0)
			qsort(f->over, f->nover, sizeof(*f->over), compare);
		f->state = FLOW_COUNT_JOBS;
		return list(c, "jobs", err);
	}
	if (f->live >= flow_settings(c)->concurrent)
		return too_many(c, err);
	return f->made ? flow_watch(c, err) : post(c, err);
}

enum step
flow_posted(struct call *c, const struct event *ev, struct error *err)
{
	struct jobflow *f = c->data;
	struct json_doc *doc;

	if (ev->err != NULL) {
		*err = *ev->err;
		error_wrap(err, "run failed: create job %s", f->job.token);
		f->made = (ev->status < 400 || ev->status > 499) &&
		    ev->err->code != ERR_TLS;
		return STEP_FAIL;
	}
	if ((doc = call_doc(ev, err, "answer to the job")) == NULL)
		return STEP_FAIL;
	job_object_read(&f->object, json_root(doc));
	json_free(doc);
	(void)snprintf(f->uid, sizeof(f->uid), "%s", f->object.uid);
	return flow_count(c, err);
}
