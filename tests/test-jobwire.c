/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../buf.h"
#include "../error.h"
#include "../json.h"
#include "../jobwire.h"
#include "suite.h"
#include "vectors.h"

struct seen {
	struct buf text;	/* "A:payload;" for each record */
	bool begun;
};

static int
see(void *arg, char type, const char *data, size_t len, bool last)
{
	struct seen *s = arg;

	if (!s->begun)
		buf_printf(&s->text, "%c:", type);
	s->begun = !last;
	buf_put(&s->text, data, len);
	if (last)
		buf_puts(&s->text, ";");
	return type == 'R' ? -1 : 0;
}

/* What comes of a stream that arrives in pieces; false: it was refused. */
static bool
feed(const char *data, size_t len, size_t piece, struct seen *s, bool *ended)
{
	struct jobwire w = { .n = 0 };
	struct error err;
	bool ok = true;
	size_t n;

	*s = (struct seen){ .begun = false };
	buf_init(&s->text, 1 << 20);
	for (size_t at = 0; ok && at < len; at += n) {
		n = len - at < piece ? len - at : piece;
		ok = jobwire_feed(&w, data + at, n, see, s, &err) == 0;
	}
	*ended = w.ended;
	return ok;
}

START_TEST(records_arrive_whole_in_pieces_of_any_size)
{
	struct seen s;
	struct buf b;
	bool ended;

	buf_init(&b, 1 << 16);
	jobwire_put(&b, 'S', "{}", 2);
	jobwire_put(&b, 'O', "", 0);
	jobwire_put(&b, 'D', "a\0b\n", 4);
	jobwire_put(&b, 'Z', NULL, 0);
	for (size_t piece = 1; piece <= b.len; piece++) {
		ck_assert(feed(b.data, b.len, piece, &s, &ended));
		ck_assert(ended);
		ck_assert_uint_eq(s.text.len, 18);
		ck_assert_mem_eq(s.text.data, "S:{};O:;D:a\0b\n;Z:;",
		    s.text.len);
		buf_free(&s.text);
	}
	buf_free(&b);
}
END_TEST

START_TEST(what_is_no_record_is_refused)
{
	static const char *const bad[] = {
		"S0000000g\n", "s00000000\n", "S00000000 ", "S0000000A\n",
		"Sffffffff\n", "S01000001\n", "{\"state\":\"ended\"}",
		"Z00000000\nS00000000\n", "R00000000\n",
	};
	struct seen s;
	bool ended;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		for (size_t piece = 1; piece < 12; piece++) {
			ck_assert_msg(!feed(bad[i], strlen(bad[i]), piece, &s,
			    &ended), "%s", bad[i]);
			buf_free(&s.text);
		}
}
END_TEST

START_TEST(a_stream_that_is_cut_is_not_whole)
{
	struct seen s;
	bool ended;

	ck_assert(feed("S00000005\nab", 12, 3, &s, &ended));
	ck_assert(!ended);
	buf_free(&s.text);
}
END_TEST

START_TEST(a_path_matches_its_glob)
{
	static const struct { const char *glob, *path; bool yes; } rows[] = {
		{ "a", "a", true }, { "a", "b", false }, { "", "", true },
		{ "*", "abc", true }, { "*", "", true }, { "*", "a/b", false },
		{ "*.c", "x.c", true }, { "*.c", "d/x.c", false },
		{ "d/*", "d/x", true }, { "d/*", "d/x/y", false },
		{ "**", "a/b/c", true }, { "**/*.c", "x.c", true },
		{ "**/*.c", "a/b/x.c", true }, { "**/x", "ax", false },
		{ "**/x", "b/ax", false }, { "a/**", "a/b/c", true },
		{ "a/**/c", "a/c", true }, { "a/**/c", "a/b/b/c", true },
		{ "a/**/c", "a/bc", false }, { "?", "a", true },
		{ "?", "/", false }, { "a?c", "abc", true },
		{ "*a*b*", "xxaxxbxx", true }, { "*a*b*", "xxbxxaxx", false },
		{ "**/../**", "a/../b", true }, { "**/../**", "a..b/c", false },
		{ "***", "a/b", true },
		{ "*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		    false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ck_assert_msg(jobwire_glob(rows[i].glob, rows[i].path) ==
		    rows[i].yes, "%s %s", rows[i].glob, rows[i].path);
}
END_TEST

/*
 * The vectors' entries come as a tar has them: folders, links and the
 * sentinel are none of the cap's business. What the original left out ours
 * names with nothing in it.
 */
START_TEST(a_cap_cuts_as_the_originals)
{
	struct json_doc *d =
	    vectors_load("tests/vectors/ephemeral-job.json");
	struct json c, m, got, cases = json_path(json_root(d),
	    "artifact_collection.cases");
	long max, size, want;
	char name[200];
	const char *base;
	bool flag;

	ck_assert_uint_gt(json_count(cases), 5);
	for (c = json_first(cases); json_type(c) != JSON_NONE;
	    c = json_next(c)) {
		struct jobwire_cap cap = { .max = 0 };

		/* A tar that is broken: there is none here. */
		if (json_type(json_get(c, "entries")) == JSON_NONE)
			continue;
		ck_assert(json_int(json_get(c, "cap"), 0, 1L << 40, &max));
		cap.max = (uint64_t)max;
		got = json_first(json_get(c, "got"));
		for (m = json_first(json_get(c, "entries"));
		    json_type(m) != JSON_NONE; m = json_next(m)) {
			uint64_t n;

			ck_assert(json_str(json_get(m, "name"), name,
			    sizeof(name)));
			base = strrchr(name, '/');
			base = base == NULL ? name : base + 1;
			if (!json_is(json_get(m, "type"), "file") ||
			    strcmp(base, ".runjob-ready") == 0)
				continue;
			ck_assert(json_int(json_get(m, "size"), 0, 1L << 40,
			    &size));
			n = jobwire_take(&cap, (uint64_t)size);
			if (json_type(got) == JSON_NONE) {
				ck_assert_uint_eq(n, 0);
				continue;
			}
			ck_assert(json_int(json_get(got, "content_len"), 0,
			    1L << 40, &want));
			ck_assert_uint_eq(n, (uint64_t)want);
			got = json_next(got);
		}
		ck_assert_int_eq(json_type(got), JSON_NONE);
		ck_assert(json_bool(json_get(c, "truncated"), &flag));
		ck_assert_int_eq(cap.truncated, flag);
	}
	json_free(d);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("jobwire");
	TCase *t = tcase_create("jobwire");

	tcase_add_test(t, records_arrive_whole_in_pieces_of_any_size);
	tcase_add_test(t, what_is_no_record_is_refused);
	tcase_add_test(t, a_stream_that_is_cut_is_not_whole);
	tcase_add_test(t, a_path_matches_its_glob);
	tcase_add_test(t, a_cap_cuts_as_the_originals);
	suite_add_tcase(s, t);
	return suite_run(s);
}
