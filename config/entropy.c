/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entropy - the one source of randomness that mbedTLS gets: the kernel, by the
 * system call, so that no file has to be opened after the confinement.
 */
#include <errno.h>
#include <stddef.h>
#include <sys/random.h>

#include <mbedtls/entropy.h>

/* What MBEDTLS_ENTROPY_HARDWARE_ALT calls; its prototype is mbedTLS's own. */
int mbedtls_hardware_poll(void *, unsigned char *, size_t, size_t *);

int
mbedtls_hardware_poll(void *arg, unsigned char *out, size_t len, size_t *done)
{
	ssize_t n;

	(void)arg;
	do
		n = getrandom(out, len, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return MBEDTLS_ERR_ENTROPY_SOURCE_FAILED;
	*done = (size_t)n;
	return 0;
}
