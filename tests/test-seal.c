/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../buf.h"
#include "../error.h"
#include "../seal.h"
#include "suite.h"

static const unsigned char key[SEAL_KEY] = "a key of thirty-two bytes, right";
static unsigned char about[SEAL_ABOUT];
static struct buf sealed, state;
static struct error err;

static void
set_up(void)
{
	memset(about, 0, sizeof(about));
	seal_about(about, "tools/call", 10);
	buf_init(&sealed, 1 << 20);
	buf_init(&state, 1 << 20);
}

static void
tear_down(void)
{
	buf_free(&sealed);
	buf_free(&state);
}

static int
open_at(long now)
{
	buf_reset(&state, 0);
	return seal_open(key, about, now, sealed.data, sealed.len, &state,
	    &err);
}

START_TEST(gives_the_state_back_for_its_time)
{
	char text[64];

	for (size_t len = 0; len < sizeof(text); len++) {
		memset(text, (int)(len * 7 + 1), sizeof(text));
		buf_reset(&sealed, 0);
		ck_assert_int_eq(seal_make(key, about, 1000, text, len, &sealed,
		    &err), 0);
		ck_assert_uint_eq(strspn(sealed.data, "ABCDEFGHIJKLMNOPQRSTUV"
		    "WXYZabcdefghijklmnopqrstuvwxyz0123456789-_"), sealed.len);
		ck_assert_int_eq(open_at(1000), 0);
		ck_assert_uint_eq(state.len, len);
		ck_assert(len == 0 || memcmp(state.data, text, len) == 0);
		ck_assert_int_eq(open_at(1000 + SEAL_SECONDS), 0);
		ck_assert_int_eq(open_at(1001 + SEAL_SECONDS), -1);
		ck_assert_str_eq(err.text, "requestState has expired after 15 "
		    "minutes; call again without it");
	}
}
END_TEST

START_TEST(refuses_a_change_of_any_bit)
{
	ck_assert_int_eq(seal_make(key, about, 1000, "state", 5, &sealed,
	    &err), 0);
	for (size_t i = 0; i < sealed.len; i++)
		for (int bit = 0; bit < 8; bit++) {
			sealed.data[i] = (char)(sealed.data[i] ^ 1 << bit);
			ck_assert_int_eq(open_at(1000), -1);
			ck_assert_uint_eq(state.len, 0);
			sealed.data[i] = (char)(sealed.data[i] ^ 1 << bit);
		}
	ck_assert_int_eq(open_at(1000), 0);
}
END_TEST

START_TEST(refuses_every_part_of_it_and_more)
{
	size_t whole;

	ck_assert_int_eq(seal_make(key, about, 1000, "state", 5, &sealed,
	    &err), 0);
	whole = sealed.len;
	for (sealed.len = 0; sealed.len < whole; sealed.len++)
		ck_assert_int_eq(open_at(1000), -1);
	sealed.len = whole;
	buf_puts(&sealed, "-TAMPERED");
	ck_assert_int_eq(open_at(1000), -1);
	ck_assert_int_eq(err.code, ERR_INPUT);
}
END_TEST

START_TEST(refuses_another_key_and_another_request)
{
	static const unsigned char other[SEAL_KEY] = { 1 };

	ck_assert_int_eq(seal_make(other, about, 1000, "state", 5, &sealed,
	    &err), 0);
	ck_assert_int_eq(open_at(1000), -1);
	buf_reset(&sealed, 0);
	ck_assert_int_eq(seal_make(key, about, 1000, "state", 5, &sealed,
	    &err), 0);
	seal_about(about, "", 0);
	ck_assert_int_eq(open_at(1000), -1);
}
END_TEST

START_TEST(tells_where_one_piece_ends)
{
	unsigned char a[SEAL_ABOUT] = { 0 }, b[SEAL_ABOUT] = { 0 };

	seal_about(a, "ab", 2);
	seal_about(a, "c", 1);
	seal_about(b, "a", 1);
	seal_about(b, "bc", 2);
	ck_assert_mem_ne(a, b, sizeof(a));
}
END_TEST

START_TEST(says_when_there_is_no_room)
{
	struct buf small;

	buf_init(&small, 20);
	ck_assert_int_eq(seal_make(key, about, 1000, "state", 5, &small,
	    &err), -1);
	ck_assert_int_eq(err.code, ERR_LIMIT);
	buf_free(&small);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("seal");
	TCase *t = tcase_create("seal");

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, gives_the_state_back_for_its_time);
	tcase_add_test(t, refuses_a_change_of_any_bit);
	tcase_add_test(t, refuses_every_part_of_it_and_more);
	tcase_add_test(t, refuses_another_key_and_another_request);
	tcase_add_test(t, tells_where_one_piece_ends);
	tcase_add_test(t, says_when_there_is_no_room);
	suite_add_tcase(s, t);
	return suite_run(s);
}
