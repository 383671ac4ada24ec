# SPDX-License-Identifier: Apache-2.0
"""Starts a stand-in and talks to its side door; for tests and the demo."""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CLAIMS = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/{ns}/" \
    "sandboxclaims"
TEMPLATES = CLAIMS.replace("sandboxclaims", "sandboxtemplates")
POOLS = CLAIMS.replace("sandboxclaims", "sandboxwarmpools")
SANDBOXES = "/apis/agents.x-k8s.io/v1beta1/namespaces/{ns}/sandboxes"
PODS = "/api/v1/namespaces/{ns}/pods"
MERGE = "application/merge-patch+json"
# What is on this machine is reached by no proxy.
OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


class Failure(Exception):
    def __init__(self, code, body):
        super().__init__(f"{code}: {body[:400]!r}")
        self.code = code
        self.body = body


def wait_for(test, what="a condition", seconds=30.0):
    """The first true value of test()."""
    end = time.monotonic() + seconds
    while True:
        value = test()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come in {seconds} s")
        time.sleep(0.01)


class Standin:
    """kubeconfig is a path; kubeconfigs has the others by name."""

    def __init__(self, folder=None, *options):
        self.temporary = None
        if folder is None:
            self.temporary = tempfile.TemporaryDirectory(prefix="standin-")
            folder = self.temporary.name
        self.process = subprocess.Popen(
            [sys.executable, "-m", "standin", "--dir", folder, *options],
            cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the stand-in did not start")
        self.ready = json.loads(line)
        self.port = self.ready["port"]
        self.kubeconfig = self.ready.get("kubeconfig")
        self.kubeconfigs = self.ready.get("kubeconfigs", {})
        self.tokens = self.ready["tokens"]
        self.dir = folder

    def close(self):
        """Ends it by the end of its input; returns its exit status."""
        self.process.stdin.close()
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.process.stdout.close()
        if self.temporary:
            self.temporary.cleanup()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def call(self, method, path, body=None, kind="application/json"):
        """The answer as an object; Failure for an error status."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ready['admin']}{path}", data,
            {"Content-Type": kind}, method=method)
        try:
            with OPEN(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as e:
            raise Failure(e.code, e.read()) from None

    def get(self, path):
        """As call, but None when there is no such thing."""
        try:
            return self.call("GET", path)
        except Failure as e:
            if e.code == 404:
                return None
            raise

    # Faults and requests

    def fault(self, action, path="", **rule):
        return self.call("POST", "/admin/faults",
                         {"action": action, "path": path, **rule})["ids"][0]

    def clear_faults(self):
        self.call("DELETE", "/admin/faults")

    def release(self, rule=None):
        self.call("POST", "/admin/release", {"id": rule} if rule else {})

    def taken(self, rule):
        """How many requests the rule took."""
        return next(r["taken"] for r in self.call("GET", "/admin/faults")
                    if r["id"] == rule)

    def requests(self, method="", path="", where="api"):
        return self.call("GET", "/admin/requests?" + urllib.parse.urlencode(
            {"method": method, "path": path, "where": where}))["requests"]

    def forget_requests(self):
        self.call("DELETE", "/admin/requests")

    def reset(self):
        self.call("POST", "/admin/reset", {})

    def config(self, **settings):
        return self.call("POST", "/admin/config", settings)

    def compact(self):
        self.call("POST", "/admin/compact", {})

    def listen(self, certificate, **how):
        """A port with another server certificate (pki.py): kubeconfig."""
        return self.call("POST", "/admin/listen", {
            "certificate": certificate, **how})["kubeconfig"]

    def connections(self):
        """{"accepted", "open"}: TLS connections so far, and now."""
        return self.call("GET", "/admin/connections")

    def make_kubeconfig(self, name, **what):
        return self.call("POST", "/admin/kubeconfig",
                         {"name": name, **what})["kubeconfig"]

    # Objects

    def objects(self, kind=None):
        return [o for o in self.call("GET", "/admin/objects")
                if kind in (None, o["kind"])]

    def processes(self):
        return self.call("GET", "/admin/processes")

    def pod(self, name, namespace="default", **what):
        """{"dir", "ip", "ports"} of a running pod; runtime="stop"|"start"."""
        return self.call("POST", "/admin/pod", {
            "namespace": namespace, "name": name, **what})

    def namespace(self, name):
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    def template(self, name, runtime="sandboxd", namespace="default",
                 notes=None, containers=None, **spec):
        """notes are annotations of the pods, see kubelet.py."""
        ports = {"sandboxd": (8080, 9090), "legacy": (8888,)}
        containers = containers or [{
            "name": "sandbox", "image": f"localhost/{runtime}:1",
            "ports": [{"containerPort": p, "protocol": "TCP"}
                      for p in ports.get(runtime, ())]}]
        self.call("POST", TEMPLATES.format(ns=namespace), {
            "metadata": {"name": name}, "spec": {"podTemplate": {
                "metadata": {"annotations": {"test/runtime": runtime,
                                             **(notes or {})}},
                "spec": {"containers": containers}}, **spec}})

    def pool(self, name="py-pool", replicas=1, runtime="sandboxd",
             namespace="default", wait=True, **template):
        """A template and a warm pool of it, whose Sandboxes are ready."""
        self.template(name + "-template", runtime, namespace, **template)
        path = POOLS.format(ns=namespace)
        self.call("POST", path, {
            "metadata": {"name": name}, "spec": {
                "replicas": replicas,
                "sandboxTemplateRef": {"name": name + "-template"}}})
        if wait and replicas:
            wait_for(lambda: (self.get(f"{path}/{name}").get("status") or {})
                     .get("readyReplicas") == replicas, "a warm Sandbox")

    def claim(self, name, namespace="default"):
        return self.get(CLAIMS.format(ns=namespace) + "/" + name)

    def patch_claim(self, name, patch, namespace="default", status=False):
        path = CLAIMS.format(ns=namespace) + "/" + name
        return self.call("PATCH", path + ("/status" if status else ""),
                         patch, MERGE)

    def sandbox(self, name, namespace="default"):
        return self.get(SANDBOXES.format(ns=namespace) + "/" + name)

    def patch_sandbox(self, name, patch, namespace="default"):
        return self.call("PATCH", SANDBOXES.format(ns=namespace) + "/" + name,
                         patch, MERGE)
