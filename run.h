/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run - a shell command in a sandbox, whichever way leads into it.
 *
 * What the command starts carries a mark in its environment, so that a
 * time-out or a cancel can end all of it, detached children included: TERM, a
 * moment, KILL, then a count of what is left. Where there is no runtime but
 * pods/exec, a wrapper (POSIX sh, no file left behind) gives the command its
 * working directory and environment, keeps a background child from holding
 * the call, and ends everything in the pod when we no longer can.
 */
#ifndef RUN_H
#define RUN_H

#include <stdbool.h>
#include <stddef.h>

#include "event.h"

struct env;
struct run;

struct run_req {
	const char *namespace, *sandbox;
	const char *address;		/* the pod's; see link.h */
	const char *claim;		/* its uid */
	const char *command;
	const char *cwd;		/* NULL: where the runtime begins */
	const char *input;		/* standard input; NULL: empty */
	size_t input_len;
	/* Instead of input, as in web.h; not by a runtime's own interface. */
	long (*give)(void *arg, char *dst, size_t size);
	void *give_arg;
	const char *const *env;		/* "NAME=value", NULL at the end */
	long timeout_ms;
	/* A script of ours: it leaves nothing running, and needs its shell
	 * where the user's command has none. */
	bool own;
	/* The claim was not read for this one: see that the pod is the same. */
	bool known;
};

/*
 * All of req is copied but give_arg, which is used until the end. EVENT_OPEN
 * when it runs, EVENT_DATA (channel 1, 2), EVENT_END: code, or err.
 * ERR_TIMEOUT: its time was over; ERR_CANCELLED: run_stop(); both texts say
 * what became of its processes. ERR_LOST: the connection broke, and it may
 * still run. ERR_GONE: its pod is no more or another, and it did not run. Never
 * repeated.
 */
struct run *run_start(struct env *env, const struct run_req *req,
    event_fn *fn, void *arg);	/* NULL: no memory */
/* End it. EVENT_END follows. quick: no time for TERM to be heeded. */
void run_stop(struct run *r, bool quick);
void run_close(struct run *r);		/* NULL is fine; kills nothing */

#endif
