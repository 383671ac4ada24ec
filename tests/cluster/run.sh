#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The cluster tests from beginning to end: build, up, fixtures, pytest, down,
# whatever happens in between.  Arguments go to pytest.  K8S_KEEP=1 leaves the
# cluster up, and the next run takes it as it is.  MCP_SANDBOX names the program
# (default: the one at the top of the repository).

set -u
. "$(dirname "$0")/lib.sh"

export MCP_SANDBOX=${MCP_SANDBOX:-$H/../../mcp-sandbox}
export PYTHONDONTWRITEBYTECODE=1

# Nothing of ours is left: no process, bridge, mount or control group.
leftovers()
{
	local f

	for f in /proc/[0-9]*/cmdline; do
		{ tr '\0' ' ' < "$f"; } 2> /dev/null |
		    grep -E "$C/(bin|run)/"
	done
	ip -o link show $BR 2> /dev/null
	grep -F " $C/" /proc/self/mountinfo
	ls -d /sys/fs/cgroup/*/kubepods 2> /dev/null
}

finish()
{
	local left

	trap - EXIT INT TERM
	if [ "${K8S_KEEP:-}" = 1 ]; then
		echo "kept: KUBECONFIG=$C/admin.kubeconfig"
	else
		"$H/down.sh"
		left=$(leftovers)
		if [ -n "$left" ]; then
			printf 'left behind:\n%s\n' "$left" >&2
			exit 1
		fi
	fi
	exit "$1"
}

[ -x "$MCP_SANDBOX" ] || die "no $MCP_SANDBOX: make"
"$H/build.sh" || die "the build failed"
PYTHON=$("$H/../venv.sh") || die "no Python environment"
export PYTHON
trap 'finish 130' INT TERM
trap 'finish $?' EXIT
if [ ! -s "$R/pids" ]; then
	"$H/up.sh" && "$H/install.sh" || exit 1
fi
"$H/../twice" "$PYTHON" --tb=short "$@" "$H"
