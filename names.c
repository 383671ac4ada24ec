/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "error.h"
#include "names.h"

static bool
small(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool
word(char c)
{
	return small(c) || (c >= 'A' && c <= 'Z');
}

/* A DNS label of n characters at s. */
static bool
label(const char *s, size_t n)
{
	if (n == 0 || n > 63 || !small(s[0]) || !small(s[n - 1]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!small(s[i]) && s[i] != '-')
			return false;
	return true;
}

static bool
subdomain(const char *s, size_t n)
{
	size_t part;

	if (n == 0 || n > 253)
		return false;
	for (;;) {
		const char *dot = memchr(s, '.', n);

		part = dot == NULL ? n : (size_t)(dot - s);
		if (!label(s, part))
			return false;
		if (dot == NULL)
			return true;
		s += part + 1;
		n -= part + 1;
	}
}

/* The name part of a label key, or a label value that is not empty. */
static bool
qualified(const char *s)
{
	size_t n = strlen(s);

	if (n == 0 || n > 63 || !word(s[0]) || !word(s[n - 1]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!word(s[i]) && strchr("-_.", s[i]) == NULL)
			return false;
	return true;
}

int
name_label(const char *what, const char *s, struct error *err)
{
	if (label(s, strlen(s)))
		return 0;
	return error_set(err, ERR_INPUT, "%s: '%.80s' is not a name: 1 to 63 "
	    "lower-case letters, digits and inner hyphens", what, s);
}

int
name_subdomain(const char *what, const char *s, struct error *err)
{
	if (subdomain(s, strlen(s)))
		return 0;
	return error_set(err, ERR_INPUT, "%s: '%.80s' is not a name: up to 253 "
	    "lower-case letters, digits, inner hyphens and dots", what, s);
}

int
name_label_key(const char *what, const char *s, struct error *err)
{
	const char *slash = strchr(s, '/');

	if (slash != NULL && !subdomain(s, (size_t)(slash - s)))
		return error_set(err, ERR_INPUT, "%s: the part of '%.80s' "
		    "before '/' must be a DNS subdomain", what, s);
	if (qualified(slash != NULL ? slash + 1 : s))
		return 0;
	return error_set(err, ERR_INPUT, "%s: '%.80s' is not a label key: an "
	    "optional DNS subdomain and '/', then 1 to 63 of A-Z a-z 0-9 - _ . "
	    "that begin and end with a letter or digit", what, s);
}

int
name_label_value(const char *what, const char *s, struct error *err)
{
	if (*s == '\0' || qualified(s))
		return 0;
	return error_set(err, ERR_INPUT, "%s: '%.80s' is not a label value: at "
	    "most 63 of A-Z a-z 0-9 - _ . that begin and end with a letter or "
	    "digit", what, s);
}

int
name_variable(const char *what, const char *s, struct error *err)
{
	bool ok = isalpha((unsigned char)s[0]) || s[0] == '_';

	for (size_t i = 0; ok && s[i] != '\0'; i++)
		ok = isalnum((unsigned char)s[i]) || s[i] == '_';
	if (ok)
		return 0;
	return error_set(err, ERR_INPUT, "%s: '%.80s' is not the name of a "
	    "variable: letters, digits and '_', no digit first", what, s);
}

bool
name_among(const char *s, const char *const *list)
{
	for (; *list != NULL; list++)
		if (strcmp(s, *list) == 0)
			return true;
	return false;
}
