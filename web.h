/* SPDX-License-Identifier: Apache-2.0 */
/*
 * web - HTTP requests with libcurl (1.1, and 2 where asked), many at a time.
 *
 * The client side only; it knows neither Kubernetes nor MCP. No redirect is
 * followed, no environment proxy is used, nothing is repeated.
 */
#ifndef WEB_H
#define WEB_H

#include <stdbool.h>
#include <stddef.h>

#include "event.h"

struct error;
struct loop;
struct web;
struct web_op;

/* PEM texts; all may be NULL. Borrowed for as long as they are used. */
struct web_tls {
	const char *ca;		/* NULL: none is trusted */
	const char *cert, *key;
	const char *name;	/* what the certificate must name; NULL: host */
	bool insecure;		/* verify nothing */
	bool copied;		/* cert and key may go once web_send() or
				 * web_connect() has returned */
};

struct web_req {
	const char *method;
	const char *url;
	const char *const *headers;	/* "Name: value", NULL at the end */
	const char *body;		/* copied */
	size_t body_len;
	/*
	 * A body too long to copy: give() fills at most size bytes and
	 * returns how many, 0 at its end, -1 to give up, -2 for "later"
	 * (then web_resume() when there is more). length -1: chunked.
	 */
	long (*give)(void *arg, char *dst, size_t size);
	void *give_arg;
	long give_length;
	const struct web_tls *tls;
	const char *resolve;		/* "host:port:address", or NULL */
	const char *proxy;		/* or NULL */
	const char *proxy_ca;		/* PEM: whom an https proxy is held
					 * against; NULL: none. Borrowed */
	/* Opens the socket instead of connect(2); -1 on failure. */
	int (*open_socket)(void *arg);
	void *open_arg;
	bool http2;			/* prior knowledge, without TLS */
	bool stream;		/* body comes as EVENT_DATA; then REPLY */
	bool fresh;			/* never on a kept-alive connection */
	size_t max_body;	/* 0: LIMIT_BODY; no limit for a stream */
	long connect_ms;		/* 0: the limits' */
	long first_byte_ms;		/* 0: the limits'; -1 none */
	long idle_ms;			/* 0: the limits'; -1 none */
	long total_ms;			/* 0: none */
};

/* The libraries behind it and their versions, a line. */
const char *web_libraries(void);

struct web *web_open(struct loop *l, struct error *err);
void web_close(struct web *w);

/*
 * Everything in req is copied but tls and give_arg/open_arg. Ends with
 * EVENT_REPLY: status, the body (empty if streamed), and err when no whole
 * answer came: ERR_TLS with a sentence that says which check failed (unknown
 * CA, other name, expired, ...), ERR_LOST, ERR_TIMEOUT, ERR_LIMIT. A status
 * outside 2xx is not an error here. NULL: no memory or a bad request.
 */
struct web_op *web_send(struct web *w, const struct web_req *req,
    event_fn *done, void *arg, struct error *err);
void web_cancel(struct web_op *op);	/* NULL is fine */
void web_pause(struct web_op *op);	/* no EVENT_DATA until resumed */
void web_resume(struct web_op *op);
/* Of a stream: has something come that was not passed on yet? Looks at the
 * socket too; true also when it can't be told. */
bool web_unread(const struct web_op *op);

/* Did any byte of the request reach the other side? Then a POST may have
 * been carried out. Valid inside the callback of EVENT_REPLY. */
bool web_sent(const struct web_op *op);

/* A field of the answer's head or trailers, "" if it is not there; in EVENT_
 * DATA and EVENT_REPLY. */
const char *web_field(const struct web_op *op, const char *name);

/*
 * A connected socket under TLS for somebody else's protocol (stream.c):
 * EVENT_OPEN when connected, EVENT_END when that failed. web_raw_*() move
 * bytes: > 0, 0 for "not now", -1 for the end or an error. Receive until 0:
 * TLS holds bytes that poll(2) does not see. After a send that gave 0 the same
 * bytes must come first.
 */
struct web_op *web_connect(struct web *w, const struct web_req *req,
    event_fn *fn, void *arg, struct error *err);
int web_raw_fd(struct web_op *op);
long web_raw_recv(struct web_op *op, void *dst, size_t size);
long web_raw_send(struct web_op *op, const void *src, size_t len);

#endif
