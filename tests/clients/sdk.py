# SPDX-License-Identifier: Apache-2.0
"""A session of the official Python SDK: "stdio PROGRAM ARGS..." or "http URL"."""

import asyncio
import os
import sys

from mcp import Client, StdioServerParameters


async def main(way, *rest):
    where = (StdioServerParameters(command=rest[0], args=list(rest[1:]),
                                   env=dict(os.environ))
             if way == "stdio" else rest[0])
    async with Client(where) as client:
        assert len((await client.list_tools()).tools) > 10
        made = await client.call_tool("create_sandbox", {
            "warmpool": "py-pool", "namespace": "default"})
        done = await client.call_tool("execute_command", {
            "sandbox_claim_name":
            made.structured_content["sandbox_claim_name"],
            "namespace": "default", "command": "echo hi"})
        print(done.structured_content["stdout"], end="")


asyncio.run(main(*sys.argv[1:]))
