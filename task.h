/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task - the commands given to the shell: waiting, running, ended.
 *
 * Those of the foreground run one after the other, in the order they came;
 * those of the background as long as they like. Each has an id for as long as
 * its output is kept. Everything a command has started is found and killed
 * when its time is over, or when nobody waits for it any more.
 */
#ifndef TASK_H
#define TASK_H

#include <sys/types.h>

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"
#include "procs.h"
#include "shell.h"
#include "spool.h"

struct error;
struct shell;
struct tasks;
struct turn;
struct turn_fd;
struct turn_timer;

enum task_state {
	TASK_WAITING,
	TASK_RUNNING,
	TASK_STOPPING,		/* being killed */
	TASK_DRAINING,		/* ended, its last output comes in */
	TASK_ENDED
};

struct task_stream {
	struct task *task;
	int fd;			/* -1: it can print no more */
	struct turn_fd *ready;
	struct spool spool;
	bool hung_up;		/* nobody has it open now */
};

struct task {
	/* For readers. */
	char id[PROCS_MARK_MAX];
	enum task_state state;
	bool background;
	bool began;		/* background: it runs */
	bool timed_out, stopped, reset;
	bool oom;		/* something was killed for want of memory */
	long exit_code;
	long begin_ms, end_ms;
	size_t survivors;
	struct task_stream out[2];	/* stdout, stderr */
	bool input_open;

	/* Private. */
	struct tasks *all;
	struct task *next;
	struct shell_command command;	/* owned copies, until it runs */
	long timeout_ms;	/* 0: none */
	bool fresh;		/* reset the shell first */
	bool cancelled;
	bool told;		/* that it ended */
	pid_t root;
	unsigned long long since;
	long oom_kills;		/* when it began */
	int input;
	struct buf input_buf;
	bool input_end;		/* close it when input_buf is empty */
	struct turn_fd *input_ready;
	struct turn_timer *timeout, *round, *drain;
	int rounds;
	bool shell_left;	/* the shell has left the command */
};

struct task_spec {
	struct shell_command command;	/* borrowed; id is ignored */
	long timeout_ms;
	bool fresh;
};

/* t began (background) or ended; it is there for as long as the call. */
typedef void task_changed(void *arg, struct task *t);

struct tasks *tasks_open(struct turn *turn, const char *program,
    const char *const *shell_dirs, const char *const *spool_dirs,
    task_changed *changed, void *arg, struct error *err);
/* Kills the shell and what runs in the foreground. */
void tasks_close(struct tasks *all);

/* NULL: err says why, ERR_BUSY or ERR_SYSTEM. It starts with tasks_run(). */
struct task *task_submit(struct tasks *all, const struct task_spec *spec,
    struct error *err);
void tasks_run(struct tasks *all);
/* Nobody waits for it: stop it, and tell nobody. */
void task_cancel(struct task *t);
/* SIGTERM, and SIGKILL when the grace is over. */
void task_stop(struct task *t, long grace_ms);
int task_input(struct task *t, const void *data, size_t len, bool end,
    struct error *err);
struct task *task_find(struct tasks *all, const char *id);
struct task *task_first(struct tasks *all);	/* then ->next: oldest first */
/* Has it ended without a word? Then say so. */
void task_check(struct task *t);

void tasks_reaped(struct tasks *all, pid_t pid, int status);
struct shell *tasks_shell(struct tasks *all);
/* The stderr that came between two commands; the caller empties it. */
struct buf *tasks_late(struct tasks *all);
/* Has the shell been started anew since this was last asked? */
bool tasks_was_reset(struct tasks *all);
bool tasks_busy(const struct tasks *all);
size_t tasks_waiting(const struct tasks *all);

#endif
