/* SPDX-License-Identifier: Apache-2.0 */
/* lease - one call's use of the session's agent, from finding to leaving. */
#ifndef LEASE_H
#define LEASE_H

#include <stdbool.h>

#include "event.h"

struct agent;
struct env;
struct error;
struct session;
struct session_find;

struct lease {
	struct session_find *find;
	struct session *session;	/* in use */
	struct agent *agent;		/* held */
};

const char *lease_session(const struct env *env);	/* its name, or NULL */
/* Has the caller a session, and is it one? -1: err. */
int lease_check(const struct env *env, struct error *err);
/* session_find() of the caller's; -1: no memory. Events come until EVENT_END,
 * which is to be followed by lease_take() or lease_drop(). */
int lease_find(struct lease *l, const struct env *env, bool doubt,
    event_fn *fn, void *arg);
/* It is known (session_known()), and taken: nothing is to be found. */
bool lease_known(struct lease *l, const struct env *env);
void lease_take(struct lease *l);
void lease_drop(struct lease *l);
/* true: EVENT_END is to come, when what was begun is cleaned up. */
bool lease_stop(struct lease *l);

#endif
