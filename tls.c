/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mbedtls/entropy.h>
#include <mbedtls/error.h>
#include <mbedtls/oid.h>
#include <mbedtls/pk.h>
#include <mbedtls/ssl.h>
#include <mbedtls/x509_crt.h>
#include <psa/crypto.h>

#include "error.h"
#include "file.h"
#include "tls.h"

enum { FILES = 3, HANDSHAKE = 0x16, DRAINED = 64 * 1024 };

/* Of a certificate's alternative names: mbedTLS's tag is that of RFC 5280. */
enum { SAN_KIND = 0x1f, SAN_DNS = 2, SAN_URI = 6 };

struct stamp {
	ino_t ino;
	off_t size;
	struct timespec changed;
};

struct tls {
	struct tls_paths paths;
	struct stamp stamps[FILES];
	mbedtls_x509_crt cert, ca;
	mbedtls_pk_context key;
};

enum state { NEW, GREETING, OPEN, FAILED };

struct tls_conn {
	struct tls *t;
	int in, out;
	enum state state;
	mbedtls_ssl_config conf;
	mbedtls_ssl_context ssl;
	const char *protocols[2];
	size_t partly;		/* bytes of the record that is half sent */
	int late;		/* mbedTLS's result for the next tls_recv() */
	bool stuck;
	char name[TLS_NAME_SIZE];
	char why[160];
};

/* Nothing to inherit, unlike a generator with a state. */
static int
random_bytes(void *arg, unsigned char *out, size_t len)
{
	ssize_t n;

	(void)arg;
	while (len > 0) {
		if ((n = getrandom(out, len, 0)) > 0) {
			out += n;
			len -= (size_t)n;
		} else if (errno != EINTR) {
			return MBEDTLS_ERR_ENTROPY_SOURCE_FAILED;
		}
	}
	return 0;
}

/* --- files -------------------------------------------------------------- */

static const char *
path_at(const struct tls_paths *p, int i)
{
	return i == 0 ? p->cert : i == 1 ? p->key : p->ca;
}

/* stat(2) is not there any more in a confined process. */
static struct stamp
stamp_of(const char *path)
{
	struct stamp s = { .size = -1 };
	struct stat st;
	int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC |
	    O_NONBLOCK | O_NOCTTY);

	if (fd == -1)
		return s;
	if (fstat(fd, &st) == 0)
		s = (struct stamp){ st.st_ino, st.st_size, st.st_ctim };
	(void)close(fd);
	return s;
}

static int
refused(struct error *err, const char *path, int r)
{
	char why[100] = "no certificate in it";

	if (r == MBEDTLS_ERR_PK_PASSWORD_REQUIRED ||
	    r == MBEDTLS_ERR_PK_PASSWORD_MISMATCH)
		(void)snprintf(why, sizeof(why), "the key is encrypted: it "
		    "must be a plain one");
	else if (r < 0)
		mbedtls_strerror(r, why, sizeof(why));
	return error_set(err, ERR_CONFIG, "%s: %s", path, why);
}

static int
certs_read(mbedtls_x509_crt *to, const char *path, struct error *err)
{
	size_t len;
	char *text = file_read(NULL, path, &len, err);
	int r;

	if (text == NULL)
		return -1;
	r = mbedtls_x509_crt_parse(to, (unsigned char *)text, len + 1);
	explicit_bzero(text, len);
	free(text);
	if (r > 0)
		return error_set(err, ERR_CONFIG, "%s: %d of its certificates "
		    "can't be read", path, r);
	return r == 0 && to->version != 0 ? 0 : refused(err, path, r);
}

static int
key_read(mbedtls_pk_context *to, const char *path, struct error *err)
{
	size_t len;
	char *text = file_read(NULL, path, &len, err);
	int r;

	if (text == NULL)
		return -1;
	r = mbedtls_pk_parse_key(to, (unsigned char *)text, len + 1, NULL, 0,
	    random_bytes, NULL);
	explicit_bzero(text, len);
	free(text);
	return r == 0 ? 0 : refused(err, path, r);
}

static int
all_read(struct tls *t, struct error *err)
{
	const struct tls_paths *p = &t->paths;
	const char *key = p->key != NULL ? p->key : p->cert;

	if (certs_read(&t->cert, p->cert, err) == -1 ||
	    key_read(&t->key, key, err) == -1 ||
	    (p->ca != NULL && certs_read(&t->ca, p->ca, err) == -1))
		return -1;
	if (mbedtls_pk_check_pair(&t->cert.pk, &t->key, random_bytes,
	    NULL) != 0)
		return error_set(err, ERR_CONFIG, "%s is not the key of the "
		    "first certificate in %s", key, p->cert);
	return 0;
}

struct tls *
tls_read(const struct tls_paths *p, struct error *err)
{
	struct tls *t = calloc(1, sizeof(*t));

	if (t == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	t->paths = *p;
	mbedtls_x509_crt_init(&t->cert);
	mbedtls_x509_crt_init(&t->ca);
	mbedtls_pk_init(&t->key);
	/* Before they are read: what changes meanwhile is seen next time. */
	for (int i = 0; i < FILES; i++)
		t->stamps[i] = stamp_of(path_at(p, i));
	if (all_read(t, err) == 0)
		return t;
	tls_free(t);
	return NULL;
}

void
tls_free(struct tls *t)
{
	if (t == NULL)
		return;
	mbedtls_x509_crt_free(&t->cert);
	mbedtls_x509_crt_free(&t->ca);
	mbedtls_pk_free(&t->key);
	free(t);
}

bool
tls_asks(const struct tls *t)
{
	return t->paths.ca != NULL;
}

int
tls_refresh(struct tls **t, struct error *err)
{
	struct tls *now;
	bool same = true;

	for (int i = 0; i < FILES; i++) {
		struct stamp was = (*t)->stamps[i];
		struct stamp is = stamp_of(path_at(&(*t)->paths, i));

		same = same && was.ino == is.ino && was.size == is.size &&
		    was.changed.tv_sec == is.changed.tv_sec &&
		    was.changed.tv_nsec == is.changed.tv_nsec;
	}
	if (same)
		return 0;
	if ((now = tls_read(&(*t)->paths, err)) == NULL)
		return -1;
	tls_free(*t);
	*t = now;
	return 0;
}

/* --- bytes -------------------------------------------------------------- */

static int
take(void *arg, unsigned char *data, size_t len)
{
	const struct tls_conn *c = arg;
	ssize_t n = recv(c->in, data, len, MSG_DONTWAIT);

	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return MBEDTLS_ERR_SSL_WANT_READ;
	return n == -1 ? MBEDTLS_ERR_SSL_CONN_EOF : (int)n;
}

static int
give(void *arg, const unsigned char *data, size_t len)
{
	struct tls_conn *c = arg;
	ssize_t n = send(c->out, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);

	c->stuck = n == -1 && (errno == EAGAIN || errno == EINTR);
	if (c->stuck)
		return MBEDTLS_ERR_SSL_WANT_WRITE;
	return n == -1 ? MBEDTLS_ERR_SSL_CONN_EOF : (int)n;
}

struct tls_conn *
tls_accept(struct tls *t, int in, int out, struct error *err)
{
	struct tls_conn *c = calloc(1, sizeof(*c));
	mbedtls_ssl_config *f;

	if (c == NULL) {
		error_set(err, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	c->t = t;
	c->in = in;
	c->out = out;
	c->protocols[0] = "http/1.1";
	f = &c->conf;
	mbedtls_ssl_config_init(f);
	mbedtls_ssl_init(&c->ssl);
	mbedtls_ssl_conf_rng(f, random_bytes, NULL);
	if (psa_crypto_init() != PSA_SUCCESS ||
	    mbedtls_ssl_config_defaults(f, MBEDTLS_SSL_IS_SERVER,
	    MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT) != 0 ||
	    mbedtls_ssl_conf_own_cert(f, &t->cert, &t->key) != 0 ||
	    mbedtls_ssl_conf_alpn_protocols(f, c->protocols) != 0) {
		error_set(err, ERR_SYSTEM, "TLS can't be set up");
		tls_close(c);
		return NULL;
	}
	/* What is wrong with one is told, and ends it, in open_up(). */
	mbedtls_ssl_conf_authmode(f, tls_asks(t) ? MBEDTLS_SSL_VERIFY_OPTIONAL :
	    MBEDTLS_SSL_VERIFY_NONE);
	if (tls_asks(t))
		mbedtls_ssl_conf_ca_chain(f, &t->ca, NULL);
	if (mbedtls_ssl_setup(&c->ssl, f) != 0) {
		error_set(err, ERR_SYSTEM, "TLS can't be set up");
		tls_close(c);
		return NULL;
	}
	mbedtls_ssl_set_bio(&c->ssl, c, give, take, NULL);
	return c;
}

void
tls_close(struct tls_conn *c)
{
	if (c == NULL)
		return;
	mbedtls_ssl_free(&c->ssl);
	mbedtls_ssl_config_free(&c->conf);
	free(c);
}

/* --- the client's name -------------------------------------------------- */

static bool
name_put(struct tls_conn *c, const mbedtls_asn1_buf *b)
{
	size_t i;

	for (i = 0; i < b->len && b->p[i] >= ' ' && b->p[i] != 0x7f; i++)
		continue;
	if (b->len == 0 || b->len >= sizeof(c->name) || i < b->len)
		return false;
	memcpy(c->name, b->p, b->len);
	c->name[b->len] = '\0';
	return true;
}

static const mbedtls_asn1_buf *
name_find(const mbedtls_x509_crt *cert)
{
	const mbedtls_asn1_buf *dns = NULL, *common = NULL;

	for (const mbedtls_x509_sequence *s = &cert->subject_alt_names;
	    s != NULL && s->buf.p != NULL; s = s->next) {
		if ((s->buf.tag & SAN_KIND) == SAN_URI)
			return &s->buf;
		if ((s->buf.tag & SAN_KIND) == SAN_DNS && dns == NULL)
			dns = &s->buf;
	}
	if (dns != NULL)
		return dns;
	for (const mbedtls_x509_name *n = &cert->subject; n != NULL;
	    n = n->next)
		if (n->oid.p != NULL &&
		    MBEDTLS_OID_CMP(MBEDTLS_OID_AT_CN, &n->oid) == 0)
			common = &n->val;
	return common;
}

/* --- the handshake ------------------------------------------------------ */

static int
fail(struct tls_conn *c, int r, const char *why)
{
	if (c->state == FAILED) {
		errno = EPROTO;
		return -1;
	}
	c->state = FAILED;
	if (why != NULL)
		(void)snprintf(c->why, sizeof(c->why), "%s", why);
	else
		mbedtls_strerror(r, c->why, sizeof(c->why));
	errno = EPROTO;
	return -1;
}

/* As a browser has it that was given http:// instead of https://. */
static void
answer_plain(struct tls_conn *c)
{
	static const char sorry[] = "HTTP/1.1 400 Bad Request\r\n"
	    "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
	    "Content-Length: 42\r\n\r\n"
	    "this port speaks TLS: use https, not http\n";
	char rest[4096];

	(void)send(c->out, sorry, sizeof(sorry) - 1,
	    MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)shutdown(c->out, SHUT_WR);
	/* What is not read would turn the end into a reset. */
	for (size_t n = 0; n < DRAINED; n += sizeof(rest))
		if (recv(c->in, rest, sizeof(rest), MSG_DONTWAIT) <= 0)
			break;
}

static int
first_byte(struct tls_conn *c)
{
	unsigned char b;
	ssize_t n = recv(c->in, &b, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n == -1)
		return errno == EAGAIN || errno == EINTR ? -1 :
		    fail(c, 0, "the client has gone");
	if (n == 0)
		return fail(c, 0, "the client has gone");
	if (b == HANDSHAKE) {
		c->state = GREETING;
		return 0;
	}
	if (b >= 'A' && b <= 'Z')
		answer_plain(c);
	return fail(c, 0, "the client does not speak TLS");
}

static const struct {
	uint32_t flag;
	int alert;
	const char *why;
} bad_certs[] = {
	{ MBEDTLS_X509_BADCERT_NOT_TRUSTED, MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA,
	    "the client's certificate is of another authority" },
	{ MBEDTLS_X509_BADCERT_EXPIRED, MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED,
	    "the client's certificate has expired" },
	{ MBEDTLS_X509_BADCERT_FUTURE, MBEDTLS_SSL_ALERT_MSG_BAD_CERT,
	    "the client's certificate is not valid yet" },
	{ UINT32_MAX, MBEDTLS_SSL_ALERT_MSG_BAD_CERT,
	    "the client's certificate is not for this use" },
};

/* The handshake is over. */
static int
open_up(struct tls_conn *c)
{
	const mbedtls_x509_crt *cert = mbedtls_ssl_get_peer_cert(&c->ssl);
	const mbedtls_asn1_buf *name;
	uint32_t flags = mbedtls_ssl_get_verify_result(&c->ssl);
	size_t i = 0;

	c->state = OPEN;
	if (cert == NULL || !tls_asks(c->t))
		return 0;
	if (flags != 0) {
		while (!(flags & bad_certs[i].flag))
			i++;
		(void)mbedtls_ssl_send_alert_message(&c->ssl,
		    MBEDTLS_SSL_ALERT_LEVEL_FATAL,
		    (unsigned char)bad_certs[i].alert);
		return fail(c, 0, bad_certs[i].why);
	}
	if ((name = name_find(cert)) == NULL || !name_put(c, name)) {
		(void)mbedtls_ssl_send_alert_message(&c->ssl,
		    MBEDTLS_SSL_ALERT_LEVEL_FATAL,
		    MBEDTLS_SSL_ALERT_MSG_BAD_CERT);
		return fail(c, 0, "the client's certificate has no name, or "
		    "one that is too long");
	}
	return 0;
}

static int
greet(struct tls_conn *c)
{
	int r;

	if (c->state == NEW && first_byte(c) == -1)
		return -1;
	if (c->state == FAILED)
		return fail(c, 0, NULL);
	if (c->state == OPEN)
		return 0;
	r = mbedtls_ssl_handshake(&c->ssl);
	if (r == 0)
		return open_up(c);
	if (r == MBEDTLS_ERR_SSL_WANT_READ || r == MBEDTLS_ERR_SSL_WANT_WRITE) {
		errno = EAGAIN;
		return -1;
	}
	if (r == MBEDTLS_ERR_SSL_CONN_EOF)
		return fail(c, r, "the client has gone");
	return fail(c, r, NULL);
}

ssize_t
tls_recv(struct tls_conn *c, void *data, size_t len)
{
	size_t n = 0;
	int r = c->late;

	if (greet(c) == -1)
		return -1;
	c->late = 0;
	while (r >= 0 && n < len) {
		r = mbedtls_ssl_read(&c->ssl, (unsigned char *)data + n,
		    len - n);
		if (r <= 0)
			break;
		n += (size_t)r;
	}
	if (n > 0) {
		if (r < 0 && r != MBEDTLS_ERR_SSL_WANT_READ &&
		    r != MBEDTLS_ERR_SSL_WANT_WRITE)
			c->late = r;
		return (ssize_t)n;
	}
	if (r == MBEDTLS_ERR_SSL_WANT_READ || r == MBEDTLS_ERR_SSL_WANT_WRITE) {
		errno = EAGAIN;
		return -1;
	}
	/* HTTP says by itself where a message ends. */
	if (r == 0 || r == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY ||
	    r == MBEDTLS_ERR_SSL_CONN_EOF)
		return 0;
	return fail(c, r, NULL);
}

ssize_t
tls_send(struct tls_conn *c, const void *data, size_t len)
{
	int r;

	if (c->state != OPEN) {
		errno = c->state == FAILED ? EPROTO : EAGAIN;
		return -1;
	}
	/* A record that is half sent is the one to go on with, as it was. */
	if (c->partly > 0 && c->partly < len)
		len = c->partly;
	r = mbedtls_ssl_write(&c->ssl, data, len);
	if (r >= 0) {
		c->partly = 0;
		return r;
	}
	if (r == MBEDTLS_ERR_SSL_WANT_READ || r == MBEDTLS_ERR_SSL_WANT_WRITE) {
		c->partly = len;
		errno = EAGAIN;
		return -1;
	}
	return fail(c, r, NULL);
}

bool
tls_stuck(const struct tls_conn *c)
{
	return c->stuck && c->state == GREETING;
}

bool
tls_pending(const struct tls_conn *c)
{
	return c->state == OPEN &&
	    (c->late != 0 || mbedtls_ssl_check_pending(&c->ssl) != 0);
}

void
tls_shut(struct tls_conn *c)
{
	if (c->state == OPEN)
		(void)mbedtls_ssl_close_notify(&c->ssl);
}

const char *
tls_name(const struct tls_conn *c)
{
	return c->name;
}

const char *
tls_why(const struct tls_conn *c)
{
	return c->state == FAILED ? c->why : NULL;
}
