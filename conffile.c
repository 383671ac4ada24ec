/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conffile.h"
#include "error.h"
#include "file.h"

#define FOLDER "/etc/mcp-sandbox"

static int
add(struct conffiles *f, struct error *err, const char *folder,
    const char *name)
{
	char *path, *text;
	size_t len;

	if (f->n == CONFFILES)
		return error_set(err, ERR_LIMIT, FOLDER "/conf.d: more than %d "
		    "files", CONFFILES - 2);
	if (asprintf(&path, "%s%s", folder, name) == -1)
		return error_set(err, ERR_SYSTEM, "out of memory");
	f->path[f->n] = path;
	if ((text = file_read(NULL, path, &len, err)) == NULL ||
	    strlen(text) != len) {
		if (text != NULL)
			error_set(err, ERR_CONFIG, "%s: not a text", path);
		free(text);
		free(path);
		return -1;
	}
	f->text[f->n++] = (struct config_text){ path, text };
	return 0;
}

static int
is_conf(const struct dirent *d)
{
	const char *dot = strrchr(d->d_name, '.');

	return d->d_name[0] != '.' && dot != NULL && strcmp(dot, ".conf") == 0;
}

static int
add_folder(struct conffiles *f, struct error *err)
{
	struct dirent **names;
	int n = scandir(FOLDER "/conf.d", &names, is_conf, alphasort), r = 0;

	for (int i = 0; i < n; i++) {
		if (r == 0)
			r = add(f, err, FOLDER "/conf.d/", names[i]->d_name);
		free(names[i]);
	}
	if (n != -1)
		free(names);
	return r;
}

static int
add_own(struct conffiles *f, struct error *err)
{
	const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	const char *rest = "/mcp-sandbox/config";
	char path[4096];

	/* A relative one counts as none (XDG Base Directory). */
	if (base == NULL || *base != '/') {
		base = home;
		rest = "/.config/mcp-sandbox/config";
	}
	if (base == NULL || *base != '/')
		return 0;
	(void)snprintf(path, sizeof(path), "%s%s", base, rest);
	return file_there(path) ? add(f, err, base, rest) : 0;
}

int
conffiles_open(struct conffiles *f, struct error *err)
{
	const char *only = getenv("MCP_SANDBOX_CONFIG");

	f->n = 0;
	if (only != NULL)
		return *only == '\0' ? 0 : add(f, err, only, "");
	if (file_there(FOLDER) &&
	    ((file_there(FOLDER "/config") &&
	    add(f, err, FOLDER, "/config") == -1) ||
	    add_folder(f, err) == -1))
		return -1;
	return add_own(f, err);
}

void
conffiles_close(struct conffiles *f)
{
	while (f->n > 0) {
		f->n--;
		free(f->text[f->n].text);
		free(f->path[f->n]);
	}
}
