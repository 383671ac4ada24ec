/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http - HTTP/1.1 as a server speaks it (RFC 9110, 9112), without I/O.
 *
 * Requests are fed in pieces of any size. The reading is strict where two
 * readers could differ: lines end in CRLF only, a length is told once and in
 * one way, no folded lines, no blanks before a colon. What is refused ends the
 * connection, because the start of the next request is not known any more.
 * (The client's side of HTTP, towards the cluster, is libcurl's: web.h.)
 */
#ifndef HTTP_H
#define HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

enum { HTTP_FIELDS = 64 };

enum http_event {
	HTTP_MORE,		/* all bytes were taken, more are needed */
	HTTP_HEAD,		/* the head is there; body_max may be set now */
	HTTP_DATA,	/* a piece of the body, borrowed from the input */
	HTTP_END,		/* the request is whole; then http_next() */
	HTTP_BAD		/* refused: status and why; close after it */
};

struct http_piece {
	const char *data;
	size_t len;
};

struct http {
	/* Of the request, from HTTP_HEAD until http_next(). */
	const char *method;
	const char *target;	/* as sent: visible ASCII */
	int minor;		/* HTTP/1.minor */
	bool keep_alive;	/* the client wants the connection again */
	bool expects;		/* it waits for 100 before the body */
	bool has_body;
	uint64_t body_max;	/* ceiling, the caller's */
	uint64_t body_len;	/* bytes of it so far */

	int status;		/* after HTTP_BAD */
	const char *why;

	/* Private. */
	struct buf head;
	struct { const char *name, *value; } fields[HTTP_FIELDS];
	size_t n_fields;
	size_t line;		/* where the line being read begins */
	uint64_t left;		/* of the body or the chunk */
	size_t meta;		/* bytes of chunk lines and trailers */
	int state;
	bool chunked;
	bool digits;		/* a digit of the chunk's size was there */
};

void http_init(struct http *h, size_t head_max, uint64_t body_max);
void http_free(struct http *h);
/* Takes bytes from *p up to end; piece is set with HTTP_DATA. */
enum http_event http_feed(struct http *h, const char **p, const char *end,
    struct http_piece *piece);
void http_next(struct http *h);
/* Nothing of a request has come since http_init() or http_next(). */
bool http_fresh(const struct http *h);
/* The first field of this name, in any case; NULL if there is none. */
const char *http_field(const struct http *h, const char *name);
/* How often it is there: a security decision takes exactly one. */
size_t http_count(const struct http *h, const char *name);

/*
 * %XX decoded, once; len bytes into dst with a NUL behind. The length, or -1:
 * ill-formed, a NUL inside, or longer than size - 1.
 */
long http_decode(const char *src, size_t len, char *dst, size_t size);
/* The value of the first name=value in a query, decoded; as http_decode(),
 * and -2 if it is not there. query may be NULL. */
long http_query(const char *query, const char *name, char *dst, size_t size);

struct http_answer {
	int status;
	const char *type;	/* NULL: no Content-Type */
	const char *extra;	/* NULL, or "Name: value\r\n" lines */
	const char *server;	/* NULL: no Server field */
	int64_t length;		/* of the body; HTTP_CHUNKED; HTTP_NO_BODY */
	int64_t date;		/* seconds since 1970; 0: no Date */
	bool close;
};

enum { HTTP_CHUNKED = -1, HTTP_NO_BODY = -2 };

void http_head(struct buf *out, const struct http_answer *a);
void http_continue(struct buf *out);		/* 100 */
/* What stands before and after len bytes. False, and nothing: there are none. */
bool http_chunk_head(struct buf *out, uint64_t len);
void http_chunk_tail(struct buf *out);
void http_chunk_end(struct buf *out);
const char *http_reason(int status);

enum { HTTP_DATE_SIZE = 30 };

/* "Sun, 06 Nov 1994 08:49:37 GMT", and back; -1 if it is not of that form. */
void http_date(int64_t t, char dst[HTTP_DATE_SIZE]);
int64_t http_date_parse(const char *s);

#endif
