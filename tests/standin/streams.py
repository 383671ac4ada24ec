# SPDX-License-Identifier: Apache-2.0
"""pods/exec and pods/portforward over WebSocket, framed as by a kubelet."""

import asyncio
import json
import struct

import sandboxd

from . import kinds, wsock
from .status import ApiError

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
CLOSE = 255
PIECE = 32 * 1024


class Streams:
    def __init__(self, kubelet):
        self.kubelet = kubelet
        self.exec_protocols = {V5, V4}

    def run_of(self, pod):
        run = self.kubelet.of(pod)
        if run is None or run.stopping:
            raise ApiError(404, f'pods "{pod["metadata"]["name"]}" not found')
        return run

    async def exec(self, pod, request):
        name = pod["metadata"]["name"]
        command = [v for k, v in request.pairs if k == "command"]
        flags = {f: request.flag(f)
                 for f in ("stdin", "stdout", "stderr", "tty")}
        names = [c["name"] for c in pod["spec"]["containers"]]
        inits = [c["name"] for c in pod["spec"].get("initContainers", [])]
        container = request.query.get("container", "")
        if not command:
            raise ApiError(400, "you must specify at least one command for "
                           "the container")
        if not (flags["stdin"] or flags["stdout"] or flags["stderr"]):
            raise ApiError(400, "you must specify at least 1 of stdin, "
                           "stdout, stderr")
        if not container and len(names) > 1:
            raise ApiError(400, f"a container name must be specified for pod "
                           f"{name}, choose one of: [{' '.join(names)}]")
        if container and container not in names + inits:
            raise ApiError(400, f"container {container} is not valid for pod "
                           + name)
        phase = kinds.get(pod, "status", "phase")
        if phase in ("Succeeded", "Failed"):
            raise ApiError(400, "cannot exec into a container in a completed "
                           f"pod; current phase is {phase}")
        run = self.run_of(pod)
        begun = (phase == "Running" if container not in inits else
                 container in run.inits and not run.inits[container].done())
        if not begun:
            raise ApiError(500, "unable to upgrade connection: container not "
                           f'found ("{container or names[0]}")')
        return wsock.upgrade(request, self.exec_protocols, lambda ws: Exec(
            run, ws, [run.moved(a) for a in command], flags).serve())

    async def portforward(self, pod, request):
        ports = [int(p) for k, v in request.pairs if k == "ports"
                 for p in v.split(",") if p.isdigit()]
        if not ports or not all(0 < p < 65536 for p in ports):
            raise ApiError(400, 'query parameter "ports" is required')
        if kinds.get(pod, "status", "phase") != "Running":
            raise ApiError(500, "unable to upgrade connection: pod not found "
                           f'("{pod["metadata"]["name"]}'
                           f'_{pod["metadata"]["namespace"]}")')
        run = self.run_of(pod)
        return wsock.upgrade(request, {V4}, lambda ws: Forward(
            run, ws, ports).serve())


class Exec:
    def __init__(self, run, ws, command, flags):
        self.run = run
        self.ws = ws
        self.command = command
        self.flags = flags

    async def serve(self):
        """The command outlives a connection that drops, as at a kubelet."""
        first = (STDOUT if self.flags["stdout"] else
                 STDERR if self.flags["stderr"] else ERROR)
        await self.ws.send(bytes([first]))
        try:
            process = sandboxd.Process(
                self.command, self.run.dir, self.run.env,
                self.flags["stdin"], (0, 0) if self.flags["tty"] else None)
        except OSError as e:
            await self.finish(not_started(self.command, e))
            return
        self.run.groups.add(process.pid)
        listen = asyncio.ensure_future(self.listen(process))
        pumps = [asyncio.ensure_future(sandboxd.read_all(
            name, file, PIECE, self.emit))
            for name, file in process.outputs()]
        try:
            await asyncio.wait({listen, self.all_done(process, pumps)},
                               return_when=asyncio.FIRST_COMPLETED)
            if not listen.done() or all(p.done() for p in pumps):
                await asyncio.gather(*pumps)
                await stop(listen)
                await self.finish(exit_status(self.command,
                                              await process.wait()))
        finally:
            for task in (listen, *pumps):
                task.cancel()
            process.close_input()

    def all_done(self, process, pumps):
        return asyncio.ensure_future(asyncio.wait({*pumps,
                                                   process.exited}))

    async def emit(self, name, data):
        channel = STDOUT if name == "stdout" else STDERR
        if self.flags["stdout" if channel == STDOUT else "stderr"]:
            await self.ws.send(bytes([channel]) + data)

    async def listen(self, process):
        """Ends when the client does."""
        while True:
            message = await self.ws.receive()
            channel = message[0] if message else -1
            if channel == STDIN and process.input is not None:
                try:
                    await process.write(message[1:])
                except OSError:
                    process.close_input()
            elif (channel == CLOSE and message[1:2] == bytes([STDIN])
                  and self.ws.protocol == V5):
                process.close_input()
            elif channel == RESIZE and process.master is not None:
                size = json.loads(message[1:])
                sandboxd.set_size(process.master, size["Width"],
                                  size["Height"])

    async def finish(self, status):
        ws = self.ws
        message = bytes([ERROR]) + json.dumps(status).encode()
        action = ws.fault["action"]
        if action == "ws-cut" and not ws.fault.keys() & {"after", "before"}:
            await ws.send_half(message)
        if action != "ws-no-status":
            await ws.send(message)
        await ws.close()
        await ws.linger()


async def stop(task):
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def exit_status(command, code):
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    code = 128 - code if code < 0 else code
    return {"metadata": {}, "status": "Failure",
            "message": "command terminated with non-zero exit code: error "
            f"executing command [{' '.join(command)}], exit code {code}",
            "reason": "NonZeroExitCode", "details": {"causes": [
                {"reason": "ExitCode", "message": str(code)}]}}


def not_started(command, error):
    why = (error.strerror or "").lower()
    if isinstance(error, FileNotFoundError):        # as runc has it
        why = (f"stat {command[0]}: {why}" if "/" in command[0] else
               "executable file not found in $PATH")
    text = ("error executing command in container: failed to exec in "
            "container: failed to start exec: OCI runtime exec failed: exec "
            "failed: unable to start container process: exec: "
            f'"{command[0]}": {why}: unknown')
    return {"metadata": {}, "status": "Failure",
            "message": "Internal error occurred: " + text,
            "reason": "InternalError",
            "details": {"causes": [{"message": text}]}, "code": 500}


class Forward:
    """Port n of the request has the channels 2n (data) and 2n+1 (error)."""

    def __init__(self, run, ws, ports):
        self.run = run
        self.ws = ws
        self.ports = ports
        self.writers = {}

    async def serve(self):
        for n, port in enumerate(self.ports):
            prefix = struct.pack("<H", port)
            await self.ws.send(bytes([2 * n]) + prefix)
            await self.ws.send(bytes([2 * n + 1]) + prefix)
        self.ready = [asyncio.Event() for _ in self.ports]
        pairs = [asyncio.ensure_future(self.pair(n, port))
                 for n, port in enumerate(self.ports)]
        listen = asyncio.ensure_future(self.listen())
        try:
            await asyncio.wait({listen, asyncio.gather(
                *pairs, return_exceptions=True)},
                return_when=asyncio.FIRST_COMPLETED)
            if not listen.done():
                await stop(listen)
                await self.ws.close()
                await self.ws.linger()
        finally:
            for task in (listen, *pairs):
                task.cancel()
            for writer in self.writers.values():
                writer.close()

    async def pair(self, n, port):
        try:
            reader, writer = await asyncio.open_connection(
                *self.run.address(port))
        except OSError:
            await self.ws.send(bytes([2 * n + 1]) + (
                f"error forwarding port {port} to pod {self.run.uid}, uid : "
                "failed to execute portforward in network namespace "
                f'"/var/run/netns/cni-{self.run.uid}": failed to connect to '
                f"localhost:{port} inside namespace, IPv4: dial tcp4 "
                f"127.0.0.1:{port}: connect: connection refused IPv6 dial "
                f"tcp6: address localhost: no suitable address found"
            ).encode())
            return
        finally:
            self.ready[n].set()
        self.writers[n] = writer
        try:
            while data := await reader.read(PIECE):
                await self.ws.send(bytes([2 * n]) + data)
        except ConnectionError:
            pass

    async def listen(self):
        while True:
            message = await self.ws.receive()
            n = message[0] // 2 if message else -1
            if not message or message[0] % 2 or n >= len(self.ports):
                continue
            await self.ready[n].wait()
            writer = self.writers.get(n)
            if writer:
                writer.write(message[1:])
                try:
                    await writer.drain()
                except ConnectionError:
                    pass
