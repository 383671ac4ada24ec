/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "buf.h"
#include "env.h"
#include "config.h"
#include "error.h"
#include "exec.h"
#include "legacy.h"
#include "budget.h"
#include "link.h"
#include "loop.h"
#include "mono.h"
#include "run.h"
#include "sandboxd.h"
#include "web.h"

enum {
	WATCHDOG_S = 5,		/* the pod's own time limit comes this later */
	KILL_MS = 12 * 1000,	/* for the script that ends a command */
	LINGER_MS = 3 * 1000,	/* for the end of what was killed to arrive */
	LEGACY_WATCHDOG_S = 2,	/* there it may be the only one to end it */
	PIECE = 100 * 1000,	/* of input in an argument (MAX_ARG_STRLEN) */
	PIECES = 16,
	GIVEN = 32 * 1024,	/* of an input that is given */
};

/* What /proc says of every process, a line each, for a loop over $s. */
#define STATS	"s=$(cat /proc/[0-9]*/stat) o=$IFS; set -f; IFS='\n'\n"

/*
 * scan SIGNAL: to every process that carries the mark $m, and to their
 * descendants. It works in the barest image, but read(1) takes byte by byte,
 * so grep helps where there is one. read drops the NULs of environ, and a
 * zombie's is empty. n is how many there were.
 */
#define SCAN								\
	"scan() { g=$1 n=0 all=' ' more=1\n"				\
	"if type grep >/dev/null; then\n"				\
	"for p in $(grep -l MCP_SANDBOX_RUN=$m /proc/[0-9]*/environ); do\n" \
	"p=${p%/environ}; all=\"$all${p#/proc/} \"; done\n"		\
	"else for p in /proc/[0-9]*; do\n"				\
	"while IFS= read -r l || [ -n \"$l\" ]; do case $l in\n"	\
	"*MCP_SANDBOX_RUN=$m*) all=\"$all${p#/proc/} \"; break;; esac\n" \
	"done <$p/environ; done; fi; " STATS				\
	"while [ $more = 1 ]; do more=0; for l in $s; do\n"		\
	"q=${l%% *}; case $all in *\" $q \"*) continue;; esac\n"	\
	"l=${l#*) }; [ \"${l%% *}\" = Z ] && continue; l=${l#* }\n"	\
	"case $all in *\" ${l%% *} \"*) all=\"$all$q \" more=1;; esac\n" \
	"done; done; set +f; IFS=$o\n"					\
	"for q in $all; do kill -$g $q && n=$((n+1)); done; } 2>/dev/null\n"

/*
 * Arguments: mark, tenths of a second between TERM and KILL. A command that
 * its wrapper has not begun yet has no mark: as long as nothing is found and
 * a wrapper is there (about), it may still come. If it does not in time, what
 * became of it is not known, and nothing is said.
 */
static const char killer[] = SCAN
	"about() { type grep >/dev/null || return 0\n"
	"grep -l [${m%${m#?}}]${m#?} /proc/[0-9]*/cmdline |\n"
	"grep -qv ^/proc/$$/; } 2>/dev/null\n"
	"m=$1 w=$2 k=$(($2+5)); scan TERM\n"
	"while [ $n = 0 ] && about; do [ $k -gt 0 ] || exit\n"
	"sleep 0.1 2>/dev/null || sleep 1; k=$((k-1)); scan TERM; done\n"
	"while [ $w -gt 0 ]; do scan 0; [ $n = 0 ] && break\n"
	"sleep 0.1 2>/dev/null || sleep 1; w=$((w-1)); done\n"
	"scan KILL; [ $n = 0 ] || sleep 0.2 2>/dev/null || sleep 1\n"
	"scan 0; echo $n\n";

/*
 * The watchdog counts for the case that we are gone; it is not marked. It
 * ends by itself when the sleep it waits for is killed, so that nothing is
 * orphaned: PID 1 may not reap. A trap in its place would be lost now and then
 * between two commands of busybox's shell.
 */
#define WATCH								\
	"up() { IFS= read -r l </proc/$1/stat && l=${l##*) } &&\n"	\
	"[ \"${l%%\"${l#?}\"}\" != Z ]; } 2>/dev/null\n"		\
	"off() { k=0; while up $1; do " STATS "for l in $s; do\n"	\
	"q=${l#*) }; q=${q#* }; [ ${q%% *} = $1 ] && kill ${l%% *}\n"	\
	"done; set +f; IFS=$o\n"					\
	"k=$((k+1)); [ $k -lt 40 ] || kill $1; done; wait $1; } 2>/dev/null\n" \
	"{ { sleep $t && scan KILL; } & } </dev/null >/dev/null 2>&1; w=$!\n"

/* The pumps' end, when the command has ended. */
#define FOLLOW								\
	"k=0; while { up $a || up $b; } && [ $k -lt 20 ]; do\n"		\
	"k=$((k+1)); [ $k -lt 4 ] || sleep 0.05 || sleep 1; done\n"	\
	"kill $a $b; wait $a $b; fi\n"

/*
 * Says on stderr, first of all, which container this is: the machine's boot
 * and the tick of it in which PID 1 began. A pod that took another's name, and
 * a container that began again, say something else than $w, and nothing runs.
 */
#define WHO								\
	"x= l= k=19; { IFS= read -r x </proc/sys/kernel/random/boot_id\n" \
	"IFS= read -r l </proc/1/stat; } 2>/dev/null; l=${l##*) }\n"	\
	"while [ $k -gt 0 ]; do l=${l#* } k=$((k-1)); done\n"		\
	"[ -z \"$x\" ] || [ -z \"$l\" ] || x=$x.${l%% *}\n"		\
	"printf '%s %s\\n' $m \"$x\" >&2\n"				\
	"[ -z \"$w\" ] || [ \"$w\" = \"$x\" ] || exit 96\n"

/*
 * Arguments: mark, who, seconds, folder, bytes of input, command, NAME=value
 * The command writes into two pipes that have names for a moment; a pump
 * each carries on. When the command has ended, the pumps have one second to
 * follow, whoever still holds the other side. head ends the input, which
 * v4.channel.k8s.io can't. The mark closes both streams, because the API
 * server has been seen to drop the end of an output and say that all is well
 * (kubernetes#124571).
 */
static const char wrapper[] = SCAN
	"m=$1 w=$2 t=$3 d=$4 i=$5 c=$6; shift 6\n" WHO "exec 7>&2\n"
	"bye() { printf %s $m; printf %s $m >&7; exit $1; }\n"
	"for v; do export \"$v\"; done\n"
	"[ -z \"$d\" ] || cd \"$d\" || bye 125\n"
	WATCH
	"for f in /dev/shm /tmp /var/tmp .; do f=$f/.mcp-sandbox-$m\n"
	"(umask 077; mkfifo \"$f.1\" \"$f.2\") 2>/dev/null && break; f=; done\n"
	"if [ -n \"$f\" ]; then\n"
	"cat <\"$f.1\" 7>&- & a=$!; cat <\"$f.2\" >&2 7>&- & b=$!\n"
	"exec 8>\"$f.1\" 9>\"$f.2\"; rm -f \"$f.1\" \"$f.2\"\n"
	"else exec 8>&1 9>&2; fi; exec 2>/dev/null\n"
	"set -- /bin/sh -c \"$c\"; export MCP_SANDBOX_RUN=$m\n"
	"if [ $i = 0 ]; then \"$@\" >&8 2>&9 7>&- 8>&- 9>&-\n"
	"else head -c $i | \"$@\" >&8 2>&9 7>&- 8>&- 9>&-; fi; r=$?\n"
	"unset MCP_SANDBOX_RUN; exec 8>&- 9>&-\n"
	"if [ -n \"$f\" ]; then\n"
	FOLLOW
	"off $w; bye $r\n";

/*
 * The same for the legacy runtime, which has no input and passes on nothing
 * but UTF-8: mark, seconds, folder, count of pieces of input, command, the
 * pieces as printf(1) wants them, NAME=value ... The output goes through
 * base64 where the image has it, behind a first line that says so (legacy.h);
 * the pumps are apart from it, so that it can end in order.
 */
static const char legacy_wrapper[] = SCAN
	"m=$1 t=$2 d=$3 i=$4 c=$5; shift 5; k=$i\n"
	"for v; do [ $k -gt 0 ] && k=$((k-1)) || export \"$v\"; done\n"
	"[ -z \"$d\" ] || cd \"$d\" 2>/dev/null || { echo \"$m cat\"\n"
	"printf '%s cat\\ncd: no such folder: %s\\n' $m \"$d\" >&2\n"
	"exit 125; }\n"
	WATCH
	"for f in /dev/shm /tmp /var/tmp .; do f=$f/.mcp-sandbox-$m\n"
	"(umask 077; mkfifo \"$f.1\" \"$f.2\" \"$f.3\" \"$f.4\") 2>/dev/null "
	"&& break; f=; done\n"
	"e=cat; [ -z \"$f\" ] || ! type base64 >/dev/null 2>&1 || e=base64\n"
	"echo \"$m $e\"; echo \"$m $e\" >&2\n"
	"if [ $e = base64 ]; then\n"
	"base64 <\"$f.3\" & x=$!; base64 <\"$f.4\" >&2 & y=$!\n"
	"exec 6>\"$f.3\" 7>\"$f.4\"\n"
	"cat <\"$f.1\" >&6 7>&- & a=$!; cat <\"$f.2\" >&7 6>&- & b=$!\n"
	"exec 8>\"$f.1\" 9>\"$f.2\" 6>&- 7>&-\n"
	"elif [ -n \"$f\" ]; then\n"
	"cat <\"$f.1\" & a=$!; cat <\"$f.2\" >&2 & b=$!\n"
	"exec 8>\"$f.1\" 9>\"$f.2\"\n"
	"else exec 8>&1 9>&2; fi\n"
	"[ -z \"$f\" ] || rm -f \"$f.1\" \"$f.2\" \"$f.3\" \"$f.4\"\n"
	"exec 2>/dev/null\n"
	"feed() { while [ $i -gt 0 ]; do\n"
	"printf %b \"$1\" || break; shift; i=$((i-1)); done; }\n"
	"export MCP_SANDBOX_RUN=$m\n"
	"if [ $i = 0 ]\n"
	"then /bin/sh -c \"$c\" </dev/null >&8 2>&9 8>&- 9>&-\n"
	"else feed \"$@\" 8>&- 9>&- | /bin/sh -c \"$c\" >&8 2>&9 8>&- 9>&-\n"
	"fi; r=$?\n"
	"unset MCP_SANDBOX_RUN; exec 8>&- 9>&-\n"
	"if [ -n \"$f\" ]; then\n"
	FOLLOW
	"[ $e = cat ] || wait $x $y\n"
	"off $w; exit $r\n";

/*
 * For a script of ours, which ends when its input does: mark, who, bytes of
 * input, script, NAME=value ...
 */
static const char own_wrapper[] =
	"m=$1 w=$2 i=$3 c=$4; shift 4\n" WHO
	"for v; do export \"$v\"; done\n"
	"export MCP_SANDBOX_RUN=$m\n"
	"if [ $i = 0 ]; then /bin/sh -c \"$c\"\n"
	"else head -c $i | /bin/sh -c \"$c\"; fi; r=$?\n"
	"printf %s $m; printf %s $m >&2; exit $r\n";

enum run_state {
	RUN_FIND,		/* for the way into the pod */
	RUN_OPEN,		/* for the command's end */
	RUN_KILL,		/* for the killer's end */
	RUN_LINGER		/* for what was killed to say so */
};

enum { MARK = 32 };

/* A program in the pod, by one of the runtimes. */
struct program {
	struct exec *exec;
	struct sandboxd_run *run;
	struct legacy_run *legacy;
};

struct run {
	struct env *env;
	event_fn *fn;
	void *arg;
	enum run_state state;
	struct link_find *find;
	struct link *link;
	struct program main, killer;
	struct loop_timer *timer;
	struct error why;		/* why it is being ended */
	struct buf told;		/* what the killer printed */
	bool own;			/* the command is a script of ours */
	bool known;			/* see run.h */
	char expected[LINK_IDENTITY];	/* what the wrapper has to say, or "" */
	char head[MARK + LINK_IDENTITY + 2];	/* its first line */
	size_t head_len;
	bool headed, replaced;		/* that is over; it is another */
	bool begun, main_over, quick;
	bool marked;			/* the mark closes its streams */
	bool *closed;			/* set when its owner closes it */
	size_t held[2];			/* bytes of it seen at the end */

	char mark[MARK + 1];
	char *command, *cwd, *input;
	size_t input_len, written;
	long (*give)(void *arg, char *dst, size_t size);
	void *give_arg;			/* then input holds a piece of it */
	size_t piece, piece_at;
	char **vars;			/* "NAME=value", NULL at the end */
	long timeout_ms, asked;		/* asked: mono_ms() */
};

static void
program_close(struct program *p)
{
	exec_close(p->exec);
	sandboxd_close(p->run);
	legacy_close(p->legacy);
	*p = (struct program){ NULL, NULL, NULL };
}

void
run_close(struct run *r)
{
	if (r == NULL)
		return;
	if (r->closed != NULL)
		*r->closed = true;
	link_find_cancel(r->find);
	program_close(&r->main);
	program_close(&r->killer);
	loop_timer_del(r->timer);
	link_drop(r->env->links, r->link);
	buf_free(&r->told);
	for (size_t i = 0; r->vars != NULL && r->vars[i] != NULL; i++)
		free(r->vars[i]);
	free(r->vars);
	free(r->command);
	free(r->cwd);
	free(r->input);
	free(r);
}

/* The last thing that is said; code counts when err is NULL. */
static void
finish(struct run *r, const struct error *err, long code)
{
	struct event ev = { .type = EVENT_END, .code = code };
	struct error copy;
	event_fn *fn = r->fn;
	void *arg = r->arg;

	if (err != NULL) {
		copy = *err;
		ev.err = &copy;
		if (r->link != NULL && (err->code == ERR_LOST || (r->known &&
		    (err->code == ERR_GONE || err->code == ERR_CLUSTER))))
			link_forget(r->link);
	}
	run_close(r);
	fn(arg, &ev);
}

static event_fn on_main;
static int close_streams(struct run *r);
static void after_kill(struct run *r);
static void end_it(struct run *r, enum error_code code, const char *text);

static void
on_timer(void *arg)
{
	struct run *r = arg;
	char text[64];

	r->timer = NULL;
	switch (r->state) {
	case RUN_FIND:
	case RUN_OPEN:
		(void)snprintf(text, sizeof(text), "timed out after %ld s",
		    r->timeout_ms / 1000);
		end_it(r, ERR_TIMEOUT, text);
		break;
	case RUN_KILL:
		program_close(&r->killer);
		after_kill(r);
		break;
	case RUN_LINGER:
		if (!r->marked || close_streams(r) != -1)
			finish(r, &r->why, 0);
		break;
	}
}

static void
set_timer(struct run *r, long ms)
{
	loop_timer_del(r->timer);
	r->timer = loop_timer_add(r->env->loop, ms, on_timer, r);
}

/* Said from the loop, never from inside the caller's own call. */
static void
fail_later(struct run *r, const struct error *err)
{
	r->why = *err;
	r->state = RUN_LINGER;
	set_timer(r, 0);
}

/* mark: its outputs begin with it, see legacy.h; or NULL. */
static int
legacy_start(struct run *r, struct program *p, const char *const *argv,
    const char *mark, event_fn *fn, struct error *err)
{
	static const char *const headers[] = {
		"Content-Type: application/json", NULL };
	struct web_req req = { .method = "POST", .headers = headers };
	bool raw = argv[1] == NULL;
	struct link_aim aim;

	if (link_aim(&aim, r->link, "/execute", p == &r->main ?
	    r->timeout_ms : KILL_MS, &req, err) == 0)
		p->legacy = legacy_run(r->env->web, &req, argv, raw, mark, fn,
		    r, err);
	link_unaim(&aim);
	return p->legacy == NULL ? -1 : 0;
}

static int
program_start(struct run *r, struct program *p,
    const struct sandboxd_start *s, event_fn *fn, struct error *err)
{
	struct link *l = r->link;
	struct exec_req e = { .namespace = l->namespace, .pod = l->pod,
	    .argv = s->argv, .input = s->input_len > 0 };

	if (l->runtime == RUNTIME_LEGACY)
		return legacy_start(r, p, s->argv, NULL, fn, err);
	if (l->runtime == RUNTIME_SANDBOXD) {
		p->run = sandboxd_run(r->env->web, &l->grpc, s, fn, r, err);
		return p->run == NULL ? -1 : 0;
	}
	if (l->container[0] != '\0')
		e.container = l->container;
	if ((p->exec = exec_open(r->env->k8s, &e, fn, r)) == NULL)
		return error_set(err, ERR_SYSTEM, "out of memory");
	return 0;
}

/* The killer's end, however it came: put what it found into the reason. */
static void
after_kill(struct run *r)
{
	char before[160], *end = NULL;
	long left = -1;

	if (r->told.data != NULL)
		left = strtol(r->told.data, &end, 10);
	if (end == r->told.data)
		left = -1;
	(void)snprintf(before, sizeof(before), "%.150s", r->why.text);
	if (left == 0)
		error_set(&r->why, r->why.code, "%s: all its processes were "
		    "ended", before);
	else if (left > 0)
		error_set(&r->why, r->why.code, "%s: %ld of its processes "
		    "would not end", before, left);
	else
		error_set(&r->why, r->why.code, "%s: whether its processes "
		    "ended is not known", before);
	r->state = RUN_LINGER;
	/* Nobody waits for the output of what was stopped. */
	set_timer(r, r->main_over || (r->quick && left == 0) ? 0 :
	    LINGER_MS);
}

static void
on_killer(void *arg, const struct event *ev)
{
	struct run *r = arg;

	if (ev->type == EVENT_DATA && ev->channel == 1)
		buf_put(&r->told, ev->data, ev->len);
	if (ev->type != EVENT_END)
		return;
	r->killer = (struct program){ NULL, NULL, NULL };
	after_kill(r);
}

/* End the command for a reason; what is known of its processes is added. */
static void
end_it(struct run *r, enum error_code code, const char *text)
{
	const char *argv[] = { "/bin/sh", "-c", killer, "mcp-sandbox", r->mark,
	    r->quick ? "3" : "20", NULL };
	struct sandboxd_start s = { .argv = argv };
	struct error err;

	error_set(&r->why, code, "%s", text);
	if (r->state == RUN_FIND) {
		link_find_cancel(r->find);
		r->find = NULL;
		error_set(&r->why, code, "%s, before the command began", text);
		fail_later(r, &r->why);
		return;
	}
	if (r->link->runtime == RUNTIME_LEGACY && !r->own &&
	    !r->env->config->shell) {
		error_set(&r->why, code, "%s: without a shell around it "
		    "(MCP_SANDBOX_SHELL) it can't be ended, and may still "
		    "run", text);
		fail_later(r, &r->why);
		return;
	}
	/* What is dropped before it begins never does, or has its mark. */
	if (!r->begun) {
		program_close(&r->main);
		r->main_over = true;
	}
	r->state = RUN_KILL;
	if (program_start(r, &r->killer, &s, on_killer, &err) == -1)
		after_kill(r);
	else
		set_timer(r, KILL_MS);
}

void
run_stop(struct run *r, bool quick)
{
	r->quick = quick;
	if (r->state == RUN_FIND || r->state == RUN_OPEN)
		end_it(r, ERR_CANCELLED, "cancelled");
}

/* What is to be written next, and how much; 0: it is not to be had. */
static size_t
next_input(struct run *r, const char **at)
{
	long n;

	*at = r->input + r->written;
	if (r->give == NULL)
		return r->input_len - r->written;
	if (r->piece_at == r->piece) {
		n = r->give(r->give_arg, r->input, GIVEN);
		r->piece = n > 0 ? (size_t)n : 0;
		r->piece_at = 0;
	}
	*at = r->input + r->piece_at;
	return r->piece - r->piece_at;
}

/* Hand over more of the input, as much as there is room for. */
static void
feed(void *arg)
{
	struct run *r = arg;
	const char *at;
	size_t n;

	while (r->written < r->input_len) {
		if ((n = next_input(r, &at)) == 0) {
			end_it(r, ERR_SYSTEM, "its input can't be read");
			return;
		}
		if ((n = exec_write(r->main.exec, at, n)) == 0)
			return;
		r->written += n;
		r->piece_at += n;
	}
	(void)exec_write_end(r->main.exec);
}

/* Why the legacy runtime's call ended without an exit status. */
static void
legacy_failed(struct run *r, const struct event *ev, struct error *err)
{
	char said[600];

	if (ev->status == 200) {
		*err = *ev->err;
	} else {
		link_explain(r->link, ev, mono_ms() - r->asked, err);
		if (ev->status != 0)
			return;
	}
	if (err->code != ERR_LOST)
		return;
	(void)snprintf(said, sizeof(said), "%.500s", err->text);
	error_set(err, ERR_LOST, "connection lost: no exit status came (%s); "
	    "the command may still be running", said);
}

static void
on_legacy(void *arg, const struct event *ev)
{
	struct run *r = arg;
	struct event last = *ev;
	struct error err;

	if (ev->type == EVENT_END) {
		r->main_over = true;
		r->main = (struct program){ NULL, NULL, NULL };
		if (ev->err != NULL) {
			legacy_failed(r, ev, &err);
			last.err = &err;
		}
	}
	on_main(r, &last);
}

/* False: whoever was told has closed the run. */
static bool
tell(struct run *r, int channel, const char *data, size_t len)
{
	struct event ev = { .type = EVENT_DATA, .channel = channel,
	    .data = data, .len = len };
	bool closed = false;

	if (len == 0)
		return true;
	r->closed = &closed;
	r->fn(r->arg, &ev);
	if (!closed)
		r->closed = NULL;
	return !closed;
}

/* Do n bytes of the mark and then data end in the first k of the mark? */
static bool
ends_in(const char *mark, size_t n, const char *data, size_t len, size_t k)
{
	size_t before = k > len ? k - len : 0;

	return memcmp(mark + n - before, mark, before) == 0 &&
	    memcmp(data + len - (k - before), mark + before, k - before) == 0;
}

/*
 * Pass on everything but an end that may be the beginning of the mark; what
 * is held back is therefore a part of the mark, and only its length is kept.
 */
static void
pass(struct run *r, const struct event *ev)
{
	size_t *held = &r->held[ev->channel == 2], n = *held, k;

	if (ev->len == 0)
		return;
	k = n + ev->len < MARK ? n + ev->len : MARK;
	while (!ends_in(r->mark, n, ev->data, ev->len, k))
		k--;
	*held = k;
	if (k > ev->len)
		(void)tell(r, ev->channel, r->mark, n - (k - ev->len));
	else if (tell(r, ev->channel, r->mark, n))
		(void)tell(r, ev->channel, ev->data, ev->len - k);
}

/* The wrapper's first line is whole. */
static void
identify(struct run *r, size_t len)
{
	char *said = r->head + MARK + 1;

	r->headed = true;
	r->head[len - 1] = '\0';
	/* Only what tells one container from others is worth to be kept. */
	if (r->expected[0] == '\0')
		(void)snprintf(r->link->identity, LINK_IDENTITY, "%s",
		    strchr(said, '.') != NULL ? said : "");
	else if (strcmp(r->expected, said) != 0)
		r->replaced = true;
}

/*
 * stderr until the wrapper has said who it is. A shell that can't run it says
 * something else, which is passed on.
 */
static void
take_head(struct run *r, const struct event *ev)
{
	struct event rest = *ev;
	size_t n = r->head_len;

	for (; rest.len > 0 && !r->headed; rest.len--) {
		char c = *rest.data;

		if (n < MARK ? c != r->mark[n] : n == sizeof(r->head)) {
			r->headed = true;
			break;
		}
		rest.data++;
		r->head[n++] = c;
		if (n > MARK && c == '\n') {
			identify(r, n);
			n = 0;
		}
	}
	r->head_len = r->headed ? 0 : n;
	if (r->headed && tell(r, 2, r->head, n))
		pass(r, &rest);
}

/*
 * Both streams are over: pass on what was held back and is not the mark.
 * 1: both had it, 0: one did not, -1: the run is closed.
 */
static int
close_streams(struct run *r)
{
	int whole = 1;

	if (!tell(r, 2, r->head, r->head_len))
		return -1;
	for (int i = 0; i < 2; i++) {
		size_t n = r->held[i];

		r->held[i] = 0;
		if (n == MARK)
			continue;
		whole = 0;
		if (!tell(r, i + 1, r->mark, n))
			return -1;
	}
	return whole;
}

/* In the words of runc and of crun. */
static bool
no_shell(const struct error *err)
{
	return err->code == ERR_CLUSTER &&
	    strstr(err->text, "/bin/sh") != NULL &&
	    (strcasestr(err->text, "no such file") != NULL ||
	    strstr(err->text, "not found") != NULL);
}

/*
 * The end of a wrapped command. One that exited by itself has closed its
 * streams; where that did not arrive, neither has the end of the output.
 */
static void
wrapped_over(struct run *r, const struct event *ev)
{
	struct error err;
	int whole;

	if (r->replaced) {
		error_set(&err, ERR_GONE, "the pod of sandbox '%s' was "
		    "replaced: nothing was run", r->link->sandbox);
		finish(r, &err, 0);
		return;
	}
	if (r->known && !r->headed && ev->err == NULL && ev->code > 125) {
		error_set(&err, ERR_CLUSTER, "it was killed before it began "
		    "(exit status %ld)", ev->code);
		finish(r, &err, 0);
		return;
	}
	if (!r->headed && ev->err != NULL && no_shell(ev->err)) {
		error_set(&err, ERR_CLUSTER, "nothing was run: the image has "
		    "no /bin/sh, which commands and files need here; take "
		    "one that has (%.500s)", ev->err->text);
		finish(r, &err, 0);
		return;
	}
	if ((whole = close_streams(r)) == -1)
		return;
	if (ev->err != NULL || whole == 1 || ev->code > 125) {
		finish(r, ev->err, ev->code);
		return;
	}
	error_set(&err, ERR_LOST, "connection lost: the command ended with "
	    "exit code %ld, but the end of its output did not arrive",
	    ev->code);
	finish(r, &err, 0);
}

static void
on_main(void *arg, const struct event *ev)
{
	struct run *r = arg;

	r->begun |= ev->type == EVENT_OPEN;
	if (ev->type == EVENT_OPEN && r->main.exec != NULL &&
	    r->input_len > 0) {
		exec_on_room(r->main.exec, feed, r);
		feed(r);
	}
	if (ev->type == EVENT_DATA && r->marked) {
		if (ev->channel != 2 || r->headed)
			pass(r, ev);
		else
			take_head(r, ev);
		return;
	}
	if (ev->type != EVENT_END) {
		r->fn(r->arg, ev);
		return;
	}
	r->main = (struct program){ NULL, NULL, NULL };
	r->main_over = true;
	if (r->state == RUN_OPEN && r->marked)
		wrapped_over(r, ev);
	else if (r->state == RUN_OPEN)
		finish(r, ev->err, ev->code);
	else if (r->state == RUN_LINGER)
		set_timer(r, 0);
}

static int
start_wrapped(struct run *r, size_t vars, struct error *err)
{
	const char *argv[11 + LIMIT_ENV + 1] = { "/bin/sh", "-c", wrapper,
	    "mcp-sandbox", r->mark };
	char seconds[24], bytes[24];
	struct sandboxd_start s = { .argv = argv, .input = r->input,
	    .input_len = r->input_len };
	size_t n = 5;

	(void)snprintf(seconds, sizeof(seconds), "%ld",
	    r->timeout_ms / 1000 + WATCHDOG_S);
	(void)snprintf(bytes, sizeof(bytes), "%zu", r->input_len);
	if (r->known)
		memcpy(r->expected, r->link->identity, LINK_IDENTITY);
	argv[n++] = r->expected;
	if (r->own) {
		argv[2] = own_wrapper;
	} else {
		argv[n++] = seconds;
		argv[n++] = r->cwd != NULL ? r->cwd : "";
	}
	argv[n++] = bytes;
	argv[n++] = r->command;
	for (size_t i = 0; i < vars; i++)
		argv[n++] = r->vars[i];
	r->marked = true;
	return program_start(r, &r->main, &s, on_main, err);
}

/* The input as arguments, one behind the other in all, each with a NUL. */
static int
pieces(const struct run *r, struct buf *all, const char **argv, size_t *n,
    struct error *err)
{
	size_t at = 0, begins[PIECES], took;

	buf_init(all, PIECES * PIECE);
	for (*n = 0; at < r->input_len && *n < PIECES; at += took) {
		begins[(*n)++] = all->len;
		took = legacy_piece(all, r->input + at, r->input_len - at,
		    PIECE - 1);
		buf_put(all, "", 1);
	}
	if (!buf_ok(all) || at < r->input_len)
		return error_set(err, ERR_LIMIT, "standard input is too long "
		    "for the legacy runtime: upload it as a file");
	for (size_t i = 0; i < *n; i++)
		argv[i] = all->data + begins[i];
	return 0;
}

static int
start_legacy(struct run *r, size_t vars, struct error *err)
{
	const char *argv[10 + PIECES + LIMIT_ENV + 1] = { "/bin/sh", "-c",
	    legacy_wrapper, "mcp-sandbox", r->mark };
	const char *bare[2] = { r->command, NULL };
	char seconds[24], count[24];
	struct buf all;
	size_t n = 0;
	int ret;

	r->begun = true;
	r->asked = mono_ms();
	if (!r->own && !r->env->config->shell) {
		if (r->cwd != NULL || vars > 0 || r->input_len > 0)
			return error_set(err, ERR_INPUT, "cwd, env and stdin "
			    "need a shell around the command, which "
			    "MCP_SANDBOX_SHELL forbids");
		return legacy_start(r, &r->main, bare, NULL, on_legacy, err);
	}
	ret = pieces(r, &all, argv + 9, &n, err);
	(void)snprintf(seconds, sizeof(seconds), "%ld",
	    r->timeout_ms / 1000 + LEGACY_WATCHDOG_S);
	(void)snprintf(count, sizeof(count), "%zu", n);
	argv[5] = seconds;
	argv[6] = r->cwd != NULL ? r->cwd : "";
	argv[7] = count;
	argv[8] = r->command;
	for (size_t i = 0; i < vars; i++)
		argv[9 + n + i] = r->vars[i];
	if (ret == 0)
		ret = legacy_start(r, &r->main, argv, r->mark, on_legacy, err);
	buf_free(&all);
	return ret;
}

/* sandboxd has an environment and an input of its own. */
static int
start_plain(struct run *r, size_t vars, struct error *err)
{
	const char *argv[] = { "/bin/sh", "-c", r->command, NULL, NULL, NULL,
	    NULL };
	const char *pairs[2 * LIMIT_ENV + 3];
	struct sandboxd_start s = { .argv = argv, .env = pairs,
	    .input = r->input, .input_len = r->input_len };
	size_t n = 0, i;
	int ret;

	/* Its own folder argument moves absolute paths below its root. */
	if (r->cwd != NULL) {
		argv[2] = "cd \"$1\" || exit 125; exec /bin/sh -c \"$2\"";
		argv[3] = "mcp-sandbox";
		argv[4] = r->cwd;
		argv[5] = r->command;
	}
	for (i = 0; i < vars; i++) {
		char *eq = strchr(r->vars[i], '=');

		*eq = '\0';
		pairs[n++] = r->vars[i];
		pairs[n++] = eq + 1;
	}
	pairs[n++] = "MCP_SANDBOX_RUN";
	pairs[n++] = r->mark;
	pairs[n] = NULL;
	ret = program_start(r, &r->main, &s, on_main, err);
	for (i = 0; i < vars; i++)
		r->vars[i][strlen(r->vars[i])] = '=';
	return ret;
}

static void
on_link(void *arg, struct link *l, const struct error *why)
{
	struct run *r = arg;
	struct error err = { ERR_NONE, "" };
	size_t vars = 0;
	int ret;

	r->find = NULL;
	r->link = l;
	if (why != NULL) {
		fail_later(r, why);
		return;
	}
	while (r->vars[vars] != NULL)
		vars++;
	r->state = RUN_OPEN;
	if (l->runtime == RUNTIME_SANDBOXD && l->grpc.url[0] == '\0')
		ret = error_set(&err, ERR_CLUSTER, "sandbox '%s' runs "
		    "sandboxd, whose commands (gRPC) pass no router: use "
		    "connection type auto, tunnel or sandboxd-in-cluster",
		    l->sandbox);
	else if (l->runtime != RUNTIME_NONE && r->give != NULL)
		ret = error_set(&err, ERR_LIMIT, "standard input is too long "
		    "for this runtime");
	else if (l->runtime == RUNTIME_SANDBOXD)
		ret = start_plain(r, vars, &err);
	else if (l->runtime == RUNTIME_LEGACY)
		ret = start_legacy(r, vars, &err);
	else
		ret = start_wrapped(r, vars, &err);
	if (ret == -1)
		fail_later(r, &err);
}

/* 128 random bits: nothing in the pod carries them by chance. */
static int
new_mark(char mark[33])
{
	unsigned char raw[16];

	if (getrandom(raw, sizeof(raw), 0) != sizeof(raw))
		return -1;
	for (size_t i = 0; i < sizeof(raw); i++)
		(void)snprintf(mark + 2 * i, 3, "%02x", raw[i]);
	return 0;
}

static int
copy(struct run *r, const struct run_req *req)
{
	size_t n = 0;

	while (req->env != NULL && req->env[n] != NULL && n < LIMIT_ENV)
		n++;
	r->timeout_ms = req->timeout_ms;
	r->own = req->own;
	r->known = req->known;
	r->command = strdup(req->command);
	if (req->cwd != NULL && (r->cwd = strdup(req->cwd)) == NULL)
		return -1;
	if ((r->vars = calloc(n + 1, sizeof(*r->vars))) == NULL)
		return -1;
	for (size_t i = 0; i < n; i++)
		if ((r->vars[i] = strdup(req->env[i])) == NULL)
			return -1;
	if (req->give != NULL) {
		if ((r->input = malloc(GIVEN)) == NULL)
			return -1;
		r->give = req->give;
		r->give_arg = req->give_arg;
		r->input_len = req->input_len;
	} else if (req->input != NULL) {
		if ((r->input = malloc(req->input_len + 1)) == NULL)
			return -1;
		memcpy(r->input, req->input, req->input_len);
		r->input_len = req->input_len;
	}
	return r->command == NULL || new_mark(r->mark) == -1 ? -1 : 0;
}

struct run *
run_start(struct env *env, const struct run_req *req, event_fn *fn, void *arg)
{
	struct run *r = calloc(1, sizeof(*r));
	struct link_find *find;

	if (r == NULL)
		return NULL;
	r->env = env;
	r->fn = fn;
	r->arg = arg;
	buf_init(&r->told, 4096);
	if (copy(r, req) == -1) {
		run_close(r);
		return NULL;
	}
	set_timer(r, r->timeout_ms);
	find = link_find(env->links, req->namespace, req->sandbox,
	    req->address, req->claim, on_link, r);
	if (find != NULL)
		r->find = find;
	return r;
}
