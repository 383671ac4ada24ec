/* SPDX-License-Identifier: Apache-2.0 */
#define MBEDTLS_ALLOW_PRIVATE_ACCESS
#include "bulk.h"

#include <stdint.h>
#include <string.h>

#define BLOCK 64

#ifdef __x86_64__
void sha256_block_data_order_shaext(uint32_t state[8], const void *data,
    size_t blocks);

/* CPUID is slow in a virtual machine: it is asked once. */
static bool
cpu_fits(void)
{
	static signed char known;

	if (known == 0)
		known = bulk_cpu_has(bit_SSSE3 | bit_SSE4_1, bit_SHA) ? 1 : -1;
	return known > 0;
}

static void
count(mbedtls_sha256_context *ctx, size_t len)
{
	uint64_t total = ((uint64_t)ctx->total[1] << 32 | ctx->total[0]) + len;

	ctx->total[0] = (uint32_t)total;
	ctx->total[1] = (uint32_t)(total >> 32);
}

/* Takes all that ends a block and returns how much that was. */
static size_t
take_blocks(mbedtls_sha256_context *ctx, const unsigned char *input, size_t len)
{
	size_t kept = ctx->total[0] % BLOCK, took = 0;

	if (kept > 0) {
		took = BLOCK - kept;
		memcpy(ctx->buffer + kept, input, took);
		sha256_block_data_order_shaext(ctx->state, ctx->buffer, 1);
	}
	if (len - took >= BLOCK) {
		size_t blocks = (len - took) / BLOCK;

		sha256_block_data_order_shaext(ctx->state, input + took,
		    blocks);
		took += blocks * BLOCK;
	}
	count(ctx, took);
	return took;
}
#endif

int
mbedtls_sha256_update(mbedtls_sha256_context *ctx, const unsigned char *input,
    size_t len)
{
#ifdef __x86_64__
	if (len >= BLOCK - ctx->total[0] % BLOCK && cpu_fits()) {
		size_t took = take_blocks(ctx, input, len);

		input += took;
		len -= took;
	}
#endif
	return bulk_sha256_update_c(ctx, input, len);
}
