/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole session: lines from a client we know nothing of, calls under way,
 * time passing (a line that starts with 01 lets 256 ms times its next byte
 * pass; 02: the line is a message of HTTP with the header 2025-03-26).
 * Whatever comes: what is sent is one line of JSON that belongs to a message
 * we were given, and at the end nothing is left.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../fake-loop.h"
#include "../fake-tools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
on_send(void *arg, long ticket, struct buf *out, bool last)
{
	const char *json = out->len > 0 ? out->data : "";
	size_t len = out->len;
	struct error err;
	struct json_doc *doc = json_parse(json, len, &err);
	long *highest = arg;

	(void)last;
	/* Only a batch of many may be more than we would read ourselves. */
	assert(len == 0 || doc != NULL || err.code == ERR_LIMIT);
	assert(memchr(json, '\n', len) == NULL);
	assert(ticket > 0 && ticket <= *highest);
	json_free(doc);
}

static void
line(struct mcp *m, const char *text, size_t len, long ticket)
{
	static const struct mcp_http old = { .version = "2025-03-26" };
	static const struct mcp_http new = { .version = "2026-07-28",
	    .method = "tools/call", .name = "=?base64?ZWNobw==?=" };

	if (len >= 2 && text[0] == 1)
		fake_pass(256L * (unsigned char)text[1]);
	else if (len >= 1 && text[0] == 2)
		mcp_message(m, text + 1, len - 1, NULL, ticket, &old);
	else if (len >= 1 && text[0] == 3)
		mcp_message(m, text + 1, len - 1, NULL, ticket, &new);
	else
		mcp_message(m, text, len, NULL, ticket, NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error err;
	long ticket = 0;
	struct mcp *m = mcp_open(NULL, &fake_rows, NULL, on_send, &ticket,
	    &err);
	const uint8_t *end = data + size, *nl;
	char *copy;
	size_t len;

	if (m == NULL)
		return 0;
	while (data < end) {
		nl = memchr(data, '\n', (size_t)(end - data));
		len = (size_t)((nl == NULL ? end : nl) - data);
		if ((copy = malloc(len > 0 ? len : 1)) == NULL)
			break;
		memcpy(copy, data, len);
		line(m, copy, len, ++ticket);
		free(copy);
		data = nl == NULL ? end : nl + 1;
	}
	mcp_end(m);
	assert(mcp_live(m) == 0 && mcp_left(m) == 0);
	mcp_close(m);
	assert(fake_timers == NULL);
	return 0;
}
