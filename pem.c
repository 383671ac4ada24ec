/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base64.h"
#include "buf.h"
#include "error.h"
#include "pem.h"

enum { DER_MAX = 64 << 10, LABEL_MAX = 40 };

struct block {
	char label[LABEL_MAX + 1];
	const char *body;
	size_t len;
};

/* The next frame at or after *at: 1, 0 when there is none, -1 cut off. */
static int
block_next(const char **at, struct block *b, struct error *err)
{
	static const char begin[] = "-----BEGIN ";
	const char *label, *end;
	char stop[LABEL_MAX + 16];
	size_t len;

	if ((label = strstr(*at, begin)) == NULL)
		return 0;
	label += sizeof(begin) - 1;
	len = strspn(label, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ");
	if (len == 0 || len > LABEL_MAX || strncmp(label + len, "-----", 5))
		return error_set(err, ERR_CONFIG, "a broken BEGIN line");
	memcpy(b->label, label, len);
	b->label[len] = '\0';
	b->body = label + len + 5;
	(void)snprintf(stop, sizeof(stop), "-----END %s-----", b->label);
	if ((end = strstr(b->body, stop)) == NULL)
		return error_set(err, ERR_CONFIG, "%s has no END line",
		    b->label);
	b->len = (size_t)(end - b->body);
	*at = end + strlen(stop);
	return 1;
}

/* DER of a key or certificate is a SEQUENCE, and never this short. */
static int
block_decode(const struct block *b, struct buf *der, struct error *err)
{
	struct base64 state = { .n = 0 };
	struct error why;

	if (base64_decode(&state, b->body, b->len, der, &why) == -1 ||
	    base64_decode_end(&state, &why) == -1 || !buf_ok(der) ||
	    der->len < 16 || der->data[0] != 0x30)
		return error_set(err, ERR_CONFIG, "%s is damaged", b->label);
	return 0;
}

/* RFC 8410: 1.3.101.110 to 113. NULL when none is within the first len. */
static const char *
curve_name(const char *der, size_t len)
{
	static const char *const names[] = { "X25519", "X448", "Ed25519",
	    "Ed448" };
	/* The last arc, a byte of its own, follows these. */
	static const char oid[] = { 0x06, 0x03, 0x2b, 0x65 };
	const char *p = memmem(der, len, oid, sizeof(oid));
	size_t i;

	if (p == NULL || (size_t)(p - der) + sizeof(oid) == len)
		return NULL;
	i = (size_t)(unsigned char)p[sizeof(oid)] - 0x6e;
	return i < sizeof(names) / sizeof(names[0]) ? names[i] : NULL;
}

static int
unsupported(struct error *err, const char *what)
{
	return error_set(err, ERR_CONFIG,
	    "%s is not supported; use RSA or ECDSA (P-256, P-384)", what);
}

static int
key_check(const struct block *b, struct error *err)
{
	static const char hint[] = "decrypt it first, with openssl pkey";
	struct buf der;
	const char *curve;
	int r;

	if (strcmp(b->label, "ENCRYPTED PRIVATE KEY") == 0)
		return error_set(err, ERR_CONFIG,
		    "the key is encrypted (PKCS#8); %s", hint);
	if (memmem(b->body, b->len, "Proc-Type: 4,ENCRYPTED", 22) != NULL)
		return error_set(err, ERR_CONFIG,
		    "the key is encrypted (Proc-Type: 4,ENCRYPTED); %s", hint);
	if (strcmp(b->label, "PRIVATE KEY") != 0 &&
	    strcmp(b->label, "RSA PRIVATE KEY") != 0 &&
	    strcmp(b->label, "EC PRIVATE KEY") != 0)
		return unsupported(err, b->label);
	buf_init(&der, DER_MAX);
	r = block_decode(b, &der, err);
	/* PKCS#8 names its algorithm right after the version. */
	if (r == 0 && strcmp(b->label, "PRIVATE KEY") == 0 &&
	    (curve = curve_name(der.data, 20 < der.len ? 20 : der.len)) != NULL)
		r = unsupported(err, curve);
	buf_wipe(&der);
	return r;
}

/* *curve: the name of a kind of key in it that we lack, or NULL. */
static int
cert_check(const struct block *b, const char **curve, struct error *err)
{
	struct buf der;
	int r;

	if (strcmp(b->label, "CERTIFICATE") != 0)
		return unsupported(err, b->label);
	buf_init(&der, DER_MAX);
	if ((r = block_decode(b, &der, err)) == 0)
		*curve = curve_name(der.data, der.len);
	buf_free(&der);
	return r;
}

/*
 * A bundle is fine as long as one of its roots is; a chain needs its first,
 * and all of it whole. Returns how many roots are no good; the first says why
 * when all are.
 */
static int
certs_check(const char *text, bool any, struct error *err)
{
	const char *at = text, *curve;
	struct error why = { .code = ERR_NONE };
	struct block b;
	int r, good = 0, bad = 0;

	while ((r = block_next(&at, &b, err)) == 1) {
		/* kubectl takes a key and its certificate from one file. */
		if (strstr(b.label, "CERTIFICATE") == NULL)
			continue;
		curve = NULL;
		r = cert_check(&b, &curve, err);
		if (r == -1 && !any)
			return -1;
		if (r == 0 && curve == NULL) {
			good++;
			continue;
		}
		if (r == 0)
			unsupported(err, curve);
		if (bad++ == 0)
			why = *err;
		if (!any && good == 0)
			break;
	}
	if (r == -1)
		return -1;
	if (good > 0)
		return any ? bad : 0;
	if (bad > 0) {
		*err = why;
		return -1;
	}
	return error_set(err, ERR_CONFIG, "no PEM certificate in it");
}

int
pem_check(const char *text, size_t len, enum pem_kind kind,
    struct error *err)
{
	const char *at = text;
	struct block b;
	int r;

	if (memchr(text, '\0', len) != NULL)
		return error_set(err, ERR_CONFIG, "not PEM: a NUL byte");
	if (kind != PEM_KEY)
		return certs_check(text, kind == PEM_CA, err);
	/* openssl ecparam -genkey puts EC PARAMETERS before the key. */
	while ((r = block_next(&at, &b, err)) == 1)
		if (strstr(b.label, "PRIVATE KEY") != NULL)
			return key_check(&b, err);
	if (r == -1)
		return -1;
	return error_set(err, ERR_CONFIG, "no PEM private key in it");
}
