/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "budget.h"
#include "buf.h"
#include "error.h"
#include "execcred.h"
#include "k8sauth.h"
#include "kubeconfig.h"
#include "loop.h"
#include "mono.h"
#include "plugin.h"
#include "web.h"

enum {
	TOKEN_MS = 60000,	/* a token file may be this stale */
	EARLY_S = 60,		/* a plugin is asked so long before the end, */
	EARLY_PART = 5,		/* or when a fifth of the time is left */
	AGAIN_MS = 2000		/* after a failure */
};

/* What a plugin gave, and the channel on which to ask for more. */
struct source {
	int fd;		/* -1: there is no plugin, or its helper is gone */
	struct loop_fd *watch;
	struct buf in;
	struct execcred cred;
	long long renew;	/* when to ask, by the clock; 0: never */
	unsigned long have;
	bool asking, refused;
	long failed_ms;
	struct error failed;	/* of the last answer */
};

struct k8sauth {
	struct loop *loop;
	const struct kubeconfig *kc;
	struct web_tls tls;
	char *token;
	long token_read;
	unsigned long generation;
	bool has_plugin;
	struct source plugin;
	struct k8s_wait *waits;
};

struct k8s_wait {
	struct k8s_wait *next, **prev;
	struct loop_timer *timer;
	loop_due *fn;
	void *arg;
};

/* --- a token in a file -------------------------------------------------- */

static char *
token_load(const char *path, struct error *err)
{
	char *token = malloc(LIMIT_TOKEN + 1);
	ssize_t n = -1;
	int fd;

	if (token == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) != -1) {
		n = read(fd, token, LIMIT_TOKEN + 1);
		close(fd);
	}
	while (n > 0 && n <= LIMIT_TOKEN &&
	    isspace((unsigned char)token[n - 1]))
		n--;
	if (n == -1)
		error_sys(err, path);
	else if (n == 0 || n > LIMIT_TOKEN)
		n = error_set(err, ERR_CONFIG, "%s: %s", path, n == 0 ?
		    "empty" : "longer than a token");
	if (n == -1) {
		explicit_bzero(token, LIMIT_TOKEN + 1);
		free(token);
		return NULL;
	}
	token[n] = '\0';
	return token;
}

static void
wipe(char *s)
{
	if (s != NULL)
		explicit_bzero(s, strlen(s));
	free(s);
}

/* The old one stays when there is no new one. */
static int
token_refresh(struct k8sauth *a, struct error *err)
{
	char *token;

	a->token_read = mono_ms();
	if ((token = token_load(a->kc->token_file, err)) == NULL)
		return -1;
	if (a->token == NULL || strcmp(token, a->token) != 0)
		a->generation++;
	wipe(a->token);
	a->token = token;
	return 0;
}

static void wait_over(struct k8s_wait *w);

/* --- a plugin ----------------------------------------------------------- */

static void
channel_close(struct source *s)
{
	loop_fd_del(s->watch);
	s->watch = NULL;
	if (s->fd != -1) {
		(void)close(s->fd);
		buf_wipe(&s->in);
	}
	s->fd = -1;
	s->asking = false;
}

/* Is what we have good for a request now? */
static bool
usable(const struct k8sauth *a)
{
	const struct source *s = &a->plugin;

	return !s->refused && (s->cred.token != NULL || s->cred.cert != NULL) &&
	    (s->cred.expires == 0 || time(NULL) < s->cred.expires);
}

/* New ones in the place of the old, which stay when these are no good. */
static int
cred_take(struct k8sauth *a, const char *text, size_t len, struct error *err)
{
	struct source *s = &a->plugin;
	long long now = time(NULL), left;
	struct execcred c;

	if (execcred_parse(&c, text, len, a->kc->exec->version, err) == -1)
		return error_wrap(err, "credential plugin %s",
		    a->kc->exec->command);
	left = c.expires - now;
	if (c.expires != 0 && left <= 0) {
		execcred_free(&c);
		return error_set(err, ERR_DENIED, "credential plugin %s: what "
		    "it prints has expired already", a->kc->exec->command);
	}
	s->renew = c.expires == 0 ? 0 : c.expires -
	    (left / EARLY_PART < EARLY_S ? left / EARLY_PART : EARLY_S);
	execcred_free(&s->cred);
	s->cred = c;
	s->refused = false;
	a->generation++;
	/* Connections that are set up copy them, so they may go at any time. */
	a->tls.copied = true;
	a->tls.cert = c.cert != NULL ? c.cert : a->kc->cert;
	a->tls.key = c.cert != NULL ? c.key : a->kc->key;
	return 0;
}

static void
failed(struct k8sauth *a, struct error *err)
{
	struct source *s = &a->plugin;

	error_wrap(err, "user \"%s\"", a->kc->user);
	s->failed = *err;
	s->failed_ms = mono_ms();
}

/* Those that wait now; whoever comes to wait meanwhile is not among them. */
static void
wake(struct k8sauth *a)
{
	struct k8s_wait *list = a->waits;

	a->waits = NULL;
	if (list != NULL)
		list->prev = &list;
	while (list != NULL)
		wait_over(list);
}

static void
on_answer(void *arg, short revents)
{
	struct k8sauth *a = arg;
	struct source *s = &a->plugin;
	unsigned long generation;
	const char *text;
	struct error err;
	size_t len;
	int r = plugin_read(s->fd, &s->in, &generation, &text, &len, &err);

	(void)revents;
	if (r == 0)
		return;
	s->asking = false;
	s->failed.code = ERR_NONE;
	if (r == 1) {
		s->have = generation;
		r = cred_take(a, text, len, &err);
	}
	if (r == -1)
		failed(a, &err);
	buf_wipe(&s->in);
	plugin_buf(&s->in);
	if (generation == 0)
		channel_close(s);
	else
		loop_fd_want(s->watch, 0);
	wake(a);
}

/* Ask, if it is time and nobody has. */
static void
renew(struct k8sauth *a)
{
	struct source *s = &a->plugin;
	struct error err;

	if (s->fd == -1 || s->asking || (usable(a) &&
	    (s->renew == 0 || time(NULL) < s->renew)))
		return;
	if (s->failed.code != ERR_NONE && mono_ms() - s->failed_ms < AGAIN_MS)
		return;
	if (plugin_ask(s->fd, s->have, &err) == -1) {
		failed(a, &err);
		return;
	}
	s->asking = true;
	loop_fd_want(s->watch, POLLIN);
}

static int
no_credentials(const struct k8sauth *a, struct error *err)
{
	if (a->plugin.failed.code == ERR_NONE)
		return error_set(err, ERR_TIMEOUT, "user \"%s\": credential "
		    "plugin %s: no answer yet", a->kc->user,
		    a->kc->exec->command);
	*err = a->plugin.failed;
	return -1;
}

/* --- opening ------------------------------------------------------------ */

struct k8sauth *
k8sauth_open(struct loop *l, const struct kubeconfig *kc, struct error *err)
{
	struct k8sauth *a = calloc(1, sizeof(*a));
	int r = 0;

	if (a == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	a->loop = l;
	a->kc = kc;
	a->generation = 1;
	a->plugin.fd = -1;
	a->tls = (struct web_tls){ .ca = kc->ca, .cert = kc->cert,
	    .key = kc->key, .name = kc->tls_name, .insecure = kc->insecure };
	if (kc->token_file != NULL)
		r = token_refresh(a, err);
	else if (kc->token != NULL && (a->token = strdup(kc->token)) == NULL)
		r = error_set(err, ERR_SYSTEM, "out of memory");
	if (r == 0)
		return a;
	k8sauth_close(a);
	return NULL;
}

void
k8sauth_close(struct k8sauth *a)
{
	if (a == NULL)
		return;
	while (a->waits != NULL)
		k8s_wait_cancel(a->waits);
	channel_close(&a->plugin);
	execcred_free(&a->plugin.cred);
	wipe(a->token);
	free(a);
}

const struct web_tls *
k8sauth_tls(const struct k8sauth *a)
{
	return &a->tls;
}

int
k8sauth_plugin(struct k8sauth *a, struct plugin *p, struct error *err)
{
	struct source *s = &a->plugin;
	unsigned long generation;
	const char *text;
	size_t len;
	int tries, r = -1;

	a->has_plugin = true;
	if ((s->fd = plugin_connect(p, err)) == -1)
		return -1;
	plugin_buf(&s->in);
	/* The helper's last may be too old. */
	for (tries = 0; r == -1 && tries < 2; tries++) {
		if (plugin_ask(s->fd, s->have, err) == -1 ||
		    plugin_wait(s->fd, &s->in, &generation, &text, &len,
		    err) == -1)
			break;
		s->have = generation;
		r = cred_take(a, text, len, err);
		buf_wipe(&s->in);
		plugin_buf(&s->in);
	}
	if (r == -1)
		return error_wrap(err, "user \"%s\"", a->kc->user);
	s->watch = loop_fd_add(a->loop, s->fd, 0, on_answer, a);
	return s->watch != NULL ? 0 : error_set(err, ERR_SYSTEM,
	    "out of memory");
}

/* --- waiting for it ----------------------------------------------------- */

void
k8s_wait_cancel(struct k8s_wait *w)
{
	if (w == NULL)
		return;
	*w->prev = w->next;
	if (w->next != NULL)
		w->next->prev = w->prev;
	loop_timer_del(w->timer);
	free(w);
}

static void
wait_over(struct k8s_wait *w)
{
	loop_due *fn = w->fn;
	void *arg = w->arg;

	k8s_wait_cancel(w);
	fn(arg);
}

static void
on_late(void *arg)
{
	struct k8s_wait *w = arg;

	w->timer = NULL;
	wait_over(w);
}

struct k8s_wait *
k8sauth_await(struct k8sauth *a, long ms, loop_due *fn, void *arg)
{
	struct k8s_wait *w;

	renew(a);
	if (!a->has_plugin || !a->plugin.asking || usable(a))
		return NULL;
	if ((w = calloc(1, sizeof(*w))) == NULL)
		return NULL;
	if (ms > LIMIT_PLUGIN_MS)
		ms = LIMIT_PLUGIN_MS;
	if ((w->timer = loop_timer_add(a->loop, ms, on_late, w)) == NULL) {
		free(w);
		return NULL;
	}
	w->fn = fn;
	w->arg = arg;
	w->next = a->waits;
	w->prev = &a->waits;
	if (w->next != NULL)
		w->next->prev = &w->next;
	a->waits = w;
	return w;
}

/* --- a request ---------------------------------------------------------- */

int
k8sauth_field(struct k8sauth *a, char **field, unsigned long *generation,
    struct error *err)
{
	struct error ignored;
	int n = 0;

	*field = NULL;
	if (a->has_plugin && !usable(a))
		return no_credentials(a, err);
	if (a->kc->token_file != NULL && mono_ms() - a->token_read > TOKEN_MS)
		(void)token_refresh(a, &ignored);
	*generation = a->generation;
	if (a->has_plugin && a->plugin.cred.token != NULL)
		n = asprintf(field, "Authorization: Bearer %s",
		    a->plugin.cred.token);
	else if (a->token != NULL)
		n = asprintf(field, "Authorization: Bearer %s", a->token);
	else if (a->kc->basic != NULL)
		n = asprintf(field, "Authorization: Basic %s", a->kc->basic);
	if (n != -1)
		return 0;
	*field = NULL;
	return error_set(err, ERR_SYSTEM, "out of memory");
}

const char *const *
k8sauth_impersonate(const struct k8sauth *a)
{
	return (const char *const *)a->kc->impersonate;
}

bool
k8sauth_refused(struct k8sauth *a, unsigned long generation)
{
	struct error ignored;

	if (a->generation != generation)
		return true;
	if (a->has_plugin)
		return a->plugin.refused = true;
	return a->kc->token_file != NULL && token_refresh(a, &ignored) == 0;
}
