# SPDX-License-Identifier: Apache-2.0
"""The side door for tests: plain HTTP on loopback, no rights, no faults.

 POST   /admin/faults          a rule, or a list of rules: {"ids": [...]}
 GET    /admin/faults          the rules, with how often each was taken
 DELETE /admin/faults          takes all away, lets go what holds
 POST   /admin/release         {"id": n}, or {} for all
 GET    /admin/requests        ?where=api|runtime &method= &path= (regex):
                               {"count": n, "requests": [...]}
 DELETE /admin/requests        forgets them
 GET    /admin/objects         every object, as a list
 GET    /admin/processes       processes of pods that are alive
 POST   /admin/compact         makes every earlier resource version too old
 POST   /admin/reset           as at the start
 POST   /admin/listen          {"certificate": name (pki.py), "host"}:
                               {"port", "url", "kubeconfig"}
 GET    /admin/connections     {"accepted": n, "open": n}
 POST   /admin/kubeconfig      {"name", "user": {...} or a certificate's
                               name, "cluster": {...}, "port", "host"}
 POST   /admin/config          {"crds": bool, "bookmark_ms": n,
                               "controller": bool, "rules": {user: [...]},
                               "tokens": {token: user, or null to revoke},
                               "exec_protocols": [...]}: {"errors": [...]}
 POST   /admin/pod             {"namespace", "name", "runtime": "stop",
                               "start" or nothing}: {"dir", "ip", "ports"}
 any    /api, /apis, ...       the Kubernetes interface as "admin"
"""

import re

from . import kubelet
from .httpd import Response, json_response


class Admin:
    def __init__(self, cluster):
        self.cluster = cluster

    async def handle(self, request):
        if not request.path.startswith("/admin/"):
            request.user = "admin"
            return await self.cluster.api.handle(request)
        name = request.path[len("/admin/"):]
        action = getattr(self, f"{request.method.lower()}_{name}", None)
        if action is None:
            return json_response({"error": "no such thing"}, 404)
        try:
            result = await action(request)
        except (ValueError, KeyError, TypeError) as e:
            return json_response({"error": repr(e)}, 400)
        if isinstance(result, Response):
            return result
        return json_response({} if result is None else result)

    async def post_faults(self, request):
        rules = request.json()
        rules = rules if isinstance(rules, list) else [rules]
        return {"ids": [self.cluster.faults.add(r) for r in rules]}

    async def get_faults(self, request):
        return self.cluster.faults.show()

    async def delete_faults(self, request):
        self.cluster.faults.clear()

    async def post_release(self, request):
        self.cluster.faults.release(request.json().get("id"))

    async def get_requests(self, request):
        query = request.query
        found = [r for r in self.cluster.faults.log
                 if query.get("where") in (None, r["where"])
                 and re.search(query.get("method", ""), r["method"])
                 and re.search(query.get("path", ""), r["path"])]
        return {"count": len(found), "requests": found}

    async def delete_requests(self, request):
        self.cluster.faults.log.clear()

    async def get_objects(self, request):
        return list(self.cluster.store.objects.values())

    async def get_processes(self, request):
        found = []
        for run in self.cluster.kubelet.runs.values():
            for pid in kubelet.marked(run.uid):
                try:
                    with open(f"/proc/{pid}/cmdline", "rb") as f:
                        argv = f.read().decode("utf-8",
                                               "replace").split("\0")
                except OSError:            # it has ended meanwhile
                    continue
                if argv != [""]:
                    found.append({"pod": f"{run.namespace}/{run.name}",
                                  "pid": pid, "argv": argv[:-1]})
        return found

    async def post_compact(self, request):
        self.cluster.store.compact()

    async def post_reset(self, request):
        await self.cluster.reset()

    async def post_listen(self, request):
        body = request.json()
        return await self.cluster.listen(body["certificate"],
                                         host=body.get("host", "127.0.0.1"))

    async def get_connections(self, request):
        server = self.cluster.server
        return {"accepted": server.accepted, "open": len(server.tasks)}

    async def post_kubeconfig(self, request):
        body = request.json()
        cluster = self.cluster
        port = body.get("port") or cluster.port
        user = body.get("user", "client-ec")
        if user == "client-rsa":           # not at the start: slow to make
            cluster.pki.client("client-rsa", "admin", "rsa")
        return {"kubeconfig": cluster.pki.kubeconfig(
            "kubeconfig-" + body["name"],
            f"https://{body.get('host', '127.0.0.1')}:{port}", user,
            body.get("namespace", "default"), body.get("as_files", False),
            **body.get("cluster", {}))}

    async def post_config(self, request):
        body = request.json()
        cluster = self.cluster
        if "crds" in body:
            cluster.api.crds = body["crds"]
        if "bookmark_ms" in body:
            cluster.api.bookmark_s = body["bookmark_ms"] / 1000
        if "controller" in body:
            cluster.controller.paused = not body["controller"]
            cluster.controller.wake.set()
        if "exec_protocols" in body:
            cluster.api.streams.exec_protocols = set(body["exec_protocols"])
        for token, user in body.get("tokens", {}).items():
            cluster.access.tokens.pop(token, None)
            if user:
                cluster.access.tokens[token] = user
        cluster.access.rules.update(body.get("rules", {}))
        return {"errors": cluster.controller.errors
                + cluster.kubelet.errors}

    async def post_pod(self, request):
        body = request.json()
        run = next(r for r in self.cluster.kubelet.runs.values()
                   if (r.namespace, r.name) == (body["namespace"],
                                                body["name"]))
        if body.get("runtime") == "stop":
            await run.stop_runtime()
        elif body.get("runtime") == "start":
            await run.start_runtime(run.notes.get("test/runtime", "none"),
                                    self.cluster.faults)
        return {"dir": run.dir, "ip": run.ip, "ports": run.ports}
