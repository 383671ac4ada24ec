/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gen-bpf - print the system call filter as C arrays, at build time.
 *
 * The table is seccomp.def:
 *	ALLOW(call)			let it through
 *	ALLOW_ARG(call, index, value)	only if that argument has that value
 *	ALLOW_MASKED(call, index, mask, value)	only if its masked bits do
 *	REFUSE(call, errno)		fail it, for what libraries merely try
 *	SERVE(row)			only in seccomp_bpf_serve
 * Whatever it does not name kills the process (seccomp_bpf) or raises SIGSYS,
 * so that a handler can name the call (seccomp_bpf_debug).
 *
 * libseccomp turns it into BPF here, on the machine that builds, for the one
 * that is named: the program then needs neither the library nor the half
 * millisecond it takes. The values of arguments are the same on both.
 */
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <linux/filter.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ALWAYS 6		/* no argument has this index */
#define LAST_CALL 450

struct row {
	const char *name;
	uint32_t action;
	unsigned int index;
	uint64_t mask, value;
};

#define ALLOW(name) { #name, SCMP_ACT_ALLOW, ALWAYS, 0, 0 },
#define ALLOW_ARG(name, index, value) \
	{ #name, SCMP_ACT_ALLOW, index, UINT64_MAX, (uint64_t)(value) },
#define ALLOW_MASKED(name, index, mask, value) \
	{ #name, SCMP_ACT_ALLOW, index, (uint64_t)(mask), (uint64_t)(value) },
#define REFUSE(name, err) { #name, SCMP_ACT_ERRNO(err), ALWAYS, 0, 0 },
#define SERVE(row)
static const struct row rows[] = {
#include "seccomp.def"
};
#undef SERVE
#define SERVE(row) row
static const struct row serve_rows[] = {
#include "seccomp.def"
};

static const struct {
	const char *name;
	uint32_t token;
} machines[] = {
	{ "amd64", SCMP_ARCH_X86_64 },
	{ "arm64", SCMP_ARCH_AARCH64 },
};

static void
fail(const char *name, int err)
{
	fprintf(stderr, "seccomp.def: %s: %s\n", name, strerror(err));
	exit(1);
}

static void
add_row(scmp_filter_ctx filter, uint32_t machine, const struct row *r)
{
	int call, err;

	call = seccomp_syscall_resolve_name_arch(machine, r->name);
	if (call == __NR_SCMP_ERROR)
		fail(r->name, ENOSYS);
	/* Another architecture's call: nothing to do on this one. */
	if (call < 0)
		return;
	/* Rules are given by this machine's numbers, whatever the filter's. */
	call = seccomp_syscall_resolve_name(r->name);
	if (r->index == ALWAYS)
		err = seccomp_rule_add(filter, r->action, call, 0);
	else
		err = seccomp_rule_add(filter, r->action, call, 1,
		    SCMP_CMP(r->index, SCMP_CMP_MASKED_EQ, r->mask, r->value));
	if (err != 0)
		fail(r->name, -err);
}

static void
print_filter(const char *name, uint32_t machine, uint32_t otherwise,
    const struct row *r, size_t n)
{
	scmp_filter_ctx filter;
	struct sock_filter f;
	FILE *file;
	size_t i;

	filter = seccomp_init(otherwise);
	file = tmpfile();
	if (filter == NULL || file == NULL)
		fail(name, ENOMEM);
	if (machine != seccomp_arch_native() &&
	    (seccomp_arch_add(filter, machine) != 0 ||
	    seccomp_arch_remove(filter, seccomp_arch_native()) != 0))
		fail(name, ENOTSUP);
	/* A binary tree: few steps for each of some sixty calls. */
	if (seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2) != 0 ||
	    seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH,
	    SCMP_ACT_KILL_PROCESS) != 0)
		fail(name, ENOTSUP);
	for (i = 0; i < n; i++)
		add_row(filter, machine, &r[i]);
	if (seccomp_export_bpf(filter, fileno(file)) != 0)
		fail(name, EIO);
	rewind(file);
	printf("static const struct sock_filter %s[] = {\n", name);
	while (fread(&f, sizeof(f), 1, file) == 1)
		printf("\t{ 0x%02x, %u, %u, 0x%08x },\n",
		    f.code, f.jt, f.jf, f.k);
	printf("};\n");
	fclose(file);
	seccomp_release(filter);
}

/* Numbers to names, for the handler: the strings of all calls in a row. */
static void
print_names(uint32_t machine)
{
	int call;
	char *name;

	printf("static const char seccomp_names[] =\n");
	for (call = 0; call <= LAST_CALL; call++) {
		name = seccomp_syscall_resolve_num_arch(machine, call);
		printf("\t\"%s\\0\"\n", name != NULL ? name : "");
		free(name);
	}
	printf(";\n");
}

int
main(int argc, char *argv[])
{
	const size_t n = sizeof(rows) / sizeof(rows[0]);
	const size_t serve = sizeof(serve_rows) / sizeof(serve_rows[0]);
	uint32_t m = 0;

	for (size_t i = 0; argc == 2 &&
	    i < sizeof(machines) / sizeof(machines[0]); i++)
		if (strcmp(machines[i].name, argv[1]) == 0)
			m = machines[i].token;
	if (m == 0)
		fail("gen-bpf amd64|arm64", EINVAL);
	printf("/* Made by tools/gen-bpf.c from seccomp.def. */\n");
	printf("#include <linux/filter.h>\n\n");
	print_filter("seccomp_bpf", m, SCMP_ACT_KILL_PROCESS, rows, n);
	printf("\n");
	print_filter("seccomp_bpf_debug", m, SCMP_ACT_TRAP, rows, n);
	printf("\n");
	print_filter("seccomp_bpf_serve", m, SCMP_ACT_KILL_PROCESS,
	    serve_rows, serve);
	printf("\n");
	print_filter("seccomp_bpf_serve_debug", m, SCMP_ACT_TRAP, serve_rows,
	    serve);
	printf("\n");
	print_names(m);
	return ferror(stdout) || fflush(stdout) != 0;
}
