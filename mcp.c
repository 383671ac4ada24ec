/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "buf.h"
#include "call.h"
#include "error.h"
#include "json.h"
#include "jsonw.h"
#include "limits.h"
#include "mcp.h"
#include "seal.h"
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
enum { ID_DIGITS = 64 };
enum { NLEVELS = sizeof(levels) / sizeof(levels[0]), LEVEL_INFO = 1 };

enum {
	PARSE_ERROR = -32700, INVALID_REQUEST = -32600,
	NO_METHOD = -32601, INVALID_PARAMS = -32602, INTERNAL = -32603,
	NO_RESOURCE = -32002,		/* before 2026-07-28 */
	HEADER_MISMATCH = -32020, NO_CAPABILITY = -32021, NO_VERSION = -32022,
};

/* The messages of one array (2025-03-26 only) are answered in one array. */
struct batch {
	struct batch *next;
	long ticket;
	size_t open;			/* answers to come, and the reading */
	struct buf out;
};

struct mcp {
	const struct mcp_rows *rows;
	struct calls *calls;
	mcp_send *send;
	void *arg;
	struct batch *batches;
	bool arrays;			/* initialize agreed on 2025-03-26 */
	bool begun;
	int level;			/* of logging/setLevel */
	long bad;
	const char *header;		/* of the message being served */
};

/* Whom an answer goes to. */
struct to {
	long ticket;
	struct batch *batch;		/* NULL: not in one */
	const char *id;			/* raw JSON; "": could not be read */
	bool modern;
};

struct request {
	struct mcp *m;
	struct to to;
	char id[CALL_ID_SIZE], token[CALL_ID_SIZE];
	char method[96];
	struct json params, meta, client;
	int log;
};

/* --- replies ------------------------------------------------------------- */

static void
batch_drop(struct mcp *m, struct batch *b)
{
	struct batch **at = &m->batches;

	if (b == NULL || --b->open > 0)
		return;
	if (!buf_ok(&b->out)) {
		buf_reset(&b->out, 0);
		buf_puts(&b->out, "[{\"jsonrpc\":\"2.0\",\"error\":{\"code\":"
		    "-32603,\"message\":\"the batch's answers are too large\""
		    "}}");
	}
	if (b->out.len > 0) {
		buf_puts(&b->out, "]");
		m->send(m->arg, b->ticket, b->out.data, b->out.len, true);
	}
	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	buf_free(&b->out);
	free(b);
}

static void
reply_open(struct jsonw *w, struct buf *out, const struct to *to)
{
	buf_init(out, LIMIT_REPLY);
	jsonw_init(w, out);
	jsonw_object(w, NULL);
	jsonw_str(w, "jsonrpc", "2.0");
	if (to->id[0] != '\0')
		jsonw_raw(w, "id", to->id, strlen(to->id));
}

/* False: it was too large, and nothing was sent. */
static bool
reply_send(struct mcp *m, struct jsonw *w, const struct to *to)
{
	struct buf *out = w->out;
	bool ok;

	jsonw_end(w);
	ok = buf_ok(out);
	if (ok && to->batch != NULL) {
		buf_puts(&to->batch->out, to->batch->out.len == 0 ? "[" : ",");
		buf_put(&to->batch->out, out->data, out->len);
	} else if (ok) {
		m->send(m->arg, to->ticket, out->data, out->len, true);
	}
	buf_free(out);
	return ok;
}

/* data: an object as JSON, or NULL. */
static void
reply_error(struct mcp *m, const struct to *to, int code, const char *text,
    const struct buf *data)
{
	struct jsonw w;
	struct buf out;

	reply_open(&w, &out, to);
	jsonw_object(&w, "error");
	jsonw_int(&w, "code", code);
	jsonw_str(&w, "message", text);
	if (data != NULL && data->len > 0 && buf_ok(data))
		jsonw_raw(&w, "data", data->data, data->len);
	jsonw_end(&w);
	if (!reply_send(m, &w, to) && data != NULL)
		reply_error(m, to, code, text, NULL);
}

static void refuse(struct request *r, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void
refuse(struct request *r, int code, const char *fmt, ...)
{
	char text[256];
	struct error err;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* Through here for the cleaning: it may quote the client. */
	(void)error_set(&err, ERR_INPUT, "%s", text);
	reply_error(r->m, &r->to, code, err.text, NULL);
}

/* What is not a JSON-RPC message counts, too many end the connection. */
static void malformed(struct mcp *m, const struct to *to, int code,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static void
malformed(struct mcp *m, const struct to *to, int code, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	m->bad++;
	reply_error(m, to, code, text, NULL);
}

static void
server_info(struct jsonw *w, const struct mcp_rows *rows, const char *key,
    bool full)
{
	jsonw_object(w, key);
	jsonw_str(w, "name", rows->name);
	if (full && rows->title != NULL)
		jsonw_str(w, "title", rows->title);
	jsonw_str(w, "version", rows->version);
	if (full && rows->website != NULL)
		jsonw_str(w, "websiteUrl", rows->website);
	jsonw_end(w);
}

/* What 2026-07-28 wants in every result, and older clients need not see. */
static void
result_open(struct jsonw *w, const struct mcp *m, const struct to *to,
    const char *type, bool full)
{
	jsonw_object(w, "result");
	if (!to->modern)
		return;
	jsonw_str(w, "resultType", type);
	jsonw_object(w, "_meta");
	server_info(w, m->rows, META "serverInfo", full);
	jsonw_end(w);
}

static void
caching(struct jsonw *w, const struct to *to, const char *method)
{
	static const struct {
		const char *method, *scope;
		long ttl_ms;
	} rows[] = {
		{ "server/discover", "public", 3600000 },
		{ "tools/list", "public", 3600000 },
		{ "prompts/list", "public", 3600000 },
		{ "resources/templates/list", "public", 3600000 },
		/* What is in the cluster, as one user may see it now. */
		{ "resources/list", "private", 0 },
		{ "resources/read", "private", 0 },
	};

	for (size_t i = 0; to->modern && i < sizeof(rows) / sizeof(*rows); i++)
		if (strcmp(method, rows[i].method) == 0) {
			jsonw_int(w, "ttlMs", rows[i].ttl_ms);
			jsonw_str(w, "cacheScope", rows[i].scope);
		}
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

	reply_open(&w, &out, &r->to);
	result_open(&w, r->m, &r->to, "complete", true);
	jsonw_array(&w, "supportedVersions");
	jsonw_str(&w, NULL, MODERN_VERSION);
	jsonw_end(&w);
	capabilities(&w, r->m, true);
	if (rows->instructions != NULL)
		jsonw_str(&w, "instructions", rows->instructions);
	caching(&w, &r->to, r->method);
	jsonw_end(&w);
	(void)reply_send(r->m, &w, &r->to);
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
		refuse(r, INVALID_REQUEST, "initialize must come alone");
		return;
	}
	if (json_type(asked) != JSON_STRING) {
		refuse(r, INVALID_PARAMS, "protocolVersion: a string is "
		    "required");
		return;
	}
	while (i < NLEGACY - 1 && !json_is(asked, legacy[i]))
		i++;
	r->m->arrays = strcmp(legacy[i], "2025-03-26") == 0;
	reply_open(&w, &out, &r->to);
	result_open(&w, r->m, &r->to, "complete", true);
	jsonw_str(&w, "protocolVersion", legacy[i]);
	capabilities(&w, r->m, false);
	server_info(&w, rows, "serverInfo", true);
	if (rows->instructions != NULL)
		jsonw_str(&w, "instructions", rows->instructions);
	jsonw_end(&w);
	(void)reply_send(r->m, &w, &r->to);
}

static void
reply_empty(struct request *r)
{
	struct jsonw w;
	struct buf out;

	reply_open(&w, &out, &r->to);
	result_open(&w, r->m, &r->to, "complete", false);
	jsonw_end(&w);
	(void)reply_send(r->m, &w, &r->to);
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
		refuse(r, NO_METHOD, "Method not found: %s", r->method);
	} else if (level == -1) {
		refuse(r, INVALID_PARAMS, "level: must be one of debug, info, "
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
	refuse(r, INVALID_PARAMS, "cursor: unknown, the list is one page");
	return false;
}

static void
list_tools(struct request *r)
{
	struct jsonw w;
	struct buf out;

	if (!cursor_ok(r))
		return;
	reply_open(&w, &out, &r->to);
	result_open(&w, r->m, &r->to, "complete", false);
	tools_list(&w, r->m->rows->tools);
	caching(&w, &r->to, r->method);
	jsonw_end(&w);
	if (!reply_send(r->m, &w, &r->to))
		refuse(r, INTERNAL, "the list is too large");
}

/* --- calls: the answer ---------------------------------------------------- */

static bool
is_tool(const struct tool *t)
{
	return strchr(t->name, '/') == NULL;
}

static void
text_block(struct jsonw *w, const char *text, size_t len)
{
	jsonw_object(w, NULL);
	jsonw_str(w, "type", "text");
	jsonw_bytes(w, "text", text, len);
	jsonw_end(w);
}

static bool
filled(const struct buf *b)
{
	return b->len > 0 && buf_ok(b);
}

/* Some hosts show the model the text only, others the structure only. */
static void
content(struct jsonw *w, const struct call *c, const struct error *err)
{
	jsonw_array(w, "content");
	if (err != NULL)
		text_block(w, err->text, strlen(err->text));
	if (filled(&c->content))
		jsonw_raw(w, NULL, c->content.data, c->content.len);
	else if (filled(&c->text))
		text_block(w, c->text.data, c->text.len);
	else if (filled(&c->structured))
		text_block(w, c->structured.data, c->structured.len);
	jsonw_end(w);
}

static bool
answer_tool(struct mcp *m, const struct to *to, const struct call *c,
    const struct error *err)
{
	struct jsonw w;
	struct buf out;

	reply_open(&w, &out, to);
	result_open(&w, m, to, "complete", false);
	content(&w, c, err);
	if (filled(&c->structured))
		jsonw_raw(&w, "structuredContent", c->structured.data,
		    c->structured.len);
	jsonw_bool(&w, "isError", err != NULL || c->is_error);
	jsonw_end(&w);
	return reply_send(m, &w, to);
}

/* A tool that has nothing to show but why it failed. */
static void
answer_failed(struct mcp *m, const struct to *to, const struct error *err)
{
	static const struct call none;

	(void)answer_tool(m, to, &none, err);
}

/* The whole result is in c->structured; ours go in front of its members. */
static bool
answer_method(struct mcp *m, const struct to *to, const struct call *c)
{
	const struct buf *s = &c->structured;
	struct jsonw w;
	struct buf out;

	reply_open(&w, &out, to);
	result_open(&w, m, to, "complete", false);
	caching(&w, to, c->tool->name);
	assert(s->len == 0 || (s->data[0] == '{' && s->len >= 2));
	if (s->len > 2) {
		if (w.comma)
			buf_puts(&out, ",");
		buf_put(&out, s->data + 1, s->len - 2);
	}
	jsonw_end(&w);
	return reply_send(m, &w, to);
}

static void
answer_error(struct mcp *m, const struct to *to, const struct call *c,
    const struct error *err)
{
	struct buf data;
	int code = INTERNAL;

	buf_init(&data, LIMIT_REPLY / 2);
	if (err->code == ERR_INPUT)
		code = INVALID_PARAMS;
	if (err->code == ERR_GONE) {
		code = INVALID_PARAMS;
		if (c->about.len > 0) {
			buf_puts(&data, "{\"uri\":");
			buf_put(&data, c->about.data, c->about.len);
			buf_puts(&data, "}");
			code = to->modern ? INVALID_PARAMS : NO_RESOURCE;
		}
	}
	reply_error(m, to, code, err->text, &data);
	buf_free(&data);
}

static bool
answer_ask(struct mcp *m, const struct to *to, const struct call *c,
    struct error *err)
{
	struct jsonw w;
	struct buf out, state;

	if (!to->modern)
		return error_set(err, ERR_INPUT, "%s has to ask the user, "
		    "which needs a client of revision " MODERN_VERSION,
		    c->tool->name) == 0;
	buf_init(&state, LIMIT_REPLY / 2);
	if (c->state_text.len > 0 && (m->rows->key == NULL ||
	    seal_make(m->rows->key, c->digest, (long)time(NULL),
	    c->state_text.data, c->state_text.len, &state, err) == -1)) {
		buf_free(&state);
		return false;
	}
	reply_open(&w, &out, to);
	result_open(&w, m, to, "input_required", false);
	if (c->ask.len > 0)
		jsonw_raw(&w, "inputRequests", c->ask.data, c->ask.len);
	if (state.len > 0)
		jsonw_bytes(&w, "requestState", state.data, state.len);
	buf_free(&state);
	jsonw_end(&w);
	return reply_send(m, &w, to);
}

static void
on_answer(void *arg, struct call *c, const struct error *err)
{
	struct mcp *m = arg;
	struct to to = { c->ticket, c->batch, c->id, c->modern };
	struct error why;
	bool sent, tool = is_tool(c->tool);

	(void)error_set(&why, ERR_LIMIT, "%s: the result is larger than %ld "
	    "bytes, ask for less", c->tool->name, (long)LIMIT_REPLY);
	if (err != NULL) {
		why = *err;
		sent = tool && answer_tool(m, &to, c, err);
	} else if (c->asking) {
		sent = answer_ask(m, &to, c, &why);
	} else {
		sent = tool ? answer_tool(m, &to, c, NULL) :
		    answer_method(m, &to, c);
	}
	if (!sent && tool)
		answer_failed(m, &to, &why);
	else if (!sent)
		answer_error(m, &to, c, &why);
	batch_drop(m, c->batch);
}

static void
on_silent(void *arg, struct call *c)
{
	batch_drop(arg, c->batch);
}

static void
on_notify(void *arg, struct call *c, const char *method, const char *params,
    size_t len)
{
	struct mcp *m = arg;
	struct jsonw w;
	struct buf out;

	buf_init(&out, LIMIT_REPLY);
	jsonw_init(&w, &out);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "jsonrpc", "2.0");
	jsonw_str(&w, "method", method);
	jsonw_raw(&w, "params", params, len);
	jsonw_end(&w);
	if (buf_ok(&out))
		m->send(m->arg, c->ticket, out.data, out.len, false);
	buf_free(&out);
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

/* --- calls: the request --------------------------------------------------- */

static void
lacks(struct request *r, const struct tool *t)
{
	struct jsonw w;
	struct buf data;
	struct error err;

	(void)error_set(&err, ERR_INPUT, "%s needs a client with the "
	    "capability \"%s\"", t->name, t->requires);
	if (!r->to.modern) {
		answer_failed(r->m, &r->to, &err);
		return;
	}
	buf_init(&data, 1024);
	jsonw_init(&w, &data);
	jsonw_object(&w, NULL);
	jsonw_object(&w, "requiredCapabilities");
	capability(&w, t->requires, true);
	jsonw_end(&w);
	jsonw_end(&w);
	reply_error(r->m, &r->to, NO_CAPABILITY, err.text, &data);
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
		refuse(r, INVALID_PARAMS, "requestState: not expected");
		return -1;
	}
	if (seal_open(r->m->rows->key, proto->digest, (long)time(NULL),
	    raw + 1, len - 2, state, &err) == -1) {
		refuse(r, INVALID_PARAMS, "%s", err.text);
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
		.client = r->client, .log = r->log,
	};
	struct error err;
	struct buf state;
	enum json_type answers =
	    json_type(json_get(r->params, "inputResponses"));

	memcpy(proto.id, r->id, sizeof(proto.id));
	memcpy(proto.token, r->token, sizeof(proto.token));
	buf_init(&state, LIMIT_REPLY);
	if (r->to.modern && answers != JSON_NONE && answers != JSON_OBJECT) {
		refuse(r, INVALID_PARAMS, "inputResponses: must be an object");
		return;
	}
	if (r->to.modern && unseal(r, &proto, &state) == -1)
		goto out;
	if (r->to.batch != NULL)
		r->to.batch->open++;
	if (call_start(r->m->calls, t, args, &proto, &err) == 0)
		goto out;
	if (r->to.batch != NULL)
		r->to.batch->open--;	/* the batch itself holds one more */
	if (err.code == ERR_INPUT && is_tool(t))
		answer_failed(r->m, &r->to, &err);
	else
		refuse(r, err.code == ERR_INPUT ? INVALID_PARAMS : INTERNAL,
		    "%s", err.text);
out:
	buf_free(&state);
}

static void
call_tool(struct request *r)
{
	struct json name = json_get(r->params, "name");
	struct json args = json_get(r->params, "arguments");
	const struct tool *t = tools_find(r->m->rows->tools, name);
	char shown[96];

	if (json_type(name) != JSON_STRING)
		refuse(r, INVALID_PARAMS, "name: the tool's name is required");
	else if (t == NULL)
		refuse(r, INVALID_PARAMS, "Unknown tool: %s",
		    json_str(name, shown, sizeof(shown)) ? shown : "...");
	else if (json_type(args) != JSON_NONE &&
	    json_type(args) != JSON_OBJECT)
		refuse(r, INVALID_PARAMS, "arguments: must be an object");
	else if (t->requires != NULL &&
	    json_type(json_get(r->client, t->requires)) != JSON_OBJECT)
		lacks(r, t);
	else
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
		refuse(r, NO_METHOD, "Method not found: %s", r->method);
	else if (len < 5 || strcmp(r->method + len - 5, "/list") != 0 ||
	    cursor_ok(r))
		start(r, t, r->params);
}

/* An id or a token as it came: a string, or an integer of any length. */
static bool
raw_id(struct json v, char *dst)
{
	size_t len, digits;
	const char *raw = json_raw(v, &len);

	if (json_type(v) == JSON_NUMBER) {
		digits = strspn(raw + (*raw == '-'), "0123456789");
		if (digits + (*raw == '-') != len || digits > ID_DIGITS)
			return false;
	} else if (json_type(v) != JSON_STRING || len - 2 > LIMIT_ID) {
		return false;
	}
	memcpy(dst, raw, len);
	dst[len] = '\0';
	return true;
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
	return r->m->header != NULL && strcmp(r->method, "initialize") != 0 &&
	    strcmp(r->m->header, MODERN_VERSION) >= 0;
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
	reply_error(r->m, &r->to, NO_VERSION,
	    "this protocol version is not supported", &data);
	buf_free(&data);
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
		refuse(r, INVALID_PARAMS, "_meta: " META "protocolVersion is "
		    "required, a string");
	else if (json_type(r->client) != JSON_OBJECT)
		refuse(r, INVALID_PARAMS, "_meta: " META "clientCapabilities "
		    "is required, an object");
	else if (r->m->header != NULL && !json_is(version, r->m->header))
		refuse(r, HEADER_MISMATCH, "MCP-Protocol-Version differs from "
		    "_meta: " META "protocolVersion");
	else if (!json_is(version, MODERN_VERSION))
		unsupported(r, version);
	else if (json_type(level) != JSON_NONE && r->log == -1)
		refuse(r, INVALID_PARAMS, "_meta: " META "logLevel is not one "
		    "of the eight levels");
	else
		return true;
	return false;
}

static bool
header_ok(struct request *r)
{
	const char *h = r->m->header;

	if (h == NULL || strcmp(r->method, "initialize") == 0)
		return true;
	for (size_t i = 0; i < NLEGACY; i++)
		if (strcmp(h, legacy[i]) == 0)
			return true;
	refuse(r, INVALID_REQUEST, "MCP-Protocol-Version: %s is not "
	    "supported", h);
	return false;
}

static void
serve(struct request *r)
{
	struct json token = json_get(r->meta, "progressToken");

	if (json_type(r->params) != JSON_NONE &&
	    json_type(r->params) != JSON_OBJECT) {
		refuse(r, INVALID_PARAMS, "params: must be an object");
		return;
	}
	if (json_type(r->meta) != JSON_NONE &&
	    json_type(r->meta) != JSON_OBJECT) {
		refuse(r, INVALID_PARAMS, "_meta: must be an object");
		return;
	}
	r->to.modern = is_modern(r);
	if (r->to.modern ? !envelope_ok(r) : !header_ok(r))
		return;
	if (json_type(token) != JSON_NONE && !raw_id(token, r->token)) {
		refuse(r, INVALID_PARAMS, "progressToken: must be a string or "
		    "an integer, of at most %d bytes", LIMIT_ID);
		return;
	}
	if (r->to.modern && r->to.batch != NULL)
		refuse(r, INVALID_REQUEST, "no batches in this revision");
	else
		dispatch(r);
}

static void
notified(struct mcp *m, struct json msg)
{
	struct json id = json_path(msg, "params.requestId");
	char raw[CALL_ID_SIZE];

	if (json_is(json_get(msg, "method"), "notifications/cancelled") &&
	    raw_id(id, raw))
		call_cancel(m->calls, raw);
}

/* One message that is not an array, alone or inside of a batch. */
static void
message(struct mcp *m, struct json msg, struct to *to)
{
	struct json id = json_get(msg, "id"), method = json_get(msg, "method");
	struct request r = { .m = m, .log = -1 };

	to->id = r.id;
	if (json_type(msg) != JSON_OBJECT) {
		malformed(m, to, INVALID_REQUEST, "not a JSON-RPC message");
		return;
	}
	/* We ask nothing, so whatever this answers is none of ours. */
	if (json_type(method) == JSON_NONE &&
	    (json_type(json_get(msg, "result")) != JSON_NONE ||
	    json_type(json_get(msg, "error")) != JSON_NONE))
		return;
	if (json_type(id) == JSON_NONE && json_type(method) == JSON_STRING) {
		notified(m, msg);
		return;
	}
	if (!raw_id(id, r.id)) {
		malformed(m, to, INVALID_REQUEST, "id: must be a string of at "
		    "most %d bytes or an integer of at most %d digits",
		    LIMIT_ID, ID_DIGITS);
		return;
	}
	if (!json_is(json_get(msg, "jsonrpc"), "2.0") ||
	    json_type(method) != JSON_STRING) {
		malformed(m, to, INVALID_REQUEST, "jsonrpc must be \"2.0\" "
		    "and method a string");
		return;
	}
	if (call_pending(m->calls, r.id)) {
		/* With the id it would look like the first one's answer. */
		to->id = "";
		malformed(m, to, INVALID_REQUEST, "a request with this id is "
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
	struct to to = { .ticket = ticket, .id = "" };
	struct batch *b;

	if (!m->arrays && (m->header == NULL ||
	    strcmp(m->header, "2025-03-26") != 0)) {
		malformed(m, &to, INVALID_REQUEST, "batches are for revision "
		    "2025-03-26 only");
		return;
	}
	if (json_count(root) == 0 || json_count(root) > LIMIT_BATCH) {
		malformed(m, &to, INVALID_REQUEST, "a batch must have 1 to %d "
		    "messages", LIMIT_BATCH);
		return;
	}
	if ((b = calloc(1, sizeof(*b))) == NULL) {
		reply_error(m, &to, INTERNAL, "out of memory", NULL);
		return;
	}
	b->ticket = ticket;
	b->open = 1;
	b->next = m->batches;
	m->batches = b;
	buf_init(&b->out, LIMIT_REPLY);
	for (struct json v = json_first(root); json_type(v) != JSON_NONE;
	    v = json_next(v)) {
		to.batch = b;
		to.modern = false;
		message(m, v, &to);
	}
	batch_drop(m, b);
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
mcp_message(struct mcp *m, const char *text, size_t len, long ticket,
    const char *version)
{
	struct to to = { .ticket = ticket, .id = "" };
	struct json_doc *doc;
	struct error err;

	/* Editors and shells of one system put a BOM before the first line. */
	if (!m->begun && len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		text += 3;
		len -= 3;
	}
	m->begun = true;
	if (blank(text, len))
		return;
	m->header = version;
	doc = json_parse(text, len, &err);
	if (doc == NULL)
		malformed(m, &to, err.code == ERR_LIMIT ? INVALID_REQUEST :
		    err.code == ERR_SYSTEM ? INTERNAL : PARSE_ERROR, "%s",
		    err.text);
	else if (json_type(json_root(doc)) == JSON_ARRAY)
		array(m, json_root(doc), ticket);
	else
		message(m, json_root(doc), &to);
	json_free(doc);
	m->header = NULL;
}

void
mcp_too_long(struct mcp *m, long ticket)
{
	struct to to = { .ticket = ticket, .id = "" };

	m->begun = true;
	malformed(m, &to, INVALID_REQUEST, "a message is longer than %ld "
	    "bytes", (long)LIMIT_MESSAGE);
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
	m->send = send;
	m->arg = arg;
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
	struct batch *b;

	if (m == NULL)
		return;
	calls_close(m->calls);
	while ((b = m->batches) != NULL) {
		m->batches = b->next;
		buf_free(&b->out);
		free(b);
	}
	free(m);
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
