/* SPDX-License-Identifier: Apache-2.0 */
/*
 * websocket - RFC 6455 for a client, bytes to frames and back; no I/O.
 *
 * The caller supplies randomness (keys, masks), so that every result can be
 * tested. A server that masks, sets reserved bits, fragments or lengthens a
 * control frame, or passes LIMIT_FRAME is a protocol error.
 */
#ifndef WEBSOCKET_H
#define WEBSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

struct error;

enum ws_op {
	WS_CONTINUATION = 0, WS_TEXT = 1, WS_BINARY = 2,
	WS_CLOSE = 8, WS_PING = 9, WS_PONG = 10
};

/*
 * The request that upgrades. nonce: 16 random bytes. protocols: "a, b".
 * headers: lines without their end, then NULL. A control character in any of
 * these marks out as failed.
 */
void ws_request(struct buf *out, const char *host, const char *target,
    const char *const *headers, const unsigned char nonce[16],
    const char *protocols);

/*
 * The answer, fed as it comes; *used says how many bytes belonged to it.
 * 1: upgraded (Accept, Upgrade, Connection and the protocol checked), 0: more
 * bytes are needed, -1: refused. On refusal status is the HTTP status and
 * body collects up to 64 KiB of its text (read until it ends or length).
 * Where the connection ends first, say so with a len of 0: -1 in any case.
 */
struct ws_handshake {
	unsigned char nonce[16];
	const char *protocols;	/* what was offered; borrowed */
	char protocol[64];	/* what was chosen */
	long status;
	struct buf head;	/* held until complete; ws_handshake_free() */
	struct buf body;
	bool headers_done;
	long body_left;		/* by Content-Length; -1 unknown */
	bool chunked;
};
void ws_handshake_init(struct ws_handshake *h, const unsigned char nonce[16],
    const char *protocols);
void ws_handshake_free(struct ws_handshake *h);
int ws_handshake(struct ws_handshake *h, const void *data, size_t len,
    size_t *used, struct error *err);

/* One frame to the server, FIN set, masked. */
void ws_frame(struct buf *out, enum ws_op op, const void *data, size_t len,
    const unsigned char mask[4]);

/*
 * Frames from the server, fed as they come. For a data message (fragments
 * joined) and for each control frame, got() is called once; data is valid for
 * the call. got() returns -1 to stop, and may have freed the reader; then
 * ws_feed() returns -1 at once, and err is got()'s to fill. ws_feed() is -1
 * after a violation. What follows a close frame is not looked at.
 */
struct ws_reader {
	struct buf message;	/* fragments so far */
	struct buf frame;	/* header and payload being read */
	enum ws_op op;		/* of the fragmented message; 0 if none */
	bool closed;
};
typedef int ws_got(void *arg, enum ws_op op, const char *data, size_t len);
void ws_reader_init(struct ws_reader *r);
void ws_reader_free(struct ws_reader *r);
int ws_feed(struct ws_reader *r, const void *data, size_t len, ws_got *got,
    void *arg, struct error *err);

#endif
