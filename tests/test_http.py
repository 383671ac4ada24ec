# SPDX-License-Identifier: Apache-2.0
"""MCP over HTTP: a process for each connection, by systemd and by serve."""

import base64
import concurrent.futures
import contextlib
import hashlib
import json
import os
import re
import resource
import socket
import stat
import subprocess
import time

import pytest

from blackbox import (CLAIMS, NS, WATCH, claims, memory_kb, no_claims,
                      not_sanitized, seen)
from program import BINARY, VERSION, clean_environment
from standin.client import wait_for
from web import INETD, Server, call, message, post, tool

needs_systemd = pytest.mark.skipif(INETD is None,
                                   reason="systemd is not installed")
PING = message("ping")
LIST = {"method": "^GET$", "path": CLAIMS + r"\?limit"}


@pytest.fixture
def serve(standin):
    """serve(*args, way=...) gives a running Server."""
    running = []

    def begin(*args, way="serve", **how):
        if not os.path.exists(BINARY):
            pytest.fail(f"{BINARY} is not there: run make first")
        how.setdefault("kubeconfig", standin.kubeconfig)
        running.append(Server(way, *args, **how))
        return running[-1]

    yield begin
    for server in running:
        server.close()
        for secret in standin.tokens.values():
            assert secret not in server.lines.decode("utf-8", "replace")


@pytest.fixture(params=["serve", pytest.param("inetd", marks=needs_systemd)])
def server(request, serve):
    return serve(way=request.param)


def get(path, method="GET", **fields):
    head = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in fields.items())
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n"


BAD_JSON = {"code": -32700}
BATCH = {"code": -32600}
MISMATCH = {"code": -32020}

STATUSES = {
    "a request": (post(PING), 200),
    "a modern one": (call("tools/list"), 200),
    "a notification": (post({"jsonrpc": "2.0", "method":
                             "notifications/initialized"}), 202),
    "a response, older": (post({"jsonrpc": "2.0", "id": 1, "result": {}}),
                          202),
    "a response, modern": (post({"jsonrpc": "2.0", "id": 1, "result": {}},
                                MCP_Protocol_Version=VERSION), 400, BATCH),
    "GET": (get("/mcp", Accept="text/event-stream"), 405),
    "DELETE": (get("/mcp", "DELETE"), 405),
    "another path": (post(PING, "/nope"), 404),
    "no such file": (get("/favicon.ico"), 404),
    "the path of a URL": (post(PING, "http://localhost/mcp?x=1"), 200),
    "Host of a page": (post(PING, Host="evil.example.com"), 403),
    "Origin of a page": (post(PING, Origin="http://evil.example.com"), 403),
    "Origin null": (post(PING, Origin="null"), 403),
    "Origin of this machine": (post(PING, Origin="http://localhost:1"), 200),
    "no Accept": (post(PING, Accept=None), 200),
    "Accept of a browser": (post(PING, Accept="text/html, */*;q=0.8"), 200),
    "Accept of something else": (post(PING, Accept="text/html"), 406),
    "another type": (post(PING, Content_Type="text/plain"), 415),
    "no type": (post(PING, Content_Type=None), 415),
    "JSON in UTF-8": (post(PING, Content_Type="application/json; "
                           "charset=utf-8"), 200),
    "compressed": (post(PING, Content_Encoding="gzip"), 415),
    "no JSON": (post(b"{"), 400, BAD_JSON),
    "nothing": (post(b""), 400, BAD_JSON),
    "a batch": (post([PING]), 400, BATCH),
    "a batch of 2025-03-26": (post([PING], MCP_Protocol_Version="2025-03-26"),
                              200),
    "an unknown version": (post(PING, MCP_Protocol_Version="1999-01-01"), 400),
    "a future version": (call("tools/list",
                              MCP_Protocol_Version="2027-01-01"), 400,
                         MISMATCH),
    "an unknown method": (call("nope"), 404, {"code": -32601}),
    "an unknown method, older": (post(message("nope")), 200,
                                 {"code": -32601}),
    "no version": (call("tools/list", MCP_Protocol_Version=None), 400,
                   MISMATCH),
    "no Mcp-Method": (call("tools/list", Mcp_Method=None), 400, MISMATCH),
    "another Mcp-Method": (call("tools/list", Mcp_Method="ping"), 400,
                           MISMATCH),
    "no Mcp-Name": (tool("list_sandboxes", Mcp_Name=None), 400, MISMATCH),
    "another Mcp-Name": (tool("list_sandboxes", Mcp_Name="x"), 400, MISMATCH),
    "an unknown tool": (tool("x"), 200, {"code": -32602}),
    "no envelope": (post(message("tools/list"), MCP_Protocol_Version=VERSION,
                         Mcp_Method="tools/list"), 400, {"code": -32602}),
    "an unknown coding": (post(PING, Transfer_Encoding="gzip",
                               Content_Length=None), 501),
    "a version of HTTP": (b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
    "no Host": (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
    "HTTP/1.0": (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
    "no HTTP": (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
    "a session that is no label": (post(PING, X_Session_ID="a b"), 200),
    "a body that is too long": (post(b"", Content_Length=2097152001), 413),
}


@pytest.mark.parametrize("case", STATUSES)
def test_the_status_says_what_was_wrong(server, case):
    data, status, *error = STATUSES[case]
    answer = server.ask(data)
    assert answer.status == status, answer.body
    for e in error:
        assert answer.json()["error"]["code"] == e["code"]
    if status in (404, 405) and not error:
        assert b"jsonrpc" not in answer.body
    if status == 405:
        assert answer.fields["allow"] == "POST"
    if status == 202:
        assert answer.body == b""


SMUGGLED = post(PING, "/nope")
AMBIGUOUS = {
    "two lengths": post(PING, content_length=0) + SMUGGLED,
    "length and chunks": post(b"0\r\n\r\n", Transfer_Encoding="chunked")
    + SMUGGLED,
    "chunked twice": post(b"0\r\n\r\n", Content_Length=None,
                          Transfer_Encoding="chunked, chunked") + SMUGGLED,
    "chunked, hidden": post(b"0\r\n\r\n", Content_Length=None,
                            Transfer_Encoding="\x0bchunked") + SMUGGLED,
    "a blank before the colon": post(PING).replace(
        b"Content-Length:", b"Content-Length :") + SMUGGLED,
    "a folded line": post(PING).replace(
        b"Accept:", b" folded\r\nAccept:") + SMUGGLED,
    "a bare LF": post(PING).replace(b"\r\nAccept", b"\nAccept") + SMUGGLED,
    "a bare CR": post(PING).replace(b"\r\nAccept", b"\rAccept") + SMUGGLED,
    "a signed length": post(PING, Content_Length="+36") + SMUGGLED,
    "a length in hexadecimal": post(PING, Content_Length="0x24") + SMUGGLED,
    "a NUL": post(PING, X="\0") + SMUGGLED,
    "a chunk's size too large": post(
        b"fffffffffffffffff\r\n", Content_Length=None,
        Transfer_Encoding="chunked") + SMUGGLED,
    "a chunk without an end": post(
        b"1\r\nxx\r\n0\r\n\r\n", Content_Length=None,
        Transfer_Encoding="chunked") + SMUGGLED,
}


@pytest.mark.parametrize("case", AMBIGUOUS)
def test_what_two_could_read_differently_ends_the_connection(serve, case):
    connection = serve().connect()
    answer = connection.ask(AMBIGUOUS[case])
    assert answer.status in (400, 501)
    assert answer.fields["connection"] == "close"
    assert connection.ended()


def test_requests_follow_each_other_on_one_connection(server):
    connection = server.connect()
    for id in range(20):
        answer = connection.ask(post(message("ping", id=id)))
        assert answer.json() == {"jsonrpc": "2.0", "id": id, "result": {}}
    # At once: the answers come in their order.
    connection.send(b"".join(post(message("ping", id=id)) for id in range(9)))
    assert [connection.answer().json()["id"] for _ in range(9)] == list(
        range(9))
    answer = connection.ask(post(PING, Connection="close"))
    assert answer.fields["connection"] == "close"
    assert connection.ended()


def test_a_body_in_chunks_and_in_bytes(server):
    body = json.dumps(PING).encode()
    chunks = b"".join(b"%x;x=y\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7])
                      for i in range(0, len(body), 7))
    data = post(chunks + b"0\r\nA: b\r\n\r\n", Content_Length=None,
                Transfer_Encoding="chunked")
    connection = server.connect()
    for i in range(len(data)):
        connection.send(data[i:i + 1])
    assert connection.answer().json()["result"] == {}
    assert connection.ask(post(PING)).status == 200


def test_a_client_that_waits_is_told_to_go_on(server):
    connection = server.connect()
    data = post(PING, Expect="100-continue")
    head, _, body = data.partition(b"\r\n\r\n")
    connection.send(head + b"\r\n\r\n")
    assert connection.head() == (100, {})
    assert connection.ask(body).status == 200
    # And not, when the body is not wanted.
    connection.send(head.replace(b"/mcp", b"/nop") + b"\r\n\r\n")
    assert connection.answer().status == 404
    assert connection.ended()


def test_long_heads_are_refused(serve):
    server = serve()
    for fields in ({"X": "y" * 40000}, {f"X-{i}": "y" for i in range(200)}):
        assert server.ask(post(PING, **fields)).status == 431
    assert server.ask(post(PING, "/" + "y" * 40000)).status in (404, 414)
    assert server.ask(post(PING)).status == 200


@not_sanitized
def test_slow_clients_are_told_so_and_hold_nobody_up(serve):
    server = serve()
    slow = [server.connect() for _ in range(30)]
    for connection in slow:
        connection.send("POST /mcp HTTP/1.1\r\nHost: localh")
    silent = server.connect()
    begin = time.monotonic()
    while time.monotonic() - begin < 8:
        time.sleep(1)
        for connection in slow[:5]:
            connection.send("o")
        assert server.ask(post(PING)).status == 200
    for connection in slow:
        assert connection.answer().status == 408
        assert connection.ended()
    assert silent.ended()


@not_sanitized
def test_ten_thousand_aborted_connections_leave_nothing(serve):
    def state():
        """Descriptors and memory of the process that listens."""
        pid = server.process.pid
        return len(os.listdir(f"/proc/{pid}/fd")), memory_kb(pid, "VmRSS")

    def abort(i):
        connection = server.connect()
        with contextlib.suppress(OSError):  # told 503 already
            connection.send(begun[i % 5])
        connection.reset()

    server = serve()
    begun = [b"", b"P", b"POST /mcp HTTP/1.1\r\nHo", post(PING)[:-3],
             post(PING)]
    for i in range(500):
        abort(i)
    wait_for(lambda: server.metric("connections") == 1, "their ends")
    wait_for(lambda: not children(server.process.pid), "their processes")
    time.sleep(0.2)             # what it closes when it has heard of them
    descriptors, memory = state()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(abort, range(10000)))
    wait_for(lambda: server.metric("connections") == 1, "their ends")
    wait_for(lambda: not children(server.process.pid), "their processes")
    wait_for(lambda: state()[0] == descriptors, "their descriptors")
    assert state()[1] <= memory + 100
    assert server.ask(post(PING)).status == 200
    assert "signal" not in server.log


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return f.read().split()


@not_sanitized
def test_a_thousand_connections_at_once(serve):
    """How much memory and time that takes is for make bench to say."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2200:
        pytest.skip(f"no more than {hard} descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = serve("--max-connections=1010", "--max-per-source=1010")
    connections = [server.connect() for _ in range(1000)]
    for connection in connections:
        connection.send(call("tools/list"))
    for connection in connections:
        assert len(connection.answer().json()["result"]["tools"]) > 1
    assert server.metric("connections") == 1001
    for connection in connections:
        connection.close()
    wait_for(lambda: server.metric("connections") == 1, "their ends")
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_connections_have_limits(serve):
    def take(server):
        connection = server.connect()
        if connection.ask(post(PING)).status == 200:
            return connection
        return connection.close()

    server = serve("--max-connections=3")
    kept = [wait_for(lambda: take(server)) for _ in range(3)]
    refused = server.connect()
    assert refused.answer().status == 503
    assert refused.ended()
    kept.pop().close()
    wait_for(lambda: server.ask(post(PING)).status == 200, "a free place")
    assert server.metric('connections_refused_total{limit="full"}') > 0
    by_source = serve("--max-per-source=1")
    kept = [wait_for(lambda: take(by_source))]
    assert by_source.connect().answer().status == 503


def create(meta=None, warmpool="py-pool", **fields):
    return tool("create_sandbox", {"warmpool": warmpool, "namespace": NS},
                meta, **fields)


def handle(result):
    """What create_sandbox returned, as the arguments of other tools."""
    return {"sandbox_claim_name": result["sandbox_claim_name"],
            "namespace": NS}


@pytest.fixture
def slow_pool(standin):
    standin.pool("slow", replicas=0, runtime="none",
                 notes={"test/ready-ms": "-1"})


@pytest.fixture
def pool(standin):
    standin.pool("py-pool")


def test_a_handle_is_good_for_other_connections(server, pool, standin):
    made = handle(server.ask(create()).json()["result"]["structuredContent"])
    done = server.ask(tool("execute_command", {
        **made, "command": "echo hi; exit 3"}, id="x")).reply()["result"][
            "structuredContent"]
    assert (done["stdout"], done["exit_code"]) == ("hi\n", 3)
    # And not for another session.
    other = server.ask(tool("execute_command", {
        **made, "command": "id"}, X_Session_ID="else"))
    assert other.reply()["result"]["isError"] is True
    line = re.search(r"audit: caller=127.0.0.1 tool=execute_command "
                     rf"namespace={NS} object={claims(standin)[0]} verdict=ok "
                     r"exit=3 bytes=\d+ ms=\d+ command=sha256:(\w+)",
                     server.log)
    assert line, server.log
    assert line[1] == hashlib.sha256(b"echo hi; exit 3").hexdigest()
    assert "echo hi" not in server.log


def test_news_come_as_events_and_the_connection_stays(server, pool):
    connection = server.connect()
    answer = connection.ask(create({"progressToken": "p"}))
    events = answer.events()
    assert answer.fields["cache-control"] == "no-cache, no-transform"
    assert [e["method"] for e in events[:-1]] == (
        ["notifications/progress"] * (len(events) - 1))
    assert len(events) > 1
    assert events[-1]["result"]["isError"] is False
    assert connection.ask(post(PING)).status == 200
    # Whoever takes no events gets the answer alone, and the other way round.
    answer = connection.ask(create({"progressToken": "p"},
                                   Accept="application/json"))
    assert answer.json()["result"]["isError"] is False
    answer = connection.ask(post(PING, Accept="text/event-stream"))
    assert answer.events() == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


def test_who_goes_has_cancelled(server, slow_pool, standin):
    connection = server.connect()
    connection.send(create(warmpool="slow"))
    seen(standin, WATCH)
    connection.close()
    no_claims(standin)
    wait_for(lambda: "tool=create_sandbox" in server.log, "an audit line")
    assert "verdict=cancelled" in server.log


def test_an_older_client_that_goes_has_not(server, pool, standin):
    hold = standin.fault("hold", **WATCH)
    connection = server.connect()
    connection.send(post(message("tools/call", {
        "name": "create_sandbox",
        "arguments": {"warmpool": "py-pool", "namespace": NS}})))
    wait_for(lambda: standin.taken(hold), "the watch")
    connection.close()
    time.sleep(0.2)
    standin.release(hold)
    wait_for(lambda: "verdict=ok" in server.log, "its end")
    assert len(claims(standin)) == 1


def accepts(server):
    with contextlib.suppress(OSError):
        server.connect().close()
        return True


def test_a_signal_lets_the_request_finish(serve, pool, standin):
    server = serve()
    hold = standin.fault("hold", **WATCH)
    connection, idle = server.connect(), server.connect()
    connection.send(create())
    wait_for(lambda: standin.taken(hold), "the watch")
    assert idle.ask(post(PING)).status == 200
    server.terminate()
    assert idle.ended()
    wait_for(lambda: not accepts(server), "a refusal")
    standin.release(hold)
    answer = connection.answer()
    assert answer.reply()["result"]["isError"] is False
    assert answer.fields["connection"] == "close"
    assert server.process.wait(30) == 0


def test_and_ends_it_when_the_time_is_over(serve, slow_pool, standin):
    server = serve("--drain=0")
    connection = server.connect()
    connection.send(create(warmpool="slow"))
    seen(standin, WATCH)
    server.terminate()
    assert connection.answer().status == 503
    assert server.process.wait(30) == 0
    no_claims(standin)


# --- other endpoints ---------------------------------------------------------

def test_probes(server, standin):
    assert server.get("/healthz").status == 200
    assert server.get("/healthz", "HEAD").body == b""
    assert server.get("/healthz", "PUT").status == 405
    ready = server.get("/readyz")
    assert (ready.status, ready.body) == (200, b'{"ready":true}')
    assert server.get("/live", "PUT").body == b'{"status":"alive"}\n'
    health = server.get("/health")
    assert health.status == 200
    assert re.fullmatch(r'\{"status":"healthy","time":"[0-9-]+T[0-9:]+Z"\}\n',
                        health.body.decode())
    assert not standin.requests("POST")


def test_probes_when_the_cluster_fails(server, standin):
    standin.fault("status", code=403, message="not you", count=-1, **LIST)
    standin.fault("status", code=403, message="no ns", count=-1,
                  path="/api/v1/namespaces/default$")
    ready = server.get("/readyz")
    assert (ready.status, ready.body) == (
        503, b'{"ready":false,"reason":"kubernetes API unavailable"}')
    assert "not you" in server.log
    health = server.get("/health")
    assert health.status == 503
    assert health.json()["status"] == "unhealthy"
    assert "no ns" in health.json()["error"]
    assert server.get("/healthz").status == 200


def test_readyz_looks_where_it_is_told(serve, standin):
    server = serve(K8S_SANDBOX_PROBE_NAMESPACE="elsewhere")
    server.get("/readyz")
    assert standin.requests("GET", "/namespaces/elsewhere/sandboxclaims")


def test_ending_a_session(serve):
    server = serve()
    for path, status, body in [
            ("/sessions/never-was", 204, b""),
            ("/sessions/", 400, b"missing session ID\n"),
            ("/sessions/a/b", 400, b"missing session ID\n"),
            ("/sessions/A", 400, b"invalid session ID format\n"),
            ("/sessions/%61", 204, b""),
            ("/sessions/%0a", 400, b"invalid session ID format\n"),
            ("/sessions/-a", 400, b"invalid session ID format\n")]:
        answer = server.get(path, "DELETE")
        assert (answer.status, answer.body) == (status, body), path
    answer = server.get("/sessions/a", "GET")
    assert (answer.status, answer.fields["allow"]) == (405, "DELETE")


def test_bash_wants_a_session(serve):
    answer = serve().ask(tool("bash", {"command": "id"}))
    assert answer.json()["result"]["isError"] is True
    assert "missing X-Session-ID header" in answer.body.decode()


@pytest.mark.parametrize("id", ["a b", "x" * 64, "-a", "\xe9"])
def test_a_session_that_cannot_be_is_a_tools_error(serve, standin, id):
    server = serve()
    for name, args in (("bash", {"command": "id"}),
                       ("list_sandboxes", {"namespace": NS})):
        answer = server.ask(tool(name, args, X_Session_ID=id))
        assert answer.status == 200
        assert answer.json()["result"]["isError"] is True
        assert "sandbox exec failed: invalid session ID" in \
            answer.body.decode()
    listed = server.ask(call("tools/list", X_Session_ID=id))
    assert "tools" in listed.json()["result"]
    assert not standin.requests("^GET$", CLAIMS)


def test_metrics_are_of_all_processes(serve):
    server = serve()
    for _ in range(3):
        server.ask(tool("list_sandboxes", {"namespace": NS}))
    server.ask(post(b"{"))
    assert server.metric(
        'calls_total{tool="list_sandboxes",verdict="ok"}') == 3
    assert server.metric('http_answers_total{code="4xx"}') == 1
    assert server.metric("call_seconds_count") == 3
    kind = server.get("/metrics").fields["content-type"]
    assert kind.startswith("text/plain; version=0.0.4")


# --- who may call ------------------------------------------------------------

def test_the_shared_secret(serve):
    server = serve(MCP_K8S_AUTH_TOKEN="s3cret")
    for fields in ({}, {"X_MCP_AUTH": "s3cre"}, {"X_MCP_AUTH": "s3cret1"},
                   {"Authorization": "Bearer s3cret"}):
        answer = server.ask(post(PING, **fields))
        assert answer.status == 401
        assert answer.fields["www-authenticate"].startswith("Bearer realm=")
    assert server.ask(post(PING, x_mcp_auth="s3cret")).status == 200
    assert server.get("/healthz").status == 200
    assert server.get("/sessions/a", "DELETE").status == 401
    assert "s3cret" not in server.log
    assert "verdict=401" in server.log


TOKENS = """
alice   token-of-alice-0123
bob     token-of-bob-012345 namespaces=elsewhere
carol   token-of-carol-0123 session=*
"""


def test_tokens_have_names_sessions_and_namespaces(serve, pool, tmp_path):
    path = tmp_path / "tokens"
    path.write_text(TOKENS)
    server = serve(f"--auth-tokens={path}")

    def ask(name, *rest, **fields):
        token = re.search(rf"^{name} +(\S+)", TOKENS, re.M)[1]
        return server.ask(tool(*rest, Authorization=f"Bearer {token}",
                               **fields))

    assert server.ask(post(PING)).status == 401
    pair = {"warmpool": "py-pool", "namespace": NS}
    made = ask("alice", "create_sandbox", pair).json()["result"]
    assert made["isError"] is False
    made = handle(made["structuredContent"])
    assert ask("alice", "get_sandbox_status", made).json()["result"][
        "structuredContent"]["status"] != "SandboxNotFound"
    assert ask("carol", "get_sandbox_status", made).json()["result"][
        "structuredContent"]["status"] == "SandboxNotFound"
    assert ask("alice", "list_sandboxes", {"namespace": NS},
               X_Session_ID="bob").status == 403
    assert ask("carol", "list_sandboxes", {"namespace": NS},
               X_Session_ID="mine").status == 200
    refused = ask("bob", "create_sandbox", pair).json()["result"]
    assert refused["isError"] is True
    assert "elsewhere" in refused["content"][0]["text"]
    assert "caller=alice tool=create_sandbox" in server.log
    assert "token-of" not in server.log


def test_tokens_of_the_cluster(serve, standin):
    server = serve("--token-review=system:serviceaccount:default:limited")
    limited, admin = (next(t for n, t in standin.tokens.items() if n == name)
                      for name in ("limited", "admin"))
    connection = server.connect()
    for _ in range(3):
        assert connection.ask(tool("list_sandboxes", {"namespace": NS},
                                   Authorization=f"Bearer {limited}")
                              ).status == 200
    assert len(standin.requests("POST", "/tokenreviews")) == 1
    assert server.ask(post(PING, Authorization=f"Bearer {admin}")
                      ).status == 403
    assert server.ask(post(PING, Authorization="Bearer nobody-knows-it")
                      ).status == 401
    assert server.ask(post(PING)).status == 401
    assert "caller=system:serviceaccount:default:limited" in server.log


def test_a_token_is_not_believed_longer_than_it_lives(serve, standin):
    def token(**claims):
        part = base64.urlsafe_b64encode(json.dumps(claims).encode())
        return f"e30.{part.decode().rstrip('=')}.c2ln"

    now = int(time.time())
    over, good = token(exp=now - 1), token(exp=now + 3600)
    standin.config(tokens={over: "limited", good: "limited"})
    connection = serve("--token-review=all").connect()
    for each, reviews in ((over, 3), (good, 4)):
        for _ in range(3):
            assert connection.ask(
                post(PING, Authorization=f"Bearer {each}")).status == 200
        assert len(standin.requests("POST", "/tokenreviews")) == reviews


def test_an_address_for_all_needs_a_secret(standin):
    env = clean_environment(KUBECONFIG=standin.kubeconfig)
    done = subprocess.run([BINARY, "serve", "--listen", ":0"], env=env,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 78
    assert "--auth-tokens" in done.stderr
    server = Server("serve", "--listen", "0.0.0.0:0", kubeconfig=standin
                    .kubeconfig, MCP_K8S_AUTH_TOKEN="s3cret")
    assert server.ask(post(PING, X_MCP_AUTH="s3cret")).status == 200
    assert server.close() == 0


def test_metadata_for_oauth(serve, tmp_path):
    path = tmp_path / "metadata.json"
    path.write_text(json.dumps({
        "resource": "https://mcp.example.com/mcp",
        "authorization_servers": ["https://auth.example.com"]}))
    server = serve(f"--resource-metadata={path}", MCP_K8S_AUTH_TOKEN="s3cret")
    where = "/.well-known/oauth-protected-resource/mcp"
    assert (f'resource_metadata="https://mcp.example.com{where}"' in
            server.ask(post(PING)).fields["www-authenticate"])
    assert server.get(where).json()["resource"] == (
        "https://mcp.example.com/mcp")


def test_a_path_is_ours_alone_and_the_uid_is_the_session(serve, tmp_path):
    path = str(tmp_path / "mcp.sock")
    server = serve(path=path, MCP_K8S_AUTH_TOKEN="s3cret")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert server.ask(tool("list_sandboxes", {"namespace": NS})).status == 200
    assert f"caller=uid-{os.getuid()} tool=list_sandboxes" in server.log


def test_a_user_and_its_group_have_bounds(serve, tmp_path):
    path, tokens = str(tmp_path / "mcp.sock"), tmp_path / "tokens"
    for id in (f"uid:{os.getuid()}", f"gid:{os.getgid()}"):
        tokens.write_text(f"me {id} namespaces=elsewhere\n")
        server = serve(f"--auth-tokens={tokens}", path=path)
        result = server.ask(tool("list_sandboxes", {"namespace": NS})).json()[
            "result"]
        assert "elsewhere" in result["content"][0]["text"]
        assert server.ask(post(PING, X_Session_ID="other")).status == 403
        assert "caller=me tool=list_sandboxes" in server.log
        server.close()


def test_the_default_is_a_path(standin, tmp_path):
    env = clean_environment(KUBECONFIG=standin.kubeconfig,
                            XDG_RUNTIME_DIR=str(tmp_path))
    path = tmp_path / "mcp-sandbox" / "mcp.sock"
    with subprocess.Popen([BINARY, "serve"], env=env,
                          stderr=subprocess.DEVNULL) as process:
        wait_for(path.exists, "the socket")
        process.terminate()
        assert process.wait(30) == 0
    assert not path.exists()


def test_a_socket_file_goes_with_its_server_unless_it_is_anothers(
        serve, tmp_path):
    paths = [tmp_path / "one.sock", tmp_path / "two.sock"]
    server = serve("--listen", f"unix:{paths[1]}", path=f"{paths[0]}")
    paths[1].unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(paths[1]))
        server.process.terminate()
        assert server.process.wait(30) == 0
        assert [p.exists() for p in paths] == [False, True]


def test_the_volume_of_jobs_is_asked_for_once(serve, standin, tmp_path):
    path = r"/persistentvolumeclaims/cache$"
    env = {"MCP_K8S_ALLOWED_IMAGES": "x:1", "MCP_K8S_CACHE_PVC": "cache",
           "MCP_K8S_CACHE_MOUNT_PATH": "/c", "MCP_K8S_NAMESPACE": "default"}
    done = subprocess.run(
        [BINARY, "serve", "--listen", f"unix:{tmp_path}/s"], text=True,
        env=clean_environment(KUBECONFIG=standin.kubeconfig, **env),
        capture_output=True, timeout=60)
    assert done.returncode == 78 and "'cache'" in done.stderr
    assert len(standin.requests("^GET$", path)) == 1
    assert not (tmp_path / "s").exists()
    standin.call("POST", "/api/v1/namespaces/default/persistentvolumeclaims",
                 {"metadata": {"name": "cache"}})
    server = serve(**env)
    for _ in range(3):
        assert server.ask(post(PING)).status == 200
    assert len(standin.requests("^GET$", path)) == 2


@needs_systemd
def test_sockets_of_systemd(serve):
    server = serve(way="systemd")
    for _ in range(3):
        assert server.ask(post(PING)).status == 200


def test_the_originals_switches(standin):
    env = clean_environment(KUBECONFIG=standin.kubeconfig)
    server = Server("serve", kubeconfig=standin.kubeconfig)
    server.close()
    port = server.port
    for args, more in (
            (["--transport", "http", "--address", f"127.0.0.1:{port}",
              "--stateless"], {}),
            ([], {"MCP_K8S_TRANSPORT": "http",
                  "MCP_K8S_ADDR": f"127.0.0.1:{port}"})):
        process = subprocess.Popen([BINARY, *args], env={**env, **more},
                                   stderr=subprocess.DEVNULL)
        server.process = process
        server.wait_until_up()
        assert server.ask(post(PING)).status == 200
        process.terminate()
        assert process.wait(30) == 0


# --- real clients ------------------------------------------------------------

@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_real_client(serve, pool, mode):
    import mcp

    server = serve()
    async with mcp.Client(f"http://127.0.0.1:{server.port}/mcp",
                          mode=mode) as client:
        told = []

        async def progress(number, total, text):
            told.append(text)

        made = await client.call_tool(
            "create_sandbox", {"warmpool": "py-pool", "namespace": NS},
            progress_callback=progress)
        assert not made.is_error
        done = await client.call_tool("execute_command", {
            **handle(made.structured_content), "command": "echo $0"})
        assert done.structured_content["exit_code"] == 0
        assert told


def test_many_calls_at_once(serve):
    server = serve()

    def one(i):
        return server.ask(tool("list_sandboxes", {"namespace": NS}, id=i))

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(one, range(64)))
    assert [a.json()["id"] for a in answers] == list(range(64))
