/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "jobwire.h"

enum { ITEMS_MAX = 256 };

/* One item of the list, its blanks taken off; false at the end. */
static bool
item(const char **list, char *out, size_t size)
{
	const char *at = *list;
	size_t n;

	while (at != NULL && *at != '\0') {
		at += strspn(at, " \t\n,");
		n = strcspn(at, ",");
		*list = at + n;
		while (n > 0 && isspace((unsigned char)at[n - 1]))
			n--;
		if (n > 0 && n < size) {
			memcpy(out, at, n);
			out[n] = '\0';
			return true;
		}
		at = *list;
	}
	return false;
}

static void
trim(char *s)
{
	size_t n = strlen(s), at = strspn(s, " \t\r\n\v\f");

	while (n > at && isspace((unsigned char)s[n - 1]))
		n--;
	memmove(s, s + at, n - at);
	s[n - at] = '\0';
}

/* --- as it is written ---------------------------------------------------- */

/* A short name completed as Docker does: registry, library, latest. */
static bool
complete(const char *ref, char *out, size_t size)
{
	const char *slash = strchr(ref, '/'), *tail = strrchr(ref, '/');
	size_t first = slash == NULL ? 0 : (size_t)(slash - ref);
	bool registry = slash != NULL && (memchr(ref, '.', first) != NULL ||
	    memchr(ref, ':', first) != NULL || (first == 9 &&
	    strncmp(ref, "localhost", 9) == 0));
	int n;

	tail = tail == NULL ? ref : tail + 1;
	n = snprintf(out, size, "%s%s%s%s", registry ? "" : "docker.io/",
	    !registry && slash == NULL ? "library/" : "", ref,
	    strpbrk(tail, ":@") == NULL ? ":latest" : "");
	return *tail != '\0' && n > 0 && (size_t)n < size;
}

static bool
has_glob(const char *s)
{
	return strpbrk(s, "*?") != NULL;
}

/* What a reference may be made of; a wish is never a pattern. */
static bool
plain(const char *s)
{
	for (; *s != '\0'; s++)
		if (!isalnum((unsigned char)*s) &&
		    strchr("._-/:@+", *s) == NULL)
			return false;
	return true;
}

static int
strict(const char *list, const char *wish, char *out, size_t size)
{
	char one[JOB_REF], full[JOB_REF + 32], want[JOB_REF + 32];

	if (!plain(wish) || !complete(wish, want, sizeof(want)))
		return -1;
	while (item(&list, one, sizeof(one))) {
		if (!complete(one, full, sizeof(full)))
			continue;
		if (has_glob(full) ? !jobwire_glob(full, want) :
		    strcmp(full, want) != 0)
			continue;
		(void)snprintf(out, size, "%s", has_glob(full) ? wish : one);
		return 0;
	}
	return -1;
}

/* --- the original's way -------------------------------------------------- */

struct names {
	char base[JOB_REF];	/* "" is a name like any other */
	char tagged[JOB_REF];	/* "": none */
};

static void
names_of(const char *ref, struct names *n)
{
	const char *tail = strrchr(ref, '/');
	bool digest;

	tail = tail == NULL ? ref : tail + 1;
	(void)snprintf(n->base, sizeof(n->base), "%s", tail);
	trim(n->base);
	for (char *c = n->base; *c != '\0'; c++)
		*c = (char)tolower((unsigned char)*c);
	(void)snprintf(n->tagged, sizeof(n->tagged), "%s", n->base);
	digest = strchr(n->base, '@') != NULL;
	n->base[strcspn(n->base, "@")] = '\0';
	n->base[strcspn(n->base, ":")] = '\0';
	trim(n->base);
	if (digest || strchr(n->tagged, ':') == NULL)
		n->tagged[0] = '\0';
}

/* A later item of the same tag beats an earlier; of a base the first counts. */
static int
loose(const char *list, const char *wish, char *out, size_t size)
{
	char one[JOB_REF], found[JOB_REF] = "", first[JOB_REF] = "";
	struct names want, have;

	names_of(wish, &want);
	while (item(&list, one, sizeof(one))) {
		names_of(one, &have);
		if (want.tagged[0] != '\0' &&
		    strcmp(want.tagged, have.tagged) == 0)
			(void)snprintf(found, sizeof(found), "%s", one);
		if (first[0] == '\0' && strcmp(want.base, have.base) == 0)
			(void)snprintf(first, sizeof(first), "%s", one);
	}
	if (found[0] == '\0' && first[0] == '\0')
		return -1;
	(void)snprintf(out, size, "%s", found[0] != '\0' ? found : first);
	return 0;
}

/* How many items of the list have this base. */
static size_t
count(const char *list, const char *base)
{
	char one[JOB_REF];
	struct names n;
	size_t all = 0;

	while (item(&list, one, sizeof(one))) {
		names_of(one, &n);
		all += strcmp(n.base, base) == 0;
	}
	return all;
}

static int
compare(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

static void
loose_names(const char *list, struct buf *out)
{
	char *all[ITEMS_MAX], one[JOB_REF];
	const char *at = list;
	struct names n;
	size_t k = 0;

	while (k < ITEMS_MAX && item(&at, one, sizeof(one))) {
		names_of(one, &n);
		all[k] = strdup(count(list, n.base) == 1 ? n.base : n.tagged);
		k += all[k] != NULL;
	}
	qsort(all, k, sizeof(*all), compare);
	for (size_t i = 0; i < k; i++) {
		if (i == 0 || strcmp(all[i], all[i - 1]) != 0)
			buf_printf(out, "%s%s", i > 0 ? ", " : "", all[i]);
	}
	for (size_t i = 0; i < k; i++)
		free(all[i]);
}

int
job_image(const char *list, bool basename, const char *wish, char *out,
    size_t size)
{
	char text[JOB_REF];

	if (strlen(wish) >= sizeof(text))
		return -1;
	(void)snprintf(text, sizeof(text), "%s", wish);
	trim(text);
	return basename ? loose(list, text, out, size) :
	    strict(list, text, out, size);
}

void
job_image_names(const char *list, bool basename, struct buf *out)
{
	char one[JOB_REF];
	bool any = false;

	if (basename && list != NULL) {
		loose_names(list, out);
		return;
	}
	while (item(&list, one, sizeof(one))) {
		buf_printf(out, "%s%s", any ? ", " : "", one);
		any = true;
	}
}
