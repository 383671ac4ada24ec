/* SPDX-License-Identifier: Apache-2.0 */
/*
 * k8sauth - who we are, request by request.
 *
 * A fixed token or password, a token file that is read again when it is older
 * than a minute, and on 401; what a credential plugin prints, asked for before
 * it expires, and on 401; and whom we impersonate. A generation counts how
 * often the credentials have changed.
 */
#ifndef K8SAUTH_H
#define K8SAUTH_H

#include <stdbool.h>

#include "loop.h"

struct error;
struct k8sauth;
struct kubeconfig;
struct plugin;
struct web_tls;

/* kc is borrowed. */
struct k8sauth *k8sauth_open(struct loop *l, const struct kubeconfig *kc,
    struct error *err);
void k8sauth_close(struct k8sauth *a);
/* Credentials come from p, which is not needed any more afterwards. Waits for
 * the first ones. */
int k8sauth_plugin(struct k8sauth *a, struct plugin *p, struct error *err);
const struct web_tls *k8sauth_tls(const struct k8sauth *a);

/*
 * *field: "Authorization: ...", or NULL when there is none; the caller's to
 * wipe and free. -1: no memory, or there are no credentials to be had.
 */
int k8sauth_field(struct k8sauth *a, char **field, unsigned long *generation,
    struct error *err);
/* "Impersonate-...: value", NULL at the end; or NULL. */
const char *const *k8sauth_impersonate(const struct k8sauth *a);

/* Those of this generation were refused (401). true: it may be tried again. */
bool k8sauth_refused(struct k8sauth *a, unsigned long generation);

/*
 * Are new credentials needed first, and asked for? Then fn is called, once,
 * when k8sauth_field() can tell more, or ms are over. NULL: not so.
 */
struct k8s_wait;
struct k8s_wait *k8sauth_await(struct k8sauth *a, long ms, loop_due *fn,
    void *arg);
void k8s_wait_cancel(struct k8s_wait *w);	/* NULL is fine */

#endif
