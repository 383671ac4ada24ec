/* SPDX-License-Identifier: Apache-2.0 */
/* What a credential plugin prints. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../error.h"
#include "../../execcred.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error err = { 0 };
	struct execcred c;

	if (execcred_parse(&c, (const char *)data, size,
	    "client.authentication.k8s.io/v1", &err) == 0) {
		if ((c.cert == NULL) != (c.key == NULL) ||
		    (c.cert == NULL && c.token == NULL))
			abort();
		if (c.token != NULL && strpbrk(c.token, "\r\n ") != NULL)
			abort();
		execcred_free(&c);
	} else if (err.code == ERR_NONE || err.text[0] == '\0') {
		abort();
	}
	return 0;
}
