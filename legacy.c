/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget.h"
#include "error.h"
#include "jsonw.h"
#include "legacy.h"
#include "web.h"

enum {
	REQUEST = 32 << 20,	/* bytes of a request, all quoting included */
	REFUSAL = 64 << 10,	/* of an answer that is not 200 */
	PIECE = 16 << 10
};

/* --- what is sent ------------------------------------------------------- */

void
legacy_quote(struct buf *out, const char *word)
{
	buf_puts(out, "'");
	while (*word != '\0') {
		size_t n = strcspn(word, "'");

		buf_put(out, word, n);
		word += n;
		if (*word == '\'') {
			buf_puts(out, "'\"'\"'");
			word++;
		}
	}
	buf_puts(out, "'");
}

void
legacy_body(struct buf *out, const char *const *argv, bool raw)
{
	struct jsonw w;
	struct buf line;

	buf_init(&line, REQUEST);
	for (size_t i = 0; argv[i] != NULL; i++) {
		if (i > 0)
			buf_puts(&line, " ");
		if (raw)
			buf_puts(&line, argv[i]);
		else
			legacy_quote(&line, argv[i]);
	}
	if (!buf_ok(&line))
		out->failed = true;
	jsonw_init(&w, out);
	jsonw_object(&w, NULL);
	jsonw_bytes(&w, "command", line.data != NULL ? line.data : "",
	    line.len);
	jsonw_end(&w);
	buf_free(&line);
}

size_t
legacy_piece(struct buf *out, const char *bytes, size_t len, size_t max)
{
	size_t from = out->len, i, n;

	for (i = 0; i < len; i += n) {
		unsigned char c = (unsigned char)bytes[i];

		/* Whole characters only: the runtime takes no halves. */
		for (n = 1; i + n < len && c >= 0xc0 &&
		    ((unsigned char)bytes[i + n] & 0xc0) == 0x80; n++)
			;
		if (out->len - from + n + 4 > max)
			break;
		if (c == '\0')
			buf_puts(out, "\\0000");
		else if (c == '\\')
			buf_puts(out, "\\\\");
		else
			buf_put(out, bytes + i, n);
	}
	return i;
}

/* --- what comes --------------------------------------------------------- */

enum {
	AT_START, AT_KEY, IN_KEY, AT_COLON, AT_VALUE, IN_TEXT, IN_NUMBER,
	IN_OTHER, AT_COMMA, AT_END, AT_FAULT
};

void
legacy_answer_init(struct legacy_answer *a, const char *mark, event_fn *fn,
    void *arg)
{
	*a = (struct legacy_answer){ .mark = mark, .fn = fn, .arg = arg };
	buf_init(&a->piece, 2 * PIECE);
	for (int i = 0; i < 2; i++) {
		buf_init(&a->stream[i].plain, LEGACY_PLAIN);
		if (mark == NULL)
			a->stream[i].head_is = HEAD_CAT;
	}
}

void
legacy_answer_free(struct legacy_answer *a)
{
	buf_free(&a->piece);
	buf_free(&a->stream[0].plain);
	buf_free(&a->stream[1].plain);
}

static void
tell(struct legacy_answer *a, int i, const char *data, size_t len)
{
	struct event ev = { .type = EVENT_DATA, .channel = i + 1,
	    .data = data, .len = len, .reason = "" };

	if (len > 0)
		a->fn(a->arg, &ev);
}

/* Which kind of line begins the output? */
static void
judge(struct legacy_answer *a, struct legacy_stream *s)
{
	size_t n = strlen(a->mark);

	s->head_is = HEAD_PLAIN;
	if (s->head_len <= n || memcmp(s->head, a->mark, n) != 0)
		buf_put(&s->plain, s->head, s->head_len);
	else if (s->head_len == n + 8 &&
	    memcmp(s->head + n, " base64\n", 8) == 0)
		s->head_is = HEAD_BASE64;
	else
		s->head_is = HEAD_CAT;
}

static void
output(struct legacy_answer *a, int i, const char *data, size_t len)
{
	struct legacy_stream *s = &a->stream[i];
	struct error ignored;
	struct buf raw;

	while (len > 0 && s->head_is == HEAD_WAIT) {
		s->head[s->head_len++] = *data++;
		len--;
		if (s->head[s->head_len - 1] == '\n' ||
		    s->head_len == sizeof(s->head))
			judge(a, s);
	}
	switch (s->head_is) {
	case HEAD_WAIT:
		break;
	case HEAD_PLAIN:
		if (len > buf_room(&s->plain))
			len = buf_room(&s->plain);
		buf_put(&s->plain, data, len);
		break;
	case HEAD_CAT:
		tell(a, i, data, len);
		break;
	case HEAD_BASE64:
		buf_init(&raw, 4 * PIECE);
		if (!s->bad && base64_decode(&s->base64, data, len, &raw,
		    &ignored) == -1)
			s->bad = true;
		if (buf_ok(&raw))
			tell(a, i, raw.data, raw.len);
		else
			s->bad = true;
		buf_free(&raw);
		break;
	}
}

/* Hand on the text that was read of a value. */
static void
flush(struct legacy_answer *a)
{
	if (a->piece.len > 0 && strcmp(a->key, "stdout") == 0)
		output(a, 0, a->piece.data, a->piece.len);
	else if (a->piece.len > 0 && strcmp(a->key, "stderr") == 0)
		output(a, 1, a->piece.data, a->piece.len);
	buf_reset(&a->piece, PIECE);
}

static void
text(struct legacy_answer *a, const char *bytes, size_t n)
{
	if (a->state == IN_KEY) {
		/* A longer one is none of ours. */
		for (size_t i = 0; i < n; i++)
			if (a->key_len < sizeof(a->key) - 1)
				a->key[a->key_len++] = bytes[i];
		a->key[a->key_len] = '\0';
		return;
	}
	buf_put(&a->piece, bytes, n);
	if (a->piece.len >= PIECE)
		flush(a);
}

static void
character(struct legacy_answer *a, unsigned c)
{
	char out[4];
	size_t n;

	if (c < 0x80) {
		out[0] = (char)c;
		n = 1;
	} else if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		n = 2;
	} else if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		n = 3;
	} else {
		out[0] = (char)(0xf0 | c >> 18);
		out[1] = (char)(0x80 | (c >> 12 & 0x3f));
		out[2] = (char)(0x80 | (c >> 6 & 0x3f));
		out[3] = (char)(0x80 | (c & 0x3f));
		n = 4;
	}
	text(a, out, n);
}

/* Four hex digits are there: a half of a pair waits for the other. */
static void
unit(struct legacy_answer *a)
{
	unsigned u = a->unit;

	if (a->high != 0 && u >= 0xdc00 && u < 0xe000) {
		character(a, 0x10000 + ((a->high - 0xd800) << 10) +
		    (u - 0xdc00));
		a->high = 0;
		return;
	}
	if (a->high != 0)
		character(a, 0xfffd);
	a->high = u >= 0xd800 && u < 0xdc00 ? u : 0;
	if (a->high == 0)
		character(a, u >= 0xdc00 && u < 0xe000 ? 0xfffd : u);
}

static int
hex(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c != '\0' ? strchr(digits, c | 0x20) : NULL;

	return at == NULL || (c < '0') ? -1 : (int)(at - digits);
}

/* Inside a string; escape: 0 none, 1 after the backslash, 2 to 5 in \u. */
static bool
escaped(struct legacy_answer *a, char c)
{
	static const char from[] = "bfnrt\"\\/", to[] = "\b\f\n\r\t\"\\/";
	const char *at;
	int digit;

	if (a->escape == 1 && c == 'u') {
		a->escape = 2;
		a->unit = 0;
		return true;
	}
	if (a->escape == 1) {
		if (c == '\0' || (at = strchr(from, c)) == NULL)
			return false;
		if (a->high != 0)
			character(a, 0xfffd);
		a->high = 0;
		text(a, &to[at - from], 1);
		a->escape = 0;
		return true;
	}
	if ((digit = hex(c)) == -1)
		return false;
	a->unit = a->unit << 4 | (unsigned)digit;
	if (++a->escape == 6) {
		a->escape = 0;
		unit(a);
	}
	return true;
}

/* false: the string is over. */
static bool
string(struct legacy_answer *a, char c)
{
	if (a->escape > 0) {
		if (!escaped(a, c))
			a->state = AT_FAULT;
		return true;
	}
	if (c == '\\') {
		a->escape = 1;
		return true;
	}
	if (a->high != 0)
		character(a, 0xfffd);
	a->high = 0;
	if (c == '"')
		return false;
	text(a, &c, 1);
	return true;
}

static void
number(struct legacy_answer *a)
{
	char *end;

	a->number[a->number_len] = '\0';
	if (strcmp(a->key, "exit_code") != 0)
		return;
	a->code = strtol(a->number, &end, 10);
	a->has_code = end != a->number && (*end == '\0' || *end == '.');
}

static void
value(struct legacy_answer *a, char c)
{
	a->depth = 0;
	a->number_len = 0;
	if (c == '"') {
		a->state = IN_TEXT;
	} else if (c == '-' || (c >= '0' && c <= '9')) {
		a->number[a->number_len++] = c;
		a->state = IN_NUMBER;
	} else {
		a->state = IN_OTHER;
		a->depth = c == '{' || c == '[';
		a->in_string = false;
	}
}

/* A value that is none of ours, passed over; false: c comes after it. */
static bool
other(struct legacy_answer *a, char c)
{
	if (a->in_string) {
		if (a->escape > 0)
			a->escape = 0;
		else if (c == '\\')
			a->escape = 1;
		else if (c == '"')
			a->in_string = false;
		return true;
	}
	if (a->depth == 0 && (c == ',' || c == '}'))
		return false;
	if (c == '"')
		a->in_string = true;
	a->depth += (c == '{' || c == '[') - (c == '}' || c == ']');
	if (a->depth < 0 || a->depth > LIMIT_JSON_DEPTH)
		a->state = AT_FAULT;
	return true;
}

static void
between(struct legacy_answer *a, char c)
{
	if (strchr(" \t\r\n", c) != NULL && c != '\0')
		return;
	if (a->state == AT_START && c == '{') {
		a->state = AT_KEY;
	} else if (a->state == AT_KEY && c == '"') {
		a->state = IN_KEY;
		a->key_len = 0;
		a->key[0] = '\0';
	} else if (a->state == AT_COLON && c == ':') {
		a->state = AT_VALUE;
	} else if (a->state == AT_VALUE) {
		value(a, c);
	} else if (a->state == AT_COMMA && c == ',') {
		a->state = AT_KEY;
	} else if ((a->state == AT_COMMA || a->state == AT_KEY) && c == '}') {
		a->state = AT_END;
	} else {
		a->state = AT_FAULT;
	}
}

static void
take(struct legacy_answer *a, char c)
{
	switch (a->state) {
	case IN_KEY:
		if (!string(a, c))
			a->state = AT_COLON;
		break;
	case IN_TEXT:
		if (!string(a, c)) {
			flush(a);
			a->state = AT_COMMA;
		}
		break;
	case IN_NUMBER:
		if (c != '\0' && strchr("0123456789.eE+-", c) != NULL) {
			if (a->number_len < sizeof(a->number) - 1)
				a->number[a->number_len++] = c;
			break;
		}
		number(a);
		a->state = AT_COMMA;
		between(a, c);
		break;
	case IN_OTHER:
		if (!other(a, c)) {
			a->state = AT_COMMA;
			between(a, c);
		}
		break;
	default:
		between(a, c);
	}
}

int
legacy_answer_feed(struct legacy_answer *a, const char *data, size_t len)
{
	for (size_t i = 0; i < len && a->state != AT_FAULT; i++)
		take(a, data[i]);
	return a->state == AT_FAULT ? -1 : 0;
}

/* The runtime's own words for why nothing came of it. */
static int
refused(struct legacy_answer *a, struct error *err)
{
	static const char prefix[] = "Failed to execute command: ";
	struct buf *b = &a->stream[1].plain;
	const char *why;

	buf_put(b, "", 0);
	why = b->data != NULL ? b->data : "";
	if (strncmp(why, prefix, sizeof(prefix) - 1) != 0)
		return error_set(err, ERR_CLUSTER, "the legacy runtime ran "
		    "something else than what was sent (exit code %ld): "
		    "%.300s", a->code, why);
	why += sizeof(prefix) - 1;
	if (strncmp(why, "Command '", 9) == 0)
		return error_set(err, ERR_TIMEOUT, "the legacy runtime ended "
		    "it at its own time limit (300 s unless "
		    "SANDBOX_EXEC_TIMEOUT_SECONDS is set in the pod), and its "
		    "output is lost: use a shorter timeout, or connection "
		    "type 'exec'");
	if (strstr(why, "codec can't decode") != NULL)
		return error_set(err, ERR_CLUSTER, "the output is not UTF-8, "
		    "and the legacy runtime lost it with the exit code, since "
		    "the image has no base64: write it to a file, or use "
		    "connection type 'exec'");
	if (strstr(why, "'/bin/sh'") != NULL && strstr(why, "[Errno 2]"))
		return error_set(err, ERR_CLUSTER, "the sandbox has no "
		    "/bin/sh");
	if (strncmp(why, "[Errno 7]", 9) == 0)
		return error_set(err, ERR_LIMIT, "command, environment and "
		    "standard input are too long for the legacy runtime");
	return error_set(err, ERR_CLUSTER, "the legacy runtime did not run "
	    "it: %.300s", why);
}

int
legacy_answer_end(struct legacy_answer *a, long *code, struct error *err)
{
	if (a->state != AT_END)
		return error_set(err, ERR_LOST, "the legacy runtime's answer "
		    "is not whole");
	for (int i = 0; i < 2; i++)
		if (a->stream[i].head_is == HEAD_WAIT &&
		    a->stream[i].head_len > 0)
			judge(a, &a->stream[i]);
	if (a->mark != NULL && a->stream[0].head_is != HEAD_CAT &&
	    a->stream[0].head_is != HEAD_BASE64)
		return refused(a, err);
	if (a->stream[0].bad || a->stream[1].bad)
		return error_set(err, ERR_CLUSTER, "the output was changed on "
		    "its way: it is no base64");
	*code = a->has_code ? a->code : -1;
	if (a->has_code && a->code < 0 && a->code > -65)
		*code = 128 - a->code;
	return 0;
}

/* --- the request -------------------------------------------------------- */

struct legacy_run {
	struct web_op *op;
	event_fn *fn;
	void *arg;
	struct legacy_answer answer;
	struct buf refusal;		/* the body of another status */
	char *mark;
	bool begun, faulty;
	bool busy, closed;
};

static void
release(struct legacy_run *r)
{
	web_cancel(r->op);
	legacy_answer_free(&r->answer);
	buf_free(&r->refusal);
	free(r->mark);
	free(r);
}

void
legacy_close(struct legacy_run *r)
{
	if (r == NULL)
		return;
	r->closed = true;
	if (!r->busy)
		release(r);
}

static void
pass_on(void *arg, const struct event *ev)
{
	struct legacy_run *r = arg;

	if (!r->closed)
		r->fn(r->arg, ev);
}

static void
end(struct legacy_run *r, struct event *ev)
{
	event_fn *fn = r->fn;
	void *arg = r->arg;
	struct buf body = r->refusal;

	buf_put(&body, "", 0);
	ev->type = EVENT_END;
	ev->reason = "";
	ev->data = body.data != NULL ? body.data : "";
	ev->len = body.len;
	buf_init(&r->refusal, REFUSAL);
	release(r);
	fn(arg, ev);
	buf_free(&body);
}

static void
finish(struct legacy_run *r, const struct web_op *op, const struct event *ev)
{
	struct event last = { .status = ev->status };
	struct error err;
	bool sent = web_sent(op);

	if (ev->err == NULL && ev->status == 200 && !r->faulty) {
		if (legacy_answer_end(&r->answer, &last.code, &err) == -1)
			last.err = &err;
	} else if (ev->err == NULL && ev->status == 200) {
		error_set(&err, ERR_LOST, "the answer is not the legacy "
		    "runtime's: is one listening there? It may have run");
		last.err = &err;
	} else if (ev->err == NULL) {
		error_set(&err, ERR_CLUSTER, "status %ld", ev->status);
		last.err = &err;
	} else {
		err = *ev->err;
		last.err = &err;
		last.status = 0;
		if (!sent)
			err.code = ERR_CLUSTER;
		else if (err.code != ERR_TLS)
			err.code = ERR_LOST;
	}
	end(r, &last);
}

static void
on_web(void *arg, const struct event *ev)
{
	struct legacy_run *r = arg;
	const struct web_op *op = r->op;
	struct event open = { .type = EVENT_OPEN, .data = "", .reason = "" };

	if (ev->type == EVENT_REPLY) {
		r->op = NULL;
		finish(r, op, ev);
		return;
	}
	if (ev->type != EVENT_DATA)
		return;
	if (ev->status != 200) {
		buf_put(&r->refusal, ev->data, ev->len < buf_room(&r->refusal)
		    ? ev->len : buf_room(&r->refusal));
		return;
	}
	r->busy = true;
	if (!r->begun)
		pass_on(r, &open);
	r->begun = true;
	if (!r->faulty && !r->closed &&
	    legacy_answer_feed(&r->answer, ev->data, ev->len) == -1)
		r->faulty = true;
	r->busy = false;
	if (r->closed)
		release(r);
}

struct legacy_run *
legacy_run(struct web *w, const struct web_req *aimed,
    const char *const *argv, bool raw, const char *mark, event_fn *fn,
    void *arg, struct error *err)
{
	struct legacy_run *r = calloc(1, sizeof(*r));
	struct web_req req = *aimed;
	struct buf body;

	if (r == NULL || (mark != NULL && (r->mark = strdup(mark)) == NULL)) {
		free(r);
		error_set(err, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	r->fn = fn;
	r->arg = arg;
	legacy_answer_init(&r->answer, r->mark, pass_on, r);
	buf_init(&r->refusal, REFUSAL);
	buf_init(&body, REQUEST);
	legacy_body(&body, argv, raw);
	/* It answers when the command has ended, and no sooner. */
	req.first_byte_ms = -1;
	req.stream = true;
	req.body = body.data;
	req.body_len = body.len;
	if (!buf_ok(&body))
		error_set(err, ERR_LIMIT, "the command is too long for the "
		    "legacy runtime");
	else
		r->op = web_send(w, &req, on_web, r, err);
	buf_free(&body);
	if (r->op != NULL)
		return r;
	release(r);
	return NULL;
}
