/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kubeconfig from anywhere. What follows the first NUL is the content of
 * every file that it names.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../error.h"
#include "../../kubeconfig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t size;
};

static char *
read_file(void *arg, const char *path, size_t *len, struct error *err)
{
	const struct input *in = arg;
	char *text = calloc(1, in->size + 1);

	if (text == NULL) {
		error_sys(err, path);
		return NULL;
	}
	if (in->size != 0)
		memcpy(text, in->data, in->size);
	*len = in->size;
	return text;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = size != 0 ? memchr(data, '\0', size) : NULL;
	size_t len = nul != NULL ? (size_t)(nul - data) : size;
	struct input file = { .data = nul != NULL ? nul + 1 : NULL,
	    .size = nul != NULL ? size - len - 1 : 0 };
	struct kubeconfig kc;
	struct error err = { 0 };

	if (kubeconfig_parse(&kc, "/k/config", (const char *)data, len, NULL,
	    read_file, &file, &err) == 0) {
		/* What the rest of the program relies on. */
		if (kc.server == NULL || kc.host == NULL || kc.port == NULL ||
		    kc.namespace == NULL || kc.context == NULL ||
		    kc.user == NULL || (kc.cert == NULL) != (kc.key == NULL))
			abort();
		kubeconfig_free(&kc);
	} else if (err.code == ERR_NONE || err.text[0] == '\0')
		abort();
	return 0;
}
