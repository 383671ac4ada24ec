/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files by the runtime's own REST interface (contract: agent-sandbox 3.5,
 * 3.6, 6.4). sandboxd writes atomically itself. The legacy runtime does not,
 * and takes names in a multipart head that would bend some: it is sent a part
 * with a plain name, which a script then puts in place.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "budget.h"
#include "env.h"
#include "fileop-back.h"
#include "jsonw.h"
#include "link.h"
#include "mono.h"
#include "path.h"
#include "web.h"

#define BOUNDARY	"----mcp-sandbox-3f9a1c"

bool
fileop_rest_can(const struct fileop *f)
{
	enum runtime runtime = f->link->runtime;

	if (runtime == RUNTIME_AGENT)
		return true;
	if (runtime == RUNTIME_NONE || f->link->rest.url[0] == '\0')
		return false;
	switch (f->req.verb) {
	case FILEOP_STAT:
	case FILEOP_MOVE:
		return false;
	case FILEOP_DELETE:
		return runtime == RUNTIME_SANDBOXD;
	default:
		return true;
	}
}

/* --- what is sent -------------------------------------------------------- */

static long
give(void *arg, char *dst, size_t size)
{
	struct fileop *f = arg;
	const struct fileop_source *source = f->req.source;
	const struct { const char *data; size_t len; } parts[] = {
		{ f->head.data, f->head.len }, { f->req.data.data, f->size },
		{ f->tail.data, f->tail.len } };
	size_t at = f->sent, n;
	long got;

	for (size_t i = 0; i < 3; i++) {
		if (at >= parts[i].len) {
			at -= parts[i].len;
			continue;
		}
		n = parts[i].len - at;
		n = n < size ? n : size;
		if (i == 1 && source != NULL) {
			if ((got = source->give(source->arg, dst, n)) <= 0)
				return -1;
			n = (size_t)got;
		} else {
			memcpy(dst, parts[i].data + at, n);
		}
		f->sent += n;
		return (long)n;
	}
	return 0;
}

static void
multipart(struct fileop *f)
{
	buf_printf(&f->head, "--" BOUNDARY "\r\nContent-Disposition: "
	    "form-data; name=\"file\"; filename=\"%s\"\r\nContent-Type: "
	    "application/octet-stream\r\n\r\n", f->part);
	buf_puts(&f->tail, "\r\n--" BOUNDARY "--\r\n");
}

/* The query of what only the agent has, and the method. */
static const char *
aim_agent(const struct fileop *f, struct buf *url)
{
	switch (f->req.verb) {
	case FILEOP_STAT:
		if (f->step != STEP_DIGEST)
			buf_puts(url, "?stat=1");
		return "GET";
	case FILEOP_WRITE:
		if (f->req.offset == FILEOP_END)
			buf_puts(url, "?append=1");
		else if (f->req.offset != FILEOP_WHOLE)
			buf_printf(url, "?offset=%ld", f->req.offset);
		return "PUT";
	case FILEOP_MOVE:
		return "POST";
	case FILEOP_DELETE:
		if (f->req.all)
			buf_puts(url, "?recursive=true");
		return "DELETE";
	case FILEOP_EXISTS:
		return "HEAD";
	default:
		return "GET";
	}
}

/* Path and query of the request, and its method. */
static const char *
aim(struct fileop *f, struct buf *url)
{
	static const char *const legacy[] = {
		[FILEOP_READ] = "/download/", [FILEOP_LIST] = "/list/",
		[FILEOP_EXISTS] = "/exists/",
	};
	const char *path = f->req.path;

	if (f->link->runtime == RUNTIME_LEGACY) {
		if (f->req.verb == FILEOP_WRITE) {
			buf_puts(url, "/upload");
			return "POST";
		}
		buf_puts(url, legacy[f->req.verb]);
		path_escape(url, path[0] == '/' ? path + 1 : path, true);
		return "GET";
	}
	buf_puts(url, "/v1/files/");
	/* A router may take two slashes in a row for one. */
	if (path[0] == '/' && f->link->router != NULL)
		path++;
	path_escape(url, f->step == STEP_PART ? f->part : path, false);
	if (f->link->runtime == RUNTIME_AGENT)
		return aim_agent(f, url);
	if (f->req.verb == FILEOP_DELETE && f->req.all)
		buf_puts(url, "?recursive=true");
	if (f->step == STEP_SIZE || f->req.verb == FILEOP_EXISTS)
		return f->no_head ? "GET" : "HEAD";
	return f->req.verb == FILEOP_WRITE ? "PUT" :
	    f->req.verb == FILEOP_DELETE ? "DELETE" : "GET";
}

/* Where to move it. */
static void
target(struct fileop *f)
{
	struct jsonw w;

	jsonw_init(&w, &f->head);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "to", f->req.to);
	jsonw_bool(&w, "overwrite", f->req.all);
	jsonw_end(&w);
}

static void on_reply(void *arg, const struct event *ev);

static void
body(struct fileop *f, struct web_req *req, const char **fields)
{
	bool legacy = f->link->runtime == RUNTIME_LEGACY;

	if (f->req.verb == FILEOP_MOVE)
		target(f);
	else if (f->step == STEP_SIZE || f->req.verb != FILEOP_WRITE)
		return;
	if (legacy)
		multipart(f);
	fields[0] = f->req.verb == FILEOP_MOVE ?
	    "Content-Type: application/json" : legacy ?
	    "Content-Type: multipart/form-data; boundary=" BOUNDARY :
	    "Content-Type: application/octet-stream";
	f->sent = 0;
	if (f->req.source != NULL)
		f->req.source->rewind(f->req.source->arg);
	req->give = give;
	req->give_arg = f;
	req->give_length = (long)(f->head.len + f->size + f->tail.len);
}

static void
begin(struct fileop *f)
{
	bool legacy = f->link->runtime == RUNTIME_LEGACY;

	f->answered = false;
	f->skip = 0;
	buf_reset(&f->text, 0);
	if (f->step == STEP_FIND && f->link->runtime == RUNTIME_AGENT)
		f->step = STEP_REST;
	else if (f->step == STEP_FIND)
		f->step = f->req.verb == FILEOP_WRITE && (legacy ||
		    f->req.offset != FILEOP_WHOLE) ? STEP_PART : STEP_REST;
	if (f->req.verb == FILEOP_LIST)
		listing_json(&f->list, legacy ? 1 : 2, f->req.entry, f->arg);
}

void
fileop_rest(struct fileop *f)
{
	char range[80];
	const char *fields[4] = { NULL };
	struct web_req req = { .headers = fields, .stream = true,
	    .first_byte_ms = -1, .total_ms = fileop_left_ms(f) };
	struct link_aim a = { .timeout = "" };
	struct error err;
	struct buf url;

	buf_init(&url, 16 * LIMIT_PATH);
	begin(f);
	req.method = aim(f, &url);
	body(f, &req, fields);
	if (f->req.verb == FILEOP_READ) {
		(void)snprintf(range, sizeof(range), "Range: bytes=%ld-%ld",
		    f->req.offset, f->req.offset + f->req.length - 1);
		fields[0] = range;
	} else if (f->no_head) {
		fields[0] = "Range: bytes=0-0";
	}
	f->asked_ms = mono_ms();
	if (!buf_ok(&url))
		error_set(&err, ERR_SYSTEM, "out of memory");
	else if (link_aim(&a, f->link, url.data, req.total_ms, &req, &err) ==
	    0)
		f->web = web_send(f->env->web, &req, on_reply, f, &err);
	link_unaim(&a);
	buf_free(&url);
	if (f->web == NULL)
		fileop_fail(f, &err);
}

/* --- what comes back ----------------------------------------------------- */

static bool
is_json(const struct fileop *f)
{
	return strncmp(web_field(f->web, "Content-Type"), "application/json",
	    16) == 0;
}

/* The file's, whatever part of it the answer holds; 0: it does not say. */
static long
whole_size(const struct fileop *f, long status)
{
	const char *p = web_field(f->web, "Content-Range");

	if (status != 206 && status != 416)
		return strtol(web_field(f->web, "Content-Length"), NULL, 10);
	p = strchr(p, '/');
	return p == NULL ? 0 : strtol(p + 1, NULL, 10);
}

/* What the head says; -1: no use to read on. */
static int
look(struct fileop *f, long status, struct error *err)
{
	bool sandboxd = f->link->runtime != RUNTIME_LEGACY;

	f->answered = true;
	if (status < 200 || status > 299)
		return 0;
	if (f->req.verb == FILEOP_LIST && sandboxd && !is_json(f))
		return error_set(err, ERR_CONFLICT, "'%.200s' is not a "
		    "directory", f->req.path);
	if (f->req.verb != FILEOP_READ)
		return 0;
	if (sandboxd && status == 200 && is_json(f))
		return fileop_folder(f, err);
	/* All of it, as somebody in between may do? */
	if (status != 206)
		f->skip = f->req.offset;
	f->result.size = whole_size(f, status);
	return 0;
}

static int
data(struct fileop *f, const struct event *ev, struct error *err)
{
	size_t n;

	if (!f->answered && look(f, ev->status, err) == -1)
		return -1;
	if (f->step == STEP_DIGEST) {
		digest_put(&f->digest, ev->data, ev->len);
	} else if (ev->status < 200 || ev->status > 299 ||
	    f->req.verb == FILEOP_EXISTS || f->req.verb == FILEOP_STAT) {
		n = buf_room(&f->text);
		buf_put(&f->text, ev->data, ev->len < n ? ev->len : n);
	} else if (f->req.verb == FILEOP_READ) {
		fileop_take(f, ev->data, ev->len);
	} else if (f->req.verb == FILEOP_LIST) {
		return listing_feed(&f->list, ev->data, ev->len, err);
	}
	return 0;
}

static int
read_end(struct fileop *f, long status, struct error *err)
{
	long want;

	if (status == 416)
		f->result.size = whole_size(f, status);
	if (f->req.offset > f->result.size)
		return error_set(err, ERR_INPUT, "offset %ld is beyond the "
		    "end of '%.200s', which has %ld bytes", f->req.offset,
		    f->req.path, f->result.size);
	want = f->result.size - f->req.offset;
	if (want > f->req.length)
		want = f->req.length;
	if (f->got != want)
		return error_set(err, ERR_LOST, "%ld of %ld bytes arrived",
		    f->got, want);
	return 0;
}

static int
exists_end(struct fileop *f, struct error *err)
{
	struct json_doc *doc;

	f->result.exists = true;
	if (f->link->runtime != RUNTIME_LEGACY)
		return 0;
	doc = json_parse_lax(f->text.data != NULL ? f->text.data : "",
	    f->text.len, err);
	if (doc == NULL)
		return error_wrap(err, "answer of the sandbox");
	f->result.exists = false;
	(void)json_bool(json_get(json_root(doc), "exists"), &f->result.exists);
	json_free(doc);
	return 0;
}

/* What the agent says of what it wrote. */
static int
write_end(struct fileop *f, struct error *err)
{
	if (f->link->runtime != RUNTIME_AGENT)
		return 0;
	f->result.size = strtol(web_field(f->web, "X-Size"), NULL, 10);
	f->result.compared = strcmp(web_field(f->web, "X-SHA256"),
	    f->result.sha256) == 0;
	return f->result.compared ? 0 : error_set(err, ERR_LOST, "other bytes "
	    "than those sent arrived (SHA-256 differs)");
}

static int
stat_end(struct fileop *f, struct error *err)
{
	struct json_doc *doc;
	long mode = 0;

	if (f->step == STEP_DIGEST) {
		digest_end(&f->digest, f->result.sha256);
		return 0;
	}
	doc = json_parse_lax(f->text.data != NULL ? f->text.data : "",
	    f->text.len, err);
	if (doc == NULL)
		return error_wrap(err, "answer of the agent");
	(void)json_int(json_get(json_root(doc), "mode"), 0, UINT_MAX, &mode);
	(void)json_int(json_get(json_root(doc), "size"), 0, LONG_MAX,
	    &f->result.size);
	(void)json_int(json_get(json_root(doc), "modified"), LONG_MIN,
	    LONG_MAX, &f->result.modified);
	json_free(doc);
	f->result.mode = (unsigned)mode & 07777;
	f->result.type = S_ISREG(mode) ? "file" : S_ISDIR(mode) ?
	    "directory" : S_ISLNK(mode) ? "symlink" : "other";
	return 0;
}

/* The original's agent, and whatever else may answer there. */
static bool
is_ours(const struct fileop *f, const struct event *ev)
{
	static const char name[] = "mcp-sandbox-agent/";

	return f->link->runtime != RUNTIME_AGENT || ev->err != NULL ||
	    strncmp(web_field(f->web, "Server"), name, sizeof(name) - 1) == 0;
}

/* The legacy runtime says the same of a directory. */
static void
not_there(const struct fileop *f, struct error *err)
{
	if (f->link->runtime == RUNTIME_AGENT)
		error_set(err, ERR_GONE, "'%.200s' is not there", f->req.path);
	else if (f->req.verb == FILEOP_READ &&
	    strstr(err->text, "File not found") != NULL)
		error_set(err, ERR_GONE, "'%.200s' is no file: it is not "
		    "there, or a directory, which a command can pack "
		    "(tar -cf FILE -C DIRECTORY .)", f->req.path);
}

static int
conclude(struct fileop *f, const struct event *reply, struct error *err)
{
	struct event ev = *reply;

	if (!f->answered && ev.err == NULL && look(f, ev.status, err) == -1)
		return -1;
	ev.data = f->text.data != NULL ? f->text.data : "";
	ev.len = f->text.len;
	if (!is_ours(f, &ev))
		return error_set(err, ERR_CLUSTER, "the agent in the session's "
		    "pod has no file operations: use bash");
	if (ev.err == NULL && ev.status == 404 && f->req.verb == FILEOP_EXISTS)
		return 0;
	if (ev.err == NULL && ev.status == 416 && f->req.verb == FILEOP_READ)
		return read_end(f, 416, err);
	if (ev.err == NULL && ev.status == 416 && f->no_head)
		ev.status = 206;	/* of an empty file */
	if (ev.err != NULL || ev.status < 200 || ev.status > 299) {
		link_explain(f->link, &ev, mono_ms() - f->asked_ms, err);
		if (ev.status == 404)
			not_there(f, err);
		return -1;
	}
	if (f->step == STEP_SIZE) {
		f->result.size = whole_size(f, ev.status);
		return f->result.size == (long)f->size ? 0 : error_set(err,
		    ERR_LOST, "not all %zu bytes arrived", f->size);
	}
	if (f->req.verb == FILEOP_READ)
		return read_end(f, ev.status, err);
	if (f->req.verb == FILEOP_STAT)
		return stat_end(f, err);
	if (f->req.verb == FILEOP_WRITE)
		return write_end(f, err);
	if (f->req.verb == FILEOP_EXISTS)
		return exists_end(f, err);
	return f->req.verb == FILEOP_LIST ? listing_end(&f->list, err) : 0;
}

/* One broken link, and the legacy runtime lists nothing at all. */
static bool
list_by_script(struct fileop *f, const struct event *ev)
{
	if (f->req.verb != FILEOP_LIST || ev->err != NULL ||
	    ev->status != 500 || f->link->runtime != RUNTIME_LEGACY)
		return false;
	listing_free(&f->list);
	f->web = NULL;
	fileop_script(f);
	return true;
}

/* The Python router knows no HEAD. */
static bool
without_head(struct fileop *f, const struct event *ev)
{
	if (ev->err != NULL || ev->status != 405 || f->no_head ||
	    (f->step != STEP_SIZE && f->req.verb != FILEOP_EXISTS))
		return false;
	f->no_head = true;
	f->web = NULL;
	fileop_rest(f);
	return true;
}

/* The SHA-256 too: the file comes along here, and is not kept. */
static bool
digest(struct fileop *f)
{
	if (f->req.verb != FILEOP_STAT || f->step == STEP_DIGEST ||
	    !f->req.all || strcmp(f->result.type, "file") != 0)
		return false;
	f->step = STEP_DIGEST;
	digest_begin(&f->digest);
	fileop_rest(f);
	return true;
}

static void
on_reply(void *arg, const struct event *ev)
{
	struct fileop *f = arg;
	struct error err = { ERR_NONE, "" };
	int r;

	if (ev->type == EVENT_DATA) {
		if (data(f, ev, &err) == 0)
			return;
		web_cancel(f->web);
		f->web = NULL;
		fileop_fail(f, &err);
		return;
	}
	if (ev->type != EVENT_REPLY)
		return;
	if (without_head(f, ev) || list_by_script(f, ev))
		return;
	r = conclude(f, ev, &err);
	f->web = NULL;
	if (r == -1)
		fileop_finish(f, &err);
	else if (f->req.verb == FILEOP_WRITE && f->step != STEP_SIZE &&
	    f->link->runtime != RUNTIME_AGENT)
		fileop_script(f);
	else if (!digest(f))
		fileop_finish(f, NULL);
}
