/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cargo - the bytes of a program on their way into a pod, piece by piece.
 *
 * They lie in memory as they are, or packed by gzip (RFC 1952), and are
 * unpacked as they are given: 40 KB of memory, whatever their size. The data
 * must outlive the cargo.
 */
#ifndef CARGO_H
#define CARGO_H

#include <stdbool.h>
#include <stddef.h>

struct cargo;

/* NULL: no memory. */
struct cargo *cargo_open(const void *data, size_t len, bool packed);
void cargo_close(struct cargo *c);	/* NULL is fine */

/* Of all there is to give. */
size_t cargo_len(const struct cargo *c);
/*
 * At most size bytes, 0 at the end, -1 when they are damaged: the last of them
 * are given only when length and checksum are right.
 */
long cargo_give(struct cargo *c, void *to, size_t size);

#endif
