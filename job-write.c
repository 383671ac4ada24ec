/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "job-config.h"
#include "job.h"
#include "jsonw.h"
#include "manifest.h"

enum { GROUP = 1000, TEXT_MAX = 1 << 20 };

/*
 * Waits for the runner, two minutes at most: without a server that streams it
 * in nothing will ever come of this pod.
 */
static const char inject[] =
	"i=0; until [ -e \"$1/go\" ]; do i=$((i+1));"
	" [ $i -lt 2400 ] || { echo no server came >&2; exit 1; };"
	" sleep 0.05; done";

/*
 * The token goes from the Secret's file through git's credential helper: it is
 * on no command line, in no configuration and no environment. A host's port
 * can't be in a Secret's key as it is written: "_" stands for ":".
 */
static const char clone[] =
	"set -eu\n"
	"die() { echo \"clone: $*\" >&2; exit 1; }\n"
	"export HOME=$(mktemp -d) GIT_TERMINAL_PROMPT=0 CRED=\n"
	"host=${REPO_URL#https://}; host=${host%%/*}\n"
	"[ -n \"$host\" ] || die \"$REPO_URL names no host\"\n"
	"case $REF in -*) die \"ref must not begin with a dash\";; esac\n"
	"for k in \"$host\" \"$(printf %s \"$host\" | tr : _)\"; do\n"
	"[ ! -e \"$CREDS/$k\" ] || CRED=$CREDS/$k; done\n"
	"[ ! -s $CREDS/ca.crt ] ||"
	" export GIT_SSL_CAINFO=$CREDS/ca.crt\n"
	"if [ -n \"$CRED\" ]; then\n"
	"[ -n \"$(tr -d '\\r\\n' <\"$CRED\")\" ] ||"
	" die \"the token for $host in the Secret is empty\"\n"
	"git config --global credential.helper '!h() { [ \"$1\" != get ] ||"
	" printf \"username=oauth2\\npassword=%s\\n\""
	" \"$(head -n 1 \"$CRED\" | tr -d \"\\r\\n\")\"; }; h'\n"
	"fi\n"
	"git config --global advice.detachedHead false\n"
	"git init -q \"$DEST\"; cd \"$DEST\"\n"
	"git remote add origin \"$REPO_URL\"\n"
	"e=$HOME/err; d=; [ \"$DEPTH\" = 0 ] || d=--depth=$DEPTH\n"
	"get() { git fetch -q $d origin \"$@\" 2>\"$e\"; }\n"
	"hex() { [ ${#REF} -ge 7 ] &&"
	" case $REF in *[!0-9a-f]*) false;; esac; }\n"
	"if get \"+refs/heads/$REF:refs/remotes/origin/$REF\"; then\n"
	"git checkout -q -b \"$REF\" --track \"origin/$REF\"\n"
	"elif get \"+refs/tags/$REF:refs/tags/$REF\"; then\n"
	"git checkout -q \"refs/tags/$REF\"\n"
	"elif get \"$REF\"; then git checkout -q FETCH_HEAD\n"
	"elif hex && d= get '+refs/heads/*:refs/remotes/origin/*' &&\n"
	"git checkout -q --detach \"$REF\" 2>\"$e\"; then :\n"
	"else cat \"$e\" >&2\n"
	"[ -n \"$CRED\" ] || ! grep -q 'could not read Username' \"$e\" ||\n"
	"die \"the Secret has no token for $host\"\n"
	"die \"$REF can't be had from $REPO_URL\"; fi\n"
	"[ \"$SUBMODULES\" != true ] ||"
	" git submodule -q update --init --recursive $d\n"
	"[ -z \"$CRED\" ] || { t=$(head -n 1 \"$CRED\" | tr -d '\\r\\n')\n"
	"[ ${#t} -lt 8 ] || ! printf '%s\\n' \"$t\" |"
	" grep -rqF -f /dev/stdin .git ||"
	" die \"the token was left in the repository\"; }\n"
	"echo \"cloned $REF\"\n";

/* --- parts --------------------------------------------------------------- */

static void
hardened(struct jsonw *w, long uid)
{
	jsonw_object(w, "securityContext");
	manifest_powerless(w);
	manifest_nobody(w, uid);
	jsonw_end(w);
}

/* What helpers need; a quota wants a request from every container. */
static void
small(struct jsonw *w)
{
	jsonw_object(w, "resources");
	jsonw_object(w, "requests");
	jsonw_str(w, "cpu", "10m");
	jsonw_str(w, "memory", "16Mi");
	jsonw_end(w);
	jsonw_end(w);
}

static void
words(struct jsonw *w, const char *key, const char *const *list)
{
	jsonw_array(w, key);
	for (; *list != NULL; list++)
		jsonw_str(w, NULL, *list);
	jsonw_end(w);
}

/* Kubernetes would replace $(NAME), and $$ by $: what is sent arrives. */
static void
literal(struct jsonw *w, const char *key, struct json v, struct buf *raw,
    struct buf *out)
{
	buf_reset(raw, 4096);
	buf_reset(out, 4096);
	(void)json_text(v, raw);
	for (size_t i = 0; i < raw->len; i++) {
		if (raw->data[i] == '$')
			buf_puts(out, "$");
		buf_put(out, raw->data + i, 1);
	}
	if (!buf_ok(raw) || !buf_ok(out))
		w->out->failed = true;
	jsonw_bytes(w, key, out->data == NULL ? "" : out->data, out->len);
}

/* The operator's first, but for what the caller sets. */
void
job_env_write(struct jsonw *w, const char *extra, struct json caller)
{
	struct error err;
	struct json_doc *doc = extra == NULL ? NULL :
	    json_parse_lax(extra, strlen(extra), &err);
	struct json from[2] = { json_root(doc), caller };
	struct buf key, raw, out;

	buf_init(&key, TEXT_MAX);
	buf_init(&raw, TEXT_MAX);
	buf_init(&out, 2 * TEXT_MAX);
	for (int i = 0; i < 2; i++)
		for (struct json m = json_first(from[i]);
		    json_type(m) != JSON_NONE; m = json_next(m)) {
			buf_reset(&key, 256);
			(void)json_text(json_key(m), &key);
			if (key.data == NULL || (i == 0 && json_type(json_get(
			    caller, key.data)) != JSON_NONE) ||
			    (i == 0 && json_get(from[0], key.data).tok !=
			    m.tok))
				continue;
			jsonw_object(w, NULL);
			jsonw_bytes(w, "name", key.data, key.len);
			literal(w, "value", m, &raw, &out);
			jsonw_end(w);
		}
	buf_free(&key);
	buf_free(&raw);
	buf_free(&out);
	json_free(doc);
}

/* --- containers ---------------------------------------------------------- */

static void
write_inject(struct jsonw *w, const struct job_settings *s, long uid)
{
	static const char *const command[] = { "sh", "-c", inject,
	    "mcp-sandbox", JOB_DIR, NULL };

	jsonw_object(w, NULL);
	jsonw_str(w, "name", "inject");
	jsonw_str(w, "image", s->sidecar);
	words(w, "command", command);
	small(w);
	jsonw_array(w, "volumeMounts");
	manifest_mount(w, "runner", JOB_DIR, false);
	jsonw_end(w);
	hardened(w, uid > 0 ? uid : GROUP);
	jsonw_end(w);
}

static void
write_clone(struct jsonw *w, const struct job *j, const struct job_settings *s,
    long uid)
{
	static const char *const command[] = { "sh", "-c", clone, NULL };
	char dest[2 * JOB_PATH + 2], depth[24];

	(void)snprintf(dest, sizeof(dest), "%s/%s", j->workdir,
	    j->clone.subdir);
	(void)snprintf(depth, sizeof(depth), "%ld", j->clone.depth);
	jsonw_object(w, NULL);
	jsonw_str(w, "name", "clone");
	jsonw_str(w, "image", s->clone_image);
	words(w, "command", command);
	jsonw_array(w, "env");
	manifest_variable(w, "REPO_URL", j->clone.url);
	manifest_variable(w, "REF", j->clone.ref);
	manifest_variable(w, "DEST", dest);
	manifest_variable(w, "CREDS", "/git-creds");
	manifest_variable(w, "DEPTH", depth);
	manifest_variable(w, "SUBMODULES",
	    j->clone.submodules ? "true" : "false");
	jsonw_end(w);
	small(w);
	jsonw_array(w, "volumeMounts");
	manifest_mount(w, "work", j->workdir, false);
	manifest_mount(w, "git-creds", "/git-creds", true);
	jsonw_end(w);
	hardened(w, uid > 0 ? uid : GROUP);
	jsonw_end(w);
}

static void
write_resources(struct jsonw *w, const struct job *j,
    const struct job_settings *s)
{
	const char *cpu = j->cpu[0] != '\0' ? j->cpu : s->cpu_max;
	const char *memory = j->memory[0] != '\0' ? j->memory : s->memory_max;

	jsonw_object(w, "resources");
	jsonw_object(w, "requests");
	jsonw_str(w, "cpu", s->cpu);
	jsonw_str(w, "memory", j->memory[0] != '\0' ? j->memory : s->memory);
	jsonw_end(w);
	if (cpu != NULL || memory != NULL) {
		jsonw_object(w, "limits");
		if (cpu != NULL)
			jsonw_str(w, "cpu", cpu);
		if (memory != NULL)
			jsonw_str(w, "memory", memory);
		jsonw_end(w);
	}
	jsonw_end(w);
}

static void
write_main(struct jsonw *w, const struct job *j, const struct job_settings *s,
    long uid)
{
	char seconds[24];
	const char *const runner[] = { JOB_DIR "/agent", "job", "run", "--dir",
	    JOB_DIR, "--work", j->workdir, "--timeout", seconds, "--", NULL };
	struct buf raw, out;

	(void)snprintf(seconds, sizeof(seconds), "%ld", j->timeout_s);
	buf_init(&raw, TEXT_MAX);
	buf_init(&out, 2 * TEXT_MAX);
	jsonw_object(w, NULL);
	jsonw_str(w, "name", "main");
	jsonw_str(w, "image", j->image);
	words(w, "command", runner);
	jsonw_array(w, "args");
	for (struct json m = json_first(j->command);
	    json_type(m) != JSON_NONE; m = json_next(m))
		literal(w, NULL, m, &raw, &out);
	jsonw_end(w);
	jsonw_str(w, "workingDir", j->workdir);
	jsonw_array(w, "env");
	job_env_write(w, s->extra_env, j->env);
	jsonw_end(w);
	write_resources(w, j, s);
	jsonw_array(w, "volumeMounts");
	manifest_mount(w, "work", j->workdir, false);
	manifest_mount(w, "runner", JOB_DIR, false);
	if (s->cache_pvc != NULL)
		manifest_mount(w, "cache", s->cache_path, false);
	jsonw_end(w);
	hardened(w, uid);
	jsonw_end(w);
	buf_free(&raw);
	buf_free(&out);
}

static void
write_reader(struct jsonw *w, const struct job *j,
    const struct job_settings *s, long uid)
{
	char keep[24];
	const char *const command[] = { JOB_DIR "/agent", "job", "keep",
	    "--dir", JOB_DIR, "--work", j->workdir, "--keep", keep, NULL };

	(void)snprintf(keep, sizeof(keep), "%ld", s->keep_s);
	jsonw_object(w, NULL);
	jsonw_str(w, "name", "reader");
	jsonw_str(w, "image", s->sidecar);
	words(w, "command", command);
	small(w);
	jsonw_array(w, "volumeMounts");
	manifest_mount(w, "work", j->workdir, false);
	manifest_mount(w, "runner", JOB_DIR, false);
	jsonw_end(w);
	hardened(w, uid > 0 ? uid : GROUP);
	jsonw_end(w);
}

/* --- the whole ----------------------------------------------------------- */

static void
write_volumes(struct jsonw *w, const struct job *j,
    const struct job_settings *s)
{
	static const char *const empty[] = { "work", "runner" };

	jsonw_array(w, "volumes");
	for (size_t i = 0; i < 2; i++) {
		jsonw_object(w, NULL);
		jsonw_str(w, "name", empty[i]);
		jsonw_object(w, "emptyDir");
		jsonw_end(w);
		jsonw_end(w);
	}
	if (s->cache_pvc != NULL) {
		jsonw_object(w, NULL);
		jsonw_str(w, "name", "cache");
		jsonw_object(w, "persistentVolumeClaim");
		jsonw_str(w, "claimName", s->cache_pvc);
		jsonw_end(w);
		jsonw_end(w);
	}
	if (j->cloned) {
		jsonw_object(w, NULL);
		jsonw_str(w, "name", "git-creds");
		jsonw_object(w, "secret");
		jsonw_str(w, "secretName", s->clone_secret);
		jsonw_int(w, "defaultMode", 0440);
		jsonw_bool(w, "optional", true);
		jsonw_end(w);
		jsonw_end(w);
	}
	jsonw_end(w);
}

static void
write_pod_rules(struct jsonw *w, const struct job_settings *s, long uid)
{
	jsonw_str(w, "restartPolicy", "Never");
	jsonw_bool(w, "automountServiceAccountToken", false);
	jsonw_bool(w, "enableServiceLinks", false);
	jsonw_int(w, "terminationGracePeriodSeconds", 3);
	jsonw_object(w, "securityContext");
	manifest_nobody(w, uid);
	if (uid > 0)
		jsonw_int(w, "runAsGroup", uid);
	jsonw_int(w, "fsGroup", uid > 0 ? uid : GROUP);
	jsonw_end(w);
	manifest_items(w, "imagePullSecrets", s->pull_secrets, false);
	manifest_items(w, "nodeSelector", s->node_selector, true);
	if (s->runtime_class != NULL)
		jsonw_str(w, "runtimeClassName", s->runtime_class);
}

static void
write_labels(struct jsonw *w, const struct job *j, const char *label,
    const char *session)
{
	jsonw_object(w, "labels");
	jsonw_str(w, "app", JOB_APP);
	jsonw_str(w, "run-id", j->run_id);
	if (label != NULL)
		jsonw_str(w, label, session);
	jsonw_end(w);
}

static void
write_pod(struct jsonw *w, const struct job *j, const struct job_settings *s)
{
	long uid = strcmp(s->user, "image") == 0 ? 0 : strtol(s->user, NULL,
	    10);

	jsonw_object(w, "spec");
	write_volumes(w, j, s);
	jsonw_array(w, "initContainers");
	write_inject(w, s, uid);
	if (j->cloned)
		write_clone(w, j, s, uid);
	jsonw_end(w);
	jsonw_array(w, "containers");
	write_main(w, j, s, uid);
	write_reader(w, j, s, uid);
	jsonw_end(w);
	write_pod_rules(w, s, uid);
	jsonw_end(w);
}

void
job_write(struct buf *out, const struct job *j, const struct job_settings *s,
    const char *label, const char *session)
{
	struct jsonw w;

	jsonw_init(&w, out);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "apiVersion", "batch/v1");
	jsonw_str(&w, "kind", "Job");
	jsonw_object(&w, "metadata");
	jsonw_str(&w, "name", j->token);
	jsonw_str(&w, "namespace", s->namespace);
	write_labels(&w, j, label, session);
	jsonw_end(&w);
	jsonw_object(&w, "spec");
	jsonw_int(&w, "parallelism", 1);
	jsonw_int(&w, "completions", 1);
	jsonw_int(&w, "backoffLimit", 0);
	jsonw_int(&w, "activeDeadlineSeconds", s->start_s + j->timeout_s +
	    s->keep_s + 60);
	jsonw_int(&w, "ttlSecondsAfterFinished", s->keep_s);
	jsonw_object(&w, "template");
	jsonw_object(&w, "metadata");
	write_labels(&w, j, label, session);
	jsonw_end(&w);
	write_pod(&w, j, s);
	jsonw_end(&w);
	jsonw_end(&w);
	jsonw_end(&w);
}
