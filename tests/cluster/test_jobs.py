# SPDX-License-Identifier: Apache-2.0
"""Jobs on a real Kubernetes: every status provoked for real, and every server
but the last may be killed.  The server has a service account with the rights
of the manual, in a namespace that takes only pods of the restricted level."""

import base64
import concurrent.futures
import hashlib
import json
import os
import subprocess
import sys
import threading
import time

import pytest

import kube
from support import eventually

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import gitserver                                               # noqa: E402
from agent import forever, sleeping                            # noqa: E402
from program import SANITIZED, Program, clean_environment      # noqa: E402

FAST_JOBS = int(os.environ.get("JOBS", "40"))

IMAGE, GIT = "localhost/busybox:1", "localhost/git:1"
ACCOUNT = os.path.join(kube.STATE, "mcp.kubeconfig")
KUBECTL = [os.path.join(kube.STATE, "bin", "kubectl"), "--kubeconfig",
           os.path.join(kube.STATE, "admin.kubeconfig")]


def kubectl(*args, **how):
    done = subprocess.run([*KUBECTL, *args], capture_output=True, text=True,
                          **how)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(kind, namespace="jobs"):
    return json.loads(kubectl("-n", namespace, "get", kind, "-o",
                              "json"))["items"]


@pytest.fixture(scope="module", autouse=True)
def rights():
    kubectl("apply", "-f", os.path.join(HERE, "jobs-rights.yaml"))
    kubectl("-n", "jobs", "delete", "jobs", "--all", "--wait=false")
    eventually("an empty namespace", lambda: not objects("pods"))
    yield
    for namespace in ("jobs", "jobs-quota", "jobs-limits"):
        kubectl("-n", namespace, "delete", "jobs", "--all", "--wait=false")


@pytest.fixture
def start():
    running = []

    def begin(account=ACCOUNT, **env):
        settings = {"KUBECONFIG": account, "MCP_K8S_NAMESPACE": "jobs",
                    "MCP_K8S_ALLOWED_IMAGES":
                        f"{IMAGE},{GIT},localhost/none:1",
                    "MCP_K8S_SIDECAR_IMAGE": IMAGE,
                    "MCP_K8S_DEFAULT_CPU": "20m",
                    "MCP_K8S_DEFAULT_MEMORY": "16Mi",
                    "MCP_SANDBOX_UNSCHEDULABLE_AFTER": "2", **env}
        running.append(Program(env=clean_environment(**settings)))
        return running[-1]

    yield begin
    for program in running:
        if program.child.poll() is None:
            program.close()
        program.dispose()


@pytest.fixture
def server(start):
    return start()


def arguments(script, **more):
    return {"image": IMAGE, "command": ["sh", "-c", script], **more}


def run(server, script, **more):
    r = server.tool("run_job", arguments(script, **more), timeout=240)
    assert not r["isError"], r
    return r["structuredContent"]


def submit(server, script, **more):
    r = server.tool("submit_job", arguments(script, **more), timeout=90)
    assert not r["isError"], r
    return r["structuredContent"]["job_token"]


def ask(server, tool, **args):
    r = server.tool(tool, args, timeout=150)
    assert not r["isError"], r
    return r["structuredContent"]


def fetch(server, token, wait_s=60):
    r = ask(server, "fetch_job", job_token=token, wait_s=wait_s)
    assert r["status"] == "done", r
    return r["result"]


def outcome(result):
    return result["status"], result["reason"], result["exit_code"]


def test_a_command_ends_and_nothing_is_left(server):
    r = run(server, "echo out; echo err >&2; cat d/in >o.txt; id -u; exit 3",
            files=[{"path": "d/in", "content_b64": base64.b64encode(
                b"data").decode()}])
    assert outcome(r) == ("failed", "", 3)
    assert (r["stdout"], r["stderr"]) == ("out\n1000\n", "err\n")
    assert [(a["name"], a["content_b64"]) for a in r["artifacts"]] == [
        ("o.txt", base64.b64encode(b"data").decode())]
    eventually("no job", lambda: not objects("jobs"))
    eventually("no pod", lambda: not objects("pods"))


def test_a_timeout_returns_what_there_is(server):
    r = run(server, "echo partial; echo f >f; sleep 60 & sleep 60",
            timeout_s=2)
    assert outcome(r) == ("timeout", "", -1)
    assert r["stdout"] == "partial\n"
    assert [a["name"] for a in r["artifacts"]] == ["f"]
    assert 1900 < r["duration_ms"] < 7000


def test_a_fast_job_never_loses_a_line(start):
    """JOBS of them (40), some at a time through some servers."""
    def some(server, first):
        for i in range(first, FAST_JOBS, 8):
            r = run(server, f"echo line {i}; echo e{i} >&2")
            assert outcome(r) == ("succeeded", "", 0)
            assert (r["stdout"], r["stderr"]) == (f"line {i}\n", f"e{i}\n")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(some, start(MCP_K8S_MAX_CONCURRENT="400"), i)
                     for i in range(8)]:
            done.result()


def test_out_of_memory_is_named(server):
    """users.md 51"""
    r = run(server, "echo before; exec tail /dev/zero",
            limits={"memory": "30Mi"})
    assert outcome(r) == ("failed", "oom_killed", 137)
    assert r["stdout"] == "before\n"


def test_no_such_image_is_an_answer_in_seconds(server):
    begin = time.monotonic()
    r = ask(server, "run_job", image="localhost/none:1", command=["x"])
    assert outcome(r) == ("error", "image_error", -1)
    assert "localhost/none:1" in r["message"]
    assert time.monotonic() - begin < 45


def test_no_such_program(server):
    r = ask(server, "run_job", image=IMAGE, command=["/no/such"])
    assert outcome(r) == ("failed", "", 127)
    assert "/no/such" in r["stderr"]


def test_no_node_takes_it(start):
    r = run(start(MCP_SANDBOX_JOB_NODE_SELECTOR="no=node"), "true")
    assert outcome(r) == ("error", "unschedulable", -1)
    assert "nodes are available" in r["message"]


def test_a_quota_says_so(start):
    r = run(start(MCP_K8S_NAMESPACE="jobs-quota"), "true")
    assert outcome(r) == ("error", "quota", -1)
    assert "exceeded quota" in r["message"]


def test_a_pod_that_may_not_be_says_so(start):
    r = run(start(MCP_SANDBOX_JOB_RUNTIME_CLASS="none"), "true")
    assert outcome(r) == ("error", "forbidden", -1)
    assert "RuntimeClass" in r["message"]


def test_a_limit_range_says_so(start):
    r = run(start(MCP_K8S_NAMESPACE="jobs-limits"), "true",
            limits={"memory": "100Mi"})
    assert outcome(r) == ("error", "quota", -1)
    assert "maximum memory usage" in r["message"]


def test_without_rights_nothing_is_made(start):
    server = start(os.path.join(kube.STATE, "outsider.kubeconfig"))
    r = server.tool("run_job", arguments("true"), timeout=60)
    assert r["isError"]
    assert "cannot list resource" in r["content"][0]["text"]


def test_eviction_is_named(start):
    """users.md 52. The namespace lets a container write 10 MiB; the kubelet
    looks at a volume every minute."""
    r = run(start(MCP_K8S_NAMESPACE="jobs-limits"),
            "head -c 100000000 /dev/zero >big; sleep 170", timeout_s=170)
    assert outcome(r) == ("error", "evicted", -1)
    assert "ephemeral" in r["message"]


def test_a_deleted_pod_gives_its_last_words(server):
    """users.md 34"""
    before = {p["metadata"]["name"] for p in objects("pods")}
    long = forever()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        future = pool.submit(run, server, f"echo words; sleep {long}")

        def running():
            return [p["metadata"]["name"] for p in objects("pods") if any(
                "running" in c["state"] and c["name"] == "reader"
                for c in p["status"].get("containerStatuses", []))
                and p["metadata"]["name"] not in before]
        pod = eventually("a pod", running)[0]
        eventually("its words", lambda: sleeping(long))
        kubectl("-n", "jobs", "delete", "pod", pod, "--wait=false")
        r = future.result()
    assert outcome(r) == ("error", "deleted", -1)
    assert r["stdout"] == "words\n"


def test_a_deadline_of_the_job_is_told(server):
    """Ours is long; somebody else's is as good as one."""
    token = submit(server, "echo a; sleep 60")
    kubectl("-n", "jobs", "patch", "job", token, "-p",
            '{"spec":{"activeDeadlineSeconds":1}}')
    eventually("an end", lambda: [
        c for j in objects("jobs") if j["metadata"]["name"] == token
        for c in j["status"].get("conditions", []) if c["type"] == "Failed"])
    r = fetch(server, token)
    assert outcome(r) == ("error", "deleted", -1)
    assert "deadline" in r["message"]
    ask(server, "cancel_job", job_token=token)


def test_another_server_goes_on(start):
    """users.md 27"""
    first = start()
    token = submit(first, "echo one; sleep 6; echo two; echo f >f")
    first.kill()
    second, third = start(), start()
    early = ask(second, "fetch_job", job_token=token)
    assert early["status"] == "running"
    r = fetch(third, token)
    assert outcome(r) == ("succeeded", "", 0)
    assert r["stdout"] == "one\ntwo\n"
    assert fetch(second, token) == r
    ask(third, "cancel_job", job_token=token)
    eventually("no job", lambda: not [
        j for j in objects("jobs") if j["metadata"]["name"] == token])
    gone = second.tool("fetch_job", {"job_token": token})
    assert gone["isError"] and "submit" in gone["content"][0]["text"]


def test_a_kept_result_gives_its_requests_back(server):
    token = submit(server, "echo a", limits={"memory": "64Mi"})
    fetch(server, token)

    def allocated():
        pod = [p for p in objects("pods") if token in p["metadata"]["name"]][0]
        main = [c for c in pod["status"]["containerStatuses"]
                if c["name"] == "main"][0]
        return main.get("allocatedResources") == {"cpu": "1m", "memory": "1Mi"}
    eventually("requests of 1m and 1Mi", allocated)
    assert fetch(server, token)["stdout"] == "a\n"
    ask(server, "cancel_job", job_token=token)


def test_cancel_leaves_no_pod(server):
    long = forever()
    token = submit(server, f"echo a; echo b >f; sleep {long}")
    eventually("its output", lambda: sleeping(long))
    r = ask(server, "cancel_job", job_token=token)
    assert r["status"] == "cancelled"
    assert outcome(r["result"]) == ("error", "cancelled", -1)
    assert r["result"]["stdout"] == "a\n"
    assert [a["name"] for a in r["result"]["artifacts"]] == ["f"]
    assert not [p for p in objects("pods") if token in p["metadata"]["name"]]


def test_a_cancelled_call_leaves_nothing(server):
    id = server.request("tools/call", {"name": "run_job", "arguments":
                                       arguments("sleep 60")})
    eventually("a pod", lambda: objects("pods"))
    server.cancel(id)
    eventually("no job", lambda: not objects("jobs"))
    eventually("no pod", lambda: not objects("pods"))


def test_the_end_of_the_input_deletes_what_runs(start):
    server = start()
    server.request("tools/call", {"name": "run_job", "arguments":
                                  arguments("sleep 60")})
    eventually("a pod", lambda: objects("pods"))
    server.close()
    eventually("no pod", lambda: not objects("pods"))


def test_output_is_whole_whatever_the_log_keeps(server):
    """30 MB, of which the first MiB is inline and all of it can be read.
    users.md 33"""
    token = submit(server, "yes 0123456789abcde | head -c 30000000")
    r = fetch(server, token)
    assert outcome(r) == ("succeeded", "", 0)
    assert len(r["stdout"]) == 1 << 20 and r["truncated"]["stdout"]
    part = ask(server, "fetch_job", job_token=token, stream="stdout",
               offset=29999984, length=100)
    assert part["size"] == 30000000
    assert base64.b64decode(part["content_b64"]) == b"0123456789abcde\n"
    ask(server, "cancel_job", job_token=token)


def peak_kb(server):
    with open(f"/proc/{server.pid}/status", encoding="ascii") as f:
        return [int(x.split()[1]) for x in f if x.startswith("VmHWM")][0]


def test_100_mb_of_files_go_in(server):
    data = [os.urandom(1 << 20) * n for n in (90, 10)]
    r = run(server, "sha256sum a b", timeout_s=60, files=[
        {"path": name, "content_b64": base64.b64encode(d).decode()}
        for name, d in zip("ab", data)])
    assert r["stdout"] == "".join(
        f"{hashlib.sha256(d).hexdigest()}  {name}\n"
        for name, d in zip("ab", data))
    assert outcome(r) == ("succeeded", "", 0)
    assert SANITIZED or peak_kb(server) < 5 << 10


def test_a_file_of_100_mb_is_read_in_ranges(start):
    server = start()
    token = submit(server, "i=0; while [ $i -lt 100 ]; do i=$((i+1)); "
                   "head -c 1048568 /dev/zero; printf '%08d' $i; done >big;"
                   "echo x >small", timeout_s=60, limits={"memory": "256Mi"})
    whole = b"".join(bytes(1048568) + b"%08d" % i for i in range(1, 101))
    r = fetch(server, token)
    big, small = r["artifacts"]
    assert (big["name"], big["size"], big["truncated"]) == (
        "big", 104857600, True)
    assert big["sha256"] == hashlib.sha256(whole).hexdigest()
    assert (small["name"], small["content_b64"]) == ("small", "")
    assert r["truncated"]["artifacts"]
    reader = start()
    part = ask(reader, "fetch_job", job_token=token, path="small")
    assert base64.b64decode(part["content_b64"]) == b"x\n"
    for at in range(0, 104857600, 1 << 20):
        part = ask(reader, "fetch_job", job_token=token, path="big",
                   offset=at, length=1 << 20)
        assert base64.b64decode(part["content_b64"]) == whole[
            at:at + (1 << 20)]
    assert SANITIZED or peak_kb(reader) < 16 << 10
    ask(reader, "cancel_job", job_token=token)


@pytest.fixture(scope="module")
def repositories(tmp_path_factory):
    pki = os.path.join(kube.STATE, "pki", "kubelet-server")
    root = tmp_path_factory.mktemp("git")
    commits = gitserver.repositories(root)
    with gitserver.serve(root, pki + ".crt", pki + ".key",
                         "10.244.0.1") as host:
        yield host, commits


@pytest.fixture
def clone(start, repositories):
    """clone(repository, ref, token) is the result of a run with it."""
    host, api = repositories[0], kube.Client()
    with open(os.path.join(kube.STATE, "pki", "ca.crt"), "rb") as f:
        certificate = f.read()
    server = start(MCP_K8S_CLONE_IMAGE=GIT, MCP_K8S_CLONE_SECRET="tokens")

    def once(repository, ref, token, script="git -C repo log --oneline",
             **how):
        api.delete("secrets", "jobs", "tokens")
        api.create("secrets", {
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "tokens", "namespace": "jobs"},
            "data": gitserver.secret(host, token, certificate)})
        return run(server, script, image=GIT, clone={
            "repo_url": f"https://{host}/{repository}", "ref": ref, **how})

    yield once
    api.delete("secrets", "jobs", "tokens")


def test_a_public_repository_and_its_submodule(clone):
    r = clone("public-outer", "main", None, "cat repo/file repo/lib/file; "
              "git -C repo status --short; id -u", submodules=True)
    assert outcome(r) == ("succeeded", "", 0), r
    assert r["stdout"] == "public-outer 2\npublic 1\n1000\n"


def test_a_private_repository_at_a_commit(clone, repositories):
    commit = repositories[1]["private"][0]
    r = clone("private", commit, gitserver.TOKEN, "cat repo/file; "
              f"grep -rF '{gitserver.TOKEN}' . /proc/self/environ; "
              "ls /git-creds", depth=1)
    assert outcome(r) == ("failed", "", 1), r
    assert r["stdout"] == "private 0\n"


def test_a_private_repository_without_its_token(clone):
    r = clone("private", "main", None)
    assert outcome(r) == ("error", "clone_failed", -1)
    assert "no token for 10.244.0.1" in r["message"]


def test_a_missing_cache_stops_the_start(start):
    server = start(MCP_K8S_CACHE_PVC="nowhere",
                   MCP_K8S_CACHE_MOUNT_PATH="/cache")
    assert server.wait() == 78
    assert "'nowhere'" in server.stderr


def commands_at_once(over, found):
    """As a watch of the pods tells it, the most commands that ran."""
    running = set()
    for kind, pod in kube.Client().watch("pods", namespace="jobs"):
        if over.is_set():
            return
        if kind == "SYNCED":
            continue
        name = pod["metadata"]["name"]
        running.discard(name)
        if kind != "DELETED" and [
                c for c in pod["status"].get("containerStatuses", [])
                if c["name"] == "main" and "running" in c["state"]]:
            running.add(name)
        found.append(len(running))


def most_at_once(times):
    """Of pairs of begin and end."""
    turns = sorted(x for a, b in times for x in ((a, 1), (b, -1)))
    return max(sum(n for _, n in turns[:i + 1]) for i in range(len(turns)))


def test_the_limit_holds_over_servers(start):
    """20 runs, of which five at once may be, by three servers."""
    servers = [start(MCP_K8S_MAX_CONCURRENT="5") for _ in range(3)]
    found, over = [], threading.Event()
    watcher = threading.Thread(target=commands_at_once, args=(over, found),
                               daemon=True)
    watcher.start()
    script = "cat /proc/uptime; sleep 1; cat /proc/uptime"
    ids = [(servers[i % 3], servers[i % 3].request("tools/call", {
        "name": "run_job", "arguments": arguments(script, timeout_s=120)}))
        for i in range(20)]
    times = []
    for server, id in ids:
        r = server.reply(id, 240)["result"]["structuredContent"]
        assert outcome(r) == ("succeeded", "", 0)
        times.append([float(x.split()[0]) for x in r["stdout"].splitlines()])
    over.set()
    assert 2 <= most_at_once(times) <= 5
    assert max(found) <= 5


def test_over_the_limit_submit_is_refused(start):
    server = start(MCP_K8S_MAX_CONCURRENT="1")
    token = submit(server, "sleep 60")
    r = server.tool("submit_job", arguments("true"), timeout=60)
    assert r["isError"] and "1 jobs are running" in r["content"][0]["text"]
    ask(server, "cancel_job", job_token=token)
