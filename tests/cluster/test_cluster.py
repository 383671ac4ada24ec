# SPDX-License-Identifier: Apache-2.0
"""Sessions of the real program, on a real Kubernetes, with the real client.

Every test ends with nothing left: the fixture `clean` sees to it.  The server
is given a service account with the least rights, in a namespace that takes
only pods of the restricted level."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import kube
from support import eventually

BINARY = os.environ.get("MCP_SANDBOX") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "../../mcp-sandbox")
NS = "sandboxes"
TOOLS = {"create_sandbox", "get_sandbox_status", "execute_command",
         "list_sandboxes", "delete_sandbox"}
# How the server is told to get in, and the pool whose pods it meets.
WAYS = [("tunnel", "warm"), ("exec", "warm"), ("auto", "warm"),
        ("exec", "plain"), ("auto", "plain"), ("in-cluster", "warm"),
        ("sandboxd-in-cluster", "warm"), ("auto in a pod", "warm")]
# The host reaches the pods' addresses, as another pod would.
SETTINGS = {
    "in-cluster": {"K8S_SANDBOX_CONNECTION__USE_POD_IP": "true"},
    "sandboxd-in-cluster": {
        "K8S_SANDBOX_CONNECTION__MODE": "in-cluster-pod-ip"},
    "auto in a pod": {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}}

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


def environment(connection="auto", account="mcp", unschedulable_s=1, **more):
    return {"KUBECONFIG": os.path.join(kube.STATE, account + ".kubeconfig"),
            "K8S_SANDBOX_CONNECTION__TYPE": connection.removesuffix(
                " in a pod"),
            "MCP_SANDBOX_UNSCHEDULABLE_AFTER": str(unschedulable_s),
            **SETTINGS.get(connection, {}), **more}


@contextlib.asynccontextmanager
async def server(connection="auto", account="mcp", mode="auto", **more):
    params = StdioServerParameters(
        command=BINARY, env=environment(connection, account, **more))
    async with Client(stdio_client(params, errlog=sys.__stderr__),
                      mode=mode) as client:
        yield Server(client)


class Server:
    def __init__(self, client):
        self.client = client

    async def call(self, name, **args):
        """The structured result; a failure is an assertion."""
        r = await self.client.call_tool(name, {"namespace": NS, **args})
        assert not r.is_error, r.content
        return r.structured_content

    async def refused(self, name, **args):
        """The text of a failure."""
        r = await self.client.call_tool(name, {"namespace": NS, **args})
        assert r.is_error, r
        return r.content[0].text

    async def create(self, pool, **args):
        r = await self.call("create_sandbox", warmpool=pool, **args)
        return r["sandbox_claim_name"]

    async def run(self, claim, command, **args):
        return await self.call("execute_command", sandbox_claim_name=claim,
                               command=command, **args)


@pytest.fixture(autouse=True)
def clean(api):
    """Nothing is left: no claim, and no pod but the pools' own."""
    yield

    def left():
        return [o["metadata"]["name"] for ns in (NS, "quota", "foreign")
                for o in api.list("sandboxclaims", ns)]
    try:
        eventually("no claim is left", lambda: not left())
        eventually("no pod is left but the pools'", lambda: not [
            p for p in api.list("pods", NS)
            if "agents.x-k8s.io/claim-uid" in p["metadata"]["labels"]])
    finally:
        for ns in (NS, "quota", "foreign"):
            for name in left():
                api.delete("sandboxclaims", ns, name)


def in_pod(api, claim, script):
    """What the admin sees in a claim's pod."""
    obj = api.get("sandboxclaims", NS, claim)
    return subprocess.run(
        [kube.KUBECTL, "--kubeconfig", kube.ADMIN, "-n", NS, "exec",
         obj["status"]["sandbox"]["name"], "--", "sh", "-c", script],
        stdout=subprocess.PIPE, text=True).stdout


def running(api, claim, mark):
    """The live processes in the pod that have mark among their arguments."""
    return [line for line in in_pod(api, claim, "ps -o stat,args").split("\n")
            if mark in line and not line.startswith("Z")]


# ---- sessions

@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_server_is_discovered_in_both_eras(mode):
    async with server(mode=mode) as s:
        names = {t.name for t in (await s.client.list_tools()).tools}
        assert TOOLS <= names


@pytest.mark.parametrize("connection,pool", WAYS)
async def test_a_whole_session(api, connection, pool):
    async with server(connection) as s:
        claim = await s.create(pool)
        status = await s.call("get_sandbox_status", sandbox_claim_name=claim)
        assert (status["status"], status["ready"]) == ("SandboxReady", True)
        r = await s.run(claim, "echo out; echo err >&2; exit 7")
        assert (r["exit_code"], r["stdout"], r["stderr"]) == \
            (7, "out\n", "err\n")
        listed = (await s.call("list_sandboxes"))["sandboxes"]
        assert [x["sandbox_claim_name"] for x in listed] == [claim]
        await s.call("delete_sandbox", sandbox_claim_name=claim)
        status = await s.call("get_sandbox_status", sandbox_claim_name=claim)
        assert status["status"] == "SandboxNotFound"
        assert (await s.call("list_sandboxes"))["sandboxes"] == []
        assert claim in await s.refused(
            "execute_command", sandbox_claim_name=claim, command="true")


async def test_a_cold_start(api):
    async with server() as s:
        claim = await s.create("cold", labels={"team": "x"}, pod_annotations={
            "note": "n"}, pod_labels={"sandbox.users.io/a": "b"})
        obj = api.get("sandboxclaims", NS, claim)
        assert obj["metadata"]["labels"]["team"] == "x"
        pod = api.get("pods", NS, claim)["metadata"]
        assert pod["annotations"]["note"] == "n"
        assert pod["labels"]["sandbox.users.io/a"] == "b"
        assert (await s.run(claim, "id -u"))["stdout"] == "1000\n"
        await s.call("delete_sandbox", sandbox_claim_name=claim)


async def test_a_later_process_of_the_session_goes_on():
    async with server(MCP_SANDBOX_SESSION_ID="one") as s:
        claim = await s.create("warm")
        await s.run(claim, "echo kept > file")
    async with server(MCP_SANDBOX_SESSION_ID="two") as s:
        assert (await s.call("list_sandboxes"))["sandboxes"] == []
    async with server(MCP_SANDBOX_SESSION_ID="one") as s:
        listed = (await s.call("list_sandboxes"))["sandboxes"]
        assert [x["sandbox_claim_name"] for x in listed] == [claim]
        assert (await s.run(claim, "cat file"))["stdout"] == "kept\n"
        await s.call("delete_sandbox", sandbox_claim_name=claim)


COMMANDS = [
    ("true", 0, "", ""),
    ("exit 255", 255, "", ""),
    ("/nowhere/at/all 2> /dev/null", 127, "", ""),
    ("echo a | tr a b && echo $((2 + 3))", 0, "b\n5\n", ""),
    ("echo only >&2", 0, "", "only\n"),
    ("cat", 0, "", ""),
    ("printf 'é\\377\\n'", 0, "é\ufffd\n", ""),
    ("printf '%s' \"it's \\\"quoted\\\"\"", 0, "it's \"quoted\"", ""),
    ("for i in 1 2 3\ndo echo $i\ndone", 0, "1\n2\n3\n", ""),
]


@pytest.mark.parametrize("connection,pool", WAYS)
async def test_commands_give_what_a_shell_gives(connection, pool):
    async with server(connection) as s:
        claim = await s.create(pool)
        for command, code, out, err in COMMANDS:
            r = await s.run(claim, command)
            assert (r["exit_code"], r["stdout"], r["stderr"]) == \
                (code, out, err), command
        await s.call("delete_sandbox", sandbox_claim_name=claim)


@pytest.mark.parametrize("connection", ["tunnel", "exec"])
async def test_calls_of_one_session_run_side_by_side(connection):
    async with server(connection) as s:
        claim = await s.create("warm")
        # Each waits for the next one's file: in turn they would never end.
        results = await asyncio.gather(*(
            s.run(claim, f"touch /tmp/{i}; until [ -e /tmp/{(i + 1) % 8} ]; "
                  f"do sleep 0.1; done; echo {i}") for i in range(8)))
        assert [r["stdout"] for r in results] == [f"{i}\n" for i in range(8)]
        await s.call("delete_sandbox", sandbox_claim_name=claim)


@pytest.mark.parametrize("connection", ["tunnel", "exec"])
async def test_output_is_bounded_and_counted(connection):
    async with server(connection) as s:
        claim = await s.create("warm")
        r = await s.run(claim, "echo first; head -c 5242880 /dev/zero | "
                        "tr '\\0' x; echo; echo last; echo why >&2; exit 3",
                        max_output_chars=1000)
        assert r["exit_code"] == 3
        assert r["stdout_total_chars"] == 5242880 + 12
        assert r["stdout_truncated"] and not r["stderr_truncated"]
        assert len(r["stdout"]) == 1000 - len("why\n")
        assert r["stdout"].startswith("first\nxxx")
        assert r["stdout"].endswith("xxx\nlast\n")
        assert r["stderr"] == "why\n"
        await s.call("delete_sandbox", sandbox_claim_name=claim)


@pytest.mark.parametrize("connection,pool", WAYS)
async def test_timeout_ends_the_whole_process_tree(api, connection, pool):
    async with server(connection) as s:
        claim = await s.create(pool)
        r = await s.client.call_tool("execute_command", {
            "namespace": NS, "sandbox_claim_name": claim, "timeout": 2,
            "command": "echo begun; sleep 4321 & (setsid sleep 4321 &); "
                       "sleep 4321"})
        assert r.is_error and "timed out after 2 s" in r.content[0].text
        assert r.structured_content["status"] == "timed_out"
        assert r.structured_content["stdout"] == "begun\n"
        eventually("no process is left",
                   lambda: not running(api, claim, "4321"))
        assert (await s.run(claim, "echo on"))["stdout"] == "on\n"
        await s.call("delete_sandbox", sandbox_claim_name=claim)


@pytest.mark.parametrize("connection,pool", WAYS)
async def test_a_background_child_lives_on(api, connection, pool):
    async with server(connection) as s:
        claim = await s.create(pool)
        r = await s.run(claim, "sleep 4322 > /dev/null 2>&1 & echo started",
                        timeout=60)
        assert (r["exit_code"], r["stdout"]) == (0, "started\n")
        eventually("it alone is there", lambda: len(running(
            api, claim, "sleep 4322")) == 1)
        await s.call("delete_sandbox", sandbox_claim_name=claim)


@pytest.mark.parametrize("connection", ["tunnel", "exec"])
async def test_pod_that_goes_ends_the_command(api, connection):
    async with server(connection) as s:
        claim = await s.create("warm")
        task = asyncio.create_task(s.client.call_tool("execute_command", {
            "namespace": NS, "sandbox_claim_name": claim,
            "command": "sleep 4323"}))
        while not running(api, claim, "4323"):
            await asyncio.sleep(0.1)
        api.delete("sandboxclaims", NS, claim)
        r = await asyncio.wait_for(task, 30)
        # The runtime or the kubelet may still tell how the command ended.
        assert r.is_error or r.structured_content["exit_code"] != 0


# ---- refusals

BLOCKED = [
    (NS, "nowhere", "nowhere"),
    (NS, "orphan", 'SandboxTemplate "nowhere" not found'),
    (NS, "privileged", "violates PodSecurity"),
    (NS, "huge", "Insufficient cpu"),
    (NS, "badimage", "localhost/nowhere:1"),
    ("quota", "cold", "exceeded quota"),
]


@pytest.mark.parametrize("namespace,pool,text", BLOCKED)
async def test_first_blocking_fact_is_told_and_the_claim_removed(
        api, namespace, pool, text):
    async with server() as s:
        # Far less than sandbox_ready_timeout, which is 180 s.
        told = await asyncio.wait_for(s.refused(
            "create_sandbox", warmpool=pool, namespace=namespace), 60)
        assert text in told
        assert api.list("sandboxclaims", namespace) == []


async def test_time_out_of_a_create_removes_the_claim(api):
    async with server() as s:
        told = await s.refused("create_sandbox", warmpool="huge",
                               sandbox_ready_timeout=1)
        assert "within 1 s" in told or "Insufficient cpu" in told
        assert api.list("sandboxclaims", NS) == []


async def test_label_that_the_controller_would_refuse(api):
    async with server() as s:
        told = await s.refused("create_sandbox", warmpool="warm",
                               pod_labels={"team": "x"})
        assert "team" in told
        assert api.list("sandboxclaims", NS) == []


@pytest.mark.parametrize("account,namespace", [("mcp", "foreign"),
                                               ("outsider", NS)])
async def test_missing_rights_are_named(account, namespace):
    async with server(account=account) as s:
        for tool, args in (
                ("create_sandbox", {"warmpool": "warm"}),
                ("list_sandboxes", {}),
                ("get_sandbox_status", {"sandbox_claim_name": "x"}),
                ("delete_sandbox", {"sandbox_claim_name": "x"})):
            told = await s.refused(tool, namespace=namespace, **args)
            assert "forbidden" in told.lower(), (tool, told)
            assert namespace in told


# ---- ends

class Raw:
    """The program on a pipe, for the ends a client would not let happen."""

    def __init__(self, connection="auto"):
        self.p = subprocess.Popen(
            [BINARY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **environment(connection,
                                             unschedulable_s=600)})
        self.id = 0
        self.send("initialize", {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "raw", "version": "0"}})
        assert "result" in self.answer(self.id)
        self.write({"method": "notifications/initialized"})

    def write(self, message):
        self.p.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.p.stdin.flush()

    def send(self, method, params):
        self.id += 1
        self.write({"id": self.id, "method": method, "params": params})
        return self.id

    def call(self, name, **args):
        return self.send("tools/call", {
            "name": name, "arguments": {"namespace": NS, **args}})

    def answer(self, number):
        for line in self.p.stdout:
            message = json.loads(line)
            if message.get("id") == number:
                return message
        raise AssertionError(f"no answer to {number}")

    def create(self, pool, **args):
        r = self.answer(self.call("create_sandbox", warmpool=pool, **args))
        return r["result"]["structuredContent"]["sandbox_claim_name"]

    def end(self):
        self.p.kill()
        self.p.wait()
        self.p.stdin.close()
        self.p.stdout.close()


@pytest.fixture
def raw():
    made = []

    def start(**args):
        made.append(Raw(**args))
        return made[-1]

    yield start
    for r in made:
        r.end()


def claims(api):
    return [o["metadata"]["name"] for o in api.list("sandboxclaims", NS)]


def slow_create(raw, api):
    """A create that is under way, and stays so: no node fits its pod."""
    r = raw()
    number = r.call("create_sandbox", warmpool="huge",
                    shutdown_after_seconds=6)
    eventually("the claim is made", lambda: claims(api))
    return r, number


def test_killed_in_mid_create_it_leaves_nothing_for_long(api, raw):
    r, _ = slow_create(raw, api)
    r.p.send_signal(signal.SIGKILL)
    r.p.wait()
    eventually("the claim's own end", lambda: not claims(api))


@pytest.mark.parametrize("connection", ["tunnel", "exec"])
def test_killed_in_mid_command_it_leaves_nothing_for_long(
        api, raw, connection):
    r = raw(connection=connection)
    claim = r.create("warm", shutdown_after_seconds=12)
    r.call("execute_command", sandbox_claim_name=claim,
           command="sleep 4324 & sleep 4324")
    eventually("it runs", lambda: running(api, claim, "4324"))
    r.p.send_signal(signal.SIGKILL)
    r.p.wait()
    eventually("the claim's own end", lambda: not claims(api))


def test_killed_with_only_exec_its_command_ends_at_its_time(api, raw):
    r = raw(connection="exec")
    claim = r.create("plain")
    r.call("execute_command", sandbox_claim_name=claim, timeout=4,
           command="sleep 4326 & sleep 4326")
    eventually("it runs", lambda: len(running(api, claim, "sleep 4326")) >= 2)
    r.p.send_signal(signal.SIGKILL)
    r.p.wait()
    eventually("it is ended", lambda: not running(api, claim, "4326"))
    api.delete("sandboxclaims", NS, claim)


def test_cancelled_create_is_undone_silently(api, raw):
    r, number = slow_create(raw, api)
    r.write({"method": "notifications/cancelled",
             "params": {"requestId": number}})
    eventually("the claim is removed", lambda: not claims(api))
    r.send("ping", {})
    assert json.loads(r.p.stdout.readline())["id"] == r.id


@pytest.mark.parametrize("connection", ["tunnel", "exec"])
def test_cancelled_command_is_ended_in_the_pod(api, raw, connection):
    r = raw(connection=connection)
    claim = r.create("warm")
    number = r.call("execute_command", sandbox_claim_name=claim,
                    command="sleep 4325 & sleep 4325")
    eventually("it runs", lambda: len(running(api, claim, "sleep 4325")) >= 2)
    r.write({"method": "notifications/cancelled",
             "params": {"requestId": number}})
    eventually("it is ended", lambda: not running(api, claim, "4325"))
    r.answer(r.call("delete_sandbox", sandbox_claim_name=claim))


@pytest.mark.parametrize("how", ["end of input", "SIGTERM"])
def test_end_in_mid_create_removes_the_claim_first(api, raw, how):
    r, _ = slow_create(raw, api)
    if how == "SIGTERM":
        r.p.send_signal(signal.SIGTERM)
    else:
        r.p.stdin.close()
    assert r.p.wait(30) == 0
    assert claims(api) == []


@pytest.mark.parametrize("connection", ["tunnel", "exec"])
@pytest.mark.parametrize("how", ["end of input", "SIGTERM"])
def test_end_in_mid_command_ends_it_in_the_pod(api, raw, connection, how):
    # On a machine that is too busy it is named as left instead.
    for _ in range(3):
        r = raw(connection=connection)
        claim = r.create("warm")
        r.call("execute_command", sandbox_claim_name=claim,
               command="sleep 4327 & sleep 4327")
        eventually("it runs", lambda: len(running(
            api, claim, "sleep 4327")) >= 2)
        if how == "SIGTERM":
            r.p.send_signal(signal.SIGTERM)
        else:
            r.p.stdin.close()
        code = r.p.wait(30)
        eventually("it is ended", lambda: not running(api, claim, "4327"))
        api.delete("sandboxclaims", NS, claim)
        if code == 0:
            return
        assert code == 2
    pytest.fail("it never was in time")
