/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget.h"
#include "buf.h"
#include "call.h"
#include "error.h"
#include "json.h"
#include "jsonw.h"
#include "mcp.h"
#include "mcp-own.h"
#include "rpc.h"
#include "spill.h"
#include "stash.h"
#include "tools.h"

enum { LEVEL_INFO = 1 };		/* mcp_level()'s */

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

void
mcp_refuse(struct request *r, int code, const char *fmt, ...)
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

/* --- dispatch ------------------------------------------------------------- */

enum { LEGACY = 1, MODERN = 2, BOTH = 3 };

static const struct method {
	const char *name;
	int eras;
	void (*run)(struct request *);
} methods[] = {
	{ "server/discover", MODERN, mcp_discover },
	{ "initialize", LEGACY, mcp_initialize },
	{ "ping", LEGACY, mcp_empty },
	{ "logging/setLevel", LEGACY, mcp_set_level },
	{ "tools/list", BOTH, mcp_list_tools },
	{ "tools/call", BOTH, mcp_call_tool },
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
	const struct tool *t = mcp_row(r->m, r->method);
	size_t len = strlen(r->method);
	int era = r->to.modern ? MODERN : LEGACY;

	if (own != NULL && own->eras & era)
		own->run(r);
	else if (own != NULL || t == NULL ||
	    (other != NULL && !(other->eras & era)))
		mcp_refuse(r, RPC_METHOD, "Method not found: %s", r->method);
	else if (len < 5 || strcmp(r->method + len - 5, "/list") != 0 ||
	    mcp_cursor_ok(r))
		mcp_start(r, t, r->params);
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

/* The envelope of 2026-07-28, checked in the order of the reference SDKs. */
static bool
envelope_ok(struct request *r)
{
	struct json version = json_get(r->meta, META "protocolVersion");
	struct json level = json_get(r->meta, META "logLevel");

	r->client = json_get(r->meta, META "clientCapabilities");
	r->log = mcp_level(level);
	if (json_type(version) != JSON_STRING)
		mcp_refuse(r, RPC_PARAMS, "_meta: " META "protocolVersion is "
		    "required, a string");
	else if (json_type(r->client) != JSON_OBJECT)
		mcp_refuse(r, RPC_PARAMS, "_meta: " META "clientCapabilities "
		    "is required, an object");
	else if (r->m->http != NULL && (r->m->http->version == NULL ||
	    !json_is(version, r->m->http->version)))
		mcp_refuse(r, HEADER_MISMATCH, "MCP-Protocol-Version is not "
		    "there or differs from _meta: " META "protocolVersion");
	else if (!json_is(version, MODERN_VERSION))
		unsupported(r, version);
	else if (json_type(level) != JSON_NONE && r->log == -1)
		mcp_refuse(r, RPC_PARAMS, "_meta: " META "logLevel is not one "
		    "of the eight levels");
	else
		r->open = true;
	return r->open && mcp_names_ok(r);
}

static void
serve(struct request *r)
{
	struct json token = json_get(r->meta, "progressToken");

	if (json_type(r->params) != JSON_NONE &&
	    json_type(r->params) != JSON_OBJECT) {
		mcp_refuse(r, RPC_PARAMS, "params: must be an object");
		return;
	}
	if (json_type(r->meta) != JSON_NONE &&
	    json_type(r->meta) != JSON_OBJECT) {
		mcp_refuse(r, RPC_PARAMS, "_meta: must be an object");
		return;
	}
	r->m->modern = r->to.modern = is_modern(r);
	if (r->to.modern ? !envelope_ok(r) : !mcp_header_ok(r))
		return;
	if (json_type(token) != JSON_NONE && !rpc_id(token, r->token)) {
		mcp_refuse(r, RPC_PARAMS, "progressToken: must be a string or "
		    "an integer, of at most %d bytes", LIMIT_ID);
		return;
	}
	if (r->to.modern && r->to.batch != NULL)
		mcp_refuse(r, RPC_REQUEST, "no batches in this revision");
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
		mcp_on_answer, mcp_on_silent, mcp_on_notify, mcp_wants_log, m
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

const struct spilled_in *
mcp_far(const struct mcp *m)
{
	return m->rpc.far;
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
