# SPDX-License-Identifier: Apache-2.0
"""Between creation and end: names, environment, time to live, suspension
(contract: agent-sandbox 1.4, 4.2, 4.5, 4.6, 4.7)."""

import json
import os
import time
from datetime import datetime, timezone

import pytest

from blackbox import (DELETE, NS, POST, Box, claims, count, create, failure,
                      no_claims, success)
from program import ROOT
from standin.client import POOLS, SANDBOXES, wait_for

PATCH = {"method": "^PATCH$", "path": "/sandboxclaims/"}
VECTORS = os.path.join(ROOT, "tests", "vectors", "agent-sandbox-tools.json")


def seconds(stamp):
    """From now until a time of the cluster's."""
    return (datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ").replace(
        tzinfo=timezone.utc) - datetime.now(timezone.utc)).total_seconds()


@pytest.fixture
def box(standin, start):
    standin.pool()
    return Box(standin, start("--session-id", "one"))


# A name of one's own

def test_a_name_makes_a_create_repeatable(standin, start):
    """users.md 61: 409 of our own claim adopts it."""
    standin.pool()
    program = start("--session-id", "one")
    assert create(program, name="mine") == "mine"
    out = success(program.tool("create_sandbox", {
        "warmpool": "py-pool", "namespace": NS, "name": "mine",
        "shutdown_after_seconds": 900}))
    assert out["sandbox_claim_name"] == "mine"
    assert seconds(out["shutdown_time"]) < 400      # the first one's
    assert claims(standin) == ["mine"]
    # A restarted client with the same id finds it, too.
    assert create(start("--session-id", "one"), name="mine") == "mine"
    assert count(standin, **DELETE) == 0


def test_an_adopted_claim_is_waited_for_and_never_deleted(standin, start):
    standin.pool("slow", replicas=0, runtime="none",
                 notes={"test/ready-ms": "-1"})
    program = start("--session-id", "one")
    first = program.request("tools/call", {
        "name": "create_sandbox", "arguments": {
            "warmpool": "slow", "namespace": NS, "name": "mine"}})
    wait_for(lambda: claims(standin), "the claim")
    said = failure(program.tool("create_sandbox", {
        "warmpool": "slow", "namespace": NS, "name": "mine",
        "sandbox_ready_timeout": 1}))
    assert "within 1 seconds" in said
    again = program.request("tools/call", {
        "name": "create_sandbox", "arguments": {
            "warmpool": "slow", "namespace": NS, "name": "mine"}})
    wait_for(lambda: count(standin, **POST) == 3, "the third")
    program.cancel(again)
    program.ask("ping", modern=False)
    assert claims(standin) == ["mine"]
    assert count(standin, **DELETE) == 0
    program.cancel(first)
    no_claims(standin)


def test_a_name_of_anothers_is_refused_and_left_alone(standin, start):
    standin.pool()
    standin.pool("other")
    create(start("--session-id", "two"), name="theirs")
    program = start("--session-id", "one")
    said = failure(program.tool("create_sandbox", {
        "warmpool": "py-pool", "namespace": NS, "name": "theirs"}))
    assert "taken by somebody else" in said
    create(program, name="mine")
    said = failure(program.tool("create_sandbox", {
        "warmpool": "other", "namespace": NS, "name": "mine"}))
    assert "py-pool" in said and "other" in said
    assert sorted(claims(standin)) == ["mine", "theirs"]
    assert count(standin, **DELETE) == 0


def test_a_lost_answer_deletes_only_what_the_call_made(standin, start):
    """A claim of that name that was there before is not ours to remove."""
    standin.pool()
    program = start("--session-id", "one")
    create(program, name="mine")
    standin.fault("drop-after", **POST)
    failure(program.tool("create_sandbox", {
        "warmpool": "py-pool", "namespace": NS, "name": "mine"}))
    assert claims(standin) == ["mine"]
    standin.fault("drop-after", **POST)
    failure(program.tool("create_sandbox", {
        "warmpool": "py-pool", "namespace": NS, "name": "new"}))
    assert claims(standin) == ["mine"]


@pytest.mark.parametrize("name", ["", "Upper", "a_b", "-a", "a" * 64, "a/b"])
def test_a_bad_name_is_refused_before_anything_is_sent(standin, server, name):
    failure(server.tool("create_sandbox", {
        "warmpool": "py-pool", "namespace": NS, "name": name}))
    assert standin.requests() == []


# Environment, labels, an empty pool

def test_an_environment_needs_a_template_that_allows_it(standin, start):
    standin.pool("no", replicas=0, runtime="none")
    standin.pool("yes", replicas=0, runtime="none",
                 envVarsInjectionPolicy="Allowed")
    program = start()
    said = failure(program.tool("create_sandbox", {
        "warmpool": "no", "namespace": NS, "env": {"A": "b"}}))
    assert "EnvVarsInjectionRejected" in said
    assert claims(standin) == []
    box = Box(standin, program, create(
        program, "yes", env={"GREETING": "hello 'world'\n\u00e9"}))
    assert standin.claim(box.claim)["spec"]["env"] == [
        {"name": "GREETING", "value": "hello 'world'\n\u00e9"}]
    said = failure(program.tool("create_sandbox", {
        "warmpool": "yes", "namespace": NS, "env": {"A=B": "c"}}))
    assert "env" in said


def test_pod_labels_without_an_allowed_domain_are_refused_early(
        standin, start):
    """agent-sandbox 4.6, rule 1; 7.1, 23"""
    standin.pool()
    program = start()
    for key in ("team", "example.com/team", "xsandbox.users.io/team",
                "users.io/team"):
        said = failure(program.tool("create_sandbox", {
            "warmpool": "py-pool", "namespace": NS,
            "pod_labels": {key: "x"}}))
        assert key in said and "sandbox.users.io" in said
    assert standin.requests() == []
    for key in "sandbox.users.io/team", "a.b.sandbox.users.io/team":
        create(program, pod_labels={key: "x"})
    other = start("--pod-label-domains", "example.com, example.org")
    said = failure(other.tool("create_sandbox", {
        "warmpool": "py-pool", "namespace": NS,
        "pod_labels": {"sandbox.users.io/team": "x"}}))
    assert "example.org" in said


def test_an_empty_pool_is_said_and_starts_a_pod(standin, server):
    """users.md 42"""
    standin.pool("none", replicas=0, runtime="none")
    id = server.request("tools/call", {
        "name": "create_sandbox", "arguments": {
            "warmpool": "none", "namespace": NS}},
        meta={"progressToken": 1})
    result = server.reply(id)["result"]
    assert success(result)["sandbox_claim_name"]
    told = [m["params"]["message"] for m in server.aside if "method" in m]
    assert any("pool empty, 0 pending" in t for t in told), told


# Time to live

@pytest.mark.parametrize("before", [300, None])
def test_the_time_to_live_is_set_anew(standin, start, before):
    standin.pool()
    box = Box(standin, start(), None)
    box.claim = create(box.program, shutdown_after_seconds=before)
    out = success(box.tool("extend_sandbox", shutdown_after_seconds=3600))
    assert 3500 < seconds(out["shutdown_time"]) <= 3600
    spec = standin.claim(box.claim)["spec"]["lifecycle"]
    assert spec == {"shutdownTime": out["shutdown_time"],
                    "shutdownPolicy": "Delete"}
    assert success(box.tool("get_sandbox_status"))["shutdown_time"] == \
        out["shutdown_time"]
    assert success(box.tool("extend_sandbox"))["shutdown_time"] < \
        out["shutdown_time"]
    assert success(box.tool("extend_sandbox", shutdown_after_seconds=None)) \
        == {"shutdown_time": None}


def test_an_extended_sandbox_lives_on(standin, start):
    standin.pool()
    program = start()
    box = Box(standin, program, create(program, shutdown_after_seconds=5))
    end = standin.claim(box.claim)["spec"]["lifecycle"]["shutdownTime"]
    success(box.tool("extend_sandbox", shutdown_after_seconds=60))
    time.sleep(seconds(end) + 0.5)
    assert box.run("echo on")["stdout"] == "on\n"


def test_what_can_not_be_extended_says_why(box):
    for life in 0, -1, 10 ** 15:
        failure(box.tool("extend_sandbox", shutdown_after_seconds=life))
    assert count(box.standin, **PATCH) == 0
    box.standin.fault("status", code=403, **PATCH)
    assert "patch" in failure(box.tool("extend_sandbox")).lower()
    box.claim = "missing"
    assert "not found" in failure(box.tool("extend_sandbox"))


def test_an_expired_claim_is_told_and_not_extended(box):
    """users.md 54"""
    box.standin.patch_claim(box.claim, {"spec": {"lifecycle": {
        "shutdownTime": "2020-01-01T00:00:00Z",
        "shutdownPolicy": "Retain"}}})
    status = wait_for(lambda: (s := success(box.tool(
        "get_sandbox_status"))) and not s["ready"] and s, "its end")
    assert "expired" in status["message"].lower()
    assert "expired" in failure(box.tool("extend_sandbox"))
    assert "expired" in failure(box.tool("resume_sandbox"))
    assert "expired" in failure(box.tool("file_exists", path="x"))


# Suspend and resume

def test_a_sandbox_is_suspended_and_resumed(box):
    """agent-sandbox 4.5: a resumed pod has a new address."""
    box.run("true")
    old = box.standin.claim(box.claim)["status"]["sandbox"]["podIPs"]
    out = success(box.tool("suspend_sandbox"))
    assert out["status"] == "SandboxNotReady" and out["ready"] is False
    assert "suspended" in out["message"].lower()
    assert success(box.tool("suspend_sandbox")) == out
    assert "resume it first" in failure(box.tool("file_exists", path="x"))
    assert success(box.tool("get_sandbox_status"))["message"] == \
        out["message"]
    out = success(box.tool("resume_sandbox"))
    assert out["status"] == "SandboxReady" and out["ready"] is True
    assert box.standin.claim(box.claim)["status"]["sandbox"]["podIPs"] != old
    assert box.run("echo again")["stdout"] == "again\n"
    assert success(box.tool("resume_sandbox"))["ready"] is True
    assert success(box.tool("upload_file", path="x", content="y"))["size"] \
        == 1


def test_a_suspension_that_does_not_come_is_a_time_out(box):
    path = SANDBOXES.format(ns=NS) + "/"
    box.standin.fault("garbage", path, method="^PATCH$",
                      body="{}")
    said = failure(box.tool("suspend_sandbox", timeout=1))
    assert "within 1 seconds" in said
    box.standin.fault("status", path, method="^PATCH$", code=403)
    assert "patch" in failure(box.tool("suspend_sandbox", timeout=1)).lower()


# Warm pools

def test_warm_pools_are_listed(standin, start):
    standin.pool("a", replicas=2)
    standin.pool("b", replicas=0)
    out = success(start().tool("list_warm_pools", {"namespace": NS}))
    assert out == {"pools": [
        {"name": "a", "replicas": 2, "ready": 2, "template": "a-template"},
        {"name": "b", "replicas": 0, "ready": 0, "template": "b-template"}],
        "truncated": False}
    out = success(start("--warm-pools", "b").tool(
        "list_warm_pools", {"namespace": NS}))
    assert [p["name"] for p in out["pools"]] == ["b"]
    standin.fault("status", POOLS.format(ns=NS), code=403)
    failure(start().tool("list_warm_pools", {"namespace": NS}))


# Compatible with the original

def compatible(name, old, new):
    """Of an argument: type, bounds and default are as they were."""
    def core(schema):
        return {k: v for k, v in schema.items() if k not in (
            "description", "title", "maxProperties", "maxLength",
            "minLength")}

    def branches(schema):
        return sorted(json.dumps(core(s), sort_keys=True)
                      for s in schema.get("anyOf", [core({
                          k: v for k, v in schema.items()
                          if k != "default"})]))
    assert old.get("default", "none") == new.get("default", "none"), name
    # Ours are bounded where the original's had no bound at all.
    for b in branches(old):
        b = json.loads(b)
        assert any(b.items() <= json.loads(n).items()
                   for n in branches(new)), (name, old, new)


def test_the_tools_are_the_originals(server):
    """agent-sandbox 8.1, check 1"""
    with open(VECTORS, encoding="utf-8") as f:
        recorded = json.load(f)
    ours = {t["name"]: t for t in server.ask("tools/list")["result"]["tools"]}
    theirs = recorded["tools/list"]["result"]["tools"]
    names = [t["name"] for t in theirs]
    assert [n for n in ours if n in names] == names
    for tool in theirs:
        old, new = tool["inputSchema"], ours[tool["name"]]["inputSchema"]
        assert new["required"] == old["required"]
        assert new["additionalProperties"] is False
        for name, schema in old["properties"].items():
            compatible(f"{tool['name']}.{name}", schema,
                       new["properties"][name])
        out = tool.get("outputSchema")
        assert ("outputSchema" in ours[tool["name"]]) is (out is not None)
        if out:
            have = ours[tool["name"]]["outputSchema"]
            assert set(out["required"]) <= set(have["required"])


def test_the_list_fits_a_models_context(server):
    """design 7: what a client shows the model of a tool."""
    tools = [t for t in server.ask("tools/list")["result"]["tools"]]
    shown = sum(len(json.dumps({k: t[k] for k in (
        "name", "description", "inputSchema")}, separators=(",", ":")))
        for t in tools if "sandbox_claim_name" in t["inputSchema"]["properties"]
        or t["name"] in ("list_sandboxes", "list_warm_pools"))
    assert shown < 6900
