/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../error.h"
#include "../json.h"
#include "../k8s.h"
#include "../kubeconfig.h"
#include "../budget.h"
#include "../loop.h"
#include "../watch.h"
#include "../web.h"
#include "server.h"
#include "suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define HEAD "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
#define EVENT(type, name, version) "{\"type\":\"" type "\",\"object\":{" \
	"\"metadata\":{\"name\":\"" name "\",\"resourceVersion\":\"" version \
	"\"}}}\n"
#define GONE "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\"," \
	"\"message\":\"too old\",\"reason\":\"Expired\",\"code\":410}}\n"
#define SAY(status, body) "HTTP/1.1 " status " No\r\n" \
	"Connection: close\r\n\r\n" body

static struct loop *loop;
static struct web *web;
static struct k8s *k;
static struct watch *watch;
static struct server server;
static struct error err;
static struct kubeconfig kc;

static struct {
	char seen[1024];	/* "ADDED a, " ... */
	int objects, ends;
	enum error_code code;
	char text[768];
	int close_at;		/* the object at which to close it */
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
	if (got.ends == 0)
		watch_close(watch);
	k8s_close(k);
	server_close(&server);
	web_close(web);
	loop_close(loop);
}

static void
on_event(void *arg, const struct event *ev)
{
	char name[32] = "?";
	size_t len = strlen(got.seen);

	(void)arg;
	if (ev->type == EVENT_END) {
		got.ends++;
		got.code = ev->err->code;
		(void)snprintf(got.text, sizeof(got.text), "%s",
		    ev->err->text);
		return;
	}
	ck_assert_int_eq(ev->type, EVENT_OBJECT);
	json_str(json_path(ev->object, "metadata.name"), name, sizeof(name));
	(void)snprintf(got.seen + len, sizeof(got.seen) - len, "%s %s, ",
	    ev->verb, name);
	if (++got.objects == got.close_at) {
		watch_close(watch);
		watch = NULL;
	}
}

static void
follow(const struct answer *script, size_t count, const char *version)
{
	server_open(&server, loop, script, count);
	k = server_k8s(&server, web, &kc);
	watch = watch_open(k, "/api/v1/namespaces/x/pods?labelSelector=a",
	    version, on_event, NULL);
	ck_assert_ptr_nonnull(watch);
}

static void
turn(long ms)
{
	ck_assert_int_eq(loop_turn(loop, ms, &err), 0);
}

/* Until the server was asked n times, and has no more to say. */
static void
until_asked(size_t n)
{
	while (server.at < n && got.ends == 0)
		turn(5000);
}

static void
until_seen(int n)
{
	while (got.objects < n && got.ends == 0)
		turn(5000);
}

/* The query of the request that the server saw last. */
static const char *
asked(const char *part)
{
	return strstr(server.last, part);
}

START_TEST(asks_for_a_watch_with_bookmarks_and_an_end)
{
	static const struct answer script[] = { { "" } };

	follow(script, COUNT(script), NULL);
	until_asked(1);
	ck_assert_ptr_nonnull(asked("GET /api/v1/namespaces/x/pods"
	    "?labelSelector=a&watch=true&allowWatchBookmarks=true"
	    "&timeoutSeconds=3"));
	ck_assert_ptr_null(asked("resourceVersion"));
}
END_TEST

START_TEST(begins_at_the_version_given)
{
	static const struct answer script[] = { { "" } };

	follow(script, COUNT(script), "12/3");
	until_asked(1);
	ck_assert_ptr_nonnull(asked("&resourceVersion=12%2F3 "));
}
END_TEST

static const size_t pieces[] = { 0, 1, 2, 7, 100 };

START_TEST(events_may_be_cut_anywhere)
{
	const struct answer script[] = { { HEAD EVENT("ADDED", "a", "1")
	    EVENT("MODIFIED", "b", "2") "\n" EVENT("BOOKMARK", "", "3")
	    EVENT("DELETED", "c", "4"), .piece = pieces[_i] } };

	follow(script, COUNT(script), NULL);
	until_seen(3);
	ck_assert_str_eq(got.seen, "ADDED a, MODIFIED b, DELETED c, ");
	ck_assert_int_eq(got.ends, 0);
}
END_TEST

START_TEST(an_event_may_come_in_chunks)
{
	static const struct answer script[] = { { "HTTP/1.1 200 OK\r\n"
	    "Transfer-Encoding: chunked\r\n\r\n"
	    "10\r\n{\"type\":\"ADDED\",\r\n"
	    "3d\r\n\"object\":{\"metadata\":{\"name\":\"a\","
	    "\"resourceVersion\":\"1\"}}}\n\r\n", .piece = 3 } };

	follow(script, COUNT(script), NULL);
	until_seen(1);
	ck_assert_str_eq(got.seen, "ADDED a, ");
}
END_TEST

START_TEST(goes_on_from_the_last_version)
{
	static const struct answer script[] = {
	    { HEAD EVENT("ADDED", "a", "1") EVENT("BOOKMARK", "", "77"),
	    .close = true }, { "" } };

	follow(script, COUNT(script), NULL);
	until_asked(2);
	ck_assert_str_eq(got.seen, "ADDED a, ");
	ck_assert_ptr_nonnull(asked("&resourceVersion=77 "));
}
END_TEST

/* Half an event is none: it comes again, whole. */
START_TEST(a_cut_event_is_dropped)
{
	static const struct answer script[] = { { "HTTP/1.1 200 OK\r\n"
	    "Content-Length: 9999\r\n\r\n" EVENT("ADDED", "a", "1")
	    "{\"type\":\"MODIFIED\",\"obj", .close = true },
	    { HEAD EVENT("MODIFIED", "a", "2") } };

	follow(script, COUNT(script), NULL);
	until_seen(2);
	ck_assert_str_eq(got.seen, "ADDED a, MODIFIED a, ");
	ck_assert_ptr_nonnull(asked("&resourceVersion=1 "));
}
END_TEST

static const char *const gone[] = { HEAD GONE, SAY("410", "{\"kind\":"
	"\"Status\",\"message\":\"too old\",\"reason\":\"Expired\"}") };

START_TEST(begins_from_scratch_when_the_version_is_gone)
{
	const struct answer script[] = { { gone[_i], .close = true },
	    { HEAD EVENT("ADDED", "a", "9") } };

	follow(script, COUNT(script), "5");
	until_seen(1);
	ck_assert_ptr_null(asked("resourceVersion"));
	ck_assert_str_eq(got.seen, "ADDED a, ");
}
END_TEST

static const struct {
	const char *answer;
	enum error_code code;
	const char *text;
} finals[] = {
	{ SAY("403", "{\"kind\":\"Status\",\"message\":\"pods is forbidden\"}"),
	    ERR_DENIED, "watch pods in namespace x: pods is forbidden" },
	{ SAY("404", "404 page not found"), ERR_GONE, "watch pods in namespace "
	    "x: the API server answered 404 (404 page not found)" },
	{ SAY("400", ""), ERR_INVALID, "watch pods in namespace x: the API "
	    "server answered 400" },
	{ SAY("401", ""), ERR_DENIED, "watch pods in namespace x: the API "
	    "server answered 401" },
};

START_TEST(ends_for_what_will_not_pass)
{
	struct answer script[] = { { finals[_i].answer, .close = true } };

	follow(script, COUNT(script), "5");
	until_seen(1);
	ck_assert_int_eq(got.ends, 1);
	ck_assert_int_eq(got.code, finals[_i].code);
	ck_assert_str_eq(got.text, finals[_i].text);
	ck_assert_uint_eq(server.at, 1);
}
END_TEST

static const struct answer passing[] = {
	{ NULL }, { SAY("500", ""), .close = true }, { HEAD, .close = true },
	{ HEAD "{\"type\":1}\n" }, { HEAD GONE },
};

START_TEST(what_may_pass_is_tried_a_limited_number_of_times)
{
	struct answer script[LIMIT_RETRIES + 2];
	size_t i;

	for (i = 0; i < COUNT(script); i++)
		script[i] = passing[_i];
	follow(script, COUNT(script), "5");
	until_seen(1);
	ck_assert_int_eq(got.ends, 1);
	ck_assert_int_eq(got.objects, 0);
	ck_assert_uint_eq(server.at, LIMIT_RETRIES + 1);
}
END_TEST

START_TEST(an_event_ends_the_row_of_failures)
{
	struct answer script[2 * LIMIT_RETRIES + 2] = { { NULL } };

	script[LIMIT_RETRIES] = (struct answer){ HEAD EVENT("ADDED", "a", "1"),
	    .close = true };
	script[COUNT(script) - 1] = (struct answer){
	    HEAD EVENT("ADDED", "b", "2") };
	follow(script, COUNT(script), NULL);
	until_seen(2);
	ck_assert_str_eq(got.seen, "ADDED a, ADDED b, ");
}
END_TEST

START_TEST(an_event_has_a_limit)
{
	size_t n = LIMIT_EVENT + 64;
	char *bytes = malloc(n + sizeof(HEAD));
	struct answer answer = { bytes, .piece = 60000 };

	strcpy(bytes, HEAD "\"");
	memset(bytes + strlen(HEAD) + 1, 'x', n - 2);
	bytes[strlen(HEAD) + n - 1] = '\0';
	follow(&answer, 1, NULL);
	until_seen(1);
	ck_assert_int_eq(got.code, ERR_LIMIT);
	free(bytes);
}
END_TEST

START_TEST(may_be_closed_inside_its_function)
{
	static const struct answer script[] = { { HEAD
	    EVENT("ADDED", "a", "1") EVENT("ADDED", "b", "2")
	    EVENT("ADDED", "c", "3"), .piece = 1 } };
	int i;

	got.close_at = _i;
	follow(script, COUNT(script), NULL);
	until_seen(_i);
	for (i = 0; i < 10; i++)
		turn(1);
	ck_assert_int_eq(got.objects, _i);
	ck_assert_int_eq(got.ends, 0);
}
END_TEST

START_TEST(may_be_closed_at_any_turn)
{
	static const struct answer script[] = { { HEAD, .close = true },
	    { HEAD, .close = true } };
	int i;

	follow(script, COUNT(script), NULL);
	for (i = 0; i < _i * 3; i++)
		turn(5);
	watch_close(watch);
	watch = NULL;
	turn(0);
	ck_assert_int_eq(got.ends, 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("watch");
	TCase *t = tcase_create("watch");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 20);
	tcase_add_test(t, asks_for_a_watch_with_bookmarks_and_an_end);
	tcase_add_test(t, begins_at_the_version_given);
	tcase_add_loop_test(t, events_may_be_cut_anywhere, 0, COUNT(pieces));
	tcase_add_test(t, an_event_may_come_in_chunks);
	tcase_add_test(t, goes_on_from_the_last_version);
	tcase_add_test(t, a_cut_event_is_dropped);
	tcase_add_loop_test(t, begins_from_scratch_when_the_version_is_gone, 0,
	    COUNT(gone));
	tcase_add_loop_test(t, ends_for_what_will_not_pass, 0, COUNT(finals));
	tcase_add_loop_test(t,
	    what_may_pass_is_tried_a_limited_number_of_times, 0,
	    COUNT(passing));
	tcase_add_test(t, an_event_ends_the_row_of_failures);
	tcase_add_test(t, an_event_has_a_limit);
	tcase_add_loop_test(t, may_be_closed_inside_its_function, 1, 4);
	tcase_add_loop_test(t, may_be_closed_at_any_turn, 0, 6);
	suite_add_tcase(s, t);
	return suite_run(s);
}
