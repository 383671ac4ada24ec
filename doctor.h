/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor - "mcp-sandbox check": can this configuration do its work here?
 *
 * A line for each thing looked at: the API server, what it serves, each
 * family's rights in its namespaces (SelfSubjectAccessReview,
 * authorization.k8s.io/v1) and its pools. Nothing is made or changed.
 */
#ifndef DOCTOR_H
#define DOCTOR_H

struct env;
struct kubeconfig;

/* Lines go to fd. 0; EX_UNAVAILABLE (69): something is not there;
 * EX_NOPERM (77): a right is missing. */
int doctor_run(struct env *env, const struct kubeconfig *kc,
    unsigned families, int fd);

#endif
