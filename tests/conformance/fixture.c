/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fixture - what the official conformance suite expects a server to offer,
 * on the product's own core: lines on stdin and stdout; --http: HTTP there;
 * serve ADDRESS: a process for each connection. Never installed.
 *
 * The names, texts and URIs here are the suite's.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>

#include "buf.h"
#include "call.h"
#include "error.h"
#include "front.h"
#include "front-http.h"
#include "jsonw.h"
#include "listener.h"
#include "log.h"
#include "loop.h"
#include "mcp.h"
#include "tools.h"

#define PNG "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8Dw" \
	"HwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
#define WAV "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
#define IMAGE "{\"type\":\"image\",\"data\":\"" PNG "\",\"mimeType\":\"image/png\"}"
#define USER(content) "{\"role\":\"user\",\"content\":" content "}"
#define TEXT(text) "{\"type\":\"text\",\"text\":\"" text "\"}"

/* --- answers that are the same each time ----------------------------------- */

static const struct {
	const char *tool, *content;
} fixed[] = {
	{ "test_simple_text",
	    TEXT("This is a simple text response for testing.") },
	{ "test_image_content", IMAGE },
	{ "test_audio_content", "{\"type\":\"audio\",\"data\":\"" WAV
	    "\",\"mimeType\":\"audio/wav\"}" },
	{ "test_embedded_resource", "{\"type\":\"resource\",\"resource\":{"
	    "\"uri\":\"test://embedded-resource\",\"mimeType\":\"text/plain\","
	    "\"text\":\"This is an embedded resource content.\"}}" },
	{ "test_multiple_content_types",
	    TEXT("Multiple content types test:") "," IMAGE ","
	    "{\"type\":\"resource\",\"resource\":{"
	    "\"uri\":\"test://mixed-content-resource\","
	    "\"mimeType\":\"application/json\","
	    "\"text\":\"{\\\"test\\\":\\\"data\\\",\\\"value\\\":123}\"}}" },
	{ "test_missing_capability", TEXT("The client can sample.") },
	{ "json_schema_2020_12_tool", TEXT("Accepted.") },
	{ "test_custom_header", TEXT("Header and argument agree.") },
};

static enum step
start_fixed(struct call *c, struct json args, struct error *err)
{
	(void)args;
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		if (strcmp(fixed[i].tool, c->tool->name) == 0) {
			buf_puts(&c->content, fixed[i].content);
			return STEP_DONE;
		}
	(void)error_set(err, ERR_SYSTEM, "no row for %s", c->tool->name);
	return STEP_FAIL;
}

static enum step
start_error(struct call *c, struct json args, struct error *err)
{
	(void)c;
	(void)args;
	(void)error_set(err, ERR_CLUSTER,
	    "This tool intentionally returns an error for testing");
	return STEP_FAIL;
}

/* --- answers that take three steps ----------------------------------------- */

enum { PAUSE_MS = 50 };

struct walk {
	int step;
};

static enum step
walk_on(struct call *c)
{
	struct walk *w = c->data;

	if (++w->step < 3) {
		call_timer(c, PAUSE_MS);
		return STEP_WAIT;
	}
	buf_printf(&c->text, "%s took %d steps.", c->tool->name, w->step);
	return STEP_DONE;
}

static enum step
step_progress(struct call *c)
{
	struct walk *w = c->data;

	call_progress_n(c, 50 * w->step, 100, NULL);
	return walk_on(c);
}

static enum step
step_log(struct call *c)
{
	static const char *const said[] = {
		"Tool execution started", "Tool processing data",
		"Tool execution completed",
	};
	struct walk *w = c->data;

	call_log(c, "info", said[w->step]);
	return walk_on(c);
}

static enum step
start_progress(struct call *c, struct json args, struct error *err)
{
	(void)args;
	(void)err;
	return step_progress(c);
}

static enum step
next_progress(struct call *c, const struct event *ev, struct error *err)
{
	(void)ev;
	(void)err;
	return step_progress(c);
}

static enum step
start_log(struct call *c, struct json args, struct error *err)
{
	(void)args;
	(void)err;
	return step_log(c);
}

static enum step
next_log(struct call *c, const struct event *ev, struct error *err)
{
	(void)ev;
	(void)err;
	return step_log(c);
}

/* --- answers that need the user first --------------------------------------- */

#define FORM(text, name, type) "{\"method\":\"elicitation/create\",\"params\":{" \
	"\"mode\":\"form\",\"message\":\"" text "\",\"requestedSchema\":{" \
	"\"type\":\"object\",\"properties\":{\"" name "\":{\"type\":\"" type \
	"\"}},\"required\":[\"" name "\"]}}}"
#define SAMPLE(text, n) "{\"method\":\"sampling/createMessage\",\"params\":{" \
	"\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\"," \
	"\"text\":\"" text "\"}}],\"maxTokens\":" n "}}"
#define ROOTS "{\"method\":\"roots/list\",\"params\":{}}"
#define IRR "test_input_required_result_"

/* One question; those of a name and a round are asked together. */
static const struct ask {
	const char *name;
	int round;
	const char *state;		/* of the round, or NULL */
	const char *capability, *key, *request;
	const char *path;		/* of the answer that will do */
	enum json_type type;
} asks[] = {
	{ IRR "elicitation", 0, NULL, "elicitation", "user_name",
	    FORM("What is your name?", "name", "string"),
	    "content.name", JSON_STRING },
	{ "test_streaming_elicitation", 0, NULL, "elicitation", "user_name",
	    FORM("What is your name?", "name", "string"),
	    "content.name", JSON_STRING },
	{ IRR "sampling", 0, NULL, "sampling", "capital_question",
	    SAMPLE("What is the capital of France?", "100"),
	    "content.text", JSON_STRING },
	{ IRR "list_roots", 0, NULL, "roots", "client_roots", ROOTS,
	    "roots", JSON_ARRAY },
	{ IRR "request_state", 0, "confirming", "elicitation", "confirm",
	    FORM("Please confirm", "ok", "boolean"), "content.ok", JSON_BOOL },
	{ IRR "tampered_state", 0, "confirming", "elicitation", "confirm",
	    FORM("Please confirm", "ok", "boolean"), "content.ok", JSON_BOOL },
	{ IRR "multiple_inputs", 0, "three", "elicitation", "user_name",
	    FORM("What is your name?", "name", "string"),
	    "content.name", JSON_STRING },
	{ IRR "multiple_inputs", 0, "three", "sampling", "greeting",
	    SAMPLE("Generate a greeting", "50"), "content.text", JSON_STRING },
	{ IRR "multiple_inputs", 0, "three", "roots", "client_roots", ROOTS,
	    "roots", JSON_ARRAY },
	{ IRR "multi_round", 0, "round 1", "elicitation", "step1",
	    FORM("Step 1: What is your name?", "name", "string"),
	    "content.name", JSON_STRING },
	{ IRR "multi_round", 1, "round 2", "elicitation", "step2",
	    FORM("Step 2: What is your favorite color?", "color", "string"),
	    "content.color", JSON_STRING },
	{ IRR "capabilities", 0, NULL, "elicitation", "user_name",
	    FORM("What is your name?", "name", "string"),
	    "content.name", JSON_STRING },
	{ IRR "capabilities", 0, NULL, "sampling", "greeting",
	    SAMPLE("Generate a greeting", "50"), "content.text", JSON_STRING },
	{ IRR "prompt", 0, NULL, "elicitation", "user_context",
	    FORM("What context should the prompt use?", "context", "string"),
	    "content.context", JSON_STRING },
	{ NULL, 0, NULL, NULL, NULL, NULL, NULL, JSON_NONE },
};

/* Is there a row of this name and round that the client could answer? */
static bool
asked_for(const struct call *c, const struct ask *a, const char *name,
    int round)
{
	return strcmp(a->name, name) == 0 && a->round == round &&
	    call_can(c, a->capability);
}

static enum step
ask(struct call *c, const char *name, int round, struct error *err)
{
	const struct ask *a;
	const char *state = NULL;
	struct buf b;
	enum step step = STEP_ASK;

	buf_init(&b, 8192);
	for (a = asks; a->name != NULL; a++)
		if (asked_for(c, a, name, round)) {
			state = a->state;
			buf_printf(&b, "%s\"%s\":%s", b.len == 0 ? "{" : ",",
			    a->key, a->request);
		}
	buf_puts(&b, "}");
	if (b.len > 1 && buf_ok(&b))
		call_ask(c, b.data, state);
	else
		step = STEP_FAIL;
	if (step == STEP_FAIL)
		(void)error_set(err, ERR_INPUT,
		    "%s has nothing this client could be asked", name);
	buf_free(&b);
	return step;
}

/* 1: all of the round is answered; 0: not yet, or not as it was asked for. */
static bool
answered(const struct call *c, const char *name, int round)
{
	struct json all = json_get(c->request, "inputResponses"), v;
	const struct ask *a;
	size_t n = 0;

	for (a = asks; a->name != NULL; a++) {
		if (!asked_for(c, a, name, round))
			continue;
		n++;
		if (a->state != NULL &&
		    (c->asked == NULL || strcmp(c->asked, a->state) != 0))
			return false;
		v = json_path(json_get(all, a->key), a->path);
		if (json_type(v) != a->type)
			return false;
	}
	return n > 0;
}

/* STEP_DONE when the last round is answered; the text is the caller's. */
static enum step
ask_all(struct call *c, const char *name, struct error *err)
{
	const struct ask *a;
	int round = 0, last = 0;

	for (a = asks; a->name != NULL; a++)
		if (strcmp(a->name, name) == 0)
			last = a->round;
	for (round = last; round >= 0; round--)
		if (answered(c, name, round))
			break;
	return round == last ? STEP_DONE : ask(c, name, round + 1, err);
}

static enum step
start_ask(struct call *c, struct json args, struct error *err)
{
	struct json answers = json_get(c->request, "inputResponses");
	enum step step = ask_all(c, c->tool->name, err);
	const char *raw;
	size_t len;

	(void)args;
	if (step != STEP_DONE)
		return step;
	buf_puts(&c->text, "Hello, ");
	(void)json_text(json_path(answers, "user_name.content.name"),
	    &c->text);
	buf_printf(&c->text, "! %s; the client said ",
	    c->asked == NULL ? "no state" : "state-ok");
	raw = json_raw(answers, &len);
	buf_put(&c->text, raw, len);
	return STEP_DONE;
}

/* --- other methods ----------------------------------------------------------- */

#define RESOURCE(uri, type, name) "{\"uri\":\"" uri "\",\"name\":\"" name \
	"\",\"description\":\"" name ", for the suite\",\"mimeType\":\"" type "\"}"
#define PROMPT(name, args) "{\"name\":\"" name "\",\"description\":\"" name \
	", for the suite\",\"arguments\":[" args "]}"
#define PROMPT_ARG(name) "{\"name\":\"" name "\",\"description\":\"" name \
	"\",\"required\":true}"

static const struct {
	const char *method, *result;
} lists[] = {
	{ "resources/list", "{\"resources\":["
	    RESOURCE("test://static-text", "text/plain", "text") ","
	    RESOURCE("test://static-binary", "image/png", "binary") ","
	    RESOURCE("test://watched-resource", "text/plain", "watched")
	    "]}" },
	{ "resources/templates/list", "{\"resourceTemplates\":[{"
	    "\"uriTemplate\":\"test://template/{id}/data\",\"name\":\"data\","
	    "\"description\":\"Data of an id\","
	    "\"mimeType\":\"application/json\"}]}" },
	{ "prompts/list", "{\"prompts\":["
	    PROMPT("test_simple_prompt", "") ","
	    PROMPT("test_prompt_with_arguments",
	    PROMPT_ARG("arg1") "," PROMPT_ARG("arg2")) ","
	    PROMPT("test_prompt_with_embedded_resource",
	    PROMPT_ARG("resourceUri")) ","
	    PROMPT("test_prompt_with_image", "") ","
	    PROMPT(IRR "prompt", "") "]}" },
	{ "completion/complete", "{\"completion\":{\"values\":[\"paris\","
	    "\"park\",\"party\"],\"total\":3,\"hasMore\":false}}" },
	{ "resources/subscribe", "{}" },
	{ "resources/unsubscribe", "{}" },
};

static enum step
start_list(struct call *c, struct json args, struct error *err)
{
	(void)args;
	(void)err;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (strcmp(lists[i].method, c->tool->name) == 0)
			buf_puts(&c->structured, lists[i].result);
	return STEP_DONE;
}

static void
contents(struct call *c, const char *uri, const char *type, const char *text,
    const char *blob)
{
	struct jsonw w;

	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_array(&w, "contents");
	jsonw_object(&w, NULL);
	jsonw_str(&w, "uri", uri);
	jsonw_str(&w, "mimeType", type);
	jsonw_str(&w, blob != NULL ? "blob" : "text",
	    blob != NULL ? blob : text);
	jsonw_end(&w);
	jsonw_end(&w);
	jsonw_end(&w);
}

static enum step
start_read(struct call *c, struct json args, struct error *err)
{
	char uri[128], id[64], text[192];
	int end = 0;

	if (!json_str(json_get(args, "uri"), uri, sizeof(uri)))
		uri[0] = '\0';
	if (strcmp(uri, "test://static-text") == 0) {
		contents(c, uri, "text/plain", "This is the content of the "
		    "static text resource.", NULL);
	} else if (strcmp(uri, "test://watched-resource") == 0) {
		contents(c, uri, "text/plain", "Nothing changes here.", NULL);
	} else if (strcmp(uri, "test://static-binary") == 0) {
		contents(c, uri, "image/png", NULL, PNG);
	} else if (sscanf(uri, "test://template/%63[0-9a-zA-Z]/data%n", id,
	    &end) == 1 && end > 0 && uri[end] == '\0') {
		(void)snprintf(text, sizeof(text), "{\"id\":\"%s\","
		    "\"templateTest\":true,\"data\":\"Data for ID: %s\"}", id,
		    id);
		contents(c, uri, "application/json", text, NULL);
	} else {
		(void)error_set(err, ERR_GONE, "Resource not found");
		return STEP_FAIL;
	}
	return STEP_DONE;
}

static const struct {
	const char *name, *messages;
} prompts[] = {
	{ "test_simple_prompt",
	    USER(TEXT("This is a simple prompt for testing.")) },
	{ "test_prompt_with_image",
	    USER(IMAGE) "," USER(TEXT("Please analyze the image above.")) },
	{ IRR "prompt", USER(TEXT("The context was given.")) },
};

static void
message(struct jsonw *w, const char *text)
{
	jsonw_object(w, NULL);
	jsonw_str(w, "role", "user");
	jsonw_object(w, "content");
	jsonw_str(w, "type", "text");
	jsonw_str(w, "text", text);
	jsonw_end(w);
	jsonw_end(w);
}

static void
embedded(struct jsonw *w, const char *uri)
{
	jsonw_object(w, NULL);
	jsonw_str(w, "role", "user");
	jsonw_object(w, "content");
	jsonw_str(w, "type", "resource");
	jsonw_object(w, "resource");
	jsonw_str(w, "uri", uri);
	jsonw_str(w, "mimeType", "text/plain");
	jsonw_str(w, "text", "Embedded resource content for testing.");
	jsonw_end(w);
	jsonw_end(w);
	jsonw_end(w);
	message(w, "Please process the embedded resource above.");
}

/* The messages of a prompt with arguments; false: there is no such prompt. */
static bool
fill(struct jsonw *w, struct json name, struct json args)
{
	char a[64] = "", b[64] = "", text[256];

	if (json_is(name, "test_prompt_with_arguments")) {
		(void)json_str(json_get(args, "arg1"), a, sizeof(a));
		(void)json_str(json_get(args, "arg2"), b, sizeof(b));
		(void)snprintf(text, sizeof(text),
		    "Prompt with arguments: arg1='%s', arg2='%s'", a, b);
		message(w, text);
		return true;
	}
	if (!json_is(name, "test_prompt_with_embedded_resource"))
		return false;
	(void)json_str(json_get(args, "resourceUri"), a, sizeof(a));
	embedded(w, a);
	return true;
}

static enum step
start_prompt(struct call *c, struct json args, struct error *err)
{
	struct json name = json_get(args, "name");
	const char *messages = NULL;
	struct jsonw w;
	enum step step;

	if (json_is(name, IRR "prompt") &&
	    (step = ask_all(c, IRR "prompt", err)) != STEP_DONE)
		return step;
	for (size_t i = 0; i < sizeof(prompts) / sizeof(prompts[0]); i++)
		if (json_is(name, prompts[i].name))
			messages = prompts[i].messages;
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_array(&w, "messages");
	if (messages != NULL)
		jsonw_raw(&w, NULL, messages, strlen(messages));
	else if (!fill(&w, name, json_get(args, "arguments"))) {
		buf_reset(&c->structured, 0);
		(void)error_set(err, ERR_INPUT, "Unknown prompt");
		return STEP_FAIL;
	}
	jsonw_end(&w);
	jsonw_end(&w);
	return STEP_DONE;
}

/* --- tables -------------------------------------------------------------------- */

#define TOOL(id, what, ...) \
	static const struct tool id = { .name = #id, .help = what, \
	    .hints = HINT_READ_ONLY | HINT_IDEMPOTENT, __VA_ARGS__ };
#define FIXED(id, what) TOOL(id, what, .start = start_fixed)
#define ASK(id, what) TOOL(id, what, .start = start_ask)

FIXED(test_simple_text, "Answers with a text")
FIXED(test_image_content, "Answers with an image")
FIXED(test_audio_content, "Answers with a sound")
FIXED(test_embedded_resource, "Answers with a resource")
FIXED(test_multiple_content_types, "Answers with a text, image and resource")
TOOL(test_error_handling, "Always fails", .start = start_error)
TOOL(test_tool_with_progress, "Reports 0, 50 and 100 of 100",
    .size = sizeof(struct walk), .start = start_progress,
    .next = next_progress)
TOOL(test_tool_with_logging, "Logs three lines",
    .size = sizeof(struct walk), .start = start_log, .next = next_log)
TOOL(test_logging_tool, "Logs three lines, where they are wanted",
    .size = sizeof(struct walk), .start = start_log, .next = next_log)
TOOL(test_missing_capability, "Is for clients that can sample",
    .start = start_fixed, .requires = "sampling")
ASK(test_streaming_elicitation, "Asks for a name")
ASK(test_input_required_result_elicitation, "Asks for a name")
ASK(test_input_required_result_sampling, "Asks the client's model")
ASK(test_input_required_result_list_roots, "Asks for the roots")
ASK(test_input_required_result_request_state, "Asks, and keeps a state")
ASK(test_input_required_result_tampered_state, "Asks, and guards its state")
ASK(test_input_required_result_multiple_inputs, "Asks three things at once")
ASK(test_input_required_result_multi_round, "Asks twice")
ASK(test_input_required_result_capabilities, "Asks what the client can")
TOOL(json_schema_2020_12_tool, "Tool with JSON Schema 2020-12 features",
    .start = start_fixed, .in_schema =
    "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\","
    "\"type\":\"object\",\"$defs\":{\"address\":{\"$anchor\":\"addressDef\","
    "\"type\":\"object\",\"properties\":{\"street\":{\"type\":\"string\"},"
    "\"city\":{\"type\":\"string\"}}}},\"properties\":{"
    "\"name\":{\"type\":\"string\"},"
    "\"address\":{\"$ref\":\"#/$defs/address\"},"
    "\"contactMethod\":{\"type\":\"string\",\"enum\":[\"phone\",\"email\"]},"
    "\"phone\":{\"type\":\"string\"},\"email\":{\"type\":\"string\"}},"
    "\"allOf\":[{\"anyOf\":[{\"required\":[\"phone\"]},"
    "{\"required\":[\"email\"]}]}],\"if\":{\"properties\":{"
    "\"contactMethod\":{\"const\":\"phone\"}},"
    "\"required\":[\"contactMethod\"]},\"then\":{\"required\":[\"phone\"]},"
    "\"else\":{\"required\":[\"email\"]},\"additionalProperties\":false}")

static const struct arg custom_args[] = {
	{ .name = "region", .type = ARG_STRING, .header = "Region" },
	{ NULL }
};
TOOL(test_custom_header, "Takes an argument that is a header, too",
    .start = start_fixed, .args = custom_args)

static const struct tool *const tools[] = {
	&test_simple_text, &test_image_content, &test_audio_content,
	&test_embedded_resource, &test_multiple_content_types,
	&test_error_handling, &test_tool_with_progress,
	&test_tool_with_logging, &test_logging_tool,
	&test_missing_capability, &test_streaming_elicitation,
	&test_input_required_result_elicitation,
	&test_input_required_result_sampling,
	&test_input_required_result_list_roots,
	&test_input_required_result_request_state,
	&test_input_required_result_tampered_state,
	&test_input_required_result_multiple_inputs,
	&test_input_required_result_multi_round,
	&test_input_required_result_capabilities,
	&json_schema_2020_12_tool, &test_custom_header, NULL
};

static const struct arg uri_args[] = {
	{ .name = "uri", .type = ARG_STRING, .flags = ARG_REQUIRED, .min = 1,
	    .max = 4096 },
	{ NULL }
};
static const struct arg prompt_args[] = {
	{ .name = "name", .type = ARG_STRING, .flags = ARG_REQUIRED, .min = 1,
	    .max = 256 },
	{ .name = "arguments", .type = ARG_MAP },
	{ NULL }
};

#define METHOD(row, method, ...) \
	static const struct tool row = { .name = method, __VA_ARGS__ };

METHOD(resources_list, "resources/list", .start = start_list)
METHOD(templates_list, "resources/templates/list", .start = start_list)
METHOD(resources_read, "resources/read", .start = start_read, .args = uri_args)
METHOD(subscribe, "resources/subscribe", .start = start_list, .args = uri_args)
METHOD(unsubscribe, "resources/unsubscribe", .start = start_list,
    .args = uri_args)
METHOD(prompts_list, "prompts/list", .start = start_list)
METHOD(prompts_get, "prompts/get", .start = start_prompt, .args = prompt_args)
METHOD(complete, "completion/complete", .start = start_list)

static const struct tool *const methods[] = {
	&resources_list, &templates_list, &resources_read, &subscribe,
	&unsubscribe, &prompts_list, &prompts_get, &complete, NULL
};

static int
serve_http(const struct front *front, struct error *err)
{
	const struct front_http f = { .loop = front->loop,
	    .rows = front->rows, .log = front->log, .in = front->in,
	    .out = front->out, .meet = -1, .signals = -1 };

	return front_http(&f, err);
}

/* As "serve" does: 1 in the process of a connection, which is fd then. */
static int
listen_on(const char *address, const struct log *log, int *fd,
    struct error *err)
{
	struct listener l;
	struct listener_how how = { .connections = 256, .per_source = 256,
	    .log = log };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &set, NULL) == -1 ||
	    (how.signals = signalfd(-1, &set, SFD_NONBLOCK)) == -1)
		return error_sys(err, "signals");
	if (listener_open(&l, &address, 1, 0600, log, err) == -1)
		return -1;
	return listener_serve(&l, &how, fd, err);
}

int
main(int argc, char *argv[])
{
	/* Known to all: what is sealed with it guards nothing. */
	static const unsigned char key[32] = "a key that is only for the tests";
	static const struct mcp_rows rows = {
		.name = "mcp-sandbox-fixture", .title = "Conformance fixture",
		.version = VERSION, .tools = tools, .methods = methods,
		.instructions = "For the conformance suite only.",
		.logging = true, .key = key,
	};
	struct log log;
	struct error err = { .code = ERR_NONE };
	struct front front = { .rows = &rows, .log = &log, .in = 0, .out = 1,
	    .signals = -1 };
	bool serves = argc > 2 && strcmp(argv[1], "serve") == 0;
	int r;

	log_open(&log, LOG_NOTE);
	front.out = front_unblocked(1);
	if (serves) {
		r = listen_on(argv[2], &log, &front.in, &err);
		if (r == -1)
			log_line(&log, LOG_ERROR, "%s", err.text);
		if (r != 1)
			return r == 0 ? 0 : 71;
		front.out = front.in;
	}
	if ((front.loop = loop_open(&err)) == NULL) {
		log_line(&log, LOG_ERROR, "%s", err.text);
		return 71;
	}
	r = serves || (argc > 1 && strcmp(argv[1], "--http") == 0) ?
	    serve_http(&front, &err) : front_lines(&front, &err);
	if (r == -1)
		log_line(&log, LOG_ERROR, "%s", err.text);
	loop_close(front.loop);
	return r == -1 ? 71 : r;
}
