/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <mbedtls/constant_time.h>

#include "auth.h"
#include "base64.h"
#include "budget.h"
#include "buf.h"
#include "config.h"
#include "digest.h"
#include "error.h"
#include "file.h"
#include "http.h"
#include "json.h"
#include "names.h"

enum { ROWS_MAX = 10000 };

/* --- the peer ----------------------------------------------------------- */

static void
peer_ipv4(struct peer *p, const struct in_addr *at)
{
	if (ntohl(at->s_addr) >> 24 == 127)
		p->kind = PEER_LOOPBACK;
	(void)inet_ntop(AF_INET, at, p->name, sizeof(p->name));
}

static void
peer_ipv6(struct peer *p, const struct in6_addr *at)
{
	struct in_addr v4;

	if (IN6_IS_ADDR_V4MAPPED(at)) {
		memcpy(&v4, at->s6_addr + 12, sizeof(v4));
		peer_ipv4(p, &v4);
		return;
	}
	if (IN6_IS_ADDR_LOOPBACK(at))
		p->kind = PEER_LOOPBACK;
	(void)inet_ntop(AF_INET6, at, p->name, sizeof(p->name));
}

static void
peer_unix(struct peer *p, int fd)
{
	struct ucred cred = { .pid = 0 };
	socklen_t len = sizeof(cred);

	p->kind = PEER_UNIX;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == -1) {
		p->kind = PEER_OTHER;
		return;
	}
	p->owner = cred.uid == 0 || cred.uid == geteuid();
	p->uid = cred.uid;
	p->gid = cred.gid;
	(void)snprintf(p->name, sizeof(p->name), "uid-%u", cred.uid);
}

void
auth_peer(struct peer *p, int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_storage room;
	} at = { .any = { .sa_family = AF_UNSPEC } };
	socklen_t len = sizeof(at);
	int type;
	socklen_t size = sizeof(type);

	*p = (struct peer){ .kind = PEER_OTHER, .name = "unknown" };
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == -1) {
		p->kind = PEER_PIPE;
		(void)snprintf(p->name, sizeof(p->name), "stdin");
		return;
	}
	if (getsockname(fd, &at.any, &len) == 0 &&
	    at.any.sa_family == AF_UNIX) {
		peer_unix(p, fd);
		return;
	}
	len = sizeof(at);
	if (getpeername(fd, &at.any, &len) == -1)
		return;
	if (at.any.sa_family == AF_INET)
		peer_ipv4(p, &at.v4.sin_addr);
	else if (at.any.sa_family == AF_INET6)
		peer_ipv6(p, &at.v6.sin6_addr);
}

/* --- secrets ------------------------------------------------------------ */

static bool
same(const char *text, const unsigned char digest[DIGEST_SIZE])
{
	unsigned char own[DIGEST_SIZE];

	digest_raw(text, strlen(text), own);
	return mbedtls_ct_memcmp(own, digest, DIGEST_SIZE) == 0;
}

static int
row_secret(struct auth_row *r, const char *word)
{
	unsigned byte;

	if (strncmp(word, "cert:", 5) == 0) {
		r->kind = AUTH_CERTIFICATE;
		r->certificate = word + 5;
		return word[5] == '\0' ? -1 : 0;
	}
	if (strncmp(word, "uid:", 4) == 0 || strncmp(word, "gid:", 4) == 0) {
		r->kind = *word == 'u' ? AUTH_UID : AUTH_GID;
		word += 4;
		r->id = (unsigned)strtoul(word, NULL, 10);
		return *word != '\0' && strlen(word) <= 9 &&
		    word[strspn(word, "0123456789")] == '\0' ? 0 : -1;
	}
	if (strncmp(word, "sha256:", 7) != 0) {
		digest_raw(word, strlen(word), r->digest);
		return strlen(word) < 16 ? -1 : 0;
	}
	word += 7;
	if (strlen(word) != 2 * DIGEST_SIZE ||
	    strspn(word, "0123456789abcdefABCDEF") != 2 * DIGEST_SIZE)
		return -1;
	for (size_t i = 0; i < DIGEST_SIZE; i++) {
		if (sscanf(word + 2 * i, "%2x", &byte) != 1)
			return -1;
		r->digest[i] = (unsigned char)byte;
	}
	return 0;
}

static int
row_parse(struct auth_row *r, char *line, unsigned number, struct error *err)
{
	char *rest = NULL, *word = strtok_r(line, " \t\r", &rest);

	r->name = word;
	if (name_label_value("name", word, err) == -1)
		return error_wrap(err, "line %u", number);
	if ((word = strtok_r(NULL, " \t\r", &rest)) == NULL ||
	    row_secret(r, word) == -1)
		return error_set(err, ERR_CONFIG, "line %u: after the name "
		    "comes a token of at least 16 characters, sha256: and 64 "
		    "digits, cert: and a certificate's name, or uid: or gid: "
		    "and a number", number);
	while ((word = strtok_r(NULL, " \t\r", &rest)) != NULL) {
		if (strncmp(word, "session=", 8) == 0)
			r->session = word + 8;
		else if (strncmp(word, "namespaces=", 11) == 0)
			r->namespaces = word + 11;
		else
			return error_set(err, ERR_CONFIG, "line %u: session= "
			    "or namespaces= is expected", number);
	}
	if (r->session != NULL && strcmp(r->session, "*") != 0 &&
	    (*r->session == '\0' ||
	    name_label_value("session", r->session, err) == -1))
		return error_set(err, ERR_CONFIG, "line %u: session= needs a "
		    "label's value or *", number);
	return 0;
}

int
auth_parse(struct auth *a, char *text, struct error *err)
{
	unsigned number = 0;
	struct auth_row *rows;
	char *next;

	for (; text != NULL; text = next) {
		if ((next = strchr(text, '\n')) != NULL)
			*next++ = '\0';
		number++;
		text += strspn(text, " \t\r");
		if (*text == '\0' || *text == '#')
			continue;
		if (a->n == ROWS_MAX)
			return error_set(err, ERR_CONFIG, "more than %d "
			    "tokens", ROWS_MAX);
		rows = realloc(a->rows, (a->n + 1) * sizeof(*rows));
		if (rows == NULL)
			return error_set(err, ERR_SYSTEM, "out of memory");
		a->rows = rows;
		rows[a->n] = (struct auth_row){ .name = NULL };
		if (row_parse(&rows[a->n], text, number, err) == -1) {
			err->code = ERR_CONFIG;
			return -1;
		}
		a->n++;
	}
	if (a->n == 0)
		return error_set(err, ERR_CONFIG, "it has no token in it");
	return 0;
}

/* --- opening ------------------------------------------------------------ */

/* The document says of itself where it is to be found. */
static int
metadata_check(struct auth *a, struct error *err)
{
	struct json_doc *doc = json_parse(a->metadata, a->metadata_len, err);
	char resource[256] = "";
	size_t host;

	if (doc == NULL)
		return -1;
	if (json_count(json_get(json_root(doc), "authorization_servers")) < 1 ||
	    !json_str(json_get(json_root(doc), "resource"), resource,
	    sizeof(resource)) || strncmp(resource, "https://", 8) != 0 ||
	    strpbrk(resource, "\"\\?# \t\r\n") != NULL) {
		json_free(doc);
		return error_set(err, ERR_CONFIG, "it needs a resource, an "
		    "https:// URL, and authorization_servers (RFC 9728)");
	}
	json_free(doc);
	host = 8 + strcspn(resource + 8, "/");
	(void)snprintf(a->challenge, sizeof(a->challenge),
	    "WWW-Authenticate: Bearer realm=\"mcp-sandbox\", resource_metadata="
	    "\"%.*s/.well-known/oauth-protected-resource%s\"\r\n", (int)host,
	    resource, strcmp(resource + host, "/") == 0 ? "" : resource + host);
	return 0;
}

int
auth_open(struct auth *a, const char *secret, const char *file,
    const char *metadata, struct error *err)
{
	size_t len;

	*a = (struct auth){ .shared = secret != NULL };
	(void)snprintf(a->challenge, sizeof(a->challenge),
	    "WWW-Authenticate: Bearer realm=\"mcp-sandbox\"\r\n");
	if (secret != NULL)
		digest_raw(secret, strlen(secret), a->digest);
	if (file != NULL) {
		if ((a->text = file_read(NULL, file, &len, err)) == NULL)
			return -1;
		if (auth_parse(a, a->text, err) == -1)
			return error_wrap(err, "%s", file);
	}
	if (metadata != NULL) {
		a->metadata = file_read(NULL, metadata, &a->metadata_len, err);
		if (a->metadata == NULL)
			return -1;
		if (metadata_check(a, err) == -1) {
			err->code = ERR_CONFIG;
			return error_wrap(err, "%s", metadata);
		}
	}
	return 0;
}

void
auth_close(struct auth *a)
{
	free(a->rows);
	free(a->text);
	free(a->metadata);
	*a = (struct auth){ .rows = NULL };
}

bool
auth_secret(const struct auth *a)
{
	return a->shared || a->n > 0 || a->review != NULL || a->certificates;
}

bool
auth_names_certificates(const struct auth *a)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->rows[i].kind == AUTH_CERTIFICATE)
			return true;
	return false;
}

/* --- a request ---------------------------------------------------------- */

const char *
auth_bearer(const struct http *h)
{
	const char *v = http_field(h, "Authorization");

	if (v == NULL || http_count(h, "Authorization") != 1 ||
	    strncasecmp(v, "Bearer", 6) != 0 || v[6] != ' ')
		return NULL;
	v += 6;
	v += strspn(v, " ");
	return *v == '\0' ? NULL : v;
}

/* base64url without padding (RFC 7515), which is all that differs. */
static bool
part_decode(const char *part, size_t len, struct buf *out)
{
	struct base64 b = { .n = 0 };
	struct error err;
	char c;

	for (size_t i = 0; i < len; i++) {
		c = part[i] == '-' ? '+' : part[i] == '_' ? '/' : part[i];
		if (base64_decode(&b, &c, 1, out, &err) == -1)
			return false;
	}
	return base64_decode(&b, "==", (4 - len % 4) % 4 % 3, out,
	    &err) == 0 && base64_decode_end(&b, &err) == 0 && buf_ok(out);
}

long
auth_ends(const char *token)
{
	const char *part = strchr(token, '.');
	struct json_doc *doc = NULL;
	struct error err;
	struct buf text;
	double ends = 0;

	if (part == NULL || strchr(++part, '.') == NULL)
		return 0;
	buf_init(&text, LIMIT_TOKEN);
	if (part_decode(part, strcspn(part, "."), &text) && text.len > 0)
		doc = json_parse_lax(text.data, text.len, &err);
	if (!json_double(json_get(json_root(doc), "exp"), &ends) ||
	    !(ends >= 1 && ends < 1e15))
		ends = 0;
	json_free(doc);
	buf_wipe(&text);
	return (long)ends;
}

static void
called(struct caller *who, const char *name, const char *session)
{
	(void)snprintf(who->name, sizeof(who->name), "%s", name);
	(void)snprintf(who->session, sizeof(who->session), "%s", session);
}

static void
by_row(const struct auth_row *r, struct caller *who)
{
	who->chooses = r->session != NULL && strcmp(r->session, "*") == 0;
	called(who, r->name, r->session == NULL || who->chooses ? r->name :
	    r->session);
	who->namespaces = r->namespaces;
}

/* All rows are looked at, so that the time tells nothing. */
static bool
by_token(const struct auth *a, const char *token, struct caller *who)
{
	unsigned char own[DIGEST_SIZE];
	const struct auth_row *found = NULL;

	digest_raw(token, strlen(token), own);
	for (size_t i = 0; i < a->n; i++)
		if (a->rows[i].kind == AUTH_TOKEN &&
		    mbedtls_ct_memcmp(own, a->rows[i].digest, DIGEST_SIZE) == 0)
			found = &a->rows[i];
	if (found != NULL)
		by_row(found, who);
	return found != NULL;
}

/* A user's name has colons, which no label may: its hash stands for it. */
static void
user_called(struct caller *who, const char *kind, const char *user)
{
	unsigned char digest[DIGEST_SIZE];
	char whole[320], *at = who->session;

	(void)snprintf(whole, sizeof(whole), "%s%s", kind, user);
	digest_raw(whole, strlen(whole), digest);
	(void)snprintf(who->name, sizeof(who->name), "%s", user);
	for (char *p = who->name; *p != '\0'; p++)
		if (*p <= ' ' || *p > '~')
			*p = '?';
	at += snprintf(at, 8, "user-");
	digest_text(digest, 16, at);
}

static enum auth_answer
by_certificate(const struct auth *a, const struct peer *p, struct caller *who)
{
	bool listed = false;

	/* Not the session of a user of the cluster of the same name. */
	user_called(who, "certificate:", p->certificate);
	for (size_t i = 0; i < a->n; i++) {
		if (a->rows[i].kind != AUTH_CERTIFICATE)
			continue;
		listed = true;
		if (strcmp(a->rows[i].certificate, p->certificate) == 0) {
			by_row(&a->rows[i], who);
			return AUTH_YES;
		}
	}
	return listed ? AUTH_FORBIDDEN : AUTH_YES;
}

static bool
by_secret(const struct auth *a, const struct http *h, struct caller *who)
{
	const char *v = http_field(h, "X-MCP-AUTH");

	if (!a->shared || v == NULL || http_count(h, "X-MCP-AUTH") != 1 ||
	    !same(v, a->digest))
		return false;
	called(who, "x-mcp-auth", "shared");
	who->chooses = true;
	return true;
}

/* The mode of the socket has let it in; a line may say more about it. */
static void
by_user(const struct auth *a, const struct peer *p, struct caller *who)
{
	const struct auth_row *found = NULL;

	for (size_t i = 0; i < a->n; i++) {
		const struct auth_row *r = &a->rows[i];

		if (r->kind == AUTH_UID && r->id == p->uid) {
			found = r;
			break;
		}
		if (r->kind == AUTH_GID && r->id == p->gid && found == NULL)
			found = r;
	}
	if (found != NULL) {
		by_row(found, who);
		return;
	}
	called(who, p->name, p->name);
	who->chooses = p->owner;
}

static enum auth_answer
by_peer(const struct auth *a, const struct peer *p, struct caller *who)
{
	if (p->kind == PEER_UNIX) {
		by_user(a, p, who);
		return AUTH_YES;
	}
	if (auth_secret(a))
		return AUTH_NO;
	if (p->kind == PEER_OTHER)
		return AUTH_FORBIDDEN;
	called(who, p->name, "anonymous");
	who->chooses = true;
	return AUTH_YES;
}

enum auth_answer
auth_check(const struct auth *a, const struct peer *p, const struct http *h,
    struct caller *who)
{
	const char *token = auth_bearer(h);
	enum auth_answer answer;

	*who = (struct caller){ .namespaces = NULL };
	if (by_secret(a, h, who))
		answer = AUTH_YES;
	else if (token != NULL && a->n > 0 && by_token(a, token, who))
		answer = AUTH_YES;
	else if (token != NULL && a->review != NULL &&
	    strlen(token) <= LIMIT_TOKEN)
		answer = AUTH_REVIEW;
	else if (auth_secret(a) && (http_count(h, "Authorization") > 0 ||
	    http_count(h, "X-MCP-AUTH") > 0))
		answer = AUTH_NO;
	else if (a->certificates && p->certificate[0] != '\0')
		answer = by_certificate(a, p, who);
	else
		answer = by_peer(a, p, who);
	if (a->session != NULL) {
		(void)snprintf(who->session, sizeof(who->session), "%s",
		    a->session);
		who->chooses = false;
	}
	return answer;
}

/* Is v, a user's or a group's name, one of the list? */
static bool
may_call(const char *list, struct json v)
{
	char name[256], one[256];

	if (!json_str(v, name, sizeof(name)) || *name == '\0')
		return false;
	while (config_item(&list, one, sizeof(one)))
		if (strcmp(one, name) == 0 || strcmp(one, "all") == 0)
			return true;
	return false;
}

enum auth_answer
auth_reviewed(const struct auth *a, const char *json, size_t len,
    struct caller *who, struct error *err)
{
	struct json_doc *doc = json_parse_lax(json, len, err);
	struct json status = json_get(json_root(doc), "status"), group;
	struct json user = json_path(status, "user.username");
	char name[sizeof(who->name)] = "";
	bool good = false, listed;

	*who = (struct caller){ .namespaces = NULL };
	if (doc == NULL)
		return AUTH_NO;
	(void)json_bool(json_get(status, "authenticated"), &good);
	good = good && json_str(user, name, sizeof(name)) && *name != '\0';
	listed = may_call(a->review, user);
	for (group = json_first(json_path(status, "user.groups"));
	    json_type(group) != JSON_NONE; group = json_next(group))
		listed |= may_call(a->review, group);
	json_free(doc);
	if (!good) {
		error_set(err, ERR_DENIED, "the cluster does not know this "
		    "token");
		return AUTH_NO;
	}
	user_called(who, "", name);
	if (a->session != NULL)
		(void)snprintf(who->session, sizeof(who->session), "%s",
		    a->session);
	if (listed)
		return AUTH_YES;
	error_set(err, ERR_DENIED, "%s is not one of those who may call", name);
	return AUTH_FORBIDDEN;
}

int
auth_session(struct caller *who, const char *id)
{
	struct error err;

	who->misnamed = false;
	if (id == NULL || *id == '\0')
		return 0;
	if (!who->chooses)
		return strcmp(id, who->session) == 0 ? 0 : 403;
	who->misnamed = name_label_value("X-Session-ID", id, &err) == -1;
	if (!who->misnamed)
		(void)snprintf(who->session, sizeof(who->session), "%s", id);
	return 0;
}
