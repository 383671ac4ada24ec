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

struct asked {
	struct json_doc *doc;
	struct buf body;
	struct error err;
	bool over, expired;	/* expired: 410, and yet there may be a doc */
};

/* body may be NULL. 0, or -1 with a->err; to be freed in any case. */
int ask(struct env *env, struct asked *a, const char *method,
    const char *path, const char *body);
void asked_free(struct asked *a);

/* The items of one page; what it returns ends the list unless it is 0. */
typedef int ask_page_fn(void *arg, struct json items, struct error *err);

/*
 * Every page of a list, LIMIT_PAGES at most. path ends where "&continue=" may
 * follow. A list that grows too old while it is read goes on with what is
 * there now, if the server offers that: an object may then come twice or not
 * at all, so only what bears this may be done with it. 0, or -1 with err.
 */
int ask_list(struct env *env, const char *path, ask_page_fn *fn, void *arg,
    struct error *err);

/* A line, cut at 1000 bytes. Nobody cares when nobody reads. */
void say(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
