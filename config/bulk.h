/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bulk - SHA-256 and AES-GCM of mbedTLS at the speed of the CPU, where it is an
 * x86-64 with the SHA extensions, or with AES, PCLMULQDQ, AVX and MOVBE.
 *
 * bulk-sha256.c and bulk-gcm.c define mbedtls_sha256_update() and
 * mbedtls_gcm_update(), with mbedTLS's contract. They give whole blocks to
 * OpenSSL's assembler (CRYPTOGAMS) and the rest to the functions that mbedTLS
 * has for that, which tools/fetch renames to the two below: all there is on
 * any other CPU.
 */
#ifndef BULK_H
#define BULK_H

#include <stdbool.h>
#include <stddef.h>

#include <mbedtls/gcm.h>
#include <mbedtls/sha256.h>

int bulk_sha256_update_c(mbedtls_sha256_context *ctx,
    const unsigned char *input, size_t len);
int bulk_gcm_update_c(mbedtls_gcm_context *ctx, const unsigned char *input,
    size_t len, unsigned char *output, size_t output_size, size_t *output_len);

#ifdef __x86_64__
#include <cpuid.h>

/*
 * Whether CPUID has these bits in ECX of leaf 1 and EBX of leaf 7; with
 * bit_OSXSAVE, whether the kernel keeps AVX's registers too.
 */
static inline bool
bulk_cpu_has(unsigned ecx1, unsigned ebx7)
{
	unsigned a, b, c, d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || (c & ecx1) != ecx1)
		return false;
	if (ecx1 & bit_OSXSAVE) {
		__asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
		if ((a & 6) != 6)
			return false;
	}
	return !ebx7 || (__get_cpuid_count(7, 0, &a, &b, &c, &d) &&
	    (b & ebx7) == ebx7);
}
#endif

#endif
