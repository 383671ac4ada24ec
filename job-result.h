/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job-result - what became of a job, taken from the runner's stream.
 *
 * Everything in it was written by whatever ran in the pod: it is bounded and
 * believed in nothing but itself. Artifacts are encoded as they come, so that
 * a file is held once. What does not fit into one message is cut, with its
 * flag: first the outputs, then what is in the files, last their names. All of
 * it can still be read in ranges.
 */
#ifndef JOB_RESULT_H
#define JOB_RESULT_H

#include <stdbool.h>
#include <stddef.h>

#include "base64.h"
#include "buf.h"
#include "jobwire.h"

struct error;
struct job_pod;
struct jsonw;

enum { JOB_LINE = 200 };

struct job_result {
	struct jobwire wire;
	struct buf part;		/* a JSON record that is coming in */
	struct buf out[2];		/* as printed, up to the cap */
	struct buf artifacts;		/* JSON objects, commas between */
	struct buf names;		/* for people */
	struct base64 b64;
	bool reading;			/* a range of a file: into out[0] */
	long size;			/* of that file */
	size_t room;		/* bytes of outputs and artifacts, as JSON */
	size_t left;			/* of it for artifacts, when fitted */
	bool fitted;			/* the outputs are cut to it */
	size_t files, links, skipped;
	bool open;			/* an artifact's content is coming */
	bool cut_here;			/* the open one lost some */
	bool files_cut, files_bad;	/* cap; room */
	long more;			/* artifacts not even named */

	char state[12];			/* starting running ended dead, "" */
	char why[16];
	long exit_code, duration_ms;
	long total[2];
	bool oom;
	char message[400];
	char line[JOB_LINE + 1];	/* last one, for progress */
	bool told;			/* line is new */

	char status[12], reason[24];	/* job_result_judge() */
};

void job_result_init(struct job_result *r, long out_max, size_t room);
void job_result_free(struct job_result *r);
void job_result_reset(struct job_result *r);	/* to take it once more */
int job_result_feed(struct job_result *r, const char *data, size_t len,
    struct error *err);
bool job_result_whole(const struct job_result *r);

/*
 * Status, reason, message and exit code, from the runner's word and the pod's.
 * timeout_s: for the message. pod may be all zero.
 */
void job_result_judge(struct job_result *r, const struct job_pod *pod,
    long timeout_s);
/* Where there is no word from the runner. */
void job_result_fail(struct job_result *r, const char *reason,
    const char *message);

/* The object of run_job's output; once, since the artifacts are given up. */
void job_result_write(struct jsonw *w, const char *key,
    struct job_result *r);
/* For people: status, an excerpt of the output, names of the artifacts. */
void job_result_text(struct buf *out, struct job_result *r);

#endif
