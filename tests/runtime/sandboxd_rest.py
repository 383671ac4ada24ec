# SPDX-License-Identifier: Apache-2.0
"""The files of the sandboxd fixture: confinement and the REST interface."""

import json
import os
import posixpath
import re
import shutil
import stat
import tempfile
import time
from datetime import datetime, timezone
from email.utils import formatdate, parsedate_to_datetime
from urllib.parse import unquote

from aiohttp import web

SECRET = re.compile("TOKEN|SECRET|PASSWORD|PASSWD|CRED|KEY|AUTH|BEARER"
                    "|PRIVATE|CERT", re.I)
CODES = {400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
         409: "CONFLICT", 500: "INTERNAL", 503: "UNAVAILABLE"}
TRUE = {"1", "t", "T", "true", "TRUE", "True"}
FALSE = {"", "0", "f", "F", "false", "FALSE", "False"}
PIECE = 256 * 1024


class Outside(Exception):
    """A path that leaves the root."""


def confine(root, path):
    """Absolute paths below the root mean themselves, others are taken inside
    it; links are resolved, of the nearest folder that exists."""
    clean = posixpath.normpath(path) if path else "."
    if clean != root and not clean.startswith(root + "/"):
        if clean == ".." or clean.startswith("../"):
            raise Outside(f"path {path!r} is outside the root")
        clean = root + "/" + clean.lstrip("/")
    real = os.path.realpath(clean)
    if real != root and not real.startswith(root + "/"):
        raise Outside(f"path {path!r} is outside the root")
    return real


def error(code, message):
    return web.Response(status=code, content_type="application/json",
                        text=json.dumps({"code": CODES[code],
                                         "message": message}) + "\n")


def answer(obj, code=200):
    return web.Response(status=code, content_type="application/json",
                        text=json.dumps(obj) + "\n")


def entry(path, name, root):
    """None for a link that is broken or leads out."""
    full = os.path.join(path, name)
    real = os.path.realpath(full)
    if real != root and not real.startswith(root + "/"):
        return None
    try:
        info = os.stat(full)
    except OSError:
        return None
    when = datetime.fromtimestamp(int(info.st_mtime), timezone.utc)
    return {"name": name, "size": info.st_size,
            "type": "directory" if stat.S_ISDIR(info.st_mode) else "file",
            "modified_at": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "mode": "%04o" % (info.st_mode & 0o777)}


def parse_range(text, size):
    """(first, end) of one range; None: no range; False: unsatisfiable."""
    m = re.fullmatch(r"bytes=(\d*)-(\d*)", text or "")
    if not m or not (m[1] or m[2]):
        return None
    if not m[1]:
        return (max(0, size - int(m[2])), size) if int(m[2]) else False
    first = int(m[1])
    end = min(int(m[2]) + 1, size) if m[2] else size
    return (first, end) if first < size and first < end else False


class Files:
    def __init__(self, root):
        self.root = root

    def sent(self, request):
        return unquote(request.rel_url.raw_path[len("/v1/files/"):],
                       errors="surrogateescape")

    async def handle(self, request):
        if not request.rel_url.raw_path.startswith("/v1/files/"):
            return web.Response(status=307,
                                headers={"Location": "/v1/files/"})
        raw = request.rel_url.raw_path[len("/v1/files/"):]
        if any(p in (".", "..") for p in raw.split("/")) or "//" in raw:
            clean = posixpath.normpath("/v1/files/" + raw)
            return web.Response(status=307, headers={"Location": clean})
        action = {"GET": self.get, "HEAD": self.get, "PUT": self.put,
                  "DELETE": self.delete}.get(request.method)
        if action is None:
            return web.Response(status=405, text="Method Not Allowed\n")
        sent = self.sent(request)
        try:
            return await action(request, sent, confine(self.root, sent))
        except (Outside, PermissionError) as e:
            return error(403, str(e))
        except FileNotFoundError:
            return error(404, f"{sent}: no such file or directory")
        except ValueError as e:
            return error(400, str(e))
        except OSError as e:
            return error(500, os.strerror(e.errno).lower())

    async def get(self, request, sent, path):
        info = os.stat(path)
        if stat.S_ISDIR(info.st_mode):
            entries = [entry(path, name, self.root)
                       for name in sorted(os.listdir(path))]
            return answer({"path": "/" + sent.lstrip("/"),
                           "entries": [e for e in entries if e]})
        headers = {"Last-Modified": formatdate(info.st_mtime, usegmt=True),
                   "Accept-Ranges": "bytes",
                   "Content-Type": "application/octet-stream"}
        since = request.headers.get("If-Modified-Since")
        if since and int(info.st_mtime) <= \
                parsedate_to_datetime(since).timestamp():
            return web.Response(status=304, headers=headers)
        first, end = 0, info.st_size
        span = parse_range(request.headers.get("Range"), info.st_size)
        if span is False:
            return web.Response(status=416, headers={
                "Content-Range": f"bytes */{info.st_size}"},
                text="invalid range: failed to overlap\n")
        if span:
            first, end = span
            headers["Content-Range"] = \
                f"bytes {first}-{end - 1}/{info.st_size}"
        return await self.send(request, path, headers, first, end,
                               206 if span else 200)

    async def send(self, request, path, headers, first, end, code):
        response = web.StreamResponse(status=code, headers={
            **headers, "Content-Length": str(end - first)})
        with open(path, "rb") as f:
            await response.prepare(request)
            f.seek(first)
            while request.method != "HEAD" and first < end:
                data = f.read(min(PIECE, end - first))
                if not data:
                    break
                first += len(data)
                await response.write(data)
        await response.write_eof()
        return response

    async def put(self, request, sent, path):
        mode = request.query.get("mode", "0644")
        if not re.fullmatch("0[0-7]{3}", mode):
            raise ValueError(f"bad mode {mode!r}")
        if os.path.isdir(path):
            raise ValueError(f"{sent} is a directory")
        source = request.content
        if request.content_type.startswith("multipart/"):
            source = await file_part(request)
        folder = os.path.dirname(path)
        os.makedirs(folder, 0o755, exist_ok=True)
        fd, temporary = tempfile.mkstemp(prefix=".sandboxd-tmp-", dir=folder)
        try:
            with open(fd, "wb") as f:
                while data := await read_piece(source):
                    f.write(data)
                os.fchmod(f.fileno(), int(mode, 8))
                f.flush()
                os.fsync(f.fileno())
            os.rename(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        return web.Response(status=204)

    async def delete(self, request, sent, path):
        value = request.query.get("recursive", "")
        if value not in TRUE | FALSE:
            raise ValueError(f"bad recursive {value!r}")
        recursive = value in TRUE
        link = self.root + "/" + posixpath.normpath(sent).lstrip("/")
        if os.path.islink(link):
            os.unlink(link)
        elif path == self.root:
            if not recursive:
                return error(409, "the root needs recursive")
            for name in os.listdir(path):
                remove(os.path.join(path, name))
        elif os.path.isdir(path) and not recursive and os.listdir(path):
            return error(409, "directory not empty")
        else:
            os.lstat(path)
            remove(path)
        return web.Response(status=204)


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


async def file_part(request):
    async for part in await request.multipart():
        if part.name == "file":
            return part
    raise ValueError("multipart body without a part named file")


async def read_piece(source):
    if hasattr(source, "read_chunk"):
        return await source.read_chunk(PIECE)
    return await source.readany()


STOPPING = web.AppKey("stopping", list)


def stopping(app):
    app[STOPPING].append(True)


def application(root, env, prefix, middlewares=()):
    app = web.Application(client_max_size=1 << 40, middlewares=middlewares)
    app[STOPPING] = []
    files = Files(root)
    started = time.monotonic()
    shown = {k: v for k, v in env.items()
             if k.startswith(prefix) and not SECRET.search(k)}

    async def health(request):
        if app[STOPPING]:
            return error(503, "stopping")
        return answer({"status": "ok", "uptime_seconds":
                       int(time.monotonic() - started)})

    async def metadata(request):
        return answer({"env": shown})

    async def unknown(request):
        return web.Response(status=404, text="404 page not found\n")

    app.router.add_get("/v1/health", health)
    app.router.add_get("/v1/metadata", metadata)
    app.router.add_route("*", "/v1/files", files.handle)
    app.router.add_route("*", "/v1/files/{path:(?s:.*)}", files.handle)
    app.router.add_route("*", "/{path:.*}", unknown)
    return app
