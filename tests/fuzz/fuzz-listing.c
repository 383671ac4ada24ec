/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../buf.h"
#include "../../error.h"
#include "../../listing.h"
#include "../../path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
note(void *arg, const struct listing_entry *e)
{
	struct buf *b = arg;

	buf_put(b, e->name, e->name_len);
	buf_printf(b, "%d %ld %a\n", e->folder, e->size, e->mtime);
}

static int
list(int level, const char *data, size_t size, size_t piece, struct buf *out)
{
	struct listing l;
	struct error err;
	int r = 0;

	if (level == 0)
		listing_records(&l, "mark ", note, out);
	else
		listing_json(&l, level, note, out);
	for (size_t at = 0; at < size && r == 0; at += piece)
		r = listing_feed(&l, data + at, size - at < piece ? size - at :
		    piece, &err);
	if (r == 0)
		r = listing_end(&l, &err);
	listing_free(&l);
	return r;
}

/* A normal form is one: it stays, and has no part that is not a name. */
static void
path(const char *data, size_t size)
{
	char *text = malloc(size + 2), *again;

	memcpy(text, data, size);
	text[size] = '\0';
	if (path_clean(text) == 0) {
		assert(text[0] != '\0' && strstr(text, "//") == NULL);
		assert(strncmp(text, "../", 3) != 0 && strcmp(text, "..") != 0);
		again = strdup(text);
		assert(path_clean(again) == 0 && strcmp(text, again) == 0);
		free(again);
	}
	free(text);
}

/* The pieces in which a list comes make no difference. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct buf whole, slow;

	for (int level = 0; level < 3; level++) {
		buf_init(&whole, 1 << 22);
		buf_init(&slow, 1 << 22);
		if (list(level, text, size, size + 1, &whole) == 0) {
			assert(list(level, text, size, 1, &slow) == 0);
			assert(whole.len == slow.len && (whole.len == 0 ||
			    memcmp(whole.data, slow.data, slow.len) == 0));
		}
		buf_free(&whole);
		buf_free(&slow);
	}
	path(text, size);
	return 0;
}
