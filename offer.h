/* SPDX-License-Identifier: Apache-2.0 */
/*
 * offer - which of all tools a configuration offers, and what a model is told
 * of them: those that --tools names, or, where it names none, those of the
 * families whose settings are set; less what the operator's bounds take away.
 */
#ifndef OFFER_H
#define OFFER_H

#include "tools.h"

struct config;
struct error;

enum { OFFER_TOOLS = 32 };

struct offer {
	const struct tool *tools[OFFER_TOOLS + 1];	/* NULL at the end */
	struct tool dry[OFFER_TOOLS];	/* the rows of a dry run */
	unsigned families;		/* FAMILY_*, of the tools */
	char instructions[2048];
};

/* o is empty before. -1: no tool is left. */
int offer_choose(struct offer *o, const struct config *c, struct error *err);

#endif
