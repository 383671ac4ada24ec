# SPDX-License-Identifier: Apache-2.0
"""create, status, list and delete: what is sent, what is waited for, whose
sandboxes they are (agent-sandbox 1.4 to 1.8, 2.2 to 2.4)."""

import datetime
import json
import re

import pytest

from blackbox import (DELETE, NS, POST, WATCH, Box, begin_create, claims,
                      count, create, expire, failure, no_claims, seen,
                      success)
from standin.client import wait_for

KEY = "mcp.k8s-agent-sandbox/session-id"
UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}"
                   r"-[0-9a-f]{12}$")


def body(standin):
    """The claim of the one POST there was."""
    (request,) = standin.requests(**POST)
    return json.loads(request["body"])


def try_create(program, warmpool="py-pool", namespace=NS, **arguments):
    return program.tool("create_sandbox", {
        "warmpool": warmpool, "namespace": namespace, **arguments}, 20)


def cold(standin, name="cold", **notes):
    """A pool whose claims wait for what the notes say."""
    standin.pool(name, replicas=0, runtime="none",
                 notes={f"test/{k.replace('_', '-')}": v
                        for k, v in notes.items()})


# What is sent

def test_a_claim_with_defaults_is_that_of_the_contract(standin, server):
    """agent-sandbox 8.1, check 2"""
    standin.pool()
    before = datetime.datetime.now(datetime.timezone.utc)
    claim = create(server)
    sent = body(standin)
    meta = sent["metadata"]
    assert meta["name"] == claim
    assert re.fullmatch("sandbox-claim-[0-9a-f]{16}", claim)
    assert UUID4.match(meta["labels"].pop(KEY))
    assert meta["labels"] == {"agents.x-k8s.io/created-by": "mcp-sandbox"}
    assert list(meta["annotations"]) == [
        "agents.x-k8s.io/client-first-requested-at"]
    end = datetime.datetime.fromisoformat(
        sent["spec"]["lifecycle"].pop("shutdownTime"))
    assert 298 <= (end - before).total_seconds() <= 310
    del sent["metadata"]
    assert sent == {
        "apiVersion": "extensions.agents.x-k8s.io/v1beta1",
        "kind": "SandboxClaim", "spec": {
            "warmPoolRef": {"name": "py-pool"},
            "lifecycle": {"shutdownPolicy": "Delete"}}}
    watch = standin.requests(**WATCH)[0]["path"]
    assert f"fieldSelector=metadata.name%3D{claim}" in watch
    assert "resourceVersion=" in watch


def test_no_lifetime_means_no_lifecycle(standin, server):
    standin.pool()
    result = success(try_create(server, shutdown_after_seconds=None,
                                labels=None, pod_labels={}))
    assert result["shutdown_time"] is None
    assert body(standin)["spec"] == {"warmPoolRef": {"name": "py-pool"}}


def test_labels_and_pod_metadata_are_handed_on(standin, server):
    standin.pool()
    labels = {"team": "x", "a.example/b-c_d.e": "", "created-by": "me",
              "agents.x-k8s.io/created-by": "me", KEY: "stolen",
              "L" * 63: "9" * 63}
    pod_labels = {"sandbox.users.io/a": "b"}
    annotations = {"note": 'any "text"\n€ \\', "x.example/y": ""}
    create(server, labels=labels, pod_labels=pod_labels,
           pod_annotations=annotations)
    sent = body(standin)
    got = sent["metadata"]["labels"]
    assert UUID4.match(got.pop(KEY))
    assert got.pop("agents.x-k8s.io/created-by") == "mcp-sandbox"
    del labels[KEY], labels["agents.x-k8s.io/created-by"]
    assert got == labels
    assert sent["spec"]["additionalPodMetadata"] == {
        "labels": pod_labels, "annotations": annotations}


LONG = "x" * 64
BAD_LABELS = [
    {"": "v"}, {"/a": "v"}, {"a/": "v"}, {"A.example/a": "v"},
    {"-a.example/b": "v"}, {"a..b/c": "v"}, {"a/b/c": "v"},
    {("a" * 254) + "/b": "v"}, {LONG: "v"}, {"-a": "v"}, {"a-": "v"},
    {"a b": "v"}, {"a\n": "v"}, {"é": "v"}, {"k": LONG}, {"k": "-v"},
    {"k": "v-"}, {"k": "a b"}, {"k": "v\n"}, {"k": "é"}, {"k": "a\u0000b"}]


def test_bad_labels_are_refused_before_any_request(standin, server):
    """agent-sandbox 1.6, the strict rule of Kubernetes"""
    for field in "labels", "pod_labels":
        for bad in BAD_LABELS:
            message = failure(try_create(server, **{field: bad}))
            assert field in message, (bad, message)
    assert standin.requests() == []


@pytest.mark.parametrize("arguments, words", [
    ({"warmpool": ""}, ["warmpool"]),
    ({"warmpool": "Py_Pool"}, ["warmpool", "Py_Pool"]),
    ({"warmpool": "../x"}, ["warmpool"]),
    ({"namespace": "../x"}, ["namespace", "../x"]),
    ({"namespace": "a.b"}, ["namespace"]),
    ({"namespace": "N"}, ["namespace"]),
    ({"namespace": "x" * 64}, ["namespace"]),
    ({"shutdown_after_seconds": 0}, ["shutdown_after_seconds", "positive"]),
    ({"shutdown_after_seconds": -5}, ["shutdown_after_seconds", "-5"]),
    ({"shutdown_after_seconds": 10**12}, ["shutdown_after_seconds",
                                          "too large"]),
    ({"shutdown_after_seconds": 1.5}, ["shutdown_after_seconds"]),
    ({"labels": {"a": 1}}, ["labels"]), ({"labels": []}, ["labels"]),
    ({"pod_annotations": {"a": None}}, ["pod_annotations"]),
    ({"sandbox_ready_timeout": None}, ["sandbox_ready_timeout"])])
def test_bad_arguments_are_refused_before_any_request(
        standin, server, arguments, words):
    message = failure(try_create(server, **arguments))
    for word in words:
        assert word in message
    assert standin.requests() == []


@pytest.mark.parametrize("tool", ["execute_command", "get_sandbox_status",
                                  "delete_sandbox"])
@pytest.mark.parametrize("name", ["", "Bad_Name", "../x", "a/b", "a%2Fb",
                                  "x" * 254, "é", "a b", "-a", "a\u0000b"])
def test_bad_handles_are_refused_before_any_request(
        standin, server, tool, name):
    arguments = {"sandbox_claim_name": name, "namespace": NS}
    if tool == "execute_command":
        arguments["command"] = "true"
    message = failure(server.tool(tool, arguments))
    assert "sandbox_claim_name" in message
    assert standin.requests() == []


# What is waited for

def test_a_cold_pool_is_waited_for(standin, server):
    standin.pool("cold", replicas=0, runtime="none")
    claim = create(server, "cold")
    assert success(Box(standin, server, claim).tool(
        "get_sandbox_status"))["ready"] is True


def test_a_claim_that_is_named_first_and_ready_later_is_waited_for(
        standin, server):
    """agent-sandbox 8.1, check 3"""
    cold(standin, ready_ms="300")
    claim = create(server, "cold")
    assert any(c["type"] == "Ready" and c["status"] == "True" for c in
               standin.claim(claim)["status"]["conditions"])


def test_a_pool_that_is_missing_is_told_and_nothing_is_made(standin, server):
    message = failure(try_create(server, "absent"))
    assert "does not exist" in message
    assert "'absent'" in message and "'default'" in message
    assert count(standin, **POST) == 0


def test_a_cluster_without_the_resources_is_told_as_such(standin, server):
    standin.config(crds=False)
    message = failure(try_create(server))
    assert "extensions.agents.x-k8s.io/v1beta1" in message
    assert "installed" in message
    handle = {"sandbox_claim_name": "x", "namespace": NS}
    for tool, arguments in ("get_sandbox_status", handle), (
            "list_sandboxes", {"namespace": NS}), ("delete_sandbox", handle):
        assert "installed" in failure(server.tool(tool, arguments))


def ready_false(standin, name, reason, message, kind="Ready"):
    standin.config(controller=False)
    standin.patch_claim(name, {"status": {"conditions": [{
        "type": kind, "status": "False", "reason": reason,
        "message": message, "lastTransitionTime": "2026-11-30T00:00:00Z"}]}},
        status=True)


FINAL = ["TemplateNotFound", "InvalidMetadata", "EnvVarsInjectionRejected",
         "VolumeClaimTemplatesError", "ClaimExpired", "SandboxExpired",
         "InvalidConfiguration", "PodFailed", "PodSucceeded",
         "WarmPoolNotFound"]


@pytest.mark.parametrize("reason", FINAL)
def test_a_reason_that_no_waiting_changes_fails_at_once(
        standin, server, reason):
    """agent-sandbox 2.3; users.md 40"""
    cold(standin, ready_ms="-1")
    id = begin_create(server, "cold")
    seen(standin, WATCH)
    (name,) = claims(standin)
    ready_false(standin, name, reason, "in the cluster's words",
                "Other" if reason == "WarmPoolNotFound" else "Ready")
    message = failure(server.reply(id)["result"])
    assert "in the cluster's words" in message
    assert reason in message or "does not exist" in message \
        or "expired" in message
    assert claims(standin) == []


@pytest.mark.parametrize("reason", [
    "DependenciesNotReady", "SandboxMissing", "AdoptionConflict",
    "SandboxCreatePending", "SandboxNotReady", "MultiplePods"])
def test_a_reason_that_may_pass_is_waited_for(standin, server, reason):
    cold(standin, ready_ms="-1")
    id = begin_create(server, "cold")
    seen(standin, WATCH)
    (name,) = claims(standin)
    ready_false(standin, name, reason, "not yet")
    assert server.silence(0.2) == []
    standin.patch_claim(name, {"status": {
        "sandbox": {"name": name, "podIPs": ["10.0.0.1"]}, "conditions": [{
            "type": "Ready", "status": "True", "reason": "x", "message": "",
            "lastTransitionTime": "2026-11-30T00:00:00Z"}]}}, status=True)
    assert success(server.reply(id)["result"])["sandbox_claim_name"] == name


def test_a_claim_that_is_deleted_meanwhile_is_told(standin, server):
    cold(standin, ready_ms="-1")
    id = begin_create(server, "cold")
    seen(standin, WATCH)
    (name,) = claims(standin)
    standin.call("DELETE", "/apis/extensions.agents.x-k8s.io/v1beta1/"
                 f"namespaces/default/sandboxclaims/{name}")
    message = failure(server.reply(id)["result"])
    assert name in message and "deleted while" in message


@pytest.mark.parametrize("seconds", [0, -1, 1])
def test_a_claim_that_is_not_ready_in_time_is_removed(
        standin, server, seconds):
    """users.md 29, 57: every wait has its own limit."""
    cold(standin, ready_ms="-1")
    message = failure(try_create(server, "cold",
                                 sandbox_ready_timeout=seconds))
    assert f"within {seconds} seconds" in message
    assert claims(standin) == []
    assert count(standin, **DELETE) == 1


def test_a_pod_that_no_node_takes_is_told_in_the_schedulers_words(
        standin, start):
    """users.md 46"""
    words = "0/3 nodes are available: 3 Insufficient memory."
    cold(standin, unschedulable=words)
    program = start("--unschedulable-after", "1")
    message = failure(try_create(program, "cold"))
    assert "Unschedulable" in message and words in message
    assert claims(standin) == []


@pytest.mark.parametrize("waiting", [
    "InvalidImageName: couldn't parse image name \"x:y:z\"",
    "ErrImageNeverPull: Container image is not present"])
def test_an_image_that_can_not_come_fails_fast(standin, server, waiting):
    """users.md 45"""
    cold(standin, waiting=waiting)
    message = failure(try_create(server, "cold"))
    assert waiting in message and "localhost/none:1" in message
    assert claims(standin) == []


def test_a_pull_that_fails_again_and_again_is_given_up(standin, server):
    """users.md 45: with the registry's words, long before the time-out"""
    cold(standin, waiting="ImagePullBackOff: Back-off pulling image \"x\"")
    id = begin_create(server, "cold")
    assert server.silence(1.0) == [], "a pull may fail once and then work"
    assert "Back-off pulling" in failure(server.reply(id, 20)["result"])
    assert claims(standin) == []


def test_a_missing_template_is_told(standin, server):
    standin.call("POST", "/apis/extensions.agents.x-k8s.io/v1beta1/"
                 "namespaces/default/sandboxwarmpools", {
                     "metadata": {"name": "bad"}, "spec": {
                         "replicas": 0, "sandboxTemplateRef": {
                             "name": "absent"}}})
    message = failure(try_create(server, "bad"))
    assert "SandboxTemplate" in message and "absent" in message
    assert claims(standin) == []


def test_metadata_that_the_controller_refuses_is_told(standin, server):
    standin.pool("cold", replicas=0)
    message = failure(try_create(server, "cold",
                                 pod_labels={"plain": "x"}))
    assert "plain" in message and "sandbox.users.io" in message
    assert claims(standin) == []


def test_old_spellings_and_ip_objects_are_read(standin, server):
    cold(standin, ready_ms="-1")
    id = begin_create(server, "cold")
    seen(standin, WATCH)
    (name,) = claims(standin)
    standin.config(controller=False)
    standin.patch_claim(name, {"status": {
        "sandbox": {"Name": name, "podIPs": [{"ip": "10.0.0.1"}]},
        "conditions": [{"type": "Ready", "status": "True", "reason": "x",
                        "message": "", "lastTransitionTime":
                        "2026-11-30T00:00:00Z"}]}}, status=True)
    success(server.reply(id)["result"])


# Status, list, delete

def test_status_of_what_is_ready_and_of_what_is_not_there(standin, server):
    """users.md 54, 56"""
    standin.pool()
    box = Box(standin, server)
    status = success(box.tool("get_sandbox_status"))
    assert status["status"] == "SandboxReady" and status["ready"] is True
    assert status["shutdown_time"].endswith("Z")
    success(box.tool("delete_sandbox"))
    status = success(box.tool("get_sandbox_status"))
    assert status["status"] == "SandboxNotFound"
    assert status["ready"] is False and status["shutdown_time"] is None
    assert box.claim in status["message"]


def test_a_suspended_sandbox_is_told(standin, server):
    """agent-sandbox 8.1, check 6"""
    standin.pool()
    box = Box(standin, server)
    standin.patch_sandbox(box.pod, {"spec": {"operatingMode": "Suspended"}})
    wait_for(lambda: success(box.tool("get_sandbox_status"))["status"] ==
             "SandboxNotReady", "the suspension")
    wait_for(lambda: any(c["reason"] == "SandboxSuspended" for c in
                         standin.claim(box.claim)["status"]["conditions"]),
             "its reason")
    message = failure(box.result("true"))
    assert "suspended" in message and "resume" in message
    assert count(standin, **DELETE) == 0


def test_a_claim_that_is_being_deleted_is_told(standin, server):
    standin.pool()
    box = Box(standin, server)
    standin.patch_claim(box.claim, {"metadata": {"finalizers": ["x.test/f"]}})
    success(box.tool("delete_sandbox"))
    status = success(box.tool("get_sandbox_status"))
    assert status["status"] == "SandboxNotReady"
    assert status["message"] == "being deleted"
    assert "being deleted" in failure(box.result("true"))
    standin.patch_claim(box.claim, {"metadata": {"finalizers": None}})


def test_a_sandbox_ends_at_its_shutdown_time(standin, server):
    """users.md 54"""
    standin.pool()
    box = Box(standin, server)
    expire(standin, box.claim)
    no_claims(standin)
    assert "not found" in failure(box.result("true"))


def test_the_list_holds_this_sessions_sandboxes_by_name(standin, server):
    """users.md 56"""
    standin.pool(replicas=3)
    names = sorted(create(server) for _ in range(3))
    listed = success(server.tool("list_sandboxes", {"namespace": NS}))
    assert [s["sandbox_claim_name"] for s in listed["sandboxes"]] == names
    assert listed["truncated"] is False
    for one in listed["sandboxes"]:
        assert one["warmpool"] == "py-pool" and one["ready"] is True
        assert one["created"] < one["shutdown_time"]
    contents = server.ask("resources/read", {"uri": "sandboxes://default"})
    assert [c["text"] for c in contents["result"]["contents"]] == names


def test_a_list_longer_than_a_page_is_cut_and_says_so(standin, start):
    program = start("--session-id", "many")
    standin.config(controller=False)
    for n in range(505):
        standin.call("POST", "/apis/extensions.agents.x-k8s.io/v1beta1/"
                     "namespaces/default/sandboxclaims", {
                         "metadata": {"name": f"c{n:03}", "labels": {
                             KEY: "many"}},
                         "spec": {"warmPoolRef": {"name": "p"}}})
    listed = success(program.tool("list_sandboxes", {"namespace": NS}))
    assert len(listed["sandboxes"]) == 500 and listed["truncated"] is True


def test_a_delete_names_the_object_it_means(standin, server):
    """users.md 53"""
    standin.pool()
    box = Box(standin, server)
    uid = standin.claim(box.claim)["metadata"]["uid"]
    assert success(box.tool("delete_sandbox")) is None
    sent = json.loads(standin.requests(**DELETE)[0]["body"])
    assert sent["preconditions"] == {"uid": uid}
    assert sent["propagationPolicy"] == "Background"
    assert "not found" in failure(box.tool("delete_sandbox"))
    wait_for(lambda: not standin.objects("SandboxClaim"), "its end")


def test_a_failed_look_never_deletes_the_sandbox(standin, server):
    """agent-sandbox 2.4: one 500 destroyed a working sandbox there."""
    standin.pool()
    box = Box(standin, server)
    standin.fault("status", "/sandboxes/", code=400)
    failure(box.result("true"))
    assert count(standin, **DELETE) == 0
    assert box.run("echo back")["stdout"] == "back\n"


# Whose it is

def test_a_session_sees_none_of_anothers_sandboxes(standin, start):
    """agent-sandbox 1.7; 8.1, checks 6 and 15"""
    standin.pool()
    mine, other = start(), start()
    box = Box(standin, mine)
    theirs = Box(standin, other, box.claim)
    texts = {failure(theirs.result("true")),
             failure(theirs.tool("delete_sandbox"))}
    assert texts == {f"Sandbox claim '{box.claim}' is not found in "
                     "namespace 'default'."}
    absent = Box(standin, other, "absent")
    assert failure(absent.result("true")) == texts.pop().replace(
        box.claim, "absent")
    assert success(theirs.tool("get_sandbox_status"))["status"] == \
        "SandboxNotFound"
    assert success(other.tool("list_sandboxes", {"namespace": NS}))[
        "sandboxes"] == []
    assert claims(standin) == [box.claim]
    assert count(standin, **DELETE) == 0


def test_a_fixed_session_id_finds_its_sandboxes_again(standin, start):
    """agent-sandbox 8.1, check 15"""
    standin.pool()
    first = start("--session-id", "alice")
    claim = create(first)
    assert first.close() == 0
    again = Box(standin, start(env={"MCP_SANDBOX_SESSION_ID": "alice"}),
                claim)
    assert again.run("echo again")["stdout"] == "again\n"
    assert success(again.program.tool("list_sandboxes", {"namespace": NS}))[
        "sandboxes"][0]["sandbox_claim_name"] == claim
    success(again.tool("delete_sandbox"))


def test_the_label_key_is_a_setting(standin, start):
    standin.pool()
    program = start("-s", "bob", env={
        "K8S_SANDBOX_SESSION_ID_LABEL_KEY": "own.example/key"})
    claim = create(program)
    assert standin.claim(claim)["metadata"]["labels"]["own.example/key"] == \
        "bob"
    assert Box(standin, program, claim).run("echo x")["exit_code"] == 0


def test_a_claim_without_any_label_belongs_to_nobody(standin, server):
    standin.call("POST", "/apis/extensions.agents.x-k8s.io/v1beta1/"
                 "namespaces/default/sandboxclaims", {
                     "metadata": {"name": "bare"},
                     "spec": {"warmPoolRef": {"name": "p"}}})
    assert "not found" in failure(Box(standin, server, "bare").result("id"))


def test_namespaces_and_pools_may_be_capped(standin, start):
    """users.md 88"""
    standin.namespace("team")
    standin.pool(namespace="team")
    standin.pool()
    program = start("--namespaces", "team,other", "--warm-pools", "py-pool")
    message = failure(try_create(program))
    assert "'default'" in message and "team,other" in message
    message = failure(try_create(program, "secret-pool", "team"))
    assert "secret-pool" in message and "py-pool" in message
    for tool in "get_sandbox_status", "delete_sandbox":
        message = failure(program.tool(tool, {
            "sandbox_claim_name": "x", "namespace": NS}))
        assert "team,other" in message
    failure(program.tool("list_sandboxes", {"namespace": NS}))
    assert program.ask("resources/read", {
        "uri": "sandboxes://default"})["error"]["code"] == -32602
    assert standin.requests() == []
    success(try_create(program, namespace="team"))


def test_tools_may_be_capped(start):
    """users.md 88"""
    program = start("--tools", "list_sandboxes,get_sandbox_status")
    assert [t["name"] for t in program.ask("tools/list")["result"]["tools"]
            ] == ["get_sandbox_status", "list_sandboxes"]
    assert program.ask("tools/call", {"name": "create_sandbox"})["error"][
        "code"] == -32602
    family = start(env={"MCP_SANDBOX_TOOLS": "agent-sandbox"})
    names = {t["name"] for t in family.ask("tools/list")["result"]["tools"]}
    assert {"create_sandbox", "execute_command"} <= names
    assert "bash" not in names
