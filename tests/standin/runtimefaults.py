# SPDX-License-Identifier: Apache-2.0
"""The request log and the faults ("where": "runtime") of the pods' runtimes.

For REST the actions delay, hold, hold-after, drop, drop-after, silence,
status (with "body" as text or {"code", "message"}), garbage, redirect and
cut-body work as at the API server; for gRPC delay, hold, silence and status
("code" is the name of a gRPC status, "message" its text).
"""

import asyncio
import json

import grpc
from aiohttp import web


class Hooks:
    def __init__(self, faults, pod):
        self.faults = faults
        self.pod = pod

        @web.middleware
        async def middleware(request, handler):
            return await self.rest(request, handler)

        self.middleware = middleware

    def take(self, method, target):
        self.faults.log.append({"where": "runtime", "pod": self.pod,
                                "method": method, "path": target})
        return self.faults.take(method, target, "runtime")

    async def rest(self, request, handler):
        rule = self.take(request.method, request.raw_path)
        if rule is None:
            return await handler(request)
        action = rule["action"]
        await pause(rule)
        if action == "drop":
            return cut(request)
        made = made_up(rule)
        response = made if made is not None else await handler(request)
        if action == "hold-after":
            await rule["release"].wait()
        if action == "drop-after":
            return cut(request)
        if action == "cut-body":
            return await cut_body(request, response)
        return response

    def interceptor(self):
        return Interceptor(self)


def cut(request):
    request.transport.abort()
    return web.Response()


async def cut_body(request, response):
    body = response.body if isinstance(response, web.Response) else b""
    half = web.StreamResponse(status=response.status, headers={
        "Content-Length": str(len(body) + 10)})
    await half.prepare(request)
    await half.write(body[:len(body) // 2] or b"x")
    request.transport.close()
    return half


async def pause(rule):
    if rule["action"] == "delay":
        await asyncio.sleep(rule.get("ms", 100) / 1000)
    elif rule["action"] == "hold":
        await rule["release"].wait()
    elif rule["action"] == "silence":
        await asyncio.sleep(3600)


def made_up(rule):
    if rule["action"] == "status":
        body = rule.get("body")
        if body is None:
            body = json.dumps({"code": rule.get("reason", "INTERNAL"),
                               "message": rule.get("message", "made up")})
        headers = {}
        if "retry_after" in rule:
            headers["Retry-After"] = str(rule["retry_after"])
        return web.Response(status=rule.get("code", 500), text=body,
                            content_type="application/json", headers=headers)
    if rule["action"] == "garbage":
        return web.Response(status=rule.get("code", 200),
                            text=rule.get("body", "{\"stdout\": gar"))
    if rule["action"] == "redirect":
        return web.Response(status=rule.get("code", 302), headers={
            "Location": rule.get("location", "http://127.0.0.1:1/")})
    return None


class Interceptor(grpc.aio.ServerInterceptor):
    def __init__(self, hooks):
        self.hooks = hooks

    async def intercept_service(self, continuation, details):
        rule = self.hooks.take("POST", details.method)
        handler = await continuation(details)
        if rule is None or handler is None:
            return handler

        async def begin(context):
            await pause(rule)
            if rule["action"] == "status":
                await context.abort(
                    getattr(grpc.StatusCode, rule.get("code", "INTERNAL")),
                    rule.get("message", "made up"))

        async def unary(request, context):
            await begin(context)
            return await handler.unary_unary(request, context)

        async def stream(request, context):
            await begin(context)
            async for item in handler.unary_stream(request, context):
                yield item

        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(unary)
