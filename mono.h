/* SPDX-License-Identifier: Apache-2.0 */
/* mono - milliseconds on a clock that never goes back. */
#ifndef MONO_H
#define MONO_H

long mono_ms(void);

#endif
