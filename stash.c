/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "budget.h"
#include "stash.h"

enum {
	BLOCK = 1 << 20, BLOCKS = LIMIT_SPOOL,	/* MiB */
	FREE = 0, END = 0xffff
};

struct stash {
	int fd;
	struct error why;		/* there is none */
	const char *folder;
	unsigned used, hint;		/* blocks; none below hint is free */
	uint16_t *next;			/* what follows a block, plus 1 */
};

_Static_assert(BLOCKS < END, "a block's number fits");

/* --- the file ----------------------------------------------------------- */

struct stash *
stash_open(void)
{
	const char *own = getenv("TMPDIR");
	const char *const folders[] = { own != NULL ? own : "/var/tmp",
	    own != NULL ? NULL : "/tmp" };
	struct stash *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->folder = "";
	s->fd = -1;
	for (size_t i = 0; i < 2 && folders[i] != NULL && s->fd == -1; i++) {
		s->fd = openat(AT_FDCWD, folders[i], O_TMPFILE | O_RDWR |
		    O_CLOEXEC, 0600);
		s->folder = s->fd == -1 ? "" : folders[i];
	}
	if (s->fd == -1)
		(void)error_set(&s->why, ERR_CONFIG, "there is no folder for "
		    "what is longer: %s can't be written (%s); name one with "
		    "TMPDIR", own != NULL ? own : "/var/tmp and /tmp",
		    strerror(errno));
	return s;
}

void
stash_close(struct stash *s)
{
	if (s == NULL)
		return;
	if (s->fd != -1)
		(void)close(s->fd);
	free(s->next);
	free(s);
}

const struct error *
stash_why(const struct stash *s)
{
	static const struct error none = { ERR_CONFIG,
	    "there is no file for what is longer" };

	return s == NULL ? &none : s->fd == -1 ? &s->why : NULL;
}

const char *
stash_folder(const struct stash *s)
{
	return s == NULL ? "" : s->folder;
}

/* Its number, or END: all are in use, or there is no memory. */
static unsigned
block_take(struct stash *s)
{
	if (s->next == NULL && (s->next = calloc(BLOCKS,
	    sizeof(*s->next))) == NULL)
		return END;
	for (unsigned i = s->hint; i < BLOCKS; i++)
		if (s->next[i] == FREE) {
			s->next[i] = END;
			s->used++;
			s->hint = i + 1;
			return i;
		}
	return END;
}

/* Disk space goes back a run of blocks at a time. Where the file system knows
 * no holes, the blocks are used again, and go when nothing is held. */
static void
chain_free(struct stash *s, unsigned i)
{
	unsigned begin = i, next;

	while (i != END) {
		next = s->next[i] == END ? END : s->next[i] - 1u;
		s->next[i] = FREE;
		s->used--;
		if (i < s->hint)
			s->hint = i;
		if (next != i + 1) {
			(void)fallocate(s->fd, FALLOC_FL_PUNCH_HOLE |
			    FALLOC_FL_KEEP_SIZE, (off_t)begin * BLOCK,
			    (off_t)(i + 1 - begin) * BLOCK);
			begin = next;
		}
		i = next;
	}
	if (s->used == 0 && ftruncate(s->fd, 0) == -1)
		s->hint = 0;
}

/* --- what is in it ------------------------------------------------------ */

struct spilled *
spilled_new(struct stash *s)
{
	struct spilled *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->stash = s;
	p->holders = 1;
	p->first = p->last = p->read_block = END;
	return p;
}

struct spilled *
spilled_hold(struct spilled *p)
{
	if (p != NULL)
		p->holders++;
	return p;
}

static void
give_back(struct spilled *p)
{
	if (p->first != END)
		chain_free(p->stash, p->first);
	p->first = p->last = p->read_block = END;
}

void
spilled_drop(struct spilled *p)
{
	if (p == NULL || --p->holders > 0)
		return;
	give_back(p);
	free(p->spans);
	free(p);
}

/* The block where the next byte goes. */
static int
room(struct spilled *p)
{
	unsigned i;

	if (p->len % BLOCK != 0)
		return 0;
	if ((i = block_take(p->stash)) == END)
		return error_set(&p->err, ERR_BUSY, "the files of all calls "
		    "under way are more than %ld MiB: try again when one has "
		    "ended", (long)LIMIT_SPOOL);
	if (p->first == END)
		p->first = i;
	else
		p->stash->next[p->last] = (uint16_t)(i + 1);
	p->last = i;
	return 0;
}

static int
put(struct spilled *p, const char *data, size_t len)
{
	size_t off, n;
	ssize_t done;

	if (stash_why(p->stash) != NULL) {
		p->err = *stash_why(p->stash);
		return error_wrap(&p->err, "a message is longer than %ld "
		    "bytes", (long)LIMIT_MESSAGE);
	}
	for (; len > 0; data += done, len -= (size_t)done) {
		if (room(p) == -1)
			return -1;
		off = p->len % BLOCK;
		n = len < BLOCK - off ? len : BLOCK - off;
		done = pwrite(p->stash->fd, data, n, (off_t)p->last * BLOCK +
		    (off_t)off);
		if (done <= 0)
			return error_set(&p->err, ERR_SYSTEM, "the file for "
			    "what is too long for memory, in %s: %s",
			    p->stash->folder, done == 0 ? "no room" :
			    strerror(errno));
		p->len += (uint64_t)done;
	}
	return 0;
}

void
spilled_put(struct spilled *p, const char *data, size_t len)
{
	if (p->err.code == ERR_NONE && put(p, data, len) == -1)
		give_back(p);
}

/* Which block is the n-th of the chain? They are mostly asked for in turn. */
static unsigned
block_at(struct spilled *p, uint64_t n)
{
	if (p->read_block == END || n < p->read_at) {
		p->read_at = 0;
		p->read_block = p->first;
	}
	while (p->read_at < n && p->read_block != END) {
		unsigned next = p->stash->next[p->read_block];

		p->read_block = next == END ? END : next - 1;
		p->read_at++;
	}
	return p->read_block;
}

int
spilled_read(struct spilled *p, uint64_t at, char *dst, size_t n,
    struct error *err)
{
	bool there = at <= p->len && n <= p->len - at;
	unsigned block;
	size_t off, part;
	ssize_t got;

	for (; n > 0; at += (size_t)got, dst += got, n -= (size_t)got) {
		off = at % BLOCK;
		part = n < BLOCK - off ? n : BLOCK - off;
		block = there ? block_at(p, at / BLOCK) : END;
		got = block == END ? 0 : pread(p->stash->fd, dst, part,
		    (off_t)block * BLOCK + (off_t)off);
		if (got <= 0)
			return error_set(err, ERR_SYSTEM, "the file for what "
			    "is too long for memory, in %s: %s",
			    p->stash->folder, got == 0 ? "its bytes are gone" :
			    strerror(errno));
	}
	return 0;
}
