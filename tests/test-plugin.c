/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../buf.h"
#include "../budget.h"
#include "../error.h"
#include "../kubeconfig.h"
#include "../log.h"
#include "../plugin.h"
#include "suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static char shell[] = "/bin/sh", option[] = "-c", variable[] = "NAME=value";
static char hint[] = "a hint", none[] = "/nonexistent/plugin";
static char counter[64];
static struct log log_;
static struct plugin *plugin;
static struct error err;
static struct buf in;
static int fd;
static unsigned long generation;
static const char *text;
static size_t len;

static void
setup(void)
{
	int file;

	log_open(&log_, LOG_ERROR);
	strcpy(counter, "/tmp/test-plugin-XXXXXX");
	ck_assert_int_ne(file = mkstemp(counter), -1);
	close(file);
	err.code = ERR_NONE;
	plugin_buf(&in);
}

static void
teardown(void)
{
	plugin_close(plugin);
	plugin = NULL;
	close(fd);
	buf_free(&in);
	unlink(counter);
	while (wait(NULL) != -1 || errno == EINTR)
		continue;
}

static void
open_with(const char *script, long ms)
{
	char command[512];
	char *argv[] = { shell, option, command, NULL };
	char *env[] = { variable, NULL };
	struct kubeconfig_exec exec = { .command = shell, .argv = argv,
	    .env = env, .hint = hint, .ms = ms };

	(void)snprintf(command, sizeof(command), "echo >>%s; %s", counter,
	    script);
	plugin = plugin_open(&exec, &log_, &err);
	ck_assert_ptr_nonnull(plugin);
	fd = plugin_connect(plugin, &err);
	ck_assert_int_ne(fd, -1);
}

static int
ask(int channel, unsigned long have)
{
	buf_reset(&in, 0);
	ck_assert_int_eq(plugin_ask(channel, have, &err), 0);
	return plugin_wait(channel, &in, &generation, &text, &len, &err);
}

static int
runs(void)
{
	FILE *f = fopen(counter, "r");
	int n = 0, c;

	ck_assert_ptr_nonnull(f);
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

static void
ck_output(const char *wanted)
{
	ck_assert_msg(len == strlen(wanted) && memcmp(text, wanted, len) == 0,
	    "%.*s", (int)len, text);
}

START_TEST(gives_the_last_output_again_unless_that_is_had)
{
	int other;

	open_with("echo $NAME", 5000);
	ck_assert_int_eq(ask(fd, 0), 0);
	ck_output("value\n");
	ck_assert_uint_eq(generation, 1);
	ck_assert_int_ne(other = plugin_connect(plugin, &err), -1);
	ck_assert_int_eq(ask(other, 0), 0);
	ck_assert_uint_eq(generation, 1);
	ck_assert_int_eq(runs(), 1);
	ck_assert_int_eq(ask(other, 1), 0);
	ck_assert_uint_eq(generation, 2);
	ck_assert_int_eq(ask(fd, 1), 0);
	ck_assert_uint_eq(generation, 2);
	ck_assert_int_eq(runs(), 2);
	close(other);
}
END_TEST

START_TEST(one_run_is_for_all_that_wait)
{
	int others[5];
	size_t i;

	open_with("sleep 0.2; echo x", 5000);
	for (i = 0; i < COUNT(others); i++) {
		others[i] = plugin_connect(plugin, &err);
		ck_assert_int_eq(plugin_ask(others[i], 0, &err), 0);
	}
	/* Who goes away does not disturb. */
	close(others[0]);
	for (i = 1; i < COUNT(others); i++) {
		buf_reset(&in, 0);
		ck_assert_int_eq(plugin_wait(others[i], &in, &generation,
		    &text, &len, &err), 0);
		ck_output("x\n");
		close(others[i]);
	}
	ck_assert_int_eq(runs(), 1);
}
END_TEST

static const struct {
	const char *script;
	enum error_code code;
	const char *says;
} bad[] = {
	{ "exit 3", ERR_DENIED, "exit status 3" },
	{ "kill -9 $$", ERR_DENIED, "ended by signal 9" },
	{ "sleep 60", ERR_TIMEOUT, "did not end within 1 s" },
	{ "exec >&-; sleep 60", ERR_TIMEOUT, "did not end within 1 s" },
	{ "trap '' TERM; sleep 60", ERR_TIMEOUT, "did not end within 1 s" },
	{ "exec yes", ERR_LIMIT, "prints more than 262144 bytes" },
};

START_TEST(a_run_that_fails_is_told_and_the_next_may_be_good)
{
	char script[256];

	(void)snprintf(script, sizeof(script), "test $(wc -l <%s) -gt 1 && "
	    "exec echo good; %s", counter, bad[_i].script);
	open_with(script, 400);
	ck_assert_int_eq(ask(fd, 0), -1);
	ck_assert_int_eq(err.code, bad[_i].code);
	ck_assert_msg(strstr(err.text, bad[_i].says) != NULL, "%s", err.text);
	ck_assert_uint_ne(generation, 0);
	ck_assert_int_eq(ask(fd, 0), 0);
	ck_output("good\n");
}
END_TEST

START_TEST(takes_as_much_as_the_limit)
{
	open_with("head -c 262144 /dev/zero | tr '\\0' x", 5000);
	ck_assert_int_eq(ask(fd, 0), 0);
	ck_assert_uint_eq(len, LIMIT_PLUGIN_OUTPUT);
}
END_TEST

/* A daemon that it leaves behind holds its output open. */
START_TEST(ends_when_the_plugin_does)
{
	open_with("sleep 30 & echo x", 20000);
	ck_assert_int_eq(ask(fd, 0), 0);
	ck_output("x\n");
}
END_TEST

START_TEST(what_is_not_there_is_told_with_the_hint)
{
	char *argv[] = { none, NULL }, *env[] = { NULL };
	struct kubeconfig_exec exec = { .command = none, .argv = argv,
	    .env = env, .hint = hint, .ms = 1000 };

	plugin = plugin_open(&exec, &log_, &err);
	fd = plugin_connect(plugin, &err);
	ck_assert_int_eq(ask(fd, 0), -1);
	ck_assert_int_eq(err.code, ERR_CONFIG);
	ck_assert_str_eq(err.text, "credential plugin /nonexistent/plugin: "
	    "can't be run: No such file or directory: a hint");
}
END_TEST

START_TEST(ends_with_its_last_channel)
{
	int status;

	open_with("sleep 60", 60000);
	ck_assert_int_eq(plugin_ask(fd, 0, &err), 0);
	plugin_close(plugin);
	plugin = NULL;
	ck_assert_int_eq(waitpid(-1, &status, WNOHANG), 0);
	close(fd);
	fd = -1;
	ck_assert_int_gt(waitpid(-1, &status, 0), 0);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

START_TEST(a_helper_that_is_gone_is_an_error)
{
	char name[64];
	FILE *f;
	int pid;

	open_with("echo x", 1000);
	ck_assert_int_eq(ask(fd, 0), 0);
	(void)snprintf(name, sizeof(name), "/proc/self/task/%d/children",
	    (int)getpid());
	if ((f = fopen(name, "r")) == NULL)
		return;
	ck_assert_int_eq(fscanf(f, "%d", &pid), 1);
	fclose(f);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	buf_reset(&in, 0);
	if (plugin_ask(fd, 1, &err) == 0)
		ck_assert_int_eq(plugin_wait(fd, &in, &generation, &text, &len,
		    &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "start anew"));
	ck_assert_int_eq(plugin_connect(plugin, &err), -1);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("plugin");
	TCase *t = tcase_create("plugin");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, gives_the_last_output_again_unless_that_is_had);
	tcase_add_test(t, one_run_is_for_all_that_wait);
	tcase_add_loop_test(t, a_run_that_fails_is_told_and_the_next_may_be_good,
	    0, COUNT(bad));
	tcase_add_test(t, takes_as_much_as_the_limit);
	tcase_add_test(t, ends_when_the_plugin_does);
	tcase_add_test(t, what_is_not_there_is_told_with_the_hint);
	tcase_add_test(t, ends_with_its_last_channel);
	tcase_add_test(t, a_helper_that_is_gone_is_an_error);
	suite_add_tcase(s, t);
	return suite_run(s);
}
