/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocker - why a pod does not start, in the cluster's own words.
 *
 * Looks at the pod (image, schedule, containers) and at what the claim says
 * of its controller's errors. Waiting that may pass by itself is given some
 * time: a node may come, a registry may answer the second time.
 */
#ifndef BLOCKER_H
#define BLOCKER_H

#include "event.h"

struct blocker;
struct claim;
struct env;
struct error;

struct blocker *blocker_open(const struct env *env, const char *namespace);
void blocker_close(struct blocker *b);	/* NULL is fine */

/*
 * One look; nothing is done while another is under way. -1 when the claim
 * itself says that it is refused. Otherwise EVENT_REPLY comes for a look that
 * could be taken, with err when something blocks the pod for good; else data
 * is what is going on, maybe "".
 */
int blocker_look(struct blocker *b, const char *pod,
    const struct claim *claim, event_fn *fn, void *arg, struct error *err);

/* Pure: the state of one pod, blocked_ms after it was first seen so. 1: it
 * is blocked for good (err), 0: text says what is going on. */
struct blocker_clock {
	long unschedulable_ms;	/* since when; 0: it is not */
	long image_ms;
	long crash_ms;
};
int blocker_pod(struct json pod, struct blocker_clock *clock, long now_ms,
    long unschedulable_limit_ms, char *text, size_t size, struct error *err);

#endif
