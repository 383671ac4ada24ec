# SPDX-License-Identifier: Apache-2.0
"""A job's clone: git, its HTTP backend and TLS are the real ones."""

import base64
import os

import pytest

import gitserver
from blackbox import success
from gitserver import TOKEN

IMAGE = "busybox:1.36"

pytestmark = pytest.mark.skipif(not os.path.exists(gitserver.BACKEND),
                                reason="no git with git-http-backend")


@pytest.fixture(scope="module")
def repositories(tmp_path_factory):
    """The folder, and the commits by repository."""
    root = tmp_path_factory.mktemp("git")
    return root, gitserver.repositories(root)


@pytest.fixture
def host(standin, repositories):
    pki = os.path.join(standin.dir, "pki", "server-good")
    with gitserver.serve(repositories[0], pki + ".crt", pki + ".key") as host:
        yield host


@pytest.fixture
def clone(standin, start, host):
    """clone(repository, ref, script, token=...) is the job's result."""
    with open(os.path.join(standin.dir, "pki", "ca.crt"), "rb") as f:
        certificate = f.read()

    def run(repository, ref, script="cat repo/file", token=TOKEN, **more):
        standin.call("POST", "/api/v1/namespaces/default/secrets", {
            "metadata": {"name": "tokens"},
            "data": gitserver.secret(host, token, certificate)})
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
    commits = repositories[1]
    refs = {"main": f"{repository} 2\n", "side/branch": "side\n",
            "v1": f"{repository} 1\n",
            commits[repository][0]: f"{repository} 0\n",
            commits[repository][1][:12]: f"{repository} 1\n"}
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


@pytest.mark.parametrize("how", [{}, {"depth": 1}])
@pytest.mark.parametrize("repository", ["public", "private"])
def test_submodules_come_when_they_are_wanted(clone, repository, how):
    r = clone(repository + "-outer", "main", "cat repo/file repo/lib/file; "
              f"grep -rF '{TOKEN}' . ; git -C repo/lib remote -v",
              how={"submodules": True, **how})
    assert r["status"] == "succeeded", r
    assert r["stdout"].splitlines()[:2] == [
        f"{repository}-outer 2", f"{repository} 1"]
    assert TOKEN not in r["stdout"]


def test_submodules_stay_away_unless_they_are(clone):
    r = clone("public-outer", "main", "ls -A repo/lib; echo end")
    assert r["stdout"] == "end\n"


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
