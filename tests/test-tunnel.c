/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include <errno.h>
#include <poll.h>

#include "scripted.h"
#include "suite.h"
#include "../budget.h"
#include "../tunnel.h"

#define V4 "v4.channel.k8s.io"
#define PORT "\x90\x1f"		/* 8080 */

struct seen {
	struct client c;
	struct tunnel *t;
	/* A request through it. */
	bool done;
	long status;
	char body[64];
	struct error why;
	/* Or bytes of ours. */
	int fd;
	struct loop_fd *ready;
	size_t to_send, sent, received, expected;
	int slow;		/* read only every so many turns */
	bool closed, wrong;
};

static void
begin(struct seen *s, struct server *server, serve_fn *serve)
{
	server_start(server, serve, true);
	client_open(&s->c, server);
	s->t = tunnel_open(s->c.k, "ns", "p-1", 8080);
	ck_assert_ptr_nonnull(s->t);
}

static void
finish(struct seen *s, struct server *server)
{
	tunnel_close(s->t);
	client_turn(&s->c, 100);
	client_close(&s->c);
	server_stop(server);
}

static void
greet(int fd)
{
	char req[4096];

	get_request(fd, req, sizeof(req));
	if (strstr(req, "GET /api/v1/namespaces/ns/pods/p-1/portforward"
	    "?ports=8080 HTTP/1.1\r\n") == NULL)
		_exit(1);
	put_upgrade(fd, req, V4);
	put_message(fd, 0, PORT, 2);
	put_message(fd, 1, PORT, 2);
}

/* A web server in the pod, behind the port forward. */
static void
serve_http(int fd, int nth)
{
	static const char answer[] =
	    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
	struct buf data;
	int op;

	(void)nth;
	greet(fd);
	buf_init(&data, 1 << 20);
	while ((op = get_frame(fd, &data)) != -1) {
		if (op == 8)
			put_goodbye(fd, 1000);
		if (op != 2 || data.data[0] != 0 ||
		    memmem(data.data, data.len, "\r\n\r\n", 4) == NULL)
			continue;
		put_message(fd, 0, answer, 20);
		put_message(fd, 0, answer + 20, sizeof(answer) - 1 - 20);
	}
}

static void
on_reply(void *arg, const struct event *ev)
{
	struct seen *s = arg;

	ck_assert_int_eq(ev->type, EVENT_REPLY);
	s->status = ev->status;
	snprintf(s->body, sizeof(s->body), "%s", ev->data);
	if (ev->err != NULL)
		s->why = *ev->err;
	s->done = true;
}

static void
get(struct seen *s)
{
	struct web_req req = {
		.method = "GET", .url = "http://127.77.0.1:8080/x",
		.open_socket = tunnel_socket, .open_arg = s->t
	};
	struct error err = { 0 };

	s->done = false;
	ck_assert_ptr_nonnull(web_send(s->c.web, &req, on_reply, s, &err));
}

START_TEST(carries_http_again_and_again_on_one_stream)
{
	struct server server;
	struct seen s = { 0 };

	begin(&s, &server, serve_http);
	for (int i = 0; i < 3; i++) {
		get(&s);
		client_wait(&s.c, &s.done);
		ck_assert_msg(s.why.code == ERR_NONE, "%s", s.why.text);
		ck_assert_int_eq(s.status, 200);
		ck_assert_str_eq(s.body, "hello");
	}
	ck_assert_int_eq(*server.connections, 1);
	ck_assert_ptr_null(tunnel_error(s.t));
	finish(&s, &server);
}
END_TEST

START_TEST(opens_a_stream_for_each_socket)
{
	struct seen s = { 0 }, more[4];
	struct server server;

	begin(&s, &server, serve_http);
	for (int i = 0; i < 4; i++) {
		more[i] = s;
		get(&more[i]);
	}
	for (int i = 0; i < 4; i++) {
		client_wait(&s.c, &more[i].done);
		ck_assert_str_eq(more[i].body, "hello");
	}
	ck_assert_int_eq(*server.connections, 4);
	finish(&s, &server);
}
END_TEST

/* Goes away at first: nothing was done yet, so there is no harm in asking. */
static void
serve_later(int fd, int nth)
{
	char req[4096];

	if (nth >= 2)
		serve_http(fd, nth);
	else if (nth == 1)
		get_request(fd, req, sizeof(req));
}

START_TEST(tries_again_until_the_stream_is_open)
{
	struct server server;
	struct seen s = { 0 };

	begin(&s, &server, serve_later);
	get(&s);
	client_wait(&s.c, &s.done);
	ck_assert_msg(s.why.code == ERR_NONE, "%s", s.why.text);
	ck_assert_str_eq(s.body, "hello");
	ck_assert_int_eq(*server.connections, 3);
	finish(&s, &server);
}
END_TEST

static void
serve_no_port(int fd, int nth)
{
	(void)nth;
	greet(fd);
	put_text(fd, 1, "error forwarding port 8080 to pod 01ab, uid : failed "
	    "to execute portforward in network namespace \"/var/run/netns/x\""
	    ": dial tcp4 127.0.0.1:8080: connect: connection refused");
	put_goodbye(fd, 1000);
}

static void
serve_gone(int fd, int nth)
{
	char req[4096];

	(void)nth;
	get_request(fd, req, sizeof(req));
	put_answer(fd, 404, "{\"kind\":\"Status\",\"code\":404,\"reason\":"
	    "\"NotFound\",\"message\":\"pods \\\"p-1\\\" not found\"}");
	linger(fd);
}

static void
serve_strange_channel(int fd, int nth)
{
	(void)nth;
	greet(fd);
	put_text(fd, 7, "x");
	linger(fd);
}

static void
serve_going_away(int fd, int nth)
{
	(void)nth;
	greet(fd);
	put_goodbye(fd, 1001);
}

static const struct {
	serve_fn *serve;
	enum error_code code;
	const char *words;
} failures[] = {
	{ serve_no_port, ERR_LOST,
	    "port 8080 of pod p-1: connection refused" },
	{ serve_gone, ERR_GONE, "pods \"p-1\" not found" },
	{ serve_going_away, ERR_LOST, "1001" },
	{ serve_strange_channel, ERR_CLUSTER, "unknown channel" },
};

START_TEST(knows_why_a_socket_was_closed)
{
	const struct error *why;
	struct server server;
	struct seen s = { 0 };

	begin(&s, &server, failures[_i].serve);
	get(&s);
	client_wait(&s.c, &s.done);
	ck_assert_int_eq(s.why.code, ERR_LOST);
	why = tunnel_error(s.t);
	ck_assert_ptr_nonnull(why);
	ck_assert_int_eq(why->code, failures[_i].code);
	ck_assert_msg(strstr(why->text, failures[_i].words) != NULL, "%s",
	    why->text);
	ck_assert_ptr_null(strstr(why->text, "127.0.0.1"));
	finish(&s, &server);
}
END_TEST

/* --- bytes -------------------------------------------------------------- */

static void
on_ready(void *arg, short revents)
{
	struct seen *s = arg;
	char block[64 << 10];
	ssize_t n;

	if ((revents & POLLOUT) != 0 && s->sent < s->to_send) {
		for (size_t i = 0; i < sizeof(block); i++)
			block[i] = (char)((s->sent + i) % 251);
		n = (ssize_t)(s->to_send - s->sent);
		n = write(s->fd, block, n < (ssize_t)sizeof(block) ?
		    (size_t)n : sizeof(block));
		if (n > 0)
			s->sent += (size_t)n;
	}
	if ((revents & (POLLIN | POLLHUP)) != 0) {
		n = read(s->fd, block, s->slow ? 999 : sizeof(block));
		for (ssize_t i = 0; i < n; i++)
			if (block[i] != (char)((s->received + (size_t)i) % 251))
				s->wrong = true;
		if (n > 0)
			s->received += (size_t)n;
		if (n == 0 || (n == -1 && errno != EAGAIN))
			s->closed = true;
	}
	loop_fd_want(s->ready, (short)((s->closed ? 0 : POLLIN) |
	    (s->sent < s->to_send ? POLLOUT : 0)));
	s->done = s->received >= s->expected || s->closed;
}

static void
pump(struct seen *s)
{
	s->fd = tunnel_socket(s->t);
	ck_assert_int_ge(s->fd, 0);
	s->ready = loop_fd_add(s->c.loop, s->fd, POLLIN | POLLOUT, on_ready,
	    s);
	client_wait(&s->c, &s->done);
	ck_assert(!s->wrong);
}

static void
serve_echo(int fd, int nth)
{
	struct buf data;
	int op;

	(void)nth;
	greet(fd);
	buf_init(&data, 1 << 20);
	while ((op = get_frame(fd, &data)) != -1 && op != 8)
		if (op == 2)
			put_message(fd, 0, data.data + 1, data.len - 1);
}

START_TEST(carries_any_amount_both_ways)
{
	struct server server;
	struct seen s = { .to_send = 20 << 20, .expected = 20 << 20 };

	begin(&s, &server, serve_echo);
	pump(&s);
	ck_assert_uint_eq(s.received, s.expected);
	loop_fd_del(s.ready);
	close(s.fd);
	finish(&s, &server);
}
END_TEST

/* LATE is more than the kernel's buffers hold. */
enum { BURST = 4 << 20, LATE = 32 << 20, BLOCK = 32 << 10 };

/* All at once, then the end: nobody may lose the tail. */
static void
serve_burst(int fd, int nth)
{
	char block[BLOCK];

	(void)nth;
	greet(fd);
	for (size_t at = 0; at < BURST; at += BLOCK) {
		for (size_t i = 0; i < BLOCK; i++)
			block[i] = (char)((at + i) % 251);
		put_message(fd, 0, block, BLOCK);
	}
	put_goodbye(fd, 1000);
}

START_TEST(waits_for_a_slow_reader_and_loses_nothing)
{
	struct server server;
	struct seen s = { .expected = SIZE_MAX, .slow = 1 };

	begin(&s, &server, serve_burst);
	pump(&s);
	ck_assert(s.closed);
	ck_assert_uint_eq(s.received, BURST);
	loop_fd_del(s.ready);
	close(s.fd);
	finish(&s, &server);
}
END_TEST

/* Reads nothing for a while: what is written must wait in the socket. */
static void
serve_late(int fd, int nth)
{
	struct buf data;
	size_t n = 0;

	(void)nth;
	greet(fd);
	usleep(500000);
	buf_init(&data, 1 << 20);
	while (n < LATE && get_frame(fd, &data) == 2) {
		for (size_t i = 1; i < data.len; i++)
			if (data.data[i] != (char)((n + i - 1) % 251))
				_exit(3);
		n += data.len - 1;
	}
	put_message(fd, 0, "\0", 1);
	linger(fd);
}

START_TEST(waits_for_a_slow_pod)
{
	struct server server;
	struct seen s = { .to_send = LATE, .expected = 1 };

	begin(&s, &server, serve_late);
	s.fd = tunnel_socket(s.t);
	s.ready = loop_fd_add(s.c.loop, s.fd, POLLIN | POLLOUT, on_ready, &s);
	client_turn(&s.c, 200);
	ck_assert_uint_lt(s.sent, LATE);
	client_wait(&s.c, &s.done);
	ck_assert_uint_eq(s.sent, LATE);
	ck_assert_uint_eq(s.received, 1);
	loop_fd_del(s.ready);
	close(s.fd);
	finish(&s, &server);
}
END_TEST

/* Answers only when the client has no more to say: it never hears of it. */
static void
serve_after(int fd, int nth)
{
	struct buf data;

	(void)nth;
	greet(fd);
	buf_init(&data, 1 << 20);
	if (get_frame(fd, &data) != 2)
		_exit(1);
	usleep(100000);
	put_message(fd, 0, "\x00\x01\x02", 3);
	linger(fd);
}

START_TEST(goes_on_reading_when_the_other_half_is_closed)
{
	struct server server;
	struct seen s = { .to_send = 10, .expected = 3 };

	begin(&s, &server, serve_after);
	s.fd = tunnel_socket(s.t);
	s.ready = loop_fd_add(s.c.loop, s.fd, POLLIN | POLLOUT, on_ready, &s);
	while (s.sent < s.to_send)
		client_turn(&s.c, 10);
	shutdown(s.fd, SHUT_WR);
	client_wait(&s.c, &s.done);
	ck_assert_uint_eq(s.received, 3);
	ck_assert(!s.closed);
	loop_fd_del(s.ready);
	close(s.fd);
	finish(&s, &server);
}
END_TEST

START_TEST(is_closed_with_sockets_in_use)
{
	struct server server;
	struct seen s = { .to_send = 1 << 20, .expected = 1 << 18 };
	char block[4096];
	ssize_t n;

	begin(&s, &server, serve_echo);
	pump(&s);
	loop_fd_del(s.ready);
	finish(&s, &server);
	/* What was under way may still be read; then comes the end. */
	while ((n = recv(s.fd, block, sizeof(block), MSG_DONTWAIT)) > 0)
		;
	ck_assert(n == 0 || errno == ECONNRESET);
	close(s.fd);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("tunnel");
	TCase *t = tcase_create("tunnel");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, carries_http_again_and_again_on_one_stream);
	tcase_add_test(t, opens_a_stream_for_each_socket);
	tcase_add_test(t, tries_again_until_the_stream_is_open);
	tcase_add_loop_test(t, knows_why_a_socket_was_closed, 0, 4);
	tcase_add_test(t, carries_any_amount_both_ways);
	tcase_add_test(t, waits_for_a_slow_reader_and_loses_nothing);
	tcase_add_test(t, waits_for_a_slow_pod);
	tcase_add_test(t, goes_on_reading_when_the_other_half_is_closed);
	tcase_add_test(t, is_closed_with_sockets_in_use);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
