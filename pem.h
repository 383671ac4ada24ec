/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pem - does a text hold what the TLS library can use? (RFC 7468)
 *
 * Looks at the frame, the base64 and the algorithm, so that a kind mbedTLS
 * lacks (Ed25519, encrypted keys, OpenSSH's format) is named at the start
 * instead of failing in the first handshake. It verifies nothing.
 */
#ifndef PEM_H
#define PEM_H

#include <stddef.h>

struct error;

enum pem_kind {
	PEM_CA,			/* one or more certificates */
	PEM_CERT,		/* a certificate, then its chain */
	PEM_KEY			/* a private key without a password */
};

/* text is NUL-terminated after len bytes. Errors are ERR_CONFIG, and quote
 * only a frame's label. Of PEM_CA what can't be used is left out as long as
 * there is one that can: returns how many were. */
int pem_check(const char *text, size_t len, enum pem_kind kind,
    struct error *err);

#endif
