/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget.h"
#include "call.h"
#include "cargo.h"
#include "deliver.h"
#include "env.h"
#include "error.h"
#include "exec.h"
#include "job-config.h"
#include "jobflow-own.h"
#include "mono.h"
#include "stash.h"

enum { PIECE = 32 * 1024 };	/* in memory at once */

static void
on_inject(void *arg, const struct event *ev)
{
	flow_event(arg, ev, FROM_INJECT);
}

/* The rest of a piece, or the next one. False: there is none. */
static bool
refill(struct jobflow *f)
{
	long n;

	if (f->piece_sent < f->piece_len)
		return true;
	f->piece_sent = f->piece_len = 0;
	if ((n = cargo_give(f->agent, f->piece, PIECE)) == 0)
		n = job_pack_give(&f->job, f->piece, PIECE);
	f->unread = n == -1;
	f->piece_len = n > 0 ? (size_t)n : 0;
	return n > 0;
}

static void
feed(void *arg)
{
	struct call *c = arg;
	struct jobflow *f = c->data;
	size_t n;

	/* As long as the container takes them, it may. */
	if (f->start_until_ms < mono_ms() + LIMIT_IDLE_MS)
		f->start_until_ms = mono_ms() + LIMIT_IDLE_MS;
	while (refill(f)) {
		n = exec_write(f->inject, f->piece + f->piece_sent,
		    f->piece_len - f->piece_sent);
		if (n == 0)
			return;
		f->piece_sent += n;
	}
	if (f->unread)
		call_timer(c, 0);	/* flow_tick() says it */
}

/*
 * $1: where to. As deliver.c does it: the container says its architecture, we
 * send the sizes, the agent for it, and the pack.
 */
static const char receiver[] =
	"set -e; cd \"$1\"; umask 022; uname -m; IFS=' ' read -r a n\n"
	"head -c \"$n\" >in.$$; [ \"$(wc -c <in.$$)\" -eq \"$n\" ]\n"
	"head -c \"$a\" in.$$ >agent.$$; chmod 755 agent.$$\n"
	"tail -c +$((a+1)) in.$$ >pack.$$; rm in.$$\n"
	"mv agent.$$ agent; mv pack.$$ pack; : >go\n";

enum step
flow_inject(struct call *c, struct error *err)
{
	static const char *const argv[] = { "sh", "-c", receiver,
	    "mcp-sandbox", JOB_DIR, NULL };
	const struct env *env = c->env;
	struct jobflow *f = c->data;
	struct exec_req req = { .namespace = flow_settings(c)->namespace,
	    .pod = f->pod.name, .container = "inject", .argv = argv,
	    .input = true };

	if (f->piece == NULL && (f->piece = malloc(PIECE)) == NULL)
		return flow_no_memory(err);
	job_pack_rewind(&f->job);
	cargo_close(f->agent);
	f->agent = NULL;
	f->piece_sent = f->piece_len = 0;
	f->machine[0] = '\0';
	call_progress(c, "pod %s takes the files", f->pod.name);
	f->opened = false;
	f->inject = exec_open(env->k8s, &req, on_inject, c);
	return f->inject == NULL ? flow_no_memory(err) : STEP_WAIT;
}

/* A line of uname -m, maybe in pieces. */
static enum step
machine(struct call *c, const struct event *ev, struct error *err)
{
	struct jobflow *f = c->data;
	size_t have = strlen(f->machine);
	char *end;

	if (f->agent != NULL || ev->channel != 1)
		return STEP_WAIT;
	(void)snprintf(f->machine + have, sizeof(f->machine) - have, "%.*s",
	    ev->len > 39 ? 39 : (int)ev->len, ev->data);
	if ((end = strchr(f->machine, '\n')) == NULL)
		return STEP_WAIT;
	*end = '\0';
	f->agent = deliver_agent(c->env, f->machine, err);
	if (f->agent == NULL)
		return STEP_FAIL;
	f->piece_len = (size_t)snprintf(f->piece, PIECE, "%zu %zu\n",
	    cargo_len(f->agent), cargo_len(f->agent) + job_pack_len(&f->job));
	exec_on_room(f->inject, feed, c);
	feed(c);
	return STEP_WAIT;
}

/*
 * The container ends when it has all, and may take this connection with it:
 * what counts is how the container ended, which the watch tells.
 */
enum step
flow_injecting(struct call *c, const struct event *ev, struct error *err)
{
	struct jobflow *f = c->data;

	f->opened |= ev->type == EVENT_OPEN;
	if (ev->type == EVENT_DATA)
		return machine(c, ev, err);
	if (ev->type != EVENT_END)
		return STEP_WAIT;
	f->inject = NULL;
	if (!f->opened && !f->pod.inject_runs) {
		/* It is not there yet. */
		call_timer(c, FLOW_EAGER_MS);
		return STEP_WAIT;
	}
	if (ev->err == NULL && ev->code == 0) {
		f->injected = true;
		/* A command may take hours; nobody needs its files here. */
		job_free(&f->job);
		spilled_drop(c->spilled);
		c->spilled = NULL;
		call_timer(c, FLOW_EAGER_MS);
		return f->mode == FLOW_SUBMIT ? flow_submitted(c, err) :
		    STEP_WAIT;
	}
	if (f->injected || ++f->tries < FLOW_TRIES)
		return STEP_WAIT;
	if (ev->err != NULL)
		*err = *ev->err;
	else
		error_set(err, ERR_CLUSTER, "its exit status was %ld",
		    ev->code);
	error_wrap(err, "run failed: inject files");
	return STEP_FAIL;
}
