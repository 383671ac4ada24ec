/* SPDX-License-Identifier: Apache-2.0 */
/* A .env file from anywhere: strings with a name, or an error. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../dotenv.h"
#include "../../error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char home[] = "HOME=/home/x";
	char *const outside[] = { home, NULL };
	struct error err = { ERR_NONE, "" };
	unsigned bad;
	char **list = dotenv_parse((const char *)data, size, outside, &bad,
	    &err);

	if (list == NULL && err.code == ERR_NONE)
		abort();
	for (size_t i = 0; list != NULL && list[i] != NULL; i++)
		if (strchr(list[i], '=') == NULL || list[i][0] == '\0')
			abort();
	dotenv_free(list);
	return 0;
}
