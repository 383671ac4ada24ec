# SPDX-License-Identifier: Apache-2.0
"""bash: a session's start against kubectl run, a further command against a
bare tunnel to the same agent, and the memory of both for any output."""

import hashlib
import hmac
import json
import os
import re
import subprocess
import uuid

import rawtunnel
from measure import (BINARY, OURS, Failed, Peer, Row, hello, kb, median, ms,
                     tool)

TITLE = "bash"
RUNS, STARTS = 60, 4
KEY = b"bench"
POOL = ("--warm-pool-size", "2")


class Agent(rawtunnel.Tunnel):
    """POST /exec and nothing else."""

    def __init__(self, *where, token):
        super().__init__(*where, 8090)
        self.head = (f"POST /exec HTTP/1.1\r\nHost: pod\r\nAuthorization: "
                     f"Bearer {token}\r\nContent-Length: ")

    def get(self, path):
        body = json.dumps({"command": path, "timeout": 60})
        self.send(f"{self.head}{len(body)}\r\n\r\n{body}".encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.receive()[1:]
        head, body = answer.split(b"\r\n\r\n", 1)
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise Failed(f"agent: {head[:80]!r}")
        size = int(head.lower().split(b"content-length:")[1].split()[0])
        while len(body) < size:
            body += self.receive()[1:]


class Sessions:
    """How ours is called here, and who takes its pods away."""

    def __init__(self, bench, place):
        self.real = place.name != "stand-in"
        self.bench, self.place = bench, place
        self.image = "localhost/busybox:1" if self.real else "busybox:1.36"
        self.key = os.path.join(bench.folder, "key")
        with open(self.key, "wb") as f:
            f.write(KEY)
        self.kubeconfig = place.kubeconfig
        if self.real:
            self.kubeconfig = os.path.join(os.path.dirname(place.cert),
                                           "shell.kubeconfig")

    def server(self, session, *more):
        return Peer(OURS, [
            BINARY, "--tools", "bash", "--namespace", self.place.namespace,
            "--sandbox-image", self.image, "--init-image", self.image,
            "--cpu-request", "5m", "--memory-request", "16Mi",
            "--hmac-key-file", self.key, "--session-id", session, *more],
            self.kubeconfig)

    def talk(self, session, commands, *more, replies=None):
        return self.bench.probe.talk(self.server(session, *more), [
            *hello(), *(tool(i, "bash", command=c)
                        for i, c in enumerate(commands))],
            replies=replies)[0]

    def gc(self, *more):
        server = self.server("none", *more)
        subprocess.run([*server.argv, "gc"], env=server.env, check=True,
                       stdout=subprocess.DEVNULL, timeout=120)

    def clean(self):
        for kind in "pods", "secrets":
            subprocess.run([
                *self.place.kubectl, "delete", kind, "-l",
                "tarsy.redhat.com/component=cli-mcp-sandbox", "--wait=false",
                "--grace-period=1"], stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, check=False)


def place_rows(bench, place):
    sessions = Sessions(bench, place)
    try:
        yield cold(sessions)
        yield warm(sessions)
        yield later(sessions)
        yield from memory(sessions)
    finally:
        sessions.clean()


def name():
    return "bench-" + uuid.uuid4().hex[:8]


def cold(s):
    ours = [s.talk(name(), ["true"])["us"][-1] for _ in range(STARTS)]
    row = Row("a session's first command (`true`), no pod yet",
              f"{ms(median(ours))} (min {ms(min(ours))})")
    if s.real:
        theirs = [run(s) for _ in range(STARTS)]
        row.peers.append(f"kubectl run and ready: {ms(median(theirs))} "
                         f"(min {ms(min(theirs))})")
    return row


def run(s):
    """Microseconds until a pod of the same image is ready, by kubectl."""
    pod, call = name(), " ".join(s.place.kubectl)
    spec = {"spec": {"securityContext": {
        "runAsNonRoot": True, "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"}}, "containers": [{
            "name": pod, "image": s.image, "command": ["sleep", "60"],
            "securityContext": {"allowPrivilegeEscalation": False,
                                "capabilities": {"drop": ["ALL"]}}}]}}
    command = (f"{call} run {pod} --image={s.image} --restart=Never "
               f"--overrides='{json.dumps(spec)}' >/dev/null && {call} wait "
               f"--for=condition=Ready pod/{pod} --timeout=60s >/dev/null")
    try:
        return s.bench.probe.command(["sh", "-c", command],
                                     s.place.server().env)[0]["wall_us"]
    finally:
        subprocess.run([*s.place.kubectl, "delete", "pod", pod,
                        "--grace-period=1", "--wait=false"], check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def warm(s):
    ours = []
    for _ in range(STARTS):
        s.gc(*POOL)
        ours.append(s.talk(name(), ["true"], *POOL)["us"][-1])
    return Row("the same from a warm pool",
               f"{ms(median(ours))} (min {ms(min(ours))})")


def later(s):
    """The second command and those after it, in one session."""
    session = name()
    took = s.talk(session, ["true"] * RUNS)["us"][2:]
    token = hmac.new(KEY, session.encode(), hashlib.sha256).hexdigest()
    bare = rawtunnel.round_trips(
        Agent(s.place.cert, s.place.namespace, "cli-mcp-sandbox-" + session,
              token=token), "true", RUNS)
    over = min(took) - min(bare)
    return Row("a further command (`true`)",
               f"{ms(median(took))} (min {ms(min(took))}); {ms(over)} over "
               "the same by a bare tunnel",
               ["POST /exec by a bare tunnel: "
                f"{ms(median(bare))} (min {ms(min(bare))})"],
               "<= 1 ms over it", over <= 1000)


LOOK = "grep -E 'VmHWM|VmRSS|RssAnon' /proc/$PPID/status"


def status(said):
    return {k: int(v) for k, v in re.findall(
        r"(\w+):\s+(\d+) kB",
        said["result"]["structuredContent"]["stdout"])}


def memory(s):
    """The agent tells of itself: it is the shell's parent."""
    said, size = [], (1 << 30) if s.real or s.bench.full else 100 << 20
    run = s.talk(name(), ["true", LOOK, f"yes | head -c {size}", LOOK],
                 replies=said)
    before, after = status(said[-3]), status(said[-1])
    yield Row("memory of the idle agent in the pod",
              f"{kb(before['VmRSS'])}, {kb(before['RssAnon'])} of it no file",
              [], "<= 1 MB", before["VmRSS"] <= 1024)
    what = "1 GB" if size >= 1 << 30 else "100 MB"
    yield Row(f"peak memory, {what} of output",
              f"{kb(run['hwm_kb'])} here, {kb(after['VmHWM'])} of the agent, "
              f"{size / run['us'][3]:.0f} MB/s", [], "<= 8 MB each",
              max(run["hwm_kb"], after["VmHWM"]) <= 8 * 1024)
