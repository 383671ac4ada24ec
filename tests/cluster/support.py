# SPDX-License-Identifier: Apache-2.0
"""What both test files of this folder share."""

import datetime
import time
import uuid

import kube

GROUP = "extensions.agents.x-k8s.io/v1beta1"
KINDS = {"sandboxclaims": "SandboxClaim", "sandboxtemplates":
         "SandboxTemplate", "sandboxwarmpools": "SandboxWarmPool"}


def eventually(what, f, limit=60.0):
    """The first true value of f; a test fails when there is none in time."""
    end = time.monotonic() + limit
    while True:
        value = f()
        if value:
            return value
        assert time.monotonic() < end, "never happened: " + what
        time.sleep(0.05)


class Cluster:
    """The admin's view, and objects that go when the test does."""

    def __init__(self):
        self.api = kube.Client()
        self.made = []

    def create(self, resource, namespace, name, spec, **meta):
        obj = self.api.create(resource, {
            "apiVersion": GROUP, "kind": KINDS[resource],
            "metadata": {"name": name, "namespace": namespace, **meta},
            "spec": spec})
        self.made.append((resource, namespace, name))
        return obj

    def claim(self, pool, namespace="sandboxes", seconds=None,
              policy="Delete", meta=None, **spec):
        name = "test-" + uuid.uuid4().hex[:8]
        spec["warmPoolRef"] = {"name": pool}
        if seconds is not None:
            at = datetime.datetime.now(datetime.timezone.utc) + \
                datetime.timedelta(seconds=seconds)
            spec["lifecycle"] = {"shutdownPolicy": policy, "shutdownTime":
                                 at.strftime("%Y-%m-%dT%H:%M:%SZ")}
        self.create("sandboxclaims", namespace, name, spec, **(meta or {}))
        return Claim(self.api, namespace, name)

    def clean(self):
        for resource, namespace, name in reversed(self.made):
            self.api.delete(resource, namespace, name)
        self.made = []


class Claim:
    def __init__(self, api, namespace, name):
        self.api, self.namespace, self.name = api, namespace, name

    def get(self):
        return self.api.get("sandboxclaims", self.namespace, self.name)

    def sandbox(self):
        bound = (self.get() or {}).get("status", {}).get("sandbox", {})
        return "name" in bound and self.api.get(
            "sandboxes", self.namespace, bound["name"])

    def ready(self):
        """The Ready condition; an empty one when there is none."""
        obj = self.get() or {}
        for c in obj.get("status", {}).get("conditions", []):
            if c["type"] == "Ready":
                return c
        return {"status": "", "reason": "", "message": ""}

    def until(self, reason):
        return eventually(f"{self.name}: {reason}, not {self.ready()}",
                          lambda: self.ready()["reason"] == reason and
                          self.ready())
