/* SPDX-License-Identifier: Apache-2.0 */
/*
 * execute_command: one command, its output within a budget, its exit status.
 */
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "call.h"
#include "claim.h"
#include "error.h"
#include "excerpt.h"
#include "handle.h"
#include "jsonw.h"
#include "names.h"
#include "run.h"
#include "tools-sandbox.h"

enum { SLACK_MS = 60 * 1000 };	/* finding the way in, ending, telling */

struct execute {
	struct handle h;
	struct run *run;
	struct excerpt *output;
	struct buf command, cwd, input, vars;	/* vars: each ends with NUL */
	const char *env[LIMIT_ENV + 1];
	bool has_cwd;
	bool killed;			/* by a signal; or with its pod? */
	long code;
	long timeout_ms;
};

static const struct arg args[] = {
	HANDLE_ARGS,
	{ "command", ARG_STRING, ARG_REQUIRED | ARG_TERSE, 0, LIMIT_COMMAND,
	    .help = NULL },
	{ "timeout", ARG_INT, ARG_ABOVE, 0, 600, "60", .help =
	    "Seconds; then all of it is ended." },
	{ "max_output_chars", ARG_INT, 0, 128, LIMIT_OUTPUT_CHARS, "30000",
	    .help = "Of more: beginning and end." },
	{ "stdin", ARG_STRING, ARG_NULL | ARG_TERSE, 0, LIMIT_STDIN, NULL,
	    .help = NULL },
	{ "env", ARG_MAP, ARG_NULL | ARG_TERSE, 0, LIMIT_ENV, NULL,
	    .help = NULL },
	{ "cwd", ARG_STRING, ARG_NULL | ARG_TERSE, 1, 4096, NULL,
	    .help = NULL },
	{ NULL }
};

static const char *const statuses[] = { "exited", "timed_out",
    "connection_lost", "failed", NULL };

static const struct arg out[] = {
	{ "exit_code", ARG_INT, ARG_REQUIRED | ARG_NULL, .help = NULL },
	{ "stdout", ARG_STRING, ARG_REQUIRED, .help = NULL },
	{ "stderr", ARG_STRING, ARG_REQUIRED, .help = NULL },
	{ "stdout_total_chars", ARG_INT, ARG_REQUIRED, .help = NULL },
	{ "stderr_total_chars", ARG_INT, ARG_REQUIRED, .help = NULL },
	{ "stdout_truncated", ARG_BOOL, ARG_REQUIRED, .help = NULL },
	{ "stderr_truncated", ARG_BOOL, ARG_REQUIRED, .help = NULL },
	{ "status", ARG_STRING, ARG_REQUIRED, .one_of = statuses, .help =
	    NULL },
	{ NULL }
};

/* A string argument without NUL, into b. */
static int
text(struct json arguments, const char *name, struct buf *b, size_t max,
    struct error *err)
{
	struct json v = json_get(arguments, name);

	buf_init(b, max);
	if (!tools_has(arguments, name))
		return 0;
	if (!json_text(v, b) || !buf_ok(b))
		return error_set(err, ERR_LIMIT, "%s is longer than %zu bytes",
		    name, max);
	if (b->data != NULL && memchr(b->data, '\0', b->len) != NULL)
		return error_set(err, ERR_INPUT, "%s holds a NUL character, "
		    "which no program can be given", name);
	return 0;
}

/* "NAME=value" for each member, in e->vars, with pointers in e->env. */
static int
variables(struct execute *e, struct json map, struct error *err)
{
	size_t at = 0, n = 0;
	struct json m;

	buf_init(&e->vars, LIMIT_STDIN);
	for (m = json_first(map); json_type(m) != JSON_NONE; m = json_next(m)) {
		char name[256];

		if (!json_str(json_key(m), name, sizeof(name)))
			return error_set(err, ERR_INPUT, "env: a name is "
			    "longer than 255 bytes");
		if (name_variable("env", name, err) == -1)
			return -1;
		buf_printf(&e->vars, "%s=", name);
		if (!json_text(m, &e->vars))
			return error_set(err, ERR_INPUT, "env: %s is not "
			    "text", name);
		buf_put(&e->vars, "", 1);
		n++;
	}
	if (!buf_ok(&e->vars))
		return error_set(err, ERR_LIMIT, "env is longer than %d bytes",
		    LIMIT_STDIN);
	for (size_t i = 0; i < n; i++) {
		e->env[i] = e->vars.data + at;
		at += strlen(e->vars.data + at) + 1;
	}
	if (at != e->vars.len)
		return error_set(err, ERR_INPUT, "env: a value holds a NUL "
		    "character");
	return 0;
}

static enum step
execute_start(struct call *c, struct json arguments, struct error *err)
{
	const struct tool *t = c->tool;
	struct execute *e = c->data;

	e->timeout_ms = tools_int(t, arguments, "timeout") * 1000;
	e->has_cwd = tools_has(arguments, "cwd");
	if (text(arguments, "command", &e->command, LIMIT_COMMAND, err) == -1 ||
	    text(arguments, "cwd", &e->cwd, 4096, err) == -1 ||
	    variables(e, json_get(arguments, "env"), err) == -1)
		return STEP_FAIL;
	buf_init(&e->input, LIMIT_STDIN);
	if (tools_has(arguments, "stdin") &&
	    !json_text(json_get(arguments, "stdin"), &e->input)) {
		error_set(err, ERR_LIMIT, "stdin is longer than %d bytes",
		    LIMIT_STDIN);
		return STEP_FAIL;
	}
	e->output = excerpt_open((size_t)tools_int(t, arguments,
	    "max_output_chars"));
	if (e->output == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return STEP_FAIL;
	}
	call_deadline(c, e->timeout_ms + SLACK_MS);
	e->h.enter = true;
	if (handle_start(c, arguments, &e->h, err) == -1)
		return STEP_FAIL;
	return STEP_WAIT;
}

static void
write_result(struct call *c, const char *status, const long *code)
{
	struct execute *e = c->data;
	struct excerpt_totals t[2];
	struct buf b[2];
	struct jsonw w;

	for (int i = 0; i < 2; i++) {
		buf_init(&b[i], LIMIT_REPLY);
		excerpt_text(e->output, i, &b[i], &t[i]);
	}
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	if (code != NULL)
		jsonw_int(&w, "exit_code", *code);
	else
		jsonw_null(&w, "exit_code");
	jsonw_bytes(&w, "stdout", b[0].data != NULL ? b[0].data : "",
	    b[0].len);
	jsonw_bytes(&w, "stderr", b[1].data != NULL ? b[1].data : "",
	    b[1].len);
	jsonw_int(&w, "stdout_total_chars", (long)t[0].total);
	jsonw_int(&w, "stderr_total_chars", (long)t[1].total);
	jsonw_bool(&w, "stdout_truncated", t[0].truncated);
	jsonw_bool(&w, "stderr_truncated", t[1].truncated);
	jsonw_str(&w, "status", status);
	jsonw_end(&w);
	buf_free(&b[0]);
	buf_free(&b[1]);
}

/* The claim is there: run the command in its sandbox. */
static enum step
begin(struct call *c, const struct event *ev, struct error *err)
{
	struct execute *e = c->data;
	struct claim claim;
	struct run_req req;

	if (handle_ready(c, ev, &e->h, &claim, err) == -1)
		return STEP_FAIL;
	if (e->killed) {
		write_result(c, "exited", &e->code);
		return STEP_DONE;
	}
	req = (struct run_req){
		.namespace = e->h.namespace, .sandbox = claim.sandbox,
		.address = claim.address, .claim = claim.uid,
		.timeout_ms = e->timeout_ms,
		.command = e->command.data != NULL ? e->command.data : "",
		.cwd = e->has_cwd ? e->cwd.data : NULL,
		.input = e->input.data, .input_len = e->input.len,
		.env = e->env, .known = e->h.known,
	};
	if ((e->run = run_start(c->env, &req, call_event, c)) == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return STEP_FAIL;
	}
	call_holds(c, "maybe a command in sandbox claim %s/%s",
	    e->h.namespace, e->h.name);
	/* It may have to begin again, see handle_over(). */
	if (!e->h.known) {
		buf_free(&e->command);
		buf_free(&e->input);
		buf_free(&e->vars);
	}
	return STEP_WAIT;
}

/* It did not exit by itself: say so first, then what came until then. */
static enum step
broken_off(struct call *c, const struct error *why, struct error *err)
{
	const char *status = why->code == ERR_TIMEOUT ? "timed_out" :
	    why->code == ERR_LOST ? "connection_lost" : "failed";

	*err = *why;
	if (strcmp(status, "failed") == 0) {
		error_wrap(err, "Failed to execute command in sandbox");
		return STEP_FAIL;
	}
	write_result(c, status, NULL);
	buf_printf(&c->text, "%s\n", why->text);
	buf_put(&c->text, c->structured.data, c->structured.len);
	c->is_error = true;
	return STEP_DONE;
}

static enum step
execute_next(struct call *c, const struct event *ev, struct error *err)
{
	struct execute *e = c->data;
	char line[160];

	switch (ev->type) {
	case EVENT_REPLY:
		return begin(c, ev, err);
	case EVENT_DATA:
		if (excerpt_put(e->output, ev->channel == 2 ? EXCERPT_ERR :
		    EXCERPT_OUT, ev->data, ev->len) == -1) {
			error_set(err, ERR_SYSTEM, "out of memory");
			return STEP_FAIL;
		}
		excerpt_last_line(e->output, line, sizeof(line));
		call_progress(c, "%s", line);
		return STEP_WAIT;
	case EVENT_END:
		e->run = NULL;
		if (c->state == CALL_STOPPING) {
			if (ev->err != NULL && ev->err->code == ERR_LOST)
				call_left(c, "a command in sandbox claim %s/%s",
				    e->h.namespace, e->h.name);
			return STEP_DONE;
		}
		if (handle_over(c, &e->h, ev->err))
			return STEP_WAIT;
		if (ev->err != NULL)
			return broken_off(c, ev->err, err);
		e->code = ev->code;
		e->killed = ev->code > 128;
		if (e->killed && handle_reread(c, &e->h))
			return STEP_WAIT;
		write_result(c, "exited", &ev->code);
		return STEP_DONE;
	default:
		call_progress(c, "running");
		return STEP_WAIT;
	}
}

static enum step
execute_stop(struct call *c)
{
	struct execute *e = c->data;

	if (e->run == NULL)
		return STEP_DONE;
	run_stop(e->run, true);
	return STEP_WAIT;
}

static void
execute_release(struct call *c)
{
	struct execute *e = c->data;

	handle_close(&e->h);
	run_close(e->run);
	excerpt_close(e->output);
	buf_free(&e->command);
	buf_free(&e->cwd);
	buf_free(&e->input);
	buf_free(&e->vars);
}

const struct tool tool_execute_command = {
	.name = "execute_command",
	.title = "Execute command",
	.help = "Run a shell command in a sandbox. Every call is a new shell; "
	    "files stay. Redirect a background program's output to a file.",
	.family = "agent-sandbox",
	.args = args,
	.out = out,
	.hints = HINT_DESTRUCTIVE | HINT_OPEN_WORLD,
	.size = sizeof(struct execute),
	.start = execute_start,
	.next = execute_next,
	.stop = execute_stop,
	.release = execute_release,
};
