/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "budget.h"
#include "buf.h"
#include "error.h"
#include "json.h"
#include "k8s.h"
#include "k8sfail.h"
#include "kubeconfig.h"
#include "loop.h"
#include "mono.h"
#include "proxy.h"
#include "web.h"

enum {
	TOTAL_MS = 60000,	/* of a request that names no limit */
	PAUSE_MS = 100,		/* before the first retry; doubles */
	ERROR_BODY = 64 << 10
};

struct k8s {
	struct loop *loop;
	struct web *web;
	const struct kubeconfig *kc;
	struct k8sauth *auth;
	char *proxy, *resolve;
	struct k8s_op *ops;
};

struct k8s_op {
	struct k8s *k;
	struct k8s_op *next, **prev;
	char *method, *path, *body;
	event_fn *fn;
	void *arg;
	struct web_op *web_op;
	struct loop_timer *timer;
	struct k8s_wait *wait;	/* for credentials */
	struct buf refusal;	/* a stream's body when it is not 2xx */
	struct error failed;	/* it could not even be sent */
	long deadline;		/* 0: none */
	unsigned long generation; /* of the credentials it was sent with */
	int tries;
	bool stream, delivered, reauthed, busy, dead;
};

/* --- opening ----------------------------------------------------------- */

/* "host:port:address,address" for libcurl; NULL without memory. */
static char *
pin_line(const char *host, const char *port, const struct addrinfo *list)
{
	const struct addrinfo *a;
	char address[128];
	struct buf line;
	bool six;

	buf_init(&line, 8192);
	buf_printf(&line, strchr(host, ':') != NULL ? "[%s]:%s:" : "%s:%s:",
	    host, port);
	for (a = list; a != NULL; a = a->ai_next) {
		if (getnameinfo(a->ai_addr, a->ai_addrlen, address,
		    sizeof(address), NULL, 0, NI_NUMERICHOST) != 0)
			continue;
		six = strchr(address, ':') != NULL;
		buf_printf(&line, "%s%s%s%s", a == list ? "" : ",",
		    six ? "[" : "", address, six ? "]" : "");
	}
	if (buf_ok(&line))
		return line.data;
	buf_free(&line);
	return NULL;
}

/* *line stays NULL for an address, which needs no pinning. */
static int
pin(const char *host, const char *port, char **line, struct error *err)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
	    .ai_flags = AI_NUMERICHOST }, *list = NULL;
	int code;

	if (getaddrinfo(host, port, &hints, &list) == 0) {
		freeaddrinfo(list);
		return 0;
	}
	hints.ai_flags = 0;
	if ((code = getaddrinfo(host, port, &hints, &list)) != 0)
		return error_set(err, ERR_CONFIG, "%s can't be resolved: %s",
		    host, gai_strerror(code));
	*line = pin_line(host, port, list);
	freeaddrinfo(list);
	return *line != NULL ? 0 : error_set(err, ERR_SYSTEM, "out of memory");
}

/* libcurl resolves for socks5, unlike client-go; here the proxy does. */
static int
pin_proxy(struct k8s *k, const char *url, struct error *err)
{
	static const char local[] = "socks5://";
	char host[256], port[8];

	if (proxy_parts(url, host, sizeof(host), port) == -1)
		return error_set(err, ERR_CONFIG, "proxy-url: not a URL");
	if (strncmp(url, local, strlen(local)) != 0)
		k->proxy = strdup(url);
	else if (asprintf(&k->proxy, "socks5h%s", url + 6) == -1)
		k->proxy = NULL;
	if (k->proxy == NULL)
		return error_set(err, ERR_SYSTEM, "out of memory");
	return pin(host, port, &k->resolve, err);
}

static int
setup(struct k8s *k, struct error *err)
{
	const struct kubeconfig *kc = k->kc;
	int r;

	if (kc->proxy != NULL)
		r = pin_proxy(k, kc->proxy, err);
	else
		r = pin(kc->host, kc->port, &k->resolve, err);
	if (r == -1)
		return error_wrap(err, "%s", kc->source);
	k->auth = k8sauth_open(k->loop, kc, err);
	return k->auth != NULL ? 0 : -1;
}

struct k8s *
k8s_open(struct loop *l, struct web *w, const struct kubeconfig *kc,
    struct error *err)
{
	struct k8s *k = calloc(1, sizeof(*k));

	if (k == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	k->loop = l;
	k->web = w;
	k->kc = kc;
	if (setup(k, err) == 0)
		return k;
	k8s_close(k);
	return NULL;
}

void
k8s_close(struct k8s *k)
{
	if (k == NULL)
		return;
	while (k->ops != NULL)
		k8s_cancel(k->ops);
	k8sauth_close(k->auth);
	free(k->proxy);
	free(k->resolve);
	free(k);
}

struct loop *
k8s_loop(struct k8s *k)
{
	return k->loop;
}

struct web *
k8s_web(struct k8s *k)
{
	return k->web;
}

struct k8s_wait *
k8s_await(struct k8s *k, long ms, loop_due *fn, void *arg)
{
	return k8sauth_await(k->auth, ms, fn, arg);
}

int
k8s_plugin(struct k8s *k, struct plugin *p, struct error *err)
{
	return k8sauth_plugin(k->auth, p, err);
}

bool
k8s_reauth(struct k8s *k, unsigned long generation)
{
	return k8sauth_refused(k->auth, generation);
}

/* --- a request's parts ------------------------------------------------- */

void
k8s_escape(struct buf *out, const char *s)
{
	for (; *s != '\0'; s++)
		if (isalnum((unsigned char)*s) || strchr("-._~", *s) != NULL)
			buf_put(out, s, 1);
		else
			buf_printf(out, "%%%02X", (unsigned)(unsigned char)*s);
}

int
k8s_target(struct k8s *k, const char *path, struct k8s_target *t,
    struct web_req *req, struct error *err)
{
	const char *const *as = k8sauth_impersonate(k->auth);
	size_t n = 2;

	*t = (struct k8s_target){ .headers = {
	    "User-Agent: mcp-sandbox/" VERSION,
	    "Accept: application/json, */*" } };
	if (k8sauth_field(k->auth, &t->auth, &t->generation, err) == -1)
		return -1;
	if (asprintf(&t->url, "%s%s", k->kc->server, path) == -1) {
		t->url = NULL;
		k8s_release(t);
		return error_set(err, ERR_SYSTEM, "out of memory");
	}
	if (t->auth != NULL)
		t->headers[n++] = t->auth;
	for (; as != NULL && *as != NULL && n < K8S_FIELDS; as++)
		t->headers[n++] = *as;
	req->url = t->url;
	req->headers = t->headers;
	req->tls = k8sauth_tls(k->auth);
	req->resolve = k->resolve;
	req->proxy = k->proxy;
	req->proxy_ca = k->kc->proxy_ca;
	return 0;
}

void
k8s_release(struct k8s_target *t)
{
	free(t->url);
	if (t->auth != NULL)
		explicit_bzero(t->auth, strlen(t->auth));
	free(t->auth);
	*t = (struct k8s_target){ 0 };
}

/* --- trying again ------------------------------------------------------ */

long
k8s_pause(int tries, const char *retry_after)
{
	long ms = PAUSE_MS, asked;
	unsigned random = 0;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) == -1)
		random = (unsigned)mono_ms();
	for (; tries > 1 && ms < LIMIT_RETRY_MS; tries--)
		ms *= 2;
	asked = strtol(retry_after, NULL, 10);
	if (asked > 0 && asked <= LIMIT_RETRY_MS / 1000) {
		ms = asked * 1000;
		ms += (long)(random % (unsigned)(ms / 10));
	} else if (asked > 0)
		ms = LIMIT_RETRY_MS;
	else
		ms = ms / 2 + (long)(random % (unsigned)(ms / 2));
	return ms < LIMIT_RETRY_MS ? ms : LIMIT_RETRY_MS;
}

/* The quota was being changed by somebody else; nothing was made. */
static bool
is_quota_conflict(const struct event *reply)
{
	struct error ignored;
	struct json_doc *doc;
	bool is;

	if (reply->status != 409)
		return false;
	doc = json_parse_lax(reply->data, reply->len, &ignored);
	is = json_is(json_path(json_root(doc), "details.kind"),
	    "resourcequotas");
	json_free(doc);
	return is;
}

/* Would a repetition do no harm, and may it do good? */
static bool
worth_it(const struct k8s_op *op, const struct web_op *w,
    const struct event *reply)
{
	bool get = strcmp(op->method, "GET") == 0;

	if (op->delivered || op->tries >= LIMIT_RETRIES)
		return false;
	if (reply->err != NULL) {
		if (reply->err->code == ERR_TIMEOUT)
			return !web_sent(w);
		return reply->err->code == ERR_LOST &&
		    (get || !web_sent(w));
	}
	switch (reply->status) {
	case 409:
		return is_quota_conflict(reply);
	case 429:
		return true;
	case 500:
	case 502:
	case 503:
	case 504:
		return get;
	}
	return false;
}

/* ms until it is tried again; -1: it is not. */
static long
pause_before(struct k8s_op *op, const struct web_op *w,
    const struct event *reply)
{
	long ms;

	if (reply->err == NULL && reply->status == 401 && !op->reauthed) {
		op->reauthed = true;
		return k8s_reauth(op->k, op->generation) ? 0 : -1;
	}
	if (!worth_it(op, w, reply))
		return -1;
	ms = k8s_pause(++op->tries, web_field(w, "Retry-After"));
	if (op->deadline != 0 && mono_ms() + ms >= op->deadline)
		return -1;
	return ms;
}

/* --- a request --------------------------------------------------------- */

static void
op_free(struct k8s_op *op)
{
	web_cancel(op->web_op);
	loop_timer_del(op->timer);
	k8s_wait_cancel(op->wait);
	if (op->prev != NULL) {
		*op->prev = op->next;
		if (op->next != NULL)
			op->next->prev = op->prev;
	}
	buf_free(&op->refusal);
	free(op->method);
	free(op->path);
	free(op->body);
	free(op);
}

void
k8s_cancel(struct k8s_op *op)
{
	if (op == NULL)
		return;
	op->dead = true;
	if (!op->busy)
		op_free(op);
}

/* reply's err is replaced by ours. */
static void
finish(struct k8s_op *op, const struct event *reply)
{
	struct event ev = *reply;
	char reason[64] = "", what[256];
	struct error err;

	ev.type = EVENT_REPLY;
	ev.reason = reason;
	if (ev.err != NULL || ev.status < 200 || ev.status > 299) {
		k8sfail_explain(reply, &err, reason, sizeof(reason));
		if (ev.status == 404 && reason[0] == '\0')
			k8sfail_not_served(op->path, &err);
		if (op->tries > 0)
			error_wrap(&err, "tried %d times", op->tries + 1);
		k8sfail_describe(op->method, op->path, what, sizeof(what));
		error_wrap(&err, "%s", what);
		ev.err = &err;
	}
	op->busy = true;
	op->fn(op->arg, &ev);
	op_free(op);
}

static void try(void *arg);

static void
on_reply(struct k8s_op *op, const struct event *ev)
{
	struct web_op *w = op->web_op;
	struct event reply = *ev;
	long ms;

	op->web_op = NULL;
	if (op->stream) {
		reply.data = op->refusal.data != NULL ? op->refusal.data : "";
		reply.len = op->refusal.len;
	}
	if (ev->err != NULL || ev->status < 200 || ev->status > 299) {
		ms = pause_before(op, w, &reply);
		if (ms >= 0)
			op->timer = loop_timer_add(op->k->loop, ms, try, op);
		if (op->timer != NULL)
			return;
	}
	finish(op, &reply);
}

static void
on_web(void *arg, const struct event *ev)
{
	struct k8s_op *op = arg;

	if (ev->type == EVENT_REPLY) {
		on_reply(op, ev);
		return;
	}
	if (ev->status < 200 || ev->status > 299) {
		if (ev->len <= buf_room(&op->refusal))
			buf_put(&op->refusal, ev->data, ev->len);
		return;
	}
	op->delivered = true;
	op->busy = true;
	op->fn(op->arg, ev);
	op->busy = false;
	if (op->dead)
		op_free(op);
}

static int
send_it(struct k8s_op *op, struct error *err)
{
	struct web_req req = { .method = op->method, .body = op->body,
	    .stream = op->stream };
	const char *headers[K8S_FIELDS + 2] = { NULL };
	struct k8s_target t;
	long left;

	if (op->deadline != 0) {
		left = op->deadline - mono_ms();
		req.total_ms = left > 0 ? left : 1;
	}
	/* Where one kept connection is dead, they often all are. */
	req.fresh = op->tries > 0;
	if (op->stream)
		req.first_byte_ms = req.idle_ms = -1;
	if (op->body != NULL)
		req.body_len = strlen(op->body);
	if (k8s_target(op->k, op->path, &t, &req, err) == -1)
		return -1;
	headers[0] = strcmp(op->method, "PATCH") == 0 ?
	    "Content-Type: application/merge-patch+json" :
	    "Content-Type: application/json";
	memcpy(headers + 1, t.headers, sizeof(t.headers));
	req.headers = op->body != NULL ? headers : headers + 1;
	op->generation = t.generation;
	op->web_op = web_send(op->k->web, &req, on_web, op, err);
	k8s_release(&t);
	return op->web_op != NULL ? 0 : -1;
}

/* With the credentials that there are now. */
static void
go(void *arg)
{
	struct k8s_op *op = arg;
	struct event ev = { .reason = "", .data = "" };

	op->wait = NULL;
	buf_reset(&op->refusal, 0);
	if (op->failed.code == ERR_NONE && send_it(op, &op->failed) == 0)
		return;
	ev.err = &op->failed;
	finish(op, &ev);
}

static bool
waits(struct k8s_op *op)
{
	long ms = op->deadline != 0 ? op->deadline - mono_ms() : TOTAL_MS;

	op->wait = k8s_await(op->k, ms > 0 ? ms : 0, go, op);
	return op->wait != NULL;
}

static void
try(void *arg)
{
	struct k8s_op *op = arg;

	op->timer = NULL;
	if (!waits(op))
		go(op);
}

static struct k8s_op *
op_new(struct k8s *k, const char *method, const char *path, const char *body,
    event_fn *fn, void *arg)
{
	struct k8s_op *op = calloc(1, sizeof(*op));

	if (op == NULL)
		return NULL;
	op->k = k;
	op->fn = fn;
	op->arg = arg;
	buf_init(&op->refusal, ERROR_BODY);
	op->method = strdup(method);
	op->path = strdup(path);
	op->body = body != NULL ? strdup(body) : NULL;
	if (op->method == NULL || op->path == NULL ||
	    (body != NULL && op->body == NULL)) {
		op_free(op);
		return NULL;
	}
	op->next = k->ops;
	op->prev = &k->ops;
	if (op->next != NULL)
		op->next->prev = &op->next;
	k->ops = op;
	return op;
}

static struct k8s_op *
launch(struct k8s_op *op)
{
	if (op == NULL || waits(op) || send_it(op, &op->failed) == 0)
		return op;
	/* Reported from the loop, like everything else. */
	if ((op->timer = loop_timer_add(op->k->loop, 0, try, op)) != NULL)
		return op;
	op_free(op);
	return NULL;
}

struct k8s_op *
k8s_send(struct k8s *k, const char *method, const char *path,
    const char *body, long total_ms, event_fn *done, void *arg)
{
	struct k8s_op *op = op_new(k, method, path, body, done, arg);

	if (op != NULL)
		op->deadline = mono_ms() + (total_ms > 0 ? total_ms :
		    TOTAL_MS);
	return launch(op);
}

struct k8s_op *
k8s_stream(struct k8s *k, const char *path, event_fn *fn, void *arg)
{
	struct k8s_op *op = op_new(k, "GET", path, NULL, fn, arg);

	if (op != NULL)
		op->stream = true;
	return launch(op);
}
