/* SPDX-License-Identifier: Apache-2.0 */
/*
 * legacy - commands over POST /execute of the legacy runtime
 * (python-runtime-sandbox; contract: agent-sandbox 6.4).
 *
 * It splits a text into words as a shell would, runs the first, and answers
 * when that has ended. Output that is not UTF-8 is lost there, so a script of
 * ours may begin each of its two outputs with a line "MARK base64", and what
 * follows is decoded here, or "MARK cat", and it follows as it is. The answer
 * is read as it comes: its size does not matter.
 */
#ifndef LEGACY_H
#define LEGACY_H

#include <stdbool.h>
#include <stddef.h>

#include "base64.h"
#include "buf.h"
#include "event.h"

struct legacy_run;
struct web;
struct web_req;

/* One word for the runtime's splitter, and for any shell. */
void legacy_quote(struct buf *out, const char *word);
/* {"command": "..."} of argv, NULL at its end. raw: argv[0] as it is. */
void legacy_body(struct buf *out, const char *const *argv, bool raw);
/*
 * The next piece of bytes as printf %b wants it, at most max bytes of it;
 * returns how many of len it took. Nothing in it ends an argument.
 */
size_t legacy_piece(struct buf *out, const char *bytes, size_t len, size_t max);

/* The answer, fed as it comes. */
enum { LEGACY_PLAIN = 1024, LEGACY_KEY = 16 };

struct legacy_stream {
	char head[64];		/* until its first line is whole */
	size_t head_len;
	enum { HEAD_WAIT, HEAD_PLAIN, HEAD_CAT, HEAD_BASE64 } head_is;
	struct base64 base64;
	struct buf plain;	/* the beginning of what has no mark */
	bool bad;		/* no base64 after all */
};

struct legacy_answer {
	const char *mark;		/* borrowed; NULL: none is expected */
	event_fn *fn;			/* EVENT_DATA, channel 1 and 2 */
	void *arg;
	struct legacy_stream stream[2];
	bool has_code;
	long code;
	/* the reader's own */
	int state, depth, escape;
	unsigned unit, high;
	char key[LEGACY_KEY], number[24];
	size_t key_len, number_len;
	struct buf piece;
	bool in_string, whole;
};

void legacy_answer_init(struct legacy_answer *a, const char *mark,
    event_fn *fn, void *arg);
void legacy_answer_free(struct legacy_answer *a);
/* -1: it is no such JSON. */
int legacy_answer_feed(struct legacy_answer *a, const char *data, size_t len);
/* 0: *code is the exit status, 128 + N for a signal N. Else err. */
int legacy_answer_end(struct legacy_answer *a, long *code, struct error *err);

/*
 * aimed: where /execute is (link_aim); its body is ours. EVENT_OPEN and
 * EVENT_DATA when the answer begins, then EVENT_END: code; or err, with status
 * and data when the runtime or a router refused. ERR_LOST: it may have run.
 * Never repeated.
 */
struct legacy_run *legacy_run(struct web *w, const struct web_req *aimed,
    const char *const *argv, bool raw, const char *mark, event_fn *fn,
    void *arg, struct error *err);
void legacy_close(struct legacy_run *r);	/* NULL: fine; kills nothing */

#endif
