/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buf.h"
#include "error.h"
#include "k8s.h"
#include "budget.h"
#include "loop.h"
#include "stream.h"
#include "tunnel.h"

enum {
	/* A frame of it, with its channel, is two records of TLS. */
	PIECE = (32 << 10) - 9,
	KEEP = 64 << 10,	/* memory that waits for the next bytes held */
	PREFIX = 2,		/* the port, first on each channel */
	CHANNEL_DATA = 0, CHANNEL_ERROR = 1
};

/* One socket of libcurl's and the stream that carries it. */
struct pipe {
	struct tunnel *t;
	struct pipe *next;
	struct stream *s;	/* NULL: over; what is held goes out first */
	struct loop_fd *ready;
	int fd;
	bool open;
	bool no_room;		/* the stream is full */
	bool up_end;		/* nothing more comes from libcurl */
	size_t prefix[2];	/* seen of each channel's */
	struct buf held;	/* for libcurl, which does not read */
};

struct tunnel {
	struct k8s *k;
	char *path;
	char pod[256];
	unsigned port;
	struct pipe *pipes;
	struct error err;
};

static loop_ready on_ready;

static void
pipe_free(struct pipe *p)
{
	struct pipe **at = &p->t->pipes;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	stream_close(p->s);
	loop_fd_del(p->ready);
	close(p->fd);
	buf_free(&p->held);
	free(p);
}

static void
want(struct pipe *p)
{
	short events = 0;

	if (p->held.len > 0)
		events |= POLLOUT;
	if (p->open && p->s != NULL && !p->up_end && !p->no_room)
		events |= POLLIN;
	/* A closed peer is always "ready"; don't spin on what we can't do. */
	if (events == 0) {
		loop_fd_del(p->ready);
		p->ready = NULL;
	} else if (p->ready != NULL) {
		loop_fd_want(p->ready, events);
	} else {
		p->ready = loop_fd_add(k8s_loop(p->t->k), p->fd, events,
		    on_ready, p);
		if (p->ready == NULL)
			pipe_free(p);
	}
}

static void
say(struct tunnel *t, const struct error *err)
{
	t->err = *err;
	error_wrap(&t->err, "port %u of pod %s", t->port, t->pod);
}

/* -1: libcurl closed its end. */
static int
pour(struct pipe *p, const char *data, size_t len, size_t *done)
{
	ssize_t n;

	*done = 0;
	while (*done < len) {
		n = send(p->fd, data + *done, len - *done,
		    MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return errno == EAGAIN || errno == EWOULDBLOCK ?
			    0 : -1;
		*done += (size_t)n;
	}
	return 0;
}

/* From the pod. false: the pipe is no more. */
static bool
down(struct pipe *p, const char *data, size_t len)
{
	struct error err;
	size_t done = 0;

	p->t->err.code = ERR_NONE;
	if (p->held.len == 0 && pour(p, data, len, &done) == -1) {
		pipe_free(p);
		return false;
	}
	if (done == len)
		return true;
	buf_put(&p->held, data + done, len - done);
	if (!buf_ok(&p->held)) {
		error_set(&err, ERR_LIMIT, "more than %d bytes at once",
		    LIMIT_PUMP);
		say(p->t, &err);
		pipe_free(p);
		return false;
	}
	stream_pause(p->s, 1);
	want(p);
	return true;
}

/* The kubelet's text names the node's files and addresses: cut it short. */
static void
complain(struct pipe *p, const char *text, size_t len)
{
	struct error err;

	if (memmem(text, len, "connection refused", 18) != NULL)
		error_set(&err, ERR_LOST,
		    "connection refused: nothing listens on it");
	else
		error_set(&err, ERR_LOST, "%.*s", len > 300 ? 300 : (int)len,
		    text);
	say(p->t, &err);
	pipe_free(p);
}

static void
on_data(struct pipe *p, const struct event *ev)
{
	struct error err;
	size_t *seen, skip;

	if (ev->channel != CHANNEL_DATA && ev->channel != CHANNEL_ERROR) {
		error_set(&err, ERR_CLUSTER, "the API server sent something "
		    "on an unknown channel, %d", ev->channel);
		say(p->t, &err);
		pipe_free(p);
		return;
	}
	seen = &p->prefix[ev->channel];
	skip = PREFIX - *seen < ev->len ? PREFIX - *seen : ev->len;
	*seen += skip;
	if (ev->len == skip)
		return;
	if (ev->channel == CHANNEL_DATA)
		down(p, ev->data + skip, ev->len - skip);
	else
		complain(p, ev->data + skip, ev->len - skip);
}

/* The stream is over: what is held still belongs to libcurl. */
static void
on_end(struct pipe *p, const struct error *err)
{
	if (err != NULL)
		say(p->t, err);
	p->s = NULL;
	if (p->held.len == 0)
		pipe_free(p);
	else
		want(p);
}

static void
on_stream(void *arg, const struct event *ev)
{
	struct pipe *p = arg;

	if (ev->type == EVENT_OPEN) {
		p->open = true;
		want(p);
	} else if (ev->type == EVENT_DATA) {
		on_data(p, ev);
	} else if (ev->type == EVENT_END) {
		on_end(p, ev->err);
	}
}

static void
on_room(void *arg)
{
	struct pipe *p = arg;

	p->no_room = false;
	want(p);
}

/* Both halves are closed, not only the one that we read. */
static bool
hung_up(int fd)
{
	struct pollfd pfd = { .fd = fd };

	return poll(&pfd, 1, 0) == 1 && (pfd.revents & POLLHUP) != 0;
}

/* From libcurl. false: the pipe is no more. */
static bool
up(struct pipe *p)
{
	char data[PIECE];
	size_t room;
	ssize_t n;

	while ((room = stream_room(p->s)) > 0) {
		n = read(p->fd, data, room < PIECE ? room : PIECE);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return true;
		if (n <= 0 && (n == -1 || hung_up(p->fd))) {
			pipe_free(p);
			return false;
		}
		/* Port-forward has no word for "no more from here". */
		if (n == 0) {
			p->up_end = true;
			return true;
		}
		stream_send(p->s, CHANNEL_DATA, data, (size_t)n);
	}
	/* Asked for in vain, so that the stream says when there is some. */
	p->no_room = stream_send(p->s, CHANNEL_DATA, data, PIECE) == -1;
	return true;
}

static void
on_ready(void *arg, short revents)
{
	struct pipe *p = arg;
	size_t done;

	if (p->held.len > 0 && (revents & (POLLOUT | POLLHUP)) != 0) {
		if (pour(p, p->held.data, p->held.len, &done) == -1) {
			pipe_free(p);
			return;
		}
		buf_drop(&p->held, done);
		if (p->held.len == 0 && p->s == NULL) {
			pipe_free(p);
			return;
		}
		if (p->held.len == 0) {
			buf_reset(&p->held, KEEP);
			stream_pause(p->s, 0);
		}
	}
	if ((revents & (POLLIN | POLLHUP)) != 0 && p->open && p->s != NULL &&
	    !p->up_end && !p->no_room && !up(p))
		return;
	want(p);
}

struct tunnel *
tunnel_open(struct k8s *k, const char *namespace, const char *pod,
    uint16_t port)
{
	struct tunnel *t = calloc(1, sizeof(*t));
	struct buf path;

	if (t == NULL)
		return NULL;
	buf_init(&path, 4096);
	buf_puts(&path, "/api/v1/namespaces/");
	k8s_escape(&path, namespace);
	buf_puts(&path, "/pods/");
	k8s_escape(&path, pod);
	buf_printf(&path, "/portforward?ports=%u", (unsigned)port);
	if (!buf_ok(&path)) {
		buf_free(&path);
		free(t);
		return NULL;
	}
	t->k = k;
	t->path = path.data;
	t->port = port;
	(void)snprintf(t->pod, sizeof(t->pod), "%s", pod);
	return t;
}

void
tunnel_close(struct tunnel *t)
{
	if (t == NULL)
		return;
	while (t->pipes != NULL)
		pipe_free(t->pipes);
	free(t->path);
	free(t);
}

/*
 * The stream is opened by the loop's next turn: libcurl calls this from
 * inside itself, where no other transfer may be touched.
 */
int
tunnel_socket(void *tunnel)
{
	struct tunnel *t = tunnel;
	struct pipe *p = calloc(1, sizeof(*p));
	int fd[2];

	if (p == NULL)
		return -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
	    fd) == -1) {
		free(p);
		return -1;
	}
	p->s = stream_open(t->k, t->path, "v4.channel.k8s.io", on_stream, p);
	if (p->s == NULL) {
		close(fd[0]);
		close(fd[1]);
		free(p);
		errno = ENOMEM;
		return -1;
	}
	t->err.code = ERR_NONE;
	p->t = t;
	p->fd = fd[1];
	buf_init(&p->held, LIMIT_PUMP);
	stream_harmless(p->s);
	stream_on_room(p->s, on_room, p);
	p->next = t->pipes;
	t->pipes = p;
	return fd[0];
}

const struct error *
tunnel_error(const struct tunnel *t)
{
	return t->err.code == ERR_NONE ? NULL : &t->err;
}
