/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "buf.h"
#include "error.h"
#include "json.h"
#include "jsonw.h"
#include "mcp.h"
#include "mcp-own.h"
#include "result.h"
#include "rpc.h"
#include "tools.h"

const char *const mcp_legacy[] = {
	"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25",
	NULL
};
enum { NLEGACY = sizeof(mcp_legacy) / sizeof(mcp_legacy[0]) - 1 };

/* RFC 5424's severities, the least first. */
static const char *const levels[] = {
	"debug", "info", "notice", "warning",
	"error", "critical", "alert", "emergency",
};
enum { NLEVELS = sizeof(levels) / sizeof(levels[0]) };

const struct tool *
mcp_row(const struct mcp *m, const char *method)
{
	const struct tool *const *t = m->rows->methods;

	for (; t != NULL && *t != NULL; t++)
		if (strcmp((*t)->name, method) == 0)
			return *t;
	return NULL;
}

void
mcp_capability(struct jsonw *w, const char *name, bool there)
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
	mcp_capability(w, "tools", m->rows->tools != NULL);
	if (mcp_row(m, "resources/list") != NULL) {
		jsonw_object(w, "resources");
		if (!modern && mcp_row(m, "resources/subscribe") != NULL)
			jsonw_bool(w, "subscribe", true);
		jsonw_end(w);
	}
	mcp_capability(w, "prompts", mcp_row(m, "prompts/list") != NULL);
	mcp_capability(w, "completions",
	    mcp_row(m, "completion/complete") != NULL);
	mcp_capability(w, "logging", m->rows->logging);
	jsonw_end(w);
}

void
mcp_discover(struct request *r)
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
void
mcp_initialize(struct request *r)
{
	struct json asked = json_get(r->params, "protocolVersion");
	const struct mcp_rows *rows = r->m->rows;
	size_t i = 0;
	struct jsonw w;
	struct buf out;

	if (r->to.batch != NULL) {
		mcp_refuse(r, RPC_REQUEST, "initialize must come alone");
		return;
	}
	if (json_type(asked) != JSON_STRING) {
		mcp_refuse(r, RPC_PARAMS, "protocolVersion: a string is "
		    "required");
		return;
	}
	while (i < NLEGACY - 1 && !json_is(asked, mcp_legacy[i]))
		i++;
	r->m->arrays = strcmp(mcp_legacy[i], "2025-03-26") == 0;
	rpc_begin(&w, &out, &r->to);
	result_begin(&w, r->m->rows, &r->to, true);
	jsonw_str(&w, "protocolVersion", mcp_legacy[i]);
	capabilities(&w, r->m, false);
	result_server(&w, rows, "serverInfo", true);
	if (rows->instructions != NULL)
		jsonw_str(&w, "instructions", rows->instructions);
	jsonw_end(&w);
	(void)rpc_end(&r->m->rpc, &w, &r->to);
}

void
mcp_empty(struct request *r)
{
	struct jsonw w;
	struct buf out;

	rpc_begin(&w, &out, &r->to);
	result_begin(&w, r->m->rows, &r->to, false);
	jsonw_end(&w);
	(void)rpc_end(&r->m->rpc, &w, &r->to);
}

const char *
mcp_level_name(int level)
{
	return level < NLEVELS ? levels[level] : NULL;
}

int
mcp_level(struct json v)
{
	for (int i = 0; i < NLEVELS; i++)
		if (json_is(v, levels[i]))
			return i;
	return -1;
}

void
mcp_set_level(struct request *r)
{
	int level = mcp_level(json_get(r->params, "level"));

	if (!r->m->rows->logging) {
		mcp_refuse(r, RPC_METHOD, "Method not found: %s", r->method);
	} else if (level == -1) {
		mcp_refuse(r, RPC_PARAMS, "level: must be one of debug, info, "
		    "notice, warning, error, critical, alert, emergency");
	} else {
		r->m->level = level;
		mcp_empty(r);
	}
}

/* Lists are one page here, so there is no cursor that could be ours. */
bool
mcp_cursor_ok(struct request *r)
{
	struct json cursor = json_get(r->params, "cursor");

	if (json_type(cursor) == JSON_NONE)
		return true;
	mcp_refuse(r, RPC_PARAMS, "cursor: unknown, the list is one page");
	return false;
}

void
mcp_list_tools(struct request *r)
{
	struct jsonw w;
	struct buf out;

	if (!mcp_cursor_ok(r))
		return;
	rpc_begin(&w, &out, &r->to);
	result_begin(&w, r->m->rows, &r->to, false);
	tools_list(&w, r->m->rows->tools);
	result_caching(&w, &r->to, r->method);
	jsonw_end(&w);
	if (!rpc_end(&r->m->rpc, &w, &r->to))
		mcp_refuse(r, RPC_INTERNAL, "the list is too large");
}
