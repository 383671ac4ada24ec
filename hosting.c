/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buf.h"
#include "config.h"
#include "digest.h"
#include "env.h"
#include "error.h"
#include "file.h"
#include "front-http.h"
#include "hosting.h"
#include "log.h"
#include "sandbox.h"
#include "session.h"
#include "stats.h"
#include "tls.h"

enum { KEY = 32, PATHS = 20 };

size_t
hosting_keep(struct hosting *h, int keep[LISTENER_MAX])
{
	h->inherited = listener_inherited();
	for (size_t i = 0; i < h->inherited; i++)
		keep[i] = 3 + (int)i;
	return h->inherited;
}

/* --- secrets ------------------------------------------------------------ */

/* Of a file of systemd's LoadCredential=, if it is there. */
static bool
credential_path(const char *name, char *path, size_t size)
{
	const char *folder = getenv("CREDENTIALS_DIRECTORY");

	if (folder == NULL)
		return false;
	(void)snprintf(path, size, "%s/%s", folder, name);
	return file_there(path);
}

static char *
credential(const char *name, size_t *len, struct error *err)
{
	char path[4096];

	return credential_path(name, path, sizeof(path)) ?
	    file_read(NULL, path, len, err) : NULL;
}

static int
key_open(struct hosting *h, unsigned char *key, struct error *err)
{
	const char *path = h->config->http.state_key;
	size_t len;
	char *text = path != NULL ? file_read(NULL, path, &len, err) :
	    credential("state-key", &len, err);
	int r = 0;

	if (text == NULL && path != NULL)
		return -1;
	if (text == NULL)
		return getrandom(key, KEY, 0) == KEY ? 0 :
		    error_sys(err, "getrandom");
	if (len < KEY)
		r = error_set(err, ERR_CONFIG, "--state-key: the file needs "
		    "at least %d bytes", KEY);
	else
		digest_raw(text, len, key);
	explicit_bzero(text, len);
	free(text);
	return r;
}

static int
secrets_open(struct hosting *h, struct error *err)
{
	const struct config *c = h->config;
	const char *secret = getenv("MCP_K8S_AUTH_TOKEN");
	char *file = NULL;
	size_t len = 0;
	int r;

	if (secret == NULL || *secret == '\0') {
		secret = file = credential("auth-token", &len, err);
		if (file != NULL)
			file[strcspn(file, "\r\n")] = '\0';
	}
	if (secret != NULL && *secret == '\0')
		secret = NULL;
	r = auth_open(&h->auth, secret, c->http.tokens, c->http.metadata, err);
	h->auth.review = c->http.review;
	h->auth.session = c->session_id;
	if (file != NULL)
		explicit_bzero(file, len);
	free(file);
	return r;
}

/* Certificate, key and the clients' authority: what is set, or systemd's. */
static int
tls_open(struct hosting *h, struct error *err)
{
	const struct http_settings *s = &h->config->http;
	static const char *const names[] = { "tls-cert", "tls-key",
	    "tls-client-ca" };
	const char *files[] = { s->tls_cert, s->tls_key, s->tls_ca };
	char path[4096];

	for (size_t i = 0; i < 3; i++) {
		if (files[i] != NULL ||
		    !credential_path(names[i], path, sizeof(path)))
			continue;
		if ((h->credentials[i] = strdup(path)) == NULL)
			return error_sys(err, path);
		files[i] = h->credentials[i];
	}
	if (files[0] == NULL && (files[1] != NULL || files[2] != NULL))
		return error_set(err, ERR_CONFIG, "--tls-key and "
		    "--tls-client-ca need --tls-cert");
	if (files[0] != NULL && (h->tls = tls_read(&(struct tls_paths){
	    files[0], files[1], files[2] }, err)) == NULL)
		return -1;
	h->auth.certificates = files[2] != NULL;
	if (auth_names_certificates(&h->auth) && !h->auth.certificates)
		return error_set(err, ERR_CONFIG, "%s: cert: needs "
		    "--tls-client-ca", s->tokens);
	return 0;
}

/* A process of a connection: with what the files hold now. */
static void
tls_again(struct hosting *h)
{
	struct error err;

	if (h->tls != NULL && tls_refresh(&h->tls, &err) == -1)
		log_line(h->log, LOG_WARN, "%s; the certificate read before "
		    "is used", err.text);
}

/* --- sockets ------------------------------------------------------------ */

/* A socket that only we can open, where the system keeps such. */
static int
default_path(struct hosting *h, struct error *err)
{
	const char *folder = getenv("RUNTIME_DIRECTORY");
	bool own = folder == NULL;
	char path[100];
	int n;

	if (own)
		folder = getenv("XDG_RUNTIME_DIR");
	if (folder == NULL || *folder == '\0')
		folder = "/run";
	n = snprintf(path, sizeof(path), "%s%s/mcp.sock", folder,
	    own ? "/mcp-sandbox" : "");
	if (n < 0 || (size_t)n >= sizeof(path))
		return error_set(err, ERR_CONFIG, "%s is too long for a "
		    "socket: use --listen", folder);
	if (own) {
		*strrchr(path, '/') = '\0';
		(void)mkdir(path, 0700);
		path[strlen(path)] = '/';
	}
	if ((h->own = strdup(path)) == NULL)
		return error_sys(err, path);
	return 0;
}

/* The list, split at commas; what it points into lives with us. */
static size_t
addresses(struct hosting *h, const char **all, struct error *err)
{
	const struct http_settings *s = &h->config->http;
	const char *one = h->config->address;
	char *word, *rest = NULL;
	struct buf list;
	size_t n = 0;

	if (s->listen[0] == NULL && one == NULL) {
		if (strcmp(h->config->transport, "stdio") != 0) {
			all[0] = h->meets ? "127.0.0.1:8080" :
			    "127.0.0.1:8000";
			return 1;
		}
		if (default_path(h, err) == -1)
			return 0;
		all[0] = h->own;
		return 1;
	}
	buf_init(&list, 8192);
	for (size_t i = 0; s->listen[i] != NULL; i++)
		buf_printf(&list, "%s,", s->listen[i]);
	if (s->listen[0] == NULL)
		buf_puts(&list, one);
	if (!buf_ok(&list)) {
		buf_free(&list);
		error_set(err, ERR_CONFIG, "--listen: too long");
		return 0;
	}
	h->own = list.data;
	for (word = strtok_r(h->own, ", ", &rest); word != NULL;
	    word = strtok_r(NULL, ", ", &rest)) {
		if (n == LISTENER_MAX) {
			error_set(err, ERR_CONFIG, "--listen: more than %d "
			    "addresses", LISTENER_MAX);
			return 0;
		}
		all[n++] = word;
	}
	if (n == 0)
		error_set(err, ERR_CONFIG, "--listen: no address");
	return n;
}

/* 600 as chmod(1) has it. */
static int
mode_of(long digits, unsigned *mode, struct error *err)
{
	*mode = 0;
	for (long place = 100; place > 0; place /= 10) {
		long d = digits / place % 10;

		if (d > 7)
			return error_set(err, ERR_CONFIG, "--socket-mode: "
			    "'%ld' is not allowed: three digits from 0 to 7",
			    digits);
		*mode = *mode << 3 | (unsigned)d;
	}
	return 0;
}

static int
sockets_open(struct hosting *h, struct error *err)
{
	const char *all[LISTENER_MAX];
	struct listener *l = &h->listener;
	unsigned mode;
	size_t n;

	if (h->inherited > 0) {
		if (listener_take(l, h->inherited, err) == -1)
			return -1;
	} else {
		if (mode_of(h->config->http.socket_mode, &mode, err) == -1 ||
		    (n = addresses(h, all, err)) == 0 ||
		    listener_open(l, all, n, mode, h->log, err) == -1)
			return -1;
	}
	if (l->far && !auth_secret(&h->auth))
		return error_set(err, ERR_CONFIG, "an address that others can "
		    "reach needs a secret: MCP_K8S_AUTH_TOKEN, --auth-tokens, "
		    "--token-review or --tls-client-ca; or listen on 127.0.0.1 "
		    "or a path");
	if (l->near && !auth_secret(&h->auth))
		log_line(h->log, LOG_WARN, "without a secret: every user of "
		    "this machine may call on the loopback address");
	return 0;
}

int
hosting_open(struct hosting *h, const struct config *c, const struct log *log,
    int signals, unsigned char *key, struct error *err)
{
	h->config = c;
	h->log = log;
	h->signals = signals;
	h->listener = (struct listener){ .children = -1, .meet = -1 };
	h->meets = strcmp(c->transport, "sse") == 0;
	h->in = 0;
	if ((c->command != NULL && strcmp(c->command, "serve") == 0) ||
	    (!c->http.one && strcmp(c->transport, "stdio") != 0))
		h->mode = HOSTING_SERVE;
	else if (c->http.one)
		h->mode = HOSTING_ONE;
	if (h->mode != HOSTING_SERVE)
		for (size_t i = 0; i < h->inherited; i++)
			(void)close(3 + (int)i);
	if (key_open(h, key, err) == -1)
		return -1;
	if (h->mode == HOSTING_LINES)
		return 0;
	if (secrets_open(h, err) == -1 || tls_open(h, err) == -1 ||
	    (h->stats = stats_open(err)) == NULL)
		return -1;
	return h->mode == HOSTING_SERVE ? sockets_open(h, err) : 0;
}

void
hosting_close(struct hosting *h)
{
	listener_remove(&h->listener);
	auth_close(&h->auth);
	stats_close(h->stats);
	tls_free(h->tls);
	for (size_t i = 0; i < 3; i++)
		free(h->credentials[i]);
	free(h->own);
	h->tls = NULL;
	h->stats = NULL;
	h->own = NULL;
}

/* --- running ------------------------------------------------------------ */

/* Files that are replaced are found again by way of their folders. */
static size_t
tls_folders(const struct hosting *h, char folders[3][4096],
    const char **there, size_t n)
{
	const struct http_settings *s = &h->config->http;
	const char *const files[] = { s->tls_cert, s->tls_key, s->tls_ca };
	const char *slash;

	for (size_t i = 0; i < 3 && n < PATHS; i++) {
		const char *path = files[i] != NULL ? files[i] :
		    h->credentials[i];

		if (path == NULL)
			continue;
		slash = strrchr(path, '/');
		(void)snprintf(folders[i], sizeof(folders[i]), "%.*s",
		    slash == NULL ? 1 : slash == path ? 1 :
		    (int)(slash - path), slash == NULL ? "." : path);
		there[n++] = folders[i];
	}
	return n;
}

int
hosting_accept(struct hosting *h, const char *const *paths, struct error *err)
{
	const struct http_settings *s = &h->config->http;
	struct listener_how how = {
		.connections = s->connections, .per_source = s->per_source,
		.drain_ms = s->drain_s * 1000, .signals = h->signals,
		.log = h->log, .stats = h->stats, .tls = h->tls != NULL,
		.meets = h->meets,
	};
	/* What a resolver reads comes first. */
	const char *there[PATHS + 1] = { "/etc" };
	const char *sockets[LISTENER_MAX + 1] = { NULL };
	struct sandbox box = { .read_paths = there, .serve = true,
	    .remove_paths = sockets, .stash = h->folder,
	    .debug = h->config->debug_sandbox };
	struct sandbox_state state;
	char folders[3][4096];
	size_t n = 1;
	int r;

	for (; *paths != NULL && n < PATHS; paths++)
		if (file_there(*paths))
			there[n++] = *paths;
	n = tls_folders(h, folders, there, n);
	for (size_t i = 0; i < h->listener.nfiles; i++)
		sockets[i] = h->listener.files[i].path;
	if (sandbox_enter(&box, &state, err) == -1)
		return -1;
	r = listener_serve(&h->listener, &how, &h->in, err);
	h->out = h->in;
	if (r == 1)
		tls_again(h);
	return r;
}

struct ending {
	front_ended *ended;
	void *arg;
};

static void
on_ended(void *arg, const struct event *ev)
{
	struct ending e = *(struct ending *)arg;

	free(arg);
	e.ended(e.arg, ev->err);
}

static int
end_session(const struct env *env, const char *session, front_ended *ended,
    void *arg, struct error *err)
{
	struct ending *e = malloc(sizeof(*e));

	if (e != NULL) {
		e->ended = ended;
		e->arg = arg;
		if (session_end(env->sessions, session, on_ended, e) != NULL)
			return 0;
	}
	free(e);
	return error_set(err, ERR_SYSTEM, "out of memory");
}

int
hosting_run(struct hosting *h, const struct mcp_rows *rows,
    const struct env *env, struct error *err)
{
	const struct http_settings *s = &h->config->http;
	struct front_http f = {
		.loop = env->loop, .rows = rows, .env = env, .auth = &h->auth,
		.stats = h->stats, .log = h->log, .audit = s->audit,
		.hosts = s->hosts, .origins = s->origins,
		.health_namespace = h->config->pod.namespace,
		.drain_ms = s->drain_s * 1000, .in = h->in, .out = h->out,
		.signals = h->signals, .tls = h->tls,
		.meet = h->listener.meet,
	};

	if (env->sessions != NULL && !env->config->read_only &&
	    !env->config->dry_run)
		f.end_session = end_session;
	return front_http(&f, err);
}
