# SPDX-License-Identifier: Apache-2.0
"""A hello-world MCP server on fastmcp, on stdio or "http PORT": a peer of make
bench."""

import sys

from fastmcp import FastMCP

mcp = FastMCP("hello")


@mcp.tool
def hello(name: str) -> str:
    """greets"""
    return f"Hello, {name}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        mcp.run(show_banner=False, transport="http", host="127.0.0.1",
                port=int(sys.argv[2]))
    else:
        mcp.run(show_banner=False)
