/* SPDX-License-Identifier: Apache-2.0 */
/* A datagram from anywhere: addresses that are addresses, or none. */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>

#include "../../dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char found[DNS_FOUND][ADDRESS_SIZE];
	unsigned char raw[16];
	uint16_t id = size > 1 ? (uint16_t)(data[0] << 8 | data[1]) : 0;
	int type = size > 2 && (data[2] & 1) != 0 ? DNS_A : DNS_AAAA;
	int n = dns_answer(data, size, id, "a.svc", type, found);

	if (n < -3 || n > DNS_FOUND)
		abort();
	for (int i = 0; i < n; i++)
		if (inet_pton(type == DNS_A ? AF_INET : AF_INET6, found[i],
		    raw) != 1)
			abort();
	return 0;
}
