/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy - which proxy a request goes through, as client-go decides it.
 *
 * Pure: texts in, texts out. A URL may hold a password; no error quotes it.
 */
#ifndef PROXY_H
#define PROXY_H

#include <stdbool.h>
#include <stddef.h>

struct error;

/*
 * A proxy's URL, checked and made whole: a scheme (http where there is none),
 * one of http, https, socks5 and socks5h, perhaps user and password, a host, a
 * port (80, 443, 1080), nothing after it. free() it. NULL: ERR_CONFIG.
 */
char *proxy_url(const char *text, struct error *err);

/* Host (without brackets) and port of what proxy_url() gave; 0, or -1 when
 * they do not fit. */
int proxy_parts(const char *url, char *host, size_t size, char port[8]);

/*
 * Is the host one that $NO_PROXY (NULL: not set) leaves out? Comma separated:
 * "*"; an address or a CIDR block, for a host that is an address; a name,
 * which stands for all names below it, too; ".name" or "*.name", which stands
 * for only those. ":port" may follow a name or an address. Loopback is always
 * left out.
 */
bool proxy_excepts(const char *no_proxy, const char *host, const char *port);

#endif
