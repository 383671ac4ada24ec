/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "buf.h"
#include "claim.h"
#include "error.h"
#include "jsonw.h"
#include "k8s.h"
#include "budget.h"

#define END_S	253402300799LL	/* of the year 9999 */

#define REQUEST	"mcp.k8s-agent-sandbox/request"

static void
text(struct json v, char *dst, size_t size)
{
	struct buf b;

	dst[0] = '\0';
	if (json_type(v) != JSON_STRING || json_str(v, dst, size))
		return;
	/* Too long, or it holds a NUL: a message may be cut, a name not. */
	buf_init(&b, 1 << 20);
	if (json_text(v, &b) && b.data != NULL)
		(void)snprintf(dst, size, "%.*s", (int)size - 1, b.data);
	buf_free(&b);
}

/* Reasons that no waiting changes (contract 2.3, with those of SDK 1.0.8). */
static bool
final(const char *type, const char *status, const char *reason)
{
	static const char *const bad[] = {
		"TemplateNotFound", "InvalidMetadata",
		"EnvVarsInjectionRejected", "VolumeClaimTemplatesError",
		"ClaimExpired", "SandboxExpired", "InvalidConfiguration",
		"PodFailed", "PodSucceeded",
	};

	if (strcmp(reason, "WarmPoolNotFound") == 0)
		return true;
	if (strcmp(type, "Ready") != 0 || strcmp(status, "False") != 0)
		return false;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (strcmp(reason, bad[i]) == 0)
			return true;
	return false;
}

static void
read_conditions(struct claim *c, struct json list)
{
	char type[40], status[16], reason[80];
	struct json m;

	for (m = json_first(list); json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		text(json_get(m, "type"), type, sizeof(type));
		text(json_get(m, "status"), status, sizeof(status));
		text(json_get(m, "reason"), reason, sizeof(reason));
		if (final(type, status, reason))
			c->failed = true;
		else if (strcmp(type, "Ready") != 0)
			continue;
		(void)snprintf(c->reason, sizeof(c->reason), "%s", reason);
		text(json_get(m, "message"), c->message, sizeof(c->message));
		if (strcmp(type, "Ready") == 0)
			c->ready = strcmp(status, "True") == 0;
		if (c->failed)
			return;
	}
}

/* The first usable address: IPv4 before IPv6, as strings or {"ip": ...}. */
static void
read_address(struct claim *c, struct json list)
{
	unsigned char raw[16];
	char one[64];
	struct json m;

	for (m = json_first(list); json_type(m) != JSON_NONE;
	    m = json_next(m)) {
		struct json v = json_type(m) == JSON_OBJECT ?
		    json_get(m, "ip") : m;

		if (!json_str(v, one, sizeof(one)))
			continue;
		if (inet_pton(AF_INET, one, raw) == 1) {
			(void)snprintf(c->address, sizeof(c->address), "%s",
			    one);
			return;
		}
		if (c->address[0] == '\0' && inet_pton(AF_INET6, one, raw) == 1)
			(void)snprintf(c->address, sizeof(c->address), "%s",
			    one);
	}
}

void
claim_read(struct claim *c, struct json o, const char *label_key)
{
	struct json meta = json_get(o, "metadata");
	struct json mark = json_get(json_get(meta, "labels"), label_key);
	struct json status = json_get(o, "status");
	struct json bound = json_get(status, "sandbox");

	*c = (struct claim){ 0 };
	text(json_get(meta, "namespace"), c->namespace, sizeof(c->namespace));
	text(json_get(meta, "name"), c->name, sizeof(c->name));
	text(json_get(meta, "uid"), c->uid, sizeof(c->uid));
	text(json_get(meta, "resourceVersion"), c->version,
	    sizeof(c->version));
	text(json_get(meta, "creationTimestamp"), c->created,
	    sizeof(c->created));
	text(json_get(json_get(meta, "annotations"), REQUEST), c->request,
	    sizeof(c->request));
	c->deleting = json_type(json_get(meta, "deletionTimestamp")) ==
	    JSON_STRING;
	c->marked = json_type(mark) == JSON_STRING;
	text(mark, c->session, sizeof(c->session));
	text(json_path(o, "spec.warmPoolRef.name"), c->pool, sizeof(c->pool));
	text(json_path(o, "spec.lifecycle.shutdownTime"), c->shutdown,
	    sizeof(c->shutdown));
	text(json_get(bound, "name"), c->sandbox, sizeof(c->sandbox));
	if (c->sandbox[0] == '\0')
		text(json_get(bound, "Name"), c->sandbox, sizeof(c->sandbox));
	read_address(c, json_get(bound, "podIPs"));
	read_conditions(c, json_get(status, "conditions"));
}

bool
claim_expired(const struct claim *c)
{
	return strcmp(c->reason, "ClaimExpired") == 0 ||
	    strcmp(c->reason, "SandboxExpired") == 0;
}

bool
claim_suspended(const struct claim *c)
{
	return strcmp(c->reason, "SandboxSuspended") == 0;
}

void
claim_tell_end(struct jsonw *w, const struct claim *c)
{
	if (c->shutdown[0] != '\0')
		jsonw_str(w, "shutdown_time", c->shutdown);
	else
		jsonw_null(w, "shutdown_time");
}

void
claim_tell(struct jsonw *w, const struct claim *c)
{
	const char *what = c->message;
	bool ready = c->ready && !c->deleting;
	char text[sizeof(c->message) + 32];

	if (c->deleting)
		what = "being deleted";
	else if (claim_expired(c) && strcasestr(what, "expired") == NULL)
		what = text;
	else if (claim_suspended(c) && strcasestr(what, "suspend") == NULL)
		what = text;
	if (what == text)
		(void)snprintf(text, sizeof(text), "%s: %s", claim_expired(c) ?
		    "expired" : "suspended", c->message);
	jsonw_str(w, "status", ready ? "SandboxReady" : "SandboxNotReady");
	jsonw_bool(w, "ready", ready);
	jsonw_str(w, "message", what);
	claim_tell_end(w, c);
}

void
claim_explain(const struct claim *c, struct error *err)
{
	const char *m = c->message[0] != '\0' ? c->message :
	    c->reason[0] != '\0' ? c->reason : "nothing is known of it yet";

	if (c->deleting)
		error_set(err, ERR_GONE, "Sandbox claim '%s' is being deleted: "
		    "create another sandbox", c->name);
	else if (claim_suspended(c))
		error_set(err, ERR_CLUSTER, "Sandbox claim '%s' is suspended "
		    "(%s): resume it first", c->name, m);
	else if (claim_expired(c))
		error_set(err, ERR_GONE, "Sandbox claim '%s' has expired (%s): "
		    "create another sandbox", c->name, m);
	else if (strcmp(c->reason, "TemplateNotFound") == 0)
		error_set(err, ERR_CLUSTER, "SandboxTemplate requested does "
		    "not exist: %s", m);
	else if (strcmp(c->reason, "WarmPoolNotFound") == 0)
		error_set(err, ERR_CLUSTER, "SandboxWarmPool requested does "
		    "not exist: %s", m);
	else if (c->failed)
		error_set(err, ERR_CLUSTER, "SandboxClaim '%s' failed with "
		    "terminal reason %s: %s", c->name, c->reason, m);
	else
		error_set(err, ERR_CLUSTER, "Sandbox claim '%s' is not ready: "
		    "%s", c->name, m);
}

void
claim_path(struct buf *out, const char *namespace, const char *name)
{
	buf_puts(out, "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/");
	k8s_escape(out, namespace);
	buf_puts(out, "/sandboxclaims");
	if (name != NULL) {
		buf_puts(out, "/");
		k8s_escape(out, name);
	}
}

void
claim_list_path(struct buf *out, const char *namespace, const char *label_key,
    const char *session)
{
	claim_path(out, namespace, NULL);
	buf_puts(out, "?labelSelector=");
	k8s_escape(out, label_key);
	buf_puts(out, "%3D");
	k8s_escape(out, session);
	buf_printf(out, "&limit=%d", LIMIT_LIST);
}

/* Copy a map of strings, but for keys that we set ourselves. */
static void
copy_map(struct jsonw *w, struct json map, const char *but, const char *nor)
{
	struct buf key, value;
	struct json m;

	buf_init(&key, 1024);
	buf_init(&value, 1 << 20);
	for (m = json_first(map); json_type(m) != JSON_NONE; m = json_next(m)) {
		buf_reset(&key, 1024);
		buf_reset(&value, 1024);
		(void)json_text(json_key(m), &key);
		(void)json_text(m, &value);
		if (key.data == NULL || !buf_ok(&key) ||
		    strcmp(key.data, but) == 0 || strcmp(key.data, nor) == 0)
			continue;
		jsonw_bytes(w, key.data, value.data != NULL ? value.data : "",
		    value.len);
	}
	buf_free(&key);
	buf_free(&value);
}

static void
write_meta(struct jsonw *w, const struct claim_new *n)
{
	jsonw_object(w, "metadata");
	jsonw_str(w, "name", n->name);
	jsonw_object(w, "annotations");
	jsonw_str(w, "agents.x-k8s.io/client-first-requested-at",
	    n->requested);
	if (n->request != NULL)
		jsonw_str(w, REQUEST, n->request);
	jsonw_end(w);
	jsonw_object(w, "labels");
	copy_map(w, n->labels, n->label_key, "agents.x-k8s.io/created-by");
	jsonw_str(w, n->label_key, n->session);
	jsonw_str(w, "agents.x-k8s.io/created-by", "mcp-sandbox");
	jsonw_end(w);
	jsonw_end(w);
}

static void
write_pod_meta(struct jsonw *w, const struct claim_new *n)
{
	if (json_count(n->pod_labels) + json_count(n->pod_annotations) == 0)
		return;
	jsonw_object(w, "additionalPodMetadata");
	if (json_count(n->pod_labels) > 0) {
		jsonw_object(w, "labels");
		copy_map(w, n->pod_labels, "", "");
		jsonw_end(w);
	}
	if (json_count(n->pod_annotations) > 0) {
		jsonw_object(w, "annotations");
		copy_map(w, n->pod_annotations, "", "");
		jsonw_end(w);
	}
	jsonw_end(w);
}

static void
write_env(struct jsonw *w, struct json env)
{
	struct json m;
	struct buf b;

	if (json_count(env) == 0)
		return;
	buf_init(&b, 1 << 20);
	jsonw_array(w, "env");
	for (m = json_first(env); json_type(m) != JSON_NONE; m = json_next(m)) {
		jsonw_object(w, NULL);
		buf_reset(&b, 1024);
		(void)json_text(json_key(m), &b);
		jsonw_bytes(w, "name", b.data != NULL ? b.data : "", b.len);
		buf_reset(&b, 1024);
		(void)json_text(m, &b);
		jsonw_bytes(w, "value", b.data != NULL ? b.data : "", b.len);
		jsonw_end(w);
	}
	jsonw_end(w);
	buf_free(&b);
}

void
claim_write(struct buf *out, const struct claim_new *n)
{
	struct jsonw w;

	jsonw_init(&w, out);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "apiVersion", "extensions.agents.x-k8s.io/v1beta1");
	jsonw_str(&w, "kind", "SandboxClaim");
	write_meta(&w, n);
	jsonw_object(&w, "spec");
	jsonw_object(&w, "warmPoolRef");
	jsonw_str(&w, "name", n->pool);
	jsonw_end(&w);
	if (n->shutdown != NULL) {
		jsonw_object(&w, "lifecycle");
		jsonw_str(&w, "shutdownTime", n->shutdown);
		jsonw_str(&w, "shutdownPolicy", "Delete");
		jsonw_end(&w);
	}
	write_pod_meta(&w, n);
	write_env(&w, n->env);
	jsonw_end(&w);
	jsonw_end(&w);
}

void
claim_delete_body(struct buf *out, const char *uid)
{
	struct jsonw w;

	jsonw_init(&w, out);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "kind", "DeleteOptions");
	jsonw_str(&w, "apiVersion", "v1");
	jsonw_str(&w, "propagationPolicy", "Background");
	if (uid[0] != '\0') {
		jsonw_object(&w, "preconditions");
		jsonw_str(&w, "uid", uid);
		jsonw_end(&w);
	}
	jsonw_end(&w);
}

int
claim_until(char dst[40], const struct claim_life *l, struct error *err)
{
	const long long now = (long long)time(NULL);
	long long last = (l->born > 0 ? l->born : now) + l->most_ms / 1000;
	long long end = now + (l->life_s < END_S ? l->life_s : END_S);

	dst[0] = '\0';
	if (l->most_ms > 0 && (l->never || end > last)) {
		if (l->given || last <= now)
			return error_set(err, ERR_INPUT, "shutdown_after_"
			    "seconds: a sandbox lives %ld seconds at most "
			    "here, so %lld is the most it can be now",
			    l->most_ms / 1000, last > now ? last - now : 0);
		end = last;
	} else if (l->never) {
		return 0;
	}
	if (claim_time(dst, end) == -1)
		return error_set(err, ERR_INPUT, "shutdown_after_seconds is "
		    "too large: %ld", l->life_s);
	return 0;
}

int
claim_time(char dst[40], long long seconds)
{
	time_t t = (time_t)seconds;
	struct tm tm;

	if (seconds < 0 || seconds > END_S ||
	    gmtime_r(&t, &tm) == NULL)
		return -1;
	return strftime(dst, 40, "%Y-%m-%dT%H:%M:%SZ", &tm) > 0 ? 0 : -1;
}
