/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deliver - bring the agent into a pod whose init container waits for it.
 *
 * One pods/exec: the container says its architecture, we send that one's
 * program, it is put in place whole. Doing it twice does no harm.
 */
#ifndef DELIVER_H
#define DELIVER_H

#include "event.h"

struct cargo;
struct deliver;
struct env;
struct error;

/* EVENT_END comes, with err when it failed. */
struct deliver *deliver_start(struct env *env, const char *namespace,
    const char *pod, event_fn *fn, void *arg);	/* NULL: no memory */
void deliver_close(struct deliver *d);		/* NULL is fine */

/* The agent for what uname -m says; NULL: none is for it, or no memory. */
struct cargo *deliver_agent(const struct env *env, const char *machine,
    struct error *err);

#endif
