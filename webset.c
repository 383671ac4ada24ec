/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>

#include "budget.h"
#include "error.h"
#include "web.h"
#include "webset.h"

enum {
	KEPT_S = 30,		/* shorter than a load balancer's patience */
	READ_SIZE = 64 * 1024
};

/* A line break in it would begin another header field or request. */
static bool
is_line(const char *s)
{
	for (; *s != '\0'; s++)
		if (((unsigned char)*s < ' ' && *s != '\t') || *s == 0x7f)
			return false;
	return true;
}

static bool
is_method(const char *s)
{
	size_t len = strlen(s);

	return len > 0 && len < 16 &&
	    strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == len;
}

static bool
push(struct curl_slist **list, const char *line)
{
	struct curl_slist *longer = curl_slist_append(*list, line);

	if (longer == NULL)
		return false;
	*list = longer;
	return true;
}

/* Is there such a field among the caller's? name ends with ':'. */
static bool
has_header(const struct web_req *req, const char *name)
{
	const char *const *h;

	for (h = req->headers; h != NULL && *h != NULL; h++)
		if (strncasecmp(*h, name, strlen(name)) == 0)
			return true;
	return false;
}

static int
set_headers(struct webset *s, const struct web_req *req, struct error *err)
{
	const char *const *h;

	for (h = req->headers; h != NULL && *h != NULL; h++) {
		if (!is_line(*h) || strchr(*h, ':') == NULL)
			return error_set(err, ERR_INPUT,
			    "a header field has a character it must not have");
		if (!push(&s->headers, *h))
			return error_set(err, ERR_SYSTEM, "out of memory");
	}
	/* Those that libcurl would add on its own. */
	if (!push(&s->headers, "Expect:") ||
	    (!has_header(req, "Content-Type:") &&
	    !push(&s->headers, "Content-Type:")))
		return error_set(err, ERR_SYSTEM, "out of memory");
	return 0;
}

/*
 * The name to ask for and to verify is the URL's host, so another name goes
 * into the URL, and the connection to the real host is mapped back.
 */
static int
set_name(struct webset *s, CURLU *url, const char *name, struct error *err)
{
	char *host = NULL, *port = NULL, *as = NULL, line[600];
	int r = -1;

	if (curl_url_get(url, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
	    curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) !=
	    CURLUE_OK)
		goto out;
	(void)snprintf(line, sizeof(line), "::%s:%s", host, port);
	if (!push(&s->connect_to, line))
		goto out;
	(void)snprintf(line, sizeof(line), "Host: %s:%s", host, port);
	if (!push(&s->headers, line) ||
	    curl_url_set(url, CURLUPART_HOST, name, 0) != CURLUE_OK ||
	    curl_url_get(url, CURLUPART_URL, &as, 0) != CURLUE_OK ||
	    curl_easy_setopt(s->easy, CURLOPT_URL, as) != CURLE_OK)
		goto out;
	curl_easy_setopt(s->easy, CURLOPT_CONNECT_TO, s->connect_to);
	r = 0;
out:
	curl_free(host);
	curl_free(port);
	curl_free(as);
	return r == 0 ? 0 : error_set(err, ERR_CONFIG,
	    "tls-server-name: not a name: %s", name);
}

static int
set_host(struct webset *s, CURLU *url)
{
	char *scheme = NULL, *host = NULL, *port = NULL;
	int r = -1;

	if (curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
	    curl_url_get(url, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
	    curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) !=
	    CURLUE_OK)
		goto out;
	s->secure = strcmp(scheme, "https") == 0;
	s->host = strdup(host);
	if (asprintf(&s->where, "%s:%s", host, port) == -1)
		s->where = NULL;
	if (s->host != NULL && s->where != NULL)
		r = 0;
out:
	curl_free(scheme);
	curl_free(host);
	curl_free(port);
	return r;
}

static int
set_url(struct webset *s, const struct web_req *req, struct error *err)
{
	CURLU *url = curl_url();
	int r;

	if (url == NULL)
		return error_set(err, ERR_SYSTEM, "out of memory");
	if (!is_line(req->url) ||
	    curl_url_set(url, CURLUPART_URL, req->url, CURLU_PATH_AS_IS) !=
	    CURLUE_OK || set_host(s, url) == -1 ||
	    curl_easy_setopt(s->easy, CURLOPT_URL, req->url) != CURLE_OK)
		r = error_set(err, ERR_INPUT, "not a URL we can use");
	else if (s->secure && req->tls != NULL && req->tls->name != NULL &&
	    strcasecmp(req->tls->name, s->host) != 0)
		r = set_name(s, url, req->tls->name, err);
	else
		r = 0;
	curl_url_cleanup(url);
	return r;
}

static CURLcode
set_blob(CURL *easy, CURLoption option, const char *pem, size_t extra,
    bool copied)
{
	struct curl_blob blob = { .len = strlen(pem) + extra,
	    .flags = copied ? CURL_BLOB_COPY : CURL_BLOB_NOCOPY };

	/* libcurl does not write to it; its type says otherwise. */
	memcpy(&blob.data, &pem, sizeof(pem));
	return curl_easy_setopt(easy, option, &blob);
}

/* Every option in one chain: the first failure is kept. */
#define SET(option, value)						\
	(code = code != CURLE_OK ? code :				\
	    curl_easy_setopt(s->easy, (option), (value)))

/* Who is in between is no part of the cluster: its authority, name and client
 * certificate are not for the proxy. */
static CURLcode
set_proxy_tls(struct webset *s, const struct web_req *req)
{
	CURLcode code = CURLE_OK;

	SET(CURLOPT_PROXY_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	SET(CURLOPT_PROXY_SSL_VERIFYPEER, 1L);
	SET(CURLOPT_PROXY_SSL_VERIFYHOST, 2L);
	(void)curl_easy_setopt(s->easy, CURLOPT_PROXY_CAINFO, NULL);
	(void)curl_easy_setopt(s->easy, CURLOPT_PROXY_CAPATH, NULL);
	if (code == CURLE_OK && req->proxy_ca != NULL)
		code = set_blob(s->easy, CURLOPT_PROXY_CAINFO_BLOB,
		    req->proxy_ca, 0, false);
	return code;
}

static CURLcode
set_tls(struct webset *s, const struct web_tls *tls)
{
	CURLcode code = CURLE_OK;
	bool verify = tls == NULL || !tls->insecure;

	SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	SET(CURLOPT_SSL_VERIFYPEER, verify ? 1L : 0L);
	SET(CURLOPT_SSL_VERIFYHOST, verify ? 2L : 0L);
	/* No authority but the one given, whatever libcurl was built with. */
	(void)curl_easy_setopt(s->easy, CURLOPT_CAINFO, NULL);
	(void)curl_easy_setopt(s->easy, CURLOPT_CAPATH, NULL);
	if (tls == NULL || code != CURLE_OK)
		return code;
	if (tls->ca != NULL && verify)
		code = set_blob(s->easy, CURLOPT_CAINFO_BLOB, tls->ca, 0,
		    false);
	if (code == CURLE_OK && tls->cert != NULL)
		code = set_blob(s->easy, CURLOPT_SSLCERT_BLOB, tls->cert, 0,
		    tls->copied);
	/* mbedTLS wants the key's NUL counted, and libcurl leaves it to us. */
	if (code == CURLE_OK && tls->key != NULL)
		code = set_blob(s->easy, CURLOPT_SSLKEY_BLOB, tls->key, 1,
		    tls->copied);
	return code;
}

static CURLcode
set_connection(struct webset *s, const struct web_req *req)
{
	CURLcode code = CURLE_OK;

	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
	SET(CURLOPT_PROXY, req->proxy != NULL ? req->proxy : "");
	SET(CURLOPT_NOPROXY, "");
	SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	SET(CURLOPT_HTTP_VERSION, req->http2 ?
	    (long)CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE :
	    (long)CURL_HTTP_VERSION_1_1);
	SET(CURLOPT_PIPEWAIT, req->http2 ? 1L : 0L);
	SET(CURLOPT_CONNECTTIMEOUT_MS, s->connect_ms);
	SET(CURLOPT_TCP_KEEPALIVE, 1L);
	SET(CURLOPT_TCP_KEEPIDLE, 30L);
	SET(CURLOPT_TCP_KEEPINTVL, 10L);
	SET(CURLOPT_TCP_KEEPCNT, 3L);
	SET(CURLOPT_MAXAGE_CONN, (long)KEPT_S);
	SET(CURLOPT_FRESH_CONNECT, req->fresh ? 1L : 0L);
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_PATH_AS_IS, 1L);
	SET(CURLOPT_ACCEPT_ENCODING, NULL);
	SET(CURLOPT_HTTPHEADER, s->headers);
	if (req->resolve != NULL && push(&s->resolve, req->resolve))
		SET(CURLOPT_RESOLVE, s->resolve);
	else if (req->resolve != NULL)
		code = CURLE_OUT_OF_MEMORY;
	if (code == CURLE_OK && s->secure)
		code = set_tls(s, req->tls);
	s->proxy_tls = req->proxy != NULL &&
	    strncmp(req->proxy, "https:", 6) == 0;
	s->proxy_ca = req->proxy_ca != NULL;
	if (code == CURLE_OK && s->proxy_tls)
		code = set_proxy_tls(s, req);
	return code;
}

static CURLcode
set_body(struct webset *s, const struct web_req *req)
{
	CURLcode code = CURLE_OK;

	if (req->give != NULL) {
		SET(CURLOPT_UPLOAD, 1L);
		SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t)req->give_length);
	} else if (req->body != NULL || strcmp(req->method, "POST") == 0) {
		SET(CURLOPT_POSTFIELDSIZE_LARGE, req->body != NULL ?
		    (curl_off_t)req->body_len : (curl_off_t)0);
		SET(CURLOPT_COPYPOSTFIELDS, req->body != NULL ? req->body :
		    "");
	} else if (strcmp(req->method, "HEAD") == 0)
		SET(CURLOPT_NOBODY, 1L);
	else
		SET(CURLOPT_HTTPGET, 1L);
	SET(CURLOPT_CUSTOMREQUEST, req->method);
	/* What may be long is read in large pieces. */
	if (req->stream)
		SET(CURLOPT_BUFFERSIZE, (long)READ_SIZE);
	return code;
}

static CURLcode
set_all(struct webset *s, const struct web_req *req, bool raw)
{
	CURLcode code = set_connection(s, req);

	if (!raw)
		return code != CURLE_OK ? code : set_body(s, req);
	SET(CURLOPT_CONNECT_ONLY, 1L);
	SET(CURLOPT_HTTPPROXYTUNNEL, req->proxy != NULL ? 1L : 0L);
	return code;
}

int
webset_open(struct webset *s, const struct web_req *req, bool raw,
    struct error *err)
{
	CURLcode code;

	*s = (struct webset){ .connect_ms = req->connect_ms > 0 ?
	    req->connect_ms : LIMIT_CONNECT_MS };
	if (!is_method(req->method))
		return error_set(err, ERR_INPUT, "not an HTTP method");
	if ((s->easy = curl_easy_init()) == NULL)
		return error_set(err, ERR_SYSTEM, "out of memory");
	if (set_headers(s, req, err) == -1 || set_url(s, req, err) == -1)
		return -1;
	if ((code = set_all(s, req, raw)) != CURLE_OK)
		return error_set(err, ERR_SYSTEM, "the request can't be set "
		    "up: %s", curl_easy_strerror(code));
	return 0;
}

/* Headers may hold a token. */
static void
wipe(struct curl_slist *list)
{
	struct curl_slist *at;

	for (at = list; at != NULL; at = at->next)
		explicit_bzero(at->data, strlen(at->data));
	curl_slist_free_all(list);
}

void
webset_free(struct webset *s)
{
	if (s->easy != NULL)
		curl_easy_cleanup(s->easy);
	wipe(s->headers);
	curl_slist_free_all(s->resolve);
	curl_slist_free_all(s->connect_to);
	free(s->where);
	free(s->host);
	*s = (struct webset){ 0 };
}
