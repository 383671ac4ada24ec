/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "duration.h"

static const struct {
	const char *name;
	double ms;
} units[] = {
	{ "ns", 1e-6 }, { "us", 1e-3 }, { "\xc2\xb5s", 1e-3 },
	{ "\xce\xbcs", 1e-3 }, { "ms", 1 }, { "s", 1e3 }, { "m", 60e3 },
	{ "h", 3600e3 },
};

/* One "1.5h" at *at; -1: it is none. */
static double
term(const char **at)
{
	static const char digits[] = "0123456789";
	const char *s = *at;
	size_t whole = strspn(s, digits), part = 0, len, i;
	char number[40];

	if (s[whole] == '.')
		part = 1 + strspn(s + whole + 1, digits);
	if (whole + part - (part > 0) == 0 || whole + part >= sizeof(number))
		return -1;
	(void)snprintf(number, sizeof(number), "%.*s", (int)(whole + part), s);
	s += whole + part;
	len = strcspn(s, "0123456789.");
	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strlen(units[i].name) == len &&
		    strncmp(s, units[i].name, len) == 0)
			break;
	if (i == sizeof(units) / sizeof(units[0]))
		return -1;
	*at = s + len;
	return strtod(number, NULL) * units[i].ms;
}

bool
duration_ms(const char *text, long *ms)
{
	bool minus = *text == '-';
	double sum = 0, t;

	text += minus || *text == '+';
	if (strcmp(text, "0") == 0) {
		*ms = 0;
		return true;
	}
	if (*text == '\0')
		return false;
	while (*text != '\0') {
		if ((t = term(&text)) < 0)
			return false;
		sum += t;
	}
	if (sum > 100.0 * 366 * 86400e3)
		return false;
	*ms = (long)(minus ? -sum : sum);
	return true;
}
