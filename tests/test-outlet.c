/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../base64.h"
#include "../encoded.h"
#include "../outlet.h"
#include "../stash.h"
#include "suite.h"

/* Takes all that waits, at most step bytes at a time. */
static void
drain(struct outlet *o, size_t step, struct buf *got)
{
	static char piece[OUTLET_PIECE];
	struct error err;
	const char *p;
	size_t n;

	while (!outlet_empty(o)) {
		ck_assert_int_eq(outlet_next(o, piece, &p, &n, &err), 0);
		ck_assert_uint_gt(n, 0);
		n = n < step ? n : step;
		buf_put(got, p, n);
		outlet_took(o, n);
	}
	ck_assert_int_eq(outlet_next(o, piece, &p, &n, &err), 0);
	ck_assert_uint_eq(n, 0);
}

static void
message(struct outlet *o, const char *text, const struct spilled_in *far)
{
	struct buf b;

	buf_init(&b, 1000);
	buf_puts(&b, text);
	outlet_message(o, &b, far);
	buf_free(&b);
}

START_TEST(strings_come_where_they_belong)
{
	static const size_t steps[] = { 1, 2, 3, 7, 100 };
	struct stash *s = stash_open();
	struct spilled *p = spilled_new(s);
	struct spilled_in far = { .spilled = p, .n = 2, .at = { 1, 3 } };
	struct outlet o;
	struct buf got;

	buf_init(&got, 1000);
	outlet_init(&o, 1000);
	spilled_put(p, "<long>", 6);
	message(&o, "first,", NULL);
	message(&o, "[..]", &far);
	message(&o, "[..]", &far);
	buf_puts(&o.out, "\n");
	far.n = 1;
	far.at[0] = 0;
	message(&o, "", &far);
	far.at[0] = 1;
	message(&o, "x", &far);
	ck_assert_uint_eq(outlet_held(&o), 16);
	ck_assert_uint_eq(outlet_length(4, &far), 10);
	ck_assert_uint_eq(outlet_length(4, NULL), 4);
	spilled_drop(p);
	drain(&o, steps[_i], &got);
	ck_assert_str_eq(got.data, "first,[<long>..<long>][<long>..<long>]\n"
	    "<long>x<long>");
	message(&o, "again", NULL);
	buf_reset(&got, 0);
	drain(&o, steps[_i], &got);
	ck_assert_str_eq(got.data, "again");
	outlet_free(&o);
	buf_free(&got);
	stash_close(s);
}
END_TEST

START_TEST(what_is_forgotten_gives_its_space_back)
{
	struct stash *s = stash_open();
	struct spilled *p = spilled_new(s);
	struct spilled_in far = { .spilled = p, .n = 1, .at = { 1 } };
	struct outlet o;

	outlet_init(&o, 1000);
	spilled_put(p, "<long>", 6);
	message(&o, "[]", &far);
	ck_assert_uint_eq(p->holders, 2);
	outlet_reset(&o, 0);
	ck_assert_uint_eq(p->holders, 1);
	ck_assert(outlet_empty(&o));
	message(&o, "[]", &far);
	outlet_free(&o);
	ck_assert_uint_eq(p->holders, 1);
	spilled_drop(p);
	stash_close(s);
}
END_TEST

/* The text that e stands for, decoded. */
static void
decoded(const struct encoded *e, struct buf *out)
{
	struct base64 b = { .n = 0 };
	struct error err;
	char piece[1000];
	size_t n;

	buf_reset(out, 0);
	if (e->spilled == NULL)
		ck_assert_int_eq(base64_decode(&b, e->text.len > 0 ?
		    e->text.data : "", e->text.len, out, &err), 0);
	else
		ck_assert_uint_eq(e->text.len, 0);
	for (uint64_t at = 0; e->spilled != NULL && at < e->spilled->len;
	    at += n) {
		n = e->spilled->len - at < sizeof(piece) ?
		    (size_t)(e->spilled->len - at) : sizeof(piece);
		ck_assert_int_eq(spilled_read(e->spilled, at, piece, n, &err),
		    0);
		ck_assert_int_eq(base64_decode(&b, piece, n, out, &err), 0);
	}
	ck_assert_int_eq(base64_decode_end(&b, &err), 0);
}

START_TEST(bytes_of_any_number_are_encoded)
{
	static const size_t sizes[] = { 0, 1, 2, 3, 49151, 49152, 49153,
	    200000 };
	static char data[200000];
	struct stash *s = stash_open();
	size_t size = sizes[_i], n;
	struct encoded e;
	struct error err;
	struct buf out;
	char sum[65];

	for (size_t i = 0; i < size; i++)
		data[i] = (char)(i * 7 >> 3 ^ i);
	digest_hex(data, size, sum);
	buf_init(&out, sizeof(data));
	for (size_t step = 1000; step < 300000; step = step * 17 + 1) {
		encoded_begin(&e, s);
		for (size_t at = 0; at < size; at += n) {
			n = size - at < step ? size - at : step;
			encoded_put(&e, data + at, n);
		}
		ck_assert_int_eq(encoded_end(&e, &err), 0);
		ck_assert_uint_eq(e.size, size);
		ck_assert_str_eq(e.sha256, sum);
		decoded(&e, &out);
		ck_assert_uint_eq(out.len, size);
		ck_assert_int_eq(memcmp(out.len > 0 ? out.data : "", data,
		    size), 0);
		encoded_free(&e);
	}
	buf_free(&out);
	stash_close(s);
}
END_TEST

START_TEST(what_could_not_be_kept_is_told_at_the_end)
{
	static char data[100000];
	struct stash *s;
	struct encoded e;
	struct error err;

	ck_assert_int_eq(setenv("TMPDIR", "/nowhere", 1), 0);
	s = stash_open();
	ck_assert_int_eq(unsetenv("TMPDIR"), 0);
	encoded_begin(&e, s);
	encoded_put(&e, data, 100);
	ck_assert_int_eq(encoded_end(&e, &err), 0);
	encoded_free(&e);
	encoded_begin(&e, s);
	encoded_put(&e, data, sizeof(data));
	encoded_put(&e, data, sizeof(data));
	ck_assert_int_eq(encoded_end(&e, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "/nowhere"));
	encoded_free(&e);
	stash_close(s);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("outlet");
	TCase *t = tcase_create("outlet");

	tcase_add_loop_test(t, strings_come_where_they_belong, 0, 5);
	tcase_add_test(t, what_is_forgotten_gives_its_space_back);
	tcase_add_loop_test(t, bytes_of_any_number_are_encoded, 0, 8);
	tcase_add_test(t, what_could_not_be_kept_is_told_at_the_end);
	suite_add_tcase(s, t);
	return suite_run(s);
}
