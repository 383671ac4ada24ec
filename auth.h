/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth - who calls over HTTP, and what that lets him reach.
 *
 *	AF_UNIX		the peer's uid (the socket's mode has let it in)
 *	X-MCP-AUTH	a secret all callers share
 *	Bearer		a token of the file: each has a name, and may be bound
 *			to a session and to namespaces
 *	Bearer		a Kubernetes token, asked about with a TokenReview
 *	a certificate	of the clients' authority, over TLS (tls.h)
 *	loopback TCP	anybody, as long as none of the above is set up
 *
 * Once one of these is set up, every request over TCP needs one; over
 * AF_UNIX one may be sent, and then counts. Any other address needs one
 * always. Secrets are kept as SHA-256 and compared in constant time.
 *
 * The file has a line for each token, and comments after '#':
 *	NAME TOKEN|sha256:HEX|cert:NAME|uid:N|gid:N [session=ID|*]
 *	    [namespaces=A,B]
 * Without session= a caller's sandboxes are those of the session NAME; with
 * "*" it says which by X-Session-ID. Where the file names certificates, no
 * others are good; where it does not, each has a session of its own. Users and
 * (primary) groups are those of an AF_UNIX socket's peer; a user's line comes
 * before its group's.
 */
#ifndef AUTH_H
#define AUTH_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct http;

enum peer_kind { PEER_PIPE, PEER_UNIX, PEER_LOOPBACK, PEER_OTHER };

struct peer {
	enum peer_kind kind;
	bool owner;		/* PEER_UNIX: root, or who we are ourselves */
	char name[64];		/* "uid-1000", "192.0.2.1", "stdin" */
	char certificate[256];	/* whom it names (tls.h), or "" */
	unsigned uid, gid;	/* PEER_UNIX */
};

/* Who is at the other end of a descriptor. */
void auth_peer(struct peer *p, int fd);

enum auth_kind { AUTH_TOKEN, AUTH_CERTIFICATE, AUTH_UID, AUTH_GID };

struct auth_row {
	const char *name, *session, *namespaces;	/* NULL: not said */
	enum auth_kind kind;
	const char *certificate;	/* its name */
	unsigned id;			/* a user's or a group's */
	unsigned char digest[32];	/* a token's */
};

struct auth {
	bool shared;			/* X-MCP-AUTH is wanted */
	bool certificates;		/* an authority for clients is there */
	unsigned char digest[32];	/* its secret's */
	struct auth_row *rows;
	size_t n;
	char *text;			/* the rows' words */
	const char *review;	/* users and groups that may call, or NULL */
	const char *session;	/* the operator's, for everybody, or NULL */
	char challenge[640];	/* WWW-Authenticate's line */
	char *metadata;		/* RFC 9728's document, or NULL */
	size_t metadata_len;
};

/* Secret of X-MCP-AUTH, file of tokens, document: each may be NULL. */
int auth_open(struct auth *a, const char *secret, const char *file,
    const char *metadata, struct error *err);
void auth_close(struct auth *a);
/* The text of the file; borrowed by the rows, changed in place. */
int auth_parse(struct auth *a, char *text, struct error *err);
/* Is any of these set up? */
bool auth_secret(const struct auth *a);
/* Has the file a certificate in it? */
bool auth_names_certificates(const struct auth *a);

struct caller {
	char name[160];		/* for the audit line: no blanks */
	char session[64];
	const char *namespaces;	/* the only ones, or NULL */
	bool chooses;		/* its session, by X-Session-ID */
	bool sent;		/* and did; the caller's of this module */
	bool misnamed;		/* what it sent is no session's name */
};

enum auth_answer {
	AUTH_YES,
	AUTH_NO,		/* 401 */
	AUTH_FORBIDDEN,		/* 403: not from there */
	AUTH_REVIEW		/* ask the cluster about the bearer token */
};
enum auth_answer auth_check(const struct auth *a, const struct peer *p,
    const struct http *h, struct caller *who);
/* The bearer token, or NULL. */
const char *auth_bearer(const struct http *h);
/*
 * When a token says that it ends (a JWT's exp, RFC 7519), in seconds since
 * 1970; 0: it does not. That is not verified: good only for believing less.
 */
long auth_ends(const char *token);
/*
 * The answer to a TokenReview. Yes: authenticated, and the user or one of its
 * groups is in a->review; else no, with why in err for the log.
 */
enum auth_answer auth_reviewed(const struct auth *a, const char *json,
    size_t len, struct caller *who, struct error *err);
/* 0; or the status that refuses this X-Session-ID (NULL, "": none was sent).
 * One that can't be is for the tools to refuse: the rest needs no session. */
int auth_session(struct caller *who, const char *id);

#endif
