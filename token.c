/* SPDX-License-Identifier: Apache-2.0 */
#include <mbedtls/md.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "token.h"

/* Unicode's White_Space in UTF-8, longest first. */
static const char *const blanks[] = {
	"\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81", "\xe2\x80\x82",
	"\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86",
	"\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a",
	"\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f",
	"\xe3\x80\x80", "\xc2\x85", "\xc2\xa0", "\t", "\n", "\v", "\f", "\r",
	" ",
};

bool
token_session_ok(const char *id)
{
	size_t len = strlen(id);

	return len >= 1 && len <= 63 && id[0] != '-' && id[len - 1] != '-' &&
	    strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

/* Bytes of the blank that s begins, or ends, with. */
static size_t
blank(const char *s, size_t len, bool at_end)
{
	for (size_t i = 0; i < sizeof(blanks) / sizeof(blanks[0]); i++) {
		size_t n = strlen(blanks[i]);

		if (n <= len && memcmp(at_end ? s + len - n : s, blanks[i],
		    n) == 0)
			return n;
	}
	return 0;
}

size_t
token_key(const char *text, size_t len, const char **start)
{
	size_t n;

	while ((n = blank(text, len, false)) > 0) {
		text += n;
		len -= n;
	}
	while ((n = blank(text, len, true)) > 0)
		len -= n;
	*start = text;
	return len;
}

static void
hex(char *dst, const unsigned char *raw, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)snprintf(dst + 2 * i, 3, "%02x", raw[i]);
}

int
token_of(const char *key, size_t len, const char *session,
    char dst[TOKEN_SIZE])
{
	unsigned char mac[32];

	if (mbedtls_md_hmac(mbedtls_md_info_from_type(MBEDTLS_MD_SHA256),
	    (const unsigned char *)key, len, (const unsigned char *)session,
	    strlen(session), mac) != 0)
		return -1;
	hex(dst, mac, sizeof(mac));
	return 0;
}

int
token_hex(char *dst, size_t n)
{
	unsigned char raw[32];

	if (n > sizeof(raw) || getrandom(raw, n, 0) != (ssize_t)n)
		return -1;
	hex(dst, raw, n);
	return 0;
}

int
token_random(char dst[TOKEN_SIZE])
{
	return token_hex(dst, 32);
}
