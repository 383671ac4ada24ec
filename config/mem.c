/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem - memcpy, memmove and memset for musl on x86-64.
 *
 * musl's start the string unit for every copy, which takes longer than the 32
 * to 64 bytes that bignum arithmetic copies thousands of times in a handshake.
 * Here small sizes go through registers: a block from either end, overlapping
 * in the middle, so that no size below 32 needs a loop.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* From here on the string unit's start is paid back. */
#define STRING_UNIT 1024

typedef long long block __attribute__((vector_size(16)));

/* Any alignment, and an alias of whatever the caller has there. */
struct b16 { block v; } __attribute__((packed, may_alias));
struct b8 { uint64_t v; } __attribute__((packed, may_alias));
struct b4 { uint32_t v; } __attribute__((packed, may_alias));

#define AT(type, p, i) (((type *)((char *)(p) + (i)))->v)
#define FROM(type, p, i) (((const type *)((const char *)(p) + (i)))->v)

/* All is read before anything is written: right for overlaps too. */
static inline void
copy_small(void *to, const void *from, size_t n)
{
	if (n >= 16) {
		block a = FROM(struct b16, from, 0);
		block b = FROM(struct b16, from, n - 16);

		AT(struct b16, to, 0) = a;
		AT(struct b16, to, n - 16) = b;
	} else if (n >= 8) {
		uint64_t a = FROM(struct b8, from, 0);
		uint64_t b = FROM(struct b8, from, n - 8);

		AT(struct b8, to, 0) = a;
		AT(struct b8, to, n - 8) = b;
	} else if (n >= 4) {
		uint32_t a = FROM(struct b4, from, 0);
		uint32_t b = FROM(struct b4, from, n - 4);

		AT(struct b4, to, 0) = a;
		AT(struct b4, to, n - 4) = b;
	} else if (n > 0) {
		const unsigned char *s = from;
		unsigned char *d = to;
		unsigned char a = s[0], b = s[n / 2], c = s[n - 1];

		d[0] = a;
		d[n / 2] = b;
		d[n - 1] = c;
	}
}

/* The last block is read first: the loop may write over it. */
static inline void
copy_up(void *to, const void *from, size_t n)
{
	block tail = FROM(struct b16, from, n - 16);
	size_t i;

	for (i = 0; i < n - 16; i += 16)
		AT(struct b16, to, i) = FROM(struct b16, from, i);
	AT(struct b16, to, n - 16) = tail;
}

static inline void
copy_down(void *to, const void *from, size_t n)
{
	block head = FROM(struct b16, from, 0);
	size_t i;

	for (i = n; i > 16; i -= 16)
		AT(struct b16, to, i - 16) = FROM(struct b16, from, i - 16);
	AT(struct b16, to, 0) = head;
}

void *
memcpy(void *restrict to, const void *restrict from, size_t n)
{
	void *d = to;

	if (n <= 32)
		copy_small(to, from, n);
	else if (n < STRING_UNIT)
		copy_up(to, from, n);
	else
		__asm__ volatile("rep movsb"
		    : "+D"(d), "+S"(from), "+c"(n) : : "memory");
	return to;
}

void *
memmove(void *to, const void *from, size_t n)
{
	if (n <= 32)
		copy_small(to, from, n);
	else if ((uintptr_t)to - (uintptr_t)from >= n)
		copy_up(to, from, n);
	else
		copy_down(to, from, n);
	return to;
}

void *
memset(void *to, int byte, size_t n)
{
	uint64_t word = 0x0101010101010101u * (unsigned char)byte;
	void *d = to;
	size_t i;

	if (n >= STRING_UNIT) {
		__asm__ volatile("rep stosb"
		    : "+D"(d), "+c"(n) : "a"(byte) : "memory");
	} else if (n >= 16) {
		block v = { (long long)word, (long long)word };

		for (i = 0; i < n - 16; i += 16)
			AT(struct b16, to, i) = v;
		AT(struct b16, to, n - 16) = v;
	} else if (n >= 8) {
		AT(struct b8, to, 0) = word;
		AT(struct b8, to, n - 8) = word;
	} else if (n >= 4) {
		AT(struct b4, to, 0) = (uint32_t)word;
		AT(struct b4, to, n - 4) = (uint32_t)word;
	} else if (n > 0) {
		unsigned char *p = to;

		p[0] = p[n / 2] = p[n - 1] = (unsigned char)byte;
	}
	return to;
}
