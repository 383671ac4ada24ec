#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An agent that repeats what it is sent as the command's output."""

from oldagent import Handler, ThreadingHTTPServer, json, os


class Echo(Handler):
    def execute(self, request):
        self.answer(200, {"stdout": json.dumps(request), "stderr": "",
                          "exit_code": 0, "duration_ms": 0})


if __name__ == "__main__":
    ThreadingHTTPServer(("", int(os.environ["MCP_SANDBOX_PORT"])), Echo).serve_forever()
