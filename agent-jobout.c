/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job keep, job collect, job read: what became of a command, for who asks.
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
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "agent-job.h"
#include "buf.h"
#include "digest.h"
#include "jobwire.h"
#include "jsonw.h"

enum {
	PIECE = 32 << 10,
	TELL_MS = 500,		/* between two lines of progress */
	TAIL = 64 << 10,	/* of each output while it runs */
	LIST_MAX = 10000,	/* artifacts named */
	GLOBS_MAX = 64 << 10,
	PART_MS = 2500,
};

enum state { STARTING, RUNNING, ENDED, DEAD };

static const char *const words[] = { "starting", "running", "ended", "dead" };

static long
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool
there(const struct agent_job *j, const char *name)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", j->dir, name);
	return access(path, F_OK) == 0;
}

/* Held as long as the runner lives, in whatever container. */
static bool
locked(const struct agent_job *j)
{
	int fd = agent_job_open(j, "lock", O_RDONLY);
	bool held;

	if (fd == -1)
		return false;
	held = flock(fd, LOCK_SH | LOCK_NB) == -1;
	close(fd);
	return held;
}

static enum state
look(const struct agent_job *j)
{
	if (there(j, "end"))
		return ENDED;
	if (!there(j, "started"))
		return STARTING;
	if (locked(j))
		return RUNNING;
	/* It may have ended between the two looks. */
	return there(j, "end") ? ENDED : DEAD;
}

/* --- job keep ------------------------------------------------------------ */

static volatile sig_atomic_t leaving;

static void
leave(int number)
{
	(void)number;
	leaving = 1;
}

/* Is somebody here but us, who are process 1? */
static bool
company(void)
{
	struct dirent *e;
	DIR *d = getpid() == 1 ? opendir("/proc") : NULL;
	bool any = false;

	while (d != NULL && !any && (e = readdir(d)) != NULL)
		any = e->d_name[0] >= '1' && e->d_name[0] <= '9' &&
		    strcmp(e->d_name, "1") != 0;
	if (d != NULL)
		closedir(d);
	return any;
}

/* The pod is being deleted: whoever asks gets the command's last words. */
static int
part(void)
{
	struct timespec pause = { 0, 50 * 1000000 };
	long until = now_ms() + PART_MS;

	while (company() && now_ms() < until)
		nanosleep(&pause, NULL);
	return 0;
}

int
agent_job_keep(const struct agent_job *j)
{
	struct timespec pause = { 1, 0 };
	long until = -1;

	/* Process 1 has no default for them. */
	(void)signal(SIGTERM, leave);
	(void)signal(SIGINT, leave);
	for (;;) {
		if (until == -1 && look(j) >= ENDED)
			until = now_ms() + j->keep_s * 1000;
		if (until != -1 && now_ms() >= until)
			return 0;
		nanosleep(&pause, NULL);
		if (leaving)
			return part();
	}
}

/* --- writing ------------------------------------------------------------- */

struct sink {
	bool bad;
};

static void
put_raw(struct sink *s, const void *data, size_t len)
{
	const char *p = data;
	ssize_t n;

	while (!s->bad && len > 0) {
		n = write(1, p, len);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1) {
			s->bad = true;
			return;
		}
		p += n;
		len -= (size_t)n;
	}
}

static void
put(struct sink *s, char type, const void *data, size_t len)
{
	char head[JOBWIRE_HEAD];

	jobwire_head(head, type, len);
	put_raw(s, head, sizeof(head));
	put_raw(s, data, len);
}

/* n bytes of fd from at on, as records; fewer when there are fewer. */
static void
put_file(struct sink *s, char type, int fd, long long at, long long n)
{
	char piece[PIECE];
	ssize_t got;

	while (n > 0 && !s->bad) {
		got = pread(fd, piece, n < PIECE ? (size_t)n : PIECE,
		    (off_t)at);
		if (got <= 0)
			return;
		put(s, type, piece, (size_t)got);
		at += got;
		n -= got;
	}
}

/* --- waiting ------------------------------------------------------------- */

static size_t
last_line(const struct agent_job *j, const char *name, char *line, size_t max)
{
	int fd = agent_job_open(j, name, O_RDONLY);
	char tail[512], *at;
	ssize_t n = 0;
	off_t size;
	size_t len;

	if (fd == -1)
		return 0;
	size = lseek(fd, 0, SEEK_END);
	if (size > 0)
		n = pread(fd, tail, sizeof(tail) - 1,
		    size > 511 ? size - 511 : 0);
	close(fd);
	while (n > 0 && tail[n - 1] == '\n')
		n--;
	if (n <= 0)
		return 0;
	tail[n] = '\0';
	at = memrchr(tail, '\n', (size_t)n);
	at = at == NULL ? tail : at + 1;
	len = strlen(at) < max ? strlen(at) : max;
	memcpy(line, at, len);
	return len;
}

static void
progress(const struct agent_job *j, struct sink *s, char *told, size_t *len)
{
	char line[200];
	size_t n = last_line(j, "stdout", line, sizeof(line));

	if (n == 0)
		n = last_line(j, "stderr", line, sizeof(line));
	if (n == 0 || (n == *len && memcmp(line, told, n) == 0))
		return;
	memcpy(told, line, n);
	*len = n;
	put(s, 'P', line, n);
}

static enum state
wait_end(const struct agent_job *j, struct sink *s)
{
	long until = now_ms() + j->wait_ms, tell = now_ms() + TELL_MS;
	int note = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	char told[200], events[4096];
	size_t len = 0;
	enum state state;

	if (note != -1)
		(void)inotify_add_watch(note, j->dir, IN_MOVED_TO | IN_CREATE);
	while ((state = look(j)) < ENDED && now_ms() < until && !s->bad) {
		struct pollfd p[2] = { { note, POLLIN, 0 }, { 1, 0, 0 } };
		long left = until - now_ms();

		(void)poll(p, 2, (int)(left < 100 ? left : 100));
		while (note != -1 && read(note, events, sizeof(events)) > 0)
			continue;
		if (p[1].revents & (POLLERR | POLLHUP))
			s->bad = true;
		if (now_ms() >= tell) {
			progress(j, s, told, &len);
			tell = now_ms() + TELL_MS;
		}
	}
	if (note != -1)
		close(note);
	return state;
}

/* --- the result ---------------------------------------------------------- */

struct artifact {
	char *path;
	struct stat st;
};

struct list {
	const struct agent_job *j;
	struct artifact *all;
	size_t n, cap, more;
	char *globs;		/* NUL after each */
	size_t globs_len;
	uint64_t *before;
	size_t nbefore;
	struct stat mark;
};

static void *
file_load(const struct agent_job *j, const char *name, size_t max, size_t *len)
{
	int fd = agent_job_open(j, name, O_RDONLY);
	struct stat st;
	char *data;
	ssize_t n;

	*len = 0;
	if (fd == -1)
		return NULL;
	if (fstat(fd, &st) == -1 || st.st_size <= 0 ||
	    (size_t)st.st_size > max ||
	    (data = malloc((size_t)st.st_size + 1)) == NULL) {
		close(fd);
		return NULL;
	}
	while (*len < (size_t)st.st_size && (n = read(fd, data + *len,
	    (size_t)st.st_size - *len)) > 0)
		*len += (size_t)n;
	data[*len] = '\0';
	close(fd);
	return data;
}

static int
compare_hash(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x < y ? -1 : x > y;
}

static bool
changed(const struct list *l, const char *path, const struct stat *st)
{
	uint64_t h = agent_job_hash(path);

	if (st->st_ctim.tv_sec > l->mark.st_ctim.tv_sec ||
	    (st->st_ctim.tv_sec == l->mark.st_ctim.tv_sec &&
	    st->st_ctim.tv_nsec > l->mark.st_ctim.tv_nsec))
		return true;
	/* An old file in a folder that was moved. */
	return l->nbefore == 0 || bsearch(&h, l->before, l->nbefore,
	    sizeof(h), compare_hash) == NULL;
}

static bool
wanted(const struct list *l, const char *path, const struct stat *st)
{
	if (l->globs_len == 0)
		return changed(l, path, st);
	for (size_t at = 0; at < l->globs_len;
	    at += strlen(l->globs + at) + 1)
		if (jobwire_glob(l->globs + at, path))
			return true;
	return false;
}

static int
collect_one(void *arg, const char *path, const struct stat *st)
{
	struct list *l = arg;
	size_t cap = l->cap == 0 ? 64 : 2 * l->cap;
	struct artifact *more;

	if (!wanted(l, path, st))
		return 0;
	if (l->n == LIST_MAX) {
		l->more++;
		return 0;
	}
	if (l->n == l->cap) {
		if ((more = realloc(l->all, cap * sizeof(*more))) == NULL)
			return -1;
		l->all = more;
		l->cap = cap;
	}
	if ((l->all[l->n].path = strdup(path)) == NULL)
		return -1;
	l->all[l->n++].st = *st;
	return 0;
}

static int
compare_path(const void *a, const void *b)
{
	const struct artifact *x = a, *y = b;

	return strcmp(x->path, y->path);
}

static int
sum(int fd, char hex[65])
{
	unsigned char piece[PIECE];
	struct digest d;
	off_t at = 0;
	ssize_t n;

	digest_begin(&d);
	while ((n = pread(fd, piece, sizeof(piece), at)) > 0) {
		digest_put(&d, piece, (size_t)n);
		at += n;
	}
	digest_end(&d, hex);
	return n == -1 ? -1 : 0;
}

static const char *
kind(mode_t mode)
{
	return S_ISFIFO(mode) ? "fifo" : S_ISSOCK(mode) ? "socket" :
	    S_ISBLK(mode) || S_ISCHR(mode) ? "device" : "unreadable";
}

/* One artifact: what it is, and of a file as much as the cap lets through. */
static void
put_artifact(struct sink *s, int work, const struct artifact *a,
    struct jobwire_cap *cap)
{
	char target[PATH_MAX], hex[65];
	ssize_t n = S_ISLNK(a->st.st_mode) ? readlinkat(work, a->path, target,
	    sizeof(target)) : -1;
	int fd = S_ISREG(a->st.st_mode) ? openat(work, a->path, O_RDONLY |
	    O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
	long long inline_len = 0;
	struct jsonw w;
	struct buf b;

	buf_init(&b, 1 << 20);
	jsonw_init(&w, &b);
	jsonw_object(&w, NULL);
	jsonw_bytes(&w, "name", a->path, strlen(a->path));
	jsonw_int(&w, "size", (long)a->st.st_size);
	if (n >= 0) {
		jsonw_bytes(&w, "link", target, (size_t)n);
	} else if (fd == -1 || sum(fd, hex) == -1) {
		jsonw_str(&w, "skipped", kind(a->st.st_mode));
	} else {
		inline_len = (long long)jobwire_take(cap,
		    (uint64_t)a->st.st_size);
		jsonw_str(&w, "sha256", hex);
		jsonw_int(&w, "inline", (long)inline_len);
		jsonw_bool(&w, "cut", cap->truncated);
	}
	jsonw_end(&w);
	if (buf_ok(&b))
		put(s, 'A', b.data, b.len);
	buf_free(&b);
	put_file(s, 'D', fd, 0, inline_len);
	if (fd != -1)
		close(fd);
}

static void
put_artifacts(const struct agent_job *j, struct sink *s)
{
	struct list l = { .j = j };
	struct jobwire_cap cap = { .max = (uint64_t)j->files_max };
	int fd = agent_job_open(j, "mark", O_RDONLY);
	int work = open(j->work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t len;
	char more[32];

	if (fd == -1 || fstat(fd, &l.mark) == -1)
		l.mark = (struct stat){ 0 };
	l.globs = file_load(j, "globs", GLOBS_MAX, &l.globs_len);
	l.before = file_load(j, "before", 256 << 20, &len);
	l.nbefore = len / sizeof(*l.before);
	if (fd != -1)
		(void)agent_job_walk(j->work, l.globs_len > 0, collect_one, &l);
	if (l.n > 0)
		qsort(l.all, l.n, sizeof(*l.all), compare_path);
	for (size_t i = 0; i < l.n; i++) {
		if (work != -1 && !s->bad)
			put_artifact(s, work, &l.all[i], &cap);
		free(l.all[i].path);
	}
	if (l.more > 0)
		put(s, 'X', more, (size_t)snprintf(more, sizeof(more), "%zu",
		    l.more));
	free(l.all);
	free(l.globs);
	free(l.before);
	if (work != -1)
		close(work);
	if (fd != -1)
		close(fd);
}

static void
put_output(const struct agent_job *j, struct sink *s, const char *name,
    char type, bool tail)
{
	int fd = agent_job_open(j, name, O_RDONLY);
	long long size, at = 0;

	if (fd == -1)
		return;
	size = lseek(fd, 0, SEEK_END);
	if (tail && size > TAIL)
		at = size - TAIL;
	put_file(s, type, fd, at, tail ? TAIL : j->out_max);
	close(fd);
}

/* Without an end, the outputs' own sizes are what there is. */
static void
put_state(const struct agent_job *j, struct sink *s, enum state state)
{
	static const char *const names[] = { "stdout", "stderr" };
	struct jsonw w;
	struct buf b;
	size_t len;
	char *end = file_load(j, "end", 8192, &len);
	struct stat st;

	buf_init(&b, 16384);
	jsonw_init(&w, &b);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "state", words[state]);
	for (int i = 0; i < 2; i++) {
		int fd = agent_job_open(j, names[i], O_RDONLY);

		jsonw_int(&w, names[i], fd != -1 && fstat(fd, &st) == 0 ?
		    (long)st.st_size : 0);
		if (fd != -1)
			close(fd);
	}
	if (end != NULL)
		jsonw_raw(&w, "end", end, len);
	jsonw_end(&w);
	put(s, 'S', b.data, b.len);
	buf_free(&b);
	free(end);
}

int
agent_job_collect(const struct agent_job *j)
{
	struct sink s = { false };
	enum state state;
	int fd;

	(void)signal(SIGPIPE, SIG_IGN);
	if (j->stop && (fd = agent_job_open(j, "stop", O_WRONLY | O_CREAT)) !=
	    -1)
		close(fd);
	state = wait_end(j, &s);
	put_state(j, &s, state);
	put_output(j, &s, "stdout", 'O', state < ENDED);
	put_output(j, &s, "stderr", 'E', state < ENDED);
	if (state >= ENDED)
		put_artifacts(j, &s);
	put(&s, 'Z', NULL, 0);
	return s.bad ? 1 : 0;
}

int
agent_job_read(const struct agent_job *j)
{
	int work = open(j->work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct sink s = { false };
	struct stat st = { 0 };
	char line[64];
	int fd = -1;

	(void)signal(SIGPIPE, SIG_IGN);
	if (j->stream != NULL && (strcmp(j->stream, "stdout") == 0 ||
	    strcmp(j->stream, "stderr") == 0))
		fd = agent_job_open(j, j->stream, O_RDONLY);
	else if (j->path != NULL && work != -1)
		fd = openat(work, j->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK |
		    O_CLOEXEC);
	if (fd == -1 || fstat(fd, &st) == -1 || !S_ISREG(st.st_mode)) {
		fprintf(stderr, "%s: %s\n", j->path != NULL ? j->path : "",
		    fd == -1 ? strerror(errno) : "not a file");
		return 1;
	}
	put(&s, 'S', line, (size_t)snprintf(line, sizeof(line),
	    "{\"size\":%lld}", (long long)st.st_size));
	put_file(&s, 'D', fd, j->offset, j->limit);
	put(&s, 'Z', NULL, 0);
	return s.bad ? 1 : 0;
}
