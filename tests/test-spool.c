/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../budget.h"
#include "../buf.h"
#include "../spool.h"
#include "suite.h"

static const char *const here[] = { "relative", "/nonexistent", "/tmp", NULL };

static void
put_lines(struct spool *s, unsigned long from, unsigned long to)
{
	char line[32];
	int n;

	for (; from <= to; from++) {
		n = snprintf(line, sizeof(line), "%lu\n", from);
		spool_put(s, line, (size_t)n);
	}
}

static void
reads(const struct spool *s, uint64_t at, const char *want)
{
	char got[64];
	size_t n = strlen(want), len = 0;
	long r = 0;

	while (len < n && (r = spool_read(s, at + len, got + len,
	    n - len)) > 0)
		len += (size_t)r;
	ck_assert_int_ge(r, 0);
	ck_assert_uint_eq(len, n);
	ck_assert_mem_eq(got, want, n);
}

START_TEST(takes_the_first_place_that_can_be_written)
{
	static const char *const none[] = { "/proc", "/nonexistent", NULL };
	struct spool_store store;

	spool_store_init(&store, here);
	ck_assert_str_eq(store.dir, "/tmp");
	spool_store_init(&store, none);
	ck_assert_str_eq(store.dir, "");
}
END_TEST

START_TEST(keeps_a_little_in_memory_and_more_in_a_file)
{
	struct spool_store store;
	struct spool s;
	char byte;

	spool_store_init(&store, here);
	spool_init(&s, &store);
	ck_assert_int_eq(spool_read(&s, 0, &byte, 1), 0);
	put_lines(&s, 1, 1000);
	ck_assert_int_eq(s.fd, -1);
	reads(&s, 0, "1\n2\n3\n");
	put_lines(&s, 1001, 20000);
	ck_assert_int_ne(s.fd, -1);
	ck_assert_uint_eq(store.used, s.total);
	ck_assert_uint_eq(s.kept, s.total);
	reads(&s, 0, "1\n2\n3\n");
	reads(&s, s.total - 12, "19999\n20000\n");
	spool_free(&s);
	ck_assert_uint_eq(store.used, 0);
}
END_TEST

START_TEST(settles_what_is_not_small)
{
	struct spool_store store;
	struct spool s;

	spool_store_init(&store, here);
	spool_init(&s, &store);
	spool_put(&s, "abc", 3);
	spool_settle(&s);
	ck_assert_int_eq(s.fd, -1);
	put_lines(&s, 1, 2000);
	spool_settle(&s);
	ck_assert_int_ne(s.fd, -1);
	ck_assert_ptr_null(s.head.data);
	reads(&s, 0, "abc1\n2\n");
	spool_free(&s);
}
END_TEST

/* 0: the spool's own limit, 1: that of all together, 2: no place at all. */
static void
limited(struct spool_store *store, int how)
{
	static const char *const none[] = { NULL };

	spool_store_init(store, how == 2 ? none : here);
	if (how == 0)
		store->each = 100000;
	if (how == 1)
		store->max = 100000;
}

START_TEST(keeps_the_end_when_there_is_no_more_room)
{
	uint64_t kept = _i == 2 ? LIMIT_AGENT_TAIL : 100000;
	struct spool_store store;
	struct spool s;
	char byte;

	limited(&store, _i);
	spool_init(&s, &store);
	put_lines(&s, 1, 300000);
	ck_assert_uint_eq(s.total, 1988895);
	ck_assert_uint_eq(s.kept, kept);
	reads(&s, 0, "1\n2\n3\n");
	reads(&s, s.total - 14, "299999\n300000\n");
	ck_assert_int_eq(spool_read(&s, kept, &byte, 1), -1);
	ck_assert_int_eq(spool_read(&s, s.total - LIMIT_AGENT_TAIL - 1, &byte,
	    1), -1);
	ck_assert_int_eq(spool_read(&s, s.total - LIMIT_AGENT_TAIL, &byte, 1),
	    1);
	ck_assert_int_eq(spool_read(&s, s.total, &byte, 1), 0);
	ck_assert_uint_eq(spool_lines(&s), 300000);
	spool_free(&s);
}
END_TEST

static void
finds(const struct spool *s, int64_t line, uint64_t lines, const char *want)
{
	uint64_t at = 0, len = 0;
	int64_t number = line;
	int r = spool_find(s, &number, lines, 64, &at, &len);

	if (want == NULL) {
		ck_assert_int_eq(r, -1);
		return;
	}
	ck_assert_int_eq(r, 0);
	ck_assert_uint_eq(len, strlen(want));
	reads(s, at, want);
	if (line > 0)
		ck_assert_int_eq(number, line);
}

START_TEST(finds_lines_from_both_ends)
{
	struct spool_store store;
	struct spool s;

	spool_store_init(&store, here);
	spool_init(&s, &store);
	finds(&s, 1, 1, NULL);
	finds(&s, -1, 1, NULL);
	spool_put(&s, "a\n\nbc\nd", 7);
	ck_assert_uint_eq(spool_lines(&s), 4);
	finds(&s, 1, 1, "a\n");
	finds(&s, 2, 2, "\nbc\n");
	finds(&s, 4, 9, "d");
	finds(&s, 5, 1, NULL);
	finds(&s, 0, 1, NULL);
	finds(&s, -1, 1, "d");
	finds(&s, -2, 1, "bc\n");
	finds(&s, -100, 1, "a\n");
	spool_put(&s, "\n", 1);
	ck_assert_uint_eq(spool_lines(&s), 4);
	finds(&s, -1, 5, "d\n");
	spool_free(&s);
}
END_TEST

START_TEST(finds_lines_on_both_sides_of_a_gap)
{
	struct spool_store store;
	struct spool s;

	limited(&store, _i);
	spool_init(&s, &store);
	put_lines(&s, 1, 300000);
	finds(&s, 2, 2, "2\n3\n");
	finds(&s, 150000, 1, NULL);
	finds(&s, 299999, 2, "299999\n300000\n");
	finds(&s, -1, 1, "300000\n");
	finds(&s, 250000, 1, "250000\n");
	spool_free(&s);
}
END_TEST

static void
excerpt(const struct spool *s, size_t max, const char *first, const char *last)
{
	struct buf head, tail;

	buf_init(&head, 1 << 20);
	buf_init(&tail, 1 << 20);
	buf_puts(&head, "");
	buf_puts(&tail, "");
	ck_assert(spool_excerpt(s, max, &head, &tail));
	ck_assert_str_eq(head.data, first);
	ck_assert_str_eq(tail.data, last);
	buf_free(&head);
	buf_free(&tail);
}

START_TEST(gives_the_first_and_the_last)
{
	struct spool_store store;
	struct spool s;

	spool_store_init(&store, here);
	spool_init(&s, &store);
	excerpt(&s, 10, "", "");
	spool_put(&s, "0123456789", 10);
	excerpt(&s, 10, "0123456789", "");
	excerpt(&s, 9, "0123", "56789");
	excerpt(&s, 1, "", "9");
	excerpt(&s, 0, "", "");
	spool_free(&s);
}
END_TEST

START_TEST(gives_the_last_out_of_the_ring)
{
	struct spool_store store;
	struct buf head, tail;
	struct spool s;

	limited(&store, _i);
	spool_init(&s, &store);
	put_lines(&s, 1, 300000);
	excerpt(&s, 15, "1\n2\n3\n4", "\n300000\n");
	/* More than is left of it: what there is, and no byte twice. */
	buf_init(&head, 4 << 20);
	buf_init(&tail, 4 << 20);
	ck_assert(spool_excerpt(&s, 1 << 20, &head, &tail));
	ck_assert_uint_le(head.len + tail.len, 1 << 20);
	ck_assert_mem_eq(tail.data + tail.len - 7, "300000\n", 7);
	buf_free(&head);
	buf_free(&tail);
	spool_free(&s);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("spool");
	TCase *t = tcase_create("spool");

	tcase_add_test(t, takes_the_first_place_that_can_be_written);
	tcase_add_test(t, keeps_a_little_in_memory_and_more_in_a_file);
	tcase_add_test(t, settles_what_is_not_small);
	tcase_add_loop_test(t, keeps_the_end_when_there_is_no_more_room, 0, 3);
	tcase_add_test(t, finds_lines_from_both_ends);
	tcase_add_loop_test(t, finds_lines_on_both_sides_of_a_gap, 0, 3);
	tcase_add_test(t, gives_the_first_and_the_last);
	tcase_add_loop_test(t, gives_the_last_out_of_the_ring, 0, 3);
	tcase_set_timeout(t, 60);
	suite_add_tcase(s, t);
	return suite_run(s);
}
