/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

#include "utf8.h"

/* How many bytes a sequence with this first byte has; 0: none has. */
static unsigned
length(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first < 0xc2)
		return 0;
	if (first < 0xe0)
		return 2;
	if (first < 0xf0)
		return 3;
	return first < 0xf5 ? 4 : 0;
}

/*
 * May next follow the at bytes read? Only the second byte has other bounds
 * than 80..BF; they keep out overlong forms, surrogates and all past 10FFFF.
 */
static bool
follows(unsigned char first, unsigned at, unsigned char next)
{
	unsigned char lo = 0x80, hi = 0xbf;

	if (at == 1) {
		if (first == 0xe0)
			lo = 0xa0;
		else if (first == 0xf0)
			lo = 0x90;
		else if (first == 0xed)
			hi = 0x9f;
		else if (first == 0xf4)
			hi = 0x8f;
	}
	return next >= lo && next <= hi;
}

/* How many bytes from p on can begin a sequence, and does that complete it? */
static unsigned
scan(const unsigned char *p, const unsigned char *end, bool *whole)
{
	unsigned i, need = p < end ? length(*p) : 0;

	*whole = false;
	if (need == 0)
		return 0;
	for (i = 1; i < need; i++)
		if (p + i == end || !follows(*p, i, p[i]))
			return i;
	*whole = true;
	return need;
}

size_t
utf8_len(const unsigned char *p, const unsigned char *end)
{
	bool whole;
	unsigned n = scan(p, end, &whole);

	return whole ? n : 0;
}

size_t
utf8_ascii(const unsigned char *p, const unsigned char *end)
{
	const unsigned char *at = p;
	uint64_t eight;

	for (; end - at >= 8; at += 8) {
		memcpy(&eight, at, 8);
		if ((eight & 0x8080808080808080) != 0)
			break;
	}
	while (at < end && *at < 0x80)
		at++;
	return (size_t)(at - p);
}

size_t
utf8_bad(const unsigned char *p, const unsigned char *end)
{
	bool whole;
	unsigned n = scan(p, end, &whole);

	return n != 0 ? n : 1;
}

static const unsigned char replacement[] = { 0xef, 0xbf, 0xbd };

void
utf8_end(struct utf8 *u, utf8_put *put, void *arg)
{
	if (u->need == 0)
		return;
	u->need = u->len = 0;
	put(arg, replacement, sizeof(replacement));
}

void
utf8_feed(struct utf8 *u, unsigned char byte, utf8_put *put, void *arg)
{
	if (u->need != 0 && !follows(u->seq[0], u->len, byte))
		utf8_end(u, put, arg);
	if (u->need == 0) {
		if ((u->need = length(byte)) == 0) {
			put(arg, replacement, sizeof(replacement));
			return;
		}
		u->len = 0;
	}
	u->seq[u->len++] = byte;
	if (u->len == u->need) {
		u->need = 0;
		put(arg, u->seq, u->len);
	}
}

void
utf8_clean(char *text, bool cut)
{
	unsigned char *s = (unsigned char *)text, *end = s + strlen(text);
	size_t n;

	for (; s < end; s += n) {
		n = utf8_len(s, end);
		if (n == 0 && cut && utf8_bad(s, end) == (size_t)(end - s)) {
			*s = '\0';
			return;
		}
		if (n == 0) {
			*s = '?';
			n = 1;
		} else if (*s < ' ' || *s == 0x7f) {
			*s = ' ';
		} else if (*s == 0xc2 && s[1] < 0xa0) {
			s[0] = s[1] = ' ';	/* C1 controls */
		}
	}
}
