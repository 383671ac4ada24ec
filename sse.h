/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sse - the two connections of MCP 2024-11-05's transport, on the loop, once
 * they know of each other (meet.h).
 *
 * The box is the stream's: messages of others arrive in it whole. The courier
 * is a request's: it carries one message there and comes back with a status.
 * Over the pair, the box says first that it has room; then go the caller's
 * name, a NUL, and the body to its end; back comes one byte.
 */
#ifndef SSE_H
#define SSE_H

#include <stddef.h>

struct loop;
struct sse_box;
struct sse_courier;

enum sse_verdict {
	SSE_TAKEN = 'y',	/* 202 */
	SSE_NOBODY = 'n',	/* 404: not there, or not that caller's */
	SSE_BUSY = 'b',		/* 503 */
};

/* One message of that caller; says what becomes of it. */
typedef enum sse_verdict sse_got(void *arg, const char *caller,
    const char *body, size_t len);

/* fd: meet_pair()'s; name: MEET_NAME_SIZE bytes, filled in. NULL: no memory, or
 * nobody listens there any more. */
struct sse_box *sse_open(struct loop *l, int fd, char *name, sse_got *got,
    void *arg);
void sse_close(struct sse_box *b);		/* NULL is fine */

typedef void sse_done(void *arg, enum sse_verdict v);

/*
 * Body is borrowed until done is called, once, unless sse_cancel() comes first;
 * never from inside of this. NULL: it can't be sent.
 */
struct sse_courier *sse_carry(struct loop *l, int fd, const char *name,
    const char *caller, const char *body, size_t len, sse_done *done,
    void *arg);
void sse_cancel(struct sse_courier *c);		/* NULL is fine */

#endif
