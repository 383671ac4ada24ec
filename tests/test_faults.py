# SPDX-License-Identifier: Apache-2.0
"""What goes wrong on the way: the API server, the streams, the runtime. A
create or a command is never repeated, nothing is lost without a word, and
the error says what failed, on what and why."""

import os

import pytest
import yaml

from blackbox import (DELETE, EXEC, FORWARD, GET, LIST, NS, POST, WATCH, Box,
                      begin_create, claims, count, create, failure, no_claims,
                      seen, success)
from standin.client import wait_for

POOL = {"method": "^GET$", "path": "/sandboxwarmpools/"}
SANDBOX = {"method": "^GET$", "path": "/sandboxes/"}
START = {"where": "runtime", "method": "POST", "path": "/Start$"}


def try_create(program, timeout_s=30, **arguments):
    return program.tool("create_sandbox", {
        "warmpool": "py-pool", "namespace": NS, **arguments}, timeout_s)


@pytest.fixture
def ready(standin, server):
    """A program with a warm pool to take from."""
    standin.pool()
    return server


@pytest.fixture
def exec_box(standin, start):
    standin.pool(runtime="none")
    return Box(standin, start())


@pytest.fixture
def tunnel_box(standin, start):
    standin.pool()
    return Box(standin, start())


# Reading: tried again, within bounds

AGAIN = [{"action": "status", "code": 500},
         {"action": "status", "code": 502}, {"action": "status", "code": 503},
         {"action": "status", "code": 504},
         {"action": "status", "code": 429, "retry_after": 1},
         {"action": "drop"}, {"action": "cut-body"}, {"action": "close"},
         {"action": "delay", "ms": 300},
         {"action": "slow", "bytes": 1, "ms": 0}]


def label(rule):
    return "-".join(str(v) for v in rule.values())


@pytest.mark.parametrize("rule", AGAIN, ids=label)
def test_a_read_that_fails_once_is_tried_again(standin, ready, rule):
    """users.md 59, 60"""
    if rule["action"] != "close":       # a POST may not follow on that
        standin.fault(**POOL, **rule)
    box = Box(standin, ready)
    for where in GET, SANDBOX, LIST:
        standin.fault(**where, **rule)
    assert box.run("echo x")["stdout"] == "x\n"
    listed = success(ready.tool("list_sandboxes", {"namespace": NS}))
    assert len(listed["sandboxes"]) == 1
    assert count(standin, **POST) == 1


def test_a_read_that_always_fails_is_given_up_in_the_servers_words(
        standin, ready):
    standin.fault("status", code=500, message="etcd is away", count=-1,
                  **LIST)
    message = failure(ready.tool("list_sandboxes", {"namespace": NS}, 30))
    assert "etcd is away" in message and "list sandboxclaims" in message
    assert "namespace default" in message and "tried 5 times" in message
    assert count(standin, **LIST) == 5


def test_a_server_that_is_too_busy_is_told_as_such(standin, ready):
    """users.md 59"""
    standin.fault("status", code=429, count=-1, retry_after=0, **LIST,
                  message="too many requests, please try again later")
    message = failure(ready.tool("list_sandboxes", {"namespace": NS}, 30))
    assert "too many requests" in message and "tried" in message


REFUSED = [(400, "BadRequest"), (401, "Unauthorized"), (403, "Forbidden"),
           (404, "NotFound"), (405, "MethodNotAllowed"), (422, "Invalid")]


@pytest.mark.parametrize("code, reason", REFUSED)
def test_a_refusal_is_told_in_the_servers_words_and_not_repeated(
        standin, ready, code, reason):
    """agent-sandbox 8.1, check 5"""
    words = f"{reason}: because the test says so"
    standin.fault("status", code=code, reason=reason, message=words, **POST)
    message = failure(try_create(ready))
    assert words in message and "create sandboxclaims" in message
    assert "namespace default" in message
    assert count(standin, **POST) == 1
    assert count(standin, **DELETE) == 0 and claims(standin) == []


def test_causes_are_told_with_their_fields(standin, ready):
    standin.fault("status", code=422, reason="Invalid", message="is invalid",
                  details={"causes": [{"field": "spec.warmPoolRef.name",
                                       "message": "too odd"}]}, **POST)
    message = failure(try_create(ready))
    assert "spec.warmPoolRef.name" in message and "too odd" in message


def test_a_taken_name_is_no_reason_to_delete_the_other_claim(standin, ready):
    """agent-sandbox 2.2: the original deletes it."""
    standin.fault("status", code=409, reason="AlreadyExists",
                  message="already exists", **POST)
    assert "already exists" in failure(try_create(ready))
    assert count(standin, **DELETE) == 0 and count(standin, **POST) == 1


def test_a_quota_that_is_being_changed_is_tried_again(standin, ready):
    """users.md 48"""
    standin.fault("status", code=409, reason="Conflict", count=2, **POST,
                  message="Operation cannot be fulfilled on resourcequotas",
                  details={"kind": "resourcequotas", "name": "q"})
    create(ready)
    assert count(standin, **POST) == 3


def test_a_quota_that_is_used_up_is_told_in_the_servers_words(
        standin, ready):
    """users.md 47"""
    standin.call("POST", "/api/v1/namespaces/default/resourcequotas", {
        "metadata": {"name": "few"}, "spec": {"hard": {
            "count/sandboxclaims.extensions.agents.x-k8s.io": "0"}}})
    message = failure(try_create(ready))
    assert "exceeded quota" in message and "few" in message
    assert claims(standin) == []


def test_a_create_is_repeated_after_429_as_nothing_was_made(standin, ready):
    standin.fault("status", code=429, retry_after=1, **POST)
    create(ready)
    assert count(standin, **POST) == 2
    assert len(claims(standin)) == 1


# A create whose answer is lost

LOST = [{"action": "drop-after"}, {"action": "cut-body"},
        {"action": "status-after", "code": 500},
        {"action": "status-after", "code": 502},
        {"action": "status-after", "code": 503},
        {"action": "status-after", "code": 504}]
NEVER = [{"action": "drop"}, {"action": "garbage"},
         {"action": "garbage", "body": ""},
         {"action": "garbage", "body": "[]"},
         {"action": "status", "code": 500}, {"action": "status", "code": 503},
         {"action": "status", "code": 504}, {"action": "redirect"},
         {"action": "redirect", "code": 307},
         {"action": "raw", "data": "SSH-2.0-OpenSSH\r\n"},
         {"action": "raw", "data": "HTTP/1.1 2"}]


@pytest.mark.parametrize("rule", LOST, ids=label)
def test_a_create_whose_answer_is_lost_is_found_and_removed(
        standin, ready, rule):
    """users.md 43, 44, 61: exactly one POST, and no claim is left."""
    standin.fault(**POST, **rule)
    message = failure(try_create(ready))
    assert "create sandboxclaims" in message
    assert count(standin, **POST) == 1 and count(standin, **DELETE) == 1
    assert claims(standin) == []
    assert ready.close() == 0


@pytest.mark.parametrize("rule", NEVER, ids=label)
def test_a_create_that_never_was_is_not_repeated(standin, ready, rule):
    standin.fault(**POST, **rule)
    failure(try_create(ready))
    assert count(standin, **POST) == 1 and claims(standin) == []
    create(ready)


def test_a_claim_of_that_name_that_is_not_ours_is_left_alone(
        standin, ready):
    hold = standin.fault("hold", **POST)
    id = begin_create(ready)
    wait_for(lambda: standin.taken(hold), "the POST")
    name = standin.requests(**POST)[0]["body"].split('"name":"')[1].split(
        '"')[0]
    standin.call("POST", "/apis/extensions.agents.x-k8s.io/v1beta1/"
                 "namespaces/default/sandboxclaims", {
                     "metadata": {"name": name},
                     "spec": {"warmPoolRef": {"name": "py-pool"}}})
    standin.release()
    assert "already exists" in failure(ready.reply(id)["result"])
    assert claims(standin) == [name] and count(standin, **DELETE) == 0


def test_a_create_on_a_connection_that_went_stale_is_made_once_or_not(
        standin, ready):
    standin.fault("close", **POOL)
    made = not try_create(ready)["isError"]
    assert len(claims(standin)) == made
    assert count(standin, **POST) <= 1
    create(ready)


def test_without_a_right_to_read_pools_the_claim_tells(standin, ready):
    standin.fault("status", code=403, count=-1, **POOL)
    create(ready)
    message = failure(try_create(ready, warmpool="absent"))
    assert "does not exist" in message and "absent" in message
    assert len(claims(standin)) == 1


def test_what_a_failed_removal_leaves_is_named_in_the_answer(
        standin, ready):
    standin.fault("status", code=403, reason="Forbidden", **DELETE)
    message = failure(try_create(ready, sandbox_ready_timeout=0))
    assert claims(standin)[0] in message and "left behind" in message
    assert ready.close() == 2
    assert claims(standin)[0] in ready.stderr


# Watches

@pytest.mark.parametrize("rule", [
    *({"action": f"watch-{how}", "after": n} for n in (0, 1, 2)
      for how in ("cut", "end", "410", "garbage")),
    {"action": "status", "code": 410}, {"action": "status", "code": 500},
    {"action": "status", "code": 503, "retry_after": 1},
    {"action": "drop"}, {"action": "slow", "bytes": 5, "ms": 0},
    {"action": "slow", "bytes": 61, "ms": 1}, {"action": "redirect"},
    {"action": "garbage"}], ids=label)
def test_a_watch_goes_on_after_any_break(standin, server, rule):
    """agent-sandbox 8.1, check 3; users.md 9, 58"""
    standin.pool("py-pool", replicas=0, runtime="none",
                 notes={"test/ready-ms": "150"})
    standin.fault(**WATCH, **rule)
    claim = create(server)
    assert claims(standin) == [claim]
    assert count(standin, **POST) == 1


def test_a_watch_from_a_version_that_is_gone_begins_again(standin, server):
    """users.md 58"""
    standin.pool("py-pool", replicas=0, notes={"test/ready-ms": "150"})
    hold = standin.fault("hold", **WATCH)
    id = begin_create(server)
    wait_for(lambda: standin.taken(hold), "the watch")
    standin.compact()
    standin.release()
    success(server.reply(id)["result"])


@pytest.mark.parametrize("rule", [
    {"action": "drop"}, {"action": "status", "code": 500},
    {"action": "watch-garbage"}, {"action": "watch-410"},
    {"action": "watch-end"}], ids=label)
def test_a_watch_that_never_works_is_given_up_and_the_claim_removed(
        standin, server, rule):
    standin.pool("py-pool", replicas=0, notes={"test/ready-ms": "-1"})
    standin.fault(**WATCH, **rule, count=-1)
    message = failure(try_create(server))
    assert "watch sandboxclaims" in message
    assert claims(standin) == []
    assert count(standin, **WATCH) <= 6


@pytest.mark.parametrize("code", [400, 401, 403, 404])
def test_a_watch_that_is_refused_fails_at_once(standin, ready, code):
    standin.fault("status", code=code, message="not you", **WATCH)
    assert "not you" in failure(try_create(ready))
    assert claims(standin) == [] and count(standin, **WATCH) == 1


def test_an_event_of_a_megabyte_is_read(standin, server):
    """agent-sandbox 8.1, check 3"""
    standin.pool("py-pool", replicas=0, notes={"test/ready-ms": "-1"})
    id = begin_create(server)
    seen(standin, WATCH)
    (name,) = claims(standin)
    standin.patch_claim(name, {"metadata": {"annotations": {
        "x.test/fat": "x" * (1 << 20)}}})
    standin.config(controller=False)
    standin.patch_claim(name, {"status": {
        "sandbox": {"name": name}, "conditions": [{
            "type": "Ready", "status": "True", "reason": "x", "message": "",
            "lastTransitionTime": "2026-11-30T00:00:00Z"}]}}, status=True)
    success(server.reply(id)["result"])


# Deleting

@pytest.mark.parametrize("code", [401, 403, 422, 500, 503])
def test_a_delete_that_fails_is_told(standin, ready, code):
    """agent-sandbox 1.8: the original says it was done."""
    box = Box(standin, ready)
    standin.fault("status", code=code, message="not today", **DELETE)
    message = failure(box.tool("delete_sandbox"))
    assert "not today" in message and "delete sandboxclaims" in message
    assert box.claim in message


@pytest.mark.parametrize("code", [404, 409])
def test_a_delete_of_what_is_gone_is_done(standin, ready, code):
    box = Box(standin, ready)
    standin.fault("status", code=code, **DELETE)
    success(box.tool("delete_sandbox"))


def test_a_delete_whose_answer_is_lost_is_told(standin, ready):
    box = Box(standin, ready)
    standin.fault("drop-after", **DELETE)
    result = box.tool("delete_sandbox")
    if result["isError"]:
        assert box.claim in failure(result)
    no_claims(standin)


# Commands over pods/exec

def lost(result, output=None):
    """No Status came: never a success, and what was read is kept."""
    message = failure(result)
    got = result["structuredContent"]
    assert got["status"] == "connection_lost" and got["exit_code"] is None
    if output is not None:
        assert got["stdout"] == output
    return message


@pytest.mark.parametrize("rule", [
    {"action": "ws-no-status"}, {"action": "ws-cut"},
    {"action": "ws-cut", "before": "two"},
    {"action": "ws-drop", "before": "three"}], ids=label)
def test_a_stream_without_a_status_is_no_success(exec_box, standin, rule):
    """users.md 1, 2: an exit code only from the Status"""
    standin.fault(**EXEC, **rule)
    message = lost(exec_box.result(
        "echo one; sleep 0.2; echo two; sleep 0.2; echo three"))
    assert "connection lost" in message and exec_box.pod in message
    assert "may still be running" in message
    assert count(standin, **EXEC) == 1


def test_what_came_before_the_break_is_kept(exec_box, standin):
    standin.fault("ws-drop", before="two", **EXEC)
    program = exec_box.program
    id = exec_box.begin("echo one; while [ ! -e go ]; do sleep 0.05; done; "
                        "echo two", {"progressToken": 1})
    # What was not told yet may go in one frame with the rest.
    wait_for(lambda: "one" in program.recv()["params"]["message"], "a line")
    open(standin.pod(exec_box.pod)["dir"] + "/go", "x").close()
    lost(program.reply(id)["result"], "one\n")
    assert exec_box.run("echo x")["stdout"] == "x\n"


@pytest.mark.parametrize("kind", [
    "masked", "reserved", "opcode", "oversized", "sign", "long-control",
    "fragmented-control", "continuation", "text", "bad-channel",
    "no-channel", "bad-close", "unfinished"])
def test_a_frame_against_the_rules_loses_nothing_silently(
        exec_box, standin, kind):
    standin.fault("ws-bad", kind=kind, after=1, **EXEC)
    result = exec_box.result("echo one; sleep 0.2; echo two")
    if result["isError"]:
        lost(result)
        assert len(failure(result)) > 40
    else:                       # what may be read in one way only
        assert result["structuredContent"]["stdout"] == "one\ntwo\n"
    assert count(standin, **EXEC) == 1
    assert exec_box.run("echo x")["stdout"] == "x\n"


@pytest.mark.parametrize("rule", [
    *({"action": "ws-bad", "kind": k} for k in (
        "accept", "no-accept", "subprotocol", "no-subprotocol",
        "no-upgrade")),
    {"action": "redirect"}, {"action": "garbage"},
    {"action": "status", "code": 400}, {"action": "status", "code": 403},
    {"action": "raw", "data": "HTTP/1.1 101 x\r\n\r\n"},
    {"action": "raw", "data": "\x00\x01"}], ids=label)
def test_a_stream_that_is_not_opened_is_told(exec_box, standin, rule):
    standin.fault(**EXEC, **rule)
    result = exec_box.result("touch ran")
    assert exec_box.pod in failure(result)
    assert count(standin, **EXEC) == 1
    if rule["action"] != "ws-bad":      # there the server thinks it is open
        assert "ran" not in exec_box.run("ls")["stdout"]


@pytest.mark.parametrize("rule", [{"action": "drop"},
                                  {"action": "drop-after"}], ids=label)
def test_an_exec_without_an_answer_is_not_repeated(
        exec_box, standin, rule):
    standin.fault(**EXEC, **rule)
    failure(exec_box.result("true"))
    assert count(standin, **EXEC) == 1


@pytest.mark.parametrize("rule", [
    {"action": "status", "code": 500, "message": "container not found"},
    {"action": "status", "code": 503}, {"action": "status", "code": 429}],
    ids=label)
def test_an_exec_that_was_refused_for_now_is_asked_again(
        exec_box, standin, rule):
    """users.md 10"""
    standin.fault(**EXEC, **rule)
    assert exec_box.run("echo x")["stdout"] == "x\n"


def test_an_exec_into_what_is_no_more_is_told(exec_box, standin):
    standin.fault("status", code=500, count=-1, **EXEC,
                  message='unable to upgrade connection: container not '
                  'found ("sandbox")')
    message = failure(exec_box.result("true", 40))
    assert "container not found" in message and exec_box.pod in message


def test_a_slow_stream_is_read_to_its_end(exec_box, standin):
    standin.fault("slow", bytes=3, ms=0, **EXEC)
    assert exec_box.run("seq 200")["stdout"] == "".join(
        f"{n}\n" for n in range(1, 201))


def test_a_stream_that_is_silent_is_ended_by_the_time_limit(
        exec_box, standin):
    """users.md 5, 29"""
    standin.fault("ws-silence", **EXEC)
    result = exec_box.result("echo x", timeout=1)
    assert "timed out after 1 s" in failure(result)
    assert result["structuredContent"]["status"] == "timed_out"


# Commands over the tunnel

@pytest.mark.parametrize("code, word", [
    ("INVALID_ARGUMENT", "INVALID_ARGUMENT"), ("NOT_FOUND", "NOT_FOUND"),
    ("PERMISSION_DENIED", "PERMISSION_DENIED"), ("INTERNAL", "INTERNAL"),
    ("UNAVAILABLE", "UNAVAILABLE"),
    ("RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED"),
    ("UNIMPLEMENTED", "UNIMPLEMENTED")])
def test_a_grpc_error_is_told_by_name_and_not_repeated(
        tunnel_box, standin, code, word):
    standin.fault("status", code=code, message="says the 100% test",
                  **START)
    message = failure(tunnel_box.result("true"))
    assert word in message and "says the 100% test" in message
    assert count(standin, "POST", "/Start$", "runtime") == 1
    assert tunnel_box.run("echo x")["stdout"] == "x\n"


@pytest.mark.parametrize("rule", [
    {"action": "ws-cut", "before": "end"},
    {"action": "ws-cut", "after": 4}, {"action": "ws-drop", "before": "end"},
    {"action": "ws-bad", "kind": "masked", "before": "end"},
    {"action": "ws-bad", "kind": "bad-channel", "before": "end"},
    {"action": "ws-bad", "kind": "continuation", "before": "end"},
    {"action": "ws-bad", "kind": "oversized", "before": "end"}], ids=label)
def test_a_tunnel_that_breaks_is_no_success_and_is_opened_again(
        tunnel_box, standin, rule):
    standin.fault(**FORWARD, **rule)
    failure(tunnel_box.result("touch ran; sleep 0.3; echo end"))
    assert count(standin, "POST", "/Start$", "runtime") <= 1
    assert tunnel_box.run("echo back")["stdout"] == "back\n"


@pytest.mark.parametrize("rule", [
    {"action": "status", "code": 403, "message": "no right to forward"},
    {"action": "status", "code": 400, "message": "no such port"}], ids=label)
def test_a_tunnel_that_is_refused_is_told(tunnel_box, standin, rule):
    standin.fault(**FORWARD, **rule, count=-1)
    message = failure(tunnel_box.result("true"))
    assert rule["message"] in message
    assert tunnel_box.pod in message and "9090" in message


@pytest.mark.parametrize("rule", [
    {"action": "drop"}, {"action": "status", "code": 503},
    {"action": "status", "code": 500}], ids=label)
def test_a_tunnel_is_asked_for_again_as_it_runs_nothing(
        tunnel_box, standin, rule):
    standin.fault(**FORWARD, **rule)
    assert tunnel_box.run("echo x")["stdout"] == "x\n"
    assert count(standin, "POST", "/Start$", "runtime") == 1


def test_a_slow_tunnel_is_read_to_its_end(tunnel_box, standin):
    standin.fault("slow", bytes=5, ms=0, **FORWARD)
    assert tunnel_box.run("seq 200")["stdout"] == "".join(
        f"{n}\n" for n in range(1, 201))


def test_a_daemon_that_is_silent_is_ended_by_the_time_limit(
        tunnel_box, standin):
    """users.md 29"""
    standin.fault("silence", **START)
    result = tunnel_box.result("true", timeout=1)
    assert "timed out after 1 s" in failure(result)
    assert tunnel_box.run("echo x")["stdout"] == "x\n"


# The API server as a whole

def test_a_cluster_that_is_not_there_is_told_with_its_address(
        standin, start):
    path = standin.make_kubeconfig("dead", port=1)
    message = failure(start(kubeconfig=path).tool(
        "list_sandboxes", {"namespace": NS}, 30))
    assert "127.0.0.1:1" in message and "refused" in message


@pytest.mark.parametrize("certificate, words", [
    ("expired", ["expired"]), ("wrong-name", ["name"]),
    ("wrong-ca", ["CA", "authority", "trust"])])
def test_a_bad_certificate_is_refused_in_a_sentence_that_says_why(
        standin, start, certificate, words):
    """users.md 73, 75"""
    program = start(kubeconfig=standin.listen(certificate))
    message = failure(program.tool("list_sandboxes", {"namespace": NS}))
    assert any(w in message for w in words), message
    assert standin.requests() == []


@pytest.mark.parametrize("certificate", ["rsa", "tls12"])
def test_good_certificates_of_other_kinds_are_taken(
        standin, start, certificate):
    """users.md 75"""
    program = start(kubeconfig=standin.listen(certificate))
    success(program.tool("list_sandboxes", {"namespace": NS}))


def test_redirects_are_never_followed_with_credentials(standin, start):
    """users.md 89"""
    program = start(kubeconfig=standin.kubeconfigs["token"])
    standin.fault("redirect", code=307, count=-1, **LIST,
                  location=f"https://127.0.0.1:{standin.port}/elsewhere")
    message = failure(program.tool("list_sandboxes", {"namespace": NS}))
    assert "307" in message or "redirect" in message
    assert count(standin, path="elsewhere") == 0


def test_a_token_that_is_not_accepted_is_told_without_it(standin, start):
    program = start(kubeconfig=standin.kubeconfigs["bad-token"])
    message = failure(program.tool("list_sandboxes", {"namespace": NS}))
    assert "credentials were not accepted" in message
    assert count(standin) == 1


def test_a_token_that_was_rotated_is_read_again_once(standin, start):
    """users.md 63, 64: one 401, then the new one"""
    standin.pool()
    program = start(kubeconfig=standin.kubeconfigs["token-file"])
    box = Box(standin, program)
    path = token_file(standin)
    with open(path, encoding="utf-8") as f:
        old = f.read().strip()
    new = "rotated-" + old
    standin.config(tokens={old: None, new: "admin"})
    try:
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write(new)
        os.rename(path + ".new", path)
        standin.forget_requests()
        assert box.run("echo x")["stdout"] == "x\n"
        standin.config(tokens={new: None})
        assert "credentials were not accepted" in failure(
            program.tool("list_sandboxes", {"namespace": NS}))
        assert count(standin, **LIST) == 2
    finally:
        with open(path, "w", encoding="utf-8") as f:
            f.write(old)
    assert new not in program.stderr + program.output.decode()


def token_file(standin):
    with open(standin.kubeconfigs["token-file"], encoding="utf-8") as f:
        config = yaml.safe_load(f)
    return os.path.join(os.path.dirname(standin.kubeconfigs["token-file"]),
                        config["users"][0]["user"]["tokenFile"])


def test_an_answer_over_the_limit_is_told(standin, start):
    program = start("--session-id", "fat")
    standin.config(controller=False)
    for n in range(24):
        standin.call("POST", "/apis/extensions.agents.x-k8s.io/v1beta1/"
                     "namespaces/default/sandboxclaims", {
                         "metadata": {"name": f"c{n}", "labels": {
                             "mcp.k8s-agent-sandbox/session-id": "fat"},
                             "annotations": {"x.test/fat": "x" * 200000}},
                         "spec": {"warmPoolRef": {"name": "p"}}})
    message = failure(program.tool("list_sandboxes", {"namespace": NS}))
    assert str(4 << 20) in message


@pytest.mark.parametrize("body", ["", "{", "[]", "null", "\x00", "{}",
                                  '{"items": 7}', "x" * 100000])
def test_an_answer_that_makes_no_sense_is_no_crash(standin, ready, body):
    box = Box(standin, ready)
    for rule in LIST, GET, SANDBOX:
        standin.fault("garbage", body=body, **rule)
        ready.tool("list_sandboxes", {"namespace": NS})
        box.result("true")
    standin.clear_faults()
    assert box.run("echo x")["stdout"] == "x\n"
