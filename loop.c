/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>

#include <curl/curl.h>

#include "error.h"
#include "loop.h"
#include "mono.h"

/*
 * Nothing on these lists is freed while somebody may be walking them: what is
 * removed is marked dead, and swept when the turn is over.
 */
struct loop_fd {
	struct loop *loop;
	struct loop_fd *next;
	int fd;
	short events;
	short revents;
	loop_ready *ready;
	void *arg;
	bool dead;
};

struct loop_timer {
	struct loop *loop;
	struct loop_timer *next;
	long due;
	unsigned long serial;
	loop_due *call;
	void *arg;
	bool dead;
};

struct loop {
	CURLM *multi;
	struct loop_fd *fds;
	struct loop_timer *timers;
	unsigned long serial;	/* of the youngest timer */
	loop_done *done;
	struct curl_waitfd *wait;
	struct pollfd *poll;
	size_t cap;		/* of both arrays */
	bool turning;
};

struct loop *
loop_open(struct error *err)
{
	struct loop *l;

	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		error_set(err, ERR_SYSTEM, "libcurl can't be started");
		return NULL;
	}
	if ((l = calloc(1, sizeof(*l))) == NULL ||
	    (l->multi = curl_multi_init()) == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		free(l);
		curl_global_cleanup();
		return NULL;
	}
	return l;
}

static void
sweep_fds(struct loop *l, bool all)
{
	struct loop_fd **at = &l->fds, *f;

	while ((f = *at) != NULL) {
		if (!f->dead && !all) {
			at = &f->next;
			continue;
		}
		*at = f->next;
		free(f);
	}
}

static void
sweep_timers(struct loop *l, bool all)
{
	struct loop_timer **at = &l->timers, *t;

	while ((t = *at) != NULL) {
		if (!t->dead && !all) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		free(t);
	}
}

void
loop_close(struct loop *l)
{
	if (l == NULL)
		return;
	assert(!l->turning);
	curl_multi_cleanup(l->multi);
	sweep_fds(l, true);
	sweep_timers(l, true);
	free(l->wait);
	free(l->poll);
	free(l);
	curl_global_cleanup();
}

struct loop_fd *
loop_fd_add(struct loop *l, int fd, short events, loop_ready *ready, void *arg)
{
	struct loop_fd *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return NULL;
	*f = (struct loop_fd){ .loop = l, .next = l->fds, .fd = fd,
	    .events = events, .ready = ready, .arg = arg };
	l->fds = f;
	return f;
}

void
loop_fd_want(struct loop_fd *f, short events)
{
	f->events = events;
}

void
loop_fd_del(struct loop_fd *f)
{
	if (f == NULL)
		return;
	f->dead = true;
	if (!f->loop->turning)
		sweep_fds(f->loop, false);
}

struct loop_timer *
loop_timer_add(struct loop *l, long ms, loop_due *due, void *arg)
{
	struct loop_timer *t = calloc(1, sizeof(*t));
	long now = mono_ms();

	if (t == NULL)
		return NULL;
	*t = (struct loop_timer){ .loop = l, .next = l->timers,
	    .due = now + (ms > 0 ? ms : 0), .serial = ++l->serial,
	    .call = due, .arg = arg };
	l->timers = t;
	return t;
}

void
loop_timer_del(struct loop_timer *t)
{
	if (t == NULL)
		return;
	t->dead = true;
	if (!t->loop->turning)
		sweep_timers(t->loop, false);
}

void *
loop_multi(struct loop *l)
{
	return l->multi;
}

void
loop_on_done(struct loop *l, loop_done *done)
{
	l->done = done;
}

/* The earliest timer not younger than serial; NULL when there is none. */
static struct loop_timer *
earliest(struct loop *l, unsigned long serial)
{
	struct loop_timer *t, *first = NULL;

	for (t = l->timers; t != NULL; t = t->next) {
		if (t->dead || t->serial > serial)
			continue;
		if (first == NULL || t->due < first->due ||
		    (t->due == first->due && t->serial < first->serial))
			first = t;
	}
	return first;
}

/*
 * Those that a timer adds wait for the next time, so that one that adds
 * itself again with 0 ms can't keep the loop from its descriptors.
 */
static void
run_timers(struct loop *l)
{
	unsigned long youngest = l->serial;
	struct loop_timer *t;
	long now = mono_ms();

	while ((t = earliest(l, youngest)) != NULL && t->due <= now) {
		t->dead = true;
		t->call(t->arg);
	}
}

static void
run_fds(struct loop *l)
{
	struct loop_fd *f;
	short revents;

	for (f = l->fds; f != NULL; f = f->next) {
		revents = f->revents;
		f->revents = 0;
		if (f->dead || revents == 0)
			continue;
		/* Somebody earlier in this turn may have lost interest. */
		revents &= (short)(f->events | POLLHUP);
		if (revents != 0 && f->events != 0)
			f->ready(f->arg, revents);
	}
}

static void
run_curl(struct loop *l)
{
	CURLMsg *msg;
	int n;

	curl_multi_perform(l->multi, &n);
	while ((msg = curl_multi_info_read(l->multi, &n)) != NULL)
		if (msg->msg == CURLMSG_DONE && l->done != NULL)
			l->done(msg->easy_handle, (int)msg->data.result);
}

static int
grow(struct loop *l, size_t n, struct error *err)
{
	struct curl_waitfd *wait;
	struct pollfd *polled;

	if (n <= l->cap)
		return 0;
	n += 16;
	if ((wait = realloc(l->wait, n * sizeof(*wait))) != NULL)
		l->wait = wait;
	if ((polled = realloc(l->poll, n * sizeof(*polled))) != NULL)
		l->poll = polled;
	if (wait == NULL || polled == NULL)
		return error_set(err, ERR_SYSTEM, "out of memory");
	l->cap = n;
	return 0;
}

static int
collect(struct loop *l, unsigned *count, struct error *err)
{
	struct loop_fd *f;
	size_t n = 0;

	for (f = l->fds; f != NULL; f = f->next)
		n++;
	if (grow(l, n, err) == -1)
		return -1;
	n = 0;
	for (f = l->fds; f != NULL; f = f->next) {
		f->revents = 0;
		if (f->dead || f->events == 0)
			continue;
		l->poll[n] = (struct pollfd){ .fd = f->fd,
		    .events = f->events };
		l->wait[n] = (struct curl_waitfd){ .fd = f->fd, .events =
		    (short)((f->events & POLLIN ? CURL_WAIT_POLLIN : 0) |
		    (f->events & POLLOUT ? CURL_WAIT_POLLOUT : 0)) };
		n++;
	}
	*count = (unsigned)n;
	return 0;
}

/*
 * libcurl hides POLLHUP and POLLERR, and the end of a pipe is nothing but a
 * POLLHUP: so ask again, without waiting. The list is in the order that
 * collect() left it in, as nothing has run since.
 */
static void
look(struct loop *l, unsigned count)
{
	struct loop_fd *f;
	unsigned i = 0;
	short got;

	if (count == 0 || poll(l->poll, count, 0) <= 0)
		return;
	for (f = l->fds; f != NULL && i < count; f = f->next) {
		if (f->dead || f->events == 0)
			continue;
		got = l->poll[i++].revents;
		if (got & (POLLERR | POLLNVAL))
			got |= POLLHUP;
		f->revents = got & (POLLIN | POLLOUT | POLLHUP);
	}
}

static int
patience(struct loop *l, long ms)
{
	struct loop_timer *t = earliest(l, l->serial);
	long left;

	if (t != NULL) {
		left = t->due - mono_ms();
		if (left < 0)
			left = 0;
		if (ms < 0 || left < ms)
			ms = left;
	}
	/* curl_multi_poll() takes -1 for an error: a day will do. */
	if (ms < 0 || ms > 86400000)
		ms = 86400000;
	return (int)ms;
}

int
loop_turn(struct loop *l, long ms, struct error *err)
{
	unsigned count;
	CURLMcode code;
	int ready;

	assert(!l->turning);
	if (collect(l, &count, err) == -1)
		return -1;
	code = curl_multi_poll(l->multi, l->wait, count, patience(l, ms),
	    &ready);
	if (code != CURLM_OK)
		return error_set(err, ERR_SYSTEM, "waiting failed: %s",
		    curl_multi_strerror(code));
	look(l, count);
	l->turning = true;
	run_fds(l);
	run_timers(l);
	run_curl(l);
	/* What libcurl brought is passed on by timers of 0 ms: see web.c. */
	run_timers(l);
	l->turning = false;
	sweep_fds(l, false);
	sweep_timers(l, false);
	return 0;
}
