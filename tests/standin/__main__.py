# SPDX-License-Identifier: Apache-2.0
"""python -m standin: see README in this folder."""

import argparse
import asyncio
import json
import os
import signal
import sys

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "runtime"))

from .cluster import Cluster                                   # noqa: E402


async def end_of_input(end):
    """Sets the event when stdin is closed by who started us."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(4096):
        pass
    end.set()


async def serve(args):
    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in signal.SIGTERM, signal.SIGINT:
        loop.add_signal_handler(number, end.set)
    cluster = Cluster(args.dir, args.http)
    ready = await cluster.start(args.port)
    print(json.dumps(ready), flush=True)
    watch = None
    if not args.keep:
        watch = asyncio.ensure_future(end_of_input(end))
    await end.wait()
    await cluster.close()
    if watch:
        watch.cancel()


def main():
    parser = argparse.ArgumentParser(prog="standin")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--dir", required=True, help="state folder")
    parser.add_argument("--http", action="store_true",
                        help="no TLS, for pictures of the wire")
    parser.add_argument("--keep", action="store_true",
                        help="do not end when stdin ends")
    args = parser.parse_args()
    asyncio.run(serve(args))


if __name__ == "__main__":
    main()
