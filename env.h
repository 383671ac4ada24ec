/* SPDX-License-Identifier: Apache-2.0 */
/* env - what tools work with: one of each for the life of the process. */
#ifndef ENV_H
#define ENV_H

#include <stdbool.h>
#include <stddef.h>

struct config;
struct k8s;
struct links;
struct log;
struct loop;
struct sessions;
struct stash;
struct web;

struct env {
	struct loop *loop;
	struct web *web;
	struct k8s *k8s;
	struct links *links;
	struct sessions *sessions;
	struct stash *stash;	/* for what is too long for memory */
	const char *agent;	/* of --agent-file, or NULL */
	size_t agent_len;
	const struct config *config;
	const struct log *log;
	const char *namespace;	/* the kubeconfig's own */
	char session[64];	/* the value of the session label */
	bool http;		/* over HTTP each request has its session ... */
	bool session_sent;	/* ... by X-Session-ID, or the caller's own */
};

#endif
