/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base64.h"
#include "buf.h"
#include "error.h"

enum { PAD = 64, SPACE = 65, OTHER = 66 };

/* The value of a character, or one of the above. */
static unsigned char
value(unsigned char c)
{
	if (c >= 'A' && c <= 'Z')
		return (unsigned char)(c - 'A');
	if (c >= 'a' && c <= 'z')
		return (unsigned char)(c - 'a' + 26);
	if (c >= '0' && c <= '9')
		return (unsigned char)(c - '0' + 52);
	switch (c) {
	case '+':
		return 62;
	case '/':
		return 63;
	case '=':
		return PAD;
	case ' ':
	case '\t':
	case '\r':
	case '\n':
		return SPACE;
	default:
		return OTHER;
	}
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

void
base64_encode(struct base64 *b, const void *data, size_t len, struct buf *out)
{
	const unsigned char *p = data, *end = p + len;
	char text[4096];
	size_t n;

	while (p < end) {
		if (b->n == 0 && end - p >= 3) {
			for (n = 0; n < sizeof(text) && end - p >= 3;
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
	if ((n == 1 && (v[1] & 15) != 0) || (n == 2 && (v[2] & 3) != 0))
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

int
base64_decode(struct base64 *b, const void *text, size_t len, struct buf *out,
    struct error *err)
{
	const unsigned char *p = text, *end = p + len;
	unsigned char data[3072];
	size_t n = 0, got;

	for (; p < end; p++) {
		unsigned char v = value(*p);

		if (v == SPACE)
			continue;
		if (v == OTHER)
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
		if ((n += got) > sizeof(data) - 3) {
			buf_put(out, data, n);
			n = 0;
		}
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
