/* SPDX-License-Identifier: Apache-2.0 */
/* tools-bash - the rows of the bash family, as they are listed. */
#ifndef TOOLS_BASH_H
#define TOOLS_BASH_H

#include "tools.h"

extern const struct tool tool_bash;
extern const struct tool tool_bash_output;

#endif
