/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setup - from a session's id to the agent in its pod
 * (contract: cli-mcp-server 9, 10 and 18).
 *
 *   LIST --found--------------------------------> [TOKEN] --> WAIT --> done
 *    ^ \--none--> LOCK --made--> POOL --> CLAIM --> ASSIGN -----------> done
 *    |              |              \--none left--> CREATE --> WAIT --> done
 *    |              \--exists--> LOOK --> (a moment, or UNLOCK) --.
 *    \-------------------------------------------------------------
 *
 * The session's Secret decides a race: who made it makes the pod, the others
 * look for that pod. A Secret whose pod does not come, or has gone, is taken
 * away by its uid, and the race is run again. Whatever was made is removed
 * again when the pod can't be had.
 */
#ifndef SETUP_H
#define SETUP_H

#include <stdbool.h>

#include "event.h"
#include "manifest.h"
#include "token.h"

struct agent;
struct env;
struct errands;
struct setup;

struct setup_req {
	const char *namespace, *session;
	const char *key;	/* NULL: each session has a random token */
	size_t key_len;
	struct errands *errands;
	/* What was found the last time: "", NULL, "" if nothing was. */
	const struct pod *pod;
	struct agent *agent;	/* borrowed, for as long as it takes */
	const char *token;
	bool doubt;		/* that agent did not answer: ask it first */
};

struct setup_result {
	struct pod pod;
	struct agent *agent;	/* the caller's; NULL: the known one */
	char token[TOKEN_SIZE];
	bool fresh;		/* its activity was noted just now */
};

/* EVENT_DATA: what is going on. EVENT_END: err, or setup_result() is there,
 * in that callback only. */
struct setup *setup_start(struct env *env, const struct setup_req *req,
    event_fn *fn, void *arg);		/* NULL: no memory */
void setup_result(struct setup *s, struct setup_result *out);
/* EVENT_END comes when what was made is gone again. */
void setup_abort(struct setup *s);
void setup_close(struct setup *s);	/* NULL is fine */

#endif
