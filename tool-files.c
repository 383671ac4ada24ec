/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upload_file, download_file, list_files, file_exists, stat_file, delete_file,
 * move_file: each one GET of the claim, or the search for the session's pod,
 * then one operation of fileop.h.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "base64.h"
#include "buf.h"
#include "call.h"
#include "config.h"
#include "content.h"
#include "digest.h"
#include "encoded.h"
#include "env.h"
#include "error.h"
#include "fileop.h"
#include "handle.h"
#include "jsonw.h"
#include "lease.h"
#include "path.h"
#include "session.h"
#include "stash.h"
#include "tools-sandbox.h"
#include "utf8.h"

enum {
	SHORT_MS = 60 * 1000,	/* for what needs no argument for it */
	SLACK_MS = 60 * 1000,	/* finding the way in, ending, telling */
	PIECE = 16 * 1024
};

/* One operation under way. */
struct file_call {
	struct handle h;
	bool own;			/* the pod of the caller's session */
	struct lease lease;
	struct fileop *op;
	struct fileop_req req;
	char *path, *to;		/* what req borrows */
	struct content content;		/* WRITE: one too long for memory */
	struct fileop_source source;
	struct buf entries;		/* LIST: as they come */
	struct jsonw w;
	long total, most;		/* LIST */
	struct encoded encoded;		/* READ: as base64 */
	bool ranged;			/* READ: a part was asked for */
	enum { AS_DETECTED, AS_TEXT, AS_BASE64 } as;
};

/* No claim can have this name. */
#define OWN	"@bash"
#define FILE_ARGS							\
	{ "sandbox_claim_name", ARG_STRING, ARG_REQUIRED, .help = NULL }, \
	{ "namespace", ARG_STRING, ARG_REQUIRED, .help = NULL }
#define PATH_ARG(text)							\
	{ "path", ARG_STRING, ARG_REQUIRED, 0, 0, .help = text }
#define TIMEOUT_ARG							\
	{ "timeout", ARG_INT, ARG_ABOVE, 0, 600, "60", .help = NULL }

/* --- all of them ---------------------------------------------------------- */

/* The path called name, in normal form, in *dst. */
static int
path_arg(struct json args, const char *name, bool root, char **dst,
    struct error *err)
{
	if ((*dst = malloc(PATH_SIZE)) == NULL)
		return error_sys(err, name);
	if (path_read(name, json_get(args, name), *dst, err) == -1)
		return -1;
	if (!root && path_is_root(*dst))
		return error_set(err, ERR_INPUT, "%s '%s' does not name a "
		    "file.", name, *dst);
	return 0;
}

/* What is to be done is known; what remains is to find the sandbox. */
static int
prepare(struct call *c, struct json args, enum fileop_verb verb,
    struct error *err)
{
	const struct env *env = c->env;
	struct file_call *f = c->data;
	bool root = verb == FILEOP_LIST || verb == FILEOP_EXISTS ||
	    verb == FILEOP_STAT;

	f->req.verb = verb;
	if (verb < FILEOP_STAT || verb == FILEOP_EXISTS)
		f->req.timeout_ms = tools_int(c->tool, args, "timeout") * 1000;
	else
		f->req.timeout_ms = SHORT_MS;
	call_deadline(c, f->req.timeout_ms + SLACK_MS);
	if (path_arg(args, "path", root, &f->path, err) == -1)
		return -1;
	f->req.path = f->path;
	f->h.enter = true;
	f->own = json_is(json_get(args, "sandbox_claim_name"), OWN);
	/* It would be made if it is not there. */
	if (f->own && (env->config->read_only || env->config->dry_run))
		return error_set(err, ERR_INPUT, OWN ": this server makes "
		    "nothing, so there is no pod of bash");
	if (!f->own)
		return handle_check(c, args, &f->h, err);
	call_deadline(c, LIMIT_POD_MS + f->req.timeout_ms + SLACK_MS);
	return lease_check(c->env, err);
}

/* All that was given is good: find the sandbox. */
static enum step
find(struct call *c, struct error *err)
{
	struct file_call *f = c->data;

	if (!f->own)
		return handle_send(c, &f->h, err) == -1 ? STEP_FAIL :
		    STEP_WAIT;
	if (lease_find(&f->lease, c->env, false, call_event, c) == 0)
		return STEP_WAIT;
	error_set(err, ERR_SYSTEM, "out of memory");
	return STEP_FAIL;
}

static enum step
begin(struct call *c, struct json args, enum fileop_verb verb,
    struct error *err)
{
	return prepare(c, args, verb, err) == -1 ? STEP_FAIL : find(c, err);
}

/* The claim is there: go on to the files of its sandbox. */
static enum step
start_op(struct call *c, const struct event *ev, struct error *err)
{
	struct file_call *f = c->data;
	struct claim claim;

	if (f->own) {
		lease_take(&f->lease);
		f->req.agent = agent_port(f->lease.agent);
		f->req.token = session_token(f->lease.session);
	} else if (handle_ready(c, ev, &f->h, &claim, err) == -1) {
		return STEP_FAIL;
	} else {
		f->req.namespace = f->h.namespace;
		f->req.sandbox = claim.sandbox;
		f->req.address = claim.address;
		f->req.claim = claim.uid;
		f->req.known = f->h.known;
	}
	if (f->req.take != NULL) {
		encoded_free(&f->encoded);
		encoded_begin(&f->encoded,
		    ((const struct env *)c->env)->stash);
	}
	f->op = fileop_start(c->env, &f->req, call_event, c);
	buf_init(&f->req.data, 0);	/* the operation's now */
	if (f->op != NULL)
		return STEP_WAIT;
	error_set(err, ERR_SYSTEM, "out of memory");
	return STEP_FAIL;
}

/* The search for the session's pod. */
static enum step
on_found(struct call *c, const struct event *ev, struct error *err)
{
	struct file_call *f = c->data;

	if (ev->type == EVENT_DATA)
		call_progress(c, "%s", ev->data);
	if (ev->type != EVENT_END)
		return STEP_WAIT;
	if (c->state == CALL_STOPPING) {
		f->lease.find = NULL;
		return STEP_DONE;
	}
	if (ev->err == NULL)
		return start_op(c, ev, err);
	f->lease.find = NULL;
	*err = *ev->err;
	return STEP_FAIL;
}

/*
 * What was known of the claim was not so? Nothing was done then. What was to
 * be written is gone, but for a file's (content.h).
 */
static bool
again(struct call *c, const struct error *err)
{
	struct file_call *f = c->data;

	if (!handle_over(c, &f->h, err))
		return false;
	if (f->req.verb == FILEOP_WRITE && f->req.source == NULL &&
	    f->h.doubt.code == ERR_NONE)
		error_set(&f->h.doubt, ERR_LOST, "%s; nothing was written: "
		    "try again", err->text);
	return true;
}

/*
 * The next step of any of them: STEP_WAIT to wait for more, STEP_DONE when
 * *r holds the result.
 */
static enum step
go_on(struct call *c, const struct event *ev, const char *what,
    struct fileop_result **r, struct error *err)
{
	struct file_call *f = c->data;

	if (f->lease.find != NULL)
		return on_found(c, ev, err);
	if (ev->type == EVENT_REPLY)
		return start_op(c, ev, err);
	if (ev->type != EVENT_END)
		return STEP_WAIT;
	*r = fileop_result(f->op);
	f->op = NULL;
	if (ev->err == NULL && !f->own)
		(void)handle_over(c, &f->h, NULL);
	if (c->state == CALL_STOPPING || ev->err == NULL)
		return STEP_DONE;
	*err = *ev->err;
	if (!f->own && again(c, err))
		return STEP_WAIT;
	if (f->own && err->code == ERR_DENIED)
		session_distrust(f->lease.session);
	error_wrap(err, "Failed to %s sandbox", what);
	return STEP_FAIL;
}

static enum step
file_stop(struct call *c)
{
	struct file_call *f = c->data;

	if (f->op == NULL)
		return lease_stop(&f->lease) ? STEP_WAIT : STEP_DONE;
	fileop_stop(f->op);
	return STEP_WAIT;
}

static void
file_release(struct call *c)
{
	struct file_call *f = c->data;

	handle_close(&f->h);
	fileop_close(f->op);
	lease_drop(&f->lease);
	content_close(&f->content);
	encoded_free(&f->encoded);
	buf_free(&f->req.data);
	buf_free(&f->entries);
	free(f->path);
	free(f->to);
}

/* All rows have the same ends. */
#define FILE_ROW							\
	.family = "agent-sandbox", .size = sizeof(struct file_call),	\
	.stop = file_stop, .release = file_release

/* --- upload_file ---------------------------------------------------------- */

static const struct arg upload_args[] = {
	FILE_ARGS,
	PATH_ARG(NULL),
	{ "content", ARG_STRING, ARG_REQUIRED | ARG_LONG, .help = NULL },
	{ "binary", ARG_BOOL, 0, 0, 0, "false", .help =
	    "content is base64." },
	{ "offset", ARG_INT, ARG_NULL | ARG_TERSE, -1, INT64_MAX, NULL,
	    .help = "Write into the file there; -1: at its end." },
	TIMEOUT_ARG,
	{ NULL }
};

static const struct arg upload_out[] = {
	{ "bytes_written", ARG_INT, ARG_REQUIRED, .help = NULL },
	{ "size", ARG_INT, ARG_REQUIRED, .help = NULL },
	{ "sha256", ARG_STRING, ARG_REQUIRED, .help = NULL },
	{ "verified", ARG_STRING, ARG_REQUIRED, .help = NULL },
	{ NULL }
};

static int
undecodable(struct error *err)
{
	return error_wrap(err, "Failed to decode or encode content");
}

/* Into req.data, piece by piece, so that it is never there a second time. */
static int
content(struct file_call *f, struct json v, bool binary, struct error *err)
{
	char piece[PIECE];
	struct base64 b = { .n = 0 };
	size_t at = 0, n;

	n = json_bytes(v);
	buf_init(&f->req.data, binary ? n / 4 * 3 + 3 : n);
	while ((n = json_piece(v, &at, piece, sizeof(piece))) > 0)
		if (!binary)
			buf_put(&f->req.data, piece, n);
		else if (base64_decode(&b, piece, n, &f->req.data, err) == -1)
			return undecodable(err);
	if (binary && base64_decode_end(&b, err) == -1)
		return undecodable(err);
	if (!buf_ok(&f->req.data))
		return error_set(err, ERR_SYSTEM, "out of memory");
	f->most = (long)f->req.data.len;
	return 0;
}

static enum step
upload_start(struct call *c, struct json args, struct error *err)
{
	struct file_call *f = c->data;
	struct json v = json_get(args, "content");
	bool binary = tools_bool(c->tool, args, "binary");

	f->req.offset = tools_has(args, "offset") ?
	    tools_int(c->tool, args, "offset") : FILEOP_WHOLE;
	if (json_far(v) == NULL)
		return content(f, v, binary, err) == -1 ? STEP_FAIL :
		    begin(c, args, FILEOP_WRITE, err);
	if (prepare(c, args, FILEOP_WRITE, err) == -1 ||
	    content_open(&f->content, c->spilled, json_far(v), binary ?
	    CONTENT_BASE64 : CONTENT_TEXT, true, err) == -1)
		return STEP_FAIL;
	call_timer(c, 0);
	return STEP_WAIT;
}

/* Nothing is begun before all of it is known to be good. */
static enum step
upload_measure(struct call *c, struct error *err)
{
	struct file_call *f = c->data;

	switch (content_measure(&f->content)) {
	case 1:
		call_timer(c, 0);
		return STEP_WAIT;
	case 0:
		break;
	default:
		*err = f->content.err;
		(void)undecodable(err);
		return STEP_FAIL;
	}
	f->most = (long)f->content.size;
	f->source = (struct fileop_source){ .size = f->content.size,
	    .sha256 = f->content.sha256, .give = content_give,
	    .rewind = content_rewind, .arg = &f->content };
	f->req.source = &f->source;
	return find(c, err);
}

static enum step
upload_next(struct call *c, const struct event *ev, struct error *err)
{
	const struct file_call *f = c->data;
	struct fileop_result *r = NULL;
	enum step step;
	struct jsonw w;

	if (ev->type == EVENT_TIMER)
		return upload_measure(c, err);
	step = go_on(c, ev, "write file to", &r, err);
	if (r == NULL || step != STEP_DONE)
		return step;
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_int(&w, "bytes_written", f->most);
	jsonw_int(&w, "size", r->size);
	jsonw_str(&w, "sha256", r->sha256);
	jsonw_str(&w, "verified", r->compared ? "sha256" : "size");
	jsonw_end(&w);
	return STEP_DONE;
}

const struct tool tool_upload_file = {
	.name = "upload_file", .title = "Write file",
	.help = "Write a file in a sandbox, whole or not at all; large ones in "
	    "pieces.",
	.args = upload_args, .out = upload_out, .hints = HINT_DESTRUCTIVE,
	.start = upload_start, .next = upload_next, FILE_ROW
};

/* --- download_file -------------------------------------------------------- */

static const struct arg download_args[] = {
	FILE_ARGS,
	PATH_ARG(NULL),
	{ "binary", ARG_BOOL, 0, 0, 0, "false", .help =
	    "Not given: see encoding." },
	{ "offset", ARG_INT, 0, 0, INT64_MAX, "0", .help = NULL },
	{ "length", ARG_INT, ARG_NULL | ARG_TERSE, 1, LIMIT_DOWNLOAD_LONG,
	    NULL, .help = NULL },
	TIMEOUT_ARG,
	{ NULL }
};

static const struct arg download_out[] = {
	{ "content", ARG_STRING, ARG_REQUIRED, .help = NULL },
	{ "bytes_read", ARG_INT, ARG_REQUIRED, .help = NULL },
	{ "encoding", ARG_STRING, ARG_REQUIRED, .help = NULL },
	{ "size", ARG_INT, ARG_REQUIRED, .help = NULL },
	{ "sha256", ARG_STRING, ARG_REQUIRED, .help = NULL },
	{ NULL }
};

/* Base64 goes to the client by way of the stash: where there is one, and where
 * the answer is no part of another message. */
static int
choose_way(struct call *c, struct error *err)
{
	const struct env *env = c->env;
	const struct error *why = stash_why(env->stash);
	struct file_call *f = c->data;
	bool can = f->as == AS_BASE64 && c->batch == NULL && why == NULL;

	if (can) {
		f->req.take = encoded_put;
		f->req.take_arg = &f->encoded;
	}
	if (can || f->req.length <= LIMIT_DOWNLOAD)
		return 0;
	(void)error_set(err, ERR_INPUT, "length: more than %ld bytes are read "
	    "with binary=true only", (long)LIMIT_DOWNLOAD);
	if (f->as == AS_BASE64)
		(void)error_set(err, ERR_INPUT, "length: more than %ld bytes "
		    "can't be read now: %.400s", (long)LIMIT_DOWNLOAD,
		    why != NULL ? why->text : "this is part of a batch");
	return -1;
}

static enum step
download_start(struct call *c, struct json args, struct error *err)
{
	struct file_call *f = c->data;

	f->ranged = tools_has(args, "length") ||
	    tools_int(c->tool, args, "offset") > 0;
	f->req.offset = tools_int(c->tool, args, "offset");
	f->req.length = tools_has(args, "length") ?
	    tools_int(c->tool, args, "length") : LIMIT_DOWNLOAD;
	f->as = !tools_has(args, "binary") ? AS_DETECTED :
	    tools_bool(c->tool, args, "binary") ? AS_BASE64 : AS_TEXT;
	return choose_way(c, err) == -1 ? STEP_FAIL :
	    begin(c, args, FILEOP_READ, err);
}

/*
 * Is it text? Then how many bytes of it: a character that a range cuts at
 * its end is left for the next one.
 */
static bool
is_text(const struct buf *b, bool more, size_t *len)
{
	const unsigned char *p = (const unsigned char *)b->data;
	const unsigned char *end = p + b->len;
	size_t n;

	for (; p < end; p += n) {
		n = utf8_ascii(p, end);
		if (n == 0 && (n = utf8_len(p, end)) == 0)
			break;
	}
	*len = b->len - (size_t)(end - p);
	if (p == end)
		return true;
	return more && *len > 0 && p + utf8_bad(p, end) == end;
}

/* Base64 goes straight into the result: its text needs no escaping. */
static void
write_content(struct jsonw *w, const struct buf *b, bool text, size_t len)
{
	struct base64 state = { .n = 0 };

	if (text) {
		jsonw_bytes(w, "content", len > 0 ? b->data : "", len);
		return;
	}
	jsonw_raw(w, "content", "\"", 1);
	base64_encode(&state, b->data, len, w->out);
	base64_encode_end(&state, w->out);
	buf_puts(w->out, "\"");
}

/* All after the content. */
static void
tell_rest(struct jsonw *w, long len, const char *encoding, long size,
    const char *sum)
{
	jsonw_int(w, "bytes_read", len);
	jsonw_str(w, "encoding", encoding);
	jsonw_int(w, "size", size);
	jsonw_str(w, "sha256", sum);
	jsonw_end(w);
}

/* It is base64 already; a long one never comes into memory. */
static enum step
encoded(struct call *c, long size, struct error *err)
{
	struct file_call *f = c->data;
	struct encoded *e = &f->encoded;
	struct jsonw w;

	if (encoded_end(e, err) == -1)
		return STEP_FAIL;
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_bytes(&w, "content", e->text.len > 0 ? e->text.data : "",
	    e->text.len);
	if (e->spilled != NULL) {
		c->far = spilled_hold(e->spilled);
		c->far_at = c->structured.len - 1;
	}
	tell_rest(&w, (long)e->size, "base64", size, e->sha256);
	return STEP_DONE;
}

static enum step
downloaded(struct call *c, struct fileop_result *r, struct error *err)
{
	const struct file_call *f = c->data;
	size_t len = r->data.len, chars = 0;
	bool far = f->req.take != NULL, more, text;
	char sum[65];
	struct jsonw w;

	more = f->req.offset + (long)(far ? f->encoded.size : len) < r->size;
	if (!f->ranged && more) {
		error_set(err, ERR_LIMIT, "File '%.200s' has %ld bytes, more "
		    "than the %ld of one answer: read it in pieces, with "
		    "offset and length", f->path, r->size,
		    (long)LIMIT_DOWNLOAD);
		return STEP_FAIL;
	}
	if (far)
		return encoded(c, r->size, err);
	text = len == 0 || is_text(&r->data, more, &chars);
	if (!text && f->as == AS_TEXT) {
		error_set(err, ERR_INPUT, "File at '%.200s' contains non-UTF-8 "
		    "bytes. Set binary=True to retrieve it as base64.",
		    f->path);
		return STEP_FAIL;
	}
	text = text && f->as != AS_BASE64;
	len = text ? chars : len;
	digest_hex(r->data.data, len, sum);
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	write_content(&w, &r->data, text, len);
	buf_free(&r->data);
	tell_rest(&w, (long)len, text ? "utf-8" : "base64", r->size, sum);
	return STEP_DONE;
}

static enum step
download_next(struct call *c, const struct event *ev, struct error *err)
{
	struct fileop_result *r = NULL;
	enum step step = go_on(c, ev, "read file from", &r, err);

	if (r == NULL || step != STEP_DONE || c->state == CALL_STOPPING)
		return step;
	return downloaded(c, r, err);
}

const struct tool tool_download_file = {
	.name = "download_file", .title = "Read file",
	.help = "Read a file of a sandbox, or a range of its bytes; size is "
	    "the whole file's.",
	.args = download_args, .out = download_out,
	.hints = HINT_READ_ONLY | HINT_IDEMPOTENT,
	.start = download_start, .next = download_next, FILE_ROW
};

/* --- list_files ----------------------------------------------------------- */

static const struct arg list_args[] = {
	FILE_ARGS,
	PATH_ARG(NULL),
	TIMEOUT_ARG,
	{ "max_entries", ARG_INT, ARG_ABOVE, 0, 10000, "1000", .help = NULL },
	{ NULL }
};

static const char *const entry_types[] = { "file", "directory", NULL };

static const struct arg entry_out[] = {
	{ "name", ARG_STRING, ARG_REQUIRED, .help = NULL },
	{ "size", ARG_INT, ARG_REQUIRED, .help = NULL },
	{ "type", ARG_STRING, ARG_REQUIRED, .one_of = entry_types,
	    .help = NULL },
	{ "mod_time", ARG_NUMBER, ARG_REQUIRED, .help = NULL },
	{ NULL }
};

static const struct arg entry_item[] = {
	{ "item", ARG_OBJECT, ARG_REQUIRED, .of = entry_out, .help = NULL },
	{ NULL }
};

static const struct arg list_out[] = {
	{ "entries", ARG_ARRAY, ARG_REQUIRED, .of = entry_item, .help = NULL },
	{ "total_entries", ARG_INT, ARG_REQUIRED, .help = NULL },
	{ "truncated", ARG_BOOL, ARG_REQUIRED, .help = NULL },
	{ NULL }
};

static void
on_entry(void *arg, const struct listing_entry *e)
{
	struct call *c = arg;
	struct file_call *f = c->data;

	if (f->total++ >= f->most)
		return;
	jsonw_object(&f->w, NULL);
	jsonw_bytes(&f->w, "name", e->name, e->name_len);
	jsonw_int(&f->w, "size", e->size);
	jsonw_str(&f->w, "type", entry_types[e->folder]);
	jsonw_double(&f->w, "mod_time", e->mtime);
	jsonw_end(&f->w);
}

static enum step
list_start(struct call *c, struct json args, struct error *err)
{
	struct file_call *f = c->data;

	f->most = tools_int(c->tool, args, "max_entries");
	f->req.entry = on_entry;
	buf_init(&f->entries, LIMIT_REPLY);
	jsonw_init(&f->w, &f->entries);
	jsonw_array(&f->w, NULL);
	return begin(c, args, FILEOP_LIST, err);
}

static enum step
list_next(struct call *c, const struct event *ev, struct error *err)
{
	struct file_call *f = c->data;
	struct fileop_result *r = NULL;
	enum step step = go_on(c, ev, "list directory in", &r, err);
	struct jsonw w;

	if (r == NULL || step != STEP_DONE || c->state == CALL_STOPPING)
		return step;
	jsonw_end(&f->w);
	if (!buf_ok(&f->entries)) {
		error_set(err, ERR_LIMIT, "the list is longer than %ld bytes: "
		    "ask for fewer entries", (long)LIMIT_REPLY);
		return STEP_FAIL;
	}
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_raw(&w, "entries", f->entries.data, f->entries.len);
	jsonw_int(&w, "total_entries", f->total);
	jsonw_bool(&w, "truncated", f->total > f->most);
	jsonw_end(&w);
	return STEP_DONE;
}

const struct tool tool_list_files = {
	.name = "list_files", .title = "List files",
	.help = "List a directory.",
	.args = list_args, .out = list_out,
	.hints = HINT_READ_ONLY | HINT_IDEMPOTENT,
	.start = list_start, .next = list_next, FILE_ROW
};

/* --- file_exists ---------------------------------------------------------- */

static const struct arg path_args[] = {
	FILE_ARGS, PATH_ARG(NULL), TIMEOUT_ARG, { NULL }
};

static const struct arg exists_out[] = {
	{ "exists", ARG_BOOL, ARG_REQUIRED, .help = NULL },
	{ NULL }
};

static enum step
exists_start(struct call *c, struct json args, struct error *err)
{
	return begin(c, args, FILEOP_EXISTS, err);
}

static enum step
exists_next(struct call *c, const struct event *ev, struct error *err)
{
	struct fileop_result *r = NULL;
	enum step step = go_on(c, ev, "check path in", &r, err);
	struct jsonw w;

	if (r == NULL || step != STEP_DONE)
		return step;
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_bool(&w, "exists", r->exists);
	jsonw_end(&w);
	return STEP_DONE;
}

const struct tool tool_file_exists = {
	.name = "file_exists", .title = "File exists",
	.help = "Is there such a path?",
	.args = path_args, .out = exists_out,
	.hints = HINT_READ_ONLY | HINT_IDEMPOTENT,
	.start = exists_start, .next = exists_next, FILE_ROW
};

/* --- stat_file ------------------------------------------------------------ */

static const struct arg stat_args[] = {
	FILE_ARGS, PATH_ARG(NULL),
	{ "sha256", ARG_BOOL, 0, 0, 0, NULL, .help = NULL },
	{ NULL }
};

static enum step
stat_start(struct call *c, struct json args, struct error *err)
{
	struct file_call *f = c->data;

	f->req.all = tools_bool(c->tool, args, "sha256");
	return begin(c, args, FILEOP_STAT, err);
}

static enum step
stat_next(struct call *c, const struct event *ev, struct error *err)
{
	struct fileop_result *r = NULL;
	enum step step = go_on(c, ev, "look at path in", &r, err);
	struct jsonw w;
	char mode[8];

	if (r == NULL || step != STEP_DONE || c->state == CALL_STOPPING)
		return step;
	(void)snprintf(mode, sizeof(mode), "%04o", r->mode);
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "type", r->type);
	jsonw_int(&w, "size", r->size);
	jsonw_str(&w, "mode", mode);
	jsonw_int(&w, "mod_time", r->modified);
	if (r->sha256[0] != '\0')
		jsonw_str(&w, "sha256", r->sha256);
	else
		jsonw_null(&w, "sha256");
	jsonw_end(&w);
	return STEP_DONE;
}

const struct tool tool_stat_file = {
	.name = "stat_file", .title = "File status",
	.help = "Type, size, mode, time.",
	.args = stat_args,
	.hints = HINT_READ_ONLY | HINT_IDEMPOTENT,
	.start = stat_start, .next = stat_next, FILE_ROW
};

/* --- delete_file ---------------------------------------------------------- */

static const struct arg delete_args[] = {
	FILE_ARGS, PATH_ARG(NULL),
	{ "recursive", ARG_BOOL, 0, 0, 0, NULL, .help = NULL },
	{ NULL }
};

static enum step
delete_start(struct call *c, struct json args, struct error *err)
{
	struct file_call *f = c->data;

	f->req.all = tools_bool(c->tool, args, "recursive");
	return begin(c, args, FILEOP_DELETE, err);
}

static enum step
delete_next(struct call *c, const struct event *ev, struct error *err)
{
	struct fileop_result *r = NULL;

	return go_on(c, ev, "delete path in", &r, err);
}

const struct tool tool_delete_file = {
	.name = "delete_file", .title = "Delete file",
	.help = "Delete a file or directory.",
	.args = delete_args, .hints = HINT_DESTRUCTIVE,
	.start = delete_start, .next = delete_next, FILE_ROW
};

/* --- move_file ------------------------------------------------------------ */

static const struct arg move_args[] = {
	FILE_ARGS, PATH_ARG(NULL),
	{ "to", ARG_STRING, ARG_REQUIRED, .help = NULL },
	{ "overwrite", ARG_BOOL, 0, 0, 0, NULL, .help = NULL },
	{ NULL }
};

static enum step
move_start(struct call *c, struct json args, struct error *err)
{
	struct file_call *f = c->data;

	f->req.all = tools_bool(c->tool, args, "overwrite");
	if (path_arg(args, "to", false, &f->to, err) == -1)
		return STEP_FAIL;
	f->req.to = f->to;
	return begin(c, args, FILEOP_MOVE, err);
}

static enum step
move_next(struct call *c, const struct event *ev, struct error *err)
{
	struct fileop_result *r = NULL;

	return go_on(c, ev, "move path in", &r, err);
}

const struct tool tool_move_file = {
	.name = "move_file", .title = "Move file",
	.help = "Rename a file or directory.",
	.args = move_args, .hints = HINT_DESTRUCTIVE,
	.start = move_start, .next = move_next, FILE_ROW
};
