# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes API for the controller fixture and the tests.

Only the standard library, so that the controller runs on a bare machine.
Blocking; a Client is for one thread.  The kubeconfig is read by kubectl.
"""

import base64
import http.client
import json
import os
import ssl
import subprocess
import tempfile
import urllib.parse

STATE = os.environ.get("CLUSTER") or os.path.join(
    os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")),
    "mcp-sandbox/cluster")
KUBECTL = os.path.join(STATE, "bin/kubectl")
ADMIN = os.path.join(STATE, "admin.kubeconfig")

GROUPS = {
    "sandboxclaims": "apis/extensions.agents.x-k8s.io/v1beta1",
    "sandboxtemplates": "apis/extensions.agents.x-k8s.io/v1beta1",
    "sandboxwarmpools": "apis/extensions.agents.x-k8s.io/v1beta1",
    "sandboxes": "apis/agents.x-k8s.io/v1beta1",
    "networkpolicies": "apis/networking.k8s.io/v1",
    "pods": "api/v1",
    "secrets": "api/v1",
    "services": "api/v1",
    "persistentvolumeclaims": "api/v1",
}


class Error(Exception):
    """An answer outside 200 to 299; str() is the API server's message."""

    def __init__(self, code, body):
        super().__init__(body.get("message") or f"HTTP {code}")
        self.code = code
        self.reason = body.get("reason", "")


def path(resource, namespace=None, name=None, sub=None, **query):
    parts = ["", GROUPS[resource]]
    if namespace:
        parts += ["namespaces", urllib.parse.quote(namespace, safe="")]
    parts += [p for p in (resource, name, sub) if p]
    url = "/".join(parts)
    return url + "?" + urllib.parse.urlencode(query) if query else url


class Client:
    def __init__(self, kubeconfig=ADMIN):
        text = subprocess.check_output(
            [KUBECTL, "--kubeconfig", kubeconfig, "config", "view", "--raw",
             "--minify", "--flatten", "-o", "json"])
        config = json.loads(text)
        cluster = config["clusters"][0]["cluster"]
        user = config["users"][0]["user"]
        url = urllib.parse.urlsplit(cluster["server"])
        self.host, self.port = url.hostname, url.port
        self.headers = {"Accept": "application/json"}
        if "token" in user:
            self.headers["Authorization"] = "Bearer " + user["token"]
        data = base64.b64decode(cluster["certificate-authority-data"])
        self.tls = ssl.create_default_context(cadata=data.decode())
        if "client-certificate-data" in user:
            self._certificate(user)
        self.conn = None

    def _certificate(self, user):
        with tempfile.NamedTemporaryFile() as pem:
            for key in ("client-certificate-data", "client-key-data"):
                pem.write(base64.b64decode(user[key]))
            pem.flush()
            self.tls.load_cert_chain(pem.name)

    def _connect(self, timeout):
        return http.client.HTTPSConnection(
            self.host, self.port, timeout=timeout, context=self.tls)

    def call(self, method, url, body=None, kind="application/json"):
        headers = dict(self.headers)
        data = None
        if body is not None:
            data = json.dumps(body)
            headers["Content-Type"] = kind
        for again in (True, False):
            fresh = self.conn is None
            self.conn = self.conn or self._connect(30)
            try:
                self.conn.request(method, url, data, headers)
                answer = self.conn.getresponse()
                text = answer.read()
                break
            except (OSError, http.client.HTTPException):
                self.conn.close()
                self.conn = None
                # A kept connection may have been closed meanwhile.
                if fresh or not again:
                    raise
        try:
            result = json.loads(text)
        except ValueError:
            result = {"message": text.decode(errors="replace").strip()}
        if not 200 <= answer.status < 300:
            raise Error(answer.status, result)
        return result

    def get(self, resource, namespace, name):
        """The object, or None."""
        try:
            return self.call("GET", path(resource, namespace, name))
        except Error as e:
            if e.code == 404:
                return None
            raise

    def list(self, resource, namespace=None, **query):
        return self.call("GET", path(resource, namespace, **query))["items"]

    def create(self, resource, obj):
        return self.call("POST", path(resource, obj["metadata"]["namespace"]),
                         obj)

    def replace(self, resource, obj):
        meta = obj["metadata"]
        return self.call("PUT", path(resource, meta["namespace"],
                                     meta["name"]), obj)

    def patch(self, resource, namespace, name, change, sub=None):
        return self.call("PATCH", path(resource, namespace, name, sub),
                         change, "application/merge-patch+json")

    def delete(self, resource, namespace, name, **options):
        """True when there was something to delete."""
        try:
            self.call("DELETE", path(resource, namespace, name), options)
            return True
        except Error as e:
            if e.code in (404, 409):
                return False
            raise

    def watch(self, resource, **query):
        """Yield (type, object) of everything, first what exists; ends when
        the server ends it."""
        first = self.call("GET", path(resource, **query))
        for obj in first["items"]:
            yield "ADDED", obj
        yield "SYNCED", None
        conn = self._connect(3630)
        conn.request("GET", path(
            resource, watch=1, timeoutSeconds=3600,
            resourceVersion=first["metadata"]["resourceVersion"], **query),
            headers=self.headers)
        answer = conn.getresponse()
        try:
            while line := answer.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event["type"], event["object"]
        finally:
            conn.close()
