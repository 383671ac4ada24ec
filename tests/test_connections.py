# SPDX-License-Identifier: Apache-2.0
"""Every way into a sandbox, for every runtime that is reached by it."""

import json
import ssl
import sys
import time
from contextlib import ExitStack
from os.path import dirname, join

import pytest

from blackbox import NS, Box, failure, success
from standin.client import Failure, wait_for

sys.path.insert(0, join(dirname(__file__), "runtime"))

from nameserver import Nameserver                               # noqa: E402
from router import Router                                       # noqa: E402

TYPE = "K8S_SANDBOX_CONNECTION__"
GATEWAYS = f"/apis/gateway.networking.k8s.io/v1/namespaces/{NS}/gateways"
PODS = {"MCP_SANDBOX_ALLOW_LOOPBACK": "true"}
IN_POD = {**PODS, "KUBERNETES_SERVICE_HOST": "10.0.0.1"}


def nothing(way):
    return {}


def router(flavour):
    def settings(way):
        return {TYPE + "API_URL": way.router(flavour).url + "/"}
    return settings


def gateway(way):
    r = way.router("python")
    way.gateway("127.0.0.1")
    return {TYPE + "GATEWAY_NAME": "front", **PODS,
            "MCP_SANDBOX_GATEWAY_PORT": str(r.port)}


def named_gateway(way):
    way.names["front.example.com"] = "127.0.0.1"
    r = way.router("go")
    way.gateway("front.example.com")
    return {TYPE + "GATEWAY_NAME": "front", **PODS, **way.nameserver(),
            "MCP_SANDBOX_GATEWAY_PORT": str(r.port)}


def by_name(way):
    return {**PODS, **way.nameserver()}


def by_service(way):
    return {**by_name(way), TYPE + "MODE": "in-cluster-service"}


def by_pod_ip(way):
    return {**PODS, TYPE + "MODE": "in-cluster-pod-ip"}


def use_pod_ip(way):
    return {**PODS, TYPE + "USE_POD_IP": "true"}


def in_pod(way):
    return IN_POD


# Type, its settings, the runtime, and what carries the command.
WAYS = [
    ("exec", nothing, "none", "exec"),
    ("exec", nothing, "sandboxd", "exec"),
    ("exec", nothing, "legacy", "exec"),
    ("tunnel", nothing, "sandboxd", "Start"),
    ("tunnel", nothing, "legacy", "/execute"),
    ("auto", nothing, "sandboxd", "Start"),
    ("auto", nothing, "legacy", "exec"),
    ("auto", nothing, "none", "exec"),
    ("auto", in_pod, "sandboxd", "Start"),
    ("auto", in_pod, "legacy", "/execute"),
    ("auto", in_pod, "none", "exec"),
    ("gateway", gateway, "legacy", "/execute"),
    ("gateway", named_gateway, "legacy", "/execute"),
    ("direct", router("python"), "legacy", "/execute"),
    ("direct", router("go"), "legacy", "/execute"),
    ("in-cluster", by_name, "legacy", "/execute"),
    ("in-cluster", by_name, "sandboxd", "Start"),
    ("in-cluster", use_pod_ip, "legacy", "/execute"),
    ("in-cluster", use_pod_ip, "sandboxd", "Start"),
    ("sandboxd-in-cluster", by_service, "sandboxd", "Start"),
    ("sandboxd-in-cluster", by_pod_ip, "sandboxd", "Start"),
]
LEGACY = ("direct", router("go"), "legacy", "/execute")


class Way:
    """What a connection type needs around it, and the program."""

    def __init__(self, standin, start, stack):
        self.standin = standin
        self.start = start
        self.stack = stack
        self.names = {}
        self.last_router = None

    def find_pod(self, sandbox, namespace=NS):
        try:
            pod = self.standin.pod(sandbox, namespace)
        except Failure:
            return {}
        return {int(there): (pod["ip"], here)
                for there, here in pod["ports"].items()}

    def find_name(self, name):
        if name in self.names:
            return self.names[name]
        sandbox, namespace, _ = name.split(".", 2)
        found = self.standin.sandbox(sandbox, namespace)
        if not found or not found["status"].get("service"):
            return None
        return found["status"]["podIPs"][0]

    def router(self, flavour="go", **how):
        self.last_router = self.stack.enter_context(
            Router(self.find_pod, flavour, **how))
        return self.last_router

    def nameserver(self):
        server = self.stack.enter_context(Nameserver(self.find_name))
        return {"MCP_SANDBOX_NAMESERVER": server.address}

    def gateway(self, *addresses):
        self.standin.call("POST", GATEWAYS, {
            "metadata": {"name": "front"},
            "spec": {"gatewayClassName": "c"}})
        if addresses:
            self.address(*addresses)

    def address(self, *addresses):
        self.standin.call("PATCH", GATEWAYS + "/front/status", {
            "status": {"addresses": [{"type": "IPAddress", "value": a}
                                     for a in addresses]}},
            "application/merge-patch+json")

    def box(self, connection, settings, runtime, pool=True, args=(), **env):
        if pool:
            self.standin.pool(runtime=runtime, service=True)
        env = {TYPE + "TYPE": connection, **settings(self), **env}
        return Box(self.standin, self.start(*args, env=env))


@pytest.fixture
def way(standin, start):
    with ExitStack() as stack:
        yield Way(standin, start, stack)


def carried(standin, how):
    """The number of commands that came by this carrier."""
    if how == "exec":
        return len(standin.requests("GET", "/exec\\?"))
    return len(standin.requests("POST", how, "runtime"))


def case_names(ways):
    return [f"{w[0]}-{w[1].__name__}-{w[2]}" for w in ways]


@pytest.mark.parametrize("connection, settings, runtime, how", WAYS,
                         ids=case_names(WAYS))
def test_a_command_means_the_same_over_every_way(
        way, standin, connection, settings, runtime, how):
    box = way.box(connection, settings, runtime)
    ran = box.run("printf 'a\\377\\000b'; printf err >&2; exit 3")
    assert ran["exit_code"] == 3
    assert (ran["stdout"], ran["stderr"]) == ("a�\0b", "err")
    ran = box.run("cat; pwd; echo \"$A\" | tr a-z A-Z; echo $0 ${B-none}",
                  stdin="ü'\\n\0\n", cwd="/", env={"A": "it's \"q\" $x\n"})
    assert ran["stdout"] == ("ü'\\n\0\n/\nIT'S \"Q\" $X\n\n"
                             + ran["stdout"].splitlines()[-1] + "\n")
    assert ran["stdout"].endswith(" none\n")
    assert ran["exit_code"] == 0
    standin.forget_requests()
    assert box.run("kill -9 $$")["exit_code"] in (137, -1)
    assert carried(standin, how) == 1
    # One read of the claim, and what carries it.
    assert len(standin.requests()) == 1 + (how == "exec")


@pytest.mark.parametrize("connection, settings, runtime, how", WAYS,
                         ids=case_names(WAYS))
def test_a_time_limit_ends_all_of_it_and_keeps_what_came(
        way, connection, settings, runtime, how):
    box = way.box(connection, settings, runtime)
    result = box.result("echo begun; sleep 4321 & sleep 4321", timeout=1)
    assert "all its processes were ended" in failure(result)
    assert result["structuredContent"]["status"] == "timed_out"
    assert result["structuredContent"]["stdout"] == "begun\n"
    box.ended("4321")
    assert box.run("echo alive")["stdout"] == "alive\n"


SHORT = [w for w in WAYS if w[2] == "legacy" and w[3] != "exec"]


@pytest.mark.parametrize("connection, settings, runtime, how", SHORT,
                         ids=case_names(SHORT))
def test_output_and_input_of_any_size_pass_the_legacy_runtime(
        way, connection, settings, runtime, how):
    box = way.box(connection, settings, runtime)
    text = "0123456\\'\"é\n" * 60000
    ran = box.run("wc -c; head -c 6000000 /dev/zero | tr '\\0' x; "
                  "head -c 3000000 /dev/zero | tr '\\0' y >&2", stdin=text)
    size = str(len(text.encode()))
    assert ran["stdout"].startswith(size)
    assert ran["stdout_total_chars"] == 6000000 + len(size) + 1
    assert ran["stderr_total_chars"] == 3000000
    assert box.run(f"echo {'x' * 120000} | wc -c")["stdout"] == "120001\n"


@pytest.mark.parametrize("end", ["cancel", "input"])
def test_a_legacy_command_that_is_stopped_is_ended_in_the_pod(way, end):
    box = way.box("in-cluster", use_pod_ip, "legacy")
    id = box.begin("sleep 4332 & sleep 4332")
    box.started("4332")
    if end == "input":
        assert box.program.close() == 0
    else:
        box.program.cancel(id)
    box.ended("4332")


def test_a_background_child_does_not_hold_a_legacy_command(way):
    box = way.box(*LEGACY[:3])
    ran = box.run("sleep 4329 & echo begun")
    assert (ran["stdout"], ran["exit_code"]) == ("begun\n", 0)
    box.started("4329")


def test_a_folder_that_is_not_there_is_said_by_a_legacy_command(way):
    box = way.box(*LEGACY[:3])
    ran = box.run("echo no", cwd="/no/where")
    assert ran["exit_code"] == 125
    assert "/no/where" in ran["stderr"]


def test_without_a_shell_the_text_goes_as_it_is(way, standin):
    box = way.box(*LEGACY[:3], MCP_SANDBOX_SHELL="false")
    assert box.run("echo '$HOME' ; x")["stdout"] == "$HOME ; x\n"
    ran = box.run("nothing-there")
    assert "No such file" in ran["stderr"] and ran["exit_code"] == 1
    assert "MCP_SANDBOX_SHELL" in failure(box.result("cat", stdin="x"))
    told = failure(box.result("sleep 4330", timeout=1))
    assert "may still run" in told


# Routers

def test_a_router_is_told_where_to_and_how_long(way):
    box = way.box("direct", router("python"), "legacy")
    box.run("true", timeout=60)
    method, path, headers = way.last_router.requests[-1]
    assert (method, path) == ("POST", "/execute")
    assert headers["X-Sandbox-ID"] == box.pod
    assert headers["X-Sandbox-Namespace"] == NS
    assert headers["X-Sandbox-Port"] == "8888"
    # The time to end it and to tell is on top.
    assert 60 <= int(headers["X-Sandbox-Timeout"]) <= 90
    assert "X-Sandbox-Pod-IP" not in headers
    assert "Authorization" not in headers
    assert "Accept-Encoding" not in headers


def test_sandboxd_behind_a_router_has_files_but_no_commands(way):
    """gRPC passes no router (agent-sandbox 3.7); that is said."""
    box = way.box("direct", router("go"), "sandboxd")
    success(box.tool("upload_file", path="f", content="x"))
    assert success(box.tool("download_file", path="f"))["content"] == "x"
    said = failure(box.result("true"))
    assert "gRPC" in said and "tunnel" in said


def test_the_pod_address_is_told_only_when_asked_for(way, standin):
    box = way.box("direct", router("python"), "legacy", **PODS,
                  MCP_SANDBOX_ROUTER_POD_IP="true")
    assert box.run("echo a")["stdout"] == "a\n"
    assert way.last_router.requests[-1][2]["X-Sandbox-Pod-IP"] == \
        standin.claim(box.claim)["status"]["sandbox"]["podIPs"][0]


def test_a_router_is_given_its_token(way, tmp_path):
    token = tmp_path / "token"
    token.write_text("sesame-1\n")
    way.router("python", token="sesame-1")
    box = way.box("direct", lambda w: {TYPE + "API_URL": w.last_router.url},
                  "legacy", MCP_SANDBOX_ROUTER_TOKEN=str(token))
    assert box.run("echo a")["stdout"] == "a\n"
    assert b"sesame" not in bytes(box.program.output + box.program.errors)


def test_a_router_that_wants_a_token_is_named_with_the_setting(way):
    way.router("python", token="sesame")
    box = way.box("direct", lambda w: {TYPE + "API_URL": w.last_router.url},
                  "legacy")
    told = failure(box.result("true"))
    assert "401" in told and "MCP_SANDBOX_ROUTER_TOKEN" in told


def test_a_router_behind_tls_is_verified(way, standin):
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH,
                                     cafile=standin.ready["ca"])
    pki = join(standin.dir, "pki")
    tls.load_cert_chain(join(pki, "server-good.crt"),
                        join(pki, "server-good.key"))
    tls.verify_mode = ssl.CERT_REQUIRED
    way.router("go", tls=tls)
    mutual = {"MCP_SANDBOX_ROUTER_CA": standin.ready["ca"],
              "MCP_SANDBOX_ROUTER_CERT": join(pki, "client-ec.crt"),
              "MCP_SANDBOX_ROUTER_KEY": join(pki, "client-ec.key")}

    def settings(w):
        return {TYPE + "API_URL": w.last_router.url}
    box = way.box("direct", settings, "legacy", **mutual)
    assert box.run("echo a")["stdout"] == "a\n"
    box = way.box("direct", settings, "legacy", pool=False)
    assert "certificate" in failure(box.result("true"))


@pytest.mark.parametrize("flavour, words", [
    ("go", ["502", "may have run"]),
    ("python", ["504", "PROXY_TIMEOUT_SECONDS", "still run"])])
def test_a_routers_own_time_limit_is_told_and_nothing_repeated(
        way, standin, flavour, words):
    way.router(flavour, limit=1)
    box = way.box("direct", lambda w: {TYPE + "API_URL": w.last_router.url},
                  "legacy")
    standin.forget_requests()
    result = box.result("sleep 4331", timeout=3)
    told = failure(result)
    for word in words:
        assert word in told
    assert result["structuredContent"]["status"] == "connection_lost"
    assert carried(standin, "/execute") == 1
    # The pod's own watchdog ends it, whoever still waits.
    box.ended("4331")


@pytest.mark.parametrize("answer, words", [
    ((502, '{"detail":"Could not connect to the backend sandbox: x"}'),
     ["502", "may have run", "NetworkPolicy"]),
    ((500, '{"detail":"An internal error occurred in the proxy."}'),
     ["500", "may have run"]),
    ((400, '{"detail":"Invalid port format."}'), ["400", "Invalid port"]),
    ((422, '{"detail":[{"msg":"Input should be a valid string"}]}'),
     ["422", "valid string"]),
    ((307, ""), ["307", "not followed"]),
    ((404, "<h1>none</h1>\x1b[31m"), ["404", "none"]),
    ((200, "<h1>hello</h1>"), ["may have run"]),
    ((200, '{"stdout":"x","exit_code":0}'), ["something else"]),
    ((200, '{"stdout":"'), ["may"])])
def test_what_a_router_answers_is_told_and_the_command_sent_once(
        way, answer, words):
    box = way.box(*LEGACY[:3])
    way.last_router.answer = answer
    told = failure(box.result("true"))
    for word in words:
        assert word in told, told
    assert "\x1b" not in told
    assert len([r for r in way.last_router.requests
                if r[1] == "/execute"]) == 1
    way.last_router.answer = None
    assert box.run("echo a")["stdout"] == "a\n"


def test_sandboxd_behind_a_router_has_no_commands(way):
    box = way.box("direct", router("go"), "sandboxd")
    assert "gRPC" in failure(box.result("true"))


def test_a_router_that_is_gone_is_told_without_its_address(way):
    box = way.box(*LEGACY[:3])
    way.last_router.close()
    told = failure(box.result("true"))
    assert "the router" in told and "127.0.0.1" not in told


# The legacy runtime's own faults

@pytest.mark.parametrize("stderr, words", [
    ("Command '['/bin/sh', '-c', 'x']' timed out after 300.0 seconds",
     ["300 s", "SANDBOX_EXEC_TIMEOUT_SECONDS"]),
    ("'utf-8' codec can't decode byte 0xff in position 0: invalid start",
     ["UTF-8", "base64"]),
    ("[Errno 2] No such file or directory: '/bin/sh'", ["no /bin/sh"]),
    ("[Errno 7] Argument list too long: '/bin/sh'", ["too long"]),
    ("No closing quotation", ["No closing quotation"])])
def test_what_the_legacy_runtime_fails_at_is_explained(way, stderr, words):
    box = way.box(*LEGACY[:3])
    way.last_router.answer = (200, json.dumps({
        "stdout": "", "exit_code": 1,
        "stderr": "Failed to execute command: " + stderr}))
    told = failure(box.result("true"))
    for word in words:
        assert word in told, told


@pytest.mark.parametrize("action", ["drop", "drop-after", "cut-body"])
def test_a_lost_legacy_command_is_told_and_not_repeated(
        way, standin, action):
    box = way.box("in-cluster", use_pod_ip, "legacy")
    box.run("true")
    standin.forget_requests()
    standin.fault(action, "/execute", where="runtime")
    result = box.result("true")
    assert "may still be running" in failure(result)
    assert result["structuredContent"]["status"] == "connection_lost"
    assert carried(standin, "/execute") == 1
    assert box.run("echo a")["stdout"] == "a\n"


# Gateway

def test_a_gateway_is_waited_for(way, standin):
    standin.pool(runtime="legacy")
    way.gateway()
    r = way.router()
    box = Box(standin, way.start(env={
        TYPE + "TYPE": "gateway", TYPE + "GATEWAY_NAME": "front", **PODS,
        "MCP_SANDBOX_GATEWAY_PORT": str(r.port)}))
    id = box.begin("echo a")
    wait_for(lambda: standin.requests("GET", "gateways\\?.*watch"), "a watch")
    way.address("not usable", "127.0.0.1")
    result = box.program.reply(id)["result"]
    assert result["structuredContent"]["stdout"] == "a\n"
    # Found once.
    standin.forget_requests()
    box.run("true")
    assert not standin.requests("GET", "gateways")


@pytest.mark.parametrize("addresses, env, words", [
    (None, {}, ["front", "not found"]),
    ([], {TYPE + "GATEWAY_READY_TIMEOUT": "1"},
     ["did not get an IP", "GATEWAY_READY_TIMEOUT"]),
    (["127.0.0.1"], {"MCP_SANDBOX_ALLOW_LOOPBACK": "false"},
     ["not used"]),
    (["169.254.169.254"], {}, ["not used"]),
    (["no.such.example"], {}, ["no such name"]),
    (["meta.example"], {}, ["metadata"])])
def test_a_gateway_that_leads_nowhere_is_said(way, addresses, env, words):
    way.names.update({"no.such.example": None,
                      "meta.example": "169.254.169.254"})
    if addresses is not None:
        way.gateway(*addresses)
    box = way.box("gateway", lambda w: {
        TYPE + "GATEWAY_NAME": "front", **PODS, **w.nameserver()},
        "legacy", **env)
    told = failure(box.result("true"))
    for word in words:
        assert word in told, told
    assert "169.254" not in told


# Addresses and names

def test_a_pod_on_loopback_is_not_used_unless_allowed(way):
    box = way.box("in-cluster", use_pod_ip, "legacy",
                  MCP_SANDBOX_ALLOW_LOOPBACK="false")
    assert "is not used" in failure(box.result("true"))


@pytest.mark.parametrize("connection, settings, words", [
    ("in-cluster", by_name, ["no such name", "USE_POD_IP"]),
    ("sandboxd-in-cluster", by_service, ["no Service FQDN", "MODE"])])
def test_a_sandbox_without_a_service_is_not_reached_by_name(
        way, standin, connection, settings, words):
    standin.pool(runtime="sandboxd")
    box = way.box(connection, settings, "sandboxd", pool=False)
    told = failure(box.result("true"))
    for word in words:
        assert word in told, told


@pytest.mark.parametrize("answer", [
    lambda query: b"", lambda query: query[:2] + b"\x81\x82" + query[4:],
    lambda query: b"xx" + query[2:], lambda query: query[:20]])
def test_a_name_server_that_does_not_answer_is_given_up(way, answer):
    way.names["front.example.com"] = answer
    way.gateway("front.example.com")
    box = way.box("gateway", lambda w: {
        TYPE + "GATEWAY_NAME": "front", **w.nameserver()}, "legacy")
    begin = time.monotonic()
    assert "can't be resolved" in failure(box.result("true"))
    assert time.monotonic() - begin < 15


def test_auto_takes_the_tunnel_where_the_pod_does_not_answer(way, standin):
    standin.pool(runtime="sandboxd")
    box = way.box("auto", lambda w: {
        "KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "sandboxd", pool=False)
    assert box.run("echo a")["stdout"] == "a\n"
    assert standin.requests("GET", "/portforward")


def test_a_suspended_sandbox_that_comes_back_is_found_anew(way, standin):
    box = way.box("in-cluster", use_pod_ip, "legacy")
    box.run("true")
    old = standin.sandbox(box.pod)["status"]["podIPs"]
    for mode in "Suspended", "Running":
        standin.patch_sandbox(box.pod, {"spec": {"operatingMode": mode}})
        wait_for(lambda: bool(standin.sandbox(box.pod)["status"].get(
            "podIPs")) == (mode == "Running"), mode)
    assert standin.sandbox(box.pod)["status"]["podIPs"] != old
    wait_for(lambda: "alive" in json.dumps(box.result("echo alive")),
             "the new pod")


# Settings

def run_in(start, folder, *args, **env):
    return start(*args, cwd=folder, env=env)


def test_a_env_file_of_the_working_directory_is_read(way, standin, tmp_path):
    way.router("python")
    (tmp_path / ".env").write_text(
        f"# ours\nFOO=1\nexport R='{way.last_router.url}'\n"
        "k8s_sandbox_connection__type=direct\n"
        "K8S_SANDBOX_CONNECTION__API_URL=\"${R}/\"\n"
        "K8S_SANDBOX_CONNECTION__SERVER_PORT=1\n"
        "K8S_SANDBOX_NOTHING=1\nbad line\n")
    standin.pool(runtime="legacy")
    program = run_in(way.start, str(tmp_path), **{
        TYPE + "SERVER_PORT": "8888"})
    assert Box(standin, program).run("echo a")["stdout"] == "a\n"
    assert "K8S_SANDBOX_NOTHING" in program.stderr
    assert "line 8" in program.stderr
    assert "FOO" not in program.stderr


def test_the_object_form_is_read(way, standin):
    way.router("python")
    standin.pool(runtime="legacy")
    program = way.start(env={
        "K8S_SANDBOX_CONNECTION": json.dumps({
            "type": "direct", "api_url": way.last_router.url,
            "server_port": 1}),
        TYPE + "SERVER_PORT": "8888"})
    assert Box(standin, program).run("echo a")["stdout"] == "a\n"
    assert "CONNECTION" not in program.stderr


@pytest.mark.parametrize("env, words", [
    ({TYPE + "TYPE": "Gateway"}, ["TYPE", "sandboxd-in-cluster"]),
    ({TYPE + "TYPE": "gateway"}, ["GATEWAY_NAME"]),
    ({TYPE + "TYPE": "direct"}, ["API_URL"]),
    ({TYPE + "TYPE": "direct", TYPE + "API_URL": "router"}, ["http://"]),
    ({TYPE + "TYPE": "direct", TYPE + "API_URL": "http://no.invalid"},
     ["no.invalid", "resolved"]),
    ({TYPE + "TYPE": "direct", TYPE + "API_URL": "https://127.0.0.1",
      "MCP_SANDBOX_ROUTER_CA": "/none"}, ["/none"]),
    ({TYPE + "TYPE": "sandboxd-in-cluster"}, ["MODE", "in-cluster-pod-ip"]),
    ({TYPE + "REST_PORT": "9090"}, ["REST_PORT", "two ports"]),
    ({TYPE + "SERVER_PORT": "70000"}, ["SERVER_PORT", "1 to 65535"]),
    ({"MCP_SANDBOX_NAMESERVER": "dns"}, ["NAMESERVER", "ADDRESS:PORT"]),
    ({"K8S_SANDBOX_CONNECTION": "{"}, ["K8S_SANDBOX_CONNECTION"]),
    ({"K8S_SANDBOX_PROBE_NAMESPACE": "A"}, ["PROBE_NAMESPACE"]),
])
def test_a_wrong_setting_stops_the_start_with_its_name(start, env, words):
    program = start(env=env)
    assert program.wait() == 78
    for word in words:
        assert word in program.stderr
