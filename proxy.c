/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "error.h"
#include "proxy.h"

/* An address: IPv4 as its IPv6 form, so that there is one kind. */
struct address {
	unsigned char bytes[16];
	bool four;
};

static const struct {
	const char *name, *port;
} schemes[] = {
	{ "http", "80" }, { "https", "443" }, { "socks5", "1080" },
	{ "socks5h", "1080" },
};

/* --- URL ---------------------------------------------------------------- */

/* The end of "host" or "[IPv6]" at s, or NULL. */
static const char *
host_end(const char *s)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
	struct in6_addr ignored;
	char text[64];
	size_t n;

	if (*s != '[') {
		n = strspn(s, letters);
		return n > 0 && n < 254 ? s + n : NULL;
	}
	n = strcspn(++s, "]");
	if (s[n] != ']' || n >= sizeof(text))
		return NULL;
	memcpy(text, s, n);
	text[n] = '\0';
	return inet_pton(AF_INET6, text, &ignored) == 1 ? s + n + 1 : NULL;
}

/* user[:password]@, percent-encoded; libcurl decodes it. */
static bool
is_user(const char *s, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (s[i] <= ' ' || s[i] > '~' || strchr("/?#\"<>\\", s[i]))
			return false;
	return true;
}

/* "host[:port][/]" at s; port is the scheme's, or a piece of s. */
static bool
authority(const char *s, const char **end, const char **port, int *len)
{
	const char *at = host_end(s);
	long number = 1;

	if (at == NULL)
		return false;
	*end = at;
	*len = (int)strlen(*port);
	if (*at == ':') {
		*len = (int)strspn(++at, "0123456789");
		number = *len > 0 && *len < 6 ? strtol(at, NULL, 10) : 0;
		*port = at;
		at += *len;
	}
	if (number < 1 || number > 65535)
		return false;
	return *at == '\0' || strcmp(at, "/") == 0;
}

char *
proxy_url(const char *text, struct error *err)
{
	const char *rest = strstr(text, "://"), *host, *end, *port = NULL;
	size_t i, n = rest != NULL ? (size_t)(rest - text) : 0;
	const char *scheme = rest != NULL ? NULL : "http";
	char *url;
	int len;

	for (i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (scheme != NULL ? i == 0 : strlen(schemes[i].name) == n &&
		    strncasecmp(text, schemes[i].name, n) == 0) {
			scheme = schemes[i].name;
			port = schemes[i].port;
			break;
		}
	rest = rest != NULL ? rest + 3 : text;
	host = strrchr(rest, '@');
	host = host != NULL ? host + 1 : rest;
	if (port == NULL || !is_user(rest, (size_t)(host - rest)) ||
	    !authority(host, &end, &port, &len)) {
		error_set(err, ERR_CONFIG, "must be http://, https://, "
		    "socks5:// or socks5h:// and HOST[:PORT]");
		return NULL;
	}
	if (asprintf(&url, "%s://%.*s:%.*s", scheme, (int)(end - rest), rest,
	    len, port) != -1)
		return url;
	error_set(err, ERR_SYSTEM, "out of memory");
	return NULL;
}

int
proxy_parts(const char *url, char *host, size_t size, char port[8])
{
	const char *rest = strstr(url, "://"), *at, *colon = strrchr(url, ':');
	int n;

	if (rest == NULL || colon <= rest)
		return -1;
	rest += 3;
	if ((at = strrchr(rest, '@')) != NULL)
		rest = at + 1;
	n = (int)(colon - rest);
	if (*rest == '[') {
		rest++;
		n -= 2;
	}
	if (n <= 0 || (size_t)n >= size || strlen(colon + 1) > 5)
		return -1;
	(void)snprintf(host, size, "%.*s", n, rest);
	(void)snprintf(port, 8, "%.5s", colon + 1);
	return 0;
}

/* --- NO_PROXY ----------------------------------------------------------- */

static bool
address_of(const char *text, struct address *a)
{
	static const unsigned char mapped[12] = { [10] = 0xff, 0xff };

	*a = (struct address){ .four = false };
	if (inet_pton(AF_INET6, text, a->bytes) == 1) {
		a->four = memcmp(a->bytes, mapped, sizeof(mapped)) == 0;
		return true;
	}
	if (inet_pton(AF_INET, text, a->bytes + 12) != 1)
		return false;
	memcpy(a->bytes, mapped, sizeof(mapped));
	return a->four = true;
}

static bool
same_bits(const unsigned char *a, const unsigned char *b, long bits)
{
	size_t whole = (size_t)bits / 8;
	unsigned rest = (unsigned)bits % 8;

	if (memcmp(a, b, whole) != 0)
		return false;
	return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

/* "address/bits" */
static bool
in_block(char *block, const struct address *host)
{
	char *slash = strchr(block, '/'), *end;
	struct address net;
	long bits;

	*slash = '\0';
	bits = strtol(slash + 1, &end, 10);
	if (!address_of(block, &net) || end == slash + 1 || *end != '\0' ||
	    bits < 0 || bits > (net.four ? 32 : 128) ||
	    net.four != host->four)
		return false;
	return same_bits(net.bytes, host->bytes, bits + (net.four ? 96 : 0));
}

static bool
is_name(const char *name, const char *host)
{
	size_t n, h = strlen(host);
	bool below_only = false;

	if (strncmp(name, "*.", 2) == 0)
		name++;
	if (*name == '.') {
		below_only = true;
		name++;
	}
	n = strlen(name);
	if (n == 0 || h < n || strcasecmp(host + h - n, name) != 0)
		return false;
	return h == n ? !below_only : host[h - n - 1] == '.';
}

/* Cuts ":port" off; false: it is there and another one. */
static bool
port_fits(char *entry, const char *port)
{
	char *colon = strrchr(entry, ':');
	size_t len = strlen(entry);
	bool one = colon != NULL && strchr(entry, ':') == colon;

	if (entry[0] == '[') {
		if (colon == NULL || colon < strchr(entry, ']'))
			colon = NULL;
		else
			len = (size_t)(colon - entry);
		if (colon != NULL && strcmp(colon + 1, port) != 0)
			return false;
		if (entry[len - 1] == ']')
			entry[len - 1] = '\0';
		memmove(entry, entry + 1, strlen(entry));
		return true;
	}
	if (!one)
		return true;
	*colon = '\0';
	return strcmp(colon + 1, port) == 0;
}

static bool
entry_fits(char *entry, const char *host, const struct address *address,
    const char *port)
{
	struct address one;

	if (strcmp(entry, "*") == 0)
		return true;
	if (strchr(entry, '/') != NULL)
		return address != NULL && in_block(entry, address);
	if (!port_fits(entry, port))
		return false;
	if (address == NULL)
		return is_name(entry, host);
	return address_of(entry, &one) &&
	    memcmp(one.bytes, address->bytes, sizeof(one.bytes)) == 0;
}

static bool
is_loopback(const char *host, const struct address *a)
{
	static const unsigned char six[16] = { [15] = 1 };

	if (a == NULL)
		return strcasecmp(host, "localhost") == 0;
	return a->four ? a->bytes[12] == 127 :
	    memcmp(a->bytes, six, sizeof(six)) == 0;
}

bool
proxy_excepts(const char *no_proxy, const char *host, const char *port)
{
	struct address address, *a = address_of(host, &address) ? &address :
	    NULL;
	char entry[300];
	size_t n;

	if (is_loopback(host, a))
		return true;
	while (no_proxy != NULL && *no_proxy != '\0') {
		no_proxy += strspn(no_proxy, ", \t");
		n = strcspn(no_proxy, ", \t");
		if (n > 0 && n < sizeof(entry)) {
			memcpy(entry, no_proxy, n);
			entry[n] = '\0';
			if (entry_fits(entry, host, a, port))
				return true;
		}
		no_proxy += n;
	}
	return false;
}
