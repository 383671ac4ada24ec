/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec - run a program in a container through pods/exec.
 *
 * v5.channel.k8s.io (KEP-4006) where the server has it, else v4. EVENT_OPEN,
 * EVENT_DATA with channel 1 or 2, EVENT_END. The exit status comes from the
 * Status frame alone: a stream that ends without one is ERR_LOST, and the
 * program may still be running. A program that could not be started is
 * EVENT_END with the server's words. Closing does not stop the program.
 */
#ifndef EXEC_H
#define EXEC_H

#include <stdbool.h>
#include <stddef.h>

#include "event.h"

struct exec;
struct k8s;

struct exec_req {
	const char *namespace, *pod;
	const char *container;		/* NULL: the pod's default */
	const char *const *argv;	/* NULL at the end */
	bool input;			/* else it is empty */
};

struct exec *exec_open(struct k8s *k, const struct exec_req *req,
    event_fn *fn, void *arg);
void exec_close(struct exec *e);	/* NULL is fine */

/* Bytes taken, 0 when there is no room now (on_room() is called later). */
size_t exec_write(struct exec *e, const void *data, size_t len);
void exec_on_room(struct exec *e, void (*room)(void *), void *arg);
/* The end of stdin. -1: v4 has no way to say it. */
int exec_write_end(struct exec *e);

#endif
