/* SPDX-License-Identifier: Apache-2.0 */
/* digest - SHA-256 (FIPS 180-4) of bytes as they come, by mbedTLS. */
#ifndef DIGEST_H
#define DIGEST_H

#include <stddef.h>

#include <mbedtls/sha256.h>

enum { DIGEST_SIZE = 32 };

struct digest {
	mbedtls_sha256_context sha;
};

void digest_begin(struct digest *d);
void digest_put(struct digest *d, const void *data, size_t len);
/* As bytes, or in lower-case hex; the digest is over then. */
void digest_sum(struct digest *d, unsigned char sum[DIGEST_SIZE]);
void digest_end(struct digest *d, char text[65]);

/* The first n bytes of one in lower-case hex: 2 n digits and a NUL. */
void digest_text(const unsigned char *sum, size_t n, char *text);

/* All of it at once. */
void digest_raw(const void *data, size_t len, unsigned char sum[DIGEST_SIZE]);
void digest_hex(const void *data, size_t len, char text[65]);

#endif
