/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kubeconfig - where the cluster is and who we are.
 *
 * Everything is read into memory here, before the confinement: the file (YAML
 * or JSON; client-go's kubeconfig v1), what it points to (relative to it),
 * or the pod's service account. Unsupported or unreadable entries are errors
 * that name file and line. Order: path given > $CREDENTIALS_DIRECTORY/
 * kubeconfig (systemd's LoadCredential=) > the files of $KUBECONFIG, merged >
 * service account, if its files are there and no context is asked for >
 * ~/.kube/config.
 */
#ifndef KUBECONFIG_H
#define KUBECONFIG_H

#include <stdbool.h>
#include <stddef.h>

struct error;

/* A credential plugin (client.authentication.k8s.io). */
struct kubeconfig_exec {
	char *command;		/* absolute, or to be found in $PATH */
	char *version;		/* "client.authentication.k8s.io/v1" or so */
	char **argv;		/* of the command, itself first */
	char **env;		/* "NAME=value", KUBERNETES_EXEC_INFO last */
	char *hint;		/* how to install it, or NULL */
	long ms;		/* for a run */
};

struct kubeconfig {
	char *source;		/* the context's file, or "service account" */
	char *server;		/* "https://host:port[/path]", no slash at the
				 * end; http:// means: warn */
	char *host;		/* without brackets */
	char *port;
	char *ca;		/* PEM; the system's if the file names none;
				 * NULL: neither */
	char *cert, *key;	/* PEM, or NULL */
	char *token;		/* or NULL */
	char *token_file;	/* where token is from, re-read as it rotates;
				 * absolute; or NULL */
	char *basic;		/* "user:password" in base64, or NULL */
	char **impersonate;	/* "Impersonate-...: value", or NULL */
	struct kubeconfig_exec *exec;	/* or NULL */
	char *tls_name;		/* tls-server-name, or NULL */
	char *proxy;		/* proxy.h's URL, or NULL */
	char *proxy_ca;		/* PEM, for an https proxy; or NULL */
	char *user;		/* as the file calls it; "": anonymous */
	char *context;
	char *namespace;	/* the context's, or "default" */
	char *readable;		/* a file of ours that others may read */
	int left_out;		/* authorities of ca that can't be used */
	bool insecure;
};

/* path and context may be NULL. */
int kubeconfig_load(struct kubeconfig *kc, const char *path,
    const char *context, struct error *err);
void kubeconfig_free(struct kubeconfig *kc);	/* credentials are wiped */

/* Is it one? Errors don't quote it. */
int kubeconfig_token(const char *token, struct error *err);

/* One of several files. */
struct kubeconfig_text {
	const char *name, *text;
	size_t len;
};

/* The text of a kubeconfig, without I/O but for the files it names, which are
 * read with read_file() (NULL: not allowed). For tests and fuzzing. */
typedef char *kubeconfig_read(void *arg, const char *path, size_t *len,
    struct error *err);
int kubeconfig_parse(struct kubeconfig *kc, const char *name, const char *text,
    size_t len, const char *context, kubeconfig_read *read_file, void *arg,
    struct error *err);
/*
 * Several, as kubectl merges them: of entries with one name the first file's
 * counts, whole; current-context is the first that is set; a blank file is
 * none.
 */
int kubeconfig_merge(struct kubeconfig *kc, const struct kubeconfig_text *files,
    size_t n, const char *context, kubeconfig_read *read_file, void *arg,
    struct error *err);

#endif
