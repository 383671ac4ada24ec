/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "names.h"
#include "suite.h"

typedef int check_fn(const char *what, const char *s, struct error *err);

static char x63[64], x64[65], x254[255], key253[260];

static const struct {
	check_fn *check;
	const char *good[8], *bad[12];
} row[] = {
	{ name_label, { "a", "0", "a-b", x63 },
	    { "", "-a", "a-", "A", "a.b", "a_b", "a/b", "..", "\xc3\xa9", x64,
	    "a\n" } },
	{ name_subdomain, { "a", "a.b", "a-1.b-2", x63 },
	    { "", ".", "a.", ".a", "a..b", "A", "a/../b", x64, x254, "a%2F" } },
	{ name_label_key, { "a", "A_b.c-1", "x.y/z", x63, key253 },
	    { "", "/", "/a", "a/", "A/b", "a..b/c", "a/b/c", x64, "a b",
	    "x/-y", "a\n" } },
	{ name_label_value, { "", "a", "A_b.c-1", x63 },
	    { "-a", "a-", ".", "a b", "a/b", x64, "a\n" } },
	{ name_variable, { "A", "_", "a1" },
	    { "", "1a", "a-b", "A=B", "a b", "a\n", "\xc3\xa9" } },
};

enum { ROWS = sizeof(row) / sizeof(row[0]) };

static void
fill(void)
{
	memset(x63, 'a', 63);
	memset(x64, 'a', 64);
	memset(x254, 'a', 254);
	for (size_t i = 40; i < 254; i += 40)
		x254[i] = '.';
	memcpy(key253, x254, 253);
	key253[252] = 'a';
	memcpy(key253 + 253, "/k", 3);
}

START_TEST(takes_what_kubernetes_takes_and_nothing_else)
{
	struct error err = { ERR_NONE, "" };

	fill();
	for (int i = 0; i < 8 && row[_i].good[i] != NULL; i++)
		ck_assert_msg(row[_i].check("x", row[_i].good[i], &err) == 0,
		    "refused: %s", row[_i].good[i]);
	ck_assert_int_eq(err.code, ERR_NONE);
	for (int i = 0; i < 12 && row[_i].bad[i] != NULL; i++) {
		ck_assert_msg(row[_i].check("the thing", row[_i].bad[i],
		    &err) == -1, "took: %s", row[_i].bad[i]);
		ck_assert_int_eq(err.code, ERR_INPUT);
		ck_assert_ptr_nonnull(strstr(err.text, "the thing"));
	}
}
END_TEST

START_TEST(finds_a_whole_name_among_others)
{
	static const char *const list[] = { "ab", "b", NULL };

	ck_assert(name_among("ab", list) && name_among("b", list));
	ck_assert(!name_among("a", list) && !name_among("", list));
	ck_assert(!name_among("abc", list) && !name_among("b", list + 2));
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("names");
	TCase *t = tcase_create("names");

	suite_add_tcase(s, t);
	tcase_add_loop_test(t, takes_what_kubernetes_takes_and_nothing_else,
	    0, ROWS);
	tcase_add_test(t, finds_a_whole_name_among_others);
	return suite_run(s);
}
