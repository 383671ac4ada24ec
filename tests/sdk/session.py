# SPDX-License-Identifier: Apache-2.0
"""The Python SDK's side of test_sdk.py, in an environment of its own: one
step by name, arguments and result as JSON."""

import json
import sys

from k8s_agent_sandbox import SandboxClient
from k8s_agent_sandbox.models import SandboxdInClusterConnectionConfig

KEY = "mcp.k8s-agent-sandbox/session-id"


def create(client, session):
    return client.create_sandbox("py-pool", "default",
                                 labels={KEY: session}).claim_name


def use(client, claim, path, text):
    """Reads what is there, writes, runs a command."""
    sandbox = client.get_sandbox(claim, "default")
    before = sandbox.files.read(path).decode() \
        if sandbox.files.exists(path) else None
    sandbox.files.write(path, text.encode())
    run = sandbox.commands.run(f"cat '{path}'")
    return {"before": before, "stdout": run.stdout, "code": run.exit_code,
            "names": [e.name for e in sandbox.files.list("d")]}


def listed(client, session):
    return client.list_all_sandboxes("default", f"{KEY}={session}")


def delete(client, claim):
    client.delete_sandbox(claim, "default")


client = SandboxClient(connection_config=SandboxdInClusterConnectionConfig(
    mode="in-cluster-pod-ip"))
json.dump(globals()[sys.argv[1]](client, *sys.argv[2:]), sys.stdout)
