/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "budget.h"
#include "buf.h"
#include "error.h"
#include "execcred.h"
#include "json.h"
#include "kubeconfig.h"
#include "pem.h"

static void
wipe(char *s)
{
	if (s != NULL)
		explicit_bzero(s, strlen(s));
	free(s);
}

void
execcred_free(struct execcred *c)
{
	wipe(c->token);
	wipe(c->cert);
	wipe(c->key);
	*c = (struct execcred){ .token = NULL };
}

/* Exactly n digits at *s, which goes on behind them; -1: there are fewer. */
static int
digits(const char **s, int n)
{
	int value = 0;

	for (; n > 0; n--, ++*s) {
		if (!isdigit((unsigned char)**s))
			return -1;
		value = 10 * value + (**s - '0');
	}
	return value;
}

static bool
skip(const char **s, const char *any)
{
	if (**s == '\0' || strchr(any, **s) == NULL)
		return false;
	++*s;
	return true;
}

/* "Z" or "+hh:mm" to the end, in seconds. */
static bool
offset(const char *s, long *seconds)
{
	long sign = *s == '-' ? -1 : 1;
	int h, m;

	*seconds = 0;
	if (strcasecmp(s, "Z") == 0)
		return true;
	if (!skip(&s, "+-") || (h = digits(&s, 2)) == -1 || !skip(&s, ":") ||
	    (m = digits(&s, 2)) == -1 || *s != '\0' || h > 23 || m > 59)
		return false;
	*seconds = sign * (h * 3600L + m * 60L);
	return true;
}

long long
execcred_time(const char *s)
{
	struct tm tm = { .tm_isdst = 0 };
	long away;

	if ((tm.tm_year = digits(&s, 4)) == -1 || !skip(&s, "-") ||
	    (tm.tm_mon = digits(&s, 2)) == -1 || !skip(&s, "-") ||
	    (tm.tm_mday = digits(&s, 2)) == -1 || !skip(&s, "Tt ") ||
	    (tm.tm_hour = digits(&s, 2)) == -1 || !skip(&s, ":") ||
	    (tm.tm_min = digits(&s, 2)) == -1 || !skip(&s, ":") ||
	    (tm.tm_sec = digits(&s, 2)) == -1)
		return -1;
	if (skip(&s, "."))
		while (isdigit((unsigned char)*s))
			s++;
	if (!offset(s, &away) || tm.tm_year < 1970 || tm.tm_mon < 1 ||
	    tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_mday > 31 ||
	    tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 60)
		return -1;
	tm.tm_year -= 1900;
	tm.tm_mon--;
	return (long long)timegm(&tm) - away;
}

/* A string of the status; *to stays NULL when it is absent or empty. */
static int
text_take(struct json status, const char *key, char **to, struct error *err)
{
	struct json v = json_get(status, key);
	struct buf out;

	if (json_type(v) == JSON_NONE || json_type(v) == JSON_NULL)
		return 0;
	buf_init(&out, LIMIT_PLUGIN_OUTPUT);
	if (json_type(v) != JSON_STRING || !json_text(v, &out) ||
	    !buf_ok(&out) ||
	    (out.len > 0 && memchr(out.data, '\0', out.len) != NULL)) {
		buf_wipe(&out);
		return error_set(err, ERR_CONFIG, "status.%s is no text", key);
	}
	if (out.len == 0)
		buf_free(&out);
	else
		*to = out.data;
	return 0;
}

static int
pem_take(struct json status, const char *key, enum pem_kind kind, char **to,
    struct error *err)
{
	if (text_take(status, key, to, err) == -1)
		return -1;
	if (*to != NULL && pem_check(*to, strlen(*to), kind, err) == -1)
		return error_wrap(err, "status.%s", key);
	return 0;
}

static int
expiry_take(struct execcred *c, struct json status, struct error *err)
{
	char *text = NULL;

	if (text_take(status, "expirationTimestamp", &text, err) == -1)
		return -1;
	if (text == NULL)
		return 0;
	c->expires = execcred_time(text);
	free(text);
	if (c->expires != -1)
		return 0;
	return error_set(err, ERR_CONFIG, "status.expirationTimestamp is no "
	    "time of RFC 3339");
}

static int
status_take(struct execcred *c, struct json status, struct error *err)
{
	if (text_take(status, "token", &c->token, err) == -1 ||
	    pem_take(status, "clientCertificateData", PEM_CERT, &c->cert,
	    err) == -1 ||
	    pem_take(status, "clientKeyData", PEM_KEY, &c->key, err) == -1 ||
	    expiry_take(c, status, err) == -1)
		return -1;
	if (c->token != NULL && kubeconfig_token(c->token, err) == -1)
		return error_wrap(err, "status.token");
	if ((c->cert == NULL) != (c->key == NULL))
		return error_set(err, ERR_CONFIG, "clientCertificateData and "
		    "clientKeyData belong together, but there is only one");
	if (c->token == NULL && c->cert == NULL)
		return error_set(err, ERR_CONFIG, "its status has neither a "
		    "token nor a client certificate");
	return 0;
}

static int
root_take(struct execcred *c, struct json root, const char *version,
    struct error *err)
{
	char said[80] = "";

	if (!json_is(json_get(root, "kind"), "ExecCredential"))
		return error_set(err, ERR_CONFIG, "its output is no "
		    "ExecCredential");
	(void)json_str(json_get(root, "apiVersion"), said, sizeof(said));
	if (strcmp(said, version) != 0)
		return error_set(err, ERR_CONFIG, "asked for apiVersion %s, "
		    "it printed %s", version, said[0] != '\0' ? said : "none");
	return status_take(c, json_get(root, "status"), err);
}

int
execcred_parse(struct execcred *c, const char *text, size_t len,
    const char *version, struct error *err)
{
	struct json_doc *doc = json_parse_lax(text, len, err);
	int r;

	*c = (struct execcred){ .token = NULL };
	if (doc == NULL) {
		err->code = ERR_CONFIG;
		return error_wrap(err, "its output is not JSON");
	}
	r = root_take(c, json_root(doc), version, err);
	json_free(doc);
	if (r == -1)
		execcred_free(c);
	return r;
}
