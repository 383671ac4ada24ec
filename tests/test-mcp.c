/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../audit.h"
#include "../place.h"
#include "fake-loop.h"
#include "fake-tools.h"
#include "suite.h"

#define P "io.modelcontextprotocol/"
#define CAPS(caps) "\"_meta\":{\"" P "protocolVersion\":\"2026-07-28\",\"" \
	P "clientCapabilities\":{" caps "}}"
#define NEW CAPS("")
#define REQ(id, method, params) "{\"jsonrpc\":\"2.0\",\"id\":" id \
	",\"method\":\"" method "\",\"params\":{" params "}}"
#define NOTE(method, params) "{\"jsonrpc\":\"2.0\",\"method\":\"" method \
	"\",\"params\":{" params "}}"
#define ECHO(text) "\"name\":\"echo\",\"arguments\":{\"text\":\"" text "\"}"

#define RES(id, result) "{\"jsonrpc\":\"2.0\",\"id\":" id \
	",\"result\":{" result "}}"
#define INFO "\"_meta\":{\"" P "serverInfo\":{\"name\":\"fake\"," \
	"\"version\":\"1\"}}"
#define FULL "\"name\":\"fake\",\"title\":\"Fake\",\"version\":\"1\"," \
	"\"websiteUrl\":\"https://example.com/\""
#define DONE "\"resultType\":\"complete\"," INFO ","
#define ECHOED(text) "\"content\":[{\"type\":\"text\",\"text\":" \
	"\"{\\\"text\\\":\\\"" text "\\\"}\"}]," \
	"\"structuredContent\":{\"text\":\"" text "\"},\"isError\":false"
#define SAID(text, is) "\"content\":[{\"type\":\"text\",\"text\":\"" text \
	"\"}],\"isError\":" is
#define ERR(id, code, text) "{\"jsonrpc\":\"2.0\",\"id\":" id \
	",\"error\":{\"code\":" code ",\"message\":\"" text "\"}}"
#define ERR_DATA(id, code, text, data) "{\"jsonrpc\":\"2.0\",\"id\":" id \
	",\"error\":{\"code\":" code ",\"message\":\"" text "\",\"data\":{" data "}}}"
#define ANON(code, text) "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":" code \
	",\"message\":\"" text "\"}}"
#define BAD_ID ANON("-32600", "id: must be a string of at most 256 bytes or " \
	"an integer of at most 64 digits")
#define SIXTY "123456789012345678901234567890123456789012345678901234567890"
#define CAPABILITIES(subscribe) "\"capabilities\":{\"tools\":{}," \
	"\"resources\":{" subscribe "},\"logging\":{}}"
#define INITIALIZED(id, version) RES(id, "\"protocolVersion\":\"" version \
	"\"," CAPABILITIES("\"subscribe\":true") \
	",\"serverInfo\":{" FULL "},\"instructions\":\"Do.\"")
#define TOOL(name, help, in, out) "{\"name\":\"" name "\",\"description\":\"" \
	help "\",\"inputSchema\":{\"type\":\"object\",\"properties\":{" in \
	"\"additionalProperties\":false}" out ",\"annotations\":{" \
	"\"readOnlyHint\":false,\"destructiveHint\":false," \
	"\"idempotentHint\":false,\"openWorldHint\":false}}"
#define TEXT_SCHEMA "\"text\":{\"type\":\"string\"}},\"required\":[\"text\"]"
#define TOOLS "\"tools\":[" TOOL("echo", "Echoes", TEXT_SCHEMA ",", \
	",\"outputSchema\":{\"type\":\"object\",\"properties\":{" TEXT_SCHEMA "}") \
	"," TOOL("hold", "Holds", "},", "") "," TOOL("fail", "Fails", "},", "") \
	"," TOOL("ask", "Asks", TEXT_SCHEMA ",", "") \
	"," TOOL("needs", "Needs", "},", "") "," TOOL("big", "Is big", "},", "") "]"

static struct mcp *mcp;
/* Fields of the next message, where it has a version. */
static const char *method, *name;
static struct buf sent;
static long lasts, silences, ticket;

static void
on_send(void *arg, long t, struct buf *out, bool last)
{
	const char *json = out->len > 0 ? out->data : "";
	size_t len = out->len;
	struct error err;
	struct json_doc *doc = json_parse(json, len, &err);

	ck_assert_ptr_eq(arg, &sent);
	if (len == 0) {
		json_free(doc);
		ck_assert(last);
		silences++;
		return;
	}
	ck_assert_msg(doc != NULL, "%s: %.*s", err.text, (int)len, json);
	ck_assert_ptr_null(memchr(json, '\n', len));
	ck_assert_int_le(t, ticket);
	json_free(doc);
	buf_printf(&sent, "%s", sent.len > 0 ? "\n" : "");
	buf_put(&sent, json, len);
	lasts += last;
}

static void
set_up(void)
{
	struct error err;

	buf_init(&sent, 16 << 20);
	lasts = silences = ticket = 0;
	fake_now = 1000;
	mcp = mcp_open(NULL, &fake_rows, NULL, on_send, &sent, &err);
	ck_assert_ptr_nonnull(mcp);
}

static void
tear_down(void)
{
	mcp_close(mcp);
	buf_free(&sent);
	ck_assert_ptr_null(fake_timers);
}

/* The bytes alone on the heap, so that reading past them is seen. */
static void
say(const char *text, size_t len, const char *version)
{
	char *copy = malloc(len > 0 ? len : 1);
	struct mcp_http http = { .version = version, .method = method,
	    .name = name };

	ck_assert_ptr_nonnull(copy);
	memcpy(copy, text, len);
	mcp_message(mcp, copy, len, NULL, ++ticket,
	    version == NULL ? NULL : &http);
	free(copy);
}

static void
say_lines(const char *lines)
{
	const char *end;

	for (; *lines != '\0'; lines = *end == '\0' ? end : end + 1) {
		end = strchrnul(lines, '\n');
		say(lines, (size_t)(end - lines), NULL);
	}
}

static const char *
heard(void)
{
	return sent.data == NULL ? "" : sent.data;
}

static const struct {
	const char *in, *out;
} talks[] = {
	/* ids come back as they came */
	{ REQ("0", "ping", ""), RES("0", "") },
	{ REQ("\"\"", "ping", ""), RES("\"\"", "") },
	{ REQ("-1", "ping", ""), RES("-1", "") },
	{ REQ("9007199254740993", "ping", ""), RES("9007199254740993", "") },
	{ REQ(SIXTY, "ping", ""), RES(SIXTY, "") },
	{ REQ("-" SIXTY "1234", "ping", ""), RES("-" SIXTY "1234", "") },
	{ REQ("\"\\u00e4\\/\"", "ping", ""), RES("\"\\u00e4\\/\"", "") },
	{ REQ(SIXTY "12345", "ping", ""), BAD_ID },
	{ REQ("null", "ping", ""), BAD_ID },
	{ REQ("1.0", "ping", ""), BAD_ID },
	{ REQ("1e3", "ping", ""), BAD_ID },
	{ REQ("true", "ping", ""), BAD_ID },
	{ REQ("{}", "ping", ""), BAD_ID },
	{ REQ("[1]", "ping", ""), BAD_ID },
	/* what is not JSON-RPC */
	{ "{\"a\":1,}", ANON("-32700", "not JSON: a key in quotes is missing, "
	    "at byte 7") },
	{ "1", ANON("-32600", "not a JSON-RPC message") },
	{ "\"ping\"", ANON("-32600", "not a JSON-RPC message") },
	{ "null", ANON("-32600", "not a JSON-RPC message") },
	{ "{}", BAD_ID },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1}",
	    ERR("1", "-32600", "jsonrpc must be \\\"2.0\\\" and method a "
	    "string") },
	{ "{\"id\":1,\"method\":\"ping\"}",
	    ERR("1", "-32600", "jsonrpc must be \\\"2.0\\\" and method a "
	    "string") },
	{ "{\"jsonrpc\":2.0,\"id\":1,\"method\":\"ping\"}",
	    ERR("1", "-32600", "jsonrpc must be \\\"2.0\\\" and method a "
	    "string") },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}",
	    ERR("1", "-32600", "jsonrpc must be \\\"2.0\\\" and method a "
	    "string") },
	{ "{\"jsonrpc\":\"2.0\",\"method\":5}", BAD_ID },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}",
	    ERR("1", "-32602", "params: must be an object") },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", RES("1", "") },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"m\\u0065thod\":\"p\\u0069ng\","
	    "\"extra\":[]}", RES("1", "") },
	{ REQ("1", "ping", "\"_meta\":5"),
	    ERR("1", "-32602", "_meta: must be an object") },
	/* what is never answered */
	{ "", "" }, { " \t\r", "" }, { "\r", "" },
	{ NOTE("notifications/initialized", ""), "" },
	{ NOTE("notifications/unheard", "\"a\":1"), "" },
	{ NOTE("tools/call", "\"name\":1"), "" },
	{ "{\"method\":\"x\",\"params\":[]}", "" },
	{ NOTE("notifications/cancelled", "\"requestId\":7"), "" },
	{ NOTE("notifications/cancelled", "\"requestId\":{}"), "" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", "" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1}}", "" },
	/* methods */
	{ REQ("1", "notifications/cancelled", ""),
	    ERR("1", "-32601", "Method not found: notifications/cancelled") },
	{ REQ("1", "nope", ""), ERR("1", "-32601", "Method not found: nope") },
	{ REQ("1", "n\\u0000o", ""), ERR("1", "-32601",
	    "Method not found: ?") },
	{ REQ("1", "subscriptions/listen", ""),
	    ERR("1", "-32601", "Method not found: subscriptions/listen") },
	{ REQ("1", "tools/list", "\"cursor\":\"\""),
	    ERR("1", "-32602", "cursor: unknown, the list is one page") },
	{ REQ("1", "resources/list", "\"cursor\":\"x\""),
	    ERR("1", "-32602", "cursor: unknown, the list is one page") },
	{ REQ("1", "tools/list", ""), RES("1", TOOLS) },
	{ REQ("1", "resources/list", ""), RES("1", "\"resources\":[]") },
	{ REQ("1", "resources/subscribe", "\"uri\":\"a\""), RES("1", "") },
	{ REQ("1", "resources/subscribe", ""),
	    ERR("1", "-32602", "resources/subscribe: uri is missing") },
	{ REQ("1", "resources/read", "\"uri\":\"a\\u00e4\""), ERR_DATA("1",
	    "-32002", "no such resource", "\"uri\":\"a\\u00e4\"") },
	{ REQ("1", "resources/read", "\"uri\":\"bad\""),
	    ERR("1", "-32602", "uri is bad") },
	{ REQ("1", "resources/read", "\"uri\":\"broken\""),
	    ERR("1", "-32603", "it is broken") },
	{ REQ("1", "logging/setLevel", "\"level\":\"alert\""), RES("1", "") },
	{ REQ("1", "logging/setLevel", "\"level\":\"loud\""), ERR("1",
	    "-32602", "level: must be one of debug, info, notice, warning, "
	    "error, critical, alert, emergency") },
	/* tools */
	{ REQ("1", "tools/call", ECHO("hi")), RES("1", ECHOED("hi")) },
	{ REQ("1", "tools/call", "\"name\":\"nope\""),
	    ERR("1", "-32602", "Unknown tool: nope") },
	{ REQ("1", "tools/call", ""),
	    ERR("1", "-32602", "name: the tool's name is required") },
	{ REQ("1", "tools/call", "\"name\":\"echo\",\"arguments\":[]"),
	    ERR("1", "-32602", "arguments: must be an object") },
	{ REQ("1", "tools/call", "\"name\":\"echo\",\"arguments\":null"),
	    ERR("1", "-32602", "arguments: must be an object") },
	{ REQ("1", "tools/call", "\"name\":\"echo\""),
	    RES("1", SAID("echo: text is missing", "true")) },
	{ REQ("1", "tools/call", "\"name\":\"fail\""),
	    RES("1", "\"content\":[{\"type\":\"text\",\"text\":\"the "
	    "connection ended\"},{\"type\":\"text\",\"text\":"
	    "\"{\\\"partial\\\":1}\"}],\"structuredContent\":"
	    "{\"partial\":1},\"isError\":true") },
	{ REQ("1", "tools/call", "\"name\":\"big\""), RES("1", SAID("big: the "
	    "result is larger than 20971520 bytes, ask for less", "true")) },
	{ REQ("1", "tools/call", "\"name\":\"needs\""), RES("1", SAID("needs "
	    "needs a client with the capability \\\"sampling\\\"", "true")) },
	{ REQ("1", "tools/call", "\"name\":\"ask\",\"arguments\":"
	    "{\"text\":\"\"}"), RES("1", SAID("ask has to ask the user, which "
	    "needs a client of revision 2026-07-28", "true")) },
	{ REQ("1", "tools/call", "\"name\":\"hold\",\"_meta\":"
	    "{\"progressToken\":1.5}"), ERR("1", "-32602", "progressToken: "
	    "must be a string or an integer, of at most 256 bytes") },
	/* the handshake */
	{ REQ("1", "initialize", "\"protocolVersion\":\"2024-11-05\""),
	    INITIALIZED("1", "2024-11-05") },
	{ REQ("1", "initialize", "\"protocolVersion\":\"2025-06-18\""),
	    INITIALIZED("1", "2025-06-18") },
	{ REQ("1", "initialize", "\"protocolVersion\":\"2026-07-28\""),
	    INITIALIZED("1", "2025-11-25") },
	{ REQ("1", "initialize", "\"protocolVersion\":\"\""),
	    INITIALIZED("1", "2025-11-25") },
	{ REQ("1", "initialize", ""),
	    ERR("1", "-32602", "protocolVersion: a string is required") },
	/* 2026-07-28 */
	{ REQ("1", "server/discover", NEW), RES("1", "\"resultType\":"
	    "\"complete\",\"_meta\":{\"" P "serverInfo\":{" FULL "}},"
	    "\"supportedVersions\":[\"2026-07-28\"]," CAPABILITIES("")
	    ",\"instructions\":\"Do.\",\"ttlMs\":3600000,"
	    "\"cacheScope\":\"public\"") },
	{ REQ("1", "server/discover", ""), ERR("1", "-32602", "_meta: " P
	    "protocolVersion is required, a string") },
	{ REQ("1", "tools/list", "\"_meta\":{\"" P "protocolVersion\":"
	    "\"2026-07-28\"}"), ERR("1", "-32602", "_meta: " P
	    "clientCapabilities is required, an object") },
	{ REQ("1", "tools/list", "\"_meta\":{\"" P "clientCapabilities\":{}}"),
	    ERR("1", "-32602", "_meta: " P "protocolVersion is required, a "
	    "string") },
	{ REQ("1", "nope", "\"_meta\":{\"" P "protocolVersion\":\"2027-01-01\","
	    "\"" P "clientCapabilities\":{}}"), ERR_DATA("1", "-32022",
	    "this protocol version is not supported",
	    "\"supported\":[\"2026-07-28\"],\"requested\":\"2027-01-01\"") },
	{ REQ("1", "ping", NEW), ERR("1", "-32601",
	    "Method not found: ping") },
	{ REQ("1", "initialize", NEW), ERR("1", "-32601",
	    "Method not found: initialize") },
	{ REQ("1", "logging/setLevel", NEW), ERR("1", "-32601",
	    "Method not found: logging/setLevel") },
	{ REQ("1", "resources/subscribe", NEW ",\"uri\":\"a\""),
	    ERR("1", "-32601", "Method not found: resources/subscribe") },
	{ REQ("1", "tools/list", NEW), RES("1", DONE TOOLS
	    ",\"ttlMs\":3600000,\"cacheScope\":\"public\"") },
	{ REQ("1", "resources/list", NEW), RES("1", DONE "\"ttlMs\":0,"
	    "\"cacheScope\":\"private\",\"resources\":[]") },
	{ REQ("1", "resources/read", NEW ",\"uri\":\"a\""), ERR_DATA("1",
	    "-32602", "no such resource", "\"uri\":\"a\"") },
	{ REQ("1", "tools/call", NEW "," ECHO("hi")),
	    RES("1", DONE ECHOED("hi")) },
	{ REQ("1", "tools/call", NEW ",\"name\":\"needs\""), ERR_DATA("1",
	    "-32021", "needs needs a client with the capability "
	    "\\\"sampling\\\"", "\"requiredCapabilities\":{\"sampling\":{}}") },
	{ REQ("1", "tools/call", NEW ",\"name\":\"echo\",\"inputResponses\":1"),
	    ERR("1", "-32602", "inputResponses: must be an object") },
	{ REQ("1", "tools/call", NEW "," ECHO("") ",\"requestState\":1"),
	    ERR("1", "-32602", "requestState: not expected") },
	{ REQ("1", "tools/call", NEW "," ECHO("") ",\"requestState\":\"AAAA\""),
	    ERR("1", "-32602", "requestState is not one of ours; call again "
	    "without it") },
	{ REQ("1", "tools/call", ECHO("") ",\"requestState\":\"AAAA\""),
	    RES("1", ECHOED("")) },
	{ REQ("1", "tools/list", "\"_meta\":{\"" P "protocolVersion\":"
	    "\"2026-07-28\",\"" P "clientCapabilities\":{},\"" P "logLevel\":"
	    "\"loud\"}"), ERR("1", "-32602", "_meta: " P "logLevel is not one "
	    "of the eight levels") },
	/* batches are for one revision, which has to be agreed on first */
	{ "[]", ANON("-32600", "batches are for revision 2025-03-26 only") },
	{ "[" REQ("1", "ping", "") "]",
	    ANON("-32600", "batches are for revision 2025-03-26 only") },
};

START_TEST(answers_as_the_protocol_says)
{
	say_lines(talks[_i].in);
	ck_assert_str_eq(heard(), talks[_i].out);
	ck_assert_uint_eq(mcp_live(mcp), 0);
	ck_assert_int_eq(lasts, *talks[_i].out != '\0');
}
END_TEST

/* Garbage before and after changes nothing but for its own refusals. */
START_TEST(is_not_thrown_by_what_is_around)
{
	static const char *const garbage[] = {
		"{", "}{", "\xff\xfe", "nul", "[[[[", "{\"id\":1,\"id\":2}",
	};

	for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		say_lines(garbage[i]);
		ck_assert_ptr_nonnull(strstr(heard(), "\"code\":-32700"));
		ck_assert_ptr_null(strstr(heard(), "\"id\""));
		buf_reset(&sent, 0);
		say_lines(talks[_i].in);
		say_lines(garbage[i]);
		if (*talks[_i].out != '\0')
			ck_assert_int_eq(strncmp(heard(), talks[_i].out,
			    strlen(talks[_i].out)), 0);
		buf_reset(&sent, 0);
	}
	ck_assert_int_ge(mcp_bad_lines(mcp), 12);
}
END_TEST

START_TEST(refuses_every_beginning_of_a_message)
{
	static const char text[] = REQ("1", "tools/call", NEW "," ECHO("h\\n"));

	for (size_t n = 1; n < strlen(text); n++) {
		say(text, n, NULL);
		ck_assert_ptr_nonnull(strstr(heard(), "\"code\":-32700"));
		ck_assert_ptr_null(strstr(heard(), "\"id\""));
		buf_reset(&sent, 0);
	}
}
END_TEST

/* --- whole conversations ------------------------------------------------ */

static const struct {
	const char *in, *out;
	size_t live;
} sessions[] = {
	/* a legacy client, as Codex and the Inspector open */
	{ REQ("0", "initialize", "\"protocolVersion\":\"2025-06-18\","
	    "\"capabilities\":{},\"clientInfo\":{\"name\":\"c\",\"version\":"
	    "\"1\"}") "\n"
	    NOTE("notifications/initialized", "") "\n"
	    REQ("1", "tools/list", "") "\r\n\n"
	    REQ("2", "tools/call", ECHO("a")) "\n"
	    REQ("3", "ping", ""),
	    INITIALIZED("0", "2025-06-18") "\n" RES("1", TOOLS) "\n"
	    RES("2", ECHOED("a")) "\n" RES("3", ""), 0 },
	/* a modern one, and both on one connection */
	{ REQ("\"server-discover-probe-1\"", "server/discover", NEW) "\n"
	    REQ("0", "tools/call", NEW "," ECHO("b")) "\n"
	    REQ("1", "tools/call", ECHO("b")),
	    RES("\"server-discover-probe-1\"", "\"resultType\":\"complete\","
	    "\"_meta\":{\"" P "serverInfo\":{" FULL "}},\"supportedVersions\":"
	    "[\"2026-07-28\"]," CAPABILITIES("") ",\"instructions\":\"Do.\","
	    "\"ttlMs\":3600000,\"cacheScope\":\"public\"") "\n"
	    RES("0", DONE ECHOED("b")) "\n" RES("1", ECHOED("b")), 0 },
	/* a BOM is skipped, once */
	{ "\xef\xbb\xbf" REQ("1", "ping", "") "\n"
	    "\xef\xbb\xbf" REQ("2", "ping", ""),
	    RES("1", "") "\n" ANON("-32700", "not JSON: a value is missing, at "
	    "byte 0"), 0 },
	/* others are served while one is under way; cancelled is silent */
	{ REQ("1", "tools/call", "\"name\":\"hold\"") "\n"
	    REQ("2", "ping", "") "\n"
	    REQ("1", "ping", "") "\n"
	    NOTE("notifications/cancelled", "\"requestId\":\"1\"") "\n"
	    REQ("\"1\"", "tools/call", ECHO("c")) "\n"
	    NOTE("notifications/cancelled", "\"requestId\":1") "\n"
	    NOTE("notifications/cancelled", "\"requestId\":1") "\n"
	    REQ("1", "ping", ""),
	    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\","
	    "\"params\":{\"level\":\"notice\",\"logger\":\"hold\","
	    "\"data\":\"held\"}}\n"
	    RES("2", "") "\n"
	    ANON("-32600", "a request with this id is under way") "\n"
	    RES("\"1\"", ECHOED("c")) "\n" RES("1", ""), 0 },
	{ REQ("\"\\u0061\"", "tools/call", NEW ",\"name\":\"hold\"") "\n"
	    NOTE("notifications/cancelled", "\"requestId\":\"a\""), "", 0 },
	/* log lines: by setLevel, or by the request's own level */
	{ REQ("0", "logging/setLevel", "\"level\":\"warning\"") "\n"
	    REQ("1", "tools/call", "\"name\":\"hold\""), RES("0", ""), 1 },
	{ REQ("1", "tools/call", NEW ",\"name\":\"hold\""), "", 1 },
	{ REQ("1", "tools/call", "\"name\":\"hold\",\"_meta\":{\"" P
	    "protocolVersion\":\"2026-07-28\",\"" P "clientCapabilities\":{},"
	    "\"" P "logLevel\":\"debug\",\"progressToken\":\"t\\n\"}"),
	    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\","
	    "\"params\":{\"progressToken\":\"t\\n\",\"progress\":0,"
	    "\"message\":\"holding\"}}\n"
	    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\","
	    "\"params\":{\"level\":\"notice\",\"logger\":\"hold\","
	    "\"data\":\"held\"}}", 1 },
	/* a batch, and what may not be in one */
	{ REQ("0", "initialize", "\"protocolVersion\":\"2025-03-26\"") "\n"
	    "[]\n"
	    "[" NOTE("notifications/initialized", "") "]\n"
	    "[" REQ("1", "ping", "") "," NOTE("x", "") ",5,"
	    REQ("2", "tools/call", ECHO("d")) ","
	    REQ("3", "initialize", "\"protocolVersion\":\"2025-03-26\"") ","
	    REQ("4", "tools/list", NEW) ","
	    REQ("5", "tools/call", "\"name\":\"fail\",\"arguments\":"
	    "{\"x\":1}") "]\n" REQ("6", "ping", ""),
	    INITIALIZED("0", "2025-03-26") "\n"
	    ANON("-32600", "a batch must have 1 to 100 messages") "\n"
	    "[" RES("1", "") "," ANON("-32600", "not a JSON-RPC message") ","
	    RES("2", ECHOED("d")) ","
	    ERR("3", "-32600", "initialize must come alone") ","
	    ERR("4", "-32600", "no batches in this revision") ","
	    RES("5", SAID("fail: x is not known here (there is: none)",
	    "true")) "]\n" RES("6", ""), 0 },
	/* agreeing on another revision ends them */
	{ REQ("0", "initialize", "\"protocolVersion\":\"2025-03-26\"") "\n"
	    REQ("1", "initialize", "\"protocolVersion\":\"2025-06-18\"") "\n"
	    "[" REQ("2", "ping", "") "]",
	    INITIALIZED("0", "2025-03-26") "\n" INITIALIZED("1", "2025-06-18")
	    "\n" ANON("-32600", "batches are for revision 2025-03-26 only"),
	    0 },
};

START_TEST(holds_a_conversation)
{
	say_lines(sessions[_i].in);
	ck_assert_str_eq(heard(), sessions[_i].out);
	ck_assert_uint_eq(mcp_live(mcp), sessions[_i].live);
}
END_TEST

static void
agree_on_batches(void)
{
	say_lines(REQ("0", "initialize",
	    "\"protocolVersion\":\"2025-03-26\""));
	say_lines(REQ("0", "logging/setLevel", "\"level\":\"emergency\""));
	buf_reset(&sent, 0);
}

START_TEST(answers_a_batch_when_its_last_call_is_done)
{
	agree_on_batches();
	say_lines("[" REQ("1", "tools/call", "\"name\":\"hold\"") ","
	    REQ("2", "ping", "") "]");
	ck_assert_str_eq(heard(), "");
	say_lines(REQ("3", "ping", ""));
	ck_assert_str_eq(heard(), RES("3", ""));
	buf_reset(&sent, 0);
	fake_pass(60000);
	ck_assert_str_eq(heard(), "[" RES("2", "") ","
	    RES("1", SAID("held", "false")) "]");
}
END_TEST

START_TEST(answers_a_batch_without_what_was_cancelled)
{
	agree_on_batches();
	say_lines("[" REQ("1", "tools/call", "\"name\":\"hold\"") ","
	    REQ("2", "ping", "") "]\n"
	    "[" REQ("4", "tools/call", "\"name\":\"hold\"") "]\n"
	    NOTE("notifications/cancelled", "\"requestId\":4"));
	ck_assert_str_eq(heard(), "");
	say_lines(NOTE("notifications/cancelled", "\"requestId\":1"));
	ck_assert_str_eq(heard(), "[" RES("2", "") "]");
}
END_TEST

START_TEST(refuses_a_batch_that_is_too_long_or_answers_too_much)
{
	struct buf b;

	agree_on_batches();
	buf_init(&b, 1 << 20);
	for (int i = 0; i <= LIMIT_BATCH; i++)
		buf_printf(&b, "%c" REQ("%d", "ping", ""), i == 0 ? '[' : ',',
		    i);
	buf_puts(&b, "]");
	say(b.data, b.len, NULL);
	ck_assert_str_eq(heard(), ANON("-32600", "a batch must have 1 to 100 "
	    "messages"));
	buf_free(&b);
}
END_TEST

START_TEST(gives_up_what_runs_when_the_input_ends)
{
	say_lines(REQ("0", "logging/setLevel", "\"level\":\"emergency\"") "\n"
	    REQ("1", "tools/call", "\"name\":\"hold\"") "\n"
	    REQ("2", "tools/call", "\"name\":\"hold\""));
	buf_reset(&sent, 0);
	ck_assert_uint_eq(mcp_live(mcp), 2);
	mcp_cancel_ticket(mcp, 2);
	ck_assert_uint_eq(mcp_live(mcp), 1);
	mcp_end(mcp);
	ck_assert_uint_eq(mcp_live(mcp), 0);
	ck_assert_uint_eq(mcp_left(mcp), 0);
	ck_assert_str_eq(heard(), "");
}
END_TEST

START_TEST(answers_one_call_too_many_with_a_reason)
{
	char line[256];

	for (int i = 0; i <= LIMIT_CALLS; i++) {
		(void)snprintf(line, sizeof(line), REQ("%d", "tools/call",
		    NEW ",\"name\":\"hold\""), i);
		say_lines(line);
	}
	ck_assert_str_eq(heard(), ERR("32", "-32603", "32 calls are under way, "
	    "try again when one of them is answered"));
}
END_TEST

START_TEST(answers_for_a_message_whose_text_is_gone)
{
	struct error err;

	error_set(&err, ERR_LIMIT, "too long");
	mcp_unreadable(mcp, &err, ++ticket);
	ck_assert_str_eq(heard(), ANON("-32600", "too long"));
	buf_reset(&sent, 0);
	error_set(&err, ERR_INPUT, "not JSON");
	mcp_unreadable(mcp, &err, ++ticket);
	ck_assert_str_eq(heard(), ANON("-32700", "not JSON"));
	ck_assert_int_eq(mcp_bad_lines(mcp), 2);
}
END_TEST

/* --- HTTP --------------------------------------------------------------- */

#define OTHER(what) ERR("1", "-32020", what)
#define NO_NAME OTHER("Mcp-Name is not there or is not params.name")

static const struct {
	const char *version, *method, *name, *in, *out;
	int status;
} headers[] = {
	{ "2025-06-18", NULL, NULL, REQ("1", "ping", ""), RES("1", ""), 200 },
	{ "2025-03-26", NULL, NULL, "[" REQ("1", "ping", "") "]",
	    "[" RES("1", "") "]", 200 },
	{ "2025-06-18", NULL, NULL, "[" REQ("1", "ping", "") "]",
	    ANON("-32600", "batches are for revision 2025-03-26 only"), 400 },
	{ "1999-01-01", NULL, NULL, REQ("1", "ping", ""), ERR("1", "-32600",
	    "MCP-Protocol-Version: 1999-01-01 is not supported"), 400 },
	{ "2025-06-18", NULL, NULL, REQ("1", "nope", ""),
	    ERR("1", "-32601", "Method not found: nope"), 200 },
	{ "2025-06-18", NULL, NULL, "", ANON("-32700", "not JSON: the text "
	    "ends too early, at byte 0"), 400 },
	{ "2025-06-18", NULL, NULL, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":"
	    "{}}", "", 200 },
	{ "2026-07-28", NULL, NULL, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":"
	    "{}}", ANON("-32600", "this answers nothing that was asked"), 400 },
	{ "2026-07-28", "tools/call", "echo", REQ("1", "tools/call", NEW ","
	    ECHO("e")), RES("1", DONE ECHOED("e")), 200 },
	{ "2026-07-28", "tools/call", "=?base64?ZWNobw==?=",
	    REQ("1", "tools/call", NEW "," ECHO("e")),
	    RES("1", DONE ECHOED("e")), 200 },
	{ "2026-07-28", "tools/call", "=?base64?ZWNobw=?=",
	    REQ("1", "tools/call", NEW "," ECHO("e")), NO_NAME, 400 },
	{ "2026-07-28", "tools/call", "=?base64?ZWNo bw==?=",
	    REQ("1", "tools/call", NEW "," ECHO("e")), NO_NAME, 400 },
	{ "2026-07-28", "tools/call", "=?base64?" "?=",
	    REQ("1", "tools/call", NEW "," ECHO("e")), NO_NAME, 400 },
	{ "2026-07-28", "tools/call", "Echo",
	    REQ("1", "tools/call", NEW "," ECHO("e")), NO_NAME, 400 },
	{ "2026-07-28", "tools/call", NULL,
	    REQ("1", "tools/call", NEW "," ECHO("e")), NO_NAME, 400 },
	{ "2026-07-28", "tools/call", "echo", REQ("1", "tools/call", NEW),
	    NO_NAME, 400 },
	{ "2026-07-28", "tools/list", "echo",
	    REQ("1", "tools/call", NEW "," ECHO("e")),
	    OTHER("Mcp-Method is not there or is not the method"), 400 },
	{ "2026-07-28", NULL, "echo", REQ("1", "tools/call", NEW ","
	    ECHO("e")), OTHER("Mcp-Method is not there or is not the method"),
	    400 },
	{ "2026-07-28", "nope", NULL, REQ("1", "nope", NEW),
	    ERR("1", "-32601", "Method not found: nope"), 404 },
	{ "2026-07-28", "resources/read", "bad", REQ("1", "resources/read", NEW
	    ",\"uri\":\"bad\""), ERR("1", "-32602", "uri is bad"), 200 },
	{ "2026-07-28", "tools/call", "needs", REQ("1", "tools/call", NEW ","
	    "\"name\":\"needs\""), ERR_DATA("1", "-32021", "needs needs a "
	    "client with the capability \\\"sampling\\\"",
	    "\"requiredCapabilities\":{\"sampling\":{}}"), 400 },
	{ "2025-06-18", NULL, NULL, REQ("1", "tools/call", NEW "," ECHO("e")),
	    OTHER("MCP-Protocol-Version is not there or differs from _meta: " P
	    "protocolVersion"), 400 },
	{ "2026-07-28", NULL, NULL, REQ("1", "tools/list", ""), ERR("1",
	    "-32602", "_meta: " P "protocolVersion is required, a string"),
	    400 },
	{ "2027-01-01", NULL, NULL, REQ("1", "tools/list", "\"_meta\":{\"" P
	    "protocolVersion\":\"2027-01-01\",\"" P "clientCapabilities\":"
	    "{}}"), ERR_DATA("1", "-32022", "this protocol version is not "
	    "supported", "\"supported\":[\"2026-07-28\"],\"requested\":"
	    "\"2027-01-01\""), 400 },
	{ "2026-07-28", NULL, NULL, REQ("1", "initialize",
	    "\"protocolVersion\":\"2026-07-28\""),
	    INITIALIZED("1", "2025-11-25"), 200 },
};

START_TEST(holds_the_headers_against_the_message)
{
	method = headers[_i].method;
	name = headers[_i].name;
	say(headers[_i].in, strlen(headers[_i].in), headers[_i].version);
	ck_assert_str_eq(heard(), headers[_i].out);
	ck_assert_int_eq(mcp_status(mcp), headers[_i].status);
}
END_TEST

/* Mcp-Param-Region, -Count and -Dry, and the arguments they speak of. */
static const struct arg mirror_args[] = {
	{ .name = "region", .type = ARG_STRING, .flags = ARG_NULL | ARG_TERSE,
	    .header = "Region" },
	{ .name = "count", .type = ARG_INT, .min = -99, .max = LONG_MAX,
	    .header = "Count" },
	{ .name = "dry", .type = ARG_BOOL, .header = "Dry" },
	{ .name = "other", .type = ARG_STRING },
	{ NULL }
};
static const struct tool mirror_tool = { .name = "mirror", .help = "Mirrors",
	.args = mirror_args, .start = empty_start };

static const struct {
	const char *args, *region, *count, *dry;
	const char *wrong;	/* the field that is refused, or NULL */
} mirrored[] = {
	{ "", NULL, NULL, NULL, NULL },
	{ "\"other\":\"x\"", NULL, NULL, NULL, NULL },
	{ "\"region\":null", NULL, NULL, NULL, NULL },
	{ "\"region\":\"eu\"", "eu", NULL, NULL, NULL },
	{ "\"region\":\"\\u0065u\"", "eu", NULL, NULL, NULL },
	{ "\"region\":\"eu\"", "=?base64?ZXU=?=", NULL, NULL, NULL },
	{ "\"region\":\"ZXU=\"", "ZXU=", NULL, NULL, NULL },
	{ "\"region\":\"=?base64?ZXU=\"", "=?base64?ZXU=", NULL, NULL,
	    NULL },
	{ "\"region\":\"\"", "", NULL, NULL, NULL },
	{ "\"region\":\"\"", "=?base64?" "?=", NULL, NULL, NULL },
	{ "\"region\":\"d\u00fc\"", "=?base64?ZMO8?=", NULL, NULL, NULL },
	{ "\"region\":\"eu\"", NULL, NULL, NULL, "Region is not there or" },
	{ "\"region\":\"eu\"", "EU", NULL, NULL, "Region is not there or" },
	{ "\"region\":\"eu\"", "", NULL, NULL, "Region is not there or" },
	{ "\"region\":\"eu\"", "=?base64?ZXU?=", NULL, NULL,
	    "Region is not there or" },
	{ "\"region\":\"eu\"", "=?base64?ZX!U=?=", NULL, NULL,
	    "Region is not there or" },
	{ "\"region\":\"eu\"", "=?base64?ZXUA?=", NULL, NULL,
	    "Region is not there or" },
	{ "\"region\":\"=?base64?=?=\"", "=?base64?=?=", NULL, NULL,
	    "Region is not there or" },
	{ "", "eu", NULL, NULL, "Region is there, but" },
	{ "\"region\":null", "null", NULL, NULL, "Region is there, but" },
	{ "\"region\":{}", "{}", NULL, NULL, "Region is not there or" },
	{ "\"count\":42", NULL, "42", NULL, NULL },
	{ "\"count\":42.0", NULL, "42", NULL, NULL },
	{ "\"count\":42", NULL, "42.00", NULL, NULL },
	{ "\"count\":-7", NULL, "-7", NULL, NULL },
	{ "\"count\":42", NULL, "=?base64?NDI=?=", NULL, NULL },
	{ "\"count\":42", NULL, "43", NULL, "Count is not there or" },
	{ "\"count\":42", NULL, "42.", NULL, "Count is not there or" },
	{ "\"count\":42", NULL, "42.01", NULL, "Count is not there or" },
	{ "\"count\":42", NULL, "+42", NULL, "Count is not there or" },
	{ "\"count\":42", NULL, "0x2a", NULL, "Count is not there or" },
	{ "\"count\":42", NULL, "", NULL, "Count is not there or" },
	{ "\"count\":42", NULL, NULL, NULL, "Count is not there or" },
	{ "\"count\":9223372036854775807", NULL, "99999999999999999999", NULL,
	    "Count is not there or" },
	{ "\"dry\":true", NULL, NULL, "true", NULL },
	{ "\"dry\":false", NULL, NULL, "false", NULL },
	{ "\"dry\":false", NULL, NULL, "False", "Dry is not there or" },
	{ "\"dry\":true", NULL, NULL, "1", "Dry is not there or" },
	{ "\"dry\":true", NULL, NULL, NULL, "Dry is not there or" },
};

static const char *
mirror_field(void *arg, const char *field)
{
	const int i = *(const int *)arg;

	if (strcmp(field, "Mcp-Param-Region") == 0)
		return mirrored[i].region;
	if (strcmp(field, "Mcp-Param-Count") == 0)
		return mirrored[i].count;
	ck_assert_str_eq(field, "Mcp-Param-Dry");
	return mirrored[i].dry;
}

START_TEST(holds_the_arguments_against_their_headers)
{
	static const struct tool *const rows[] = { &mirror_tool, NULL };
	const struct mcp_rows mirrors = { .name = "n", .version = "1",
	    .tools = rows };
	int i = _i;
	const struct mcp_http http = { .version = "2026-07-28",
	    .method = "tools/call", .name = "mirror", .field = mirror_field,
	    .arg = &i };
	struct error err;
	struct mcp *m = mcp_open(NULL, &mirrors, NULL, on_send, &sent, &err);
	char text[512];
	int n;

	ck_assert_ptr_nonnull(m);
	n = snprintf(text, sizeof(text), REQ("1", "tools/call", NEW
	    ",\"name\":\"mirror\",\"arguments\":{%s}"), mirrored[i].args);
	mcp_message(m, text, (size_t)n, NULL, ++ticket, &http);
	if (mirrored[i].wrong == NULL) {
		ck_assert_msg(strstr(sent.data, "\"isError\":false") != NULL,
		    "%s: %s", text, sent.data);
	} else {
		ck_assert_int_eq(mcp_status(m), 400);
		ck_assert_ptr_nonnull(strstr(sent.data, "-32020"));
		ck_assert_msg(strstr(sent.data, mirrored[i].wrong) != NULL,
		    "%s: %s", text, sent.data);
	}
	/* A line has no fields. */
	buf_reset(&sent, 0);
	n = snprintf(text, sizeof(text), REQ("2", "tools/call", NEW
	    ",\"name\":\"mirror\",\"arguments\":{\"count\":1}"));
	mcp_message(m, text, (size_t)n, NULL, ++ticket, NULL);
	ck_assert_ptr_nonnull(strstr(sent.data, "\"isError\":false"));
	mcp_close(m);
}
END_TEST

START_TEST(the_list_tells_of_headers)
{
	static const struct tool *const rows[] = { &mirror_tool, NULL };
	struct jsonw w;

	jsonw_init(&w, &sent);
	jsonw_object(&w, NULL);
	tools_list(&w, rows);
	jsonw_end(&w);
	ck_assert_ptr_nonnull(strstr(sent.data, "\"region\":{\"type\":"
	    "\"string\",\"x-mcp-header\":\"Region\"}"));
}
END_TEST

START_TEST(says_when_a_cancelled_call_is_over)
{
	say_lines(REQ("1", "tools/call", NEW ",\"name\":\"hold\""));
	ck_assert(mcp_modern(mcp));
	ck_assert(mcp_waits(mcp, ticket));
	ck_assert(!mcp_waits(mcp, ticket + 1));
	mcp_cancel_ticket(mcp, ticket);
	ck_assert(!mcp_waits(mcp, ticket));
	ck_assert_str_eq(heard(), "");
	ck_assert_int_eq(silences, 1);
}
END_TEST

static void
on_over(void *arg, const struct call *c, const struct error *err,
    bool cancelled)
{
	const struct place nowhere = { NULL, NULL };
	struct buf *out = arg;

	buf_puts(out, out->len > 0 ? "\n" : "");
	audit_line(out, c, &nowhere, err, cancelled, 5);
}

START_TEST(tells_of_every_call_that_is_over)
{
	struct buf lines;
	int env = 0;
	struct mcp_caller who = { .env = &env, .name = "uid-7",
	    .over = on_over, .arg = &lines };

	buf_init(&lines, 4096);
	mcp_caller(mcp, &who);
	say_lines(REQ("1", "tools/call", NEW "," ECHO("e")) "\n"
	    REQ("2", "tools/call", NEW ",\"name\":\"fail\"") "\n"
	    REQ("3", "tools/call", NEW ",\"name\":\"echo\",\"arguments\":{"
	    "\"namespace\":\"a b=c\",\"command\":\"id\"}") "\n"
	    REQ("4", "tools/call", NEW ",\"name\":\"hold\"") "\n"
	    NOTE("notifications/cancelled", "\"requestId\":4"));
	ck_assert_str_eq(lines.data,
	    "audit: caller=uid-7 tool=echo verdict=ok bytes=12 ms=5\n"
	    "audit: caller=uid-7 tool=fail verdict=lost bytes=13 ms=5\n"
	    "audit: caller=uid-7 tool=echo namespace=a?b?c verdict=input "
	    "bytes=0 ms=5 command=sha256:a56145270ce6b3bebd1dd012b73948677dd618"
	    "d496488bc608a3cb43ce3547dd\n"
	    "audit: caller=uid-7 tool=hold verdict=cancelled bytes=0 ms=5");
	buf_free(&lines);
}
END_TEST

/* --- asking the user ---------------------------------------------------- */

#define ASK(id, args, more) REQ(id, "tools/call", \
	CAPS("\"elicitation\":{}") ",\"name\":\"ask\",\"arguments\":{\"text\":\"" \
	args "\"}" more)
#define ANSWERS ",\"inputResponses\":{\"ok\":{\"action\":\"accept\"," \
	"\"content\":{\"ok\":true}},\"more\":5},\"requestState\":\"%s\""

/* The requestState of the only message sent so far. */
static void
take_state(char *state, size_t size)
{
	const char *p = strstr(heard(), "\"requestState\":\"");
	const char *end;

	ck_assert_ptr_nonnull(p);
	p += strlen("\"requestState\":\"");
	end = strchr(p, '"');
	ck_assert_uint_lt((size_t)(end - p), size);
	memcpy(state, p, (size_t)(end - p));
	state[end - p] = '\0';
	buf_reset(&sent, 0);
}

START_TEST(gets_its_state_back_with_the_answers)
{
	char state[256], line[1024];

	say_lines(ASK("1", "x", ""));
	ck_assert_int_eq(strncmp(heard(), "{\"jsonrpc\":\"2.0\",\"id\":1,"
	    "\"result\":{\"resultType\":\"input_required\"," INFO
	    ",\"inputRequests\":{\"ok\":{\"method\":\"elicitation/create\"}},"
	    "\"requestState\":\"", 100), 0);
	take_state(state, sizeof(state));
	(void)snprintf(line, sizeof(line), ASK("2", "x", ANSWERS), state);
	say_lines(line);
	ck_assert_str_eq(heard(), RES("2", DONE
	    SAID("{\\\"said\\\":\\\"yes st\xc3\xa4te\\\"}", "false")));
}
END_TEST

START_TEST(takes_no_state_for_another_request)
{
	char state[256], line[1024];

	say_lines(ASK("1", "x", ""));
	take_state(state, sizeof(state));
	(void)snprintf(line, sizeof(line), ASK("2", "y", ANSWERS), state);
	say_lines(line);
	ck_assert_str_eq(heard(), ERR("2", "-32602", "requestState was changed "
	    "or belongs to another request; call again without it"));
}
END_TEST

START_TEST(takes_no_state_that_was_changed)
{
	char state[256], line[1024];

	say_lines(ASK("1", "x", ""));
	take_state(state, sizeof(state));
	for (size_t i = 0; state[i] != '\0'; i++) {
		char was = state[i];

		state[i] = was == 'A' ? 'B' : 'A';
		(void)snprintf(line, sizeof(line), ASK("2", "x", ANSWERS),
		    state);
		say_lines(line);
		ck_assert_ptr_nonnull(strstr(heard(), "\"code\":-32602"));
		buf_reset(&sent, 0);
		state[i] = was;
	}
}
END_TEST

START_TEST(asks_again_without_the_answers)
{
	say_lines(ASK("1", "x", ",\"inputResponses\":{\"wrong\":1}"));
	ck_assert_ptr_nonnull(strstr(heard(), "input_required"));
	buf_reset(&sent, 0);
	say_lines(REQ("2", "prompts/get", NEW));
	ck_assert_ptr_nonnull(strstr(heard(), "input_required"));
	buf_reset(&sent, 0);
	say_lines(REQ("3", "prompts/get", ""));
	ck_assert_str_eq(heard(), ERR("3", "-32602", "prompts/get has to ask "
	    "the user, which needs a client of revision 2026-07-28"));
}
END_TEST

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

int
main(void)
{
	Suite *s = suite_create("mcp");
	TCase *t = tcase_create("mcp");

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_loop_test(t, answers_as_the_protocol_says, 0, COUNT(talks));
	tcase_add_loop_test(t, is_not_thrown_by_what_is_around, 0,
	    COUNT(talks));
	tcase_add_test(t, refuses_every_beginning_of_a_message);
	tcase_add_loop_test(t, holds_a_conversation, 0, COUNT(sessions));
	tcase_add_test(t, answers_a_batch_when_its_last_call_is_done);
	tcase_add_test(t, answers_a_batch_without_what_was_cancelled);
	tcase_add_test(t, refuses_a_batch_that_is_too_long_or_answers_too_much);
	tcase_add_test(t, gives_up_what_runs_when_the_input_ends);
	tcase_add_test(t, answers_one_call_too_many_with_a_reason);
	tcase_add_test(t, answers_for_a_message_whose_text_is_gone);
	tcase_add_loop_test(t, holds_the_headers_against_the_message, 0,
	    COUNT(headers));
	tcase_add_loop_test(t, holds_the_arguments_against_their_headers, 0,
	    (int)(sizeof(mirrored) / sizeof(mirrored[0])));
	tcase_add_test(t, the_list_tells_of_headers);
	tcase_add_test(t, says_when_a_cancelled_call_is_over);
	tcase_add_test(t, tells_of_every_call_that_is_over);
	tcase_add_test(t, gets_its_state_back_with_the_answers);
	tcase_add_test(t, takes_no_state_for_another_request);
	tcase_add_test(t, takes_no_state_that_was_changed);
	tcase_add_test(t, asks_again_without_the_answers);
	suite_add_tcase(s, t);
	return suite_run(s);
}
