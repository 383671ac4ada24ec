/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../error.h"
#include "../proxy.h"
#include "suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	const char *text, *url, *host, *port;
} urls[] = {
	{ "http://p", "http://p:80", "p", "80" },
	{ "HTTPS://p/", "https://p:443", "p", "443" },
	{ "socks5://p:9", "socks5://p:9", "p", "9" },
	{ "socks5h://10.0.0.1", "socks5h://10.0.0.1:1080", "10.0.0.1",
	    "1080" },
	{ "p:3128", "http://p:3128", "p", "3128" },
	{ "p", "http://p:80", "p", "80" },
	{ "http://u:p%40w@[fd00::1]:8", "http://u:p%40w@[fd00::1]:8",
	    "fd00::1", "8" },
	{ "http://a@b@p", "http://a@b@p:80", "p", "80" },
	{ "" }, { "http://" }, { "http://:80" }, { "http://p:" },
	{ "http://p:0" }, { "http://p:65536" }, { "http://p:1x" },
	{ "http://p/path" }, { "http://p?x" }, { "http://[::1" },
	{ "http://[x]" }, { "ftp://p" }, { "socks4://p" }, { "http://u s@p" },
	{ "http://u/@p" }, { "http://p\r\nX: y" }, { "://p" },
};

START_TEST(a_url_is_made_whole_or_refused)
{
	struct error err = { 0 };
	char *url = proxy_url(urls[_i].text, &err), host[64], port[8];

	if (urls[_i].url == NULL) {
		ck_assert_msg(url == NULL, "took %s", urls[_i].text);
		ck_assert_int_eq(err.code, ERR_CONFIG);
		return;
	}
	ck_assert_msg(url != NULL, "%s: %s", urls[_i].text, err.text);
	ck_assert_str_eq(url, urls[_i].url);
	ck_assert_int_eq(proxy_parts(url, host, sizeof(host), port), 0);
	ck_assert_str_eq(host, urls[_i].host);
	ck_assert_str_eq(port, urls[_i].port);
	free(url);
}
END_TEST

/* As golang.org/x/net/http/httpproxy, and the CIDR blocks of client-go. */
static const struct {
	const char *no_proxy, *host, *port;
	bool is;
} exceptions[] = {
	{ NULL, "h", "443", false },
	{ NULL, "localhost", "443", true },
	{ NULL, "127.8.0.1", "443", true },
	{ NULL, "::1", "443", true },
	{ "*", "h", "443", true },
	{ "other, h", "h", "443", true },
	{ "other,h.", "h", "443", false },
	{ "example.com", "example.com", "443", true },
	{ "example.com", "a.EXAMPLE.com", "443", true },
	{ "example.com", "badexample.com", "443", false },
	{ ".example.com", "example.com", "443", false },
	{ ".example.com", "a.example.com", "443", true },
	{ "*.example.com", "a.b.example.com", "443", true },
	{ "*.example.com", "example.com", "443", false },
	{ "example.com:443", "example.com", "443", true },
	{ "example.com:80", "example.com", "443", false },
	{ "10.0.0.1", "10.0.0.1", "443", true },
	{ "10.0.0.1:6443", "10.0.0.1", "6443", true },
	{ "10.0.0.1:6443", "10.0.0.1", "443", false },
	{ "10.0.0.0/8", "10.255.0.1", "443", true },
	{ "10.0.0.0/8", "11.0.0.1", "443", false },
	{ "10.0.0.0/8", "10.example", "443", false },
	{ "10.0.0.0/33", "10.0.0.1", "443", false },
	{ "10.0.0.0/", "10.0.0.1", "443", false },
	{ "10.0.0.0/8x", "10.0.0.1", "443", false },
	{ "0.0.0.0/0", "8.8.8.8", "443", true },
	{ "0.0.0.0/0", "fd00::1", "443", false },
	{ "172.16.0.0/12", "172.31.255.255", "443", true },
	{ "172.16.0.0/12", "172.32.0.0", "443", false },
	{ "fd00::/8", "fd12::1", "443", true },
	{ "fd00::/8", "fe00::1", "443", false },
	{ "fd00:0::1", "fd00::1", "443", true },
	{ "[fd00::1]:443", "fd00::1", "443", true },
	{ "[fd00::1]", "fd00::1", "443", true },
	{ "[fd00::1]:80", "fd00::1", "443", false },
	{ "::/0", "fd00::1", "443", true },
	{ ",, ,", "h", "443", false },
	{ "[", "h", "443", false }, { "[]:", "h", "443", false },
	{ ":443", "h", "443", false }, { "*.", "h", "443", false },
	{ "/8", "10.0.0.1", "443", false },
};

/* users.md 69 */
START_TEST(some_hosts_need_no_proxy)
{
	ck_assert_msg(proxy_excepts(exceptions[_i].no_proxy,
	    exceptions[_i].host, exceptions[_i].port) == exceptions[_i].is,
	    "%s of %s", exceptions[_i].host, exceptions[_i].no_proxy);
}
END_TEST

START_TEST(a_long_entry_is_left_out)
{
	char list[1000];

	memset(list, 'h', sizeof(list));
	strcpy(list + sizeof(list) - 3, ",x");
	ck_assert(proxy_excepts(list, "x", "443"));
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("proxy");
	TCase *t = tcase_create("proxy");

	tcase_add_loop_test(t, a_url_is_made_whole_or_refused, 0, COUNT(urls));
	tcase_add_loop_test(t, some_hosts_need_no_proxy, 0, COUNT(exceptions));
	tcase_add_test(t, a_long_entry_is_left_out);
	suite_add_tcase(s, t);
	return suite_run(s);
}
