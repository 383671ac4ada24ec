/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api.h"
#include "budget.h"
#include "json.h"
#include "jsonw.h"
#include "mono.h"
#include "serve.h"
#include "task.h"

#define JSON "application/json"
#define RESET_NOTICE "[session state was reset \xe2\x80\x94 " \
	"previous bash process exited]"
#define TIMEOUT_NOTICE "command timed out"

enum {
	TIMEOUT_S = 60,
	OUTPUT_BYTES = 512 << 10,
	READ_BYTES = 64 << 10,
	READ_LINES = 1000,
	GRACE_S = 2,
	WAIT_S = 60,
	OUT_MAX = 15 << 20
};

static void
answer_json(struct conn *c, int status, struct buf *b)
{
	buf_puts(b, "\n");
	if (buf_ok(b))
		conn_answer(c, status, JSON, NULL, b->data, b->len);
	else
		conn_error(c, 500, "the answer is too long");
	buf_free(b);
}

/* The last member of this name, in any case, as the original reads it. */
static struct json
member(struct json root, const char *name)
{
	struct json m, found = { .tok = -1 };
	char key[64];

	for (m = json_first(root); json_type(m) != JSON_NONE; m = json_next(m))
		if (json_str(json_key(m), key, sizeof(key)) &&
		    strcasecmp(key, name) == 0)
			found = m;
	return json_type(found) == JSON_NULL ? (struct json){ .tok = -1 } :
	    found;
}

/* --- health, assign, info ------------------------------------------------- */

static void
handle_health(struct conn *c)
{
	bool ok = !shell_broken(tasks_shell(c->serve->tasks));
	struct buf b;
	struct jsonw w;

	buf_init(&b, 256);
	jsonw_init(&w, &b);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "status", ok ? "ok" : "unhealthy");
	if (strncmp(c->http.target, "/v1", 3) == 0)
		jsonw_int(&w, "uptime_seconds",
		    (mono_ms() - c->serve->begin_ms) / 1000);
	jsonw_end(&w);
	answer_json(c, ok ? 200 : 503, &b);
}

static void
assign(struct conn *c, const char *token, size_t len)
{
	struct serve *s = c->serve;

	if (len == 0) {
		conn_error(c, 400, "token is required");
		return;
	}
	if (s->token != NULL && !serve_token_is(s, token, len)) {
		conn_error(c, 409, "already assigned");
		return;
	}
	if (s->token == NULL && (s->token = strndup(token, len)) == NULL)
		conn_error(c, 500, "out of memory");
	else
		conn_answer(c, 200, NULL, NULL, NULL, 0);
}

static void
handle_assign(struct conn *c)
{
	struct error err;
	struct json_doc *doc = json_parse_lax(c->body.data != NULL ?
	    c->body.data : "", c->body.len, &err);
	struct json root = json_root(doc), token = member(root, "token");
	struct buf b;

	buf_init(&b, 4096);
	if ((json_type(root) != JSON_OBJECT && json_type(root) != JSON_NULL) ||
	    (json_type(token) != JSON_NONE && (!json_text(token, &b) ||
	    memchr(b.len > 0 ? b.data : "", '\0', b.len) != NULL)))
		conn_error(c, 400, "invalid request body");
	else
		assign(c, b.data, b.len);
	buf_wipe(&b);
	json_free(doc);
}

static void
handle_info(struct conn *c)
{
	struct tasks *tasks = c->serve->tasks;
	struct task *t;
	long n = 0, now = mono_ms();
	char cwd[4096];
	struct buf b;
	struct jsonw w;

	for (t = task_first(tasks); t != NULL; t = t->next)
		n++;
	shell_cwd(tasks_shell(tasks), cwd, sizeof(cwd));
	buf_init(&b, 64 << 10);
	jsonw_init(&w, &b);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "agent", "mcp-sandbox-agent");
	jsonw_str(&w, "version", VERSION);
	jsonw_str(&w, "shell",
	    shell_is_bash(tasks_shell(tasks)) ? "bash" : "sh");
	jsonw_bool(&w, "assigned", c->serve->token != NULL);
	jsonw_bool(&w, "busy", tasks_busy(tasks));
	jsonw_int(&w, "uptime_seconds", (now - c->serve->begin_ms) / 1000);
	jsonw_int(&w, "idle_seconds", (now - c->serve->last_ms) / 1000);
	jsonw_int(&w, "queued", (long)tasks_waiting(tasks));
	jsonw_int(&w, "runs", n);
	jsonw_bytes(&w, "cwd", cwd, strlen(cwd));
	jsonw_end(&w);
	answer_json(c, 200, &b);
}

/* --- the state of a task -------------------------------------------------- */

static const char *
state_word(const struct task *t)
{
	if (t->state != TASK_ENDED)
		return t->state == TASK_WAITING ? "waiting" : "running";
	return t->timed_out ? "timed_out" : t->stopped ? "stopped" : "exited";
}

static long
duration(const struct task *t)
{
	if (t->begin_ms == 0)
		return 0;
	return (t->end_ms != 0 ? t->end_ms : mono_ms()) - t->begin_ms;
}

static void
put_task(const struct task *t, struct jsonw *w, const char *key)
{
	jsonw_object(w, key);
	jsonw_str(w, "id", t->id);
	jsonw_str(w, "state", state_word(t));
	jsonw_bool(w, "background", t->background);
	if (t->state == TASK_ENDED)
		jsonw_int(w, "exit_code", t->exit_code);
	else
		jsonw_null(w, "exit_code");
	jsonw_int(w, "duration_ms", duration(t));
	jsonw_int(w, "stdout_total_bytes", (long)t->out[0].spool.total);
	jsonw_int(w, "stderr_total_bytes", (long)t->out[1].spool.total);
	jsonw_int(w, "survivors", (long)t->survivors);
	jsonw_bool(w, "stdin_open", t->input_open);
	jsonw_end(w);
}

static void
answer_task(struct conn *c, const struct task *t)
{
	struct buf b;
	struct jsonw w;

	buf_init(&b, 4096);
	jsonw_init(&w, &b);
	put_task(t, &w, NULL);
	answer_json(c, 200, &b);
}

/* --- exec ----------------------------------------------------------------- */

struct text {
	struct buf first, last;
	uint64_t left_out;	/* between the two */
};

static void
trim(struct buf *b)
{
	while (b->len > 0 && b->data[b->len - 1] == '\n')
		b->len--;
}

static bool
take(struct text *t, const struct spool *s, size_t max)
{
	buf_init(&t->first, LIMIT_AGENT_OUTPUT + LIMIT_AGENT_TAIL);
	buf_init(&t->last, LIMIT_AGENT_OUTPUT + LIMIT_AGENT_TAIL);
	if (!spool_excerpt(s, max, &t->first, &t->last))
		return false;
	t->left_out = s->total - t->first.len - t->last.len;
	trim(t->left_out > 0 ? &t->last : &t->first);
	return true;
}

/* For a client that does not ask for the two parts: one text. */
static bool
join(struct text *t)
{
	if (t->left_out == 0)
		return true;
	buf_printf(&t->first, "%s[... %llu bytes left out ...]\n",
	    t->first.len > 0 && t->first.data[t->first.len - 1] != '\n' ?
	    "\n" : "", (unsigned long long)t->left_out);
	buf_put(&t->first, t->last.data, t->last.len);
	buf_reset(&t->last, 0);
	return buf_ok(&t->first);
}

/* What came before the command, and what we have to say after it. */
static bool
surround(struct conn *c, const struct task *t, bool was_reset,
    struct text *text)
{
	struct buf *late = tasks_late(c->serve->tasks);
	struct buf whole, *end = text->last.len > 0 ? &text->last :
	    &text->first;

	if (t->timed_out)
		buf_printf(end, "%s" TIMEOUT_NOTICE, end->len > 0 ? "\n" : "");
	buf_init(&whole, LIMIT_AGENT_OUTPUT + LIMIT_AGENT_TAIL);
	if (was_reset && !c->ours)
		buf_puts(&whole, RESET_NOTICE "\n");
	buf_put(&whole, late->data, late->len);
	if (late->len > 0 && late->data[late->len - 1] != '\n')
		buf_puts(&whole, "\n");
	buf_put(&whole, text->first.data, text->first.len);
	if (text->first.len == 0)
		trim(&whole);
	buf_reset(late, 0);
	buf_free(&text->first);
	text->first = whole;
	return buf_ok(&whole) && buf_ok(&text->last);
}

static void
put_exec(struct conn *c, const struct task *t, const struct text text[2],
    bool was_reset, struct jsonw *w)
{
	static const char *const names[] = { "stdout", "stderr" },
	    *const tails[] = { "stdout_tail", "stderr_tail" };
	int i;

	jsonw_object(w, NULL);
	for (i = 0; i < 2; i++)
		jsonw_bytes(w, names[i], text[i].first.data,
		    text[i].first.len);
	jsonw_int(w, "exit_code", t->exit_code);
	jsonw_int(w, "duration_ms", duration(t));
	jsonw_bool(w, "timed_out", t->timed_out);
	jsonw_bool(w, "oom", t->oom);
	jsonw_bool(w, "truncated", text[0].left_out > 0 ||
	    text[1].left_out > 0);
	for (i = 0; i < 2; i++)
		if (text[i].left_out > 0 && c->parts)
			jsonw_bytes(w, tails[i], text[i].last.data,
			    text[i].last.len);
	jsonw_int(w, "stdout_total_bytes", (long)t->out[0].spool.total);
	jsonw_int(w, "stderr_total_bytes", (long)t->out[1].spool.total);
	jsonw_str(w, "output_id", t->id);
	jsonw_bool(w, "session_reset", t->reset || was_reset);
	jsonw_int(w, "survivors", (long)t->survivors);
	jsonw_end(w);
}

static void
answer_exec(struct conn *c, const struct task *t)
{
	/* The reset of this very command is told by the next answer's notice
	 * to those who can't see session_reset. */
	bool was_reset = !t->reset && tasks_was_reset(c->serve->tasks);
	bool ok = true;
	struct text text[2] = { 0 };
	struct buf b;
	struct jsonw w;
	int i;

	if (t->reset && c->ours)
		(void)tasks_was_reset(c->serve->tasks);
	for (i = 0; i < 2; i++) {
		ok = ok && take(&text[i], &t->out[i].spool, c->max_output);
		if (ok && !c->parts)
			ok = join(&text[i]);
	}
	ok = ok && surround(c, t, was_reset, &text[1]);
	buf_init(&b, OUT_MAX);
	jsonw_init(&w, &b);
	if (ok) {
		put_exec(c, t, text, was_reset, &w);
		answer_json(c, 200, &b);
	} else {
		conn_error(c, 500, "out of memory for the output");
	}
	for (i = 0; i < 2; i++) {
		buf_free(&text[i].first);
		buf_free(&text[i].last);
	}
}

/* What of a request has to live until it is submitted. */
struct request {
	struct buf text, input, cwd;
	char *env[2 * LIMIT_ENV + 1];
	size_t n_env;
	struct task_spec spec;
};

static void
request_free(struct request *r)
{
	size_t i;

	buf_free(&r->text);
	buf_free(&r->input);
	buf_free(&r->cwd);
	for (i = 0; i < r->n_env; i++)
		free(r->env[i]);
}

static bool
clean_text(struct json v, struct buf *b)
{
	return json_text(v, b) &&
	    memchr(b->len > 0 ? b->data : "", '\0', b->len) == NULL;
}

static bool
is_name(const char *s)
{
	return *s != '\0' && (*s < '0' || *s > '9') &&
	    s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "0123456789_")] == '\0';
}

/* NULL, or what is wrong. */
static const char *
parse_env(struct json env, struct request *r)
{
	struct json m;
	struct buf b;
	char name[256];
	bool ok;

	if (json_count(env) > LIMIT_ENV)
		return "env: too many variables";
	for (m = json_first(env); json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		if (!json_str(json_key(m), name, sizeof(name)) ||
		    !is_name(name))
			return "env: a name is letters, digits and _";
		buf_init(&b, LIMIT_AGENT_BODY);
		ok = clean_text(m, &b);
		if (ok) {
			r->env[r->n_env] = strdup(name);
			r->n_env += r->env[r->n_env] != NULL;
			r->env[r->n_env] = strdup(b.len > 0 ? b.data : "");
			r->n_env += r->env[r->n_env] != NULL;
		}
		buf_free(&b);
		if (!ok)
			return "env: a value is a string without NUL";
	}
	r->spec.command.env = (const char *const *)r->env;
	return r->n_env % 2 == 0 ? NULL : "env: out of memory";
}

static bool
parse_flag(struct json root, const char *name, bool *flag, bool *ours)
{
	struct json v = member(root, name);

	if (json_type(v) == JSON_NONE)
		return true;
	*ours = true;
	return json_bool(v, flag);
}

static const char *
parse_ours(struct conn *c, struct json root, struct request *r)
{
	struct shell_command *cmd = &r->spec.command;
	struct json v;
	long n;

	if (!parse_flag(root, "background", &cmd->background, &c->ours))
		return "background: true or false";
	if (!parse_flag(root, "stdin_open", &cmd->input_open, &c->ours))
		return "stdin_open: true or false";
	if (!parse_flag(root, "reset", &r->spec.fresh, &c->ours))
		return "reset: true or false";
	if (json_type(v = member(root, "stdin")) != JSON_NONE) {
		c->ours = true;
		if (!json_text(v, &r->input))
			return "stdin: a string";
		cmd->input = r->input.len > 0 ? r->input.data : "";
		cmd->input_len = r->input.len;
	}
	if (json_type(v = member(root, "cwd")) != JSON_NONE) {
		c->ours = true;
		if (!clean_text(v, &r->cwd))
			return "cwd: a path";
		cmd->cwd = r->cwd.len > 0 ? r->cwd.data : NULL;
	}
	if (json_type(v = member(root, "max_output_bytes")) != JSON_NONE) {
		c->ours = c->parts = true;
		if (!json_int(v, 0, LIMIT_AGENT_OUTPUT, &n))
			return "max_output_bytes: from 0 to 1048576";
		c->max_output = (size_t)n;
	}
	if (json_type(v = member(root, "env")) != JSON_NONE) {
		c->ours = true;
		if (json_type(v) != JSON_OBJECT)
			return "env: an object of strings";
		return parse_env(v, r);
	}
	if (cmd->input_open && (!cmd->background || cmd->input != NULL))
		return "stdin_open: only with background, and without stdin";
	return NULL;
}

static const char *
parse_exec(struct conn *c, struct json root, struct request *r)
{
	static const char bad[] = "invalid request body";
	struct json v;
	const char *why;
	long timeout = 0;

	if (json_type(root) != JSON_OBJECT && json_type(root) != JSON_NULL)
		return bad;
	v = member(root, "command");
	if (json_type(v) != JSON_NONE && !clean_text(v, &r->text))
		return bad;
	v = member(root, "timeout");
	if (json_type(v) != JSON_NONE && !json_int(v, -(1L << 53), 1L << 53,
	    &timeout))
		return bad;
	if ((why = parse_ours(c, root, r)) != NULL)
		return why;
	if (r->text.len == 0 && !r->spec.fresh)
		return "command is required";
	r->spec.command.text = r->text.len > 0 ? r->text.data : "";
	r->spec.command.len = r->text.len;
	if (timeout <= 0)
		timeout = r->spec.command.background ? 0 : TIMEOUT_S;
	if (timeout > LIMIT_AGENT_TIMEOUT)
		timeout = LIMIT_AGENT_TIMEOUT;
	r->spec.timeout_ms = timeout * 1000;
	return NULL;
}

static void
submit(struct conn *c, const struct request *r)
{
	struct tasks *tasks = c->serve->tasks;
	struct error err = { 0 };
	struct shell *shell = tasks_shell(tasks);
	struct task *t;

	/* A shell that could not be started may be there by now. */
	if (shell_broken(shell) && shell_start(shell, &err) == -1) {
		conn_error(c, 500, err.text);
		return;
	}
	if ((t = task_submit(tasks, &r->spec, &err)) == NULL) {
		conn_error(c, err.code == ERR_BUSY ? 503 : 500, err.text);
		return;
	}
	conn_wait(c, WAIT_EXEC, t, -1);
	tasks_run(tasks);
}

static void
handle_exec(struct conn *c)
{
	struct error err;
	struct json_doc *doc = json_parse_lax(c->body.data != NULL ?
	    c->body.data : "", c->body.len, &err);
	struct request *r = calloc(1, sizeof(*r));
	const char *why;

	if (r == NULL) {
		json_free(doc);
		conn_error(c, 500, "out of memory");
		return;
	}
	buf_init(&r->text, LIMIT_AGENT_BODY);
	buf_init(&r->input, LIMIT_AGENT_BODY);
	buf_init(&r->cwd, 4096);
	c->ours = c->parts = false;
	c->max_output = OUTPUT_BYTES;
	why = parse_exec(c, json_root(doc), r);
	json_free(doc);
	if (why != NULL)
		conn_error(c, 400, why);
	else
		submit(c, r);
	request_free(r);
	free(r);
}

/* --- runs ----------------------------------------------------------------- */

static struct task *
the_task(struct conn *c)
{
	struct task *t = NULL;
	char id[PROCS_MARK_MAX];

	if (http_decode(c->part, c->part_len, id, sizeof(id)) >= 0)
		t = task_find(c->serve->tasks, id);
	if (t == NULL)
		conn_error(c, 404, "no such run: it was never there, its "
		    "output had to make room, or the agent was started anew");
	else
		task_check(t);
	return t;
}

void
api_task(struct conn *c)
{
	const struct task *t = c->task;

	if (c->wait == WAIT_EXEC && t->state == TASK_ENDED && !t->background)
		answer_exec(c, t);
	else if (c->wait == WAIT_EXEC && !t->background)
		return;
	else if (c->wait == WAIT_EXEC && (t->began || t->state == TASK_ENDED))
		answer_task(c, t);
	else if (c->wait == WAIT_TASK && (t->state == TASK_ENDED ||
	    c->deadline <= mono_ms()))
		answer_task(c, t);
}

static void
handle_run(struct conn *c)
{
	struct task *t = the_task(c);
	int64_t wait = 0;

	if (t == NULL)
		return;
	if (conn_number(c, "wait", 0, WAIT_S, &wait) == -1)
		conn_error(c, 400, "wait: from 0 to 60 seconds");
	else if (t->state == TASK_ENDED || wait == 0)
		answer_task(c, t);
	else
		conn_wait(c, WAIT_TASK, t, (long)wait * 1000);
}

static void
handle_runs(struct conn *c)
{
	struct task *t;
	struct buf b;
	struct jsonw w;

	buf_init(&b, 256 << 10);
	jsonw_init(&w, &b);
	jsonw_object(&w, NULL);
	jsonw_array(&w, "runs");
	for (t = task_first(c->serve->tasks); t != NULL; t = t->next)
		put_task(t, &w, NULL);
	jsonw_end(&w);
	jsonw_end(&w);
	answer_json(c, 200, &b);
}

static void
handle_stdin(struct conn *c)
{
	struct task *t = the_task(c);
	struct error err;
	int64_t end = 0;

	if (t == NULL)
		return;
	if (conn_number(c, "close", 0, 1, &end) == -1)
		conn_error(c, 400, "close: 0 or 1");
	else if (task_input(t, c->body.data, c->body.len, end == 1,
	    &err) == -1)
		conn_error(c, err.code == ERR_CONFLICT ? 409 :
		    err.code == ERR_BUSY ? 503 : 500, err.text);
	else
		conn_answer(c, 204, NULL, NULL, NULL, 0);
}

static void
handle_stop(struct conn *c)
{
	struct task *t = the_task(c);
	int64_t grace = GRACE_S;

	if (t == NULL)
		return;
	if (conn_number(c, "grace", 0, WAIT_S, &grace) == -1) {
		conn_error(c, 400, "grace: from 0 to 60 seconds");
		return;
	}
	conn_wait(c, WAIT_TASK, t, ((long)grace + 10) * 1000);
	task_stop(t, (long)grace * 1000);
	if (c->state == CONN_WAIT && t->state == TASK_ENDED)
		answer_task(c, t);
}

/* --- output --------------------------------------------------------------- */

/* What the query asks for; false: it is answered. */
static bool
output_range(struct conn *c, const struct spool *s, uint64_t *offset,
    uint64_t *len, int64_t *line)
{
	int64_t at = 0, limit = READ_BYTES, lines = READ_LINES;

	if (conn_number(c, "limit", 1, LIMIT_AGENT_READ, &limit) == -1 ||
	    conn_number(c, "lines", 1, INT32_MAX, &lines) == -1 ||
	    conn_number(c, "offset", INT64_MIN, INT64_MAX, &at) == -1 ||
	    conn_number(c, "line", INT64_MIN, INT64_MAX, line) == -1) {
		conn_error(c, 400, "offset, limit, line and lines are "
		    "numbers, limit up to 4194304");
		return false;
	}
	*len = (uint64_t)limit;
	if (*line == 0) {
		if (at < 0)
			at = -at > (int64_t)s->total ? 0 :
			    at + (int64_t)s->total;
		*offset = (uint64_t)at;
		return true;
	}
	if (spool_find(s, line, (uint64_t)lines, (uint64_t)limit, offset,
	    len) == 0)
		return true;
	if (*line > (int64_t)spool_lines(s)) {
		*offset = s->total;
		*len = 0;
		return true;
	}
	conn_error(c, 416, "this line was not kept; the first and the last "
	    "were");
	return false;
}

/* -1: it begins where nothing was kept. */
static int
copy(const struct spool *s, uint64_t at, uint64_t len, struct buf *out)
{
	char room[16 << 10];
	long n;

	while (len > 0) {
		n = spool_read(s, at, room, len < sizeof(room) ? (size_t)len :
		    sizeof(room));
		if (n == -1 && out->len == 0)
			return -1;
		if (n <= 0)
			break;
		buf_put(out, room, (size_t)n);
		at += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return 0;
}

static void
output(struct conn *c, int which)
{
	const struct task *t = the_task(c);
	const struct spool *s;
	uint64_t offset = 0, len = 0;
	int64_t line = 0;
	struct buf extra, b;

	if (t == NULL)
		return;
	s = &t->out[which].spool;
	if (!output_range(c, s, &offset, &len, &line))
		return;
	buf_init(&b, LIMIT_AGENT_READ);
	if (copy(s, offset, len, &b) == -1) {
		conn_error(c, 416, "this part was not kept; the first and "
		    "the last were");
		return;
	}
	buf_init(&extra, 1024);
	buf_printf(&extra, "X-Offset: %llu\r\nX-Next-Offset: %llu\r\n"
	    "X-Total-Bytes: %llu\r\nX-Kept-Bytes: %llu\r\nX-State: %s\r\n",
	    (unsigned long long)offset, (unsigned long long)(offset + b.len),
	    (unsigned long long)s->total, (unsigned long long)s->kept,
	    t->out[which].fd != -1 || t->state == TASK_WAITING ? "open" :
	    "ended");
	if (line != 0)
		buf_printf(&extra, "X-Line: %lld\r\nX-Total-Lines: %llu\r\n",
		    (long long)line, (unsigned long long)spool_lines(s));
	conn_answer(c, 200, "application/octet-stream", extra.data, b.data,
	    b.len);
	buf_free(&extra);
	buf_free(&b);
}

static void
handle_stdout(struct conn *c)
{
	output(c, 0);
}

static void
handle_stderr(struct conn *c)
{
	output(c, 1);
}

const struct route *
api_routes(void)
{
	static const struct route routes[] = {
		{ "POST", "/exec", BODY_WHOLE, .handle = handle_exec },
		{ "POST", "/assign", BODY_WHOLE, .open = true,
		    .handle = handle_assign },
		{ "GET", "/health", .open = true, .quiet = true,
		    .handle = handle_health },
		{ "HEAD", "/health", .open = true, .quiet = true,
		    .handle = handle_health },
		{ "GET", "/v1/health", .open = true, .quiet = true,
		    .handle = handle_health },
		{ "GET", "/info", .handle = handle_info, .quiet = true },
		{ "GET", "/runs", .handle = handle_runs },
		{ "GET", "/run/*", .handle = handle_run },
		{ "POST", "/run/*/stdin", BODY_WHOLE,
		    .handle = handle_stdin },
		{ "POST", "/run/*/stop", .handle = handle_stop },
		{ "GET", "/output/*/stdout", .handle = handle_stdout },
		{ "GET", "/output/*/stderr", .handle = handle_stderr },
		{ "GET", "/v1/files/**", .handle = api_files_get },
		{ "HEAD", "/v1/files/**", .handle = api_files_get },
		{ "PUT", "/v1/files/**", BODY_FILE,
		    .begin = api_files_put_begin, .handle = api_files_put },
		{ "POST", "/v1/files/**", BODY_WHOLE,
		    .handle = api_files_move },
		{ "DELETE", "/v1/files/**", .handle = api_files_delete },
		{ NULL, NULL, BODY_NONE }
	};

	return routes;
}
