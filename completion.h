/* SPDX-License-Identifier: Apache-2.0 */
/*
 * completion - "mcp-sandbox completion SHELL": a script for the shell to load,
 * made of the table of settings and the list of commands.
 */
#ifndef COMPLETION_H
#define COMPLETION_H

struct buf;
struct error;

/* shell: bash, zsh or fish. commands: NULL at the end. */
int completion_write(struct buf *out, const char *shell,
    const char *const *commands, struct error *err);

#endif
