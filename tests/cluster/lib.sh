# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
#
# What the scripts of this folder share; sourced, never run.
#
# CLUSTER names the state folder: binaries, images, keys, logs and, while a
# cluster is up, run/ with the pids.  The addresses are fixed, so there is one
# cluster a machine.

H=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
C=${CLUSTER:-${XDG_CACHE_HOME:-$HOME/.cache}/mcp-sandbox/cluster}
R=$C/run
L=$C/log
P=$C/pki
BR=ktbr0
IP=10.244.0.1
NET=10.244.0.0/24
API=$IP:16443
KUBECONFIG=$C/admin.kubeconfig
export KUBECONFIG

LIB_START=$(date +%s%3N)

# Print the seconds since the script started, and a text.
say()
{
	local ms=$(($(date +%s%3N) - LIB_START))

	printf '%4d.%02ds %s\n' $((ms / 1000)) $((ms % 1000 / 10)) "$*"
}

die()
{
	echo "${0##*/}: $*" >&2
	exit 1
}

# born PID: the start time of a process, which tells it from a later one that
# got the same number.
born()
{
	awk '{ sub(/.*\) /, ""); print $20 }' "/proc/$1/stat" 2>/dev/null
}

# start NAME COMMAND...: in its own session, logged, noted for down.sh. It
# inherits nothing else: a lock of the caller's would be held for ever.
start()
{
	local name=$1

	shift
	(
		for f in "/proc/$BASHPID/fd"/*; do
			f=${f##*/}
			[ "$f" -le 2 ] || eval "exec $f>&-"
		done
		exec setsid "$@"
	) > "$L/$name.log" 2>&1 < /dev/null &
	echo "$! $name $(born $!)" >> "$R/pids"
}

# stop NAME...: every noted process of these names.  State is thrown away, so
# there is no need to be gentle.
stop()
{
	local name pid n b i

	for name in "$@"; do
		while read -r pid n b; do
			[ "$n" = "$name" ] && [ "$(born "$pid")" = "$b" ] &&
			    kill -KILL "$pid"
		done < "$R/pids"
	done
	for name in "$@"; do
		while read -r pid n b; do
			[ "$n" = "$name" ] || continue
			for i in $(seq 200); do
				[ "$(born "$pid")" = "$b" ] || break
				sleep .02
			done
		done < "$R/pids"
	done
}
