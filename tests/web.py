# SPDX-License-Identifier: Apache-2.0
"""mcp-sandbox over HTTP: started, and spoken to in raw bytes."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time

from program import BINARY, META, VERSION, clean_environment
from standin.ports import free_port

INETD = shutil.which("systemd-socket-activate")


class Answer:
    def __init__(self, status, fields, body):
        self.status, self.fields, self.body = status, fields, body

    def json(self):
        return json.loads(self.body)

    def events(self):
        """The messages of an event stream."""
        assert self.fields["content-type"] == "text/event-stream", self.fields
        return [json.loads(line[6:]) for line in self.body.decode().split("\n")
                if line.startswith("data: ")]

    def reply(self):
        """The last message, however it came."""
        if self.fields["content-type"] == "application/json":
            return self.json()
        return self.events()[-1]


class Connection:
    def __init__(self, address, tls=None):
        family = (socket.AF_UNIX if isinstance(address, str)
                  else socket.AF_INET)
        self.socket = socket.socket(family)
        self.socket.settimeout(60)
        self.socket.connect(address)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket,
                                          server_hostname="localhost")
        self.file = self.socket.makefile("rb")

    def send(self, data):
        self.socket.sendall(data.encode() if isinstance(data, str) else data)

    def head(self):
        """Status and fields; None at the end of the connection."""
        line = self.file.readline()
        if not line:
            return None
        version, status = line.split()[:2]
        assert version == b"HTTP/1.1"
        fields = {}
        while (line := self.file.readline().rstrip(b"\r\n")):
            name, _, value = line.decode().partition(":")
            assert name.lower() not in fields, name
            fields[name.lower()] = value.strip()
        return int(status), fields

    def chunk(self):
        size = int(self.file.readline(), 16)
        data = self.file.read(size)
        assert self.file.readline() == b"\r\n"
        return data

    def answer(self, method="POST"):
        head = self.head()
        if head is None:
            return None
        status, fields = head
        body = b""
        if fields.get("transfer-encoding") == "chunked":
            while (data := self.chunk()):
                body += data
        elif method != "HEAD":
            body = self.file.read(int(fields.get("content-length", 0)))
        return Answer(status, fields, body)

    def ask(self, data, method="POST"):
        self.send(data)
        return self.answer(method)

    def ended(self):
        try:
            return self.file.read() == b""
        except ConnectionResetError:
            return True

    def reset(self):
        """Gone, without a word."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                               b"\1\0\0\0\0\0\0\0")
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()


def message(method, params=None, id=1, modern=False, meta=None):
    params = dict(params or {})
    if modern:
        params["_meta"] = {META + "protocolVersion": VERSION,
                           META + "clientCapabilities": {}, **(meta or {})}
    elif meta:
        params["_meta"] = meta
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def post(body, path="/mcp", **fields):
    """The bytes of a POST; a field that is None is left out."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    all_fields = {"Host": "localhost", "Content-Type": "application/json",
                  "Accept": "application/json, text/event-stream",
                  "Content-Length": len(body),
                  **{k.replace("_", "-"): v for k, v in fields.items()}}
    head = "".join(f"{k}: {v}\r\n" for k, v in all_fields.items()
                   if v is not None)
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def call(method, params=None, meta=None, id=1, **fields):
    """A request of 2026-07-28, with the fields that go with it."""
    return post(message(method, params, id, True, meta), **{
        "MCP_Protocol_Version": VERSION, "Mcp_Method": method,
        "Mcp_Name": (params or {}).get("name"), **fields})


def tool(name, arguments=None, meta=None, **fields):
    return call("tools/call", {"name": name, "arguments": arguments or {}},
                meta, **fields)


class Server:
    """way: "inetd" (a process for each connection by systemd) or "serve"."""

    def __init__(self, way, *args, kubeconfig=None, path=None, tls=None,
                 **env):
        self.port = free_port()
        self.address = path or ("127.0.0.1", self.port)
        self.tls = tls          # an ssl.SSLContext of clients
        at = path or f"127.0.0.1:{self.port}"
        settings = clean_environment(KUBECONFIG=kubeconfig, **env)
        names = [f"--setenv={n}" for n in settings
                 if n.startswith(("K8S_", "MCP_", "KUBE", "CREDENTIALS"))]
        command = {
            "serve": [BINARY, "serve", "--listen", at, *args],
            "inetd": [INETD, "--inetd", "-a", "-l", at, *names, BINARY,
                      "--http", *args],
            "systemd": [INETD, "-l", at, *names, BINARY, "serve", *args],
        }[way]
        self.lines = b""
        self.process = subprocess.Popen(
            command, env=settings, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            start_new_session=True)
        os.set_blocking(self.process.stderr.fileno(), False)
        self.wait_until_up()

    def wait_until_up(self):
        end = time.monotonic() + 30
        while True:
            try:
                Connection(self.address).close()
                return
            except OSError:
                assert (self.process.poll() is None
                        and time.monotonic() < end), self.log
                time.sleep(0.02)

    @property
    def log(self):
        with contextlib.suppress(BlockingIOError, ValueError):
            while data := self.process.stderr.read():
                self.lines += data
        return self.lines.decode("utf-8", "replace")

    def connect(self):
        return Connection(self.address, self.tls)

    def ask(self, data, method="POST"):
        """One request on a connection of its own."""
        connection = self.connect()
        try:
            return connection.ask(data, method)
        finally:
            connection.close()

    def get(self, path, method="GET", **fields):
        head = "".join(f"{k.replace('_', '-')}: {v}\r\n"
                       for k, v in {"Host": "localhost", **fields}.items())
        return self.ask(f"{method} {path} HTTP/1.1\r\n{head}\r\n", method)

    def metric(self, line):
        """0 for what is not there; a full server is asked again."""
        while (page := self.get("/metrics")).status == 503:
            time.sleep(0.01)
        for found in page.body.decode().split("\n"):
            name, _, value = found.rpartition(" ")
            if name == "mcp_sandbox_" + line:
                return int(value)
        return 0

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            return self.process.wait(30)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.log
            self.process.stderr.close()
