/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grpc - length-prefixed messages (gRPC over HTTP/2) and the protobuf wire
 * format, as much of it as ProcessService needs; no I/O.
 */
#ifndef GRPC_H
#define GRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

struct error;

/* Write fields of a message. Zero values are left out by the caller. */
void pb_varint(struct buf *out, unsigned field, uint64_t v);
void pb_bytes(struct buf *out, unsigned field, const void *data, size_t len);
void pb_str(struct buf *out, unsigned field, const char *s);

/* Put the five-byte prefix before what out holds from at on. */
void grpc_frame(struct buf *out, size_t at);

/* Read the fields of a message one by one. 1: a field, 0: the end, -1: bad. */
struct pb_field {
	unsigned number;
	unsigned type;		/* wire type 0, 1, 2 or 5 */
	uint64_t value;		/* types 0, 1, 5 */
	const char *data;	/* type 2; borrowed */
	size_t len;
};
int pb_next(const char **p, const char *end, struct pb_field *f);

/*
 * Messages from a stream fed in pieces; -1 when too long or compressed. got()
 * returns -1 to stop, and may have freed the reader; then grpc_feed() returns
 * -1 at once, and err is got()'s to fill.
 */
struct grpc_reader {
	struct buf held;
};
typedef int grpc_got(void *arg, const char *data, size_t len);
void grpc_reader_init(struct grpc_reader *r);
void grpc_reader_free(struct grpc_reader *r);
int grpc_feed(struct grpc_reader *r, const void *data, size_t len,
    grpc_got *got, void *arg, struct error *err);
bool grpc_reader_idle(const struct grpc_reader *r);	/* between messages */

/* "NOT_FOUND" for 5, and so on; "UNKNOWN" past the list. */
const char *grpc_code_name(long code);
/* grpc-message is percent-encoded; decodes into dst, cut at size. */
void grpc_message_decode(const char *text, size_t len, char *dst, size_t size);

#endif
