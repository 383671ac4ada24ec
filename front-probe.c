/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "auth.h"
#include "buf.h"
#include "config.h"
#include "env.h"
#include "error.h"
#include "event.h"
#include "front-http.h"
#include "front-own.h"
#include "http.h"
#include "httpd.h"
#include "jsonw.h"
#include "k8s.h"
#include "log.h"
#include "mcp.h"
#include "stats.h"

enum { PROBE_MS = 5000 };

void
front_healthz(struct front *h)
{
	front_answer(h, 200, TEXT, "ok\n");
}

void
front_live(struct front *h)
{
	front_answer(h, 200, JSON, "{\"status\":\"alive\"}\n");
}

static void
answer_ready(struct front *h, const struct error *err)
{
	if (err == NULL) {
		front_answer(h, 200, JSON, "{\"ready\":true}");
		return;
	}
	log_line(h->f->log, LOG_WARN, "/readyz: %s", err->text);
	front_answer(h, 503, JSON, "{\"ready\":false,\"reason\":"
	    "\"kubernetes API unavailable\"}");
}

static void
on_ready(void *arg, const struct event *ev)
{
	struct front *h = arg;

	h->op = NULL;
	answer_ready(h, ev->err);
}

static void
answer_health(struct front *h, const struct error *err)
{
	time_t now = time(NULL);
	char date[32];
	struct tm tm;
	struct jsonw w;
	struct buf b;

	(void)gmtime_r(&now, &tm);
	(void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &tm);
	buf_init(&b, 8192);
	jsonw_init(&w, &b);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "status", err == NULL ? "healthy" : "unhealthy");
	if (err != NULL)
		jsonw_str(&w, "error", err->text);
	jsonw_str(&w, "time", date);
	jsonw_end(&w);
	buf_puts(&b, "\n");
	front_answer(h, err == NULL ? 200 : 503, JSON,
	    buf_ok(&b) ? b.data : "");
	buf_free(&b);
}

static void
on_health(void *arg, const struct event *ev)
{
	struct front *h = arg;

	h->op = NULL;
	answer_health(h, ev->err);
}

/* GET of a path; done is called with an error where that is not possible. */
static void
probe(struct front *h, const char *path, event_fn *done)
{
	struct error err;
	struct event failed = { .type = EVENT_REPLY, .err = &err };

	if (h->f->env != NULL)
		h->op = k8s_send(h->f->env->k8s, "GET", path, NULL, PROBE_MS,
		    done, h);
	if (h->op != NULL)
		return;
	error_set(&err, ERR_SYSTEM, "the cluster can't be asked");
	done(h, &failed);
}

void
front_readyz(struct front *h)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "/apis/extensions.agents.x-k8s.io/"
	    "v1beta1/namespaces/%.63s/sandboxclaims?limit=1",
	    h->f->env == NULL ? "" : h->f->env->config->probe_namespace);
	probe(h, path, on_ready);
}

void
front_health(struct front *h)
{
	const char *namespace = h->f->health_namespace;
	char path[128];

	if (namespace == NULL && h->f->env != NULL)
		namespace = h->f->env->namespace;
	(void)snprintf(path, sizeof(path), "/api/v1/namespaces/%.63s",
	    namespace == NULL ? "" : namespace);
	probe(h, path, on_health);
}

void
front_metrics(struct front *h)
{
	struct buf b;

	buf_init(&b, 256 << 10);
	buf_puts(&b, "# HELP mcp_sandbox_info The version.\n"
	    "# TYPE mcp_sandbox_info gauge\n");
	buf_printf(&b, "mcp_sandbox_info{version=\"%s\"} 1\n",
	    h->f->rows->version);
	stats_print(h->f->stats, h->f->rows->tools, &b);
	httpd_answer(h->d, 200, "text/plain; version=0.0.4; charset=utf-8",
	    NO_STORE, b.data, buf_ok(&b) ? b.len : 0);
	buf_free(&b);
}

void
front_metadata(struct front *h)
{
	const struct auth *a = h->f->auth;

	if (a == NULL || a->metadata == NULL)
		front_answer(h, 404, TEXT, "not found\n");
	else
		httpd_answer(h->d, 200, JSON, NULL, a->metadata,
		    a->metadata_len);
}

/* --- sessions ----------------------------------------------------------- */

static void
on_ended(void *arg, const struct error *err)
{
	struct front *h = arg;

	if (!h->ending)
		return;
	h->ending = false;
	if (err == NULL) {
		httpd_answer(h->d, 204, NULL, NULL, NULL, 0);
		return;
	}
	log_line(h->f->log, LOG_WARN, "session %s: %s", h->session, err->text);
	front_answer(h, 500, TEXT, "failed to end session\n");
}

static bool
session_ok(const char *id)
{
	size_t len = strlen(id);

	return len >= 1 && len <= 63 && id[0] != '-' && id[len - 1] != '-' &&
	    strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

void
front_sessions(struct front *h)
{
	const char *id = strchr(h->path + 1, '/');
	struct error err;
	struct as *as;

	id = id == NULL ? "" : id + 1;
	if (h->f->end_session == NULL || h->f->env == NULL) {
		front_answer(h, 404, TEXT, "not found\n");
	} else if (*id == '\0' || strchr(id, '/') != NULL) {
		front_answer(h, 400, TEXT, "missing session ID\n");
	} else if (http_decode(id, strlen(id), h->session,
	    sizeof(h->session)) < 0 || !session_ok(h->session)) {
		front_answer(h, 400, TEXT, "invalid session ID format\n");
	} else if (auth_session(&h->who, h->session) != 0) {
		front_refuse(h, 403, NULL, "this session is not yours");
		front_answer_refusal(h);
	} else if ((as = front_as(h)) == NULL) {
		front_answer(h, 500, TEXT, "failed to end session\n");
	} else {
		h->ending = true;
		log_line(h->f->log, LOG_NOTE, "audit: caller=%s ends session "
		    "%s", h->who.name, h->session);
		if (h->f->end_session(&as->env, h->session, on_ended, h,
		    &err) == -1)
			on_ended(h, &err);
	}
}
