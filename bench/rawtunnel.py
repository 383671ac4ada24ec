# SPDX-License-Identifier: Apache-2.0
"""Round trips through pods/portforward and nothing else: blocking, one
request after the other, over v4.channel.k8s.io; HTTP/1.1, and a command of
sandboxd's over gRPC with the least HTTP/2 that does it."""

import base64
import os
import socket
import ssl
import struct
import tempfile
import time
from urllib.parse import urlsplit

import yaml

from measure import Failed


def connect(kubeconfig):
    with open(kubeconfig, encoding="utf-8") as f:
        config = yaml.safe_load(f)
    cluster = config["clusters"][0]["cluster"]
    user = config["users"][0]["user"]
    ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=ca)
    with tempfile.NamedTemporaryFile() as f:
        for key in ("client-certificate-data", "client-key-data"):
            f.write(base64.b64decode(user[key]))
        f.flush()
        context.load_cert_chain(f.name)
    at = urlsplit(cluster["server"])
    plain = socket.create_connection((at.hostname, at.port or 443))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(plain, server_hostname=at.hostname), at.netloc


class Tunnel:
    def __init__(self, kubeconfig, namespace, pod, port):
        self.sock, host = connect(kubeconfig)
        self.data = b""
        key = base64.b64encode(os.urandom(16)).decode()
        self.sock.sendall((
            f"GET /api/v1/namespaces/{namespace}/pods/{pod}/portforward"
            f"?ports={port} HTTP/1.1\r\nHost: {host}\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
            "Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n").encode())
        while b"\r\n\r\n" not in self.data:
            self.more()
        head, self.data = self.data.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n", 1)[0]:
            raise Failed(f"port-forward: {head[:100]!r}")
        for _ in range(2):             # each channel begins with the port
            self.receive()

    def more(self):
        got = self.sock.recv(65536)
        if not got:
            raise Failed("the tunnel ended")
        self.data += got

    def take(self, n):
        while len(self.data) < n:
            self.more()
        taken, self.data = self.data[:n], self.data[n:]
        return taken

    def receive(self):
        """The payload of the next data message, with its channel."""
        while True:
            first, size = self.take(2)
            if size == 126:
                size, = struct.unpack(">H", self.take(2))
            elif size == 127:
                size, = struct.unpack(">Q", self.take(8))
            payload = self.take(size)
            if first & 15 == 8:
                raise Failed(f"the tunnel closed: {payload[:80]!r}")
            if first & 15 < 3:
                return payload

    def send(self, payload):
        """A mask of zeros is a mask, and costs nothing."""
        payload = b"\0" + payload
        size = len(payload)
        head = struct.pack(">BB", 0x82, 0x80 | size) if size < 126 else \
            struct.pack(">BBH", 0x82, 0x80 | 126, size)
        self.sock.sendall(head + bytes(4) + payload)

    def get(self, path):
        self.send(f"GET {path} HTTP/1.1\r\nHost: pod\r\n\r\n".encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.receive()[1:]
        head, body = answer.split(b"\r\n\r\n", 1)
        size = int(head.lower().split(b"content-length:")[1].split()[0])
        got = len(body)
        while got < size:
            got += len(self.receive()) - 1
        return got

    def put(self, path, size):
        """size bytes in pieces of 32 KB."""
        piece = bytes(32 << 10)
        self.send(f"PUT {path} HTTP/1.1\r\nHost: pod\r\n"
                  f"Content-Length: {size}\r\n\r\n".encode())
        for _ in range(size // len(piece)):
            self.send(piece)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.receive()[1:]
        if not answer.startswith(b"HTTP/1.1 2"):
            raise Failed(f"PUT: {answer[:100]!r}")


DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def literal(name, value):
    """A header field, not indexed (RFC 7541, 6.2.2)."""
    return b"\0" + b"".join(bytes([len(x)]) + x.encode()
                            for x in (name, value))


START = b"".join(literal(*field) for field in (
    (":method", "POST"), (":scheme", "http"), (":authority", "pod"),
    (":path", "/process.v1.ProcessService/Start"), ("te", "trailers"),
    ("content-type", "application/grpc")))


class Commands(Tunnel):
    """sandboxd's Start of `sh -c true`, a stream each."""

    def __init__(self, *where):
        super().__init__(*where)
        self.stream = -1
        self.bytes = b""
        self.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" +
                  self.frame(SETTINGS, 0, 0, b""))

    @staticmethod
    def frame(kind, flags, stream, payload):
        return struct.pack(">BHBBI", len(payload) >> 16,
                           len(payload) & 0xffff, kind, flags,
                           stream) + payload

    def next_frame(self):
        need = 9
        while True:
            if len(self.bytes) >= 9:
                high, low, kind, flags, stream = struct.unpack(
                    ">BHBBI", self.bytes[:9])
                need = 9 + (high << 16 | low)
                if len(self.bytes) >= need:
                    payload = self.bytes[9:need]
                    self.bytes = self.bytes[need:]
                    return kind, flags, stream, payload
            self.bytes += self.receive()[1:]

    def get(self, path):
        self.stream += 2
        words = b"".join(b"\x0a" + bytes([len(w)]) + w
                         for w in (b"/bin/sh", b"-c", path.encode()))
        message = b"\x0a" + bytes([len(words)]) + words
        self.send(
            self.frame(HEADERS, END_HEADERS, self.stream, START) +
            self.frame(DATA, END_STREAM, self.stream,
                       struct.pack(">BI", 0, len(message)) + message))
        while True:
            kind, flags, stream, payload = self.next_frame()
            if kind == SETTINGS and not flags & ACK:
                self.send(self.frame(SETTINGS, ACK, 0, b""))
            elif kind == PING and not flags & ACK:
                self.send(self.frame(PING, ACK, 0, payload))
            elif kind not in (DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE):
                raise Failed(f"HTTP/2 frame {kind}: {payload[:80]!r}")
            elif stream == self.stream and flags & END_STREAM:
                return


def round_trips(tunnel, what, n):
    """Microseconds of each of n requests, after a first."""
    tunnel.get(what)
    found = []
    for _ in range(n):
        begin = time.perf_counter()
        tunnel.get(what)
        found.append((time.perf_counter() - begin) * 1e6)
    tunnel.sock.close()
    return found
