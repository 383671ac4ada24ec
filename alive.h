/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alive - "mcp-sandbox ls": what there is in the cluster that this program
 * made, of every session: claims, the pods of bash, jobs.
 */
#ifndef ALIVE_H
#define ALIVE_H

struct env;
struct error;

/*
 * A line each goes to fd, after a line of titles: kind, namespace, name,
 * session ("-": none, a warm pod), age, time left ("-": no end is known),
 * state. 0; -1: a list could not be had, and err says why.
 */
int alive_run(struct env *env, unsigned families, int fd, struct error *err);

#endif
