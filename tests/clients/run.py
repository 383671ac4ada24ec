#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py PROGRAM - real MCP clients use it, over stdio and over HTTP.

Each is what its makers publish, pinned here, installed into the user's cache.
One that the registry does not give is left out, and its line says why.  What
they use are a stand-in's sandboxes; none needs a model or an account.
"""

import fcntl
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from program import clean_environment  # noqa: E402
from standin.client import Standin  # noqa: E402
from web import Server  # noqa: E402

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME")
                     or pathlib.Path.home() / ".cache") / "mcp-sandbox"
FASTMCP = "fastmcp==4.2.3"
INSTALL_S, CLIENT_S = 240, 90


class LeftOut(Exception):
    """Why a client can't be had."""


def install(*argv, **how):
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, timeout=INSTALL_S,
                              **how)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise LeftOut(str(e)) from e
    if done.returncode:
        raise LeftOut(" ".join(done.stdout.split())[:300])


def cached(name, stamp, make):
    """A folder of the cache that make(folder) fills, for this stamp."""
    folder = CACHE / "clients" / name
    folder.mkdir(parents=True, exist_ok=True)
    with open(str(folder) + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "installed"
        if not done.exists() or done.read_text() != stamp:
            shutil.rmtree(folder)
            folder.mkdir()
            make(folder)
            done.write_text(stamp)
    return folder


def npm():
    """What npm has of them."""
    def make(folder):
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, folder)
        # Not "ci": one of the Inspector's optional packages is nowhere.
        install("npm", "install", "--ignore-scripts", "--no-audit",
                "--no-fund", "--loglevel", "error", cwd=folder)

    lock = (HERE / "package-lock.json").read_text()
    return cached("npm", lock, make) / "node_modules"


def node():
    """A folder with a new node: that of the conformance suite."""
    spec = importlib.util.spec_from_file_location(
        "suite", HERE.parent / "conformance/run.py")
    suite = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(suite)
    try:
        suite.install()
    except (OSError, subprocess.CalledProcessError) as e:
        raise LeftOut(f"node: {e}") from e
    return os.path.dirname(suite.node())


class Place:
    """What clients are given: the program, a stand-in, a server."""

    def __init__(self, program, standin, server, folder):
        self.program = program
        self.url = f"http://127.0.0.1:{server.port}/mcp"
        self.folder = folder
        self.kubeconfig = standin.kubeconfig
        self.env = clean_environment(KUBECONFIG=standin.kubeconfig,
                                     HOME=str(folder))

    def run(self, *argv, **more):
        done = subprocess.run(
            argv, env={**self.env, **more}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=CLIENT_S, cwd=self.folder)
        assert done.returncode == 0, (argv[:2], done.returncode,
                                      done.stdout[-1500:], done.stderr[-1500:])
        return done.stdout

    def both(self, *argv, **more):
        for way in (["stdio", self.program], ["http", self.url]):
            assert self.run(*argv, *way, **more) == "hi\n"


def sdk(place):
    """Python mcp"""
    place.both(sys.executable, str(HERE / "sdk.py"))


def fast(place):
    """fastmcp"""
    def make(folder):
        install(sys.executable, "-m", "venv", str(folder))
        install(str(folder / "bin/pip"), "-q", "--disable-pip-version-check",
                "install", FASTMCP)

    folder = cached("fastmcp", FASTMCP, make)
    place.both(str(folder / "bin/python"), str(HERE / "fast.py"),
               FASTMCP_LOG_LEVEL="ERROR", FASTMCP_CHECK_FOR_UPDATES="off")


def go(place):
    """go-sdk"""
    source = HERE / "go"
    stamp = "".join((source / n).read_text()
                    for n in ("main.go", "go.mod", "go.sum"))
    folder = cached("go", stamp, lambda d: install(
        "go", "build", "-C", str(source), "-trimpath", "-o",
        str(d / "client")))
    place.both(str(folder / "client"))


def inspector(place):
    """MCP Inspector"""
    modules = npm()
    argv = [str(modules / ".bin/mcp-inspector"), "--cli", "-q", "--format",
            "json"]
    env = {"PATH": f"{node()}:{os.environ['PATH']}",
           "MCP_STORAGE_DIR": str(place.folder)}
    for era in ("legacy", "modern"):
        for where in ([place.program, "-e", f"KUBECONFIG={place.kubeconfig}"],
                      [place.url, "--transport", "http"]):
            common = [*argv, "--protocol-era", era, *where]
            listed = place.run(*common, "--method", "tools/list", "--strict",
                               **env)
            assert "execute_command" in listed
            made = json.loads(place.run(
                *common, "--method", "tools/call", "--tool-name",
                "create_sandbox", "--tool-args-json",
                '{"warmpool":"py-pool","namespace":"default"}', **env))
            assert "sandbox_claim_name" in json.dumps(made)


def claude(place):
    """Claude Code"""
    env = {"DISABLE_AUTOUPDATER": "1",
           "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    found = sorted(npm().glob("@anthropic-ai/claude-code-linux-*/claude"),
                   key=lambda path: "musl" in str(path))
    if not found:
        raise LeftOut("no program for this machine in it")
    program = str(found[0])
    place.run(program, "mcp", "add", "lines", "--", place.program, **env)
    place.run(program, "mcp", "add", "--transport", "http", "web", place.url,
              **env)
    told = place.run(program, "mcp", "list", **env)
    connected = [line.partition(":")[0] for line in told.splitlines()
                 if "Connected" in line]
    assert sorted(connected) == ["lines", "web"], told


def main(program):
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder, Standin(
            os.path.join(folder, "standin")) as standin:
        standin.pool("py-pool")
        server = Server("serve", kubeconfig=standin.kubeconfig)
        home = pathlib.Path(folder) / "home"
        home.mkdir()
        place = Place(program, standin, server, home)
        for client in (sdk, fast, go, inspector, claude):
            try:
                client(place)
            except LeftOut as e:
                print(f"left out: {client.__doc__}: {e}", flush=True)
            except Exception as e:  # pylint: disable=broad-except
                failed += 1
                print(f"FAILED {client.__doc__}: {e}", flush=True)
            else:
                passed += 1
                print(f"ok {client.__doc__}", flush=True)
        server.close()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(os.path.abspath(sys.argv[1])))
