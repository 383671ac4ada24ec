/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "error.h"
#include "grpc.h"
#include "budget.h"
#include "sandboxd.h"
#include "web.h"

#define SERVICE "/process.v1.ProcessService/"

enum {
	PIECE = 64 << 10,	/* of stdin */
	SIGNALS = 4		/* under way at once; more are dropped */
};

/* Field numbers: contract agent-sandbox 3.2, process.v1. */
enum {
	START_CONFIG = 1,
	CONFIG_COMMAND = 1, CONFIG_ENV = 2, CONFIG_CWD = 3,
	ENTRY_KEY = 1, ENTRY_VALUE = 2,
	EVENT_INIT = 1, EVENT_STDOUT = 2, EVENT_STDERR = 3, EVENT_EXIT = 4,
	INIT_ID = 1, EXIT_CODE = 1,
	STDIN_ID = 1, STDIN_INPUT = 2, STDIN_EOF = 3,
	SIGNAL_ID = 1, SIGNAL_NUMBER = 2
};

struct sandboxd_run {
	struct web *w;
	const struct sandboxd_port *port;
	event_fn *fn;
	void *arg;
	const char *input;		/* the caller's */
	size_t input_left;

	struct web_op *start, *write;
	struct web_op *signals[SIGNALS];
	struct grpc_reader reader;
	struct error err;		/* of what the daemon sent */
	uint64_t id;
	int waiting_signal;		/* given before there was an id */
	bool running;			/* the id is known */
	bool eof_sent;
	bool exited;
	bool busy;			/* the caller's function may run */
	bool closed;			/* by it, meanwhile */
	long code;
};

static void
release(struct sandboxd_run *r)
{
	size_t i;

	web_cancel(r->start);
	web_cancel(r->write);
	for (i = 0; i < SIGNALS; i++)
		web_cancel(r->signals[i]);
	grpc_reader_free(&r->reader);
	free(r);
}

static void
end(struct sandboxd_run *r, const struct error *err, long status)
{
	struct event ev = {
		.type = EVENT_END, .err = err, .reason = "",
		.status = status, .code = r->code
	};
	event_fn *fn = r->fn;
	void *arg = r->arg;

	release(r);
	fn(arg, &ev);
}

static event_fn on_start;

/*
 * body holds one message; its prefix is put here. A program may be silent, and
 * not read its stdin, for as long as it likes: only what the daemon itself
 * answers has a time limit (patience: 0 the limits', -1 none).
 */
static struct web_op *
call(struct sandboxd_run *r, const char *method, struct buf *body,
    long patience, event_fn *done, void *arg, struct error *err)
{
	static const char *const headers[] = {
		"content-type: application/grpc", "te: trailers", NULL
	};
	char url[sizeof(r->port->url) + 64];
	struct web_req req = {
		.method = "POST", .url = url, .headers = headers,
		.resolve = r->port->resolve[0] != '\0' ?
		    r->port->resolve : NULL,
		.open_socket = r->port->open_socket,
		.open_arg = r->port->open_arg,
		.http2 = true, .stream = done == on_start,
		.first_byte_ms = patience, .idle_ms = -1
	};

	grpc_frame(body, 0);
	if (!buf_ok(body)) {
		error_set(err, ERR_LIMIT, "sandboxd: a message of more than "
		    "%d bytes", LIMIT_GRPC);
		return NULL;
	}
	(void)snprintf(url, sizeof(url), "%s" SERVICE "%s", r->port->url,
	    method);
	req.body = body->data;
	req.body_len = body->len;
	return web_send(r->w, &req, done, arg, err);
}

static enum error_code
code_of(long status)
{
	switch (status) {
	case 1:
		return ERR_CANCELLED;
	case 3:
	case 9:
	case 11:
		return ERR_INPUT;
	case 4:
		return ERR_TIMEOUT;
	case 5:
		return ERR_GONE;
	case 7:
	case 16:
		return ERR_DENIED;
	case 8:
		return ERR_BUSY;
	default:
		return ERR_CLUSTER;
	}
}

/* What the tunnel knows is better than "the connection was closed". */
static int
no_answer(const struct sandboxd_port *port, const struct error *how,
    struct error *err)
{
	const struct error *why = NULL;

	if (port->why != NULL && how->code == ERR_LOST)
		why = port->why(port->open_arg);
	*err = why != NULL ? *why : *how;
	return error_wrap(err, "sandboxd");
}

/* The verdict on a finished call; *status is gRPC's, -1 for none. */
static int
verdict(const struct sandboxd_port *port, const struct web_op *op,
    const struct event *ev, long *status, struct error *err)
{
	const char *text = web_field(op, "grpc-status");
	const char *words = web_field(op, "grpc-message");
	char message[400], *tail;

	*status = -1;
	if (ev->err != NULL)
		return no_answer(port, ev->err, err);
	if (ev->status != 200)
		return error_set(err, ERR_CLUSTER, "sandboxd: HTTP status "
		    "%ld; is a sandboxd listening there?", ev->status);
	*status = strtol(text, &tail, 10);
	if (tail == text || *tail != '\0' || *status < 0) {
		*status = -1;
		return error_set(err, ERR_LOST,
		    "sandboxd: the call ended without a grpc-status");
	}
	if (*status == 0)
		return 0;
	grpc_message_decode(words, strlen(words), message, sizeof(message));
	return error_set(err, code_of(*status), "sandboxd: %s: %s",
	    grpc_code_name(*status), message);
}

static int write_next(struct sandboxd_run *r, struct error *err);

/*
 * A program that closed its stdin or is gone is no failure: a shell's pipe
 * would not say more. When the bytes can't be delivered the program would
 * wait for ever; leaving the stream makes the daemon kill it.
 */
static void
on_write(void *arg, const struct event *ev)
{
	struct sandboxd_run *r = arg;
	const struct web_op *op = r->write;
	struct error err;
	long status;

	if (ev->type != EVENT_REPLY)
		return;
	r->write = NULL;
	if (verdict(r->port, op, ev, &status, &err) == 0 &&
	    write_next(r, &err) == 0)
		return;
	if (status > 0)
		return;
	error_wrap(&err, "standard input was not delivered");
	end(r, &err, ev->status);
}

static int
write_next(struct sandboxd_run *r, struct error *err)
{
	size_t n = r->input_left < PIECE ? r->input_left : PIECE;
	struct buf body;

	if (r->eof_sent)
		return 0;
	buf_init(&body, LIMIT_GRPC);
	pb_varint(&body, STDIN_ID, r->id);
	if (n > 0)
		pb_bytes(&body, STDIN_INPUT, r->input, n);
	else
		pb_bytes(&body, STDIN_EOF, "", 0);
	r->eof_sent = n == 0;
	r->input += n;
	r->input_left -= n;
	r->write = call(r, "WriteStdin", &body, -1, on_write, r, err);
	buf_free(&body);
	return r->write == NULL ? -1 : 0;
}

static void
on_signal(void *arg, const struct event *ev)
{
	struct web_op **slot = arg;

	if (ev->type == EVENT_REPLY)
		*slot = NULL;
}

static void
send_signal(struct sandboxd_run *r, int signo)
{
	struct web_op **slot = r->signals;
	struct error err;
	struct buf body;

	while (slot < r->signals + SIGNALS && *slot != NULL)
		slot++;
	if (slot == r->signals + SIGNALS)
		return;
	buf_init(&body, 64);
	pb_varint(&body, SIGNAL_ID, r->id);
	pb_varint(&body, SIGNAL_NUMBER, (uint64_t)signo);
	*slot = call(r, "SendSignal", &body, 0, on_signal, slot, &err);
	buf_free(&body);
}

static uint64_t
number_in(const struct pb_field *message, unsigned field)
{
	const char *p = message->data, *tail = p + message->len;
	struct pb_field f;
	uint64_t n = 0;

	while (pb_next(&p, tail, &f) == 1)
		if (f.number == field && f.type == 0)
			n = f.value;
	return n;
}

/* The daemon's own number for the process, never a kernel's. */
static int
began(struct sandboxd_run *r, uint64_t id)
{
	struct event ev = { .type = EVENT_OPEN, .data = "" };

	if (r->running)
		return 0;
	r->running = true;
	r->id = id;
	if (write_next(r, &r->err) == -1)
		return -1;
	if (r->waiting_signal != 0)
		send_signal(r, r->waiting_signal);
	r->fn(r->arg, &ev);
	return 0;
}

static void
output(struct sandboxd_run *r, int channel, const struct pb_field *f)
{
	struct event ev = {
		.type = EVENT_DATA, .channel = channel,
		.data = f->data, .len = f->len
	};

	if (f->len > 0)
		r->fn(r->arg, &ev);
}

/* One StartResponse: a oneof, told by its number even when it is empty. */
static int
on_message(void *arg, const char *data, size_t len)
{
	struct sandboxd_run *r = arg;
	const char *tail = data + len;
	struct pb_field f;
	int more;

	while ((more = pb_next(&data, tail, &f)) == 1 && !r->closed) {
		if (f.type != 2)
			continue;
		if (f.number == EVENT_INIT &&
		    began(r, number_in(&f, INIT_ID)) == -1)
			return -1;
		if (f.number == EVENT_STDOUT)
			output(r, 1, &f);
		if (f.number == EVENT_STDERR)
			output(r, 2, &f);
		if (f.number == EVENT_EXIT) {
			r->exited = true;
			r->code = (int32_t)number_in(&f, EXIT_CODE);
		}
	}
	if (more == -1)
		return error_set(&r->err, ERR_CLUSTER,
		    "sandboxd: an unreadable message");
	return r->closed ? -1 : 0;
}

/* The exit event counts, whatever becomes of the connection after it. */
static void
finish(struct sandboxd_run *r, const struct web_op *op,
    const struct event *ev)
{
	struct error err, why;
	long status;

	if (r->exited) {
		end(r, NULL, ev->status);
		return;
	}
	if (verdict(r->port, op, ev, &status, &err) == 0)
		error_set(&err, ERR_LOST, "sandboxd: the stream ended "
		    "without an exit status");
	why = err;
	if (err.code == ERR_LOST)
		error_set(&err, ERR_LOST, "connection lost: no exit status "
		    "came (%s); the command may still be running", why.text);
	end(r, &err, ev->status);
}

static void
on_start(void *arg, const struct event *ev)
{
	struct sandboxd_run *r = arg;
	const struct web_op *op = r->start;
	struct error err = { .code = ERR_CLUSTER };
	int bad;

	if (ev->type == EVENT_REPLY) {
		r->start = NULL;
		finish(r, op, ev);
		return;
	}
	if (ev->type != EVENT_DATA)
		return;
	r->busy = true;
	bad = grpc_feed(&r->reader, ev->data, ev->len, on_message, r, &err);
	r->busy = false;
	if (r->closed) {
		release(r);
	} else if (bad == -1) {
		if (r->err.code != ERR_NONE)
			err = r->err;
		end(r, &err, 0);
	}
}

static void
entry(struct buf *out, const char *name, const char *value)
{
	struct buf pair;

	buf_init(&pair, LIMIT_GRPC);
	pb_str(&pair, ENTRY_KEY, name);
	pb_str(&pair, ENTRY_VALUE, value);
	if (buf_ok(&pair))
		pb_bytes(out, CONFIG_ENV, pair.data, pair.len);
	else
		out->failed = true;
	buf_free(&pair);
}

static void
start_write(struct buf *body, const struct sandboxd_start *start)
{
	const char *const *word;
	struct buf config;

	buf_init(&config, LIMIT_GRPC);
	for (word = start->argv; *word != NULL; word++)
		pb_str(&config, CONFIG_COMMAND, *word);
	for (word = start->env; word != NULL && word[0] != NULL; word += 2)
		entry(&config, word[0], word[1]);
	if (start->cwd != NULL)
		pb_str(&config, CONFIG_CWD, start->cwd);
	if (buf_ok(&config))
		pb_bytes(body, START_CONFIG, config.data, config.len);
	else
		body->failed = true;
	buf_free(&config);
}

struct sandboxd_run *
sandboxd_run(struct web *w, const struct sandboxd_port *p,
    const struct sandboxd_start *start, event_fn *fn, void *arg,
    struct error *err)
{
	struct sandboxd_run *r = calloc(1, sizeof(*r));
	struct buf body;

	if (r == NULL) {
		error_set(err, ERR_SYSTEM, "no memory for a command");
		return NULL;
	}
	r->w = w;
	r->port = p;
	r->fn = fn;
	r->arg = arg;
	r->input = start->input;
	r->input_left = start->input_len;
	grpc_reader_init(&r->reader);
	buf_init(&body, LIMIT_GRPC);
	start_write(&body, start);
	r->start = call(r, "Start", &body, 0, on_start, r, err);
	buf_free(&body);
	if (r->start == NULL) {
		release(r);
		return NULL;
	}
	return r;
}

void
sandboxd_signal(struct sandboxd_run *r, int signo)
{
	if (signo != SIGINT && signo != SIGTERM && signo != SIGKILL)
		return;
	if (r->running)
		send_signal(r, signo);
	else
		r->waiting_signal = signo;
}

void
sandboxd_close(struct sandboxd_run *r)
{
	if (r == NULL)
		return;
	r->closed = true;
	if (!r->busy)
		release(r);
}
