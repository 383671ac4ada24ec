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

int
main(void)
{
	Suite *s = suite_create("run");
	TCase *t = tcase_create("run");

	suite_add_tcase(s, t);
	tcase_add_loop_test(t, an_output_comes_whole_and_without_its_mark, 0,
	    sizeof(marks) / sizeof(marks[0]));
	tcase_add_test(t, a_short_line_is_passed_on_at_once);
	return suite_run(s);
}
