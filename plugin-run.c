/* SPDX-License-Identifier: Apache-2.0 */
/* The part of plugin that starts it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "error.h"
#include "kubeconfig.h"
#include "plugin-own.h"

extern char **environ;

/* What is ours alone: a secret, and who is told what by systemd. */
static const char *const kept[] = { "MCP_K8S_AUTH_TOKEN=", "LISTEN_PID=",
    "LISTEN_FDS=", "LISTEN_FDNAMES=", "NOTIFY_SOCKET=" };

static bool
is_kept(const char *variable, char *const *own)
{
	size_t i, len = strcspn(variable, "=") + 1;

	for (i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (strncmp(variable, kept[i], strlen(kept[i])) == 0)
			return true;
	for (; *own != NULL; own++)
		if (strncmp(variable, *own, len) == 0)
			return true;
	return false;
}

/* Ours, but what the kubeconfig sets; the strings are borrowed. */
static char **
environment(char *const *own)
{
	size_t n = 1, at = 0, i;
	char **env;

	for (i = 0; own[i] != NULL; i++)
		n++;
	for (i = 0; environ[i] != NULL; i++)
		n++;
	if ((env = calloc(n, sizeof(*env))) == NULL)
		return NULL;
	for (i = 0; environ[i] != NULL; i++)
		if (!is_kept(environ[i], own))
			env[at++] = environ[i];
	for (i = 0; own[i] != NULL; i++)
		env[at++] = own[i];
	return env;
}

/* Its own group, to be killed whole; no signal is as we have it. */
static _Noreturn void
become(const struct kubeconfig_exec *exec, char **env, const int out[2],
    const int err[2], const int told[2])
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE,
	    SIGQUIT };
	sigset_t none;
	size_t i;
	int why;

	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		(void)signal(ignored[i], SIG_DFL);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	/* 0 is /dev/null already. */
	if (dup2(out[1], 1) != -1 && dup2(err[1], 2) != -1)
		(void)execvpe(exec->command, exec->argv, env);
	why = errno;
	(void)!write(told[1], &why, sizeof(why));
	_exit(127);
}

static int
cannot(const struct kubeconfig_exec *exec, int why, struct error *err)
{
	error_set(err, ERR_CONFIG, "credential plugin %s: can't be run: %s%s%s",
	    exec->command, strerror(why), why == ENOENT && exec->hint != NULL ?
	    ": " : "", why == ENOENT && exec->hint != NULL ? exec->hint : "");
	return -1;
}

static void
close_both(const int ends[2])
{
	(void)close(ends[0]);
	(void)close(ends[1]);
}

static int
pipes_open(int pipes[3][2])
{
	int i;

	for (i = 0; i < 3; i++)
		if (pipe2(pipes[i], O_CLOEXEC) == -1) {
			while (i-- > 0)
				close_both(pipes[i]);
			return -1;
		}
	(void)fcntl(pipes[0][0], F_SETFL, O_NONBLOCK);
	(void)fcntl(pipes[1][0], F_SETFL, O_NONBLOCK);
	return 0;
}

int
plugin_start(struct plugin_run *run, const struct kubeconfig_exec *exec,
    struct error *err)
{
	char **env = environment(exec->env);
	int pipes[3][2], why = 0;
	ssize_t n;
	pid_t pid;

	if (env == NULL || pipes_open(pipes) == -1) {
		free(env);
		return cannot(exec, errno, err);
	}
	if ((pid = fork()) == 0)
		become(exec, env, pipes[0], pipes[1], pipes[2]);
	why = pid == -1 ? errno : 0;
	free(env);
	(void)close(pipes[0][1]);
	(void)close(pipes[1][1]);
	(void)close(pipes[2][1]);
	/* The end, once it runs. */
	do
		n = why == 0 ? read(pipes[2][0], &why, sizeof(why)) : 0;
	while (n == -1 && errno == EINTR);
	(void)close(pipes[2][0]);
	if (why != 0) {
		(void)close(pipes[0][0]);
		(void)close(pipes[1][0]);
		return cannot(exec, why, err);
	}
	(void)setpgid(pid, pid);
	*run = (struct plugin_run){ .pid = pid, .out = pipes[0][0],
	    .err = pipes[1][0] };
	return 0;
}
