/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <string.h>

#include "../base64.h"
#include "../buf.h"
#include "../error.h"
#include "suite.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* RFC 4648, 10, and one with both odd characters. */
static const struct { const char *data; size_t len; const char *text; } both[] =
{
	{ "", 0, "" }, { "f", 1, "Zg==" }, { "fo", 2, "Zm8=" },
	{ "foo", 3, "Zm9v" }, { "foob", 4, "Zm9vYg==" },
	{ "fooba", 5, "Zm9vYmE=" }, { "foobar", 6, "Zm9vYmFy" },
	{ "\xfb\xff\0", 3, "+/8A" },
};

static void
encode(const char *data, size_t len, size_t piece, struct buf *out)
{
	struct base64 b = { .n = 0 };

	for (size_t at = 0; at < len; at += piece)
		base64_encode(&b, data + at,
		    len - at < piece ? len - at : piece, out);
	base64_encode_end(&b, out);
}

static int
decode(const char *text, size_t len, size_t piece, struct buf *out,
    struct error *err)
{
	struct base64 b = { .n = 0 };

	for (size_t at = 0; at < len; at += piece)
		if (base64_decode(&b, text + at,
		    len - at < piece ? len - at : piece, out, err) == -1)
			return -1;
	return base64_decode_end(&b, err);
}

START_TEST(goes_both_ways_in_pieces_of_any_size)
{
	for (size_t piece = 1; piece < 9; piece++) {
		struct error err = { .code = ERR_NONE };
		struct buf out;

		buf_init(&out, 100);
		buf_puts(&out, "");
		encode(both[_i].data, both[_i].len, piece, &out);
		ck_assert_str_eq(out.data, both[_i].text);
		buf_reset(&out, 1000);
		ck_assert_int_eq(decode(both[_i].text, strlen(both[_i].text),
		    piece, &out, &err), 0);
		ck_assert_uint_eq(out.len, both[_i].len);
		ck_assert_mem_eq(out.data, both[_i].data, out.len);
		buf_free(&out);
	}
}
END_TEST

START_TEST(carries_a_large_file)
{
	struct error err = { .code = ERR_NONE };
	static char data[100001];
	struct buf text, back;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 7 >> 3 ^ i);
	for (size_t piece = 997; piece < 200000; piece *= 17) {
		buf_init(&text, 200000);
		buf_init(&back, 200000);
		encode(data, sizeof(data), piece, &text);
		ck_assert_uint_eq(text.len, 133336);
		ck_assert_int_eq(decode(text.data, text.len, piece, &back,
		    &err), 0);
		ck_assert_uint_eq(back.len, sizeof(data));
		ck_assert_mem_eq(back.data, data, sizeof(data));
		buf_free(&text);
		buf_free(&back);
	}
}
END_TEST

/* The wide ways against the narrow ones: of each byte, at each place. */
START_TEST(knows_every_byte_at_every_place)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "abcdefghijklmnopqrstuvwxyz0123456789+/";
	struct error err = { .code = ERR_NONE };
	struct buf all, one;
	char text[64];
	int r;

	buf_init(&all, 64);
	buf_init(&one, 64);
	for (int c = 0; c < 256; c++) {
		memcpy(text, letters, sizeof(text));
		text[_i] = (char)c;
		buf_reset(&all, 64);
		buf_reset(&one, 64);
		r = decode(text, sizeof(text), sizeof(text), &all, &err);
		ck_assert_int_eq(r, decode(text, sizeof(text), 1, &one, &err));
		ck_assert_int_eq(r, c != 0 && strchr(letters, c) != NULL ?
		    0 : -1);
		if (r == -1)
			continue;
		ck_assert_uint_eq(all.len, 48);
		ck_assert_mem_eq(all.data, one.data, 48);
		buf_reset(&one, 64);
		encode(all.data, 48, 48, &one);
		ck_assert_uint_eq(one.len, 64);
		ck_assert_mem_eq(one.data, text, 64);
	}
	buf_free(&all);
	buf_free(&one);
}
END_TEST

START_TEST(skips_white_space)
{
	struct error err = { .code = ERR_NONE };
	struct buf out;

	buf_init(&out, 100);
	ck_assert_int_eq(decode(" Zm\r\n9v\tYg =\n= \n", 16, 1, &out, &err),
	    0);
	ck_assert_str_eq(out.data, "foob");
	buf_free(&out);
}
END_TEST

static const struct { const char *text; size_t len; } bad[] = {
	{ "Z", 1 }, { "Zg", 2 }, { "Zg=", 3 }, { "Zm9", 3 }, { "Zm9vY", 5 },
	{ "====", 4 }, { "Z===", 4 }, { "Zg=v", 4 }, { "Zh==", 4 },
	{ "Zm9=", 4 }, { "Zg==Zg==", 8 }, { "Zg===", 5 }, { "Zm-v", 4 },
	{ "Zm_v", 4 }, { "Zm9v\0", 5 }, { "Zm9v\v", 5 }, { "Zm9\xc3", 4 },
	{ "\xff\xff\xff\xff", 4 },
};

START_TEST(refuses_what_is_not_quite_base64)
{
	for (size_t piece = 1; piece <= bad[_i].len; piece++) {
		struct error err = { .code = ERR_NONE };
		struct buf out;

		buf_init(&out, 100);
		ck_assert_int_eq(decode(bad[_i].text, bad[_i].len, piece,
		    &out, &err), -1);
		ck_assert_int_eq(err.code, ERR_INPUT);
		buf_free(&out);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("base64");
	TCase *t = tcase_create("base64");

	tcase_add_loop_test(t, goes_both_ways_in_pieces_of_any_size, 0,
	    COUNT(both));
	tcase_add_test(t, carries_a_large_file);
	tcase_add_loop_test(t, knows_every_byte_at_every_place, 0, 64);
	tcase_add_test(t, skips_white_space);
	tcase_add_loop_test(t, refuses_what_is_not_quite_base64, 0,
	    COUNT(bad));
	suite_add_tcase(s, t);
	return suite_run(s);
}
