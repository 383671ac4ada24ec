# SPDX-License-Identifier: Apache-2.0
"""What every family of rows is made of: sessions timed from outside, rows
with a target, and places (the stand-in, a cluster) to run commands in."""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(ROOT, "tests"))

from program import clean_environment                          # noqa: E402

BINARY = os.environ.get("MCP_SANDBOX", os.path.join(ROOT, "mcp-sandbox"))
OURS = "mcp-sandbox"
MB = 1 << 20
OLD = {"protocolVersion": "2025-06-18", "capabilities": {},
       "clientInfo": {"name": "bench", "version": "1"}}


class Failed(Exception):
    """A figure that could not be taken; the text says why."""


@dataclass
class Row:
    """One line of the table. peers is a list of texts; met is None where
    there is no target."""
    what: str
    ours: str
    peers: list = field(default_factory=list)
    target: str = ""
    met: bool | None = None


def median(values):
    return statistics.median(values)


def p90(values):
    return sorted(values)[int(len(values) * 0.9)] if values else 0


def ms(us):
    return f"{us / 1000:.2f} ms" if us < 20000 else f"{us / 1000:.0f} ms"


def kb(n):
    return f"{n} KB" if n < 10240 else f"{n / 1024:.0f} MB"


def times(a, b):
    """How many times more a is."""
    return f"{a / b:.0f} x" if a >= 10 * b else f"{a / b:.1f} x"


def ask(number, method, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method,
            **({"params": params} if params else {})}


def ping(number=1):
    return ask(number, "ping")


def tool(number, name, **arguments):
    return ask(number, "tools/call", name=name, arguments=arguments)


def hello():
    """How a session of the older revisions begins, which all peers speak."""
    return [ask("hello", "initialize", **OLD),
            {"jsonrpc": "2.0", "method": "notifications/initialized"}]


class Peer:
    def __init__(self, name, argv, kubeconfig=None, binary=None, **env):
        self.name = name
        self.argv = argv
        self.binary = binary or argv[0]
        self.env = clean_environment(**env)
        if kubeconfig:
            self.env["KUBECONFIG"] = kubeconfig


class Probe:
    """Runs bench/probe.c; each run gives an object as described there."""

    def __init__(self, path, folder):
        self.path = path
        self.folder = folder

    def talk(self, peer, messages, runs=1, window=1, wrap=(), replies=None,
             rest_ms=0, quiet=False):
        """A message may be (n, message): sent n times. quiet: of what is
        said only the short lines, all errors among them, are looked at."""
        script = os.path.join(self.folder, "script")
        with open(script, "w", encoding="utf-8") as f:
            for message in messages:
                if isinstance(message, tuple):
                    f.write(f"*{message[0]}")
                    message = message[1]
                f.write(json.dumps(message, separators=(",", ":")) + "\n")
        out = os.path.join(self.folder, "replies")
        found = self.run([*["-q"] * quiet, "-n", str(runs), "-w", str(window),
                          "-i", str(rest_ms),
                          "-o", out, script, *wrap, *peer.argv], peer.env)
        with open(out, encoding="utf-8") as f:
            said = [json.loads(line) for line in f if line.strip()]
        said = [m for m in said if "id" in m and "method" not in m]
        for m in said:
            if "error" in m or m["result"].get("isError"):
                raise Failed(f"{peer.name}: {json.dumps(m)[:300]}")
        if replies is not None:
            replies[:] = said
        return found

    def command(self, argv, env, runs=1):
        """A command from start to end; a failure of it is one of ours."""
        found = self.run(["-c", "-n", str(runs), *argv], env)
        if any(r["status"] for r in found):
            raise Failed(f"{argv[0]}: exit status {found[0]['status']}")
        return found

    def run(self, arguments, env):
        done = subprocess.run([self.path, *arguments], env=env, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, errors="replace")
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["no word"]
            raise Failed(" / ".join((said[0], said[-1]))[:300])
        return [json.loads(line) for line in done.stdout.splitlines()]


class Place:
    """Where commands run. pools: the warm pool for each way in ("tunnel",
    "exec"); cert: a kubeconfig with a client certificate."""

    def __init__(self, name, kubeconfig, cert, namespace, pools, kubectl):
        self.name = name
        self.kubeconfig = kubeconfig
        self.cert = cert
        self.namespace = namespace
        self.pools = pools
        self.kubectl = [kubectl, "--kubeconfig", cert, "-n", namespace]

    def server(self, way="auto", kubeconfig=None):
        return Peer(OURS, [BINARY, "--session-id", "bench"],
                    kubeconfig or self.kubeconfig,
                    K8S_SANDBOX_CONNECTION__TYPE=way)

    @contextlib.contextmanager
    def sandbox(self, probe, way):
        """{"sandbox_claim_name", "namespace"} of a ready sandbox."""
        got = []
        probe.talk(self.server(way), [*hello(), tool(
            1, "create_sandbox", warmpool=self.pools[way],
            namespace=self.namespace, shutdown_after_seconds=3600)],
            replies=got)
        made = got[-1]["result"]["structuredContent"]
        handle = {"sandbox_claim_name": made["sandbox_claim_name"],
                  "namespace": self.namespace}
        try:
            yield handle
        finally:
            probe.talk(self.server(way),
                       [*hello(), tool(1, "delete_sandbox", **handle)])

    def pod(self, handle):
        """The name of a sandbox's pod."""
        return subprocess.run(
            [*self.kubectl, "get", "sandboxclaim",
             handle["sandbox_claim_name"], "-o",
             "jsonpath={.status.sandbox.name}"],
            check=True, stdout=subprocess.PIPE, text=True).stdout


def temporary():
    return tempfile.TemporaryDirectory(prefix="bench-")
