/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcp - JSON-RPC 2.0 and the Model Context Protocol, revisions 2024-11-05 to
 * 2025-11-25 (with initialize) and 2026-07-28 (stateless), told apart by each
 * request. No I/O: a message in, messages out through a function. It knows no
 * Kubernetes; what can be called comes as rows.
 */
#ifndef MCP_H
#define MCP_H

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct call;
struct error;
struct loop;
struct mcp;
struct spilled;
struct spilled_in;
struct tool;

/* What a server offers. Everything is borrowed. */
struct mcp_rows {
	const char *name, *title, *version, *website;
	const char *instructions;
	const struct tool *const *tools;	/* NULL at the end */
	/*
	 * Other methods, as rows named by their method: resources/list,
	 * resources/templates/list, resources/read, prompts/list,
	 * prompts/get, completion/complete, resources/subscribe, ... Which
	 * capabilities are declared follows from them. ERR_INPUT is answered
	 * with -32602, ERR_GONE as "resource not found" of the revision.
	 */
	const struct tool *const *methods;
	bool logging;		/* notifications/message may come */
	const unsigned char *key;	/* 32 bytes, seals requestState */
};

/*
 * One message for the client, without a newline. ticket is that of the
 * message it answers or belongs to; last: nothing more comes for that ticket.
 * Empty: it was cancelled, there is nothing to say. The buffer may be taken,
 * another left in its place.
 */
typedef void mcp_send(void *arg, long ticket, struct buf *json, bool last);

struct mcp *mcp_open(struct loop *l, const struct mcp_rows *rows, void *env,
    mcp_send *send, void *arg, struct error *err);
void mcp_close(struct mcp *m);

/*
 * One message from the client, without its newline; borrowed. Whatever the
 * bytes are, this answers or stays silent as JSON-RPC says; it never fails.
 * http: NULL for a line.
 */
struct mcp_http {
	const char *version;	/* MCP-Protocol-Version; NULL: not there */
	const char *method, *name;	/* Mcp-Method, Mcp-Name */
	/* Any other field; NULL: not there. */
	const char *(*field)(void *arg, const char *name);
	void *arg;
};
/* spilled: the strings that have left text, borrowed; NULL: none has. */
void mcp_message(struct mcp *m, const char *text, size_t len,
    struct spilled *spilled, long ticket, const struct mcp_http *http);
/* The client sent a message that is no JSON or too long; its text is gone. */
void mcp_unreadable(struct mcp *m, const struct error *why, long ticket);
/* Inside of mcp_send: the HTTP status that goes with this message. */
int mcp_status(const struct mcp *m);
/* Inside of mcp_send: what goes into this message (stash.h), or NULL. */
const struct spilled_in *mcp_far(const struct mcp *m);
/* Was the message that came last of 2026-07-28 or later? */
bool mcp_modern(const struct mcp *m);
/* Is an answer owed for this ticket? */
bool mcp_waits(const struct mcp *m, long ticket);

/*
 * Who sends the messages that come from now on. Borrowed until mcp_close(), as
 * calls keep env and name. over is told of every call that has ended: err is
 * why it failed; cancelled: nothing was answered.
 */
struct mcp_caller {
	void *env;		/* NULL: mcp_open()'s */
	const char *name;
	const char *refusal;	/* why no tool works for it, or NULL */
	void (*over)(void *arg, const struct call *c, const struct error *err,
	    bool cancelled);
	void *arg;
};
void mcp_caller(struct mcp *m, const struct mcp_caller *who);
/* Lines refused so far; past LIMIT_BAD_LINES the loop ends the connection. */
long mcp_bad_lines(const struct mcp *m);

void mcp_cancel_ticket(struct mcp *m, long ticket);	/* HTTP: it left */
void mcp_end(struct mcp *m);		/* end of input: stop all calls */
size_t mcp_live(const struct mcp *m);	/* calls not yet FREE */
size_t mcp_left(const struct mcp *m);	/* objects left in the cluster */

#endif
