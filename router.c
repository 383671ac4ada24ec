/* SPDX-License-Identifier: Apache-2.0 */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "budget.h"
#include "buf.h"
#include "config.h"
#include "error.h"
#include "file.h"
#include "mono.h"
#include "router.h"

enum {
	TOKEN_MS = 60 * 1000,
	PATIENCE_MS = 25 * 1000	/* a failure after this long was a limit */
};

static void
wipe(char **text)
{
	if (*text != NULL)
		explicit_bzero(*text, strlen(*text));
	free(*text);
	*text = NULL;
}

void
router_close(struct router *r)
{
	if (r == NULL)
		return;
	for (size_t i = 0; i < 3; i++)
		wipe(&r->pem[i]);
	wipe(&r->token);
	free(r);
}

static int
read_token(struct router *r, struct error *err)
{
	char *token;
	size_t len;

	token = file_read(NULL, r->config->router_token, &len, err);
	if (token == NULL)
		return error_wrap(err, "the router's token");
	token[strcspn(token, " \t\r\n")] = '\0';
	wipe(&r->token);
	r->token = token;
	r->token_read = mono_ms();
	if (token[0] == '\0')
		return error_set(err, ERR_CONFIG, "the router's token: %s is "
		    "empty", r->config->router_token);
	return 0;
}

static int
read_files(struct router *r, struct error *err)
{
	const struct config *c = r->config;
	const char *paths[3] = { c->router_ca, c->router_cert, c->router_key };
	size_t len;

	for (size_t i = 0; i < 3; i++)
		if (paths[i] != NULL && (r->pem[i] = file_read(NULL, paths[i],
		    &len, err)) == NULL)
			return error_wrap(err, "the router's certificates");
	if (r->pem[0] == NULL)
		r->pem[0] = file_public_ca();
	r->tls = (struct web_tls){ .ca = r->pem[0], .cert = r->pem[1],
	    .key = r->pem[2] };
	return c->router_token != NULL ? read_token(r, err) : 0;
}

/* The host of the API_URL, which config.c has checked, into r->resolve. */
static int
pin(struct router *r, struct error *err)
{
	const char *host = strstr(r->url, "://") + 3;
	const char *port = strncmp(r->url, "https", 5) == 0 ? "443" : "80";
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
	char name[256], address[64], number[8];
	size_t n = strcspn(host, ":/");
	int code;

	if (host[0] == '[')
		return 0;
	(void)snprintf(name, sizeof(name), "%.*s", (int)n, host);
	if (host[n] == ':') {
		(void)snprintf(number, sizeof(number), "%.*s",
		    (int)strcspn(host + n + 1, "/"), host + n + 1);
		port = number;
	}
	if ((code = getaddrinfo(name, port, &hints, &list)) != 0)
		return error_set(err, ERR_CONFIG, "API_URL: %s can't be "
		    "resolved: %s", name, gai_strerror(code));
	code = getnameinfo(list->ai_addr, list->ai_addrlen, address,
	    sizeof(address), NULL, 0, NI_NUMERICHOST);
	freeaddrinfo(list);
	if (code != 0)
		return error_set(err, ERR_CONFIG, "API_URL: %s has no address",
		    name);
	(void)snprintf(r->resolve, sizeof(r->resolve), "%s:%s:%s%s%s", name,
	    port, strchr(address, ':') != NULL ? "[" : "", address,
	    strchr(address, ':') != NULL ? "]" : "");
	return 0;
}

struct router *
router_open(const struct config *c, struct error *err)
{
	struct router *r = calloc(1, sizeof(*r));
	size_t len;
	int ret = -1;

	if (r == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	r->config = c;
	ret = read_files(r, err);
	if (ret == 0 && c->route == CONNECTION_DIRECT) {
		len = strlen(c->api_url);
		while (c->api_url[len - 1] == '/')
			len--;
		if (len >= sizeof(r->url))
			ret = error_set(err, ERR_CONFIG, "API_URL is longer "
			    "than %zu bytes", sizeof(r->url) - 1);
		(void)snprintf(r->url, sizeof(r->url), "%.*s", (int)len,
		    c->api_url);
		if (ret == 0)
			ret = pin(r, err);
	}
	if (ret == 0)
		return r;
	router_close(r);
	return NULL;
}

void
router_set(struct router *r, const char *host, const char *address)
{
	const struct config *c = r->config;
	bool six = strchr(host, ':') != NULL;
	long port = c->gateway_port;

	if (port == 0)
		port = strcmp(c->gateway_scheme, "https") == 0 ? 443 : 80;
	(void)snprintf(r->url, sizeof(r->url), "%s://%s%.253s%s:%ld",
	    c->gateway_scheme, six ? "[" : "", host, six ? "]" : "", port);
	six = strchr(address, ':') != NULL;
	r->resolve[0] = '\0';
	if (strcmp(host, address) != 0)
		(void)snprintf(r->resolve, sizeof(r->resolve),
		    "%.253s:%ld:%s%.48s%s", host, port, six ? "[" : "",
		    address, six ? "]" : "");
}

int
router_token(struct router *r, struct buf *out, struct error *err)
{
	struct error ignored;

	if (r->config->router_token == NULL)
		return 0;
	/* While it is being replaced, the old one may still do. */
	if (mono_ms() - r->token_read > TOKEN_MS &&
	    read_token(r, &ignored) == -1 && r->token == NULL) {
		*err = ignored;
		return -1;
	}
	buf_printf(out, "Authorization: Bearer %s", r->token);
	return 0;
}

bool
router_explain(long status, const char *detail, long waited_ms,
    struct error *err)
{
	long s = waited_ms / 1000;
	bool connect = strncmp(detail, "Could not connect to the backend", 32)
	    == 0;

	if (status == 502 && connect && waited_ms >= PATIENCE_MS)
		error_set(err, ERR_LOST, "the router gave up after %ld s "
		    "(502): an answer must begin within its own time limit (30 "
		    "s unless set, --response-header-timeout). It may have "
		    "run, or still run: raise that limit, or use a connection "
		    "type without a router", s);
	else if (status == 504)
		error_set(err, ERR_LOST, "the router gave up after %ld s "
		    "(504%s%.120s): its own time limit (180 s unless set, "
		    "PROXY_TIMEOUT_SECONDS) is shorter. It may have run, or "
		    "still run: raise that limit, or use a connection type "
		    "without a router", s, detail[0] != '\0' ? ": " : "",
		    detail);
	else if (status == 502 || status == 503)
		error_set(err, ERR_LOST, "the router can't reach the sandbox "
		    "(%ld%s%.160s): it may have run all the same. Is the pod "
		    "alive, does a NetworkPolicy let the router in, is the "
		    "port right?", status, detail[0] != '\0' ? ": " : "",
		    detail);
	else if (status == 401 || (status == 403 &&
	    strncmp(detail, "forbidden", 9) == 0))
		error_set(err, ERR_DENIED, "the router refuses us (%ld: "
		    "%.160s): set MCP_SANDBOX_ROUTER_TOKEN to the file of a "
		    "token it takes", status, detail);
	else if (status == 500 && strstr(detail, "in the proxy") != NULL)
		error_set(err, ERR_LOST, "the router failed (500: %.160s): it "
		    "may have run all the same", detail);
	else
		return false;
	return true;
}
