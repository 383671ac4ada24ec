/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask - one request after the other, for the commands that people run, and
 * the lines that they read. No client waits meanwhile, so this may block.
 */
#ifndef ASK_H
#define ASK_H

#include "buf.h"
#include "error.h"
#include "json.h"

struct env;

struct answer {
	struct json_doc *doc;	/* NULL: err says why */
	struct buf body;
	struct error err;
	bool over;
};

/* body may be NULL. 0, or -1 with a->err; to be freed in any case. */
int ask(struct env *env, struct answer *a, const char *method,
    const char *path, const char *body);
void answer_free(struct answer *a);

/* A line, cut at 1000 bytes. Nobody cares when nobody reads. */
void say(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
