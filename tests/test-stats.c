/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../buf.h"
#include "../error.h"
#include "../stats.h"
#include "../tools.h"
#include "suite.h"

static const struct tool a = { .name = "a" }, b = { .name = "b" },
    reads = { .name = "resources/read" };
static const struct tool *const tools[] = { &a, &b, NULL };

static struct stats *stats;
static struct buf out;

static void
set_up(void)
{
	struct error err;

	stats = stats_open(&err);
	ck_assert_ptr_nonnull(stats);
	buf_init(&out, 65536);
}

static void
tear_down(void)
{
	stats_close(stats);
	buf_free(&out);
}

static void
has(const char *line)
{
	buf_reset(&out, 0);
	stats_print(stats, tools, &out);
	ck_assert_msg(strstr(out.data, line) != NULL, "%s is not in %s", line,
	    out.data);
}

START_TEST(sums_over_processes)
{
	int status;

	for (int i = 0; i < 8; i++)
		if (fork() == 0) {
			for (int k = 0; k < 1000; k++) {
				stats_accepted(stats);
				stats_answer(stats, 200);
				stats_call(stats, tools, &b, STATS_OK, 20);
			}
			_exit(0);
		}
	while (wait(&status) > 0)
		continue;
	stats_gone(stats);
	has("mcp_sandbox_connections 7999\n");
	has("mcp_sandbox_connections_total 8000\n");
	has("mcp_sandbox_http_answers_total{code=\"2xx\"} 8000\n");
	has("mcp_sandbox_calls_total{tool=\"b\",verdict=\"ok\"} 8000\n");
	has("mcp_sandbox_call_seconds_bucket{le=\"0.01\"} 0\n");
	has("mcp_sandbox_call_seconds_bucket{le=\"0.05\"} 8000\n");
	has("mcp_sandbox_call_seconds_bucket{le=\"+Inf\"} 8000\n");
	has("mcp_sandbox_call_seconds_sum 160.000\n");
}
END_TEST

START_TEST(names_a_tool_that_is_in_the_table)
{
	stats_call(stats, tools, &a, STATS_CANCELLED, 1L << 40);
	stats_call(stats, tools, &reads, STATS_ERROR, 0);
	has("mcp_sandbox_calls_total{tool=\"a\",verdict=\"cancelled\"} 1\n");
	has("mcp_sandbox_calls_total{tool=\"other\",verdict=\"error\"} 1\n");
	has("mcp_sandbox_call_seconds_count 2\n");
	ck_assert_ptr_null(strstr(out.data, "tool=\"b\""));
}
END_TEST

START_TEST(counts_what_was_refused)
{
	stats_refused(stats, STATS_SOURCE);
	stats_answer(stats, 42);
	stats_answer(stats, 600);
	stats_answer(stats, 503);
	has("mcp_sandbox_connections_refused_total{limit=\"source\"} 1\n");
	has("mcp_sandbox_http_answers_total{code=\"5xx\"} 1\n");
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("stats");
	TCase *t = tcase_create("stats");

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, sums_over_processes);
	tcase_add_test(t, names_a_tool_that_is_in_the_table);
	tcase_add_test(t, counts_what_was_refused);
	suite_add_tcase(s, t);
	return suite_run(s);
}
