/* SPDX-License-Identifier: Apache-2.0 */
/*
 * result - what an MCP result looks like, in either era.
 *
 * 2026-07-28 wants a resultType, the server's name and, of what may be kept,
 * for how long; a client of an older revision is not shown any of that.
 */
#ifndef RESULT_H
#define RESULT_H

#include <stdbool.h>

struct call;
struct error;
struct jsonw;
struct mcp_rows;
struct rpc;
struct rpc_to;
struct tool;

/* Opens the member "result". full: of the server all there is to say. */
void result_begin(struct jsonw *w, const struct mcp_rows *rows,
    const struct rpc_to *to, bool full);
void result_server(struct jsonw *w, const struct mcp_rows *rows,
    const char *key, bool full);
/* ttlMs and cacheScope, if the method's result has them. */
void result_caching(struct jsonw *w, const struct rpc_to *to,
    const char *method);

/* The answer to a call that is over, well or badly. */
void result_answer(struct rpc *rpc, const struct mcp_rows *rows,
    const struct call *c, const struct error *err);
/* A tool's result that only says why it failed. */
void result_failed(struct rpc *rpc, const struct mcp_rows *rows,
    const struct rpc_to *to, const struct error *err);

/* A tool, or the row of another method? */
bool result_is_tool(const struct tool *t);

#endif
