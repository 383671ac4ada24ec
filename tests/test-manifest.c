/* SPDX-License-Identifier: Apache-2.0 */
/* What the original sends is in tests/vectors/cli-mcp-server.json. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../buf.h"
#include "../config.h"
#include "../error.h"
#include "../json.h"
#include "../manifest.h"
#include "suite.h"
#include "vectors.h"

static const char domain[] = "tarsy.redhat.com";
static struct json_doc *vectors;

static void
load(void)
{
	vectors = vectors_load("tests/vectors/cli-mcp-server.json");
}

static void
unload(void)
{
	json_free(vectors);
}

static struct config_pod
original(void)
{
	return (struct config_pod){ .namespace = "tarsy", .image = "IMAGE",
	    .init_image = "INIT", .has_agent = true, .idle_ms = 1800000,
	    .domain = domain, .cpu_request = "100m", .cpu_limit = "500m",
	    .memory_request = "128Mi", .memory_limit = "512Mi",
	    .service_account = "cli-mcp-investigation-sa",
	    .kubeconfig_secret = "cli-mcp-investigation-kubeconfig" };
}

/* Is everything that want has in got as well? Lists: elements by name. */
static void
within(struct json want, struct json got, const char *path)
{
	const char *a, *b;
	size_t an, bn;
	char key[128];

	ck_assert_msg(json_type(got) != JSON_NONE, "%s is missing", path);
	if (json_type(want) == JSON_OBJECT) {
		for (struct json m = json_first(want);
		    json_type(m) != JSON_NONE; m = json_next(m)) {
			ck_assert(json_str(json_key(m), key, sizeof(key)));
			within(m, json_get(got, key), key);
		}
		return;
	}
	if (json_type(want) == JSON_ARRAY) {
		for (struct json m = json_first(want);
		    json_type(m) != JSON_NONE; m = json_next(m)) {
			struct json o = json_first(got);

			if (!json_str(json_get(m, "name"), key, sizeof(key)))
				break;
			while (json_type(o) != JSON_NONE &&
			    !json_is(json_get(o, "name"), key))
				o = json_next(o);
			within(m, o, key);
		}
		return;
	}
	a = json_raw(want, &an);
	b = json_raw(got, &bn);
	ck_assert_msg(an == bn && memcmp(a, b, an) == 0, "%s: %.*s, not %.*s",
	    path, (int)bn, b, (int)an, a);
}

static struct json_doc *
pod(const struct config_pod *c, const char *name, const char *session,
    struct buf *b)
{
	struct error err;
	struct json_doc *doc;

	buf_init(b, 1 << 16);
	manifest_pod(b, c, name, session, "RFC3339_UTC_SECONDS");
	ck_assert(buf_ok(b));
	doc = json_parse(b->data, b->len, &err);
	ck_assert_ptr_nonnull(doc);
	return doc;
}

static const char *const kept[] = { "volumes", "serviceAccountName",
    "securityContext" };

START_TEST(a_pod_has_all_that_the_original_gives_it)
{
	struct config_pod c = original();
	bool warm = _i == 1;
	struct json want = json_get(json_root(vectors), warm ? "pod_warm" :
	    "pod_on_demand"), got;
	struct buf b;
	struct json_doc *doc = pod(&c, "cli-mcp-sandbox-inv-abc", warm ? NULL :
	    "inv-abc", &b);
	struct json one = json_at(json_path(want, "spec.containers"), 0);

	got = json_root(doc);
	within(json_path(want, "metadata.labels"),
	    json_path(got, "metadata.labels"), "labels");
	within(json_path(want, "metadata.annotations"),
	    json_path(got, "metadata.annotations"), "annotations");
	ck_assert_uint_eq(json_count(json_path(got, "metadata.labels")),
	    warm ? 1 : 2);
	for (size_t i = 0; i < 3; i++)
		within(json_get(json_get(want, "spec"), kept[i]),
		    json_get(json_get(got, "spec"), kept[i]), kept[i]);
	got = json_at(json_path(got, "spec.containers"), 0);
	within(json_get(one, "env"), json_get(got, "env"), "env");
	within(json_get(one, "resources"), json_get(got, "resources"), "res");
	within(json_get(one, "volumeMounts"), json_get(got, "volumeMounts"),
	    "mounts");
	within(json_get(one, "securityContext"),
	    json_get(got, "securityContext"), "security");
	ck_assert(json_is(json_get(got, "image"), "IMAGE"));
	/* The image's entry point is the agent. */
	ck_assert_int_eq(json_type(json_get(got, "command")), JSON_NONE);
	json_free(doc);
	buf_free(&b);
}
END_TEST

START_TEST(a_secret_is_that_of_the_original)
{
	struct config_pod c = original();
	struct json want = json_get(json_root(vectors),
	    "auth_secret_for_key_test-hmac-key");
	struct json_doc *doc;
	struct error err;
	struct buf b;

	buf_init(&b, 4096);
	manifest_secret(&b, &c, "inv-abc", "f16d1e4e4ab1d8d96c66f59ed345a25e"
	    "582b99c4e661fda72b66958423d9155f");
	doc = json_parse(b.data, b.len, &err);
	ck_assert_ptr_nonnull(doc);
	within(json_path(want, "metadata.labels"),
	    json_path(json_root(doc), "metadata.labels"), "labels");
	within(json_path(want, "metadata.name"),
	    json_path(json_root(doc), "metadata.name"), "name");
	within(json_get(want, "stringData"),
	    json_get(json_root(doc), "stringData"), "stringData");
	json_free(doc);
	buf_free(&b);
}
END_TEST

/* users.md 49: Pod Security Standards, restricted, for every container. */
START_TEST(a_pod_is_of_the_restricted_level)
{
	static const char *const lists[] = { "spec.containers",
	    "spec.initContainers" };
	struct config_pod c = original();
	struct json_doc *doc;
	struct json s, m;
	struct buf b;
	bool on;
	long n;

	c.has_agent = false;
	doc = pod(&c, "x", "s", &b);
	s = json_path(json_root(doc), "spec.securityContext");
	ck_assert(json_bool(json_get(s, "runAsNonRoot"), &on) && on);
	ck_assert(json_int(json_get(s, "runAsUser"), 1, 1 << 30, &n));
	ck_assert(json_is(json_path(s, "seccompProfile.type"),
	    "RuntimeDefault"));
	for (size_t i = 0; i < 2; i++) {
		m = json_at(json_path(json_root(doc), lists[i]), 0);
		s = json_get(m, "securityContext");
		ck_assert(json_bool(json_get(s, "allowPrivilegeEscalation"),
		    &on) && !on);
		ck_assert(json_is(json_at(json_path(s, "capabilities.drop"),
		    0), "ALL"));
	}
	s = json_get(json_root(doc), "spec");
	ck_assert(json_bool(json_get(s, "automountServiceAccountToken"),
	    &on) && !on);
	ck_assert(json_bool(json_get(s, "enableServiceLinks"), &on) && !on);
	ck_assert(json_is(json_get(s, "restartPolicy"), "Never"));
	json_free(doc);
	buf_free(&b);
}
END_TEST

START_TEST(settings_reach_the_pod)
{
	struct config_pod c = original();
	struct json_doc *doc;
	struct json s;
	struct buf b;
	bool on;

	c.node_selector = "disk=ssd, zone=a";
	c.pull_secrets = "one,two";
	c.runtime_class = "gvisor";
	c.mount_token = true;
	c.read_only_root = true;
	c.user = "image";
	c.cpu_limit = "";
	c.has_agent = false;
	doc = pod(&c, "x", NULL, &b);
	s = json_get(json_root(doc), "spec");
	ck_assert(json_is(json_path(s, "nodeSelector.disk"), "ssd"));
	ck_assert(json_is(json_path(s, "nodeSelector.zone"), "a"));
	ck_assert(json_is(json_get(json_at(json_get(s, "imagePullSecrets"),
	    1), "name"), "two"));
	ck_assert(json_is(json_get(s, "runtimeClassName"), "gvisor"));
	ck_assert(json_bool(json_get(s, "automountServiceAccountToken"),
	    &on) && on);
	ck_assert_int_eq(json_type(json_path(s, "securityContext.runAsUser")),
	    JSON_NONE);
	s = json_at(json_get(s, "containers"), 0);
	ck_assert(json_bool(json_path(s, "securityContext."
	    "readOnlyRootFilesystem"), &on) && on);
	ck_assert_int_eq(json_type(json_path(s, "resources.limits.cpu")),
	    JSON_NONE);
	ck_assert(json_is(json_at(json_get(s, "command"), 0), POD_AGENT));
	json_free(doc);
	buf_free(&b);
}
END_TEST

START_TEST(selectors_are_those_of_the_original)
{
	static const char *const sessions[] = { NULL, "inv-abc", "" };
	static const char *const want[] = {
		"tarsy.redhat.com%2Fcomponent%3Dcli-mcp-sandbox",
		"tarsy.redhat.com%2Fsession-id%3Dinv-abc%2C"
		"tarsy.redhat.com%2Fcomponent%3Dcli-mcp-sandbox",
		"tarsy.redhat.com%2Fcomponent%3Dcli-mcp-sandbox%2C%21"
		"tarsy.redhat.com%2Fsession-id",
	};
	struct buf b;

	buf_init(&b, 4096);
	manifest_list(&b, "tarsy", "pods", domain, sessions[_i]);
	ck_assert_str_eq(strstr(b.data, "labelSelector=") + 14, want[_i]);
	buf_free(&b);
}
END_TEST

static struct pod
read_pod(const char *text)
{
	struct error err;
	struct json_doc *doc = json_parse(text, strlen(text), &err);
	struct pod p;

	ck_assert_msg(doc != NULL, "%s", err.text);
	pod_read(&p, json_root(doc), domain);
	json_free(doc);
	return p;
}

START_TEST(a_pod_is_ready_by_phase_and_condition)
{
	struct pod p = read_pod("{\"metadata\":{\"name\":\"a\"},\"status\":{"
	    "\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\","
	    "\"status\":\"True\"}]}}");

	ck_assert(p.ready && !p.ended && !p.deleting && !p.begun);
	p = read_pod("{\"metadata\":{\"name\":\"a\",\"deletionTimestamp\":"
	    "\"x\"},\"status\":{\"phase\":\"Failed\",\"conditions\":[{"
	    "\"type\":\"Ready\",\"status\":\"True\"}]}}");
	ck_assert(!p.ready && p.ended && p.deleting);
	p = read_pod("{\"status\":{\"phase\":\"Pending\","
	    "\"initContainerStatuses\":[{\"name\":\"agent\",\"state\":{"
	    "\"running\":{}}}]}}");
	ck_assert(p.waiting && !p.begun);
	p = read_pod("[]");
	ck_assert(!p.ready && !p.ended);
	p = read_pod("{\"metadata\":7,\"status\":{\"phase\":[],"
	    "\"conditions\":{\"a\":1}}}");
	ck_assert(!p.ready);
}
END_TEST

START_TEST(the_oldest_ready_pod_is_the_best)
{
	struct pod p[4] = {
		{ .name = "b", .created = "2026-01-01T00:00:02Z" },
		{ .name = "c", .created = "2026-01-01T00:00:09Z",
		    .ready = true, .begun = true },
		{ .name = "d", .created = "2026-01-01T00:00:05Z",
		    .ready = true, .begun = true },
		{ .name = "a", .created = "2026-01-01T00:00:01Z" },
	};

	qsort(p, 4, sizeof(p[0]), pod_order);
	ck_assert_str_eq(p[0].name, "d");
	ck_assert_str_eq(p[1].name, "c");
	ck_assert_str_eq(p[2].name, "a");
	ck_assert_str_eq(p[3].name, "b");
}
END_TEST

static const struct {
	const char *text;
	long long t;
} times[] = {
	{ "1970-01-01T00:00:00Z", 0 }, { "2026-11-30T16:35:33Z", 1796056533 },
	{ "2026-11-30T16:35:33.5Z", 1796056533 }, { "", -1 },
	{ "2026-11-30", -1 }, { "2026-11-30T16:35:33+01:00", -1 },
	{ "2026-11-30T16:35:33", -1 }, { "yesterday", -1 },
};

START_TEST(times_are_read_or_refused)
{
	ck_assert_msg(manifest_time(times[_i].text) == times[_i].t, "%s: %lld",
	    times[_i].text, manifest_time(times[_i].text));
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("manifest");
	TCase *t = tcase_create("manifest");

	suite_add_tcase(s, t);
	tcase_add_checked_fixture(t, load, unload);
	tcase_add_loop_test(t, a_pod_has_all_that_the_original_gives_it, 0, 2);
	tcase_add_test(t, a_secret_is_that_of_the_original);
	tcase_add_test(t, a_pod_is_of_the_restricted_level);
	tcase_add_test(t, settings_reach_the_pod);
	tcase_add_loop_test(t, selectors_are_those_of_the_original, 0, 3);
	tcase_add_test(t, a_pod_is_ready_by_phase_and_condition);
	tcase_add_test(t, the_oldest_ready_pod_is_the_best);
	tcase_add_loop_test(t, times_are_read_or_refused, 0,
	    sizeof(times) / sizeof(times[0]));
	return suite_run(s);
}
