/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buf.h"
#include "error.h"
#include "front.h"
#include "budget.h"
#include "intake.h"
#include "log.h"
#include "loop.h"
#include "mcp.h"
#include "mono.h"
#include "outlet.h"

enum {
	PIECE = OUTLET_PIECE,		/* read or written at once */
	KEEP = 64 * 1024,		/* memory kept for the next answer */
	/* Every call may owe one answer when reading stops. */
	OUT_MAX = 0x7fffffff < (LIMIT_CALLS + 2L) * LIMIT_REPLY ? 0x7fffffff :
	    (LIMIT_CALLS + 2) * LIMIT_REPLY,
};

struct lines {
	const struct front *f;
	struct mcp *mcp;
	struct intake in;
	char *piece;			/* PIECE bytes, for on_...() only */
	struct outlet out;
	struct loop_fd *rd, *wr, *sig;
	long ticket;
	bool ended;			/* nothing more is read */
	bool deaf;			/* nobody reads what we write */
};

int
front_unblocked(int fd)
{
	char path[32];
	struct stat st;
	int own;

	if (fstat(fd, &st) == -1 || !S_ISFIFO(st.st_mode))
		return fd;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	return own == -1 ? fd : own;
}

static void
end(struct lines *l)
{
	if (l->ended)
		return;
	l->ended = true;
	if (l->rd != NULL)
		loop_fd_want(l->rd, 0);
	mcp_end(l->mcp);
}

static void
on_send(void *arg, long ticket, struct buf *json, bool last)
{
	struct lines *l = arg;

	(void)ticket;
	(void)last;
	if (l->deaf || json->len == 0)
		return;
	outlet_message(&l->out, json, mcp_far(l->mcp));
	buf_put(&l->out.out, "\n", 1);
	loop_fd_want(l->wr, POLLOUT);
}

ssize_t
front_put(int fd, const char *data, size_t len)
{
	ssize_t n = send(fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n != -1 || errno != ENOTSOCK)
		return n;
	if ((fcntl(fd, F_GETFL) & O_NONBLOCK) == 0 && len > 4096)
		len = 4096;
	return write(fd, data, len);
}

/* What the client takes at once; -1: it has gone. */
static int
write_some(struct lines *l)
{
	struct error err;
	const char *p;
	size_t len;
	ssize_t n;

	if (outlet_next(&l->out, l->piece, &p, &len, &err) == -1) {
		log_line(l->f->log, LOG_ERROR, "half an answer: %s", err.text);
		return -1;
	}
	if (len == 0)
		return 0;
	n = front_put(l->f->out, p, len);
	if (n > 0)
		outlet_took(&l->out, (size_t)n);
	return n == -1 && errno != EAGAIN && errno != EINTR ? -1 : 0;
}

static void
on_writable(void *arg, short revents)
{
	struct lines *l = arg;

	(void)revents;
	if (write_some(l) == -1) {
		/* EPIPE: whoever asked has gone; so do we. */
		l->deaf = true;
		outlet_reset(&l->out, 0);
		end(l);
	}
	if (outlet_empty(&l->out)) {
		outlet_reset(&l->out, KEEP);
		loop_fd_want(l->wr, 0);
	}
	if (!l->ended && outlet_held(&l->out) < LIMIT_REPLY)
		loop_fd_want(l->rd, POLLIN);
}

static void
line(struct lines *l)
{
	if (l->in.len > 0)
		intake_serve(&l->in, l->mcp, ++l->ticket, NULL);
}

static void
on_readable(void *arg, short revents)
{
	struct lines *l = arg;
	char *p = l->piece, *till, *nl;
	ssize_t n;

	(void)revents;
	n = read(l->f->in, l->piece, PIECE);
	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		/* A last line without its newline is still a message. */
		line(l);
		end(l);
		return;
	}
	for (till = p + n; p < till && !l->ended; p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(till - p));
		intake_feed(&l->in, p, (size_t)((nl == NULL ? till : nl) -
		    p));
		if (nl == NULL)
			break;
		line(l);
	}
	if (!l->ended && outlet_held(&l->out) >= LIMIT_REPLY)
		loop_fd_want(l->rd, 0);
}

static void
on_signal(void *arg, short revents)
{
	struct lines *l = arg;
	struct signalfd_siginfo info;

	(void)revents;
	if (read(l->f->signals, &info, sizeof(info)) == sizeof(info)) {
		log_line(l->f->log, LOG_NOTE, "signal %u: stopping",
		    info.ssi_signo);
		end(l);
	}
}

static int
open_all(struct lines *l, const struct front *f, struct error *err)
{
	*l = (struct lines){ .f = f };
	intake_init(&l->in, f->stash);
	outlet_init(&l->out, OUT_MAX);
	l->mcp = mcp_open(f->loop, f->rows, f->env, on_send, l, err);
	if (l->mcp == NULL)
		return -1;
	mcp_caller(l->mcp, f->caller);
	l->rd = loop_fd_add(f->loop, f->in, POLLIN, on_readable, l);
	l->wr = loop_fd_add(f->loop, f->out, 0, on_writable, l);
	if (f->signals != -1)
		l->sig = loop_fd_add(f->loop, f->signals, POLLIN, on_signal, l);
	l->piece = malloc(PIECE);
	if (l->rd == NULL || l->wr == NULL || l->piece == NULL ||
	    (f->signals != -1 && l->sig == NULL))
		return error_set(err, ERR_SYSTEM, "out of memory");
	return 0;
}

/* Turn the loop until everything is answered, or the time for it is over. */
static int
turn(struct lines *l, struct error *err)
{
	long until = -1, ms;

	while (!l->ended || !outlet_empty(&l->out) || mcp_live(l->mcp) > 0) {
		ms = -1;
		if (l->ended) {
			if (until == -1)
				until = mono_ms() + LIMIT_DRAIN_MS;
			ms = until - mono_ms();
			if (ms <= 0)
				break;
		}
		if (loop_turn(l->f->loop, ms, err) == -1)
			return -1;
		if (!l->ended && mcp_bad_lines(l->mcp) > LIMIT_BAD_LINES) {
			log_line(l->f->log, LOG_ERROR, "%d messages were not "
			    "JSON-RPC: ending", LIMIT_BAD_LINES);
			end(l);
			return 65;
		}
	}
	return 0;
}

int
front_lines(const struct front *f, struct error *err)
{
	struct lines l;
	int r;

	r = open_all(&l, f, err);
	if (r == 0)
		r = turn(&l, err);
	if (r == 0 && (mcp_live(l.mcp) > 0 || mcp_left(l.mcp) > 0)) {
		log_line(f->log, LOG_ERROR, "%zu calls were not cleaned up in "
		    "time, %zu objects were left", mcp_live(l.mcp),
		    mcp_left(l.mcp));
		r = 2;
	}
	loop_fd_del(l.rd);
	loop_fd_del(l.wr);
	loop_fd_del(l.sig);
	mcp_close(l.mcp);
	intake_free(&l.in);
	outlet_free(&l.out);
	free(l.piece);
	return r;
}
