/* SPDX-License-Identifier: Apache-2.0 */
/* The module itself, on a clock that runs faster. */
#include "../budget.h"
#define LIMIT_PING_MS 60
#include "../stream.c"

#include <check.h>

#include <fcntl.h>

#include "scripted.h"
#include "suite.h"

#define V4 "v4.channel.k8s.io"

struct seen {
	struct client c;
	struct stream *s;
	bool opened, ended, room, data;
	struct error why;
	char text[64];
	size_t bytes;
};

static void
on_event(void *arg, const struct event *ev)
{
	struct seen *s = arg;

	if (ev->type == EVENT_OPEN) {
		snprintf(s->text, sizeof(s->text), "%.*s", (int)ev->len,
		    ev->data);
		s->opened = true;
	} else if (ev->type == EVENT_DATA) {
		s->bytes += ev->len;
		s->data = true;
	} else {
		ck_assert_int_eq(ev->type, EVENT_END);
		if (ev->err != NULL)
			s->why = *ev->err;
		s->ended = true;
	}
}

static void
on_space(void *arg)
{
	struct seen *s = arg;

	s->room = true;
}

static void
start(struct seen *s, struct server *server, serve_fn *serve)
{
	server_start(server, serve, false);
	client_open(&s->c, server);
	s->s = stream_open(s->c.k, "/x?y=z", V4, on_event, s);
	ck_assert_ptr_nonnull(s->s);
	stream_on_room(s->s, on_space, s);
	client_wait(&s->c, &s->opened);
	ck_assert_str_eq(s->text, V4);
}

static void
finish(struct seen *s, struct server *server)
{
	if (!s->ended)
		stream_close(s->s);
	client_close(&s->c);
	server_stop(server);
}

static void
greet(int fd)
{
	char req[4096];

	get_request(fd, req, sizeof(req));
	put_upgrade(fd, req, V4);
}

static void
serve_deaf(int fd, int nth)
{
	(void)nth;
	greet(fd);
	linger(fd);
}

START_TEST(gives_up_when_two_pings_are_not_answered)
{
	struct server server;
	struct seen s = { 0 };

	start(&s, &server, serve_deaf);
	client_wait(&s.c, &s.ended);
	ck_assert_int_eq(s.why.code, ERR_LOST);
	ck_assert_ptr_nonnull(strstr(s.why.text, "ping"));
	finish(&s, &server);
}
END_TEST

/* Answers ten pings, then speaks. */
static void
serve_pongs(int fd, int nth)
{
	struct buf data;
	int op, n = 0;

	(void)nth;
	greet(fd);
	buf_init(&data, 1 << 20);
	while (n < 10 && (op = get_frame(fd, &data)) != -1) {
		if (op != 9)
			continue;
		put_frame(fd, 10, data.data, data.len);
		n++;
	}
	put_text(fd, 1, "still here");
	linger(fd);
}

/* users.md 3 */
START_TEST(stays_open_as_long_as_pings_are_answered)
{
	struct server server;
	struct seen s = { 0 };

	start(&s, &server, serve_pongs);
	client_wait(&s.c, &s.data);
	ck_assert(!s.ended);
	ck_assert_uint_eq(s.bytes, 10);
	finish(&s, &server);
}
END_TEST

/* As one whose program does not read its stdin: pings wait behind it. */
static void
serve_stuck(int fd, int nth)
{
	struct buf data;

	(void)nth;
	greet(fd);
	usleep(600000);
	buf_init(&data, 1 << 20);
	while (get_frame(fd, &data) == 2)
		;
	put_text(fd, 1, "done");
	linger(fd);
}

START_TEST(waits_for_a_server_that_is_stuck_on_our_data)
{
	struct server server;
	struct seen s = { 0 };

	start(&s, &server, serve_stuck);
	ck_assert_int_eq(stream_send(s.s, 0, "input", 5), 0);
	while (!s.data && !s.ended)
		client_turn(&s.c, 20);
	ck_assert_msg(!s.ended, "%s", s.why.text);
	finish(&s, &server);
}
END_TEST

enum { FRAMES = 500, FRAME = 8192 };

static void
serve_flood(int fd, int nth)
{
	static const char block[FRAME];

	(void)nth;
	greet(fd);
	for (int i = 0; i < FRAMES; i++)
		put_message(fd, 0, block, FRAME);
	put_goodbye(fd, 1000);
}

START_TEST(reads_nothing_while_it_is_paused_and_all_of_it_later)
{
	struct server server;
	struct seen s = { 0 };
	size_t before;

	start(&s, &server, serve_flood);
	client_wait(&s.c, &s.data);
	stream_pause(s.s, 1);
	before = s.bytes;
	client_turn(&s.c, 400);
	ck_assert_uint_le(s.bytes - before, CHUNK + FRAME);
	ck_assert_uint_lt(s.bytes, FRAMES * FRAME);
	ck_assert(!s.ended);
	stream_pause(s.s, 0);
	client_wait(&s.c, &s.ended);
	ck_assert_uint_eq(s.bytes, FRAMES * FRAME);
	ck_assert_int_eq(s.why.code, ERR_NONE);
	finish(&s, &server);
}
END_TEST

START_TEST(holds_a_bounded_amount_and_says_when_there_is_room)
{
	static char block[64 << 10];
	struct server server;
	struct seen s = { 0 };
	size_t sent = 0;

	start(&s, &server, serve_stuck);
	while (stream_send(s.s, 0, block, sizeof(block)) == 0) {
		sent += sizeof(block);
		ck_assert_uint_lt(sent, 64u << 20);
	}
	ck_assert_uint_lt(stream_room(s.s), sizeof(block));
	ck_assert_uint_le(queued(s.s), LIMIT_PUMP + 16);
	ck_assert(!s.room);
	client_wait(&s.c, &s.room);
	ck_assert_uint_ge(stream_room(s.s), LIMIT_PUMP / 2);
	finish(&s, &server);
}
END_TEST

/* Tells its exit status that the goodbye came. */
static void
serve_goodbye(int fd, int nth)
{
	struct buf data;
	int op;

	(void)nth;
	greet(fd);
	buf_init(&data, 1 << 20);
	put_text(fd, 1, "hello");
	while ((op = get_frame(fd, &data)) != 8)
		if (op == -1)
			_exit(9);
	if (data.len != 2 || memcmp(data.data, "\x03\xe8", 2) != 0)
		_exit(8);
	_exit(42);
}

START_TEST(says_goodbye_when_it_is_closed)
{
	struct server server;
	struct seen s = { 0 };
	int status;

	start(&s, &server, serve_goodbye);
	client_wait(&s.c, &s.data);
	stream_close(s.s);
	client_turn(&s.c, 200);
	ck_assert_int_eq(waitpid(server.pid, &status, WNOHANG), server.pid);
	ck_assert_int_eq(WEXITSTATUS(status), 42);
	ck_assert(!s.ended);
	client_close(&s.c);
	munmap(server.connections, sizeof(int));
}
END_TEST

START_TEST(may_be_closed_before_it_is_open)
{
	struct server server;
	struct seen s = { 0 };

	server_start(&server, serve_deaf, false);
	client_open(&s.c, &server);
	s.s = stream_open(s.c.k, "/x", V4, on_event, &s);
	for (int i = 0; i < _i; i++)
		client_turn(&s.c, 0);
	stream_close(s.s);
	client_turn(&s.c, 50);
	client_close(&s.c);
	ck_assert(!s.ended && !s.opened);
	server_stop(&server);
}
END_TEST

/* Only the second token is any good. */
static void
serve_new_token(int fd, int nth)
{
	char req[4096];

	(void)nth;
	get_request(fd, req, sizeof(req));
	if (strstr(req, "Authorization: Bearer second\r\n") == NULL) {
		put_answer(fd, 401, "{\"kind\":\"Status\",\"code\":401,"
		    "\"message\":\"Unauthorized\"}");
		linger(fd);
		return;
	}
	put_upgrade(fd, req, V4);
	put_text(fd, 1, "welcome");
	linger(fd);
}

static void
write_token(const char *path, const char *token)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_gt(write(fd, token, strlen(token)), 0);
	close(fd);
}

START_TEST(reads_its_token_again_when_it_is_refused)
{
	char path[] = "/tmp/test-stream-XXXXXX";
	struct error err = { 0 };
	struct server server;
	struct seen s = { 0 };

	close(mkstemp(path));
	write_token(path, "first");
	server_start(&server, serve_new_token, false);
	client_open(&s.c, &server);
	k8s_close(s.c.k);
	s.c.kc.token_file = path;
	s.c.k = k8s_open(s.c.loop, s.c.web, &s.c.kc, &err);
	ck_assert_msg(s.c.k != NULL, "%s", err.text);
	write_token(path, _i == 0 ? "second" : "third");
	s.s = stream_open(s.c.k, "/x", V4, on_event, &s);
	while (!s.data && !s.ended)
		client_turn(&s.c, 10);
	if (_i == 1)
		ck_assert_int_eq(s.why.code, ERR_DENIED);
	else
		ck_assert_msg(s.data, "%s", s.why.text);
	finish(&s, &server);
	unlink(path);
}
END_TEST

START_TEST(ends_with_an_error_when_nothing_listens)
{
	struct server server;
	struct seen s = { 0 };

	server_start(&server, serve_deaf, false);
	client_open(&s.c, &server);
	kill(-server.pid, SIGKILL);
	waitpid(server.pid, NULL, 0);
	s.s = stream_open(s.c.k, "/x", V4, on_event, &s);
	client_wait(&s.c, &s.ended);
	ck_assert_int_eq(s.why.code, ERR_LOST);
	client_close(&s.c);
	munmap(server.connections, sizeof(int));
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("stream");
	TCase *t = tcase_create("stream");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, gives_up_when_two_pings_are_not_answered);
	tcase_add_test(t, stays_open_as_long_as_pings_are_answered);
	tcase_add_test(t, waits_for_a_server_that_is_stuck_on_our_data);
	tcase_add_test(t, reads_nothing_while_it_is_paused_and_all_of_it_later);
	tcase_add_test(t, holds_a_bounded_amount_and_says_when_there_is_room);
	tcase_add_test(t, says_goodbye_when_it_is_closed);
	tcase_add_loop_test(t, may_be_closed_before_it_is_open, 0, 4);
	tcase_add_loop_test(t, reads_its_token_again_when_it_is_refused, 0, 2);
	tcase_add_test(t, ends_with_an_error_when_nothing_listens);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
