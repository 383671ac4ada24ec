/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../buf.h"
#include "../error.h"
#include "../legacy.h"
#include "suite.h"

static const struct {
	const char *word, *quoted;
} words[] = {
	{ "", "''" }, { "a b", "'a b'" }, { "'", "''\"'\"''" },
	{ "it's", "'it'\"'\"'s'" }, { "$x `y` \\ \"z\"",
	    "'$x `y` \\ \"z\"'" }, { "\n\xc3\xbc", "'\n\xc3\xbc'" },
};

START_TEST(a_word_is_quoted_for_any_shell)
{
	struct buf b;

	buf_init(&b, 100);
	legacy_quote(&b, words[_i].word);
	ck_assert_str_eq(b.data, words[_i].quoted);
	buf_free(&b);
}
END_TEST

START_TEST(a_body_is_the_words_or_the_text_itself)
{
	const char *const argv[] = { "sh", "-c", "a\"\n", NULL };
	struct buf b;

	buf_init(&b, 100);
	legacy_body(&b, argv, false);
	ck_assert_str_eq(b.data,
	    "{\"command\":\"'sh' '-c' 'a\\\"\\n'\"}");
	buf_reset(&b, 100);
	legacy_body(&b, argv + 1, false);
	buf_reset(&b, 100);
	legacy_body(&b, (const char *const[]){ "ls -l '", NULL }, true);
	ck_assert_str_eq(b.data, "{\"command\":\"ls -l '\"}");
	buf_free(&b);
}
END_TEST

START_TEST(input_becomes_pieces_of_whole_characters)
{
	static const char bytes[] = "a\\\0\xe2\x82\xac" "b";
	struct buf b;

	buf_init(&b, 100);
	ck_assert_uint_eq(legacy_piece(&b, bytes, 7, 99), 7);
	ck_assert_str_eq(b.data, "a\\\\\\0000\xe2\x82\xac" "b");
	for (size_t max = 4; max < 20; max++) {
		size_t took;

		buf_reset(&b, 100);
		took = legacy_piece(&b, bytes, 7, max);
		ck_assert_uint_le(b.len, max);
		ck_assert(took <= 3 || took >= 6);
	}
	buf_free(&b);
}
END_TEST

#define M	"0123456789abcdef0123456789abcdef"
#define FAILED	"{\"stdout\":\"\",\"exit_code\":1,\"stderr\":\"Failed to " \
	"execute command: "

/* The answer to a marked command, or (mark NULL) an unmarked one. */
static const struct {
	const char *mark, *json, *out, *err;
	long code;
	enum error_code fault;
} answers[] = {
	{ M, "{\"stdout\":\"" M " cat\\nhi\\n\",\"stderr\":\"" M " cat\\ne\","
	    "\"exit_code\":0}", "hi\n", "e", 0, ERR_NONE },
	{ M, " { \"exit_code\" : 7 , \"stderr\" : \"" M " base64\\nZQ==\\n\" , "
	    "\"stdout\" : \"" M " base64\\naG\\nkK\\n\" } ", "hi\n", "e", 7,
	    ERR_NONE },
	{ M, "{\"stdout\":\"" M " base64\\n\",\"stderr\":\"" M " base64\\n\","
	    "\"exit_code\":-9,\"x\":[{\"a\":\"}]\\\"\"}],\"y\":null}", "", "",
	    137, ERR_NONE },
	{ M, "{\"stdout\":\"" M " cat\\n\",\"exit_code\":255.0}", "", "", 255,
	    ERR_NONE },
	{ M, "{\"stdout\":\"" M " cat\\n\"}", "", "", -1, ERR_NONE },
	{ NULL, "{\"stdout\":\"\\u00e4\\ud83d\\ude00\\ud83dx\\u0000\\/\","
	    "\"stderr\":\"\",\"exit_code\":0}",
	    "\xc3\xa4\xf0\x9f\x98\x80\xef\xbf\xbdx", "", 0, ERR_NONE },
	{ NULL, "{}", "", "", -1, ERR_NONE },
	{ M, "{\"stdout\":\"" M " base64\\n*\",\"exit_code\":0}", "", "", 0,
	    ERR_CLUSTER },
	{ M, "{\"stdout\":\"other\",\"exit_code\":0}", "", "", 0,
	    ERR_CLUSTER },
	{ M, FAILED "Command '['sh']' timed out after 300.0 seconds\"}", "",
	    "", 0, ERR_TIMEOUT },
	{ M, FAILED "'utf-8' codec can't decode byte 0xff\"}", "", "", 0,
	    ERR_CLUSTER },
	{ M, FAILED "[Errno 7] Argument list too long\"}", "", "", 0,
	    ERR_LIMIT },
	{ M, "{\"stdout\":\"" M " cat\\nhalf", "", "", 0, ERR_LOST },
	{ M, "", "", "", 0, ERR_LOST },
};

struct seen {
	char text[2][256];
};

static void
see(void *arg, const struct event *ev)
{
	struct seen *s = arg;
	char *to = s->text[ev->channel - 1];

	ck_assert_int_eq(ev->type, EVENT_DATA);
	ck_assert_uint_gt(ev->len, 0);
	(void)snprintf(to + strlen(to), 128, "%.*s", (int)ev->len, ev->data);
}

START_TEST(an_answer_is_read_in_pieces_of_any_size)
{
	const char *json = answers[_i].json;
	size_t len = strlen(json);

	for (size_t size = 1; size < len + 2; size += size < 4 ? 1 : 17) {
		struct error err = { ERR_NONE, "" };
		struct legacy_answer a;
		struct seen seen = { { "", "" } };
		long code = 0;

		legacy_answer_init(&a, answers[_i].mark, see, &seen);
		for (size_t at = 0; at < len; at += size)
			ck_assert_int_eq(legacy_answer_feed(&a, json + at,
			    len - at < size ? len - at : size), 0);
		ck_assert_int_eq(legacy_answer_end(&a, &code, &err),
		    answers[_i].fault == ERR_NONE ? 0 : -1);
		ck_assert_msg(err.code == answers[_i].fault, "%s", err.text);
		if (err.code == ERR_NONE) {
			ck_assert_str_eq(seen.text[0], answers[_i].out);
			ck_assert_str_eq(seen.text[1], answers[_i].err);
			ck_assert_int_eq(code, answers[_i].code);
		}
		legacy_answer_free(&a);
	}
}
END_TEST

static const char *const others[] = {
	"<html>", "[]", "{a:1}", "{\"a\" 1}", "{\"a\":\"\\x\"}",
	"{\"a\":\"\\u12g4\"}", "{\"a\":1 2}", "{}x",
};

START_TEST(what_is_no_answer_is_refused)
{
	struct legacy_answer a;
	struct seen seen;

	legacy_answer_init(&a, M, see, &seen);
	ck_assert_int_eq(legacy_answer_feed(&a, others[_i],
	    strlen(others[_i])), -1);
	legacy_answer_free(&a);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("legacy");
	TCase *t = tcase_create("legacy");

	suite_add_tcase(s, t);
	tcase_add_loop_test(t, a_word_is_quoted_for_any_shell, 0,
	    sizeof(words) / sizeof(words[0]));
	tcase_add_test(t, a_body_is_the_words_or_the_text_itself);
	tcase_add_test(t, input_becomes_pieces_of_whole_characters);
	tcase_add_loop_test(t, an_answer_is_read_in_pieces_of_any_size, 0,
	    sizeof(answers) / sizeof(answers[0]));
	tcase_add_loop_test(t, what_is_no_answer_is_refused, 0,
	    sizeof(others) / sizeof(others[0]));
	return suite_run(s);
}
