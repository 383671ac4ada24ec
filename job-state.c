/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "buf.h"
#include "job-state.h"
#include "jsonw.h"
#include "manifest.h"
#include "names.h"

static void
get(struct json v, char *dst, size_t size)
{
	struct buf b;

	dst[0] = '\0';
	if (json_type(v) != JSON_STRING)
		return;
	buf_init(&b, 1 << 20);
	if (json_text(v, &b) && b.data != NULL)
		(void)snprintf(dst, size, "%.*s", (int)size - 1, b.data);
	buf_free(&b);
}

static void
because(struct job_pod *p, const char *reason, const char *message)
{
	p->broken = true;
	(void)snprintf(p->reason, sizeof(p->reason), "%s", reason);
	(void)snprintf(p->message, sizeof(p->message), "%.399s", message);
}

/* A back-off means that a pull has failed already. */
static void
waiting(struct job_pod *p, const char *name, struct json c)
{
	static const char *const never[] = { "InvalidImageName",
	    "ErrImageNeverPull", "ImagePullBackOff", "RegistryUnavailable",
	    "CreateContainerConfigError", "CreateContainerError", NULL };
	struct json w = json_path(c, "state.waiting");
	char reason[80], message[300], image[JOB_REF], text[700];

	get(json_get(w, "reason"), reason, sizeof(reason));
	if (reason[0] == '\0' || p->broken)
		return;
	get(json_get(w, "message"), message, sizeof(message));
	get(json_get(c, "image"), image, sizeof(image));
	if (name_among(reason, never)) {
		(void)snprintf(text, sizeof(text), "container %s, image "
		    "%.200s: %s%s%s", name, image, reason,
		    message[0] != '\0' ? ": " : "", message);
		because(p, "image_error", text);
	} else if (strcmp(reason, "PodInitializing") != 0 &&
	    strcmp(reason, "ContainerCreating") != 0) {
		p->pull_failed |= strcmp(reason, "ErrImagePull") == 0;
		(void)snprintf(p->message, sizeof(p->message), "%s: %s", reason,
		    message);
	}
}

static void
init_container(struct job_pod *p, struct json c)
{
	struct json ended = json_path(c, "state.terminated");
	bool inject = json_is(json_get(c, "name"), "inject");
	char text[400], reason[80];
	long code = -1;

	if (inject)
		p->inject_runs = json_type(json_path(c, "state.running")) ==
		    JSON_OBJECT;
	if (json_type(ended) != JSON_OBJECT) {
		waiting(p, inject ? "inject" : "clone", c);
		return;
	}
	(void)json_int(json_get(ended, "exitCode"), -1, 255, &code);
	if (code == 0) {
		p->inject_done |= inject;
		return;
	}
	get(json_get(ended, "reason"), reason, sizeof(reason));
	(void)snprintf(text, sizeof(text), "container %s ended with %ld (%s)",
	    inject ? "inject" : "clone", code, reason);
	because(p, inject ? "connection_lost" : "clone_failed", text);
	p->log_of = inject ? "inject" : "clone";
}

static void
container(struct job_pod *p, struct json c)
{
	struct json ended = json_path(c, "state.terminated");
	bool main_one = json_is(json_get(c, "name"), "main");

	if (!main_one && json_is(json_get(c, "name"), "reader"))
		p->reader_runs = json_type(json_path(c, "state.running")) ==
		    JSON_OBJECT;
	if (main_one)
		p->main_runs = json_type(json_path(c, "state.running")) ==
		    JSON_OBJECT;
	if (json_type(ended) != JSON_OBJECT) {
		waiting(p, main_one ? "main" : "reader", c);
		return;
	}
	if (!main_one)
		return;
	p->main_ended = true;
	p->exit_code = -1;
	(void)json_int(json_get(ended, "exitCode"), -1, 255, &p->exit_code);
	p->oom = json_is(json_get(ended, "reason"), "OOMKilled");
	if (json_is(json_get(ended, "reason"), "StartError") ||
	    json_is(json_get(ended, "reason"), "ContainerCannotRun")) {
		char message[300];

		get(json_get(ended, "message"), message, sizeof(message));
		because(p, "image_error", message);
	}
}

static void
schedule(struct job_pod *p, struct json pod, long now, long patience_s)
{
	char message[400], since[40];
	struct json m;

	for (m = json_first(json_path(pod, "status.conditions"));
	    json_type(m) != JSON_NONE; m = json_next(m)) {
		if (!json_is(json_get(m, "type"), "PodScheduled") ||
		    !json_is(json_get(m, "status"), "False"))
			continue;
		get(json_get(m, "message"), message, sizeof(message));
		get(json_get(m, "lastTransitionTime"), since, sizeof(since));
		(void)snprintf(p->message, sizeof(p->message), "%.399s",
		    message);
		if (json_is(json_get(m, "reason"), "Unschedulable") &&
		    manifest_time(since) != -1 &&
		    now - manifest_time(since) >= patience_s)
			because(p, "unschedulable", message);
	}
}

static void
write_least(struct jsonw *w, struct json limits)
{
	const char *raw;
	size_t len;

	jsonw_object(w, "resources");
	jsonw_object(w, "requests");
	jsonw_str(w, "cpu", "1m");
	jsonw_str(w, "memory", "1Mi");
	jsonw_end(w);
	if (json_type(limits) == JSON_OBJECT) {
		raw = json_raw(limits, &len);
		jsonw_raw(w, "limits", raw, len);
	}
	jsonw_end(w);
}

void
job_pod_read(struct job_pod *p, struct json pod, long now, long patience_s)
{
	struct json status = json_get(pod, "status"), m;
	char reason[80], message[400];

	*p = (struct job_pod){ .exit_code = -1 };
	get(json_path(pod, "metadata.name"), p->name, sizeof(p->name));
	p->deleting = json_type(json_path(pod, "metadata.deletionTimestamp")) ==
	    JSON_STRING;
	p->placed = json_type(json_path(pod, "spec.nodeName")) == JSON_STRING;
	p->over = json_is(json_get(status, "phase"), "Failed") ||
	    json_is(json_get(status, "phase"), "Succeeded");
	get(json_get(status, "reason"), reason, sizeof(reason));
	get(json_get(status, "message"), message, sizeof(message));
	if (strcmp(reason, "Evicted") == 0 ||
	    strcmp(reason, "Preempting") == 0 ||
	    strncmp(reason, "NodeShutdown", 12) == 0 ||
	    strcmp(reason, "Terminated") == 0)
		because(p, "evicted", message);
	else if (p->over && reason[0] != '\0')
		because(p, strcmp(reason, "DeadlineExceeded") == 0 ?
		    "deleted" : "unschedulable", message[0] != '\0' ? message :
		    reason);
	schedule(p, pod, now, patience_s);
	for (m = json_first(json_get(status, "initContainerStatuses"));
	    json_type(m) != JSON_NONE; m = json_next(m))
		init_container(p, m);
	for (m = json_first(json_get(status, "containerStatuses"));
	    json_type(m) != JSON_NONE; m = json_next(m))
		container(p, m);
	/* What was evicted or is over has nobody to ask. */
	if (p->over)
		p->reader_runs = p->inject_runs = false;
}

void
job_pod_shrink(struct buf *out, struct json pod)
{
	struct json list = json_path(pod, "spec.containers"), m, v;
	struct jsonw w;
	char key[40];
	const char *raw;
	size_t len;

	if (json_is(json_path(json_first(list), "resources.requests.cpu"),
	    "1m"))
		return;
	jsonw_init(&w, out);
	jsonw_object(&w, NULL);
	jsonw_object(&w, "spec");
	jsonw_array(&w, "containers");
	for (m = json_first(list); json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		bool main_one = json_is(json_get(m, "name"), "main");

		jsonw_object(&w, NULL);
		for (v = json_first(m); json_type(v) != JSON_NONE;
		    v = json_next(v)) {
			if (!json_str(json_key(v), key, sizeof(key)) ||
			    (main_one && strcmp(key, "resources") == 0))
				continue;
			raw = json_raw(v, &len);
			jsonw_raw(&w, key, raw, len);
		}
		if (main_one)
			write_least(&w, json_path(m, "resources.limits"));
		jsonw_end(&w);
	}
	jsonw_end(&w);
	jsonw_end(&w);
	jsonw_end(&w);
}

/* What the runner was told: the word after "--work". */
static void
workdir(struct job_object *o, struct json command)
{
	struct json m;

	for (m = json_first(command); json_type(m) != JSON_NONE;
	    m = json_next(m))
		if (json_is(m, "--work")) {
			get(json_next(m), o->workdir, sizeof(o->workdir));
			return;
		}
}

void
job_object_read(struct job_object *o, struct json job)
{
	struct json meta = json_get(job, "metadata"), m;

	*o = (struct job_object){ .finished = false };
	get(json_get(meta, "name"), o->token, sizeof(o->token));
	get(json_get(meta, "uid"), o->uid, sizeof(o->uid));
	get(json_get(meta, "creationTimestamp"), o->created,
	    sizeof(o->created));
	get(json_get(json_get(meta, "labels"), "run-id"), o->run_id,
	    sizeof(o->run_id));
	get(json_get(json_get(meta, "annotations"), JOB_NOTE "ended"), o->note,
	    sizeof(o->note));
	o->deleting = json_type(json_get(meta, "deletionTimestamp")) ==
	    JSON_STRING;
	m = json_first(json_path(job, "spec.template.spec.containers"));
	get(json_get(m, "image"), o->image, sizeof(o->image));
	workdir(o, json_get(m, "command"));
	for (m = json_first(json_path(job, "status.conditions"));
	    json_type(m) != JSON_NONE; m = json_next(m)) {
		if (!json_is(json_get(m, "status"), "True"))
			continue;
		if (json_is(json_get(m, "type"), "Complete"))
			o->finished = true;
		if (!json_is(json_get(m, "type"), "Failed") &&
		    !json_is(json_get(m, "type"), "FailureTarget"))
			continue;
		o->finished = true;
		get(json_get(m, "reason"), o->reason, sizeof(o->reason));
		get(json_get(m, "message"), o->message, sizeof(o->message));
	}
}

const char *
job_refusal(const char *message)
{
	return strstr(message, "quota") != NULL ||
	    strstr(message, "must specify") != NULL ||
	    strstr(message, "usage per") != NULL ? "quota" : "forbidden";
}
