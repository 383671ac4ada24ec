/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "buf.h"
#include "env.h"
#include "errand.h"
#include "error.h"
#include "event.h"
#include "k8s.h"
#include "log.h"
#include "manifest.h"
#include "warm.h"

struct errand {
	struct errands *all;
	struct errand *next;
	struct k8s_op *op;
	struct warm *warm;
};

struct errands {
	struct env *env;
	struct errand *first;
};

struct errands *
errands_open(struct env *env)
{
	struct errands *es = calloc(1, sizeof(*es));

	if (es != NULL)
		es->env = env;
	return es;
}

static void
errand_free(struct errand *e)
{
	struct errand **at = &e->all->first;

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	k8s_cancel(e->op);
	warm_close(e->warm);
	free(e);
}

void
errands_close(struct errands *es)
{
	if (es == NULL)
		return;
	while (es->first != NULL)
		errand_free(es->first);
	free(es);
}

/* Making a pod is no reason to stay. */
bool
errands_done(const struct errands *es)
{
	for (const struct errand *e = es->first; e != NULL; e = e->next)
		if (e->op != NULL)
			return false;
	return true;
}

static struct errand *
errand_new(struct errands *es)
{
	struct errand *e = calloc(1, sizeof(*e));

	if (e == NULL)
		return NULL;
	e->all = es;
	e->next = es->first;
	es->first = e;
	return e;
}

static void
on_reply(void *arg, const struct event *ev)
{
	struct errand *e = arg;

	e->op = NULL;
	if (ev->err != NULL && ev->err->code != ERR_GONE &&
	    ev->err->code != ERR_CONFLICT)
		log_line(e->all->env->log, LOG_WARN, "%s", ev->err->text);
	errand_free(e);
}

void
errand_send(struct errands *es, const char *method, const char *path,
    const char *body)
{
	struct errand *e = errand_new(es);

	if (e == NULL)
		return;
	e->op = k8s_send(es->env->k8s, method, path, body, 0, on_reply, e);
	if (e->op == NULL)
		errand_free(e);
}

void
errand_delete(struct errands *es, const char *namespace,
    const struct pod *pod, long grace)
{
	struct buf path, body;

	buf_init(&path, 1024);
	buf_init(&body, 1024);
	manifest_path(&path, namespace, "pods", pod->name);
	manifest_delete(&body, pod->uid, NULL, grace);
	errand_send(es, "DELETE", path.data, body.data);
	buf_free(&path);
	buf_free(&body);
}

static void
on_warm(void *arg, const struct event *ev)
{
	struct errand *e = arg;

	if (ev->type != EVENT_END)
		return;
	e->warm = NULL;
	if (ev->err != NULL)
		log_line(e->all->env->log, LOG_WARN, "warm pod: %s",
		    ev->err->text);
	errand_free(e);
}

void
errand_warm(struct errands *es, const char *namespace)
{
	struct errand *e = errand_new(es);

	if (e == NULL)
		return;
	e->warm = warm_start(es->env, namespace, on_warm, e);
	if (e->warm == NULL)
		errand_free(e);
}
