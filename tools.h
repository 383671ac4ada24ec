/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tools - the table of what a client can call, and the rules for a row.
 *
 * tools/list prints schemas from a row, tools/call checks against it, and the
 * man page's table is generated from it, so the three cannot disagree.
 */
#ifndef TOOLS_H
#define TOOLS_H

#include <stdbool.h>
#include <stddef.h>

#include "json.h"

struct buf;
struct call;
struct error;
struct event;
struct jsonw;

enum arg_type {
	ARG_STRING, ARG_INT, ARG_NUMBER, ARG_BOOL,
	ARG_MAP,		/* an object whose values are strings */
	ARG_OBJECT,		/* members: of */
	ARG_ARRAY,		/* elements: the first row of "of" */
};

enum {
	ARG_REQUIRED = 1,
	ARG_NULL = 2,		/* null is taken as well */
	ARG_ABOVE = 4,		/* min itself is not allowed */
	ARG_TERSE = 8,		/* the list tells of no null and no length */
	ARG_LONG = 16,		/* a string that may have left (json_far()) */
};

struct arg {
	const char *name;	/* NULL in the row that ends the table */
	enum arg_type type;
	unsigned flags;
	long min, max;		/* value; characters; elements. 0, 0: none */
	const char *def;	/* the default as JSON, or NULL */
	const char *const *one_of;	/* allowed strings, or NULL */
	const struct arg *of;
	const char *help;	/* what it means, units, side effects */
	/* Over HTTP the field Mcp-Param-this says it, too; or NULL. Of a
	 * string, an integer or a boolean, and not inside of others. */
	const char *header;
};

enum step {
	STEP_WAIT,		/* something is under way that calls next() */
	STEP_DONE,		/* the result is in the call */
	STEP_ASK,	/* call_ask() was called: the client must answer */
	STEP_FAIL		/* the error says why */
};

enum {				/* ToolAnnotations; a bit left out is false */
	HINT_READ_ONLY = 1, HINT_DESTRUCTIVE = 2,
	HINT_IDEMPOTENT = 4, HINT_OPEN_WORLD = 8,
};

struct tool {
	const char *name;	/* or, for other methods, "resources/read" */
	const char *title;
	const char *help;
	const char *family;	/* what --tools may name besides the tool */
	const struct arg *args;
	const struct arg *out;	/* of structuredContent; NULL: no schema */
	const char *in_schema;	/* raw JSON instead of args; not checked */
	unsigned hints;
	const char *requires;	/* a client capability, or NULL (-32021) */
	size_t size;	/* of the tool's own state, call->data, zeroed */
	/*
	 * start() sees the arguments, checked; it copies what it keeps. next()
	 * is called for each event of what the tool began. Every way out leads
	 * through stop(), which gives back what is held in the cluster:
	 * STEP_DONE, or STEP_WAIT and next() goes on being called, with
	 * call->state CALL_STOPPING, until it says otherwise. Then release()
	 * closes and frees what this process holds. Both may be NULL.
	 */
	enum step (*start)(struct call *, struct json args, struct error *);
	/*
	 * For --dry-run, where start() would make an object: that object, and
	 * the collection it goes to. Not of the call: its data.
	 */
	int (*plan)(struct call *, struct json args, struct buf *path,
	    struct buf *body, struct error *);
	enum step (*next)(struct call *, const struct event *, struct error *);
	enum step (*stop)(struct call *);
	void (*release)(struct call *);
};

/* rows: pointers to tools, NULL at the end. */
const struct tool *tools_find(const struct tool *const *rows, struct json name);
void tools_list(struct jsonw *w, const struct tool *const *rows);

/*
 * Type, bounds, one_of, unknown names, nested tables; all faults are named in
 * one text (argument, rule, value). As the Python original, takes "20", 20.0
 * and true for an integer and "yes", "on", 1 and so on for a boolean. For
 * another method (a name with a slash) members without a row are let pass. A
 * max below or at a min of 0 is none; ARG_ABOVE with 0, 0 has a min only.
 */
int tools_check(const struct tool *tool, struct json args, struct error *err);

/* Values after tools_check(), the default where an argument is not given. */
bool tools_has(struct json args, const char *name);	/* given and not null */
long tools_int(const struct tool *t, struct json args, const char *name);
bool tools_bool(const struct tool *t, struct json args, const char *name);

#endif
