/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jobflow-own - what the parts of jobflow have of each other; nobody else
 * includes it. All of it works on a call whose data is a struct jobflow.
 *
 *   jobflow-count	is there room for one more, in all the cluster
 *   jobflow-pod	what the pod's watch and the clock say
 *   jobflow-inject	the runner goes in
 *   jobflow-result	the result comes out
 *   jobflow-end	what is no longer needed goes
 */
#ifndef JOBFLOW_OWN_H
#define JOBFLOW_OWN_H

#include "event.h"
#include "jobflow.h"

struct job_settings;

enum {
	FLOW_TRIES = 5,
	FLOW_EAGER_MS = 80,		/* between knocks at a container */
	FLOW_COLLECT_S = 90,		/* beyond the command's own time */
};

const struct job_settings *flow_settings(const struct call *c);
enum step flow_no_memory(struct error *err);
/* Every event comes through here, with whose it is. */
void flow_event(struct call *c, const struct event *ev,
    enum jobflow_from from);
/* kind: "jobs", "pods" or "events"; name may be NULL, rest a query or "". */
void flow_path(const struct call *c, struct buf *out, const char *kind,
    const char *name, const char *rest);
/* The answer is FROM_REQUEST and goes to where f->state says. */
enum step flow_request(struct call *c, const char *method, const char *kind,
    const char *name, const char *rest, const char *body, struct error *err);

/* The ways a flow ends: with a result, without one yet, with a failure. */
enum step flow_finished(struct call *c, struct error *err);
enum step flow_not_yet(struct call *c, struct error *err);
enum step flow_failed(struct call *c, const char *reason,
    const char *message, struct error *err);
enum step flow_submitted(struct call *c, struct error *err);

enum step flow_count(struct call *c, struct error *err);
enum step flow_queue(struct call *c);
enum step flow_counted(struct call *c, const struct event *ev,
    struct error *err);
enum step flow_posted(struct call *c, const struct event *ev,
    struct error *err);

enum step flow_watch(struct call *c, struct error *err);
enum step flow_seen(struct call *c, const struct event *ev, struct error *err);
enum step flow_looked(struct call *c, const struct event *ev,
    struct error *err);
enum step flow_tick(struct call *c, struct error *err);
/* The pod is over, or will never be more than it is. */
enum step flow_gave_up(struct call *c, struct error *err);

enum step flow_inject(struct call *c, struct error *err);
enum step flow_injecting(struct call *c, const struct event *ev,
    struct error *err);

enum step flow_collect(struct call *c, struct error *err);
/* A range of one file, or of an output. */
enum step flow_range(struct call *c, struct error *err);
enum step flow_collecting(struct call *c, const struct event *ev,
    struct error *err);
/* The runner's word is all there will be. */
enum step flow_judged(struct call *c, struct error *err);
/* Is it known why the runner was killed, or told to go? */
bool flow_pod_said(const struct jobflow *f);

enum step flow_verify(struct call *c);
/* Anybody may give a pod our label, but only our Job is its owner. */
bool flow_owns(const struct jobflow *f, struct json pod);
enum step flow_deleted(struct call *c, const struct event *ev);
enum step flow_verified(struct call *c, const struct event *ev,
    struct error *err);

#endif
