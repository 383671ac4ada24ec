/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc - JSON-RPC 2.0 on its way out: replies, errors, notifications, and the
 * arrays in which one of MCP's revisions wants them.
 *
 * A message is written between rpc_begin() and rpc_end() into a buffer of at
 * most LIMIT_REPLY bytes, and leaves whole or not at all.
 */
#ifndef RPC_H
#define RPC_H

#include <stdbool.h>
#include <stddef.h>

#include "json.h"

struct batch;
struct buf;
struct jsonw;
struct spilled_in;

enum {
	RPC_PARSE = -32700, RPC_REQUEST = -32600, RPC_METHOD = -32601,
	RPC_PARAMS = -32602, RPC_INTERNAL = -32603,
};

/* As mcp_send (mcp.h). */
typedef void rpc_send(void *arg, long ticket, struct buf *json, bool last);

struct rpc {
	rpc_send *send;
	void *arg;
	/* While a message is sent that has such strings; else NULL. */
	const struct spilled_in *far;
	struct batch *batches;		/* rpc.c's own */
};

/* Whom a reply goes to. */
struct rpc_to {
	long ticket;
	struct batch *batch;		/* NULL: not in one */
	const char *id;			/* raw JSON; "": could not be read */
	bool modern;			/* MCP 2026-07-28 or later */
};

enum { RPC_ID_SIZE = 259, RPC_ID_DIGITS = 64 };

/*
 * An id or a token as it came, or false: a string of at most LIMIT_ID bytes,
 * or an integer of any value, which no double could hold.
 */
bool rpc_id(struct json v, char dst[RPC_ID_SIZE]);

/* The root object is open in w; out is rpc_end()'s to free. */
void rpc_begin(struct jsonw *w, struct buf *out, const struct rpc_to *to);
/* False: it was too large, and nothing was sent. */
bool rpc_end(struct rpc *r, struct jsonw *w, const struct rpc_to *to);
/* data: an object as JSON, or NULL; left out when there is no room for it. */
void rpc_error(struct rpc *r, const struct rpc_to *to, int code,
    const char *text, const struct buf *data);
/* params: an object as JSON. Never part of a batch. */
void rpc_notify(struct rpc *r, long ticket, const char *method,
    const char *params, size_t len);

/*
 * A batch is sent when the one who opened it and every call that was given a
 * hold on it have dropped it. NULL: no memory.
 */
struct batch *rpc_batch_open(struct rpc *r, long ticket);
void rpc_batch_hold(struct batch *b);			/* NULL is fine */
void rpc_batch_drop(struct rpc *r, struct batch *b);	/* NULL is fine */
void rpc_batch_free_all(struct rpc *r);

#endif
