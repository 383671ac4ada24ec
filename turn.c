/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>

#include "error.h"
#include "mono.h"
#include "turn.h"

/*
 * Nothing on these lists is freed while somebody may be walking them: what is
 * removed is marked dead, and swept when the turn is over.
 */
struct turn_fd {
	struct turn *turn;
	struct turn_fd *next;
	int fd;
	short events;
	short revents;
	turn_ready *ready;
	void *arg;
	bool dead;
};

struct turn_timer {
	struct turn *turn;
	struct turn_timer *next;
	long due;
	turn_due *call;
	void *arg;
	bool young;		/* added in this turn: waits for the next */
	bool dead;
};

struct turn {
	struct turn_fd *fds;
	struct turn_timer *timers;
	struct pollfd *poll;
	size_t cap;
	bool turning;
};

struct turn *
turn_open(struct error *err)
{
	struct turn *t = calloc(1, sizeof(*t));

	if (t == NULL)
		error_set(err, ERR_SYSTEM, "out of memory");
	return t;
}

static void
sweep(struct turn *t, bool all)
{
	struct turn_fd **f = &t->fds, *fd;
	struct turn_timer **m = &t->timers, *timer;

	while ((fd = *f) != NULL) {
		if (fd->dead || all) {
			*f = fd->next;
			free(fd);
		} else {
			f = &fd->next;
		}
	}
	while ((timer = *m) != NULL) {
		timer->young = false;
		if (timer->dead || all) {
			*m = timer->next;
			free(timer);
		} else {
			m = &timer->next;
		}
	}
}

void
turn_close(struct turn *t)
{
	if (t == NULL)
		return;
	sweep(t, true);
	free(t->poll);
	free(t);
}

struct turn_fd *
turn_fd_add(struct turn *t, int fd, short events, turn_ready *ready, void *arg)
{
	struct turn_fd *f = malloc(sizeof(*f));

	if (f == NULL)
		return NULL;
	*f = (struct turn_fd){ .turn = t, .next = t->fds, .fd = fd,
	    .events = events, .ready = ready, .arg = arg };
	t->fds = f;
	return f;
}

void
turn_fd_want(struct turn_fd *f, short events)
{
	f->events = events;
}

void
turn_fd_del(struct turn_fd *f)
{
	if (f == NULL)
		return;
	f->dead = true;
	if (!f->turn->turning)
		sweep(f->turn, false);
}

struct turn_timer *
turn_timer_add(struct turn *t, long ms, turn_due *due, void *arg)
{
	struct turn_timer *timer = malloc(sizeof(*timer));

	if (timer == NULL)
		return NULL;
	*timer = (struct turn_timer){ .turn = t, .next = t->timers,
	    .due = mono_ms() + (ms > 0 ? ms : 0), .call = due, .arg = arg,
	    .young = t->turning };
	t->timers = timer;
	return timer;
}

void
turn_timer_del(struct turn_timer *t)
{
	if (t == NULL)
		return;
	t->dead = true;
	if (!t->turn->turning)
		sweep(t->turn, false);
}

static int
patience(const struct turn *t)
{
	const struct turn_timer *timer;
	long ms, least = -1, now = mono_ms();

	for (timer = t->timers; timer != NULL; timer = timer->next) {
		ms = timer->due > now ? timer->due - now : 0;
		if (least == -1 || ms < least)
			least = ms;
	}
	return least > INT_MAX ? INT_MAX : (int)least;
}

static int
collect(struct turn *t, nfds_t *n, struct error *err)
{
	struct pollfd *room;
	struct turn_fd *f;
	size_t count = 0;

	for (f = t->fds; f != NULL; f = f->next)
		count++;
	if (count > t->cap) {
		room = realloc(t->poll, (count + 16) * sizeof(*room));
		if (room == NULL)
			return error_set(err, ERR_SYSTEM, "out of memory");
		t->poll = room;
		t->cap = count + 16;
	}
	*n = 0;
	for (f = t->fds; f != NULL; f = f->next)
		if (f->events != 0)
			t->poll[(*n)++] = (struct pollfd){ .fd = f->fd,
			    .events = f->events };
	return 0;
}

static void
run_fds(struct turn *t, nfds_t n)
{
	struct turn_fd *f;
	nfds_t i = 0;
	short got;

	for (f = t->fds; f != NULL && i < n; f = f->next) {
		f->revents = 0;
		if (f->events != 0)
			f->revents = t->poll[i++].revents;
	}
	for (f = t->fds; f != NULL; f = f->next) {
		got = f->revents;
		f->revents = 0;
		if (got & (POLLERR | POLLNVAL))
			got |= POLLHUP;
		/* Somebody earlier in this turn may have lost interest. */
		got &= (short)(f->events | POLLHUP);
		if (got != 0 && !f->dead && f->events != 0)
			f->ready(f->arg, got);
	}
}

static void
run_timers(struct turn *t)
{
	struct turn_timer *timer;
	long now = mono_ms();

	for (timer = t->timers; timer != NULL; timer = timer->next) {
		if (timer->dead || timer->young || timer->due > now)
			continue;
		timer->dead = true;
		timer->call(timer->arg);
	}
}

int
turn_once(struct turn *t, struct error *err)
{
	nfds_t n = 0;

	if (collect(t, &n, err) == -1)
		return -1;
	if (poll(t->poll, n, patience(t)) == -1) {
		if (errno != EINTR)
			return error_sys(err, "poll");
		n = 0;
	}
	t->turning = true;
	run_fds(t, n);
	run_timers(t);
	t->turning = false;
	sweep(t, false);
	return 0;
}
