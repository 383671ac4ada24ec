/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path - names of files in a sandbox: any bytes but NUL, kept as they are.
 *
 * The normal form has no empty part, no "." and no "..": "a//b/./c/../d" is
 * "a/b/d". A relative path begins where the runtime does and may not leave
 * there; an absolute one keeps its first slash. "." and "/" are the folders
 * themselves (contract: agent-sandbox 2.7).
 */
#ifndef PATH_H
#define PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "budget.h"
#include "json.h"

struct buf;
struct error;

enum { PATH_SIZE = LIMIT_PATH + 1 };

/* The argument called name, in normal form; dst holds PATH_SIZE bytes. */
int path_read(const char *name, struct json v, char *dst, struct error *err);
/* In place. -1: it leaves the folder it begins in. */
int path_clean(char *path);
bool path_is_root(const char *path);		/* "." or "/" */

/*
 * Percent-encoded, the slashes too, as part of a URL. twice: for a server that
 * decodes twice, so that a '%' of the name survives.
 */
void path_escape(struct buf *out, const char *path, bool twice);

#endif
