/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#include "buf.h"
#include "error.h"
#include "stats.h"
#include "tools.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { TOOLS = 64, VERDICTS = 4, CLASSES = 6 };

static const char *const verdicts[VERDICTS] = {
	"ok", "failed", "error", "cancelled",
};
static const char *const refusals[] = { "full", "source" };

/* A call's time: most are quick, and some wait for an image. */
static const struct {
	long ms;
	const char *le;
} buckets[] = {
	{ 10, "0.01" }, { 50, "0.05" }, { 250, "0.25" }, { 1000, "1" },
	{ 5000, "5" }, { 30000, "30" }, { 300000, "300" }, { LONG_MAX, "+Inf" },
};

/* In memory that several processes share, so without a lock. */
_Static_assert(ATOMIC_LONG_LOCK_FREE == 2, "atomics need no lock");
#define number atomic_ulong

struct stats {
	number open, accepted, refused[COUNT(refusals)];
	number answers[CLASSES];
	number calls[TOOLS + 1][VERDICTS];
	number times[COUNT(buckets)], ms;
};

struct stats *
stats_open(struct error *err)
{
	struct stats *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (s == MAP_FAILED) {
		error_sys(err, "memory for numbers");
		return NULL;
	}
	return s;
}

void
stats_close(struct stats *s)
{
	if (s != NULL)
		(void)munmap(s, sizeof(*s));
}

static void
add(number *n, unsigned long more)
{
	atomic_fetch_add_explicit(n, more, memory_order_relaxed);
}

static unsigned long
get(const number *n)
{
	return atomic_load_explicit(n, memory_order_relaxed);
}

void
stats_accepted(struct stats *s)
{
	if (s == NULL)
		return;
	add(&s->accepted, 1);
	add(&s->open, 1);
}

void
stats_gone(struct stats *s)
{
	if (s != NULL)
		atomic_fetch_sub_explicit(&s->open, 1, memory_order_relaxed);
}

void
stats_refused(struct stats *s, enum stats_refusal why)
{
	if (s != NULL)
		add(&s->refused[why], 1);
}

void
stats_answer(struct stats *s, int status)
{
	if (s != NULL && status >= 100 && status < 100 * CLASSES)
		add(&s->answers[status / 100], 1);
}

void
stats_call(struct stats *s, const struct tool *const *tools,
    const struct tool *tool, enum stats_verdict v, long ms)
{
	size_t i = 0;

	if (s == NULL)
		return;
	while (i < TOOLS && tools[i] != NULL && tools[i] != tool)
		i++;
	add(&s->calls[i < TOOLS && tools[i] == tool ? i : TOOLS][v], 1);
	for (i = 0; buckets[i].ms < ms; i++)
		continue;
	add(&s->times[i], 1);
	add(&s->ms, ms > 0 ? (unsigned long)ms : 0);
}

static void
name(struct buf *out, const char *metric, const char *type, const char *help)
{
	buf_printf(out, "# HELP mcp_sandbox_%s %s\n# TYPE mcp_sandbox_%s %s\n",
	    metric, help, metric, type);
}

static void
print_calls(const struct stats *s, const struct tool *const *tools,
    struct buf *out)
{
	bool end = false;

	name(out, "calls_total", "counter", "Calls that are over.");
	for (size_t i = 0; i <= TOOLS; i++) {
		end = end || (i < TOOLS && tools[i] == NULL);
		if (end && i < TOOLS)
			continue;
		for (size_t v = 0; v < VERDICTS; v++)
			if (get(&s->calls[i][v]) > 0)
				buf_printf(out, "mcp_sandbox_calls_total{tool="
				    "\"%s\",verdict=\"%s\"} %lu\n", i < TOOLS ?
				    tools[i]->name : "other", verdicts[v],
				    get(&s->calls[i][v]));
	}
}

static void
print_times(const struct stats *s, struct buf *out)
{
	unsigned long sum = 0, ms = get(&s->ms);

	name(out, "call_seconds", "histogram", "How long calls took.");
	for (size_t i = 0; i < COUNT(buckets); i++) {
		sum += get(&s->times[i]);
		buf_printf(out, "mcp_sandbox_call_seconds_bucket{le=\"%s\"} "
		    "%lu\n", buckets[i].le, sum);
	}
	buf_printf(out, "mcp_sandbox_call_seconds_sum %lu.%03lu\n"
	    "mcp_sandbox_call_seconds_count %lu\n", ms / 1000, ms % 1000, sum);
}

void
stats_print(const struct stats *s, const struct tool *const *tools,
    struct buf *out)
{
	if (s == NULL)
		return;
	name(out, "connections", "gauge", "Connections now.");
	buf_printf(out, "mcp_sandbox_connections %lu\n", get(&s->open));
	name(out, "connections_total", "counter", "Connections accepted.");
	buf_printf(out, "mcp_sandbox_connections_total %lu\n",
	    get(&s->accepted));
	name(out, "connections_refused_total", "counter",
	    "Connections over a limit.");
	for (size_t i = 0; i < COUNT(refusals); i++)
		buf_printf(out, "mcp_sandbox_connections_refused_total{"
		    "limit=\"%s\"} %lu\n", refusals[i], get(&s->refused[i]));
	name(out, "http_answers_total", "counter", "Answers over HTTP.");
	for (size_t i = 2; i < CLASSES; i++)
		buf_printf(out, "mcp_sandbox_http_answers_total{code=\"%zuxx\"}"
		    " %lu\n", i, get(&s->answers[i]));
	print_calls(s, tools, out);
	print_times(s, out);
}
