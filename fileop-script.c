/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files by scripts of POSIX sh, for every runtime: what they need beyond the
 * shell are cat, dd, head, wc, mv, rm, mkdir, and find, stat and sha256sum
 * where there are. Exit statuses from 101 on are ours. A dot is kept behind
 * what $() reads, or it would drop a name's last newlines.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "budget.h"
#include "env.h"
#include "fileop-back.h"
#include "link.h"
#include "run.h"

enum {
	EXIT_GONE = 101, EXIT_FOLDER, EXIT_NO_FOLDER, EXIT_THERE, EXIT_BEYOND,
	EXIT_SHORT, EXIT_OTHER, EXIT_FULL, EXIT_NO_FILE,
	VARIABLES = 12
};

/* sandboxd takes absolute paths that are not below its root as below it. */
#define BEGIN								\
	"export LC_ALL=C; p=$MCP_PATH; q=$MCP_TO\n"			\
	"if [ -n \"$MCP_ROOTED\" ]; then\n"				\
	"case $p in \"${PWD%/}\"/*) ;; /*) p=${PWD%/}$p; esac\n"	\
	"case $q in \"${PWD%/}\"/*) ;; /*) q=${PWD%/}$q; esac; fi\n"	\
	"size() { s=$(stat -L -c %s -- \"$1\" 2>/dev/null) ||\n"	\
	"s=$(wc -c <\"$1\") || exit 1; s=$((s)); }\n"			\
	"there() { [ -e \"$1\" ] || [ -h \"$1\" ]; }\n"

static const char script_read[] = BEGIN
	"[ -e \"$p\" ] || exit 101; [ -d \"$p\" ] && exit 102\n"
	"[ -f \"$p\" ] || exit 109; size \"$p\"\n"
	"[ $MCP_OFFSET -le $s ] || { echo $s >&2; exit 105; }\n"
	"exec 3<\"$p\" || exit 1; echo $s >&2\n"
	"{ dd bs=1 count=0 skip=$MCP_OFFSET 2>/dev/null\n"
	"head -c $MCP_LENGTH; } <&3\n";

/* Is $1 what was sent? $v: by what that is known. No script forks more. */
#define COMPARE								\
	"same() { v=sha256; if x=$(sha256sum <\"$1\" 2>/dev/null); then\n" \
	"[ \"${x%% *}\" != $MCP_SHA256 ] || return 0; b=107\n"		\
	"else v=size b=0; fi; size \"$1\"; [ $s = $n ] || b=106\n"	\
	"[ $b = 0 ]; }\n"

/*
 * A link is written through. What is there keeps its mode, and where bytes
 * are added to it, an append that fails is taken back.
 */
static const char script_write[] = BEGIN COMPARE
	"n=$MCP_LENGTH o=$MCP_OFFSET t=./$MCP_PART e=0\n"
	"bad() { rm -f -- \"$t\" \"./$MCP_PART\"; exit $1; }\n"
	"trap 'bad 1' HUP INT TERM; [ -d \"$p\" ] && bad 102\n"
	"[ -h \"$p\" ] && { p=$(readlink -f -- \"$p\"; echo .); p=${p%??}; }\n"
	"d=${p%/*}; [ -d \"${d:=/}\" ] || mkdir -p -- \"$d\" || bad 1\n"
	"if [ -z \"$MCP_SENT\" ]; then\n"
	"t=$d/$MCP_PART; cat >\"$t\" || bad 108\n"
	"elif [ $o = -2 ] && ! [ . -ef \"$d\" ]; then\n"
	"t=$d/$MCP_PART; mv -f -- \"./$MCP_PART\" \"$t\" || bad 1; fi\n"
	"same \"$t\" || bad $b\n"
	"if [ $o = -2 ]; then [ ! -e \"$p\" ] ||\n"
	"{ m=$(stat -c %a -- \"$p\" 2>/dev/null) && chmod $m \"$t\"; }\n"
	"mv -f -- \"$t\" \"$p\" || bad 1; e=$n\n"
	"else [ ! -e \"$p\" ] || { size \"$p\"; e=$s; }\n"
	"[ $o = -1 ] && o=$e; [ $o -le $e ] || { echo $e >&2; bad 105; }\n"
	"if [ $o = $e ]; then cat -- \"$t\" >>\"$p\"\n"
	"else { dd bs=1 count=0 seek=$o conv=notrunc 2>/dev/null\n"
	"cat -- \"$t\"; } 1<>\"$p\"; fi || { [ $o -lt $e ] ||\n"
	"dd bs=1 count=0 seek=$e of=\"$p\" 2>/dev/null; bad 108; }\n"
	"rm -f -- \"$t\"; [ $((o+n)) -lt $e ] || e=$((o+n)); fi\n"
	"echo $v $e\n";

/* What sandboxd has written already. */
static const char script_check[] = BEGIN COMPARE
	"n=$MCP_LENGTH; same \"$p\" || exit $b; echo $v $n\n";

/* Broken links are left out, as the runtimes do. */
static const char script_list[] = BEGIN
	"[ -e \"$p\" ] || exit 101; [ -d \"$p\" ] || exit 103\n"
	"cd -- \"$p\" || exit 1; type stat >/dev/null || exit 1\n"
	"f=\"$MCP_MARK%f %s %Y %n\"\n"
	"x=$(find . -maxdepth 0 -print0 | sort -z | xargs -0 -r echo)\n"
	"if [ \"$x\" = . ]; then\n"
	"find . -mindepth 1 -maxdepth 1 -print0 | sort -z |\n"
	"xargs -0 -r stat -L -c \"$f\" 2>/dev/null\n"
	"else for x in ./* ./.[!.]* ./..?*; do\n"
	"[ -e \"$x\" ] && stat -L -c \"$f\" \"$x\" 2>/dev/null; done; fi\n"
	"exit 0\n";

static const char script_stat[] = BEGIN
	"there \"$p\" || exit 101\n"
	"stat -c '%f %s %Y' -- \"$p\" || exit 1\n"
	"[ -z \"$MCP_ALL\" ] || [ ! -f \"$p\" ] || sha256sum <\"$p\"\n";

static const char script_exists[] = BEGIN
	"[ -e \"$p\" ] || exit 101\n";

static const char script_delete[] = BEGIN
	"there \"$p\" || exit 101\n"
	"if [ ! -d \"$p\" ] || [ -h \"$p\" ]; then rm -f -- \"$p\"\n"
	"elif [ -n \"$MCP_ALL\" ]; then rm -rf -- \"$p\"\n"
	"else for x in \"$p\"/* \"$p\"/.[!.]* \"$p\"/..?*; do\n"
	"there \"$x\" && exit 104; done; rmdir -- \"$p\"; fi\n";

static const char script_move[] = BEGIN
	"there \"$p\" || exit 101; [ -d \"$q\" ] && exit 102\n"
	"[ -z \"$MCP_ALL\" ] && there \"$q\" && exit 104\n"
	"d=${q%/*}; [ -d \"${d:=/}\" ] || mkdir -p -- \"$d\" || exit 1\n"
	"mv -f -- \"$p\" \"$q\"\n";

static const char *const scripts[] = {
	[FILEOP_READ] = script_read, [FILEOP_WRITE] = script_write,
	[FILEOP_LIST] = script_list, [FILEOP_STAT] = script_stat,
	[FILEOP_EXISTS] = script_exists, [FILEOP_DELETE] = script_delete,
	[FILEOP_MOVE] = script_move,
};

/* --- what comes back ----------------------------------------------------- */

static int
refused(const struct fileop *f, long code, struct error *err)
{
	const char *at = f->req.verb == FILEOP_MOVE && code != EXIT_GONE ?
	    f->req.to : f->req.path;
	const char *said = f->complaint.data != NULL ? f->complaint.data : "";

	switch (code) {
	case EXIT_GONE:
		return error_set(err, ERR_GONE, "'%.200s' is not there", at);
	case EXIT_FOLDER:
		if (f->req.verb == FILEOP_READ)
			return fileop_folder(f, err);
		return error_set(err, ERR_CONFLICT, "'%.200s' is a directory",
		    at);
	case EXIT_NO_FOLDER:
		return error_set(err, ERR_CONFLICT, "'%.200s' is not a "
		    "directory", at);
	case EXIT_NO_FILE:
		return error_set(err, ERR_CONFLICT, "'%.200s' is neither a "
		    "file nor a directory", at);
	case EXIT_THERE:
		return error_set(err, ERR_CONFLICT, f->req.verb ==
		    FILEOP_DELETE ? "directory '%.200s' is not empty: delete "
		    "it recursively" : "'%.200s' is there already", at);
	case EXIT_BEYOND:
		return error_set(err, ERR_INPUT, "offset %ld is beyond the "
		    "end of '%.200s', which has %ld bytes", f->req.offset, at,
		    strtol(said, NULL, 10));
	case EXIT_SHORT:
		return error_set(err, ERR_LOST, "not all %zu bytes arrived",
		    f->size);
	case EXIT_OTHER:
		return error_set(err, ERR_LOST, "other bytes than those sent "
		    "arrived (SHA-256 differs)");
	default:
		return error_set(err, ERR_CLUSTER, "'%.200s': %.300s", at,
		    said[0] != '\0' ? said : "the script in the pod failed");
	}
}

static int
read_end(struct fileop *f, struct error *err)
{
	const char *said = f->complaint.data != NULL ? f->complaint.data : "";
	long want = strtol(said, NULL, 10), got = f->got;

	f->result.size = want;
	want -= f->req.offset;
	if (want > f->req.length)
		want = f->req.length;
	if (got < want)
		return error_set(err, ERR_LOST, "%ld of %ld bytes arrived",
		    got, want);
	/* What has no size, as in /proc. */
	if (got > want)
		f->result.size = f->req.offset + got;
	return 0;
}

static int
stat_end(struct fileop *f, struct error *err)
{
	const char *said = f->text.data != NULL ? f->text.data : "";
	unsigned mode;
	int at = 0;

	if (sscanf(said, "%x %ld %ld %n", &mode, &f->result.size,
	    &f->result.modified, &at) != 3)
		return error_set(err, ERR_CLUSTER, "the pod's stat says "
		    "'%.60s'", said);
	if (sscanf(said + at, "%64[0-9a-f]", f->result.sha256) != 1)
		f->result.sha256[0] = '\0';
	f->result.mode = mode & 07777;
	f->result.type = S_ISREG(mode) ? "file" : S_ISDIR(mode) ?
	    "directory" : S_ISLNK(mode) ? "symlink" : "other";
	return 0;
}

static int
write_end(struct fileop *f, struct error *err)
{
	const char *said = f->text.data != NULL ? f->text.data : "";

	f->result.compared = strncmp(said, "sha256 ", 7) == 0;
	if (!f->result.compared && strncmp(said, "size ", 5) != 0)
		return error_set(err, ERR_LOST, "whether it was written is "
		    "not known");
	f->result.size = strtol(strchr(said, ' '), NULL, 10);
	return 0;
}

static int
conclude(struct fileop *f, const struct event *ev, struct error *err)
{
	if (ev->err != NULL) {
		*err = *ev->err;
		return -1;
	}
	f->result.exists = ev->code == 0;
	if (f->req.verb == FILEOP_EXISTS && ev->code == EXIT_GONE)
		return 0;
	if (ev->code != 0)
		return refused(f, ev->code, err);
	switch (f->req.verb) {
	case FILEOP_READ:
		return read_end(f, err);
	case FILEOP_STAT:
		return stat_end(f, err);
	case FILEOP_WRITE:
		return write_end(f, err);
	case FILEOP_LIST:
		return listing_end(&f->list, err);
	default:
		return 0;
	}
}

/* sandboxd has written it, but its image has no shell to look with. */
static bool
no_shell(const struct fileop *f, const struct event *ev)
{
	if (f->step != STEP_REST || f->stopped)
		return false;
	return ev->err != NULL ? ev->err->code != ERR_TIMEOUT :
	    ev->code == 126 || ev->code == 127;
}

static void
on_run(void *arg, const struct event *ev)
{
	struct fileop *f = arg;
	struct error err = { ERR_NONE, "" };
	size_t room;

	if (ev->type == EVENT_DATA && ev->channel == 2) {
		room = buf_room(&f->complaint);
		buf_put(&f->complaint, ev->data, ev->len < room ? ev->len :
		    room);
	} else if (ev->type == EVENT_DATA && f->req.verb == FILEOP_READ) {
		fileop_take(f, ev->data, ev->len);
	} else if (ev->type == EVENT_DATA && f->req.verb == FILEOP_LIST) {
		if (f->why.code == ERR_NONE &&
		    listing_feed(&f->list, ev->data, ev->len, &f->why) == -1)
			run_stop(f->run, true);
	} else if (ev->type == EVENT_DATA) {
		buf_put(&f->text, ev->data, ev->len);
	}
	if (ev->type != EVENT_END)
		return;
	f->run = NULL;
	if (no_shell(f, ev)) {
		f->step = STEP_SIZE;
		fileop_rest(f);
		return;
	}
	if (f->why.code != ERR_NONE)
		fileop_finish(f, &f->why);
	else
		fileop_finish(f, conclude(f, ev, &err) == -1 ? &err : NULL);
}

/* --- what is sent -------------------------------------------------------- */

/* A path no command takes for an option. */
static char *
variable(const char *name, const char *path)
{
	char *text = NULL;

	if (asprintf(&text, "%s=%s%s", name, path[0] == '/' ? "" : "./",
	    path) == -1)
		return NULL;
	return text;
}

static bool
paths(const struct fileop *f, char *vars[2])
{
	bool legacy = f->link->runtime == RUNTIME_LEGACY;
	const char *path = f->req.path, *to = f->req.to;

	/* The legacy runtime takes every path as below its folder. */
	if (to == NULL)
		to = ".";
	if (legacy && path[0] == '/')
		path++;
	if (legacy && to[0] == '/')
		to++;
	vars[0] = variable("MCP_PATH", path);
	vars[1] = variable("MCP_TO", to);
	return vars[0] != NULL && vars[1] != NULL;
}

void
fileop_script(struct fileop *f)
{
	char offset[40], length[40], part[64], sum[80], mark[64], *two[2];
	const char *vars[VARIABLES] = { NULL };
	bool sent = f->step == STEP_PART, given = f->req.verb == FILEOP_WRITE;
	struct run_req req = { .namespace = f->req.namespace,
	    .sandbox = f->req.sandbox, .address = f->req.address,
	    .claim = f->req.claim, .env = vars, .own = true,
	    .known = f->req.known,
	    .command = f->step == STEP_REST &&
	    f->req.verb == FILEOP_WRITE ? script_check :
	    scripts[f->req.verb], .timeout_ms = fileop_left_ms(f) };
	struct error err;
	size_t n = 0;

	(void)snprintf(offset, sizeof(offset), "MCP_OFFSET=%ld",
	    f->req.offset);
	(void)snprintf(length, sizeof(length), "MCP_LENGTH=%ld", given ?
	    (long)f->size : f->req.length);
	(void)snprintf(part, sizeof(part), "MCP_PART=%s", f->part);
	(void)snprintf(sum, sizeof(sum), "MCP_SHA256=%s", f->result.sha256);
	(void)snprintf(mark, sizeof(mark), "MCP_MARK=%s", f->mark);
	if (paths(f, two)) {
		vars[n++] = two[0];
		vars[n++] = two[1];
	}
	vars[n++] = offset;
	vars[n++] = length;
	vars[n++] = part;
	vars[n++] = sum;
	vars[n++] = mark;
	vars[n++] = f->req.all ? "MCP_ALL=1" : "MCP_ALL=";
	vars[n++] = sent ? "MCP_SENT=1" : "MCP_SENT=";
	vars[n++] = f->link->runtime == RUNTIME_SANDBOXD ? "MCP_ROOTED=1" :
	    "MCP_ROOTED=";
	if (given && f->step == STEP_FIND) {
		req.input = f->req.data.data;
		req.input_len = f->size;
		if (f->req.source != NULL) {
			f->req.source->rewind(f->req.source->arg);
			req.give = f->req.source->give;
			req.give_arg = f->req.source->arg;
		}
	}
	if (f->req.verb == FILEOP_LIST)
		listing_records(&f->list, f->mark, f->req.entry, f->arg);
	if (f->req.verb == FILEOP_LIST || f->step != STEP_REST)
		f->step = STEP_SCRIPT;
	if (n == VARIABLES - 2)
		f->run = run_start(f->env, &req, on_run, f);
	free(two[0]);
	free(two[1]);
	buf_free(&f->req.data);		/* it has a copy */
	if (f->run != NULL)
		return;
	error_set(&err, ERR_SYSTEM, "out of memory");
	fileop_fail(f, &err);
}
