/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>
#include <linux/seccomp.h>

#include "budget.h"
#include "error.h"
#include "sandbox.h"

/*
 * A sanitizer opens files, starts a thread and traces its own process when it
 * reports. Such a build is not confined, and its state says so.
 */
#if defined(__SANITIZE_ADDRESS__)
#define NO_SECCOMP
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NO_SECCOMP
#endif
#endif

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

/* Headers older than the kernel we may run on; the same on every port. */
#ifndef SYS_close_range
#define SYS_close_range			436
#endif
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset	444
#define SYS_landlock_add_rule		445
#define SYS_landlock_restrict_self	446
#endif

/* 32 calls, each with a request, a watch, a tunnel and its two ends. */
enum { DESCRIPTORS = 256 };

static int
failed(struct error *err, const char *what)
{
	error_sys(err, what);
	return error_wrap(err, "confinement");
}

/* --- descriptors ---------------------------------------------------------- */

#define ALL	(~0u)		/* descriptors, for close_range(2) */

static void
close_between(unsigned first, unsigned last)
{
	struct rlimit most = { .rlim_cur = 1024 };
	unsigned fd;

	if (first > last ||
	    syscall(SYS_close_range, first, last, 0) == 0)
		return;
	(void)getrlimit(RLIMIT_NOFILE, &most);
	for (fd = first; fd <= last && fd < most.rlim_cur && fd < 65536; fd++)
		(void)close((int)fd);
}

/* inetd connects all three; a log line would be a message for the client. */
static bool
is_same_socket(int a, int b)
{
	struct stat sa, sb;

	return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 &&
	    S_ISSOCK(sa.st_mode) && sa.st_dev == sb.st_dev &&
	    sa.st_ino == sb.st_ino;
}

int
sandbox_descriptors(const int *keep, size_t n, struct error *err)
{
	unsigned from = 3, next;
	size_t i;
	int fd;

	/* open() takes the lowest number that is free. */
	do {
		if ((fd = open("/dev/null", O_RDWR)) == -1)
			return error_sys(err, "/dev/null");
	} while (fd <= 2);
	if (is_same_socket(1, 2) && dup2(fd, 2) == -1)
		return error_sys(err, "standard error");
	(void)close(fd);
	for (;;) {
		next = ALL;
		for (i = 0; i < n; i++)
			if (keep[i] >= 0 && (unsigned)keep[i] >= from &&
			    (unsigned)keep[i] < next)
				next = (unsigned)keep[i];
		if (next == ALL)
			break;
		close_between(from, next - 1);
		from = next + 1;
	}
	close_between(from, ALL);
	return 0;
}

#ifndef NO_SECCOMP

#include "seccomp-bpf.h"

static int
missing(struct error *err, const char *what)
{
	return error_set(err, ERR_SYSTEM, "confinement: %s has no effect here",
	    what);
}

/* --- how much ------------------------------------------------------------- */

/* The call itself, as the C libraries disagree about the type of what. */
static int
limit(int what, const char *name, rlim_t most, struct error *err)
{
	struct rlimit now;

	if (syscall(SYS_prlimit64, 0, what, NULL, &now) == -1)
		return failed(err, name);
	if (now.rlim_max > most)
		now.rlim_max = most;
	now.rlim_cur = now.rlim_max;
	if (syscall(SYS_prlimit64, 0, what, &now, NULL) == -1)
		return failed(err, name);
	if (syscall(SYS_prlimit64, 0, what, NULL, &now) == -1 ||
	    now.rlim_cur > most || now.rlim_max > most)
		return missing(err, name);
	return 0;
}

/*
 * In a container we may be root. What is left then is reading: the token may
 * belong to somebody else, and Landlock says which files that means. Without
 * any to drop nothing is called, since a filter around us may forbid it.
 */
static int
capabilities_drop(struct error *err)
{
	const uint32_t keep = 1u << CAP_DAC_READ_SEARCH;
	struct __user_cap_header_struct head = {
	    .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data) == -1)
		return failed(err, "capget");
	if ((data[0].permitted & ~keep) == 0 && data[1].permitted == 0 &&
	    data[0].inheritable == 0 && data[1].inheritable == 0)
		return 0;
	data[0].permitted &= keep;
	data[0].effective = data[0].permitted;
	data[1].permitted = data[1].effective = 0;
	data[0].inheritable = data[1].inheritable = 0;
	if (syscall(SYS_capset, &head, data) == -1)
		return failed(err, "capset");
	if (syscall(SYS_capget, &head, data) == -1 ||
	    (data[0].permitted & ~keep) != 0 || data[1].permitted != 0)
		return missing(err, "dropping capabilities");
	return 0;
}

static int
process_limit(const struct sandbox *s, struct error *err)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1)
		return failed(err, "no_new_privs");
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return missing(err, "no_new_privs");
	/* Nobody of our user may trace us and read the key. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == -1)
		return failed(err, "PR_SET_DUMPABLE");
	if (prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
		return missing(err, "PR_SET_DUMPABLE");
	if (limit(RLIMIT_CORE, "RLIMIT_CORE", 0, err) == -1 ||
	    (!s->serve &&
	    limit(RLIMIT_NPROC, "RLIMIT_NPROC", 0, err) == -1) ||
	    (!s->serve && limit(RLIMIT_FSIZE, "RLIMIT_FSIZE",
	    (rlim_t)LIMIT_SPOOL << 20, err) == -1) ||
	    limit(RLIMIT_NOFILE, "RLIMIT_NOFILE", DESCRIPTORS, err) == -1)
		return -1;
	return capabilities_drop(err);
}

/* --- which paths ---------------------------------------------------------- */

/* linux/landlock.h of ABI 7, under names of ours. */
struct ruleset {
	uint64_t fs, net, scoped;
};

struct path_rule {
	uint64_t allowed;
	int32_t fd;
} __attribute__((packed));

enum {
	RULE_PATH = 1,
	FS_WRITE_FILE = 1 << 1,
	FS_READ_FILE = 1 << 2,
	FS_READ_DIR = 1 << 3,
	FS_REMOVE_FILE = 1 << 5,
	FS_ABI_1 = (1 << 13) - 1,
	FS_ABI_2 = 1 << 13,	/* rename and link across folders */
	FS_ABI_3 = 1 << 14,	/* truncate */
	FS_ABI_5 = 1 << 15,	/* ioctl of devices */
	NET_BIND = 1 << 0,	/* since ABI 4 */
	SCOPED_ALL = 3,		/* since ABI 6: abstract sockets, signals */
	ASK_VERSION = 1 << 0
};

/* 0: this kernel has none, or a container's filter hides it (EPERM). */
static int
landlock_version(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, ASK_VERSION);

	return abi > 0 ? (int)abi : 0;
}

static int
landlock_open(int abi, struct error *err)
{
	struct ruleset r = { .fs = FS_ABI_1 };
	size_t size = sizeof(r.fs);
	long fd;

	if (abi >= 2)
		r.fs |= FS_ABI_2;
	if (abi >= 3)
		r.fs |= FS_ABI_3;
	if (abi >= 5)
		r.fs |= FS_ABI_5;
	/* An older kernel takes a smaller struct. */
	if (abi >= 4) {
		r.net = NET_BIND;
		size += sizeof(r.net);
	}
	if (abi >= 6) {
		r.scoped = SCOPED_ALL;
		size += sizeof(r.scoped);
	}
	if ((fd = syscall(SYS_landlock_create_ruleset, &r, size, 0)) == -1)
		return failed(err, "landlock_create_ruleset");
	return (int)fd;
}

static int
landlock_allow(int ruleset, uint64_t what, const char *path,
    struct error *err)
{
	struct path_rule rule = { .allowed = what };
	struct stat st;
	int r = -1;

	if ((rule.fd = open(path, O_PATH | O_CLOEXEC)) == -1)
		return failed(err, path);
	if (fstat(rule.fd, &st) == 0) {
		if (S_ISDIR(st.st_mode) && what == FS_READ_FILE)
			rule.allowed |= FS_READ_DIR;
		r = (int)syscall(SYS_landlock_add_rule, ruleset, RULE_PATH,
		    &rule, 0);
	}
	if (r == -1)
		failed(err, path);
	(void)close(rule.fd);
	return r;
}

static int
paths_limit(const struct sandbox *s, int *abi, struct error *err)
{
	const char *const *path;
	int fd, r = 0;

	if ((*abi = landlock_version()) == 0)
		return 0;
	if ((fd = landlock_open(*abi, err)) == -1)
		return -1;
	for (path = s->read_paths; r == 0 && path != NULL && *path != NULL;
	    path++)
		r = landlock_allow(fd, FS_READ_FILE, *path, err);
	for (path = s->remove_paths; r == 0 && path != NULL && *path != NULL;
	    path++)
		r = landlock_allow(fd, FS_REMOVE_FILE, *path, err);
	if (r == 0 && s->serve && s->stash != NULL && *s->stash != '\0')
		r = landlock_allow(fd, FS_READ_FILE | FS_WRITE_FILE, s->stash,
		    err);
	if (r == 0 && syscall(SYS_landlock_restrict_self, fd, 0) == -1)
		r = failed(err, "landlock_restrict_self");
	(void)close(fd);
	if (r == -1)
		return -1;
	if ((fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) != -1) {
		(void)close(fd);
		return missing(err, "Landlock");
	}
	return 0;
}

/* --- which system calls --------------------------------------------------- */

static void
text_add(char *line, size_t size, const char *more)
{
	size_t len = strlen(line);

	(void)snprintf(line + len, size - len, "%s", more);
}

/* "": it has none. */
static const char *
call_name(int call)
{
	const char *name = seccomp_names;
	const char *end = seccomp_names + sizeof(seccomp_names) - 1;

	if (call < 0)
		return "";
	while (call-- > 0 && name < end)
		name += strlen(name) + 1;
	return name;
}

/* No stdio that allocates and no lock: the call may have come from there. */
static void
name_call(int signo, siginfo_t *info, void *context)
{
	char line[96] = "mcp-sandbox: confinement: system call ", digits[12];
	size_t at = sizeof(digits) - 1;
	int call = info->si_syscall, n = call < 0 ? 0 : call;

	(void)signo;
	(void)context;
	digits[at] = '\0';
	do
		digits[--at] = (char)('0' + n % 10);
	while ((n /= 10) != 0);
	text_add(line, sizeof(line), digits + at);
	if (*call_name(call) != '\0') {
		text_add(line, sizeof(line), ", ");
		text_add(line, sizeof(line), call_name(call));
	}
	text_add(line, sizeof(line), ", is not in seccomp.def\n");
	if (write(2, line, strlen(line)) == -1)
		_exit(71);
	_exit(70);
}

/* The table's arrays are const; the kernel's struct is not, nor written to. */
static int
filter_load(const struct sock_filter *filter, size_t n, struct error *err)
{
	union {
		const struct sock_filter *in;
		struct sock_filter *out;
	} cast = { .in = filter };
	struct sock_fprog prog = { .len = (unsigned short)n,
	    .filter = cast.out };

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == -1)
		return failed(err, "seccomp");
	/* Refused, although the path is there and anybody may pass it. */
	if (prctl(PR_GET_SECCOMP) != SECCOMP_MODE_FILTER ||
	    access("/", F_OK) != -1 || errno != EACCES)
		return missing(err, "seccomp");
	return 0;
}

static int
calls_limit(const struct sandbox *s, struct error *err)
{
	struct sigaction act = { .sa_flags = SA_SIGINFO };

	if (!s->debug)
		return s->serve ? filter_load(seccomp_bpf_serve,
		    COUNT(seccomp_bpf_serve), err) : filter_load(seccomp_bpf,
		    COUNT(seccomp_bpf), err);
	act.sa_sigaction = name_call;
	if (sigaction(SIGSYS, &act, NULL) == -1)
		return failed(err, "SIGSYS");
	return s->serve ? filter_load(seccomp_bpf_serve_debug,
	    COUNT(seccomp_bpf_serve_debug), err) : filter_load(
	    seccomp_bpf_debug, COUNT(seccomp_bpf_debug), err);
}

int
sandbox_enter(const struct sandbox *s, struct sandbox_state *state,
    struct error *err)
{
	*state = (struct sandbox_state){ .landlock_abi = 0 };
	if (process_limit(s, err) == -1)
		return -1;
	state->no_new_privs = true;
	if (paths_limit(s, &state->landlock_abi, err) == -1 ||
	    calls_limit(s, err) == -1)
		return -1;
	state->seccomp = true;
	return 0;
}

#else

int
sandbox_enter(const struct sandbox *s, struct sandbox_state *state,
    struct error *err)
{
	(void)s;
	*state = (struct sandbox_state){ .landlock_abi = 0 };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1)
		return failed(err, "no_new_privs");
	state->no_new_privs = true;
	return 0;
}

#endif
