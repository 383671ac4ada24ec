#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make demo: a whole session of the real program against the stand-in.

Every message that goes in and comes out is what a client would see.
"""

import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from standin.client import Standin  # noqa: E402

BINARY = os.environ.get("MCP_SANDBOX",
                        os.path.join(HERE, "..", "mcp-sandbox"))
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}}


class Session:
    def __init__(self, kubeconfig, *options):
        self.process = subprocess.Popen(
            [BINARY, "--kubeconfig", kubeconfig, *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.number = 0

    def ask(self, method, **params):
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method,
                   "params": {**params, "_meta": META}}
        begin = time.monotonic()
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        while True:
            answer = json.loads(self.process.stdout.readline())
            if answer.get("id") == self.number:
                break
        self.ms = (time.monotonic() - begin) * 1000
        if "error" in answer:
            sys.exit(f"{method}: {answer['error']}")
        return answer["result"]

    def call(self, title, tool, fails=False, **arguments):
        shown = {k: v if len(str(v)) < 60 else str(v)[:57] + "..."
                 for k, v in arguments.items()}
        print(f"\n\033[1m{title}\033[0m\n  {tool} {json.dumps(shown)}")
        result = self.ask("tools/call", name=tool, arguments=arguments)
        text = "".join(c.get("text", "") for c in result["content"])
        for line in (text or "done").splitlines()[:6]:
            print(f"  -> {line[:200]}")
        print(f"     {self.ms:.1f} ms")
        if result.get("isError") and not fails:
            sys.exit("that was an error")
        return result.get("structuredContent")

    def end(self):
        self.process.stdin.close()
        return self.process.wait(timeout=10)


def sandboxes(session):
    created = session.call("Create a sandbox", "create_sandbox",
                           warmpool="demo", namespace="default")
    handle = {"sandbox_claim_name": created["sandbox_claim_name"],
              "namespace": "default"}
    run = "execute_command"
    session.call("Run a command", run, command="echo hello from $(hostname); "
                 "echo to stderr >&2; exit 3", **handle)
    session.call("Give it input", run, command="tr a-z A-Z",
                 stdin="shout this\n", **handle)
    session.call("Long output: beginning and end", run,
                 command="seq 1000000", max_output_chars=128, **handle)
    session.call("Write a file", "upload_file", path="in/a b.txt",
                 content="kept between calls\n", **handle)
    session.call("... add to it", "upload_file", path="in/a b.txt",
                 content="and added to\n", offset=-1, **handle)
    session.call("... move it", "move_file", path="in/a b.txt",
                 to="moved.txt", **handle)
    session.call("... read it", "download_file", path="moved.txt", **handle)
    session.call("A command sees it too", run, command="cat moved.txt",
                 **handle)
    session.call("Bytes that are no text", "upload_file", path="raw",
                 content="AAEC/w==", binary=True, **handle)
    session.call("... come back as base64", "download_file", path="raw",
                 **handle)
    session.call("What is there", "list_files", path=".", **handle)
    session.call("An hour more", "extend_sandbox",
                 shutdown_after_seconds=3600, **handle)
    session.call("What is alive", "list_sandboxes", namespace="default")
    session.call("Delete it", "delete_sandbox", **handle)
    session.call("It is gone", "get_sandbox_status", **handle)


def shell(session):
    session.call("A shell of your own, in a pod of any image", "bash",
                 command="cd /tmp && greeting=hello && pwd")
    session.call("It is kept: folder, variables, functions", "bash",
                 command="echo $greeting from $PWD; printf 'no newline'")
    session.call("What takes too long is ended, the shell stays", "bash",
                 command="sleep 60", timeout=1, fails=True)
    session.call("... as it was", "bash", command="echo still $greeting")


def jobs(standin):
    def session():
        return Session(standin.kubeconfig, "--job-images", "busybox:1.36",
                       "--job-namespace", "default", "--session-id", "demo")
    first = session()
    job = {"image": "busybox:1.36"}
    first.call("A command in a fresh pod, with a file", "run_job", **job,
               command=["sh", "-c", "wc -c <in.txt | tee size.txt"],
               files=[{"path": "in.txt", "content_b64": "c29tZSB0ZXh0"}])
    first.call("Its time is over: what it printed is there", "run_job", **job,
               command=["sh", "-c", "echo so far; sleep 60"], timeout_s=1)
    token = first.call("In the background", "submit_job", **job, command=[
        "sh", "-c", "echo one; sleep 1; echo two"])
    first.process.kill()
    first.process.wait()
    second = session()
    second.call("The server is gone, another one fetches it", "fetch_job",
                **{"job_token": token["job_token"]}, wait_s=10)
    second.call("What is kept", "list_jobs")
    second.call("Take it away", "cancel_job", job_token=token["job_token"])
    return second.end()


def main():
    begin = time.monotonic()
    with Standin() as standin:
        standin.pool("demo", replicas=1)
        session = Session(standin.kubeconfig)
        found = session.ask("server/discover")
        info = found["_meta"]["io.modelcontextprotocol/serverInfo"]
        tools = session.ask("tools/list")["tools"]
        print(f"{info['name']} {info['version']} speaks "
              f"{', '.join(found['supportedVersions'])} and offers "
              f"{', '.join(t['name'] for t in tools)}")
        sandboxes(session)
        shell(session)
        status = session.end() or jobs(standin)
        left = [o for o in standin.objects()
                if o["kind"] in ("SandboxClaim", "Secret", "Job")]
        print(f"\nEnd of input: exit status {status}, "
              f"{len(left)} claims, sessions and jobs left, "
              f"{time.monotonic() - begin:.1f} s in all.")
        return 1 if status or left else 0


if __name__ == "__main__":
    sys.exit(main())
