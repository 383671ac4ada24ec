/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail-alloc.h"
#include "fake-loop.h"
#include "suite.h"

#include "../call.c"

/*
 * A tool that does what its arguments and events say, and a sink that writes
 * down what it is told. A script is a line of words, see play().
 */
struct actor {
	char stop[16];			/* what stop() says */
	struct call *call;
};

static struct calls *cs;
static struct buf heard;
static struct call *by_id[100];

static void
hear(const char *what, const struct call *c, const char *text)
{
	buf_printf(&heard, "%s%s:%s", heard.len > 0 ? " " : "", what, c->id);
	if (text[0] != '\0')
		buf_printf(&heard, ":%s", text);
}

static enum step
act(struct call *c, const char *what, struct error *err)
{
	if (strcmp(what, "wait") == 0)
		return STEP_WAIT;
	if (strcmp(what, "fail") == 0) {
		(void)error_set(err, ERR_CLUSTER, "broken");
		return STEP_FAIL;
	}
	if (strcmp(what, "mute") == 0)
		return STEP_FAIL;
	if (strcmp(what, "ask") == 0) {
		call_ask(c, "{}", "s");
		return STEP_ASK;
	}
	if (strcmp(what, "big") == 0)
		for (int i = 0; i <= LIMIT_REPLY >> 20; i++) {
			static const char mega[1 << 20];

			buf_put(&c->text, mega, sizeof(mega));
		}
	if (strcmp(what, "timer") == 0) {
		call_timer(c, 70);
		return STEP_WAIT;
	}
	if (strcmp(what, "tell") == 0) {
		call_progress(c, "step %d", 1);
		return STEP_WAIT;
	}
	if (strcmp(what, "short") == 0) {
		call_deadline(c, 2000);
		return STEP_WAIT;
	}
	if (strcmp(what, "left") == 0)
		call_left(c, "pod %s", "p");
	return STEP_DONE;
}

static enum step
actor_start(struct call *c, struct json args, struct error *err)
{
	struct actor *a = c->data;
	char what[16];

	ck_assert(json_str(json_get(args, "start"), what, sizeof(what)));
	ck_assert(json_str(json_get(args, "stop"), a->stop, sizeof(a->stop)));
	a->call = c;
	by_id[atoi(c->id)] = c;
	return act(c, what, err);
}

static enum step
actor_next(struct call *c, const struct event *ev, struct error *err)
{
	const struct actor *a = c->data;

	ck_assert_ptr_eq(a->call, c);
	if (ev->type == EVENT_TIMER) {
		hear("timer", c, "");
		return STEP_WAIT;
	}
	return act(c, ev->data, err);
}

static enum step
actor_stop(struct call *c)
{
	const struct actor *a = c->data;
	struct error err;

	ck_assert_int_eq(c->state, CALL_STOPPING);
	hear("stop", c, "");
	return act(c, a->stop, &err);
}

static const struct arg args[] = {
	{ .name = "start", .type = ARG_STRING, .flags = ARG_REQUIRED },
	{ .name = "stop", .type = ARG_STRING, .flags = ARG_REQUIRED },
	{ NULL }
};
static const struct tool actor = {
	.name = "actor", .args = args, .size = sizeof(struct actor),
	.start = actor_start, .next = actor_next, .stop = actor_stop,
};

static void
on_answer(void *arg, struct call *c, const struct error *err)
{
	(void)arg;
	hear(err != NULL ? error_word(err->code) : c->asking ? "ask" : "ok", c,
	    err != NULL && err->code == ERR_CLUSTER ? err->text : "");
}

static void
on_silent(void *arg, struct call *c)
{
	(void)arg;
	hear("silent", c, "");
}

static void
on_notify(void *arg, struct call *c, const char *method, const char *params,
    size_t len)
{
	(void)arg;
	(void)len;
	hear(strcmp(method, "notifications/progress") == 0 ? "progress" :
	    "log", c, params);
}

static bool
wants_log(void *arg, struct call *c, const char *level)
{
	(void)arg;
	(void)c;
	return strcmp(level, "info") == 0;
}

static int
begin(const char *id, const char *token, const char *start, const char *stop)
{
	struct call proto = { .ticket = atoi(id) };
	struct error err;
	struct json_doc *doc;
	char text[96];
	int r;

	(void)snprintf(text, sizeof(text),
	    "{\"start\":\"%s\",\"stop\":\"%s\"}", start, stop);
	doc = json_parse(text, strlen(text), &err);
	ck_assert_ptr_nonnull(doc);
	(void)snprintf(proto.id, sizeof(proto.id), "%s", id);
	(void)snprintf(proto.token, sizeof(proto.token), "%s", token);
	r = call_start(cs, &actor, json_root(doc), &proto, &err);
	if (r == -1)
		hear(error_word(err.code), &proto, "");
	json_free(doc);
	return r;
}

/*
 * start/ID/START/STOP	begin a call; told/...: one with a progress token
 * ev/ID/WHAT		an event for it, which may be over
 * cancel/ID  ticket/N  all  pass/MS
 */
static void
play(const char *script)
{
	char line[512], *word, *save = NULL, *f[4];
	size_t n;

	(void)snprintf(line, sizeof(line), "%s", script);
	for (word = strtok_r(line, " ", &save); word != NULL;
	    word = strtok_r(NULL, " ", &save)) {
		for (n = 0; n < 4; n++)
			f[n] = strsep(&word, "/");
		if (strcmp(f[0], "start") == 0)
			(void)begin(f[1], "", f[2], f[3]);
		else if (strcmp(f[0], "told") == 0)
			(void)begin(f[1], "\"t\"", f[2], f[3]);
		else if (strcmp(f[0], "ev") == 0)
			call_event(by_id[atoi(f[1])], &(struct event){
			    .type = EVENT_DATA, .data = f[2] });
		else if (strcmp(f[0], "cancel") == 0)
			call_cancel(cs, f[1]);
		else if (strcmp(f[0], "ticket") == 0)
			calls_cancel_ticket(cs, atol(f[1]));
		else if (strcmp(f[0], "all") == 0)
			calls_cancel_all(cs);
		else if (strcmp(f[0], "pass") == 0)
			fake_pass(atol(f[1]));
		else
			ck_abort_msg("%s?", f[0]);
	}
}

static void
set_up(void)
{
	static const struct call_sink sink = {
		on_answer, on_silent, on_notify, wants_log, NULL
	};
	struct error err;

	buf_init(&heard, 1 << 16);
	fake_now = 1000;
	cs = calls_open(NULL, NULL, &sink, &err);
	ck_assert_ptr_nonnull(cs);
	cs->log.fd = -1;
}

static void
tear_down(void)
{
	calls_close(cs);
	buf_free(&heard);
	ck_assert_ptr_null(fake_timers);
}

static const struct {
	const char *script, *heard;
	size_t live, left;
} plays[] = {
	/* every way to begin, and to stop at once */
	{ "start/1/done/done", "ok:1 stop:1", 0, 0 },
	{ "start/1/ask/done", "ask:1 stop:1", 0, 0 },
	{ "start/1/fail/done", "stop:1 cluster:1:broken", 0, 0 },
	{ "start/1/mute/done", "stop:1 system:1", 0, 0 },
	{ "start/1/big/done", "stop:1 limit:1", 0, 0 },
	{ "start/1/wait/done", "", 1, 0 },
	{ "start/1/wait/done ev/1/wait ev/1/done", "ok:1 stop:1", 0, 0 },
	{ "start/1/wait/done ev/1/fail", "stop:1 cluster:1:broken", 0, 0 },
	/* a failure is answered after the cleaning up, a success before */
	{ "start/1/done/wait", "ok:1 stop:1", 1, 0 },
	{ "start/1/done/wait ev/1/wait ev/1/done", "ok:1 stop:1", 0, 0 },
	{ "start/1/fail/wait", "stop:1", 1, 0 },
	{ "start/1/fail/wait ev/1/wait ev/1/done",
	    "stop:1 cluster:1:broken", 0, 0 },
	{ "start/1/fail/wait ev/1/fail", "stop:1 cluster:1:broken", 0, 0 },
	/* a cancelled call is silent, whatever comes */
	{ "start/1/wait/done cancel/1", "silent:1 stop:1", 0, 0 },
	{ "start/1/wait/wait cancel/1", "silent:1 stop:1", 1, 0 },
	{ "start/1/wait/wait cancel/1 ev/1/fail", "silent:1 stop:1", 0, 0 },
	{ "start/1/wait/wait cancel/1 cancel/1 ev/1/done",
	    "silent:1 stop:1", 0, 0 },
	{ "start/1/fail/wait cancel/1 ev/1/done", "stop:1 silent:1", 0, 0 },
	{ "start/1/done/wait cancel/1 ev/1/done", "ok:1 stop:1", 0, 0 },
	{ "cancel/1 start/1/done/done cancel/1", "ok:1 stop:1", 0, 0 },
	{ "start/1/wait/done start/2/wait/done ticket/2",
	    "silent:2 stop:2", 1, 0 },
	/* what comes late is for nobody */
	{ "start/1/done/done ev/1/done ev/1/fail", "ok:1 stop:1", 0, 0 },
	{ "start/1/wait/done cancel/1 ev/1/done", "silent:1 stop:1", 0, 0 },
	/* time */
	{ "start/1/wait/done pass/299999", "", 1, 0 },
	{ "start/1/wait/done pass/300000", "stop:1 timeout:1", 0, 0 },
	{ "start/1/short/done pass/1999", "", 1, 0 },
	{ "start/1/short/done pass/2000", "stop:1 timeout:1", 0, 0 },
	{ "start/1/timer/done pass/69", "", 1, 0 },
	{ "start/1/timer/done pass/5000", "timer:1", 1, 0 },
	{ "start/1/timer/wait cancel/1 pass/5000", "silent:1 stop:1", 1, 0 },
	{ "start/1/fail/wait pass/29999", "stop:1", 1, 0 },
	{ "start/1/fail/wait pass/30000", "stop:1 cluster:1:broken; and left "
	    "behind: what actor made; its removal was not confirmed", 1, 1 },
	{ "start/1/wait/wait cancel/1 pass/99999", "silent:1 stop:1", 1, 1 },
	/* ... where a late end still gives the place back, and is good */
	{ "start/1/wait/wait cancel/1 pass/30000 ev/1/done",
	    "silent:1 stop:1", 0, 0 },
	{ "start/1/wait/wait cancel/1 pass/30000 ev/1/fail",
	    "silent:1 stop:1", 0, 1 },
	{ "start/1/wait/wait cancel/1 pass/30000 ev/1/left",
	    "silent:1 stop:1", 0, 1 },
	{ "start/1/fail/left", "stop:1 cluster:1:broken; and left behind: "
	    "pod p", 0, 1 },
	{ "start/1/done/left", "ok:1 stop:1", 0, 1 },
	/* the end of input */
	{ "start/1/wait/done start/2/done/wait start/3/fail/wait all",
	    "ok:2 stop:2 stop:3 silent:1 stop:1", 2, 0 },
	{ "start/3/fail/wait all ev/3/done", "stop:3 cluster:3:broken", 0, 0 },
	{ "start/2/wait/wait all pass/1499", "silent:2 stop:2", 1, 0 },
	{ "start/2/wait/wait all pass/1500", "silent:2 stop:2", 1, 1 },
	/* ids */
	{ "start/1/wait/done start/1/done/done", "conflict:1", 1, 0 },
	{ "start/1/wait/wait cancel/1 start/1/done/done",
	    "silent:1 stop:1 ok:1 stop:1", 1, 0 },
	/* progress: one within five seconds, then as often, never after */
	{ "told/1/wait/done pass/3999 ev/1/done", "ok:1 stop:1", 0, 0 },
	{ "told/1/wait/done pass/8000 ev/1/done pass/8000",
	    "progress:1:{\"progressToken\":\"t\",\"progress\":4} "
	    "progress:1:{\"progressToken\":\"t\",\"progress\":8} "
	    "ok:1 stop:1", 0, 0 },
	{ "told/1/tell/done ev/1/tell ev/1/tell pass/249 pass/1 pass/3999",
	    "progress:1:{\"progressToken\":\"t\",\"progress\":0,"
	    "\"message\":\"step 1\"} "
	    "progress:1:{\"progressToken\":\"t\",\"progress\":0.25,"
	    "\"message\":\"step 1\"}", 1, 0 },
	{ "told/1/wait/wait cancel/1 ev/1/tell pass/9000",
	    "silent:1 stop:1", 1, 0 },
	{ "told/1/fail/wait pass/4000 ev/1/done", "stop:1 "
	    "progress:1:{\"progressToken\":\"t\",\"progress\":4} "
	    "cluster:1:broken", 0, 0 },
	{ "start/1/tell/done pass/9000", "", 1, 0 },
};

START_TEST(answers_once_and_leaves_nothing)
{
	play(plays[_i].script);
	ck_assert_str_eq(heard.data == NULL ? "" : heard.data,
	    plays[_i].heard);
	ck_assert_uint_eq(calls_live(cs), plays[_i].live);
	ck_assert_uint_eq(calls_left(cs), plays[_i].left);
}
END_TEST

START_TEST(refuses_one_call_too_many_and_goes_on)
{
	char id[16];
	int i;

	for (i = 0; i < LIMIT_CALLS; i++) {
		(void)snprintf(id, sizeof(id), "%d", i);
		ck_assert_int_eq(begin(id, "", "wait", "done"), 0);
	}
	ck_assert_int_eq(begin("99", "", "wait", "done"), -1);
	ck_assert_str_eq(heard.data, "limit:99");
	play("cancel/7 start/99/done/done");
	ck_assert_str_eq(heard.data, "limit:99 silent:7 stop:7 ok:99 stop:99");
	ck_assert_uint_eq(calls_live(cs), LIMIT_CALLS - 1);
}
END_TEST

START_TEST(keeps_the_place_of_one_that_does_not_stop)
{
	play("start/1/wait/wait cancel/1 pass/30000");
	for (int i = 2; i <= LIMIT_CALLS; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "%d", i);
		ck_assert_int_eq(begin(id, "", "wait", "done"), 0);
		ck_assert_ptr_ne(by_id[i], by_id[1]);
	}
	ck_assert_int_eq(begin("99", "", "wait", "done"), -1);
}
END_TEST

static const struct {
	const char *a, *b;
	bool same;
} ids[] = {
	{ "1", "1", true }, { "1", "\"1\"", false }, { "\"1\"", "1", false },
	{ "0", "\"\"", false }, { "\"\"", "\"\"", true },
	{ "\"a\"", "\"\\u0061\"", true }, { "\"\\u0061\"", "\"\\u0061\"", true },
	{ "\"a\"", "\"\\u0062\"", false }, { "\"a\\\"b\"", "\"a\\u0022b\"", true },
	{ "\"a\\u0000\"", "\"a\"", false }, { "\"a\"", "\"A\"", false },
	{ "9007199254740993", "9007199254740992", false },
	{ "\"\\u00e4\"", "\"\xc3\xa4\"", true },
};

START_TEST(tells_ids_apart_by_type_and_value)
{
	ck_assert_int_eq(same_id(ids[_i].a, ids[_i].b), ids[_i].same);
	ck_assert_int_eq(same_id(ids[_i].b, ids[_i].a), ids[_i].same);
}
END_TEST

START_TEST(counts_up_when_the_tool_counts)
{
	struct call *c;

	play("told/1/wait/done");
	c = by_id[1];
	call_progress_n(c, 0, 100, NULL);
	call_progress_n(c, 50, 100, "half");
	call_progress_n(c, 50, 100, "again");
	call_progress_n(c, 40, 100, "back");
	fake_pass(LIMIT_PROGRESS_MS);
	call_progress_n(c, 100, 100, "all");
	ck_assert_str_eq(heard.data,
	    "progress:1:{\"progressToken\":\"t\",\"progress\":0,\"total\":100} "
	    "progress:1:{\"progressToken\":\"t\",\"progress\":50,\"total\":100,"
	    "\"message\":\"half\"} "
	    "progress:1:{\"progressToken\":\"t\",\"progress\":50.001,"
	    "\"message\":\"half\"} "
	    "progress:1:{\"progressToken\":\"t\",\"progress\":100,"
	    "\"total\":100,\"message\":\"all\"}");
}
END_TEST

START_TEST(logs_what_is_wanted_while_it_runs)
{
	struct call *c;

	play("start/1/wait/wait");
	c = by_id[1];
	call_log(c, "debug", "no");
	call_log(c, "info", "yes\n");
	play("cancel/1");
	call_log(c, "info", "late");
	ck_assert_str_eq(heard.data, "log:1:{\"level\":\"info\",\"logger\":"
	    "\"actor\",\"data\":\"yes\\n\"} silent:1 stop:1");
}
END_TEST

START_TEST(cleans_what_a_tool_says)
{
	struct call *c;

	play("told/1/wait/done");
	c = by_id[1];
	call_progress(c, "a\nb\x1b[31m\xff%s", "");
	ck_assert_str_eq(heard.data, "progress:1:{\"progressToken\":\"t\","
	    "\"progress\":0,\"message\":\"a b [31m?\"}");
}
END_TEST

START_TEST(survives_each_allocation_that_fails)
{
	int r = -1;

	for (long n = 0; r == -1; n++) {
		ck_assert_int_lt(n, 20);
		buf_reset(&heard, 0);
		alloc_left = n;
		r = begin("1", "\"t\"", "wait", "done");
		alloc_left = -1;
		ck_assert_uint_eq(calls_live(cs), r == 0);
		if (r == -1)
			ck_assert_str_eq(heard.data, "system:1");
	}
	buf_reset(&heard, 0);
	alloc_left = 0;
	play("ev/1/tell");
	alloc_left = -1;
	play("ev/1/done");
	ck_assert_uint_eq(calls_live(cs), 0);
	ck_assert_ptr_nonnull(strstr(heard.data, "ok:1 stop:1"));
}
END_TEST

START_TEST(takes_the_json_of_a_reply_or_says_why_not)
{
	const struct error why = { ERR_DENIED, "no" };
	struct event good = { .data = "{\"a\":1}", .len = 7 };
	struct event bad = { .data = "{", .len = 1 };
	struct event failed = { .err = &why, .data = "{}", .len = 2 };
	struct error err;
	struct json_doc *doc = call_doc(&good, &err, "a thing");

	ck_assert_int_eq(json_type(json_get(json_root(doc), "a")),
	    JSON_NUMBER);
	json_free(doc);
	ck_assert_ptr_null(call_doc(&bad, &err, "the %s's", "pod"));
	ck_assert_int_eq(strncmp(err.text, "the pod's: ", 11), 0);
	ck_assert_ptr_null(call_doc(&failed, &err, "a thing"));
	ck_assert_int_eq(err.code, ERR_DENIED);
	ck_assert_str_eq(err.text, "no");
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("call");
	TCase *t = tcase_create("call");

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_loop_test(t, answers_once_and_leaves_nothing, 0,
	    (int)(sizeof(plays) / sizeof(plays[0])));
	tcase_add_test(t, refuses_one_call_too_many_and_goes_on);
	tcase_add_test(t, keeps_the_place_of_one_that_does_not_stop);
	tcase_add_loop_test(t, tells_ids_apart_by_type_and_value, 0,
	    (int)(sizeof(ids) / sizeof(ids[0])));
	tcase_add_test(t, counts_up_when_the_tool_counts);
	tcase_add_test(t, takes_the_json_of_a_reply_or_says_why_not);
	tcase_add_test(t, logs_what_is_wanted_while_it_runs);
	tcase_add_test(t, cleans_what_a_tool_says);
	tcase_add_test(t, survives_each_allocation_that_fails);
	suite_add_tcase(s, t);
	return suite_run(s);
}
