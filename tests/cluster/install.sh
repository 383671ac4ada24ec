#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Put the tests' fixtures into a cluster that is up: custom resources, the
# controller (a process on the host, which down.sh stops), namespaces, rights,
# templates and pools.  Leaves three kubeconfigs in the state folder, by service
# account token: mcp, outsider, and shell for the bash family.

set -euo pipefail
. "$(dirname "$0")/lib.sh"
PATH=$C/bin:$PATH

# kubeconfig_token ACCOUNT
kubeconfig_token()
{
	cat > "$C/$1.kubeconfig" <<K
apiVersion: v1
kind: Config
clusters:
- name: kt
  cluster:
    server: https://$API
    certificate-authority: pki/ca.crt
users:
- name: $1
  user:
    token: $(kubectl -n sandboxes create token "$1" --duration=12h)
contexts:
- name: kt
  context: {cluster: kt, user: $1, namespace: sandboxes}
current-context: kt
K
	chmod 600 "$C/$1.kubeconfig"
}

kubectl apply -f "$H/crds.yaml" -f "$H/namespaces.yaml" > /dev/null
kubectl wait --for=condition=Established crd --all --timeout=30s > /dev/null
kubectl apply -f "$H/rbac.yaml" -f "$H/objects.yaml" > /dev/null
start controller env PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    "${PYTHON:-python3}" "$H/controller.py" "$C/admin.kubeconfig"
kubeconfig_token mcp
kubeconfig_token outsider
kubeconfig_token shell
kubectl -n sandboxes wait --for=jsonpath='{.status.readyReplicas}'=2 \
    swp/warm --timeout=60s > /dev/null || die "no warm pods:" \
    "see $L/controller.log"
say "fixtures"
