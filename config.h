/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config - the settings, in one table: flag, environment, range, default.
 *
 * A flag beats the environment, which beats the default. A bad value stops
 * the start with the setting's name and what is allowed. --help comes from
 * the table, and a test holds the man page to it.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct error;
struct log;

enum connection {
	CONNECTION_AUTO, CONNECTION_TUNNEL, CONNECTION_EXEC,
};

struct config {
	const char *kubeconfig;		/* NULL: found as kubeconfig.h says */
	const char *context;
	const char *tools;		/* list of families and tools, or NULL */
	const char *connection;		/* as given */
	enum connection route;
	long server_port, rest_port, grpc_port;
	const char *session_label;
	const char *session_id;		/* NULL: the peer's uid, or random */
	const char *container;		/* for exec; NULL: the pod's default */
	const char *namespaces;		/* allowed, separated by commas; NULL */
	const char *pools;
	long unschedulable_s;
	bool verbose, debug_sandbox;
	bool help, version, limits;
	const char *command;		/* first operand, or NULL */
};

/*
 * argv as main() has it; environ as "NAME=value" strings. The result borrows
 * from both. -1: err says what is wrong; *usage is set when it was argv.
 */
int config_load(struct config *c, int argc, char *const argv[],
    char *const environ[], bool *usage, struct error *err);
/* Warn of K8S_SANDBOX_* names that nobody reads. */
void config_warn(const struct log *l, char *const environ[]);

/* The OPTIONS part of --help; at most 80 columns. */
void config_help(struct buf *out);

/* Is name in the comma-separated list? A NULL list allows everything. */
bool config_allows(const char *list, const char *name);

/* For tests: one row of the table. n: how many there are. */
struct setting {
	const char *flag;		/* without "--" */
	char letter;			/* or 0 */
	const char *env[3];
	enum { SET_TEXT, SET_INT, SET_FLAG, SET_PORT, SET_LABEL_KEY,
	    SET_LABEL } type;
	size_t offset;			/* in struct config */
	long min, max;
	const char *def;		/* as text, or NULL */
	const char *const *one_of;
	const char *arg;		/* what --help calls the value */
	const char *help;
};
const struct setting *config_rows(size_t *n);

#endif
