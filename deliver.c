/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents.h"
#include "cargo.h"
#include "deliver.h"
#include "env.h"
#include "error.h"
#include "exec.h"
#include "manifest.h"

/*
 * $1: where to. The size comes first, because v4.channel.k8s.io can't end an
 * input, and a connection can.
 */
static const char receiver[] =
	"t=$1.$$; uname -m; IFS= read -r n && head -c \"$n\" >\"$t\" &&\n"
	"[ \"$(wc -c <\"$t\")\" -eq \"$n\" ] && chmod 755 \"$t\" &&\n"
	"mv -f \"$t\" \"$1\" || { rm -f \"$t\"; exit 1; }";

struct deliver {
	struct env *env;
	struct exec *exec;
	event_fn *fn;
	void *arg;
	char machine[40];
	char said[200];			/* on its stderr */
	struct cargo *cargo;
	char piece[8192];		/* of head and cargo, to be sent */
	size_t piece_len, piece_sent;
};

void
deliver_close(struct deliver *d)
{
	if (d == NULL)
		return;
	exec_close(d->exec);
	cargo_close(d->cargo);
	free(d);
}

struct cargo *
deliver_agent(const struct env *env, const char *machine, struct error *err)
{
	size_t len = env->agent_len;
	const void *data = env->agent != NULL ? env->agent :
	    agents_find(machine, &len);
	struct cargo *c;

	if (data == NULL) {
		error_set(err, ERR_CONFIG, "this server carries no agent for "
		    "'%s': give one with --agent-file, or use an image that "
		    "has it (--image-has-agent)", machine);
		return NULL;
	}
	if ((c = cargo_open(data, len, env->agent == NULL)) == NULL)
		error_set(err, ERR_SYSTEM, "out of memory");
	return c;
}

static void
finish(struct deliver *d, const struct error *why)
{
	struct event ev = { .type = EVENT_END };
	struct error err;
	event_fn *fn = d->fn;
	void *arg = d->arg;

	if (why != NULL) {
		err = *why;
		if (d->said[0] != '\0')
			error_set(&err, why->code, "%.300s (%s)", why->text,
			    d->said);
		error_wrap(&err, "bringing the agent into the pod");
		ev.err = &err;
	}
	deliver_close(d);
	fn(arg, &ev);
}

/* Nothing more goes in: that is not how the other side is to hear of it. */
static void
give_up(struct deliver *d, const struct error *why)
{
	exec_close(d->exec);
	d->exec = NULL;
	finish(d, why);
}

static void
feed(void *arg)
{
	struct deliver *d = arg;
	struct error err;
	size_t n;
	long got = 1;

	while (got > 0) {
		while (d->piece_sent < d->piece_len) {
			n = exec_write(d->exec, d->piece + d->piece_sent,
			    d->piece_len - d->piece_sent);
			if (n == 0)
				return;
			d->piece_sent += n;
		}
		got = cargo_give(d->cargo, d->piece, sizeof(d->piece));
		d->piece_sent = 0;
		d->piece_len = got > 0 ? (size_t)got : 0;
	}
	if (got == -1) {
		error_set(&err, ERR_SYSTEM, "the agent that this server "
		    "carries is damaged: install the server again");
		give_up(d, &err);
	}
}

/* A line of uname -m, maybe in pieces. */
static void
hear(struct deliver *d, const struct event *ev)
{
	size_t have = strlen(d->machine);
	struct error err;
	char *end;

	if (ev->channel == 2) {
		(void)snprintf(d->said, sizeof(d->said), "%.*s",
		    ev->len > 150 ? 150 : (int)ev->len, ev->data);
		return;
	}
	if (d->cargo != NULL || ev->len == 0)
		return;
	(void)snprintf(d->machine + have, sizeof(d->machine) - have, "%.*s",
	    ev->len > 39 ? 39 : (int)ev->len, ev->data);
	if ((end = strchr(d->machine, '\n')) == NULL)
		return;
	*end = '\0';
	if ((d->cargo = deliver_agent(d->env, d->machine, &err)) == NULL) {
		give_up(d, &err);
		return;
	}
	d->piece_len = (size_t)snprintf(d->piece, sizeof(d->piece), "%zu\n",
	    cargo_len(d->cargo));
	exec_on_room(d->exec, feed, d);
	feed(d);
}

static void
on_exec(void *arg, const struct event *ev)
{
	struct deliver *d = arg;
	struct error err;

	if (ev->type == EVENT_DATA) {
		hear(d, ev);
	} else if (ev->type == EVENT_END) {
		d->exec = NULL;
		if (ev->err == NULL && ev->code != 0) {
			error_set(&err, ERR_CLUSTER, "its shell ended with "
			    "status %ld", ev->code);
			finish(d, &err);
		} else {
			finish(d, ev->err);
		}
	}
}

struct deliver *
deliver_start(struct env *env, const char *namespace, const char *pod,
    event_fn *fn, void *arg)
{
	const char *argv[] = { "/bin/sh", "-c", receiver, "mcp-sandbox",
	    POD_AGENT, NULL };
	struct exec_req req = { .namespace = namespace, .pod = pod,
	    .container = POD_INIT, .argv = argv, .input = true };
	struct deliver *d = calloc(1, sizeof(*d));

	if (d == NULL)
		return NULL;
	d->env = env;
	d->fn = fn;
	d->arg = arg;
	if ((d->exec = exec_open(env->k8s, &req, on_exec, d)) == NULL) {
		free(d);
		return NULL;
	}
	return d;
}
