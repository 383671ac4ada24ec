# SPDX-License-Identifier: Apache-2.0
"""A git server for the tests of clone: the real git, its HTTP backend, TLS."""

import base64
import contextlib
import http.server
import os
import shutil
import ssl
import subprocess
import threading

BACKEND = os.path.join(subprocess.run(
    ["git", "--exec-path"], capture_output=True, text=True,
    check=True).stdout.strip() if shutil.which("git") else "",
    "git-http-backend")
TOKEN = "t0ken-W1th/odd:bytes@%"


def git(folder, *args):
    return subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", folder,
         *args], check=True, capture_output=True, text=True).stdout.strip()


class Handler(http.server.BaseHTTPRequestHandler):
    """git-http-backend as CGI; what begins with /private wants the token."""

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


def repository(root, name, sub=None):
    """Two branches and a tag, sub as a submodule "lib"; the main commits."""
    folder = root / name
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    if sub:
        (folder / ".gitmodules").write_text(
            f'[submodule "lib"]\n\tpath = lib\n\turl = ../{sub}\n')
        git(folder, "add", ".gitmodules")
        git(folder, "update-index", "--add", "--cacheinfo",
            f"160000,{git(root / sub, 'rev-parse', 'main~1')},lib")
    commits = []
    for i in range(3):
        (folder / "file").write_text(f"{name} {i}\n")
        git(folder, "add", "file")
        git(folder, "commit", "-q", "-m", f"c{i}")
        commits.append(git(folder, "rev-parse", "HEAD"))
        if i == 1:
            git(folder, "tag", "v1")
    git(folder, "checkout", "-q", "-b", "side/branch")
    (folder / "file").write_text("side\n")
    git(folder, "commit", "-q", "-a", "-m", "side")
    git(folder, "checkout", "-q", "main")
    return commits


def repositories(root):
    """public and private, each within another one; their commits."""
    return {name: repository(root, name, sub) for name, sub in (
        ("public", None), ("private", None), ("public-outer", "public"),
        ("private-outer", "private"))}


@contextlib.contextmanager
def serve(root, certificate, key, address="127.0.0.1"):
    """host:port of a server for what is below root."""
    server = http.server.ThreadingHTTPServer((address, 0), Handler)
    server.root = str(root)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"{address}:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def secret(host, token, certificate):
    """The data of a Secret with the token for host; None: with none."""
    data = {"ca.crt": certificate}
    if token is not None:
        data[host.replace(":", "_")] = token.encode() + b"\n"
    return {k: base64.b64encode(v).decode() for k, v in data.items()}
