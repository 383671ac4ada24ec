/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "budget.h"
#include "spool.h"

enum { PIECE = 16 << 10, SETTLED = 4 << 10 };

/* Gone when we are, however we end. */
static int
nameless(const char *dir)
{
	char path[4200];
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd != -1 || dir[0] == '\0')
		return fd;
	/* Some file systems can't do that. */
	(void)snprintf(path, sizeof(path), "%s/.mcp-sandbox-XXXXXX", dir);
	if ((fd = mkostemp(path, O_CLOEXEC)) != -1)
		(void)unlink(path);
	return fd;
}

void
spool_store_init(struct spool_store *s, const char *const *dirs)
{
	int fd;

	*s = (struct spool_store){ .max = LIMIT_AGENT_SPOOLS,
	    .each = LIMIT_AGENT_SPOOL };
	for (; *dirs != NULL; dirs++) {
		if (**dirs != '/' || strlen(*dirs) >= sizeof(s->dir) ||
		    (fd = nameless(*dirs)) == -1)
			continue;
		close(fd);
		(void)snprintf(s->dir, sizeof(s->dir), "%s", *dirs);
		return;
	}
}

void
spool_init(struct spool *s, struct spool_store *store)
{
	*s = (struct spool){ .store = store, .fd = -1 };
	buf_init(&s->head, LIMIT_AGENT_TAIL);
}

void
spool_free(struct spool *s)
{
	if (s->fd != -1) {
		close(s->fd);
		s->store->used -= s->kept;
	}
	buf_free(&s->head);
	free(s->ring);
	*s = (struct spool){ .store = s->store, .fd = -1 };
	buf_init(&s->head, LIMIT_AGENT_TAIL);
}

/* How many of len bytes got into the file. */
static size_t
file_put(struct spool *s, const char *data, size_t len)
{
	uint64_t room = s->store->max - s->store->used;
	size_t done = 0;
	ssize_t n;

	if (room > s->store->each - s->kept)
		room = s->store->each - s->kept;
	if (len > room)
		len = (size_t)room;
	while (done < len) {
		n = pwrite(s->fd, data + done, len - done, (off_t)s->kept);
		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
		s->kept += (uint64_t)n;
		s->store->used += (uint64_t)n;
	}
	return done;
}

/* From memory to a file; all or nothing. */
static bool
move_out(struct spool *s)
{
	uint64_t kept = s->kept;

	if (s->fd != -1 || s->store->dir[0] == '\0' ||
	    (s->fd = nameless(s->store->dir)) == -1)
		return s->fd != -1;
	s->kept = 0;
	if (file_put(s, s->head.data, s->head.len) < s->head.len) {
		s->store->used -= s->kept;
		s->kept = kept;
		close(s->fd);
		s->fd = -1;
		return false;
	}
	buf_free(&s->head);
	return true;
}

/* How many of len bytes were kept from the first on. */
static size_t
keep(struct spool *s, const char *data, size_t len)
{
	size_t n = len;

	if (s->full)
		return 0;
	if (s->fd == -1 && s->head.len + len > LIMIT_AGENT_MEMORY)
		(void)move_out(s);
	if (s->fd != -1) {
		n = file_put(s, data, len);
	} else {
		if (n > buf_room(&s->head))
			n = buf_room(&s->head);
		buf_put(&s->head, data, n);
		if (!buf_ok(&s->head))
			n = 0;
		s->kept += n;
	}
	s->full = n < len;
	return n;
}

static void
ring_put(struct spool *s, const char *data, size_t len)
{
	size_t at, n;

	if (len > 0 && s->ring == NULL)
		s->ring = malloc(LIMIT_AGENT_TAIL);
	if (s->ring == NULL)
		return;
	if (len > LIMIT_AGENT_TAIL) {
		data += len - LIMIT_AGENT_TAIL;
		len = LIMIT_AGENT_TAIL;
	}
	while (len > 0) {
		at = (s->ring_at + s->ring_len) % LIMIT_AGENT_TAIL;
		n = LIMIT_AGENT_TAIL - at;
		if (n > len)
			n = len;
		memcpy(s->ring + at, data, n);
		data += n;
		len -= n;
		s->ring_len += n;
		if (s->ring_len > LIMIT_AGENT_TAIL) {
			s->ring_at = (s->ring_at + s->ring_len -
			    LIMIT_AGENT_TAIL) % LIMIT_AGENT_TAIL;
			s->ring_len = LIMIT_AGENT_TAIL;
		}
	}
}

static uint64_t
newlines(const char *p, size_t len)
{
	const char *end = p + len;
	uint64_t n = 0;

	while ((p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
		n++;
		p++;
	}
	return n;
}

void
spool_put(struct spool *s, const void *data, size_t len)
{
	const char *p = data;
	size_t n;

	if (len == 0)
		return;
	n = keep(s, p, len);
	ring_put(s, p + n, len - n);
	s->total += len;
	s->newlines += newlines(p, len);
	s->last = p[len - 1];
}

void
spool_settle(struct spool *s)
{
	if (s->fd == -1 && s->head.len > SETTLED)
		(void)move_out(s);
}

uint64_t
spool_lines(const struct spool *s)
{
	return s->newlines + (s->total > 0 && s->last != '\n');
}

static uint64_t
ring_start(const struct spool *s)
{
	return s->total - s->ring_len;
}

long
spool_read(const struct spool *s, uint64_t offset, char *dst, size_t size)
{
	size_t n, at;

	if (offset >= s->total)
		return 0;
	if (offset < s->kept) {
		n = size;
		if (n > s->kept - offset)
			n = (size_t)(s->kept - offset);
		if (s->fd != -1)
			return pread(s->fd, dst, n, (off_t)offset);
		memcpy(dst, s->head.data + offset, n);
		return (long)n;
	}
	if (offset < ring_start(s))
		return -1;
	at = (size_t)(offset - ring_start(s));
	n = s->ring_len - at;
	at = (s->ring_at + at) % LIMIT_AGENT_TAIL;
	if (n > LIMIT_AGENT_TAIL - at)
		n = LIMIT_AGENT_TAIL - at;
	if (n > size)
		n = size;
	memcpy(dst, s->ring + at, n);
	return (long)n;
}

/*
 * The place after count newlines from offset on, or the end of what can be
 * read there; *count becomes how many are missing.
 */
static uint64_t
skip_lines(const struct spool *s, uint64_t offset, uint64_t *count)
{
	char room[PIECE], *p, *end;
	long n;

	while (*count > 0 && (n = spool_read(s, offset, room, PIECE)) > 0) {
		end = room + n;
		for (p = room; *count > 0 && p < end; p++)
			if (*p == '\n')
				--*count;
		offset += (uint64_t)(p - room);
	}
	return offset;
}

/* Where the line is; *offset is only set if it is there. */
static bool
find_start(const struct spool *s, uint64_t number, uint64_t *offset)
{
	uint64_t left = number - 1, at = skip_lines(s, 0, &left), first;

	if (left == 0 && (at < s->kept || s->kept == s->total)) {
		*offset = at;
		return true;
	}
	if (s->ring_len == 0)
		return false;
	/* The ring's first line is a torn one: take those after it. */
	left = UINT64_MAX;
	(void)skip_lines(s, ring_start(s), &left);
	first = s->newlines - (UINT64_MAX - left) + 1;
	if (number <= first)
		return false;
	left = number - first;
	*offset = skip_lines(s, ring_start(s), &left);
	return true;
}

int
spool_find(const struct spool *s, int64_t *number, uint64_t lines,
    uint64_t max, uint64_t *offset, uint64_t *len)
{
	int64_t all = (int64_t)spool_lines(s);

	if (*number < 0)
		*number = *number < -all ? 1 : all + *number + 1;
	if (*number < 1 || *number > all ||
	    !find_start(s, (uint64_t)*number, offset))
		return -1;
	*len = skip_lines(s, *offset, &lines) - *offset;
	if (*len > max)
		*len = max;
	return 0;
}

static bool
copy(const struct spool *s, uint64_t from, uint64_t to, struct buf *out)
{
	char room[PIECE];
	size_t want;
	long n;

	while (from < to) {
		want = to - from < PIECE ? (size_t)(to - from) : PIECE;
		if ((n = spool_read(s, from, room, want)) <= 0)
			break;
		buf_put(out, room, (size_t)n);
		from += (uint64_t)n;
	}
	return buf_ok(out);
}

bool
spool_excerpt(const struct spool *s, size_t max, struct buf *head,
    struct buf *tail)
{
	uint64_t first = max / 2, last = s->total - (max - max / 2);

	if (s->total <= max && s->total <= s->kept + s->ring_len)
		return copy(s, 0, s->total, head);
	if (s->total <= max)
		first = last = s->kept;		/* memory ran out: a gap */
	if (first > s->kept)
		first = s->kept;
	if (last < ring_start(s) && last >= s->kept)
		last = ring_start(s);
	return copy(s, 0, first, head) && copy(s, last, s->total, tail);
}
