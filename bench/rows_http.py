# SPDX-License-Identifier: Apache-2.0
"""HTTP: requests a second, CPU of each, many connections at once. The peers
are the same two hello-world servers as over lines, on one port each."""

import contextlib
import http.client
import itertools
import json
import os
import resource
import signal
import socket
import subprocess
import threading
import time

from measure import BINARY, OLD, Failed, Row, kb, median, ms, times
from program import clean_environment

TITLE = "Over HTTP"
SECONDS, CLIENTS, MANY = 3, 4, 1000
FIELDS = {"Content-Type": "application/json",
          "Accept": "application/json, text/event-stream",
          "MCP-Protocol-Version": "2025-06-18"}
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def rows(bench):
    with contextlib.ExitStack() as stack:
        servers = [s for s in (begin(bench, stack, p)
                               for p in (bench.ours, *bench.peers)) if s]
        yield from listing(servers)
        yield running(*servers)
    yield from many(bench)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def body(method, **params):
    """Of a request whose id comes later."""
    return json.dumps({"jsonrpc": "2.0", "id": "%", "method": method,
                       "params": params})


class Server:
    """One of them, on a port; path is its MCP endpoint."""

    def __init__(self, name, argv, env, port, path="/mcp"):
        self.name = name
        self.port, self.path = port, path
        self.session = {}
        self.ids = itertools.count()
        self.process = subprocess.Popen(
            argv, env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        end = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError as e:
                if time.monotonic() > end or self.process.poll() is not None:
                    self.close()
                    raise Failed(f"{name}: does not listen") from e
                time.sleep(0.05)
        self.initialize()

    def initialize(self):
        """A session, where the server has such."""
        c = self.connect()
        c.request("POST", self.path, body("initialize", **OLD), FIELDS)
        answer = c.getresponse()
        answer.read()
        if answer.headers.get("Mcp-Session-Id"):
            self.session = {"Mcp-Session-Id":
                            answer.headers["Mcp-Session-Id"]}
        c.close()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def ask(self, connection, text):
        text = text.replace('"%"', str(next(self.ids)))
        connection.request("POST", self.path, text,
                           {**FIELDS, **self.session})
        answer = connection.getresponse()
        data = answer.read()
        if answer.status != 200 or b'"error"' in data[:200]:
            raise Failed(f"{self.name}: {answer.status} {data[:200]}")
        return data

    def cpu_ms(self):
        """Of the process and those it has made, the ended ones too."""
        total, left = 0, [self.process.pid]
        while left:
            pid = left.pop()
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/stat", encoding="ascii") as f:
                    words = f.read().rpartition(")")[2].split()
                total += sum(map(int, words[11:15]))
                with open(f"/proc/{pid}/task/{pid}/children",
                          encoding="ascii") as f:
                    left += f.read().split()
        return total * TICK_MS

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def begin(bench, stack, peer):
    port = free_port()
    if peer is bench.ours:
        argv = [*peer.argv, "serve", f"--listen=127.0.0.1:{port}",
                "--session-id=bench", "--tools=agent-sandbox,bash"]
    elif "kubernetes" in peer.name:
        argv = [*peer.argv, "--port", str(port)]
    else:
        argv = [*peer.argv, "http", str(port)]
    try:
        server = Server(peer.name, argv, peer.env, port)
    except (Failed, OSError) as e:
        bench.say(f"left out over HTTP: {e}")
        return None
    stack.callback(server.close)
    return server


def load(server, text, seconds=SECONDS, clients=CLIENTS):
    """Requests a second and milliseconds of CPU for each."""
    counts, failed = [0] * clients, []
    end = time.monotonic() + seconds

    def one(i):
        connection = server.connect()
        try:
            while time.monotonic() < end:
                server.ask(connection, text)
                counts[i] += 1
        except (Failed, OSError) as e:
            failed.append(e)
        connection.close()

    before = server.cpu_ms()
    threads = [threading.Thread(target=one, args=(i,))
               for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise Failed(str(failed[0]))
    time.sleep(0.2)         # for the processes of connections to be waited for
    n = sum(counts)
    return n / seconds, (server.cpu_ms() - before) / n


def listing(servers):
    found = {s.name: load(s, body("tools/list")) for s in servers}
    rate, cpu = ({n: v[i] for n, v in found.items()} for i in (0, 1))
    mine = servers[0].name
    yield Row(f"tools/list a second over HTTP, {CLIENTS} connections",
              f"{rate.pop(mine):.0f} (as fast as the client in Python asks)",
              [f"{n}: {v:.0f}" for n, v in rate.items()])
    own = cpu.pop(mine)
    yield Row("CPU of each", ms(own * 1000),
              [f"{n}: {ms(v * 1000)} ({times(v, own)})"
               for n, v in cpu.items()])


def running(server, *peers):
    """A command in the shell of one session, which is one at a time; the peers
    only say hello, in their own process."""
    text = body("tools/call", name="bash", arguments={"command": "true"})
    connection = server.connect()
    server.session = {"X-Session-ID": "bench"}
    server.ask(connection, text)
    connection.close()
    texts = []
    for s in (server, *(p for p in peers if "kubernetes" not in p.name)):
        rate, cpu = load(s, text if s is server else body(
            "tools/call", name="hello", arguments={"name": "x"}), clients=1)
        texts.append(f"{rate:.0f} a second, {ms(cpu * 1000)} of CPU each")
    names = [p.name for p in peers if "kubernetes" not in p.name]
    return Row("a short bash over HTTP; of the peers, a text of their own",
               texts[0], [f"{n}: {t}" for n, t in zip(names, texts[1:])])


def memory_kb(pids):
    """Of all of them together: what is shared counts once."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
            total += sum(int(line.split()[1]) for line in f
                         if line.startswith("Pss:"))
    return total


def many(bench):
    """Connections that stay open, each a process of ours."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    port = free_port()
    argv = [BINARY, "serve", f"--listen=127.0.0.1:{port}",
            f"--max-connections={MANY + 10}", f"--max-per-source={MANY + 10}"]
    server = Server("ours", argv, clean_environment(
        KUBECONFIG=bench.place.server().env["KUBECONFIG"]), port)
    took, connections = [], []
    try:
        for _ in range(MANY):
            start = time.monotonic()
            connections.append(server.connect())
            server.ask(connections[-1], body("tools/list"))
            took.append((time.monotonic() - start) * 1e6)
        pid = server.process.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            children = f.read().split()
        each = memory_kb(children) / len(children)
    finally:
        for connection in connections:
            connection.close()
        server.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    yield Row(f"{MANY} connections open: memory of each, with tools/list done",
              kb(round(each)), [])
    yield Row("connect to the first reply, median", f"{ms(median(took))} (p99 "
              f"{ms(sorted(took)[int(len(took) * 0.99)])})", [])
