/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "buf.h"
#include "error.h"
#include "path.h"

/* Where the last part of the len bytes that are done begins. */
static size_t
parent(const char *path, size_t root, size_t len)
{
	while (len > root && path[len - 1] != '/')
		len--;
	return len > root ? len - 1 : root;
}

int
path_clean(char *path)
{
	size_t root = path[0] == '/', out = root, n;
	const char *p = path + root;

	for (; *p != '\0'; p += n + (p[n] == '/')) {
		n = strcspn(p, "/");
		if (n == 0 || (n == 1 && p[0] == '.'))
			continue;
		if (n == 2 && p[0] == '.' && p[1] == '.') {
			if (out == 0)
				return -1;
			out = parent(path, root, out);
			continue;
		}
		if (out > root)
			path[out++] = '/';
		memmove(path + out, p, n);
		out += n;
	}
	if (out == 0)
		path[out++] = '.';
	path[out] = '\0';
	return 0;
}

int
path_read(const char *name, struct json v, char *dst, struct error *err)
{
	if (json_type(v) == JSON_STRING && json_bytes(v) == 0)
		return error_set(err, ERR_INPUT, "%s cannot be empty.", name);
	if (!json_str(v, dst, PATH_SIZE))
		return error_set(err, ERR_INPUT, "%s is longer than %d bytes "
		    "or holds a NUL character, which no name can", name,
		    LIMIT_PATH);
	if (path_clean(dst) == -1)
		return error_set(err, ERR_INPUT, "%s '%.200s' escapes the "
		    "sandbox root.", name, dst);
	return 0;
}

bool
path_is_root(const char *path)
{
	return strcmp(path, ".") == 0 || strcmp(path, "/") == 0;
}

void
path_escape(struct buf *out, const char *path, bool twice)
{
	for (; *path != '\0'; path++) {
		int c = (unsigned char)*path;

		/* A lone dot is folded away by what is in between. */
		if (isalnum(c) || c == '-' || c == '_' || c == '~' ||
		    (c == '.' && path[1] != '\0'))
			buf_put(out, path, 1);
		else if (c == '%' && twice)
			buf_puts(out, "%2525");
		else
			buf_printf(out, "%%%02X", (unsigned)c);
	}
}
