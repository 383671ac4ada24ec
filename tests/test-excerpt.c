/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mbedtls/sha256.h>

#include "fail-alloc.h"
#include "suite.h"
#include "vectors.h"

#include "../excerpt.c"

#include "../error.h"
#include "../json.h"

enum { VECTORS = 86 };

static struct json_doc *doc;

/* One of the forms that "about" in the file explains. */
static void
build(struct json v, struct buf *out)
{
	struct json m;
	struct buf unit;
	long n = 0;

	if (json_type(v) == JSON_STRING) {
		ck_assert(json_text(v, out));
	} else if (json_int(json_get(v, "n"), 0, 1 << 30, &n)) {
		buf_init(&unit, 1 << 20);
		ck_assert(json_text(json_get(v, "repeat"), &unit));
		for (; n > 0; n--)
			buf_put(out, unit.data, unit.len);
		buf_free(&unit);
	} else if (json_int(json_get(v, "counter"), 0, 1 << 30, &n)) {
		for (long i = 0; i < n; i++)
			buf_printf(out, "%ld\n", i);
	} else {
		v = json_get(v, "concat");
		ck_assert_int_eq(json_type(v), JSON_ARRAY);
		for (m = json_first(v); m.tok >= 0; m = json_next(m))
			build(m, out);
	}
}

static void
feed(struct excerpt *x, int stream, const struct buf *in, size_t piece)
{
	size_t n;
	int r = 0;

	for (size_t at = 0; at < in->len; at += n) {
		n = in->len - at < piece ? in->len - at : piece;
		r |= excerpt_put(x, stream, in->data + at, n);
	}
	ck_assert_int_eq(r, 0);		/* once: each assertion is a write */
}

static void
compare(struct excerpt *x, int stream, struct json want, const char *id)
{
	struct excerpt_totals t;
	unsigned char digest[32];
	char hex[65];
	struct buf out;
	long n = -1;
	bool cut = false;

	buf_init(&out, 1 << 24);
	excerpt_text(x, stream, &out, &t);
	ck_assert(buf_ok(&out));
	ck_assert(json_int(json_get(want, "total_chars"), 0, 1 << 30, &n));
	ck_assert_msg(t.total == (size_t)n, "%s: total %zu", id, t.total);
	ck_assert(json_bool(json_get(want, "truncated"), &cut));
	ck_assert_msg(t.truncated == cut, "%s: truncated", id);
	ck_assert(json_int(json_get(want, "utf8_bytes"), 0, 1 << 30, &n));
	ck_assert_msg(out.len == (size_t)n, "%s: %zu bytes", id, out.len);
	ck_assert_uint_eq(t.replaced, 0);
	ck_assert_int_eq(mbedtls_sha256((const unsigned char *)out.data,
	    out.len, digest, 0), 0);
	for (size_t i = 0; i < sizeof(digest); i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	ck_assert_msg(json_is(json_get(want, "sha256"), hex), "%s: %s", id,
	    hex);
	buf_free(&out);
}

START_TEST(agrees_with_the_vector)
{
	static const size_t pieces[] = { SIZE_MAX, 1, 3, 4096 };
	struct json v = json_at(json_path(json_root(doc), "vectors"),
	    (size_t)_i);
	struct json want = json_get(v, "expect");
	struct buf out, err;
	struct excerpt *x;
	char id[80];
	long budget;

	ck_assert(json_str(json_get(v, "id"), id, sizeof(id)));
	ck_assert(json_int(json_get(v, "max_output_chars"), 128,
	    LIMIT_OUTPUT_CHARS, &budget));
	buf_init(&out, 1 << 24);
	buf_init(&err, 1 << 24);
	build(json_get(v, "stdout"), &out);
	build(json_get(v, "stderr"), &err);
	ck_assert(buf_ok(&out) && buf_ok(&err));
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		x = excerpt_open((size_t)budget);
		ck_assert_ptr_nonnull(x);
		feed(x, EXCERPT_OUT, &out, pieces[i]);
		feed(x, EXCERPT_ERR, &err, pieces[i]);
		compare(x, EXCERPT_OUT, json_get(want, "stdout"), id);
		compare(x, EXCERPT_ERR, json_get(want, "stderr"), id);
		excerpt_close(x);
	}
	buf_free(&out);
	buf_free(&err);
}
END_TEST

START_TEST(knows_every_vector)
{
	ck_assert_uint_eq(json_count(json_get(json_root(doc), "vectors")),
	    VECTORS);
}
END_TEST

static void
text_is(struct excerpt *x, const char *want, size_t replaced)
{
	struct excerpt_totals t;
	struct buf out;

	buf_init(&out, 1 << 20);
	excerpt_text(x, EXCERPT_OUT, &out, &t);
	ck_assert_str_eq(out.len > 0 ? out.data : "", want);
	ck_assert_uint_eq(t.replaced, replaced);
	buf_free(&out);
}

/* What Python's errors="replace" makes of each. */
static const struct {
	const char *in, *out;
	size_t replaced;
} ill[] = {
	{ "a\xff" "b", "a\xef\xbf\xbd" "b", 1 },
	{ "\xc3\xa9\xc3", "\xc3\xa9\xef\xbf\xbd", 1 },
	{ "\xe2\x82", "\xef\xbf\xbd", 1 },
	{ "\xe2\x82x", "\xef\xbf\xbdx", 1 },
	{ "\xf0\x9f\x98\xf0\x9f\x98\x80", "\xef\xbf\xbd\xf0\x9f\x98\x80", 1 },
	{ "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 3 },
	{ "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd", 2 },
	{ "\xef\xbf\xbd", "\xef\xbf\xbd", 0 },
};

START_TEST(shows_ill_formed_bytes_as_replaced)
{
	size_t len = strlen(ill[_i].in);

	for (size_t piece = 1; piece <= len; piece++) {
		struct excerpt *x = excerpt_open(128);

		for (size_t at = 0; at < len; at += piece)
			ck_assert_int_eq(excerpt_put(x, EXCERPT_OUT,
			    ill[_i].in + at,
			    len - at < piece ? len - at : piece), 0);
		text_is(x, ill[_i].out, ill[_i].replaced);
		excerpt_close(x);
	}
}
END_TEST

START_TEST(goes_on_after_it_was_asked)
{
	struct excerpt *x = excerpt_open(128);

	excerpt_put(x, EXCERPT_OUT, "caf\xc3", 4);
	text_is(x, "caf\xef\xbf\xbd", 1);
	excerpt_put(x, EXCERPT_OUT, "\xa9", 1);
	text_is(x, "caf\xc3\xa9", 0);
	excerpt_close(x);
}
END_TEST

START_TEST(counts_a_begun_sequence_in_a_tail)
{
	struct excerpt_totals t;
	struct excerpt *x = excerpt_open(128);
	struct buf out;

	for (int i = 0; i < 300; i++)
		excerpt_put(x, EXCERPT_OUT, "\xe2\x82\xac", 3);
	excerpt_put(x, EXCERPT_OUT, "\xe2\x82", 2);
	buf_init(&out, 4096);
	excerpt_text(x, EXCERPT_OUT, &out, &t);
	ck_assert_uint_eq(t.total, 301);
	ck_assert_uint_eq(t.bytes, 902);
	ck_assert(t.truncated);
	ck_assert_ptr_nonnull(strstr(out.data,
	    "\n[... 207 characters omitted ...]\n"));
	ck_assert_str_eq(out.data + out.len - 6, "\xe2\x82\xac\xef\xbf\xbd");
	buf_free(&out);
	excerpt_close(x);
}
END_TEST

START_TEST(keeps_memory_flat)
{
	struct excerpt *x = excerpt_open(1000);
	char piece[8192];

	memset(piece, 'x', sizeof(piece));
	for (int i = 0; i < 2000; i++)
		ck_assert_int_eq(excerpt_put(x, i & 1, piece, sizeof(piece)),
		    0);
	for (int i = 0; i < 2; i++) {
		ck_assert_uint_le(x->stream[i].head_cap, 2000);
		ck_assert_uint_le(x->stream[i].ring_cap, 2000);
	}
	excerpt_close(x);
}
END_TEST

static const struct { const char *out, *last; } lines[] = {
	{ "", "" }, { "one", "one" }, { "one\n", "one" },
	{ "one\ntwo", "two" }, { "one\r\ntwo\r\n\r\n", "two" },
	{ "10%\r20%\r", "20%" }, { "a\tb\033[0m", "a b [0m" },
	{ "0123456789abcdef0123456789", "0123456789abcde" },
	{ "0123456789abcd\xe2\x82\xac", "0123456789abcd" },
	{ "x\n\xff", "\xef\xbf\xbd" },
};

START_TEST(tells_the_last_line_begun)
{
	struct excerpt *x = excerpt_open(128);
	char line[16];

	excerpt_put(x, EXCERPT_ERR, "before\n", 7);
	excerpt_put(x, EXCERPT_OUT, lines[_i].out, strlen(lines[_i].out));
	excerpt_last_line(x, line, sizeof(line));
	ck_assert_str_eq(line, _i == 0 ? "before" : lines[_i].last);
	excerpt_close(x);
}
END_TEST

START_TEST(tells_the_last_line_of_a_long_output)
{
	struct excerpt *x = excerpt_open(128);
	char line[400];

	for (int i = 0; i < 300; i++)
		excerpt_put(x, EXCERPT_OUT, "some line\n", 10);
	excerpt_put(x, EXCERPT_OUT, "the end", 7);
	excerpt_last_line(x, line, sizeof(line));
	ck_assert_str_eq(line, "the end");
	for (int i = 0; i < 300; i++)
		excerpt_put(x, EXCERPT_OUT, "abcdefghij", 10);
	excerpt_last_line(x, line, sizeof(line));
	ck_assert_uint_eq(strlen(line), 64);
	excerpt_close(x);
}
END_TEST

START_TEST(survives_each_allocation_that_fails)
{
	struct excerpt_totals t;
	struct excerpt *x;
	struct buf out;
	int failed = 0;

	for (long n = 0; n < 40; n++) {
		alloc_left = n;
		x = excerpt_open(20000);
		for (int i = 0; x != NULL && i < 4000; i++)
			failed += excerpt_put(x, EXCERPT_OUT,
			    "0123456789\xc3\xa9", 12) == -1;
		alloc_left = -1;
		if (x == NULL)
			continue;
		buf_init(&out, 1 << 20);
		excerpt_text(x, EXCERPT_OUT, &out, &t);
		ck_assert(buf_ok(&out));
		buf_free(&out);
		excerpt_close(x);
	}
	ck_assert_int_gt(failed, 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("excerpt");
	TCase *t = tcase_create("excerpt");
	int failed;

	doc = vectors_load("tests/vectors/budget.json");
	tcase_set_timeout(t, 60);
	tcase_add_test(t, knows_every_vector);
	tcase_add_loop_test(t, agrees_with_the_vector, 0, VECTORS);
	tcase_add_loop_test(t, shows_ill_formed_bytes_as_replaced, 0,
	    (int)(sizeof(ill) / sizeof(ill[0])));
	tcase_add_test(t, goes_on_after_it_was_asked);
	tcase_add_test(t, counts_a_begun_sequence_in_a_tail);
	tcase_add_test(t, keeps_memory_flat);
	tcase_add_loop_test(t, tells_the_last_line_begun, 0,
	    (int)(sizeof(lines) / sizeof(lines[0])));
	tcase_add_test(t, tells_the_last_line_of_a_long_output);
	tcase_add_test(t, survives_each_allocation_that_fails);
	suite_add_tcase(s, t);
	failed = suite_run(s);
	json_free(doc);
	return failed;
}
