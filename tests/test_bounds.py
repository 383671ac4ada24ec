# SPDX-License-Identifier: Apache-2.0
"""What the operator allows, and no caller can change: tools, read-only,
dry run, how long something lives."""

import datetime
import hashlib
import json
import re

import pytest

from blackbox import (CLAIMS, NS, claims, create, failure, success, text)

JOBS = {"MCP_K8S_ALLOWED_IMAGES": "localhost/busybox:1",
        "MCP_K8S_NAMESPACE": NS}
ALL = ("--tools", "agent-sandbox,bash,jobs")
WRITES = "^(POST|PUT|PATCH|DELETE)$"


def tools(program):
    return {t["name"]: t for t in program.ask("tools/list")["result"]["tools"]}


def refused(program, name, arguments):
    reply = program.ask("tools/call", {"name": name, "arguments": arguments})
    return reply["error"]["message"]


@pytest.fixture
def pool(standin):
    standin.pool("py-pool", replicas=1)


def seconds_left(when):
    end = datetime.datetime.fromisoformat(when.replace("Z", "+00:00"))
    return (end - datetime.datetime.now(datetime.timezone.utc)).total_seconds()


# ---- tools

@pytest.mark.parametrize("way", ["flag", "env"])
def test_a_tool_that_is_denied_is_not_there(start, way):
    deny = "delete_sandbox, bash"
    program = start(*ALL, *(["--deny-tools", deny] if way == "flag" else []),
                    env={**JOBS, **({"MCP_SANDBOX_DENY_TOOLS": deny}
                                    if way == "env" else {})})
    names = set(tools(program))
    assert not names & {"delete_sandbox", "bash", "bash_output"}
    assert {"create_sandbox", "run_job"} <= names
    assert "delete_sandbox" in refused(program, "delete_sandbox", {})


def test_when_no_tool_is_left_the_start_stops(start):
    program = start("--tools", "bash", "--deny-tools", "all")
    assert program.wait() == 78
    assert "--deny-tools: no tool is left" in program.stderr


def test_read_only_offers_only_what_changes_nothing(start, standin, pool):
    program = start(*ALL, "--read-only", env=JOBS)
    offered = tools(program)
    assert {"list_sandboxes", "list_jobs", "download_file"} <= set(offered)
    for tool in offered.values():
        assert tool["annotations"]["readOnlyHint"] is True
    for name in ("create_sandbox", "execute_command", "upload_file", "bash",
                 "run_job"):
        assert name in refused(program, name, {"namespace": NS})
    assert success(program.tool("list_sandboxes", {"namespace": NS}))[
        "sandboxes"] == []
    assert "no pod of bash" in failure(program.tool("download_file", {
        "sandbox_claim_name": "@bash", "namespace": NS, "path": "x"}))
    assert program.close() == 0
    assert not standin.requests(WRITES)


def test_a_caller_cannot_turn_it_off(start, standin, pool):
    program = start("--read-only", env={"MCP_SANDBOX_READ_ONLY": "false"})
    assert "create_sandbox" in refused(program, "create_sandbox", {
        "warmpool": "py-pool", "namespace": NS, "read_only": False})
    assert not standin.requests(WRITES)


# ---- one line a call

def test_a_line_in_the_log_says_who_did_what_where(start, pool):
    program = start(*ALL, "--dry-run", "--namespace", NS, "--session-id",
                    "mine", env=JOBS)
    asked = {"create_sandbox": {"warmpool": "py-pool", "namespace": NS},
             "bash": {"command": "rm -rf /"},
             "run_job": {"image": "localhost/busybox:1", "command": ["id"]},
             "delete_sandbox": {"sandbox_claim_name": "x", "namespace": NS}}
    for name, arguments in asked.items():
        program.tool(name, arguments)
    assert program.close() == 0
    lines = dict(re.findall(r"audit: caller=\S+ tool=(\S+) (.*)",
                            program.stderr))
    hash = hashlib.sha256(b"rm -rf /").hexdigest()
    end = r"bytes=[1-9]\d* ms=\d+"
    for name, line in (
            ("create_sandbox", f"object=py-pool verdict=ok {end}"),
            ("bash", f"object=mine verdict=ok {end} command=sha256:{hash}"),
            ("run_job", "object=localhost/busybox:1 verdict=ok "
             rf"{end} command=sha256:[0-9a-f]{{64}}"),
            ("delete_sandbox", r"object=x verdict=input bytes=\d+ ms=\d+")):
        assert re.fullmatch(f"namespace={NS} {line}", lines[name]), lines
    assert "rm -rf" not in program.stderr


# ---- a dry run

PLANS = {
    "create_sandbox": (
        {"warmpool": "py-pool", "namespace": NS, "env": {"KEY": "s3cret"}},
        "SandboxClaim", CLAIMS),
    "bash": ({"command": "id"}, "Pod", "/pods"),
    "run_job": ({"image": "localhost/busybox:1", "command": ["id"],
                 "env": {"KEY": "s3cret"}}, "Job", "/jobs"),
    "submit_job": ({"image": "localhost/busybox:1", "command": ["id"],
                    "env": {"KEY": "s3cret"}}, "Job", "/jobs"),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_dry_run_says_what_it_would_make(start, standin, pool, name):
    arguments, kind, path = PLANS[name]
    program = start(*ALL, "--dry-run", "--namespace", NS, env={
        **JOBS, "MCP_K8S_JOB_EXTRA_ENV": '{"OURS": "s3cret"}'})
    assert "outputSchema" not in tools(program)[name]
    before = {k: len(standin.objects(k)) for k in ("Pod", "Job", "Secret",
                                                   "SandboxClaim")}
    plan = success(program.tool(name, arguments))
    assert (plan["dry_run"], plan["accepted"]) == (True, True)
    assert plan["path"].endswith(path)
    assert plan["manifest"]["kind"] == kind
    assert "s3cret" not in json.dumps(plan)
    if kind != "Pod":
        assert '"KEY"' in json.dumps(plan) and "(left out)" in \
            json.dumps(plan)
    sent = standin.requests(WRITES)
    assert [r["path"].split("?")[1] for r in sent] == ["dryRun=All"]
    assert program.close() == 0
    assert {k: len(standin.objects(k)) for k in before} == before
    assert len(standin.requests(WRITES)) == 1


def test_a_dry_run_passes_on_what_the_cluster_says(start, standin, pool):
    program = start("--dry-run")
    standin.fault("status", path=CLAIMS, method="^POST$", code=403,
                  reason="Forbidden", message="exceeded quota: none")
    result = program.tool("create_sandbox", {"warmpool": "py-pool",
                                             "namespace": NS})
    assert result["isError"] is True
    assert result["structuredContent"]["accepted"] is False
    assert "exceeded quota: none" in text(result)


def test_a_dry_run_checks_arguments_and_changes_nothing(start, standin, pool):
    claim = create(start("--session-id", "me"))
    program = start("--dry-run", "--session-id", "me")
    standin.forget_requests()
    assert "warmpool" in failure(program.tool("create_sandbox", {
        "warmpool": "NOT A NAME", "namespace": NS}))
    for name, more in (("delete_sandbox", {}),
                       ("execute_command", {"command": "id"}),
                       ("upload_file", {"path": "x", "content": "y"}),
                       ("extend_sandbox", {})):
        assert "dry run: " + name in failure(program.tool(name, {
            "sandbox_claim_name": claim, "namespace": NS, **more}))
    listed = success(program.tool("list_sandboxes", {"namespace": NS}))
    assert len(listed["sandboxes"]) == 1
    assert not standin.requests(WRITES)
    assert claims(standin) == [claim]


# ---- how long something lives

def lives(program, **arguments):
    return seconds_left(success(program.tool("create_sandbox", {
        "warmpool": "py-pool", "namespace": NS, **arguments}))
        ["shutdown_time"])


def test_no_sandbox_is_made_to_live_longer(start, standin, pool):
    program = start("--max-lifetime", "2m")
    for more in ({"shutdown_after_seconds": None},
                 {"shutdown_after_seconds": 121}):
        assert "120 seconds at most" in failure(program.tool(
            "create_sandbox", {"warmpool": "py-pool", "namespace": NS,
                               **more}))
    assert not claims(standin)
    assert 100 < lives(program, shutdown_after_seconds=120) <= 121
    # The default is longer, and nobody asked for it.
    assert 100 < lives(program) <= 121


def test_nor_is_it_extended_past_that(start, standin, pool):
    program = start("--max-lifetime", "10m", "--session-id", "me")
    claim = create(program)

    def extend(program, **more):
        return program.tool("extend_sandbox", {
            "sandbox_claim_name": claim, "namespace": NS, **more})
    end = success(extend(program, shutdown_after_seconds=590))
    assert 570 < seconds_left(end["shutdown_time"]) <= 591
    for more in ({"shutdown_after_seconds": None},
                 {"shutdown_after_seconds": 700}):
        assert "600 seconds at most" in failure(extend(program, **more))
    stricter = start("--max-lifetime", "1s", "--session-id", "me")
    wait = failure(extend(stricter, shutdown_after_seconds=30))
    assert "1 seconds at most" in wait


def test_a_sessions_pod_ends_by_itself(start):
    program = start(*ALL[:1], "bash", "--dry-run", "--max-lifetime", "1h")
    plan = success(program.tool("bash", {"command": "id"}))
    assert plan["manifest"]["spec"]["activeDeadlineSeconds"] == 3600


# ---- how much a job may have

MOST = {**JOBS, "MCP_SANDBOX_JOB_MAX_CPU": "1500m",
        "MCP_SANDBOX_JOB_MAX_MEMORY": "1Gi"}


@pytest.mark.parametrize("limits, words", [
    ({"cpu": "1.6"}, "cpu is 1500m at most"), ({"cpu": "1e1"}, "1500m"),
    ({"memory": "1025Mi"}, "memory is 1Gi at most"),
    ({"memory": "2e9"}, "1Gi"), ({"memory": "1.1G"}, "1Gi"),
    ({"memory": "1Pi"}, "1Gi")])
def test_no_job_asks_for_more(start, standin, limits, words):
    program = start("--tools", "jobs", env=MOST)
    assert words in failure(program.tool("run_job", {
        "image": "localhost/busybox:1", "command": ["id"], "limits": limits}))
    assert not standin.requests(WRITES)


@pytest.mark.parametrize("limits, given", [
    ({}, {"cpu": "1500m", "memory": "1Gi"}),
    ({"cpu": "1.5", "memory": "1024Mi"}, {"cpu": "1.5", "memory": "1024Mi"}),
    ({"memory": "999999Ki"}, {"cpu": "1500m", "memory": "999999Ki"})])
def test_a_job_has_limits_whatever_it_asks_for(start, limits, given):
    program = start("--tools", "jobs", "--dry-run", env=MOST)
    plan = success(program.tool("run_job", {
        "image": "localhost/busybox:1", "command": ["id"], "limits": limits}))
    main = [c for c in plan["manifest"]["spec"]["template"]["spec"]
            ["containers"] if c["name"] == "main"]
    assert main[0]["resources"]["limits"] == given


@pytest.mark.parametrize("env, word", [
    ({"MCP_SANDBOX_JOB_MAX_CPU": "some"}, "MCP_SANDBOX_JOB_MAX_CPU"),
    ({"MCP_SANDBOX_JOB_MAX_MEMORY": "256Mi"}, "MCP_K8S_DEFAULT_MEMORY")])
def test_what_a_job_gets_unasked_is_within_that(start, env, word):
    program = start(env={**JOBS, **env})
    assert program.wait() == 78 and word in program.stderr
