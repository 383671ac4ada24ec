/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle - a sandbox as a caller names it: claim name and namespace.
 *
 * Names and the operator's lists are checked before anything is sent; then
 * one GET of the claim answers who owns it, whether it is usable, and where
 * its pod is.
 */
#ifndef HANDLE_H
#define HANDLE_H

#include "claim.h"
#include "error.h"
#include "tools.h"

struct call;
struct event;
struct k8s_op;
struct loop_timer;

struct handle {
	char namespace[64], name[254];
	struct k8s_op *op;
	/*
	 * enter: what follows only enters the pod, so what is known of the
	 * claim will do (link_claim()). known: it did; claim is what is known.
	 */
	bool enter, known;
	struct loop_timer *timer;
	struct call *call;
	struct claim claim;
	long read_ms;
	struct error doubt;		/* handle_doubt()'s */
};

/* The two arguments, for the tables of tools. */
#define HANDLE_ARGS							\
	{ "sandbox_claim_name", ARG_STRING, ARG_REQUIRED, .help = NULL }, \
	{ "namespace", ARG_STRING, ARG_REQUIRED, .help = NULL }

/* A namespace given as an argument; dst holds 64 bytes. */
int handle_namespace(const struct call *c, struct json args, char *dst,
    struct error *err);

/* Check and send; EVENT_REPLY comes to the tool's next(). Or one by one. */
int handle_check(const struct call *c, struct json args, struct handle *h,
    struct error *err);
int handle_send(struct call *c, struct handle *h, struct error *err);
int handle_start(struct call *c, struct json args, struct handle *h,
    struct error *err);
/*
 * The answer. -1 with ERR_GONE and the not-found text when there is no such
 * claim or it is another session's, unless --handles allows these.
 */
int handle_read(struct call *c, const struct event *ev, struct handle *h,
    struct claim *claim, struct error *err);
/* The same, and it must be usable now. */
int handle_ready(struct call *c, const struct event *ev, struct handle *h,
    struct claim *claim, struct error *err);
/*
 * How it ended that began behind handle_ready() with enter: it is remembered,
 * or, when it failed on the word of what was known, the claim is read now, and
 * true returned: EVENT_REPLY comes again. handle_ready() then says what is
 * wrong with the claim, or gives err back, or succeeds: nothing was run.
 */
bool handle_over(struct call *c, struct handle *h, const struct error *err);
/* What was known did, and yet: read the claim. false: it was read, or can't
 * be. */
bool handle_reread(struct call *c, struct handle *h);
void handle_close(struct handle *h);

#endif
