# SPDX-License-Identifier: Apache-2.0
"""execute_command against kubectl exec and a bare round trip: latency, and
memory for any amount of output."""

import rawtunnel
from measure import Row, hello, kb, median, ms, tool

TITLE = "Commands"
RUNS = 60
SIZES = [("1 KB", 1 << 10), ("1 MB", 1 << 20), ("100 MB", 100 << 20)]
WHOLE = ("1 GB", 1 << 30)


def place_rows(bench, place):
    for way in place.pools:
        with place.sandbox(bench.probe, way) as handle:
            yield later(bench, place, way, handle)
            yield from output(bench, place, way, handle)


def later(bench, place, way, handle):
    """The second command and those after it, in one session."""
    script = [*hello(), *(
        tool(i, "execute_command", command="true", **handle)
        for i in range(RUNS))]
    run = bench.probe.talk(place.server(way), script)[0]
    first, rest = run["us"][1], run["us"][2:]
    row = Row(f"{way}: a further command (`true`)",
              f"{ms(median(rest))} (min {ms(min(rest))}, first {ms(first)})")
    pod = place.pod(handle)
    if way == "tunnel":
        where = place.cert, place.namespace, pod
        bare = rawtunnel.round_trips(
            rawtunnel.Tunnel(*where, 8080), "/v1/health", RUNS)
        same = rawtunnel.round_trips(
            rawtunnel.Commands(*where, 9090), "true", RUNS)
        over = min(rest) - min(same)
        row.ours += f"; {ms(over)} over the same by a bare tunnel"
        row.peers += [f"the same by a bare tunnel: {ms(median(same))} "
                      f"(min {ms(min(same))})",
                      f"a bare GET of its health: {ms(median(bare))} "
                      f"(min {ms(min(bare))})"]
        row.target, row.met = "<= 1 ms over it", over <= 1000
    kubectl = [r["wall_us"] for r in bench.probe.command(
        [*place.kubectl, "exec", pod, "--", "true"],
        place.server().env, 8)]
    row.peers.append(f"kubectl exec: {ms(median(kubectl))}")
    return row


def output(bench, place, way, handle):
    pod = place.pod(handle)
    for name, size in SIZES + ([WHOLE] if bench.full or
                               place.name != "stand-in" else []):
        command = f"head -c {size} /dev/zero"
        run = bench.probe.talk(place.server(way), [*hello(), tool(
            1, "execute_command", command=command, timeout=300,
            **handle)])[0]
        row = Row(f"{way}: peak memory, {name} of output",
                  f"{kb(run['hwm_kb'])}, {speed(size, run['us'][1])}",
                  [], "<= 3 MB", run["hwm_kb"] <= 3 * 1024)
        if size < WHOLE[1]:
            peer = bench.probe.command(
                [*place.kubectl, "exec", pod, "--", "sh", "-c", command],
                place.server().env)[0]
            row.peers.append(f"kubectl exec: {kb(peer['maxrss_kb'])}, "
                             f"{speed(size, peer['wall_us'])}")
        yield row


def speed(size, us):
    if size < 1 << 20:
        return ms(us)
    return f"{size / 1e6 / (us / 1e6):.0f} MB/s"
