/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scripted - an API server in a child process that does what one test says.
 *
 * serve() gets each connection in turn (the first is number 0), in a process
 * of its own when concurrent is set. It blocks and exits as it likes; the
 * process dies with server_stop().
 */
#ifndef SCRIPTED_H
#define SCRIPTED_H

#include <arpa/inet.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mbedtls/sha1.h>

#include "../base64.h"
#include "../buf.h"
#include "../error.h"
#include "../k8s.h"
#include "../kubeconfig.h"
#include "../loop.h"
#include "../mono.h"
#include "../web.h"

typedef void serve_fn(int fd, int nth);

struct server {
	pid_t pid;
	int *connections;	/* how many came; shared with the child */
	char port[8], url[64];
};

static inline void
server_run(int listener, serve_fn *serve, bool concurrent, int *count)
{
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_DFL);
	if (concurrent)
		signal(SIGCHLD, SIG_IGN);
	while ((fd = accept(listener, NULL, NULL)) != -1) {
		int nth = (*count)++;

		if (!concurrent || fork() == 0) {
			serve(fd, nth);
			if (concurrent)
				_exit(0);
		}
		close(fd);
	}
	_exit(0);
}

static inline void
server_start(struct server *s, serve_fn *serve, bool concurrent)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, len), 0);
	ck_assert_int_eq(listen(fd, 16), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	s->connections = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(s->connections, MAP_FAILED);
	snprintf(s->port, sizeof(s->port), "%u", ntohs(addr.sin_port));
	snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%s", s->port);
	if ((s->pid = fork()) == 0) {
		setpgid(0, 0);
		server_run(fd, serve, concurrent, s->connections);
	}
	ck_assert_int_ne(s->pid, -1);
	setpgid(s->pid, s->pid);
	close(fd);
}

static inline void
server_stop(struct server *s)
{
	kill(-s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	munmap(s->connections, sizeof(int));
}

/* --- what the child uses ------------------------------------------------ */

static inline void
put_all(int fd, const void *data, size_t len)
{
	const char *p = data;
	ssize_t n;

	for (; len > 0; p += n, len -= (size_t)n)
		if ((n = write(fd, p, len)) <= 0)
			_exit(0);
}

static inline bool
get_all(int fd, void *data, size_t len)
{
	char *p = data;
	ssize_t n;

	for (; len > 0; p += n, len -= (size_t)n)
		if ((n = read(fd, p, len)) <= 0)
			return false;
	return true;
}

/* Up to the empty line. */
static inline void
get_request(int fd, char *req, size_t size)
{
	size_t n = 0;

	while (n < size - 1 && get_all(fd, req + n, 1)) {
		req[++n] = '\0';
		if (n >= 4 && memcmp(req + n - 4, "\r\n\r\n", 4) == 0)
			return;
	}
	_exit(0);
}

static inline void
accept_of(const char *req, char *dst, size_t size)
{
	static const char name[] = "Sec-WebSocket-Key: ";
	const char *key = strstr(req, name);
	unsigned char digest[20];
	struct base64 b = { .n = 0 };
	char text[128];
	struct buf out;

	if (key == NULL)
		_exit(1);
	key += strlen(name);
	snprintf(text, sizeof(text), "%.*s"
	    "258EAFA5-E914-47DA-95CA-C5AB0DC85B11",
	    (int)strcspn(key, "\r\n"), key);
	mbedtls_sha1((unsigned char *)text, strlen(text), digest);
	buf_init(&out, 64);
	base64_encode(&b, digest, sizeof(digest), &out);
	base64_encode_end(&b, &out);
	snprintf(dst, size, "%s", out.data);
	buf_free(&out);
}

static inline void
put_upgrade(int fd, const char *req, const char *protocol)
{
	char key[64], text[400];

	accept_of(req, key, sizeof(key));
	snprintf(text, sizeof(text), "HTTP/1.1 101 Switching Protocols\r\n"
	    "Upgrade: websocket\r\nConnection: Upgrade\r\n"
	    "Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: %s\r\n\r\n",
	    key, protocol);
	put_all(fd, text, strlen(text));
}

static inline void
put_answer(int fd, int status, const char *body)
{
	char head[200];

	snprintf(head, sizeof(head), "HTTP/1.1 %d Words\r\nContent-Type: "
	    "application/json\r\nContent-Length: %zu\r\n\r\n", status,
	    strlen(body));
	put_all(fd, head, strlen(head));
	put_all(fd, body, strlen(body));
}

static inline void
put_frame(int fd, int op, const void *data, size_t len)
{
	unsigned char head[10] = { (unsigned char)(0x80 | op) };
	size_t n = 2, i;

	if (len < 126) {
		head[1] = (unsigned char)len;
	} else if (len < 65536) {
		head[1] = 126;
		head[2] = (unsigned char)(len >> 8);
		head[3] = (unsigned char)len;
		n = 4;
	} else {
		head[1] = 127;
		for (i = 0; i < 8; i++)
			head[2 + i] = (unsigned char)(len >> (56 - 8 * i));
		n = 10;
	}
	put_all(fd, head, n);
	put_all(fd, data, len);
}

static inline void
put_message(int fd, int channel, const void *data, size_t len)
{
	char *text = malloc(len + 1);

	if (text == NULL)
		_exit(1);
	text[0] = (char)channel;
	memcpy(text + 1, data, len);
	put_frame(fd, 2, text, len + 1);
	free(text);
}

static inline void
put_text(int fd, int channel, const char *text)
{
	put_message(fd, channel, text, strlen(text));
}

/* A masked frame of the client's; data grows as needed. -1 at the end. */
static inline int
get_frame(int fd, struct buf *data)
{
	unsigned char head[2], more[8], mask[4];
	char chunk[4096];
	uint64_t len, i, n;
	size_t k, wide;

	buf_reset(data, 1 << 20);
	if (!get_all(fd, head, 2))
		return -1;
	len = head[1] & 0x7f;
	wide = len == 126 ? 2 : len == 127 ? 8 : 0;
	if ((head[1] & 0x80) == 0 || !get_all(fd, more, wide))
		_exit(2);
	for (len = wide ? 0 : len, k = 0; k < wide; k++)
		len = len << 8 | more[k];
	if (!get_all(fd, mask, 4))
		return -1;
	for (i = 0; i < len; i += n) {
		n = len - i < sizeof(chunk) ? len - i : sizeof(chunk);
		if (!get_all(fd, chunk, n))
			return -1;
		for (k = 0; k < n; k++)
			chunk[k] = (char)(chunk[k] ^ mask[(i + k) % 4]);
		buf_put(data, chunk, n);
	}
	return head[0] & 0x0f;
}

/* Until the other side has gone, so that nothing is reset under it. */
static inline void
linger(int fd)
{
	char c[512];

	while (read(fd, c, sizeof(c)) > 0)
		;
}

static inline void
put_goodbye(int fd, int code)
{
	unsigned char payload[2] = { (unsigned char)(code >> 8),
	    (unsigned char)code };

	put_frame(fd, 8, payload, 2);
	linger(fd);
}

/* --- what the test uses ------------------------------------------------- */

struct client {
	struct loop *loop;
	struct web *web;
	struct k8s *k;
	struct kubeconfig kc;
};

static inline void
client_open(struct client *c, struct server *s)
{
	static char source[] = "test", name[] = "default";
	static char host[] = "127.0.0.1";
	struct error err = { 0 };

	*c = (struct client){ 0 };
	c->kc = (struct kubeconfig){ .source = source, .server = s->url,
	    .host = host, .port = s->port, .user = name, .context = name,
	    .namespace = name };
	c->loop = loop_open(&err);
	ck_assert_msg(c->loop != NULL, "%s", err.text);
	c->web = web_open(c->loop, &err);
	ck_assert_msg(c->web != NULL, "%s", err.text);
	c->k = k8s_open(c->loop, c->web, &c->kc, &err);
	ck_assert_msg(c->k != NULL, "%s", err.text);
}

/* Until *flag, or the test is stuck. */
static inline void
client_wait(struct client *c, const bool *flag)
{
	long until = mono_ms() + 15000;
	struct error err = { 0 };

	while (!*flag) {
		ck_assert_msg(mono_ms() < until, "nothing happens any more");
		ck_assert_msg(loop_turn(c->loop, 200, &err) == 0, "%s",
		    err.text);
	}
}

static inline void
client_turn(struct client *c, long ms)
{
	long until = mono_ms() + ms;
	struct error err = { 0 };

	do
		ck_assert_int_eq(loop_turn(c->loop, 10, &err), 0);
	while (mono_ms() < until);
}

static inline void
client_close(struct client *c)
{
	k8s_close(c->k);
	web_close(c->web);
	loop_close(c->loop);
}

#endif
