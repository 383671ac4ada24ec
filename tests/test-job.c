/* SPDX-License-Identifier: Apache-2.0 */
/* What the original did is in tests/vectors/ephemeral-job.json. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../buf.h"
#include "../error.h"
#include "../job-config.h"
#include "../job.h"
#include "../json.h"
#include "../jsonw.h"
#include "suite.h"
#include "vectors.h"

static struct json_doc *doc;

static struct job_settings
settings(void)
{
	return (struct job_settings){ .namespace = "ephemeral",
	    .timeout_s = 60, .timeout_max_s = 600, .out_max = 1 << 20,
	    .files_max = 10 << 20, .cpu = "1", .memory = "512Mi",
	    .concurrent = 10, .images = "python:3.12-slim,golang:1.26",
	    .match = "basename", .sidecar = "busybox:1.36", .user = "1000",
	    .keep_s = 3600, .start_s = 300 };
}

static struct json
vector(const char *path)
{
	struct json v = json_path(json_root(doc), path);

	ck_assert_int_ne(json_type(v), JSON_NONE);
	ck_assert_uint_gt(json_count(v), 0);
	return v;
}

static const char *
str(struct json v, char *dst, size_t size)
{
	dst[0] = '\0';
	if (json_type(v) == JSON_STRING)
		ck_assert(json_str(v, dst, size));
	return dst;
}

/* The kind of what is refused, "" for what is not. */
static const char *
check(const struct job_settings *s, struct json input, struct job *j)
{
	struct error err = { .code = ERR_NONE };
	const char *kind;
	int r;

	*j = (struct job){ .timeout_s = 0 };
	r = job_check(j, s, input, &kind, &err);
	ck_assert_int_eq(r == 0, kind[0] == '\0');
	if (r == -1) {
		ck_assert_int_eq(err.code, ERR_INPUT);
		ck_assert_int_eq(strncmp(err.text, "invalid arguments", 17), 0);
	}
	return kind;
}

static const char *
check_text(const struct job_settings *s, const char *text, struct job *j)
{
	static struct json_doc *d;
	struct error err;

	json_free(d);
	d = json_parse(text, strlen(text), &err);
	ck_assert_ptr_nonnull(d);
	return check(s, json_root(d), j);
}

START_TEST(every_input_is_refused_for_the_originals_reason)
{
	struct job_settings s = settings();
	struct json m, cases = vector("validate.cases");
	char want[64];
	struct job j;

	for (m = json_first(cases); json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		str(json_get(m, "error_kind"), want, sizeof(want));
		ck_assert_str_eq(check(&s, json_get(m, "input"), &j), want);
		job_free(&j);
	}
}
END_TEST

START_TEST(refusals_hold_the_words_the_original_pins)
{
	static const struct { const char *input, *word; } rows[] = {
		{ "{\"image\":\"x\",\"command\":[\"c\"]}", "is not available" },
		{ "{\"image\":\"python\"}", "command is required" },
		{ "{\"image\":\"python\",\"command\":[\"c\"],\"files\":"
		    "[{\"path\":\"/a\",\"content_b64\":\"eA==\"}]}",
		    "must be relative" },
		{ "{\"image\":\"python\",\"command\":[\"c\"],\"files\":"
		    "[{\"path\":\"../a\",\"content_b64\":\"eA==\"}]}",
		    "must not contain .." },
		{ "{\"image\":\"python\",\"command\":[\"c\"],\"env\":"
		    "{\"1\":\"\"}}", "invalid env key" },
		{ "{\"image\":\"python\",\"command\":[\"c\"],"
		    "\"timeout_s\":601}", "exceeds max" },
	};
	struct job_settings s = settings();
	struct error err = { .code = ERR_NONE };
	const char *kind;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct json_doc *d = json_parse(rows[i].input,
		    strlen(rows[i].input), &err);
		struct job j = { .timeout_s = 0 };

		ck_assert_int_eq(job_check(&j, &s, json_root(d), &kind, &err),
		    -1);
		ck_assert_ptr_nonnull(strstr(err.text, rows[i].word));
		job_free(&j);
		json_free(d);
	}
}
END_TEST

/* Empty items are dropped here, and blanks around one are taken off. */
START_TEST(the_originals_image_names_can_be_had)
{
	struct json c, m, cases = vector("image_resolver.cases");
	char one[JOB_REF], want[JOB_REF], got[JOB_REF], *w;
	struct buf list, names;

	for (c = json_first(cases); json_type(c) != JSON_NONE;
	    c = json_next(c)) {
		buf_init(&list, 4096);
		for (m = json_first(json_get(c, "allowed_in_order"));
		    json_type(m) != JSON_NONE; m = json_next(m))
			buf_printf(&list, "%s,", str(m, one, sizeof(one)));
		for (m = json_first(json_get(c, "resolve"));
		    json_type(m) != JSON_NONE; m = json_next(m)) {
			str(json_key(m), one, sizeof(one));
			str(m, want, sizeof(want));
			for (w = want; *w == ' '; w++)
				continue;
			while (w[0] != '\0' && w[strlen(w) - 1] == ' ')
				w[strlen(w) - 1] = '\0';
			if (job_image(list.data, true, one, got, sizeof(got)) ==
			    -1)
				got[0] = '\0';
			ck_assert_str_eq(got, w);
		}
		buf_init(&names, 4096);
		job_image_names(list.data, true, &names);
		buf_free(&names);
		buf_free(&list);
	}
}
END_TEST

START_TEST(names_of_the_originals_list)
{
	struct buf b;

	buf_init(&b, 4096);
	job_image_names("r/library/busybox:1.36,r/busybox:1.35,python:3", true,
	    &b);
	ck_assert_str_eq(b.data, "busybox:1.35, busybox:1.36, python");
	buf_reset(&b, 0);
	job_image_names(" a:1 ,,b", false, &b);
	ck_assert_str_eq(b.data, "a:1, b");
	buf_free(&b);
}
END_TEST

START_TEST(an_image_is_its_whole_reference)
{
	static const struct { const char *list, *wish, *got; } rows[] = {
		{ "python:3.12", "python:3.12", "python:3.12" },
		{ "python:3.12", "python", NULL },
		{ "python:3.12", "python:3.13", NULL },
		{ "python:3.12", "Python:3.12", NULL },
		{ "python:3.12", "evil.io/python:3.12", NULL },
		{ "python:3.12", "docker.io/library/python:3.12",
		    "python:3.12" },
		{ "docker.io/library/python:latest", "python",
		    "docker.io/library/python:latest" },
		{ "team/app", "team/app:latest", "team/app" },
		{ "team/app", "docker.io/team/app", "team/app" },
		{ "r.io/a@sha256:aa", "r.io/a@sha256:aa", "r.io/a@sha256:aa" },
		{ "r.io/a@sha256:aa", "r.io/a@sha256:bb", NULL },
		{ "r.io/a@sha256:aa", "r.io/a", NULL },
		{ "localhost:5000/i", "localhost:5000/i:latest",
		    "localhost:5000/i" },
		{ " a:1 , b:2 ", " b:2", "b:2" },
		{ "r.io/team/*:*", "r.io/team/x:9", "r.io/team/x:9" },
		{ "r.io/team/*:*", "r.io/team/x/y:9", NULL },
		{ "r.io/team/*:*", "r.io/other/x:9", NULL },
		{ "r.io/team/*", "r.io/team/x", "r.io/team/x" },
		{ "r.io/team/*", "r.io/team/x:9", NULL },
		{ "r.io/**:*", "r.io/a/b/c:1", "r.io/a/b/c:1" },
		{ "python:3.12", "*", NULL }, { "**", "a b", NULL },
		{ "python:3.12", "", NULL }, { "", "python", NULL },
		{ NULL, "python", NULL }, { "x/", "x/", NULL },
	};
	char got[JOB_REF];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int r = job_image(rows[i].list, false, rows[i].wish, got,
		    sizeof(got));

		ck_assert_msg((r == 0) == (rows[i].got != NULL), "%zu: %s", i,
		    rows[i].wish);
		if (r == 0)
			ck_assert_str_eq(got, rows[i].got);
	}
}
END_TEST

START_TEST(base64_is_read_as_by_the_original)
{
	struct json m;
	struct buf got;
	char want[64];

	for (m = json_first(vector("file_base64")); json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		bool bad = json_type(json_get(m, "error_kind")) == JSON_STRING;
		struct buf plain;

		buf_init(&got, 1024);
		buf_init(&plain, 1024);
		ck_assert_int_eq(job_base64(json_get(m, "content_b64"), &got),
		    bad ? -1 : 0);
		if (!bad) {
			ck_assert_int_eq(job_base64(json_get(m, "decoded_b64"),
			    &plain), 0);
			ck_assert_uint_eq(got.len, plain.len);
			if (got.len > 0)
				ck_assert_mem_eq(got.data, plain.data,
				    got.len);
		}
		buf_free(&got);
		buf_free(&plain);
	}
	(void)want;
}
END_TEST

START_TEST(modes_are_read_as_by_the_original)
{
	struct json m;
	char text[64];
	long want, got;

	for (m = json_first(vector("file_mode.cases"));
	    json_type(m) != JSON_NONE; m = json_next(m)) {
		str(json_get(m, "mode"), text, sizeof(text));
		if (json_type(json_get(m, "error_kind")) == JSON_STRING) {
			ck_assert_int_eq(job_mode(text, &got), -1);
			continue;
		}
		ck_assert(json_int(json_get(m, "decimal"), -100, 1L << 40,
		    &want));
		ck_assert_int_eq(job_mode(text, &got), 0);
		ck_assert_int_eq(got, want);
	}
}
END_TEST

/* The Job that comes of an input. */
static struct json_doc *
write_job(const struct job_settings *s, struct job *j, struct buf *b)
{
	struct error err = { .code = ERR_NONE };
	struct json_doc *d;

	(void)snprintf(j->token, sizeof(j->token),
	    "job-0123456789abcdef0123456789abcdef");
	(void)snprintf(j->run_id, sizeof(j->run_id), "0123456789abcdef");
	buf_init(b, 1 << 20);
	job_write(b, j, s, NULL, NULL);
	ck_assert(buf_ok(b));
	d = json_parse(b->data, b->len, &err);
	ck_assert_msg(d != NULL, "%s", err.text);
	return d;
}

START_TEST(a_job_can_have_another_name)
{
	struct job_settings s = settings();
	struct error err;
	struct job j;
	struct buf was, is;

	ck_assert_str_eq(check_text(&s, "{\"image\":\"python\",\"command\":"
	    "[\"c\",\"job-0\"]}", &j), "");
	json_free(write_job(&s, &j, &was));
	ck_assert_int_eq(job_renew(&j, &was, &err), 0);
	ck_assert_str_ne(j.run_id, "0123456789abcdef");
	buf_init(&is, 1 << 20);
	job_write(&is, &j, &s, NULL, NULL);
	ck_assert_str_eq(was.data, is.data);
	buf_free(&was);
	buf_free(&is);
	job_free(&j);
}
END_TEST

static struct json
container(struct json_doc *d, const char *list, const char *name)
{
	struct json m;
	char path[80];

	(void)snprintf(path, sizeof(path), "spec.template.spec.%s", list);
	for (m = json_first(json_path(json_root(d), path));
	    json_type(m) != JSON_NONE; m = json_next(m))
		if (json_is(json_get(m, "name"), name))
			return m;
	return (struct json){ NULL, -1 };
}

START_TEST(limits_become_resources_as_by_the_original)
{
	static const char *const members[][2] = {
		{ "cpu_limit", "resources.limits.cpu" },
		{ "cpu_request", "resources.requests.cpu" },
		{ "memory_limit", "resources.limits.memory" },
		{ "memory_request", "resources.requests.memory" },
	};
	struct job_settings s = settings();
	struct json m;
	char input[400], want[64], got[64];

	for (m = json_first(vector("resource_limits.cases"));
	    json_type(m) != JSON_NONE; m = json_next(m)) {
		const char *raw;
		size_t len;
		struct job j;
		struct buf b;
		struct json_doc *d;

		raw = json_raw(json_get(m, "limits"), &len);
		(void)snprintf(input, sizeof(input), "{\"image\":\"python\","
		    "\"command\":[\"c\"],\"limits\":%.*s}", (int)len, raw);
		str(json_get(m, "error_kind"), want, sizeof(want));
		ck_assert_str_eq(check_text(&s, input, &j), want);
		if (want[0] == '\0') {
			d = write_job(&s, &j, &b);
			for (size_t i = 0; i < 4; i++) {
				str(json_path(m, i == 0 ? "result.cpu_limit" :
				    i == 1 ? "result.cpu_request" : i == 2 ?
				    "result.memory_limit" :
				    "result.memory_request"), want,
				    sizeof(want));
				str(json_path(container(d, "containers",
				    "main"), members[i][1]), got, sizeof(got));
				ck_assert_str_eq(got, want);
			}
			json_free(d);
			buf_free(&b);
		}
		job_free(&j);
	}
}
END_TEST

START_TEST(extra_variables_are_read_as_by_the_original)
{
	struct json m;
	char text[200];
	bool ok;

	for (m = json_first(vector("extra_env_parse"));
	    json_type(m) != JSON_NONE; m = json_next(m)) {
		str(json_get(m, "in"), text, sizeof(text));
		ck_assert(json_bool(json_get(m, "ok"), &ok));
		ck_assert_int_eq(job_env_ok(text), ok ? 0 : -1);
	}
}
END_TEST

START_TEST(of_two_variables_the_callers_counts)
{
	struct json m, got, want;
	char name[64], value[64], expected[64];

	for (m = json_first(vector("extra_env_merge"));
	    json_type(m) != JSON_NONE; m = json_next(m)) {
		size_t len;
		const char *raw = json_raw(json_get(m, "server"), &len);
		char *extra = strndup(raw, len);
		struct error err;
		struct json_doc *d;
		struct jsonw w;
		struct buf b;

		buf_init(&b, 4096);
		jsonw_init(&w, &b);
		jsonw_array(&w, NULL);
		job_env_write(&w, extra, json_get(m, "caller"));
		jsonw_end(&w);
		d = json_parse(b.data, b.len, &err);
		want = json_get(m, "merged");
		ck_assert_uint_eq(json_count(json_root(d)), json_count(want));
		for (got = json_first(json_root(d));
		    json_type(got) != JSON_NONE; got = json_next(got)) {
			str(json_get(got, "name"), name, sizeof(name));
			str(json_get(got, "value"), value, sizeof(value));
			str(json_get(want, name), expected, sizeof(expected));
			ck_assert_str_eq(value, expected);
		}
		json_free(d);
		buf_free(&b);
		free(extra);
	}
}
END_TEST

static const char everything[] =
	"{\"image\":\"python\",\"command\":[\"python\",\"gen.py\"],"
	"\"workdir\":\"/data/x\",\"timeout_s\":30,\"env\":{\"A\":\"1\"},"
	"\"limits\":{\"cpu\":\"4\",\"memory\":\"10Gi\"},"
	"\"files\":[{\"path\":\"gen.py\",\"content_b64\":\"eA==\"}],"
	"\"clone\":{\"repo_url\":\"https://git.example.com/g/r.git\","
	"\"ref\":\"main\"}}";

/* What the original's manifest has and ours must have as well. */
START_TEST(the_job_keeps_what_users_rely_on)
{
	static const char *const same[] = { "metadata.namespace",
	    "metadata.labels.app", "metadata.labels.run-id",
	    "spec.template.metadata.labels.app",
	    "spec.template.metadata.labels.run-id",
	    "spec.template.spec.restartPolicy" };
	struct job_settings s = settings();
	struct json was = vector("job_manifest.everything_30s_workdir_data_x");
	char a[200], b[200];
	struct json_doc *d;
	struct buf out;
	struct job j;
	long n;

	s.clone_image = "alpine/git:2.45";
	s.clone_secret = "git-creds";
	s.cache_pvc = "go-modcache";
	s.cache_path = "/go/pkg/mod";
	ck_assert_str_eq(check_text(&s, everything, &j), "");
	d = write_job(&s, &j, &out);
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
		ck_assert_str_eq(str(json_path(json_root(d), same[i]), a,
		    sizeof(a)), str(json_path(was, same[i]), b, sizeof(b)));
	ck_assert(json_int(json_path(json_root(d), "spec.backoffLimit"), 0, 9,
	    &n) && n == 0);
	ck_assert_int_ne(json_type(container(d, "initContainers", "inject")),
	    JSON_NONE);
	ck_assert_int_ne(json_type(container(d, "initContainers", "clone")),
	    JSON_NONE);
	ck_assert_int_ne(json_type(container(d, "containers", "reader")),
	    JSON_NONE);
	ck_assert_str_eq(str(json_get(container(d, "containers", "main"),
	    "workingDir"), a, sizeof(a)), "/data/x");
	ck_assert_str_eq(str(json_at(json_get(container(d, "containers",
	    "main"), "args"), 1), a, sizeof(a)), "gen.py");
	json_free(d);
	buf_free(&out);
	job_free(&j);
}
END_TEST

START_TEST(only_the_clone_container_sees_the_secret)
{
	static const char *const others[][2] = { { "initContainers",
	    "inject" }, { "containers", "main" }, { "containers", "reader" } };
	struct job_settings s = settings();
	struct json_doc *d;
	struct buf out;
	struct job j;
	const char *raw;
	size_t len;

	s.clone_image = "alpine/git:2.45";
	s.clone_secret = "git-creds";
	ck_assert_str_eq(check_text(&s, everything, &j), "");
	d = write_job(&s, &j, &out);
	raw = json_raw(container(d, "initContainers", "clone"), &len);
	ck_assert_ptr_nonnull(memmem(raw, len, "git-creds", 9));
	for (size_t i = 0; i < 3; i++) {
		raw = json_raw(container(d, others[i][0], others[i][1]), &len);
		ck_assert_ptr_null(memmem(raw, len, "git-creds", 9));
	}
	json_free(d);
	buf_free(&out);
	job_free(&j);
}
END_TEST

/* users.md 49: Pod Security Standards, restricted, for every container. */
START_TEST(every_container_is_restricted)
{
	static const char *const all[][2] = { { "initContainers", "inject" },
	    { "initContainers", "clone" }, { "containers", "main" },
	    { "containers", "reader" } };
	static const char *const users[] = { "1000", "image", NULL };
	struct job_settings s = settings();
	char text[64];
	bool b;

	s.clone_image = "alpine/git:2.45";
	s.clone_secret = "git-creds";
	for (size_t u = 0; users[u] != NULL; u++) {
		struct json_doc *d;
		struct buf out;
		struct job j;

		s.user = users[u];
		ck_assert_str_eq(check_text(&s, everything, &j), "");
		d = write_job(&s, &j, &out);
		for (size_t i = 0; i < 4; i++) {
			struct json c = json_get(container(d, all[i][0],
			    all[i][1]), "securityContext");

			ck_assert(json_bool(json_get(c,
			    "allowPrivilegeEscalation"), &b) && !b);
			ck_assert(json_bool(json_get(c, "runAsNonRoot"), &b) &&
			    b);
			ck_assert_str_eq(str(json_path(c,
			    "seccompProfile.type"), text, sizeof(text)),
			    "RuntimeDefault");
			ck_assert(json_is(json_at(json_path(c,
			    "capabilities.drop"), 0), "ALL"));
		}
		ck_assert(json_bool(json_path(json_root(d), "spec.template."
		    "spec.automountServiceAccountToken"), &b) && !b);
		json_free(d);
		buf_free(&out);
		job_free(&j);
	}
}
END_TEST

/* Kubernetes would make "$" of "$$" and a value of "$(A)". */
START_TEST(a_command_arrives_as_it_was_sent)
{
	struct job_settings s = settings();
	struct json_doc *d;
	struct buf out;
	struct job j;
	char a[64];

	ck_assert_str_eq(check_text(&s, "{\"image\":\"python\",\"command\":"
	    "[\"sh\",\"-c\",\"echo $$ $(A)\"],\"env\":{\"A\":\"$$\"}}", &j),
	    "");
	d = write_job(&s, &j, &out);
	ck_assert_str_eq(str(json_at(json_get(container(d, "containers",
	    "main"), "args"), 2), a, sizeof(a)), "echo $$$$ $$(A)");
	ck_assert_str_eq(str(json_get(json_at(json_get(container(d,
	    "containers", "main"), "env"), 0), "value"), a, sizeof(a)),
	    "$$$$");
	json_free(d);
	buf_free(&out);
	job_free(&j);
}
END_TEST

START_TEST(what_fails_late_there_fails_early_here)
{
	static const char *const rows[] = {
		"\"files\":[{\"path\":\".\",\"content_b64\":\"eA==\"}]",
		"\"files\":[{\"path\":\"a/\",\"content_b64\":\"eA==\"}]",
		"\"files\":[{\"path\":\"a\\u0000b\",\"content_b64\":"
		    "\"eA==\"}]",
		"\"workdir\":\"relative\"", "\"workdir\":\"/\"",
		"\"workdir\":\"/a/../b\"", "\"workdir\":\"/mcp-sandbox\"",
		"\"workdir\":\"/proc\"",
		"\"clone\":{\"repo_url\":\"https://h/x\",\"ref\":\"main\"}",
	};
	struct job_settings s = settings();
	struct error err;
	char input[300];
	struct job j;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		(void)snprintf(input, sizeof(input), "{\"image\":\"python\","
		    "\"command\":[\"c\"],%s}", rows[i]);
		ck_assert_str_eq(check_text(&s, input, &j), "");
		ck_assert_int_eq(job_check_more(&j, &s, &err), -1);
		job_free(&j);
	}
	ck_assert_str_eq(check_text(&s, "{\"image\":\"python\",\"command\":"
	    "[\"c\"],\"workdir\":\"/srv/my work\"}", &j), "");
	ck_assert_int_eq(job_check_more(&j, &s, &err), 0);
	job_free(&j);
}
END_TEST

START_TEST(a_token_is_a_name_of_its_own)
{
	struct job a = { .timeout_s = 0 }, b = { .timeout_s = 0 };
	struct error err;
	char id[JOB_RUN_ID];

	ck_assert_int_eq(job_new_token(&a, &err), 0);
	ck_assert_int_eq(job_new_token(&b, &err), 0);
	ck_assert_str_ne(a.token, b.token);
	ck_assert(job_token_ok(a.token, id));
	ck_assert_str_eq(id, a.run_id);
	ck_assert(!job_token_ok("job-1", NULL));
	ck_assert(!job_token_ok("job-0123456789ABCDEF0123456789abcdef", NULL));
	ck_assert(!job_token_ok("jib-0123456789abcdef0123456789abcdef", NULL));
	ck_assert(!job_token_ok("job-0123456789abcdef0123456789abcdef0",
	    NULL));
}
END_TEST

START_TEST(settings_that_can_not_work_are_named)
{
	struct job_settings s = settings();
	struct error err;

	ck_assert_int_eq(job_settings_check(&s, &err), 0);
	s.timeout_s = 601;
	ck_assert_int_eq(job_settings_check(&s, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "MCP_K8S_DEFAULT_TIMEOUT_S"));
	s = settings();
	s.cache_pvc = "x";
	ck_assert_int_eq(job_settings_check(&s, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "MCP_K8S_CACHE_MOUNT_PATH"));
	s = settings();
	s.user = "0";
	ck_assert_int_eq(job_settings_check(&s, &err), -1);
	s.user = "image";
	ck_assert_int_eq(job_settings_check(&s, &err), 0);
	s.memory = "1g";
	ck_assert_int_eq(job_settings_check(&s, &err), -1);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("job");
	TCase *t = tcase_create("job");
	int failed;

	doc = vectors_load("tests/vectors/ephemeral-job.json");
	tcase_add_test(t, every_input_is_refused_for_the_originals_reason);
	tcase_add_test(t, refusals_hold_the_words_the_original_pins);
	tcase_add_test(t, the_originals_image_names_can_be_had);
	tcase_add_test(t, names_of_the_originals_list);
	tcase_add_test(t, an_image_is_its_whole_reference);
	tcase_add_test(t, base64_is_read_as_by_the_original);
	tcase_add_test(t, modes_are_read_as_by_the_original);
	tcase_add_test(t, limits_become_resources_as_by_the_original);
	tcase_add_test(t, extra_variables_are_read_as_by_the_original);
	tcase_add_test(t, of_two_variables_the_callers_counts);
	tcase_add_test(t, the_job_keeps_what_users_rely_on);
	tcase_add_test(t, only_the_clone_container_sees_the_secret);
	tcase_add_test(t, every_container_is_restricted);
	tcase_add_test(t, a_command_arrives_as_it_was_sent);
	tcase_add_test(t, what_fails_late_there_fails_early_here);
	tcase_add_test(t, a_token_is_a_name_of_its_own);
	tcase_add_test(t, a_job_can_have_another_name);
	tcase_add_test(t, settings_that_can_not_work_are_named);
	suite_add_tcase(s, t);
	failed = suite_run(s);
	json_free(doc);
	return failed;
}
