/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "budget.h"
#include "buf.h"
#include "error.h"
#include "file.h"

static int
fd_read(int fd, struct buf *out)
{
	char part[4096];
	ssize_t n;

	while ((n = read(fd, part, sizeof(part))) > 0)
		buf_put(out, part, (size_t)n);
	buf_put(out, "", 0);
	explicit_bzero(part, sizeof(part));
	return n == 0 ? 0 : -1;
}

/*
 * O_NONBLOCK because opening a FIFO waits for its writer; what is not a
 * regular file is refused then.
 */
char *
file_read(void *arg, const char *path, size_t *len, struct error *err)
{
	struct stat st;
	struct buf out;
	int fd;

	(void)arg;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd == -1) {
		error_set(err, ERR_CONFIG, "%s: %s", path, strerror(errno));
		return NULL;
	}
	buf_init(&out, LIMIT_KUBECONFIG);
	if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
		error_set(err, ERR_CONFIG, "%s: not a regular file", path);
	else if (fd_read(fd, &out) == -1)
		error_sys(err, path);
	else if (!buf_ok(&out))
		error_set(err, ERR_LIMIT, "%s: larger than %d bytes", path,
		    LIMIT_KUBECONFIG);
	else {
		close(fd);
		*len = out.len;
		return out.data;
	}
	close(fd);
	buf_wipe(&out);
	return NULL;
}

bool
file_there(const char *path)
{
	return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

char *
file_public_ca(void)
{
	const char *const paths[] = { getenv("SSL_CERT_FILE"),
	    "/etc/ssl/certs/ca-certificates.crt",
	    "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem" };
	struct error ignored;
	char *text = NULL;
	size_t i, len;

	for (i = 0; text == NULL && i < sizeof(paths) / sizeof(*paths); i++)
		if (paths[i] != NULL)
			text = file_read(NULL, paths[i], &len, &ignored);
	return text;
}
