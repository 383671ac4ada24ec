/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list_jobs: the Jobs of this session, and what their pods say of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "buf.h"
#include "call.h"
#include "config.h"
#include "env.h"
#include "error.h"
#include "job-state.h"
#include "jsonw.h"
#include "k8s.h"
#include "tools-job.h"

enum { SHOWN = 100 };

struct one {
	struct job_object job;
	struct job_pod pod;
	bool has_pod;
};

struct list {
	bool pods;		/* which of the two is asked for */
	bool more;
	struct one *all;
	size_t n;
	struct k8s_op *op;
};

static const struct arg no_args[] = { { NULL } };

static const struct arg out[] = {
	{ "jobs", ARG_ARRAY, ARG_REQUIRED, .help = "Of each job_token, image, "
	    "created, message, status (starting, running, done, error)." },
	{ "truncated", ARG_BOOL, ARG_REQUIRED },
	{ NULL }
};

static enum step
ask(struct call *c, struct error *err)
{
	const struct env *env = c->env;
	struct list *l = c->data;
	struct buf path;

	buf_init(&path, 2048);
	buf_printf(&path, "%s/namespaces/", l->pods ? "/api/v1" :
	    "/apis/batch/v1");
	k8s_escape(&path, env->config->job.namespace);
	buf_printf(&path, "/%s?labelSelector=app%%3D" JOB_APP "%%2C",
	    l->pods ? "pods" : "jobs");
	k8s_escape(&path, env->config->session_label);
	buf_puts(&path, "%3D");
	k8s_escape(&path, env->session);
	buf_printf(&path, "&limit=%d", SHOWN);
	l->op = k8s_send(env->k8s, "GET", path.data, NULL, 0, call_event, c);
	buf_free(&path);
	if (l->op != NULL)
		return STEP_WAIT;
	error_set(err, ERR_SYSTEM, "out of memory");
	return STEP_FAIL;
}

static enum step
list_start(struct call *c, struct json args, struct error *err)
{
	struct list *l = c->data;

	(void)args;
	if ((l->all = calloc(SHOWN, sizeof(*l->all))) == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return STEP_FAIL;
	}
	return ask(c, err);
}

static void
pod_take(struct call *c, struct json pod)
{
	const struct env *env = c->env;
	struct list *l = c->data;
	struct json id = json_path(pod, "metadata.labels.run-id");

	for (size_t i = 0; i < l->n; i++)
		if (json_is(id, l->all[i].job.run_id)) {
			job_pod_read(&l->all[i].pod, pod, (long)time(NULL),
			    env->config->unschedulable_s);
			l->all[i].has_pod = true;
		}
}

static void
write_one(struct jsonw *w, const struct one *o)
{
	const struct job_pod *p = &o->pod;
	const char *status = !o->has_pod || p->name[0] == '\0' ? "starting" :
	    p->main_ended ? "done" : p->main_runs ? "running" : "starting";

	if (o->job.note[0] != '\0' || p->broken || (o->job.finished &&
	    !p->main_ended))
		status = "error";
	jsonw_object(w, NULL);
	jsonw_str(w, "job_token", o->job.token);
	jsonw_str(w, "status", status);
	jsonw_str(w, "image", o->job.image);
	jsonw_str(w, "created", o->job.created);
	jsonw_str(w, "message", p->message[0] != '\0' ? p->message :
	    o->job.message);
	jsonw_end(w);
}

static enum step
list_next(struct call *c, const struct event *ev, struct error *err)
{
	struct list *l = c->data;
	struct json_doc *doc;
	struct jsonw w;
	struct json m;

	l->op = NULL;
	if ((doc = call_doc(ev, err, "list of %s", l->pods ? "pods" :
	    "jobs")) == NULL)
		return STEP_FAIL;
	for (m = json_first(json_get(json_root(doc), "items"));
	    json_type(m) != JSON_NONE; m = json_next(m)) {
		if (l->pods)
			pod_take(c, m);
		else if (l->n < SHOWN)
			job_object_read(&l->all[l->n++].job, m);
	}
	l->more |= !l->pods && json_bytes(json_path(json_root(doc),
	    "metadata.continue")) > 0;
	json_free(doc);
	if (!l->pods) {
		l->pods = true;
		return ask(c, err);
	}
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_array(&w, "jobs");
	for (size_t i = 0; i < l->n; i++)
		if (!l->all[i].job.deleting)
			write_one(&w, &l->all[i]);
	jsonw_end(&w);
	jsonw_bool(&w, "truncated", l->more);
	jsonw_end(&w);
	return STEP_DONE;
}

static void
list_release(struct call *c)
{
	struct list *l = c->data;

	k8s_cancel(l->op);
	free(l->all);
}

const struct tool tool_list_jobs = {
	.name = "list_jobs",
	.title = "List jobs",
	.help = "The jobs of this session that run or whose results are kept.",
	.family = "jobs",
	.args = no_args,
	.out = out,
	.hints = HINT_READ_ONLY | HINT_IDEMPOTENT,
	.size = sizeof(struct list),
	.start = list_start,
	.next = list_next,
	.release = list_release,
};
