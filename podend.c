/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "buf.h"
#include "env.h"
#include "error.h"
#include "json.h"
#include "k8s.h"
#include "loop.h"
#include "manifest.h"
#include "podend.h"

enum { LOOKS = 8, LOOK_MS = 500 };

struct podend {
	struct env *env;
	struct k8s_op *op;
	struct loop_timer *timer;
	struct buf path;
	unsigned looks;
	event_fn *fn;
	void *arg;
};

static struct json
container_end(struct json pod)
{
	struct json m;

	for (m = json_first(json_path(pod, "status.containerStatuses"));
	    json_type(m) != JSON_NONE; m = json_next(m))
		if (json_is(json_get(m, "name"), POD_CONTAINER))
			break;
	return json_path(m, "state.terminated");
}

/* "": it has not ended, as far as is known. */
static void
explain(struct json pod, char *dst, size_t size)
{
	struct json end = container_end(pod);
	char reason[80] = "", message[200] = "";
	long code = -1;

	dst[0] = '\0';
	(void)json_str(json_path(pod, "status.message"), message,
	    sizeof(message));
	if (json_str(json_path(pod, "status.reason"), reason,
	    sizeof(reason))) {
		(void)snprintf(dst, size, "%s%s%s", reason,
		    message[0] != '\0' ? ": " : "", message);
		return;
	}
	(void)json_int(json_get(end, "exitCode"), 0, 255, &code);
	(void)json_str(json_get(end, "reason"), reason, sizeof(reason));
	if (json_is(json_get(end, "reason"), "OOMKilled"))
		(void)snprintf(dst, size, "out of memory (OOMKilled): use "
		    "less, or raise --memory-limit");
	else if (json_type(end) == JSON_OBJECT)
		(void)snprintf(dst, size, "%s, exit code %ld", reason, code);
	else if (json_type(json_path(pod, "metadata.deletionTimestamp")) ==
	    JSON_STRING)
		(void)snprintf(dst, size, "it was deleted");
}

void
podend_close(struct podend *p)
{
	if (p == NULL)
		return;
	k8s_cancel(p->op);
	loop_timer_del(p->timer);
	buf_free(&p->path);
	free(p);
}

static void
finish(struct podend *p, const char *why)
{
	struct event ev = { .type = EVENT_END, .data = why };
	event_fn *fn = p->fn;
	void *arg = p->arg;

	podend_close(p);
	fn(arg, &ev);
}

static void look(void *arg);

static void
on_pod(void *arg, const struct event *ev)
{
	struct podend *p = arg;
	struct json_doc *doc = NULL;
	struct error err;
	char why[400] = "";

	p->op = NULL;
	if (ev->err == NULL)
		doc = json_parse_lax(ev->data, ev->len, &err);
	if (doc != NULL)
		explain(json_root(doc), why, sizeof(why));
	json_free(doc);
	if (ev->err != NULL && ev->err->code == ERR_GONE)
		(void)snprintf(why, sizeof(why), "it was deleted");
	if (why[0] == '\0' && ++p->looks < LOOKS)
		p->timer = loop_timer_add(p->env->loop, LOOK_MS, look, p);
	if (p->timer == NULL)
		finish(p, why);
}

static void
look(void *arg)
{
	struct podend *p = arg;

	p->timer = NULL;
	p->op = k8s_send(p->env->k8s, "GET", p->path.data, NULL, 0, on_pod, p);
	if (p->op == NULL)
		finish(p, "");
}

struct podend *
podend_start(struct env *env, const char *namespace, const char *name,
    event_fn *fn, void *arg)
{
	struct podend *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	*p = (struct podend){ .env = env, .fn = fn, .arg = arg };
	buf_init(&p->path, 1024);
	manifest_path(&p->path, namespace, "pods", name);
	p->timer = loop_timer_add(env->loop, 0, look, p);
	if (buf_ok(&p->path) && p->timer != NULL)
		return p;
	podend_close(p);
	return NULL;
}
