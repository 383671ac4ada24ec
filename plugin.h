/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin - runs a credential plugin for a process that may run nothing.
 *
 * A helper is forked before the confinement. Each process that needs
 * credentials sends it one end of a socket pair, and asks on the other: the
 * helper runs the plugin (its input is empty, its output limited, its errors
 * go to our log as lines) or gives the last output again, when that is newer
 * than what the asker has. It holds neither our input nor our output open,
 * outlives a signal that is meant for us, and ends with the last socket.
 */
#ifndef PLUGIN_H
#define PLUGIN_H

#include <stddef.h>

struct buf;
struct error;
struct kubeconfig_exec;
struct log;
struct plugin;

/* exec and log are the helper's own copy from here on. NULL: err. */
struct plugin *plugin_open(const struct kubeconfig_exec *exec,
    const struct log *log, struct error *err);
/* This process opens no more channels; those that are open stay. */
void plugin_close(struct plugin *p);	/* NULL is fine */

/* A socket to the helper; the caller's to close. -1: err. */
int plugin_connect(struct plugin *p, struct error *err);
/* have: the generation of the output we have; 0: none. One at a time. */
int plugin_ask(int fd, unsigned long have, struct error *err);
/*
 * What has come of the answer, into in (made by plugin_buf()). 1: *text and
 * *len, in the buffer, are the output of this generation. 0: not yet. -1: the
 * plugin failed, and err says how; or, with *generation 0, the helper is gone.
 */
void plugin_buf(struct buf *in);
int plugin_read(int fd, struct buf *in, unsigned long *generation,
    const char **text, size_t *len, struct error *err);
/* Waits for that, LIMIT_PLUGIN_MS and a little. 0, or -1. */
int plugin_wait(int fd, struct buf *in, unsigned long *generation,
    const char **text, size_t *len, struct error *err);

#endif
