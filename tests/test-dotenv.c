/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../dotenv.h"
#include "../error.h"
#include "suite.h"

static char *const outside[] = { (char[]){ "HOME=/h" },
    (char[]){ "A=outside" }, NULL };

/* The names and values found, the last first, with '|' between. */
static const struct {
	const char *text, *found;
	unsigned bad;
} files[] = {
	{ "", "", 0 },
	{ "A=1", "A=1|", 0 },
	{ "A=1\nB=2\n", "B=2|A=1|", 0 },
	{ "A=1\r\nB=2\r\n", "B=2|A=1|", 0 },
	{ "\xef\xbb\xbf" "A=1\n", "A=1|", 0 },
	{ "export A=1\nexport\tB = 2", "B=2|A=1|", 0 },
	{ "exported=1\nexport=2", "export=2|exported=1|", 0 },
	{ "# a\n\n  # b\n  A=1", "A=1|", 0 },
	{ "A=a b # c", "A=a b|", 0 },
	{ "A=a#b", "A=a#b|", 0 },
	{ "A=#b", "A=|", 0 },
	{ "A=", "A=|", 0 },
	{ "A", "", 0 },
	{ "A='a # \\' \\\\ \\n' # c", "A=a # ' \\ \\n|", 0 },
	{ "A=\"a\\tb\\\"c\\\\ \\x\"", "A=a\tb\"c\\ \\x|", 0 },
	{ "A='two\nlines'\nB=1", "B=1|A=two\nlines|", 0 },
	{ "'A'=1", "A=1|", 0 },
	{ "A=1\nA=2", "A=2|A=1|", 0 },
	{ "A=1\nB=${A}${HOME}${NONE}x", "B=1/hx|A=1|", 0 },
	{ "B=${A}", "B=outside|", 0 },
	{ "B=${NO:-a}-${HOME:-b}", "B=a-/h|", 0 },
	{ "B=$A ${A", "B=$A ${A|", 0 },
	{ "A='open\nB=2", "B=2|", 1 },
	{ "A=1\nB=\"x\" y\nC=3\n=4", "C=3|A=1|", 2 },
	{ "a=1", "a=1|", 0 },
};

START_TEST(a_file_reads_as_python_dotenv_reads_it)
{
	char found[256] = "", text[256];
	struct error err = { ERR_NONE, "" };
	size_t len = strlen(files[_i].text);
	unsigned bad = 99;
	char **list;

	/* Without a NUL after it. */
	memcpy(text, files[_i].text, len);
	list = dotenv_parse(text, len, outside, &bad, &err);
	ck_assert_ptr_nonnull(list);
	for (size_t i = 0; list[i] != NULL; i++) {
		strcat(found, list[i]);
		strcat(found, "|");
	}
	ck_assert_str_eq(found, files[_i].found);
	ck_assert_uint_eq(bad, files[_i].bad);
	dotenv_free(list);
}
END_TEST

START_TEST(a_nul_is_in_no_setting)
{
	static const char text[] = "A=a\0b\nB=1\nC\0D=2";
	struct error err = { ERR_NONE, "" };
	unsigned bad;
	char **list = dotenv_parse(text, sizeof(text) - 1, NULL, &bad, &err);

	ck_assert_ptr_nonnull(list);
	ck_assert_str_eq(list[0], "B=1");
	ck_assert_ptr_null(list[1]);
	ck_assert_uint_eq(bad, 1);
	dotenv_free(list);
}
END_TEST

START_TEST(values_that_grow_without_end_are_refused)
{
	struct error err = { ERR_NONE, "" };
	char text[4096] = "A=0123456789\n";
	unsigned bad;

	for (int i = 0; i < 30; i++)
		strcat(text, "A=${A}${A}\n");
	ck_assert_ptr_null(dotenv_parse(text, strlen(text), NULL, &bad,
	    &err));
	ck_assert_int_eq(err.code, ERR_LIMIT);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("dotenv");
	TCase *t = tcase_create("dotenv");

	suite_add_tcase(s, t);
	tcase_add_loop_test(t, a_file_reads_as_python_dotenv_reads_it, 0,
	    sizeof(files) / sizeof(files[0]));
	tcase_add_test(t, a_nul_is_in_no_setting);
	tcase_add_test(t, values_that_grow_without_end_are_refused);
	return suite_run(s);
}
