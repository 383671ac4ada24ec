/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../buf.h"
#include "../error.h"
#include "../json.h"
#include "../path.h"
#include "suite.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* agent-sandbox 2.7; NULL: it leaves the folder it begins in. */
static const struct { const char *given, *normal; } rows[] = {
	{ "a", "a" }, { "./a", "a" }, { "a/", "a" }, { "a//b", "a/b" },
	{ "a/./b", "a/b" }, { "a/b/..", "a" }, { "a/..", "." },
	{ "a/../b", "b" }, { "a/b/../../c", "c" }, { ".", "." }, { "./", "." },
	{ "/", "/" }, { "/a", "/a" }, { "//a//", "/a" }, { "/..", "/" },
	{ "/../a", "/a" }, { "/a/../..", "/" }, { "..", NULL },
	{ "../a", NULL }, { "a/../..", NULL }, { "a/../../b", NULL },
	{ "...", "..." }, { "..a", "..a" }, { "a..", "a.." },
	{ " a ", " a " }, { "-rf", "-rf" }, { "a\n/b", "a\n/b" },
	{ "%2e%2e/x", "%2e%2e/x" }, { "\xc3\xbc", "\xc3\xbc" },
};

START_TEST(a_path_has_one_normal_form)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "%s", rows[_i].given);
	if (rows[_i].normal == NULL) {
		ck_assert_int_eq(path_clean(path), -1);
		return;
	}
	ck_assert_int_eq(path_clean(path), 0);
	ck_assert_str_eq(path, rows[_i].normal);
	ck_assert_int_eq(path_clean(path), 0);
	ck_assert_str_eq(path, rows[_i].normal);
}
END_TEST

static const struct { const char *path, *once, *twice; } urls[] = {
	{ "a", "a", "a" }, { "a/b", "a%2Fb", "a%2Fb" },
	{ ".", "%2E", "%2E" }, { "a.b", "a.b", "a.b" },
	{ "%", "%25", "%2525" }, { "%20", "%2520", "%252520" },
	{ " \n?#+&", "%20%0A%3F%23%2B%26", "%20%0A%3F%23%2B%26" },
	{ "\xe2\x82\xac", "%E2%82%AC", "%E2%82%AC" },
	{ "-_~", "-_~", "-_~" },
};

START_TEST(a_url_has_every_byte_but_what_is_plain_encoded)
{
	struct buf b;

	buf_init(&b, 1024);
	path_escape(&b, urls[_i].path, false);
	ck_assert_str_eq(b.data, urls[_i].once);
	buf_reset(&b, 1024);
	path_escape(&b, urls[_i].path, true);
	ck_assert_str_eq(b.data, urls[_i].twice);
	buf_free(&b);
}
END_TEST

static int
from_json(const char *text, char dst[PATH_SIZE], struct error *err)
{
	struct json_doc *doc = json_parse(text, strlen(text), err);
	int r = path_read("path", json_root(doc), dst, err);

	ck_assert_ptr_nonnull(doc);
	json_free(doc);
	return r;
}

START_TEST(what_no_file_can_have_for_a_name_is_refused)
{
	struct error err = { ERR_NONE, "" };
	char dst[PATH_SIZE], *big = malloc(PATH_SIZE + 16);

	ck_assert_int_eq(from_json("\"\"", dst, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "empty"));
	ck_assert_int_eq(from_json("\"a\\u0000b\"", dst, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "NUL"));
	ck_assert_int_eq(from_json("\"../x\"", dst, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "escapes"));
	memset(big, 'x', PATH_SIZE + 3);
	big[0] = big[LIMIT_PATH + 1] = '"';
	big[LIMIT_PATH + 2] = '\0';
	ck_assert_int_eq(from_json(big, dst, &err), 0);
	ck_assert_uint_eq(strlen(dst), LIMIT_PATH);
	big[LIMIT_PATH + 1] = 'x';
	big[LIMIT_PATH + 2] = '"';
	big[LIMIT_PATH + 3] = '\0';
	ck_assert_int_eq(from_json(big, dst, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "longer than"));
	ck_assert_int_eq(err.code, ERR_INPUT);
	free(big);
}
END_TEST

START_TEST(only_the_two_roots_are_roots)
{
	ck_assert(path_is_root(".") && path_is_root("/"));
	ck_assert(!path_is_root("a") && !path_is_root("/a"));
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("path");
	TCase *t = tcase_create("path");

	suite_add_tcase(s, t);
	tcase_add_loop_test(t, a_path_has_one_normal_form, 0, COUNT(rows));
	tcase_add_loop_test(t, a_url_has_every_byte_but_what_is_plain_encoded,
	    0, COUNT(urls));
	tcase_add_test(t, what_no_file_can_have_for_a_name_is_refused);
	tcase_add_test(t, only_the_two_roots_are_roots);
	return suite_run(s);
}
