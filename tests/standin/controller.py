# SPDX-License-Identifier: Apache-2.0
"""The agent-sandbox controller: pools, claims, Sandboxes and their pods.

Level-triggered: an event puts its object (and its owner) on a queue; a
reconcile function looks at the store and takes one step. A change it makes
is an event again, so it stops when there is nothing left to do.
"""

import asyncio
import time

from . import claimrules, kinds
from .kubelet import set_condition
from .kinds import CLAIMS, PODS, POOLS, SANDBOXES, SERVICES, TEMPLATES, get
from .lag import lag
from .store import now

A = "agents.x-k8s.io/"
STEP_S = 0.005
COLD_AFTER_S = 2.0
LOOK_AGAIN_S = 0.1


def fnv(text):
    """32-bit FNV-1a, in hexadecimal."""
    value = 0x811c9dc5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & 0xffffffff
    return "%08x" % value


def precise():
    nanos = time.time_ns()
    return now(nanos // 10**9)[:-1] + ".%09dZ" % (nanos % 10**9)


def owner_ref(kind, obj):
    return {"apiVersion": kind.api_version, "blockOwnerDeletion": True,
            "controller": True, "kind": kind.kind,
            "name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}


def owned_by(obj, owner):
    return any(r["uid"] == owner["metadata"]["uid"]
               for r in obj["metadata"].get("ownerReferences", []))


def condition(obj, kind):
    for c in get(obj, "status", "conditions") or []:
        if c["type"] == kind:
            return c
    return None


def is_ready(obj):
    return (condition(obj, "Ready") or {}).get("status") == "True"


class Controller:
    def __init__(self, store):
        self.store = store
        self.dirty = {}
        self.wake = asyncio.Event()
        self.paused = False
        self.errors = []
        store.subscribe(self.changed)

    def changed(self, event, kind, obj):
        ns = obj["metadata"].get("namespace", "")
        if kind in (CLAIMS, POOLS, SANDBOXES):
            self.add(kind, ns, obj["metadata"]["name"])
        for ref in obj["metadata"].get("ownerReferences", []):
            for owner in (CLAIMS, POOLS, SANDBOXES):
                if ref["kind"] == owner.kind:
                    self.add(owner, ns, ref["name"])
        if kind in (POOLS, TEMPLATES):
            for other in (CLAIMS, POOLS):
                for o in self.store.list(other, ns):
                    self.add(other, ns, o["metadata"]["name"])

    def add(self, kind, namespace, name, delay=0.0):
        key = kind, namespace, name
        due = time.monotonic() + delay + lag()
        self.dirty[key] = min(due, self.dirty.get(key, due))
        self.wake.set()

    async def run(self):
        steps = {CLAIMS: self.claim, POOLS: self.pool,
                 SANDBOXES: self.sandbox}
        while True:
            await asyncio.sleep(STEP_S)
            self.wake.clear()
            at = time.monotonic()
            due = [k for k, t in self.dirty.items() if t <= at]
            for key in () if self.paused else due:
                del self.dirty[key]
                obj = self.store.find(*key)
                if obj is None:
                    continue
                try:
                    steps[key[0]](obj)
                except Exception as e:
                    self.errors.append(f"{key[1]}/{key[2]}: {e!r}")
                    self.add(*key, delay=0.2)
            pause = min(self.dirty.values(), default=at + 60) - at
            try:
                await asyncio.wait_for(self.wake.wait(),
                                       max(pause, STEP_S))
            except asyncio.TimeoutError:
                pass

    def update(self, kind, obj, change):
        return self.store.update(kind, obj["metadata"]["namespace"],
                                 obj["metadata"]["name"], change)

    def children(self, kind, owner):
        return [o for o in self.store.list(
            kind, owner["metadata"]["namespace"]) if owned_by(o, owner)]

    # Pools

    def pool(self, pool):
        meta = pool["metadata"]
        if "deletionTimestamp" in meta:
            return
        mine = [s for s in self.children(SANDBOXES, pool)
                if "deletionTimestamp" not in s["metadata"]]
        template = self.store.find(TEMPLATES, meta["namespace"], get(
            pool, "spec", "sandboxTemplateRef", "name"))
        want = pool["spec"]["replicas"]
        for sandbox in mine[want:]:
            self.store.delete(SANDBOXES, meta["namespace"],
                              sandbox["metadata"]["name"])
        for _ in range(want - len(mine) if template else 0):
            self.make_sandbox(template, POOLS, pool,
                              {"generateName": meta["name"] + "-"},
                              {A + "warm-pool-sandbox": fnv(meta["name"])})
        status = {"replicas": len(mine), "observedGeneration":
                  meta["generation"],
                  "readyReplicas": sum(map(is_ready, mine)),
                  "selector": A + "warm-pool-sandbox=" + fnv(meta["name"])}
        self.update(POOLS, pool, lambda o: o.update(status=status))

    def make_sandbox(self, template, owner_kind, owner, meta, labels,
                     extra=None):
        """extra: the additionalPodMetadata of a claim."""
        name = template["metadata"]["name"]
        labels = {**labels, A + "sandbox-template-ref-hash": fnv(name)}
        pod = get(template, "spec", "podTemplate")
        inner = get(pod, "metadata") or {}
        inner_labels = {**(inner.get("labels") or {}), **{
            k: v for k, v in labels.items() if k != A + "launch-type"},
            **((extra or {}).get("labels") or {})}
        notes = {**(inner.get("annotations") or {}),
                 **((extra or {}).get("annotations") or {})}
        spec = {"automountServiceAccountToken": False, **pod["spec"]}
        if template["spec"].get("networkPolicyManagement") != "Unmanaged" \
                and "dnsPolicy" not in spec:
            spec.update(dnsPolicy="None", dnsConfig={
                "nameservers": ["8.8.8.8", "1.1.1.1"]})
        pod_meta = {"labels": inner_labels}
        if notes:
            pod_meta["annotations"] = notes
        body = {"podTemplate": {"metadata": pod_meta, "spec": spec}}
        for field in "volumeClaimTemplates", "service":
            if field in template["spec"]:
                body[field] = template["spec"][field]
        return self.store.create(
            SANDBOXES, owner["metadata"]["namespace"],
            {"metadata": {**meta, "labels": labels,
                          "annotations": {A + "sandbox-template-ref": name},
                          "ownerReferences": [owner_ref(owner_kind, owner)]},
             "spec": body})

    # Claims

    def claim(self, claim):
        meta = claim["metadata"]
        if "deletionTimestamp" in meta:
            return
        seen = A + "controller-first-observed-at"
        if seen not in meta.get("annotations", {}):
            self.note(CLAIMS, claim, {seen: precise()})
            return
        if self.expire(claim):
            return
        bound = self.children(SANDBOXES, claim)
        if bound:
            self.mirror(claim, bound[0])
        elif get(claim, "status", "sandbox", "name"):
            self.claim_ready(claim, "False", "SandboxMissing",
                             "Sandbox does not exist")
        else:
            self.bind(claim)

    def note(self, kind, obj, notes):
        self.update(kind, obj, lambda o: o["metadata"].setdefault(
            "annotations", {}).update(notes))

    def claim_ready(self, claim, value, reason, message, since=None,
                    sandbox=None):
        def change(o):
            status = o.setdefault("status", {})
            conditions = status.setdefault("conditions", [])
            set_condition(conditions, "Ready", value, reason, message,
                          o["metadata"]["generation"])
            if since:
                conditions[0]["lastTransitionTime"] = since
            if sandbox is not None:
                status["sandbox"] = sandbox
        self.update(CLAIMS, claim, change)

    def expire(self, claim):
        life = get(claim, "spec", "lifecycle") or {}
        end = kinds.parse_time(life.get("shutdownTime"))
        if end is None:
            return False
        meta = claim["metadata"]
        if end > time.time():
            self.add(CLAIMS, meta["namespace"], meta["name"],
                     end - time.time() + 0.01)
            return False
        if (condition(claim, "Ready") or {}).get("reason") != "ClaimExpired":
            self.claim_ready(claim, "False", "ClaimExpired",
                             "Claim expired. Sandbox cleanup initiated.",
                             sandbox={})
            return True
        if life["shutdownPolicy"] == "Retain":
            for sandbox in self.children(SANDBOXES, claim):
                self.store.delete(SANDBOXES, meta["namespace"],
                                  sandbox["metadata"]["name"])
        else:
            self.store.delete(CLAIMS, meta["namespace"], meta["name"], {
                "propagationPolicy": "Foreground" if life["shutdownPolicy"]
                == "DeleteForeground" else "Background"})
        return True

    def bind(self, claim):
        ns = claim["metadata"]["namespace"]
        wanted = claim["spec"]["warmPoolRef"]["name"]
        pool = self.store.find(POOLS, ns, wanted)
        if pool is None:
            self.claim_ready(claim, "False", "WarmPoolNotFound",
                             f'SandboxWarmPool "{wanted}" not found')
            return
        name = pool["spec"]["sandboxTemplateRef"]["name"]
        template = self.store.find(TEMPLATES, ns, name)
        if template is None:
            self.claim_ready(claim, "False", "TemplateNotFound",
                             f'SandboxTemplate "{name}" not found')
            return
        refused = claimrules.refuse(claim, template)
        if refused:
            self.claim_ready(claim, "False", *refused)
            return
        if not (claim["spec"].get("env")
                or claim["spec"].get("volumeClaimTemplates")):
            if self.adopt(claim, pool):
                return
        self.cold_start(claim, template)

    def adopt(self, claim, pool):
        """True when a warm Sandbox was taken, or will be looked for again."""
        warm = [s for s in self.children(SANDBOXES, pool)
                if "deletionTimestamp" not in s["metadata"]]
        usable = [s for s in warm if is_ready(s)] or [
            s for s in warm if get(s, "status", "podIPs")]
        meta = claim["metadata"]
        if not usable:
            age = time.time() - kinds.parse_time(
                meta["annotations"][A + "controller-first-observed-at"])
            if warm and age < COLD_AFTER_S:
                self.add(CLAIMS, meta["namespace"], meta["name"],
                         LOOK_AGAIN_S)
                return True
            return False
        labels = {A + "claim-uid": meta["uid"]}
        if A + "created-by" in meta.get("labels", {}):
            labels[A + "created-by"] = meta["labels"][A + "created-by"]
        extra = claim["spec"].get("additionalPodMetadata") or {}

        def change(o):
            m = o["metadata"]
            m["ownerReferences"] = [owner_ref(CLAIMS, claim)]
            m["labels"].pop(A + "warm-pool-sandbox", None)
            m["labels"].update({**labels, A + "launch-type": "warm"})
            m["annotations"][A + "pod-name"] = m["name"]
            pod = o["spec"]["podTemplate"]["metadata"]
            pod["labels"].pop(A + "warm-pool-sandbox", None)
            pod["labels"].update({**labels, **extra.get("labels", {})})
            if extra.get("annotations"):
                pod.setdefault("annotations", {}).update(
                    extra["annotations"])

        taken = self.update(SANDBOXES, usable[0], change)
        self.note(CLAIMS, claim, {A + "sandbox-name":
                                  taken["metadata"]["name"]})
        self.add(POOLS, meta["namespace"], pool["metadata"]["name"])
        pod = self.store.find(PODS, meta["namespace"],
                              taken["metadata"]["name"])
        if pod:
            self.update(PODS, pod, lambda o: claimrules.patch_pod(
                o, taken["spec"]["podTemplate"]["metadata"]))
        return True

    def cold_start(self, claim, template):
        meta = claim["metadata"]
        labels = {A + "claim-uid": meta["uid"], A + "launch-type": "cold"}
        if A + "created-by" in meta.get("labels", {}):
            labels[A + "created-by"] = meta["labels"][A + "created-by"]
        try:
            self.make_sandbox(template, CLAIMS, claim,
                              {"name": meta["name"]}, labels,
                              claim["spec"].get("additionalPodMetadata"))
        except Exception as e:
            self.claim_ready(claim, "False", "ReconcilerError",
                             f"Error seen: {e}")
            self.add(CLAIMS, meta["namespace"], meta["name"], 0.5)

    def mirror(self, claim, sandbox):
        """The claim's status is the Sandbox's, its times included."""
        ready = condition(sandbox, "Ready")
        bound = {"name": sandbox["metadata"]["name"]}
        if get(sandbox, "status", "podIPs"):
            bound["podIPs"] = sandbox["status"]["podIPs"]
        if ready is None:
            self.claim_ready(claim, "False", "SandboxNotReady",
                             "Sandbox is not ready", sandbox=bound)
            return
        self.claim_ready(claim, ready["status"], ready["reason"],
                         ready["message"], ready["lastTransitionTime"], bound)
        first = A + "claim-first-ready-at"
        if ready["status"] == "True" \
                and first not in claim["metadata"]["annotations"]:
            self.note(CLAIMS, claim, {first: precise()})
        done = condition(sandbox, "Finished")
        if done:
            self.update(CLAIMS, claim, lambda o: set_condition(
                o["status"]["conditions"], "Finished", done["status"],
                done["reason"], done["message"],
                o["metadata"]["generation"]))

    # Sandboxes

    def sandbox(self, sandbox):
        meta = sandbox["metadata"]
        if "deletionTimestamp" in meta:
            return
        pod = self.store.find(PODS, meta["namespace"], meta["name"])
        if pod and not owned_by(pod, sandbox):
            self.sandbox_status(sandbox, None, "False", "ReconcilerError",
                                "Error seen: the pod belongs to another")
            return
        if sandbox["spec"]["operatingMode"] == "Suspended":
            self.suspend(sandbox, pod)
            return
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            self.sandbox_status(sandbox, None, "False",
                                "DependenciesNotReady", "Pod does not exist")
            if pod is None:
                self.make_pod(sandbox)
            return
        if sandbox["spec"].get("service") and not self.store.find(
                SERVICES, meta["namespace"], meta["name"]):
            self.store.create(SERVICES, meta["namespace"], {
                "metadata": {"name": meta["name"], "ownerReferences":
                             [owner_ref(SANDBOXES, sandbox)]},
                "spec": {"clusterIP": "None"}})
        self.sandbox_status(sandbox, pod, *claimrules.verdict(sandbox, pod))

    def make_pod(self, sandbox):
        meta = sandbox["metadata"]
        template = sandbox["spec"]["podTemplate"]
        inner = template.get("metadata") or {}
        self.store.create(PODS, meta["namespace"], {
            "metadata": {
                "name": meta["name"],
                "labels": {**inner.get("labels", {}),
                           A + "sandbox-name-hash": fnv(meta["name"])},
                "annotations": dict(inner.get("annotations", {})),
                "ownerReferences": [owner_ref(SANDBOXES, sandbox)]},
            "spec": template["spec"]})

    def suspend(self, sandbox, pod):
        meta = sandbox["metadata"]
        gone = pod is None
        if pod and "deletionTimestamp" not in pod["metadata"]:
            self.store.delete(PODS, meta["namespace"], meta["name"])
        self.sandbox_status(
            sandbox, None, "False", "SandboxSuspended",
            "Sandbox is suspended" if gone else "Sandbox is suspending",
            ("True", "PodTerminated",
             "Pod has been terminated. Sandbox is suspended") if gone else
            ("False", "PodTerminating", "Pod is terminating"))

    def sandbox_status(self, sandbox, pod, value, reason, message,
                       suspended=("False", "NotSuspended",
                                  "Sandbox is not suspended")):
        def change(o):
            meta = o["metadata"]
            status = o.setdefault("status", {})
            have = status.setdefault("conditions", [])
            facts = {"Suspended": suspended}
            scheduled = pod and condition(pod, "PodScheduled")
            if scheduled:
                facts["PodScheduled"] = (
                    scheduled["status"], scheduled.get(
                        "reason") or "PodScheduled",
                    scheduled.get("message", ""))
            facts["Ready"] = value, reason, message
            if reason in ("PodSucceeded", "PodFailed"):
                facts["Finished"] = "True", reason, message
            have[:] = [c for c in have if c["type"] in facts]
            for kind, fact in facts.items():
                set_condition(have, kind, *fact, meta["generation"])
            have.sort(key=lambda c: list(facts).index(c["type"]))
            status["selector"] = (A + "sandbox-name-hash="
                                  + fnv(meta["name"]))
            claimrules.set_addresses(o, pod)
        self.update(SANDBOXES, sandbox, change)
