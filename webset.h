/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webset - a libcurl handle made from a struct web_req, without I/O.
 *
 * All that libcurl has to know but the functions it calls, which are web.c's.
 * What would go out as another request than the one meant (a line break in a
 * field, a scheme that is not HTTP) is refused. webset_free() is needed after
 * a failure too.
 */
#ifndef WEBSET_H
#define WEBSET_H

#include <stdbool.h>

struct curl_slist;
struct error;
struct web_req;

struct webset {
	void *easy;		/* CURL * */
	struct curl_slist *headers, *resolve, *connect_to;
	char *where;		/* "host:port" as asked for */
	char *host;
	long connect_ms;
	bool secure;
	bool proxy_tls, proxy_ca; /* https proxy; we trust somebody there */
};

/* raw: only connect. */
int webset_open(struct webset *s, const struct web_req *req, bool raw,
    struct error *err);
void webset_free(struct webset *s);

#endif
