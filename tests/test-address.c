/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <string.h>

#include "../address.h"
#include "suite.h"

static const struct {
	const char *text, *as;		/* as: NULL, it is refused */
	bool literal, loopback;
} addresses[] = {
	{ "10.1.2.3", "10.1.2.3", true, false },
	{ "100.64.0.1", "100.64.0.1", true, false },
	{ "::ffff:10.1.2.3", "10.1.2.3", true, false },
	{ "FD00:0:0::1", "fd00::1", true, false },
	{ "2001:db8::1", "2001:db8::1", true, false },
	{ "127.0.0.1", NULL, true, false },
	{ "127.200.3.4", NULL, true, false },
	{ "::1", NULL, true, false },
	{ "::ffff:127.0.0.1", NULL, true, false },
	{ "127.200.3.4", "127.200.3.4", true, true },
	{ "::ffff:127.0.0.1", "127.0.0.1", true, true },
	{ "::1", "::1", true, true },
	{ "169.254.169.254", NULL, true, true },
	{ "::ffff:169.254.169.254", NULL, true, true },
	{ "64:ff9b::169.254.169.254", NULL, true, true },
	{ "169.254.0.1", NULL, true, true },
	{ "fe80::1", NULL, true, true },
	{ "febf::1", NULL, true, true },
	{ "fec0::1", "fec0::1", true, false },
	{ "fd00:ec2::254", NULL, true, true },
	{ "100.100.100.200", NULL, true, true },
	{ "168.63.129.16", NULL, true, true },
	{ "0.0.0.0", NULL, true, true },
	{ "0.1.2.3", NULL, true, true },
	{ "::", NULL, true, true },
	{ "::10.0.0.1", NULL, true, true },
	{ "224.0.0.1", NULL, true, true },
	{ "255.255.255.255", NULL, true, true },
	{ "ff02::1", NULL, true, true },
	{ "", NULL, false, true },
	{ "10.1", NULL, false, true },
	{ "10.1.2.3 ", NULL, false, true },
	{ "010.1.2.3", NULL, false, true },
	{ "fe80::1%eth0", NULL, false, true },
	{ "example.com", NULL, false, true },
};

START_TEST(only_hosts_of_others_may_be_dialled)
{
	char dst[ADDRESS_SIZE];
	bool literal, ok;

	ok = address_ok(addresses[_i].text, addresses[_i].loopback, dst,
	    &literal);
	ck_assert_msg(literal == addresses[_i].literal, "%s",
	    addresses[_i].text);
	ck_assert_msg(ok == (addresses[_i].as != NULL), "%s",
	    addresses[_i].text);
	if (ok)
		ck_assert_str_eq(dst, addresses[_i].as);
}
END_TEST

#define L63 "a23456789012345678901234567890123456789012345678901234567890123"

static const struct {
	const char *text;
	bool ok;
} names[] = {
	{ "a", true }, { "a.b-c.D1", true }, { L63, true },
	{ L63 "." L63 "." L63 ".a234567890123456789012345678901234567890123456"
	    "789012345678901", true },
	{ L63 "." L63 "." L63 ".a234567890123456789012345678901234567890123456"
	    "7890123456789012", false },
	{ "1.a", true }, { "0xg", true },
	{ "", false }, { ".", false }, { "a.", false }, { ".a", false },
	{ "a..b", false }, { "-a", false }, { "a-", false }, { "a_b", false },
	{ L63 "4", false }, { "1.2.3", false }, { "1", false },
	{ "0x7f.1", false }, { "0x7f", false }, { "a b", false },
	{ "a/b", false }, { "\xc3\xa4", false },
};

START_TEST(a_name_is_no_number)
{
	ck_assert_msg(address_name(names[_i].text) == names[_i].ok, "%s",
	    names[_i].text);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("address");
	TCase *t = tcase_create("address");

	suite_add_tcase(s, t);
	tcase_add_loop_test(t, only_hosts_of_others_may_be_dialled, 0,
	    sizeof(addresses) / sizeof(addresses[0]));
	tcase_add_loop_test(t, a_name_is_no_number, 0,
	    sizeof(names) / sizeof(names[0]));
	return suite_run(s);
}
