/* SPDX-License-Identifier: Apache-2.0 */
/* Claims as the real controller left them, and pods that do not start. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blocker.h"
#include "buf.h"
#include "claim.h"
#include "error.h"
#include "json.h"
#include "suite.h"

#define LABEL "mcp.k8s-agent-sandbox/session-id"

static struct json_doc *
parse(const char *text)
{
	struct error err = { ERR_NONE, "" };
	struct json_doc *doc = json_parse(text, strlen(text), &err);

	ck_assert_msg(doc != NULL, "%s", err.text);
	return doc;
}

static char *
read_file(const char *name)
{
	static char text[65536];
	char path[256];
	size_t n;
	FILE *f;

	(void)snprintf(path, sizeof(path),
	    "tests/vectors/agent-sandbox-objects/%s", name);
	f = fopen(path, "r");
	ck_assert_msg(f != NULL, "%s", path);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	fclose(f);
	return text;
}

static const struct {
	const char *file, *reason;
	bool ready, bound, address;
} recorded[] = {
	{ "real-claim-warm.json", "DependenciesReady", true, true, true },
	{ "real-claim-cold.json", "DependenciesReady", true, true, true },
	{ "real-claim-suspended.json", "SandboxSuspended", false, true, false },
};

START_TEST(a_real_claim_reads_as_it_was)
{
	struct json_doc *doc = parse(read_file(recorded[_i].file));
	struct claim c;

	claim_read(&c, json_root(doc), LABEL);
	json_free(doc);
	ck_assert_int_eq(c.ready, recorded[_i].ready);
	ck_assert_int_eq(c.sandbox[0] != '\0', recorded[_i].bound);
	ck_assert_int_eq(c.address[0] != '\0', recorded[_i].address);
	ck_assert_str_eq(c.reason, recorded[_i].reason);
	ck_assert(!c.failed);
	ck_assert_ptr_nonnull(strstr(c.name, "claim"));
	ck_assert_uint_eq(strlen(c.uid), 36);
	ck_assert_str_ne(c.pool, "");
}
END_TEST

static const struct {
	const char *conditions;
	bool ready, failed;
	const char *says;
} verdict[] = {
	{ "", false, false, "nothing is known" },
	{ "{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"x\"}", true,
	    false, NULL },
	{ "{\"type\":\"Ready\",\"status\":\"Unknown\",\"reason\":\"x\"}", false,
	    false, "not ready" },
	{ "{\"type\":\"Ready\",\"status\":\"False\",\"reason\":"
	    "\"DependenciesNotReady\",\"message\":\"Pod does not exist\"}",
	    false, false, "Pod does not exist" },
	{ "{\"type\":\"Ready\",\"status\":\"False\",\"reason\":"
	    "\"TemplateNotFound\",\"message\":\"m\"}", false, true,
	    "SandboxTemplate requested does not exist: m" },
	{ "{\"type\":\"Other\",\"status\":\"True\",\"reason\":"
	    "\"WarmPoolNotFound\",\"message\":\"m\"}", false, true,
	    "SandboxWarmPool requested does not exist: m" },
	{ "{\"type\":\"Ready\",\"status\":\"False\",\"reason\":"
	    "\"ClaimExpired\",\"message\":\"m\"}", false, true, "expired" },
	{ "{\"type\":\"Ready\",\"status\":\"False\",\"reason\":"
	    "\"InvalidMetadata\",\"message\":\"m\"}", false, true,
	    "terminal reason InvalidMetadata: m" },
	{ "{\"type\":\"Ready\",\"status\":\"False\",\"reason\":"
	    "\"SandboxSuspended\",\"message\":\"m\"}", false, false,
	    "suspended" },
	{ "{\"type\":\"Finished\",\"status\":\"True\",\"reason\":"
	    "\"PodFailed\"}", false, false, "nothing is known" },
	{ "{\"type\":1,\"status\":[],\"reason\":{}}", false, false,
	    "nothing is known" },
};

START_TEST(conditions_decide)
{
	struct error err = { ERR_NONE, "" };
	struct json_doc *doc;
	struct claim c;
	char text[1024];

	(void)snprintf(text, sizeof(text), "{\"metadata\":{\"name\":\"n\"},"
	    "\"status\":{\"conditions\":[%s]}}", verdict[_i].conditions);
	doc = parse(text);
	claim_read(&c, json_root(doc), LABEL);
	json_free(doc);
	ck_assert_int_eq(c.ready, verdict[_i].ready);
	ck_assert_int_eq(c.failed, verdict[_i].failed);
	if (verdict[_i].says == NULL)
		return;
	claim_explain(&c, &err);
	ck_assert_msg(strstr(err.text, verdict[_i].says) != NULL, "%s",
	    err.text);
}
END_TEST

static const struct { const char *list, *first; } address[] = {
	{ "[]", "" }, { "[\"10.1.2.3\"]", "10.1.2.3" },
	{ "[\"fd00::1\",\"10.1.2.3\"]", "10.1.2.3" },
	{ "[\"fd00::1\"]", "fd00::1" }, { "[{\"ip\":\"10.0.0.1\"}]",
	    "10.0.0.1" },
	{ "[\"evil.example.com\",\"10.0.0.1 \",\"1.2.3\"]", "" },
};

START_TEST(only_an_address_is_an_address)
{
	struct json_doc *doc;
	struct claim c;
	char text[256];

	(void)snprintf(text, sizeof(text), "{\"status\":{\"sandbox\":"
	    "{\"Name\":\"old\",\"podIPs\":%s}}}", address[_i].list);
	doc = parse(text);
	claim_read(&c, json_root(doc), LABEL);
	json_free(doc);
	ck_assert_str_eq(c.address, address[_i].first);
	ck_assert_str_eq(c.sandbox, "old");
}
END_TEST

START_TEST(a_new_claim_is_what_the_contract_says)
{
	struct json_doc *args = parse("{\"l\":{\"team\":\"x\",\"" LABEL "\":"
	    "\"forged\",\"agents.x-k8s.io/created-by\":\"forged\"},"
	    "\"p\":{\"sandbox.users.io/a\":\"b\"},\"n\":null}");
	struct claim_new n = { .name = "sandbox-claim-1", .pool = "py-pool",
	    .requested = "2026-11-30T16:30:33Z", .label_key = LABEL,
	    .session = "s1", .shutdown = "2026-11-30T16:35:33Z",
	    .labels = json_get(json_root(args), "l"),
	    .pod_labels = json_get(json_root(args), "p"),
	    .pod_annotations = json_get(json_root(args), "n"),
	    .env = json_get(json_root(args), "none") };
	struct buf b;

	buf_init(&b, 4096);
	claim_write(&b, &n);
	ck_assert_str_eq(b.data, "{\"apiVersion\":"
	    "\"extensions.agents.x-k8s.io/v1beta1\",\"kind\":\"SandboxClaim\","
	    "\"metadata\":{\"name\":\"sandbox-claim-1\",\"annotations\":{"
	    "\"agents.x-k8s.io/client-first-requested-at\":"
	    "\"2026-11-30T16:30:33Z\"},\"labels\":{\"team\":\"x\",\"" LABEL
	    "\":\"s1\",\"agents.x-k8s.io/created-by\":\"mcp-sandbox\"}},"
	    "\"spec\":{\"warmPoolRef\":{\"name\":\"py-pool\"},\"lifecycle\":{"
	    "\"shutdownTime\":\"2026-11-30T16:35:33Z\",\"shutdownPolicy\":"
	    "\"Delete\"},\"additionalPodMetadata\":{\"labels\":{"
	    "\"sandbox.users.io/a\":\"b\"}}}}");
	json_free(args);
	buf_free(&b);
}
END_TEST

#define WAITING(r, m) "{\"status\":{\"containerStatuses\":[{\"image\":\"img:1\"," \
	"\"state\":{\"waiting\":{\"reason\":\"" r "\",\"message\":\"" m "\"}}}]}}"

static const struct {
	const char *pod;
	long after_ms;
	int blocked;
	const char *says;
} pods[] = {
	{ "{}", 0, 0, "" },
	{ WAITING("ContainerCreating", ""), 60000, 0, "ContainerCreating" },
	{ WAITING("InvalidImageName", "bad"), 0, 1, "InvalidImageName: bad" },
	{ WAITING("ErrImagePull", "not found"), 1000, 0,
	    "ErrImagePull: not found" },
	{ WAITING("ErrImagePull", "not found"), 6000, 1, "img:1" },
	{ WAITING("CrashLoopBackOff", "back-off"), 8000, 1, "back-off" },
	{ "{\"status\":{\"phase\":\"Failed\",\"reason\":\"Evicted\","
	    "\"message\":\"disk\"}}", 0, 1, "Evicted: disk" },
	{ "{\"status\":{\"conditions\":[{\"type\":\"PodScheduled\",\"status\":"
	    "\"False\",\"reason\":\"Unschedulable\",\"message\":\"0/1 nodes\"}]"
	    "}}", 9999, 0, "0/1 nodes" },
	{ "{\"status\":{\"conditions\":[{\"type\":\"PodScheduled\",\"status\":"
	    "\"False\",\"reason\":\"Unschedulable\",\"message\":\"0/1 nodes\"}]"
	    "}}", 10000, 1, "0/1 nodes" },
};

START_TEST(the_first_blocking_fact_is_found_in_time)
{
	struct blocker_clock clock = { 0 };
	struct error err = { ERR_NONE, "" };
	struct json_doc *doc = parse(pods[_i].pod);
	char text[256];
	int r = blocker_pod(json_root(doc), &clock, 1000, 10000, text,
	    sizeof(text), &err);

	if (r == 0)
		r = blocker_pod(json_root(doc), &clock,
		    1000 + pods[_i].after_ms, 10000, text, sizeof(text), &err);
	json_free(doc);
	ck_assert_int_eq(r, pods[_i].blocked);
	ck_assert_msg(strstr(r == 1 ? err.text : text, pods[_i].says) != NULL,
	    "%s / %s", text, err.text);
}
END_TEST

START_TEST(times_are_rfc_3339_and_end_with_the_calendar)
{
	char dst[40];

	ck_assert_int_eq(claim_time(dst, 1796056533), 0);
	ck_assert_str_eq(dst, "2026-11-30T16:35:33Z");
	ck_assert_int_eq(claim_time(dst, 253402300799LL), 0);
	ck_assert_int_eq(claim_time(dst, 253402300800LL), -1);
	ck_assert_int_eq(claim_time(dst, -1), -1);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("claim");
	TCase *t = tcase_create("claim");

	suite_add_tcase(s, t);
	tcase_add_loop_test(t, a_real_claim_reads_as_it_was, 0, 3);
	tcase_add_loop_test(t, conditions_decide, 0,
	    sizeof(verdict) / sizeof(verdict[0]));
	tcase_add_loop_test(t, only_an_address_is_an_address, 0,
	    sizeof(address) / sizeof(address[0]));
	tcase_add_test(t, a_new_claim_is_what_the_contract_says);
	tcase_add_loop_test(t, the_first_blocking_fact_is_found_in_time, 0,
	    sizeof(pods) / sizeof(pods[0]));
	tcase_add_test(t, times_are_rfc_3339_and_end_with_the_calendar);
	return suite_run(s);
}
