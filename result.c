/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "buf.h"
#include "call.h"
#include "error.h"
#include "jsonw.h"
#include "budget.h"
#include "mcp.h"
#include "result.h"
#include "rpc.h"
#include "seal.h"
#include "stash.h"

enum { NO_RESOURCE = -32002 };		/* before 2026-07-28 */

void
result_server(struct jsonw *w, const struct mcp_rows *rows, const char *key,
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
open_as(struct jsonw *w, const struct mcp_rows *rows, const struct rpc_to *to,
    const char *type, bool full)
{
	jsonw_object(w, "result");
	if (!to->modern)
		return;
	jsonw_str(w, "resultType", type);
	jsonw_object(w, "_meta");
	result_server(w, rows, "io.modelcontextprotocol/serverInfo", full);
	jsonw_end(w);
}

void
result_begin(struct jsonw *w, const struct mcp_rows *rows,
    const struct rpc_to *to, bool full)
{
	open_as(w, rows, to, "complete", full);
}

void
result_caching(struct jsonw *w, const struct rpc_to *to, const char *method)
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

bool
result_is_tool(const struct tool *t)
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

struct answer {
	struct rpc *rpc;
	const struct mcp_rows *rows;
	const struct rpc_to *to;
};

/* The object as a text; where in the answer its string that is elsewhere
 * belongs. */
static void
object_block(struct jsonw *w, const struct call *c, struct spilled_in *far)
{
	const struct buf *s = &c->structured;
	size_t before, all;

	jsonw_object(w, NULL);
	jsonw_str(w, "type", "text");
	jsonw_bytes(w, "text", s->data, s->len);
	if (c->far != NULL) {
		(void)jsonw_fit(s->data, s->len, SIZE_MAX, &all);
		(void)jsonw_fit(s->data, c->far_at, SIZE_MAX, &before);
		far->at[far->n++] = w->out->len - 1 - all + before;
	}
	jsonw_end(w);
}

/* Some hosts show the model the text only, others the structure only. */
static void
content(struct jsonw *w, const struct call *c, const struct error *err,
    struct spilled_in *far)
{
	jsonw_array(w, "content");
	if (err != NULL)
		text_block(w, err->text, strlen(err->text));
	if (filled(&c->content))
		jsonw_raw(w, NULL, c->content.data, c->content.len);
	else if (filled(&c->text))
		text_block(w, c->text.data, c->text.len);
	else if (filled(&c->structured))
		object_block(w, c, far);
	jsonw_end(w);
}

static bool
answer_tool(const struct answer *a, const struct call *c,
    const struct error *err)
{
	struct spilled_in far = { .spilled = c->far };
	struct jsonw w;
	struct buf out;
	bool sent;

	rpc_begin(&w, &out, a->to);
	result_begin(&w, a->rows, a->to, false);
	content(&w, c, err, &far);
	if (filled(&c->structured)) {
		jsonw_raw(&w, "structuredContent", c->structured.data,
		    c->structured.len);
		if (c->far != NULL)
			far.at[far.n++] = out.len - c->structured.len +
			    c->far_at;
	}
	jsonw_bool(&w, "isError", err != NULL || c->is_error);
	jsonw_end(&w);
	a->rpc->far = c->far != NULL ? &far : NULL;
	sent = rpc_end(a->rpc, &w, a->to);
	a->rpc->far = NULL;
	return sent;
}

void
result_failed(struct rpc *rpc, const struct mcp_rows *rows,
    const struct rpc_to *to, const struct error *err)
{
	static const struct call none;
	struct answer a = { rpc, rows, to };

	(void)answer_tool(&a, &none, err);
}

/* The whole result is in c->structured; ours go in front of its members. */
static bool
answer_method(const struct answer *a, const struct call *c)
{
	const struct buf *s = &c->structured;
	struct jsonw w;
	struct buf out;

	rpc_begin(&w, &out, a->to);
	result_begin(&w, a->rows, a->to, false);
	result_caching(&w, a->to, c->tool->name);
	assert(s->len == 0 || (s->data[0] == '{' && s->len >= 2));
	if (s->len > 2) {
		if (w.comma)
			buf_puts(&out, ",");
		buf_put(&out, s->data + 1, s->len - 2);
	}
	jsonw_end(&w);
	return rpc_end(a->rpc, &w, a->to);
}

static void
answer_error(const struct answer *a, const struct call *c,
    const struct error *err)
{
	struct buf data;
	int code = RPC_INTERNAL;

	buf_init(&data, LIMIT_REPLY / 2);
	if (err->code == ERR_INPUT)
		code = RPC_PARAMS;
	if (err->code == ERR_GONE) {
		code = RPC_PARAMS;
		if (c->about.len > 0) {
			buf_puts(&data, "{\"uri\":");
			buf_put(&data, c->about.data, c->about.len);
			buf_puts(&data, "}");
			code = a->to->modern ? RPC_PARAMS : NO_RESOURCE;
		}
	}
	rpc_error(a->rpc, a->to, code, err->text, &data);
	buf_free(&data);
}

static bool
answer_ask(const struct answer *a, const struct call *c, struct error *err)
{
	struct jsonw w;
	struct buf out, state;

	if (!a->to->modern)
		return error_set(err, ERR_INPUT, "%s has to ask the user, "
		    "which needs a client of revision 2026-07-28",
		    c->tool->name) == 0;
	assert(c->state_text.len == 0 || a->rows->key != NULL);
	buf_init(&state, LIMIT_REPLY / 2);
	if (c->state_text.len > 0 && seal_make(a->rows->key, c->digest,
	    (long)time(NULL), c->state_text.data, c->state_text.len, &state,
	    err) == -1) {
		buf_free(&state);
		return false;
	}
	rpc_begin(&w, &out, a->to);
	open_as(&w, a->rows, a->to, "input_required", false);
	if (c->ask.len > 0)
		jsonw_raw(&w, "inputRequests", c->ask.data, c->ask.len);
	if (state.len > 0)
		jsonw_bytes(&w, "requestState", state.data, state.len);
	buf_free(&state);
	jsonw_end(&w);
	return rpc_end(a->rpc, &w, a->to);
}

void
result_answer(struct rpc *rpc, const struct mcp_rows *rows,
    const struct call *c, const struct error *err)
{
	struct rpc_to to = { c->ticket, c->batch, c->id, c->modern };
	struct answer a = { rpc, rows, &to };
	struct error why;
	bool sent, tool = result_is_tool(c->tool);

	(void)error_set(&why, ERR_LIMIT, "%s: the result is larger than %ld "
	    "bytes, ask for less", c->tool->name, (long)LIMIT_REPLY);
	if (err != NULL) {
		why = *err;
		sent = tool && answer_tool(&a, c, err);
	} else if (c->asking) {
		sent = answer_ask(&a, c, &why);
	} else {
		sent = tool ? answer_tool(&a, c, NULL) : answer_method(&a, c);
	}
	if (!sent && tool)
		result_failed(rpc, rows, &to, &why);
	else if (!sent)
		answer_error(&a, c, &why);
}
