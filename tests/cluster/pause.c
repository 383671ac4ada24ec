/* SPDX-License-Identifier: Apache-2.0 */

/* The container that holds a pod's namespaces: reaps, leaves on a signal. */

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void
down(int sig)
{
	(void)sig;
	_exit(0);
}

static void
reap(int sig)
{
	(void)sig;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		continue;
}

int
main(void)
{
	struct sigaction end = { .sa_handler = down };
	struct sigaction child = { .sa_handler = reap,
	    .sa_flags = SA_NOCLDSTOP };

	if (sigaction(SIGINT, &end, NULL) || sigaction(SIGTERM, &end, NULL) ||
	    sigaction(SIGCHLD, &child, NULL))
		return 1;
	for (;;)
		pause();
}
