/* SPDX-License-Identifier: Apache-2.0 */
/* A request, a log and a watch, with their allocations failing in turn. */
#include "fail-alloc.h"
#define grow buf_grow
#include "../buf.c"
#undef grow
#define grow loop_grow
#include "../loop.c"
#undef grow
#include "../webset.c"
#undef SET
#define launch web_launch
#define on_data web_on_data
#define op_free web_op_free
#define op_new web_op_new
#include "../web.c"
#undef launch
#undef on_data
#undef op_free
#undef op_new
#define ERROR_BODY K8S_ERROR_BODY
#define finish k8s_finish
#define on_reply k8s_on_reply
#define on_web k8s_on_web
#define send_it k8s_send_it
#define try k8s_try
#include "../k8s.c"
#undef ERROR_BODY
#undef finish
#undef on_reply
#undef on_web
#undef send_it
#undef try
#include "../watch.c"

#include <check.h>

#include "scripted.h"
#include "suite.h"

enum { ALLOCATIONS = 50 };

#define ANSWER "HTTP/1.1 200 OK\r\nX-Field: some value\r\n"		\
	"Connection: close\r\n\r\n{\"type\":\"ADDED\",\"object\":"		\
	"{\"metadata\":{\"resourceVersion\":\"1\"}}}\n"

struct seen {
	int objects, pieces;
	bool ended;
	enum error_code code;
};

static void
serve(int fd, int nth)
{
	char req[4096];

	(void)nth;
	get_request(fd, req, sizeof(req));
	put_all(fd, ANSWER, sizeof(ANSWER) - 1);
}

static void
see(void *arg, const struct event *ev)
{
	struct seen *s = arg;

	ck_assert(!s->ended);
	switch (ev->type) {
	case EVENT_OBJECT:
		s->objects++;
		break;
	case EVENT_DATA:
		s->pieces++;
		break;
	default:
		s->ended = true;
		s->code = ev->err != NULL ? ev->err->code : ERR_NONE;
	}
}

static struct client c;
static struct server server;

static void
open_both(void)
{
	server_start(&server, serve, false);
	client_open(&c, &server);
}

static void
close_both(void)
{
	alloc_left = -1;
	client_close(&c);
	server_stop(&server);
}

/* Waiting that has no memory is tried again, as the program does. */
static void
wait_for(const struct seen *s)
{
	long until = mono_ms() + 5000;
	struct error err;

	while (!s->ended && s->objects == 0 && mono_ms() < until)
		if (loop_turn(c.loop, 20, &err) == -1)
			alloc_left = -1;
	ck_assert_msg(s->ended || s->objects > 0, "no end");
}

static const char path[] = "/api/v1/namespaces/x/pods";

START_TEST(a_request_ends_whichever_allocation_fails)
{
	struct seen s = { 0 };

	alloc_left = _i;
	if (k8s_send(c.k, "GET", path, NULL, 0, see, &s) == NULL)
		return;
	wait_for(&s);
	ck_assert(alloc_left == 0 || s.code == ERR_NONE);
	ck_assert(_i < ALLOCATIONS - 1 || alloc_left > 0);
}
END_TEST

START_TEST(a_log_ends_whichever_allocation_fails)
{
	struct seen s = { 0 };

	alloc_left = _i;
	if (k8s_stream(c.k, path, see, &s) == NULL)
		return;
	wait_for(&s);
	ck_assert(s.pieces > 0 || s.code != ERR_NONE);
}
END_TEST

START_TEST(a_watch_ends_or_sees_whichever_allocation_fails)
{
	struct watch *w;
	struct seen s = { 0 };

	alloc_left = _i;
	if ((w = watch_open(c.k, path, NULL, see, &s)) == NULL)
		return;
	wait_for(&s);
	if (!s.ended)
		watch_close(w);
	ck_assert(s.objects > 0 || s.code != ERR_NONE);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("web-memory");
	TCase *t = tcase_create("web-memory");

	tcase_add_checked_fixture(t, open_both, close_both);
	tcase_set_timeout(t, 20);
	tcase_add_loop_test(t, a_request_ends_whichever_allocation_fails, 0,
	    ALLOCATIONS);
	tcase_add_loop_test(t, a_log_ends_whichever_allocation_fails, 0,
	    ALLOCATIONS);
	tcase_add_loop_test(t, a_watch_ends_or_sees_whichever_allocation_fails,
	    0, ALLOCATIONS);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
