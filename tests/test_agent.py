# SPDX-License-Identifier: Apache-2.0
"""The agent in the pod, from outside: mcp-sandbox-agent(1)."""

import hashlib
import json
import os
import re
import signal
import stat
import subprocess
import threading
import time

import pytest

from agent import (BINARY, NOTICE, ROOT, Agent, alive, forever, shells,
                   sleeping)

with open(os.path.join(ROOT, "tests/vectors/cli-mcp-server.json")) as f:
    VECTORS = json.load(f)


@pytest.fixture
def start():
    running = []

    def begin(*args, **how):
        if not os.path.exists(BINARY):
            pytest.fail(f"{BINARY} is not there: run make first")
        running.append(Agent(*args, **how))
        return running[-1]

    yield begin
    for agent in running:
        agent.dispose()


@pytest.fixture
def agent(start):
    return start()


@pytest.fixture(params=sorted(shells()))
def any_shell(start, request):
    return start(shell=request.param)


def eventually(what, seconds=30):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.02)


# --- the original's protocol -------------------------------------------------

def test_speaks_the_protocol_of_the_original(start):
    agent = start(token=None)
    for row in VECTORS["agent_http"]:
        body = row.get("request_body")
        if body == "<valid JSON larger than 1 MiB>":
            body = json.dumps({"command": "echo " + "x" * (1 << 20)})
            row["headers"] = {"Authorization": "Bearer tok"}
        if isinstance(body, dict):
            body = json.dumps(body)
        status, headers, text = agent.request(
            row["method"], row["path"], body, row["headers"], auth=False,
            connection=agent.connect())
        if row["title"] == "assign twice, same token":
            assert status == 200        # ours: idempotent
            continue
        assert status == row["status"], row["title"]
        if "content_type" in row:
            assert headers["Content-Type"] == row["content_type"]
        if "response_text" in row:
            assert text.decode() == row["response_text"]
        if row.get("response_empty"):
            assert text == b""
        if "response_json" in row:
            said = json.loads(text)
            for key, value in row["response_json"].items():
                if value == "<int>":
                    assert isinstance(said[key], int)
                else:
                    assert said[key] == value, row["title"]


def test_runs_the_sequence_of_the_original(start):
    """
    Rows that it says are not to be imitated run as well, as they have
    effects; what follows one may or may not tell of a reset.
    """
    agent = start(shell=shells()["bash"])
    after_bad = False
    for row in VECTORS["agent_exec_sequence"]["cases"]:
        said = agent.run(row["command"], timeout=row["timeout_s"])
        want = dict(row["response"])
        if row["command"].startswith('(sleep 0.3'):
            time.sleep(1.5)
        if row["keep"]:
            if after_bad:
                assert said["stderr"] in ("", NOTICE)
                del want["stderr"]
                if want["stdout"] == "C=[]":
                    want["stdout"] = "C=[1]"    # a timeout keeps the state
            for key, value in want.items():
                if key == "stderr":
                    said[key] = re.sub(r"line \d+", "line N", said[key])
                assert said[key] == value, row
        after_bad = not row["keep"]
        assert agent.request("GET", "/health")[0] == 200


def test_another_token_is_refused_for_ever(start):
    agent = start(token=None)
    assert agent.request("POST", "/assign", '{"token":"tok"}')[0] == 200
    assert agent.request("POST", "/assign", '{"token":"tok"}')[0] == 200
    status, _, text = agent.request("POST", "/assign", '{"token":"toc"}')
    assert (status, json.loads(text)) == (409, {"error": "already assigned"})
    assert agent.run("echo ok")["stdout"] == "ok"


def test_health_never_waits(agent):
    s = agent.send_exec("sleep 60")
    eventually(lambda: agent.json("GET", "/info")["busy"])
    status, _, text = agent.request("GET", "/health")
    assert (status, text) == (200, b'{"status":"ok"}\n')
    assert agent.json("GET", "/info")["busy"]
    s.close()


# --- the shell ---------------------------------------------------------------

ORDINARY = [
    ("printf foo", "foo", "", 0),
    ("printf foo >&2", "", "foo", 0),
    ("cat <<EOF\na'b\nEOF", "a'b", "", 0),
    ("cat", "", "", 0),
    ("read x; echo \"[$x] $?\"", "[] 1", "", 0),
    ("echo '= 1 0'; echo ready; echo '__SANDBOX_00000000___END'",
     "= 1 0\nready\n__SANDBOX_00000000___END", "", 0),
    ("exec >&-", "", "", 0),
    ("exec >/dev/null 2>&1", "", "", 0),
    ("false", "", "", 1),
    ("(exit 42)", "", "", 42),
    ("sh -c 'kill -9 $$'", "", None, 137),
    ("if true", "", None, 2),
    ("echo 'abc", "", None, 2),
    ("echo )", "", None, 2),
    ("x=$((", "", None, 2),
    ("cat <<EOF\nabc", "abc", None, 0),
    ("# nothing", "", "", 0),
    ("   ", "", "", 0),
    ("\\", "", None, None),
    ("echo a &&", "", None, 2),
    ("set -x; set +x", "", None, 0),
    ("set -v; set +v", "", None, 0),
    ("set -C; set -u; set -f; echo *; set +f +u", "*", "", 0),
    ("IFS=abc; echo bab; unset IFS", "bab", "", 0),
    ("umask 777; umask 022", "", "", 0),
    ("readonly R=1", "", "", 0),
    ("nosuchcommand 2>/dev/null", "", "", 127),
    ("trap 'echo trapped' USR1; kill -USR1 $$; trap - USR1", "trapped", "",
     0),
    ("echo \u00e4\u20ac; printf '\\377'", "\u00e4\u20ac\n\ufffd", "", 0),
    ("echo; echo hi; echo; echo", "\nhi", "", 0),
]


def test_every_command_is_an_ordinary_one(any_shell):
    for command, out, err, code in ORDINARY:
        said = any_shell.run(command, max_output_bytes=1000)
        assert said["stdout"] == out, command
        assert err is None or said["stderr"] == err, command
        assert code is None or said["exit_code"] == code, command
        assert not said["session_reset"], command
        assert any_shell.run("echo usable")["stdout"] == "usable", command


ENDINGS = [
    ("exit 7", 7), ("exec true", 0), ("exec false", 1),
    ("set -e; false", 1), ("kill -9 $$", 137), ("kill $$", 143),
    ("set -n", None), ("trap 'exit 9' EXIT; exit 3", 9),
    ("command() { :; }; cd /", None), ("ulimit -n 0; echo x", None),
    ("exec sh -c 'exit 5'", 5), ("exec 0<&-; exit 4", 4),
    (". /nonexistent/file; exit 3", None),
]


def test_a_shell_that_ends_is_replaced(any_shell):
    any_shell.run("cd /usr; export KEPT='a b'; LOST=1")
    for command, code in ENDINGS:
        said = any_shell.run(command, max_output_bytes=1000, timeout=3)
        assert code is None or said["exit_code"] == code, command
        if said["session_reset"]:
            assert any_shell.run("echo usable")["stderr"] == "", command
        said = any_shell.run("echo \"$KEPT\"")
        assert said["stdout"] == "a b", command
        said = any_shell.run("pwd; cd /usr", max_output_bytes=1000)
        assert said["stdout"] in ("/usr", "/"), command
        assert not said["session_reset"], command


def test_its_private_directory_can_be_made_again(any_shell):
    said = any_shell.run("rm -r $(dirname $(readlink /proc/$$/fd/1)); echo a",
                         max_output_bytes=1000, timeout=5)
    assert said["stdout"] == "a" and said["session_reset"]
    assert not said["timed_out"]
    run = any_shell.run("echo b", background=True)
    end = any_shell.json("GET", f"/run/{run['id']}?wait=10")
    assert end["exit_code"] == 0
    assert any_shell.run("echo c", max_output_bytes=9)["stdout"] == "c"


def test_what_a_killed_agent_left_is_taken_away(start):
    def folder(agent):
        return os.path.dirname(agent.run("readlink /proc/$$/fd/1")["stdout"])

    lives, killed = start(), start()
    one, other = folder(lives), folder(killed)
    killed.end(signal.SIGKILL)
    assert os.path.isdir(other)
    new = folder(start())
    assert not os.path.exists(other)
    assert os.path.isdir(one) and os.path.isdir(new)
    assert lives.run("echo usable")["stdout"] == "usable"


def test_a_shell_that_is_killed_between_commands_is_replaced(any_shell):
    """cli-mcp-server 18, 22"""
    any_shell.run("export A=1")
    pid = int(any_shell.run("echo $$")["stdout"])
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not alive(pid))
    assert any_shell.request("GET", "/health")[0] == 200
    said = any_shell.run("echo $A", env={})
    assert (said["stdout"], said["session_reset"]) == ("1", True)


def test_nothing_of_ours_is_traced(any_shell):
    """cli-mcp-server 18, 21"""
    said = any_shell.run("set -x; echo a", env={})
    assert said["stderr"].splitlines()[-1].endswith("echo a")
    said = any_shell.run("echo b", env={})
    assert said["stderr"].splitlines()[-1].endswith("echo b")
    assert "mcp" not in said["stderr"].lower()


def test_a_shell_that_may_open_nothing_is_replaced(start):
    for _ in range(5):
        agent = start(shell="dash")
        said = agent.run("ulimit -n 0; echo x", env={})
        assert (said["stdout"], said["exit_code"]) == ("x", 2)
        assert said["session_reset"]
        assert agent.run("echo usable")["stdout"] == "usable"


def test_what_was_exported_before_exit_is_kept(any_shell):
    said = any_shell.run("cd /usr/bin; export A='1\n2'; exit 3", env={})
    assert said["exit_code"] == 3 and said["session_reset"]
    assert any_shell.run('echo "$A"; pwd')["stdout"] == "1\n2\n/usr/bin"


def test_the_original_s_clients_are_told_of_a_reset_once(agent):
    agent.run("exit 3")
    said = agent.run("echo a")
    assert said["stderr"] == NOTICE and said["session_reset"]
    assert agent.run("echo a")["stderr"] == ""
    agent.run("exit 3")
    assert agent.run("echo a >&2")["stderr"] == NOTICE + "\na"


def test_a_large_command_is_no_exception(any_shell):
    text = "x" * 100_000
    said = any_shell.run(f": '{text}'; echo {text} | wc -c",
                         max_output_bytes=100)
    assert said["stdout"].strip() == "100001"
    lines = "\n".join(f"echo {i}" for i in range(3000))
    said = any_shell.run(lines)
    assert said["stdout"].split() == [str(i) for i in range(3000)]


def test_stdin_env_and_cwd_are_the_command_s_own(any_shell):
    said = any_shell.run("cat; echo $A; pwd; env | grep -c ^A=",
                         stdin="in\n" * 30000, env={"A": "it's"}, cwd="/usr",
                         max_output_bytes=200)
    assert said["stdout_tail"].endswith("in\nit's\n/usr\n1")
    said = any_shell.run('echo "[$A]"; pwd')
    assert said["stdout"] == "[]\n/usr"
    said = any_shell.run("echo not run", cwd="/nonexistent")
    assert said["exit_code"] == 1 and said["stdout"] == ""
    assert "nonexistent" in said["stderr"]
    assert any_shell.run("pwd")["stdout"] == "/usr"
    said = any_shell.run("seq 40000 >&2", cwd="/usr", max_output_bytes=10)
    assert said["stderr_total_bytes"] == 228894


def test_reset_begins_anew(any_shell):
    any_shell.run("cd /; export A=1; f() { echo f; }; B=2")
    said = any_shell.run("", reset=True)
    assert said["session_reset"] and said["exit_code"] == 0
    said = any_shell.run('echo "$A$B"; pwd; f', max_output_bytes=1000)
    assert said["stdout"] == "\n" + any_shell.root
    assert said["exit_code"] == 127
    assert any_shell.run("echo new", reset=True)["stdout"] == "new"


@pytest.mark.parametrize("body", [
    {"command": "a", "stdin": 1}, {"command": "a", "env": []},
    {"command": "a", "env": {"1A": "x"}}, {"command": "a", "env": {"A": 1}},
    {"command": "a", "max_output_bytes": -1}, {"command": "a\0b"},
    {"command": "a", "background": 1}, {"command": "a", "cwd": "\0"},
    {"command": "a", "stdin_open": True},
])
def test_refuses_members_that_are_wrong(agent, body):
    status, _, text = agent.request("POST", "/exec", json.dumps(body))
    assert status == 400
    assert json.loads(text)["error"]


# --- time --------------------------------------------------------------------

def test_a_timeout_kills_everything_and_keeps_the_shell(any_shell):
    pids = os.path.join(any_shell.root, "pids")
    any_shell.run("cd /usr; export E=1; V=2; f() { echo fn; }")
    a, b, c, d = (forever() for _ in range(4))
    said = any_shell.run(
        f"cd /bin; echo partial; setsid sleep {a} & (sleep {b} & "
        f"echo $! >{pids}; env -i setsid sh -c 'sleep {c} & "
        f"echo $! >>{pids}; wait') & sleep 0.3; echo late-err >&2; "
        f"sleep {d}; echo never", timeout=3, max_output_bytes=1000)
    assert said["timed_out"] and said["exit_code"] == 137
    assert said["stdout"] == "partial"
    assert said["stderr"] == "late-err\ncommand timed out"
    assert said["survivors"] == 0
    assert sleeping(a, b, c, d) == []
    said = any_shell.run("echo $E; pwd", max_output_bytes=100)
    assert said["stdout"] == "1\n/bin" and not said["session_reset"]


def test_a_timeout_keeps_all_that_bash_knows(start):
    agent = start(shell=shells()["bash"])
    agent.run("shopt -s extglob expand_aliases; set -u; a=(1 2)\n"
              "declare -A m=([x]='y z'); alias q='echo alias'; "
              "g() { case $1 in +(b)) echo matched;; esac; }; "
              "trap 'echo bye' EXIT; readonly ro=5; local_=$'a\\nb'")
    said = agent.run("echo a; while :; do :; done", timeout=1,
                     max_output_bytes=1000)
    assert said["timed_out"] and not said["session_reset"]
    said = agent.run("echo ${a[1]} ${m[x]} $ro; q; g bb; echo \"$local_\"; "
                     "trap -p EXIT; echo $-", max_output_bytes=1000)
    assert said["stderr"] == ""
    assert said["stdout"].split("\n")[:6] == [
        "2 y z 5", "alias", "matched", "a", "b", "trap -- 'echo bye' EXIT"]
    assert "u" in said["stdout"].split("\n")[6]


def test_what_ignores_signals_is_killed_as_well(any_shell):
    said = any_shell.run("trap '' TERM INT HUP; echo a; sleep 601; sleep 602",
                         timeout=1)
    assert said["timed_out"] and said["stdout"] == "a"
    said = any_shell.run("kill -STOP $$", timeout=1)
    assert said["timed_out"]
    assert any_shell.run("echo b")["stdout"] == "b"


def test_closing_the_connection_cancels(any_shell):
    mark = os.path.join(any_shell.root, "mark")
    long = forever()
    s = any_shell.send_exec(f"echo $$ >{mark}; sleep {long}; touch {mark}2")
    eventually(lambda: os.path.exists(mark))
    s.close()
    assert any_shell.run("echo next", max_output_bytes=9)["stdout"] == "next"
    assert not os.path.exists(mark + "2")
    assert sleeping(long) == []


def go(agent):
    """A command that waits for the file may go on."""
    open(os.path.join(agent.root, "go"), "x").close()


def test_what_waits_and_is_given_up_never_runs(agent):
    mark = os.path.join(agent.root, "mark")
    first = agent.send_exec("while [ ! -e go ]; do sleep 0.05; done")
    eventually(lambda: agent.json("GET", "/info")["busy"])
    second = agent.send_exec(f"touch {mark}")
    eventually(lambda: agent.json("GET", "/info")["queued"] == 1)
    second.close()
    eventually(lambda: agent.json("GET", "/info")["queued"] == 0)
    go(agent)
    assert agent.run("echo x")["stdout"] == "x"
    assert not os.path.exists(mark)
    first.close()


def test_a_full_queue_is_told(agent):
    held = [agent.send_exec("sleep 60")]
    eventually(lambda: agent.json("GET", "/info")["busy"])
    held += [agent.send_exec("echo x") for _ in range(16)]
    eventually(lambda: agent.json("GET", "/info")["queued"] == 16)
    status, _, text = agent.request("POST", "/exec", '{"command":"echo"}')
    assert status == 503
    assert json.loads(text)["error"].startswith("busy: ")
    for s in held:
        s.close()


def test_commands_of_many_clients_run_one_by_one(agent):
    said = []

    def one(i):
        said.append(agent.json(
            "POST", "/exec", {"command": f"echo {i}; sleep 0.02; echo {i}"},
            connection=agent.connect())["stdout"])

    threads = [threading.Thread(target=one, args=(i,)) for i in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(said) == sorted(f"{i}\n{i}" for i in range(12))


# --- output ------------------------------------------------------------------

def test_long_output_is_cut_in_the_middle_and_can_be_read(agent):
    said = agent.run("seq 1 100000", max_output_bytes=20)
    assert said["truncated"]
    assert said["stdout"] == "1\n2\n3\n4\n5\n"
    assert said["stdout_tail"] == "99\n100000"
    assert said["stdout_total_bytes"] == 588895
    path = f"/output/{said['output_id']}/stdout"

    status, headers, text = agent.request("GET", path + "?offset=2&limit=4")
    assert (status, text) == (200, b"2\n3\n")
    assert headers["X-Next-Offset"] == "6"
    assert headers["X-Total-Bytes"] == headers["X-Kept-Bytes"] == "588895"
    assert headers["X-State"] == "ended"
    _, headers, text = agent.request("GET", path + "?line=50000&lines=2")
    assert text == b"50000\n50001\n"
    assert headers["X-Line"] == "50000"
    assert headers["X-Total-Lines"] == "100000"
    assert agent.request("GET", path + "?line=-2")[2] == b"99999\n100000\n"
    assert agent.request("GET", path + "?offset=-7")[2] == b"100000\n"
    assert agent.request("GET", path + "?line=100001")[2] == b""
    whole, at = b"", 0
    while True:
        _, headers, text = agent.request("GET", f"{path}?offset={at}")
        if not text:
            break
        whole += text
        at = int(headers["X-Next-Offset"])
    assert whole == b"".join(b"%d\n" % i for i in range(1, 100001))


def test_a_client_of_the_original_gets_one_text(agent):
    said = agent.run("seq 1 200000")
    assert said["truncated"] and "stdout_tail" not in said
    head, mark, tail = re.split(r"(\[\.\.\. \d+ bytes left out \.\.\.\]\n)",
                                said["stdout"])
    assert head.startswith("1\n2\n") and tail.endswith("\n200000")
    left_out = int(re.search(r"\d+", mark)[0])
    shown = len(head.rstrip("\n")) + len(tail)
    assert 1 <= said["stdout_total_bytes"] - left_out - shown <= 2


def test_more_than_is_kept_is_counted(agent):
    said = agent.run("head -c 70000000 /dev/zero; echo end", timeout=60,
                     max_output_bytes=8)
    path = f"/output/{said['output_id']}/stdout"
    assert said["stdout_total_bytes"] == 70000004
    assert said["stdout_tail"] == "end"
    status, headers, _ = agent.request("GET", path + "?offset=0&limit=1")
    assert status == 200 and headers["X-Kept-Bytes"] == str(64 << 20)
    assert agent.request("GET", path + "?offset=69000000")[0] == 416
    assert agent.request("GET", path + "?offset=-4")[2] == b"end\n"


def test_an_output_of_nobody_is_404(agent):
    for path in ("/output/x/stdout", "/run/x", "/output/../stdout"):
        assert agent.request("GET", path)[0] == 404


def test_a_background_child_does_not_delay_the_answer(any_shell):
    said = any_shell.run("(while [ ! -e go ]; do sleep 0.05; done; echo LATE; "
                         "echo ERR >&2; sleep 803) & echo now")
    assert said["stdout"] == "now"
    path = f"/output/{said['output_id']}/stdout"
    assert agent_state(any_shell, path) == "open"
    go(any_shell)
    eventually(lambda: b"LATE" in any_shell.request("GET", path)[2])
    eventually(lambda: any_shell.run("echo b")["stderr"] == "ERR")
    assert any_shell.run("echo c")["stderr"] == ""
    any_shell.request("POST", f"/run/{said['output_id']}/stop")
    eventually(lambda: agent_state(any_shell, path) == "ended")


def agent_state(agent, path):
    return agent.request("GET", path)[1]["X-State"]


def test_a_talker_in_the_background_does_not_hold_the_shell(any_shell):
    said = any_shell.run("yes & echo $!")
    for i in range(3):
        assert any_shell.run(f"echo {i}")["stdout"] == str(i)
    any_shell.run(f"kill {said['stdout'].split()[-1]}")


# --- the background ----------------------------------------------------------

def test_a_background_command_has_a_life_of_its_own(any_shell):
    any_shell.run("f() { echo \"fn $1\"; }; X=5")
    run = any_shell.run("f $X; cat; echo err >&2; exit 3", background=True,
                        stdin_open=True)
    assert run["state"] == "running" and run["stdin_open"]
    path = f"/run/{run['id']}"
    assert any_shell.run("exit 1")["exit_code"] == 1    # the shell's end
    assert any_shell.request("POST", path + "/stdin", b"abc\n")[0] == 204
    out = f"/output/{run['id']}/stdout"
    eventually(lambda: any_shell.request("GET", out)[2] == b"fn 5\nabc\n")
    assert any_shell.json("GET", path)["exit_code"] is None
    assert any_shell.request("POST", path + "/stdin?close=1", b"z")[0] == 204
    end = any_shell.json("GET", path + "?wait=10")
    assert (end["state"], end["exit_code"]) == ("exited", 3)
    assert any_shell.request("GET", out)[2] == b"fn 5\nabc\nz"
    assert any_shell.request(
        "GET", f"/output/{run['id']}/stderr")[2] == b"err\n"
    assert any_shell.request("POST", path + "/stdin", b"x")[0] == 409
    assert run["id"] in [r["id"] for r in
                         any_shell.json("GET", "/runs")["runs"]]


@pytest.mark.parametrize("command, code", [
    ("exit 7", 7), ("exec true", 0), ("kill -9 $$; exit 2", None),
    ("if true", 2), ("set -e; false", 1), ("cat", 0), ("printf x", 0)])
def test_the_end_of_the_background_is_told(any_shell, command, code):
    if command.startswith("kill"):      # $$ is the kept shell's
        command, code = "sh -c 'kill -9 $$'", 137
    any_shell.run("set -e")
    run = any_shell.run(command, background=True)
    end = any_shell.json("GET", f"/run/{run['id']}?wait=10")
    assert (end["state"], end["exit_code"]) == ("exited", code)


def test_stop_ends_all_of_it(any_shell):
    def begun():
        return any_shell.request("GET", f"/output/{run['id']}/stdout")[2]

    sleeps = [forever() for _ in range(5)]
    run = any_shell.run(f"setsid sleep {sleeps[0]} & trap 'exit 4' TERM; "
                        f"sleep {sleeps[1]} & echo begun; wait",
                        background=True)
    eventually(begun)
    end = any_shell.json("POST", f"/run/{run['id']}/stop?grace=5")
    assert end["state"] == "stopped" and end["survivors"] == 0
    assert end["exit_code"] == 4
    run = any_shell.run("trap '' TERM; echo begun; " + "; ".join(
        f"sleep {s}" for s in sleeps[2:]), background=True)
    eventually(begun)
    end = any_shell.json("POST", f"/run/{run['id']}/stop?grace=0")
    assert (end["state"], end["exit_code"]) == ("stopped", 137)
    assert sleeping(*sleeps) == []
    end = any_shell.json("POST", f"/run/{run['id']}/stop")
    assert end["state"] == "stopped"


def test_the_background_survives_timeouts_and_has_its_own(any_shell):
    run = any_shell.run("sleep 2; echo survived", background=True)
    short = any_shell.run("sleep 905", background=True, timeout=1)
    daemon = any_shell.run("sleep 906 >/dev/null 2>&1 & echo $!")["stdout"]
    assert any_shell.run("sleep 907", timeout=1)["timed_out"]
    assert alive(daemon)
    end = any_shell.json("GET", f"/run/{short['id']}?wait=10")
    assert (end["state"], end["exit_code"]) == ("timed_out", 137)
    end = any_shell.json("GET", f"/run/{run['id']}?wait=10")
    assert (end["state"], end["exit_code"]) == ("exited", 0)
    os.kill(int(daemon), signal.SIGKILL)


def test_the_background_is_bounded(agent):
    for _ in range(32):
        agent.run("sleep 20", background=True)
    status, _, text = agent.request(
        "POST", "/exec", '{"command":"sleep 1","background":true}')
    assert status == 503 and b"busy" in text
    assert agent.run("echo still")["stdout"] == "still"


# --- the token ---------------------------------------------------------------

def test_the_token_is_nowhere_to_be_found(start):
    agent = start(token="very-secret-token")
    said = agent.run("env; export -p; set; cat /proc/$PPID/environ "
                     "/proc/self/environ | tr '\\0' '\\n'; "
                     "tr '\\0' '\\n' </proc/$PPID/cmdline")
    assert "very-secret" not in said["stdout"] + said["stderr"]
    pid = agent.process.pid
    assert os.stat(f"/proc/{pid}/mem").st_uid == 0      # not dumpable
    with open(f"/proc/{pid}/environ", "rb") as f:
        assert b"very-secret" not in f.read()


@pytest.mark.parametrize("method, path", [
    ("GET", "/info"), ("GET", "/runs"), ("GET", "/run/x"),
    ("POST", "/run/x/stop"), ("POST", "/run/x/stdin"),
    ("GET", "/output/x/stdout"), ("GET", "/v1/files/"),
    ("PUT", "/v1/files/x"), ("DELETE", "/v1/files/x")])
def test_everything_else_needs_the_token(agent, method, path):
    for header in ({}, {"Authorization": "Bearer no"},
                   {"Authorization": "Bearer "}):
        status, _, text = agent.request(method, path, headers=header,
                                        auth=False)
        assert status == 401
        assert b"error" in text
    assert os.listdir(agent.root) == []


# --- HTTP --------------------------------------------------------------------

@pytest.mark.parametrize("head, status", [
    (b"POST /exec HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2", 400),
    (b"POST /exec HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: "
     b"chunked", 400),
    (b"POST /exec HTTP/1.1\r\nTransfer-Encoding: gzip, chunked", 501),
    (b"GET /health HTTP/2.0", 505), (b"GET  /health HTTP/1.1", 400),
    (b"GET /health HTTP/1.1\r\n folded: x", 400),
    (b"GET /health HTTP/1.1\r\nX : y", 400),
    (b"GET /health HTTP/1.1\r\nX: " + b"y" * 9000, 431),
    (b"GET /" + b"y" * 9000 + b" HTTP/1.1", 414),
    (b"GET /health HTTP/1.1\r\nExpect: magic", 417),
])
def test_refuses_what_could_be_read_in_two_ways(agent, head, status):
    with agent.socket() as s:
        host = b"" if b"/2.0" in head else b"\r\nHost: a"
        s.sendall(head + host + b"\r\n\r\n{}")
        answer = s.makefile("rb").read()        # and it closes
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:80]


def test_keeps_the_connection_and_takes_pipelined_requests(agent):
    one = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
    with agent.socket() as s:
        s.sendall(one * 3 + one.replace(b"\r\n\r\n",
                                        b"\r\nConnection: close\r\n\r\n"))
        answer = s.makefile("rb").read()
    assert answer.count(b"HTTP/1.1 200 OK") == 4
    assert answer.count(b"Connection: close") == 1


def test_takes_chunks_and_says_when_to_go_on(agent):
    with agent.socket() as s:
        s.sendall(b"POST /exec HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer "
                  b"tok\r\nTransfer-Encoding: chunked\r\nExpect: "
                  b"100-continue\r\nConnection: close\r\n\r\n")
        assert s.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        body = b'{"command":"echo chunks"}'
        for i in range(len(body)):
            s.sendall(b"1;x=y\r\n%c\r\n" % body[i])
        s.sendall(b"0\r\nTrailer: x\r\n\r\n")
        answer = s.makefile("rb").read()
    assert b'"stdout":"chunks"' in answer


def test_many_idle_connections_are_no_harm(agent):
    held = [agent.socket() for _ in range(62)]
    assert agent.run("echo ok")["stdout"] == "ok"
    for s in held:
        s.close()


# --- the process -------------------------------------------------------------

def test_ends_with_the_signal_when_the_command_has_ended(agent):
    s = agent.send_exec("ls -l /proc/self/fd/1; "
                        "while [ ! -e go ]; do sleep 0.05; done; echo done")
    eventually(lambda: agent.json("GET", "/info")["busy"])
    agent.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    go(agent)
    answer = s.makefile("rb").read()
    assert b'\\ndone"' in answer and b"Connection: close" in answer
    assert agent.process.wait(timeout=30) == 0
    private = re.search(rb"/\S+/\.mcp-sandbox-\w+", answer)[0]
    assert not os.path.exists(private)


def test_ends_when_nobody_asks_any_more(start):
    agent = start("--idle-timeout", "1")
    agent.connection.close()
    assert agent.process.wait(timeout=30) == 0


def test_a_spare_agent_waits_longer(start):
    agent = start("--idle-timeout", "1s", token=None)
    time.sleep(2.5)
    assert agent.request("GET", "/health")[0] == 200


@pytest.mark.parametrize("args", [
    ["--port", "x"], ["--port", "65536"], ["--idle-timeout", "1y"],
    ["--idle-timeout", "-1"], ["extra"], ["--nosuch"]])
def test_refuses_options_that_are_wrong(args):
    end = subprocess.run([BINARY, *args], capture_output=True, text=True)
    assert end.returncode == 2
    assert "usage:" in end.stderr


def test_says_why_it_cannot_start(start):
    agent = start()
    for args, word in ((["--port", str(agent.port)], "port"),
                       (["--port", "0", "--shell", "nosuchshell"], "shell"),
                       (["--port", "0", "--root", "/nonexistent"], "/none")):
        end = subprocess.run([BINARY, *args], capture_output=True, text=True,
                             timeout=10)
        assert end.returncode == 1 and word in end.stderr


def test_installs_itself(tmp_path):
    to = tmp_path / "agent"
    subprocess.run([BINARY, "install", str(to)], check=True)
    assert stat.S_IMODE(to.stat().st_mode) == 0o755
    assert os.listdir(tmp_path) == ["agent"]
    with open(BINARY, "rb") as f:
        assert to.read_bytes() == f.read()
    end = subprocess.run([BINARY, "install", "/nonexistent/x"],
                         capture_output=True, text=True)
    assert end.returncode == 1 and "/nonexistent/x" in end.stderr


@pytest.mark.skipif("-san/" in BINARY, reason="a sanitizer needs memory")
def test_is_small(agent):
    agent.run("echo a")
    with open(f"/proc/{agent.process.pid}/status") as f:
        rss = re.search(r"RssAnon:\s+(\d+) kB", f.read())
    assert int(rss[1]) <= 1024
    assert os.path.getsize(BINARY) <= 150 << 10


# --- files -------------------------------------------------------------------

def test_files_are_written_whole_and_read_in_ranges(agent):
    data = os.urandom(300_000)
    put = agent.request("PUT", "/v1/files/a%2Fb%20c?mode=0755", data)
    assert put[0] == 204
    path = os.path.join(agent.root, "a/b c")
    with open(path, "rb") as f:
        assert f.read() == data
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o755
    status, headers, text = agent.request("GET", "/v1/files/a/b%20c")
    assert (status, text) == (200, data)
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["Accept-Ranges"] == "bytes"
    status, headers, text = agent.request("HEAD", "/v1/files/a/b%20c")
    assert status == 200 and headers["Content-Length"] == "300000"
    for field, part in (("bytes=5-9", data[5:10]), ("bytes=-4", data[-4:]),
                        ("bytes=299990-", data[299990:])):
        status, headers, text = agent.request(
            "GET", "/v1/files/a/b%20c", headers={"Range": field})
        assert (status, text) == (206, part)
        assert headers["Content-Range"].endswith("/300000")
    assert agent.request("GET", "/v1/files/a/b%20c",
                         headers={"Range": "bytes=300000-"})[0] == 416
    since = headers["Last-Modified"]
    status, _, text = agent.request("GET", "/v1/files/a/b%20c",
                                    headers={"If-Modified-Since": since})
    assert (status, text) == (304, b"")


def test_files_can_be_added_to(agent):
    for query, data, want in (("", b"abc", b"abc"),
                              ("?append=1", b"def", b"abcdef"),
                              ("?offset=1", b"XY", b"aXYdef"),
                              ("?offset=6", b"Z", b"aXYdefZ")):
        status, headers, _ = agent.request("PUT", "/v1/files/f" + query, data)
        assert status == 204
        assert headers["X-Size"] == str(len(want))
        assert headers["X-SHA256"] == hashlib.sha256(data).hexdigest()
        assert agent.request("GET", "/v1/files/f")[2] == want
    status, _, text = agent.request("PUT", "/v1/files/f?offset=8", b"Z")
    assert status == 416 and b"which has 7 bytes" in text
    assert agent.request("GET", "/v1/files/f")[2] == want


def test_files_are_looked_at_and_moved(agent):
    os.symlink("f", agent.root + "/link")
    agent.request("PUT", "/v1/files/f?mode=0640", b"abc")
    os.utime(agent.root + "/f", (5, 5))
    assert agent.json("GET", "/v1/files/f?stat=1") == {
        "mode": 0o100640, "size": 3, "modified": 5}
    assert stat.S_ISLNK(agent.json("GET", "/v1/files/link?stat=1")["mode"])
    assert agent.request("GET", "/v1/files/none?stat=1")[0] == 404

    def move(path, **body):
        return agent.request("POST", "/v1/files/" + path,
                             json.dumps(body).encode())[0]
    assert move("f", to="d/e/g") == 204
    agent.request("PUT", "/v1/files/f", b"new")
    assert move("f", to="d/e/g") == 409
    assert move("f", to="d", overwrite=True) == 409
    assert move("f", to="d/e/g", overwrite=True) == 204
    assert agent.request("GET", "/v1/files/d/e/g")[2] == b"new"
    assert move("f", to="x") == 404
    assert move("d", to="../x") == 403
    assert move("d") == move("d", to="") == move("d", to=1) == 400
    assert sorted(os.listdir(agent.root)) == ["d", "link"]


def test_with_the_root_of_all_relative_paths_begin_where_it_does(start):
    agent = start("--root", "/")
    path = "/v1/files" + agent.root.replace("/", "%2F", 1) + "/f"
    assert agent.request("PUT", "/v1/files/f", b"x")[0] == 204
    assert agent.request("GET", path.replace("files%2F", "files/%2F"))[2] \
        == b"x"
    assert agent.request("GET", "/v1/files/%2Fetc%2Fpasswd")[0] == 200


def test_a_listing_is_sandboxd_s(agent):
    os.makedirs(agent.root + "/d/sub")
    with open(agent.root + "/d/b", "w") as f:
        f.write("12345")
    os.chmod(agent.root + "/d/b", 0o640)
    os.utime(agent.root + "/d/b", (1_000_000_000, 1_000_000_000))
    os.symlink("b", agent.root + "/d/a")
    os.symlink("/etc", agent.root + "/d/escapes")
    os.symlink("nowhere", agent.root + "/d/broken")
    said = agent.json("GET", "/v1/files/d")
    assert said["path"] == "/d"
    assert [e["name"] for e in said["entries"]] == ["a", "b", "sub"]
    assert said["entries"][1] == {
        "name": "b", "size": 5, "type": "file", "mode": "0640",
        "modified_at": "2001-09-09T01:46:40Z"}
    assert said["entries"][2]["type"] == "directory"
    assert said["entries"][0]["size"] == 5
    root = agent.json("GET", "/v1/files/%2E")
    assert [e["name"] for e in root["entries"]] == ["d"]
    assert agent.json("GET", "/v1/files/")["entries"] == root["entries"]


def test_paths_stay_below_the_root(agent):
    os.symlink("/etc", agent.root + "/out")
    os.symlink(agent.root + "/in", agent.root + "/link")
    os.mkdir(agent.root + "/in")
    for method, path in (("GET", "%2E%2E"), ("GET", "out%2Fpasswd"),
                         ("PUT", "..%2Fx"), ("PUT", "out%2Fx"),
                         ("DELETE", "..%2Fx"), ("GET", "a%2F..%2F..%2Fx")):
        status, _, text = agent.request(method, "/v1/files/" + path, b"x")
        assert status == 403, path
        assert json.loads(text)["code"] == "PERMISSION_DENIED"
    assert agent.request("GET", "/v1/files/%2Fetc%2Fpasswd")[0] == 404
    assert agent.request("PUT", "/v1/files/link%2Fx", b"1")[0] == 204
    absolute = (agent.root + "/in/x").replace("/", "%2F")
    assert agent.request("GET", "/v1/files/" + absolute)[2] == b"1"


@pytest.mark.parametrize("method, path, status, code", [
    ("GET", "none", 404, "NOT_FOUND"), ("HEAD", "none", 404, None),
    ("DELETE", "none", 404, "NOT_FOUND"),
    ("PUT", "dir", 400, "INVALID_ARGUMENT"),
    ("PUT", "f?mode=755", 400, "INVALID_ARGUMENT"),
    ("PUT", "f?mode=0999", 400, "INVALID_ARGUMENT"),
    ("PUT", "f?append=1&offset=2", 400, "INVALID_ARGUMENT"),
    ("DELETE", "dir", 409, "CONFLICT"), ("DELETE", "", 409, "CONFLICT"),
    ("DELETE", "dir?recursive=maybe", 400, "INVALID_ARGUMENT"),
    ("GET", "dir/file/below", 500, "INTERNAL"),
    ("GET", "%zz", 400, "INVALID_ARGUMENT"),
    ("GET", "a%00b", 400, "INVALID_ARGUMENT")])
def test_file_errors_are_sandboxd_s(agent, method, path, status, code):
    os.mkdir(agent.root + "/dir")
    with open(agent.root + "/dir/file", "w"):
        pass
    got, headers, text = agent.request(method, "/v1/files/" + path, b"x")
    assert got == status
    assert headers["Content-Type"] == "application/json"
    if code:
        assert json.loads(text)["code"] == code
        assert text.endswith(b"}\n")
    assert os.listdir(agent.root) == ["dir"]


def test_deletes_what_it_is_told_to(agent):
    agent.request("PUT", "/v1/files/d%2Fe%2Ff", b"x")
    os.symlink("/etc/hostname", agent.root + "/d/link")
    assert agent.request("DELETE", "/v1/files/d%2Flink")[0] == 204
    assert agent.request("DELETE", "/v1/files/d?recursive=true")[0] == 204
    agent.request("PUT", "/v1/files/x%2Fy", b"x")
    assert agent.request("DELETE", "/v1/files/?recursive=1")[0] == 204
    assert os.listdir(agent.root) == []


def test_a_broken_upload_leaves_nothing(agent):
    with agent.socket() as s:
        s.sendall(b"PUT /v1/files/f HTTP/1.1\r\nHost: a\r\nAuthorization: "
                  b"Bearer tok\r\nContent-Length: 100\r\n\r\nhalf")
        eventually(lambda: os.listdir(agent.root))
    eventually(lambda: os.listdir(agent.root) == [])


def test_a_large_file_passes_through_flat_memory(agent):
    size = 50 << 20
    chunk = b"x" * (1 << 20)
    status = agent.request(
        "PUT", "/v1/files/big", (chunk for _ in range(50)),
        headers={"Content-Length": str(size)})[0]
    assert status == 204
    assert len(agent.request("GET", "/v1/files/big")[2]) == size
    with open(f"/proc/{agent.process.pid}/status") as f:
        peak = re.search(r"VmHWM:\s+(\d+) kB", f.read())
    assert "-san/" in BINARY or int(peak[1]) < 8192
