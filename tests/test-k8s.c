/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../buf.h"
#include "../error.h"
#include "../k8s.h"
#include "../k8sfail.h"
#include "../kubeconfig.h"
#include "../budget.h"
#include "../loop.h"
#include "../web.h"
#include "server.h"
#include "suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define OK(body, n) "HTTP/1.1 200 OK\r\nContent-Length: " n "\r\n\r\n" body
#define NO(status) "HTTP/1.1 " status " No\r\nContent-Length: 0\r\n\r\n"
#define SAY(status, body) "HTTP/1.1 " status " No\r\n" \
	"Connection: close\r\n\r\n" body

static struct loop *loop;
static struct web *web;
static struct k8s *k;
static struct server server;
static struct error err;
static struct kubeconfig kc;
static char path[] = "/api/v1/namespaces/x/pods";

static struct {
	struct k8s_op *op;
	int replies, pieces;
	long status;
	char body[4096], text[768], reason[64];
	size_t len;
	enum error_code code;
	bool cancel;
} got;

static void
setup(void)
{
	memset(&got, 0, sizeof(got));
	loop = loop_open(&err);
	web = web_open(loop, &err);
	ck_assert_ptr_nonnull(web);
}

static void
teardown(void)
{
	k8s_close(k);
	k = NULL;
	server_close(&server);
	web_close(web);
	loop_close(loop);
}

static void
serve(const struct answer *script, size_t count)
{
	server_open(&server, loop, script, count);
	k = server_k8s(&server, web, &kc);
}

static void
on_event(void *arg, const struct event *ev)
{
	(void)arg;
	got.status = ev->status;
	ck_assert_uint_lt(got.len + ev->len, sizeof(got.body));
	memcpy(got.body + got.len, ev->data, ev->len);
	got.len += ev->len;
	got.body[got.len] = '\0';
	if (ev->type == EVENT_DATA) {
		got.pieces++;
		if (got.cancel)
			k8s_cancel(got.op);
		return;
	}
	got.replies++;
	(void)snprintf(got.reason, sizeof(got.reason), "%s", ev->reason);
	if (ev->err != NULL) {
		got.code = ev->err->code;
		(void)snprintf(got.text, sizeof(got.text), "%s",
		    ev->err->text);
	}
}

static void
turn(long ms)
{
	ck_assert_int_eq(loop_turn(loop, ms, &err), 0);
}

static void
finish(void)
{
	ck_assert_int_eq(got.replies, 0);
	while (got.replies == 0)
		turn(5000);
}

static void
request(const char *method, const char *body)
{
	memset(&got, 0, sizeof(got));
	got.op = k8s_send(k, method, path, body, 0, on_event, NULL);
	ck_assert_ptr_nonnull(got.op);
	finish();
}

/* --- trying again ------------------------------------------------------ */

static const struct {
	const char *method;
	const char *first;	/* answer; the second is 200 */
	int sent;
	enum error_code code;
} retries[] = {
	{ "GET", NULL, 2, ERR_NONE },
	{ "GET", NO("429"), 2, ERR_NONE },
	{ "GET", NO("500"), 2, ERR_NONE },
	{ "GET", NO("502"), 2, ERR_NONE },
	{ "GET", NO("503"), 2, ERR_NONE },
	{ "GET", NO("504"), 2, ERR_NONE },
	{ "GET", NO("404"), 1, ERR_GONE },
	{ "GET", NO("409"), 1, ERR_CONFLICT },
	{ "POST", NULL, 1, ERR_LOST },
	{ "PATCH", NULL, 1, ERR_LOST },
	{ "DELETE", NULL, 1, ERR_LOST },
	{ "POST", NO("500"), 1, ERR_CLUSTER },
	{ "POST", NO("503"), 1, ERR_BUSY },
	{ "DELETE", NO("504"), 1, ERR_CLUSTER },
	{ "POST", NO("429"), 2, ERR_NONE },
	{ "PATCH", NO("429"), 2, ERR_NONE },
	{ "POST", SAY("409", "{\"kind\":\"Status\",\"message\":\"busy\","
	    "\"details\":{\"kind\":\"resourcequotas\"}}"), 2, ERR_NONE },
	{ "POST", SAY("409", "{\"kind\":\"Status\",\"message\":\"exists\","
	    "\"reason\":\"AlreadyExists\",\"details\":{\"kind\":\"pods\"}}"),
	    1, ERR_CONFLICT },
};

START_TEST(only_what_does_no_harm_is_tried_again)
{
	struct answer script[2] = { { .bytes = retries[_i].first },
	    { .bytes = OK("{}", "2") } };
	bool body = strcmp(retries[_i].method, "GET") != 0 &&
	    strcmp(retries[_i].method, "DELETE") != 0;

	if (script[0].bytes != NULL && strstr(script[0].bytes, "close"))
		script[0].close = true;
	serve(script, 2);
	request(retries[_i].method, body ? "{}" : NULL);
	ck_assert_int_eq(got.code, retries[_i].code);
	ck_assert_int_eq(server_count(&server, retries[_i].method),
	    retries[_i].sent);
}
END_TEST

/* The connection was kept after a GET and ends upon the next request. */
START_TEST(a_post_on_a_kept_connection_is_sent_once)
{
	static const struct answer script[] = { { OK("{}", "2") }, { NULL },
	    { OK("{}", "2") } };

	serve(script, COUNT(script));
	request("GET", NULL);
	request("POST", "{}");
	ck_assert_int_eq(got.code, ERR_LOST);
	ck_assert_int_eq(server_count(&server, "POST"), 1);
	request("GET", NULL);
	ck_assert_int_eq(got.code, ERR_NONE);
}
END_TEST

START_TEST(a_get_is_tried_a_limited_number_of_times)
{
	struct answer script[LIMIT_RETRIES + 3] = { { NULL } };

	serve(script, COUNT(script));
	request("GET", NULL);
	ck_assert_int_eq(server_count(&server, "GET"), LIMIT_RETRIES + 1);
	ck_assert_int_eq(got.code, ERR_LOST);
	ck_assert_str_eq(got.text, "list pods in namespace x: tried 5 times: "
	    "the connection ended before the answer was whole");
}
END_TEST

START_TEST(a_post_that_never_left_is_tried_again)
{
	serve(NULL, 0);
	loop_fd_del(server.watch);
	close(server.fd);
	server.watch = NULL;
	server.fd = -1;
	request("POST", "{}");
	ck_assert_int_eq(got.code, ERR_LOST);
	ck_assert_ptr_nonnull(strstr(got.text, "tried 5 times: can't connect"));
}
END_TEST

START_TEST(its_time_is_bounded_with_all_its_tries)
{
	static const struct answer script[] = { { NO("503") }, { "" } };

	serve(script, COUNT(script));
	got.op = k8s_send(k, "GET", path, NULL, 400, on_event, NULL);
	finish();
	ck_assert_int_eq(got.code, ERR_TIMEOUT);
	ck_assert_int_eq(server_count(&server, "GET"), 2);
}
END_TEST

START_TEST(a_pause_beyond_its_time_is_not_made)
{
	static const struct answer script[] = { { "HTTP/1.1 429 No\r\n"
	    "Retry-After: 9\r\nContent-Length: 0\r\n\r\n" } };

	serve(script, COUNT(script));
	got.op = k8s_send(k, "GET", path, NULL, 5000, on_event, NULL);
	finish();
	ck_assert_int_eq(got.code, ERR_BUSY);
	ck_assert_int_eq(server_count(&server, "GET"), 1);
}
END_TEST

static const struct {
	int tries;
	const char *retry_after;
	long min, max;
} pauses[] = {
	{ 1, "", 50, 100 }, { 2, "", 100, 200 }, { 4, "", 400, 800 },
	{ 60, "", LIMIT_RETRY_MS / 2, LIMIT_RETRY_MS },
	{ 1, "1", 1000, 1100 }, { 1, "3600", LIMIT_RETRY_MS, LIMIT_RETRY_MS },
	{ 1, "-1", 50, 100 }, { 1, "99999999999999999999", LIMIT_RETRY_MS,
	    LIMIT_RETRY_MS },
	{ 1, "Wed, 21 Oct 2026 07:28:00 GMT", 50, 100 },
};

START_TEST(pauses_grow_and_have_a_ceiling)
{
	long ms;
	int i;

	for (i = 0; i < 50; i++) {
		ms = k8s_pause(pauses[_i].tries, pauses[_i].retry_after);
		ck_assert_int_ge(ms, pauses[_i].min);
		ck_assert_int_le(ms, pauses[_i].max);
	}
}
END_TEST

/* --- words ------------------------------------------------------------- */

static const struct {
	const char *answer;
	enum error_code code;
	const char *reason, *text;
} refusals[] = {
	{ SAY("403", "{\"kind\":\"Status\",\"reason\":\"Forbidden\","
	    "\"message\":\"pods is forbidden: User \\\"u\\\" cannot create\"}"),
	    ERR_DENIED, "Forbidden", "create pods in namespace x: pods is "
	    "forbidden: User \"u\" cannot create" },
	{ SAY("401", "{\"kind\":\"Status\",\"reason\":\"Unauthorized\","
	    "\"message\":\"Unauthorized\"}"), ERR_DENIED, "Unauthorized",
	    "create pods in namespace x: our credentials were not accepted: "
	    "Unauthorized" },
	{ SAY("422", "{\"kind\":\"Status\",\"reason\":\"Invalid\",\"message\":"
	    "\"pod is invalid: a: Required value\",\"details\":{\"causes\":["
	    "{\"field\":\"a\",\"message\":\"Required value\"},"
	    "{\"field\":\"b\",\"message\":\"Too long\"}]}}"),
	    ERR_INVALID, "Invalid", "create pods in namespace x: pod is "
	    "invalid: a: Required value; b: Too long" },
	{ SAY("404", "404 page not found\nmore"), ERR_GONE, "",
	    "create pods in namespace x: the API server answered 404 "
	    "(404 page not found)" },
	{ SAY("418", ""), ERR_CLUSTER, "",
	    "create pods in namespace x: the API server answered 418" },
	{ SAY("410", "{\"kind\":\"Status\"}"), ERR_GONE, "",
	    "create pods in namespace x: the API server answered 410 "
	    "({\"kind\":\"Status\"})" },
	{ SAY("400", "[\"\xff\"]"), ERR_INVALID, "", NULL },
};

START_TEST(says_in_the_servers_words_what_was_refused)
{
	struct answer script[] = { { refusals[_i].answer, .close = true } };

	serve(script, COUNT(script));
	request("POST", "{}");
	ck_assert_int_eq(got.code, refusals[_i].code);
	if (refusals[_i].text != NULL)
		ck_assert_str_eq(got.text, refusals[_i].text);
	ck_assert_str_eq(got.reason, refusals[_i].reason);
}
END_TEST

static const struct {
	const char *method, *path, *text;
} described[] = {
	{ "POST", "/apis/a.io/v1/namespaces/x/things",
	    "create things in namespace x" },
	{ "GET", "/api/v1/namespaces/x/pods/p", "get pods p in namespace x" },
	{ "GET", "/api/v1/namespaces/x/pods/p/log?follow=true",
	    "get pods/log p in namespace x" },
	{ "watch", "/api/v1/namespaces/x/pods?labelSelector=a",
	    "watch pods in namespace x" },
	{ "GET", "/api/v1/namespaces", "list namespaces" },
	{ "GET", "/api/v1/namespaces/x", "get namespaces x" },
	{ "DELETE", "/apis/a.io/v1/things/t", "delete things t" },
	{ "GET", "/version?x=1", "GET /version" },
	{ "GET", "/api/v1", "GET /api/v1" },
	{ "GET", "/apis/a.io/v1", "GET /apis/a.io/v1" },
	{ "GET", "/", "GET /" },
	{ "GET", "", "GET " },
	{ "GET", "/a/b/c/d/e/f/g/h/i/j/k", "GET /a/b/c/d/e/f/g/h/i/j/k" },
	{ "GET", "/apis/a/v1/namespaces/n/r/o/s/t/u",
	    "get r/s o in namespace n" },
};

START_TEST(a_request_has_words)
{
	char text[128], small[8];

	k8sfail_describe(described[_i].method, described[_i].path, text,
	    sizeof(text));
	ck_assert_str_eq(text, described[_i].text);
	k8sfail_describe(described[_i].method, described[_i].path, small,
	    sizeof(small));
	ck_assert_uint_lt(strlen(small), sizeof(small));
}
END_TEST

START_TEST(what_is_not_plain_is_escaped)
{
	struct buf b;

	buf_init(&b, 256);
	k8s_escape(&b, "a-b_c.d~e f/g?h=i&j%\xc3\xa4");
	ck_assert_str_eq(b.data, "a-b_c.d~e%20f%2Fg%3Fh%3Di%26j%25%C3%A4");
	buf_free(&b);
}
END_TEST

START_TEST(what_fails_at_once_is_told_by_the_loop)
{
	serve(NULL, 0);
	got.op = k8s_send(k, "BAD METHOD", path, NULL, 0, on_event, NULL);
	ck_assert_ptr_nonnull(got.op);
	finish();
	ck_assert_int_eq(got.code, ERR_INPUT);
}
END_TEST

/* --- what is sent ------------------------------------------------------ */

START_TEST(names_itself_and_the_type_of_its_body)
{
	static const struct answer script[] = { { OK("{}", "2") },
	    { OK("{}", "2") } };

	serve(script, COUNT(script));
	request("PATCH", "{\"a\":1}");
	ck_assert_ptr_nonnull(strstr(server.last,
	    "User-Agent: mcp-sandbox/" VERSION "\r\n"));
	ck_assert_ptr_nonnull(strstr(server.last,
	    "Content-Type: application/merge-patch+json\r\n"));
	ck_assert_ptr_nonnull(strstr(server.last, "\r\n\r\n{\"a\":1}"));
	ck_assert_ptr_null(strstr(server.last, "Authorization"));
	request("POST", "{}");
	ck_assert_ptr_nonnull(strstr(server.last,
	    "Content-Type: application/json\r\n"));
}
END_TEST

static char token_path[64];

static void
write_token(const char *token)
{
	FILE *f = fopen(token_path, "w");

	ck_assert_ptr_nonnull(f);
	fputs(token, f);
	fclose(f);
}

START_TEST(a_token_is_read_again_after_401_and_only_once)
{
	static const struct answer script[] = { { NO("401") },
	    { OK("{}", "2") }, { NO("401") }, { NO("401") } };
	int fd;

	strcpy(token_path, "/tmp/test-k8s-XXXXXX");
	ck_assert_int_ne(fd = mkstemp(token_path), -1);
	close(fd);
	write_token("first\n");
	serve(script, COUNT(script));
	k8s_close(k);
	kc.token_file = token_path;
	k = k8s_open(loop, web, &kc, &err);
	ck_assert_ptr_nonnull(k);
	write_token("second\n");
	request("POST", "{}");
	ck_assert_int_eq(got.code, ERR_NONE);
	ck_assert_ptr_nonnull(strstr(server.last,
	    "\r\nAuthorization: Bearer second\r\n"));
	request("POST", "{}");
	ck_assert_int_eq(got.code, ERR_DENIED);
	ck_assert_int_eq(server_count(&server, "POST"), 4);
	ck_assert_ptr_null(strstr(got.text, "second"));
	unlink(token_path);
}
END_TEST

START_TEST(a_token_with_no_file_is_not_tried_twice)
{
	static const struct answer script[] = { { NO("401") } };
	static char token[] = "t0k3n";

	serve(script, COUNT(script));
	k8s_close(k);
	kc.token = token;
	k = k8s_open(loop, web, &kc, &err);
	request("GET", NULL);
	ck_assert_int_eq(server_count(&server, "GET"), 1);
	ck_assert_ptr_nonnull(strstr(server.last,
	    "\r\nAuthorization: Bearer t0k3n\r\n"));
}
END_TEST

START_TEST(says_whom_it_impersonates)
{
	static const struct answer script[] = { { OK("{}", "2") } };
	static char as[] = "Impersonate-User: jane";
	static char group[] = "Impersonate-Group: dev";
	static char *fields[] = { as, group, NULL }, basic[] = "dTpw";

	serve(script, COUNT(script));
	k8s_close(k);
	kc.impersonate = fields;
	kc.basic = basic;
	k = k8s_open(loop, web, &kc, &err);
	request("POST", "{}");
	ck_assert_ptr_nonnull(strstr(server.last, "\r\nAuthorization: Basic "
	    "dTpw\r\nImpersonate-User: jane\r\nImpersonate-Group: dev\r\n"));
}
END_TEST

START_TEST(a_missing_token_file_is_an_error_at_the_start)
{
	static char none[] = "/nonexistent/token";

	serve(NULL, 0);
	kc.token_file = none;
	ck_assert_ptr_null(k8s_open(loop, web, &kc, &err));
	ck_assert_ptr_nonnull(strstr(err.text, none));
}
END_TEST

START_TEST(a_name_is_resolved_at_the_start)
{
	static const struct answer script[] = { { OK("{}", "2") } };
	static char name[] = "localhost";

	serve(script, COUNT(script));
	k8s_close(k);
	kc.host = name;
	(void)snprintf(server.url, sizeof(server.url), "http://localhost:%s",
	    server.text);
	k = k8s_open(loop, web, &kc, &err);
	ck_assert_msg(k != NULL, "%s", err.text);
	request("GET", NULL);
	ck_assert_int_eq(got.code, ERR_NONE);
}
END_TEST

START_TEST(a_proxy_is_asked_instead)
{
	static const struct answer script[] = { { OK("{}", "2") } };
	static char name[] = "api.invalid", far[] = "http://api.invalid:80";
	static char proxy[64];

	serve(script, COUNT(script));
	k8s_close(k);
	kc.host = name;
	kc.server = far;
	kc.proxy = proxy;
	(void)snprintf(proxy, sizeof(proxy), "http://localhost:%s",
	    server.text);
	k = k8s_open(loop, web, &kc, &err);
	ck_assert_msg(k != NULL, "%s", err.text);
	request("GET", NULL);
	ck_assert_str_eq(got.text, "");
	ck_assert_ptr_nonnull(strstr(server.log, "GET http://api.invalid"));
}
END_TEST

/* --- streams ----------------------------------------------------------- */

START_TEST(a_log_comes_in_pieces)
{
	static const struct answer script[] = { { NO("503") },
	    { OK("abcdef", "6"), .piece = 1 } };

	serve(script, COUNT(script));
	got.op = k8s_stream(k, path, on_event, NULL);
	finish();
	ck_assert_str_eq(got.body, "abcdef");
	ck_assert_int_gt(got.pieces, 1);
	ck_assert_int_eq(got.code, ERR_NONE);
}
END_TEST

START_TEST(a_log_that_broke_off_is_not_begun_again)
{
	static const struct answer script[] = { { OK("abc", "6"),
	    .close = true }, { OK("abcdef", "6") } };

	serve(script, COUNT(script));
	got.op = k8s_stream(k, path, on_event, NULL);
	finish();
	ck_assert_str_eq(got.body, "abc");
	ck_assert_int_eq(got.code, ERR_LOST);
}
END_TEST

START_TEST(a_refused_log_has_the_servers_words)
{
	static const struct answer script[] = { { SAY("400", "{\"kind\":"
	    "\"Status\",\"message\":\"container is waiting to start\"}"),
	    .piece = 1, .close = true } };

	serve(script, COUNT(script));
	got.op = k8s_stream(k, path, on_event, NULL);
	finish();
	ck_assert_int_eq(got.pieces, 0);
	ck_assert_int_eq(got.code, ERR_INVALID);
	ck_assert_ptr_nonnull(strstr(got.text, "container is waiting"));
}
END_TEST

START_TEST(a_log_may_be_cancelled_inside_its_function)
{
	static const struct answer script[] = { { OK("abcdef", "6"),
	    .piece = 1 } };
	int i;

	serve(script, COUNT(script));
	got.cancel = true;
	got.op = k8s_stream(k, path, on_event, NULL);
	for (i = 0; i < 60; i++)
		turn(1);
	ck_assert_int_eq(got.pieces, 1);
	ck_assert_int_eq(got.replies, 0);
}
END_TEST

START_TEST(may_be_cancelled_while_it_pauses)
{
	static const struct answer script[] = { { NO("503") } };

	serve(script, COUNT(script));
	got.op = k8s_send(k, "GET", path, NULL, 0, on_event, NULL);
	while (server.at == 0)
		turn(5000);
	turn(20);
	turn(20);
	k8s_cancel(got.op);
	turn(200);
	ck_assert_int_eq(got.replies, 0);
}
END_TEST

static void
add_all(TCase *t)
{
	tcase_add_loop_test(t, only_what_does_no_harm_is_tried_again, 0,
	    COUNT(retries));
	tcase_add_test(t, a_post_on_a_kept_connection_is_sent_once);
	tcase_add_test(t, a_get_is_tried_a_limited_number_of_times);
	tcase_add_test(t, a_post_that_never_left_is_tried_again);
	tcase_add_test(t, its_time_is_bounded_with_all_its_tries);
	tcase_add_test(t, a_pause_beyond_its_time_is_not_made);
	tcase_add_loop_test(t, says_in_the_servers_words_what_was_refused, 0,
	    COUNT(refusals));
	tcase_add_test(t, what_fails_at_once_is_told_by_the_loop);
	tcase_add_test(t, names_itself_and_the_type_of_its_body);
	tcase_add_test(t, a_token_is_read_again_after_401_and_only_once);
	tcase_add_test(t, a_token_with_no_file_is_not_tried_twice);
	tcase_add_test(t, says_whom_it_impersonates);
	tcase_add_test(t, a_missing_token_file_is_an_error_at_the_start);
	tcase_add_test(t, a_name_is_resolved_at_the_start);
	tcase_add_test(t, a_proxy_is_asked_instead);
	tcase_add_test(t, a_log_comes_in_pieces);
	tcase_add_test(t, a_log_that_broke_off_is_not_begun_again);
	tcase_add_test(t, a_refused_log_has_the_servers_words);
	tcase_add_test(t, a_log_may_be_cancelled_inside_its_function);
	tcase_add_test(t, may_be_cancelled_while_it_pauses);
}

int
main(void)
{
	Suite *s = suite_create("k8s");
	TCase *t = tcase_create("requests"), *pure = tcase_create("words");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 20);
	add_all(t);
	suite_add_tcase(s, t);
	tcase_add_loop_test(pure, pauses_grow_and_have_a_ceiling, 0,
	    COUNT(pauses));
	tcase_add_loop_test(pure, a_request_has_words, 0, COUNT(described));
	tcase_add_test(pure, what_is_not_plain_is_escaped);
	suite_add_tcase(s, pure);
	return suite_run(s);
}
