# SPDX-License-Identifier: Apache-2.0
"""The image and the manifests of deploy/ on a real Kubernetes: the image is
imported into containerd, the manifests are applied, and the three families are
used through the Service's pod by the real client.  All of it goes again."""

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import uuid

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import kube
from support import eventually

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.dirname(HERE))

from program import BINARY, Program, clean_environment          # noqa: E402

PODS = "mcp-sandbox-pods"
CTR = ["ctr", "-a", os.path.join(kube.STATE, "run/containerd.sock"),
       "-n", "k8s.io"]
KUBECTL = [kube.KUBECTL, "--kubeconfig", kube.ADMIN]
IMAGE = "localhost/mcp-sandbox:test"
SHELL = "localhost/busybox:1"
TOKEN = secrets.token_hex(24)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


def run(*command, **how):
    done = subprocess.run(command, capture_output=True, text=True,
                          timeout=90, **how)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def kubectl(*args, **how):
    return run(*KUBECTL, *args, **how)


@pytest.fixture(scope="module", autouse=True)
def image(tmp_path_factory):
    """Made as "make image" does, of the program under test."""
    folder = tmp_path_factory.mktemp("image")
    shutil.copy(BINARY, folder / "mcp-sandbox-amd64")
    run(os.path.join(ROOT, "tools/image"), "mcp-sandbox", "test", str(folder),
        "amd64")
    run(*CTR, "images", "import", str(folder / "mcp-sandbox.tar"))
    yield
    run(*CTR, "images", "rm", IMAGE)


# ---- a container on standard input and output

@pytest.fixture
def container(tmp_path):
    config = tmp_path / "kubeconfig"
    config.write_text(run(
        kube.KUBECTL, "--kubeconfig", os.path.join(
            kube.STATE, "mcp.kubeconfig"), "config", "view", "--raw",
        "--flatten"))
    os.chown(config, 65532, 65532)
    tmp_path.chmod(0o755)
    name = "test-" + uuid.uuid4().hex[:12]
    program = Program(
        "-a", CTR[2], "-n", "k8s.io", "run", "--rm", "--read-only",
        "--seccomp", "--net-host", "--mount",
        f"type=bind,src={config},dst=/kubeconfig,options=rbind:ro",
        "--env", "MCP_SANDBOX_KUBECONFIG=/kubeconfig", IMAGE, name,
        env=clean_environment(), binary="/usr/bin/ctr")
    program.name = name
    yield program
    program.dispose()
    assert name not in run(*CTR, "containers", "ls", "-q")


def test_a_container_answers_and_ends_with_its_input(container):
    tools = container.ask("tools/list")["result"]["tools"]
    assert {"create_sandbox", "bash"} <= {t["name"] for t in tools}
    listed = container.tool("list_sandboxes", {"namespace": "sandboxes"})
    assert not listed["isError"], listed
    assert container.close() == 0, container.stderr


def test_a_container_ends_on_sigterm_though_it_is_process_1(container):
    container.ask("tools/list")
    row, = [r.split() for r in run(*CTR, "tasks", "ls").splitlines()
            if r.startswith(container.name)]
    with open(f"/proc/{row[1]}/status", encoding="ascii") as f:
        status = f.read()
    assert "\nNSpid:\t%s\t1\n" % row[1] in status
    assert "\nUid:\t65532\t65532\t65532\t65532\n" in status
    run(*CTR, "tasks", "kill", "-s", "SIGTERM", container.name)
    assert container.wait() == 0, container.stderr


# ---- the manifests

OVERLAY = """
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [%(deploy)s, pool.yaml]
images: [{name: localhost/mcp-sandbox, newTag: test}]
configMapGenerator:
- name: mcp-sandbox
  namespace: mcp-sandbox
  behavior: merge
  literals:
  - MCP_SANDBOX_IMAGE=%(shell)s
  - MCP_SANDBOX_INIT_IMAGE=%(shell)s
  - MCP_SANDBOX_CPU_REQUEST=5m
  - MCP_SANDBOX_MEMORY_REQUEST=16Mi
  - MCP_K8S_ALLOWED_IMAGES=%(shell)s
  - MCP_K8S_SIDECAR_IMAGE=%(shell)s
  - MCP_K8S_DEFAULT_CPU=20m
  - MCP_K8S_DEFAULT_MEMORY=16Mi
  # There is no Service address here (README.md): the API server's own.
  - KUBERNETES_SERVICE_HOST=%(host)s
  - KUBERNETES_SERVICE_PORT=%(port)s
secretGenerator:
- name: mcp-sandbox
  namespace: mcp-sandbox
  options: {disableNameSuffixHash: true}
  literals:
  - auth-tokens=test %(token)s namespaces=mcp-sandbox-pods session=*
  - state-key=%(key)s
"""


def folder_of(tmp, overlay, api):
    """A kustomization of the tests' own on top of one of deploy/."""
    folder = tmp / overlay
    folder.mkdir()
    deploy = os.path.join(ROOT, "deploy/overlays", overlay)
    (folder / "kustomization.yaml").write_text(OVERLAY % {
        "deploy": os.path.relpath(deploy, folder), "shell": SHELL,
        "host": api.host, "port": api.port, "token": TOKEN,
        "key": secrets.token_hex(32)})
    with open(os.path.join(HERE, "objects.yaml"), encoding="utf-8") as f:
        good = f.read().split("---\n")[:2]
    (folder / "pool.yaml").write_text("---\n".join(good).replace(
        "namespace: sandboxes", f"namespace: {PODS}").replace(
        "replicas: 2", "replicas: 1"))
    return str(folder)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    tmp = tmp_path_factory.mktemp("deploy")
    api = kube.Client()
    folder = folder_of(tmp, "all", api)
    try:
        kubectl("apply", "-k", folder)
        kubectl("-n", "mcp-sandbox", "rollout", "status", "--timeout=60s",
                "deploy/mcp-sandbox")
        yield tmp
    finally:
        kubectl("delete", "-k", folder, "--ignore-not-found", "--wait=false")
        eventually("the namespaces are gone", lambda: not [
            n for n in kubectl("get", "ns", "-o", "name").split()
            if n.startswith("namespace/mcp-sandbox")], 90)


@pytest.fixture
def url(deployed):
    """As kube-proxy would choose it: an endpoint of the Service."""
    def ready():
        return kubectl(
            "-n", "mcp-sandbox", "get", "endpointslices", "-l",
            "kubernetes.io/service-name=mcp-sandbox", "-o", "jsonpath="
            "{.items[*].endpoints[?(@.conditions.ready==true)].addresses[0]}"
            ":{.items[*].ports[?(@.name=='http')].port}")
    address = eventually("an endpoint", lambda: ready().strip(":") and ready())
    return f"http://{address}"


@contextlib.asynccontextmanager
async def client(url, **headers):
    headers["Authorization"] = f"Bearer {TOKEN}"
    async with httpx2.AsyncClient(headers=headers, timeout=90) as http:
        async with Client(streamable_http_client(
                url + "/mcp", http_client=http)) as c:
            yield c


async def call(c, name, **args):
    r = await c.call_tool(name, args)
    assert not r.is_error, r.content
    return r.structured_content


async def test_the_three_families_through_the_services_pod(url):
    async with client(url, **{"X-Session-ID": "deploy"}) as c:
        claim = (await call(c, "create_sandbox", warmpool="warm",
                            namespace=PODS))["sandbox_claim_name"]
        r = await call(c, "execute_command", sandbox_claim_name=claim,
                       namespace=PODS, command="id -u; exit 3")
        assert (r["exit_code"], r["stdout"]) == (3, "1000\n")
        await call(c, "delete_sandbox", sandbox_claim_name=claim,
                   namespace=PODS)

        await call(c, "bash", command="cd /tmp; kept=yes")
        r = await call(c, "bash", command="pwd; echo $kept")
        assert r["stdout"] == "/tmp\nyes"

        r = await call(c, "run_job", image=SHELL,
                       command=["sh", "-c", "echo out; echo file >f"])
        assert (r["status"], r["stdout"]) == ("succeeded", "out\n")
        assert [a["name"] for a in r["artifacts"]] == ["f"]
    token = {"Authorization": f"Bearer {TOKEN}"}
    assert httpx2.delete(url + "/sessions/deploy", headers=token,
                        timeout=30).status_code == 204


async def test_nobody_calls_without_a_token_or_beyond_the_namespaces(url):
    answer = httpx2.post(url + "/mcp", json={
        "jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert answer.status_code == 401
    assert httpx2.get(url + "/healthz").status_code == 200
    async with client(url) as c:
        r = await c.call_tool("list_sandboxes", {"namespace": "sandboxes"})
        assert r.is_error and "sandboxes" in r.content[0].text


def test_gc_runs_as_the_cron_job_would(deployed):
    space = ("-n", "mcp-sandbox")
    kubectl(*space, "create", "job", "gc", "--from=cronjob/mcp-sandbox-gc")
    kubectl(*space, "wait", "--for=condition=Complete", "job/gc",
            "--timeout=60s")


@pytest.mark.parametrize("family,tool,other", [
    ("sandbox", "create_sandbox", "bash"), ("bash", "bash", "run_job"),
    ("jobs", "run_job", "bash")])
async def test_a_family_alone(deployed, family, tool, other):
    """The API server takes it, and its server offers nothing else."""
    folder = folder_of(deployed, family, kube.Client())
    kubectl("apply", "--dry-run=server", "-k", folder)
    text = kubectl("kustomize", folder)
    offered = text.split("MCP_SANDBOX_TOOLS: ")[1].split("\n")[0]
    program = Program("--tools", offered, env=clean_environment(
        KUBECONFIG=os.path.join(kube.STATE, "mcp.kubeconfig")))
    try:
        names = [t["name"] for t in program.ask("tools/list")["result"]
                 ["tools"]]
        assert tool in names and other not in names
        assert program.close() == 0
    finally:
        program.dispose()


def test_the_server_has_no_right_beyond_its_pods(deployed):
    who = "--as=system:serviceaccount:mcp-sandbox:mcp-sandbox"

    def may(*what):
        return subprocess.run([*KUBECTL, "auth", "can-i", who, *what],
                              capture_output=True).returncode == 0
    assert may("create", "pods", "-n", PODS)
    for what in (("get", "secrets", "-n", "mcp-sandbox"),
                 ("create", "pods", "-n", "mcp-sandbox"),
                 ("list", "pods", "-A"), ("get", "nodes"),
                 ("create", "rolebindings", "-n", PODS)):
        assert not may(*what), what
