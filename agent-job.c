/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent-job.h"

static const struct {
	const char *name;
	size_t at;
	char kind;		/* s text, l long, b long long, f flag */
} options[] = {
#define O(name, field, kind) { name, offsetof(struct agent_job, field), kind }
	O("--dir", dir, 's'), O("--work", work, 's'), O("--path", path, 's'),
	O("--stream", stream, 's'), O("--timeout", timeout_s, 'l'),
	O("--keep", keep_s, 'l'), O("--wait", wait_ms, 'l'),
	O("--spool", spool, 'b'), O("--out", out_max, 'b'),
	O("--files", files_max, 'b'),
	O("--offset", offset, 'b'), O("--limit", limit, 'b'),
	O("--stop", stop, 'f'),
#undef O
};

enum { NOPTIONS = sizeof(options) / sizeof(options[0]) };

static int
option(struct agent_job *j, const char *name, char *value)
{
	size_t i = 0;
	char *end = value;
	void *at;
	long long n;

	while (i < NOPTIONS && strcmp(options[i].name, name) != 0)
		i++;
	if (i == NOPTIONS)
		return -1;
	at = (char *)j + options[i].at;
	if (options[i].kind == 'f') {
		*(int *)at = 1;
		return 1;
	}
	if (value == NULL)
		return -1;
	if (options[i].kind == 's') {
		*(const char **)at = value;
		return 2;
	}
	n = strtoll(value, &end, 10);
	if (end == value || *end != '\0' || n < 0)
		return -1;
	if (options[i].kind == 'l')
		*(long *)at = n > LONG_MAX ? LONG_MAX : (long)n;
	else
		*(long long *)at = n;
	return 2;
}

int
agent_job(int argc, char *argv[])
{
	struct agent_job j = { .timeout_s = 60, .keep_s = 3600,
	    .spool = 64LL << 20 };
	int i = 1, n;

	while (i < argc && strcmp(argv[i], "--") != 0) {
		if ((n = option(&j, argv[i], i + 1 < argc ? argv[i + 1] :
		    NULL)) == -1)
			break;
		i += n;
	}
	j.argv = i + 1 < argc ? argv + i + 1 : NULL;
	if (argc < 1 || j.dir == NULL || j.work == NULL ||
	    (i < argc && strcmp(argv[i], "--") != 0)) {
		fprintf(stderr, "mcp-sandbox-agent: job: bad arguments\n");
		return 2;
	}
	if (strcmp(argv[0], "run") == 0 && j.argv != NULL)
		return agent_job_run(&j);
	if (strcmp(argv[0], "keep") == 0)
		return agent_job_keep(&j);
	if (strcmp(argv[0], "collect") == 0)
		return agent_job_collect(&j);
	if (strcmp(argv[0], "read") == 0)
		return agent_job_read(&j);
	fprintf(stderr, "mcp-sandbox-agent: job: no such mode\n");
	return 2;
}

int
agent_job_open(const struct agent_job *j, const char *name, int flags)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", j->dir, name);
	return open(path, flags | O_CLOEXEC, 0644);
}

/* --- what is in the working directory ------------------------------------ */

/* FNV-1a; a collision makes one unchanged file look unchanged, which it is. */
uint64_t
agent_job_hash(const char *path)
{
	uint64_t h = 0xcbf29ce484222325;

	for (; *path != '\0'; path++)
		h = (h ^ (unsigned char)*path) * 0x100000001b3;
	return h;
}

struct walk {
	int root;
	dev_t dev;
	int git;
	char **todo;		/* folders still to be read, relative */
	size_t n, cap;
};

static int
push(struct walk *w, const char *path)
{
	size_t cap = w->cap == 0 ? 64 : 2 * w->cap;
	char **more;

	if (w->n == w->cap) {
		if ((more = realloc(w->todo, cap * sizeof(*more))) == NULL)
			return -1;
		w->todo = more;
		w->cap = cap;
	}
	if ((w->todo[w->n] = strdup(path)) == NULL)
		return -1;
	w->n++;
	return 0;
}

static int
entry(struct walk *w, const char *folder, const char *name,
    agent_job_seen *seen, void *arg)
{
	char path[PATH_MAX];
	struct stat st;
	int n;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
	    strcmp(name, ".runjob-ready") == 0 ||
	    (!w->git && strcmp(name, ".git") == 0))
		return 0;
	n = snprintf(path, sizeof(path), "%s%s%s", folder,
	    folder[0] == '\0' ? "" : "/", name);
	if (n < 0 || (size_t)n >= sizeof(path) ||
	    fstatat(w->root, path, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return 0;
	if (st.st_dev != w->dev)
		return 0;
	if (S_ISDIR(st.st_mode))
		return push(w, path);
	return seen(arg, path, &st);
}

static int
folder_read(struct walk *w, const char *path, agent_job_seen *seen, void *arg)
{
	int fd = openat(w->root, path[0] == '\0' ? "." : path, O_RDONLY |
	    O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dirent *e;
	DIR *d;
	int r = 0;

	if (fd == -1)
		return 0;
	if ((d = fdopendir(fd)) == NULL) {
		close(fd);
		return -1;
	}
	while (r == 0 && (e = readdir(d)) != NULL)
		r = entry(w, path, e->d_name, seen, arg);
	closedir(d);
	return r;
}

int
agent_job_walk(const char *work, int git, agent_job_seen *seen, void *arg)
{
	struct walk w = { .git = git };
	struct stat st;
	char *path;
	int r = -1;

	w.root = open(work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w.root != -1 && fstat(w.root, &st) == 0) {
		w.dev = st.st_dev;
		r = push(&w, "");
	}
	while (w.n > 0) {
		path = w.todo[--w.n];
		if (r == 0)
			r = folder_read(&w, path, seen, arg);
		free(path);
	}
	free(w.todo);
	if (w.root != -1)
		close(w.root);
	return r;
}
