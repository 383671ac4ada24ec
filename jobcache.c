/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>

#include "buf.h"
#include "config.h"
#include "env.h"
#include "error.h"
#include "event.h"
#include "jobcache.h"
#include "k8s.h"
#include "loop.h"

enum { CHECK_MS = 8000 };

struct check {
	bool done;
	long status;
	struct error err;
};

static void
on_reply(void *arg, const struct event *ev)
{
	struct check *k = arg;

	k->done = true;
	k->status = ev->status;
	k->err.code = ERR_NONE;
	if (ev->err != NULL)
		k->err = *ev->err;
}

static int
judge(const struct job_settings *s, const struct check *k, struct error *err)
{
	if (k->err.code == ERR_NONE)
		return 0;
	if (k->status == 404)
		return error_set(err, ERR_CONFIG, "MCP_K8S_CACHE_PVC: there is "
		    "no PersistentVolumeClaim '%s' in namespace '%s'",
		    s->cache_pvc, s->namespace);
	*err = k->err;
	if (k->status == 403)
		err->code = ERR_CONFIG;
	return error_wrap(err, "MCP_K8S_CACHE_PVC: PersistentVolumeClaim '%s'",
	    s->cache_pvc);
}

int
jobcache_check(const struct env *env, struct error *err)
{
	const struct job_settings *s = &env->config->job;
	struct check k = { .done = false };
	struct k8s_op *op;
	struct buf path;

	if (s->cache_pvc == NULL)
		return 0;
	buf_init(&path, 1024);
	buf_puts(&path, "/api/v1/namespaces/");
	k8s_escape(&path, s->namespace);
	buf_puts(&path, "/persistentvolumeclaims/");
	k8s_escape(&path, s->cache_pvc);
	op = k8s_send(env->k8s, "GET", path.data, NULL, CHECK_MS, on_reply,
	    &k);
	buf_free(&path);
	if (op == NULL)
		return error_set(err, ERR_SYSTEM, "out of memory");
	while (!k.done)
		if (loop_turn(env->loop, CHECK_MS, err) == -1) {
			k8s_cancel(op);
			return -1;
		}
	return judge(s, &k, err);
}
