# SPDX-License-Identifier: Apache-2.0
"""execute_command: exit codes, output, input, time limits, what the command
leaves running; over sandboxd through the tunnel and over pods/exec."""

import hashlib
import json
import os
import re

import pytest

from blackbox import (EXEC, FORWARD, NS, Box, count, create, failure,
                      memory_kb, not_sanitized, success, text)
from standin.access import LIMITED
from standin.client import TESTS, wait_for

RUNTIMES = ["sandboxd", "none"]


@pytest.fixture(params=RUNTIMES)
def box(request, standin, start):
    standin.pool(runtime=request.param)
    return Box(standin, start())


@pytest.fixture
def exec_box(standin, start):
    standin.pool(runtime="none")
    return Box(standin, start())


def folder(box):
    return box.standin.pod(box.pod)["dir"]


# Exit codes and streams

@pytest.mark.parametrize("command, code", [
    ("true", 0), ("exit 1", 1), ("no-such-program", 127), ("exit 255", 255),
    ("", 0), ("exec sh -c 'exit 3'", 3), ("set -e; false; echo never", 1),
    ("(", 2), ("cat <<E\nheredoc\nE", 0), ("/dev/null", 126)])
def test_exit_codes_are_results(box, command, code):
    """users.md 13, 20, 23; agent-sandbox 8.1, check 10"""
    result = box.result(command)
    assert success(result)["exit_code"] == code
    assert result["structuredContent"]["status"] == "exited"
    assert json.loads(text(result)) == result["structuredContent"]


def test_a_signal_is_told_apart_from_success(box):
    """users.md 51: 137, or the runtime's own number"""
    assert box.run("kill -9 $$")["exit_code"] in (137, -1)


def test_both_streams_come_back_with_any_exit_code(box):
    """users.md 13"""
    got = box.run("echo out; echo err >&2; exit 7")
    assert (got["stdout"], got["stderr"], got["exit_code"]) == (
        "out\n", "err\n", 7)
    got = box.run("echo only >&2")
    assert (got["stdout"], got["stderr"]) == ("", "only\n")


def test_a_command_is_data_and_arrives_byte_for_byte(box):
    """users.md 20: quotes, newlines and what looks like ours"""
    for sample in ("'", '"', "\\", "$HOME `id`", "a\nb", "é€𝄞", "%41+&=#?",
                   "-n", "MCP_SANDBOX_RUN", "\t\x01\x7f", " "):
        quoted = "'" + sample.replace("'", "'\\''") + "'"
        got = box.run("printf %s " + quoted)
        assert (got["stdout"], got["exit_code"]) == (sample, 0)


def test_a_long_command_is_run_whole(box):
    """Up to the limit, in a form that even a URL carries."""
    command = "printf %s " + "x" * 130000 + " | wc -c"
    assert box.run(command)["stdout"].strip() == "130000"


def test_a_command_over_the_limit_is_refused_and_no_other_is_run(box):
    message = failure(box.result("x" * 131001))
    assert "131000" in message and "command" in message
    assert "NUL" in failure(box.result("echo \0"))


def test_every_call_has_a_shell_of_its_own(box):
    """users.md 22: no state but files"""
    box.run("cd /; X=1; echo 1 >file")
    got = box.run("echo $X; cat file")
    assert got["stdout"] == "\n" if got["exit_code"] else "\n1\n"


def test_an_empty_stdin_is_given_unless_asked(box):
    """users.md 21: what reads its stdin does not hang"""
    assert box.run("cat; wc -c")["stdout"].strip() == "0"


@pytest.mark.parametrize("size", [0, 1, 65536, 1 << 20])
def test_stdin_arrives_whole_and_ends(box, size):
    data = ("0123456789abcdef" * (size // 16 + 1))[:size]
    got = box.run("sha256sum; cat | wc -c", stdin=data)
    assert got["stdout"].split()[0] == hashlib.sha256(
        data.encode()).hexdigest()


def test_stdin_may_hold_anything_but_is_bounded(box):
    data = "é\0\r\n\x04\x1a€" * 50
    got = box.run("cat", stdin=data)
    assert got["stdout"] == data
    assert "stdin" in failure(box.result("cat", stdin="x" * ((1 << 20) + 1)))


def test_a_command_that_does_not_read_its_stdin_still_ends(box):
    assert box.run("echo done", stdin="x" * (1 << 20))["stdout"] == "done\n"
    assert box.run("head -c 3", stdin="x" * (1 << 20))["stdout"] == "xxx"


def test_variables_and_folder_are_those_asked_for(box):
    got = box.run('printf "%s|" "$A" "$B_2" "$PWD"', cwd="/tmp", env={
        "A": " quote ' \" $X `id`\n", "B_2": ""})
    assert got["stdout"] == " quote ' \" $X `id`\n||/tmp|"
    got = box.run("echo never", cwd="/no/such/folder")
    assert got["exit_code"] != 0 and got["stdout"] == ""
    assert "/no/such/folder" in got["stderr"]


@pytest.mark.parametrize("env", [
    {"1A": "x"}, {"": "x"}, {"A=B": "x"}, {"A B": "x"}, {"é": "x"},
    {"A": "a\0b"}, {"A": 1}, {f"V{n}": "" for n in range(257)}])
def test_bad_variables_are_refused_before_any_request(
        standin, server, env):
    message = failure(server.tool("execute_command", {
        "sandbox_claim_name": "x", "namespace": NS, "command": "true",
        "env": env}))
    assert "env" in message
    assert standin.requests() == []


# Output

def stream(form):
    if isinstance(form, str):
        return form
    if "repeat" in form:
        return form["repeat"] * form["n"]
    if "counter" in form:
        return "".join(f"{n}\n" for n in range(form["counter"]))
    return "".join(stream(f) for f in form["concat"])


def vectors():
    with open(os.path.join(TESTS, "vectors", "budget.json"),
              encoding="utf-8") as f:
        return json.load(f)["vectors"]


def check_vector(box, vector):
    for name in "stdout", "stderr":
        with open(os.path.join(folder(box), name), "w", encoding="utf-8",
                  newline="") as f:
            f.write(stream(vector[name]))
    got = box.run("cat stdout; cat stderr >&2",
                  max_output_chars=vector["max_output_chars"])
    for name in "stdout", "stderr":
        want = vector["expect"][name]
        assert got[name + "_total_chars"] == want["total_chars"]
        assert got[name + "_truncated"] is want["truncated"]
        assert len(got[name]) == want["chars"]
        assert hashlib.sha256(got[name].encode()).hexdigest() == \
            want["sha256"], (vector["id"], name)
    assert got["exit_code"] == 0


@pytest.mark.parametrize("runtime, step", [("sandboxd", 1), ("none", 5)])
def test_the_output_budget_is_that_of_the_vectors(
        standin, start, runtime, step):
    """agent-sandbox 1.9; 8.1, check 12; users.md 30, 31. All of them one
    way, a sample the other."""
    standin.pool(runtime=runtime)
    box = Box(standin, start())
    found = vectors()
    assert len(found) == 86
    for vector in found[::step]:
        check_vector(box, vector)


@pytest.mark.parametrize("budget", [127, 300001, 0, -1, "x", None, 128.5])
def test_a_budget_out_of_bounds_is_refused(standin, server, budget):
    message = failure(server.tool("execute_command", {
        "sandbox_claim_name": "x", "namespace": NS, "command": "true",
        "max_output_chars": budget}))
    assert "max_output_chars" in message
    assert standin.requests() == []


@pytest.mark.parametrize("raw, decoded", [
    (b"\xff", "\ufffd"), (b"a\xc3", "a\ufffd"), (b"\xe2\x82", "\ufffd"),
    (b"\xe2\x28\xa1", "\ufffd(\ufffd"), (b"\xc0\x80", "\ufffd\ufffd"),
    (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"), (b"\xf0\x9f\x98", "\ufffd"),
    (bytes(range(128, 256)), None)])
def test_bytes_that_are_no_utf_8_become_replacement_characters(
        box, raw, decoded):
    """users.md 8: one for each bad sequence, counted after decoding"""
    with open(os.path.join(folder(box), "raw"), "wb") as f:
        f.write(raw)
    got = box.run("cat raw")
    assert got["stdout"] == (decoded or raw.decode("utf-8", "replace"))
    assert got["stdout_total_chars"] == len(got["stdout"])


def test_a_character_that_is_cut_between_frames_is_whole(standin, start):
    """users.md 8"""
    standin.pool(notes={"test/chunk": "7"})
    box = Box(standin, start())
    assert box.run("printf é€𝄞é€𝄞é€𝄞é€𝄞")["stdout"] == "é€𝄞" * 4


@not_sanitized
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_memory_stays_flat_for_any_output(standin, start, runtime):
    """Issue 3: at most 3 MB at any output size, users.md 16."""
    standin.pool(runtime=runtime, notes={"test/chunk": "65536"})
    box = Box(standin, start())
    for size in 1 << 20, 100 << 20:
        got = box.run(f"head -c {size} /dev/zero | tr '\\0' x; echo end >&2",
                      60, timeout=60)
        assert got["stdout_total_chars"] == size
        assert got["stdout_truncated"] and got["stderr"] == "end\n"
        assert memory_kb(box.program.pid, "VmHWM") <= 3 << 10


# Time limits and what a command leaves running

TREES = ["sleep 77", "sleep 77 & wait", "setsid sleep 77", "sleep 77 | cat",
         "trap '' TERM; while :; do sleep 77; done", "exec sleep 77"]


def test_a_time_out_ends_the_whole_tree_and_keeps_the_output(box):
    """users.md 7, 19, 26, 28; the limit is the pod's own"""
    ids = [box.begin("echo before; " + command, timeout=1)
           for command in TREES]
    for id in ids:
        result = box.program.reply(id, 40)["result"]
        message = failure(result)
        assert "timed out after 1 s" in message
        assert "all its processes were ended" in message
        got = result["structuredContent"]
        assert got["status"] == "timed_out" and got["exit_code"] is None
        assert got["stdout"] == "before\n"
    assert not box.processes("sleep 77")
    assert box.run("echo alive")["stdout"] == "alive\n"


@pytest.mark.parametrize("command", [
    "sleep 77 & echo started", "setsid sleep 77 & echo started",
    "(sleep 77 &) ; echo started",
    "nohup sleep 77 >/dev/null 2>&1 & echo started"])
def test_a_background_program_does_not_hold_the_call(
        standin, start, command):
    """users.md 17, 18: finished when the shell is, and it lives on"""
    standin.pool(runtime="none")
    box = Box(standin, start())
    got = box.run(command)
    assert got["stdout"] == "started\n" and got["exit_code"] == 0
    assert box.processes("sleep 77")


def test_a_background_program_of_sandboxd_ends_the_call_in_time(
        standin, start):
    """agent-sandbox 3.4: the daemon itself waits 5 s for held pipes."""
    standin.pool()
    box = Box(standin, start())
    got = box.run("sleep 77 >/dev/null 2>&1 & echo started")
    assert got["stdout"] == "started\n"
    assert box.processes("sleep 77")


def test_nothing_of_ours_is_left_in_the_pod(exec_box):
    box = exec_box
    box.run("echo x; sleep 0.1")
    wait_for(lambda: not box.processes(), "the end of all processes")
    mark = re.search("command=mcp-sandbox&command=([0-9a-f]{32})",
                     box.standin.requests(**EXEC)[0]["path"])[1]
    for place in "/dev/shm", "/tmp", "/var/tmp", folder(box):
        assert mark not in " ".join(os.listdir(place))


def test_commands_run_side_by_side(box):
    ids = [box.begin(f"while [ ! -e go ]; do sleep 0.05; done; echo {n}")
           for n in range(6)]
    wait_for(lambda: len(box.processes("-e go")) >= 6, "six of them")
    box.run("touch go")
    assert [box.program.reply(id)["result"]["structuredContent"]["stdout"]
            for id in ids] == [f"{n}\n" for n in range(6)]


def test_the_second_command_uses_the_open_tunnel(standin, start):
    standin.pool()
    box = Box(standin, start())
    for _ in range(3):
        box.run("true")
    assert count(standin, **FORWARD) == 1


# Ways into a pod

def test_the_way_is_a_setting(standin, start):
    standin.pool()
    by_exec = Box(standin, start("--connection", "exec", "-s", "me"))
    assert by_exec.run("echo x")["stdout"] == "x\n"
    assert count(standin, **FORWARD) == 0 and count(standin, **EXEC) == 1
    tunnel = Box(standin, start("--connection", "tunnel", "-s", "me"),
                 by_exec.claim)
    assert tunnel.run("echo x")["stdout"] == "x\n"
    assert count(standin, **EXEC) == 1
    standin.pool("bare", runtime="none")
    bare = Box(standin, tunnel.program, warmpool="bare")
    message = failure(bare.result("true"))
    assert "sandboxd" in message and "exec" in message


def test_the_legacy_runtimes_pod_is_reached_too(standin, start):
    standin.pool(runtime="legacy")
    box = Box(standin, start())
    assert box.run("echo x; exit 4")["exit_code"] == 4


def test_ports_are_settings(standin, start):
    standin.pool(runtime="sandboxd", containers=[{
        "name": "c", "image": "localhost/x:1", "ports": [
            {"containerPort": 7070, "protocol": "TCP"}]}])
    box = Box(standin, start("--grpc-port", "7070"))
    failure(box.result("true"))     # declared there, but nobody listens
    path = standin.requests(**FORWARD)[0]["path"]
    assert "ports=7070" in path


def test_a_server_that_only_knows_v4_gets_stdin_to_its_end_too(exec_box):
    """users.md 4"""
    exec_box.standin.config(exec_protocols=["v4.channel.k8s.io"])
    data = "x" * 200000
    assert exec_box.run("wc -c", stdin=data)["stdout"].strip() == "200000"
    assert exec_box.run("cat; echo end")["stdout"] == "end\n"


CONTAINERS = [{"name": "first", "image": "localhost/a:1"},
              {"name": "second", "image": "localhost/b:1"}]


def test_a_container_is_chosen_by_rule_in_a_pod_of_many(standin, start):
    """users.md 12: setting, annotation, first"""
    def container():
        return standin.requests(**EXEC)[-1]["path"].split(
            "container=")[1].split("&")[0]

    standin.pool("many", runtime="none", containers=CONTAINERS)
    box = Box(standin, start("-s", "me"), warmpool="many")
    box.run("true")
    assert container() == "first"
    chosen = Box(standin, start("-s", "me", "--container", "second"),
                 box.claim)
    chosen.run("true")
    assert container() == "second"
    standin.pool("noted", runtime="none", containers=CONTAINERS, notes={
        "kubectl.kubernetes.io/default-container": "second"})
    Box(standin, box.program, warmpool="noted").run("true")
    assert container() == "second"
    wrong = Box(standin, start("-s", "me", "--container", "third"),
                box.claim)
    assert "third" in failure(wrong.result("true"))


def test_a_missing_right_is_named(standin, start):
    """users.md 11: exec needs get, and create from 1.35 on"""
    standin.pool(runtime="none")
    rules = [r for r in LIMITED if r["resources"] != ["pods/exec",
                                                       "pods/portforward"]]
    standin.config(rules={"limited": rules + [{
        "namespace": NS, "verbs": ["get"],
        "resources": ["pods/exec", "pods/portforward"]}]})
    box = Box(standin, start(kubeconfig=standin.kubeconfigs["limited"]))
    message = failure(box.result("true"))
    assert "cannot create resource" in message and "pods/" in message
    assert NS in message


def test_the_documented_rights_are_enough(standin, start):
    for runtime in RUNTIMES:
        standin.pool(runtime, runtime=runtime)
    program = start(kubeconfig=standin.kubeconfigs["limited"])
    for runtime in RUNTIMES:
        box = Box(standin, program, create(program, runtime))
        assert box.run("echo x")["stdout"] == "x\n"
        success(box.tool("delete_sandbox"))


def test_a_pod_that_was_replaced_is_found_again(standin, start):
    """agent-sandbox 8.1, check 16: its address has changed."""
    standin.pool()
    box = Box(standin, start())
    assert box.run("echo one >f; cat f")["stdout"] == "one\n"
    pod = box.pod
    ip = standin.pod(pod)["ip"]
    standin.call("DELETE", f"/api/v1/namespaces/default/pods/{pod}")

    def replaced():
        return standin.claim(box.claim)["status"]["sandbox"].get(
            "podIPs", [ip]) != [ip] and success(
                box.tool("get_sandbox_status"))["ready"]
    wait_for(replaced, "another pod")
    assert box.run("echo two")["stdout"] == "two\n"


def test_an_image_without_a_shell_is_told(standin, start):
    """users.md 15"""
    standin.pool(runtime="none", containers=[{      # its /bin is empty
        "name": "sandbox", "image": "localhost/none:1", "volumeMounts": [
            {"name": "empty", "mountPath": "/bin"}]}])
    box = Box(standin, start())
    for result in (box.result("true"), box.tool("upload_file", path="f",
                                                content="x"),
                   box.tool("download_file", path="f")):
        said = failure(result)
        assert "nothing was run: the image has no /bin/sh" in said
        assert "no such file or directory" in said      # as runc has it
    assert box.program.close() == 0


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_sandbox_that_another_claim_got_is_not_entered(
        standin, start, runtime):
    """users.md 41: two claims race for a warm one"""
    standin.pool(runtime=runtime)
    box = Box(standin, start())
    standin.config(controller=False)
    owner = {"apiVersion": "extensions.agents.x-k8s.io/v1beta1",
             "controller": True, "kind": "SandboxClaim", "name": "other"}
    uid = standin.claim(box.claim)["metadata"]["uid"]
    for owned in False, True:
        standin.patch_sandbox(box.pod, {"metadata": {"ownerReferences": [
            {**owner, "uid": uid if owned else "another"}]}})
        for result in (box.result("touch f"),
                       box.tool("file_exists", path="f")):
            assert owned or "given to another claim" in failure(result)
    assert success(result)["exists"] is True
    assert count(standin, **EXEC) == (2 if runtime == "none" else 0)


def test_a_runtime_that_was_restarted_is_reached_again(standin, start):
    standin.pool()
    box = Box(standin, start())
    box.run("true")
    standin.pod(box.pod, runtime="stop")
    message = failure(box.result("true"))
    assert box.pod in message or "sandboxd" in message
    standin.pod(box.pod, runtime="start")
    assert box.run("echo back")["stdout"] == "back\n"


def test_first_calls_at_once_share_one_tunnel(standin, start):
    """None of them falls back to another way while it is being found."""
    standin.pool()
    claim = create(start("--session-id", "one"))
    program = start("--session-id", "one", "--connection", "tunnel")
    standin.forget_requests()
    box = Box(standin, program, claim)
    begun = [box.begin(f"echo {n}") for n in range(8)]
    assert [success(program.reply(id)["result"])["stdout"]
            for id in begun] == [f"{n}\n" for n in range(8)]
    assert count(standin, **FORWARD) == 1
    assert count(standin, **EXEC) == 0
