# SPDX-License-Identifier: Apache-2.0
"""What the tests of the product against the stand-in share."""

import contextlib
import json

import pytest

from program import SANITIZED
from standin.client import wait_for

NS = "default"
CLAIMS = "/sandboxclaims"
POST = {"method": "^POST$", "path": CLAIMS + r"$"}
WATCH = {"method": "^GET$", "path": CLAIMS + r"\?.*watch=true"}
LIST = {"method": "^GET$", "path": CLAIMS + r"\?labelSelector"}
GET = {"method": "^GET$", "path": CLAIMS + "/"}
DELETE = {"method": "^DELETE$", "path": CLAIMS + "/"}
EXEC = {"method": "^GET$", "path": "/exec\\?"}
FORWARD = {"method": "^GET$", "path": "/portforward"}

not_sanitized = pytest.mark.skipif(
    SANITIZED, reason="a sanitizer has memory and limits of its own")


def text(result):
    """Of a result, what a model reads."""
    return "\n".join(c["text"] for c in result["content"])


def failure(result):
    """The text of a result that must be an error."""
    assert result["isError"] is True, result
    return text(result)


def success(result):
    """What a result that must not be an error holds."""
    assert result["isError"] is False, result
    return result.get("structuredContent")


def create(program, warmpool="py-pool", **arguments):
    """The handle of a new sandbox."""
    return success(program.tool("create_sandbox", {
        "warmpool": warmpool, "namespace": NS, **arguments})
    )["sandbox_claim_name"]


def begin_create(program, warmpool="py-pool", meta=None, **arguments):
    """The id of a create_sandbox that is under way."""
    return program.request("tools/call", {
        "name": "create_sandbox", "arguments": {
            "warmpool": warmpool, "namespace": NS, **arguments}}, meta=meta)


class Box:
    """A ready sandbox and the program that made it."""

    def __init__(self, standin, program, claim=None, warmpool="py-pool"):
        self.standin = standin
        self.program = program
        self.claim = claim or create(program, warmpool)

    def arguments(self, **more):
        return {"sandbox_claim_name": self.claim, "namespace": NS, **more}

    def begin(self, command, meta=None, **more):
        """The id of an execute_command that is under way."""
        return self.program.request("tools/call", {
            "name": "execute_command", "arguments": self.arguments(
                command=command, **more)}, meta=meta)

    def result(self, command, timeout_s=30, **more):
        return self.program.tool("execute_command", self.arguments(
            command=command, **more), timeout_s)

    def run(self, command, timeout_s=30, **more):
        """The structured output of a command that ended."""
        return success(self.result(command, timeout_s, **more))

    def tool(self, name, **more):
        return self.program.tool(name, self.arguments(**more))

    @property
    def pod(self):
        """The name of its pod."""
        return self.standin.claim(self.claim)["status"]["sandbox"]["name"]

    def processes(self, *words):
        """The pod's processes whose command line holds all the words."""
        return [p for p in self.standin.processes()
                if p["pod"] == f"{NS}/{self.pod}"
                and all(w in " ".join(p["argv"]) for w in words)]

    def started(self, word):
        wait_for(lambda: self.processes(word), f"a process {word}")

    def ended(self, word):
        wait_for(lambda: not self.processes(word), f"the end of {word}")


def claims(standin):
    return [o["metadata"]["name"] for o in standin.objects("SandboxClaim")]


def expire(standin, claim):
    """Its shutdownTime is over; the policy was ours."""
    lifecycle = standin.claim(claim)["spec"]["lifecycle"]
    assert lifecycle["shutdownPolicy"] == "Delete"
    standin.patch_claim(claim, {"spec": {"lifecycle": {
        "shutdownTime": "2026-01-01T00:00:00Z"}}})


def no_claims(standin):
    wait_for(lambda: not claims(standin), "no claim")


def count(standin, method="", path="", where="api"):
    return len(standin.requests(method, path, where))


def seen(standin, rule):
    """Waits until the stand-in has got such a request."""
    wait_for(lambda: standin.requests(rule["method"], rule["path"]),
             f"{rule['method']} {rule['path']}")


def memory_kb(pid, field):
    """VmHWM, VmRSS, ... of a process."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        for line in f:
            if line.startswith(field + ":"):
                return int(line.split()[1])
    raise AssertionError(field)


@contextlib.contextmanager
def stopped_reading(program):
    """The client reads no further; at most a line more."""
    program.reading.clear()
    try:
        yield
    finally:
        program.reading.set()


def dumps(message):
    return json.dumps(message).encode() + b"\n"
