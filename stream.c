/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/random.h>

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "error.h"
#include "k8s.h"
#include "k8sfail.h"
#include "budget.h"
#include "loop.h"
#include "stream.h"
#include "web.h"
#include "websocket.h"

enum {
	CHUNK = 16 << 10,	/* read at once: one TLS record */
	CHUNKS = 16,		/* then the others have their turn */
	KEEP = 64 << 10,	/* memory an idle queue may hold */
	LINGER_MS = 1500,	/* for what was queued before the goodbye */
	NORMAL = 1000		/* RFC 6455, 7.4.1 */
};

enum state {
	STREAM_WAIT,		/* for its turn to connect */
	STREAM_CONNECT,
	STREAM_UPGRADE,		/* the request is on its way */
	STREAM_OPEN,
	STREAM_CLOSING		/* nobody listens; the queue still goes out */
};

/* What is to be done with the stream once no caller is inside it. */
enum fate { FATE_GO, FATE_AGAIN, FATE_END };

struct stream {
	struct k8s *k;
	char *path, *protocols;
	event_fn *fn;
	void *arg;
	void (*room)(void *);
	void *room_arg;
	bool want_room;		/* stream_send() found none */

	enum state state;
	enum fate fate;
	bool busy;		/* a caller's function is running */
	bool paused;
	struct error err;	/* of FATE_END; ERR_NONE: a good end */
	long status;
	char reason[64];

	struct k8s_target target;
	struct web_op *op;
	struct loop_fd *fd;
	struct loop_timer *clock;	/* what the state waits for */
	struct loop_timer *kick;	/* a turn without an event */
	struct k8s_wait *wait;		/* for credentials */
	struct ws_handshake shake;
	struct ws_reader reader;
	struct buf out;			/* [sent, len) is to be sent */
	struct buf message;		/* one, with its channel */
	size_t sent;
	bool asked;			/* a byte of the request left */
	bool reauthed;
	bool harmless;			/* to ask for twice */
	int tries;

	uint32_t pings;			/* sent so far; the last one's name */
	uint32_t mark;			/* pings before the last data */
	bool unread;			/* data nobody confirmed reading */
	int unanswered;
};

static loop_due on_clock, on_kick;
static loop_ready on_ready;

/* Always -1. The first reason counts. */
static int
stop(struct stream *s, enum error_code code, const char *text)
{
	if (s->fate != FATE_END) {
		s->fate = FATE_END;
		s->err.code = ERR_NONE;
		if (code != ERR_NONE)
			error_set(&s->err, code, "%s", text);
	}
	return -1;
}

static int
no_memory(struct stream *s)
{
	return stop(s, ERR_SYSTEM, "no memory for a stream");
}

static void
arm(struct stream *s, long ms)
{
	loop_timer_del(s->clock);
	s->clock = loop_timer_add(k8s_loop(s->k), ms, on_clock, s);
	if (s->clock == NULL)
		no_memory(s);
}

/* When this fails the clock still comes. */
static void
kick(struct stream *s)
{
	if (s->kick == NULL)
		s->kick = loop_timer_add(k8s_loop(s->k), 0, on_kick, s);
}

/* Everything that belongs to one attempt. */
static void
hang_up(struct stream *s)
{
	loop_fd_del(s->fd);
	s->fd = NULL;
	loop_timer_del(s->clock);
	s->clock = NULL;
	k8s_wait_cancel(s->wait);
	s->wait = NULL;
	loop_timer_del(s->kick);
	s->kick = NULL;
	web_cancel(s->op);
	s->op = NULL;
	k8s_release(&s->target);
	memset(&s->target, 0, sizeof(s->target));
	ws_handshake_free(&s->shake);
	memset(&s->shake, 0, sizeof(s->shake));
	ws_reader_free(&s->reader);
	ws_reader_init(&s->reader);
	buf_wipe(&s->out);
	buf_init(&s->out, LIMIT_PUMP + LIMIT_FRAME);
	s->sent = 0;
	s->asked = false;
}

static void
release(struct stream *s)
{
	hang_up(s);
	ws_reader_free(&s->reader);
	buf_free(&s->message);
	free(s->path);
	free(s->protocols);
	free(s);
}

/* The one way out: s is gone when its owner hears of it. */
static void
end(struct stream *s)
{
	struct error err = s->err;
	char reason[sizeof(s->reason)];
	struct event ev = {
		.type = EVENT_END,
		.err = err.code == ERR_NONE ? NULL : &err,
		.status = s->status,
		.reason = reason
	};
	event_fn *fn = s->fn;
	void *arg = s->arg;

	memcpy(reason, s->reason, sizeof(reason));
	release(s);
	if (fn != NULL)
		fn(arg, &ev);
}

/* After the last line of every function that the loop calls. */
static void
settle(struct stream *s)
{
	short events = 0;

	s->busy = false;
	if (s->fate == FATE_AGAIN) {
		s->fate = FATE_GO;
		hang_up(s);
		s->state = STREAM_WAIT;
		arm(s, k8s_pause(++s->tries, ""));
	}
	if (s->fate == FATE_END) {
		end(s);
		return;
	}
	if (s->fd == NULL)
		return;
	if (!s->paused)
		events |= POLLIN;
	if (s->sent < s->out.len)
		events |= POLLOUT;
	loop_fd_want(s->fd, events);
}

/*
 * The request was sent but never answered: whether it was carried out is
 * unknown, and a command must not run twice.
 */
static int
lost(struct stream *s)
{
	if (s->state == STREAM_UPGRADE && (!s->asked || s->harmless) &&
	    s->tries < LIMIT_RETRIES) {
		s->fate = FATE_AGAIN;
		return -1;
	}
	if (s->state == STREAM_UPGRADE && !s->harmless)
		return stop(s, ERR_LOST, "the connection to the API server "
		    "ended before it answered; the request may have been "
		    "carried out");
	return stop(s, ERR_LOST, "the connection to the API server ended");
}

static int
flush(struct stream *s)
{
	long n;

	while (s->sent < s->out.len) {
		n = web_raw_send(s->op, s->out.data + s->sent,
		    s->out.len - s->sent);
		if (n == 0)
			break;
		if (n < 0)
			return lost(s);
		s->sent += (size_t)n;
		s->asked = true;
	}
	if (s->sent == s->out.len)
		buf_reset(&s->out, KEEP);
	else if (s->sent >= KEEP)
		buf_drop(&s->out, s->sent);
	else
		return 0;
	s->sent = 0;
	return 0;
}

static int
put(struct stream *s, enum ws_op op, const void *data, size_t len)
{
	unsigned char mask[4];

	if (getrandom(mask, sizeof(mask), 0) != sizeof(mask))
		return stop(s, ERR_SYSTEM, "no random bytes to be had");
	ws_frame(&s->out, op, data, len, mask);
	return buf_ok(&s->out) ? 0 : no_memory(s);
}

static size_t
queued(const struct stream *s)
{
	return s->out.len - s->sent;
}

static int
put_close(struct stream *s, unsigned code)
{
	unsigned char payload[2] = { (unsigned char)(code >> 8),
	    (unsigned char)code };

	return put(s, WS_CLOSE, payload, sizeof(payload));
}

/* RFC 6455, 7.1.5: no code at all is a good end too. */
static int
closed(struct stream *s, const char *data, size_t len)
{
	const unsigned char *p = (const unsigned char *)data;
	unsigned code = len < 2 ? NORMAL : (unsigned)(p[0] << 8 | p[1]);
	struct error err;

	if (s->state != STREAM_CLOSING && put_close(s, NORMAL) == 0)
		flush(s);
	if (code == NORMAL)
		return stop(s, ERR_NONE, NULL);
	error_set(&err, ERR_LOST, "the API server closed the stream with "
	    "code %u%s%.*s", code, len > 2 ? ": " : "",
	    len > 2 ? (int)len - 2 : 0, len > 2 ? data + 2 : "");
	return stop(s, err.code, err.text);
}

static void
pong(struct stream *s, const char *data, size_t len)
{
	const unsigned char *p = (const unsigned char *)data;
	uint32_t name;

	if (len != 4)
		return;
	name = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	    (uint32_t)p[2] << 8 | p[3];
	if (name > s->mark && name <= s->pings)
		s->unread = false;
}

static int
on_frame(void *arg, enum ws_op op, const char *data, size_t len)
{
	struct stream *s = arg;
	struct event ev = { .type = EVENT_DATA };

	switch (op) {
	case WS_CLOSE:
		return closed(s, data, len);
	case WS_PING:
		/* A flood of them is not worth our memory. */
		if (queued(s) > LIMIT_PUMP + KEEP)
			return 0;
		return put(s, WS_PONG, data, len);
	case WS_PONG:
		pong(s, data, len);
		return 0;
	case WS_CONTINUATION:
	case WS_TEXT:
	case WS_BINARY:
		break;
	}
	if (len == 0)
		return stop(s, ERR_CLUSTER, "the API server sent a message "
		    "without a channel");
	if (s->fn == NULL)
		return 0;
	ev.channel = (unsigned char)data[0];
	ev.data = data + 1;
	ev.len = len - 1;
	s->fn(s->arg, &ev);
	return s->fate == FATE_GO ? 0 : -1;
}

/* A status instead of the upgrade: nothing was carried out. */
static int
refused(struct stream *s)
{
	struct event reply = {
		.type = EVENT_REPLY, .status = s->shake.status, .reason = "",
		.data = s->shake.body.data, .len = s->shake.body.len
	};
	struct error err = { .code = ERR_CLUSTER };
	long status = s->shake.status;

	if (status == 401 && !s->reauthed && k8s_reauth(s->k,
	    s->target.generation)) {
		s->reauthed = true;
		s->fate = FATE_AGAIN;
		return -1;
	}
	if ((status == 429 || status == 500 || status == 503) &&
	    s->tries < LIMIT_RETRIES) {
		s->fate = FATE_AGAIN;
		return -1;
	}
	if (reply.data == NULL)
		reply.data = "";
	k8sfail_explain(&reply, &err, s->reason, sizeof(s->reason));
	s->status = status;
	return stop(s, err.code, err.text);
}

static int
opened(struct stream *s)
{
	struct event ev = {
		.type = EVENT_OPEN, .status = 101, .data = s->shake.protocol,
		.len = strlen(s->shake.protocol)
	};

	s->state = STREAM_OPEN;
	arm(s, LIMIT_PING_MS);
	if (s->fate == FATE_GO)
		s->fn(s->arg, &ev);
	return s->fate == FATE_GO ? 0 : -1;
}

static int
take(struct stream *s, const char *data, size_t len)
{
	struct error err = { .code = ERR_CLUSTER };
	size_t used = 0;
	int r;

	if (s->state == STREAM_UPGRADE) {
		r = ws_handshake(&s->shake, data, len, &used, &err);
		if (r == 0)
			return 0;
		if (r == -1 && (s->shake.status == 0 ||
		    s->shake.status == 101))
			return stop(s, err.code, err.text);
		if (r == -1)
			return refused(s);
		if (opened(s) == -1)
			return -1;
	}
	if (ws_feed(&s->reader, data + used, len - used, on_frame, s,
	    &err) == 0)
		return 0;
	if (s->fate == FATE_GO)
		stop(s, err.code, err.text);
	return -1;
}

/*
 * TLS may hold bytes that poll(2) knows nothing of: read until there is
 * nothing, or come back without being called.
 */
static int
receive(struct stream *s)
{
	char chunk[CHUNK];
	int turns;
	long n;

	for (turns = 0; !s->paused && turns < CHUNKS; turns++) {
		n = web_raw_recv(s->op, chunk, sizeof(chunk));
		if (n == 0)
			return 0;
		if (n < 0 && s->state == STREAM_UPGRADE &&
		    s->shake.headers_done && s->shake.status != 101)
			return refused(s);
		if (n < 0)
			return lost(s);
		s->unanswered = 0;
		if (take(s, chunk, (size_t)n) == -1)
			return -1;
	}
	if (!s->paused)
		kick(s);
	return 0;
}

static void
tell_room(struct stream *s)
{
	if (!s->want_room || s->room == NULL || s->state != STREAM_OPEN ||
	    queued(s) > LIMIT_PUMP / 2)
		return;
	s->want_room = false;
	s->room(s->room_arg);
}

static void
on_ready(void *arg, short revents)
{
	struct stream *s = arg;

	(void)revents;
	s->busy = true;
	if (s->fate == FATE_GO && flush(s) == 0 && receive(s) == 0 &&
	    flush(s) == 0)
		tell_room(s);
	if (s->state == STREAM_CLOSING && queued(s) == 0)
		stop(s, ERR_NONE, NULL);
	settle(s);
}

static void
on_kick(void *arg)
{
	struct stream *s = arg;

	s->kick = NULL;
	if (s->fd != NULL) {
		on_ready(s, 0);
	} else {
		s->busy = true;
		settle(s);
	}
}

/*
 * A peer that is stuck on data for a program that does not read its stdin
 * reads no pings either. So they count only once all data was seen to be
 * read; until then the kernel finds a dead peer, by the missing TCP answers.
 */
static void
ping(struct stream *s)
{
	unsigned char name[4];

	arm(s, LIMIT_PING_MS);
	if (s->unanswered >= 2) {
		stop(s, ERR_LOST, "the API server answered no ping for "
		    "40 seconds");
		return;
	}
	if (queued(s) > 0)
		return;
	s->pings++;
	name[0] = (unsigned char)(s->pings >> 24);
	name[1] = (unsigned char)(s->pings >> 16);
	name[2] = (unsigned char)(s->pings >> 8);
	name[3] = (unsigned char)s->pings;
	if (put(s, WS_PING, name, sizeof(name)) == -1 || flush(s) == -1)
		return;
	if (!s->unread && !s->paused)
		s->unanswered++;
}

/* url is "https://host:port/path?query". */
static int
request(struct stream *s)
{
	unsigned char nonce[16];
	const char *host, *target;
	char authority[300];
	size_t len;

	if ((host = strstr(s->target.url, "://")) == NULL)
		return stop(s, ERR_CONFIG, "the API server's URL is bad");
	host += 3;
	target = strchr(host, '/');
	len = target == NULL ? strlen(host) : (size_t)(target - host);
	if (target == NULL || len >= sizeof(authority))
		return stop(s, ERR_CONFIG, "the API server's URL is bad");
	memcpy(authority, host, len);
	authority[len] = '\0';
	if (getrandom(nonce, sizeof(nonce), 0) != sizeof(nonce))
		return stop(s, ERR_SYSTEM, "no random bytes to be had");
	ws_handshake_init(&s->shake, nonce, s->protocols);
	ws_request(&s->out, authority, target, s->target.headers, nonce,
	    s->protocols);
	return buf_ok(&s->out) ? 0 : no_memory(s);
}

static void
on_connect(void *arg, const struct event *ev)
{
	struct stream *s = arg;

	s->busy = true;
	if (ev->type == EVENT_OPEN) {
		s->state = STREAM_UPGRADE;
		arm(s, LIMIT_FIRST_BYTE_MS);
		s->fd = loop_fd_add(k8s_loop(s->k), web_raw_fd(s->op),
		    POLLIN | POLLOUT, on_ready, s);
		if (s->fd == NULL)
			no_memory(s);
		else
			request(s);
	} else {
		s->op = NULL;
		if (ev->err != NULL && ev->err->code == ERR_LOST &&
		    s->tries < LIMIT_RETRIES)
			s->fate = FATE_AGAIN;
		else if (ev->err != NULL)
			stop(s, ev->err->code, ev->err->text);
		else
			stop(s, ERR_LOST, "no connection to the API server");
	}
	settle(s);
}

static void
begin(struct stream *s)
{
	struct web_req req = { .method = "GET" };
	struct error err = { .code = ERR_SYSTEM };

	s->state = STREAM_CONNECT;
	if (k8s_target(s->k, s->path, &s->target, &req, &err) == 0)
		s->op = web_connect(k8s_web(s->k), &req, on_connect, s, &err);
	if (s->op == NULL)
		stop(s, err.code, err.text);
}

static void
on_credentials(void *arg)
{
	struct stream *s = arg;

	s->wait = NULL;
	s->busy = true;
	begin(s);
	settle(s);
}

static void
on_clock(void *arg)
{
	struct stream *s = arg;

	s->clock = NULL;
	s->busy = true;
	switch (s->state) {
	case STREAM_WAIT:
		s->wait = k8s_await(s->k, LIMIT_PLUGIN_MS, on_credentials, s);
		if (s->wait == NULL)
			begin(s);
		break;
	case STREAM_UPGRADE:
		stop(s, ERR_TIMEOUT, "the API server did not answer in time; "
		    "the request may have been carried out");
		break;
	case STREAM_OPEN:
		ping(s);
		break;
	case STREAM_CONNECT:
	case STREAM_CLOSING:
		stop(s, ERR_NONE, NULL);
		break;
	}
	settle(s);
}

struct stream *
stream_open(struct k8s *k, const char *path, const char *protocols,
    event_fn *fn, void *arg)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->k = k;
	s->fn = fn;
	s->arg = arg;
	s->path = strdup(path);
	s->protocols = strdup(protocols);
	ws_reader_init(&s->reader);
	buf_init(&s->out, LIMIT_PUMP + LIMIT_FRAME);
	buf_init(&s->message, LIMIT_PUMP + 1);
	arm(s, 0);
	if (s->path == NULL || s->protocols == NULL || s->clock == NULL) {
		release(s);
		return NULL;
	}
	return s;
}

void
stream_close(struct stream *s)
{
	if (s == NULL)
		return;
	s->fn = NULL;
	s->room = NULL;
	s->paused = false;
	if (s->state == STREAM_OPEN && s->fate == FATE_GO &&
	    put_close(s, NORMAL) == 0 && flush(s) == 0 && queued(s) > 0) {
		s->state = STREAM_CLOSING;
		arm(s, LINGER_MS);
		kick(s);
	} else {
		stop(s, ERR_NONE, NULL);
	}
	if (!s->busy && s->fate != FATE_GO)
		release(s);
}

void
stream_harmless(struct stream *s)
{
	s->harmless = true;
}

size_t
stream_room(const struct stream *s)
{
	if (s->state != STREAM_OPEN || s->fate != FATE_GO ||
	    queued(s) >= LIMIT_PUMP)
		return 0;
	return LIMIT_PUMP - queued(s);
}

int
stream_send(struct stream *s, unsigned channel, const void *data, size_t len)
{
	char c = (char)channel;

	if (len > stream_room(s)) {
		s->want_room = true;
		return -1;
	}
	buf_put(&s->message, &c, 1);
	buf_put(&s->message, data, len);
	s->unread = true;
	s->mark = s->pings;
	if (!buf_ok(&s->message))
		no_memory(s);
	else if (put(s, WS_BINARY, s->message.data, s->message.len) == 0)
		flush(s);
	buf_reset(&s->message, KEEP);
	if (!s->busy && s->fate != FATE_GO)
		kick(s);
	else if (!s->busy && queued(s) > 0)
		loop_fd_want(s->fd, (short)((s->paused ? 0 : POLLIN) |
		    POLLOUT));
	return 0;
}

void
stream_pause(struct stream *s, int paused)
{
	if (s->state != STREAM_OPEN || s->paused == (paused != 0))
		return;
	s->paused = paused != 0;
	s->unanswered = 0;
	/* Frames may wait in TLS, where no event tells of them. */
	if (!s->paused)
		kick(s);
	if (!s->busy && s->fd != NULL)
		loop_fd_want(s->fd, (short)((s->paused ? 0 : POLLIN) |
		    (queued(s) > 0 ? POLLOUT : 0)));
}

void
stream_on_room(struct stream *s, void (*room)(void *), void *arg)
{
	s->room = room;
	s->room_arg = arg;
}
