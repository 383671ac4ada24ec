/* SPDX-License-Identifier: Apache-2.0 */
/*
 * execcred - what a credential plugin prints: an ExecCredential of
 * client.authentication.k8s.io/v1 or v1beta1. No I/O; errors quote no value.
 */
#ifndef EXECCRED_H
#define EXECCRED_H

#include <stddef.h>

struct error;

struct execcred {
	char *token;		/* or NULL */
	char *cert, *key;	/* PEM, both or neither */
	long long expires;	/* seconds since 1970; 0: not by the clock */
};

/* version: the apiVersion that was asked for. ERR_CONFIG: it is none, or has
 * neither a token nor a certificate. */
int execcred_parse(struct execcred *c, const char *text, size_t len,
    const char *version, struct error *err);
void execcred_free(struct execcred *c);		/* wiped */

/* Seconds since 1970 of an RFC 3339 time with any offset; -1: it is none. */
long long execcred_time(const char *text);

#endif
