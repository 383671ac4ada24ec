/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls - a server's end of TLS 1.2 and 1.3 (RFC 5246, 8446), on a socket that
 * does not block. The client's end, towards the cluster, is libcurl's: web.h.
 *
 * Certificate, key and the clients' authority are read once, and read again
 * when their files have changed, before the confinement; nothing random is
 * made before the process of a connection has begun. A client may do without
 * a certificate; one that is no good ends the connection. There are no
 * revocation lists and no resumption.
 */
#ifndef TLS_H
#define TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct error;
struct tls;
struct tls_conn;

enum { TLS_NAME_SIZE = 256 };

/* PEM. key NULL: it is in cert's file; ca NULL: clients have no certificate.
 * Borrowed. */
struct tls_paths {
	const char *cert, *key, *ca;
};

/* NULL: ERR_CONFIG names the file and says what is wrong with it. */
struct tls *tls_read(const struct tls_paths *p, struct error *err);
void tls_free(struct tls *t);		/* NULL is fine */
bool tls_asks(const struct tls *t);	/* clients for a certificate */
/*
 * What is there now in the place of *t, if a file has changed: 0. -1: that is
 * no good, err says why, and *t is what it was.
 */
int tls_refresh(struct tls **t, struct error *err);

/* On a connected socket, in and out; both stay open, t is borrowed. */
struct tls_conn *tls_accept(struct tls *t, int in, int out,
    struct error *err);
void tls_close(struct tls_conn *c);	/* NULL is fine */

/*
 * As read(2) and write(2): the handshake goes on in tls_recv(). EAGAIN: wait
 * for POLLIN, in a handshake that is tls_stuck() for POLLOUT, too. EPROTO:
 * tls_why(); a client that spoke plain HTTP has been told so.
 */
ssize_t tls_recv(struct tls_conn *c, void *data, size_t len);
ssize_t tls_send(struct tls_conn *c, const void *data, size_t len);
bool tls_stuck(const struct tls_conn *c);
/* There is more to receive without waiting for the socket. */
bool tls_pending(const struct tls_conn *c);
/* Nothing more will be sent. */
void tls_shut(struct tls_conn *c);

/*
 * Whom the client's certificate names: the first URI of its alternative names,
 * else the first DNS name, else the last common name of the subject. "" for
 * no certificate, before the end of the handshake, or for a name that is
 * longer than this or has control characters in it.
 */
const char *tls_name(const struct tls_conn *c);
/* Why it failed; NULL: it did not. */
const char *tls_why(const struct tls_conn *c);

#endif
