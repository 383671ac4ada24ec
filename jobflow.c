/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "budget.h"
#include "call.h"
#include "claim.h"
#include "config.h"
#include "deliver.h"
#include "env.h"
#include "error.h"
#include "exec.h"
#include "jobflow.h"
#include "jsonw.h"
#include "k8s.h"
#include "mono.h"
#include "watch.h"

enum {
	PAGE = 150,			/* objects of a list at once */
	FIRST_MS = 250,
	EAGER_MS = 80,			/* between knocks at a container */
	LOOK_MS = 1000,			/* between looks at what is not there */
	QUEUE_MS = 400, QUEUE_JITTER = 800,
	SUBMIT_MS = 50 * 1000,		/* a client waits for its answer */
	VERIFY_MS = 150,
	DEAD_MS = 6000,
	PULL_MS = 4000,			/* a pull may fail once and then work */
	TRIES = 5,
	COLLECT_S = 90,			/* beyond the command's own time */
	ROOM = LIMIT_REPLY - LIMIT_REPLY / 8,
};

static const struct job_settings *
settings(const struct call *c)
{
	const struct env *env = c->env;

	return &env->config->job;
}

static enum step
no_memory(struct error *err)
{
	error_set(err, ERR_SYSTEM, "out of memory");
	return STEP_FAIL;
}

/* --- whose event it is --------------------------------------------------- */

#define FROM(name, what)						\
static void								\
name(void *arg, const struct event *ev)					\
{									\
	struct call *c = arg;						\
									\
	((struct jobflow *)c->data)->from = (what);			\
	call_event(c, ev);						\
}

FROM(on_request, FROM_REQUEST)
FROM(on_look, FROM_LOOK)
FROM(on_watch, FROM_WATCH)
FROM(on_inject, FROM_INJECT)
FROM(on_collect, FROM_COLLECT)

/* --- requests ------------------------------------------------------------ */

/* kind: "jobs", "pods" or "events"; name may be NULL, rest a query or "". */
static void
path_write(const struct call *c, struct buf *out, const char *kind,
    const char *name, const char *rest)
{
	buf_init(out, 4096);
	buf_printf(out, "%s/namespaces/", strcmp(kind, "jobs") == 0 ?
	    "/apis/batch/v1" : "/api/v1");
	k8s_escape(out, settings(c)->namespace);
	buf_printf(out, "/%s", kind);
	if (name != NULL) {
		buf_puts(out, "/");
		k8s_escape(out, name);
	}
	buf_puts(out, rest);
}

static enum step
request(struct call *c, const char *method, const char *kind,
    const char *name, const char *rest, const char *body, struct error *err)
{
	const struct env *env = c->env;
	struct jobflow *f = c->data;
	struct buf path;

	path_write(c, &path, kind, name, rest);
	f->request = k8s_send(env->k8s, method, path.data, body, 0,
	    on_request, c);
	buf_free(&path);
	return f->request == NULL ? no_memory(err) : STEP_WAIT;
}

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
	step = request(c, "GET", kind, NULL, rest.data, NULL, err);
	buf_free(&rest);
	return step;
}

/* --- how many there are -------------------------------------------------- */

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

static enum step
count(struct call *c, struct error *err)
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
	step = request(c, "POST", "jobs", NULL, "", f->body.data, err);
	f->made = step == STEP_WAIT;
	return step;
}

static enum step
queue(struct call *c)
{
	struct jobflow *f = c->data;
	unsigned char dice = 0;

	f->state = FLOW_QUEUE;
	call_progress(c, "waiting: %ld jobs are running, %ld may", f->live,
	    settings(c)->concurrent);
	if (getrandom(&dice, 1, 0) != 1)
		dice = 128;
	call_timer(c, QUEUE_MS + QUEUE_JITTER * dice / 256);
	return STEP_WAIT;
}

static enum step watch(struct call *c, struct error *err);

static enum step
too_many(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;

	if (f->mode == FLOW_RUN && mono_ms() < f->queue_until_ms) {
		/* Made, and one too many: ours goes, and comes back later. */
		return f->made ? jobflow_delete(c) : queue(c);
	}
	error_set(err, ERR_BUSY, "%ld jobs are running and no more than %ld "
	    "may run at once: try again when one of them has ended", f->live,
	    settings(c)->concurrent);
	return STEP_FAIL;
}

/*
 * Counted before the create, so that what can't run is not made; and after
 * it, when every job that was made earlier shows. Of two that come at once
 * both may step back, but never do both go on: the runner is not given to a
 * pod before the second count.
 */
static enum step
counted(struct call *c, const struct event *ev, struct error *err)
{
	struct jobflow *f = c->data;
	bool pods = f->state == FLOW_COUNT_PODS;
	struct json_doc *doc;
	int r = 0;

	if (ev->err != NULL) {
		*err = *ev->err;
		return STEP_FAIL;
	}
	if ((doc = json_parse_lax(ev->data, ev->len, err)) == NULL) {
		error_wrap(err, "list of %s", pods ? "pods" : "jobs");
		return STEP_FAIL;
	}
	if (pods)
		r = count_pods(f, json_get(json_root(doc), "items"));
	else
		count_jobs(f, json_get(json_root(doc), "items"));
	f->next[0] = '\0';
	(void)json_str(json_path(json_root(doc), "metadata.continue"),
	    f->next, sizeof(f->next));
	json_free(doc);
	if (r == -1)
		return no_memory(err);
	if (f->next[0] != '\0')
		return list(c, pods ? "pods" : "jobs", err);
	if (pods) {
		if (f->nover > 0)
			qsort(f->over, f->nover, sizeof(*f->over), compare);
		f->state = FLOW_COUNT_JOBS;
		return list(c, "jobs", err);
	}
	if (f->live >= settings(c)->concurrent)
		return too_many(c, err);
	return f->made ? watch(c, err) : post(c, err);
}

static enum step
posted(struct call *c, const struct event *ev, struct error *err)
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
	if ((doc = json_parse_lax(ev->data, ev->len, err)) == NULL) {
		error_wrap(err, "answer to the job");
		return STEP_FAIL;
	}
	job_object_read(&f->object, json_root(doc));
	json_free(doc);
	(void)snprintf(f->uid, sizeof(f->uid), "%s", f->object.uid);
	return count(c, err);
}

/* --- watching ------------------------------------------------------------ */

static enum step
watch(struct call *c, struct error *err)
{
	const struct env *env = c->env;
	struct jobflow *f = c->data;
	struct buf path;
	char rest[80];

	(void)snprintf(rest, sizeof(rest), "?labelSelector=run-id%%3D%s",
	    f->job.run_id);
	path_write(c, &path, "pods", NULL, rest);
	f->state = FLOW_WATCH;
	f->start_until_ms = mono_ms() + (f->mode == FLOW_SUBMIT &&
	    settings(c)->start_s * 1000 > SUBMIT_MS ? SUBMIT_MS :
	    settings(c)->start_s * 1000);
	f->watch = watch_open(env->k8s, path.data, NULL, on_watch, c);
	buf_free(&path);
	if (f->watch == NULL)
		return no_memory(err);
	call_timer(c, f->mode == FLOW_FETCH ? FIRST_MS : LOOK_MS);
	return STEP_WAIT;
}

/* There is a result, of whatever kind. */
static enum step
finished(struct call *c, struct error *err)
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

static enum step
not_yet(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;

	watch_close(f->watch);
	f->watch = NULL;
	call_timer(c, -1);
	return f->unfinished(c, err);
}

static enum step
failed(struct call *c, const char *reason, const char *message,
    struct error *err)
{
	struct jobflow *f = c->data;

	job_result_fail(&f->result, reason, message);
	return finished(c, err);
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
	path_write(c, &path, "pods", f->pod.name, rest);
	f->look = k8s_send(env->k8s, "GET", path.data, NULL, 10000, on_look,
	    c);
	buf_free(&path);
	return f->look == NULL ? no_memory(err) : STEP_WAIT;
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
	return failed(c, f->pod.reason, f->pod.message, err);
}

/* The pod is over, or will never be more than it is. */
static enum step
gave_up(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;

	if (f->look != NULL)
		return STEP_WAIT;
	if (f->pod.broken && f->pod.log_of != NULL && !f->pod_gone)
		return ask_log(c, err);
	return failed(c, f->pod.broken ? f->pod.reason : "deleted",
	    f->pod.broken ? f->pod.message : "its pod was deleted", err);
}

/* --- the runner goes in -------------------------------------------------- */

static void
feed(void *arg)
{
	struct call *c = arg;
	struct jobflow *f = c->data;
	const struct { const char *data; size_t len; } parts[] = {
		{ f->head, strlen(f->head) }, { f->agent, f->agent_len },
		{ f->job.pack.data, f->job.pack.len } };
	size_t before, n;

	for (size_t i = before = 0; i < 3; before += parts[i++].len)
		while (f->sent < before + parts[i].len) {
			n = exec_write(f->inject, parts[i].data +
			    (f->sent - before), before + parts[i].len -
			    f->sent);
			if (n == 0)
				return;
			f->sent += n;
		}
}

/*
 * $1: where to. As deliver.c does it: the container says its architecture, we
 * send the sizes, the agent for it, and the pack.
 */
static const char receiver[] =
	"set -e; cd \"$1\"; umask 022; uname -m; IFS=' ' read -r a n\n"
	"head -c \"$n\" >in.$$; [ \"$(wc -c <in.$$)\" -eq \"$n\" ]\n"
	"head -c \"$a\" in.$$ >agent.$$; chmod 755 agent.$$\n"
	"tail -c +$((a+1)) in.$$ >pack.$$; rm in.$$\n"
	"mv agent.$$ agent; mv pack.$$ pack; : >go\n";

static enum step
inject(struct call *c, struct error *err)
{
	static const char *const argv[] = { "sh", "-c", receiver,
	    "mcp-sandbox", JOB_DIR, NULL };
	const struct env *env = c->env;
	struct jobflow *f = c->data;
	struct exec_req req = { .namespace = settings(c)->namespace,
	    .pod = f->pod.name, .container = "inject", .argv = argv,
	    .input = true };

	f->sent = 0;
	f->head[0] = f->machine[0] = '\0';
	f->agent_len = 0;
	call_progress(c, "pod %s takes the files", f->pod.name);
	f->opened = false;
	f->inject = exec_open(env->k8s, &req, on_inject, c);
	return f->inject == NULL ? no_memory(err) : STEP_WAIT;
}

/* A line of uname -m, maybe in pieces. */
static enum step
machine(struct call *c, const struct event *ev, struct error *err)
{
	struct jobflow *f = c->data;
	size_t have = strlen(f->machine);
	char *end;

	if (f->head[0] != '\0' || ev->channel != 1)
		return STEP_WAIT;
	(void)snprintf(f->machine + have, sizeof(f->machine) - have, "%.*s",
	    ev->len > 39 ? 39 : (int)ev->len, ev->data);
	if ((end = strchr(f->machine, '\n')) == NULL)
		return STEP_WAIT;
	*end = '\0';
	f->agent = deliver_agent(c->env, f->machine, &f->agent_len);
	if (f->agent == NULL) {
		error_set(err, ERR_CONFIG, "this server carries no agent for "
		    "'%s': give one with --agent-file", f->machine);
		return STEP_FAIL;
	}
	(void)snprintf(f->head, sizeof(f->head), "%zu %zu\n", f->agent_len,
	    f->agent_len + f->job.pack.len);
	exec_on_room(f->inject, feed, c);
	feed(c);
	return STEP_WAIT;
}

static enum step submitted(struct call *c, struct error *err);

/*
 * The container ends when it has all, and may take this connection with it:
 * what counts is how the container ended, which the watch tells.
 */
static enum step
injecting(struct call *c, const struct event *ev, struct error *err)
{
	struct jobflow *f = c->data;

	f->opened |= ev->type == EVENT_OPEN;
	if (ev->type == EVENT_DATA)
		return machine(c, ev, err);
	if (ev->type != EVENT_END)
		return STEP_WAIT;
	f->inject = NULL;
	if (!f->opened && !f->pod.inject_runs) {
		/* It is not there yet. */
		call_timer(c, EAGER_MS);
		return STEP_WAIT;
	}
	if (ev->err == NULL && ev->code == 0) {
		f->injected = true;
		call_timer(c, EAGER_MS);
		return f->mode == FLOW_SUBMIT ? submitted(c, err) : STEP_WAIT;
	}
	if (f->injected || ++f->tries < TRIES)
		return STEP_WAIT;
	if (ev->err != NULL)
		*err = *ev->err;
	else
		error_set(err, ERR_CLUSTER, "its exit status was %ld",
		    ev->code);
	error_wrap(err, "run failed: inject files");
	return STEP_FAIL;
}

static enum step
submitted(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;

	f->left = true;
	watch_close(f->watch);
	f->watch = NULL;
	call_timer(c, -1);
	return f->finish(c, err);
}

/* --- the result comes out ------------------------------------------------ */

static enum step
ask_reader(struct call *c, const char *const *argv, struct error *err)
{
	const struct env *env = c->env;
	struct jobflow *f = c->data;
	struct exec_req req = { .namespace = settings(c)->namespace,
	    .pod = f->pod.name, .container = "reader", .argv = argv };

	job_result_reset(&f->result);
	f->said[0] = '\0';
	f->opened = false;
	f->collect = exec_open(env->k8s, &req, on_collect, c);
	return f->collect == NULL ? no_memory(err) : STEP_WAIT;
}

static enum step
collect(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;
	const struct job_settings *s = settings(c);
	char wait[24], out[24], files[24];
	const char *const argv[] = { JOB_DIR "/agent", "job", "collect",
	    "--dir", JOB_DIR, "--work", f->mode == FLOW_RUN ? f->job.workdir :
	    f->object.workdir, "--wait", wait, "--out", out, "--files", files,
	    f->stop ? "--stop" : NULL, NULL };
	long ms = f->mode == FLOW_RUN ? (f->job.timeout_s + COLLECT_S) * 1000 :
	    f->mode == FLOW_CANCEL ? 8000 : f->wait_until_ms - mono_ms();

	(void)snprintf(wait, sizeof(wait), "%ld", ms > 0 ? ms : 0);
	(void)snprintf(out, sizeof(out), "%ld", s->out_max);
	(void)snprintf(files, sizeof(files), "%ld", s->files_max);
	return ask_reader(c, argv, err);
}

/* A range of one file, or of an output. */
static enum step
range(struct call *c, struct error *err)
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

static enum step
judged(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;

	job_result_judge(&f->result, &f->pod, f->job.timeout_s);
	return finished(c, err);
}

/* Is it known why the runner was killed, or told to go? */
static bool
pod_said(const struct jobflow *f)
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
		return finished(c, err);
	if (strcmp(state, "dead") == 0 || strcmp(f->result.why,
	    "terminated") == 0) {
		/* The pod will say why, in a moment. */
		if (pod_said(f))
			return judged(c, err);
		f->dead_until_ms = mono_ms() + DEAD_MS;
		return STEP_WAIT;
	}
	if (strcmp(state, "ended") == 0)
		return judged(c, err);
	if (f->mode == FLOW_FETCH)
		return not_yet(c, err);
	if (strcmp(state, "starting") == 0 && f->mode == FLOW_RUN &&
	    mono_ms() < f->start_until_ms)
		return collect(c, err);
	/* It should have ended long ago. */
	if (!f->stop) {
		f->stop = true;
		return collect(c, err);
	}
	return failed(c, "connection_lost", "it did not end when it was told "
	    "to", err);
}

static enum step
collecting(struct call *c, const struct event *ev, struct error *err)
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
			return failed(c, "connection_lost", why.text, err);
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
		call_timer(c, EAGER_MS);
		return STEP_WAIT;
	}
	if (f->path[0] != '\0' && ev->err == NULL) {
		error_set(err, ERR_GONE, "job %s: %s", f->job.token, f->said);
		return STEP_FAIL;
	}
	if (f->pod.broken || f->pod_gone || f->pod.deleting)
		return gave_up(c, err);
	if (++f->tries >= TRIES)
		return failed(c, "connection_lost", ev->err != NULL ?
		    ev->err->text : "its result could not be read", err);
	call_timer(c, 200L << f->tries);
	return STEP_WAIT;
}

/* --- what the watch and the clock say ------------------------------------ */

/* What follows from the pod as it is now. */
static enum step
look_at_pod(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;
	const struct job_pod *p = &f->pod;

	if (f->look != NULL)
		return STEP_WAIT;
	if (f->dead_until_ms != 0)
		return pod_said(f) ? judged(c, err) : STEP_WAIT;
	if (f->collect != NULL && !(p->broken && !p->main_runs &&
	    !p->main_ended && strcmp(p->reason, "image_error") == 0))
		return STEP_WAIT;
	if (p->broken)
		return gave_up(c, err);
	if (p->inject_done && !f->injected) {
		f->injected = true;
		if (f->mode == FLOW_SUBMIT)
			return submitted(c, err);
	}
	if ((p->inject_runs || p->placed) && !f->injected &&
	    f->inject == NULL && (f->mode == FLOW_RUN ||
	    f->mode == FLOW_SUBMIT))
		return inject(c, err);
	if (f->mode == FLOW_RUN ? f->injected && f->inject == NULL &&
	    !p->over && !p->deleting : f->mode != FLOW_SUBMIT &&
	    p->reader_runs && (p->main_runs || p->main_ended))
		return f->path[0] != '\0' ? range(c, err) : collect(c, err);
	if (p->over || p->deleting)
		return failed(c, "deleted", p->over ? "its result is no longer "
		    "kept" : "its pod was deleted", err);
	if (p->message[0] != '\0')
		call_progress(c, "%s", p->message);
	else if (f->injected)
		call_progress(c, "starting the command");
	return f->mode == FLOW_FETCH && mono_ms() >= f->wait_until_ms ?
	    not_yet(c, err) : STEP_WAIT;
}

static enum step
seen(struct call *c, const struct event *ev, struct error *err)
{
	const struct env *env = c->env;
	struct jobflow *f = c->data;

	if (ev->type == EVENT_END) {
		f->watch = NULL;
		*err = *ev->err;
		return STEP_FAIL;
	}
	if (ev->type != EVENT_OBJECT)
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
			return judged(c, err);
		/* Its last words may be on their way. */
		if (f->collect != NULL)
			return STEP_WAIT;
		return gave_up(c, err);
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
	path_write(c, &path, "events", NULL, rest);
	f->look = k8s_send(env->k8s, "GET", path.data, NULL, 10000, on_look,
	    c);
	buf_free(&path);
	return f->look == NULL ? no_memory(err) : STEP_WAIT;
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
		    f->wait_until_ms ? not_yet(c, err) : STEP_WAIT;
	return failed(c, job_refusal(f->refused), f->refused, err);
}

static enum step
tick(struct call *c, struct error *err)
{
	const struct env *env = c->env;
	struct jobflow *f = c->data;
	long now = mono_ms();

	call_timer(c, LOOK_MS);
	if (f->dead_until_ms != 0)
		return now >= f->dead_until_ms ? judged(c, err) : STEP_WAIT;
	if (f->pull_ms != 0 && now - f->pull_ms >= PULL_MS)
		return failed(c, "image_error", f->pod.message, err);
	if (f->collect != NULL || f->look != NULL)
		return STEP_WAIT;
	if (!f->pod_seen) {
		if (f->object.finished)
			return failed(c, "deleted", f->object.message, err);
		return ask_events(c, err);
	}
	if (f->mode == FLOW_FETCH && f->wait_until_ms - now < LOOK_MS)
		call_timer(c, f->wait_until_ms - now);
	if (f->mode != FLOW_FETCH && now >= f->start_until_ms)
		return failed(c, strstr(f->pod.message, "nodes are available")
		    != NULL ? "unschedulable" : "image_error",
		    f->pod.message[0] != '\0' ? f->pod.message :
		    "its pod did not start in time", err);
	/* The clock alone makes a pod that no node takes a hopeless one. */
	if (!f->pod.inject_runs && !f->injected && f->pod.message[0] != '\0' &&
	    strstr(f->pod.message, "nodes are available") != NULL &&
	    now - (f->start_until_ms - settings(c)->start_s * 1000) >=
	    env->config->unschedulable_s * 1000 + LOOK_MS)
		return failed(c, "unschedulable", f->pod.message, err);
	return look_at_pod(c, err);
}

/*
 * What will never start holds its place in the cluster until somebody sees
 * it: the Job is told to end now, and why, for those who ask later.
 */
enum step
jobflow_end(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;
	struct buf note, body;
	struct jsonw w;
	enum step step;

	buf_init(&note, 1024);
	buf_init(&body, 4096);
	jsonw_init(&w, &note);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "reason", f->result.reason);
	jsonw_str(&w, "message", f->result.message);
	jsonw_end(&w);
	jsonw_init(&w, &body);
	jsonw_object(&w, NULL);
	jsonw_object(&w, "metadata");
	jsonw_object(&w, "annotations");
	jsonw_bytes(&w, JOB_NOTE "ended", note.data, note.len);
	jsonw_end(&w);
	jsonw_end(&w);
	jsonw_object(&w, "spec");
	jsonw_int(&w, "activeDeadlineSeconds", 1);
	jsonw_end(&w);
	jsonw_end(&w);
	f->state = FLOW_END;
	step = request(c, "PATCH", "jobs", f->job.token, "", body.data, err);
	buf_free(&note);
	buf_free(&body);
	return step;
}

enum step
jobflow_shrink(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;
	char name[300];
	enum step step;

	(void)snprintf(name, sizeof(name), "/%s/resize", f->pod.name);
	f->state = FLOW_SHRINK;
	step = request(c, "PATCH", "pods", NULL, name, f->shrink.data, err);
	buf_free(&f->shrink);
	return step;
}

/* --- deleting ------------------------------------------------------------ */

enum step
jobflow_delete(struct call *c)
{
	struct jobflow *f = c->data;
	struct error err;
	struct buf body;
	enum step step;

	f->state = FLOW_DELETE;
	call_timer(c, -1);
	buf_init(&body, 1024);
	claim_delete_body(&body, f->uid);
	step = request(c, "DELETE", "jobs", f->job.token, "", body.data, &err);
	buf_free(&body);
	return step == STEP_WAIT ? STEP_WAIT : STEP_DONE;
}

static enum step
verify(struct call *c)
{
	struct jobflow *f = c->data;
	struct error err;
	char rest[80];

	f->state = FLOW_VERIFY;
	(void)snprintf(rest, sizeof(rest), "?labelSelector=run-id%%3D%s",
	    f->job.run_id);
	return request(c, "GET", "pods", NULL, rest, NULL, &err) == STEP_WAIT ?
	    STEP_WAIT : STEP_DONE;
}

/* It is gone for good. Whoever is still running goes on. */
static enum step
gone(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;

	f->made = false;
	if (c->state == CALL_STOPPING)
		return STEP_DONE;
	if (f->done)
		return f->finish(c, err);
	f->uid[0] = '\0';
	return queue(c);
}

static enum step
deleted(struct call *c, const struct event *ev)
{
	struct jobflow *f = c->data;

	if (ev->err == NULL || ev->err->code == ERR_GONE ||
	    ev->err->code == ERR_CONFLICT)
		return verify(c);
	if (++f->tries < TRIES && ev->err->code != ERR_DENIED) {
		call_timer(c, 300L << f->tries);
		return STEP_WAIT;
	}
	call_left(c, "job %s/%s", settings(c)->namespace, f->job.token);
	return STEP_DONE;
}

static enum step
verified(struct call *c, const struct event *ev, struct error *err)
{
	struct error ignored;
	struct json_doc *doc;
	size_t n = 0;

	if (ev->err == NULL && (doc = json_parse_lax(ev->data, ev->len,
	    &ignored)) != NULL) {
		n = json_count(json_get(json_root(doc), "items"));
		json_free(doc);
	}
	if (n == 0)
		return gone(c, err);
	call_timer(c, VERIFY_MS);
	return STEP_WAIT;
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
	if (ev->err != NULL) {
		*err = *ev->err;
		return STEP_FAIL;
	}
	if ((doc = json_parse_lax(ev->data, ev->len, err)) == NULL) {
		error_wrap(err, "job %s", f->job.token);
		return STEP_FAIL;
	}
	job_object_read(&f->object, json_root(doc));
	json_free(doc);
	(void)snprintf(f->uid, sizeof(f->uid), "%s", f->object.uid);
	f->injected = true;
	f->made = f->mode == FLOW_CANCEL;
	if (noted(f))
		return finished(c, err);
	return watch(c, err);
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
	    settings(c)->out_max, ROOM);
	f->result.reading = f->path[0] != '\0';
	f->wait_until_ms = mono_ms() + wait_ms;
	f->stop = f->mode == FLOW_CANCEL;
	f->state = FLOW_FIND;
	call_deadline(c, wait_ms + 180 * 1000L);
	return request(c, "GET", "jobs", f->job.token, "", NULL, err);
}

/* --- the call ------------------------------------------------------------ */

enum step
jobflow_start(struct call *c, struct json args, struct error *err)
{
	const struct env *env = c->env;
	const struct job_settings *s = settings(c);
	struct jobflow *f = c->data;
	const char *kind;

	if (job_check(&f->job, s, args, &kind, err) == -1 ||
	    job_check_more(&f->job, s, err) == -1 ||
	    job_new_token(&f->job, err) == -1)
		return STEP_FAIL;
	buf_init(&f->body, 1 << 20);
	job_write(&f->body, &f->job, s, env->config->session_label,
	    env->session);
	if (!buf_ok(&f->body)) {
		error_set(err, ERR_LIMIT, "invalid arguments: command and env "
		    "make a Job of more than 1 MiB: send what is long as a "
		    "file");
		return STEP_FAIL;
	}
	f->job.command = f->job.env = (struct json){ NULL, -1 };
	job_result_init(&f->result, s->out_max, ROOM);
	f->queue_until_ms = mono_ms() + f->job.timeout_s * 1000;
	call_deadline(c, (2 * f->job.timeout_s + s->start_s + COLLECT_S +
	    120) * 1000);
	return count(c, err);
}

static enum step
timer(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;

	switch (f->state) {
	case FLOW_QUEUE:
		return count(c, err);
	case FLOW_DELETE:
		return jobflow_delete(c);
	case FLOW_VERIFY:
		return verify(c);
	case FLOW_WATCH:
		return tick(c, err);
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
		return counted(c, ev, err);
	case FLOW_POST:
		return posted(c, ev, err);
	case FLOW_FIND:
		return found(c, ev, err);
	case FLOW_DELETE:
		return deleted(c, ev);
	case FLOW_VERIFY:
		return verified(c, ev, err);
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
		f->look = NULL;
		return f->pod.broken ? log_came(c, ev, err) :
		    events_came(c, ev, err);
	case FROM_WATCH:
		return seen(c, ev, err);
	case FROM_INJECT:
		return injecting(c, ev, err);
	case FROM_COLLECT:
		return collecting(c, ev, err);
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
	job_free(&f->job);
	job_result_free(&f->result);
	free(f->over);
}
