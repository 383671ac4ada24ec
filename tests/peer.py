# SPDX-License-Identifier: Apache-2.0
"""What the stand-in's own tests share: aiohttp against its TLS port."""

import asyncio
import contextlib
import json
import ssl

import aiohttp

from standin.client import CLAIMS, PODS, wait_for

NS = "default"
CLAIM = CLAIMS.format(ns=NS)
V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"


@contextlib.asynccontextmanager
async def api(standin, user="admin", port=None):
    tls = ssl.create_default_context(cafile=standin.ready["ca"])
    headers = {}
    if user == "certificate":
        tls.load_cert_chain(f"{standin.dir}/pki/client-ec.crt",
                            f"{standin.dir}/pki/client-ec.key")
    elif user:
        headers["Authorization"] = "Bearer " + standin.tokens.get(user, user)
    async with aiohttp.ClientSession(
            f"https://127.0.0.1:{port or standin.port}", headers=headers,
            connector=aiohttp.TCPConnector(ssl=tls)) as session:
        yield session


def claim_body(name="c1", pool="py-pool", **spec):
    return {"apiVersion": "extensions.agents.x-k8s.io/v1beta1",
            "kind": "SandboxClaim", "metadata": {"name": name},
            "spec": {"warmPoolRef": {"name": pool}, **spec}}


def ready(standin, name="c1"):
    """The claim once its Ready condition is True."""
    def look():
        claim = standin.claim(name)
        return claim and any(
            c["type"] == "Ready" and c["status"] == "True" for c in
            claim.get("status", {}).get("conditions", [])) and claim
    return wait_for(look, "Ready")


async def read_events(answer, count):
    return [json.loads(await asyncio.wait_for(answer.content.readline(), 5))
            for _ in range(count)]


def websocket(session, pod, protocol, command, stdin=False, tty=False):
    params = [("stdin", str(stdin).lower()), ("stdout", "true"),
              ("stderr", str(not tty).lower()), ("tty", str(tty).lower())]
    params += [("command", c) for c in command]
    return session.ws_connect(f"{PODS.format(ns=NS)}/{pod}/exec",
                              params=params, protocols=[protocol],
                              max_msg_size=0)


def running_pod(standin, runtime="none", name="p1", **spec):
    standin.call("POST", PODS.format(ns=NS), {
        "metadata": {"name": name, "labels": {"test/runtime": runtime}},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec}})
    wait_for(lambda: any(
        c["type"] == "Ready" and c["status"] == "True" for c in standin.get(
            f"{PODS.format(ns=NS)}/{name}").get("status", {}).get(
                "conditions", [])), "a ready pod")


async def frames(ws):
    return [m.data async for m in ws]
