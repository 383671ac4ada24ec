/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>

#include "../guard.h"
#include "suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	const char *host, *allowed;
	bool loopback, good;
} hosts[] = {
	{ "localhost", NULL, true, true },
	{ "LocalHost:8080", NULL, true, true },
	{ "127.0.0.1:3900", NULL, true, true },
	{ "127.1.2.3", NULL, true, true },
	{ "[::1]:8080", NULL, true, true },
	{ "evil.example.com", NULL, true, false },
	{ "evil.example.com:8080", NULL, true, false },
	{ "127.0.0.1.evil.example.com", NULL, true, false },
	{ "localhost.evil.example.com", NULL, true, false },
	{ "localhost:80:80", NULL, true, false },
	{ "localhost:x", NULL, true, false },
	{ "localhost@evil", NULL, true, false },
	{ "[::1", NULL, true, false },
	{ "", NULL, true, false },
	{ NULL, NULL, true, false },
	{ "evil.example.com", NULL, false, true },
	{ "a.example", "b.example, a.example", false, true },
	{ "a.example:99", "a.example", false, true },
	{ "a.example:99", "a.example:98", false, false },
	{ "a.example:99", "a.example:99", false, true },
	{ "a.exampl", "a.example", false, false },
	{ "localhost", "a.example", false, false },
	{ "localhost", "a.example", true, true },
	{ "whatever:1", "all", true, true },
};

START_TEST(lets_in_hosts_of_this_machine_and_of_the_list)
{
	ck_assert(guard_host(hosts[_i].host, hosts[_i].allowed,
	    hosts[_i].loopback) == hosts[_i].good);
}
END_TEST

static const struct {
	const char *origin, *host, *allowed;
	bool loopback, good;
} origins[] = {
	{ NULL, "localhost", NULL, true, true },
	{ "http://localhost:3900", "localhost:3900", NULL, true, true },
	{ "http://127.0.0.1:1", "localhost:3900", NULL, true, true },
	{ "null", "localhost", NULL, true, false },
	{ "", "localhost", NULL, true, false },
	{ "://localhost", "localhost", NULL, true, false },
	{ "http://evil.example.com", "localhost", NULL, true, false },
	{ "http://evil.example.com", "evil.example.com", NULL, true, false },
	{ "https://a.example", "a.example", NULL, false, true },
	{ "https://b.example", "a.example", NULL, false, false },
	{ "http://localhost", "a.example", NULL, false, false },
	{ "https://b.example", "a.example", "https://b.example", false, true },
	{ "http://b.example", "a.example", "https://b.example", false, false },
	{ "null", "a.example", "all", false, true },
};

START_TEST(lets_in_origins_of_its_own_and_of_the_list)
{
	ck_assert(guard_origin(origins[_i].origin, origins[_i].host,
	    origins[_i].allowed, NULL, origins[_i].loopback) ==
	    origins[_i].good);
}
END_TEST

static const struct {
	const char *accept;
	int what;
} accepts[] = {
	{ NULL, 3 }, { "*/*", 3 }, { "", 0 }, { "text/html", 0 },
	{ "application/json", ACCEPT_JSON },
	{ "Application/JSON;q=0.5", ACCEPT_JSON },
	{ "application/*", ACCEPT_JSON },
	{ "text/event-stream", ACCEPT_STREAM },
	{ "application/json, text/event-stream", 3 },
	{ "application/json,text/event-stream;q=0", ACCEPT_JSON },
	{ "application/json, text/event-stream; q=0.000", ACCEPT_JSON },
	{ "application/json, text/event-stream; q=0.001", 3 },
	{ "application/jsonp", 0 },
	{ ",,,", 0 }, { ";", 0 },
};

START_TEST(reads_what_a_client_accepts)
{
	ck_assert_int_eq(guard_accept(accepts[_i].accept), accepts[_i].what);
}
END_TEST

static const struct {
	const char *type;
	bool good;
} types[] = {
	{ NULL, false }, { "", false }, { "application/json", true },
	{ "application/json; charset=utf-8", true },
	{ "APPLICATION/JSON;charset=UTF-8", true },
	{ "application/json ;", true },
	{ "application/json; charset=\"utf-8\"", true },
	{ "application/json; charset=latin1", false },
	{ "application/jsonx", false }, { "text/plain", false },
	{ "application/json, text/plain", false },
};

START_TEST(takes_json_in_utf_8_only)
{
	ck_assert(guard_is_json(types[_i].type) == types[_i].good);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("guard");
	TCase *t = tcase_create("guard");

	tcase_add_loop_test(t, lets_in_hosts_of_this_machine_and_of_the_list,
	    0, COUNT(hosts));
	tcase_add_loop_test(t, lets_in_origins_of_its_own_and_of_the_list, 0,
	    COUNT(origins));
	tcase_add_loop_test(t, reads_what_a_client_accepts, 0, COUNT(accepts));
	tcase_add_loop_test(t, takes_json_in_utf_8_only, 0, COUNT(types));
	suite_add_tcase(s, t);
	return suite_run(s);
}
