/* SPDX-License-Identifier: Apache-2.0 */
/*
 * podend - why a session's pod, whose agent was lost, has ended.
 *
 * The kubelet tells that a moment after it happened, so the pod is looked at
 * a few times.
 */
#ifndef PODEND_H
#define PODEND_H

#include "event.h"

struct env;
struct podend;

/* EVENT_END: data is the reason in words, "" when the pod does not tell one. */
struct podend *podend_start(struct env *env, const char *namespace,
    const char *name, event_fn *fn, void *arg);	/* NULL: no memory */
void podend_close(struct podend *p);		/* NULL is fine */

#endif
