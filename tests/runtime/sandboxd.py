#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fixture that behaves as sandboxd does: files over REST, processes over
gRPC (process.v1.ProcessService). Runs by itself in a pod (needs aiohttp and
grpcio), or inside the stand-in. The protobuf messages are encoded here, so
no generated code is needed.
"""

import argparse
import asyncio
import fcntl
import os
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc                                                    # noqa: E402
from aiohttp import web                                        # noqa: E402

import sandboxd_rest as files                                  # noqa: E402

SERVICE = "process.v1.ProcessService"
Code = grpc.StatusCode


# Protobuf: a message is a list of (field number, value); value is an int for
# a varint, bytes for a length-delimited field.

def encode(fields):
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value & (1 << 64) - 1)
        else:
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return bytes(out)


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode(data):
    fields = []
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = number()
        if tag & 7 == 0:
            fields.append((tag >> 3, number()))
        elif tag & 7 == 2:
            size = number()
            if at + size > len(data):
                raise ValueError("field longer than its message")
            fields.append((tag >> 3, bytes(data[at:at + size])))
            at += size
        else:
            raise ValueError(f"wire type {tag & 7}")
    return fields


def last(fields, number, default):
    for n, value in fields:
        if n == number:
            default = value
    return default


def int32(value):
    value &= 0xffffffff
    return value - (1 << 32) if value >> 31 else value


class Config:
    def __init__(self, data):
        fields = decode(data)
        self.command = [v.decode() for n, v in fields if n == 1]
        self.env = {}
        for n, v in fields:
            if n == 2:
                entry = decode(v)
                self.env[last(entry, 1, b"").decode()] = \
                    last(entry, 2, b"").decode()
        self.cwd = last(fields, 3, b"").decode()


class Process:
    """A child with a pidfd for its end; its pipes are read with asyncio."""

    def __init__(self, argv, cwd, env, stdin=True, pty=None):
        self.master = None
        if pty is not None:
            self.master, slave = os.openpty()
            set_size(self.master, *pty)
            streams = dict(stdin=slave, stdout=slave, stderr=slave)
            argv = ["setsid", "-c", *argv]
        else:
            streams = dict(stdin=subprocess.PIPE if stdin else
                           subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, start_new_session=True)
        try:
            self.child = subprocess.Popen(argv, cwd=cwd, env=env, **streams)
        finally:
            if pty is not None:
                os.close(slave)
        self.pid = self.child.pid
        self.input = (os.dup(self.master) if pty is not None
                      else self.child.stdin and os.dup(
                          self.child.stdin.fileno()))
        if self.child.stdin:
            self.child.stdin.close()
        if isinstance(self.input, int):
            os.set_blocking(self.input, False)
        self.exited = asyncio.get_running_loop().create_future()
        self.pidfd = os.pidfd_open(self.pid)
        asyncio.get_running_loop().add_reader(self.pidfd, self.reap)

    def reap(self):
        asyncio.get_running_loop().remove_reader(self.pidfd)
        os.close(self.pidfd)
        self.child.wait()
        if not self.exited.done():
            self.exited.set_result(self.child.returncode)

    async def wait(self):
        return await asyncio.shield(self.exited)

    def outputs(self):
        """(name, file) of what can be read."""
        if self.master is not None:
            return [("stdout", os.fdopen(self.master, "rb", 0))]
        return [("stdout", self.child.stdout), ("stderr", self.child.stderr)]

    async def write(self, data):
        """Raises BrokenPipeError when nobody reads."""
        loop = asyncio.get_running_loop()
        while data:
            try:
                data = data[os.write(self.input, data):]
            except BlockingIOError:
                ready = loop.create_future()
                loop.add_writer(self.input, lambda: ready.done()
                                or ready.set_result(None))
                try:
                    await asyncio.wait({ready, self.exited},
                                       return_when=asyncio.FIRST_COMPLETED)
                finally:
                    loop.remove_writer(self.input)
                if self.exited.done() and not ready.done():
                    raise BrokenPipeError("the process has ended") from None

    def close_input(self):
        if self.input is not None:
            if self.master is not None:
                os.write(self.input, b"\x04")
            os.close(self.input)
            self.input = None

    def signal_group(self, number):
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def kill(self):
        """The direct child only, as sandboxd does."""
        if not self.exited.done():
            self.child.kill()


def set_size(fd, cols, rows):
    if cols > 0 and rows > 0:
        fcntl.ioctl(fd, termios.TIOCSWINSZ,
                    struct.pack("HHHH", rows, cols, 0, 0))


async def read_all(name, file, size, emit):
    """Hands every piece of a pipe to emit(name, bytes)."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=max(size, 65536))
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), file)
    try:
        while True:
            try:
                data = await reader.read(size)
            except OSError:                    # the end of a terminal
                break
            if not data:
                break
            await emit(name, data)
    finally:
        transport.close()


class ProcessService(grpc.GenericRpcHandler):
    def __init__(self, root, chunk=4096, env=None):
        self.root = root
        self.chunk = chunk
        self.env = {**os.environ, **(env or {})}
        self.processes = {}
        self.next_id = 1

    def service(self, details):
        prefix, _, method = details.method.lstrip("/").rpartition("/")
        if prefix != SERVICE:
            return None
        if method == "Start":
            return grpc.unary_stream_rpc_method_handler(self.start)
        handler = {"Execute": self.execute, "WriteStdin": self.write_stdin,
                   "SendSignal": self.send_signal,
                   "ResizeTTY": self.resize}.get(method)
        return handler and grpc.unary_unary_rpc_method_handler(handler)

    async def spawn(self, config, context, stdin, pty=None):
        if not config.command:
            await context.abort(Code.INVALID_ARGUMENT, "command is required")
        env = {**self.env, **config.env}
        try:
            cwd = files.confine(self.root, config.cwd)
            if pty is not None and not shutil.which(config.command[0],
                                                    path=env.get("PATH")):
                raise FileNotFoundError(f"{config.command[0]}: not found")
            return Process(config.command, cwd, env, stdin, pty)
        except files.Outside as e:
            await context.abort(Code.PERMISSION_DENIED, str(e))
        except (FileNotFoundError, NotADirectoryError) as e:
            await context.abort(Code.NOT_FOUND, f"failed to start: {e}")
        except PermissionError as e:
            await context.abort(Code.PERMISSION_DENIED,
                                f"failed to start: {e}")
        except (OSError, ValueError) as e:
            await context.abort(Code.INTERNAL, f"failed to start: {e}")

    async def execute(self, request, context):
        config = Config(last(decode(request), 1, b""))
        process = await self.spawn(config, context, False)
        got = {"stdout": bytearray(), "stderr": bytearray()}

        async def emit(name, data):
            got[name] += data

        readers = [asyncio.ensure_future(read_all(n, f, 65536, emit))
                   for n, f in process.outputs()]
        try:
            await asyncio.gather(*readers)
            code = await process.wait()
        finally:
            process.kill()
            for reader in readers:
                reader.cancel()
        return encode([(n, v) for n, v in (
            (1, max(code, -1)), (2, bytes(got["stdout"])),
            (3, bytes(got["stderr"]))) if v])

    async def start(self, request, context):
        fields = decode(request)
        config = Config(last(fields, 1, b""))
        pty = last(fields, 2, None)
        if pty is not None:
            size = decode(pty)
            pty = last(size, 1, 0), last(size, 2, 0)
        process = await self.spawn(config, context, True, pty)
        number, self.next_id = self.next_id, self.next_id + 1
        self.processes[number] = process
        queue = asyncio.Queue(8)

        async def emit(name, data):
            await queue.put(encode([(2 if name == "stdout" else 3, data)]))

        readers = {asyncio.ensure_future(read_all(n, f, self.chunk, emit))
                   for n, f in process.outputs()}
        end = asyncio.ensure_future(self.finish(process, readers, queue))
        try:
            yield encode([(1, encode([(1, number)]))])
            while (item := await queue.get()) is not None:
                yield item
            code = max(await process.wait(), -1)
            yield encode([(4, encode([(1, code)] if code else []))])
        finally:
            del self.processes[number]
            process.kill()
            if process.input is not None:
                os.close(process.input)
                process.input = None
            for task in {end, *readers}:
                task.cancel()

    async def finish(self, process, readers, queue):
        """Up to 5 s for pipes that others still hold after the exit."""
        await process.wait()
        await asyncio.wait(readers, timeout=5)
        await queue.put(None)

    async def known(self, fields, context):
        process = self.processes.get(int32(last(fields, 1, 0)))
        if process is None or process.exited.done():
            await context.abort(Code.NOT_FOUND, "process not found")
        return process

    async def write_stdin(self, request, context):
        fields = decode(request)
        process = await self.known(fields, context)
        data = last(fields, 2, None)
        try:
            if data is not None:
                if process.input is None:
                    raise BrokenPipeError("stdin is closed")
                await process.write(data)
            elif last(fields, 3, None) is not None:
                if process.input is None:
                    raise BrokenPipeError("stdin is closed")
                process.close_input()
        except OSError as e:
            await context.abort(Code.INTERNAL, f"write to stdin: {e}")
        return b""

    async def send_signal(self, request, context):
        fields = decode(request)
        number = last(fields, 2, 0)
        if number not in (signal.SIGINT, signal.SIGKILL, signal.SIGTERM):
            await context.abort(Code.INVALID_ARGUMENT, "unsupported signal")
        (await self.known(fields, context)).signal_group(number)
        return b""

    async def resize(self, request, context):
        fields = decode(request)
        process = await self.known(fields, context)
        if process.master is None:
            await context.abort(Code.FAILED_PRECONDITION, "no terminal")
        set_size(process.master, last(fields, 2, 0), last(fields, 3, 0))
        return b""


class Sandboxd:
    def __init__(self, root, host, rest_port=8080, grpc_port=9090,
                 prefix="SANDBOX_", env=None, chunk=4096, middlewares=(),
                 interceptors=()):
        os.makedirs(root, 0o755, exist_ok=True)
        self.root = os.path.realpath(root)
        self.host = host
        self.ports = rest_port, grpc_port
        self.service = ProcessService(self.root, chunk, env)
        self.app = files.application(
            self.root, {**os.environ, **(env or {})}, prefix, middlewares)
        self.interceptors = interceptors

    async def start(self):
        """Whole, even when the caller is cancelled: grpcio crashes when a
        server is stopped, or forgotten, while it starts."""
        self.starting = asyncio.ensure_future(self.begin())
        await asyncio.shield(self.starting)

    async def begin(self):
        self.runner = web.AppRunner(self.app, access_log=None,
                                    keepalive_timeout=60)
        await self.runner.setup()
        rest = web.TCPSite(self.runner, self.host, self.ports[0],
                           shutdown_timeout=0.1)
        self.rpc = grpc.aio.server(
            interceptors=self.interceptors,
            options=[("grpc.so_reuseport", 0),
                     ("grpc.max_send_message_length", -1),
                     ("grpc.max_receive_message_length", -1)])
        self.rpc.add_generic_rpc_handlers((self.service,))
        try:
            await rest.start()
            port = self.rpc.add_insecure_port(f"{self.host}:{self.ports[1]}")
        except (OSError, RuntimeError) as e:
            await self.runner.cleanup()
            raise OSError(f"cannot listen: {e}") from None
        self.ports = self.runner.addresses[0][1], port
        await self.rpc.start()

    async def stop(self):
        await asyncio.wait({self.starting})
        if self.starting.exception():
            return
        files.stopping(self.app)
        for process in list(self.service.processes.values()):
            process.signal_group(signal.SIGKILL)
        await self.rpc.stop(0)
        await self.runner.cleanup()


async def serve(args):
    daemon = Sandboxd(args.root_dir, args.listen_host, args.rest_port,
                      args.grpc_port, args.metadata_env_prefix,
                      chunk=args.stream_chunk_size or 4096)
    await daemon.start()
    end = asyncio.Event()
    for number in signal.SIGTERM, signal.SIGINT:
        asyncio.get_running_loop().add_signal_handler(number, end.set)
    print(f"serving {daemon.root}, started at {int(time.time())}",
          file=sys.stderr)
    await end.wait()
    for process in list(daemon.service.processes.values()):
        process.signal_group(signal.SIGTERM)
    await daemon.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen-host", default="0.0.0.0")
    parser.add_argument("--grpc-port", type=int, default=9090)
    parser.add_argument("--rest-port", type=int, default=8080)
    parser.add_argument("--root-dir", default="/workspace")
    parser.add_argument("--metadata-env-prefix", default="SANDBOX_")
    parser.add_argument("--stream-chunk-size", type=int, default=0)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
