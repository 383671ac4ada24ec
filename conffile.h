/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conffile - the files of settings, found and read: /etc/mcp-sandbox/config,
 * /etc/mcp-sandbox/conf.d/NAME.conf by name, and the user's own,
 * $XDG_CONFIG_HOME/mcp-sandbox/config (XDG Base Directory; ~/.config without
 * it). MCP_SANDBOX_CONFIG names one to read instead of them all; empty: none.
 */
#ifndef CONFFILE_H
#define CONFFILE_H

#include <stddef.h>

#include "config.h"

struct error;

enum { CONFFILES = 32 };

struct conffiles {
	struct config_text text[CONFFILES];	/* the last counts */
	char *path[CONFFILES];
	size_t n;
};

/* What is not there is left out; what can't be read is an error. To be closed
 * in any case, after the settings. */
int conffiles_open(struct conffiles *f, struct error *err);
void conffiles_close(struct conffiles *f);

#endif
