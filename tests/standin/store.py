# SPDX-License-Identifier: Apache-2.0
"""Objects, resource versions, the watch history and garbage collection.

Everything happens in one event loop and no method awaits, so every change is
atomic. An object in the store is never changed in place: who holds one may
keep it. Callbacks given to subscribe() get (type, kind, object) after each
change.
"""

import asyncio
import bisect
import copy
import secrets
import time
import uuid
from collections import namedtuple
from datetime import datetime, timezone

from . import kinds, status
from .lag import lag

Event = namedtuple("Event", "rv type kind obj old")
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
GC_DELAY_S = 0.02


def now(at=None):
    when = datetime.fromtimestamp(time.time() if at is None else at,
                                  timezone.utc)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def random_suffix():
    return "".join(secrets.choice(ALPHABET) for _ in range(5))


def key_of(kind, obj):
    return kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


class Store:
    def __init__(self):
        self.callbacks = []
        self.wakers = set()
        self.reset()

    def reset(self):
        self.rv = 100
        self.oldest = 0
        self.objects = {}
        self.history = []
        for name in "default", "kube-system":
            self.create(kinds.NAMESPACES, "", {"metadata": {"name": name}})

    def subscribe(self, callback):
        self.callbacks.append(callback)

    def compact(self):
        """Forgets the history: a watch from before now is told 410."""
        self.history = []
        self.oldest = self.rv

    def record(self, kind, event, obj, old=None):
        self.history.append(Event(self.rv, event, kind, obj, old))
        for wake in list(self.wakers):
            wake.set()
        for callback in self.callbacks:
            callback(event, kind, obj)

    # Reading

    def find(self, kind, namespace, name):
        return self.objects.get((kind, namespace, name))

    def get(self, kind, namespace, name):
        obj = self.find(kind, namespace, name)
        if obj is None:
            raise status.not_found(kind, name)
        return obj

    def list(self, kind, namespace=None):
        found = [o for (k, ns, _), o in self.objects.items()
                 if k is kind and namespace in (None, "", ns)]
        return sorted(found, key=lambda o: (
            o["metadata"].get("namespace", ""), o["metadata"]["name"]))

    def owned(self, uid):
        return [(k, o) for (k, _, _), o in self.objects.items()
                if any(r["uid"] == uid for r in
                       o["metadata"].get("ownerReferences", []))]

    # Writing

    def create(self, kind, namespace, obj, dry_run=False):
        obj = copy.deepcopy(obj)
        meta = obj["metadata"]
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"][:58] + random_suffix()
        if kind.namespaced:
            meta["namespace"] = namespace
            self.check_namespace(kind, namespace)
        kinds.set_defaults(kind, obj)
        kinds.check(kind, obj)
        if key_of(kind, obj) in self.objects:
            raise status.already_exists(kind, meta["name"])
        self.check_quota(kind, namespace, meta["name"])
        meta["uid"] = str(uuid.uuid4())
        meta["creationTimestamp"] = now()
        if kind.generation:
            meta["generation"] = 1
        obj = {"apiVersion": kind.api_version, "kind": kind.kind,
               **{k: v for k, v in obj.items()
                  if k not in ("apiVersion", "kind")}}
        if not dry_run:
            self.put(kind, "ADDED", obj)
        return obj

    def put(self, kind, event, obj, old=None):
        self.rv += 1
        obj["metadata"]["resourceVersion"] = str(self.rv)
        self.objects[key_of(kind, obj)] = obj
        self.record(kind, event, obj, old)

    def update(self, kind, namespace, name, change):
        """change(copy) edits the copy; no difference is no event."""
        old = self.get(kind, namespace, name)
        new = copy.deepcopy(old)
        change(new)
        for field in ("uid", "creationTimestamp", "resourceVersion",
                      "generation", "namespace", "name"):
            if field in old["metadata"]:
                new["metadata"][field] = old["metadata"][field]
        if new == old:
            return old
        kinds.check(kind, new)
        if kind.generation and new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] += 1
        self.put(kind, "MODIFIED", new, old)
        if ("deletionTimestamp" in new["metadata"]
                and not new["metadata"].get("finalizers")
                and kind is not kinds.PODS):
            self.remove(kind, namespace, name)
        return new

    def delete(self, kind, namespace, name, options=None):
        """Returns (gone, object): gone says that it was removed at once."""
        options = options or {}
        obj = self.get(kind, namespace, name)
        self.check_preconditions(kind, obj, options.get("preconditions"))
        policy = options.get("propagationPolicy") or (
            "Orphan" if kind is kinds.JOBS else "Background")
        grace = options.get("gracePeriodSeconds")
        if policy == "Orphan":
            self.orphan(obj["metadata"]["uid"])
        foreground = (policy == "Foreground"
                      and bool(self.owned(obj["metadata"]["uid"])))
        wait = kind is kinds.PODS and grace != 0

        def mark(new):
            meta = new["metadata"]
            meta.setdefault("deletionTimestamp", now())
            if wait:
                meta["deletionGracePeriodSeconds"] = (
                    grace or new["spec"]["terminationGracePeriodSeconds"])
            elif kind.generation:
                meta["deletionGracePeriodSeconds"] = 0
            if foreground and "foregroundDeletion" not in meta.setdefault(
                    "finalizers", []):
                meta["finalizers"].append("foregroundDeletion")

        if foreground or wait or obj["metadata"].get("finalizers"):
            self.update(kind, namespace, name, mark)
            obj = self.find(kind, namespace, name) or obj
            if foreground:
                self.collect_later(obj["metadata"]["uid"])
            return False, obj
        return True, self.remove(kind, namespace, name)

    def remove(self, kind, namespace, name):
        old = self.objects.pop((kind, namespace, name))
        obj = copy.deepcopy(old)
        self.rv += 1
        obj["metadata"]["resourceVersion"] = str(self.rv)
        self.record(kind, "DELETED", obj, old)
        if kind is kinds.NAMESPACES:
            for (k, ns, n) in [k for k in self.objects if k[1] == name]:
                self.delete(k, ns, n, {"gracePeriodSeconds": 0})
        self.collect_later(old["metadata"]["uid"])
        for ref in old["metadata"].get("ownerReferences", []):
            self.release_foreground(ref["uid"])
        return obj

    # Rules

    def check_namespace(self, kind, namespace):
        if self.find(kinds.NAMESPACES, "", namespace) is None:
            raise status.not_found(kinds.NAMESPACES, namespace)

    def check_quota(self, kind, namespace, name):
        counted = {f"count/{kind.resource}"}
        if not kind.group:
            counted.add(kind.plural)
        for quota in self.list(kinds.QUOTAS, namespace or "-"):
            hard = kinds.get(quota, "spec", "hard") or {}
            for what in counted & set(hard):
                used = len(self.list(kind, namespace))
                if used + 1 > int(hard[what]):
                    raise status.forbidden(
                        kind, name, "exceeded quota: "
                        f"{quota['metadata']['name']}, requested: {what}=1, "
                        f"used: {what}={used}, limited: {what}={hard[what]}")

    def check_preconditions(self, kind, obj, wanted):
        for field, title in (("uid", "UID"),
                             ("resourceVersion", "ResourceVersion")):
            want = (wanted or {}).get(field)
            have = obj["metadata"][field]
            if want is not None and want != have:
                raise status.conflict(
                    kind, obj["metadata"]["name"],
                    f"Precondition failed: {title} in precondition: {want}, "
                    f"{title} in object meta: {have}")

    # Garbage collection

    def collect_later(self, uid):
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        loop.call_later(GC_DELAY_S + lag(), self.collect, uid)

    def collect(self, uid):
        for kind, obj in self.owned(uid):
            meta = obj["metadata"]
            others = [r for r in meta["ownerReferences"]
                      if r["uid"] != uid and self.by_uid(r["uid"])]
            if others:
                self.update(kind, meta.get("namespace", ""), meta["name"],
                            lambda o: o["metadata"].update(
                                ownerReferences=others))
            elif "deletionTimestamp" not in meta:
                self.delete(kind, meta.get("namespace", ""), meta["name"],
                            {"propagationPolicy": "Foreground"
                             if self.by_uid(uid) else "Background"})

    def since(self, rv):
        """The events after rv, oldest first."""
        at = bisect.bisect_right(self.history, rv, key=lambda e: e.rv)
        return self.history[at:]

    def by_uid(self, uid):
        for (kind, _, _), obj in self.objects.items():
            if obj["metadata"]["uid"] == uid:
                return kind, obj
        return None

    def release_foreground(self, uid):
        found = self.by_uid(uid)
        if not found or self.owned(uid):
            return
        kind, obj = found
        meta = obj["metadata"]
        if "foregroundDeletion" in meta.get("finalizers", []):
            self.update(kind, meta.get("namespace", ""), meta["name"],
                        lambda o: o["metadata"]["finalizers"].remove(
                            "foregroundDeletion"))

    def orphan(self, uid):
        for kind, obj in self.owned(uid):
            meta = obj["metadata"]
            left = [r for r in meta["ownerReferences"] if r["uid"] != uid]
            self.update(kind, meta.get("namespace", ""), meta["name"],
                        lambda o: o["metadata"].update(ownerReferences=left))
