/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/syscall.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "procs.h"

enum { PROCS_MAX = 32768, ENVIRON_MAX = 256 << 10 };

struct proc {
	pid_t pid, ppid;
	unsigned long long start;
	char state;
	char mark[PROCS_MARK_MAX];
	bool hit;
};

struct list {
	struct proc *procs;
	size_t n, cap;
};

unsigned long long
procs_now(void)
{
	struct timespec ts;
	long hz = sysconf(_SC_CLK_TCK);

	if (hz <= 0 || clock_gettime(CLOCK_BOOTTIME, &ts) == -1)
		return 0;
	return (unsigned long long)ts.tv_sec * (unsigned long long)hz +
	    (unsigned long long)ts.tv_nsec /
	    (1000000000ULL / (unsigned long long)hz);
}

static ssize_t
slurp(pid_t pid, const char *name, char *dst, size_t size)
{
	char path[64];
	ssize_t n, len = 0;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		return -1;
	while ((size_t)len < size - 1 && (n = read(fd, dst + len,
	    size - 1 - (size_t)len)) > 0)
		len += n;
	close(fd);
	dst[len] = '\0';
	return len;
}

/* proc_pid_stat(5); the name may hold blanks and brackets. */
static bool
read_stat(pid_t pid, struct proc *p)
{
	char text[1024], *s, *save;
	int field;

	if (slurp(pid, "stat", text, sizeof(text)) <= 0 ||
	    (s = strrchr(text, ')')) == NULL)
		return false;
	p->pid = pid;
	s = strtok_r(s + 1, " ", &save);
	for (field = 3; s != NULL; field++) {
		if (field == 3)
			p->state = *s;
		else if (field == 4)
			p->ppid = (pid_t)strtol(s, NULL, 10);
		else if (field == 22) {
			p->start = strtoull(s, NULL, 10);
			return true;
		}
		s = strtok_r(NULL, " ", &save);
	}
	return false;
}

static void
read_mark(struct proc *p, char *room)
{
	static const char name[] = PROCS_MARK "=";
	ssize_t n = slurp(p->pid, "environ", room, ENVIRON_MAX);
	const char *s = room, *end = room + (n > 0 ? n : 0);

	for (; s < end; s += strlen(s) + 1) {
		if (strncmp(s, name, sizeof(name) - 1) != 0)
			continue;
		(void)snprintf(p->mark, sizeof(p->mark), "%s",
		    s + sizeof(name) - 1);
		return;
	}
}

static struct proc *
add(struct list *l)
{
	struct proc *more;
	size_t cap;

	if (l->n == l->cap) {
		if (l->cap >= PROCS_MAX)
			return NULL;
		cap = l->cap > 0 ? l->cap * 2 : 64;
		if ((more = realloc(l->procs, cap * sizeof(*more))) == NULL)
			return NULL;
		l->procs = more;
		l->cap = cap;
	}
	l->procs[l->n] = (struct proc){ 0 };
	return &l->procs[l->n];
}

static void
scan(struct list *l)
{
	char *room = malloc(ENVIRON_MAX), *tail;
	DIR *dir = opendir("/proc");
	const struct dirent *e;
	struct proc *p;
	long pid;

	while (room != NULL && dir != NULL && (e = readdir(dir)) != NULL) {
		pid = strtol(e->d_name, &tail, 10);
		if (pid <= 0 || *tail != '\0' || (p = add(l)) == NULL ||
		    !read_stat((pid_t)pid, p))
			continue;
		if (p->state != 'Z' && p->state != 'X')
			read_mark(p, room);
		l->n++;
	}
	if (dir != NULL)
		closedir(dir);
	free(room);
}

static int
by_pid(const void *a, const void *b)
{
	const struct proc *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static bool
spared(const struct procs_who *who, pid_t pid)
{
	size_t i;

	for (i = 0; i < who->n_others; i++)
		if (who->others[i] == pid)
			return true;
	return pid == who->self || pid == who->shell || pid == 1;
}

static bool
started_by(const struct procs_who *who, const struct proc *p)
{
	if (strcmp(p->mark, who->mark) == 0 ||
	    (who->root > 0 && p->pid == who->root))
		return true;
	return who->young && p->mark[0] == '\0' && p->start >= who->since &&
	    ((who->shell > 0 && p->ppid == who->shell) || p->ppid == who->self);
}

static void
find(struct list *l, const struct procs_who *who)
{
	const struct proc *parent;
	struct proc key = { 0 };
	bool more = true;
	size_t i;

	if (l->n == 0)
		return;
	qsort(l->procs, l->n, sizeof(*l->procs), by_pid);
	for (i = 0; i < l->n; i++)
		l->procs[i].hit = !spared(who, l->procs[i].pid) &&
		    started_by(who, &l->procs[i]);
	while (more) {
		more = false;
		for (i = 0; i < l->n; i++) {
			if (l->procs[i].hit || spared(who, l->procs[i].pid))
				continue;
			key.pid = l->procs[i].ppid;
			parent = bsearch(&key, l->procs, l->n, sizeof(key),
			    by_pid);
			if (parent != NULL && parent->hit)
				more = l->procs[i].hit = true;
		}
	}
}

size_t
procs_signal(const struct procs_who *who, int signo)
{
	struct list l = { 0 };
	const struct proc *p;
	size_t i, n = 0;

	scan(&l);
	find(&l, who);
	for (i = 0; i < l.n; i++) {
		p = &l.procs[i];
		if (!p->hit || p->state == 'Z' || p->state == 'X')
			continue;
		n++;
		if (signo != 0 && !(who->spare_root && p->pid == who->root))
			(void)kill(p->pid, signo);
	}
	free(l.procs);
	return n;
}

bool
procs_alive(pid_t pid)
{
	struct proc p = { 0 };

	return read_stat(pid, &p) && p.state != 'Z' && p.state != 'X';
}

bool
procs_reads(pid_t pid, unsigned long pipe_inode)
{
	char path[64], want[64], link[64], call[128];
	struct proc p = { 0 };
	char *tail;
	long number;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd/0", (int)pid);
	(void)snprintf(want, sizeof(want), "pipe:[%lu]", pipe_inode);
	if ((n = readlink(path, link, sizeof(link) - 1)) <= 0)
		return false;
	link[n] = '\0';
	if (strcmp(link, want) != 0 || !read_stat(pid, &p) || p.state != 'S')
		return false;
	/* Where the kernel shows it: it may as well wait for a child. */
	if (slurp(pid, "syscall", call, sizeof(call)) <= 0)
		return true;
	number = strtol(call, &tail, 10);
	return tail == call || (number == SYS_read &&
	    strtoul(tail, NULL, 16) == 0);
}

long
procs_oom_kills(void)
{
	static const char *const files[] = { "/sys/fs/cgroup/memory.events",
	    "/sys/fs/cgroup/memory/memory.oom_control" };
	char line[80];
	long n = -1;

	for (size_t i = 0; i < 2 && n == -1; i++) {
		FILE *f = fopen(files[i], "re");

		while (f != NULL && fgets(line, sizeof(line), f) != NULL)
			if (strncmp(line, "oom_kill ", 9) == 0)
				n = strtol(line + 9, NULL, 10);
		if (f != NULL)
			fclose(f);
	}
	return n;
}
