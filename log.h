/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log - one line to stderr, or to the journal.
 *
 * A line is "mcp-sandbox: text"; where JOURNAL_STREAM names the device and
 * inode of stderr (systemd.exec(5)) it starts with "<priority>" instead of a
 * time stamp. Control characters become blanks. Never blocks the loop: a line
 * that can't be written now is dropped, and a long one is cut. No secrets:
 * that is the caller's duty, helped by struct error's.
 */
#ifndef LOG_H
#define LOG_H

enum log_level { LOG_ERROR = 3, LOG_WARN = 4, LOG_NOTE = 5, LOG_DEBUG = 7 };

struct log {
	enum log_level max;	/* lines above this level are not written */
	int fd;			/* 2 */
	int journal;		/* 1: prefix priorities, no time */
};

void log_open(struct log *l, enum log_level max);	/* looks at fd 2 */
void log_line(const struct log *l, enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
