/* SPDX-License-Identifier: Apache-2.0 */
/*
 * procs - who was started by a command, found in /proc, and signals to them.
 *
 * A command's processes are told by a mark in their environment, which they
 * keep in a session or process group of their own; by their parents; and, for
 * forks of the shell itself, which show the shell's environment, by being
 * younger than the command.
 */
#ifndef PROCS_H
#define PROCS_H

#include <sys/types.h>

#include <stdbool.h>
#include <stddef.h>

/* The variable that carries the mark. */
#define PROCS_MARK "MCP_SANDBOX_RUN"

enum { PROCS_MARK_MAX = 32 };

struct procs_who {
	const char *mark;
	pid_t self;		/* the agent, which orphans come back to */
	pid_t shell;		/* never hit */
	pid_t root;		/* background: the subshell that waits for it */
	bool spare_root;	/* do not signal that one */
	bool young;		/* take unmarked forks begun since... */
	unsigned long long since;	/* procs_now() when it started */
	const pid_t *others;	/* roots of other commands, never hit */
	size_t n_others;
};

/* Now, in the units of a process's start time. */
unsigned long long procs_now(void);
/* Sends signo (0: none) to all of them; how many there were, zombies apart. */
size_t procs_signal(const struct procs_who *who, int signo);
/* Does this process exist, and not as a zombie? */
bool procs_alive(pid_t pid);
/*
 * The shell waits for its next line: it sleeps with this pipe as its standard
 * input, which is how a command's end is known when it could not be told.
 */
bool procs_reads(pid_t pid, unsigned long pipe_inode);
/* Out-of-memory kills in this container, or -1 where that is not to be had. */
long procs_oom_kills(void);

#endif
