/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <time.h>

#include "audit.h"
#include "budget.h"
#include "buf.h"
#include "call.h"
#include "error.h"
#include "json.h"
#include "jsonw.h"
#include "mcp.h"
#include "mcp-own.h"
#include "result.h"
#include "rpc.h"
#include "seal.h"
#include "stash.h"
#include "tools.h"

static void
over(const struct mcp *m, const struct call *c, const struct error *err,
    bool cancelled)
{
	if (m->who != NULL && m->who->over != NULL)
		m->who->over(m->who->arg, c, err, cancelled);
}

void
mcp_on_answer(void *arg, struct call *c, const struct error *err)
{
	struct mcp *m = arg;

	m->status = 200;
	result_answer(&m->rpc, m->rows, c, err);
	rpc_batch_drop(&m->rpc, c->batch);
	over(m, c, err, false);
}

void
mcp_on_silent(void *arg, struct call *c)
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

void
mcp_on_notify(void *arg, struct call *c, const char *method, const char *params,
    size_t len)
{
	struct mcp *m = arg;

	rpc_notify(&m->rpc, c->ticket, method, params, len);
}

bool
mcp_wants_log(void *arg, struct call *c, const char *level)
{
	const struct mcp *m = arg;
	int least = c->modern ? c->log : m->level, i = 0;

	while (mcp_level_name(i) != NULL &&
	    strcmp(mcp_level_name(i), level) != 0)
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
	mcp_capability(&w, t->requires, true);
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
		mcp_refuse(r, RPC_PARAMS, "requestState: not expected");
		return -1;
	}
	if (seal_open(r->m->rows->key, proto->digest, (long)time(NULL),
	    raw + 1, len - 2, state, &err) == -1) {
		mcp_refuse(r, RPC_PARAMS, "%s", err.text);
		return -1;
	}
	proto->asked = state->data == NULL ? "" : state->data;
	return 0;
}

void
mcp_start(struct request *r, const struct tool *t, struct json args)
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
		mcp_refuse(r, RPC_PARAMS, "inputResponses: must be an object");
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
		mcp_refuse(r, err.code == ERR_INPUT ? RPC_PARAMS : RPC_INTERNAL,
		    "%s", err.text);
out:
	buf_free(&state);
}

void
mcp_call_tool(struct request *r)
{
	struct json name = json_get(r->params, "name");
	struct json args = json_get(r->params, "arguments");
	const struct tool *t = tools_find(r->m->rows->tools, name);
	char shown[96];

	if (json_type(name) != JSON_STRING)
		mcp_refuse(r, RPC_PARAMS, "name: the tool's name is required");
	else if (t == NULL)
		mcp_refuse(r, RPC_PARAMS, "Unknown tool: %s",
		    json_str(name, shown, sizeof(shown)) ? shown : "...");
	else if (json_type(args) != JSON_NONE &&
	    json_type(args) != JSON_OBJECT)
		mcp_refuse(r, RPC_PARAMS, "arguments: must be an object");
	else if (t->requires != NULL &&
	    json_type(json_get(r->client, t->requires)) != JSON_OBJECT)
		lacks(r, t);
	else if (mcp_params_ok(r, t, args))
		mcp_start(r, t, args);
}
