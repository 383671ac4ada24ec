/* SPDX-License-Identifier: Apache-2.0 */
/* Against a daemon made of nghttp2, which does what one test says. */
#include <check.h>

#include <nghttp2/nghttp2.h>
#include <poll.h>

#include "scripted.h"
#include "suite.h"
#include "../grpc.h"
#include "../budget.h"
#include "../sandboxd.h"

/* --- the daemon, in the child ------------------------------------------- */

enum { STREAMS = 64 };

struct call {
	int32_t id;
	char path[64];
	struct buf request;	/* as sent, prefix included */
	struct buf reply;
	size_t sent;
	const char *status;	/* the trailer; NULL: the stream stays open */
	bool bare;		/* no message, no grpc-status at all */
};

struct daemon;
typedef void act_fn(struct daemon *d, struct call *c);

struct daemon {
	int fd;
	nghttp2_session *h2;
	struct call calls[STREAMS];
	size_t n;
	act_fn *act;		/* a request is complete */
	struct call *start;
	struct buf input;
	bool eof;
	uint64_t signal;
	bool hang_up;
};

static struct call *
call_of(struct daemon *d, int32_t id)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->calls[i].id == id)
			return &d->calls[i];
	_exit(4);
}

static ssize_t
on_send(nghttp2_session *h2, const uint8_t *data, size_t len, int flags,
    void *arg)
{
	struct daemon *d = arg;

	(void)h2, (void)flags;
	put_all(d->fd, data, len);
	return (ssize_t)len;
}

static int
on_begin(nghttp2_session *h2, const nghttp2_frame *f, void *arg)
{
	struct daemon *d = arg;
	struct call *c = &d->calls[d->n++];

	(void)h2;
	if (d->n == STREAMS)
		_exit(5);
	c->id = f->hd.stream_id;
	buf_init(&c->request, LIMIT_GRPC);
	buf_init(&c->reply, 64 << 20);
	return 0;
}

static int
on_field(nghttp2_session *h2, const nghttp2_frame *f, const uint8_t *name,
    size_t name_len, const uint8_t *value, size_t len, uint8_t flags,
    void *arg)
{
	struct call *c = call_of(arg, f->hd.stream_id);

	(void)h2, (void)name_len, (void)flags;
	if (strcmp((const char *)name, ":path") == 0)
		snprintf(c->path, sizeof(c->path), "%.*s", (int)len,
		    (const char *)value);
	if (strcmp((const char *)name, "content-type") == 0 &&
	    strcmp((const char *)value, "application/grpc") != 0)
		_exit(6);
	return 0;
}

static int
on_chunk(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *data,
    size_t len, void *arg)
{
	(void)h2, (void)flags;
	buf_put(&call_of(arg, id)->request, data, len);
	return 0;
}

/* nghttp2 does not write to either, whatever its types say. */
static nghttp2_nv
field(const char *name, const char *value)
{
	return (nghttp2_nv){ (uint8_t *)(uintptr_t)name,
	    (uint8_t *)(uintptr_t)value, strlen(name), strlen(value), 0 };
}

static ssize_t
read_reply(nghttp2_session *h2, int32_t id, uint8_t *dst, size_t size,
    uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct call *c = source->ptr;
	size_t n = c->reply.len - c->sent;
	nghttp2_nv trailer;

	(void)id, (void)arg;
	if (n > size)
		n = size;
	if (n > 0)
		memcpy(dst, c->reply.data + c->sent, n);
	c->sent += n;
	if (n == 0 && c->status == NULL)
		return NGHTTP2_ERR_DEFERRED;
	if (c->sent < c->reply.len || c->status == NULL)
		return (ssize_t)n;
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (c->bare)
		return (ssize_t)n;
	*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
	trailer = field("grpc-status", c->status);
	nghttp2_submit_trailer(h2, c->id, &trailer, 1);
	return (ssize_t)n;
}

/* Begin the answer, whose messages come later. */
static void
answer(struct daemon *d, struct call *c)
{
	nghttp2_data_provider body = { .source.ptr = c,
	    .read_callback = read_reply };
	nghttp2_nv head[] = {
		field(":status", "200"),
		field("content-type", "application/grpc"),
	};

	nghttp2_submit_response(d->h2, c->id, head, 2, &body);
}

/* A failure before any message: one header block. */
static void
refuse(struct daemon *d, struct call *c, const char *status,
    const char *message)
{
	nghttp2_nv head[] = {
		field(":status", "200"),
		field("content-type", "application/grpc"),
		field("grpc-status", status), field("grpc-message", message),
	};

	nghttp2_submit_response(d->h2, c->id, head, 4, NULL);
}

static void
say(struct daemon *d, struct call *c, unsigned field, const void *data,
    size_t len)
{
	size_t at = c->reply.len;

	pb_bytes(&c->reply, field, data, len);
	grpc_frame(&c->reply, at);
	nghttp2_session_resume_data(d->h2, c->id);
}

static void
finish_with(struct daemon *d, struct call *c, const char *status)
{
	c->status = status;
	nghttp2_session_resume_data(d->h2, c->id);
}

static void
take_stdin(struct daemon *d, const struct call *c)
{
	const char *p = c->request.data + 5;
	const char *tail = c->request.data + c->request.len;
	struct pb_field f;

	while (pb_next(&p, tail, &f) == 1) {
		if (f.number == 1 && f.value != 300)
			_exit(7);
		if (f.number == 2)
			buf_put(&d->input, f.data, f.len);
		if (f.number == 3)
			d->eof = true;
	}
}

static void
take_signal(struct daemon *d, const struct call *c)
{
	const char *p = c->request.data + 5;
	const char *tail = c->request.data + c->request.len;
	struct pb_field f;

	while (pb_next(&p, tail, &f) == 1)
		if (f.number == 2)
			d->signal = f.value;
}

static int
on_frame(nghttp2_session *h2, const nghttp2_frame *f, void *arg)
{
	struct daemon *d = arg;
	struct call *c;

	(void)h2;
	if ((f->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0 ||
	    (f->hd.type != NGHTTP2_DATA && f->hd.type != NGHTTP2_HEADERS))
		return 0;
	c = call_of(d, f->hd.stream_id);
	if (strstr(c->path, "/WriteStdin") != NULL)
		take_stdin(d, c);
	else if (strstr(c->path, "/SendSignal") != NULL)
		take_signal(d, c);
	else if (strcmp(c->path, "/process.v1.ProcessService/Start") == 0)
		d->start = c;
	else
		_exit(8);
	d->act(d, c);
	return 0;
}

static void
daemon_run(int fd, act_fn *act)
{
	nghttp2_session_callbacks *cb;
	struct daemon d = { .fd = fd, .act = act };
	char chunk[16384];
	ssize_t n;

	buf_init(&d.input, 4 << 20);
	nghttp2_session_callbacks_new(&cb);
	nghttp2_session_callbacks_set_send_callback(cb, on_send);
	nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_field);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb,
	    on_chunk);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	nghttp2_session_server_new(&d.h2, cb, &d);
	nghttp2_submit_settings(d.h2, NGHTTP2_FLAG_NONE, NULL, 0);
	nghttp2_session_send(d.h2);
	while (!d.hang_up && (n = read(fd, chunk, sizeof(chunk))) > 0) {
		if (nghttp2_session_mem_recv(d.h2, (uint8_t *)chunk,
		    (size_t)n) < 0)
			_exit(9);
		nghttp2_session_send(d.h2);
	}
}

/* --- the test's side ---------------------------------------------------- */

struct seen {
	struct client c;
	struct sandboxd_port port;
	struct sandboxd_run *r;
	struct buf out, err;
	bool opened, ended, close_on_data;
	struct error why;
	long code;
	size_t bytes;
};

static void
on_event(void *arg, const struct event *ev)
{
	struct seen *s = arg;

	ck_assert(!s->ended);
	if (ev->type == EVENT_OPEN) {
		s->opened = true;
	} else if (ev->type == EVENT_DATA) {
		ck_assert(s->opened);
		s->bytes += ev->len;
		buf_put(ev->channel == 1 ? &s->out : &s->err, ev->data,
		    ev->len);
		if (s->close_on_data) {
			sandboxd_close(s->r);
			s->ended = true;
		}
	} else {
		ck_assert_int_eq(ev->type, EVENT_END);
		if (ev->err != NULL)
			s->why = *ev->err;
		s->code = ev->code;
		s->ended = true;
	}
}

static void
begin(struct seen *s, struct server *server, serve_fn *serve,
    const struct sandboxd_start *start)
{
	struct error err = { 0 };

	server_start(server, serve, false);
	client_open(&s->c, server);
	snprintf(s->port.url, sizeof(s->port.url), "%s", server->url);
	buf_init(&s->out, 1 << 20);
	buf_init(&s->err, 1 << 20);
	s->r = sandboxd_run(s->c.web, &s->port, start, on_event, s, &err);
	ck_assert_msg(s->r != NULL, "%s", err.text);
}

static void
finish(struct seen *s, struct server *server)
{
	client_turn(&s->c, 20);
	client_close(&s->c);
	buf_free(&s->out);
	buf_free(&s->err);
	server_stop(server);
}

static const char *const argv[] = { "sh", "-c", "echo hi", NULL };
static const struct sandboxd_start plain = { .argv = argv };

/* Process 300: a number of two bytes. */
static void
init(struct daemon *d, struct call *c)
{
	answer(d, c);
	say(d, c, 1, "\x08\xac\x02", 3);
}

/* Says what was asked for, and ends when stdin does. */
static void
act_echo(struct daemon *d, struct call *c)
{
	if (c == d->start) {
		init(d, c);
		say(d, c, 2, c->request.data + 5, c->request.len - 5);
		say(d, c, 3, "warning", 7);
		return;
	}
	answer(d, c);
	finish_with(d, c, "0");
	if (!d->eof)
		return;
	say(d, d->start, 4, "", 0);
	finish_with(d, d->start, "0");
}

static void
serve_echo(int fd, int nth)
{
	(void)nth;
	daemon_run(fd, act_echo);
}

START_TEST(starts_what_was_asked_for)
{
	static const char *const env[] = { "A", "1", "B", "", NULL };
	struct sandboxd_start start = { .argv = argv, .env = env,
	    .cwd = "sub" };
	static const char want[] = "\x0a\x25" "\x0a\x02sh" "\x0a\x02-c"
	    "\x0a\x07" "echo hi" "\x12\x06" "\x0a\x01" "A" "\x12\x01" "1"
	    "\x12\x05" "\x0a\x01" "B" "\x12\x00" "\x1a\x03" "sub";
	struct server server;
	struct seen s = { 0 };

	begin(&s, &server, serve_echo, &start);
	client_wait(&s.c, &s.ended);
	ck_assert_msg(s.why.code == ERR_NONE, "%s", s.why.text);
	ck_assert_int_eq(s.code, 0);
	ck_assert_uint_eq(s.out.len, sizeof(want) - 1);
	ck_assert_mem_eq(s.out.data, want, sizeof(want) - 1);
	ck_assert_str_eq(s.err.data, "warning");
	ck_assert_int_eq(*server.connections, 1);
	finish(&s, &server);
}
END_TEST

/* Exit status 0 only if all of stdin came, in order. */
static void
act_stdin(struct daemon *d, struct call *c)
{
	if (c == d->start) {
		init(d, c);
		return;
	}
	answer(d, c);
	finish_with(d, c, "0");
	if (!d->eof)
		return;
	for (size_t i = 0; i < d->input.len; i++)
		if (d->input.data[i] != (char)(i % 251))
			_exit(10);
	if (d->input.len == LIMIT_STDIN)
		say(d, d->start, 4, "", 0);
	else
		say(d, d->start, 4, "\x08\x01", 2);
	finish_with(d, d->start, "0");
}

static void
serve_stdin(int fd, int nth)
{
	(void)nth;
	daemon_run(fd, act_stdin);
}

START_TEST(delivers_all_of_stdin_in_order)
{
	char *text = malloc(LIMIT_STDIN);
	struct sandboxd_start start = { .argv = argv, .input = text,
	    .input_len = LIMIT_STDIN };
	struct server server;
	struct seen s = { 0 };

	for (size_t i = 0; i < LIMIT_STDIN; i++)
		text[i] = (char)(i % 251);
	begin(&s, &server, serve_stdin, &start);
	client_wait(&s.c, &s.ended);
	ck_assert_msg(s.why.code == ERR_NONE, "%s", s.why.text);
	ck_assert_int_eq(s.code, 0);
	ck_assert_int_eq(*server.connections, 1);
	finish(&s, &server);
	free(text);
}
END_TEST

/* The program ended without reading: that is its right. */
static void
act_closed_stdin(struct daemon *d, struct call *c)
{
	if (c == d->start) {
		init(d, c);
		return;
	}
	refuse(d, c, "13", "broken pipe");
	say(d, d->start, 4, "\x08\x03", 2);
	finish_with(d, d->start, "0");
}

/* -1, in the ten bytes of a negative number: killed by a signal. */
static void
act_killed(struct daemon *d, struct call *c)
{
	if (c != d->start) {
		answer(d, c);
		finish_with(d, c, "0");
		return;
	}
	init(d, c);
	say(d, c, 4, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
	finish_with(d, c, "0");
}

/* The exit event counts even when the stream breaks after it. */
static void
act_exit_and_break(struct daemon *d, struct call *c)
{
	if (c != d->start)
		return;
	init(d, c);
	say(d, c, 4, "\x08\x05", 2);
	d->hang_up = true;
}

static void
serve_closed_stdin(int fd, int nth)
{
	(void)nth;
	daemon_run(fd, act_closed_stdin);
}

static void
serve_killed(int fd, int nth)
{
	(void)nth;
	daemon_run(fd, act_killed);
}

static void
serve_exit_and_break(int fd, int nth)
{
	(void)nth;
	daemon_run(fd, act_exit_and_break);
	shutdown(fd, SHUT_WR);
	linger(fd);
}

static const struct {
	serve_fn *serve;
	long code;
} exits[] = {
	{ serve_closed_stdin, 3 },
	{ serve_killed, -1 },
	{ serve_exit_and_break, 5 },
};

START_TEST(reports_the_exit_status)
{
	struct sandboxd_start start = { .argv = argv, .input = "ignored",
	    .input_len = 7 };
	struct server server;
	struct seen s = { 0 };

	begin(&s, &server, exits[_i].serve, &start);
	client_wait(&s.c, &s.ended);
	ck_assert_msg(s.why.code == ERR_NONE, "%s", s.why.text);
	ck_assert_int_eq(s.code, exits[_i].code);
	finish(&s, &server);
}
END_TEST

static void
act_not_found(struct daemon *d, struct call *c)
{
	refuse(d, c, "5", "no such file: caf%C3%A9");
}

static void
act_denied(struct daemon *d, struct call *c)
{
	refuse(d, c, "7", "outside of the root");
}

static void
act_invalid(struct daemon *d, struct call *c)
{
	refuse(d, c, "3", "command is required");
}

static void
act_internal(struct daemon *d, struct call *c)
{
	refuse(d, c, "13", "exec format error");
}

static void
act_no_exit(struct daemon *d, struct call *c)
{
	answer(d, c);
	if (c == d->start) {
		say(d, c, 1, "\x08\xac\x02", 3);
		say(d, c, 2, "some", 4);
	}
	finish_with(d, c, "0");
}

static void
act_no_trailers(struct daemon *d, struct call *c)
{
	act_no_exit(d, c);
	c->bare = c == d->start;
}

static void
act_hang_up(struct daemon *d, struct call *c)
{
	if (c != d->start)
		return;
	init(d, c);
	say(d, c, 2, "some", 4);
	d->hang_up = true;
}

static void
act_garbage(struct daemon *d, struct call *c)
{
	answer(d, c);
	buf_put(&c->reply, "\x00\x00\x00\x00\x03\x0a\x7f\x01", 8);
	nghttp2_session_resume_data(d->h2, c->id);
}

static void
act_compressed(struct daemon *d, struct call *c)
{
	answer(d, c);
	buf_put(&c->reply, "\x01\x00\x00\x00\x01x", 6);
	nghttp2_session_resume_data(d->h2, c->id);
}

#define SERVE(name)						\
	static void						\
	serve_##name(int fd, int nth)				\
	{							\
		(void)nth;					\
		daemon_run(fd, act_##name);			\
	}

SERVE(not_found)
SERVE(denied)
SERVE(invalid)
SERVE(internal)
SERVE(no_exit)
SERVE(no_trailers)
SERVE(hang_up)
SERVE(garbage)
SERVE(compressed)

/* Something else listens there. */
static void
serve_http1(int fd, int nth)
{
	char req[64];

	(void)nth;
	get_all(fd, req, 24);
	put_answer(fd, 400, "what?");
}

static const struct {
	serve_fn *serve;
	enum error_code code;
	const char *words;
} failures[] = {
	{ serve_not_found, ERR_GONE, "NOT_FOUND: no such file: caf\xc3\xa9" },
	{ serve_denied, ERR_DENIED, "outside of the root" },
	{ serve_invalid, ERR_INPUT, "command is required" },
	{ serve_internal, ERR_CLUSTER, "INTERNAL: exec format error" },
	{ serve_no_exit, ERR_LOST, "may still be running" },
	{ serve_no_trailers, ERR_LOST, "may still be running" },
	{ serve_hang_up, ERR_LOST, "may still be running" },
	{ serve_garbage, ERR_CLUSTER, "unreadable" },
	{ serve_compressed, ERR_CLUSTER, "" },
	{ serve_http1, ERR_NONE, "" },
};

START_TEST(tells_what_went_wrong)
{
	struct server server;
	struct seen s = { 0 };

	begin(&s, &server, failures[_i].serve, &plain);
	client_wait(&s.c, &s.ended);
	if (failures[_i].code != ERR_NONE)
		ck_assert_msg(s.why.code == failures[_i].code, "%d %s",
		    s.why.code, s.why.text);
	ck_assert_int_ne(s.why.code, ERR_NONE);
	ck_assert_msg(strstr(s.why.text, failures[_i].words) != NULL, "%s",
	    s.why.text);
	/* A command is never sent twice. */
	ck_assert_int_eq(*server.connections, 1);
	finish(&s, &server);
}
END_TEST

static const struct error *
reason(void *arg)
{
	return arg;
}

START_TEST(puts_the_tunnels_reason_in_place_of_its_own)
{
	struct error known = { ERR_LOST, "port 9090: nothing listens" };
	struct seen s = { .port = { .why = reason, .open_arg = &known } };
	struct server server;

	server_start(&server, serve_http1, false);
	kill(-server.pid, SIGKILL);
	client_open(&s.c, &server);
	waitpid(server.pid, NULL, 0);
	snprintf(s.port.url, sizeof(s.port.url), "%s", server.url);
	s.r = sandboxd_run(s.c.web, &s.port, &plain, on_event, &s, &s.why);
	client_wait(&s.c, &s.ended);
	ck_assert_int_eq(s.why.code, ERR_LOST);
	ck_assert_ptr_nonnull(strstr(s.why.text, known.text));
	client_close(&s.c);
	munmap(server.connections, sizeof(int));
}
END_TEST

/* Runs until it is told to stop, and says by what. */
static void
act_until_signal(struct daemon *d, struct call *c)
{
	unsigned char code[2] = { 0x08, 0 };

	if (c == d->start) {
		init(d, c);
		say(d, c, 2, "ready", 5);
		return;
	}
	answer(d, c);
	finish_with(d, c, "0");
	if (d->signal == 0)
		return;
	code[1] = (unsigned char)(100 + d->signal);
	say(d, d->start, 4, code, 2);
	finish_with(d, d->start, "0");
}

SERVE(until_signal)

START_TEST(sends_a_signal_as_soon_as_there_is_a_process)
{
	struct server server;
	struct seen s = { 0 };

	begin(&s, &server, serve_until_signal, &plain);
	if (_i == 1)
		while (s.bytes == 0)
			client_turn(&s.c, 5);
	sandboxd_signal(s.r, SIGTERM);
	client_wait(&s.c, &s.ended);
	ck_assert_msg(s.why.code == ERR_NONE, "%s", s.why.text);
	ck_assert_int_eq(s.code, 100 + SIGTERM);
	finish(&s, &server);
}
END_TEST

enum { MUCH = 16 << 20, EVENT = 4096 };

static void
act_much(struct daemon *d, struct call *c)
{
	static const char block[EVENT];

	if (c != d->start) {
		answer(d, c);
		finish_with(d, c, "0");
		return;
	}
	init(d, c);
	for (size_t i = 0; i < MUCH / EVENT; i++)
		say(d, c, i % 2 ? 2 : 3, block, sizeof(block));
	say(d, c, 4, "", 0);
	finish_with(d, c, "0");
}

SERVE(much)

START_TEST(passes_any_amount_of_output_on)
{
	struct server server;
	struct seen s = { 0 };

	begin(&s, &server, serve_much, &plain);
	buf_free(&s.out);
	buf_free(&s.err);
	buf_init(&s.out, 0);
	buf_init(&s.err, 0);
	client_wait(&s.c, &s.ended);
	ck_assert_msg(s.why.code == ERR_NONE, "%s", s.why.text);
	ck_assert_uint_eq(s.bytes, MUCH);
	finish(&s, &server);
}
END_TEST

START_TEST(may_be_closed_while_it_reports)
{
	struct server server;
	struct seen s = { .close_on_data = true };

	begin(&s, &server, _i == 0 ? serve_much : serve_echo, &plain);
	client_wait(&s.c, &s.ended);
	ck_assert_uint_le(s.bytes, EVENT);
	finish(&s, &server);
	ck_assert_uint_le(s.bytes, EVENT);
}
END_TEST

START_TEST(refuses_a_message_over_the_limit)
{
	char *text = malloc(LIMIT_GRPC + 1);
	const char *much[] = { text, NULL };
	struct sandboxd_start start = { .argv = much };
	struct error err = { 0 };
	struct server server;
	struct seen s = { 0 };

	memset(text, 'x', LIMIT_GRPC);
	text[LIMIT_GRPC] = '\0';
	server_start(&server, serve_echo, false);
	client_open(&s.c, &server);
	snprintf(s.port.url, sizeof(s.port.url), "%s", server.url);
	ck_assert_ptr_null(sandboxd_run(s.c.web, &s.port, &start, on_event,
	    &s, &err));
	ck_assert_int_eq(err.code, ERR_LIMIT);
	client_close(&s.c);
	server_stop(&server);
	free(text);
}
END_TEST

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

int
main(void)
{
	Suite *suite = suite_create("sandboxd");
	TCase *t = tcase_create("sandboxd");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, starts_what_was_asked_for);
	tcase_add_test(t, delivers_all_of_stdin_in_order);
	tcase_add_loop_test(t, reports_the_exit_status, 0, COUNT(exits));
	tcase_add_loop_test(t, tells_what_went_wrong, 0, COUNT(failures));
	tcase_add_test(t, puts_the_tunnels_reason_in_place_of_its_own);
	tcase_add_loop_test(t, sends_a_signal_as_soon_as_there_is_a_process,
	    0, 2);
	tcase_add_test(t, passes_any_amount_of_output_on);
	tcase_add_loop_test(t, may_be_closed_while_it_reports, 0, 2);
	tcase_add_test(t, refuses_a_message_over_the_limit);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
