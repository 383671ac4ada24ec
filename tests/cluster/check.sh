#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the cluster itself can do, checked in a few seconds; the product has no
# part in it.  For when the tests fail and the question is whose fault it is.

set -u
. "$(dirname "$0")/lib.sh"
PATH=$C/bin:$PATH
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
n=0 bad=0

# ok NAME SCRIPT
ok()
{
	n=$((n + 1))
	if eval "$2"; then
		echo "ok   $1"
	else
		bad=$((bad + 1))
		echo "FAIL $1"
	fi
}

# code TOKEN PATH: the status of a request with a service account's token.
code()
{
	curl -s -o /dev/null -w '%{http_code}' --cacert "$P/ca.crt" \
	    -H "Authorization: Bearer $1" "https://$API$2"
}

in_pod()
{
	kubectl exec p1 -- sh -c "$1"
}

ones()
{
	head -c 1000000 /dev/zero | tr '\0' '\377'
}

# streams: exec and port-forward, over WebSockets or SPDY.
streams()
{
	local w=$1 pf

	export KUBECTL_REMOTE_COMMAND_WEBSOCKETS=$w
	export KUBECTL_PORT_FORWARD_WEBSOCKETS=$w
	in_pod 'echo OUT; echo ERR >&2; exit 7' > "$T/o" 2> "$T/e"
	ok "exec, websockets=$w: exit code, stdout, stderr" \
	    "[ $? = 7 ] && [ \"\$(cat $T/o)\" = OUT ] && grep -qx ERR $T/e"
	ok "exec, websockets=$w: stdin is binary safe" \
	    '[ "$(ones | kubectl exec -i p1 -- md5sum | cut -c1-32)" = \
	       "$(ones | md5sum | cut -c1-32)" ]'
	kubectl port-forward p1 18080:8080 --address 127.0.0.1 > /dev/null 2>&1 &
	pf=$!
	for i in $(seq 50); do
		curl -s -m 5 http://127.0.0.1:18080/index.html > "$T/page" && break
		sleep .1
	done
	ok "port-forward, websockets=$w" "grep -qx hello-from-pod $T/page"
	kill $pf
	wait $pf 2> /dev/null
}

pod()
{
	ok "logs" '[ "$(kubectl logs p1 | sort | xargs)" = "err started" ]'
	ok "pod address from the host" \
	    'curl -s -m 5 http://$(kubectl get pod p1 \
	       -o jsonpath={.status.podIP}):8080/index.html | grep -q hello'
	ok "emptyDir, also in memory" \
	    'in_pod "touch /data/x /mem/x && \
	       mount | grep -q \"tmpfs on /mem.*size=16384k\""'
	ok "the API is reachable from the pod" \
	    'in_pod "nc -w 1 10.244.0.1 16443 < /dev/null"'
	ok "the pod's own token is good" \
	    '[ "$(code "$(in_pod \
	       "cat /var/run/secrets/kubernetes.io/serviceaccount/token")" \
	       /version)" = 200 ]'
}

rights()
{
	local t ns=/api/v1/namespaces/default

	t=$(kubectl create token reader)
	ok "RBAC allows" "[ \"\$(code $t $ns/pods)\" = 200 ]"
	ok "RBAC refuses" "[ \"\$(code $t $ns/secrets)\" = 403 ]"
}

jobs_end()
{
	local failed='kubectl wait --for=condition=Failed --timeout=60s'

	ok "Job fails" "$failed job/bad > /dev/null"
	ok "Job deadline" "$failed job/late > /dev/null &&
	    kubectl get job late -o yaml | grep -q DeadlineExceeded"
	ok "OOM kill" "$failed job/oom > /dev/null &&
	    kubectl get pods -l job-name=oom -o yaml | grep -q OOMKilled"
	ok "Job is deleted after its time" \
	    'kubectl wait --for=delete job/ok --timeout=30s > /dev/null 2>&1'
	ok "restricted pod: read-only root, seccomp" \
	    'kubectl logs job/secure > '"$T"'/secure 2>&1;
	     grep -q ro-ok '"$T"'/secure && grep -q "Seccomp:.*2" '"$T"'/secure'
}

all="-f $H/pod.yaml -f $H/jobs.yaml -f $H/sa.yaml"
# shellcheck disable=SC2086
kubectl delete $all --ignore-not-found > /dev/null 2>&1
# shellcheck disable=SC2086
kubectl apply $all > /dev/null
ok "pod Ready" \
    'kubectl wait --for=condition=Ready pod/p1 --timeout=60s > /dev/null'
streams true
streams false
ok "bare v5.channel.k8s.io" \
    'timeout 10 python3 $H/exec.py v5.channel.k8s.io > $T/ws &&
     grep -q NonZeroExitCode $T/ws'
pod
rights
jobs_end
# shellcheck disable=SC2086
kubectl delete $all --ignore-not-found > /dev/null 2>&1
echo "$((n - bad)) passed, $bad failed"
[ $bad = 0 ]
