/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "utf8.h"

void
log_open(struct log *l, enum log_level max)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long dev, ino;
	struct stat st;

	*l = (struct log){ .max = max, .fd = 2 };
	l->journal = stream != NULL &&
	    sscanf(stream, "%lu:%lu", &dev, &ino) == 2 &&
	    fstat(l->fd, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
	/* glibc opens /etc/localtime on first use, even for gmtime_r(). */
	tzset();
}

static size_t
prefix(const struct log *l, enum log_level level, char *line, size_t size)
{
	time_t now = time(NULL);
	struct tm tm;

	if (l->journal)
		return (size_t)snprintf(line, size, "<%d>mcp-sandbox: ",
		    (int)level);
	(void)gmtime_r(&now, &tm);
	return strftime(line, size, "%Y-%m-%dT%H:%M:%SZ mcp-sandbox: ", &tm);
}

void
log_line(const struct log *l, enum log_level level, const char *fmt, ...)
{
	/* At most PIPE_BUF, so that a pipe takes it whole or not at all. */
	char line[2048];
	struct pollfd fd = { .fd = l->fd, .events = POLLOUT };
	size_t head, len, room;
	va_list ap;
	int n;

	if (level > l->max)
		return;
	head = prefix(l, level, line, sizeof(line));
	va_start(ap, fmt);
	room = sizeof(line) - head;
	if ((n = vsnprintf(line + head, room, fmt, ap)) < 0)
		line[head] = '\0';
	va_end(ap);
	utf8_clean(line + head, n >= 0 && (size_t)n >= room);
	len = strlen(line);
	line[len++] = '\n';	/* in the place of the NUL */
	/* A reader that stalls costs the line, not the session. */
	if (poll(&fd, 1, 0) == 1 && (fd.revents & POLLOUT) != 0 &&
	    write(l->fd, line, len) == -1)
		return;
}
