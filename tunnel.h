/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tunnel - a pod's ports from anywhere, through pods/portforward.
 *
 * v4.channel.k8s.io: a data and an error channel a port, each begun by the
 * port as two little-endian bytes. tunnel_socket() gives one end of a
 * socketpair at once, for libcurl; a WebSocket is opened for it and bytes are
 * pumped both ways with at most LIMIT_PUMP held. When it can't be opened, or
 * ends, the socket is closed; tunnel_error() has the reason, to be put in
 * place of libcurl's "connection closed".
 */
#ifndef TUNNEL_H
#define TUNNEL_H

#include <stdint.h>

struct error;
struct k8s;
struct tunnel;

struct tunnel *tunnel_open(struct k8s *k, const char *namespace,
    const char *pod, uint16_t port);	/* NULL: no memory */
void tunnel_close(struct tunnel *t);	/* NULL is fine; closes its sockets */

int tunnel_socket(void *tunnel);	/* web_req.open_socket; -1: errno */
const struct error *tunnel_error(const struct tunnel *t);	/* or NULL */

#endif
