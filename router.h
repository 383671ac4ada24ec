/* SPDX-License-Identifier: Apache-2.0 */
/*
 * router - the proxy in front of the sandboxes, for the connection types
 * gateway and direct (contract: agent-sandbox 2.6, 5).
 *
 * Its certificates are read and a fixed address is resolved before the
 * confinement. The token's file is read again when a minute has passed, as
 * it may be rotated; its folder must stay readable.
 */
#ifndef ROUTER_H
#define ROUTER_H

#include <stdbool.h>
#include <stddef.h>

#include "web.h"

struct buf;
struct config;
struct error;

struct router {
	const struct config *config;
	struct web_tls tls;
	char *pem[3];			/* what tls borrows: CA, cert, key */
	char *token;
	long token_read;
	char url[400];			/* "" until known; no '/' at its end */
	char resolve[400];		/* for web_req, or "" */
};

/* NULL: err. */
struct router *router_open(const struct config *c, struct error *err);
void router_close(struct router *r);		/* NULL is fine */

/* Where it is: host is a name with its address, or an address itself. */
void router_set(struct router *r, const char *host, const char *address);

/* "Authorization: Bearer ..." into out, nothing where no token is set. */
int router_token(struct router *r, struct buf *out, struct error *err);

/*
 * false: the status is not one a router answers by itself. detail: the text of
 * its answer. waited_ms: since the request was sent. A failure behind which
 * the request may have been carried out is ERR_LOST.
 */
bool router_explain(long status, const char *detail, long waited_ms,
    struct error *err);

#endif
