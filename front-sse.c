/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "budget.h"
#include "front-http.h"
#include "front-own.h"
#include "guard.h"
#include "http.h"
#include "httpd.h"
#include "mcp.h"
#include "meet.h"
#include "sse.h"

static enum sse_verdict
on_post(void *arg, const char *caller, const char *body, size_t len)
{
	struct front *h = arg;

	if (strcmp(caller, h->who.name) != 0)
		return SSE_NOBODY;
	if (h->stop_ms != -1 || httpd_waiting(h->d) >= LIMIT_REPLY)
		return SSE_BUSY;
	mcp_message(h->mcp, body, len, NULL, ++h->ticket, NULL);
	return SSE_TAKEN;
}

static void
open_stream(struct front *h)
{
	struct as *as = front_as(h);
	char name[MEET_NAME_SIZE], first[640];
	int n;

	h->accepts = guard_accept(http_field(h->http, "Accept"));
	if (!(h->accepts & ACCEPT_STREAM)) {
		front_answer(h, 406, TEXT, "answers are text/event-stream\n");
		return;
	}
	if (as != NULL)
		h->box = sse_open(h->f->loop, h->f->meet, name, on_post, h);
	if (h->box == NULL) {
		front_answer(h, 503, TEXT, "no stream can be opened now\n");
		return;
	}
	mcp_caller(h->mcp, &as->caller);
	h->owed = true;
	n = snprintf(first, sizeof(first), "event: endpoint\ndata: "
	    "%s?sessionid=%s\n\n", h->path, name);
	httpd_begin(h->d, "text/event-stream", EVENTS);
	httpd_put(h->d, first, (size_t)n);
}

void
front_end_stream(struct front *h)
{
	sse_close(h->box);
	h->box = NULL;
	h->owed = false;
}

static void
on_carried(void *arg, enum sse_verdict v)
{
	struct front *h = arg;

	h->courier = NULL;
	if (v == SSE_TAKEN)
		front_answer(h, 202, TEXT, "Accepted\n");
	else if (v == SSE_BUSY)
		front_answer(h, 503, TEXT, "the stream can't take it now\n");
	else
		front_answer(h, 404, TEXT, "session not found\n");
}

void
front_stream(struct front *h)
{
	const char *query = strchr(h->http->target, '?');
	char name[64];
	long n;

	if (strcmp(h->http->method, "GET") == 0) {
		open_stream(h);
		return;
	}
	n = http_query(query == NULL ? NULL : query + 1, "sessionid", name,
	    sizeof(name));
	if (n == -2) {
		front_answer(h, 400, TEXT, "sessionid must be given: GET "
		    "opens a stream that says it\n");
		return;
	}
	if (n < 0 || !meet_is_name(name)) {
		on_carried(h, SSE_NOBODY);
		return;
	}
	h->courier = sse_carry(h->f->loop, h->f->meet, name, h->who.name,
	    h->letter.len > 0 ? h->letter.data : "", h->letter.len,
	    on_carried, h);
	if (h->courier == NULL)
		on_carried(h, SSE_BUSY);
}
