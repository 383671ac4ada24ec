# SPDX-License-Identifier: Apache-2.0
"""Credential plugins (exec) and impersonation, users.md 62 and 63."""

import base64
import datetime
import json
import os
import signal
import subprocess
import time

import pytest

from blackbox import NS, Box, failure, success
from program import BINARY, clean_environment
from standin.client import wait_for
from test_http import serve  # noqa: F401 (a fixture)
from web import tool

LIST = ("list_sandboxes", {"namespace": NS})
API = "client.authentication.k8s.io/"


def in_seconds(seconds):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(
        seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Plugin:
    """A script that counts its runs and then does what it is told."""

    def __init__(self, folder, standin):
        self.folder = folder
        self.standin = standin
        self.command = folder / "plugin"
        self.command.write_text(
            "#!/bin/sh\nhere=${0%/*}\necho $$ >>\"$here/runs\"\n"
            'printf "%s\\n" "$KUBERNETES_EXEC_INFO" >"$here/info"\n'
            '. "$here/do"\n')
        self.command.chmod(0o755)

    def does(self, script):
        new = self.folder / "do.new"
        new.write_text(script + "\n")
        new.rename(self.folder / "do")

    def gives(self, version="v1", **status):
        text = json.dumps({"kind": "ExecCredential",
                           "apiVersion": API + version, "status": status})
        self.does(f"cat <<'end'\n{text}\nend")

    def gives_token(self, token, known=True, **status):
        self.standin.config(tokens={token: "admin" if known else None})
        self.gives(token=token, **status)

    @property
    def runs(self):
        path = self.folder / "runs"
        return path.read_text().split() if path.exists() else []

    @property
    def info(self):
        return json.loads((self.folder / "info").read_text())

    def kubeconfig(self, cluster=None, **exec):
        user = {"exec": {"apiVersion": API + "v1", "command": str(
            self.command), "interactiveMode": "Never", **exec}}
        return self.standin.make_kubeconfig("plugin", user=user,
                                            cluster=cluster or {})


@pytest.fixture
def plugin(standin, tmp_path):
    plugin = Plugin(tmp_path, standin)
    yield plugin
    standin.config(tokens={f"token-{n}": None for n in range(5)})


def once(kubeconfig, *args, **env):
    return subprocess.run([BINARY, *args], input=b"", capture_output=True,
                          env=clean_environment(KUBECONFIG=kubeconfig, **env),
                          timeout=60, check=False)


def works(program):
    success(program.tool(*LIST))


def refused(done, status, *words):
    text = done.stderr.decode()
    assert done.returncode == status, text
    assert done.stdout == b""
    for word in words:
        assert word in text
    assert "token-1" not in text
    return text


def helpers(program):
    """The processes that the program has forked."""
    with open(f"/proc/{program.pid}/task/{program.pid}/children",
              encoding="ascii") as f:
        return [int(pid) for pid in f.read().split()]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


# --- what it gives -----------------------------------------------------------

@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_token_of_a_plugin_works(standin, plugin, start, version):
    standin.config(tokens={"token-1": "admin"})
    plugin.gives(version, token="token-1")
    program = start(kubeconfig=plugin.kubeconfig(apiVersion=API + version))
    works(program)
    works(program)
    assert len(plugin.runs) == 1
    assert plugin.info == {"kind": "ExecCredential",
                           "apiVersion": API + version,
                           "spec": {"interactive": False}}


def test_it_gets_arguments_variables_and_the_cluster(standin, plugin, start):
    standin.config(tokens={"token-1": "admin"})
    plugin.gives_token("token-1")
    done = (plugin.folder / "do").read_text()
    plugin.does('echo "$1|$2|$ONE|$TWO|$HOME|$MCP_K8S_AUTH_TOKEN|$#" '
                '>"$here/seen"; read x; echo "$x<" >>"$here/seen"\n' + done)
    works(start(kubeconfig=plugin.kubeconfig(
        args=["get-token", "a b"], provideClusterInfo=True,
        env=[{"name": "ONE", "value": "1"}, {"name": "TWO", "value": "2"}],
        cluster={"extensions": [{"name": API + "exec", "extension": {
            "audience": "x", "n": 1, "list": [True, None, "1"]}}]}),
        env={"TWO": "ours", "HOME": "/home/x", "MCP_K8S_AUTH_TOKEN": "s"}))
    assert (plugin.folder / "seen").read_text() == (
        "get-token|a b|1|2|/home/x||2\n<\n")
    cluster = plugin.info["spec"]["cluster"]
    assert cluster["server"] == f"https://127.0.0.1:{standin.port}"
    assert base64.b64decode(cluster["certificate-authority-data"]).startswith(
        b"-----BEGIN CERTIFICATE-----")
    assert cluster["config"] == {"audience": "x", "n": 1,
                                 "list": [True, None, "1"]}


def test_a_command_is_found_beside_the_kubeconfig_or_in_the_path(
        standin, plugin, start):
    plugin.gives_token("token-1")
    kubeconfig = plugin.kubeconfig(command="./plugin")
    beside = plugin.folder / "config"
    with open(kubeconfig, encoding="utf-8") as f:
        beside.write_text(f.read())
    beside.chmod(0o600)
    works(start(kubeconfig=str(beside), cwd="/"))
    works(start(kubeconfig=plugin.kubeconfig(command="plugin"), env={
        "PATH": f"{plugin.folder}:{os.environ['PATH']}"}))


def test_a_client_certificate_of_a_plugin_works(standin, plugin, start):
    def pair(name):
        path = os.path.join(os.path.dirname(standin.kubeconfig), "pki", name)
        return {"clientCertificateData": open(path + ".crt").read(),
                "clientKeyData": open(path + ".key").read()}

    standin.pool(runtime="none")
    standin.make_kubeconfig("rsa", user="client-rsa")
    plugin.gives(**pair("client-ec"), expirationTimestamp=in_seconds(8))
    program = start(kubeconfig=plugin.kubeconfig())
    box = Box(standin, program)
    assert box.run("echo x")["stdout"] == "x\n"
    # The next one is another, and new connections have it.
    plugin.gives(**pair("client-rsa"))
    wait_for(lambda: (works(program), len(plugin.runs) == 2)[1], "a renewal")
    works(program)
    assert box.run("echo y")["stdout"] == "y\n"


# --- renewal -----------------------------------------------------------------

def test_a_token_is_renewed_before_it_ends(standin, plugin, start):
    plugin.gives_token("token-1", expirationTimestamp=in_seconds(8))
    program = start(kubeconfig=plugin.kubeconfig())
    works(program)
    plugin.gives_token("token-2")
    wait_for(lambda: (works(program), len(plugin.runs) == 2)[1], "a renewal")
    standin.config(tokens={"token-1": None})
    works(program)
    assert len(plugin.runs) == 2
    assert all(r["status"] != 401 for r in standin.requests()
               if "status" in r)


def test_after_its_end_a_request_waits_for_the_new_one(
        standin, plugin, start):
    end = time.time() + 5
    plugin.gives_token("token-1", expirationTimestamp=in_seconds(4))
    program = start(kubeconfig=plugin.kubeconfig())
    works(program)
    standin.config(tokens={"token-1": None, "token-2": "admin"})
    plugin.gives_token("token-2")
    plugin.does("sleep 0.5\n" + (plugin.folder / "do").read_text())
    time.sleep(max(0, end - time.time()))
    ids = [program.request("tools/call", {"name": LIST[0],
                                          "arguments": LIST[1]})
           for _ in range(3)]
    assert len(program.ask("tools/list")["result"]["tools"]) > 0
    for id in ids:
        success(program.reply(id)["result"])
    assert len(plugin.runs) == 2


def test_after_401_it_is_run_once_more(standin, plugin, start):
    standin.pool(runtime="none")
    plugin.gives_token("token-1")
    program = start(kubeconfig=plugin.kubeconfig())
    box = Box(standin, program)
    standin.config(tokens={"token-1": None})
    plugin.gives_token("token-2")
    works(program)
    assert len(plugin.runs) == 2
    # A stream finds out by itself.
    standin.config(tokens={"token-2": None})
    plugin.gives_token("token-3")
    assert box.run("echo x")["stdout"] == "x\n"
    assert len(plugin.runs) == 3
    # Once, though it does not help.
    standin.config(tokens={"token-3": None})
    assert "not accepted" in failure(program.tool(*LIST))
    assert len(plugin.runs) == 4


def test_a_renewal_that_fails_is_told_and_tried_again(
        standin, plugin, start):
    plugin.gives_token("token-1")
    program = start(kubeconfig=plugin.kubeconfig())
    works(program)
    standin.config(tokens={"token-1": None})
    plugin.does("echo no session >&2; exit 3")
    words = failure(program.tool(*LIST))
    assert f"credential plugin {plugin.command}: exit status 3" in words
    assert 'user "user"' in words
    wait_for(lambda: "no session" in program.stderr, "its words in the log")
    plugin.gives_token("token-2")
    wait_for(lambda: not program.tool(*LIST)["isError"], "a new try")


# --- what goes wrong ---------------------------------------------------------

FAILURES = {
    "fails": ("echo token: none >&2; exit 7", 69, "exit status 7"),
    "is killed": ("kill -9 $$", 69, "ended by signal 9"),
    "garbage": ("echo token-1", 78, "its output is not JSON"),
    "nothing": (":", 78, "its output is not JSON"),
    "another kind": ("echo '{\"kind\":\"Pod\"}'", 78, "no ExecCredential"),
    "floods": ("exec yes token-1", 69, "more than 262144 bytes"),
    "floods errors": ("yes x | head -c 1000000 >&2; exit 1", 69,
                      "exit status 1"),
}


@pytest.mark.parametrize("what", FAILURES)
def test_a_plugin_that_fails_stops_the_start(plugin, what):
    script, status, words = FAILURES[what]
    plugin.does(script)
    text = refused(once(plugin.kubeconfig()), status, words,
                   f'user "user": credential plugin {plugin.command}: ')
    assert len(text) < 20000


def test_what_is_wrong_with_its_output_is_told(plugin):
    plugin.gives(token="token-1", version="v1beta1")
    refused(once(plugin.kubeconfig()), 78, API + "v1, it printed")
    plugin.gives()
    refused(once(plugin.kubeconfig()), 78, "neither a token nor")
    plugin.gives(token="token-1\r\nX: y")
    refused(once(plugin.kubeconfig()), 78, "status.token: a token has no")
    plugin.gives(token="token-1", expirationTimestamp="soon")
    refused(once(plugin.kubeconfig()), 78, "expirationTimestamp is no time")
    plugin.gives(token="token-1", expirationTimestamp=in_seconds(-5))
    refused(once(plugin.kubeconfig()), 69, "has expired already")


def test_a_missing_plugin_is_told_with_its_hint(plugin):
    refused(once(plugin.kubeconfig(command="no-such-plugin",
                                   installHint="see\nexample.org")), 78,
            "credential plugin no-such-plugin: can't be run: No such file or "
            "directory: see example.org")
    plugin.command.chmod(0o644)
    text = refused(once(plugin.kubeconfig(installHint="see example.org")), 78,
                   f"{plugin.command}: can't be run: Permission denied")
    assert "example.org" not in text


def test_its_errors_are_lines_without_control_characters(plugin, standin):
    plugin.does(r"printf 'a\033[31mb\r\nc\200\000d' >&2; exit 1")
    text = once(plugin.kubeconfig()).stderr
    assert b"\033" not in text and b"\0" not in text and b"\r" not in text
    text.decode()
    assert b": a [31mb" in text


def test_one_that_hangs_ends_with_the_program(plugin, start):
    plugin.does('sleep 600 & echo $! >"$here/sleeper"; wait')
    program = start(kubeconfig=plugin.kubeconfig())
    path = plugin.folder / "sleeper"
    sleeper = int(wait_for(lambda: path.exists() and path.read_text(),
                           "a run"))
    mine = [int(plugin.runs[0]), sleeper, *helpers(program)]
    assert len(mine) == 3 and all(alive(p) for p in mine)
    program.kill()
    wait_for(lambda: not any(alive(p) for p in mine), "their end")


def test_the_helper_has_nothing_of_ours(plugin, start):
    plugin.gives_token("token-1")
    program = start(kubeconfig=plugin.kubeconfig())
    works(program)
    helper, = helpers(program)
    links = {os.readlink(f"/proc/{helper}/fd/{fd}")
             for fd in ("0", "1")}
    assert links == {"/dev/null"}
    fds = os.listdir(f"/proc/{helper}/fd")
    assert len(fds) <= 6, fds
    # A signal for all of us leaves it to us to finish.
    os.kill(helper, signal.SIGTERM)
    os.kill(helper, signal.SIGINT)
    time.sleep(0.1)
    assert alive(helper)
    assert program.close() == 0
    wait_for(lambda: not alive(helper), "its end")


def test_a_helper_that_is_gone_is_told(standin, plugin, start):
    plugin.gives_token("token-1")
    program = start(kubeconfig=plugin.kubeconfig())
    works(program)
    for pid in helpers(program):
        os.kill(pid, signal.SIGKILL)
    works(program)
    standin.config(tokens={"token-1": None})
    assert "start anew" in failure(program.tool(*LIST))


def test_no_plugin_no_helper(start):
    program = start()
    works(program)
    assert helpers(program) == []


def test_connections_of_serve_share_one_helper(
        standin, plugin, serve):  # noqa: F811
    plugin.gives_token("token-1", expirationTimestamp=in_seconds(3600))
    server = serve(kubeconfig=plugin.kubeconfig())
    first, second = server.connect(), server.connect()
    for connection in first, second:
        success(connection.ask(tool(*LIST)).json()["result"])
    assert len(plugin.runs) == 1
    standin.config(tokens={"token-1": None})
    plugin.gives_token("token-2")
    for connection in first, second, server.connect():
        success(connection.ask(tool(*LIST)).json()["result"])
    assert len(plugin.runs) == 2


# --- as somebody else --------------------------------------------------------

def test_impersonation_goes_with_requests_and_streams(
        standin, plugin, start):
    standin.pool(runtime="none")
    token = next(t for t, u in standin.tokens.items() if u == "admin") \
        if "admin" in standin.tokens.values() else standin.tokens["admin"]
    program = start(kubeconfig=standin.make_kubeconfig("as", user={
        "token": token, "as": "jane", "as-uid": "7", "as-groups": ["a", "b"],
        "as-user-extra": {"Scope/x": ["1"]}}))
    box = Box(standin, program)
    assert box.run("echo x")["stdout"] == "x\n"
    seen = standin.requests()
    assert any("/exec?" in r["path"] for r in seen)
    for r in seen:
        fields = {k: v for k, v in r["headers"].items()
                  if k.startswith("impersonate")}
        assert fields == {
            "impersonate-user": "jane", "impersonate-uid": "7",
            "impersonate-group": "a, b",
            "impersonate-extra-scope%2fx": "1"}, r["path"]
