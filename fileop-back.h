/* SPDX-License-Identifier: Apache-2.0 */
/* fileop-back - what fileop.c shares with the ways it can go; nobody else's. */
#ifndef FILEOP_BACK_H
#define FILEOP_BACK_H

#include "digest.h"
#include "error.h"
#include "fileop.h"
#include "listing.h"

struct link;
struct link_find;
struct loop_timer;
struct run;
struct web_op;

enum fileop_step {
	STEP_FIND,		/* the way into the pod */
	STEP_REST,		/* the one request that does it */
	STEP_PART,		/* the upload of what a script puts in place */
	STEP_SIZE,		/* no script can run: the size has to do */
	STEP_DIGEST,		/* STAT: the file, for its SHA-256 */
	STEP_SCRIPT
};

struct fileop {
	struct env *env;
	event_fn *fn;
	void *arg;
	struct fileop_req req;		/* its strings are ours */
	enum fileop_step step;
	long until_ms;

	struct link_find *find;
	struct link *link;
	struct run *run;
	struct web_op *web;
	struct loop_timer *timer;	/* to say why */
	struct error why;
	bool stopped;

	char part[40];			/* name of what is written beside */
	char mark[40];			/* of a listing's records */
	struct buf head, tail;		/* of a multipart body */
	size_t size;			/* of the data to be written */
	size_t sent;			/* bytes of head, data, tail */
	long asked_ms;			/* when the request was sent */
	long got;			/* bytes read */
	long skip;			/* bytes of an answer before offset */
	bool no_head;			/* a router refused HEAD */
	bool answered;			/* the answer's head was looked at */
	struct buf text;		/* what a script or an error says */
	struct buf complaint;		/* on a script's stderr */
	struct listing list;
	struct digest digest;
	struct fileop_result result;
};

/* The last thing; f is gone. Only from the loop. */
void fileop_finish(struct fileop *f, const struct error *err);
/* The same, a turn of the loop later. */
void fileop_fail(struct fileop *f, const struct error *err);
long fileop_left_ms(const struct fileop *f);
/* ERR_CONFLICT: what was to be read is a directory, and how to get one. */
int fileop_folder(const struct fileop *f, struct error *err);
/* Add to what is read; more than was asked for is dropped. */
void fileop_take(struct fileop *f, const char *data, size_t len);

/* fileop-script.c */
void fileop_script(struct fileop *f);
/* fileop-rest.c: is there a request for it? and send it. */
bool fileop_rest_can(const struct fileop *f);
void fileop_rest(struct fileop *f);

#endif
