# SPDX-License-Identifier: Apache-2.0
"""Pods as folders and local processes of this machine.

A pod gets a folder of its own, a loopback address of its own (127.x.y.z, so
that its ports are the real ones) and, by the annotation or label
test/runtime (sandboxd, legacy, none), a runtime inside this process; without
it the container ports decide. Containers with a command run as processes in
the folder. Other annotations of a pod:

 test/ready-ms        how long it is Running before it is Ready; -1 for ever
 test/unschedulable   message: never scheduled
 test/waiting         "Reason: message": its containers never start
 test/chunk           bytes in an event of sandboxd's Start (4096)
 test/port-N          the local port that stands for its port N

An image "file:PATH" is one whose entry point is that program of this machine.
A path below a volume's mountPath, in what a container runs or is given, is
moved into the pod's folder. A free port stands for port 8090; the processes
find it in MCP_SANDBOX_PORT.
"""

import asyncio
import base64
import os
import random
import re
import shutil
import signal
import subprocess
from concurrent import futures

import legacy
import sandboxd

from . import kinds, runtimefaults
from .httpd import Response
from .lag import lag
from .ports import free_port
from .status import ApiError
from .store import now

MARK = "STANDIN_POD"
START_S = 0.01
TERM_S = 0.2


class PodRun:
    """One running pod: what has to go when it goes."""

    def __init__(self, pod, folder):
        meta = pod["metadata"]
        self.namespace = meta["namespace"]
        self.name = meta["name"]
        self.uid = meta["uid"]
        self.dir = os.path.join(folder, self.uid)
        self.notes = {**meta.get("labels", {}), **meta.get("annotations", {})}
        self.ip = (f"127.{random.randint(100, 254)}.{random.randint(0, 254)}"
                   f".{random.randint(1, 254)}")
        self.env = {"PATH": os.environ["PATH"], "HOME": self.dir,
                    "HOSTNAME": self.name, "POD_IP": self.ip,
                    "LANG": "C.UTF-8", MARK: self.uid}
        os.makedirs(self.dir)
        self.ports = {}
        self.mounts = sorted({m["mountPath"] for field in (
            "initContainers", "containers") for c in pod["spec"].get(field, [])
            for m in c.get("volumeMounts", [])}, key=len, reverse=True)
        for path in self.mounts:
            os.makedirs(self.dir + path, exist_ok=True)
        self.inits = {}
        self.runtime = None
        self.groups = set()
        self.ended = {}
        self.task = None
        self.leaving = False
        self.stopping = False

    def moved(self, text):
        """A path of the pod as one of this machine."""
        for path in self.mounts:
            if text == path or text.startswith(path + "/"):
                return self.dir + text
        return text

    def runtime_kind(self, pod):
        asked = self.notes.get("test/runtime")
        if asked:
            return asked
        ports = {p.get("containerPort") for c in pod["spec"]["containers"]
                 for p in c.get("ports", [])}
        if 8888 in ports:
            return "legacy"
        return "sandboxd" if ports & {8080, 9090} else "none"

    async def start_runtime(self, kind, faults):
        for own in (True, False):
            try:
                await self.try_runtime(kind, faults, own)
                return
            except OSError:
                if not own:
                    raise

    async def try_runtime(self, kind, faults, own):
        """own: the true port numbers, on the pod's own address."""
        hooks = runtimefaults.Hooks(faults, f"{self.namespace}/{self.name}")
        if kind == "legacy":
            self.runtime = legacy.Legacy(
                self.dir, self.ip, 8888 if own else 0, self.env,
                middlewares=[hooks.middleware])
            await self.runtime.start()
            self.ports = {8888: self.runtime.port}
        elif kind == "sandboxd":
            self.runtime = sandboxd.Sandboxd(
                self.dir, self.ip, *((8080, 9090) if own else (0, 0)),
                env=self.env, chunk=int(self.notes.get("test/chunk", 4096)),
                middlewares=[hooks.middleware],
                interceptors=[hooks.interceptor()])
            await self.runtime.start()
            self.ports = dict(zip((8080, 9090), self.runtime.ports))

    def address(self, port):
        note = self.notes.get(f"test/port-{port}")
        if note:
            return "127.0.0.1", int(note)
        return self.ip, self.ports.get(port, port)

    async def stop_runtime(self):
        runtime, self.runtime = self.runtime, None
        if runtime:
            await runtime.stop()

    def kill(self, number=signal.SIGKILL):
        for group in list(self.groups):
            try:
                os.killpg(group, number)
            except (ProcessLookupError, PermissionError):
                self.groups.discard(group)
        for pid in marked(self.uid):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass


def entry_point(container):
    kind, _, path = container.get("image", "").partition(":")
    return path if kind == "file" else None


def marked(uid):
    """The processes that carry the pod's mark in their environment."""
    want = f"{MARK}={uid}".encode()
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                with open(f"/proc/{entry}/environ", "rb") as f:
                    if want in f.read().split(b"\0"):
                        yield int(entry)
            except OSError:
                pass


class Kubelet:
    def __init__(self, store, folder, faults):
        self.store = store
        self.faults = faults
        self.folder = os.path.join(folder, "pods")
        self.runs = {}
        self.tasks = set()
        self.errors = []
        # One for each container that runs; to_thread() has a handful.
        self.waiting = futures.ThreadPoolExecutor(500)
        store.subscribe(self.changed)

    def changed(self, event, kind, pod):
        if kind is not kinds.PODS:
            return
        uid = pod["metadata"]["uid"]
        run = self.runs.get(uid)
        if event == "ADDED":
            run = self.runs[uid] = PodRun(pod, self.folder)
            run.task = self.spawn(self.run(run, pod))
        elif run and event == "DELETED":
            self.spawn(self.stop(run, gone=True))
        elif run and "deletionTimestamp" in pod["metadata"] \
                and not run.leaving:
            self.spawn(self.leave(run))
        elif run and kinds.get(pod, "status", "phase") in (
                "Failed", "Succeeded") and run.runtime:
            self.spawn(run.stop_runtime())

    def spawn(self, coroutine):
        task = asyncio.ensure_future(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.done)
        return task

    def done(self, task):
        self.tasks.discard(task)
        if not task.cancelled() and task.exception():
            self.errors.append(repr(task.exception()))

    def of(self, pod):
        return self.runs.get(pod["metadata"]["uid"])

    def set_status(self, run, **fields):
        """conditions: {type: (status, reason, message)} are merged in."""
        conditions = fields.pop("conditions", {})

        def change(pod):
            have = pod.setdefault("status", {})
            have.update(fields)
            for kind, (value, reason, message) in conditions.items():
                set_condition(have.setdefault("conditions", []), kind, value,
                              reason, message)
        pod = self.store.find(kinds.PODS, run.namespace, run.name)
        if pod and pod["metadata"]["uid"] == run.uid:
            self.store.update(kinds.PODS, run.namespace, run.name, change)

    async def run(self, run, pod):
        await asyncio.sleep(START_S + lag())
        if "test/unschedulable" in run.notes:
            self.set_status(run, conditions={"PodScheduled": (
                "False", "Unschedulable", run.notes["test/unschedulable"])})
            return
        self.store.update(kinds.PODS, run.namespace, run.name,
                          lambda o: o["spec"].update(nodeName="standin"))
        self.set_status(run, hostIP="127.0.0.1", startTime=now(), conditions={
            "PodScheduled": ("True", "", "")})
        if "test/waiting" in run.notes:
            reason, _, message = run.notes["test/waiting"].partition(": ")
            state = {"waiting": {"reason": reason, "message": message}}
            self.set_status(run, containerStatuses=[
                container_status(c, state) for c in pod["spec"]["containers"]])
            return
        self.mount_secrets(run, pod)
        for container in pod["spec"].get("initContainers", []):
            work = asyncio.ensure_future(self.run_container(run, container))
            run.inits[container["name"]] = work
            self.set_status(run, phase="Pending",
                            initContainerStatuses=self.states(
                                run, pod, "initContainers"))
            code = await work
            if code:
                self.set_status(run, phase="Failed",
                                initContainerStatuses=self.states(
                                    run, pod, "initContainers"))
                return
        await run.start_runtime(run.runtime_kind(pod), self.faults)
        work = [asyncio.ensure_future(self.work(run, pod, c))
                for c in pod["spec"]["containers"]
                if c.get("command") or c.get("args") or entry_point(c)]
        self.running(run, pod)
        wait = int(run.notes.get("test/ready-ms", 0))
        if wait >= 0:
            await asyncio.sleep(wait / 1000)
            self.running(run, pod, ready=True)
        if work and pod["spec"]["restartPolicy"] == "Never":
            codes = await asyncio.gather(*work)
            await asyncio.sleep(lag())
            self.set_status(
                run, phase="Failed" if any(codes) else "Succeeded",
                containerStatuses=self.states(run, pod, "containers"),
                conditions={"Ready": ("False", "PodCompleted", "")})

    def mount_secrets(self, run, pod):
        names = {v["name"]: v["secret"]["secretName"]
                 for v in pod["spec"].get("volumes", []) if "secret" in v}
        for c in (pod["spec"].get("initContainers", [])
                  + pod["spec"]["containers"]):
            for m in c.get("volumeMounts", []):
                secret = m["name"] in names and self.store.find(
                    kinds.SECRETS, run.namespace, names[m["name"]])
                for key, value in (secret or {}).get("data", {}).items():
                    with open(run.dir + m["mountPath"] + "/" + key, "wb") as f:
                        f.write(base64.b64decode(value))

    def running(self, run, pod, ready=False):
        flag = "True" if ready else "False"
        why = ("", "") if ready else (
            "ContainersNotReady", "containers with unready status")
        self.set_status(
            run, phase="Running", podIP=run.ip, podIPs=[{"ip": run.ip}],
            containerStatuses=self.states(run, pod, "containers", ready),
            initContainerStatuses=self.states(run, pod, "initContainers"),
            conditions={"Initialized": ("True", "", ""),
                        "ContainersReady": (flag, *why),
                        "Ready": (flag, *why)})

    def states(self, run, pod, field, ready=False):
        found = []
        for container in pod["spec"].get(field, []):
            code = run.ended.get(container["name"])
            state = {"running": {"startedAt": now()}} if code is None else {
                "terminated": {"exitCode": code, "finishedAt": now(),
                               "reason": "Error" if code else "Completed"}}
            found.append(container_status(container, state,
                                          ready and code is None))
        return found

    async def work(self, run, pod, container):
        """One of several: the pod's status tells when it ends."""
        code = await self.run_container(run, container)
        if len(pod["spec"]["containers"]) > 1 and not run.stopping:
            self.set_status(run, containerStatuses=self.states(
                run, pod, "containers", True))
        return code

    async def run_container(self, run, container):
        env = dict(run.env)
        for e in container.get("env", []):
            env[e["name"]] = run.moved(expanded(self.value(run, e), env))
        if 8090 not in run.ports:
            run.ports[8090] = free_port()
        env["MCP_SANDBOX_PORT"] = str(run.ports[8090])
        folder = run.dir + container.get("workingDir", "")
        os.makedirs(folder, exist_ok=True)
        argv = [run.moved(expanded(a, env)) for a in
                container.get("command", []) + container.get("args", [])] or [entry_point(container)]
        with open(self.log_path(run, container["name"]), "wb") as log:
            try:
                child = subprocess.Popen(
                    argv, cwd=folder, env=env, stdin=subprocess.DEVNULL,
                    stdout=log, stderr=log, start_new_session=True)
            except OSError as e:
                log.write(f"{e}\n".encode())
                run.ended[container["name"]] = 128
                return 128
        run.groups.add(child.pid)
        code = await asyncio.get_running_loop().run_in_executor(
            self.waiting, child.wait)
        code = 128 - code if code < 0 else code
        run.ended[container["name"]] = code
        return code

    def value(self, run, variable):
        ref = variable.get("valueFrom", {}).get("secretKeyRef")
        if not ref:
            return variable.get("value", "")
        secret = self.store.find(kinds.SECRETS, run.namespace, ref["name"])
        return base64.b64decode(secret["data"][ref["key"]]).decode()

    def log_path(self, run, container):
        folder = run.dir + ".logs"
        os.makedirs(folder, exist_ok=True)
        return os.path.join(folder, container)

    async def leave(self, run):
        """As long as it has not ended, a command in it can be begun."""
        run.leaving = True
        if (wait := lag()):
            await asyncio.sleep(wait)
        await self.stop(run)

    async def stop(self, run, gone=False):
        run.stopping = True
        if run.task:
            run.task.cancel()
        await run.stop_runtime()
        if not gone and run.groups:
            run.kill(signal.SIGTERM)
            await asyncio.sleep(TERM_S)
        run.kill()
        if not gone:
            pod = self.store.find(kinds.PODS, run.namespace, run.name)
            if pod and pod["metadata"]["uid"] == run.uid:
                self.store.remove(kinds.PODS, run.namespace, run.name)
        self.runs.pop(run.uid, None)
        shutil.rmtree(run.dir, ignore_errors=True)
        shutil.rmtree(run.dir + ".logs", ignore_errors=True)

    async def close(self):
        runs = list(self.runs.values())
        await asyncio.gather(*(self.stop(r, gone=True) for r in runs))
        for task in list(self.tasks):
            task.cancel()

    def log(self, pod, request):
        run = self.of(pod)
        names = [c["name"] for c in pod["spec"]["containers"]
                 + pod["spec"].get("initContainers", [])]
        name = request.query.get("container") or names[0]
        if name not in names:
            raise ApiError(400, f"container {name} is not valid for pod "
                           f"{pod['metadata']['name']}")
        if run is None:
            raise ApiError(400, f'container "{name}" in pod '
                           f'"{pod["metadata"]["name"]}" is terminated')
        path = self.log_path(run, name)
        return Response(200, self.follow(run, name, path, request),
                        content_type="text/plain")

    async def follow(self, run, name, path, request):
        at = 0
        while True:
            over = (not request.flag("follow") or name in run.ended
                    or run.stopping)
            data = b""
            if os.path.exists(path):
                with open(path, "rb") as f:
                    f.seek(at)
                    data = f.read()
            if at == 0 and request.query.get("tailLines"):
                lines = data.splitlines(keepends=True)
                count = int(request.query["tailLines"])
                at = len(data)
                data = b"".join(lines[-count:] if count else [])
            else:
                at += len(data)
            if data:
                yield data
            if over:
                return
            await asyncio.sleep(0.02)


def expanded(text, env):
    """$(NAME) is a variable's value, $$ a dollar, as a kubelet has it."""
    return re.sub(r"\$(?:\$|\(([A-Za-z_][\w.-]*)\))", lambda m: "$" if
                  m[1] is None else env.get(m[1], m[0]), text)


def container_status(container, state, ready=False):
    return {"name": container["name"], "image": container.get("image", ""),
            "imageID": "", "restartCount": 0, "ready": ready,
            "started": "running" in state, "state": state, "lastState": {}}


def set_condition(conditions, kind, value, reason, message, generation=None):
    """lastTransitionTime changes only with the status."""
    new = {"type": kind, "status": value, "lastTransitionTime": now()}
    if generation is not None:
        new["observedGeneration"] = generation
        new["reason"], new["message"] = reason, message
    else:
        new.update({k: v for k, v in (("reason", reason),
                                      ("message", message)) if v})
    for at, old in enumerate(conditions):
        if old["type"] == kind:
            if old["status"] == value:
                new["lastTransitionTime"] = old["lastTransitionTime"]
            conditions[at] = new
            return
    conditions.append(new)
