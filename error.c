/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "utf8.h"

static void print(char *text, size_t size, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));

static void
print(char *text, size_t size, const char *fmt, va_list ap)
{
	int n = vsnprintf(text, size, fmt, ap);

	/*
	 * It ends up in a tool result, a log line and a terminal, and may
	 * quote bytes a stranger sent.
	 */
	if (n < 0)
		text[0] = '\0';
	utf8_clean(text, n >= 0 && (size_t)n >= size);
}

int
error_set(struct error *err, enum error_code code, const char *fmt, ...)
{
	char text[sizeof(err->text)];
	va_list ap;

	va_start(ap, fmt);
	print(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* Only now: an argument may have been the old text. */
	memcpy(err->text, text, sizeof(text));
	err->code = code;
	return -1;
}

int
error_sys(struct error *err, const char *what)
{
	int saved = errno;

	return error_set(err, ERR_SYSTEM, "%s: %s", what, strerror(saved));
}

int
error_wrap(struct error *err, const char *fmt, ...)
{
	/* Half the room at most: the reason is worth more than the nouns. */
	char head[sizeof(err->text) / 2];
	va_list ap;

	va_start(ap, fmt);
	print(head, sizeof(head), fmt, ap);
	va_end(ap);
	return error_set(err, err->code, "%s: %s", head, err->text);
}

enum error_code
error_of_http(long status)
{
	switch (status) {
	case 400:
	case 413:
	case 422:
		return ERR_INVALID;
	case 401:
	case 403:
		return ERR_DENIED;
	case 404:
	case 410:
		return ERR_GONE;
	case 409:
		return ERR_CONFLICT;
	case 429:
	case 503:
		return ERR_BUSY;
	default:
		return ERR_CLUSTER;
	}
}

const char *
error_word(enum error_code code)
{
	static const char *const words[] = {
		[ERR_NONE] = "none", [ERR_INPUT] = "input",
		[ERR_LIMIT] = "limit", [ERR_CONFIG] = "config",
		[ERR_DENIED] = "denied", [ERR_GONE] = "gone",
		[ERR_CONFLICT] = "conflict", [ERR_INVALID] = "invalid",
		[ERR_BUSY] = "busy", [ERR_CLUSTER] = "cluster",
		[ERR_TLS] = "tls", [ERR_LOST] = "lost",
		[ERR_TIMEOUT] = "timeout", [ERR_CANCELLED] = "cancelled",
		[ERR_SYSTEM] = "system",
	};

	if ((size_t)code >= sizeof(words) / sizeof(words[0]))
		return "unknown";
	return words[code];
}
