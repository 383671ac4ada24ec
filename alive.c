/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "alive.h"
#include "ask.h"
#include "budget.h"
#include "claim.h"
#include "config.h"
#include "env.h"
#include "job.h"
#include "job-state.h"
#include "k8s.h"
#include "manifest.h"

struct alive {
	struct env *env;
	int fd;
	long long now;
};

typedef void show_fn(const struct alive *a, struct json object);

/* "3d4h", "5h12m", "7m30s", "12s"; "-" for no time at all. */
static void
span(char dst[24], long long s)
{
	if (s < 0)
		(void)snprintf(dst, 24, "-");
	else if (s < 60)
		(void)snprintf(dst, 24, "%llds", s);
	else if (s < 3600)
		(void)snprintf(dst, 24, "%lldm%llds", s / 60, s % 60);
	else if (s < 86400)
		(void)snprintf(dst, 24, "%lldh%lldm", s / 3600, s / 60 % 60);
	else
		(void)snprintf(dst, 24, "%lldd%lldh", s / 86400,
		    s / 3600 % 24);
}

/* end: seconds since 1970, or -1. */
static void
show(const struct alive *a, const char *kind, struct json object,
    const char *handle, const char *session, long long end, const char *state)
{
	struct json meta = json_get(object, "metadata");
	char namespace[254] = "?", made[40] = "";
	char age[24], left[24];
	long long born;

	(void)json_str(json_get(meta, "namespace"), namespace,
	    sizeof(namespace));
	(void)json_str(json_get(meta, "creationTimestamp"), made,
	    sizeof(made));
	born = manifest_time(made);
	span(age, born == -1 ? -1 : born < a->now ? a->now - born : 0);
	span(left, end == -1 ? -1 : end > a->now ? end - a->now : 0);
	say(a->fd, "%-7s %-15s %-40s %-20s %-7s %-7s %s", kind, namespace,
	    handle, session[0] != '\0' ? session : "-", age, left, state);
}

static void
show_claim(const struct alive *a, struct json object)
{
	struct claim c;

	claim_read(&c, object, a->env->config->session_label);
	show(a, "sandbox", object, c.name, c.session, manifest_time(c.shutdown),
	    c.deleting ? "ending" : claim_expired(&c) ? "expired" :
	    claim_suspended(&c) ? "suspended" : c.ready ? "ready" :
	    c.failed ? "failed" : "pending");
}

static void
show_pod(const struct alive *a, struct json object)
{
	const struct config_pod *c = &a->env->config->pod;
	long long end;
	struct pod p;

	pod_read(&p, object, c->domain);
	end = manifest_time(p.session[0] == '\0' ? p.created : p.active);
	if (end != -1)
		end += (p.session[0] == '\0' ? 2 : 1) * c->idle_ms / 1000;
	show(a, "bash", object, p.name, p.session, end, p.deleting ? "ending" :
	    p.ended ? "ended" : p.session[0] == '\0' ? "warm" :
	    p.ready ? "ready" : "starting");
}

static void
show_job(const struct alive *a, struct json object)
{
	struct json labels = json_path(object, "metadata.labels");
	struct job_object o;
	char session[64] = "";

	job_object_read(&o, object);
	(void)json_str(json_get(labels, a->env->config->session_label),
	    session, sizeof(session));
	show(a, "job", object, o.token, session, -1, o.deleting ? "ending" :
	    o.finished ? "finished" : o.note[0] != '\0' ? "error" :
	    "running");
}

struct showing {
	const struct alive *a;
	show_fn *fn;
};

static int
show_page(void *arg, struct json items, struct error *err)
{
	const struct showing *s = arg;

	(void)err;
	for (struct json m = json_first(items); json_type(m) != JSON_NONE;
	    m = json_next(m))
		s->fn(s->a, m);
	return 0;
}

static int
list(const struct alive *a, const char *path, show_fn *fn, struct error *err)
{
	struct showing s = { a, fn };

	return ask_list(a->env, path, show_page, &s, err);
}

static int
claims(const struct alive *a, const char *namespace, struct error *err)
{
	struct buf path;
	int r = -1;

	buf_init(&path, 4096);
	claim_path(&path, namespace, NULL);
	buf_puts(&path, "?labelSelector=");
	k8s_escape(&path, a->env->config->session_label);
	buf_printf(&path, "&limit=%d", LIMIT_LIST);
	if (buf_ok(&path))
		r = list(a, path.data, show_claim, err);
	/* Not installed, or not for us to see here: nothing of it is alive. */
	if (r == -1 && a->env->config->namespaces == NULL &&
	    (err->code == ERR_GONE || err->code == ERR_CLUSTER))
		r = 0;
	buf_free(&path);
	return r;
}

static int
sandboxes(const struct alive *a, struct error *err)
{
	const char *p = a->env->config->namespaces;
	char one[254];

	if (p == NULL)
		return claims(a, a->env->namespace, err);
	while (config_item(&p, one, sizeof(one)))
		if (claims(a, one, err) == -1)
			return -1;
	return 0;
}

static int
shells(const struct alive *a, struct error *err)
{
	const struct config_pod *c = &a->env->config->pod;
	struct buf path;
	int r = -1;

	buf_init(&path, 4096);
	manifest_list(&path, c->namespace != NULL ? c->namespace :
	    a->env->namespace, "pods", c->domain, NULL);
	if (buf_ok(&path))
		r = list(a, path.data, show_pod, err);
	buf_free(&path);
	return r;
}

static int
jobs(const struct alive *a, struct error *err)
{
	struct buf path;
	int r = -1;

	buf_init(&path, 4096);
	buf_puts(&path, "/apis/batch/v1/namespaces/");
	k8s_escape(&path, a->env->config->job.namespace);
	buf_printf(&path, "/jobs?labelSelector=app%%3D" JOB_APP "&limit=%d",
	    LIMIT_LIST);
	if (buf_ok(&path))
		r = list(a, path.data, show_job, err);
	buf_free(&path);
	return r;
}

int
alive_run(struct env *env, unsigned families, int fd, struct error *err)
{
	const struct alive a = { env, fd, (long long)time(NULL) };

	error_set(err, ERR_SYSTEM, "out of memory");
	say(fd, "%-7s %-15s %-40s %-20s %-7s %-7s %s", "KIND", "NAMESPACE",
	    "NAME", "SESSION", "AGE", "LEFT", "STATE");
	if (families & FAMILY_SANDBOX && sandboxes(&a, err) == -1)
		return -1;
	if (families & FAMILY_BASH && shells(&a, err) == -1)
		return -1;
	if (families & FAMILY_JOBS && jobs(&a, err) == -1)
		return -1;
	return 0;
}
