/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dns - one question to a name server and its answer (RFC 1035, 3596),
 * without I/O.
 */
#ifndef DNS_H
#define DNS_H

#include <stddef.h>
#include <stdint.h>

#include "address.h"

struct buf;

enum { DNS_A = 1, DNS_AAAA = 28 };
enum { DNS_MAX = 1232, DNS_FOUND = 8 };	/* bytes; addresses that are kept */

/* name as address_name() has it, taken as absolute. */
void dns_query(struct buf *out, uint16_t id, const char *name, int type);

/*
 * How many addresses the datagram has for that question, in dst; of an alias
 * those of its end. 0: the name is there without any; -1: this is no answer
 * to it; -2: the name is not there; -3: the server refuses or fails.
 */
int dns_answer(const unsigned char *data, size_t len, uint16_t id,
    const char *name, int type, char dst[DNS_FOUND][ADDRESS_SIZE]);

#endif
