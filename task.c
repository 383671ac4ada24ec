/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/random.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "budget.h"
#include "error.h"
#include "mono.h"
#include "task.h"
#include "turn.h"

enum {
	DRAIN_MS = 50,		/* for output that comes after the status */
	ROUND_MS = 10,		/* between looks for what was to be killed */
	ROUNDS = 60,		/* about two seconds */
	ATTACHED = 64,		/* ended commands whose output is still read */
	PIECE = 64 << 10,
	PIPE_MAX = 1 << 20,	/* bytes in a pipe, fs.pipe-max-size */
	STDIN_MAX = 1 << 20
};

struct tasks {
	struct turn *turn;
	struct shell *shell;
	struct spool_store store;
	task_changed *changed;
	void *arg;
	struct task *list;	/* oldest first */
	struct task *current;	/* the foreground's */
	struct buf late;
	char boot[8];		/* so that an id of another agent is unknown */
	unsigned long serial;
	bool was_reset;
	bool closing;
};

static void next_task(struct tasks *all);

/* --- streams -------------------------------------------------------------- */

static void
stream_close(struct task_stream *s)
{
	turn_fd_del(s->ready);
	s->ready = NULL;
	if (s->fd != -1)
		close(s->fd);
	s->fd = -1;
	spool_settle(&s->spool);
}

static bool
is_over(const struct task *t)
{
	return t->state == TASK_DRAINING || t->state == TASK_ENDED;
}

/* One piece. False: no more for now. */
static bool
stream_read(struct task_stream *s)
{
	struct task *t = s->task;
	char room[PIECE];
	ssize_t n;
	size_t len;

	if ((n = read(s->fd, room, sizeof(room))) <= 0) {
		s->hung_up = n == 0;
		return false;
	}
	/* What is left of a killed command: the shell's words about it. */
	if (t->state == TASK_STOPPING && s == &t->out[1])
		return true;
	spool_put(&s->spool, room, (size_t)n);
	if (s != &t->out[1] || t->state != TASK_ENDED || t->background)
		return true;
	len = (size_t)n;
	if (len > buf_room(&t->all->late))
		len = buf_room(&t->all->late);
	buf_put(&t->all->late, room, len);
	return true;
}

static void finish(struct task *t);

static void
on_output(void *arg, short revents)
{
	struct task_stream *s = arg;

	if (revents & POLLIN) {
		(void)stream_read(s);
		return;
	}
	stream_close(s);
	if (s->task->state == TASK_DRAINING && s->task->out[0].fd == -1 &&
	    s->task->out[1].fd == -1)
		finish(s->task);
}

static int
stream_open(struct task_stream *s, int fd)
{
	s->fd = fd;
	s->ready = turn_fd_add(s->task->all->turn, fd, POLLIN, on_output, s);
	return s->ready == NULL ? -1 : 0;
}

/* The shell has opened it and will not do so again: from now on it can end. */
static void
stream_settle(struct task_stream *s)
{
	turn_fd_del(s->ready);
	s->ready = NULL;
	if (s->fd != -1 && ((s->fd = pipe_end(s->fd, O_RDONLY)) == -1 ||
	    stream_open(s, s->fd) == -1))
		stream_close(s);
}

/* All that was written before the status is in the pipe by now. */
static void
stream_drain(struct task_stream *s)
{
	int i;

	if (s->fd == -1)
		return;
	for (i = 0; i < PIPE_MAX / PIECE && stream_read(s); i++)
		continue;
	if (s->hung_up)
		stream_close(s);
}

/* --- a task --------------------------------------------------------------- */

static void
forget_command(struct task *t)
{
	const char *const *e = t->command.env;

	for (; e != NULL && *e != NULL; e++)
		free((void *)(uintptr_t)*e);
	free((void *)(uintptr_t)t->command.env);
	free((void *)(uintptr_t)t->command.text);
	free((void *)(uintptr_t)t->command.cwd);
	free((void *)(uintptr_t)t->command.input);
	t->command = (struct shell_command){ .id = t->id };
}

static void
input_close(struct task *t)
{
	turn_fd_del(t->input_ready);
	t->input_ready = NULL;
	if (t->input != -1)
		close(t->input);
	t->input = -1;
	t->input_open = false;
	buf_free(&t->input_buf);
}

static void
stop_timers(struct task *t)
{
	turn_timer_del(t->timeout);
	turn_timer_del(t->round);
	turn_timer_del(t->drain);
	t->timeout = t->round = t->drain = NULL;
}

static void
task_free(struct task *t)
{
	struct task **at = &t->all->list;
	int i;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	stop_timers(t);
	input_close(t);
	for (i = 0; i < 2; i++) {
		stream_close(&t->out[i]);
		spool_free(&t->out[i].spool);
	}
	forget_command(t);
	free(t);
}

/* The oldest go; those that are not over stay. */
static void
make_room(struct tasks *all)
{
	struct task *t, *next;
	size_t n = 0, attached = 0;

	for (t = all->list; t != NULL; t = t->next) {
		n++;
		attached += t->state == TASK_ENDED &&
		    (t->out[0].fd != -1 || t->out[1].fd != -1);
	}
	for (t = all->list; t != NULL; t = next) {
		next = t->next;
		if (t->state != TASK_ENDED)
			continue;
		if (attached > ATTACHED &&
		    (t->out[0].fd != -1 || t->out[1].fd != -1)) {
			stream_close(&t->out[0]);
			stream_close(&t->out[1]);
			attached--;
		}
		if (n > LIMIT_AGENT_RUNS ||
		    all->store.used > all->store.max - all->store.each) {
			task_free(t);
			n--;
		}
	}
}

static void
tell(struct task *t)
{
	if (!t->cancelled)
		t->all->changed(t->all->arg, t);
}

static void
finish(struct task *t)
{
	struct tasks *all = t->all;

	stop_timers(t);
	input_close(t);
	t->state = TASK_ENDED;
	spool_settle(&t->out[0].spool);
	spool_settle(&t->out[1].spool);
	shell_forget(all->shell, t->id);
	tell(t);
	if (all->current == t)
		all->current = NULL;
	if (!all->closing)
		next_task(all);
}

static void
on_drained(void *arg)
{
	struct task *t = arg;

	t->drain = NULL;
	finish(t);
}

/*
 * What is left of the command in the background may hold its pipes for ever,
 * so that their end is not waited for; they stay with this task.
 */
static void
over(struct task *t, long code)
{
	t->end_ms = mono_ms();
	t->exit_code = t->timed_out ? 137 : code;
	t->oom = code != 0 && t->oom_kills >= 0 &&
	    procs_oom_kills() > t->oom_kills;
	stop_timers(t);
	if (!t->began) {
		stream_settle(&t->out[0]);
		stream_settle(&t->out[1]);
	}
	stream_drain(&t->out[0]);
	stream_drain(&t->out[1]);
	t->state = TASK_DRAINING;
	if (t->out[0].fd != -1 || t->out[1].fd != -1)
		t->drain = turn_timer_add(t->all->turn, DRAIN_MS, on_drained,
		    t);
	if (t->drain == NULL)
		finish(t);
}

/* --- killing -------------------------------------------------------------- */

static size_t
signal_all(struct task *t, int signo)
{
	struct procs_who who = {
		.mark = t->id, .self = getpid(),
		.root = is_over(t) ? 0 : t->root,
		.shell = shell_pid(t->all->shell), .since = t->since,
		.young = !t->background && !is_over(t),
		.spare_root = signo == SIGTERM
	};
	pid_t others[LIMIT_AGENT_RUNS + LIMIT_AGENT_BACKGROUND + 1];
	const struct task *o;

	for (o = t->all->list; o != NULL; o = o->next)
		if (o != t && o->root > 0 && !is_over(o) &&
		    who.n_others < sizeof(others) / sizeof(others[0]))
			others[who.n_others++] = o->root;
	who.others = others;
	return procs_signal(&who, signo);
}

/* Until none of it is left, and the shell is out of it as well. */
static void
on_round(void *arg)
{
	struct task *t = arg;
	size_t left = signal_all(t, SIGKILL);

	t->round = NULL;
	if ((left == 0 && t->shell_left) || ++t->rounds > ROUNDS) {
		t->survivors = left;
		over(t, t->exit_code);
		return;
	}
	t->round = turn_timer_add(t->all->turn,
	    ROUND_MS + (t->rounds > 10 ? 2 * t->rounds / 3 : 0), on_round, t);
	if (t->round == NULL)
		over(t, t->exit_code);
}

/*
 * The shell is told first: it must not go on with the rest of the command when
 * the part that it waits for has been killed.
 */
static void
kill_task(struct task *t, long code)
{
	stream_drain(&t->out[0]);
	stream_drain(&t->out[1]);
	t->exit_code = code;
	t->state = TASK_STOPPING;
	turn_timer_del(t->timeout);
	turn_timer_del(t->round);
	t->timeout = t->round = NULL;
	t->rounds = 0;
	t->shell_left = t->background;
	if (!t->background)
		shell_stop(t->all->shell);
	on_round(t);
}

static void
on_timeout(void *arg)
{
	struct task *t = arg;

	t->timeout = NULL;
	t->timed_out = true;
	kill_task(t, 137);
}

static void
on_grace(void *arg)
{
	struct task *t = arg;

	t->round = NULL;
	kill_task(t, 137);
}

void
task_stop(struct task *t, long grace_ms)
{
	if (t->state == TASK_WAITING) {
		t->stopped = true;
		over(t, 128 + SIGTERM);
		return;
	}
	if (t->state == TASK_ENDED)	/* what it left in the background */
		(void)signal_all(t, grace_ms > 0 ? SIGTERM : SIGKILL);
	if (t->state != TASK_RUNNING || t->round != NULL)
		return;
	t->stopped = true;
	if (!t->background || grace_ms <= 0) {
		kill_task(t, 137);
		return;
	}
	(void)signal_all(t, SIGTERM);
	t->round = turn_timer_add(t->all->turn, grace_ms, on_grace, t);
	if (t->round == NULL)
		kill_task(t, 137);
}

void
task_cancel(struct task *t)
{
	t->cancelled = true;
	if (t->state == TASK_WAITING)
		over(t, 137);
	else if (t->state == TASK_RUNNING)
		kill_task(t, 137);
}

/* --- starting ------------------------------------------------------------- */

static void on_stdin(void *arg, short revents);

static int
attach(struct task *t, const struct shell_pipes *p)
{
	if ((t->input = p->in) != -1) {
		t->input_open = true;
		t->input_ready = turn_fd_add(t->all->turn, t->input, 0,
		    on_stdin, t);
		if (t->input_ready == NULL)
			return -1;
	}
	if (stream_open(&t->out[0], p->out) == -1 ||
	    stream_open(&t->out[1], p->err) == -1)
		return -1;
	if (t->timeout_ms > 0 && (t->timeout = turn_timer_add(t->all->turn,
	    t->timeout_ms, on_timeout, t)) == NULL)
		return -1;
	return 0;
}

static void
fail(struct task *t, const char *why)
{
	spool_put(&t->out[1].spool, why, strlen(why));
	over(t, 126);
}

static void
start(struct task *t)
{
	struct tasks *all = t->all;
	struct shell_pipes p = { -1, -1, -1 };
	struct error err = { 0 };

	all->current = t;
	t->state = TASK_RUNNING;
	t->begin_ms = mono_ms();
	t->since = procs_now();
	t->oom_kills = procs_oom_kills();
	if (shell_run(all->shell, &t->command, &p, &err) == -1)
		fail(t, err.text);
	else if (attach(t, &p) == -1)
		kill_task(t, 137);
	forget_command(t);
}

/* A reset without a command is over when the new shell is there. */
static void
next_task(struct tasks *all)
{
	struct task *t = all->list;
	struct error err;

	while (t != NULL && t->state != TASK_WAITING)
		t = t->next;
	if (t == NULL || all->current != NULL)
		return;
	if (t->fresh) {
		t->fresh = false;
		t->reset = true;
		shell_reset(all->shell);
	}
	if (shell_broken(all->shell) &&
	    shell_start(all->shell, &err) == -1) {
		fail(t, err.text);
		return;
	}
	if (!shell_ready(all->shell))
		return;
	if (t->command.len > 0) {
		start(t);
		return;
	}
	t->begin_ms = mono_ms();
	over(t, 0);
}

static void
copy_command(struct task *t, const struct shell_command *c, bool *ok)
{
	const char **env;
	size_t n = 0;

	t->command = *c;
	t->command.id = t->id;
	t->command.env = NULL;
	t->command.text = strndup(c->text, c->len);
	t->command.cwd = c->cwd != NULL ? strdup(c->cwd) : NULL;
	t->command.input = NULL;
	if (c->input != NULL) {
		char *input = malloc(c->input_len + 1);

		if (input != NULL)
			memcpy(input, c->input, c->input_len);
		t->command.input = input;
	}
	while (c->env != NULL && c->env[n] != NULL)
		n++;
	if ((env = calloc(n + 1, sizeof(*env))) != NULL)
		for (t->command.env = env; n > 0; n--)
			if ((env[n - 1] = strdup(c->env[n - 1])) == NULL)
				*ok = false;
	*ok = *ok && env != NULL && t->command.text != NULL &&
	    (c->cwd == NULL || t->command.cwd != NULL) &&
	    (c->input == NULL || t->command.input != NULL);
}

static int
has_room(const struct tasks *all, bool background, struct error *err)
{
	const struct task *t;
	size_t waiting = 0, running = 0;

	for (t = all->list; t != NULL; t = t->next) {
		waiting += t->state == TASK_WAITING;
		running += t->background && !is_over(t);
	}
	if (waiting >= LIMIT_AGENT_QUEUE)
		return error_set(err, ERR_BUSY, "busy: %zu commands wait for "
		    "the shell already; try again later", waiting);
	if (background && running >= LIMIT_AGENT_BACKGROUND)
		return error_set(err, ERR_BUSY, "busy: %zu commands run in "
		    "the background already; stop one", running);
	return 0;
}

struct task *
task_submit(struct tasks *all, const struct task_spec *spec,
    struct error *err)
{
	struct task *t, **at;
	bool ok = true;
	int i;

	if (has_room(all, spec->command.background, err) == -1)
		return NULL;
	make_room(all);
	if ((t = calloc(1, sizeof(*t))) == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	for (at = &all->list; *at != NULL; at = &(*at)->next)
		continue;
	*at = t;
	t->all = all;
	t->input = -1;
	buf_init(&t->input_buf, STDIN_MAX);
	for (i = 0; i < 2; i++) {
		t->out[i].task = t;
		t->out[i].fd = -1;
		spool_init(&t->out[i].spool, &all->store);
	}
	(void)snprintf(t->id, sizeof(t->id), "%s-%lu", all->boot,
	    ++all->serial);
	t->background = spec->command.background;
	t->timeout_ms = spec->timeout_ms;
	t->fresh = spec->fresh;
	copy_command(t, &spec->command, &ok);
	if (!ok) {
		task_free(t);
		error_set(err, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	return t;
}

void
tasks_run(struct tasks *all)
{
	next_task(all);
}

/* --- standard input of the background ------------------------------------- */

static void
input_push(struct task *t)
{
	ssize_t n;

	while (t->input_buf.len > 0) {
		n = write(t->input, t->input_buf.data, t->input_buf.len);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EAGAIN)
			break;
		if (n <= 0) {
			input_close(t);
			return;
		}
		buf_drop(&t->input_buf, (size_t)n);
	}
	if (t->input_buf.len == 0 && t->input_end)
		input_close(t);
	else
		turn_fd_want(t->input_ready, t->input_buf.len > 0 ? POLLOUT :
		    0);
}

static void
on_stdin(void *arg, short revents)
{
	struct task *t = arg;

	if (revents & POLLHUP)
		input_close(t);
	else
		input_push(t);
}

int
task_input(struct task *t, const void *data, size_t len, bool end,
    struct error *err)
{
	if (!t->input_open || t->input_end)
		return error_set(err, ERR_CONFLICT, "the standard input of "
		    "%s is not open", t->id);
	if (len > buf_room(&t->input_buf))
		return error_set(err, ERR_BUSY, "busy: %s does not read its "
		    "standard input; %zu bytes wait", t->id, t->input_buf.len);
	buf_put(&t->input_buf, data, len);
	if (!buf_ok(&t->input_buf))
		return error_set(err, ERR_SYSTEM, "out of memory");
	t->input_end = end;
	/* Before it has begun nobody reads: the end must not come first. */
	if (t->began)
		input_push(t);
	return 0;
}

/* Its ends are open by now. */
static void
opened(struct task *t)
{
	t->began = true;
	stream_settle(&t->out[0]);
	stream_settle(&t->out[1]);
	if (t->input == -1)
		return;
	turn_fd_del(t->input_ready);
	t->input_ready = NULL;
	if ((t->input = pipe_end(t->input, O_WRONLY)) != -1)
		t->input_ready = turn_fd_add(t->all->turn, t->input, 0,
		    on_stdin, t);
	if (t->input_ready == NULL)
		input_close(t);
	else
		input_push(t);
}

/* --- what the shell tells ------------------------------------------------- */

static void
began(struct task *t, long pid)
{
	if (pid > 0) {
		t->root = (pid_t)pid;
		return;
	}
	opened(t);
	tell(t);
}

/* The foreground is free again, whoever ran in it. */
static void
left_shell(struct task *t, const struct shell_event *ev)
{
	struct tasks *all = t->all;

	if (t->background) {
		if (all->current == t)
			all->current = NULL;
		/* It could not even be begun, or the shell died over it. */
		if (!t->began && (ev->value != 0 ||
		    ev->news == SHELL_ENDED) && t->state == TASK_RUNNING)
			over(t, ev->value);
		return;
	}
	t->shell_left = true;
	if (t->state == TASK_RUNNING)
		over(t, ev->value);
}

static void
shell_ended(struct tasks *all, struct task *t, const struct shell_event *ev)
{
	if (!ev->kept)
		all->was_reset = true;
	if (t == NULL)
		return;
	t->reset = !ev->kept;
	left_shell(t, ev);
}

static void
on_shell(void *arg, const struct shell_event *ev)
{
	struct tasks *all = arg;
	struct task *t = task_find(all, ev->id);

	switch (ev->news) {
	case SHELL_BEGAN:
		if (t != NULL)
			began(t, ev->value);
		break;
	case SHELL_STATUS:
		if (t != NULL)
			left_shell(t, ev);
		break;
	case SHELL_JOB:
		if (t != NULL && t->stopped && t->state == TASK_RUNNING)
			kill_task(t, ev->value);	/* what it left */
		else if (t != NULL && !is_over(t))
			over(t, ev->value);
		break;
	case SHELL_ENDED:
		shell_ended(all, t, ev);
		return;			/* until it is READY or BROKEN */
	case SHELL_READY:
	case SHELL_BROKEN:
		break;
	}
	if (!all->closing && all->shell != NULL)
		next_task(all);
}

void
tasks_reaped(struct tasks *all, pid_t pid, int status)
{
	(void)shell_reaped(all->shell, pid, status);
}

static bool
is_lost(const struct task *t)
{
	return t->background && t->began && t->root > 0 &&
	    t->state == TASK_RUNNING && !procs_alive(t->root);
}

/* The last thing it did may have been to say so. */
void
task_check(struct task *t)
{
	if (!is_lost(t))
		return;
	shell_hear(t->all->shell);
	if (is_lost(t))
		over(t, 137);
}

/* --- all of them ---------------------------------------------------------- */

struct tasks *
tasks_open(struct turn *turn, const char *program,
    const char *const *shell_dirs, const char *const *spool_dirs,
    task_changed *changed, void *arg, struct error *err)
{
	struct tasks *all = calloc(1, sizeof(*all));
	unsigned char dice[3] = { 0 };

	if (all == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	all->turn = turn;
	all->changed = changed;
	all->arg = arg;
	buf_init(&all->late, LIMIT_AGENT_LATE);
	spool_store_init(&all->store, spool_dirs);
	(void)!getrandom(dice, sizeof(dice), 0);
	(void)snprintf(all->boot, sizeof(all->boot), "%02x%02x%02x", dice[0],
	    dice[1], dice[2]);
	all->shell = shell_open(turn, program, shell_dirs, on_shell, all,
	    err);
	if (all->shell == NULL) {
		free(all);
		return NULL;
	}
	return all;
}

void
tasks_close(struct tasks *all)
{
	if (all == NULL)
		return;
	all->closing = true;
	if (all->current != NULL)
		(void)signal_all(all->current, SIGKILL);
	while (all->list != NULL) {
		shell_forget(all->shell, all->list->id);
		task_free(all->list);
	}
	shell_close(all->shell);
	buf_free(&all->late);
	free(all);
}

struct task *
task_first(struct tasks *all)
{
	return all->list;
}

struct task *
task_find(struct tasks *all, const char *id)
{
	struct task *t = all->list;

	while (t != NULL && strcmp(t->id, id) != 0)
		t = t->next;
	return t;
}

struct shell *
tasks_shell(struct tasks *all)
{
	return all->shell;
}

struct buf *
tasks_late(struct tasks *all)
{
	return &all->late;
}

bool
tasks_was_reset(struct tasks *all)
{
	bool was = all->was_reset;

	all->was_reset = false;
	return was;
}

bool
tasks_busy(const struct tasks *all)
{
	return all->current != NULL;
}

size_t
tasks_waiting(const struct tasks *all)
{
	const struct task *t;
	size_t n = 0;

	for (t = all->list; t != NULL; t = t->next)
		n += t->state == TASK_WAITING;
	return n;
}
