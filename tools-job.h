/* SPDX-License-Identifier: Apache-2.0 */
/* tools-job - the rows of the jobs family, as they are listed. */
#ifndef TOOLS_JOB_H
#define TOOLS_JOB_H

#include "tools.h"

extern const struct tool tool_cancel_job;
extern const struct tool tool_fetch_job;
extern const struct tool tool_list_jobs;
extern const struct tool tool_run_job;
extern const struct tool tool_submit_job;

#endif
