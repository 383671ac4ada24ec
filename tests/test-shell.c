/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/wait.h>

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../buf.h"
#include "../error.h"
#include "../procs.h"
#include "../shell.h"
#include "../turn.h"
#include "suite.h"

static const char *const dirs[] = { "/nonexistent", "/dev/shm", "/tmp", NULL };

/* One shell, what it told last, and the output of the last command. */
struct world {
	struct turn *turn;
	struct shell *shell;
	enum shell_news news;
	bool told, kept;
	long value;
	char id[32], job[32];
	long job_value;
	int serial;
	struct buf out, err;
};

static void
on_shell(void *arg, const struct shell_event *ev)
{
	struct world *w = arg;

	if (ev->news == SHELL_JOB) {
		(void)snprintf(w->job, sizeof(w->job), "%s", ev->id);
		w->job_value = ev->value;
		return;
	}
	if (ev->news == SHELL_BEGAN)
		return;
	w->told = true;
	w->news = ev->news;
	w->value = ev->value;
	w->kept = ev->kept;
	(void)snprintf(w->id, sizeof(w->id), "%s", ev->id);
}

static void
nothing(void *arg)
{
	(void)arg;
}

static void
step(struct world *w)
{
	struct turn_timer *t = turn_timer_add(w->turn, 5, nothing, NULL);
	struct error err;
	int status;
	pid_t pid;

	ck_assert_ptr_nonnull(t);
	ck_assert_int_eq(turn_once(w->turn, &err), 0);
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		(void)shell_reaped(w->shell, pid, status);
}

static void
until(struct world *w, enum shell_news news)
{
	int i;

	for (i = 0; i < 1000 && !(w->told && w->news == news); i++)
		step(w);
	ck_assert_msg(w->told && w->news == news, "told %d", (int)w->news);
}

static void
world_open(struct world *w, const char *program)
{
	struct error err;

	*w = (struct world){ .serial = 0 };
	buf_init(&w->out, 1 << 16);
	buf_init(&w->err, 1 << 16);
	w->turn = turn_open(&err);
	w->shell = shell_open(w->turn, program, dirs, on_shell, w, &err);
	ck_assert_msg(w->shell != NULL, "%s", err.text);
	until(w, SHELL_READY);
}

static void
world_close(struct world *w)
{
	shell_close(w->shell);
	turn_close(w->turn);
	buf_free(&w->out);
	buf_free(&w->err);
}

static void
slurp(int fd, struct buf *b)
{
	char room[4096];
	ssize_t n;

	fd = pipe_end(fd, O_RDONLY);
	ck_assert_int_ne(fd, -1);
	buf_reset(b, 0);
	buf_puts(b, "");
	while ((n = read(fd, room, sizeof(room))) > 0)
		buf_put(b, room, (size_t)n);
	close(fd);
}

static void
begin(struct world *w, const char *text, struct shell_pipes *p)
{
	char id[16];
	struct shell_command c = { .id = id, .text = text,
	    .len = strlen(text) };
	struct error err;

	(void)snprintf(id, sizeof(id), "t-%d", ++w->serial);
	w->told = false;
	ck_assert(shell_ready(w->shell));
	ck_assert_int_eq(shell_run(w->shell, &c, p, &err), 0);
	ck_assert(!shell_ready(w->shell));
}

static void
run(struct world *w, const char *text, enum shell_news news, long value)
{
	struct shell_pipes p;
	char id[16];

	begin(w, text, &p);
	until(w, news);
	(void)snprintf(id, sizeof(id), "t-%d", w->serial);
	ck_assert_str_eq(w->id, id);
	ck_assert_int_eq(w->value, value);
	slurp(p.out, &w->out);
	slurp(p.err, &w->err);
	shell_forget(w->shell, id);
	if (news == SHELL_ENDED)
		until(w, SHELL_READY);
}

static const char *const programs[] = { "bash", "dash", "sh" };

START_TEST(tells_the_end_beside_the_output)
{
	struct world w;

	world_open(&w, programs[_i]);
	run(&w, "printf x; printf y >&2; (exit 3)", SHELL_STATUS, 3);
	ck_assert_str_eq(w.out.data, "x");
	ck_assert_str_eq(w.err.data, "y");
	run(&w, "echo '= t-2 9' ; echo ready", SHELL_STATUS, 0);
	ck_assert_str_eq(w.out.data, "= t-2 9\nready\n");
	run(&w, "echo 'open", SHELL_STATUS, 2);
	world_close(&w);
}
END_TEST

START_TEST(keeps_state_in_one_shell)
{
	struct world w;
	pid_t pid;

	world_open(&w, programs[_i]);
	pid = shell_pid(w.shell);
	run(&w, "cd /usr; a=1; f() { echo $a; }", SHELL_STATUS, 0);
	run(&w, "f; pwd", SHELL_STATUS, 0);
	ck_assert_str_eq(w.out.data, "1\n/usr\n");
	ck_assert_int_eq(shell_pid(w.shell), pid);
	world_close(&w);
}
END_TEST

START_TEST(starts_anew_where_it_was)
{
	struct world w;
	pid_t pid;

	world_open(&w, programs[_i]);
	pid = shell_pid(w.shell);
	run(&w, "cd /usr; export A='x  y'; exit 7", SHELL_ENDED, 7);
	ck_assert(!w.kept);
	ck_assert_int_ne(shell_pid(w.shell), pid);
	run(&w, "echo \"$A\"; pwd", SHELL_STATUS, 0);
	ck_assert_str_eq(w.out.data, "x  y\n/usr\n");
	run(&w, "kill -9 $$", SHELL_ENDED, 137);
	run(&w, "kill -9 $$", SHELL_ENDED, 137);
	run(&w, "echo \"$A\"; pwd", SHELL_STATUS, 0);
	ck_assert_str_eq(w.out.data, "x  y\n/usr\n");
	shell_reset(w.shell);
	w.told = false;
	until(&w, SHELL_READY);
	run(&w, "echo \"[$A]\"", SHELL_STATUS, 0);
	ck_assert_str_eq(w.out.data, "[]\n");
	world_close(&w);
}
END_TEST

START_TEST(leaves_a_command_and_says_whether_all_is_kept)
{
	struct world w;
	struct shell_pipes p;
	bool kept;

	world_open(&w, programs[_i]);
	run(&w, "v=1; f() { echo $v; }", SHELL_STATUS, 0);
	begin(&w, "while :; do :; done", &p);
	step(&w);
	shell_stop(w.shell);
	until(&w, SHELL_ENDED);
	kept = w.kept;
	ck_assert(kept == shell_is_bash(w.shell));
	slurp(p.out, &w.out);
	slurp(p.err, &w.err);
	until(&w, SHELL_READY);
	run(&w, "f 2>/dev/null", SHELL_STATUS, kept ? 0 : 127);
	world_close(&w);
}
END_TEST

START_TEST(sees_a_shell_that_says_nothing)
{
	struct world w;

	world_open(&w, programs[_i]);
	run(&w, "set -n", SHELL_ENDED, 0);
	run(&w, "echo again", SHELL_STATUS, 0);
	ck_assert_str_eq(w.out.data, "again\n");
	world_close(&w);
}
END_TEST

START_TEST(tells_the_end_of_the_background)
{
	struct shell_command c = { .id = "bg-1", .text = "exit 5", .len = 6,
	    .background = true };
	struct shell_pipes p;
	struct error err;
	struct world w;
	int i;

	world_open(&w, programs[_i]);
	w.told = false;
	ck_assert_int_eq(shell_run(w.shell, &c, &p, &err), 0);
	until(&w, SHELL_STATUS);
	for (i = 0; i < 1000 && w.job[0] == '\0'; i++)
		step(&w);
	ck_assert_str_eq(w.job, "bg-1");
	ck_assert_int_eq(w.job_value, 5);
	slurp(p.out, &w.out);
	slurp(p.err, &w.err);
	world_close(&w);
}
END_TEST

START_TEST(says_which_shell_is_missing)
{
	struct error err;
	struct turn *t = turn_open(&err);

	ck_assert_ptr_null(shell_open(t, "nosuchshell", dirs, on_shell, NULL,
	    &err));
	ck_assert_ptr_nonnull(strstr(err.text, "nosuchshell"));
	turn_close(t);
}
END_TEST

START_TEST(finds_processes_by_their_mark)
{
	struct procs_who who = { .mark = "mark-1", .self = getpid() };
	pid_t pid;
	int i;

	ck_assert_uint_eq(procs_signal(&who, 0), 0);
	if ((pid = fork()) == 0) {
		(void)setenv(PROCS_MARK, "mark-1", 1);
		execlp("setsid", "setsid", "sleep", "60", (char *)NULL);
		_exit(1);
	}
	for (i = 0; i < 1000 && procs_signal(&who, 0) == 0; i++)
		(void)usleep(5000);
	ck_assert(procs_alive(pid));
	who.mark = "mark-2";
	ck_assert_uint_eq(procs_signal(&who, SIGKILL), 0);
	who.mark = "mark-1";
	ck_assert_uint_ge(procs_signal(&who, SIGKILL), 1);
	for (i = 0; i < 1000 && procs_signal(&who, 0) > 0; i++)
		(void)usleep(5000);
	ck_assert(!procs_alive(pid));
	(void)waitpid(pid, NULL, 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("shell");
	TCase *t = tcase_create("shell");

	(void)signal(SIGPIPE, SIG_IGN);
	tcase_add_loop_test(t, tells_the_end_beside_the_output, 0, 3);
	tcase_add_loop_test(t, keeps_state_in_one_shell, 0, 3);
	tcase_add_loop_test(t, starts_anew_where_it_was, 0, 3);
	tcase_add_loop_test(t, leaves_a_command_and_says_whether_all_is_kept,
	    0, 3);
	tcase_add_loop_test(t, sees_a_shell_that_says_nothing, 0, 3);
	tcase_add_loop_test(t, tells_the_end_of_the_background, 0, 3);
	tcase_add_test(t, says_which_shell_is_missing);
	tcase_add_test(t, finds_processes_by_their_mark);
	tcase_set_timeout(t, 60);
	suite_add_tcase(s, t);
	return suite_run(s);
}
