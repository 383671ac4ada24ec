# SPDX-License-Identifier: Apache-2.0
"""JSON-RPC and MCP in raw lines: both eras, ids, framing, limits."""

import json
import os
import re
import threading

import pytest

from blackbox import (begin_create, dumps, failure, memory_kb, not_sanitized,
                      stopped_reading)
from program import META, VERSION
from standin.client import TESTS, wait_for

LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
TOOLS = ["create_sandbox", "delete_sandbox", "execute_command",
         "get_sandbox_status", "list_sandboxes"]
ENVELOPE = {META + "protocolVersion": VERSION,
            META + "clientCapabilities": {}}


def call(id, method="ping", **params):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def served(program):
    """The next line is read as if nothing had been before."""
    assert program.ask("ping", modern=False, id="next")["result"] == {}


def refused(program, code=-32700):
    """The next answer is an error with this code and without an id."""
    reply = program.recv()
    assert "id" not in reply and reply["error"]["code"] == code, reply
    return reply["error"]["message"]


def out_of_place(program):
    """A long string whose message is read, but not what it holds."""
    reply = program.recv()
    assert reply["id"] == 1 and reply["error"]["code"] == -32600, reply
    return reply["error"]["message"]


# The two eras

@pytest.mark.anyio
@pytest.mark.parametrize("mode, version", [
    ("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_the_real_client_runs_a_session_in_both_eras(
        standin, mcp_client, mode, version):
    standin.pool()
    async with mcp_client(mode=mode) as client:
        assert client.protocol_version == version
        assert client.server_info.name == "mcp-sandbox"
        assert "create_sandbox" in client.instructions
        tools = (await client.list_tools()).tools
        assert set(TOOLS) <= {t.name for t in tools}
        made = await client.call_tool("create_sandbox", {
            "warmpool": "py-pool", "namespace": "default"})
        handle = {"namespace": "default", "sandbox_claim_name":
                  made.structured_content["sandbox_claim_name"]}
        ran = await client.call_tool("execute_command", {
            **handle, "command": "echo hello; exit 3"})
        assert not ran.is_error
        assert ran.structured_content["stdout"] == "hello\n"
        assert ran.structured_content["exit_code"] == 3
        found = await client.read_resource("sandboxes://default")
        assert [c.text for c in found.contents] == [
            handle["sandbox_claim_name"]]
        gone = await client.call_tool("delete_sandbox", handle)
        assert not gone.is_error and gone.structured_content is None


def test_discover_tells_all_and_every_result_says_it_is_complete(server):
    result = server.ask("server/discover")["result"]
    assert result["resultType"] == "complete"
    assert result["supportedVersions"] == [VERSION]
    assert {"tools", "resources"} <= set(result["capabilities"])
    assert result["_meta"][META + "serverInfo"]["name"] == "mcp-sandbox"
    assert (result["cacheScope"], result["ttlMs"] > 0) == ("public", True)
    listed = server.ask("tools/list")["result"]
    assert listed["resultType"] == "complete"
    assert listed["cacheScope"] == "public" and listed["ttlMs"] > 0
    read = server.ask("resources/read", {"uri": "sandboxes://default"})
    assert read["result"]["cacheScope"] == "private"
    assert read["result"]["ttlMs"] == 0
    assert read["result"]["contents"] == []


def test_older_clients_see_no_members_of_the_new_revision(server):
    server.initialize()
    for method in "ping", "tools/list", "resources/templates/list":
        result = server.ask(method, modern=False)["result"]
        assert not {"resultType", "ttlMs", "_meta"} & set(result)


@pytest.mark.parametrize("asked, answer", [
    *((v, v) for v in LEGACY), (VERSION, "2025-11-25"),
    ("2024-10-07", "2025-11-25"), ("1.0", "2025-11-25"),
    ("", "2025-11-25")])
def test_initialize_answers_a_revision_that_has_it(server, asked, answer):
    """users.md 85"""
    result = server.initialize(asked)["result"]
    assert result["protocolVersion"] == answer
    assert result["serverInfo"]["name"] == "mcp-sandbox"
    assert result["capabilities"]["tools"] == {}


def test_the_eras_may_be_mixed_and_ping_needs_no_handshake(server):
    served(server)
    assert "result" in server.ask("tools/list")
    server.initialize()
    assert "resultType" in server.ask("tools/list")["result"]
    assert "resultType" not in server.ask("tools/list",
                                          modern=False)["result"]
    server.initialize("2025-06-18")


@pytest.mark.parametrize("method", [
    "initialize", "ping", "logging/setLevel", "resources/subscribe",
    "resources/unsubscribe", "tasks/list", "tasks/result",
    "subscriptions/listen", "no/such", ""])
def test_what_the_new_revision_removed_is_not_found(server, method):
    assert server.ask(method)["error"]["code"] == -32601


def test_an_unknown_revision_gets_the_list_of_known_ones(server):
    """users.md 85"""
    error = server.ask("tools/list", meta={
        META + "protocolVersion": "2031-01-01"})["error"]
    assert error["code"] == -32022
    assert error["data"] == {"supported": [VERSION],
                             "requested": "2031-01-01"}


@pytest.mark.parametrize("meta, word", [
    ({META + "protocolVersion": VERSION}, "clientCapabilities"),
    ({META + "clientCapabilities": {}}, "protocolVersion"),
    ({**ENVELOPE, META + "protocolVersion": 7}, "protocolVersion"),
    ({**ENVELOPE, META + "clientCapabilities": []}, "clientCapabilities"),
    ({**ENVELOPE, META + "logLevel": "loud"}, "logLevel"),
    ({**ENVELOPE, "progressToken": 1.5}, "progressToken"),
    ({**ENVELOPE, "progressToken": None}, "progressToken"),
    ({**ENVELOPE, "progressToken": "x" * 300}, "progressToken")])
def test_an_incomplete_envelope_is_refused_by_the_name_of_its_fault(
        server, meta, word):
    server.send(call(1, "tools/list", _meta=meta))
    error = server.reply(1)["error"]
    assert error["code"] == -32602 and word in error["message"]


def test_client_info_is_not_required(server):
    server.send(call(1, "tools/list", _meta=ENVELOPE))
    assert "result" in server.reply(1)


# Ids

@pytest.mark.parametrize("id", [
    "0", "-1", '""', '"a"', "9007199254740993", "9" * 60, '"\\u00e9\\n"',
    '"' + "x" * 250 + '"', "-0", "1"])
def test_an_id_comes_back_as_the_same_bytes(server, id):
    server.send(b'{"jsonrpc":"2.0","id":%s,"method":"ping"}\n' % id.encode())
    assert b'"id":%s,' % id.encode() in server.line()


@pytest.mark.parametrize("id", [
    "null", "1.5", "1e3", "1.0", "true", "[]", "{}", '"' + "x" * 300 + '"',
    "9" * 65])
def test_an_id_of_another_kind_is_refused_without_one(server, id):
    server.send(b'{"jsonrpc":"2.0","id":%s,"method":"ping"}\n' % id.encode())
    refused(server, -32600)
    served(server)


def test_an_id_that_is_under_way_is_refused_and_the_first_one_served(
        standin, server):
    standin.pool()
    hold = standin.fault("hold", "/sandboxwarmpools/")
    id = begin_create(server)
    wait_for(lambda: standin.taken(hold), "the look at the pool")
    server.send(call(id, "ping"))
    assert "under way" in refused(server, -32600)
    standin.release()
    assert server.reply(id)["result"]["isError"] is False


# Lines

BAD_LINES = [
    b"{", b"}", b"hello", b"{,}", b'{"a":}', b'{"a"}', b"[1 2]", b"[1,]",
    b'{"a":1,}', b"{} {}", b"::{}", b"[nul]", b"[01]", b"[+1]", b"[1.]",
    b"[.5]", b"[0x10]", b"[NaN]", b"['a']", b'["\t"]', b'["\\x"]',
    b'["\\ud800"]', b'["\\udc00\\ud800"]', b'["\xff"]', b'["\xc0\xaf"]',
    b'["\xed\xa0\x80"]', b'["\xf4\x90\x80\x80"]', b"[\x00]", b"]" * 9,
    b'{"a":1 "b":2}', b'{"a":1,"a":2}', b'{"a":1,"\\u0061":2}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":1,"x":1}}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping"} x', b'"', b"\x80", b"\xfe\xff"]


def test_a_line_that_is_no_json_is_answered_and_the_next_one_served(server):
    """users.md 86"""
    for line in BAD_LINES:
        server.send(line + b"\n")
        message = refused(server)
        assert len(message) > 5, line
        served(server)


@pytest.mark.parametrize("line", [
    b"1", b'"a"', b"null", b"{}", b'{"id":1}', b'{"id":1,"method":"ping"}',
    b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":7}', b'{"jsonrpc":"2.0","id":1}'])
def test_json_that_is_no_request_is_refused(server, line):
    server.send(line + b"\n")
    reply = server.recv()
    assert reply["error"]["code"] == -32600
    assert reply.get("id") in (None, 1)
    served(server)


def test_notifications_and_answers_to_nothing_stay_unanswered(server):
    for message in ({"jsonrpc": "2.0", "method": "notifications/unknown"},
                    {"jsonrpc": "2.0", "method": "tools/list"},
                    {"jsonrpc": "2.0", "id": 5, "result": {}},
                    {"jsonrpc": "2.0", "id": 5, "error": {"code": 1}},
                    {"jsonrpc": "2.0", "method": "notifications/cancelled",
                     "params": {"requestId": "never seen"}},
                    {"jsonrpc": "2.0", "method": "notifications/cancelled"}):
        server.send(message)
    server.send(call("only"))
    assert server.recv()["id"] == "only"


def test_blank_lines_bom_and_carriage_returns_are_let_pass(server):
    server.send(b"\xef\xbb\xbf" + dumps(call(1))[:-1] + b"\r\n")
    server.send(b"\n\r\n  \t \n" + dumps(call(2)))
    server.send(b'  {"jsonrpc" : "2.0",\t"id":3, "method":"ping"}  \r\n')
    assert [server.recv()["id"] for _ in range(3)] == [1, 2, 3]


def test_any_chunking_of_the_input_gives_the_same_answers(server):
    data = dumps(call("ä€𝄞")) + b"nonsense\n" + dumps(call(2))
    for byte in data:
        server.send(bytes([byte]))
    assert server.recv()["id"] == "ä€𝄞"
    refused(server)
    assert server.recv()["id"] == 2
    server.send(b"".join(dumps(call(n)) for n in range(500)))
    assert [server.recv()["id"] for _ in range(500)] == list(range(500))


def test_a_last_line_without_its_newline_is_answered(server):
    server.send(dumps(call(1))[:-1])
    assert server.close() == 0
    assert server.recv()["id"] == 1 and server.recv() is None


def test_a_cut_last_line_is_answered_as_bad(server):
    server.send(b'{"jsonrpc":"2.0","id":1')
    assert server.close() == 0
    refused(server)


def test_nesting_deeper_than_the_limit_is_refused(server):
    for depth, code in (60, None), (65, -32600), (100000, -32600):
        server.send(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":'
                    b'{"x":' + b"[" * depth + b"]" * depth + b"}}\n")
        if code:
            refused(server, code)
        else:
            assert server.recv()["id"] == 1
    served(server)


def test_more_values_than_the_limit_are_refused(server):
    server.send(b"[" + b"1," * 250000 + b"1]\n")
    assert "too many values" in refused(server, -32600)
    served(server)


@not_sanitized
def test_a_message_over_the_limit_is_skipped_in_flat_memory(server):
    served(server)
    server.send(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"')
    for _ in range(40):
        server.send(b"x" * (1 << 20))
    assert memory_kb(server.pid, "VmHWM") < 4 << 10
    server.send(b'"}}\n')
    assert str(8 << 20) in out_of_place(server)
    served(server)
    server.send(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":[')
    for _ in range(20):
        server.send(b'"x",' * (1 << 18))
    server.send(b'"x"]}}\n')
    assert str(8 << 20) in refused(server, -32600)
    served(server)
    wait_for(lambda: memory_kb(server.pid, "VmRSS") < 2 << 10,
             "what the message held")


def test_a_message_at_the_limit_is_served_and_one_over_it_is_not(server):
    def message(size):
        head = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"'
        return head + b"x" * (size - len(head) - 3) + b'"}}\n'

    server.send(message(8 << 20))
    assert server.recv()["id"] == 1
    server.send(message((8 << 20) + 1))
    out_of_place(server)
    server.send(message((8 << 20) + (1 << 20)))
    out_of_place(server)
    served(server)


def test_a_flood_of_bad_lines_ends_the_connection(server):
    server.send(b"x\n" * 1100)
    assert server.wait() == 65
    assert "not JSON-RPC" in server.stderr


# Batches

def test_a_batch_is_answered_in_one_array_in_the_revision_that_has_them(
        server):
    server.initialize("2025-03-26")
    server.send([call(1), {"jsonrpc": "2.0", "method": "notifications/x"},
                 call(2, "no/such"), 7, call(3, "tools/list")])
    replies = server.recv()
    assert [r.get("id") for r in replies] == [1, 2, None, 3]
    assert [r.get("error", {}).get("code") for r in replies] == [
        None, -32601, -32600, None]
    server.send([{"jsonrpc": "2.0", "method": "notifications/x"}])
    served(server)


def test_calls_of_a_batch_are_answered_together(standin, server):
    standin.pool()
    server.initialize("2025-03-26")
    server.send([call("a", "tools/call", name="create_sandbox", arguments={
        "warmpool": "py-pool", "namespace": "default"}), call("b"),
        call("c", "tools/call", name="list_sandboxes", arguments={
            "namespace": "default"})])
    replies = server.recv()
    assert sorted(r["id"] for r in replies) == ["a", "b", "c"]
    assert all("result" in r for r in replies)


@pytest.mark.parametrize("batch", [[], [call(1)] * 101,
                                   [call(1, "initialize")]])
def test_an_empty_and_an_endless_batch_are_refused(server, batch):
    server.initialize("2025-03-26")
    server.send(batch)
    reply = server.recv()
    reply = reply[0] if isinstance(reply, list) else reply
    assert reply["error"]["code"] == -32600
    served(server)


@pytest.mark.parametrize("version", [None, "2025-06-18", "2024-11-05"])
def test_other_revisions_have_no_batches(server, version):
    if version:
        server.initialize(version)
    server.send([call(1)])
    assert "2025-03-26" in refused(server, -32600)
    served(server)


# Tools

def test_tools_have_schemas_and_all_four_annotations(start):
    program = start("--tools", "agent-sandbox")
    tools = program.ask("tools/list")["result"]["tools"]
    assert {t["name"] for t in tools} >= set(TOOLS)
    for tool in tools:
        assert tool["title"] and tool["description"]
        assert tool["inputSchema"]["type"] == "object"
        assert tool["inputSchema"]["additionalProperties"] is False
        assert set(tool["annotations"]) == {
            "readOnlyHint", "destructiveHint", "idempotentHint",
            "openWorldHint"}
        if tool["name"] in ("create_sandbox", "execute_command"):
            assert tool["outputSchema"]["type"] == "object"
    for tool in tools:      # what a host shows to the model
        del tool["annotations"], tool["title"]
        tool.pop("outputSchema", None)
    assert len(json.dumps(tools, separators=(",", ":"))) < 6900


def test_the_tools_of_all_families_fit_a_models_context(start):
    program = start("--tools", "all")
    tools = program.ask("tools/list")["result"]["tools"]
    shown = [{k: t[k] for k in ("name", "description", "inputSchema")}
             for t in tools]
    assert len(json.dumps(shown, separators=(",", ":"))) < 13000
    assert len(json.dumps(tools, separators=(",", ":"))) < 21000


def test_schemas_are_those_of_the_original(server):
    """agent-sandbox 8.1, check 1: names, required, defaults, bounds"""
    with open(os.path.join(TESTS, "vectors", "agent-sandbox-tools.json"),
              encoding="utf-8") as f:
        vectors = json.load(f)
    originals = {t["name"]: t["inputSchema"]
                 for t in vectors["tools/list"]["result"]["tools"]}
    ours = {t["name"]: t["inputSchema"]
            for t in server.ask("tools/list")["result"]["tools"]}
    for name in set(originals) & set(ours):
        theirs = originals[name]
        assert ours[name]["required"] == theirs["required"]
        for field, wanted in theirs["properties"].items():
            got = ours[name]["properties"][field]
            assert got.get("default", 0) == wanted.get("default", 0)
            if "type" in wanted:
                assert got["type"] == wanted["type"]
            for bound in "maximum", "exclusiveMinimum":
                if bound in wanted:
                    assert got[bound] == wanted[bound], (name, field)
    assert len(set(originals) & set(ours)) >= 3


def test_an_unknown_tool_is_a_protocol_error(server):
    for params in {"name": "no_such"}, {"name": 7}, {}, {
            "name": "list_sandboxes", "arguments": []}:
        error = server.ask("tools/call", params)["error"]
        assert error["code"] == -32602, params
    assert "no_such" in server.ask("tools/call", {
        "name": "no_such"})["error"]["message"]


def test_wrong_arguments_are_named_all_at_once(server):
    message = failure(server.tool("execute_command", {
        "namespace": 7, "command": None, "timeout": 601, "bogus": 1}))
    for word in ("sandbox_claim_name", "namespace", "command", "timeout",
                 "600", "bogus"):
        assert word in message


@pytest.mark.parametrize("timeout, taken", [
    ("20", True), (20.0, True), (True, True), (1, True), (600, True),
    (0, False), (601, False), (20.5, False), ("abc", False), (None, False),
    (False, False), ([], False), (1e300, False), (-1, False)])
def test_integers_are_taken_as_the_original_takes_them(
        standin, server, timeout, taken):
    message = failure(server.tool("execute_command", {
        "sandbox_claim_name": "absent", "namespace": "default",
        "command": "true", "timeout": timeout}))
    assert ("not found" in message) == taken
    assert ("timeout" in message) == (not taken)
    assert (standin.requests() != []) == taken


@pytest.mark.parametrize("method", [
    "tools/list", "resources/list", "resources/templates/list"])
def test_a_cursor_that_is_not_ours_is_refused(server, method):
    for cursor in "", "x", None:
        error = server.ask(method, {"cursor": cursor})["error"]
        assert error["code"] == -32602


def test_a_missing_resource_is_told_as_each_revision_wants(server):
    for uri in "sandboxes://Bad_Name", "sandboxes://a/b", "file:///etc/x":
        modern = server.ask("resources/read", {"uri": uri})["error"]
        assert (modern["code"], modern["data"]) == (-32602, {"uri": uri})
        older = server.ask("resources/read", {"uri": uri}, modern=False)
        assert older["error"]["code"] == -32002
    assert server.ask("resources/read")["error"]["code"] == -32602


def test_the_template_of_resources_is_listed(server):
    found = server.ask("resources/templates/list")["result"]
    assert [t["uriTemplate"] for t in found["resourceTemplates"]] == [
        "sandboxes://{namespace}"]


# Many at once, slow readers

def test_32_calls_run_at_once_and_one_more_gets_a_clear_error(
        standin, server):
    standin.pool()
    hold = standin.fault("hold", "/sandboxwarmpools/", count=-1)
    ids = [begin_create(server) for _ in range(32)]
    wait_for(lambda: standin.taken(hold) == 32, "32 looks at the pool")
    message = server.ask("tools/call", {
        "name": "list_sandboxes",
        "arguments": {"namespace": "default"}})["error"]["message"]
    assert "32" in message and "again" in message
    served(server)
    for id in ids:
        server.cancel(id)
    standin.clear_faults()
    wait_for(lambda: "result" in server.ask("tools/call", {
        "name": "list_sandboxes", "arguments": {"namespace": "default"}}),
        "room for a call")


def test_calls_are_answered_as_they_end(standin, server):
    standin.fault("hold", "/sandboxwarmpools/")
    slow = begin_create(server)
    assert "result" in server.ask("tools/list")
    standin.release()
    assert server.reply(slow)["id"] == slow


@not_sanitized
def test_a_client_that_reads_slowly_loses_nothing_and_costs_no_memory(
        server):
    with stopped_reading(server):
        sent = 0
        for n in range(300):
            # As soon as the program stops reading, its pipe is full.
            writer = threading.Thread(target=server.send, args=(
                b"".join(dumps(call(f"{n}-{k}", "tools/list"))
                         for k in range(100)),), daemon=True)
            writer.start()
            writer.join(0.5)
            if writer.is_alive():
                break
            sent += 100
        assert writer.is_alive(), "it read on without an end"
        # What waits to be written, and the program itself.
        assert memory_kb(server.pid, "VmHWM") < (20 + 6) << 10
    writer.join(20)
    sent += 100
    last = None
    for _ in range(sent):
        last = server.recv()
        assert len(last["result"]["tools"]) >= len(TOOLS)
    assert last["id"] == f"{n}-99"
    served(server)
    wait_for(lambda: memory_kb(server.pid, "VmRSS") < 2 << 10,
             "what the answers held")


def test_standard_output_carries_nothing_but_messages(standin, start):
    """users.md 82"""
    standin.pool()
    program = start("--verbose", "--debug-sandbox",
                    env={"K8S_SANDBOX_NOBODY": "1"})
    standin.fault("drop", "/sandboxclaims$")
    begin_create(program)
    program.send(b"junk\n")
    program.ask("ping", modern=False)
    assert program.close() == 0
    for line in bytes(program.output).splitlines():
        assert json.loads(line)["jsonrpc"] == "2.0"
    bad = start("--no-such-option")
    assert bad.wait() == 64 and bad.output == b""
    assert re.search("no-such-option", bad.stderr)
