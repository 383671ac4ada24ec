/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <string.h>

#include "fail-alloc.h"
#include "suite.h"

#include "../buf.c"

START_TEST(holds_what_was_put)
{
	struct buf b;

	buf_init(&b, 100);
	ck_assert_ptr_null(b.data);
	buf_puts(&b, "one");
	buf_put(&b, "\0two", 4);
	buf_printf(&b, " %d %s", 3, "four");
	ck_assert(buf_ok(&b));
	ck_assert_uint_eq(b.len, 14);
	ck_assert_mem_eq(b.data, "one\0two 3 four", 15);
	ck_assert_uint_eq(buf_room(&b), 86);
	buf_free(&b);
	ck_assert_ptr_null(b.data);
	ck_assert_uint_eq(b.len, 0);
}
END_TEST

START_TEST(prints_more_than_a_line)
{
	struct buf b;

	buf_init(&b, 5000);
	buf_printf(&b, "%*d", 4000, 7);
	ck_assert(buf_ok(&b));
	ck_assert_uint_eq(b.len, 4000);
	ck_assert_int_eq(b.data[3999], '7');
	buf_printf(&b, "%*d", 4000, 7);
	ck_assert(!buf_ok(&b));
	ck_assert_uint_eq(b.len, 4000);
	buf_free(&b);
}
END_TEST

START_TEST(fills_to_its_ceiling_and_no_further)
{
	struct buf b;

	buf_init(&b, 5);
	buf_puts(&b, "12345");
	ck_assert(buf_ok(&b));
	ck_assert_uint_le(b.cap, 6);
	buf_put(&b, "", 0);
	ck_assert(buf_ok(&b));
	buf_puts(&b, "6");
	ck_assert(!buf_ok(&b));
	ck_assert_uint_eq(buf_room(&b), 0);
	ck_assert_str_eq(b.data, "12345");
	buf_free(&b);
}
END_TEST

START_TEST(drops_all_that_comes_after_a_failure)
{
	struct buf b;

	buf_init(&b, 5);
	buf_puts(&b, "123");
	buf_puts(&b, "456");
	buf_puts(&b, "7");
	buf_printf(&b, "8");
	ck_assert(!buf_ok(&b));
	ck_assert_str_eq(b.data, "123");
	buf_reset(&b, 1000);
	ck_assert(buf_ok(&b));
	buf_puts(&b, "45678");
	ck_assert(buf_ok(&b));
	buf_free(&b);
}
END_TEST

START_TEST(drops_from_the_front)
{
	struct buf b;

	buf_init(&b, 100);
	buf_drop(&b, 0);
	buf_puts(&b, "abcdef");
	buf_drop(&b, 2);
	ck_assert_str_eq(b.data, "cdef");
	buf_drop(&b, 4);
	ck_assert_uint_eq(b.len, 0);
	ck_assert_str_eq(b.data, "");
	buf_free(&b);
}
END_TEST

START_TEST(gives_memory_back)
{
	struct buf b;

	buf_init(&b, 100000);
	for (int i = 0; i < 10000; i++)
		buf_puts(&b, "abcdef");
	buf_reset(&b, 100000);
	ck_assert_uint_gt(b.cap, 60000);
	ck_assert_str_eq(b.data, "");
	buf_reset(&b, 4096);
	ck_assert_uint_eq(b.cap, 0);
	ck_assert_uint_eq(b.max, 100000);
	buf_puts(&b, "again");
	buf_wipe(&b);
	ck_assert_ptr_null(b.data);
}
END_TEST

START_TEST(takes_no_memory_for_a_failure)
{
	struct buf b;

	for (long n = 0; n <= 3; n++) {
		buf_init(&b, 10000);
		alloc_left = n;
		for (int i = 0; i < 100; i++)
			buf_puts(&b, "0123456789");
		alloc_left = -1;
		ck_assert_int_eq(buf_ok(&b), n == 3);
		ck_assert_uint_eq(b.len, n == 0 ? 0 : n == 1 ? 250 :
		    n == 2 ? 510 : 1000);
		if (n > 0)
			ck_assert_uint_eq(strlen(b.data), b.len);
		buf_free(&b);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("buf");
	TCase *t = tcase_create("buf");

	tcase_add_test(t, holds_what_was_put);
	tcase_add_test(t, prints_more_than_a_line);
	tcase_add_test(t, fills_to_its_ceiling_and_no_further);
	tcase_add_test(t, drops_all_that_comes_after_a_failure);
	tcase_add_test(t, drops_from_the_front);
	tcase_add_test(t, gives_memory_back);
	tcase_add_test(t, takes_no_memory_for_a_failure);
	suite_add_tcase(s, t);
	return suite_run(s);
}
