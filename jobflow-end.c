/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "claim.h"
#include "error.h"
#include "job-config.h"
#include "jobflow-own.h"
#include "json.h"
#include "jsonw.h"
#include "k8s.h"

enum { VERIFY_MS = 150 };

/*
 * What will never start holds its place in the cluster until somebody sees
 * it: the Job is told to end now, and why, for those who ask later.
 */
enum step
jobflow_end(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;
	struct buf note, body;
	struct jsonw w;
	enum step step;

	buf_init(&note, 1024);
	buf_init(&body, 4096);
	jsonw_init(&w, &note);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "reason", f->result.reason);
	jsonw_str(&w, "message", f->result.message);
	jsonw_end(&w);
	jsonw_init(&w, &body);
	jsonw_object(&w, NULL);
	jsonw_object(&w, "metadata");
	jsonw_object(&w, "annotations");
	jsonw_bytes(&w, JOB_NOTE "ended", note.data, note.len);
	jsonw_end(&w);
	jsonw_end(&w);
	jsonw_object(&w, "spec");
	jsonw_int(&w, "activeDeadlineSeconds", 1);
	jsonw_end(&w);
	jsonw_end(&w);
	f->state = FLOW_END;
	step = flow_request(c, "PATCH", "jobs", f->job.token, "", body.data,
	    err);
	buf_free(&note);
	buf_free(&body);
	return step;
}

enum step
jobflow_shrink(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;
	char name[300];
	enum step step;

	(void)snprintf(name, sizeof(name), "/%s/resize", f->pod.name);
	f->state = FLOW_SHRINK;
	step = flow_request(c, "PATCH", "pods", NULL, name, f->shrink.data,
	    err);
	buf_free(&f->shrink);
	return step;
}

enum step
jobflow_delete(struct call *c)
{
	struct jobflow *f = c->data;
	struct error err;
	struct buf body;
	enum step step;

	f->state = FLOW_DELETE;
	call_timer(c, -1);
	buf_init(&body, 1024);
	claim_delete_body(&body, f->uid);
	step = flow_request(c, "DELETE", "jobs", f->job.token, "", body.data,
	    &err);
	buf_free(&body);
	return step == STEP_WAIT ? STEP_WAIT : STEP_DONE;
}

enum step
flow_verify(struct call *c)
{
	struct jobflow *f = c->data;
	struct error err;
	char rest[80];

	f->state = FLOW_VERIFY;
	(void)snprintf(rest, sizeof(rest), "?labelSelector=run-id%%3D%s",
	    f->job.run_id);
	return flow_request(c, "GET", "pods", NULL, rest, NULL, &err) ==
	    STEP_WAIT ? STEP_WAIT : STEP_DONE;
}

/*
 * It is gone for good. Whoever is still running goes on, by another name: the
 * controller may yet make a pod for the Job that was there a moment ago.
 */
static enum step
gone(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;

	f->made = false;
	if (c->state == CALL_STOPPING)
		return STEP_DONE;
	if (f->done)
		return f->finish(c, err);
	f->uid[0] = '\0';
	if (job_renew(&f->job, &f->body, err) == -1)
		return STEP_FAIL;
	return flow_queue(c);
}

enum step
flow_deleted(struct call *c, const struct event *ev)
{
	struct jobflow *f = c->data;

	if (ev->err == NULL || ev->err->code == ERR_GONE ||
	    ev->err->code == ERR_CONFLICT)
		return flow_verify(c);
	if (++f->tries < FLOW_TRIES && ev->err->code != ERR_DENIED) {
		call_timer(c, 300L << f->tries);
		return STEP_WAIT;
	}
	call_left(c, "job %s/%s", flow_settings(c)->namespace, f->job.token);
	return STEP_DONE;
}

enum step
flow_verified(struct call *c, const struct event *ev, struct error *err)
{
	const struct jobflow *f = c->data;
	struct error ignored;
	struct json_doc *doc;
	struct json m;
	size_t n = 0;

	if (ev->err == NULL && (doc = json_parse_lax(ev->data, ev->len,
	    &ignored)) != NULL) {
		for (m = json_first(json_get(json_root(doc), "items"));
		    json_type(m) != JSON_NONE; m = json_next(m))
			n += flow_owns(f, m);
		json_free(doc);
	}
	if (n == 0)
		return gone(c, err);
	call_timer(c, VERIFY_MS);
	return STEP_WAIT;
}
