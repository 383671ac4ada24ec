/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent-job - the part of the agent that runs one command of a job's pod.
 *
 *   job run      in the main container: puts the files, runs the command, keeps
 *                its output, ends it in time
 *   job keep     in the container beside it: keeps the volume while somebody
 *                may still ask for the result
 *   job collect  by exec beside it: waits for the end, then writes the result
 *   job read     by exec beside it: a range of a file or of an output
 *
 * All that is known is in the files of one folder, on a volume of the pod:
 *   lock     held by run as long as it lives, so that its death is seen
 *   pack     what to put first (jobwire.h)
 *   started  it began; end: how it ended, as JSON; both appear whole
 *   stdout, stderr, globs, before (hashes of the paths that were there)
 *   mark     what changed later than this file was changed by the command
 *   stop     the wish that the command ends
 */
#ifndef AGENT_JOB_H
#define AGENT_JOB_H

#include <stdint.h>
#include <sys/stat.h>

struct agent_job {
	const char *dir, *work;
	long timeout_s, keep_s, wait_ms;
	long long spool, out_max, files_max;	/* bytes */
	long long offset, limit;
	const char *path, *stream;
	int stop;
	char *const *argv;
};

/* argv from after the word "job"; the exit status of the process. */
int agent_job(int argc, char *argv[]);

int agent_job_run(const struct agent_job *j);
int agent_job_keep(const struct agent_job *j);
int agent_job_collect(const struct agent_job *j);
int agent_job_read(const struct agent_job *j);

/* A file of the folder. */
int agent_job_open(const struct agent_job *j, const char *name, int flags);

/*
 * Every file below work that is no folder, in no order. Other file systems
 * mounted there are left out, and what is named .git unless git is set.
 */
typedef int agent_job_seen(void *arg, const char *path, const struct stat *st);
int agent_job_walk(const char *work, int git, agent_job_seen *seen, void *arg);
uint64_t agent_job_hash(const char *path);

#endif
