/* SPDX-License-Identifier: Apache-2.0 */
/*
 * errand - requests whose answer nobody waits for: to note an activity, to
 * take away what is over. What fails is for gc to find.
 */
#ifndef ERRAND_H
#define ERRAND_H

#include <stdbool.h>

struct env;
struct errands;
struct pod;

struct errands *errands_open(struct env *env);	/* NULL: no memory */
void errands_close(struct errands *es);		/* NULL is fine */
bool errands_done(const struct errands *es);

void errand_send(struct errands *es, const char *method, const char *path,
    const char *body);
/* Delete this very pod. grace: seconds, -1: its own. */
void errand_delete(struct errands *es, const char *namespace,
    const struct pod *pod, long grace);
/* Make a warm pod and stay with it until it can be claimed. */
void errand_warm(struct errands *es, const char *namespace);

#endif
