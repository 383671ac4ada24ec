/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../digest.h"

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

	for (int slow = 0; slow < 2; slow++) {
		digest_begin(&d);
		if (slow)
			digest_slow(&d);
		for (size_t i = 0; i < examples[_i].times; i++)
			digest_put(&d, examples[_i].text,
			    strlen(examples[_i].text));
		digest_end(&d, text);
		ck_assert_str_eq(text, examples[_i].hex);
	}
}
END_TEST

/* _i: how many bytes; in pieces of every size. */
START_TEST(is_the_same_with_and_without_instructions)
{
	unsigned char data[300];
	char fast[65], slow[65];
	struct digest d;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i * 7 + (i >> 3));
	digest_begin(&d);
	digest_slow(&d);
	digest_put(&d, data, (size_t)_i);
	digest_end(&d, slow);
	for (size_t piece = 1; piece <= 130; piece++) {
		digest_begin(&d);
		for (size_t at = 0; at < (size_t)_i; at += piece)
			digest_put(&d, data + at, (size_t)_i - at < piece ?
			    (size_t)_i - at : piece);
		digest_end(&d, fast);
		ck_assert_str_eq(fast, slow);
	}
	digest_hex(data, (size_t)_i, fast);
	ck_assert_str_eq(fast, slow);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("digest");
	TCase *t = tcase_create("digest");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, says_what_the_standard_says, 0,
	    (int)(sizeof(examples) / sizeof(examples[0])));
	tcase_add_loop_test(t, is_the_same_with_and_without_instructions, 0,
	    300);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
