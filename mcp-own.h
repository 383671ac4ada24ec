/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcp-own - what the files of mcp share: the state of a connection, a request
 * while it is being served, and who answers what. For mcp*.c only.
 */
#ifndef MCP_OWN_H
#define MCP_OWN_H

#include <stdbool.h>
#include <stddef.h>

#include "json.h"
#include "rpc.h"

struct call;
struct error;
struct jsonw;
struct tool;

#define MODERN_VERSION "2026-07-28"
#define META "io.modelcontextprotocol/"

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

/* mcp.c: the request is answered with an error. */
void mcp_refuse(struct request *r, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* mcp-self.c: what the server says of itself. */
extern const char *const mcp_legacy[];	/* the oldest first; NULL at the end */
const struct tool *mcp_row(const struct mcp *m, const char *method);
void mcp_capability(struct jsonw *w, const char *name, bool there);
int mcp_level(struct json v);		/* RFC 5424's, the least is 0; -1 */
const char *mcp_level_name(int level);	/* NULL past the last */
bool mcp_cursor_ok(struct request *r);
void mcp_discover(struct request *r);
void mcp_initialize(struct request *r);
void mcp_empty(struct request *r);
void mcp_set_level(struct request *r);
void mcp_list_tools(struct request *r);

/* mcp-call.c: a tool's way in and out. */
void mcp_call_tool(struct request *r);
void mcp_start(struct request *r, const struct tool *t, struct json args);
void mcp_on_answer(void *arg, struct call *c, const struct error *err);
void mcp_on_silent(void *arg, struct call *c);
void mcp_on_notify(void *arg, struct call *c, const char *method,
    const char *params, size_t len);
bool mcp_wants_log(void *arg, struct call *c, const char *level);

/* mcp-field.c: does HTTP's head say the same as the message? */
bool mcp_header_ok(struct request *r);
bool mcp_names_ok(struct request *r);
bool mcp_params_ok(struct request *r, const struct tool *t, struct json args);

#endif
