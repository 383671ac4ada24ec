# SPDX-License-Identifier: Apache-2.0
"""The units are sound, and the program serves a socket that it is given."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from program import BINARY, ROOT, clean_environment

UNITS = os.path.join(ROOT, "systemd")
NAMES = ["mcp-sandbox.socket", "mcp-sandbox@.service",
         "mcp-sandbox-http.socket", "mcp-sandbox-http@.service"]
SERVICES = [n for n in NAMES if n.endswith(".service")]

pytestmark = pytest.mark.skipif(
    shutil.which("systemd-socket-activate") is None,
    reason="systemd is not installed")


@pytest.fixture
def units(tmp_path):
    """The units as installed, with a program that surely exists."""
    for name in NAMES:
        with open(os.path.join(UNITS, name), encoding="utf-8") as f:
            text = f.read()
        (tmp_path / name).write_text(
            text.replace("/usr/local/bin/mcp-sandbox", "/bin/true"))
    return tmp_path


def analyze(*args):
    return subprocess.run(["systemd-analyze", "--no-pager", *args],
                          capture_output=True, text=True, timeout=60)


def test_verify_has_nothing_to_say(units):
    done = analyze("verify", "--man=no", *(f"{units}/{n}" for n in NAMES))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_verify_would_see_a_mistake(units):
    with open(units / "mcp-sandbox@.service", "a", encoding="utf-8") as f:
        f.write("NoSuchDirective=yes\n")
    done = analyze("verify", "--man=no", f"{units}/mcp-sandbox@.service")
    assert "NoSuchDirective" in done.stderr


@pytest.mark.parametrize("service", SERVICES)
def test_exposure_is_low(units, service):
    done = analyze("security", "--offline=true", "--threshold=15",
                   f"{units}/{service}")
    assert done.returncode == 0, done.stdout


def unit(name):
    """The lines of a unit that set something, as pairs."""
    with open(os.path.join(UNITS, name), encoding="utf-8") as f:
        return [tuple(line.rstrip("\n").split("=", 1)) for line in f
                if "=" in line and line[0] not in "#;"]


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_the_kubeconfig_as_a_credential(service):
    lines = unit(service)
    assert ("LoadCredential", "kubeconfig:/etc/mcp-sandbox/kubeconfig") in \
        lines
    assert ("StandardInput", "socket") in lines
    assert ("StandardError", "journal") in lines
    http = dict(lines)["ExecStart"].endswith(" --http")
    assert http == ("http" in service)


@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith(".socket")])
def test_a_socket_bounds_connections_of_one_and_of_all(name):
    lines = dict(unit(name))
    assert lines["Accept"] == "yes"
    assert 0 < int(lines["MaxConnectionsPerSource"]) < \
        int(lines["MaxConnections"])


def test_the_figure_in_the_readme_is_what_systemd_says(units):
    with open(os.path.join(UNITS, "README.md"), encoding="utf-8") as f:
        said = re.search(r"systemd (\d+) rates the service ([\d.]+)", f.read())
    have = subprocess.run(["systemctl", "--version"], capture_output=True,
                          text=True, check=True).stdout.split()[1]
    if have != said[1]:
        pytest.skip(f"rated by systemd {said[1]}, this is {have}")
    for service in SERVICES:
        done = analyze("security", "--offline=true", f"{units}/{service}")
        assert re.search(rf"Overall exposure level .*: {said[2]} ",
                         done.stdout), done.stdout


def test_the_examples_for_xinetd_are_lines_and_http():
    with open(os.path.join(UNITS, "README.md"), encoding="utf-8") as f:
        found = re.findall(r"service (\S+)\n    \{\n(.*?)\n    \}", f.read(),
                           re.S)
    services = {name: dict(re.findall(r"(\w+) += (.*)", body))
                for name, body in found}
    assert set(services) == {"mcp-sandbox", "mcp-sandbox-http"}
    for one in services.values():
        assert (one["bind"], one["wait"], one["socket_type"]) == \
            ("127.0.0.1", "no", "stream")
        assert int(one["per_source"]) < int(one["instances"])
    assert services["mcp-sandbox-http"]["server_args"] == "--http"


class Activated:
    """systemd-socket-activate, and connections to what it starts."""

    def __init__(self, path, *args, env):
        self.path = str(path)
        names = [f"--setenv={n}" for n in env
                 if n.startswith(("K8S_", "MCP_", "KUBE", "CREDENTIALS"))]
        self.log = open(f"{self.path}.log", "w+b")
        self.process = subprocess.Popen(
            ["systemd-socket-activate", "--inetd", "-a", "-l", self.path,
             *names, BINARY, *args], env=env, stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=self.log, start_new_session=True)

    def connect(self):
        until = time.monotonic() + 30
        while True:
            try:
                s = socket.socket(socket.AF_UNIX)
                s.settimeout(60)
                s.connect(self.path)
                return s, s.makefile("rb")
            except (FileNotFoundError, ConnectionRefusedError):
                s.close()
                assert time.monotonic() < until, self.errors()
                time.sleep(0.02)

    def errors(self):
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace")

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
        self.process.wait(30)
        self.log.close()


@pytest.fixture
def activated(standin, tmp_path):
    if not os.path.exists(BINARY):
        pytest.fail(f"{BINARY} is not there: run make first")
    running = []

    def begin(*args, **env):
        path = tmp_path / f"mcp{len(running)}.sock"
        running.append(Activated(path, *args, env=clean_environment(**env)))
        return running[-1]

    yield begin
    for one in running:
        one.close()


def initialize(connection, ident):
    s, lines = connection
    s.sendall(json.dumps({
        "jsonrpc": "2.0", "id": ident, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {},
                   "clientInfo": {"name": "test", "version": "1"}},
    }).encode() + b"\n")
    return json.loads(lines.readline())


def test_each_connection_gets_a_process(standin, activated):
    server = activated(KUBECONFIG=standin.kubeconfig)
    connections = [server.connect() for _ in range(3)]
    for ident, connection in enumerate(connections):
        reply = initialize(connection, ident)
        assert reply["id"] == ident, server.errors()
        assert "serverInfo" in reply["result"]
    # The end of one is its own.
    s, lines = connections.pop(0)
    s.shutdown(socket.SHUT_WR)
    assert lines.read() == b""
    assert initialize(connections[0], 7)["id"] == 7
    for s, lines in connections:
        s.close()


def test_the_kubeconfig_may_be_a_credential(standin, activated, tmp_path):
    folder = tmp_path / "credentials"
    folder.mkdir()
    shutil.copy(standin.kubeconfig, folder / "kubeconfig")
    server = activated(CREDENTIALS_DIRECTORY=str(folder),
                       KUBECONFIG="/nowhere/else")
    assert initialize(server.connect(), 1)["id"] == 1, server.errors()


def test_a_server_that_cannot_start_says_nothing_on_the_socket(activated):
    server = activated(KUBECONFIG="/nowhere/kubeconfig")
    s, lines = server.connect()
    assert lines.read() == b""
    assert "/nowhere/kubeconfig" in server.errors()
