/* SPDX-License-Identifier: Apache-2.0 */
/* The part of kubeconfig that finds and reads the files. */
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "file.h"
#include "kubeconfig.h"
#include "proxy.h"

#define SERVICE_ACCOUNT	"/var/run/secrets/kubernetes.io/serviceaccount"

/*
 * A server that names no CA is meant to have a public certificate, so look
 * where distributions keep theirs. None is fine: verification says so later.
 */
static void
public_ca(struct kubeconfig *kc)
{
	if (kc->ca == NULL && !kc->insecure &&
	    strncmp(kc->server, "https:", 6) == 0)
		kc->ca = file_public_ca();
	if (kc->proxy != NULL && strncmp(kc->proxy, "https:", 6) == 0)
		kc->proxy_ca = file_public_ca();
}

static const char *
either(const char *name, const char *other)
{
	const char *value = getenv(name);

	if (value == NULL || *value == '\0')
		value = getenv(other);
	return value == NULL || *value == '\0' ? NULL : value;
}

/*
 * Where the kubeconfig names no proxy, the environment may, as for client-go:
 * by the scheme of the server's URL. Capital letters win.
 */
static int
environment_proxy(struct kubeconfig *kc, struct error *err)
{
	bool tls = strncmp(kc->server, "https:", 6) == 0;
	const char *url, *except;

	if (kc->proxy != NULL)
		return 0;
	url = either(tls ? "HTTPS_PROXY" : "HTTP_PROXY",
	    tls ? "https_proxy" : "http_proxy");
	except = either("NO_PROXY", "no_proxy");
	if (url == NULL || proxy_excepts(except, kc->host, kc->port))
		return 0;
	if ((kc->proxy = proxy_url(url, err)) != NULL)
		return 0;
	return error_wrap(err, "$%s_PROXY", tls ? "HTTPS" : "HTTP");
}

/* Relative paths in it must not depend on a later chdir(2). */
static char *
path_absolute(const char *path)
{
	char *here, *joined = NULL;

	if (path[0] == '/')
		return strdup(path);
	if ((here = getcwd(NULL, 0)) == NULL)
		return NULL;
	if (asprintf(&joined, "%s/%s", here, path) == -1)
		joined = NULL;
	free(here);
	return joined;
}

/* Files as they are read, names absolute. */
struct files {
	struct kubeconfig_text *all;
	size_t n;
};

static int
files_add(struct files *files, const char *path, struct error *err)
{
	struct kubeconfig_text *more, *file;
	char *absolute = path_absolute(path), *text;
	size_t len;

	if (absolute == NULL)
		return error_sys(err, path);
	text = file_read(NULL, absolute, &len, err);
	more = text == NULL ? NULL : realloc(files->all,
	    (files->n + 1) * sizeof(*more));
	if (more == NULL) {
		if (text != NULL)
			error_sys(err, path);
		free(text);
		free(absolute);
		return -1;
	}
	files->all = more;
	file = &more[files->n++];
	*file = (struct kubeconfig_text){ .name = absolute, .text = text,
	    .len = len };
	return 0;
}

/* The first that others than its owner may read, into kc. */
static void
note_readable(struct kubeconfig *kc, const struct files *files)
{
	struct stat st;
	size_t i;

	for (i = 0; i < files->n && kc->readable == NULL; i++)
		if (stat(files->all[i].name, &st) == 0 &&
		    (st.st_mode & (S_IRGRP | S_IROTH)) != 0)
			kc->readable = strdup(files->all[i].name);
}

/* files is freed. */
static int
files_load(struct kubeconfig *kc, struct files *files, const char *context,
    struct error *err)
{
	int r = kubeconfig_merge(kc, files->all, files->n, context, file_read,
	    NULL, err);

	if (r == 0)
		note_readable(kc, files);
	if (r == 0 && environment_proxy(kc, err) == -1) {
		kubeconfig_free(kc);
		r = -1;
	}
	if (r == 0)
		public_ca(kc);
	return r;
}

static void
files_free(struct files *files)
{
	struct kubeconfig_text *file;

	while (files->n > 0) {
		file = &files->all[--files->n];
		explicit_bzero((void *)(uintptr_t)file->text, file->len);
		free((void *)(uintptr_t)file->text);
		free((void *)(uintptr_t)file->name);
	}
	free(files->all);
}

static int
load_file(struct kubeconfig *kc, const char *path, const char *context,
    struct error *err)
{
	struct files files = { .n = 0 };
	int r = files_add(&files, path, err);

	if (r == 0)
		r = files_load(kc, &files, context, err);
	files_free(&files);
	return r;
}

/*
 * What client-go's rest.InClusterConfig() knows, written down as a kubeconfig
 * so that it is checked like one.
 */
static int
load_account(struct kubeconfig *kc, struct error *err)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");
	bool v6 = strchr(host, ':') != NULL;
	char *namespace, *text;
	size_t len;
	int n, r;

	namespace = file_read(NULL, SERVICE_ACCOUNT "/namespace", &len, err);
	if (namespace == NULL)
		return error_wrap(err, "service account");
	namespace[strcspn(namespace, " \r\n\"\\")] = '\0';
	if (port == NULL || strpbrk(host, "\"\\") != NULL ||
	    strpbrk(port, "\"\\") != NULL) {
		free(namespace);
		return error_set(err, ERR_CONFIG, "service account: "
		    "$KUBERNETES_SERVICE_HOST or _PORT is missing or wrong");
	}
	n = asprintf(&text, "current-context: in-cluster\n"
	    "contexts: [{name: in-cluster, context: {cluster: in-cluster, "
	    "user: service-account, namespace: \"%s\"}}]\n"
	    "clusters: [{name: in-cluster, cluster: {server: "
	    "\"https://%s%s%s:%s\", certificate-authority: %s/ca.crt}}]\n"
	    "users: [{name: service-account, user: {tokenFile: %s/token}}]\n",
	    namespace, v6 ? "[" : "", host, v6 ? "]" : "", port,
	    SERVICE_ACCOUNT, SERVICE_ACCOUNT);
	free(namespace);
	if (n == -1)
		return error_sys(err, "service account");
	r = kubeconfig_parse(kc, "service account", text, (size_t)n, NULL,
	    file_read, NULL, err);
	free(text);
	if (r == 0 && (r = environment_proxy(kc, err)) == -1)
		kubeconfig_free(kc);
	if (r == 0)
		public_ca(kc);
	return r;
}

/*
 * All files of the list that exist, merged. 1: the list has no names. A list
 * of names without a file is an error, for who sets it means it.
 */
static int
load_list(struct kubeconfig *kc, const char *list, const char *context,
    struct error *err)
{
	struct files files = { .n = 0 };
	const char *at, *end;
	bool named = false;
	char *path;
	int r = 0;

	for (at = list; r == 0 && *at != '\0'; at = *end != '\0' ? end + 1 :
	    end) {
		end = at + strcspn(at, ":");
		if (end == at)
			continue;
		named = true;
		if ((path = strndup(at, (size_t)(end - at))) == NULL)
			r = error_sys(err, "$KUBECONFIG");
		else if (file_there(path))
			r = files_add(&files, path, err);
		free(path);
	}
	if (r == 0 && files.n > 0)
		r = files_load(kc, &files, context, err);
	else if (r == 0 && named)
		r = error_set(err, ERR_CONFIG,
		    "$KUBECONFIG names no file that exists: %s", list);
	else if (r == 0)
		r = 1;
	files_free(&files);
	return r;
}

/* $NAME/rest when it exists, else NULL. */
static char *
below(const char *name, const char *rest)
{
	const char *folder = getenv(name);
	char *path;

	if (folder == NULL || folder[0] == '\0' ||
	    asprintf(&path, "%s/%s", folder, rest) == -1)
		return NULL;
	if (file_there(path))
		return path;
	free(path);
	return NULL;
}

int
kubeconfig_load(struct kubeconfig *kc, const char *path, const char *context,
    struct error *err)
{
	const char *list = getenv("KUBECONFIG");
	char *found;
	int r;

	*kc = (struct kubeconfig){ .source = NULL };
	if (path != NULL)
		return load_file(kc, path, context, err);
	if ((found = below("CREDENTIALS_DIRECTORY", "kubeconfig")) != NULL) {
		r = load_file(kc, found, context, err);
		/* systemd grants access by ACL, whose mask looks like 0440. */
		free(kc->readable);
		kc->readable = NULL;
		free(found);
		return r;
	}
	if (list != NULL && (r = load_list(kc, list, context, err)) != 1)
		return r;
	/* A context can only be meant to be one of a file. */
	if (context == NULL && getenv("KUBERNETES_SERVICE_HOST") != NULL &&
	    file_there(SERVICE_ACCOUNT "/token"))
		return load_account(kc, err);
	if ((found = below("HOME", ".kube/config")) != NULL) {
		r = load_file(kc, found, context, err);
		free(found);
		return r;
	}
	return error_set(err, ERR_CONFIG, "no cluster: no kubeconfig was "
	    "given, $KUBECONFIG is empty, this is not a pod with a service "
	    "account, and there is no ~/.kube/config");
}
