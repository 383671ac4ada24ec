/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "budget.h"
#include "buf.h"
#include "error.h"
#include "front.h"
#include "http.h"
#include "httpd.h"
#include "loop.h"
#include "mono.h"
#include "outlet.h"
#include "tls.h"

enum {
	PIECE = 64 * 1024,	/* read at once, and ahead of its turn */
	KEEP = 64 * 1024,	/* memory kept between requests */
	SKIPPED = 64 * 1024,	/* a body read for nothing */
	LINGER_MS = 1000,	/* for the client to read why it was refused */
	OUT_MAX = 4 * LIMIT_REPLY,
};

enum state {
	WAITING,		/* for a request, or the rest of one */
	OWING,			/* an answer */
	FLUSHING,		/* the last answer is being written */
	LINGERING,		/* our side is shut */
	CLOSED
};

struct httpd {
	struct loop *loop;
	const struct httpd_calls *calls;
	void *arg;
	int in, out;
	struct tls_conn *tls;
	bool socket;		/* its end of input is the client's leaving */
	struct loop_fd *rd, *wr;
	struct loop_timer *timer;
	struct loop_timer *more; /* TLS has bytes that poll() can't see */
	struct http http;
	struct buf inbuf;
	struct outlet answers;
	size_t got;		/* of a body, since since_ms */
	enum state state;
	bool in_body, skipping;	/* of the request that comes in */
	bool begun, chunked;	/* the answer that goes out */
	bool last;		/* the connection ends with it */
	bool ended;		/* of input */
	bool pumping;
	long requests;
	long since_ms;		/* of the wait for the client's next move */
	long sent_ms;		/* something was written */
};

static void pump(struct httpd *d);
static void due(void *arg);
static void on_more(void *arg);

/* --- time --------------------------------------------------------------- */

static long
deadline(const struct httpd *d)
{
	long at = LONG_MAX, stall = d->sent_ms + LIMIT_HTTP_STALL_MS;

	switch (d->state) {
	case WAITING:
		if (d->in_body)
			at = d->since_ms + LIMIT_HTTP_BODY_MS;
		else if (d->requests > 0 && http_fresh(&d->http))
			at = d->since_ms + LIMIT_HTTP_IDLE_MS;
		else
			at = d->since_ms + LIMIT_HTTP_HEAD_MS;
		break;
	case OWING:
		at = d->sent_ms + LIMIT_HTTP_QUIET_MS;
		break;
	case LINGERING:
		at = d->since_ms + LINGER_MS;
		break;
	default:
		break;
	}
	return !outlet_empty(&d->answers) && stall < at ? stall : at;
}

static void
arm(struct httpd *d)
{
	long at = d->state == CLOSED ? LONG_MAX : deadline(d);
	long now = mono_ms();

	loop_timer_del(d->timer);
	d->timer = NULL;
	if (at != LONG_MAX)
		d->timer = loop_timer_add(d->loop, at > now ? at - now : 0,
		    due, d);
}

static void
shut(struct httpd *d)
{
	d->state = CLOSED;
	outlet_reset(&d->answers, 0);
	buf_reset(&d->inbuf, 0);
	loop_fd_want(d->rd, 0);
	loop_fd_want(d->wr, 0);
	loop_timer_del(d->more);
	d->more = NULL;
	arm(d);
}

/* The client can be neither heard nor told anything. */
static void
lost(struct httpd *d)
{
	bool owing = d->state == OWING;

	shut(d);
	if (owing)
		d->calls->gone(d->arg);
}

static void
due(void *arg)
{
	struct httpd *d = arg;
	long now = mono_ms();

	d->timer = NULL;
	if (deadline(d) > now) {
		arm(d);
	} else if (!outlet_empty(&d->answers) &&
	    d->sent_ms + LIMIT_HTTP_STALL_MS <= now) {
		lost(d);
	} else if (d->state == OWING) {
		d->sent_ms = now;
		d->calls->quiet(d->arg);
		arm(d);
	} else if (d->state == WAITING &&
	    (d->in_body || !http_fresh(&d->http))) {
		d->last = true;
		d->state = OWING;
		httpd_answer(d, 408, "text/plain", NULL,
		    "the request came too slowly\n", 28);
	} else {
		shut(d);
	}
}

/* --- answers ------------------------------------------------------------ */

static void
want(struct httpd *d)
{
	bool room = d->inbuf.len < PIECE &&
	    outlet_held(&d->answers) < LIMIT_REPLY;

	bool stuck = d->tls != NULL && tls_stuck(d->tls);

	if (d->state == CLOSED)
		return;
	loop_fd_want(d->rd, !d->ended && room ? POLLIN : 0);
	loop_fd_want(d->wr, !outlet_empty(&d->answers) || stuck ? POLLOUT : 0);
	if (d->tls != NULL && !d->ended && room && d->more == NULL &&
	    tls_pending(d->tls))
		d->more = loop_timer_add(d->loop, 0, on_more, d);
}

/* After the last byte of the last answer. */
static void
flushed(struct httpd *d)
{
	if (!outlet_empty(&d->answers) || d->state != FLUSHING)
		return;
	if (d->tls != NULL)
		tls_shut(d->tls);
	if (!d->socket || d->ended || shutdown(d->out, SHUT_WR) == -1) {
		shut(d);
		return;
	}
	d->state = LINGERING;
	d->since_ms = mono_ms();
}

static void
finished(struct httpd *d)
{
	bool again = d->http.keep_alive && !d->last;

	d->begun = d->skipping = d->in_body = false;
	if (d->state == CLOSED)
		return;
	if (again) {
		http_next(&d->http);
		d->state = WAITING;
		d->since_ms = mono_ms();
		pump(d);
		if (d->ended && !d->pumping && d->state == WAITING)
			d->state = FLUSHING;
	} else {
		d->state = FLUSHING;
		buf_reset(&d->inbuf, 0);
	}
	flushed(d);
	want(d);
	arm(d);
}

static void
head(struct httpd *d, struct http_answer *a)
{
	/* What comes behind an ill-formed request can't be told apart. */
	if (!d->http.keep_alive || d->http.minor == 0 ||
	    d->requests >= LIMIT_HTTP_REQUESTS)
		d->last = true;
	a->close = d->last;
	a->date = (int64_t)time(NULL);
	if (outlet_empty(&d->answers))
		d->sent_ms = mono_ms();
	http_head(&d->answers.out, a);
	if (d->calls->answered != NULL)
		d->calls->answered(d->arg, a->status);
}

/* Some memory was missing: half an answer is none. */
static void
checked(struct httpd *d)
{
	if (d->state != CLOSED && !buf_ok(&d->answers.out))
		shut(d);
}

void
httpd_answer_far(struct httpd *d, int status, const char *type,
    const char *extra, struct buf *body, const struct spilled_in *far)
{
	struct http_answer a = { .status = status, .type = type,
	    .extra = extra,
	    .length = (int64_t)outlet_length(body->len, far) };

	if (d->state != OWING)
		return;
	if (status == 204)
		a.length = HTTP_NO_BODY;
	head(d, &a);
	if (d->http.method == NULL || strcmp(d->http.method, "HEAD") != 0)
		outlet_message(&d->answers, body, far);
	checked(d);
	finished(d);
}

void
httpd_answer(struct httpd *d, int status, const char *type, const char *extra,
    const void *body, size_t len)
{
	struct buf b;

	buf_init(&b, len);
	buf_put(&b, body, len);
	if (!buf_ok(&b))
		shut(d);
	httpd_answer_far(d, status, type, extra, &b, NULL);
	buf_free(&b);
}

void
httpd_begin(struct httpd *d, const char *type, const char *extra)
{
	struct http_answer a = { .status = 200, .type = type, .extra = extra,
	    .length = HTTP_CHUNKED };

	if (d->state != OWING || d->begun)
		return;
	d->begun = true;
	d->chunked = d->http.minor > 0;
	if (!d->chunked) {
		a.length = HTTP_NO_BODY;
		d->last = true;
	}
	head(d, &a);
}

bool
httpd_begun(const struct httpd *d)
{
	return d->begun;
}

void
httpd_put_far(struct httpd *d, struct buf *data, const struct spilled_in *far)
{
	if (d->state != OWING || !d->begun)
		return;
	if (outlet_empty(&d->answers))
		d->sent_ms = mono_ms();
	if (d->chunked && !http_chunk_head(&d->answers.out,
	    outlet_length(data->len, far)))
		return;
	outlet_message(&d->answers, data, far);
	if (d->chunked)
		http_chunk_tail(&d->answers.out);
	checked(d);
	want(d);
	arm(d);
}

void
httpd_put(struct httpd *d, const void *data, size_t len)
{
	struct buf b;

	buf_init(&b, len);
	buf_put(&b, data, len);
	if (!buf_ok(&b))
		shut(d);
	httpd_put_far(d, &b, NULL);
	buf_free(&b);
}

size_t
httpd_waiting(const struct httpd *d)
{
	return outlet_held(&d->answers);
}

void
httpd_end(struct httpd *d)
{
	if (d->state != OWING || !d->begun)
		return;
	if (d->chunked)
		http_chunk_end(&d->answers.out);
	checked(d);
	finished(d);
}

/* --- requests ----------------------------------------------------------- */

static void
ask(struct httpd *d)
{
	d->state = OWING;
	d->in_body = false;
	d->sent_ms = mono_ms();
	d->calls->request(d->arg, &d->http);
}

static void
on_head(struct httpd *d, bool more)
{
	uint64_t max = 0;
	bool wanted = d->calls->head(d->arg, &d->http, &max);

	d->requests++;
	d->in_body = d->http.has_body;
	d->got = 0;
	d->since_ms = mono_ms();
	d->skipping = !wanted;
	d->http.body_max = wanted ? max : SKIPPED;
	if (!d->http.expects)
		return;
	if (!wanted) {
		d->last = true;
		ask(d);
	} else if (!more) {
		http_continue(&d->answers.out);
	}
}

static void
on_bad(struct httpd *d)
{
	char why[160];
	size_t len = strlen(d->http.why);

	d->last = true;
	if (d->skipping && d->http.status == 413) {
		ask(d);
		return;
	}
	d->state = OWING;
	memcpy(why, d->http.why, len);
	why[len++] = '\n';
	httpd_answer(d, d->http.status, "text/plain", NULL, why, len);
}

/* A long body has its time for each LIMIT_MESSAGE of it. */
static void
on_data(struct httpd *d, const struct http_piece *piece)
{
	static const char why[] = "the body is too long\n";

	d->got += piece->len;
	if (d->got >= LIMIT_MESSAGE) {
		d->got = 0;
		d->since_ms = mono_ms();
	}
	if (d->calls->body(d->arg, piece->data, piece->len))
		return;
	d->last = true;
	d->state = OWING;
	httpd_answer(d, 413, "text/plain", NULL, why, strlen(why));
}

static void
on_event(struct httpd *d, enum http_event e, const struct http_piece *piece,
    bool more)
{
	switch (e) {
	case HTTP_HEAD:
		on_head(d, more);
		break;
	case HTTP_DATA:
		if (d->skipping)
			break;
		on_data(d, piece);
		break;
	case HTTP_END:
		ask(d);
		break;
	case HTTP_BAD:
		on_bad(d);
		break;
	default:
		break;
	}
}

/* Take requests from what has been read, until one owes its answer. */
static void
pump(struct httpd *d)
{
	struct http_piece piece;
	enum http_event e;
	const char *p, *end;
	bool fresh;

	if (d->pumping || d->inbuf.len == 0)
		return;
	d->pumping = true;
	p = d->inbuf.data;
	end = p + d->inbuf.len;
	do {
		fresh = http_fresh(&d->http);
		e = http_feed(&d->http, &p, end, &piece);
		if (fresh && !http_fresh(&d->http))
			d->since_ms = mono_ms();
		on_event(d, e, &piece, p < end);
	} while (e != HTTP_MORE && d->state == WAITING);
	if (d->inbuf.len > 0)
		buf_drop(&d->inbuf, (size_t)(p - d->inbuf.data));
	d->pumping = false;
}

/* --- bytes -------------------------------------------------------------- */

static void
on_end(struct httpd *d)
{
	d->ended = true;
	if (d->state == WAITING) {
		d->state = FLUSHING;
		flushed(d);
	} else if (d->state == LINGERING) {
		shut(d);
	} else if (d->state == OWING && d->socket) {
		d->calls->gone(d->arg);
	}
}

static void
on_readable(void *arg, short revents)
{
	struct httpd *d = arg;
	char piece[PIECE];
	ssize_t n;

	(void)revents;
	n = d->tls != NULL ? tls_recv(d->tls, piece, sizeof(piece)) :
	    read(d->in, piece, sizeof(piece));
	if (n == -1 && (errno == EAGAIN || errno == EINTR)) {
		want(d);
		return;
	}
	if (n == -1) {
		lost(d);
		return;
	}
	if (n == 0) {
		on_end(d);
	} else if (d->state == WAITING || d->state == OWING) {
		buf_put(&d->inbuf, piece, (size_t)n);
		if (!buf_ok(&d->inbuf)) {
			lost(d);
			return;
		}
		if (d->state == WAITING)
			pump(d);
	}
	want(d);
	arm(d);
}

static void
on_more(void *arg)
{
	struct httpd *d = arg;

	d->more = NULL;
	on_readable(d, POLLIN);
}

/* What the client takes at once; -1: it has gone. */
static int
write_some(struct httpd *d)
{
	char piece[OUTLET_PIECE];
	struct error err;
	const char *p;
	size_t len;
	ssize_t n;

	if (outlet_next(&d->answers, piece, &p, &len, &err) == -1)
		return -1;
	if (len == 0)
		return 0;
	n = d->tls != NULL ? tls_send(d->tls, p, len) :
	    front_put(d->out, p, len);
	if (n == -1)
		return errno != EAGAIN && errno != EINTR ? -1 : 0;
	if (n > 0) {
		outlet_took(&d->answers, (size_t)n);
		d->sent_ms = mono_ms();
	}
	return 0;
}

static void
on_writable(void *arg, short revents)
{
	struct httpd *d = arg;

	/* The handshake goes on. */
	if (outlet_empty(&d->answers) && d->tls != NULL && tls_stuck(d->tls)) {
		on_readable(d, revents);
		return;
	}
	if (write_some(d) == -1) {
		lost(d);
		return;
	}
	if (outlet_empty(&d->answers))
		outlet_reset(&d->answers, KEEP);
	flushed(d);
	want(d);
	arm(d);
}

/* --- opening and closing ------------------------------------------------ */

struct httpd *
httpd_open(struct loop *l, int in, int out, struct tls_conn *tls,
    const struct httpd_calls *calls, void *arg, struct error *err)
{
	struct httpd *d = calloc(1, sizeof(*d));
	struct stat st;

	if (d == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	d->loop = l;
	d->calls = calls;
	d->arg = arg;
	d->in = in;
	d->out = out;
	d->tls = tls;
	d->socket = fstat(in, &st) == 0 && S_ISSOCK(st.st_mode);
	d->since_ms = d->sent_ms = mono_ms();
	http_init(&d->http, LIMIT_HTTP_HEAD, 0);
	buf_init(&d->inbuf, 2 * PIECE);
	outlet_init(&d->answers, OUT_MAX);
	d->rd = loop_fd_add(l, in, POLLIN, on_readable, d);
	d->wr = loop_fd_add(l, out, 0, on_writable, d);
	arm(d);
	if (d->rd == NULL || d->wr == NULL || d->timer == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		httpd_close(d);
		return NULL;
	}
	return d;
}

void
httpd_close(struct httpd *d)
{
	if (d == NULL)
		return;
	loop_fd_del(d->rd);
	loop_fd_del(d->wr);
	loop_timer_del(d->timer);
	loop_timer_del(d->more);
	http_free(&d->http);
	buf_wipe(&d->inbuf);
	outlet_free(&d->answers);
	free(d);
}

void
httpd_stop(struct httpd *d)
{
	d->last = true;
	if (d->state == WAITING && http_fresh(&d->http)) {
		d->state = FLUSHING;
		flushed(d);
		want(d);
		arm(d);
	}
}

void
httpd_drop(struct httpd *d)
{
	if (d->state != CLOSED)
		shut(d);
}

bool
httpd_done(const struct httpd *d)
{
	return d->state == CLOSED;
}
