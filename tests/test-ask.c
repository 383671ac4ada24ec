/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "../ask.h"
#include "../budget.h"
#include "../env.h"
#include "../error.h"
#include "../json.h"
#include "../k8s.h"
#include "../kubeconfig.h"
#include "../loop.h"
#include "../web.h"
#include "server.h"
#include "suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define SAY(status, body) "HTTP/1.1 " status " So\r\n" \
	"Connection: close\r\n\r\n" body
#define PAGE(next, items) SAY("200", "{\"metadata\":{\"continue\":\"" next \
	"\"},\"items\":[" items "]}")
#define EXPIRED(meta) SAY("410", "{\"kind\":\"Status\",\"metadata\":{" meta \
	"},\"message\":\"too old\",\"reason\":\"Expired\",\"code\":410}")
#define LIST "/api/v1/namespaces/x/pods?limit=2"

static struct env env;
static struct server server;
static struct error err;
static struct kubeconfig kc;
static char seen[256];

static void
setup(void)
{
	env = (struct env){ .loop = loop_open(&err) };
	env.web = web_open(env.loop, &err);
	ck_assert_ptr_nonnull(env.web);
	seen[0] = '\0';
	err = (struct error){ .code = ERR_NONE };
}

static void
teardown(void)
{
	k8s_close(env.k8s);
	server_close(&server);
	web_close(env.web);
	loop_close(env.loop);
}

static void
serve(const struct answer *script, size_t count)
{
	server_open(&server, env.loop, script, count);
	env.k8s = server_k8s(&server, env.web, &kc);
}

/* Its argument, if it has one, is the item that is not wanted. */
static int
on_page(void *arg, struct json items, struct error *why)
{
	char one[32];

	for (struct json m = json_first(items); json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		ck_assert(json_str(m, one, sizeof(one)));
		if (arg != NULL && strcmp(one, arg) == 0)
			return error_set(why, ERR_INPUT, "no %s", one);
		strcat(seen, one);
	}
	return 0;
}

START_TEST(a_list_is_all_of_its_pages)
{
	static const struct answer script[] = {
	    { PAGE("n=1&", "\"a\",\"b\""), .close = true },
	    { PAGE("2", ""), .close = true },	/* may be, says Kubernetes */
	    { PAGE("", "\"c\""), .close = true } };

	serve(script, COUNT(script));
	ck_assert_int_eq(ask_list(&env, LIST, on_page, NULL, &err), 0);
	ck_assert_str_eq(seen, "abc");
	ck_assert_str_eq(server.log, "GET " LIST "\n"
	    "GET " LIST "&continue=n%3D1%26\n" "GET " LIST "&continue=2\n");
}
END_TEST

START_TEST(a_list_that_grew_too_old_goes_on)
{
	static const struct answer script[] = {
	    { PAGE("1", "\"a\""), .close = true },
	    { EXPIRED("\"continue\":\"other\""), .close = true },
	    { PAGE("", "\"b\""), .close = true } };

	serve(script, COUNT(script));
	ck_assert_int_eq(ask_list(&env, LIST, on_page, NULL, &err), 0);
	ck_assert_str_eq(seen, "ab");
	ck_assert_ptr_nonnull(strstr(server.log, "&continue=other\n"));
}
END_TEST

/* _i: which. The server offers nothing, no list was begun, or no JSON. */
START_TEST(what_cannot_go_on_is_an_error)
{
	static const struct answer scripts[][2] = {
	    { { PAGE("1", "\"a\""), .close = true },
	      { EXPIRED(""), .close = true } },
	    { { EXPIRED("\"continue\":\"other\""), .close = true } },
	    { { PAGE("1", "\"a\""), .close = true },
	      { SAY("410", "so long"), .close = true } } };

	serve(scripts[_i], 2);
	ck_assert_int_eq(ask_list(&env, LIST, on_page, NULL, &err), -1);
	ck_assert_int_eq(err.code, ERR_GONE);
	ck_assert_uint_eq(server.at, _i == 1 ? 1 : 2);
}
END_TEST

START_TEST(a_list_without_an_end_is_given_up)
{
	struct answer script[LIMIT_PAGES + 1];

	for (size_t i = 0; i < COUNT(script); i++)
		script[i] = (struct answer){ PAGE("more", "\"a\""),
		    .close = true };
	serve(script, COUNT(script));
	ck_assert_int_eq(ask_list(&env, LIST, on_page, NULL, &err), -1);
	ck_assert_int_eq(err.code, ERR_LIMIT);
	ck_assert_uint_eq(server.at, LIMIT_PAGES);
	ck_assert_uint_eq(strlen(seen), LIMIT_PAGES);
}
END_TEST

START_TEST(who_reads_a_page_may_end_the_list)
{
	static const struct answer script[] = {
	    { PAGE("1", "\"a\",\"b\",\"c\""), .close = true } };
	char unwanted[] = "b";

	serve(script, COUNT(script));
	ck_assert_int_eq(ask_list(&env, LIST, on_page, unwanted, &err), -1);
	ck_assert_str_eq(err.text, "no b");
	ck_assert_str_eq(seen, "a");
	ck_assert_uint_eq(server.at, 1);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("ask");
	TCase *t = tcase_create("ask");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_list_is_all_of_its_pages);
	tcase_add_test(t, a_list_that_grew_too_old_goes_on);
	tcase_add_loop_test(t, what_cannot_go_on_is_an_error, 0, 3);
	tcase_add_test(t, a_list_without_an_end_is_given_up);
	tcase_add_test(t, who_reads_a_page_may_end_the_list);
	suite_add_tcase(s, t);
	return suite_run(s);
}
