/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bash: a command in the session's kept shell.
 *
 *  [FIND]--> EXEC --> done
 *    ^        || \--(not assigned)--> ASSIGN --> EXEC
 *    |        |\-----(the agent was lost)--> WHY --> failed
 *    \--------/ (nothing was sent, or the token is not the pod's: once)
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "agent.h"
#include "budget.h"
#include "buf.h"
#include "call.h"
#include "config.h"
#include "env.h"
#include "error.h"
#include "jsonw.h"
#include "lease.h"
#include "manifest.h"
#include "podend.h"
#include "session.h"
#include "tools-bash.h"
#include "web.h"

enum {
	TIMEOUT_S = 60, TIMEOUT_MAX_S = 300,
	QUEUE_MS = 300 * 1000,	/* behind other commands, and telling */
	ASSIGN_MS = 10000,
	TRIES = 3,
};

enum bash_state { BASH_FIND, BASH_EXEC, BASH_ASSIGN, BASH_WHY };

struct bash {
	enum bash_state state;
	struct lease lease;
	struct web_op *op;
	struct podend *end;
	struct error lost;		/* what WHY is asked for */
	struct buf body;
	bool background;
	bool assigned;			/* it was told once */
	long timeout_s;
	size_t limit;			/* bytes of a stream */
	unsigned tries;
};

static const struct arg args[] = {
	{ "command", ARG_STRING, ARG_REQUIRED, 0, 0, .help =
	    "Command for the shell: anything that it takes." },
	{ "timeout", ARG_INT, ARG_NULL, 0, 0, .help =
	    "Seconds until it is ended with all it started: 60 unless given, "
	    "at most 300." },
	{ "stdin", ARG_STRING, ARG_NULL, 0, 0, .help =
	    "Its standard input; empty when not given." },
	{ "reset", ARG_BOOL, 0, 0, 0, "false", .help =
	    "Begin with a fresh shell; files stay." },
	{ "background", ARG_BOOL, 0, 0, 0, "false", .help =
	    "Return when it has begun, with an output_id for bash_output; it "
	    "has no time limit unless timeout is given." },
	{ "stdin_open", ARG_BOOL, 0, 0, 0, "false", .help =
	    "With background: bash_output may write to its standard input." },
	{ "max_output_chars", ARG_INT, 0, 128, LIMIT_OUTPUT_CHARS, "300000",
	    .help = "Of each of stdout and stderr; of a longer one the "
	    "beginning and the end are returned." },
	{ NULL }
};

static const struct arg out[] = {
	{ "stdout", ARG_STRING, ARG_REQUIRED, .help = NULL },
	{ "stderr", ARG_STRING, ARG_REQUIRED, .help = NULL },
	{ "exit_code", ARG_INT, ARG_REQUIRED, .help = NULL },
	{ "duration_ms", ARG_INT, ARG_REQUIRED, .help = NULL },
	{ "timed_out", ARG_BOOL, 0, .help = NULL },
	{ "oom", ARG_BOOL, 0, .help =
	    "It failed, and something was killed for want of memory." },
	{ "truncated", ARG_BOOL, 0, .help = NULL },
	{ "stdout_total_bytes", ARG_INT, 0, .help = NULL },
	{ "stderr_total_bytes", ARG_INT, 0, .help = NULL },
	{ "session_reset", ARG_BOOL, 0, .help =
	    "The shell was started anew: what was set in it is gone." },
	{ "survivors", ARG_INT, 0, .help =
	    "Processes that would not be ended." },
	{ "output_id", ARG_STRING, 0, .help =
	    "For bash_output: the command in the background, or the whole of a "
	    "long output." },
	{ NULL }
};

static enum step
fail(struct error *err)
{
	error_wrap(err, "sandbox exec failed");
	return STEP_FAIL;
}

static enum step
fail_memory(struct error *err)
{
	error_set(err, ERR_SYSTEM, "out of memory");
	return fail(err);
}

/* --- asking -------------------------------------------------------------- */

static void
string(struct jsonw *w, const char *key, struct json v)
{
	size_t len;
	const char *raw = json_raw(v, &len);

	jsonw_raw(w, key, raw, len);
}

static void
write_body(struct call *c, struct json arguments)
{
	const struct tool *t = c->tool;
	struct bash *b = c->data;
	bool limited = tools_int(t, arguments, "timeout") > 0;
	struct jsonw w;

	jsonw_init(&w, &b->body);
	jsonw_object(&w, NULL);
	string(&w, "command", json_get(arguments, "command"));
	if (!b->background || limited)
		jsonw_int(&w, "timeout", b->timeout_s);
	if (tools_has(arguments, "stdin"))
		string(&w, "stdin", json_get(arguments, "stdin"));
	if (tools_bool(t, arguments, "reset"))
		jsonw_bool(&w, "reset", true);
	if (b->background)
		jsonw_bool(&w, "background", true);
	if (b->background && tools_bool(t, arguments, "stdin_open"))
		jsonw_bool(&w, "stdin_open", true);
	jsonw_int(&w, "max_output_bytes", (long)b->limit);
	jsonw_end(&w);
}

static enum step execute(struct call *c, struct error *err);

static enum step
find(struct call *c, bool doubt, struct error *err)
{
	struct bash *b = c->data;

	if (!doubt && lease_known(&b->lease, c->env))
		return execute(c, err);
	b->state = BASH_FIND;
	call_deadline(c, LIMIT_POD_MS + 60 * 1000L);
	return lease_find(&b->lease, c->env, doubt, call_event, c) == -1 ?
	    fail_memory(err) : STEP_WAIT;
}

static long
clamp(long seconds)
{
	if (seconds <= 0)
		return TIMEOUT_S;
	return seconds > TIMEOUT_MAX_S ? TIMEOUT_MAX_S : seconds;
}

/* What a session without a pod would begin with. */
static int
bash_plan(struct call *c, struct json arguments, struct buf *path,
    struct buf *body, struct error *err)
{
	const struct env *env = c->env;
	const struct config_pod *pod = &env->config->pod;
	char name[96], now[40];

	(void)arguments;
	if (lease_check(env, err) == -1)
		return -1;
	(void)snprintf(name, sizeof(name), "cli-mcp-sandbox-%.63s",
	    lease_session(env));
	manifest_now(now);
	manifest_path(path, sessions_namespace(env->sessions), "pods", NULL);
	manifest_pod(body, pod, name, lease_session(env), now);
	return 0;
}

static enum step
bash_start(struct call *c, struct json arguments, struct error *err)
{
	const struct tool *t = c->tool;
	struct bash *b = c->data;

	if (lease_check(c->env, err) == -1)
		return STEP_FAIL;
	if (json_bytes(json_get(arguments, "command")) == 0 &&
	    !tools_bool(t, arguments, "reset")) {
		error_set(err, ERR_INPUT, "command is required");
		return STEP_FAIL;
	}
	b->timeout_s = clamp(tools_int(t, arguments, "timeout"));
	b->background = tools_bool(t, arguments, "background");
	b->limit = (size_t)tools_int(t, arguments, "max_output_chars");
	buf_init(&b->body, LIMIT_AGENT_BODY);
	write_body(c, arguments);
	if (!buf_ok(&b->body)) {
		error_set(err, ERR_LIMIT, "command and stdin are longer than "
		    "%ld bytes together", (long)LIMIT_AGENT_BODY);
		return fail(err);
	}
	return find(c, false, err);
}

static enum step
send(struct call *c, enum bash_state state, const char *path,
    const struct buf *body, struct error *err)
{
	struct bash *b = c->data;
	struct agent_req req = { .method = "POST", .path = path,
	    .body = body->data, .body_len = body->len,
	    .first_byte_ms = state == BASH_ASSIGN ? ASSIGN_MS : -1,
	    .max_body = LIMIT_AGENT_ANSWER };

	b->state = state;
	if (state == BASH_EXEC)
		req.token = session_token(b->lease.session);
	b->op = agent_send(b->lease.agent, &req, call_event, c, err);
	return b->op == NULL ? fail(err) : STEP_WAIT;
}

static enum step
execute(struct call *c, struct error *err)
{
	struct bash *b = c->data;

	call_deadline(c, b->timeout_s * 1000 + QUEUE_MS);
	call_progress(c, "running");
	return send(c, BASH_EXEC, "/exec", &b->body, err);
}

/* A warm pod whose agent was started anew, or whose claimer is gone. */
static enum step
assign(struct call *c, struct error *err)
{
	struct bash *b = c->data;
	struct jsonw w;
	struct buf body;
	enum step step;

	b->assigned = true;
	buf_init(&body, 1024);
	jsonw_init(&w, &body);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "token", session_token(b->lease.session));
	jsonw_end(&w);
	step = send(c, BASH_ASSIGN, "/assign", &body, err);
	buf_wipe(&body);
	return step;
}

/* --- telling ------------------------------------------------------------- */

/*
 * One stream: what came, or its beginning and its end. tail: what the agent
 * left of the rest when it cut; an agent that cannot cut is helped.
 */
static void
stream(struct jsonw *w, const char *key, const struct buf *head,
    const struct buf *tail, long total, size_t limit, bool *cut)
{
	const char *h = head->data, *t = tail->data;
	size_t hn = head->len, tn = tail->len;
	struct buf text;

	if (tn == 0 && hn > limit) {
		total = total > (long)hn ? total : (long)hn;
		tn = limit / 2;
		t = h + hn - tn;
		hn = limit / 2;
	} else if (tn > limit / 2 || (tn > 0 && hn > limit / 2)) {
		t += tn > limit / 2 ? tn - limit / 2 : 0;
		tn = tn > limit / 2 ? limit / 2 : tn;
		hn = hn > limit / 2 ? limit / 2 : hn;
	}
	if (tn == 0) {
		jsonw_bytes(w, key, h != NULL ? h : "", hn);
		return;
	}
	*cut = true;
	/* Whole characters only. */
	while (hn > 0 && hn < head->len && (h[hn] & 0xc0) == 0x80)
		hn--;
	while (tn > 0 && (*t & 0xc0) == 0x80) {
		t++;
		tn--;
	}
	buf_init(&text, LIMIT_REPLY);
	buf_put(&text, h, hn);
	buf_printf(&text, "\n[... %ld bytes left out ...]\n",
	    total - (long)hn - (long)tn);
	buf_put(&text, t, tn);
	if (buf_ok(&text))
		jsonw_bytes(w, key, text.data, text.len);
	else
		w->out->failed = true;
	buf_free(&text);
}

struct answer {
	struct buf text[2], tail[2];	/* stdout, stderr */
	long total[2];
	long exit_code, duration_ms, survivors;
	bool timed_out, truncated, reset, background, oom;
	char id[64];
};

static void
write_answer(struct buf *to, const struct answer *a, size_t limit)
{
	bool cut = a->truncated;
	struct buf streams[2];
	struct jsonw w;

	for (int i = 0; i < 2; i++) {
		buf_init(&streams[i], LIMIT_AGENT_ANSWER);
		jsonw_init(&w, &streams[i]);
		stream(&w, NULL, &a->text[i], &a->tail[i], a->total[i], limit,
		    &cut);
		to->failed |= !buf_ok(&streams[i]);
	}
	jsonw_init(&w, to);
	jsonw_object(&w, NULL);
	jsonw_int(&w, "duration_ms", a->duration_ms);
	jsonw_int(&w, "exit_code", a->exit_code);
	if (a->oom)
		jsonw_bool(&w, "oom", true);
	if (a->id[0] != '\0' && (cut || a->background))
		jsonw_str(&w, "output_id", a->id);
	if (a->reset)
		jsonw_bool(&w, "session_reset", true);
	jsonw_raw(&w, "stderr", streams[1].data, streams[1].len);
	if (cut)
		jsonw_int(&w, "stderr_total_bytes", a->total[1]);
	jsonw_raw(&w, "stdout", streams[0].data, streams[0].len);
	if (cut)
		jsonw_int(&w, "stdout_total_bytes", a->total[0]);
	if (a->survivors > 0)
		jsonw_int(&w, "survivors", a->survivors);
	if (a->timed_out)
		jsonw_bool(&w, "timed_out", true);
	if (cut)
		jsonw_bool(&w, "truncated", true);
	jsonw_end(&w);
	buf_free(&streams[0]);
	buf_free(&streams[1]);
}

/* Bytes of the reply that holds it, once as it is and once as a string. */
static size_t
reply_size(const struct buf *b)
{
	size_t n = 2 * b->len + 4096;

	for (size_t i = 0; i < b->len; i++)
		n += b->data[i] == '"' || b->data[i] == '\\';
	return n;
}

static bool
read_answer(struct answer *a, struct json o, bool background)
{
	static const char *const names[2] = { "stdout", "stderr" };
	char name[32];

	for (int i = 0; i < 2; i++) {
		buf_init(&a->text[i], LIMIT_AGENT_ANSWER);
		buf_init(&a->tail[i], LIMIT_AGENT_ANSWER);
		if (!json_text(json_get(o, names[i]), &a->text[i]) &&
		    !background)
			return false;
		(void)snprintf(name, sizeof(name), "%s_tail", names[i]);
		(void)json_text(json_get(o, name), &a->tail[i]);
		(void)snprintf(name, sizeof(name), "%s_total_bytes", names[i]);
		if (!json_int(json_get(o, name), 0, LONG_MAX, &a->total[i]))
			a->total[i] = (long)a->text[i].len;
	}
	(void)json_int(json_get(o, "duration_ms"), 0, LONG_MAX,
	    &a->duration_ms);
	(void)json_int(json_get(o, "survivors"), 0, LONG_MAX, &a->survivors);
	(void)json_bool(json_get(o, "timed_out"), &a->timed_out);
	(void)json_bool(json_get(o, "oom"), &a->oom);
	(void)json_bool(json_get(o, "truncated"), &a->truncated);
	(void)json_bool(json_get(o, "session_reset"), &a->reset);
	a->background = background;
	if (background)
		return json_str(json_get(o, "id"), a->id, sizeof(a->id));
	(void)json_str(json_get(o, "output_id"), a->id, sizeof(a->id));
	return json_int(json_get(o, "exit_code"), -1000, 1000, &a->exit_code);
}

static enum step
tell(struct call *c, const struct event *ev, struct error *err)
{
	struct bash *b = c->data;
	struct answer a = { .exit_code = 0 };
	struct json_doc *doc;
	size_t limit = b->limit;
	enum step step = STEP_DONE;

	if ((doc = json_parse_lax(ev->data, ev->len, err)) == NULL) {
		error_wrap(err, "the agent's answer");
		return fail(err);
	}
	if (!read_answer(&a, json_root(doc), b->background)) {
		error_set(err, ERR_CLUSTER, "the agent's answer is not one: it "
		    "has no %s", b->background ? "id (is it an older agent, "
		    "without background commands?)" : "exit_code or output");
		step = fail(err);
	} else {
		a.reset |= session_renewed(b->lease.session);
		write_answer(&c->structured, &a, limit);
		/* What JSON makes long is cut once more. */
		while (limit > 64 && reply_size(&c->structured) >
		    LIMIT_REPLY) {
			limit /= 2;
			buf_reset(&c->structured, 0);
			write_answer(&c->structured, &a, limit);
		}
		c->is_error = a.exit_code != 0;
	}
	json_free(doc);
	for (int i = 0; i < 2; i++) {
		buf_free(&a.text[i]);
		buf_free(&a.tail[i]);
	}
	return step;
}

/* --- events -------------------------------------------------------------- */

static enum step
on_found(struct call *c, const struct event *ev, struct error *err)
{
	struct bash *b = c->data;

	if (ev->type == EVENT_DATA)
		call_progress(c, "%s", ev->data);
	if (ev->type != EVENT_END)
		return STEP_WAIT;
	if (ev->err != NULL) {
		b->lease.find = NULL;
		*err = *ev->err;
		return fail(err);
	}
	lease_take(&b->lease);
	return execute(c, err);
}

/* The agent went with the command. Did its pod? */
static enum step
lost(struct call *c, struct error *err)
{
	struct bash *b = c->data;
	const struct env *env = c->env;

	error_wrap(err, "the connection was lost, and the command may have "
	    "run");
	b->state = BASH_WHY;
	b->lost = *err;
	b->end = podend_start(c->env, sessions_namespace(env->sessions),
	    session_pod(b->lease.session), call_event, c);
	return b->end == NULL ? fail(err) : STEP_WAIT;
}

static enum step
on_why(struct call *c, const struct event *ev, struct error *err)
{
	struct bash *b = c->data;

	b->end = NULL;
	*err = b->lost;
	if (ev->data[0] != '\0')
		error_set(err, b->lost.code, "the session's pod has ended: "
		    "%.400s. The command may have run; the next one gets a "
		    "fresh pod", ev->data);
	return fail(err);
}

static enum step
on_reply(struct call *c, const struct event *ev, struct error *err)
{
	struct bash *b = c->data;
	struct web_op *op = b->op;
	bool unsent;

	b->op = NULL;
	if (ev->err == NULL && ev->status == 200) {
		if (b->state == BASH_ASSIGN)
			return execute(c, err);
		return tell(c, ev, err);
	}
	unsent = agent_explain(b->lease.agent, op, ev, err) &&
	    session_alone(b->lease.session);
	if (b->state == BASH_EXEC && ev->status == 503 && !b->assigned &&
	    strstr(err->text, "not assigned") != NULL)
		return assign(c, err);
	if (ev->err != NULL)
		session_doubt(b->lease.session);
	if (ev->status == 401)
		session_distrust(b->lease.session);
	if ((unsent || ev->status == 401) && ++b->tries < TRIES) {
		lease_drop(&b->lease);
		return find(c, unsent, err);
	}
	if (err->code == ERR_LIMIT)
		error_set(err, ERR_LIMIT, "the agent's answer exceeds maximum "
		    "size, %ld bytes", (long)LIMIT_AGENT_ANSWER);
	else if (err->code == ERR_LOST && !unsent)
		return lost(c, err);
	return fail(err);
}

static enum step
bash_next(struct call *c, const struct event *ev, struct error *err)
{
	struct bash *b = c->data;

	if (c->state == CALL_STOPPING) {
		if (ev->type != EVENT_END)
			return STEP_WAIT;
		b->lease.find = NULL;
		return STEP_DONE;
	}
	if (b->state == BASH_FIND)
		return on_found(c, ev, err);
	if (b->state == BASH_WHY)
		return ev->type == EVENT_END ? on_why(c, ev, err) : STEP_WAIT;
	return ev->type == EVENT_REPLY ? on_reply(c, ev, err) : STEP_WAIT;
}

/* The agent ends a command whose connection goes. */
static enum step
bash_stop(struct call *c)
{
	struct bash *b = c->data;

	web_cancel(b->op);
	podend_close(b->end);
	b->op = NULL;
	b->end = NULL;
	return lease_stop(&b->lease) ? STEP_WAIT : STEP_DONE;
}

static void
bash_release(struct call *c)
{
	struct bash *b = c->data;

	web_cancel(b->op);
	podend_close(b->end);
	lease_drop(&b->lease);
	buf_wipe(&b->body);
}

const struct tool tool_bash = {
	.name = "bash",
	.title = "Shell",
	.help = "Run a command in a shell that is kept: its working directory, "
	    "variables, functions and files are there for the next command. "
	    "The shell is in a pod of its own, made at the first command; file "
	    "tools reach it as sandbox_claim_name \"@bash\".",
	.family = "bash",
	.args = args,
	.out = out,
	.hints = HINT_DESTRUCTIVE | HINT_OPEN_WORLD,
	.size = sizeof(struct bash),
	.plan = bash_plan,
	.start = bash_start,
	.next = bash_next,
	.stop = bash_stop,
	.release = bash_release,
};
