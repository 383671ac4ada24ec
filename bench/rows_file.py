# SPDX-License-Identifier: Apache-2.0
"""A large file in and out in pieces against one PUT and one GET of it through
a bare tunnel, and the memory it takes."""

import base64
import time

import rawtunnel
from measure import Failed, Row, hello, kb, tool

TITLE = "Files"
IN = 32 << 20
OUT = 32 << 20
SOME = 128 << 20
WHOLE = 1 << 30
NAMES = {SOME: "128 MB", WHOLE: "1 GB"}


def place_rows(bench, place):
    sizes = [SOME] + ([WHOLE] if bench.full or
                      place.name != "stand-in" else [])
    for way in place.pools:
        with place.sandbox(bench.probe, way) as handle:
            for size in sizes if way == "tunnel" else sizes[:1]:
                bare = bare_tunnel(place, handle, size) \
                    if way == "tunnel" else None
                yield moved(bench, place, way, handle, (size, IN), "upload",
                            upload(size, handle), bare and bare[0])
                yield moved(bench, place, way, handle, (size, OUT),
                            "download", download(size, handle),
                            bare and bare[1])


def bare_tunnel(place, handle, size):
    """MB/s of one PUT and one GET."""
    where = place.cert, place.namespace, place.pod(handle), 8080
    tunnel = rawtunnel.Tunnel(*where)
    begin = time.perf_counter()
    tunnel.put("/v1/files/bare", size)
    put = time.perf_counter()
    if tunnel.get("/v1/files/bare") != size:
        raise Failed("the bare tunnel lost some")
    got = time.perf_counter()
    tunnel.sock.close()
    return size / 1e6 / (put - begin), size / 1e6 / (got - put)


def upload(size, handle):
    """The whole file, its first piece new, the others at its end."""
    content = base64.b64encode(bytes(IN)).decode()
    first = tool(1, "upload_file", path="big", content=content, binary=True,
                 **handle)
    more = tool(2, "upload_file", path="big", content=content, binary=True,
                offset=-1, **handle)
    return [first, (size // IN - 1, more)]


def download(size, handle):
    return [tool(i, "download_file", path="big", binary=True,
                 offset=i * OUT, length=OUT, **handle)
            for i in range(-(-size // OUT))]


def moved(bench, place, way, handle, sizes, what, calls, bare):
    size, piece = sizes
    said = []
    run = bench.probe.talk(place.server(way), [
        *hello(), *calls, tool(3, "stat_file", path="big", **handle)],
        quiet=True, replies=said)[0]
    if said[-1]["result"]["structuredContent"]["size"] != size:
        raise Failed(f"{what}: the file has another size")
    speed = size / run["all_us"]
    # The first one finds the way in.
    best = piece / bench.judge(run["us"][2:-1])
    row = Row(f"{way}: {what} of {NAMES[size]} in pieces of "
              f"{name(piece)}",
              f"{speed:.0f} MB/s (a piece {best:.0f} MB/s{bench.judged}), "
              f"peak {kb(run['hwm_kb'])}, "
              f"{run['cpu_us'] / 1e3 / (size >> 20):.1f} ms CPU a MB",
              [], "<= 4 MB", run["hwm_kb"] <= 4096)
    if bare:
        row.peers.append(f"a bare tunnel: {bare:.0f} MB/s")
        row.target = ">= 60 % of it, <= 4 MB"
        row.met &= best >= 0.6 * bare
    return row


def name(size):
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} KB"
