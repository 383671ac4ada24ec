/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../buf.h"
#include "../error.h"
#include "../json.h"
#include "../jsonw.h"
#include "../tools.h"
#include "suite.h"

static const char *const colours[] = { "red", "green", NULL };

static const struct arg file[] = {
	{ .name = "path", .type = ARG_STRING, .flags = ARG_REQUIRED, .min = 1,
	    .max = 8, .help = "Where" },
	{ .name = "mode", .type = ARG_INT, .min = 0, .max = 511, .def = "420" },
	{ NULL }
};
static const struct arg file_row[] = {
	{ .type = ARG_OBJECT, .of = file, .help = "One file" },
	{ NULL }
};
static const struct arg words[] = { { .type = ARG_STRING }, { NULL } };

static const struct arg all[] = {
	{ .name = "name", .type = ARG_STRING, .flags = ARG_REQUIRED,
	    .min = 1, .max = 4, .help = "Four characters" },
	{ .name = "timeout", .type = ARG_INT, .flags = ARG_ABOVE, .min = 0,
	    .max = 600, .def = "60", .help = "Seconds" },
	{ .name = "ttl", .type = ARG_INT, .flags = ARG_ABOVE | ARG_NULL,
	    .def = "300" },
	{ .name = "any", .type = ARG_INT, .def = "7" },
	{ .name = "load", .type = ARG_NUMBER, .min = -1, .max = 2 },
	{ .name = "binary", .type = ARG_BOOL, .def = "false" },
	{ .name = "wanted", .type = ARG_BOOL, .def = "true" },
	{ .name = "labels", .type = ARG_MAP, .flags = ARG_NULL, .max = 2,
	    .def = "null", .help = "Labels" },
	{ .name = "colour", .type = ARG_STRING, .one_of = colours },
	{ .name = "files", .type = ARG_ARRAY, .max = 2, .of = file_row },
	{ .name = "argv", .type = ARG_ARRAY, .min = 1, .max = 3, .of = words },
	{ .name = "one", .type = ARG_OBJECT, .of = file },
	{ NULL }
};
static const struct arg out[] = {
	{ .name = "exit_code", .type = ARG_INT, .flags = ARG_REQUIRED,
	    .help = "Its status" },
	{ .name = "note", .type = ARG_STRING },
	{ NULL }
};

static const struct tool full = {
	.name = "full", .title = "All of it", .help = "Takes everything",
	.args = all, .out = out,
	.hints = HINT_DESTRUCTIVE | HINT_OPEN_WORLD,
};
static const struct tool bare = {
	.name = "bare", .help = "Takes nothing", .hints = HINT_READ_ONLY,
};
static const struct tool raw = {
	.name = "raw", .help = "Takes its own",
	.in_schema = "{\"type\":\"object\",\"$comment\":\"mine\"}",
};
static const struct tool method = { .name = "some/method", .args = file };
static const struct tool *const rows[] = { &full, &bare, &raw, NULL };

static const char listed[] =
    "{\"tools\":[{\"name\":\"full\",\"title\":\"All of it\","
    "\"description\":\"Takes everything\",\"inputSchema\":{\"type\":\"object\","
    "\"properties\":{"
    "\"name\":{\"description\":\"Four characters\",\"type\":\"string\","
    "\"minLength\":1,\"maxLength\":4},"
    "\"timeout\":{\"description\":\"Seconds\",\"type\":\"integer\","
    "\"exclusiveMinimum\":0,\"maximum\":600,\"default\":60},"
    "\"ttl\":{\"anyOf\":[{\"type\":\"integer\",\"exclusiveMinimum\":0},"
    "{\"type\":\"null\"}],\"default\":300},"
    "\"any\":{\"type\":\"integer\",\"default\":7},"
    "\"load\":{\"type\":\"number\",\"minimum\":-1,\"maximum\":2},"
    "\"binary\":{\"type\":\"boolean\",\"default\":false},"
    "\"wanted\":{\"type\":\"boolean\",\"default\":true},"
    "\"labels\":{\"description\":\"Labels\",\"anyOf\":[{\"type\":\"object\","
    "\"maxProperties\":2,\"additionalProperties\":{\"type\":\"string\"}},"
    "{\"type\":\"null\"}],\"default\":null},"
    "\"colour\":{\"type\":\"string\",\"enum\":[\"red\",\"green\"]},"
    "\"files\":{\"type\":\"array\",\"maxItems\":2,\"items\":{"
    "\"description\":\"One file\",\"type\":\"object\",\"properties\":{"
    "\"path\":{\"description\":\"Where\",\"type\":\"string\",\"minLength\":1,"
    "\"maxLength\":8},\"mode\":{\"type\":\"integer\",\"minimum\":0,"
    "\"maximum\":511,\"default\":420}},\"required\":[\"path\"],"
    "\"additionalProperties\":false}},"
    "\"argv\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":3,"
    "\"items\":{\"type\":\"string\"}},"
    "\"one\":{\"type\":\"object\",\"properties\":{"
    "\"path\":{\"description\":\"Where\",\"type\":\"string\",\"minLength\":1,"
    "\"maxLength\":8},\"mode\":{\"type\":\"integer\",\"minimum\":0,"
    "\"maximum\":511,\"default\":420}},\"required\":[\"path\"],"
    "\"additionalProperties\":false}},"
    "\"required\":[\"name\"],\"additionalProperties\":false},"
    "\"outputSchema\":{\"type\":\"object\",\"properties\":{"
    "\"exit_code\":{\"description\":\"Its status\",\"type\":\"integer\"},"
    "\"note\":{\"type\":\"string\"}},\"required\":[\"exit_code\"]},"
    "\"annotations\":{\"readOnlyHint\":false,\"destructiveHint\":true,"
    "\"idempotentHint\":false,\"openWorldHint\":true}},"
    "{\"name\":\"bare\",\"description\":\"Takes nothing\","
    "\"inputSchema\":{\"type\":\"object\",\"properties\":{},"
    "\"additionalProperties\":false},"
    "\"annotations\":{\"readOnlyHint\":true,\"destructiveHint\":false,"
    "\"idempotentHint\":false,\"openWorldHint\":false}},"
    "{\"name\":\"raw\",\"description\":\"Takes its own\","
    "\"inputSchema\":{\"type\":\"object\",\"$comment\":\"mine\"},"
    "\"annotations\":{\"readOnlyHint\":false,\"destructiveHint\":false,"
    "\"idempotentHint\":false,\"openWorldHint\":false}}]}";

START_TEST(lists_what_it_will_check)
{
	struct buf b;
	struct jsonw w;

	buf_init(&b, 1 << 20);
	jsonw_init(&w, &b);
	jsonw_object(&w, NULL);
	tools_list(&w, rows);
	jsonw_end(&w);
	ck_assert(buf_ok(&b));
	ck_assert_str_eq(b.data, listed);
	buf_free(&b);
}
END_TEST

START_TEST(finds_a_tool_by_its_whole_name)
{
	static const char text[] = "[\"bare\",\"bar\",\"bare \",\"b\\u0061re\",1]";
	struct error err;
	struct json_doc *doc = json_parse(text, strlen(text), &err);
	struct json names = json_root(doc);

	ck_assert_ptr_eq(tools_find(rows, json_at(names, 0)), &bare);
	ck_assert_ptr_null(tools_find(rows, json_at(names, 1)));
	ck_assert_ptr_null(tools_find(rows, json_at(names, 2)));
	ck_assert_ptr_eq(tools_find(rows, json_at(names, 3)), &bare);
	ck_assert_ptr_null(tools_find(rows, json_at(names, 4)));
	ck_assert_ptr_null(tools_find(NULL, json_at(names, 0)));
	json_free(doc);
}
END_TEST

/* "" when the arguments are taken, else the text of the refusal. */
static void
check(const struct tool *t, const char *args, const char *want)
{
	struct error err = { .text = "" };
	struct json_doc *doc = json_parse(args, strlen(args), &err);
	int r;

	ck_assert_msg(doc != NULL, "%s: %s", args, err.text);
	r = tools_check(t, json_root(doc), &err);
	ck_assert_msg(r == (*want == '\0' ? 0 : -1), "%s: %s", args, err.text);
	ck_assert_str_eq(err.text, want);
	if (r == -1)
		ck_assert_int_eq(err.code, ERR_INPUT);
	json_free(doc);
}

static const char *const taken[] = {
	"{\"name\":\"a\"}",
	/* four characters in 16 bytes, and the same as escapes */
	"{\"name\":\"\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80"
	    "\xf0\x9f\x98\x80\"}",
	"{\"name\":\"\\ud83d\\ude00\\ud83d\\ude00\\u0000\\n\"}",
	"{\"name\":\"a\",\"timeout\":1}", "{\"name\":\"a\",\"timeout\":600}",
	"{\"name\":\"a\",\"timeout\":\"20\"}",
	"{\"name\":\"a\",\"timeout\":\" +20 \"}",
	"{\"name\":\"a\",\"timeout\":\"20.0\"}",
	"{\"name\":\"a\",\"timeout\":20.0}", "{\"name\":\"a\",\"timeout\":2e1}",
	"{\"name\":\"a\",\"timeout\":true}",
	"{\"name\":\"a\",\"ttl\":null}", "{\"name\":\"a\",\"ttl\":1}",
	"{\"name\":\"a\",\"ttl\":99999999999999999999999}",
	"{\"name\":\"a\",\"any\":-5}", "{\"name\":\"a\",\"any\":0}",
	"{\"name\":\"a\",\"load\":-1}", "{\"name\":\"a\",\"load\":1.5}",
	"{\"name\":\"a\",\"binary\":false}", "{\"name\":\"a\",\"binary\":\"YES\"}",
	"{\"name\":\"a\",\"binary\":\"off\"}", "{\"name\":\"a\",\"binary\":1}",
	"{\"name\":\"a\",\"binary\":0.0}", "{\"name\":\"a\",\"binary\":\"0\"}",
	"{\"name\":\"a\",\"labels\":null}", "{\"name\":\"a\",\"labels\":{}}",
	"{\"name\":\"a\",\"labels\":{\"x\":\"y\",\"z\":\"\"}}",
	"{\"name\":\"a\",\"colour\":\"gr\\u0065en\"}",
	"{\"name\":\"a\",\"files\":[]}",
	"{\"name\":\"a\",\"files\":[{\"path\":\"p\"},{\"path\":\"q\",\"mode\":0}]}",
	"{\"name\":\"a\",\"argv\":[\"\"]}", "{\"name\":\"a\",\"one\":{\"path\":\"p\"}}",
	"{\"n\\u0061me\":\"a\"}",
};

START_TEST(takes_what_the_rows_allow)
{
	check(&full, taken[_i], "");
}
END_TEST

static const struct {
	const char *args, *text;
} refused[] = {
	{ "{}", "full: name is missing" },
	{ "{\"name\":null}", "full: name must be a string, not null" },
	{ "{\"name\":5}", "full: name must be a string, not 5" },
	{ "{\"name\":true}", "full: name must be a string, not true" },
	{ "{\"name\":\"\"}",
	    "full: name must have at least 1 and at most 4 characters" },
	{ "{\"name\":\"\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\"}",
	    "full: name must have at least 1 and at most 4 characters" },
	{ "{\"name\":\"a\",\"timeout\":0}", "full: timeout must be an integer "
	    "above 0 and at most 600, not 0" },
	{ "{\"name\":\"a\",\"timeout\":601}", "full: timeout must be an integer "
	    "above 0 and at most 600, not 601" },
	{ "{\"name\":\"a\",\"timeout\":20.5}", "full: timeout must be an integer "
	    "above 0 and at most 600, not 20.5" },
	{ "{\"name\":\"a\",\"timeout\":\"abc\"}", "full: timeout must be an "
	    "integer above 0 and at most 600, not \"abc\"" },
	{ "{\"name\":\"a\",\"timeout\":\"\"}", "full: timeout must be an "
	    "integer above 0 and at most 600, not \"\"" },
	{ "{\"name\":\"a\",\"timeout\":\"2 0\"}", "full: timeout must be an "
	    "integer above 0 and at most 600, not \"2 0\"" },
	{ "{\"name\":\"a\",\"timeout\":\"20.5\"}", "full: timeout must be an "
	    "integer above 0 and at most 600, not \"20.5\"" },
	{ "{\"name\":\"a\",\"timeout\":\"0x10\"}", "full: timeout must be an "
	    "integer above 0 and at most 600, not \"0x10\"" },
	{ "{\"name\":\"a\",\"timeout\":99999999999999999999999}",
	    "full: timeout must be an integer above 0 and at most 600, "
	    "not 99999999999999999999999" },
	{ "{\"name\":\"a\",\"timeout\":1e999}", "full: timeout must be an "
	    "integer above 0 and at most 600, not 1e999" },
	{ "{\"name\":\"a\",\"timeout\":null}", "full: timeout must be an integer "
	    "above 0 and at most 600, not null" },
	{ "{\"name\":\"a\",\"timeout\":false}", "full: timeout must be an "
	    "integer above 0 and at most 600, not false" },
	{ "{\"name\":\"a\",\"ttl\":0}",
	    "full: ttl must be an integer above 0, not 0" },
	{ "{\"name\":\"a\",\"ttl\":-99999999999999999999999}", "full: ttl must "
	    "be an integer above 0, not -99999999999999999999999" },
	{ "{\"name\":\"a\",\"any\":[]}", "full: any must be an integer, not []" },
	{ "{\"name\":\"a\",\"load\":2.5}", "full: load must be a number at least "
	    "-1 and at most 2, not 2.5" },
	{ "{\"name\":\"a\",\"load\":\"1\"}", "full: load must be a number at "
	    "least -1 and at most 2, not \"1\"" },
	{ "{\"name\":\"a\",\"binary\":\"maybe\"}",
	    "full: binary must be true or false, not \"maybe\"" },
	{ "{\"name\":\"a\",\"binary\":2}",
	    "full: binary must be true or false, not 2" },
	{ "{\"name\":\"a\",\"labels\":[]}",
	    "full: labels must be an object or null, not []" },
	{ "{\"name\":\"a\",\"labels\":{\"x\":1}}",
	    "full: labels[\"x\"] must be a string, not 1" },
	{ "{\"name\":\"a\",\"labels\":{\"x\":\"\",\"y\":\"\",\"z\":\"\"}}",
	    "full: labels must have at most 2 members" },
	{ "{\"name\":\"a\",\"colour\":\"blue\"}",
	    "full: colour must be one of \"red\", \"green\", not \"blue\"" },
	{ "{\"name\":\"a\",\"files\":{}}",
	    "full: files must be an array, not {}" },
	{ "{\"name\":\"a\",\"files\":[{\"path\":\"p\"},{\"mode\":512}]}",
	    "full: files[1].path is missing; files[1].mode must be an integer "
	    "at least 0 and at most 511, not 512" },
	{ "{\"name\":\"a\",\"files\":[{},{},{}]}",
	    "full: files must have at most 2 elements" },
	{ "{\"name\":\"a\",\"files\":[1]}",
	    "full: files[0] must be an object, not 1" },
	{ "{\"name\":\"a\",\"argv\":[]}",
	    "full: argv must have at least 1 and at most 3 elements" },
	{ "{\"name\":\"a\",\"argv\":[\"x\",2]}",
	    "full: argv[1] must be a string, not 2" },
	{ "{\"name\":\"a\",\"one\":{\"path\":\"p\",\"extra\":1}}",
	    "full: one.extra is not known here (there is: path, mode)" },
	{ "{\"name\":\"a\",\"colour\":7,\"Name\":1}",
	    "full: colour must be a string, not 7; Name is not known here "
	    "(there is: name, timeout, ttl, any, load, binary, wanted, labels, "
	    "colour, files, argv, one)" },
	{ "{\"name\":\"a\",\"any\":\"\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
	    "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
	    "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
	    "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
	    "\"}", "full: any must be an integer, not \"\xc3\xa4\xc3\xa4\xc3\xa4"
	    "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
	    "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
	    "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4..." },
};

START_TEST(refuses_naming_argument_rule_and_value)
{
	check(&full, refused[_i].args, refused[_i].text);
}
END_TEST

START_TEST(counts_the_faults_it_has_no_room_for)
{
	struct error err;
	struct json_doc *doc;
	struct buf b;
	int r;

	buf_init(&b, 1 << 20);
	buf_puts(&b, "{\"name\":\"a\"");
	for (int i = 0; i < 1000; i++)
		buf_printf(&b, ",\"some_wrong_name_%d\":[1]", i);
	buf_puts(&b, "}");
	doc = json_parse(b.data, b.len, &err);
	ck_assert_ptr_nonnull(doc);
	r = tools_check(&full, json_root(doc), &err);
	ck_assert_int_eq(r, -1);
	ck_assert_ptr_nonnull(strstr(err.text, "some_wrong_name_0 is not"));
	ck_assert_ptr_nonnull(strstr(err.text, "; and 99"));
	ck_assert_ptr_nonnull(strstr(err.text, " more faults"));
	json_free(doc);
	buf_free(&b);
}
END_TEST

START_TEST(leaves_other_methods_their_envelope)
{
	check(&method, "{\"path\":\"p\",\"_meta\":{},\"requestState\":\"\"}", "");
	check(&method, "{\"_meta\":{}}", "some/method: path is missing");
	check(&raw, "{\"whatever\":[1]}", "");
	check(&bare, "{}", "");
}
END_TEST

static const struct {
	const char *args;
	long timeout, any;
	bool binary, wanted, ttl;
} values[] = {
	{ "{}", 60, 7, false, true, false },
	{ "{\"timeout\":\" 20 \",\"any\":\"-3\",\"binary\":\"On\","
	    "\"wanted\":\"f\",\"ttl\":5}", 20, -3, true, false, true },
	{ "{\"timeout\":20.0,\"any\":true,\"binary\":1,\"wanted\":0,"
	    "\"ttl\":null}", 20, 1, true, false, false },
	{ "{\"timeout\":6e2,\"any\":false,\"binary\":\"y\",\"wanted\":\"TRUE\"}",
	    600, 0, true, true, false },
	{ "{\"any\":9223372036854775807}", 60, 9223372036854775807L, false,
	    true, false },
};

START_TEST(gives_the_value_or_the_default)
{
	struct error err;
	struct json_doc *doc = json_parse(values[_i].args,
	    strlen(values[_i].args), &err);
	struct json a = json_root(doc);

	ck_assert_int_eq(tools_int(&full, a, "timeout"), values[_i].timeout);
	ck_assert_int_eq(tools_int(&full, a, "any"), values[_i].any);
	ck_assert_int_eq(tools_bool(&full, a, "binary"), values[_i].binary);
	ck_assert_int_eq(tools_bool(&full, a, "wanted"), values[_i].wanted);
	ck_assert_int_eq(tools_has(a, "ttl"), values[_i].ttl);
	json_free(doc);
}
END_TEST

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

int
main(void)
{
	Suite *s = suite_create("tools");
	TCase *t = tcase_create("tools");

	tcase_add_test(t, lists_what_it_will_check);
	tcase_add_test(t, finds_a_tool_by_its_whole_name);
	tcase_add_loop_test(t, takes_what_the_rows_allow, 0, COUNT(taken));
	tcase_add_loop_test(t, refuses_naming_argument_rule_and_value, 0,
	    COUNT(refused));
	tcase_add_test(t, counts_the_faults_it_has_no_room_for);
	tcase_add_test(t, leaves_other_methods_their_envelope);
	tcase_add_loop_test(t, gives_the_value_or_the_default, 0,
	    COUNT(values));
	suite_add_tcase(s, t);
	return suite_run(s);
}
