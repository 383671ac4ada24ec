/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base64.h"
#include "../budget.h"
#include "../buf.h"
#include "../content.h"
#include "../stash.h"
#include "suite.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* --- the stash ---------------------------------------------------------- */

START_TEST(what_is_put_is_read_again_from_anywhere)
{
	struct stash *s = stash_open();
	struct spilled *a = spilled_new(s), *b = spilled_new(s);
	char piece[3000], back[3000];
	struct error err;

	ck_assert_ptr_null(stash_why(s));
	/* Two at once, so that the blocks of neither are neighbours. */
	for (int i = 0; i < 2000; i++) {
		memset(piece, i & 0x7f, sizeof(piece));
		spilled_put(a, piece, sizeof(piece));
		memset(piece, (i & 0x7f) + 128, sizeof(piece));
		spilled_put(b, piece, sizeof(piece));
	}
	ck_assert_uint_eq(a->len, 2000 * sizeof(piece));
	for (int i = 1999; i >= 0; i -= 7) {
		memset(piece, i & 0x7f, sizeof(piece));
		ck_assert_int_eq(spilled_read(a, (uint64_t)i * sizeof(piece),
		    back, sizeof(back), &err), 0);
		ck_assert_mem_eq(back, piece, sizeof(piece));
		memset(piece, (i & 0x7f) + 128, sizeof(piece));
		ck_assert_int_eq(spilled_read(b, (uint64_t)i * sizeof(piece),
		    back, sizeof(back), &err), 0);
		ck_assert_mem_eq(back, piece, sizeof(piece));
	}
	ck_assert_int_eq(spilled_read(a, a->len - 1, back, 2, &err), -1);
	spilled_drop(a);
	ck_assert_int_eq(spilled_read(b, 0, back, sizeof(back), &err), 0);
	ck_assert_int_eq((unsigned char)back[0], 128);
	spilled_drop(b);
	stash_close(s);
}
END_TEST

START_TEST(all_together_have_a_limit_and_space_comes_back)
{
	static char piece[1 << 20];
	struct stash *s = stash_open();
	struct spilled *all[2] = { spilled_new(s), spilled_new(s) };
	char byte;
	struct error err;

	/* A byte in each block: the rest are holes. */
	for (int round = 0; round < 2; round++) {
		for (long i = 0; i < LIMIT_SPOOL / 2; i++) {
			piece[0] = (char)i;
			spilled_put(all[0], piece, 1);
			all[0]->len = (uint64_t)(i + 1) << 20;
			spilled_put(all[1], piece, 1);
			all[1]->len = (uint64_t)(i + 1) << 20;
		}
		ck_assert_int_eq(all[0]->err.code, ERR_NONE);
		ck_assert_int_eq(spilled_read(all[1], 5ull << 20, &byte, 1,
		    &err), 0);
		ck_assert_int_eq(byte, 5);
		spilled_put(all[1], piece, 1);
		ck_assert_int_eq(all[1]->err.code, ERR_BUSY);
		spilled_put(all[0], piece, 1);
		ck_assert_int_eq(all[0]->err.code, ERR_NONE);
		for (int i = 0; i < 2; i++) {
			spilled_drop(all[i]);
			all[i] = spilled_new(s);
		}
	}
	spilled_drop(all[0]);
	spilled_drop(all[1]);
	stash_close(s);
}
END_TEST

START_TEST(without_a_folder_it_says_which)
{
	struct stash *s;
	struct spilled *p;

	setenv("TMPDIR", "/nowhere", 1);
	s = stash_open();
	unsetenv("TMPDIR");	/* the tests after this may be in one process */
	ck_assert_ptr_nonnull(strstr(stash_why(s)->text, "/nowhere"));
	ck_assert_str_eq(stash_folder(s), "");
	p = spilled_new(s);
	spilled_put(p, "x", 1);
	ck_assert_int_eq(p->err.code, ERR_CONFIG);
	spilled_drop(p);
	stash_close(s);
	ck_assert_ptr_nonnull(stash_why(NULL));
}
END_TEST

/* --- contents ----------------------------------------------------------- */

static const struct {
	enum content_kind kind;
	const char *raw, *meant;	/* NULL: it is refused */
} contents[] = {
	{ CONTENT_TEXT, "plain", "plain" },
	{ CONTENT_TEXT, "\\u00e4\\ud83d\\ude00\\n\\\\", "\xc3\xa4\xf0\x9f\x98"
	    "\x80\n\\" },
	{ CONTENT_BASE64, "Zm9vYmFy", "foobar" },
	{ CONTENT_BASE64, "Zm9v\\nYm\\u0046y", "foobar" },
	{ CONTENT_BASE64, "Zm9vYg==", "foob" },
	{ CONTENT_BASE64, "Zm9vYg=", NULL },
	{ CONTENT_BASE64, "Zm9vYh==", NULL },
	{ CONTENT_BASE64, "Zm9v!", NULL },
	{ CONTENT_BASE64, "Zm9v Ymfy", "foobg\xf2" },
	{ CONTENT_LOOSE, "Zm9vYh==", "foob" },
	{ CONTENT_LOOSE, "Zm9v Ymfy", NULL },
	{ CONTENT_LOOSE, "Zm9v\\r\\nYmFy", "foobar" },
};

/* The same n times over, which is longer than what is read at once. */
static void
measure(const char *raw, bool base64, enum content_kind kind, size_t n,
    struct content *c, struct stash *s)
{
	struct spilled *p = spilled_new(s);
	struct spill_span span = { .escapes = strchr(raw, '\\') != NULL };
	struct error err;

	spilled_put(p, "before", 6);
	span.from = 6;
	for (size_t i = 0; i < n; i++)
		spilled_put(p, base64 ? "QUJD" : "\\u20acx", base64 ? 4 : 7);
	span.escapes |= !base64;
	spilled_put(p, raw, strlen(raw));
	span.len = p->len - 6;
	spilled_put(p, "after", 5);
	ck_assert_int_eq(content_open(c, p, &span, kind, true, &err), 0);
	spilled_drop(p);
}

START_TEST(a_content_is_what_its_text_means)
{
	const char *meant = contents[_i].meant;
	bool base64 = contents[_i].kind != CONTENT_TEXT;
	struct stash *s = stash_open();

	for (size_t n = 0; n < 200000; n = n * 9 + 1) {
		size_t unit = base64 ? 3 : 4, at = 0;
		struct content c = { .size = 0 };
		char piece[777];
		int more;
		long got;

		measure(contents[_i].raw, base64, contents[_i].kind, n, &c, s);
		while ((more = content_measure(&c)) == 1)
			;
		ck_assert_int_eq(more, meant == NULL ? -1 : 0);
		if (meant == NULL) {
			ck_assert_int_eq(c.err.code, ERR_INPUT);
			content_close(&c);
			continue;
		}
		ck_assert_uint_eq(c.size, n * unit + strlen(meant));
		ck_assert_uint_eq(strlen(c.sha256), 64);
		while ((got = content_give(&c, piece, sizeof(piece))) > 0)
			for (long i = 0; i < got; i++, at++)
				ck_assert_int_eq(piece[i], at < n * unit ?
				    (base64 ? "ABC" : "\xe2\x82\xac" "x")
				    [at % unit] : meant[at - n * unit]);
		ck_assert_int_eq(got, 0);
		ck_assert_uint_eq(at, c.size);
		content_rewind(&c);
		ck_assert_int_gt(content_give(&c, piece, 1), 0);
		content_close(&c);
	}
	stash_close(s);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("content");
	TCase *t = tcase_create("content");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, what_is_put_is_read_again_from_anywhere);
	tcase_add_test(t, all_together_have_a_limit_and_space_comes_back);
	tcase_add_test(t, without_a_folder_it_says_which);
	tcase_add_loop_test(t, a_content_is_what_its_text_means, 0,
	    COUNT(contents));
	suite_add_tcase(s, t);
	return suite_run(s);
}
