/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "mono.h"

long
mono_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}
