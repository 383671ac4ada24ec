/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job-config - the settings of the jobs family, as rows for config.c.
 *
 * The names and defaults are those of mcp-k8s-ephemeral-job; what begins with
 * MCP_SANDBOX_ is new.
 */
#ifndef JOB_CONFIG_H
#define JOB_CONFIG_H

struct job_settings {
	const char *namespace;
	long timeout_s, timeout_max_s;	/* unless a call says; at most */
	long out_max;			/* bytes of each output inline */
	long files_max;			/* bytes of all artifacts inline */
	const char *cpu, *memory;	/* requests of the command */
	const char *cpu_max, *memory_max; /* its limits at most, or NULL */
	long concurrent;
	const char *images;		/* allowed, by commas; NULL: none */
	const char *match;		/* "strict" or "basename" */
	const char *sidecar;		/* image with a shell */
	const char *clone_image, *clone_secret;
	const char *extra_env;		/* JSON object of strings */
	const char *cache_pvc, *cache_path;
	const char *user;		/* uid, or "image" */
	const char *pull_secrets;	/* by commas */
	const char *node_selector;	/* "key=value,..." */
	const char *runtime_class;
	long keep_s;			/* a result, after its end */
	long start_s;			/* until a pod must have started */
};

#define JOB_ROW(flag, env, type, field, min, max, def, one_of, arg, fam) \
	{ flag, 0, { env }, type, offsetof(struct config, job.field),	\
	    min, max, def, one_of, arg, NULL, fam }

#define JOB_ROWS							\
	JOB_ROW("job-images", "MCP_K8S_ALLOWED_IMAGES", SET_TEXT, images, \
	    0, 0, NULL, NULL, "LIST", FAMILY_JOBS),			\
	JOB_ROW("job-image-match", "MCP_SANDBOX_JOB_IMAGE_MATCH", SET_TEXT, \
	    match, 0, 0, "strict", job_matches, "HOW", 0), \
	JOB_ROW("job-namespace", "MCP_K8S_NAMESPACE", SET_LABEL, namespace, \
	    0, 0, "mcp-ephemeral", NULL, "NS", 0), \
	JOB_ROW("job-timeout", "MCP_K8S_DEFAULT_TIMEOUT_S", SET_INT,	\
	    timeout_s, 1, 86400, "60", NULL, "S", 0),			\
	JOB_ROW("job-max-timeout", "MCP_K8S_MAX_TIMEOUT_S", SET_INT,	\
	    timeout_max_s, 1, 86400, "600", NULL, "S", 0), \
	JOB_ROW("job-max-output", "MCP_K8S_MAX_OUTPUT_BYTES", SET_INT,	\
	    out_max, 0, 16L << 20, "1048576", NULL, "BYTES", 0), \
	JOB_ROW("job-max-artifacts", "MCP_K8S_MAX_ARTIFACT_BYTES", SET_INT, \
	    files_max, 0, 1L << 30, "10485760", NULL, "BYTES", 0), \
	JOB_ROW("job-cpu", "MCP_K8S_DEFAULT_CPU", SET_TEXT, cpu, 0, 0,	\
	    "1", NULL, "QUANTITY", 0),					\
	JOB_ROW("job-memory", "MCP_K8S_DEFAULT_MEMORY", SET_TEXT, memory, \
	    0, 0, "512Mi", NULL, "QUANTITY", 0), \
	JOB_ROW("job-max-cpu", "MCP_SANDBOX_JOB_MAX_CPU", SET_TEXT, cpu_max, \
	    0, 0, NULL, NULL, "QUANTITY", 0),				\
	JOB_ROW("job-max-memory", "MCP_SANDBOX_JOB_MAX_MEMORY", SET_TEXT, \
	    memory_max, 0, 0, NULL, NULL, "QUANTITY", 0),		\
	JOB_ROW("job-max-concurrent", "MCP_K8S_MAX_CONCURRENT", SET_INT, \
	    concurrent, 1, 400, "10", NULL, "N", 0),			\
	JOB_ROW("job-sidecar-image", "MCP_K8S_SIDECAR_IMAGE", SET_TEXT,	\
	    sidecar, 0, 0, "busybox:1.36", NULL, "IMAGE", 0),		\
	JOB_ROW("job-clone-image", "MCP_K8S_CLONE_IMAGE", SET_TEXT,	\
	    clone_image, 0, 0, NULL, NULL, "IMAGE", 0),			\
	JOB_ROW("job-clone-secret", "MCP_K8S_CLONE_SECRET", SET_NAME,	\
	    clone_secret, 0, 0, NULL, NULL, "NAME", 0),			\
	JOB_ROW("job-extra-env", "MCP_K8S_JOB_EXTRA_ENV", SET_SECRET,	\
	    extra_env, 0, 0, NULL, NULL, "JSON", 0),			\
	JOB_ROW("job-cache-pvc", "MCP_K8S_CACHE_PVC", SET_NAME, cache_pvc, \
	    0, 0, NULL, NULL, "NAME", 0), \
	JOB_ROW("job-cache-path", "MCP_K8S_CACHE_MOUNT_PATH", SET_TEXT,	\
	    cache_path, 0, 0, NULL, NULL, "PATH", 0),			\
	JOB_ROW("job-user", "MCP_SANDBOX_JOB_USER", SET_TEXT, user, 0, 0, \
	    "1000", NULL, "UID", 0),					\
	JOB_ROW("job-pull-secrets", "MCP_SANDBOX_JOB_PULL_SECRETS",	\
	    SET_TEXT, pull_secrets, 0, 0, NULL, NULL, "LIST", 0), \
	JOB_ROW("job-node-selector", "MCP_SANDBOX_JOB_NODE_SELECTOR",	\
	    SET_TEXT, node_selector, 0, 0, NULL, NULL, "LIST", 0), \
	JOB_ROW("job-runtime-class", "MCP_SANDBOX_JOB_RUNTIME_CLASS",	\
	    SET_NAME, runtime_class, 0, 0, NULL, NULL, "NAME", 0), \
	JOB_ROW("job-keep", "MCP_SANDBOX_JOB_KEEP", SET_INT, keep_s, 0,	\
	    86400, "3600", NULL, "S", 0), \
	JOB_ROW("job-start-timeout", "MCP_SANDBOX_JOB_START_TIMEOUT",	\
	    SET_INT, start_s, 1, 3600, "300", NULL, "S", 0)

#endif
