/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "budget.h"
#include "call.h"
#include "env.h"
#include "error.h"
#include "exec.h"
#include "job-config.h"
#include "jobflow-own.h"
#include "mono.h"

enum {
	DEAD_MS = 6000,
	INLINE_MAX = LIMIT_REPLY / 4 * 3 - (2 << 20),	/* before base64 */
};

static void
on_collect(void *arg, const struct event *ev)
{
	flow_event(arg, ev, FROM_COLLECT);
}

static enum step
ask_reader(struct call *c, const char *const *argv, struct error *err)
{
	const struct env *env = c->env;
	struct jobflow *f = c->data;
	struct exec_req req = { .namespace = flow_settings(c)->namespace,
	    .pod = f->pod.name, .container = "reader", .argv = argv };

	job_result_reset(&f->result);
	f->said[0] = '\0';
	f->opened = false;
	f->collect = exec_open(env->k8s, &req, on_collect, c);
	return f->collect == NULL ? flow_no_memory(err) : STEP_WAIT;
}

enum step
flow_collect(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;
	const struct job_settings *s = flow_settings(c);
	char wait[24], out[24], files[24];
	const char *const argv[] = { JOB_DIR "/agent", "job", "collect",
	    "--dir", JOB_DIR, "--work", f->mode == FLOW_RUN ? f->job.workdir :
	    f->object.workdir, "--wait", wait, "--out", out, "--files", files,
	    f->stop ? "--stop" : NULL, NULL };
	long ms = f->mode == FLOW_RUN ?
	    (f->job.timeout_s + FLOW_COLLECT_S) * 1000 :
	    f->mode == FLOW_CANCEL ? 8000 : f->wait_until_ms - mono_ms();

	(void)snprintf(wait, sizeof(wait), "%ld", ms > 0 ? ms : 0);
	(void)snprintf(out, sizeof(out), "%ld", s->out_max);
	(void)snprintf(files, sizeof(files), "%ld", s->files_max < INLINE_MAX ?
	    s->files_max : INLINE_MAX);
	return ask_reader(c, argv, err);
}

enum step
flow_range(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;
	char offset[24], limit[24];
	const char *const argv[] = { JOB_DIR "/agent", "job", "read", "--dir",
	    JOB_DIR, "--work", f->object.workdir, "--offset", offset,
	    "--limit", limit, f->stream ? "--stream" : "--path", f->path,
	    NULL };

	(void)snprintf(offset, sizeof(offset), "%ld", f->offset);
	(void)snprintf(limit, sizeof(limit), "%ld", f->limit);
	return ask_reader(c, argv, err);
}

enum step
flow_judged(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;

	job_result_judge(&f->result, &f->pod, f->job.timeout_s);
	return flow_finished(c, err);
}

bool
flow_pod_said(const struct jobflow *f)
{
	return f->pod.broken || f->pod.over || f->pod.deleting ||
	    f->pod_gone || (f->pod.main_ended && strcmp(f->result.state,
	    "dead") == 0);
}

/* All that the runner had to say is here. */
static enum step
collected(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;
	const char *state = f->result.state;

	if (f->path[0] != '\0')
		return flow_finished(c, err);
	if (strcmp(state, "dead") == 0 || strcmp(f->result.why,
	    "terminated") == 0) {
		/* The pod will say why, in a moment. */
		if (flow_pod_said(f))
			return flow_judged(c, err);
		f->dead_until_ms = mono_ms() + DEAD_MS;
		return STEP_WAIT;
	}
	if (strcmp(state, "ended") == 0)
		return flow_judged(c, err);
	if (f->mode == FLOW_FETCH)
		return flow_not_yet(c, err);
	if (strcmp(state, "starting") == 0 && f->mode == FLOW_RUN &&
	    mono_ms() < f->start_until_ms)
		return flow_collect(c, err);
	/* It should have ended long ago. */
	if (!f->stop) {
		f->stop = true;
		return flow_collect(c, err);
	}
	return flow_failed(c, "connection_lost",
	    "it did not end when it was told to", err);
}

enum step
flow_collecting(struct call *c, const struct event *ev, struct error *err)
{
	struct jobflow *f = c->data;
	struct error why = { .code = ERR_NONE };

	f->opened |= ev->type == EVENT_OPEN;
	if (ev->type == EVENT_DATA && ev->channel == 2)
		(void)snprintf(f->said, sizeof(f->said), "%.*s",
		    ev->len > 199 ? 199 : (int)ev->len, ev->data);
	if (ev->type == EVENT_DATA && ev->channel == 1) {
		if (job_result_feed(&f->result, ev->data, ev->len, &why) ==
		    -1) {
			exec_close(f->collect);
			f->collect = NULL;
			return flow_failed(c, "connection_lost", why.text, err);
		}
		if (f->result.told)
			call_progress(c, "%s", f->result.line);
		f->result.told = false;
		return STEP_WAIT;
	}
	if (ev->type != EVENT_END)
		return STEP_WAIT;
	f->collect = NULL;
	if (job_result_whole(&f->result))
		return collected(c, err);
	if (!f->opened && !f->pod.reader_runs && !f->pod.over &&
	    !f->pod_gone) {
		call_timer(c, FLOW_EAGER_MS);
		return STEP_WAIT;
	}
	if (f->path[0] != '\0' && ev->err == NULL) {
		error_set(err, ERR_GONE, "job %s: %s", f->job.token, f->said);
		return STEP_FAIL;
	}
	if (f->pod.broken || f->pod_gone || f->pod.deleting)
		return flow_gave_up(c, err);
	if (++f->tries >= FLOW_TRIES)
		return flow_failed(c, "connection_lost", ev->err != NULL ?
		    ev->err->text : "its result could not be read", err);
	call_timer(c, 200L << f->tries);
	return STEP_WAIT;
}
