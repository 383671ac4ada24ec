# SPDX-License-Identifier: Apache-2.0
"""How calls and the program end: cancelled, at the end of the input, by a
signal, killed. Nothing is left behind, or it is named."""

import os
import resource
import shutil
import signal
import subprocess
import time

import pytest

from blackbox import (DELETE, EXEC, FORWARD, GET, NS, POST, WATCH,
                      Box, begin_create, claims, count, create, expire,
                      memory_kb, no_claims, not_sanitized, seen,
                      stopped_reading)
from program import Program
from standin.client import wait_for

POOL = {"method": "^GET$", "path": "/sandboxwarmpools/"}
SANDBOX = {"method": "^GET$", "path": "/sandboxes/"}
STOP_S = 2.0        # the issue's; the machine's own delays come on top
SLACK_S = 3.0
RUNTIMES = pytest.mark.parametrize("runtime", ["sandboxd", "none"])
ENDS = pytest.mark.parametrize("end", ["input", "TERM", "INT", "HUP"])


def stays_silent(program, id):
    """Nothing came for id, up to the answer to something later."""
    assert program.ask("ping", modern=False, id="after")["result"] == {}
    assert not [m for m in program.aside if m.get("id") == id]
    program.aside.clear()


def finish(program, how):
    if how == "input":
        program.end_input()
    else:
        program.kill(getattr(signal, "SIG" + how))


def ended(program, code=0):
    """It exits in time, without an answer to what it stopped."""
    begin = time.monotonic()
    assert program.wait() == code, program.stderr
    assert time.monotonic() - begin < STOP_S + SLACK_S


def never_ready(standin, name="slow"):
    standin.pool(name, replicas=0, runtime="none",
                 notes={"test/ready-ms": "-1"})


def stop_at(standin, rule, action):
    """A rule that stops the request, and a wait until one is there."""
    id = standin.fault(action, **rule)
    return lambda: wait_for(lambda: standin.taken(id), f"the {rule}")


@pytest.fixture(params=["sandboxd", "none"])
def box(request, standin, start):
    standin.pool(runtime=request.param)
    return Box(standin, start())


# create_sandbox

CREATE = pytest.mark.parametrize("rule, action, posted", [
    (POOL, "hold", 0), (POST, "hold", 1), (POST, "hold-after", 1),
    (WATCH, "hold", 1), (WATCH, "hold-after", 1)])


@CREATE
def test_a_cancelled_create_is_silent_and_leaves_no_claim(
        standin, server, rule, action, posted):
    """agent-sandbox 8.1, check 4; users.md 43, 83"""
    standin.pool()
    wait = stop_at(standin, rule, action)
    id = begin_create(server)
    wait()
    server.cancel(id)
    server.ask("ping", modern=False)
    standin.release()
    if posted:
        seen(standin, DELETE)
    no_claims(standin)
    stays_silent(server, id)
    assert count(standin, **POST) == posted
    assert server.close() == 0


def test_a_create_cancelled_while_it_waits_leaves_no_claim(standin, server):
    never_ready(standin)
    id = begin_create(server, "slow")
    wait_for(lambda: claims(standin), "the claim")
    seen(standin, WATCH)
    server.cancel(id)
    no_claims(standin)
    stays_silent(server, id)


@CREATE
@ENDS
def test_a_create_that_is_ended_leaves_no_claim(
        standin, server, rule, action, posted, end):

    standin.pool()
    wait = stop_at(standin, rule, action)
    begin_create(server)
    wait()
    finish(server, end)
    if rule is POST:            # it waits for the answer
        assert server.silence(0.05) == []
        standin.release()
    ended(server)
    assert claims(standin) == []
    assert server.recv() is None


@ENDS
def test_a_create_that_waits_is_ended_and_leaves_no_claim(
        standin, server, end):
    never_ready(standin)
    begin_create(server, "slow")
    wait_for(lambda: claims(standin), "the claim")
    finish(server, end)
    ended(server)
    assert claims(standin) == []


@pytest.mark.parametrize("rule, what", [
    (POST, "sandbox claim"), (DELETE, "sandbox claim")])
def test_what_could_not_be_removed_in_time_is_named_and_makes_status_2(
        standin, server, rule, what):
    never_ready(standin)
    hold = standin.fault("hold", count=-1, **rule)
    begin_create(server, "slow")
    if rule is POST:
        wait_for(lambda: standin.taken(hold), "the POST")
    else:
        wait_for(lambda: claims(standin), "the claim")
    server.end_input()
    ended(server, 2)
    assert "left" in server.stderr
    name = standin.requests(**POST)[0]["body"].split('"name":"')[1]
    assert name.split('"')[0] in server.stderr, server.stderr
    standin.clear_faults()


def test_a_delete_that_is_refused_makes_status_2_and_names_the_claim(
        standin, server):
    never_ready(standin)
    standin.fault("status", code=403, count=-1, **DELETE)
    begin_create(server, "slow")
    wait_for(lambda: claims(standin), "the claim")
    server.end_input()
    ended(server, 2)
    assert claims(standin)[0] in server.stderr


def test_a_delete_that_fails_once_is_tried_again(standin, server):
    never_ready(standin)
    standin.fault("status", code=500, **DELETE)
    id = begin_create(server, "slow")
    wait_for(lambda: claims(standin), "the claim")
    server.cancel(id)
    no_claims(standin)
    assert count(standin, **DELETE) == 2
    assert server.close() == 0


# execute_command

@pytest.mark.parametrize("rule", [GET, SANDBOX, FORWARD])
def test_a_command_cancelled_before_it_began_never_runs(
        box, standin, rule):
    wait = stop_at(standin, rule, "hold")
    id = box.begin("touch ran; sleep 77")
    wait()
    box.program.cancel(id)
    box.program.ask("ping", modern=False)
    standin.release()
    stays_silent(box.program, id)
    assert box.run("ls")["stdout"] == ""
    assert not box.processes("sleep 77")


@pytest.mark.parametrize("command", [
    "sleep 77", "trap '' TERM; sleep 77; sleep 77", "sleep 77 | cat",
    "setsid sleep 77", "(sleep 77 & sleep 77)", "nohup sleep 77 >/dev/null"])
def test_a_cancelled_command_is_silent_and_all_its_processes_end(
        box, command):
    """users.md 7, 19, 83"""
    id = box.begin(command)
    box.started("sleep 77")
    box.program.cancel(id)
    box.ended("sleep 77")
    stays_silent(box.program, id)
    assert box.run("echo alive")["stdout"] == "alive\n"
    assert box.program.close() == 0


@pytest.mark.parametrize("runtime", ["none", "legacy"])
def test_a_command_that_is_about_to_begin_when_it_is_cancelled_ends(
        standin, start, runtime):
    """What wraps it takes its time before that: here for a named pipe."""
    standin.pool(runtime=runtime)
    box = Box(standin, start("--connection", "exec" if runtime == "none"
                             else "tunnel"))
    folder = standin.pod(box.pod)["dir"]
    with open(folder + "/mkfifo", "w", encoding="ascii") as f:
        f.write(f"#!/bin/sh\n>{folder}/late; sleep 0.8\n"
                f"exec {shutil.which('mkfifo')} \"$@\"\n")
    os.chmod(folder + "/mkfifo", 0o755)
    id = box.begin("sleep 77; touch ended", timeout=600, env={
        "PATH": f"{folder}:{os.environ['PATH']}"})
    wait_for(lambda: os.path.exists(folder + "/late"), "the wrapper")
    box.program.cancel(id)
    stays_silent(box.program, id)
    box.ended("sleep 77")
    assert box.run("ls")["stdout"] == "late\nmkfifo\n"
    assert box.program.close() == 0


@ENDS
@RUNTIMES
def test_a_command_that_runs_is_ended_with_the_program(
        standin, start, runtime, end):
    """On a machine that is too busy it may be named instead."""
    standin.pool(runtime=runtime)
    for _ in range(4):
        box = Box(standin, start())
        box.begin("sleep 77")
        box.started("sleep 77")
        finish(box.program, end)
        code = box.program.wait()
        assert box.program.recv() is None
        box.ended("sleep 77")
        if code == 0:
            return
        assert code == 2 and box.claim in box.program.stderr
    pytest.fail("it never was in time")


def test_a_command_that_will_not_end_in_time_is_named(standin, start):
    standin.pool(runtime="none")
    box = Box(standin, start())
    box.begin("sleep 77")
    box.started("sleep 77")
    standin.fault("hold", count=-1, **EXEC)
    box.program.end_input()
    ended(box.program, 2)
    assert "left" in box.program.stderr
    standin.clear_faults()


@RUNTIMES
def test_a_killed_server_leaves_claims_that_end_by_themselves(
        standin, start, runtime):
    """A kill -9 still ends in an empty namespace (design 3)."""
    standin.pool(runtime=runtime)
    box = Box(standin, start())
    box.begin("sleep 77", timeout=30)
    box.started("sleep 77")
    box.program.kill()
    expire(standin, box.claim)
    no_claims(standin)
    wait_for(lambda: not [p for p in standin.processes()
                          if "sleep 77" in " ".join(p["argv"])], "its end")


def test_a_command_of_a_killed_server_ends_at_its_time_limit(
        standin, start):
    """users.md 26, 28: the limit is enforced in the pod."""
    standin.pool(runtime="none")
    box = Box(standin, start())
    box.begin("sleep 77", timeout=1)
    box.started("sleep 77")
    box.program.kill()
    box.ended("sleep 77")


# delete_sandbox

def test_a_delete_under_way_is_finished_at_the_end_of_the_input(
        standin, server):
    standin.pool()
    claim = create(server)
    wait = stop_at(standin, DELETE, "hold")
    server.request("tools/call", {"name": "delete_sandbox", "arguments": {
        "sandbox_claim_name": claim, "namespace": NS}})
    wait()
    server.end_input()
    assert server.silence(0.05) == []
    standin.release()
    ended(server)
    assert claims(standin) == []


# The program

def test_what_is_complete_is_answered_before_the_end(server):
    """users.md 79"""
    for n in range(50):
        server.request("tools/list", id=n)
    server.end_input()
    assert [server.recv()["id"] for _ in range(50)] == list(range(50))
    ended(server)


def test_ready_sandboxes_outlive_the_connection(standin, server):
    """agent-sandbox 1.7: only what a call did not hand over is removed."""
    standin.pool()
    claim = create(server)
    assert server.close() == 0
    assert claims(standin) == [claim]


def test_waiting_for_the_end_costs_no_processor(standin, server):
    """users.md 81: no busy loop after the end of the input."""
    never_ready(standin)
    begin_create(server, "slow")
    wait_for(lambda: claims(standin), "the claim")
    standin.fault("hold", count=-1, **DELETE)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    server.end_input()
    ended(server, 2)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime \
        - before.ru_stime < 0.6
    standin.clear_faults()


def test_a_client_that_stops_reading_does_not_keep_it_alive(server):
    server.ask("ping", modern=False)
    with stopped_reading(server):
        for n in range(40):
            server.request("tools/list", id=n)
        server.kill(signal.SIGTERM)
        assert server.child.wait(30) == 0


def test_a_client_that_closed_its_end_ends_the_program(standin, server):
    standin.pool()
    never_ready(standin)
    id = begin_create(server, "slow")
    wait_for(lambda: claims(standin), "the claim")
    # Both descriptors: the reader thread has a copy of its own.
    child = subprocess.Popen(
        [Program.__init__.__globals__["BINARY"]], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={
            **os.environ, "KUBECONFIG": standin.kubeconfig})
    child.stdout.close()
    child.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    child.stdin.flush()
    assert child.wait(30) == 0
    child.stdin.close()
    server.cancel(id)
    no_claims(standin)


def namespaces():
    """A command that makes the program PID 1, if we may."""
    command = ["unshare", "--pid", "--fork", "--mount-proc",
               "--kill-child=KILL"]
    if not shutil.which("unshare") or subprocess.run(
            [*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no right to make a PID namespace")
    return command


def inner(program):
    """The pid, as we see it, of the program below unshare."""
    def look():
        with open(f"/proc/{program.pid}/task/{program.pid}/children",
                  encoding="ascii") as f:
            return f.read().split()
    return int(wait_for(look, "the child of unshare")[0])


@pytest.mark.parametrize("end", ["input", "TERM", "INT"])
def test_as_pid_1_it_ends_by_itself_and_by_a_signal(standin, start, end):
    """users.md 80: no --init is needed in a container."""
    program = start(wrap=namespaces())
    never_ready(standin)
    begin_create(program, "slow")
    wait_for(lambda: claims(standin), "the claim")
    if end == "input":
        program.end_input()
    else:
        os.kill(inner(program), getattr(signal, "SIG" + end))
    ended(program)
    assert claims(standin) == []


# Progress

@pytest.mark.parametrize("runtime", ["none"])
def test_a_token_gets_progress_every_5_s_that_only_rises(
        standin, start, runtime):
    """users.md 84"""
    standin.pool(runtime=runtime)
    never_ready(standin)
    box = Box(standin, start())
    program = box.program
    begin = time.monotonic()
    ids = {"a": begin_create(program, "slow", {"progressToken": "a"},
                             sandbox_ready_timeout=10),
           7: box.begin("sleep 10", {"progressToken": 7})}
    silent = box.begin("sleep 10")
    times, numbers, done = {t: [begin] for t in ids}, {t: [] for t in ids}, []
    while len(done) < 3:
        message = program.recv()
        if "id" in message:
            done.append(message["id"])
            continue
        assert message["method"] == "notifications/progress"
        told = message["params"]
        token = told["progressToken"]
        assert ids[token] not in done, "progress after the answer"
        assert told["message"]
        times[token].append(time.monotonic())
        numbers[token].append(told["progress"])
    assert set(done) == {silent, *ids.values()}
    for token in ids:
        assert len(numbers[token]) >= 2
        assert numbers[token] == sorted(set(numbers[token]))
        gaps = [b - a for a, b in zip(times[token], times[token][1:])]
        assert max(gaps) <= 5 + SLACK_S
    assert program.silence(0.1) == []


def test_the_output_of_a_command_is_its_progress(box):
    def told_of(line):
        told.append(box.program.recv()["params"]["message"])
        return line in told[-1]

    told = []
    id = box.begin("echo line one; while [ ! -e go ]; do sleep 0.05; done; "
                   "echo line two; sleep 99", {"progressToken": 1})
    wait_for(lambda: told_of("line one"), "the first line")
    open(box.standin.pod(box.pod)["dir"] + "/go", "x").close()
    wait_for(lambda: told_of("line two"), "the second line")
    box.program.cancel(id)
    assert all("line" in t or "running" in t for t in told), told


@not_sanitized
def test_many_calls_leave_no_memory_behind(box):
    for _ in range(5):
        box.run("echo x")
    before = memory_kb(box.program.pid, "VmRSS")
    for _ in range(25):
        box.run("echo x")
    assert memory_kb(box.program.pid, "VmRSS") - before < 200
    assert memory_kb(box.program.pid, "VmHWM") < 3 << 10
