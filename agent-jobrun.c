/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job run: put the files, run the command, keep what it prints, end it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent-job.h"
#include "buf.h"
#include "error.h"
#include "jobwire.h"
#include "jsonw.h"
#include "procs.h"

enum {
	LOOK_MS = 50,		/* for the wish to stop */
	TERM_MS = 1000,		/* between TERM and KILL */
	LATE_MS = 300,		/* for output after the command's own end */
	PIECE = 64 << 10,
	KILL_MAX = 4096,
};

static long
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* --- files --------------------------------------------------------------- */

struct put {
	const struct agent_job *j;
	int work, file, globs;
	char path[PATH_MAX];
	size_t len;
	char mode[16];
	bool bad;
	char why[200];
};

static int
failed(struct put *p, const char *what)
{
	(void)snprintf(p->why, sizeof(p->why), "%.100s: %s", what,
	    strerror(errno));
	p->bad = true;
	return -1;
}

/* The folders that lead to path; one that is there is no fault. */
static void
folders(int work, char *path)
{
	for (char *at = strchr(path, '/'); at != NULL;
	    at = strchr(at + 1, '/')) {
		*at = '\0';
		(void)mkdirat(work, path, 0777);
		*at = '/';
	}
}

static int
file_open(struct put *p)
{
	folders(p->work, p->path);
	p->file = openat(p->work, p->path, O_WRONLY | O_CREAT | O_TRUNC |
	    O_NOFOLLOW | O_CLOEXEC, 0644);
	return p->file == -1 ? failed(p, p->path) : 0;
}

static int
write_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return -1;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

static int
put(void *arg, char type, const char *data, size_t len, bool last)
{
	struct put *p = arg;

	if (type == 'F') {
		if (p->len + len >= sizeof(p->path))
			return errno = ENAMETOOLONG, failed(p, "a path");
		memcpy(p->path + p->len, data, len);
		p->len += len;
		p->path[p->len] = '\0';
		if (!last)
			return 0;
		p->len = 0;
		if (p->file != -1)
			close(p->file);
		return file_open(p);
	}
	if (type == 'M' && len < sizeof(p->mode)) {
		memcpy(p->mode, data, len);
		p->mode[len] = '\0';
		if (fchmod(p->file, (mode_t)strtoul(p->mode, NULL, 8) &
		    07777) == -1)
			return failed(p, p->path);
	}
	if (type == 'D' && write_all(p->file, data, len) == -1)
		return failed(p, p->path);
	if (type == 'G' && (write_all(p->globs, data, len) == -1 ||
	    (last && write_all(p->globs, "", 1) == -1)))
		return failed(p, "globs");
	return 0;
}

/* Unpack what was streamed in, once. -1: why says what went wrong. */
static int
unpack(struct put *p)
{
	int in = agent_job_open(p->j, "pack", O_RDONLY);
	struct jobwire wire = { .n = 0 };
	struct error err;
	char piece[16384], path[PATH_MAX];
	ssize_t n;

	if (in == -1)
		return errno == ENOENT ? 0 : failed(p, "pack");
	/* Or it takes the same room again for as long as the pod is there. */
	(void)snprintf(path, sizeof(path), "%s/pack", p->j->dir);
	(void)unlink(path);
	p->work = open(p->j->work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	p->globs = agent_job_open(p->j, "globs", O_WRONLY | O_CREAT | O_TRUNC);
	if (p->work == -1 || p->globs == -1)
		(void)failed(p, p->j->work);
	while (!p->bad && !wire.ended && (n = read(in, piece,
	    sizeof(piece))) > 0)
		if (jobwire_feed(&wire, piece, (size_t)n, put, p, &err) == -1 &&
		    !p->bad)
			errno = EBADMSG, (void)failed(p, "pack");
	if (!p->bad && !wire.ended)
		errno = EBADMSG, (void)failed(p, "pack");
	close(in);
	for (int i = 0; i < 3; i++) {
		int fd = i == 0 ? p->work : i == 1 ? p->globs : p->file;

		if (fd != -1)
			close(fd);
	}
	return p->bad ? -1 : 0;
}

struct paths {
	uint64_t *list;
	size_t n, cap;
};

static int
remember(void *arg, const char *path, const struct stat *st)
{
	struct paths *p = arg;
	size_t cap = p->cap == 0 ? 1024 : 2 * p->cap;
	uint64_t *more;

	(void)st;
	if (p->n == p->cap) {
		if ((more = realloc(p->list, cap * sizeof(*more))) == NULL)
			return -1;
		p->list = more;
		p->cap = cap;
	}
	p->list[p->n++] = agent_job_hash(path);
	return 0;
}

static int
compare(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x < y ? -1 : x > y;
}

/*
 * What is there before the command: the paths, and a time. A file's ctime
 * can't be set, so what is changed later shows. The kernel's clock for it
 * ticks slowly: the command starts one tick later.
 */
static void
snapshot(const struct agent_job *j)
{
	static const struct timespec tick = { 0, 1000000 };
	struct paths p = { .list = NULL };
	struct stat mark, st;
	int fd;

	(void)agent_job_walk(j->work, 0, remember, &p);
	qsort(p.list, p.n, sizeof(*p.list), compare);
	fd = agent_job_open(j, "before", O_WRONLY | O_CREAT | O_TRUNC);
	if (fd != -1) {
		(void)write_all(fd, (const char *)p.list,
		    p.n * sizeof(*p.list));
		close(fd);
	}
	free(p.list);
	fd = agent_job_open(j, "mark", O_WRONLY | O_CREAT | O_TRUNC);
	if (fd == -1)
		return;
	(void)fchmod(fd, 0644);
	if (fstat(fd, &mark) == -1)
		mark.st_ctim.tv_sec = 0;
	close(fd);
	for (int i = 0; i < 100; i++) {
		fd = agent_job_open(j, "tick", O_WRONLY | O_CREAT | O_TRUNC);
		if (fd == -1)
			return;
		(void)fchmod(fd, i % 2 == 0 ? 0600 : 0644);
		if (fstat(fd, &st) == -1)
			st = mark;
		close(fd);
		if (st.st_ctim.tv_sec != mark.st_ctim.tv_sec ||
		    st.st_ctim.tv_nsec != mark.st_ctim.tv_nsec)
			return;
		nanosleep(&tick, NULL);
	}
}

/* --- the command --------------------------------------------------------- */

struct output {
	int pipe, file;		/* -1: closed */
	long long total, kept;
};

struct run {
	const struct agent_job *j;
	pid_t child;
	int signals;
	int status;		/* as of waitpid(2) */
	bool over;		/* status is known */
	const char *why;	/* NULL: it ended by itself */
	struct output out[2];
	long begun_ms, ended_ms;
	long ooms;		/* before it began */
	char message[300];
};

/* HOME may be unset, "/" or somebody else's when the uid is not the image's. */
static void
home_set(void)
{
	const char *home = getenv("HOME");

	if (home != NULL && strcmp(home, "/") != 0 && access(home, W_OK) == 0)
		return;
	if (access("/tmp", W_OK) == 0)
		(void)setenv("HOME", "/tmp", 1);
}

static void
child(const struct agent_job *j, const int to[2], int fault)
{
	sigset_t none;
	int null = open("/dev/null", O_RDONLY), e;

	(void)setsid();
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	if (chdir(j->work) == 0 && dup2(null, 0) != -1 &&
	    dup2(to[0], 1) != -1 && dup2(to[1], 2) != -1) {
		home_set();
		execvp(j->argv[0], j->argv);
	}
	e = errno;
	if (write(fault, &e, sizeof(e)) == -1)
		_exit(126);
	_exit(e == ENOENT ? 127 : 126);
}

static int
start(struct run *r)
{
	int out[2], err[2], fault[2], e = 0;

	if (pipe2(out, O_CLOEXEC) == -1 || pipe2(err, O_CLOEXEC) == -1 ||
	    pipe2(fault, O_CLOEXEC) == -1)
		return -1;
	r->begun_ms = now_ms();
	if ((r->child = fork()) == -1)
		return -1;
	if (r->child == 0)
		child(r->j, (const int[2]){ out[1], err[1] }, fault[1]);
	close(out[1]);
	close(err[1]);
	close(fault[1]);
	r->out[0].pipe = out[0];
	r->out[1].pipe = err[0];
	for (int i = 0; i < 2; i++)
		(void)fcntl(r->out[i].pipe, F_SETFL, O_NONBLOCK);
	if (read(fault[0], &e, sizeof(e)) == sizeof(e)) {
		int n = snprintf(r->message, sizeof(r->message),
		    "%.200s: %s", r->j->argv[0], strerror(e));

		r->out[1].total = n + 1;
		if (write_all(r->out[1].file, r->message, (size_t)n) == 0 &&
		    write_all(r->out[1].file, "\n", 1) == 0)
			r->out[1].kept = n + 1;
	}
	close(fault[0]);
	return 0;
}

/* The children of pid, appended to list. */
static size_t
children(pid_t pid, pid_t *list, size_t n)
{
	char text[4096], *at = text, *end;
	ssize_t len;
	int fd;

	(void)snprintf(text, sizeof(text), "/proc/%d/task/%d/children",
	    (int)pid, (int)pid);
	if ((fd = open(text, O_RDONLY | O_CLOEXEC)) == -1)
		return n;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[len > 0 ? len : 0] = '\0';
	/* A number that is cut at the end is some other process. */
	while (n < KILL_MAX && *at != '\0') {
		long one = strtol(at, &end, 10);

		if (end == at || *end != ' ')
			break;
		list[n++] = (pid_t)one;
		at = end + 1;
	}
	return n;
}

/*
 * To everything the command started. As process 1 that is all there is in the
 * container; else what descends from us, orphans included (subreaper).
 */
static void
kill_all(const struct run *r, int number)
{
	pid_t list[KILL_MAX];
	size_t n;

	if (getpid() == 1) {
		(void)kill(-1, number);
		return;
	}
	if (!r->over)
		(void)kill(-r->child, number);
	n = children(getpid(), list, 0);
	for (size_t i = 0; i < n; i++) {
		n = children(list[i], list, n);
		(void)kill(list[i], number);
	}
}

static void
reap(struct run *r)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == r->child) {
			r->status = status;
			r->over = true;
			r->ended_ms = now_ms();
		}
}

/* What is there now; all of it counts, the first bytes are kept. */
static void
drain(struct run *r, struct output *o)
{
	char piece[PIECE];
	long long keep;
	ssize_t n;

	if (o->pipe == -1)
		return;
	while ((n = read(o->pipe, piece, sizeof(piece))) > 0) {
		keep = r->j->spool - o->kept < n ? r->j->spool - o->kept : n;
		o->total += n;
		if (keep <= 0)
			continue;
		if (write_all(o->file, piece, (size_t)keep) == 0)
			o->kept += keep;
		else
			(void)snprintf(r->message, sizeof(r->message),
			    "output could not be kept: %s", strerror(errno));
	}
	if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		close(o->pipe);
		o->pipe = -1;
	}
}

static const char *
wish(const struct run *r)
{
	struct signalfd_siginfo s;
	const char *why = NULL;
	int fd;

	while (read(r->signals, &s, sizeof(s)) == sizeof(s))
		if (s.ssi_signo != SIGCHLD)
			why = "terminated";
	if (why == NULL && now_ms() - r->begun_ms >= r->j->timeout_s * 1000)
		why = "timeout";
	fd = agent_job_open(r->j, "stop", O_RDONLY);
	if (fd != -1) {
		close(fd);
		why = "stopped";
	}
	return why;
}

static void
wait_some(struct run *r, long ms)
{
	struct pollfd p[3] = { { r->signals, POLLIN, 0 },
	    { r->out[0].pipe, POLLIN, 0 }, { r->out[1].pipe, POLLIN, 0 } };

	(void)poll(p, 3, (int)ms);
	for (int i = 0; i < 2; i++)
		drain(r, &r->out[i]);
}

/*
 * Until the command has ended, by itself or not; then whatever it left behind
 * is ended too, after a moment for its last words.
 */
static void
follow(struct run *r)
{
	long kill_at = 0, late;

	while (!r->over) {
		wait_some(r, LOOK_MS);
		reap(r);
		if (r->over)
			break;
		if (r->why == NULL && (r->why = wish(r)) != NULL) {
			kill_all(r, SIGTERM);
			kill_at = now_ms() + TERM_MS;
		} else if (kill_at != 0 && now_ms() >= kill_at) {
			kill_all(r, SIGKILL);
		}
	}
	if (r->why != NULL)
		kill_all(r, SIGKILL);
	late = now_ms() + LATE_MS;
	while ((r->out[0].pipe != -1 || r->out[1].pipe != -1) &&
	    now_ms() < late)
		wait_some(r, 10);
	kill_all(r, SIGKILL);
	for (int i = 0; i < 2; i++)
		drain(r, &r->out[i]);
	reap(r);
}

/* --- how it ended -------------------------------------------------------- */

static int
code_of(const struct run *r)
{
	if (r->child <= 0)
		return 126;
	return WIFEXITED(r->status) ? WEXITSTATUS(r->status) :
	    128 + WTERMSIG(r->status);
}

static void
end_write(const struct run *r)
{
	long ooms = procs_oom_kills();
	char from[PATH_MAX], to[PATH_MAX];
	struct jsonw w;
	struct buf b;
	int fd;

	buf_init(&b, 8192);
	jsonw_init(&w, &b);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "why", r->why == NULL ? "exit" : r->why);
	jsonw_int(&w, "exit_code", code_of(r));
	jsonw_bool(&w, "oom", ooms > r->ooms && r->ooms >= 0);
	jsonw_int(&w, "duration_ms", r->ended_ms - r->begun_ms);
	jsonw_int(&w, "stdout", (long)r->out[0].total);
	jsonw_int(&w, "stderr", (long)r->out[1].total);
	jsonw_str(&w, "message", r->message);
	jsonw_end(&w);
	fd = agent_job_open(r->j, "end.new", O_WRONLY | O_CREAT | O_TRUNC);
	if (fd != -1 && buf_ok(&b) && write_all(fd, b.data, b.len) == 0) {
		(void)snprintf(from, sizeof(from), "%s/end.new", r->j->dir);
		(void)snprintf(to, sizeof(to), "%s/end", r->j->dir);
		(void)rename(from, to);
	}
	if (fd != -1)
		close(fd);
	buf_free(&b);
}

static int
prepare(struct run *r)
{
	sigset_t set;
	int lock = agent_job_open(r->j, "lock", O_RDWR | O_CREAT), fd;

	(void)umask(0022);
	if (lock == -1 || flock(lock, LOCK_EX) == -1)
		return -1;
	if ((fd = agent_job_open(r->j, "started", O_WRONLY | O_CREAT)) == -1)
		return -1;
	close(fd);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	r->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	r->out[0].file = agent_job_open(r->j, "stdout", O_WRONLY | O_CREAT |
	    O_TRUNC);
	r->out[1].file = agent_job_open(r->j, "stderr", O_WRONLY | O_CREAT |
	    O_TRUNC);
	return r->signals == -1 || r->out[0].file == -1 ||
	    r->out[1].file == -1 ? -1 : 0;
}

int
agent_job_run(const struct agent_job *j)
{
	struct run r = { .j = j, .out = { { -1, -1, 0, 0 },
	    { -1, -1, 0, 0 } } };
	struct put p = { .j = j, .work = -1, .file = -1, .globs = -1 };

	if (prepare(&r) == -1) {
		fprintf(stderr, "mcp-sandbox-agent: %s: %s\n", j->dir,
		    strerror(errno));
		return 125;
	}
	r.begun_ms = r.ended_ms = now_ms();
	r.ooms = procs_oom_kills();
	if (unpack(&p) == -1) {
		(void)snprintf(r.message, sizeof(r.message),
		    "files: %s", p.why);
		r.why = "files";
	} else {
		snapshot(j);
		if (start(&r) == 0) {
			follow(&r);
		} else {
			(void)snprintf(r.message, sizeof(r.message),
			    "the command can't be started: %s",
			    strerror(errno));
			r.why = "start";
		}
	}
	end_write(&r);
	return code_of(&r);
}
