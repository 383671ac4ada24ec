/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit - one line in the log for each call that is over:
 *
 *	audit: caller=uid-1000 tool=execute_command namespace=default
 *	object=sandbox-x verdict=ok exit=0 bytes=210 ms=48 command=sha256:...
 *
 * Values are the client's words, cut and without anything that could end one.
 * namespace and object are those of the call, else place_of(). Of a command
 * there is the hash and never its text; of a job's token, which is a secret,
 * its hash as well. verdict: ok, failed (the tool says so), asked (the client
 * must answer first), cancelled, or why there is no result (error_word()).
 */
#ifndef AUDIT_H
#define AUDIT_H

#include <stdbool.h>

#include "json.h"

struct buf;
struct call;
struct call_note;
struct error;
struct log;
struct place;

/* While the arguments are there. */
void audit_note(struct call_note *n, struct json args);
/* err: why there is no result, or NULL. */
void audit_call(const struct log *l, const struct call *c,
    const struct place *p, const struct error *err, bool cancelled);
/* The line itself, for tests. ms: how long it took. */
void audit_line(struct buf *out, const struct call *c, const struct place *p,
    const struct error *err, bool cancelled, long ms);

#endif
