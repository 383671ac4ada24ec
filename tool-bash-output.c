/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bash_output: what a command of bash printed, from any place; and for one in
 * the background: its state, its end, its standard input.
 *
 *   FIND --> [STDIN] --> [STOP] --> STATE --> READ --> done
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "budget.h"
#include "buf.h"
#include "call.h"
#include "error.h"
#include "jsonw.h"
#include "lease.h"
#include "session.h"
#include "tools-bash.h"
#include "web.h"

enum { ANSWER_MS = 30 * 1000, SLACK_MS = 60 * 1000, WAIT_MAX_S = 60 };

enum output_state { OUTPUT_FIND, OUTPUT_STDIN, OUTPUT_STOP, OUTPUT_STATE,
	OUTPUT_READ };

struct output {
	enum output_state state;
	struct lease lease;
	struct web_op *op;
	char id[64], stream[8];
	struct buf input;
	bool write, close, stop;	/* still to be done */
	bool by_line;
	long at, limit, wait_s;
	char run[16];			/* what the command does */
	long exit_code;
	bool exited;
};

static const char *const streams[] = { "stdout", "stderr", NULL };

static const struct arg args[] = {
	{ "output_id", ARG_STRING, ARG_REQUIRED, 1, 63, .help =
	    "As bash returned it." },
	{ "stream", ARG_STRING, 0, .def = "\"stdout\"", .one_of = streams,
	    .help = NULL },
	{ "offset", ARG_INT, ARG_NULL, .def = "0", .help =
	    "First byte; below 0: from the end." },
	{ "line", ARG_INT, ARG_NULL, .help =
	    "First line instead, from 1; below 0: from the end." },
	{ "max_output_chars", ARG_INT, 0, 128, LIMIT_OUTPUT_CHARS, "30000",
	    .help = NULL },
	{ "wait", ARG_INT, 0, 0, WAIT_MAX_S, "0", .help =
	    "Seconds to wait for its end first." },
	{ "stdin", ARG_STRING, ARG_NULL, .help =
	    "Written to its standard input first." },
	{ "close_stdin", ARG_BOOL, 0, .def = "false", .help = NULL },
	{ "stop", ARG_BOOL, 0, .def = "false", .help =
	    "End it and all it started first." },
	{ NULL }
};

static const struct arg out[] = {
	{ "output", ARG_STRING, ARG_REQUIRED, .help = NULL },
	{ "next_offset", ARG_INT, ARG_REQUIRED, .help = NULL },
	{ "total_bytes", ARG_INT, ARG_REQUIRED, .help = "So far." },
	{ "state", ARG_STRING, ARG_REQUIRED, .help =
	    "running, exited, stopped, timed_out" },
	{ "exit_code", ARG_INT, ARG_REQUIRED | ARG_NULL, .help = NULL },
	{ NULL }
};

static enum step go_on(struct call *c, struct error *err);

static enum step
output_start(struct call *c, struct json arguments, struct error *err)
{
	const struct tool *t = c->tool;
	struct output *o = c->data;

	if (lease_check(c->env, err) == -1)
		return STEP_FAIL;
	if (!json_str(json_get(arguments, "output_id"), o->id,
	    sizeof(o->id)) || strspn(o->id, "0123456789abcdefghijklmnopqrstuvwx"
	    "yzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.") != strlen(o->id)) {
		error_set(err, ERR_INPUT, "output_id is not one of bash's");
		return STEP_FAIL;
	}
	if (!json_str(json_get(arguments, "stream"), o->stream,
	    sizeof(o->stream)))
		(void)snprintf(o->stream, sizeof(o->stream), "stdout");
	o->by_line = tools_has(arguments, "line");
	o->at = tools_int(t, arguments, o->by_line ? "line" : "offset");
	o->limit = tools_int(t, arguments, "max_output_chars");
	o->wait_s = tools_int(t, arguments, "wait");
	o->stop = tools_bool(t, arguments, "stop");
	o->close = tools_bool(t, arguments, "close_stdin");
	o->write = o->close || tools_has(arguments, "stdin");
	buf_init(&o->input, LIMIT_AGENT_BODY);
	if (tools_has(arguments, "stdin") && (!json_text(json_get(arguments,
	    "stdin"), &o->input) || !buf_ok(&o->input))) {
		error_set(err, ERR_LIMIT, "stdin is longer than %ld bytes",
		    (long)LIMIT_AGENT_BODY);
		return STEP_FAIL;
	}
	call_deadline(c, LIMIT_POD_MS + o->wait_s * 1000 + SLACK_MS);
	if (lease_known(&o->lease, c->env))
		return go_on(c, err);
	if (lease_find(&o->lease, c->env, false, call_event, c) == 0)
		return STEP_WAIT;
	error_set(err, ERR_SYSTEM, "out of memory");
	return STEP_FAIL;
}

static enum step
ask(struct call *c, enum output_state state, const char *method,
    const char *path, struct error *err)
{
	struct output *o = c->data;
	struct agent_req req = { .method = method, .path = path,
	    .token = session_token(o->lease.session),
	    .first_byte_ms = ANSWER_MS + o->wait_s * 1000,
	    .max_body = LIMIT_AGENT_READ + 1 };

	o->state = state;
	if (state == OUTPUT_STDIN) {
		req.body = o->input.data != NULL ? o->input.data : "";
		req.body_len = o->input.len;
		req.type = "application/octet-stream";
	}
	o->op = agent_send(o->lease.agent, &req, call_event, c, err);
	return o->op == NULL ? STEP_FAIL : STEP_WAIT;
}

static enum step
read_output(struct call *c, struct error *err)
{
	struct output *o = c->data;
	char path[256];

	(void)snprintf(path, sizeof(path), "/output/%s/%s?%s=%ld&limit=%ld",
	    o->id, o->stream, o->by_line ? "line" : "offset", o->at,
	    o->limit);
	return ask(c, OUTPUT_READ, "GET", path, err);
}

/* What is still to be done, in this order. */
static enum step
go_on(struct call *c, struct error *err)
{
	struct output *o = c->data;
	char path[256];

	if (o->write) {
		o->write = false;
		(void)snprintf(path, sizeof(path), "/run/%s/stdin%s", o->id,
		    o->close ? "?close=1" : "");
		return ask(c, OUTPUT_STDIN, "POST", path, err);
	}
	if (o->stop) {
		o->stop = false;
		(void)snprintf(path, sizeof(path), "/run/%s/stop", o->id);
		return ask(c, OUTPUT_STOP, "POST", path, err);
	}
	(void)snprintf(path, sizeof(path), "/run/%s?wait=%ld", o->id,
	    o->wait_s);
	return ask(c, OUTPUT_STATE, "GET", path, err);
}

static enum step
got_state(struct call *c, const struct event *ev, struct error *err)
{
	struct output *o = c->data;
	struct json_doc *doc = json_parse_lax(ev->data, ev->len, err);
	struct json root = json_root(doc);

	if (doc == NULL) {
		error_wrap(err, "the agent's answer");
		return STEP_FAIL;
	}
	if (!json_str(json_get(root, "state"), o->run, sizeof(o->run)))
		o->run[0] = '\0';
	o->exited = json_int(json_get(root, "exit_code"), -1000, 1000,
	    &o->exit_code);
	json_free(doc);
	return read_output(c, err);
}

static long
field(const struct web_op *op, const char *name)
{
	return strtol(web_field(op, name), NULL, 10);
}

/* Bytes at the end that begin a character and do not finish it. */
static size_t
unfinished(const char *s, size_t len)
{
	for (size_t n = 1; n <= 3 && n <= len; n++) {
		unsigned char b = (unsigned char)s[len - n];

		if ((b & 0xc0) == 0x80)
			continue;
		return (b >= 0xf0 && n < 4) || (b >= 0xe0 && n < 3) ||
		    (b >= 0xc0 && n < 2) ? n : 0;
	}
	return 0;
}

static enum step
got_output(struct call *c, const struct web_op *op, const struct event *ev)
{
	struct output *o = c->data;
	long next = field(op, "X-Next-Offset");
	size_t rest = ev->len < 4 ? 0 : unfinished(ev->data, ev->len);
	struct jsonw w;

	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	if (o->exited)
		jsonw_int(&w, "exit_code", o->exit_code);
	else
		jsonw_null(&w, "exit_code");
	jsonw_int(&w, "next_offset", next - (long)rest);
	jsonw_bytes(&w, "output", ev->data, ev->len - rest);
	jsonw_str(&w, "state", o->run);
	jsonw_int(&w, "total_bytes", field(op, "X-Total-Bytes"));
	jsonw_end(&w);
	return STEP_DONE;
}

static enum step
on_reply(struct call *c, const struct event *ev, struct error *err)
{
	struct output *o = c->data;
	struct web_op *op = o->op;

	o->op = NULL;
	if (ev->err != NULL || ev->status < 200 || ev->status > 299) {
		(void)agent_explain(o->lease.agent, op, ev, err);
		if (ev->status == 404)
			error_set(err, ERR_GONE, "there is no output '%s': "
			    "only the latest are kept, and none of an earlier "
			    "pod", o->id);
		if (ev->status == 401)
			session_distrust(o->lease.session);
		return STEP_FAIL;
	}
	if (o->state == OUTPUT_STATE)
		return got_state(c, ev, err);
	if (o->state == OUTPUT_READ)
		return got_output(c, op, ev);
	return go_on(c, err);
}

static enum step
output_next(struct call *c, const struct event *ev, struct error *err)
{
	struct output *o = c->data;

	if (c->state == CALL_STOPPING) {
		if (ev->type != EVENT_END)
			return STEP_WAIT;
		o->lease.find = NULL;
		return STEP_DONE;
	}
	if (o->state != OUTPUT_FIND)
		return ev->type == EVENT_REPLY ? on_reply(c, ev, err) :
		    STEP_WAIT;
	if (ev->type == EVENT_DATA)
		call_progress(c, "%s", ev->data);
	if (ev->type != EVENT_END)
		return STEP_WAIT;
	if (ev->err != NULL) {
		o->lease.find = NULL;
		*err = *ev->err;
		return STEP_FAIL;
	}
	lease_take(&o->lease);
	return go_on(c, err);
}

static enum step
output_stop(struct call *c)
{
	struct output *o = c->data;

	web_cancel(o->op);
	o->op = NULL;
	return lease_stop(&o->lease) ? STEP_WAIT : STEP_DONE;
}

static void
output_release(struct call *c)
{
	struct output *o = c->data;

	web_cancel(o->op);
	lease_drop(&o->lease);
	buf_wipe(&o->input);
}

const struct tool tool_bash_output = {
	.name = "bash_output",
	.title = "Output of the shell",
	.help = "More of what a command of bash printed, from any place. For "
	    "one in the background also its state, its end and its standard "
	    "input.",
	.family = "bash",
	.args = args,
	.out = out,
	.hints = HINT_OPEN_WORLD,
	.size = sizeof(struct output),
	.start = output_start,
	.next = output_next,
	.stop = output_stop,
	.release = output_release,
};
