/* SPDX-License-Identifier: Apache-2.0 */
/* The mark that closes an output: never shown, never missed, however cut. */
#include <check.h>
#include <stdlib.h>

#include "../run.c"
#include "suite.h"

static char got[4096];
static size_t got_len;

static void
sink(void *arg, const struct event *ev)
{
	(void)arg;
	memcpy(got + got_len, ev->data, ev->len);
	got_len += ev->len;
}

/* Beginnings of the mark, and what looks like them, in any order. */
static size_t
compose(const struct run *r, char *in)
{
	size_t n = 0;

	for (int i = rand() % 4; i > 0; i--) {
		size_t k = (size_t)(rand() % (MARK + 1));

		if (rand() % 2 == 0)
			memcpy(in + n, r->mark, k);
		else
			memset(in + n, "0a1b"[rand() % 4], k);
		n += k;
	}
	if (rand() % 2 == 0) {
		memcpy(in + n, r->mark, MARK);
		n += MARK;
	}
	return n;
}

static const char *const marks[] = {
	"0123456789abcdef0123456789abcdef", "01010101010101010101010101010101",
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaabaaaaaaaaaaaaaaa",
};

START_TEST(an_output_comes_whole_and_without_its_mark)
{
	char in[256];
	int wrong = 0;

	srand(7);
	for (int turn = 0; turn < 5000 && wrong == 0; turn++) {
		struct run r = { .fn = sink };
		size_t n, at = 0, want;
		bool closed;

		memcpy(r.mark, marks[_i], MARK + 1);
		n = compose(&r, in);
		closed = n >= MARK && memcmp(in + n - MARK, r.mark, MARK) == 0;
		want = closed ? n - MARK : n;
		got_len = 0;
		while (at < n) {
			size_t k = 1 + (size_t)(rand() % 40);
			struct event ev = { .type = EVENT_DATA, .channel = 1,
			    .data = in + at, .len = k < n - at ? k : n - at };

			pass(&r, &ev);
			at += ev.len;
		}
		wrong += (r.held[0] == MARK) != closed;
		(void)close_streams(&r);
		wrong += got_len != want || memcmp(got, in, want) != 0;
	}
	ck_assert_int_eq(wrong, 0);
}
END_TEST

START_TEST(a_short_line_is_passed_on_at_once)
{
	struct run r = { .fn = sink };
	struct event ev = { .type = EVENT_DATA, .channel = 1,
	    .data = "line one\n", .len = 9 };

	memcpy(r.mark, marks[0], MARK + 1);
	got_len = 0;
	pass(&r, &ev);
	ck_assert_uint_eq(got_len, 9);
}
END_TEST

/* What comes on stderr first; expected; then what is passed on, known of the
 * container, and whether it is another. */
#define HEAD "0123456789abcdef0123456789abcdef"
static const struct {
	const char *in, *expected, *out, *identity;
	bool replaced;
} heads[] = {
	{ HEAD " boot.7\noops\n", "", "oops\n", "boot.7", false },
	{ HEAD " boot.7\n", "boot.7", "", "old", false },
	{ HEAD " boot.8\n", "boot.7", "", "old", true },
	{ HEAD " \n" HEAD, "", "", "", false },
	{ HEAD " \n", "boot.7", "", "old", true },
	{ HEAD " nothing\nx", "", "x", "", false },
	{ "sh: not found\n", "boot.7", "sh: not found\n", "old", false },
	{ "012x" HEAD, "", "012x", "old", false },
	{ "0123", "", "0123", "old", false },
	{ "", "", "", "old", false },
};

/* Whole, then in pieces of every size. */
START_TEST(the_wrapper_says_which_container_it_is)
{
	size_t n = strlen(heads[_i].in);

	for (size_t piece = 1; piece <= n + 1; piece++) {
		struct link l = { .identity = "old" };
		struct run r = { .fn = sink, .link = &l, .marked = true };

		memcpy(r.mark, marks[0], MARK + 1);
		(void)snprintf(r.expected, sizeof(r.expected), "%s",
		    heads[_i].expected);
		got_len = 0;
		for (size_t at = 0; at < n; at += piece) {
			struct event ev = { .type = EVENT_DATA, .channel = 2,
			    .data = heads[_i].in + at,
			    .len = piece < n - at ? piece : n - at };

			on_main(&r, &ev);
		}
		(void)close_streams(&r);
		ck_assert_uint_eq(got_len, strlen(heads[_i].out));
		ck_assert_mem_eq(got, heads[_i].out, got_len);
		ck_assert_str_eq(l.identity, heads[_i].identity);
		ck_assert_int_eq(r.replaced, heads[_i].replaced);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("run");
	TCase *t = tcase_create("run");

	suite_add_tcase(s, t);
	tcase_add_loop_test(t, an_output_comes_whole_and_without_its_mark, 0,
	    sizeof(marks) / sizeof(marks[0]));
	tcase_add_loop_test(t, the_wrapper_says_which_container_it_is, 0,
	    sizeof(heads) / sizeof(heads[0]));
	tcase_add_test(t, a_short_line_is_passed_on_at_once);
	return suite_run(s);
}
