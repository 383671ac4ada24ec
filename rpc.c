/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "jsonw.h"
#include "budget.h"
#include "rpc.h"

_Static_assert(RPC_ID_SIZE == LIMIT_ID + 3, "quotes and a NUL");

struct batch {
	struct batch *next;
	long ticket;
	size_t held;
	struct buf out;
};

bool
rpc_id(struct json v, char dst[RPC_ID_SIZE])
{
	size_t len, digits;
	const char *raw = json_raw(v, &len);

	if (json_type(v) == JSON_NUMBER) {
		digits = strspn(raw + (*raw == '-'), "0123456789");
		if (digits + (*raw == '-') != len || digits > RPC_ID_DIGITS)
			return false;
	} else if (json_type(v) != JSON_STRING || len - 2 > LIMIT_ID) {
		return false;
	}
	memcpy(dst, raw, len);
	dst[len] = '\0';
	return true;
}

void
rpc_begin(struct jsonw *w, struct buf *out, const struct rpc_to *to)
{
	buf_init(out, LIMIT_REPLY);
	jsonw_init(w, out);
	jsonw_object(w, NULL);
	jsonw_str(w, "jsonrpc", "2.0");
	if (to->id[0] != '\0')
		jsonw_raw(w, "id", to->id, strlen(to->id));
}

bool
rpc_end(struct rpc *r, struct jsonw *w, const struct rpc_to *to)
{
	struct buf *out = w->out;
	bool ok;

	jsonw_end(w);
	ok = buf_ok(out);
	if (ok && to->batch != NULL) {
		buf_puts(&to->batch->out, to->batch->out.len == 0 ? "[" : ",");
		buf_put(&to->batch->out, out->data, out->len);
	} else if (ok) {
		r->send(r->arg, to->ticket, out, true);
	}
	buf_free(out);
	return ok;
}

void
rpc_error(struct rpc *r, const struct rpc_to *to, int code, const char *text,
    const struct buf *data)
{
	struct jsonw w;
	struct buf out;

	rpc_begin(&w, &out, to);
	jsonw_object(&w, "error");
	jsonw_int(&w, "code", code);
	jsonw_str(&w, "message", text);
	if (data != NULL && data->len > 0 && buf_ok(data))
		jsonw_raw(&w, "data", data->data, data->len);
	jsonw_end(&w);
	if (!rpc_end(r, &w, to) && data != NULL)
		rpc_error(r, to, code, text, NULL);
}

void
rpc_notify(struct rpc *r, long ticket, const char *method, const char *params,
    size_t len)
{
	struct jsonw w;
	struct buf out;

	buf_init(&out, LIMIT_REPLY);
	jsonw_init(&w, &out);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "jsonrpc", "2.0");
	jsonw_str(&w, "method", method);
	jsonw_raw(&w, "params", params, len);
	jsonw_end(&w);
	if (buf_ok(&out))
		r->send(r->arg, ticket, &out, false);
	buf_free(&out);
}

struct batch *
rpc_batch_open(struct rpc *r, long ticket)
{
	struct batch *b = calloc(1, sizeof(*b));

	if (b == NULL)
		return NULL;
	b->ticket = ticket;
	b->held = 1;
	b->next = r->batches;
	r->batches = b;
	buf_init(&b->out, LIMIT_REPLY);
	return b;
}

void
rpc_batch_hold(struct batch *b)
{
	if (b != NULL)
		b->held++;
}

void
rpc_batch_drop(struct rpc *r, struct batch *b)
{
	struct rpc_to to = { .id = "" };
	struct batch **at = &r->batches;

	if (b == NULL || --b->held > 0)
		return;
	to.ticket = b->ticket;
	buf_puts(&b->out, b->out.len > 0 ? "]" : "");
	if (!buf_ok(&b->out))
		rpc_error(r, &to, RPC_INTERNAL, "the answers of this batch are "
		    "larger than one message may be", NULL);
	else
		r->send(r->arg, b->ticket, &b->out, true);
	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	buf_free(&b->out);
	free(b);
}

void
rpc_batch_free_all(struct rpc *r)
{
	struct batch *b;

	while ((b = r->batches) != NULL) {
		r->batches = b->next;
		buf_free(&b->out);
		free(b);
	}
}
