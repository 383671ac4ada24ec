/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "audit.h"
#include "auth.h"
#include "budget.h"
#include "buf.h"
#include "call.h"
#include "config.h"
#include "digest.h"
#include "env.h"
#include "error.h"
#include "event.h"
#include "front-http.h"
#include "front-own.h"
#include "guard.h"
#include "http.h"
#include "httpd.h"
#include "intake.h"
#include "jsonw.h"
#include "k8s.h"
#include "log.h"
#include "loop.h"
#include "mcp.h"
#include "mono.h"
#include "place.h"
#include "sse.h"
#include "stash.h"
#include "stats.h"
#include "tls.h"

enum {
	REVIEW_MS = 10000,
	SEEN_MS = 60000,	/* a reviewed token is believed */
};

/* --- callers ------------------------------------------------------------ */

static void
on_over(void *arg, const struct call *c, const struct error *err,
    bool cancelled)
{
	const struct as *as = arg;
	const struct front_http *f = as->h->f;
	struct place p = place_of(c);

	if (f->audit)
		audit_call(f->log, c, &p, err, cancelled);
	stats_call(f->stats, f->rows->tools, c->tool, cancelled ?
	    STATS_CANCELLED : err != NULL ? STATS_ERROR : c->is_error ?
	    STATS_FAILED : STATS_OK,
	    c->started_ms == 0 ? 0 : mono_ms() - c->started_ms);
}

/* Those of the caller's that the operator's list has, too. */
static char *
common(const char *callers, const char *operators)
{
	struct buf list;
	char name[64];

	buf_init(&list, strlen(callers) + 1);
	buf_puts(&list, "");
	while (config_item(&callers, name, sizeof(name)))
		if (config_allows(operators, name))
			buf_printf(&list, "%s%s", list.len > 0 ? "," : "",
			    name);
	if (buf_ok(&list))
		return list.data != NULL ? list.data : strdup("");
	buf_free(&list);
	return NULL;
}

static struct as *
as_new(struct front *h)
{
	const struct env *env = h->f->env;
	struct as *as = calloc(1, sizeof(*as));

	if (as == NULL)
		return NULL;
	as->h = h;
	as->who = h->who;
	as->caller = (struct mcp_caller){ .name = as->who.name,
	    .over = on_over, .arg = as };
	if (as->who.misnamed)
		as->caller.refusal = "sandbox exec failed: invalid session "
		    "ID: X-Session-ID must be 1 to 63 letters, digits, '-', "
		    "'_' or '.'";
	if (env != NULL) {
		as->config = *env->config;
		if (h->who.namespaces != NULL) {
			as->namespaces = common(h->who.namespaces,
			    env->config->namespaces);
			if (as->namespaces == NULL) {
				free(as);
				return NULL;
			}
			as->config.namespaces = as->namespaces;
		}
		as->env = *env;
		as->env.config = &as->config;
		as->env.http = true;
		as->env.session_sent = h->who.sent || !h->who.chooses;
		(void)snprintf(as->env.session, sizeof(as->env.session), "%s",
		    h->who.session);
		as->caller.env = &as->env;
	}
	as->next = h->all;
	h->all = as;
	return as;
}

/* Calls keep what they work with, so it stays until the connection ends. */
struct as *
front_as(struct front *h)
{
	struct as *as;

	for (as = h->all; as != NULL; as = as->next)
		if (strcmp(as->who.name, h->who.name) == 0 &&
		    strcmp(as->who.session, h->who.session) == 0 &&
		    as->who.sent == h->who.sent &&
		    as->who.misnamed == h->who.misnamed &&
		    as->who.namespaces == h->who.namespaces)
			return as;
	return as_new(h);
}

/* --- answers ------------------------------------------------------------ */

void
front_answer(struct front *h, int status, const char *type, const char *body)
{
	httpd_answer(h->d, status, type, NO_STORE, body, strlen(body));
}

void
front_refuse(struct front *h, int status, const char *extra, const char *why)
{
	h->status = status;
	h->extra = extra;
	h->why = why;
}

/* Once a connection, so that nobody fills the log. */
static void
tell_refusal(struct front *h)
{
	if (!h->f->audit || h->told || (h->status != 401 && h->status != 403))
		return;
	h->told = true;
	log_line(h->f->log, LOG_NOTE, "audit: caller=%s verdict=%d: %s",
	    h->who.name[0] != '\0' ? h->who.name : h->peer.name, h->status,
	    h->why);
}

void
front_answer_refusal(struct front *h)
{
	char text[256];
	int n;

	tell_refusal(h);
	n = snprintf(text, sizeof(text), "%s\n", h->why);
	httpd_answer(h->d, h->status, TEXT, h->extra, text, (size_t)n);
}

/* --- MCP ---------------------------------------------------------------- */

static void
event(struct front *h, const char *json, size_t len)
{
	static const char head[] = "event: message\ndata: ";
	const struct spilled_in *far = mcp_far(h->mcp);
	struct spilled_in moved;
	struct buf b;

	if (!httpd_begun(h->d))
		httpd_begin(h->d, "text/event-stream", EVENTS);
	buf_init(&b, sizeof(head) + len + 2);
	buf_put(&b, head, sizeof(head) - 1);
	buf_put(&b, json, len);
	buf_puts(&b, "\n\n");
	if (far != NULL) {
		moved = *far;
		for (unsigned i = 0; i < moved.n; i++)
			moved.at[i] += sizeof(head) - 1;
		far = &moved;
	}
	if (buf_ok(&b))
		httpd_put_far(h->d, &b, far);
	buf_free(&b);
}

static void
on_send(void *arg, long ticket, struct buf *json, bool last)
{
	struct front *h = arg;
	size_t len = json->len;

	if (h->box != NULL && len > 0 &&
	    (last || httpd_waiting(h->d) < LIMIT_REPLY))
		event(h, json->data, len);
	if (h->box != NULL || !h->owed || ticket != h->ticket)
		return;
	if (!last) {
		/* A client that does not read gets on without news. */
		if (h->accepts & ACCEPT_STREAM &&
		    httpd_waiting(h->d) < LIMIT_REPLY)
			event(h, json->data, len);
		return;
	}
	h->owed = false;
	if (httpd_begun(h->d) || (len > 0 && mcp_status(h->mcp) == 200 &&
	    !(h->accepts & ACCEPT_JSON))) {
		if (len > 0)
			event(h, json->data, len);
		httpd_end(h->d);
	} else if (len > 0) {
		httpd_answer_far(h->d, mcp_status(h->mcp), JSON, NO_STORE,
		    json, mcp_far(h->mcp));
	} else if (h->stopped) {
		front_answer(h, 503, TEXT, "the server is stopping\n");
	} else {
		httpd_answer(h->d, 202, NULL, NULL, NULL, 0);
	}
}

/* Said twice, it is in doubt which of them others have read: no value, then,
 * that anything could equal. */
static const char *
field(void *arg, const char *name)
{
	const struct http *http = arg;

	return http_count(http, name) > 1 ? "=?base64?=?=" :
	    http_field(http, name);
}

static void
run_mcp(struct front *h)
{
	union {
		const struct http *in;
		void *out;
	} cast = { .in = h->http };
	struct mcp_http http = {
		.version = field(cast.out, "MCP-Protocol-Version"),
		.method = field(cast.out, "Mcp-Method"),
		.name = field(cast.out, "Mcp-Name"),
		.field = field, .arg = cast.out,
	};
	struct as *as = front_as(h);

	if (as == NULL) {
		front_answer(h, 500, TEXT, "out of memory\n");
		return;
	}
	mcp_caller(h->mcp, &as->caller);
	h->owed = true;
	h->ticket++;
	intake_serve(&h->in, h->mcp, h->ticket, &http);
	if (h->owed && !mcp_waits(h->mcp, h->ticket)) {
		h->owed = false;
		httpd_answer(h->d, 202, NULL, NULL, NULL, 0);
	}
}

/* --- what is let in ----------------------------------------------------- */

static const struct route routes[] = {
	{ "/mcp", false, "POST", false, run_mcp },
	{ "/", false, "POST", false, run_mcp },
	{ "/healthz", false, "GET, HEAD", true, front_healthz },
	{ "/readyz", false, "GET, HEAD", true, front_readyz },
	{ "/live", false, NULL, true, front_live },
	{ "/health", false, NULL, true, front_health },
	{ "/metrics", false, NULL, true, front_metrics },
	{ "/sessions", true, "DELETE", false, front_sessions },
	{ "/.well-known/oauth-protected-resource", true, "GET, HEAD", true,
	    front_metadata },
};

static const struct route stream = { "", true, "GET, POST", false,
	front_stream };

/* The path of "/path?query" or of "http://host/path?query". */
static void
path_of(struct front *h)
{
	const char *target = h->http->target;
	size_t n = strncasecmp(target, "http://", 7) == 0 ? 7 :
	    strncasecmp(target, "https://", 8) == 0 ? 8 : 0;

	if (n > 0) {
		target += n;
		target += strcspn(target, "/?");
	}
	n = strcspn(target, "?");
	if (n >= sizeof(h->path))
		n = 0;
	memcpy(h->path, target, n);
	h->path[n] = '\0';
}

static bool
fits(const struct route *r, const char *path)
{
	size_t n = strlen(r->path);

	return strncmp(path, r->path, n) == 0 &&
	    (path[n] == '\0' || (r->below && path[n] == '/'));
}

static bool
method_ok(const char *methods, const char *method)
{
	char one[16];

	while (methods != NULL && config_item(&methods, one, sizeof(one)))
		if (strcmp(one, method) == 0)
			return true;
	return methods == NULL;
}

/* Any path, but those of others; a post to /mcp may be of a newer client. */
static bool
is_stream(const struct front *h)
{
	if (h->f->meet == -1)
		return false;
	if (h->route == NULL)
		return true;
	return h->route->run == run_mcp && (strcmp(h->path, "/mcp") != 0 ||
	    strcmp(h->http->method, "GET") == 0 ||
	    strchr(h->http->target, '?') != NULL);
}

static void
find_route(struct front *h)
{
	static const char *const allow[][2] = {
		{ "POST", "Allow: POST\r\n" },
		{ "DELETE", "Allow: DELETE\r\n" },
		{ "GET, HEAD", "Allow: GET, HEAD\r\n" },
		{ "GET, POST", "Allow: GET, POST\r\n" },
	};

	path_of(h);
	h->route = NULL;
	for (size_t i = 0; i < sizeof(routes) / sizeof(*routes); i++)
		if (fits(&routes[i], h->path))
			h->route = &routes[i];
	if (is_stream(h))
		h->route = &stream;
	if (h->route == NULL) {
		front_refuse(h, 404, NULL, "not found");
		return;
	}
	if (method_ok(h->route->methods, h->http->method))
		return;
	for (size_t i = 0; i < sizeof(allow) / sizeof(*allow); i++)
		if (strcmp(h->route->methods, allow[i][0]) == 0)
			front_refuse(h, 405, allow[i][1], "method not allowed");
}

static void
check_browser(struct front *h)
{
	const char *host = http_field(h->http, "Host");
	const struct front_http *f = h->f;
	bool here = h->peer.kind == PEER_LOOPBACK;

	if (!guard_host(host, f->hosts, here))
		front_refuse(h, 403, NULL, "this host name is not served");
	else if (http_count(h->http, "Origin") > 1 ||
	    !guard_origin(http_field(h->http, "Origin"), host, f->origins,
	    f->hosts, here))
		front_refuse(h, 403, NULL, "this origin is not served");
}

static void
check_session(struct front *h)
{
	const char *id = http_field(h->http, "X-Session-ID");
	int status = auth_session(&h->who, id);

	h->who.sent = id != NULL && *id != '\0';
	if (status != 0)
		front_refuse(h, status, NULL, "this session is not yours");
}

/* What the cluster has said of a token holds for the next request, too. */
static enum auth_answer
remembered(struct front *h)
{
	const char *token = auth_bearer(h->http);
	unsigned char digest[DIGEST_SIZE];

	if (h->seen_ms <= mono_ms())
		return AUTH_REVIEW;
	digest_raw(token, strlen(token), digest);
	if (memcmp(digest, h->seen, sizeof(digest)) != 0)
		return AUTH_REVIEW;
	h->who = h->seen_who;
	return AUTH_YES;
}

static void
judge(struct front *h, enum auth_answer a)
{
	if (a == AUTH_NO)
		front_refuse(h, 401, h->f->auth->challenge, "unauthorized");
	else if (a == AUTH_FORBIDDEN)
		front_refuse(h, 403, NULL, "this caller may not call here");
	else
		check_session(h);
}

static void
check_caller(struct front *h)
{
	static const struct auth nobody;
	const struct auth *auth = h->f->auth;
	enum auth_answer a;

	a = auth_check(auth == NULL ? &nobody : auth, &h->peer, h->http,
	    &h->who);
	if (a == AUTH_REVIEW && h->f->env != NULL)
		a = remembered(h);
	h->review = a == AUTH_REVIEW;
	if (!h->review)
		judge(h, a);
}

static void
check_content(struct front *h)
{
	h->accepts = guard_accept(http_field(h->http, "Accept"));
	if (h->accepts == 0)
		front_refuse(h, 406, NULL, "answers are application/json or "
		    "text/event-stream");
	else if (!guard_is_json(http_field(h->http, "Content-Type")) ||
	    http_count(h->http, "Content-Type") > 1 ||
	    http_field(h->http, "Content-Encoding") != NULL)
		front_refuse(h, 415, NULL, "the body must be application/json");
}

static bool
on_head(void *arg, const struct http *http, uint64_t *max)
{
	struct front *h = arg;
	bool posted;

	h->http = http;
	h->status = 0;
	h->extra = h->why = NULL;
	h->review = false;
	h->who = (struct caller){ .namespaces = NULL };
	if (h->tls != NULL)
		(void)snprintf(h->peer.certificate,
		    sizeof(h->peer.certificate), "%s", tls_name(h->tls));
	find_route(h);
	if (h->status == 0 && !h->route->open)
		check_browser(h);
	if (h->status == 0 && !h->route->open)
		check_caller(h);
	posted = h->status == 0 && (h->route->run == run_mcp ||
	    h->route->run == front_stream) &&
	    strcmp(http->method, "POST") == 0;
	if (posted)
		check_content(h);
	intake_drop(&h->in);
	buf_reset(&h->letter, 0);
	*max = !posted ? 4096 : h->route->run != run_mcp || h->review ||
	    stash_why(h->in.stash) != NULL ? LIMIT_MESSAGE :
	    LIMIT_SPOOL_MESSAGE;
	return h->status == 0;
}

/* For a minute, but no longer than it lives. */
static long
believed_until(const char *token)
{
	long ends = auth_ends(token), now = (long)time(NULL);

	if (ends == 0 || ends - now > SEEN_MS / 1000)
		return mono_ms() + SEEN_MS;
	return ends > now ? mono_ms() + (ends - now) * 1000 : 0;
}

static void
on_review(void *arg, const struct event *ev)
{
	struct front *h = arg;
	struct error err = { .code = ERR_NONE };
	const char *token;
	enum auth_answer a;

	h->op = NULL;
	if (ev->err != NULL) {
		log_line(h->f->log, LOG_WARN, "TokenReview: %s",
		    ev->err->text);
		front_answer(h, 503, TEXT, "the token can't be verified now\n");
		return;
	}
	a = auth_reviewed(h->f->auth, ev->data, ev->len, &h->who, &err);
	if (a == AUTH_YES) {
		token = auth_bearer(h->http);
		digest_raw(token, strlen(token), h->seen);
		h->seen_who = h->who;
		h->seen_ms = believed_until(token);
	} else {
		log_line(h->f->log, LOG_NOTE, "TokenReview: %s", err.text);
	}
	judge(h, a);
	if (h->status != 0)
		front_answer_refusal(h);
	else
		h->route->run(h);
}

static void
begin_review(struct front *h)
{
	struct jsonw w;
	struct buf b;

	buf_init(&b, LIMIT_TOKEN * 2);
	jsonw_init(&w, &b);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "apiVersion", "authentication.k8s.io/v1");
	jsonw_str(&w, "kind", "TokenReview");
	jsonw_object(&w, "spec");
	jsonw_str(&w, "token", auth_bearer(h->http));
	jsonw_end(&w);
	jsonw_end(&w);
	if (buf_ok(&b) && h->f->env != NULL)
		h->op = k8s_send(h->f->env->k8s, "POST",
		    "/apis/authentication.k8s.io/v1/tokenreviews", b.data,
		    REVIEW_MS, on_review, h);
	buf_wipe(&b);
	if (h->op == NULL)
		front_answer(h, 503, TEXT, "the token can't be verified now\n");
}

static bool
on_body(void *arg, const char *data, size_t len)
{
	struct front *h = arg;

	if (h->route->run != run_mcp) {
		buf_put(&h->letter, data, len);
		return buf_ok(&h->letter);
	}
	intake_feed(&h->in, data, len);
	return !intake_too_long(&h->in);
}

static void
on_request(void *arg, const struct http *http)
{
	struct front *h = arg;

	(void)http;
	if (h->status != 0)
		front_answer_refusal(h);
	else if (h->review)
		begin_review(h);
	else
		h->route->run(h);
}

static void
on_quiet(void *arg)
{
	struct front *h = arg;

	if (!h->owed || !(h->accepts & ACCEPT_STREAM))
		return;
	if (!httpd_begun(h->d))
		httpd_begin(h->d, "text/event-stream", EVENTS);
	httpd_put(h->d, ":\n\n", 3);
}

static void
on_gone(void *arg)
{
	struct front *h = arg;

	k8s_cancel(h->op);
	h->op = NULL;
	h->ending = false;
	sse_cancel(h->courier);
	h->courier = NULL;
	if (h->box != NULL) {
		front_end_stream(h);
		mcp_end(h->mcp);
	}
	if (h->owed && !mcp_modern(h->mcp))
		return;
	if (h->owed) {
		h->owed = false;
		mcp_cancel_ticket(h->mcp, h->ticket);
	}
	httpd_drop(h->d);
}

static void
on_answered(void *arg, int status)
{
	struct front *h = arg;

	stats_answer(h->f->stats, status);
}

/* --- the connection ----------------------------------------------------- */

static void
on_signal(void *arg, short revents)
{
	struct front *h = arg;
	struct signalfd_siginfo info;

	(void)revents;
	if (read(h->f->signals, &info, sizeof(info)) != sizeof(info) ||
	    h->stop_ms != -1)
		return;
	h->stop_ms = mono_ms() + h->f->drain_ms;
	httpd_stop(h->d);
}

static int
open_all(struct front *h, const struct front_http *f, struct error *err)
{
	static const struct httpd_calls calls = {
		on_head, on_body, on_request, on_quiet, on_gone, on_answered
	};

	*h = (struct front){ .f = f, .stop_ms = -1 };
	buf_init(&h->letter, LIMIT_MESSAGE);
	intake_init(&h->in, f->env == NULL ? NULL : f->env->stash);
	auth_peer(&h->peer, f->in);
	/* What a socket of this machine carries, nobody else reads. */
	if (f->tls != NULL && (h->peer.kind == PEER_LOOPBACK ||
	    h->peer.kind == PEER_OTHER) && (h->tls = tls_accept(f->tls,
	    f->in, f->out, err)) == NULL)
		return -1;
	if ((h->mcp = mcp_open(f->loop, f->rows, NULL, on_send, h,
	    err)) == NULL || (h->d = httpd_open(f->loop, f->in, f->out,
	    h->tls, &calls, h, err)) == NULL)
		return -1;
	if (f->signals == -1)
		return 0;
	h->sig = loop_fd_add(f->loop, f->signals, POLLIN, on_signal, h);
	return h->sig != NULL ? 0 :
	    error_set(err, ERR_SYSTEM, "out of memory");
}

static long
sooner(long a, long b)
{
	return a == -1 || (b != -1 && b < a) ? b : a;
}

/* Until the client has gone and nothing is left to clean up after it. */
static int
turn(struct front *h, struct error *err)
{
	long until = -1, now, next;

	while (!httpd_done(h->d) || mcp_live(h->mcp) > 0) {
		/* Half a message of a client that is gone. */
		if (httpd_done(h->d))
			intake_drop(&h->in);
		now = mono_ms();
		if (until == -1 && httpd_done(h->d) && !h->owed)
			until = now + LIMIT_STOP_MS + LIMIT_DRAIN_MS;
		if (h->stop_ms != -1 && now >= h->stop_ms && !h->stopped) {
			h->stopped = true;
			mcp_end(h->mcp);
			until = sooner(until, now + LIMIT_DRAIN_MS);
		}
		if (h->box != NULL && h->stop_ms != -1 &&
		    (h->stopped || mcp_live(h->mcp) == 0)) {
			front_end_stream(h);
			httpd_end(h->d);
			continue;
		}
		if (until != -1 && now >= until)
			break;
		next = sooner(until, h->stopped ? -1 : h->stop_ms);
		if (loop_turn(h->f->loop, next == -1 ? -1 : next - now,
		    err) == -1)
			return -1;
	}
	return 0;
}

int
front_http(const struct front_http *f, struct error *err)
{
	struct front h;
	struct as *as;
	int r;

	r = open_all(&h, f, err);
	if (r == 0)
		r = turn(&h, err);
	if (r == 0 && (mcp_live(h.mcp) > 0 || mcp_left(h.mcp) > 0)) {
		log_line(f->log, LOG_ERROR, "%zu calls were not cleaned up in "
		    "time, %zu objects were left", mcp_live(h.mcp),
		    mcp_left(h.mcp));
		r = 2;
	}
	if (f->audit && h.tls != NULL && tls_why(h.tls) != NULL)
		log_line(f->log, LOG_NOTE, "TLS with %s: %s", h.peer.name,
		    tls_why(h.tls));
	k8s_cancel(h.op);
	sse_cancel(h.courier);
	sse_close(h.box);
	loop_fd_del(h.sig);
	httpd_close(h.d);
	tls_close(h.tls);
	mcp_close(h.mcp);
	intake_free(&h.in);
	buf_free(&h.letter);
	while ((as = h.all) != NULL) {
		h.all = as->next;
		free(as->namespaces);
		free(as);
	}
	return r;
}
