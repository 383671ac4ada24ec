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
digest_sum(struct digest *d, unsigned char sum[DIGEST_SIZE])
{
	(void)mbedtls_sha256_finish(&d->sha, sum);
	mbedtls_sha256_free(&d->sha);
}

void
digest_text(const unsigned char *sum, size_t n, char *text)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		text[2 * i] = digits[sum[i] >> 4];
		text[2 * i + 1] = digits[sum[i] & 15];
	}
	text[2 * n] = '\0';
}

void
digest_end(struct digest *d, char text[65])
{
	unsigned char sum[DIGEST_SIZE];

	digest_sum(d, sum);
	digest_text(sum, sizeof(sum), text);
}

void
digest_raw(const void *data, size_t len, unsigned char sum[DIGEST_SIZE])
{
	struct digest d;

	digest_begin(&d);
	digest_put(&d, data, len);
	digest_sum(&d, sum);
}

void
digest_hex(const void *data, size_t len, char text[65])
{
	struct digest d;

	digest_begin(&d);
	digest_put(&d, data, len);
	digest_end(&d, text);
}
