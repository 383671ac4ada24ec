/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "audit.h"
#include "base64.h"
#include "buf.h"
#include "call.h"
#include "error.h"
#include "json.h"
#include "jsonw.h"
#include "budget.h"
#include "mcp.h"
#include "result.h"
#include "rpc.h"
#include "seal.h"
#include "stash.h"
#include "tools.h"

#define MODERN_VERSION "2026-07-28"
#define META "io.modelcontextprotocol/"

static const char *const legacy[] = {
	"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25",
};
enum { NLEGACY = sizeof(legacy) / sizeof(legacy[0]) };

/* RFC 5424's severities, the least first. */
static const char *const levels[] = {
	"debug", "info", "notice", "warning",
	"error", "critical", "alert", "emergency",
};
enum { NLEVELS = sizeof(levels) / sizeof(levels[0]), LEVEL_INFO = 1 };

enum {
	HEADER_MISMATCH = -32020, NO_CAPABILITY = -32021, NO_VERSION = -32022,
};

struct mcp {
	const struct mcp_rows *rows;
	struct calls *calls;
	struct rpc rpc;
	bool arrays;			/* initialize agreed on 2025-03-26 */
	bool begun;
	int level;			/* of logging/setLevel */
	long bad;
	const struct mcp_http *http;	/* of the message being served */
	const struct mcp_caller *who;
	int status;			/* HTTP's, of what is being sent */
	bool modern;			/* the latest message was */
	struct spilled *spilled;	/* strings of the one being served */
};

struct request {
	struct mcp *m;
	struct rpc_to to;
	char id[RPC_ID_SIZE], token[RPC_ID_SIZE];
	char method[96];
	struct json params, meta, client;
	int log;
	bool open;	/* the envelope is as it must be */
};

/* A method that failed is HTTP that worked. */
static int
status_of(const struct request *r, int code)
{
	if (code == RPC_METHOD && r->to.modern)
		return 404;
	if (code == RPC_PARAMS && r->to.modern && !r->open)
		return 400;
	if (code == RPC_PARSE || code == RPC_REQUEST ||
	    (code <= HEADER_MISMATCH && code >= NO_VERSION))
		return 400;
	return 200;
}

static void refuse(struct request *r, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void
refuse(struct request *r, int code, const char *fmt, ...)
{
	struct error err;
	char text[sizeof(err.text)];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* Through here for the cleaning: it may quote the client. */
	(void)error_set(&err, ERR_INPUT, "%s", text);
	r->m->status = status_of(r, code);
	rpc_error(&r->m->rpc, &r->to, code, err.text, NULL);
}

/* What is not a JSON-RPC message counts, too many end the connection. */
static void malformed(struct mcp *m, const struct rpc_to *to, int code,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static void
malformed(struct mcp *m, const struct rpc_to *to, int code, const char *fmt,
    ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	m->bad++;
	m->status = code == RPC_INTERNAL ? 500 : 400;
	rpc_error(&m->rpc, to, code, text, NULL);
}

/* --- what the server says of itself -------------------------------------- */

static const struct tool *
row(const struct mcp *m, const char *method)
{
	const struct tool *const *t = m->rows->methods;

	for (; t != NULL && *t != NULL; t++)
		if (strcmp((*t)->name, method) == 0)
			return *t;
	return NULL;
}

static void
capability(struct jsonw *w, const char *name, bool there)
{
	if (!there)
		return;
	jsonw_object(w, name);
	jsonw_end(w);
}

static void
capabilities(struct jsonw *w, const struct mcp *m, bool modern)
{
	jsonw_object(w, "capabilities");
	capability(w, "tools", m->rows->tools != NULL);
	if (row(m, "resources/list") != NULL) {
		jsonw_object(w, "resources");
		if (!modern && row(m, "resources/subscribe") != NULL)
			jsonw_bool(w, "subscribe", true);
		jsonw_end(w);
	}
	capability(w, "prompts", row(m, "prompts/list") != NULL);
	capability(w, "completions", row(m, "completion/complete") != NULL);
	capability(w, "logging", m->rows->logging);
	jsonw_end(w);
}

static void
discover(struct request *r)
{
	const struct mcp_rows *rows = r->m->rows;
	struct jsonw w;
	struct buf out;

	rpc_begin(&w, &out, &r->to);
	result_begin(&w, r->m->rows, &r->to, true);
	jsonw_array(&w, "supportedVersions");
	jsonw_str(&w, NULL, MODERN_VERSION);
	jsonw_end(&w);
	capabilities(&w, r->m, true);
	if (rows->instructions != NULL)
		jsonw_str(&w, "instructions", rows->instructions);
	result_caching(&w, &r->to, r->method);
	jsonw_end(&w);
	(void)rpc_end(&r->m->rpc, &w, &r->to);
}

/*
 * 2026-07-28 has no handshake, so whoever asks for it here (rmcp does) gets
 * the newest revision that has one.
 */
static void
initialize(struct request *r)
{
	struct json asked = json_get(r->params, "protocolVersion");
	const struct mcp_rows *rows = r->m->rows;
	size_t i = 0;
	struct jsonw w;
	struct buf out;

	if (r->to.batch != NULL) {
		refuse(r, RPC_REQUEST, "initialize must come alone");
		return;
	}
	if (json_type(asked) != JSON_STRING) {
		refuse(r, RPC_PARAMS, "protocolVersion: a string is "
		    "required");
		return;
	}
	while (i < NLEGACY - 1 && !json_is(asked, legacy[i]))
		i++;
	r->m->arrays = strcmp(legacy[i], "2025-03-26") == 0;
	rpc_begin(&w, &out, &r->to);
	result_begin(&w, r->m->rows, &r->to, true);
	jsonw_str(&w, "protocolVersion", legacy[i]);
	capabilities(&w, r->m, false);
	result_server(&w, rows, "serverInfo", true);
	if (rows->instructions != NULL)
		jsonw_str(&w, "instructions", rows->instructions);
	jsonw_end(&w);
	(void)rpc_end(&r->m->rpc, &w, &r->to);
}

static void
reply_empty(struct request *r)
{
	struct jsonw w;
	struct buf out;

	rpc_begin(&w, &out, &r->to);
	result_begin(&w, r->m->rows, &r->to, false);
	jsonw_end(&w);
	(void)rpc_end(&r->m->rpc, &w, &r->to);
}

static int
level_of(struct json v)
{
	for (int i = 0; i < NLEVELS; i++)
		if (json_is(v, levels[i]))
			return i;
	return -1;
}

static void
set_level(struct request *r)
{
	int level = level_of(json_get(r->params, "level"));

	if (!r->m->rows->logging) {
		refuse(r, RPC_METHOD, "Method not found: %s", r->method);
	} else if (level == -1) {
		refuse(r, RPC_PARAMS, "level: must be one of debug, info, "
		    "notice, warning, error, critical, alert, emergency");
	} else {
		r->m->level = level;
		reply_empty(r);
	}
}

/* Lists are one page here, so there is no cursor that could be ours. */
static bool
cursor_ok(struct request *r)
{
	struct json cursor = json_get(r->params, "cursor");

	if (json_type(cursor) == JSON_NONE)
		return true;
	refuse(r, RPC_PARAMS, "cursor: unknown, the list is one page");
	return false;
}

static void
list_tools(struct request *r)
{
	struct jsonw w;
	struct buf out;

	if (!cursor_ok(r))
		return;
	rpc_begin(&w, &out, &r->to);
	result_begin(&w, r->m->rows, &r->to, false);
	tools_list(&w, r->m->rows->tools);
	result_caching(&w, &r->to, r->method);
	jsonw_end(&w);
	if (!rpc_end(&r->m->rpc, &w, &r->to))
		refuse(r, RPC_INTERNAL, "the list is too large");
}

/* --- calls ---------------------------------------------------------------- */

static void
over(const struct mcp *m, const struct call *c, const struct error *err,
    bool cancelled)
{
	if (m->who != NULL && m->who->over != NULL)
		m->who->over(m->who->arg, c, err, cancelled);
}

static void
on_answer(void *arg, struct call *c, const struct error *err)
{
	struct mcp *m = arg;

	m->status = 200;
	result_answer(&m->rpc, m->rows, c, err);
	rpc_batch_drop(&m->rpc, c->batch);
	over(m, c, err, false);
}

static void
on_silent(void *arg, struct call *c)
{
	struct mcp *m = arg;
	struct buf nothing = { .len = 0 };

	m->status = 200;
	if (c->batch == NULL)
		m->rpc.send(m->rpc.arg, c->ticket, &nothing, true);
	else
		rpc_batch_drop(&m->rpc, c->batch);
	over(m, c, NULL, true);
}

static void
on_notify(void *arg, struct call *c, const char *method, const char *params,
    size_t len)
{
	struct mcp *m = arg;

	rpc_notify(&m->rpc, c->ticket, method, params, len);
}

static bool
wants_log(void *arg, struct call *c, const char *level)
{
	const struct mcp *m = arg;
	int least = c->modern ? c->log : m->level, i = 0;

	while (i < NLEVELS && strcmp(levels[i], level) != 0)
		i++;
	return m->rows->logging && least >= 0 && i >= least;
}

static void
lacks(struct request *r, const struct tool *t)
{
	struct jsonw w;
	struct buf data;
	struct error err;

	(void)error_set(&err, ERR_INPUT, "%s needs a client with the "
	    "capability \"%s\"", t->name, t->requires);
	if (!r->to.modern) {
		result_failed(&r->m->rpc, r->m->rows, &r->to, &err);
		return;
	}
	buf_init(&data, 1024);
	jsonw_init(&w, &data);
	jsonw_object(&w, NULL);
	jsonw_object(&w, "requiredCapabilities");
	capability(&w, t->requires, true);
	jsonw_end(&w);
	jsonw_end(&w);
	r->m->status = 400;
	rpc_error(&r->m->rpc, &r->to, NO_CAPABILITY, err.text, &data);
	buf_free(&data);
}

/* The state that came back, if any, into state; -1 when it was refused. */
static int
unseal(struct request *r, struct call *proto, struct buf *state)
{
	static const char *const about[] = { "name", "uri", "arguments" };
	struct json sealed = json_get(r->params, "requestState");
	struct error err;
	const char *raw;
	size_t len;

	seal_about(proto->digest, r->method, strlen(r->method));
	for (size_t i = 0; i < sizeof(about) / sizeof(about[0]); i++) {
		raw = json_raw(json_get(r->params, about[i]), &len);
		seal_about(proto->digest, raw, len);
	}
	if (json_type(sealed) == JSON_NONE)
		return 0;
	raw = json_raw(sealed, &len);
	if (json_type(sealed) != JSON_STRING || r->m->rows->key == NULL) {
		refuse(r, RPC_PARAMS, "requestState: not expected");
		return -1;
	}
	if (seal_open(r->m->rows->key, proto->digest, (long)time(NULL),
	    raw + 1, len - 2, state, &err) == -1) {
		refuse(r, RPC_PARAMS, "%s", err.text);
		return -1;
	}
	proto->asked = state->data == NULL ? "" : state->data;
	return 0;
}

static void
start(struct request *r, const struct tool *t, struct json args)
{
	struct call proto = {
		.modern = r->to.modern, .ticket = r->to.ticket,
		.batch = r->to.batch, .request = r->params,
		.client = r->client, .log = r->log, .tool = t,
		.spilled = r->m->spilled,
	};
	const struct mcp_caller *who = r->m->who;
	const char *why = who != NULL && result_is_tool(t) ? who->refusal :
	    NULL;
	struct error err;
	struct buf state;
	enum json_type answers =
	    json_type(json_get(r->params, "inputResponses"));

	if (who != NULL) {
		proto.env = who->env;
		proto.caller = who->name;
		audit_note(&proto.note, args);
	}
	memcpy(proto.id, r->id, sizeof(proto.id));
	memcpy(proto.token, r->token, sizeof(proto.token));
	buf_init(&state, LIMIT_REPLY);
	if (r->to.modern && answers != JSON_NONE && answers != JSON_OBJECT) {
		refuse(r, RPC_PARAMS, "inputResponses: must be an object");
		return;
	}
	if (r->to.modern && unseal(r, &proto, &state) == -1)
		goto out;
	rpc_batch_hold(r->to.batch);
	if (why != NULL)
		error_set(&err, ERR_INPUT, "%s", why);
	else if (proto.spilled != NULL && proto.spilled->err.code != ERR_NONE)
		err = proto.spilled->err;
	else if (call_start(r->m->calls, t, args, &proto, &err) == 0)
		goto out;
	rpc_batch_drop(&r->m->rpc, r->to.batch);
	over(r->m, &proto, &err, false);
	if (result_is_tool(t) && (err.code == ERR_INPUT ||
	    (proto.spilled != NULL && proto.spilled->err.code == err.code)))
		result_failed(&r->m->rpc, r->m->rows, &r->to, &err);
	else
		refuse(r, err.code == ERR_INPUT ? RPC_PARAMS : RPC_INTERNAL,
		    "%s", err.text);
out:
	buf_free(&state);
}

/*
 * A field's value, plain or =?base64?...?= where it must be, into plain, which
 * is initialized. False: ill-formed, or with a NUL inside.
 */
static bool
field_plain(const char *field, struct buf *plain)
{
	size_t len = strlen(field);
	struct base64 b = { .n = 0 };
	struct error err;

	buf_puts(plain, "");
	if (len < 11 || strncmp(field, "=?base64?", 9) != 0 ||
	    strcmp(field + len - 2, "?=") != 0)
		buf_puts(plain, field);
	else if (strpbrk(field, " \t") != NULL ||
	    base64_decode(&b, field + 9, len - 11, plain, &err) == -1 ||
	    base64_decode_end(&b, &err) == -1)
		return false;
	return buf_ok(plain) && plain->data != NULL &&
	    strlen(plain->data) == plain->len;
}

/* A whole number as its digits, or with a fraction of zeros. */
static bool
number_is(struct json v, const char *text)
{
	const char *digits = text + (*text == '-');
	size_t n = strspn(digits, "0123456789"), all = n;
	long is;

	if (digits[n] == '.')
		all += 1 + strspn(digits + n + 1, "0");
	return n > 0 && n <= 18 && digits[all] == '\0' &&
	    (all == n || all > n + 1) && json_int(v, LONG_MIN, LONG_MAX, &is) &&
	    is == strtol(text, NULL, 10);
}

static bool
field_is(const char *field, struct json v)
{
	struct buf plain;
	const char *text;
	bool same, flag;

	buf_init(&plain, strlen(field) + 1);
	same = field_plain(field, &plain);
	text = same ? plain.data : "";
	if (json_type(v) == JSON_NUMBER)
		same = same && number_is(v, text);
	else if (json_bool(v, &flag))
		same = same && strcmp(text, flag ? "true" : "false") == 0;
	else
		same = same && json_is(v, text);
	buf_free(&plain);
	return same;
}

/*
 * And one for each argument whose row has a header: it is there when the
 * argument is, and says the same, as what is between us may go by it.
 */
static bool
params_ok(struct request *r, const struct tool *t, struct json args)
{
	const struct mcp_http *h = r->m->http;
	char name[96];

	if (h == NULL || !r->to.modern)
		return true;
	for (const struct arg *a = t->args; a != NULL && a->name != NULL; a++) {
		struct json v = json_get(args, a->name);
		const char *field;
		bool given = json_type(v) != JSON_NONE &&
		    json_type(v) != JSON_NULL;

		if (a->header == NULL)
			continue;
		(void)snprintf(name, sizeof(name), "Mcp-Param-%s", a->header);
		field = h->field == NULL ? NULL : h->field(h->arg, name);
		if (given ? field != NULL && field_is(field, v) : field == NULL)
			continue;
		refuse(r, HEADER_MISMATCH, given ? "%s is not there or is not "
		    "arguments.%s" : "%s is there, but arguments.%s is not",
		    name, a->name);
		return false;
	}
	return true;
}

static void
call_tool(struct request *r)
{
	struct json name = json_get(r->params, "name");
	struct json args = json_get(r->params, "arguments");
	const struct tool *t = tools_find(r->m->rows->tools, name);
	char shown[96];

	if (json_type(name) != JSON_STRING)
		refuse(r, RPC_PARAMS, "name: the tool's name is required");
	else if (t == NULL)
		refuse(r, RPC_PARAMS, "Unknown tool: %s",
		    json_str(name, shown, sizeof(shown)) ? shown : "...");
	else if (json_type(args) != JSON_NONE &&
	    json_type(args) != JSON_OBJECT)
		refuse(r, RPC_PARAMS, "arguments: must be an object");
	else if (t->requires != NULL &&
	    json_type(json_get(r->client, t->requires)) != JSON_OBJECT)
		lacks(r, t);
	else if (params_ok(r, t, args))
		start(r, t, args);
}

/* --- dispatch ------------------------------------------------------------- */

enum { LEGACY = 1, MODERN = 2, BOTH = 3 };

static const struct method {
	const char *name;
	int eras;
	void (*run)(struct request *);
} methods[] = {
	{ "server/discover", MODERN, discover },
	{ "initialize", LEGACY, initialize },
	{ "ping", LEGACY, reply_empty },
	{ "logging/setLevel", LEGACY, set_level },
	{ "tools/list", BOTH, list_tools },
	{ "tools/call", BOTH, call_tool },
};

/* Rows of these names are for one era only. */
static const struct method others[] = {
	{ "resources/subscribe", LEGACY, NULL },
	{ "resources/unsubscribe", LEGACY, NULL },
	{ "subscriptions/listen", MODERN, NULL },
};

static const struct method *
method_find(const struct method *m, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(m[i].name, name) == 0)
			return &m[i];
	return NULL;
}

static void
dispatch(struct request *r)
{
	const struct method *own = method_find(methods,
	    sizeof(methods) / sizeof(methods[0]), r->method);
	const struct method *other = method_find(others,
	    sizeof(others) / sizeof(others[0]), r->method);
	const struct tool *t = row(r->m, r->method);
	size_t len = strlen(r->method);
	int era = r->to.modern ? MODERN : LEGACY;

	if (own != NULL && own->eras & era)
		own->run(r);
	else if (own != NULL || t == NULL ||
	    (other != NULL && !(other->eras & era)))
		refuse(r, RPC_METHOD, "Method not found: %s", r->method);
	else if (len < 5 || strcmp(r->method + len - 5, "/list") != 0 ||
	    cursor_ok(r))
		start(r, t, r->params);
}

static bool
says_modern(const struct mcp *m)
{
	return m->http != NULL && m->http->version != NULL &&
	    strcmp(m->http->version, MODERN_VERSION) >= 0;
}

static bool
is_modern(const struct request *r)
{
	static const char *const keys[] = {
		META "protocolVersion", META "clientCapabilities",
		META "clientInfo",
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (json_type(json_get(r->meta, keys[i])) != JSON_NONE)
			return true;
	if (strcmp(r->method, "server/discover") == 0)
		return true;
	return strcmp(r->method, "initialize") != 0 && says_modern(r->m);
}

static void
unsupported(struct request *r, struct json version)
{
	struct jsonw w;
	struct buf data;
	const char *raw;
	size_t len;

	buf_init(&data, LIMIT_REPLY / 2);
	jsonw_init(&w, &data);
	jsonw_object(&w, NULL);
	jsonw_array(&w, "supported");
	jsonw_str(&w, NULL, MODERN_VERSION);
	jsonw_end(&w);
	raw = json_raw(version, &len);
	jsonw_raw(&w, "requested", raw, len);
	jsonw_end(&w);
	r->m->status = 400;
	rpc_error(&r->m->rpc, &r->to, NO_VERSION,
	    "this protocol version is not supported", &data);
	buf_free(&data);
}

/* Two fields say again what is asked for, so that a proxy need not read it. */
static bool
names_ok(struct request *r)
{
	static const struct {
		const char *method, *param;
	} named[] = {
		{ "tools/call", "name" }, { "prompts/get", "name" },
		{ "resources/read", "uri" }, { "tasks/get", "taskId" },
		{ "tasks/update", "taskId" }, { "tasks/cancel", "taskId" },
	};
	const struct mcp_http *h = r->m->http;
	struct json v;

	if (h == NULL)
		return true;
	if (h->method == NULL || strcmp(h->method, r->method) != 0) {
		refuse(r, HEADER_MISMATCH, "Mcp-Method is not there or is not "
		    "the method");
		return false;
	}
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
		if (strcmp(r->method, named[i].method) != 0)
			continue;
		v = json_get(r->params, named[i].param);
		if (json_type(v) == JSON_NONE ? h->name == NULL :
		    h->name != NULL && field_is(h->name, v))
			continue;
		refuse(r, HEADER_MISMATCH, "Mcp-Name is not there or is not "
		    "params.%s", named[i].param);
		return false;
	}
	return true;
}

/* The envelope of 2026-07-28, checked in the order of the reference SDKs. */
static bool
envelope_ok(struct request *r)
{
	struct json version = json_get(r->meta, META "protocolVersion");
	struct json level = json_get(r->meta, META "logLevel");

	r->client = json_get(r->meta, META "clientCapabilities");
	r->log = level_of(level);
	if (json_type(version) != JSON_STRING)
		refuse(r, RPC_PARAMS, "_meta: " META "protocolVersion is "
		    "required, a string");
	else if (json_type(r->client) != JSON_OBJECT)
		refuse(r, RPC_PARAMS, "_meta: " META "clientCapabilities "
		    "is required, an object");
	else if (r->m->http != NULL && (r->m->http->version == NULL ||
	    !json_is(version, r->m->http->version)))
		refuse(r, HEADER_MISMATCH, "MCP-Protocol-Version is not there "
		    "or differs from _meta: " META "protocolVersion");
	else if (!json_is(version, MODERN_VERSION))
		unsupported(r, version);
	else if (json_type(level) != JSON_NONE && r->log == -1)
		refuse(r, RPC_PARAMS, "_meta: " META "logLevel is not one "
		    "of the eight levels");
	else
		r->open = true;
	return r->open && names_ok(r);
}

static bool
header_ok(struct request *r)
{
	const char *h = r->m->http == NULL ? NULL : r->m->http->version;

	if (h == NULL || strcmp(r->method, "initialize") == 0)
		return true;
	for (size_t i = 0; i < NLEGACY; i++)
		if (strcmp(h, legacy[i]) == 0)
			return true;
	refuse(r, RPC_REQUEST, "MCP-Protocol-Version: %s is not "
	    "supported", h);
	return false;
}

static void
serve(struct request *r)
{
	struct json token = json_get(r->meta, "progressToken");

	if (json_type(r->params) != JSON_NONE &&
	    json_type(r->params) != JSON_OBJECT) {
		refuse(r, RPC_PARAMS, "params: must be an object");
		return;
	}
	if (json_type(r->meta) != JSON_NONE &&
	    json_type(r->meta) != JSON_OBJECT) {
		refuse(r, RPC_PARAMS, "_meta: must be an object");
		return;
	}
	r->m->modern = r->to.modern = is_modern(r);
	if (r->to.modern ? !envelope_ok(r) : !header_ok(r))
		return;
	if (json_type(token) != JSON_NONE && !rpc_id(token, r->token)) {
		refuse(r, RPC_PARAMS, "progressToken: must be a string or "
		    "an integer, of at most %d bytes", LIMIT_ID);
		return;
	}
	if (r->to.modern && r->to.batch != NULL)
		refuse(r, RPC_REQUEST, "no batches in this revision");
	else
		dispatch(r);
}

static void
notified(struct mcp *m, struct json msg)
{
	struct json id = json_path(msg, "params.requestId");
	char raw[RPC_ID_SIZE];

	if (json_is(json_get(msg, "method"), "notifications/cancelled") &&
	    rpc_id(id, raw))
		call_cancel(m->calls, raw);
}

/* Is a string that has left the message outside of a tool's arguments? */
static bool
astray(const struct mcp *m, struct json msg)
{
	return m->spilled != NULL &&
	    (!json_is(json_get(msg, "method"), "tools/call") ||
	    json_fars(msg) != json_fars(json_path(msg, "params.arguments")));
}

/* One message that is not an array, alone or inside of a batch. */
static void
message(struct mcp *m, struct json msg, struct rpc_to *to)
{
	struct json id = json_get(msg, "id"), method = json_get(msg, "method");
	struct request r = { .m = m, .log = -1 };

	to->id = r.id;
	if (json_type(msg) != JSON_OBJECT) {
		malformed(m, to, RPC_REQUEST, "not a JSON-RPC message");
		return;
	}
	if (astray(m, msg)) {
		(void)rpc_id(id, r.id);
		malformed(m, to, RPC_REQUEST, "a string of more than %d bytes "
		    "where no file is expected, in a message of more than %ld "
		    "bytes", SPILL_FROM, (long)LIMIT_MESSAGE);
		return;
	}
	/* We ask nothing, so whatever this answers is none of ours. */
	if (json_type(method) == JSON_NONE &&
	    (json_type(json_get(msg, "result")) != JSON_NONE ||
	    json_type(json_get(msg, "error")) != JSON_NONE)) {
		if (says_modern(m))
			malformed(m, to, RPC_REQUEST, "this answers nothing "
			    "that was asked");
		return;
	}
	if (json_type(id) == JSON_NONE && json_type(method) == JSON_STRING) {
		notified(m, msg);
		return;
	}
	if (!rpc_id(id, r.id)) {
		malformed(m, to, RPC_REQUEST, "id: must be a string of at "
		    "most %d bytes or an integer of at most %d digits",
		    LIMIT_ID, RPC_ID_DIGITS);
		return;
	}
	if (!json_is(json_get(msg, "jsonrpc"), "2.0") ||
	    json_type(method) != JSON_STRING) {
		malformed(m, to, RPC_REQUEST, "jsonrpc must be \"2.0\" "
		    "and method a string");
		return;
	}
	if (call_pending(m->calls, r.id)) {
		/* With the id it would look like the first one's answer. */
		to->id = "";
		malformed(m, to, RPC_REQUEST, "a request with this id is "
		    "under way");
		return;
	}
	if (!json_str(method, r.method, sizeof(r.method)))
		(void)memcpy(r.method, "?", 2);
	r.to = *to;
	r.params = json_get(msg, "params");
	r.meta = json_get(r.params, "_meta");
	r.client = (struct json){ NULL, -1 };
	serve(&r);
}

static void
array(struct mcp *m, struct json root, long ticket)
{
	struct rpc_to to = { .ticket = ticket, .id = "" };

	if (!m->arrays && (m->http == NULL || m->http->version == NULL ||
	    strcmp(m->http->version, "2025-03-26") != 0)) {
		malformed(m, &to, RPC_REQUEST, "batches are for revision "
		    "2025-03-26 only");
		return;
	}
	if (json_count(root) == 0 || json_count(root) > LIMIT_BATCH) {
		malformed(m, &to, RPC_REQUEST, "a batch must have 1 to %d "
		    "messages", LIMIT_BATCH);
		return;
	}
	if ((to.batch = rpc_batch_open(&m->rpc, ticket)) == NULL) {
		rpc_error(&m->rpc, &to, RPC_INTERNAL, "out of memory", NULL);
		return;
	}
	for (struct json v = json_first(root); json_type(v) != JSON_NONE;
	    v = json_next(v)) {
		to.modern = false;
		message(m, v, &to);
	}
	rpc_batch_drop(&m->rpc, to.batch);
}

static bool
blank(const char *text, size_t len)
{
	while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL &&
	    text[len - 1] != '\0')
		len--;
	return len == 0;
}

void
mcp_unreadable(struct mcp *m, const struct error *why, long ticket)
{
	struct rpc_to to = { .ticket = ticket, .id = "" };

	m->begun = true;
	m->modern = false;
	malformed(m, &to, why->code == ERR_LIMIT ? RPC_REQUEST :
	    why->code == ERR_SYSTEM ? RPC_INTERNAL : RPC_PARSE, "%s",
	    why->text);
}

/* Are all strings that have left the message where a tool looks for them? */
static bool
in_place(const struct mcp *m, struct json root)
{
	struct json args = json_path(root, "params.arguments");
	const struct tool *t = tools_find(m->rows->tools,
	    json_path(root, "params.name"));
	struct error ignored;
	struct tool checked;

	if (t == NULL || astray(m, root))
		return false;
	checked = *t;
	checked.in_schema = NULL;
	return tools_check(&checked, args, &ignored) == 0;
}

/* The message with its strings, if it has the length for that. */
static bool
fold(const struct mcp *m, const char *text, size_t len, struct buf *out)
{
	struct spilled *p = m->spilled;
	char piece[4096];
	struct error err;
	size_t at = 0, n;

	if (p->err.code != ERR_NONE || p->len + len > LIMIT_MESSAGE)
		return false;
	for (size_t i = 0; i < p->nspans; i++) {
		const struct spill_span *s = &p->spans[i];

		buf_put(out, text + at, s->at + 1 - at);
		at = s->at + 1;
		for (uint64_t done = 0; done < s->len; done += n) {
			n = s->len - done < sizeof(piece) ?
			    (size_t)(s->len - done) : sizeof(piece);
			if (spilled_read(p, s->from + done, piece, n,
			    &err) == -1)
				return false;
			buf_put(out, piece, n);
		}
	}
	buf_put(out, text + at, len - at);
	return buf_ok(out);
}

/* Long strings are for files; wherever else they may be, as before. */
static struct json_doc *
read_spilled(struct mcp *m, const char *base, const char *text, size_t len,
    struct buf *whole, struct error *err)
{
	struct json_doc *doc = json_parse(text, len, err);
	size_t skip = (size_t)(text - base);

	if (doc == NULL || m->spilled == NULL)
		return doc;
	json_far_set(doc, base, m->spilled->spans, m->spilled->nspans);
	if (in_place(m, json_root(doc)) ||
	    !fold(m, base, skip + len, whole))
		return doc;
	json_free(doc);
	m->spilled = NULL;
	return json_parse(whole->data + skip, whole->len - skip, err);
}

void
mcp_message(struct mcp *m, const char *text, size_t len,
    struct spilled *spilled, long ticket, const struct mcp_http *http)
{
	struct rpc_to to = { .ticket = ticket, .id = "" };
	const char *base = text;
	struct json_doc *doc;
	struct buf whole;
	struct error err;

	/* Editors and shells of one system put a BOM before the first line. */
	if (!m->begun && len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		text += 3;
		len -= 3;
	}
	m->begun = true;
	m->modern = false;
	m->status = 200;
	if (blank(text, len) && http == NULL)
		return;
	m->http = http;
	m->spilled = spilled;
	buf_init(&whole, LIMIT_MESSAGE);
	doc = read_spilled(m, base, text, len, &whole, &err);
	if (doc == NULL)
		mcp_unreadable(m, &err, ticket);
	else if (json_type(json_root(doc)) == JSON_ARRAY)
		array(m, json_root(doc), ticket);
	else
		message(m, json_root(doc), &to);
	json_free(doc);
	buf_free(&whole);
	m->http = NULL;
	m->spilled = NULL;
}

/* --- opening and closing -------------------------------------------------- */

struct mcp *
mcp_open(struct loop *l, const struct mcp_rows *rows, void *env,
    mcp_send *send, void *arg, struct error *err)
{
	struct mcp *m = calloc(1, sizeof(*m));
	struct call_sink sink = {
		on_answer, on_silent, on_notify, wants_log, m
	};

	if (m == NULL) {
		(void)error_sys(err, "mcp");
		return NULL;
	}
	m->rows = rows;
	m->rpc.send = send;
	m->rpc.arg = arg;
	m->level = LEVEL_INFO;
	if ((m->calls = calls_open(l, env, &sink, err)) == NULL) {
		free(m);
		return NULL;
	}
	return m;
}

void
mcp_close(struct mcp *m)
{
	if (m == NULL)
		return;
	calls_close(m->calls);
	rpc_batch_free_all(&m->rpc);
	free(m);
}

int
mcp_status(const struct mcp *m)
{
	return m->status;
}

bool
mcp_modern(const struct mcp *m)
{
	return m->modern;
}

bool
mcp_waits(const struct mcp *m, long ticket)
{
	return calls_wait(m->calls, ticket);
}

void
mcp_caller(struct mcp *m, const struct mcp_caller *who)
{
	m->who = who;
}

long
mcp_bad_lines(const struct mcp *m)
{
	return m->bad;
}

void
mcp_cancel_ticket(struct mcp *m, long ticket)
{
	calls_cancel_ticket(m->calls, ticket);
}

void
mcp_end(struct mcp *m)
{
	calls_cancel_all(m->calls);
}

size_t
mcp_live(const struct mcp *m)
{
	return calls_live(m->calls);
}

size_t
mcp_left(const struct mcp *m)
{
	return calls_left(m->calls);
}
