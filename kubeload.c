/* SPDX-License-Identifier: Apache-2.0 */
/* The part of kubeconfig that finds and reads the files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "file.h"
#include "kubeconfig.h"

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

static int
load_file(struct kubeconfig *kc, const char *path, const char *context,
    struct error *err)
{
	char *absolute, *text = NULL;
	struct stat st;
	size_t len;
	int r = -1;

	if ((absolute = path_absolute(path)) == NULL)
		return error_sys(err, path);
	if ((text = file_read(NULL, absolute, &len, err)) != NULL)
		r = kubeconfig_parse(kc, absolute, text, len, context,
		    file_read, NULL, err);
	if (r == 0) {
		public_ca(kc);
		kc->warn_mode = stat(absolute, &st) == 0 &&
		    (st.st_mode & (S_IRGRP | S_IROTH)) != 0;
	}
	if (text != NULL)
		explicit_bzero(text, len);
	free(text);
	free(absolute);
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
	return r;
}

/*
 * The first file of a list that exists; kubectl merges them, we do not. 1:
 * the list has no names. A list of names without a file is an error, for who
 * sets it means it.
 */
static int
load_list(struct kubeconfig *kc, const char *list, const char *context,
    struct error *err)
{
	const char *at, *end;
	char *path;
	int r = 1;

	for (at = list; *at != '\0'; at = *end != '\0' ? end + 1 : end) {
		end = at + strcspn(at, ":");
		if (end == at)
			continue;
		if ((path = strndup(at, (size_t)(end - at))) == NULL)
			return error_sys(err, "$KUBECONFIG");
		r = file_there(path) ? load_file(kc, path, context, err) : -2;
		free(path);
		if (r != -2)
			return r;
	}
	if (r == -2)
		return error_set(err, ERR_CONFIG,
		    "$KUBECONFIG names no file that exists: %s", list);
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
		kc->warn_mode = false;
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
