#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agent-sandbox controller of the cluster tests.

The real one is not to be had from a registry; this is written from contract 4
(names, binding, conditions and their reasons, expiry, deletion by owner
reference) and compared with objects the real one left (test_fixtures.py).

One thread watches each kind into a cache and puts keys on a queue; one worker
takes them and makes what is wanted.  A function a kind: template, pool,
sandbox, claim.  Nothing is remembered but the caches.

controller.py [KUBECONFIG]: runs until it is killed.
"""

import copy
import datetime
import heapq
import re
import sys
import threading
import time
import traceback

import kube

AGENTS = "agents.x-k8s.io/"
EXT = "extensions.agents.x-k8s.io/v1beta1"
CLAIM_UID = AGENTS + "claim-uid"
CREATED_BY = AGENTS + "created-by"
LAUNCH = AGENTS + "launch-type"
POOL_HASH = AGENTS + "warm-pool-ref-hash"
NAME_HASH = AGENTS + "sandbox-name-hash"
TEMPLATE_HASH = AGENTS + "sandbox-template-ref-hash"
TEMPLATE_REF = AGENTS + "sandbox-template-ref"
POD_NAME = AGENTS + "pod-name"
BOUND = AGENTS + "sandbox-name"
OBSERVED = AGENTS + "controller-first-observed-at"
FIRST_READY = AGENTS + "claim-first-ready-at"

LABEL_DOMAINS = ("sandbox.users.io",)
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
RESERVED = ("kubernetes.io", "k8s.io", "agents.x-k8s.io")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")

RETRY_S = 1.0
WARM_LOOK_S = 0.5       # how often a claim looks for a pool's pod again
WARM_WAIT_S = 2.0       # and for how long, from its creation

PRIVATE4 = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"]
PRIVATE6 = ["fc00::/7", "fe80::/10"]


class Final(Exception):
    """A claim that cannot become ready; reason and message of its
    condition."""

    def __init__(self, reason, message):
        super().__init__(message)
        self.reason = reason


def name_hash(name):
    """32-bit FNV-1a, eight hex digits."""
    h = 0x811c9dc5
    for byte in name.encode():
        h = (h ^ byte) * 0x01000193 & 0xffffffff
    return f"{h:08x}"


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def stamp():
    return now().strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp_fine():
    return f"{now():%Y-%m-%dT%H:%M:%S.%f}000Z"


def seconds_until(text):
    return (datetime.datetime.fromisoformat(text) - now()).total_seconds()


def condition(kind, status, reason, message, obj):
    return {"type": kind, "status": status, "reason": reason,
            "message": message,
            "observedGeneration": obj["metadata"]["generation"]}


def condition_of(obj, kind):
    for c in obj.get("status", {}).get("conditions", []):
        if c["type"] == kind:
            return c
    return None


def dated(obj, conditions):
    """With lastTransitionTime, kept where the status is the old one."""
    out = []
    for c in conditions:
        old = condition_of(obj, c["type"])
        same = old and old["status"] == c["status"]
        c.setdefault("lastTransitionTime",
                     old["lastTransitionTime"] if same else stamp())
        out.append(c)
    return out


def owner(obj):
    for ref in obj["metadata"].get("ownerReferences", []):
        if ref.get("controller"):
            return ref
    return None


def owner_uid(obj):
    ref = owner(obj)
    return ref["uid"] if ref else None


def owned_by(obj):
    return [{"apiVersion": obj["apiVersion"], "kind": obj["kind"],
             "name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"],
             "controller": True, "blockOwnerDeletion": True}]


def going(obj):
    return "deletionTimestamp" in obj["metadata"]


def key(obj):
    return obj["metadata"].get("namespace"), obj["metadata"]["name"]


def within(domain, parents):
    return any(domain == p or domain.endswith("." + p) for p in parents)


class Controller:
    def __init__(self, kubeconfig):
        self.kubeconfig = kubeconfig
        self.api = kube.Client(kubeconfig)
        self.lock = threading.Condition()
        self.cache = {k: {} for k in ("sandboxclaims", "sandboxes", "pods",
                                      "sandboxwarmpools", "sandboxtemplates")}
        self.synced = set()
        self.queue = []         # heap of (time, sequence, key)
        self.due = {}           # key -> its earliest time in the heap
        self.sequence = 0

    # ---- queue and caches

    def add(self, resource, namespace, name, delay=0.0):
        with self.lock:
            k = (resource, namespace, name)
            at = time.monotonic() + delay
            if self.due.get(k, at + 1) <= at:
                return
            self.due[k] = at
            self.sequence += 1
            heapq.heappush(self.queue, (at, self.sequence, k))
            self.lock.notify_all()

    def take(self):
        with self.lock:
            while True:
                wait = None
                if self.queue and len(self.synced) == len(self.cache):
                    at, _, k = self.queue[0]
                    wait = at - time.monotonic()
                    if wait <= 0:
                        heapq.heappop(self.queue)
                        if self.due.get(k) != at:
                            continue
                        del self.due[k]
                        return k
                self.lock.wait(wait)

    def keep(self, resource, obj):
        """Put what the API answered into the cache, unless it is older."""
        with self.lock:
            old = self.cache[resource].get(key(obj))
            if old and old["metadata"]["uid"] == obj["metadata"]["uid"] and \
               int(old["metadata"]["resourceVersion"]) > \
               int(obj["metadata"]["resourceVersion"]):
                return
            self.cache[resource][key(obj)] = obj

    def find(self, resource, namespace, name):
        with self.lock:
            return self.cache[resource].get((namespace, name))

    def all(self, resource, namespace):
        with self.lock:
            return [o for k, o in sorted(self.cache[resource].items())
                    if k[0] == namespace]

    def changed(self, resource, obj):
        """Queue what an event concerns: the object, its owner, who waits."""
        ns, name = key(obj)
        if resource != "pods":
            self.add(resource, ns, name)
        ref = owner(obj)
        plural = {"Sandbox": "sandboxes", "SandboxClaim": "sandboxclaims",
                  "SandboxWarmPool": "sandboxwarmpools"}
        if ref and ref["kind"] in plural:
            self.add(plural[ref["kind"]], ns, ref["name"])
        if resource == "sandboxtemplates":
            for pool in self.all("sandboxwarmpools", ns):
                self.add("sandboxwarmpools", *key(pool))
        if resource in ("sandboxtemplates", "sandboxwarmpools"):
            for claim in self.all("sandboxclaims", ns):
                self.add("sandboxclaims", *key(claim))

    def watcher(self, resource):
        client = kube.Client(self.kubeconfig)
        query = {"labelSelector": NAME_HASH} if resource == "pods" else {}
        while True:
            try:
                self.follow(client, resource, query)
            except Exception:       # the API server went away: try again
                traceback.print_exc()
            time.sleep(RETRY_S)

    def follow(self, client, resource, query):
        seen = set()
        for kind, obj in client.watch(resource, **query):
            if kind == "SYNCED":
                with self.lock:
                    gone = set(self.cache[resource]) - seen
                    for k in gone:
                        del self.cache[resource][k]
                    self.synced.add(resource)
                    self.lock.notify_all()
                continue
            if kind == "DELETED":
                with self.lock:
                    self.cache[resource].pop(key(obj), None)
            else:
                seen.add(key(obj))
                self.keep(resource, obj)
            self.changed(resource, obj)

    def run(self):
        for resource in self.cache:
            threading.Thread(target=self.watcher, args=(resource,),
                             daemon=True).start()
        work = {"sandboxclaims": self.claim, "sandboxes": self.sandbox,
                "sandboxwarmpools": self.pool,
                "sandboxtemplates": self.template}
        while True:
            resource, ns, name = self.take()
            obj = self.find(resource, ns, name)
            if obj is None or going(obj):
                continue
            try:
                again = work[resource](copy.deepcopy(obj))
            except kube.Error as e:
                # A conflict means that the cache is behind: look again.
                if e.code not in (404, 409):
                    print(resource, ns, name, e, flush=True)
                again = 0.05 if e.code == 409 else RETRY_S
            except Exception:
                traceback.print_exc()
                again = RETRY_S
            if again is not None:
                self.add(resource, ns, name, again)

    def status(self, resource, obj, status):
        """Write a status when it differs."""
        old = obj.get("status", {})
        if old == status:
            return
        change = {k: None for k in old if k not in status}
        change.update(status)
        if "podIPs" in old.get("sandbox", {}) and "sandbox" in status:
            change["sandbox"] = {"name": None, "podIPs": None,
                                 **status["sandbox"]}
        self.keep(resource, self.api.patch(
            resource, *key(obj), {"status": change}, "status"))

    # ---- templates

    def template(self, tpl):
        if tpl["spec"].get("networkPolicyManagement") == "Unmanaged":
            return
        ns, name = key(tpl)
        own = tpl["spec"].get("networkPolicy")
        spec = {"podSelector": {"matchLabels":
                                {TEMPLATE_HASH: name_hash(name)}},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": own.get("ingress", []) if own else [{"from": [{
                    "podSelector": {"matchLabels": {"app": "sandbox-router"}},
                    "namespaceSelector": {"matchLabels": {
                        "kubernetes.io/metadata.name":
                        "agent-sandbox-system"}}}]}],
                "egress": own.get("egress", []) if own else [{"to": [
                    {"ipBlock": {"cidr": "0.0.0.0/0", "except": PRIVATE4}},
                    {"ipBlock": {"cidr": "::/0", "except": PRIVATE6}}]}]}
        policy = {"apiVersion": "networking.k8s.io/v1",
                  "kind": "NetworkPolicy",
                  "metadata": {"name": name + "-network-policy",
                               "namespace": ns,
                               "ownerReferences": owned_by(tpl)},
                  "spec": spec}
        if self.api.get("networkpolicies", ns, name + "-network-policy"):
            self.api.replace("networkpolicies", policy)
        else:
            self.api.create("networkpolicies", policy)

    def from_template(self, tpl):
        """A Sandbox of a template, without name and owner."""
        ns, name = key(tpl)
        pod = copy.deepcopy(tpl["spec"]["podTemplate"])
        meta = pod.setdefault("metadata", {})
        meta.setdefault("labels", {})[TEMPLATE_HASH] = name_hash(name)
        spec = pod["spec"]
        spec.setdefault("automountServiceAccountToken", False)
        managed = tpl["spec"].get("networkPolicyManagement") != "Unmanaged"
        if managed and "networkPolicy" not in tpl["spec"] and \
           "dnsPolicy" not in spec:
            spec["dnsPolicy"] = "None"
            spec["dnsConfig"] = {"nameservers": ["8.8.8.8", "1.1.1.1"]}
        box = {"apiVersion": AGENTS + "v1beta1", "kind": "Sandbox",
               "metadata": {"namespace": ns,
                            "labels": {TEMPLATE_HASH: name_hash(name)},
                            "annotations": {TEMPLATE_REF: name}},
               "spec": {"podTemplate": pod, "operatingMode": "Running",
                        "shutdownPolicy": "Retain"}}
        for k in ("volumeClaimTemplates", "service"):
            if k in tpl["spec"]:
                box["spec"][k] = copy.deepcopy(tpl["spec"][k])
        return box

    # ---- pools

    def members(self, pool):
        return [b for b in self.all("sandboxes", key(pool)[0])
                if owner_uid(b) == pool["metadata"]["uid"] and not going(b)]

    def pool(self, pool):
        ns, name = key(pool)
        boxes = self.members(pool)
        tpl = self.find("sandboxtemplates", ns,
                        pool["spec"]["sandboxTemplateRef"]["name"])
        want = pool["spec"].get("replicas", 1)
        again = None if tpl else RETRY_S
        for _ in range(want - len(boxes) if tpl else 0):
            box = self.from_template(tpl)
            box["metadata"]["generateName"] = name + "-"
            box["metadata"]["labels"][POOL_HASH] = name_hash(name)
            box["metadata"]["ownerReferences"] = owned_by(pool)
            box = self.api.create("sandboxes", box)
            self.keep("sandboxes", box)
            boxes.append(box)
        ready = [b for b in boxes if self.is_ready(b)]
        for box in [b for b in boxes if b not in ready] + ready:
            if len(boxes) <= want:
                break
            self.api.delete("sandboxes", *key(box))
            boxes.remove(box)
        self.status("sandboxwarmpools", pool, {
            "replicas": len(boxes),
            "readyReplicas": len([b for b in boxes if b in ready]),
            "selector": POOL_HASH + "=" + name_hash(name),
            "observedGeneration": pool["metadata"]["generation"]})
        return again

    @staticmethod
    def is_ready(box):
        ready = condition_of(box, "Ready")
        return bool(ready) and ready["status"] == "True"

    # ---- sandboxes

    def sandbox(self, box):
        ns, name = key(box)
        pod_name = box["metadata"].get("annotations", {}).get(POD_NAME, name)
        pod = self.find("pods", ns, pod_name)
        if pod and owner_uid(pod) != box["metadata"]["uid"]:
            pod = None
        until = box["spec"].get("shutdownTime")
        left = seconds_until(until) if until else None
        if left is not None and left <= 0:
            return self.sandbox_expired(box, pod)
        if box["spec"].get("operatingMode") == "Suspended":
            return self.sandbox_suspended(box, pod)
        again = left
        service, error = None, None
        try:
            if pod is None:
                pod = self.pod_create(box, pod_name)
            service = self.service(box)
        except kube.Error as e:
            error, again = e, RETRY_S
        self.status("sandboxes", box,
                    self.sandbox_status(box, pod, service, error))
        return again

    def sandbox_expired(self, box, pod):
        if box["spec"].get("shutdownPolicy") == "Delete":
            self.api.delete("sandboxes", *key(box))
            return
        if pod and not going(pod):
            self.api.delete("pods", *key(pod))
        self.status("sandboxes", box, {
            "conditions": dated(box, [condition(
                "Ready", "False", "SandboxExpired", "Sandbox has expired",
                box)]),
            "selector": NAME_HASH + "=" + name_hash(key(box)[1])})

    def sandbox_suspended(self, box, pod):
        if pod and not going(pod):
            self.api.delete("pods", *key(pod))
        if pod:
            suspended = condition("Suspended", "False", "PodTerminating",
                                  "Pod is terminating", box)
            text = "Sandbox is suspending"
        else:
            suspended = condition(
                "Suspended", "True", "PodTerminated",
                "Pod has been terminated. Sandbox is suspended", box)
            text = "Sandbox is suspended"
        ready = condition("Ready", "False", "SandboxSuspended", text, box)
        self.status("sandboxes", box, {
            "conditions": dated(box, [suspended, ready]),
            "selector": NAME_HASH + "=" + name_hash(key(box)[1])})

    def pod_create(self, box, pod_name):
        ns, name = key(box)
        template = copy.deepcopy(box["spec"]["podTemplate"])
        meta = template.get("metadata", {})
        labels = dict(meta.get("labels", {}))
        labels[NAME_HASH] = name_hash(name)
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
               "metadata": {"name": pod_name, "namespace": ns,
                            "labels": labels,
                            "annotations": dict(meta.get("annotations", {})),
                            "ownerReferences": owned_by(box)}}
        for claim in box["spec"].get("volumeClaimTemplates", []):
            volume = self.volume(box, claim)
            pod["spec"].setdefault("volumes", []).append(volume)
        pod = self.api.create("pods", pod)
        self.keep("pods", pod)
        return pod

    def volume(self, box, template):
        """The volume of a claim template, its claim made when missing."""
        ns, name = key(box)
        short = template["metadata"]["name"]
        claim = short + "-" + name
        if not self.api.get("persistentvolumeclaims", ns, claim):
            self.api.create("persistentvolumeclaims", {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": claim, "namespace": ns,
                             "ownerReferences": owned_by(box)},
                "spec": template["spec"]})
        return {"name": short,
                "persistentVolumeClaim": {"claimName": claim}}

    def service(self, box):
        """The headless Service when one is wanted; removed when `false`."""
        ns, name = key(box)
        wanted = box["spec"].get("service")
        if wanted is None:
            return None
        have = self.api.get("services", ns, name)
        if not wanted:
            if have and owner_uid(have) == box["metadata"]["uid"]:
                self.api.delete("services", ns, name)
            return None
        if have:
            return have
        ports = [{"name": p.get("name") or f"p-{p['containerPort']}-tcp",
                  "port": p["containerPort"]}
                 for c in box["spec"]["podTemplate"]["spec"]["containers"]
                 for p in c.get("ports", [])]
        return self.api.create("services", {
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": ns,
                         "ownerReferences": owned_by(box)},
            "spec": {"clusterIP": "None", "ports": ports,
                     "selector": {NAME_HASH: name_hash(name)}}})

    def sandbox_status(self, box, pod, service, error):
        status = {"selector": NAME_HASH + "=" + name_hash(key(box)[1])}
        conditions = [condition("Suspended", "False", "NotSuspended",
                                "Sandbox is not suspended", box)]
        scheduled = condition_of(pod, "PodScheduled") if pod else None
        if scheduled:
            conditions.append(condition(
                "PodScheduled", scheduled["status"],
                scheduled.get("reason", "PodScheduled"),
                scheduled.get("message", ""), box))
        if pod:
            ips = [i["ip"] for i in pod["status"].get("podIPs", [])]
            if ips and not going(pod):
                status["podIPs"] = ips
            if "nodeName" in pod["spec"]:
                status["nodeName"] = pod["spec"]["nodeName"]
        if service:
            ns, name = key(box)
            status["service"] = name
            status["serviceFQDN"] = f"{name}.{ns}.svc.cluster.local"
        if error:
            conditions.append(condition("Ready", "False", "ReconcilerError",
                                        f"Error seen: {error}", box))
        else:
            conditions += self.readiness(box, pod, service)
        status["conditions"] = dated(box, conditions)
        return status

    @staticmethod
    def readiness(box, pod, service):
        phase = pod["status"].get("phase", "Pending")
        ended = {"Succeeded": ("PodSucceeded", "Pod completed successfully"),
                 "Failed": ("PodFailed", "Pod failed")}.get(phase)
        if ended:
            return [condition("Ready", "False", *ended, box),
                    condition("Finished", "True", *ended, box)]
        ready = condition_of(pod, "Ready")
        good = False
        if going(pod):
            text = "Pod is terminating"
        elif phase != "Running":
            text = "Pod exists with phase: " + phase
        elif not ready or ready["status"] != "True":
            text = "Pod is Running but not Ready"
        elif not pod["status"].get("podIPs"):
            text = "Pod is Ready but has no podIPs yet"
        else:
            text, good = "Pod is Ready", True
        if box["spec"].get("service"):
            text += "; Service Exists" if service else \
                "; Service does not exist"
            good = good and bool(service)
        return [condition("Ready", str(good), "DependenciesReady" if good
                          else "DependenciesNotReady", text, box)]

    # ---- claims

    def claim(self, claim):
        ns, name = key(claim)
        notes = claim["metadata"].get("annotations", {})
        if OBSERVED not in notes:
            claim = self.annotate(claim, OBSERVED, stamp_fine())
        left = self.claim_left(claim)
        if left is not None and left <= 0:
            return self.claim_expired(claim)
        again = left
        try:
            box, wait = self.bound(claim)
            if wait is not None:
                again = wait if again is None else min(again, wait)
            status = self.claim_status(claim, box)
        except Final as e:
            status = {"conditions": dated(claim, [condition(
                "Ready", "False", e.reason, str(e), claim)])}
            # The controller tries again at least each minute.
            again = min(60, left) if left is not None else 60
        except kube.Error as e:
            if e.code == 409 and e.reason == "Conflict":
                raise
            status = {"conditions": dated(claim, [condition(
                "Ready", "False", "ReconcilerError", f"Error seen: {e}",
                claim)])}
            again = RETRY_S
        self.status("sandboxclaims", claim, status)
        ready = status["conditions"][0]
        if ready["status"] == "True" and FIRST_READY not in notes:
            self.annotate(claim, FIRST_READY, stamp_fine())
        return again

    def annotate(self, claim, note, text):
        out = self.api.patch("sandboxclaims", *key(claim), {
            "metadata": {"annotations": {note: text}}})
        self.keep("sandboxclaims", out)
        return out

    @staticmethod
    def claim_left(claim):
        life = claim["spec"].get("lifecycle", {})
        left = []
        if "shutdownTime" in life:
            left.append(seconds_until(life["shutdownTime"]))
        done = condition_of(claim, "Finished")
        if done and "ttlSecondsAfterFinished" in life:
            left.append(seconds_until(done["lastTransitionTime"]) +
                        life["ttlSecondsAfterFinished"])
        return min(left) if left else None

    def claim_expired(self, claim):
        ns, name = key(claim)
        policy = claim["spec"]["lifecycle"].get("shutdownPolicy", "Retain")
        self.status("sandboxclaims", claim, {
            "conditions": dated(claim, [condition(
                "Ready", "False", "ClaimExpired",
                "Claim expired. Sandbox cleanup initiated.", claim)]),
            "sandbox": {}})
        if policy != "Retain":
            self.api.delete("sandboxclaims", ns, name, propagationPolicy=(
                "Foreground" if policy == "DeleteForeground"
                else "Background"),
                preconditions={"uid": claim["metadata"]["uid"]})
            return
        for box in self.all("sandboxes", ns):
            if owner_uid(box) == claim["metadata"]["uid"] and not going(box):
                self.api.delete("sandboxes", *key(box))

    def bound(self, claim):
        """The claim's Sandbox, found or taken or made; and in how many
        seconds to look again."""
        ns, name = key(claim)
        for box in self.all("sandboxes", ns):
            if owner_uid(box) == claim["metadata"]["uid"]:
                return box, None
        extra = claim["spec"].get("additionalPodMetadata", {})
        self.metadata_check(extra)
        pool_name = claim["spec"]["warmPoolRef"]["name"]
        pool = self.find("sandboxwarmpools", ns, pool_name)
        if pool is None:
            raise Final("WarmPoolNotFound",
                        f'SandboxWarmPool "{pool_name}" not found')
        tpl_name = pool["spec"]["sandboxTemplateRef"]["name"]
        tpl = self.find("sandboxtemplates", ns, tpl_name)
        if tpl is None:
            raise Final("TemplateNotFound",
                        f'SandboxTemplate "{tpl_name}" not found')
        if claim["metadata"].get("annotations", {}).get(BOUND):
            return None, RETRY_S
        if not claim["spec"].get("env") and \
           not claim["spec"].get("volumeClaimTemplates"):
            box, wait = self.warm(claim, pool, extra)
            if box or wait is not None:
                return box, wait
        return self.cold(claim, tpl, extra), None

    @staticmethod
    def metadata_check(extra):
        """The rules for keys a claim may put on its pod (contract 4.6)."""
        for k, v in sorted(extra.get("labels", {}).items()):
            domain, slash, _ = k.partition("/")
            if not slash or not within(domain, LABEL_DOMAINS):
                raise Final("InvalidMetadata", f'label "{k}" is not allowed: '
                            "its domain must be one of "
                            + ", ".join(LABEL_DOMAINS))
            if not LABEL_VALUE.fullmatch(v):
                raise Final("InvalidMetadata",
                            f'label "{k}" has an invalid value "{v}"')
        for k in sorted(extra.get("annotations", {})):
            domain, slash, _ = k.partition("/")
            if slash and within(domain, RESERVED) and k != SAFE_TO_EVICT:
                raise Final("InvalidMetadata",
                            f'annotation "{k}" is reserved')

    @staticmethod
    def pod_metadata(claim, box, extra):
        """Put the claim's metadata on a Sandbox and its pod template."""
        labels = {CLAIM_UID: claim["metadata"]["uid"],
                  CREATED_BY: claim["metadata"].get("labels", {}).get(
                      CREATED_BY, "controller")}
        meta = box["spec"]["podTemplate"].setdefault("metadata", {})
        for half in ("labels", "annotations"):
            have = meta.get(half, {})
            for k, v in extra.get(half, {}).items():
                if have.get(k, v) != v:
                    raise kube.Error(0, {"message": (
                        f'metadata override conflict: {half[:-1]} "{k}" is '
                        "set by the template")})
            new = {**have, **extra.get(half, {}),
                   **(labels if half == "labels" else {})}
            if new:
                meta[half] = new
        box["metadata"]["labels"].update(labels)
        box["metadata"]["ownerReferences"] = owned_by(claim)

    def warm(self, claim, pool, extra):
        """Take one of the pool's: a ready one first, else one that has an
        address; while there is none, look again for a while."""
        boxes = self.members(pool)
        boxes = [b for b in boxes if b.get("status", {}).get("podIPs")]
        boxes.sort(key=lambda b: not self.is_ready(b))
        if boxes:
            return self.adopt(claim, copy.deepcopy(boxes[0]), extra), None
        age = -seconds_until(claim["metadata"]["creationTimestamp"])
        if pool["spec"].get("replicas", 1) > 0 and age < WARM_WAIT_S:
            return None, WARM_LOOK_S
        return None, None

    def adopt(self, claim, box, extra):
        ns, name = key(box)
        self.pod_metadata(claim, box, extra)
        box["metadata"]["labels"].pop(POOL_HASH, None)
        box["metadata"]["labels"][LAUNCH] = "warm"
        box["metadata"].setdefault("annotations", {}).setdefault(POD_NAME,
                                                                 name)
        box = self.api.replace("sandboxes", box)
        self.keep("sandboxes", box)
        claim.update(self.annotate(claim, BOUND, name))
        pod = box["metadata"]["annotations"][POD_NAME]
        self.api.patch("pods", ns, pod, {
            "metadata": box["spec"]["podTemplate"]["metadata"]})
        self.add("sandboxwarmpools", ns, claim["spec"]["warmPoolRef"]["name"])
        return box

    def cold(self, claim, tpl, extra):
        box = self.from_template(tpl)
        box["metadata"]["name"] = key(claim)[1]
        self.pod_metadata(claim, box, extra)
        box["metadata"]["labels"][LAUNCH] = "cold"
        self.inject_env(claim, tpl, box)
        self.inject_volumes(claim, tpl, box)
        box = self.api.create("sandboxes", box)
        self.keep("sandboxes", box)
        return box

    @staticmethod
    def inject_env(claim, tpl, box):
        policy = tpl["spec"].get("envVarsInjectionPolicy", "Disallowed")
        for var in claim["spec"].get("env", []):
            if policy == "Disallowed":
                raise Final("EnvVarsInjectionRejected", "the template does "
                            "not allow environment variables in a claim")
            containers = box["spec"]["podTemplate"]["spec"]["containers"]
            named = var.get("containerName", containers[0]["name"])
            hit = [c for c in containers if c["name"] == named]
            if not hit:
                raise Final("EnvVarsInjectionRejected",
                            f'no container "{named}" in the template')
            env = hit[0].setdefault("env", [])
            old = [e for e in env if e["name"] == var["name"]]
            if old and policy != "Overrides":
                raise Final("EnvVarsInjectionRejected",
                            f'variable "{var["name"]}" is set by the template')
            for e in old:
                env.remove(e)
            env.append({"name": var["name"], "value": var["value"]})

    @staticmethod
    def inject_volumes(claim, tpl, box):
        policy = tpl["spec"].get("volumeClaimTemplatesPolicy", "Disallowed")
        for vct in claim["spec"].get("volumeClaimTemplates", []):
            have = box["spec"].setdefault("volumeClaimTemplates", [])
            old = [v for v in have
                   if v["metadata"]["name"] == vct["metadata"]["name"]]
            if policy == "Disallowed" or (old and policy != "Overrides"):
                raise Final("VolumeClaimTemplatesError", "the template does "
                            "not allow this volume claim template")
            for v in old:
                have.remove(v)
            have.append(vct)

    def claim_status(self, claim, box):
        if box is None:
            name = claim["metadata"].get("annotations", {}).get(BOUND)
            missing = ("SandboxMissing", f'Sandbox "{name}" does not exist') \
                if name else ("SandboxCreatePending",
                              "Waiting for a warm Sandbox")
            status = {"conditions": dated(claim, [condition(
                "Ready", "False", *missing, claim)])}
            if name:
                status["sandbox"] = {"name": name}
            return status
        ready = condition_of(box, "Ready")
        conditions = [
            {**c, "observedGeneration": claim["metadata"]["generation"]}
            for c in (ready, condition_of(box, "Finished")) if c]
        if not ready:
            conditions = dated(claim, [condition(
                "Ready", "False", "SandboxNotReady", "Sandbox is not ready",
                claim)])
        bound = {"name": key(box)[1]}
        if box.get("status", {}).get("podIPs"):
            bound["podIPs"] = box["status"]["podIPs"]
        return {"conditions": conditions, "sandbox": bound}


if __name__ == "__main__":
    Controller(sys.argv[1] if len(sys.argv) > 1 else kube.ADMIN).run()
