/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api - what the agent answers to which request: mcp-sandbox-agent(1) is the
 * specification.
 */
#ifndef API_H
#define API_H

struct conn;
struct route;

/* Ends with a row without a method. */
const struct route *api_routes(void);
/* The task this connection waits for has ended, begun, or taken its time. */
void api_task(struct conn *c);

/* api-files.c */
void api_files_get(struct conn *c);
void api_files_put_begin(struct conn *c);
void api_files_put(struct conn *c);
void api_files_move(struct conn *c);
void api_files_delete(struct conn *c);

#endif
