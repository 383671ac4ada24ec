# SPDX-License-Identifier: Apache-2.0
"""What the controller decides without touching the store."""

from .kinds import get, is_label_value

ALLOWED = "sandbox.users.io"
RESERVED = ("kubernetes.io", "k8s.io", "agents.x-k8s.io")
EXCEPTION = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def below(domain, parent):
    return domain == parent or domain.endswith("." + parent)


def refuse(claim, template):
    """(reason, message) when the claim can not be served, else None."""
    extra = claim["spec"].get("additionalPodMetadata") or {}
    for key, value in (extra.get("labels") or {}).items():
        prefix = key.partition("/")[0] if "/" in key else ""
        if key == "app" and value.lower() == "sandbox-router":
            return "InvalidMetadata", 'label "app=sandbox-router" is reserved'
        if not below(prefix, ALLOWED):
            return "InvalidMetadata", (
                f'label key "{key}" is not in an allowed domain: {ALLOWED}')
        if not is_label_value(value):
            return "InvalidMetadata", (
                f'label "{key}" has an invalid value "{value}"')
    for key in extra.get("annotations") or {}:
        prefix = key.partition("/")[0] if "/" in key else ""
        if key != EXCEPTION and any(below(prefix, r) for r in RESERVED):
            return "InvalidMetadata", (
                f'annotation key "{key}" is in a reserved domain')
    inner = get(template, "spec", "podTemplate", "metadata") or {}
    for field in "labels", "annotations":
        for key, value in (extra.get(field) or {}).items():
            if (inner.get(field) or {}).get(key, value) != value:
                return "ReconcilerError", (
                    "Error seen: metadata override conflict: "
                    f'{field[:-1]} "{key}" is set by the template')
    spec = template["spec"]
    if claim["spec"].get("env") and spec.get(
            "envVarsInjectionPolicy", "Disallowed") == "Disallowed":
        return "EnvVarsInjectionRejected", (
            "the template does not allow environment variables")
    if claim["spec"].get("volumeClaimTemplates") and spec.get(
            "volumeClaimTemplatesPolicy", "Disallowed") == "Disallowed":
        return "VolumeClaimTemplatesError", (
            "the template does not allow volume claim templates")
    return None


def verdict(sandbox, pod):
    """The Ready condition of a Sandbox from its pod: 4.3 and 4.5."""
    phase = get(pod, "status", "phase")
    if phase == "Succeeded":
        return "False", "PodSucceeded", "Pod completed successfully"
    if phase == "Failed":
        return "False", "PodFailed", "Pod failed"
    tail = "; Service Exists" if sandbox["spec"].get("service") else ""
    if phase != "Running":
        return ("False", "DependenciesNotReady",
                f"Pod exists with phase: {phase}" + tail)
    ready = any(c["type"] == "Ready" and c["status"] == "True"
                for c in get(pod, "status", "conditions") or [])
    if not ready:
        return ("False", "DependenciesNotReady",
                "Pod is Running but not Ready" + tail)
    if not get(pod, "status", "podIPs"):
        return ("False", "DependenciesNotReady",
                "Pod is Ready but has no podIPs yet" + tail)
    return "True", "DependenciesReady", "Pod is Ready" + tail


def set_addresses(sandbox, pod):
    status = sandbox["status"]
    meta = sandbox["metadata"]
    addresses = [a["ip"] for a in get(pod, "status", "podIPs") or []]
    for field in "podIPs", "nodeName":
        status.pop(field, None)
    if addresses:
        status["podIPs"] = addresses
    if get(pod, "spec", "nodeName"):
        status["nodeName"] = pod["spec"]["nodeName"]
    if sandbox["spec"].get("service"):
        status["service"] = meta["name"]
        status["serviceFQDN"] = (f"{meta['name']}.{meta['namespace']}"
                                 ".svc.cluster.local")


def patch_pod(pod, metadata):
    pod["metadata"].setdefault("labels", {}).update(
        metadata.get("labels", {}))
    pod["metadata"].setdefault("annotations", {}).update(
        metadata.get("annotations", {}))
