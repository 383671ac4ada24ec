/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "address.h"

struct range {
	const char *first;
	unsigned bits;
};

/* Never: this network, link-local, multicast, reserved, metadata services. */
static const struct range refused4[] = {
	{ "0.0.0.0", 8 }, { "169.254.0.0", 16 }, { "224.0.0.0", 3 },
	{ "100.100.100.200", 32 }, { "168.63.129.16", 32 },
	{ "192.0.0.192", 32 },
};
static const struct range refused6[] = {
	{ "::", 96 }, { "fe80::", 10 }, { "ff00::", 8 },
	{ "fd00:ec2::254", 128 }, { "64:ff9b::a9fe:0", 112 },
};
static const struct range loopback4[] = { { "127.0.0.0", 8 } };
static const struct range loopback6[] = { { "::1", 128 } };

static bool
within(int family, const unsigned char *a, const struct range *r, size_t n)
{
	unsigned char first[16];

	for (; n > 0; n--, r++) {
		unsigned whole = r->bits / 8, rest = r->bits % 8;

		if (inet_pton(family, r->first, first) != 1 ||
		    memcmp(a, first, whole) != 0)
			continue;
		if (rest == 0 || ((a[whole] ^ first[whole]) >> (8 - rest)) == 0)
			return true;
	}
	return false;
}

#define IN(family, a, table) \
	within(family, a, table, sizeof(table) / sizeof(table[0]))

bool
address_ok(const char *text, bool loopback, char dst[ADDRESS_SIZE],
    bool *literal)
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };
	unsigned char raw[16];
	const unsigned char *four = raw;
	bool is4 = inet_pton(AF_INET, text, raw) == 1, local;

	*literal = is4 || inet_pton(AF_INET6, text, raw) == 1;
	if (!*literal)
		return false;
	if (!is4 && memcmp(raw, mapped, sizeof(mapped)) == 0) {
		four = raw + sizeof(mapped);
		is4 = true;
	}
	local = is4 ? IN(AF_INET, four, loopback4) :
	    IN(AF_INET6, raw, loopback6);
	if (local ? !loopback : is4 ? IN(AF_INET, four, refused4) :
	    IN(AF_INET6, raw, refused6))
		return false;
	return inet_ntop(is4 ? AF_INET : AF_INET6, is4 ? four : raw, dst,
	    ADDRESS_SIZE) != NULL;
}

static bool
label(const char *s, size_t n, bool *number)
{
	size_t digits = 0, hex = 0;

	if (n == 0 || n > 63 || s[0] == '-' || s[n - 1] == '-')
		return false;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c > 0x7e || (!isalnum(c) && c != '-'))
			return false;
		digits += isdigit(c) != 0;
		hex += i > 1 && isxdigit(c) != 0;
	}
	*number = digits == n || (n > 1 && s[0] == '0' &&
	    (s[1] == 'x' || s[1] == 'X') && hex == n - 2);
	return true;
}

bool
address_name(const char *text)
{
	bool number, numbers = true;

	if (strlen(text) > 253)
		return false;
	for (;;) {
		size_t n = strcspn(text, ".");

		if (!label(text, n, &number))
			return false;
		numbers &= number;
		if (text[n] == '\0')
			return !numbers;
		text += n + 1;
	}
}
