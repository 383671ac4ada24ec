/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "dryrun.h"
#include "error.h"
#include "offer.h"
#include "tools.h"
#include "tools-bash.h"
#include "tools-job.h"
#include "tools-sandbox.h"

static const struct tool *const all_tools[] = {
	&tool_cancel_job, &tool_fetch_job, &tool_list_jobs, &tool_run_job,
	&tool_submit_job, &tool_bash, &tool_bash_output,
	&tool_create_sandbox, &tool_delete_sandbox,
	&tool_execute_command, &tool_upload_file, &tool_download_file,
	&tool_list_files, &tool_file_exists, &tool_get_sandbox_status,
	&tool_list_sandboxes, &tool_stat_file, &tool_delete_file,
	&tool_move_file, &tool_extend_sandbox, &tool_suspend_sandbox,
	&tool_resume_sandbox, &tool_list_warm_pools,
};

enum { NTOOLS = sizeof(all_tools) / sizeof(all_tools[0]) };

_Static_assert((int)NTOOLS <= (int)OFFER_TOOLS, "all of them fit");

/* What a model is told once, a paragraph a family that is offered. */
static const struct {
	const char *name;
	unsigned family;
	const char *text;
} families[] = {
	{ "agent-sandbox", FAMILY_SANDBOX,
	"Sandboxes are pods on a Kubernetes cluster, each made for you alone. "
	"create_sandbox takes one from a warm pool (list_warm_pools) and "
	"returns its handle (sandbox_claim_name); pass handle and namespace to "
	"the other tools. execute_command runs a shell command in it and "
	"returns exit code and output; the beginning and the end of long "
	"output are kept. upload_file and download_file move any bytes, large "
	"files in pieces (offset, length). Paths without a leading slash begin "
	"where commands do. A sandbox ends by itself at its shutdown_time (300 "
	"s after its creation unless set; extend_sandbox sets it anew); "
	"delete_sandbox ends it at once: do that when the work is done." },
	{ "bash", FAMILY_BASH,
	"bash runs commands in one shell in a pod of your own, which is made "
	"at the first command and ends with this connection or when it has "
	"been idle for long. Working directory, variables and files stay from "
	"one command to the next." },
	{ "jobs", FAMILY_JOBS,
	"run_job runs one command in a fresh pod and returns its output and "
	"the files it made; submit_job does so in the background and returns a "
	"job_token, good for fetch_job and cancel_job, from any connection." },
};

enum { NFAMILIES = sizeof(families) / sizeof(families[0]) };

/* Is it asked for by its name or its family, or, where nobody asks, is its
 * family the one whose settings are set? */
static bool
tool_wanted(const struct config *c, const struct tool *t, unsigned family)
{
	if ((c->deny != NULL && (config_allows(c->deny, t->name) ||
	    config_allows(c->deny, t->family))) ||
	    (c->read_only && (t->hints & HINT_READ_ONLY) == 0))
		return false;
	if (c->tools != NULL)
		return config_allows(c->tools, t->name) ||
		    config_allows(c->tools, t->family);
	/* Without an image that may run there is nothing to offer. */
	if (c->families == 0)
		return family != FAMILY_JOBS;
	return (c->families & family) != 0;
}

/* As it is, or as a dry run has it. */
static const struct tool *
tool_row(struct offer *o, const struct config *c, size_t i)
{
	if (!c->dry_run || all_tools[i]->hints & HINT_READ_ONLY)
		return all_tools[i];
	o->dry[i] = dryrun_tool(all_tools[i]);
	return &o->dry[i];
}

int
offer_choose(struct offer *o, const struct config *c, struct error *err)
{
	char *at = o->instructions, *end = at + sizeof(o->instructions);
	size_t n = 0;

	for (size_t f = 0; f < NFAMILIES; f++) {
		bool any = false;

		for (size_t i = 0; i < NTOOLS; i++)
			if (strcmp(all_tools[i]->family, families[f].name) ==
			    0 && tool_wanted(c, all_tools[i],
			    families[f].family)) {
				o->tools[n++] = tool_row(o, c, i);
				any = true;
			}
		if (!any)
			continue;
		at += snprintf(at, (size_t)(end - at), "%s%s",
		    at > o->instructions ? "\n\n" : "", families[f].text);
		o->families |= families[f].family;
	}
	if (n > 0)
		return 0;
	return error_set(err, ERR_CONFIG, "--tools%s%s: no tool is left of "
	    "'%.80s'; the families are agent-sandbox, bash and jobs",
	    c->deny != NULL ? ", --deny-tools" : "",
	    c->read_only ? ", --read-only" : "",
	    c->tools != NULL ? c->tools : "all");
}
