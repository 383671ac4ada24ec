/* SPDX-License-Identifier: Apache-2.0 */
/* The part of plugin that is a process of its own. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "budget.h"
#include "buf.h"
#include "error.h"
#include "kubeconfig.h"
#include "log.h"
#include "mono.h"
#include "plugin-own.h"

#ifndef SYS_close_range
#define SYS_close_range	436
#endif

enum { CONTROL = 3, LINE = 1000, CLIENTS = 4096, SEND_S = 5, FIXED = 4 };

struct client {
	int fd;			/* -1: gone */
	bool asks;
	uint64_t have;
};

struct helper {
	const struct kubeconfig_exec *exec;
	const struct log *log;
	int control;		/* -1: no more channels come */
	int children;		/* a signalfd for SIGCHLD */
	struct client *clients;
	struct pollfd *fds;
	size_t n;
	struct plugin_run run;
	struct buf out, line;
	struct error failed;	/* of this run */
	long until;
	long lines;
	struct buf text;	/* of the last good run */
	uint64_t generation;
};

/* --- answers ------------------------------------------------------------ */

static bool
send_all(int fd, const void *data, size_t len)
{
	const char *p = data;
	ssize_t n;

	for (; len > 0; p += n, len -= (size_t)n)
		if ((n = send(fd, p, len, MSG_NOSIGNAL)) <= 0)
			return false;
	return true;
}

static void
client_drop(struct client *c)
{
	(void)close(c->fd);
	c->fd = -1;
	c->asks = false;
}

/* Who does not read it in time has no more use for it. */
static void
answer(struct helper *h, struct client *c)
{
	bool good = h->failed.code == ERR_NONE;
	struct plugin_head head = { .generation = h->generation,
	    .code = (uint32_t)h->failed.code };
	const char *text = good ? h->text.data : h->failed.text;

	head.len = (uint32_t)(good ? h->text.len : strlen(text));
	c->asks = false;
	if (!send_all(c->fd, &head, sizeof(head)) ||
	    !send_all(c->fd, text, head.len))
		client_drop(c);
}

/* The run is over. */
static void
answer_all(struct helper *h)
{
	size_t i;

	for (i = 0; i < h->n; i++)
		if (h->clients[i].asks)
			answer(h, &h->clients[i]);
	h->failed.code = ERR_NONE;
}

/* --- a run -------------------------------------------------------------- */

static void
line_end(struct helper *h)
{
	if (h->line.len > 0 && h->lines < LIMIT_PLUGIN_LINES)
		log_line(h->log, LOG_NOTE, "credential plugin %s: %s",
		    h->exec->command, h->line.data);
	h->lines++;
	buf_reset(&h->line, LINE);
}

static void
lines_take(struct helper *h)
{
	char part[4096];
	ssize_t n, i;

	while ((n = read(h->run.err, part, sizeof(part))) > 0)
		for (i = 0; i < n; i++) {
			if (part[i] == '\n' || h->line.len == LINE)
				line_end(h);
			if (part[i] != '\n' && part[i] != '\0')
				buf_put(&h->line, part + i, 1);
		}
	if (n == 0) {
		(void)close(h->run.err);
		h->run.err = -1;
	}
}

static void
run_end(struct helper *h)
{
	/* What it left behind in its group, and what a limit ended. */
	if (h->failed.code != ERR_NONE)
		(void)kill(-h->run.pid, SIGKILL);
	if (h->run.err != -1) {
		lines_take(h);
		line_end(h);
	}
	if (h->run.err != -1)
		(void)close(h->run.err);
	if (h->run.out != -1)
		(void)close(h->run.out);
	h->run = (struct plugin_run){ .pid = 0 };
	if (h->failed.code == ERR_NONE) {
		buf_wipe(&h->text);
		h->text = h->out;
		h->generation++;
	} else {
		buf_wipe(&h->out);
	}
	buf_init(&h->out, LIMIT_PLUGIN_OUTPUT);
	answer_all(h);
}

static void
output_take(struct helper *h)
{
	char part[4096];
	ssize_t n;

	while ((n = read(h->run.out, part, sizeof(part))) > 0) {
		buf_put(&h->out, part, (size_t)n);
		explicit_bzero(part, (size_t)n);
		if (!buf_ok(&h->out)) {
			error_set(&h->failed, ERR_LIMIT, "credential plugin "
			    "%s: it prints more than %d bytes",
			    h->exec->command, LIMIT_PLUGIN_OUTPUT);
			run_end(h);
			return;
		}
	}
	if (n == 0) {
		(void)close(h->run.out);
		h->run.out = -1;
	}
}

static void
run_over(struct helper *h, int status)
{
	if (h->run.out != -1)
		output_take(h);
	if (h->run.pid == 0)
		return;
	if (WIFSIGNALED(status))
		error_set(&h->failed, ERR_DENIED, "credential plugin %s: "
		    "ended by signal %d", h->exec->command, WTERMSIG(status));
	else if (WEXITSTATUS(status) != 0)
		error_set(&h->failed, ERR_DENIED, "credential plugin %s: exit "
		    "status %d; what it says is in the log", h->exec->command,
		    WEXITSTATUS(status));
	run_end(h);
}

static void
reap(struct helper *h)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	while (read(h->children, &info, sizeof(info)) == sizeof(info))
		continue;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == h->run.pid)
			run_over(h, status);
}

static void
run_begin(struct helper *h)
{
	h->lines = 0;
	h->until = mono_ms() + h->exec->ms;
	if (plugin_start(&h->run, h->exec, &h->failed) == -1)
		answer_all(h);
}

static void
run_late(struct helper *h)
{
	error_set(&h->failed, ERR_TIMEOUT, "credential plugin %s: it did not "
	    "end within %ld s", h->exec->command, (h->exec->ms + 999) / 1000);
	run_end(h);
}

/* --- who asks ----------------------------------------------------------- */

static void
client_add(struct helper *h, int fd)
{
	struct timeval limit = { .tv_sec = SEND_S };
	size_t n = h->n + 1;
	struct client *clients = realloc(h->clients, n * sizeof(*clients));
	struct pollfd *fds;

	if (clients != NULL)
		h->clients = clients;
	fds = realloc(h->fds, (n + FIXED) * sizeof(*fds));
	if (fds != NULL)
		h->fds = fds;
	if (clients == NULL || fds == NULL || n > CLIENTS) {
		(void)close(fd);
		return;
	}
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	h->clients[h->n++] = (struct client){ .fd = fd };
}

/* A channel, sent as a descriptor. */
static void
control_take(struct helper *h)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} extra;
	char byte;
	struct iovec io = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &io, .msg_iovlen = 1,
	    .msg_control = &extra, .msg_controllen = sizeof(extra) };
	struct cmsghdr *c;
	ssize_t n = recvmsg(h->control, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	int fd;

	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		(void)close(h->control);
		h->control = -1;
		return;
	}
	c = CMSG_FIRSTHDR(&msg);
	if (c == NULL || c->cmsg_type != SCM_RIGHTS)
		return;
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	client_add(h, fd);
}

static void
client_take(struct helper *h, struct client *c)
{
	struct plugin_question q;
	ssize_t n = recv(c->fd, &q, sizeof(q), MSG_DONTWAIT);

	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != (ssize_t)sizeof(q)) {
		client_drop(c);
		return;
	}
	c->asks = true;
	c->have = q.have;
	if (h->generation > c->have)
		answer(h, c);
	else if (h->run.pid == 0)
		run_begin(h);
}

/* Those that are gone make room. */
static void
clients_sweep(struct helper *h)
{
	size_t i = 0;

	while (i < h->n)
		if (h->clients[i].fd == -1)
			h->clients[i] = h->clients[--h->n];
		else
			i++;
}

/* --- the process -------------------------------------------------------- */

static void
turn(struct helper *h)
{
	long ms = h->run.pid == 0 ? -1 : h->until - mono_ms();
	size_t i, n = h->n;
	struct pollfd *p = h->fds;

	p[0] = (struct pollfd){ .fd = h->control, .events = POLLIN };
	p[1] = (struct pollfd){ .fd = h->children, .events = POLLIN };
	p[2] = (struct pollfd){ .fd = h->run.pid != 0 ? h->run.out : -1,
	    .events = POLLIN };
	p[3] = (struct pollfd){ .fd = h->run.pid != 0 ? h->run.err : -1,
	    .events = POLLIN };
	for (i = 0; i < n; i++)
		p[FIXED + i] = (struct pollfd){ .fd = h->clients[i].fd,
		    .events = POLLIN };
	if (h->run.pid != 0 && ms < 0)
		ms = 0;
	if (poll(p, FIXED + n, (int)ms) == -1)
		return;
	for (i = 0; i < n; i++)
		if (h->fds[FIXED + i].revents != 0)
			client_take(h, &h->clients[i]);
	if (h->run.pid != 0 && h->fds[3].revents != 0 && h->run.err != -1)
		lines_take(h);
	if (h->run.pid != 0 && h->fds[2].revents != 0 && h->run.out != -1)
		output_take(h);
	if (h->fds[1].revents != 0)
		reap(h);
	if (h->run.pid != 0 && mono_ms() >= h->until)
		run_late(h);
	if (h->fds[0].revents != 0)
		control_take(h);
	clients_sweep(h);
}

static void
close_above(unsigned first)
{
	int fd;

	if (syscall(SYS_close_range, first, ~0u, 0) == 0)
		return;
	for (fd = (int)first; fd < 65536; fd++)
		(void)close(fd);
}

/* Nothing of the server's stays open but where its log goes. */
static bool
detach(struct helper *h, int control)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
	sigset_t set;
	size_t i;
	int null;

	for (i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		(void)signal(ignored[i], SIG_IGN);
	if (control != CONTROL && dup2(control, CONTROL) == -1)
		return false;
	(void)fcntl(CONTROL, F_SETFD, FD_CLOEXEC);
	close_above(CONTROL + 1);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null == -1 || dup2(null, 0) == -1 || dup2(null, 1) == -1)
		return false;
	(void)close(null);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_SETMASK, &set, NULL) == -1)
		return false;
	h->control = CONTROL;
	h->children = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return h->children != -1;
}

_Noreturn void
plugin_helper(int control, const struct kubeconfig_exec *exec,
    const struct log *log)
{
	struct helper h = { .exec = exec, .log = log };

	buf_init(&h.out, LIMIT_PLUGIN_OUTPUT);
	buf_init(&h.line, LINE);
	buf_init(&h.text, LIMIT_PLUGIN_OUTPUT);
	/* It has the keys in memory that were there when it began. */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	h.fds = calloc(FIXED, sizeof(*h.fds));
	if (h.fds == NULL || !detach(&h, control))
		_exit(71);
	while (h.control != -1 || h.n > 0)
		turn(&h);
	if (h.run.pid != 0)
		(void)kill(-h.run.pid, SIGKILL);
	_exit(0);
}
