/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "config.h"
#include "error.h"

/* Words split at blanks, as argv; words beginning with '$' are environment. */
static int
load(struct config *c, const char *line, bool *usage, struct error *err)
{
	static char text[512];
	static char *argv[20], *env[20], self[] = "mcp-sandbox";
	int argc = 1, envc = 0;

	(void)snprintf(text, sizeof(text), "%s", line);
	argv[0] = self;
	for (char *w = strtok(text, " "); w != NULL; w = strtok(NULL, " "))
		if (*w == '$')
			env[envc++] = w + 1;
		else
			argv[argc++] = w;
	argv[argc] = env[envc] = NULL;
	return config_load(c, argc, argv, env, usage, err);
}

static const struct {
	const char *line;
	long port;
	enum connection route;
	const char *session;
} good[] = {
	{ "", 8080, CONNECTION_AUTO, NULL },
	{ "--rest-port 1", 1, CONNECTION_AUTO, NULL },
	{ "--rest-port=65535", 65535, CONNECTION_AUTO, NULL },
	{ "$K8S_SANDBOX_CONNECTION__REST_PORT=80", 80, CONNECTION_AUTO, NULL },
	{ "$k8s_sandbox_connection__rest_port=80.0", 80, CONNECTION_AUTO,
	    NULL },
	{ "$K8S_SANDBOX_CONNECTION__REST_PORT=80 --rest-port 81", 81,
	    CONNECTION_AUTO, NULL },
	{ "--connection exec -s me", 8080, CONNECTION_EXEC, "me" },
	{ "$K8S_SANDBOX_CONNECTION__TYPE=tunnel -sme", 8080, CONNECTION_TUNNEL,
	    "me" },
	{ "$MCP_SANDBOX_SESSION_ID= -v", 8080, CONNECTION_AUTO, NULL },
	{ "-vs me", 8080, CONNECTION_AUTO, "me" },
};

START_TEST(a_flag_beats_the_environment_beats_the_default)
{
	struct error err = { ERR_NONE, "" };
	struct config c;
	bool usage;

	ck_assert_msg(load(&c, good[_i].line, &usage, &err) == 0, "%s: %s",
	    good[_i].line, err.text);
	ck_assert_int_eq(c.rest_port, good[_i].port);
	ck_assert_int_eq(c.route, good[_i].route);
	if (good[_i].session == NULL)
		ck_assert_ptr_null(c.session_id);
	else
		ck_assert_str_eq(c.session_id, good[_i].session);
}
END_TEST

static const struct {
	const char *line, *names, *allowed;
	bool usage;
} bad[] = {
	{ "--rest-port 0", "--rest-port", "1 to 65535", true },
	{ "--rest-port 65536", "--rest-port", "1 to 65535", true },
	{ "--rest-port 8x", "--rest-port", "whole number", true },
	{ "--rest-port", "--rest-port", "needs a value", true },
	{ "$K8S_SANDBOX_CONNECTION__REST_PORT=70000",
	    "K8S_SANDBOX_CONNECTION__REST_PORT", "1 to 65535", false },
	{ "$K8S_SANDBOX_CONNECTION__REST_PORT=", "REST_PORT", "1 to 65535",
	    false },
	{ "--connection Tunnel", "--connection", "auto, tunnel, exec", true },
	{ "$K8S_SANDBOX_CONNECTION__TYPE=x", "K8S_SANDBOX_CONNECTION__TYPE",
	    "auto, tunnel, exec", false },
	{ "-s -x-", "--session-id", "label value", true },
	{ "--session-label a//b", "--session-label", "label key", true },
	{ "--nope", "--nope", "unknown option", true },
	{ "-x", "-x", "unknown option", true },
	{ "--rest-port=99999999999999999999", "--rest-port", "1 to 65535",
	    true },
	{ "one two", "two", "unexpected", true },
	{ "--verbose=maybe", "--verbose", "true or false", true },
};

START_TEST(a_bad_value_is_named_with_what_is_allowed)
{
	struct error err = { ERR_NONE, "" };
	struct config c;
	bool usage;

	ck_assert_int_eq(load(&c, bad[_i].line, &usage, &err), -1);
	ck_assert_int_eq(err.code, ERR_CONFIG);
	ck_assert_msg(strstr(err.text, bad[_i].names) != NULL, "%s", err.text);
	ck_assert_msg(strstr(err.text, bad[_i].allowed) != NULL, "%s",
	    err.text);
	ck_assert_int_eq(usage, bad[_i].usage);
}
END_TEST

START_TEST(a_list_allows_whole_names_only)
{
	ck_assert(config_allows(NULL, "a"));
	ck_assert(config_allows("a,b, c", "b"));
	ck_assert(config_allows("a,b, c", "c"));
	ck_assert(!config_allows("ab", "a"));
	ck_assert(!config_allows("a", "ab"));
	ck_assert(!config_allows("", "a"));
}
END_TEST

START_TEST(help_fits_a_screen)
{
	struct buf b;
	size_t column = 0, lines = 0;

	buf_init(&b, 64 * 1024);
	config_help(&b);
	for (size_t i = 0; i < b.len; i++) {
		column = b.data[i] == '\n' ? 0 : column + 1;
		lines += b.data[i] == '\n';
		ck_assert_msg(column <= 80, "%.*s", 80, b.data + i - 79);
	}
	ck_assert_uint_gt(lines, 5);
	ck_assert_uint_le(lines, 50);
	buf_free(&b);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("config");
	TCase *t = tcase_create("config");
	SRunner *r = srunner_create(s);
	int failed;

	suite_add_tcase(s, t);
	tcase_add_loop_test(t, a_flag_beats_the_environment_beats_the_default,
	    0, sizeof(good) / sizeof(good[0]));
	tcase_add_loop_test(t, a_bad_value_is_named_with_what_is_allowed, 0,
	    sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(t, a_list_allows_whole_names_only);
	tcase_add_test(t, help_fits_a_screen);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
