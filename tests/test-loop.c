/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../error.h"
#include "../loop.h"
#include "suite.h"

struct world {
	struct loop *loop;
	struct loop_timer *timer;
	struct loop_fd *a, *b;
	int pipe[2];
	short seen;
	int calls;
	char order[16];
};

static struct world w;
static struct error err;

static void
setup(void)
{
	memset(&w, 0, sizeof(w));
	w.loop = loop_open(&err);
	ck_assert_ptr_nonnull(w.loop);
	ck_assert_int_eq(pipe2(w.pipe, O_CLOEXEC), 0);
}

static void
teardown(void)
{
	close(w.pipe[0]);
	close(w.pipe[1]);
	loop_close(w.loop);
}

static void
turn(long ms)
{
	ck_assert_int_eq(loop_turn(w.loop, ms, &err), 0);
}

static void
note(void *arg)
{
	const char *letter = arg;

	strncat(w.order, letter, 1);
}

static char a[] = "a", b[] = "b", c[] = "c";

START_TEST(timers_fire_when_due_and_then_as_they_were_added)
{
	loop_timer_add(w.loop, 30, note, c);
	loop_timer_add(w.loop, 0, note, a);
	loop_timer_add(w.loop, 0, note, b);
	while (strlen(w.order) < 3)
		turn(-1);
	ck_assert_str_eq(w.order, "abc");
}
END_TEST

static void
delete_timer(void *arg)
{
	(void)arg;
	w.calls++;
	loop_timer_del(w.timer);
}

START_TEST(a_timer_deleted_in_the_same_turn_does_not_fire)
{
	loop_timer_add(w.loop, 0, delete_timer, NULL);
	w.timer = loop_timer_add(w.loop, 0, note, a);
	turn(0);
	turn(0);
	ck_assert_int_eq(w.calls, 1);
	ck_assert_str_eq(w.order, "");
}
END_TEST

static void
add_again(void *arg)
{
	(void)arg;
	w.calls++;
	w.timer = loop_timer_add(w.loop, 0, add_again, NULL);
}

static void
on_ready(void *arg, short revents)
{
	char byte;

	(void)arg;
	w.seen = revents;
	if (revents & POLLIN)
		w.calls += (int)read(w.pipe[0], &byte, 1) * 100;
}

START_TEST(a_timer_that_adds_itself_leaves_room_for_descriptors)
{
	loop_timer_add(w.loop, 0, add_again, NULL);
	w.a = loop_fd_add(w.loop, w.pipe[0], POLLIN, on_ready, NULL);
	ck_assert_int_eq(write(w.pipe[1], "x", 1), 1);
	turn(-1);
	ck_assert_int_gt(w.calls, 100);
	ck_assert_int_lt(w.calls, 110);
}
END_TEST

START_TEST(the_end_of_a_pipe_is_told)
{
	w.a = loop_fd_add(w.loop, w.pipe[0], POLLIN, on_ready, NULL);
	close(w.pipe[1]);
	w.pipe[1] = -1;
	turn(-1);
	ck_assert_int_eq(w.seen & POLLHUP, POLLHUP);
}
END_TEST

START_TEST(a_reader_that_went_away_is_told)
{
	w.a = loop_fd_add(w.loop, w.pipe[1], POLLOUT, on_ready, NULL);
	close(w.pipe[0]);
	w.pipe[0] = -1;
	turn(-1);
	ck_assert_int_eq(w.seen & POLLHUP, POLLHUP);
}
END_TEST

START_TEST(a_descriptor_nobody_wants_is_silent)
{
	w.a = loop_fd_add(w.loop, w.pipe[0], POLLIN, on_ready, NULL);
	ck_assert_int_eq(write(w.pipe[1], "x", 1), 1);
	loop_fd_want(w.a, 0);
	turn(0);
	ck_assert_int_eq(w.calls, 0);
	loop_fd_want(w.a, POLLIN);
	turn(0);
	ck_assert_int_eq(w.calls, 100);
}
END_TEST

static void
delete_both(void *arg, short revents)
{
	(void)arg, (void)revents;
	w.calls++;
	loop_fd_del(w.a);
	loop_fd_del(w.b);
}

START_TEST(descriptors_may_remove_themselves_and_each_other)
{
	w.a = loop_fd_add(w.loop, w.pipe[0], POLLIN, delete_both, NULL);
	w.b = loop_fd_add(w.loop, w.pipe[0], POLLIN, delete_both, NULL);
	ck_assert_int_eq(write(w.pipe[1], "x", 1), 1);
	turn(-1);
	turn(0);
	ck_assert_int_eq(w.calls, 1);
}
END_TEST

static void
add_reader(void *arg)
{
	(void)arg;
	w.a = loop_fd_add(w.loop, w.pipe[0], POLLIN, on_ready, NULL);
}

START_TEST(what_a_callback_adds_is_seen_in_the_next_turn)
{
	ck_assert_int_eq(write(w.pipe[1], "x", 1), 1);
	loop_timer_add(w.loop, 0, add_reader, NULL);
	turn(0);
	ck_assert_int_eq(w.calls, 0);
	turn(-1);
	ck_assert_int_eq(w.calls, 100);
}
END_TEST

START_TEST(returns_when_nothing_happens)
{
	turn(0);
	turn(5);
	ck_assert_int_eq(w.calls, 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("loop");
	TCase *t = tcase_create("loop");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, timers_fire_when_due_and_then_as_they_were_added);
	tcase_add_test(t, a_timer_deleted_in_the_same_turn_does_not_fire);
	tcase_add_test(t, a_timer_that_adds_itself_leaves_room_for_descriptors);
	tcase_add_test(t, the_end_of_a_pipe_is_told);
	tcase_add_test(t, a_reader_that_went_away_is_told);
	tcase_add_test(t, a_descriptor_nobody_wants_is_silent);
	tcase_add_test(t, descriptors_may_remove_themselves_and_each_other);
	tcase_add_test(t, what_a_callback_adds_is_seen_in_the_next_turn);
	tcase_add_test(t, returns_when_nothing_happens);
	suite_add_tcase(s, t);
	return suite_run(s);
}
