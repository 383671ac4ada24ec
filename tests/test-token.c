/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded results of the original: tests/vectors/cli-mcp-server.json. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base64.h"
#include "../buf.h"
#include "../duration.h"
#include "../error.h"
#include "../json.h"
#include "../token.h"
#include "suite.h"
#include "vectors.h"

static struct json_doc *doc;

static void
load(void)
{
	doc = vectors_load("tests/vectors/cli-mcp-server.json");
}

static void
unload(void)
{
	json_free(doc);
}

/* The bytes of a member in base64. */
static void
bytes(struct json o, const char *name, struct buf *out)
{
	struct base64 b = { .n = 0 };
	struct error err;
	struct buf text;

	buf_init(&text, 1 << 16);
	buf_init(out, 1 << 16);
	ck_assert(json_text(json_get(o, name), &text));
	ck_assert_int_eq(base64_decode(&b, text.data, text.len, out, &err), 0);
	ck_assert_int_eq(base64_decode_end(&b, &err), 0);
	buf_free(&text);
}

START_TEST(session_ids_are_those_of_the_original)
{
	struct json cases = json_path(json_root(doc), "session_id.cases");
	size_t n = 0;

	for (struct json m = json_first(cases); json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		char id[256];
		bool valid;

		ck_assert(json_bool(json_get(m, "valid"), &valid));
		/* What has a NUL inside is no C string. */
		if (!json_str(json_get(m, "id"), id, sizeof(id)))
			ck_assert(!valid);
		else
			ck_assert_msg(token_session_ok(id) == valid, "%s", id);
		n++;
	}
	ck_assert_uint_gt(n, 20);
}
END_TEST

START_TEST(tokens_are_those_of_the_original)
{
	struct json cases = json_path(json_root(doc), "hmac_token.cases");
	size_t n = 0;

	for (struct json m = json_first(cases); json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		char session[256], want[TOKEN_SIZE], got[TOKEN_SIZE];
		struct buf key;

		bytes(m, "key_b64", &key);
		if (!json_str(json_get(m, "session"), session,
		    sizeof(session)) || !json_str(json_get(m, "token"), want,
		    sizeof(want))) {
			buf_free(&key);
			continue;
		}
		ck_assert_int_eq(token_of(key.data != NULL ? key.data : "",
		    key.len, session, got), 0);
		ck_assert_str_eq(got, want);
		buf_free(&key);
		n++;
	}
	ck_assert_uint_gt(n, 7);
}
END_TEST

START_TEST(key_files_are_trimmed_as_the_original_does)
{
	struct json cases = json_path(json_root(doc), "hmac_key_file.cases");
	size_t n = 0;

	for (struct json m = json_first(cases); json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		struct buf file, key;
		const char *at;
		size_t len;

		bytes(m, "file_b64", &file);
		len = token_key(file.data != NULL ? file.data : "", file.len,
		    &at);
		if (json_type(json_get(m, "key_b64")) == JSON_STRING) {
			bytes(m, "key_b64", &key);
			ck_assert_uint_eq(len, key.len);
			ck_assert_mem_eq(at, key.data, len);
			buf_free(&key);
		} else {
			ck_assert_uint_eq(len, 0);
		}
		buf_free(&file);
		n++;
	}
	ck_assert_uint_gt(n, 10);
}
END_TEST

START_TEST(random_tokens_differ)
{
	char a[TOKEN_SIZE], b[TOKEN_SIZE];

	ck_assert_int_eq(token_random(a), 0);
	ck_assert_int_eq(token_random(b), 0);
	ck_assert_uint_eq(strlen(a), 64);
	ck_assert_uint_eq(strspn(a, "0123456789abcdef"), 64);
	ck_assert_str_ne(a, b);
}
END_TEST

static const struct {
	const char *text;
	long ms;		/* -1: refused */
} durations[] = {
	{ "90s", 90000 }, { "1h30m", 5400000 }, { "1.5h", 5400000 },
	{ "30m", 1800000 }, { "0", 0 }, { "1ms", 1 }, { "1s500ms", 1500 },
	{ ".5s", 500 }, { "1.s", 1000 }, { "+5s", 5000 }, { "999us", 0 },
	{ "-5s", -5000 }, { "2\xc2\xb5s", 0 }, { "3", -1 }, { "", -1 },
	{ "s", -1 }, { ".s", -1 }, { "1x", -1 }, { "1 s", -1 }, { " 1s", -1 },
	{ "1s ", -1 }, { "1h-30m", -1 }, { "1e3s", -1 }, { "infs", -1 },
	{ "99999999999999h", -1 }, { "1..5s", -1 }, { "-", -1 }, { "1d", -1 },
	{ "11111111111111111111111111111111111111111111111111s", -1 },
};

START_TEST(durations_are_those_of_go)
{
	long ms = -1;

	if (!duration_ms(durations[_i].text, &ms))
		ms = -1;
	ck_assert_msg(ms == durations[_i].ms, "%s: %ld", durations[_i].text,
	    ms);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("token");
	TCase *t = tcase_create("token");

	suite_add_tcase(s, t);
	tcase_add_checked_fixture(t, load, unload);
	tcase_add_test(t, session_ids_are_those_of_the_original);
	tcase_add_test(t, tokens_are_those_of_the_original);
	tcase_add_test(t, key_files_are_trimmed_as_the_original_does);
	tcase_add_test(t, random_tokens_differ);
	tcase_add_loop_test(t, durations_are_those_of_go, 0,
	    sizeof(durations) / sizeof(durations[0]));
	return suite_run(s);
}
