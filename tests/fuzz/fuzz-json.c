/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../buf.h"
#include "../../error.h"
#include "../../json.h"
#include "../../jsonw.h"
#include "../../budget.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
scalar(struct json v)
{
	struct buf text;
	char small[16], piece[5];
	size_t at = 0, n, bytes = 0;
	double d;
	long i;
	bool b;

	buf_init(&text, 1 << 20);
	if (json_text(v, &text)) {
		assert(json_bytes(v) == text.len);
		assert(json_chars(v) <= text.len);
		while ((n = json_piece(v, &at, piece, sizeof(piece))) > 0) {
			assert(memcmp(piece, text.data + bytes, n) == 0);
			bytes += n;
		}
		assert(bytes == text.len);
		assert(json_is(v, text.data) == (strlen(text.data) ==
		    text.len));
	}
	if (json_str(v, small, sizeof(small)))
		assert(strcmp(small, text.data) == 0);
	if (json_int(v, -1000, 1000, &i) && json_double(v, &d))
		assert((long)d == i);
	(void)json_bool(v, &b);
	buf_free(&text);
}

/* Every value once; the parser has bounded the depth. */
static void
walk(struct json v, unsigned depth)
{
	struct json m;
	size_t n = 0, len;

	(void)json_raw(v, &len);
	scalar(v);
	assert(depth <= LIMIT_JSON_DEPTH);
	for (m = json_first(v); json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		assert((json_type(v) == JSON_OBJECT) ==
		    (json_type(json_key(m)) == JSON_STRING));
		scalar(json_key(m));
		walk(m, depth + 1);
		n++;
	}
	assert(n == json_count(v));
}

/* What was taken once must be taken again when it is part of another. */
static void
rewrite(struct json v)
{
	struct error err;
	struct json_doc *doc;
	struct jsonw w;
	struct buf out;
	size_t len;
	const char *raw = json_raw(v, &len);

	buf_init(&out, 1 << 22);
	jsonw_init(&w, &out);
	jsonw_raw(&w, NULL, raw, len);
	doc = json_parse(out.data, out.len, &err);
	assert(doc != NULL);
	assert(json_type(json_root(doc)) == json_type(v));
	json_free(doc);
	buf_free(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error err;
	struct json_doc *strict, *lax;

	strict = json_parse((const char *)data, size, &err);
	lax = json_parse_lax((const char *)data, size, &err);
	assert(strict == NULL || lax != NULL);
	if (strict != NULL) {
		walk(json_root(strict), 0);
		rewrite(json_root(strict));
	}
	if (lax != NULL) {
		(void)json_path(json_root(lax), "a.b");
		walk(json_root(lax), 0);
	}
	json_free(strict);
	json_free(lax);
	return 0;
}
