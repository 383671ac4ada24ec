/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "fail-alloc.h"
#include "suite.h"

#include "../buf.c"

#include "../error.h"
#include "../grpc.h"
#include "../budget.h"

static int
collect(void *arg, const char *data, size_t len)
{
	struct buf *out = arg;

	buf_printf(out, "%zu:", len);
	buf_put(out, data, len);
	buf_puts(out, ";");
	return 0;
}

static int
stop(void *arg, const char *data, size_t len)
{
	(void)data;
	(void)len;
	grpc_reader_free(arg);	/* as a caller may */
	return -1;
}

/* Bytes from the protobuf encoding documentation. */
START_TEST(writes_the_wire_format)
{
	struct buf out;

	buf_init(&out, 100);
	pb_varint(&out, 1, 150);
	pb_str(&out, 2, "testing");
	pb_varint(&out, 16, UINT64_MAX);
	pb_bytes(&out, 3, "\0", 1);
	ck_assert(buf_ok(&out));
	ck_assert_uint_eq(out.len, 3 + 9 + 12 + 3);
	ck_assert_mem_eq(out.data, "\x08\x96\x01\x12\x07testing\x80\x01"
	    "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x1a\x01\0", out.len);
	buf_free(&out);
}
END_TEST

START_TEST(reads_each_wire_type)
{
	static const char text[] = "\x08\x96\x01" "\x12\x03" "abc"
	    "\x1d\x01\x02\x03\x04" "\x21\x01\0\0\0\0\0\0\x80" "\x2a\0";
	const char *p = text, *end = text + sizeof(text) - 1;
	struct pb_field f;

	ck_assert_int_eq(pb_next(&p, end, &f), 1);
	ck_assert(f.number == 1 && f.type == 0 && f.value == 150);
	ck_assert_int_eq(pb_next(&p, end, &f), 1);
	ck_assert(f.number == 2 && f.type == 2 && f.len == 3);
	ck_assert_mem_eq(f.data, "abc", 3);
	ck_assert_int_eq(pb_next(&p, end, &f), 1);
	ck_assert(f.number == 3 && f.type == 5 && f.value == 0x04030201);
	ck_assert_int_eq(pb_next(&p, end, &f), 1);
	ck_assert(f.number == 4 && f.type == 1 &&
	    f.value == 0x8000000000000001);
	ck_assert_int_eq(pb_next(&p, end, &f), 1);
	ck_assert(f.number == 5 && f.type == 2 && f.len == 0);
	ck_assert_int_eq(pb_next(&p, end, &f), 0);
}
END_TEST

static const struct { const char *text; size_t len; } bad_fields[] = {
	{ "\x08", 1 }, { "\x08\x80", 2 }, { "\x12\x04" "abc", 5 },
	{ "\x0b", 1 }, { "\x0c", 1 }, { "\x0e\x01", 2 }, { "\x00\x01", 2 },
	{ "\x1d\x01\x02\x03", 4 }, { "\x21\x01\0\0\0\0\0\0", 8 },
	{ "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11 },
	{ "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11 },
	{ "\xf8\xff\xff\xff\xff\x01\x01", 7 },
};

START_TEST(refuses_a_bad_field)
{
	const char *p = bad_fields[_i].text;
	struct pb_field f;

	ck_assert_int_eq(pb_next(&p, p + bad_fields[_i].len, &f), -1);
}
END_TEST

START_TEST(puts_the_prefix_before_the_message)
{
	struct buf out;

	buf_init(&out, 1000);
	buf_puts(&out, "before");
	buf_puts(&out, "message");
	grpc_frame(&out, 6);
	ck_assert_uint_eq(out.len, 6 + 5 + 7);
	ck_assert_mem_eq(out.data, "before\0\0\0\0\x07message", out.len);
	grpc_frame(&out, out.len);
	ck_assert_mem_eq(out.data + 18, "\0\0\0\0\0", 5);
	buf_free(&out);
}
END_TEST

START_TEST(reads_messages_in_pieces_of_any_size)
{
	static const char text[] = "\0\0\0\0\x03" "abc" "\0\0\0\0\0"
	    "\0\0\0\x01\x02" "0123456789";
	char stream[8 + 5 + 5 + 258], want[600];
	struct error err = { .code = ERR_NONE };

	memset(stream, 'x', sizeof(stream));
	memcpy(stream, text, 18);
	(void)snprintf(want, sizeof(want), "3:abc;0:;258:%.*s;", 258,
	    stream + 18);
	for (size_t piece = 1; piece <= sizeof(stream); piece++) {
		struct grpc_reader r;
		struct buf out;

		grpc_reader_init(&r);
		buf_init(&out, 1000);
		for (size_t at = 0; at < sizeof(stream); at += piece)
			ck_assert_int_eq(grpc_feed(&r, stream + at,
			    sizeof(stream) - at < piece ? sizeof(stream) - at :
			    piece, collect, &out, &err), 0);
		ck_assert(grpc_reader_idle(&r));
		ck_assert_str_eq(out.data, want);
		buf_free(&out);
		grpc_reader_free(&r);
	}
}
END_TEST

START_TEST(knows_when_a_message_is_cut)
{
	struct error err = { .code = ERR_NONE };
	struct grpc_reader r;
	struct buf out;

	buf_init(&out, 100);
	grpc_reader_init(&r);
	ck_assert(grpc_reader_idle(&r));
	ck_assert_int_eq(grpc_feed(&r, "\0\0\0\0\x02" "a", 6, collect, &out,
	    &err), 0);
	ck_assert(!grpc_reader_idle(&r));
	ck_assert_uint_eq(out.len, 0);
	grpc_reader_free(&r);
}
END_TEST

static const struct {
	const char *prefix;
	enum error_code code;
} bad_prefix[] = {
	{ "\x01\0\0\0\x01", ERR_CLUSTER }, { "\xff\0\0\0\0", ERR_CLUSTER },
	{ "\0\0\x40\0\x01", ERR_LIMIT }, { "\0\xff\xff\xff\xff", ERR_LIMIT },
};

START_TEST(refuses_a_bad_prefix_and_all_after_it)
{
	struct error err = { .code = ERR_NONE };
	struct grpc_reader r;
	struct buf out;

	buf_init(&out, 100);
	grpc_reader_init(&r);
	ck_assert_int_eq(grpc_feed(&r, bad_prefix[_i].prefix, 5, collect,
	    &out, &err), -1);
	ck_assert_int_eq(err.code, bad_prefix[_i].code);
	ck_assert_int_eq(grpc_feed(&r, "\0\0\0\0\0", 5, collect, &out, &err),
	    -1);
	ck_assert_uint_eq(out.len, 0);
	grpc_reader_free(&r);
}
END_TEST

START_TEST(stops_when_told_and_may_be_freed_then)
{
	struct error err = { .code = ERR_NONE };
	struct grpc_reader r;

	grpc_reader_init(&r);
	ck_assert_int_eq(grpc_feed(&r, "\0\0\0\0\x01xyz", 8, stop, &r, &err),
	    -1);
	ck_assert_int_eq(err.code, ERR_NONE);
}
END_TEST

START_TEST(says_when_there_is_no_memory)
{
	struct error err = { .code = ERR_NONE };
	char big[2000] = "\0\0\0\x07\xcb";

	for (long n = 0; n < 3; n++) {
		struct grpc_reader r;
		struct buf out;

		buf_init(&out, 0);
		grpc_reader_init(&r);
		alloc_left = n;
		ck_assert_int_eq(grpc_feed(&r, big, sizeof(big), collect,
		    &out, &err), n < 2 ? -1 : 0);
		alloc_left = -1;
		buf_free(&out);
		grpc_reader_free(&r);
	}
	ck_assert_int_eq(err.code, ERR_SYSTEM);
}
END_TEST

START_TEST(names_the_status_codes)
{
	ck_assert_str_eq(grpc_code_name(0), "OK");
	ck_assert_str_eq(grpc_code_name(5), "NOT_FOUND");
	ck_assert_str_eq(grpc_code_name(16), "UNAUTHENTICATED");
	ck_assert_str_eq(grpc_code_name(17), "UNKNOWN");
	ck_assert_str_eq(grpc_code_name(-1), "UNKNOWN");
}
END_TEST

static const struct { const char *text; size_t size; const char *want; }
messages[] = {
	{ "", 10, "" }, { "plain", 10, "plain" }, { "a%20b%25", 10, "a b%" },
	{ "100%", 10, "100%" }, { "%zz%4", 10, "%zz%4" },
	{ "%C3%A9%0A%00", 10, "\xc3\xa9  " }, { "%ff", 10, "?" },
	{ "abcdef", 4, "abc" }, { "ab%C3%A9x", 4, "ab" },
};

START_TEST(decodes_a_status_message)
{
	char dst[10];

	grpc_message_decode(messages[_i].text, strlen(messages[_i].text), dst,
	    messages[_i].size);
	ck_assert_str_eq(dst, messages[_i].want);
}
END_TEST

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

int
main(void)
{
	Suite *s = suite_create("grpc");
	TCase *t = tcase_create("grpc");

	tcase_add_test(t, writes_the_wire_format);
	tcase_add_test(t, reads_each_wire_type);
	tcase_add_loop_test(t, refuses_a_bad_field, 0, COUNT(bad_fields));
	tcase_add_test(t, puts_the_prefix_before_the_message);
	tcase_add_test(t, reads_messages_in_pieces_of_any_size);
	tcase_add_test(t, knows_when_a_message_is_cut);
	tcase_add_loop_test(t, refuses_a_bad_prefix_and_all_after_it, 0,
	    COUNT(bad_prefix));
	tcase_add_test(t, stops_when_told_and_may_be_freed_then);
	tcase_add_test(t, says_when_there_is_no_memory);
	tcase_add_test(t, names_the_status_codes);
	tcase_add_loop_test(t, decodes_a_status_message, 0, COUNT(messages));
	suite_add_tcase(s, t);
	return suite_run(s);
}
