/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ways of each function: the CPU's, if it has one, and mbedTLS's own.
 */
#define MBEDTLS_ALLOW_PRIVATE_ACCESS
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../config/bulk.h"
#include "suite.h"

#define LONG 100000
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef int sha_update(mbedtls_sha256_context *, const unsigned char *, size_t);
typedef int gcm_update(mbedtls_gcm_context *, const unsigned char *, size_t,
    unsigned char *, size_t, size_t *);

static sha_update *const sha_ways[] = {
	mbedtls_sha256_update, bulk_sha256_update_c
};
static gcm_update *const gcm_ways[] = {
	mbedtls_gcm_update, bulk_gcm_update_c
};

/* An allocation of its own, so that a checker sees what is read beyond. */
static unsigned char *
text(size_t len)
{
	unsigned char *p = malloc(len + !len);

	ck_assert_ptr_nonnull(p);
	for (size_t i = 0; i < len; i++)
		p[i] = (unsigned char)(i * 7 + (i >> 8));
	return p;
}

static size_t
unhex(const char *hex, unsigned char *out)
{
	size_t n = strlen(hex) / 2;

	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(sscanf(hex + 2 * i, "%2hhx", &out[i]), 1);
	return n;
}

static void
ck_hex(const unsigned char *data, size_t n, const char *hex)
{
	unsigned char want[128];

	ck_assert_uint_eq(unhex(hex, want), n);
	ck_assert_mem_eq(data, want, n);
}

/* --- SHA-256 ---------------------------------------------------------------*/

static void
sha(sha_update *update, int is224, const unsigned char *data, size_t len,
    size_t piece, unsigned char sum[32])
{
	mbedtls_sha256_context ctx;

	memset(sum, 0, 32);
	mbedtls_sha256_init(&ctx);
	ck_assert_int_eq(mbedtls_sha256_starts(&ctx, is224), 0);
	for (size_t at = 0; at < len; at += piece)
		ck_assert_int_eq(update(&ctx, data + at,
		    len - at < piece ? len - at : piece), 0);
	ck_assert_int_eq(mbedtls_sha256_finish(&ctx, sum), 0);
	mbedtls_sha256_free(&ctx);
}

START_TEST(a_digest_is_what_openssl_says)
{
	unsigned char *data = text(LONG), sum[32];

	sha(sha_ways[_i], 0, data, LONG, LONG, sum);
	ck_hex(sum, 32, "55af394c980c7a7fb68aa904c4afdd93"
	    "d76e5f826487105fc06f92a25bab8cbe");
	sha(sha_ways[_i], 1, data, LONG, 1000, sum);
	ck_hex(sum, 28, "3fec9f781e81240b2156818fbc902572"
	    "6ea056576253c641506dd55e");
	ck_assert_int_eq(mbedtls_sha256(data, LONG, sum, 0), 0);
	ck_hex(sum, 32, "55af394c980c7a7fb68aa904c4afdd93"
	    "d76e5f826487105fc06f92a25bab8cbe");
	free(data);
}
END_TEST

START_TEST(a_digest_is_what_fips_180_says)
{
	unsigned char sum[32];

	sha(sha_ways[_i], 0, (const unsigned char *)"", 0, 1, sum);
	ck_hex(sum, 32, "e3b0c44298fc1c149afbf4c8996fb924"
	    "27ae41e4649b934ca495991b7852b855");
	sha(sha_ways[_i], 0, (const unsigned char *)"abc", 3, 1, sum);
	ck_hex(sum, 32, "ba7816bf8f01cfea414140de5dae2223"
	    "b00361a396177a9cb410ff61f20015ad");
	sha(sha_ways[_i], 0, (const unsigned char *)
	    "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
	    56, sum);
	ck_hex(sum, 32, "248d6a61d20638b8e5c026930c3e6039"
	    "a33ce45964ff2167f6ecedd419db06c1");
}
END_TEST

/* _i: the length; pieces that begin and end anywhere in a block. */
START_TEST(a_digest_is_the_same_both_ways)
{
	static const size_t pieces[] = {
		1, 2, 55, 56, 63, 64, 65, 127, 128, 129, 1000
	};
	unsigned char *data = text((size_t)_i), one[32], other[32];

	sha(bulk_sha256_update_c, 0, data, (size_t)_i, 1000, one);
	for (size_t i = 0; i < COUNT(pieces); i++) {
		sha(mbedtls_sha256_update, 0, data, (size_t)_i, pieces[i],
		    other);
		ck_assert_mem_eq(one, other, 32);
	}
	free(data);
}
END_TEST

START_TEST(a_digest_counts_past_4_gb)
{
	unsigned char *data = text(1000), sums[2][32];

	for (size_t i = 0; i < 2; i++) {
		mbedtls_sha256_context ctx;

		mbedtls_sha256_init(&ctx);
		ck_assert_int_eq(mbedtls_sha256_starts(&ctx, 0), 0);
		ctx.total[0] = 0xffffff80;
		ck_assert_int_eq(sha_ways[i](&ctx, data, 1000), 0);
		ck_assert_uint_eq(ctx.total[0], 1000 - 0x80);
		ck_assert_uint_eq(ctx.total[1], 1);
		ck_assert_int_eq(mbedtls_sha256_finish(&ctx, sums[i]), 0);
		mbedtls_sha256_free(&ctx);
	}
	ck_assert_mem_eq(sums[0], sums[1], 32);
	free(data);
}
END_TEST

/* --- AES-GCM ---------------------------------------------------------------*/

struct message {
	size_t key_len, iv_len, ad_len, len;
	const unsigned char *key, *iv, *ad, *data;
};

static void
start(mbedtls_gcm_context *ctx, int mode, const struct message *m)
{
	mbedtls_gcm_init(ctx);
	ck_assert_int_eq(mbedtls_gcm_setkey(ctx, MBEDTLS_CIPHER_ID_AES, m->key,
	    (unsigned)m->key_len * 8), 0);
	ck_assert_int_eq(mbedtls_gcm_starts(ctx, mode, m->iv, m->iv_len), 0);
	ck_assert_int_eq(mbedtls_gcm_update_ad(ctx, m->ad, m->ad_len), 0);
}

static void
finish(mbedtls_gcm_context *ctx, unsigned char tag[16])
{
	size_t n;

	ck_assert_int_eq(mbedtls_gcm_finish(ctx, NULL, 0, &n, tag, 16), 0);
	mbedtls_gcm_free(ctx);
}

/* In pieces of the given size, to out, which may be the message itself. */
static void
gcm(gcm_update *update, int mode, const struct message *m, size_t piece,
    unsigned char *out, unsigned char tag[16])
{
	mbedtls_gcm_context ctx;

	start(&ctx, mode, m);
	for (size_t at = 0; at < m->len; at += piece) {
		size_t n = m->len - at < piece ? m->len - at : piece, done;

		ck_assert_int_eq(update(&ctx, m->data + at, n, out + at, n,
		    &done), 0);
		ck_assert_uint_eq(done, n);
	}
	finish(&ctx, tag);
}

/* Of the specification: McGrew and Viega, appendix B. */
#define KEY "feffe9928665731c6d6a8f9467308308"
#define TEXT "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72" \
	"1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
#define AD "feedfacedeadbeeffeedfacedeadbeefabaddad2"
#define IV60 "9313225df88406e555909c5aff5269aa6a7a9538534f7da1e4c303d2a318a728" \
	"c3c0c95156809539fcf0e2429a6b525416aedbf5a0de6a57a637b39b"
static const struct { const char *key, *iv, *ad, *plain, *cipher, *tag; }
cases[] = {
	{ "00000000000000000000000000000000", "000000000000000000000000", "",
	    "", "", "58e2fccefa7e3061367f1d57a4e7455a" },
	{ "00000000000000000000000000000000", "000000000000000000000000", "",
	    "00000000000000000000000000000000",
	    "0388dace60b6a392f328c2b971b2fe78",
	    "ab6e47d42cec13bdf53a67b21257bddf" },
	{ KEY, "cafebabefacedbaddecaf888", "", TEXT "1aafd255",
	    "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
	    "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985",
	    "4d5c2af327cd64a62cf35abd2ba6fab4" },
	{ KEY, "cafebabefacedbaddecaf888", AD, TEXT,
	    "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
	    "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
	    "5bc94fbc3221a5db94fae95ae7121a47" },
	{ KEY, "cafebabefacedbad", AD, TEXT,
	    "61353b4c2806934a777ff51fa22a4755699b2a714fcdc6f83766e5f97b6c7423"
	    "73806900e49f24b22b097544d4896b424989b5e1ebac0f07c23f4598",
	    "3612d2e79e3b0785561be14aaca2fccb" },
	{ KEY, IV60, AD, TEXT,
	    "8ce24998625615b603a033aca13fb894be9112a5c3a211a8ba262a3cca7e2ca7"
	    "01e4a9a4fba43c90ccdcb281d48c7c6fd62875d2aca417034c34aee5",
	    "619cc5aefffe0bfa462af43c1699d050" },
	{ KEY "feffe9928665731c", IV60, AD, TEXT,
	    "d27e88681ce3243c4830165a8fdcf9ff1de9a1d8e6b447ef6ef7b79828666e45"
	    "81e79012af34ddd9e2f037589b292db3e67c036745fa22e7e9b7373b",
	    "dcf566ff291c25bbb8568fc3d376a6d9" },
	{ KEY KEY, IV60, AD, TEXT,
	    "5a8def2f0c9e53f1f75d7853659e2a20eeb2b22aafde6419a058ab4f6f746bf4"
	    "0fc0c3b780f244452da3ebf1c5d82cdea2418997200ef82e44ae7e3f",
	    "a44a8266ee1c8eb0c8b5d4cf5ae9f19a" },
};

START_TEST(gcm_is_what_the_specification_says)
{
	unsigned char key[32], iv[64], ad[32], data[64], out[64], tag[16];
	struct message m = { .key = key, .iv = iv, .ad = ad, .data = data };

	m.key_len = unhex(cases[_i].key, key);
	m.iv_len = unhex(cases[_i].iv, iv);
	m.ad_len = unhex(cases[_i].ad, ad);
	for (size_t piece = 1; piece <= 64; piece++) {
		for (size_t way = 0; way < 2; way++) {
			m.len = unhex(cases[_i].plain, data);
			gcm(gcm_ways[way], MBEDTLS_GCM_ENCRYPT, &m, piece, out,
			    tag);
			ck_hex(out, m.len, cases[_i].cipher);
			ck_hex(tag, 16, cases[_i].tag);
			m.len = unhex(cases[_i].cipher, data);
			gcm(gcm_ways[way], MBEDTLS_GCM_DECRYPT, &m, piece, out,
			    tag);
			ck_hex(out, m.len, cases[_i].plain);
			ck_hex(tag, 16, cases[_i].tag);
		}
	}
}
END_TEST

/* _i: bytes of key and IV, in an order that both see each way. */
static const struct { size_t key, iv; const char *tag; } long_cases[] = {
	{ 16, 12, "c75087b3d65c96c795883020b594a11a" },
	{ 16, 60, "0093a39db38684b80a4562beabf83331" },
	{ 24, 12, "aba95b1f5401af59714bc7c855860b9f" },
	{ 24, 60, "51407940ada4d11fa1cb5b30582d3390" },
	{ 32, 12, "01794e40b8656281c6be430615b174bd" },
	{ 32, 60, "c9bcdf42446c18745de623dda8dd0aca" },
};

static void
bytes(unsigned char *p, size_t n, unsigned first)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(first + i);
}

START_TEST(gcm_of_much_is_what_openssl_says)
{
	unsigned char key[32], iv[60], ad[13], *data = text(LONG), tag[16];
	unsigned char *plain = text(LONG);
	struct message m = { long_cases[_i].key, long_cases[_i].iv, sizeof(ad),
	    LONG, key, iv, ad, data };

	bytes(key, sizeof(key), 0x40);
	bytes(iv, sizeof(iv), 0xa0);
	bytes(ad, sizeof(ad), 0);
	for (size_t way = 0; way < 2; way++) {
		gcm(gcm_ways[way], MBEDTLS_GCM_ENCRYPT, &m, LONG, data, tag);
		ck_hex(tag, 16, long_cases[_i].tag);
		ck_assert_mem_ne(data, plain, LONG);
		gcm(gcm_ways[!way], MBEDTLS_GCM_DECRYPT, &m, LONG, data, tag);
		ck_hex(tag, 16, long_cases[_i].tag);
		ck_assert_mem_eq(data, plain, LONG);
	}
	free(plain);
	free(data);
}
END_TEST

/* Every length around what the assembler takes, at any address. */
START_TEST(gcm_is_the_same_both_ways)
{
	static const size_t ads[] = { 0, 5, 13, 16, 33 }, pieces[] = {
		LONG, 527, 513, 512, 1000
	};
	unsigned char key[32], iv[60], ad[33], tags[2][16];
	size_t len = 500 + (size_t)_i, shift = (size_t)_i % 17;
	unsigned char *data = text(len + shift), *out = text(len + shift);
	unsigned char *want = text(len);
	struct message m = { 16 + (size_t)_i % 3 * 8, 1 + (size_t)_i % 60,
	    ads[_i % 5], len, key, iv, ad, data + shift };

	bytes(key, sizeof(key), (unsigned)_i);
	bytes(iv, sizeof(iv), (unsigned)_i * 3);
	bytes(ad, sizeof(ad), (unsigned)_i * 5);
	for (int mode = 0; mode < 2; mode++) {
		gcm(bulk_gcm_update_c, mode, &m, LONG, want, tags[0]);
		for (size_t i = 0; i < COUNT(pieces); i++) {
			gcm(mbedtls_gcm_update, mode, &m, pieces[i],
			    out + shift, tags[1]);
			ck_assert_mem_eq(tags[0], tags[1], 16);
			ck_assert_mem_eq(want, out + shift, len);
		}
	}
	free(want);
	free(out);
	free(data);
}
END_TEST

/* _i: how many blocks before the 32-bit counter comes round. */
START_TEST(gcm_counts_round)
{
	unsigned char *data = text(4096), *outs[2], tags[2][16], key[16] = "k";
	struct message m = { 16, 12, 0, 4096, key, key, key, data };

	for (size_t i = 0; i < 2; i++) {
		mbedtls_gcm_context ctx;
		size_t n;

		outs[i] = text(4096);
		start(&ctx, MBEDTLS_GCM_ENCRYPT, &m);
		memset(ctx.y + 12, 0xff, 4);
		ctx.y[15] = (unsigned char)(0xff - _i);
		ck_assert_int_eq(gcm_ways[i](&ctx, data, 4096, outs[i], 4096,
		    &n), 0);
		finish(&ctx, tags[i]);
	}
	ck_assert_mem_eq(outs[0], outs[1], 4096);
	ck_assert_mem_eq(tags[0], tags[1], 16);
	free(outs[0]);
	free(outs[1]);
	free(data);
}
END_TEST

/* _i: how far down the output begins before the input. */
START_TEST(gcm_may_write_over_what_it_reads)
{
	unsigned char *data = text(4096), *want = text(4096), tags[2][16];
	unsigned char *room = text(4096 + 300), key[16] = "k";
	struct message m = { 16, 12, 0, 4096, key, key, key, data };

	for (int mode = 0; mode < 2; mode++) {
		m.data = data;
		gcm(bulk_gcm_update_c, mode, &m, 4096, want, tags[0]);
		memcpy(room + _i, data, 4096);
		m.data = room + _i;
		gcm(mbedtls_gcm_update, mode, &m, 4096, room, tags[1]);
		ck_assert_mem_eq(room, want, 4096);
		ck_assert_mem_eq(tags[0], tags[1], 16);
	}
	free(room);
	free(want);
	free(data);
}
END_TEST

static int
opened(mbedtls_gcm_context *ctx, const struct message *m,
    const unsigned char *tag, size_t tag_len, unsigned char *out)
{
	return mbedtls_gcm_auth_decrypt(ctx, m->len, m->iv, m->iv_len, m->ad,
	    m->ad_len, tag, tag_len, m->data, out);
}

/* _i: the length of the tag; what is refused leaves nothing behind. */
START_TEST(gcm_opens_only_what_was_sealed)
{
	unsigned char *data = text(4096), *out = text(4096), tag[16];
	unsigned char *plain = text(4096), zero[4096] = { 0 };
	unsigned char key[16] = "k", ad[13] = "d";
	struct message m = { 16, 12, 13, 4096, key, key, ad, data };
	unsigned char *bytes[] = { data, data + 2048, data + 4095, ad, tag };
	mbedtls_gcm_context ctx;

	mbedtls_gcm_init(&ctx);
	ck_assert_int_eq(mbedtls_gcm_setkey(&ctx, MBEDTLS_CIPHER_ID_AES, key,
	    128), 0);
	ck_assert_int_eq(mbedtls_gcm_crypt_and_tag(&ctx, MBEDTLS_GCM_ENCRYPT,
	    m.len, m.iv, m.iv_len, ad, m.ad_len, data, data, (size_t)_i, tag),
	    _i < 4 ? MBEDTLS_ERR_GCM_BAD_INPUT : 0);
	if (_i >= 4) {
		ck_assert_int_eq(opened(&ctx, &m, tag, (size_t)_i, out), 0);
		ck_assert_mem_eq(out, plain, 4096);
		for (size_t i = 0; i < COUNT(bytes); i++) {
			*bytes[i] ^= 0x10;
			ck_assert_int_eq(opened(&ctx, &m, tag, (size_t)_i,
			    out), MBEDTLS_ERR_GCM_AUTH_FAILED);
			ck_assert_mem_eq(out, zero, 4096);
			*bytes[i] ^= 0x10;
		}
		ck_assert_int_eq(opened(&ctx, &m, tag, (size_t)_i, data), 0);
		ck_assert_mem_eq(data, plain, 4096);
	}
	mbedtls_gcm_free(&ctx);
	free(plain);
	free(out);
	free(data);
}
END_TEST

START_TEST(gcm_refuses_what_mbedtls_refuses)
{
	unsigned char *data = text(4096), *out = text(4096), key[16] = "k";
	struct message m = { 16, 12, 0, 4096, key, key, key, data };
	mbedtls_gcm_context ctx;
	size_t n;

	start(&ctx, MBEDTLS_GCM_ENCRYPT, &m);
	ck_assert_int_eq(gcm_ways[_i](&ctx, data, 4096, out, 4095, &n),
	    MBEDTLS_ERR_GCM_BUFFER_TOO_SMALL);
	ck_assert_int_eq(gcm_ways[_i](&ctx, data, 4000, data + 1, 4000, &n),
	    MBEDTLS_ERR_GCM_BAD_INPUT);
	ctx.len = 0xfffffffe0 - 4096;
	ck_assert_int_eq(gcm_ways[_i](&ctx, data, 4096, out, 4096, &n), 0);
	ctx.len = 0xfffffffe0 - 4095;
	ck_assert_int_eq(gcm_ways[_i](&ctx, data, 4096, out, 4096, &n),
	    MBEDTLS_ERR_GCM_BAD_INPUT);
	ctx.len = UINT64_MAX - 4000;
	ck_assert_int_eq(gcm_ways[_i](&ctx, data, 4096, out, 4096, &n),
	    MBEDTLS_ERR_GCM_BAD_INPUT);
	ck_assert_int_eq(gcm_ways[_i](&ctx, NULL, 0, NULL, 0, &n), 0);
	ck_assert_uint_eq(n, 0);
	mbedtls_gcm_free(&ctx);
	free(out);
	free(data);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("bulk");
	TCase *t = tcase_create("bulk");

	/* Under valgrind the whole is slow. */
	tcase_set_timeout(t, 120);
	suite_add_tcase(s, t);
	tcase_add_loop_test(t, a_digest_is_what_openssl_says, 0, 2);
	tcase_add_loop_test(t, a_digest_is_what_fips_180_says, 0, 2);
	tcase_add_loop_test(t, a_digest_is_the_same_both_ways, 0, 260);
	tcase_add_test(t, a_digest_counts_past_4_gb);
	tcase_add_loop_test(t, gcm_is_what_the_specification_says, 0,
	    (int)COUNT(cases));
	tcase_add_loop_test(t, gcm_of_much_is_what_openssl_says, 0,
	    (int)COUNT(long_cases));
	tcase_add_loop_test(t, gcm_is_the_same_both_ways, 0, 220);
	tcase_add_loop_test(t, gcm_counts_round, 0, 32);
	tcase_add_loop_test(t, gcm_may_write_over_what_it_reads, 0, 300);
	tcase_add_loop_test(t, gcm_opens_only_what_was_sealed, 3, 17);
	tcase_add_loop_test(t, gcm_refuses_what_mbedtls_refuses, 0, 2);
	return suite_run(s);
}
