/* SPDX-License-Identifier: Apache-2.0 */
#include "budget.h"

static const struct limit rows[] = {
	/* The name is written without its LIMIT_, six bytes. */
#define X(name, value, unit, what) { &#name[6], value, unit, what },
	LIMITS(X)
#undef X
};

const struct limit *
limits_rows(size_t *n)
{
	*n = sizeof(rows) / sizeof(rows[0]);
	return rows;
}
