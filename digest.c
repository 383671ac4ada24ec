/* SPDX-License-Identifier: Apache-2.0 */
#include "digest.h"

/* Its functions can fail only where hardware does the work. */
void
digest_begin(struct digest *d)
{
	mbedtls_sha256_init(&d->sha);
	(void)mbedtls_sha256_starts(&d->sha, 0);
}

void
digest_put(struct digest *d, const void *data, size_t len)
{
	(void)mbedtls_sha256_update(&d->sha, data, len);
}

void
digest_end(struct digest *d, char text[65])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char sum[32];

	(void)mbedtls_sha256_finish(&d->sha, sum);
	mbedtls_sha256_free(&d->sha);
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
