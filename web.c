/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include <curl/curl.h>

#include "budget.h"
#include "buf.h"
#include "error.h"
#include "loop.h"
#include "mono.h"
#include "web.h"
#include "webfail.h"
#include "webset.h"

enum {
	HOLD = 256 << 10,	/* bytes of a stream not yet passed on */
	CONNECTIONS = 128,	/* open at once */
	KEPT = 16,		/* of them idle */
	RESTARTS = 3
};

/* Why we ended a transfer ourselves. */
enum flaw {
	FLAW_NONE, FLAW_BODY, FLAW_HEAD, FLAW_MEMORY, FLAW_GIVE, FLAW_AGAIN
};

struct web {
	struct loop *loop;
	struct web_op *ops;
	int in_curl;		/* > 0: a function that libcurl called runs */
};

/*
 * libcurl's functions only note and keep what came; everything is reported
 * by a timer of 0 ms (soon), so that the caller may begin and cancel what it
 * likes, which libcurl does not allow in its own functions.
 */
struct web_op {
	struct web *web;
	struct web_op *next, **prev;
	struct webset set;
	event_fn *fn;
	void *arg;
	long (*give)(void *, char *, size_t);
	void *give_arg;
	int (*open_socket)(void *);
	void *open_arg;
	const struct web_tls *tls;
	struct buf head;	/* "Name: value" and NUL, many times */
	struct buf body;	/* all of it, or what is not yet passed on */
	struct loop_timer *soon, *timer;
	long timer_due, begun, last, streamed;
	long first_byte_ms, idle_ms, total_ms, max_stream;
	char words[CURL_ERROR_SIZE];
	enum flaw flaw;
	int result;		/* CURLcode, once over */
	int restarts;
	char first;		/* web_connect(): a byte that came early */
	bool has_first;
	bool stream, raw, http2;
	bool added, asked, answered, over, open, sent;
	bool paused;		/* by the caller */
	bool held, later;	/* libcurl is paused: receiving, sending */
	bool wake;		/* tell it that it is not any more */
	bool busy, dead;
};

static bool soon(struct web_op *op);
static void on_done(void *easy, int code);

const char *
web_libraries(void)
{
	return curl_version();
}

struct web *
web_open(struct loop *l, struct error *err)
{
	struct web *w = calloc(1, sizeof(*w));
	CURLM *multi = loop_multi(l);

	if (w == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	w->loop = l;
	curl_multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS,
	    (long)CONNECTIONS);
	curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)KEPT);
	loop_on_done(l, on_done);
	return w;
}

static void
leave(struct web_op *op)
{
	if (op->added)
		curl_multi_remove_handle(loop_multi(op->web->loop),
		    op->set.easy);
	op->added = false;
	loop_timer_del(op->timer);
	loop_timer_del(op->soon);
	op->timer = op->soon = NULL;
}

static void
op_free(struct web_op *op)
{
	if (op == NULL)
		return;
	leave(op);
	if (op->prev != NULL) {
		*op->prev = op->next;
		if (op->next != NULL)
			op->next->prev = op->prev;
	}
	webset_free(&op->set);
	buf_free(&op->head);
	buf_free(&op->body);
	free(op);
}

void
web_close(struct web *w)
{
	if (w == NULL)
		return;
	while (w->ops != NULL)
		op_free(w->ops);
	loop_on_done(w->loop, NULL);
	free(w);
}

/* --- time -------------------------------------------------------------- */

/* When to give up; 0: never. Our own slowness is not the other side's. */
static long
deadline(const struct web_op *op)
{
	long due = 0, activity = 0, ms;

	if (op->total_ms > 0)
		due = op->begun + op->total_ms;
	ms = op->answered ? op->idle_ms : op->first_byte_ms;
	if (op->asked && !op->raw && !op->paused && !op->held && !op->later &&
	    ms > 0)
		activity = op->last + ms;
	if (activity != 0 && (due == 0 || activity < due))
		return activity;
	return due;
}

static void on_time(void *arg);

static void
arm(struct web_op *op)
{
	long due = deadline(op);

	/* One timer that fires too early now and then costs less than moving
	 * it for each piece of data. */
	if (due == 0 || (op->timer != NULL && op->timer_due <= due))
		return;
	loop_timer_del(op->timer);
	op->timer_due = due;
	op->timer = loop_timer_add(op->web->loop, due - mono_ms(), on_time,
	    op);
}

/* --- functions that libcurl calls -------------------------------------- */

/*
 * Others wait (PIPEWAIT) for the first answer on a connection, which shows
 * that it is HTTP/2. When whoever opened it ends without one, they would wait
 * for ever: then it has to go.
 */
static void
doubt(struct web_op *op, bool on)
{
	long opened = 0;

	if (op->http2)
		curl_easy_getinfo(op->set.easy, CURLINFO_NUM_CONNECTS,
		    &opened);
	if (opened > 0)
		curl_easy_setopt(op->set.easy, CURLOPT_FORBID_REUSE,
		    on ? 1L : 0L);
}

static void
touch(struct web_op *op)
{
	op->last = mono_ms();
	if (!op->answered)
		doubt(op, false);
	op->answered = true;
	arm(op);
}

static bool
too_much(struct web_op *op, size_t n)
{
	if (!op->stream)
		return n > op->body.max - op->body.len;
	op->streamed += (long)n;
	return op->max_stream > 0 && op->streamed > op->max_stream;
}

static size_t
on_data(char *data, size_t size, size_t n, void *arg)
{
	struct web_op *op = arg;

	n *= size;
	if (op->stream && op->body.len > 0 &&
	    (op->paused || op->body.len + n > HOLD)) {
		op->held = true;
		return CURL_WRITEFUNC_PAUSE;
	}
	touch(op);
	if (too_much(op, n)) {
		op->flaw = FLAW_BODY;
		return CURL_WRITEFUNC_ERROR;
	}
	buf_put(&op->body, data, n);
	if (!buf_ok(&op->body)) {
		op->flaw = FLAW_MEMORY;
		return CURL_WRITEFUNC_ERROR;
	}
	if (op->stream && !soon(op)) {
		op->flaw = FLAW_MEMORY;
		return CURL_WRITEFUNC_ERROR;
	}
	return n;
}

static size_t
on_header(char *line, size_t size, size_t n, void *arg)
{
	struct web_op *op = arg;
	size_t len = n * size;

	touch(op);
	/* Of several heads (100 Continue) the last one counts. */
	if (len > 5 && memcmp(line, "HTTP/", 5) == 0)
		buf_reset(&op->head, HOLD);
	while (len > 0 && strchr(" \t\r\n", line[len - 1]) != NULL)
		len--;
	if (len > 0) {
		buf_put(&op->head, line, len);
		buf_put(&op->head, "", 1);
	}
	if (!buf_ok(&op->head)) {
		op->flaw = FLAW_HEAD;
		return CURL_WRITEFUNC_ERROR;
	}
	return n * size;
}

static size_t
on_read(char *dst, size_t size, size_t n, void *arg)
{
	struct web_op *op = arg;
	long got;

	op->web->in_curl++;
	got = op->give(op->give_arg, dst, size * n);
	op->web->in_curl--;
	if (got == -2) {
		op->later = true;
		return CURL_READFUNC_PAUSE;
	}
	if (got < 0 || (size_t)got > size * n) {
		op->flaw = FLAW_GIVE;
		return CURL_READFUNC_ABORT;
	}
	op->last = mono_ms();
	return (size_t)got;
}

/*
 * libcurl repeats a request, a POST too, when a kept-alive connection ends
 * without an answer. This function is called before each try: when bytes of
 * an earlier one have left, it is the end.
 */
static int
on_request(void *arg, char *their_ip, char *our_ip, int their_port,
    int our_port)
{
	struct web_op *op = arg;
	long bytes = 0;

	(void)their_ip, (void)our_ip, (void)their_port, (void)our_port;
	curl_easy_getinfo(op->set.easy, CURLINFO_REQUEST_SIZE, &bytes);
	if (bytes > 0) {
		op->flaw = FLAW_AGAIN;
		return CURL_PREREQFUNC_ABORT;
	}
	op->asked = true;
	op->last = mono_ms();
	doubt(op, true);
	arm(op);
	return CURL_PREREQFUNC_OK;
}

static curl_socket_t
on_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *addr)
{
	struct web_op *op = arg;
	int fd;

	(void)purpose;
	if (op->open_socket == NULL)
		return socket(addr->family, addr->socktype | SOCK_CLOEXEC,
		    addr->protocol);
	op->web->in_curl++;
	fd = op->open_socket(op->open_arg);
	op->web->in_curl--;
	return fd == -1 ? CURL_SOCKET_BAD : fd;
}

static int
on_socket_option(void *arg, curl_socket_t fd, curlsocktype purpose)
{
	const struct web_op *op = arg;

	(void)fd, (void)purpose;
	return op->open_socket != NULL ? CURL_SOCKOPT_ALREADY_CONNECTED :
	    CURL_SOCKOPT_OK;
}

/* --- reporting --------------------------------------------------------- */

/* false: op is gone. */
static bool
tell(struct web_op *op, const struct event *ev)
{
	op->busy = true;
	op->fn(op->arg, ev);
	op->busy = false;
	if (!op->dead)
		return true;
	op_free(op);
	return false;
}

static void
end(struct web_op *op, const struct error *err)
{
	struct event ev = { .type = op->raw ? EVENT_END : EVENT_REPLY,
	    .err = err, .reason = "", .data = "" };
	long bytes = 0;

	curl_easy_getinfo(op->set.easy, CURLINFO_RESPONSE_CODE, &ev.status);
	curl_easy_getinfo(op->set.easy, CURLINFO_REQUEST_SIZE, &bytes);
	op->sent = bytes > 0;
	/* Its connection is free for what the function may begin. */
	leave(op);
	if (!op->stream && op->body.data != NULL) {
		ev.data = op->body.data;
		ev.len = op->body.len;
	}
	op->dead = true;
	tell(op, &ev);
}

static void
explain_flaw(const struct web_op *op, struct error *err)
{
	switch (op->flaw) {
	case FLAW_BODY:
		error_set(err, ERR_LIMIT, "the answer is longer than %zu bytes",
		    op->stream ? (size_t)op->max_stream : op->body.max);
		break;
	case FLAW_HEAD:
		error_set(err, ERR_LIMIT, "the answer has more than %d bytes "
		    "of header fields", LIMIT_HEADERS);
		break;
	case FLAW_GIVE:
		error_set(err, ERR_CANCELLED, "the request was given up while "
		    "it was being sent");
		break;
	case FLAW_AGAIN:
		error_set(err, ERR_LOST, "the connection ended before the "
		    "answer came");
		break;
	case FLAW_NONE:
	case FLAW_MEMORY:
		error_set(err, ERR_SYSTEM, "out of memory");
	}
}

static void
explain(const struct web_op *op, struct error *err)
{
	const struct web_tls *tls = op->tls;
	struct webfail f = { .code = op->result, .words = op->words,
	    .connect_ms = op->set.connect_ms };

	if (op->flaw != FLAW_NONE) {
		explain_flaw(op, err);
		return;
	}
	/* Without TLS it may be a pod, whose address is nobody's business. */
	if (op->set.secure)
		f.where = op->set.where;
	if (op->set.secure && tls != NULL) {
		f.ca = tls->ca != NULL;
		f.key = tls->key;
	}
	f.name = tls != NULL && tls->name != NULL ? tls->name : op->set.host;
	curl_easy_getinfo(op->set.easy, CURLINFO_OS_ERRNO, &f.os);
	curl_easy_getinfo(op->set.easy, CURLINFO_HTTP_CONNECTCODE, &f.proxy);
	/* Before it has answered, TLS is the proxy's. */
	if (op->set.proxy_tls && f.proxy == 0) {
		f.where = "the proxy";
		f.name = "the proxy's host";
		f.ca = op->set.proxy_ca;
		f.key = NULL;
	}
	if (f.proxy >= 200 && f.proxy <= 299)
		f.proxy = 0;
	webfail_explain(&f, err);
}

static void
end_with_result(struct web_op *op)
{
	struct error err;

	if (op->result == CURLE_OK) {
		end(op, NULL);
		return;
	}
	explain(op, &err);
	end(op, &err);
}

static void
on_time(void *arg)
{
	struct web_op *op = arg;
	long now = mono_ms(), due = deadline(op);
	struct error err;

	op->timer = NULL;
	if (due == 0 || due > now || op->dead) {
		arm(op);
		return;
	}
	if (op->total_ms > 0 && now >= op->begun + op->total_ms)
		error_set(&err, ERR_TIMEOUT, "not finished within %ld s",
		    (op->total_ms + 999) / 1000);
	else if (op->answered)
		error_set(&err, ERR_TIMEOUT, "the answer stopped coming for "
		    "%ld s", (op->idle_ms + 999) / 1000);
	else
		error_set(&err, ERR_TIMEOUT, "no answer within %ld s",
		    (op->first_byte_ms + 999) / 1000);
	end(op, &err);
}

/*
 * A connection without a transfer is not safe in libcurl's pool: a TLS
 * session ticket makes it look dead. Reading ties it to our handle.
 */
static void
connected(struct web_op *op)
{
	struct event ev = { .type = EVENT_OPEN, .reason = "", .data = "" };
	CURLM *multi = loop_multi(op->web->loop);
	size_t n = 0;
	CURLcode code;

	code = curl_easy_recv(op->set.easy, &op->first, 1, &n);
	if (code == CURLE_UNSUPPORTED_PROTOCOL &&
	    op->restarts++ < RESTARTS) {
		curl_multi_remove_handle(multi, op->set.easy);
		op->added = op->over = false;
		if (soon(op))
			return;
	}
	op->has_first = code == CURLE_OK && n == 1;
	if (!op->has_first && code != CURLE_AGAIN) {
		op->result = code == CURLE_OK ? CURLE_GOT_NOTHING : (int)code;
		end_with_result(op);
		return;
	}
	op->open = true;
	op->total_ms = 0;
	tell(op, &ev);
}


/* false: op is gone. */
static bool
deliver(struct web_op *op)
{
	struct event ev = { .type = EVENT_DATA, .reason = "" };

	if (!op->paused && op->body.len > 0) {
		ev.data = op->body.data;
		ev.len = op->body.len;
		curl_easy_getinfo(op->set.easy, CURLINFO_RESPONSE_CODE,
		    &ev.status);
		if (!tell(op, &ev))
			return false;
		buf_reset(&op->body, HOLD);
	}
	if (!op->over || op->body.len > 0)
		return true;
	end_with_result(op);
	return false;
}

static void
begin(struct web_op *op)
{
	if (curl_multi_add_handle(loop_multi(op->web->loop), op->set.easy) ==
	    CURLM_OK) {
		op->added = true;
		arm(op);
		return;
	}
	op->flaw = FLAW_MEMORY;
	op->result = CURLE_OUT_OF_MEMORY;
	end_with_result(op);
}

static void
go_on(struct web_op *op)
{
	CURLcode code;

	if (op->held && !op->paused && op->body.len == 0) {
		op->held = false;
		op->wake = true;
	}
	if (!op->wake || op->over)
		return;
	op->wake = false;
	op->last = mono_ms();
	arm(op);
	code = curl_easy_pause(op->set.easy, (op->held ? CURLPAUSE_RECV : 0) |
	    (op->later ? CURLPAUSE_SEND : 0));
	/* It says so when there is nothing to go on with yet. */
	if (code == CURLE_OK || code == CURLE_BAD_FUNCTION_ARGUMENT)
		return;
	op->result = (int)code;
	end_with_result(op);
}

/* What waits in op: to be freed, to begin, to be passed on, to go on. */
static void
work(void *arg)
{
	struct web_op *op = arg;

	op->soon = NULL;
	if (op->dead)
		op_free(op);
	else if (!op->added)
		begin(op);
	else if (!op->stream || deliver(op))
		go_on(op);
}

static bool
soon(struct web_op *op)
{
	if (op->soon == NULL)
		op->soon = loop_timer_add(op->web->loop, 0, work, op);
	return op->soon != NULL;
}

static void
on_done(void *easy, int code)
{
	struct web_op *op = NULL;

	curl_easy_getinfo(easy, CURLINFO_PRIVATE, &op);
	if (op == NULL || op->dead)
		return;
	op->result = code;
	op->over = true;
	if (op->raw && code == CURLE_OK)
		connected(op);
	else if (op->stream)
		deliver(op);
	else
		end_with_result(op);
}

/* --- beginning --------------------------------------------------------- */

/* Every option in one chain: the first failure is kept. */
#define SET(option, value)						\
	(code = code != CURLE_OK ? code :				\
	    curl_easy_setopt(op->set.easy, (option), (value)))

static CURLcode
set_functions(struct web_op *op)
{
	CURLcode code = CURLE_OK;

	SET(CURLOPT_PRIVATE, op);
	SET(CURLOPT_ERRORBUFFER, op->words);
	SET(CURLOPT_WRITEFUNCTION, on_data);
	SET(CURLOPT_WRITEDATA, op);
	SET(CURLOPT_HEADERFUNCTION, on_header);
	SET(CURLOPT_HEADERDATA, op);
	SET(CURLOPT_PREREQFUNCTION, on_request);
	SET(CURLOPT_PREREQDATA, op);
	SET(CURLOPT_OPENSOCKETFUNCTION, on_socket);
	SET(CURLOPT_OPENSOCKETDATA, op);
	SET(CURLOPT_SOCKOPTFUNCTION, on_socket_option);
	SET(CURLOPT_SOCKOPTDATA, op);
	SET(CURLOPT_READFUNCTION, on_read);
	SET(CURLOPT_READDATA, op);
	return code;
}

static void
set_limits(struct web_op *op, const struct web_req *req)
{
	size_t max = req->max_body != 0 ? req->max_body : LIMIT_BODY;

	op->first_byte_ms = req->first_byte_ms != 0 ? req->first_byte_ms :
	    LIMIT_FIRST_BYTE_MS;
	op->idle_ms = req->idle_ms != 0 ? req->idle_ms : LIMIT_IDLE_MS;
	op->total_ms = req->total_ms;
	op->max_stream = (long)req->max_body;
	buf_init(&op->head, LIMIT_HEADERS);
	/* One piece may be as long as what libcurl held back for us. */
	buf_init(&op->body, req->stream ? (size_t)HOLD * 16 : max);
}

static struct web_op *
op_new(struct web *w, const struct web_req *req, event_fn *fn, void *arg)
{
	struct web_op *op = calloc(1, sizeof(*op));

	if (op == NULL)
		return NULL;
	op->web = w;
	op->fn = fn;
	op->arg = arg;
	op->give = req->give;
	op->give_arg = req->give_arg;
	op->open_socket = req->open_socket;
	op->open_arg = req->open_arg;
	op->tls = req->tls;
	op->stream = req->stream;
	op->http2 = req->http2;
	op->begun = mono_ms();
	set_limits(op, req);
	op->next = w->ops;
	op->prev = &w->ops;
	if (op->next != NULL)
		op->next->prev = &op->next;
	w->ops = op;
	return op;
}

static struct web_op *
launch(struct web *w, const struct web_req *req, bool raw, event_fn *fn,
    void *arg, struct error *err)
{
	struct web_op *op = op_new(w, req, fn, arg);
	int r;

	if (op == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	op->raw = raw;
	r = webset_open(&op->set, req, raw, err);
	if (r == 0 && (set_functions(op) != CURLE_OK || !soon(op)))
		r = error_set(err, ERR_SYSTEM, "out of memory");
	if (r == 0)
		return op;
	op_free(op);
	return NULL;
}

struct web_op *
web_send(struct web *w, const struct web_req *req, event_fn *done, void *arg,
    struct error *err)
{
	return launch(w, req, false, done, arg, err);
}

struct web_op *
web_connect(struct web *w, const struct web_req *req, event_fn *fn, void *arg,
    struct error *err)
{
	return launch(w, req, true, fn, arg, err);
}

/* --- what the caller may do with one ----------------------------------- */

void
web_cancel(struct web_op *op)
{
	if (op == NULL)
		return;
	op->dead = true;
	if (op->busy)
		return;		/* tell() frees it */
	if (op->web->in_curl > 0 && soon(op))
		return;
	op_free(op);
}

void
web_pause(struct web_op *op)
{
	op->paused = true;
}

void
web_resume(struct web_op *op)
{
	op->paused = false;
	if (op->later) {
		op->later = false;
		op->wake = true;
	}
	op->last = mono_ms();
	(void)soon(op);
}

bool
web_unread(const struct web_op *op)
{
	int n;

	/* It only fills op->body; the rest of it is for the loop's turn. */
	return !op->added || op->web->in_curl > 0 ||
	    curl_multi_perform(loop_multi(op->web->loop), &n) != CURLM_OK ||
	    op->body.len > 0;
}

bool
web_sent(const struct web_op *op)
{
	return op->sent;
}

const char *
web_field(const struct web_op *op, const char *name)
{
	const char *line = op->head.data, *found = "";
	size_t len = strlen(name), at;

	/* The last one: a trailer is newer than the head. */
	for (at = 0; at < op->head.len; at += strlen(line + at) + 1)
		if (strncasecmp(line + at, name, len) == 0 &&
		    line[at + len] == ':')
			found = line + at + len + 1;
	return found + strspn(found, " \t");
}

int
web_raw_fd(struct web_op *op)
{
	curl_socket_t fd = CURL_SOCKET_BAD;

	curl_easy_getinfo(op->set.easy, CURLINFO_ACTIVESOCKET, &fd);
	return fd == CURL_SOCKET_BAD ? -1 : fd;
}

long
web_raw_recv(struct web_op *op, void *dst, size_t size)
{
	size_t n = 0;
	CURLcode code;

	if (op->has_first && size > 0) {
		op->has_first = false;
		memcpy(dst, &op->first, 1);
		return 1;
	}
	code = curl_easy_recv(op->set.easy, dst, size, &n);
	if (code == CURLE_AGAIN)
		return 0;
	return code == CURLE_OK && n > 0 ? (long)n : -1;
}

long
web_raw_send(struct web_op *op, const void *src, size_t len)
{
	size_t n = 0;
	CURLcode code;

	code = curl_easy_send(op->set.easy, src, len, &n);
	if (code == CURLE_AGAIN)
		return 0;
	return code == CURLE_OK ? (long)n : -1;
}
