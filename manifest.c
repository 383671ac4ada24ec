/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "buf.h"
#include "budget.h"
#include "config.h"
#include "json.h"
#include "jsonw.h"
#include "k8s.h"
#include "manifest.h"

#define COMPONENT	"cli-mcp-sandbox"

/* $1: the file; $2: tenths of a second to wait for it. */
static const char waiter[] =
	"n=0; until [ -x \"$1\" ]; do\n"
	"sleep 0.1 2>/dev/null || { sleep 1; n=$((n+9)); }\n"
	"n=$((n+1)); [ $n -lt $2 ] || exit 1; done";

/* --- reading ------------------------------------------------------------- */

static void
note(struct json map, const char *domain, const char *name, char *dst,
    size_t size)
{
	char key[320];

	(void)snprintf(key, sizeof(key), "%s/%s", domain, name);
	if (!json_str(json_get(map, key), dst, size))
		dst[0] = '\0';
}

/* Does a container of that name run? */
static bool
runs(struct json list, const char *name)
{
	for (struct json m = json_first(list); json_type(m) != JSON_NONE;
	    m = json_next(m))
		if (json_is(json_get(m, "name"), name))
			return json_type(json_path(m, "state.running")) ==
			    JSON_OBJECT;
	return false;
}

void
pod_read(struct pod *p, struct json o, const char *domain)
{
	struct json meta = json_get(o, "metadata"), m;
	struct json status = json_get(o, "status");
	struct json phase = json_get(status, "phase");

	*p = (struct pod){ .name = "" };
	(void)json_str(json_get(meta, "name"), p->name, sizeof(p->name));
	(void)json_str(json_get(meta, "uid"), p->uid, sizeof(p->uid));
	(void)json_str(json_get(meta, "resourceVersion"), p->version,
	    sizeof(p->version));
	(void)json_str(json_get(meta, "creationTimestamp"), p->created,
	    sizeof(p->created));
	(void)json_str(json_get(status, "podIP"), p->address,
	    sizeof(p->address));
	note(json_get(meta, "labels"), domain, "session-id", p->session,
	    sizeof(p->session));
	note(json_get(meta, "annotations"), domain, "created-at", p->made,
	    sizeof(p->made));
	note(json_get(meta, "annotations"), domain, "last-activity", p->active,
	    sizeof(p->active));
	if (p->active[0] == '\0')
		memcpy(p->active, p->made, sizeof(p->active));
	p->deleting = json_type(json_get(meta, "deletionTimestamp")) ==
	    JSON_STRING;
	p->ended = json_is(phase, "Succeeded") || json_is(phase, "Failed");
	p->begun = json_is(phase, "Running") &&
	    runs(json_get(status, "containerStatuses"), POD_CONTAINER);
	p->waiting = runs(json_get(status, "initContainerStatuses"), POD_INIT);
	for (m = json_first(json_get(status, "conditions"));
	    json_type(m) != JSON_NONE; m = json_next(m))
		if (json_is(json_get(m, "type"), "Ready"))
			p->ready = json_is(json_get(m, "status"), "True") &&
			    json_is(phase, "Running");
}

int
pod_order(const void *a, const void *b)
{
	const struct pod *p = a, *q = b;
	int r;

	if (p->ready != q->ready)
		return q->ready - p->ready;
	if (p->begun != q->begun)
		return q->begun - p->begun;
	if ((r = strcmp(p->created, q->created)) != 0)
		return r;
	return strcmp(p->name, q->name);
}

long long
manifest_time(const char *text)
{
	struct tm tm = { .tm_sec = 0 };
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

	if (end == NULL)
		return -1;
	if (*end == '.')
		end += 1 + strspn(end + 1, "0123456789");
	return strcmp(end, "Z") == 0 ? (long long)timegm(&tm) : -1;
}

void
manifest_now(char dst[40])
{
	time_t now = time(NULL);
	struct tm tm;

	if (gmtime_r(&now, &tm) == NULL ||
	    strftime(dst, 40, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		dst[0] = '\0';
}

/* --- paths --------------------------------------------------------------- */

void
manifest_path(struct buf *out, const char *namespace, const char *resource,
    const char *name)
{
	buf_puts(out, "/api/v1/namespaces/");
	k8s_escape(out, namespace);
	buf_printf(out, "/%s", resource);
	if (name != NULL) {
		buf_puts(out, "/");
		k8s_escape(out, name);
	}
}

void
manifest_list(struct buf *out, const char *namespace, const char *resource,
    const char *domain, const char *session)
{
	manifest_path(out, namespace, resource, NULL);
	buf_printf(out, "?limit=%d&labelSelector=", LIMIT_LIST);
	if (session != NULL && session[0] != '\0') {
		k8s_escape(out, domain);
		buf_printf(out, "%%2Fsession-id%%3D%s%%2C", session);
	}
	k8s_escape(out, domain);
	buf_puts(out, "%2Fcomponent%3D" COMPONENT);
	if (session != NULL && session[0] == '\0') {
		buf_puts(out, "%2C%21");
		k8s_escape(out, domain);
		buf_puts(out, "%2Fsession-id");
	}
}

void
manifest_secret_name(char dst[96], const char *session)
{
	(void)snprintf(dst, 96, COMPONENT "-auth-%.63s", session);
}

/* --- writing ------------------------------------------------------------- */

static void
tagged(struct jsonw *w, const char *domain, const char *name,
    const char *value)
{
	char key[320];

	(void)snprintf(key, sizeof(key), "%s/%s", domain, name);
	jsonw_str(w, key, value);
}

static void
labels(struct jsonw *w, const char *domain, const char *session)
{
	jsonw_object(w, "labels");
	tagged(w, domain, "component", COMPONENT);
	if (session != NULL)
		tagged(w, domain, "session-id", session);
	jsonw_end(w);
}

void
manifest_powerless(struct jsonw *w)
{
	jsonw_object(w, "capabilities");
	jsonw_array(w, "drop");
	jsonw_str(w, NULL, "ALL");
	jsonw_end(w);
	jsonw_end(w);
	jsonw_bool(w, "allowPrivilegeEscalation", false);
}

void
manifest_nobody(struct jsonw *w, long uid)
{
	jsonw_bool(w, "runAsNonRoot", true);
	if (uid > 0)
		jsonw_int(w, "runAsUser", uid);
	jsonw_object(w, "seccompProfile");
	jsonw_str(w, "type", "RuntimeDefault");
	jsonw_end(w);
}

void
manifest_variable(struct jsonw *w, const char *name, const char *value)
{
	jsonw_object(w, NULL);
	jsonw_str(w, "name", name);
	jsonw_str(w, "value", value);
	jsonw_end(w);
}

static void
environment(struct jsonw *w, const struct config_pod *c, const char *session)
{
	char text[96];

	jsonw_array(w, "env");
	if (c->kubeconfig_secret != NULL)
		manifest_variable(w, "KUBECONFIG", "/config/kubeconfig");
	manifest_variable(w, "HOME", "/workspace");
	manifest_variable(w, "TMPDIR", "/tmp");
	(void)snprintf(text, sizeof(text), "%lds", (c->idle_ms + 999) / 1000);
	manifest_variable(w, "MCP_SANDBOX_IDLE_TIMEOUT", text);
	manifest_variable(w, "MCP_SANDBOX_ROOT", "/");
	if (session != NULL) {
		manifest_secret_name(text, session);
		jsonw_object(w, NULL);
		jsonw_str(w, "name", "SANDBOX_AUTH_TOKEN");
		jsonw_object(w, "valueFrom");
		jsonw_object(w, "secretKeyRef");
		jsonw_str(w, "name", text);
		jsonw_str(w, "key", "token");
		jsonw_end(w);
		jsonw_end(w);
		jsonw_end(w);
	}
	jsonw_end(w);
}

static void
amounts(struct jsonw *w, const char *key, const char *cpu, const char *memory)
{
	jsonw_object(w, key);
	if (cpu[0] != '\0')
		jsonw_str(w, "cpu", cpu);
	if (memory[0] != '\0')
		jsonw_str(w, "memory", memory);
	jsonw_end(w);
}

/* What both containers have. */
static void
container(struct jsonw *w, const struct config_pod *c, const char *name,
    const char *image)
{
	jsonw_str(w, "name", name);
	jsonw_str(w, "image", image);
	jsonw_object(w, "resources");
	amounts(w, "limits", c->cpu_limit, c->memory_limit);
	amounts(w, "requests", c->cpu_request, c->memory_request);
	jsonw_end(w);
	jsonw_object(w, "securityContext");
	manifest_powerless(w);
	if (c->read_only_root)
		jsonw_bool(w, "readOnlyRootFilesystem", true);
	jsonw_end(w);
}

void
manifest_mount(struct jsonw *w, const char *name, const char *path,
    bool read_only)
{
	jsonw_object(w, NULL);
	jsonw_str(w, "name", name);
	if (read_only)
		jsonw_bool(w, "readOnly", true);
	jsonw_str(w, "mountPath", path);
	jsonw_end(w);
}

static void
init_container(struct jsonw *w, const struct config_pod *c)
{
	char tenths[16];

	(void)snprintf(tenths, sizeof(tenths), "%d", INSTALL_S * 10);
	jsonw_array(w, "initContainers");
	jsonw_object(w, NULL);
	container(w, c, POD_INIT, c->init_image);
	jsonw_array(w, "command");
	jsonw_str(w, NULL, "/bin/sh");
	jsonw_str(w, NULL, "-c");
	jsonw_str(w, NULL, waiter);
	jsonw_str(w, NULL, "mcp-sandbox");
	jsonw_str(w, NULL, POD_AGENT);
	jsonw_str(w, NULL, tenths);
	jsonw_end(w);
	jsonw_array(w, "volumeMounts");
	manifest_mount(w, "agent", "/mcp-sandbox", false);
	jsonw_end(w);
	jsonw_end(w);
	jsonw_end(w);
}

static void
main_container(struct jsonw *w, const struct config_pod *c,
    const char *session)
{
	jsonw_array(w, "containers");
	jsonw_object(w, NULL);
	container(w, c, POD_CONTAINER, c->image);
	if (!c->has_agent) {
		jsonw_array(w, "command");
		jsonw_str(w, NULL, POD_AGENT);
		jsonw_end(w);
		jsonw_str(w, "workingDir", "/workspace");
	}
	environment(w, c, session);
	jsonw_array(w, "volumeMounts");
	if (c->kubeconfig_secret != NULL)
		manifest_mount(w, "kubeconfig", "/config", true);
	manifest_mount(w, "workspace", "/workspace", false);
	manifest_mount(w, "tmp", "/tmp", false);
	if (!c->has_agent)
		manifest_mount(w, "agent", "/mcp-sandbox", true);
	jsonw_end(w);
	/* For others who look at it: we ask the agent itself. */
	jsonw_object(w, "readinessProbe");
	jsonw_object(w, "httpGet");
	jsonw_str(w, "path", "/health");
	jsonw_int(w, "port", AGENT_PORT);
	jsonw_end(w);
	jsonw_int(w, "timeoutSeconds", 2);
	jsonw_int(w, "periodSeconds", 5);
	jsonw_end(w);
	jsonw_end(w);
	jsonw_end(w);
}

static void
empty_volume(struct jsonw *w, const char *name)
{
	jsonw_object(w, NULL);
	jsonw_str(w, "name", name);
	jsonw_object(w, "emptyDir");
	jsonw_end(w);
	jsonw_end(w);
}

static void
volumes(struct jsonw *w, const struct config_pod *c)
{
	jsonw_array(w, "volumes");
	if (c->kubeconfig_secret != NULL) {
		jsonw_object(w, NULL);
		jsonw_str(w, "name", "kubeconfig");
		jsonw_object(w, "secret");
		jsonw_str(w, "secretName", c->kubeconfig_secret);
		jsonw_end(w);
		jsonw_end(w);
	}
	empty_volume(w, "workspace");
	empty_volume(w, "tmp");
	if (!c->has_agent)
		empty_volume(w, "agent");
	jsonw_end(w);
}

void
manifest_items(struct jsonw *w, const char *key, const char *text, bool pairs)
{
	if (text == NULL)
		return;
	if (pairs)
		jsonw_object(w, key);
	else
		jsonw_array(w, key);
	while (text[strspn(text, ", ")] != '\0') {
		char item[400], *value;
		size_t n;

		text += strspn(text, ", ");
		n = strcspn(text, ", ");
		(void)snprintf(item, sizeof(item), "%.*s", (int)n, text);
		text += n;
		value = strchr(item, '=');
		if (pairs && value != NULL) {
			*value = '\0';
			jsonw_str(w, item, value + 1);
		} else if (!pairs) {
			jsonw_object(w, NULL);
			jsonw_str(w, "name", item);
			jsonw_end(w);
		}
	}
	jsonw_end(w);
}

static void
pod_spec(struct jsonw *w, const struct config_pod *c, const char *session)
{
	char *end;
	long uid = c->user != NULL ? strtol(c->user, &end, 10) :
	    c->has_agent ? 0 : 1000;

	jsonw_object(w, "spec");
	volumes(w, c);
	if (!c->has_agent)
		init_container(w, c);
	main_container(w, c, session);
	jsonw_str(w, "restartPolicy", "Never");
	if (c->life_ms > 0)
		jsonw_int(w, "activeDeadlineSeconds",
		    (c->life_ms + 999) / 1000);
	if (c->service_account != NULL)
		jsonw_str(w, "serviceAccountName", c->service_account);
	jsonw_bool(w, "automountServiceAccountToken", c->mount_token);
	jsonw_bool(w, "enableServiceLinks", false);
	if (c->runtime_class != NULL)
		jsonw_str(w, "runtimeClassName", c->runtime_class);
	manifest_items(w, "nodeSelector", c->node_selector, true);
	manifest_items(w, "imagePullSecrets", c->pull_secrets, false);
	jsonw_object(w, "securityContext");
	manifest_nobody(w, uid);
	jsonw_end(w);
	jsonw_end(w);
}

void
manifest_pod(struct buf *out, const struct config_pod *c, const char *name,
    const char *session, const char *now)
{
	struct jsonw w;

	jsonw_init(&w, out);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "apiVersion", "v1");
	jsonw_str(&w, "kind", "Pod");
	jsonw_object(&w, "metadata");
	jsonw_str(&w, "name", name);
	labels(&w, c->domain, session);
	jsonw_object(&w, "annotations");
	tagged(&w, c->domain, "created-at", now);
	tagged(&w, c->domain, "last-activity", now);
	jsonw_end(&w);
	jsonw_end(&w);
	pod_spec(&w, c, session);
	jsonw_end(&w);
}

void
manifest_secret(struct buf *out, const struct config_pod *c,
    const char *session, const char *token)
{
	char name[96];
	struct jsonw w;

	manifest_secret_name(name, session);
	jsonw_init(&w, out);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "apiVersion", "v1");
	jsonw_str(&w, "kind", "Secret");
	jsonw_object(&w, "metadata");
	jsonw_str(&w, "name", name);
	labels(&w, c->domain, session);
	jsonw_end(&w);
	jsonw_object(&w, "stringData");
	jsonw_str(&w, "token", token);
	jsonw_end(&w);
	jsonw_end(&w);
}

/* Of the metadata of a patch, and of the patch: it is in use now. */
static void
patch_end(struct jsonw *w, const char *domain, const char *now)
{
	jsonw_object(w, "annotations");
	tagged(w, domain, "last-activity", now);
	jsonw_end(w);
	jsonw_end(w);
	jsonw_end(w);
}

void
manifest_claim(struct buf *out, const char *domain, const char *session,
    const char *version, const char *now)
{
	struct jsonw w;

	jsonw_init(&w, out);
	jsonw_object(&w, NULL);
	jsonw_object(&w, "metadata");
	jsonw_str(&w, "resourceVersion", version);
	jsonw_object(&w, "labels");
	tagged(&w, domain, "session-id", session);
	jsonw_end(&w);
	patch_end(&w, domain, now);
}

void
manifest_active(struct buf *out, const char *domain, const char *now)
{
	struct jsonw w;

	jsonw_init(&w, out);
	jsonw_object(&w, NULL);
	jsonw_object(&w, "metadata");
	patch_end(&w, domain, now);
}

void
manifest_owner(struct buf *out, const struct pod *owner)
{
	struct jsonw w;

	jsonw_init(&w, out);
	jsonw_object(&w, NULL);
	jsonw_object(&w, "metadata");
	jsonw_array(&w, "ownerReferences");
	jsonw_object(&w, NULL);
	jsonw_str(&w, "apiVersion", "v1");
	jsonw_str(&w, "kind", "Pod");
	jsonw_str(&w, "name", owner->name);
	jsonw_str(&w, "uid", owner->uid);
	jsonw_end(&w);
	jsonw_end(&w);
	jsonw_end(&w);
	jsonw_end(&w);
}

void
manifest_delete(struct buf *out, const char *uid, const char *version,
    long grace)
{
	struct jsonw w;

	jsonw_init(&w, out);
	jsonw_object(&w, NULL);
	if (grace >= 0)
		jsonw_int(&w, "gracePeriodSeconds", grace);
	jsonw_object(&w, "preconditions");
	jsonw_str(&w, "uid", uid);
	if (version != NULL)
		jsonw_str(&w, "resourceVersion", version);
	jsonw_end(&w);
	jsonw_end(&w);
}
