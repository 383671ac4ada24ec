/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "budget.h"
#include "error.h"
#include "listener.h"
#include "log.h"
#include "meet.h"
#include "mono.h"
#include "stats.h"

enum { FIRST_FD = 3, BACKLOG = 128, SOURCE = 12, LATE_MS = 2000 };

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_un un;
	struct sockaddr_storage room;
};

struct child {
	pid_t pid;
	unsigned char source[SOURCE];
	int meet;		/* -1: it does not */
	char name[MEET_NAME_SIZE];	/* of a stream, or "" */
};

struct server {
	struct listener *l;
	const struct listener_how *how;
	struct child *children;
	size_t n;
	struct pollfd *poll;
	long until;		/* a signal came: they may live until then */
};

/* --- addresses ---------------------------------------------------------- */

static bool
port_of(const char *text, in_port_t *port)
{
	unsigned long n = 0;

	if (*text == '\0' || strlen(text) > 5 ||
	    text[strspn(text, "0123456789")] != '\0')
		return false;
	n = strtoul(text, NULL, 10);
	*port = htons((uint16_t)n);
	return n <= 65535;
}

static size_t
address_unix(const char *path, union address *a)
{
	size_t len = strlen(path);

	if (len == 0 || len >= sizeof(a->un.sun_path))
		return 0;
	a->un.sun_family = AF_UNIX;
	memcpy(a->un.sun_path, path, len + 1);
	return sizeof(a->un);
}

static size_t
address_tcp(const char *text, union address *a)
{
	const char *colon = strrchr(text, ':');
	char host[64];
	size_t len;
	in_port_t port;

	if (colon == NULL || !port_of(colon + 1, &port))
		return 0;
	len = (size_t)(colon - text);
	if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
		if (len == 0)
			return 0;
	} else if (memchr(text, ':', len) != NULL) {
		return 0;
	}
	if (len >= sizeof(host))
		return 0;
	memcpy(host, text, len);
	host[len] = '\0';
	if (strcmp(host, "localhost") == 0)
		(void)snprintf(host, sizeof(host), "127.0.0.1");
	if (inet_pton(AF_INET, host, &a->v4.sin_addr) == 1) {
		a->v4.sin_family = AF_INET;
		a->v4.sin_port = port;
		return sizeof(a->v4);
	}
	if (len > 0 && inet_pton(AF_INET6, host, &a->v6.sin6_addr) != 1)
		return 0;
	/* No host: all of them, IPv4 included. */
	a->v6.sin6_family = AF_INET6;
	a->v6.sin6_port = port;
	return sizeof(a->v6);
}

size_t
listener_address(const char *text, void *address, size_t size)
{
	union address a;
	size_t len;

	memset(&a, 0, sizeof(a));
	if (strncmp(text, "unix:", 5) == 0)
		len = address_unix(text + 5, &a);
	else if (text[0] == '/')
		len = address_unix(text, &a);
	else
		len = address_tcp(text, &a);
	if (len > size)
		return 0;
	memcpy(address, &a, len);
	return len;
}

static bool
is_loopback(const union address *a)
{
	if (a->any.sa_family == AF_INET)
		return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

static void
note_kind(struct listener *l, const union address *a)
{
	if (a->any.sa_family == AF_UNIX)
		return;
	if (is_loopback(a))
		l->near = true;
	else
		l->far = true;
}

/* --- opening ------------------------------------------------------------ */

/* A file that a server left behind; one that answers is somebody's. */
static int
remove_stale(const union address *a, struct error *err)
{
	const char *path = a->un.sun_path;
	struct stat st;
	int fd, r;

	if (lstat(path, &st) == -1)
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return error_set(err, ERR_CONFIG, "%s is there and is no "
		    "socket", path);
	if ((fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) == -1)
		return error_sys(err, path);
	r = connect(fd, &a->any, sizeof(a->un));
	(void)close(fd);
	if (r == 0)
		return error_set(err, ERR_CONFIG, "%s: somebody listens there "
		    "already", path);
	return unlink(path) == 0 ? 0 : error_sys(err, path);
}

static int
bind_unix(int fd, const union address *a, size_t len, unsigned mode)
{
	mode_t before = umask(0777);
	int r = bind(fd, &a->any, (socklen_t)len);

	(void)umask(before);
	/* Nobody gets in before its mode is the one that is wanted. */
	if (r == 0)
		r = chmod(a->un.sun_path, (mode_t)mode);
	return r;
}

/* What is at that path is ours now; held, it can't be taken for another. */
static int
note_file(struct listener *l, const char *path, struct error *err)
{
	struct listener_file *f = &l->files[l->nfiles];
	const char *slash = strrchr(path, '/');
	int len = slash == NULL ? 0 : slash == path ? 1 : (int)(slash - path);

	(void)snprintf(f->path, sizeof(f->path), "%.*s", len == 0 ? 1 : len,
	    len == 0 ? "." : path);
	f->name = slash == NULL ? path : slash + 1;
	f->fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	f->folder = open(f->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	l->nfiles++;
	return f->fd == -1 || f->folder == -1 ? error_sys(err, path) : 0;
}

static int
open_one(struct listener *l, const char *text, unsigned mode,
    const struct log *log, struct error *err)
{
	union address a;
	size_t len = listener_address(text, &a, sizeof(a));
	int fd, r, on = 1, off = 0;

	if (len == 0)
		return error_set(err, ERR_CONFIG, "--listen: '%.80s' is not "
		    "allowed: HOST:PORT, [IPv6]:PORT, :PORT or unix:PATH",
		    text);
	if (a.any.sa_family == AF_UNIX && remove_stale(&a, err) == -1)
		return -1;
	fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC |
	    SOCK_NONBLOCK, 0);
	if (fd == -1)
		return error_sys(err, text);
	l->fds[l->n++] = fd;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (a.any.sa_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off,
		    sizeof(off));
	r = a.any.sa_family == AF_UNIX ? bind_unix(fd, &a, len, mode) :
	    bind(fd, &a.any, (socklen_t)len);
	if (r == -1 || listen(fd, BACKLOG) == -1)
		return error_sys(err, text);
	if (a.any.sa_family == AF_UNIX && note_file(l, text +
	    (strncmp(text, "unix:", 5) == 0 ? 5 : 0), err) == -1)
		return -1;
	note_kind(l, &a);
	log_line(log, LOG_NOTE, "listening on %s", text);
	return 0;
}

static int
children_open(struct listener *l, struct error *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &set, NULL) == -1 ||
	    (l->children = signalfd(-1, &set, SFD_NONBLOCK |
	    SFD_CLOEXEC)) == -1)
		return error_sys(err, "signals");
	return 0;
}

int
listener_open(struct listener *l, const char *const *addresses, size_t n,
    unsigned mode, const struct log *log, struct error *err)
{
	*l = (struct listener){ .children = -1, .meet = -1 };
	if (n > LISTENER_MAX)
		return error_set(err, ERR_CONFIG, "--listen: more than %d",
		    LISTENER_MAX);
	for (size_t i = 0; i < n; i++)
		if (open_one(l, addresses[i], mode, log, err) == -1)
			return -1;
	return children_open(l, err);
}

size_t
listener_inherited(void)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	long n;

	if (pid == NULL || fds == NULL || strtol(pid, NULL, 10) != getpid())
		return 0;
	n = strtol(fds, NULL, 10);
	return n < 0 || n > LISTENER_MAX ? 0 : (size_t)n;
}

int
listener_take(struct listener *l, size_t n, struct error *err)
{
	*l = (struct listener){ .children = -1, .meet = -1 };
	for (size_t i = 0; i < n; i++) {
		union address a = { .any = { .sa_family = AF_UNSPEC } };
		socklen_t len = sizeof(a), size = sizeof(int);
		int fd = FIRST_FD + (int)i, listens = 0, flags;

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens,
		    &size) == -1 || listens == 0 ||
		    getsockname(fd, &a.any, &len) == -1)
			return error_set(err, ERR_CONFIG, "LISTEN_FDS: "
			    "descriptor %d does not listen (the socket unit "
			    "needs Accept=no)", fd);
		if ((flags = fcntl(fd, F_GETFL)) == -1 ||
		    fcntl(fd, F_SETFL, flags | O_NONBLOCK) == -1)
			return error_sys(err, "LISTEN_FDS");
		l->fds[l->n++] = fd;
		note_kind(l, &a);
	}
	return children_open(l, err);
}

void
listener_remove(const struct listener *l)
{
	struct stat st;

	/* One that has no name any more has lost it to another. */
	for (size_t i = 0; i < l->nfiles; i++)
		if (fstat(l->files[i].fd, &st) == 0 && st.st_nlink > 0)
			(void)unlinkat(l->files[i].folder, l->files[i].name,
			    0);
}

void
listener_close(struct listener *l)
{
	for (size_t i = 0; i < l->n; i++)
		(void)close(l->fds[i]);
	l->n = 0;
	for (size_t i = 0; i < l->nfiles; i++) {
		(void)close(l->files[i].fd);
		(void)close(l->files[i].folder);
	}
	l->nfiles = 0;
	if (l->children != -1)
		(void)close(l->children);
	l->children = -1;
}

/* --- limits ------------------------------------------------------------- */

/* What counts as one source. */
static void
source_of(int fd, const union address *a, unsigned char source[SOURCE])
{
	struct ucred cred = { .pid = 0 };
	socklen_t len = sizeof(cred);

	memset(source, 0, SOURCE);
	source[0] = (unsigned char)a->any.sa_family;
	if (a->any.sa_family == AF_INET) {
		memcpy(source + 1, &a->v4.sin_addr, 4);
	} else if (a->any.sa_family == AF_INET6 &&
	    IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr)) {
		source[0] = AF_INET;
		memcpy(source + 1, a->v6.sin6_addr.s6_addr + 12, 4);
	} else if (a->any.sa_family == AF_INET6) {
		memcpy(source + 1, &a->v6.sin6_addr, 8);
	} else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0) {
		source[0] = AF_UNIX;
		memcpy(source + 1, &cred.uid, sizeof(cred.uid));
	}
}

static bool
has_room(const struct server *s, const unsigned char source[SOURCE])
{
	const struct listener_how *how = s->how;
	long same = 0;

	if ((long)s->n >= how->connections) {
		stats_refused(how->stats, STATS_FULL);
		return false;
	}
	for (size_t i = 0; i < s->n; i++)
		same += memcmp(s->children[i].source, source, SOURCE) == 0;
	if (same < how->per_source)
		return true;
	stats_refused(how->stats, STATS_SOURCE);
	return false;
}

static void
turn_away(const struct server *s, int fd, sa_family_t family)
{
	static const char sorry[] = "HTTP/1.1 503 Service Unavailable\r\n"
	    "Retry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

	if (!s->how->tls || family == AF_UNIX)
		(void)send(fd, sorry, sizeof(sorry) - 1,
		    MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)shutdown(fd, SHUT_WR);
	(void)close(fd);
}

/* --- processes ---------------------------------------------------------- */

/* Give back what is the listening process's. */
static void
become(struct server *s, const int meet[2])
{
	listener_close(s->l);
	for (size_t i = 0; i < s->n; i++)
		if (s->children[i].meet != -1)
			(void)close(s->children[i].meet);
	if (meet[0] != -1)
		(void)close(meet[0]);
	s->l->meet = meet[1];
	free(s->children);
	free(s->poll);
}

/* 1 in the new process, with *conn. */
static int
begin(struct server *s, int fd, struct child *c, int *conn)
{
	int meet[2] = { -1, -1 };

	if (s->how->meets && meet_pair(meet) == -1)
		return -1;
	if ((c->pid = fork()) == 0) {
		become(s, meet);
		*conn = fd;
		return 1;
	}
	if (meet[1] != -1)
		(void)close(meet[1]);
	if (c->pid == -1 && meet[0] != -1)
		(void)close(meet[0]);
	c->meet = meet[0];
	return c->pid == -1 ? -1 : 0;
}

static int
take_one(struct server *s, int listening, int *conn)
{
	union address a = { .any = { .sa_family = AF_UNSPEC } };
	socklen_t len = sizeof(a);
	struct child c = { .pid = -1 };
	int fd = accept4(listening, &a.any, &len, SOCK_CLOEXEC), r;

	if (fd == -1)
		return 0;
	source_of(fd, &a, c.source);
	if (!has_room(s, c.source)) {
		turn_away(s, fd, a.any.sa_family);
		return 0;
	}
	if ((r = begin(s, fd, &c, conn)) == 1)
		return 1;
	if (r == -1) {
		log_line(s->how->log, LOG_ERROR, "a new process: %s",
		    strerror(errno));
		turn_away(s, fd, a.any.sa_family);
		return 0;
	}
	(void)close(fd);
	s->children[s->n++] = c;
	stats_accepted(s->how->stats);
	return 0;
}

/* One has a name, or something for another. */
static void
pass_on(struct server *s, struct child *from)
{
	char name[MEET_NAME_SIZE];
	int fd, r = meet_recv(from->meet, name, &fd);

	if (r == -1) {
		(void)close(from->meet);
		from->meet = -1;
	}
	if (r != 1)
		return;
	if (fd == -1) {
		if (from->name[0] == '\0')
			memcpy(from->name, name, sizeof(name));
		return;
	}
	for (size_t i = 0; i < s->n; i++)
		if (s->children[i].meet != -1 &&
		    strcmp(s->children[i].name, name) == 0)
			(void)meet_send(s->children[i].meet, name, fd);
	(void)close(fd);
}

static void
reap(struct server *s)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	while (read(s->l->children, &info, sizeof(info)) == sizeof(info))
		continue;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (WIFSIGNALED(status) && s->until == -1)
			log_line(s->how->log, LOG_ERROR, "process %d of a "
			    "connection: signal %d", (int)pid,
			    WTERMSIG(status));
		for (size_t i = 0; i < s->n; i++)
			if (s->children[i].pid == pid) {
				if (s->children[i].meet != -1)
					(void)close(s->children[i].meet);
				s->children[i] = s->children[--s->n];
				stats_gone(s->how->stats);
				break;
			}
	}
}

static void
signal_all(const struct server *s, int signo)
{
	for (size_t i = 0; i < s->n; i++)
		(void)kill(s->children[i].pid, signo);
}

static void
begin_end(struct server *s)
{
	struct signalfd_siginfo info;

	if (read(s->how->signals, &info, sizeof(info)) != sizeof(info) ||
	    s->until != -1)
		return;
	log_line(s->how->log, LOG_NOTE, "signal %u: no new connections, %zu "
	    "to finish", info.ssi_signo, s->n);
	for (size_t i = 0; i < s->l->n; i++)
		(void)close(s->l->fds[i]);
	s->l->n = 0;
	listener_remove(s->l);
	s->until = mono_ms() + s->how->drain_ms + LIMIT_DRAIN_MS + LATE_MS;
	signal_all(s, SIGTERM);
}

/* 1 in a new process; 0: go on. */
static int
turn(struct server *s, int *conn, struct error *err)
{
	struct pollfd *p = s->poll;
	size_t n = 0, meets;
	long ms = s->until == -1 ? -1 : s->until - mono_ms();

	for (; n < s->l->n; n++)
		p[n] = (struct pollfd){ .fd = s->l->fds[n], .events = POLLIN };
	p[n++] = (struct pollfd){ .fd = s->l->children, .events = POLLIN };
	p[n++] = (struct pollfd){ .fd = s->how->signals, .events = POLLIN };
	meets = s->how->meets ? s->n : 0;
	for (size_t i = 0; i < meets; i++)
		p[n + i] = (struct pollfd){ .fd = s->children[i].meet,
		    .events = POLLIN };
	if (poll(p, n + meets, s->until == -1 ? -1 : ms > 0 ? (int)ms :
	    0) == -1)
		return errno == EINTR ? 0 : error_sys(err, "poll");
	for (size_t i = 0; i < meets; i++)
		if (p[n + i].revents != 0)
			pass_on(s, &s->children[i]);
	if (p[n - 2].revents != 0)
		reap(s);
	for (size_t i = 0; i < n - 2; i++)
		if (p[i].revents != 0 && take_one(s, p[i].fd, conn) == 1)
			return 1;
	if (p[n - 1].revents != 0)
		begin_end(s);
	return 0;
}

int
listener_serve(struct listener *l, const struct listener_how *how, int *fd,
    struct error *err)
{
	struct server s = { .l = l, .how = how, .until = -1 };
	int r = 0;

	s.children = calloc((size_t)how->connections, sizeof(*s.children));
	s.poll = calloc(LISTENER_MAX + 2 +
	    (how->meets ? (size_t)how->connections : 0), sizeof(*s.poll));
	if (s.children == NULL || s.poll == NULL) {
		free(s.children);
		free(s.poll);
		return error_set(err, ERR_SYSTEM, "out of memory");
	}
	while (s.until == -1 || (s.n > 0 && mono_ms() < s.until))
		if ((r = turn(&s, fd, err)) != 0)
			break;
	if (r == 1)
		return 1;
	if (s.n > 0)
		log_line(how->log, LOG_WARN, "%zu connections did not finish "
		    "in time", s.n);
	signal_all(&s, SIGKILL);
	free(s.children);
	free(s.poll);
	listener_close(l);
	return r;
}
