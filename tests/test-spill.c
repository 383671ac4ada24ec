/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../buf.h"
#include "../error.h"
#include "../json.h"
#include "../spill.h"
#include "suite.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static void
keep(void *arg, const char *raw, size_t len)
{
	buf_put(arg, raw, len);
}

static int
feed(struct spill *s, const char *text, size_t len, size_t piece,
    struct error *err)
{
	for (size_t at = 0; at < len; at += piece)
		spill_feed(s, text + at, len - at < piece ? len - at : piece);
	return spill_end(s, err);
}

static const struct { const char *text, *left, *gone; size_t n; } sorts[] = {
	{ "{\"a\":\"12345678\"}", "{\"a\":\"\"}", "12345678", 1 },
	{ "{\"a\":\"1234\"}", "{\"a\":\"1234\"}", "", 0 },
	{ "{\"a key of length\":1}", "{\"a key of length\":1}", "", 0 },
	{ "{\"long key\":\"long value\",\"long key 2\":\"long value 2\"}",
	    "{\"long key\":\"\",\"long key 2\":\"\"}",
	    "long valuelong value 2", 2 },
	{ "[\"abcdef\",\"ab\",[\"abcdefg\"],{\"x\":[\"12345\"]}]",
	    "[\"\",\"ab\",[\"\"],{\"x\":[\"\"]}]", "abcdefabcdefg12345", 3 },
	{ "{\"a\":{\"b\":[1]},\"c c c c c\":2}",
	    "{\"a\":{\"b\":[1]},\"c c c c c\":2}", "", 0 },
	{ "\"one\\\"two\\\\\"", "\"\"", "one\\\"two\\\\", 1 },
	{ " { \"k\" : \"\\u00e4\\ud83d\\ude00\" , \"l\" : [ ] } ",
	    " { \"k\" : \"\" , \"l\" : [ ] } ",
	    "\\u00e4\\ud83d\\ude00", 1 },
	{ "[\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"]", "[\"\"]",
	    "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 1 },
};

START_TEST(long_values_leave_and_nothing_else)
{
	for (size_t piece = 1; piece < 40; piece++) {
		struct error err;
		struct buf gone;
		struct spill s;

		buf_init(&gone, 1000);
		buf_puts(&gone, "");
		spill_init(&s, 4, 1000, keep, &gone);
		ck_assert_int_eq(feed(&s, sorts[_i].text,
		    strlen(sorts[_i].text), piece, &err), 0);
		ck_assert_str_eq(s.text.data, sorts[_i].left);
		ck_assert_str_eq(gone.data, sorts[_i].gone);
		ck_assert_uint_eq(s.nspans, sorts[_i].n);
		for (size_t i = 0; i < s.nspans; i++)
			ck_assert_mem_eq(s.text.data + s.spans[i].at, "\"\"",
			    2);
		spill_free(&s);
		buf_free(&gone);
	}
}
END_TEST

START_TEST(a_string_is_found_by_its_place_alone)
{
	/* What looks like a string that has left is none. */
	static const char text[] = "[\"\",\"abcdefgh\",\"\",\"ijkl\\n\"]";
	struct error err;
	struct buf gone;
	struct spill s;

	buf_init(&gone, 1000);
	spill_init(&s, 4, 1000, keep, &gone);
	ck_assert_int_eq(feed(&s, text, strlen(text), 3, &err), 0);
	ck_assert_uint_eq(s.nspans, 2);
	ck_assert_uint_eq(s.spans[0].at, 4);
	ck_assert_uint_eq(s.spans[0].from, 0);
	ck_assert_uint_eq(s.spans[0].len, 8);
	ck_assert(!s.spans[0].escapes);
	ck_assert_uint_eq(s.spans[1].at, 10);
	ck_assert_uint_eq(s.spans[1].from, 8);
	ck_assert_uint_eq(s.spans[1].len, 6);
	ck_assert(s.spans[1].escapes);
	spill_free(&s);
	buf_free(&gone);
}
END_TEST

/* Parts of strings, good and bad; each is tried inside of a long one. */
static const char *const parts[] = {
	"\\n", "\\\\", "\\\"", "\\/", "\\u0041", "\\ud83d\\ude00", "\xc3\xa4",
	"\xed\x9f\xbf", "\xf4\x8f\xbf\xbf", "\x7f",
	"\\x", "\\", "\\u12", "\\u12g4", "\\ud83d", "\\ud83dx", "\\ud83d\\n",
	"\\ud83d\\u0041", "\\ude00", "\\ud83d\\ud83d", "\n", "\x01", "\x1f",
	"\x80", "\xc3", "\xc3(", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
	"\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82",
	"\xf0\x9f\x98", "\xff", "\xf0\x9f\x98\"", "\\ud83d\\", "\\u\xc3\xa4",
};

/* The same verdict as that of the parser that sees all of it. */
static void
agrees(const char *text, size_t len, size_t piece)
{
	struct error err, whole;
	struct json_doc *all = json_parse(text, len, &whole), *left = NULL;
	struct buf gone;
	struct spill s;

	buf_init(&gone, 1000);
	spill_init(&s, 4, 1000, keep, &gone);
	if (feed(&s, text, len, piece, &err) == 0)
		left = json_parse(s.text.data, s.text.len, &err);
	ck_assert_msg((left == NULL) == (all == NULL), "%s: %s, %s", text,
	    left == NULL ? err.text : "good", all == NULL ? whole.text :
	    "good");
	if (all == NULL)
		ck_assert_int_eq(err.code, whole.code);
	json_free(all);
	json_free(left);
	spill_free(&s);
	buf_free(&gone);
}

START_TEST(judges_a_string_as_the_parser_does)
{
	static const char *const around[][2] = {
		{ "", "" }, { "abc", "" }, { "abcd", "" }, { "abcde", "" },
		{ "abcdefghijklmnop", "qrstuvwxyz" }, { "", "klmnopqrstuv" },
		{ "\\\\\\\\\\\\", "\xe2\x82\xac" },
	};
	char text[200];
	int n;

	for (int i = 0; i < COUNT(around); i++) {
		n = snprintf(text, sizeof(text), "{\"key\":\"%s%s%s\",\"b\":1}",
		    around[i][0], parts[_i], around[i][1]);
		for (size_t piece = 1; piece <= (size_t)n; piece++)
			agrees(text, (size_t)n, piece);
		/* Cut off anywhere. */
		for (int len = 0; len < n; len++)
			agrees(text, (size_t)len, 5);
	}
}
END_TEST

START_TEST(a_message_may_begin_again_after_a_bad_one)
{
	static const char good[] = "[\"abcdefgh\"]";
	struct error err;
	struct buf gone;
	struct spill s;

	buf_init(&gone, 1000);
	spill_init(&s, 4, 20, keep, &gone);
	ck_assert_int_eq(feed(&s, "[\"abcd\x02", 7, 2, &err), -1);
	ck_assert_str_eq(err.text, "not JSON: a control character in a "
	    "string, at byte 6");
	spill_reset(&s, 0);
	buf_reset(&gone, 0);
	ck_assert_int_eq(feed(&s, "[1,2,3,4,5,6,7,8,9,10]", 22, 7, &err), -1);
	ck_assert_int_eq(err.code, ERR_LIMIT);
	spill_reset(&s, 0);
	ck_assert_int_eq(feed(&s, "[\"abcdefg", 9, 4, &err), -1);
	ck_assert_str_eq(err.text, "not JSON: the text ends in a string, at "
	    "byte 9");
	spill_reset(&s, 0);
	buf_reset(&gone, 0);
	ck_assert_int_eq(feed(&s, good, strlen(good), 4, &err), 0);
	ck_assert_str_eq(gone.data, "abcdefgh");
	ck_assert_uint_eq(s.spans[0].from, 0);
	spill_free(&s);
	buf_free(&gone);
}
END_TEST

static void
count(void *arg, const char *raw, size_t len)
{
	(void)raw;
	*(size_t *)arg += len;
}

START_TEST(what_is_left_stays_small)
{
	static char piece[65536];
	struct error err;
	struct spill s;
	size_t gone = 0;

	memset(piece, 'A', sizeof(piece));
	spill_init(&s, SPILL_FROM, 8 << 20, count, &gone);
	spill_feed(&s, "{\"a\":\"", 6);
	for (int i = 0; i < 640; i++)
		spill_feed(&s, piece, sizeof(piece));
	spill_feed(&s, "\"}", 2);
	ck_assert_int_eq(spill_end(&s, &err), 0);
	ck_assert_str_eq(s.text.data, "{\"a\":\"\"}");
	ck_assert_uint_eq(gone, 640 * sizeof(piece));
	ck_assert_uint_le(s.text.cap, 1 << 20);
	spill_free(&s);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("spill");
	TCase *t = tcase_create("spill");

	tcase_add_loop_test(t, long_values_leave_and_nothing_else, 0,
	    COUNT(sorts));
	tcase_add_test(t, a_string_is_found_by_its_place_alone);
	tcase_add_loop_test(t, judges_a_string_as_the_parser_does, 0,
	    COUNT(parts));
	tcase_add_test(t, a_message_may_begin_again_after_a_bad_one);
	tcase_add_test(t, what_is_left_stays_small);
	suite_add_tcase(s, t);
	return suite_run(s);
}
