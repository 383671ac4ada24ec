/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spill - one JSON message as it arrives; its long strings go elsewhere. Pure.
 *
 * Of a string value that passes SPILL_FROM bytes the message keeps the two
 * quotes, and its raw bytes (escapes as sent) are given to a sink. What
 * json_parse() would have refused in them is refused here: control characters,
 * escapes, lone surrogates, ill-formed UTF-8. Where a string was is told by a
 * table of positions, so that nothing a client sends can look like one.
 * Keys, and everything else, stay, and are for json_parse() to judge.
 */
#ifndef SPILL_H
#define SPILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

struct error;

enum { SPILL_FROM = 256 << 10 };

struct spill_span {
	size_t at;		/* of the opening quote in what is left */
	uint64_t from, len;	/* its raw bytes among all that were given */
	bool escapes;		/* there is a backslash */
};

/* What can't be kept is the sink's own matter. */
typedef void spill_sink(void *arg, const char *raw, size_t len);

struct spill {
	struct buf text;		/* what is left of the message */
	struct spill_span *spans;	/* in the order of at */
	size_t nspans;
	const char *why;		/* no JSON, or NULL */

	/* spill.c's own */
	spill_sink *sink;
	void *arg;
	size_t cap, from;		/* room for spans; SPILL_FROM */
	uint64_t seen, given;		/* bytes of the message, of the sink */
	uint64_t why_at;
	uint64_t objects;	/* a bit for each open scope: is it one? */
	unsigned depth;
	bool value;			/* the next string is no key */
	bool inside, escaped, out;	/* of a string; an escape; it spills */
	size_t start;			/* of the string in text */
	bool lost;			/* no memory for spans */
	/* the check of what spills */
	enum { SPILL_PLAIN, SPILL_ESCAPE, SPILL_HEX, SPILL_LOW, SPILL_LOW_U }
	    state;
	unsigned digits, unit;		/* of \uXXXX */
	bool high;			/* a low surrogate must follow */
	unsigned char seq[4];
	unsigned nseq;			/* of a UTF-8 sequence */
};

/* from: SPILL_FROM, or less for a test. text_max: of what is left. */
void spill_init(struct spill *s, size_t from, size_t text_max,
    spill_sink *sink, void *arg);
void spill_free(struct spill *s);
/* Ready for the next message; as it was after spill_init(). */
void spill_reset(struct spill *s, size_t keep);

/* A part of the message, of any size. What is wrong is told at the end. */
void spill_feed(struct spill *s, const char *data, size_t len);
/*
 * The message is complete. -1: ERR_INPUT as json_parse() says it, ERR_LIMIT
 * when what is left is too long, ERR_SYSTEM when there was no memory.
 */
int spill_end(struct spill *s, struct error *err);

#endif
