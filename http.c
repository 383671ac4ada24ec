/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "http.h"

enum {
	ST_HEAD,		/* request line and fields */
	ST_HEAD_LF,		/* after a CR in them */
	ST_BODY,		/* Content-Length's */
	ST_SIZE,		/* a chunk's size */
	ST_EXT,			/* the rest of its line */
	ST_SIZE_LF,
	ST_CHUNK,
	ST_CHUNK_CR, ST_CHUNK_LF,
	ST_TRAILER,		/* a trailer's line, from its start */
	ST_TRAILER_REST, ST_TRAILER_LF, ST_LAST_LF,
	ST_WHOLE,		/* HTTP_END is next */
	ST_DONE,		/* and was told */
	ST_BAD
};

enum { META_MAX = 16 << 10 };	/* chunk lines and trailers, in all */

void
http_init(struct http *h, size_t head_max, uint64_t body_max)
{
	memset(h, 0, sizeof(*h));
	buf_init(&h->head, head_max);
	h->body_max = body_max;
}

void
http_free(struct http *h)
{
	buf_wipe(&h->head);
}

void
http_next(struct http *h)
{
	struct buf head = h->head;
	uint64_t max = h->body_max;

	memset(h, 0, sizeof(*h));
	buf_reset(&head, 1024);
	h->head = head;
	h->body_max = max;
}

bool
http_fresh(const struct http *h)
{
	return h->state == ST_HEAD && h->head.len == 0;
}

static enum http_event
bad(struct http *h, int status, const char *why)
{
	h->state = ST_BAD;
	h->status = status;
	h->why = why;
	h->keep_alive = false;
	return HTTP_BAD;
}

/* RFC 9110 5.6.2. */
static bool
is_token(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	    (c >= '0' && c <= '9') ||
	    (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

const char *
http_field(const struct http *h, const char *name)
{
	size_t i;

	for (i = 0; i < h->n_fields; i++)
		if (strcasecmp(h->fields[i].name, name) == 0)
			return h->fields[i].value;
	return NULL;
}

size_t
http_count(const struct http *h, const char *name)
{
	size_t i, n = 0;

	for (i = 0; i < h->n_fields; i++)
		n += strcasecmp(h->fields[i].name, name) == 0;
	return n;
}

/* One word of a comma-separated list, in any case. */
static bool
lists(const struct http *h, const char *name, const char *word)
{
	size_t i, n, len = strlen(word);
	const char *p;

	for (i = 0; i < h->n_fields; i++) {
		if (strcasecmp(h->fields[i].name, name) != 0)
			continue;
		for (p = h->fields[i].value; *p != '\0'; p += n) {
			p += strspn(p, ", \t");
			n = strcspn(p, ", \t");
			if (n == len && strncasecmp(p, word, n) == 0)
				return true;
		}
	}
	return false;
}

static enum http_event
request_line(struct http *h, char *line)
{
	char *target, *version, *p;

	for (p = line; is_token(*p); p++)
		continue;
	if (p == line || *p != ' ')
		return bad(h, 400, "the request line has no method");
	*p++ = '\0';
	target = p;
	while (*p > ' ' && *p < 0x7f)
		p++;
	if (p == target || *p != ' ')
		return bad(h, 400, "the request line has no target");
	*p++ = '\0';
	version = p;
	if (strlen(version) != 8 || strncmp(version, "HTTP/", 5) != 0 ||
	    version[6] != '.')
		return bad(h, 400, "the request line has no version");
	if (version[5] != '1' || (version[7] != '0' && version[7] != '1'))
		return bad(h, 505, "only HTTP/1.1 and 1.0 are spoken here");
	h->method = line;
	h->target = target;
	h->minor = version[7] - '0';
	return HTTP_MORE;
}

static enum http_event
field_line(struct http *h, char *line)
{
	char *value, *tail, *p;

	for (p = line; is_token(*p); p++)
		continue;
	if (p == line || *p != ':')
		return bad(h, 400, "a header field's name is ill-formed");
	if (h->n_fields == HTTP_FIELDS)
		return bad(h, 431, "too many header fields");
	*p++ = '\0';
	value = p + strspn(p, " \t");
	for (p = value; *p != '\0'; p++)
		if ((*p > 0 && *p < ' ' && *p != '\t') || *p == 0x7f)
			return bad(h, 400, "a control character in a field");
	for (tail = p; tail > value && (tail[-1] == ' ' ||
	    tail[-1] == '\t'); tail--)
		continue;
	*tail = '\0';
	h->fields[h->n_fields].name = line;
	h->fields[h->n_fields++].value = value;
	return HTTP_MORE;
}

static enum http_event
body_length(struct http *h)
{
	const char *s = http_field(h, "Content-Length");
	const char *coding = http_field(h, "Transfer-Encoding");

	if (http_count(h, "Content-Length") > 1 ||
	    http_count(h, "Transfer-Encoding") > 1 ||
	    (s != NULL && coding != NULL))
		return bad(h, 400, "the body's length is told twice");
	if (coding != NULL) {
		if (h->minor == 0)
			return bad(h, 400, "HTTP/1.0 has no transfer codings");
		if (strcasecmp(coding, "chunked") != 0)
			return bad(h, 501, "no other coding than chunked");
		h->chunked = h->has_body = true;
		return HTTP_MORE;
	}
	if (s == NULL)
		return HTTP_MORE;
	if (*s == '\0' || strlen(s) > 18 ||
	    s[strspn(s, "0123456789")] != '\0')
		return bad(h, 400, "Content-Length is not a length");
	for (; *s != '\0'; s++)
		h->left = h->left * 10 + (uint64_t)(*s - '0');
	h->has_body = h->left > 0;
	return HTTP_MORE;
}

/* What the fields say together, once all are there. */
static enum http_event
head_whole(struct http *h)
{
	const char *expect = http_field(h, "Expect");

	if (http_count(h, "Host") > 1 ||
	    (h->minor == 1 && http_count(h, "Host") == 0))
		return bad(h, 400, "the Host field must be there, once");
	if (body_length(h) == HTTP_BAD)
		return HTTP_BAD;
	if (expect != NULL && h->minor == 1) {
		if (strcasecmp(expect, "100-continue") != 0)
			return bad(h, 417, "no other expectation than 100");
		h->expects = h->has_body;
	}
	h->keep_alive = !lists(h, "Connection", "close") &&
	    (h->minor == 1 || lists(h, "Connection", "keep-alive"));
	h->state = !h->has_body ? ST_WHOLE : h->chunked ? ST_SIZE : ST_BODY;
	return HTTP_HEAD;
}

/*
 * The buffer may have moved while it grew, so that lines are cut only when the
 * head is whole; each ends in CR LF, which was seen to.
 */
static enum http_event
head_parse(struct http *h)
{
	char *line = h->head.data, *tail;
	bool first = true;

	while ((tail = strstr(line, "\r\n")) != NULL && tail != line) {
		*tail = '\0';
		if ((first ? request_line(h, line) : field_line(h, line)) ==
		    HTTP_BAD)
			return HTTP_BAD;
		first = false;
		line = tail + 2;
	}
	return head_whole(h);
}

static enum http_event
head_byte(struct http *h, char c)
{
	bool empty;

	if (h->state == ST_HEAD_LF) {
		if (c != '\n')
			return bad(h, 400, "a CR without its LF");
		h->state = ST_HEAD;
		empty = h->head.len == h->line + 1;
		buf_put(&h->head, &c, 1);
		if (!buf_ok(&h->head))
			return bad(h, 431, "the header fields are too long");
		if (!empty) {
			h->line = h->head.len;
			return HTTP_MORE;
		}
		if (h->line > 0)
			return head_parse(h);
		/* RFC 9112 2.2: an empty line before a request is skipped. */
		if (++h->meta > 2)
			return bad(h, 400, "empty lines instead of a request");
		buf_reset(&h->head, 1024);
		return HTTP_MORE;
	}
	if (c == '\n' || c == '\0')
		return bad(h, 400, "a line that does not end in CR LF");
	if (c == '\r')
		h->state = ST_HEAD_LF;
	buf_put(&h->head, &c, 1);
	if (!buf_ok(&h->head))
		return bad(h, h->line == 0 ? 414 : 431,
		    "the header fields are too long");
	return HTTP_MORE;
}

static int
hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static enum http_event
size_byte(struct http *h, char c)
{
	int n = hex(c);

	if (n >= 0) {
		if (h->left >> 56 != 0)
			return bad(h, 400, "a chunk's size is too large");
		h->left = h->left << 4 | (unsigned)n;
		h->digits = true;
		return HTTP_MORE;
	}
	if (!h->digits)
		return bad(h, 400, "a chunk without a size");
	if (c == '\r')
		h->state = ST_SIZE_LF;
	else if (c == ';' || c == ' ' || c == '\t')
		h->state = ST_EXT;
	else
		return bad(h, 400, "a chunk's size is ill-formed");
	return HTTP_MORE;
}

/* A byte that must be this one. */
static enum http_event
must(struct http *h, char c, char want, int next)
{
	if (c != want)
		return bad(h, 400, "a chunk's line is ill-formed");
	h->state = next;
	return HTTP_MORE;
}

static enum http_event
meta_byte(struct http *h, char c)
{
	if (++h->meta > META_MAX)
		return bad(h, 400, "too much between the chunks");
	switch (h->state) {
	case ST_SIZE:
		return size_byte(h, c);
	case ST_EXT:
	case ST_TRAILER_REST:
		if (c == '\r')
			h->state = h->state == ST_EXT ? ST_SIZE_LF :
			    ST_TRAILER_LF;
		else if (c == '\n' || c == '\0')
			return bad(h, 400, "a chunk's line is ill-formed");
		return HTTP_MORE;
	case ST_SIZE_LF:
		return must(h, c, '\n', h->left > 0 ? ST_CHUNK : ST_TRAILER);
	case ST_CHUNK_CR:
		return must(h, c, '\r', ST_CHUNK_LF);
	case ST_CHUNK_LF:
		h->digits = false;
		return must(h, c, '\n', ST_SIZE);
	case ST_TRAILER:
		if (c == '\r')
			h->state = ST_LAST_LF;
		else if (is_token(c))
			h->state = ST_TRAILER_REST;
		else
			return bad(h, 400, "a trailer is ill-formed");
		return HTTP_MORE;
	case ST_TRAILER_LF:
		return must(h, c, '\n', ST_TRAILER);
	default:
		return must(h, c, '\n', ST_WHOLE);
	}
}

static enum http_event
data(struct http *h, const char **p, const char *end,
    struct http_piece *piece)
{
	size_t n = (size_t)(end - *p);

	if (n > h->left)
		n = (size_t)h->left;
	if (n > h->body_max - h->body_len)
		return bad(h, 413, "the body is too long");
	piece->data = *p;
	piece->len = n;
	*p += n;
	h->left -= n;
	h->body_len += n;
	if (h->left == 0)
		h->state = h->chunked ? ST_CHUNK_CR : ST_WHOLE;
	return HTTP_DATA;
}

enum http_event
http_feed(struct http *h, const char **p, const char *end,
    struct http_piece *piece)
{
	enum http_event e;

	if (h->state == ST_WHOLE) {
		h->state = ST_DONE;
		return HTTP_END;
	}
	if (h->state == ST_BODY && h->left > h->body_max - h->body_len)
		return bad(h, 413, "the body is too long");
	while (*p < end && h->state != ST_DONE) {
		if (h->state == ST_BAD)
			return HTTP_BAD;
		if (h->state == ST_BODY || h->state == ST_CHUNK)
			return data(h, p, end, piece);
		if (h->state <= ST_HEAD_LF)
			e = head_byte(h, *(*p)++);
		else
			e = meta_byte(h, *(*p)++);
		if (e != HTTP_MORE)
			return e;
		if (h->state == ST_WHOLE) {
			h->state = ST_DONE;
			return HTTP_END;
		}
	}
	return HTTP_MORE;
}

long
http_decode(const char *src, size_t len, char *dst, size_t size)
{
	size_t i, n = 0;
	char c;

	for (i = 0; i < len; i++) {
		c = src[i];
		if (c == '%') {
			if (len - i < 3 || hex(src[i + 1]) < 0 ||
			    hex(src[i + 2]) < 0)
				return -1;
			c = (char)(hex(src[i + 1]) << 4 | hex(src[i + 2]));
			i += 2;
		}
		if (c == '\0' || n + 1 >= size)
			return -1;
		dst[n++] = c;
	}
	if (size == 0)
		return -1;
	dst[n] = '\0';
	return (long)n;
}

long
http_query(const char *query, const char *name, char *dst, size_t size)
{
	size_t n, len = strlen(name);
	const char *p;

	for (p = query; p != NULL && *p != '\0'; p += n + (p[n] == '&')) {
		n = strcspn(p, "&");
		if (n >= len && strncmp(p, name, len) == 0 &&
		    (n == len || p[len] == '='))
			return http_decode(p + len + (n > len),
			    n - len - (n > len), dst, size);
	}
	return -2;
}

const char *
http_reason(int status)
{
	static const struct {
		int status;
		const char *text;
	} reasons[] = {
		{ 200, "OK" }, { 202, "Accepted" }, { 204, "No Content" },
		{ 206, "Partial Content" }, { 304, "Not Modified" },
		{ 307, "Temporary Redirect" }, { 400, "Bad Request" },
		{ 401, "Unauthorized" }, { 403, "Forbidden" },
		{ 404, "Not Found" }, { 405, "Method Not Allowed" },
		{ 406, "Not Acceptable" }, { 408, "Request Timeout" },
		{ 409, "Conflict" }, { 413, "Content Too Large" },
		{ 414, "URI Too Long" }, { 415, "Unsupported Media Type" },
		{ 416, "Range Not Satisfiable" },
		{ 417, "Expectation Failed" }, { 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" }, { 501, "Not Implemented" },
		{ 503, "Service Unavailable" },
		{ 505, "HTTP Version Not Supported" }
	};
	size_t i;

	for (i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].status == status)
			return reasons[i].text;
	return "Unknown";
}

void
http_head(struct buf *out, const struct http_answer *a)
{
	char date[HTTP_DATE_SIZE];

	buf_printf(out, "HTTP/1.1 %d %s\r\n", a->status,
	    http_reason(a->status));
	if (a->date != 0) {
		http_date(a->date, date);
		buf_printf(out, "Date: %s\r\n", date);
	}
	if (a->server != NULL)
		buf_printf(out, "Server: %s\r\n", a->server);
	if (a->type != NULL)
		buf_printf(out, "Content-Type: %s\r\n", a->type);
	if (a->length >= 0)
		buf_printf(out, "Content-Length: %" PRId64 "\r\n", a->length);
	else if (a->length == HTTP_CHUNKED)
		buf_puts(out, "Transfer-Encoding: chunked\r\n");
	if (a->extra != NULL)
		buf_puts(out, a->extra);
	buf_puts(out, a->close ? "Connection: close\r\n\r\n" : "\r\n");
}

void
http_continue(struct buf *out)
{
	buf_puts(out, "HTTP/1.1 100 Continue\r\n\r\n");
}

bool
http_chunk_head(struct buf *out, uint64_t len)
{
	if (len == 0)
		return false;	/* it would end the body */
	buf_printf(out, "%llx\r\n", (unsigned long long)len);
	return true;
}

void
http_chunk_tail(struct buf *out)
{
	buf_puts(out, "\r\n");
}

void
http_chunk_end(struct buf *out)
{
	buf_puts(out, "0\r\n\r\n");
}

static const char days[] = "SunMonTueWedThuFriSat";
static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

void
http_date(int64_t t, char dst[HTTP_DATE_SIZE])
{
	time_t when = (time_t)t;
	struct tm tm;

	if (gmtime_r(&when, &tm) == NULL || tm.tm_year < -1900 ||
	    tm.tm_year > 9999 - 1900)
		memset(&tm, 0, sizeof(tm));
	(void)snprintf(dst, HTTP_DATE_SIZE,
	    "%.3s, %02u %.3s %04u %02u:%02u:%02u GMT", days + 3 * tm.tm_wday,
	    (unsigned)tm.tm_mday % 100, months + 3 * tm.tm_mon,
	    (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)tm.tm_hour % 100,
	    (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
}

/* digits decimal digits at *s, behind the text that must be before them. */
static int
date_number(const char **s, const char *before, int digits)
{
	int n = 0;

	for (; *before != '\0'; before++, (*s)++)
		if (**s != *before)
			return -1;
	for (; digits > 0; digits--, (*s)++) {
		if (**s < '0' || **s > '9')
			return -1;
		n = n * 10 + (**s - '0');
	}
	return n;
}

int64_t
http_date_parse(const char *s)
{
	struct tm tm = { 0 };
	size_t day, month;

	if (strlen(s) != HTTP_DATE_SIZE - 1)
		return -1;
	for (day = 0; days[day] != '\0' && strncmp(s, days + day, 3) != 0;)
		day += 3;
	s += 3;
	tm.tm_mday = date_number(&s, ", ", 2);
	if (days[day] == '\0' || tm.tm_mday < 1 || *s++ != ' ')
		return -1;
	for (month = 0; months[month] != '\0' &&
	    strncmp(s, months + month, 3) != 0;)
		month += 3;
	s += 3;
	tm.tm_mon = (int)(month / 3);
	tm.tm_year = date_number(&s, " ", 4) - 1900;
	if (months[month] == '\0' || tm.tm_year < 0 ||
	    (tm.tm_hour = date_number(&s, " ", 2)) == -1 ||
	    (tm.tm_min = date_number(&s, ":", 2)) == -1 ||
	    (tm.tm_sec = date_number(&s, ":", 2)) == -1 ||
	    strcmp(s, " GMT") != 0)
		return -1;
	return (int64_t)timegm(&tm);
}
