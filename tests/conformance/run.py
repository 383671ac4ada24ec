#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py FIXTURE [REVISION...] - the official MCP conformance suite.

Three ways: over HTTP, a process for each connection as systemd starts them, and
as "serve" does; and over lines, with a bridge in between, as the suite speaks
HTTP only.  What can't
pass is in baseline-http-REVISION.yaml and, with what the bridge gets wrong, in
baseline-REVISION.yaml; a scenario of that list that passes is a failure too.
At last the product under "serve", in the scenarios that need no fixture.
What is needed comes from npm, pinned in package-lock.json, and stays in the
user's cache.
"""
import fcntl
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from standin.ports import free_port                             # noqa: E402

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME")
                     or pathlib.Path.home() / ".cache")
PACKAGES = CACHE / "mcp-sandbox" / "npm"
REVISIONS = ["2026-07-28", "2025-11-25"]
# Not scored, and passed all the same.
EXTRA = {"2026-07-28": ["http-header-validation", "json-schema-2020-12",
                        "http-custom-header-server-validation"]}
# What any server can pass, without a tool made for the suite.
ANY_SERVER = {
    "2026-07-28": ["tools-list", "resources-list", "sep-2164-resource-not-found",
                   "dns-rebinding-protection", "server-sse-multiple-streams",
                   "input-required-result-unsupported-methods",
                   "http-header-validation"],
    "2025-11-25": ["server-initialize", "ping", "tools-list", "resources-list",
                   "dns-rebinding-protection", "server-session-lifecycle"],
}
# It is not asked anything, so there need be no cluster.
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: u, user: {token: none}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""


def install():
    """npm ci, unless this very lock file is installed already."""
    PACKAGES.mkdir(parents=True, exist_ok=True)
    stamp = PACKAGES / "installed.json"
    lock = HERE / "package-lock.json"
    with open(PACKAGES / "lock", "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_bytes() == lock.read_bytes():
            return
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, PACKAGES)
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit",
                        "--no-fund", "--loglevel", "error"],
                       cwd=PACKAGES, stdout=sys.stderr, check=True)
        shutil.copy(lock, stamp)


def node():
    found = list(PACKAGES.glob("node_modules/node-linux-*/bin/node"))
    return str(found[0]) if found else "node"


def script(package):
    return str(PACKAGES / "node_modules" / package / "dist" / "index.js")


def wait_for(port, server):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("run.py: the server did not start")


def scenarios(path):
    """The list under "server:"; both kinds of file are that simple."""
    if not path.exists():
        return []
    block = re.search(r"^server:\n((?:[ #].*\n|\n)*)", path.read_text(), re.M)
    return re.findall(r"^ +- ([\w-]+)$", block[1], re.M)


def run(way, revision, port, out):
    """Run the required scenarios; return those that passed and failed."""
    baseline = HERE / (f"baseline-{revision}.yaml" if way == "lines" else
                       f"baseline-http-{revision}.yaml")
    expect = (["--expected-failures", str(baseline)] if baseline.exists()
              else [])
    r = subprocess.run(
        [node(), script("@modelcontextprotocol/conformance"), "server",
         "--url", f"http://127.0.0.1:{port}/mcp", "--requirements", revision,
         *expect, "-o", str(out)],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=300)
    expected = scenarios(baseline)
    required = scenarios(PACKAGES / "node_modules/@modelcontextprotocol"
                         / f"conformance/requirements/{revision}.yaml")
    if way == "product":
        expected, required = [], ANY_SERVER[revision]
    summary = r.stdout.partition("=== SUMMARY ===")[2]
    marks = {name: mark for mark, name in
             re.findall(r"^([✓✗]) (\S+):", summary, re.M)}
    checked = [n for n in required if n not in expected]
    if way in ("http", "serve"):
        checked += EXTRA.get(revision, [])
    failed = [n for n in checked if marks.get(n) != "✓"]
    passed = [n for n in required if n in checked and n not in failed]
    if r.returncode != 0 and not failed and way != "product":
        failed.append("the suite itself")
    print(f"{revision} over {way}: {len(passed)} of {len(required)} required "
          f"scenarios; not this way: {', '.join(expected) or 'none'}")
    if failed:
        print(r.stdout[-6000:])
    for name in failed:
        print(f"FAILED {revision} {name}")
    return len(passed), len(failed)


def command(way, fixture, port):
    if way == "product":
        return [str(fixture.parents[2] / "mcp-sandbox"), "serve",
                f"--listen=127.0.0.1:{port}"]
    if way == "http":
        return ["systemd-socket-activate", "--inetd", "-a", "-l",
                f"127.0.0.1:{port}", str(fixture), "--http"]
    if way == "serve":
        return [str(fixture), "serve", f"127.0.0.1:{port}"]
    return [node(), script("supergateway"), "--stdio", str(fixture),
            "--outputTransport", "streamableHttp", "--port", str(port),
            "--logLevel", "none"]


def serve(way, fixture, revisions):
    """All revisions one way: how many passed and failed."""
    with tempfile.TemporaryDirectory() as tmp:
        return serve_in(pathlib.Path(tmp), way, fixture, revisions)


def serve_in(tmp, way, fixture, revisions):
    port = free_port()
    (tmp / "kubeconfig").write_text(KUBECONFIG)
    server = subprocess.Popen(
        command(way, fixture, port), stderr=subprocess.DEVNULL,
        env={**os.environ, "KUBECONFIG": str(tmp / "kubeconfig")},
        start_new_session=True)
    passed = failed = 0
    try:
        wait_for(port, server)
        for revision in revisions:
            good, bad = run(way, revision, port, tmp / revision)
            passed += good
            failed += bad
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)
    return passed, failed


def main():
    fixture = pathlib.Path(sys.argv[1]).resolve()
    install()
    ways = ["serve", "lines", "product"]
    if shutil.which("systemd-socket-activate"):
        ways.insert(0, "http")
    done = [serve(way, fixture, sys.argv[2:] or REVISIONS) for way in ways]
    passed, failed = map(sum, zip(*done))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main())
