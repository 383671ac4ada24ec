/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "event.h"
#include "json.h"
#include "k8sfail.h"

enum { CAUSES = 8 };	/* of a Status that are told */

struct part {
	const char *s;
	int len;
};

/* The segments of a path before its query; at most max. */
static size_t
split(const char *path, struct part *parts, size_t max)
{
	size_t n = 0;

	while (*path == '/' && n < max) {
		path++;
		parts[n].s = path;
		parts[n].len = (int)strcspn(path, "/?");
		path += parts[n++].len;
	}
	return n;
}

static bool
part_is(struct part p, const char *s)
{
	return (size_t)p.len == strlen(s) && memcmp(p.s, s, strlen(s)) == 0;
}

static const char *
verb(const char *method, bool named)
{
	static const char *const verbs[][2] = {
		{ "POST", "create" }, { "PUT", "update" },
		{ "PATCH", "patch" }, { "DELETE", "delete" },
	};
	size_t i;

	if (strcmp(method, "GET") == 0)
		return named ? "get" : "list";
	for (i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
		if (strcmp(method, verbs[i][0]) == 0)
			return verbs[i][1];
	return method;
}

void
k8sfail_describe(const char *method, const char *path, char *dst, size_t size)
{
	struct part p[9] = { { NULL, 0 } }, ns = { NULL, 0 };
	size_t n = split(path, p, 8), at = n;
	int len;

	if (n > 2 && part_is(p[0], "api"))
		at = 2;
	else if (n > 3 && part_is(p[0], "apis"))
		at = 3;
	if (at == n) {
		(void)snprintf(dst, size, "%s %.*s", method,
		    (int)strcspn(path, "?"), path);
		return;
	}
	if (n > at + 2 && part_is(p[at], "namespaces")) {
		ns = p[at + 1];
		at += 2;
	}
	/* p[at] is the resource, then its name, then a part of it; the array
	 * is longer than n and empty there. */
	len = snprintf(dst, size, "%s %.*s%s%.*s%s%.*s",
	    verb(method, at + 1 < n), p[at].len, p[at].s,
	    at + 2 < n ? "/" : "", at + 2 < n ? p[at + 2].len : 0, p[at + 2].s,
	    at + 1 < n ? " " : "", at + 1 < n ? p[at + 1].len : 0,
	    p[at + 1].s);
	if (ns.s != NULL && len > 0 && (size_t)len < size)
		(void)snprintf(dst + len, size - (size_t)len,
		    " in namespace %.*s", ns.len, ns.s);
}

/* As much of a string as fits. */
static void
words_of(struct json v, char *dst, size_t size)
{
	size_t at = 0;

	dst[json_piece(v, &at, dst, size - 1)] = '\0';
}

/* The message names most causes itself. */
static void
add_causes(struct json status, char *text, size_t size)
{
	struct json c = json_first(json_path(status, "details.causes"));
	char field[128], message[400];
	size_t len;
	int n = 0;

	for (; json_type(c) != JSON_NONE && n < CAUSES; c = json_next(c)) {
		words_of(json_get(c, "field"), field, sizeof(field));
		words_of(json_get(c, "message"), message, sizeof(message));
		len = strlen(text);
		if (message[0] == '\0' || strstr(text, message) != NULL ||
		    len + 4 > size)
			continue;
		(void)snprintf(text + len, size - len, "; %s%s%s", field,
		    field[0] != '\0' ? ": " : "", message);
		n++;
	}
}

static void
explain_plain(const struct event *reply, struct error *err)
{
	int len = (int)strnlen(reply->data, 200);

	len = (int)strcspn(reply->data, "\r\n") < len ?
	    (int)strcspn(reply->data, "\r\n") : len;
	if (len > 0)
		error_set(err, error_of_http(reply->status), "the API server "
		    "answered %ld (%.*s)", reply->status, len, reply->data);
	else
		error_set(err, error_of_http(reply->status), "the API server "
		    "answered %ld", reply->status);
}

void
k8sfail_explain(const struct event *reply, struct error *err, char *reason,
    size_t size)
{
	char text[sizeof(err->text)];
	struct error ignored;
	struct json_doc *doc;
	struct json root;

	if (reason != NULL)
		reason[0] = '\0';
	if (reply->err != NULL) {
		*err = *reply->err;
		return;
	}
	doc = json_parse_lax(reply->data, reply->len, &ignored);
	root = json_root(doc);
	words_of(json_get(root, "message"), text, sizeof(text));
	if (json_is(json_get(root, "kind"), "Status") && text[0] != '\0') {
		if (reason != NULL)
			words_of(json_get(root, "reason"), reason, size);
		if (reply->status == 422)
			add_causes(root, text, sizeof(text));
		error_set(err, error_of_http(reply->status), "%s%s",
		    reply->status == 401 ?
		    "our credentials were not accepted: " : "", text);
	} else
		explain_plain(reply, err);
	json_free(doc);
}

void
k8sfail_not_served(const char *path, struct error *err)
{
	struct part p[4];

	if (split(path, p, 4) == 4 && part_is(p[0], "apis"))
		error_set(err, ERR_CLUSTER, "the cluster does not serve "
		    "%.*s/%.*s: what brings it has to be installed",
		    p[1].len, p[1].s, p[2].len, p[2].s);
}
