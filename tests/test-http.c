/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../buf.h"
#include "../http.h"
#include "suite.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* Everything that came out of it, as one text. */
static int
feed(const char *text, size_t len, size_t piece, struct buf *out)
{
	struct http_piece got;
	enum http_event e;
	struct http h;
	size_t at, n;
	const char *p;
	int status = 0;

	http_init(&h, 512, 100);
	for (at = 0; at < len && status == 0; at += n) {
		n = len - at < piece ? len - at : piece;
		p = text + at;
		while ((e = http_feed(&h, &p, text + at + n, &got)) !=
		    HTTP_MORE && status == 0) {
			if (e == HTTP_HEAD)
				buf_printf(out, "<%s %s>", h.method, h.target);
			if (e == HTTP_DATA)
				buf_put(out, got.data, got.len);
			if (e == HTTP_END) {
				buf_puts(out, "<end>");
				http_next(&h);
			}
			if (e == HTTP_BAD)
				status = h.status;
		}
	}
	http_free(&h);
	return status;
}

#define HOST "Host: a\r\n"

static const struct { const char *text, *out; } good[] = {
	{ "GET / HTTP/1.1\r\n" HOST "\r\n", "<GET /><end>" },
	{ "GET / HTTP/1.0\r\n\r\n", "<GET /><end>" },
	{ "\r\nGET /a?b=c HTTP/1.1\r\n" HOST "\r\n", "<GET /a?b=c><end>" },
	{ "PUT / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabcGET /2 "
	  "HTTP/1.1\r\nhost: b\r\n\r\n", "<PUT />abc<end><GET /2><end>" },
	{ "PUT / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n",
	  "<PUT /><end>" },
	{ "PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n"
	  "3\r\nabc\r\nA;ext=\"1\"\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"
	  "GET / HTTP/1.1\r\n" HOST "\r\n",
	  "<PUT />abc0123456789<end><GET /><end>" },
	{ "PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding:chunked\r\n\r\n"
	  "0000\r\n\r\n", "<PUT /><end>" },
};

START_TEST(reads_requests_in_pieces_of_any_size)
{
	size_t len = strlen(good[_i].text), piece;
	struct buf out;

	for (piece = 1; piece <= len; piece++) {
		buf_init(&out, 4096);
		ck_assert_int_eq(feed(good[_i].text, len, piece, &out), 0);
		ck_assert_str_eq(out.data, good[_i].out);
		buf_free(&out);
	}
}
END_TEST

#define PUT "PUT / HTTP/1.1\r\n" HOST
#define CHUNKED PUT "Transfer-Encoding: chunked\r\n\r\n"

/* What another reader might take for something else. */
static const struct { const char *text; int status; } bad[] = {
	{ PUT "Content-Length: 1\r\nContent-Length: 1\r\n\r\na", 400 },
	{ PUT "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400 },
	{ PUT "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"
	  "\r\n", 400 },
	{ PUT "Transfer-Encoding: gzip, chunked\r\n\r\n", 501 },
	{ PUT "Transfer-Encoding: xchunked\r\n\r\n", 501 },
	{ PUT "Transfer-Encoding: identity\r\n\r\n", 501 },
	{ "PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400 },
	{ PUT "Content-Length: -1\r\n\r\n", 400 },
	{ PUT "Content-Length: +1\r\n\r\n", 400 },
	{ PUT "Content-Length: 1, 1\r\n\r\n", 400 },
	{ PUT "Content-Length: 0x1\r\n\r\n", 400 },
	{ PUT "Content-Length:\r\n\r\n", 400 },
	{ PUT "Content-Length: 99999999999999999999\r\n\r\n", 400 },
	{ PUT "Content-Length : 1\r\n\r\na", 400 },
	{ PUT " Content-Length: 1\r\n\r\na", 400 },
	{ PUT "X: a\r\n folded\r\n\r\n", 400 },
	{ PUT "X: a\nY: b\r\n\r\n", 400 },
	{ PUT "X: a\rY: b\r\n\r\n", 400 },
	{ PUT "X: \x01\r\n\r\n", 400 },
	{ PUT "X\r\n\r\n", 400 },
	{ PUT ": x\r\n\r\n", 400 },
	{ PUT HOST "\r\n", 400 },
	{ "GET / HTTP/1.1\r\n\r\n", 400 },
	{ "GET / HTTP/1.1\n" HOST "\n\n", 400 },
	{ "GET / HTTP/2.0\r\n\r\n", 505 },
	{ "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505 },
	{ "GET / HTTP/1.2\r\n\r\n", 505 },
	{ "GET / HTTP/1.10\r\n\r\n", 400 },
	{ "GET /\r\n\r\n", 400 },
	{ "GET  / HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "GET /a b HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "G@T / HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ "\r\n\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n", 400 },
	{ PUT "Expect: more\r\n\r\n", 417 },
	{ PUT "Content-Length: 101\r\n\r\n", 413 },
	{ CHUNKED "\r\n", 400 }, { CHUNKED "x\r\n", 400 },
	{ CHUNKED "-1\r\n", 400 }, { CHUNKED "0x1\r\na\r\n", 400 },
	{ CHUNKED "1\r\nab\r\n", 400 }, { CHUNKED "1\na\r\n", 400 },
	{ CHUNKED "1;\na\r\n", 400 }, { CHUNKED "1\r\na\n0\r\n", 400 },
	{ CHUNKED "1000000000000000000\r\n", 400 },
	{ CHUNKED "65\r\n0123456789012345678901234567890123456789012345678901"
	  "2345678901234567890123456789012345678901234567890123456789", 413 },
	{ CHUNKED "0\r\n folded\r\n\r\n", 400 },
	{ CHUNKED "0\r\nX: y\n\r\n", 400 },
};

START_TEST(refuses_what_could_be_read_in_two_ways)
{
	size_t len = strlen(bad[_i].text), piece;
	struct buf out;

	for (piece = 1; piece <= len; piece++) {
		buf_init(&out, 4096);
		ck_assert_int_eq(feed(bad[_i].text, len, piece, &out),
		    bad[_i].status);
		ck_assert(out.data == NULL ||
		    strstr(out.data, "<end>") == NULL);
		buf_free(&out);
	}
}
END_TEST

START_TEST(bounds_the_head_the_fields_and_the_trailers)
{
	static const char *const heads[] = { "GET /", PUT "X: ",
	    PUT "Transfer-Encoding: chunked\r\n\r\n1;",
	    PUT "Transfer-Encoding: chunked\r\n\r\n0\r\nX: " };
	static const int statuses[] = { 414, 431, 400, 400 };
	char long_text[20000];
	struct buf out;
	size_t n = strlen(heads[_i]);

	memset(long_text, 'a', sizeof(long_text));
	memcpy(long_text, heads[_i], n);
	buf_init(&out, 4096);
	ck_assert_int_eq(feed(long_text, sizeof(long_text), 1000, &out),
	    statuses[_i]);
	buf_free(&out);
}
END_TEST

START_TEST(bounds_how_many_fields_there_are)
{
	const char *p;
	struct http_piece piece;
	enum http_event e;
	struct http h;
	struct buf b;

	buf_init(&b, 4096);
	buf_puts(&b, "GET / HTTP/1.1\r\n" HOST);
	for (int i = 0; i < HTTP_FIELDS; i++)
		buf_puts(&b, "a:b\r\n");
	buf_puts(&b, "\r\n");
	http_init(&h, 4096, 0);
	p = b.data;
	e = http_feed(&h, &p, b.data + b.len, &piece);
	ck_assert_int_eq(e, HTTP_BAD);
	ck_assert_int_eq(h.status, 431);
	http_free(&h);
	buf_free(&b);
}
END_TEST

static const struct {
	const char *text;
	bool keep, expects;
} heads[] = {
	{ "GET / HTTP/1.1\r\n" HOST "\r\n", true, false },
	{ "GET / HTTP/1.1\r\n" HOST "Connection: x, Close\r\n\r\n", false,
	  false },
	{ "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true, false },
	{ "GET / HTTP/1.0\r\n\r\n", false, false },
	{ PUT "Content-Length: 1\r\nexpect: 100-Continue\r\n\r\n", true, true },
	{ PUT "Expect: 100-continue\r\n\r\n", true, false },
};

START_TEST(tells_what_the_client_wants)
{
	const char *p = heads[_i].text;
	struct http_piece piece;
	enum http_event e;
	struct http h;

	http_init(&h, 512, 100);
	ck_assert(http_fresh(&h));
	e = http_feed(&h, &p, p + strlen(p), &piece);
	ck_assert_int_eq(e, HTTP_HEAD);
	ck_assert(h.keep_alive == heads[_i].keep);
	ck_assert(h.expects == heads[_i].expects);
	ck_assert(!http_fresh(&h));
	http_free(&h);
}
END_TEST

START_TEST(finds_fields_in_any_case)
{
	const char *p = PUT "X-A: \t one two \t\r\nx-a: b\r\n\r\n";
	struct http_piece piece;
	enum http_event e;
	struct http h;

	http_init(&h, 512, 100);
	e = http_feed(&h, &p, p + strlen(p), &piece);
	ck_assert_int_eq(e, HTTP_HEAD);
	ck_assert_str_eq(http_field(&h, "x-A"), "one two");
	ck_assert_uint_eq(http_count(&h, "X-a"), 2);
	ck_assert_ptr_null(http_field(&h, "X"));
	http_free(&h);
}
END_TEST

static const struct { const char *src, *dst; } coded[] = {
	{ "a%2Fb", "a/b" }, { "%41%e2%82%AC+", "A\xe2\x82\xac+" }, { "", "" },
	{ "%252F", "%2F" }, { "%", NULL }, { "a%2", NULL }, { "%g0", NULL },
	{ "%00", NULL }, { "12345678", NULL },
};

START_TEST(decodes_percents_once)
{
	char dst[8];
	long n = http_decode(coded[_i].src, strlen(coded[_i].src), dst,
	    sizeof(dst));

	if (coded[_i].dst == NULL) {
		ck_assert_int_eq(n, -1);
		return;
	}
	ck_assert_int_eq(n, (long)strlen(coded[_i].dst));
	ck_assert_str_eq(dst, coded[_i].dst);
}
END_TEST

START_TEST(finds_a_name_in_a_query)
{
	char dst[16];

	ck_assert_int_eq(http_query("ab=1&a=2%20&a=3&c", "a", dst, 16), 2);
	ck_assert_str_eq(dst, "2 ");
	ck_assert_int_eq(http_query("a&b=", "a", dst, 16), 0);
	ck_assert_int_eq(http_query("a&b=", "b", dst, 16), 0);
	ck_assert_int_eq(http_query("ab=1", "a", dst, 16), -2);
	ck_assert_int_eq(http_query(NULL, "a", dst, 16), -2);
	ck_assert_int_eq(http_query("a=%zz", "a", dst, 16), -1);
}
END_TEST

START_TEST(writes_answers)
{
	struct http_answer a = { .status = 200, .type = "text/plain",
	    .extra = "X-A: b\r\n", .server = "s/1", .length = HTTP_CHUNKED,
	    .date = 784111777, .close = true };
	struct buf out;

	buf_init(&out, 4096);
	http_head(&out, &a);
	ck_assert(http_chunk_head(&out, 18));
	buf_puts(&out, "hello world, hello");
	http_chunk_tail(&out);
	ck_assert(!http_chunk_head(&out, 0));
	http_chunk_end(&out);
	ck_assert_str_eq(out.data, "HTTP/1.1 200 OK\r\n"
	    "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: s/1\r\n"
	    "Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n"
	    "X-A: b\r\nConnection: close\r\n\r\n"
	    "12\r\nhello world, hello\r\n0\r\n\r\n");
	buf_reset(&out, 0);
	http_head(&out, &(struct http_answer){ .status = 204,
	    .length = HTTP_NO_BODY });
	http_continue(&out);
	http_head(&out, &(struct http_answer){ .status = 299, .length = 7 });
	ck_assert_str_eq(out.data, "HTTP/1.1 204 No Content\r\n\r\n"
	    "HTTP/1.1 100 Continue\r\n\r\n"
	    "HTTP/1.1 299 Unknown\r\nContent-Length: 7\r\n\r\n");
	buf_free(&out);
}
END_TEST

static const struct { const char *text; int64_t t; } dates[] = {
	{ "Sun, 06 Nov 1994 08:49:37 GMT", 784111777 },
	{ "Thu, 01 Jan 1970 00:00:00 GMT", 0 },
	{ "Sun, 06 Nov 1994 08:49:37 UTC", -1 }, { "", -1 },
	{ "Sun, 06 Nov 1994 08:49:3x GMT", -1 },
	{ "Sun, 06 Nox 1994 08:49:37 GMT", -1 },
	{ "Sux, 06 Nov 1994 08:49:37 GMT", -1 },
	{ "Sunday, 06-Nov-94 08:49:37 GMT", -1 },
};

START_TEST(reads_and_writes_dates)
{
	char text[HTTP_DATE_SIZE];

	ck_assert_int_eq(http_date_parse(dates[_i].text), dates[_i].t);
	if (dates[_i].t == -1)
		return;
	http_date(dates[_i].t, text);
	ck_assert_str_eq(text, dates[_i].text);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("http");
	TCase *t = tcase_create("http");

	tcase_add_loop_test(t, reads_requests_in_pieces_of_any_size, 0,
	    COUNT(good));
	tcase_add_loop_test(t, refuses_what_could_be_read_in_two_ways, 0,
	    COUNT(bad));
	tcase_add_loop_test(t, bounds_the_head_the_fields_and_the_trailers, 0,
	    4);
	tcase_add_test(t, bounds_how_many_fields_there_are);
	tcase_add_loop_test(t, tells_what_the_client_wants, 0, COUNT(heads));
	tcase_add_test(t, finds_fields_in_any_case);
	tcase_add_loop_test(t, decodes_percents_once, 0, COUNT(coded));
	tcase_add_test(t, finds_a_name_in_a_query);
	tcase_add_test(t, writes_answers);
	tcase_add_loop_test(t, reads_and_writes_dates, 0, COUNT(dates));
	suite_add_tcase(s, t);
	return suite_run(s);
}
