/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "../error.h"
#include "../utf8.h"
#include "suite.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static void
text_is_well_formed(const struct error *err)
{
	const unsigned char *p = (const unsigned char *)err->text;
	const unsigned char *end = p + strlen(err->text);

	ck_assert_uint_lt(strlen(err->text), sizeof(err->text));
	for (; p < end; p += utf8_len(p, end))
		ck_assert_uint_ne(utf8_len(p, end), 0);
}

START_TEST(returns_what_the_failing_line_returns)
{
	struct error err = { .code = ERR_NONE };

	ck_assert_int_eq(error_set(&err, ERR_GONE, "pod %s", "a"), -1);
	ck_assert_int_eq(err.code, ERR_GONE);
	ck_assert_str_eq(err.text, "pod a");
	ck_assert_int_eq(error_wrap(&err, "claim %d", 7), -1);
	ck_assert_int_eq(err.code, ERR_GONE);
	ck_assert_str_eq(err.text, "claim 7: pod a");
}
END_TEST

START_TEST(names_the_reason_of_the_system)
{
	struct error err = { .code = ERR_NONE };

	errno = ENOENT;
	ck_assert_int_eq(error_sys(&err, "/x"), -1);
	ck_assert_int_eq(err.code, ERR_SYSTEM);
	ck_assert_str_eq(err.text, "/x: No such file or directory");
}
END_TEST

static const struct { const char *in, *out; } odd[] = {
	{ "a\nb\tc\033[1m\177", "a b c [1m " },
	{ "caf\xc3\xa9", "caf\xc3\xa9" },
	{ "c1 \xc2\x85 \xc2\xa0", "c1    \xc2\xa0" },
	{ "\xff\xfe", "??" }, { "x\xe2\x82", "x??" }, { "", "" },
};

START_TEST(makes_one_printable_line)
{
	struct error err = { .code = ERR_NONE };

	error_set(&err, ERR_INPUT, "%s", odd[_i].in);
	ck_assert_str_eq(err.text, odd[_i].out);
}
END_TEST

START_TEST(cuts_at_a_character_border)
{
	struct error err = { .code = ERR_NONE };
	char text[2000];
	size_t n = (size_t)_i;

	memset(text, 'a', n);
	while (n < 1900) {
		memcpy(text + n, "\xf0\x9f\x98\x80", 4);
		n += 4;
	}
	text[n] = '\0';
	error_set(&err, ERR_INPUT, "%s", text);
	text_is_well_formed(&err);
	ck_assert_uint_gt(strlen(err.text), sizeof(err.text) - 5);
	ck_assert_ptr_null(strchr(err.text, '?'));
	error_wrap(&err, "%s", text);
	text_is_well_formed(&err);
	ck_assert_ptr_null(strchr(err.text, '?'));
	ck_assert_ptr_nonnull(strstr(err.text, ": "));
}
END_TEST

START_TEST(may_quote_its_own_text)
{
	struct error err = { .code = ERR_NONE };

	error_set(&err, ERR_LOST, "why");
	error_set(&err, ERR_LOST, "a %s, and %s again", err.text, err.text);
	ck_assert_str_eq(err.text, "a why, and why again");
}
END_TEST

START_TEST(has_a_word_for_every_code)
{
	for (int i = ERR_NONE; i <= ERR_SYSTEM; i++) {
		ck_assert_ptr_nonnull(error_word((enum error_code)i));
		ck_assert_str_ne(error_word((enum error_code)i), "unknown");
	}
	ck_assert_str_eq(error_word(ERR_DENIED), "denied");
	ck_assert_str_eq(error_word((enum error_code)99), "unknown");
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("error");
	TCase *t = tcase_create("error");

	tcase_add_test(t, returns_what_the_failing_line_returns);
	tcase_add_test(t, names_the_reason_of_the_system);
	tcase_add_loop_test(t, makes_one_printable_line, 0, COUNT(odd));
	tcase_add_loop_test(t, cuts_at_a_character_border, 0, 8);
	tcase_add_test(t, may_quote_its_own_text);
	tcase_add_test(t, has_a_word_for_every_code);
	suite_add_tcase(s, t);
	return suite_run(s);
}
