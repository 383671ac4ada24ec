/* SPDX-License-Identifier: Apache-2.0 */
/* What a router's answer means; and which address a Gateway has. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../config.h"
#include "../buf.h"
#include "../error.h"
#include "../gateway.h"
#include "../router.h"
#include "suite.h"

static const struct {
	long status;
	const char *detail;
	long waited_ms;
	enum error_code code;		/* ERR_NONE: not the router's own */
	const char *word;
} replies[] = {
	{ 502, "Could not connect to the backend sandbox: x", 30020, ERR_LOST,
	    "--response-header-timeout" },
	{ 502, "Could not connect to the backend sandbox: x", 900, ERR_LOST,
	    "NetworkPolicy" },
	{ 502, "", 60000, ERR_LOST, "may have run" },
	{ 503, "draining", 1, ERR_LOST, "draining" },
	{ 504, "Timed out waiting for the backend sandbox: x", 180000,
	    ERR_LOST, "after 180 s" },
	{ 401, "Invalid token.", 1, ERR_DENIED, "MCP_SANDBOX_ROUTER_TOKEN" },
	{ 403, "forbidden: no", 1, ERR_DENIED, "MCP_SANDBOX_ROUTER_TOKEN" },
	{ 403, "Access denied", 1, ERR_NONE, "" },
	{ 500, "An internal error occurred in the proxy.", 1, ERR_LOST,
	    "may have run" },
	{ 500, "List files failed: x", 1, ERR_NONE, "" },
	{ 404, "File not found", 1, ERR_NONE, "" },
	{ 400, "Invalid port format.", 1, ERR_NONE, "" },
};

START_TEST(a_routers_own_answer_is_told_from_the_sandboxs)
{
	struct error err = { ERR_NONE, "" };
	bool own = router_explain(replies[_i].status, replies[_i].detail,
	    replies[_i].waited_ms, &err);

	ck_assert_int_eq(own, replies[_i].code != ERR_NONE);
	ck_assert_int_eq(err.code, replies[_i].code);
	ck_assert_msg(strstr(err.text, replies[_i].word) != NULL, "%s",
	    err.text);
}
END_TEST

static const struct {
	const char *scheme, *host, *address;
	long port;
	const char *url, *resolve;
} places[] = {
	{ "http", "10.0.0.1", "10.0.0.1", 0, "http://10.0.0.1:80", "" },
	{ "https", "fd00::1", "fd00::1", 0, "https://[fd00::1]:443", "" },
	{ "https", "a.example", "10.0.0.1", 8443, "https://a.example:8443",
	    "a.example:8443:10.0.0.1" },
	{ "http", "a.example", "fd00::1", 0, "http://a.example:80",
	    "a.example:80:[fd00::1]" },
};

START_TEST(a_gateways_url_is_made_of_scheme_host_and_port)
{
	struct config c = { .gateway_scheme = places[_i].scheme,
	    .gateway_port = places[_i].port };
	struct router r = { .config = &c };

	router_set(&r, places[_i].host, places[_i].address);
	ck_assert_str_eq(r.url, places[_i].url);
	ck_assert_str_eq(r.resolve, places[_i].resolve);
}
END_TEST

START_TEST(a_rotated_token_is_read_again)
{
	char path[] = "/tmp/test-router-XXXXXX";
	int fd = mkstemp(path);
	struct config c = { .router_token = path };
	struct error err = { ERR_NONE, "" };
	struct router *r;
	struct buf b;

	ck_assert_int_ne(fd, -1);
	ck_assert_int_eq(write(fd, "one\n", 4), 4);
	r = router_open(&c, &err);
	ck_assert_msg(r != NULL, "%s", err.text);
	buf_init(&b, 200);
	ck_assert_int_eq(pwrite(fd, "two\n", 4, 0), 4);
	ck_assert_int_eq(router_token(r, &b, &err), 0);
	ck_assert_str_eq(b.data, "Authorization: Bearer one");
	buf_reset(&b, 200);
	r->token_read -= 61 * 1000;
	ck_assert_int_eq(router_token(r, &b, &err), 0);
	ck_assert_str_eq(b.data, "Authorization: Bearer two");
	/* While it is being replaced, the old one does. */
	ck_assert_int_eq(unlink(path), 0);
	buf_reset(&b, 200);
	r->token_read -= 61 * 1000;
	ck_assert_int_eq(router_token(r, &b, &err), 0);
	ck_assert_str_eq(b.data, "Authorization: Bearer two");
	router_close(r);
	ck_assert_ptr_null(router_open(&c, &err));
	ck_assert_int_eq(err.code, ERR_CONFIG);
	buf_free(&b);
	close(fd);
}
END_TEST

#define GW(list) "{\"status\":{\"addresses\":[" list "]}}"
#define V(value) "{\"type\":\"X\",\"value\":\"" value "\"}"

static const struct {
	const char *object;
	int result;
	const char *host;
} gateways[] = {
	{ "{}", 0, "" },
	{ "{\"status\":{\"addresses\":{}}}", 0, "" },
	{ GW(""), 0, "" },
	{ GW("{},null,7,{\"value\":7}"), 0, "" },
	{ GW(V("10.0.0.1") "," V("10.0.0.2")), 1, "10.0.0.1" },
	{ GW(V("::ffff:10.0.0.1")), 1, "10.0.0.1" },
	{ GW(V("a.example")), 1, "a.example" },
	{ GW(V("bad name") "," V("a.example")), 1, "a.example" },
	{ GW(V("1.2.3")), 0, "" },
	{ GW(V("a.example.")), 0, "" },
	{ GW(V("127.0.0.1")), -1, "" },
	{ GW(V("169.254.169.254")), -1, "" },
	{ GW(V("fe80::1") "," V("10.0.0.1")), 1, "10.0.0.1" },
};

START_TEST(the_first_usable_address_of_a_gateway_is_taken)
{
	struct error err;
	char host[GATEWAY_HOST] = "";
	struct json_doc *doc = json_parse(gateways[_i].object,
	    strlen(gateways[_i].object), &err);

	ck_assert_ptr_nonnull(doc);
	ck_assert_int_eq(gateway_address(json_root(doc), false, host),
	    gateways[_i].result);
	if (gateways[_i].result == 1)
		ck_assert_str_eq(host, gateways[_i].host);
	json_free(doc);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("router");
	TCase *t = tcase_create("router");

	suite_add_tcase(s, t);
	tcase_add_loop_test(t, a_routers_own_answer_is_told_from_the_sandboxs,
	    0, sizeof(replies) / sizeof(replies[0]));
	tcase_add_loop_test(t, a_gateways_url_is_made_of_scheme_host_and_port,
	    0, sizeof(places) / sizeof(places[0]));
	tcase_add_loop_test(t, the_first_usable_address_of_a_gateway_is_taken,
	    0, sizeof(gateways) / sizeof(gateways[0]));
	tcase_add_test(t, a_rotated_token_is_read_again);
	return suite_run(s);
}
