# SPDX-License-Identifier: Apache-2.0
"""The Job controller: one pod at a time, deadline, back-off, time to live."""

import asyncio

from . import kinds
from .controller import owned_by, owner_ref
from .kinds import JOBS, PODS, get
from .kubelet import set_condition
from .lag import lag
from .status import ApiError
from .store import now, random_suffix


class Jobs:
    def __init__(self, store):
        self.store = store
        store.subscribe(self.changed)

    def changed(self, event, kind, obj):
        loop = asyncio.get_running_loop()
        meta = obj["metadata"]
        if kind is JOBS and event != "DELETED":
            loop.call_later(lag(), self.step, meta["namespace"],
                            meta["name"])
        for ref in meta.get("ownerReferences", []) if kind is PODS else []:
            if ref["kind"] == "Job":
                loop.call_later(lag(), self.step, meta["namespace"],
                                ref["name"])

    def step(self, namespace, name):
        job = self.store.find(JOBS, namespace, name)
        if job is None or "deletionTimestamp" in job["metadata"]:
            return
        pods = [p for p in self.store.list(PODS, namespace)
                if owned_by(p, job)]
        if get(job, "status", "conditions"):
            return
        if not get(job, "status", "startTime"):
            self.begin(job)
            return
        phases = [get(p, "status", "phase") for p in pods]
        failed, done = phases.count("Failed"), phases.count("Succeeded")
        active = len(pods) - failed - done
        if done >= job["spec"]["completions"]:
            self.finish(job, pods, "Complete", "CompletionsReached",
                        "Reached expected number of succeeded pods")
        elif failed > job["spec"]["backoffLimit"]:
            self.finish(job, pods, "Failed", "BackoffLimitExceeded",
                        "Job has reached the specified backoff limit")
        else:
            if not active and not self.make_pod(job):
                return
            self.count(job, active=1, succeeded=done, failed=failed)

    def begin(self, job):
        meta = job["metadata"]
        loop = asyncio.get_running_loop()
        limit = job["spec"].get("activeDeadlineSeconds")
        if limit is not None:
            loop.call_later(limit, self.overdue, meta["uid"])
        self.store.update(JOBS, meta["namespace"], meta["name"],
                          lambda o: o["status"].update(startTime=now()))

    def make_pod(self, job):
        meta = job["metadata"]
        template = job["spec"]["template"]
        inner = template.get("metadata") or {}
        labels = {**inner.get("labels", {}), "job-name": meta["name"],
                  "batch.kubernetes.io/job-name": meta["name"],
                  "controller-uid": meta["uid"],
                  "batch.kubernetes.io/controller-uid": meta["uid"]}
        try:
            self.store.create(PODS, meta["namespace"], {
                "metadata": {"generateName": meta["name"] + "-",
                             "labels": labels,
                             "annotations": inner.get("annotations", {}),
                             "ownerReferences": [owner_ref(JOBS, job)]},
                "spec": template["spec"]})
            return True
        except ApiError as e:
            self.event(job, "FailedCreate", f"Error creating: {e}")
            return False

    def event(self, job, reason, message):
        meta = job["metadata"]
        self.store.create(kinds.EVENTS, meta["namespace"], {
            "metadata": {"name": f"{meta['name']}.{random_suffix()}"},
            "involvedObject": {"apiVersion": "batch/v1", "kind": "Job",
                               "name": meta["name"], "uid": meta["uid"],
                               "namespace": meta["namespace"]},
            "reason": reason, "message": message, "type": "Warning",
            "count": 1, "firstTimestamp": now(), "lastTimestamp": now()})

    def count(self, job, **numbers):
        meta = job["metadata"]

        def change(o):
            for field, number in numbers.items():
                o["status"].pop(field, None)
                if number:
                    o["status"][field] = number
        self.store.update(JOBS, meta["namespace"], meta["name"], change)

    def overdue(self, uid):
        found = self.store.by_uid(uid)
        if not found or get(found[1], "status", "conditions"):
            return
        job = found[1]
        pods = [p for p in self.store.list(
            PODS, job["metadata"]["namespace"]) if owned_by(p, job)]
        self.finish(job, pods, "Failed", "DeadlineExceeded",
                    "Job was active longer than specified deadline")

    def finish(self, job, pods, kind, reason, message):
        meta = job["metadata"]
        phases = [get(p, "status", "phase") for p in pods]

        def change(o):
            conditions = o["status"].setdefault("conditions", [])
            set_condition(conditions, kind, "True", reason, message)
            if kind == "Complete":
                o["status"]["completionTime"] = now()
        self.count(job, active=0, succeeded=phases.count("Succeeded"),
                   failed=phases.count("Failed"))
        self.store.update(JOBS, meta["namespace"], meta["name"], change)
        for pod in pods:
            if get(pod, "status", "phase") in ("Pending", "Running"):
                self.store.delete(PODS, meta["namespace"],
                                  pod["metadata"]["name"])
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is not None:
            asyncio.get_running_loop().call_later(
                max(ttl, 0.02), self.forget, meta["uid"])

    def forget(self, uid):
        found = self.store.by_uid(uid)
        if found:
            meta = found[1]["metadata"]
            self.store.delete(JOBS, meta["namespace"], meta["name"],
                              {"propagationPolicy": "Background"})
