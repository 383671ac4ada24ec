/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "buf.h"
#include "error.h"
#include "jobwire.h"

static const char digits[] = "0123456789abcdef";

void
jobwire_head(char head[JOBWIRE_HEAD], char type, size_t len)
{
	head[0] = type;
	for (int i = 0; i < 8; i++)
		head[1 + i] = digits[len >> (28 - 4 * i) & 15];
	head[9] = '\n';
}

void
jobwire_put(struct buf *out, char type, const void *data, size_t len)
{
	char head[JOBWIRE_HEAD];

	jobwire_head(head, type, len);
	buf_put(out, head, sizeof(head));
	buf_put(out, data, len);
}

static int
head_read(struct jobwire *w)
{
	const char *at;
	size_t len = 0;

	if (w->head[0] < 'A' || w->head[0] > 'Z' || w->head[9] != '\n')
		return -1;
	for (int i = 1; i < 9; i++) {
		if (w->head[i] == '\0' ||
		    (at = strchr(digits, w->head[i])) == NULL)
			return -1;
		len = len << 4 | (size_t)(at - digits);
	}
	if (len > JOBWIRE_MAX)
		return -1;
	w->left = len;
	return 0;
}

int
jobwire_feed(struct jobwire *w, const char *data, size_t len, jobwire_fn *fn,
    void *arg, struct error *err)
{
	size_t n;

	while (len > 0) {
		if (w->ended)
			return error_set(err, ERR_CLUSTER, "something follows "
			    "the end of the job's result");
		if (w->n < JOBWIRE_HEAD) {
			w->head[w->n++] = *data++;
			len--;
			if (w->n < JOBWIRE_HEAD)
				continue;
			if (head_read(w) == -1)
				return error_set(err, ERR_CLUSTER,
				    "the job's result is garbled");
			if (w->left > 0)
				continue;
		}
		n = len < w->left ? len : w->left;
		w->left -= n;
		if (w->left == 0) {
			w->n = 0;
			w->ended = w->head[0] == 'Z';
		}
		if (fn(arg, w->head[0], data, n, w->left == 0) == -1)
			return error_set(err, ERR_CLUSTER, "the job's result "
			    "can't be used");
		data += n;
		len -= n;
	}
	return 0;
}

uint64_t
jobwire_take(struct jobwire_cap *c, uint64_t size)
{
	uint64_t left = c->max - c->taken;

	if (left == 0) {
		c->truncated = true;
		return 0;
	}
	if (size > left) {
		c->truncated = true;
		size = left;
	}
	c->taken += size;
	return size;
}

/* One character may be retried for each kind of star: no recursion. */
bool
jobwire_glob(const char *p, const char *s)
{
	const char *star = NULL, *star_at = NULL;
	const char *any = NULL, *any_at = NULL;
	bool parts = false;

	for (;;) {
		if (p[0] == '*' && p[1] == '*') {
			p += 2;
			parts = *p == '/';	/* of whole parts, maybe none */
			p += parts;
			any = p;
			any_at = s;
			star = NULL;
		} else if (*p == '*') {
			star = ++p;
			star_at = s;
		} else if (*s != '\0' && (*p == *s ||
		    (*p == '?' && *s != '/'))) {
			p++;
			s++;
		} else if (*s == '\0' && *p == '\0') {
			return true;
		} else if (star != NULL && *star_at != '\0' &&
		    *star_at != '/') {
			p = star;
			s = ++star_at;
		} else if (any != NULL && *any_at != '\0') {
			star = NULL;
			p = any;
			any_at = parts ? strchr(any_at, '/') : any_at;
			if (any_at == NULL)
				return false;
			s = ++any_at;
		} else {
			return false;
		}
	}
}
