/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of a kubeconfig fails in turn: an error, no crash. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../error.h"
#include "../kubeconfig.h"
#include "suite.h"

/* Sanitizers have a malloc of their own; there is nothing to test then. */
#if defined(__SANITIZE_ADDRESS__)
#define ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASAN 1
#endif
#endif

static const char with_plugin[] =
    "current-context: c\n"
    "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
    "clusters: [{name: k, cluster: {server: 'https://h', "
    "certificate-authority: ca, extensions: [{name: "
    "client.authentication.k8s.io/exec, extension: {a: [b]}}]}}]\n"
    "users: [{name: u, user: {exec: {apiVersion: "
    "client.authentication.k8s.io/v1, command: a/b, args: [c, d], env: "
    "[{name: e, value: f}], installHint: g, provideClusterInfo: true}}}]\n";
static const char text[] =
    "current-context: c\n"
    "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
    "clusters: [{name: k, cluster: {server: 'https://h', proxy-url: "
    "'http://p', tls-server-name: n, certificate-authority: ca}}]\n"
    "users: [{name: u, user: {client-certificate: ca, client-key-data: "
    "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JSUJJakFOQmdrcWhraUc5dzBCQVFF"
    "RkFBT0NBUThBTUlJQkNnS0NBUUVBCi0tLS0tRU5EIFBSSVZBVEUgS0VZLS0tLS0K, "
    "tokenFile: t, as: a, as-groups: [b], as-user-extra: {c: [d]}}}]\n";

static long left = -1;		/* allocations that succeed; -1: all */

#ifndef ASAN
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void __libc_free(void *p);

static int
fails(void)
{
	if (left == -1)
		return 0;
	if (left != 0) {
		left--;
		return 0;
	}
	errno = ENOMEM;
	return 1;
}

void *
malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

void *
calloc(size_t n, size_t size)
{
	return fails() ? NULL : __libc_calloc(n, size);
}

void *
realloc(void *p, size_t size)
{
	return fails() ? NULL : __libc_realloc(p, size);
}

void
free(void *p)
{
	__libc_free(p);
}
#endif

static char *
read_file(void *arg, const char *path, size_t *len, struct error *err)
{
	static const char cert[] = "-----BEGIN CERTIFICATE-----\n"
	    "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n"
	    "-----END CERTIFICATE-----\n";
	char *s = strdup(strcmp(path, "/k/t") == 0 ? "token" : cert);

	(void)arg;
	if (s == NULL)
		error_sys(err, path);
	else
		*len = strlen(s);
	return s;
}

static int
parse_with(const char *s, long n, struct error *err)
{
	struct kubeconfig kc;
	int r;

	left = n;
	r = kubeconfig_parse(&kc, "/k/config", s, strlen(s), NULL,
	    read_file, NULL, err);
	left = -1;
	if (r == 0)
		kubeconfig_free(&kc);
	return r;
}

/* Valgrind puts its malloc in the place of ours. */
static int
is_ours(void)
{
	void *volatile p;

	left = 0;
	p = malloc(1);
	left = -1;
	free(p);
	return p == NULL;
}

START_TEST(each_failed_allocation_is_an_error)
{
	const char *s = _i == 0 ? text : with_plugin;
	struct error err = { 0 };
	long n;

	ck_assert_msg(parse_with(s, -1, &err) == 0, "%s", err.text);
	if (!is_ours())
		return;
	for (n = 0; n < 100000; n++) {
		err = (struct error){ 0 };
		if (parse_with(s, n, &err) == 0)
			break;
		ck_assert_msg(err.code != ERR_NONE && err.text[0] != '\0',
		    "allocation %ld: no error", n);
	}
	ck_assert_int_lt(n, 100000);
	ck_assert_int_gt(n, 30);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("kubeconfig without memory");
	TCase *tc = tcase_create("memory");

	tcase_add_loop_test(tc, each_failed_allocation_is_an_error, 0, 2);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
