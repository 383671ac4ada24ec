/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../error.h"
#include "../budget.h"
#include "../loop.h"
#include "../web.h"
#include "server.h"
#include "suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define OK(body, n) "HTTP/1.1 200 OK\r\nContent-Length: " n "\r\n\r\n" body

struct got {
	struct web_op *op;
	int replies, pieces, opens, ends;
	long status;
	char body[65536];
	size_t len;
	enum error_code code;
	char text[768];
	char field[64];
	bool sent, cancel_on_data, pause_on_data;
};

static struct loop *loop;
static struct web *web;
static struct server server;
static struct error err;
static struct got got;
static char url[128];

static void
setup(void)
{
	memset(&got, 0, sizeof(got));
	loop = loop_open(&err);
	ck_assert_ptr_nonnull(loop);
	web = web_open(loop, &err);
	ck_assert_ptr_nonnull(web);
}

static void
teardown(void)
{
	if (server.watch != NULL)
		server_close(&server);
	server.watch = NULL;
	web_close(web);
	loop_close(loop);
}

static void
serve(const struct answer *script, size_t count)
{
	server_open(&server, loop, script, count);
	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/x", server.port);
}

static void
keep(struct got *g, const struct event *ev)
{
	ck_assert_uint_lt(g->len + ev->len, sizeof(g->body));
	memcpy(g->body + g->len, ev->data, ev->len);
	g->len += ev->len;
	g->body[g->len] = '\0';
}

static void
on_event(void *arg, const struct event *ev)
{
	struct got *g = arg;

	switch (ev->type) {
	case EVENT_DATA:
		g->pieces++;
		keep(g, ev);
		if (g->pause_on_data)
			web_pause(g->op);
		if (g->cancel_on_data)
			web_cancel(g->op);
		break;
	case EVENT_OPEN:
		g->opens++;
		break;
	case EVENT_REPLY:
		g->replies++;
		g->sent = web_sent(g->op);
		keep(g, ev);
		(void)snprintf(g->field, sizeof(g->field), "%s",
		    web_field(g->op, "x-field"));
		break;
	default:
		g->ends++;
	}
	g->status = ev->status;
	if (ev->err != NULL) {
		g->code = ev->err->code;
		(void)snprintf(g->text, sizeof(g->text), "%s", ev->err->text);
	}
}

static void
turn(long ms)
{
	ck_assert_int_eq(loop_turn(loop, ms, &err), 0);
}

static void
start(struct got *g, const struct web_req *req)
{
	g->op = web_send(web, req, on_event, g, &err);
	ck_assert_msg(g->op != NULL, "%s", err.text);
	ck_assert_int_eq(g->replies + g->pieces, 0);
}

static void
finish(struct got *g)
{
	while (g->replies + g->ends == 0)
		turn(5000);
}

static void
fetch(const char *method)
{
	struct web_req req = { .method = method, .url = url };

	memset(&got, 0, sizeof(got));
	start(&got, &req);
	finish(&got);
}

/* --- plain ------------------------------------------------------------- */

START_TEST(brings_status_body_and_fields)
{
	static const struct answer script[] = { { "HTTP/1.1 404 No\r\n"
	    "X-Field:  some value \r\nContent-Length: 5\r\n\r\nhello",
	    .piece = 1 } };

	serve(script, COUNT(script));
	fetch("GET");
	ck_assert_int_eq(got.status, 404);
	ck_assert_str_eq(got.body, "hello");
	ck_assert_str_eq(got.field, "some value");
	ck_assert_int_eq(got.code, ERR_NONE);
	ck_assert(got.sent);
}
END_TEST

START_TEST(a_trailer_is_a_field)
{
	static const struct answer script[] = { { "HTTP/1.1 200 OK\r\n"
	    "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"
	    "X-Field: late\r\n\r\n" } };

	serve(script, COUNT(script));
	fetch("GET");
	ck_assert_str_eq(got.body, "ok");
	ck_assert_str_eq(got.field, "late");
}
END_TEST

START_TEST(sends_only_what_it_was_given)
{
	static const struct answer script[] = { { OK("", "0") } };
	const char *headers[] = { "Accept: a/b", "Content-Type: c/d", NULL };
	struct web_req req = { .method = "PATCH", .headers = headers,
	    .body = "{}", .body_len = 2 };
	char want[256];

	serve(script, COUNT(script));
	req.url = url;
	start(&got, &req);
	finish(&got);
	(void)snprintf(want, sizeof(want), "PATCH /x HTTP/1.1\r\n"
	    "Host: 127.0.0.1:%u\r\nAccept: a/b\r\nContent-Type: c/d\r\n"
	    "Content-Length: 2\r\n\r\n{}", server.port);
	ck_assert_str_eq(server.last, want);
}
END_TEST

START_TEST(a_connection_is_kept_and_used_again)
{
	static const struct answer script[] = { { OK("a", "1") },
	    { OK("b", "1") }, { OK("c", "1") } };
	struct web_req req = { .method = "GET", .url = url, .fresh = true };

	serve(script, COUNT(script));
	fetch("GET");
	fetch("GET");
	ck_assert_uint_eq(server.accepted, 1);
	memset(&got, 0, sizeof(got));
	start(&got, &req);
	finish(&got);
	ck_assert_uint_eq(server.accepted, 2);
}
END_TEST

START_TEST(many_go_on_at_once)
{
	struct answer script[8] = { { NULL } };
	struct web_req req = { .method = "GET", .url = url };
	struct got *g = calloc(8, sizeof(*g));
	size_t i;

	for (i = 0; i < 8; i++)
		script[i].bytes = OK("a", "1");
	serve(script, 8);
	for (i = 0; i < 8; i++)
		start(&g[i], &req);
	for (i = 0; i < 8; i++)
		finish(&g[i]);
	for (i = 0; i < 8; i++)
		ck_assert_str_eq(g[i].body, "a");
	ck_assert_uint_eq(server.accepted, 8);
	free(g);
}
END_TEST

static const char *const methods[] = { "GET", "DELETE", "POST", "PATCH" };

START_TEST(nothing_is_sent_twice_when_a_connection_ends)
{
	static const struct answer script[] = { { OK("a", "1") }, { NULL },
	    { OK("twice", "5") }, { OK("b", "1") } };
	struct web_req req = { .method = methods[_i], .url = url };

	if (_i >= 2) {
		req.body = "{}";
		req.body_len = 2;
	}
	serve(script, COUNT(script));
	fetch("GET");
	memset(&got, 0, sizeof(got));
	start(&got, &req);
	finish(&got);
	ck_assert_uint_eq(server.at, 2);
	ck_assert_int_eq(got.code, ERR_LOST);
	ck_assert(got.sent);
}
END_TEST

START_TEST(a_connection_found_closed_is_not_used)
{
	static const struct answer script[] = {
	    { OK("a", "1"), .close = true }, { OK("b", "1") } };
	int i;

	serve(script, COUNT(script));
	fetch("GET");
	for (i = 0; i < 5; i++)
		turn(0);
	fetch("POST");
	ck_assert_str_eq(got.body, "b");
	ck_assert_int_eq(got.code, ERR_NONE);
}
END_TEST

START_TEST(says_that_nothing_left_when_nobody_listens)
{
	int fd;

	serve(NULL, 0);
	fd = server.fd;
	loop_fd_del(server.watch);
	server.watch = NULL;
	close(fd);
	fetch("POST");
	ck_assert_int_eq(got.code, ERR_LOST);
	ck_assert(!got.sent);
	ck_assert_str_eq(got.text, "can't connect: Connection refused");
}
END_TEST

static const struct {
	struct answer answer;
	size_t max;
	enum error_code code;
	const char *text;
} bad[] = {
	{ { OK("hell", "5"), .close = true }, 0, ERR_LOST,
	    "the connection ended in the middle of the answer" },
	{ { NULL }, 0, ERR_LOST,
	    "the connection ended before the answer was whole" },
	{ { OK("hello", "5") }, 4, ERR_LIMIT,
	    "the answer is longer than 4 bytes" },
	{ { "SSH-2.0-x\r\n\r\n", .close = true }, 0, ERR_CLUSTER,
	    "the answer is not HTTP" },
	{ { "" }, 0, ERR_TIMEOUT, "no answer within 1 s" },
	{ { OK("hell", "5") }, 0, ERR_TIMEOUT,
	    "the answer stopped coming for 1 s" },
};

START_TEST(says_what_is_wrong_with_an_answer)
{
	struct web_req req = { .method = "GET", .url = url,
	    .max_body = bad[_i].max, .first_byte_ms = 60, .idle_ms = 60 };

	serve(&bad[_i].answer, 1);
	start(&got, &req);
	finish(&got);
	ck_assert_str_eq(got.text, bad[_i].text);
	ck_assert_int_eq(got.code, bad[_i].code);
	ck_assert(got.sent);
}
END_TEST

START_TEST(header_fields_have_a_limit)
{
	char *bytes = malloc(LIMIT_HEADERS * 2);
	struct answer answer = { bytes };
	size_t at;

	at = (size_t)sprintf(bytes, "HTTP/1.1 200 OK\r\n");
	while (at < LIMIT_HEADERS + 100)
		at += (size_t)sprintf(bytes + at, "X-%zu: %0900d\r\n", at, 0);
	strcpy(bytes + at, "Content-Length: 0\r\n\r\n");
	serve(&answer, 1);
	fetch("GET");
	ck_assert_int_eq(got.code, ERR_LIMIT);
	free(bytes);
}
END_TEST

START_TEST(the_whole_has_a_limit_too)
{
	static const struct answer script[] = { { "" } };
	struct web_req req = { .method = "GET", .url = url, .total_ms = 30 };

	serve(script, COUNT(script));
	start(&got, &req);
	finish(&got);
	ck_assert_int_eq(got.code, ERR_TIMEOUT);
	ck_assert_str_eq(got.text, "not finished within 1 s");
}
END_TEST

START_TEST(slow_bytes_are_not_silence)
{
	static const struct answer script[] = { { OK("0123456789012345678901",
	    "22"), .piece = 1 } };
	struct web_req req = { .method = "GET", .url = url,
	    .first_byte_ms = 5000, .idle_ms = 2000 };

	serve(script, COUNT(script));
	start(&got, &req);
	finish(&got);
	ck_assert_int_eq(got.code, ERR_NONE);
	ck_assert_uint_eq(got.len, 22);
}
END_TEST

START_TEST(a_redirect_is_an_answer)
{
	static const struct answer script[] = { { "HTTP/1.1 302 Found\r\n"
	    "Location: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n" } };

	serve(script, COUNT(script));
	fetch("GET");
	ck_assert_int_eq(got.status, 302);
	ck_assert_int_eq(got.code, ERR_NONE);
}
END_TEST

START_TEST(the_environment_names_no_proxy)
{
	static const struct answer script[] = { { OK("a", "1") } };

	setenv("http_proxy", "http://127.0.0.1:1", 1);
	serve(script, COUNT(script));
	fetch("GET");
	unsetenv("http_proxy");
	ck_assert_int_eq(got.code, ERR_NONE);
}
END_TEST

static const struct web_req refused[] = {
	{ .method = "GET", .url = "ftp://127.0.0.1/" },
	{ .method = "GET", .url = "file:///etc/passwd" },
	{ .method = "GET", .url = "http://127.0.0.1/\r\nX: y" },
	{ .method = "GET /\r\n", .url = "http://127.0.0.1/" },
	{ .method = "GET", .url = "http://127.0.0.1/",
	    .headers = (const char *const[]){ "A: b\r\nC: d", NULL } },
};

START_TEST(refuses_a_request_that_would_say_something_else)
{
	ck_assert_ptr_null(web_send(web, &refused[_i], on_event, &got, &err));
	ck_assert_int_eq(err.code, ERR_INPUT);
}
END_TEST

/* --- streams ----------------------------------------------------------- */

START_TEST(a_stream_comes_in_pieces)
{
	static const struct answer script[] = { { OK("abcdef", "6"),
	    .piece = 1 } };
	struct web_req req = { .method = "GET", .url = url, .stream = true };

	serve(script, COUNT(script));
	start(&got, &req);
	finish(&got);
	ck_assert_str_eq(got.body, "abcdef");
	ck_assert_int_gt(got.pieces, 1);
	ck_assert_int_eq(got.replies, 1);
	ck_assert_int_eq(got.code, ERR_NONE);
}
END_TEST

START_TEST(a_paused_stream_is_silent_until_resumed)
{
	static const struct answer script[] = { { OK("abcdef", "6"),
	    .piece = 1 } };
	struct web_req req = { .method = "GET", .url = url, .stream = true };
	int i;

	serve(script, COUNT(script));
	got.pause_on_data = true;
	start(&got, &req);
	while (got.pieces == 0)
		turn(5000);
	for (i = 0; i < 50; i++)
		turn(0);
	ck_assert_int_eq(got.pieces, 1);
	got.pause_on_data = false;
	web_resume(got.op);
	finish(&got);
	ck_assert_str_eq(got.body, "abcdef");
}
END_TEST

START_TEST(may_be_cancelled_inside_its_function)
{
	static const struct answer script[] = { { OK("abcdef", "6"),
	    .piece = 1 } };
	struct web_req req = { .method = "GET", .url = url, .stream = true };
	int i;

	serve(script, COUNT(script));
	got.cancel_on_data = true;
	start(&got, &req);
	for (i = 0; i < 100; i++)
		turn(1);
	ck_assert_int_eq(got.pieces, 1);
	ck_assert_int_eq(got.replies, 0);
}
END_TEST

START_TEST(may_be_cancelled_at_any_turn)
{
	static const struct answer script[] = { { OK("abcdef", "6"),
	    .piece = 1 } };
	struct web_req req = { .method = "GET", .url = url };
	int i;

	serve(script, COUNT(script));
	start(&got, &req);
	for (i = 0; i < _i; i++)
		turn(1);
	web_cancel(got.op);
	for (i = 0; i < 10; i++)
		turn(0);
	ck_assert_int_eq(got.replies, 0);
}
END_TEST

struct giver {
	struct web_op *op;
	int calls;
	bool give_up;
};

static long
give(void *arg, char *dst, size_t size)
{
	struct giver *g = arg;

	ck_assert_uint_ge(size, 3);
	switch (g->calls++) {
	case 0:
	case 2:
		memcpy(dst, "abc", 3);
		return 3;
	case 1:
		return -2;
	default:
		return g->give_up ? -1 : 0;
	}
}

START_TEST(a_long_body_is_asked_for_in_pieces)
{
	static const struct answer script[] = { { OK("", "0") } };
	struct giver g = { .give_up = _i == 2 };
	struct web_req req = { .method = "POST", .url = url, .give = give,
	    .give_arg = &g, .give_length = _i == 0 ? 6 : -1 };
	int i;

	serve(script, COUNT(script));
	start(&got, &req);
	while (g.calls < 2)
		turn(5000);
	for (i = 0; i < 10; i++)
		turn(0);
	ck_assert_int_eq(g.calls, 2);
	web_resume(got.op);
	finish(&got);
	if (_i == 2) {
		ck_assert_int_eq(got.code, ERR_CANCELLED);
		return;
	}
	ck_assert_int_eq(got.code, ERR_NONE);
	ck_assert_ptr_nonnull(strstr(server.last, _i == 0 ? "\r\n\r\nabcabc" :
	    "3\r\nabc\r\n3\r\nabc\r\n0\r\n\r\n"));
}
END_TEST

/* --- other sockets ----------------------------------------------------- */

static int
take(void *arg)
{
	int *fd = arg, taken = *fd;

	*fd = -1;
	return taken;
}

START_TEST(takes_a_socket_it_is_given)
{
	int pair[2];
	struct web_req req = { .method = "GET", .url = "http://10.9.8.7:6/",
	    .open_socket = take, .open_arg = &pair[0] };
	char buf[512];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC |
	    SOCK_NONBLOCK, 0, pair), 0);
	start(&got, &req);
	while (read(pair[1], buf, sizeof(buf)) <= 0)
		turn(5);
	ck_assert_int_eq(write(pair[1], OK("a", "1"), 41 - 1), 40);
	while (got.replies == 0)
		turn(5);
	ck_assert_str_eq(got.body, "a");
	close(pair[1]);
}
END_TEST

START_TEST(a_socket_that_cannot_be_opened_is_an_error)
{
	int none = -1;
	struct web_req req = { .method = "GET", .url = "http://10.9.8.7:6/",
	    .open_socket = take, .open_arg = &none };

	start(&got, &req);
	finish(&got);
	ck_assert_int_eq(got.code, ERR_LOST);
	ck_assert(!got.sent);
	ck_assert_ptr_null(strstr(got.text, "10.9.8.7"));
}
END_TEST

START_TEST(a_raw_connection_moves_bytes)
{
	static const struct answer script[] = { { "hello\r\n\r\n" } };
	struct web_req req = { .method = "GET", .url = url };
	char buf[64] = "";
	size_t len = 0;
	long n;

	serve(script, COUNT(script));
	got.op = web_connect(web, &req, on_event, &got, &err);
	while (got.opens == 0)
		turn(5000);
	ck_assert_int_ne(web_raw_fd(got.op), -1);
	ck_assert_int_eq(web_raw_recv(got.op, buf, sizeof(buf)), 0);
	ck_assert_int_eq(web_raw_send(got.op, "A b\r\n\r\n", 7), 7);
	while (len < 9) {
		turn(10);
		n = web_raw_recv(got.op, buf + len, sizeof(buf) - len);
		ck_assert_int_ge(n, 0);
		len += (size_t)n;
	}
	ck_assert_str_eq(buf, "hello\r\n\r\n");
	server_hang_up(server.conns);
	while ((n = web_raw_recv(got.op, buf, sizeof(buf))) == 0)
		turn(10);
	ck_assert_int_eq(n, -1);
	web_cancel(got.op);
	ck_assert_int_eq(got.ends, 0);
}
END_TEST

START_TEST(a_raw_connection_that_fails_is_told)
{
	struct web_req req = { .method = "GET", .url = "http://127.0.0.1:1/" };

	got.op = web_connect(web, &req, on_event, &got, &err);
	finish(&got);
	ck_assert_int_eq(got.ends, 1);
	ck_assert_int_eq(got.code, ERR_LOST);
}
END_TEST

/* --- TLS --------------------------------------------------------------- */

static char pki[64];
static pid_t tls_pid;
static int tls_stdin;
static unsigned tls_port;

static void
pki_make(void)
{
	char command[128];

	strcpy(pki, "/tmp/test-web-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(pki));
	(void)snprintf(command, sizeof(command), "tests/make-pki.sh %s", pki);
	ck_assert_int_eq(system(command), 0);
}

static void
pki_remove(void)
{
	char command[128];

	(void)snprintf(command, sizeof(command), "rm -rf %s", pki);
	ck_assert_int_eq(system(command), 0);
}

static char *
pem(const char *name)
{
	char path[128], *text;
	FILE *f;
	size_t n;

	if (name == NULL)
		return NULL;
	(void)snprintf(path, sizeof(path), "%s/%s", pki, name);
	f = fopen(path, "r");
	ck_assert_msg(f != NULL, "%s", path);
	text = calloc(1, 16384);
	n = fread(text, 1, 16383, f);
	ck_assert_uint_gt(n, 0);
	fclose(f);
	return text;
}

static void
tls_start(const char *name, const char *version, const char *client_ca)
{
	int in[2], out[2];
	char line[16] = "";

	ck_assert_int_eq(pipe2(in, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
	if ((tls_pid = fork()) == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execlp("python3", "python3", "tests/tls-server.py", pki, name,
		    version, client_ca, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	tls_stdin = in[1];
	ck_assert_int_gt(read(out[0], line, sizeof(line) - 1), 0);
	close(out[0]);
	tls_port = (unsigned)strtoul(line, NULL, 10);
	(void)snprintf(url, sizeof(url), "https://127.0.0.1:%u/", tls_port);
}

static void
tls_stop(void)
{
	close(tls_stdin);
	waitpid(tls_pid, NULL, 0);
}

static const struct {
	const char *server, *version, *client_ca;	/* its side */
	const char *ca, *cert, *key, *name;		/* ours */
	bool insecure;
	enum error_code code;
	const char *text;	/* in the body, or in the error */
} handshakes[] = {
	{ "good", "1.3", NULL, "ca.crt", NULL, NULL, NULL, false, 0,
	    " host=127.0.0.1:" },
	{ "good", "1.2", NULL, "ca.crt", NULL, NULL, NULL, false, 0,
	    "TLSv1.2" },
	{ "good-rsa", "1.3", NULL, "ca.crt", NULL, NULL, NULL, false, 0,
	    "TLSv1.3" },
	{ "good-rsa", "1.2", NULL, "ca.crt", NULL, NULL, NULL, false, 0,
	    "TLSv1.2" },
	{ "good", "1.3", NULL, "ca.crt", NULL, NULL, "api.test", false, 0,
	    "sni=api.test host=127.0.0.1:" },
	{ "good", "1.3", NULL, "other.crt", NULL, NULL, NULL, false, ERR_TLS,
	    "is signed by an unknown authority" },
	{ "good", "1.2", NULL, "other.crt", NULL, NULL, NULL, false, ERR_TLS,
	    "is signed by an unknown authority" },
	{ "good", "1.3", NULL, NULL, NULL, NULL, NULL, false, ERR_TLS,
	    "no certificate authority is configured" },
	{ "good", "1.3", NULL, NULL, NULL, NULL, NULL, true, 0, "TLSv1.3" },
	{ "elsewhere", "1.3", NULL, "ca.crt", NULL, NULL, NULL, false, ERR_TLS,
	    "does not name 127.0.0.1;" },
	{ "good", "1.2", NULL, "ca.crt", NULL, NULL, "api.wrong", false,
	    ERR_TLS, "does not name api.wrong;" },
	{ "wild", "1.3", NULL, "ca.crt", NULL, NULL, "a.api.test", false, 0,
	    "sni=a.api.test " },
	{ "wild", "1.3", NULL, "ca.crt", NULL, NULL, "a.b.api.test", false,
	    ERR_TLS, "does not name a.b.api.test;" },
	{ "wild", "1.2", NULL, "ca.crt", NULL, NULL, "api.test", false,
	    ERR_TLS, "does not name api.test;" },
	{ "wild", "1.3", NULL, "ca.crt", NULL, NULL, NULL, false, ERR_TLS,
	    "does not name 127.0.0.1;" },
	{ "old", "1.3", NULL, "ca.crt", NULL, NULL, NULL, false, ERR_TLS,
	    "has expired" },
	{ "young", "1.3", NULL, "ca.crt", NULL, NULL, NULL, false, ERR_TLS,
	    "is not yet valid" },
	{ "old", "1.3", NULL, "ca.crt", NULL, NULL, NULL, true, 0, "TLSv1.3" },
	{ "good", "1.3", "ca", "ca.crt", "me.crt", "me.key", NULL, false, 0,
	    "client=me " },
	{ "good", "1.2", "ca", "ca.crt", "me.crt", "me.key", NULL, false, 0,
	    "client=me " },
	{ "good", "1.3", "ca", "ca.crt", "me-rsa.crt", "me-rsa.key", NULL,
	    false, 0, "client=me-rsa " },
	{ "good", "1.2", "ca", "ca.crt", "me-rsa.crt", "me-rsa.key", NULL,
	    false, 0, "client=me-rsa " },
	{ "good", "1.3", "ca", "ca.crt", NULL, NULL, NULL, false, ERR_TLS,
	    "wants a client certificate" },
	{ "good", "1.2", "ca", "ca.crt", NULL, NULL, NULL, false, ERR_TLS,
	    "wants a client certificate" },
	{ "good", "1.3", "ca", "ca.crt", "stranger.crt", "stranger.key", NULL,
	    false, ERR_TLS, "refused our client certificate" },
	{ "good", "1.2", "ca", "ca.crt", "stranger.crt", "stranger.key", NULL,
	    false, ERR_TLS, "refused our client certificate" },
};

/* users.md 77 */
START_TEST(verifies_the_server_and_says_what_failed)
{
	char *ca = pem(handshakes[_i].ca), *cert = pem(handshakes[_i].cert),
	    *key = pem(handshakes[_i].key);
	struct web_tls tls = { .ca = ca, .cert = cert, .key = key,
	    .name = handshakes[_i].name, .insecure = handshakes[_i].insecure };
	struct web_req req = { .method = "GET", .url = url, .tls = &tls };

	tls_start(handshakes[_i].server, handshakes[_i].version,
	    handshakes[_i].client_ca);
	start(&got, &req);
	finish(&got);
	tls_stop();
	ck_assert_msg(strstr(got.code == ERR_NONE ? got.body : got.text,
	    handshakes[_i].text) != NULL, "%s%s", got.body, got.text);
	ck_assert_int_eq(got.code, handshakes[_i].code);
	ck_assert(got.sent || got.code != ERR_NONE);
	free(ca);
	free(cert);
	free(key);
}
END_TEST

START_TEST(goes_where_a_name_is_pinned_to)
{
	char *ca = pem("ca.crt"), pin[64];
	struct web_tls tls = { .ca = ca };
	struct web_req req = { .method = "GET", .url = url, .tls = &tls,
	    .resolve = pin };

	tls_start("good", "1.3", NULL);
	(void)snprintf(url, sizeof(url), "https://api.test:%u/", tls_port);
	(void)snprintf(pin, sizeof(pin), "api.test:%u:127.0.0.1", tls_port);
	start(&got, &req);
	finish(&got);
	tls_stop();
	ck_assert_msg(strstr(got.body, "sni=api.test host=api.test:") != NULL,
	    "%s%s", got.body, got.text);
	free(ca);
}
END_TEST

START_TEST(a_raw_connection_runs_under_tls)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
	char *ca = pem("ca.crt"), buf[4096] = "";
	struct web_tls tls = { .ca = ca };
	struct web_req req = { .method = "GET", .url = url, .tls = &tls };
	size_t len = 0;
	long n;

	tls_start("good", _i == 0 ? "1.2" : "1.3", NULL);
	got.op = web_connect(web, &req, on_event, &got, &err);
	while (got.opens + got.ends == 0)
		turn(5000);
	ck_assert_str_eq(got.text, "");
	/* A session ticket that comes in between is worth a "not now". */
	while ((n = web_raw_send(got.op, text, sizeof(text) - 1)) == 0)
		turn(10);
	ck_assert_int_eq(n, sizeof(text) - 1);
	while (strstr(buf, "host=x") == NULL) {
		turn(10);
		n = web_raw_recv(got.op, buf + len, sizeof(buf) - 1 - len);
		ck_assert_int_ge(n, 0);
		len += (size_t)n;
	}
	web_cancel(got.op);
	tls_stop();
	free(ca);
}
END_TEST

static void
add_plain(TCase *t)
{
	tcase_add_test(t, brings_status_body_and_fields);
	tcase_add_test(t, a_trailer_is_a_field);
	tcase_add_test(t, sends_only_what_it_was_given);
	tcase_add_test(t, a_connection_is_kept_and_used_again);
	tcase_add_test(t, many_go_on_at_once);
	tcase_add_loop_test(t, nothing_is_sent_twice_when_a_connection_ends,
	    0, COUNT(methods));
	tcase_add_test(t, a_connection_found_closed_is_not_used);
	tcase_add_test(t, says_that_nothing_left_when_nobody_listens);
	tcase_add_loop_test(t, says_what_is_wrong_with_an_answer, 0,
	    COUNT(bad));
	tcase_add_test(t, header_fields_have_a_limit);
	tcase_add_test(t, the_whole_has_a_limit_too);
	tcase_add_test(t, slow_bytes_are_not_silence);
	tcase_add_test(t, a_redirect_is_an_answer);
	tcase_add_test(t, the_environment_names_no_proxy);
	tcase_add_loop_test(t, refuses_a_request_that_would_say_something_else,
	    0, COUNT(refused));
}

static void
add_streams(TCase *t)
{
	tcase_add_test(t, a_stream_comes_in_pieces);
	tcase_add_test(t, a_paused_stream_is_silent_until_resumed);
	tcase_add_test(t, may_be_cancelled_inside_its_function);
	tcase_add_loop_test(t, may_be_cancelled_at_any_turn, 0, 12);
	tcase_add_loop_test(t, a_long_body_is_asked_for_in_pieces, 0, 3);
	tcase_add_test(t, takes_a_socket_it_is_given);
	tcase_add_test(t, a_socket_that_cannot_be_opened_is_an_error);
	tcase_add_test(t, a_raw_connection_moves_bytes);
	tcase_add_test(t, a_raw_connection_that_fails_is_told);
}

int
main(void)
{
	Suite *s = suite_create("web");
	TCase *plain = tcase_create("plain"), *tls = tcase_create("tls");

	tcase_add_checked_fixture(plain, setup, teardown);
	add_plain(plain);
	add_streams(plain);
	suite_add_tcase(s, plain);
	tcase_add_unchecked_fixture(tls, pki_make, pki_remove);
	tcase_add_checked_fixture(tls, setup, teardown);
	tcase_set_timeout(tls, 30);
	tcase_add_loop_test(tls, verifies_the_server_and_says_what_failed, 0,
	    COUNT(handshakes));
	tcase_add_test(tls, goes_where_a_name_is_pinned_to);
	tcase_add_loop_test(tls, a_raw_connection_runs_under_tls, 0, 2);
	suite_add_tcase(s, tls);
	return suite_run(s);
}
