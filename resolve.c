/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "address.h"
#include "buf.h"
#include "dns.h"
#include "error.h"
#include "loop.h"
#include "resolve.h"

enum { TRY_MS = 1500, ROUNDS = 2, PORT = 53 };

struct resolve {
	struct loop *loop;
	const struct resolvers *servers;
	char name[256];
	resolved *done;
	void *arg;
	struct loop_timer *timer;
	struct loop_fd *watch;
	int fd;
	int type;
	uint16_t id;
	size_t tries;
	bool refused;		/* an address came, but none to be used */
};

static int
add(struct resolvers *r, const char *address, long port)
{
	struct sockaddr_in *four = (void *)&r->server[r->n];
	struct sockaddr_in6 *six = (void *)&r->server[r->n];

	if (r->n == RESOLVE_SERVERS)
		return -1;
	r->server[r->n] = (struct sockaddr_storage){ 0 };
	if (inet_pton(AF_INET, address, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = htons((uint16_t)port);
	} else if (inet_pton(AF_INET6, address, &six->sin6_addr) == 1) {
		six->sin6_family = AF_INET6;
		six->sin6_port = htons((uint16_t)port);
	} else {
		return -1;
	}
	r->n++;
	return 0;
}

void
resolvers_read(struct resolvers *r, const char *text)
{
	while (*text != '\0') {
		size_t n = strcspn(text, "\n");
		char line[128], address[64];

		(void)snprintf(line, sizeof(line), "%.*s", (int)n, text);
		if (n < sizeof(line) &&
		    sscanf(line, " nameserver %63s", address) == 1)
			(void)add(r, address, PORT);
		text += n + (text[n] == '\n');
	}
}

int
resolvers_set(struct resolvers *r, const char *server, struct error *err)
{
	char host[64] = "";
	const char *rest = server;
	size_t n = strcspn(server, server[0] == '[' ? "]" : ":");
	long port = PORT;
	char *end;

	/* An IPv6 address needs brackets only when a port follows. */
	if (server[0] != '[' && server[n] == ':' &&
	    strchr(server + n + 1, ':') != NULL)
		n = strlen(server);
	if (server[0] == '[') {
		rest++;
		n -= n > 0;
	}
	if (n < sizeof(host))
		(void)snprintf(host, sizeof(host), "%.*s", (int)n, rest);
	rest += n;
	rest += *rest == ']';
	if (*rest == ':') {
		port = strtol(rest + 1, &end, 10);
		rest = end;
	}
	r->n = 0;
	if (*rest == '\0' && port > 0 && port < 65536 &&
	    add(r, host, port) == 0)
		return 0;
	return error_set(err, ERR_CONFIG, "MCP_SANDBOX_NAMESERVER: '%.80s' is "
	    "not allowed: an IP address, or ADDRESS:PORT", server);
}

static void
hang_up(struct resolve *r)
{
	loop_fd_del(r->watch);
	loop_timer_del(r->timer);
	if (r->fd != -1)
		(void)close(r->fd);
	r->watch = NULL;
	r->timer = NULL;
	r->fd = -1;
}

void
resolve_cancel(struct resolve *r)
{
	if (r == NULL)
		return;
	hang_up(r);
	free(r);
}

static void
finish(struct resolve *r, const char *address, const struct error *err)
{
	resolved *done = r->done;
	void *arg = r->arg;

	resolve_cancel(r);
	done(arg, address, err);
}

static void try(void *arg);

static void
next(struct resolve *r)
{
	hang_up(r);
	if ((r->timer = loop_timer_add(r->loop, 0, try, r)) == NULL) {
		struct error err;

		error_set(&err, ERR_SYSTEM, "out of memory");
		finish(r, NULL, &err);
	}
}

static void
on_timeout(void *arg)
{
	struct resolve *r = arg;

	r->timer = NULL;
	next(r);
}

static void
fail(struct resolve *r, const char *why)
{
	struct error err;

	error_set(&err, ERR_CLUSTER, "the name %s can't be resolved: %s",
	    r->name, why);
	finish(r, NULL, &err);
}

static void
on_answer(void *arg, short revents)
{
	struct resolve *r = arg;
	unsigned char data[DNS_MAX];
	char found[DNS_FOUND][ADDRESS_SIZE], address[ADDRESS_SIZE];
	ssize_t len = recv(r->fd, data, sizeof(data), MSG_DONTWAIT);
	bool literal;
	int n;

	(void)revents;
	if (len < 0) {
		next(r);
		return;
	}
	n = dns_answer(data, (size_t)len, r->id, r->name, r->type, found);
	for (int i = 0; i < n; i++)
		if (address_ok(found[i], r->servers->loopback, address,
		    &literal)) {
			finish(r, address, NULL);
			return;
		}
	r->refused |= n > 0;
	if (n == -1)
		return;
	if (n == -2) {
		fail(r, "there is no such name");
	} else if (n == -3) {
		next(r);
	} else if (r->type == DNS_A) {
		r->type = DNS_AAAA;
		r->tries = 0;
		next(r);
	} else {
		fail(r, r->refused ? "it leads to this machine, a neighbour "
		    "or a metadata service" : "it has no address");
	}
}

/* The question to the next server, from a port of its own. */
static int
ask(struct resolve *r)
{
	const struct sockaddr_storage *to = &r->servers->server[r->tries %
	    r->servers->n];
	socklen_t len = to->ss_family == AF_INET ?
	    sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	struct buf query;
	int ret = -1;

	r->fd = socket(to->ss_family, SOCK_DGRAM | SOCK_NONBLOCK |
	    SOCK_CLOEXEC, 0);
	if (r->fd == -1 || getrandom(&r->id, sizeof(r->id), 0) !=
	    sizeof(r->id))
		return -1;
	buf_init(&query, DNS_MAX);
	dns_query(&query, r->id, r->name, r->type);
	if (buf_ok(&query) &&
	    connect(r->fd, (const struct sockaddr *)to, len) == 0 &&
	    send(r->fd, query.data, query.len, 0) == (ssize_t)query.len)
		ret = 0;
	buf_free(&query);
	if (ret == 0)
		r->watch = loop_fd_add(r->loop, r->fd, POLLIN, on_answer, r);
	return ret;
}

static void
try(void *arg)
{
	struct resolve *r = arg;

	r->timer = NULL;
	if (r->tries == r->servers->n * ROUNDS) {
		fail(r, r->servers->n == 0 ? "no name server is known" :
		    "no name server answers");
		return;
	}
	(void)ask(r);
	r->tries++;
	r->timer = loop_timer_add(r->loop, r->watch != NULL ? TRY_MS : 0,
	    on_timeout, r);
	if (r->timer == NULL)
		fail(r, "out of memory");
}

struct resolve *
resolve_start(struct loop *l, const struct resolvers *servers,
    const char *name, resolved *done, void *arg)
{
	struct resolve *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	*r = (struct resolve){ .loop = l, .servers = servers, .done = done,
	    .arg = arg, .fd = -1, .type = DNS_A };
	(void)snprintf(r->name, sizeof(r->name), "%s", name);
	if ((r->timer = loop_timer_add(l, 0, try, r)) == NULL) {
		free(r);
		return NULL;
	}
	return r;
}
