/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "error.h"
#include "grpc.h"
#include "budget.h"
#include "utf8.h"

enum { PREFIX = 5 };		/* a flag and four bytes of length */

static void
put_varint(struct buf *out, uint64_t v)
{
	unsigned char bytes[10];
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		bytes[n++] = (unsigned char)(v | 0x80);
	bytes[n++] = (unsigned char)v;
	buf_put(out, bytes, n);
}

void
pb_varint(struct buf *out, unsigned field, uint64_t v)
{
	put_varint(out, (uint64_t)field << 3);
	put_varint(out, v);
}

void
pb_bytes(struct buf *out, unsigned field, const void *data, size_t len)
{
	put_varint(out, (uint64_t)field << 3 | 2);
	put_varint(out, len);
	buf_put(out, data, len);
}

void
pb_str(struct buf *out, unsigned field, const char *s)
{
	pb_bytes(out, field, s, strlen(s));
}

void
grpc_frame(struct buf *out, size_t at)
{
	unsigned char prefix[PREFIX] = { 0 };
	size_t len = out->len - at;

	for (size_t i = 0; i < 4; i++)
		prefix[1 + i] = (unsigned char)(len >> (24 - 8 * i));
	buf_put(out, prefix, sizeof(prefix));
	if (!buf_ok(out))
		return;
	memmove(out->data + at + PREFIX, out->data + at, len);
	memcpy(out->data + at, prefix, sizeof(prefix));
}

static bool
get_varint(const char **p, const char *end, uint64_t *out)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		unsigned char c;

		if (*p == end)
			return false;
		c = (unsigned char)*(*p)++;
		if (shift == 63 && c > 1)
			return false;
		v |= (uint64_t)(c & 0x7f) << shift;
		if (c < 0x80) {
			*out = v;
			return true;
		}
	}
	return false;
}

static bool
get_fixed(const char **p, const char *end, size_t n, uint64_t *out)
{
	*out = 0;
	if ((size_t)(end - *p) < n)
		return false;
	for (size_t i = n; i > 0; i--)
		*out = *out << 8 | (unsigned char)(*p)[i - 1];
	*p += n;
	return true;
}

int
pb_next(const char **p, const char *end, struct pb_field *f)
{
	uint64_t tag;

	*f = (struct pb_field){ 0 };
	if (*p == end)
		return 0;
	if (!get_varint(p, end, &tag) || tag >> 3 == 0 || tag >> 32 != 0)
		return -1;
	f->number = (unsigned)(tag >> 3);
	f->type = (unsigned)(tag & 7);
	switch (f->type) {
	case 0:
		return get_varint(p, end, &f->value) ? 1 : -1;
	case 1:
		return get_fixed(p, end, 8, &f->value) ? 1 : -1;
	case 5:
		return get_fixed(p, end, 4, &f->value) ? 1 : -1;
	case 2:
		break;
	default:
		return -1;	/* groups, which proto3 has not */
	}
	if (!get_varint(p, end, &f->value) ||
	    f->value > (uint64_t)(end - *p))
		return -1;
	f->data = *p;
	f->len = (size_t)f->value;
	f->value = 0;
	*p += f->len;
	return 1;
}

void
grpc_reader_init(struct grpc_reader *r)
{
	buf_init(&r->held, LIMIT_GRPC + PREFIX);
}

void
grpc_reader_free(struct grpc_reader *r)
{
	buf_free(&r->held);
}

/* Length of the message whose prefix is held. */
static size_t
length(const struct grpc_reader *r)
{
	const unsigned char *p = (const unsigned char *)r->held.data;

	return (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 |
	    p[4];
}

static int
prefix_check(struct grpc_reader *r, struct error *err)
{
	if (r->held.data[0] == 0 && length(r) <= LIMIT_GRPC)
		return 0;
	r->held.failed = true;
	if (r->held.data[0] != 0)
		return error_set(err, ERR_CLUSTER, "gRPC: a compressed "
		    "message, which was not asked for");
	return error_set(err, ERR_LIMIT, "gRPC: a message of %zu bytes, more "
	    "than %d", length(r), (int)LIMIT_GRPC);
}

int
grpc_feed(struct grpc_reader *r, const void *data, size_t len, grpc_got *got,
    void *arg, struct error *err)
{
	const char *p = data, *end = p + len;
	size_t take, total;

	while (p < end && buf_ok(&r->held)) {
		total = r->held.len < PREFIX ? PREFIX : PREFIX + length(r);
		take = total - r->held.len;
		if (take > (size_t)(end - p))
			take = (size_t)(end - p);
		buf_put(&r->held, p, take);
		p += take;
		if (!buf_ok(&r->held))
			break;
		if (r->held.len == PREFIX && prefix_check(r, err) == -1)
			return -1;
		if (r->held.len < PREFIX ||
		    r->held.len < PREFIX + length(r))
			continue;
		/* got() may free the reader when it returns -1. */
		if (got(arg, r->held.data + PREFIX, length(r)) == -1)
			return -1;
		buf_reset(&r->held, LIMIT_PUMP);
	}
	if (!buf_ok(&r->held))
		return error_set(err, ERR_SYSTEM, "gRPC: no memory, or the "
		    "stream is broken already");
	return 0;
}

bool
grpc_reader_idle(const struct grpc_reader *r)
{
	return r->held.len == 0;
}

const char *
grpc_code_name(long code)
{
	static const char *const names[] = {
		"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT",
		"DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
		"PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
		"FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
		"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
		"UNAUTHENTICATED",
	};

	if (code < 0 || (size_t)code >= sizeof(names) / sizeof(names[0]))
		return "UNKNOWN";
	return names[code];
}

static int
nibble(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 32;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void
grpc_message_decode(const char *text, size_t len, char *dst, size_t size)
{
	const char *end = text + len;
	size_t n = 0;
	int hi, lo;
	char c;

	if (size == 0)
		return;
	while (text < end && n < size - 1) {
		c = *text++;
		/* What isn't two digits stays as it came: it is only words. */
		if (c == '%' && end - text >= 2 &&
		    (hi = nibble(text[0])) != -1 &&
		    (lo = nibble(text[1])) != -1) {
			c = (char)(hi << 4 | lo);
			text += 2;
		}
		dst[n++] = c != '\0' ? c : ' ';
	}
	dst[n] = '\0';
	utf8_clean(dst, text < end);
}
