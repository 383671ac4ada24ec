#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make bench: measures, prints the table, writes it to BENCH.md.

Each rows_*.py of this folder is a family: TITLE, and rows(bench) or
place_rows(bench, place), which yield measure.Row as they are taken; the second
is called for the stand-in and for a cluster. Arguments name the families to
run (start, call, exec, ...); BENCH.md is only written when all of them ran.
"""

import contextlib
import datetime
import fcntl
import glob
import importlib
import os
import platform
import subprocess
import sys
import time

import peers
from measure import (BINARY, HERE, ROOT, Failed, Place, Probe, median,
                     temporary)
from standin.client import Standin

CLUSTER = os.path.join(ROOT, "tests/cluster")
STATE = os.environ.get("CLUSTER") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
    "mcp-sandbox/cluster")


class Bench:
    """What a family may use: probe, ours, peers, standin, place (the
    stand-in), folder, full, say()."""

    def __init__(self, folder, standin, probe):
        self.folder = folder
        self.standin = standin
        self.probe = Probe(probe, folder)
        self.full = os.environ.get("BENCH_FULL") == "1"
        self.notes = []
        self.loads = [os.getloadavg()[0]]
        standin.pool("sandboxd", runtime="sandboxd")
        standin.pool("none", runtime="none")
        self.place = Place(
            "stand-in", standin.kubeconfig, standin.kubeconfigs["cert"],
            "default", {"tunnel": "sandboxd", "exec": "none"}, "kubectl")
        self.ours = self.place.server()
        self.peers = peers.all_peers(standin.kubeconfig, self.say)

    @property
    def busy(self):
        return max(self.loads) > os.cpu_count() + 1

    @property
    def judged(self):
        return " (by the minimum)" if self.busy else ""

    def judge(self, values):
        """What a verdict on time goes by: on a busy machine a median says how
        long one waits for a processor."""
        return min(values) if self.busy else median(values)

    def say(self, text):
        print("  " + text, flush=True)
        self.notes.append(text)

    def rows(self, rows):
        """The rows of a family; one that cannot be taken ends it."""
        try:
            for row in rows:
                self.loads.append(os.getloadavg()[0])
                print(line(row), flush=True)
                yield row
        except (Failed, OSError, subprocess.CalledProcessError) as e:
            self.say(f"not all taken: {e}")

    def part(self, module, place):
        """(title, rows) of a family."""
        title = module.TITLE
        if hasattr(module, "place_rows"):
            title += ", " + place.name
            rows = module.place_rows(self, place)
        else:
            rows = module.rows(self)
        print(f"\n{title}", flush=True)
        return title, list(self.rows(rows))


def verdict(row):
    return "" if row.met is None else "yes" if row.met else "**no**"


def line(row):
    return "| " + " | ".join((row.what, row.ours, "<br>".join(row.peers),
                              row.target, verdict(row))) + " |"


def table(rows):
    return "\n".join([
        "| what | mcp-sandbox | peers | to reach | reached |",
        "|---|---|---|---|---|", *map(line, rows)])


def version(*argv):
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, text=True,
                              check=False)
        return done.stdout.strip().splitlines()[0]
    except (OSError, IndexError):
        return ""


def machine(bench):
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        model = next((x.split(":")[1].strip() for x in f
                      if x.startswith("model name")), platform.machine())
    cores = os.cpu_count()
    said = [
        f"{datetime.date.today()}, {model}, {cores} cores, "
        f"Linux {platform.release()}",
        ", ".join(filter(None, (version(BINARY, "--version"),
                                version("git", "-C", ROOT, "rev-parse",
                                        "--short", "HEAD"),
                                version("go", "version"),
                                "Python " + platform.python_version()))),
        f"load {min(bench.loads):.1f} to {max(bench.loads):.1f}" + (
            ": **others were at work, the times are too long**"
            if bench.busy else "")]
    return "\n".join("* " + x for x in said + bench.notes)


@contextlib.contextmanager
def cluster():
    """A real Kubernetes for a while, one at once a machine."""
    print("\nwaiting for /tmp/cluster.lock", flush=True)
    with open("/tmp/cluster.lock", "a", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ours = not os.path.exists(os.path.join(STATE, "run/pids"))
        env = {**os.environ, "PYTHON": sys.executable}
        try:
            for script in ("build.sh", "up.sh", "install.sh") if ours else ():
                subprocess.run([os.path.join(CLUSTER, script)], check=True,
                               stdout=subprocess.DEVNULL, env=env)
            yield Place("Kubernetes", os.path.join(STATE, "mcp.kubeconfig"),
                        os.path.join(STATE, "admin.kubeconfig"), "sandboxes",
                        {"tunnel": "warm", "exec": "plain"},
                        os.path.join(STATE, "bin/kubectl"))
        finally:
            if ours and os.environ.get("K8S_KEEP") != "1":
                subprocess.run([os.path.join(CLUSTER, "down.sh")],
                               check=False, stdout=subprocess.DEVNULL)


def families(wanted):
    """start before all else: it is what a busy machine spoils first."""
    names = sorted((os.path.basename(f)[5:-3] for f in
                    glob.glob(os.path.join(HERE, "rows_*.py"))),
                   key=lambda n: (n != "start", n))
    return [importlib.import_module("rows_" + n) for n in names
            if not wanted or n in wanted]


def main(probe, *wanted):
    begin = time.monotonic()
    modules = families(wanted)
    with temporary() as folder, Standin() as standin:
        bench = Bench(folder, standin, probe)
        parts = [bench.part(m, bench.place) for m in modules]
        if os.environ.get("BENCH_CLUSTER") == "1":
            with cluster() as place:
                parts += [bench.part(m, place) for m in modules
                          if hasattr(m, "place_rows")]
        text = (
            "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
            "# What mcp-sandbox costs\n\nWritten by `make bench`; "
            "`bench/README.md` says how. 1 MB is 1048576 bytes.\n\n"
            + machine(bench) + "\n" +
            "".join(f"\n## {t}\n\n{table(r)}\n" for t, r in parts))
    met = [r.met for _, rows in parts for r in rows if r.met is not None]
    print(f"\n{met.count(True)} of {len(met)} targets reached, "
          f"{time.monotonic() - begin:.0f} s")
    if not wanted:
        with open(os.path.join(ROOT, "BENCH.md"), "w",
                  encoding="utf-8") as f:
            f.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
