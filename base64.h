/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base64 - RFC 4648 section 4, standard alphabet with padding, as a stream.
 *
 * Decoding is strict: only the alphabet, white space (blank, tab, CR, LF)
 * between characters, complete padding at the end, zero pad bits, nothing
 * after it. Loose is as Go decodes: of white space CR and LF only, pad bits of
 * any value. Both directions keep at most three bytes between pieces, so a
 * file of any size passes through flat memory.
 */
#ifndef BASE64_H
#define BASE64_H

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct error;

struct base64 {
	unsigned char held[4];
	unsigned n;		/* how many of held are used */
	bool ended;		/* decode: padding was seen */
	bool loose;		/* decode: set it beforehand */
};

void base64_encode(struct base64 *b, const void *data, size_t len,
    struct buf *out);
void base64_encode_end(struct base64 *b, struct buf *out);
int base64_decode(struct base64 *b, const void *text, size_t len,
    struct buf *out, struct error *err);
int base64_decode_end(struct base64 *b, struct error *err);

#endif
