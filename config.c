/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "buf.h"
#include "config.h"
#include "error.h"
#include "log.h"
#include "names.h"

static const char *const connections[] = { "auto", "tunnel", "exec", NULL };

#define AT(field) offsetof(struct config, field)

static const struct setting rows[] = {
	{ "kubeconfig", 'k', { "MCP_SANDBOX_KUBECONFIG" }, SET_TEXT,
	    AT(kubeconfig), 0, 0, NULL, NULL, "FILE",
	    "how to reach the cluster ($KUBECONFIG)" },
	{ "context", 'c', { "MCP_SANDBOX_CONTEXT" }, SET_TEXT, AT(context),
	    0, 0, NULL, NULL, "NAME", "context of the kubeconfig to use" },
	{ "tools", 't', { "MCP_SANDBOX_TOOLS" }, SET_TEXT, AT(tools),
	    0, 0, NULL, NULL, "LIST", "offer only these tools or families" },
	{ "connection", 0, { "K8S_SANDBOX_CONNECTION__TYPE" }, SET_TEXT,
	    AT(connection), 0, 0, "auto", connections, "TYPE",
	    "way into a sandbox: auto, tunnel, exec" },
	{ "server-port", 0, { "K8S_SANDBOX_CONNECTION__SERVER_PORT" }, SET_PORT,
	    AT(server_port), 1, 65535, "8888", NULL, "PORT",
	    "of the legacy runtime" },
	{ "rest-port", 0, { "K8S_SANDBOX_CONNECTION__REST_PORT" }, SET_PORT,
	    AT(rest_port), 1, 65535, "8080", NULL, "PORT",
	    "of sandboxd's files" },
	{ "grpc-port", 0, { "K8S_SANDBOX_CONNECTION__GRPC_PORT" }, SET_PORT,
	    AT(grpc_port), 1, 65535, "9090", NULL, "PORT",
	    "of sandboxd's commands" },
	{ "session-label", 0, { "K8S_SANDBOX_SESSION_ID_LABEL_KEY" },
	    SET_LABEL_KEY, AT(session_label), 0, 0,
	    "mcp.k8s-agent-sandbox/session-id", NULL, "KEY",
	    "label that marks a session's sandboxes" },
	{ "session-id", 's', { "MCP_SANDBOX_SESSION_ID" }, SET_LABEL,
	    AT(session_id), 0, 0, NULL, NULL, "ID",
	    "its value: fix it to find them again" },
	{ "container", 0, { "MCP_SANDBOX_CONTAINER" }, SET_LABEL, AT(container),
	    0, 0, NULL, NULL, "NAME", "where exec runs (default: the pod's)" },
	{ "namespaces", 'n', { "MCP_SANDBOX_NAMESPACES" }, SET_TEXT,
	    AT(namespaces), 0, 0, NULL, NULL, "LIST",
	    "the only namespaces a caller may use" },
	{ "warm-pools", 0, { "MCP_SANDBOX_WARM_POOLS" }, SET_TEXT, AT(pools),
	    0, 0, NULL, NULL, "LIST", "the only warm pools a caller may use" },
	{ "unschedulable-after", 0, { "MCP_SANDBOX_UNSCHEDULABLE_AFTER" },
	    SET_INT, AT(unschedulable_s), 0, 3600, "10", NULL, "S",
	    "seconds until a pod no node takes is given up" },
	{ "verbose", 'v', { "MCP_SANDBOX_VERBOSE" }, SET_FLAG, AT(verbose),
	    0, 0, NULL, NULL, NULL, "say more on standard error" },
	{ "debug-sandbox", 0, { NULL }, SET_FLAG, AT(debug_sandbox),
	    0, 0, NULL, NULL, NULL, "name a system call that is refused" },
	{ "limits", 0, { NULL }, SET_FLAG, AT(limits), 0, 0, NULL, NULL, NULL,
	    "print every limit and exit" },
	{ "help", 'h', { NULL }, SET_FLAG, AT(help), 0, 0, NULL, NULL, NULL,
	    "print this and exit" },
	{ "version", 'V', { NULL }, SET_FLAG, AT(version), 0, 0, NULL, NULL,
	    NULL, "print the version and exit" },
};

enum { NROWS = sizeof(rows) / sizeof(rows[0]) };

const struct setting *
config_rows(size_t *n)
{
	*n = NROWS;
	return rows;
}

bool
config_allows(const char *list, const char *name)
{
	size_t len = strlen(name);

	if (list == NULL || strcmp(list, "all") == 0)
		return true;
	while (*list != '\0') {
		size_t n = strcspn(list, ", ");

		if (n == len && strncmp(list, name, n) == 0)
			return true;
		list += n;
		list += strspn(list, ", ");
	}
	return false;
}

static int
set_int(const struct setting *row, const char *from, const char *text,
    long *out, struct error *err)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	/* "80.0" and blanks around it are what the Python original takes. */
	if (end != text && end[0] == '.') {
		end++;
		end += strspn(end, "0");
	}
	end += strspn(end, " ");
	if (end == text || *end != '\0' || errno != 0 || n < row->min ||
	    n > row->max)
		return error_set(err, ERR_CONFIG, "%s: '%.80s' is not allowed: "
		    "a whole number from %ld to %ld", from, text, row->min,
		    row->max);
	*out = n;
	return 0;
}

static int
set_flag(const char *from, const char *text, bool *out, struct error *err)
{
	static const char *const yes[] = { "1", "true", "yes", "on", NULL };
	static const char *const no[] = { "", "0", "false", "no", "off", NULL };

	for (size_t i = 0; yes[i] != NULL; i++)
		if (strcasecmp(text, yes[i]) == 0) {
			*out = true;
			return 0;
		}
	for (size_t i = 0; no[i] != NULL; i++)
		if (strcasecmp(text, no[i]) == 0) {
			*out = false;
			return 0;
		}
	return error_set(err, ERR_CONFIG, "%s: '%.80s' is not allowed: true or "
	    "false", from, text);
}

static int
check_one_of(const struct setting *row, const char *from, const char *text,
    struct error *err)
{
	struct buf all;
	bool known = false;
	size_t i;

	if (row->one_of == NULL)
		return 0;
	buf_init(&all, 256);
	for (i = 0; row->one_of[i] != NULL; i++) {
		buf_printf(&all, "%s%s", i > 0 ? ", " : "", row->one_of[i]);
		known |= strcmp(row->one_of[i], text) == 0;
	}
	if (!known)
		error_set(err, ERR_CONFIG, "%s: '%.80s' is not allowed: one of "
		    "%s", from, text, all.data);
	buf_free(&all);
	return known ? 0 : -1;
}

/* from: how the person who set it calls it. */
static int
set(struct config *c, const struct setting *row, const char *from,
    const char *text, struct error *err)
{
	void *at = (char *)c + row->offset;
	int r = 0;

	switch (row->type) {
	case SET_INT:
	case SET_PORT:
		return set_int(row, from, text, at, err);
	case SET_FLAG:
		return set_flag(from, text, at, err);
	case SET_LABEL_KEY:
		r = name_label_key(from, text, err);
		break;
	case SET_LABEL:
		r = *text == '\0' ? error_set(err, ERR_CONFIG, "%s is empty",
		    from) : name_label_value(from, text, err);
		break;
	case SET_TEXT:
		r = check_one_of(row, from, text, err);
		break;
	}
	if (r == -1) {
		err->code = ERR_CONFIG;
		return -1;
	}
	*(const char **)at = text;
	return 0;
}

/* The value of name in environ; names count without regard to case. */
static const char *
env_find(char *const environ[], const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; environ != NULL && environ[i] != NULL; i++)
		if (strncasecmp(environ[i], name, n) == 0 &&
		    environ[i][n] == '=')
			return environ[i] + n + 1;
	return NULL;
}

static int
from_environ(struct config *c, char *const environ[], struct error *err)
{
	for (size_t i = 0; i < NROWS; i++) {
		const struct setting *row = &rows[i];

		if (row->def != NULL &&
		    set(c, row, row->flag, row->def, err) == -1)
			return -1;
		for (size_t k = 0; k < 3 && row->env[k] != NULL; k++) {
			const char *v = env_find(environ, row->env[k]);

			if (v == NULL || (*v == '\0' && row->type != SET_INT &&
			    row->type != SET_PORT))
				continue;
			if (set(c, row, row->env[k], v, err) == -1)
				return -1;
			break;
		}
	}
	return 0;
}

static const struct setting *
find_flag(const char *name, size_t len)
{
	for (size_t i = 0; i < NROWS; i++)
		if (strlen(rows[i].flag) == len &&
		    strncmp(rows[i].flag, name, len) == 0)
			return &rows[i];
	return NULL;
}

static const struct setting *
find_letter(char letter)
{
	for (size_t i = 0; i < NROWS; i++)
		if (rows[i].letter != 0 && rows[i].letter == letter)
			return &rows[i];
	return NULL;
}

/*
 * One option at argv[*i], in the forms --name, --name=value, --name value,
 * -x, -xvalue and -x value; flags may be joined as in -vV. getopt_long() would
 * need the table a second time.
 */
static int
option(struct config *c, int argc, char *const argv[], int *i,
    struct error *err)
{
	const char *a = argv[*i], *value = NULL;
	const struct setting *row;
	char from[80];

	if (a[1] == '-') {
		size_t n = strcspn(a + 2, "=");

		row = find_flag(a + 2, n);
		if (a[2 + n] == '=')
			value = a + 3 + n;
	} else {
		for (a++; (row = find_letter(*a)) != NULL &&
		    row->type == SET_FLAG; a++) {
			*(bool *)((char *)c + row->offset) = true;
			if (a[1] == '\0')
				return 0;
		}
		if (row != NULL && a[1] != '\0')
			value = a + 1;
	}
	if (row == NULL)
		return error_set(err, ERR_CONFIG, "unknown option %.60s",
		    argv[*i]);
	if (row->type == SET_FLAG && value == NULL)
		value = "true";
	if (value == NULL && *i + 1 < argc)
		value = argv[++*i];
	if (value == NULL)
		return error_set(err, ERR_CONFIG, "--%s needs a value",
		    row->flag);
	(void)snprintf(from, sizeof(from), "--%s", row->flag);
	return set(c, row, from, value, err);
}

int
config_load(struct config *c, int argc, char *const argv[],
    char *const environ[], bool *usage, struct error *err)
{
	bool options = true;

	*c = (struct config){ 0 };
	*usage = false;
	if (from_environ(c, environ, err) == -1)
		return -1;
	*usage = true;
	for (int i = 1; i < argc; i++) {
		if (options && strcmp(argv[i], "--") == 0) {
			options = false;
		} else if (options && argv[i][0] == '-' && argv[i][1] != '\0') {
			if (option(c, argc, argv, &i, err) == -1)
				return -1;
		} else if (c->command == NULL) {
			c->command = argv[i];
		} else {
			return error_set(err, ERR_CONFIG,
			    "unexpected argument %.60s", argv[i]);
		}
	}
	for (int i = 0; connections[i] != NULL; i++)
		if (strcmp(connections[i], c->connection) == 0)
			c->route = (enum connection)i;
	*usage = false;
	return 0;
}

void
config_warn(const struct log *l, char *const environ[])
{
	static const char prefix[] = "K8S_SANDBOX_";

	for (size_t i = 0; environ != NULL && environ[i] != NULL; i++) {
		size_t len = strcspn(environ[i], "=");
		bool known = false;

		if (strncasecmp(environ[i], prefix, sizeof(prefix) - 1) != 0)
			continue;
		for (size_t r = 0; r < NROWS; r++)
			for (size_t k = 0; k < 3 && rows[r].env[k] != NULL; k++)
				known |= strlen(rows[r].env[k]) == len &&
				    strncasecmp(rows[r].env[k], environ[i],
				    len) == 0;
		if (!known)
			log_line(l, LOG_WARN, "%.*s is set, but nothing here "
			    "reads it", (int)len, environ[i]);
	}
}

void
config_help(struct buf *out)
{
	for (size_t i = 0; i < NROWS; i++) {
		const struct setting *row = &rows[i];
		char left[40], letter[5] = "   ";

		if (row->letter != 0)
			(void)snprintf(letter, sizeof(letter), "-%c,",
			    row->letter);
		(void)snprintf(left, sizeof(left), "%s --%s%s%s", letter,
		    row->flag, row->arg != NULL ? " " : "",
		    row->arg != NULL ? row->arg : "");
		buf_printf(out, "  %-30s %s\n", left, row->help);
	}
}
