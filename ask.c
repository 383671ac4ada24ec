/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "ask.h"
#include "budget.h"
#include "env.h"
#include "error.h"
#include "event.h"
#include "json.h"
#include "k8s.h"
#include "loop.h"

static void
on_reply(void *arg, const struct event *ev)
{
	struct asked *a = arg;
	struct error ignored;

	a->over = true;
	if (ev->err != NULL) {
		a->err = *ev->err;
		a->expired = ev->status == 410;
		if (!a->expired)
			return;
	}
	buf_put(&a->body, ev->data, ev->len);
	if (!buf_ok(&a->body))
		error_set(&a->err, ERR_SYSTEM, "out of memory");
	else
		a->doc = json_parse_lax(a->body.data, a->body.len,
		    a->expired ? &ignored : &a->err);
}

int
ask(struct env *env, struct asked *a, const char *method, const char *path,
    const char *body)
{
	struct k8s_op *op;

	*a = (struct asked){ .err = { ERR_NONE, "" } };
	buf_init(&a->body, LIMIT_BODY + 1);
	op = k8s_send(env->k8s, method, path, body, 0, on_reply, a);
	if (op == NULL)
		return error_set(&a->err, ERR_SYSTEM, "out of memory");
	while (!a->over)
		if (loop_turn(env->loop, -1, &a->err) == -1) {
			k8s_cancel(op);
			return -1;
		}
	return a->doc == NULL || a->expired ? -1 : 0;
}

void
asked_free(struct asked *a)
{
	json_free(a->doc);
	buf_free(&a->body);
}

/* One page; from: of which, then of the next, or "". */
static int
page(struct env *env, const char *path, char *from, size_t size,
    ask_page_fn *fn, void *arg, struct error *err)
{
	bool first = from[0] == '\0';
	struct asked a = { .err = { ERR_SYSTEM, "out of memory" } };
	struct json root;
	struct buf at;
	int r = -1;

	buf_init(&at, 8192);
	buf_puts(&at, path);
	if (!first)
		buf_puts(&at, "&continue=");
	k8s_escape(&at, from);
	from[0] = '\0';
	if (buf_ok(&at))
		r = ask(env, &a, "GET", at.data, NULL);
	buf_free(&at);
	root = json_root(a.doc);
	(void)json_str(json_path(root, "metadata.continue"), from, size);
	if (r == 0)
		r = fn(arg, json_get(root, "items"), &a.err);
	else if (a.expired && !first && from[0] != '\0')
		r = 0;
	*err = a.err;
	asked_free(&a);
	return r;
}

int
ask_list(struct env *env, const char *path, ask_page_fn *fn, void *arg,
    struct error *err)
{
	char from[1024] = "";

	for (int n = 0; n < LIMIT_PAGES; n++) {
		if (page(env, path, from, sizeof(from), fn, arg, err) != 0)
			return -1;
		if (from[0] == '\0')
			return 0;
	}
	return error_set(err, ERR_LIMIT, "%.200s: more than %d pages", path,
	    LIMIT_PAGES);
}

void
say(int fd, const char *fmt, ...)
{
	char line[1001];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	n = n < (int)sizeof(line) - 1 ? n : (int)sizeof(line) - 2;
	line[n++] = '\n';
	if (write(fd, line, (size_t)n) == -1)
		return;		/* whoever reads it has gone */
}
