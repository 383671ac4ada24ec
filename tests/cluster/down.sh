#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Stop what up.sh started, and only that: each process it noted, if it is still
# the same one, then the containers of its own containerd, mounts below the
# state folder, the bridge, the control groups.  Binaries, images, keys and logs
# stay.

set -u
. "$(dirname "$0")/lib.sh"

[ -f "$R/pids" ] || { echo "not up"; exit 0; }

# containers_remove: what is left of a killed container has to be taken out of
# containerd while that still runs; libcni's notes are at a fixed path.
containers_remove()
{
	local c i ctr="ctr -a $R/containerd.sock -n k8s.io"

	for c in $($ctr tasks ls -q 2> /dev/null); do
		$ctr tasks kill -a -s KILL "$c" 2> /dev/null
	done
	for i in $(seq 50); do
		$ctr tasks ls 2> /dev/null | grep -q RUNNING || break
		sleep .1
	done
	for c in $($ctr tasks ls -q 2> /dev/null); do
		$ctr tasks rm -f "$c" > /dev/null 2>&1
	done
	for c in $($ctr containers ls -q 2> /dev/null); do
		rm -f /var/lib/cni/results/*-"$c"-*
		$ctr containers rm "$c" > /dev/null 2>&1
	done
}

# Pod volumes, shared memory, network namespaces, overlays: deepest first.
mounts_remove()
{
	awk '{print $5}' /proc/self/mountinfo | grep "^$C/" | sort -r |
	    while read -r m; do
		umount -l "$m" 2> /dev/null
	done
}

# What the kubelet leaves at paths that cannot be set.
rest_remove()
{
	local d l

	ip link del $BR 2> /dev/null
	for d in /sys/fs/cgroup/*/kubepods /sys/fs/cgroup/kubepods; do
		[ -d "$d" ] && find "$d" -depth -type d -exec rmdir {} \; \
		    2> /dev/null
	done
	for l in /var/log/containers/*.log; do
		case "$(readlink "$l")" in
		"$C"/podlogs/*) rm -f "$l" ;;
		esac
	done
	rm -rf "$C/kubelet" "$C/podlogs" "$R"
}

stop controller
stop kubelet kube-scheduler kube-controller-manager kube-apiserver etcd
containers_remove
stop containerd
mounts_remove
rest_remove
say "down"
