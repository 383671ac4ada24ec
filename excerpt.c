/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "excerpt.h"
#include "budget.h"

/*
 * Of each stream the first half of the budget is kept in head and the last
 * half in a ring. That is enough for every division of the budget: a stream
 * that fits the whole budget is head and ring together, and one that is cut
 * shows at most half of it at either end.
 */
struct stream {
	char *head;
	size_t head_len, head_cap, head_chars, head_max;
	char *ring;
	size_t start, ring_len, ring_cap, ring_chars, ring_max;
	struct utf8 utf8;	/* a sequence that has only begun */
	size_t chars, bytes, replaced;
	bool failed;
};

struct excerpt {
	size_t budget;
	struct stream stream[2];
	int last;		/* the stream that wrote last */
};

struct excerpt *
excerpt_open(size_t budget)
{
	struct excerpt *x = calloc(1, sizeof(*x));

	assert(budget >= 128 && budget <= LIMIT_OUTPUT_CHARS);
	if (x == NULL)
		return NULL;
	x->budget = budget;
	for (int i = 0; i < 2; i++) {
		x->stream[i].head_max = budget / 2;
		x->stream[i].ring_max = budget - budget / 2;
	}
	return x;
}

void
excerpt_close(struct excerpt *x)
{
	if (x == NULL)
		return;
	for (int i = 0; i < 2; i++) {
		free(x->stream[i].head);
		free(x->stream[i].ring);
	}
	free(x);
}

/* What is kept is well-formed, so the first byte tells. */
static size_t
char_len(char first)
{
	unsigned char c = (unsigned char)first;

	return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* Bytes of the first n characters at p. */
static size_t
prefix_len(const char *p, size_t n)
{
	const char *q = p;

	while (n-- > 0)
		q += char_len(*q);
	return (size_t)(q - p);
}

/* A capacity for need bytes, doubled from cap, at most max. */
static size_t
capacity(size_t cap, size_t need, size_t max)
{
	if (cap == 0)
		cap = 1024;
	while (cap < need)
		cap *= 2;
	return cap < max ? cap : max;
}

static bool
head_room(struct stream *s, size_t len)
{
	size_t cap;
	char *p;

	if (s->head_len + len <= s->head_cap)
		return true;
	cap = capacity(s->head_cap, s->head_len + len, 4 * s->head_max);
	if ((p = realloc(s->head, cap)) == NULL)
		return false;
	s->head = p;
	s->head_cap = cap;
	return true;
}

/* The kept bytes of the ring from at on: up to where it wraps. */
static size_t
ring_run(const struct stream *s, size_t at, const char **p)
{
	size_t pos = s->start + at, run;

	if (pos >= s->ring_cap)
		pos -= s->ring_cap;
	*p = s->ring + pos;
	run = s->ring_cap - pos;
	return run < s->ring_len - at ? run : s->ring_len - at;
}

static bool
ring_room(struct stream *s, size_t len)
{
	size_t cap, at, n;
	const char *run;
	char *p;

	if (s->ring_len + len <= s->ring_cap)
		return true;
	cap = capacity(s->ring_cap, s->ring_len + len, 4 * s->ring_max);
	if ((p = malloc(cap)) == NULL)
		return false;
	for (at = 0; at < s->ring_len; at += n) {
		n = ring_run(s, at, &run);
		memcpy(p + at, run, n);
	}
	free(s->ring);
	s->ring = p;
	s->ring_cap = cap;
	s->start = 0;
	return true;
}

/* Bytes of the ring's first n characters. */
static size_t
ring_prefix(const struct stream *s, size_t n)
{
	size_t len = 0, pos;

	if (s->ring_len == s->ring_chars)
		return n;	/* all ASCII */
	while (n-- > 0) {
		pos = s->start + len;
		len += char_len(s->ring[pos < s->ring_cap ? pos :
		    pos - s->ring_cap]);
	}
	return len;
}

static void
ring_drop(struct stream *s, size_t chars)
{
	size_t len = ring_prefix(s, chars);

	s->ring_len -= len;
	s->ring_chars -= chars;
	s->start += len;
	if (s->start >= s->ring_cap)
		s->start -= s->ring_cap;
}

/* Where the last n of chars characters begin. */
static size_t
suffix_at(const char *p, size_t len, size_t chars, size_t n)
{
	if (len == chars)
		return len - n;		/* all ASCII */
	for (; n > 0; n--)
		do
			len--;
		while (((unsigned char)p[len] & 0xc0) == 0x80);
	return len;
}

static bool
ring_add(struct stream *s, const char *p, size_t len, size_t chars)
{
	size_t at, n;

	if (chars > s->ring_max) {
		at = suffix_at(p, len, chars, s->ring_max);
		p += at;
		len -= at;
		chars = s->ring_max;
	}
	if (s->ring_chars + chars > s->ring_max)
		ring_drop(s, s->ring_chars + chars - s->ring_max);
	if (!ring_room(s, len))
		return false;
	for (at = s->start + s->ring_len; len > 0; at += n) {
		if (at >= s->ring_cap)
			at -= s->ring_cap;
		n = s->ring_cap - at < len ? s->ring_cap - at : len;
		memcpy(s->ring + at, p, n);
		p += n;
		len -= n;
		s->ring_len += n;
	}
	s->ring_chars += chars;
	return true;
}

/* A run of whole characters. */
static void
add(struct stream *s, const char *p, size_t len, size_t chars)
{
	size_t n = s->head_max - s->head_chars, bytes;

	if (n > chars)
		n = chars;
	if (n > 0) {
		bytes = len == chars ? n : prefix_len(p, n);
		if (!head_room(s, bytes)) {
			s->failed = true;
			return;
		}
		memcpy(s->head + s->head_len, p, bytes);
		s->head_len += bytes;
		s->head_chars += n;
		s->chars += n;
		p += bytes;
		len -= bytes;
		chars -= n;
	}
	if (chars > 0 && !ring_add(s, p, len, chars))
		s->failed = true;
	else
		s->chars += chars;
}

static void
add_char(void *arg, const unsigned char *seq, size_t n)
{
	struct stream *s = arg;

	if (seq != s->utf8.seq)
		s->replaced++;	/* not what came, but U+FFFD in its place */
	add(s, (const char *)seq, n, 1);
}

/* Length of the run of whole characters at p; *chars: how many. */
static size_t
run_len(const char *p, size_t len, size_t *chars)
{
	const unsigned char *s = (const unsigned char *)p, *end = s + len;
	uint64_t word;
	size_t n;

	*chars = 0;
	while (s < end) {
		/* Output is ASCII for the most part: eight at a time. */
		while (end - s >= 8) {
			memcpy(&word, s, sizeof(word));
			if ((word & 0x8080808080808080) != 0)
				break;
			s += 8;
			*chars += 8;
		}
		if (s == end || (n = utf8_len(s, end)) == 0)
			break;
		s += n;
		++*chars;
	}
	return (size_t)(s - (const unsigned char *)p);
}

int
excerpt_put(struct excerpt *x, int stream, const void *data, size_t len)
{
	struct stream *s = &x->stream[stream];
	const char *p = data, *end = p + len;
	size_t n, chars;

	s->failed = false;
	s->bytes += len;
	if (len > 0)
		x->last = stream;
	while (p < end && !s->failed) {
		n = s->utf8.need != 0 ? 0 :
		    run_len(p, (size_t)(end - p), &chars);
		if (n > 0)
			add(s, p, n, chars);
		else
			utf8_feed(&s->utf8, (unsigned char)*p, add_char, s);
		p += n > 0 ? n : 1;
	}
	return s->failed ? -1 : 0;
}

/* Characters as if the output ended now. */
static size_t
total(const struct stream *s)
{
	return s->chars + (s->utf8.need != 0);
}

/* How many characters this stream may show (agent-sandbox 1.9, 1 to 3). */
static size_t
share(const struct excerpt *x, int stream)
{
	size_t mine = total(&x->stream[stream]);
	size_t other = total(&x->stream[1 - stream]);
	size_t half_out = x->budget / 2, half_err = x->budget - half_out;
	size_t half = stream == EXCERPT_OUT ? half_out : half_err;

	if (mine + other <= x->budget || mine <= half)
		return mine;
	if (other <= x->budget - half)
		return x->budget - other;
	return half;
}

/* The marker for n omitted characters; its length, all ASCII. */
static size_t
marker(char *dst, size_t size, size_t n)
{
	return (size_t)snprintf(dst, size,
	    "\n[... %zu characters omitted ...]\n", n);
}

static void
put_ring(const struct stream *s, size_t at, struct buf *out)
{
	const char *run;
	size_t n;

	for (; at < s->ring_len; at += n) {
		n = ring_run(s, at, &run);
		buf_put(out, run, n);
	}
}

/* The last n characters, a sequence that has only begun among them. */
static void
put_tail(const struct stream *s, size_t n, struct buf *out)
{
	bool begun = s->utf8.need != 0;
	size_t skip;

	n -= begun;
	if (n > s->ring_chars) {
		skip = s->head_chars - (n - s->ring_chars);
		skip = prefix_len(s->head, skip);
		buf_put(out, s->head + skip, s->head_len - skip);
		n = s->ring_chars;
	}
	put_ring(s, ring_prefix(s, s->ring_chars - n), out);
	if (begun)
		buf_puts(out, "\xef\xbf\xbd");
}

void
excerpt_text(struct excerpt *x, int stream, struct buf *out,
    struct excerpt_totals *t)
{
	const struct stream *s = &x->stream[stream];
	size_t n = total(s), limit = share(x, stream), omit, last, keep;
	char mark[64];

	*t = (struct excerpt_totals){ .total = n, .bytes = s->bytes,
	    .replaced = s->replaced + (s->utf8.need != 0),
	    .truncated = limit < n };
	if (!t->truncated) {
		if (n > 0)
			put_tail(s, n, out);
		return;
	}
	/* The marker counts, and its own length depends on the count. */
	omit = n - limit;
	do {
		last = omit;
		omit = n - limit + marker(mark, sizeof(mark), last);
	} while (omit != last);
	keep = n - omit;
	buf_put(out, s->head, prefix_len(s->head, keep / 2));
	buf_puts(out, mark);
	put_tail(s, keep - keep / 2, out);
}

static char
byte_at(const struct stream *s, size_t i)
{
	const char *p;

	if (i < s->head_len)
		return s->head[i];
	(void)ring_run(s, i - s->head_len, &p);
	return *p;
}

static bool
is_break(char c)
{
	return c == '\n' || c == '\r';	/* a progress bar uses the latter */
}

void
excerpt_last_line(struct excerpt *x, char *dst, size_t max)
{
	const struct stream *s = &x->stream[x->last];
	size_t end = s->head_len + s->ring_len, from, i, n = 0;
	/* Past a gap the two are not one text. */
	bool gap = s->chars > s->head_chars + s->ring_chars;
	size_t first = gap ? s->head_len : 0;

	while (end > first && is_break(byte_at(s, end - 1)))
		end--;
	for (from = end; from > first && !is_break(byte_at(s, from - 1));)
		from--;
	for (i = from; i < end && n + 1 < max; i++) {
		dst[n] = byte_at(s, i);
		if (dst[n++] == '\0')
			dst[n - 1] = ' ';
	}
	dst[n] = '\0';
	utf8_clean(dst, i < end);
}
