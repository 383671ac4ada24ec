/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jobflow - the way of a job, from its creation or from where another process
 * left it, to its result.
 *
 *  run, submit   COUNT --> POST --> RECOUNT --> WATCH --> (result)
 *  (MEASURE first) \--(too many)--> QUEUE          \--> DELETE --> VERIFY
 *  fetch, cancel FIND -------------------------> WATCH
 *
 * While it is watched, the runner is streamed in when the pod waits for it,
 * and the result is taken beside the command as soon as there is somebody to
 * ask. Taking it changes nothing, so a broken connection is only tried again.
 */
#ifndef JOBFLOW_H
#define JOBFLOW_H

#include <stdbool.h>

#include "job-result.h"
#include "job-state.h"
#include "job.h"
#include "tools.h"

struct call;
struct event;
struct exec;
struct k8s_op;
struct watch;

enum jobflow_mode { FLOW_RUN, FLOW_SUBMIT, FLOW_FETCH, FLOW_CANCEL };

enum jobflow_state {
	FLOW_MEASURE,
	FLOW_COUNT_PODS, FLOW_COUNT_JOBS,	/* before and after POST */
	FLOW_QUEUE, FLOW_POST, FLOW_FIND, FLOW_WATCH, FLOW_END, FLOW_SHRINK,
	FLOW_DELETE,
	FLOW_VERIFY,
};

enum jobflow_from { FROM_REQUEST, FROM_LOOK, FROM_WATCH, FROM_INJECT,
    FROM_COLLECT };

struct jobflow {
	enum jobflow_mode mode;
	enum jobflow_state state;
	enum jobflow_from from;		/* whose event it is */
	struct job job;
	struct buf body;		/* the Job, until it is made */
	char uid[64];
	bool made;			/* it is there, or may be */
	bool left;			/* it stays: it is the caller's */
	bool done;			/* result is judged */

	struct k8s_op *request, *look;
	struct watch *watch;
	struct exec *inject, *collect;
	char machine[40];		/* what inject said it is */
	struct cargo *agent;
	char *piece;			/* of head, agent and pack */
	size_t piece_len, piece_sent;
	bool unread;			/* a file can't be read any more */
	char said[200];			/* by collect, on its stderr */
	bool injected;
	bool opened;			/* inject or collect really began */
	struct buf shrink;		/* fetch: patch of the pod, or empty */
	bool stop;			/* collect ends the command */
	unsigned tries;			/* of the collect, or the DELETE */

	/* counting */
	unsigned long long *over;	/* run-ids, their command has ended */
	size_t nover, cover;
	long live;			/* jobs, ours apart */
	char next[600];			/* page of a list */

	char path[JOB_PATH];		/* fetch: a range of this, or "" */
	bool stream;			/* path is "stdout" or "stderr" */
	long offset, limit;
	long wait_until_ms;		/* fetch: answer "running" then */
	long start_until_ms, queue_until_ms;
	long pull_ms;			/* since when a pull has failed; 0 */
	long dead_until_ms;		/* for the pod to say why it died */
	struct job_object object;	/* fetch, cancel */
	struct job_pod pod;
	bool pod_seen, pod_gone;
	struct job_result result;
	char refused[400];		/* why no pod is made */

	/* what to do with a result, or with no result yet */
	enum step (*finish)(struct call *c, struct error *err);
	enum step (*unfinished)(struct call *c, struct error *err);
};

/* From the checked arguments; f is zeroed but for mode and the functions. */
/* The Job that jobflow_start() would make. */
int jobflow_plan(struct call *c, struct json args, struct buf *path,
    struct buf *body, struct error *err);
enum step jobflow_start(struct call *c, struct json args, struct error *err);
/* job_token is in args. wait_ms: how long to wait for the end. */
enum step jobflow_find(struct call *c, struct json args, long wait_ms,
    struct error *err);
enum step jobflow_next(struct call *c, const struct event *ev,
    struct error *err);
enum step jobflow_stop(struct call *c);
void jobflow_release(struct call *c);
/* Make a job that will never start end in the cluster; finish comes again,
 * with a note in the object. */
enum step jobflow_end(struct call *c, struct error *err);
/* The kept pod's requests are taken back, where that is possible; finish comes
 * again. */
enum step jobflow_shrink(struct call *c, struct error *err);
/* Delete the Job and see its pod gone; then finish is called again. */
enum step jobflow_delete(struct call *c);

#endif
