/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox - what this process may still do once it reads untrusted bytes.
 *
 * Three layers by question: rlimits say how much (no core, no new process,
 * few descriptors, files of LIMIT_SPOOL), Landlock says which paths (only what
 * is given, read only; skipped where the kernel lacks it), seccomp says which
 * system calls (seccomp.def, exported to BPF at build time): allowed by table,
 * refused with an error what libraries merely try, killed what nobody here may
 * do.
 */
#ifndef SANDBOX_H
#define SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

struct error;

struct sandbox {
	/* Files or folders, NULL at the end. What is replaced by a rename, as
	 * a token is, can be read later only if its folder is here. */
	const char *const *read_paths;
	/* Folders in which files can be removed, NULL at the end; or NULL. */
	const char *const *remove_paths;
	/* This process will fork: those it makes are to confine themselves, and
	 * are in the meantime held by what holds this one. */
	bool serve;
	/* serve: the folder of the files that those make, without a name each;
	 * "" or NULL: none. */
	const char *stash;
	bool debug; /* name on stderr what is refused with a kill, exit 70 */
};

struct sandbox_state {
	bool no_new_privs, seccomp;
	int landlock_abi;		/* 0: not in force */
};

/* Before anything else: 0-2 open (else /dev/null; so is 2 if it is the socket
 * that 1 is, as inetd has it), above 2 closed but keep. */
int sandbox_descriptors(const int *keep, size_t n, struct error *err);

/*
 * no_new_privs, not dumpable, rlimits, Landlock, seccomp, in this order; the
 * effect of each is checked with the kernel. There is no way back and no
 * switch that leaves one out.
 */
int sandbox_enter(const struct sandbox *s, struct sandbox_state *state,
    struct error *err);

#endif
