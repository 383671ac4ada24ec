# SPDX-License-Identifier: Apache-2.0
"""The bash family: what a call says, which pod it has, who makes it, what is
left (cli-mcp-server 5 to 13, 18). The agent is the real one, brought in."""

import base64
import concurrent.futures
import contextlib
import json
import os
import re
import signal
import subprocess
import time
import urllib.parse

import pytest

from blackbox import NS, failure
from program import BINARY, clean_environment
from standin.client import MERGE, OPEN, PODS, wait_for
from standin.lag import LAG_S
from web import Server

HERE = os.path.dirname(os.path.abspath(__file__))
DOMAIN = "tarsy.redhat.com"
SESSION, ACTIVE = DOMAIN + "/session-id", DOMAIN + "/last-activity"
COMPONENT = DOMAIN + "/component"
PODS_PATH = f"/api/v1/namespaces/{NS}/pods"
SECRETS_PATH = f"/api/v1/namespaces/{NS}/secrets"
OLD = ("--image-has-agent", "--sandbox-image",
       "file:" + os.path.join(HERE, "runtime", "oldagent.py"))
with open(os.path.join(HERE, "vectors", "cli-mcp-server.json"),
          encoding="utf-8") as f:
    VECTORS = json.load(f)


@pytest.fixture
def bash(start):
    """bash(*options) gives a program that offers bash."""
    return lambda *options, **how: start("--tools", "bash", *options, **how)


def call(program, command, timeout_s=15, **more):
    return program.tool("bash", {"command": command, **more}, timeout_s)


def run(program, command, timeout_s=15, **more):
    """The structured output of a command that exits with 0."""
    r = call(program, command, timeout_s, **more)
    assert r["isError"] is False, r
    return r["structuredContent"]


def begin(program, command):
    return program.request("tools/call", {"name": "bash", "arguments": {
        "command": command}})


def pods(standin, session=None):
    return [o for o in standin.objects("Pod")
            if COMPONENT in o["metadata"].get("labels", {})
            and session in (None, o["metadata"]["labels"].get(SESSION))]


def secrets(standin):
    return standin.objects("Secret")


def nothing_left(standin):
    wait_for(lambda: not pods(standin) and not secrets(standin),
             "an empty namespace")


def ready(pod):
    return any(c["type"] == "Ready" and c["status"] == "True"
               for c in pod.get("status", {}).get("conditions", []))


def gc(standin, *options, code=0):
    done = subprocess.run([BINARY, *options, "gc"], capture_output=True,
                          env=clean_environment(KUBECONFIG=standin.kubeconfig),
                          text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout


def annotate(standin, pod, **notes):
    standin.call("PATCH", PODS.format(ns=NS) + "/" + pod["metadata"]["name"],
                 {"metadata": {"annotations": {
                     f"{DOMAIN}/{k.replace('_', '-')}": v
                     for k, v in notes.items()}}}, MERGE)


# What a call says

def test_the_result_has_the_form_of_the_original(bash):
    server = bash()
    run(server, "true")
    for case in VECTORS["mcp_tool_results"][:2]:
        want = case["result"]
        code = want["structuredContent"]["exit_code"]
        command = "printf hi" if code == 0 else "(exit 1)"
        r = call(server, command)
        got = {**r["structuredContent"], "duration_ms": 0}
        assert got == want["structuredContent"]
        shown = re.sub(r'"duration_ms":\d+', '"duration_ms":0',
                       r["content"][0]["text"])
        assert shown == want["content"][0]["text"]
        assert r["isError"] is want.get("isError", False)


def test_an_empty_command_is_refused(bash, standin):
    server = bash()
    assert failure(call(server, "")) == "command is required"
    assert not standin.requests("POST")
    assert run(server, "   ")["stdout"] == ""


def test_the_shell_is_kept(bash):
    server = bash()
    run(server, "cd /tmp; export A=1; f() { echo f; }; x=2")
    assert run(server, "pwd; echo $A$x; f")["stdout"] == "/tmp\n12\nf"
    assert run(server, "cat", stdin="given")["stdout"] == "given"
    assert run(server, "cat")["stdout"] == ""
    r = call(server, "exit 7")["structuredContent"]
    assert (r["exit_code"], r["session_reset"]) == (7, True)
    assert run(server, "echo ${x-gone}; pwd")["stdout"] == "gone\n/tmp"
    run(server, "y=1")
    assert run(server, "echo ${y-gone}", reset=True)["stdout"] == "gone"


def test_a_timeout_is_told_and_leaves_the_shell(bash):
    server = bash()
    run(server, "a=1")
    r = call(server, "echo before; sleep 60", timeout=1)["structuredContent"]
    assert (r["exit_code"], r["stdout"], r["timed_out"]) == (
        137, "before", True)
    assert r["stderr"].endswith("command timed out")
    assert run(server, "echo $a")["stdout"] == "1"


@pytest.mark.parametrize("case", VECTORS["bash_timeout_clamp_seconds"],
                         ids=lambda c: str(c["in"]))
def test_timeouts_are_clamped(bash, standin, case):
    """Read from what an agent that only repeats is sent."""
    server = bash("--image-has-agent", "--sandbox-image",
                  "file:" + os.path.join(HERE, "runtime", "echoagent.py"))
    sent = json.loads(run(server, "x", timeout=case["in"])["stdout"])
    assert sent["timeout"] == case["out"]
    assert sent["command"] == "x"


def test_long_output_is_cut_in_the_middle(bash):
    server = bash()
    r = run(server, "seq 100000", max_output_chars=1000)
    assert r["truncated"] and r["stdout_total_bytes"] == 588895
    head, left, tail = re.split(r"\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n",
                                r["stdout"])
    assert head.startswith("1\n2\n") and tail.endswith("\n100000")
    assert abs(len(head) + len(tail) + int(left) - 588895) <= 1
    assert len(head) + len(tail) <= 1000
    whole = run(server, "seq 40000")
    assert "truncated" not in whole and len(whole["stdout"]) == 228893


def test_what_json_makes_long_still_gets_through(bash):
    r = run(bash(), "head -c 300000 /dev/zero | tr '\\0' '\\1'; "
            "head -c 300000 /dev/zero | tr '\\0' '\\1' >&2")
    assert len(r["stdout"]) > 50000 and set(r["stdout"]) <= set(
        "\x01\n[.] 0123456789 bytes left out")


def test_a_background_command_returns_at_once(bash):
    server = bash()
    r = run(server, "sleep 0.2; echo done > \"$TMPDIR/flag\"; sleep 60",
            background=True)
    assert r["exit_code"] == 0 and r["output_id"]
    wait_for(lambda: call(server, "cat \"$TMPDIR/flag\"")
             ["structuredContent"]["stdout"] == "done", "the flag")


def output(program, id, **more):
    r = program.tool("bash_output", {"output_id": id, **more})
    assert r["isError"] is False, r
    return r["structuredContent"]


def test_long_output_is_there_to_be_read(bash):
    """users.md 32"""
    server = bash()
    id = run(server, "seq 100000", max_output_chars=200)["output_id"]
    r = output(server, id, offset=588890)
    assert (r["output"], r["next_offset"]) == ("0000\n", 588895)
    r = output(server, id, line=50000, max_output_chars=128)
    assert r["output"].startswith("50000\n50001\n")
    assert (r["state"], r["exit_code"]) == ("exited", 0)
    assert output(server, id, line=-2)["output"] == "99999\n100000\n"
    assert "output_id" not in run(server, "echo short")


def test_output_is_read_in_whole_characters(bash):
    server = bash()
    id = run(server, "yes \u20ac\u00fc\U0001f600 | head -200 | tr -d '\\n'",
             max_output_chars=128)["output_id"]
    text, at = "", 0
    while at < 1800:
        r = output(server, id, offset=at, max_output_chars=131)
        text, at = text + r["output"], r["next_offset"]
    assert text == "\u20ac\u00fc\U0001f600" * 200


def test_a_background_command_is_spoken_to_and_ended(bash):
    """users.md 24, 25"""
    server = bash()
    id = run(server, "while read x; do echo got $x; done; echo end; exit 5",
             background=True, stdin_open=True)["output_id"]
    output(server, id, stdin="one\ntwo\n")
    wait_for(lambda: output(server, id)["output"] == "got one\ngot two\n",
             "its answer")
    r = output(server, id, close_stdin=True, wait=10)
    assert (r["state"], r["exit_code"]) == ("exited", 5)
    assert r["output"].endswith("end\n")
    id = run(server, "echo begun; sleep 99", background=True)["output_id"]
    assert output(server, id)["state"] == "running"
    assert output(server, id, stop=True)["state"] == "stopped"


def test_another_server_reads_and_ends_what_one_began(bash):
    """users.md 27: an output's name is good for as long as its pod"""
    first = bash("--session-id", "kept")
    id = run(first, "echo begun; cat; echo end; sleep 99", background=True,
             stdin_open=True)["output_id"]
    assert first.close() == 0
    second = bash("--session-id", "kept")
    output(second, id, stdin="one\n", close_stdin=True)
    wait_for(lambda: output(second, id)["output"] == "begun\none\nend\n",
             "its output")
    assert output(second, id, stop=True)["state"] == "stopped"


def test_an_unknown_output_is_told(bash):
    server = bash()
    r = server.tool("bash_output", {"output_id": "none"})
    assert "there is no output 'none'" in failure(r)
    r = server.tool("bash_output", {"output_id": "../x"})
    assert "not one of bash's" in failure(r)


FILE_TOOLS = {
    "upload_file": {"content": "x"}, "download_file": {}, "list_files": {},
    "file_exists": {}, "stat_file": {}, "delete_file": {},
    "move_file": {"to": "g"}}


def file(program, tool, path, session="@bash", **more):
    return program.tool(tool, {"sandbox_claim_name": session, "namespace": "-",
                               "path": path, **FILE_TOOLS[tool], **more})


def with_files(*options):
    return ("--tools", "bash," + ",".join(FILE_TOOLS), *options)


def test_files_of_the_session_are_those_of_its_shell(start, tmp_path):
    server = start(*with_files("--session-id", "one"))
    run(server, f"echo told > f; echo far > {tmp_path}/g; cd /")
    assert file(server, "download_file", "f")["structuredContent"][
        "content"] == "told\n"
    assert file(server, "download_file", f"{tmp_path}/g")[
        "structuredContent"]["content"] == "far\n"
    file(server, "upload_file", "f", content="new")
    assert run(server, "cat ~/f")["stdout"] == "new"
    other = start(*with_files("--session-id", "two"))
    assert file(other, "file_exists", "f")["structuredContent"] == {
        "exists": False}


def test_a_file_tool_makes_the_pod_and_waits_for_no_command(bash, standin,
                                                            start):
    server = start(*with_files())
    assert file(server, "upload_file", "f")["isError"] is False
    id = begin(server, "cat f; sleep 60")
    assert file(server, "stat_file", "f")["structuredContent"]["size"] == 1
    server.cancel(id)
    assert server.close() == 0
    nothing_left(standin)


@pytest.mark.parametrize("tool", FILE_TOOLS)
def test_no_file_tool_gets_along_without_a_session(start, standin, tool):
    server = start(*with_files("--session-id", "Not.One"))
    assert "invalid session ID" in failure(file(server, tool, "f"))
    assert not standin.requests()


def test_an_older_agent_has_no_files(start):
    server = start(*with_files(*OLD))
    for tool in FILE_TOOLS:
        said = failure(file(server, tool, "f"))
        assert "has no file operations" in said, tool


@pytest.mark.parametrize("id", [c["id"] for c in VECTORS["session_id"]["cases"]
                                if c["id"] and not c["valid"]
                                and re.fullmatch(r"[A-Za-z0-9._-]{1,63}",
                                                 c["id"])
                                and c["id"][0].isalnum()
                                and c["id"][-1].isalnum()])
def test_a_session_that_is_no_name_is_refused(bash, standin, id):
    text = failure(call(bash("--session-id", id), "true"))
    assert text.startswith("sandbox exec failed: invalid session ID")
    assert not standin.requests()


def test_every_failure_begins_as_in_the_original(bash, standin):
    standin.fault("status", path="/pods", method="GET", code=403,
                  message="no", reason="Forbidden", count=-1)
    assert failure(call(bash(), "true")).startswith("sandbox exec failed: ")


# The pod

def test_a_cold_start_sends_what_the_contract_says(bash, standin):
    server = bash("--session-id", "inv-abc")
    run(server, "true")
    asked = [(r["method"], r["path"].split("?")[0])
             for r in standin.requests()]
    assert asked[:3] == [("GET", PODS_PATH), ("POST", SECRETS_PATH),
                         ("POST", PODS_PATH)]
    (pod,) = pods(standin, "inv-abc")
    (secret,) = secrets(standin)
    assert pod["metadata"]["name"] == "cli-mcp-sandbox-inv-abc"
    assert secret["metadata"]["name"] == "cli-mcp-sandbox-auth-inv-abc"
    wait_for(lambda: secrets(standin)[0]["metadata"].get("ownerReferences"),
             "an owner")
    (owner,) = secrets(standin)[0]["metadata"]["ownerReferences"]
    assert owner["uid"] == pod["metadata"]["uid"]
    standin.forget_requests()
    run(server, "true")
    assert {(r["method"], r["path"].split("?")[0])
            for r in standin.requests()} == {("GET", PODS_PATH)}


def test_a_cold_start_tells_what_is_going_on(bash):
    """cli-mcp-server 18, 18"""
    server = bash()
    id = server.request("tools/call", {"name": "bash", "arguments": {
        "command": "true"}}, meta={"progressToken": "p"})
    assert server.reply(id, 30)["result"]["isError"] is False
    said = [m["params"]["message"] for m in server.aside
            if m.get("method") == "notifications/progress"]
    assert said[0] == "creating the session's pod"


def test_the_session_of_a_process_goes_with_it(bash, standin):
    server = bash()
    run(server, "true")
    assert len(pods(standin)) == 1
    assert server.close() == 0
    nothing_left(standin)


def test_a_process_without_a_command_asks_nothing(bash, standin):
    server = bash()
    server.ask("tools/list")
    assert server.close() == 0
    assert not standin.requests()


def test_a_named_session_stays(bash, standin):
    first = bash("--session-id", "kept")
    run(first, "mark=1; cd /tmp")
    assert first.close() == 0
    assert run(bash("--session-id", "kept"),
               "echo $mark $PWD")["stdout"] == "1 /tmp"
    assert len(pods(standin)) == 1


def test_tokens_come_from_the_key(bash, standin, tmp_path):
    case = next(c for c in VECTORS["hmac_token"]["cases"]
                if c["session"] == "inv-abc")
    (tmp_path / "key").write_bytes(b"\n" + base64.b64decode(case["key_b64"])
                                   + b" \n")
    server = bash("--session-id", "inv-abc", "--hmac-key-file",
                  str(tmp_path / "key"))
    run(server, "true")
    (secret,) = secrets(standin)
    assert base64.b64decode(secret["data"]["token"]).decode() == case["token"]
    assert not standin.requests("GET", "/secrets/")
    assert case["token"] not in server.stderr


@pytest.mark.parametrize("content,told", [
    (None, "failed to read HMAC key file"),
    (b" \n", "empty or whitespace-only")])
def test_a_bad_key_file_stops_the_start(bash, tmp_path, content, told):
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    server = bash("--hmac-key-file", str(tmp_path / "key"))
    assert server.wait() == 78
    assert told in server.stderr


@pytest.mark.parametrize("option,value", [
    ("--idle-timeout", "30"), ("--idle-timeout", "0s"),
    ("--idle-timeout", "-1m"), ("--warm-pool-size", "-1"),
    ("--sandbox-image", ""), ("--run-as-user", "root"),
    ("--run-as-user", "0"), ("--transport", "websocket")])
def test_a_bad_setting_stops_the_start(bash, option, value):
    server = bash(f"{option}={value}")
    assert server.wait() in (64, 78)
    assert option in server.stderr


# An agent as the original's

def test_an_older_agent_will_do(bash):
    server = bash(*OLD)
    r = run(server, "echo out; echo err >&2")
    assert (r["stdout"], r["stderr"]) == ("out", "err")
    r = run(server, "seq 200000", max_output_chars=200)
    assert r["truncated"] and r["stdout"].endswith("200000")
    assert "older agent" in failure(call(server, "true", background=True))


def test_what_the_original_s_agent_said_is_passed_on(bash):
    """test_agent.py has the other direction."""
    server = bash("--image-has-agent", "--sandbox-image",
                  "file:" + os.path.join(HERE, "runtime", "recordedagent.py"))
    for row in VECTORS["agent_exec_sequence"]["cases"]:
        r = call(server, row["command"], timeout=row["timeout_s"])
        want = row["response"]
        if row["status"] == 200:
            got = r["structuredContent"]
            assert {k: got[k] for k in want} == want, row
            assert r["isError"] is (want["exit_code"] != 0)
        else:
            assert failure(r).startswith("sandbox exec failed: ")
            assert want["error"] in failure(r)


def test_the_selectors_are_those_of_the_original(bash, standin):
    wanted = VECTORS["label_selectors"]
    gc(standin, "--warm-pool-size", "1")
    run(bash("--session-id", "inv-abc", "--warm-pool-size", "1"), "true")
    asked = {urllib.parse.parse_qs(r["path"].partition("?")[2]).get(
        "labelSelector", [""])[0] for r in standin.requests("GET")}
    for name in "all", "session", "unassigned":
        assert set(wanted[name].split(",")) in [set(a.split(","))
                                                for a in asked], name


def test_an_older_agent_that_was_not_assigned_is(bash, standin):
    gc(standin, *OLD, "--warm-pool-size", "1")
    (pod,) = pods(standin)
    # A server that was killed between the claim and the agent.
    token = base64.b64encode(b"tok" * 20).decode()
    standin.call("POST", SECRETS_PATH, {
        "metadata": {"name": "cli-mcp-sandbox-auth-half",
                     "labels": {SESSION: "half"}}, "data": {"token": token}})
    standin.call("PATCH", PODS_PATH + "/" + pod["metadata"]["name"],
                 {"metadata": {"labels": {SESSION: "half"}}}, MERGE)
    assert run(bash(*OLD, "--session-id", "half"), "echo a")["stdout"] == "a"


# Races and ends

def test_two_servers_share_a_session(bash, standin):
    """170 times here and 30 on the real cluster; each ends before the next
    but two, so that the machine has few pods at once."""
    def race(n):
        both = [bash("--session-id", f"race-{n}") for _ in range(2)]
        asked = [begin(s, "echo $$") for s in both]
        got = [s.reply(a, 60)["result"] for s, a in zip(both, asked)]
        assert not any(r["isError"] for r in got), got
        one, two = (r["structuredContent"]["stdout"] for r in got)
        assert one == two
        (pod,) = pods(standin, f"race-{n}")
        for s in both:
            s.close()
        standin.call("DELETE", PODS_PATH + "/" + pod["metadata"]["name"],
                     {"gracePeriodSeconds": 0})

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        assert len(list(pool.map(race, range(170)))) == 170


def test_calls_at_once_share_the_search(bash, standin):
    server = bash()
    asked = [begin(server, "echo $$") for _ in range(5)]
    got = {server.reply(a, 30)["result"]["structuredContent"]["stdout"]
           for a in asked}
    assert len(got) == 1 and len(pods(standin)) == 1
    assert len(standin.requests("POST", "/secrets")) == 1


@pytest.mark.parametrize("method,path,action", [
    ("POST", "/secrets", "hold"), ("POST", "/secrets", "hold-after"),
    ("POST", "/pods", "hold"), ("POST", "/pods", "hold-after"),
    ("GET", "/exec", "hold"), ("GET", "/portforward", "hold"),
    ("GET", "/pods/", "hold")])
def test_a_killed_server_is_followed(bash, standin, method, path, action):
    rule = standin.fault(action, method=method, path=path)
    first = bash("--session-id", "left")
    begin(first, "true")
    wait_for(lambda: standin.taken(rule), "the request")
    first.kill(signal.SIGKILL)
    first.wait()
    standin.clear_faults()
    second = bash("--session-id", "left")
    assert run(second, "echo here")["stdout"] == "here"
    assert len(pods(standin, "left")) == 1


@pytest.mark.parametrize("method,path,action", [
    ("POST", "/secrets", "hold-after"), ("POST", "/pods", "hold-after"),
    ("GET", "/pods/", "hold"), ("GET", "/exec", "hold")])
@pytest.mark.parametrize("how", ["cancel", "end of input"])
def test_what_is_broken_off_is_taken_back(bash, standin, method, path,
                                          action, how):
    rule = standin.fault(action, method=method, path=path)
    server = bash("--session-id", "off")
    asked = begin(server, "true")
    wait_for(lambda: standin.taken(rule), "the request")
    if how == "cancel":
        server.cancel(asked)
        server.ask("ping", modern=False)
    else:
        server.ask("ping", modern=False)
        server.end_input()
        time.sleep(0.1)
    standin.release()
    nothing_left(standin)


@pytest.mark.parametrize("method,path", [
    ("POST", "/secrets"), ("POST", "/pods"), ("GET", "/pods/")])
def test_a_failure_leaves_nothing(bash, standin, method, path):
    standin.fault("status", method=method, path=path, code=422, count=-1,
                  message="the webhook says no", reason="Invalid")
    assert "the webhook says no" in failure(call(bash(), "true"))
    nothing_left(standin)


def test_a_lost_answer_to_the_create_is_looked_into(bash, standin):
    standin.fault("drop-after", method="POST", path="/pods")
    assert run(bash(), "echo a")["stdout"] == "a"
    assert len(pods(standin)) == 1


def test_a_cancelled_command_ends(bash, standin):
    server = bash()
    run(server, "true")
    asked = begin(server, "sleep 77")
    wait_for(lambda: [p for p in standin.processes() if "77" in p["argv"]],
             "the command")
    server.cancel(asked)
    wait_for(lambda: not [p for p in standin.processes()
                          if "77" in p["argv"]], "its end")
    assert run(server, "echo still")["stdout"] == "still"


@pytest.mark.parametrize("how", ["deleted", "failed", "succeeded", "killed"])
def test_a_pod_that_is_over_is_replaced_at_once(bash, standin, how):
    """users.md 52"""
    server = bash("--session-id", "over")
    run(server, "a=old")
    (pod,) = pods(standin)
    path = PODS_PATH + "/" + pod["metadata"]["name"]
    if how == "deleted":
        standin.call("DELETE", path, {"gracePeriodSeconds": 30})
    elif how == "killed":
        agent = next(p for p in standin.processes()
                     if p["argv"][0].endswith("/mcp-sandbox-agent"))
        os.kill(agent["pid"], signal.SIGKILL)
        # Before anybody can know, a command may be lost with it.
        wait_for(lambda: pods(standin)[0]["status"]["phase"] == "Failed",
                 "its end")
    else:
        standin.call("PATCH", path + "/status", {"status": {
            "phase": how.capitalize(), "reason": "Evicted"}}, MERGE)
    r = run(server, "echo ${a-new}")
    assert (r["stdout"], r["session_reset"]) == ("new", True)
    assert "session_reset" not in run(server, "true")
    wait_for(lambda: len(pods(standin)) == 1, "the old pod's end")


# A pod that is used again and again is watched: nobody is asked for it

def asked(standin):
    """How the pods were asked for: "list", "watch"."""
    return ["watch" if "watch=" in r["path"] else "list"
            for r in standin.requests("^GET$", PODS_PATH + r"\?")]


def known(server, standin):
    """Commands until one needs no list."""
    def quiet():
        standin.forget_requests()
        run(server, "true")
        return not asked(standin)

    wait_for(quiet, "a command without a list")


def told(server, standin):
    """What the watch had to tell has been read: it was there before two
    answers of the stand-in, and before the line that ping is."""
    time.sleep(3 * LAG_S)
    for _ in range(2):
        standin.get(PODS_PATH)
    server.ask("ping", modern=False)


def test_a_further_command_asks_for_nothing(bash, standin):
    server = bash()
    known(server, standin)
    standin.forget_requests()
    for n in range(5):
        assert run(server, f"echo {n}")["stdout"] == str(n)
    begun = run(server, "echo b", background=True)
    server.tool("bash_output", {"output_id": begun["output_id"]})
    assert standin.requests() == []


@pytest.mark.parametrize("how", [
    "deleted", "deleted at once", "failed", "labelled", "ended by another"])
def test_a_known_pod_that_is_over_is_replaced_at_once(bash, standin, how):
    server = bash("--session-id", "over")
    known(server, standin)
    (pod,) = pods(standin)
    path = PODS_PATH + "/" + pod["metadata"]["name"]
    if how == "ended by another":
        with contextlib.closing(Server(
                "serve", kubeconfig=standin.kubeconfig)) as other:
            assert other.get("/sessions/over", "DELETE").status == 204
    elif how == "failed":
        standin.call("PATCH", path + "/status", {"status": {
            "phase": "Failed", "reason": "Evicted"}}, MERGE)
    elif how == "labelled":
        standin.call("PATCH", path, {"metadata": {"labels": {
            SESSION: "other"}}}, MERGE)
    else:
        standin.call("DELETE", path, {
            "gracePeriodSeconds": 30 if how == "deleted" else 0})
    told(server, standin)
    r = run(server, "true")
    assert r["session_reset"] is True
    (new,) = [p for p in pods(standin, "over")
              if "deletionTimestamp" not in p["metadata"]]
    assert new["metadata"]["uid"] != pod["metadata"]["uid"]
    known(server, standin)


def test_a_second_pod_of_the_session_is_looked_into(bash, standin):
    server = bash("--session-id", "two")
    known(server, standin)
    run(bash("--session-id", "younger"), "true")
    (pod,) = pods(standin, "younger")
    standin.call("PATCH", PODS_PATH + "/" + pod["metadata"]["name"],
                 {"metadata": {"labels": {SESSION: "two"}}}, MERGE)
    told(server, standin)
    standin.forget_requests()
    assert "session_reset" not in run(server, "true")
    assert "list" in asked(standin)


@pytest.mark.parametrize("fault", [
    {"action": "status", "code": 403, "message": "no", "reason": "Forbidden"},
    {"action": "watch-garbage", "after": 0},
    {"action": "watch-410", "after": 0}, {"action": "silence"},
    {"action": "drop"}])
def test_without_a_watch_each_command_lists(bash, standin, fault):
    server = bash()
    run(server, "true")
    standin.fault(**fault, path="watch=", count=-1)
    for _ in range(3):
        standin.forget_requests()
        run(server, "true")
        assert asked(standin).count("list") == 1
    if fault["action"] == "status":
        assert asked(standin) == ["list"]


def test_a_watch_that_ended_is_begun_again(bash, standin):
    server = bash()
    run(server, "true")
    standin.fault("watch-end", path="watch=", after=1)
    standin.fault("watch-cut", path="watch=", after=1)
    known(server, standin)
    known(server, standin)


def test_a_known_pods_agent_that_dies_in_a_command_is_told(bash, standin,
                                                           tmp_path):
    server = bash()
    known(server, standin)
    log = tmp_path / "runs"
    begun = begin(server, f"echo x >> {log}; sleep 30")
    wait_for(log.exists, "the command")
    agent = next(p for p in standin.processes()
                 if p["argv"][0].endswith("/mcp-sandbox-agent"))
    os.kill(agent["pid"], signal.SIGKILL)
    said = failure(server.reply(begun)["result"])
    assert "pod has ended" in said and "may have run" in said
    r = run(server, "echo again")
    assert (r["stdout"], r["session_reset"]) == ("again", True)
    assert log.read_text() == "x\n"


def test_a_connection_that_breaks_repeats_no_command(bash, standin, tmp_path):
    log = tmp_path / "runs"
    server = bash()
    standin.fault("ws-drop", path="/portforward", after=15)
    lost = []
    for n in range(20):
        r = call(server, f"echo {n} >> {log}; echo")
        if r["isError"]:
            assert "the command may have run" in failure(r)
            lost.append(n)
    assert len(lost) == 1
    ran = [int(n) for n in log.read_text().split()]
    assert sorted(set(ran + lost)) == list(range(20))
    assert len(ran) == len(set(ran)) and len(pods(standin)) == 1


def test_an_agent_that_dies_in_a_command_is_told(bash, standin):
    server = bash()
    run(server, "true")
    address = pods(standin)[0]["status"]["podIP"]
    asked = begin(server, "sleep 30")
    wait_for(lambda: [p for p in standin.processes() if "30" in p["argv"]],
             "the command")
    agent = next(p for p in standin.processes()
                 if p["argv"][0].endswith("/mcp-sandbox-agent"))
    os.kill(agent["pid"], signal.SIGKILL)
    said = failure(server.reply(asked)["result"])
    assert "pod has ended: Error, exit code" in said and "may have run" in said
    assert address not in said
    r = run(server, "echo again")
    assert (r["stdout"], r["session_reset"]) == ("again", True)


def test_an_agent_without_memory_is_told(bash, standin):
    """As the kubelet has it when all of a container is killed, users.md 51."""
    server = bash("--session-id", "large")
    run(server, "true")
    (pod,) = pods(standin)
    asked = begin(server, "sleep 30")
    wait_for(lambda: [p for p in standin.processes() if "30" in p["argv"]],
             "the command")
    standin.fault("hold", path="/pods/cli", method="GET")
    agent = next(p for p in standin.processes()
                 if p["argv"][0].endswith("/mcp-sandbox-agent"))
    os.kill(agent["pid"], signal.SIGKILL)
    wait_for(lambda: pods(standin)[0]["status"]["phase"] == "Failed", "its end")
    standin.call("PATCH", PODS_PATH + "/" + pod["metadata"]["name"] +
                 "/status", {"status": {"containerStatuses": [{
                     "name": "sandbox", "state": {"terminated": {
                         "reason": "OOMKilled", "exitCode": 137}}}]}}, MERGE)
    standin.release()
    said = failure(server.reply(asked)["result"])
    assert "out of memory (OOMKilled)" in said
    assert run(server, "echo again")["session_reset"]


def test_a_pod_that_is_not_ready_but_answers_is_used(bash, standin):
    run(bash("--session-id", "unready"), "true")
    (pod,) = pods(standin)
    conditions = [{"type": "Ready", "status": "False"}]
    standin.call("PATCH", PODS_PATH + "/" + pod["metadata"]["name"]
                 + "/status", {"status": {"conditions": conditions}}, MERGE)
    standin.forget_requests()
    assert run(bash("--session-id", "unready"), "echo a")["stdout"] == "a"
    assert not standin.requests("POST", "/pods")


def test_activity_is_noted_while_a_command_runs(bash, standin):
    server = bash("--session-id", "busy", "--idle-timeout", "4s")
    run(server, "true")
    (pod,) = pods(standin)
    annotate(standin, pod, last_activity="2020-01-01T00:00:00Z")
    asked = begin(server, "while [ ! -e \"$TMPDIR/go\" ]; do sleep 0.1; done")
    began = time.monotonic()
    wait_for(lambda: pods(standin)[0]["metadata"]["annotations"][ACTIVE]
             > "2021", "a note")
    annotate(standin, pod, last_activity="2020-01-01T00:00:00Z")
    wait_for(lambda: pods(standin)[0]["metadata"]["annotations"][ACTIVE]
             > "2021", "another note")
    # Four in an idle time, whoever asks for it.
    assert len(standin.requests("PATCH", "/pods/")) <= \
        5 + (time.monotonic() - began)
    server.cancel(asked)


# The pool and gc

POOL = ("--warm-pool-size", "2")


def test_gc_fills_the_pool_once(standin):
    assert gc(standin, *POOL).count("created pod") == 2
    assert len(pods(standin)) == 2
    assert all(ready(p) for p in pods(standin))
    assert "created pod" not in gc(standin, *POOL)
    assert len(pods(standin)) == 2


def test_a_claim_takes_a_warm_pod_and_starts_its_replacement(bash, standin):
    gc(standin, *POOL)
    warm = {p["metadata"]["name"] for p in pods(standin)}
    annotate(standin, pods(standin)[0], last_activity="2020-01-01T00:00:00Z")
    server = bash("--session-id", "s", *POOL)
    assert run(server, "echo a")["stdout"] == "a"
    (pod,) = pods(standin, "s")
    assert pod["metadata"]["name"] in warm
    assert pod["metadata"]["annotations"][ACTIVE] > "2021"
    wait_for(lambda: sum(ready(p) for p in pods(standin)) == 3,
             "a replacement")
    assert run(server, "echo b")["stdout"] == "b"
    wait_for(lambda: secrets(standin)[0]["metadata"].get("ownerReferences"),
             "an owner")
    (owner,) = secrets(standin)[0]["metadata"]["ownerReferences"]
    assert owner["uid"] == pod["metadata"]["uid"]


def test_a_poisoned_pod_is_deleted_and_the_next_one_taken(bash, standin):
    gc(standin, *POOL)
    for p in pods(standin)[:1]:
        first = min(pods(standin), key=lambda p: (
            p["metadata"]["creationTimestamp"], p["metadata"]["name"]))
        # Somebody has told it another token.
        port = standin.pod(first["metadata"]["name"], NS)["ports"]["8090"]
        with OPEN(f"http://127.0.0.1:{port}/assign",
                  b'{"token":"other"}') as answer:
            assert answer.status == 200
    server = bash("--session-id", "s", *POOL)
    assert run(server, "echo a")["stdout"] == "a"
    wait_for(lambda: first["metadata"]["name"] not in
             [p["metadata"]["name"] for p in pods(standin)], "its end")


def test_two_claims_never_take_the_same_pod(bash, standin):
    gc(standin, *POOL)
    both = [bash("--session-id", f"s{n}", *POOL) for n in range(2)]
    asked = [begin(s, "echo $$") for s in both]
    got = [s.reply(a, 30)["result"]["structuredContent"]["stdout"]
           for s, a in zip(both, asked)]
    assert got[0] != got[1]
    assert len(pods(standin, "s0")) == len(pods(standin, "s1")) == 1


def test_an_empty_pool_is_no_hindrance(bash, standin):
    assert run(bash("--session-id", "s", *POOL), "echo a")["stdout"] == "a"


def test_gc_ends_what_is_idle_and_only_that(bash, standin):
    for name in "idle", "fresh":
        run(bash("--session-id", name), "true")
    (idle,) = pods(standin, "idle")
    annotate(standin, idle, last_activity="2020-01-01T00:00:00Z")
    told = gc(standin)
    assert "session idle, idle since 2020" in told
    wait_for(lambda: len(pods(standin)) == len(secrets(standin)) == 1,
             "one session")
    assert pods(standin, "fresh")


def test_gc_takes_what_ended_and_secrets_without_a_pod(bash, standin):
    run(bash("--session-id", "done"), "true")
    (pod,) = pods(standin)
    standin.call("PATCH", PODS_PATH + "/" + pod["metadata"]["name"]
                 + "/status", {"status": {"phase": "Succeeded"}}, MERGE)
    standin.call("POST", SECRETS_PATH, {
        "metadata": {"name": "cli-mcp-sandbox-auth-young",
                     "labels": {COMPONENT: "cli-mcp-sandbox",
                                SESSION: "young"}}, "data": {}})
    standin.call("POST", SECRETS_PATH, {"metadata": {"name": "another's"
                                                     .replace("'", "")}})
    assert "ended" in gc(standin)
    # The cluster takes a pod's Secret some time after the pod.  A young Secret
    # may be the lock of one who is making its pod.
    kept = {"cli-mcp-sandbox-auth-young", "anothers"}
    wait_for(lambda: not pods(standin) and kept == {
        s["metadata"]["name"] for s in secrets(standin)}, "these two alone")


def test_gc_renews_warm_pods_that_are_too_old(standin):
    gc(standin, *POOL)
    old = pods(standin)[0]
    annotate(standin, old, created_at="2020-01-01T00:00:00Z")
    told = gc(standin, *POOL)
    assert "warm for too long" in told and told.count("created pod") == 1
    wait_for(lambda: len(pods(standin)) == 2, "two pods")


def test_gc_completes_what_was_left_half_made(bash, standin):
    rule = standin.fault("hold", method="GET", path="/exec")
    process = subprocess.Popen([BINARY, *POOL, "gc"], env=clean_environment(
        KUBECONFIG=standin.kubeconfig), stdout=subprocess.DEVNULL)
    wait_for(lambda: standin.taken(rule), "the agent's way")
    process.kill()
    process.wait()
    standin.clear_faults()
    assert "completed pod" in gc(standin, *POOL)
    assert len(pods(standin)) == 2
    assert all(ready(p) for p in pods(standin))


def test_many_gc_at_once_agree(standin):
    many = [subprocess.Popen([BINARY, *POOL, "gc"], env=clean_environment(
        KUBECONFIG=standin.kubeconfig), stdout=subprocess.DEVNULL)
        for _ in range(4)]
    for process in many:
        process.wait(60)
    gc(standin, *POOL)
    wait_for(lambda: len(pods(standin)) == 2, "two pods")


def test_gc_without_rights_says_so(standin):
    done = subprocess.run(
        [BINARY, "gc"], capture_output=True, text=True, check=False,
        env=clean_environment(KUBECONFIG=standin.kubeconfigs["nobody"]))
    assert done.returncode == 69 and "forbidden" in done.stderr
