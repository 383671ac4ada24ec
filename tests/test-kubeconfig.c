/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../error.h"
#include "../kubeconfig.h"
#include "../budget.h"
#include "../tree.h"
#include "suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The frame and the first bytes are right; nothing here verifies the rest. */
#define DER64	"MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA"
#define CERT	"-----BEGIN CERTIFICATE-----\n" DER64			\
		"\n-----END CERTIFICATE-----\n"
#define KEY	"-----BEGIN PRIVATE KEY-----\n" DER64			\
		"\n-----END PRIVATE KEY-----\n"
#define ED25519	"-----BEGIN PRIVATE KEY-----\n"				\
		"MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhsc" \
		"HR4f\n-----END PRIVATE KEY-----\n"
/* CERT in base64. */
#define CERT64	"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJJakFOQmdrcWhraUc5" \
		"dzBCQVFFRkFBT0NBUThBTUlJQkNnS0NBUUVBCi0tLS0tRU5EIENFUlRJRklD" \
		"QVRFLS0tLS0K"

#define EXEC	"exec: {apiVersion: client.authentication.k8s.io/v1, "

static const struct {
	const char *path, *text;
} files[] = {
	{ "/k/ca.crt", "a comment\n" CERT CERT },
	{ "/k/sub/me.crt", CERT },
	{ "/k/sub/me.key", "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n"
	    "-----END EC PARAMETERS-----\n-----BEGIN EC PRIVATE KEY-----\n"
	    DER64 "\n-----END EC PRIVATE KEY-----\n" },
	{ "/abs/me.key", KEY },
	{ "/k/token", "from-the-file\n" },
	{ "/k/empty", "\n" },
	{ "/k/two", "one two\n" },
	{ "/k/ed25519", ED25519 },
	{ "/k/locked1", "-----BEGIN RSA PRIVATE KEY-----\n"
	    "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n" DER64
	    "\n-----END RSA PRIVATE KEY-----\n" },
	{ "/k/locked2", "-----BEGIN ENCRYPTED PRIVATE KEY-----\n" DER64
	    "\n-----END ENCRYPTED PRIVATE KEY-----\n" },
	{ "/k/openssh", "-----BEGIN OPENSSH PRIVATE KEY-----\n" DER64
	    "\n-----END OPENSSH PRIVATE KEY-----\n" },
	{ "/k/cut", "-----BEGIN CERTIFICATE-----\n" DER64 },
	{ "/k/damaged", "-----BEGIN CERTIFICATE-----\nMIIB!\n"
	    "-----END CERTIFICATE-----\n" },
	{ "/k/bundle", "-----BEGIN CERTIFICATE-----\nMIIB!\n"
	    "-----END CERTIFICATE-----\n" CERT
	    "-----BEGIN CERTIFICATE-----\n"
	    "MIIBIjANBgkqhkiG9w0BAQEFADAFBgMrZXAAAAAA\n"
	    "-----END CERTIFICATE-----\n" CERT },
	{ "/k/edcert", "-----BEGIN CERTIFICATE-----\n"
	    "MIIBIjANBgkqhkiG9w0BAQEFADAFBgMrZXAAAAAA\n"
	    "-----END CERTIFICATE-----\n" },
};

static char *
read_file(void *arg, const char *path, size_t *len, struct error *err)
{
	size_t i;

	(void)arg;
	for (i = 0; i < COUNT(files); i++)
		if (strcmp(files[i].path, path) == 0) {
			*len = strlen(files[i].text);
			return strdup(files[i].text);
		}
	error_set(err, ERR_SYSTEM, "%s: No such file or directory", path);
	return NULL;
}

static int
parse(struct kubeconfig *kc, const char *text, const char *context,
    struct error *err)
{
	return kubeconfig_parse(kc, "/k/config", text, strlen(text), context,
	    read_file, NULL, err);
}

/* A whole file around the body of its cluster and its user (flow style). */
static char *
around(const char *cluster, const char *user)
{
	char *text;

	ck_assert_int_gt(asprintf(&text,
	    "current-context: c\n"
	    "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
	    "clusters: [{name: k, cluster: {%s}}]\n"
	    "users: [{name: u, user: {%s}}]\n", cluster, user), 0);
	return text;
}

static const char whole[] =
    "apiVersion: v1\n"
    "kind: Config\n"
    "current-context: dev\n"
    "preferences: {}\n"
    "contexts:\n"
    "- name: dev\n"
    "  context: {cluster: one, user: me, namespace: team-a}\n"
    "- name: ops\n"
    "  context:\n"
    "    cluster: two\n"
    "    user: it\n"
    "    extensions: [{name: x, extension: {a: 1}}]\n"
    "clusters:\n"
    "- cluster:\n"
    "    certificate-authority: ca.crt\n"
    "    server: https://api.example:6443\n"
    "    tls-server-name: inner.example\n"
    "    proxy-url: socks5://proxy.example:1080\n"
    "  name: one\n"
    "- cluster:\n"
    "    server: https://10.0.0.1/k8s/clusters/c-1/\n"
    "    insecure-skip-tls-verify: true\n"
    "  name: two\n"
    "users:\n"
    "- name: me\n"
    "  user:\n"
    "    client-certificate: sub/me.crt\n"
    "    client-key: sub/me.key\n"
    "- name: it\n"
    "  user:\n"
    "    tokenFile: token\n"
    "    token: not-this-one\n";

START_TEST(reads_a_file_as_kubectl_writes_it)
{
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_msg(parse(&kc, whole, NULL, &err) == 0, "%s", err.text);
	ck_assert_str_eq(kc.source, "/k/config");
	ck_assert_str_eq(kc.context, "dev");
	ck_assert_str_eq(kc.server, "https://api.example:6443");
	ck_assert_str_eq(kc.host, "api.example");
	ck_assert_str_eq(kc.port, "6443");
	ck_assert_str_eq(kc.namespace, "team-a");
	ck_assert_str_eq(kc.tls_name, "inner.example");
	ck_assert_str_eq(kc.proxy, "socks5://proxy.example:1080");
	ck_assert_str_eq(kc.user, "me");
	ck_assert_str_eq(kc.ca, files[0].text);
	ck_assert_str_eq(kc.cert, files[1].text);
	ck_assert_str_eq(kc.key, files[2].text);
	ck_assert_ptr_null(kc.token);
	ck_assert(!kc.insecure);
	kubeconfig_free(&kc);
	ck_assert_ptr_null(kc.key);
}
END_TEST

START_TEST(a_proxy_has_a_port_and_may_have_a_password)
{
	char *text = around("server: 'https://h', proxy-url: "
	    "'HTTP://u:p%40@[::1]/', disable-compression: true", "token: t");
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_msg(parse(&kc, text, NULL, &err) == 0, "%s", err.text);
	ck_assert_str_eq(kc.proxy, "http://u:p%40@[::1]:80");
	kubeconfig_free(&kc);
	free(text);
}
END_TEST

static void
ck_list(char **list, const char *const *wanted)
{
	size_t i;

	ck_assert_ptr_nonnull(list);
	for (i = 0; wanted[i] != NULL; i++)
		ck_assert_str_eq(list[i], wanted[i]);
	ck_assert_ptr_null(list[i]);
}

START_TEST(impersonation_is_header_fields)
{
	static const char *const wanted[] = { "Impersonate-User: jane doe",
	    "Impersonate-Uid: 06f6", "Impersonate-Group: dev",
	    "Impersonate-Group: system:x", "Impersonate-Extra-a%2Fb%25: 1",
	    "Impersonate-Extra-a%2Fb%25: 2", "Impersonate-Extra-Scopes: s",
	    NULL };
	char *text = around("server: 'https://h'", "token: t, as: jane doe, "
	    "as-uid: 06f6, as-groups: [dev, 'system:x'], as-user-extra: "
	    "{a/b%: ['1', '2'], Scopes: [s]}");
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_msg(parse(&kc, text, NULL, &err) == 0, "%s", err.text);
	ck_list(kc.impersonate, wanted);
	kubeconfig_free(&kc);
	free(text);
	text = around("server: 'https://h'", "token: t, as: '', as-uid: '', "
	    "as-groups: [], as-user-extra: {}");
	ck_assert_msg(parse(&kc, text, NULL, &err) == 0, "%s", err.text);
	ck_assert_ptr_null(kc.impersonate);
	kubeconfig_free(&kc);
	free(text);
}
END_TEST

START_TEST(impersonation_has_a_limit)
{
	char user[1024] = "as: a, as-groups: [", *text;
	struct kubeconfig kc;
	struct error err = { 0 };
	size_t i;

	for (i = 0; i < LIMIT_IMPERSONATE; i++)
		strcat(user, "g,");
	strcat(user, "]");
	text = around("server: 'https://h'", user);
	ck_assert_int_eq(parse(&kc, text, NULL, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "as-groups: more than 64"));
	free(text);
}
END_TEST

START_TEST(a_password_becomes_basic)
{
	char *text = around("server: 'https://h'", "username: Aladdin, "
	    "password: 'open sesame'");
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_msg(parse(&kc, text, NULL, &err) == 0, "%s", err.text);
	ck_assert_str_eq(kc.basic, "QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
	kubeconfig_free(&kc);
	free(text);
}
END_TEST

START_TEST(a_plugin_is_a_command_with_its_surroundings)
{
	static const char *const argv[] = { "/k/bin/get", "a", "-b c", "7",
	    NULL };
	static const char *const env[] = { "A=1", "B=", "KUBERNETES_EXEC_INFO="
	    "{\"kind\":\"ExecCredential\",\"apiVersion\":"
	    "\"client.authentication.k8s.io/v1\",\"spec\":{\"interactive\":"
	    "false,\"cluster\":{\"server\":\"https://h:443\","
	    "\"tls-server-name\":\"n\",\"certificate-authority-data\":\""
	    CERT64 "\",\"proxy-url\":\"http://p:80\","
	    "\"disable-compression\":true,\"config\":{\"a\":[1,-2.5,true,"
	    "null,null,\"1\",\"0x1\",\"yes\",\"[\"],\"b\":{}}}}}", NULL };
	char *text = around("server: 'https://h', tls-server-name: n, "
	    "proxy-url: p, disable-compression: true, "
	    "certificate-authority-data: " CERT64 ", extensions: [{name: x}, "
	    "{name: client.authentication.k8s.io/exec, extension: {a: [1, "
	    "-2.5, true, null, ~, '1', 0x1, yes, '['], b: {}}}]",
	    EXEC "command: bin/get, args: [a, -b c, 7], interactiveMode: "
	    "IfAvailable, installHint: do this, provideClusterInfo: true, "
	    "env: [{name: A, value: '1'}, {name: B}]}");
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_msg(parse(&kc, text, NULL, &err) == 0, "%s", err.text);
	ck_assert_str_eq(kc.exec->command, "/k/bin/get");
	ck_assert_str_eq(kc.exec->hint, "do this");
	ck_list(kc.exec->argv, argv);
	ck_list(kc.exec->env, env);
	kubeconfig_free(&kc);
	free(text);
}
END_TEST

START_TEST(a_token_beats_a_plugin)
{
	char *text = around("server: 'https://h'", EXEC "command: a}, "
	    "token: t");
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_msg(parse(&kc, text, NULL, &err) == 0, "%s", err.text);
	ck_assert_ptr_null(kc.exec);
	kubeconfig_free(&kc);
	free(text);
	text = around("server: 'https://h'", EXEC "command: a}");
	ck_assert_msg(parse(&kc, text, NULL, &err) == 0, "%s", err.text);
	ck_assert_str_eq(kc.exec->command, "a");
	ck_assert_ptr_null(kc.exec->hint);
	kubeconfig_free(&kc);
	free(text);
}
END_TEST

/* --- several files -------------------------------------------------------- */

static int
merge(struct kubeconfig *kc, const char *one, const char *two,
    const char *context, struct error *err)
{
	const struct kubeconfig_text all[] = {
		{ "/k/one", one, strlen(one) },
		{ "/k/sub/two", two, strlen(two) },
	};

	return kubeconfig_merge(kc, all, COUNT(all), context, read_file, NULL,
	    err);
}

START_TEST(of_several_files_the_first_has_an_entry)
{
	static const char one[] =
	    "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
	    "clusters: [{name: k, cluster: {server: 'https://one', "
	    "certificate-authority: ca.crt}}]\n";
	static const char two[] = "current-context: c\n"
	    "contexts: [{name: c, context: {cluster: k, user: u, namespace: "
	    "mixed}}, {name: d, context: {cluster: l, user: u}}]\n"
	    "clusters: [{name: k, cluster: {server: 'https://two', "
	    "tls-server-name: mixed}}, {name: l, cluster: {server: "
	    "'https://l'}}]\n"
	    "users: [{name: u, user: {client-certificate: me.crt, "
	    "client-key: me.key}}]\n";
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_msg(merge(&kc, one, two, NULL, &err) == 0, "%s", err.text);
	ck_assert_str_eq(kc.source, "/k/one");
	ck_assert_str_eq(kc.host, "one");
	ck_assert_str_eq(kc.namespace, "default");
	ck_assert_ptr_null(kc.tls_name);
	/* Each path by its own file. */
	ck_assert_str_eq(kc.ca, files[0].text);
	ck_assert_str_eq(kc.cert, files[1].text);
	ck_assert_str_eq(kc.key, files[2].text);
	kubeconfig_free(&kc);
	ck_assert_msg(merge(&kc, one, two, "d", &err) == 0, "%s", err.text);
	ck_assert_str_eq(kc.host, "l");
	ck_assert_str_eq(kc.source, "/k/sub/two");
	kubeconfig_free(&kc);
	ck_assert_msg(merge(&kc, two, one, NULL, &err) == -1, "took it");
	ck_assert_ptr_nonnull(strstr(err.text,
	    "client-certificate: /k/me.crt"));
}
END_TEST

START_TEST(the_first_current_context_counts)
{
	static const char one[] = "current-context: ''\n";
	char *two = around("server: 'https://h'", "token: t");
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_msg(merge(&kc, one, two, NULL, &err) == 0, "%s", err.text);
	ck_assert_str_eq(kc.context, "c");
	kubeconfig_free(&kc);
	ck_assert_int_eq(merge(&kc, "current-context: d\n", two, NULL,
	    &err), -1);
	ck_assert_str_eq(err.text, "/k/sub/two:2: no context is called \"d\"; "
	    "there is \"c\"");
	free(two);
}
END_TEST

START_TEST(any_bad_file_of_several_is_named)
{
	char *good = around("server: 'https://h'", "token: t");
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_int_eq(merge(&kc, good, "a: [", NULL, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "/k/sub/two:"));
	ck_assert_int_eq(merge(&kc, good, "kind: Pod\n", NULL, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "/k/sub/two:1: not a kube"));
	/* A blank one is none. */
	ck_assert_msg(merge(&kc, " \n", good, NULL, &err) == 0, "%s", err.text);
	kubeconfig_free(&kc);
	ck_assert_int_eq(merge(&kc, "", "\n", NULL, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "/k/one: empty"));
	ck_assert_int_eq(merge(&kc, "contexts: [{name: a}]\n",
	    "contexts: [{name: b}]\n", NULL, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "\"a\", \"b\""));
	free(good);
}
END_TEST

START_TEST(takes_the_context_asked_for)
{
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_msg(parse(&kc, whole, "ops", &err) == 0, "%s", err.text);
	ck_assert_str_eq(kc.context, "ops");
	ck_assert_str_eq(kc.server, "https://10.0.0.1:443/k8s/clusters/c-1");
	ck_assert_str_eq(kc.namespace, "default");
	ck_assert_str_eq(kc.token, "from-the-file");
	ck_assert_str_eq(kc.token_file, "/k/token");
	ck_assert_ptr_null(kc.ca);
	ck_assert(kc.insecure);
	kubeconfig_free(&kc);
}
END_TEST

START_TEST(reads_json_too)
{
	static const char json[] = "{\"apiVersion\":\"v1\",\n\t\"kind\":"
	    "\"Config\",\"current-context\":\"c\",\"contexts\":[{\"name\":"
	    "\"c\",\"context\":{\"cluster\":\"k\",\"user\":\"u\",\"namespace\":"
	    "null}}],\"clusters\":[{\"name\":\"k\",\"cluster\":{\"server\":"
	    "\"https:\\/\\/h\",\"insecure-skip-tls-verify\":false}}],"
	    "\"users\":[{\"name\":\"u\",\"user\":{\"token\":\"t\"}}]}";
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_msg(parse(&kc, json, NULL, &err) == 0, "%s", err.text);
	ck_assert_str_eq(kc.server, "https://h:443");
	ck_assert_str_eq(kc.token, "t");
	ck_assert_str_eq(kc.namespace, "default");
	kubeconfig_free(&kc);
}
END_TEST

START_TEST(data_beats_a_file_that_is_not_there)
{
	char *text = around("server: 'https://h', certificate-authority: none, "
	    "certificate-authority-data: " CERT64, "token: t");
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_msg(parse(&kc, text, NULL, &err) == 0, "%s", err.text);
	ck_assert_str_eq(kc.ca, CERT);
	kubeconfig_free(&kc);
	free(text);
}
END_TEST

START_TEST(what_cannot_be_used_of_a_bundle_is_counted)
{
	char *text = around("server: 'https://h', certificate-authority: "
	    "bundle", "token: t");
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_msg(parse(&kc, text, NULL, &err) == 0, "%s", err.text);
	ck_assert_int_eq(kc.left_out, 2);
	kubeconfig_free(&kc);
	free(text);
}
END_TEST

START_TEST(an_absolute_path_stays_as_it_is)
{
	char *text = around("server: 'https://h'", "client-certificate: "
	    "sub/me.crt, client-key: /abs/me.key");
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_msg(parse(&kc, text, NULL, &err) == 0, "%s", err.text);
	ck_assert_str_eq(kc.key, KEY);
	kubeconfig_free(&kc);
	free(text);
}
END_TEST

static const struct {
	const char *url, *server, *host, *port;
} servers[] = {
	{ "https://h", "https://h:443", "h", "443" },
	{ "HTTPS://h:1/", "https://h:1", "h", "1" },
	{ "http://127.0.0.1:8001", "http://127.0.0.1:8001", "127.0.0.1",
	    "8001" },
	{ "http://h", "http://h:80", "h", "80" },
	{ "https://[::1]:6443", "https://[::1]:6443", "::1", "6443" },
	{ "https://[fd00::a]/x/", "https://[fd00::a]:443/x", "fd00::a",
	    "443" },
	{ "https://h:65535/a/b//", "https://h:65535/a/b", "h", "65535" },
	/* What is not an address of an API server. */
	{ "" }, { "h" }, { "h:6443" }, { "https://" }, { "https://:443" },
	{ "ftp://h" }, { "https://undefined:undefined" }, { "https://h:0" },
	{ "https://h:65536" }, { "https://h:" }, { "https://::1" },
	{ "https://[::1" }, { "https://[h]" }, { "https://[fe80::1%25eth0]" },
	{ "https://u:p@h" }, { "https://h/?a" }, { "https://h/#a" },
	{ "https://h/a b" }, { "https://h x" }, { "https://h:1x" },
	{ "https://[::1]x" },
};

START_TEST(takes_a_server_apart_or_refuses_it)
{
	char cluster[128], *text;
	struct kubeconfig kc;
	struct error err = { 0 };
	int r;

	snprintf(cluster, sizeof(cluster), "server: \"%s\"", servers[_i].url);
	text = around(cluster, "token: t");
	r = parse(&kc, text, NULL, &err);
	free(text);
	if (servers[_i].server == NULL) {
		ck_assert_msg(r == -1, "took: %s", servers[_i].url);
		ck_assert_int_eq(err.code, ERR_CONFIG);
		ck_assert_ptr_nonnull(strstr(err.text,
		    "/k/config:3: server: must be"));
		return;
	}
	ck_assert_msg(r == 0, "%s: %s", servers[_i].url, err.text);
	ck_assert_str_eq(kc.server, servers[_i].server);
	ck_assert_str_eq(kc.host, servers[_i].host);
	ck_assert_str_eq(kc.port, servers[_i].port);
	kubeconfig_free(&kc);
}
END_TEST

/* Body of the cluster, body of the user, what the error says. */
static const struct {
	const char *cluster, *user, *says;
} refused[] = {
	{ "server: 'https://h', insecure-skip-tls-verify: true, "
	    "certificate-authority: ca.crt", "token: t", "contradict" },
	{ "server: 'https://h', insecure-skip-tls-verify: 'true'", "token: t",
	    "insecure-skip-tls-verify must be true or false" },
	{ "server: 'https://h', insecure-skip-tls-verify: yes", "token: t",
	    "must be true or false" },
	{ "server: 'https://h', proxy-url: 'ftp://s3cret@h'", "token: t",
	    "proxy-url: must be" },
	{ "server: 'https://h', tls-server-name: 'a b'", "token: t",
	    "tls-server-name: must be" },
	{ "server: 'https://h', server: 'https://i'", "token: t",
	    "server is here twice" },
	{ "server: ['https://h']", "token: t", "server must be a string" },
	{ "", "token: t", "the cluster has no server" },
	{ "server: 'https://h', certificate-authority: gone.crt", "token: t",
	    "certificate-authority: /k/gone.crt: No such file" },
	{ "server: 'https://h', certificate-authority: cut", "token: t",
	    "/k/cut: CERTIFICATE has no END line" },
	{ "server: 'https://h', certificate-authority: damaged", "token: t",
	    "CERTIFICATE is damaged" },
	{ "server: 'https://h', certificate-authority: token", "token: t",
	    "no PEM certificate in it" },
	{ "server: 'https://h', certificate-authority: edcert", "token: t",
	    "Ed25519 is not supported" },
	{ "server: 'https://h', certificate-authority-data: 'Zm9vCg'",
	    "token: t", "certificate-authority-data: " },
	{ "server: 'https://h', certificate-authority-data: Zm9vCg==",
	    "token: t", "no PEM certificate in it" },
	{ "server: 'https://h'", "client-certificate: sub/me.crt",
	    "belong together" },
	{ "server: 'https://h'", "client-key: sub/me.key", "belong together" },
	{ "server: 'https://h'", "client-certificate: sub/me.crt, "
	    "client-key: ed25519", "/k/ed25519: Ed25519 is not supported" },
	{ "server: 'https://h'", "client-certificate: sub/me.crt, "
	    "client-key: locked1", "Proc-Type: 4,ENCRYPTED" },
	{ "server: 'https://h'", "client-certificate: sub/me.crt, "
	    "client-key: locked2", "the key is encrypted (PKCS#8)" },
	{ "server: 'https://h'", "client-certificate: sub/me.crt, "
	    "client-key: openssh", "OPENSSH PRIVATE KEY is not supported" },
	{ "server: 'https://h'", "client-certificate: sub/me.crt, "
	    "client-key: sub/me.crt", "no PEM private key" },
	{ "server: 'https://h'", "exec: {command: aws}",
	    "/k/config:4: exec: apiVersion must be" },
	{ "server: 'https://h'", "exec: {command: aws, apiVersion: "
	    "client.authentication.k8s.io/v1alpha1}", "exec: apiVersion must" },
	{ "server: 'https://h'", "exec: aws", "this is not a mapping" },
	{ "server: 'https://h'", EXEC "}", "exec: no command" },
	{ "server: 'https://h'", EXEC "command: ''}", "exec: no command" },
	{ "server: 'https://h'", EXEC "command: a, interactiveMode: Always}",
	    "exec: interactiveMode: Always needs a terminal" },
	{ "server: 'https://h'", EXEC "command: a, interactiveMode: never}",
	    "exec: interactiveMode must be" },
	{ "server: 'https://h'", EXEC "command: a, args: b}",
	    "exec: args must be a list" },
	{ "server: 'https://h'", EXEC "command: a, args: [[b]]}",
	    "exec: args: each must be" },
	{ "server: 'https://h'", EXEC "command: a, env: [b]}",
	    "this is not a mapping" },
	{ "server: 'https://h'", EXEC "command: a, env: [{value: s3cret}]}",
	    "exec: env: each needs a name" },
	{ "server: 'https://h'", EXEC "command: a, env: [{name: 'b=c'}]}",
	    "exec: env: each needs a name" },
	{ "server: 'https://h'", EXEC "command: a, provideClusterInfo: 1}",
	    "provideClusterInfo must be true or false" },
	{ "server: 'https://h'", "auth-provider: {name: gcp}",
	    "auth-provider: " },
	{ "server: 'https://h'", "username: 'a:b', password: s3cret",
	    "username: missing" },
	{ "server: 'https://h'", "password: s3cret", "username: missing" },
	{ "server: 'https://h'", "username: a, password: s3cret, token: t",
	    "a token and a password contradict" },
	{ "server: 'https://h'", "as-groups: [a], token: t", "need a user" },
	{ "server: 'https://h'", "as-uid: '7'", "need a user: as" },
	{ "server: 'https://h'", "as: \"a\\r\\nX: y\"", "as: empty, or" },
	{ "server: 'https://h'", "as: 'a '", "as: empty, or with" },
	{ "server: 'https://h'", "as: [a]", "as must be a string" },
	{ "server: 'https://h'", "as: a, as-groups: ['']", "as-groups: empty" },
	{ "server: 'https://h'", "as: a, as-groups: [\"b\\nc\"]",
	    "as-groups: empty, or with control" },
	{ "server: 'https://h'", "as: a, as-groups: {b: c}",
	    "as-groups must be a list" },
	{ "server: 'https://h'", "as: a, as-user-extra: [b]",
	    "as-user-extra must be a mapping" },
	{ "server: 'https://h'", "as: a, as-user-extra: {b: c}",
	    "as-user-extra must be a list" },
	{ "server: 'https://h'", "as: a, as-user-extra: {'': [c]}",
	    "as-user-extra: a key is empty" },
	{ "server: 'https://h'", "token: \"s3cret\\r\\nX: y\"",
	    "token: a token has no blanks" },
	{ "server: 'https://h'", "token: \"s3cret\\0x\"", "NUL" },
	{ "server: 'https://h'", "tokenFile: none, token: s3cret",
	    "tokenFile: /k/none: No such file" },
	{ "server: 'https://h'", "tokenFile: empty", "the token is empty" },
	{ "server: 'https://h'", "tokenFile: two", "a token has no blanks" },
	{ "server: &a 'https://h', x: *a", "token: t", "an alias" },
};

START_TEST(refuses_what_it_cannot_honour_and_says_why)
{
	char *text = around(refused[_i].cluster, refused[_i].user);
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_msg(parse(&kc, text, NULL, &err) == -1, "took: %s", text);
	ck_assert_msg(strstr(err.text, refused[_i].says) != NULL,
	    "wanted \"%s\" in: %s", refused[_i].says, err.text);
	ck_assert_msg(strncmp(err.text, "/k/config:", 10) == 0, "%s",
	    err.text);
	ck_assert_ptr_null(strstr(err.text, "s3cret"));
	ck_assert_ptr_null(kc.server);
	free(text);
}
END_TEST

static const struct {
	const char *text, *says;
} shapes[] = {
	{ "", "/k/config: empty" },
	{ "# nothing\n", "/k/config: empty" },
	{ "just words", "/k/config:1: " },
	{ "a: b\n c: d\n", "/k/config:2: " },
	{ "a:\n\tb: c\n", "/k/config:2: " },
	{ "a: 'b\n", "/k/config:" },
	{ "{\"a\": [}", "/k/config:1: " },
	{ "a: 1\nb: \xff\n", "/k/config:2: " },
	{ "kind: Pod\n", "/k/config:1: not a kubeconfig: kind is \"Pod\"" },
	{ "apiVersion: v2\n", "not a kubeconfig: apiVersion" },
	{ "a: 1\n---\nb: 2\n", "/k/config:2: a second document" },
	{ "contexts: [{name: a}, {name: b}]\n",
	    "no current-context; choose a context of \"a\", \"b\"" },
	{ "current-context: a\n", "there is no list of contexts" },
	{ "current-context: a\ncontexts: {a: b}\n", "no list of contexts" },
	{ "current-context: a\ncontexts: [a]\n", ":2: name is looked for" },
	{ "current-context: x\ncontexts: [{name: a}, {name: b}]\n",
	    "/k/config:2: no context is called \"x\"; there is \"a\", \"b\"" },
	{ "current-context: x\ncontexts: []\n", "there is none" },
	{ "current-context: a\ncontexts: [{name: a}, {name: a}]\n",
	    "a second context is called \"a\"" },
	{ "current-context: a\ncontexts: [{name: a}]\n", "\"a\" is empty" },
	{ "current-context: a\ncontexts: [{name: a, context: {user: b}}]\n",
	    "names no cluster" },
	{ "current-context: a\ncontexts: [{name: a, context: {cluster: b}}]\n"
	    "clusters: [{name: c}]\n",
	    "/k/config:3: no cluster is called \"b\"; there is \"c\"" },
	{ "current-context: a\ncontexts: [{name: a, context: {cluster: b}}]\n"
	    "clusters: [{name: b}]\n", "cluster \"b\" is empty" },
	{ "current-context: a\ncontexts: [{name: a, context: {cluster: b, "
	    "user: x}}]\nclusters: [{name: b, cluster: {server: 'https://h'}}]"
	    "\nusers: [{name: me}]\n",
	    "/k/config:4: no user is called \"x\"; there is \"me\"" },
	{ "current-context: a\ncontexts: [{name: a, context: {cluster: b, "
	    "namespace: 'A/../b'}}]\n", "/k/config:2: namespace: " },
};

START_TEST(names_the_line_of_what_is_wrong)
{
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_msg(parse(&kc, shapes[_i].text, NULL, &err) == -1,
	    "took: %s", shapes[_i].text);
	ck_assert_msg(strstr(err.text, shapes[_i].says) != NULL,
	    "wanted \"%s\" in: %s", shapes[_i].says, err.text);
}
END_TEST

START_TEST(a_user_may_be_absent_or_empty)
{
	static const char text[] = "current-context: a\n"
	    "contexts: [{name: a, context: {cluster: k}}, "
	    "{name: b, context: {cluster: k, user: u}}]\n"
	    "clusters: [{name: k, cluster: {server: 'http://h'}}]\n"
	    "users: [{name: u, user: }]\n";
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_msg(parse(&kc, text, NULL, &err) == 0, "%s", err.text);
	ck_assert_str_eq(kc.user, "");
	ck_assert_ptr_null(kc.token);
	kubeconfig_free(&kc);
	ck_assert_msg(parse(&kc, text, "b", &err) == 0, "%s", err.text);
	ck_assert_str_eq(kc.user, "u");
	kubeconfig_free(&kc);
}
END_TEST

START_TEST(bounds_size_depth_and_number)
{
	size_t len = LIMIT_KUBECONFIG + 1, i;
	struct kubeconfig kc;
	struct error err = { 0 };
	char *text = malloc(len + 1);

	ck_assert_ptr_nonnull(text);
	memset(text, '#', len);
	text[len] = '\0';
	ck_assert_int_eq(parse(&kc, text, NULL, &err), -1);
	ck_assert_int_eq(err.code, ERR_LIMIT);
	memset(text, '[', TREE_DEPTH + 1);
	text[TREE_DEPTH + 1] = '\0';
	ck_assert_int_eq(parse(&kc, text, NULL, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "nested too deep"));
	text[0] = '[';
	for (i = 0; i < TREE_NODES; i++)
		memcpy(text + 1 + 2 * i, "a,", 2);
	text[1 + 2 * i] = '\0';
	ck_assert_int_eq(parse(&kc, text, NULL, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "too many entries"));
	free(text);
}
END_TEST

START_TEST(refuses_files_where_none_may_be_read)
{
	char *text = around("server: 'https://h'", "tokenFile: token");
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_int_eq(kubeconfig_parse(&kc, "x", text, strlen(text), NULL,
	    NULL, NULL, &err), -1);
	ck_assert_str_eq(err.text,
	    "x:4: tokenFile: files may not be read here");
	free(text);
}
END_TEST

/* --- finding the file ----------------------------------------------------- */

static char folder[64];

static void
put(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	ck_assert_ptr_nonnull(f = fopen(path, "w"));
	fputs(text, f);
	fclose(f);
	ck_assert_int_eq(chmod(path, 0600), 0);
}

/* Each file is told by the host of its server. */
static void
put_config(const char *name, const char *host)
{
	char cluster[64], *text;

	snprintf(cluster, sizeof(cluster), "server: 'http://%s'", host);
	text = around(cluster, "tokenFile: token");
	put(name, text);
	free(text);
}

static void
folder_make(void)
{
	char path[256];

	snprintf(folder, sizeof(folder), "/tmp/test-kubeconfig-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_int_eq(chdir(folder), 0);
	snprintf(path, sizeof(path), "%s/.kube", folder);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	put("token", "t0");
	put(".kube/token", "t1");
	put_config("a", "a");
	put_config("b", "b");
	put_config("kubeconfig", "credential");
	put_config(".kube/config", "home");
	unsetenv("KUBECONFIG");
	unsetenv("HTTPS_PROXY");
	unsetenv("HTTP_PROXY");
	unsetenv("NO_PROXY");
	unsetenv("https_proxy");
	unsetenv("http_proxy");
	unsetenv("no_proxy");
	unsetenv("SSL_CERT_FILE");
	unsetenv("CREDENTIALS_DIRECTORY");
	unsetenv("KUBERNETES_SERVICE_HOST");
	setenv("HOME", folder, 1);
}

static void
folder_remove(void)
{
	char command[256];

	ck_assert_int_eq(chdir("/"), 0);
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	ck_assert_int_eq(system(command), 0);
}

static void
ck_load(const char *path, const char *host)
{
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_msg(kubeconfig_load(&kc, path, NULL, &err) == 0, "%s",
	    err.text);
	ck_assert_str_eq(kc.host, host);
	ck_assert_int_eq(kc.token_file[0], '/');
	ck_assert_ptr_null(kc.readable);
	kubeconfig_free(&kc);
}

START_TEST(looks_in_the_promised_order)
{
	ck_load(NULL, "home");
	setenv("KUBECONFIG", "", 1);
	ck_load(NULL, "home");
	setenv("KUBECONFIG", ":/nowhere/x::b:a", 1);
	ck_load(NULL, "b");
	put("users", "users: [{name: u, user: {tokenFile: .kube/token}}]\n");
	setenv("KUBECONFIG", "users:a", 1);
	ck_load(NULL, "a");
	setenv("KUBECONFIG", "users:none:b", 1);
	ck_load(NULL, "b");
	setenv("CREDENTIALS_DIRECTORY", "/nowhere", 1);
	ck_load(NULL, "b");
	setenv("CREDENTIALS_DIRECTORY", folder, 1);
	ck_load(NULL, "credential");
	ck_load("a", "a");
	ck_load("./a", "a");
}
END_TEST

START_TEST(a_file_of_the_list_that_is_no_kubeconfig_is_named)
{
	struct kubeconfig kc;
	struct error err = { 0 };

	put("bad", "a: [\n");
	setenv("KUBECONFIG", "a:bad", 1);
	ck_assert_int_eq(kubeconfig_load(&kc, NULL, NULL, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "/bad:"));
	/* The one that is named alone is read alone. */
	ck_load("b", "b");
}
END_TEST

static void
ck_proxy(const char *file, const char *proxy)
{
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_msg(kubeconfig_load(&kc, file, NULL, &err) == 0, "%s",
	    err.text);
	if (proxy == NULL)
		ck_assert_msg(kc.proxy == NULL, "%s", kc.proxy);
	else
		ck_assert_str_eq(kc.proxy, proxy);
	kubeconfig_free(&kc);
}

START_TEST(the_environment_may_name_a_proxy)
{
	char *text = around("server: 'https://10.1.2.3', proxy-url: "
	    "'socks5://own'", "token: t");
	struct kubeconfig kc;
	struct error err = { 0 };

	put("own", text);
	free(text);
	text = around("server: 'https://10.1.2.3'", "token: t");
	put("secure", text);
	free(text);
	setenv("https_proxy", "small:1", 1);
	ck_proxy("secure", "http://small:1");
	ck_proxy("a", NULL);
	setenv("HTTPS_PROXY", "https://big", 1);
	ck_proxy("secure", "https://big:443");
	ck_proxy("own", "socks5://own:1080");
	setenv("NO_PROXY", "x, 10.0.0.0/8", 1);
	ck_proxy("secure", NULL);
	ck_proxy("own", "socks5://own:1080");
	setenv("NO_PROXY", "10.1.2.4", 1);
	setenv("HTTPS_PROXY", "ftp://s3cret@x", 1);
	ck_assert_int_eq(kubeconfig_load(&kc, "secure", NULL, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "$HTTPS_PROXY: must be"));
	ck_assert_ptr_null(strstr(err.text, "s3cret"));
	setenv("HTTP_PROXY", "http://plain", 1);
	ck_proxy("b", "http://plain:80");
}
END_TEST

START_TEST(says_which_files_are_not_there)
{
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_int_eq(kubeconfig_load(&kc, "gone", NULL, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "/gone: No such file"));
	ck_assert_int_eq(err.code, ERR_CONFIG);
	setenv("KUBECONFIG", "x1:x2", 1);
	ck_assert_int_eq(kubeconfig_load(&kc, NULL, NULL, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "x1:x2"));
	unsetenv("KUBECONFIG");
	setenv("HOME", "/nowhere", 1);
	ck_assert_int_eq(kubeconfig_load(&kc, NULL, NULL, &err), -1);
	ck_assert_int_eq(err.code, ERR_CONFIG);
	ck_assert_int_eq(kubeconfig_load(&kc, ".kube", NULL, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "not a regular file"));
}
END_TEST

START_TEST(notices_a_file_that_others_may_read)
{
	struct kubeconfig kc;
	struct error err = { 0 };

	ck_assert_int_eq(chmod("a", 0640), 0);
	ck_assert_int_eq(kubeconfig_load(&kc, "a", NULL, &err), 0);
	ck_assert_ptr_nonnull(strstr(kc.readable, "/a"));
	kubeconfig_free(&kc);
}
END_TEST

START_TEST(a_server_without_ca_gets_the_public_ones)
{
	char *text = around("server: 'https://h'", "token: t");
	struct kubeconfig kc;
	struct error err = { 0 };

	put("public", text);
	put("roots", CERT);
	free(text);
	setenv("SSL_CERT_FILE", "roots", 1);
	ck_assert_int_eq(kubeconfig_load(&kc, "public", NULL, &err), 0);
	ck_assert_str_eq(kc.ca, CERT);
	kubeconfig_free(&kc);
}
END_TEST

/* In a root of our own, since the paths are fixed. */
START_TEST(in_a_pod_the_service_account_beats_home)
{
	static const char account[] =
	    "var/run/secrets/kubernetes.io/serviceaccount";
	struct kubeconfig kc;
	struct error err = { 0 };
	int outside;

	ck_assert_int_eq(system("mkdir -p "
	    "var/run/secrets/kubernetes.io/serviceaccount"), 0);
	put("var/run/secrets/kubernetes.io/serviceaccount/token", "rotates\n");
	put("var/run/secrets/kubernetes.io/serviceaccount/ca.crt", CERT);
	put("var/run/secrets/kubernetes.io/serviceaccount/namespace", "ns1");
	setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
	setenv("KUBERNETES_SERVICE_PORT", "6443", 1);
	ck_assert_int_ne(outside = open("/", O_RDONLY | O_DIRECTORY), -1);
	if (chroot(".") == -1)
		return;		/* not root */
	setenv("HOME", "/", 1);
	ck_assert_msg(kubeconfig_load(&kc, NULL, NULL, &err) == 0, "%s",
	    err.text);
	ck_assert_str_eq(kc.source, "service account");
	ck_assert_str_eq(kc.server, "https://[fd00::1]:6443");
	ck_assert_str_eq(kc.host, "fd00::1");
	ck_assert_str_eq(kc.namespace, "ns1");
	ck_assert_str_eq(kc.token, "rotates");
	ck_assert_ptr_nonnull(strstr(kc.token_file, account));
	ck_assert_str_eq(kc.ca, CERT);
	kubeconfig_free(&kc);
	ck_load("/a", "a");
	/* A context is a file's. */
	ck_assert_int_eq(kubeconfig_load(&kc, NULL, "c", &err), 0);
	ck_assert_str_eq(kc.host, "home");
	kubeconfig_free(&kc);
	setenv("KUBERNETES_SERVICE_PORT", "0", 1);
	ck_assert_int_eq(kubeconfig_load(&kc, NULL, NULL, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "service account:"));
	ck_assert_int_eq(fchdir(outside), 0);
	ck_assert_int_eq(chroot("."), 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("kubeconfig");
	TCase *text = tcase_create("text"), *load = tcase_create("load");

	tcase_add_test(text, reads_a_file_as_kubectl_writes_it);
	tcase_add_test(text, a_proxy_has_a_port_and_may_have_a_password);
	tcase_add_test(text, impersonation_is_header_fields);
	tcase_add_test(text, impersonation_has_a_limit);
	tcase_add_test(text, a_password_becomes_basic);
	tcase_add_test(text, a_plugin_is_a_command_with_its_surroundings);
	tcase_add_test(text, a_token_beats_a_plugin);
	tcase_add_test(text, of_several_files_the_first_has_an_entry);
	tcase_add_test(text, the_first_current_context_counts);
	tcase_add_test(text, any_bad_file_of_several_is_named);
	tcase_add_test(text, takes_the_context_asked_for);
	tcase_add_test(text, reads_json_too);
	tcase_add_test(text, data_beats_a_file_that_is_not_there);
	tcase_add_test(text, what_cannot_be_used_of_a_bundle_is_counted);
	tcase_add_test(text, an_absolute_path_stays_as_it_is);
	tcase_add_loop_test(text, takes_a_server_apart_or_refuses_it, 0,
	    COUNT(servers));
	tcase_add_loop_test(text, refuses_what_it_cannot_honour_and_says_why,
	    0, COUNT(refused));
	tcase_add_loop_test(text, names_the_line_of_what_is_wrong, 0,
	    COUNT(shapes));
	tcase_add_test(text, a_user_may_be_absent_or_empty);
	tcase_add_test(text, bounds_size_depth_and_number);
	tcase_add_test(text, refuses_files_where_none_may_be_read);
	suite_add_tcase(s, text);
	tcase_add_checked_fixture(load, folder_make, folder_remove);
	tcase_add_test(load, looks_in_the_promised_order);
	tcase_add_test(load, a_file_of_the_list_that_is_no_kubeconfig_is_named);
	tcase_add_test(load, the_environment_may_name_a_proxy);
	tcase_add_test(load, says_which_files_are_not_there);
	tcase_add_test(load, notices_a_file_that_others_may_read);
	tcase_add_test(load, a_server_without_ca_gets_the_public_ones);
	tcase_add_test(load, in_a_pod_the_service_account_beats_home);
	suite_add_tcase(s, load);
	return suite_run(s);
}
