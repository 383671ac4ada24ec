/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../buf.h"
#include "../utf8.h"
#include "suite.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
#define R	"\xef\xbf\xbd"

static void
put(void *arg, const unsigned char *seq, size_t n)
{
	buf_put(arg, seq, n);
}

/* Of Unicode 15: tables 3-8 to 3-11, and the borders of table 3-7. */
static const struct { const char *in, *out; } cases[] = {
	{ "plain", "plain" },
	{ "\xc2\x80\xdf\xbf", "\xc2\x80\xdf\xbf" },
	{ "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf",
	    "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf" },
	{ "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
	    "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf" },
	{ "\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", R R R R R R R R "A" },
	{ "\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", R R R R R R R R "A" },
	{ "\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", R R R R R "A" R R "B" },
	{ "\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", R R R R "A" },
	{ "\xe2\x82", R }, { "\xf0\x9f\x98", R }, { "\xc3", R },
	{ "\xf5\x80", R R }, { "\xc1\x80", R R }, { "a\xc3" "b", "a" R "b" },
};

START_TEST(replaces_once_per_maximal_subpart)
{
	struct utf8 u = { .need = 0 };
	struct buf out;

	buf_init(&out, 100);
	for (const char *p = cases[_i].in; *p != '\0'; p++)
		utf8_feed(&u, (unsigned char)*p, put, &out);
	utf8_end(&u, put, &out);
	utf8_end(&u, put, &out);	/* nothing is left */
	ck_assert_str_eq(out.data, cases[_i].out);
	buf_free(&out);
}
END_TEST

START_TEST(agrees_with_itself_on_whole_texts)
{
	const unsigned char *p = (const unsigned char *)cases[_i].in;
	const unsigned char *end = p + strlen(cases[_i].in);
	struct buf out;
	size_t n;

	buf_init(&out, 100);
	while (p < end) {
		if ((n = utf8_len(p, end)) != 0) {
			buf_put(&out, p, n);
		} else {
			buf_puts(&out, R);
			n = utf8_bad(p, end);
		}
		p += n;
	}
	ck_assert_str_eq(out.data, cases[_i].out);
	buf_free(&out);
}
END_TEST

START_TEST(never_reads_past_the_end)
{
	/* On the heap, where a sanitizer sees it. */
	unsigned char *p = calloc(3, 1);

	memcpy(p, "\xf0\x9f\x98", 3);
	ck_assert_uint_eq(utf8_len(p, p + 3), 0);
	ck_assert_uint_eq(utf8_bad(p, p + 3), 3);
	ck_assert_uint_eq(utf8_len(p + 3, p + 3), 0);
	free(p);
}
END_TEST

static const struct { const char *in; bool cut; const char *out; } lines[] = {
	{ "a\r\nb\001", false, "a  b " }, { "\xc3\xa9\xc3", false,
	    "\xc3\xa9?" }, { "\xc3\xa9\xc3", true, "\xc3\xa9" },
	{ "ab\xf0\x9f\x98", true, "ab" }, { "ab\xff", true, "ab" },
	{ "\xc2\x9b" "31m", false, "  31m" }, { "", true, "" },
};

START_TEST(makes_one_printable_line)
{
	char text[20] = "";

	memcpy(text, lines[_i].in, strlen(lines[_i].in));
	utf8_clean(text, lines[_i].cut);
	ck_assert_str_eq(text, lines[_i].out);
}
END_TEST

/* _i: where the first byte that is none comes. */
START_TEST(finds_the_end_of_ascii)
{
	unsigned char text[24];

	for (size_t from = 0; from < 8 && from <= (size_t)_i; from++) {
		memset(text, 'a', sizeof(text));
		ck_assert_uint_eq(utf8_ascii(text + from, text + _i),
		    (size_t)_i - from);
		text[_i] = 0x80;
		ck_assert_uint_eq(utf8_ascii(text + from, text +
		    sizeof(text)), (size_t)_i - from);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("utf8");
	TCase *t = tcase_create("utf8");

	tcase_add_loop_test(t, replaces_once_per_maximal_subpart, 0,
	    COUNT(cases));
	tcase_add_loop_test(t, agrees_with_itself_on_whole_texts, 0,
	    COUNT(cases));
	tcase_add_test(t, never_reads_past_the_end);
	tcase_add_loop_test(t, makes_one_printable_line, 0, COUNT(lines));
	tcase_add_loop_test(t, finds_the_end_of_ascii, 0, 24);
	suite_add_tcase(s, t);
	return suite_run(s);
}
