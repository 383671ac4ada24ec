/* SPDX-License-Identifier: Apache-2.0 */
/* file - a small file into memory, before the confinement forbids it. */
#ifndef FILE_H
#define FILE_H

#include <stdbool.h>
#include <stddef.h>

struct error;

/*
 * A regular file of at most LIMIT_KUBECONFIG bytes, with a NUL after them;
 * free() it, credentials wiped first. NULL: ERR_CONFIG names the path. arg is
 * not used; it makes this a kubeconfig_read function.
 */
char *file_read(void *arg, const char *path, size_t *len, struct error *err);
/* Is something there, be it unreadable? */
bool file_there(const char *path);
/* The certificates a distribution trusts, or NULL. */
char *file_public_ca(void);

#endif
