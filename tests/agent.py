# SPDX-License-Identifier: Apache-2.0
"""Runs mcp-sandbox-agent on loopback and speaks HTTP to it."""

import http.client
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BINARY = os.environ.get("MCP_SANDBOX_AGENT",
                        os.path.join(ROOT, "mcp-sandbox-agent"))
TOKEN = "tok"
NOTICE = "[session state was reset \u2014 previous bash process exited]"


def shells():
    """The shells to be found here, by the name the tests give them."""
    found = {name: shutil.which(name) for name in ("bash", "dash")}
    found["ash"] = shutil.which("busybox")
    return {name: path for name, path in found.items() if path}


class Agent:
    def __init__(self, *args, shell=None, token=TOKEN, env=None, cwd=None):
        self.dir = tempfile.mkdtemp(prefix="agent-")
        self.root = os.path.join(self.dir, "root")
        os.mkdir(self.root)
        if shell == "ash":      # what it is depends on its name
            os.symlink(shells()["ash"], os.path.join(self.dir, "sh"))
            shell = os.path.join(self.dir, "sh")
        settings = {k: v for k, v in os.environ.items()
                    if not k.startswith(("MCP_", "SANDBOX_"))}
        settings.update(env or {}, HOME=self.root)
        if token:
            settings["SANDBOX_AUTH_TOKEN"] = token
        self.token = token or TOKEN
        self.process = subprocess.Popen(
            [BINARY, "--port", "0", *(["--shell", shell] if shell else []),
             *args], env=settings, cwd=cwd or self.root, text=True,
            stderr=subprocess.PIPE, start_new_session=True)
        line = self.process.stderr.readline()
        assert "listens" in line, line + self.process.stderr.read()
        self.port = int(re.search(r"port (\d+)", line)[1])
        self.connection = self.connect()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def socket(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def request(self, method, path, body=None, headers=None, connection=None,
                auth=True):
        """(status, headers, body)"""
        headers = dict(headers or {})
        if auth:
            headers.setdefault("Authorization", "Bearer " + self.token)
        connection = connection or self.connection
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def json(self, method, path, body=None, **how):
        """The object of an answer that must be a good one."""
        status, _, text = self.request(
            method, path, None if body is None else json.dumps(body), **how)
        assert status == 200, (status, text)
        return json.loads(text)

    def run(self, command, **more):
        return self.json("POST", "/exec", {"command": command, **more})

    def send_exec(self, command, **more):
        """A socket on which a command was sent, unanswered."""
        body = json.dumps({"command": command, **more}).encode()
        s = self.socket()
        s.sendall(b"POST /exec HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer "
                  b"%s\r\nContent-Length: %d\r\n\r\n%s"
                  % (self.token.encode(), len(body), body))
        return s

    def end(self, signo=signal.SIGTERM):
        self.connection.close()
        if self.process.poll() is None:
            self.process.send_signal(signo)
        code = self.process.wait(timeout=30)
        self.errors = self.process.stderr.read()
        return code

    def dispose(self):
        self.end(signal.SIGKILL)
        self.process.stderr.close()
        shutil.rmtree(self.dir, ignore_errors=True)


SLEEPS = itertools.count(10 ** 7 + os.getpid() * 1000)


def forever():
    """What `sleep` is told by this test and by no other one that runs."""
    return str(next(SLEEPS))


def sleeping(*seconds):
    """The processes that sleep so long."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8",
                      errors="replace") as f:
                argv = f.read().split("\0")
        except OSError:             # it has ended meanwhile
            continue
        if argv[0].endswith(("sleep", "busybox")) and argv[-2] in seconds:
            found.append(pid)
    return [p for p in found if alive(p)]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
