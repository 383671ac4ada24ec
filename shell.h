/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shell - a bash or sh kept running, one command after the other.
 *
 * The text of a command is data: the shell reads it from a file into a
 * variable and evaluates that, so that nothing in it can reach the line that
 * asked for it. Its output goes to pipes of its own (FIFOs that are opened by
 * name once), its end and status to another, so that no output looks like one.
 * All is in a private directory, best in /dev/shm.
 *
 * After each command the shell writes down its environment and its working
 * directory, and when it exits as well; a new one begins with those. One that
 * is told to stop, which only a bash can do completely, writes down all that
 * it knows.
 */
#ifndef SHELL_H
#define SHELL_H

#include <sys/types.h>

#include <stdbool.h>
#include <stddef.h>

struct error;
struct shell;
struct turn;

enum shell_news {
	SHELL_READY,		/* takes a command */
	SHELL_BEGAN,		/* id, in the background; value: its pid, which
				   is told apart from the beginning: then 0 */
	SHELL_STATUS,		/* id ended; value: its exit code */
	SHELL_JOB,	/* id, of the background, ended; value as above */
	SHELL_ENDED,		/* the shell itself did; value as above */
	SHELL_BROKEN		/* and a new one can't be started */
};

struct shell_event {
	enum shell_news news;
	const char *id;
	long value;
	bool kept;		/* ENDED: the next knows all that it did */
};

typedef void shell_fn(void *arg, const struct shell_event *ev);

struct shell_command {
	const char *id;		/* a word of letters, digits and - */
	const char *text;
	size_t len;
	const char *cwd;	/* NULL: where it is */
	const char *const *env;	/* name, value, ..., NULL; NULL: none */
	const char *input;	/* standard input; NULL: none */
	size_t input_len;
	bool background;
	bool input_open;	/* background: a pipe instead */
};

/*
 * The caller's. Both ends of each, so that there is no end before the shell
 * has opened its own; pipe_end() gives up the other when it has.
 */
struct shell_pipes {
	int out, err;		/* to read from */
	int in;			/* to write to, or -1 */
};

/*
 * program: NULL for the first of bash and sh in PATH. environ is the agent's,
 * borrowed. dirs: where the private directory may be, the first that works.
 */
struct shell *shell_open(struct turn *t, const char *program,
    const char *const *dirs, shell_fn *fn, void *arg, struct error *err);
void shell_close(struct shell *s);	/* kills it */

/* The same pipe with one end only (O_RDONLY or O_WRONLY); fd is closed. */
int pipe_end(int fd, int end);

/* Only when it is ready. BEGAN or STATUS, or ENDED, follows. */
int shell_run(struct shell *s, const struct shell_command *c,
    struct shell_pipes *pipes, struct error *err);
/* Nobody will open the pipes of this command any more. */
void shell_forget(struct shell *s, const char *id);
/* Leave the command, keeping what it knows; SIGKILL when it does not. */
void shell_stop(struct shell *s);
/* Start anew with what the agent began with. */
void shell_reset(struct shell *s);
/* Try again after SHELL_BROKEN. */
int shell_start(struct shell *s, struct error *err);

/* Tell now what it has told meanwhile. */
void shell_hear(struct shell *s);
/* A child of the agent ended; false: it was another's. */
bool shell_reaped(struct shell *s, pid_t pid, int status);
pid_t shell_pid(const struct shell *s);
bool shell_ready(const struct shell *s);
bool shell_broken(const struct shell *s);
bool shell_is_bash(const struct shell *s);
/* Its working directory; "" if that is not known. */
void shell_cwd(const struct shell *s, char *dst, size_t size);

#endif
