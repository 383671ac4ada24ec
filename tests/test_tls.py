# SPDX-License-Identifier: Apache-2.0
"""TLS by ourselves, and callers known by their certificate."""

import contextlib
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from blackbox import NS, not_sanitized
from program import BINARY, ROOT, clean_environment
from standin.client import wait_for
from standin.pki import Pki, new_key, subject
from test_http import PING, needs_systemd, serve  # noqa: F401 (a fixture)
from web import Connection, Server, call, message, post, tool


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    """Certificates of a server and of its clients, good and bad."""
    pki = Pki(str(tmp_path_factory.mktemp("tls")))
    for kind in ("good", "rsa", "expired"):
        pki.server(kind)
    uri = x509.UniformResourceIdentifier("spiffe://corp/alice")
    dns = x509.DNSName("bob.example")
    client = ExtendedKeyUsageOID.CLIENT_AUTH

    def sign(name, who="someone", ca=pki.ca, usage=client, kind="ec", **more):
        pki.sign(name, subject(who), new_key(kind), ca, usage, **more)

    sign("alice", names=[x509.DNSName("not.this"), uri])
    sign("bob", names=[dns], kind="rsa")
    sign("carol", who="Carol Smith")
    sign("old", days=(-30, -1))
    sign("young", days=(1, 30))
    sign("stranger", ca=pki.make_ca("other"))
    sign("server-only", usage=ExtendedKeyUsageOID.SERVER_AUTH)
    return pki


def files(pki, kind="good", clients=False):
    """The options of a server with this certificate."""
    name = pki.path(f"server-{kind}")
    return [f"--tls-cert={name}.crt", f"--tls-key={name}.key",
            *([f"--tls-client-ca={pki.path('ca.crt')}"] if clients else [])]


def context(pki, name=None, **versions):
    """What a client with this certificate connects with."""
    ctx = ssl.create_default_context(cafile=pki.path("ca.crt"))
    for key, value in versions.items():
        setattr(ctx, key, value)
    if name:
        ctx.load_cert_chain(pki.path(name + ".crt"), pki.path(name + ".key"))
    return ctx


V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
WAYS = ["serve", pytest.param("inetd", marks=needs_systemd)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["good", "rsa"])
@pytest.mark.parametrize("version", [V12, V13])
def test_speaks_tls(serve, pki, way, kind, version):  # noqa: F811
    ctx = context(pki, minimum_version=version, maximum_version=version)
    ctx.set_alpn_protocols(["h2", "http/1.1"])
    server = serve(*files(pki, kind), way=way, tls=ctx)
    connection = server.connect()
    assert connection.socket.selected_alpn_protocol() == "http/1.1"
    for id in range(5):
        assert connection.ask(post(message("ping", id=id))).json()["id"] == id
    answer = connection.ask(call("tools/list"))
    assert len(answer.json()["result"]["tools"]) > 1
    connection.send(b"".join(post(message("ping", id=id)) for id in range(9)))
    assert [connection.answer().json()["id"] for _ in range(9)] == list(
        range(9))
    answer = connection.ask(post(PING, Connection="close"))
    assert connection.ended()


def test_bytes_one_by_one_and_many(serve, pki):  # noqa: F811
    server = serve(*files(pki), tls=context(pki))
    connection = server.connect()
    for byte in post(PING):
        connection.send(bytes([byte]))
    assert connection.answer().json()["result"] == {}
    # More than a record, and more than a piece, each way.
    padding = "x" * 3000000
    answer = connection.ask(post(message("ping", {"x": padding})))
    assert answer.json()["result"] == {}
    many = 400
    connection.send(b"".join(call("tools/list", id=i) for i in range(5)))
    connection.send(b"".join(post(message("ping", id=i))
                             for i in range(many)))
    for i in range(5):
        assert connection.answer().json()["id"] == i
    for i in range(many):
        assert connection.answer().json()["id"] == i


def hello():
    """A whole ClientHello, as ssl would send it."""
    ctx = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ctx.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def test_a_handshake_in_single_bytes(serve, pki):  # noqa: F811
    server = serve(*files(pki))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context(pki).wrap_bio(incoming, outgoing,
                                server_hostname="localhost")
    raw = Connection(server.address).socket
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            for byte in outgoing.read():
                raw.send(bytes([byte]))
            incoming.write(raw.recv(1))
    tls.write(post(PING))
    for byte in outgoing.read():
        raw.send(bytes([byte]))
    text = b""
    while b"}" not in text:
        try:
            text += tls.read(9)
        except ssl.SSLWantReadError:
            incoming.write(raw.recv(1))
    assert b" 200 " in text


def test_old_versions_are_refused(serve, pki):  # noqa: F811
    server = serve(*files(pki))
    # TLS 1.1 and no word of a later one; OpenSSL does not offer it any more.
    body = b"\x03\x02" + bytes(32) + b"\0" + b"\0\2\xc0\x13" + b"\1\0"
    data = b"\1" + len(body).to_bytes(3, "big") + body
    raw = Connection(server.address)
    raw.send(b"\x16\x03\x01" + len(data).to_bytes(2, "big") + data)
    alert = raw.file.read()
    assert alert[:1] == b"\x15"         # an alert: fatal, protocol_version
    assert alert[5:7] == b"\x02\x46"
    wait_for(lambda: "TLS with 127.0.0.1: " in server.log, "a line")


def test_plain_http_is_told(serve, pki):  # noqa: F811
    server = serve(*files(pki))
    connection = Connection(server.address)
    answer = connection.ask(post(PING))
    assert (answer.status, answer.body) == (
        400, b"this port speaks TLS: use https, not http\n")
    assert connection.ended()
    other = Connection(server.address)
    other.send(b"SSH-2.0-x\r\n")
    other.ended()
    wait_for(lambda: "does not speak TLS" in server.log, "a line")


@pytest.mark.parametrize("at", [1, 4, 5, 60])
def test_broken_handshakes_end(serve, pki, at):  # noqa: F811
    server = serve(*files(pki), tls=context(pki))
    data = bytearray(hello())
    data[at] ^= 0x55
    raw = Connection(server.address)
    raw.send(bytes(data))
    with contextlib.suppress(OSError):      # it is over already
        raw.socket.shutdown(socket.SHUT_WR)
    raw.ended()
    assert server.ask(post(PING)).status == 200
    assert "signal" not in server.log


@not_sanitized
def test_slow_handshakes_end(serve, pki):  # noqa: F811
    server = serve(*files(pki), tls=context(pki))
    slow = [Connection(server.address) for _ in range(4)]
    slow[0].send(hello()[:40])
    slow[1].send(hello())
    slow[2].send(b"\x16")
    begin = time.monotonic()
    for connection in slow:
        connection.ended()
    assert time.monotonic() - begin < 19
    assert server.ask(post(PING)).status == 200


# --- callers -----------------------------------------------------------------

def refused(server, request=post(PING)):
    """The alert that ends a connection, be it in the handshake or after."""
    try:
        assert server.ask(request) is None
    except ssl.SSLError as e:
        return str(e)
    except ConnectionError:     # it was gone before we had written
        pass
    return ""


@pytest.mark.parametrize("way", WAYS)
def test_a_certificate_is_a_caller(serve, pki, standin, way):  # noqa: F811
    standin.pool("py-pool")
    server = serve(*files(pki, clients=True), way=way)
    pair = {"warmpool": "py-pool", "namespace": NS}
    server.tls = context(pki, "alice")
    made = server.ask(tool("create_sandbox", pair)).json()["result"]
    handle = {"sandbox_claim_name":
              made["structuredContent"]["sandbox_claim_name"],
              "namespace": NS}

    def status(name):
        server.tls = context(pki, name)
        return server.ask(tool("get_sandbox_status", handle)).json()[
            "result"]["structuredContent"]["status"]

    assert status("alice") != "SandboxNotFound"
    assert status("bob") == "SandboxNotFound"
    assert status("carol") == "SandboxNotFound"
    for name in ("spiffe://corp/alice", "bob.example", "Carol?Smith"):
        assert f"caller={name} tool=get_sandbox_status" in server.log
    server.tls = context(pki, "alice")
    assert server.ask(post(PING, X_Session_ID="mine")).status == 403


def test_who_has_no_certificate(serve, pki):  # noqa: F811
    server = serve(*files(pki, clients=True), tls=context(pki))
    assert server.ask(post(PING)).status == 401
    assert server.get("/healthz").status == 200     # a kubelet has none


WRONG = {
    "old": ("certificate expired", "has expired"),
    "young": ("bad certificate", "is not valid yet"),
    "stranger": ("unknown ca", "is of another authority"),
    "server-only": ("bad certificate", "is not for this use"),
}


@pytest.mark.parametrize("version", [V12, V13])
@pytest.mark.parametrize("name", WRONG)
def test_wrong_certificates_end_it(serve, pki, name, version):  # noqa: F811
    server = serve(*files(pki, clients=True), tls=context(
        pki, name, minimum_version=version, maximum_version=version))
    alert, line = WRONG[name]
    why = refused(server)
    assert why == "" or alert in why.replace("_", " ").lower()
    wait_for(lambda: line in server.log, "a line")


def test_certificates_have_bounds(serve, pki, tmp_path):  # noqa: F811
    path = tmp_path / "callers"
    path.write_text("alice cert:spiffe://corp/alice namespaces=elsewhere "
                    "session=*\n"
                    "tom token-of-tom-012345\n")
    server = serve(f"--auth-tokens={path}", *files(pki, clients=True))
    server.tls = context(pki, "alice")
    result = server.ask(tool("list_sandboxes", {"namespace": NS},
                             X_Session_ID="mine")).json()["result"]
    assert result["isError"] and "elsewhere" in result["content"][0]["text"]
    assert "caller=alice tool=list_sandboxes" in server.log
    server.tls = context(pki, "bob")
    assert server.ask(post(PING)).status == 403
    assert "caller=bob.example verdict=403" in server.log
    server.tls = context(pki)
    assert server.ask(post(PING)).status == 401
    assert server.ask(post(PING, Authorization="Bearer token-of-tom-012345")
                      ).status == 200


def test_with_certificates_any_address_will_do(pki, standin):
    server = Server("serve", "--listen", "0.0.0.0:0",
                    *files(pki, clients=True), kubeconfig=standin.kubeconfig,
                    tls=context(pki, "alice"))
    assert server.ask(post(PING)).status == 200
    assert server.close() == 0


def test_the_real_client(serve, pki, standin):  # noqa: F811
    standin.pool("py-pool")
    server = serve(*files(pki))
    done = subprocess.run(
        [sys.executable, os.path.join(ROOT, "tests/clients/sdk.py"), "http",
         f"https://localhost:{server.port}/mcp"],
        env=clean_environment(SSL_CERT_FILE=pki.path("ca.crt")),
        capture_output=True, text=True, timeout=60)
    assert done.stdout == "hi\n", done.stderr


def test_one_too_many_is_not_told_in_plain(serve, pki):  # noqa: F811
    server = serve(*files(pki), "--max-connections=1", tls=context(pki))
    kept = wait_for(lambda: take(server), "a free place")
    assert Connection(server.address).ended()
    assert kept.ask(post(PING)).status == 200


def take(server):
    try:
        connection = server.connect()
        connection.ask(post(PING))
    except (ssl.SSLError, OSError):
        return None
    return connection


# --- files -------------------------------------------------------------------

def test_the_files_are_read_again(serve, pki, tmp_path):  # noqa: F811
    for end in ("crt", "key"):
        shutil.copy(pki.path(f"server-expired.{end}"), tmp_path / f"t.{end}")
    server = serve(f"--tls-cert={tmp_path}/t.crt",
                   f"--tls-key={tmp_path}/t.key", tls=context(pki))
    assert "expired" in refused(server)
    # By a rename, as secrets of the cluster are; one file, then the other.
    shutil.copy(pki.path("server-good.crt"), tmp_path / "new")
    (tmp_path / "new").rename(tmp_path / "t.crt")
    assert "expired" in refused(server)
    wait_for(lambda: "is not the key of" in server.log, "a warning")
    shutil.copy(pki.path("server-good.key"), tmp_path / "new")
    (tmp_path / "new").rename(tmp_path / "t.key")
    assert server.ask(post(PING)).status == 200
    with open(pki.path("server-good.key"), encoding="ascii") as f:
        assert f.read().split("\n")[1] not in server.log


BAD = {
    "no such file": ({"cert": "nope.crt"}, "nope.crt"),
    "no certificate": ({"cert": "ca.key"}, "ca.key"),
    "another's key": ({"key": "ca.key"}, "is not the key of"),
    "no key": ({"key": "ca.crt"}, "ca.crt"),
    "no authority": ({"ca": "ca.key"}, "ca.key"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_stop_the_start(pki, standin, case):
    changed, said = BAD[case]
    names = {"cert": "server-good.crt", "key": "server-good.key",
             "ca": "ca.crt", **changed}
    done = subprocess.run(
        [BINARY, "serve", "--listen=127.0.0.1:0",
         f"--tls-cert={pki.path(names['cert'])}",
         f"--tls-key={pki.path(names['key'])}",
         f"--tls-client-ca={pki.path(names['ca'])}"],
        env=clean_environment(KUBECONFIG=standin.kubeconfig),
        capture_output=True, text=True, timeout=60)
    assert done.returncode == 78
    assert said in done.stderr


def test_a_key_alone_stops_the_start(pki, standin):
    done = subprocess.run(
        [BINARY, "serve", "--listen=127.0.0.1:0",
         f"--tls-key={pki.path('ca.key')}"],
        env=clean_environment(KUBECONFIG=standin.kubeconfig),
        capture_output=True, text=True, timeout=60)
    assert (done.returncode, "need --tls-cert" in done.stderr) == (78, True)


def test_credentials_of_systemd(serve, pki, tmp_path):  # noqa: F811
    for name, file in (("tls-cert", "server-good.crt"),
                       ("tls-key", "server-good.key"),
                       ("tls-client-ca", "ca.crt")):
        shutil.copy(pki.path(file), tmp_path / name)
    server = serve(CREDENTIALS_DIRECTORY=str(tmp_path),
                   tls=context(pki, "alice"))
    assert server.ask(post(PING)).status == 200
    server.tls = context(pki)
    assert server.ask(post(PING)).status == 401


def test_a_path_stays_plain(serve, pki, tmp_path):  # noqa: F811
    server = serve(*files(pki, clients=True),
                   path=str(tmp_path / "mcp.sock"))
    assert server.ask(tool("list_sandboxes", {"namespace": NS})).status == 200
    assert re.search(r"caller=uid-\d+ tool=list_sandboxes", server.log)
