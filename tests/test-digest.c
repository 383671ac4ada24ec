/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <string.h>

#include "../digest.h"
#include "suite.h"

/* FIPS 180-4's examples, and a million letters. */
static const struct { const char *text; size_t times; const char *hex; }
examples[] = {
	{ "", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852"
	    "b855" },
	{ "abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61"
	    "f20015ad" },
	{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
	    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
	},
	{ "a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d"
	    "39ccc7112cd0" },
};

START_TEST(says_what_the_standard_says)
{
	struct digest d;
	char text[65];

	digest_begin(&d);
	for (size_t i = 0; i < examples[_i].times; i++)
		digest_put(&d, examples[_i].text, strlen(examples[_i].text));
	digest_end(&d, text);
	ck_assert_str_eq(text, examples[_i].hex);
}
END_TEST

/* _i: how many bytes; in pieces of every size. */
START_TEST(is_the_same_in_pieces_and_at_once)
{
	unsigned char data[300];
	char whole[65], pieces[65];
	struct digest d;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i * 7 + (i >> 3));
	digest_hex(data, (size_t)_i, whole);
	for (size_t piece = 1; piece <= 130; piece++) {
		digest_begin(&d);
		for (size_t at = 0; at < (size_t)_i; at += piece)
			digest_put(&d, data + at, (size_t)_i - at < piece ?
			    (size_t)_i - at : piece);
		digest_end(&d, pieces);
		ck_assert_str_eq(pieces, whole);
	}
}
END_TEST

START_TEST(is_the_same_as_bytes)
{
	unsigned char raw[DIGEST_SIZE], sum[DIGEST_SIZE];
	char text[65], part[13];
	struct digest d;

	digest_raw("abc", 3, raw);
	digest_text(raw, sizeof(raw), text);
	ck_assert_str_eq(text, examples[1].hex);
	digest_begin(&d);
	digest_put(&d, "abc", 3);
	digest_sum(&d, sum);
	ck_assert_mem_eq(sum, raw, sizeof(raw));
	digest_text(raw, 6, part);
	ck_assert_str_eq(part, "ba7816bf8f01");
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("digest");
	TCase *t = tcase_create("digest");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, says_what_the_standard_says, 0,
	    (int)(sizeof(examples) / sizeof(examples[0])));
	tcase_add_loop_test(t, is_the_same_in_pieces_and_at_once, 0, 300);
	tcase_add_test(t, is_the_same_as_bytes);
	suite_add_tcase(s, t);
	return suite_run(s);
}
