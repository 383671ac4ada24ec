/* SPDX-License-Identifier: Apache-2.0 */
/*
 * excerpt - the beginning and the end of an output of any length.
 *
 * Two streams share one budget of code points (contract: agent-sandbox 1.9;
 * results: tests/vectors/budget.json). Bytes come in pieces of any size, and
 * ill-formed UTF-8 counts and shows as U+FFFD. Memory is bounded by the
 * budget, whatever comes in; it grows only as output comes.
 */
#ifndef EXCERPT_H
#define EXCERPT_H

#include <stdbool.h>
#include <stddef.h>

#include "utf8.h"

struct buf;
struct error;
struct excerpt;

enum { EXCERPT_OUT, EXCERPT_ERR };

/* budget: code points for both streams, 128 to LIMIT_OUTPUT_CHARS. */
struct excerpt *excerpt_open(size_t budget);	/* NULL: no memory */
void excerpt_close(struct excerpt *x);

/* -1 only when there is no memory; what came before is kept. */
int excerpt_put(struct excerpt *x, int stream, const void *data, size_t len);

/*
 * Valid UTF-8 as it would read if the output ended now, appended to out; may
 * be asked again after more came. total: code points; bytes: as received;
 * replaced: how many U+FFFD stand for ill-formed bytes.
 */
struct excerpt_totals {
	size_t total;
	size_t bytes;
	size_t replaced;
	bool truncated;
};
void excerpt_text(struct excerpt *x, int stream, struct buf *out,
    struct excerpt_totals *t);
/* The last line begun, at most max bytes, for a progress message. */
void excerpt_last_line(struct excerpt *x, char *dst, size_t max);

#endif
