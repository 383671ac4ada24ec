/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "config.h"
#include "error.h"
#include "suite.h"

/* Words split at blanks, as argv; '$' begins one of the environment, '%' one
 * of the .env file. */
static int
load(struct config *c, const char *line, bool *usage, struct error *err)
{
	static char text[512];
	static char *argv[20], *env[20], *file[20], self[] = "mcp-sandbox";
	int argc = 1, envc = 0, filec = 0;

	(void)snprintf(text, sizeof(text), "%s", line);
	argv[0] = self;
	for (char *w = strtok(text, " "); w != NULL; w = strtok(NULL, " "))
		if (*w == '$')
			env[envc++] = w + 1;
		else if (*w == '%')
			file[filec++] = w + 1;
		else
			argv[argc++] = w;
	argv[argc] = env[envc] = file[filec] = NULL;
	return config_load(c, argc, argv, env, file, NULL, 0, usage, err);
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
	{ "%K8S_SANDBOX_CONNECTION__REST_PORT=80 %UNKNOWN=1", 80,
	    CONNECTION_AUTO, NULL },
	{ "%K8S_SANDBOX_CONNECTION__REST_PORT=80 "
	    "$K8S_sandbox_CONNECTION__REST_PORT=81", 81, CONNECTION_AUTO,
	    NULL },
	{ "$K8S_SANDBOX_CONNECTION={\"type\":\"exec\",\"rest_port\":82,"
	    "\"more\":true,\"none\":null}", 82, CONNECTION_EXEC, NULL },
	{ "$K8S_SANDBOX_CONNECTION={\"rest_port\":\"82\"} "
	    "$K8S_SANDBOX_CONNECTION__REST_PORT=83", 83, CONNECTION_AUTO,
	    NULL },
	{ "$K8S_SANDBOX_CONNECTION={\"rest_port\":82} "
	    "%K8S_SANDBOX_CONNECTION__REST_PORT=83", 82, CONNECTION_AUTO,
	    NULL },
	{ "%K8S_SANDBOX_CONNECTION={\"rest_port\":82,\"type\":\"direct\"} "
	    "%K8S_SANDBOX_CONNECTION__API_URL=http://r:1/p/", 82,
	    CONNECTION_DIRECT, NULL },
	{ "--connection gateway --gateway-name a.b", 8080, CONNECTION_GATEWAY,
	    NULL },
	{ "--connection=in-cluster --use-pod-ip", 8080, CONNECTION_IN_CLUSTER,
	    NULL },
	{ "--connection=sandboxd-in-cluster --mode service-dns", 8080,
	    CONNECTION_SANDBOXD_IN_CLUSTER, NULL },
	{ "--connection=direct --api-url=https://[::1]:443 --router-ca x",
	    8080, CONNECTION_DIRECT, NULL },
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
	config_free(&c);
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
	{ "one two three", "three", "unexpected", true },
	{ "--connection gateway", "GATEWAY_NAME", "--gateway-name", false },
	{ "--connection direct", "API_URL", "--api-url", false },
	{ "$K8S_SANDBOX_CONNECTION__TYPE=sandboxd-in-cluster",
	    "K8S_SANDBOX_CONNECTION__MODE",
	    "in-cluster-service or in-cluster-pod-ip", false },
	{ "--mode pod", "--mode", "in-cluster-pod-ip", true },
	{ "--api-url=", "--api-url", "http://HOST", true },
	{ "--api-url=router:80", "--api-url", "http://HOST", true },
	{ "--api-url=ftp://router", "--api-url", "http://HOST", true },
	{ "--api-url=http://", "--api-url", "http://HOST", true },
	{ "--api-url=http://:80", "--api-url", "http://HOST", true },
	{ "--api-url=http://a:0", "--api-url", "http://HOST", true },
	{ "--api-url=http://a:70000/", "--api-url", "http://HOST", true },
	{ "--api-url=http://a:8x", "--api-url", "http://HOST", true },
	{ "--api-url=http://u@a", "--api-url", "http://HOST", true },
	{ "--api-url=http://a/?q", "--api-url", "http://HOST", true },
	{ "--api-url=http://[::1", "--api-url", "http://HOST", true },
	{ "--gateway-name -x", "--gateway-name", "", true },
	{ "--rest-port 9090", "REST_PORT", "9090", false },
	{ "--router-cert x", "ROUTER_CERT", "needs the other", false },
	{ "--router-ca x", "ROUTER_CA", "https", false },
	{ "--gateway-scheme ftp", "--gateway-scheme", "http, https", true },
	{ "$K8S_SANDBOX_CONNECTION={", "K8S_SANDBOX_CONNECTION", "", false },
	{ "$K8S_SANDBOX_CONNECTION=[]", "K8S_SANDBOX_CONNECTION",
	    "a JSON object", false },
	{ "%K8S_SANDBOX_CONNECTION={\"mode\":[]}", "K8S_SANDBOX_CONNECTION",
	    "texts", false },
	{ "$K8S_SANDBOX_CONNECTION={\"rest_port\":70000}",
	    "K8S_SANDBOX_CONNECTION__REST_PORT", "1 to 65535", false },
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
	config_free(&c);
}
END_TEST

START_TEST(an_older_name_of_a_mode_is_the_mode)
{
	struct error err;
	struct config c;
	bool usage;

	ck_assert_int_eq(load(&c, "--mode pod-ip", &usage, &err), 0);
	ck_assert_str_eq(c.mode, "in-cluster-pod-ip");
	ck_assert(c.shell);
	ck_assert(!c.in_cluster);
	ck_assert_int_eq(load(&c, "--shell=false "
	    "$KUBERNETES_SERVICE_HOST=10.0.0.1", &usage, &err), 0);
	ck_assert(!c.shell);
	ck_assert(c.in_cluster);
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

START_TEST(a_list_has_whole_names_only)
{
	const char *list = " ,a, toolong,,\0b";
	char one[4];

	ck_assert(config_item(&list, one, sizeof(one)));
	ck_assert_str_eq(one, "a");
	ck_assert(!config_item(&list, one, sizeof(one)));
	ck_assert_str_eq(one, "");
	ck_assert(!config_item(&list, one, sizeof(one)));
	list = "toolong,bcd";
	ck_assert(config_item(&list, one, sizeof(one)));
	ck_assert_str_eq(one, "bcd");
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
	ck_assert_uint_le(lines, 24);
	buf_free(&b);
}
END_TEST

/* A file's text, and what comes of it. */
static const struct {
	const char *text, *env, *says;	/* NULL: the context is "one" */
} files[] = {
	{ "context = one", NULL, NULL },
	{ "# all of it\n\n  context=one  \r\n#context = two", NULL, NULL },
	{ "context = two\ncontext = one\n", NULL, NULL },
	{ "context = two", "MCP_SANDBOX_CONTEXT=one", NULL },
	{ "context = one\nverbose = true", NULL, NULL },
	{ "context", NULL, "file:1: not \"name = value\"" },
	{ "\n\nbelow = 1", NULL, "file:3: there is no setting 'below'" },
	{ "= 1", NULL, "file:1: there is no setting ''" },
	{ "help = true", NULL, "file:1: there is no setting 'help'" },
	{ "context = one\nrest-port = 0", NULL, "file:2: rest-port" },
	{ "verbose = perhaps", NULL, "file:1: verbose" },
};

START_TEST(a_file_is_read_line_by_line)
{
	char self[] = "mcp-sandbox", env[128] = "", text[256];
	char *argv[] = { self, NULL }, *environ[] = { env, NULL };
	const struct config_text t = { "file", text };
	struct config c;
	struct error err = { ERR_NONE, "" };
	bool usage;
	int r;

	(void)snprintf(text, sizeof(text), "%s", files[_i].text);
	if (files[_i].env != NULL)
		(void)snprintf(env, sizeof(env), "%s", files[_i].env);
	r = config_load(&c, 1, argv, environ, NULL, &t, 1, &usage, &err);
	if (files[_i].says == NULL) {
		ck_assert_msg(r == 0, "%s", err.text);
		ck_assert_str_eq(c.context, "one");
	} else {
		ck_assert_int_eq(r, -1);
		ck_assert_int_eq(err.code, ERR_CONFIG);
		ck_assert_msg(strstr(err.text, files[_i].says) != NULL, "%s",
		    err.text);
		ck_assert(!usage);
	}
	config_free(&c);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("config");
	TCase *t = tcase_create("config");

	tcase_add_loop_test(t, a_file_is_read_line_by_line, 0,
	    sizeof(files) / sizeof(files[0]));
	suite_add_tcase(s, t);
	tcase_add_loop_test(t, a_flag_beats_the_environment_beats_the_default,
	    0, sizeof(good) / sizeof(good[0]));
	tcase_add_loop_test(t, a_bad_value_is_named_with_what_is_allowed, 0,
	    sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(t, an_older_name_of_a_mode_is_the_mode);
	tcase_add_test(t, a_list_allows_whole_names_only);
	tcase_add_test(t, a_list_has_whole_names_only);
	tcase_add_test(t, help_fits_a_screen);
	return suite_run(s);
}
