/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jobcache - is the cache volume of the settings there? Asked once, before the
 * confinement, so that a missing one stops the start and not every job.
 */
#ifndef JOBCACHE_H
#define JOBCACHE_H

struct env;
struct error;

int jobcache_check(const struct env *env, struct error *err);

#endif
