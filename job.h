/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job - what a caller may ask for, and the Job that comes of it. Pure.
 *
 * The checks, their order and their kinds are those of mcp-k8s-ephemeral-job
 * (contract: ephemeral-job 5 to 8; results: tests/vectors/ephemeral-job.json),
 * except that an image is taken by its whole reference unless the operator
 * wants the original's way.
 */
#ifndef JOB_H
#define JOB_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"
#include "content.h"
#include "json.h"

struct config;
struct error;
struct job_settings;
struct jsonw;

#define JOB_APP		"mcp-k8s-ephemeral-job"
#define JOB_DIR		"/mcp-sandbox"	/* the runner's folder in the pod */
#define JOB_NOTE	"mcp-sandbox.io/"	/* annotations */

enum { JOB_TOKEN = 37, JOB_RUN_ID = 17, JOB_REF = 512, JOB_PATH = 1024,
    JOB_CAP = 512 << 10 /* pieces of a pack */, JOB_PACK_MAX = 16 << 20 };

struct job_clone {
	char url[JOB_PATH], ref[JOB_REF], subdir[JOB_PATH];
	long depth;		/* 0: all of it */
	bool submodules;
};

/* A file too long for memory. */
struct job_long {
	size_t at;		/* its bytes come there in the pack */
	char *path;		/* for people */
	struct content content;
};

/* A call's wish, checked. command and env live as long as the arguments. */
struct job {
	char token[JOB_TOKEN];		/* also the Job's name */
	char run_id[JOB_RUN_ID];
	char image[JOB_REF];		/* what will run */
	struct json command, env;
	long timeout_s;
	char workdir[JOB_PATH];
	char cpu[64], memory[64];	/* limits, or "" */
	bool cloned;
	struct job_clone clone;
	struct spilled *spilled;	/* the call's, set before job_check() */
	struct buf pack;		/* files, for the runner (jobwire.h) */
	struct job_long *longs;
	size_t files, nlong, measured;

	/* job-pack.c: how far it is given */
	size_t given, giving;		/* of pack; of longs */
	bool inside;			/* of that long one */
	uint64_t left;			/* of it, ... */
	size_t record;			/* ... and of its record */
};

/*
 * 0, or -1 with ERR_INPUT and, in *kind, which check failed, by the vectors'
 * word for it. Nothing of the cluster is asked.
 */
int job_check(struct job *j, const struct job_settings *s, struct json args,
    const char **kind, struct error *err);
void job_free(struct job *j);

/* One more, behind what is in the pack; for job_check(). */
int job_pack_long(struct job *j, const struct spill_span *span,
    const char *path, struct error *err);
/* After job_check(), until it is 0: 1 when long files are still to be looked
 * at, -1 when one is not base64. */
int job_pack_measure(struct job *j, struct error *err);
/* Then, from its begin to its end: what the runner is sent. */
size_t job_pack_len(const struct job *j);
void job_pack_rewind(struct job *j);
/* At most size (>= JOBWIRE_HEAD) bytes; how many, 0 at the end, or -1. */
long job_pack_give(struct job *j, char *dst, size_t size);
int job_new_token(struct job *j, struct error *err);
/* Another one in its place, in the Job that was written too. */
int job_renew(struct job *j, struct buf *body, struct error *err);
/* Is it a token, and so a Job's name? run_id: NULL or what goes with it. */
bool job_token_ok(const char *token, char run_id[JOB_RUN_ID]);

/* What the original finds out only after it has made the pod. */
int job_check_more(const struct job *j, const struct job_settings *s,
    struct error *err);

/* The settings, once at the start. */
int job_settings_check(const struct job_settings *s, struct error *err);

/* What the list makes of a wish: out, or -1 when it is not allowed. */
int job_image(const char *list, bool basename, const char *wish, char *out,
    size_t size);
/* What may be asked for, for people. */
void job_image_names(const char *list, bool basename, struct buf *out);

/* The Kubernetes grammar, and how much it is. */
bool job_quantity(const char *text, double *amount);
/* The original's lenient octal. */
int job_mode(const char *text, long *mode);
/* The original's base64; appended to out. */
int job_base64(struct json text, struct buf *out);
/* "" and null: none. -1: not an object of strings. */
int job_env_ok(const char *text);
void job_env_write(struct jsonw *w, const char *extra, struct json caller);

/* label, session: of the session that it belongs to, or NULL. */
void job_write(struct buf *out, const struct job *j,
    const struct job_settings *s, const char *label, const char *session);

#endif
