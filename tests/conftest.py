# SPDX-License-Identifier: Apache-2.0
"""What the black-box tests share: the stand-in, the program, an MCP client."""

import os
import re
import sys
from contextlib import asynccontextmanager

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from program import BINARY, Program, clean_environment         # noqa: E402
from standin.client import Standin                             # noqa: E402


@pytest.fixture(scope="session")
def standin_process():
    with Standin() as standin:
        yield standin


@pytest.fixture
def standin(standin_process):
    """A stand-in with nothing in it but namespaces."""
    standin_process.reset()
    return standin_process


@pytest.fixture
def start(standin):
    """start(*args, kubeconfig=..., env=...) gives a running Program."""
    running = []

    def begin(*args, kubeconfig=None, env=None, **how):
        if not os.path.exists(BINARY):
            pytest.fail(f"{BINARY} is not there: run make first")
        settings = clean_environment(**(env or {}))
        settings.setdefault("KUBECONFIG", kubeconfig or standin.kubeconfig)
        running.append(Program(*args, env=settings, **how))
        return running[-1]

    yield begin
    for program in running:
        program.dispose()
    for program in running:
        keeps_secrets(program, standin)


POD = re.compile(rb"\b127\.(?:1\d\d|2[0-5]\d)\.\d+\.\d+\b")


def keeps_secrets(program, standin):
    """No output ever holds a token or the address of a pod."""
    said = bytes(program.output + program.errors)
    for token in standin.tokens.values():
        assert token.encode() not in said
    assert not POD.search(said), POD.search(said)


@pytest.fixture
def server(start):
    """The program with its defaults and the stand-in's kubeconfig."""
    return start()


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def mcp_client(standin):
    """async with mcp_client(mode="auto") as client: the real mcp.Client."""
    import mcp

    @asynccontextmanager
    async def connect(*args, kubeconfig=None, env=None, **client):
        settings = clean_environment(**(env or {}))
        settings.setdefault("KUBECONFIG", kubeconfig or standin.kubeconfig)
        parameters = mcp.StdioServerParameters(
            command=BINARY, args=list(args), env=settings)
        async with mcp.Client(parameters, **client) as connected:
            yield connected

    return connect
