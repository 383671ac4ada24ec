/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "base64.h"
#include "buf.h"
#include "error.h"

enum { PAD = 64, SPACE = 65, BLANK = 66, OTHER = 67 };

/* The value of a character, or one of the above; OTHER ^ that, so that what is
 * not named is OTHER. */
static const unsigned char values[256] = {
#define V(c, v)	[c] = OTHER ^ (v)
	V('A', 0), V('B', 1), V('C', 2), V('D', 3), V('E', 4), V('F', 5),
	V('G', 6), V('H', 7), V('I', 8), V('J', 9), V('K', 10), V('L', 11),
	V('M', 12), V('N', 13), V('O', 14), V('P', 15), V('Q', 16), V('R', 17),
	V('S', 18), V('T', 19), V('U', 20), V('V', 21), V('W', 22), V('X', 23),
	V('Y', 24), V('Z', 25), V('a', 26), V('b', 27), V('c', 28), V('d', 29),
	V('e', 30), V('f', 31), V('g', 32), V('h', 33), V('i', 34), V('j', 35),
	V('k', 36), V('l', 37), V('m', 38), V('n', 39), V('o', 40), V('p', 41),
	V('q', 42), V('r', 43), V('s', 44), V('t', 45), V('u', 46), V('v', 47),
	V('w', 48), V('x', 49), V('y', 50), V('z', 51), V('0', 52), V('1', 53),
	V('2', 54), V('3', 55), V('4', 56), V('5', 57), V('6', 58), V('7', 59),
	V('8', 60), V('9', 61), V('+', 62), V('/', 63), V('=', PAD),
	V('\r', SPACE), V('\n', SPACE), V(' ', BLANK), V('\t', BLANK),
#undef V
};

static unsigned char
value(unsigned char c)
{
	return values[c] ^ OTHER;
}

/* n (1 to 3) bytes as four characters; held is zero past them. */
static void
quad(const unsigned char *held, unsigned n, char *out)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "abcdefghijklmnopqrstuvwxyz0123456789+/";

	out[0] = alphabet[held[0] >> 2];
	out[1] = alphabet[(held[0] & 3) << 4 | held[1] >> 4];
	out[2] = n > 1 ? alphabet[(held[1] & 15) << 2 | held[2] >> 6] : '=';
	out[3] = n > 2 ? alphabet[held[2] & 63] : '=';
}

/* Sixteen characters, and the same as two words, for machines that work on as
 * many at once. Signed is what they compare, unsigned what may wrap. */
typedef signed char chars __attribute__((vector_size(16)));
typedef unsigned char octets __attribute__((vector_size(16)));
typedef uint64_t words __attribute__((vector_size(16)));

/* The six bytes at p, which has eight, as eight values. */
static uint64_t
spread(const unsigned char *p)
{
	uint64_t x;

	memcpy(&x, p, 8);
	x = be64toh(x) >> 16;
	x = (x << 8 & 0xffffff00000000) | (x & 0xffffff);
	x = (x << 4 & 0x0fff00000fff0000) | (x & 0x00000fff00000fff);
	x = (x << 2 & 0x3f003f003f003f00) | (x & 0x003f003f003f003f);
	return htobe64(x);
}

/* Twelve bytes at p, which has fourteen. */
static void
quads(const unsigned char *p, char out[16])
{
	const words two = { spread(p), spread(p + 6) };
	const chars v = (chars)two;
	octets c = (octets)two;

	/* From A to a, from z to 0, from 9 to +, from + to /. */
	c = c + 'A' + ((octets)(v > 25) & ('a' - 'A' - 26)) -
	    ((octets)(v > 51) & ('a' + 26 - '0')) -
	    ((octets)(v > 61) & ('0' + 10 - '+')) +
	    ((octets)(v > 62) & ('/' - '+' - 1));
	memcpy(out, &c, sizeof(c));
}

void
base64_encode(struct base64 *b, const void *data, size_t len, struct buf *out)
{
	const unsigned char *p = data, *end = p + len;
	char text[4096];
	size_t n;

	while (p < end) {
		if (b->n == 0 && end - p >= 3) {
			for (n = 0; n < sizeof(text) && end - p >= 14;
			    n += 16, p += 12)
				quads(p, text + n);
			for (; n < sizeof(text) && end - p >= 3;
			    n += 4, p += 3)
				quad(p, 3, text + n);
			buf_put(out, text, n);
			continue;
		}
		b->held[b->n++] = *p++;
		if (b->n < 3)
			continue;
		quad(b->held, 3, text);
		buf_put(out, text, 4);
		b->n = 0;
	}
}

void
base64_encode_end(struct base64 *b, struct buf *out)
{
	char text[4];

	if (b->n == 0)
		return;
	memset(b->held + b->n, 0, sizeof(b->held) - b->n);
	quad(b->held, b->n, text);
	buf_put(out, text, sizeof(text));
	b->n = 0;
}

/* Four values in held to bytes; 0 where the padding is wrong. */
static size_t
triple(struct base64 *b, unsigned char *out)
{
	const unsigned char *v = b->held;
	size_t n = v[3] != PAD ? 3 : v[2] != PAD ? 2 : 1;

	if (v[0] == PAD || v[1] == PAD || (v[2] == PAD && v[3] != PAD))
		return 0;
	if (!b->loose && ((n == 1 && (v[1] & 15) != 0) ||
	    (n == 2 && (v[2] & 3) != 0)))
		return 0;
	out[0] = (unsigned char)(v[0] << 2 | v[1] >> 4);
	if (n > 1)
		out[1] = (unsigned char)((v[1] & 15) << 4 | v[2] >> 2);
	if (n > 2)
		out[2] = (unsigned char)((v[2] & 3) << 6 | v[3]);
	b->n = 0;
	b->ended = n < 3;
	return n;
}

/* The values of sixteen characters, if they are of the alphabet alone. */
static bool
values16(const unsigned char *p, words *two)
{
	chars c, upper, lower, digit, plus, slash;
	octets u;
	words all;

	memcpy(&c, p, sizeof(c));
	upper = (c >= 'A') & (c <= 'Z');
	lower = (c >= 'a') & (c <= 'z');
	digit = (c >= '0') & (c <= '9');
	plus = c == '+';
	slash = c == '/';
	u = (octets)c;
	*two = (words)(((octets)upper & (u - 'A')) |
	    ((octets)lower & (u - ('a' - 26))) |
	    ((octets)digit & (u + (52 - '0'))) |
	    ((octets)plus & 62) | ((octets)slash & 63));
	all = (words)(upper | lower | digit | plus | slash);
	return (all[0] & all[1]) == UINT64_MAX;
}

/* Eight values as six bytes at out, which has room for eight. */
static void
join(uint64_t x, unsigned char *out)
{
	x = be64toh(x);
	x = (x >> 2 & 0x0fc00fc00fc00fc0) | (x & 0x003f003f003f003f);
	x = (x >> 4 & 0x00fff00000fff000) | (x & 0x00000fff00000fff);
	x = (x >> 8 & 0x0000ffffff000000) | (x & 0xffffff);
	x = htobe64(x << 16);
	memcpy(out, &x, 8);
}

/* Whole groups of the alphabet alone; returns how many characters. */
static size_t
groups(const unsigned char *p, const unsigned char *end, unsigned char *out,
    size_t room)
{
	const unsigned char *start = p;
	words two;
	uint32_t bits;

	for (; end - p >= 16 && room >= 14; p += 16, out += 12, room -= 12) {
		if (!values16(p, &two))
			break;
		join(two[0], out);
		join(two[1], out + 6);
	}
	for (; end - p >= 4 && room >= 3; p += 4, out += 3, room -= 3) {
		unsigned a = value(p[0]), b = value(p[1]), c = value(p[2]),
		    d = value(p[3]);

		if ((a | b | c | d) >= PAD)
			break;
		bits = a << 18 | b << 12 | c << 6 | d;
		out[0] = (unsigned char)(bits >> 16);
		out[1] = (unsigned char)(bits >> 8);
		out[2] = (unsigned char)bits;
	}
	return (size_t)(p - start);
}

int
base64_decode(struct base64 *b, const void *text, size_t len, struct buf *out,
    struct error *err)
{
	const unsigned char *p = text, *end = p + len;
	unsigned char data[3072];
	size_t n = 0, got;

	for (; p < end; p++) {
		unsigned char v;

		if (b->n == 0 && !b->ended) {
			got = groups(p, end, data + n, sizeof(data) - n);
			p += got;
			n += got / 4 * 3;
		}
		if (n > sizeof(data) - 3) {
			buf_put(out, data, n);
			n = 0;
		}
		if (p == end)
			break;
		v = value(*p);
		if (v == SPACE || (v == BLANK && !b->loose))
			continue;
		if (v >= BLANK)
			return error_set(err, ERR_INPUT,
			    "base64: a byte outside the alphabet");
		if (b->ended)
			return error_set(err, ERR_INPUT,
			    "base64: text after the padding");
		b->held[b->n++] = v;
		if (b->n < 4)
			continue;
		if ((got = triple(b, data + n)) == 0)
			return error_set(err, ERR_INPUT,
			    "base64: wrong padding");
		n += got;
	}
	buf_put(out, data, n);
	return 0;
}

int
base64_decode_end(struct base64 *b, struct error *err)
{
	if (b->n != 0)
		return error_set(err, ERR_INPUT,
		    "base64: ends in the middle of a group of four");
	return 0;
}
