/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seal - a tool's state on its way through the client and back
 * (MCP 2026-07-28, requestState).
 *
 * base64url, unpadded, of HMAC-SHA256 | expiry | state. The MAC also covers
 * what the request is about, so a state fits only the request it was made
 * for; the client can read it and not change it. Any process with the key
 * opens it: nothing is remembered here.
 */
#ifndef SEAL_H
#define SEAL_H

#include <stddef.h>

struct buf;
struct error;

enum { SEAL_KEY = 32, SEAL_ABOUT = 32, SEAL_SECONDS = 15 * 60 };

/* about: a SHA-256 of the request. now: seconds since 1970. */
int seal_make(const unsigned char key[SEAL_KEY],
    const unsigned char about[SEAL_ABOUT], long now, const void *state,
    size_t len, struct buf *out, struct error *err);
int seal_open(const unsigned char key[SEAL_KEY],
    const unsigned char about[SEAL_ABOUT], long now, const char *sealed,
    size_t len, struct buf *state, struct error *err);

/* about = SHA-256(about | the piece's length | the piece). */
void seal_about(unsigned char about[SEAL_ABOUT], const void *piece,
    size_t len);

#endif
