# SPDX-License-Identifier: Apache-2.0
"""The platform's own Python SDK (PyPI: k8s-agent-sandbox) sees the sandboxes
that we make, and we those it makes: made by one, used and deleted by the
other."""

import json
import os
import subprocess

import pytest

from blackbox import Box, failure, no_claims, success
from program import ROOT, clean_environment

TESTS = os.path.join(ROOT, "tests")


@pytest.fixture(scope="session")
def python():
    made = subprocess.run([os.path.join(TESTS, "venv.sh"), os.path.join(
        TESTS, "sdk", "requirements.txt")], capture_output=True, text=True,
        check=False)
    if made.returncode:
        pytest.skip(f"the SDK can not be installed: {made.stderr[-300:]}")
    return made.stdout.strip()


@pytest.fixture
def sdk(python, standin):
    standin.pool(replicas=1)

    def step(*words):
        out = subprocess.run(
            [python, os.path.join(TESTS, "sdk", "session.py"), *words],
            env=clean_environment(KUBECONFIG=standin.kubeconfig),
            capture_output=True, text=True, timeout=120, check=False)
        assert out.returncode == 0, out.stderr[-2000:]
        return json.loads(out.stdout)
    return step


def test_the_sdk_uses_and_deletes_what_we_made(standin, start, sdk):
    box = Box(standin, start("--session-id", "one"))
    success(box.tool("upload_file", path="d/a b%20ü", content="ours\n"))
    assert sdk("listed", "one") == [box.claim]
    assert sdk("use", box.claim, "d/a b%20ü", "theirs\n") == {
        "before": "ours\n", "stdout": "theirs\n", "code": 0,
        "names": ["a b%20ü"]}
    assert success(box.tool("download_file", path="d/a b%20ü"))["content"] == \
        "theirs\n"
    sdk("delete", box.claim)
    no_claims(standin)
    assert success(box.tool("get_sandbox_status"))["status"] == \
        "SandboxNotFound"


def test_we_use_and_delete_what_the_sdk_made(standin, start, sdk):
    claim = sdk("create", "one")
    program = start("--session-id", "one")
    box = Box(standin, program, claim)
    listed = success(program.tool("list_sandboxes", {"namespace": "default"}))
    assert [s["sandbox_claim_name"] for s in listed["sandboxes"]] == [claim]
    assert box.run("echo hi")["stdout"] == "hi\n"
    success(box.tool("upload_file", path="d/f", content="x"))
    assert sdk("use", claim, "d/f", "y")["before"] == "x"
    other = Box(standin, start("--session-id", "two"), claim)
    assert "is not found" in failure(other.tool("file_exists", path="d/f"))
    assert box.tool("delete_sandbox")["isError"] is False
    no_claims(standin)
