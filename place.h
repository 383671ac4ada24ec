/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place - where a call works whose arguments do not say: a family's namespace
 * is a setting, and a shell is its session's. For the audit line.
 */
#ifndef PLACE_H
#define PLACE_H

struct call;

struct place {
	const char *namespace, *object;		/* or NULL; borrowed */
};

struct place place_of(const struct call *c);

#endif
