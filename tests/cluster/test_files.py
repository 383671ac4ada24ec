# SPDX-License-Identifier: Apache-2.0
"""Files and the life cycle on a real Kubernetes: the runtimes' own code, the
images' own shell, the controller's own clock."""

import base64
import contextlib
import hashlib
import os
import sys
import uuid

import pytest

import kube
from support import eventually

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from program import Program, clean_environment                 # noqa: E402

NS = "sandboxes"
# The way in, and the pool whose pods it meets.
WAYS = [("tunnel", "warm", {}), ("exec", "warm", {}), ("exec", "plain", {}),
        ("sandboxd-in-cluster", "warm", {
            "K8S_SANDBOX_CONNECTION__MODE": "in-cluster-pod-ip"}),
        ("tunnel", "legacy", {}), ("in-cluster", "legacy", {
            "K8S_SANDBOX_CONNECTION__USE_POD_IP": "true"})]
NAMES = ["plain", "with blank", "%20 100%", "-rf", "new\nline\n", "日本語",
         "it's \"$(id)\" `x` \\ *", "a/b/-c", "..x", "x" * 200]
ALL = bytes(range(256))


@contextlib.contextmanager
def running(connection="auto", **more):
    program = Program(env=clean_environment(
        KUBECONFIG=os.path.join(kube.STATE, "mcp.kubeconfig"),
        K8S_SANDBOX_CONNECTION__TYPE=connection, **more))
    made = []

    def tool(which, /, **arguments):
        result = program.tool(which, {"namespace": NS, **arguments}, 120)
        if which == "create_sandbox" and not result["isError"]:
            made.append(result["structuredContent"]["sandbox_claim_name"])
        assert not result["isError"], result
        return result.get("structuredContent")

    try:
        yield tool
    finally:
        for claim in made:
            program.tool("delete_sandbox", {
                "namespace": NS, "sandbox_claim_name": claim}, 60)
        program.close()
        program.dispose()


@pytest.fixture(params=WAYS, ids=lambda w: f"{w[0]}-{w[1]}")
def call(request):
    connection, pool, more = request.param
    with running(connection, **more) as tool:
        claim = tool("create_sandbox", warmpool=pool)["sandbox_claim_name"]
        yield lambda name, **a: tool(name, sandbox_claim_name=claim, **a)


def b64(data):
    return base64.b64encode(data).decode()


def read(call, path, **more):
    out = call("download_file", path=path, binary=True, **more)
    data = base64.b64decode(out["content"])
    assert out["sha256"] == hashlib.sha256(data).hexdigest()
    return data


def test_names_and_bytes_are_exact(call):
    for name in NAMES:
        data = name.encode() + ALL
        out = call("upload_file", path="d/" + name, content=b64(data),
                   binary=True)
        assert out["size"] == len(data)
        assert out["sha256"] == hashlib.sha256(data).hexdigest()
        assert call("file_exists", path="d/" + name) == {"exists": True}
        assert read(call, "d/" + name) == data
    listed = {e["name"] for e in call("list_files", path="d")["entries"]}
    assert listed == {n.split("/")[0] for n in NAMES}
    seen = call("execute_command", command="cd d; find . -type f -print0 | "
                "base64 | tr -d '\\n'")["stdout"]
    assert {n.decode() for n in base64.b64decode(seen).split(b"\0")[:-1]} \
        == {"./" + n for n in NAMES}
    for data in b"", b"\0", b"x":
        call("upload_file", path="f", content=b64(data), binary=True)
        assert read(call, "f") == data


def test_a_large_file_goes_in_one_call(call):
    data = os.urandom(1 << 20) * 48 + b"end"
    out = call("upload_file", path="big", binary=True, content=b64(data))
    assert out["size"] == len(data) and out["verified"] == "sha256"
    assert out["sha256"] == hashlib.sha256(data).hexdigest()


def test_a_large_file_goes_in_pieces(call):
    data = os.urandom(1 << 20) * 4
    step = 512 << 10
    for at in range(0, len(data), step):
        out = call("upload_file", path="big", offset=at, binary=True,
                   content=b64(data[at:at + step]))
    assert out["size"] == len(data)
    assert call("stat_file", path="big", sha256=True)["sha256"] == \
        hashlib.sha256(data).hexdigest()
    assert b"".join(read(call, "big", offset=at, length=step)
                    for at in range(0, len(data), step)) == data


def test_files_are_moved_looked_at_and_deleted(call):
    call("upload_file", path="a", content="one\n")
    call("upload_file", path="a", content="two\n", offset=-1)
    call("move_file", path="a", to="x/y/b")
    stat = call("stat_file", path="x/y/b")
    assert (stat["type"], stat["size"]) == ("file", 8)
    assert call("download_file", path="x/y/b")["content"] == "one\ntwo\n"
    call("delete_file", path="x", recursive=True)
    assert call("file_exists", path="x") == {"exists": False}


def test_another_pod_of_the_same_name_is_not_taken_for_the_old_one():
    """What is known of the claim spares a request, not the look."""
    api = kube.Client()
    with running("exec") as tool:
        claim = tool("create_sandbox", warmpool="plain")["sandbox_claim_name"]

        def run(command):
            return tool("execute_command", sandbox_claim_name=claim,
                        command=command)["stdout"]
        assert run("echo x >/tmp/f; echo 1") == "1\n"
        assert run("cat /tmp/f") == "x\n"
        name = api.get("sandboxclaims", NS, claim)["status"]["sandbox"]["name"]
        old = api.get("pods", NS, name)["metadata"]["uid"]
        api.delete("pods", NS, name)

        def again():
            pod = api.get("pods", NS, name) or {"metadata": {"uid": old}}
            return pod["metadata"]["uid"] != old and \
                pod["status"].get("phase") == "Running" and \
                tool("get_sandbox_status", sandbox_claim_name=claim)["ready"]
        eventually("another pod", again)
        assert run("ls /tmp; echo 2") == "2\n"
        assert run("echo 3") == "3\n"


def test_the_controller_heeds_what_is_asked_for():
    name = "mine-" + uuid.uuid4().hex[:8]
    with running() as tool:
        pools = {p["name"]: p for p in tool("list_warm_pools")["pools"]}
        assert pools["warm"]["template"]
        first = tool("create_sandbox", warmpool="warm", name=name)
        assert first["sandbox_claim_name"] == name
        assert tool("create_sandbox", warmpool="warm", name=name) == first
        later = tool("extend_sandbox", sandbox_claim_name=name,
                     shutdown_after_seconds=3600)
        assert later["shutdown_time"] > first["shutdown_time"]
        assert tool("get_sandbox_status", sandbox_claim_name=name)[
            "shutdown_time"] == later["shutdown_time"]
        out = tool("suspend_sandbox", sandbox_claim_name=name)
        assert out["ready"] is False and "suspended" in out["message"].lower()
        out = tool("resume_sandbox", sandbox_claim_name=name)
        assert out["ready"] is True
        assert tool("execute_command", sandbox_claim_name=name,
                    command="echo again")["stdout"] == "again\n"
