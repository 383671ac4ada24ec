/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../buf.h"
#include "../error.h"
#include "../files.h"
#include "suite.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static struct files files;
static char top[] = "/tmp/test-files-XXXXXX";

/* TOP/root with in/file and links; TOP/outside beside it. */
static void
set_up(void)
{
	char path[200];
	struct error err;

	memcpy(top + sizeof(top) - 7, "XXXXXX", 6);
	ck_assert_ptr_nonnull(mkdtemp(top));
	ck_assert_int_eq(chdir(top), 0);
	ck_assert_int_eq(mkdir("root", 0755), 0);
	ck_assert_int_eq(mkdir("root/in", 0755), 0);
	ck_assert_int_eq(mkdir("outside", 0755), 0);
	close(open("root/in/file", O_CREAT | O_WRONLY, 0600));
	close(open("outside/file", O_CREAT | O_WRONLY, 0600));
	ck_assert_int_eq(symlink("../outside", "root/out"), 0);
	ck_assert_int_eq(symlink("in", "root/link"), 0);
	ck_assert_int_eq(symlink("../outside/new", "root/dangling"), 0);
	ck_assert_int_eq(symlink("loop", "root/loop"), 0);
	ck_assert_int_eq(mkfifo("root/fifo", 0600), 0);
	(void)snprintf(path, sizeof(path), "%s/root", top);
	ck_assert_int_eq(files_init(&files, path, &err), 0);
}

static void
tear_down(void)
{
	struct error err;
	struct files all;

	ck_assert_int_eq(chdir("/"), 0);
	ck_assert_int_eq(files_init(&all, top, &err), 0);
	ck_assert_int_eq(files_delete(&all, ".", true, &err), 0);
	ck_assert_int_eq(rmdir(top), 0);
}

static const struct { const char *path; enum error_code code; } paths[] = {
	{ "in/file", ERR_NONE }, { "/in/file", ERR_NONE },
	{ "link/file", ERR_NONE }, { "./in//file", ERR_NONE },
	{ "in/../in/file", ERR_NONE }, { "/../../in/file", ERR_NONE },
	{ "", ERR_NONE }, { ".", ERR_NONE }, { "/", ERR_NONE },
	{ "..", ERR_DENIED }, { "in/../..", ERR_DENIED },
	{ "../root/in/file", ERR_DENIED }, { "out/file", ERR_DENIED },
	{ "out", ERR_DENIED }, { "out/none/deeper", ERR_DENIED },
	{ "none", ERR_GONE }, { "none/deeper", ERR_GONE },
	{ "dangling", ERR_GONE }, { "loop", ERR_GONE },
	{ "/etc/passwd", ERR_GONE }, { "in/file/below", ERR_SYSTEM },
	{ "fifo", ERR_INPUT },
};

START_TEST(resolves_paths_below_the_root_only)
{
	struct error err = { .code = ERR_NONE };
	struct files_view v;
	struct buf b;

	buf_init(&b, 1 << 16);
	(void)files_get(&files, paths[_i].path, &v, &b, &err);
	ck_assert_msg(err.code == paths[_i].code, "%s: %d %s", paths[_i].path,
	    (int)err.code, err.text);
	if (v.fd != -1)
		close(v.fd);
	buf_free(&b);
}
END_TEST

START_TEST(takes_an_absolute_path_below_the_root_as_itself)
{
	char path[300];
	struct files_view v;
	struct error err;

	(void)snprintf(path, sizeof(path), "%s/root/in/file", top);
	ck_assert_int_eq(files_get(&files, path, &v, NULL, &err), 0);
	close(v.fd);
	(void)snprintf(path, sizeof(path), "%s/outside/file", top);
	ck_assert_int_eq(files_get(&files, path, &v, NULL, &err), -1);
	ck_assert_int_eq(err.code, ERR_GONE);
}
END_TEST

static int
put(const char *path, long mode, int64_t offset, const char *text,
    struct error *err)
{
	struct files_put p;
	int r = files_put(&files, path, mode, offset, &p, err);

	if (r == 0)
		r = files_put_data(&p, text, strlen(text), err);
	return r == 0 ? files_put_end(&p, err) : r;
}

static void
holds(const char *path, const char *want, mode_t mode)
{
	struct files_view v;
	struct error err;
	struct stat st;
	char got[64];
	ssize_t n;

	ck_assert_int_eq(files_get(&files, path, &v, NULL, &err), 0);
	n = read(v.fd, got, sizeof(got));
	ck_assert_int_eq(n, (long)strlen(want));
	ck_assert_mem_eq(got, want, strlen(want));
	ck_assert_int_eq(fstat(v.fd, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, mode);
	close(v.fd);
}

START_TEST(writes_new_files_and_their_parents)
{
	struct error err;

	ck_assert_int_eq(put("a/b/c", -1, -1, "new", &err), 0);
	holds("a/b/c", "new", 0644);
	ck_assert_int_eq(put("a/b/c", 0750, -1, "newer", &err), 0);
	holds("a/b/c", "newer", 0750);
	ck_assert_int_eq(put("a/b/c", -1, -1, "same mode", &err), 0);
	holds("a/b/c", "same mode", 0750);
	ck_assert_int_eq(put("link/x", 0600, -1, "through", &err), 0);
	holds("in/x", "through", 0600);
}
END_TEST

START_TEST(writes_in_place_when_asked_to)
{
	struct error err;

	ck_assert_int_eq(put("f", -1, -2, "abc", &err), 0);
	ck_assert_int_eq(put("f", -1, -2, "def", &err), 0);
	holds("f", "abcdef", 0644);
	ck_assert_int_eq(put("f", 0600, 2, "XY", &err), 0);
	holds("f", "abXYef", 0600);
}
END_TEST

static const struct {
	const char *path;
	int64_t offset;
	enum error_code code;
} unwritable[] = {
	{ "in", -1, ERR_INPUT }, { "", -1, ERR_INPUT },
	{ "new/", -1, ERR_INPUT }, { "fifo", -1, ERR_INPUT },
	{ "out/new", -1, ERR_DENIED }, { "../new", -1, ERR_DENIED },
	{ "in/file/below", -1, ERR_SYSTEM }, { "dangling", 0, ERR_GONE },
	{ "dangling", -2, ERR_GONE },
};

START_TEST(refuses_to_write_elsewhere)
{
	struct error err = { .code = ERR_NONE };

	ck_assert_int_eq(put(unwritable[_i].path, -1, unwritable[_i].offset,
	    "x", &err), -1);
	ck_assert_msg(err.code == unwritable[_i].code, "%s: %d %s",
	    unwritable[_i].path, (int)err.code, err.text);
	ck_assert_int_eq(access("outside/new", F_OK), -1);
}
END_TEST

START_TEST(leaves_nothing_of_a_write_that_was_given_up)
{
	struct files_put p;
	struct error err;

	ck_assert_int_eq(files_put(&files, "in/file", -1, -1, &p, &err), 0);
	ck_assert_int_eq(files_put_data(&p, "half", 4, &err), 0);
	files_put_abort(&p);
	files_put_abort(&p);
	holds("in/file", "", 0600);
	ck_assert_int_eq(files_delete(&files, "in/file", false, &err), 0);
	ck_assert_int_eq(files_delete(&files, "in", false, &err), 0);
}
END_TEST

START_TEST(deletes_links_and_not_what_they_lead_to)
{
	struct error err;

	ck_assert_int_eq(files_delete(&files, "out", true, &err), 0);
	ck_assert_int_eq(files_delete(&files, "dangling", false, &err), 0);
	ck_assert_int_eq(access("outside/file", F_OK), 0);
	ck_assert_int_eq(symlink("../../outside", "root/in/out"), 0);
	ck_assert_int_eq(files_delete(&files, "in", false, &err), -1);
	ck_assert_int_eq(err.code, ERR_CONFLICT);
	ck_assert_int_eq(files_delete(&files, "in", true, &err), 0);
	ck_assert_int_eq(access("outside/file", F_OK), 0);
	ck_assert_int_eq(files_delete(&files, "in", true, &err), -1);
	ck_assert_int_eq(err.code, ERR_GONE);
}
END_TEST

START_TEST(clears_the_root_and_keeps_it)
{
	struct error err;

	ck_assert_int_eq(files_delete(&files, "/", false, &err), -1);
	ck_assert_int_eq(err.code, ERR_CONFLICT);
	ck_assert_int_eq(files_delete(&files, "", true, &err), 0);
	ck_assert_int_eq(rmdir("root"), 0);
	ck_assert_int_eq(mkdir("root", 0755), 0);
}
END_TEST

START_TEST(lists_what_is_below_the_root)
{
	struct files_view v;
	struct error err;
	struct buf b;

	buf_init(&b, 1 << 16);
	ck_assert_int_eq(files_get(&files, "", &v, &b, &err), 0);
	ck_assert(v.is_dir);
	ck_assert_ptr_nonnull(strstr(b.data, "{\"path\":\"/\",\"entries\":["
	    "{\"name\":\"fifo\","));
	ck_assert_ptr_nonnull(strstr(b.data, "{\"name\":\"link\""));
	ck_assert_ptr_null(strstr(b.data, "out"));
	ck_assert_ptr_null(strstr(b.data, "dangling"));
	buf_free(&b);
	buf_init(&b, 40);
	ck_assert_int_eq(files_get(&files, "", &v, &b, &err), -1);
	ck_assert_int_eq(err.code, ERR_SYSTEM);
	buf_free(&b);
}
END_TEST

static const struct {
	const char *field;
	int64_t size;
	int r;
	int64_t first, len;
} ranges[] = {
	{ "bytes=0-0", 10, 1, 0, 1 }, { "bytes=2-5", 10, 1, 2, 4 },
	{ "bytes=5-", 10, 1, 5, 5 }, { "bytes=-3", 10, 1, 7, 3 },
	{ "bytes=0-99", 10, 1, 0, 10 }, { "bytes=-99", 10, 1, 0, 10 },
	{ "bytes=9-9", 10, 1, 9, 1 },
	{ "bytes=10-", 10, -1, 0, 0 }, { "bytes=-0", 10, -1, 0, 0 },
	{ "bytes=0-", 0, -1, 0, 0 }, { "bytes=99-100", 10, -1, 0, 0 },
	{ "bytes=5-2", 10, 0, 0, 0 }, { "bytes=0-1,3-4", 10, 0, 0, 0 },
	{ "lines=1-2", 10, 0, 0, 0 }, { "bytes=", 10, 0, 0, 0 },
	{ "bytes=a-b", 10, 0, 0, 0 }, { "bytes=1-2x", 10, 0, 0, 0 },
	{ "bytes=--1", 10, 0, 0, 0 },
	{ "bytes=9999999999999999999-", 10, 0, 0, 0 },
};

START_TEST(reads_one_range)
{
	int64_t first = 0, len = 0;

	ck_assert_int_eq(files_range(ranges[_i].field, ranges[_i].size, &first,
	    &len), ranges[_i].r);
	ck_assert_int_eq(first, ranges[_i].first);
	ck_assert_int_eq(len, ranges[_i].len);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("agent-files");
	TCase *t = tcase_create("files");

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_loop_test(t, resolves_paths_below_the_root_only, 0,
	    COUNT(paths));
	tcase_add_test(t, takes_an_absolute_path_below_the_root_as_itself);
	tcase_add_test(t, writes_new_files_and_their_parents);
	tcase_add_test(t, writes_in_place_when_asked_to);
	tcase_add_loop_test(t, refuses_to_write_elsewhere, 0,
	    COUNT(unwritable));
	tcase_add_test(t, leaves_nothing_of_a_write_that_was_given_up);
	tcase_add_test(t, deletes_links_and_not_what_they_lead_to);
	tcase_add_test(t, clears_the_root_and_keeps_it);
	tcase_add_test(t, lists_what_is_below_the_root);
	tcase_add_loop_test(t, reads_one_range, 0, COUNT(ranges));
	suite_add_tcase(s, t);
	return suite_run(s);
}
