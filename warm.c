/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "agent.h"
#include "buf.h"
#include "budget.h"
#include "config.h"
#include "env.h"
#include "error.h"
#include "k8s.h"
#include "podwait.h"
#include "token.h"
#include "warm.h"

struct warm {
	struct env *env;
	event_fn *fn;
	void *arg;
	char namespace[64];
	struct pod pod;
	struct k8s_op *op;
	struct podwait *wait;
	struct error why;
};

void
warm_close(struct warm *w)
{
	if (w == NULL)
		return;
	k8s_cancel(w->op);
	podwait_close(w->wait);
	free(w);
}

const char *
warm_name(const struct warm *w)
{
	return w->pod.name;
}

static void
finish(struct warm *w)
{
	struct event ev = { .type = EVENT_END };
	struct error err = w->why;
	event_fn *fn = w->fn;
	void *arg = w->arg;

	if (err.code != ERR_NONE)
		ev.err = &err;
	fn(arg, &ev);
	warm_close(w);
}

static void
on_removed(void *arg, const struct event *ev)
{
	struct warm *w = arg;

	(void)ev;
	w->op = NULL;
	finish(w);
}

static void
give_up(struct warm *w, const struct error *why)
{
	struct buf path, body;

	w->why = *why;
	buf_init(&path, 1024);
	buf_init(&body, 1024);
	manifest_path(&path, w->namespace, "pods", w->pod.name);
	manifest_delete(&body, w->pod.uid, NULL, 1);
	w->op = k8s_send(w->env->k8s, "DELETE", path.data, body.data, 0,
	    on_removed, w);
	buf_free(&path);
	buf_free(&body);
	if (w->op == NULL)
		finish(w);
}

static void
on_wait(void *arg, const struct event *ev)
{
	struct warm *w = arg;
	struct pod pod;

	if (ev->type != EVENT_END)
		return;
	if (ev->err == NULL)
		agent_close(podwait_take(w->wait, &pod));
	w->wait = NULL;
	if (ev->err == NULL || ev->err->code == ERR_GONE) {
		finish(w);
		return;
	}
	give_up(w, ev->err);
}

static int
wait_for(struct warm *w, bool ours)
{
	struct podwait_req req = { .namespace = w->namespace,
	    .name = w->pod.name, .uid = w->pod.uid, .ours = ours,
	    .timeout_ms = LIMIT_POD_MS };

	w->wait = podwait_start(w->env, &req, on_wait, w);
	return w->wait == NULL ? -1 : 0;
}

static void
on_made(void *arg, const struct event *ev)
{
	struct warm *w = arg;
	struct json_doc *doc = NULL;
	struct error err;

	w->op = NULL;
	if (ev->err != NULL) {
		w->why = *ev->err;
	} else if ((doc = json_parse_lax(ev->data, ev->len, &w->why)) !=
	    NULL) {
		pod_read(&w->pod, json_root(doc), w->env->config->pod.domain);
		json_free(doc);
		if (wait_for(w, true) == 0)
			return;
		error_set(&err, ERR_SYSTEM, "out of memory");
		give_up(w, &err);
		return;
	}
	finish(w);
}

static struct warm *
new(struct env *env, const char *namespace, event_fn *fn, void *arg)
{
	struct warm *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return NULL;
	w->env = env;
	w->fn = fn;
	w->arg = arg;
	(void)snprintf(w->namespace, sizeof(w->namespace), "%s", namespace);
	return w;
}

struct warm *
warm_start(struct env *env, const char *namespace, event_fn *fn, void *arg)
{
	struct warm *w = new(env, namespace, fn, arg);
	struct buf path, body;
	char hex[9], now[40];

	if (w == NULL || token_hex(hex, 4) == -1) {
		free(w);
		return NULL;
	}
	(void)snprintf(w->pod.name, sizeof(w->pod.name), "cli-mcp-sandbox-%s",
	    hex);
	manifest_now(now);
	buf_init(&path, 1024);
	buf_init(&body, LIMIT_MANIFEST);
	manifest_path(&path, namespace, "pods", NULL);
	manifest_pod(&body, &env->config->pod, w->pod.name, NULL, now);
	if (buf_ok(&body))
		w->op = k8s_send(env->k8s, "POST", path.data, body.data, 0,
		    on_made, w);
	buf_free(&path);
	buf_free(&body);
	if (w->op != NULL)
		return w;
	free(w);
	return NULL;
}

struct warm *
warm_go_on(struct env *env, const char *namespace, const struct pod *pod,
    event_fn *fn, void *arg)
{
	struct warm *w = new(env, namespace, fn, arg);

	if (w == NULL)
		return NULL;
	w->pod = *pod;
	if (wait_for(w, false) == 0)
		return w;
	free(w);
	return NULL;
}
