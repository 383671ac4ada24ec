/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api.h"
#include "budget.h"
#include "json.h"
#include "jsonw.h"
#include "serve.h"

static const struct {
	enum error_code code;
	int status;
	const char *word;
} kinds[] = {
	{ ERR_INPUT, 400, "INVALID_ARGUMENT" },
	{ ERR_DENIED, 403, "PERMISSION_DENIED" },
	{ ERR_GONE, 404, "NOT_FOUND" },
	{ ERR_CONFLICT, 409, "CONFLICT" },
	{ ERR_LIMIT, 416, "OUT_OF_RANGE" },
	{ ERR_NONE, 500, "INTERNAL" }		/* all the others */
};

static void
refuse(struct conn *c, const struct error *err, const char *extra)
{
	struct buf b;
	struct jsonw w;
	size_t i = 0;

	while (kinds[i].code != ERR_NONE && kinds[i].code != err->code)
		i++;
	buf_init(&b, 8192);
	jsonw_init(&w, &b);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "code", kinds[i].word);
	jsonw_str(&w, "message", err->text);
	jsonw_end(&w);
	buf_puts(&b, "\n");
	conn_answer(c, kinds[i].status, "application/json", extra, b.data,
	    b.len);
	buf_free(&b);
}

static int
the_path(const struct conn *c, char path[FILES_PATH], struct error *err)
{
	if (http_decode(c->part, c->part_len, path, FILES_PATH) == -1)
		return error_set(err, ERR_INPUT, "the path is too long, or "
		    "not percent-encoded");
	return 0;
}

static void
send_range(struct conn *c, const struct files_view *v, struct buf *extra)
{
	const char *range = http_field(&c->http, "Range");
	struct error err;
	int64_t first = 0, len = v->size;
	int r = 0;

	/* We have no validators to compare an If-Range with but the date. */
	if (range != NULL && http_field(&c->http, "If-Range") == NULL)
		r = files_range(range, v->size, &first, &len);
	if (r == -1) {
		buf_printf(extra, "Content-Range: bytes */%" PRId64 "\r\n",
		    v->size);
		error_set(&err, ERR_LIMIT, "the file has %" PRId64 " bytes",
		    v->size);
		refuse(c, &err, extra->data);
		return;
	}
	if (r == 1)
		buf_printf(extra, "Content-Range: bytes %" PRId64 "-%" PRId64
		    "/%" PRId64 "\r\n", first, first + len - 1, v->size);
	c->file_at = first;
	conn_file(c, r == 1 ? 206 : 200, extra->data, len);
}

static void
send_file(struct conn *c, const struct files_view *v)
{
	const char *since = http_field(&c->http, "If-Modified-Since");
	char date[HTTP_DATE_SIZE];
	struct buf extra;

	c->file = v->fd;
	buf_init(&extra, 512);
	http_date(v->mtime, date);
	buf_printf(&extra, "Accept-Ranges: bytes\r\nLast-Modified: %s\r\n",
	    date);
	if (since != NULL && http_date_parse(since) >= v->mtime)
		conn_answer(c, 304, NULL, extra.data, NULL, 0);
	else
		send_range(c, v, &extra);
	buf_free(&extra);
}

/* What stat_file tells. */
static void
send_status(struct conn *c, const char *path)
{
	struct error err;
	struct jsonw w;
	struct stat st;
	struct buf b;

	if (files_stat(&c->serve->files, path, &st, &err) == -1) {
		refuse(c, &err, NULL);
		return;
	}
	buf_init(&b, 512);
	jsonw_init(&w, &b);
	jsonw_object(&w, NULL);
	jsonw_int(&w, "mode", st.st_mode);
	jsonw_int(&w, "size", (long)st.st_size);
	jsonw_int(&w, "modified", (long)st.st_mtime);
	jsonw_end(&w);
	buf_puts(&b, "\n");
	conn_answer(c, 200, "application/json", NULL, b.data, b.len);
	buf_free(&b);
}

void
api_files_get(struct conn *c)
{
	char path[FILES_PATH];
	struct files_view v = { .fd = -1 };
	int64_t status = 0;
	struct error err;
	struct buf b;

	buf_init(&b, LIMIT_AGENT_LISTING);
	if (conn_number(c, "stat", 0, 1, &status) == 1 && status == 1 &&
	    the_path(c, path, &err) == 0)
		send_status(c, path);
	else if (the_path(c, path, &err) == -1 ||
	    files_get(&c->serve->files, path, &v, &b, &err) == -1)
		refuse(c, &err, NULL);
	else if (v.is_dir)
		conn_answer(c, 200, "application/json", NULL, b.data, b.len);
	else
		send_file(c, &v);
	buf_free(&b);
}

static int
put_query(const struct conn *c, long *mode, int64_t *offset,
    struct error *err)
{
	char text[8];
	int64_t append = 0;
	long n = http_query(c->query, "mode", text, sizeof(text));

	*mode = -1;
	*offset = -1;
	if (n != -2) {
		if (n != 4 || text[0] != '0' ||
		    strspn(text, "01234567") != 4)
			return error_set(err, ERR_INPUT,
			    "mode: 0 and three octal digits, as in 0644");
		*mode = (text[1] - '0') << 6 | (text[2] - '0') << 3 |
		    (text[3] - '0');
	}
	if (conn_number(c, "append", 0, 1, &append) == -1 ||
	    conn_number(c, "offset", 0, INT64_MAX / 2, offset) == -1)
		return error_set(err, ERR_INPUT,
		    "append is 0 or 1, offset a number of bytes");
	if (append == 1 && *offset != -1)
		return error_set(err, ERR_INPUT, "append or offset, not both");
	if (append == 1)
		*offset = -2;
	return 0;
}

/* A refusal is answered when the body has been read. */
void
api_files_put_begin(struct conn *c)
{
	const char *type = http_field(&c->http, "Content-Type");
	char path[FILES_PATH];
	int64_t offset;
	long mode;

	c->put_err = (struct error){ 0 };
	if (type != NULL && strncmp(type, "multipart/", 10) == 0)
		error_set(&c->put_err, ERR_INPUT, "send the file itself as "
		    "the body, not as a part of a form");
	else if (the_path(c, path, &c->put_err) == 0 &&
	    put_query(c, &mode, &offset, &c->put_err) == 0)
		(void)files_put(&c->serve->files, path, mode, offset, &c->put,
		    &c->put_err);
	if (c->put_err.code == ERR_NONE)
		return;
	/* There is no need to be sent all of it for that. */
	if (c->http.expects) {
		c->close = true;
		refuse(c, &c->put_err, NULL);
	}
}

void
api_files_put(struct conn *c)
{
	char extra[160];
	int n;

	if (c->put_err.code == ERR_NONE)
		(void)files_put_end(&c->put, &c->put_err);
	if (c->put_err.code != ERR_NONE) {
		refuse(c, &c->put_err, NULL);
		return;
	}
	n = snprintf(extra, sizeof(extra), "X-Size: %" PRId64 "\r\nX-SHA256: ",
	    c->put.size);
	for (size_t i = 0; i < sizeof(c->put.sum); i++)
		n += snprintf(extra + n, sizeof(extra) - (size_t)n, "%02x",
		    c->put.sum[i]);
	(void)snprintf(extra + n, sizeof(extra) - (size_t)n, "\r\n");
	conn_answer(c, 204, NULL, extra, NULL, 0);
}

void
api_files_move(struct conn *c)
{
	char path[FILES_PATH], to[FILES_PATH] = "";
	struct json_doc *doc;
	struct error err = { 0 };
	bool overwrite = false;

	doc = json_parse_lax(c->body.data != NULL ? c->body.data : "",
	    c->body.len, &err);
	(void)json_bool(json_get(json_root(doc), "overwrite"), &overwrite);
	if (doc == NULL || !json_str(json_get(json_root(doc), "to"), to,
	    sizeof(to)) || to[0] == '\0')
		error_set(&err, ERR_INPUT, "the body is {\"to\":\"path\"}, and "
		    "\"overwrite\":true if need be");
	else if (the_path(c, path, &err) == 0)
		(void)files_move(&c->serve->files, path, to, overwrite, &err);
	json_free(doc);
	if (err.code != ERR_NONE)
		refuse(c, &err, NULL);
	else
		conn_answer(c, 204, NULL, NULL, NULL, 0);
}

/* Go's strconv.ParseBool. */
static int
parse_bool(const char *s, bool *b)
{
	static const char *const yes[] = { "1", "t", "T", "true", "TRUE",
	    "True", NULL }, *const no[] = { "0", "f", "F", "false", "FALSE",
	    "False", NULL };
	size_t i;

	for (i = 0; yes[i] != NULL; i++) {
		if (strcmp(s, yes[i]) == 0 || strcmp(s, no[i]) == 0) {
			*b = strcmp(s, yes[i]) == 0;
			return 0;
		}
	}
	return -1;
}

void
api_files_delete(struct conn *c)
{
	char path[FILES_PATH], text[8];
	struct error err = { 0 };
	bool recursive = false;
	long n = http_query(c->query, "recursive", text, sizeof(text));

	if (n != -2 && (n == -1 || parse_bool(text, &recursive) == -1))
		error_set(&err, ERR_INPUT, "recursive: true or false");
	else if (the_path(c, path, &err) == 0)
		(void)files_delete(&c->serve->files, path, recursive, &err);
	if (err.code != ERR_NONE)
		refuse(c, &err, NULL);
	else
		conn_answer(c, 204, NULL, NULL, NULL, 0);
}
