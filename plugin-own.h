/* SPDX-License-Identifier: Apache-2.0 */
/* plugin-own - what plugin.c and its helper say to each other. */
#ifndef PLUGIN_OWN_H
#define PLUGIN_OWN_H

#include <stdint.h>

struct error;
struct kubeconfig_exec;
struct log;

/* Both are of one program: no byte order, no version. */
struct plugin_question {
	uint64_t have;
};

struct plugin_head {
	uint64_t generation;
	uint32_t code;		/* ERR_NONE: output follows; else a text */
	uint32_t len;
};

/* The helper's main(). control: where channels come from. */
_Noreturn void plugin_helper(int control, const struct kubeconfig_exec *exec,
    const struct log *log);

/* One run of the plugin. */
struct plugin_run {
	int pid;		/* 0: none */
	int out, err;		/* what it prints; not blocking */
};

/* -1: it can't be run, and err says why. */
int plugin_start(struct plugin_run *run, const struct kubeconfig_exec *exec,
    struct error *err);

#endif
