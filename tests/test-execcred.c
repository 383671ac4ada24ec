/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "../budget.h"
#include "../error.h"
#include "../execcred.h"
#include "suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define V1	"client.authentication.k8s.io/v1"
#define HEAD	"{\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1 "\","	\
		"\"spec\":{},\"status\":"
#define DER64	"MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA"
#define CERT	"-----BEGIN CERTIFICATE-----\\n" DER64			\
		"\\n-----END CERTIFICATE-----\\n"
#define KEY	"-----BEGIN PRIVATE KEY-----\\n" DER64			\
		"\\n-----END PRIVATE KEY-----\\n"

static int
parse(struct execcred *c, const char *text, struct error *err)
{
	return execcred_parse(c, text, strlen(text), V1, err);
}

START_TEST(takes_a_token_and_its_end)
{
	static const char text[] = HEAD "{\"token\":\"t0\","
	    "\"expirationTimestamp\":\"2026-11-30T21:00:00Z\"}}\n";
	struct execcred c;
	struct error err = { 0 };

	ck_assert_msg(parse(&c, text, &err) == 0, "%s", err.text);
	ck_assert_str_eq(c.token, "t0");
	ck_assert_int_eq(c.expires, 1796072400);
	ck_assert_ptr_null(c.cert);
	execcred_free(&c);
	ck_assert_ptr_null(c.token);
}
END_TEST

START_TEST(takes_a_certificate)
{
	static const char text[] = HEAD "{\"clientCertificateData\":\"" CERT
	    "\",\"clientKeyData\":\"" KEY "\",\"token\":\"\","
	    "\"expirationTimestamp\":null}}";
	struct execcred c;
	struct error err = { 0 };

	ck_assert_msg(parse(&c, text, &err) == 0, "%s", err.text);
	ck_assert_ptr_null(c.token);
	ck_assert_ptr_nonnull(strstr(c.cert, "BEGIN CERTIFICATE"));
	ck_assert_ptr_nonnull(strstr(c.key, "BEGIN PRIVATE KEY"));
	ck_assert_int_eq(c.expires, 0);
	execcred_free(&c);
}
END_TEST

static const struct {
	const char *text, *says;
} bad[] = {
	{ "", "not JSON" }, { "s3cret", "not JSON" }, { "[]", "no ExecCred" },
	{ "{\"kind\":\"ExecCredential\"}", "it printed none" },
	{ "{\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1 "beta1\"}",
	    "it printed " V1 "beta1" },
	{ HEAD "null}", "neither a token nor" }, { HEAD "[]}", "neither" },
	{ HEAD "{\"token\":7}}", "status.token is no text" },
	{ HEAD "{\"token\":\"s3cret\\u0000\"}}", "status.token is no text" },
	{ HEAD "{\"token\":\"s3cret\\r\\nX: y\"}}", "status.token: a token" },
	{ HEAD "{\"token\":\"t\",\"clientKeyData\":\"" KEY "\"}}",
	    "belong together" },
	{ HEAD "{\"token\":\"t\",\"clientCertificateData\":\"" CERT "\"}}",
	    "belong together" },
	{ HEAD "{\"clientCertificateData\":\"s3cret\",\"clientKeyData\":\"" KEY
	    "\"}}", "status.clientCertificateData: no PEM" },
	{ HEAD "{\"clientCertificateData\":\"" CERT "\",\"clientKeyData\":\""
	    CERT "\"}}", "status.clientKeyData: no PEM private" },
	{ HEAD "{\"token\":\"t\",\"expirationTimestamp\":\"soon\"}}",
	    "no time of RFC 3339" },
	{ HEAD "{\"token\":\"t\",\"expirationTimestamp\":1}}", "is no text" },
};

START_TEST(says_what_is_wrong_and_quotes_nothing)
{
	struct execcred c;
	struct error err = { 0 };

	ck_assert_int_eq(parse(&c, bad[_i].text, &err), -1);
	ck_assert_int_eq(err.code, ERR_CONFIG);
	ck_assert_msg(strstr(err.text, bad[_i].says) != NULL,
	    "wanted \"%s\" in: %s", bad[_i].says, err.text);
	ck_assert_ptr_null(strstr(err.text, "s3cret"));
	ck_assert_ptr_null(c.token);
	ck_assert_ptr_null(c.key);
}
END_TEST

START_TEST(each_beginning_of_it_is_refused)
{
	static const char text[] = HEAD "{\"token\":\"t\"}}";
	struct execcred c;
	struct error err;
	size_t n;

	for (n = 0; n < sizeof(text) - 1; n++) {
		ck_assert_int_eq(execcred_parse(&c, text, n, V1, &err), -1);
		ck_assert_int_eq(err.code, ERR_CONFIG);
	}
}
END_TEST

static const struct {
	const char *text;
	long long seconds;
} times[] = {
	{ "1970-01-01T00:00:01Z", 1 },
	{ "1970-01-01t00:00:01.999999999z", 1 },
	{ "1970-01-01T02:00:01+02:00", 1 },
	{ "1969-12-31T23:30:00-00:30", -1 },
	{ "1970-01-01T00:00:00-00:30", 1800 },
	{ "2024-02-29T12:00:00Z", 1709208000 },
	{ "", -1 }, { "2024-02-29", -1 }, { "2024-02-29T12:00Z", -1 },
	{ "2024-02-29T12:00:00", -1 }, { "2024-02-29T12:00:00+0200", -1 },
	{ "2024-02-29T12:00:00Zx", -1 }, { "2024-13-01T00:00:00Z", -1 },
	{ "2024-01-32T00:00:00Z", -1 }, { "2024-01-01T24:00:00Z", -1 },
	{ "2024-01-01T00:60:00Z", -1 }, { "2024-01-01T00:00:00+24:00", -1 },
	{ "x024-01-01T00:00:00Z", -1 },
};

START_TEST(reads_times_with_any_offset)
{
	ck_assert_int_eq(execcred_time(times[_i].text), times[_i].seconds);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("execcred");
	TCase *t = tcase_create("execcred");

	tcase_add_test(t, takes_a_token_and_its_end);
	tcase_add_test(t, takes_a_certificate);
	tcase_add_loop_test(t, says_what_is_wrong_and_quotes_nothing, 0,
	    COUNT(bad));
	tcase_add_test(t, each_beginning_of_it_is_refused);
	tcase_add_loop_test(t, reads_times_with_any_offset, 0, COUNT(times));
	suite_add_tcase(s, t);
	return suite_run(s);
}
