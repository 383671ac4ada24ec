/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../error.h"
#include "../webfail.h"
#include "suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define WHERE "api.test:6443"
#define ALERT "(-0x7780) SSL - A fatal alert message was received"

/* The words are those of curl 8.14.1 on mbedTLS 3.6.7. */
static const struct {
	struct webfail fail;
	enum error_code code;
	const char *text;
} cases[] = {
	{ { CURLE_SSL_CERTPROBLEM, "Error parsing private key - mbedTLS: "
	    "(-0x3C00) PK - Private key password can't be empty", WHERE,
	    .key = "-----BEGIN ENCRYPTED PRIVATE KEY-----" }, ERR_CONFIG,
	    "the client key is encrypted: give one without a password" },
	{ { CURLE_SSL_CERTPROBLEM, "Error parsing private key - mbedTLS: "
	    "(-0x3D00) PK - Invalid key tag or value", WHERE,
	    .key = "Proc-Type: 4,ENCRYPTED" }, ERR_CONFIG,
	    "the client key is encrypted: give one without a password" },
	{ { CURLE_SSL_CERTPROBLEM, "Error parsing private key - mbedTLS: "
	    "(-0x3C80) PK - Key algorithm is unsupported", WHERE, .key = "" },
	    ERR_CONFIG, "the client key is of a kind that is not supported; "
	    "RSA and EC keys are" },
	{ { CURLE_SSL_CERTPROBLEM, "Error parsing private key - mbedTLS: "
	    "(-0x3D00) PK - Invalid key tag or value", WHERE, .key = "" },
	    ERR_CONFIG, "the client key can't be used: it must be an RSA or "
	    "EC key in PEM" },
	{ { CURLE_SSL_CERTPROBLEM, "Error reading client cert data (nil) - "
	    "mbedTLS: (-0x2180) X509 - The CRT/CRL/CSR format is invalid",
	    WHERE }, ERR_CONFIG, "the client certificate can't be read: it is "
	    "not a PEM certificate we know" },
	{ { CURLE_SSL_CERTPROBLEM, "Error importing ca cert blob - mbedTLS: "
	    "(-0x2180) X509 - The CRT/CRL/CSR format is invalid", WHERE },
	    ERR_CONFIG, "the certificate authority can't be read: it is not a "
	    "PEM certificate we know" },
	{ { CURLE_PEER_FAILED_VERIFICATION, "mbedTLS: The certificate is not "
	    "correctly signed by the trusted CA", WHERE, .ca = true },
	    ERR_TLS, "the certificate of " WHERE " is signed by an unknown "
	    "authority, not by the configured one" },
	{ { CURLE_PEER_FAILED_VERIFICATION, "mbedTLS: The certificate Common "
	    "Name (CN) does not match with the expected CN", WHERE, "x.test",
	    .ca = true }, ERR_TLS, "the certificate of " WHERE " does not "
	    "name x.test; tls-server-name sets another name to ask for" },
	{ { CURLE_PEER_FAILED_VERIFICATION, "mbedTLS: odd", .ca = true },
	    ERR_TLS, "the certificate was not accepted: mbedTLS: odd" },
	{ { CURLE_SSL_CONNECT_ERROR, "ssl_handshake returned: " ALERT, WHERE,
	    .key = "" }, ERR_TLS, WHERE " refused our client certificate, or "
	    "has no TLS version and cipher in common with us" },
	{ { CURLE_RECV_ERROR, "ssl_read returned: " ALERT, WHERE, .key = "" },
	    ERR_TLS, WHERE " refused our client certificate" },
	{ { CURLE_RECV_ERROR, "ssl_read returned: " ALERT, WHERE }, ERR_TLS,
	    WHERE " wants a client certificate" },
	{ { CURLE_SSL_CONNECT_ERROR, "ssl_handshake returned: (-0x6E80) SSL - "
	    "Handshake protocol not within min/max boundaries", WHERE },
	    ERR_TLS, "no TLS version in common with " WHERE "; 1.2 and 1.3 "
	    "are supported" },
	{ { CURLE_SSL_CONNECT_ERROR, "ssl_handshake returned: (-0x7280) SSL - "
	    "The connection indicated an EOF", WHERE }, ERR_LOST,
	    "the connection with " WHERE " ended during the TLS handshake" },
	{ { CURLE_SSL_CONNECT_ERROR, "ssl_handshake returned: (-0x7200) SSL - "
	    "An invalid SSL record was received", WHERE }, ERR_TLS,
	    "the answer of " WHERE " is not TLS" },
	{ { CURLE_COULDNT_CONNECT, "Failed to connect to 10.1.2.3 port 8080",
	    .os = ECONNREFUSED }, ERR_LOST,
	    "can't connect: Connection refused" },
	{ { CURLE_COULDNT_CONNECT, "CONNECT tunnel failed, response 407",
	    WHERE, .proxy = 407 }, ERR_LOST, "can't connect to " WHERE
	    ": the proxy answered 407" },
	{ { CURLE_COULDNT_RESOLVE_HOST, "", WHERE }, ERR_LOST,
	    "the server's name in " WHERE " can't be resolved" },
	{ { CURLE_OPERATION_TIMEDOUT, "Connection timed out", WHERE,
	    .connect_ms = 10000 }, ERR_TIMEOUT, "no connection to " WHERE
	    " within 10 s" },
	{ { CURLE_OUT_OF_MEMORY, "" }, ERR_SYSTEM, "out of memory" },
};

START_TEST(says_what_libcurl_means)
{
	struct error err = { 0 };

	webfail_explain(&cases[_i].fail, &err);
	ck_assert_str_eq(err.text, cases[_i].text);
	ck_assert_int_eq(err.code, cases[_i].code);
}
END_TEST

/* Whatever it is, there are words, and none of libcurl's with an address. */
START_TEST(always_has_words_and_no_address)
{
	struct webfail fail = { _i, "to 10.1.2.3 port 80" };
	struct error err = { 0 };

	webfail_explain(&fail, &err);
	ck_assert_int_ne(err.code, ERR_NONE);
	ck_assert_str_ne(err.text, "");
	if (_i != CURLE_PEER_FAILED_VERIFICATION)
		ck_assert_ptr_null(strstr(err.text, "10.1.2.3"));
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("webfail");
	TCase *t = tcase_create("webfail");

	tcase_add_loop_test(t, says_what_libcurl_means, 0, COUNT(cases));
	tcase_add_loop_test(t, always_has_words_and_no_address, 1, CURL_LAST);
	suite_add_tcase(s, t);
	return suite_run(s);
}
