/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget.h"
#include "error.h"
#include "excerpt.h"
#include "job-result.h"
#include "job-state.h"
#include "json.h"
#include "jsonw.h"
#include "utf8.h"

enum { PART_MAX = 64 << 10, NAMES_MAX = 4096, TEXT_CHARS = 16000,
    TAIL = 32 /* after a content, and a comma */ };

void
job_result_init(struct job_result *r, long out_max, size_t room)
{
	*r = (struct job_result){ .exit_code = -1, .room = room };
	buf_init(&r->part, PART_MAX);
	for (int i = 0; i < 2; i++)
		buf_init(&r->out[i], (size_t)out_max);
	buf_init(&r->artifacts, 2 * (size_t)LIMIT_REPLY);
	buf_init(&r->names, NAMES_MAX);
}

void
job_result_free(struct job_result *r)
{
	buf_free(&r->part);
	buf_free(&r->out[0]);
	buf_free(&r->out[1]);
	buf_free(&r->artifacts);
	buf_free(&r->names);
}

void
job_result_reset(struct job_result *r)
{
	size_t max = r->out[0].max, room = r->room;
	bool reading = r->reading;

	job_result_free(r);
	job_result_init(r, (long)max, room);
	r->reading = reading;
}

bool
job_result_whole(const struct job_result *r)
{
	return r->wire.ended;
}

/*
 * What was printed comes first, but for an eighth of the room; of its own an
 * eighth is sure for the errors. Artifacts have what is left. Bytes that JSON
 * escapes take more than they are.
 */
static void
outputs_fit(struct job_result *r)
{
	struct buf *out = &r->out[0], *err = &r->out[1];
	size_t room = r->room - r->room / 8, took;

	if (r->fitted || r->reading)
		return;
	r->fitted = true;
	(void)jsonw_fit(err->data, err->len, room / 8, &took);
	out->len = jsonw_fit(out->data, out->len, room - took, &took);
	r->left = r->room - took;
	err->len = jsonw_fit(err->data, err->len, room - took, &took);
	r->left -= took;
}

/* --- artifacts ----------------------------------------------------------- */

static void
close_artifact(struct job_result *r)
{
	struct base64 b = r->b64;

	if (!r->open)
		return;
	r->open = false;
	base64_encode_end(&b, &r->artifacts);
	buf_puts(&r->artifacts, r->cut_here ? "\",\"truncated\":true}" : "\"}");
}

/* Written by the pod; copied member by member. Ends where its content goes. */
static void
artifact_head(struct buf *out, struct json a, long size)
{
	static const char *const texts[] = { "name", "link", "skipped",
	    "sha256" };
	const char *raw;
	struct jsonw w;
	size_t len;

	jsonw_init(&w, out);
	jsonw_object(&w, NULL);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (json_type(json_get(a, texts[i])) == JSON_STRING) {
			raw = json_raw(json_get(a, texts[i]), &len);
			jsonw_raw(&w, texts[i], raw, len);
		}
	jsonw_int(&w, "size", size);
	jsonw_str(&w, "content_b64", "");
	jsonw_end(&w);
	if (buf_ok(out))
		out->len -= strlen("\"}");
}

static int
artifact(struct job_result *r, struct json a)
{
	struct json name = json_get(a, "name");
	char shown[100] = "";
	long size = 0, n = 0;
	bool cut = false;
	size_t at = 0;
	struct buf head;

	if (json_type(name) != JSON_STRING)
		return -1;
	(void)json_int(json_get(a, "size"), 0, 1L << 62, &size);
	(void)json_int(json_get(a, "inline"), 0, 1L << 62, &n);
	(void)json_bool(json_get(a, "cut"), &cut);
	r->files_cut |= cut;
	buf_init(&head, 2 * PART_MAX);
	artifact_head(&head, a, size);
	if (!buf_ok(&head) || r->artifacts.len + head.len + TAIL > r->left) {
		buf_free(&head);
		r->more++;
		return 0;
	}
	buf_puts(&r->artifacts, r->artifacts.len > 0 ? "," : "");
	buf_put(&r->artifacts, head.data, head.len);
	buf_free(&head);
	r->open = true;
	r->cut_here = n < size && json_type(json_get(a, "link")) == JSON_NONE;
	r->b64 = (struct base64){ .n = 0 };
	r->files++;
	shown[json_piece(name, &at, shown, sizeof(shown) - 1)] = '\0';
	buf_printf(&r->names, "%s%s (%ld)", r->files > 1 ? ", " : "", shown,
	    size);
	return 0;
}

static void
content(struct job_result *r, const char *data, size_t len)
{
	/* Four characters for three bytes; names may follow. */
	size_t used = r->artifacts.len + r->room / 16 + TAIL;
	size_t fits = r->left > used ? (r->left - used) / 4 * 3 : 0;

	if (r->reading) {
		fits = buf_room(&r->out[0]);
		buf_put(&r->out[0], data, len < fits ? len : fits);
		return;
	}
	if (!r->open)
		return;
	if (len > fits) {
		len = fits;
		r->cut_here = r->files_cut = r->files_bad = true;
	}
	base64_encode(&r->b64, data, len, &r->artifacts);
}

/* --- state --------------------------------------------------------------- */

static void
state(struct job_result *r, struct json s)
{
	static const char *const streams[] = { "stdout", "stderr" };
	struct json end = json_get(s, "end");

	(void)json_int(json_get(s, "size"), 0, 1L << 62, &r->size);
	(void)json_str(json_get(s, "state"), r->state, sizeof(r->state));
	for (int i = 0; i < 2; i++) {
		(void)json_int(json_get(s, streams[i]), 0, 1L << 62,
		    &r->total[i]);
		(void)json_int(json_get(end, streams[i]), 0, 1L << 62,
		    &r->total[i]);
	}
	(void)json_str(json_get(end, "why"), r->why, sizeof(r->why));
	(void)json_int(json_get(end, "exit_code"), 0, 255, &r->exit_code);
	(void)json_int(json_get(end, "duration_ms"), 0, 1L << 40,
	    &r->duration_ms);
	(void)json_bool(json_get(end, "oom"), &r->oom);
	if (json_str(json_get(end, "message"), r->message,
	    sizeof(r->message)))
		utf8_clean(r->message, true);
}

static int
json_record(struct job_result *r, char type)
{
	struct error err;
	struct json_doc *doc;
	int ret = 0;

	if (!buf_ok(&r->part) || r->part.data == NULL)
		return -1;
	doc = json_parse_lax(r->part.data, r->part.len, &err);
	if (doc == NULL)
		return -1;
	if (type == 'S')
		state(r, json_root(doc));
	else
		ret = artifact(r, json_root(doc));
	json_free(doc);
	return ret;
}

static int
record(void *arg, char type, const char *data, size_t len, bool last)
{
	struct job_result *r = arg;
	size_t n;
	int ret = 0;

	if (type != 'D')
		close_artifact(r);
	if (type == 'A' || type == 'X' || type == 'Z')
		outputs_fit(r);
	switch (type) {
	case 'O':
	case 'E': {
		struct buf *b = &r->out[type == 'E'];

		/* Its place is before the artifacts. */
		if (r->fitted)
			break;
		n = buf_room(b) < len ? buf_room(b) : len;
		buf_put(b, data, n);
		break;
	}
	case 'D':
		content(r, data, len);
		break;
	case 'A':
	case 'S':
	case 'P':
	case 'X':
		buf_put(&r->part, data, len);
		if (!last)
			return 0;
		if (type == 'X' && r->part.data != NULL)
			r->more += strtol(r->part.data, NULL, 10);
		if (type == 'P' && r->part.data != NULL) {
			(void)snprintf(r->line, sizeof(r->line), "%.*s",
			    JOB_LINE, r->part.data);
			utf8_clean(r->line, true);
			r->told = true;
		}
		if (type == 'A' || type == 'S')
			ret = json_record(r, type);
		buf_reset(&r->part, 4096);
		break;
	default:
		break;
	}
	return ret;
}

int
job_result_feed(struct job_result *r, const char *data, size_t len,
    struct error *err)
{
	return jobwire_feed(&r->wire, data, len, record, r, err);
}

/* --- what it means ------------------------------------------------------- */

static void
say(struct job_result *r, const char *status, const char *reason,
    const char *message)
{
	(void)snprintf(r->status, sizeof(r->status), "%s", status);
	(void)snprintf(r->reason, sizeof(r->reason), "%s", reason);
	if (message != NULL)
		(void)snprintf(r->message, sizeof(r->message), "%s", message);
}

void
job_result_fail(struct job_result *r, const char *reason, const char *message)
{
	say(r, "error", reason, message);
	r->exit_code = -1;
}

/* The runner is gone without a word: the pod's word counts. */
static void
judge_dead(struct job_result *r, const struct job_pod *pod)
{
	if (pod->oom) {
		say(r, "failed", "oom_killed", "it was killed for using more "
		    "memory than its limit");
		r->exit_code = pod->exit_code;
	} else if (pod->broken) {
		job_result_fail(r, pod->reason, pod->message);
	} else if (pod->main_ended && !pod->deleting) {
		say(r, "failed", "", "its container was killed");
		r->exit_code = pod->exit_code;
	} else {
		job_result_fail(r, "deleted", "its pod was deleted");
	}
}

void
job_result_judge(struct job_result *r, const struct job_pod *pod,
    long timeout_s)
{
	char text[80];

	if (strcmp(r->state, "ended") != 0) {
		judge_dead(r, pod);
	} else if (strcmp(r->why, "exit") == 0) {
		say(r, r->exit_code == 0 ? "succeeded" : "failed",
		    r->oom || pod->oom ? "oom_killed" : "",
		    !r->oom && !pod->oom ? NULL : "a process of it was killed "
		    "for using more memory than the limit");
	} else if (strcmp(r->why, "timeout") == 0) {
		(void)snprintf(text, sizeof(text), "it was ended after its "
		    "%ld s", timeout_s);
		say(r, "timeout", "", timeout_s > 0 ? text : "its time was "
		    "over");
		r->exit_code = -1;
	} else if (strcmp(r->why, "stopped") == 0) {
		job_result_fail(r, "cancelled", "it was cancelled");
	} else if (strcmp(r->why, "terminated") == 0) {
		job_result_fail(r, pod->broken ? pod->reason : "deleted",
		    pod->broken ? pod->message : "its pod was deleted");
	} else {
		job_result_fail(r, "start_error", NULL);
	}
}

/* --- writing ------------------------------------------------------------- */

void
job_result_write(struct jsonw *w, const char *key, struct job_result *r)
{
	static const char *const streams[] = { "stdout", "stderr" };
	bool cut;

	outputs_fit(r);
	close_artifact(r);
	cut = r->files_cut || r->more > 0 || !buf_ok(&r->artifacts);
	jsonw_object(w, key);
	jsonw_int(w, "exit_code", r->exit_code);
	for (int i = 0; i < 2; i++)
		jsonw_bytes(w, streams[i], r->out[i].data == NULL ? "" :
		    r->out[i].data, r->out[i].len);
	jsonw_int(w, "duration_ms", r->duration_ms);
	jsonw_str(w, "status", r->status);
	jsonw_str(w, "reason", r->reason);
	jsonw_str(w, "message", r->message);
	jsonw_array(w, "artifacts");
	if (r->artifacts.len > 0 && buf_ok(&r->artifacts))
		jsonw_raw(w, NULL, r->artifacts.data, r->artifacts.len);
	/* The message holds it twice more; once less is a third of it. */
	buf_free(&r->artifacts);
	jsonw_end(w);
	jsonw_int(w, "artifacts_omitted", r->more);
	jsonw_object(w, "truncated");
	for (int i = 0; i < 2; i++)
		jsonw_bool(w, streams[i], r->total[i] > (long)r->out[i].len);
	jsonw_bool(w, "artifacts", cut);
	jsonw_end(w);
	jsonw_end(w);
}

void
job_result_text(struct buf *out, struct job_result *r)
{
	struct excerpt *x = excerpt_open(TEXT_CHARS);
	struct excerpt_totals t;

	buf_printf(out, "%s%s%s%s", r->status, r->reason[0] != '\0' ? " (" :
	    "", r->reason, r->reason[0] != '\0' ? ")" : "");
	if (r->exit_code >= 0)
		buf_printf(out, ", exit code %ld", r->exit_code);
	if (r->message[0] != '\0')
		buf_printf(out, ": %s", r->message);
	for (int i = 0; i < 2 && x != NULL; i++)
		(void)excerpt_put(x, i, r->out[i].data, r->out[i].len);
	for (int i = 0; i < 2 && x != NULL; i++) {
		if (r->out[i].len == 0)
			continue;
		buf_puts(out, i == 0 ? "\nstdout:\n" : "\nstderr:\n");
		excerpt_text(x, i, out, &t);
	}
	if (r->files > 0)
		buf_printf(out, "\nartifacts (bytes): %s", buf_ok(&r->names) ?
		    r->names.data : "many");
	excerpt_close(x);
}
