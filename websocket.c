/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <mbedtls/sha1.h>

#include "base64.h"
#include "error.h"
#include "budget.h"
#include "utf8.h"
#include "websocket.h"

enum { BODY_MAX = 64 << 10, HEADER_MAX = 10, CONTROL_MAX = 125 };

static void
put_base64(struct buf *out, const void *data, size_t len)
{
	struct base64 b = { .n = 0 };

	base64_encode(&b, data, len, out);
	base64_encode_end(&b, out);
}

/* One header line; a value with a line break in it would begin another. */
static void
put_line(struct buf *out, const char *a, const char *b, const char *c)
{
	size_t at = out->len;

	buf_puts(out, a);
	buf_puts(out, b);
	buf_puts(out, c);
	for (; buf_ok(out) && at < out->len; at++)
		if ((unsigned char)out->data[at] < ' ')
			out->failed = true;
	buf_puts(out, "\r\n");
}

void
ws_request(struct buf *out, const char *host, const char *target,
    const char *const *headers, const unsigned char nonce[16],
    const char *protocols)
{
	put_line(out, "GET ", target, " HTTP/1.1");
	put_line(out, "Host: ", host, "");
	put_line(out, "Upgrade: websocket", "", "");
	put_line(out, "Connection: Upgrade", "", "");
	put_line(out, "Sec-WebSocket-Version: 13", "", "");
	buf_puts(out, "Sec-WebSocket-Key: ");
	put_base64(out, nonce, 16);
	buf_puts(out, "\r\n");
	if (protocols != NULL && protocols[0] != '\0')
		put_line(out, "Sec-WebSocket-Protocol: ", protocols, "");
	for (; headers != NULL && *headers != NULL; headers++)
		put_line(out, *headers, "", "");
	buf_puts(out, "\r\n");
}

void
ws_handshake_init(struct ws_handshake *h, const unsigned char nonce[16],
    const char *protocols)
{
	*h = (struct ws_handshake){ .protocols = protocols, .body_left = -1 };
	memcpy(h->nonce, nonce, sizeof(h->nonce));
	buf_init(&h->head, LIMIT_HEADERS);
	buf_init(&h->body, BODY_MAX);
}

void
ws_handshake_free(struct ws_handshake *h)
{
	buf_free(&h->head);
	buf_free(&h->body);
}

/* A borrowed run of bytes. */
struct span {
	const char *p;
	size_t len;
};

static struct span
trim(struct span s)
{
	while (s.len > 0 && (*s.p == ' ' || *s.p == '\t')) {
		s.p++;
		s.len--;
	}
	while (s.len > 0 && (s.p[s.len - 1] == ' ' || s.p[s.len - 1] == '\t'))
		s.len--;
	return s;
}

static bool
span_is(struct span s, const char *word)
{
	return s.len == strlen(word) && strncasecmp(s.p, word, s.len) == 0;
}

/* Take the next element off a comma-separated list. */
static bool
list_next(struct span *list, struct span *item)
{
	const char *comma;

	if (list->len == 0)
		return false;
	comma = memchr(list->p, ',', list->len);
	item->p = list->p;
	item->len = comma != NULL ? (size_t)(comma - list->p) : list->len;
	list->p += item->len + (comma != NULL);
	list->len -= item->len + (comma != NULL);
	*item = trim(*item);
	return true;
}

static bool
list_has(struct span list, const char *word)
{
	struct span item;

	while (list_next(&list, &item))
		if (span_is(item, word))
			return true;
	return false;
}

/* What the answer's header fields say. */
struct answer {
	bool upgrade, connection, extensions, twice;
	struct span accept, protocol;
};

static void
field(struct ws_handshake *h, struct answer *a, struct span name,
    struct span value)
{
	if (span_is(name, "upgrade")) {
		a->upgrade |= list_has(value, "websocket");
	} else if (span_is(name, "connection")) {
		a->connection |= list_has(value, "upgrade");
	} else if (span_is(name, "sec-websocket-accept")) {
		a->twice |= a->accept.p != NULL;
		a->accept = value;
	} else if (span_is(name, "sec-websocket-protocol")) {
		a->twice |= a->protocol.p != NULL;
		a->protocol = value;
	} else if (span_is(name, "sec-websocket-extensions")) {
		a->extensions = true;
	} else if (span_is(name, "transfer-encoding")) {
		h->chunked |= list_has(value, "chunked");
	} else if (span_is(name, "content-length")) {
		char *end;

		/* The value ends at a CR, so strtol() stops in time. */
		h->body_left = strtol(value.p, &end, 10);
		if (value.len == 0 || end == value.p || h->body_left < 0)
			h->body_left = -1;
	}
}

static int
bad_answer(struct error *err, const char *why)
{
	return error_set(err, ERR_CLUSTER,
	    "the answer to a WebSocket upgrade is wrong: %s", why);
}

/* "HTTP/1.1 101 Switching Protocols" */
static long
status_of(struct span line)
{
	long status = 0;

	if (line.len < 12 || memcmp(line.p, "HTTP/1.", 7) != 0 ||
	    line.p[8] != ' ' || (line.len > 12 && line.p[12] != ' '))
		return 0;
	for (int i = 9; i < 12; i++) {
		if (line.p[i] < '0' || line.p[i] > '9')
			return 0;
		status = status * 10 + line.p[i] - '0';
	}
	return status >= 100 ? status : 0;
}

static int
head_parse(struct ws_handshake *h, struct answer *a, struct error *err)
{
	const char *p = h->head.data, *end = p + h->head.len, *colon;
	struct span line, name, value;

	h->status = 0;
	h->body_left = -1;
	h->chunked = false;
	/* The head ends in an empty line, so each has its CR LF. */
	for (; p < end; p = line.p + line.len + 2) {
		line = (struct span){ p, strcspn(p, "\r\n") };
		if (memcmp(line.p + line.len, "\r\n", 2) != 0)
			return bad_answer(err, "a stray byte in its head");
		if (h->status == 0) {
			if ((h->status = status_of(line)) == 0)
				return bad_answer(err, "it is not HTTP/1.1");
			continue;
		}
		if (line.len == 0)
			break;
		colon = memchr(line.p, ':', line.len);
		if (colon == NULL || colon == line.p ||
		    strchr(" \t", line.p[0]) != NULL || colon[-1] == ' ')
			return bad_answer(err, "a bad header field");
		name = (struct span){ line.p, (size_t)(colon - line.p) };
		value = (struct span){ colon + 1, line.len - name.len - 1 };
		field(h, a, name, trim(value));
	}
	return 0;
}

/* RFC 6455, 4.2.2: what the server must have made of our nonce. */
static bool
accept_good(const struct ws_handshake *h, struct span accept)
{
	unsigned char digest[20] = { 0 };
	struct buf text;
	bool good;

	buf_init(&text, 128);
	put_base64(&text, h->nonce, sizeof(h->nonce));
	buf_puts(&text, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
	good = buf_ok(&text) && mbedtls_sha1((unsigned char *)text.data,
	    text.len, digest) == 0;
	buf_reset(&text, text.cap);
	put_base64(&text, digest, sizeof(digest));
	good = good && buf_ok(&text) && accept.len == text.len &&
	    memcmp(accept.p, text.data, text.len) == 0;
	buf_free(&text);
	return good;
}

static bool
protocol_good(struct ws_handshake *h, struct span chosen)
{
	struct span list = { h->protocols, 0 }, item;

	list.len = h->protocols != NULL ? strlen(h->protocols) : 0;
	if (list.len == 0)
		return chosen.p == NULL;
	while (list_next(&list, &item)) {
		if (item.len != chosen.len || item.len == 0 ||
		    item.len >= sizeof(h->protocol) ||
		    memcmp(item.p, chosen.p, item.len) != 0)
			continue;
		memcpy(h->protocol, item.p, item.len);
		h->protocol[item.len] = '\0';
		return true;
	}
	return false;
}

static int
upgraded(struct ws_handshake *h, const struct answer *a, struct error *err)
{
	if (!a->upgrade || !a->connection)
		return bad_answer(err, "101 without Upgrade: websocket");
	if (a->twice || !accept_good(h, a->accept))
		return bad_answer(err, "Sec-WebSocket-Accept does not match");
	if (a->extensions)
		return bad_answer(err, "an extension nobody asked for");
	if (!protocol_good(h, a->protocol))
		return bad_answer(err, "none of the protocols offered");
	return 1;
}

static int
refused(const struct ws_handshake *h, struct error *err)
{
	return error_set(err, error_of_http(h->status),
	    "the server refused the WebSocket: HTTP %ld", h->status);
}

/*
 * The text of a refusal. Only words for a person hang on it, so what is wrong
 * with its framing ends it without a further error.
 */
static bool
body_feed(struct ws_handshake *h, const char *p, const char *end)
{
	size_t n;

	while (p < end && buf_room(&h->body) > 0) {
		n = (size_t)(end - p);
		if (h->body_left > 0 || !h->chunked) {
			if (h->body_left >= 0 && n > (size_t)h->body_left)
				n = (size_t)h->body_left;
			if (h->body_left >= 0)
				h->body_left -= (long)n;
			buf_put(&h->body, p, n < buf_room(&h->body) ? n :
			    buf_room(&h->body));
			p += n;
			if (h->body_left == 0 && !h->chunked)
				return true;
			continue;
		}
		/* A chunk's size, or the line break after its data. */
		buf_put(&h->head, p, 1);
		if (*p++ != '\n')
			continue;
		if (buf_ok(&h->head) && h->head.len > 2) {
			h->body_left = strtol(h->head.data, NULL, 16);
			if (h->body_left <= 0)
				return true;
		}
		buf_reset(&h->head, LIMIT_HEADERS);
	}
	return buf_room(&h->body) == 0 || !buf_ok(&h->head);
}

/* Take bytes up to the empty line; how many. h->headers_done: it is there. */
static size_t
head_feed(struct ws_handshake *h, const char *data, size_t len)
{
	size_t old = h->head.len, from = old > 3 ? old - 3 : 0, take = len;
	const char *blank;

	if (take > buf_room(&h->head))
		take = buf_room(&h->head);
	buf_put(&h->head, data, take);
	if (!buf_ok(&h->head))
		return take;
	blank = memmem(h->head.data + from, h->head.len - from, "\r\n\r\n", 4);
	if (blank == NULL) {
		if (take < len)
			h->head.failed = true;	/* the limit */
		return take;
	}
	h->headers_done = true;
	take = (size_t)(blank - h->head.data) + 4 - old;
	h->head.len = old + take;
	h->head.data[h->head.len] = '\0';
	return take;
}

int
ws_handshake(struct ws_handshake *h, const void *data, size_t len,
    size_t *used, struct error *err)
{
	const char *p = data, *end;
	int r;

	*used = len;
	if (len == 0)
		return h->headers_done ? refused(h, err) : error_set(err,
		    ERR_LOST, "the connection ended during a WebSocket "
		    "upgrade");
	end = p + len;
	while (!h->headers_done && p < end) {
		struct answer a = { .upgrade = false };

		p += head_feed(h, p, (size_t)(end - p));
		if (!buf_ok(&h->head))
			return error_set(err, ERR_LIMIT, "the head of the "
			    "answer to a WebSocket upgrade is over %d bytes",
			    (int)LIMIT_HEADERS);
		if (!h->headers_done)
			return 0;
		r = memchr(h->head.data, 0, h->head.len) != NULL ?
		    bad_answer(err, "a NUL byte") : head_parse(h, &a, err);
		if (r == -1)
			return -1;
		if (h->status == 101) {
			*used = (size_t)(p - (const char *)data);
			return upgraded(h, &a, err);
		}
		/* Other 1xx answers come before the one that counts. */
		h->headers_done = h->status >= 200;
		if (h->chunked)
			h->body_left = 0;
		buf_reset(&h->head, LIMIT_HEADERS);
	}
	if (!h->headers_done)
		return 0;
	if ((h->body_left == 0 && !h->chunked) || body_feed(h, p, end))
		return refused(h, err);
	return 0;
}

void
ws_frame(struct buf *out, enum ws_op op, const void *data, size_t len,
    const unsigned char mask[4])
{
	unsigned char head[HEADER_MAX];
	size_t n = 2, bytes, i, at;
	uint64_t x, wide;
	char *p;

	assert(op < WS_CLOSE || len <= CONTROL_MAX);
	head[0] = (unsigned char)(0x80 | op);
	bytes = len <= CONTROL_MAX ? 0 : len <= 0xffff ? 2 : 8;
	head[1] = (unsigned char)(0x80 | (bytes == 0 ? len :
	    bytes == 2 ? 126u : 127u));
	for (i = bytes; i > 0; i--)
		head[n++] = (unsigned char)((uint64_t)len >> (8 * (i - 1)));
	buf_put(out, head, n);
	buf_put(out, mask, 4);
	buf_put(out, data, len);
	if (!buf_ok(out))
		return;
	p = out->data + (out->len - len);
	memcpy(&wide, mask, 4);
	memcpy((char *)&wide + 4, mask, 4);
	for (at = 0; len - at >= 8; at += 8) {
		memcpy(&x, p + at, 8);
		x ^= wide;
		memcpy(p + at, &x, 8);
	}
	for (; at < len; at++)
		p[at] ^= (char)mask[at & 3];
}

void
ws_reader_init(struct ws_reader *r)
{
	*r = (struct ws_reader){ .op = WS_CONTINUATION };
	buf_init(&r->message, LIMIT_FRAME);
	buf_init(&r->frame, LIMIT_FRAME + HEADER_MAX);
}

void
ws_reader_free(struct ws_reader *r)
{
	buf_free(&r->message);
	buf_free(&r->frame);
}

/* Bytes of header the frame has, as far as its first two bytes tell. */
static size_t
header_len(const struct ws_reader *r)
{
	unsigned n;

	if (r->frame.len < 2)
		return 2;
	n = r->frame.data[1] & 0x7f;
	return n < 126 ? 2 : n == 126 ? 4 : HEADER_MAX;
}

static uint64_t
payload_len(const struct ws_reader *r)
{
	const unsigned char *p = (const unsigned char *)r->frame.data;
	size_t head = header_len(r);
	uint64_t n = 0;

	if (head == 2)
		return p[1] & 0x7f;
	for (size_t i = 2; i < head; i++)
		n = n << 8 | p[i];
	return n;
}

static int
violation(struct ws_reader *r, struct error *err, const char *what)
{
	r->frame.failed = true;
	return error_set(err, ERR_CLUSTER,
	    "the server broke the WebSocket protocol: %s", what);
}

static int
header_check(struct ws_reader *r, struct error *err)
{
	unsigned first = (unsigned char)r->frame.data[0], op = first & 15;
	uint64_t len = payload_len(r);
	size_t head = header_len(r);

	if ((first & 0x70) != 0)
		return violation(r, err, "a reserved bit is set");
	if ((r->frame.data[1] & 0x80) != 0)
		return violation(r, err, "a masked frame");
	if ((head == 4 && len <= CONTROL_MAX) || (head > 4 && len <= 0xffff))
		return violation(r, err, "a length longer than it need be");
	if (op >= WS_CLOSE && (first & 0x80) == 0)
		return violation(r, err, "a control frame in fragments");
	if (op >= WS_CLOSE && len > CONTROL_MAX)
		return violation(r, err, "a control frame that is too long");
	if (op > WS_PONG || (op > WS_BINARY && op < WS_CLOSE))
		return violation(r, err, "an unknown kind of frame");
	if (op == WS_CLOSE && len == 1)
		return violation(r, err, "half a status in a close frame");
	if (op == WS_CONTINUATION && r->op == 0)
		return violation(r, err, "a fragment of no message");
	if ((op == WS_TEXT || op == WS_BINARY) && r->op != 0)
		return violation(r, err, "a message inside another");
	if (op < WS_CLOSE && len > LIMIT_FRAME - r->message.len) {
		r->frame.failed = true;
		return error_set(err, ERR_LIMIT, "a WebSocket message is "
		    "longer than %d bytes", (int)LIMIT_FRAME);
	}
	return 0;
}

static bool
is_utf8(const char *data, size_t len)
{
	const unsigned char *p = (const unsigned char *)data, *end = p + len;
	size_t n;

	for (; p < end; p += n)
		if ((n = utf8_len(p, end)) == 0)
			return false;
	return true;
}

/* A whole frame is there: hand on what it completes. */
static int
deliver(struct ws_reader *r, ws_got *got, void *arg, struct error *err)
{
	const char *data = r->frame.data + header_len(r);
	size_t len = (size_t)payload_len(r);
	bool fin = (r->frame.data[0] & 0x80) != 0;
	enum ws_op op = r->frame.data[0] & 15;

	if (op >= WS_CLOSE) {
		r->closed = op == WS_CLOSE;
		return got(arg, op, data, len);
	}
	if (op != WS_CONTINUATION)
		r->op = op;
	if (!fin || op == WS_CONTINUATION) {
		buf_put(&r->message, data, len);
		if (!buf_ok(&r->message))
			return error_set(err, ERR_SYSTEM, "WebSocket: no "
			    "memory");
		if (!fin)
			return 0;
		data = r->message.len > 0 ? r->message.data : "";
		len = r->message.len;
	}
	op = r->op;
	r->op = 0;
	if (op == WS_TEXT && !is_utf8(data, len))
		return violation(r, err, "a text that is not UTF-8");
	if (got(arg, op, data, len) == -1)
		return -1;
	buf_reset(&r->message, LIMIT_PUMP);
	return 0;
}

int
ws_feed(struct ws_reader *r, const void *data, size_t len, ws_got *got,
    void *arg, struct error *err)
{
	const char *p = data, *end = p + len;
	size_t head, take, total;

	while (p < end && !r->closed && buf_ok(&r->frame)) {
		head = header_len(r);
		total = r->frame.len < head ? head :
		    head + (size_t)payload_len(r);
		take = total - r->frame.len;
		if (take > (size_t)(end - p))
			take = (size_t)(end - p);
		buf_put(&r->frame, p, take);
		p += take;
		if (!buf_ok(&r->frame))
			break;
		if (r->frame.len < header_len(r))
			continue;
		if (r->frame.len == header_len(r) &&
		    header_check(r, err) == -1)
			return -1;
		if (r->frame.len < header_len(r) + payload_len(r))
			continue;
		/* After -1 the reader may be gone: got() may free it. */
		if (deliver(r, got, arg, err) == -1)
			return -1;
		buf_reset(&r->frame, LIMIT_PUMP);
	}
	if (!r->closed && !buf_ok(&r->frame))
		return error_set(err, ERR_SYSTEM, "WebSocket: no memory, or "
		    "the stream is broken already");
	return 0;
}
