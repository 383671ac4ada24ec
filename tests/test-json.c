/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "fail-alloc.h"
#include "suite.h"

#include "../buf.c"
#include "../json.c"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

struct bytes { const char *p; size_t len; };
#define B(s)	{ s, sizeof(s) - 1 }

static const struct bytes good[] = {
	B("{}"), B("[]"), B("[1,2]"), B("{\"a\":{\"b\":[null,true]}}"),
	B(" [ -0.5e+3 ] "), B("[\"\\ud83d\\ude00\"]"), B("[\"\xc3\xa9\"]"),
	B("0"), B(" -1.5E-7\t"), B("\"\""), B("\r\n\"a\\\"b\" "), B("true"),
	B(" false "), B("null"), B("[[],{},[{}],\"\",0,{\"\":\"\"}]"),
	B("{\"a\":1,\"A\":2,\"a \":3}"), B("[\"\\u0000\\/\\b\\f\"]"),
	B("[{\"a\":1},{\"a\":1}]"), B("{\"a\":{\"a\":{\"a\":1}}}"),
	B("[\"\\\\\\\"\"]"), B("[123456789012345678901234567890]"),
	B("[\"\x7f\xf4\x8f\xbf\xbf\"]"),
};

/* jsmn, strict, says yes to most of these; we must not. */
static const struct bytes bad[] = {
	B(""), B(" "), B("{,}"), B("{\"a\"}"), B("{\"a\":1,}"),
	B("{\"a\":1 \"b\":2}"), B("[1,,3]"), B("[01]"), B("[tru]"), B("[n!!]"),
	B("{\"a\":\"b\":\"c\"}"), B("[\"a\":1]"), B("{} {}"), B("{}x"),
	B("[\"a\tb\"]"), B("[\"\xff\"]"), B("[\"\xc0\xaf\"]"), B("[1.]"),
	B("[\"\\x\"]"), B("[\""), B("[1"), B("[\"\\ud800\"]"),
	B("[\"\\ud800\\u0041\"]"), B("[\"\\udc00\"]"), B("[\"\\ud800x\"]"),
	B("[\"\\u12g4\"]"), B("[\"\\u12"), B("[\"\\"), B("[.5]"), B("[+1]"),
	B("[-]"), B("[1e]"), B("[1e+]"), B("[1]]"), B("[}"), B("{]"),
	B("{1:2}"), B("{null:2}"), B("[1,]"), B("{\"a\":}"), B("'a'"),
	B("[nulls]"), B("truex"), B("1 2"), B("\xef\xbb\xbf{}"), B("[NaN]"),
	B("\0"), B("[1]\0"), B("[\"\0\"]"), B("[\0]"), B("[\"\\\0\"]"),
	B("[\"\xed\xa0\x80\"]"), B("\f[]"), B("[1\v]"), B("[//\n1]"),
};

/* On the heap and without a NUL, where a sanitizer sees a byte too many. */
static struct json_doc *
parse_copy(struct bytes in, char **copy, struct error *err)
{
	*copy = (malloc)(in.len + (in.len == 0));
	memcpy(*copy, in.p, in.len);
	return json_parse(*copy, in.len, err);
}

START_TEST(takes_json)
{
	struct error err = { .code = ERR_NONE };
	char *copy;
	struct json_doc *d = parse_copy(good[_i], &copy, &err);

	ck_assert_msg(d != NULL, "%s: %s", good[_i].p, err.text);
	ck_assert_int_eq(err.code, ERR_NONE);
	ck_assert_int_ne(json_type(json_root(d)), JSON_NONE);
	json_free(d);
	free(copy);
}
END_TEST

START_TEST(refuses_what_only_looks_like_json)
{
	struct error err = { .code = ERR_NONE };
	char *copy;
	struct json_doc *d = parse_copy(bad[_i], &copy, &err);

	ck_assert_msg(d == NULL, "took: %s", bad[_i].p);
	ck_assert_int_eq(err.code, ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "at byte "));
	free(copy);
}
END_TEST

START_TEST(refuses_every_text_that_is_cut)
{
	static const char text[] = "{\"a\":[1,{\"b\":\"x\\u00e9\\n\"},true],"
	    "\"c\":null,\"d\":-1.5e3}";
	struct error err = { .code = ERR_NONE };
	char *copy;

	for (size_t n = 0; n < sizeof(text) - 1; n++) {
		struct bytes cut = { text, n };

		ck_assert_ptr_null(parse_copy(cut, &copy, &err));
		free(copy);
	}
}
END_TEST

START_TEST(says_what_and_at_which_byte)
{
	struct error err = { .code = ERR_NONE };

	ck_assert_ptr_null(json_parse("{\"a\":1,}", 8, &err));
	ck_assert_str_eq(err.text,
	    "not JSON: a key in quotes is missing, at byte 7");
	ck_assert_ptr_null(json_parse("[\"\n\"]", 5, &err));
	ck_assert_str_eq(err.text,
	    "not JSON: a control character in a string, at byte 2");
}
END_TEST

static const char *const twice[] = {
	"{\"a\":1,\"a\":2}", "{\"a\":1,\"\\u0061\":2}", "{\"\":1,\"\":2}",
	"[1,{\"x\":{\"k\":1,\"j\":2,\"k\":3}}]", "{\"\\u00e9\":1,\"\xc3\xa9\":2}",
	"{\"\\/\":1,\"/\":2}", "{\"\\ud83d\\ude00\":1,\"\xf0\x9f\x98\x80\":2}",
	"{\"a\\u0000b\":1,\"a\\u0000b\":2}",
};

START_TEST(refuses_equal_keys_in_one_object)
{
	struct error err = { .code = ERR_NONE };

	ck_assert_ptr_null(json_parse(twice[_i], strlen(twice[_i]), &err));
	ck_assert_int_eq(err.code, ERR_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "twice"));
}
END_TEST

START_TEST(takes_the_last_of_equal_keys_when_lax)
{
	static const char text[] = "{\"a\":1,\"b\":2,\"\\u0061\":3}";
	struct error err = { .code = ERR_NONE };
	struct json_doc *d = json_parse_lax(text, strlen(text), &err);
	long n = 0;

	ck_assert(json_int(json_get(json_root(d), "a"), 0, 9, &n));
	ck_assert_int_eq(n, 3);
	ck_assert(json_int(json_get(json_root(d), "b"), 0, 9, &n));
	ck_assert_int_eq(n, 2);
	json_free(d);
	ck_assert_ptr_null(json_parse_lax("{,}", 3, &err));
}
END_TEST

/* Quadratic work would take minutes and end in the test's timeout. */
START_TEST(finds_equal_keys_among_many)
{
	struct error err = { .code = ERR_NONE };
	struct json_doc *d;
	struct buf text;

	buf_init(&text, 16 << 20);
	buf_puts(&text, "{");
	for (int i = 0; i < 100000; i++)
		buf_printf(&text, "\"the same prefix for all %d\":0,", i);
	buf_puts(&text, "\"\":0}");
	d = json_parse(text.data, text.len, &err);
	ck_assert_msg(d != NULL, "%s", err.text);
	ck_assert_uint_eq(json_count(json_root(d)), 100001);
	json_free(d);
	text.len--;
	buf_puts(&text, ",\"the same prefix for all 500\":0}");
	ck_assert_ptr_null(json_parse(text.data, text.len, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "all 500"));
	buf_free(&text);
}
END_TEST

START_TEST(bounds_the_depth)
{
	struct error err = { .code = ERR_NONE };
	struct json_doc *d;
	char text[2 * LIMIT_JSON_DEPTH + 2];

	memset(text, '[', LIMIT_JSON_DEPTH + 1);
	memset(text + LIMIT_JSON_DEPTH + 1, ']', LIMIT_JSON_DEPTH + 1);
	ck_assert_ptr_null(json_parse(text, sizeof(text), &err));
	ck_assert_int_eq(err.code, ERR_LIMIT);
	d = json_parse(text + 1, sizeof(text) - 2, &err);
	ck_assert_ptr_nonnull(d);
	json_free(d);
}
END_TEST

START_TEST(bounds_the_number_of_values)
{
	struct error err = { .code = ERR_NONE };
	struct json_doc *d;
	struct buf text;

	buf_init(&text, 4 << 20);
	buf_puts(&text, "[");
	for (long i = 0; i < LIMIT_JSON_TOKENS - 2; i++)
		buf_puts(&text, "{},");
	buf_puts(&text, "0]");
	d = json_parse(text.data, text.len, &err);
	ck_assert_ptr_nonnull(d);
	json_free(d);
	text.len--;
	buf_puts(&text, ",0]");
	ck_assert_ptr_null(json_parse(text.data, text.len, &err));
	ck_assert_int_eq(err.code, ERR_LIMIT);
	buf_free(&text);
}
END_TEST

static const char tree[] =
    "{\"skip\":{\"n\":9,\"m\":[1,2]},\"p\":{\"a\":[5,{\"n\":7},[]]},"
    "\"\\u006eame\":\"x\\ny\",\"e\":{},\"t\":true,\"z\":null}";

START_TEST(walks_a_path_and_checks_once)
{
	struct error err = { .code = ERR_NONE };
	struct json_doc *d = json_parse(tree, strlen(tree), &err);
	struct json root = json_root(d);
	bool yes = false;
	long n;

	ck_assert(json_int(json_get(json_at(json_path(root, "p.a"), 1), "n"),
	    0, 10, &n));
	ck_assert_int_eq(n, 7);
	ck_assert(json_is(json_get(root, "name"), "x\ny"));
	ck_assert(!json_is(json_get(root, "name"), "x\n"));
	ck_assert(!json_is(json_get(root, "name"), "x\nyz"));
	ck_assert(json_bool(json_get(root, "t"), &yes) && yes);
	ck_assert_int_eq(json_type(json_get(root, "z")), JSON_NULL);
	ck_assert_int_eq(json_type(json_path(root, "p.b.c.d")), JSON_NONE);
	ck_assert_int_eq(json_type(json_at(json_get(root, "nope"), 3)),
	    JSON_NONE);
	ck_assert_int_eq(json_type(json_at(json_path(root, "p.a"), 3)),
	    JSON_NONE);
	ck_assert_int_eq(json_type(json_path(root, "skip.n.x")), JSON_NONE);
	ck_assert_int_eq(json_type(json_root(NULL)), JSON_NONE);
	ck_assert_uint_eq(json_count(json_get(root, "name")), 0);
	json_free(d);
}
END_TEST

START_TEST(walks_members_and_elements)
{
	struct error err = { .code = ERR_NONE };
	struct json_doc *d = json_parse(tree, strlen(tree), &err);
	struct json root = json_root(d), m;
	static const char *const keys[] =
	    { "skip", "p", "name", "e", "t", "z" };
	size_t n = 0;

	for (m = json_first(root); json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		ck_assert_uint_lt(n, 6);
		ck_assert(json_is(json_key(m), keys[n++]));
	}
	ck_assert_uint_eq(n, 6);
	ck_assert_uint_eq(json_count(root), 6);
	n = 0;
	for (m = json_first(json_path(root, "p.a")); m.tok >= 0;
	    m = json_next(m)) {
		ck_assert_int_eq(json_type(json_key(m)), JSON_NONE);
		n++;
	}
	ck_assert_uint_eq(n, 3);
	ck_assert_int_eq(json_type(json_first(json_get(root, "e"))),
	    JSON_NONE);
	ck_assert_int_eq(json_type(json_next(root)), JSON_NONE);
	ck_assert_int_eq(json_type(json_next(json_first(root))), JSON_OBJECT);
	json_free(d);
}
END_TEST

static const struct { const char *text; bool good; long value; } ints[] = {
	{ "1", true, 1 }, { "-0", true, 0 }, { "1.0", true, 1 },
	{ "1e2", true, 100 }, { "1.50e1", true, 15 }, { "-2.5E+1", true, -25 },
	{ "1200e-2", true, 12 }, { "0e999999999999", true, 0 },
	{ "0.000", true, 0 }, { "0.0001e4", true, 1 },
	{ "9223372036854775807", true, 9223372036854775807L },
	{ "-9223372036854775808", true, -9223372036854775807L - 1 },
	{ "9223372036854775808", false, 0 }, { "1e19", false, 0 },
	{ "-9223372036854775809", false, 0 }, { "1.5", false, 0 },
	{ "1e-1", false, 0 }, { "12e-2", false, 0 },
	{ "1e999999999999", false, 0 }, { "1e-999999999999", false, 0 },
	{ "\"1\"", false, 0 }, { "true", false, 0 }, { "[1]", false, 0 },
	{ "0.00010e4", true, 1 }, { "0.00011e4", false, 0 },
};

START_TEST(knows_an_integral_number)
{
	struct error err = { .code = ERR_NONE };
	struct json_doc *d = json_parse(ints[_i].text, strlen(ints[_i].text),
	    &err);
	long n = 77;

	ck_assert_int_eq(json_int(json_root(d), -9223372036854775807L - 1,
	    9223372036854775807L, &n), ints[_i].good);
	ck_assert_int_eq(n, ints[_i].good ? ints[_i].value : 77);
	if (ints[_i].good && n < 9223372036854775807L)
		ck_assert(!json_int(json_root(d), n + 1,
		    9223372036854775807L, &n));
	json_free(d);
}
END_TEST

START_TEST(reads_a_double)
{
	static const char text[] = "[0.25, -1e3, 1e400, \"1\", 5e-324]";
	struct error err = { .code = ERR_NONE };
	struct json_doc *d = json_parse(text, strlen(text), &err);
	struct json a = json_root(d);
	double x = 0;

	ck_assert(json_double(json_at(a, 0), &x));
	ck_assert_double_eq(x, 0.25);
	ck_assert(json_double(json_at(a, 1), &x));
	ck_assert_double_eq(x, -1000);
	ck_assert(!json_double(json_at(a, 2), &x));
	ck_assert(!json_double(json_at(a, 3), &x));
	ck_assert(json_double(json_at(a, 4), &x));
	ck_assert(x > 0);
	json_free(d);
}
END_TEST

/* A string as sent, its bytes and how many code points they are. */
static const struct { const char *text; struct bytes want; size_t chars; }
strings[] = {
	{ "\"\"", B(""), 0 }, { "\"abc\"", B("abc"), 3 },
	{ "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", B("\"\\/\b\f\n\r\t"), 8 },
	{ "\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\"",
	    B("A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), 4 },
	{ "\"x\xc3\xa9\xf0\x9f\x98\x80y\"", B("x\xc3\xa9\xf0\x9f\x98\x80y"),
	    4 },
	{ "\"a\\u0000b\"", B("a\0b"), 3 },
	{ "\"\\uD7FF\\uE000\\uFFFF\"", B("\xed\x9f\xbf\xee\x80\x80"
	    "\xef\xbf\xbf"), 3 },
};

START_TEST(unescapes_a_string)
{
	struct error err = { .code = ERR_NONE };
	struct json_doc *d = json_parse(strings[_i].text,
	    strlen(strings[_i].text), &err);
	struct json v = json_root(d);
	struct bytes want = strings[_i].want;
	struct buf out;
	size_t len;

	buf_init(&out, 100);
	ck_assert(json_text(v, &out));
	ck_assert_uint_eq(out.len, want.len);
	ck_assert_mem_eq(out.data, want.p, want.len);
	ck_assert_uint_eq(json_bytes(v), want.len);
	ck_assert_uint_eq(json_chars(v), strings[_i].chars);
	ck_assert_mem_eq(json_raw(v, &len), strings[_i].text,
	    strlen(strings[_i].text));
	ck_assert_uint_eq(len, strlen(strings[_i].text));
	buf_free(&out);
	json_free(d);
}
END_TEST

START_TEST(gives_a_string_in_pieces_of_any_size)
{
	struct error err = { .code = ERR_NONE };
	struct json_doc *d = json_parse(strings[_i].text,
	    strlen(strings[_i].text), &err);
	struct bytes want = strings[_i].want;
	char piece[20];

	for (size_t size = 4; size < sizeof(piece); size++) {
		size_t at = 0, n, got = 0;

		while ((n = json_piece(json_root(d), &at, piece, size)) > 0) {
			ck_assert_uint_le(n, size);
			ck_assert_uint_le(got + n, want.len);
			ck_assert_mem_eq(piece, want.p + got, n);
			got += n;
		}
		ck_assert_uint_eq(got, want.len);
	}
	json_free(d);
}
END_TEST

START_TEST(copies_a_string_that_fits)
{
	static const char text[] =
	    "[\"abc\",\"a\\u0000\",7,\"\\u00e9\",\"\"]";
	struct error err = { .code = ERR_NONE };
	struct json_doc *d = json_parse(text, strlen(text), &err);
	struct json a = json_root(d);
	char dst[4] = "old";

	ck_assert(!json_str(json_at(a, 0), dst, 3));
	ck_assert(!json_str(json_at(a, 1), dst, sizeof(dst)));
	ck_assert(!json_str(json_at(a, 2), dst, sizeof(dst)));
	ck_assert(!json_str(json_at(a, 9), dst, sizeof(dst)));
	ck_assert(!json_str(json_at(a, 4), dst, 0));
	ck_assert_str_eq(dst, "old");
	ck_assert(json_str(json_at(a, 0), dst, 4));
	ck_assert_str_eq(dst, "abc");
	ck_assert(json_str(json_at(a, 3), dst, 3));
	ck_assert_str_eq(dst, "\xc3\xa9");
	ck_assert(json_str(json_at(a, 4), dst, 1));
	ck_assert_str_eq(dst, "");
	json_free(d);
}
END_TEST

START_TEST(gives_the_bytes_as_sent)
{
	static const char text[] = " { \"a\" : [ 1 , \"\\u0061\" ], \"b\":1.0 }";
	struct error err = { .code = ERR_NONE };
	struct json_doc *d = json_parse(text, strlen(text), &err);
	struct json root = json_root(d);
	const char *raw;
	size_t len;

	raw = json_raw(json_get(root, "a"), &len);
	ck_assert_uint_eq(len, 16);
	ck_assert_mem_eq(raw, "[ 1 , \"\\u0061\" ]", len);
	raw = json_raw(json_at(json_get(root, "a"), 1), &len);
	ck_assert_uint_eq(len, 8);
	ck_assert_mem_eq(raw, "\"\\u0061\"", len);
	raw = json_raw(json_get(root, "b"), &len);
	ck_assert_uint_eq(len, 3);
	ck_assert_mem_eq(raw, "1.0", len);
	(void)json_raw(json_get(root, "c"), &len);
	ck_assert_uint_eq(len, 0);
	json_free(d);
}
END_TEST

START_TEST(fails_when_there_is_no_memory)
{
	struct error err = { .code = ERR_NONE };
	struct json_doc *d = NULL;
	double x;
	long n;

	for (n = 0; n < 5 && d == NULL; n++) {
		alloc_left = n;
		d = json_parse(tree, strlen(tree), &err);
		alloc_left = -1;
		ck_assert(d != NULL || err.code == ERR_SYSTEM);
	}
	ck_assert_int_eq(n, 3);
	alloc_left = 0;
	ck_assert(!json_double(json_path(json_root(d), "skip.n"), &x));
	alloc_left = -1;
	json_free(d);
}
END_TEST

static TCase *
reading(void)
{
	TCase *t = tcase_create("reading");

	tcase_add_test(t, walks_a_path_and_checks_once);
	tcase_add_test(t, walks_members_and_elements);
	tcase_add_loop_test(t, knows_an_integral_number, 0, COUNT(ints));
	tcase_add_test(t, reads_a_double);
	tcase_add_loop_test(t, unescapes_a_string, 0, COUNT(strings));
	tcase_add_loop_test(t, gives_a_string_in_pieces_of_any_size, 0,
	    COUNT(strings));
	tcase_add_test(t, copies_a_string_that_fits);
	tcase_add_test(t, gives_the_bytes_as_sent);
	tcase_add_test(t, fails_when_there_is_no_memory);
	return t;
}

int
main(void)
{
	Suite *s = suite_create("json");
	TCase *t = tcase_create("parsing");

	tcase_set_timeout(t, 30);
	tcase_add_loop_test(t, takes_json, 0, COUNT(good));
	tcase_add_loop_test(t, refuses_what_only_looks_like_json, 0,
	    COUNT(bad));
	tcase_add_test(t, refuses_every_text_that_is_cut);
	tcase_add_test(t, says_what_and_at_which_byte);
	tcase_add_loop_test(t, refuses_equal_keys_in_one_object, 0,
	    COUNT(twice));
	tcase_add_test(t, takes_the_last_of_equal_keys_when_lax);
	tcase_add_test(t, finds_equal_keys_among_many);
	tcase_add_test(t, bounds_the_depth);
	tcase_add_test(t, bounds_the_number_of_values);
	suite_add_tcase(s, t);
	suite_add_tcase(s, reading());
	return suite_run(s);
}
