/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "buf.h"
#include "config.h"
#include "duration.h"
#include "error.h"
#include "json.h"
#include "log.h"
#include "names.h"

static const char *const connections[] = { "auto", "tunnel", "exec", "gateway",
    "direct", "in-cluster", "sandboxd-in-cluster", NULL };
/* The last two are older names of the first two. */
static const char *const modes[] = { "in-cluster-service",
    "in-cluster-pod-ip", "service-dns", "pod-ip", NULL };
static const char *const handles[] = { "session", "any", NULL };
static const char *const schemes[] = { "http", "https", NULL };
static const char *const job_matches[] = { "strict", "basename", NULL };
static const char *const transports[] = { "stdio", "http", "sse",
	NULL };

#define OBJECT	"K8S_SANDBOX_CONNECTION"
#define NESTED	OBJECT "__"
#define AT(field) offsetof(struct config, field)

static const struct setting rows[] = {
	{ "kubeconfig", 'k', { "MCP_SANDBOX_KUBECONFIG",
	    "MCP_K8S_KUBECONFIG" }, SET_TEXT, AT(kubeconfig), 0, 0, NULL,
	    NULL, "FILE",
	    "how to reach the cluster ($KUBECONFIG)" },
	{ "context", 'c', { "MCP_SANDBOX_CONTEXT" }, SET_TEXT, AT(context),
	    0, 0, NULL, NULL, "NAME", "context of the kubeconfig to use" },
	{ "tools", 't', { "MCP_SANDBOX_TOOLS" }, SET_TEXT, AT(tools),
	    0, 0, NULL, NULL, "LIST", "offer only these tools or families" },
	{ "namespaces", 'n', { "MCP_SANDBOX_NAMESPACES" }, SET_TEXT,
	    AT(namespaces), 0, 0, NULL, NULL, "LIST",
	    "the only namespaces a caller may use" },
	{ "warm-pools", 0, { "MCP_SANDBOX_WARM_POOLS" }, SET_TEXT, AT(pools),
	    0, 0, NULL, NULL, "LIST", "the only warm pools a caller may use" },
	{ "session-id", 's', { "MCP_SANDBOX_SESSION_ID" }, SET_LABEL,
	    AT(session_id), 0, 0, NULL, NULL, "ID",
	    "fix it to find your sandboxes again" },
	{ "connection", 0, { NESTED "TYPE" }, SET_TEXT, AT(connection), 0, 0,
	    "auto", connections, "TYPE", "auto, tunnel, exec, gateway, direct, "
	    "in-cluster ..." },
	{ "gateway-name", 0, { NESTED "GATEWAY_NAME" }, SET_NAME,
	    AT(gateway_name), 0, 0, NULL, NULL, "NAME",
	    "for gateway: the Gateway in front of the router" },
	{ "api-url", 0, { NESTED "API_URL" }, SET_URL, AT(api_url), 0, 0, NULL,
	    NULL, "URL", "for direct: where the router is" },
	{ "mode", 0, { NESTED "MODE" }, SET_TEXT, AT(mode), 0, 0, NULL, modes,
	    "MODE", NULL },
	{ "sandbox-image", 0, { "MCP_SANDBOX_IMAGE" }, SET_TEXT,
	    AT(pod.image), 0, 0, "docker.io/library/bash:5.2", NULL, "NAME",
	    "for bash: any image with a shell", FAMILY_BASH },
	{ "namespace", 0, { "MCP_SANDBOX_NAMESPACE" }, SET_NAME,
	    AT(pod.namespace), 0, 0, NULL, NULL, "NS",
	    "for bash: where its pods are", FAMILY_BASH },
	{ "hmac-key-file", 0, { "MCP_SANDBOX_HMAC_KEY_FILE" }, SET_TEXT,
	    AT(pod.key_file), 0, 0, NULL, NULL, "FILE",
	    "for bash: sessions' tokens come from this key", FAMILY_BASH },
	{ "idle-timeout", 0, { "MCP_SANDBOX_IDLE_TIMEOUT" }, SET_DURATION,
	    AT(pod.idle_ms), 0, 0, "30m", NULL, "TIME",
	    "for bash: an unused pod ends after it", FAMILY_BASH },
	{ "warm-pool-size", 0, { "MCP_SANDBOX_WARM_POOL_SIZE" }, SET_INT,
	    AT(pod.pool_size), 0, 1000, "0", NULL, "N",
	    NULL, FAMILY_BASH },
	HTTP_ROWS,
	{ "verbose", 'v', { "MCP_SANDBOX_VERBOSE" }, SET_FLAG, AT(verbose),
	    0, 0, NULL, NULL, NULL, "say more on standard error" },
	{ "limits", 0, { NULL }, SET_FLAG, AT(limits), 0, 0, NULL, NULL, NULL,
	    "print every limit and exit" },
	{ "help", 'h', { NULL }, SET_FLAG, AT(help), 0, 0, NULL, NULL, NULL,
	    "print this and exit" },
	{ "version", 'V', { NULL }, SET_FLAG, AT(version), 0, 0, NULL, NULL,
	    NULL, "print the version and exit" },

	/* Only in the manual. */
	{ "deny-tools", 0, { "MCP_SANDBOX_DENY_TOOLS" }, SET_TEXT, AT(deny),
	    0, 0, NULL, NULL, "LIST", NULL },
	{ "read-only", 0, { "MCP_SANDBOX_READ_ONLY" }, SET_FLAG,
	    AT(read_only), 0, 0, NULL, NULL, NULL, NULL },
	{ "dry-run", 0, { "MCP_SANDBOX_DRY_RUN" }, SET_FLAG, AT(dry_run),
	    0, 0, NULL, NULL, NULL, NULL },
	{ "max-lifetime", 0, { "MCP_SANDBOX_MAX_LIFETIME" }, SET_DURATION,
	    AT(pod.life_ms), 0, 0, NULL, NULL, "TIME", NULL },
	{ "server-port", 0, { NESTED "SERVER_PORT" }, SET_PORT,
	    AT(server_port), 1, 65535, "8888", NULL, "PORT", NULL },
	{ "rest-port", 0, { NESTED "REST_PORT" }, SET_PORT, AT(rest_port),
	    1, 65535, "8080", NULL, "PORT", NULL },
	{ "grpc-port", 0, { NESTED "GRPC_PORT" }, SET_PORT, AT(grpc_port),
	    1, 65535, "9090", NULL, "PORT", NULL },
	{ "use-pod-ip", 0, { NESTED "USE_POD_IP" }, SET_FLAG, AT(use_pod_ip),
	    0, 0, NULL, NULL, NULL, NULL },
	{ "gateway-namespace", 0, { NESTED "GATEWAY_NAMESPACE" }, SET_NAME,
	    AT(gateway_namespace), 0, 0, "default", NULL, "NS", NULL },
	{ "gateway-ready-timeout", 0, { NESTED "GATEWAY_READY_TIMEOUT" },
	    SET_INT, AT(gateway_ready_s), 0, 86400, "180", NULL, "S", NULL },
	{ "gateway-scheme", 0, { "MCP_SANDBOX_GATEWAY_SCHEME" }, SET_TEXT,
	    AT(gateway_scheme), 0, 0, "http", schemes, "SCHEME", NULL },
	{ "gateway-port", 0, { "MCP_SANDBOX_GATEWAY_PORT" }, SET_PORT,
	    AT(gateway_port), 1, 65535, NULL, NULL, "PORT", NULL },
	{ "router-token", 0, { "MCP_SANDBOX_ROUTER_TOKEN" }, SET_TEXT,
	    AT(router_token), 0, 0, NULL, NULL, "FILE", NULL },
	{ "router-ca", 0, { "MCP_SANDBOX_ROUTER_CA" }, SET_TEXT,
	    AT(router_ca), 0, 0, NULL, NULL, "FILE", NULL },
	{ "router-cert", 0, { "MCP_SANDBOX_ROUTER_CERT" }, SET_TEXT,
	    AT(router_cert), 0, 0, NULL, NULL, "FILE", NULL },
	{ "router-key", 0, { "MCP_SANDBOX_ROUTER_KEY" }, SET_TEXT,
	    AT(router_key), 0, 0, NULL, NULL, "FILE", NULL },
	{ "router-pod-ip", 0, { "MCP_SANDBOX_ROUTER_POD_IP" }, SET_FLAG,
	    AT(router_pod_ip), 0, 0, NULL, NULL, NULL, NULL },
	{ "shell", 0, { "MCP_SANDBOX_SHELL" }, SET_FLAG, AT(shell),
	    0, 0, "true", NULL, NULL, NULL },
	{ "nameserver", 0, { "MCP_SANDBOX_NAMESERVER" }, SET_TEXT,
	    AT(nameserver), 0, 0, NULL, NULL, "IP[:PORT]", NULL },
	{ "cluster-domain", 0, { "MCP_SANDBOX_CLUSTER_DOMAIN" }, SET_NAME,
	    AT(cluster_domain), 0, 0, "cluster.local", NULL, "NAME", NULL },
	{ "allow-loopback", 0, { "MCP_SANDBOX_ALLOW_LOOPBACK" }, SET_FLAG,
	    AT(loopback), 0, 0, NULL, NULL, NULL, NULL },
	{ "probe-namespace", 0, { "K8S_SANDBOX_PROBE_NAMESPACE" }, SET_NAME,
	    AT(probe_namespace), 0, 0, "default", NULL, "NS", NULL },
	{ "session-label", 0, { "K8S_SANDBOX_SESSION_ID_LABEL_KEY" },
	    SET_LABEL_KEY, AT(session_label), 0, 0,
	    "mcp.k8s-agent-sandbox/session-id", NULL, "KEY", NULL },
	{ "handles", 0, { "MCP_SANDBOX_HANDLES" }, SET_TEXT, AT(handles),
	    0, 0, "session", handles, "WHOSE", NULL },
	{ "pod-label-domains", 0, { "MCP_SANDBOX_POD_LABEL_DOMAINS" },
	    SET_TEXT, AT(pod_label_domains), 0, 0, "sandbox.users.io", NULL,
	    "LIST", NULL },
	{ "container", 0, { "MCP_SANDBOX_CONTAINER" }, SET_LABEL, AT(container),
	    0, 0, NULL, NULL, "NAME", NULL },
	{ "unschedulable-after", 0, { "MCP_SANDBOX_UNSCHEDULABLE_AFTER" },
	    SET_INT, AT(unschedulable_s), 0, 3600, "10", NULL, "S", NULL },
	{ "image-has-agent", 0, { "MCP_SANDBOX_IMAGE_HAS_AGENT" }, SET_FLAG,
	    AT(pod.has_agent), 0, 0, NULL, NULL, NULL, NULL },
	{ "init-image", 0, { "MCP_SANDBOX_INIT_IMAGE" }, SET_TEXT,
	    AT(pod.init_image), 0, 0, "docker.io/library/busybox:1.37", NULL,
	    "IMAGE", NULL },
	{ "agent-file", 0, { "MCP_SANDBOX_AGENT_FILE" }, SET_TEXT,
	    AT(pod.agent_file), 0, 0, NULL, NULL, "FILE", NULL },
	{ "label-domain", 0, { "MCP_SANDBOX_LABEL_DOMAIN" }, SET_NAME,
	    AT(pod.domain), 0, 0, "tarsy.redhat.com", NULL, "NAME", NULL },
	{ "cpu-request", 0, { "MCP_SANDBOX_CPU_REQUEST" }, SET_TEXT,
	    AT(pod.cpu_request), 0, 0, "100m", NULL, "N", NULL },
	{ "cpu-limit", 0, { "MCP_SANDBOX_CPU_LIMIT" }, SET_TEXT,
	    AT(pod.cpu_limit), 0, 0, "500m", NULL, "N", NULL },
	{ "memory-request", 0, { "MCP_SANDBOX_MEMORY_REQUEST" }, SET_TEXT,
	    AT(pod.memory_request), 0, 0, "128Mi", NULL, "N", NULL },
	{ "memory-limit", 0, { "MCP_SANDBOX_MEMORY_LIMIT" }, SET_TEXT,
	    AT(pod.memory_limit), 0, 0, "512Mi", NULL, "N", NULL },
	{ "run-as-user", 0, { "MCP_SANDBOX_RUN_AS_USER" }, SET_TEXT,
	    AT(pod.user), 0, 0, NULL, NULL, "UID|image", NULL },
	{ "read-only-root", 0, { "MCP_SANDBOX_READ_ONLY_ROOT" }, SET_FLAG,
	    AT(pod.read_only_root), 0, 0, NULL, NULL, NULL, NULL },
	{ "service-account", 0, { "MCP_SANDBOX_SERVICE_ACCOUNT" }, SET_NAME,
	    AT(pod.service_account), 0, 0, NULL, NULL, "NAME", NULL },
	{ "mount-service-account-token", 0,
	    { "MCP_SANDBOX_MOUNT_SERVICE_ACCOUNT_TOKEN" }, SET_FLAG,
	    AT(pod.mount_token), 0, 0, NULL, NULL, NULL, NULL },
	{ "node-selector", 0, { "MCP_SANDBOX_NODE_SELECTOR" }, SET_TEXT,
	    AT(pod.node_selector), 0, 0, NULL, NULL, "LABELS", NULL },
	{ "runtime-class", 0, { "MCP_SANDBOX_RUNTIME_CLASS" }, SET_NAME,
	    AT(pod.runtime_class), 0, 0, NULL, NULL, "NAME", NULL },
	{ "kubeconfig-secret", 0, { "MCP_SANDBOX_KUBECONFIG_SECRET" }, SET_NAME,
	    AT(pod.kubeconfig_secret), 0, 0, NULL, NULL, "NAME", NULL },
	{ "pull-secrets", 0, { "MCP_SANDBOX_PULL_SECRETS" }, SET_TEXT,
	    AT(pod.pull_secrets), 0, 0, NULL, NULL, "NAMES", NULL },
	HTTP_MORE_ROWS,
	{ "transport", 0, { "MCP_K8S_TRANSPORT" }, SET_TEXT, AT(transport),
	    0, 0, "stdio", transports, "NAME", NULL },
	{ "stateless", 0, { NULL }, SET_FLAG, AT(stateless), 0, 0, NULL, NULL,
	    NULL, NULL },
	{ "address", 0, { "MCP_K8S_ADDR" }, SET_TEXT, AT(address), 0, 0, NULL,
	    NULL, "ADDRESS", NULL },
	JOB_ROWS,
	{ "debug-sandbox", 0, { NULL }, SET_FLAG, AT(debug_sandbox),
	    0, 0, NULL, NULL, NULL, NULL },
};

enum { NROWS = sizeof(rows) / sizeof(rows[0]) };

_Static_assert((int)NROWS <= (int)CONFIG_ROWS, "an origin for each row");

const struct setting *
config_rows(size_t *n)
{
	*n = NROWS;
	return rows;
}

bool
config_allows(const char *list, const char *name)
{
	char one[256];

	if (list == NULL || strcmp(list, "all") == 0)
		return true;
	while (config_item(&list, one, sizeof(one)))
		if (strcmp(one, name) == 0)
			return true;
	return false;
}

bool
config_item(const char **list, char *dst, size_t size)
{
	const char *at;
	size_t len;

	do {
		at = *list + strspn(*list, ", ");
		len = strcspn(at, ", ");
		*list = at + len;
	} while (len >= size);
	memcpy(dst, at, len);
	dst[len] = '\0';
	return len > 0;
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
set_duration(const char *from, const char *text, long *out, struct error *err)
{
	if (duration_ms(text, out) && *out > 0)
		return 0;
	return error_set(err, ERR_CONFIG, "%s: '%.80s' is not allowed: a "
	    "duration above 0 with units, as 90s or 1h30m", from, text);
}

static int
check_one_of(const struct setting *row, const char *from, const char *text,
    struct error *err)
{
	const char *const *word = row->one_of;
	struct buf all;

	if (word == NULL)
		return 0;
	for (; *word != NULL; word++)
		if (strcmp(*word, text) == 0)
			return 0;
	buf_init(&all, 256);
	for (word = row->one_of; *word != NULL; word++)
		buf_printf(&all, "%s%s", word > row->one_of ? ", " : "", *word);
	error_set(err, ERR_CONFIG, "%s: '%.80s' is not allowed: one of %s",
	    from, text, all.data);
	buf_free(&all);
	return -1;
}

/* "http[s]://host[:port][/path]"; what else a URL may hold is no address. */
static int
check_url(const char *from, const char *text, struct error *err)
{
	const char *rest = strncmp(text, "http://", 7) == 0 ? text + 7 :
	    strncmp(text, "https://", 8) == 0 ? text + 8 : NULL;
	size_t host = 0;
	long port = 80;
	char *end;

	if (rest != NULL && rest[0] == '[' && strchr(rest, ']') != NULL)
		host = strcspn(rest, "]") + 1;
	else if (rest != NULL)
		host = strcspn(rest, ":/");
	if (host > 0 && host < 256 && rest[host] == ':') {
		port = strtol(rest + host + 1, &end, 10);
		host = *end != '\0' && *end != '/' ? 0 : host;
	} else if (host > 0 && rest[host] != '\0' && rest[host] != '/') {
		host = 0;
	}
	if (host == 0 || host > 255 || port < 1 || port > 65535 ||
	    strpbrk(text, "@?# \t\r\n") != NULL)
		return error_set(err, ERR_CONFIG, "%s: '%.80s' is not allowed: "
		    "http://HOST[:PORT] or https://HOST[:PORT], and a path",
		    from, text);
	return 0;
}

static int
set_list(const struct setting *row, const char *from, const char *text,
    const char **list, struct error *err)
{
	long n = 0;

	while (n < row->max && list[n] != NULL)
		n++;
	if (n == row->max)
		return error_set(err, ERR_CONFIG, "%s: more than %ld", from,
		    row->max);
	list[n] = text;
	return 0;
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
	case SET_DURATION:
		return set_duration(from, text, at, err);
	case SET_LIST:
		return set_list(row, from, text, at, err);
	case SET_LABEL_KEY:
		r = name_label_key(from, text, err);
		break;
	case SET_LABEL:
		r = *text == '\0' ? error_set(err, ERR_CONFIG, "%s is empty",
		    from) : name_label_value(from, text, err);
		break;
	case SET_TEXT:
	case SET_SECRET:
		r = check_one_of(row, from, text, err);
		break;
	case SET_URL:
		r = check_url(from, text, err);
		break;
	case SET_NAME:
		r = name_subdomain(from, text, err);
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

/* Somebody set it, there: these are the tools that are wanted. */
static void
mark(struct config *c, const struct setting *row, struct config_origin from)
{
	c->origin[row - rows] = from;
	c->families |= row->family;
	if (row->env[0] != NULL && strncmp(row->env[0], "K8S_SANDBOX_",
	    12) == 0)
		c->families |= FAMILY_SANDBOX;
}

/* Where settings come from, the first beats the next; then the files. */
enum { LISTS = 4 };

struct sources {
	char *const *list[LISTS];
	struct config_origin filed[NROWS];	/* place NULL: not set there */
};

static const char *const places[LISTS] = { "environment",
    "environment, " OBJECT, ".env", ".env, " OBJECT };

static const struct setting *find_flag(const char *name, size_t len);

/* Without the blanks around it, and with an end. */
static char *
trim(char *from, char *end)
{
	from += strspn(from, " \t\r");
	while (end > from && strchr(" \t\r", end[-1]) != NULL)
		end--;
	*end = '\0';
	return from;
}

static int
from_file(const struct config_text *t, struct config_origin filed[NROWS],
    struct error *err)
{
	const struct setting *row;
	char *line = t->text, *next, *eq;
	unsigned n = 1;

	for (; line != NULL; line = next, n++) {
		if ((next = strchr(line, '\n')) != NULL)
			*next++ = '\0';
		line = trim(line, line + strlen(line));
		if (*line == '\0' || *line == '#')
			continue;
		if ((eq = strchr(line, '=')) == NULL)
			return error_set(err, ERR_CONFIG, "%.300s:%u: not "
			    "\"name = value\"", t->path, n);
		line = trim(line, eq);
		row = find_flag(line, strlen(line));
		if (row == NULL || row->env[0] == NULL)
			return error_set(err, ERR_CONFIG, "%.300s:%u: there "
			    "is no setting '%.60s'; mcp-sandbox(1) has them "
			    "all", t->path, n, line);
		filed[row - rows] = (struct config_origin){ t->path,
		    row->flag, n, trim(eq + 1, eq + 1 + strlen(eq + 1)) };
	}
	return 0;
}

static int
set_filed(struct config *c, const struct setting *row,
    const struct config_origin *f, struct error *err)
{
	char from[400];

	(void)snprintf(from, sizeof(from), "%.300s:%u: %s", f->place, f->line,
	    row->flag);
	if (set(c, row, from, f->text, err) == -1)
		return -1;
	mark(c, row, *f);
	return 0;
}

/* 1: the setting is in one of the lists. */
static int
set_listed(struct config *c, const struct setting *row,
    const struct sources *from, struct error *err)
{
	for (size_t s = 0; s < LISTS; s++)
		for (size_t k = 0; k < 3 && row->env[k] != NULL; k++) {
			const char *v = env_find(from->list[s], row->env[k]);

			/* An empty number is a mistake. */
			if (v == NULL || (*v == '\0' && row->type != SET_INT &&
			    row->type != SET_PORT))
				continue;
			if (set(c, row, row->env[k], v, err) == -1)
				return -1;
			mark(c, row, (struct config_origin){ places[s],
			    row->env[k], 0, v });
			return 1;
		}
	return 0;
}

static int
from_sources(struct config *c, const struct sources *from, struct error *err)
{
	for (size_t i = 0; i < NROWS; i++) {
		const struct setting *row = &rows[i];
		int r;

		if (row->def != NULL &&
		    set(c, row, row->flag, row->def, err) == -1)
			return -1;
		if ((r = set_listed(c, row, from, err)) == -1 || (r == 0 &&
		    from->filed[i].place != NULL &&
		    set_filed(c, row, &from->filed[i], err) == -1))
			return -1;
	}
	return 0;
}

static int
member(char **dst, struct json m, struct error *err)
{
	struct buf line;
	const char *raw;
	size_t len;

	buf_init(&line, 64 << 10);
	buf_puts(&line, NESTED);
	(void)json_text(json_key(m), &line);
	buf_puts(&line, "=");
	raw = json_raw(m, &len);
	switch (json_type(m)) {
	case JSON_STRING:
		(void)json_text(m, &line);
		break;
	case JSON_NUMBER:
	case JSON_BOOL:
		buf_put(&line, raw, len);
		break;
	default:
		line.failed = true;
	}
	if (!buf_ok(&line) || strlen(line.data) != line.len) {
		buf_free(&line);
		return error_set(err, ERR_CONFIG, OBJECT ": its members are "
		    "texts, numbers, true or false");
	}
	*dst = line.data;
	return 0;
}

/* Members of the object in list become strings like those of list. */
static int
from_object(char *const list[], char ***out, struct error *err)
{
	const char *text = env_find(list, OBJECT);
	struct json_doc *doc;
	struct json m;
	size_t n = 0;
	int r = 0;

	if (text == NULL || *text == '\0')
		return 0;
	if ((doc = json_parse_lax(text, strlen(text), err)) == NULL) {
		err->code = ERR_CONFIG;
		return error_wrap(err, OBJECT);
	}
	if (json_type(json_root(doc)) != JSON_OBJECT)
		r = error_set(err, ERR_CONFIG, OBJECT ": not a JSON object");
	else if ((*out = calloc(json_count(json_root(doc)) + 1,
	    sizeof(**out))) == NULL)
		r = error_set(err, ERR_SYSTEM, "out of memory");
	for (m = json_first(json_root(doc)); r == 0 &&
	    json_type(m) != JSON_NONE; m = json_next(m))
		if (json_type(m) != JSON_NULL)
			r = member(&(*out)[n++], m, err);
	json_free(doc);
	return r;
}

void
config_free(struct config *c)
{
	for (size_t i = 0; i < 2; i++) {
		for (size_t k = 0; c->owned[i] != NULL &&
		    c->owned[i][k] != NULL; k++)
			free(c->owned[i][k]);
		free(c->owned[i]);
		c->owned[i] = NULL;
	}
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

static struct config_origin
by_flag(const struct setting *row, const char *text)
{
	return (struct config_origin){ "command line", row->flag, 0, text };
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
			mark(c, row, by_flag(row, "true"));
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
	mark(c, row, by_flag(row, value));
	/* The first of argv takes the place of the environment's. */
	if (row->type == SET_LIST && !c->http.by_flag) {
		memset(c->http.listen, 0, sizeof(c->http.listen));
		c->http.by_flag = true;
	}
	return set(c, row, from, value, err);
}

static int
need(const struct config *c, const char *value, const char *name,
    const char *flag, struct error *err)
{
	if (value != NULL)
		return 0;
	return error_set(err, ERR_CONFIG, NESTED "%s (--%s) is not set: "
	    "connection type '%s' needs it", name, flag, c->connection);
}

static int
check_pod(const struct config *c, struct error *err)
{
	const char *user = c->pod.user;

	if (c->stateless && strcmp(c->transport, "stdio") == 0)
		return error_set(err, ERR_CONFIG, "--stateless is not "
		    "supported for stdio");
	if (c->pod.image[0] == '\0' || c->pod.init_image[0] == '\0')
		return error_set(err, ERR_CONFIG, "--sandbox-image and "
		    "--init-image can't be empty");
	if (user != NULL && strcmp(user, "image") != 0 &&
	    (strspn(user, "0123456789") != strlen(user) ||
	    strlen(user) > 9 || strtol(user, NULL, 10) == 0))
		return error_set(err, ERR_CONFIG, "--run-as-user: '%.80s' is "
		    "not allowed: a number above 0, or image", user);
	return 0;
}

/* What no setting by itself can be wrong about. */
static int
check_all(struct config *c, struct error *err)
{
	bool https = (c->route == CONNECTION_DIRECT && c->api_url != NULL &&
	    strncmp(c->api_url, "https", 5) == 0) ||
	    (c->route == CONNECTION_GATEWAY &&
	    strcmp(c->gateway_scheme, "https") == 0);

	if (c->route == CONNECTION_GATEWAY && need(c, c->gateway_name,
	    "GATEWAY_NAME", "gateway-name", err) == -1)
		return -1;
	if (c->route == CONNECTION_DIRECT && need(c, c->api_url, "API_URL",
	    "api-url", err) == -1)
		return -1;
	if (c->route == CONNECTION_SANDBOXD_IN_CLUSTER && c->mode == NULL)
		return error_set(err, ERR_CONFIG, NESTED "MODE (--mode) is not "
		    "set: connection type '%s' needs in-cluster-service or "
		    "in-cluster-pod-ip", c->connection);
	if (c->rest_port == c->grpc_port)
		return error_set(err, ERR_CONFIG, NESTED "REST_PORT and "
		    "GRPC_PORT are both %ld: sandboxd listens on two ports",
		    c->rest_port);
	if ((c->router_cert == NULL) != (c->router_key == NULL))
		return error_set(err, ERR_CONFIG, "MCP_SANDBOX_ROUTER_CERT and "
		    "_KEY: one needs the other");
	if ((c->router_ca != NULL || c->router_cert != NULL) && !https)
		return error_set(err, ERR_CONFIG, "MCP_SANDBOX_ROUTER_CA and "
		    "_CERT need a router with https: an https API_URL, or "
		    "MCP_SANDBOX_GATEWAY_SCHEME=https");
	return check_pod(c, err);
}

static int
from_argv(struct config *c, int argc, char *const argv[], struct error *err)
{
	bool options = true;

	for (int i = 1; i < argc; i++) {
		if (options && strcmp(argv[i], "--") == 0) {
			options = false;
		} else if (options && argv[i][0] == '-' && argv[i][1] != '\0') {
			if (option(c, argc, argv, &i, err) == -1)
				return -1;
		} else if (c->command == NULL) {
			c->command = argv[i];
		} else if (c->operand == NULL) {
			c->operand = argv[i];
		} else {
			return error_set(err, ERR_CONFIG,
			    "unexpected argument %.60s", argv[i]);
		}
	}
	return 0;
}

int
config_load(struct config *c, int argc, char *const argv[],
    char *const environ[], char *const dotenv[],
    const struct config_text *texts, size_t n, bool *usage, struct error *err)
{
	struct sources from;

	*c = (struct config){ 0 };
	*usage = false;
	if (from_object(environ, &c->owned[0], err) == -1 ||
	    from_object(dotenv, &c->owned[1], err) == -1)
		return -1;
	from = (struct sources){ { environ, c->owned[0], dotenv,
	    c->owned[1] }, { { NULL } } };
	for (size_t i = 0; i < n; i++)
		if (from_file(&texts[i], from.filed, err) == -1)
			return -1;
	if (from_sources(c, &from, err) == -1)
		return -1;
	*usage = true;
	if (from_argv(c, argc, argv, err) == -1)
		return -1;
	*usage = false;
	for (int i = 0; connections[i] != NULL; i++)
		if (strcmp(connections[i], c->connection) == 0)
			c->route = (enum connection)i;
	c->in_cluster = env_find(environ, "KUBERNETES_SERVICE_HOST") != NULL;
	for (size_t i = 0; c->mode != NULL && i < 2; i++)
		if (strcmp(c->mode, modes[i + 2]) == 0)
			c->mode = modes[i];
	/* Who asks for help need not have it all right yet. */
	if (c->help || c->version || c->limits)
		return 0;
	return check_all(c, err);
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
		known = len == sizeof(OBJECT) - 1 &&
		    strncasecmp(environ[i], OBJECT, len) == 0;
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
