/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dryrun - a tool that says what it would make, and makes nothing.
 *
 * Where the tool has a plan (tools.h), the result holds the manifest, the path
 * it would be POSTed to, and what the API server says to it with dryRun=All:
 * admission, quotas and the namespace's rules have had their say. Values of
 * variables and of Secrets are left out. A tool without a plan changes what is
 * there and is refused.
 */
#ifndef DRYRUN_H
#define DRYRUN_H

#include "json.h"
#include "tools.h"

struct jsonw;

/* A row to be offered instead of t, which is not read-only. */
struct tool dryrun_tool(const struct tool *t);

/* The manifest as it is shown; for tests. */
void dryrun_manifest(struct jsonw *w, struct json manifest);

#endif
