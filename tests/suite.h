/* SPDX-License-Identifier: Apache-2.0 */
/*
 * suite - runs a test program's one suite and frees it, as loud as CK_ENV
 * (libcheck's CK_VERBOSITY) says; the result is main()'s.
 */
#ifndef TEST_SUITE_H
#define TEST_SUITE_H

#include <check.h>

static inline int
suite_run(Suite *s)
{
	SRunner *r = srunner_create(s);
	int failed;

	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}

#endif
