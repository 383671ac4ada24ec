# SPDX-License-Identifier: Apache-2.0
"""The servers we are measured against, fetched into the cache once. Each is
made as its own documents say; one that cannot be had is left out by name."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys

from measure import HERE, Failed, Peer

FASTMCP = "fastmcp==4.2.3"
KUBERNETES = "kubernetes-mcp-server@0.0.67"
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or
                     os.path.expanduser("~/.cache"), "mcp-sandbox/bench")


def run(*argv, cwd=None):
    if not shutil.which(argv[0]):
        raise Failed(f"no {argv[0]} on this machine")
    done = subprocess.run(argv, cwd=cwd, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(argv[:3])}: {done.stdout.strip()[-300:]}")


def digest(*things):
    h = hashlib.sha256()
    for thing in things:
        if os.path.exists(thing):
            with open(thing, "rb") as f:
                h.update(f.read())
        else:
            h.update(thing.encode())
    return h.hexdigest()[:12]


def cached(name, make):
    """The folder name in the cache, made by make(folder) if it is new."""
    folder = os.path.join(CACHE, name)
    os.makedirs(CACHE, exist_ok=True)
    with open(folder + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(os.path.join(folder, "done")):
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            make(folder)
            with open(os.path.join(folder, "done"), "w", encoding="ascii"):
                pass
    return folder


def go_hello():
    source = os.path.join(HERE, "go-hello")
    folder = cached("go-hello-" + digest(
        *(os.path.join(source, f) for f in ("main.go", "go.mod", "go.sum"))),
        lambda d: run("go", "build", "-C", source, "-trimpath", "-ldflags",
                      "-s -w", "-o", os.path.join(d, "hello")))
    return Peer("Go hello (go-sdk 1.8.0)", [os.path.join(folder, "hello")])


def kubernetes(kubeconfig):
    """The Go program inside the npm package, without the start of Node."""
    folder = cached("npm-" + digest(KUBERNETES), lambda d: run(
        "npm", "install", "--prefix", d, "--no-audit", "--no-fund",
        "--ignore-scripts", KUBERNETES))
    modules = os.path.join(folder, "node_modules")
    for package in sorted(os.listdir(modules)):
        binary = os.path.join(modules, package, "bin", package)
        if package.startswith("kubernetes-mcp-server-") and \
                os.access(binary, os.X_OK):
            return Peer("Go " + KUBERNETES.replace("@", " "), [binary],
                        kubeconfig)
    raise Failed(f"{KUBERNETES}: no program for this machine in it")


def fastmcp():
    def make(folder):
        run(sys.executable, "-m", "venv", folder)
        run(os.path.join(folder, "bin/pip"), "-q",
            "--disable-pip-version-check", "install", FASTMCP)

    folder = cached("venv-" + digest(FASTMCP), make)
    return Peer("Python " + FASTMCP.replace("==", " "),
                [os.path.join(folder, "bin/python"),
                 os.path.join(HERE, "hello.py")],
                FASTMCP_LOG_LEVEL="ERROR", FASTMCP_CHECK_FOR_UPDATES="off")


def all_peers(kubeconfig, say):
    found = []
    for make in (go_hello, lambda: kubernetes(kubeconfig), fastmcp):
        try:
            found.append(make())
        except (Failed, OSError) as e:
            say(f"left out: {e}")
    return found
