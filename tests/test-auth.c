/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../auth.h"
#include "../error.h"
#include "../http.h"
#include "suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char file[] =
	"# who may call\n"
	"\n"
	"alice  token-of-alice-0123\n"
	"bob\ttoken-of-bob-01234 session=team namespaces=a,b\r\n"
	"  dave token-of-dave-0123 session=*\n";
static const char with_certificates[] =
	"alice cert:spiffe://corp/alice namespaces=a\n"
	"bob token-of-bob-01234\n";

static struct auth auth;
static struct http http;
static char *text;

static void
set_up(void)
{
	struct error err;

	ck_assert_int_eq(auth_open(&auth, NULL, NULL, NULL, &err), 0);
	text = strdup(file);
	http_init(&http, 4096, 0);
}

static void
tear_down(void)
{
	auth_close(&auth);
	free(text);
	http_free(&http);
}

static void
rows(void)
{
	struct error err;

	ck_assert_int_eq(auth_parse(&auth, text, &err), 0);
}

static void
request(const char *fields)
{
	struct http_piece piece;
	char all[1024];
	const char *p = all;
	int n = snprintf(all, sizeof(all), "POST /mcp HTTP/1.1\r\nHost: a\r\n"
	    "%s\r\n", fields);

	http_next(&http);
	ck_assert_int_eq(http_feed(&http, &p, all + n, &piece), HTTP_HEAD);
}

enum { PIPE, UNIX, OWNER, LOOP, FAR };

static const struct peer peers[] = {
	{ PEER_PIPE, false, "stdin" }, { PEER_UNIX, false, "uid-7" },
	{ PEER_UNIX, true, "uid-0" }, { PEER_LOOPBACK, false, "127.0.0.1" },
	{ PEER_OTHER, false, "192.0.2.1" },
};

enum { NOTHING = 0, SECRET = 1, ROWS = 2, REVIEW = 4, FIXED = 8 };

static const struct {
	int set, peer;
	const char *fields;
	enum auth_answer answer;
	const char *name, *session;
	bool chooses;
} cases[] = {
	{ NOTHING, LOOP, "", AUTH_YES, "127.0.0.1", "anonymous", true },
	{ NOTHING, PIPE, "", AUTH_YES, "stdin", "anonymous", true },
	{ NOTHING, UNIX, "", AUTH_YES, "uid-7", "uid-7", false },
	{ NOTHING, OWNER, "", AUTH_YES, "uid-0", "uid-0", true },
	{ NOTHING, FAR, "", AUTH_FORBIDDEN, "", "", false },
	{ NOTHING, LOOP, "Authorization: Bearer x\r\n", AUTH_YES, "127.0.0.1",
	    "anonymous", true },
	{ FIXED, LOOP, "", AUTH_YES, "127.0.0.1", "ours", false },
	{ FIXED, UNIX, "", AUTH_YES, "uid-7", "ours", false },
	{ SECRET, LOOP, "", AUTH_NO, "", "", false },
	{ SECRET, FAR, "", AUTH_NO, "", "", false },
	{ SECRET, FAR, "X-MCP-AUTH: s3cret\r\n", AUTH_YES, "x-mcp-auth",
	    "shared", true },
	{ SECRET, FAR, "x-mcp-auth:s3cret \r\n", AUTH_YES, "x-mcp-auth",
	    "shared", true },
	{ SECRET, FAR, "X-MCP-AUTH: s3cre\r\n", AUTH_NO, "", "", false },
	{ SECRET, FAR, "X-MCP-AUTH: Bearer s3cret\r\n", AUTH_NO, "", "",
	    false },
	{ SECRET, FAR, "X-MCP-AUTH: s3cret\r\nX-MCP-AUTH: s3cret\r\n", AUTH_NO,
	    "", "", false },
	{ SECRET, FAR, "Authorization: Bearer s3cret\r\n", AUTH_NO, "", "",
	    false },
	{ SECRET, UNIX, "", AUTH_YES, "uid-7", "uid-7", false },
	{ SECRET, UNIX, "X-MCP-AUTH: wrong\r\n", AUTH_NO, "", "", false },
	{ ROWS, LOOP, "", AUTH_NO, "", "", false },
	{ ROWS, FAR, "Authorization: Bearer token-of-alice-0123\r\n",
	    AUTH_YES, "alice", "alice", false },
	{ ROWS, FAR, "authorization: bearer   token-of-alice-0123\r\n",
	    AUTH_YES, "alice", "alice", false },
	{ ROWS, UNIX, "Authorization: Bearer token-of-alice-0123\r\n",
	    AUTH_YES, "alice", "alice", false },
	{ ROWS, FAR, "Authorization: Bearer token-of-bob-01234\r\n", AUTH_YES,
	    "bob", "team", false },
	{ ROWS, FAR, "Authorization: Bearer token-of-dave-0123\r\n", AUTH_YES,
	    "dave", "dave", true },
	{ ROWS, FAR, "Authorization: Basic token-of-alice-0123\r\n", AUTH_NO,
	    "", "", false },
	{ ROWS, FAR, "Authorization: Bearer\r\n", AUTH_NO, "", "", false },
	{ ROWS, FAR, "Authorization: Bearertoken-of-alice-0123\r\n", AUTH_NO,
	    "", "", false },
	{ ROWS, FAR, "Authorization: Bearer token-of-alice-0123\r\n"
	    "Authorization: Bearer token-of-alice-0123\r\n", AUTH_NO, "", "",
	    false },
	{ ROWS | REVIEW, FAR, "Authorization: Bearer eyJ\r\n", AUTH_REVIEW, "",
	    "", false },
	{ REVIEW, FAR, "", AUTH_NO, "", "", false },
	{ REVIEW, LOOP, "", AUTH_NO, "", "", false },
};

static const struct {
	unsigned uid, gid;
	const char *name, *session, *namespaces;
	bool chooses;
} users[] = {
	{ 1000, 100, "alice", "alice", "a", false },
	{ 1001, 100, "staff", "staff", "b,c", true },
	{ 1001, 101, "uid-1001", "uid-1001", NULL, false },
	{ 100, 1000, "uid-100", "uid-100", NULL, false },
};

START_TEST(a_user_and_a_group_have_lines)
{
	struct peer p = { .kind = PEER_UNIX, .uid = users[_i].uid,
	    .gid = users[_i].gid };
	struct caller who;

	(void)snprintf(p.name, sizeof(p.name), "uid-%u", p.uid);
	free(text);
	text = strdup("staff gid:100 session=* namespaces=b,c\n"
	    "alice uid:1000 namespaces=a\n");
	rows();
	request("");
	ck_assert_int_eq(auth_check(&auth, &p, &http, &who), AUTH_YES);
	ck_assert_str_eq(who.name, users[_i].name);
	ck_assert_str_eq(who.session, users[_i].session);
	ck_assert_pstr_eq(who.namespaces, users[_i].namespaces);
	ck_assert_int_eq(who.chooses, users[_i].chooses);
	/* A token is none of these. */
	request("Authorization: Bearer uid:1000\r\n");
	ck_assert_int_eq(auth_check(&auth, &p, &http, &who), AUTH_NO);
}
END_TEST

/* {"exp":1700000000} and so on, between any two other parts. */
static const struct {
	const char *token;
	long ends;
} jwts[] = {
	{ "a.eyJleHAiOjE3MDAwMDAwMDB9.b", 1700000000 },
	{ "a.eyJzdWIiOiJ4IiwiZXhwIjoxNzAwMDAwMDAwLjV9.b", 1700000000 },
	{ "a.eyJ4IjoiPz8_Pj4-IiwiZXhwIjo5fQ.b", 9 },
	{ "a.eyJleHAiOjB9.b", 0 }, { "a.eyJleHAiOi0xfQ.b", 0 },
	{ "a.eyJleHAiOiIxNzAwMDAwMDAwIn0.b", 0 },
	{ "a.eyJleHAiOjFlOTl9.b", 0 },
	{ "a.e30.b", 0 }, { "a..b", 0 }, { "a.!.b", 0 }, { "a.e3.b", 0 },
	{ "a.eyJleHAiOjE3MDAwMDAwMDB9", 0 }, { "", 0 }, { ".", 0 }, { "..", 0 },
	{ "kJ8x-opaque_token", 0 },
};

START_TEST(knows_when_a_token_ends)
{
	char *alone = strdup(jwts[_i].token);

	ck_assert_int_eq(auth_ends(alone), jwts[_i].ends);
	free(alone);
}
END_TEST

/* Whom a certificate names is who calls, unless a token says otherwise. */
static const struct {
	const char *certificate, *fields;
	bool listed;
	enum auth_answer answer;
	const char *name, *session;
} shown[] = {
	{ "spiffe://corp/alice", "", true, AUTH_YES, "alice", "alice" },
	{ "spiffe://corp/alic", "", true, AUTH_FORBIDDEN, "spiffe://corp/alic",
	    NULL },
	{ "spiffe://corp/alice", "Authorization: Bearer token-of-bob-01234\r\n",
	    true, AUTH_YES, "bob", "bob" },
	{ "spiffe://corp/alice", "Authorization: Bearer nobody-knows-it\r\n",
	    true, AUTH_NO, "", NULL },
	{ "", "", true, AUTH_NO, "", NULL },
	{ "", "", false, AUTH_NO, "", NULL },
	{ "Alice Smith", "", false, AUTH_YES, "Alice?Smith", NULL },
	{ "alice", "", false, AUTH_YES, "alice", NULL },
};

START_TEST(a_certificate_is_a_caller)
{
	struct peer p = { .kind = PEER_OTHER, .name = "192.0.2.1" };
	struct caller who;

	(void)snprintf(p.certificate, sizeof(p.certificate), "%s",
	    shown[_i].certificate);
	free(text);
	text = strdup(with_certificates);
	if (shown[_i].listed)
		rows();
	ck_assert_int_eq(auth_names_certificates(&auth), shown[_i].listed);
	auth.certificates = true;
	ck_assert(auth_secret(&auth));
	request(shown[_i].fields);
	ck_assert_int_eq(auth_check(&auth, &p, &http, &who), shown[_i].answer);
	ck_assert_str_eq(who.name, shown[_i].name);
	if (shown[_i].answer != AUTH_YES)
		return;
	ck_assert(!who.chooses);
	if (shown[_i].listed)
		ck_assert_str_eq(who.session, shown[_i].session);
	else
		ck_assert_int_eq(strncmp(who.session, "user-", 5), 0);
	ck_assert_int_eq(who.namespaces != NULL,
	    strcmp(who.name, "alice") == 0 && shown[_i].listed);
}
END_TEST

START_TEST(knows_who_may_call)
{
	struct caller who;
	struct error err;

	if (cases[_i].set & SECRET)
		ck_assert_int_eq(auth_open(&auth, "s3cret", NULL, NULL, &err),
		    0);
	if (cases[_i].set & ROWS)
		rows();
	if (cases[_i].set & REVIEW)
		auth.review = "all";
	if (cases[_i].set & FIXED)
		auth.session = "ours";
	request(cases[_i].fields);
	ck_assert_int_eq(auth_check(&auth, &peers[cases[_i].peer], &http,
	    &who), cases[_i].answer);
	ck_assert_str_eq(who.name, cases[_i].name);
	ck_assert_str_eq(who.session, cases[_i].session);
	ck_assert(who.chooses == cases[_i].chooses);
	if (strcmp(who.name, "bob") == 0)
		ck_assert_str_eq(who.namespaces, "a,b");
	else
		ck_assert_ptr_null(who.namespaces);
}
END_TEST

static const char *const bad_files[] = {
	"", "# nothing\n", "alice\n", "alice short\n", "a/b token-0123456789\n",
	"alice sha256:00\n", "alice token-0123456789 x=y\n",
	"alice token-0123456789 session=\n",
	"alice token-0123456789 session=a/b\n", "alice cert:\n",
	"alice uid:\n", "alice uid:-1\n", "alice uid:1x\n",
	"alice gid:9999999999\n",
	"alice sha256:zz86b3fc34f0d35a1f33d0e4df9fce8f2af9cdad6e0b8b41c4f6a4c13ae9bf02\n",
};

START_TEST(refuses_a_file_it_can_not_read)
{
	char *copy = strdup(bad_files[_i]);
	struct error err;

	ck_assert_int_eq(auth_parse(&auth, copy, &err), -1);
	ck_assert_int_eq(err.code, ERR_CONFIG);
	/* It never quotes a secret. */
	ck_assert_ptr_null(strstr(err.text, "0123456789"));
	free(copy);
}
END_TEST

START_TEST(takes_the_hash_of_a_token)
{
	char line[] = "id sha256:"
	    "A56145270CE6B3BEBD1DD012B73948677DD618D496488BC608A3CB43CE3547DD";
	struct caller who;
	struct error err;

	ck_assert_int_eq(auth_parse(&auth, line, &err), 0);
	request("Authorization: Bearer id\r\n");
	ck_assert_int_eq(auth_check(&auth, &peers[FAR], &http, &who),
	    AUTH_YES);
}
END_TEST

#define USER(name, groups, good) "{\"status\":{\"authenticated\":" good \
	",\"user\":{\"username\":\"" name "\",\"groups\":[" groups "]}}}"

static const struct {
	const char *list, *json;
	enum auth_answer answer;
} reviews[] = {
	{ "all", USER("system:serviceaccount:a:b", "", "true"), AUTH_YES },
	{ "all", USER("system:serviceaccount:a:b", "", "false"), AUTH_NO },
	{ "all", USER("", "", "true"), AUTH_NO },
	{ "all", "{\"status\":{\"authenticated\":\"true\"}}", AUTH_NO },
	{ "all", "{\"status\":{\"error\":\"expired\"}}", AUTH_NO },
	{ "all", "{}", AUTH_NO }, { "all", "", AUTH_NO },
	{ "x, u", USER("u", "", "true"), AUTH_YES },
	{ "x", USER("u", "\"y\",\"x\"", "true"), AUTH_YES },
	{ "x", USER("u", "\"y\"", "true"), AUTH_FORBIDDEN },
	{ "uu", USER("u", "", "true"), AUTH_FORBIDDEN },
};

START_TEST(believes_the_cluster_about_a_token)
{
	struct caller who;
	struct error err;

	auth.review = reviews[_i].list;
	ck_assert_int_eq(auth_reviewed(&auth, reviews[_i].json,
	    strlen(reviews[_i].json), &who, &err), reviews[_i].answer);
	if (reviews[_i].answer == AUTH_YES) {
		ck_assert_uint_eq(strlen(who.session), 5 + 32);
		ck_assert(!who.chooses);
	}
}
END_TEST

static const struct {
	bool chooses;
	const char *id;
	int status;
	const char *session;
	bool misnamed;
} sessions[] = {
	{ true, NULL, 0, "own" }, { true, "other", 0, "other" },
	{ true, "", 0, "own" }, { true, "a b", 0, "own", true },
	{ true, "a,b", 0, "own", true },
	{ true, "0123456789012345678901234567890123456789012345678901234567890"
	    "123", 0, "own", true },
	{ false, NULL, 0, "own" }, { false, "own", 0, "own" },
	{ false, "other", 403, "own" }, { false, "a b", 403, "own" },
};

START_TEST(lets_a_caller_choose_its_session_if_it_may)
{
	struct caller who = { .session = "own",
	    .chooses = sessions[_i].chooses };

	ck_assert_int_eq(auth_session(&who, sessions[_i].id),
	    sessions[_i].status);
	ck_assert_str_eq(who.session, sessions[_i].session);
	ck_assert_int_eq(who.misnamed, sessions[_i].misnamed);
}
END_TEST

START_TEST(sees_what_kind_of_peer_there_is)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t len = sizeof(at);
	int pair[2], listener, client, conn;
	struct peer p;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	auth_peer(&p, pair[0]);
	ck_assert_int_eq(p.kind, PEER_UNIX);
	ck_assert(p.owner);
	ck_assert_int_eq(strncmp(p.name, "uid-", 4), 0);
	close(pair[0]);
	close(pair[1]);
	ck_assert_int_eq(pipe(pair), 0);
	auth_peer(&p, pair[0]);
	ck_assert_int_eq(p.kind, PEER_PIPE);
	close(pair[0]);
	close(pair[1]);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&at, len), 0);
	ck_assert_int_eq(listen(listener, 1), 0);
	ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&at, &len),
	    0);
	client = socket(AF_INET, SOCK_STREAM, 0);
	ck_assert_int_eq(connect(client, (struct sockaddr *)&at, len), 0);
	conn = accept(listener, NULL, NULL);
	auth_peer(&p, conn);
	ck_assert_int_eq(p.kind, PEER_LOOPBACK);
	ck_assert_str_eq(p.name, "127.0.0.1");
	close(conn);
	close(client);
	close(listener);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("auth");
	TCase *t = tcase_create("auth");

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_loop_test(t, knows_who_may_call, 0, COUNT(cases));
	tcase_add_loop_test(t, a_user_and_a_group_have_lines, 0, COUNT(users));
	tcase_add_loop_test(t, knows_when_a_token_ends, 0, COUNT(jwts));
	tcase_add_loop_test(t, a_certificate_is_a_caller, 0, COUNT(shown));
	tcase_add_loop_test(t, refuses_a_file_it_can_not_read, 0,
	    COUNT(bad_files));
	tcase_add_test(t, takes_the_hash_of_a_token);
	tcase_add_loop_test(t, believes_the_cluster_about_a_token, 0,
	    COUNT(reviews));
	tcase_add_loop_test(t, lets_a_caller_choose_its_session_if_it_may, 0,
	    COUNT(sessions));
	tcase_add_test(t, sees_what_kind_of_peer_there_is);
	suite_add_tcase(s, t);
	return suite_run(s);
}
