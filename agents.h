/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agents - the agents that the program carries, one an architecture, packed by
 * gzip.
 */
#ifndef AGENTS_H
#define AGENTS_H

#include <stddef.h>

/* machine: as uname -m says it. NULL: this build has none for it. */
const void *agents_find(const char *machine, size_t *len);

#endif
