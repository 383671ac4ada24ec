# SPDX-License-Identifier: Apache-2.0
"""A fixture with the manners of the two sandbox routers (contract:
agent-sandbox 5): the header contract, their refusals and their time limits.

It runs in a thread; find(id, namespace) gives a pod's {port: (host, port)}.
"""

import asyncio
import hmac
import ipaddress
import re
import threading
from urllib.parse import quote, unquote_to_bytes

import aiohttp
from aiohttp import web
from yarl import URL

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
HOP = {"host", "connection", "keep-alive", "te", "trailer", "upgrade",
       "transfer-encoding", "proxy-authorization", "authorization"}


class Refusal(Exception):
    def __init__(self, code, detail):
        super().__init__(detail)
        self.code = code
        self.detail = detail


def go_path(raw):
    """Decoded and encoded again, as net/url does it."""
    path, mark, query = raw.partition("?")
    return quote(unquote_to_bytes(path), safe="/~!$&'()*+,;=:@-._") + \
        mark + query


class Router:
    """flavour: "python" or "go"; limit: seconds, 180 and 30 there."""

    def __init__(self, find, flavour="python", limit=None, token=None,
                 tls=None):
        self.find = find
        self.flavour = flavour
        self.limit = limit or (180 if flavour == "python" else 30)
        self.token = token
        self.tls = tls
        self.requests = []
        self.answer = None      # (status, text): instead of the sandbox's
        self.ready = threading.Event()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        self.ready.wait(10)

    @property
    def url(self):
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    def run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.start())
        self.loop.run_forever()

    async def start(self):
        app = web.Application(client_max_size=1 << 40)
        app.router.add_route("*", "/{path:.*}", self.handle)
        self.runner = web.AppRunner(app, access_log=None,
                                    shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=self.tls).start()
        self.port = self.runner.addresses[0][1]
        self.client = aiohttp.ClientSession(auto_decompress=False)
        self.ready.set()

    def close(self):
        async def stop():
            await self.client.close()
            await self.runner.cleanup()
            self.loop.stop()
        if not self.thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(stop(), self.loop)
        self.thread.join(10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    async def handle(self, request):
        self.requests.append((request.method, request.raw_path,
                              dict(request.headers)))
        if request.path == "/healthz":
            return web.json_response({"status": "ok"})
        if self.answer:
            return web.Response(status=self.answer[0], text=self.answer[1])
        try:
            self.authorize(request)
            target = await self.target(request)
            return await self.pass_on(request, target)
        except Refusal as e:
            return web.json_response({"detail": e.detail}, status=e.code)

    def authorize(self, request):
        if self.token is None:
            return
        scheme, _, given = request.headers.get("Authorization",
                                               "").partition(" ")
        if scheme != "Bearer" or not given:
            raise Refusal(401, "Missing or invalid Authorization header.")
        if not hmac.compare_digest(given, self.token):
            raise Refusal(401, "Invalid token.")

    async def target(self, request):
        sandbox = request.headers.get("X-Sandbox-ID")
        namespace = request.headers.get("X-Sandbox-Namespace", "default")
        port = request.headers.get("X-Sandbox-Port", "8888")
        address = request.headers.get("X-Sandbox-Pod-IP")
        if not sandbox:
            raise Refusal(400, "X-Sandbox-ID header is required.")
        for what, text in ("sandbox ID", sandbox), ("namespace", namespace):
            if len(text) > 63 or not LABEL.fullmatch(text):
                raise Refusal(400, f"Invalid {what} format.")
        if not port.isdigit() or not 0 < int(port) < 65536:
            raise Refusal(400, "Invalid port format.")
        if address:
            try:
                ip = ipaddress.ip_address(address)
            except ValueError:
                raise Refusal(400, "Invalid target IP address.") from None
            # The pods of the stand-in are on loopback.
            if ip.is_link_local or ip.is_multicast or ip.is_unspecified:
                raise Refusal(400, "Invalid target IP address.")
            return sandbox, address, int(port)
        found = await asyncio.to_thread(self.find, sandbox, namespace)
        host = found.get(int(port))
        if host is None:
            raise self.unreachable(sandbox)
        return sandbox, *host

    @staticmethod
    def unreachable(sandbox):
        return Refusal(502, "Could not connect to the backend sandbox: "
                       + sandbox)

    def times(self, request):
        """Until the head of the answer, and all of it."""
        if self.flavour == "go":
            return self.limit, 180
        asked = float(request.headers.get("X-Sandbox-Timeout", self.limit))
        return None, min(asked, self.limit)

    async def pass_on(self, request, target):
        sandbox, host, port = target
        path = request.raw_path
        if self.flavour == "go":
            path = go_path(path)
        headers = {k: v for k, v in request.headers.items()
                   if k.lower() not in HOP and
                   (self.flavour == "go" or
                    not k.lower().startswith("x-sandbox-"))}
        head, whole = self.times(request)
        body = request.content if request.can_read_body else None
        try:
            async with asyncio.timeout(whole):
                async with asyncio.timeout(head) as first:
                    answer = await self.client.request(
                        request.method,
                        URL(f"http://{host}:{port}{path}", encoded=True),
                        headers=headers, data=body, allow_redirects=False,
                        timeout=aiohttp.ClientTimeout(total=None))
                    first.reschedule(None)
                return await self.copy(request, answer)
        except TimeoutError:
            if self.flavour == "go":
                raise self.unreachable(sandbox) from None
            raise Refusal(504, "Timed out waiting for the backend sandbox: "
                          + sandbox) from None
        except aiohttp.ClientError:
            raise self.unreachable(sandbox) from None

    async def copy(self, request, answer):
        out = web.StreamResponse(status=answer.status, headers={
            k: v for k, v in answer.headers.items() if k.lower() not in HOP})
        async with answer:
            await out.prepare(request)
            async for piece in answer.content.iter_any():
                await out.write(piece)
        await out.write_eof()
        return out
