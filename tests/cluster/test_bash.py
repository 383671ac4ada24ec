# SPDX-License-Identifier: Apache-2.0
"""The bash family on a real Kubernetes: pods of the restricted level, made of
an image that has a shell and nothing of ours (cli-mcp-server 8 to 12, 18).

Every test ends without a pod or Secret of a session."""

import base64
import concurrent.futures
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import uuid

import pytest

import kube
from support import eventually

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                ".."))
from agent import forever, sleeping  # noqa: E402
from program import Program, clean_environment  # noqa: E402

BINARY = os.environ.get("MCP_SANDBOX") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "../../mcp-sandbox")
NS = "sandboxes"
DOMAIN = "tarsy.redhat.com"
MERGE = "application/merge-patch+json"
OURS = {"labelSelector": f"{DOMAIN}/component=cli-mcp-sandbox"}
OPTIONS = ("--kubeconfig", os.path.join(kube.STATE, "shell.kubeconfig"),
           "--tools", "bash", "--sandbox-image", "localhost/busybox:1",
           "--init-image", "localhost/busybox:1", "--cpu-request", "5m",
           "--memory-request", "16Mi", "--unschedulable-after", "1")


@pytest.fixture(autouse=True)
def clean(api):
    """Nothing of ours is left, if need be by force."""
    yield
    try:
        eventually("no pod is left", lambda: not pods(api))
        eventually("no Secret is left", lambda: not secrets(api))
    finally:
        for kind in "pods", "secrets":
            for o in api.list(kind, NS, **OURS):
                api.delete(kind, NS, o["metadata"]["name"],
                           gracePeriodSeconds=0)


def pods(api):
    return api.list("pods", NS, **OURS)


def secrets(api):
    return api.list("secrets", NS, **OURS)


def session():
    return "test-" + uuid.uuid4().hex[:12]


class Server(Program):
    def __init__(self, *options, env=None):
        super().__init__(*OPTIONS, *options, binary=BINARY,
                         env=clean_environment(**env or {}))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end_input()
        try:
            self.wait()
        finally:
            self.dispose()

    def call(self, command, timeout_s=60, **more):
        return self.tool("bash", {"command": command, **more}, timeout_s)

    def bash(self, command, timeout_s=60, **more):
        """The structured result of a command that exits with 0."""
        r = self.call(command, timeout_s, **more)
        assert not r["isError"], r
        return r["structuredContent"]


def gc(*options, code=0):
    done = subprocess.run([BINARY, *OPTIONS, *options, "gc"],
                          env=clean_environment(), capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout


def end(api, wanted):
    """What an operator does."""
    for o in pods(api):
        if o["metadata"]["labels"].get(DOMAIN + "/session-id") == wanted:
            api.delete("pods", NS, o["metadata"]["name"],
                       gracePeriodSeconds=1)


def agent_of(pod):
    """The pid of a pod's agent on this machine, which is the node."""
    mark = pod["metadata"]["uid"]
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cgroup", encoding="ascii") as f:
                inside = mark in f.read() and entry
            with open(f"/proc/{entry}/cmdline", encoding="ascii") as f:
                if inside and f.read().startswith("/mcp-sandbox/"):
                    return int(entry)
        except OSError:
            continue
    raise AssertionError("no agent of " + mark)


# ---- files of a session

FILES = ("--tools", "bash,upload_file,download_file,list_files,file_exists,"
         "stat_file,delete_file,move_file")


def file(server, tool, path, **more):
    r = server.tool(tool, {"sandbox_claim_name": "@bash", "namespace": "-",
                           "path": path, **more}, 60)
    assert not r["isError"], r
    return r.get("structuredContent")


def test_files_go_in_and_out_of_the_session_s_pod():
    data = os.urandom(1 << 20)
    with Server(*FILES) as s:
        out = file(s, "upload_file", "d/f", binary=True,
                   content=base64.b64encode(data).decode())
        assert (out["size"], out["verified"]) == (len(data), "sha256")
        assert s.bash("cd d; sha256sum f")["stdout"].split()[0] == \
            hashlib.sha256(data).hexdigest() == \
            file(s, "stat_file", "d/f", sha256=True)["sha256"]
        back = file(s, "download_file", "/workspace/d/f", binary=True)
        assert base64.b64decode(back["content"]) == data
        file(s, "move_file", "d/f", to="/workspace/g")
        assert [e["name"] for e in file(s, "list_files", ".")["entries"]] == [
            "d", "g"]
        file(s, "delete_file", "d", recursive=True)
        assert file(s, "file_exists", "d") == {"exists": False}


def test_files_are_reached_at_the_pod_s_address_too():
    """The host is the node here, so that every pod's address leads to it."""
    with Server(*FILES, "--read-only-root", "--run-as-user", "12345",
                env={"KUBERNETES_SERVICE_HOST": "127.0.0.1",
                     "KUBERNETES_SERVICE_PORT": "1"}) as s:
        file(s, "upload_file", "/tmp/f", content="x")
        assert s.bash("id -u; cat /tmp/f")["stdout"] == "12345\nx"
        assert file(s, "download_file", "/etc/passwd")["bytes_read"] > 0


# ---- one session

def test_state_is_kept_and_nothing_is_left(api):
    with Server() as s:
        begin = time.monotonic()
        s.bash("cd /tmp && export COLOUR=blue && echo kept > file")
        print(f"first command {time.monotonic() - begin:.2f} s")
        begin = time.monotonic()
        r = s.bash("pwd; echo $COLOUR; cat file; id -u; printf end")
        print(f"second command {time.monotonic() - begin:.4f} s")
        assert r["stdout"] == "/tmp\nblue\nkept\n1000\nend"
        assert s.call("(exit 3)")["structuredContent"]["exit_code"] == 3
        (pod,) = pods(api)
        eventually("an owner", lambda: "ownerReferences" in secrets(api)[0][
            "metadata"])
        spec = pod["spec"]
        assert not spec["automountServiceAccountToken"]
        assert {v["name"] for v in spec["volumes"]} == {
            "workspace", "tmp", "agent"}


def test_a_read_only_root_and_another_user():
    """users.md 50"""
    with Server("--read-only-root", "--run-as-user", "4321") as s:
        r = s.bash("id -u; echo a > /workspace/a; echo b > /tmp/b; "
                   "touch /etc/x 2>/dev/null || echo no")
        assert r["stdout"] == "4321\nno"


def test_the_token_is_not_in_the_environment():
    with Server() as s:
        assert "TOKEN" not in s.bash(
            "env; cat /proc/1/environ 2>/dev/null; set; true")["stdout"]


def test_a_named_session_outlives_its_server(api):
    name = session()
    with Server("--session-id", name) as s:
        s.bash("mark=here")
    with Server("--session-id", name) as s:
        assert s.bash("echo $mark")["stdout"] == "here"
    end(api, name)


def test_tokens_from_a_key(api, tmp_path):
    key = tmp_path / "key"
    key.write_bytes(b" test-key-0123456789\n")
    with Server("--session-id", "inv-abc", "--hmac-key-file", str(key)) as s:
        s.bash("true")
        import base64
        (secret,) = secrets(api)
        assert base64.b64decode(secret["data"]["token"]) == (
            b"01cb1f7fd87a203dfe01acf565e4ec8a"
            b"5494c6e82ab97e4f0fe2eb2e7547b373")
    end(api, "inv-abc")


# ---- races and ends

def test_servers_racing_for_a_session_share_its_pod(api):
    """30 sessions, two servers each; 170 more on the stand-in."""
    count = int(os.environ.get("RACES", "30"))

    def race(name):
        with Server("--session-id", name) as a, \
                Server("--session-id", name) as b:
            ids = [s.request("tools/call", {"name": "bash", "arguments": {
                "command": "echo $$"}}) for s in (a, b)]
            return name, [s.reply(i, 90)["result"]
                          for s, i in zip((a, b), ids)]

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for name, got in pool.map(race, [session() for _ in range(count)]):
            end(api, name)
            assert not any(r["isError"] for r in got), got
            one, two = (r["structuredContent"]["stdout"] for r in got)
            assert one == two


@pytest.mark.parametrize("after", [0.0, 0.02, 0.05, 0.1, 0.3, 0.8])
def test_a_server_killed_on_the_way_is_followed(api, after):
    name = session()
    first = Server("--session-id", name)
    first.request("tools/call", {"name": "bash", "arguments": {
        "command": "true"}})
    time.sleep(after)
    first.kill(signal.SIGKILL)
    first.dispose()
    with Server("--session-id", name) as s:
        assert s.bash("echo here")["stdout"] == "here"
        assert len([p for p in pods(api)
                    if "deletionTimestamp" not in p["metadata"]]) == 1
    end(api, name)


@pytest.mark.parametrize("how", ["deleted", "agent killed", "evicted"])
def test_a_pod_that_goes_is_replaced_at_once(api, how):
    with Server() as s:
        s.bash("before=1")
        (pod,) = pods(api)
        name = pod["metadata"]["name"]
        if how == "deleted":
            api.delete("pods", NS, name, gracePeriodSeconds=20)
        elif how == "evicted":
            api.call("POST", kube.path("pods", NS, name, "eviction"), {
                "apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": {"name": name, "namespace": NS}})
        else:
            long = forever()
            asked = s.request("tools/call", {"name": "bash", "arguments": {
                "command": f"sleep {long}"}})
            eventually("it runs", lambda: sleeping(long))
            os.kill(agent_of(pod), signal.SIGKILL)
            r = s.reply(asked)["result"]
            assert r["isError"]
            assert "may have run" in r["content"][0]["text"]
        r = s.bash("echo ${before-new}")
        assert r["stdout"] == "new"


@pytest.mark.parametrize("how", [
    "deleted", "deleted at once", "evicted", "ended by another"])
def test_a_known_pod_that_goes_is_replaced_at_once(api, how):
    """After some commands nobody is asked for the pod before the next."""
    name = session()
    with Server("--session-id", name) as s:
        for n in range(5):
            assert s.bash(f"echo {n}")["stdout"] == str(n)
        (pod,) = pods(api)
        agent = agent_of(pod)
        at = kube.path("pods", NS, pod["metadata"]["name"])
        if how == "evicted":
            api.call("POST", at + "/eviction", {
                "apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": {"name": pod["metadata"]["name"],
                             "namespace": NS}})
        elif how == "ended by another":
            end(api, name)
        else:
            api.delete("pods", NS, pod["metadata"]["name"],
                       gracePeriodSeconds=20 if how == "deleted" else 0)
        eventually("its agent's end",
                   lambda: not os.path.exists(f"/proc/{agent}"), 20)
        assert s.bash("true")["session_reset"] is True
        assert [p for p in pods(api)
                if "deletionTimestamp" not in p["metadata"]][0][
                    "metadata"]["uid"] != pod["metadata"]["uid"]
    end(api, name)


STEPS = {
    "the Secret is made": lambda api: secrets(api),
    "the pod is made": lambda api: pods(api),
    "the agent is awaited": lambda api: any(
        "running" in c["state"] for p in pods(api)
        for c in p["status"].get("initContainerStatuses", [])),
    "the agent runs": lambda api: any(
        "running" in c["state"] for p in pods(api)
        for c in p["status"].get("containerStatuses", [])),
    "the command runs": lambda api: any(
        o["status"].get("phase") == "Running" for o in pods(api)) and
        time.sleep(1) is None,
}


@pytest.mark.parametrize("step", STEPS)
def test_what_a_killed_server_leaves_is_collected(api, step):
    name = session()
    s = Server("--session-id", name)
    s.request("tools/call", {"name": "bash", "arguments": {
        "command": "sleep 30"}})
    eventually(step, lambda: STEPS[step](api))
    s.kill(signal.SIGKILL)
    s.dispose()
    if not pods(api):       # gc gives it two minutes: another is sooner
        with Server("--session-id", name) as s:
            s.bash("true")

    def collected():
        gc("--idle-timeout", "1ms")
        return not secrets(api) and all("deletionTimestamp" in p["metadata"]
                                        for p in pods(api))
    eventually("all of it is gone", collected)


def test_a_server_killed_in_a_claim_leaves_nothing(api):
    pool = ("--warm-pool-size", "1")
    gc(*pool)
    eventually("a warm pod", lambda: any(
        c["ready"] for p in pods(api)
        for c in p["status"].get("containerStatuses", [])))
    s = Server(*pool, "--session-id", session())
    s.request("tools/call", {"name": "bash", "arguments": {
        "command": "sleep 30"}})
    eventually("it is claimed", lambda: any(
        DOMAIN + "/session-id" in p["metadata"]["labels"]
        for p in pods(api)))
    s.kill(signal.SIGKILL)
    s.dispose()



    def collected():
        gc("--warm-pool-size", "0", "--idle-timeout", "1ms")
        return not pods(api)
    eventually("no pod is left", collected)
    # Before it has an owner gc gives it two minutes (tests/test_bash.py).
    for o in secrets(api):
        if "ownerReferences" not in o["metadata"]:
            api.delete("secrets", NS, o["metadata"]["name"])


def test_a_drained_node_is_told_and_come_back_to(api):
    """The only one: the next pod has nowhere to go until it is back."""
    (node,) = api.call("GET", "/api/v1/nodes")["items"]
    path = "/api/v1/nodes/" + node["metadata"]["name"]
    with Server() as s:
        s.bash("before=1")
        (pod,) = pods(api)
        name = pod["metadata"]["name"]
        api.call("PATCH", path, {"spec": {"unschedulable": True}}, MERGE)
        try:
            long = forever()
            asked = s.request("tools/call", {"name": "bash", "arguments": {
                "command": f"trap '' TERM; sleep {long}"}})
            eventually("it runs", lambda: sleeping(long))
            api.call("POST", kube.path("pods", NS, name, "eviction"), {
                "apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": {"name": name, "namespace": NS},
                "deleteOptions": {"gracePeriodSeconds": 1}})
            r = s.reply(asked, 60)["result"]
            assert r["isError"]
            r = s.call("true")
            assert r["isError"]
            assert "unschedulable" in r["content"][0]["text"]
        finally:
            api.call("PATCH", path, {"spec": {"unschedulable": None}}, MERGE)
        r = s.bash("echo ${before-new}")
        assert (r["stdout"], r["session_reset"]) == ("new", True)


def test_a_command_that_is_too_large_is_told():
    """Of it alone, or, where the kernel ends all of the container, of the
    pod."""
    with Server("--memory-limit", "48Mi") as s:
        s.bash("true")
        r = s.call("tail /dev/zero", timeout=30)
        assert r["isError"]
        if "structuredContent" in r:
            assert r["structuredContent"]["exit_code"] == 137
            assert r["structuredContent"]["oom"] is True
        else:
            assert "OOMKilled" in r["content"][0]["text"]
        assert s.bash("echo here")["stdout"] == "here"


@pytest.fixture(scope="module")
def agent_image(tmp_path_factory):
    """busybox with our agent as its entry point."""
    folder = tmp_path_factory.mktemp("image")
    with tarfile.open(os.path.join(kube.STATE, "img/busybox.tar")) as t:
        with tarfile.open(fileobj=t.extractfile("layer.tar")) as layer:
            layer.extractall(folder / "root", filter="fully_trusted")
    shutil.copy(os.path.join(os.path.dirname(BINARY), "mcp-sandbox-agent"),
                folder / "root/bin")
    subprocess.run([os.path.join(os.path.dirname(__file__), "mkimage.sh"),
                    "localhost/agent:test", folder / "root", json.dumps({
                        "Env": ["PATH=/bin"], "User": "1234:1234",
                        "WorkingDir": "/workspace",
                        "Entrypoint": ["/bin/mcp-sandbox-agent"]}),
                    folder / "image.tar"], check=True, timeout=60)
    ctr = ["ctr", "-a", os.path.join(kube.STATE, "run/containerd.sock"), "-n",
           "k8s.io", "images"]
    subprocess.run([*ctr, "import", folder / "image.tar"], check=True,
                   timeout=60, stdout=subprocess.DEVNULL)
    yield "localhost/agent:test"
    subprocess.run([*ctr, "rm", "localhost/agent:test"], check=True,
                   timeout=60, stdout=subprocess.DEVNULL)


def test_an_image_with_the_agent_needs_no_delivery(api, agent_image):
    with Server("--sandbox-image", agent_image, "--image-has-agent",
                "--run-as-user", "image") as s:
        r = s.bash("id -u; pwd; echo $$ >/dev/null")
        assert r["stdout"] == "1234\n/workspace"
        (pod,) = pods(api)
        assert "initContainers" not in pod["spec"]
        assert "runAsUser" not in pod["spec"]["securityContext"]


def test_a_cancelled_start_takes_its_pod_back(api):
    with Server() as s:
        asked = s.request("tools/call", {"name": "bash", "arguments": {
            "command": "true"}})
        eventually("a pod", lambda: pods(api))
        s.cancel(asked)
        eventually("it is gone", lambda: not pods(api))


def test_an_image_that_is_not_there_is_named():
    with Server("--sandbox-image", "localhost/none:1") as s:
        r = s.call("true")
        assert r["isError"]
        text = r["content"][0]["text"]
        assert text.startswith("sandbox exec failed: ")
        assert "localhost/none:1" in text


def test_a_pod_no_node_takes_is_told():
    with Server("--cpu-request", "900", "--cpu-limit", "900") as s:
        r = s.call("true")
        assert r["isError"]
        assert "Insufficient cpu" in r["content"][0]["text"]


def test_an_abandoned_pod_ends_by_itself_and_gc_takes_it(api):
    name = session()
    with Server("--session-id", name, "--idle-timeout", "3s") as s:
        s.bash("true")
    eventually("the agent ends", lambda: pods(api)[0]["status"]["phase"]
               == "Succeeded")
    assert "ended" in gc("--idle-timeout", "3s")
    eventually("it is gone", lambda: not pods(api))


# ---- the pool

def test_the_pool_is_filled_claimed_and_refilled(api):
    pool = ("--warm-pool-size", "2")
    assert gc(*pool).count("created pod") == 2
    assert "created pod" not in gc(*pool)
    warm = {p["metadata"]["name"] for p in pods(api)}
    with Server(*pool) as s:
        begin = time.monotonic()
        s.bash("true")
        print(f"warm claim {time.monotonic() - begin:.3f} s")
        used = [p["metadata"]["name"] for p in pods(api) if DOMAIN +
                "/session-id" in p["metadata"]["labels"]]
        assert len(used) == 1 and used[0] in warm
        eventually("a replacement", lambda: len(pods(api)) == 3)
        s.bash("echo still here")
    gc(*pool)
    # A pool of another size is not ours to empty: age does it.
    gc("--warm-pool-size", "0", "--idle-timeout", "1ms")


def test_many_at_once_do_not_overfill_the_pool(api):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: gc("--warm-pool-size", "1"), range(4)))
    gc("--warm-pool-size", "1")
    eventually("one is left", lambda: len([
        p for p in pods(api)
        if "deletionTimestamp" not in p["metadata"]]) == 1)
    gc("--idle-timeout", "1ms")
