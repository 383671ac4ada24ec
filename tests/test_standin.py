# SPDX-License-Identifier: Apache-2.0
"""The stand-in itself, with other people's HTTP client: a test that trusts it
should be able to. Objects, watches, controllers."""

import json
import os
import re
import time

import aiohttp
import pytest

from peer import (CLAIM, NS, V5, api, claim_body, read_events, ready,
                  websocket)
from standin.client import CLAIMS, PODS, POOLS, TESTS, Failure, wait_for

pytestmark = pytest.mark.anyio


def reason(standin, want, name="c1"):
    def look():
        claim = standin.claim(name)
        return claim and any(c["reason"] == want for c in claim.get(
            "status", {}).get("conditions", [])) and claim
    return wait_for(look, want)


# Who may come in

@pytest.mark.parametrize("user, code", [
    ("admin", 200), ("certificate", 200), ("limited", 200), ("nobody", 403),
    (None, 403), ("wrong", 401)])
async def test_users_have_their_rights(standin, user, code):
    async with api(standin, user) as session:
        async with session.get(CLAIM) as answer:
            body = await answer.json()
    assert answer.status == code
    if code != 200:
        assert body["kind"] == "Status" and body["code"] == code


@pytest.mark.parametrize("certificate, text", [
    ("expired", "expired"), ("wrong-name", "doesn't match|mismatch|not valid"),
    ("wrong-ca", "issuer|self.signed|unable to get")])
async def test_bad_server_certificates_are_bad(standin, certificate, text):
    standin.listen(certificate)
    port = standin.call("POST", "/admin/listen",
                        {"certificate": certificate})["port"]
    async with api(standin, port=port) as session:
        with pytest.raises(aiohttp.ClientConnectorCertificateError) as error:
            await session.get("/version")
    assert re.search(text, str(error.value))


@pytest.mark.parametrize("certificate", ["rsa", "tls12"])
async def test_good_server_certificates_are_good(standin, certificate):
    port = standin.call("POST", "/admin/listen",
                        {"certificate": certificate})["port"]
    async with api(standin, port=port) as session:
        async with session.get("/version") as answer:
            assert answer.status == 200


# Objects

@pytest.mark.parametrize("body, code, why", [
    ({"name": "Bad_Name"}, 422, "Invalid"),
    ({"name": "x", "labels": {"a b": "c"}}, 422, "Invalid"),
    ({"name": "x", "labels": {"a": "-"}}, 422, "Invalid"),
    ({"name": "x", "labels": {"a": 1}}, 400, "BadRequest"),
    ({"name": "x", "namespace": "other"}, 400, "BadRequest"),
    ({"name": "taken"}, 409, "AlreadyExists"),
    ({}, 422, "Invalid")])
async def test_bad_creates_are_refused(standin, body, code, why):
    standin.call("POST", CLAIM, claim_body("taken"))
    async with api(standin) as session:
        async with session.post(CLAIM, json={
                **claim_body(), "metadata": body}) as answer:
            status = await answer.json()
    assert (answer.status, status["code"], status["reason"]) == (
        code, code, why)
    if code == 422:
        assert status["details"]["causes"][0]["field"].startswith("metadata")


async def test_unknown_places_are_told_apart(standin):
    async with api(standin) as session:
        async with session.get("/apis/none.example/v1/things") as answer:
            assert answer.status == 404
            assert await answer.text() == "404 page not found\n"
        async with session.post(CLAIMS.format(ns="absent"),
                                json=claim_body()) as answer:
            assert answer.status == 404
            assert (await answer.json())["message"] == \
                'namespaces "absent" not found'
        async with session.get(CLAIM + "/absent") as answer:
            assert (await answer.json())["message"] == (
                'sandboxclaims.extensions.agents.x-k8s.io "absent" not found')


async def test_delete_obeys_preconditions_and_answers_a_status(standin):
    uid = standin.call("POST", CLAIM, claim_body())["metadata"]["uid"]
    with pytest.raises(Failure) as failure:
        standin.call("DELETE", CLAIM + "/c1",
                     {"preconditions": {"uid": "other"}})
    assert failure.value.code == 409
    status = standin.call("DELETE", CLAIM + "/c1",
                          {"preconditions": {"uid": uid}})
    assert status["details"] == {
        "name": "c1", "group": "extensions.agents.x-k8s.io",
        "kind": "sandboxclaims", "uid": uid}


async def test_lists_select_page_and_show_metadata_only(standin):
    for n in range(5):
        standin.call("POST", CLAIM, {**claim_body(), "metadata": {
            "name": f"c{n}", "labels": {"odd": str(n % 2)}}})
    async with api(standin) as session:
        async with session.get(CLAIM, params={
                "labelSelector": "odd=1"}, headers={
                "Accept": "application/json;as=PartialObjectMetadataList;"
                "g=meta.k8s.io;v=v1"}) as answer:
            body = await answer.json()
        assert body["kind"] == "PartialObjectMetadataList"
        assert [o["metadata"]["name"] for o in body["items"]] == ["c1", "c3"]
        assert "spec" not in body["items"][0]
        seen, more = [], ""
        while True:
            async with session.get(CLAIM, params={
                    "limit": "2", "continue": more}) as answer:
                body = await answer.json()
            seen += [o["metadata"]["name"] for o in body["items"]]
            more = body["metadata"].get("continue")
            if not more:
                break
        assert seen == ["c0", "c1", "c2", "c3", "c4"]
        async with session.get(CLAIM, params={
                "labelSelector": "a==b=c"}) as answer:
            assert answer.status == 400


async def test_quota_is_kept(standin):
    standin.call("POST", f"/api/v1/namespaces/{NS}/resourcequotas", {
        "metadata": {"name": "q"}, "spec": {"hard": {
            "count/sandboxclaims.extensions.agents.x-k8s.io": "1"}}})
    standin.call("POST", CLAIM, claim_body())
    with pytest.raises(Failure) as failure:
        standin.call("POST", CLAIM, claim_body("c2"))
    assert failure.value.code == 403
    assert b"exceeded quota: q" in failure.value.body


# Watches

async def test_a_cold_claim_is_five_changes_on_the_watch(standin):
    standin.pool(replicas=0)
    async with api(standin) as session:
        async with session.post(CLAIM, json=claim_body()) as answer:
            made = await answer.json()
        async with session.get(CLAIM, params={
                "watch": "True", "fieldSelector": "metadata.name=c1",
                "timeoutSeconds": "2", "resourceVersion":
                made["metadata"]["resourceVersion"]}) as answer:
            events = [json.loads(line) async for line in answer.content]
    assert {e["type"] for e in events} == {"MODIFIED"}
    last = events[-1]["object"]
    assert last["status"]["conditions"][0]["status"] == "True"
    first_named = next(e["object"] for e in events
                       if e["object"].get("status", {}).get("sandbox"))
    assert first_named["status"]["conditions"][0]["status"] == "False"
    versions = [int(e["object"]["metadata"]["resourceVersion"])
                for e in events]
    assert versions == sorted(set(versions)) and len(versions) >= 5


async def test_a_watch_from_zero_begins_with_what_is_there(standin):
    standin.call("POST", CLAIM, claim_body())
    standin.config(bookmark_ms=50)
    async with api(standin) as session:
        async with session.get(CLAIM, params={
                "watch": "1", "resourceVersion": "0",
                "allowWatchBookmarks": "true"}) as answer:
            first, = await read_events(answer, 1)
            assert first["type"] == "ADDED"
            while first["type"] != "BOOKMARK":
                first, = await read_events(answer, 1)
    standin.config(bookmark_ms=1000)
    assert first["object"]["metadata"]["resourceVersion"].isdigit()


async def test_a_compacted_version_is_an_error_event(standin):
    version = standin.call("POST", CLAIM, claim_body())[
        "metadata"]["resourceVersion"]
    standin.call("POST", CLAIM, claim_body("c2"))
    standin.compact()
    async with api(standin) as session:
        async with session.get(CLAIM, params={
                "watch": "1", "resourceVersion": version}) as answer:
            assert answer.status == 200
            event, = await read_events(answer, 1)
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (
        410, "Expired")


# The controller

def shape(value):
    """Names and types without what differs from run to run."""
    if isinstance(value, dict):
        return {k: shape(v) for k, v in value.items()}
    if isinstance(value, list):
        return [shape(v) for v in value]
    if isinstance(value, str):
        value = re.sub(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", "UID",
                       value)
        value = re.sub(r"^\d{4}-\d\d-\d\dT[\d:]+(\.\d+)?(Z|\+00:00)$", "TIME",
                       value)
        value = re.sub(r"^127\.[\d.]+$", "ADDRESS", value)
        value = re.sub(r"^\d+$", "NUMBER", value)
        value = re.sub(r"(hash=).*", r"\1HASH", value)
        value = re.sub(r"^(py-pool-)[a-z0-9]{5}$", r"\1RANDOM", value)
    return value


def recorded(name):
    with open(f"{TESTS}/vectors/agent-sandbox-objects/{name}.json",
              encoding="utf-8") as f:
        return json.load(f)


def play(standin, real):
    """Makes the same claim here as the recorded one was."""
    spec = real["spec"]
    pool = spec["warmPoolRef"]["name"]
    containers = recorded("real-sandbox-warm")["spec"]["podTemplate"][
        "spec"]["containers"]
    standin.template("py-template", "legacy", containers=containers)
    standin.call("POST", POOLS.format(ns=NS), {
        "metadata": {"name": pool}, "spec": {
            "replicas": int(pool == "py-pool"),
            "sandboxTemplateRef": {"name": "py-template"}}})
    wait_for(lambda: pool == "cold-pool" or any(
        s.get("status", {}).get("podIPs")
        for s in standin.objects("Sandbox")), "a warm Sandbox")
    meta = real["metadata"]
    first = "agents.x-k8s.io/client-first-requested-at"
    spec["lifecycle"]["shutdownTime"] = "2036-11-30T16:35:33Z"
    standin.call("POST", CLAIM, {**claim_body(), "metadata": {
        "name": meta["name"], "labels": meta["labels"],
        "annotations": {first: meta["annotations"][first]}}, "spec": spec})
    ready(standin, meta["name"])
    return wait_for(lambda: (lambda c: c if
                    "agents.x-k8s.io/claim-first-ready-at"
                    in c["metadata"]["annotations"] else None)(
                        standin.claim(meta["name"])), "all annotations")


def without_ours(obj):
    """Drops what the stand-in needs to know and the real one does not."""
    obj = json.loads(json.dumps(obj))
    meta = obj.get("spec", {}).get("podTemplate", {}).get("metadata", {})
    meta.get("annotations", {}).pop("test/runtime", None)
    if not meta.get("annotations"):
        meta.pop("annotations", None)
    obj.get("status", {}).pop("nodeName", None)
    return shape(obj)


@pytest.mark.parametrize("kind", ["warm", "cold"])
async def test_claims_look_as_the_real_controller_leaves_them(standin, kind):
    real = recorded("real-claim-" + kind)
    assert shape(play(standin, real)) == shape(real)


async def test_a_warm_sandbox_looks_as_the_real_one(standin):
    claim = play(standin, recorded("real-claim-warm"))
    sandbox = standin.sandbox(claim["status"]["sandbox"]["name"])
    assert without_ours(sandbox) == shape(recorded("real-sandbox-warm"))


async def test_suspended_objects_look_as_the_real_ones(standin):
    claim = play(standin, recorded("real-claim-cold"))
    name = claim["metadata"]["name"]
    address = claim["status"]["sandbox"]["podIPs"]
    standin.patch_sandbox(name, {"spec": {"operatingMode": "Suspended"}})

    def suspended():
        c = standin.claim(name)["status"]["conditions"][0]
        return c["message"] == "Sandbox is suspended"
    wait_for(suspended, "SandboxSuspended")
    assert shape(standin.claim(name)) == shape(
        recorded("real-claim-suspended"))
    assert without_ours(standin.sandbox(name)) == shape(
        recorded("real-sandbox-suspended"))
    standin.patch_sandbox(name, {"spec": {"operatingMode": "Running"}})
    assert ready(standin, name)["status"]["sandbox"]["podIPs"] != address


async def test_missing_pool_and_template_are_named_and_come_right(standin):
    standin.call("POST", CLAIM, claim_body())
    reason(standin, "WarmPoolNotFound")
    standin.call("POST", POOLS.format(ns=NS), {
        "metadata": {"name": "py-pool"}, "spec": {
            "sandboxTemplateRef": {"name": "t"}}})
    reason(standin, "TemplateNotFound")
    standin.template("t", "none")
    ready(standin)


@pytest.mark.parametrize("extra, want", [
    ({"labels": {"team": "x"}}, "InvalidMetadata"),
    ({"annotations": {"a.k8s.io/x": "y"}}, "InvalidMetadata"),
    ({"annotations": {"test/runtime": "other"}}, "ReconcilerError")])
async def test_pod_metadata_has_rules(standin, extra, want):
    standin.pool(replicas=0)
    standin.call("POST", CLAIM, claim_body(additionalPodMetadata=extra))
    reason(standin, want)


@pytest.mark.parametrize("policy", ["Delete", "DeleteForeground", "Retain"])
async def test_expiry_follows_the_policy(standin, policy):
    standin.pool(replicas=0, runtime="none")
    end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2))
    standin.call("POST", CLAIM, claim_body(
        lifecycle={"shutdownTime": end, "shutdownPolicy": policy}))
    ready(standin)
    wait_for(lambda: not standin.objects("Sandbox")
             and not standin.objects("Pod"), "the end")
    claim = standin.claim("c1")
    if policy == "Retain":
        assert claim["status"]["sandbox"] == {}
        assert claim["status"]["conditions"][0]["reason"] == "ClaimExpired"
    else:
        assert claim is None


async def test_deleting_a_claim_takes_its_processes_along(standin):
    standin.pool(runtime="none")
    standin.call("POST", CLAIM, claim_body())
    pod = ready(standin)["status"]["sandbox"]["name"]
    async with api(standin) as session:
        async with websocket(session, pod, V5, [
                "sh", "-c", "setsid sleep 600 & exec sleep 601"]):
            wait_for(lambda: len(standin.processes()) >= 2, "processes")
    pids = [p["pid"] for p in standin.processes()]
    assert len(pids) >= 2, "a closed WebSocket must not end a process"
    standin.call("DELETE", CLAIM + "/c1")
    wait_for(lambda: not any(os.path.exists(f"/proc/{p}/cwd")
                             for p in pids), "the end of processes")


# Jobs

@pytest.mark.parametrize("command, kind, why", [
    ("echo hi", "Complete", "CompletionsReached"),
    ("exit 3", "Failed", "BackoffLimitExceeded"),
    ("sleep 60", "Failed", "DeadlineExceeded")])
async def test_jobs_run_to_an_end(standin, command, kind, why):
    jobs = f"/apis/batch/v1/namespaces/{NS}/jobs"
    standin.call("POST", jobs, {
        "metadata": {"name": "j"}, "spec": {
            "backoffLimit": 0, "activeDeadlineSeconds": 1,
            "template": {"spec": {"restartPolicy": "Never", "containers": [
                {"name": "main", "image": "i",
                 "command": ["sh", "-c", command]}]}}}})
    job = wait_for(lambda: (lambda j: j if j["status"].get("conditions")
                            else None)(standin.get(jobs + "/j")), kind)
    assert (job["status"]["conditions"][0]["type"],
            job["status"]["conditions"][0]["reason"]) == (kind, why)
    if kind == "Complete":
        pod = standin.objects("Pod")[0]["metadata"]["name"]
        async with api(standin) as session:
            async with session.get(
                    f"{PODS.format(ns=NS)}/{pod}/log") as answer:
                assert await answer.text() == "hi\n"
    standin.call("DELETE", jobs + "/j", {"propagationPolicy": "Background"})
    wait_for(lambda: not standin.objects("Pod"), "the end of pods")
