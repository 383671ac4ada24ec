/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../error.h"
#include "../job-result.h"
#include "../job-state.h"
#include "../json.h"
#include "../jsonw.h"
#include "suite.h"

static struct json_doc *kept;

static struct json
parse(const char *text)
{
	struct error err = { .code = ERR_NONE };

	json_free(kept);
	kept = json_parse(text, strlen(text), &err);
	ck_assert_msg(kept != NULL, "%s: %s", text, err.text);
	return json_root(kept);
}

/* --- results ------------------------------------------------------------- */

static const struct job_pod no_pod = { .exit_code = -1 };

/* One result, given in records "Xtext" that end with NULL. */
static void
take(struct job_result *r, long out_max, size_t room, const char *const *list)
{
	struct error err = { .code = ERR_NONE };
	struct buf b;

	job_result_init(r, out_max, room);
	buf_init(&b, 1 << 20);
	for (; *list != NULL; list++)
		jobwire_put(&b, **list, *list + 1, strlen(*list) - 1);
	for (size_t i = 0; i < b.len; i++)
		ck_assert_int_eq(job_result_feed(r, b.data + i, 1, &err), 0);
	buf_free(&b);
}

static struct json
written(struct job_result *r, struct buf *b)
{
	struct jsonw w;

	buf_init(b, 1 << 20);
	jsonw_init(&w, b);
	job_result_write(&w, NULL, r);
	ck_assert(buf_ok(b));
	return parse(b->data);
}

START_TEST(a_result_is_what_was_printed_and_made)
{
	static const char *const in[] = {
		"Phalf way", "S{\"state\":\"ended\",\"end\":{\"why\":\"exit\","
		    "\"exit_code\":3,\"duration_ms\":7,\"stdout\":6,"
		    "\"stderr\":2}}", "Oabc", "Odef", "Ex\n",
		"A{\"name\":\"a\",\"size\":3,\"sha256\":\"00\",\"inline\":3,"
		    "\"cut\":false}", "D12", "D3",
		"A{\"name\":\"l\",\"size\":1,\"link\":\"to\"}",
		"A{\"name\":\"p\",\"size\":0,\"skipped\":\"fifo\"}", "Z", NULL
	};
	struct job_result r;
	struct json v, a;
	struct buf b;
	bool flag;
	long n;

	take(&r, 100, 1000, in);
	ck_assert(job_result_whole(&r));
	ck_assert_str_eq(r.line, "half way");
	job_result_judge(&r, &no_pod, 60);
	v = written(&r, &b);
	ck_assert(json_is(json_get(v, "status"), "failed"));
	ck_assert(json_int(json_get(v, "exit_code"), -1, 255, &n) && n == 3);
	ck_assert(json_is(json_get(v, "stdout"), "abcdef"));
	ck_assert(json_is(json_get(v, "stderr"), "x\n"));
	a = json_get(v, "artifacts");
	ck_assert_uint_eq(json_count(a), 3);
	ck_assert(json_is(json_get(json_at(a, 0), "content_b64"), "MTIz"));
	ck_assert(json_is(json_get(json_at(a, 1), "link"), "to"));
	ck_assert(json_is(json_get(json_at(a, 2), "skipped"), "fifo"));
	ck_assert(json_bool(json_path(v, "truncated.artifacts"), &flag) &&
	    !flag);
	buf_free(&b);
	job_result_free(&r);
}
END_TEST

START_TEST(flags_are_exact)
{
	static const struct { const char *total; long max; bool cut; } rows[] =
	{
		{ "4", 4, false }, { "5", 4, true }, { "0", 0, false },
		{ "1", 0, true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char state[200];
		const char *const in[] = { state, "Oabcd", "Z", NULL };
		struct job_result r;
		struct json v;
		struct buf b;
		bool flag;

		(void)snprintf(state, sizeof(state), "S{\"state\":\"ended\","
		    "\"end\":{\"why\":\"exit\",\"exit_code\":0,\"stdout\":%s,"
		    "\"stderr\":0}}", rows[i].total);
		take(&r, rows[i].max, 1000, rows[i].total[0] == '0' ?
		    (const char *const[]){ state, "Z", NULL } : in);
		v = written(&r, &b);
		ck_assert(json_bool(json_path(v, "truncated.stdout"), &flag));
		ck_assert_int_eq(flag, rows[i].cut);
		buf_free(&b);
		job_result_free(&r);
	}
}
END_TEST

START_TEST(what_does_not_fit_is_cut_with_its_flag)
{
	char big[4001] = "D";
	const char *const in[] = {
		"S{\"state\":\"ended\",\"end\":{\"why\":\"exit\","
		    "\"exit_code\":0}}",
		"A{\"name\":\"a\",\"size\":3999,\"inline\":3999}", big,
		"A{\"name\":\"b\",\"size\":3,\"inline\":3,\"cut\":false}",
		"Dxyz", "Z", NULL
	};
	struct job_result r;
	struct json v, a;
	struct buf b;
	bool flag;

	memset(big + 1, 'x', sizeof(big) - 2);
	take(&r, 100, 4096, in);
	v = written(&r, &b);
	a = json_get(v, "artifacts");
	ck_assert_uint_eq(json_count(a), 2);
	for (size_t i = 0; i < 2; i++)
		ck_assert(json_bool(json_get(json_at(a, i), "truncated"),
		    &flag) && flag);
	ck_assert(json_bool(json_path(v, "truncated.artifacts"), &flag) &&
	    flag);
	ck_assert_uint_lt(b.len, 4096 + 400);
	buf_free(&b);
	job_result_free(&r);
}
END_TEST

/* A control character takes six bytes of the message. */
START_TEST(outputs_take_the_room_that_they_need_as_json)
{
	static const char *const in[] = {
		"S{\"state\":\"ended\",\"end\":{\"why\":\"exit\","
		    "\"exit_code\":0,\"stdout\":40,\"stderr\":30}}",
		"O\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1",
		"O\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1",
		"E012345678901234567890123456789",
		"A{\"name\":\"a\",\"size\":0,\"inline\":0}", "X5", "Z", NULL
	};
	struct job_result r;
	struct json v;
	struct buf b;
	bool flag;
	long n;

	take(&r, 100, 160, in);
	v = written(&r, &b);
	/* Of 140 the errors are sure of 17, and 123 hold 20 escapes. */
	ck_assert_uint_eq(r.out[0].len, 20);
	ck_assert_uint_eq(r.out[1].len, 20);
	for (int i = 0; i < 2; i++)
		ck_assert(json_bool(json_path(v, i == 0 ? "truncated.stdout" :
		    "truncated.stderr"), &flag) && flag);
	ck_assert(json_bool(json_path(v, "truncated.artifacts"), &flag) &&
	    flag);
	ck_assert_uint_eq(json_count(json_get(v, "artifacts")), 0);
	ck_assert(json_int(json_get(v, "artifacts_omitted"), 0, 9, &n));
	ck_assert_int_eq(n, 6);
	buf_free(&b);
	job_result_free(&r);
}
END_TEST

START_TEST(a_result_that_is_garbled_is_refused)
{
	static const char *const bad[] = {
		"S00000003\n{a}", "A00000002\n{}", "A00000002\n[]",
		"hello, world",
	};
	struct error err = { .code = ERR_NONE };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct job_result r;

		job_result_init(&r, 100, 1000);
		ck_assert_int_eq(job_result_feed(&r, bad[i], strlen(bad[i]),
		    &err), -1);
		job_result_free(&r);
	}
}
END_TEST

#define END(why, code)							\
	"S{\"state\":\"ended\",\"end\":{\"why\":\"" why "\","		\
	"\"exit_code\":" code "}}"

/* users.md 51, 52 */
START_TEST(the_runner_and_the_pod_say_what_became_of_it)
{
	static const struct job_pod oom = { .main_ended = true,
	    .exit_code = 137, .oom = true };
	static const struct job_pod evicted = { .broken = true,
	    .exit_code = -1, .reason = "evicted", .message = "low on disk" };
	static const struct job_pod killed = { .main_ended = true,
	    .exit_code = 137 };
	static const struct {
		const char *state;
		const struct job_pod *pod;
		const char *status, *reason;
		long code;
	} rows[] = {
		{ END("exit", "0"), &no_pod, "succeeded", "", 0 },
		{ END("exit", "1"), &no_pod, "failed", "", 1 },
		{ END("exit", "137"), &oom, "failed", "oom_killed", 137 },
		{ END("exit", "0"), &oom, "succeeded", "oom_killed", 0 },
		{ END("timeout", "143"), &no_pod, "timeout", "", -1 },
		{ END("stopped", "143"), &no_pod, "error", "cancelled", -1 },
		{ END("terminated", "143"), &no_pod, "error", "deleted", -1 },
		{ END("terminated", "143"), &evicted, "error", "evicted", -1 },
		{ END("files", "126"), &no_pod, "error", "start_error", -1 },
		{ "S{\"state\":\"dead\"}", &oom, "failed", "oom_killed", 137 },
		{ "S{\"state\":\"dead\"}", &evicted, "error", "evicted", -1 },
		{ "S{\"state\":\"dead\"}", &killed, "failed", "", 137 },
		{ "S{\"state\":\"dead\"}", &no_pod, "error", "deleted", -1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *const in[] = { rows[i].state, "Z", NULL };
		struct job_result r;

		take(&r, 100, 1000, in);
		job_result_judge(&r, rows[i].pod, 60);
		ck_assert_str_eq(r.status, rows[i].status);
		ck_assert_str_eq(r.reason, rows[i].reason);
		ck_assert_int_eq(r.exit_code, rows[i].code);
		/* Not known, and why. */
		ck_assert_int_eq(r.exit_code == -1, strcmp(r.status,
		    "timeout") == 0 || strcmp(r.status, "error") == 0);
		ck_assert(strcmp(r.status, "error") != 0 || r.reason[0] != 0);
		job_result_free(&r);
	}
}
END_TEST

START_TEST(a_range_is_only_bytes)
{
	static const char *const in[] = { "S{\"size\":1000}", "Dab", "Dc", "Z",
	    NULL };
	struct job_result r;

	job_result_init(&r, 100, 1000);
	r.reading = true;
	job_result_reset(&r);
	ck_assert(r.reading);
	job_result_free(&r);
	take(&r, 100, 1000, in);
	ck_assert_int_eq(r.size, 1000);
	ck_assert_uint_eq(r.files, 0);
	job_result_free(&r);
}
END_TEST

/* --- pods and Jobs ------------------------------------------------------- */

#define STATUS(name, state) "{\"name\":\"" name "\",\"image\":\"i\","	\
	"\"state\":{" state "}}"
#define WAITING(reason) "\"waiting\":{\"reason\":\"" reason "\","	\
	"\"message\":\"why\"}"

START_TEST(a_pod_that_gets_no_further_says_why)
{
	static const struct { const char *status, *reason, *word; } rows[] = {
		{ "{\"phase\":\"Pending\"}", "", "" },
		{ "{\"containerStatuses\":[" STATUS("main",
		    WAITING("ImagePullBackOff")) "]}", "image_error", "why" },
		{ "{\"containerStatuses\":[" STATUS("main",
		    WAITING("InvalidImageName")) "]}", "image_error", "why" },
		{ "{\"initContainerStatuses\":[" STATUS("inject",
		    WAITING("CreateContainerConfigError")) "]}",
		    "image_error", "why" },
		{ "{\"containerStatuses\":[" STATUS("main",
		    WAITING("ErrImagePull")) "]}", "", "why" },
		{ "{\"containerStatuses\":[" STATUS("main",
		    WAITING("ContainerCreating")) "]}", "", "" },
		{ "{\"initContainerStatuses\":[" STATUS("clone",
		    "\"terminated\":{\"exitCode\":1,\"reason\":\"Error\"}")
		    "]}", "clone_failed", "ended with 1" },
		{ "{\"phase\":\"Failed\",\"reason\":\"Evicted\","
		    "\"message\":\"low on disk\"}", "evicted", "low on disk" },
		{ "{\"phase\":\"Failed\",\"reason\":\"DeadlineExceeded\"}",
		    "deleted", "DeadlineExceeded" },
		{ "{\"conditions\":[{\"type\":\"PodScheduled\",\"status\":"
		    "\"False\",\"reason\":\"Unschedulable\",\"message\":"
		    "\"0/1 nodes\",\"lastTransitionTime\":"
		    "\"1970-01-01T00:00:10Z\"}]}", "unschedulable",
		    "0/1 nodes" },
		{ "{\"conditions\":[{\"type\":\"PodScheduled\",\"status\":"
		    "\"False\",\"reason\":\"Unschedulable\",\"message\":"
		    "\"0/1 nodes\",\"lastTransitionTime\":"
		    "\"1970-01-01T00:00:19Z\"}]}", "", "0/1 nodes" },
	};
	char text[800];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct job_pod p;

		(void)snprintf(text, sizeof(text), "{\"metadata\":{\"name\":"
		    "\"p\"},\"status\":%s}", rows[i].status);
		job_pod_read(&p, parse(text), 20, 5);
		ck_assert_msg(strcmp(p.reason, rows[i].reason) == 0, "%zu: %s",
		    i, p.reason);
		ck_assert_int_eq(p.broken, rows[i].reason[0] != '\0');
		ck_assert_msg(strstr(p.message, rows[i].word) != NULL,
		    "%zu: %s", i, p.message);
	}
}
END_TEST

START_TEST(a_pod_says_how_far_it_is)
{
	struct job_pod p;

	job_pod_read(&p, parse("{\"status\":{\"initContainerStatuses\":["
	    STATUS("inject", "\"running\":{}") "]}}"), 0, 0);
	ck_assert(p.inject_runs && !p.inject_done && !p.reader_runs);
	job_pod_read(&p, parse("{\"status\":{\"phase\":\"Running\","
	    "\"initContainerStatuses\":[" STATUS("inject",
	    "\"terminated\":{\"exitCode\":0}") "],\"containerStatuses\":["
	    STATUS("reader", "\"running\":{}") "," STATUS("main",
	    "\"terminated\":{\"exitCode\":137,\"reason\":\"OOMKilled\"}")
	    "]}}"), 0, 0);
	ck_assert(p.inject_done && p.reader_runs && p.main_ended && p.oom);
	ck_assert_int_eq(p.exit_code, 137);
	job_pod_read(&p, parse("{\"status\":{\"phase\":\"Failed\","
	    "\"containerStatuses\":[" STATUS("reader", "\"running\":{}")
	    "]}}"), 0, 0);
	ck_assert(p.over && !p.reader_runs);
}
END_TEST

START_TEST(a_kept_pod_can_be_made_small)
{
	struct json v;
	struct buf b;

	buf_init(&b, 4096);
	job_pod_shrink(&b, parse("{\"spec\":{\"containers\":[{\"name\":"
	    "\"main\",\"image\":\"i\",\"resources\":{\"requests\":"
	    "{\"cpu\":\"1\"},\"limits\":{\"memory\":\"64Mi\"}}},"
	    "{\"name\":\"reader\",\"resources\":{\"requests\":{\"cpu\":"
	    "\"10m\"}}}]}}"));
	v = json_path(parse(b.data), "spec.containers");
	ck_assert_uint_eq(json_count(v), 2);
	ck_assert(json_is(json_path(json_at(v, 0), "resources.requests.cpu"),
	    "1m"));
	ck_assert(json_is(json_path(json_at(v, 0), "resources.limits.memory"),
	    "64Mi"));
	ck_assert(json_is(json_get(json_at(v, 0), "image"), "i"));
	ck_assert(json_is(json_path(json_at(v, 1), "resources.requests.cpu"),
	    "10m"));
	buf_free(&b);
	job_pod_shrink(&b, parse("{\"spec\":{\"containers\":[{\"name\":"
	    "\"main\",\"resources\":{\"requests\":{\"cpu\":\"1m\"}}}]}}"));
	ck_assert_uint_eq(b.len, 0);
	buf_free(&b);
}
END_TEST

START_TEST(a_job_says_what_it_is)
{
	struct job_object o;

	job_object_read(&o, parse("{\"metadata\":{\"name\":\"job-1\",\"uid\":"
	    "\"u\",\"labels\":{\"run-id\":\"r\"},\"annotations\":{\"" JOB_NOTE
	    "ended\":\"{}\"}},\"spec\":{\"template\":{\"spec\":"
	    "{\"containers\":[{\"image\":\"i:1\",\"command\":[\"a\","
	    "\"--work\",\"/w\"]}]}}},\"status\":{\"conditions\":[{\"type\":"
	    "\"Failed\",\"status\":\"True\",\"reason\":\"DeadlineExceeded\","
	    "\"message\":\"late\"}]}}"));
	ck_assert_str_eq(o.token, "job-1");
	ck_assert_str_eq(o.image, "i:1");
	ck_assert_str_eq(o.workdir, "/w");
	ck_assert_str_eq(o.note, "{}");
	ck_assert(o.finished);
	ck_assert_str_eq(o.message, "late");
}
END_TEST

START_TEST(a_refusal_is_a_quota_or_a_rule)
{
	ck_assert_str_eq(job_refusal("exceeded quota: none"), "quota");
	ck_assert_str_eq(job_refusal("must specify limits.cpu"), "quota");
	ck_assert_str_eq(job_refusal("maximum memory usage per Container is "
	    "64Mi"), "quota");
	ck_assert_str_eq(job_refusal("violates PodSecurity"), "forbidden");
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("job-result");
	TCase *t = tcase_create("job-result");
	int failed;

	tcase_add_test(t, a_result_is_what_was_printed_and_made);
	tcase_add_test(t, flags_are_exact);
	tcase_add_test(t, what_does_not_fit_is_cut_with_its_flag);
	tcase_add_test(t, outputs_take_the_room_that_they_need_as_json);
	tcase_add_test(t, a_result_that_is_garbled_is_refused);
	tcase_add_test(t, the_runner_and_the_pod_say_what_became_of_it);
	tcase_add_test(t, a_range_is_only_bytes);
	tcase_add_test(t, a_pod_that_gets_no_further_says_why);
	tcase_add_test(t, a_pod_says_how_far_it_is);
	tcase_add_test(t, a_kept_pod_can_be_made_small);
	tcase_add_test(t, a_job_says_what_it_is);
	tcase_add_test(t, a_refusal_is_a_quota_or_a_rule);
	suite_add_tcase(s, t);
	failed = suite_run(s);
	json_free(kept);
	return failed;
}
