/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../buf.h"
#include "../error.h"
#include "../listing.h"
#include "suite.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
#define MARK "m4rk "

static void
note(void *arg, const struct listing_entry *e)
{
	struct buf *b = arg;

	buf_put(b, e->name, e->name_len);
	buf_printf(b, ":%s:%ld:%.3f;", e->folder ? "d" : "f", e->size,
	    e->mtime);
}

/* level 0: records. 0, or -1 from feed or end. */
static int
read_all(int level, const char *text, size_t len, size_t piece,
    struct buf *out, struct error *err)
{
	struct listing l;
	int r = 0;

	if (level == 0)
		listing_records(&l, MARK, note, out);
	else
		listing_json(&l, level, note, out);
	for (size_t at = 0; at < len && r == 0; at += piece)
		r = listing_feed(&l, text + at, len - at < piece ? len - at :
		    piece, err);
	if (r == 0)
		r = listing_end(&l, err);
	listing_free(&l);
	return r;
}

static const struct { int level; const char *text, *read; } good[] = {
	{ 1, "[]", "" }, { 2, "{\"path\":\"/\",\"entries\":[]}", "" },
	{ 1, " [ ] \n", "" },
	{ 1, "[{\"name\":\"a\",\"size\":3,\"type\":\"file\",\"mod_time\":1.5},"
	    "{\"name\":\"b\",\"size\":0,\"type\":\"directory\",\"mod_time\":2}]",
	    "a:f:3:1.500;b:d:0:2.000;" },
	{ 2, "{\"path\":\"/[{\",\"entries\":[{\"name\":\"x\\\"}]{\",\"size\":1,"
	    "\"type\":\"file\",\"modified_at\":\"2026-11-30T16:30:33Z\",\"mode\""
	    ":\"0644\",\"more\":{\"a\":[{}]}}]}\n",
	    "x\"}]{:f:1:1796056233.000;" },
	{ 1, "[{\"name\":\"\\\\\",\"size\":9007199254740993,\"type\":\"file\"}]",
	    "\\:f:9007199254740993:0.000;" },
	{ 1, "[{}]", ":f:0:0.000;" },
	{ 0, "", "" },
	{ 0, MARK "81a4 5 7 ./a\n", "a:f:5:7.000;" },
	{ 0, MARK "41ed 0 1 ./d\n" MARK "81a4 2 3 ./x y\n",
	    "d:d:0:1.000;x y:f:2:3.000;" },
	{ 0, MARK "81a4 2 3 ./a\nb\n\n" MARK "81a4 2 3 ./m4rk\n",
	    "a\nb\n:f:2:3.000;m4rk:f:2:3.000;" },
	{ 0, MARK "81a4 2 3 ./ lead\n", " lead:f:2:3.000;" },
};

START_TEST(every_entry_is_read_whatever_the_pieces)
{
	const char *text = good[_i].text;
	struct error err = { ERR_NONE, "" };
	struct buf b;

	buf_init(&b, 4096);
	for (size_t piece = 1; piece < 200; piece += piece) {
		buf_reset(&b, 4096);
		ck_assert_msg(read_all(good[_i].level, text, strlen(text),
		    piece, &b, &err) == 0, "%s", err.text);
		ck_assert_str_eq(b.data != NULL ? b.data : "", good[_i].read);
	}
	buf_free(&b);
}
END_TEST

static const struct { int level; const char *text; } wrong[] = {
	{ 1, "" }, { 1, "[" }, { 1, "[{\"name\":\"a\"}" }, { 1, "{}" },
	{ 2, "[]" }, { 1, "[]]" }, { 1, "[]x" }, { 1, "[{\"name\":}]" },
	{ 1, "garbage" }, { 2, "{\"entries\":[{\"name\":\"a" },
	{ 1, "]" }, { 0, "81a4 5 7 ./a\n" }, { 0, MARK "81a4 5 7 ./a" },
	{ 0, MARK "zz ./a\n" }, { 0, "m4" },
};

START_TEST(what_is_cut_or_another_thing_is_no_list)
{
	struct error err = { ERR_NONE, "" };
	struct buf b;

	buf_init(&b, 4096);
	ck_assert_int_eq(read_all(wrong[_i].level, wrong[_i].text,
	    strlen(wrong[_i].text), 3, &b, &err), -1);
	ck_assert_int_ne(err.code, ERR_NONE);
	buf_free(&b);
}
END_TEST

START_TEST(a_long_entry_and_a_deep_one_are_refused)
{
	struct error err = { ERR_NONE, "" };
	size_t len = 20000;
	char *text = malloc(len);
	struct buf b;

	buf_init(&b, 4096);
	memset(text, 'x', len);
	memcpy(text, "[{\"name\":\"", 10);
	ck_assert_int_eq(read_all(1, text, len, 999, &b, &err), -1);
	ck_assert_int_eq(err.code, ERR_LIMIT);
	memset(text, '[', len);
	ck_assert_int_eq(read_all(1, text, len, 999, &b, &err), -1);
	memset(text, 'x', len);
	memcpy(text, MARK, 5);
	ck_assert_int_eq(read_all(0, text, len, 999, &b, &err), -1);
	buf_free(&b);
	free(text);
}
END_TEST

START_TEST(times_are_rfc_3339_or_nothing)
{
	ck_assert(listing_time("1970-01-01T00:00:01Z") == 1);
	ck_assert(listing_time("2026-11-30T16:30:33.5Z") == 1796056233.5);
	ck_assert(listing_time("yesterday") == 0 && listing_time("") == 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("listing");
	TCase *t = tcase_create("listing");

	suite_add_tcase(s, t);
	tcase_add_loop_test(t, every_entry_is_read_whatever_the_pieces, 0,
	    COUNT(good));
	tcase_add_loop_test(t, what_is_cut_or_another_thing_is_no_list, 0,
	    COUNT(wrong));
	tcase_add_test(t, a_long_entry_and_a_deep_one_are_refused);
	tcase_add_test(t, times_are_rfc_3339_or_nothing);
	return suite_run(s);
}
