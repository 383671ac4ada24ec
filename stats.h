/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats - numbers that all processes of one server add to, and how Prometheus
 * reads them (text exposition format 0.0.4).
 *
 * They are in memory shared by fork(); each addition is one atomic step, so
 * nobody waits and a process that dies leaves no lock. Nothing in them names
 * a caller, a namespace or a sandbox.
 */
#ifndef STATS_H
#define STATS_H

#include <stdbool.h>

struct buf;
struct error;
struct stats;
struct tool;

struct stats *stats_open(struct error *err);
void stats_close(struct stats *s);		/* NULL is fine everywhere */

enum stats_refusal { STATS_FULL, STATS_SOURCE };

void stats_accepted(struct stats *s);
void stats_gone(struct stats *s);		/* a connection's process */
void stats_refused(struct stats *s, enum stats_refusal why);
void stats_answer(struct stats *s, int status);

enum stats_verdict {
	STATS_OK, STATS_FAILED, STATS_ERROR, STATS_CANCELLED
};
/* tools: the table that tool is in; else it counts as "other". */
void stats_call(struct stats *s, const struct tool *const *tools,
    const struct tool *tool, enum stats_verdict v, long ms);

void stats_print(const struct stats *s, const struct tool *const *tools,
    struct buf *out);

#endif
