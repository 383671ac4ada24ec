/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents.h"
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
	char machine[40], head[24];
	char said[200];			/* on its stderr */
	const char *agent;
	size_t len, head_len, sent;	/* sent: of head and agent together */
};

void
deliver_close(struct deliver *d)
{
	if (d == NULL)
		return;
	exec_close(d->exec);
	free(d);
}

const void *
deliver_agent(const struct env *env, const char *machine, size_t *len)
{
	if (env->agent != NULL) {
		*len = env->agent_len;
		return env->agent;
	}
	return agents_find(machine, len);
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

static void
feed(void *arg)
{
	struct deliver *d = arg;
	const char *from;
	size_t left, n;

	while (d->sent < d->head_len + d->len) {
		if (d->sent < d->head_len) {
			from = d->head + d->sent;
			left = d->head_len - d->sent;
		} else {
			from = d->agent + (d->sent - d->head_len);
			left = d->head_len + d->len - d->sent;
		}
		if ((n = exec_write(d->exec, from, left)) == 0)
			return;
		d->sent += n;
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
	if (d->head_len > 0 || ev->len == 0)
		return;
	(void)snprintf(d->machine + have, sizeof(d->machine) - have, "%.*s",
	    ev->len > 39 ? 39 : (int)ev->len, ev->data);
	if ((end = strchr(d->machine, '\n')) == NULL)
		return;
	*end = '\0';
	d->agent = deliver_agent(d->env, d->machine, &d->len);
	if (d->agent == NULL) {
		error_set(&err, ERR_CONFIG, "this server carries no agent for "
		    "'%s': give one with --agent-file, or use an image that "
		    "has it (--image-has-agent)", d->machine);
		exec_close(d->exec);
		d->exec = NULL;
		finish(d, &err);
		return;
	}
	d->head_len = (size_t)snprintf(d->head, sizeof(d->head), "%zu\n",
	    d->len);
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
