#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An agent as the original's, as far as a server can tell (cli-mcp-server 14):
no field of ours, /assign only once. A command has a bash of its own here."""

import hmac
import json
import os
import subprocess
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NOTICE = "[session state was reset \u2014 previous bash process exited]"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    token = os.environ.pop("SANDBOX_AUTH_TOKEN", "")

    def answer(self, status, value=None):
        data = b"" if value is None else json.dumps(value).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status, text):
        self.answer(status, {"error": text})

    def do_GET(self):
        # As when its shell has died: 503, but it is there.
        self.answer(503, {"status": "unhealthy"})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            request = json.loads(body)
        except ValueError:
            self.refuse(400, "invalid request body")
            return
        if self.path == "/assign":
            self.assign(request)
        elif self.path != "/exec":
            self.refuse(404, "not found")
        else:
            self.execute(request)

    def assign(self, request):
        if Handler.token:
            self.refuse(409, "already assigned")
        else:
            Handler.token = request["token"]
            self.answer(200)

    def execute(self, request):
        given = self.headers.get("Authorization", "")
        if not Handler.token:
            self.refuse(503, "agent not assigned")
        elif not given.startswith("Bearer "):
            self.refuse(401, "missing or invalid authorization header")
        elif not hmac.compare_digest(given[7:], Handler.token):
            self.refuse(401, "unauthorized")
        else:
            begin = time.monotonic()
            done = subprocess.run(
                ["bash", "-c", request["command"]], check=False,
                stdin=subprocess.DEVNULL, capture_output=True)
            self.answer(200, {
                "stdout": done.stdout.decode(errors="replace").rstrip("\n"),
                "stderr": done.stderr.decode(errors="replace").rstrip("\n"),
                "exit_code": done.returncode, "duration_ms":
                    int((time.monotonic() - begin) * 1000)})

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("", int(os.environ["MCP_SANDBOX_PORT"])), Handler).serve_forever()
