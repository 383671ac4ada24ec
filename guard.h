/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard - what is let in before a body is read, by header fields alone.
 *
 * A browser on this machine can be made to send requests here by any page it
 * shows (DNS rebinding); it can't lie in Host and Origin (RFC 9110 7.2, RFC
 * 6454). Accept and Content-Type are as Streamable HTTP of MCP wants them.
 */
#ifndef GUARD_H
#define GUARD_H

#include <stdbool.h>

/* Names this machine has for itself: localhost, 127.x.y.z, [::1]; any port. */
bool guard_is_loopback(const char *host);
/*
 * Host as sent, or NULL. allowed: names separated by commas, "all" for any;
 * NULL: names of this machine only, if we were reached over loopback.
 */
bool guard_host(const char *host, const char *allowed, bool loopback);
/*
 * Origin as sent, or NULL for none. Good: the request's own host, by the same
 * rule as above; an origin of the list; "null" never, but with "all".
 */
bool guard_origin(const char *origin, const char *host, const char *allowed,
    const char *hosts, bool loopback);

enum { ACCEPT_JSON = 1, ACCEPT_STREAM = 2 };
/* What of the two an Accept field takes; NULL takes both. */
int guard_accept(const char *accept);
bool guard_is_json(const char *content_type);	/* NULL: no */

#endif
