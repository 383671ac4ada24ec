#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tests/layers.sh [DIR] - a file may include headers of its own layer or a
# lower one, never a higher, and every file has a layer.  An indented line goes
# on with the layer above it.
layers='error buf base64 digest utf8 spill log mono budget address token duration
	agents cargo http-config job-config
json jsonw excerpt websocket grpc http names seal rpc pem tree
	webfail path listing file dotenv dns jobwire stash content encoded
event loop web webset config config-print conffile completion proxy kubeconfig
	kubeconfig-own kubeload kubeuser kubeexec execcred plugin plugin-own
	plugin-run plugin-helper k8sauth k8s k8sfail watch
	stream exec tunnel sandboxd legacy agent resolve router gateway
	manifest claim blocker env turn procs spool shell task files job
	job-image job-pack job-write job-state job-result agent-job agent-jobrun
	agent-jobout
call tools tools-sandbox handle link run fileop fileop-back
	fileop-script fileop-rest tool-life tools-bash deliver podwait podend
	errand warm setup session sight lease ask alive doctor gc dryrun place
	tool-sandbox tool-create tool-execute tool-resources tool-files
	tool-bash tool-bash-output
	jobflow jobflow-own jobflow-count jobflow-pod jobflow-inject
	jobflow-result jobflow-end jobcache tools-job tool-job tool-joblist
	serve api api-files
guard tls meet sse outlet httpd auth stats mcp mcp-own mcp-self mcp-call
	mcp-field audit result intake front front-http front-own front-sse
	front-probe listener
sandbox hosting offer mcp-sandbox mcp-sandbox-agent'
cd "${1:-$(dirname "$0")/..}" || exit 1
{
	echo "$layers"
	echo
	for f in *.c *.h; do echo "file ${f%.[ch]} $f"; done
	grep -Hno '^#include "[^"]*"' *.c *.h |
	    sed 's/^\(.*\)\.[ch]:\([0-9]*\):.*"\(.*\)"$/use \1 \3 \2/'
} | awk '
$0 == "" { listed = 1; next }
!listed { n += !/^\t/; for (i = 1; i <= NF; i++) layer[$i] = n; next }
$1 == "file" && !($2 in layer) { print $3 ": has no layer"; bad = 1 }
$1 == "use" && sub(/\.h$/, "", $3) && $2 in layer {
	if (!($3 in layer)) {
		if ($3 ~ /^seccomp-bpf$/)
			next	# made by the build
		print $2 ":" $4 ": " $3 ".h has no layer"; bad = 1
	} else if (layer[$3] > layer[$2]) {
		print $2 ":" $4 ": " $2 " must not include " $3 ".h"; bad = 1
	}
}
END { exit bad }'
