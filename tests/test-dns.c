/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../buf.h"
#include "../dns.h"
#include "suite.h"

#define HEAD(flags, answers) "\x12\x34" flags "\0\1\0" answers "\0\0\0\0"
#define NAME	"\4a-b1\3svc\0"
#define ASKED	NAME "\0\1\0\1"
#define A(four)	"\xc0\x0c\0\1\0\1\0\0\0\5\0\4" four
#define ALIAS	"\xc0\x0c\0\5\0\1\0\0\0\5\0\4\1x\xc0\x0c"

START_TEST(a_question_is_written_as_the_rfc_says)
{
	static const char want[] = "\x12\x34\1\0\0\1\0\0\0\0\0\0" ASKED;
	struct buf b;

	buf_init(&b, DNS_MAX);
	dns_query(&b, 0x1234, "a-b1.svc", DNS_A);
	ck_assert_uint_eq(b.len, sizeof(want) - 1);
	ck_assert_mem_eq(b.data, want, b.len);
	buf_free(&b);
}
END_TEST

#define ROW(text, n, first) { text, sizeof(text) - 1, n, first }

static const struct {
	const char *text;
	size_t len;
	int n;
	const char *first;
} answers[] = {
	ROW(HEAD("\x81\x80", "\1") ASKED A("\x0a\1\2\3"), 1, "10.1.2.3"),
	ROW(HEAD("\x81\x80", "\2") ASKED ALIAS A("\x0a\1\2\3"), 1,
	    "10.1.2.3"),
	ROW(HEAD("\x81\x80", "\2") ASKED A("\x0a\1\2\3") A("\x0a\1\2\4"), 2,
	    "10.1.2.3"),
	ROW(HEAD("\x81\x80", "\2") "\4A-B1\3SVC\0\0\1\0\1" A("\x0a\1\2\3"), 1,
	    "10.1.2.3"),
	/* cut, or more promised than there is: what came is used */
	ROW(HEAD("\x83\x80", "\2") ASKED A("\x0a\1\2\3") "\xc0", 1,
	    "10.1.2.3"),
	ROW(HEAD("\x81\x80", "\0") ASKED, 0, ""),
	ROW(HEAD("\x81\x80", "\1") ASKED ALIAS, 0, ""),
	ROW(HEAD("\x81\x80", "\1") ASKED
	    "\xc0\x0c\0\1\0\1\0\0\0\5\0\3\1\2\3", 0, ""),
	ROW(HEAD("\x81\x83", "\0") ASKED, -2, ""),
	ROW(HEAD("\x81\x82", "\0") ASKED, -3, ""),
	ROW(HEAD("\x81\x85", "\0") ASKED, -3, ""),
	/* another id, a question, another name, type, class */
	ROW("\x12\x35\x81\x80\0\1\0\1\0\0\0\0" ASKED A("\x0a\1\2\3"), -1, ""),
	ROW(HEAD("\1\0", "\1") ASKED A("\x0a\1\2\3"), -1, ""),
	ROW(HEAD("\x81\x80", "\1") "\4a-b2\3svc\0\0\1\0\1" A("\x0a\1\2\3"),
	    -1, ""),
	ROW(HEAD("\x81\x80", "\1") NAME "\0\x1c\0\1" A("\x0a\1\2\3"), -1, ""),
	ROW(HEAD("\x81\x80", "\1") NAME "\0\1\0\3" A("\x0a\1\2\3"), -1, ""),
	ROW(HEAD("\x81\x80", "\1") "\xc0\x0c\0\1\0\1", -1, ""),
	ROW("\x12\x34\x81\x80\0\2\0\1\0\0\0\0" ASKED, -1, ""),
	ROW("", -1, ""),
	ROW("\x12\x34", -1, ""),
};

START_TEST(only_the_answer_to_the_question_counts)
{
	char found[DNS_FOUND][ADDRESS_SIZE] = { "" };
	unsigned char *copy = malloc(answers[_i].len + 1);

	/* Exactly as long, for the checkers. */
	ck_assert_ptr_nonnull(copy);
	memcpy(copy, answers[_i].text, answers[_i].len);
	copy = realloc(copy, answers[_i].len > 0 ? answers[_i].len : 1);
	ck_assert_int_eq(dns_answer(copy, answers[_i].len, 0x1234, "a-b1.svc",
	    DNS_A, found), answers[_i].n);
	ck_assert_str_eq(found[0], answers[_i].first);
	free(copy);
}
END_TEST

START_TEST(an_answer_may_be_ipv6)
{
	static const char text[] = HEAD("\x81\x80", "\1") NAME "\0\x1c\0\1"
	    "\xc0\x0c\0\x1c\0\1\0\0\0\5\0\x10"
	    "\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\7";
	char found[DNS_FOUND][ADDRESS_SIZE];

	ck_assert_int_eq(dns_answer((const unsigned char *)text,
	    sizeof(text) - 1, 0x1234, "a-b1.svc", DNS_AAAA, found), 1);
	ck_assert_str_eq(found[0], "fd00::7");
}
END_TEST

START_TEST(more_addresses_than_are_kept_do_no_harm)
{
	static const char head[] = HEAD("\x81\x80", "\x40") ASKED;
	static const char one[] = A("\x0a\1\2\3");
	char found[DNS_FOUND][ADDRESS_SIZE];
	struct buf b;

	buf_init(&b, 4096);
	buf_put(&b, head, sizeof(head) - 1);
	for (int i = 0; i < 64; i++)
		buf_put(&b, one, sizeof(one) - 1);
	ck_assert_int_eq(dns_answer((unsigned char *)b.data, b.len, 0x1234,
	    "a-b1.svc", DNS_A, found), DNS_FOUND);
	buf_free(&b);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("dns");
	TCase *t = tcase_create("dns");

	suite_add_tcase(s, t);
	tcase_add_test(t, a_question_is_written_as_the_rfc_says);
	tcase_add_loop_test(t, only_the_answer_to_the_question_counts, 0,
	    sizeof(answers) / sizeof(answers[0]));
	tcase_add_test(t, an_answer_may_be_ipv6);
	tcase_add_test(t, more_addresses_than_are_kept_do_no_harm);
	return suite_run(s);
}
