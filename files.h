/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files - the pod's files below one directory, as sandboxd's REST has them
 * (contract: agent-sandbox 3.5 and 3.6), without HTTP.
 *
 * A path is what the URL said, decoded. Links are followed while they stay
 * below the root. That keeps mistakes out, not attacks: the commands that run
 * here have the same rights as we do.
 *
 * Errors: ERR_INPUT (400), ERR_DENIED (403), ERR_GONE (404), ERR_CONFLICT
 * (409), ERR_LIMIT (416), anything else is 500.
 */
#ifndef FILES_H
#define FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <mbedtls/sha256.h>

struct buf;
struct error;
struct stat;

enum { FILES_PATH = 4096 };

struct files {
	char root[FILES_PATH];	/* resolved */
	/* Where relative paths begin: the root, or if that is all there is,
	 * the working directory. */
	char home[FILES_PATH];
};

struct files_view {
	bool is_dir;
	int fd;			/* of a file, the caller's; -1 otherwise */
	int64_t size, mtime;
};

struct files_put {
	int fd;			/* -1: none */
	char path[FILES_PATH];
	char temp[FILES_PATH + 32];	/* "": written in place */
	int64_t at;		/* where the next piece goes */
	int64_t size;		/* of the file, after files_put_end() */
	unsigned char sum[32];	/* SHA-256 of what was given, then too */
	mbedtls_sha256_context digest;
};

int files_init(struct files *f, const char *root, struct error *err);

/* A file opened, or a directory's listing put into out (if not NULL). */
int files_get(const struct files *f, const char *path, struct files_view *v,
    struct buf *out, struct error *err);

/*
 * mode: -1 for the one that is there, or 0644. offset: -1 to replace the file
 * when it is whole, -2 to append, else the place to write at, which is not
 * beyond its end (ERR_LIMIT). Either files_put_end() or files_put_abort()
 * ends what has begun.
 */
int files_put(const struct files *f, const char *path, long mode,
    int64_t offset, struct files_put *put, struct error *err);
int files_put_data(struct files_put *put, const void *data, size_t len,
    struct error *err);
int files_put_end(struct files_put *put, struct error *err);
void files_put_abort(struct files_put *put);

/* What is there; a link is told as one. */
int files_stat(const struct files *f, const char *path, struct stat *st,
    struct error *err);
/* ERR_CONFLICT: to is a directory, or is there and overwrite is not set. */
int files_move(const struct files *f, const char *path, const char *to,
    bool overwrite, struct error *err);
int files_delete(const struct files *f, const char *path, bool recursive,
    struct error *err);

/*
 * One range of a Range field over size bytes: 1 and first and len; 0 if the
 * field is to be ignored; -1 if it can't be satisfied (RFC 9110 14.1.2).
 */
int files_range(const char *field, int64_t size, int64_t *first,
    int64_t *len);

#endif
