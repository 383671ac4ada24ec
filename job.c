/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base64.h"
#include "error.h"
#include "job-config.h"
#include "job.h"
#include "jobwire.h"
#include "jsonw.h"

/* --- values -------------------------------------------------------------- */

bool
job_quantity(const char *s, double *amount)
{
	static const struct {
		const char *suffix;
		double times;
	} units[] = { { "", 1 }, { "n", 1e-9 }, { "u", 1e-6 }, { "m", 1e-3 },
	    { "k", 1e3 }, { "M", 1e6 }, { "G", 1e9 }, { "T", 1e12 },
	    { "P", 1e15 }, { "E", 1e18 }, { "Ki", 0x1p10 }, { "Mi", 0x1p20 },
	    { "Gi", 0x1p30 }, { "Ti", 0x1p40 }, { "Pi", 0x1p50 },
	    { "Ei", 0x1p60 } };
	double n = strtod(s, NULL);
	size_t whole, part = 0;

	s += *s == '+' || *s == '-';
	s += whole = strspn(s, "0123456789");
	if (*s == '.')
		s += 1 + (part = strspn(s + 1, "0123456789"));
	if (whole + part == 0)
		return false;
	/* With an exponent, it is in n already. */
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(s, units[i].suffix) == 0) {
			*amount = n * units[i].times;
			return true;
		}
	*amount = n;
	if (*s != 'e' && *s != 'E')
		return false;
	s++;
	s += *s == '+' || *s == '-';
	return *s != '\0' && s[strspn(s, "0123456789")] == '\0';
}

int
job_mode(const char *s, long *mode)
{
	unsigned long n = 0;
	bool minus;

	*mode = 0644;
	if (*s == '\0')
		return 0;
	s += strspn(s, " \t\r\n");
	minus = *s == '-';
	s += *s == '+' || *s == '-';
	if (*s < '0' || *s > '7')
		return -1;
	for (; *s >= '0' && *s <= '7'; s++) {
		if (n > LONG_MAX >> 3)
			return -1;
		n = n << 3 | (unsigned long)(*s - '0');
	}
	*mode = minus ? -(long)n : (long)n;
	return 0;
}

int
job_base64(struct json text, struct buf *out)
{
	struct base64 b = { .loose = true };
	char piece[4096];
	struct error err;
	size_t at = 0, n;

	while ((n = json_piece(text, &at, piece, sizeof(piece))) > 0)
		if (base64_decode(&b, piece, n, out, &err) == -1)
			return -1;
	return base64_decode_end(&b, &err);
}

static bool
blank(const char *s)
{
	return s == NULL || s[strspn(s, " \t\r\n")] == '\0';
}

int
job_env_ok(const char *text)
{
	struct json_doc *doc;
	struct error err;
	struct json m;
	int r = -1;

	if (blank(text))
		return 0;
	if ((doc = json_parse_lax(text, strlen(text), &err)) == NULL)
		return -1;
	if (json_type(json_root(doc)) == JSON_NULL)
		r = 0;
	if (json_type(json_root(doc)) == JSON_OBJECT)
		r = 0;
	for (m = json_first(json_root(doc)); r == 0 &&
	    json_type(m) != JSON_NONE; m = json_next(m))
		if (json_type(m) != JSON_STRING && json_type(m) != JSON_NULL)
			r = -1;
	json_free(doc);
	return r;
}

/* --- checking ------------------------------------------------------------ */

struct check {
	struct job *j;
	const struct job_settings *s;
	const char **kind;
	struct error *err;
};

#define WRONG(k, word, ...)						\
	(*(k)->kind = (word), error_set((k)->err, ERR_INPUT,		\
	    "invalid arguments: " __VA_ARGS__))

static int
check_image(struct check *k, struct json v)
{
	bool loose = strcmp(k->s->match, "basename") == 0;
	char wish[JOB_REF] = "";
	struct buf names;

	if (json_str(v, wish, sizeof(wish)) && blank(wish))
		return WRONG(k, "image_required", "image is required");
	if (wish[0] != '\0' && job_image(k->s->images, loose, wish,
	    k->j->image, sizeof(k->j->image)) == 0)
		return 0;
	buf_init(&names, 512);
	job_image_names(k->s->images, loose, &names);
	(void)WRONG(k, "image_not_allowed", "image '%.200s' is not available "
	    "here; allowed: %.400s", wish, names.len == 0 ? "none" :
	    buf_ok(&names) ? names.data : "too many to name");
	buf_free(&names);
	return -1;
}

/* The path as bytes; a NUL inside is found later. */
static int
check_path(struct check *k, struct json path, struct buf *b)
{
	const char *at, *end;

	buf_reset(b, 4096);
	(void)json_text(path, b);
	if (b->len == 0)
		return WRONG(k, "file_path_required",
		    "files: path is required");
	if (b->data[0] == '/')
		return WRONG(k, "file_path_absolute", "files: path %.200s "
		    "must be relative", b->data);
	for (at = b->data; at <= b->data + b->len; at = end + 1) {
		end = memchr(at, '/', (size_t)(b->data + b->len - at));
		end = end == NULL ? b->data + b->len : end;
		if (end - at == 2 && memcmp(at, "..", 2) == 0)
			return WRONG(k, "file_path_dotdot", "files: path "
			    "%.200s must not contain ..", b->data);
	}
	return 0;
}

static int
check_files(struct check *k, struct json files)
{
	struct json m;
	struct buf b;
	int r = 0;

	buf_init(&b, JOB_PACK_MAX);
	for (m = json_first(files); r == 0 && json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		r = check_path(k, json_get(m, "path"), &b);
		if (r == 0 && json_bytes(json_get(m, "content_b64")) == 0 &&
		    json_far(json_get(m, "content_b64")) == NULL)
			r = WRONG(k, "file_content_required", "files: "
			    "content_b64 of %.200s is required", b.data);
	}
	buf_free(&b);
	return r;
}

static int
check_env(struct check *k, struct json env)
{
	char key[256];
	struct json m;

	for (m = json_first(env); json_type(m) != JSON_NONE; m = json_next(m)) {
		bool ok = json_str(json_key(m), key, sizeof(key)) &&
		    key[0] != '\0' && !(key[0] >= '0' && key[0] <= '9');

		for (const char *c = key; ok && *c != '\0'; c++)
			ok = *c == '_' || (*c > 0 &&
			    isalnum((unsigned char)*c));
		if (!ok)
			return WRONG(k, "env_key", "invalid env key '%.80s': "
			    "letters, digits and _, no digit first", key);
	}
	return 0;
}

static int
check_timeout(struct check *k, struct json v)
{
	long t = 0;

	if (json_type(v) != JSON_NONE && json_type(v) != JSON_NULL &&
	    !json_int(v, LONG_MIN, LONG_MAX, &t))
		return WRONG(k, "timeout", "timeout_s must be a whole number");
	if (t < 0)
		return WRONG(k, "timeout_negative",
		    "timeout_s must not be negative");
	if (t > k->s->timeout_max_s)
		return WRONG(k, "timeout_over_max", "timeout_s %ld exceeds "
		    "max %ld", t, k->s->timeout_max_s);
	k->j->timeout_s = t > 0 ? t : k->s->timeout_s;
	return 0;
}

/* The three texts of a clone share two rules, but not their order. */
static int
clone_text(struct check *k, const char *s, const char *dots,
    const char *chars, const char *name, bool second)
{
	if (!second && strstr(s, "..") != NULL)
		return WRONG(k, dots, "clone: %s must not contain ..", name);
	if (second && strpbrk(s, "`$;&|<>()\\\"'\n\r\t ") != NULL)
		return WRONG(k, chars, "clone: %s has a character that is not "
		    "allowed", name);
	return 0;
}

static int
check_clone(struct check *k, struct json v)
{
	struct job_clone *c = &k->j->clone;
	struct json sub = json_get(v, "subdir");

	if (json_type(v) != JSON_OBJECT)
		return 0;
	k->j->cloned = true;
	if (!json_str(json_get(v, "repo_url"), c->url, sizeof(c->url)) ||
	    strncmp(c->url, "https://", 8) != 0)
		return WRONG(k, "clone_url_scheme", "clone: repo_url must "
		    "start with https://");
	if (strchr(c->url, '@') != NULL)
		return WRONG(k, "clone_url_at_sign", "clone: repo_url must not "
		    "contain @: the server has the credentials");
	if (!json_str(json_get(v, "ref"), c->ref, sizeof(c->ref)) ||
	    c->ref[0] == '\0')
		return WRONG(k, "clone_ref_required", "clone: ref is required");
	(void)snprintf(c->subdir, sizeof(c->subdir), "repo");
	if (json_bytes(sub) > 0 && !json_str(sub, c->subdir,
	    sizeof(c->subdir)))
		return WRONG(k, "clone_subdir_chars", "clone: subdir is no "
		    "path");
	(void)json_int(json_get(v, "depth"), 0, 1000000, &c->depth);
	(void)json_bool(json_get(v, "submodules"), &c->submodules);
	for (int i = 0; i < 2; i++)
		if (clone_text(k, c->url + 8, "clone_url_dotdot",
		    "clone_url_chars", "repo_url", i) == -1 ||
		    clone_text(k, c->ref, "clone_ref_dotdot",
		    "clone_ref_chars", "ref", i) == -1 ||
		    clone_text(k, c->subdir, "clone_subdir_dotdot",
		    "clone_subdir_chars", "subdir", i) == -1)
			return -1;
	return 0;
}

/* max: the operator's, or NULL; it has been checked. */
static bool
is_above(double n, const char *max)
{
	double most;

	return max != NULL && job_quantity(max, &most) && n > most;
}

static int
check_limits(struct check *k, struct json v)
{
	struct json cpu = json_get(v, "cpu"), memory = json_get(v, "memory");
	double n = 0, bytes = 0;

	if (json_bytes(cpu) > 0 && (!json_str(cpu, k->j->cpu,
	    sizeof(k->j->cpu)) || !job_quantity(k->j->cpu, &n)))
		return WRONG(k, "limits_cpu", "limits: cpu is not a Kubernetes "
		    "quantity (500m, 2)");
	if (json_bytes(memory) > 0 && (!json_str(memory, k->j->memory,
	    sizeof(k->j->memory)) || !job_quantity(k->j->memory, &bytes)))
		return WRONG(k, "limits_memory", "limits: memory is not a "
		    "Kubernetes quantity (256Mi, 1G)");
	if (is_above(n, k->s->cpu_max))
		return WRONG(k, "limits_cpu", "limits: cpu is %s at most here",
		    k->s->cpu_max);
	if (is_above(bytes, k->s->memory_max))
		return WRONG(k, "limits_memory", "limits: memory is %s at most "
		    "here", k->s->memory_max);
	return 0;
}

/* One file into the pack; what it is called is known to be right. */
static int
pack_file(struct check *k, struct json m, struct buf *path, struct buf *data)
{
	const struct spill_span *far = json_far(json_get(m, "content_b64"));
	struct buf *pack = &k->j->pack;
	char text[80] = "", octal[16];
	long mode;
	size_t n;

	buf_reset(path, 4096);
	buf_reset(data, 1 << 20);
	(void)json_text(json_get(m, "path"), path);
	if (job_base64(json_get(m, "content_b64"), data) == -1)
		return WRONG(k, "file_base64", "files: content_b64 of %.200s "
		    "is not base64", path->data);
	if ((json_bytes(json_get(m, "mode")) > 0 && !json_str(json_get(m,
	    "mode"), text, sizeof(text))) || job_mode(text, &mode) == -1)
		return WRONG(k, "file_mode", "files: mode '%.20s' of %.200s is "
		    "not octal", text, path->data);
	if (strlen(path->data) != path->len || path->len >= JOB_PATH ||
	    path->data[path->len - 1] == '/' || strcmp(path->data, ".") == 0)
		k->j->files |= (size_t)1 << 62;	/* job_check() refuses it */
	(void)snprintf(octal, sizeof(octal), "%lo", (unsigned long)(mode == 0 ?
	    0644 : mode) & 07777);
	jobwire_put(pack, 'F', path->data, path->len);
	jobwire_put(pack, 'M', octal, strlen(octal));
	k->j->files++;
	if (far != NULL)
		return job_pack_long(k->j, far, path->data, k->err);
	for (size_t at = 0; at < data->len; at += n) {
		n = data->len - at < JOB_CAP ? data->len - at : JOB_CAP;
		jobwire_put(pack, 'D', data->data + at, n);
	}
	return 0;
}

static int
pack(struct check *k, struct json args)
{
	struct buf path, data;
	struct json m;
	int r = 0;

	buf_init(&path, JOB_PACK_MAX);
	buf_init(&data, JOB_PACK_MAX);
	for (m = json_first(json_get(args, "artifacts"));
	    json_type(m) != JSON_NONE; m = json_next(m)) {
		buf_reset(&path, 4096);
		(void)json_text(m, &path);
		jobwire_put(&k->j->pack, 'G', path.data == NULL ? "" :
		    path.data, path.len);
	}
	for (m = json_first(json_get(args, "files")); r == 0 &&
	    json_type(m) != JSON_NONE; m = json_next(m))
		r = pack_file(k, m, &path, &data);
	jobwire_put(&k->j->pack, 'Z', NULL, 0);
	if (r == 0 && (!buf_ok(&path) || !buf_ok(&data) ||
	    !buf_ok(&k->j->pack)))
		r = WRONG(k, "files", "files are larger than %d bytes",
		    JOB_PACK_MAX);
	buf_free(&path);
	buf_free(&data);
	return r;
}

int
job_check(struct job *j, const struct job_settings *s, struct json args,
    const char **kind, struct error *err)
{
	struct check k = { j, s, kind, err };
	struct json workdir = json_get(args, "workdir");

	*kind = "";
	j->command = json_get(args, "command");
	j->env = json_get(args, "env");
	buf_init(&j->pack, JOB_PACK_MAX);
	if (check_image(&k, json_get(args, "image")) == -1)
		return -1;
	if (json_count(j->command) == 0)
		return WRONG(&k, "command_required", "command is required");
	if (check_files(&k, json_get(args, "files")) == -1 ||
	    check_env(&k, j->env) == -1 ||
	    check_timeout(&k, json_get(args, "timeout_s")) == -1 ||
	    check_clone(&k, json_get(args, "clone")) == -1 ||
	    check_limits(&k, json_get(args, "limits")) == -1 ||
	    pack(&k, args) == -1)
		return -1;
	(void)snprintf(j->workdir, sizeof(j->workdir), "/work");
	if (json_bytes(workdir) > 0 && !json_str(workdir, j->workdir,
	    sizeof(j->workdir)))
		j->workdir[0] = '\0';
	return 0;
}

int
job_check_more(const struct job *j, const struct job_settings *s,
    struct error *err)
{
	const char *w = j->workdir;

	if (j->files >> 62 != 0)
		return error_set(err, ERR_INPUT, "invalid arguments: files: a "
		    "path must name a file: no NUL, no / at its end, at most "
		    "%d bytes", JOB_PATH - 1);
	if (w[0] != '/' || w[1] == '\0' || strchr(w, ':') != NULL ||
	    strstr(w, "/../") != NULL || (strlen(w) > 3 &&
	    strcmp(w + strlen(w) - 3, "/..") == 0) ||
	    strncmp(w, JOB_DIR, strlen(JOB_DIR)) == 0 ||
	    strncmp(w, "/proc", 5) == 0 || strncmp(w, "/sys", 4) == 0 ||
	    strncmp(w, "/dev", 4) == 0)
		return error_set(err, ERR_INPUT, "invalid arguments: workdir "
		    "must be an absolute path of its own, not %.100s", w);
	if (s->cache_path != NULL && strcmp(s->cache_path, w) == 0)
		return error_set(err, ERR_INPUT, "invalid arguments: workdir "
		    "%.100s is where the cache is", w);
	if (j->cloned && (s->clone_image == NULL || s->clone_secret == NULL))
		return error_set(err, ERR_INPUT, "invalid arguments: clone is "
		    "not configured on this server (MCP_K8S_CLONE_IMAGE and "
		    "MCP_K8S_CLONE_SECRET)");
	return 0;
}

/* --- names --------------------------------------------------------------- */

bool
job_token_ok(const char *token, char run_id[JOB_RUN_ID])
{
	if (strlen(token) != JOB_TOKEN - 1 || strncmp(token, "job-", 4) != 0 ||
	    strspn(token + 4, "0123456789abcdef") != JOB_TOKEN - 5)
		return false;
	if (run_id != NULL)
		(void)snprintf(run_id, JOB_RUN_ID, "%.16s", token + 4);
	return true;
}

int
job_new_token(struct job *j, struct error *err)
{
	unsigned char raw[16];
	size_t n = 4;

	if (getrandom(raw, sizeof(raw), 0) != sizeof(raw))
		return error_sys(err, "getrandom");
	(void)snprintf(j->token, sizeof(j->token), "job-");
	for (size_t i = 0; i < sizeof(raw); i++, n += 2)
		(void)snprintf(j->token + n, sizeof(j->token) - n, "%02x",
		    raw[i]);
	(void)job_token_ok(j->token, j->run_id);
	return 0;
}

/* old and new are of the same length. */
static void
replace(struct buf *b, const char *old, const char *new)
{
	size_t len = strlen(old), at = 0;
	char *found;

	while ((found = memmem(b->data + at, b->len - at, old, len)) != NULL) {
		memcpy(found, new, len);
		at = (size_t)(found - b->data) + len;
	}
}

int
job_renew(struct job *j, struct buf *body, struct error *err)
{
	char token[JOB_TOKEN], run_id[JOB_RUN_ID];

	memcpy(token, j->token, sizeof(token));
	memcpy(run_id, j->run_id, sizeof(run_id));
	if (job_new_token(j, err) == -1)
		return -1;
	replace(body, token, j->token);
	replace(body, run_id, j->run_id);
	return 0;
}

/* --- settings ------------------------------------------------------------ */

static int
bad(struct error *err, const char *name, const char *why)
{
	return error_set(err, ERR_CONFIG, "%s: %s", name, why);
}

/* What a command gets unasked must be within what it may ask for. */
static int
check_amounts(const struct job_settings *s, struct error *err)
{
	const struct {
		const char *name, *text, *max;
	} all[] = {
		{ "MCP_K8S_DEFAULT_CPU", s->cpu, s->cpu_max },
		{ "MCP_K8S_DEFAULT_MEMORY", s->memory, s->memory_max },
		{ "MCP_SANDBOX_JOB_MAX_CPU", s->cpu_max, NULL },
		{ "MCP_SANDBOX_JOB_MAX_MEMORY", s->memory_max, NULL },
	};
	double n = 0;

	for (size_t i = sizeof(all) / sizeof(all[0]); i-- > 0;) {
		if (all[i].text != NULL && !job_quantity(all[i].text, &n))
			return bad(err, all[i].name, "is not a Kubernetes "
			    "quantity");
		if (all[i].text != NULL && is_above(n, all[i].max))
			return bad(err, all[i].name, "is more than the most "
			    "that a job may have");
	}
	return 0;
}

int
job_settings_check(const struct job_settings *s, struct error *err)
{
	if (s->timeout_s > s->timeout_max_s)
		return bad(err, "MCP_K8S_DEFAULT_TIMEOUT_S", "is more than "
		    "MCP_K8S_MAX_TIMEOUT_S");
	if (check_amounts(s, err) == -1)
		return -1;
	if (job_env_ok(s->extra_env) == -1)
		return bad(err, "MCP_K8S_JOB_EXTRA_ENV", "is not a JSON object "
		    "of strings");
	if ((s->cache_pvc == NULL) != (s->cache_path == NULL))
		return bad(err, "MCP_K8S_CACHE_PVC, MCP_K8S_CACHE_MOUNT_PATH",
		    "one needs the other");
	if (s->cache_path != NULL && s->cache_path[0] != '/')
		return bad(err, "MCP_K8S_CACHE_MOUNT_PATH", "is not an "
		    "absolute path");
	if (strcmp(s->user, "image") != 0 && (s->user[0] < '1' ||
	    s->user[0] > '9' || strlen(s->user) > 9 ||
	    s->user[strspn(s->user, "0123456789")] != '\0'))
		return bad(err, "MCP_SANDBOX_JOB_USER", "is not a user id "
		    "above 0, nor 'image'");
	return 0;
}
