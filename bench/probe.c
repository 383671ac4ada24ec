/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe - starts a program again and again and measures it from outside, so
 * that no interpreter's start is in the figures.
 *
 *	probe [-q] [-n RUNS] [-w WINDOW] [-i MS] [-o FILE] SCRIPT COMMAND...
 *	probe -c [-n RUNS] COMMAND...
 *
 * SCRIPT holds lines of JSON. A line with an "id" waits for a line of reply
 * with an "id" and no "method"; up to WINDOW of them are under way at once.
 * Then the input ends. "*N" before a line sends it N times. FILE gets all
 * output of the last run, with -q its short lines, as every error is one. With
 * -c the command is run to its end with its output thrown away.
 *
 * Prints a line of JSON a run: first_us (exec to first reply), all_us (first
 * reply to last), rss_kb and private_kb after the first reply and MS of rest,
 * hwm_kb after the last, maxrss_kb and cpu_us (user and system) from wait4,
 * wall_us, status, us (a list: each request's time; exact for a window of 1).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { PATIENCE_MS = 120 * 1000, FAREWELL_MS = 3000 };

struct script {
	char *text;
	const char **line;
	size_t *len, *times;
	bool *asks;
	size_t n, asking;
};

struct run {
	const struct script *script;
	size_t window;
	useconds_t rest_ms;
	FILE *copy;
	int to, from;
	pid_t pid;
	long long begin_us, first_us, all_us, sent_us;
	long rss_kb, private_kb, hwm_kb;
	size_t at, off, round, replies, asked;
	long long *us;
	/* Of the line that is coming: what was seen of it. */
	char head[4096];
	size_t head_len;
	bool quiet;
};

static long long
now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static void
die(const char *what)
{
	fprintf(stderr, "probe: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *
alloc(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (p == NULL)
		die("memory");
	return p;
}

static void
script_read(struct script *s, const char *path)
{
	FILE *f = fopen(path, "re");
	size_t cap = 1 << 16, len = 0, got;
	char *end;

	if (f == NULL || (s->text = malloc(cap + 1)) == NULL)
		die(path);
	while ((got = fread(s->text + len, 1, cap - len, f)) > 0)
		if ((len += got) == cap &&
		    (s->text = realloc(s->text, (cap *= 2) + 1)) == NULL)
			die("memory");
	(void)fclose(f);
	s->text[len] = '\0';
	s->line = alloc(len + 1, sizeof(*s->line));
	s->len = alloc(len + 1, sizeof(*s->len));
	s->times = alloc(len + 1, sizeof(*s->times));
	s->asks = alloc(len + 1, sizeof(*s->asks));
	for (char *p = s->text; (end = strchr(p, '\n')) != NULL; p = end + 1) {
		*end = '\0';
		s->times[s->n] = *p == '*' ? strtoul(p + 1, &p, 10) : 1;
		s->asks[s->n] = strstr(p, "\"id\":") != NULL;
		*end = '\n';
		s->asking += s->asks[s->n] ? s->times[s->n] : 0;
		s->line[s->n] = p;
		s->len[s->n++] = (size_t)(end - p) + 1;
	}
}

/* A number of a file of /proc/PID, in KB. */
static long
proc_kb(pid_t pid, const char *file, const char *name)
{
	char path[64], line[256];
	long kb = -1;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	if ((f = fopen(path, "re")) == NULL)
		return -1;
	while (kb == -1 && fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, name, strlen(name)) == 0)
			kb = strtol(line + strlen(name), NULL, 10);
	(void)fclose(f);
	return kb;
}

static pid_t
spawn(char *argv[], int in, int out)
{
	posix_spawn_file_actions_t a;
	pid_t pid;
	int r;

	(void)posix_spawn_file_actions_init(&a);
	(void)posix_spawn_file_actions_adddup2(&a, in, 0);
	(void)posix_spawn_file_actions_adddup2(&a, out, 1);
	r = posix_spawnp(&pid, argv[0], &a, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&a);
	if ((errno = r) != 0)
		die(argv[0]);
	return pid;
}

/* Sends what the window and the pipe have room for. */
static void
run_send(struct run *r)
{
	const struct script *s = r->script;

	while (r->at < s->n) {
		if (r->off == 0 && s->asks[r->at] &&
		    r->asked - r->replies >= r->window)
			return;
		if (r->off == 0 && s->asks[r->at]) {
			r->asked++;
			r->sent_us = now_us();
		}
		ssize_t n = write(r->to, s->line[r->at] + r->off,
		    s->len[r->at] - r->off);

		if (n == -1 && errno == EAGAIN)
			return;
		if (n == -1)
			die("write");
		r->off += (size_t)n;
		if (r->off == s->len[r->at]) {
			r->off = 0;
			if (++r->round == s->times[r->at]) {
				r->round = 0;
				r->at++;
			}
		}
	}
}

static void
run_line(struct run *r)
{
	bool reply;

	r->head[r->head_len] = '\0';
	if (r->quiet && r->copy != NULL && r->head_len < sizeof(r->head) - 1)
		(void)fprintf(r->copy, "%s\n", r->head);
	reply = strstr(r->head, "\"id\":") != NULL &&
	    strstr(r->head, "\"method\":") == NULL;
	r->head_len = 0;
	if (!reply)
		return;
	long long t = now_us();

	r->us[r->replies++] = t - r->sent_us;
	if (r->replies == 1) {
		r->first_us = t - r->begin_us;
		(void)usleep(r->rest_ms * 1000);
		r->rss_kb = proc_kb(r->pid, "smaps_rollup", "Rss:");
		r->private_kb = proc_kb(r->pid, "smaps_rollup", "Anonymous:");
	}
	if (r->replies == r->script->asking)
		r->all_us = t - r->begin_us;
}

/* False at the end of the output. */
static bool
run_receive(struct run *r)
{
	static char data[1 << 16];
	ssize_t n = read(r->from, data, sizeof(data));

	if (n == -1)
		die("read");
	if (n > 0 && r->copy != NULL && !r->quiet)
		(void)fwrite(data, 1, (size_t)n, r->copy);
	for (char *p = data, *end; p < data + n; p = end + 1) {
		size_t room = sizeof(r->head) - 1 - r->head_len, len;

		end = memchr(p, '\n', (size_t)(data + n - p));
		len = (size_t)((end != NULL ? end : data + n) - p);
		len = len < room ? len : room;
		memcpy(r->head + r->head_len, p, len);
		r->head_len += len;
		if (end == NULL)
			break;
		run_line(r);
	}
	return n > 0;
}

static void
run_talk(struct run *r)
{
	while (r->replies < r->script->asking) {
		struct pollfd p[] = { { r->from, POLLIN, 0 }, { r->to, 0, 0 } };

		run_send(r);
		p[1].events = r->off > 0 ? POLLOUT : 0;
		if (poll(p, 2, PATIENCE_MS) <= 0 ||
		    (p[0].revents != 0 && !run_receive(r))) {
			fprintf(stderr, "probe: %zu of %zu replies came\n",
			    r->replies, r->script->asking);
			(void)kill(r->pid, SIGKILL);
			exit(1);
		}
	}
	r->hwm_kb = proc_kb(r->pid, "status", "VmHWM:");
}

/* Waits a while for the end of the child, then kills it. */
static void
reap(struct run *r, int *status, struct rusage *ru)
{
	long long until = now_us() + FAREWELL_MS * 1000LL;
	struct pollfd p = { r->from, POLLIN, 0 };

	while (r->from != -1 && now_us() < until)
		if (poll(&p, 1, FAREWELL_MS) > 0 && !run_receive(r))
			break;
	while (wait4(r->pid, status, WNOHANG, ru) == 0) {
		if (now_us() > until)
			(void)kill(r->pid, SIGKILL);
		(void)usleep(200);
	}
}

static void
report(const struct run *r, int status, const struct rusage *ru)
{
	long long cpu = (ru->ru_utime.tv_sec + ru->ru_stime.tv_sec) *
	    1000000LL + ru->ru_utime.tv_usec + ru->ru_stime.tv_usec;

	printf("{\"first_us\": %lld, \"all_us\": %lld, \"rss_kb\": %ld, "
	    "\"private_kb\": %ld, \"hwm_kb\": %ld, \"maxrss_kb\": %ld, "
	    "\"cpu_us\": %lld, \"wall_us\": %lld, \"status\": %d, \"us\": [",
	    r->first_us, r->all_us - r->first_us, r->rss_kb, r->private_kb,
	    r->hwm_kb, ru->ru_maxrss, cpu, now_us() - r->begin_us,
	    WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	for (size_t i = 0; i < r->replies; i++)
		printf("%s%lld", i > 0 ? ", " : "", r->us[i]);
	puts("]}");
	(void)fflush(stdout);
}

static void
session(const struct script *s, size_t window, useconds_t rest_ms,
    const char *copy, bool quiet, char *argv[])
{
	struct run r = { .script = s, .window = window, .rest_ms = rest_ms,
	    .quiet = quiet };
	int in[2], out[2], status;
	struct rusage ru;

	r.us = alloc(s->asking + 1, sizeof(*r.us));
	if (copy != NULL && (r.copy = fopen(copy, "we")) == NULL)
		die(copy);
	if (pipe2(in, O_CLOEXEC) == -1 || pipe2(out, O_CLOEXEC) == -1)
		die("pipe");
	/* Else each 64 KB are a change of processes, on a busy machine late. */
	(void)fcntl(in[1], F_SETPIPE_SZ, 1 << 20);
	(void)fcntl(out[0], F_SETPIPE_SZ, 1 << 20);
	r.to = in[1];
	r.from = out[0];
	r.begin_us = now_us();
	r.pid = spawn(argv, in[0], out[1]);
	(void)close(in[0]);
	(void)close(out[1]);
	(void)fcntl(r.to, F_SETFL, O_NONBLOCK);
	run_talk(&r);
	(void)close(r.to);
	reap(&r, &status, &ru);
	(void)close(r.from);
	if (r.copy != NULL)
		(void)fclose(r.copy);
	report(&r, status, &ru);
	free(r.us);
}

static void
command(char *argv[])
{
	struct run r = { .from = -1 };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), status;
	struct rusage ru;

	r.begin_us = now_us();
	r.pid = spawn(argv, null, null);
	while (wait4(r.pid, &status, 0, &ru) == -1)
		if (errno != EINTR)
			die("wait4");
	(void)close(null);
	report(&r, status, &ru);
}

int
main(int argc, char *argv[])
{
	struct script s = { .n = 0 };
	size_t runs = 1, window = 1;
	const char *copy = NULL;
	useconds_t rest_ms = 0;
	bool plain = false, quiet = false;
	int c;

	while ((c = getopt(argc, argv, "+cqn:w:i:o:")) != -1) {
		if (c == 'c')
			plain = true;
		else if (c == 'q')
			quiet = true;
		else if (c == 'n')
			runs = strtoul(optarg, NULL, 10);
		else if (c == 'w')
			window = strtoul(optarg, NULL, 10);
		else if (c == 'i')
			rest_ms = (useconds_t)strtoul(optarg, NULL, 10);
		else if (c == 'o')
			copy = optarg;
		else
			return 64;
	}
	if (argc - optind < (plain ? 1 : 2))
		return 64;
	(void)signal(SIGPIPE, SIG_IGN);
	if (!plain)
		script_read(&s, argv[optind++]);
	while (runs-- > 0)
		if (plain)
			command(argv + optind);
		else
			session(&s, window, rest_ms, copy, quiet,
			    argv + optind);
	return 0;
}
