/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server - a scripted HTTP/1.1 server on the loop of the test itself.
 *
 * The n-th request gets the n-th answer of the script. Requests are kept as
 * "METHOD target\n" lines in log, the last whole one in last.
 */
#ifndef SERVER_H
#define SERVER_H

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../error.h"
#include "../k8s.h"
#include "../kubeconfig.h"
#include "../loop.h"

struct answer {
	const char *bytes;	/* NULL: hang up; "": never answer */
	size_t piece;		/* bytes a write; 0: all */
	bool close;		/* hang up after it */
};

struct server {
	struct loop *loop;
	struct loop_fd *watch;
	int fd;
	unsigned port;
	char text[16], url[64];	/* of the port; server_k8s() */
	const struct answer *script;
	size_t count, at;
	struct server_conn *conns;
	size_t accepted;
	char log[4096];
	char last[65536];
};

struct server_conn {
	struct server *server;
	struct server_conn *next;
	struct loop_fd *watch;
	struct loop_timer *timer;
	int fd;
	char in[65536];
	size_t len;
	const struct answer *answer;
	size_t sent;
};

static inline void
server_hang_up(struct server_conn *c)
{
	struct server_conn **at;

	for (at = &c->server->conns; *at != c; at = &(*at)->next)
		continue;
	*at = c->next;
	loop_fd_del(c->watch);
	loop_timer_del(c->timer);
	close(c->fd);
	free(c);
}

static inline void
server_write(void *arg)
{
	struct server_conn *c = arg;
	const char *rest = c->answer->bytes + c->sent;
	size_t n = strlen(rest);

	c->timer = NULL;
	if (c->answer->piece > 0 && n > c->answer->piece)
		n = c->answer->piece;
	if (n > 0 && send(c->fd, rest, n, MSG_NOSIGNAL) != (ssize_t)n) {
		server_hang_up(c);
		return;
	}
	c->sent += n;
	if (c->answer->bytes[c->sent] != '\0')
		c->timer = loop_timer_add(c->server->loop, 0, server_write, c);
	else if (c->answer->close)
		server_hang_up(c);
}

/* The length of the first request in in, 0 when it is not whole. */
static inline size_t
server_whole(const struct server_conn *c)
{
	const char *end = strstr(c->in, "\r\n\r\n"), *field;
	size_t body = 0;

	if (end == NULL)
		return 0;
	field = strcasestr(c->in, "\r\nContent-Length:");
	if (field != NULL && field < end)
		body = strtoul(field + 17, NULL, 10);
	field = strcasestr(c->in, "\r\nTransfer-Encoding: chunked");
	if (field != NULL && field < end) {
		if ((field = strstr(end, "\r\n0\r\n\r\n")) == NULL)
			return 0;
		return (size_t)(field + 7 - c->in);
	}
	body += (size_t)(end + 4 - c->in);
	return c->len >= body ? body : 0;
}

/* false: hung up */
static inline bool
server_answer(struct server_conn *c, size_t len)
{
	struct server *s = c->server;
	size_t used = strlen(s->log);

	memcpy(s->last, c->in, len);
	s->last[len] = '\0';
	(void)snprintf(s->log + used, sizeof(s->log) - used, "%.*s\n",
	    (int)strcspn(strchr(c->in, ' ') + 1, " ") +
	    (int)(strchr(c->in, ' ') + 1 - c->in), c->in);
	memmove(c->in, c->in + len, c->len - len + 1);
	c->len -= len;
	if (s->at >= s->count || s->script[s->at].bytes == NULL) {
		s->at++;
		server_hang_up(c);
		return false;
	}
	c->answer = &s->script[s->at++];
	c->sent = 0;
	if (c->answer->bytes[0] != '\0')
		c->timer = loop_timer_add(s->loop, 0, server_write, c);
	return true;
}

static inline void
server_read(void *arg, short revents)
{
	struct server_conn *c = arg;
	size_t len;
	ssize_t n;

	(void)revents;
	n = recv(c->fd, c->in + c->len, sizeof(c->in) - 1 - c->len, 0);
	if (n <= 0) {
		server_hang_up(c);
		return;
	}
	c->len += (size_t)n;
	c->in[c->len] = '\0';
	while ((len = server_whole(c)) > 0)
		if (!server_answer(c, len))
			return;
}

static inline void
server_accept(void *arg, short revents)
{
	struct server *s = arg;
	struct server_conn *c = calloc(1, sizeof(*c));

	(void)revents;
	ck_assert_ptr_nonnull(c);
	c->server = s;
	c->fd = accept(s->fd, NULL, NULL);
	c->watch = loop_fd_add(s->loop, c->fd, POLLIN, server_read, c);
	c->next = s->conns;
	s->conns = c;
	s->accepted++;
}

static inline void
server_open(struct server *s, struct loop *l, const struct answer *script,
    size_t count)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t len = sizeof(at);

	memset(s, 0, sizeof(*s));
	s->loop = l;
	s->script = script;
	s->count = count;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(s->fd, (struct sockaddr *)&at, len), 0);
	ck_assert_int_eq(listen(s->fd, 16), 0);
	ck_assert_int_eq(getsockname(s->fd, (struct sockaddr *)&at, &len), 0);
	s->port = ntohs(at.sin_port);
	s->watch = loop_fd_add(l, s->fd, POLLIN, server_accept, s);
}

/* As an API server: kc is where it is, and borrows from s. */
static inline struct k8s *
server_k8s(struct server *s, struct web *web, struct kubeconfig *kc)
{
	static char host[] = "127.0.0.1", source[] = "test";
	struct error err;
	struct k8s *k;

	(void)snprintf(s->text, sizeof(s->text), "%u", s->port);
	(void)snprintf(s->url, sizeof(s->url), "http://%s:%s", host, s->text);
	*kc = (struct kubeconfig){ .source = source, .server = s->url,
	    .host = host, .port = s->text };
	k = k8s_open(s->loop, web, kc, &err);
	ck_assert_msg(k != NULL, "%s", err.text);
	return k;
}

static inline void
server_close(struct server *s)
{
	while (s->conns != NULL)
		server_hang_up(s->conns);
	loop_fd_del(s->watch);
	close(s->fd);
}

/* How many lines of the log begin with prefix. */
static inline int
server_count(const struct server *s, const char *prefix)
{
	const char *line = s->log;
	int n = 0;

	while (*line != '\0') {
		n += strncmp(line, prefix, strlen(prefix)) == 0;
		line += strcspn(line, "\n") + 1;
	}
	return n;
}

#endif
