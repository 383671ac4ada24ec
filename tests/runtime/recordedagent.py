#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The original's agent as it was recorded: one answer after the other."""

from oldagent import Handler, ThreadingHTTPServer, json, os

VECTORS = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                       "../vectors/cli-mcp-server.json")


class Recorded(Handler):
    with open(VECTORS, encoding="utf-8") as f:
        rows = iter(json.load(f)["agent_exec_sequence"]["cases"])

    def execute(self, request):
        row = next(Recorded.rows)
        same = (request["command"], request["timeout"]) == (
            row["command"], row["timeout_s"])
        self.answer(row["status"], {**row["response"], "duration_ms": 1}
                    if same else {"error": "asked for something else"})


if __name__ == "__main__":
    ThreadingHTTPServer(("", int(os.environ["MCP_SANDBOX_PORT"])),
                        Recorded).serve_forever()
