/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../budget.h"
#include "../error.h"
#include "../loop.h"
#include "../meet.h"
#include "../sse.h"
#include "suite.h"

/* The listening process's ends of a stream's socket and of a request's. */
static struct loop *loop;
static int stream[2], post[2];
static char name[MEET_NAME_SIZE];
static struct sse_box *box;
static enum sse_verdict verdict;
static char got[256];
static int gots, dones;

static enum sse_verdict
on_got(void *arg, const char *caller, const char *body, size_t len)
{
	ck_assert_ptr_eq(arg, &got);
	ck_assert_str_eq(caller, "alice");
	(void)snprintf(got, sizeof(got), "%.*s", (int)len, body);
	gots++;
	return verdict;
}

static void
on_done(void *arg, enum sse_verdict v)
{
	*(enum sse_verdict *)arg = v;
	dones++;
}

static void
set_up(void)
{
	char said[MEET_NAME_SIZE];
	struct error err;
	int fd;

	gots = dones = 0;
	verdict = SSE_TAKEN;
	ck_assert_ptr_nonnull(loop = loop_open(&err));
	ck_assert_int_eq(meet_pair(stream), 0);
	ck_assert_int_eq(meet_pair(post), 0);
	box = sse_open(loop, stream[1], name, on_got, &got);
	ck_assert_ptr_nonnull(box);
	ck_assert_int_eq(meet_recv(stream[0], said, &fd), 1);
	ck_assert_int_eq(fd, -1);
	ck_assert_str_eq(said, name);
	ck_assert(meet_is_name(name));
}

static void
tear_down(void)
{
	sse_close(box);
	loop_close(loop);
	for (int i = 0; i < 2; i++) {
		(void)close(stream[i]);
		(void)close(post[i]);
	}
}

/* What the listening process does. */
static void
pass_on(bool there)
{
	char to[MEET_NAME_SIZE];
	int fd;

	ck_assert_int_eq(meet_recv(post[0], to, &fd), 1);
	ck_assert_str_eq(to, name);
	if (there)
		ck_assert(meet_send(stream[0], to, fd));
	(void)close(fd);
}

static void
turn_until(const int *count)
{
	struct error err;

	for (int i = 0; i < 2000 && *count == 0; i++)
		ck_assert_int_eq(loop_turn(loop, 10, &err), 0);
	ck_assert_int_ne(*count, 0);
}

static enum sse_verdict
carry(const char *body, size_t len, bool there)
{
	enum sse_verdict v = SSE_BUSY;

	dones = 0;
	ck_assert_ptr_nonnull(sse_carry(loop, post[1], name, "alice", body,
	    len, on_done, &v));
	pass_on(there);
	turn_until(&dones);
	return v;
}

START_TEST(carries_a_message_and_brings_a_verdict)
{
	ck_assert_int_eq(carry("hello", 5, true), SSE_TAKEN);
	ck_assert_str_eq(got, "hello");
	ck_assert_int_eq(carry("", 0, true), SSE_TAKEN);
	ck_assert_str_eq(got, "");
	verdict = SSE_NOBODY;
	ck_assert_int_eq(carry("x", 1, true), SSE_NOBODY);
	verdict = SSE_BUSY;
	ck_assert_int_eq(carry("x", 1, true), SSE_BUSY);
	ck_assert_int_eq(gots, 4);
}
END_TEST

START_TEST(carries_what_no_buffer_of_a_socket_holds)
{
	char *big = malloc(LIMIT_MESSAGE);

	memset(big, 'x', LIMIT_MESSAGE);
	ck_assert_int_eq(carry(big, LIMIT_MESSAGE, true), SSE_TAKEN);
	ck_assert_int_eq(gots, 1);
	free(big);
}
END_TEST

START_TEST(says_that_nobody_is_there)
{
	ck_assert_int_eq(carry("hello", 5, false), SSE_NOBODY);
	ck_assert_int_eq(gots, 0);
}
END_TEST

START_TEST(takes_a_message_byte_by_byte)
{
	static const char bytes[] = "alice\0{}";
	struct error err;
	int pair[2];
	char byte;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	ck_assert(meet_send(stream[0], name, pair[1]));
	(void)close(pair[1]);
	for (size_t i = 0; i < sizeof(bytes) - 1; i++) {
		ck_assert_int_eq(loop_turn(loop, 1, &err), 0);
		ck_assert_int_eq(write(pair[0], bytes + i, 1), 1);
	}
	ck_assert_int_eq(gots, 0);
	ck_assert_int_eq(shutdown(pair[0], SHUT_WR), 0);
	turn_until(&gots);
	ck_assert_str_eq(got, "{}");
	ck_assert_int_eq(read(pair[0], &byte, 1), 1);
	ck_assert_int_eq(byte, 'r');
	ck_assert_int_eq(read(pair[0], &byte, 1), 1);
	ck_assert_int_eq(byte, SSE_TAKEN);
	ck_assert_int_eq(read(pair[0], &byte, 1), 0);
	(void)close(pair[0]);
}
END_TEST

/* Without a caller, too long, or given up. */
START_TEST(drops_what_is_no_message)
{
	struct error err;
	char *big = calloc(1, LIMIT_MESSAGE + 512), all[64];
	int pair[2];
	ssize_t n;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	ck_assert(meet_send(stream[0], name, pair[1]));
	(void)close(pair[1]);
	ck_assert_int_eq(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
	memset(big, 'x', LIMIT_MESSAGE + 512);
	for (size_t at = 0, i = 0; i < 5000; i++) {
		ck_assert_int_eq(loop_turn(loop, 0, &err), 0);
		n = send(pair[0], big + at, _i == 0 ? 3 :
		    LIMIT_MESSAGE + 512 - at, MSG_NOSIGNAL);
		if (n > 0)
			at += (size_t)n;
		if (_i == 0 || n == 0 || at == LIMIT_MESSAGE + 512)
			break;
	}
	(void)shutdown(pair[0], SHUT_WR);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(loop_turn(loop, 1, &err), 0);
	/* It said that it has room, and no more. */
	ck_assert_int_eq(read(pair[0], all, sizeof(all)), 1);
	n = read(pair[0], all, sizeof(all));
	ck_assert(n == 0 || n == -1);
	ck_assert_int_eq(gots, 0);
	(void)close(pair[0]);
	free(big);
}
END_TEST

START_TEST(has_room_for_so_many_at_once)
{
	struct error err;
	int pairs[LIMIT_CALLS + 1][2];
	char byte;

	for (int i = 0; i <= LIMIT_CALLS; i++) {
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0,
		    pairs[i]), 0);
		ck_assert(meet_send(stream[0], name, pairs[i][1]));
		(void)close(pairs[i][1]);
		ck_assert_int_eq(loop_turn(loop, 10, &err), 0);
		ck_assert_int_eq(read(pairs[i][0], &byte, 1), 1);
		ck_assert_int_eq(byte, i < LIMIT_CALLS ? 'r' : SSE_BUSY);
	}
	for (int i = 0; i <= LIMIT_CALLS; i++)
		(void)close(pairs[i][0]);
}
END_TEST

START_TEST(a_name_is_32_digits)
{
	static const char *const bad[] = {
		"", "0123456789abcdef0123456789abcde",
		"0123456789abcdef0123456789abcdef0",
		"0123456789ABCDEF0123456789abcdef",
		"../3456789abcdef0123456789abcdef",
	};
	char said[MEET_NAME_SIZE];
	int fd;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert(!meet_is_name(bad[i]));
		ck_assert_int_ge(send(post[1], bad[i], strlen(bad[i]), 0), 0);
		ck_assert_int_eq(meet_recv(post[0], said, &fd), -1);
		ck_assert_int_eq(fd, -1);
	}
	ck_assert_int_eq(meet_recv(post[0], said, &fd), 0);
	(void)close(post[1]);
	ck_assert_int_eq(meet_recv(post[0], said, &fd), -1);
	post[1] = -1;
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("sse");
	TCase *t = tcase_create("sse");

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, carries_a_message_and_brings_a_verdict);
	tcase_add_test(t, carries_what_no_buffer_of_a_socket_holds);
	tcase_add_test(t, says_that_nobody_is_there);
	tcase_add_test(t, takes_a_message_byte_by_byte);
	tcase_add_loop_test(t, drops_what_is_no_message, 0, 2);
	tcase_add_test(t, has_room_for_so_many_at_once);
	tcase_add_test(t, a_name_is_32_digits);
	suite_add_tcase(s, t);
	return suite_run(s);
}
