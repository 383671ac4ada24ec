/* SPDX-License-Identifier: Apache-2.0 */
#include <mbedtls/constant_time.h>
#include <mbedtls/md.h>
#include <stdint.h>
#include <string.h>

#include "base64.h"
#include "buf.h"
#include "digest.h"
#include "error.h"
#include "budget.h"
#include "seal.h"

enum { MAC = 32, TIME = 8, HEAD = MAC + TIME };

static void
put_time(unsigned char *p, long t)
{
	for (int i = 0; i < TIME; i++)
		p[i] = (unsigned char)((uint64_t)t >> (56 - 8 * i));
}

static long
get_time(const unsigned char *p)
{
	uint64_t t = 0;

	for (int i = 0; i < TIME; i++)
		t = t << 8 | p[i];
	return (long)t;
}

/* Over the time and the state, which follow each other in body. */
static int
mac(const unsigned char *key, const unsigned char *about, const void *body,
    size_t len, unsigned char *out)
{
	unsigned char in[SEAL_ABOUT + MAC] = { 0 };

	/* Both parts have a fixed size, so no two inputs look the same. */
	memcpy(in, about, SEAL_ABOUT);
	digest_raw(body, len, in + SEAL_ABOUT);
	return mbedtls_md_hmac(mbedtls_md_info_from_type(MBEDTLS_MD_SHA256),
	    key, SEAL_KEY, in, sizeof(in), out) == 0 ? 0 : -1;
}

int
seal_make(const unsigned char key[SEAL_KEY],
    const unsigned char about[SEAL_ABOUT], long now, const void *state,
    size_t len, struct buf *out, struct error *err)
{
	unsigned char head[HEAD];
	struct base64 b = { .n = 0 };
	struct buf body;
	size_t at = out->len;
	int r = -1;

	put_time(head + MAC, now + SEAL_SECONDS);
	buf_init(&body, LIMIT_REPLY);
	buf_put(&body, head + MAC, TIME);
	buf_put(&body, state, len);
	if (buf_ok(&body))
		r = mac(key, about, body.data, body.len, head);
	buf_free(&body);
	if (r == -1)
		return error_set(err, ERR_SYSTEM, "requestState: not sealed");
	base64_encode(&b, head, sizeof(head), out);
	base64_encode(&b, state, len, out);
	base64_encode_end(&b, out);
	if (!buf_ok(out))
		return error_set(err, ERR_LIMIT, "requestState: too long");
	for (; at < out->len && out->data[at] != '='; at++)
		if (out->data[at] == '+')
			out->data[at] = '-';
		else if (out->data[at] == '/')
			out->data[at] = '_';
	out->len = at;
	return 0;
}

/* The standard alphabet with padding, from the one for URLs without. */
static int
decode(const char *s, size_t len, struct buf *out, struct error *err)
{
	struct base64 b = { .n = 0 };
	char c;

	for (size_t i = 0; i < len; i++) {
		c = s[i];
		if (c == '-')
			c = '+';
		else if (c == '_')
			c = '/';
		else if (strchr("+/= \t\r\n", c) != NULL)
			return error_set(err, ERR_INPUT, "not base64url");
		if (base64_decode(&b, &c, 1, out, err) == -1)
			return -1;
	}
	if (base64_decode(&b, "==", (4 - len % 4) % 4 % 3, out, err) == -1)
		return -1;
	return base64_decode_end(&b, err);
}

int
seal_open(const unsigned char key[SEAL_KEY],
    const unsigned char about[SEAL_ABOUT], long now, const char *sealed,
    size_t len, struct buf *state, struct error *err)
{
	unsigned char want[MAC];
	const unsigned char *p;
	struct buf body;
	struct error why;
	int r = -1;

	buf_init(&body, LIMIT_REPLY);
	if (decode(sealed, len, &body, &why) == -1 || !buf_ok(&body) ||
	    body.len < HEAD) {
		(void)error_set(err, ERR_INPUT, "requestState is not one of "
		    "ours; call again without it");
		goto out;
	}
	p = (const unsigned char *)body.data;
	if (mac(key, about, p + MAC, body.len - MAC, want) == -1 ||
	    mbedtls_ct_memcmp(want, p, MAC) != 0)
		(void)error_set(err, ERR_INPUT, "requestState was changed or "
		    "belongs to another request; call again without it");
	else if (get_time(p + MAC) < now)
		(void)error_set(err, ERR_INPUT, "requestState has expired "
		    "after %d minutes; call again without it",
		    SEAL_SECONDS / 60);
	else
		r = 0;
	if (r == 0)
		buf_put(state, p + HEAD, body.len - HEAD);
out:
	buf_free(&body);
	return r;
}

void
seal_about(unsigned char about[SEAL_ABOUT], const void *piece, size_t len)
{
	unsigned char size[TIME];
	struct digest d;

	put_time(size, (long)len);
	digest_begin(&d);
	digest_put(&d, about, SEAL_ABOUT);
	digest_put(&d, size, sizeof(size));
	digest_put(&d, piece, len);
	digest_sum(&d, about);
}
