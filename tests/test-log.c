/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../budget.h"
#include "../log.h"
#include "../mono.h"
#include "suite.h"

/* What one line through a pipe looks like. */
static void
capture(const struct log *shape, const char *text, char *dst, size_t size)
{
	struct log l = *shape;
	int fds[2];
	ssize_t n;

	ck_assert_int_eq(pipe(fds), 0);
	l.fd = fds[1];
	log_line(&l, LOG_WARN, "%s", text);
	(void)close(fds[1]);
	n = read(fds[0], dst, size - 1);
	ck_assert_int_ge(n, 0);
	dst[n] = '\0';
	(void)close(fds[0]);
}

static const struct log journal = { LOG_NOTE, 2, 1 };
static const struct log plain = { LOG_NOTE, 2, 0 };

START_TEST(prefixes_a_priority_for_the_journal)
{
	char line[200];

	capture(&journal, "hello", line, sizeof(line));
	ck_assert_str_eq(line, "<4>mcp-sandbox: hello\n");
}
END_TEST

START_TEST(prefixes_the_time_elsewhere)
{
	char line[200];
	int year, end = 0;

	capture(&plain, "hello", line, sizeof(line));
	ck_assert_int_eq(sscanf(line,
	    "%4d-%*2d-%*2dT%*2d:%*2d:%*2dZ mcp-sandbox: hello%n", &year,
	    &end), 1);
	ck_assert_int_eq(year, 2000 + year % 1000);
	ck_assert_str_eq(line + end, "\n");
}
END_TEST

START_TEST(writes_one_line_whatever_it_quotes)
{
	char line[200];

	capture(&journal, "a\nb\033[2J\xff", line, sizeof(line));
	ck_assert_str_eq(line, "<4>mcp-sandbox: a b [2J?\n");
}
END_TEST

START_TEST(cuts_a_long_line_at_a_character_border)
{
	char line[4000], text[4000];
	size_t n = (size_t)_i;

	memset(text, 'a', sizeof(text));
	for (; n + 3 < sizeof(text); n += 3)
		memcpy(text + n, "\xe2\x82\xac", 3);
	text[n] = '\0';
	capture(&journal, text, line, sizeof(line));
	n = strlen(line);
	ck_assert_uint_lt(n, 2050);
	ck_assert_uint_gt(n, 2040);
	ck_assert_str_eq(line + n - 4, "\xe2\x82\xac\n");
}
END_TEST

START_TEST(leaves_out_what_is_above_the_level)
{
	struct log l = journal;
	char line[10] = "";
	int fds[2];

	ck_assert_int_eq(pipe(fds), 0);
	l.fd = fds[1];
	log_line(&l, LOG_DEBUG, "quiet");
	(void)close(fds[1]);
	ck_assert_int_eq(read(fds[0], line, sizeof(line)), 0);
	(void)close(fds[0]);
}
END_TEST

/* The pipe blocks, so waiting for its reader would end in a timeout. */
START_TEST(drops_a_line_nobody_reads)
{
	struct log l = journal;
	int fds[2];

	ck_assert_int_eq(pipe(fds), 0);
	l.fd = fds[1];
	for (int i = 0; i < 10000; i++)
		log_line(&l, LOG_WARN, "nobody reads this");
	(void)close(fds[0]);
	(void)close(fds[1]);
	log_line(&l, LOG_WARN, "nor this, without a descriptor");
}
END_TEST

START_TEST(knows_the_journal_by_its_inode)
{
	char stream[64];
	struct stat st;
	struct log l;

	ck_assert_int_eq(fstat(2, &st), 0);
	(void)snprintf(stream, sizeof(stream), "%lu:%lu",
	    (unsigned long)st.st_dev, (unsigned long)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	log_open(&l, LOG_DEBUG);
	ck_assert(l.journal == 1 && l.fd == 2 && l.max == LOG_DEBUG);
	(void)snprintf(stream, sizeof(stream), "%lu:%lu",
	    (unsigned long)st.st_dev, (unsigned long)st.st_ino + 1);
	setenv("JOURNAL_STREAM", stream, 1);
	log_open(&l, LOG_DEBUG);
	ck_assert_int_eq(l.journal, 0);
	setenv("JOURNAL_STREAM", "nonsense", 1);
	log_open(&l, LOG_DEBUG);
	ck_assert_int_eq(l.journal, 0);
	unsetenv("JOURNAL_STREAM");
	log_open(&l, LOG_DEBUG);
	ck_assert_int_eq(l.journal, 0);
}
END_TEST

START_TEST(tells_every_limit_in_words)
{
	const struct limit *rows;
	size_t n, seen = 0;

	rows = limits_rows(&n);
	ck_assert_uint_gt(n, 20);
	for (size_t i = 0; i < n; i++) {
		ck_assert_int_gt(rows[i].value, 0);
		ck_assert_uint_gt(strlen(rows[i].unit), 0);
		ck_assert_uint_gt(strlen(rows[i].what), 0);
		ck_assert_int_ne(rows[i].name[0], '_');
		seen += strcmp(rows[i].name, "JSON_DEPTH") == 0 &&
		    rows[i].value == LIMIT_JSON_DEPTH;
	}
	ck_assert_uint_eq(seen, 1);
}
END_TEST

START_TEST(never_goes_back)
{
	long last = mono_ms(), now;

	ck_assert_int_gt(last, 0);
	for (int i = 0; i < 1000; i++, last = now) {
		now = mono_ms();
		ck_assert_int_ge(now, last);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("log");
	TCase *t = tcase_create("log");

	tcase_add_test(t, prefixes_a_priority_for_the_journal);
	tcase_add_test(t, prefixes_the_time_elsewhere);
	tcase_add_test(t, writes_one_line_whatever_it_quotes);
	tcase_add_loop_test(t, cuts_a_long_line_at_a_character_border, 0, 3);
	tcase_add_test(t, leaves_out_what_is_above_the_level);
	tcase_add_test(t, drops_a_line_nobody_reads);
	tcase_add_test(t, knows_the_journal_by_its_inode);
	tcase_add_test(t, tells_every_limit_in_words);
	tcase_add_test(t, never_goes_back);
	suite_add_tcase(s, t);
	return suite_run(s);
}
