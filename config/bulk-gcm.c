/* SPDX-License-Identifier: Apache-2.0 */
#define MBEDTLS_ALLOW_PRIVATE_ACCESS
#include "bulk.h"

#include <mbedtls/aes.h>
#include <mbedtls/platform_util.h>
#include <stdint.h>
#include <string.h>

#define BLOCK 16
/* SP 800-38D, 5.2.1.1: in bytes. */
#define LIMIT 0xfffffffe0u

#ifdef __x86_64__
#ifdef MBEDTLS_BLOCK_CIPHER_C
#error "the key of a GCM context is somewhere else"
#endif

/* Below, preparing the hash key takes longer than it saves. */
#define WORTH_IT 512

/* What the assembler knows as AES_KEY; it counts the last round apart. */
struct aes {
	unsigned char round_keys[15][BLOCK];
	uint32_t rounds;
};

/* Its Xi, H and Htable: powers of the hash key, and sums of their halves. */
struct hash {
	unsigned char sum[BLOCK];
	uint64_t key[2];
	uint64_t powers[12][2];
};

void gcm_init_avx(uint64_t powers[12][2], const uint64_t key[2]);
/* Both return how many bytes they took, 96 by 96. */
size_t aesni_gcm_encrypt(const void *input, void *output, size_t len,
    const struct aes *aes, unsigned char counter[16], struct hash *hash);
size_t aesni_gcm_decrypt(const void *input, void *output, size_t len,
    const struct aes *aes, unsigned char counter[16], struct hash *hash);

/* CPUID is slow in a virtual machine: it is asked once. */
static bool
cpu_fits(void)
{
	static signed char known;

	if (known == 0)
		known = bulk_cpu_has(bit_PCLMUL | bit_SSSE3 | bit_MOVBE |
		    bit_AES | bit_OSXSAVE | bit_AVX, 0) ? 1 : -1;
	return known > 0;
}

/* What mbedTLS refuses is left for it to refuse. */
static bool
is_fit(const mbedtls_gcm_context *ctx, const unsigned char *input, size_t len,
    const unsigned char *output, size_t output_size)
{
	return len >= WORTH_IT && output_size >= len &&
	    len <= LIMIT && ctx->len <= LIMIT - len &&
	    !(output > input && (size_t)(output - input) < len) &&
	    mbedtls_cipher_get_block_size(&ctx->cipher_ctx) == BLOCK &&
	    cpu_fits();
}

static void
counter_add(unsigned char counter[16], uint32_t n)
{
	uint32_t last;

	memcpy(&last, counter + 12, 4);
	last = __builtin_bswap32(__builtin_bswap32(last) + n);
	memcpy(counter + 12, &last, 4);
}

/*
 * Between blocks, and after the first one, which finishes the additional data.
 * mbedTLS keeps the counter that it used last, the assembler wants the next.
 */
static size_t
take_blocks(mbedtls_gcm_context *ctx, const unsigned char *input, size_t len,
    unsigned char *output)
{
	const mbedtls_aes_context *from = ctx->cipher_ctx.cipher_ctx;
	const uint64_t *key = ctx->H[MBEDTLS_GCM_HTABLE_SIZE / 2];
	unsigned char counter[16];
	struct hash hash;
	struct aes aes;
	size_t took;

	memcpy(aes.round_keys, from->buf + from->rk_offset,
	    ((size_t)from->nr + 1) * BLOCK);
	aes.rounds = (uint32_t)from->nr - 1;
	hash.key[0] = __builtin_bswap64(key[0]);
	hash.key[1] = __builtin_bswap64(key[1]);
	gcm_init_avx(hash.powers, hash.key);
	memcpy(hash.sum, ctx->buf, BLOCK);
	memcpy(counter, ctx->y, BLOCK);
	counter_add(counter, 1);

	took = (ctx->mode == MBEDTLS_GCM_ENCRYPT ? aesni_gcm_encrypt :
	    aesni_gcm_decrypt)(input, output, len, &aes, counter, &hash);

	memcpy(ctx->buf, hash.sum, BLOCK);
	counter_add(ctx->y, (uint32_t)(took / BLOCK));
	ctx->len += took;
	mbedtls_platform_zeroize(&aes, sizeof(aes));
	mbedtls_platform_zeroize(&hash, sizeof(hash));
	return took;
}
#endif

int
mbedtls_gcm_update(mbedtls_gcm_context *ctx, const unsigned char *input,
    size_t len, unsigned char *output, size_t output_size, size_t *output_len)
{
	size_t took = 0;

#ifdef __x86_64__
	if (is_fit(ctx, input, len, output, output_size)) {
		int e;

		took = BLOCK - ctx->len % BLOCK;
		e = bulk_gcm_update_c(ctx, input, took, output, took,
		    output_len);
		if (e != 0)
			return e;
		took += take_blocks(ctx, input + took, len - took,
		    output + took);
	}
#endif
	int e = bulk_gcm_update_c(ctx, input + took, len - took, output + took,
	    output_size - took, output_len);

	*output_len += took;
	return e;
}
