/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget.h"
#include "call.h"
#include "cargo.h"
#include "config.h"
#include "env.h"
#include "error.h"
#include "exec.h"
#include "jobflow-own.h"
#include "json.h"
#include "k8s.h"
#include "mono.h"
#include "watch.h"

/* The rest is for what is said of a result. */
enum { ROOM = LIMIT_REPLY - (1 << 20) };

const struct job_settings *
flow_settings(const struct call *c)
{
	const struct env *env = c->env;

	return &env->config->job;
}

enum step
flow_no_memory(struct error *err)
{
	error_set(err, ERR_SYSTEM, "out of memory");
	return STEP_FAIL;
}

void
flow_event(struct call *c, const struct event *ev, enum jobflow_from from)
{
	struct jobflow *f = c->data;

	f->from = from;
	call_event(c, ev);
}

static void
on_request(void *arg, const struct event *ev)
{
	flow_event(arg, ev, FROM_REQUEST);
}

void
flow_path(const struct call *c, struct buf *out, const char *kind,
    const char *name, const char *rest)
{
	buf_init(out, 4096);
	buf_printf(out, "%s/namespaces/", strcmp(kind, "jobs") == 0 ?
	    "/apis/batch/v1" : "/api/v1");
	k8s_escape(out, flow_settings(c)->namespace);
	buf_printf(out, "/%s", kind);
	if (name != NULL) {
		buf_puts(out, "/");
		k8s_escape(out, name);
	}
	buf_puts(out, rest);
}

enum step
flow_request(struct call *c, const char *method, const char *kind,
    const char *name, const char *rest, const char *body, struct error *err)
{
	const struct env *env = c->env;
	struct jobflow *f = c->data;
	struct buf path;

	flow_path(c, &path, kind, name, rest);
	f->request = k8s_send(env->k8s, method, path.data, body, 0,
	    on_request, c);
	buf_free(&path);
	return f->request == NULL ? flow_no_memory(err) : STEP_WAIT;
}

/* --- how it ends --------------------------------------------------------- */

/* There is a result, of whatever kind. */
enum step
flow_finished(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;

	f->done = true;
	exec_close(f->collect);
	f->collect = NULL;
	watch_close(f->watch);
	f->watch = NULL;
	call_timer(c, -1);
	return f->finish(c, err);
}

enum step
flow_not_yet(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;

	watch_close(f->watch);
	f->watch = NULL;
	call_timer(c, -1);
	return f->unfinished(c, err);
}

enum step
flow_failed(struct call *c, const char *reason, const char *message,
    struct error *err)
{
	struct jobflow *f = c->data;

	job_result_fail(&f->result, reason, message);
	return flow_finished(c, err);
}

enum step
flow_submitted(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;

	f->left = true;
	watch_close(f->watch);
	f->watch = NULL;
	call_timer(c, -1);
	return f->finish(c, err);
}

/* --- fetch and cancel ---------------------------------------------------- */

/* An end that we once wrote down. */
static bool
noted(struct jobflow *f)
{
	struct error err;
	struct json_doc *doc;
	char reason[24], message[400];

	if (f->object.note[0] == '\0')
		return false;
	doc = json_parse_lax(f->object.note, strlen(f->object.note), &err);
	if (doc == NULL)
		return false;
	if (!json_str(json_get(json_root(doc), "reason"), reason,
	    sizeof(reason)))
		reason[0] = '\0';
	if (!json_str(json_get(json_root(doc), "message"), message,
	    sizeof(message)))
		message[0] = '\0';
	json_free(doc);
	job_result_fail(&f->result, reason, message);
	return true;
}

static enum step
found(struct call *c, const struct event *ev, struct error *err)
{
	struct jobflow *f = c->data;
	struct json_doc *doc;

	if (ev->err != NULL && ev->err->code == ERR_GONE) {
		error_set(err, ERR_GONE, "unknown job_token %s: it never was "
		    "one, its result is no longer kept, or it was cancelled; "
		    "submit the job again", f->job.token);
		return STEP_FAIL;
	}
	if ((doc = call_doc(ev, err, "job %s", f->job.token)) == NULL)
		return STEP_FAIL;
	job_object_read(&f->object, json_root(doc));
	json_free(doc);
	(void)snprintf(f->uid, sizeof(f->uid), "%s", f->object.uid);
	f->injected = true;
	f->made = f->mode == FLOW_CANCEL;
	if (noted(f))
		return flow_finished(c, err);
	return flow_watch(c, err);
}

enum step
jobflow_find(struct call *c, struct json args, long wait_ms,
    struct error *err)
{
	struct jobflow *f = c->data;

	if (!json_str(json_get(args, "job_token"), f->job.token,
	    sizeof(f->job.token)) || !job_token_ok(f->job.token,
	    f->job.run_id)) {
		error_set(err, ERR_INPUT, "job_token: not one that submit_job "
		    "returned (job- and 32 hexadecimal digits)");
		return STEP_FAIL;
	}
	job_result_init(&f->result, f->path[0] != '\0' ? f->limit :
	    flow_settings(c)->out_max, ROOM);
	f->result.reading = f->path[0] != '\0';
	f->wait_until_ms = mono_ms() + wait_ms;
	f->stop = f->mode == FLOW_CANCEL;
	f->state = FLOW_FIND;
	call_deadline(c, wait_ms + 180 * 1000L);
	return flow_request(c, "GET", "jobs", f->job.token, "", NULL, err);
}

/* --- the call ------------------------------------------------------------ */

/* Long files, a few MiB a turn; nothing is made before all are good. */
static enum step
measure(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;

	switch (job_pack_measure(&f->job, err)) {
	case 0:
		return flow_count(c, err);
	case 1:
		f->state = FLOW_MEASURE;
		call_timer(c, 0);
		return STEP_WAIT;
	default:
		return STEP_FAIL;
	}
}

static int
job_body(const struct call *c, struct job *job, struct json args,
    struct buf *out, struct error *err)
{
	const struct env *env = c->env;
	const struct job_settings *s = flow_settings(c);
	const char *kind;

	job->spilled = c->spilled;
	if (job_check(job, s, args, &kind, err) == -1 ||
	    job_check_more(job, s, err) == -1 ||
	    job_new_token(job, err) == -1)
		return -1;
	job_write(out, job, s, env->config->session_label, env->session);
	return buf_ok(out) ? 0 : error_set(err, ERR_LIMIT, "invalid arguments: "
	    "command and env make a Job of more than 1 MiB: send what is long "
	    "as a file");
}

int
jobflow_plan(struct call *c, struct json args, struct buf *path,
    struct buf *out, struct error *err)
{
	struct job *job = calloc(1, sizeof(*job));
	int r = job == NULL ? error_sys(err, "a job") :
	    job_body(c, job, args, out, err);

	if (r == 0)
		flow_path(c, path, "jobs", NULL, "");
	if (job != NULL)
		job_free(job);
	free(job);
	return r;
}

enum step
jobflow_start(struct call *c, struct json args, struct error *err)
{
	const struct job_settings *s = flow_settings(c);
	struct jobflow *f = c->data;

	buf_init(&f->body, 1 << 20);
	if (job_body(c, &f->job, args, &f->body, err) == -1)
		return STEP_FAIL;
	f->job.command = f->job.env = (struct json){ NULL, -1 };
	job_result_init(&f->result, s->out_max, ROOM);
	f->queue_until_ms = mono_ms() + f->job.timeout_s * 1000;
	call_deadline(c, (2 * f->job.timeout_s + s->start_s + FLOW_COLLECT_S +
	    120) * 1000);
	return measure(c, err);
}

static enum step
timer(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;

	switch (f->state) {
	case FLOW_MEASURE:
		return measure(c, err);
	case FLOW_QUEUE:
		return flow_count(c, err);
	case FLOW_DELETE:
		return jobflow_delete(c);
	case FLOW_VERIFY:
		return flow_verify(c);
	case FLOW_WATCH:
		return flow_tick(c, err);
	default:
		return STEP_WAIT;
	}
}

static enum step
replied(struct call *c, const struct event *ev, struct error *err)
{
	struct jobflow *f = c->data;

	f->request = NULL;
	switch (f->state) {
	case FLOW_COUNT_PODS:
	case FLOW_COUNT_JOBS:
		return flow_counted(c, ev, err);
	case FLOW_POST:
		return flow_posted(c, ev, err);
	case FLOW_FIND:
		return found(c, ev, err);
	case FLOW_DELETE:
		return flow_deleted(c, ev);
	case FLOW_VERIFY:
		return flow_verified(c, ev, err);
	case FLOW_SHRINK:	/* older clusters can't, and rights may lack */
		return f->finish(c, err);
	case FLOW_END:		/* done what could be done */
		f->state = FLOW_FIND;
		f->object.note[0] = ' ';
		return f->finish(c, err);
	default:
		return STEP_WAIT;
	}
}

/* While stopping, only what deletes goes on. */
static enum step
stopping(struct call *c, const struct event *ev, struct error *err)
{
	struct jobflow *f = c->data;

	if (ev->type == EVENT_TIMER)
		return timer(c, err);
	if (f->from != FROM_REQUEST)
		return STEP_WAIT;
	if (f->state != FLOW_POST)
		return replied(c, ev, err);
	/* The answer that was not hung up on says whether there is a job. */
	f->request = NULL;
	if (ev->err != NULL && ev->status >= 400 && ev->status <= 499)
		return STEP_DONE;
	return jobflow_delete(c);
}

enum step
jobflow_next(struct call *c, const struct event *ev, struct error *err)
{
	struct jobflow *f = c->data;

	if (c->state == CALL_STOPPING)
		return stopping(c, ev, err);
	if (ev->type == EVENT_TIMER)
		return timer(c, err);
	switch (f->from) {
	case FROM_REQUEST:
		return replied(c, ev, err);
	case FROM_LOOK:
		return flow_looked(c, ev, err);
	case FROM_WATCH:
		return flow_seen(c, ev, err);
	case FROM_INJECT:
		return flow_injecting(c, ev, err);
	case FROM_COLLECT:
		return flow_collecting(c, ev, err);
	}
	return STEP_WAIT;
}

/* Close all but a request whose answer must be known. */
static void
close_all(struct jobflow *f)
{
	k8s_cancel(f->look);
	watch_close(f->watch);
	exec_close(f->inject);
	exec_close(f->collect);
	f->look = NULL;
	f->watch = NULL;
	f->inject = f->collect = NULL;
}

enum step
jobflow_stop(struct call *c)
{
	struct jobflow *f = c->data;

	close_all(f);
	call_timer(c, -1);
	if (f->left || !f->made)
		return STEP_DONE;
	if (f->state == FLOW_POST && f->request != NULL)
		return STEP_WAIT;
	k8s_cancel(f->request);
	f->request = NULL;
	f->tries = 0;
	return jobflow_delete(c);
}

void
jobflow_release(struct call *c)
{
	struct jobflow *f = c->data;

	close_all(f);
	k8s_cancel(f->request);
	buf_free(&f->body);
	buf_free(&f->shrink);
	cargo_close(f->agent);
	free(f->piece);
	job_free(&f->job);
	job_result_free(&f->result);
	free(f->over);
}
