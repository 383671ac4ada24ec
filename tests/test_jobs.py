# SPDX-License-Identifier: Apache-2.0
"""Jobs, from outside, against the stand-in."""

import base64
import hashlib
import json
import re
import signal

import pytest

from blackbox import failure, success
from program import SANITIZED
from standin.client import wait_for

IMAGE = "busybox:1.36"
POST = {"method": "^POST$", "path": "/jobs$"}
WATCH = {"method": "^GET$", "path": "/pods\\?.*watch=true"}
COLLECT = {"method": "^GET$", "path": "/exec\\?.*collect"}
INJECT = {"method": "^GET$", "path": "/exec\\?.*container=inject"}


@pytest.fixture
def jobs(start):
    """jobs(NAME=value) is a server that runs jobs in the namespace default."""
    def begin(**env):
        return start(env={"MCP_K8S_ALLOWED_IMAGES": IMAGE,
                          "MCP_K8S_NAMESPACE": "default", **env})
    return begin


def arguments(script, **more):
    return {"image": IMAGE, "command": ["sh", "-c", script], **more}


def run(server, script, **more):
    return success(server.tool("run_job", arguments(script, **more), 30))


def submit(server, script, **more):
    return success(server.tool("submit_job", arguments(script, **more), 30))[
        "job_token"]


def fetch(server, token, wait_s=20):
    r = success(server.tool("fetch_job", {"job_token": token,
                                          "wait_s": wait_s}, 40))
    assert r["status"] == "done", r
    return r["result"]


def put(path, data, **more):
    return {"path": path, "content_b64": base64.b64encode(data).decode(),
            **more}


def got(result):
    return {a["name"]: base64.b64decode(a["content_b64"])
            for a in result["artifacts"]}


def peak_kb(server):
    with open(f"/proc/{server.pid}/status", encoding="ascii") as f:
        return int(re.search(r"VmHWM:\s+(\d+)", f.read())[1])


def most_at_once(times):
    """Of pairs of begin and end."""
    turns = sorted(x for a, b in times for x in ((a, 1), (b, -1)))
    return max(sum(n for _, n in turns[:i + 1]) for i in range(len(turns)))


def nothing_left(standin):
    wait_for(lambda: not standin.objects("Job") and not standin.objects("Pod"),
             "an empty namespace")


def test_a_command_its_output_and_its_files(jobs, standin):
    r = run(jobs(), "echo out; echo err >&2; cat a/in >b.txt; exit 3",
            files=[put("a/in", b"data\n")])
    assert (r["status"], r["exit_code"], r["reason"]) == ("failed", 3, "")
    assert (r["stdout"], r["stderr"]) == ("out\n", "err\n")
    assert got(r) == {"b.txt": b"data\n"}
    assert r["artifacts"][0]["sha256"] == hashlib.sha256(b"data\n").hexdigest()
    assert r["truncated"] == {"stdout": False, "stderr": False,
                              "artifacts": False}
    nothing_left(standin)


def test_every_fast_job_has_its_line(jobs):
    """users.md 33"""
    server = jobs()
    for i in range(30):
        assert run(server, f"echo {i}")["stdout"] == f"{i}\n"


def test_artifacts_are_what_is_new_or_changed(jobs):
    r = run(jobs(), "echo more >>changed; mv moved elsewhere; ln -s to link;"
            " mkdir .git; echo x >.git/x; mkfifo pipe; echo z >z; echo a >a",
            files=[put("same", b"1"), put("changed", b"2"),
                   put("moved/inside", b"3"), put("empty", b"\n")])
    assert [a["name"] for a in r["artifacts"]] == [
        "a", "changed", "elsewhere/inside", "link", "pipe", "z"]
    by = {a["name"]: a for a in r["artifacts"]}
    assert by["link"]["link"] == "to"
    assert by["pipe"]["skipped"] == "fifo"
    assert got(r)["changed"] == b"2more\n"


def test_globs_choose_artifacts(jobs):
    r = run(jobs(), "mkdir -p r/s; echo 1 >r/s/a.xml; echo 2 >b.xml; echo 3 >c",
            files=[put("in.xml", b"0")], artifacts=["**/*.xml"])
    assert got(r) == {"b.xml": b"2\n", "in.xml": b"0", "r/s/a.xml": b"1\n"}


def test_modes_of_files(jobs):
    r = run(jobs(), "./x; stat -c %a x y", files=[
        put("x", b"#!/bin/sh\necho ran\n", mode="0755"),
        put("y", b"1", mode="600")])
    assert r["stdout"] == "ran\n755\n600\n"


def test_what_was_sent_is_there_once(jobs):
    r = run(jobs(), "ls ../mcp-sandbox", files=[put("in", b"1")])
    assert "agent" in r["stdout"] and "pack" not in r["stdout"]


def test_six_megabytes_go_in_and_come_out(jobs):
    data = bytes(range(256)) * 23000
    r = run(jobs(), "sha256sum <in; cp in out", files=[put("in", data)])
    assert r["stdout"].split()[0] == hashlib.sha256(data).hexdigest()
    assert got(r) == {"out": data}


def test_a_timeout_has_its_output(jobs, standin):
    r = run(jobs(), "echo a; echo f >f; sleep 60 & sleep 60", timeout_s=2)
    assert (r["status"], r["exit_code"], r["stdout"]) == ("timeout", -1, "a\n")
    assert got(r) == {"f": b"f\n"}
    nothing_left(standin)


def test_a_child_in_the_background_does_not_hold_the_job(jobs):
    r = run(jobs(), "sleep 60 & echo done")
    assert (r["status"], r["stdout"]) == ("succeeded", "done\n")


def test_no_such_program(jobs):
    r = success(jobs().tool("run_job", {"image": IMAGE,
                                        "command": ["/no/such"]}, 30))
    assert (r["status"], r["exit_code"]) == ("failed", 127)
    assert "/no/such" in r["stderr"]


def test_files_that_can_not_be_put_are_named(jobs):
    r = run(jobs(), "echo never", files=[put("a", b"1"), put("a/b", b"2")])
    assert (r["status"], r["reason"], r["exit_code"], r["stdout"]) == (
        "error", "start_error", -1, "")
    assert "a/b" in r["message"]


def test_the_originals_mark_is_a_file_like_any_other(jobs):
    r = run(jobs(), "cat .runjob-ready", files=[put(".runjob-ready", b"1")])
    assert (r["stdout"], r["artifacts"]) == ("1", [])


def test_caps_are_exact_and_the_rest_can_be_read(jobs):
    server = jobs(MCP_K8S_MAX_OUTPUT_BYTES="4",
                  MCP_K8S_MAX_ARTIFACT_BYTES="5")
    token = submit(server, "printf abcdef; printf wxyz >&2;"
                   " printf 123 >a; printf 45678 >b; printf 9 >c")
    r = fetch(server, token)
    assert (r["stdout"], r["stderr"]) == ("abcd", "wxyz")
    assert r["truncated"] == {"stdout": True, "stderr": False,
                              "artifacts": True}
    assert got(r) == {"a": b"123", "b": b"45", "c": b""}
    assert [a.get("truncated", False) for a in r["artifacts"]] == [
        False, True, True]
    assert r["artifacts"][2]["size"] == 1

    def read(**more):
        r = success(server.tool("fetch_job", {"job_token": token, **more}))
        return base64.b64decode(r["content_b64"]), r["size"]
    assert read(path="b", offset=2) == (b"678", 5)
    assert read(path="c") == (b"9", 1)
    assert read(stream="stdout", offset=4, length=1) == (b"e", 6)
    assert "No such file" in failure(server.tool(
        "fetch_job", {"job_token": token, "path": "d"}))
    assert "below workdir" in failure(server.tool(
        "fetch_job", {"job_token": token, "path": "../a"}))


def test_bytes_that_are_no_text(jobs):
    r = run(jobs(), "printf 'a\\377b'; printf '\\000' >nul")
    assert r["stdout"] == "a\ufffdb"
    assert got(r) == {"nul": b"\0"}


@pytest.mark.parametrize("tool", ["run_job", "submit_job"])
@pytest.mark.parametrize("change, words", [
    ({"image": "evil:1"}, "is not available"),
    ({"command": []}, "command is required"),
    ({"command": None}, "command is required"),
    ({"files": [{"path": "/a", "content_b64": "eA=="}]}, "must be relative"),
    ({"files": [{"path": "a", "content_b64": "%"}]}, "base64"),
    ({"files": [{"path": "a", "content_b64": "eA==", "mode": "x"}]}, "octal"),
    ({"files": [{"path": "a/", "content_b64": "eA=="}]}, "name a file"),
    ({"env": {"1": ""}}, "invalid env key"),
    ({"timeout_s": 601}, "exceeds max"),
    ({"limits": {"cpu": "many"}}, "limits: cpu"),
    ({"workdir": "here"}, "workdir"),
    ({"clone": {"repo_url": "https://h/x", "ref": "main"}}, "not configured"),
    ({"nonsense": 1}, "nonsense"),
])
def test_what_is_wrong_is_said_before_anything_is_made(
        jobs, standin, tool, change, words):
    r = jobs().tool(tool, {**arguments("true"), **change})
    assert words in failure(r)
    assert not standin.requests()


def test_any_server_fetches_any_number_of_times(jobs):
    first = jobs()
    token = submit(first, "echo one; sleep 0.5; echo two; echo f >f")
    first.kill()
    second = jobs()
    r = fetch(second, token)
    assert (r["status"], r["stdout"]) == ("succeeded", "one\ntwo\n")
    assert fetch(jobs(), token) == fetch(second, token) == r


def test_a_running_job_shows_its_output(jobs):
    server = jobs()
    token = submit(server, "echo so far; sleep 60")

    def said():
        r = success(server.tool("fetch_job", {"job_token": token}))
        assert r["status"] == "running"
        return r.get("stdout")
    assert wait_for(said) == "so far\n"


def test_cancel_returns_what_there_is_and_leaves_nothing(jobs, standin):
    """users.md 53"""
    server = jobs()
    token = submit(server, "echo a; echo f >f; trap '' TERM; sleep 60")
    wait_for(lambda: success(server.tool("fetch_job", {
        "job_token": token})).get("stdout"))
    r = success(server.tool("cancel_job", {"job_token": token}, 30))
    assert r["status"] == "cancelled"
    assert (r["result"]["reason"], r["result"]["exit_code"]) == (
        "cancelled", -1)
    assert r["result"]["stdout"] == "a\n"
    assert got(r["result"]) == {"f": b"f\n"}
    nothing_left(standin)
    asked = standin.requests("^DELETE$", "/jobs/")[-1]
    assert json.loads(asked["body"])["propagationPolicy"] == "Background"
    assert "submit" in failure(server.tool("fetch_job",
                                           {"job_token": token}))


@pytest.mark.parametrize("token", ["", "x", "job-1", "job-" + 32 * "G",
                                   "../pods"])
def test_what_is_no_token_is_not_asked_for(jobs, standin, token):
    assert "job_token" in failure(jobs().tool("fetch_job",
                                              {"job_token": token}))
    assert not standin.requests()


def test_a_session_lists_its_own(jobs):
    a, b = jobs(MCP_SANDBOX_SESSION_ID="a"), jobs(MCP_SANDBOX_SESSION_ID="b")
    token = submit(a, "sleep 60")
    listed = success(a.tool("list_jobs"))["jobs"]
    assert [j["job_token"] for j in listed] == [token]
    assert listed[0]["image"] == IMAGE
    assert success(b.tool("list_jobs")) == {"jobs": [], "truncated": False}


def test_a_cancelled_call_leaves_nothing(jobs, standin):
    server = jobs()
    id = server.request("tools/call", {
        "name": "run_job", "arguments": arguments("sleep 60")})
    wait_for(lambda: standin.requests(**COLLECT))
    server.cancel(id)
    nothing_left(standin)


@pytest.mark.parametrize("rule", [POST, INJECT, COLLECT])
def test_the_end_of_the_input_leaves_nothing(jobs, standin, rule):
    server = jobs()
    server.request("tools/call", {
        "name": "run_job", "arguments": arguments("sleep 60")})
    wait_for(lambda: standin.requests(rule["method"], rule["path"]))
    server.close()
    nothing_left(standin)


@pytest.mark.parametrize("action", ["drop", "ws-no-status", "ws-cut",
                                    "ws-drop"])
def test_a_broken_connection_is_only_tried_again(jobs, standin, action):
    more = {"after": 1} if action in ("ws-drop", "ws-cut") else {}
    standin.fault(action, COLLECT["path"], count=2, **more)
    r = run(jobs(), "echo once; echo x >>count", files=[put("f", b"1")])
    assert (r["stdout"], got(r)) == ("once\n", {"count": b"x\n"})


@pytest.mark.parametrize("action", ["drop-after", "cut-body"])
def test_a_job_whose_answer_was_lost_is_deleted(jobs, standin, action):
    standin.fault(action, POST["path"], method="^POST$")
    failure(jobs().tool("run_job", arguments("true"), 30))
    nothing_left(standin)


def test_a_refused_job_says_why(jobs, standin):
    standin.fault("status", POST["path"], method="^POST$", code=403,
                  message="jobs.batch is forbidden: no rights")
    assert "no rights" in failure(jobs().tool("run_job", arguments("true"),
                                              30))


def test_a_collection_that_never_works_is_named(jobs, standin):
    standin.fault("drop", COLLECT["path"], count=-1)
    r = run(jobs(), "echo once")
    assert (r["status"], r["reason"], r["exit_code"]) == (
        "error", "connection_lost", -1)
    assert r["message"]
    nothing_left(standin)


@pytest.mark.parametrize("action", ["watch-end", "watch-410", "watch-cut",
                                    "watch-garbage"])
def test_a_watch_that_breaks_goes_on(jobs, standin, action):
    standin.fault(action, WATCH["path"], count=3, after=1)
    assert run(jobs(), "echo seen")["stdout"] == "seen\n"


def test_a_deleted_pod_is_named_and_had_its_last_words(jobs, standin):
    """users.md 34"""
    server = jobs()
    id = server.request("tools/call", {
        "name": "run_job", "arguments": arguments("echo words; sleep 60")})
    wait_for(lambda: standin.requests(**COLLECT))
    pod = standin.objects("Pod")[0]["metadata"]["name"]
    standin.call("DELETE", f"/api/v1/namespaces/default/pods/{pod}")
    r = success(server.reply(id, 30)["result"])
    assert (r["status"], r["reason"], r["exit_code"]) == (
        "error", "deleted", -1)
    nothing_left(standin)


def test_a_pod_of_another_owner_is_not_taken_for_its_own(jobs, standin):
    """users.md 55: a label is not enough"""
    standin.fault("hold-after", **POST)
    server = jobs()
    id = server.request("tools/call", {
        "name": "run_job", "arguments": arguments("echo mine")})
    pod, = wait_for(lambda: standin.objects("Pod"), "its pod")
    standin.call("POST", "/api/v1/namespaces/default/pods", {
        "metadata": {"name": "stranger", "labels": pod["metadata"]["labels"]},
        "spec": {"restartPolicy": "Never", "containers": [
            {"name": "main", "image": IMAGE, "command": ["false"]}]}})
    wait_for(lambda: "Failed" in [p.get("status", {}).get("phase")
                                  for p in standin.objects("Pod")], "its end")
    standin.release()
    r = success(server.reply(id, 30)["result"])
    assert (r["status"], r["stdout"]) == ("succeeded", "mine\n")


def test_a_slow_start_is_not_the_commands_time(jobs, standin):
    standin.fault("delay", INJECT["path"], ms=3500)
    r = run(jobs(), "sleep 0.2; echo in time", timeout_s=3)
    assert (r["status"], r["stdout"]) == ("succeeded", "in time\n")
    assert r["duration_ms"] < 3000


def test_a_signal_ends_what_runs_and_leaves_nothing(jobs, standin):
    server = jobs()
    server.request("tools/call", {
        "name": "run_job", "arguments": arguments("sleep 60")})
    wait_for(lambda: standin.requests(**COLLECT))
    server.kill(signal.SIGTERM)
    server.wait()
    nothing_left(standin)


def test_a_result_is_sent_once(jobs):
    """The text names the artifacts; what is in them is structured only."""
    data = base64.b64encode(bytes(range(256)) * 2000)
    server = jobs()
    before = len(server.output)
    r = run(server, "cp in out", files=[put("in", data)])
    assert got(r) == {"out": data}
    assert len(server.output) - before < len(data) * 4 / 3 + 10000


def test_what_is_too_large_for_a_message_is_cut_and_can_be_read(jobs):
    """Four million bytes that take six each in JSON, and 30 MB of a file.
    users.md 32"""
    server = jobs(MCP_K8S_MAX_OUTPUT_BYTES=str(16 << 20),
                  MCP_K8S_MAX_ARTIFACT_BYTES=str(1 << 30))
    token = submit(
        server, "head -c 4000000 /dev/zero | tr '\\0' '\\1'; echo err >&2;"
        "umask 077; yes 0123456789abcde | head -c 30000000 >big; echo 1 >x")
    r = fetch(server, token)
    assert len(r["stdout"]) < 4000000 and r["stderr"] == "err\n"
    assert r["truncated"] == {"stdout": True, "stderr": False,
                              "artifacts": True}
    big, small = r["artifacts"]
    assert (big["size"], big["truncated"]) == (30000000, True)
    assert (small["name"], small["size"]) == ("x", 2)
    whole, server = hashlib.sha256(), jobs()
    for at in range(0, 30000000, 1 << 20):
        part = success(server.tool("fetch_job", {
            "job_token": token, "path": "big", "offset": at,
            "length": 1 << 20}))
        assert part["size"] == 30000000
        whole.update(base64.b64decode(part["content_b64"]))
    assert whole.hexdigest() == big["sha256"]
    assert SANITIZED or peak_kb(server) < 16 << 10
    part = success(server.tool("fetch_job", {
        "job_token": token, "stream": "stdout", "offset": 3999999}))
    assert base64.b64decode(part["content_b64"]) == b"\1"


def test_a_result_is_kept_for_its_time_and_then_gone(jobs, standin):
    """users.md 34"""
    server = jobs(MCP_SANDBOX_JOB_KEEP="4")
    token = submit(server, "echo kept")
    assert fetch(server, token)["stdout"] == "kept\n"
    nothing_left(standin)
    assert "no longer kept" in failure(server.tool(
        "fetch_job", {"job_token": token}))


@pytest.mark.parametrize("step", ["POST", "WATCH", "INJECT"])
@pytest.mark.parametrize("tool", ["run_job", "submit_job"])
def test_killed_before_its_command_began(jobs, standin, tool, step):
    """Another server finds it, says how far it is, and can end it."""
    rule = {"POST": POST, "WATCH": WATCH, "INJECT": INJECT}[step]
    standin.fault("hold-after" if step == "POST" else "hold", rule["path"],
                  method=rule["method"])
    first = jobs(MCP_SANDBOX_SESSION_ID="s")
    first.request("tools/call", {"name": tool,
                                 "arguments": arguments("echo ran")})
    wait_for(lambda: standin.requests(**rule) and standin.objects("Pod"))
    first.kill()
    second = jobs(MCP_SANDBOX_SESSION_ID="s")
    token = success(second.tool("list_jobs"))["jobs"][0]["job_token"]
    standin.clear_faults()
    assert success(second.tool("fetch_job", {"job_token": token}))[
        "status"] == "running"
    r = success(second.tool("cancel_job", {"job_token": token}, 30))
    assert r["status"] == "cancelled"
    assert (r["result"]["exit_code"], r["result"]["stdout"]) == (-1, "")
    nothing_left(standin)


@pytest.mark.parametrize("step", ["FIND", "COLLECT"])
def test_killed_while_it_fetched(jobs, standin, step):
    first = jobs()
    token = submit(first, "sleep 0.5; echo out; echo f >f")
    path = COLLECT["path"] if step == "COLLECT" else "/jobs/"
    standin.fault("hold", path, method="^GET$")
    first.request("tools/call", {"name": "fetch_job", "arguments": {
        "job_token": token, "wait_s": 30}})
    wait_for(lambda: standin.requests("^GET$", path))
    first.kill()
    r = fetch(jobs(), token)
    assert (r["status"], r["stdout"], got(r)) == (
        "succeeded", "out\n", {"f": b"f\n"})


def test_killed_while_it_cancelled(jobs, standin):
    first = jobs()
    token = submit(first, "echo out; sleep 60")
    wait_for(lambda: success(first.tool("fetch_job", {
        "job_token": token})).get("stdout"), "its output")
    standin.fault("hold", "/jobs/", method="^DELETE$")
    first.request("tools/call", {"name": "cancel_job", "arguments": {
        "job_token": token}})
    wait_for(lambda: standin.requests("^DELETE$", "/jobs/"))
    first.kill()
    r = success(jobs().tool("cancel_job", {"job_token": token}, 30))
    assert (r["result"]["reason"], r["result"]["stdout"]) == (
        "cancelled", "out\n")
    nothing_left(standin)


def test_the_limit_holds_over_servers(jobs):
    servers = [jobs(MCP_K8S_MAX_CONCURRENT="2") for _ in range(3)]
    ids = [(s, s.request("tools/call", {
        "name": "run_job", "arguments": arguments(
            "cat /proc/uptime; sleep 0.7; cat /proc/uptime")}))
        for s in servers for _ in range(3)]
    times = []
    for s, id in ids:
        r = success(s.reply(id, 60)["result"])
        assert r["status"] == "succeeded"
        times.append([float(x.split()[0]) for x in r["stdout"].splitlines()])
    assert most_at_once(times) <= 2


def test_over_the_limit_submit_is_refused_and_makes_nothing(jobs, standin):
    server = jobs(MCP_K8S_MAX_CONCURRENT="1")
    submit(server, "sleep 60")
    assert "1 jobs are running" in failure(server.tool(
        "submit_job", arguments("true"), 30))
    assert len(standin.objects("Job")) == 1


def test_a_kept_result_is_not_counted(jobs):
    server = jobs(MCP_K8S_MAX_CONCURRENT="1")
    fetch(server, submit(server, "echo 1"))
    assert run(server, "echo 2")["stdout"] == "2\n"


def test_variables_of_the_server_and_the_caller(jobs):
    server = jobs(MCP_K8S_JOB_EXTRA_ENV='{"A":"server","B":"$(A) $$"}')
    r = run(server, 'echo "$A,$B,$C"', env={"A": "caller", "C": ""})
    assert r["stdout"] == "caller,$(A) $$,\n"


@pytest.mark.parametrize("env, word", [
    ({"MCP_K8S_JOB_EXTRA_ENV": "[1]"}, "MCP_K8S_JOB_EXTRA_ENV"),
    ({"MCP_K8S_DEFAULT_TIMEOUT_S": "700"}, "MCP_K8S_MAX_TIMEOUT_S"),
    ({"MCP_K8S_DEFAULT_TIMEOUT_S": ""}, "MCP_K8S_DEFAULT_TIMEOUT_S"),
    ({"MCP_K8S_DEFAULT_MEMORY": "1g"}, "MCP_K8S_DEFAULT_MEMORY"),
    ({"MCP_K8S_CACHE_PVC": "x"}, "MCP_K8S_CACHE_MOUNT_PATH"),
    ({"MCP_K8S_TRANSPORT": "carrier-pigeon"}, "MCP_K8S_TRANSPORT"),
    ({"MCP_K8S_CACHE_PVC": "gone", "MCP_K8S_CACHE_MOUNT_PATH": "/c"},
     "'gone'"),
])
def test_a_bad_setting_stops_the_start(jobs, env, word):
    server = jobs(**env)
    assert server.wait() == 78
    assert word in server.stderr


def test_the_family_is_offered_by_its_setting(jobs, start):
    names = {t["name"] for t in jobs().ask("tools/list")["result"]["tools"]}
    assert names == {"run_job", "submit_job", "fetch_job", "list_jobs",
                     "cancel_job"}
    names = {t["name"] for t in start().ask("tools/list")["result"]["tools"]}
    assert "run_job" not in names


def test_the_list_of_tools_is_short(jobs):
    tools = jobs().ask("tools/list")["result"]["tools"]
    assert len(json.dumps(tools, separators=(",", ":"))) <= 6 * 1024


def test_progress_tells_the_phase_then_the_last_line(jobs):
    server = jobs()
    id = server.request("tools/call", {
        "name": "run_job", "arguments": arguments(
            "echo first; sleep 1; echo second; sleep 1.5")},
        meta={"progressToken": "p"})
    server.reply(id, 30)
    said = [m["params"].get("message", "") for m in server.aside
            if m.get("method") == "notifications/progress"]
    assert re.search("creating job.*takes the files.*second",
                     " ".join(said)), said
