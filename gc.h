/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gc - "mcp-sandbox gc": what is over goes, the warm pool is filled.
 *
 * Sessions without activity for the idle time, pods that ended, warm pods
 * older than twice the idle time, Secrets without a pod. Every object is
 * deleted as it was seen: one that changed meanwhile (claimed, used) stays.
 * So it may run any number of times at once; where two have filled the pool,
 * the surplus goes again, the same pods whoever looks.
 */
#ifndef GC_H
#define GC_H

struct env;
struct error;

/* What was done goes to fd, a line each. 0; 2: something could not be done,
 * which the log names; -1: err says why nothing was done. */
int gc_run(struct env *env, const char *namespace, int fd, struct error *err);

#endif
