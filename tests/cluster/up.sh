#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Bring up a Kubernetes from what build.sh made: etcd, kube-apiserver,
# controller manager, scheduler, kubelet and containerd with a CNI bridge.  One
# node, `kt`; the admin's kubeconfig is $CLUSTER/admin.kubeconfig.  Refuses to
# start on top of a running one; down.sh takes all of it away.
#
# The bridge is the pods' network, the node's address and where the API server
# listens, so pods reach it with no kube-proxy.  There is no ClusterIP, no DNS
# and nothing that enforces a NetworkPolicy.

set -euo pipefail
. "$(dirname "$0")/lib.sh"

SVC=10.96.0.0/16
ETCD=127.0.0.1:12379
KT=$C/bin/kt

[ -x "$KT" ] || die "no $KT: run build.sh"
[ "$(id -u)" = 0 ] || die "must run as root"
[ -s "$R/pids" ] && die "already up ($R/pids): run down.sh"

# The MAC address is pinned: else it changes as pods come and go, and one
# connection in 600 stalls for a second.
network_up()
{
	ip link show $BR > /dev/null 2>&1 ||
	    ip link add $BR address 02:00:0a:f4:00:01 type bridge
	ip addr replace $IP/24 dev $BR
	ip link set $BR up
}

# cert NAME SUBJECT USAGE [SAN]
cert()
{
	openssl ecparam -genkey -name prime256v1 -noout -out "$1.key"
	openssl req -new -key "$1.key" -subj "$2" -out "$1.csr"
	printf 'keyUsage=critical,digitalSignature\nextendedKeyUsage=%s\n%s\n' \
	    "$3" "${4:+subjectAltName=$4}" > "$1.ext"
	openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key \
	    -CAcreateserial -days 3650 -extfile "$1.ext" -out "$1.crt" \
	    2> /dev/null
}

# Made once, kept between runs.
certs_make()
{
	local svc=kubernetes.default.svc
	local san="IP:127.0.0.1,IP:$IP,IP:10.96.0.1,DNS:localhost"

	san=$san,DNS:kubernetes,DNS:kubernetes.default,DNS:$svc
	san=$san,DNS:$svc.cluster.local
	[ -e "$P/done" ] && return
	cd "$P"
	openssl ecparam -genkey -name prime256v1 -noout -out ca.key
	openssl req -x509 -new -key ca.key -subj /CN=kt-ca -days 3650 \
	    -out ca.crt 2> /dev/null
	cert apiserver /CN=kube-apiserver serverAuth "$san"
	cert apiserver-kubelet /O=system:masters/CN=apiserver-kubelet clientAuth
	cert kubelet-server /CN=kt serverAuth "IP:$IP,DNS:kt"
	cert kubelet /O=system:nodes/CN=system:node:kt clientAuth
	cert controller-manager /CN=system:kube-controller-manager clientAuth
	cert scheduler /CN=system:kube-scheduler clientAuth
	cert admin /O=system:masters/CN=admin clientAuth
	openssl ecparam -genkey -name prime256v1 -noout -out sa.key
	openssl ec -in sa.key -pubout -out sa.pub 2> /dev/null
	touch "$P/done"
	cd "$C"
}

# kubeconfig FILE CERT
kubeconfig()
{
	cat > "$1" <<K
apiVersion: v1
kind: Config
clusters:
- name: kt
  cluster:
    server: https://$API
    certificate-authority-data: $(base64 -w0 < "$P/ca.crt")
users:
- name: $2
  user:
    client-certificate-data: $(base64 -w0 < "$P/$2.crt")
    client-key-data: $(base64 -w0 < "$P/$2.key")
contexts:
- name: kt
  context: {cluster: kt, user: $2}
current-context: kt
K
	chmod 600 "$1"
}

# restrict_oom_score_adj: without CAP_SYS_RESOURCE no pod starts otherwise
# ("can't get final child's PID from pipe: EOF").
containerd_start()
{
	mkdir -p "$C/containerd" "$R/containerd" "$R/cni-conf" "$R/cni-data"
	cat > "$R/containerd.toml" <<T
version = 2
root = "$C/containerd"
state = "$R/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "$R/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$C/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$R/cni-conf"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
T
	cat > "$R/cni-conf/10-kt.conflist" <<T
{"cniVersion": "1.0.0", "name": "kt", "plugins": [
 {"type": "bridge", "bridge": "$BR", "isGateway": false, "ipMasq": false,
  "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "$R/cni-data",
   "ranges": [[{"subnet": "$NET", "gateway": "$IP",
                "rangeStart": "10.244.0.10"}]],
   "routes": [{"dst": "0.0.0.0/0"}]}}]}
T
	start containerd containerd --config "$R/containerd.toml"
}

etcd_start()
{
	rm -rf "$R/etcd"
	start etcd "$KT" etcd --name kt --data-dir "$R/etcd" --unsafe-no-fsync \
	    --listen-client-urls http://$ETCD \
	    --advertise-client-urls http://$ETCD \
	    --listen-peer-urls http://127.0.0.1:12380 \
	    --initial-advertise-peer-urls http://127.0.0.1:12380 \
	    --initial-cluster kt=http://127.0.0.1:12380 --log-level warn
}

apiserver_start()
{
	start kube-apiserver "$KT" kube-apiserver \
	    --etcd-servers=http://$ETCD --bind-address=$IP \
	    --secure-port=16443 --advertise-address=$IP \
	    --service-cluster-ip-range=$SVC --authorization-mode=Node,RBAC \
	    --enable-admission-plugins=NodeRestriction \
	    --client-ca-file="$P/ca.crt" \
	    --tls-cert-file="$P/apiserver.crt" \
	    --tls-private-key-file="$P/apiserver.key" \
	    --kubelet-client-certificate="$P/apiserver-kubelet.crt" \
	    --kubelet-client-key="$P/apiserver-kubelet.key" \
	    --kubelet-certificate-authority="$P/ca.crt" \
	    --kubelet-preferred-address-types=InternalIP \
	    --service-account-issuer=https://kubernetes.default.svc \
	    --service-account-key-file="$P/sa.pub" \
	    --service-account-signing-key-file="$P/sa.key" \
	    --allow-privileged=true --enable-aggregator-routing=true \
	    --profiling=false --v=1
}

# Images go in again only when build.sh made them anew.
images_import()
{
	local i tar ctr="ctr -a $R/containerd.sock"

	for i in $(seq 300); do
		$ctr version > /dev/null 2>&1 && break
		[ "$i" = 300 ] && die "containerd: see $L/containerd.log"
		sleep .1
	done
	for tar in "$C"/img/*.tar; do
		cmp -s "$tar" "$C/containerd/${tar##*/}" && continue
		$ctr -n k8s.io images import "$tar" > /dev/null
		cp "$tar" "$C/containerd/${tar##*/}"
	done
}

# failCgroupV1 and makeIPTablesUtilChains: this must work on a machine with
# cgroup v1 and touch no iptables.
kubelet_config()
{
	mkdir -p "$C/kubelet"
	cat > "$R/kubelet.yaml" <<K
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $IP
port: 20250
healthzBindAddress: 127.0.0.1
healthzPort: 20248
tlsCertFile: $P/kubelet-server.crt
tlsPrivateKeyFile: $P/kubelet-server.key
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: $P/ca.crt}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix://$R/containerd.sock
failSwapOn: false
failCgroupV1: false
makeIPTablesUtilChains: false
localStorageCapacityIsolation: true
containerLogMaxSize: 1Mi
containerLogMaxFiles: 2
resolvConf: ""
clusterDNS: ["127.0.0.1"]
podLogsDir: $C/podlogs
volumePluginDir: $C/volplugins
imageGCHighThresholdPercent: 100
evictionHard:
  memory.available: 100Mi
  nodefs.available: "1%"
  nodefs.inodesFree: "1%"
  imagefs.available: "1%"
maxPods: 200
registerWithTaints: []
K
}

kubelet_start()
{
	start kubelet "$KT" kubelet --config="$R/kubelet.yaml" \
	    --kubeconfig="$R/kubelet.kubeconfig" --hostname-override=kt \
	    --node-ip=$IP --root-dir="$C/kubelet" --cert-dir="$P" --v=2
}

# After /readyz, without leader election and with a high rate: else the default
# ServiceAccount comes 3 to 5 s later.
controllers_start()
{
	start kube-controller-manager "$KT" kube-controller-manager \
	    --kubeconfig="$R/controller-manager.kubeconfig" \
	    --bind-address=127.0.0.1 --secure-port=10257 \
	    --leader-elect=false --use-service-account-credentials=true \
	    --kube-api-qps=500 --kube-api-burst=1000 \
	    --service-account-private-key-file="$P/sa.key" \
	    --root-ca-file="$P/ca.crt" \
	    --cluster-signing-cert-file="$P/ca.crt" \
	    --cluster-signing-key-file="$P/ca.key" --profiling=false --v=1
	start kube-scheduler "$KT" kube-scheduler \
	    --kubeconfig="$R/scheduler.kubeconfig" --bind-address=127.0.0.1 \
	    --secure-port=10259 --leader-elect=false \
	    --kube-api-qps=500 --kube-api-burst=1000 --v=1
}

# The kubelet leaves at once when containerd answers but its CRI part does not
# yet ("server is not initialized yet"), so it is started again.
node_wait()
{
	local i ready

	ready='{.status.conditions[?(@.type=="Ready")].status}'
	for i in $(seq 600); do
		[ "$("$KT" kubectl get node kt -o jsonpath="$ready" \
		    2> /dev/null)" = True ] && return
		if [ -z "$(born "$1")" ]; then
			cp "$L/kubelet.log" "$L/kubelet.died.log"
			kubelet_start
			set -- $!
		fi
		sleep .1
	done
	die "the node never got ready: see $L/kubelet.log"
}

mkdir -p "$R" "$L" "$P"
: > "$R/pids"
network_up
certs_make
kubeconfig "$C/admin.kubeconfig" admin
for n in kubelet controller-manager scheduler; do
	kubeconfig "$R/$n.kubeconfig" $n
done
say "certificates"
containerd_start
etcd_start
apiserver_start
images_import
say "containerd, images"
kubelet_config
kubelet_start
kubelet=$!
for i in $(seq 600); do
	"$KT" kubectl get --raw /readyz > /dev/null 2>&1 && break
	[ "$i" = 600 ] && die "no API server: see $L/kube-apiserver.log"
	sleep .1
done
say "API server"
controllers_start
node_wait $kubelet
say "node"
for i in $(seq 600); do
	"$KT" kubectl -n default get sa default > /dev/null 2>&1 && break
	sleep .1
done
say "up"
