/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "budget.h"
#include "buf.h"
#include "error.h"
#include "files.h"
#include "jsonw.h"

enum { DEPTH = 16 };		/* directories open at once by nftw(3) */

/* The reason in errno, with the code that becomes the status. */
static int
refuse(struct error *err, const char *path)
{
	enum error_code code = ERR_SYSTEM;

	switch (errno) {
	case ENOENT:
		code = ERR_GONE;
		break;
	case EACCES:
	case EPERM:
	case EROFS:
		code = ERR_DENIED;
		break;
	case ENOTEMPTY:
	case EEXIST:
		code = ERR_CONFLICT;
		break;
	case EISDIR:
	case ENAMETOOLONG:
	case EINVAL:
		code = ERR_INPUT;
		break;
	case ELOOP:
		return error_set(err, ERR_GONE,
		    "%s: a link that leads nowhere", path);
	default:
		break;
	}
	return error_set(err, code, "%s: %s", path, strerror(errno));
}

int
files_init(struct files *f, const char *root, struct error *err)
{
	char *real = realpath(root, NULL);
	struct stat st;

	if (real == NULL)
		return error_sys(err, root);
	if (stat(real, &st) == -1 || !S_ISDIR(st.st_mode) ||
	    strlen(real) >= sizeof(f->root)) {
		free(real);
		return error_set(err, ERR_CONFIG, "%s: not a directory", root);
	}
	/* So that root and "/path" make a path. */
	(void)snprintf(f->root, sizeof(f->root), "%s",
	    strcmp(real, "/") == 0 ? "" : real);
	free(real);
	(void)snprintf(f->home, sizeof(f->home), "%s", f->root);
	if (f->root[0] != '\0' || (real = getcwd(NULL, 0)) == NULL)
		return 0;
	if (strcmp(real, "/") != 0 && strlen(real) < sizeof(f->home))
		(void)snprintf(f->home, sizeof(f->home), "%s", real);
	free(real);
	return 0;
}

/* dst/part, cleaned: -1 when it does not fit or ".." goes above floor. */
static int
clean(char *dst, size_t size, size_t floor, bool absolute, const char *path)
{
	size_t n, len = strlen(dst);

	for (; *path != '\0'; path += n) {
		path += strspn(path, "/");
		n = strcspn(path, "/");
		if (n == 0 || (n == 1 && path[0] == '.'))
			continue;
		if (n == 2 && path[0] == '.' && path[1] == '.') {
			if (len == floor && !absolute)
				return -1;
			while (len > floor && dst[--len] != '/')
				continue;
			dst[len] = '\0';
			continue;
		}
		if (len + n + 2 > size)
			return -1;
		dst[len++] = '/';
		memcpy(dst + len, path, n);
		dst[len += n] = '\0';
	}
	return 0;
}

static bool
is_below(const struct files *f, const char *path)
{
	size_t n = strlen(f->root);

	return strncmp(path, f->root, n) == 0 &&
	    (path[n] == '/' || path[n] == '\0');
}

static int
leaves(struct error *err, const char *path)
{
	return error_set(err, ERR_DENIED, "%s: outside of the root", path);
}

/* The links of the nearest ancestor that is there are resolved. */
static int
follow(const struct files *f, const char *path, char *dst, struct error *err)
{
	char there[FILES_PATH], *real, *cut;
	int r;

	(void)snprintf(there, sizeof(there), "%s", dst);
	while ((real = realpath(there[0] != '\0' ? there : "/", NULL)) ==
	    NULL) {
		if (errno != ENOENT || (cut = strrchr(there, '/')) == NULL)
			return refuse(err, path);
		*cut = '\0';
	}
	cut = dst + strlen(there);
	r = snprintf(there, sizeof(there), "%s%s",
	    strcmp(real, "/") == 0 ? "" : real, cut);
	free(real);
	if (r < 0 || (size_t)r >= sizeof(there)) {
		errno = ENAMETOOLONG;
		return refuse(err, path);
	}
	if (!is_below(f, there))
		return leaves(err, path);
	memcpy(dst, there, (size_t)r + 1);
	return 0;
}

/* follow_last: the path's own link as well, not only those on the way. */
static int
resolve(const struct files *f, const char *path, char dst[FILES_PATH],
    bool follow_last, struct error *err)
{
	char last[FILES_PATH], *slash;
	size_t floor = strlen(f->root);

	dst[0] = '\0';
	if (path[0] == '/' && clean(dst, FILES_PATH, 0, true, path) == -1) {
		errno = ENAMETOOLONG;
		return refuse(err, path);
	}
	if (path[0] != '/' || !is_below(f, dst)) {
		(void)snprintf(dst, FILES_PATH, "%s", path[0] == '/' ?
		    f->root : f->home);
		if (clean(dst, FILES_PATH, floor, path[0] == '/', path) == -1)
			return leaves(err, path);
	}
	if (follow_last || strcmp(dst, f->root) == 0)
		return follow(f, path, dst, err);
	slash = strrchr(dst, '/');
	(void)snprintf(last, sizeof(last), "%s", slash);
	*slash = '\0';
	if (follow(f, path, dst, err) == -1)
		return -1;
	if (strlen(dst) + strlen(last) >= FILES_PATH) {
		errno = ENAMETOOLONG;
		return refuse(err, path);
	}
	memcpy(dst + strlen(dst), last, strlen(last) + 1);
	return 0;
}

/* open(2)'s view of it: the root of all is "" here. */
static const char *
name_of(const char *path)
{
	return path[0] != '\0' ? path : "/";
}

/* --- reading -------------------------------------------------------------- */

static int
by_name(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

static void
entry(const struct files *f, const char *dir, const char *name,
    struct jsonw *w)
{
	char path[FILES_PATH], when[80], mode[8], *real;
	struct stat st;
	struct tm tm;
	bool inside;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) >=
	    sizeof(path) || (real = realpath(path, NULL)) == NULL)
		return;
	inside = is_below(f, real) && stat(real, &st) == 0;
	free(real);
	if (!inside || gmtime_r(&st.st_mtime, &tm) == NULL)
		return;
	(void)snprintf(when, sizeof(when), "%04d-%02d-%02dT%02d:%02d:%02dZ",
	    tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
	    tm.tm_min, tm.tm_sec);
	(void)snprintf(mode, sizeof(mode), "0%03o",
	    (unsigned)st.st_mode & 0777);
	jsonw_object(w, NULL);
	jsonw_bytes(w, "name", name, strlen(name));
	jsonw_int(w, "size", (long)st.st_size);
	jsonw_str(w, "type", S_ISDIR(st.st_mode) ? "directory" : "file");
	jsonw_str(w, "modified_at", when);
	jsonw_str(w, "mode", mode);
	jsonw_end(w);
}

static size_t
read_names(DIR *dir, char ***names)
{
	const struct dirent *e;
	size_t n = 0, cap = 0;
	char **more;

	while ((e = readdir(dir)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 ||
		    strcmp(e->d_name, "..") == 0)
			continue;
		if (n == cap) {
			cap = cap > 0 ? cap * 2 : 64;
			more = realloc(*names, cap * sizeof(*more));
			if (more == NULL)
				break;
			*names = more;
		}
		if (((*names)[n] = strdup(e->d_name)) == NULL)
			break;
		n++;
	}
	/* Half a listing would look like a whole one. */
	if (e != NULL)
		errno = ENOMEM;
	return n;
}

static int
list(const struct files *f, const char *path, const char *dir,
    struct buf *out, struct error *err)
{
	DIR *d = opendir(name_of(dir));
	char **names = NULL, shown[FILES_PATH + 2];
	struct jsonw w;
	size_t i, n;
	bool ok;

	if (d == NULL)
		return refuse(err, path);
	errno = 0;
	n = read_names(d, &names);
	ok = errno == 0;
	closedir(d);
	if (n > 0)
		qsort(names, n, sizeof(*names), by_name);
	(void)snprintf(shown, sizeof(shown), "%s%s", path[0] == '/' ? "" : "/",
	    path);
	jsonw_init(&w, out);
	jsonw_object(&w, NULL);
	jsonw_bytes(&w, "path", shown, strlen(shown));
	jsonw_array(&w, "entries");
	for (i = 0; i < n; i++) {
		entry(f, dir, names[i], &w);
		free(names[i]);
	}
	free(names);
	jsonw_end(&w);
	jsonw_end(&w);
	buf_puts(out, "\n");
	if (!ok || !buf_ok(out))
		return error_set(err, ERR_SYSTEM, "%s: %zu entries are too "
		    "many to list", path, n);
	return 0;
}

int
files_get(const struct files *f, const char *path, struct files_view *v,
    struct buf *out, struct error *err)
{
	char real[FILES_PATH];
	struct stat st;

	*v = (struct files_view){ .fd = -1 };
	if (resolve(f, path, real, true, err) == -1)
		return -1;
	v->fd = open(name_of(real), O_RDONLY | O_NONBLOCK | O_NOFOLLOW |
	    O_NOCTTY | O_CLOEXEC);
	if (v->fd == -1 || fstat(v->fd, &st) == -1)
		return refuse(err, path);
	v->size = st.st_size;
	v->mtime = st.st_mtime;
	v->is_dir = S_ISDIR(st.st_mode);
	if (S_ISREG(st.st_mode))
		return 0;
	close(v->fd);
	v->fd = -1;
	if (!v->is_dir)
		return error_set(err, ERR_INPUT, "%s: not a regular file",
		    path);
	return out != NULL ? list(f, path, real, out, err) : 0;
}

/* --- writing -------------------------------------------------------------- */

static int
make_parents(char *path)
{
	char *p;

	for (p = path + 1; (p = strchr(p, '/')) != NULL; p++) {
		*p = '\0';
		if (mkdir(path, 0755) == -1 && errno != EEXIST)
			return -1;
		*p = '/';
	}
	return 0;
}

static int
open_temp(struct files_put *put)
{
	const char *slash = strrchr(put->path, '/');

	(void)snprintf(put->temp, sizeof(put->temp),
	    "%.*s/.mcp-sandbox-tmp-XXXXXX", (int)(slash - put->path),
	    put->path);
	if ((put->fd = mkostemp(put->temp, O_CLOEXEC)) == -1)
		put->temp[0] = '\0';
	return put->fd;
}

int
files_put(const struct files *f, const char *path, long mode,
    int64_t offset, struct files_put *put, struct error *err)
{
	struct stat st = { 0 };
	bool there;

	*put = (struct files_put){ .fd = -1 };
	if (resolve(f, path, put->path, true, err) == -1)
		return -1;
	there = stat(name_of(put->path), &st) == 0;
	if (put->path[0] == '\0' || (there && S_ISDIR(st.st_mode)) ||
	    (path[0] != '\0' && path[strlen(path) - 1] == '/'))
		return error_set(err, ERR_INPUT, "%s: a directory", path);
	if (there && !S_ISREG(st.st_mode))
		return error_set(err, ERR_INPUT, "%s: not a regular file",
		    path);
	if (offset > st.st_size)
		return error_set(err, ERR_LIMIT, "offset %" PRId64 " is beyond "
		    "the end of %s, which has %" PRId64 " bytes", offset, path,
		    (int64_t)st.st_size);
	if (make_parents(put->path) == -1)
		return refuse(err, path);
	if (offset == -1)
		(void)open_temp(put);
	else
		put->fd = open(put->path, O_WRONLY | O_CREAT | O_NOFOLLOW |
		    O_CLOEXEC, 0644);
	if (put->fd == -1)
		return refuse(err, path);
	if (mode == -1 && !(there && offset != -1))
		mode = there ? (long)(st.st_mode & 0777) : 0644;
	if (mode != -1 && fchmod(put->fd, (mode_t)mode) == -1 && !there) {
		(void)refuse(err, path);
		files_put_abort(put);
		return -1;
	}
	put->at = offset == -1 ? 0 : offset == -2 ? st.st_size : offset;
	mbedtls_sha256_init(&put->digest);
	(void)mbedtls_sha256_starts(&put->digest, 0);
	return 0;
}

int
files_put_data(struct files_put *put, const void *data, size_t len,
    struct error *err)
{
	const char *p = data;
	ssize_t n;

	(void)mbedtls_sha256_update(&put->digest, data, len);
	while (len > 0) {
		n = pwrite(put->fd, p, len, (off_t)put->at);
		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0) {
			if (n == 0)
				errno = EIO;
			return refuse(err, put->path);
		}
		p += n;
		put->at += n;
		len -= (size_t)n;
	}
	return 0;
}

int
files_put_end(struct files_put *put, struct error *err)
{
	struct stat st;

	if (fsync(put->fd) == -1 || fstat(put->fd, &st) == -1 ||
	    (put->temp[0] != '\0' && rename(put->temp, put->path) == -1)) {
		(void)refuse(err, put->path);
		files_put_abort(put);
		return -1;
	}
	put->size = st.st_size;
	(void)mbedtls_sha256_finish(&put->digest, put->sum);
	put->temp[0] = '\0';
	files_put_abort(put);
	return 0;
}

void
files_put_abort(struct files_put *put)
{
	if (put->fd == -1)
		return;
	close(put->fd);
	put->fd = -1;
	if (put->temp[0] != '\0')
		(void)unlink(put->temp);
	put->temp[0] = '\0';
}

/* --- looking and moving --------------------------------------------------- */

int
files_stat(const struct files *f, const char *path, struct stat *st,
    struct error *err)
{
	char real[FILES_PATH];

	if (resolve(f, path, real, false, err) == -1)
		return -1;
	return lstat(name_of(real), st) == -1 ? refuse(err, path) : 0;
}

int
files_move(const struct files *f, const char *path, const char *to,
    bool overwrite, struct error *err)
{
	char from[FILES_PATH], dst[FILES_PATH];
	struct stat st;

	if (resolve(f, path, from, false, err) == -1 ||
	    resolve(f, to, dst, false, err) == -1)
		return -1;
	if (lstat(name_of(from), &st) == -1)
		return refuse(err, path);
	if (stat(name_of(dst), &st) == 0 && S_ISDIR(st.st_mode))
		return error_set(err, ERR_CONFLICT, "%s: is a directory", to);
	if (!overwrite && lstat(name_of(dst), &st) == 0)
		return error_set(err, ERR_CONFLICT, "%s: is there already",
		    to);
	if (make_parents(dst) == 0 && rename(name_of(from), dst) == 0)
		return 0;
	if (errno == EXDEV)
		return error_set(err, ERR_CONFLICT, "%s: on another file "
		    "system than %s, where only mv copies it", to, path);
	return refuse(err, to);
}

/* --- deleting ------------------------------------------------------------- */

static int
delete_one(const char *path, const struct stat *st, int kind,
    struct FTW *place)
{
	(void)st;
	(void)kind;
	/* The root itself stays. */
	return place->level == 0 ? 0 : remove(path);
}

static int
delete_tree(const char *path)
{
	return nftw(name_of(path), delete_one, DEPTH,
	    FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

int
files_delete(const struct files *f, const char *path, bool recursive,
    struct error *err)
{
	char real[FILES_PATH];
	struct stat st;
	bool is_root;

	if (resolve(f, path, real, false, err) == -1)
		return -1;
	is_root = strcmp(real, f->root) == 0;
	if (lstat(name_of(real), &st) == -1)
		return refuse(err, path);
	if (is_root && !recursive)
		return error_set(err, ERR_CONFLICT,
		    "%s: the root, only recursive=true clears it", path);
	if (S_ISDIR(st.st_mode) && recursive && delete_tree(real) == -1)
		return refuse(err, path);
	if (is_root || remove(real) == 0)
		return 0;
	if (errno == ENOTEMPTY || errno == EEXIST)
		return error_set(err, ERR_CONFLICT,
		    "%s: not empty, recursive=true deletes all of it", path);
	return refuse(err, path);
}

/* --- ranges --------------------------------------------------------------- */

static bool
number(const char **p, int64_t *n)
{
	size_t len = strspn(*p, "0123456789");

	if (len == 0 || len > 18)
		return false;
	for (*n = 0; len > 0; len--)
		*n = *n * 10 + (*(*p)++ - '0');
	return true;
}

int
files_range(const char *field, int64_t size, int64_t *first, int64_t *len)
{
	int64_t a, b = INT64_MAX;
	const char *p = field;

	if (strncmp(p, "bytes=", 6) != 0)
		return 0;
	p += 6;
	if (*p == '-') {
		p++;
		if (!number(&p, &b) || *p != '\0')
			return 0;
		a = b < size ? size - b : 0;
		if (b == 0)
			a = size;
		b = size - 1;
	} else {
		if (!number(&p, &a) || *p++ != '-' ||
		    (*p != '\0' && !number(&p, &b)) || *p != '\0' || b < a)
			return 0;
	}
	if (a >= size)
		return -1;
	*first = a;
	*len = (b < size ? b + 1 : size) - a;
	return 1;
}
