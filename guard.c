/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "guard.h"

/* The length of the host in "host[:port]", 0 if it is none. */
static size_t
host_length(const char *host)
{
	size_t len, port;

	if (host[0] == '[') {
		len = strcspn(host, "]");
		if (host[len] != ']')
			return 0;
		len++;
	} else {
		len = strcspn(host, ":");
	}
	if (host[len] == '\0')
		return len;
	port = strspn(host + len + 1, "0123456789");
	if (host[len] != ':' || host[len + 1 + port] != '\0' || port > 5)
		return 0;
	return len;
}

static bool
is(const char *s, size_t len, const char *word)
{
	return strlen(word) == len && strncasecmp(s, word, len) == 0;
}

bool
guard_is_loopback(const char *host)
{
	size_t len = host_length(host);

	if (is(host, len, "localhost") || is(host, len, "[::1]"))
		return true;
	return len >= 7 && len <= 15 && strncmp(host, "127.", 4) == 0 &&
	    strspn(host, "0123456789.") == len;
}

/* An item is a whole text, or a name for every port. */
static bool
listed(const char *list, const char *text, size_t name)
{
	size_t n;

	for (; *list != '\0'; list += n) {
		list += strspn(list, ", ");
		n = strcspn(list, ", ");
		if (n == 3 && strncmp(list, "all", 3) == 0)
			return true;
		if (n > 0 && ((n == strlen(text) &&
		    strncasecmp(list, text, n) == 0) ||
		    (n == name && strncasecmp(list, text, n) == 0)))
			return true;
	}
	return false;
}

bool
guard_host(const char *host, const char *allowed, bool loopback)
{
	size_t len;

	if (allowed == NULL && !loopback)
		return true;
	if (host == NULL || (len = host_length(host)) == 0)
		return allowed != NULL && listed(allowed, "", 0);
	if (allowed == NULL)
		return guard_is_loopback(host);
	return listed(allowed, host, len) ||
	    (loopback && guard_is_loopback(host));
}

bool
guard_origin(const char *origin, const char *host, const char *allowed,
    const char *hosts, bool loopback)
{
	const char *at;

	if (origin == NULL)
		return true;
	if (allowed != NULL && listed(allowed, origin, 0))
		return true;
	if ((at = strstr(origin, "://")) == NULL || at == origin)
		return false;
	at += 3;
	if (host_length(at) == 0)
		return false;
	if (loopback && guard_is_loopback(at))
		return true;
	return host != NULL && strcasecmp(at, host) == 0 &&
	    guard_host(host, hosts, loopback);
}

/* "q=0" and its longer forms: not wanted. */
static bool
refused(const char *range, size_t len)
{
	const char *end = range + len, *p = range;

	while ((p = memchr(p, ';', (size_t)(end - p))) != NULL) {
		p++;
		while (p < end && (*p == ' ' || *p == '\t'))
			p++;
		if (end - p < 3 || (*p != 'q' && *p != 'Q') || p[1] != '=' ||
		    p[2] != '0')
			continue;
		for (p += 3; p < end && (*p == '.' || *p == '0'); p++)
			continue;
		return p == end || *p == ' ' || *p == ';';
	}
	return false;
}

int
guard_accept(const char *accept)
{
	static const struct {
		const char *range;
		int what;
	} ranges[] = {
		{ "application/json", ACCEPT_JSON },
		{ "application/*", ACCEPT_JSON },
		{ "text/event-stream", ACCEPT_STREAM },
		{ "text/*", ACCEPT_STREAM },
		{ "*/*", ACCEPT_JSON | ACCEPT_STREAM },
	};
	int what = 0;

	if (accept == NULL)
		return ACCEPT_JSON | ACCEPT_STREAM;
	while (*accept != '\0') {
		size_t len, name;

		accept += strspn(accept, ", \t");
		len = strcspn(accept, ",");
		name = strcspn(accept, ";, \t");
		for (size_t i = 0; i < sizeof(ranges) / sizeof(*ranges); i++)
			if (is(accept, name, ranges[i].range) &&
			    !refused(accept, len))
				what |= ranges[i].what;
		accept += len;
	}
	return what;
}

bool
guard_is_json(const char *type)
{
	static const char *const charsets[] = { "", "charset=utf-8",
	    "charset=\"utf-8\"" };
	size_t len;

	if (type == NULL)
		return false;
	len = strcspn(type, "; \t");
	if (!is(type, len, "application/json"))
		return false;
	type += len + strspn(type + len, " \t");
	if (*type == '\0')
		return true;
	if (*type++ != ';')
		return false;
	type += strspn(type, " \t");
	for (size_t i = 0; i < sizeof(charsets) / sizeof(*charsets); i++)
		if (strcasecmp(type, charsets[i]) == 0)
			return true;
	return false;
}
