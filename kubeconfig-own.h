/* SPDX-License-Identifier: Apache-2.0 */
/* kubeconfig-own - what the files of kubeconfig share, and nobody else. */
#ifndef KUBECONFIG_OWN_H
#define KUBECONFIG_OWN_H

#include "kubeconfig.h"
#include "pem.h"
#include "tree.h"

/* All files, and the one that the entry being read is in: a path in it is
 * relative to that one, and no entry has parts of two. */
struct reader {
	const struct tree *trees;
	size_t n;
	const struct tree *tree;
	kubeconfig_read *read_file;
	void *arg;
};

int kube_no_memory(struct error *err);
/* A copy; NULL stays NULL. */
int kube_set(char **to, const char *s, struct error *err);
/* "FILE:LINE: key: " before the error that is there. */
int kube_wrap(const struct reader *r, unsigned node, const char *key,
    struct error *err);
/* The text of KEY-data or of the file that KEY names, checked. */
int kube_pem(const struct reader *r, unsigned map, const char *key,
    enum pem_kind kind, char **to, struct error *err);
/* Overwritten and freed; NULL is fine. */
void kube_wipe(char *s);
void kube_wipe_list(char **list);

/* What the entry of the user (a map of r->tree) makes of kc. cluster is the
 * cluster's, in the file at its_tree. */
int kube_user(struct kubeconfig *kc, const struct reader *r, unsigned user,
    const struct tree *its_tree, unsigned cluster, struct error *err);
/* exec: of a user, as kc->exec. */
int kube_exec(struct kubeconfig *kc, const struct reader *r, unsigned exec,
    const struct tree *its_tree, unsigned cluster, struct error *err);
void kube_exec_free(struct kubeconfig_exec *exec);
/* The text of a path as the file at r->tree means it; free() it. */
char *kube_path(const struct reader *r, const char *path);

#endif
