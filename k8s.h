/* SPDX-License-Identifier: Apache-2.0 */
/*
 * k8s - requests to one API server, many at a time, none of them blocking.
 *
 * GET is tried again (LIMIT_RETRIES, backoff with jitter, Retry-After) after
 * a lost connection, 429, 500, 502, 503 and 504. POST, PATCH and DELETE are
 * sent once: they are repeated only when not one byte of them left us, or
 * when the server said 429 (it did nothing), or 409 of a resource quota. A
 * token file is read again when it is older than a minute, and on 401 once.
 */
#ifndef K8S_H
#define K8S_H

#include <stdbool.h>
#include <stddef.h>

#include "budget.h"
#include "event.h"
#include "k8sauth.h"

struct error;
struct k8s;
struct k8s_op;
struct kubeconfig;
struct plugin;
struct web;
struct web_req;

/*
 * kc is borrowed. The server's name is resolved here (before confinement)
 * and pinned.
 */
struct k8s *k8s_open(struct loop *l, struct web *w,
    const struct kubeconfig *kc, struct error *err);
void k8s_close(struct k8s *k);
struct loop *k8s_loop(struct k8s *k);
struct web *k8s_web(struct k8s *k);

/*
 * path starts with '/', query included. body is JSON (a merge patch for
 * PATCH) or NULL; copied. Ends with EVENT_REPLY; outside 2xx err is set: code
 * by status, text the message of the server's Status (with details.causes
 * when it is 422), ev->reason its reason. total_ms bounds it, retries
 * included; 0: one minute.
 */
struct k8s_op *k8s_send(struct k8s *k, const char *method, const char *path,
    const char *body, long total_ms, event_fn *done, void *arg);
void k8s_cancel(struct k8s_op *op);	/* NULL is fine */
/* As k8s_send() of a GET, but the body comes in pieces (a log). No time limit
 * but the connection's: cancel it when it takes too long. */
struct k8s_op *k8s_stream(struct k8s *k, const char *path, event_fn *fn,
    void *arg);

/* A path segment or query value, percent-encoded into out. */
struct buf;
void k8s_escape(struct buf *out, const char *s);

/* For watch.c and stream.c: address, credentials and limits of a request.
 * The result's pointers live until k8s_release(). */
enum { K8S_FIELDS = 3 + LIMIT_IMPERSONATE };

struct k8s_target {
	char *url;
	char *auth;		/* "Authorization: Bearer ...", or NULL */
	unsigned long generation;	/* for k8s_reauth() */
	const char *headers[K8S_FIELDS + 1];
};
int k8s_target(struct k8s *k, const char *path, struct k8s_target *t,
    struct web_req *req, struct error *err);
void k8s_release(struct k8s_target *t);
/* As k8sauth.h has it: before k8s_target() is called, and after a 401. */
struct k8s_wait *k8s_await(struct k8s *k, long ms, loop_due *fn, void *arg);
/* Credentials come from this plugin; waits for the first ones. */
int k8s_plugin(struct k8s *k, struct plugin *p, struct error *err);
/* 401 was answered to a request with these credentials: get new ones if they
 * come from a file or a plugin. true: the request may be tried once more. */
bool k8s_reauth(struct k8s *k, unsigned long generation);
/* ms to wait before a try is repeated for the tries'th time (from 1), with
 * jitter; retry_after is the field's value, or "". */
long k8s_pause(int tries, const char *retry_after);

#endif
