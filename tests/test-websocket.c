/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "fail-alloc.h"
#include "suite.h"

#include "../buf.c"

#include "../error.h"
#include "../budget.h"
#include "../websocket.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* The nonce and answer of RFC 6455, 1.3. */
static const unsigned char nonce[17] = "the sample nonce";
#define ACCEPT	"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
#define UPGRADE	"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n" \
		"Connection: Upgrade\r\n"

START_TEST(asks_for_the_upgrade)
{
	static const char *const headers[] = { "Authorization: Bearer t",
	    "X-A: b", NULL };
	struct buf out;

	buf_init(&out, 2000);
	ws_request(&out, "[::1]:6443", "/api?x=1", headers, nonce,
	    "v5.channel.k8s.io, v4.channel.k8s.io");
	ck_assert(buf_ok(&out));
	ck_assert_str_eq(out.data, "GET /api?x=1 HTTP/1.1\r\n"
	    "Host: [::1]:6443\r\nUpgrade: websocket\r\n"
	    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
	    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	    "Sec-WebSocket-Protocol: v5.channel.k8s.io, "
	    "v4.channel.k8s.io\r\nAuthorization: Bearer t\r\nX-A: b\r\n\r\n");
	buf_free(&out);
}
END_TEST

START_TEST(never_writes_a_header_somebody_smuggled_in)
{
	static const char *const headers[] = { "A: b\r\nC: d", NULL };
	struct buf out;

	buf_init(&out, 2000);
	ws_request(&out, "h", "/\r\nX: y", NULL, nonce, NULL);
	ck_assert(!buf_ok(&out));
	buf_reset(&out, 0);
	ws_request(&out, "h", "/", headers, nonce, NULL);
	ck_assert(!buf_ok(&out));
	buf_free(&out);
}
END_TEST

/* Feeds text and returns what ws_handshake() said last; *left: unused bytes. */
static int
answer(struct ws_handshake *h, const char *text, size_t len, size_t piece,
    size_t *left, struct error *err)
{
	size_t used, n;
	int r = 0;

	for (size_t at = 0; at < len && r == 0; at += used) {
		n = len - at < piece ? len - at : piece;
		r = ws_handshake(h, text + at, n, &used, err);
		ck_assert_uint_le(used, n);
		ck_assert(r != 0 || used == n);
		*left = len - at - used;
	}
	return r;
}

static const struct { const char *text, *offer, *chosen; } good[] = {
	{ UPGRADE ACCEPT "\r\n", NULL, "" },
	{ UPGRADE ACCEPT "Sec-WebSocket-Protocol: b\r\n\r\n", "a, b", "b" },
	{ UPGRADE ACCEPT "sec-websocket-protocol:b \r\n\r\n", "a,b,c", "b" },
	{ "HTTP/1.1 101 \r\nUPGRADE: WebSocket\r\n"
	    "connection: keep-alive, Upgrade\r\n" ACCEPT "\r\n", "", "" },
	{ "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" UPGRADE ACCEPT "\r\n",
	    NULL, "" },
	{ "HTTP/1.1 101 OK\r\nConnection: close\r\nConnection: upgrade\r\n"
	    "Upgrade: h2c, websocket\r\n" ACCEPT "\r\n", NULL, "" },
};

START_TEST(takes_a_right_answer_in_pieces_of_any_size)
{
	struct error err = { .code = ERR_NONE };
	char text[1000];
	size_t len, left;

	len = (size_t)snprintf(text, sizeof(text), "%s\x81\x01x",
	    good[_i].text);
	for (size_t piece = 1; piece <= len; piece++) {
		struct ws_handshake h;

		ws_handshake_init(&h, nonce, good[_i].offer);
		ck_assert_msg(answer(&h, text, len, piece, &left, &err) == 1,
		    "%s", err.text);
		ck_assert_str_eq(h.protocol, good[_i].chosen);
		ck_assert_int_eq(h.status, 101);
		/* The first frame may come with the head; it isn't eaten. */
		ck_assert_uint_eq(left, 3);
		ws_handshake_free(&h);
	}
}
END_TEST

static const struct { const char *text, *offer; } wrong[] = {
	{ UPGRADE "\r\n", NULL },
	{ UPGRADE "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOp=\r\n\r\n",
	    NULL },
	{ UPGRADE ACCEPT ACCEPT "\r\n", NULL },
	{ "HTTP/1.1 101 x\r\nUpgrade: websocket\r\n" ACCEPT "\r\n", NULL },
	{ "HTTP/1.1 101 x\r\nConnection: Upgrade\r\n" ACCEPT "\r\n", NULL },
	{ "HTTP/1.1 101 x\r\nConnection: upgraded\r\nUpgrade: websocket\r\n"
	    ACCEPT "\r\n", NULL },
	{ UPGRADE ACCEPT "\r\n", "a, b" },
	{ UPGRADE ACCEPT "Sec-WebSocket-Protocol: c\r\n\r\n", "a, b" },
	{ UPGRADE ACCEPT "Sec-WebSocket-Protocol: a, b\r\n\r\n", "a, b" },
	{ UPGRADE ACCEPT "Sec-WebSocket-Protocol: a\r\n\r\n", NULL },
	{ UPGRADE ACCEPT "Sec-WebSocket-Extensions: permessage-deflate\r\n"
	    "\r\n", NULL },
	{ "SSH-2.0-OpenSSH_9.2\r\n\r\n", NULL },
	{ "HTTP/1.1 99 x\r\n\r\n", NULL }, { "HTTP/1.1 1010\r\n\r\n", NULL },
	{ "HTTP/1.1 101 x\nUpgrade: websocket\r\n\r\n", NULL },
	{ "HTTP/1.1 101 x\r\nno colon\r\n\r\n", NULL },
	{ "HTTP/1.1 101 x\r\n: empty\r\n\r\n", NULL },
	{ "HTTP/1.1 101 x\r\nA: b\r\n folded\r\n\r\n", NULL },
	{ "HTTP/1.1 101 x\r\nA : b\r\n\r\n", NULL },
};

START_TEST(refuses_a_wrong_answer)
{
	size_t left, len = strlen(wrong[_i].text);

	for (size_t piece = 1; piece <= len; piece += len - 1) {
		struct error err = { .code = ERR_NONE };
		struct ws_handshake h;

		ws_handshake_init(&h, nonce, wrong[_i].offer);
		ck_assert_msg(answer(&h, wrong[_i].text, len, piece, &left,
		    &err) == -1, "took: %s", wrong[_i].text);
		ck_assert_int_eq(err.code, ERR_CLUSTER);
		ws_handshake_free(&h);
	}
}
END_TEST

START_TEST(bounds_the_head_of_an_answer)
{
	struct error err = { .code = ERR_NONE };
	struct ws_handshake h;
	size_t used, fed = 0;
	int r;

	ws_handshake_init(&h, nonce, NULL);
	do
		r = ws_handshake(&h, "X: yyyyyyyyyyyy\r\n", 17, &used, &err);
	while (r == 0 && (fed += used) < LIMIT_HEADERS * 2);
	ck_assert_int_eq(r, -1);
	ck_assert_int_eq(err.code, ERR_LIMIT);
	ck_assert_uint_le(fed, LIMIT_HEADERS);
	ws_handshake_free(&h);
}
END_TEST

static const struct {
	const char *text;
	long status;
	enum error_code code;
	const char *body;
	int ends;		/* by itself; else with the connection */
} refusals[] = {
	{ "HTTP/1.1 403 Forbidden\r\nContent-Length: 5\r\n\r\nno...rest",
	    403, ERR_DENIED, "no...", 1 },
	{ "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", 404,
	    ERR_GONE, "", 1 },
	{ "HTTP/1.1 400 x\r\nTransfer-Encoding: chunked\r\n\r\n"
	    "3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", 400, ERR_INVALID,
	    "abc0123456789", 1 },
	{ "HTTP/1.1 503 x\r\nTransfer-Encoding: chunked\r\n\r\n"
	    "2\r\nok\r\nzz\r\n", 503, ERR_BUSY, "ok", 1 },
	{ "HTTP/1.0 500 x\r\n\r\nuntil it ends", 500, ERR_CLUSTER,
	    "until it ends", 0 },
	{ "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", 200,
	    ERR_CLUSTER, "half", 0 },
	{ "HTTP/1.1 401 x\r\nContent-Length:\r\n\r\n99", 401, ERR_DENIED,
	    "99", 0 },
	{ "HTTP/1.1 307 x\r\nContent-Length: -7\r\n\r\nabc", 307, ERR_CLUSTER,
	    "abc", 0 },
};

START_TEST(keeps_the_words_of_a_refusal)
{
	size_t left, used, len = strlen(refusals[_i].text);

	for (size_t piece = 1; piece <= len; piece++) {
		struct error err = { .code = ERR_NONE };
		struct ws_handshake h;
		int r;

		ws_handshake_init(&h, nonce, "a");
		r = answer(&h, refusals[_i].text, len, piece, &left, &err);
		ck_assert_int_eq(r, refusals[_i].ends ? -1 : 0);
		if (r == 0)
			r = ws_handshake(&h, NULL, 0, &used, &err);
		ck_assert_int_eq(r, -1);
		ck_assert_int_eq(err.code, refusals[_i].code);
		ck_assert_int_eq(h.status, refusals[_i].status);
		ck_assert_str_eq(h.body.len > 0 ? h.body.data : "",
		    refusals[_i].body);
		ws_handshake_free(&h);
	}
}
END_TEST

START_TEST(keeps_at_most_64_kib_of_a_refusal)
{
	static const char head[] = "HTTP/1.1 500 x\r\n\r\n";
	struct error err = { .code = ERR_NONE };
	struct ws_handshake h;
	char piece[1000];
	size_t used;
	int r, n = 0;

	memset(piece, 'x', sizeof(piece));
	ws_handshake_init(&h, nonce, NULL);
	r = ws_handshake(&h, head, strlen(head), &used, &err);
	while (r == 0 && n++ < 1000)
		r = ws_handshake(&h, piece, sizeof(piece), &used, &err);
	ck_assert_int_eq(r, -1);
	ck_assert_uint_eq(h.body.len, 65536);
	ck_assert_str_eq(h.body.data + 65530, "xxxxxx");
	ws_handshake_free(&h);
}
END_TEST

START_TEST(says_when_the_connection_ends_first)
{
	struct error err = { .code = ERR_NONE };
	struct ws_handshake h;
	size_t used;

	ws_handshake_init(&h, nonce, NULL);
	ck_assert_int_eq(ws_handshake(&h, "HTTP/1.1 1", 10, &used, &err), 0);
	ck_assert_int_eq(ws_handshake(&h, NULL, 0, &used, &err), -1);
	ck_assert_int_eq(err.code, ERR_LOST);
	ws_handshake_free(&h);
}
END_TEST

START_TEST(writes_masked_frames)
{
	static const unsigned char mask[4] = { 0x37, 0xfa, 0x21, 0x3d };
	static char big[70000];
	struct buf out;
	int wrong_bytes = 0;

	buf_init(&out, 1 << 20);
	ws_frame(&out, WS_TEXT, "Hello", 5, mask);	/* RFC 6455, 5.7 */
	ck_assert_uint_eq(out.len, 11);
	ck_assert_mem_eq(out.data,
	    "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", 11);
	buf_reset(&out, 1 << 20);
	ws_frame(&out, WS_PING, NULL, 0, mask);
	ck_assert_mem_eq(out.data, "\x89\x80\x37\xfa\x21\x3d", 6);
	buf_reset(&out, 1 << 20);
	ws_frame(&out, WS_BINARY, big, 126, mask);
	ck_assert_uint_eq(out.len, 126 + 8);
	ck_assert_mem_eq(out.data, "\x82\xfe\0\x7e\x37\xfa\x21\x3d", 8);
	buf_reset(&out, 1 << 20);
	ws_frame(&out, WS_BINARY, big, 70000, mask);
	ck_assert_uint_eq(out.len, 70000 + 14);
	ck_assert_mem_eq(out.data, "\x82\xff\0\0\0\0\0\x01\x11\x70", 10);
	for (size_t i = 0; i < 70000; i += 4)
		wrong_bytes += memcmp(out.data + 14 + i, mask, 4) != 0;
	ck_assert_int_eq(wrong_bytes, 0);
	buf_free(&out);
}
END_TEST

static int
collect(void *arg, enum ws_op op, const char *data, size_t len)
{
	struct buf *out = arg;

	buf_printf(out, "%d:", (int)op);
	buf_put(out, data, len);
	buf_puts(out, ";");
	return 0;
}

static int
stop(void *arg, enum ws_op op, const char *data, size_t len)
{
	(void)op;
	(void)data;
	(void)len;
	ws_reader_free(arg);	/* as a caller may */
	return -1;
}

struct bytes { const char *p; size_t len; };
#define B(s)	{ s, sizeof(s) - 1 }

static const struct { struct bytes in; const char *want; } frames[] = {
	{ B("\x81\x05Hello"), "1:Hello;" },
	{ B("\x82\0"), "2:;" },
	{ B("\x01\x03Hel\x80\x02lo"), "1:Hello;" },
	{ B("\x02\x01" "a\x89\x01p\0\x01" "b\x80\x01" "c\x81\x01x"),
	    "9:p;2:abc;1:x;" },
	{ B("\x01\0\x80\0"), "1:;" },
	{ B("\x01\x01\xc3\x80\x01\xa9"), "1:\xc3\xa9;" },
	{ B("\x82\x7e\0\x7e" "0123456789012345678901234567890123456789"
	    "01234567890123456789012345678901234567890123456789012345678901"
	    "234567890123456789012345"),
	    "2:0123456789012345678901234567890123456789"
	    "01234567890123456789012345678901234567890123456789012345678901"
	    "234567890123456789012345;" },
	{ B("\x88\x02\x03\xe8\x81\x01x"), "8:\x03\xe8;" },
	{ B("\x88\0"), "8:;" }, { B("\x8a\x02ok\x89\0"), "10:ok;9:;" },
};

START_TEST(reads_frames_in_pieces_of_any_size)
{
	size_t len = frames[_i].in.len;

	for (size_t piece = 1; piece <= len; piece++) {
		struct error err = { .code = ERR_NONE };
		struct ws_reader r;
		struct buf out;

		ws_reader_init(&r);
		buf_init(&out, 1000);
		for (size_t at = 0; at < len; at += piece)
			ck_assert_msg(ws_feed(&r, frames[_i].in.p + at,
			    len - at < piece ? len - at : piece, collect,
			    &out, &err) == 0, "%s", err.text);
		ck_assert_str_eq(out.data, frames[_i].want);
		buf_free(&out);
		ws_reader_free(&r);
	}
}
END_TEST

static const struct { struct bytes in; enum error_code code; } bad[] = {
	{ B("\x81\x85\0\0\0\0Hello"), ERR_CLUSTER },	/* masked */
	{ B("\xc1\x01x"), ERR_CLUSTER }, { B("\xa1\x01x"), ERR_CLUSTER },
	{ B("\x91\x01x"), ERR_CLUSTER }, { B("\x83\x01x"), ERR_CLUSTER },
	{ B("\x8b\x01x"), ERR_CLUSTER }, { B("\x09\x01x"), ERR_CLUSTER },
	{ B("\x89\x7e\0\x7e"), ERR_CLUSTER }, { B("\x80\x01x"), ERR_CLUSTER },
	{ B("\x01\x01x\x81\x01y"), ERR_CLUSTER },
	{ B("\x82\x7e\0\x05Hello"), ERR_CLUSTER },
	{ B("\x82\x7f\0\0\0\0\0\0\xff\xff"), ERR_CLUSTER },
	{ B("\x81\x01\xff"), ERR_CLUSTER }, { B("\x88\x01x"), ERR_CLUSTER },
	{ B("\x82\x7f\x80\0\0\0\0\0\0\0"), ERR_LIMIT },
	{ B("\x82\x7f\0\0\0\0\0\x10\0\x01"), ERR_LIMIT },
	{ B("\x02\x01x\x80\x7f\0\0\0\0\0\x10\0\0"), ERR_LIMIT },
};

START_TEST(refuses_a_violation_and_all_after_it)
{
	size_t len = bad[_i].in.len;

	for (size_t piece = 1; piece <= len; piece += len - 1) {
		struct error err = { .code = ERR_NONE };
		struct ws_reader r;
		struct buf out;
		int rc = 0;

		ws_reader_init(&r);
		buf_init(&out, 1000);
		for (size_t at = 0; at < len && rc == 0; at += piece)
			rc = ws_feed(&r, bad[_i].in.p + at,
			    len - at < piece ? len - at : piece, collect,
			    &out, &err);
		ck_assert_int_eq(rc, -1);
		ck_assert_int_eq(err.code, bad[_i].code);
		ck_assert_uint_eq(out.len, 0);
		ck_assert_int_eq(ws_feed(&r, "\x81\x01x", 3, collect, &out,
		    &err), -1);
		ck_assert_uint_eq(out.len, 0);
		buf_free(&out);
		ws_reader_free(&r);
	}
}
END_TEST

START_TEST(takes_a_frame_of_the_limit)
{
	struct error err = { .code = ERR_NONE };
	struct ws_reader r;
	struct buf out, in;

	buf_init(&in, LIMIT_FRAME + 100);
	buf_init(&out, LIMIT_FRAME + 100);
	buf_put(&in, "\x82\x7f\0\0\0\0\0\x10\0\0", 10);
	while (in.len < LIMIT_FRAME + 10)
		buf_put(&in, "0123456789abcdef", 16);
	ws_reader_init(&r);
	for (size_t at = 0; at < in.len; at += 5000)
		ck_assert_int_eq(ws_feed(&r, in.data + at,
		    in.len - at < 5000 ? in.len - at : 5000, collect, &out,
		    &err), 0);
	ck_assert_uint_eq(out.len, LIMIT_FRAME + 3);
	ck_assert_uint_le(r.frame.cap, LIMIT_PUMP);	/* given back */
	buf_free(&in);
	buf_free(&out);
	ws_reader_free(&r);
}
END_TEST

START_TEST(stops_when_told_and_may_be_freed_then)
{
	struct error err = { .code = ERR_NONE };
	struct ws_reader r;

	ws_reader_init(&r);
	ck_assert_int_eq(ws_feed(&r, "\x81\x01x\x81\x01y", 6, stop, &r, &err),
	    -1);
	ck_assert_int_eq(err.code, ERR_NONE);
}
END_TEST

static const char *const whole = UPGRADE ACCEPT "\r\n";

START_TEST(says_when_there_is_no_memory)
{
	struct error err = { .code = ERR_NONE };
	size_t used;
	int last = 0;

	for (long n = 0; n < 10 && last != 1; n++) {
		struct ws_handshake h;

		ws_handshake_init(&h, nonce, NULL);
		alloc_left = n;
		last = ws_handshake(&h, whole, strlen(whole), &used, &err);
		alloc_left = -1;
		ck_assert_int_ne(last, 0);
		ws_handshake_free(&h);
	}
	ck_assert_int_eq(last, 1);
	ck_assert_int_ne(err.code, ERR_NONE);
	last = -1;
	for (long n = 0; n < 10 && last != 0; n++) {
		struct ws_reader r;
		struct buf out;

		buf_init(&out, 0);
		ws_reader_init(&r);
		alloc_left = n;
		last = ws_feed(&r, "\x02\x01x\x80\x01y", 6, collect, &out,
		    &err);
		alloc_left = -1;
		ck_assert(last == 0 || err.code == ERR_SYSTEM);
		ws_reader_free(&r);
		buf_free(&out);
	}
	ck_assert_int_eq(last, 0);
}
END_TEST

static TCase *
handshake_case(void)
{
	TCase *t = tcase_create("handshake");

	tcase_add_test(t, asks_for_the_upgrade);
	tcase_add_test(t, never_writes_a_header_somebody_smuggled_in);
	tcase_add_loop_test(t, takes_a_right_answer_in_pieces_of_any_size, 0,
	    COUNT(good));
	tcase_add_loop_test(t, refuses_a_wrong_answer, 0, COUNT(wrong));
	tcase_add_test(t, bounds_the_head_of_an_answer);
	tcase_add_loop_test(t, keeps_the_words_of_a_refusal, 0,
	    COUNT(refusals));
	tcase_add_test(t, keeps_at_most_64_kib_of_a_refusal);
	tcase_add_test(t, says_when_the_connection_ends_first);
	return t;
}

int
main(void)
{
	Suite *s = suite_create("websocket");
	TCase *t = tcase_create("frames");

	tcase_add_test(t, writes_masked_frames);
	tcase_add_loop_test(t, reads_frames_in_pieces_of_any_size, 0,
	    COUNT(frames));
	tcase_add_loop_test(t, refuses_a_violation_and_all_after_it, 0,
	    COUNT(bad));
	tcase_add_test(t, takes_a_frame_of_the_limit);
	tcase_add_test(t, stops_when_told_and_may_be_freed_then);
	tcase_add_test(t, says_when_there_is_no_memory);
	suite_add_tcase(s, handshake_case());
	suite_add_tcase(s, t);
	return suite_run(s);
}
