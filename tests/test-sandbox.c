/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every forbidden thing, tried from inside. Each in a child of its own, that
 * is confined, tries it once and exits with errno, or 0 when it got through.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/netlink.h>

#include "../budget.h"
#include "../error.h"
#include "../sandbox.h"
#include "suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum {
	KILLED = -1,		/* by SIGSYS */
	THROUGH = 0,
	NO_ENTRY = 200		/* exit status: it could not be confined */
};

/* What the tries need, made before. */
static char folder[64], token[80], other[80];
static struct sockaddr_in listening;
static int listener, channel[2], token_fd;

/* --- the tries: -1 and errno, or anything else ---------------------------- */

static long
forking(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid;
}

static long
cloning(void)
{
	return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static long
cloning_anew(void)
{
	return syscall(SYS_clone3, NULL, 0);
}

static long
running(void)
{
	char name[] = "/bin/true", *argv[] = { name, NULL };

	return execve(name, argv, NULL);
}

static long
running_at(void)
{
	char name[] = "/bin/true", *argv[] = { name, NULL };

	return syscall(SYS_execveat, AT_FDCWD, name, argv, NULL, 0);
}

static long
reading_passwd(void)
{
	return open("/etc/passwd", O_RDONLY);
}

static long
reading_beside(void)
{
	return open(other, O_RDONLY);
}

static long
reading_around(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/../../etc/passwd", folder);
	return open(path, O_RDONLY);
}

static long
reading_link(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/link", folder);
	return open(path, O_RDONLY);
}

static long
reading_self(void)
{
	return open("/proc/self/mem", O_RDONLY);
}

static long
listing_root(void)
{
	return open("/", O_RDONLY | O_DIRECTORY);
}

static long
reading_token(void)
{
	char text[8] = "";
	int fd = open(token, O_RDONLY | O_CLOEXEC);

	if (fd == -1)
		return -1;
	if (read(fd, text, sizeof(text)) != 5 || memcmp(text, "token", 5) != 0)
		errno = EIO;
	else if (close(fd) == 0)
		return 0;
	return -1;
}

static long
writing(void)
{
	return open(token, O_WRONLY);
}

static long
writing_both(void)
{
	return open(token, O_RDWR);
}

static long
appending(void)
{
	return open(token, O_RDONLY | O_APPEND);
}

static long
truncating(void)
{
	return open(token, O_RDONLY | O_TRUNC);
}

static long
creating(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/new", folder);
	return open(path, O_RDONLY | O_CREAT, 0600);
}

static long
making_nameless(void)
{
	return open(folder, O_TMPFILE | O_RDWR, 0600);
}

static long
opening_anew(void)
{
	return syscall(SYS_openat2, AT_FDCWD, token, NULL, 0);
}

static long
unlinking(void)
{
	return unlink(token);
}

static long
renaming(void)
{
	return rename(token, other);
}

static long
linking(void)
{
	return symlink("x", other);
}

static long
changing_mode(void)
{
	return chmod(token, 0666);
}

static long
changing_mode_fd(void)
{
	return fchmod(token_fd, 0666);
}

static long
changing_owner(void)
{
	return chown(token, 1, 1);
}

static long
changing_folder(void)
{
	return chdir("/");
}

static long
changing_root(void)
{
	return chroot("/");
}

static long
making_folder(void)
{
	return mkdir(other, 0700);
}

static long
mounting(void)
{
	return mount("none", "/tmp", "tmpfs", 0, NULL);
}

static long
unsharing(void)
{
	return syscall(SYS_unshare, CLONE_NEWUSER);
}

static long
tracing(void)
{
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static long
reading_memory(void)
{
	char byte = 1, copy;
	struct iovec to = { &copy, 1 }, from = { &byte, 1 };

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0);
}

static long
killing(void)
{
	return kill(getppid(), 0);
}

static long
killing_self(void)
{
	return kill(getpid(), 0);
}

static long
killing_by_owner(void)
{
	return fcntl(channel[0], F_SETOWN, getpid());
}

static long
becoming(void)
{
	return setuid(getuid());
}

static long
becoming_group(void)
{
	return setgroups(0, NULL);
}

static long
local_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

static long
netlink_socket(void)
{
	return socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
}

static long
packet_socket(void)
{
	return socket(AF_PACKET, SOCK_RAW, 0);
}

static long
raw_socket(void)
{
	return socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
}

static long
binding(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	return bind(fd, (struct sockaddr *)&any, sizeof(any));
}

static long
hearing(void)
{
	return listen(socket(AF_INET, SOCK_STREAM, 0), 1);
}

static long
accepting(void)
{
	return accept(listener, NULL, NULL);
}

static long
connecting(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd == -1 || connect(fd, (struct sockaddr *)&listening,
	    sizeof(listening)) == -1)
		return -1;
	return send(fd, "x", 1, MSG_NOSIGNAL) == 1 ? close(fd) : -1;
}

static long
opening_v6(void)
{
	return socket(AF_INET6, SOCK_STREAM, 0);
}

static long
pairing(void)
{
	int pair[2];
	char c;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == -1 ||
	    write(pair[0], "x", 1) != 1)
		return -1;
	return read(pair[1], &c, 1) == 1 ? 0 : -1;
}

static long
not_blocking(void)
{
	int flags = fcntl(channel[0], F_GETFL);

	return fcntl(channel[0], F_SETFL, flags | O_NONBLOCK);
}

static long
duplicating(void)
{
	return dup(channel[0]);
}

static long
making_executable(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return mprotect(page, 4096, PROT_READ | PROT_EXEC);
}

static long
mapping_executable(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0;
}

static long
mapping(void)
{
	char *page = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return -1;
	page[4096] = 1;
	return munmap(page, 1 << 20);
}

static long
allocating(void)
{
	char *volatile p = malloc(4 << 20);

	if (p == NULL || (p = realloc(p, 8 << 20)) == NULL)
		return -1;
	free(p);
	return 0;
}

static long
hidden_file(void)
{
	return memfd_create("x", 0);
}

static long
uring(void)
{
	return syscall(SYS_io_uring_setup, 1, NULL);
}

static long
bpf(void)
{
	return syscall(SYS_bpf, 0, NULL, 0);
}

static long
perf(void)
{
	return syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0);
}

static long
faulting(void)
{
	return syscall(SYS_userfaultfd, 0);
}

static long
keys(void)
{
	return syscall(SYS_keyctl, 0, 0, 0, 0, 0);
}

static long
other_personality(void)
{
	return personality(READ_IMPLIES_EXEC);
}

static long
dumping(void)
{
	return prctl(PR_SET_DUMPABLE, 1);
}

static long
raising_limit(void)
{
	struct rlimit most = { 1024, 1024 };

	return setrlimit(RLIMIT_NOFILE, &most);
}

static long
growing_file(void)
{
	return ftruncate(channel[1], 1);
}

static long
taking_disk(void)
{
	return fallocate(channel[1], 0, 0, 1);
}

static long
no_such_call(void)
{
	return syscall(4095);
}

static long
asking_state(void)
{
	return prctl(PR_GET_SECCOMP) == 2 &&
	    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 &&
	    prctl(PR_GET_DUMPABLE) == 0 ? 0 : -1;
}

static long
looking(void)
{
	return access("/etc/passwd", F_OK);
}

static long
terminal(void)
{
	return isatty(channel[0]) ? 0 : -1;
}

static long
random_bytes(void)
{
	char bytes[32];

	return syscall(SYS_getrandom, bytes, sizeof(bytes), 0) == 32 ? 0 : -1;
}

static long
telling_time(void)
{
	struct timespec now;

	return syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
}

static long
waiting(void)
{
	struct pollfd p = { .fd = channel[0], .events = POLLOUT };

	return poll(&p, 1, 0) == 1 ? 0 : -1;
}

static long
handling_signals(void)
{
	sigset_t all;

	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		return -1;
	sigfillset(&all);
	return sigprocmask(SIG_BLOCK, &all, NULL);
}

#if defined(__x86_64__)
/* Another ABI numbers its calls in another way: 20 is getpid there, and
 * writev, which we allow, here. */
static long
other_abi(void)
{
	long r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory");
	return r;
}

static long
x32_abi(void)
{
	return syscall(0x40000000 + SYS_getpid);
}
#endif

/* -------------------------------------------------------------------------- */

static const struct try {
	const char *what;
	long (*attempt)(void);
	int expected;		/* KILLED, THROUGH, or an errno */
} tries[] = {
	{ "fork", forking, KILLED },
	{ "clone", cloning, KILLED },
	{ "clone3", cloning_anew, ENOSYS },
	{ "execve", running, KILLED },
	{ "execveat", running_at, KILLED },
	{ "opening /etc/passwd", reading_passwd, EACCES },
	{ "opening a file beside", reading_beside, EACCES },
	{ "opening by ..", reading_around, EACCES },
	{ "opening by a link out of the folder", reading_link, EACCES },
	{ "opening /proc/self/mem", reading_self, EACCES },
	{ "listing /", listing_root, EACCES },
	{ "reading the token", reading_token, THROUGH },
	{ "opening for writing", writing, KILLED },
	{ "opening for both", writing_both, KILLED },
	{ "opening for appending", appending, KILLED },
	{ "truncating", truncating, KILLED },
	{ "creating a file", creating, KILLED },
	{ "O_TMPFILE", making_nameless, KILLED },
	{ "openat2", opening_anew, KILLED },
	{ "unlink", unlinking, KILLED },
	{ "rename", renaming, KILLED },
	{ "symlink", linking, KILLED },
	{ "chmod", changing_mode, KILLED },
	{ "fchmod", changing_mode_fd, KILLED },
	{ "chown", changing_owner, KILLED },
	{ "chdir", changing_folder, KILLED },
	{ "chroot", changing_root, KILLED },
	{ "mkdir", making_folder, KILLED },
	{ "mount", mounting, KILLED },
	{ "unshare", unsharing, KILLED },
	{ "ptrace", tracing, KILLED },
	{ "process_vm_readv", reading_memory, KILLED },
	{ "killing the parent", killing, KILLED },
	{ "killing itself", killing_self, KILLED },
	{ "F_SETOWN", killing_by_owner, KILLED },
	{ "setuid", becoming, KILLED },
	{ "setgroups", becoming_group, KILLED },
	{ "socket AF_UNIX", local_socket, KILLED },
	{ "socket AF_NETLINK", netlink_socket, KILLED },
	{ "socket AF_PACKET", packet_socket, KILLED },
	{ "socket SOCK_RAW", raw_socket, EPERM },
	{ "bind", binding, KILLED },
	{ "listen", hearing, KILLED },
	{ "accept", accepting, KILLED },
	{ "connecting to loopback", connecting, THROUGH },
	{ "socket AF_INET6", opening_v6, THROUGH },
	{ "socketpair", pairing, THROUGH },
	{ "O_NONBLOCK", not_blocking, THROUGH },
	{ "dup", duplicating, KILLED },
	{ "mprotect PROT_EXEC", making_executable, KILLED },
	{ "mmap PROT_EXEC", mapping_executable, KILLED },
	{ "mmap", mapping, THROUGH },
	{ "malloc", allocating, THROUGH },
	{ "memfd_create", hidden_file, KILLED },
	{ "io_uring_setup", uring, KILLED },
	{ "bpf", bpf, KILLED },
	{ "perf_event_open", perf, KILLED },
	{ "userfaultfd", faulting, KILLED },
	{ "keyctl", keys, KILLED },
	{ "personality", other_personality, KILLED },
	{ "PR_SET_DUMPABLE", dumping, KILLED },
	{ "setrlimit", raising_limit, KILLED },
	{ "ftruncate to what is longer", growing_file, KILLED },
	{ "fallocate of more", taking_disk, KILLED },
	{ "a call without a name", no_such_call, KILLED },
	{ "prctl of what is in force", asking_state, THROUGH },
	{ "access", looking, EACCES },
	{ "isatty", terminal, ENOTTY },
	{ "getrandom", random_bytes, THROUGH },
	{ "clock_gettime", telling_time, THROUGH },
	{ "poll", waiting, THROUGH },
	{ "sigaction and sigprocmask", handling_signals, THROUGH },
#if defined(__x86_64__)
	{ "int 0x80", other_abi, KILLED },
	{ "x32", x32_abi, KILLED },
#endif
};

/* In the child. */
static void
confine(bool debug, struct sandbox_state *state)
{
	const char *const paths[] = { folder, NULL };
	const struct sandbox s = { .read_paths = paths, .debug = debug };
	struct error err;

	if (sandbox_enter(&s, state, &err) == 0)
		return;
	fprintf(stderr, "%s\n", err.text);
	_exit(NO_ENTRY);
}

static int
status_of(pid_t pid)
{
	int status;

	ck_assert_int_ne(pid, -1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

static int
try_it(const struct try *t, bool confined)
{
	struct sandbox_state state;
	pid_t pid = fork();

	if (pid == 0) {
		if (confined)
			confine(false, &state);
		_exit(t->attempt() != -1 ? THROUGH : errno);
	}
	return status_of(pid);
}

static int
landlock_version(void)
{
	return (int)syscall(444, NULL, 0, 1);
}

static void
put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

static void
set_up(void)
{
	socklen_t len = sizeof(listening);
	char path[128];

	snprintf(folder, sizeof(folder), "/tmp/test-sandbox-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(token, sizeof(token), "%s/token", folder);
	snprintf(other, sizeof(other), "%s-beside", folder);
	put(token, "token");
	put(other, "x");
	snprintf(path, sizeof(path), "%s/link", folder);
	ck_assert_int_eq(symlink(other, path), 0);
	ck_assert_int_ne(token_fd = open(token, O_RDONLY), -1);
	listening = (struct sockaddr_in){ .sin_family = AF_INET,
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	listener = socket(AF_INET, SOCK_STREAM, 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&listening, len),
	    0);
	ck_assert_int_eq(listen(listener, 1), 0);
	ck_assert_int_eq(getsockname(listener,
	    (struct sockaddr *)&listening, &len), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, channel), 0);
}

static void
tear_down(void)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf '%s' '%s'", folder, other);
	ck_assert_int_eq(system(command), 0);
}

/* users.md 87 */
START_TEST(nothing_but_the_loop_gets_through)
{
	const struct try *t = &tries[_i];
	int status = try_it(t, true);

	if (WIFEXITED(status))
		ck_assert_int_ne(WEXITSTATUS(status), NO_ENTRY);
	if (t->expected == KILLED)
		ck_assert_msg(WIFSIGNALED(status) &&
		    WTERMSIG(status) == SIGSYS,
		    "%s got through (status %#x)", t->what, status);
	else if (t->expected == THROUGH)
		ck_assert_msg(status == 0, "%s did not work: %s", t->what,
		    WIFEXITED(status) ? strerror(WEXITSTATUS(status)) :
		    strsignal(WTERMSIG(status)));
	else if (t->expected == EACCES && landlock_version() < 1 &&
	    t->attempt != looking)
		return;		/* paths are Landlock's */
	else
		ck_assert_msg(WIFEXITED(status) &&
		    WEXITSTATUS(status) == t->expected,
		    "%s: status %#x instead of %s", t->what, status,
		    strerror(t->expected));
}
END_TEST

/* Else a refusal above would prove nothing. */
START_TEST(what_is_refused_would_work_outside)
{
	const struct try *t = &tries[_i];
	int status;

	if (t->expected != EACCES && (t->expected != EPERM || getuid() != 0))
		return;
	status = try_it(t, false);
	ck_assert_msg(status == 0, "%s: status %#x", t->what, status);
}
END_TEST

START_TEST(says_what_is_in_force)
{
	struct sandbox_state state = { .landlock_abi = -1 };
	struct rlimit files, core, processes, bytes;
	pid_t pid = fork();
	int abi = landlock_version();

	if (pid == 0) {
		confine(false, &state);
		_exit(state.no_new_privs && state.seccomp ?
		    100 + state.landlock_abi : 0);
	}
	ck_assert_int_eq(WEXITSTATUS(status_of(pid)),
	    100 + (abi > 0 ? abi : 0));
	/* prlimit(2) from outside, on a child that waits. */
	if ((pid = fork()) == 0) {
		confine(false, &state);
		if (write(channel[1], "x", 1) == 1)
			(void)poll(NULL, 0, -1);
		_exit(1);
	}
	ck_assert_int_eq(read(channel[0], &(char){ 0 }, 1), 1);
	ck_assert_int_eq(prlimit(pid, RLIMIT_NOFILE, NULL, &files), 0);
	ck_assert_int_eq(prlimit(pid, RLIMIT_CORE, NULL, &core), 0);
	ck_assert_int_eq(prlimit(pid, RLIMIT_NPROC, NULL, &processes), 0);
	ck_assert_int_eq(prlimit(pid, RLIMIT_FSIZE, NULL, &bytes), 0);
	kill(pid, SIGKILL);
	status_of(pid);
	ck_assert_uint_le(files.rlim_max, 256);
	ck_assert_uint_eq(core.rlim_max, 0);
	ck_assert_uint_eq(processes.rlim_max, 0);
	ck_assert_uint_eq(bytes.rlim_max, (rlim_t)LIMIT_SPOOL << 20);
}
END_TEST

START_TEST(no_capability_is_left_but_reading)
{
	char path[64], line[128];
	unsigned long long held = ~0ULL;
	struct sandbox_state state;
	pid_t pid = fork();
	FILE *f;

	if (pid == 0) {
		confine(false, &state);
		if (write(channel[1], "x", 1) == 1)
			(void)poll(NULL, 0, -1);
		_exit(1);
	}
	ck_assert_int_eq(read(channel[0], &(char){ 0 }, 1), 1);
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	ck_assert_ptr_nonnull(f = fopen(path, "r"));
	while (fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "CapPrm: %llx", &held) == 1)
			break;
	fclose(f);
	kill(pid, SIGKILL);
	status_of(pid);
	ck_assert_uint_eq(held & ~(1ULL << 2), 0);
}
END_TEST

START_TEST(debug_names_the_call_and_exits_with_70)
{
	struct sandbox_state state;
	char line[256] = "";
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		dup2(channel[1], 2);
		confine(true, &state);
		_exit(chdir("/"));
	}
	status = status_of(pid);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 70);
	ck_assert_int_gt(read(channel[0], line, sizeof(line) - 1), 0);
	ck_assert_msg(strstr(line, ", chdir, ") != NULL, "%s", line);
}
END_TEST

START_TEST(a_path_that_is_not_there_is_named)
{
	static const char *const paths[] = { "/nowhere/token", NULL };
	const struct sandbox s = { .read_paths = paths };
	struct sandbox_state state;
	struct error err;
	pid_t pid;

	if (landlock_version() < 1)
		return;
	if ((pid = fork()) == 0)
		_exit(sandbox_enter(&s, &state, &err) == -1 &&
		    strstr(err.text, "/nowhere/token: ") != NULL ? 0 : 1);
	ck_assert_int_eq(status_of(pid), 0);
}
END_TEST

START_TEST(without_paths_none_can_be_read)
{
	const struct sandbox s = { .read_paths = NULL };
	struct sandbox_state state;
	struct error err;
	pid_t pid;

	if (landlock_version() < 1)
		return;
	if ((pid = fork()) == 0) {
		if (sandbox_enter(&s, &state, &err) == -1)
			_exit(NO_ENTRY);
		_exit(open(token, O_RDONLY) == -1 ? errno : 0);
	}
	ck_assert_int_eq(WEXITSTATUS(status_of(pid)), EACCES);
}
END_TEST

/* Kubernetes swaps a link to the folder that the token is in. */
START_TEST(a_rotated_token_is_read_through_its_folder)
{
	struct sandbox_state state;
	char text[8] = "", path[128], next[128];
	pid_t pid;
	int fd;

	snprintf(path, sizeof(path), "%s/..1", folder);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/..1/t", folder);
	put(path, "one");
	snprintf(path, sizeof(path), "%s/..data", folder);
	ck_assert_int_eq(symlink("..1", path), 0);
	snprintf(next, sizeof(next), "%s/t", folder);
	ck_assert_int_eq(symlink("..data/t", next), 0);
	if ((pid = fork()) == 0) {
		confine(false, &state);
		if (write(channel[1], "x", 1) != 1 ||
		    read(channel[1], text, 1) != 1)
			_exit(1);
		if ((fd = open(next, O_RDONLY)) == -1)
			_exit(errno);
		_exit(read(fd, text, 3) == 3 && text[0] == 't' ? 0 : 2);
	}
	ck_assert_int_eq(read(channel[0], text, 1), 1);
	snprintf(next, sizeof(next), "%s/..2", folder);
	ck_assert_int_eq(mkdir(next, 0700), 0);
	snprintf(next, sizeof(next), "%s/..2/t", folder);
	put(next, "two");
	snprintf(next, sizeof(next), "%s/..new", folder);
	ck_assert_int_eq(symlink("..2", next), 0);
	ck_assert_int_eq(rename(next, path), 0);
	ck_assert_int_eq(write(channel[0], "x", 1), 1);
	ck_assert_int_eq(status_of(pid), 0);
}
END_TEST

static bool
is_open(int fd)
{
	return fcntl(fd, F_GETFD) != -1;
}

START_TEST(descriptors_are_the_three_and_those_to_keep)
{
	static const int keep[] = { 30, 7, -1, 9 };
	struct error err;
	pid_t pid = fork();
	int fd, r;

	if (pid == 0) {
		for (fd = 3; fd < 40; fd++)
			dup2(channel[0], fd);
		dup2(channel[0], 900);
		close(0);
		close(2);
		r = sandbox_descriptors(keep, COUNT(keep), &err);
		for (fd = 0; r == 0 && fd < 1000; fd++)
			if (is_open(fd) != (fd < 3 || fd == 7 || fd == 9 ||
			    fd == 30))
				_exit(1);
		_exit(r == 0 && read(0, &(char){ 0 }, 1) == 0 ? 0 : 2);
	}
	ck_assert_int_eq(status_of(pid), 0);
}
END_TEST

START_TEST(standard_error_never_goes_to_the_client)
{
	char got[8] = "";
	struct error err;
	pid_t pid = fork();

	if (pid == 0) {
		for (int fd = 0; fd < 3; fd++)
			dup2(channel[1], fd);
		if (sandbox_descriptors(NULL, 0, &err) == -1)
			_exit(1);
		_exit(write(2, "log", 3) == 3 && write(1, "out", 3) == 3 ?
		    0 : 2);
	}
	ck_assert_int_eq(status_of(pid), 0);
	ck_assert_int_eq(read(channel[0], got, sizeof(got) - 1), 3);
	ck_assert_str_eq(got, "out");
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("sandbox");
	TCase *tc = tcase_create("sandbox");

	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_loop_test(tc, nothing_but_the_loop_gets_through, 0,
	    COUNT(tries));
	tcase_add_loop_test(tc, what_is_refused_would_work_outside, 0,
	    COUNT(tries));
	tcase_add_test(tc, says_what_is_in_force);
	tcase_add_test(tc, no_capability_is_left_but_reading);
	tcase_add_test(tc, debug_names_the_call_and_exits_with_70);
	tcase_add_test(tc, a_path_that_is_not_there_is_named);
	tcase_add_test(tc, without_paths_none_can_be_read);
	tcase_add_test(tc, a_rotated_token_is_read_through_its_folder);
	tcase_add_test(tc, descriptors_are_the_three_and_those_to_keep);
	tcase_add_test(tc, standard_error_never_goes_to_the_client);
	suite_add_tcase(s, tc);
	return suite_run(s);
}
