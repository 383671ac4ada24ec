/* SPDX-License-Identifier: Apache-2.0 */
/* http-config - the settings of HTTP and of "serve", as rows for config.c. */
#ifndef HTTP_CONFIG_H
#define HTTP_CONFIG_H

#include <stdbool.h>

enum { HTTP_LISTEN_MAX = 16 };

struct http_settings {
	bool one;			/* a connection on standard input */
	const char *listen[HTTP_LISTEN_MAX + 1];	/* NULL at the end */
	bool by_flag;			/* the list is of argv */
	long socket_mode;		/* digits as chmod(1) has them */
	long connections, per_source, drain_s;
	const char *tokens;		/* file of bearer tokens (auth.h) */
	const char *review;		/* who may call by a TokenReview */
	const char *metadata;		/* file, RFC 9728 */
	const char *tls_cert, *tls_key, *tls_ca;	/* files (tls.h) */
	const char *hosts, *origins;	/* guard.h */
	const char *state_key;		/* file, seals requestState */
	bool audit;			/* a line in the log for each call */
};

#define HTTP_ROW(flag, letter, env, type, field, min, max, def, arg, help) \
	{ flag, letter, { env }, type, offsetof(struct config, http.field), \
	    min, max, def, NULL, arg, help }

#define HTTP_ROWS							\
	HTTP_ROW("http", 0, NULL, SET_FLAG, one, 0, 0, NULL, NULL,	\
	    "speak HTTP on standard input and output"),		\
	HTTP_ROW("listen", 'l', "MCP_SANDBOX_LISTEN", SET_LIST, listen, 0, \
	    HTTP_LISTEN_MAX, NULL, "ADDR",				\
	    "for serve: HOST:PORT or unix:PATH")

#define HTTP_MORE_ROWS							\
	HTTP_ROW("socket-mode", 0, "MCP_SANDBOX_SOCKET_MODE", SET_INT,	\
	    socket_mode, 0, 777, "600", "MODE", NULL),			\
	HTTP_ROW("max-connections", 0, "MCP_SANDBOX_MAX_CONNECTIONS",	\
	    SET_INT, connections, 1, 100000, "256", "N", NULL),		\
	HTTP_ROW("max-per-source", 0, "MCP_SANDBOX_MAX_PER_SOURCE",	\
	    SET_INT, per_source, 1, 100000, "256", "N", NULL),		\
	HTTP_ROW("drain", 0, "MCP_SANDBOX_DRAIN", SET_INT, drain_s, 0,	\
	    3600, "25", "S", NULL),					\
	HTTP_ROW("auth-tokens", 0, "MCP_SANDBOX_AUTH_TOKENS", SET_TEXT,	\
	    tokens, 0, 0, NULL, "FILE", NULL),				\
	HTTP_ROW("token-review", 0, "MCP_SANDBOX_TOKEN_REVIEW", SET_TEXT, \
	    review, 0, 0, NULL, "LIST", NULL),				\
	HTTP_ROW("resource-metadata", 0, "MCP_SANDBOX_RESOURCE_METADATA", \
	    SET_TEXT, metadata, 0, 0, NULL, "FILE", NULL),		\
	HTTP_ROW("tls-cert", 0, "MCP_SANDBOX_TLS_CERT", SET_TEXT, tls_cert, \
	    0, 0, NULL, "FILE", NULL),					\
	HTTP_ROW("tls-key", 0, "MCP_SANDBOX_TLS_KEY", SET_TEXT, tls_key, \
	    0, 0, NULL, "FILE", NULL),					\
	HTTP_ROW("tls-client-ca", 0, "MCP_SANDBOX_TLS_CLIENT_CA", SET_TEXT, \
	    tls_ca, 0, 0, NULL, "FILE", NULL),				\
	HTTP_ROW("hosts", 0, "MCP_SANDBOX_HOSTS", SET_TEXT, hosts, 0, 0, \
	    NULL, "LIST", NULL),					\
	HTTP_ROW("origins", 0, "MCP_SANDBOX_ORIGINS", SET_TEXT, origins, \
	    0, 0, NULL, "LIST", NULL),					\
	HTTP_ROW("state-key", 0, "MCP_SANDBOX_STATE_KEY", SET_TEXT,	\
	    state_key, 0, 0, NULL, "FILE", NULL),			\
	HTTP_ROW("audit", 0, "MCP_SANDBOX_AUDIT", SET_FLAG, audit, 0, 0, \
	    "true", NULL, NULL)

#endif
