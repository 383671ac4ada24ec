/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sight - whether a session's pod is still there, known without asking: a
 * watch (Kubernetes API concepts) that begins with what is there now.
 *
 * It is clear from the pod's own first event until an event says that the pod
 * is being deleted, has ended or is gone, that the session has another one
 * too, or until the watch ends for whatever reason. It is never clear again
 * then: list the pods, and open a new one.
 */
#ifndef SIGHT_H
#define SIGHT_H

struct env;
struct sight;

enum sight_state {
	SIGHT_WAIT,		/* nothing was told yet, or more is to come */
	SIGHT_CLEAR,
	SIGHT_LOST,
	SIGHT_DENIED		/* we may not watch, or can't at all */
};

struct sight *sight_open(const struct env *env, const char *namespace,
    const char *session, const char *uid);	/* NULL: no memory */
void sight_close(struct sight *s);		/* NULL is fine */
enum sight_state sight_state(const struct sight *s);	/* NULL: lost */

#endif
