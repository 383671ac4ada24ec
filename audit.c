/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "audit.h"
#include "buf.h"
#include "call.h"
#include "digest.h"
#include "error.h"
#include "log.h"
#include "mono.h"
#include "place.h"
#include "stash.h"

enum { LINE = 1024, HASH_SHOWN = 12 };

/* What ends a value, or a line, or could be taken for another's. */
static void
clean(char *s)
{
	for (; *s != '\0'; s++)
		if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		    "abcdefghijklmnopqrstuvwxyz0123456789._:/@+-", *s) == NULL)
			*s = '?';
}

static void
hash(struct json v, unsigned char digest[DIGEST_SIZE])
{
	struct digest d;
	char piece[4096];
	const char *raw;
	size_t n, at = 0;

	digest_begin(&d);
	if (json_type(v) == JSON_STRING) {
		while ((n = json_piece(v, &at, piece, sizeof(piece))) > 0)
			digest_put(&d, piece, n);
	} else {
		raw = json_raw(v, &n);
		digest_put(&d, raw, n);
	}
	digest_sum(&d, digest);
}

/* The first of names that is there. */
static struct json
first_of(struct json args, const char *const *names)
{
	struct json v = { NULL, -1 };

	for (; *names != NULL && json_type(v) == JSON_NONE; names++)
		v = json_get(args, *names);
	return v;
}

void
audit_note(struct call_note *n, struct json args)
{
	static const char *const objects[] = { "sandbox_claim_name",
	    "warmpool", "uri", "name", "image", NULL };
	static const char *const secrets[] = { "job_id", "job_token", "token",
	    NULL };
	static const char *const commands[] = { "command", "script", "code",
	    "argv", NULL };
	struct json v = first_of(args, commands), secret;
	unsigned char digest[DIGEST_SIZE];

	*n = (struct call_note){ .command = json_type(v) != JSON_NONE };
	if (n->command)
		hash(v, n->digest);
	if (!json_str(json_get(args, "namespace"), n->namespace,
	    sizeof(n->namespace)))
		n->namespace[0] = '\0';
	clean(n->namespace);
	secret = first_of(args, secrets);
	if (json_type(secret) != JSON_NONE) {
		hash(secret, digest);
		memcpy(n->object, "sha256:", 7);
		digest_text(digest, HASH_SHOWN / 2, n->object + 7);
	} else if (!json_str(first_of(args, objects), n->object,
	    sizeof(n->object))) {
		n->object[0] = '\0';
	}
	clean(n->object);
}

/*
 * A member of the result, where one begins: inside of a string its quotes
 * would have backslashes before them.
 */
static const char *
member(const struct call *c, const char *key, size_t *len)
{
	const struct buf *s = &c->structured;
	const char *at, *end;
	char quoted[40];
	int n = snprintf(quoted, sizeof(quoted), "\"%s\":", key);

	if (s->len == 0 || !buf_ok(s) ||
	    (at = memmem(s->data, s->len, quoted, (size_t)n)) == NULL)
		return NULL;
	at += n + (at[n] == '"');
	end = s->data + s->len;
	for (*len = 0; at + *len < end && strchr(",}\"", at[*len]) == NULL;
	    ++*len)
		continue;
	return at;
}

static const char *
verdict(const struct call *c, const struct error *err, bool cancelled)
{
	if (cancelled)
		return "cancelled";
	if (err != NULL)
		return error_word(err->code);
	if (c->asking)
		return "asked";
	return c->is_error ? "failed" : "ok";
}

void
audit_line(struct buf *out, const struct call *c, const struct place *p,
    const struct error *err, bool cancelled, long ms)
{
	size_t len, bytes = c->structured.len + c->text.len +
	    c->content.len + (c->far != NULL ? (size_t)c->far->len : 0);
	const char *v, *namespace = p->namespace, *object = p->object;
	char hex[65];

	if (c->note.namespace[0] != '\0')
		namespace = c->note.namespace;
	if (c->note.object[0] != '\0')
		object = c->note.object;

	buf_printf(out, "audit: caller=%s tool=%s",
	    c->caller == NULL ? "-" : c->caller, c->tool->name);
	if (namespace != NULL)
		buf_printf(out, " namespace=%s", namespace);
	v = member(c, "sandbox_claim_name", &len);
	if (v != NULL && len < sizeof(c->note.object))
		buf_printf(out, " object=%.*s", (int)len, v);
	else if (object != NULL)
		buf_printf(out, " object=%s", object);
	buf_printf(out, " verdict=%s", verdict(c, err, cancelled));
	if ((v = member(c, "exit_code", &len)) != NULL && len < 20)
		buf_printf(out, " exit=%.*s", (int)len, v);
	buf_printf(out, " bytes=%zu ms=%ld", cancelled ? 0 : bytes, ms);
	if (c->note.command) {
		digest_text(c->note.digest, sizeof(c->note.digest), hex);
		buf_printf(out, " command=sha256:%s", hex);
	}
}

void
audit_call(const struct log *l, const struct call *c, const struct place *p,
    const struct error *err, bool cancelled)
{
	struct buf line;

	buf_init(&line, LINE);
	audit_line(&line, c, p, err, cancelled,
	    c->started_ms == 0 ? 0 : mono_ms() - c->started_ms);
	if (buf_ok(&line))
		log_line(l, LOG_NOTE, "%s", line.data);
	buf_free(&line);
}
