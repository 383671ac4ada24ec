/* SPDX-License-Identifier: Apache-2.0 */
/*
 * duration - lengths of time as Go writes them: "90s", "1h30m", "1.5h".
 *
 * A number needs a unit (ns, us, ms, s, m, h); only 0 may go without.
 */
#ifndef DURATION_H
#define DURATION_H

#include <stdbool.h>

/* In ms, rounded down; false: not a duration, or longer than 100 years. */
bool duration_ms(const char *text, long *ms);

#endif
