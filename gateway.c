/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "buf.h"
#include "config.h"
#include "error.h"
#include "event.h"
#include "gateway.h"
#include "k8s.h"
#include "loop.h"
#include "watch.h"

#define GATEWAYS "/apis/gateway.networking.k8s.io/v1/namespaces/"

struct gateway {
	struct k8s *k;
	const struct config *config;
	gateway_found *done;
	void *arg;
	struct k8s_op *get;
	struct watch *watch;
	struct loop_timer *timer;
};

int
gateway_address(struct json object, bool loopback, char dst[GATEWAY_HOST])
{
	struct json list = json_path(object, "status.addresses"), m;
	bool refused = false, literal;

	for (m = json_first(list); json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		char value[GATEWAY_HOST];

		if (!json_str(json_get(m, "value"), value, sizeof(value)))
			continue;
		if (address_ok(value, loopback, dst, &literal))
			return 1;
		refused |= literal;
		if (!literal && address_name(value)) {
			(void)snprintf(dst, GATEWAY_HOST, "%s", value);
			return 1;
		}
	}
	return refused ? -1 : 0;
}

void
gateway_cancel(struct gateway *g)
{
	if (g == NULL)
		return;
	k8s_cancel(g->get);
	watch_close(g->watch);
	loop_timer_del(g->timer);
	free(g);
}

static void
finish(struct gateway *g, const char *host, const struct error *err)
{
	gateway_found *done = g->done;
	void *arg = g->arg;

	gateway_cancel(g);
	done(arg, host, err);
}

static void
fail(struct gateway *g, const struct error *err)
{
	struct error copy = *err;

	error_wrap(&copy, "Gateway '%s' in namespace '%s'",
	    g->config->gateway_name, g->config->gateway_namespace);
	finish(g, NULL, &copy);
}

/* true: that was all that is wanted. */
static bool
look(struct gateway *g, struct json object)
{
	char host[GATEWAY_HOST];
	struct error err;
	int r = gateway_address(object, g->config->loopback, host);

	if (r == 1)
		finish(g, host, NULL);
	if (r == -1) {
		error_set(&err, ERR_CLUSTER, "its address is this machine, a "
		    "neighbour or a metadata service, and is not used");
		fail(g, &err);
	}
	return r != 0;
}

static void
on_event(void *arg, const struct event *ev)
{
	struct gateway *g = arg;
	struct error err;

	if (ev->type == EVENT_END) {
		g->watch = NULL;
		if (ev->err != NULL) {
			fail(g, ev->err);
			return;
		}
		error_set(&err, ERR_LOST, "the watch ended");
		fail(g, &err);
	} else if (strcmp(ev->verb, "DELETED") != 0) {
		(void)look(g, ev->object);
	}
}

static void
on_timer(void *arg)
{
	struct gateway *g = arg;
	struct error err;

	g->timer = NULL;
	error_set(&err, ERR_TIMEOUT, "Gateway '%s' did not get an IP. Within "
	    "%ld s (GATEWAY_READY_TIMEOUT) its status has no address",
	    g->config->gateway_name, g->config->gateway_ready_s);
	finish(g, NULL, &err);
}

static void
path(const struct gateway *g, struct buf *out, const char *sep)
{
	buf_init(out, 2048);
	buf_puts(out, GATEWAYS);
	k8s_escape(out, g->config->gateway_namespace);
	buf_printf(out, "/gateways%s", sep);
	k8s_escape(out, g->config->gateway_name);
}

static void
on_get(void *arg, const struct event *ev)
{
	struct gateway *g = arg;
	struct json_doc *doc;
	struct error err;
	struct buf b;
	bool over;

	g->get = NULL;
	if (ev->err != NULL) {
		fail(g, ev->err);
		return;
	}
	if ((doc = json_parse_lax(ev->data, ev->len, &err)) == NULL) {
		fail(g, &err);
		return;
	}
	over = look(g, json_root(doc));
	json_free(doc);
	if (over)
		return;
	path(g, &b, "?fieldSelector=metadata.name%3D");
	g->watch = watch_open(g->k, b.data, NULL, on_event, g);
	buf_free(&b);
	g->timer = loop_timer_add(k8s_loop(g->k),
	    g->config->gateway_ready_s * 1000, on_timer, g);
	if (g->watch == NULL || g->timer == NULL) {
		error_set(&err, ERR_SYSTEM, "out of memory");
		fail(g, &err);
	}
}

struct gateway *
gateway_find(struct k8s *k, const struct config *c, gateway_found *done,
    void *arg)
{
	struct gateway *g = calloc(1, sizeof(*g));
	struct buf b;

	if (g == NULL)
		return NULL;
	*g = (struct gateway){ .k = k, .config = c, .done = done,
	    .arg = arg };
	path(g, &b, "/");
	g->get = buf_ok(&b) ? k8s_send(k, "GET", b.data, NULL, 0, on_get, g) :
	    NULL;
	buf_free(&b);
	if (g->get == NULL) {
		free(g);
		return NULL;
	}
	return g;
}
