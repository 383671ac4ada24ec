/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "ask.h"
#include "budget.h"
#include "env.h"
#include "event.h"
#include "k8s.h"
#include "loop.h"

static void
on_reply(void *arg, const struct event *ev)
{
	struct answer *a = arg;

	a->over = true;
	if (ev->err != NULL) {
		a->err = *ev->err;
		return;
	}
	buf_put(&a->body, ev->data, ev->len);
	if (!buf_ok(&a->body))
		error_set(&a->err, ERR_SYSTEM, "out of memory");
	else
		a->doc = json_parse_lax(a->body.data, a->body.len, &a->err);
}

int
ask(struct env *env, struct answer *a, const char *method, const char *path,
    const char *body)
{
	struct k8s_op *op;

	*a = (struct answer){ .err = { ERR_NONE, "" } };
	buf_init(&a->body, LIMIT_BODY + 1);
	op = k8s_send(env->k8s, method, path, body, 0, on_reply, a);
	if (op == NULL)
		return error_set(&a->err, ERR_SYSTEM, "out of memory");
	while (!a->over)
		if (loop_turn(env->loop, -1, &a->err) == -1) {
			k8s_cancel(op);
			return -1;
		}
	return a->doc == NULL ? -1 : 0;
}

void
answer_free(struct answer *a)
{
	json_free(a->doc);
	buf_free(&a->body);
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
