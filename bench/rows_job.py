# SPDX-License-Identifier: Apache-2.0
"""run_job against the bare Job, and the memory of a large file."""

import base64
import json
import os
import subprocess
import sys
import time

from measure import BINARY, OURS, ROOT, Peer, Row, hello, kb, median, ms, tool

sys.path.insert(0, os.path.join(ROOT, "tests/cluster"))

import kube                                                    # noqa: E402

TITLE = "Jobs"
RUNS = 6
PIECE = 1 << 20
LARGE = 100 << 20
HARD = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def place_rows(bench, place):
    real = place.name != "stand-in"
    image = "localhost/busybox:1" if real else "busybox:1.36"
    namespace = "jobs" if real else "default"
    if real:
        subprocess.run([*place.kubectl[:-2], "apply", "-f", os.path.join(
            ROOT, "tests/cluster/jobs-rights.yaml")], check=True,
            stdout=subprocess.DEVNULL)
    server = Peer(OURS, [BINARY, "--session-id", "bench"], place.kubeconfig,
                  MCP_K8S_ALLOWED_IMAGES=image, MCP_K8S_SIDECAR_IMAGE=image,
                  MCP_K8S_NAMESPACE=namespace, MCP_K8S_DEFAULT_CPU="20m",
                  MCP_K8S_DEFAULT_MEMORY="16Mi")
    yield overhead(bench, place, server, image, real)
    yield into(bench, server, image)
    yield out(bench, server, image)


def overhead(bench, place, server, image, real):
    """In turns, since both wait for the same kubelet."""
    ours, bare = [], []
    for i in range(RUNS):
        ours.append(bench.probe.talk(server, [*hello(), tool(
            1, "run_job", image=image, command=["true"])])[0]["us"][-1])
        if real:
            bare.append(bare_job(kube.Client(place.cert), image, i))
    row = Row("run_job of `true`, call to result",
              f"{ms(median(ours))} (min {ms(min(ours))})")
    if real:
        row.ours += f"; {ms(median(ours) - median(bare))} over the bare Job"
        row.peers.append("the bare Job, create to terminated: "
                         f"{ms(median(bare))} (min {ms(min(bare))})")
    return row


def bare_job(api, image, number):
    """Microseconds until its container is seen terminated."""
    name = f"bare-{os.getpid()}-{number}"
    begin = time.perf_counter()
    api.call("POST", "/apis/batch/v1/namespaces/jobs/jobs", {
        "metadata": {"name": name}, "spec": {
            "backoffLimit": 0, "template": {"spec": {
                "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                "securityContext": {
                    "runAsNonRoot": True, "runAsUser": 1000,
                    "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{"name": "main", "image": image, "command":
                                ["true"], "securityContext": HARD}]}}}})
    for _, pod in api.watch("pods", namespace="jobs",
                            labelSelector="job-name=" + name):
        if any("terminated" in c["state"] for c in (pod or {}).get(
                "status", {}).get("containerStatuses", [])):
            break
    took = (time.perf_counter() - begin) * 1e6
    api.call("DELETE", "/apis/batch/v1/namespaces/jobs/jobs/" + name,
             {"propagationPolicy": "Background"})
    return took


def into(bench, server, image):
    """One file of the call; the message is a third longer."""
    content = base64.b64encode(bytes(LARGE)).decode()
    run = bench.probe.talk(server, [*hello(), tool(
        1, "run_job", image=image, command=["true"],
        files=[{"path": "big", "content_b64": content}])])[0]
    return Row("100 MB in, peak memory",
               f"{kb(run['hwm_kb'])}, {ms(run['us'][-1])} for the job",
               [], "<= 4 MB", run["hwm_kb"] <= 4 << 10)


def out(bench, server, image):
    """A file that is larger than a message."""
    said = []
    script = f"head -c {LARGE} /dev/zero >big"
    bench.probe.talk(server, [*hello(), tool(
        1, "submit_job", image=image, command=["sh", "-c", script],
        limits={"memory": "256Mi"})], replies=said)
    token = said[-1]["result"]["structuredContent"]["job_token"]
    whole = bench.probe.talk(server, [*hello(), tool(
        1, "fetch_job", job_token=token, wait_s=60)], replies=said)[0]
    listed = said[-1]["result"]["structuredContent"]["result"]["artifacts"]
    run = bench.probe.talk(server, [*hello(), *(
        tool(i, "fetch_job", job_token=token, path="big",
             offset=i * PIECE, length=PIECE) for i in range(LARGE // PIECE))],
        replies=said)[0]
    size = json.dumps(said[-1]["result"]["structuredContent"]["size"])
    bench.probe.talk(server, [*hello(), tool(1, "cancel_job",
                                             job_token=token)])
    ok = listed[0]["size"] == LARGE and size == str(LARGE)
    return Row("100 MB out in ranges of 1 MB, peak memory",
               f"{kb(run['hwm_kb'])}, {LARGE / run['all_us']:.0f} MB/s; "
               f"{kb(whole['hwm_kb'])} for the result with its first 10 MB",
               [], "<= 8 MB", ok and run["hwm_kb"] <= 8 << 10)
