/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job-state - how far a job is, read from its objects in the cluster. Pure.
 *
 * reason is one of our words (docs: mcp-sandbox(1), JOBS), message the
 * cluster's own.
 */
#ifndef JOB_STATE_H
#define JOB_STATE_H

#include <stdbool.h>

#include "job.h"
#include "json.h"

struct job_pod {
	char name[254];
	bool deleting;
	bool placed;			/* on a node */
	bool inject_runs, inject_done;	/* done: it ended well */
	bool reader_runs, main_runs;
	bool main_ended;
	long exit_code;			/* of main */
	bool oom;			/* main was killed for its memory */
	bool over;			/* nothing runs in it any more */
	bool broken;			/* it gets no further by itself */
	bool pull_failed;		/* once; it may work the next time */
	char reason[24], message[400];
	const char *log_of;		/* container whose log says more */
};

/* now: of time(2). patience_s: how long no node may take it. */
void job_pod_read(struct job_pod *p, struct json pod, long now,
    long patience_s);

/*
 * The merge patch that takes the command's requests back, which count as long
 * as its pod is kept; nothing when they are back already.
 */
void job_pod_shrink(struct buf *out, struct json pod);

struct job_object {
	char token[JOB_TOKEN], run_id[JOB_RUN_ID], uid[64];
	char created[40];
	char image[JOB_REF], workdir[JOB_PATH];
	bool deleting;
	bool finished;			/* the controller is done with it */
	char reason[24], message[400];	/* when that was a failure */
	char note[600];			/* why we ended it, as JSON; or "" */
};
void job_object_read(struct job_object *o, struct json job);

/* The words for a pod that is not made: "quota" or "forbidden". */
const char *job_refusal(const char *message);

#endif
