# SPDX-License-Identifier: Apache-2.0
"""The server's side of RFC 6455, with frames that break it on request."""

import asyncio
import base64
import hashlib
import struct

from . import status
from .httpd import Response

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MAX_MESSAGE = 32 * 1024 * 1024


class Closed(Exception):
    """The peer has closed, or broke the protocol."""


def frame(opcode, payload, fin=True, rsv=0, mask=None):
    size = len(payload)
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    bit = 0x80 if mask else 0
    if size < 126:
        head += bytes([bit | size])
    elif size < 65536:
        head += struct.pack(">BH", bit | 126, size)
    else:
        head += struct.pack(">BQ", bit | 127, size)
    if mask:
        return head + mask + xor(payload, mask)
    return head + payload


def xor(data, mask):
    key = (mask * (len(data) // 4 + 1))[:len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")
            ).to_bytes(len(data), "big")


class WebSocket:
    """Over a connection that has been upgraded; protocol is the chosen one."""

    def __init__(self, conn, protocol, fault=None):
        self.conn = conn
        self.protocol = protocol
        self.fault = fault or {"action": ""}
        self.sent = 0
        self.lock = asyncio.Lock()
        self.over = False

    async def send(self, payload, opcode=BINARY):
        """One message in one frame, unless the fault has it otherwise."""
        data = frame(opcode, payload)
        async with self.lock:
            action = self.fault["action"]
            if action == "ws-silence":
                return
            if action in ("ws-cut", "ws-drop") and self.due(payload):
                if action == "ws-cut":
                    await self.conn.write(data[:max(3, len(data) // 2)])
                self.cut()
            if action == "ws-bad" and self.due(payload):
                await self.send_bad(self.fault.get("kind", ""), payload)
                self.fault = {"action": ""}
                return
            self.sent += 1
            await self.conn.write(data)

    def due(self, payload):
        """Is this frame the one that its fault is about?"""
        if "before" in self.fault:
            return self.fault["before"].encode() in payload
        return self.sent >= self.fault.get("after", 0 if self.fault[
            "action"] == "ws-bad" else 1 << 30)

    async def send_half(self, payload):
        """Half of a message's frame, then the connection goes."""
        data = frame(BINARY, payload)
        async with self.lock:
            await self.conn.write(data[:len(data) // 2])
            self.cut()

    def cut(self):
        self.over = True
        self.conn.writer.close()
        raise Closed("cut by a fault")

    async def send_bad(self, kind, payload):
        good = frame(BINARY, payload)
        data = {
            "masked": frame(BINARY, payload, mask=b"\1\2\3\4"),
            "reserved": frame(BINARY, payload, rsv=4),
            "opcode": frame(5, payload),
            "oversized": b"\x82\x7f" + struct.pack(">Q", 1 << 62) + payload,
            "sign": b"\x82\x7f" + struct.pack(">Q", 1 << 63) + payload,
            "long-control": frame(PING, b"x" * 126),
            "fragmented-control": frame(PING, b"x", fin=False),
            "unfinished": frame(BINARY, payload, fin=False) + good,
            "continuation": frame(CONT, payload),
            "text": frame(TEXT, payload),
            "bad-channel": frame(BINARY, b"\x2a" + payload[1:]),
            "no-channel": frame(BINARY, b""),
            "bad-close": frame(CLOSE, b"\x03"),
        }.get(kind, b"\xff" * 16)
        await self.conn.write(data)

    async def read(self, size):
        try:
            return await self.conn.reader.readexactly(size)
        except (asyncio.IncompleteReadError, OSError):
            raise Closed("connection gone") from None

    async def receive(self):
        """The next binary or text message; raises Closed at the end."""
        parts = []
        while True:
            head = await self.read(2)
            fin, opcode = head[0] & 0x80, head[0] & 15
            size = head[1] & 127
            if head[0] & 0x70 or not head[1] & 0x80:
                await self.close(1002)
                raise Closed("reserved bits or no mask")
            if size == 126:
                size, = struct.unpack(">H", await self.read(2))
            elif size == 127:
                size, = struct.unpack(">Q", await self.read(8))
            if size > MAX_MESSAGE:
                await self.close(1009)
                raise Closed("message too long")
            mask = await self.read(4)
            payload = xor(await self.read(size), mask)
            if opcode == PING:
                async with self.lock:
                    if self.fault["action"] != "ws-silence":
                        await self.conn.write(frame(PONG, payload))
            elif opcode == CLOSE:
                await self.close()
                raise Closed("closed by the client")
            elif opcode in (CONT, TEXT, BINARY):
                parts.append(payload)
                if fin:
                    return b"".join(parts)

    async def close(self, code=1000):
        if self.over or self.fault["action"] == "ws-silence":
            return
        self.over = True
        async with self.lock:
            try:
                await self.conn.write(frame(CLOSE, struct.pack(">H", code)))
            except OSError:
                pass

    async def linger(self, seconds=2.0):
        """Lets the client answer the close before the connection goes."""
        async def drain():
            while await self.conn.reader.read(65536):
                pass
        try:
            await asyncio.wait_for(drain(), seconds)
        except (asyncio.TimeoutError, OSError):
            pass


def upgrade(request, protocols, serve):
    """Answers the handshake; serve(WebSocket) then runs the stream."""
    headers = request.headers
    if (headers.get("upgrade", "").lower() != "websocket"
            or "upgrade" not in headers.get("connection", "").lower()):
        raise status.ApiError(400, "Upgrade request required")
    if headers.get("sec-websocket-version") != "13":
        raise status.ApiError(400, "unsupported WebSocket version")
    key = headers.get("sec-websocket-key", "")
    offered = [p.strip() for p in
               headers.get("sec-websocket-protocol", "").split(",")]
    chosen = next((p for p in offered if p in protocols), None)
    if chosen is None:
        return Response(403, b"", content_type="text/plain")
    fault = request.fault or {"action": ""}
    kind = fault.get("kind") if fault["action"] == "ws-bad" else None
    if kind == "no-upgrade":
        return Response(200, b"{}\n")
    accept = base64.b64encode(hashlib.sha1(key.encode() + GUID)
                              .digest()).decode()
    reply = {"Upgrade": "websocket", "Connection": "Upgrade",
             "Sec-WebSocket-Accept": accept,
             "Sec-WebSocket-Protocol": chosen}
    if kind == "accept":
        reply["Sec-WebSocket-Accept"] = base64.b64encode(b"x" * 20).decode()
    if kind == "no-accept":
        del reply["Sec-WebSocket-Accept"]
    if kind == "subprotocol":
        reply["Sec-WebSocket-Protocol"] = "v9.channel.k8s.io"
    if kind == "no-subprotocol":
        del reply["Sec-WebSocket-Protocol"]
    if kind in ("accept", "no-accept", "subprotocol", "no-subprotocol"):
        fault = {"action": ""}

    async def run(conn):
        ws = WebSocket(conn, chosen, fault)
        try:
            await serve(ws)
        except (Closed, OSError):
            pass

    return Response(101, headers=reply, upgrade=run)
