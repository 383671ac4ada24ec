/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop - one thread, one wait: libcurl's transfers, our descriptors, timers.
 *
 * The functions given are called from loop_turn() only, one at a time. They
 * may add and remove anything, themselves included.
 */
#ifndef LOOP_H
#define LOOP_H

struct error;
struct loop;
struct loop_fd;
struct loop_timer;

struct loop *loop_open(struct error *err);
void loop_close(struct loop *l);	/* after everything on it is gone */

/* events and revents are poll(2)'s POLLIN and POLLOUT (revents: POLLHUP too) */
typedef void loop_ready(void *arg, short revents);
struct loop_fd *loop_fd_add(struct loop *l, int fd, short events,
    loop_ready *ready, void *arg);	/* NULL: no memory */
void loop_fd_want(struct loop_fd *f, short events);	/* 0 is allowed */
void loop_fd_del(struct loop_fd *f);	/* NULL is fine; fd stays open */

/* Once, ms from now. Del after it fired is the caller's mistake. */
typedef void loop_due(void *arg);
struct loop_timer *loop_timer_add(struct loop *l, long ms, loop_due *due,
    void *arg);
void loop_timer_del(struct loop_timer *t);	/* NULL is fine */

/* The CURLM * that web.c adds its transfers to, and what is told of ends. */
void *loop_multi(struct loop *l);
typedef void loop_done(void *easy, int curlcode);
void loop_on_done(struct loop *l, loop_done *done);

/*
 * Sleep until something is ready or due, at most ms (-1: no limit), then do
 * all of it. 0, or -1 when waiting itself failed.
 */
int loop_turn(struct loop *l, long ms, struct error *err);

#endif
