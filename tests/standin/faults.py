# SPDX-License-Identifier: Apache-2.0
"""Faults on demand: rules that tests post to the admin port.

A rule is {"method": regex, "path": regex searched in the request target,
"count": how many requests it takes (1; -1 for all), "skip": how many it lets
pass first (0), "where": "api" or "runtime", "action": one of

 delay        {"ms"} before the request is processed
 hold         not processed before POST /admin/release
 hold-after   processed, the reply waits for POST /admin/release
 drop         connection cut, nothing processed
 drop-after   processed, then cut: the reply is lost
 silence      accepted and never answered
 status       {"code", "message", "reason", "retry_after", "details"}
 status-after the same, but the request was processed
 garbage      {"body"} with status 200
 raw          {"data"} instead of an HTTP answer, then cut
 slow         {"ms", "bytes"}: the reply in pieces of so many bytes
 cut-body     half of the reply, then cut
 close        the whole reply, then cut: a kept-alive connection goes stale
 redirect     {"location"}
 watch-cut    {"after": n}: n events, half of the next line, then cut
 watch-end    {"after": n}: n events, then a clean end
 watch-410    {"after": n}: n events, then an ERROR event with code 410
 watch-garbage {"after": n}: n events, then a line that is no JSON
 ws-cut       {"after": n}: n frames, half of the next one, then cut; without
              "after" it is the Status frame (exec) that is cut in half
 ws-no-status closes 1000 without a Status frame
 ws-silence   upgraded, then nothing more
 ws-drop      {"after": n}: n frames, then cut between two frames
 ws-bad       {"kind", "after": n}: frame n is masked, reserved, opcode,
              oversized, sign, long-control, fragmented-control, unfinished,
              continuation, text, bad-channel, no-channel, bad-close; or the
              handshake: accept, no-accept, subprotocol, no-subprotocol,
              no-upgrade
}. Where one says "after", "before": TEXT may take its place: it is the first
frame with the text in it, however the output was divided into frames. The first rule that matches and has count left takes the request.
"""

import asyncio
import re

from . import status
from .httpd import Response, json_response

ACTIONS = set("""
delay hold hold-after drop drop-after silence status status-after garbage raw
slow cut-body close redirect watch-cut watch-end watch-410 watch-garbage
ws-cut ws-no-status ws-silence ws-drop ws-bad""".split())


class Faults:
    def __init__(self):
        self.rules = []
        self.next_id = 1
        self.log = []

    def add(self, rule):
        if rule.get("action") not in ACTIONS:
            raise ValueError(f"action is one of {sorted(ACTIONS)}")
        rule = {"method": "", "path": "", "count": 1, "skip": 0,
                "where": "api", **rule, "id": self.next_id, "taken": 0,
                "release": asyncio.Event()}
        re.compile(rule["method"]), re.compile(rule["path"])
        self.next_id += 1
        self.rules.append(rule)
        return rule["id"]

    def take(self, method, target, where="api"):
        for rule in self.rules:
            if (rule["where"] != where or rule["count"] == 0
                    or not re.search(rule["method"], method)
                    or not re.search(rule["path"], target)):
                continue
            if rule["skip"] > 0:
                rule["skip"] -= 1
                continue
            rule["count"] -= 1
            rule["taken"] += 1
            return rule
        return None

    def release(self, rule_id=None):
        """Lets go what holds; later requests do not stop at the rule."""
        for rule in self.rules:
            if rule_id in (None, rule["id"]):
                rule["release"].set()

    def clear(self):
        self.release()
        self.rules = []

    def show(self):
        return [{k: v for k, v in r.items() if k != "release"}
                for r in self.rules]


async def released(rule, closed):
    """True when the test let it go, False when the client went first."""
    gone = asyncio.ensure_future(closed())
    wait = asyncio.ensure_future(rule["release"].wait())
    try:
        await asyncio.wait({gone, wait}, return_when=asyncio.FIRST_COMPLETED)
        return wait.done()
    finally:
        gone.cancel()
        wait.cancel()


def made_up(rule):
    """The answer that needs no processing, if the rule is such a one."""
    action = rule["action"]
    if action.startswith("status"):
        code = rule.get("code", 500)
        headers = {}
        if "retry_after" in rule:
            headers["Retry-After"] = str(rule["retry_after"])
        return json_response(
            status.status(code, rule.get("message"), rule.get("reason"),
                          rule.get("details")), code, headers)
    if action == "garbage":
        return Response(rule.get("code", 200),
                        rule.get("body", "{\"kind\": gar").encode())
    if action == "redirect":
        return Response(rule.get("code", 302), headers={
            "Location": rule.get("location", "https://127.0.0.1:1/")})
    return None


async def apply(rule, request, process):
    """process() is the application; None cuts the connection."""
    conn = request.conn
    action = rule["action"]
    if action == "delay":
        await asyncio.sleep(rule.get("ms", 100) / 1000)
    elif action == "drop":
        return None
    elif action == "silence":
        await conn.closed()
        return None
    elif action == "raw":
        await conn.write(rule.get("data", "").encode("latin-1"))
        return None
    elif action == "slow":
        conn.slow = rule.get("bytes", 1), rule.get("ms", 1) / 1000
    elif action == "hold" and not await released(rule, conn.closed):
        return None
    if action == "status-after":
        await process(request)
    response = made_up(rule) or await process(request)
    if action == "drop-after":
        return None
    if action == "hold-after" and not await released(rule, conn.closed):
        return None
    if action == "close":
        conn.last = True
    if action == "cut-body":
        await conn.send_head(response,
                             {"Content-Length": str(len(response.body))})
        await conn.write(response.body[:len(response.body) // 2])
        return None
    return response
