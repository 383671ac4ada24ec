# SPDX-License-Identifier: Apache-2.0
"""A hello-world MCP server on fastmcp: a peer of make bench."""

from fastmcp import FastMCP

mcp = FastMCP("hello")


@mcp.tool
def hello(name: str) -> str:
    """greets"""
    return f"Hello, {name}"


if __name__ == "__main__":
    mcp.run(show_banner=False)
