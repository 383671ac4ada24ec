/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blocker.h"
#include "buf.h"
#include "claim.h"
#include "config.h"
#include "env.h"
#include "error.h"
#include "k8s.h"
#include "mono.h"
#include "names.h"

enum {
	IMAGE_MS = 6000,	/* a pull may fail once and then work */
	CRASH_MS = 8000,
	RECONCILER_MS = 4000,	/* the controller tries again by itself */
};

struct blocker {
	const struct env *env;
	char namespace[64];
	struct k8s_op *op;
	event_fn *fn;
	void *arg;
	struct blocker_clock clock;
	long reconciler_ms;	/* since when it reports an error; 0: not */
	bool denied;		/* we may not read pods */
};

struct blocker *
blocker_open(const struct env *env, const char *namespace)
{
	struct blocker *b = calloc(1, sizeof(*b));

	if (b == NULL)
		return NULL;
	b->env = env;
	(void)snprintf(b->namespace, sizeof(b->namespace), "%s", namespace);
	return b;
}

void
blocker_close(struct blocker *b)
{
	if (b == NULL)
		return;
	k8s_cancel(b->op);
	free(b);
}

static void
get(struct json v, char *dst, size_t size)
{
	struct buf b;

	dst[0] = '\0';
	buf_init(&b, 1 << 20);
	if (json_text(v, &b) && b.data != NULL)
		(void)snprintf(dst, size, "%.*s", (int)size - 1, b.data);
	buf_free(&b);
}

/* Has it been so for longer than limit_ms? */
static bool
lasted(long *since, bool now_so, long now_ms, long limit_ms)
{
	if (!now_so)
		*since = 0;
	else if (*since == 0)
		*since = now_ms > 0 ? now_ms : 1;
	return now_so && now_ms - *since >= limit_ms;
}

/* What one container waits for; the clocks say whether it may still pass. */
static int
container(struct json c, struct blocker_clock *clock, long now_ms,
    char *text, size_t size, struct error *err)
{
	static const char *const never[] = { "InvalidImageName",
	    "ErrImageNeverPull", "CreateContainerConfigError", NULL };
	static const char *const pull[] = { "ErrImagePull",
	    "ImagePullBackOff", "RegistryUnavailable", NULL };
	static const char *const crash[] = { "CrashLoopBackOff",
	    "CreateContainerError", "RunContainerError", NULL };
	struct json w = json_path(c, "state.waiting");
	char reason[80], message[400], image[256];
	bool final;

	if (json_type(w) != JSON_OBJECT)
		return 0;
	get(json_get(w, "reason"), reason, sizeof(reason));
	get(json_get(w, "message"), message, sizeof(message));
	get(json_get(c, "image"), image, sizeof(image));
	(void)snprintf(text, size, "%s%s%s", reason,
	    message[0] != '\0' ? ": " : "", message);
	final = name_among(reason, never);
	final |= lasted(&clock->image_ms, name_among(reason, pull), now_ms,
	    IMAGE_MS);
	final |= lasted(&clock->crash_ms, name_among(reason, crash), now_ms,
	    CRASH_MS);
	if (!final)
		return 0;
	error_set(err, ERR_CLUSTER, "its pod does not start: image %s: %s%s%s",
	    image, reason, message[0] != '\0' ? ": " : "", message);
	return 1;
}

static int
schedule(struct json pod, struct blocker_clock *clock, long now_ms,
    long limit_ms, char *text, size_t size, struct error *err)
{
	struct json m;
	char message[512] = "", reason[80];
	bool stuck = false;

	for (m = json_first(json_path(pod, "status.conditions"));
	    json_type(m) != JSON_NONE; m = json_next(m))
		if (json_is(json_get(m, "type"), "PodScheduled") &&
		    json_is(json_get(m, "status"), "False")) {
			get(json_get(m, "reason"), reason, sizeof(reason));
			get(json_get(m, "message"), message, sizeof(message));
			stuck = strcmp(reason, "Unschedulable") == 0;
		}
	if (message[0] != '\0')
		(void)snprintf(text, size, "%s", message);
	if (!lasted(&clock->unschedulable_ms, stuck, now_ms, limit_ms))
		return 0;
	error_set(err, ERR_CLUSTER, "no node takes its pod (Unschedulable): %s",
	    message);
	return 1;
}

int
blocker_pod(struct json pod, struct blocker_clock *clock, long now_ms,
    long unschedulable_limit_ms, char *text, size_t size, struct error *err)
{
	static const char *const lists[] = { "status.initContainerStatuses",
	    "status.containerStatuses" };
	struct json m;
	char phase[32], reason[80], message[400];

	(void)snprintf(text, size, "%s", "");
	get(json_path(pod, "status.phase"), phase, sizeof(phase));
	if (strcmp(phase, "Failed") == 0) {
		get(json_path(pod, "status.reason"), reason, sizeof(reason));
		get(json_path(pod, "status.message"), message,
		    sizeof(message));
		error_set(err, ERR_CLUSTER, "its pod failed: %s%s%s",
		    reason[0] != '\0' ? reason : "Failed",
		    message[0] != '\0' ? ": " : "", message);
		return 1;
	}
	if (schedule(pod, clock, now_ms, unschedulable_limit_ms, text, size,
	    err) == 1)
		return 1;
	for (size_t i = 0; i < 2; i++)
		for (m = json_first(json_path(pod, lists[i]));
		    json_type(m) != JSON_NONE; m = json_next(m))
			if (container(m, clock, now_ms, text, size, err) == 1)
				return 1;
	return 0;
}

static void
tell(struct blocker *b, const char *text, const struct error *err)
{
	struct event ev = { .type = EVENT_REPLY, .err = err, .data = text,
	    .len = strlen(text) };

	b->fn(b->arg, &ev);
}

static void
on_pod(void *arg, const struct event *ev)
{
	struct blocker *b = arg;
	struct error err = { ERR_NONE, "" };
	struct json_doc *doc;
	char text[512];
	int r;

	b->op = NULL;
	if (ev->err != NULL) {
		/* No pod yet, or no right to look: the claim's word counts. */
		b->denied |= ev->err->code == ERR_DENIED;
		return;
	}
	if ((doc = json_parse_lax(ev->data, ev->len, &err)) == NULL)
		return;
	r = blocker_pod(json_root(doc), &b->clock, mono_ms(),
	    b->env->config->unschedulable_s * 1000, text, sizeof(text), &err);
	json_free(doc);
	tell(b, text, r == 1 ? &err : NULL);
}

int
blocker_look(struct blocker *b, const char *pod, const struct claim *claim,
    event_fn *fn, void *arg, struct error *err)
{
	struct buf path;

	b->fn = fn;
	b->arg = arg;
	if (lasted(&b->reconciler_ms, strcmp(claim->reason,
	    "ReconcilerError") == 0, mono_ms(), RECONCILER_MS))
		return error_set(err, ERR_CLUSTER, "the cluster refuses it: "
		    "%s", claim->message);
	if (b->op != NULL || b->denied)
		return 0;
	buf_init(&path, 1024);
	buf_puts(&path, "/api/v1/namespaces/");
	k8s_escape(&path, b->namespace);
	buf_puts(&path, "/pods/");
	k8s_escape(&path, pod);
	b->op = k8s_send(b->env->k8s, "GET", path.data, NULL, 0, on_pod, b);
	buf_free(&path);
	return 0;
}
