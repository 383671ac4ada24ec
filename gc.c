/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ask.h"
#include "budget.h"
#include "buf.h"
#include "config.h"
#include "env.h"
#include "error.h"
#include "gc.h"
#include "json.h"
#include "log.h"
#include "loop.h"
#include "manifest.h"
#include "warm.h"

enum {
	OBJECTS_MAX = 20000,
	ORPHAN_S = 120,		/* a Secret's pod is there by then */
	WARM_AT_ONCE = 8,
};

struct secret {
	char name[254], uid[64], version[64], session[64];
	long long created;
};

struct gc {
	struct env *env;
	const char *namespace;
	const struct config_pod *c;
	int fd;
	long long now;
	struct pod *pods;
	struct secret *secrets;
	size_t npods, nsecrets, deleted, made;
	bool failed;
};

static void
complain(struct gc *g, const struct error *err)
{
	g->failed = true;
	log_line(g->env->log, LOG_ERROR, "%s", err->text);
}

/* Delete it as it was seen. What is gone or has changed is no failure. */
static bool
delete(struct gc *g, const char *resource, const char *name, const char *uid,
    const char *version, long grace, const char *why)
{
	struct buf path, body;
	struct asked r;
	bool done = false;

	buf_init(&path, 1024);
	buf_init(&body, 1024);
	manifest_path(&path, g->namespace, resource, name);
	manifest_delete(&body, uid, version, grace);
	if (ask(g->env, &r, "DELETE", path.data, body.data) == 0) {
		done = true;
		g->deleted++;
		say(g->fd, "deleted %.*s %s: %s", (int)strlen(resource) - 1,
		    resource, name, why);
	} else if (r.err.code != ERR_GONE && r.err.code != ERR_CONFLICT) {
		complain(g, &r.err);
	}
	asked_free(&r);
	buf_free(&path);
	buf_free(&body);
	return done;
}

/* --- what there is ------------------------------------------------------- */

static void
read_secret(struct secret *s, struct json o, const char *domain)
{
	struct json meta = json_get(o, "metadata");
	char created[40] = "";
	struct pod p;

	*s = (struct secret){ .name = "" };
	pod_read(&p, o, domain);	/* the same metadata */
	memcpy(s->name, p.name, sizeof(s->name));
	memcpy(s->uid, p.uid, sizeof(s->uid));
	memcpy(s->version, p.version, sizeof(s->version));
	memcpy(s->session, p.session, sizeof(s->session));
	(void)json_str(json_get(meta, "creationTimestamp"), created,
	    sizeof(created));
	s->created = manifest_time(created);
}

static int
keep(struct gc *g, struct json items, bool pods, struct error *err)
{
	size_t n = json_count(items), have = pods ? g->npods : g->nsecrets;
	void *new;

	if (have + n > OBJECTS_MAX)
		return error_set(err, ERR_LIMIT, "more than %d objects",
		    OBJECTS_MAX);
	new = pods ? realloc(g->pods, (have + n + 1) * sizeof(*g->pods)) :
	    realloc(g->secrets, (have + n + 1) * sizeof(*g->secrets));
	if (new == NULL)
		return error_set(err, ERR_SYSTEM, "out of memory");
	if (pods)
		g->pods = new;
	else
		g->secrets = new;
	for (struct json m = json_first(items); json_type(m) != JSON_NONE;
	    m = json_next(m))
		if (pods)
			pod_read(&g->pods[g->npods++], m, g->c->domain);
		else
			read_secret(&g->secrets[g->nsecrets++], m,
			    g->c->domain);
	return 0;
}

static int
keep_pods(void *arg, struct json items, struct error *err)
{
	return keep(arg, items, true, err);
}

static int
keep_secrets(void *arg, struct json items, struct error *err)
{
	return keep(arg, items, false, err);
}

/* session as in manifest_list(). */
static int
list(struct gc *g, bool pods, const char *session, struct error *err)
{
	struct buf path;
	int r;

	if (pods)
		g->npods = 0;
	buf_init(&path, 4096);
	manifest_list(&path, g->namespace, pods ? "pods" : "secrets",
	    g->c->domain, session);
	r = buf_ok(&path) ? ask_list(g->env, path.data, pods ? keep_pods :
	    keep_secrets, g, err) : error_set(err, ERR_SYSTEM,
	    "out of memory");
	buf_free(&path);
	return r;
}

/* --- what is over -------------------------------------------------------- */

static bool
older(const struct gc *g, const char *text, long ms)
{
	long long t = manifest_time(text);

	return t != -1 && (g->now - t) * 1000 > ms;
}

/* true: it stays. */
static bool
judge(struct gc *g, const struct pod *p)
{
	const char *made = p->made[0] != '\0' ? p->made : p->created;
	const char *active = p->active[0] != '\0' ? p->active : p->created;
	char why[128];

	if (p->deleting)
		return false;
	if (p->ended)
		return !delete(g, "pods", p->name, p->uid, NULL, 0, "ended");
	if (p->session[0] == '\0' && older(g, made, 2 * g->c->idle_ms))
		return !delete(g, "pods", p->name, p->uid, p->version, 1,
		    "warm for too long");
	if (p->session[0] == '\0' || !older(g, active, g->c->idle_ms))
		return true;
	(void)snprintf(why, sizeof(why), "session %s, idle since %s",
	    p->session, active);
	return !delete(g, "pods", p->name, p->uid, p->version, 1, why);
}

static void
collect_pods(struct gc *g)
{
	size_t n = 0;

	for (size_t i = 0; i < g->npods; i++)
		if (judge(g, &g->pods[i]))
			g->pods[n++] = g->pods[i];
	g->npods = n;
}

static void
collect_secrets(struct gc *g)
{
	for (size_t i = 0; i < g->nsecrets; i++) {
		const struct secret *s = &g->secrets[i];
		bool wanted = s->session[0] == '\0' ||
		    g->now - s->created < ORPHAN_S;

		for (size_t k = 0; k < g->npods && !wanted; k++)
			wanted = strcmp(g->pods[k].session, s->session) == 0;
		if (!wanted)
			(void)delete(g, "secrets", s->name, s->uid,
			    s->version, -1, "its session has no pod");
	}
}

/* --- the pool ------------------------------------------------------------ */

struct filling {
	struct gc *g;
	size_t under_way;
};

struct filler {
	struct filling *all;
	const struct pod *pod;	/* somebody began it; NULL: a new one */
	struct warm *warm;
};

static void
on_warm(void *arg, const struct event *ev)
{
	struct filler *f = arg;
	struct gc *g = f->all->g;

	if (ev->type != EVENT_END)
		return;
	f->all->under_way--;
	if (ev->err != NULL) {
		complain(g, ev->err);
	} else {
		g->made += f->pod == NULL;
		say(g->fd, "%s pod %s: warm", f->pod == NULL ? "created" :
		    "completed", warm_name(f->warm));
	}
	f->warm = NULL;
}

static void
fill_one(struct filling *all, struct filler *f)
{
	struct gc *g = all->g;

	f->all = all;
	f->warm = f->pod != NULL ? warm_go_on(g->env, g->namespace, f->pod,
	    on_warm, f) : warm_start(g->env, g->namespace, on_warm, f);
	if (f->warm == NULL)
		complain(g, &(struct error){ ERR_SYSTEM, "out of memory" });
	else
		all->under_way++;
}

/* Make what is missing, and go on with what somebody left half made. */
static void
fill(struct gc *g)
{
	struct filling all = { .g = g };
	struct filler *f = calloc(g->npods + (size_t)g->c->pool_size + 1,
	    sizeof(*f));
	size_t n = 0, live = 0, started = 0;
	struct error err;

	for (size_t i = 0; f != NULL && i < g->npods; i++) {
		if (g->pods[i].session[0] != '\0')
			continue;
		live++;
		if (!g->pods[i].ready)
			f[n++].pod = &g->pods[i];
	}
	if (f != NULL && live < (size_t)g->c->pool_size)
		n += (size_t)g->c->pool_size - live;
	while (started < n || all.under_way > 0) {
		while (started < n && all.under_way < WARM_AT_ONCE)
			fill_one(&all, &f[started++]);
		if (all.under_way > 0 &&
		    loop_turn(g->env->loop, -1, &err) == -1) {
			complain(g, &err);
			return;		/* the pods' events are lost, not f */
		}
	}
	free(f);
}

/* Two of us may have filled it: of too many, the youngest go. */
static void
trim(struct gc *g)
{
	struct error err = { ERR_NONE, "" };
	size_t keep_n = (size_t)g->c->pool_size, n = 0;

	if (list(g, true, "", &err) == -1) {
		complain(g, &err);
		return;
	}
	qsort(g->pods, g->npods, sizeof(g->pods[0]), pod_order);
	for (size_t i = 0; i < g->npods; i++) {
		const struct pod *p = &g->pods[i];

		if (!p->deleting && !p->ended && ++n > keep_n)
			(void)delete(g, "pods", p->name, p->uid, p->version,
			    1, "one too many in the pool");
	}
}

int
gc_run(struct env *env, const char *namespace, int fd, struct error *err)
{
	struct gc g = { .env = env, .namespace = namespace, .fd = fd,
	    .c = &env->config->pod, .now = (long long)time(NULL) };
	struct error why = { ERR_NONE, "" };
	size_t n;
	int r = -1;

	if (list(&g, true, NULL, err) == 0) {
		n = g.npods;
		collect_pods(&g);
		if (list(&g, false, NULL, &why) == 0)
			collect_secrets(&g);
		else
			complain(&g, &why);
		if (g.c->pool_size > 0) {
			fill(&g);
			trim(&g);
		}
		say(g.fd, "%zu pods seen, %zu objects deleted, %zu warm pods "
		    "created", n, g.deleted, g.made);
		r = g.failed ? 2 : 0;
	}
	free(g.pods);
	free(g.secrets);
	return r;
}
