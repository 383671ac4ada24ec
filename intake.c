/* SPDX-License-Identifier: Apache-2.0 */
#include "budget.h"
#include "error.h"
#include "intake.h"
#include "mcp.h"
#include "stash.h"

enum { KEEP = 64 * 1024 };	/* memory kept for the next message */

static void
on_spill(void *arg, const char *raw, size_t len)
{
	struct intake *i = arg;

	if (i->spilled == NULL && !i->failed)
		i->failed = (i->spilled = spilled_new(i->stash)) == NULL;
	if (i->spilled != NULL)
		spilled_put(i->spilled, raw, len);
}

void
intake_init(struct intake *i, struct stash *stash)
{
	bool none = stash_why(stash) != NULL;

	*i = (struct intake){ .stash = stash };
	spill_init(&i->spill, none ? LIMIT_MESSAGE : SPILL_FROM,
	    LIMIT_MESSAGE, on_spill, i);
}

void
intake_free(struct intake *i)
{
	spill_free(&i->spill);
	spilled_drop(i->spilled);
	i->spilled = NULL;
}

void
intake_drop(struct intake *i)
{
	spill_reset(&i->spill, KEEP);
	spilled_drop(i->spilled);
	i->spilled = NULL;
	i->len = 0;
	i->failed = false;
}

bool
intake_too_long(const struct intake *i)
{
	return !buf_ok(&i->spill.text) || i->len > LIMIT_SPOOL_MESSAGE;
}

void
intake_feed(struct intake *i, const char *data, size_t len)
{
	i->len += len;
	if (!intake_too_long(i))
		spill_feed(&i->spill, data, len);
	/* What is too long is not kept, either. */
	if (intake_too_long(i) && i->spilled != NULL) {
		spilled_drop(i->spilled);
		i->spilled = NULL;
	}
}

static int
too_long(const struct intake *i, struct error *err)
{
	const struct error *why = stash_why(i->stash);

	if (why != NULL)
		return error_set(err, ERR_LIMIT, "a message is longer than "
		    "%ld bytes: %.400s", (long)LIMIT_MESSAGE, why->text);
	return error_set(err, ERR_LIMIT, "a message is longer than %ld bytes, "
	    "or than %ld without its long strings", (long)LIMIT_SPOOL_MESSAGE,
	    (long)LIMIT_MESSAGE);
}

static int
complete(struct intake *i, struct error *err)
{
	if (intake_too_long(i))
		return too_long(i, err);
	if (i->failed)
		return error_set(err, ERR_SYSTEM, "out of memory");
	if (spill_end(&i->spill, err) == -1)
		return -1;
	if (i->spilled == NULL)
		return 0;
	i->spilled->spans = i->spill.spans;
	i->spilled->nspans = i->spill.nspans;
	i->spill.spans = NULL;
	i->spill.nspans = i->spill.cap = 0;
	return 0;
}

void
intake_serve(struct intake *i, struct mcp *m, long ticket,
    const struct mcp_http *http)
{
	const struct buf *text = &i->spill.text;
	struct error err;

	if (complete(i, &err) == -1)
		mcp_unreadable(m, &err, ticket);
	else
		mcp_message(m, text->data == NULL ? "" : text->data,
		    text->len, i->spilled, ticket, http);
	intake_drop(i);
}
