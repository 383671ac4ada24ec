#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fixture with the manners of the legacy runtime (python-runtime-sandbox):
no shell, paths decoded twice, output lost when it is not UTF-8.
"""

import argparse
import asyncio
import json
import os
import shlex
import signal
import subprocess
from urllib.parse import unquote

from aiohttp import web


def reply(obj, code=200):
    return web.Response(
        status=code, content_type="application/json",
        text=json.dumps(obj, ensure_ascii=False, separators=(",", ":")))


class Legacy:
    def __init__(self, base, host="0.0.0.0", port=8888, env=None,
                 timeout=300.0, middlewares=()):
        os.makedirs(base, exist_ok=True)
        self.base = os.path.realpath(base)
        self.host = host
        self.port = port
        self.env = {**os.environ, **(env or {})}
        self.timeout = timeout
        self.children = set()
        self.app = web.Application(client_max_size=1 << 40,
                                   middlewares=middlewares)
        self.app.router.add_get("/", self.health)
        self.app.router.add_post("/execute", self.execute)
        self.app.router.add_post("/upload", self.upload)
        for name in "download", "list", "exists":
            self.app.router.add_get(f"/{name}/{{path:(?s:.*)}}",
                                    getattr(self, name))

    async def start(self):
        self.runner = web.AppRunner(self.app, access_log=None)
        await self.runner.setup()
        await web.TCPSite(self.runner, self.host, self.port,
                          shutdown_timeout=0.1).start()
        self.port = self.runner.addresses[0][1]

    async def stop(self):
        for child in list(self.children):
            kill_group(child)
        await self.runner.cleanup()

    async def health(self, request):
        return reply({"status": "ok",
                      "message": "Sandbox Runtime is active."})

    async def execute(self, request):
        try:
            command = (await request.json())["command"]
            if not isinstance(command, str):
                raise TypeError
        except (ValueError, KeyError, TypeError):
            return reply({"detail": [{
                "type": "string_type", "loc": ["body", "command"],
                "msg": "Input should be a valid string"}]}, 422)
        try:
            argv = shlex.split(command)
            argv[0]
            code, out, err = await asyncio.to_thread(self.run, argv)
        except Exception as e:
            return reply({"stdout": "", "exit_code": 1, "stderr":
                          f"Failed to execute command: {e}"})
        return reply({"stdout": out, "stderr": err, "exit_code": code})

    def run(self, argv):
        child = subprocess.Popen(
            argv, cwd=self.base, env=self.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            encoding="utf-8", start_new_session=True)
        self.children.add(child)
        try:
            out, err = child.communicate(timeout=self.timeout)
        except BaseException:
            kill_group(child)
            child.wait()
            raise
        finally:
            self.children.discard(child)
        return child.returncode, out, err

    def inside(self, path):
        """The path below the base folder, or None."""
        full = os.path.realpath(os.path.join(self.base, path.lstrip("/")))
        return full if (full + "/").startswith(self.base + "/") else None

    def asked(self, request):
        raw = request.rel_url.raw_path.split("/", 2)[2]
        return unquote(unquote(raw))

    async def upload(self, request):
        name = None
        async for part in await request.multipart():
            if part.name == "file":
                name = part.filename
                data = await part.read(decode=False)
                break
        if not name:
            return reply({"detail": [{"type": "missing",
                                      "loc": ["body", "file"],
                                      "msg": "Field required"}]}, 422)
        full = self.inside(name)
        if full is None:
            return reply({"message": "Access denied"}, 403)
        try:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "wb") as f:
                f.write(data)
        except OSError as e:
            return reply({"message": f"File upload failed: {e}"}, 500)
        return reply({"message": f"File '{name}' uploaded successfully."})

    async def download(self, request):
        full = self.inside(self.asked(request))
        if full is None:
            return reply({"message": "Access denied"}, 403)
        if not os.path.isfile(full):
            return reply({"message": "File not found"}, 404)
        return web.FileResponse(full, headers={
            "Content-Type": "application/octet-stream",
            "Content-Disposition": "attachment"})

    async def list(self, request):
        full = self.inside(self.asked(request))
        if full is None:
            return reply({"message": "Access denied"}, 403)
        if not os.path.isdir(full):
            return reply({"message": "Path is not a directory"}, 404)
        try:
            return reply([self.entry(os.path.join(full, name), name)
                          for name in os.listdir(full)])
        except OSError as e:
            return reply({"message": f"List files failed: {e}"}, 500)

    def entry(self, full, name):
        info = os.stat(full)
        return {"name": name, "size": info.st_size,
                "type": "directory" if os.path.isdir(full) else "file",
                "mod_time": info.st_mtime}

    async def exists(self, request):
        path = self.asked(request)
        full = self.inside(path)
        if full is None:
            return reply({"message": "Access denied"}, 403)
        return reply({"path": path, "exists": os.path.exists(full)})


def kill_group(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


async def serve(args):
    runtime = Legacy(args.base, args.host, args.port)
    await runtime.start()
    end = asyncio.Event()
    for number in signal.SIGTERM, signal.SIGINT:
        asyncio.get_running_loop().add_signal_handler(number, end.set)
    await end.wait()
    await runtime.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8888)
    parser.add_argument("--base",
                        default=os.environ.get("SANDBOX_BASE_DIR", "/app"))
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
