/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utf8 - well-formed UTF-8 (Unicode 15 table 3-7; no surrogates, no overlong
 * forms) told from everything else, one byte at a time.
 */
#ifndef UTF8_H
#define UTF8_H

#include <stdbool.h>
#include <stddef.h>

struct utf8 {
	unsigned char seq[4];	/* the sequence being read */
	unsigned len;		/* bytes of it so far */
	unsigned need;		/* bytes it must have; 0 between sequences */
};

/* How many bytes of ASCII there are from p on. */
size_t utf8_ascii(const unsigned char *p, const unsigned char *end);
/* Length of the well-formed sequence that starts at p, or 0. */
size_t utf8_len(const unsigned char *p, const unsigned char *end);
/* Where that is 0: length of the maximal ill-formed subpart there, 1 to 3. */
size_t utf8_bad(const unsigned char *p, const unsigned char *end);

/*
 * Make one printable line of it, in place: control characters become blanks,
 * ill-formed bytes question marks. cut: the text was cut at its end, so an
 * unfinished sequence there is dropped.
 */
void utf8_clean(char *text, bool cut);

/*
 * Feed one byte. Calls put(arg, bytes, n) for each code point completed: the
 * sequence itself, or EF BF BD once per maximal ill-formed subpart (the
 * practice Unicode recommends, and Python's errors="replace"). At most two
 * calls for each byte. utf8_end() flushes an unfinished sequence as one.
 */
typedef void utf8_put(void *arg, const unsigned char *seq, size_t n);
void utf8_feed(struct utf8 *u, unsigned char byte, utf8_put *put, void *arg);
void utf8_end(struct utf8 *u, utf8_put *put, void *arg);

#endif
