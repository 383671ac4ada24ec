/* SPDX-License-Identifier: Apache-2.0 */
/* fake-tools - rows that do nothing but answer, for mcp's tests. */
#ifndef FAKE_TOOLS_H
#define FAKE_TOOLS_H

#include <string.h>

#include "../buf.h"
#include "../call.h"
#include "../error.h"
#include "../jsonw.h"
#include "../mcp.h"
#include "../tools.h"

static enum step
echo_start(struct call *c, struct json args, struct error *err)
{
	struct jsonw w;
	struct buf text;

	(void)err;
	buf_init(&text, LIMIT_REPLY);
	(void)json_text(json_get(args, "text"), &text);
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_bytes(&w, "text", text.data == NULL ? "" : text.data, text.len);
	jsonw_end(&w);
	buf_free(&text);
	return STEP_DONE;
}

static enum step
hold_start(struct call *c, struct json args, struct error *err)
{
	(void)args;
	(void)err;
	call_progress(c, "holding");
	call_log(c, "notice", "held");
	call_timer(c, 60000);
	return STEP_WAIT;
}

static enum step
hold_next(struct call *c, const struct event *ev, struct error *err)
{
	(void)ev;
	(void)err;
	buf_puts(&c->text, "held");
	return STEP_DONE;
}

static enum step
fail_start(struct call *c, struct json args, struct error *err)
{
	(void)args;
	buf_puts(&c->structured, "{\"partial\":1}");
	(void)error_set(err, ERR_LOST, "the connection ended");
	return STEP_FAIL;
}

/* Asks once; the second time it says what it was told. */
static enum step
ask_start(struct call *c, struct json args, struct error *err)
{
	struct json ok = json_path(c->request,
	    "inputResponses.ok.content.ok");
	bool yes;

	(void)args;
	(void)err;
	if (c->asked == NULL || !json_bool(ok, &yes)) {
		call_ask(c, "{\"ok\":{\"method\":\"elicitation/create\"}}",
		    "st\xc3\xa4te");
		return STEP_ASK;
	}
	buf_printf(c->tool->name[0] == 'p' ? &c->structured : &c->text,
	    "{\"said\":\"%s %s\"}", yes ? "yes" : "no", c->asked);
	return STEP_DONE;
}

static enum step
big_start(struct call *c, struct json args, struct error *err)
{
	static const char kilo[1024];

	(void)args;
	(void)err;
	/* Fits its own buffer, and not the reply once it is escaped. */
	for (int i = 0; i < LIMIT_REPLY / 5 / 1024; i++)
		buf_put(&c->text, kilo, sizeof(kilo));
	return STEP_DONE;
}

static enum step
list_start(struct call *c, struct json args, struct error *err)
{
	(void)args;
	(void)err;
	buf_puts(&c->structured, "{\"resources\":[]}");
	return STEP_DONE;
}

static enum step
empty_start(struct call *c, struct json args, struct error *err)
{
	(void)args;
	(void)err;
	buf_puts(&c->structured, "{}");
	return STEP_DONE;
}

static enum step
read_start(struct call *c, struct json args, struct error *err)
{
	(void)c;
	if (json_is(json_get(args, "uri"), "bad"))
		(void)error_set(err, ERR_INPUT, "uri is bad");
	else if (json_is(json_get(args, "uri"), "broken"))
		(void)error_set(err, ERR_CLUSTER, "it is broken");
	else
		(void)error_set(err, ERR_GONE, "no such resource");
	return STEP_FAIL;
}

static const struct arg fake_text[] = {
	{ .name = "text", .type = ARG_STRING, .flags = ARG_REQUIRED },
	{ NULL }
};
static const struct arg fake_uri[] = {
	{ .name = "uri", .type = ARG_STRING, .flags = ARG_REQUIRED },
	{ NULL }
};
static const struct tool fake_echo = { .name = "echo", .help = "Echoes",
	.args = fake_text, .out = fake_text, .start = echo_start };
static const struct tool fake_hold = { .name = "hold", .help = "Holds",
	.start = hold_start, .next = hold_next };
static const struct tool fake_fail = { .name = "fail", .help = "Fails",
	.start = fail_start };
static const struct tool fake_ask = { .name = "ask", .help = "Asks",
	.args = fake_text, .start = ask_start };
static const struct tool fake_needs = { .name = "needs", .help = "Needs",
	.requires = "sampling", .start = hold_start, .next = hold_next };
static const struct tool fake_big = { .name = "big", .help = "Is big",
	.start = big_start };
static const struct tool fake_list = { .name = "resources/list",
	.start = list_start };
static const struct tool fake_read = { .name = "resources/read",
	.args = fake_uri, .start = read_start };
static const struct tool fake_subscribe = { .name = "resources/subscribe",
	.args = fake_uri, .start = empty_start };
static const struct tool fake_prompt = { .name = "prompts/get",
	.start = ask_start };

static const struct tool *const fake_tools[] = {
	&fake_echo, &fake_hold, &fake_fail, &fake_ask, &fake_needs, &fake_big,
	NULL
};
static const struct tool *const fake_methods[] = {
	&fake_list, &fake_read, &fake_subscribe, &fake_prompt, NULL
};
static const struct mcp_rows fake_rows = {
	.name = "fake", .title = "Fake", .version = "1",
	.website = "https://example.com/", .instructions = "Do.",
	.tools = fake_tools, .methods = fake_methods, .logging = true,
	.key = (const unsigned char *)"0123456789abcdef0123456789abcdef",
};

#endif
