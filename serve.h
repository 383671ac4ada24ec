/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve - the agent's connections: requests in, answers out.
 *
 * A request is matched with a row of a table (api.c), checked, read and given
 * to the row's function, which answers now or has the connection wait for a
 * task. Nothing is written from inside a handler; that is the loop's.
 */
#ifndef SERVE_H
#define SERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "error.h"
#include "files.h"
#include "http.h"

struct conn;
struct serve;
struct task;
struct tasks;
struct turn;
struct turn_fd;
struct turn_timer;

enum body {
	BODY_NONE,		/* read and thrown away */
	BODY_WHOLE,		/* up to 1 MiB, in conn->body */
	BODY_FILE		/* given to conn->put in pieces */
};

struct route {
	const char *method;
	const char *path;	/* a star is one part, two are the rest */
	enum body body;
	bool open;		/* needs no token */
	bool quiet;		/* does not count as activity */
	void (*begin)(struct conn *c);	/* after the head; NULL: nothing */
	void (*handle)(struct conn *c);	/* after the body */
};

/* What a connection waits for. */
enum wait {
	WAIT_NOTHING,
	WAIT_EXEC,		/* the answer to /exec: closing cancels */
	WAIT_TASK		/* the end of a task, or the deadline */
};

enum conn_state { CONN_READ, CONN_WAIT, CONN_SEND, CONN_LINGER };

struct conn {
	struct serve *serve;
	struct conn *next;
	int fd;
	struct turn_fd *ready;
	enum conn_state state;
	long deadline;		/* mono_ms() */
	struct http http;
	struct buf in;		/* not parsed yet */
	struct buf out;
	bool close;		/* when out is sent */
	bool gone;		/* the client has closed its side */
	bool dead;

	const struct route *route;	/* NULL: answered or refused */
	int refused;		/* status to answer when the body is there */
	const char *refusal;
	const char *part;	/* what the first star stood for */
	size_t part_len;
	const char *query;	/* or NULL */
	struct buf body;

	enum wait wait;
	struct task *task;
	size_t max_output;	/* of each stream */
	bool parts;		/* the first and the last apart */
	bool ours;		/* the request has members of our own */

	struct files_put put;
	struct error put_err;	/* the rest of the body is thrown away */
	int file;		/* sent after out; -1 */
	int64_t file_at, file_left;
};

struct serve {
	struct turn *turn;
	struct tasks *tasks;
	struct files files;
	char *token;		/* NULL: unassigned */
	long begin_ms, last_ms;	/* started; last request that counts */

	int fd;
	struct turn_fd *ready;
	struct turn_timer *sweep;
	struct conn *conns;
	size_t n_conns;
	bool stopping;
};

/* port 0: any; it is returned. -1: err says why. */
int serve_open(struct serve *s, struct turn *turn, int port,
    struct error *err);
void serve_close(struct serve *s);
/* No new connection; those that are idle end. */
void serve_stop(struct serve *s);
/* Is a request being worked on? */
bool serve_busy(const struct serve *s);
/* task_changed of task.h; arg is the serve. */
void serve_changed(void *arg, struct task *t);
/* Constant time in what is secret. */
bool serve_token_is(const struct serve *s, const char *token, size_t len);

void conn_answer(struct conn *c, int status, const char *type,
    const char *extra, const void *body, size_t len);
/* {"error":"text"} */
void conn_error(struct conn *c, int status, const char *text);
/* The head only: what follows is len bytes of c->file from c->file_at. */
void conn_file(struct conn *c, int status, const char *extra, int64_t len);
void conn_wait(struct conn *c, enum wait wait, struct task *t, long ms);
/* A number in the query: 1, 0 if it is not there, -1 if it is none. */
int conn_number(const struct conn *c, const char *name, int64_t min,
    int64_t max, int64_t *n);

#endif
