/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "spill.h"
#include "utf8.h"

enum { SCOPES = 64 };		/* no document may be nested deeper */

/* Sixteen bytes, for machines that compare as many at once; signed, as those
 * of 80 and up are to be below a blank. */
typedef signed char bytes __attribute__((vector_size(16)));
typedef uint64_t words __attribute__((vector_size(16)));

void
spill_init(struct spill *s, size_t from, size_t text_max, spill_sink *sink,
    void *arg)
{
	*s = (struct spill){ .sink = sink, .arg = arg, .from = from,
	    .value = true };
	buf_init(&s->text, text_max);
}

void
spill_free(struct spill *s)
{
	buf_free(&s->text);
	free(s->spans);
	s->spans = NULL;
	s->nspans = s->cap = 0;
}

void
spill_reset(struct spill *s, size_t keep)
{
	struct buf text = s->text;

	buf_reset(&text, keep);
	free(s->spans);
	*s = (struct spill){ .sink = s->sink, .arg = s->arg, .from = s->from,
	    .value = true, .text = text };
}

/* --- the check of what spills ------------------------------------------- */

/* at: of the byte in what is being fed; the first fault counts. */
static void
refuse(struct spill *s, uint64_t at, const char *why)
{
	if (s->why != NULL)
		return;
	s->why = why;
	s->why_at = at;
}

static void
check_hex(struct spill *s, unsigned char c, uint64_t at)
{
	unsigned char low = c | 32;

	if (c >= '0' && c <= '9')
		s->unit = s->unit << 4 | (unsigned)(c - '0');
	else if (low >= 'a' && low <= 'f')
		s->unit = s->unit << 4 | (unsigned)(low - 'a' + 10);
	else
		refuse(s, at, s->high ? "a lone surrogate in a string" :
		    "four hexadecimal digits are missing");
	if (++s->digits < 4)
		return;
	s->state = SPILL_PLAIN;
	if (s->high != (s->unit >= 0xdc00 && s->unit <= 0xdfff))
		refuse(s, at, "a lone surrogate in a string");
	s->high = !s->high && s->unit >= 0xd800 && s->unit <= 0xdbff;
	if (s->high)
		s->state = SPILL_LOW;
}

static void
check_utf8(struct spill *s, unsigned char c, uint64_t at)
{
	const unsigned char *end;

	s->seq[s->nseq++] = c;
	end = s->seq + s->nseq;
	if (utf8_len(s->seq, end) == s->nseq)
		s->nseq = 0;
	/* All there is begins a sequence, so it may still become one. */
	else if (s->seq[0] < 0xc2 || s->seq[0] > 0xf4 ||
	    utf8_bad(s->seq, end) != s->nseq)
		refuse(s, at, "ill-formed UTF-8 in a string");
}

static void
check_byte(struct spill *s, unsigned char c, uint64_t at)
{
	switch (s->state) {
	case SPILL_PLAIN:
		if (c >= 0x80 || s->nseq > 0)
			check_utf8(s, c, at);
		else if (c == '\\')
			s->state = SPILL_ESCAPE;
		else if (c < ' ')
			refuse(s, at, "a control character in a string");
		break;
	case SPILL_ESCAPE:
		s->state = c == 'u' ? SPILL_HEX : SPILL_PLAIN;
		s->digits = s->unit = 0;
		if (c == 0 || strchr("\"\\/bfnrtu", c) == NULL)
			refuse(s, at, "an unknown escape in a string");
		break;
	case SPILL_HEX:
		check_hex(s, c, at);
		break;
	case SPILL_LOW:
	case SPILL_LOW_U:
		if (c != (s->state == SPILL_LOW ? '\\' : 'u'))
			refuse(s, at, "a lone surrogate in a string");
		s->digits = s->unit = 0;
		s->state = s->state == SPILL_LOW ? SPILL_LOW_U : SPILL_HEX;
		break;
	}
}

/* How many bytes from p on are nothing but themselves. */
static size_t
plain(const unsigned char *p, const unsigned char *end)
{
	const unsigned char *start = p;
	words special;
	bytes x;

	for (; end - p >= 16; p += 16) {
		memcpy(&x, p, 16);
		special = (words)((x < ' ') | (x == '"') | (x == '\\'));
		if ((special[0] | special[1]) != 0)
			break;
	}
	while (p < end && *p >= ' ' && *p < 0x80 && *p != '"' && *p != '\\')
		p++;
	return (size_t)(p - start);
}

/* Raw bytes of a string that spills, up to its end; how many. at: of the first
 * in the message. */
static size_t
give(struct spill *s, const char *raw, size_t len, uint64_t at)
{
	const unsigned char *start = (const unsigned char *)raw, *p = start;
	const unsigned char *end = start + len;
	size_t n;

	while (p < end && s->why == NULL) {
		if (s->state == SPILL_PLAIN && s->nseq == 0) {
			p += plain(p, end);
			if (p == end || *p == '"')
				break;
		}
		s->spans[s->nspans - 1].escapes |= *p == '\\';
		check_byte(s, *p, at + (uint64_t)(p - start));
		p++;
	}
	n = (size_t)(p - start);
	s->spans[s->nspans - 1].len += n;
	s->given += n;
	if (n > 0)
		s->sink(s->arg, raw, n);
	return n;
}

/* --- the message -------------------------------------------------------- */

/* The string has grown too long for the message: it leaves it. at: its end
 * so far. */
static void
begin(struct spill *s, uint64_t at)
{
	size_t cap = s->cap == 0 ? 8 : 2 * s->cap, len;
	struct spill_span *more;

	if (s->nspans == s->cap) {
		if ((more = realloc(s->spans, cap * sizeof(*more))) == NULL) {
			s->lost = true;
			return;
		}
		s->spans = more;
		s->cap = cap;
	}
	len = s->text.len - s->start - 1;
	s->spans[s->nspans++] = (struct spill_span){ .at = s->start,
	    .from = s->given };
	s->out = true;
	s->escaped = false;
	s->state = SPILL_PLAIN;
	s->nseq = 0;
	s->high = false;
	(void)give(s, s->text.data + s->start + 1, len, at - len);
	s->text.len = s->start + 1;
	s->text.data[s->text.len] = '\0';
}

static void
end_string(struct spill *s, uint64_t at)
{
	s->inside = false;
	if (!s->out)
		return;
	if (s->state == SPILL_LOW || s->state == SPILL_LOW_U)
		refuse(s, at, "a lone surrogate in a string");
	else if (s->state == SPILL_HEX)
		refuse(s, at, s->high ? "a lone surrogate in a string" :
		    "four hexadecimal digits are missing");
	else if (s->nseq > 0)
		refuse(s, at, "ill-formed UTF-8 in a string");
	s->out = false;
}

/* How far the string goes on in p, its end apart. */
static size_t
run(struct spill *s, const char *p, size_t len)
{
	const unsigned char *u = (const unsigned char *)p, *end = u + len;

	while (u < end) {
		if (s->escaped) {
			s->escaped = false;
			u++;
			continue;
		}
		u += plain(u, end);
		if (u == end || *u == '"')
			break;
		s->escaped = *u++ == '\\';
	}
	return (size_t)(u - (const unsigned char *)p);
}

/* Outside of strings, up to the next one. */
static const char *
scopes(struct spill *s, const char *p, const char *end)
{
	for (; p < end && *p != '"'; p++) {
		switch (*p) {
		case '{':
		case '[':
			s->objects = s->objects << 1 | (*p == '{');
			s->depth++;
			s->value = *p == '[';
			break;
		case '}':
		case ']':
			s->objects >>= 1;
			s->depth -= s->depth > 0;
			s->value = false;
			break;
		case ',':
			s->value = (s->objects & 1) == 0;
			break;
		case ':':
			s->value = true;
			break;
		default:
			break;
		}
	}
	return p;
}

void
spill_feed(struct spill *s, const char *data, size_t len)
{
	/* kept: from where on it is not yet in text, if it goes there */
	const char *p = data, *kept = data, *end = data + len;

	while (p < end && s->why == NULL && !s->lost && buf_ok(&s->text)) {
		if (!s->inside) {
			p = scopes(s, p, end);
			s->inside = p < end;
			s->start = s->text.len + (size_t)(p - kept);
			p += s->inside;
			continue;
		}
		if (s->out) {
			p += give(s, p, (size_t)(end - p), s->seen +
			    (uint64_t)(p - data));
			kept = p;
		} else {
			p += run(s, p, (size_t)(end - p));
		}
		if (!s->out && s->value && s->depth <= SCOPES && s->text.len +
		    (size_t)(p - kept) - s->start - 1 > s->from) {
			buf_put(&s->text, kept, (size_t)(p - kept));
			kept = p;
			if (buf_ok(&s->text))
				begin(s, s->seen + (uint64_t)(p - data));
		}
		if (p < end)
			end_string(s, s->seen + (uint64_t)(p++ - data));
	}
	if (p == end)
		buf_put(&s->text, kept, (size_t)(p - kept));
	s->seen += len;
}

int
spill_end(struct spill *s, struct error *err)
{
	if (s->why == NULL && s->inside && s->out)
		refuse(s, s->seen, "the text ends in a string");
	if (s->why != NULL)
		return error_set(err, ERR_INPUT, "not JSON: %s, at byte %llu",
		    s->why, (unsigned long long)s->why_at);
	if (s->lost || (!buf_ok(&s->text) && s->text.len < s->text.max / 2))
		return error_set(err, ERR_SYSTEM, "out of memory");
	if (!buf_ok(&s->text))
		return error_set(err, ERR_LIMIT, "a message is longer than "
		    "%zu bytes", s->text.max);
	return 0;
}
