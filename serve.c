/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api.h"
#include "budget.h"
#include "jsonw.h"
#include "mono.h"
#include "serve.h"
#include "task.h"
#include "turn.h"

#define SERVER "mcp-sandbox-agent/" VERSION

enum {
	IN_MAX = 64 << 10,
	OUT_MAX = 16 << 20,	/* two streams, each byte as six, and more */
	PIECE = 64 << 10,
	LINGER_MS = 2000,
	SWEEP_MS = 1000
};

static void process(struct conn *c);

/* --- answers -------------------------------------------------------------- */

static void
interest(struct conn *c)
{
	short events = 0;

	if (c->state == CONN_SEND)
		events = POLLOUT;
	else if (!c->gone)
		events = (short)(POLLRDHUP |
		    (c->in.len < IN_MAX ? POLLIN : 0));
	turn_fd_want(c->ready, events);
}

static void
head(struct conn *c, int status, const char *type, const char *extra,
    int64_t len)
{
	bool body = status != 204 && status != 304;
	struct http_answer a = {
		.status = status, .type = type, .extra = extra,
		.server = SERVER, .length = body ? len : HTTP_NO_BODY,
		.date = time(NULL), .close = c->close
	};

	c->wait = WAIT_NOTHING;
	c->task = NULL;
	c->route = NULL;
	c->state = CONN_SEND;
	c->deadline = mono_ms() + LIMIT_AGENT_PIECE_MS;
	http_head(&c->out, &a);
	interest(c);
}

static bool
wants_body(const struct conn *c)
{
	return c->http.method == NULL || strcmp(c->http.method, "HEAD") != 0;
}

void
conn_answer(struct conn *c, int status, const char *type, const char *extra,
    const void *body, size_t len)
{
	if (!c->http.keep_alive || c->serve->stopping)
		c->close = true;
	head(c, status, type, extra, (int64_t)len);
	if (len > 0 && wants_body(c))
		buf_put(&c->out, body, len);
	if (buf_ok(&c->out))
		return;
	buf_reset(&c->out, 4096);
	c->close = true;
	head(c, 500, NULL, NULL, 0);
}

void
conn_error(struct conn *c, int status, const char *text)
{
	struct buf b;
	struct jsonw w;

	buf_init(&b, 8192);
	jsonw_init(&w, &b);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "error", text);
	jsonw_end(&w);
	buf_puts(&b, "\n");
	conn_answer(c, status, "application/json", NULL, b.data, b.len);
	buf_free(&b);
}

void
conn_file(struct conn *c, int status, const char *extra, int64_t len)
{
	if (!c->http.keep_alive || c->serve->stopping)
		c->close = true;
	head(c, status, "application/octet-stream", extra, len);
	c->file_left = wants_body(c) ? len : 0;
}

void
conn_wait(struct conn *c, enum wait wait, struct task *t, long ms)
{
	c->wait = wait;
	c->task = t;
	c->state = CONN_WAIT;
	c->deadline = ms < 0 ? -1 : mono_ms() + ms;
	interest(c);
}

int
conn_number(const struct conn *c, const char *name, int64_t min, int64_t max,
    int64_t *n)
{
	char text[32], *tail;
	long len = http_query(c->query, name, text, sizeof(text));
	long long value;

	if (len == -2)
		return 0;
	errno = 0;
	value = strtoll(text, &tail, 10);
	if (len <= 0 || *tail != '\0' || errno != 0 || value < min ||
	    value > max || !strchr("-0123456789", text[0]))
		return -1;
	*n = value;
	return 1;
}

/* --- requests ------------------------------------------------------------- */

bool
serve_token_is(const struct serve *s, const char *token, size_t len)
{
	size_t i, n = s->token != NULL ? strlen(s->token) : 0;
	unsigned diff = n != len || n == 0;

	for (i = 0; i < len && n > 0; i++)
		diff |= (unsigned char)token[i] ^
		    (unsigned char)s->token[i % n];
	return diff == 0;
}

/* In the order the original checks, which its clients know. */
static void
authorize(struct conn *c)
{
	static const char scheme[] = "Bearer ";
	const char *s = http_field(&c->http, "Authorization");

	c->refused = 401;
	if (c->serve->token == NULL) {
		c->refused = 503;
		c->refusal = "agent not assigned";
	} else if (s == NULL || http_count(&c->http, "Authorization") > 1 ||
	    strncmp(s, scheme, sizeof(scheme) - 1) != 0) {
		c->refusal = "missing or invalid authorization header";
	} else if (!serve_token_is(c->serve, s + sizeof(scheme) - 1,
	    strlen(s) - (sizeof(scheme) - 1))) {
		c->refusal = "unauthorized";
	} else {
		c->refused = 0;
	}
}

static bool
matches(struct conn *c, const char *pattern, const char *path, size_t len)
{
	const char *p = path, *end = path + len;

	for (; *pattern != '\0'; pattern++) {
		if (*pattern != '*') {
			if (p == end || *p++ != *pattern)
				return false;
			continue;
		}
		c->part = p;
		if (pattern[1] == '*') {
			c->part_len = (size_t)(end - p);
			return true;
		}
		while (p < end && *p != '/')
			p++;
		if ((c->part_len = (size_t)(p - c->part)) == 0)
			return false;
	}
	return p == end;
}

static const char not_found[] = "404 page not found\n";
static const char not_allowed[] = "Method Not Allowed\n";
static const char plain[] = "text/plain; charset=utf-8";

/* Sets c->route; 404 or 405 when there is none. */
static int
find_route(struct conn *c, struct buf *allow)
{
	const struct route *r;
	const char *target = c->http.target;
	size_t len = strcspn(target, "?");
	int status = 404;

	c->query = target[len] == '?' ? target + len + 1 : NULL;
	for (r = api_routes(); r->method != NULL; r++) {
		if (!matches(c, r->path, target, len))
			continue;
		if (strcmp(r->method, c->http.method) == 0) {
			c->route = r;
			return 0;
		}
		buf_printf(allow, "%s%s", status == 405 ? ", " : "Allow: ",
		    r->method);
		status = 405;
	}
	if (status == 405)
		buf_puts(allow, "\r\n");
	return status;
}

static void
on_head(struct conn *c)
{
	struct buf allow;
	int status;

	c->refused = 0;
	c->route = NULL;
	c->http.body_max = LIMIT_AGENT_BODY;
	buf_reset(&c->body, 4096);
	buf_init(&allow, 512);
	if ((status = find_route(c, &allow)) != 0) {
		c->close = c->close || c->http.has_body;
		conn_answer(c, status, plain, allow.data, status == 404 ?
		    not_found : not_allowed, status == 404 ?
		    sizeof(not_found) - 1 : sizeof(not_allowed) - 1);
	}
	buf_free(&allow);
	if (c->route == NULL)
		return;
	if (!c->route->open)
		authorize(c);
	if (c->refused != 0 && c->http.expects) {
		c->close = true;
		conn_error(c, c->refused, c->refusal);
		return;
	}
	if (c->refused == 0 && c->route->body == BODY_FILE)
		c->http.body_max = INT64_MAX;
	if (c->refused == 0 && c->route->begin != NULL)
		c->route->begin(c);
	if (c->route != NULL && c->http.expects)
		http_continue(&c->out);
}

static void
on_data(struct conn *c, const struct http_piece *piece)
{
	if (c->refused != 0 || c->route->body == BODY_NONE)
		return;
	if (c->route->body == BODY_WHOLE) {
		buf_put(&c->body, piece->data, piece->len);
		return;
	}
	c->deadline = mono_ms() + LIMIT_AGENT_PIECE_MS;
	if (c->put_err.code == ERR_NONE && files_put_data(&c->put,
	    piece->data, piece->len, &c->put_err) == -1)
		files_put_abort(&c->put);
}

static void
on_end(struct conn *c)
{
	if (!c->route->quiet && c->refused == 0)
		c->serve->last_ms = mono_ms();
	if (c->refused != 0)
		conn_error(c, c->refused, c->refusal);
	else
		c->route->handle(c);
}

/* What follows can't be understood: the answer is the last. */
static void
on_bad(struct conn *c)
{
	const struct route *r = c->route;

	c->close = true;
	if (r != NULL && c->refused != 0)
		conn_error(c, c->refused, c->refusal);
	else if (r != NULL && c->http.status == 413)
		conn_error(c, 400, "invalid request body");
	else
		conn_error(c, c->http.status, c->http.why);
}

static void
process(struct conn *c)
{
	struct http_piece piece;
	enum http_event e = HTTP_HEAD;
	const char *p, *first;

	while (c->state == CONN_READ && e != HTTP_MORE) {
		p = first = c->in.len > 0 ? c->in.data : "";
		if (http_fresh(&c->http) && c->in.len > 0)
			c->deadline = mono_ms() + LIMIT_AGENT_REQUEST_MS;
		e = http_feed(&c->http, &p, first + c->in.len, &piece);
		if (e == HTTP_HEAD)
			on_head(c);
		else if (e == HTTP_DATA)
			on_data(c, &piece);
		else if (e == HTTP_END)
			on_end(c);
		else if (e == HTTP_BAD)
			on_bad(c);
		if (p > first)
			buf_drop(&c->in, (size_t)(p - first));
	}
	if (c->state == CONN_READ && c->gone)
		c->dead = true;
	/* 100 Continue goes out while the body comes in. */
	if (c->state == CONN_READ && c->out.len > 0) {
		(void)!write(c->fd, c->out.data, c->out.len);
		buf_reset(&c->out, 4096);
	}
	interest(c);
}

/* --- a connection --------------------------------------------------------- */

static void
conn_free(struct conn *c)
{
	struct conn **at = &c->serve->conns;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->serve->n_conns--;
	if (!c->serve->stopping)
		turn_fd_want(c->serve->ready, POLLIN);
	turn_fd_del(c->ready);
	close(c->fd);
	if (c->file != -1)
		close(c->file);
	files_put_abort(&c->put);
	http_free(&c->http);
	buf_wipe(&c->body);
	buf_wipe(&c->in);
	buf_free(&c->out);
	free(c);
}

/* The client is gone, so that nobody waits for the command any more. */
static void
hung_up(struct conn *c)
{
	struct task *t = c->task;

	c->gone = true;
	if (c->state == CONN_WAIT) {
		c->dead = true;
		c->task = NULL;
		if (c->wait == WAIT_EXEC)
			task_cancel(t);
	} else if (c->state == CONN_READ || c->state == CONN_LINGER) {
		c->dead = true;
	}
}

static void
receive(struct conn *c)
{
	char room[PIECE / 4];
	ssize_t n;

	n = recv(c->fd, room, sizeof(room), 0);
	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		hung_up(c);
		return;
	}
	if (c->state == CONN_LINGER)
		return;
	buf_put(&c->in, room, (size_t)n);
	if (!buf_ok(&c->in))
		c->dead = true;
	else if (c->state == CONN_READ)
		process(c);
}

static bool
more_of_file(struct conn *c)
{
	char room[PIECE];
	size_t want = sizeof(room);
	ssize_t n;

	if (c->file_left <= 0)
		return false;
	if ((int64_t)want > c->file_left)
		want = (size_t)c->file_left;
	n = pread(c->file, room, want, (off_t)c->file_at);
	if (n <= 0) {
		c->dead = true;		/* it became shorter: no honest end */
		return false;
	}
	c->file_at += n;
	c->file_left -= n;
	buf_put(&c->out, room, (size_t)n);
	return buf_ok(&c->out);
}

static void
sent(struct conn *c)
{
	buf_reset(&c->out, 4096);
	if (c->file != -1)
		close(c->file);
	c->file = -1;
	files_put_abort(&c->put);
	if (c->close || c->gone) {
		/*
		 * Closing while bytes come in would reset the connection, and
		 * take the answer with it.
		 */
		(void)shutdown(c->fd, SHUT_WR);
		c->state = CONN_LINGER;
		c->deadline = mono_ms() + LINGER_MS;
		buf_reset(&c->in, 0);
		if (c->gone)
			c->dead = true;
		interest(c);
		return;
	}
	http_next(&c->http);
	buf_reset(&c->body, 4096);
	c->state = CONN_READ;
	c->deadline = mono_ms() + LIMIT_AGENT_CONN_MS;
	process(c);
}

static void
transmit(struct conn *c)
{
	ssize_t n;

	if (c->out.len == 0 && !more_of_file(c)) {
		if (!c->dead)
			sent(c);
		return;
	}
	n = send(c->fd, c->out.data, c->out.len, MSG_NOSIGNAL);
	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		c->dead = true;
		return;
	}
	c->deadline = mono_ms() + LIMIT_AGENT_PIECE_MS;
	buf_drop(&c->out, (size_t)n);
	if (c->out.len == 0 && c->file_left <= 0)
		sent(c);
}

static void
on_conn(void *arg, short revents)
{
	struct conn *c = arg;

	if (c->state == CONN_SEND && revents & POLLOUT)
		transmit(c);
	else if (revents & POLLIN)
		receive(c);
	else if (revents & (POLLRDHUP | POLLHUP))
		hung_up(c);
	if (c->dead)
		conn_free(c);
}

static void
on_accept(void *arg, short revents)
{
	struct serve *s = arg;
	struct conn *c;
	int fd, one = 1;

	(void)revents;
	fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd == -1)
		return;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	if ((c = calloc(1, sizeof(*c))) == NULL) {
		close(fd);
		return;
	}
	c->ready = turn_fd_add(s->turn, fd, POLLIN, on_conn, c);
	if (c->ready == NULL) {
		close(fd);
		free(c);
		return;
	}
	c->serve = s;
	c->fd = fd;
	c->file = c->put.fd = -1;
	c->deadline = mono_ms() + LIMIT_AGENT_CONN_MS;
	http_init(&c->http, LIMIT_AGENT_HEAD, LIMIT_AGENT_BODY);
	buf_init(&c->in, IN_MAX + PIECE);
	buf_init(&c->out, OUT_MAX);
	buf_init(&c->body, LIMIT_AGENT_BODY);
	c->next = s->conns;
	s->conns = c;
	if (++s->n_conns >= LIMIT_AGENT_CONNS)
		turn_fd_want(s->ready, 0);
}

/* --- time ----------------------------------------------------------------- */

static void
late(struct conn *c)
{
	if (c->state == CONN_WAIT) {
		api_task(c);
		return;
	}
	if (c->state != CONN_READ || http_fresh(&c->http)) {
		conn_free(c);
		return;
	}
	c->close = true;
	conn_error(c, 408, "the request did not come in time");
}

static void
on_sweep(void *arg)
{
	struct serve *s = arg;
	struct conn *c, *next;
	long now = mono_ms();

	for (c = s->conns; c != NULL; c = next) {
		next = c->next;
		if (c->task != NULL)
			task_check(c->task);
		if (c->deadline >= 0 && c->deadline <= now)
			late(c);
	}
	s->sweep = turn_timer_add(s->turn, SWEEP_MS, on_sweep, s);
}

void
serve_changed(void *arg, struct task *t)
{
	struct serve *s = arg;
	struct conn *c, *next;

	/* The time a command takes is not idle. */
	s->last_ms = mono_ms();
	for (c = s->conns; c != NULL; c = next) {
		next = c->next;
		if (c->task == t)
			api_task(c);
	}
}

/* --- all of it ------------------------------------------------------------ */

/* IPv6 and IPv4 with one socket, or IPv4 where there is no IPv6. */
static int
listen_on(int port)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6,
	    .sin6_port = htons((uint16_t)port), .sin6_addr = IN6ADDR_ANY_INIT };
	struct sockaddr_in four = { .sin_family = AF_INET,
	    .sin_port = htons((uint16_t)port) };
	int fd, flags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
	int zero = 0, one = 1;

	fd = socket(AF_INET6, flags, 0);
	if (fd != -1) {
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero,
		    sizeof(zero));
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one,
		    sizeof(one));
		if (bind(fd, (struct sockaddr *)&six, sizeof(six)) == 0 &&
		    listen(fd, 128) == 0)
			return fd;
		close(fd);
	}
	if ((fd = socket(AF_INET, flags, 0)) == -1)
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&four, sizeof(four)) == 0 &&
	    listen(fd, 128) == 0)
		return fd;
	close(fd);
	return -1;
}

int
serve_open(struct serve *s, struct turn *turn, int port, struct error *err)
{
	struct sockaddr_in6 name = { 0 };
	socklen_t len = sizeof(name);

	s->turn = turn;
	s->begin_ms = s->last_ms = mono_ms();
	if ((s->fd = listen_on(port)) == -1 || getsockname(s->fd,
	    (struct sockaddr *)&name, &len) == -1) {
		error_sys(err, "listen");
		return error_wrap(err, "port %d", port);
	}
	s->ready = turn_fd_add(turn, s->fd, POLLIN, on_accept, s);
	s->sweep = turn_timer_add(turn, SWEEP_MS, on_sweep, s);
	if (s->ready == NULL || s->sweep == NULL)
		return error_set(err, ERR_SYSTEM, "out of memory");
	/* The port is at the same place for both families. */
	return ntohs(name.sin6_port);
}

void
serve_stop(struct serve *s)
{
	struct conn *c, *next;

	s->stopping = true;
	turn_fd_del(s->ready);
	s->ready = NULL;
	if (s->fd != -1)
		close(s->fd);
	s->fd = -1;
	for (c = s->conns; c != NULL; c = next) {
		next = c->next;
		if (c->state == CONN_READ && http_fresh(&c->http))
			conn_free(c);
	}
}

bool
serve_busy(const struct serve *s)
{
	const struct conn *c;

	for (c = s->conns; c != NULL; c = c->next)
		if (c->state != CONN_LINGER)
			return true;
	return false;
}

void
serve_close(struct serve *s)
{
	serve_stop(s);
	while (s->conns != NULL)
		conn_free(s->conns);
	turn_timer_del(s->sweep);
	if (s->token != NULL)
		explicit_bzero(s->token, strlen(s->token));
	free(s->token);
	s->token = NULL;
}
