/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "buf.h"
#include "budget.h"
#include "call.h"
#include "dryrun.h"
#include "env.h"
#include "error.h"
#include "jsonw.h"
#include "k8s.h"

#define LEFT_OUT "(left out)"

struct dry {
	struct buf path, body;
	struct k8s_op *op;
};

/* --- what is shown ------------------------------------------------------ */

/* Is m, a member of v, what must not be seen? */
static bool
is_secret(struct json v, struct json m)
{
	struct json key = json_key(m);

	if (json_is(key, "value"))
		return json_type(json_get(v, "name")) == JSON_STRING;
	return json_is(key, "stringData") || json_is(key, "data");
}

/* A document is LIMIT_JSON_DEPTH deep at most, and so is this. */
static void
copy(struct jsonw *w, const char *key, struct json v)
{
	enum json_type type = json_type(v);
	const char *raw;
	char name[400];
	size_t len;

	if (type != JSON_OBJECT && type != JSON_ARRAY) {
		raw = json_raw(v, &len);
		jsonw_raw(w, key, raw, len);
		return;
	}
	if (type == JSON_OBJECT)
		jsonw_object(w, key);
	else
		jsonw_array(w, key);
	for (struct json m = json_first(v); json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		if (type == JSON_OBJECT &&
		    !json_str(json_key(m), name, sizeof(name)))
			continue;
		if (type == JSON_OBJECT && is_secret(v, m))
			jsonw_str(w, name, LEFT_OUT);
		else
			copy(w, type == JSON_OBJECT ? name : NULL, m);
	}
	jsonw_end(w);
}

void
dryrun_manifest(struct jsonw *w, struct json manifest)
{
	copy(w, "manifest", manifest);
}

static enum step
show(struct call *c, const struct error *refused, struct error *err)
{
	struct dry *d = c->data;
	struct json_doc *doc = json_parse_lax(d->body.data, d->body.len, err);
	struct jsonw w;

	if (doc == NULL)
		return STEP_FAIL;
	jsonw_init(&w, &c->structured);
	jsonw_object(&w, NULL);
	jsonw_bool(&w, "dry_run", true);
	jsonw_bool(&w, "accepted", refused == NULL);
	if (refused != NULL)
		jsonw_str(&w, "reason", refused->text);
	jsonw_str(&w, "path", d->path.data);
	dryrun_manifest(&w, json_root(doc));
	jsonw_end(&w);
	json_free(doc);
	c->is_error = refused != NULL;
	return STEP_DONE;
}

/* --- the call ----------------------------------------------------------- */

static enum step
start(struct call *c, struct json args, struct error *err)
{
	const struct env *env = c->env;
	struct dry *d = c->data;
	struct buf path;

	if (c->tool->plan == NULL) {
		error_set(err, ERR_INPUT, "this server makes a dry run: %s "
		    "was not done, nothing has changed", c->tool->name);
		return STEP_FAIL;
	}
	buf_init(&d->path, 2048);
	buf_init(&d->body, LIMIT_STDIN);
	if (c->tool->plan(c, args, &d->path, &d->body, err) == -1)
		return STEP_FAIL;
	buf_init(&path, 2048);
	buf_printf(&path, "%s?dryRun=All",
	    buf_ok(&d->path) ? d->path.data : "");
	if (buf_ok(&path) && buf_ok(&d->body))
		d->op = k8s_send(env->k8s, "POST", path.data, d->body.data, 0,
		    call_event, c);
	buf_free(&path);
	if (d->op != NULL)
		return STEP_WAIT;
	error_set(err, ERR_SYSTEM, "out of memory");
	return STEP_FAIL;
}

/* Only what the API server has to say to the object is an answer. */
static enum step
next(struct call *c, const struct event *ev, struct error *err)
{
	struct dry *d = c->data;

	if (ev->type != EVENT_REPLY)
		return STEP_WAIT;
	d->op = NULL;
	if (ev->err == NULL || (ev->status >= 400 && ev->status < 500 &&
	    ev->status != 401 && ev->status != 429))
		return show(c, ev->err, err);
	*err = *ev->err;
	return STEP_FAIL;
}

static void
release(struct call *c)
{
	struct dry *d = c->data;

	k8s_cancel(d->op);
	buf_free(&d->path);
	buf_free(&d->body);
}

struct tool
dryrun_tool(const struct tool *t)
{
	struct tool dry = *t;

	dry.out = NULL;
	dry.size = sizeof(struct dry);
	dry.start = start;
	dry.next = next;
	dry.stop = NULL;
	dry.release = release;
	return dry;
}
