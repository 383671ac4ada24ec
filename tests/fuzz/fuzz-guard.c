/* SPDX-License-Identifier: Apache-2.0 */
/* Header fields that decide who is let in, and the file of tokens. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../auth.h"
#include "../../error.h"
#include "../../guard.h"
#include "../../listener.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
fields(const char *text, const char *list)
{
	int what = guard_accept(text);

	assert(what >= 0 && what <= (ACCEPT_JSON | ACCEPT_STREAM));
	(void)guard_is_json(text);
	/* What is let in without a list is a name of this machine. */
	if (guard_host(text, NULL, true))
		assert(guard_is_loopback(text));
	(void)guard_host(text, list, false);
	(void)guard_origin(text, list, list, list, true);
	(void)guard_origin(list, text, NULL, list, false);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct auth a = { .rows = NULL };
	struct caller who;
	struct error err;
	unsigned char address[128];
	char *text = malloc(size + 1);
	size_t half = size / 2;

	if (text == NULL)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	(void)listener_address(text, address, sizeof(address));
	assert(auth_ends(text) >= 0);
	a.review = "all";
	if (auth_reviewed(&a, text, size, &who, &err) == AUTH_YES)
		assert(who.session[0] != '\0' && !who.chooses);
	text[half] = '\0';
	fields(text, half < size ? text + half + 1 : "");
	memcpy(text, data, size);
	if (auth_parse(&a, text, &err) == 0)
		assert(a.n > 0 && a.rows[0].name != NULL);
	else
		assert(err.text[0] != '\0');
	auth_close(&a);
	free(text);
	return 0;
}
