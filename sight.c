/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "config.h"
#include "env.h"
#include "event.h"
#include "manifest.h"
#include "sight.h"
#include "watch.h"

struct sight {
	const struct env *env;
	struct watch *watch;		/* NULL: over */
	enum sight_state state;
	char uid[64];
};

/* What has ended or is to go beside ours is nobody's concern. */
static void
look(struct sight *s, const struct event *ev)
{
	struct pod pod;
	bool there, ours;

	pod_read(&pod, ev->object, s->env->config->pod.domain);
	there = strcmp(ev->verb, "DELETED") != 0 && !pod.deleting &&
	    !pod.ended;
	ours = strcmp(pod.uid, s->uid) == 0;
	if (there != ours)
		s->state = SIGHT_LOST;
	else if (there && s->state == SIGHT_WAIT)
		s->state = SIGHT_CLEAR;
}

static void
on_watch(void *arg, const struct event *ev)
{
	struct sight *s = arg;

	if (ev->type == EVENT_END) {
		s->watch = NULL;
		s->state = ev->status >= 400 && ev->status <= 404 ?
		    SIGHT_DENIED : SIGHT_LOST;
	} else if (ev->type == EVENT_OBJECT) {
		look(s, ev);
	}
	if (s->state == SIGHT_LOST) {
		watch_close(s->watch);
		s->watch = NULL;
	}
}

struct sight *
sight_open(const struct env *env, const char *namespace, const char *session,
    const char *uid)
{
	struct sight *s = calloc(1, sizeof(*s));
	struct buf path;

	if (s == NULL)
		return NULL;
	s->env = env;
	(void)snprintf(s->uid, sizeof(s->uid), "%s", uid);
	buf_init(&path, 2048);
	manifest_list(&path, namespace, "pods", env->config->pod.domain,
	    session);
	if (buf_ok(&path))
		s->watch = watch_open(env->k8s, path.data, NULL, on_watch, s);
	buf_free(&path);
	if (s->watch == NULL) {
		free(s);
		return NULL;
	}
	watch_once(s->watch);
	return s;
}

void
sight_close(struct sight *s)
{
	if (s == NULL)
		return;
	watch_close(s->watch);
	free(s);
}

enum sight_state
sight_state(const struct sight *s)
{
	if (s == NULL)
		return SIGHT_LOST;
	/* What has come before the call counts, read or not. */
	if (s->state == SIGHT_CLEAR && watch_unread(s->watch))
		return SIGHT_WAIT;
	return s->state;
}
