/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address - which hosts that the cluster names we would connect to.
 *
 * A status is written by others: an address in it must not lead to this
 * machine, to its neighbours by link-local, or to a cloud's metadata service.
 */
#ifndef ADDRESS_H
#define ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

enum { ADDRESS_SIZE = 48 };

/*
 * text is an IP literal that may be dialled: true, with its canonical form in
 * dst, an IPv4-mapped one as IPv4. *literal: it is one at all. loopback: these
 * are allowed, for tests.
 */
bool address_ok(const char *text, bool loopback, char dst[ADDRESS_SIZE],
    bool *literal);

/* A DNS name (contract: agent-sandbox 2.5.1), not just numbers. */
bool address_name(const char *text);

#endif
