/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vectors - the recorded results in tests/vectors, read from the repository's
 * top; without them the program ends. The document lives until json_free(), its
 * text for good.
 */
#ifndef TEST_VECTORS_H
#define TEST_VECTORS_H

#include <stdio.h>
#include <stdlib.h>

#include "../error.h"
#include "../json.h"

static inline struct json_doc *
vectors_load(const char *path)
{
	static char text[1 << 20];
	struct json_doc *doc;
	struct error err;
	FILE *f = fopen(path, "r");
	size_t n;

	if (f == NULL)
		abort();
	n = fread(text, 1, sizeof(text), f);
	(void)fclose(f);
	if ((doc = json_parse(text, n, &err)) == NULL)
		abort();
	return doc;
}

#endif
