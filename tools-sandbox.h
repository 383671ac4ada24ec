/* SPDX-License-Identifier: Apache-2.0 */
/* tools-sandbox - the rows of the agent-sandbox family, as they are listed. */
#ifndef TOOLS_SANDBOX_H
#define TOOLS_SANDBOX_H

#include "tools.h"

extern const struct tool tool_create_sandbox;
extern const struct tool tool_delete_sandbox;
extern const struct tool tool_execute_command;
extern const struct tool tool_get_sandbox_status;
extern const struct tool tool_list_sandboxes;
extern const struct tool tool_upload_file;
extern const struct tool tool_download_file;
extern const struct tool tool_list_files;
extern const struct tool tool_file_exists;
extern const struct tool tool_stat_file;
extern const struct tool tool_delete_file;
extern const struct tool tool_move_file;
extern const struct tool tool_extend_sandbox;
extern const struct tool tool_suspend_sandbox;
extern const struct tool tool_resume_sandbox;
extern const struct tool tool_list_warm_pools;

/* Resources; NULL at the end. */
extern const struct tool *const sandbox_methods[];

#endif
