/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intake - the bytes of one message from the client, as they come, for mcp.c.
 *
 * Its long strings are put into the stash, so a message with a file of any
 * size is held in a few pages. Past LIMIT_MESSAGE of what stays, or
 * LIMIT_SPOOL_MESSAGE in all, the message is too long, and only its end is
 * looked for.
 */
#ifndef INTAKE_H
#define INTAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spill.h"

struct mcp;
struct mcp_http;
struct spilled;
struct stash;

struct intake {
	struct spill spill;
	struct stash *stash;		/* borrowed; may be NULL */
	struct spilled *spilled;	/* or NULL */
	uint64_t len;
	bool failed;			/* no memory for the strings */
};

void intake_init(struct intake *i, struct stash *stash);
void intake_free(struct intake *i);

void intake_feed(struct intake *i, const char *data, size_t len);
bool intake_too_long(const struct intake *i);
/* The message is whole: serve it, and be ready for the next. */
void intake_serve(struct intake *i, struct mcp *m, long ticket,
    const struct mcp_http *http);
void intake_drop(struct intake *i);	/* or forget it */

#endif
