/* SPDX-License-Identifier: Apache-2.0 */
/*
 * httpd - one connection of an HTTP/1.1 server, on the loop.
 *
 * Requests are handed on one at a time, a body in pieces as it comes; the next
 * is not looked at before the answer is finished. Every wait for the client
 * has its limit (LIMIT_HTTP_*): a request that comes too slowly is answered
 * with 408, a client that does not read is given up, a silent one closed. Close
 * means: what is answered is sent, then the client may still read it (no
 * reset).
 */
#ifndef HTTPD_H
#define HTTPD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct error;
struct http;
struct httpd;
struct loop;
struct spilled_in;
struct tls_conn;

struct httpd_calls {
	/*
	 * The head is there. True: the body is wanted, at most *max bytes.
	 * False: request() will refuse, so that no 100 is sent, and a short
	 * body is read only to keep the connection.
	 */
	bool (*head)(void *arg, const struct http *h, uint64_t *max);
	/* A piece of it. False: it is too long, which is answered with 413. */
	bool (*body)(void *arg, const char *data, size_t len);
	void (*request)(void *arg, const struct http *h);
	/* Nothing was sent for LIMIT_HTTP_QUIET_MS, the answer is owed. */
	void (*quiet)(void *arg);
	/* The client has gone while an answer was owed, or stopped sending:
	 * that looks alike. What is still answered is sent if it can be. */
	void (*gone)(void *arg);
	/* An answer begins with this status: for counting. May be NULL. */
	void (*answered)(void *arg, int status);
};

/*
 * in and out may be one descriptor; they stay open. tls: that all goes
 * through, or NULL; its handshake has LIMIT_HTTP_HEAD_MS. calls and tls are
 * borrowed.
 */
struct httpd *httpd_open(struct loop *l, int in, int out,
    struct tls_conn *tls, const struct httpd_calls *calls, void *arg,
    struct error *err);
void httpd_close(struct httpd *d);		/* NULL is fine */

/* The whole answer. type and body may be NULL; extra: header lines or NULL. */
void httpd_answer(struct httpd *d, int status, const char *type,
    const char *extra, const void *body, size_t len);
/* The same; what goes into body comes from the stash. It may be taken, another
 * buffer left in its place. */
void httpd_answer_far(struct httpd *d, int status, const char *type,
    const char *extra, struct buf *body, const struct spilled_in *far);
/* Or in pieces: 200, then httpd_put() any number of times, then httpd_end(). */
void httpd_begin(struct httpd *d, const char *type, const char *extra);
bool httpd_begun(const struct httpd *d);
void httpd_put(struct httpd *d, const void *data, size_t len);
void httpd_put_far(struct httpd *d, struct buf *data,
    const struct spilled_in *far);
size_t httpd_waiting(const struct httpd *d);	/* bytes in memory, not yet
						 * written */
void httpd_end(struct httpd *d);

/* No request after the one under way. */
void httpd_stop(struct httpd *d);
/* At once, whatever is owed: the client has gone. */
void httpd_drop(struct httpd *d);
/* Closed, by whichever side: nothing will come or go any more. */
bool httpd_done(const struct httpd *d);

#endif
