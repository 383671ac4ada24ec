/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "budget.h"
#include "buf.h"
#include "loop.h"
#include "meet.h"
#include "sse.h"

enum { PIECE = 64 * 1024, CALLER_MAX = 256, ROOM = 'r' };

/* A message on its way in. */
struct parcel {
	struct parcel *next;
	struct sse_box *box;
	int fd;
	struct loop_fd *rd;
	struct loop_timer *timer;
	struct buf bytes;
};

struct sse_box {
	struct loop *loop;
	int fd;
	struct loop_fd *rd;
	sse_got *got;
	void *arg;
	struct parcel *parcels;
	size_t n;
};

/* --- the box ------------------------------------------------------------ */

static void
parcel_free(struct parcel *p)
{
	struct parcel **at = &p->box->parcels;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	p->box->n--;
	loop_fd_del(p->rd);
	loop_timer_del(p->timer);
	(void)close(p->fd);
	buf_wipe(&p->bytes);
	free(p);
}

static void
answer(struct parcel *p, enum sse_verdict v)
{
	char byte = (char)v;

	(void)send(p->fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	parcel_free(p);
}

static void
whole(struct parcel *p)
{
	const char *caller = p->bytes.data;
	const char *nul = p->bytes.len == 0 ? NULL :
	    memchr(caller, '\0', p->bytes.len);
	size_t n;

	if (nul == NULL) {
		parcel_free(p);
		return;
	}
	n = (size_t)(nul + 1 - caller);
	answer(p, p->box->got(p->box->arg, caller, nul + 1,
	    p->bytes.len - n));
}

static void
on_bytes(void *arg, short revents)
{
	struct parcel *p = arg;
	char piece[PIECE];
	ssize_t n = recv(p->fd, piece, sizeof(piece), MSG_DONTWAIT);

	(void)revents;
	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == 0) {
		whole(p);
		return;
	}
	if (n > 0)
		buf_put(&p->bytes, piece, (size_t)n);
	if (n == -1 || !buf_ok(&p->bytes))
		parcel_free(p);
}

static void
on_late(void *arg)
{
	struct parcel *p = arg;

	p->timer = NULL;
	parcel_free(p);
}

static void
parcel_open(struct sse_box *b, int fd)
{
	struct parcel *p = b->n < LIMIT_CALLS ? calloc(1, sizeof(*p)) : NULL;
	char byte = p != NULL ? ROOM : SSE_BUSY;

	(void)send(fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (p == NULL) {
		(void)close(fd);
		return;
	}
	p->box = b;
	p->fd = fd;
	buf_init(&p->bytes, LIMIT_MESSAGE + CALLER_MAX);
	p->next = b->parcels;
	b->parcels = p;
	b->n++;
	p->rd = loop_fd_add(b->loop, fd, POLLIN, on_bytes, p);
	p->timer = loop_timer_add(b->loop, LIMIT_HTTP_HEAD_MS, on_late, p);
	if (p->rd == NULL || p->timer == NULL)
		parcel_free(p);
}

static void
on_parcel(void *arg, short revents)
{
	struct sse_box *b = arg;
	char name[MEET_NAME_SIZE];
	int fd, r = meet_recv(b->fd, name, &fd);

	(void)revents;
	if (r == 1 && fd != -1)
		parcel_open(b, fd);
	if (r == -1) {
		loop_fd_del(b->rd);
		b->rd = NULL;
	}
}

struct sse_box *
sse_open(struct loop *l, int fd, char *name, sse_got *got, void *arg)
{
	struct sse_box *b = calloc(1, sizeof(*b));

	if (b == NULL)
		return NULL;
	*b = (struct sse_box){ .loop = l, .fd = fd, .got = got, .arg = arg };
	if (meet_name(name) && meet_send(fd, name, -1))
		b->rd = loop_fd_add(l, fd, POLLIN, on_parcel, b);
	if (b->rd != NULL)
		return b;
	sse_close(b);
	return NULL;
}

void
sse_close(struct sse_box *b)
{
	if (b == NULL)
		return;
	while (b->parcels != NULL)
		parcel_free(b->parcels);
	loop_fd_del(b->rd);
	free(b);
}

/* --- the courier -------------------------------------------------------- */

struct sse_courier {
	int fd;
	struct loop_fd *watch;
	struct loop_timer *timer;
	char caller[CALLER_MAX];
	size_t caller_len;
	const char *body;
	size_t len, sent;	/* of caller and body */
	bool room;
	sse_done *done;
	void *arg;
};

void
sse_cancel(struct sse_courier *c)
{
	if (c == NULL)
		return;
	loop_fd_del(c->watch);
	loop_timer_del(c->timer);
	(void)close(c->fd);
	free(c);
}

static void
back(struct sse_courier *c, enum sse_verdict v)
{
	sse_done *done = c->done;
	void *arg = c->arg;

	sse_cancel(c);
	done(arg, v);
}

static void
on_too_long(void *arg)
{
	struct sse_courier *c = arg;

	c->timer = NULL;
	back(c, SSE_BUSY);
}

static ssize_t
put(struct sse_courier *c)
{
	const char *from = c->sent < c->caller_len ? c->caller + c->sent :
	    c->body + (c->sent - c->caller_len);
	size_t n = (c->sent < c->caller_len ? c->caller_len :
	    c->caller_len + c->len) - c->sent;

	return send(c->fd, from, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void
on_pair(void *arg, short revents)
{
	struct sse_courier *c = arg;
	size_t all = c->caller_len + c->len;
	char byte = 0;
	ssize_t n;

	if (c->room && c->sent < all && revents & POLLOUT) {
		if ((n = put(c)) > 0)
			c->sent += (size_t)n;
		if (c->sent == all) {
			(void)shutdown(c->fd, SHUT_WR);
			loop_fd_want(c->watch, POLLIN);
		}
	}
	n = recv(c->fd, &byte, 1, MSG_DONTWAIT);
	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == 1 && byte == ROOM && !c->room) {
		c->room = true;
		loop_fd_want(c->watch, POLLIN | POLLOUT);
	} else if (n == 1 && (byte == SSE_TAKEN || byte == SSE_NOBODY)) {
		back(c, (enum sse_verdict)byte);
	} else {
		/* Closed without a word: there was nobody, or not any more. */
		back(c, n == 1 ? SSE_BUSY : SSE_NOBODY);
	}
}

struct sse_courier *
sse_carry(struct loop *l, int fd, const char *name, const char *caller,
    const char *body, size_t len, sse_done *done, void *arg)
{
	struct sse_courier *c = calloc(1, sizeof(*c));
	bool sent;
	int pair[2];

	if (c == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
	    pair) == -1) {
		free(c);
		return NULL;
	}
	*c = (struct sse_courier){ .fd = pair[0], .body = body, .len = len,
	    .done = done, .arg = arg };
	c->caller_len = strnlen(caller, CALLER_MAX - 1) + 1;
	memcpy(c->caller, caller, c->caller_len - 1);
	sent = meet_send(fd, name, pair[1]);
	(void)close(pair[1]);
	if (sent) {
		c->watch = loop_fd_add(l, c->fd, POLLIN, on_pair, c);
		c->timer = loop_timer_add(l, LIMIT_HTTP_HEAD_MS, on_too_long,
		    c);
	}
	if (c->watch != NULL && c->timer != NULL)
		return c;
	sse_cancel(c);
	return NULL;
}
