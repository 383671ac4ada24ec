/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fail-alloc - make the n-th allocation of a module fail.
 *
 * Include it, then the module's .c file: what that file defines takes the
 * place of the library's. Works under every sanitizer, as wrapping malloc()
 * itself would not.
 */
#ifndef FAIL_ALLOC_H
#define FAIL_ALLOC_H

#include <stdbool.h>
#include <stdlib.h>

static long alloc_left = -1;	/* how many still succeed; -1: all */

static inline bool
alloc_fails(void)
{
	if (alloc_left == 0)
		return true;
	if (alloc_left > 0)
		alloc_left--;
	return false;
}

static inline void *
fail_malloc(size_t size)
{
	return alloc_fails() ? NULL : malloc(size);
}

static inline void *
fail_calloc(size_t n, size_t size)
{
	return alloc_fails() ? NULL : calloc(n, size);
}

static inline void *
fail_realloc(void *p, size_t size)
{
	return alloc_fails() ? NULL : realloc(p, size);
}

#define malloc	fail_malloc
#define calloc	fail_calloc
#define realloc	fail_realloc

#endif
