/* SPDX-License-Identifier: Apache-2.0 */
/* warm - one more pod for the pool, made and ready to be claimed. */
#ifndef WARM_H
#define WARM_H

#include "event.h"

struct env;
struct pod;
struct warm;

/* EVENT_END: its agent answers, or err; what was made is removed then. */
struct warm *warm_start(struct env *env, const char *namespace, event_fn *fn,
    void *arg);				/* NULL: no memory */
/* The same for one that somebody made and left before it was ready. */
struct warm *warm_go_on(struct env *env, const char *namespace,
    const struct pod *pod, event_fn *fn, void *arg);
const char *warm_name(const struct warm *w);
void warm_close(struct warm *w);	/* NULL is fine; removes nothing */

#endif
