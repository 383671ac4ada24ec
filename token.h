/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token - who may speak to a session's agent (contract: cli-mcp-server 6, 7).
 *
 * With a key, a session's token is HMAC-SHA256(key, session id) in lower-case
 * hex, so that any server with the key can say it; without one it is random
 * and kept in the session's Secret.
 */
#ifndef TOKEN_H
#define TOKEN_H

#include <stdbool.h>
#include <stddef.h>

enum { TOKEN_SIZE = 65 };

/* 1 to 63 of a-z 0-9 -, no - at either end. */
bool token_session_ok(const char *id);

/*
 * What counts of a key file: white space (Unicode's) taken off both ends, all
 * else kept. *start points into text; the length, 0: there is no key.
 */
size_t token_key(const char *text, size_t len, const char **start);

/* -1: no random numbers, or no memory. */
int token_of(const char *key, size_t len, const char *session,
    char dst[TOKEN_SIZE]);
int token_random(char dst[TOKEN_SIZE]);
/* n random bytes as 2 n digits and NUL. */
int token_hex(char *dst, size_t n);

#endif
