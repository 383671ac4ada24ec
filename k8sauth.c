/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "budget.h"
#include "error.h"
#include "k8sauth.h"
#include "kubeconfig.h"
#include "loop.h"
#include "mono.h"
#include "web.h"

enum { TOKEN_MS = 60000 };	/* a token file may be this stale */

struct k8sauth {
	struct loop *loop;
	const struct kubeconfig *kc;
	struct web_tls tls;
	char *token;
	long token_read;
	unsigned long generation;
};

/* --- a token in a file -------------------------------------------------- */

static char *
token_load(const char *path, struct error *err)
{
	char *token = malloc(LIMIT_TOKEN + 1);
	ssize_t n = -1;
	int fd;

	if (token == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) != -1) {
		n = read(fd, token, LIMIT_TOKEN + 1);
		close(fd);
	}
	while (n > 0 && n <= LIMIT_TOKEN &&
	    isspace((unsigned char)token[n - 1]))
		n--;
	if (n == -1)
		error_sys(err, path);
	else if (n == 0 || n > LIMIT_TOKEN)
		n = error_set(err, ERR_CONFIG, "%s: %s", path, n == 0 ?
		    "empty" : "longer than a token");
	if (n == -1) {
		explicit_bzero(token, LIMIT_TOKEN + 1);
		free(token);
		return NULL;
	}
	token[n] = '\0';
	return token;
}

static void
wipe(char *s)
{
	if (s != NULL)
		explicit_bzero(s, strlen(s));
	free(s);
}

/* The old one stays when there is no new one. */
static int
token_refresh(struct k8sauth *a, struct error *err)
{
	char *token;

	a->token_read = mono_ms();
	if ((token = token_load(a->kc->token_file, err)) == NULL)
		return -1;
	if (a->token == NULL || strcmp(token, a->token) != 0)
		a->generation++;
	wipe(a->token);
	a->token = token;
	return 0;
}

/* --- opening ------------------------------------------------------------ */

struct k8sauth *
k8sauth_open(struct loop *l, const struct kubeconfig *kc, struct error *err)
{
	struct k8sauth *a = calloc(1, sizeof(*a));
	int r = 0;

	if (a == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	a->loop = l;
	a->kc = kc;
	a->generation = 1;
	a->tls = (struct web_tls){ .ca = kc->ca, .cert = kc->cert,
	    .key = kc->key, .name = kc->tls_name, .insecure = kc->insecure };
	if (kc->token_file != NULL)
		r = token_refresh(a, err);
	else if (kc->token != NULL && (a->token = strdup(kc->token)) == NULL)
		r = error_set(err, ERR_SYSTEM, "out of memory");
	if (r == 0)
		return a;
	k8sauth_close(a);
	return NULL;
}

void
k8sauth_close(struct k8sauth *a)
{
	if (a == NULL)
		return;
	wipe(a->token);
	free(a);
}

const struct web_tls *
k8sauth_tls(const struct k8sauth *a)
{
	return &a->tls;
}

/* --- a request ---------------------------------------------------------- */

int
k8sauth_field(struct k8sauth *a, char **field, unsigned long *generation,
    struct error *err)
{
	struct error ignored;
	int n = 0;

	*field = NULL;
	if (a->kc->token_file != NULL && mono_ms() - a->token_read > TOKEN_MS)
		(void)token_refresh(a, &ignored);
	*generation = a->generation;
	if (a->token != NULL)
		n = asprintf(field, "Authorization: Bearer %s", a->token);
	else if (a->kc->basic != NULL)
		n = asprintf(field, "Authorization: Basic %s", a->kc->basic);
	if (n != -1)
		return 0;
	*field = NULL;
	return error_set(err, ERR_SYSTEM, "out of memory");
}

const char *const *
k8sauth_impersonate(const struct k8sauth *a)
{
	return (const char *const *)a->kc->impersonate;
}

bool
k8sauth_refused(struct k8sauth *a, unsigned long generation)
{
	struct error ignored;

	if (a->generation != generation)
		return true;
	return a->kc->token_file != NULL && token_refresh(a, &ignored) == 0;
}
