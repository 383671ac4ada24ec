/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error - what went wrong, in words for a person and a code for the program.
 *
 * A function that can fail takes a struct error * as its last argument and
 * returns 0, or -1 with *err filled in. On 0, *err is untouched. The text is
 * one line of valid UTF-8 without control characters; it never carries a
 * secret or a pod's address.
 */
#ifndef ERROR_H
#define ERROR_H

enum error_code {
	ERR_NONE = 0,
	ERR_INPUT,		/* the client sent something we refuse */
	ERR_LIMIT,		/* a limit of budget.h was reached */
	ERR_CONFIG,		/* a setting or the kubeconfig is bad */
	ERR_DENIED,		/* the API server said 401 or 403 */
	ERR_GONE,		/* the object is not there (404, 410) */
	ERR_CONFLICT,	/* it exists already, or changed under us (409) */
	ERR_INVALID,	/* the API server refused the object (400, 422) */
	ERR_BUSY,		/* rate limited or overloaded (429, 503) */
	ERR_CLUSTER,		/* any other failure on the cluster's side */
	ERR_TLS,	/* the server's identity could not be verified */
	ERR_LOST,		/* a connection ended before its answer */
	ERR_TIMEOUT,		/* a time limit passed */
	ERR_CANCELLED,		/* the client asked us to stop */
	ERR_SYSTEM		/* the operating system said no */
};

struct error {
	enum error_code code;
	char text[768];
};

/*
 * Each returns -1, so that a failing line is one line. The text is cut at a
 * character border when it does not fit, and control characters become blanks.
 */
int error_set(struct error *err, enum error_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* ERR_SYSTEM with "what: strerror(errno)". */
int error_sys(struct error *err, const char *what);
/* Puts "fmt: " before the text that is there. */
int error_wrap(struct error *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* What an answer's HTTP status of 400 and above means (RFC 9110). */
enum error_code error_of_http(long status);
/* A short stable word for the code: "input", "denied", "timeout", ... */
const char *error_word(enum error_code code);

#endif
