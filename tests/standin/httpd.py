# SPDX-License-Identifier: Apache-2.0
"""A small HTTP/1.1 server that can misbehave on request.

The application is a coroutine function: Request to Response. The faults
object may name a fault for a request (faults.py); this module plays those
that are about bytes and connections.
"""

import asyncio
import json
from urllib.parse import parse_qsl, unquote

MAX_HEAD = 1024 * 1024            # as Go's net/http
MAX_BODY = 3 * 1024 * 1024
PHRASES = {101: "Switching Protocols", 200: "OK", 201: "Created",
           202: "Accepted", 400: "Bad Request", 401: "Unauthorized",
           403: "Forbidden", 404: "Not Found", 409: "Conflict", 410: "Gone",
           422: "Unprocessable Entity", 429: "Too Many Requests",
           500: "Internal Server Error", 503: "Service Unavailable",
           504: "Gateway Timeout"}


class Request:
    def __init__(self, method, target, headers, body, conn):
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body
        self.conn = conn
        self.fault = None
        self.user = None
        path, _, query = target.partition("?")
        self.path = unquote(path)
        self.pairs = parse_qsl(query, keep_blank_values=True)
        self.query = dict(self.pairs)

    def flag(self, name):
        return self.query.get(name, "").lower() in ("1", "t", "true")

    def json(self):
        return json.loads(self.body or b"{}")


class Response:
    """body: bytes, or an async iterator (sent chunked); upgrade: a coroutine
    function that gets the connection instead of a body."""

    def __init__(self, status=200, body=b"", headers=None, upgrade=None,
                 content_type="application/json"):
        self.status = status
        self.body = body
        self.upgrade = upgrade
        self.headers = {} if upgrade else {"Content-Type": content_type}
        self.headers.update(headers or {})


def json_response(obj, status=200, headers=None):
    return Response(status, json.dumps(obj).encode() + b"\n", headers)


class Connection:
    """One client. write() obeys the fault of the request in hand."""

    def __init__(self, reader, writer, handler):
        self.reader = reader
        self.writer = writer
        self.handler = handler
        self.slow = None
        self.last = False

    async def write(self, data):
        if self.slow:
            size, pause = self.slow
            for at in range(0, len(data), size):
                self.writer.write(data[at:at + size])
                await self.writer.drain()
                await asyncio.sleep(pause)
        else:
            self.writer.write(data)
            await self.writer.drain()

    def abort(self):
        self.writer.transport.abort()

    async def closed(self):
        """Returns when the peer is gone (or was at its last byte)."""
        try:
            while not (self.reader.at_eof()
                       or self.writer.transport.is_closing()):
                await asyncio.sleep(0.05)
        except OSError:
            pass

    async def read_request(self):
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        lines = head.decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ", 2)
        headers = {}
        for line in lines[1:-2]:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            value = value.strip()
            headers[name] = (headers[name] + ", " + value
                             if name in headers else value)
        if headers.get("expect", "").lower() == "100-continue":
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return Request(method, target, headers,
                       await self.read_body(headers), self)

    async def read_body(self, headers):
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = b""
            while True:
                line = await self.reader.readuntil(b"\r\n")
                size = int(line.split(b";")[0], 16)
                if size == 0:
                    while await self.reader.readuntil(b"\r\n") != b"\r\n":
                        pass
                    return body
                body += await self.reader.readexactly(size)
                await self.reader.readexactly(2)
                if len(body) > MAX_BODY:
                    return None
        size = int(headers.get("content-length", 0))
        if size <= MAX_BODY:
            return await self.reader.readexactly(size)
        while size:
            size -= len(await self.reader.readexactly(min(size, 65536)))
        return None

    async def send_head(self, response, extra):
        head = (f"HTTP/1.1 {response.status} "
                f"{PHRASES.get(response.status, 'Status')}\r\n")
        for name, value in {**response.headers, **extra}.items():
            head += f"{name}: {value}\r\n"
        await self.write(head.encode("latin-1") + b"\r\n")

    async def send(self, request, response):
        if response.upgrade:
            await self.send_head(response, {})
            await response.upgrade(self)
            return False
        if isinstance(response.body, bytes):
            await self.send_head(response, {
                "Content-Length": str(len(response.body))})
            if request.method != "HEAD":
                await self.write(response.body)
        else:
            await self.send_head(response, {"Transfer-Encoding": "chunked"})
            await self.send_chunks(response.body)
        return not self.last and \
            request.headers.get("connection", "").lower() != "close"

    async def send_chunks(self, body):
        gone = asyncio.ensure_future(self.closed())
        try:
            step = None
            while True:
                step = asyncio.ensure_future(anext(body, None))
                await asyncio.wait({step, gone},
                                   return_when=asyncio.FIRST_COMPLETED)
                if not step.done():
                    break
                data = step.result()
                if data is None:
                    await self.write(b"0\r\n\r\n")
                    return
                await self.write(b"%x\r\n" % len(data) + data + b"\r\n")
        finally:
            gone.cancel()
            if step and not step.done():
                step.cancel()
                await asyncio.gather(step, return_exceptions=True)
            await body.aclose()

    async def serve(self):
        try:
            while True:
                request = await self.read_request()
                if request is None:
                    break
                self.slow = None
                response = await self.handler(request)
                if response is None:
                    self.abort()
                    break
                if not await self.send(request, response):
                    break
        except (OSError, asyncio.IncompleteReadError,
                asyncio.LimitOverrunError, ValueError):
            pass
        finally:
            await self.close()

    async def close(self):
        try:
            self.writer.close()
            await asyncio.wait_for(self.writer.wait_closed(), 1)
        except (OSError, asyncio.TimeoutError):
            self.abort()


class Server:
    """Listens; ends with every connection's task."""

    def __init__(self, handler):
        self.handler = handler
        self.tasks = set()
        self.servers = []
        self.accepted = 0

    async def listen(self, host, port, ssl=None):
        server = await asyncio.start_server(self.accept, host, port, ssl=ssl,
                                            limit=MAX_HEAD)
        self.servers.append(server)
        return server.sockets[0].getsockname()[1]

    async def accept(self, reader, writer):
        task = asyncio.current_task()
        self.tasks.add(task)
        self.accepted += 1
        task.add_done_callback(self.tasks.discard)
        try:
            await Connection(reader, writer, self.handler).serve()
        except asyncio.CancelledError:
            pass                           # close(); asyncio would complain

    async def close(self):
        for server in self.servers:
            server.close()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
