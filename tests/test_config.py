# SPDX-License-Identifier: Apache-2.0
"""Settings, kubeconfig files and what the program says of itself; the exit
status of a start that fails, and its one line that says why."""

import base64
import copy
import http.server
import json
import os
import re
import select
import shutil
import socket
import subprocess
import threading

import pytest
import yaml

from blackbox import NS, Box, create, failure, success
from program import BINARY, ROOT, clean_environment

LIST = ("list_sandboxes", {"namespace": NS})


def once(*args, cwd=None, **env):
    """The program with no input at all."""
    return subprocess.run([BINARY, *args], input=b"", capture_output=True,
                          env=clean_environment(**env), cwd=cwd, timeout=60,
                          check=False)


def refused(done, status, *words):
    """One line on stderr and nothing else."""
    text = done.stderr.decode()
    assert done.returncode == status, text
    assert done.stdout == b""
    assert text.count("\n") == 1 and text.endswith("\n"), text
    for word in words:
        assert word in text
    return text


# Words of its own

def test_help_fits_a_terminal_and_names_every_common_option():
    done = once("--help")
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0 and done.stderr == b""
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    for option in "--kubeconfig", "--tools", "--namespaces", "--version":
        assert option in done.stdout.decode()
    assert once("-h").stdout == done.stdout


def test_the_version_is_that_of_the_file():
    with open(os.path.join(ROOT, "VERSION"), encoding="ascii") as f:
        version = f.read().strip()
    done = once("--version")
    assert done.stdout.decode() == f"mcp-sandbox {version}\n"
    more = once("-vV").stdout.decode().splitlines()
    assert more[0] == f"mcp-sandbox {version}"
    for word in ("libcurl/", "mbedTLS/", "nghttp2/"):
        assert word in more[1]
    assert once("-V").stdout == done.stdout and done.returncode == 0


# Files of settings

def test_a_file_sets_what_nothing_else_does(tmp_path, standin):
    own = tmp_path / "mcp-sandbox"
    own.mkdir()
    (own / "config").write_text(
        f"# ours\nkubeconfig = {standin.kubeconfig}\ntools=bash\n")
    env = clean_environment(XDG_CONFIG_HOME=str(tmp_path))
    del env["MCP_SANDBOX_CONFIG"]

    def names(*args, **more):
        done = subprocess.run([BINARY, *args, "tools"], env={**env, **more},
                              capture_output=True, check=True, timeout=60)
        return [t["name"] for t in json.loads(done.stdout)["tools"]]
    assert names() == ["bash", "bash_output"]
    assert names("--tools", "stat_file") == ["stat_file"]
    assert names(MCP_SANDBOX_TOOLS="list_files") == ["list_files"]
    other = tmp_path / "other"
    other.write_text("tools = move_file")
    assert names(MCP_SANDBOX_CONFIG=str(other)) == ["move_file"]
    assert len(names(MCP_SANDBOX_CONFIG="")) > 2


def test_a_file_that_is_wrong_is_named_with_its_line(tmp_path):
    path = tmp_path / "config"
    path.write_text("verbose = true\nno-such = 1\n")
    refused(once(MCP_SANDBOX_CONFIG=str(path)), 78, f"{path}:2:", "no-such")
    refused(once(MCP_SANDBOX_CONFIG=str(tmp_path / "none")), 78, "none")
    path.write_bytes(b"tools = bash\0\n")
    refused(once(MCP_SANDBOX_CONFIG=str(path)), 78, str(path))


# Settings

@pytest.mark.parametrize("args, word", [
    (["--no-such"], "--no-such"), (["-z"], "-z"),
    (["--kubeconfig"], "--kubeconfig"), (["-k"], "--kubeconfig"),
    (["no-such-command"], "no-such-command"),
    (["--session-id", ""], "--session-id"),
    (["--verbose=maybe"], "true or false"),
    (["--server-port", "70000"], "65535"),
    (["--connection", "Tunnel"], "tunnel"), (["a", "b"], "")])
def test_a_bad_option_is_named_and_the_status_is_64(args, word):
    refused(once(*args), 64, word)


@pytest.mark.parametrize("name, value, words", [
    ("K8S_SANDBOX_CONNECTION__TYPE", "x", ["auto, tunnel, exec"]),
    ("K8S_SANDBOX_CONNECTION__SERVER_PORT", "0", ["1 to 65535"]),
    ("K8S_SANDBOX_CONNECTION__SERVER_PORT", "", ["1 to 65535"]),
    ("K8S_SANDBOX_CONNECTION__SERVER_PORT", "8.5", ["8.5"]),
    ("K8S_SANDBOX_CONNECTION__SERVER_PORT", "abc", ["abc"]),
    ("K8S_SANDBOX_CONNECTION__GRPC_PORT", "65536", ["65535"]),
    ("K8S_SANDBOX_SESSION_ID_LABEL_KEY", "a b", ["a b", "label key"]),
    ("MCP_SANDBOX_SESSION_ID", "-x", ["-x", "label value"]),
    ("MCP_SANDBOX_SESSION_ID", "x" * 64, ["63"]),
    ("MCP_SANDBOX_UNSCHEDULABLE_AFTER", "-1", ["0 to 3600"]),
    ("MCP_SANDBOX_VERBOSE", "maybe", ["true or false"])])
def test_a_bad_setting_is_named_with_what_is_allowed_and_the_status_is_78(
        standin, name, value, words):
    refused(once(KUBECONFIG=standin.kubeconfig, **{name: value}), 78, name,
            *words)


def test_tools_that_nobody_has_are_refused_with_those_there_are(standin):
    refused(once("--tools", "nope", KUBECONFIG=standin.kubeconfig), 78,
            "nope", "agent-sandbox")


@pytest.mark.parametrize("name, value", [
    ("K8S_SANDBOX_CONNECTION__SERVER_PORT", " 80 "),
    ("K8S_SANDBOX_CONNECTION__SERVER_PORT", "80.0"),
    ("k8s_sandbox_connection__type", "exec"),
    ("MCP_SANDBOX_SESSION_ID", ""), ("MCP_SANDBOX_VERBOSE", "off")])
def test_settings_are_taken_as_the_original_takes_them(standin, name, value):
    """agent-sandbox 1.12"""
    done = once(KUBECONFIG=standin.kubeconfig, **{name: value})
    assert done.returncode == 0 and done.stderr == b""


def test_a_prefixed_name_that_nobody_reads_is_warned_of(standin):
    done = once(KUBECONFIG=standin.kubeconfig, K8S_SANDBOX_CONECTION="x")
    assert done.returncode == 0
    assert b"K8S_SANDBOX_CONECTION" in done.stderr


def test_a_flag_beats_the_environment(standin, start):
    standin.pool()
    program = start("--session-id", "flag",
                    env={"MCP_SANDBOX_SESSION_ID": "env"})
    claim = standin.claim(create(program))
    assert claim["metadata"]["labels"][
        "mcp.k8s-agent-sandbox/session-id"] == "flag"


def test_stderr_carries_priorities_for_the_journal(standin):
    done = once("-v", KUBECONFIG=standin.kubeconfig)
    assert not done.stderr.startswith(b"<")
    reader, writer = os.pipe()
    about = os.fstat(writer)
    child = subprocess.run(
        [BINARY, "--no-such"], stderr=writer, stdin=subprocess.DEVNULL,
        env=clean_environment(
            JOURNAL_STREAM=f"{about.st_dev}:{about.st_ino}"), check=False)
    os.close(writer)
    text = os.read(reader, 4096).decode()
    os.close(reader)
    assert child.returncode == 64 and text.startswith("<3>")


# Where the cluster is found

@pytest.fixture
def config(standin, tmp_path):
    """config(change) writes a changed kubeconfig and returns its path."""
    with open(standin.kubeconfig, encoding="utf-8") as f:
        base = yaml.safe_load(f)

    def write(change=None, text=None, name="config", mode=0o600):
        data = copy.deepcopy(base)
        if change:
            change(data, data["clusters"][0]["cluster"], data["users"][0])
        path = tmp_path / name
        path.write_text(yaml.safe_dump(data) if text is None else text)
        path.chmod(mode)
        return str(path)

    write.data = base
    return write


def works(program):
    success(program.tool(*LIST))


@pytest.mark.parametrize("name", ["cert", "files", "token", "token-file",
                                  "limited"])
def test_every_kind_of_credentials_works(standin, start, name):
    """users.md 74"""
    works(start(kubeconfig=standin.kubeconfigs[name]))


@pytest.mark.parametrize("name, words", [
    ("bad-token", ["credentials were not accepted"]),
    ("nobody", ["cannot list", "sandboxclaims"]),
    ("anonymous", ["system:anonymous"])])
def test_what_credentials_may_not_do_is_told(standin, start, name, words):
    message = failure(start(kubeconfig=standin.kubeconfigs[name]).tool(*LIST))
    for word in words:
        assert word in message


def test_a_client_key_of_rsa_works(standin, start):
    works(start(kubeconfig=standin.make_kubeconfig("rsa",
                                                   user="client-rsa")))


def test_the_flag_the_variable_and_the_home_are_looked_at_in_this_order(
        standin, config, start, tmp_path):
    """users.md 65, 72"""
    home = tmp_path / "home" / ".kube"
    home.mkdir(parents=True)
    shutil.copy(standin.kubeconfig, home / "config")
    bad = config(text="nonsense: [", name="bad")
    works(start("-k", standin.kubeconfig, kubeconfig=bad))
    works(start("--kubeconfig=" + standin.kubeconfig,
                env={"HOME": str(home.parent)}))
    refused(once(KUBECONFIG=bad, HOME=str(home.parent)), 78, bad)
    done = once(HOME=str(home.parent))
    assert done.returncode == 0, done.stderr
    works(start(kubeconfig="/no/such:" + standin.kubeconfig))


def test_an_explicit_file_beats_the_pods_own_account(standin, start):
    """users.md 72"""
    works(start(env={"KUBERNETES_SERVICE_HOST": "192.0.2.1",
                     "KUBERNETES_SERVICE_PORT": "443"}))


def test_no_cluster_at_all_is_told_with_every_place_that_was_tried(
        tmp_path):
    refused(once(HOME=str(tmp_path)), 78, "KUBECONFIG", "~/.kube/config",
            "service account")


def test_json_is_read_as_well(config, start):
    works(start(kubeconfig=config(text=json.dumps(config.data))))


def test_files_are_found_from_where_the_config_is(standin, start, tmp_path):
    """users.md 66"""
    works(start(kubeconfig=standin.kubeconfigs["files"], cwd=tmp_path))


def test_a_context_may_be_chosen(standin, config, start):
    def two(data, _, __):
        data["contexts"].append({"name": "other", "context": {
            "cluster": "standin", "user": "gone"}})
        data["current-context"] = "other"

    path = config(two)
    refused(once(KUBECONFIG=path), 78, path, "gone")
    works(start("--context", "standin", kubeconfig=path))
    works(start(kubeconfig=path, env={"MCP_SANDBOX_CONTEXT": "standin"}))
    refused(once("-c", "third", KUBECONFIG=path), 78, "third", "standin")


def without_ca(_, cluster, __):
    del cluster["certificate-authority-data"]
    cluster["insecure-skip-tls-verify"] = True


BROKEN = {
    "no such cluster": (lambda d, c, u: d["contexts"][0]["context"].update(
        cluster="gone"), "gone"),
    "no such user": (lambda d, c, u: d["contexts"][0]["context"].update(
        user="gone"), "gone"),
    "no context": (lambda d, c, u: d.pop("current-context"),
                   "current-context"),
    "no server": (lambda d, c, u: c.pop("server"), "server"),
    "odd server": (lambda d, c, u: c.update(
        server="https://undefined:undefined"), "server"),
    "scheme": (lambda d, c, u: c.update(server="ftp://x"), "server"),
    "exec": (lambda d, c, u: u.update(user={"exec": {
        "apiVersion": "client.authentication.k8s.io/v1alpha1",
        "command": "aws"}}), "apiVersion"),
    "auth-provider": (lambda d, c, u: u.update(user={"auth-provider": {
        "name": "gcp"}}), "auth-provider"),
    "verify and skip": (lambda d, c, u: c.update(
        {"insecure-skip-tls-verify": True}), "contradict"),
    "base64": (lambda d, c, u: c.update(
        {"certificate-authority-data": "!!!"}),
        "certificate-authority-data"),
    "pem": (lambda d, c, u: c.update(
        {"certificate-authority-data": "YWJj"}), "PEM"),
    "half a pair": (lambda d, c, u: u["user"].pop("client-key-data"),
                    "client-key"),
    "no such file": (lambda d, c, u: u.update(user={
        "client-certificate": "no/such", "client-key": "no/such"}),
        "no/such"),
    "no such token": (lambda d, c, u: u.update(user={
        "tokenFile": "no/such"}), "no/such"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_wrong_in_a_kubeconfig_is_named_with_file_and_line(
        config, case):
    """users.md 62, 70, 72"""
    change, word = BROKEN[case]
    path = config(change)
    text = refused(once(KUBECONFIG=path), 78, path + ":", word)
    assert text.split(path + ":")[1].split(":")[0].isdigit()


@pytest.mark.parametrize("text", ["a: [1\nb: 2\n", "", "- a\n", "\x00",
                                  "&a [*a]", "a: " + "[" * 2000])
def test_a_file_that_is_no_kubeconfig_is_named(config, text):
    path = config(text=text)
    refused(once(KUBECONFIG=path), 78, path)


def test_a_key_of_a_kind_that_is_not_supported_is_named(
        standin, config):
    """users.md 76"""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not here")
    key = subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519"],
                         capture_output=True, text=True, check=True).stdout
    path = config(lambda d, c, u: u["user"].update(
        {"client-key-data": base64.b64encode(key.encode()).decode()}))
    refused(once(KUBECONFIG=path), 78, path, "25519")


def test_dangerous_files_are_warned_of(config, start):
    """users.md 70"""
    for path, word in (
            (config(without_ca, name="skip"), "insecure-skip-tls-verify"),
            (config(lambda d, c, u: c.update(server="http://127.0.0.1:1"),
                    name="http"), "http"),
            (config(name="world", mode=0o644), "chmod")):
        done = once(KUBECONFIG=path)
        assert done.returncode == 0
        assert path in done.stderr.decode() and word in done.stderr.decode()
    works(start(kubeconfig=config(without_ca)))


def test_a_bundle_of_many_authorities_is_searched(standin, config, start):
    """users.md 78"""
    with open(f"{standin.dir}/pki/ca.crt", "rb") as f:
        own = f.read()
    standin.listen("wrong-ca")
    with open(f"{standin.dir}/pki/other-ca.crt", "rb") as f:
        other = f.read()
    bad = (b"-----BEGIN CERTIFICATE-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n"
           b"-----END CERTIFICATE-----\n")
    for bundle in (b"a comment\n" + other * 20 + own + other,
                   other + bad + own):
        works(start(kubeconfig=config(lambda d, c, u: c.update(
            {"certificate-authority-data":
             base64.b64encode(bundle).decode()}))))
    path = config(lambda d, c, u: c.update({
        "certificate-authority-data":
        base64.b64encode(bad.replace(b"MIIB", b"????") + own).decode()}))
    assert b"authorities 1 can't be read" in once(KUBECONFIG=path).stderr
    works(start(kubeconfig=path))


def test_the_name_that_tls_asks_for_is_a_setting(standin, start):
    """users.md 73"""
    path = standin.listen("no-ip")
    message = failure(start(kubeconfig=path).tool(*LIST))
    assert "127.0.0.1" in message
    with open(path, encoding="utf-8") as f:
        server = yaml.safe_load(f)["clusters"][0]["cluster"]["server"]
    works(start(kubeconfig=standin.make_kubeconfig(
        "named", port=int(server.rsplit(":", 1)[1]),
        cluster={"tls-server-name": "localhost"})))


def test_an_ipv6_address_is_reached(standin, start):
    """users.md 71"""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    path = standin.listen("good", host="::1")
    with open(path, encoding="utf-8") as f:
        assert "[::1]" in f.read()
    works(start(kubeconfig=path))


class Connect(http.server.BaseHTTPRequestHandler):
    """An HTTP proxy of one method."""

    def do_CONNECT(self):
        self.server.seen.append((self.path, self.headers.get(
            "Proxy-Authorization")))
        host, port = self.path.rsplit(":", 1)
        with socket.create_connection((host.strip("[]"), int(port))) as far:
            self.send_response(200)
            self.end_headers()
            pair = [self.connection, far]
            while True:
                for end in select.select(pair, [], [])[0]:
                    data = end.recv(65536)
                    if not data:
                        return
                    pair[end is pair[0]].sendall(data)

    def log_message(self, *_):
        pass


def test_a_proxy_of_the_kubeconfig_carries_requests_and_streams(
        standin, config, start):
    """users.md 67, 68"""
    standin.pool(runtime="none")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0),
                                         Connect) as proxy:
        proxy.seen = []
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        program = start(kubeconfig=config(lambda d, c, u: c.update(
            {"proxy-url": f"http://127.0.0.1:{proxy.server_port}"})))
        box = Box(standin, program)
        assert box.run("echo x")["stdout"] == "x\n"
        program.dispose()
        proxy.shutdown()
    assert {path for path, _ in proxy.seen} == {f"127.0.0.1:{standin.port}"}
    assert len(proxy.seen) >= 2


def test_the_manual_has_every_option_and_no_other():
    """The completion is made from the table of settings."""
    out = once("completion", "bash").stdout.decode()
    known = set(re.findall(r" --([a-z-]+)", out))
    with open(os.path.join(ROOT, "man/mcp-sandbox.1"),
              encoding="utf-8") as f:
        told = set(re.findall(r"\bFl -([a-z][a-z-]*)", f.read()))
    assert (known - told, told - known) == (set(), set())
