/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "dotenv.h"
#include "error.h"

enum { EXPANDED = 4 << 20 };	/* bytes of all names and values */

struct reader {
	const char *at, *end;
	unsigned line;
	char *const *environ;
	char **list;
	size_t n, bytes;
};

void
dotenv_free(char **list)
{
	for (size_t i = 0; list != NULL && list[i] != NULL; i++)
		free(list[i]);
	free(list);
}

static int
peek(const struct reader *r)
{
	return r->at < r->end ? (unsigned char)*r->at : -1;
}

static bool
is_blank(int c)
{
	return c == ' ' || c == '\t' || c == '\f' || c == '\v';
}

static bool
is_end(int c)
{
	return c == '\n' || c == '\r' || c == -1;
}

static void
step(struct reader *r)
{
	/* CRLF is one end of a line; a lone CR too. */
	if (*r->at == '\n' || (*r->at == '\r' && (r->at + 1 == r->end ||
	    r->at[1] != '\n')))
		r->line++;
	r->at++;
}

static void
blanks(struct reader *r)
{
	while (is_blank(peek(r)))
		r->at++;
}

static void
rest_of_line(struct reader *r)
{
	while (!is_end(peek(r)))
		r->at++;
}

/* The value of name, the file's own first; NULL if it has none. */
static const char *
value_of(const struct reader *r, const char *name, size_t len)
{
	for (size_t i = r->n; i-- > 0;)
		if (strncmp(r->list[i], name, len) == 0 &&
		    r->list[i][len] == '=')
			return r->list[i] + len + 1;
	for (size_t i = 0; r->environ != NULL && r->environ[i] != NULL; i++)
		if (strncmp(r->environ[i], name, len) == 0 &&
		    r->environ[i][len] == '=')
			return r->environ[i] + len + 1;
	return NULL;
}

/* raw with its ${NAME}s replaced, behind what out has. */
static void
expand(const struct reader *r, const struct buf *raw, struct buf *out)
{
	const char *p = raw->data, *end = p + raw->len, *close, *name, *v;

	while (p < end) {
		size_t len, all;

		close = p[0] == '$' && end - p > 1 && p[1] == '{' ?
		    memchr(p, '}', (size_t)(end - p)) : NULL;
		if (close == NULL) {
			buf_put(out, p++, 1);
			continue;
		}
		name = p + 2;
		all = (size_t)(close - name);
		for (len = 0; len < all; len++)
			if (name[len] == ':' && len + 1 < all &&
			    name[len + 1] == '-')
				break;
		if ((v = value_of(r, name, len)) != NULL)
			buf_puts(out, v);
		else if (len < all)
			buf_put(out, name + len + 2, all - len - 2);
		p = close + 1;
	}
}

static char
escape(char c)
{
	static const char from[] = "abfnrtv", to[] = "\a\b\f\n\r\t\v";
	const char *at = c != '\0' ? strchr(from, c) : NULL;

	return at != NULL ? to[at - from] : c;
}

/* From behind the quote to behind the closing one. */
static bool
quoted(struct reader *r, int quote, struct buf *out)
{
	r->at++;
	while (r->at < r->end && *r->at != quote) {
		char c = *r->at;
		const char *plain = quote == '"' ? "\\'\"abfnrtv" : "\\'";
		bool is = c == '\\' && r->end - r->at > 1 &&
		    r->at[1] != '\0' && strchr(plain, r->at[1]) != NULL;

		step(r);
		if (is) {
			c = escape(*r->at);
			step(r);
		}
		buf_put(out, &c, 1);
	}
	if (r->at == r->end)
		return false;
	r->at++;
	return true;
}

static void
bare(struct reader *r, struct buf *out)
{
	const char *from = r->at, *to;

	while (!is_end(peek(r)) && !(*r->at == '#' && (r->at == from ||
	    is_blank((unsigned char)r->at[-1]))))
		r->at++;
	to = r->at;
	while (to > from && is_blank((unsigned char)to[-1]))
		to--;
	buf_put(out, from, (size_t)(to - from));
	rest_of_line(r);
}

static bool
name(struct reader *r, struct buf *out)
{
	const char *from;

	if (r->end - r->at > 6 && memcmp(r->at, "export", 6) == 0 &&
	    is_blank((unsigned char)r->at[6])) {
		r->at += 6;
		blanks(r);
	}
	if (peek(r) == '\'')
		return quoted(r, '\'', out);
	from = r->at;
	while (!is_end(peek(r)) && !is_blank(peek(r)) && *r->at != '=' &&
	    *r->at != '#')
		r->at++;
	buf_put(out, from, (size_t)(r->at - from));
	return r->at > from;
}

static int
keep(struct reader *r, const struct buf *key, const struct buf *raw,
    struct error *err)
{
	struct buf line;

	buf_init(&line, EXPANDED - r->bytes);
	buf_put(&line, key->data, key->len);
	buf_puts(&line, "=");
	if (raw->len > 0)
		expand(r, raw, &line);
	if (!buf_ok(&line) || r->n == DOTENV_MAX) {
		buf_free(&line);
		return error_set(err, ERR_LIMIT, "line %u: more than %d names "
		    "or %d bytes of values", r->line, DOTENV_MAX, EXPANDED);
	}
	r->bytes += line.len;
	r->list[r->n++] = line.data;
	return 0;
}

/* One binding; 1: the line is none. */
static int
binding(struct reader *r, struct error *err)
{
	struct buf key, raw;
	bool ok, is_set = false;
	int ret = 1;

	buf_init(&key, EXPANDED);
	buf_init(&raw, EXPANDED);
	ok = name(r, &key);
	blanks(r);
	if (ok && peek(r) == '=') {
		is_set = true;
		r->at++;
		blanks(r);
		if (peek(r) == '\'' || peek(r) == '"')
			ok = quoted(r, peek(r), &raw);
		else
			bare(r, &raw);
		blanks(r);
	}
	if (peek(r) == '#')
		rest_of_line(r);
	/* No C string holds a NUL. */
	if (ok && is_end(peek(r)) && buf_ok(&key) && buf_ok(&raw) &&
	    (raw.len == 0 || memchr(raw.data, '\0', raw.len) == NULL) &&
	    key.len > 0 && memchr(key.data, '\0', key.len) == NULL)
		ret = is_set ? keep(r, &key, &raw, err) : 0;
	buf_free(&key);
	buf_free(&raw);
	return ret;
}

static int
parse(struct reader *r, unsigned *bad, struct error *err)
{
	while (r->at < r->end) {
		unsigned line = r->line;
		const char *begin = r->at;
		int ret = 0;

		if (is_blank(peek(r)) || is_end(peek(r))) {
			step(r);
			continue;
		}
		if (*r->at == '#')
			rest_of_line(r);
		else
			ret = binding(r, err);
		if (ret == -1)
			return -1;
		if (ret == 1) {
			if (*bad == 0)
				*bad = line;
			r->at = begin;
			r->line = line;
			rest_of_line(r);
		}
	}
	return 0;
}

char **
dotenv_parse(const char *text, size_t len, char *const environ[],
    unsigned *bad, struct error *err)
{
	static const char mark[] = "\xef\xbb\xbf";
	struct reader r = { text, text + len, 1, environ, NULL, 0, 0 };

	*bad = 0;
	if (len >= 3 && memcmp(text, mark, 3) == 0)
		r.at += 3;
	if ((r.list = calloc(DOTENV_MAX + 1, sizeof(*r.list))) == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	if (parse(&r, bad, err) == -1) {
		dotenv_free(r.list);
		return NULL;
	}
	/* Who looks a name up takes the first. */
	for (size_t i = 0; i < r.n / 2; i++) {
		char *other = r.list[i];

		r.list[i] = r.list[r.n - 1 - i];
		r.list[r.n - 1 - i] = other;
	}
	return r.list;
}
