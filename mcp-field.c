/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base64.h"
#include "buf.h"
#include "error.h"
#include "json.h"
#include "mcp.h"
#include "mcp-own.h"
#include "rpc.h"
#include "tools.h"

/*
 * A field's value, plain or =?base64?...?= where it must be, into plain, which
 * is initialized. False: ill-formed, or with a NUL inside.
 */
static bool
field_plain(const char *field, struct buf *plain)
{
	size_t len = strlen(field);
	struct base64 b = { .n = 0 };
	struct error err;

	buf_puts(plain, "");
	if (len < 11 || strncmp(field, "=?base64?", 9) != 0 ||
	    strcmp(field + len - 2, "?=") != 0)
		buf_puts(plain, field);
	else if (strpbrk(field, " \t") != NULL ||
	    base64_decode(&b, field + 9, len - 11, plain, &err) == -1 ||
	    base64_decode_end(&b, &err) == -1)
		return false;
	return buf_ok(plain) && plain->data != NULL &&
	    strlen(plain->data) == plain->len;
}

/* A whole number as its digits, or with a fraction of zeros. */
static bool
number_is(struct json v, const char *text)
{
	const char *digits = text + (*text == '-');
	size_t n = strspn(digits, "0123456789"), all = n;
	long is;

	if (digits[n] == '.')
		all += 1 + strspn(digits + n + 1, "0");
	return n > 0 && n <= 18 && digits[all] == '\0' &&
	    (all == n || all > n + 1) && json_int(v, LONG_MIN, LONG_MAX, &is) &&
	    is == strtol(text, NULL, 10);
}

static bool
field_is(const char *field, struct json v)
{
	struct buf plain;
	const char *text;
	bool same, flag;

	buf_init(&plain, strlen(field) + 1);
	same = field_plain(field, &plain);
	text = same ? plain.data : "";
	if (json_type(v) == JSON_NUMBER)
		same = same && number_is(v, text);
	else if (json_bool(v, &flag))
		same = same && strcmp(text, flag ? "true" : "false") == 0;
	else
		same = same && json_is(v, text);
	buf_free(&plain);
	return same;
}

/*
 * And one for each argument whose row has a header: it is there when the
 * argument is, and says the same, as what is between us may go by it.
 */
bool
mcp_params_ok(struct request *r, const struct tool *t, struct json args)
{
	const struct mcp_http *h = r->m->http;
	char name[96];

	if (h == NULL || !r->to.modern)
		return true;
	for (const struct arg *a = t->args; a != NULL && a->name != NULL; a++) {
		struct json v = json_get(args, a->name);
		const char *field;
		bool given = json_type(v) != JSON_NONE &&
		    json_type(v) != JSON_NULL;

		if (a->header == NULL)
			continue;
		(void)snprintf(name, sizeof(name), "Mcp-Param-%s", a->header);
		field = h->field == NULL ? NULL : h->field(h->arg, name);
		if (given ? field != NULL && field_is(field, v) : field == NULL)
			continue;
		mcp_refuse(r, HEADER_MISMATCH, given ? "%s is not there or is "
		    "not arguments.%s" : "%s is there, but arguments.%s is "
		    "not", name, a->name);
		return false;
	}
	return true;
}

/* Two fields say again what is asked for, so that a proxy need not read it. */
bool
mcp_names_ok(struct request *r)
{
	static const struct {
		const char *method, *param;
	} named[] = {
		{ "tools/call", "name" }, { "prompts/get", "name" },
		{ "resources/read", "uri" }, { "tasks/get", "taskId" },
		{ "tasks/update", "taskId" }, { "tasks/cancel", "taskId" },
	};
	const struct mcp_http *h = r->m->http;
	struct json v;

	if (h == NULL)
		return true;
	if (h->method == NULL || strcmp(h->method, r->method) != 0) {
		mcp_refuse(r, HEADER_MISMATCH, "Mcp-Method is not there or is "
		    "not the method");
		return false;
	}
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
		if (strcmp(r->method, named[i].method) != 0)
			continue;
		v = json_get(r->params, named[i].param);
		if (json_type(v) == JSON_NONE ? h->name == NULL :
		    h->name != NULL && field_is(h->name, v))
			continue;
		mcp_refuse(r, HEADER_MISMATCH, "Mcp-Name is not there or is "
		    "not params.%s", named[i].param);
		return false;
	}
	return true;
}

bool
mcp_header_ok(struct request *r)
{
	const char *h = r->m->http == NULL ? NULL : r->m->http->version;

	if (h == NULL || strcmp(r->method, "initialize") == 0)
		return true;
	for (size_t i = 0; mcp_legacy[i] != NULL; i++)
		if (strcmp(h, mcp_legacy[i]) == 0)
			return true;
	mcp_refuse(r, RPC_REQUEST, "MCP-Protocol-Version: %s is not "
	    "supported", h);
	return false;
}
