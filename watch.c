/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "budget.h"
#include "buf.h"
#include "error.h"
#include "json.h"
#include "k8s.h"
#include "k8sfail.h"
#include "loop.h"
#include "mono.h"
#include "watch.h"
#include "web.h"

enum {
	SERVER_S = 300,		/* the server ends it after this, and a bit */
	SPREAD_S = 60,
	GRACE_S = 30,		/* silence beyond that is a dead connection */
	QUICK_MS = 5000,	/* an end so early is no ordinary one */
	PATH = 8192,
	ERROR_BODY = 64 << 10
};

struct watch {
	struct k8s *k;
	char *path;
	char version[64];	/* of the last event; "": from scratch */
	event_fn *fn;
	void *arg;
	struct web_op *op;
	struct loop_timer *timer;
	struct k8s_wait *wait;	/* for credentials */
	struct buf line;	/* the event that is not whole yet */
	struct buf refusal;	/* the body of an answer that is not 2xx */
	struct error failed;	/* why this try is over; ERR_NONE: it is not */
	long opened;
	unsigned long generation;	/* of this try's credentials */
	int failures;		/* in a row */
	bool useful;		/* this try brought something */
	bool once;		/* not another try */
	bool reauthed, busy, dead;
};

static void
watch_free(struct watch *w)
{
	web_cancel(w->op);
	loop_timer_del(w->timer);
	k8s_wait_cancel(w->wait);
	buf_free(&w->line);
	buf_free(&w->refusal);
	free(w->path);
	free(w);
}

void
watch_close(struct watch *w)
{
	if (w == NULL)
		return;
	w->dead = true;
	if (!w->busy)
		watch_free(w);
}

static void
finish(struct watch *w, long status)
{
	struct event ev = { .type = EVENT_END, .err = &w->failed,
	    .status = status, .reason = "", .data = "" };
	char what[256];

	k8sfail_describe("watch", w->path, what, sizeof(what));
	error_wrap(&w->failed, "%s", what);
	w->busy = true;
	w->fn(w->arg, &ev);
	watch_free(w);
}

static void try(void *arg);

/* The try is over, and w->failed says why if it ended badly. */
static void
again(struct watch *w, long status, const char *retry_after)
{
	long ms;

	if (w->failed.code != ERR_NONE)
		w->failures++;
	if (w->once && w->failed.code == ERR_NONE)
		error_set(&w->failed, ERR_LOST, "the API server ended it");
	if (w->once || w->failures > LIMIT_RETRIES) {
		finish(w, status);
		return;
	}
	w->failed.code = ERR_NONE;
	ms = k8s_pause(w->failures > 0 ? w->failures : 1, retry_after);
	w->timer = loop_timer_add(k8s_loop(w->k), ms, try, w);
	if (w->timer != NULL)
		return;
	error_set(&w->failed, ERR_SYSTEM, "out of memory");
	finish(w, status);
}

/* --- events ------------------------------------------------------------ */

/* An ERROR event: a Status in place of an object. */
static void
on_error_event(struct watch *w, struct json status)
{
	struct event reply = { .reason = "" };

	if (!json_int(json_get(status, "code"), 100, 599, &reply.status))
		reply.status = 500;
	reply.data = json_raw(status, &reply.len);
	k8sfail_explain(&reply, &w->failed, NULL, 0);
	if (reply.status == 410)
		w->version[0] = '\0';
}

static void
on_object(struct watch *w, const char *verb, struct json object)
{
	struct event ev = { .type = EVENT_OBJECT, .reason = "", .data = "",
	    .verb = verb, .object = object };

	w->useful = true;
	w->failures = 0;
	w->reauthed = false;
	w->busy = true;
	w->fn(w->arg, &ev);
	w->busy = false;
}

static void
on_event(struct watch *w, struct json event)
{
	struct json object = json_get(event, "object");
	char verb[16], version[sizeof(w->version)];

	if (!json_str(json_get(event, "type"), verb, sizeof(verb))) {
		error_set(&w->failed, ERR_CLUSTER, "an event without a type");
		return;
	}
	if (strcmp(verb, "ERROR") == 0) {
		on_error_event(w, object);
		return;
	}
	if (!json_str(json_path(object, "metadata.resourceVersion"), version,
	    sizeof(version)) || version[0] == '\0') {
		error_set(&w->failed, ERR_CLUSTER, "an event without a "
		    "resourceVersion");
		return;
	}
	memcpy(w->version, version, sizeof(version));
	if (strcmp(verb, "BOOKMARK") == 0)
		w->useful = true;
	else
		on_object(w, verb, object);
}

static void
on_line(struct watch *w)
{
	struct json_doc *doc;

	if (w->line.len == 0)
		return;
	doc = json_parse_lax(w->line.data, w->line.len, &w->failed);
	if (doc != NULL)
		on_event(w, json_root(doc));
	json_free(doc);
	buf_reset(&w->line, ERROR_BODY);
}

/* false: this try has failed, or the watch was closed. */
static bool
feed(struct watch *w, const char *data, size_t len)
{
	const char *end;
	size_t n;

	while (len > 0) {
		end = memchr(data, '\n', len);
		n = end != NULL ? (size_t)(end - data) : len;
		buf_put(&w->line, data, n);
		if (!buf_ok(&w->line)) {
			error_set(&w->failed, ERR_LIMIT, "an event is longer "
			    "than %d bytes", LIMIT_EVENT);
			return false;
		}
		if (end == NULL)
			return true;
		on_line(w);
		if (w->dead || w->failed.code != ERR_NONE)
			return false;
		data += n + 1;
		len -= n + 1;
	}
	return true;
}

static void
on_data(struct watch *w, const struct event *ev)
{
	if (ev->status != 200) {
		if (ev->len <= buf_room(&w->refusal))
			buf_put(&w->refusal, ev->data, ev->len);
		return;
	}
	if (feed(w, ev->data, ev->len))
		return;
	if (w->dead) {
		watch_free(w);
		return;
	}
	web_cancel(w->op);
	w->op = NULL;
	if (w->failed.code == ERR_LIMIT)
		finish(w, ev->status);
	else
		again(w, ev->status, "");
}

/* --- the end of a try -------------------------------------------------- */

/* What will not pass by itself. */
static bool
is_final(const struct error *err)
{
	switch (err->code) {
	case ERR_TLS:
	case ERR_CONFIG:
	case ERR_LIMIT:
	case ERR_SYSTEM:
	case ERR_INPUT:
		return true;
	default:
		return false;
	}
}

static void
on_refusal(struct watch *w, const struct event *ev, const char *retry_after)
{
	struct event reply = *ev;

	reply.data = w->refusal.data != NULL ? w->refusal.data : "";
	reply.len = w->refusal.len;
	k8sfail_explain(&reply, &w->failed, NULL, 0);
	switch (ev->status) {
	case 401:
		if (!w->reauthed && k8s_reauth(w->k, w->generation)) {
			w->reauthed = true;
			break;
		}
		/* FALLTHROUGH */
	case 400:
	case 403:
	case 404:
		finish(w, ev->status);
		return;
	case 410:
		w->version[0] = '\0';
		break;
	}
	again(w, ev->status, retry_after);
}

static void
on_reply(struct watch *w, const struct event *ev)
{
	const char *retry_after = web_field(w->op, "Retry-After");

	w->op = NULL;
	if (ev->err != NULL) {
		w->failed = *ev->err;
		if (is_final(ev->err))
			finish(w, ev->status);
		else
			again(w, ev->status, retry_after);
	} else if (ev->status != 200)
		on_refusal(w, ev, retry_after);
	else {
		if (!w->useful && mono_ms() - w->opened < QUICK_MS)
			error_set(&w->failed, ERR_LOST, "the API server ends "
			    "the watch at once");
		else
			w->failures = 0;
		again(w, ev->status, "");
	}
}

static void
on_web(void *arg, const struct event *ev)
{
	if (ev->type == EVENT_REPLY)
		on_reply(arg, ev);
	else
		on_data(arg, ev);
}

/* --- a try ------------------------------------------------------------- */

static int
send_it(struct watch *w, const char *path, long seconds, struct error *err)
{
	struct web_req req = { .method = "GET", .stream = true,
	    .fresh = w->failures > 0,
	    .first_byte_ms = (seconds + GRACE_S) * 1000 };
	struct k8s_target t;

	/* The server sends nothing while nothing happens. */
	req.idle_ms = req.first_byte_ms;
	if (k8s_target(w->k, path, &t, &req, err) == -1)
		return -1;
	w->generation = t.generation;
	w->op = web_send(k8s_web(w->k), &req, on_web, w, err);
	k8s_release(&t);
	return w->op != NULL ? 0 : -1;
}

/* With the credentials that there are now. */
static void
resume(void *arg)
{
	struct watch *w = arg;
	long seconds = SERVER_S + k8s_pause(1, "") % SPREAD_S;
	struct buf path;
	int r;

	w->wait = NULL;
	w->useful = false;
	w->opened = mono_ms();
	buf_reset(&w->line, 0);
	buf_reset(&w->refusal, 0);
	buf_init(&path, PATH);
	buf_puts(&path, w->path);
	buf_printf(&path, "%cwatch=true&allowWatchBookmarks=true"
	    "&timeoutSeconds=%ld", strchr(w->path, '?') != NULL ? '&' : '?',
	    seconds);
	if (w->version[0] != '\0') {
		buf_puts(&path, "&resourceVersion=");
		k8s_escape(&path, w->version);
	}
	if (buf_ok(&path))
		r = send_it(w, path.data, seconds, &w->failed);
	else
		r = error_set(&w->failed, ERR_INPUT, "its path is too long");
	buf_free(&path);
	if (r == -1)
		finish(w, 0);
}

static void
try(void *arg)
{
	struct watch *w = arg;

	w->timer = NULL;
	w->wait = k8s_await(w->k, LIMIT_PLUGIN_MS, resume, w);
	if (w->wait == NULL)
		resume(w);
}

void
watch_once(struct watch *w)
{
	w->once = true;
}

bool
watch_unread(const struct watch *w)
{
	return w->op == NULL || web_unread(w->op);
}

struct watch *
watch_open(struct k8s *k, const char *path, const char *version,
    event_fn *fn, void *arg)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return NULL;
	w->k = k;
	w->fn = fn;
	w->arg = arg;
	if (version != NULL && strlen(version) < sizeof(w->version))
		memcpy(w->version, version, strlen(version) + 1);
	buf_init(&w->line, LIMIT_EVENT);
	buf_init(&w->refusal, ERROR_BODY);
	w->path = strdup(path);
	w->timer = loop_timer_add(k8s_loop(k), 0, try, w);
	if (w->path != NULL && w->timer != NULL)
		return w;
	watch_free(w);
	return NULL;
}
