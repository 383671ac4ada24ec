# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes REST interface: a request to an answer from the store."""

import asyncio
import base64
import json
import re

from . import kinds, selectors, status
from .httpd import Response, json_response
from .lag import lag
from .streams import V4, V5

PARTIAL = re.compile(r"application/json\s*;(?=.*as=(PartialObjectMetadata"
                     r"(?:List)?)(?:;|$))(?=.*g=meta\.k8s\.io)(?=.*v=v1\b)")
VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.3+standin",
           "platform": "linux/amd64"}
VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update",
         "PATCH": "patch", "DELETE": "delete"}


class Target:
    """What a path names: kind, namespace, name, subresource."""

    def __init__(self, path):
        parts = path.strip("/").split("/")
        group = ""
        if parts[0] == "apis" and len(parts) > 2:
            group, version, rest = parts[1], parts[2], parts[3:]
        elif parts[0] == "api" and len(parts) > 1:
            version, rest = parts[1], parts[2:]
        else:
            raise status.page_not_found()
        self.namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            self.namespace, rest = rest[1], rest[2:]
        if not rest or len(rest) > 3 or "" in rest:
            raise status.page_not_found()
        self.kind = kinds.BY_PATH.get((group, version, rest[0]))
        self.name = rest[1] if len(rest) > 1 else ""
        self.sub = rest[2] if len(rest) > 2 else ""
        if self.kind is None:
            if any(k.group == group and k.version == version and not k.custom
                   for k in kinds.ALL):
                raise status.ApiError(404, "the server could not find the "
                                      "requested resource")
            raise status.page_not_found()


class Api:
    def __init__(self, store, access, streams, kubelet):
        self.store = store
        self.access = access
        self.streams = streams
        self.kubelet = kubelet
        self.reset()

    def reset(self):
        """What a test may change by /admin/config."""
        self.crds = True
        self.bookmark_s = 1.0
        self.streams.exec_protocols = {V5, V4}

    async def handle(self, request):
        try:
            return await self.dispatch(request)
        except status.ApiError as e:
            if e.text is not None:
                return Response(e.code, e.text.encode(), e.headers,
                                content_type="text/plain; charset=utf-8")
            return json_response(e.body, e.code, e.headers)

    async def dispatch(self, request):
        user = request.user or self.access.user(request)
        found = self.discovery(request.path)
        if found is not None:
            return found
        target = Target(request.path)
        if target.kind.custom and not self.crds:
            raise status.page_not_found()
        verb = VERBS.get(request.method)
        if verb is None:
            raise status.ApiError(405, "the server does not allow this "
                                  "method on the requested resource")
        if not target.name and verb in ("get", "delete"):
            watch = verb == "get" and request.flag("watch")
            verb = {"get": "watch" if watch else "list",
                    "delete": "deletecollection"}[verb]
        if request.body is None:
            raise status.ApiError(413, "Request entity too large: limit is "
                                  "3145728")
        if target.sub in ("exec", "portforward", "log"):
            return await self.connect(user, target, request)
        self.access.demand(user, verb, target.kind, target.sub,
                           target.namespace, target.name)
        self.check_target(target)
        if target.kind is kinds.TOKENS:
            return json_response(self.access.known(request.json()), 201)
        if target.kind is kinds.REVIEWS:
            return json_response(self.access.review(user, request.json()),
                                 201)
        return await getattr(self, "do_" + verb)(target, request)

    def check_target(self, target):
        if target.sub and (target.sub != "status" or target.kind
                           not in kinds.STATUS_SUBRESOURCE):
            raise status.ApiError(404, "the server could not find the "
                                  "requested resource")

    async def connect(self, user, target, request):
        """The streams are opened by GET; 1.35 asks for create as well."""
        verbs = ("get",) if target.sub == "log" else ("get", "create")
        for verb in verbs:
            self.access.demand(user, verb, target.kind, target.sub,
                               target.namespace, target.name)
        pod = self.store.get(kinds.PODS, target.namespace, target.name)
        if target.sub == "log":
            return self.kubelet.log(pod, request)
        return await getattr(self.streams, target.sub)(pod, request)

    # Discovery

    def discovery(self, path):
        if path in ("/healthz", "/readyz", "/livez"):
            return Response(200, b"ok", content_type="text/plain")
        if path == "/version":
            return json_response(VERSION)
        served = [k for k in kinds.ALL if self.crds or not k.custom]
        groups = {}
        for kind in served:
            if kind.group:
                groups[kind.group] = api_group(kind)
        parts = path.strip("/").split("/")
        if parts == ["api"]:
            return json_response({"kind": "APIVersions", "versions": ["v1"]})
        if parts == ["apis"]:
            return json_response({"kind": "APIGroupList", "apiVersion": "v1",
                                  "groups": list(groups.values())})
        if parts[0] == "apis" and len(parts) == 2 and parts[1] in groups:
            return json_response({"kind": "APIGroup", "apiVersion": "v1",
                                  **groups[parts[1]]})
        here = [k for k in served if path.rstrip("/") == k.base]
        if not here:
            return None
        return json_response({
            "kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": here[0].api_version,
            "resources": [{"name": k.plural, "singularName": k.kind.lower(),
                           "namespaced": k.namespaced, "kind": k.kind,
                           "verbs": ["create", "delete", "get", "list",
                                     "patch", "update", "watch"]}
                          for k in here]})

    # Verbs

    async def do_get(self, target, request):
        obj = self.store.get(target.kind, target.namespace, target.name)
        return json_response(self.view(request)(obj))

    async def do_list(self, target, request):
        match = selectors.both(target.kind, request.query)
        items = [o for o in self.store.list(target.kind, target.namespace)
                 if match(o)]
        meta = {"resourceVersion": str(self.store.rv)}
        start = 0
        if request.query.get("continue"):
            version, start = read_continue(request.query["continue"])
            if version < self.store.oldest:
                raise status.ApiError(
                    410, "The provided continue parameter is too old to "
                    "display a consistent list result.")
            meta["resourceVersion"] = str(version)
        limit = int(request.query.get("limit") or 0)
        page = items[start:start + limit] if limit else items[start:]
        left = len(items) - start - len(page)
        if left > 0:
            meta["continue"] = base64.urlsafe_b64encode(json.dumps(
                [int(meta["resourceVersion"]),
                 start + limit]).encode()).decode()
            if not ("labelSelector" in request.query
                    or "fieldSelector" in request.query):
                meta["remainingItemCount"] = left
        kind, version = target.kind.kind + "List", target.kind.api_version
        if wants_partial(request):
            kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
        view = self.view(request)
        page = [view(o) for o in page]
        if not target.kind.custom and not wants_partial(request):
            page = [{k: v for k, v in o.items()
                     if k not in ("kind", "apiVersion")} for o in page]
        return json_response({"kind": kind, "apiVersion": version,
                              "metadata": meta, "items": page})

    async def do_create(self, target, request):
        if target.name:
            raise status.ApiError(405, "the server does not allow this "
                                  "method on the requested resource")
        obj = read_body(request, "application/json")
        kinds.check_shape(target.kind, obj)
        meta = obj.setdefault("metadata", {})
        if meta.get("namespace", target.namespace) != target.namespace:
            raise status.ApiError(400, "the namespace of the provided object "
                                  "does not match the namespace sent on the "
                                  "request")
        for field in "uid", "creationTimestamp", "generation":
            meta.pop(field, None)
        if meta.pop("resourceVersion", ""):
            raise status.ApiError(500, "resourceVersion should not be set on "
                                  "objects to be created")
        if target.kind in kinds.STATUS_SUBRESOURCE and target.kind.custom:
            obj.pop("status", None)
        obj = self.store.create(target.kind, target.namespace, obj,
                                request.query.get("dryRun") == "All")
        return json_response(self.view(request)(obj), 201)

    async def do_update(self, target, request):
        body = read_body(request, "application/json")
        kinds.check_shape(target.kind, body)
        return self.change(target, request, body,
                           lambda obj: (obj.clear(), obj.update(body)))

    async def do_patch(self, target, request):
        body = read_body(request, "application/merge-patch+json",
                         *([] if target.kind.custom else
                           ["application/strategic-merge-patch+json"]))
        return self.change(target, request, body,
                           lambda obj: merge(obj, body))

    def change(self, target, request, body, edit):
        old = self.store.get(target.kind, target.namespace, target.name)
        wanted = kinds.get(body, "metadata", "resourceVersion")
        if wanted and wanted != old["metadata"]["resourceVersion"]:
            raise status.conflict(
                target.kind, target.name, "the object has been modified; "
                "please apply your changes to the latest version and try "
                "again")

        def edited(obj):
            before = dict(obj)
            edit(obj)
            kinds.check_shape(target.kind, obj)
            keep = (set(obj) | set(before)) - {"status"} \
                if target.sub == "status" else {"status"}
            if target.kind not in kinds.STATUS_SUBRESOURCE:
                keep = set()
            for field in keep | {"kind", "apiVersion"}:
                obj.pop(field, None)
                if field in before:
                    obj[field] = before[field]

        obj = self.store.update(target.kind, target.namespace, target.name,
                                edited)
        return json_response(self.view(request)(obj))

    async def do_delete(self, target, request):
        options = read_body(request, "application/json", empty=True)
        for field in "propagationPolicy", "gracePeriodSeconds":
            if field in request.query:
                value = request.query[field]
                options[field] = (int(value) if field ==
                                  "gracePeriodSeconds" else value)
        gone, obj = self.store.delete(target.kind, target.namespace,
                                      target.name, options)
        if not gone or target.kind is kinds.PODS:
            return json_response(self.view(request)(obj))
        return json_response(status.success(target.kind, obj))

    async def do_deletecollection(self, target, request):
        options = read_body(request, "application/json", empty=True)
        match = selectors.both(target.kind, request.query)
        items = [o for o in self.store.list(target.kind, target.namespace)
                 if match(o)]
        for obj in items:
            self.store.delete(target.kind, obj["metadata"].get(
                "namespace", ""), obj["metadata"]["name"], options)
        return json_response({
            "kind": target.kind.kind + "List",
            "apiVersion": target.kind.api_version,
            "metadata": {"resourceVersion": str(self.store.rv)},
            "items": items})

    async def do_watch(self, target, request):
        asked = request.query.get("resourceVersion", "")
        if asked and not asked.isdigit():
            raise status.ApiError(400, f'resourceVersion: Invalid value: '
                                  f'"{asked}": must be an unsigned integer')
        match = selectors.both(target.kind, request.query)
        return Response(200, self.watch(target, request, match, asked))

    async def watch(self, target, request, match, asked):
        fault = request.fault or {}
        action = fault.get("action", "")
        left = fault.get("after", 0) if action.startswith("watch-") else -1
        if left == 0 and action != "watch-cut":
            for line in last_words(action):
                yield line
            return
        async for event, obj in self.events(target, request, match, asked):
            line = json.dumps({"type": event, "object": obj}).encode() + b"\n"
            if left == 0:
                half = line[:len(line) // 2]
                await request.conn.write(b"%x\r\n" % len(half) + half
                                         + b"\r\n")
                request.conn.abort()
                return
            yield line
            left -= 1
            if left == 0 and action != "watch-cut":
                for line in last_words(action):
                    yield line
                return

    async def events(self, target, request, match, asked):
        store = self.store
        view = self.view(request)
        loop = asyncio.get_running_loop()
        end = loop.time() + float(request.query.get("timeoutSeconds") or 1800)
        wake = asyncio.Event()
        store.wakers.add(wake)
        try:
            at = int(asked or 0)
            if asked not in ("", "0") and at < store.oldest:
                yield "ERROR", status.expired(at, store.oldest)
                return
            if at == 0:
                at = store.rv
                for obj in store.list(target.kind, target.namespace):
                    if match(obj):
                        yield "ADDED", view(obj)
            bookmark = loop.time() + self.bookmark_s
            while loop.time() < end:
                wake.clear()
                if at < store.oldest:
                    yield "ERROR", status.expired(at, store.oldest)
                    return
                for event in store.since(at):
                    at = event.rv
                    seen = transition(event, target, match)
                    if seen:
                        if (wait := lag()):
                            await asyncio.sleep(wait)
                        yield seen, view(event.obj)
                if request.flag("allowWatchBookmarks") \
                        and loop.time() >= bookmark:
                    bookmark = loop.time() + self.bookmark_s
                    yield "BOOKMARK", bookmark_object(target.kind, store.rv)
                    at = store.rv
                pause = min(end, bookmark) - loop.time()
                try:
                    await asyncio.wait_for(wake.wait(), max(pause, 0.001))
                except asyncio.TimeoutError:
                    pass
        finally:
            store.wakers.discard(wake)

    def view(self, request):
        if not wants_partial(request):
            return lambda obj: obj
        return lambda obj: obj if obj["kind"] == "Status" else {
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": obj["metadata"]}


def transition(event, target, match):
    """The event as a watch with this selector sees it, or None."""
    meta = event.obj["metadata"]
    if event.kind is not target.kind:
        return None
    if target.namespace and meta.get("namespace") != target.namespace:
        return None
    before = event.old is not None and match(event.old)
    after = event.type != "DELETED" and match(event.obj)
    if before and after:
        return "MODIFIED"
    if after:
        return "ADDED"
    return "DELETED" if before else None


def last_words(action):
    """How a watch with such a fault ends."""
    if action == "watch-410":
        yield json.dumps({"type": "ERROR", "object":
                          status.expired(1, 2)}).encode() + b"\n"
    if action == "watch-garbage":
        yield b'{"type":"MODIFIED","object":{"kind\n'


def bookmark_object(kind, rv):
    return {"kind": kind.kind, "apiVersion": kind.api_version,
            "metadata": {"resourceVersion": str(rv),
                         "creationTimestamp": None}}


def api_group(kind):
    version = {"groupVersion": kind.api_version, "version": kind.version}
    return {"name": kind.group, "versions": [version],
            "preferredVersion": version}


def wants_partial(request):
    return bool(PARTIAL.match(request.headers.get("accept", "")))


def read_continue(text):
    try:
        version, start = json.loads(base64.urlsafe_b64decode(text))
        return int(version), int(start)
    except (ValueError, TypeError):
        raise status.ApiError(400, "continue key is not valid") from None


def read_body(request, *types, empty=False):
    if empty and not request.body:
        return {}
    given = request.headers.get("content-type", "application/json")
    given = given.partition(";")[0].strip()
    if given not in types:
        raise status.ApiError(
            415, "the body of the request was in an unknown format - "
            "accepted media types include: " + ", ".join(types))
    try:
        body = request.json()
    except ValueError as e:
        raise status.ApiError(400, "the object provided is unrecognized "
                              f"(must be of type JSON): {e}") from None
    if not isinstance(body, dict):
        raise status.ApiError(400, "the body is no object")
    return body


def merge(obj, patch):
    """RFC 7396, in place."""
    for key, value in patch.items():
        if value is None:
            obj.pop(key, None)
        elif isinstance(value, dict):
            if not isinstance(obj.get(key), dict):
                obj[key] = {}
            merge(obj[key], value)
        else:
            obj[key] = value
