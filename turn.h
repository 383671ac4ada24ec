/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn - descriptors and timers of the agent: loop.h without libcurl.
 *
 * The functions given are called from turn_once() only, one at a time. They
 * may add and remove anything, themselves included.
 */
#ifndef TURN_H
#define TURN_H

struct error;
struct turn;
struct turn_fd;
struct turn_timer;

struct turn *turn_open(struct error *err);
void turn_close(struct turn *t);	/* after everything on it is gone */

/* events and revents are poll(2)'s; POLLHUP stands for POLLERR as well. */
typedef void turn_ready(void *arg, short revents);
struct turn_fd *turn_fd_add(struct turn *t, int fd, short events,
    turn_ready *ready, void *arg);	/* NULL: no memory */
/* With 0 nothing is reported, POLLHUP neither. */
void turn_fd_want(struct turn_fd *f, short events);
void turn_fd_del(struct turn_fd *f);	/* NULL is fine; fd stays open */

/* Once, ms from now, unless it is deleted; it frees itself then. */
typedef void turn_due(void *arg);
struct turn_timer *turn_timer_add(struct turn *t, long ms, turn_due *due,
    void *arg);
void turn_timer_del(struct turn_timer *t);	/* NULL is fine */

/* Sleep until something is ready or due, then do all of it. */
int turn_once(struct turn *t, struct error *err);

#endif
