/* SPDX-License-Identifier: Apache-2.0 */
/*
 * budget - every limit of the program, in one table.
 *
 * A name here is a compile-time constant; limits_rows() gives the same rows
 * with words, for --help, "check" and the man page (a test compares them).
 * Past a limit: a clear error, flat memory, and the connection stays.
 */
#ifndef BUDGET_H
#define BUDGET_H

#include <stddef.h>

#define LIMITS(X)							\
	X(LIMIT_MESSAGE, 8L << 20, "bytes", "one message from the client, long strings apart") \
	X(LIMIT_SPOOL_MESSAGE, 2000L << 20, "bytes", "one message with long strings") \
	X(LIMIT_SPOOL, 4096, "MiB", "of long strings held at once") \
	X(LIMIT_REPLY, 20L << 20, "bytes", "one message to the client, long strings apart")	\
	X(LIMIT_JSON_DEPTH, 64, "levels", "nesting of a JSON document")	\
	X(LIMIT_JSON_TOKENS, 200000, "values", "in a JSON document")	\
	X(LIMIT_ID, 256, "bytes", "a request id or progress token")	\
	X(LIMIT_BATCH, 100, "messages", "in one batch (2025-03-26)")	\
	X(LIMIT_CALLS, 32, "calls", "under way at once")		\
	X(LIMIT_BAD_LINES, 1000, "lines", "refused before the connection ends") \
	X(LIMIT_BODY, 4L << 20, "bytes", "one answer of the API server") \
	X(LIMIT_EVENT, 2L << 20, "bytes", "one event of a watch")	\
	X(LIMIT_HEADERS, 64L << 10, "bytes", "header fields of an answer") \
	X(LIMIT_FRAME, 1L << 20, "bytes", "one WebSocket frame or message") \
	X(LIMIT_GRPC, 4L << 20, "bytes", "one gRPC message")		\
	X(LIMIT_LINKS, 16, "sandboxes", "whose tunnels are kept open")	\
	X(LIMIT_KNOWN_MS, 30000, "ms", "a claim, or a session's watched pod, is not asked for again") \
	X(LIMIT_PUMP, 256L << 10, "bytes", "held by a tunnel in each direction") \
	X(LIMIT_STDIN, 1L << 20, "bytes", "standard input of a command") \
	X(LIMIT_COMMAND, 131000, "bytes", "the text of a command")	\
	X(LIMIT_ENV, 256, "variables", "given to a command")		\
	X(LIMIT_PATH, 4096, "bytes", "the path of a file")		\
	X(LIMIT_DOWNLOAD, 1400L << 10, "bytes", "of a file in one answer") \
	X(LIMIT_DOWNLOAD_LONG, 64L << 20, "bytes", "of it, where the answer is base64") \
	X(LIMIT_OUTPUT_CHARS, 300000, "characters", "output budget of one call") \
	X(LIMIT_KUBECONFIG, 1L << 20, "bytes", "a kubeconfig file")	\
	X(LIMIT_TOKEN, 64L << 10, "bytes", "a bearer token")		\
	X(LIMIT_IMPERSONATE, 64, "fields", "of impersonation, groups included") \
	X(LIMIT_PLUGIN_MS, 30000, "ms", "a run of a credential plugin")	\
	X(LIMIT_PLUGIN_WORDS, 256, "strings", "in its args, and in its env") \
	X(LIMIT_PLUGIN_OUTPUT, 256L << 10, "bytes", "what it prints")	\
	X(LIMIT_PLUGIN_LINES, 100, "lines", "of its errors in our log") \
	X(LIMIT_LIST, 500, "objects", "in one page of a list")		\
	X(LIMIT_PAGES, 40, "pages", "of a list, for gc and ls")		\
	X(LIMIT_CONNECT_MS, 10000, "ms", "to connect, TLS included")	\
	X(LIMIT_FIRST_BYTE_MS, 30000, "ms", "until an answer begins")	\
	X(LIMIT_IDLE_MS, 30000, "ms", "between two pieces of an answer") \
	X(LIMIT_PING_MS, 20000, "ms", "between pings on a WebSocket")	\
	X(LIMIT_RETRIES, 4, "times", "a GET or watch is tried again")	\
	X(LIMIT_RETRY_MS, 10000, "ms", "the longest pause before a retry") \
	X(LIMIT_PROGRESS_MS, 4000, "ms", "between progress messages")	\
	X(LIMIT_STOP_MS, 30000, "ms", "to clean up after a call")	\
	X(LIMIT_DRAIN_MS, 1800, "ms", "to clean up when the input ends") \
	X(LIMIT_SETUP_MS, 10000, "ms", "from start to the first byte read") \
	X(LIMIT_HTTP_HEAD, 32L << 10, "bytes", "header fields of a request over HTTP") \
	X(LIMIT_HTTP_HEAD_MS, 10000, "ms", "for such a head, TLS's handshake included") \
	X(LIMIT_HTTP_BODY_MS, 60000, "ms", "for each 8 MiB of its body") \
	X(LIMIT_HTTP_IDLE_MS, 60000, "ms", "between two requests")	\
	X(LIMIT_HTTP_STALL_MS, 30000, "ms", "until a client reads on")	\
	X(LIMIT_HTTP_QUIET_MS, 15000, "ms", "between two pieces of a stream") \
	X(LIMIT_HTTP_REQUESTS, 10000, "requests", "on one connection")	\
	X(LIMIT_AGENT_HEAD, 8L << 10, "bytes", "header fields sent to the agent") \
	X(LIMIT_AGENT_BODY, 1L << 20, "bytes", "a request to the agent, files apart") \
	X(LIMIT_AGENT_CONNS, 64, "connections", "of the agent at once")	\
	X(LIMIT_AGENT_QUEUE, 16, "commands", "waiting for the agent's shell") \
	X(LIMIT_AGENT_BACKGROUND, 32, "commands", "in the agent's background") \
	X(LIMIT_AGENT_RUNS, 64, "commands", "whose output the agent keeps") \
	X(LIMIT_AGENT_OUTPUT, 1L << 20, "bytes", "of a stream in the agent's answer") \
	X(LIMIT_AGENT_READ, 4L << 20, "bytes", "of output read from the agent at once") \
	X(LIMIT_AGENT_MEMORY, 64L << 10, "bytes", "of a stream before it goes to a file") \
	X(LIMIT_AGENT_SPOOL, 64L << 20, "bytes", "of a stream kept by the agent") \
	X(LIMIT_AGENT_SPOOLS, 256L << 20, "bytes", "of output kept by the agent") \
	X(LIMIT_AGENT_TAIL, 512L << 10, "bytes", "of a longer stream's end")	\
	X(LIMIT_AGENT_LATE, 8L << 10, "bytes", "of stderr between two commands") \
	X(LIMIT_AGENT_LISTING, 8L << 20, "bytes", "a listing by the agent")	\
	X(LIMIT_AGENT_REQUEST_MS, 10000, "ms", "for a request to the agent") \
	X(LIMIT_AGENT_PIECE_MS, 30000, "ms", "between two pieces of a file") \
	X(LIMIT_AGENT_CONN_MS, 60000, "ms", "an idle connection of the agent") \
	X(LIMIT_AGENT_TIMEOUT, 86400, "seconds", "a command in the agent")	\
	X(LIMIT_POD_MS, 180000, "ms", "until a session's pod must be ready") \
	X(LIMIT_MANIFEST, 64L << 10, "bytes", "a session's pod as it is sent") \
	X(LIMIT_AGENT_ANSWER, 16L << 20, "bytes", "an answer of the agent to a command") \
	X(LIMIT_AGENT_DRAIN_MS, 10000, "ms", "for a command when the agent ends")

enum {
#define X(name, value, unit, what) name = value,
	LIMITS(X)
#undef X
};

struct limit {
	const char *name;	/* without LIMIT_ */
	long value;
	const char *unit;
	const char *what;
};

const struct limit *limits_rows(size_t *n);

#endif
