/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webfail - what a failure of libcurl means, in words for a person.
 *
 * Without I/O. Knows mbedTLS's numbers and phrases, because libcurl passes
 * them on as text only; with another TLS library the sentences are vaguer.
 */
#ifndef WEBFAIL_H
#define WEBFAIL_H

#include <stdbool.h>

struct error;

struct webfail {
	int code;		/* CURLcode */
	const char *words;	/* CURLOPT_ERRORBUFFER */
	const char *where; /* "host:port" asked for, or NULL: say nothing */
	const char *name;	/* what the certificate had to name */
	const char *key;	/* our key's PEM, or NULL */
	bool ca;		/* somebody is trusted */
	long os;		/* errno of the connect(2), or 0 */
	long proxy;		/* a proxy's status, or 0 */
	long connect_ms;	/* the limit that was set */
};

void webfail_explain(const struct webfail *f, struct error *err);

#endif
