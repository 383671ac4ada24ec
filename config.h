/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config - the settings, in one table: flag, environment, range, default.
 *
 * A flag beats the environment, which beats the .env file, which beats the
 * files of settings, which beat the default. K8S_SANDBOX_CONNECTION may hold
 * the nested settings as one JSON object; each of them by its own name beats
 * its member there. Names count without regard to case. A bad value stops the
 * start with the setting's name and what is allowed. --help comes from the
 * table, and a test holds the man page to it.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "job-config.h"

#include "http-config.h"

struct buf;
struct error;
struct log;

enum connection {
	CONNECTION_AUTO, CONNECTION_TUNNEL, CONNECTION_EXEC,
	CONNECTION_GATEWAY, CONNECTION_DIRECT, CONNECTION_IN_CLUSTER,
	CONNECTION_SANDBOXD_IN_CLUSTER,
};

/* The pod of a session of the bash family. Lists are separated by commas. */
struct config_pod {
	const char *namespace;		/* NULL: the kubeconfig's */
	const char *image, *init_image;
	bool has_agent;			/* the image does */
	const char *agent_file;		/* NULL: the one that we carry */
	const char *key_file;		/* NULL: random tokens */
	long idle_ms;
	long life_ms;			/* at most; of claims as well; 0: any */
	long pool_size;
	const char *domain;		/* of labels and annotations */
	const char *cpu_request, *cpu_limit;	/* "": none */
	const char *memory_request, *memory_limit;
	const char *user;		/* a number; "image"; NULL: see man */
	bool read_only_root;
	const char *service_account;
	bool mount_token;
	const char *node_selector;	/* "key=value" */
	const char *runtime_class;
	const char *kubeconfig_secret;
	const char *pull_secrets;
};

/* Where a setting's value comes from. */
struct config_origin {
	const char *place;	/* a file, "environment", ...; NULL: default */
	const char *name;	/* as it is called there */
	unsigned line;		/* of a file, or 0 */
	const char *text;	/* the value as given */
};

enum { CONFIG_ROWS = 112 };	/* at most */

enum { FAMILY_SANDBOX = 1, FAMILY_BASH = 2, FAMILY_JOBS = 4 };

struct config {
	const char *kubeconfig;		/* NULL: found as kubeconfig.h says */
	const char *context;
	const char *tools;	/* list of families and tools, or NULL */
	const char *deny;		/* those that are not offered */
	bool read_only;			/* only tools that change nothing */
	bool dry_run;			/* say what would be made */
	const char *connection;		/* as given */
	enum connection route;
	long server_port, rest_port, grpc_port;
	bool use_pod_ip;		/* in-cluster */
	const char *mode;		/* sandboxd-in-cluster */
	const char *gateway_name, *gateway_namespace, *gateway_scheme;
	long gateway_ready_s, gateway_port;	/* port 0: the scheme's */
	const char *api_url;		/* direct */
	const char *router_token;	/* file of the router's bearer token */
	const char *router_ca, *router_cert, *router_key;	/* files */
	bool router_pod_ip;		/* tell the router the pod's address */
	bool shell;			/* legacy: wrap commands in one */
	const char *nameserver, *cluster_domain;
	bool loopback;			/* a status may name this machine */
	bool in_cluster;		/* we are a pod ourselves */
	const char *probe_namespace;
	const char *session_label;
	const char *session_id;		/* NULL: the peer's uid, or random */
	const char *handles;		/* "any": other sessions' work too */
	const char *pod_label_domains;	/* a pod label's key needs one */
	const char *container;		/* for exec; NULL: the pod's default */
	const char *namespaces;		/* allowed, separated by commas; NULL */
	const char *pools;
	long unschedulable_s;
	bool verbose, debug_sandbox;
	struct config_pod pod;
	struct job_settings job;
	const char *transport, *address;	/* the originals' */
	struct http_settings http;
	bool stateless;
	unsigned families;	/* FAMILY_*: one of its settings is set */
	bool help, version, limits;
	const char *command;		/* first operand, or NULL */
	const char *operand;		/* the command's own, or NULL */
	char **owned[2];		/* members of a JSON object */
	struct config_origin origin[CONFIG_ROWS];	/* by row */
};

/*
 * A file of settings: "name = value" lines, the name that of a flag without
 * its dashes, blank lines and such that begin with # left out. Its text is cut
 * up in place.
 */
struct config_text {
	const char *path;	/* for errors */
	char *text;
};

/*
 * argv as main() has it; environ and dotenv (or NULL) as "NAME=value" strings;
 * n texts, of which the last counts. The result borrows from them all, until
 * config_free(). -1: err says what is wrong; *usage is set when it was argv.
 */
int config_load(struct config *c, int argc, char *const argv[],
    char *const environ[], char *const dotenv[],
    const struct config_text *texts, size_t n, bool *usage,
    struct error *err);
void config_free(struct config *c);
/* Warn of K8S_SANDBOX_* names that nobody reads. */
void config_warn(const struct log *l, char *const environ[]);

/* The OPTIONS part of --help; at most 80 columns. */
void config_help(struct buf *out);
/* Every setting as a file of them would have it, below where it comes from;
 * a default is commented out, a secret is not told. */
void config_print(const struct config *c, struct buf *out);

/* Is name in the comma-separated list? A NULL list allows everything. */
bool config_allows(const char *list, const char *name);
/* The next name of such a list into dst, and *list behind it; one that does
 * not fit is nobody's name. False: there is no further one. */
bool config_item(const char **list, char *dst, size_t size);

/* One row of the table. n: how many there are. */
struct setting {
	const char *flag;		/* without "--" */
	char letter;			/* or 0 */
	const char *env[3];
	enum { SET_TEXT, SET_INT, SET_FLAG, SET_PORT, SET_LABEL_KEY,
	    SET_LABEL, SET_URL, SET_NAME, SET_DURATION,
	    SET_LIST, SET_SECRET } type;
	size_t offset;			/* in struct config */
	long min, max;
	const char *def;		/* as text, or NULL */
	const char *const *one_of;
	const char *arg;		/* what --help calls the value */
	const char *help;		/* NULL: only in the manual */
	unsigned family;	/* FAMILY_*: setting it offers these tools */
};
const struct setting *config_rows(size_t *n);

#endif
