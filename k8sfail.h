/* SPDX-License-Identifier: Apache-2.0 */
/*
 * k8sfail - what was asked of the API server, and its refusal, in words for a
 * person.
 *
 * Without I/O. Reads the Status object of the Kubernetes API (meta/v1); what
 * is none is quoted, one line of it.
 */
#ifndef K8SFAIL_H
#define K8SFAIL_H

#include <stddef.h>

struct error;
struct event;

/* "create pods in namespace x"; method may be a verb ("watch"). */
void k8sfail_describe(const char *method, const char *path, char *dst,
    size_t size);
/* reply's own error, or what the server says of its status; reason (may be
 * NULL) gets the Status's reason, or "". */
void k8sfail_explain(const struct event *reply, struct error *err,
    char *reason, size_t size);
/* A 404 without a Status: it is the whole API that is not there. err stays
 * where the path names no group. */
void k8sfail_not_served(const char *path, struct error *err);

#endif
