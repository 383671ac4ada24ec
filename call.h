/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call - one request that may take time, from the moment it is accepted until
 * its answer is written and nothing it made is left behind.
 *
 *   FREE --start--> RUNNING --done--> (answer) --> STOPPING --stopped--> FREE
 *                      |                              ^
 *                      +--fail, deadline--------------+--> (answer) --> FREE
 *                      +--cancel, end of input--------+--> FREE, silently
 *
 * A failure is answered after the cleaning up, so that "removed" is true when
 * it is said. Only advance() in call.c changes the state.
 */
#ifndef CALL_H
#define CALL_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"
#include "error.h"
#include "event.h"
#include "json.h"
#include "budget.h"
#include "tools.h"

struct calls;
struct loop;
struct loop_timer;
struct spilled;

/* What the audit line says of the arguments, which are gone by then. */
struct call_note {
	char namespace[64], object[128];
	unsigned char digest[32];	/* SHA-256 of the command */
	bool command;			/* there was one */
};

enum call_state { CALL_FREE, CALL_RUNNING, CALL_STOPPING };

enum { CALL_ID_SIZE = LIMIT_ID + 3 };

struct call {
	enum call_state state;
	struct calls *calls;
	const struct tool *tool;
	void *env;			/* what tools work with; borrowed */
	const char *caller;		/* who asks, or NULL; borrowed */
	struct call_note note;
	void *data;		/* the tool's own, freed with the call */

	char id[CALL_ID_SIZE];		/* the request's id, raw JSON */
	char token[CALL_ID_SIZE];	/* progressToken, raw JSON, or "" */
	bool modern;			/* 2026-07-28 or later */
	long ticket;			/* which message it came in (mcp.h) */
	int log;			/* least of MCP's 8 levels, -1: none */
	unsigned char digest[32];	/* of method, name, arguments */
	struct batch *batch;		/* rpc.h: the answer goes in one */
	struct json request;		/* params; valid in start() only */
	struct json client;		/* client capabilities; start() only */
	const char *asked;	/* state of call_ask() or NULL; start() */
	struct spilled *spilled; /* what json_far() is in; held, or NULL */

	/* The result. structured: one JSON object. text: for people; empty:
	 * the object itself. content: raw content blocks, commas between them,
	 * instead of text. For other methods than tools/call, structured is the
	 * whole result. */
	struct buf structured, text, content;
	/* A string in structured whose text, free of anything to be escaped,
	 * is not there but here (held), and belongs at far_at. */
	struct spilled *far;
	size_t far_at;
	bool is_error;			/* a result that reports a failure */
	struct buf ask, state_text;	/* call_ask() */

	/* call.c's own */
	struct error error;		/* to be answered when stopped */
	bool answer;			/* one is owed */
	bool asking;			/* the answer is call_ask()'s */
	bool late;		/* stop() had its time; left is a guess */
	long started_ms, deadline_ms;
	long wake_ms;			/* call_timer(), or -1 */
	long told_ms, tell_ms;		/* progress: last sent, next due */
	double progress;		/* last number sent */
	bool counted;			/* the tool gives its own numbers */
	struct buf words;		/* latest progress text */
	struct buf about;		/* params.uri of another method, raw */
	struct loop_timer *timer;
	long timer_ms;
	char left[256];			/* what stays in the cluster, or "" */
	char holds[256];		/* what would, as call_holds() said */
};

/* For tools. */

/* The event_fn of everything a tool begins; arg is the call. */
void call_event(void *call, const struct event *ev);
/*
 * One EVENT_TIMER ms from now; a second call moves it; -1 takes it back, and
 * so does the way from CALL_RUNNING to CALL_STOPPING.
 */
void call_timer(struct call *c, long ms);
/* The JSON of a reply, to be freed; NULL: err says why there is none. fmt:
 * what it should have been. */
struct json_doc *call_doc(const struct event *reply, struct error *err,
    const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Fails with ERR_TIMEOUT ms from now. 5 minutes unless set. */
void call_deadline(struct call *c, long ms);
/*
 * What is going on, in words. Sent when the client asked for progress: at
 * once if nothing was sent for 250 ms, and again every LIMIT_PROGRESS_MS.
 */
void call_progress(struct call *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* With numbers of its own, sent as given. total < 0: not known. */
void call_progress_n(struct call *c, double n, double total, const char *text);
/* notifications/message, where the client asked for this level. */
void call_log(struct call *c, const char *level, const char *text);
/*
 * Before STEP_ASK. requests: the inputRequests object as JSON. state comes
 * back as c->asked with the answers in request.inputResponses, sealed on its
 * way (HMAC over method, name, arguments and time).
 */
void call_ask(struct call *c, const char *requests, const char *state);
bool call_can(const struct call *c, const char *capability);	/* start() */
/* What is in the cluster until stop() has removed it: named when that takes
 * too long. */
void call_holds(struct call *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* This could not be removed: logged, and the exit status becomes 2. */
void call_left(struct call *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* For mcp.c. */

/* What call.c says when a call has something for the client. */
struct call_sink {
	/* Once a call, err NULL when all is well ... */
	void (*answer)(void *arg, struct call *c, const struct error *err);
	void (*silent)(void *arg, struct call *c);	/* ... or never */
	void (*notify)(void *arg, struct call *c, const char *method,
	    const char *params, size_t len);
	/* is a notifications/message of this level wanted? */
	bool (*wants_log)(void *arg, struct call *c, const char *level);
	void *arg;
};
struct calls *calls_open(struct loop *l, void *env,
    const struct call_sink *sink, struct error *err);
void calls_close(struct calls *cs);

/*
 * -1 with ERR_LIMIT when LIMIT_CALLS are under way, ERR_CONFLICT when the id
 * is in use, ERR_INPUT when the arguments are refused; otherwise the answer
 * comes through the sink, maybe before this returns. proto: a call with the
 * fields of the request filled in (id, token, modern, ticket, request, client,
 * asked, caller, note); copied. Its env, if any, is used instead of
 * calls_open()'s.
 */
int call_start(struct calls *cs, const struct tool *tool, struct json args,
    const struct call *proto, struct error *err);
void call_cancel(struct calls *cs, const char *id_raw);
bool call_pending(const struct calls *cs, const char *id_raw);
/* Does a message of this ticket wait for an answer? */
bool calls_wait(const struct calls *cs, long ticket);
void calls_cancel_ticket(struct calls *cs, long ticket);
void calls_cancel_all(struct calls *cs);	/* end of input */
size_t calls_live(const struct calls *cs);
size_t calls_left(const struct calls *cs);	/* objects left behind */

#endif
