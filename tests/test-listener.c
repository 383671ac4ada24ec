/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "../error.h"
#include "../listener.h"
#include "../log.h"
#include "suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	const char *text;
	int family;
	const char *host;
	unsigned port;
} addresses[] = {
	{ "127.0.0.1:8080", AF_INET, "127.0.0.1", 8080 },
	{ "localhost:0", AF_INET, "127.0.0.1", 0 },
	{ "0.0.0.0:65535", AF_INET, "0.0.0.0", 65535 },
	{ ":8080", AF_INET6, "::", 8080 },
	{ "[::1]:80", AF_INET6, "::1", 80 },
	{ "unix:/run/x", AF_UNIX, "/run/x", 0 },
	{ "/run/x", AF_UNIX, "/run/x", 0 },
	{ "", 0, NULL, 0 }, { "8080", 0, NULL, 0 }, { "::1:80", 0, NULL, 0 },
	{ "[]:80", 0, NULL, 0 }, { "[::1]", 0, NULL, 0 },
	{ "127.0.0.1:", 0, NULL, 0 }, { "127.0.0.1:65536", 0, NULL, 0 },
	{ "127.0.0.1:+1", 0, NULL, 0 }, { "127.0.0.1:8 0", 0, NULL, 0 },
	{ "example.com:80", 0, NULL, 0 }, { "unix:", 0, NULL, 0 },
	{ "unix:/0123456789012345678901234567890123456789012345678901234567890"
	    "1234567890123456789012345678901234567890123456789", 0, NULL, 0 },
};

START_TEST(reads_an_address)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_un un;
	} a = { .any = { 0 } };
	char host[64] = "";
	size_t len = listener_address(addresses[_i].text, &a, sizeof(a));

	ck_assert((len > 0) == (addresses[_i].family != 0));
	if (len == 0)
		return;
	ck_assert_int_eq(a.any.sa_family, addresses[_i].family);
	if (a.any.sa_family == AF_UNIX) {
		ck_assert_str_eq(a.un.sun_path, addresses[_i].host);
		return;
	}
	ck_assert_uint_eq(ntohs(a.any.sa_family == AF_INET ? a.v4.sin_port :
	    a.v6.sin6_port), addresses[_i].port);
	inet_ntop(a.any.sa_family, a.any.sa_family == AF_INET ?
	    (void *)&a.v4.sin_addr : (void *)&a.v6.sin6_addr, host,
	    sizeof(host));
	ck_assert_str_eq(host, addresses[_i].host);
}
END_TEST

static char path[64];
static struct log quiet = { .max = LOG_ERROR, .fd = 2 };

static int
open_path(struct listener *l, struct error *err)
{
	const char *all[] = { path };

	return listener_open(l, all, 1, 0620, &quiet, err);
}

START_TEST(replaces_a_socket_that_nobody_listens_on)
{
	struct listener one, two;
	struct error err;
	struct stat st;

	(void)snprintf(path, sizeof(path), "/tmp/test-listener-%d",
	    (int)getpid());
	ck_assert_int_eq(open_path(&one, &err), 0);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0620);
	ck_assert(!one.far && !one.near);
	/* Somebody does. */
	ck_assert_int_eq(open_path(&two, &err), -1);
	ck_assert_int_eq(err.code, ERR_CONFIG);
	listener_close(&two);
	listener_close(&one);
	ck_assert_int_eq(open_path(&two, &err), 0);
	listener_close(&two);
	unlink(path);
	/* What is no socket stays. */
	ck_assert_ptr_nonnull(freopen(path, "w", stdin));
	ck_assert_int_eq(open_path(&two, &err), -1);
	listener_close(&two);
	ck_assert_int_eq(unlink(path), 0);
}
END_TEST

START_TEST(tells_loopback_from_other_addresses)
{
	static const char *const near[] = { "127.0.0.1:0", "[::1]:0" };
	static const char *const far[] = { "0.0.0.0:0" };
	struct listener l;
	struct error err;

	ck_assert_int_eq(listener_open(&l, near, 1, 0, &quiet, &err), 0);
	ck_assert(l.near && !l.far);
	listener_close(&l);
	ck_assert_int_eq(listener_open(&l, far, 1, 0, &quiet, &err), 0);
	ck_assert(l.far && !l.near);
	listener_close(&l);
}
END_TEST

START_TEST(believes_systemd_only_about_its_own_process)
{
	char pid[16];

	(void)snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("LISTEN_FDS", "2", 1);
	setenv("LISTEN_PID", pid, 1);
	ck_assert_uint_eq(listener_inherited(), 2);
	setenv("LISTEN_PID", "1", 1);
	ck_assert_uint_eq(listener_inherited(), 0);
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", "-1", 1);
	ck_assert_uint_eq(listener_inherited(), 0);
	setenv("LISTEN_FDS", "99999", 1);
	ck_assert_uint_eq(listener_inherited(), 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("listener");
	TCase *t = tcase_create("listener");

	tcase_add_loop_test(t, reads_an_address, 0, COUNT(addresses));
	tcase_add_test(t, replaces_a_socket_that_nobody_listens_on);
	tcase_add_test(t, tells_loopback_from_other_addresses);
	tcase_add_test(t, believes_systemd_only_about_its_own_process);
	suite_add_tcase(s, t);
	return suite_run(s);
}
