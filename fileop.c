/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "digest.h"
#include "env.h"
#include "fileop-back.h"
#include "link.h"
#include "loop.h"
#include "mono.h"
#include "run.h"
#include "web.h"

void
fileop_close(struct fileop *f)
{
	if (f == NULL)
		return;
	link_find_cancel(f->find);
	run_close(f->run);
	web_cancel(f->web);
	loop_timer_del(f->timer);
	link_drop(f->env->links, f->link);
	free((char *)(uintptr_t)f->req.namespace);
	free((char *)(uintptr_t)f->req.sandbox);
	free((char *)(uintptr_t)f->req.address);
	free((char *)(uintptr_t)f->req.claim);
	free((char *)(uintptr_t)f->req.path);
	free((char *)(uintptr_t)f->req.to);
	buf_free(&f->req.data);
	buf_free(&f->head);
	buf_free(&f->tail);
	buf_free(&f->text);
	buf_free(&f->complaint);
	buf_free(&f->result.data);
	listing_free(&f->list);
	free(f);
}

void
fileop_finish(struct fileop *f, const struct error *err)
{
	struct error copy;
	struct event ev = { .type = EVENT_END, .reason = "", .data = "" };

	if (err != NULL) {
		copy = *err;
		ev.err = &copy;
		if (err->code == ERR_LOST && f->link != NULL)
			link_forget(f->link);
	}
	f->fn(f->arg, &ev);
	fileop_close(f);
}

static void
say_why(void *arg)
{
	struct fileop *f = arg;

	f->timer = NULL;
	fileop_finish(f, &f->why);
}

void
fileop_fail(struct fileop *f, const struct error *err)
{
	f->why = *err;
	loop_timer_del(f->timer);
	f->timer = loop_timer_add(f->env->loop, 0, say_why, f);
}

long
fileop_left_ms(const struct fileop *f)
{
	long left = f->until_ms - mono_ms();

	return left > 1 ? left : 1;
}

int
fileop_folder(const struct fileop *f, struct error *err)
{
	return error_set(err, ERR_CONFLICT, "'%.200s' is a directory: pack it "
	    "with a command (tar -cf FILE -C DIRECTORY .) and download that "
	    "FILE", f->req.path);
}

void
fileop_take(struct fileop *f, const char *data, size_t len)
{
	size_t room = (size_t)(f->req.length - f->got);

	if (f->skip > 0) {
		size_t n = len < (size_t)f->skip ? len : (size_t)f->skip;

		f->skip -= (long)n;
		data += n;
		len -= n;
	}
	if (len > room)
		len = room;
	f->got += (long)len;
	if (f->req.take != NULL)
		f->req.take(f->req.take_arg, data, len);
	else
		buf_put(&f->result.data, data, len);
}

struct fileop_result *
fileop_result(struct fileop *f)
{
	return &f->result;
}

void
fileop_stop(struct fileop *f)
{
	struct error err;

	if (f->stopped || f->timer != NULL)
		return;
	f->stopped = true;
	if (f->run != NULL) {
		run_stop(f->run, true);
		return;
	}
	link_find_cancel(f->find);
	web_cancel(f->web);
	f->find = NULL;
	f->web = NULL;
	error_set(&err, ERR_CANCELLED, "cancelled");
	fileop_fail(f, &err);
}

static void
on_link(void *arg, struct link *l, const struct error *err)
{
	struct fileop *f = arg;

	f->find = NULL;
	f->link = l;
	if (err != NULL)
		fileop_fail(f, err);
	else if (fileop_rest_can(f))
		fileop_rest(f);
	else
		fileop_script(f);
}

/* Names that nothing else has, and the digest of what is to be written. */
static int
prepare(struct fileop *f)
{
	unsigned char raw[8];
	int n = snprintf(f->part, sizeof(f->part), ".mcp-sandbox-");

	if (getrandom(raw, sizeof(raw), 0) != sizeof(raw))
		return -1;
	for (size_t i = 0; i < sizeof(raw); i++)
		n += snprintf(f->part + n, sizeof(f->part) - (size_t)n, "%02x",
		    raw[i]);
	(void)snprintf(f->mark, sizeof(f->mark), "%s ", f->part + 1);
	if (f->req.source != NULL)
		(void)snprintf(f->result.sha256, sizeof(f->result.sha256),
		    "%s", f->req.source->sha256);
	else if (f->req.verb == FILEOP_WRITE)
		digest_hex(f->req.data.data, f->req.data.len,
		    f->result.sha256);
	return 0;
}

static bool
copy(const char **to, const char *from)
{
	return from == NULL || (*to = strdup(from)) != NULL;
}

struct fileop *
fileop_start(struct env *env, const struct fileop_req *req, event_fn *fn,
    void *arg)
{
	struct fileop *f = calloc(1, sizeof(*f));
	struct link_find *find;

	if (f == NULL) {
		struct buf gone = req->data;

		buf_free(&gone);
		return NULL;
	}
	f->env = env;
	f->fn = fn;
	f->arg = arg;
	f->req = *req;
	f->size = req->source != NULL ? req->source->size : req->data.len;
	f->req.namespace = f->req.sandbox = f->req.address = NULL;
	f->req.claim = f->req.path = f->req.to = NULL;
	f->until_ms = mono_ms() + req->timeout_ms;
	buf_init(&f->head, 1024);
	buf_init(&f->tail, 1024);
	buf_init(&f->text, 8192);
	buf_init(&f->complaint, 512);
	buf_init(&f->result.data, (size_t)(req->length > 0 ? req->length : 0));
	if (!copy(&f->req.namespace, req->namespace) ||
	    !copy(&f->req.sandbox, req->sandbox) ||
	    !copy(&f->req.address, req->address) ||
	    !copy(&f->req.claim, req->claim) ||
	    !copy(&f->req.path, req->path) || !copy(&f->req.to, req->to) ||
	    prepare(f) == -1) {
		fileop_close(f);
		return NULL;
	}
	f->req.token = NULL;
	if (req->agent != NULL) {
		struct link *l = link_agent(req->agent, req->token);

		if (l == NULL) {
			fileop_close(f);
			return NULL;
		}
		on_link(f, l, NULL);
		return f;
	}
	find = link_find(env->links, f->req.namespace, f->req.sandbox,
	    f->req.address, f->req.claim, on_link, f);
	if (find != NULL)
		f->find = find;
	return f;
}
