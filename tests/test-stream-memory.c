/* SPDX-License-Identifier: Apache-2.0 */
/* A command through a stream, with each of its allocations failing in turn. */
#include "fail-alloc.h"
#include "../buf.c"
#define grow loop_grow
#include "../loop.c"
#include "../budget.h"
#define LIMIT_PING_MS 40
#include "../stream.c"
#define release exec_release
#define end exec_end
#include "../exec.c"
#undef release
#undef end

#include <check.h>

#include "scripted.h"
#include "suite.h"

enum { ALLOCATIONS = 60 };

struct seen {
	bool opened, ended;
	struct error why;
	long code;
	size_t bytes;
	struct exec *e;
};

static void
serve(int fd, int nth)
{
	char req[4096];
	struct buf data;
	int op;

	(void)nth;
	alloc_left = -1;
	get_request(fd, req, sizeof(req));
	put_upgrade(fd, req, V5);
	put_text(fd, 1, "output");
	buf_init(&data, 1 << 20);
	while ((op = get_frame(fd, &data)) != 8 && op != -1) {
		if (op != 2 || (unsigned char)data.data[0] != CHANNEL_CLOSE)
			continue;
		put_text(fd, 3, "{\"status\":\"Success\"}");
		put_goodbye(fd, NORMAL);
	}
}

static void
on_event(void *arg, const struct event *ev)
{
	struct seen *s = arg;

	ck_assert(!s->ended);
	if (ev->type == EVENT_OPEN) {
		s->opened = true;
		exec_write(s->e, "input", 5);
		exec_write_end(s->e);
	} else if (ev->type == EVENT_DATA) {
		s->bytes += ev->len;
	} else {
		s->ended = true;
		s->code = ev->code;
		if (ev->err != NULL)
			s->why = *ev->err;
	}
}

START_TEST(ends_with_an_error_whichever_allocation_fails)
{
	static const char *const argv[] = { "cat", NULL };
	struct exec_req req = { .namespace = "ns", .pod = "p",
	    .argv = argv, .input = true };
	long until = mono_ms() + 5000;
	struct seen s = { 0 };
	struct server server;
	struct error err;
	struct client c;

	server_start(&server, serve, false);
	client_open(&c, &server);
	alloc_left = _i;
	s.e = exec_open(c.k, &req, on_event, &s);
	if (s.e == NULL)
		s.ended = true;
	/* Waiting that has no memory is tried again, as the program does. */
	while (!s.ended && mono_ms() < until)
		if (loop_turn(c.loop, 20, &err) == -1)
			alloc_left = -1;
	if (alloc_left > 0)
		ck_assert_msg(s.why.code == ERR_NONE, "%s", s.why.text);
	/* The last one must have got by, or there are more to try. */
	ck_assert(_i < ALLOCATIONS - 1 || alloc_left > 0);
	ck_assert_msg(s.ended, "no end after %d allocations", _i);
	if (s.e != NULL && s.why.code == ERR_NONE)
		ck_assert_uint_eq(s.bytes, 6);
	alloc_left = -1;
	client_turn(&c, 0);
	client_close(&c);
	server_stop(&server);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("stream-memory");
	TCase *t = tcase_create("stream-memory");

	tcase_set_timeout(t, 30);
	tcase_add_loop_test(t, ends_with_an_error_whichever_allocation_fails,
	    0, ALLOCATIONS);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
