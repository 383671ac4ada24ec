/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "digest.h"

enum { BLOCK = 64 };

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>

#define NI __attribute__((target("sha,sse4.1")))

/* FIPS 180-4, 4.2.2 */
static const uint32_t constants[64] __attribute__((aligned(16))) = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
	0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
	0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
	0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
	0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2
};

static bool
has_instructions(void)
{
	unsigned a, b, c, d;

	/* SSSE3 and SSE4.1; then SHA. */
	return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c >> 9 & 1) != 0 &&
	    (c >> 19 & 1) != 0 && __get_cpuid_count(7, 0, &a, &b, &c, &d) !=
	    0 && (b >> 29 & 1) != 0;
}

static NI __m128i
load(const void *p)
{
	return _mm_loadu_si128((const __m128i_u *)p);
}

/* Sixteen times four rounds; s[0] is ABEF, s[1] CDGH. */
static NI void
one_block(__m128i s[2], const unsigned char *p)
{
	const __m128i big = _mm_set_epi64x(0x0c0d0e0f08090a0b,
	    0x0405060700010203);
	__m128i w[4], abef = s[0], cdgh = s[1], t;

	for (int i = 0; i < 4; i++)
		w[i] = _mm_shuffle_epi8(load(p + 16 * i), big);
#pragma GCC unroll 16
	for (int i = 0; i < 16; i++) {
		t = _mm_add_epi32(w[i & 3], load(constants + 4 * i));
		cdgh = _mm_sha256rnds2_epu32(cdgh, abef, t);
		abef = _mm_sha256rnds2_epu32(abef, cdgh,
		    _mm_shuffle_epi32(t, 0x0e));
		if (i >= 12)
			continue;
		t = _mm_add_epi32(_mm_sha256msg1_epu32(w[i & 3],
		    w[(i + 1) & 3]), _mm_alignr_epi8(w[(i + 3) & 3],
		    w[(i + 2) & 3], 4));
		w[i & 3] = _mm_sha256msg2_epu32(t, w[(i + 3) & 3]);
	}
	s[0] = _mm_add_epi32(s[0], abef);
	s[1] = _mm_add_epi32(s[1], cdgh);
}

static NI void
blocks(uint32_t state[8], const unsigned char *p, size_t n)
{
	__m128i badc = _mm_shuffle_epi32(load(state), 0xb1);
	__m128i hgfe = _mm_shuffle_epi32(load(state + 4), 0x1b), s[2];

	s[0] = _mm_alignr_epi8(badc, hgfe, 8);
	s[1] = _mm_blend_epi16(hgfe, badc, 0xf0);
	for (; n > 0; n--, p += BLOCK)
		one_block(s, p);
	s[0] = _mm_shuffle_epi32(s[0], 0x1b);
	s[1] = _mm_shuffle_epi32(s[1], 0xb1);
	_mm_storeu_si128((__m128i_u *)state,
	    _mm_blend_epi16(s[0], s[1], 0xf0));
	_mm_storeu_si128((__m128i_u *)(state + 4),
	    _mm_alignr_epi8(s[1], s[0], 8));
}
#else
static bool
has_instructions(void)
{
	return false;
}

static void
blocks(uint32_t state[8], const unsigned char *p, size_t n)
{
	(void)state;
	(void)p;
	(void)n;
}
#endif

void
digest_slow(struct digest *d)
{
	d->fast = false;
	mbedtls_sha256_init(&d->slow);
	(void)mbedtls_sha256_starts(&d->slow, 0);
}

void
digest_begin(struct digest *d)
{
	static const uint32_t first[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372,
	    0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

	d->len = 0;
	d->fast = has_instructions();
	memcpy(d->state, first, sizeof(first));
	if (!d->fast)
		digest_slow(d);
}

void
digest_put(struct digest *d, const void *data, size_t len)
{
	const unsigned char *p = data;
	size_t at = d->len % BLOCK, n;

	if (!d->fast) {
		(void)mbedtls_sha256_update(&d->slow, p, len);
		return;
	}
	d->len += len;
	if (at > 0 && len > 0) {
		n = len < BLOCK - at ? len : BLOCK - at;
		memcpy(d->block + at, p, n);
		if (at + n < BLOCK)
			return;
		blocks(d->state, d->block, 1);
		p += n;
		len -= n;
	}
	blocks(d->state, p, len / BLOCK);
	if (len % BLOCK > 0)
		memcpy(d->block, p + len / BLOCK * BLOCK, len % BLOCK);
}

/* FIPS 180-4, 5.1.1: a bit, zeros, the length in bits. */
static void
finish(struct digest *d, unsigned char sum[32])
{
	static const unsigned char pad[BLOCK] = { 0x80 };
	unsigned char size[8];
	uint64_t bits = d->len * 8;

	for (int i = 0; i < 8; i++)
		size[i] = (unsigned char)(bits >> (56 - 8 * i));
	digest_put(d, pad, 1 + (BLOCK + 55 - d->len % BLOCK) % BLOCK);
	digest_put(d, size, sizeof(size));
	for (int i = 0; i < 32; i++)
		sum[i] = (unsigned char)(d->state[i / 4] >>
		    (24 - 8 * (i % 4)));
}

void
digest_end(struct digest *d, char text[65])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char sum[32];

	if (d->fast) {
		finish(d, sum);
	} else {
		(void)mbedtls_sha256_finish(&d->slow, sum);
		mbedtls_sha256_free(&d->slow);
	}
	for (size_t i = 0; i < sizeof(sum); i++) {
		text[2 * i] = digits[sum[i] >> 4];
		text[2 * i + 1] = digits[sum[i] & 15];
	}
	text[64] = '\0';
}

void
digest_hex(const void *data, size_t len, char text[65])
{
	struct digest d;

	digest_begin(&d);
	digest_put(&d, data, len);
	digest_end(&d, text);
}
