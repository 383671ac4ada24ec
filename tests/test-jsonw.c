/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "../buf.h"
#include "../error.h"
#include "../json.h"
#include "../jsonw.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static struct buf out;
static struct jsonw w;

static void
setup(void)
{
	buf_init(&out, 1 << 20);
	jsonw_init(&w, &out);
}

static void
teardown(void)
{
	buf_free(&out);
}

START_TEST(writes_nested_values_with_their_commas)
{
	jsonw_object(&w, NULL);
	jsonw_str(&w, "a", "x");
	jsonw_array(&w, "b");
	jsonw_int(&w, NULL, -7);
	jsonw_object(&w, NULL);
	jsonw_end(&w);
	jsonw_array(&w, NULL);
	jsonw_end(&w);
	jsonw_bool(&w, NULL, true);
	jsonw_end(&w);
	jsonw_null(&w, "c");
	jsonw_raw(&w, "d", "[1 , 2]", 7);
	jsonw_bool(&w, "e", false);
	jsonw_end(&w);
	ck_assert(buf_ok(&out));
	ck_assert_str_eq(out.data, "{\"a\":\"x\",\"b\":[-7,{},[],true],"
	    "\"c\":null,\"d\":[1 , 2],\"e\":false}");
}
END_TEST

static const struct { const char *in; size_t len; const char *want; }
strings[] = {
	{ "", 0, "\"\"" }, { "a\"b\\c/", 6, "\"a\\\"b\\\\c/\"" },
	{ "\b\f\n\r\t", 5, "\"\\b\\f\\n\\r\\t\"" },
	{ "\0\001\033\037\177", 5, "\"\\u0000\\u0001\\u001b\\u001f\\u007f\"" },
	{ "\xc2\x85\xc2\x9f\xc2\xa0", 6, "\"\\u0085\\u009f\xc2\xa0\"" },
	{ "\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa", 12,
	    "\"\xe2\x80\xa7\\u2028\\u2029\xe2\x80\xaa\"" },
	{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9,
	    "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
	{ "a\xff\xe2\x82z\xf0\x9f\x98", 8,
	    "\"a\xef\xbf\xbd\xef\xbf\xbdz\xef\xbf\xbd\"" },
	{ "\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
};

START_TEST(escapes_what_would_break_a_line)
{
	jsonw_bytes(&w, NULL, strings[_i].in, strings[_i].len);
	ck_assert_str_eq(out.data, strings[_i].want);
}
END_TEST

START_TEST(escapes_keys_too)
{
	jsonw_object(&w, NULL);
	jsonw_int(&w, "a\n\"", 1);
	jsonw_end(&w);
	ck_assert_str_eq(out.data, "{\"a\\n\\\"\":1}");
}
END_TEST

static const struct { double d; const char *want; } doubles[] = {
	{ 0, "0" }, { 0.1, "0.1" }, { -2.5, "-2.5" }, { 1e21, "1e+21" },
	{ 1.0 / 3, "0.3333333333333333" }, { 5e-324, "4.94065645841247e-324" },
	{ 1759237200.123456, "1759237200.123456" }, { (double)NAN, "null" },
	{ (double)INFINITY, "null" }, { 123456789012345680.0,
	    "1.2345678901234568e+17" },
};

START_TEST(writes_the_shortest_double_that_reads_back)
{
	jsonw_double(&w, NULL, doubles[_i].d);
	ck_assert_str_eq(out.data, doubles[_i].want);
}
END_TEST

START_TEST(is_read_back_whole)
{
	struct error err = { .code = ERR_NONE };
	struct json_doc *doc;
	char bytes[256];
	struct buf back;

	for (int i = 0; i < 128; i++)
		bytes[i] = (char)i;
	jsonw_bytes(&w, NULL, bytes, 128);
	doc = json_parse(out.data, out.len, &err);
	ck_assert_msg(doc != NULL, "%s", err.text);
	buf_init(&back, 1000);
	ck_assert(json_text(json_root(doc), &back));
	ck_assert_uint_eq(back.len, 128);
	ck_assert_mem_eq(back.data, bytes, 128);
	buf_free(&back);
	json_free(doc);
}
END_TEST

/* _i: a byte; alone it is written in single steps. */
START_TEST(finds_what_to_escape_wherever_it_is)
{
	char text[20], one = (char)_i;
	struct buf alone, among;
	struct jsonw a, b;

	for (size_t at = 0; at < sizeof(text); at++) {
		buf_init(&alone, 100);
		buf_init(&among, 100);
		memset(text, 'a', sizeof(text));
		text[at] = one;
		jsonw_init(&a, &alone);
		jsonw_bytes(&a, NULL, &one, 1);
		jsonw_init(&b, &among);
		jsonw_bytes(&b, NULL, text, sizeof(text));
		ck_assert_uint_eq(among.len, alone.len + sizeof(text) - 1);
		ck_assert_mem_eq(among.data + 1 + at, alone.data + 1,
		    alone.len - 2);
		ck_assert_uint_eq(strspn(among.data + 1, "a"), one == 'a' ?
		    sizeof(text) : at);
		buf_free(&alone);
		buf_free(&among);
	}
}
END_TEST

START_TEST(tells_what_fits)
{
	static const char text[] = "a\"\1\xc3\xa4\xff\xe2\x80\xa8\xc2\x80z";
	static const size_t ends[] = { 0, 1, 2, 3, 5, 6, 9, 11, 12 };
	size_t len = sizeof(text) - 1, at = 0, took, fits;

	ck_assert_uint_eq(jsonw_fit(NULL, 0, 0, &took), 0);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct jsonw one;
		struct buf text_of;

		buf_init(&text_of, 100);
		jsonw_init(&one, &text_of);
		jsonw_bytes(&one, NULL, text, ends[i]);
		for (; at < text_of.len - 2; at++) {
			fits = jsonw_fit(text, len, at, &took);
			ck_assert_uint_eq(fits, ends[i - 1]);
		}
		ck_assert_uint_eq(jsonw_fit(text, len, at, &took), ends[i]);
		ck_assert_uint_eq(took, at);
		buf_free(&text_of);
	}
}
END_TEST

START_TEST(leaves_failing_to_the_buffer)
{
	struct buf small;

	buf_init(&small, 5);
	jsonw_init(&w, &small);
	jsonw_array(&w, NULL);
	jsonw_str(&w, NULL, "too long");
	jsonw_end(&w);
	ck_assert(!buf_ok(&small));
	ck_assert_uint_le(small.len, 5);
	buf_free(&small);
}
END_TEST

START_TEST(stops_at_a_key_in_an_array)
{
	jsonw_array(&w, NULL);
	jsonw_int(&w, "key", 1);
}
END_TEST

START_TEST(stops_at_a_member_without_key)
{
	jsonw_object(&w, NULL);
	jsonw_int(&w, NULL, 1);
}
END_TEST

START_TEST(stops_at_an_end_too_many)
{
	jsonw_end(&w);
}
END_TEST

START_TEST(stops_at_a_second_root)
{
	jsonw_int(&w, NULL, 1);
	jsonw_int(&w, NULL, 1);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("jsonw");
	TCase *t = tcase_create("jsonw");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, writes_nested_values_with_their_commas);
	tcase_add_loop_test(t, escapes_what_would_break_a_line, 0,
	    COUNT(strings));
	tcase_add_test(t, escapes_keys_too);
	tcase_add_loop_test(t, writes_the_shortest_double_that_reads_back, 0,
	    COUNT(doubles));
	tcase_add_test(t, is_read_back_whole);
	tcase_add_loop_test(t, finds_what_to_escape_wherever_it_is, 0, 256);
	tcase_add_test(t, tells_what_fits);
	tcase_add_test(t, leaves_failing_to_the_buffer);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	/* An assertion can only be seen from another process. */
	if (srunner_fork_status(r) == CK_FORK) {
		tcase_add_test_raise_signal(t, stops_at_a_key_in_an_array,
		    SIGABRT);
		tcase_add_test_raise_signal(t, stops_at_a_member_without_key,
		    SIGABRT);
		tcase_add_test_raise_signal(t, stops_at_an_end_too_many,
		    SIGABRT);
		tcase_add_test_raise_signal(t, stops_at_a_second_root,
		    SIGABRT);
	}
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
