/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "buf.h"
#include "dns.h"

enum {
	HEAD = 12,
	RESPONSE = 0x80, RECURSE = 0x01,
	NO_SUCH_NAME = 3,
	CLASS_IN = 1
};

struct message {
	const unsigned char *data, *at, *end;
};

static void
put16(struct buf *out, unsigned n)
{
	unsigned char two[2] = { (unsigned char)(n >> 8), (unsigned char)n };

	buf_put(out, two, 2);
}

void
dns_query(struct buf *out, uint16_t id, const char *name, int type)
{
	put16(out, id);
	put16(out, RECURSE << 8);
	put16(out, 1);
	put16(out, 0);
	put16(out, 0);
	put16(out, 0);
	while (*name != '\0') {
		size_t n = strcspn(name, ".");
		unsigned char len = (unsigned char)n;

		buf_put(out, &len, 1);
		buf_put(out, name, n);
		name += n + (name[n] == '.');
	}
	buf_put(out, "", 1);
	put16(out, (unsigned)type);
	put16(out, CLASS_IN);
}

/* -1: there is not that much. */
static int
get16(struct message *m)
{
	int n;

	if (m->end - m->at < 2)
		return -1;
	n = m->at[0] << 8 | m->at[1];
	m->at += 2;
	return n;
}

/* The question is repeated as it was sent, uncompressed. */
static bool
same_question(struct message *m, const char *name, int type)
{
	for (;;) {
		size_t n = strcspn(name, ".");

		if (m->end - m->at < (ptrdiff_t)n + 1 || *m->at != n ||
		    strncasecmp((const char *)m->at + 1, name, n) != 0)
			return false;
		m->at += n + 1;
		if (n == 0)
			break;
		name += n + (name[n] == '.');
	}
	return get16(m) == type && get16(m) == CLASS_IN;
}

/* A pointer ends a name, so nothing needs to be followed. */
static bool
skip_name(struct message *m)
{
	while (m->at < m->end) {
		unsigned n = *m->at++;

		if (n == 0)
			return true;
		if (n >= 0xc0)
			return m->at++ < m->end;
		if (n > 63 || m->end - m->at < (ptrdiff_t)n)
			return false;
		m->at += n;
	}
	return false;
}

/* One record; -1: the message ends in it. */
static int
record(struct message *m, int type, char dst[ADDRESS_SIZE])
{
	int size = type == DNS_A ? 4 : 16, t, class, len, found = 0;

	if (!skip_name(m) || (t = get16(m)) == -1 ||
	    (class = get16(m)) == -1 || get16(m) == -1 || get16(m) == -1 ||
	    (len = get16(m)) == -1 || m->end - m->at < len)
		return -1;
	if (t == type && class == CLASS_IN && len == size)
		found = inet_ntop(type == DNS_A ? AF_INET : AF_INET6, m->at,
		    dst, ADDRESS_SIZE) != NULL;
	m->at += len;
	return found;
}

int
dns_answer(const unsigned char *data, size_t len, uint16_t id,
    const char *name, int type, char dst[DNS_FOUND][ADDRESS_SIZE])
{
	struct message m = { data, data, data + len };
	int flags, records, n = 0, found;

	if (len < HEAD || get16(&m) != id || (flags = get16(&m)) == -1 ||
	    (flags >> 8 & RESPONSE) == 0 || get16(&m) != 1)
		return -1;
	records = get16(&m);
	m.at = data + HEAD;
	if (!same_question(&m, name, type))
		return -1;
	if ((flags & 0xf) == NO_SUCH_NAME)
		return -2;
	if ((flags & 0xf) != 0)
		return -3;
	/* A cut answer is used as far as it goes: one address is enough. */
	while (records-- > 0 && n < DNS_FOUND) {
		if ((found = record(&m, type, dst[n])) == -1)
			break;
		n += found;
	}
	return n;
}
