/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "budget.h"
#include "buf.h"
#include "error.h"
#include "procs.h"
#include "shell.h"
#include "turn.h"

#define DIR_NAME ".mcp-sandbox-sh-"

extern char **environ;

enum {
	PATIENCE_MS = 1000,	/* to write down what it knows */
	LOOK_MS = 200,		/* between looks at a silent shell */
	LOOK_MAX_MS = 1600,
	NO_SNAP = -1,
	STOP_SIGNAL = 50	/* one that nobody uses */
};

/* Which snapshot: the first two take turns after commands. */
enum { SNAP_EXIT = 2, SNAP_STOP = 3, SNAP_RESTORE = 4 };

struct shell {
	struct turn *turn;
	shell_fn *fn;
	void *arg;
	char program[4096];
	bool bash;
	const char *const *dirs;	/* borrowed */
	char dir[256];
	int lock;		/* on it, for as long as we live */
	char first_cwd[4096];

	pid_t pid;		/* 0: none runs */
	int in;			/* its standard input */
	unsigned long in_inode;
	struct turn_fd *in_fd;
	struct buf line;	/* what it has not taken yet */
	int status;		/* the FIFO */
	struct turn_fd *status_fd;
	struct buf news;
	struct turn_timer *stop, *look;
	long look_ms;
	bool looked;		/* it seemed to wait for the next line */

	char id[PROCS_MARK_MAX];	/* of the command; "": none */
	int snap;		/* the latest that is whole */
	int turnabout;
	bool ready;
	bool restored;		/* began with a snapshot */
	bool broken;
	bool fresh;		/* the next begins without one */
	bool silent;		/* it was ended, for it told no status */
};

static void
path(const struct shell *s, char *dst, size_t size, char kind, const char *id)
{
	(void)snprintf(dst, size, "%s/%c%s", s->dir, kind, id);
}

static void
tell(struct shell *s, enum shell_news news, const char *id, long value,
    bool kept)
{
	struct shell_event ev = { news, id, value, kept };

	s->fn(s->arg, &ev);
}

/* --- the private directory ------------------------------------------------ */

/* Nobody else's: its agent, which locks it, is no more. */
static void
remove_left(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
	    O_CLOEXEC);
	const struct dirent *e;
	struct stat st;
	DIR *d;

	if (fd == -1)
		return;
	if (fstat(fd, &st) == -1 || st.st_uid != geteuid() ||
	    flock(fd, LOCK_EX | LOCK_NB) == -1 || (d = fdopendir(fd)) == NULL) {
		close(fd);
		return;
	}
	while ((e = readdir(d)) != NULL)
		(void)unlinkat(fd, e->d_name, 0);
	(void)unlinkat(parent, name, AT_REMOVEDIR);
	closedir(d);
}

/* What agents that were killed have left. */
static void
sweep(const char *path)
{
	const struct dirent *e;
	DIR *d = opendir(path);

	while (d != NULL && (e = readdir(d)) != NULL)
		if (strncmp(e->d_name, DIR_NAME, strlen(DIR_NAME)) == 0 &&
		    strlen(e->d_name) == strlen(DIR_NAME "XXXXXX"))
			remove_left(dirfd(d), e->d_name);
	if (d != NULL)
		closedir(d);
}

static void
lock_dir(struct shell *s)
{
	if (s->lock != -1)
		close(s->lock);
	s->lock = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->lock != -1)
		(void)flock(s->lock, LOCK_EX | LOCK_NB);
}

static int
make_dir(struct shell *s, struct error *err)
{
	const char *const *d;

	for (d = s->dirs; *d != NULL; d++) {
		if (**d != '/' || strlen(*d) > sizeof(s->dir) - 32 ||
		    strspn(*d, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST"
		    "UVWXYZ0123456789/._-") != strlen(*d))
			continue;
		sweep(*d);
		(void)snprintf(s->dir, sizeof(s->dir), "%s/" DIR_NAME "XXXXXX",
		    *d);
		if (mkdtemp(s->dir) != NULL) {
			lock_dir(s);
			return 0;
		}
	}
	s->dir[0] = '\0';
	return error_set(err, ERR_SYSTEM, "no directory for the shell can be "
	    "written to: mount an emptyDir at /tmp");
}

static turn_ready on_status;

static int
open_status(struct shell *s, struct error *err)
{
	char name[300];

	path(s, name, sizeof(name), 's', "");
	if (s->status != -1) {
		turn_fd_del(s->status_fd);
		close(s->status);
		s->status = -1;
		(void)unlink(name);
	}
	if (mkfifo(name, 0600) == -1)
		return error_sys(err, name);
	/* Both ways, so that it has no end when a writer leaves. */
	if ((s->status = open(name, O_RDWR | O_NONBLOCK | O_CLOEXEC)) == -1)
		return error_sys(err, name);
	s->status_fd = turn_fd_add(s->turn, s->status, POLLIN, on_status, s);
	if (s->status_fd == NULL)
		return error_set(err, ERR_SYSTEM, "out of memory");
	return 0;
}

/* A command may have removed it. */
static int
check_dir(struct shell *s, struct error *err)
{
	struct stat there, ours;
	char name[300];

	path(s, name, sizeof(name), 's', "");
	if (s->dir[0] != '\0' && s->status != -1 &&
	    stat(name, &there) == 0 && fstat(s->status, &ours) == 0 &&
	    there.st_ino == ours.st_ino && there.st_dev == ours.st_dev)
		return 0;
	if (s->dir[0] != '\0' && mkdir(s->dir, 0700) == -1 && errno != EEXIST)
		s->dir[0] = '\0';
	if (s->dir[0] != '\0')
		lock_dir(s);
	if (s->dir[0] == '\0' && make_dir(s, err) == -1)
		return -1;
	s->snap = NO_SNAP;
	(void)unlink(name);
	return open_status(s, err);
}

static void
remove_dir(struct shell *s)
{
	char name[300];
	int i;

	if (s->dir[0] == '\0')
		return;
	path(s, name, sizeof(name), 's', "");
	(void)unlink(name);
	for (i = 0; i <= SNAP_RESTORE; i++) {
		(void)snprintf(name, sizeof(name), "%s/x%d", s->dir, i);
		(void)unlink(name);
		(void)snprintf(name, sizeof(name), "%s/w%d", s->dir, i);
		(void)unlink(name);
	}
	(void)rmdir(s->dir);
	if (s->lock != -1)
		close(s->lock);
}

/* --- starting and restoring ----------------------------------------------- */

static bool
find_program(struct shell *s, const char *name)
{
	const char *p = getenv("PATH"), *end;

	if (p == NULL || *p == '\0')
		p = "/usr/local/bin:/usr/bin:/bin";
	if (strchr(name, '/') != NULL) {
		(void)snprintf(s->program, sizeof(s->program), "%s", name);
		return access(name, X_OK) == 0;
	}
	for (; *p != '\0'; p = *end == ':' ? end + 1 : end) {
		end = p + strcspn(p, ":");
		(void)snprintf(s->program, sizeof(s->program), "%.*s/%s",
		    (int)(end - p), p, name);
		if (access(s->program, X_OK) == 0)
			return true;
	}
	return false;
}

static void
snapshot(struct shell *s, struct buf *line, int n)
{
	buf_printf(line, "\\command export -p >|%s/x%d && "
	    "\\command pwd >|%s/w%d && \\command echo x %d >>%s/s",
	    s->dir, n, s->dir, n, n, s->dir);
}

/*
 * The traps are set first, as a trap of the user's that is restored counts
 * more. Functions come before aliases, which would be expanded in them, and
 * options last, as they change how the rest is read.
 */
static void
first_line(struct shell *s, struct buf *line)
{
	buf_puts(line, "\\command trap '");
	snapshot(s, line, SNAP_EXIT);
	buf_puts(line, "' EXIT; \\command trap '");
	if (s->bash)
		buf_printf(line, "{ \\command shopt -p; \\command declare -f; "
		    "\\command declare -Fx; \\command declare -p; "
		    "\\command alias -p; \\command trap -p; "
		    "\\command set +o; } >|%s/x%d 2>/dev/null; "
		    "\\command pwd >|%s/w%d && \\command echo x %d >>%s/s",
		    s->dir, SNAP_STOP, s->dir, SNAP_STOP, SNAP_STOP, s->dir);
	else
		snapshot(s, line, SNAP_EXIT);
	buf_printf(line, "; \\command trap - EXIT; \\command exit 137' %d; ",
	    STOP_SIGNAL);
	if (s->restored)
		buf_printf(line, "\\command . %s/x%d; ", s->dir, SNAP_RESTORE);
	snapshot(s, line, 0);
	buf_printf(line, "; \\command echo ready >>%s/s\n", s->dir);
}

/* Where the last one was; "" when that can't be read. */
static void
snap_cwd(const struct shell *s, char *dst, size_t size)
{
	char name[300];
	ssize_t n;
	int fd;

	dst[0] = '\0';
	(void)snprintf(name, sizeof(name), "%s/w%d", s->dir, s->snap);
	(void)chmod(name, 0600);
	if ((fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) == -1)
		return;
	n = read(fd, dst, size - 1);
	close(fd);
	if (n > 0 && dst[n - 1] == '\n')
		n--;
	dst[n > 0 ? n : 0] = '\0';
}

static void
take_snap(struct shell *s, char *cwd, size_t size)
{
	char from[300], to[300];

	(void)snprintf(cwd, size, "%s", s->first_cwd);
	s->restored = false;
	if (s->fresh || s->snap == NO_SNAP)
		return;
	snap_cwd(s, cwd, size);
	(void)snprintf(from, sizeof(from), "%s/x%d", s->dir, s->snap);
	(void)snprintf(to, sizeof(to), "%s/x%d", s->dir, SNAP_RESTORE);
	(void)chmod(from, 0600);
	s->restored = rename(from, to) == 0;
}

static void
child(const struct shell *s, int in, const char *cwd)
{
	char *argv[] = { NULL, NULL, NULL, NULL };
	static char bash[] = "bash", sh[] = "sh", norc[] = "--norc",
	    noprofile[] = "--noprofile";
	sigset_t none;
	int fd;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)setpgid(0, 0);
	(void)signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if ((fd = open("/dev/null", O_RDWR)) == -1 || dup2(in, 0) == -1 ||
	    dup2(fd, 1) == -1 || dup2(fd, 2) == -1)
		_exit(126);
	if (fd > 2)
		close(fd);
	if (cwd[0] == '\0' || chdir(cwd) == -1) {
		if (chdir(s->first_cwd) == -1)
			(void)!chdir("/");
	} else {
		(void)setenv("PWD", cwd, 1);
	}
	argv[0] = s->bash ? bash : sh;
	if (s->bash) {
		argv[1] = norc;
		argv[2] = noprofile;
	}
	execv(s->program, argv);
	_exit(127);
}

static turn_ready on_input;

/* What is left goes when there is room: the pipe has 64 KiB. */
static void
push(struct shell *s)
{
	ssize_t n;

	while (s->line.len > 0) {
		n = write(s->in, s->line.data, s->line.len);
		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		buf_drop(&s->line, (size_t)n);
	}
	turn_fd_want(s->in_fd, s->line.len > 0 ? POLLOUT : 0);
	if (s->line.len == 0)
		buf_reset(&s->line, 4096);
}

static void
on_input(void *arg, short revents)
{
	struct shell *s = arg;

	if (revents & POLLHUP)
		turn_fd_want(s->in_fd, 0);	/* its death is told soon */
	else
		push(s);
}

static int
spawn(struct shell *s, struct error *err)
{
	struct stat st;
	char cwd[4096];
	int in[2];

	if (check_dir(s, err) == -1)
		return -1;
	take_snap(s, cwd, sizeof(cwd));
	s->fresh = false;
	s->snap = NO_SNAP;
	if (pipe2(in, O_CLOEXEC) == -1)
		return error_sys(err, "pipe");
	if ((s->pid = fork()) == -1) {
		s->pid = 0;
		close(in[0]);
		close(in[1]);
		return error_sys(err, "fork");
	}
	if (s->pid == 0)
		child(s, in[0], cwd);
	(void)fstat(in[0], &st);
	close(in[0]);
	s->in = in[1];
	s->in_inode = (unsigned long)st.st_ino;
	(void)fcntl(s->in, F_SETFL, O_NONBLOCK);
	s->in_fd = turn_fd_add(s->turn, s->in, 0, on_input, s);
	buf_reset(&s->line, 4096);
	first_line(s, &s->line);
	if (s->in_fd == NULL || !buf_ok(&s->line))
		(void)kill(s->pid, SIGKILL);
	else
		push(s);
	return 0;
}

int
shell_start(struct shell *s, struct error *err)
{
	if (s->pid != 0)
		return 0;
	s->broken = false;
	if (spawn(s, err) == 0)
		return 0;
	s->broken = true;
	return error_wrap(err, "the shell %s cannot be started", s->program);
}

struct shell *
shell_open(struct turn *t, const char *program, const char *const *dirs,
    shell_fn *fn, void *arg, struct error *err)
{
	struct shell *s = calloc(1, sizeof(*s));
	const char *base;

	if (s == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	*s = (struct shell){ .turn = t, .fn = fn, .arg = arg, .dirs = dirs,
	    .in = -1, .status = -1, .lock = -1, .snap = NO_SNAP };
	buf_init(&s->line, 8 * LIMIT_AGENT_BODY);
	buf_init(&s->news, 4096);
	if (getcwd(s->first_cwd, sizeof(s->first_cwd)) == NULL)
		(void)snprintf(s->first_cwd, sizeof(s->first_cwd), "/");
	if (program != NULL ? !find_program(s, program) :
	    !find_program(s, "bash") && !find_program(s, "sh")) {
		error_set(err, ERR_CONFIG, "no shell: %s is not in PATH",
		    program != NULL ? program : "neither bash nor sh");
		shell_close(s);
		return NULL;
	}
	base = strrchr(s->program, '/');
	s->bash = strcmp(base != NULL ? base + 1 : s->program, "bash") == 0;
	if (shell_start(s, err) == -1) {
		shell_close(s);
		return NULL;
	}
	return s;
}

static void
drop_process(struct shell *s)
{
	turn_timer_del(s->stop);
	turn_timer_del(s->look);
	turn_fd_del(s->in_fd);
	if (s->in != -1)
		close(s->in);
	s->stop = s->look = NULL;
	s->in_fd = NULL;
	s->in = -1;
	s->pid = 0;
	s->ready = false;
}

void
shell_close(struct shell *s)
{
	if (s == NULL)
		return;
	if (s->pid > 0) {
		(void)kill(s->pid, SIGKILL);
		(void)waitpid(s->pid, NULL, 0);
	}
	drop_process(s);
	turn_fd_del(s->status_fd);
	if (s->status != -1)
		close(s->status);
	remove_dir(s);
	buf_free(&s->line);
	buf_free(&s->news);
	free(s);
}

/* --- running -------------------------------------------------------------- */

static void
quote(struct buf *out, const char *text)
{
	size_t n;

	buf_puts(out, "'");
	for (; *text != '\0'; text += n) {
		n = strcspn(text, "'");
		buf_put(out, text, n);
		if (text[n] == '\'') {
			buf_puts(out, "'\\''");
			n++;
		}
	}
	buf_puts(out, "'");
}

/*
 * bash reads a file at once; the others know only lines, and take them byte by
 * byte, which is why a bash is preferred.
 */
static void
line_text(struct shell *s, const char *id)
{
	if (s->bash)
		buf_printf(&s->line, "IFS= \\command read -r -d '' "
		    "MCP_SANDBOX_TEXT <%s/c%s || \\:; ", s->dir, id);
	else
		buf_printf(&s->line, "MCP_SANDBOX_TEXT=; while IFS= \\command "
		    "read -r MCP_SANDBOX_LINE; do MCP_SANDBOX_TEXT="
		    "\"$MCP_SANDBOX_TEXT$MCP_SANDBOX_LINE\n\"; done <%s/c%s; "
		    "MCP_SANDBOX_TEXT=$MCP_SANDBOX_TEXT$MCP_SANDBOX_LINE; ",
		    s->dir, id);
}

static void
line_eval(struct shell *s, const struct shell_command *c)
{
	const char *const *e;

	buf_printf(&s->line, PROCS_MARK "=%s ", c->id);
	for (e = c->env; e != NULL && e[0] != NULL; e += 2) {
		buf_printf(&s->line, "%s=", e[0]);
		quote(&s->line, e[1]);
		buf_puts(&s->line, " ");
	}
	buf_puts(&s->line, "\\command eval \"$MCP_SANDBOX_TEXT\"");
}

static void
line_pipes(struct shell *s, const struct shell_command *c)
{
	if (c->input != NULL || c->input_open)
		buf_printf(&s->line, " <%s/i%s", s->dir, c->id);
	else
		buf_puts(&s->line, " </dev/null");
	buf_printf(&s->line, " >>%s/o%s 2>>%s/e%s", s->dir, c->id, s->dir,
	    c->id);
}

/*
 * The redirections are those of eval itself: in a group, set -x would print
 * our own words into the command's output. The subshell around a command of
 * the background tells its status however that ends.
 */
static void
make_line(struct shell *s, const struct shell_command *c)
{
	const char *dir = s->dir;

	line_text(s, c->id);
	if (c->cwd != NULL) {
		buf_puts(&s->line, "if \\command cd -- ");
		quote(&s->line, c->cwd);
		buf_printf(&s->line, " 2>>%s/e%s; then ", dir, c->id);
	}
	if (c->background) {
		buf_printf(&s->line, "( \\command trap '\\command echo \"& %s "
		    "$?\" >>%s/s' EXIT; \\command echo \"> %s 0\" >>%s/s; ( ",
		    c->id, dir, c->id, dir);
		line_eval(s, c);
		buf_puts(&s->line, " ); \\command exit $? )");
		line_pipes(s, c);
		buf_printf(&s->line, " & \\command echo \"+ %s $!\" >>%s/s; ",
		    c->id, dir);
	} else {
		line_eval(s, c);
		line_pipes(s, c);
		buf_puts(&s->line, "; ");
	}
	if (c->cwd != NULL)
		buf_puts(&s->line, "else ! \\:; fi; ");
	buf_printf(&s->line, "\\command echo \"= %s $?\" >>%s/s; "
	    "MCP_SANDBOX_TEXT= MCP_SANDBOX_LINE=; ", c->id, dir);
	snapshot(s, &s->line, s->turnabout);
	buf_puts(&s->line, "\n");
	s->turnabout = !s->turnabout;
}

static int
write_file(const struct shell *s, char kind, const char *id, const char *data,
    size_t len, struct error *err)
{
	char name[300];
	ssize_t n = 0;
	int fd;

	path(s, name, sizeof(name), kind, id);
	fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd == -1)
		return error_sys(err, "the command's file");
	for (; len > 0; data += n, len -= (size_t)n)
		if ((n = write(fd, data, len)) <= 0)
			break;
	close(fd);
	return len > 0 ? error_sys(err, "the command's file") : 0;
}

static int
make_pipe(const struct shell *s, char kind, const char *id,
    struct error *err)
{
	char name[300];
	int fd;

	path(s, name, sizeof(name), kind, id);
	if (mkfifo(name, 0600) == -1 ||
	    (fd = open(name, O_RDWR | O_NONBLOCK | O_CLOEXEC)) == -1)
		return error_sys(err, "the command's pipe");
	return fd;
}

static int
make_files(const struct shell *s, const struct shell_command *c,
    struct shell_pipes *p, struct error *err)
{
	*p = (struct shell_pipes){ -1, -1, -1 };
	if (write_file(s, 'c', c->id, c->text, c->len, err) == -1 ||
	    (p->out = make_pipe(s, 'o', c->id, err)) == -1 ||
	    (p->err = make_pipe(s, 'e', c->id, err)) == -1)
		return -1;
	if (c->input_open)
		return (p->in = make_pipe(s, 'i', c->id, err)) == -1 ?
		    -1 : 0;
	if (c->input != NULL)
		return write_file(s, 'i', c->id, c->input, c->input_len, err);
	return 0;
}

int
pipe_end(int fd, int end)
{
	char name[64];
	int one;

	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	one = open(name, end | O_NONBLOCK | O_CLOEXEC);
	close(fd);
	return one;
}

static turn_due on_look;

static void
look_later(struct shell *s, long ms)
{
	turn_timer_del(s->look);
	s->look_ms = ms;
	s->look = turn_timer_add(s->turn, ms, on_look, s);
}

int
shell_run(struct shell *s, const struct shell_command *c,
    struct shell_pipes *pipes, struct error *err)
{
	struct error first;

	if (make_files(s, c, pipes, err) == 0)
		make_line(s, c);
	else
		s->line.failed = true;
	if (!buf_ok(&s->line)) {
		first = *err;
		shell_forget(s, c->id);
		buf_reset(&s->line, 4096);
		if (pipes->out != -1)
			close(pipes->out);
		if (pipes->err != -1)
			close(pipes->err);
		if (pipes->in != -1)
			close(pipes->in);
		if (first.code == ERR_NONE)
			error_set(&first, ERR_SYSTEM, "out of memory");
		*err = first;
		return -1;
	}
	(void)snprintf(s->id, sizeof(s->id), "%s", c->id);
	s->ready = s->looked = s->silent = false;
	look_later(s, LOOK_MS);
	push(s);
	return 0;
}

void
shell_forget(struct shell *s, const char *id)
{
	static const char kinds[] = "coei";
	char name[300];
	size_t i;

	for (i = 0; i < sizeof(kinds) - 1; i++) {
		path(s, name, sizeof(name), kinds[i], id);
		(void)unlink(name);
	}
}

/* --- what the shell tells ------------------------------------------------- */

static void
ended_command(struct shell *s)
{
	s->id[0] = '\0';
	s->ready = true;
	turn_timer_del(s->look);
	s->look = NULL;
}

static void
news_line(struct shell *s, char *line)
{
	char *id, *value, *tail;
	long n;

	if (strcmp(line, "ready") == 0) {
		s->ready = true;
		s->broken = false;
		tell(s, SHELL_READY, "", 0, false);
		return;
	}
	if (line[0] == '\0' || line[1] != ' ')
		return;
	id = line + 2;
	if (line[0] == 'x' && id[0] >= '0' && id[0] <= '0' + SNAP_STOP &&
	    id[1] == '\0') {
		s->snap = id[0] - '0';
		return;
	}
	if ((value = strchr(id, ' ')) == NULL)
		return;
	*value++ = '\0';
	n = strtol(value, &tail, 10);
	if (tail == value || *tail != '\0' || n < 0)
		return;
	if (line[0] == '+' || line[0] == '>') {
		tell(s, SHELL_BEGAN, id, n, false);
	} else if (line[0] == '&') {
		tell(s, SHELL_JOB, id, n, false);
	} else if (line[0] == '=' && strcmp(id, s->id) == 0) {
		ended_command(s);
		tell(s, SHELL_STATUS, id, n, false);
	}
}

static void
read_news(struct shell *s)
{
	char room[2048], line[256], *end;
	size_t len;
	ssize_t n;

	while ((n = read(s->status, room, sizeof(room))) > 0) {
		buf_put(&s->news, room, (size_t)n);
		if (!buf_ok(&s->news))
			buf_reset(&s->news, 4096);	/* not ours */
		while (s->news.len > 0 && (end = memchr(s->news.data, '\n',
		    s->news.len)) != NULL) {
			len = (size_t)(end - s->news.data);
			(void)snprintf(line, sizeof(line), "%.*s", (int)len,
			    s->news.data);
			buf_drop(&s->news, len + 1);
			news_line(s, line);
		}
	}
}

static void
on_status(void *arg, short revents)
{
	(void)revents;
	read_news(arg);
}

void
shell_hear(struct shell *s)
{
	read_news(s);
}

/*
 * set -n, a function called command and the like leave us without a status.
 * Seen twice to wait for its next line, without one, it has ended the command.
 */
static void
on_look(void *arg)
{
	struct shell *s = arg;
	bool waits;
	int left;

	s->look = NULL;
	waits = s->line.len == 0 && ioctl(s->in, FIONREAD, &left) == 0 &&
	    left == 0 && procs_reads(s->pid, s->in_inode);
	if (waits && s->looked) {
		s->silent = true;
		(void)kill(s->pid, SIGKILL);
		return;
	}
	look_later(s, waits ? LOOK_MS : s->look_ms < LOOK_MAX_MS ?
	    s->look_ms * 2 : LOOK_MAX_MS);
	s->looked = waits;
}

static void
on_patience(void *arg)
{
	struct shell *s = arg;

	s->stop = NULL;
	if (s->pid > 0)
		(void)kill(s->pid, SIGKILL);
}

void
shell_stop(struct shell *s)
{
	if (s->pid <= 0 || s->stop != NULL)
		return;
	(void)kill(s->pid, STOP_SIGNAL);
	s->stop = turn_timer_add(s->turn, PATIENCE_MS, on_patience, s);
	if (s->stop == NULL)
		on_patience(s);
}

void
shell_reset(struct shell *s)
{
	s->fresh = true;
	s->ready = false;
	if (s->pid > 0)
		(void)kill(s->pid, SIGKILL);
}

static int
exit_code(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) :
	    128 + WTERMSIG(status);
}

bool
shell_reaped(struct shell *s, pid_t pid, int status)
{
	bool began, tried = s->restored;
	struct error err;
	char id[PROCS_MARK_MAX];

	if (pid <= 0 || pid != s->pid)
		return false;
	/* It told us things before it died. */
	read_news(s);
	began = s->ready || s->id[0] != '\0';
	(void)snprintf(id, sizeof(id), "%s", s->id);
	s->id[0] = '\0';
	drop_process(s);
	tell(s, SHELL_ENDED, id, s->silent ? 0 : exit_code(status),
	    s->snap == SNAP_STOP && s->bash);
	s->silent = false;
	/* One that dies at once is given a second try, without a past. */
	if (!began && !tried && !s->fresh) {
		s->broken = true;
	} else {
		s->fresh = s->fresh || !began;
		(void)shell_start(s, &err);
	}
	if (s->broken)
		tell(s, SHELL_BROKEN, "", 0, false);
	return true;
}

pid_t
shell_pid(const struct shell *s)
{
	return s->pid;
}

/* We may be asked before we hear of its end. */
static bool
has_ended(pid_t pid)
{
	siginfo_t info = { .si_pid = 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) ==
	    0 && info.si_pid == pid;
}

bool
shell_ready(const struct shell *s)
{
	return s->ready && s->pid > 0 && s->stop == NULL && !has_ended(s->pid);
}

bool
shell_broken(const struct shell *s)
{
	return s->broken;
}

bool
shell_is_bash(const struct shell *s)
{
	return s->bash;
}

void
shell_cwd(const struct shell *s, char *dst, size_t size)
{
	char name[64];
	ssize_t n;

	(void)snprintf(name, sizeof(name), "/proc/%d/cwd", (int)s->pid);
	n = readlink(name, dst, size - 1);
	dst[n > 0 ? n : 0] = '\0';
}
