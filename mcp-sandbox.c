/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcp-sandbox - an MCP server on standard input and output that gives language
 * models sandboxes on Kubernetes. The order in main() is the security.
 */
#include <elf.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alive.h"
#include "ask.h"
#include "audit.h"
#include "auth.h"
#include "buf.h"
#include "completion.h"
#include "conffile.h"
#include "config.h"
#include "doctor.h"
#include "dotenv.h"
#include "env.h"
#include "error.h"
#include "execcred.h"
#include "file.h"
#include "front.h"
#include "gc.h"
#include "hosting.h"
#include "job.h"
#include "jobcache.h"
#include "jsonw.h"
#include "k8s.h"
#include "kubeconfig.h"
#include "budget.h"
#include "link.h"
#include "log.h"
#include "loop.h"
#include "mcp.h"
#include "offer.h"
#include "place.h"
#include "plugin.h"
#include "sandbox.h"
#include "session.h"
#include "stash.h"
#include "tools.h"
#include "tools-sandbox.h"
#include "web.h"

enum {
	EXIT_LEFT = 2, EXIT_USAGE = 64, EXIT_CLUSTER = 69, EXIT_OS = 71,
	EXIT_CONFIG = 78
};

enum { SETTLED_MS = 100 };	/* the first answer is out by then */

extern char **environ;

struct server;

/* What else it does than serve MCP. */
struct command {
	const char *name;
	/* With the cluster at hand, confined; or NULL ... */
	int (*run)(struct server *, struct error *);
	/* ... without either. */
	int (*print)(const struct server *, struct error *);
};

/* Everything a process has, in the order it is made. */
struct server {
	struct config config;
	char **dotenv;
	struct conffiles files;
	struct log log;
	struct kubeconfig kc;
	struct plugin *plugin;
	struct env env;
	struct offer offer;
	const struct command *command;	/* NULL: serve MCP */
	unsigned char key[32];
	struct hosting host;
	struct peer peer;
	struct sandbox_state confined;
	int signals, out;
};

static void
help(void)
{
	struct buf b;

	buf_init(&b, 64 * 1024);
	buf_puts(&b, "usage: mcp-sandbox [options] "
	    "[check|config|gc|ls|serve|tools|completion SHELL]\n"
	    "Serve MCP on standard input and output; check: can it work here?\n"
	    "\n");
	config_help(&b);
	buf_puts(&b, "\nmcp-sandbox(1) has the rest, with defaults that are "
	    "mostly right.\n");
	fputs(b.data, stdout);
	buf_free(&b);
}

static void
limits_print(void)
{
	size_t n;
	const struct limit *l = limits_rows(&n);

	for (size_t i = 0; i < n; i++)
		printf("%s\t%ld\t%s\t%s\n", l[i].name, l[i].value, l[i].unit,
		    l[i].what);
}

/* One descriptor for the signals that end us; a broken pipe and a file that is
 * full are errors of write(2), and there are no children. */
static int
signals_open(void)
{
	sigset_t set;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGXFSZ, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL) == -1)
		return -1;
	return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* Whose sandboxes these are: as set, the peer's uid on a socket, or nobody
 * else's. */
static int
session_open(struct server *s, struct error *err)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	unsigned char raw[16];
	char *at = s->env.session;

	if (s->config.session_id != NULL) {
		(void)snprintf(at, sizeof(s->env.session), "%s",
		    s->config.session_id);
		return 0;
	}
	if (getsockopt(0, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
	    peer.pid != 0) {
		(void)snprintf(at, sizeof(s->env.session), "uid-%u", peer.uid);
		log_line(&s->log, LOG_NOTE, "peer uid %u, pid %d", peer.uid,
		    (int)peer.pid);
		return 0;
	}
	if (getrandom(raw, sizeof(raw), 0) != sizeof(raw))
		return error_sys(err, "getrandom");
	raw[6] = (unsigned char)((raw[6] & 0x0f) | 0x40);
	raw[8] = (unsigned char)((raw[8] & 0x3f) | 0x80);
	for (size_t i = 0; i < sizeof(raw); i++) {
		bool dash = i == 4 || i == 6 || i == 8 || i == 10;

		at += snprintf(at, 4, "%s%02x", dash ? "-" : "", raw[i]);
	}
	return 0;
}

/* The .env file of the working directory; a folder of that name is Python's. */
static int
dotenv_open(struct server *s, struct error *err)
{
	struct stat st;
	unsigned bad;
	char *text;
	size_t len;

	if (stat(".env", &st) == -1 || !S_ISREG(st.st_mode))
		return 0;
	if ((text = file_read(NULL, ".env", &len, err)) == NULL)
		return -1;
	s->dotenv = dotenv_parse(text, len, environ, &bad, err);
	explicit_bzero(text, len);
	free(text);
	if (s->dotenv == NULL)
		return error_wrap(err, ".env");
	if (bad != 0)
		log_line(&s->log, LOG_WARN, ".env: line %u is no setting and "
		    "was left out", bad);
	return 0;
}

static int
fail(const struct server *s, int status, const struct error *err)
{
	log_line(&s->log, LOG_ERROR, "%s", err->text);
	return status;
}

/* Set-up reads files and may ask a name server: not for ever. A plugin has
 * its own limit, which comes first. */
static void
watchdog(const struct server *s)
{
	alarm((LIMIT_SETUP_MS + (s->kc.exec != NULL ? 2 * LIMIT_PLUGIN_MS :
	    0)) / 1000);
}

/* Who runs the kubeconfig's plugin, from here on on its own; and does it work?
 * What it gives, cluster_open() asks for once more, to keep. */
static int
plugin_begin(struct server *s, struct error *err)
{
	struct execcred ignored;
	unsigned long generation;
	const char *text;
	struct buf in;
	size_t len;
	int fd, r = -1;

	watchdog(s);
	if ((s->plugin = plugin_open(s->kc.exec, &s->log, err)) == NULL ||
	    (fd = plugin_connect(s->plugin, err)) == -1)
		return -1;
	plugin_buf(&in);
	if (plugin_ask(fd, 0, err) == 0 && plugin_wait(fd, &in, &generation,
	    &text, &len, err) == 0)
		r = execcred_parse(&ignored, text, len, s->kc.exec->version,
		    err) == 0 ? 0 : error_wrap(err, "credential plugin %s",
		    s->kc.exec->command);
	if (r == 0)
		execcred_free(&ignored);
	buf_wipe(&in);
	(void)close(fd);
	return r;
}

/* Our credentials, in memory before the jail. */
static int
credentials_open(struct server *s, struct error *err)
{
	struct env *e = &s->env;

	e->config = &s->config;
	e->log = &s->log;
	if (kubeconfig_load(&s->kc, s->config.kubeconfig, s->config.context,
	    err) == -1)
		return -1;
	if (s->kc.exec != NULL && plugin_begin(s, err) == -1)
		return error_wrap(err, "user \"%s\"", s->kc.user);
	e->namespace = s->kc.namespace;
	if (s->kc.readable != NULL)
		log_line(&s->log, LOG_WARN, "%s can be read by others: chmod "
		    "600 it", s->kc.readable);
	if (s->kc.left_out > 0)
		log_line(&s->log, LOG_WARN, "%s: of its certificate "
		    "authorities %d can't be read, or used", s->kc.source,
		    s->kc.left_out);
	if (s->kc.insecure)
		log_line(&s->log, LOG_WARN, "%s: insecure-skip-tls-verify: "
		    "anybody in between can be the cluster", s->kc.source);
	if (strncmp(s->kc.server, "http://", 7) == 0)
		log_line(&s->log, LOG_WARN, "%s: the server's address is "
		    "http: everybody in between reads and changes what is "
		    "said", s->kc.source);
	return 0;
}

/* What asks the cluster; of a process for itself, never inherited. */
static int
cluster_open(struct server *s, struct error *err)
{
	struct env *e = &s->env;

	if (s->command == NULL)
		e->stash = stash_open();
	if ((e->loop = loop_open(err)) == NULL ||
	    (e->web = web_open(e->loop, err)) == NULL ||
	    (e->k8s = k8s_open(e->loop, e->web, &s->kc, err)) == NULL ||
	    (s->plugin != NULL && k8s_plugin(e->k8s, s->plugin, err) == -1))
		return -1;
	plugin_close(s->plugin);
	s->plugin = NULL;
	if ((e->links = links_open(e, err)) == NULL ||
	    ((s->offer.families & FAMILY_BASH || s->command != NULL) &&
	    (e->sessions = sessions_open(e, err)) == NULL) ||
	    (s->offer.families & FAMILY_JOBS && s->host.mode != HOSTING_SERVE &&
	    jobcache_check(e, err) == -1))
		return -1;
	return session_open(s, err);
}

/*
 * The same for a server that listens: asked once, by a process that has no
 * other task, because nothing of TLS may be set up before the others' fork.
 * 0, or the exit status.
 */
static int
volume_checked(struct server *s, struct error *err)
{
	int status = 0;
	pid_t pid;

	if ((s->offer.families & FAMILY_JOBS) == 0 ||
	    s->config.job.cache_pvc == NULL)
		return 0;
	if ((pid = fork()) == 0) {
		watchdog(s);
		if (cluster_open(s, err) == 0 &&
		    jobcache_check(&s->env, err) == 0)
			_exit(0);
		_exit(fail(s, err->code == ERR_CONFIG ? EXIT_CONFIG :
		    EXIT_CLUSTER, err));
	}
	if (pid == -1 || waitpid(pid, &status, 0) == -1) {
		error_sys(err, "a process of its own");
		return fail(s, EXIT_OS, err);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_OS;
}

/*
 * Most of the program's pages were touched by set-up only (YAML, certificates,
 * the resolver). Give them back, once the first answer is out: what the loop
 * needs returns by itself. Newer
 * kernels bring the whole folio of the page cache along, up to all of the
 * program, but only inside its mapping: so cut that into pieces.
 */
static void
forget(uintptr_t at, uintptr_t end)
{
	enum { PIECE = 64 * 1024 };	/* what a fault maps around it */

	/* Neighbours with different advice stay apart. */
	for (uintptr_t p = at; p < end; p += 2 * PIECE)
		(void)madvise((void *)p, end - p < PIECE ? end - p : PIECE,
		    MADV_RANDOM);
	(void)madvise((void *)at, end - at, MADV_DONTNEED);
}

static void
forget_setup(void *unused)
{
	extern const Elf64_Dyn _DYNAMIC[]
	    __attribute__((visibility("hidden")));
	const Elf64_Phdr *p = (const void *)getauxval(AT_PHDR);
	const Elf64_Phdr *end = p + getauxval(AT_PHNUM), *dynamic = p;
	uintptr_t base;

	(void)unused;
	while (dynamic < end && dynamic->p_type != PT_DYNAMIC)
		dynamic++;
	if (dynamic == end)
		return;
	base = (uintptr_t)_DYNAMIC - dynamic->p_vaddr;
	/* What is not ours to write is as the file has it. */
	for (; p < end; p++)
		if (p->p_type == PT_LOAD && (p->p_flags & PF_W) == 0)
			forget(base + p->p_vaddr, (base + p->p_vaddr +
			    p->p_memsz + 4095) & ~4095UL);
}

/*
 * The folders of tokens that rotate: a rule sticks to an inode, and a rotated
 * token is a new file. Returns how many.
 */
static size_t
token_folders(const struct server *s, char folders[2][4096], const char **paths)
{
	const char *const tokens[] = { s->kc.token_file,
	    s->config.router_token };
	size_t n = 0;
	char *slash;

	for (size_t i = 0; i < 2; i++) {
		if (tokens[i] == NULL)
			continue;
		(void)snprintf(folders[n], 4096, "%s", tokens[i]);
		if ((slash = strrchr(folders[n], '/')) != NULL)
			slash[slash == folders[n]] = '\0';
		else
			(void)snprintf(folders[n], 4096, ".");
		paths[n] = folders[n];
		n++;
	}
	paths[n] = NULL;
	return n;
}

static int
listen_and_serve(struct server *s, struct error *err)
{
	const struct config *c = &s->config;
	const char *paths[12], *const all[] = { c->pod.key_file,
	    c->pod.agent_file, c->router_ca, c->router_cert, c->router_key };
	char folders[2][4096];
	size_t n = token_folders(s, folders, paths);
	struct stash *stash = stash_open();

	/* The processes to come open their own: here is seen where. */
	s->host.folder = stash_folder(stash);
	stash_close(stash);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i] != NULL)
			paths[n++] = all[i];
	paths[n] = NULL;
	return hosting_accept(&s->host, paths, err);
}

static int
confine(struct server *s, struct error *err)
{
	char folders[2][4096];
	const char *paths[3];
	struct sandbox box = { .read_paths = paths,
	    .debug = s->config.debug_sandbox };

	(void)token_folders(s, folders, paths);
	if (sandbox_enter(&box, &s->confined, err) == -1)
		return -1;
	if (s->config.verbose)
		log_line(&s->log, LOG_NOTE, "session %s, cluster of %s, "
		    "seccomp %s, Landlock %d", s->env.session, s->kc.source,
		    s->confined.seccomp ? "on" : "off",
		    s->confined.landlock_abi);
	return 0;
}

static void
server_close(struct server *s)
{
	hosting_close(&s->host);
	sessions_close(s->env.sessions);
	links_close(s->env.links);
	k8s_close(s->env.k8s);
	web_close(s->env.web);
	loop_close(s->env.loop);
	stash_close(s->env.stash);
	plugin_close(s->plugin);
	kubeconfig_free(&s->kc);
	config_free(&s->config);
	dotenv_free(s->dotenv);
	conffiles_close(&s->files);
}

static int
collect(struct server *s, struct error *err)
{
	int r = gc_run(&s->env, sessions_namespace(s->env.sessions), 1, err);

	server_close(s);
	return r;
}

static void
on_over(void *arg, const struct call *c, const struct error *err,
    bool cancelled)
{
	const struct server *s = arg;
	struct place p = place_of(c);

	audit_call(&s->log, c, &p, err, cancelled);
}

static int
serve(struct server *s, struct error *err)
{
	struct mcp_rows rows = {
		.name = "mcp-sandbox", .title = "MCP sandbox",
		.version = VERSION, .instructions = s->offer.instructions,
		.tools = s->offer.tools,
		.methods = s->offer.families & FAMILY_SANDBOX ?
		    sandbox_methods : NULL,
		.key = s->key,
	};
	struct mcp_caller who = { .name = s->peer.name, .over = on_over,
	    .arg = s };
	struct front f = { .loop = s->env.loop, .rows = &rows,
	    .env = &s->env, .log = &s->log, .in = 0, .out = s->out,
	    .signals = s->signals, .stash = s->env.stash };
	int r;

	if (s->config.http.audit)
		f.caller = &who;
	auth_peer(&s->peer, 0);
	(void)loop_timer_add(s->env.loop, SETTLED_MS, forget_setup, NULL);
	r = s->host.mode == HOSTING_LINES ? front_lines(&f, err) :
	    hosting_run(&s->host, &rows, &s->env, err);
	if (s->env.sessions != NULL && sessions_finish(s->env.sessions,
	    LIMIT_DRAIN_MS, err) == -1) {
		log_line(&s->log, LOG_WARN, "%s", err->text);
		r = r == 0 ? EXIT_LEFT : r;
	}
	server_close(s);
	return r;
}

/* What is asked for is only some words. */
static bool
told(const struct config *c)
{
	if (c->help)
		help();
	else if (c->limits)
		limits_print();
	else if (c->version)
		puts("mcp-sandbox " VERSION);
	/* What a report of a fault needs besides. */
	if (c->version && c->verbose)
		puts(web_libraries());
	return c->help || c->limits || c->version;
}

static int
doctor(struct server *s, struct error *err)
{
	int r;

	(void)err;
	say(1, "ok    %-14s seccomp, no_new_privs%s%.0d", "confinement",
	    s->confined.landlock_abi > 0 ? ", Landlock of version " :
	    "; this kernel has no Landlock", s->confined.landlock_abi);
	r = doctor_run(&s->env, &s->kc, s->offer.families, 1);
	server_close(s);
	return r;
}

static int
alive(struct server *s, struct error *err)
{
	int r = alive_run(&s->env, s->offer.families, 1, err);

	server_close(s);
	return r;
}

/* What a command has to say, to standard output; b is freed. */
static int
printed(struct buf *b, struct error *err)
{
	bool ok = buf_ok(b);

	if (ok)
		fputs(b->data, stdout);
	buf_free(b);
	return ok ? 0 : error_set(err, ERR_SYSTEM, "out of memory");
}

static int
tools_print(const struct server *s, struct error *err)
{
	struct jsonw w;
	struct buf b;

	buf_init(&b, LIMIT_REPLY);
	jsonw_init(&w, &b);
	jsonw_object(&w, NULL);
	tools_list(&w, s->offer.tools);
	jsonw_end(&w);
	buf_puts(&b, "\n");
	return printed(&b, err);
}

static int
settings_print(const struct server *s, struct error *err)
{
	struct buf b;

	buf_init(&b, 1 << 20);
	config_print(&s->config, &b);
	return printed(&b, err);
}

static int completion(const struct server *s, struct error *err);

static const struct command commands[] = {
	{ "check", doctor, NULL }, { "completion", NULL, completion },
	{ "config", NULL, settings_print }, { "gc", collect, NULL },
	{ "ls", alive, NULL }, { "serve", NULL, NULL },
	{ "tools", NULL, tools_print },
};

enum { NCOMMANDS = sizeof(commands) / sizeof(commands[0]) };

static int
completion(const struct server *s, struct error *err)
{
	const char *names[NCOMMANDS + 1] = { NULL };
	struct buf b;

	for (size_t i = 0; i < NCOMMANDS; i++)
		names[i] = commands[i].name;
	if (s->config.operand == NULL)
		return error_set(err, ERR_CONFIG, "completion: of which shell? "
		    "bash, zsh or fish");
	buf_init(&b, 1 << 20);
	if (completion_write(&b, s->config.operand, names, err) == 0)
		return printed(&b, err);
	buf_free(&b);
	return -1;
}

/* These have no client to be cleaned up for: a signal simply ends them. */
static int
command_find(struct server *s, struct error *err)
{
	const char *name = s->config.command;
	const struct command *c = commands;
	sigset_t none;

	if (name == NULL)
		return 0;
	while (c < commands + NCOMMANDS && strcmp(c->name, name) != 0)
		c++;
	if (c == commands + NCOMMANDS)
		return error_set(err, ERR_CONFIG, "there is no command "
		    "'%.60s'; try --help", name);
	if (s->config.operand != NULL && c->print != completion)
		return error_set(err, ERR_CONFIG, "unexpected argument %.60s",
		    s->config.operand);
	if (c->run == NULL && c->print == NULL)
		return 0;
	s->command = c;
	sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL);
}

int
main(int argc, char *argv[])
{
	struct server s = { .signals = -1 };
	struct error error = { ERR_NONE, "" };
	int keep[LISTENER_MAX];
	bool usage;
	int r;

	/* 1. Nothing inherited but 0 to 2, which are open, and sockets that
	 * systemd means for us. */
	log_open(&s.log, LOG_NOTE);
	if (sandbox_descriptors(keep, hosting_keep(&s.host, keep),
	    &error) == -1)
		return fail(&s, EXIT_OS, &error);
	/* 2. Signals that end us arrive where the loop waits. */
	if ((s.signals = signals_open()) == -1) {
		error_sys(&error, "signals");
		return fail(&s, EXIT_OS, &error);
	}
	/* 3. It does not go on for ever. */
	watchdog(&s);
	/* 4. What is wanted. */
	if (dotenv_open(&s, &error) == -1 ||
	    conffiles_open(&s.files, &error) == -1)
		return fail(&s, EXIT_CONFIG, &error);
	if (config_load(&s.config, argc, argv, environ, s.dotenv,
	    s.files.text, s.files.n, &usage, &error) == -1)
		return fail(&s, usage ? EXIT_USAGE : EXIT_CONFIG, &error);
	if (told(&s.config))
		return 0;
	if (command_find(&s, &error) == -1)
		return fail(&s, EXIT_USAGE, &error);
	config_warn(&s.log, environ);
	config_warn(&s.log, s.dotenv);
	if (offer_choose(&s.offer, &s.config, &error) == -1 ||
	    (s.offer.families & FAMILY_JOBS &&
	    job_settings_check(&s.config.job, &error) == -1))
		return fail(&s, EXIT_CONFIG, &error);
	if (s.command != NULL && s.command->print != NULL)
		return s.command->print(&s, &error) == 0 ? 0 :
		    fail(&s, EXIT_USAGE, &error);
	/* 5. Files, keys and the cluster's address, into memory. */
	s.host.out = s.out = front_unblocked(1);
	if (credentials_open(&s, &error) == -1)
		return fail(&s, error.code == ERR_CONFIG ? EXIT_CONFIG :
		    EXIT_CLUSTER, &error);
	if (hosting_open(&s.host, &s.config, &s.log, s.signals, s.key,
	    &error) == -1) {
		r = fail(&s, error.code == ERR_SYSTEM ? EXIT_OS : EXIT_CONFIG,
		    &error);
		server_close(&s);
		return r;
	}
	/* Past this, each connection is in a process of its own. */
	if (s.host.mode == HOSTING_SERVE && s.command == NULL) {
		alarm(0);
		if ((r = volume_checked(&s, &error)) != 0) {
			server_close(&s);
			return r;
		}
		if ((r = listen_and_serve(&s, &error)) == -1)
			return fail(&s, EXIT_OS, &error);
		if (r == 0) {
			server_close(&s);
			return 0;
		}
		watchdog(&s);
	}
	if (cluster_open(&s, &error) == -1) {
		server_close(&s);
		return fail(&s, error.code == ERR_CONFIG ? EXIT_CONFIG :
		    EXIT_CLUSTER, &error);
	}
	alarm(0);
	/* 6. From here on nothing can be opened, started or become. */
	if (confine(&s, &error) == -1)
		return fail(&s, EXIT_OS, &error);
	/* 7. Only now the first byte of the client's is read. */
	r = s.command != NULL ? s.command->run(&s, &error) :
	    serve(&s, &error);
	if (r == -1)
		return fail(&s, s.command != NULL ? EXIT_CLUSTER : EXIT_OS,
		    &error);
	return r;
}
