# SPDX-License-Identifier: Apache-2.0
"""Every kind of proxy, users.md 67 and 68: requests and streams through it."""

import select
import socket
import socketserver
import ssl
import threading

import pytest

from blackbox import NS, Box, failure
from standin.pki import Pki
from test_config import Connect


def pump(a, b):
    """Until one of them ends; pending(): what TLS holds back."""
    pair = [a, b]
    while True:
        ready = [s for s in pair if getattr(s, "pending", int)()]
        for end in ready or select.select(pair, [], [])[0]:
            try:
                data = end.recv(65536)
            except ssl.SSLWantReadError:
                continue
            if not data:
                return
            pair[end is pair[0]].sendall(data)


class Secure(Connect):
    """CONNECT under TLS."""

    def do_CONNECT(self):
        self.server.seen.append((self.path, self.headers.get(
            "Proxy-Authorization"), self.connection.getpeercert()))
        host, port = self.path.rsplit(":", 1)
        with socket.create_connection((host.strip("[]"), int(port))) as far:
            self.send_response(200)
            self.end_headers()
            pump(self.connection, far)


class Socks(socketserver.BaseRequestHandler):
    """RFC 1928, without a password."""

    def take(self, n):
        data = b""
        while len(data) < n:
            more = self.request.recv(n - len(data))
            if not more:
                raise ConnectionError
            data += more
        return data

    def handle(self):
        _, n = self.take(2)
        self.take(n)
        self.request.sendall(b"\5\0")
        kind = self.take(4)[3]
        if kind == 3:
            host = self.take(self.take(1)[0]).decode()
        else:
            host = socket.inet_ntoa(self.take(4))
        port = int.from_bytes(self.take(2), "big")
        self.server.seen.append((kind, host, port))
        with socket.create_connection((host, port)) as far:
            self.request.sendall(b"\5\0\0\1" + bytes(6))
            pump(self.request, far)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, handler, context=None):
        super().__init__(("127.0.0.1", 0), handler)
        self.seen = []
        self.context = context
        self.port = self.server_address[1]

    def finish_request(self, request, address):
        if self.context:
            request = self.context.wrap_socket(request, server_side=True)
        self.RequestHandlerClass(request, address, self)

    def handle_error(self, request, address):
        pass


@pytest.fixture
def proxy():
    """proxy(handler, context) gives a running Server."""
    running = []

    def begin(*how):
        running.append(Server(*how))
        threading.Thread(target=running[-1].serve_forever,
                         daemon=True).start()
        return running[-1]

    yield begin
    for server in running:
        server.shutdown()
        server.server_close()


def through(standin, start, url, **env):
    """A command in a sandbox, which takes requests and streams."""
    standin.pool(runtime="none")
    program = start(kubeconfig=standin.make_kubeconfig(
        "proxied", cluster={"proxy-url": url}), env=env)
    box = Box(standin, program)
    assert box.run("echo x")["stdout"] == "x\n"


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_a_socks_proxy_carries_everything(standin, start, proxy, scheme):
    server = proxy(Socks)
    through(standin, start, f"{scheme}://127.0.0.1:{server.port}")
    assert {s[1:] for s in server.seen} == {("127.0.0.1", standin.port)}
    assert len(server.seen) >= 2


def test_an_http_proxy_gets_its_password(standin, start, proxy):
    server = proxy(Connect)
    through(standin, start, f"http://me:p%40ss@127.0.0.1:{server.port}")
    assert {s[1] for s in server.seen} == {"Basic bWU6cEBzcw=="}
    assert len(server.seen) >= 2


def test_an_https_proxy_has_authorities_of_its_own(
        standin, start, proxy, tmp_path):
    pki = Pki(str(tmp_path))
    server = proxy(Secure, pki.server("good"))
    url = f"https://127.0.0.1:{server.port}"
    through(standin, start, url, SSL_CERT_FILE=pki.path("ca.crt"))
    # Our certificate is the cluster's business, not the proxy's.
    assert {(s[0], bool(s[2])) for s in server.seen} == {
        (f"127.0.0.1:{standin.port}", False)}
    assert len(server.seen) >= 2
    # What the cluster is held against says nothing about the proxy.
    seen = len(server.seen)
    program = start(kubeconfig=standin.make_kubeconfig(
        "proxied", cluster={"proxy-url": url}),
        env={"SSL_CERT_FILE": standin.ready["ca"]})
    assert "certificate of the proxy is signed by an unknown" in failure(
        program.tool("list_sandboxes", {"namespace": NS}, 40))
    assert len(server.seen) == seen
