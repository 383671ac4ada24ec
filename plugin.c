/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "budget.h"
#include "buf.h"
#include "error.h"
#include "mono.h"
#include "plugin.h"
#include "plugin-own.h"

enum { LATE_MS = 5000 };	/* a helper that is busy, not a plugin */

struct plugin {
	int control;
};

struct plugin *
plugin_open(const struct kubeconfig_exec *exec, const struct log *log,
    struct error *err)
{
	struct plugin *p = malloc(sizeof(*p));
	int ends[2];
	pid_t pid;

	if (p == NULL || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
	    ends) == -1) {
		error_sys(err, "credential plugin");
		free(p);
		return NULL;
	}
	if ((pid = fork()) == 0)
		plugin_helper(ends[1], exec, log);
	(void)close(ends[1]);
	p->control = ends[0];
	if (pid != -1)
		return p;
	error_sys(err, "credential plugin: fork");
	plugin_close(p);
	return NULL;
}

void
plugin_close(struct plugin *p)
{
	if (p == NULL)
		return;
	(void)close(p->control);
	free(p);
}

static int
gone(struct error *err)
{
	return error_set(err, ERR_SYSTEM, "the process that runs the "
	    "credential plugin has ended; start anew");
}

/* With a byte, as a message without any is the end. */
static int
send_end(int control, int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} extra;
	char byte = 0;
	struct iovec io = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &io, .msg_iovlen = 1,
	    .msg_control = &extra, .msg_controllen = sizeof(extra) };
	struct cmsghdr *c;

	memset(&extra, 0, sizeof(extra));
	c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(control, &msg, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

int
plugin_connect(struct plugin *p, struct error *err)
{
	int ends[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == -1)
		return error_sys(err, "credential plugin");
	r = send_end(p->control, ends[1]);
	(void)close(ends[1]);
	if (r == 0)
		return ends[0];
	(void)close(ends[0]);
	return gone(err);
}

int
plugin_ask(int fd, unsigned long have, struct error *err)
{
	struct plugin_question q = { .have = have };

	if (send(fd, &q, sizeof(q), MSG_NOSIGNAL) != (ssize_t)sizeof(q))
		return gone(err);
	return 0;
}

void
plugin_buf(struct buf *in)
{
	buf_init(in, sizeof(struct plugin_head) + LIMIT_PLUGIN_OUTPUT);
}

/* As many bytes as are missing: 1, 0 when they are not there yet, or -1. */
static int
fill(int fd, struct buf *in, size_t wanted)
{
	char part[4096];
	ssize_t n;

	while (in->len < wanted) {
		n = recv(fd, part, wanted - in->len < sizeof(part) ?
		    wanted - in->len : sizeof(part), MSG_DONTWAIT);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		if (n <= 0)
			return -1;
		buf_put(in, part, (size_t)n);
		explicit_bzero(part, (size_t)n);
		if (!buf_ok(in))
			return -1;
	}
	return 1;
}

int
plugin_read(int fd, struct buf *in, unsigned long *generation,
    const char **text, size_t *len, struct error *err)
{
	struct plugin_head head;
	int r;

	*generation = 0;
	if ((r = fill(fd, in, sizeof(head))) == 1) {
		memcpy(&head, in->data, sizeof(head));
		r = fill(fd, in, sizeof(head) + head.len);
	}
	if (r == -1)
		return gone(err);
	if (r == 0)
		return 0;
	*generation = head.generation > 0 ? head.generation : 1;
	*text = in->data + sizeof(head);
	*len = head.len;
	if (head.code == ERR_NONE)
		return 1;
	return error_set(err, (enum error_code)head.code, "%.*s", (int)*len,
	    *text);
}

int
plugin_wait(int fd, struct buf *in, unsigned long *generation,
    const char **text, size_t *len, struct error *err)
{
	long until = mono_ms() + LIMIT_PLUGIN_MS + LATE_MS, left;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int r;

	while ((r = plugin_read(fd, in, generation, text, len, err)) == 0) {
		if ((left = until - mono_ms()) <= 0)
			return error_set(err, ERR_TIMEOUT, "the credential "
			    "plugin does not answer");
		if (poll(&p, 1, (int)left) == -1 && errno != EINTR)
			return error_sys(err, "credential plugin");
	}
	return r == 1 ? 0 : -1;
}
