/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "error.h"
#include "webfail.h"

/* mbedtls/ssl.h, pk.h and net_sockets.h; negative there. */
enum {
	NET_CONN_RESET = 0x0050, PK_UNKNOWN_ALG = 0x3c80,
	PK_PASSWORD_REQUIRED = 0x3c00, SSL_BAD_VERSION = 0x6e80,
	SSL_BAD_RECORD = 0x7200, SSL_CONN_EOF = 0x7280,
	SSL_NO_CA = 0x7680, SSL_ALERT = 0x7780
};

/* The number in "... (-0x7780) SSL - A fatal alert ...", 0 without one. */
static long
number(const char *words)
{
	const char *at = strstr(words, "(-0x");

	return at != NULL ? strtol(at + 4, NULL, 16) : 0;
}

/* "" or " of host:port" */
static const char *
whose(const struct webfail *f, const char *preposition, char *dst, size_t size)
{
	dst[0] = '\0';
	if (f->where != NULL)
		(void)snprintf(dst, size, " %s %s", preposition, f->where);
	return dst;
}

static void
explain_certificate(const struct webfail *f, struct error *err)
{
	char of[300];

	whose(f, "of", of, sizeof(of));
	/* The first words are of the first certificate that failed, and the
	 * chain is looked at from its root: an authority goes first here, too.
	 */
	if (!f->ca)
		error_set(err, ERR_TLS, "the certificate%s can't be verified: "
		    "no certificate authority is configured", of);
	else if (strstr(f->words, "not correctly signed") != NULL)
		error_set(err, ERR_TLS, "the certificate%s is signed by an "
		    "unknown authority, not by the configured one", of);
	else if (strstr(f->words, "has expired") != NULL)
		error_set(err, ERR_TLS, "the certificate%s has expired (or "
		    "the clock here is wrong)", of);
	else if (strstr(f->words, "starts in the future") != NULL)
		error_set(err, ERR_TLS, "the certificate%s is not yet valid "
		    "(or the clock here is wrong)", of);
	else if (strstr(f->words, "expected CN") != NULL)
		error_set(err, ERR_TLS, "the certificate%s does not name %s; "
		    "tls-server-name sets another name to ask for", of,
		    f->name);
	else
		error_set(err, ERR_TLS, "the certificate%s was not accepted: "
		    "%s", of, f->words);
}

static void
explain_credentials(const struct webfail *f, struct error *err)
{
	long n = number(f->words);

	if (strstr(f->words, "ca cert") != NULL)
		error_set(err, ERR_CONFIG, "the certificate authority can't "
		    "be read: it is not a PEM certificate we know");
	else if (strstr(f->words, "client cert") != NULL)
		error_set(err, ERR_CONFIG, "the client certificate can't be "
		    "read: it is not a PEM certificate we know");
	else if (f->key != NULL && (n == PK_PASSWORD_REQUIRED ||
	    strstr(f->key, "ENCRYPTED") != NULL))
		error_set(err, ERR_CONFIG, "the client key is encrypted: "
		    "give one without a password");
	else if (n == PK_UNKNOWN_ALG)
		error_set(err, ERR_CONFIG, "the client key is of a kind that "
		    "is not supported; RSA and EC keys are");
	else
		error_set(err, ERR_CONFIG, "the client key can't be used: "
		    "it must be an RSA or EC key in PEM");
}

/* An alert does not say over which message it came. */
static void
explain_alert(const struct webfail *f, struct error *err, bool handshake)
{
	char who[300];

	if (f->where != NULL)
		(void)snprintf(who, sizeof(who), "%s", f->where);
	else
		(void)snprintf(who, sizeof(who), "the server");
	if (f->key != NULL)
		error_set(err, ERR_TLS, "%s refused our client certificate%s",
		    who, handshake ? ", or has no TLS version and cipher in "
		    "common with us" : "");
	else
		error_set(err, ERR_TLS, "%s %s", who, handshake ?
		    "refused the TLS handshake: it wants a client "
		    "certificate, or has no TLS version and cipher in common "
		    "with us" : "wants a client certificate");
}

static void
explain_handshake(const struct webfail *f, struct error *err)
{
	char with[300];

	whose(f, "with", with, sizeof(with));
	switch (number(f->words)) {
	case SSL_ALERT:
		explain_alert(f, err, true);
		break;
	case SSL_NO_CA:
		explain_certificate(f, err);
		break;
	case SSL_BAD_VERSION:
		error_set(err, ERR_TLS, "no TLS version in common%s; 1.2 and "
		    "1.3 are supported", with);
		break;
	case SSL_BAD_RECORD:
		error_set(err, ERR_TLS, "the answer%s is not TLS",
		    whose(f, "of", with, sizeof(with)));
		break;
	case NET_CONN_RESET:
	case SSL_CONN_EOF:
	case 0:
		error_set(err, ERR_LOST, "the connection%s ended during the "
		    "TLS handshake%s", with, f->key != NULL ? "; some servers "
		    "do so to refuse a client certificate" : "");
		break;
	default:
		error_set(err, ERR_TLS, "the TLS handshake%s failed: %s", with,
		    f->words);
	}
}

static void
explain_connect(const struct webfail *f, struct error *err)
{
	char to[300];

	whose(f, "to", to, sizeof(to));
	if (f->proxy != 0)
		error_set(err, ERR_LOST, "can't connect%s: the proxy answered "
		    "%ld", to, f->proxy);
	else if (f->os != 0)
		error_set(err, ERR_LOST, "can't connect%s: %s", to,
		    strerror((int)f->os));
	else
		error_set(err, ERR_LOST, "can't connect%s", to);
}

static void
explain_other(const struct webfail *f, struct error *err)
{
	char of[300];

	whose(f, "of", of, sizeof(of));
	switch (f->code) {
	case CURLE_OUT_OF_MEMORY:
		error_set(err, ERR_SYSTEM, "out of memory");
		break;
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_UNSUPPORTED_PROTOCOL:
		error_set(err, ERR_CLUSTER, "the answer%s is not HTTP", of);
		break;
	case CURLE_TOO_LARGE:
		error_set(err, ERR_LIMIT, "the answer%s has too long header "
		    "fields", of);
		break;
	case CURLE_PARTIAL_FILE:
		error_set(err, ERR_LOST, "the connection ended in the middle "
		    "of the answer%s", of);
		break;
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_ABORTED_BY_CALLBACK:	/* web.c, for a second try */
	case CURLE_HTTP2:
	case CURLE_HTTP2_STREAM:
		error_set(err, ERR_LOST, "the connection ended before the "
		    "answer%s was whole", of);
		break;
	default:
		error_set(err, ERR_LOST, "%s",
		    curl_easy_strerror((CURLcode)f->code));
	}
}

void
webfail_explain(const struct webfail *f, struct error *err)
{
	char to[300];

	switch (f->code) {
	case CURLE_COULDNT_RESOLVE_HOST:
		error_set(err, ERR_LOST, "the server's name%s can't be "
		    "resolved", whose(f, "in", to,
		    sizeof(to)));
		break;
	case CURLE_COULDNT_RESOLVE_PROXY:
		error_set(err, ERR_LOST, "the name of the proxy can't be "
		    "resolved");
		break;
	case CURLE_COULDNT_CONNECT:
	case CURLE_PROXY:
		explain_connect(f, err);
		break;
	case CURLE_OPERATION_TIMEDOUT:
		error_set(err, ERR_TIMEOUT, "no connection%s within %ld s",
		    whose(f, "to", to, sizeof(to)),
		    (f->connect_ms + 999) / 1000);
		break;
	case CURLE_PEER_FAILED_VERIFICATION:
		explain_certificate(f, err);
		break;
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CACERT_BADFILE:
		explain_credentials(f, err);
		break;
	case CURLE_SSL_CONNECT_ERROR:
		explain_handshake(f, err);
		break;
	default:
		/* With TLS 1.3 the server looks at our certificate only after
		 * the handshake is over for us. */
		if (number(f->words) == SSL_ALERT)
			explain_alert(f, err, false);
		else
			explain_other(f, err);
	}
}
