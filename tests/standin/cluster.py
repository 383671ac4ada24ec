# SPDX-License-Identifier: Apache-2.0
"""All parts together: store, API, controllers, kubelet, faults, listeners."""

import asyncio
import os
import secrets

from . import faults as f
from .access import Access
from .admin import Admin
from .api import Api
from .controller import Controller
from .faults import Faults
from .httpd import Server
from .jobs import Jobs
from .kubelet import Kubelet
from .pki import Pki
from .store import Store
from .streams import Streams

USERS = ("admin", "nobody", "limited")


class Cluster:
    def __init__(self, folder, http=False):
        self.folder = os.path.abspath(folder)
        self.http = http
        os.makedirs(self.folder, exist_ok=True)
        self.pki = None if http else Pki(self.folder)
        self.tokens = {secrets.token_urlsafe(24): u for u in USERS}
        self.faults = Faults()
        self.store = Store()
        self.access = Access(dict(self.tokens))
        self.kubelet = Kubelet(self.store, self.folder, self.faults)
        self.controller = Controller(self.store)
        self.jobs = Jobs(self.store)
        self.api = Api(self.store, self.access, Streams(self.kubelet),
                       self.kubelet)
        self.server = Server(self.handle)
        self.admin = Admin(self)
        self.admin_server = Server(self.admin.handle)
        self.listeners = {}

    async def handle(self, request):
        """The tests' side door (admin port) does not come through here."""
        self.faults.log.append({
            "where": "api", "method": request.method,
            "path": request.target, "headers": request.headers,
            "body": (request.body or b"").decode("utf-8", "replace")})
        rule = self.faults.take(request.method, request.target)
        request.fault = rule
        if rule is None:
            return await self.api.handle(request)
        return await f.apply(rule, request, self.api.handle)

    async def listen(self, certificate="good", port=0, host="127.0.0.1"):
        """Another port with another certificate: {"port", "kubeconfig"}."""
        made = self.listeners.get((certificate, host))
        if made:
            return made
        tls = None if self.http else self.pki.server(certificate)
        port = await self.server.listen(host, port, tls)
        made = {"port": port, "url": "%s://%s:%d" % (
            "http" if self.http else "https",
            f"[{host}]" if ":" in host else host, port)}
        if not self.http:
            tail = certificate + ("" if host == "127.0.0.1" else "-other")
            made["kubeconfig"] = self.pki.kubeconfig(
                f"kubeconfig-{tail}", made["url"], "client-ec")
        self.listeners[certificate, host] = made
        return made

    @property
    def port(self):
        return self.listeners["good", "127.0.0.1"]["port"]

    def kubeconfigs(self, url):
        """The standard set, by name."""
        pki = self.pki
        by_user = {u: t for t, u in self.tokens.items()}
        token_file = os.path.join(self.folder, "token")
        with open(token_file, "w", encoding="ascii") as file:
            file.write(by_user["admin"] + "\n")
        made = {"cert": pki.kubeconfig("kubeconfig", url, "client-ec"),
                "files": pki.kubeconfig("kubeconfig-files", url, "client-ec",
                                        as_files=True),
                "bad-token": pki.kubeconfig("kubeconfig-bad-token", url,
                                            {"token": "wrong"}),
                "anonymous": pki.kubeconfig("kubeconfig-anonymous", url, {}),
                "token-file": pki.kubeconfig("kubeconfig-token-file", url,
                                             {"tokenFile": "token"})}
        for user, name in zip(USERS, ("token", "nobody", "limited")):
            made[name] = pki.kubeconfig(f"kubeconfig-{name}", url,
                                        {"token": by_user[user]})
        return made

    async def start(self, port=0):
        self.work = asyncio.ensure_future(self.controller.run())
        first = await self.listen(port=port)
        ready = {**first, "pid": os.getpid(), "dir": self.folder,
                 "admin": await self.admin_server.listen("127.0.0.1", 0),
                 "tokens": {u: t for t, u in self.tokens.items()}}
        if not self.http:
            made = self.kubeconfigs(first["url"])
            ready.update(kubeconfig=made["cert"], kubeconfigs=made,
                         ca=self.pki.path("ca.crt"))
        return ready

    async def reset(self):
        """Everything as at the start, but listeners and certificates."""
        self.faults.clear()
        self.faults.log.clear()
        await self.kubelet.close()
        self.store.reset()
        self.access.reset()
        self.access.tokens = dict(self.tokens)
        self.controller.paused = False
        self.controller.dirty.clear()
        self.controller.errors.clear()
        self.api.reset()

    async def close(self):
        self.faults.clear()
        self.work.cancel()
        await self.server.close()
        await self.kubelet.close()
        await self.admin_server.close()
