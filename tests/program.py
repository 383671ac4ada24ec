# SPDX-License-Identifier: Apache-2.0
"""Runs mcp-sandbox as a child and speaks to it in raw lines."""

import json
import os
import queue
import select
import signal
import subprocess
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BINARY = os.environ.get("MCP_SANDBOX", os.path.join(ROOT, "mcp-sandbox"))
SANITIZED = "-san/" in BINARY
VERSION = "2026-07-28"
META = "io.modelcontextprotocol/"


def clean_environment(**more):
    """None of the caller's or the machine's settings leak into a test."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("K8S_", "MCP_", "KUBE", "CLUSTER"))
           and not k.lower().endswith("_proxy")}
    return {**env, "MCP_SANDBOX_CONFIG": "", **more}


class Program:
    """Output lines and stderr are collected by threads, so no pipe fills."""

    def __init__(self, *args, env=None, binary=BINARY, cwd=None, wrap=()):
        """wrap: a command that runs the program, such as unshare."""
        self.child = subprocess.Popen(
            [*wrap, binary, *args], env=env or clean_environment(), cwd=cwd,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, bufsize=0)
        os.set_blocking(self.child.stderr.fileno(), False)
        self.lines = queue.Queue()
        self.output = bytearray()
        self.errors = bytearray()
        self.aside = []
        self.lock = threading.Lock()
        self.next_id = 1
        self.reading = threading.Event()
        self.reading.set()
        self.threads = [threading.Thread(target=t, daemon=True)
                        for t in (self.read_output, self.read_errors)]
        for thread in self.threads:
            thread.start()

    @property
    def pid(self):
        return self.child.pid

    def read_output(self):
        with os.fdopen(os.dup(self.child.stdout.fileno()), "rb") as f:
            for line in f:
                self.output += line
                self.lines.put(line)
                self.reading.wait()
        self.lines.put(None)

    def read_errors(self):
        poll = select.poll()
        poll.register(self.child.stderr, select.POLLIN)
        while self.take_errors():
            poll.poll()

    def take_errors(self):
        """All that was written up to now; False at the end."""
        with self.lock:
            while data := self.child.stderr.read(65536):
                self.errors += data
        return data is None

    @property
    def stderr(self):
        if not self.child.stderr.closed:
            self.take_errors()
        return self.errors.decode("utf-8", "replace")

    def send(self, message):
        """bytes go out as they are, anything else as one line of JSON."""
        data = message if isinstance(message, bytes) else (
            json.dumps(message).encode() + b"\n")
        while data:
            data = data[self.child.stdin.write(data):]

    def line(self, timeout=30.0):
        """The next line of output, or None at its end."""
        try:
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(
                f"no line in {timeout} s; stderr: {self.stderr}") from None
        if line is None:
            self.lines.put(None)
        return line

    def recv(self, timeout=30.0):
        """The next message, None at the end of the output."""
        line = self.line(timeout)
        assert line is None or line.endswith(b"\n"), line[-200:]
        return None if line is None else json.loads(line)

    def silence(self, seconds=0.3):
        """What came in that time: [] is what a test wants."""
        end = time.monotonic() + seconds
        found = []
        while (left := end - time.monotonic()) > 0:
            try:
                line = self.lines.get(timeout=left)
            except queue.Empty:
                break
            if line is None:
                self.lines.put(None)
                break
            found.append(line)
        return found

    def request(self, method, params=None, modern=True, meta=None, id=None):
        """Sends a request and returns its id."""
        if id is None:
            id, self.next_id = self.next_id, self.next_id + 1
        params = dict(params or {})
        if modern:
            params["_meta"] = {
                META + "protocolVersion": VERSION,
                META + "clientInfo": {"name": "test", "version": "1"},
                META + "clientCapabilities": {}, **(meta or {})}
        elif meta:
            params["_meta"] = meta
        self.send({"jsonrpc": "2.0", "id": id, "method": method,
                   "params": params})
        return id

    def reply(self, id, timeout=30.0):
        """The reply to id; whatever else comes is kept in self.aside."""
        for at, message in enumerate(self.aside):
            if isinstance(message, dict) and message.get("id") == id \
                    and "method" not in message:
                return self.aside.pop(at)
        end = time.monotonic() + timeout
        while True:
            message = self.recv(max(0.01, end - time.monotonic()))
            if message is None:
                raise AssertionError(f"ended; stderr: {self.stderr}")
            if isinstance(message, dict) and message.get("id") == id \
                    and "method" not in message:
                return message
            self.aside.append(message)

    def ask(self, method, params=None, timeout=30.0, **how):
        return self.reply(self.request(method, params, **how), timeout)

    def tool(self, name, arguments=None, timeout=30.0, **how):
        """The result object of a tool call."""
        reply = self.ask("tools/call", {"name": name,
                                        "arguments": arguments or {}},
                         timeout, **how)
        assert "result" in reply, reply
        return reply["result"]

    def initialize(self, version="2025-11-25"):
        """The handshake of the older revisions."""
        reply = self.ask("initialize", {
            "protocolVersion": version, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}, modern=False)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return reply

    def notify(self, method, **params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def cancel(self, id):
        self.notify("notifications/cancelled", requestId=id)

    def end_input(self):
        if not self.child.stdin.closed:
            self.child.stdin.close()

    def wait(self, timeout=30.0):
        code = self.child.wait(timeout)
        for thread in self.threads:
            thread.join(5)
        return code

    def close(self, timeout=30.0):
        """Ends the input and returns the exit status."""
        self.end_input()
        try:
            return self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            raise AssertionError("still there after the end of its input; "
                                 f"stderr: {self.stderr}") from None

    def kill(self, number=signal.SIGKILL):
        if self.child.poll() is None:
            self.child.send_signal(number)

    def dispose(self):
        self.reading.set()
        self.kill()
        self.child.wait()
        for thread in self.threads:
            thread.join(5)
        for f in (self.child.stdin, self.child.stderr, self.child.stdout):
            try:
                f.close()
            except OSError:
                pass
