# SPDX-License-Identifier: Apache-2.0
"""The fixtures themselves: the controller does what the real one does, a pod's
runtime speaks its protocols, rights are as small as they are meant to be.

../vectors/agent-sandbox-objects holds objects the real controller left."""

import http.client
import json
import os
import re
import subprocess

import grpc
import pytest

import controller
import kube
from support import eventually

OBJECTS = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                       "../vectors/agent-sandbox-objects")


# ---- against the real controller's objects

TEMPLATE = {"podTemplate": {"spec": {
    "terminationGracePeriodSeconds": 0,
    "containers": [{
        "name": "python-runtime", "image": "localhost/sandboxd:1",
        "imagePullPolicy": "Never", "resources": {},
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "readinessProbe": {"httpGet": {"path": "/v1/health", "port": 8080},
                           "periodSeconds": 1}}]}}}
SESSION = {"agents.x-k8s.io/created-by": "python-client",
           "mcp.k8s-agent-sandbox/session-id":
           "674ce0bb-6aa2-4dbc-8b43-e77b3e9ae64f"}
REQUESTED = {"agents.x-k8s.io/client-first-requested-at":
             "2026-11-30T16:30:33.401730+00:00"}


def real(name):
    with open(os.path.join(OBJECTS, f"real-{name}.json")) as f:
        return json.load(f)


def comparable(obj, names):
    """Without what differs by nature: identities, times, addresses, the pod's
    own image and port."""
    obj = json.loads(json.dumps(obj))
    meta = obj["metadata"]
    for k in ("uid", "resourceVersion", "creationTimestamp", "namespace",
              "managedFields"):
        meta.pop(k, None)
    obj.get("status", {}).pop("nodeName", None)
    if obj["kind"] == "SandboxClaim":
        del obj["spec"]["lifecycle"]["shutdownTime"]
    else:
        spec = obj["spec"]["podTemplate"]["spec"]
        spec.pop("terminationGracePeriodSeconds", None)
        for c in spec["containers"]:
            c.pop("imagePullPolicy", None)
            c["image"] = "IMAGE"
            c["ports"][0]["containerPort"] = 0
            c["readinessProbe"]["httpGet"] = {}
    text = json.dumps(obj, sort_keys=True, indent=1)
    for i, name in enumerate(names):
        text = text.replace(controller.name_hash(name), f"HASH{i}")
        text = text.replace(name, f"NAME{i}")
    text = re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+(Z|\+00:00)", "TIME", text)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID", text)
    return re.sub(r"\d+\.\d+\.\d+\.\d+", "ADDRESS", text)


@pytest.fixture
def twin(cluster):
    """A template and pools with the names of the recorded ones."""
    ns = "foreign"
    cluster.create("sandboxtemplates", ns, "py-template", TEMPLATE)
    ref = {"name": "py-template"}
    for name, n in (("py-pool", 1), ("cold-pool", 0)):
        cluster.create("sandboxwarmpools", ns, name,
                       {"replicas": n, "sandboxTemplateRef": ref})
    eventually("a warm pod", lambda: cluster.api.get(
        "sandboxwarmpools", ns, "py-pool").get("status", {}).get(
        "readyReplicas") == 1)
    return cluster


def same(obj, want, *names):
    """Names come in pairs: ours and the recorded one."""
    assert comparable(obj, names[0::2]) == comparable(want, names[1::2])


def test_warm_claim_is_as_the_real_one(twin):
    claim = twin.claim("py-pool", "foreign", 300, meta={
        "labels": SESSION, "annotations": REQUESTED},
        additionalPodMetadata={"annotations": {"note": "n1"}})
    claim.until("DependenciesReady")
    eventually("all is written", lambda: "agents.x-k8s.io/claim-first-ready-at"
               in claim.get()["metadata"]["annotations"])
    box = eventually("generation seen", lambda: [
        b for b in [claim.sandbox()]
        if b["status"]["conditions"][-1]["observedGeneration"] == 2])[0]
    name = box["metadata"]["name"]
    assert re.fullmatch("py-pool-[a-z0-9]{5}", name)
    wanted = real("claim-warm")
    same(claim.get(), wanted, name, "py-pool-rldhv", claim.name,
         wanted["metadata"]["name"])
    same(box, real("sandbox-warm"), name, "py-pool-rldhv", claim.name,
         wanted["metadata"]["name"])
    pod = twin.api.get("pods", "foreign", name)
    assert pod["metadata"]["annotations"]["note"] == "n1"
    assert pod["metadata"]["labels"]["agents.x-k8s.io/claim-uid"] == \
        claim.get()["metadata"]["uid"]


def test_cold_claim_and_its_suspension_are_as_the_real_ones(twin):
    claim = twin.claim("cold-pool", "foreign", 300, meta={
        "labels": SESSION, "annotations": REQUESTED})
    claim.until("DependenciesReady")
    eventually("all is written", lambda: "agents.x-k8s.io/claim-first-ready-at"
               in claim.get()["metadata"]["annotations"])
    name = real("claim-cold")["metadata"]["name"]
    same(claim.get(), real("claim-cold"), claim.name, name)
    before = claim.get()["status"]["sandbox"]["podIPs"]

    twin.api.patch("sandboxes", "foreign", claim.name,
                   {"spec": {"operatingMode": "Suspended"}})
    eventually("suspended", lambda: claim.ready()["message"] ==
               "Sandbox is suspended")
    assert twin.api.get("pods", "foreign", claim.name) is None
    same(claim.get(), real("claim-suspended"), claim.name, name)
    same(claim.sandbox(), real("sandbox-suspended"), claim.name, name)

    twin.api.patch("sandboxes", "foreign", claim.name,
                   {"spec": {"operatingMode": "Running"}})
    claim.until("DependenciesReady")
    assert claim.get()["status"]["sandbox"]["podIPs"] != before


# ---- conditions

REASONS = [
    ("nowhere", {}, "WarmPoolNotFound", 'SandboxWarmPool "nowhere" not found'),
    ("orphan", {}, "TemplateNotFound", "nowhere"),
    ("privileged", {}, "ReconcilerError", "violates PodSecurity"),
    ("huge", {}, "DependenciesNotReady", "Pod exists with phase: Pending"),
    ("badimage", {}, "DependenciesNotReady", "Pod exists with phase: Pending"),
    ("warm", {"additionalPodMetadata": {"labels": {"team": "x"}}},
     "InvalidMetadata", "team"),
    ("warm", {"additionalPodMetadata": {"labels": {
        "sandbox.users.io/a": "no blank"}}}, "InvalidMetadata", "no blank"),
    ("warm", {"additionalPodMetadata": {"annotations": {
        "x.agents.x-k8s.io/a": "b"}}}, "InvalidMetadata", "reserved"),
    ("warm", {"env": [{"name": "A", "value": "b"}]},
     "EnvVarsInjectionRejected", "does not allow"),
    ("warm", {"volumeClaimTemplates": [{"metadata": {"name": "v"}}]},
     "VolumeClaimTemplatesError", "does not allow"),
]


@pytest.mark.parametrize("pool,spec,reason,text", REASONS)
def test_a_claim_says_why_it_is_not_ready(cluster, pool, spec, reason, text):
    claim = cluster.claim(pool, **spec)
    found = claim.until(reason)
    assert found["status"] == "False"
    assert text in found["message"]


def test_quota_shows_the_messages_of_the_api_server(cluster):
    found = cluster.claim("cold", "quota").until("ReconcilerError")
    assert found["message"].startswith("Error seen: pods ")
    assert "exceeded quota: none" in found["message"]


def test_sandbox_tells_that_no_node_fits(cluster):
    claim = cluster.claim("huge")
    eventually("Unschedulable", lambda: any(
        c["reason"] == "Unschedulable"
        for c in (claim.sandbox() or {}).get("status", {}).get(
            "conditions", [])))


def test_claim_recovers_when_its_pool_appears(cluster):
    claim = cluster.claim("late")
    claim.until("WarmPoolNotFound")
    cluster.create("sandboxwarmpools", "sandboxes", "late",
                   {"replicas": 0, "sandboxTemplateRef": {"name": "runtime"}})
    claim.until("DependenciesReady")


def test_claim_env_reaches_the_pod_when_the_template_allows(cluster):
    template = cluster.api.get("sandboxtemplates", "sandboxes",
                               "runtime")["spec"]
    template["envVarsInjectionPolicy"] = "Allowed"
    cluster.create("sandboxtemplates", "sandboxes", "env", template)
    cluster.create("sandboxwarmpools", "sandboxes", "env",
                   {"replicas": 0, "sandboxTemplateRef": {"name": "env"}})
    claim = cluster.claim("env", env=[{"name": "WHO", "value": "me"}])
    claim.until("DependenciesReady")
    pod = cluster.api.get("pods", "sandboxes", claim.name)
    assert pod["spec"]["containers"][0]["env"] == \
        [{"name": "WHO", "value": "me"}]


# ---- lifetime

def gone(cluster, namespace, *names):
    eventually("gone: " + " ".join(names), lambda: not any(
        cluster.api.get(r, namespace, n) for r in
        ("sandboxclaims", "sandboxes", "pods") for n in names))


def full(cluster):
    """Else a claim begins with a pod that is started for it."""
    eventually("a full pool", lambda: cluster.api.get(
        "sandboxwarmpools", "sandboxes", "warm")["status"].get(
            "readyReplicas") == 2)


@pytest.mark.parametrize("policy", ["Delete", "DeleteForeground"])
def test_expired_claim_goes_with_all_it_had(cluster, policy):
    full(cluster)
    claim = cluster.claim("warm", seconds=6, policy=policy)
    claim.until("DependenciesReady")
    gone(cluster, "sandboxes", claim.name,
         claim.get()["status"]["sandbox"]["name"])


def test_expired_claim_can_be_retained_without_its_sandbox(cluster):
    full(cluster)
    claim = cluster.claim("warm", seconds=6, policy="Retain")
    claim.until("DependenciesReady")
    box = claim.get()["status"]["sandbox"]["name"]
    claim.until("ClaimExpired")
    eventually("no Sandbox", lambda: not cluster.api.get(
        "sandboxes", "sandboxes", box))
    assert claim.get()["status"]["sandbox"] == {}


def test_deleted_claim_takes_sandbox_and_pod_with_it(cluster):
    claim = cluster.claim("warm")
    claim.until("DependenciesReady")
    box = claim.get()["status"]["sandbox"]["name"]
    cluster.api.delete("sandboxclaims", "sandboxes", claim.name)
    gone(cluster, "sandboxes", claim.name, box)


def test_pool_is_filled_again_and_follows_its_scale(cluster):
    def size():
        s = cluster.api.get("sandboxwarmpools", "sandboxes", "warm")["status"]
        return s["replicas"], s["readyReplicas"]

    cluster.claim("warm").until("DependenciesReady")
    eventually("two again", lambda: size() == (2, 2))
    for n in (1, 2):
        cluster.api.patch("sandboxwarmpools", "sandboxes", "warm",
                          {"spec": {"replicas": n}}, "scale")
        eventually(f"{n} pods", lambda: size() == (n, n))


def test_template_has_its_network_policy(cluster):
    policy = cluster.api.get("networkpolicies", "sandboxes",
                             "runtime-network-policy")
    assert policy["spec"]["podSelector"]["matchLabels"] == {
        "agents.x-k8s.io/sandbox-template-ref-hash":
        controller.name_hash("runtime")}
    assert cluster.api.get("networkpolicies", "sandboxes",
                           "plain-network-policy") is None


# ---- the runtime in the pod

@pytest.fixture
def runtime(cluster):
    """Two local ports, forwarded to a claimed pod's REST and gRPC."""
    claim = cluster.claim("warm")
    claim.until("DependenciesReady")
    p = subprocess.Popen(
        [kube.KUBECTL, "--kubeconfig", kube.ADMIN, "-n", "sandboxes",
         "port-forward", "pod/" + claim.get()["status"]["sandbox"]["name"],
         "--address=127.0.0.1", ":8080", ":9090"],
        stdout=subprocess.PIPE, text=True)
    try:
        yield [int(re.search(r"127.0.0.1:(\d+)", p.stdout.readline())[1])
               for _ in range(2)]
    finally:
        p.kill()
        p.wait()
        p.stdout.close()


def field(number, data):
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def command(*words):
    return field(1, b"".join(field(1, w.encode()) for w in words))


def start(port, request):
    """The events of a Start, as their bare bytes, with stdin closed."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        base = "/process.v1.ProcessService/"
        events = channel.unary_stream(base + "Start")(request, timeout=20)
        first = next(events)
        assert first[:3] == b"\x0a\x02\x08"
        try:
            channel.unary_unary(base + "WriteStdin")(
                b"\x08" + first[3:] + b"\x1a\x00", timeout=20)
        except grpc.RpcError as e:      # it may have ended already
            assert e.code() == grpc.StatusCode.NOT_FOUND
        return list(events)


def test_runtime_runs_a_process_and_tells_its_end(runtime):
    events = start(runtime[1], command(
        "/bin/sh", "-c", "cat; echo out; sleep 0.2; echo err >&2; exit 7"))
    assert events == [b"\x12\x04out\n", b"\x1a\x04err\n", b"\x22\x02\x08\x07"]


def test_runtime_sends_exit_code_zero_as_an_empty_event(runtime):
    assert start(runtime[1], command("true")) == [b"\x22\x00"]


def test_runtime_runs_as_nobody_special_in_its_folder(runtime):
    events = start(runtime[1], command("/bin/sh", "-c", "id -u; pwd"))
    text = b"".join(e[2:] for e in events if e[0] == 0x12)
    assert text == b"1000\n/workspace\n"


def test_runtime_executes_and_names_what_is_missing(runtime):
    with grpc.insecure_channel(f"127.0.0.1:{runtime[1]}") as channel:
        run = channel.unary_unary("/process.v1.ProcessService/Execute")
        assert run(command("/bin/sh", "-c", "echo hi; kill -9 $$")) == \
            b"\x08" + b"\xff" * 9 + b"\x01" + field(2, b"hi\n")
        for request, code in [
                (command("/nowhere"), grpc.StatusCode.NOT_FOUND),
                (b"", grpc.StatusCode.INVALID_ARGUMENT)]:
            with pytest.raises(grpc.RpcError) as e:
                run(request)
            assert e.value.code() == code


def test_runtime_signals_the_whole_group(runtime):
    with grpc.insecure_channel(f"127.0.0.1:{runtime[1]}") as channel:
        base = "/process.v1.ProcessService/"
        events = channel.unary_stream(base + "Start")(
            command("/bin/sh", "-c", "sleep 4321 & sleep 4321"), timeout=20)
        first = next(events)
        channel.unary_unary(base + "SendSignal")(
            b"\x08" + first[3:] + b"\x10\x09", timeout=20)
        assert list(events) == [b"\x22\x0b\x08" + b"\xff" * 9 + b"\x01"]
    events = start(runtime[1], command(
        "/bin/sh", "-c", "ps -o stat,args | grep '4[3]21' | grep -v ^Z"))
    assert events == [b"\x22\x02\x08\x01"]


def test_runtime_serves_files(runtime):
    http_ = http.client.HTTPConnection("127.0.0.1", runtime[0], timeout=20)

    def do(method, name, body=None):
        http_.request(method, "/v1/files/" + name, body)
        answer = http_.getresponse()
        return answer.status, answer.read()

    assert do("PUT", "a%2Fb", b"\x00\xff") == (204, b"")
    assert do("GET", "a%2Fb") == (200, b"\x00\xff")
    entry = json.loads(do("GET", "a")[1])["entries"][0]
    assert (entry["name"], entry["size"], entry["type"], entry["mode"]) == \
        ("b", 2, "file", "0644")
    assert do("HEAD", "nowhere")[0] == 404
    assert do("GET", "%2E%2E")[0] == 403
    assert do("DELETE", "a")[0] == 409
    assert do("DELETE", "a?recursive=true")[0] == 204
    http_.close()


# ---- rights

def may(account, verb, resource, namespace):
    resource, _, sub = resource.partition("/")
    return subprocess.run(
        [kube.KUBECTL, "--kubeconfig",
         os.path.join(kube.STATE, account + ".kubeconfig"), "auth", "can-i",
         "-q", verb, resource, "--subresource=" + sub, "-n", namespace],
        stderr=subprocess.DEVNULL).returncode == 0


@pytest.mark.parametrize("account,verb,resource,namespace,allowed", [
    ("mcp", "create", "sandboxclaims", "sandboxes", True),
    ("mcp", "create", "pods/portforward", "sandboxes", True),
    ("mcp", "create", "pods/exec", "sandboxes", True),
    ("mcp", "create", "sandboxclaims", "foreign", False),
    ("mcp", "create", "pods", "sandboxes", False),
    ("mcp", "get", "secrets", "sandboxes", False),
    ("mcp", "delete", "sandboxes", "sandboxes", False),
    ("outsider", "get", "sandboxclaims", "sandboxes", False),
])
def test_rights_are_the_least(account, verb, resource, namespace, allowed):
    assert may(account, verb, resource, namespace) == allowed
