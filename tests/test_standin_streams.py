# SPDX-License-Identifier: Apache-2.0
"""The stand-in's streams, runtimes and faults, with other people's HTTP,
WebSocket and gRPC clients."""

import asyncio
import json
import os
import signal

import aiohttp
import grpc
import pytest
import yarl

from peer import (CLAIM, NS, V4, V5, api, claim_body, frames, read_events,
                  running_pod, websocket)
from standin.client import PODS, Standin, wait_for

pytestmark = pytest.mark.anyio


# Streams

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


# Faults

async def test_a_lost_reply_leaves_the_object(standin):
    standin.fault("drop-after", "sandboxclaims", method="POST")
    async with api(standin) as session:
        with pytest.raises(aiohttp.ClientError):
            await session.post(CLAIM, json=claim_body())
    assert standin.claim("c1")
    assert len(standin.requests("POST", "sandboxclaims")) == 1


async def test_a_server_can_do_it_and_say_that_it_timed_out(standin):
    standin.fault("status-after", "sandboxclaims", method="POST", code=504)
    async with api(standin) as session:
        async with session.post(CLAIM, json=claim_body()) as answer:
            assert (answer.status, (await answer.json())["reason"]) == (
                504, "Timeout")
    assert standin.claim("c1")


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


async def test_a_server_can_be_too_old_for_v5(standin):
    running_pod(standin)
    standin.config(exec_protocols=[V4])
    async with api(standin) as session:
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await websocket(session, "p1", V5, ["true"])
        async with session.ws_connect(
                f"{PODS.format(ns=NS)}/p1/exec?command=true&stdout=1",
                protocols=[V5, V4]) as ws:
            assert ws.protocol == V4


async def test_a_kept_connection_can_go_stale(standin):
    standin.fault("close", "sandboxclaims")
    before = standin.connections()["accepted"]
    async with api(standin) as session:
        for _ in range(3):
            async with session.get(CLAIM) as answer:
                assert await answer.json()
            await asyncio.sleep(0.1)
    assert standin.connections()["accepted"] - before == 2


@pytest.mark.parametrize("action, rule", [
    ("cut-body", {}), ("raw", {"data": "HTTP/1.1 200 OK\r\nContent-Le"}),
    ("garbage", {}), ("raw", {"data": ""})])
async def test_broken_replies_break_a_client(standin, action, rule):
    standin.fault(action, "sandboxclaims", count=-1, **rule)
    async with api(standin) as session:
        with pytest.raises((aiohttp.ClientError, ValueError)):
            async with session.get(CLAIM) as answer:
                json.loads(await answer.read())
        standin.clear_faults()
        async with session.get(CLAIM) as answer:
            assert answer.status == 200


async def test_slow_bytes_are_the_same_bytes(standin):
    standin.fault("slow", "namespaces", bytes=7, ms=1)
    async with api(standin) as session:
        bodies = []
        for _ in range(2):
            async with session.get("/api/v1/namespaces") as answer:
                bodies.append(await answer.read())
    assert bodies[0] == bodies[1]


async def test_a_withdrawn_token_is_refused(standin):
    standin.config(tokens={"new": "admin"})
    async with api(standin, "new") as session:
        async with session.get(CLAIM) as answer:
            assert answer.status == 200
        standin.config(tokens={"new": None})
        async with session.get(CLAIM) as answer:
            assert answer.status == 401
