/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session - the sessions of this connection, each with its pod's agent.
 *
 * A session is found anew for a use (setup.h): one list, no memory but for the
 * tunnel. Uses at the same time share the search. Of one that is used again
 * and again the pod is watched (sight.h), and while that says nothing a list
 * is good for LIMIT_KNOWN_MS, no longer: a dead connection tells of nothing.
 * The watch ends when the session was not used for as long. While a session is
 * in use its activity is noted in the pod's annotation, often enough for gc to
 * see it, and not more. The session that was made for this process alone goes
 * with it.
 */
#ifndef SESSION_H
#define SESSION_H

#include <stdbool.h>

#include "event.h"

struct agent;
struct env;
struct error;
struct session;
struct session_end;
struct session_find;
struct sessions;

/* Reads the key and the agent of the settings. Before confinement. NULL: err.
 */
struct sessions *sessions_open(struct env *env, struct error *err);
void sessions_close(struct sessions *ss);	/* NULL is fine */
/* The session of a caller who names none. */
const char *sessions_own(const struct sessions *ss);
const char *sessions_namespace(const struct sessions *ss);
/*
 * The end of the connection: what was begun is waited for, the session made
 * for it is ended, at most ms. -1: err says what stays.
 */
int sessions_finish(struct sessions *ss, long ms, struct error *err);

/*
 * EVENT_DATA: what is going on. EVENT_END: err, or session_found() is there,
 * in that callback only. doubt: its agent did not answer.
 */
struct session_find *session_find(struct sessions *ss, const char *id,
    bool doubt, event_fn *fn, void *arg);	/* NULL: no memory */
struct session *session_found(struct session_find *f);
/* false: it is over now. true: EVENT_END comes when all is cleaned up. */
bool session_find_stop(struct session_find *f);
void session_find_close(struct session_find *f);	/* NULL is fine */

/* The same without asking anybody; NULL: to be found. To be used at once. */
struct session *session_known(struct sessions *ss, const char *id);
/* Something went wrong: it is to be found, and its agent asked, before the
 * next use. */
void session_doubt(struct session *s);

/* Valid while the session is in use. */
void session_use(struct session *s);
void session_unuse(struct session *s);		/* NULL is fine */
const char *session_pod(const struct session *s);	/* its name */
/* Has a new pod taken the place of another since this was asked? */
bool session_renewed(struct session *s);
bool session_alone(const struct session *s);	/* nobody else uses it */
struct agent *session_agent(struct session *s);
const char *session_token(const struct session *s);
/* The agent does not take the token: read it again the next time. */
void session_distrust(struct session *s);

/*
 * Delete the pods and the Secret of a session; one that never was is no
 * failure. EVENT_END comes.
 */
struct session_end *session_end(struct sessions *ss, const char *id,
    event_fn *fn, void *arg);			/* NULL: no memory */
void session_end_close(struct session_end *e);	/* NULL is fine */

#endif
