/* SPDX-License-Identifier: Apache-2.0 */
/* digest - SHA-256 (FIPS 180-4) of bytes as they come, by mbedTLS. */
#ifndef DIGEST_H
#define DIGEST_H

#include <stddef.h>

#include <mbedtls/sha256.h>

struct digest {
	mbedtls_sha256_context sha;
};

void digest_begin(struct digest *d);
void digest_put(struct digest *d, const void *data, size_t len);
/* In lower-case hex; the digest is over then. */
void digest_end(struct digest *d, char text[65]);

/* All of it at once. */
void digest_hex(const void *data, size_t len, char text[65]);

#endif
