/* SPDX-License-Identifier: Apache-2.0 */
/*
 * podwait - from a pod that exists to one whose agent answers.
 *
 * Looks at the pod every now and then (no right to watch is needed), brings
 * the agent in where it waits for it, and asks the agent itself as soon as
 * there is one to ask: what the kubelet's probe thinks does not count. What
 * keeps the pod from starting ends the wait within seconds, in the cluster's
 * words.
 */
#ifndef PODWAIT_H
#define PODWAIT_H

#include <stdbool.h>

#include "event.h"
#include "manifest.h"

struct agent;
struct env;
struct podwait;

struct podwait_req {
	const char *namespace, *name, *uid;
	bool ours;		/* we made it: nobody else serves it */
	long timeout_ms;
};

/*
 * EVENT_DATA: what is going on, in words (not to be closed there). EVENT_END:
 * err, or NULL when the agent answers; then podwait_take() gives it and the
 * pod, in that callback only. ERR_GONE: the pod ended, is being deleted, or is
 * another one now.
 */
struct podwait *podwait_start(struct env *env, const struct podwait_req *req,
    event_fn *fn, void *arg);	/* NULL: no memory */
struct agent *podwait_take(struct podwait *w, struct pod *pod);
void podwait_close(struct podwait *w);	/* NULL is fine */

#endif
