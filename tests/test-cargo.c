/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cargo.h"
#include "suite.h"

static const char *const agents[] = {
	"build/agent/mcp-sandbox-agent-amd64",
	"build/agent/mcp-sandbox-agent-arm64",
};
static const size_t pieces[] = { 1, 7, 4096, 8192, 32 * 1024, 1 << 20 };
enum { NAGENTS = 2, NPIECES = 6 };

/* "hello, pod\n", as gzip -9n makes it. */
static const unsigned char hello[] = {
	0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xcb, 0x48,
	0xcd, 0xc9, 0xc9, 0xd7, 0x51, 0x28, 0xc8, 0x4f, 0xe1, 0x02, 0x00,
	0x98, 0x73, 0xec, 0x8e, 0x0b, 0x00, 0x00, 0x00 };

/* NULL: this build has none. */
static char *
read_file(const char *name, const char *ending, size_t *len)
{
	static const size_t most = 1 << 20;
	char path[100], *data;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s%s", name, ending);
	if ((f = fopen(path, "r")) == NULL)
		return NULL;
	ck_assert_ptr_nonnull(data = malloc(most));
	*len = fread(data, 1, most, f);
	ck_assert(feof(f));
	(void)fclose(f);
	return data;
}

/* All of it in pieces; at most room bytes are there for it. */
static long
take(struct cargo *c, char *to, size_t room, size_t piece)
{
	size_t have = 0;
	long n;

	while ((n = cargo_give(c, to + have, piece < room - have ? piece :
	    room - have)) > 0)
		have += (size_t)n;
	return n == -1 ? -1 : (long)have;
}

/* _i: which agent and which size of a piece. */
START_TEST(gives_an_agent_as_it_was_built)
{
	const char *name = agents[_i / NPIECES];
	size_t len = 0, packed_len = 0;
	char *built = read_file(name, "", &len);
	char *packed = read_file(name, ".gz", &packed_len);
	char *got = malloc(len + 1);
	struct cargo *c;

	ck_assert_ptr_nonnull(got);
	if (packed != NULL) {
		ck_assert_ptr_nonnull(built);
		ck_assert_uint_lt(packed_len, len);
		c = cargo_open(packed, packed_len, true);
		ck_assert_uint_eq(cargo_len(c), len);
		ck_assert_int_eq(take(c, got, len + 1, pieces[_i % NPIECES]),
		    (long)len);
		ck_assert_mem_eq(got, built, len);
		cargo_close(c);
	}
	free(got);
	free(packed);
	free(built);
}
END_TEST

/* This machine's is always there: the test is built after it. */
START_TEST(there_is_an_agent_to_compare)
{
	size_t len;
	char *a = read_file(agents[0], ".gz", &len);
	char *b = read_file(agents[1], ".gz", &len);

	ck_assert(a != NULL || b != NULL);
	free(a);
	free(b);
}
END_TEST

START_TEST(gives_what_is_not_packed_as_it_is)
{
	char got[sizeof(hello) + 1];

	for (size_t piece = 1; piece <= sizeof(hello) + 1; piece++) {
		struct cargo *c = cargo_open(hello, sizeof(hello), false);

		ck_assert_uint_eq(cargo_len(c), sizeof(hello));
		ck_assert_int_eq(take(c, got, sizeof(got), piece),
		    (long)sizeof(hello));
		ck_assert_mem_eq(got, hello, sizeof(hello));
		ck_assert_int_eq(cargo_give(c, got, sizeof(got)), 0);
		cargo_close(c);
	}
}
END_TEST

/* _i: which byte is another, or how many there are. */
START_TEST(never_gives_all_of_what_is_damaged)
{
	static const char text[] = "hello, pod\n";
	unsigned char bad[sizeof(hello)];
	char got[64];
	struct cargo *c;
	long n;

	for (size_t piece = 1; piece < 20; piece++) {
		memcpy(bad, hello, sizeof(bad));
		if ((size_t)_i < sizeof(hello))
			bad[_i] ^= 0x20;
		c = cargo_open(bad, (size_t)_i < sizeof(hello) ? sizeof(bad) :
		    (size_t)_i - sizeof(hello), true);
		n = c == NULL ? -1 : take(c, got, sizeof(got), piece);
		cargo_close(c);
		/* A header's time or a bit past the end changes nothing. */
		if (n != -1) {
			ck_assert_int_eq(n, sizeof(text) - 1);
			ck_assert_mem_eq(got, text, sizeof(text) - 1);
			ck_assert_msg((_i >= 4 && _i < 10) || _i == 22,
			    "took %d", _i);
		}
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("cargo");
	TCase *t = tcase_create("cargo");

	tcase_add_test(t, there_is_an_agent_to_compare);
	tcase_add_loop_test(t, gives_an_agent_as_it_was_built, 0,
	    NAGENTS * NPIECES);
	tcase_add_test(t, gives_what_is_not_packed_as_it_is);
	tcase_add_loop_test(t, never_gives_all_of_what_is_damaged, 0,
	    2 * sizeof(hello));
	suite_add_tcase(s, t);
	return suite_run(s);
}
