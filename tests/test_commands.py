# SPDX-License-Identifier: Apache-2.0
"""What a person types: check, ls, tools, completion. None of them reads its
input, each ends by itself."""

import json
import shutil
import subprocess

import pytest

from blackbox import NS
from program import BINARY, clean_environment

JOBS = {"MCP_K8S_ALLOWED_IMAGES": "busybox:1"}


def command(standin, *words, code=0, kubeconfig=None, env=None):
    done = subprocess.run(
        [BINARY, *words], stdin=subprocess.DEVNULL, capture_output=True,
        env=clean_environment(KUBECONFIG=kubeconfig or standin.kubeconfig,
                              **(env or {})),
        text=True, timeout=60, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 or done.stdout else done.stderr


def bad(told):
    return [line for line in told.splitlines() if not line.startswith("ok ")]


def test_check_finds_nothing_where_all_is_well(standin):
    standin.pool()
    told = command(standin, "--tools", "agent-sandbox,bash,jobs", "check",
                   env=JOBS)
    assert bad(told) == []
    for word in ("seccomp", "context", "Kubernetes v", "py-pool",
                 "agent-sandbox in default", "bash in default",
                 "jobs in mcp-ephemeral"):
        assert word in told, word
    assert all(r["method"] == "GET" or "selfsubject" in r["path"]
               for r in standin.requests())


def test_check_names_each_right_that_is_missing(standin):
    standin.pool()
    told = command(standin, "check", code=77,
                   kubeconfig=standin.kubeconfigs["nobody"])
    assert "NO    rights         bash in default: secrets: not allowed: " \
        "create get list patch delete" in told


def test_check_names_a_pool_that_is_missing(standin):
    told = command(standin, "check", code=69)
    assert len(bad(told)) == 1
    assert "none in default that may be used" in bad(told)[0]
    standin.pool()
    told = command(standin, "--warm-pools", "other", "check", code=69)
    assert "create a SandboxWarmPool" in bad(told)[0]


def test_check_looks_into_each_namespace(standin):
    for name in ("one", "two"):
        standin.namespace(name)
    told = command(standin, "-n", "one, two", "-t", "agent-sandbox", "check",
                   code=69)
    assert ["none in one" in line or "none in two" in line
            for line in bad(told)] == [True, True]


@pytest.mark.parametrize("status", (401, 500))
def test_check_says_what_the_server_said(standin, status):
    standin.fault("status", path="/version", code=status, count=-1)
    told = command(standin, "check", code=69)
    assert "NO    API server" in told and "/version" in told


def test_ls_has_a_line_for_each_thing(standin, start):
    standin.pool()
    server = start("--tools", "agent-sandbox,bash", "--session-id", "s-1")
    made = server.tool("create_sandbox", {"warmpool": "py-pool",
                                           "namespace": NS})
    server.tool("bash", {"command": "true"})
    assert not made["isError"], made
    told = command(standin, "ls").splitlines()
    assert told[0].split() == ["KIND", "NAMESPACE", "NAME", "SESSION", "AGE",
                               "LEFT", "STATE"]
    rows = [line.split() for line in told[1:]]
    assert sorted(r[0] for r in rows) == ["bash", "sandbox"]
    for row in rows:
        assert row[1] == NS and row[3] == "s-1" and row[6] == "ready"
        assert row[4].endswith("s") and row[5] != "-"
    claim = made["structuredContent"]["sandbox_claim_name"]
    assert claim in (r[2] for r in rows)


def test_ls_says_that_there_is_nothing(standin):
    assert len(command(standin, "ls").splitlines()) == 1


def test_ls_that_may_not_look_says_so(standin):
    told = command(standin, "ls", code=69,
                   kubeconfig=standin.kubeconfigs["nobody"])
    assert "NAME" in told


def test_tools_are_those_of_the_list(standin, start):
    told = json.loads(command(standin, "tools"))
    listed = start().ask("tools/list")["result"]["tools"]
    assert told["tools"] == listed
    assert not standin.requests("POST")


@pytest.mark.parametrize("shell", ("bash", "zsh", "fish"))
def test_completion_is_of_every_command_and_option(standin, shell):
    told = command(standin, "completion", shell)
    for word in ("gc", "serve", "check", "kubeconfig", "session-id"):
        assert word in told
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=told, text=True, check=True)


@pytest.mark.parametrize("words", (
    ("completion",), ("completion", "csh"), ("check", "x"), ("nonsense",),
    ("completion", "bash", "x")))
def test_what_is_no_command_is_bad_usage(standin, words):
    command(standin, *words, code=64)


def test_config_tells_what_counts_and_where_it_comes_from(standin, tmp_path):
    given = tmp_path / "file"
    given.write_text("# one\n\nhandles = any\nverbose = true\n"
                     "session-id = not-this\n")
    env = {"MCP_SANDBOX_CONFIG": str(given), "MCP_SANDBOX_SESSION_ID": "me",
           "MCP_K8S_JOB_EXTRA_ENV": '{"TOKEN":"s3cret"}'}
    told = command(standin, "--rest-port=81", "config", env=env)
    for lines in (f"# {given}:3\nhandles = any\n",
                  "# environment: MCP_SANDBOX_SESSION_ID\nsession-id = me\n",
                  "# command line: --rest-port\nrest-port = 81\n",
                  "\n#grpc-port = 9090\n", "\n#gateway-name =\n"):
        assert lines in told, lines
    assert "s3cret" not in told and "not-this" not in told
    assert standin.requests() == []


def test_config_is_a_file_of_settings(standin, tmp_path):
    """Read again it says the same; each default is what would count."""
    def settings(text):
        return [line.lstrip("#") for line in text.splitlines()
                if not line.startswith("# ")]
    first = command(standin, "-v", "--idle-timeout=90s", "config")
    given = tmp_path / "file"
    given.write_text(first)
    env = {"MCP_SANDBOX_CONFIG": str(given)}
    assert settings(command(standin, "config", env=env)) == settings(first)
    given.write_text("".join(f"{line}\n" for line in settings(first)
                             if not line.endswith("=")))
    again = command(standin, "config", env=env)
    assert settings(again) == settings(first)


def test_config_says_what_is_wrong(standin):
    told = command(standin, "config", code=78,
                   env={"MCP_SANDBOX_HANDLES": "some"})
    assert "MCP_SANDBOX_HANDLES: 'some' is not allowed" in told
