# SPDX-License-Identifier: Apache-2.0
"""A job's clone: git, its HTTP backend and TLS are the real ones."""

import base64
import http.server
import os
import shutil
import ssl
import subprocess
import threading

import pytest

from blackbox import success

BACKEND = os.path.join(subprocess.run(
    ["git", "--exec-path"], capture_output=True, text=True,
    check=True).stdout.strip() if shutil.which("git") else "",
    "git-http-backend")
TOKEN = "t0ken-W1th/odd:bytes@%"
IMAGE = "busybox:1.36"

pytestmark = pytest.mark.skipif(not os.path.exists(BACKEND),
                                reason="no git with git-http-backend")


def git(folder, *args):
    return subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", folder,
         *args], check=True, capture_output=True, text=True).stdout.strip()


class Handler(http.server.BaseHTTPRequestHandler):
    """git-http-backend as CGI; what is below /private wants the token."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def allowed(self):
        word = base64.b64encode(f"oauth2:{TOKEN}".encode()).decode()
        return (not self.path.startswith("/private")
                or self.headers.get("Authorization") == "Basic " + word)

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while n := int(self.rfile.readline(), 16):
                data += self.rfile.read(n)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_GET(self):
        body = self.body()
        if not self.allowed():
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        done = subprocess.run([BACKEND], input=body, capture_output=True, env={
            **os.environ, "GIT_PROJECT_ROOT": self.server.root,
            "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
            "QUERY_STRING": query, "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")})
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1)
                      for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest)

    do_POST = do_GET


@pytest.fixture(scope="module")
def repositories(tmp_path_factory):
    """public and private, each with two branches and a tag; their commits."""
    root = tmp_path_factory.mktemp("git")
    commits = {}
    for name in ("public", "private"):
        folder = root / name
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")
        for i in range(3):
            (folder / "file").write_text(f"{name} {i}\n")
            git(folder, "add", "file")
            git(folder, "commit", "-q", "-m", f"c{i}")
            commits[name, i] = git(folder, "rev-parse", "HEAD")
            if i == 1:
                git(folder, "tag", "v1")
        git(folder, "checkout", "-q", "-b", "side/branch")
        (folder / "file").write_text("side\n")
        git(folder, "commit", "-q", "-a", "-m", "side")
        git(folder, "checkout", "-q", "main")
    return root, commits


@pytest.fixture
def host(standin, repositories):
    pki = os.path.join(standin.dir, "pki")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.root = str(repositories[0])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(pki, "server-good.crt"),
                            os.path.join(pki, "server-good.key"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def clone(standin, start, host):
    """clone(repository, ref, script, token=...) is the job's result."""
    with open(os.path.join(standin.dir, "pki", "ca.crt"), "rb") as f:
        certificate = f.read()

    def run(repository, ref, script="cat repo/file", token=TOKEN, **more):
        data = {"ca.crt": certificate}
        if token is not None:
            data[host.replace(":", "_")] = token.encode() + b"\n"
        standin.call("POST", "/api/v1/namespaces/default/secrets", {
            "metadata": {"name": "tokens"}, "data": {
                k: base64.b64encode(v).decode() for k, v in data.items()}})
        server = start(env={
            "MCP_K8S_ALLOWED_IMAGES": IMAGE, "MCP_K8S_NAMESPACE": "default",
            "MCP_K8S_CLONE_IMAGE": "git", "MCP_K8S_CLONE_SECRET": "tokens"})
        return success(server.tool("run_job", {
            "image": IMAGE, "command": ["sh", "-c", script],
            "clone": {"repo_url": f"https://{host}/{repository}", "ref": ref,
                      **more.pop("how", {})}, **more}, 40))
    return run


@pytest.mark.parametrize("repository", ["public", "private"])
def test_a_branch_a_tag_and_commits(clone, repositories, repository, standin):
    refs = {"main": f"{repository} 2\n", "side/branch": "side\n",
            "v1": f"{repository} 1\n",
            repositories[1][repository, 0]: f"{repository} 0\n",
            repositories[1][repository, 1][:12]: f"{repository} 1\n"}
    for ref, text in refs.items():
        r = clone(repository, ref)
        assert (r["status"], r["stdout"]) == ("succeeded", text), (ref, r)
        standin.call("DELETE", "/api/v1/namespaces/default/secrets/tokens")


def test_the_token_is_nowhere(clone):
    r = clone("private", "main", f"grep -rF '{TOKEN}' . ; env | grep -F "
              f"'{TOKEN}'; cat repo/.git/config; ls /git-creds 2>&1")
    assert TOKEN not in r["stdout"]
    assert "oauth2" not in r["stdout"]


def test_a_branch_is_checked_out_as_one(clone):
    r = clone("public", "side/branch", "cd repo && git status -sb | head -1")
    assert r["stdout"] == "## side/branch...origin/side/branch\n"


def test_depth(clone):
    r = clone("public", "main", "cd repo && git rev-list --count HEAD",
              how={"depth": 1})
    assert r["stdout"] == "1\n"


def test_what_was_cloned_is_no_artifact(clone):
    r = clone("public", "main", "echo new >>repo/file; echo 1 >mine; "
              "cd repo && git add file", how={"subdir": "repo"})
    assert [a["name"] for a in r["artifacts"]] == ["mine", "repo/file"]


def test_files_are_put_into_the_clone(clone):
    r = clone("public", "main", "cat repo/file repo/more", files=[
        {"path": "repo/more", "content_b64": base64.b64encode(
            b"more\n").decode()}])
    assert r["stdout"] == "public 2\nmore\n"


@pytest.mark.parametrize("repository, ref, token, words", [
    ("private", "main", None, "no token for 127.0.0.1"),
    ("private", "main", "", "is empty"),
    ("private", "main", "wrong-token", "can't be had"),
    ("public", "nosuch", None, "nosuch can't be had"),
    ("public", "--upload-pack=x", None, "must not begin with a dash"),
    ("missing", "main", None, "not found"),
])
def test_what_can_not_be_cloned_says_why(clone, repository, ref, token, words):
    r = clone(repository, ref, token=token)
    assert (r["status"], r["reason"], r["exit_code"]) == (
        "error", "clone_failed", -1)
    assert words in r["message"]
    assert "wrong-token" not in r["message"]
