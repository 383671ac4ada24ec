/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "buf.h"
#include "budget.h"
#include "config.h"
#include "env.h"
#include "errand.h"
#include "error.h"
#include "file.h"
#include "json.h"
#include "k8s.h"
#include "loop.h"
#include "manifest.h"
#include "mono.h"
#include "session.h"
#include "setup.h"
#include "sight.h"
#include "token.h"

enum {
	NOTE_MS = 60 * 1000,	/* between two notes of activity, or less: */
	NOTES = 4,		/* ... so many in an idle time */
};

struct session {
	struct sessions *all;
	struct session *next;
	char id[64];
	struct pod pod;
	struct agent *agent;
	char token[TOKEN_SIZE];
	char last[64];			/* uid of the latest pod */
	bool renewed;			/* it was another before */
	struct setup *setup;		/* under way */
	struct session_find *finds;	/* who waits for it */
	unsigned users;
	long noted_ms;			/* when activity was noted; 0: not */
	struct loop_timer *timer;
	struct sight *sight;		/* of that pod; NULL: not watched */
	long asked_ms;			/* when it was listed; 0: in doubt */
	struct loop_timer *rest;	/* nobody uses it */
};

struct session_find {
	struct session *session;
	struct session_find *next;
	event_fn *fn;
	void *arg;
	bool stopped;
};

struct sessions {
	struct env *env;
	struct session *first;
	struct errands *errands;
	const char *key;		/* in key_text */
	size_t key_len, text_len;
	char *key_text, *agent;
	char namespace[64], own[64];
	bool made;			/* own is this process's alone */
	bool used;			/* ... and may have a pod */
	bool blind;			/* we may not watch pods */
};

/* --- all of them --------------------------------------------------------- */

static int
read_key(struct sessions *ss, const char *path, struct error *err)
{
	ss->key_text = file_read(NULL, path, &ss->text_len, err);
	if (ss->key_text == NULL)
		return error_wrap(err, "failed to read HMAC key file");
	ss->key_len = token_key(ss->key_text, ss->text_len, &ss->key);
	if (ss->key_len > 0)
		return 0;
	return error_set(err, ERR_CONFIG, "HMAC key file %s is empty or "
	    "whitespace-only", path);
}

/* As set, or one that nobody else has. */
static int
own_session(struct sessions *ss, struct error *err)
{
	const char *set = ss->env->config->session_id;
	char hex[33];

	if (set != NULL) {
		(void)snprintf(ss->own, sizeof(ss->own), "%s", set);
		return 0;
	}
	if (token_hex(hex, 16) == -1)
		return error_sys(err, "getrandom");
	(void)snprintf(ss->own, sizeof(ss->own), "%.8s-%.4s-%.4s-%.4s-%.12s",
	    hex, hex + 8, hex + 12, hex + 16, hex + 20);
	ss->made = true;
	return 0;
}

struct sessions *
sessions_open(struct env *env, struct error *err)
{
	const struct config_pod *c = &env->config->pod;
	struct sessions *ss = calloc(1, sizeof(*ss));

	if (ss == NULL || (ss->errands = errands_open(env)) == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		free(ss);
		return NULL;
	}
	ss->env = env;
	(void)snprintf(ss->namespace, sizeof(ss->namespace), "%s",
	    c->namespace != NULL ? c->namespace : env->namespace != NULL ?
	    env->namespace : "default");
	if (own_session(ss, err) == -1 || (c->key_file != NULL &&
	    read_key(ss, c->key_file, err) == -1))
		goto fail;
	if (c->agent_file != NULL) {
		ss->agent = file_read(NULL, c->agent_file, &env->agent_len,
		    err);
		if (ss->agent == NULL)
			goto fail;
		env->agent = ss->agent;
	}
	return ss;
fail:
	sessions_close(ss);
	return NULL;
}

static void
session_free(struct session *s)
{
	setup_close(s->setup);
	loop_timer_del(s->timer);
	loop_timer_del(s->rest);
	sight_close(s->sight);
	agent_close(s->agent);
	explicit_bzero(s->token, sizeof(s->token));
	free(s);
}

void
sessions_close(struct sessions *ss)
{
	struct session *s, *next;

	if (ss == NULL)
		return;
	for (s = ss->first; s != NULL; s = next) {
		next = s->next;
		session_free(s);
	}
	errands_close(ss->errands);
	if (ss->key_text != NULL)
		explicit_bzero(ss->key_text, ss->text_len);
	free(ss->key_text);
	free(ss->agent);
	free(ss);
}

const char *
sessions_own(const struct sessions *ss)
{
	return ss->own;
}

const char *
sessions_namespace(const struct sessions *ss)
{
	return ss->namespace;
}

struct finish {
	bool over;
	struct error err;
};

static void
on_finished(void *arg, const struct event *ev)
{
	struct finish *f = arg;

	f->over = true;
	if (ev->err != NULL)
		f->err = *ev->err;
}

int
sessions_finish(struct sessions *ss, long ms, struct error *err)
{
	struct finish f = { .over = true };
	struct session_end *e = NULL;
	long until = mono_ms() + ms;

	if (ss->made && ss->used) {
		f.over = false;
		e = session_end(ss, ss->own, on_finished, &f);
	}
	while ((!f.over || !errands_done(ss->errands)) && mono_ms() < until)
		if (loop_turn(ss->env->loop, until - mono_ms(), err) == -1)
			return -1;
	if (!f.over) {
		session_end_close(e);
		return error_set(err, ERR_TIMEOUT, "session %s: not ended in "
		    "time, its pod ends when it has been idle", ss->own);
	}
	if (f.err.code == ERR_NONE)
		return 0;
	*err = f.err;
	return error_wrap(err, "session %s", ss->own);
}

/* --- finding ------------------------------------------------------------- */

static struct session *
session_of(struct sessions *ss, const char *id)
{
	struct session *s;

	for (s = ss->first; s != NULL; s = s->next)
		if (strcmp(s->id, id) == 0)
			return s;
	if ((s = calloc(1, sizeof(*s))) == NULL)
		return NULL;
	s->all = ss;
	(void)snprintf(s->id, sizeof(s->id), "%s", id);
	s->next = ss->first;
	ss->first = s;
	return s;
}

static void
detach(struct session_find *f)
{
	struct session_find **at = &f->session->finds;

	while (*at != NULL && *at != f)
		at = &(*at)->next;
	if (*at != NULL)
		*at = f->next;
}

/* A watch is worth its while from the second use on. */
static void
watch_it(struct session *s, bool again)
{
	struct sessions *ss = s->all;
	enum sight_state state = sight_state(s->sight);

	ss->blind |= state == SIGHT_DENIED;
	if (again && (state == SIGHT_WAIT || state == SIGHT_CLEAR))
		return;
	sight_close(s->sight);
	s->sight = NULL;
	if (again && !ss->blind)
		s->sight = sight_open(ss->env, ss->namespace, s->id,
		    s->pod.uid);
}

static void
take_result(struct session *s)
{
	struct setup_result r;

	setup_result(s->setup, &r);
	if (r.agent != NULL) {
		agent_close(s->agent);
		s->agent = r.agent;
		s->noted_ms = 0;
	}
	s->pod = r.pod;
	s->renewed |= s->last[0] != '\0' && strcmp(s->last, r.pod.uid) != 0;
	(void)snprintf(s->last, sizeof(s->last), "%s", r.pod.uid);
	memcpy(s->token, r.token, sizeof(s->token));
	if (r.fresh)
		s->noted_ms = mono_ms();
	watch_it(s, r.agent == NULL);
	explicit_bzero(&r, sizeof(r));
}

static event_fn on_setup;

static int
start(struct session *s, bool doubt)
{
	const struct sessions *ss = s->all;
	struct setup_req req = { .namespace = ss->namespace,
	    .session = s->id, .key = ss->key, .key_len = ss->key_len,
	    .errands = ss->errands, .pod = &s->pod, .agent = s->agent,
	    .token = s->token };

	/* An agent that was lost may be gone before its pod tells of it. */
	req.doubt = doubt || (s->agent != NULL && s->asked_ms == 0);
	s->asked_ms = mono_ms();
	s->setup = setup_start(ss->env, &req, on_setup, s);
	return s->setup == NULL ? -1 : 0;
}

/* Who is told may ask again or go. Who came after the others had called it
 * off has a search of their own. */
static void
tell(struct session *s, const struct event *ev)
{
	struct session_find *f, *told = s->finds;

	s->finds = NULL;
	while ((f = told) != NULL) {
		told = f->next;
		if (ev->err != NULL && ev->err->code == ERR_CANCELLED &&
		    !f->stopped) {
			f->next = s->finds;
			s->finds = f;
		} else {
			f->fn(f->arg, ev);
			free(f);
		}
	}
}

static void
on_setup(void *arg, const struct event *ev)
{
	struct session *s = arg;
	struct error err = { ERR_SYSTEM, "out of memory" };
	struct event failed = { .type = EVENT_END, .err = &err };

	if (ev->type == EVENT_DATA)
		for (struct session_find *f = s->finds; f != NULL; f = f->next)
			f->fn(f->arg, ev);
	if (ev->type != EVENT_END)
		return;
	if (ev->err == NULL)
		take_result(s);
	else
		s->pod = (struct pod){ .name = "" };
	s->setup = NULL;
	tell(s, ev);
	if (s->finds != NULL && s->setup == NULL && start(s, false) == -1)
		tell(s, &failed);
}

struct session_find *
session_find(struct sessions *ss, const char *id, bool doubt, event_fn *fn,
    void *arg)
{
	struct session_find *f = calloc(1, sizeof(*f));
	struct session *s = session_of(ss, id);

	if (f == NULL || s == NULL || (s->setup == NULL &&
	    start(s, doubt) == -1)) {
		free(f);
		return NULL;
	}
	*f = (struct session_find){ .session = s, .next = s->finds, .fn = fn,
	    .arg = arg };
	s->finds = f;
	if (ss->made && strcmp(id, ss->own) == 0)
		ss->used = true;
	return f;
}

struct session *
session_known(struct sessions *ss, const char *id)
{
	struct session *s = session_of(ss, id);

	if (s == NULL || s->setup != NULL || s->agent == NULL ||
	    s->token[0] == '\0' || s->asked_ms == 0 ||
	    mono_ms() - s->asked_ms >= LIMIT_KNOWN_MS ||
	    sight_state(s->sight) != SIGHT_CLEAR)
		return NULL;
	return s;
}

void
session_doubt(struct session *s)
{
	s->asked_ms = 0;
}

struct session *
session_found(struct session_find *f)
{
	return f->session;
}

bool
session_find_stop(struct session_find *f)
{
	const struct session_find *o;

	f->stopped = true;
	for (o = f->session->finds; o != NULL; o = o->next)
		if (!o->stopped) {
			detach(f);
			free(f);
			return false;
		}
	setup_abort(f->session->setup);
	return true;
}

void
session_find_close(struct session_find *f)
{
	if (f == NULL)
		return;
	detach(f);
	free(f);
}

/* --- in use -------------------------------------------------------------- */

static long
note_ms(const struct session *s)
{
	long idle = s->all->env->config->pod.idle_ms / NOTES;

	return idle < NOTE_MS ? idle : NOTE_MS;
}

static void
note(struct session *s)
{
	const struct env *env = s->all->env;
	struct buf path, body;
	char now[40];

	if (s->noted_ms != 0 && mono_ms() - s->noted_ms < note_ms(s))
		return;
	s->noted_ms = mono_ms();
	manifest_now(now);
	buf_init(&path, 1024);
	buf_init(&body, 1024);
	manifest_path(&path, s->all->namespace, "pods", s->pod.name);
	manifest_active(&body, env->config->pod.domain, now);
	errand_send(s->all->errands, "PATCH", path.data, body.data);
	buf_free(&path);
	buf_free(&body);
}

static void
due(void *arg)
{
	struct session *s = arg;

	s->timer = NULL;
	note(s);
	if (s->users > 0)
		s->timer = loop_timer_add(s->all->env->loop, note_ms(s) + 1,
		    due, s);
}

static void
rest(void *arg)
{
	struct session *s = arg;

	s->rest = NULL;
	sight_close(s->sight);
	s->sight = NULL;
}

void
session_use(struct session *s)
{
	s->users++;
	loop_timer_del(s->rest);
	s->rest = NULL;
	note(s);
	if (s->timer == NULL)
		s->timer = loop_timer_add(s->all->env->loop, note_ms(s) + 1,
		    due, s);
}

void
session_unuse(struct session *s)
{
	if (s == NULL)
		return;
	note(s);
	if (--s->users > 0)
		return;
	loop_timer_del(s->timer);
	s->timer = NULL;
	s->rest = loop_timer_add(s->all->env->loop, LIMIT_KNOWN_MS, rest, s);
}

const char *
session_pod(const struct session *s)
{
	return s->pod.name;
}

bool
session_renewed(struct session *s)
{
	bool renewed = s->renewed;

	s->renewed = false;
	return renewed;
}

bool
session_alone(const struct session *s)
{
	return s->users == 1;
}

struct agent *
session_agent(struct session *s)
{
	return s->agent;
}

const char *
session_token(const struct session *s)
{
	return s->token;
}

void
session_distrust(struct session *s)
{
	s->token[0] = '\0';
}

/* --- ending -------------------------------------------------------------- */

struct session_end {
	struct sessions *all;
	char id[64];
	event_fn *fn;
	void *arg;
	struct k8s_op *op;
	size_t waiting;			/* deletes of pods under way */
	struct session_end_pod {
		struct session_end *of;
		struct k8s_op *op;
	} *pods;
	size_t npods;
	bool secret;			/* its delete was sent */
	struct error err;		/* the first failure */
};

void
session_end_close(struct session_end *e)
{
	if (e == NULL)
		return;
	k8s_cancel(e->op);
	for (size_t i = 0; i < e->npods; i++)
		k8s_cancel(e->pods[i].op);
	free(e->pods);
	free(e);
}

static void
fault(struct session_end *e, const struct error *err)
{
	if (err != NULL && err->code != ERR_GONE && err->code != ERR_CONFLICT &&
	    e->err.code == ERR_NONE)
		e->err = *err;
}

static void
ended(struct session_end *e)
{
	struct event ev = { .type = EVENT_END };
	struct error err = e->err;
	event_fn *fn = e->fn;
	void *arg = e->arg;

	if (err.code != ERR_NONE) {
		error_wrap(&err, "failed to end session");
		ev.err = &err;
	}
	session_end_close(e);
	fn(arg, &ev);
}

static void
on_secret(void *arg, const struct event *ev)
{
	struct session_end *e = arg;

	e->op = NULL;
	fault(e, ev->err);
	ended(e);
}

static void
end_secret(struct session_end *e)
{
	struct buf path;
	char name[96];

	manifest_secret_name(name, e->id);
	buf_init(&path, 1024);
	manifest_path(&path, e->all->namespace, "secrets", name);
	e->op = k8s_send(e->all->env->k8s, "DELETE", path.data, NULL, 0,
	    on_secret, e);
	buf_free(&path);
	if (e->op == NULL) {
		fault(e, &(struct error){ ERR_SYSTEM, "out of memory" });
		ended(e);
	}
}

static void
on_pod_deleted(void *arg, const struct event *ev)
{
	struct session_end_pod *p = arg;
	struct session_end *e = p->of;

	p->op = NULL;
	fault(e, ev->err);
	if (--e->waiting == 0)
		end_secret(e);
}

static void
end_pods(struct session_end *e, struct json items)
{
	const struct env *env = e->all->env;
	struct buf path, body;
	struct pod pod;

	e->pods = calloc(json_count(items) + 1, sizeof(*e->pods));
	for (struct json m = json_first(items); e->pods != NULL &&
	    json_type(m) != JSON_NONE; m = json_next(m)) {
		struct session_end_pod *p = &e->pods[e->npods++];

		pod_read(&pod, m, env->config->pod.domain);
		buf_init(&path, 1024);
		buf_init(&body, 1024);
		manifest_path(&path, e->all->namespace, "pods", pod.name);
		manifest_delete(&body, pod.uid, NULL, pod.ended ? 0 : 1);
		p->of = e;
		p->op = k8s_send(env->k8s, "DELETE", path.data, body.data, 0,
		    on_pod_deleted, p);
		e->waiting += p->op != NULL;
		buf_free(&path);
		buf_free(&body);
	}
	if (e->waiting == 0)
		end_secret(e);
}

static void
on_end_list(void *arg, const struct event *ev)
{
	struct session_end *e = arg;
	struct json_doc *doc = NULL;

	e->op = NULL;
	fault(e, ev->err);
	if (ev->err == NULL)
		doc = json_parse_lax(ev->data, ev->len, &e->err);
	if (doc == NULL) {
		ended(e);
		return;
	}
	end_pods(e, json_get(json_root(doc), "items"));
	json_free(doc);
}

struct session_end *
session_end(struct sessions *ss, const char *id, event_fn *fn, void *arg)
{
	const struct env *env = ss->env;
	struct session_end *e = calloc(1, sizeof(*e));
	struct buf path;

	if (e == NULL)
		return NULL;
	e->all = ss;
	e->fn = fn;
	e->arg = arg;
	(void)snprintf(e->id, sizeof(e->id), "%s", id);
	buf_init(&path, 2048);
	manifest_list(&path, ss->namespace, "pods", env->config->pod.domain,
	    id);
	e->op = k8s_send(env->k8s, "GET", path.data, NULL, 0, on_end_list, e);
	buf_free(&path);
	if (e->op != NULL)
		return e;
	free(e);
	return NULL;
}
