# SPDX-License-Identifier: Apache-2.0
"""Start, memory and speed of the protocol, without a call to a cluster."""

import os
import re
import shutil

from measure import (BINARY, MB, Row, ask, hello, kb, median, ms, p90, ping,
                     times)

TITLE = "Start and protocol"
ROUNDS, ROUND = 8, 5
SLOW_US = 500 * 1000
RESTS, REST_MS = 3, 300


def rows(bench):
    yield from start(bench)
    yield size(bench)
    yield from calls(bench)
    yield from speed(bench)


def start(bench):
    """In turns, so that a loaded moment does not hit one of them only."""
    servers = [bench.ours, *bench.peers]
    found = {s.name: [] for s in servers}
    slow = {s.name for s in servers
            if bench.probe.talk(s, [ping()])[0]["first_us"] > SLOW_US}
    for _ in range(ROUNDS):
        for s in servers:
            found[s.name] += bench.probe.talk(
                s, [ping()], 1 if s.name in slow else ROUND)
    first = {n: [r["first_us"] for r in v] for n, v in found.items()}
    cpu = {n: [r["cpu_us"] for r in v] for n, v in found.items()}
    mine = first.pop(bench.ours.name)
    yield Row("exec to first reply, median",
              f"{ms(median(mine))} (p90 {ms(p90(mine))}, "
              f"min {ms(min(mine))})",
              [f"{n}: {ms(median(v))} (p90 {ms(p90(v))}, min {ms(min(v))})"
               for n, v in first.items()],
              "<= 1 ms" + bench.judged, bench.judge(mine) <= 1000)
    for name, values in first.items():
        ratio = bench.judge(values) / bench.judge(mine)
        goal = name.startswith("Go ")
        yield Row(f"sooner than {name}",
                  f"{times(median(values), median(mine))} (of minima "
                  f"{times(min(values), min(mine))})", [],
                  ">= 10 x" if goal else "", ratio >= 10 if goal else None)
    mine = cpu.pop(bench.ours.name)
    yield Row("CPU of that session", ms(median(mine)),
              [f"{n}: {ms(median(v))}" for n, v in cpu.items()])
    found = {s.name: bench.probe.talk(s, [ping()], RESTS, rest_ms=REST_MS)
             for s in servers}
    idle = {n: median([r["rss_kb"] for r in v]) for n, v in found.items()}
    mine = idle.pop(bench.ours.name)
    private = median([r["private_kb"] for r in found[bench.ours.name]])
    yield Row(f"idle memory, {REST_MS} ms after the first reply",
              f"{kb(round(mine))}, {kb(round(private))} of it no file",
              [f"{n}: {kb(round(v))}" for n, v in idle.items()],
              "<= 1 MB", mine * 1024 <= MB)


def size(bench):
    size = os.path.getsize(BINARY)
    return Row("size of the program", f"{size / 1000:.0f} kB",
               [f"{p.name}: {os.path.getsize(p.binary) / 1e6:.1f} MB"
                for p in bench.peers if not p.name.startswith("Python")],
               "<= 1 MB", size <= MB)


def strace(bench, peer):
    """How many system calls a session of one ping makes."""
    out = os.path.join(bench.folder, "strace")
    bench.probe.talk(peer, [ping()],
                     wrap=["strace", "-f", "-c", "-o", out])
    with open(out, encoding="utf-8") as f:
        return int(re.search(r"(\d+)\s+(?:\d+\s+)?total", f.read())[1])


def calls(bench):
    if not shutil.which("strace"):
        bench.say("left out: system calls (no strace)")
        return
    yield Row("system calls of a session: start, ping, end",
              str(strace(bench, bench.ours)),
              [f"{p.name}: {strace(bench, p)}" for p in bench.peers])


def speed(bench):
    for window in (1, 16):
        rate = {}
        for s in (bench.ours, *bench.peers):
            n = 5000 if s is bench.ours else 200
            script = hello() + [ask(i, "tools/list") for i in range(n)]
            rate[s.name] = max(
                n * 1e6 / r["all_us"] for r in
                bench.probe.talk(s, script, runs=3, window=window))
        mine = rate.pop(bench.ours.name)
        yield Row(f"tools/list a second, {window} under way",
                  f"{mine:.0f}", [f"{n}: {v:.0f} ({times(mine, v)})"
                                  for n, v in rate.items()])
