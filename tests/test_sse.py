# SPDX-License-Identifier: Apache-2.0
"""The transport of MCP 2024-11-05: a stream, and posts of other connections."""

import json
import re
import socket
import subprocess
import time

import pytest

from blackbox import NS, WATCH, claims, no_claims, seen
from program import BINARY, clean_environment
from standin.client import wait_for
from test_http import PING, get, serve  # noqa: F401 (a fixture)
from web import Connection, Server, call, message, post

SSE = {"MCP_K8S_TRANSPORT": "sse"}


class Stream:
    """The connection that events come on."""

    def __init__(self, server, path="/", **fields):
        self.server = server
        self.connection = server.connect()
        self.connection.send(get(path, Accept="text/event-stream", **fields))
        self.status, self.fields = self.connection.head()
        self.text = b""
        if self.status == 200:
            assert self.fields["content-type"] == "text/event-stream"
            event, self.endpoint = self.event()
            assert event == "endpoint"

    def block(self):
        while b"\n\n" not in self.text:
            data = self.connection.chunk()
            if not data:
                return None
            self.text += data
        block, _, self.text = self.text.partition(b"\n\n")
        return block.decode()

    def event(self):
        """(type, data); None at the end of the stream."""
        end = time.monotonic() + 30
        while (block := self.block()) is not None:
            assert time.monotonic() < end
            found = dict(line.split(": ", 1) for line in block.split("\n")
                         if not line.startswith(":"))
            if found:
                return found["event"], found["data"]
        return None

    def message(self):
        event, data = self.event()
        assert event == "message"
        return json.loads(data)

    def post(self, body, **fields):
        return self.server.ask(post(body, self.endpoint, **fields)).status

    def ask(self, method, params=None, id=1):
        assert self.post(message(method, params, id)) == 202
        while "id" not in (answer := self.message()):
            pass
        assert answer["id"] == id
        return answer

    def tool(self, name, arguments, id=1):
        return self.ask("tools/call", {"name": name, "arguments": arguments},
                        id)["result"]

    def close(self):
        self.connection.close()


INITIALIZE = {"protocolVersion": "2024-11-05", "capabilities": {},
              "clientInfo": {"name": "t", "version": "1"}}


@pytest.fixture
def server(serve):  # noqa: F811
    return serve(**SSE)


@pytest.mark.parametrize("path", ["/", "/sse", "/mcp", "/any/where?x=1"])
def test_answers_come_on_the_stream(server, path):
    stream = Stream(server, path)
    assert re.fullmatch(re.escape(path.partition("?")[0])
                        + r"\?sessionid=[0-9a-f]{32}", stream.endpoint)
    result = stream.ask("initialize", INITIALIZE)["result"]
    assert result["protocolVersion"] == "2024-11-05"
    assert stream.post({"jsonrpc": "2.0",
                        "method": "notifications/initialized"}) == 202
    # Many at once, on connections of their own.
    for id in range(20):
        assert stream.post(message("ping", id=id)) == 202
    assert sorted(stream.message()["id"] for _ in range(20)) == list(
        range(20))


def test_a_session_with_a_sandbox(server, standin):
    standin.pool("py-pool")
    stream = Stream(server)
    stream.ask("initialize", INITIALIZE)
    made = stream.tool("create_sandbox",
                       {"warmpool": "py-pool", "namespace": NS})
    handle = {"sandbox_claim_name":
              made["structuredContent"]["sandbox_claim_name"],
              "namespace": NS}
    done = stream.tool("execute_command", {**handle, "command": "echo hi"})
    assert done["structuredContent"]["stdout"] == "hi\n"
    # A body as large as one may be goes from process to process.
    big = "x" * 3000000
    done = stream.tool("upload_file", {**handle, "path": "big.txt",
                                       "content": big})
    assert done["isError"] is False, done
    assert "caller=127.0.0.1 tool=execute_command" in server.log


def test_what_is_no_session(server):
    stream = Stream(server)
    other = "/?sessionid=" + "0" * 32
    for path, status in ((other, 404), ("/?sessionid=", 404),
                         ("/?sessionid=../../x", 404), ("/", 400),
                         ("/?x=1", 400), (stream.endpoint + "0", 404),
                         (stream.endpoint.replace("/", "/x"), 202)):
        assert server.ask(post(PING, path)).status == status, path
    assert server.ask(post(PING, stream.endpoint, Content_Type="text/plain")
                      ).status == 415
    assert server.ask(get("/", "PUT")).status == 405
    assert server.ask(get("/", Accept="application/json")).status == 406
    assert server.get("/healthz").status == 200
    # A client of today may post to the same server.
    assert server.ask(call("tools/list")).status == 200


def test_what_is_no_json_is_answered_on_the_stream(server):
    stream = Stream(server)
    assert stream.post(b"{") == 202
    assert stream.message()["error"]["code"] == -32700
    assert stream.ask("ping")["result"] == {}


def test_names_can_not_be_guessed(server):
    names = {Stream(server).endpoint[-32:] for _ in range(10)}
    assert len(names) == 10


def test_the_end_of_the_stream_is_the_end(server, standin):
    standin.pool("slow", replicas=0, runtime="none",
                 notes={"test/ready-ms": "-1"})
    stream = Stream(server)
    stream.ask("initialize", INITIALIZE)
    assert stream.post(message("tools/call", {
        "name": "create_sandbox",
        "arguments": {"warmpool": "slow", "namespace": NS}})) == 202
    seen(standin, WATCH)
    stream.close()
    no_claims(standin)
    wait_for(lambda: "verdict=cancelled" in server.log, "its end")
    wait_for(lambda: server.ask(post(PING, stream.endpoint)).status == 404,
             "the end of its name")
    wait_for(lambda: server.metric("connections") == 1, "their ends")


def test_a_call_can_be_cancelled(server, standin):
    standin.pool("slow", replicas=0, runtime="none",
                 notes={"test/ready-ms": "-1"})
    stream = Stream(server)
    assert stream.post(message("tools/call", {
        "name": "create_sandbox",
        "arguments": {"warmpool": "slow", "namespace": NS}}, id="c")) == 202
    seen(standin, WATCH)
    assert stream.post({"jsonrpc": "2.0", "method": "notifications/cancelled",
                        "params": {"requestId": "c"}}) == 202
    no_claims(standin)
    assert stream.ask("ping", id=2)["result"] == {}


def test_only_its_caller_may_post(serve, tmp_path):  # noqa: F811
    path = tmp_path / "tokens"
    path.write_text("alice token-of-alice-0123\nbob token-of-bob-012345\n")
    server = serve(f"--auth-tokens={path}", **SSE)
    alice = {"Authorization": "Bearer token-of-alice-0123"}
    bob = {"Authorization": "Bearer token-of-bob-012345"}
    assert Stream(server).status == 401
    stream = Stream(server, **alice)
    assert stream.post(PING) == 401
    assert stream.post(PING, **bob) == 404
    assert stream.post(PING, **alice) == 202
    assert stream.message()["result"] == {}


def test_the_shared_secret_of_the_original(serve):  # noqa: F811
    server = serve(MCP_K8S_AUTH_TOKEN="s3cret", **SSE)
    assert Stream(server).status == 401
    stream = Stream(server, X_MCP_AUTH="s3cret")
    assert stream.post(PING) == 401
    assert stream.post(PING, X_MCP_AUTH="s3cret") == 202


def test_a_signal_ends_the_stream(server, standin):
    standin.pool("py-pool")
    hold = standin.fault("hold", **WATCH)
    idle, busy = Stream(server), Stream(server)
    assert busy.post(message("tools/call", {
        "name": "create_sandbox",
        "arguments": {"warmpool": "py-pool", "namespace": NS}})) == 202
    wait_for(lambda: standin.taken(hold), "the watch")
    server.terminate()
    assert idle.event() is None
    standin.release(hold)
    assert busy.message()["result"]["isError"] is False
    assert busy.event() is None
    assert server.process.wait(30) == 0
    assert len(claims(standin)) == 1


def test_posts_that_stop_in_the_middle(server):
    stream = Stream(server)
    for _ in range(50):
        connection = server.connect()
        connection.send(post(PING, stream.endpoint)[:-4])
        connection.reset()
    for _ in range(50):
        connection = server.connect()
        connection.send(post(PING, stream.endpoint))
        connection.reset()
    assert stream.ask("ping", id="last")["id"] == "last"


def test_a_client_that_does_not_read(server):
    """It is told so, and costs no more memory than its answers."""
    stream = Stream(server)
    stream.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF,
                                        4096)
    status, end = 202, time.monotonic() + 60
    connection = server.connect()
    body = post([message("tools/list", id=i) for i in range(100)],
                stream.endpoint)
    # It is of no revision with batches until it has said so.
    stream.ask("initialize", {**INITIALIZE, "protocolVersion": "2025-03-26"})
    while status == 202 and time.monotonic() < end:
        status = connection.ask(body).status
    assert status == 503


def test_streams_are_counted(serve):  # noqa: F811
    def take():
        stream = Stream(server)
        return stream if stream.status == 200 else None

    server = serve("--max-connections=3", **SSE)
    streams = [wait_for(take, "a free place") for _ in range(3)]
    assert server.connect().answer().status == 503
    streams.pop().close()
    wait_for(lambda: streams[0].post(PING) == 202, "a free place")


@pytest.mark.parametrize("how", [
    (["--transport=sse"], {}),
    ([], {"MCP_K8S_TRANSPORT": "sse"})])
def test_the_originals_settings_start_it(standin, how):
    args, more = how
    server = Server("serve", kubeconfig=standin.kubeconfig)
    server.close()
    server.process = subprocess.Popen(
        [BINARY, *args], stderr=subprocess.PIPE,
        env={**clean_environment(KUBECONFIG=standin.kubeconfig), **more,
             "MCP_K8S_ADDR": f"127.0.0.1:{server.port}"},
        start_new_session=True)
    try:
        server.wait_until_up()
        assert Stream(server).ask("ping")["result"] == {}
    finally:
        assert server.close() == 0


@pytest.mark.anyio
async def test_the_real_client(serve, standin):  # noqa: F811
    from mcp import ClientSession
    from mcp.client.sse import sse_client

    standin.pool("py-pool")
    server = serve(**SSE)
    async with sse_client(f"http://127.0.0.1:{server.port}/sse") as (r, w):
        async with ClientSession(r, w) as session:
            await session.initialize()
            tools = await session.list_tools()
            assert "execute_command" in [t.name for t in tools.tools]
            made = await session.call_tool(
                "create_sandbox", {"warmpool": "py-pool", "namespace": NS})
            assert not made.is_error
            handle = {"namespace": NS, "sandbox_claim_name":
                      made.structured_content["sandbox_claim_name"]}
            done = await session.call_tool(
                "execute_command", {**handle, "command": "echo hi"})
            assert done.structured_content["stdout"] == "hi\n"
    wait_for(lambda: server.metric("connections") == 1, "its end")
