# SPDX-License-Identifier: Apache-2.0
"""The stand-in itself, with other people's HTTP, WebSocket and gRPC clients:
a test that trusts it should be able to."""

import asyncio
import contextlib
import json
import os
import re
import signal
import ssl
import time

import aiohttp
import grpc
import pytest

from standin.client import (CLAIMS, PODS, POOLS, SANDBOXES, TESTS, Failure,
                            Standin, wait_for)

pytestmark = pytest.mark.anyio
NS = "default"
CLAIM = CLAIMS.format(ns=NS)
V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"


@contextlib.asynccontextmanager
async def api(standin, user="admin", port=None):
    tls = ssl.create_default_context(cafile=standin.ready["ca"])
    headers = {}
    if user == "certificate":
        tls.load_cert_chain(f"{standin.dir}/pki/client-ec.crt",
                            f"{standin.dir}/pki/client-ec.key")
    elif user:
        headers["Authorization"] = "Bearer " + standin.tokens.get(user, user)
    async with aiohttp.ClientSession(
            f"https://127.0.0.1:{port or standin.port}", headers=headers,
            connector=aiohttp.TCPConnector(ssl=tls)) as session:
        yield session


def claim_body(name="c1", pool="py-pool", **spec):
    return {"apiVersion": "extensions.agents.x-k8s.io/v1beta1",
            "kind": "SandboxClaim", "metadata": {"name": name},
            "spec": {"warmPoolRef": {"name": pool}, **spec}}


def ready(standin, name="c1"):
    """The claim once its Ready condition is True."""
    def look():
        claim = standin.claim(name)
        return claim and any(
            c["type"] == "Ready" and c["status"] == "True" for c in
            claim.get("status", {}).get("conditions", [])) and claim
    return wait_for(look, "Ready")


def reason(standin, want, name="c1"):
    def look():
        claim = standin.claim(name)
        return claim and any(c["reason"] == want for c in claim.get(
            "status", {}).get("conditions", [])) and claim
    return wait_for(look, want)


async def read_events(answer, count):
    return [json.loads(await asyncio.wait_for(answer.content.readline(), 5))
            for _ in range(count)]


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


# Streams

def websocket(session, pod, protocol, command, stdin=False, tty=False):
    params = [("stdin", str(stdin).lower()), ("stdout", "true"),
              ("stderr", str(not tty).lower()), ("tty", str(tty).lower())]
    params += [("command", c) for c in command]
    return session.ws_connect(f"{PODS.format(ns=NS)}/{pod}/exec",
                              params=params, protocols=[protocol],
                              max_msg_size=0)


def running_pod(standin, runtime="none", name="p1", **spec):
    standin.call("POST", PODS.format(ns=NS), {
        "metadata": {"name": name, "labels": {"test/runtime": runtime}},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec}})
    wait_for(lambda: any(
        c["type"] == "Ready" and c["status"] == "True" for c in standin.get(
            f"{PODS.format(ns=NS)}/{name}").get("status", {}).get(
                "conditions", [])), "a ready pod")


async def frames(ws):
    return [m.data async for m in ws]


@pytest.mark.parametrize("protocol", [V5, V4])
async def test_exec_frames_are_those_of_a_kubelet(standin, protocol):
    running_pod(standin)
    async with api(standin) as session:
        async with websocket(session, "p1", protocol, [
                "sh", "-c", "echo out; sleep 0.1; echo err >&2; exit 4"]
                ) as ws:
            assert ws.protocol == protocol
            got = await frames(ws)
            assert ws.close_code == 1000
    assert got[:3] == [b"\1", b"\1out\n", b"\2err\n"]
    status = json.loads(got[3][1:])
    assert got[3][0] == 3 and status["reason"] == "NonZeroExitCode"
    assert status["details"]["causes"] == [
        {"reason": "ExitCode", "message": "4"}]


async def test_exec_stdin_ends_with_the_close_signal(standin):
    running_pod(standin)
    data = os.urandom(300000)
    async with api(standin) as session:
        async with websocket(session, "p1", V5, ["cat"], stdin=True) as ws:
            await ws.send_bytes(b"\0" + data)
            await ws.send_bytes(b"\xff\0")
            got = await frames(ws)
    assert b"".join(m[1:] for m in got[:-1]) == data
    assert json.loads(got[-1][1:])["status"] == "Success"


@pytest.mark.parametrize("pod, params, code, text", [
    ("absent", "command=a&stdout=1", 404, 'pods "absent" not found'),
    ("p1", "command=a", 400, "you must specify at least 1 of"),
    ("p1", "stdout=1", 400, "at least one command"),
    ("p1", "command=a&stdout=1&container=z", 400, "container z is not valid"),
    ("p1", "command=a&stdout=1", 400, "Upgrade request required")])
async def test_exec_is_refused_with_a_status(standin, pod, params, code,
                                             text):
    running_pod(standin)
    async with api(standin) as session:
        async with session.get(
                f"{PODS.format(ns=NS)}/{pod}/exec?{params}") as answer:
            assert answer.status == code
            assert text in (await answer.json())["message"]


async def test_exec_of_a_missing_program_is_an_internal_error(standin):
    running_pod(standin)
    async with api(standin) as session:
        async with websocket(session, "p1", V5, ["absent-program"]) as ws:
            got = await frames(ws)
    status = json.loads(got[-1][1:])
    assert status["reason"] == "InternalError"
    assert "executable file not found" in status["message"]


async def test_portforward_carries_http_to_the_runtime(standin):
    running_pod(standin, "sandboxd")
    async with api(standin) as session:
        async with session.ws_connect(
                f"{PODS.format(ns=NS)}/p1/portforward?ports=8080",
                protocols=[V4]) as ws:
            assert [(await ws.receive()).data for _ in range(2)] == [
                b"\0\x90\x1f", b"\1\x90\x1f"]
            await ws.send_bytes(b"\0GET /v1/health HTTP/1.1\r\nHost: x\r\n"
                                b"Connection: close\r\n\r\n")
            body = b"".join(await frames(ws))
            assert b"200 OK" in body and b'"status": "ok"' in body


async def test_portforward_to_a_closed_port_says_so(standin):
    running_pod(standin)
    async with api(standin) as session:
        async with session.ws_connect(
                f"{PODS.format(ns=NS)}/p1/portforward?ports=8080",
                protocols=[V4]) as ws:
            got = await frames(ws)
    assert got[-1][0] == 1 and b"connection refused" in got[-1]


# Runtimes

async def rest(standin, method, path, **how):
    address = standin.pod("p1")["ip"]
    import yarl
    async with aiohttp.ClientSession() as session:
        async with session.request(method, yarl.URL(
                f"http://{address}:{how.pop('port', 8080)}{path}",
                encoded=True), allow_redirects=False, **how) as answer:
            return answer.status, await answer.read(), answer.headers


async def test_sandboxd_files(standin):
    running_pod(standin, "sandboxd")
    sure = [("PUT", "/v1/files/a%2Fb%20c.txt?mode=0600", b"hello", 204),
            ("PUT", "/v1/files/a?mode=0644", b"", 400),
            ("PUT", "/v1/files/x?mode=9", b"", 400),
            ("GET", "/v1/files/none", None, 404),
            ("GET", "/v1/files/%2E%2E", None, 403),
            ("GET", "/v1/files/.", None, 307),
            ("GET", "/v1/files/a%2Fb%20c.txt%2Fd", None, 500),
            ("HEAD", "/v1/files/a%2Fb%20c.txt", None, 200),
            ("DELETE", "/v1/files/a", None, 409)]
    for method, path, data, code in sure:
        assert (await rest(standin, method, path, data=data))[0] == code, path
    code, body, headers = await rest(
        standin, "GET", "/v1/files/a%2Fb%20c.txt",
        headers={"Range": "bytes=1-3"})
    assert (code, body) == (206, b"ell")
    assert headers["Content-Range"] == "bytes 1-3/5"
    listing = json.loads((await rest(standin, "GET", "/v1/files/a"))[1])
    assert listing["path"] == "/a"
    entry, = listing["entries"]
    assert (entry["name"], entry["size"], entry["type"], entry["mode"]) == (
        "b c.txt", 5, "file", "0600")
    assert (await rest(standin, "DELETE", "/v1/files/a?recursive=t"))[0] == \
        204


def rpc(standin):
    return grpc.aio.insecure_channel(f"{standin.pod('p1')['ip']}:9090")


def words(*argv):
    """StartRequest and ExecuteRequest of these words."""
    config = b"".join(b"\x0a" + bytes([len(a)]) + a.encode() for a in argv)
    return b"\x0a" + bytes([len(config)]) + config


async def test_sandboxd_execute(standin):
    running_pod(standin, "sandboxd")
    async with rpc(standin) as channel:
        call = channel.unary_unary("/process.v1.ProcessService/Execute")
        assert await call(words("sh", "-c", "echo a; echo b >&2; exit 3")) \
            == b"\x08\x03\x12\x02a\n\x1a\x02b\n"
        assert await call(words("sh", "-c", "kill -9 $$")) == \
            b"\x08" + b"\xff" * 9 + b"\x01"
        for request, code in ((b"", "INVALID_ARGUMENT"),
                              (words("absent-program"), "NOT_FOUND"),
                              (words("/etc/passwd"), "PERMISSION_DENIED")):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await call(request)
            assert error.value.code().name == code


async def test_sandboxd_start_streams_and_takes_stdin_and_signals(standin):
    running_pod(standin, "sandboxd")
    service = "/process.v1.ProcessService/"
    async with rpc(standin) as channel:
        start = channel.unary_stream(service + "Start")
        write = channel.unary_unary(service + "WriteStdin")
        call = start(words("cat"))
        assert await call.read() == b"\x0a\x02\x08\x01"
        assert await write(b"\x08\x01\x12\x02hi") == b""
        assert await call.read() == b"\x12\x02hi"
        assert await write(b"\x08\x01\x1a\x00") == b""
        assert await call.read() == b"\x22\x00"
        assert await call.read() is grpc.aio.EOF
        call = start(words("sh", "-c", "sleep 600 & sleep 600"))
        await call.read()
        kill = channel.unary_unary(service + "SendSignal")
        with pytest.raises(grpc.aio.AioRpcError):
            await kill(b"\x08\x02")
        assert await kill(b"\x08\x02\x10\x0f") == b""
        assert await call.read() == b"\x22\x0b\x08" + b"\xff" * 9 + b"\x01"
    wait_for(lambda: not standin.processes(), "an empty pod")


async def test_legacy_runtime_has_no_shell_and_loses_bytes(standin):
    running_pod(standin, "legacy")

    async def run(command):
        code, body, _ = await rest(standin, "POST", "/execute", port=8888,
                                   json={"command": command})
        assert code == 200
        return json.loads(body)

    assert await run("echo 'a  b' | $HOME") == {
        "stdout": "a  b | $HOME\n", "stderr": "", "exit_code": 0}
    assert (await run("sh -c 'kill -9 $$'"))["exit_code"] == -9
    assert "codec can't decode" in (await run("printf '\\377'"))["stderr"]
    assert "No such file or directory" in (await run("absent"))["stderr"]
    assert "list index out of range" in (await run(""))["stderr"]
    form = aiohttp.FormData(quote_fields=False)
    form.add_field("file", b"x", filename="d/a%20b")
    assert (await rest(standin, "POST", "/upload", port=8888,
                       data=form))[0] == 200
    assert (await rest(standin, "GET", "/download/d%2Fa%252520b",
                       port=8888))[:2] == (200, b"x")
    assert (await rest(standin, "GET", "/download/d%2Fa%2520b",
                       port=8888))[0] == 404
    code, body, _ = await rest(standin, "GET", "/list/d", port=8888)
    assert [e["name"] for e in json.loads(body)] == ["a%20b"]
    assert (await rest(standin, "GET", "/exists/..%2F..%2Fetc",
                       port=8888))[0] == 403


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


# Faults

async def test_a_lost_reply_leaves_the_object(standin):
    standin.fault("drop-after", "sandboxclaims", method="POST")
    async with api(standin) as session:
        with pytest.raises(aiohttp.ClientError):
            await session.post(CLAIM, json=claim_body())
    assert standin.claim("c1")
    assert len(standin.requests("POST", "sandboxclaims")) == 1


async def test_a_dropped_request_leaves_nothing(standin):
    standin.fault("drop", "sandboxclaims", method="POST")
    async with api(standin) as session:
        with pytest.raises(aiohttp.ClientError):
            await session.post(CLAIM, json=claim_body())
        assert standin.claim("c1") is None
        async with session.post(CLAIM, json=claim_body()) as answer:
            assert answer.status == 201


async def test_status_faults_count_down(standin):
    rule = standin.fault("status", "sandboxclaims", code=429, retry_after=1,
                         count=2, skip=1)
    async with api(standin) as session:
        seen = []
        for _ in range(4):
            async with session.get(CLAIM) as answer:
                seen.append((answer.status,
                             answer.headers.get("Retry-After")))
    assert seen == [(200, None), (429, "1"), (429, "1"), (200, None)]
    assert standin.taken(rule) == 2


async def test_hold_waits_for_release(standin):
    standin.fault("hold", "sandboxclaims")
    async with api(standin) as session:
        task = asyncio.ensure_future(session.get(CLAIM))
        await asyncio.sleep(0.2)
        assert not task.done()
        standin.release()
        async with await asyncio.wait_for(task, 5) as answer:
            assert answer.status == 200


async def test_watch_faults_cut_a_line_and_send_410(standin):
    standin.call("POST", CLAIM, claim_body())
    standin.call("POST", CLAIM, claim_body("c2"))
    standin.fault("watch-cut", "watch=1", after=1)
    standin.fault("watch-410", "watch=1", after=1)
    async with api(standin) as session:
        async with session.get(CLAIM + "?watch=1") as answer:
            first, = await read_events(answer, 1)
            with pytest.raises((aiohttp.ClientError, ValueError)):
                await read_events(answer, 1)
        async with session.get(CLAIM + "?watch=1") as answer:
            events = await read_events(answer, 2)
    assert first["type"] == "ADDED"
    assert [e["type"] for e in events] == ["ADDED", "ERROR"]


@pytest.mark.parametrize("kind", ["accept", "reserved", "opcode",
                                  "fragmented-control", "no-upgrade"])
async def test_websocket_faults_break_a_careful_client(standin, kind):
    running_pod(standin)
    standin.fault("ws-bad", "/exec", kind=kind, after=1)
    async with api(standin) as session:
        try:
            async with websocket(session, "p1", V5, ["echo", "x"]) as ws:
                got = [m async for m in ws]
                assert ws.close_code != 1000, got
        except aiohttp.ClientError:
            pass


@pytest.mark.parametrize("action", ["ws-cut", "ws-no-status"])
async def test_exec_can_end_without_a_status(standin, action):
    running_pod(standin)
    standin.fault(action, "/exec")
    async with api(standin) as session:
        async with websocket(session, "p1", V5, ["echo", "x"]) as ws:
            got = await frames(ws)
    assert got == [b"\1", b"\1x\n"]


async def test_runtime_faults(standin):
    running_pod(standin, "sandboxd")
    standin.fault("status", "/v1/files", where="runtime", code=503)
    standin.fault("status", "Execute", where="runtime", code="UNAVAILABLE")
    assert (await rest(standin, "GET", "/v1/files/"))[0] == 503
    assert (await rest(standin, "GET", "/v1/files/"))[0] == 200
    async with rpc(standin) as channel:
        call = channel.unary_unary("/process.v1.ProcessService/Execute")
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await call(words("true"))
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE
        assert await call(words("true")) == b""
    assert len(standin.requests(where="runtime")) == 4


# Its own end

@pytest.mark.parametrize("how", ["input", "term"])
async def test_it_ends_and_leaves_no_process(how):
    with Standin() as standin:
        running_pod(standin)
        async with api(standin) as session:
            async with websocket(session, "p1", V5, ["sleep", "600"]):
                pids = wait_for(lambda: [p["pid"] for p in
                                         standin.processes()], "a process")
                if how == "input":
                    standin.process.stdin.close()
                else:
                    standin.process.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(standin.process.wait, 10) == 0
    wait_for(lambda: not any(os.path.exists(f"/proc/{p}/cwd") for p in pids),
             "no process")
