/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "jsonw.h"
#include "log.h"
#include "loop.h"
#include "mono.h"
#include "stash.h"
#include "utf8.h"

enum {
	DEADLINE_MS = 5 * 60 * 1000,	/* unless the tool says otherwise */
	APART_MS = 250,			/* between two progress messages */
	DRAIN_MS = LIMIT_DRAIN_MS - 300,/* so that what is left can be named */
	NOTE_MAX = 512, LOG_MAX = 8192,
};

struct calls {
	struct loop *loop;
	void *env;
	struct call_sink sink;
	struct log log;
	size_t left;			/* of the calls that are over */
	size_t used;		/* of table: the rest was never touched */
	struct call table[LIMIT_CALLS];
};

struct calls *
calls_open(struct loop *l, void *env, const struct call_sink *sink,
    struct error *err)
{
	struct calls *cs = calloc(1, sizeof(*cs));

	if (cs == NULL) {
		(void)error_sys(err, "calls");
		return NULL;
	}
	cs->loop = l;
	cs->env = env;
	cs->sink = *sink;
	log_open(&cs->log, LOG_WARN);
	return cs;
}

/* The call is over; whatever comes for it later finds it free. */
static void
release(struct call *c)
{
	if (c->tool->release != NULL)
		c->tool->release(c);
	loop_timer_del(c->timer);
	buf_free(&c->structured);
	spilled_drop(c->far);
	buf_free(&c->text);
	buf_free(&c->content);
	buf_free(&c->ask);
	buf_free(&c->state_text);
	buf_free(&c->words);
	buf_free(&c->about);
	spilled_drop(c->spilled);
	free(c->data);
	*c = (struct call){ .state = CALL_FREE, .calls = c->calls };
}

void
calls_close(struct calls *cs)
{
	if (cs == NULL)
		return;
	for (struct call *c = cs->table; c < cs->table + cs->used; c++)
		if (c->state != CALL_FREE)
			release(c);
	free(cs);
}

/* --- states -------------------------------------------------------------- */

static void due(void *arg);

/* One timer for the deadline, the tool's own wish and the next progress. */
static void
arm(struct call *c)
{
	long at = c->deadline_ms, now = mono_ms();

	if (c->wake_ms >= 0 && c->wake_ms < at)
		at = c->wake_ms;
	if (c->answer && c->token[0] != '\0' && c->tell_ms < at)
		at = c->tell_ms;
	if (c->timer != NULL && c->timer_ms == at)
		return;
	loop_timer_del(c->timer);
	c->timer = NULL;
	c->timer_ms = at;
	if (at != LONG_MAX)
		c->timer = loop_timer_add(c->calls->loop,
		    at > now ? at - now : 0, due, c);
}

static void
answer(struct call *c, const struct error *err)
{
	const struct call_sink *sink = &c->calls->sink;

	assert(c->answer);
	c->answer = false;
	sink->answer(sink->arg, c, err);
}

/* The answer to a failure, which says what could not be removed. */
static void
answer_failure(struct call *c)
{
	struct error err = c->error;

	if (!c->answer)
		return;
	if (c->left[0] != '\0')
		(void)error_set(&err, err.code, "%.400s; and left behind: %s",
		    c->error.text, c->left);
	answer(c, &err);
}

static void
finish(struct call *c, enum step step)
{
	if (c->late && step != STEP_FAIL) {
		log_line(&c->calls->log, LOG_WARN, "%s: removed after all",
		    c->tool->name);
		c->left[0] = '\0';
	}
	if (c->left[0] != '\0')
		c->calls->left++;
	answer_failure(c);
	release(c);
}

static void
stop(struct call *c)
{
	enum step step;

	c->state = CALL_STOPPING;
	c->wake_ms = -1;
	c->deadline_ms = mono_ms() + LIMIT_STOP_MS;
	step = c->tool->stop == NULL ? STEP_DONE : c->tool->stop(c);
	if (step == STEP_WAIT)
		arm(c);
	else
		finish(c, step);
}

/*
 * Stopping takes too long. The client has its answer; the place in the table
 * stays taken, because what the tool began still reports to this call.
 */
static void
give_up(struct call *c)
{
	c->deadline_ms = LONG_MAX;
	if (c->left[0] == '\0') {
		if (c->holds[0] == '\0')
			call_holds(c, "what %s made", c->tool->name);
		call_left(c, "%.200s; its removal was not confirmed",
		    c->holds);
		c->late = true;
	}
	answer_failure(c);
	arm(c);
}

static bool
results_ok(const struct call *c)
{
	return buf_ok(&c->structured) && buf_ok(&c->text) &&
	    buf_ok(&c->content) && buf_ok(&c->ask) && buf_ok(&c->state_text);
}

/* The one place where a call changes state. */
static void
advance(struct call *c, enum step step, const struct error *err)
{
	if (step == STEP_WAIT) {
		arm(c);
		return;
	}
	if (c->state == CALL_STOPPING) {
		finish(c, step);
		return;
	}
	if (step == STEP_FAIL) {
		c->error = *err;
		if (err->code == ERR_NONE)
			(void)error_set(&c->error, ERR_SYSTEM,
			    "%s failed without a reason", c->tool->name);
	} else if (!results_ok(c)) {
		(void)error_set(&c->error, ERR_LIMIT,
		    "%s: the result is larger than %ld bytes, ask for less",
		    c->tool->name, (long)LIMIT_REPLY);
	} else {
		c->asking = step == STEP_ASK;
		answer(c, NULL);
	}
	stop(c);
}

static void
cancel(struct call *c)
{
	const struct call_sink *sink = &c->calls->sink;

	if (c->answer) {
		c->answer = false;
		sink->silent(sink->arg, c);
	}
	if (c->state == CALL_RUNNING)
		stop(c);
}

void
call_event(void *call, const struct event *ev)
{
	struct call *c = call;
	struct error err = { .code = ERR_NONE };

	if (c->state != CALL_FREE && c->tool->next != NULL)
		advance(c, c->tool->next(c, ev, &err), &err);
}

static void tell(struct call *c);

static void
due(void *arg)
{
	static const struct event timer = { .type = EVENT_TIMER };
	struct call *c = arg;
	struct error err = { .code = ERR_NONE };
	long now = mono_ms();

	c->timer = NULL;
	if (c->deadline_ms <= now && c->state == CALL_RUNNING) {
		(void)error_set(&err, ERR_TIMEOUT,
		    "%s: no result after %ld s, stopped", c->tool->name,
		    (now - c->started_ms) / 1000);
		advance(c, STEP_FAIL, &err);
		return;
	}
	if (c->deadline_ms <= now) {
		give_up(c);
		return;
	}
	if (c->answer && c->token[0] != '\0' && c->tell_ms <= now)
		tell(c);
	if (c->wake_ms >= 0 && c->wake_ms <= now) {
		c->wake_ms = -1;
		call_event(c, &timer);
		return;
	}
	arm(c);
}

/* --- for mcp.c ----------------------------------------------------------- */

/* Ids are compared by type and value: "a" and "\u0061" are the same. */
static bool
same_id(const char *a, const char *b)
{
	struct json_doc *da, *db;
	struct error err;
	char sa[CALL_ID_SIZE];
	bool same;

	if (strcmp(a, b) == 0)
		return true;
	if (*a != '"' || *b != '"' ||
	    (strchr(a, '\\') == NULL && strchr(b, '\\') == NULL))
		return false;
	da = json_parse(a, strlen(a), &err);
	db = json_parse(b, strlen(b), &err);
	/* With a NUL inside it has no C string; then only equal bytes count. */
	same = json_str(json_root(da), sa, sizeof(sa)) &&
	    json_is(json_root(db), sa);
	json_free(da);
	json_free(db);
	return same;
}

static struct call *
find(const struct calls *cs, const char *id)
{
	const struct call *c;

	for (c = cs->table; c < cs->table + cs->used; c++)
		if (c->state != CALL_FREE && c->answer && same_id(c->id, id))
			return c->calls->table + (c - cs->table);
	return NULL;
}

bool
call_pending(const struct calls *cs, const char *id)
{
	return find(cs, id) != NULL;
}

static int
fill(struct call *c, const struct tool *tool, const struct call *proto,
    struct error *err)
{
	struct calls *cs = c->calls;
	const char *uri;
	size_t len;
	long now = mono_ms();

	*c = *proto;
	(void)spilled_hold(c->spilled);
	c->state = CALL_RUNNING;
	c->calls = cs;
	c->tool = tool;
	if (c->env == NULL)
		c->env = cs->env;
	c->answer = true;
	c->started_ms = now;
	c->told_ms = now - APART_MS;
	c->tell_ms = now + LIMIT_PROGRESS_MS;
	c->deadline_ms = now + DEADLINE_MS;
	c->wake_ms = -1;
	c->progress = -1;
	buf_init(&c->structured, LIMIT_REPLY);
	buf_init(&c->text, LIMIT_REPLY);
	buf_init(&c->content, LIMIT_REPLY);
	buf_init(&c->ask, LIMIT_REPLY);
	buf_init(&c->state_text, LIMIT_REPLY / 4);
	buf_init(&c->words, NOTE_MAX);
	buf_init(&c->about, LIMIT_REPLY / 4);
	uri = json_raw(json_get(c->request, "uri"), &len);
	buf_put(&c->about, uri, len);
	if (tool->size > 0 && (c->data = calloc(1, tool->size)) == NULL)
		return error_sys(err, tool->name);
	arm(c);
	if (c->timer == NULL)
		return error_sys(err, tool->name);
	return 0;
}

int
call_start(struct calls *cs, const struct tool *tool, struct json args,
    const struct call *proto, struct error *err)
{
	struct error why = { .code = ERR_NONE };
	struct call *c = cs->table;
	enum step step;

	if (find(cs, proto->id) != NULL)
		return error_set(err, ERR_CONFLICT,
		    "a request with this id is under way");
	if (tools_check(tool, args, err) == -1)
		return -1;
	while (c < cs->table + cs->used && c->state != CALL_FREE)
		c++;
	if (c == cs->table + LIMIT_CALLS)
		return error_set(err, ERR_LIMIT, "%d calls are under way, "
		    "try again when one of them is answered", LIMIT_CALLS);
	cs->used += c == cs->table + cs->used;
	c->calls = cs;
	if (fill(c, tool, proto, err) == -1) {
		release(c);
		return -1;
	}
	step = tool->start(c, args, &why);
	c->request = c->client = (struct json){ NULL, -1 };
	c->asked = NULL;
	advance(c, step, &why);
	return 0;
}

void
call_cancel(struct calls *cs, const char *id)
{
	struct call *c = find(cs, id);

	if (c != NULL)
		cancel(c);
}

void
calls_cancel_ticket(struct calls *cs, long ticket)
{
	for (struct call *c = cs->table; c < cs->table + cs->used; c++)
		if (c->state != CALL_FREE && c->ticket == ticket)
			cancel(c);
}

/* What is being cleaned up after a failure is still answered, if in time. */
void
calls_cancel_all(struct calls *cs)
{
	long end = mono_ms() + DRAIN_MS;

	for (struct call *c = cs->table; c < cs->table + cs->used; c++) {
		if (c->state == CALL_RUNNING)
			cancel(c);
		if (c->state == CALL_STOPPING && c->deadline_ms > end &&
		    c->deadline_ms != LONG_MAX) {
			c->deadline_ms = end;
			arm(c);
		}
	}
}

bool
calls_wait(const struct calls *cs, long ticket)
{
	for (size_t i = 0; i < cs->used; i++)
		if (cs->table[i].state != CALL_FREE && cs->table[i].answer &&
		    cs->table[i].ticket == ticket)
			return true;
	return false;
}

size_t
calls_live(const struct calls *cs)
{
	size_t n = 0;

	for (size_t i = 0; i < cs->used; i++)
		n += cs->table[i].state != CALL_FREE;
	return n;
}

size_t
calls_left(const struct calls *cs)
{
	size_t n = cs->left;

	for (size_t i = 0; i < cs->used; i++)
		n += cs->table[i].left[0] != '\0';
	return n;
}

/* --- for tools ----------------------------------------------------------- */

void
call_timer(struct call *c, long ms)
{
	c->wake_ms = ms < 0 ? -1 : mono_ms() + ms;
	arm(c);
}

struct json_doc *
call_doc(const struct event *reply, struct error *err, const char *fmt, ...)
{
	struct json_doc *doc;
	char what[300];
	va_list ap;

	if (reply->err != NULL) {
		*err = *reply->err;
		return NULL;
	}
	if ((doc = json_parse_lax(reply->data, reply->len, err)) == NULL) {
		va_start(ap, fmt);
		(void)vsnprintf(what, sizeof(what), fmt, ap);
		va_end(ap);
		error_wrap(err, "%s", what);
	}
	return doc;
}

/* Once it is stopping, the time is ours to say. */
void
call_deadline(struct call *c, long ms)
{
	if (c->state != CALL_RUNNING)
		return;
	c->deadline_ms = mono_ms() + ms;
	arm(c);
}

static void
send_progress(struct call *c, double n, double total)
{
	const struct call_sink *sink = &c->calls->sink;
	struct jsonw w;
	struct buf b;

	c->progress = n;
	c->told_ms = mono_ms();
	c->tell_ms = c->told_ms + LIMIT_PROGRESS_MS;
	buf_init(&b, 8 * NOTE_MAX);
	jsonw_init(&w, &b);
	jsonw_object(&w, NULL);
	jsonw_raw(&w, "progressToken", c->token, strlen(c->token));
	jsonw_double(&w, "progress", n);
	if (total >= 0)
		jsonw_double(&w, "total", total);
	if (c->words.len > 0 && buf_ok(&c->words))
		jsonw_bytes(&w, "message", c->words.data, c->words.len);
	jsonw_end(&w);
	if (buf_ok(&b))
		sink->notify(sink->arg, c, "notifications/progress", b.data,
		    b.len);
	buf_free(&b);
}

/* Seconds since the start, or a bit more than the tool's own last number. */
static void
tell(struct call *c)
{
	double n = (double)(mono_ms() - c->started_ms) / 1000;

	if (c->counted || n <= c->progress)
		n = c->progress + 0.001;
	send_progress(c, n, -1);
}

static void
note(struct call *c, const char *text)
{
	buf_reset(&c->words, NOTE_MAX);
	buf_puts(&c->words, text);
}

void
call_progress(struct call *c, const char *fmt, ...)
{
	char text[NOTE_MAX];
	va_list ap;
	int n;

	if (!c->answer || c->token[0] == '\0')
		return;
	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	utf8_clean(text, (size_t)n >= sizeof(text));
	note(c, text);
	if (mono_ms() - c->told_ms >= APART_MS)
		tell(c);
	else
		c->tell_ms = c->told_ms + APART_MS;
	arm(c);
}

void
call_progress_n(struct call *c, double n, double total, const char *text)
{
	if (!c->answer || c->token[0] == '\0' || n <= c->progress)
		return;
	c->counted = true;
	note(c, text == NULL ? "" : text);
	send_progress(c, n, total);
	arm(c);
}

void
call_log(struct call *c, const char *level, const char *text)
{
	const struct call_sink *sink = &c->calls->sink;
	struct jsonw w;
	struct buf b;

	if (!c->answer || !sink->wants_log(sink->arg, c, level))
		return;
	buf_init(&b, LOG_MAX);
	jsonw_init(&w, &b);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "level", level);
	jsonw_str(&w, "logger", c->tool->name);
	jsonw_str(&w, "data", text);
	jsonw_end(&w);
	if (buf_ok(&b))
		sink->notify(sink->arg, c, "notifications/message", b.data,
		    b.len);
	buf_free(&b);
}

void
call_ask(struct call *c, const char *requests, const char *state)
{
	buf_reset(&c->ask, 0);
	buf_reset(&c->state_text, 0);
	if (requests != NULL)
		buf_puts(&c->ask, requests);
	if (state != NULL)
		buf_puts(&c->state_text, state);
}

bool
call_can(const struct call *c, const char *capability)
{
	return json_type(json_path(c->client, capability)) == JSON_OBJECT;
}

void
call_holds(struct call *c, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(c->holds, sizeof(c->holds), fmt, ap);
	va_end(ap);
	utf8_clean(c->holds, n >= 0 && (size_t)n >= sizeof(c->holds));
}

void
call_left(struct call *c, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(c->left, sizeof(c->left), fmt, ap);
	va_end(ap);
	utf8_clean(c->left, n >= 0 && (size_t)n >= sizeof(c->left));
	c->late = false;
	log_line(&c->calls->log, LOG_ERROR, "left behind: %s", c->left);
}
