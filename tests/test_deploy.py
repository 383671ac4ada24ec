# SPDX-License-Identifier: Apache-2.0
"""The container images, the manifests of deploy/ and server.json, as far as
they can be looked at without a cluster (tests/cluster/test_deploy.py)."""

import gzip
import hashlib
import io
import json
import os
import re
import struct
import subprocess
import tarfile

import pytest
import yaml

from program import ROOT

OCI = "application/vnd.oci.image."
MACHINES = ["amd64", "arm64"]
DEPLOY = os.path.join(ROOT, "deploy")


# ---- images

def make_image(folder, program="mcp-sandbox", machines=MACHINES, **env):
    for machine in machines:
        path = folder / f"{program}-{machine}"
        path.write_bytes(b"\x7fELF" + machine.encode() * 1000)
        path.chmod(0o600)
    done = subprocess.run(
        [os.path.join(ROOT, "tools/image"), program, "1.2.3", str(folder),
         *machines], env={**os.environ, **env}, capture_output=True,
        text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return (folder / f"{program}.tar").read_bytes()


class Archive:
    def __init__(self, data):
        self.tar = tarfile.open(fileobj=io.BytesIO(data))
        self.names = self.tar.getnames()

    def read(self, name):
        return self.tar.extractfile(name).read()

    def follow(self, descriptor):
        """What a descriptor is of, which must be as it says."""
        data = self.read("blobs/sha256/" + descriptor["digest"][7:])
        assert len(data) == descriptor["size"]
        assert "sha256:" + hashlib.sha256(data).hexdigest() == \
            descriptor["digest"]
        return data

    def index(self):
        outer = json.loads(self.read("index.json"))
        inner, = outer["manifests"]
        assert inner["mediaType"] == OCI + "index.v1+json"
        return inner, json.loads(self.follow(inner))

    def image(self, descriptor):
        manifest = json.loads(self.follow(descriptor))
        config = json.loads(self.follow(manifest["config"]))
        layer, = manifest["layers"]
        return manifest, config, gzip.decompress(self.follow(layer))


def test_an_image_is_one_program_for_each_machine(tmp_path):
    archive = Archive(make_image(tmp_path))
    assert json.loads(archive.read("oci-layout")) == {
        "imageLayoutVersion": "1.0.0"}
    outer, index = archive.index()
    assert outer["annotations"]["io.containerd.image.name"] == \
        "localhost/mcp-sandbox:1.2.3"
    assert [m["platform"] for m in index["manifests"]] == [
        {"architecture": m, "os": "linux"} for m in MACHINES]
    for descriptor in index["manifests"]:
        machine = descriptor["platform"]["architecture"]
        manifest, config, layer = archive.image(descriptor)
        assert (config["architecture"], config["os"]) == (machine, "linux")
        assert config["config"]["User"] == "65532:65532"
        assert config["config"]["Entrypoint"] == ["/mcp-sandbox"]
        assert config["rootfs"]["diff_ids"] == [
            "sha256:" + hashlib.sha256(layer).hexdigest()]
        files = tarfile.open(fileobj=io.BytesIO(layer))
        member, = files.getmembers()
        assert (member.name, member.mode, member.uid, member.mtime) == \
            ("mcp-sandbox", 0o755, 0, 0)
        assert files.extractfile(member).read() == \
            (tmp_path / f"mcp-sandbox-{machine}").read_bytes()


def test_nothing_is_in_an_archive_that_nothing_refers_to(tmp_path):
    archive = Archive(make_image(tmp_path))
    outer, index = archive.index()
    used = {outer["digest"]}
    for m in index["manifests"]:
        manifest = archive.image(m)[0]
        used |= {m["digest"], manifest["config"]["digest"],
                 manifest["layers"][0]["digest"]}
    assert {"sha256:" + n[13:] for n in archive.names
            if n.startswith("blobs/sha256/")} == used


def test_the_same_programs_make_the_same_archive(tmp_path):
    folders = [tmp_path / "a", tmp_path / "another-folder"]
    for folder in folders:
        folder.mkdir()
    first = make_image(folders[0], TZ="UTC", LC_ALL="C")
    assert make_image(folders[1], TZ="Asia/Tokyo", SOURCE_DATE_EPOCH="7",
                      TAR_OPTIONS="--mtime=@99") == first


def test_the_registrys_label_is_the_name_in_server_json(tmp_path):
    archive = Archive(make_image(tmp_path, OWNER="someone"))
    server = json.loads((tmp_path / "server.json").read_text())
    assert server["name"] == "io.github.someone/mcp-sandbox"
    assert server["version"] == "1.2.3"
    package, = server["packages"]
    assert package["identifier"] == "ghcr.io/someone/mcp-sandbox:1.2.3"
    for descriptor in archive.index()[1]["manifests"]:
        labels = archive.image(descriptor)[1]["config"]["Labels"]
        assert labels["io.modelcontextprotocol.server.name"] == server["name"]
        assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"


def test_the_agent_has_an_image_of_its_own(tmp_path):
    archive = Archive(make_image(tmp_path, "mcp-sandbox-agent"))
    _, config, layer = archive.image(archive.index()[1]["manifests"][1])
    assert config["config"]["Entrypoint"] == ["/mcp-sandbox-agent"]
    assert tarfile.open(fileobj=io.BytesIO(layer)).getnames() == [
        "mcp-sandbox-agent"]
    assert not any("modelcontextprotocol" in label
                   for label in config["config"]["Labels"])


def test_server_json_is_what_the_registry_takes():
    with open(os.path.join(DEPLOY, "server.json"), encoding="utf-8") as f:
        server = json.load(f)
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", server["name"])
    assert 1 <= len(server["description"]) <= 100
    package, = server["packages"]
    assert package["transport"] == {"type": "stdio"}
    for variable in package["environmentVariables"]:
        assert variable["name"] in settings(), variable


# ---- the filter of system calls that another machine's server has

CALLS = {"amd64": (0xC000003E, {"read": 0, "write": 1, "execve": 59,
                                "ptrace": 101, "fork": 57, "socket": 41,
                                "mmap": 9, "clone3": 435}),
         "arm64": (0xC00000B7, {"read": 63, "write": 64, "execve": 221,
                                "ptrace": 117, "socket": 198, "mmap": 222,
                                "clone3": 435})}
ALLOW, KILL = 0x7FFF0000, 0x80000000


def judge(program, machine, call, args=()):
    """What the kernel would say: classic BPF over struct seccomp_data."""
    args = [*args, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<IIQ6Q", call, machine, 0, *args)
    acc, at = 0, 0
    while True:
        code, jt, jf, k = program[at]
        at += 1
        if code == 0x20:
            acc, = struct.unpack_from("<I", data, k)
        elif code == 0x06:
            return k
        elif code == 0x54:
            acc &= k
        elif code == 0x05:
            at += k
        else:
            hit = {0x15: acc == k, 0x25: acc > k, 0x35: acc >= k}[code]
            at += jt if hit else jf


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_is_of_the_machine_that_is_named(machine):
    """users.md 87"""
    text = subprocess.run([os.path.join(ROOT, "build/musl/gen-bpf"), machine],
                          capture_output=True, text=True, check=True).stdout
    body = text.split("seccomp_bpf[] = {")[1].split("};")[0]
    program = [tuple(int(n, 0) for n in row.split(","))
               for row in re.findall(r"\{ (.*?) \}", body)]
    token, calls = CALLS[machine]
    assert judge(program, token, calls["read"]) == ALLOW
    assert judge(program, token, calls["write"]) == ALLOW
    assert judge(program, token, calls["socket"], [2]) == ALLOW
    assert judge(program, token, calls["socket"], [17]) != ALLOW
    assert judge(program, token, calls["mmap"], [0, 0, 3]) == ALLOW
    assert judge(program, token, calls["mmap"], [0, 0, 7]) != ALLOW
    for name in "execve", "ptrace", "clone3":
        assert judge(program, token, calls[name]) != ALLOW, name
    other = CALLS[MACHINES[machine == "amd64"]][0]
    assert judge(program, other, calls["read"]) == KILL


# ---- manifests

def settings():
    with open(os.path.join(ROOT, "man/mcp-sandbox.1"), encoding="utf-8") as f:
        text = f.read()
    return set(re.findall(r"[A-Z0-9]+_[A-Z0-9_]+", text))


def documents(path):
    with open(path, encoding="utf-8") as f:
        return [d for d in yaml.safe_load_all(f) if d]


def manifests():
    for folder, _, names in sorted(os.walk(DEPLOY)):
        for name in sorted(names):
            if name.endswith(".yaml") and name != "kustomization.yaml":
                yield from documents(os.path.join(folder, name))


def test_no_right_is_beyond_a_namespace():
    kinds = {d["kind"] for d in manifests()}
    assert {"Role", "NetworkPolicy", "HorizontalPodAutoscaler", "CronJob",
            "LimitRange", "ResourceQuota", "Service"} <= kinds
    assert not {"ClusterRole", "ClusterRoleBinding"} & kinds
    for d in manifests():
        assert d["kind"] == "Namespace" or "namespace" in d["metadata"], d
        for rule in d.get("rules", []):
            assert "*" not in rule["verbs"] + rule["resources"], d


def rules(path, name):
    found = [d for d in documents(path) if d["kind"].endswith("Role") and
             d["metadata"]["name"] == name]
    return sorted((r, v) for rule in found[0]["rules"]
                  for r in rule["resources"] for v in rule["verbs"])


@pytest.mark.parametrize("family,name,tested,theirs", [
    ("sandbox", "claims", "rbac.yaml", "mcp-sandbox"),
    ("bash", "bash", "rbac.yaml", "mcp-sandbox-bash"),
    ("jobs", "jobs", "jobs-rights.yaml", "mcp-sandbox-jobs")])
def test_a_familys_rights_are_those_it_is_tested_with(family, name, tested,
                                                     theirs):
    ours = rules(os.path.join(DEPLOY, "components", family, f"{family}.yaml"),
                 f"mcp-sandbox-{name}")
    # The Gateway is in another namespace, and only some have one.
    assert ours == [r for r in rules(os.path.join(
        ROOT, "tests/cluster", tested), theirs) if r[0] != "gateways"]


def test_every_namespace_is_restricted_and_denies_by_default():
    """users.md 49"""
    all = list(manifests())
    spaces = [d["metadata"] for d in all if d["kind"] == "Namespace"]
    assert len(spaces) == 2
    for space in spaces:
        assert space["labels"]["pod-security.kubernetes.io/enforce"] == \
            "restricted"
        deny, = [d["spec"] for d in all if d["kind"] == "NetworkPolicy" and
                 d["metadata"]["namespace"] == space["name"] and
                 d["metadata"]["name"] == "default-deny"]
        assert deny == {"podSelector": {},
                        "policyTypes": ["Ingress", "Egress"]}


def test_what_is_set_exists():
    known = settings()
    for folder, _, names in os.walk(DEPLOY):
        for name in names:
            if not name.endswith(".yaml"):
                continue
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                used = set(re.findall(r"\b(?:MCP|K8S)_[A-Z0-9_]+", f.read()))
            assert used <= known, (name, used - known)


def test_the_image_is_of_this_version():
    with open(os.path.join(ROOT, "VERSION"), encoding="ascii") as f:
        ours = "localhost/mcp-sandbox:" + f.read().strip()
    specs = [d["spec"]["template"] for d in manifests()
             if d["kind"] == "Deployment"]
    specs += [d["spec"]["jobTemplate"]["spec"]["template"]
              for d in manifests() if d["kind"] == "CronJob"]
    assert [c["image"] for s in specs for c in s["spec"]["containers"]] == \
        [ours, ours]
