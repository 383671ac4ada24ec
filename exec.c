/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "error.h"
#include "exec.h"
#include "json.h"
#include "k8s.h"
#include "budget.h"
#include "loop.h"
#include "stream.h"

#define V4 "v4.channel.k8s.io"
#define V5 "v5.channel.k8s.io"

enum {
	/* The API server reads 1 MiB of request line and fields at most. */
	PATH_MAX_LEN = 960 << 10,
	PIECE = 32 << 10,
	CHANNEL_STDIN = 0, CHANNEL_STDOUT = 1, CHANNEL_STDERR = 2,
	CHANNEL_STATUS = 3,
	CHANNEL_CLOSE = 255	/* v5: then the number of what is closed */
};

struct exec {
	struct stream *s;
	struct loop_timer *fail;	/* it never began */
	event_fn *fn;
	void *arg;
	void (*room)(void *);
	void *room_arg;
	char pod[256];
	bool open, v5;
	bool end_wanted;	/* of stdin, as soon as there is room */
	bool end_sent;
};

static void
release(struct exec *e)
{
	loop_timer_del(e->fail);
	stream_close(e->s);
	free(e);
}

static void
end(struct exec *e, const struct event *how)
{
	struct event ev = *how;
	event_fn *fn = e->fn;
	void *arg = e->arg;

	ev.type = EVENT_END;
	release(e);
	fn(arg, &ev);
}

/* The cause that holds the exit status; false if there is none. */
static bool
exit_code(struct json status, long *code)
{
	struct json cause;
	char text[16], *tail;

	for (cause = json_first(json_path(status, "details.causes"));
	    json_type(cause) != JSON_NONE; cause = json_next(cause)) {
		if (!json_is(json_get(cause, "reason"), "ExitCode") ||
		    !json_str(json_get(cause, "message"), text, sizeof(text)))
			continue;
		*code = strtol(text, &tail, 10);
		return tail != text && *tail == '\0' && *code >= INT32_MIN &&
		    *code <= INT32_MAX;
	}
	return false;
}

/*
 * What the Status says of the program: it ended (0), or it never ran or is
 * out of sight (-1), in the server's words.
 */
static int
status_read(const char *text, size_t len, long *code, struct error *err)
{
	char words[sizeof(err->text)] = "no reason given";
	struct json_doc *doc;
	struct json root;
	size_t at = 0, n;
	int r = 0;

	if ((doc = json_parse_lax(text, len, err)) == NULL)
		return error_wrap(err, "unreadable exit status");
	root = json_root(doc);
	if (json_is(json_get(root, "status"), "Success")) {
		*code = 0;
	} else if (!json_is(json_get(root, "reason"), "NonZeroExitCode")) {
		n = json_piece(json_get(root, "message"), &at, words,
		    sizeof(words) - 1);
		if (n > 0)
			words[n] = '\0';
		r = error_set(err, ERR_CLUSTER, "%s", words);
	} else if (!exit_code(root, code)) {
		r = error_set(err, ERR_CLUSTER,
		    "the exit status is not in the server's answer");
	}
	json_free(doc);
	return r;
}

/* Nothing that follows the Status counts; the stream ends by itself. */
static void
status_came(struct exec *e, const char *text, size_t len)
{
	struct error err = { .code = ERR_CLUSTER };
	struct event ev = { .reason = "" };

	if (status_read(text, len, &ev.code, &err) == -1) {
		error_wrap(&err, "command in pod %s", e->pod);
		ev.err = &err;
	}
	end(e, &ev);
}

static void
cut(struct exec *e, const struct event *how)
{
	struct event ev = *how;
	struct error err = { .code = ERR_LOST };

	if (how->err != NULL)
		err = *how->err;
	if (e->open) {
		error_set(&err, ERR_LOST, "connection lost: no exit status "
		    "came from pod %s (%s); the command may still be running",
		    e->pod, how->err == NULL ? "the stream was closed" :
		    how->err->text);
	} else {
		error_wrap(&err, "command in pod %s", e->pod);
	}
	ev.err = &err;
	e->s = NULL;
	end(e, &ev);
}

static void
write_end(struct exec *e)
{
	static const char which[1] = { CHANNEL_STDIN };

	if (stream_send(e->s, CHANNEL_CLOSE, which, sizeof(which)) == -1)
		return;
	e->end_wanted = false;
	e->end_sent = true;
}

/* Somebody's output may be missing now; better no result than half of one. */
static void
strayed(struct exec *e, int channel)
{
	struct error err;
	struct event ev = { .err = &err, .reason = "" };
	struct stream *s = e->s;

	error_set(&err, ERR_CLUSTER, "the API server sent something on an "
	    "unknown channel, %d", channel);
	cut(e, &ev);
	stream_close(s);
}

static void
on_stream(void *arg, const struct event *ev)
{
	struct exec *e = arg;

	if (ev->type == EVENT_OPEN) {
		e->open = true;
		e->v5 = ev->len == strlen(V5) &&
		    memcmp(ev->data, V5, ev->len) == 0;
		e->fn(e->arg, ev);
	} else if (ev->type == EVENT_END) {
		cut(e, ev);
	} else if (ev->type != EVENT_DATA) {
		return;
	} else if (ev->channel == CHANNEL_STATUS) {
		status_came(e, ev->data, ev->len);
	} else if (ev->channel != CHANNEL_STDOUT &&
	    ev->channel != CHANNEL_STDERR && ev->channel != CHANNEL_CLOSE) {
		strayed(e, ev->channel);
	} else if (ev->channel != CHANNEL_CLOSE && ev->len > 0) {
		e->fn(e->arg, ev);
	}
}

static void
on_room(void *arg)
{
	struct exec *e = arg;

	if (e->end_wanted && e->v5)
		write_end(e);
	else if (e->room != NULL)
		e->room(e->room_arg);
}

static void
on_fail(void *arg)
{
	struct exec *e = arg;
	struct error err;
	struct event ev = { .err = &err, .reason = "" };

	e->fail = NULL;
	error_set(&err, ERR_LIMIT, "command in pod %s: too long for the API "
	    "server (%d bytes with its escapes); give it through stdin or a "
	    "file", e->pod, PATH_MAX_LEN);
	end(e, &ev);
}

static void
path_write(struct buf *path, const struct exec_req *req)
{
	const char *const *word;

	buf_puts(path, "/api/v1/namespaces/");
	k8s_escape(path, req->namespace);
	buf_puts(path, "/pods/");
	k8s_escape(path, req->pod);
	/* One stream at least, or the server says 400. */
	buf_puts(path, "/exec?stdout=true&stderr=true");
	if (req->input)
		buf_puts(path, "&stdin=true");
	if (req->container != NULL) {
		buf_puts(path, "&container=");
		k8s_escape(path, req->container);
	}
	for (word = req->argv; *word != NULL; word++) {
		buf_puts(path, "&command=");
		k8s_escape(path, *word);
	}
}

struct exec *
exec_open(struct k8s *k, const struct exec_req *req, event_fn *fn, void *arg)
{
	struct exec *e = calloc(1, sizeof(*e));
	struct buf path;

	if (e == NULL)
		return NULL;
	e->fn = fn;
	e->arg = arg;
	(void)snprintf(e->pod, sizeof(e->pod), "%s", req->pod);
	buf_init(&path, PATH_MAX_LEN);
	path_write(&path, req);
	if (buf_ok(&path))
		e->s = stream_open(k, path.data, V5 ", " V4, on_stream, e);
	else
		e->fail = loop_timer_add(k8s_loop(k), 0, on_fail, e);
	buf_free(&path);
	if (e->s == NULL && e->fail == NULL) {
		free(e);
		return NULL;
	}
	if (e->s != NULL)
		stream_on_room(e->s, on_room, e);
	return e;
}

void
exec_close(struct exec *e)
{
	if (e != NULL)
		release(e);
}

size_t
exec_write(struct exec *e, const void *data, size_t len)
{
	const char *p = data;
	size_t done = 0, n, room;

	if (e->s == NULL)
		return 0;
	while (done < len) {
		room = stream_room(e->s);
		n = len - done < PIECE ? len - done : PIECE;
		/* Asking for it in vain is how we are told later. */
		if (room > 0 && n > room)
			n = room;
		if (stream_send(e->s, CHANNEL_STDIN, p + done, n) == -1)
			break;
		done += n;
	}
	return done;
}

void
exec_on_room(struct exec *e, void (*room)(void *), void *arg)
{
	e->room = room;
	e->room_arg = arg;
}

int
exec_write_end(struct exec *e)
{
	if (e->open && !e->v5)
		return -1;
	if (e->s == NULL || e->end_sent)
		return 0;
	e->end_wanted = true;
	write_end(e);
	return 0;
}
