/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcp-sandbox-agent - a kept shell and files, over HTTP, inside a pod.
 *
 * mcp-sandbox-agent(1) says what it does.
 */
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent-job.h"
#include "budget.h"
#include "error.h"
#include "mono.h"
#include "procs.h"
#include "serve.h"
#include "task.h"
#include "turn.h"

enum {
	PORT = 8090,
	IDLE_S = 30 * 60,
	UNASSIGNED_S = 24 * 60 * 60,
	TICK_MS = 1000
};

struct options {
	const char *root, *shell, *spool;
	long port, idle_s;
};

struct agent {
	struct turn *turn;
	struct serve serve;
	struct options opt;
	int signals;
	struct turn_fd *signals_fd;
	char cwd[4096];
	const char *shell_dirs[6], *spool_dirs[6];
	long stop_at;		/* 0: not told to end */
	bool done;
};

static void
usage(FILE *out)
{
	(void)fputs("usage: mcp-sandbox-agent [--port port] [--root directory]"
	    " [--shell program]\n"
	    "           [--spool directory] [--idle-timeout duration]\n"
	    "       mcp-sandbox-agent install file\n"
	    "       mcp-sandbox-agent job run|keep|collect|read ...\n"
	    "       mcp-sandbox-agent -V\n", out);
}

/* The container's log has the time of each line. */
__attribute__((format(printf, 1, 2)))
static void
say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)fputs("mcp-sandbox-agent: ", stderr);
	(void)vfprintf(stderr, fmt, ap);
	(void)fputc('\n', stderr);
	va_end(ap);
}

/* --- install -------------------------------------------------------------- */

static int
copy(int from, int to)
{
	char room[64 << 10];
	ssize_t n, m, done;

	while ((n = read(from, room, sizeof(room))) > 0)
		for (done = 0; done < n; done += m)
			if ((m = write(to, room + done,
			    (size_t)(n - done))) <= 0)
				return -1;
	return n == 0 ? 0 : -1;
}

static int
install(const char *path)
{
	char temp[4096];
	int from, to, r = -1;

	if ((size_t)snprintf(temp, sizeof(temp), "%s.XXXXXX", path) >=
	    sizeof(temp)) {
		say("%s: too long", path);
		return 1;
	}
	from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	to = mkostemp(temp, O_CLOEXEC);
	if (from != -1 && to != -1 && copy(from, to) == 0 &&
	    fchmod(to, 0755) == 0 && fsync(to) == 0)
		r = rename(temp, path);
	if (r == -1) {
		say("%s: %s", path, strerror(errno));
		if (to != -1)
			(void)unlink(temp);
	}
	if (from != -1)
		close(from);
	if (to != -1)
		close(to);
	return r == 0 ? 0 : 1;
}

/* --- options -------------------------------------------------------------- */

static int
number(const char *s, long max, long *n, const char **tail)
{
	char *end;

	errno = 0;
	*n = strtol(s, &end, 10);
	*tail = end;
	return end == s || errno != 0 || *n < 0 || *n > max ? -1 : 0;
}

static int
parse_port(const char *s, long *port)
{
	const char *tail;

	return number(s, 65535, port, &tail) == -1 || *tail != '\0' ? -1 : 0;
}

static int
parse_duration(const char *s, long *seconds)
{
	const char *tail;
	long unit = 1;

	if (number(s, 100L * 365 * 86400, seconds, &tail) == -1)
		return -1;
	if (*tail == 'm')
		unit = 60;
	else if (*tail == 'h')
		unit = 3600;
	else if (*tail != 's' && *tail != '\0')
		return -1;
	if (*tail != '\0' && tail[1] != '\0')
		return -1;
	*seconds *= unit;
	return 0;
}

static int
set_option(struct options *o, int letter, const char *value)
{
	switch (letter) {
	case 'p':
		return parse_port(value, &o->port);
	case 'i':
		return parse_duration(value, &o->idle_s);
	case 'r':
		o->root = value;
		return 0;
	case 'x':
		o->shell = value;
		return 0;
	case 's':
		o->spool = value;
		return 0;
	default:
		return -1;
	}
}

static int
read_options(struct options *o, int argc, char *argv[])
{
	static const struct option longs[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "root", required_argument, NULL, 'r' },
		{ "shell", required_argument, NULL, 'x' },
		{ "spool", required_argument, NULL, 's' },
		{ "idle-timeout", required_argument, NULL, 'i' },
		{ NULL, 0, NULL, 0 }
	};
	static const struct {
		const char *name;
		int letter;
	} vars[] = {
		{ "MCP_SANDBOX_PORT", 'p' }, { "MCP_SANDBOX_ROOT", 'r' },
		{ "MCP_SANDBOX_SHELL", 'x' }, { "MCP_SANDBOX_SPOOL", 's' },
		{ "MCP_SANDBOX_IDLE_TIMEOUT", 'i' }
	};
	const char *value;
	size_t i;
	int c;

	*o = (struct options){ .port = PORT, .idle_s = IDLE_S, .root = "." };
	for (i = 0; i < sizeof(vars) / sizeof(vars[0]); i++) {
		value = getenv(vars[i].name);
		if (value == NULL || *value == '\0')
			continue;
		if (set_option(o, vars[i].letter, value) == -1) {
			say("%s: %s is not a value for it", vars[i].name,
			    value);
			return -1;
		}
	}
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1)
		if (c == '?' || set_option(o, c, optarg) == -1)
			return -1;
	return optind == argc ? 0 : -1;
}

/* --- secrets -------------------------------------------------------------- */

/*
 * Commands run as the same user: they must find the token neither in their
 * environment nor in what the kernel shows of ours.
 */
static int
take_token(struct serve *s)
{
	char *value = getenv("SANDBOX_AUTH_TOKEN");

	(void)prctl(PR_SET_DUMPABLE, 0);
	if (value != NULL && *value != '\0') {
		if ((s->token = strdup(value)) == NULL)
			return -1;
		explicit_bzero(value, strlen(value));
	}
	(void)unsetenv("SANDBOX_AUTH_TOKEN");
	(void)unsetenv(PROCS_MARK);
	return 0;
}

/* --- signals and time ----------------------------------------------------- */

static void
begin_stop(struct agent *a, const char *why)
{
	if (a->stop_at != 0)
		return;
	say("ending: %s", why);
	a->stop_at = mono_ms() + LIMIT_AGENT_DRAIN_MS;
	serve_stop(&a->serve);
}

static void
reap(struct agent *a)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		tasks_reaped(a->serve.tasks, pid, status);
}

static void
on_signal(void *arg, short revents)
{
	struct agent *a = arg;
	struct signalfd_siginfo info;

	(void)revents;
	while (read(a->signals, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo != SIGCHLD)
			begin_stop(a, strsignal((int)info.ssi_signo));
	reap(a);
}

static int
watch_signals(struct agent *a, struct error *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	(void)signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) == -1 || (a->signals =
	    signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC)) == -1)
		return error_sys(err, "signalfd");
	a->signals_fd = turn_fd_add(a->turn, a->signals, POLLIN, on_signal, a);
	return a->signals_fd == NULL ?
	    error_set(err, ERR_SYSTEM, "out of memory") : 0;
}

static void
on_tick(void *arg)
{
	struct agent *a = arg;
	long now = mono_ms(), idle = a->opt.idle_s;

	if (a->serve.token == NULL && idle > 0 && idle < UNASSIGNED_S)
		idle = UNASSIGNED_S;
	if (idle > 0 && !tasks_busy(a->serve.tasks) &&
	    now - a->serve.last_ms >= idle * 1000)
		begin_stop(a, "nobody has asked for anything in a long time");
	if (a->stop_at != 0 && (now >= a->stop_at || !serve_busy(&a->serve)))
		a->done = true;
	if (turn_timer_add(a->turn, a->stop_at != 0 ? TICK_MS / 20 : TICK_MS,
	    on_tick, a) == NULL)
		a->done = true;
}

/* --- all of it ------------------------------------------------------------ */

static void
add(const char **dirs, size_t *n, const char *dir)
{
	if (dir != NULL && *dir == '/')
		dirs[(*n)++] = dir;
}

/*
 * The shell's directory is small and used with every command: best in memory,
 * and there even with a read-only root. Output may be large: best on a disk.
 */
static void
find_dirs(struct agent *a)
{
	const char *temp = getenv("TMPDIR"), *home = getenv("HOME");
	size_t n = 0, m = 0;

	if (getcwd(a->cwd, sizeof(a->cwd)) == NULL)
		a->cwd[0] = '\0';
	add(a->shell_dirs, &n, "/dev/shm");
	add(a->shell_dirs, &n, temp);
	add(a->shell_dirs, &n, "/tmp");
	add(a->shell_dirs, &n, home);
	add(a->shell_dirs, &n, a->cwd);
	add(a->spool_dirs, &m, temp);
	add(a->spool_dirs, &m, "/tmp");
	add(a->spool_dirs, &m, "/dev/shm");
	add(a->spool_dirs, &m, home);
	add(a->spool_dirs, &m, a->cwd);
	if (a->opt.spool != NULL) {
		a->spool_dirs[0] = a->opt.spool;
		a->spool_dirs[1] = NULL;
	}
}

static int
open_all(struct agent *a, struct error *err)
{
	int port;

	a->serve.fd = -1;
	if ((a->turn = turn_open(err)) == NULL || watch_signals(a, err) == -1)
		return -1;
	/* Orphans of a command come back to us, to be found and reaped. */
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	find_dirs(a);
	if (files_init(&a->serve.files, a->opt.root, err) == -1)
		return -1;
	a->serve.tasks = tasks_open(a->turn, a->opt.shell, a->shell_dirs,
	    a->spool_dirs, serve_changed, &a->serve, err);
	if (a->serve.tasks == NULL)
		return -1;
	if ((port = serve_open(&a->serve, a->turn, (int)a->opt.port,
	    err)) == -1)
		return -1;
	say(VERSION " listens on port %d, "
	    "%s, %s", port, shell_is_bash(tasks_shell(a->serve.tasks)) ?
	    "bash" : "sh", a->serve.token != NULL ? "assigned" : "unassigned");
	on_tick(a);
	return 0;
}

static void
close_all(struct agent *a)
{
	serve_close(&a->serve);
	tasks_close(a->serve.tasks);
	turn_fd_del(a->signals_fd);
	if (a->signals != -1)
		close(a->signals);
	turn_close(a->turn);
}

static int
run(struct agent *a)
{
	struct error err;
	int r = open_all(a, &err);

	while (r == 0 && !a->done)
		r = turn_once(a->turn, &err);
	if (r == -1)
		say("%s", err.text);
	close_all(a);
	return r == 0 ? 0 : 1;
}

int
main(int argc, char *argv[])
{
	struct agent agent = { .signals = -1 };

	if (argc == 2 && strcmp(argv[1], "-V") == 0) {
		(void)puts("mcp-sandbox-agent " VERSION);
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "install") == 0)
		return install(argv[2]);
	if (argc >= 3 && strcmp(argv[1], "job") == 0)
		return agent_job(argc - 2, argv + 2);
	if (read_options(&agent.opt, argc, argv) == -1) {
		usage(stderr);
		return 2;
	}
	if (take_token(&agent.serve) == -1) {
		say("out of memory");
		return 1;
	}
	return run(&agent);
}
