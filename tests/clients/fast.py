# SPDX-License-Identifier: Apache-2.0
"""A session of fastmcp's client: "stdio PROGRAM ARGS..." or "http URL"."""

import asyncio
import os
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main(way, *rest):
    where = (StdioTransport(command=rest[0], args=list(rest[1:]),
                            env=dict(os.environ))
             if way == "stdio" else rest[0])
    async with Client(where) as client:
        assert len(await client.list_tools()) > 10
        made = await client.call_tool("create_sandbox", {
            "warmpool": "py-pool", "namespace": "default"})
        done = await client.call_tool("execute_command", {
            "sandbox_claim_name":
            made.structured_content["sandbox_claim_name"],
            "namespace": "default", "command": "echo hi"})
        print(done.structured_content["stdout"], end="")


asyncio.run(main(*sys.argv[1:]))
