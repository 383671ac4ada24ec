/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event - what an operation tells the one who waits for it.
 *
 * Every operation of this layer (a request, a watch, a stream, a command) is
 * begun with a function and an argument, and reports through them from
 * loop_turn(), never from inside the call that began it. Everything in an
 * event is borrowed for the time of the call. EVENT_REPLY and EVENT_END are
 * the last: the operation frees itself when the function returns, and its
 * handle is dead before the function is called. Cancelling or closing an
 * operation by its handle means that nothing more is reported; it is allowed
 * inside the function for every event but those two.
 */
#ifndef EVENT_H
#define EVENT_H

#include <stddef.h>

#include "json.h"

struct error;

enum event_type {
	EVENT_REPLY,	/* answered: status, data (whole body, NUL after it) */
	EVENT_OPEN,	/* a stream is ready; data names its subprotocol */
	EVENT_DATA,	/* bytes of channel (0 body; 1 stdout, 2 stderr) */
	EVENT_OBJECT,	/* a watch saw object; verb says what happened to it */
	EVENT_TIMER,	/* call_timer() of call.h is due */
	EVENT_END	/* over; err says if badly; code is an exit status */
};

struct event {
	enum event_type type;
	const struct error *err;	/* REPLY, END: NULL when all is well */
	long status;			/* HTTP status; 0 if there was none */
	const char *reason;		/* the API server's reason, or "" */
	const char *data;
	size_t len;
	int channel;
	const char *verb;		/* "ADDED", "MODIFIED", "DELETED" */
	struct json object;
	long code;			/* END of a command: its exit status */
};

typedef void event_fn(void *arg, const struct event *ev);

#endif
