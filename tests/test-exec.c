/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include <sys/resource.h>

#include "scripted.h"
#include "suite.h"
#include "../exec.h"
#include "../budget.h"

#define V5 "v5.channel.k8s.io"
#define V4 "v4.channel.k8s.io"
#define SUCCESS "{\"metadata\":{},\"status\":\"Success\"}"
#define EXIT_7 "{\"metadata\":{},\"status\":\"Failure\",\"message\":\"command " \
	"terminated with non-zero exit code\",\"reason\":\"NonZeroExitCode\"," \
	"\"details\":{\"causes\":[{\"reason\":\"Other\",\"message\":\"9\"}," \
	"{\"reason\":\"ExitCode\",\"message\":\"7\"}]}}"
#define NOT_THERE "{\"status\":\"Failure\",\"reason\":\"InternalError\"," \
	"\"code\":500,\"message\":\"exec: \\\"nope\\\": executable file not " \
	"found in $PATH\"}"

struct seen {
	struct client c;
	struct exec *e;
	struct buf out, err;
	bool opened, ended;
	bool close_on_data;
	int opens;
	struct error why;
	long code, status;
	size_t bytes;
	/* stdin */
	const char *input;
	size_t left;
	bool rooms;
};

static void
give(void *arg)
{
	struct seen *s = arg;
	size_t n;

	while (s->left > 0) {
		n = exec_write(s->e, s->input, s->left);
		if (n == 0)
			return;
		s->input += n;
		s->left -= n;
	}
	exec_write_end(s->e);
}

static void
on_event(void *arg, const struct event *ev)
{
	struct seen *s = arg;

	ck_assert(!s->ended);
	if (ev->type == EVENT_OPEN) {
		s->opened = true;
		s->opens++;
		if (s->input != NULL)
			give(s);
	} else if (ev->type == EVENT_DATA) {
		ck_assert(ev->channel == 1 || ev->channel == 2);
		ck_assert(ev->len > 0);
		s->bytes += ev->len;
		buf_put(ev->channel == 1 ? &s->out : &s->err, ev->data,
		    ev->len);
		if (s->close_on_data) {
			exec_close(s->e);
			s->ended = true;
		}
	} else {
		ck_assert_int_eq(ev->type, EVENT_END);
		if (ev->err != NULL)
			s->why = *ev->err;
		s->code = ev->code;
		s->status = ev->status;
		s->ended = true;
	}
}

static const char *const hello[] = { "sh", "-c", "echo 'a b' & é", NULL };

static void
begin(struct seen *s, struct server *server, const char *container)
{
	struct exec_req req = { .namespace = "ns", .pod = "p-1",
	    .container = container, .argv = hello,
	    .input = s->input != NULL };

	buf_init(&s->out, 1 << 20);
	buf_init(&s->err, 1 << 20);
	client_open(&s->c, server);
	s->e = exec_open(s->c.k, &req, on_event, s);
	ck_assert_ptr_nonnull(s->e);
	if (s->input != NULL)
		exec_on_room(s->e, give, s);
}

static void
finish(struct seen *s)
{
	client_turn(&s->c, 20);
	client_close(&s->c);
	buf_free(&s->out);
	buf_free(&s->err);
}

static void
run(struct seen *s, serve_fn *serve, struct server *server)
{
	server_start(server, serve, false);
	begin(s, server, NULL);
	client_wait(&s->c, &s->ended);
	ck_assert(!buf_ok(&s->out) || s->out.len < (1 << 20));
}

static void
says(int fd, const char *protocol)
{
	char req[8192];

	get_request(fd, req, sizeof(req));
	put_upgrade(fd, req, protocol);
	put_text(fd, 1, "");
}

/* The request itself comes back as output. */
static void
serve_request(int fd, int nth)
{
	char req[8192];

	(void)nth;
	get_request(fd, req, sizeof(req));
	put_upgrade(fd, req, V5);
	put_text(fd, 1, "");
	put_text(fd, 1, req);
	put_text(fd, 2, "warning");
	put_text(fd, 3, SUCCESS);
	put_goodbye(fd, 1000);
}

/* users.md 6 */
START_TEST(asks_for_the_command_as_it_was_given)
{
	struct server server;
	struct seen s = { 0 };

	server_start(&server, serve_request, false);
	begin(&s, &server, "main");
	client_wait(&s.c, &s.ended);
	ck_assert_int_eq(s.opens, 1);
	ck_assert_int_eq(s.why.code, ERR_NONE);
	ck_assert_int_eq(s.code, 0);
	ck_assert_ptr_nonnull(strstr(s.out.data,
	    "GET /api/v1/namespaces/ns/pods/p-1/exec?"));
	ck_assert_ptr_nonnull(strstr(s.out.data, "stdout=true"));
	ck_assert_ptr_nonnull(strstr(s.out.data, "stderr=true"));
	ck_assert_ptr_null(strstr(s.out.data, "stdin=true"));
	ck_assert_ptr_nonnull(strstr(s.out.data, "container=main"));
	ck_assert_ptr_nonnull(strstr(s.out.data, "command=sh&command=-c&"
	    "command=echo%20%27a%20b%27%20%26%20%C3%A9"));
	ck_assert_ptr_nonnull(strstr(s.out.data, V5 ", " V4));
	ck_assert_str_eq(s.err.data, "warning");
	finish(&s);
	server_stop(&server);
}
END_TEST

static void
serve_exit_7(int fd, int nth)
{
	(void)nth;
	says(fd, V4);
	put_text(fd, 1, "partial");
	put_text(fd, 3, EXIT_7);
	put_text(fd, 1, "too late");
	put_goodbye(fd, 1000);
}

/* users.md 6 */
START_TEST(takes_the_exit_status_from_the_status_frame_alone)
{
	struct server server;
	struct seen s = { 0 };

	run(&s, serve_exit_7, &server);
	ck_assert_int_eq(s.why.code, ERR_NONE);
	ck_assert_int_eq(s.code, 7);
	ck_assert_str_eq(s.out.data, "partial");
	finish(&s);
	server_stop(&server);
}
END_TEST

static void
serve_not_there(int fd, int nth)
{
	(void)nth;
	says(fd, V5);
	put_text(fd, 3, NOT_THERE);
	put_goodbye(fd, 1000);
}

/* users.md 15 */
START_TEST(tells_a_program_that_could_not_be_started)
{
	struct server server;
	struct seen s = { 0 };

	run(&s, serve_not_there, &server);
	ck_assert_int_eq(s.why.code, ERR_CLUSTER);
	ck_assert_ptr_nonnull(strstr(s.why.text, "executable file not found"));
	ck_assert_ptr_nonnull(strstr(s.why.text, "p-1"));
	finish(&s);
	server_stop(&server);
}
END_TEST

static void
serve_good_bye(int fd, int nth)
{
	(void)nth;
	says(fd, V5);
	put_text(fd, 1, "some");
	put_goodbye(fd, 1000);
}

static void
serve_going_away(int fd, int nth)
{
	(void)nth;
	says(fd, V5);
	put_text(fd, 1, "some");
	put_goodbye(fd, 1001);
}

static void
serve_hang_up(int fd, int nth)
{
	(void)nth;
	says(fd, V5);
	put_text(fd, 1, "some");
}

static void
serve_cut_frame(int fd, int nth)
{
	(void)nth;
	says(fd, V5);
	put_text(fd, 1, "some");
	put_all(fd, "\x82\x7e\x01\x00\x03{\"st", 10);
}

/* Output may be in there that nobody will see. */
static void
serve_strange_channel(int fd, int nth)
{
	(void)nth;
	says(fd, V5);
	put_text(fd, 1, "some");
	put_text(fd, 9, "where?");
	put_text(fd, 3, SUCCESS);
	put_goodbye(fd, 1000);
}

static void
serve_no_channel(int fd, int nth)
{
	(void)nth;
	says(fd, V5);
	put_text(fd, 1, "some");
	put_frame(fd, 2, "", 0);
	put_text(fd, 3, SUCCESS);
	put_goodbye(fd, 1000);
}

static serve_fn *const losers[] = {
	serve_good_bye, serve_going_away, serve_hang_up, serve_cut_frame,
	serve_strange_channel, serve_no_channel
};

START_TEST(never_takes_a_stream_without_status_for_success)
{
	struct server server;
	struct seen s = { 0 };

	run(&s, losers[_i], &server);
	ck_assert_int_eq(s.why.code, ERR_LOST);
	ck_assert_ptr_nonnull(strstr(s.why.text, "may still be running"));
	ck_assert_str_eq(s.out.data, "some");
	ck_assert_int_eq(*server.connections, 1);
	finish(&s);
	server_stop(&server);
}
END_TEST

static void
serve_no_answer(int fd, int nth)
{
	char req[8192];

	(void)nth;
	get_request(fd, req, sizeof(req));
}

START_TEST(does_not_repeat_what_may_have_been_carried_out)
{
	struct server server;
	struct seen s = { 0 };

	run(&s, serve_no_answer, &server);
	ck_assert_int_eq(s.why.code, ERR_LOST);
	ck_assert_ptr_nonnull(strstr(s.why.text, "may have been carried out"));
	client_turn(&s.c, 600);
	ck_assert_int_eq(*server.connections, 1);
	finish(&s);
	server_stop(&server);
}
END_TEST

static void
serve_wrong_accept(int fd, int nth)
{
	char req[8192];

	(void)nth;
	get_request(fd, req, sizeof(req));
	put_upgrade(fd, "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
	    V5);
	linger(fd);
}

static void
serve_wrong_protocol(int fd, int nth)
{
	(void)nth;
	says(fd, "v3.channel.k8s.io");
	linger(fd);
}

static void
serve_masked(int fd, int nth)
{
	(void)nth;
	says(fd, V5);
	put_all(fd, "\x82\x82\x00\x00\x00\x00\x01x", 8);
	linger(fd);
}

static void
serve_long_frame(int fd, int nth)
{
	(void)nth;
	says(fd, V5);
	put_all(fd, "\x82\x7f\x00\x00\x00\x00\x7f\x00\x00\x00", 10);
	linger(fd);
}

static const struct {
	serve_fn *serve;
	const char *words;
} liars[] = {
	{ serve_wrong_accept, "Sec-WebSocket-Accept" },
	{ serve_wrong_protocol, "protocol" },
	{ serve_masked, "" },
	{ serve_long_frame, "" },
};

START_TEST(refuses_a_server_that_breaks_the_protocol)
{
	struct server server;
	struct seen s = { 0 };

	run(&s, liars[_i].serve, &server);
	ck_assert_int_ne(s.why.code, ERR_NONE);
	ck_assert_ptr_nonnull(strstr(s.why.text, liars[_i].words));
	ck_assert_int_eq(*server.connections, 1);
	ck_assert_uint_eq(s.bytes, 0);
	finish(&s);
	server_stop(&server);
}
END_TEST

#define FORBIDDEN "{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":" \
	"\"Forbidden\",\"code\":403,\"message\":\"pods \\\"p-1\\\" is " \
	"forbidden: User \\\"me\\\" cannot create resource \\\"pods/exec\\\"\"}"
#define GONE "{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":" \
	"\"NotFound\",\"code\":404,\"message\":\"pods \\\"p-1\\\" not found\"}"
#define NO_CONTAINER "{\"kind\":\"Status\",\"status\":\"Failure\",\"code\":" \
	"400,\"reason\":\"BadRequest\",\"message\":\"container x is not " \
	"valid for pod p-1\"}"

static void
serve_forbidden(int fd, int nth)
{
	char req[8192];

	(void)nth;
	get_request(fd, req, sizeof(req));
	put_answer(fd, 403, FORBIDDEN);
	linger(fd);
}

static void
serve_gone(int fd, int nth)
{
	char req[8192];

	(void)nth;
	get_request(fd, req, sizeof(req));
	/* No length: the body ends with the connection. */
	put_all(fd, "HTTP/1.1 404 Not Found\r\n\r\n", 26);
	put_all(fd, GONE, strlen(GONE));
}

static void
serve_no_container(int fd, int nth)
{
	char req[8192];

	(void)nth;
	get_request(fd, req, sizeof(req));
	put_answer(fd, 400, NO_CONTAINER);
	linger(fd);
}

static const struct {
	serve_fn *serve;
	long status;
	enum error_code code;
	const char *words;
} refusals[] = {
	{ serve_forbidden, 403, ERR_DENIED, "cannot create resource" },
	{ serve_gone, 404, ERR_GONE, "pods \"p-1\" not found" },
	{ serve_no_container, 400, ERR_INVALID, "is not valid for pod" },
};

START_TEST(shows_a_refusal_in_the_servers_words)
{
	struct server server;
	struct seen s = { 0 };

	run(&s, refusals[_i].serve, &server);
	ck_assert_int_eq(s.why.code, refusals[_i].code);
	ck_assert_int_eq(s.status, refusals[_i].status);
	ck_assert_ptr_nonnull(strstr(s.why.text, refusals[_i].words));
	ck_assert(!s.opened);
	ck_assert_int_eq(*server.connections, 1);
	finish(&s);
	server_stop(&server);
}
END_TEST

static void
serve_starting(int fd, int nth)
{
	char req[8192];

	if (nth >= 2) {
		serve_request(fd, nth);
		return;
	}
	get_request(fd, req, sizeof(req));
	put_answer(fd, nth == 0 ? 500 : 503, "container not found (\"x\")");
	linger(fd);
}

START_TEST(asks_again_while_the_container_is_not_there)
{
	struct server server;
	struct seen s = { 0 };

	run(&s, serve_starting, &server);
	ck_assert_int_eq(s.why.code, ERR_NONE);
	ck_assert_int_eq(s.opens, 1);
	ck_assert_int_eq(*server.connections, 3);
	finish(&s);
	server_stop(&server);
}
END_TEST

/* Says how many bytes came before the end of stdin. */
static void
serve_count(int fd, int nth)
{
	char text[64];
	struct buf data;
	size_t n = 0;
	int op;

	(void)nth;
	says(fd, V5);
	buf_init(&data, 1 << 20);
	while ((op = get_frame(fd, &data)) != -1) {
		if (op != 2)
			continue;
		if ((unsigned char)data.data[0] == 255) {
			snprintf(text, sizeof(text), "%zu %d %zu", n,
			    data.data[1], data.len);
			put_text(fd, 1, text);
			put_text(fd, 3, SUCCESS);
			put_goodbye(fd, 1000);
			break;
		}
		for (size_t i = 1; i < data.len; i++)
			if (data.data[i] != (char)((n + i - 1) % 251))
				_exit(3);
		n += data.len - 1;
	}
	buf_free(&data);
}

static char *
pattern(size_t len)
{
	char *text = malloc(len);

	ck_assert_ptr_nonnull(text);
	for (size_t i = 0; i < len; i++)
		text[i] = (char)(i % 251);
	return text;
}

START_TEST(delivers_all_of_stdin_and_its_end)
{
	size_t len = _i == 0 ? 0 : LIMIT_STDIN;
	char *text = pattern(LIMIT_STDIN), want[64];
	struct server server;
	struct seen s = { .input = text, .left = len };

	run(&s, serve_count, &server);
	ck_assert_int_eq(s.why.code, ERR_NONE);
	snprintf(want, sizeof(want), "%zu 0 2", len);
	ck_assert_str_eq(s.out.data, want);
	finish(&s);
	server_stop(&server);
	free(text);
}
END_TEST

static void
serve_v4(int fd, int nth)
{
	struct buf data;

	(void)nth;
	says(fd, V4);
	put_text(fd, 1, "ready");
	buf_init(&data, 1 << 20);
	/* The client's goodbye must be the only thing it says. */
	if (get_frame(fd, &data) == 8)
		put_frame(fd, 8, data.data, data.len);
	buf_free(&data);
}

START_TEST(says_that_v4_has_no_end_of_stdin)
{
	struct server server;
	struct seen s = { 0 };

	server_start(&server, serve_v4, false);
	begin(&s, &server, NULL);
	client_wait(&s.c, &s.opened);
	ck_assert_int_eq(exec_write_end(s.e), -1);
	exec_close(s.e);
	finish(&s);
	ck_assert(!s.ended);
	server_stop(&server);
}
END_TEST

enum { HUGE_FRAMES = 2000, HUGE_FRAME = 32 << 10 };

static void
serve_huge(int fd, int nth)
{
	char *block = calloc(1, HUGE_FRAME);

	(void)nth;
	says(fd, V5);
	for (int i = 0; i < HUGE_FRAMES; i++)
		put_message(fd, 1 + i % 2, block, HUGE_FRAME);
	put_text(fd, 3, SUCCESS);
	put_goodbye(fd, 1000);
	free(block);
}

START_TEST(passes_any_amount_of_output_on)
{
	struct rusage before, after;
	struct server server;
	struct seen s = { 0 };

	getrusage(RUSAGE_SELF, &before);
	server_start(&server, serve_huge, false);
	begin(&s, &server, NULL);
	buf_free(&s.out);
	buf_free(&s.err);
	buf_init(&s.out, 0);
	buf_init(&s.err, 0);
	client_wait(&s.c, &s.ended);
	getrusage(RUSAGE_SELF, &after);
	ck_assert_int_eq(s.why.code, ERR_NONE);
	ck_assert_uint_eq(s.bytes, (size_t)HUGE_FRAMES * HUGE_FRAME);
#ifndef __SANITIZE_ADDRESS__
	ck_assert_int_lt(after.ru_maxrss - before.ru_maxrss, 8192);
#endif
	finish(&s);
	server_stop(&server);
}
END_TEST

static void
serve_slowly(int fd, int nth)
{
	static const char text[] = "\x82\x01\x01\x82\x04\x01" "abc"
	    "\x89\x02hi\x02\x03\x01" "de\x80\x01" "f\x82\x23\x03" SUCCESS
	    "\x88\x00";
	char req[8192];

	(void)nth;
	get_request(fd, req, sizeof(req));
	put_upgrade(fd, req, V5);
	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		put_all(fd, text + i, 1);
		usleep(500);
	}
	linger(fd);
}

START_TEST(reads_frames_however_they_are_cut)
{
	struct server server;
	struct seen s = { 0 };

	run(&s, serve_slowly, &server);
	ck_assert_msg(s.why.code == ERR_NONE, "%s", s.why.text);
	ck_assert_str_eq(s.out.data, "abcdef");
	finish(&s);
	server_stop(&server);
}
END_TEST

START_TEST(may_be_closed_while_it_reports)
{
	struct server server;
	struct seen s = { .close_on_data = true };

	run(&s, serve_huge, &server);
	ck_assert_uint_eq(s.bytes, HUGE_FRAME);
	finish(&s);
	ck_assert_uint_eq(s.bytes, HUGE_FRAME);
	server_stop(&server);
}
END_TEST

START_TEST(refuses_a_command_too_long_for_a_url)
{
	struct server server;
	struct seen s = { 0 };
	char *text = malloc(1 << 20);
	const char *argv[] = { text, NULL };
	struct exec_req req = { .namespace = "ns", .pod = "p-1",
	    .argv = argv };

	memset(text, '&', (1 << 20) - 1);
	text[(1 << 20) - 1] = '\0';
	server_start(&server, serve_request, false);
	client_open(&s.c, &server);
	s.e = exec_open(s.c.k, &req, on_event, &s);
	ck_assert_ptr_nonnull(s.e);
	ck_assert(!s.ended);
	client_wait(&s.c, &s.ended);
	ck_assert_int_eq(s.why.code, ERR_LIMIT);
	ck_assert_int_eq(*server.connections, 0);
	finish(&s);
	server_stop(&server);
	free(text);
}
END_TEST

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

int
main(void)
{
	Suite *suite = suite_create("exec");
	TCase *t = tcase_create("exec");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, asks_for_the_command_as_it_was_given);
	tcase_add_test(t, takes_the_exit_status_from_the_status_frame_alone);
	tcase_add_test(t, tells_a_program_that_could_not_be_started);
	tcase_add_loop_test(t, never_takes_a_stream_without_status_for_success,
	    0, COUNT(losers));
	tcase_add_test(t, does_not_repeat_what_may_have_been_carried_out);
	tcase_add_loop_test(t, refuses_a_server_that_breaks_the_protocol, 0,
	    COUNT(liars));
	tcase_add_loop_test(t, shows_a_refusal_in_the_servers_words, 0,
	    COUNT(refusals));
	tcase_add_test(t, asks_again_while_the_container_is_not_there);
	tcase_add_loop_test(t, delivers_all_of_stdin_and_its_end, 0, 2);
	tcase_add_test(t, says_that_v4_has_no_end_of_stdin);
	tcase_add_test(t, passes_any_amount_of_output_on);
	tcase_add_test(t, reads_frames_however_they_are_cut);
	tcase_add_test(t, may_be_closed_while_it_reports);
	tcase_add_test(t, refuses_a_command_too_long_for_a_url);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
