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

#include <mbedtls/sha256.h>

#include "audit.h"
#include "auth.h"
#include "budget.h"
#include "buf.h"
#include "call.h"
#include "config.h"
#include "env.h"
#include "error.h"
#include "event.h"
#include "front-http.h"
#include "guard.h"
#include "http.h"
#include "httpd.h"
#include "intake.h"
#include "json.h"
#include "jsonw.h"
#include "k8s.h"
#include "log.h"
#include "loop.h"
#include "mcp.h"
#include "meet.h"
#include "mono.h"
#include "place.h"
#include "sse.h"
#include "stash.h"
#include "stats.h"
#include "tls.h"

enum {
	PROBE_MS = 5000, REVIEW_MS = 10000,
	SEEN_MS = 60000,	/* a reviewed token is believed */
};

#define TEXT "text/plain; charset=utf-8"
#define JSON "application/json"
#define NO_STORE "Cache-Control: no-store\r\n"
#define EVENTS "Cache-Control: no-cache, no-transform\r\n" \
	"X-Accel-Buffering: no\r\n"

/* What the calls of one caller, in one of its sessions, work with. */
struct as {
	struct as *next;
	struct front *h;
	struct caller who;
	struct env env;
	struct config config;
	char *namespaces;	/* owned */
	struct mcp_caller caller;
};

struct route;

struct front {
	const struct front_http *f;
	struct mcp *mcp;
	struct httpd *d;
	struct tls_conn *tls;
	struct loop_fd *sig;
	struct peer peer;
	struct as *all;

	/* The request under way. */
	const struct route *route;
	const struct http *http;
	struct intake in;
	struct buf letter;		/* a body for another's stream */
	struct caller who;
	char path[512];
	char session[64];		/* the one to end */
	int status;			/* refused with it; 0: it is not */
	const char *extra, *why;
	bool review;			/* the token is asked about first */
	int accepts;
	struct k8s_op *op;
	bool ending;			/* f->end_session() is under way */
	bool owed;			/* the answer is mcp's */
	long ticket;

	/* The transport of 2024-11-05. */
	struct sse_box *box;		/* this is the stream, as long as it lives */
	struct sse_courier *courier;	/* this is a post to another's */

	/* The token that was asked about last. */
	unsigned char seen[32];
	struct caller seen_who;
	long seen_ms;			/* until then, 0: none */

	bool told;			/* of one refusal, on this connection */
	long stop_ms;			/* calls are cancelled then, or -1 */
	bool stopped;			/* they were */
};

struct route {
	const char *path;
	bool below;			/* and everything below it */
	const char *methods;		/* as in Allow; NULL: any */
	bool open;			/* for everybody */
	void (*run)(struct front *h);
};

/* --- callers ---------------------------------------------------------------- */

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
	size_t n;

	buf_init(&list, strlen(callers) + 1);
	buf_puts(&list, "");
	for (; *callers != '\0'; callers += n) {
		callers += strspn(callers, ", ");
		n = strcspn(callers, ", ");
		if (n == 0 || n >= sizeof(name))
			continue;
		memcpy(name, callers, n);
		name[n] = '\0';
		if (config_allows(operators, name))
			buf_printf(&list, "%s%s", list.len > 0 ? "," : "",
			    name);
	}
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
static struct as *
as_find(struct front *h)
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

/* --- answers ---------------------------------------------------------------- */

static void
answer(struct front *h, int status, const char *type, const char *body)
{
	httpd_answer(h->d, status, type, NO_STORE, body, strlen(body));
}

static void
refuse(struct front *h, int status, const char *extra, const char *why)
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

static void
answer_refusal(struct front *h)
{
	char text[256];
	int n;

	tell_refusal(h);
	n = snprintf(text, sizeof(text), "%s\n", h->why);
	httpd_answer(h->d, h->status, TEXT, h->extra, text, (size_t)n);
}

/* --- MCP -------------------------------------------------------------------- */

static void
event(struct front *h, const char *json, size_t len)
{
	static const char head[] = "event: message\ndata: ";
	struct buf b;

	if (!httpd_begun(h->d))
		httpd_begin(h->d, "text/event-stream", EVENTS);
	buf_init(&b, sizeof(head) + len + 2);
	buf_put(&b, head, sizeof(head) - 1);
	buf_put(&b, json, len);
	buf_puts(&b, "\n\n");
	if (buf_ok(&b))
		httpd_put(h->d, b.data, b.len);
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
		httpd_answer(h->d, mcp_status(h->mcp), JSON, NO_STORE,
		    json->data, len);
	} else if (h->stopped) {
		answer(h, 503, TEXT, "the server is stopping\n");
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
	struct as *as = as_find(h);

	if (as == NULL) {
		answer(h, 500, TEXT, "out of memory\n");
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

/* --- the transport of 2024-11-05 --------------------------------------------- */

static enum sse_verdict
on_post(void *arg, const char *caller, const char *body, size_t len)
{
	struct front *h = arg;

	if (strcmp(caller, h->who.name) != 0)
		return SSE_NOBODY;
	if (h->stop_ms != -1 || httpd_waiting(h->d) >= LIMIT_REPLY)
		return SSE_BUSY;
	mcp_message(h->mcp, body, len, NULL, ++h->ticket, NULL);
	return SSE_TAKEN;
}

static void
open_stream(struct front *h)
{
	struct as *as = as_find(h);
	char name[MEET_NAME_SIZE], first[640];
	int n;

	h->accepts = guard_accept(http_field(h->http, "Accept"));
	if (!(h->accepts & ACCEPT_STREAM)) {
		answer(h, 406, TEXT, "answers are text/event-stream\n");
		return;
	}
	if (as != NULL)
		h->box = sse_open(h->f->loop, h->f->meet, name, on_post, h);
	if (h->box == NULL) {
		answer(h, 503, TEXT, "no stream can be opened now\n");
		return;
	}
	mcp_caller(h->mcp, &as->caller);
	h->owed = true;
	n = snprintf(first, sizeof(first), "event: endpoint\ndata: "
	    "%s?sessionid=%s\n\n", h->path, name);
	httpd_begin(h->d, "text/event-stream", EVENTS);
	httpd_put(h->d, first, (size_t)n);
}

static void
end_stream(struct front *h)
{
	sse_close(h->box);
	h->box = NULL;
	h->owed = false;
}

static void
on_carried(void *arg, enum sse_verdict v)
{
	struct front *h = arg;

	h->courier = NULL;
	if (v == SSE_TAKEN)
		answer(h, 202, TEXT, "Accepted\n");
	else if (v == SSE_BUSY)
		answer(h, 503, TEXT, "the stream can't take it now\n");
	else
		answer(h, 404, TEXT, "session not found\n");
}

static void
run_stream(struct front *h)
{
	const char *query = strchr(h->http->target, '?');
	char name[64];
	long n;

	if (strcmp(h->http->method, "GET") == 0) {
		open_stream(h);
		return;
	}
	n = http_query(query == NULL ? NULL : query + 1, "sessionid", name,
	    sizeof(name));
	if (n == -2) {
		answer(h, 400, TEXT, "sessionid must be given: GET opens a "
		    "stream that says it\n");
		return;
	}
	if (n < 0 || !meet_is_name(name)) {
		on_carried(h, SSE_NOBODY);
		return;
	}
	h->courier = sse_carry(h->f->loop, h->f->meet, name, h->who.name,
	    h->letter.len > 0 ? h->letter.data : "", h->letter.len,
	    on_carried, h);
	if (h->courier == NULL)
		on_carried(h, SSE_BUSY);
}

/* --- probes ----------------------------------------------------------------- */

static void
run_healthz(struct front *h)
{
	answer(h, 200, TEXT, "ok\n");
}

static void
run_live(struct front *h)
{
	answer(h, 200, JSON, "{\"status\":\"alive\"}\n");
}

static void
answer_ready(struct front *h, const struct error *err)
{
	if (err == NULL) {
		answer(h, 200, JSON, "{\"ready\":true}");
		return;
	}
	log_line(h->f->log, LOG_WARN, "/readyz: %s", err->text);
	answer(h, 503, JSON, "{\"ready\":false,\"reason\":"
	    "\"kubernetes API unavailable\"}");
}

static void
on_ready(void *arg, const struct event *ev)
{
	struct front *h = arg;

	h->op = NULL;
	answer_ready(h, ev->err);
}

static void
answer_health(struct front *h, const struct error *err)
{
	time_t now = time(NULL);
	char date[32];
	struct tm tm;
	struct jsonw w;
	struct buf b;

	(void)gmtime_r(&now, &tm);
	(void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &tm);
	buf_init(&b, 8192);
	jsonw_init(&w, &b);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "status", err == NULL ? "healthy" : "unhealthy");
	if (err != NULL)
		jsonw_str(&w, "error", err->text);
	jsonw_str(&w, "time", date);
	jsonw_end(&w);
	buf_puts(&b, "\n");
	answer(h, err == NULL ? 200 : 503, JSON, buf_ok(&b) ? b.data : "");
	buf_free(&b);
}

static void
on_health(void *arg, const struct event *ev)
{
	struct front *h = arg;

	h->op = NULL;
	answer_health(h, ev->err);
}

/* GET of a path; done is called with an error where that is not possible. */
static void
probe(struct front *h, const char *path, event_fn *done)
{
	struct error err;
	struct event failed = { .type = EVENT_REPLY, .err = &err };

	if (h->f->env != NULL)
		h->op = k8s_send(h->f->env->k8s, "GET", path, NULL, PROBE_MS,
		    done, h);
	if (h->op != NULL)
		return;
	error_set(&err, ERR_SYSTEM, "the cluster can't be asked");
	done(h, &failed);
}

static void
run_readyz(struct front *h)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "/apis/extensions.agents.x-k8s.io/"
	    "v1beta1/namespaces/%.63s/sandboxclaims?limit=1",
	    h->f->env == NULL ? "" : h->f->env->config->probe_namespace);
	probe(h, path, on_ready);
}

static void
run_health(struct front *h)
{
	const char *namespace = h->f->health_namespace;
	char path[128];

	if (namespace == NULL && h->f->env != NULL)
		namespace = h->f->env->namespace;
	(void)snprintf(path, sizeof(path), "/api/v1/namespaces/%.63s",
	    namespace == NULL ? "" : namespace);
	probe(h, path, on_health);
}

static void
run_metrics(struct front *h)
{
	struct buf b;

	buf_init(&b, 256 << 10);
	buf_puts(&b, "# HELP mcp_sandbox_info The version.\n"
	    "# TYPE mcp_sandbox_info gauge\n");
	buf_printf(&b, "mcp_sandbox_info{version=\"%s\"} 1\n",
	    h->f->rows->version);
	stats_print(h->f->stats, h->f->rows->tools, &b);
	httpd_answer(h->d, 200, "text/plain; version=0.0.4; charset=utf-8",
	    NO_STORE, b.data, buf_ok(&b) ? b.len : 0);
	buf_free(&b);
}

static void
run_metadata(struct front *h)
{
	const struct auth *a = h->f->auth;

	if (a == NULL || a->metadata == NULL)
		answer(h, 404, TEXT, "not found\n");
	else
		httpd_answer(h->d, 200, JSON, NULL, a->metadata,
		    a->metadata_len);
}

/* --- sessions --------------------------------------------------------------- */

static void
on_ended(void *arg, const struct error *err)
{
	struct front *h = arg;

	if (!h->ending)
		return;
	h->ending = false;
	if (err == NULL) {
		httpd_answer(h->d, 204, NULL, NULL, NULL, 0);
		return;
	}
	log_line(h->f->log, LOG_WARN, "session %s: %s", h->session, err->text);
	answer(h, 500, TEXT, "failed to end session\n");
}

static bool
session_ok(const char *id)
{
	size_t len = strlen(id);

	return len >= 1 && len <= 63 && id[0] != '-' && id[len - 1] != '-' &&
	    strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

static void
run_sessions(struct front *h)
{
	const char *id = strchr(h->path + 1, '/');
	struct error err;
	struct as *as;

	id = id == NULL ? "" : id + 1;
	if (h->f->end_session == NULL || h->f->env == NULL) {
		answer(h, 404, TEXT, "not found\n");
	} else if (*id == '\0' || strchr(id, '/') != NULL) {
		answer(h, 400, TEXT, "missing session ID\n");
	} else if (http_decode(id, strlen(id), h->session,
	    sizeof(h->session)) < 0 || !session_ok(h->session)) {
		answer(h, 400, TEXT, "invalid session ID format\n");
	} else if (auth_session(&h->who, h->session) != 0) {
		refuse(h, 403, NULL, "this session is not yours");
		answer_refusal(h);
	} else if ((as = as_find(h)) == NULL) {
		answer(h, 500, TEXT, "failed to end session\n");
	} else {
		h->ending = true;
		log_line(h->f->log, LOG_NOTE, "audit: caller=%s ends session "
		    "%s", h->who.name, h->session);
		if (h->f->end_session(&as->env, h->session, on_ended, h,
		    &err) == -1)
			on_ended(h, &err);
	}
}

/* --- what is let in --------------------------------------------------------- */

static const struct route routes[] = {
	{ "/mcp", false, "POST", false, run_mcp },
	{ "/", false, "POST", false, run_mcp },
	{ "/healthz", false, "GET, HEAD", true, run_healthz },
	{ "/readyz", false, "GET, HEAD", true, run_readyz },
	{ "/live", false, NULL, true, run_live },
	{ "/health", false, NULL, true, run_health },
	{ "/metrics", false, NULL, true, run_metrics },
	{ "/sessions", true, "DELETE", false, run_sessions },
	{ "/.well-known/oauth-protected-resource", true, "GET, HEAD", true,
	    run_metadata },
};

static const struct route stream = { "", true, "GET, POST", false,
	run_stream };

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
	size_t n, len = strlen(method);

	for (; methods != NULL && *methods != '\0'; methods += n) {
		methods += strspn(methods, ", ");
		n = strcspn(methods, ", ");
		if (n == len && strncmp(methods, method, n) == 0)
			return true;
	}
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
		refuse(h, 404, NULL, "not found");
		return;
	}
	if (method_ok(h->route->methods, h->http->method))
		return;
	for (size_t i = 0; i < sizeof(allow) / sizeof(*allow); i++)
		if (strcmp(h->route->methods, allow[i][0]) == 0)
			refuse(h, 405, allow[i][1], "method not allowed");
}

static void
check_browser(struct front *h)
{
	const char *host = http_field(h->http, "Host");
	const struct front_http *f = h->f;
	bool here = h->peer.kind == PEER_LOOPBACK;

	if (!guard_host(host, f->hosts, here))
		refuse(h, 403, NULL, "this host name is not served");
	else if (http_count(h->http, "Origin") > 1 ||
	    !guard_origin(http_field(h->http, "Origin"), host, f->origins,
	    f->hosts, here))
		refuse(h, 403, NULL, "this origin is not served");
}

static void
check_session(struct front *h)
{
	const char *id = http_field(h->http, "X-Session-ID");
	int status = auth_session(&h->who, id);

	h->who.sent = id != NULL && *id != '\0';
	if (status != 0)
		refuse(h, status, NULL, "this session is not yours");
}

static bool
digest_of(const char *token, unsigned char digest[32])
{
	return mbedtls_sha256((const unsigned char *)token, strlen(token),
	    digest, 0) == 0;
}

/* What the cluster has said of a token holds for the next request, too. */
static enum auth_answer
remembered(struct front *h)
{
	unsigned char digest[32];

	if (h->seen_ms <= mono_ms() || !digest_of(auth_bearer(h->http),
	    digest) || memcmp(digest, h->seen, sizeof(digest)) != 0)
		return AUTH_REVIEW;
	h->who = h->seen_who;
	return AUTH_YES;
}

static void
judge(struct front *h, enum auth_answer a)
{
	if (a == AUTH_NO)
		refuse(h, 401, h->f->auth->challenge, "unauthorized");
	else if (a == AUTH_FORBIDDEN)
		refuse(h, 403, NULL, "this caller may not call here");
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
		refuse(h, 406, NULL, "answers are application/json or "
		    "text/event-stream");
	else if (!guard_is_json(http_field(h->http, "Content-Type")) ||
	    http_count(h->http, "Content-Type") > 1 ||
	    http_field(h->http, "Content-Encoding") != NULL)
		refuse(h, 415, NULL, "the body must be application/json");
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
	    h->route->run == run_stream) &&
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
	enum auth_answer a;

	h->op = NULL;
	if (ev->err != NULL) {
		log_line(h->f->log, LOG_WARN, "TokenReview: %s",
		    ev->err->text);
		answer(h, 503, TEXT, "the token can't be verified now\n");
		return;
	}
	a = auth_reviewed(h->f->auth, ev->data, ev->len, &h->who, &err);
	if (a == AUTH_YES && digest_of(auth_bearer(h->http), h->seen)) {
		h->seen_who = h->who;
		h->seen_ms = believed_until(auth_bearer(h->http));
	} else if (a != AUTH_YES) {
		log_line(h->f->log, LOG_NOTE, "TokenReview: %s", err.text);
	}
	judge(h, a);
	if (h->status != 0)
		answer_refusal(h);
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
		answer(h, 503, TEXT, "the token can't be verified now\n");
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
		answer_refusal(h);
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
		end_stream(h);
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

/* --- the connection --------------------------------------------------------- */

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
			end_stream(h);
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
