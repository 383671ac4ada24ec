/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_job, submit_job, fetch_job, cancel_job.
 */
#include <limits.h>
#include <string.h>

#include "base64.h"
#include "budget.h"
#include "call.h"
#include "error.h"
#include "jobflow.h"
#include "jobwire.h"
#include "jsonw.h"
#include "tools-job.h"

enum { WAIT_MAX_S = 120, READ_MAX = 1 << 20 };

/* --- run and submit ------------------------------------------------------ */

static const struct arg file_args[] = {
	{ "path", ARG_STRING, ARG_REQUIRED, .help = "Relative to workdir." },
	{ "content_b64", ARG_STRING, ARG_REQUIRED | ARG_LONG },
	{ "mode", ARG_STRING, .help = "Octal; 0644." },
	{ NULL }
};
static const struct arg file_item[] = {
	{ "file", ARG_OBJECT, .of = file_args }, { NULL }
};
static const struct arg word[] = { { "word", ARG_STRING }, { NULL } };
static const struct arg limit_args[] = {
	{ "cpu", ARG_STRING },
	{ "memory", ARG_STRING, .help = "256Mi" },
	{ NULL }
};
static const struct arg clone_args[] = {
	{ "repo_url", ARG_STRING, ARG_REQUIRED },
	{ "ref", ARG_STRING, ARG_REQUIRED, .help = "Branch, tag or commit." },
	{ "subdir", ARG_STRING, .help = "Below workdir; repo." },
	{ "depth", ARG_INT, .help = "0: all history." },
	{ "submodules", ARG_BOOL },
	{ NULL }
};

static const struct arg run_args[] = {
	{ "image", ARG_STRING, ARG_REQUIRED, .help =
	    "A refusal names those that are allowed." },
	{ "command", ARG_ARRAY, ARG_REQUIRED | ARG_NULL, .of = word, .help =
	    "Program and arguments; no shell unless you name one." },
	{ "files", ARG_ARRAY, ARG_NULL, .of = file_item, .help =
	    "Put into workdir before it starts." },
	{ "env", ARG_MAP },
	{ "limits", ARG_OBJECT, ARG_NULL, .of = limit_args },
	{ "timeout_s", ARG_INT, .help = "Seconds from its start; 0: the "
	    "server's default." },
	{ "workdir", ARG_STRING, .help = "Where it runs; /work." },
	{ "clone", ARG_OBJECT, ARG_NULL, .of = clone_args },
	{ "artifacts", ARG_ARRAY, ARG_NULL, .of = word, .help = "Globs of "
	    "files to return (**/*.xml); without: new and changed ones." },
	{ NULL }
};

static const struct arg truncated_out[] = {
	{ "stdout", ARG_BOOL, ARG_REQUIRED },
	{ "stderr", ARG_BOOL, ARG_REQUIRED },
	{ "artifacts", ARG_BOOL, ARG_REQUIRED },
	{ NULL }
};
static const struct arg result_out[] = {
	{ "exit_code", ARG_INT, ARG_REQUIRED, .help = "-1: not known." },
	{ "stdout", ARG_STRING, ARG_REQUIRED },
	{ "stderr", ARG_STRING, ARG_REQUIRED },
	{ "duration_ms", ARG_INT, ARG_REQUIRED },
	{ "status", ARG_STRING, ARG_REQUIRED, .help =
	    "succeeded, failed, timeout or error." },
	{ "reason", ARG_STRING, .help = "oom_killed, evicted, image_error, "
	    "unschedulable, quota, forbidden, clone_failed, start_error, "
	    "deleted, connection_lost, cancelled, or empty." },
	{ "message", ARG_STRING },
	{ "artifacts", ARG_ARRAY, ARG_REQUIRED, .help = "Of each name, size, "
	    "content_b64, sha256; truncated, link, skipped (why)." },
	{ "artifacts_omitted", ARG_INT },
	{ "truncated", ARG_OBJECT, ARG_REQUIRED, .of = truncated_out },
	{ NULL }
};

static void
run_result(struct call *c)
{
	struct jobflow *f = c->data;
	struct jsonw w;

	jsonw_init(&w, &c->structured);
	job_result_write(&w, NULL, &f->result);
	job_result_text(&c->text, &f->result);
}

static enum step
run_finish(struct call *c, struct error *err)
{
	(void)err;
	run_result(c);
	return STEP_DONE;
}

static enum step
run_start(struct call *c, struct json args, struct error *err)
{
	struct jobflow *f = c->data;

	f->mode = FLOW_RUN;
	f->finish = run_finish;
	return jobflow_start(c, args, err);
}

const struct tool tool_run_job = {
	.name = "run_job",
	.title = "Run job",
	.help = "Run a command in a fresh pod, wait for its end and return "
	    "exit code, output and files; the pod is deleted. A command that "
	    "fails or runs out of time is a result, with what it printed so "
	    "far.",
	.family = "jobs",
	.args = run_args,
	.out = result_out,
	.hints = HINT_OPEN_WORLD,
	.size = sizeof(struct jobflow),
	.plan = jobflow_plan,
	.start = run_start,
	.next = jobflow_next,
	.stop = jobflow_stop,
	.release = jobflow_release,
};

static const struct arg submit_out[] = {
	{ "job_token", ARG_STRING, ARG_REQUIRED },
	{ "status", ARG_STRING, ARG_REQUIRED },
	{ NULL }
};

static enum step
submit_finish(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;
	struct jsonw w;

	if (f->done) {
		error_set(err, ERR_CLUSTER, "run failed: %s: %s",
		    f->result.reason, f->result.message);
		return STEP_FAIL;
	}
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "job_token", f->job.token);
	jsonw_str(&w, "status", "submitted");
	jsonw_end(&w);
	return STEP_DONE;
}

/* Checked by run_job's table. */
static const char submit_schema[] =
	"{\"type\":\"object\",\"properties\":{"
	"\"image\":{\"type\":\"string\"},"
	"\"command\":{\"type\":[\"array\",\"null\"]},"
	"\"files\":{\"type\":[\"array\",\"null\"]},"
	"\"env\":{\"type\":\"object\"},"
	"\"limits\":{\"type\":[\"object\",\"null\"]},"
	"\"timeout_s\":{\"type\":\"integer\"},"
	"\"workdir\":{\"type\":\"string\"},"
	"\"clone\":{\"type\":[\"object\",\"null\"]},"
	"\"artifacts\":{\"type\":[\"array\",\"null\"]}},"
	"\"required\":[\"image\",\"command\"],"
	"\"additionalProperties\":false}";

static enum step
submit_start(struct call *c, struct json args, struct error *err)
{
	struct jobflow *f = c->data;

	if (tools_check(&tool_run_job, args, err) == -1)
		return STEP_FAIL;
	f->mode = FLOW_SUBMIT;
	f->finish = submit_finish;
	return jobflow_start(c, args, err);
}

const struct tool tool_submit_job = {
	.name = "submit_job",
	.title = "Submit job",
	.help = "run_job in the background, with the same arguments: returns "
	    "a job_token for fetch_job. It goes on without this connection.",
	.family = "jobs",
	.args = run_args,
	.in_schema = submit_schema,
	.out = submit_out,
	.hints = HINT_OPEN_WORLD,
	.size = sizeof(struct jobflow),
	.plan = jobflow_plan,
	.start = submit_start,
	.next = jobflow_next,
	.stop = jobflow_stop,
	.release = jobflow_release,
};

/* --- fetch --------------------------------------------------------------- */

static const char *const streams[] = { "stdout", "stderr", NULL };

static const struct arg fetch_args[] = {
	{ "job_token", ARG_STRING, ARG_REQUIRED },
	{ "wait_s", ARG_INT, .help = "Wait so long for its end; at most 120." },
	{ "path", ARG_STRING, .help = "Read bytes of this file of workdir "
	    "instead of the result." },
	{ "stream", ARG_STRING, .one_of = streams, .help =
	    "The same for an output." },
	{ "offset", ARG_INT, 0, 0, LONG_MAX, "0" },
	{ "length", ARG_INT, 0, 1, READ_MAX, "262144" },
	{ NULL }
};

static const struct arg fetch_out[] = {
	{ "status", ARG_STRING, ARG_REQUIRED, .help =
	    "running, done or error." },
	{ "error", ARG_STRING },
	{ "result", ARG_OBJECT, .help = "As run_job's; when done." },
	{ "stdout", ARG_STRING, .help = "Its end so far, while running." },
	{ "stderr", ARG_STRING },
	{ "message", ARG_STRING },
	{ "content_b64", ARG_STRING, .help = "Bytes read." },
	{ "size", ARG_INT, .help = "Of all that can be read." },
	{ NULL }
};

static void
write_range(struct call *c)
{
	struct jobflow *f = c->data;
	struct base64 b = { .n = 0 };
	struct buf text;
	struct jsonw w;

	buf_init(&text, 2 * READ_MAX);
	base64_encode(&b, f->result.out[0].data, f->result.out[0].len, &text);
	base64_encode_end(&b, &text);
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "status", "done");
	jsonw_bytes(&w, "content_b64", text.data == NULL ? "" : text.data,
	    text.len);
	jsonw_int(&w, "size", f->result.size);
	jsonw_end(&w);
	buf_free(&text);
}

/* Hopeless while its Job still waits: end it, then say so. */
static bool
must_end(const struct jobflow *f)
{
	static const char *const reasons[] = { "image_error", "unschedulable",
	    "quota", "forbidden" };

	if (f->object.note[0] != '\0' || f->object.finished)
		return false;
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (strcmp(f->result.reason, reasons[i]) == 0)
			return true;
	return false;
}

static enum step
fetch_finish(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;
	struct jsonw w;

	if (f->path[0] != '\0' && f->result.status[0] == '\0') {
		write_range(c);
		return STEP_DONE;
	}
	if (must_end(f))
		return jobflow_end(c, err);
	if (f->shrink.len > 0 && buf_ok(&f->shrink) && !f->pod.over &&
	    !f->pod_gone)
		return jobflow_shrink(c, err);
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "status", "done");
	job_result_write(&w, "result", &f->result);
	jsonw_end(&w);
	job_result_text(&c->text, &f->result);
	return STEP_DONE;
}

static enum step
fetch_unfinished(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;
	struct jsonw w;

	if (f->path[0] != '\0') {
		error_set(err, ERR_BUSY, "job %s has not started yet",
		    f->job.token);
		return STEP_FAIL;
	}
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "status", "running");
	for (int i = 0; i < 2; i++)
		if (f->result.out[i].len > 0)
			jsonw_bytes(&w, streams[i], f->result.out[i].data,
			    f->result.out[i].len);
	if (f->pod.message[0] != '\0')
		jsonw_str(&w, "message", f->pod.message);
	jsonw_end(&w);
	return STEP_DONE;
}

static int
fetch_range(struct call *c, struct json args, struct error *err)
{
	struct jobflow *f = c->data;
	struct json path = json_get(args, "path");

	f->offset = tools_int(c->tool, args, "offset");
	f->limit = tools_int(c->tool, args, "length");
	f->stream = tools_has(args, "stream");
	if (f->stream && tools_has(args, "path"))
		return error_set(err, ERR_INPUT, "path and stream: give one of "
		    "them");
	if (f->stream)
		(void)json_str(json_get(args, "stream"), f->path,
		    sizeof(f->path));
	else if (tools_has(args, "path") && (!json_str(path, f->path,
	    sizeof(f->path)) || f->path[0] == '\0' || f->path[0] == '/' ||
	    jobwire_glob("**/../**", f->path) || strcmp(f->path, "..") == 0 ||
	    strncmp(f->path, "../", 3) == 0))
		return error_set(err, ERR_INPUT, "path: must be below workdir, "
		    "as an artifact's name is");
	return 0;
}

static enum step
fetch_start(struct call *c, struct json args, struct error *err)
{
	struct jobflow *f = c->data;
	long wait = tools_int(c->tool, args, "wait_s");

	f->mode = FLOW_FETCH;
	f->finish = fetch_finish;
	f->unfinished = fetch_unfinished;
	if (fetch_range(c, args, err) == -1)
		return STEP_FAIL;
	wait = wait < 0 ? 0 : wait > WAIT_MAX_S ? WAIT_MAX_S : wait;
	return jobflow_find(c, args, wait * 1000, err);
}

const struct tool tool_fetch_job = {
	.name = "fetch_job",
	.title = "Fetch job",
	.help = "The result of a submitted job, kept for 60 minutes after its "
	    "end; its output so far while it runs; or a range of a file.",
	.family = "jobs",
	.args = fetch_args,
	.out = fetch_out,
	.hints = HINT_READ_ONLY | HINT_IDEMPOTENT,
	.size = sizeof(struct jobflow),
	.start = fetch_start,
	.next = jobflow_next,
	.stop = jobflow_stop,
	.release = jobflow_release,
};

/* --- cancel -------------------------------------------------------------- */

static const struct arg cancel_args[] = {
	{ "job_token", ARG_STRING, ARG_REQUIRED }, { NULL }
};

static const struct arg cancel_out[] = {
	{ "status", ARG_STRING, ARG_REQUIRED, .help = "cancelled, or done if "
	    "it had ended." },
	{ "result", ARG_OBJECT, ARG_REQUIRED, .help = "As run_job's." },
	{ NULL }
};

static enum step
cancel_finish(struct call *c, struct error *err)
{
	struct jobflow *f = c->data;
	struct jsonw w;

	(void)err;
	if (f->made)
		return jobflow_delete(c);
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "status", strcmp(f->result.reason, "cancelled") == 0 ?
	    "cancelled" : "done");
	job_result_write(&w, "result", &f->result);
	jsonw_end(&w);
	job_result_text(&c->text, &f->result);
	return STEP_DONE;
}

static enum step
cancel_start(struct call *c, struct json args, struct error *err)
{
	struct jobflow *f = c->data;

	f->mode = FLOW_CANCEL;
	f->finish = cancel_finish;
	return jobflow_find(c, args, 0, err);
}

const struct tool tool_cancel_job = {
	.name = "cancel_job",
	.title = "Cancel job",
	.help = "End a job, return its output and files so far, delete it.",
	.family = "jobs",
	.args = cancel_args,
	.out = cancel_out,
	.hints = HINT_DESTRUCTIVE | HINT_IDEMPOTENT,
	.size = sizeof(struct jobflow),
	.start = cancel_start,
	.next = jobflow_next,
	.stop = jobflow_stop,
	.release = jobflow_release,
};
