#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tests/venv.sh [REQUIREMENTS]: makes the tests' Python environment, once for
# each content of the requirements, outside the repository, and prints its
# python.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
requirements=${1:-$here/standin/requirements.txt}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/mcp-sandbox
venv=$cache/venv-$(sha256sum "$requirements" | cut -c1-12)

if [ -e "$venv/done" ]; then
	echo "$venv/bin/python"
	exit 0
fi

python=${PYTHON:-python3}
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
	if [ "$(id -u)" != 0 ]; then
		echo "venv.sh: missing: apt-get install python3-venv" >&2
		exit 1
	fi
	DEBIAN_FRONTEND=noninteractive apt-get -qq install -y \
	    --no-install-recommends python3 python3-venv >&2 || {
		apt-get -qq update >&2
		DEBIAN_FRONTEND=noninteractive apt-get -qq install -y \
		    --no-install-recommends python3 python3-venv >&2
	}
	python=/usr/bin/python3
fi

# Two at once must not see each other's half: the lock ends with the shell.
mkdir -p "$cache"
exec 9>"$venv.lock"
flock 9
if [ ! -e "$venv/done" ]; then
	rm -rf "$venv"
	"$python" -m venv "$venv" >&2
	"$venv/bin/python" -m pip -q --disable-pip-version-check install \
	    -r "$requirements" >&2
	touch "$venv/done"
fi
echo "$venv/bin/python"
