/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gateway - the address of a Gateway of gateway.networking.k8s.io/v1.
 *
 * It is read, and watched until it has one, no longer than the setting says.
 */
#ifndef GATEWAY_H
#define GATEWAY_H

#include <stdbool.h>

#include "json.h"

struct config;
struct error;
struct gateway;
struct k8s;

enum { GATEWAY_HOST = 256 };

/* The first usable value of status.addresses. 0: there is none yet; -1: what
 * there is must not be used (address.h). */
int gateway_address(struct json object, bool loopback,
    char dst[GATEWAY_HOST]);

/* Once, from loop_turn(): an IP address, canonical, or a DNS name; or NULL
 * and err. The operation is gone then. */
typedef void gateway_found(void *arg, const char *host,
    const struct error *err);
struct gateway *gateway_find(struct k8s *k, const struct config *c,
    gateway_found *done, void *arg);	/* NULL: no memory */
void gateway_cancel(struct gateway *g);	/* NULL is fine */

#endif
