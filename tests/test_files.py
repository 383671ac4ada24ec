# SPDX-License-Identifier: Apache-2.0
"""Files of a sandbox, by every runtime: bytes exact, any name, whole or not
at all (contract: agent-sandbox 1.4, 1.5, 1.8, 2.7, 3.5, 6.4)."""

import base64
import hashlib
import io
import os
import tarfile

import pytest

from blackbox import Box, create, failure, memory_kb, not_sanitized, success
from standin.client import wait_for

ALL = bytes(range(256))
NAMES = [
    "plain.txt", "with blank", " lead and trail ", "%20", "100%", "%2525",
    "a+b", "a#b?c=d&e", 'quo"te', "back\\slash", "it's", "-rf", "--help",
    "new\nline", "two\n\n", "tab\there", "ünïcödé", "日本語", "\U0001f600",
    "e\u0301", "$HOME", "`id`", "$(id)", "a;b|c", "*", "[x]", "~", "!x", "...",
    "..x", ".hidden", "deep/er/and deeper/-x", "x" * 250, "a\x7f\x01b",
]


class Session(Box):
    """The pod of bash, with the same interface."""

    def __init__(self, standin, program):
        super().__init__(standin, program, "@bash")

    def run(self, command, timeout_s=30, **more):
        return success(self.program.tool("bash", {"command": command, **more},
                                         timeout_s))


@pytest.fixture(params=["sandboxd", "none", "legacy", "agent"])
def box(request, standin, start):
    if request.param == "agent":
        box = Session(standin, start("--tools", "agent-sandbox,bash"))
        box.runtime = "agent"
        return box
    standin.pool(runtime=request.param)
    # By default files of the legacy runtime's pods go by exec.
    how = ["--connection", "tunnel"] if request.param == "legacy" else []
    box = Box(standin, start(*how))
    box.runtime = request.param
    return box


def b64(data):
    return base64.b64encode(data).decode()


def put(box, path, data, **more):
    return success(box.program.tool("upload_file", box.arguments(
        path=path, content=b64(data), binary=True, **more), 60))


def fetch(box, path, **more):
    return success(box.program.tool("download_file", box.arguments(
        path=path, **more), 60))


def get(box, path, **more):
    out = fetch(box, path, binary=True, **more)
    data = base64.b64decode(out["content"], validate=True)
    assert out["bytes_read"] == len(data)
    assert out["sha256"] == hashlib.sha256(data).hexdigest()
    return data


def listed(box, path=".", **more):
    out = success(box.tool("list_files", path=path, **more))
    return {e["name"]: e for e in out["entries"]}


def exists(box, path):
    return success(box.tool("file_exists", path=path))["exists"]


def leftovers(box):
    return [n for n in listed(box) if n.startswith(".mcp-sandbox")]


# Names

def test_any_name_is_kept(box):
    """agent-sandbox 8.1, check 8; users.md 38"""
    files = {"d/" + name: name.encode() + ALL for name in NAMES}
    assert not exists(box, "d")
    for name, data in files.items():
        assert put(box, name, data) == {
            "bytes_written": len(data), "size": len(data),
            "sha256": hashlib.sha256(data).hexdigest(), "verified": "sha256"}
    # What a command sees are these very names.
    seen = box.run("cd d; find . -type f -print0 | base64 -w0")["stdout"]
    assert {n.decode() for n in base64.b64decode(seen).split(b"\0")[:-1]} \
        == {"./" + name for name in NAMES}
    found = listed(box, "d")
    assert {n for n, e in found.items() if e["type"] == "file"} == \
        {name for name in NAMES if "/" not in name}
    for name, data in files.items():
        assert get(box, name) == data
        assert exists(box, name)
        assert not exists(box, name + "%")
    assert leftovers(box) == []


def test_any_name_is_moved_looked_at_and_deleted(box):
    for name in ("-rf", "%20", "new\nline\n", " b ", "$(id)*", "日本語"):
        put(box, name, b"x")
        assert success(box.tool("stat_file", path=name))["size"] == 1
        assert box.tool("move_file", path=name, to="-m/" + name)[
            "isError"] is False
        assert not exists(box, name)
        assert get(box, "-m/" + name) == b"x"
        assert box.tool("delete_file", path="-m/" + name)["isError"] is False
        assert not exists(box, "-m/" + name)
    assert set(listed(box)) <= {"-m"}


def test_one_file_has_one_name(box):
    for path, same in (("./a", "a"), ("b/./c", "b/c"), ("b/x/../c", "b/c"),
                       ("b//d/", "b/d")):
        put(box, path, path.encode())
        assert get(box, same) == path.encode()
        assert exists(box, path)


def test_a_bad_path_is_refused_before_anything_is_sent(box):
    box.standin.forget_requests()
    for path, says in (
            ("", "empty"), ("..", "escapes"), ("../x", "escapes"),
            ("a/../../x", "escapes"), (".", "does not name a file"),
            ("/", "does not name a file"), ("a/..", "does not name a file"),
            ("nul\0", "NUL"), ("x" * 5000, "longer than")):
        for tool, more in (("upload_file", {"content": "x"}), ("move_file", {
                "to": "y"}), ("delete_file", {}), ("download_file", {})):
            assert says in failure(box.tool(tool, path=path, **more))
    assert box.standin.requests() == []


# Bytes

def test_bytes_come_back_as_they_went(box):
    """agent-sandbox 8.1, check 9; users.md 39"""
    for data in (b"", b"a", b"\0", b"\n", b"\r\n", ALL, ALL * 300,
                 "ünï\u2028\U0001f600".encode(), b"\xff", b"\xe2\x82",
                 b"\x80abc"):
        put(box, "f", data)
        assert get(box, "f") == data
        out = fetch(box, "f")
        try:
            expected = "utf-8", data.decode()
        except UnicodeDecodeError:
            expected = "base64", b64(data)
        assert (out["encoding"], out["content"]) == expected
        assert out["size"] == out["bytes_read"] == len(data)


def test_text_is_written_as_utf_8_and_read_strictly(box):
    """users.md 39"""
    text = "a\n\0\u00e9\u20ac\U0001f600\x1b[0m\r\n"
    out = success(box.tool("upload_file", path="t", content=text))
    assert out["bytes_written"] == len(text.encode())
    assert fetch(box, "t", binary=False)["content"] == text
    put(box, "b", b"a\xff")
    said = failure(box.tool("download_file", path="b", binary=False))
    assert "contains non-UTF-8 bytes. Set binary=True" in said


BASE64 = [
    ("", b""), ("YQ==", b"a"), ("YW Jj\n", b"abc"), ("\tY\rQ = =", b"a"),
    ("=", None), ("YQ", None), ("YQ=", None), ("YQ==YQ==", None),
    ("YWJj=", None), ("YW-Jj", None), ("Y", None), ("é", None),
    ("YR==", None)]


def test_base64_is_strict_but_for_white_space(standin, start):
    """agent-sandbox 1.8: what is dropped silently corrupts; 7.1, 30"""
    standin.pool()
    box = Box(standin, start())
    for given, data in BASE64:
        put(box, "f", b"old")
        standin.forget_requests()
        result = box.tool("upload_file", path="f", content=given, binary=True)
        if data is None:
            assert "base64" in failure(result)
            assert standin.requests() == []
        else:
            assert success(result)["bytes_written"] == len(data)
        assert get(box, "f") == (b"old" if data is None else data)


def test_ten_mib_go_in_and_out_in_pieces(box):
    """users.md 14, 37"""
    data = os.urandom(1 << 20) * 10
    step = 2 << 20
    for at in range(0, len(data), step):
        out = put(box, "big", data[at:at + step],
                  **({"offset": at} if at else {}))
        assert out["size"] == min(at + step, len(data))
        assert out["verified"] == "sha256"
    out = success(box.tool("stat_file", path="big", sha256=True))
    assert out["sha256"] == hashlib.sha256(data).hexdigest()
    back = b"".join(get(box, "big", offset=at, length=1 << 20)
                    for at in range(0, len(data), 1 << 20))
    assert back == data
    said = failure(box.tool("download_file", path="big"))
    assert str(len(data)) in said and "offset and length" in said


# Ranges

def test_ranges_are_exact(box):
    put(box, "f", ALL * 16)
    size = len(ALL) * 16
    for offset, length in ((0, 1), (1, 1), (255, 2), (4095, 1), (4090, 100),
                           (size, 5), (0, size), (0, size + 9), (17, 1000)):
        assert get(box, "f", offset=offset, length=length) == \
            (ALL * 16)[offset:offset + length]
    assert fetch(box, "f", offset=3)["size"] == size
    said = failure(box.tool("download_file", path="f", offset=size + 1))
    assert "beyond the end" in said and str(size) in said
    put(box, "empty", b"")
    assert get(box, "empty", offset=0, length=10) == b""


def test_a_range_of_text_ends_with_a_whole_character(box):
    text = "a\u20ac" * 100
    success(box.tool("upload_file", path="t", content=text))
    found, at = "", 0
    while at < len(text.encode()):
        out = fetch(box, "t", offset=at, length=7)
        assert out["encoding"] == "utf-8"
        found += out["content"]
        at += out["bytes_read"]
    assert found == text


def test_bytes_are_written_into_a_file(box):
    put(box, "f", b"0123456789")
    assert put(box, "f", b"ab", offset=3)["size"] == 10
    assert get(box, "f") == b"012ab56789"
    assert put(box, "f", b"XYZ", offset=9)["size"] == 12
    assert put(box, "f", b"!", offset=-1)["size"] == 13
    assert put(box, "f", b"?", offset=13)["size"] == 14
    assert get(box, "f") == b"012ab5678XYZ!?"
    said = failure(box.tool("upload_file", path="f", content="x", offset=15))
    assert "beyond the end" in said
    assert get(box, "f") == b"012ab5678XYZ!?"
    assert put(box, "new", b"n", offset=0)["size"] == 1
    assert put(box, "newer", b"n", offset=-1)["size"] == 1
    assert leftovers(box) == []


def test_a_file_keeps_its_mode_and_a_link_stays_one(box):
    box.run("echo old >real; chmod 750 real; ln -s real link")
    put(box, "link", b"new")
    out = box.run("stat -c %a real; cat real; readlink link")["stdout"]
    mode, rest = out.split("\n", 1)
    assert rest.rstrip() == "newreal"
    if box.runtime != "sandboxd":       # its PUT sets the mode
        assert mode == "750"


# Folders

def test_a_folder_is_listed_with_types_and_times(box):
    box.run("mkdir d d/sub; echo 12345 >d/f; touch -d @1700000000 d/f; "
            "ln -s sub d/link; ln -s nowhere d/broken; touch d/.hidden")
    found = listed(box, "d")
    if box.runtime != "legacy":
        assert list(found) == [".hidden", "f", "link", "sub"]
    assert found["f"] == {"name": "f", "size": 6, "type": "file",
                          "mod_time": 1700000000}
    assert found["sub"]["type"] == found["link"]["type"] == "directory"


def test_a_long_list_is_cut_and_says_so(box):
    """agent-sandbox 8.1, check 11"""
    for count, most in (0, 1000), (1000, 1000), (1001, 1000), (10001, 10000):
        box.run(f"mkdir -p d; (cd d; seq {count} | xargs -r touch)")
        out = success(box.program.tool("list_files", box.arguments(
            path="d", max_entries=most), 60))
        assert len(out["entries"]) == min(count, most)
        assert out["total_entries"] == count
        assert out["truncated"] is (count > most)


def test_the_folder_itself_has_a_name(box):
    put(box, "x", b"")
    for path in (".", "./", "a/.."):
        assert "x" in listed(box, path)
    assert exists(box, ".")
    assert success(box.tool("stat_file", path="."))["type"] == "directory"


def test_what_is_no_folder_is_not_listed(box):
    put(box, "f", b"[{}]")
    assert "directory" in failure(box.tool("list_files", path="f"))
    failure(box.tool("list_files", path="missing"))


def test_what_is_a_folder_is_not_read_or_written(box):
    box.run("mkdir d; echo kept >d/x")
    failure(box.tool("download_file", path="d"))
    failure(box.tool("upload_file", path="d", content="x"))
    failure(box.tool("upload_file", path="d", content="x", offset=0))
    assert get(box, "d/x") == b"kept\n"
    assert leftovers(box) == []


# Stat, delete, move

def test_stat_tells_what_it_is(box):
    box.run("echo 1 >f; chmod 640 f; touch -d @1700000000 f; mkdir d; "
            "ln -s f l; mkfifo p")
    assert success(box.tool("stat_file", path="f")) == {
        "type": "file", "size": 2, "mode": "0640", "mod_time": 1700000000,
        "sha256": None}
    kinds = {p: success(box.tool("stat_file", path=p))["type"]
             for p in ("d", "l", "p")}
    assert kinds == {"d": "directory", "l": "symlink", "p": "other"}
    assert success(box.tool("stat_file", path="f", sha256=True))["sha256"] \
        == hashlib.sha256(b"1\n").hexdigest()
    assert "not there" in failure(box.tool("stat_file", path="missing"))


def test_a_folder_is_deleted_only_when_that_is_meant(box):
    box.run("mkdir -p d/e; touch d/e/.f; ln -s d link")
    assert failure(box.tool("delete_file", path="d"))
    assert exists(box, "d/e/.f")
    assert box.tool("delete_file", path="link")["isError"] is False
    assert exists(box, "d/e/.f")
    assert box.tool("delete_file", path="d", recursive=True)[
        "isError"] is False
    assert not exists(box, "d")
    assert failure(box.tool("delete_file", path="d"))


def test_a_folder_goes_out_and_in_as_a_tar(box):
    """users.md 36: the error names the way, and that is a way"""
    box.run("mkdir -p 'd/a b/empty'; head -c 3000000 /dev/urandom >d/big; "
            "ln -s big d/link; echo x >'d/a b/-x'; chmod 750 'd/a b/-x'")
    said = failure(box.tool("download_file", path="d"))
    assert "directory" in said and "tar -cf FILE -C DIRECTORY ." in said
    box.run("tar -cf d.tar -C d .")
    size = success(box.tool("stat_file", path="d.tar"))["size"]
    data = b"".join(get(box, "d.tar", offset=at, length=1 << 20)
                    for at in range(0, size, 1 << 20))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert sorted(tar.getnames()) == [
            ".", "./a b", "./a b/-x", "./a b/empty", "./big", "./link"]
    assert put(box, "in.tar", data)["verified"] == "sha256"
    same = "diff -r --no-dereference d e && stat -c %a 'e/a b/-x'"
    assert box.run("mkdir e && tar -xf in.tar -C e && " + same)[
        "stdout"].strip() == "750"


def test_a_move_overwrites_only_when_that_is_meant(box):
    put(box, "a", b"A")
    put(box, "b", b"B")
    box.run("mkdir d")
    assert "there already" in failure(box.tool("move_file", path="a", to="b"))
    assert get(box, "b") == b"B"
    assert "directory" in failure(box.tool("move_file", path="a", to="d",
                                           overwrite=True))
    assert box.tool("move_file", path="a", to="b", overwrite=True)[
        "isError"] is False
    assert get(box, "b") == b"A"
    assert "not there" in failure(box.tool("move_file", path="a", to="c"))
    assert box.tool("move_file", path="d", to="x/y/d")["isError"] is False
    assert exists(box, "x/y/d")


# What is missing, short or cut

def test_a_missing_file_is_no_error_to_ask_for(box):
    assert success(box.tool("file_exists", path="a/b/c")) == {
        "exists": False}
    said = failure(box.tool("download_file", path="missing"))
    assert "Failed to read file from sandbox" in said


SHORT = {"sandboxd": ("^PUT$", "/v1/files"), "legacy": ("^POST$", "/upload")}


def test_a_write_that_fails_leaves_the_old_content(box):
    if box.runtime in ("none", "agent"):
        pytest.skip("has no REST of the stand-in")
    put(box, "f", b"old")
    method, path = SHORT[box.runtime]
    for action in "drop", "status":
        box.standin.fault(action, path, method=method, where="runtime",
                          code=500)
        failure(box.tool("upload_file", path="f", content="new" * 1000))
        assert get(box, "f") == b"old"
    assert put(box, "f", b"newer")["size"] == 5
    assert get(box, "f") == b"newer"


def test_an_exec_write_that_is_cut_leaves_the_old_content(standin, start):
    """users.md 14"""
    standin.pool(runtime="none")
    box = Box(standin, start())
    put(box, "f", b"old")
    box.standin.fault("ws-drop", "/exec", after=0)
    failure(box.tool("upload_file", path="f", content="new" * 1000000))
    assert get(box, "f") == b"old"
    assert put(box, "f", b"newer")["size"] == 5


def test_a_read_that_fails_is_an_error(box):
    if box.runtime in ("none", "agent"):
        pytest.skip("has no REST of the stand-in")
    put(box, "f", b"x" * 100)
    for action, tool, path in (
            ("drop", "download_file", "f"), ("status", "download_file", "f"),
            ("drop", "list_files", "."), ("cut-body", "list_files", "."),
            ("garbage", "list_files", "."), ("status", "file_exists", "f"),
            ("redirect", "download_file", "f")):
        code = {"code": 500} if action == "status" else {}
        box.standin.fault(action, where="runtime", location="/", **code,
                          method="^(GET|HEAD)$",
                          path="files|download|list|exists")
        failure(box.tool(tool, path=path))
        box.standin.clear_faults()
    assert get(box, "f") == b"x" * 100


def test_a_router_without_head_is_got_along_with(standin, start):
    """agent-sandbox 3.7"""
    standin.pool()
    box = Box(standin, start())
    for data in b"x", b"":
        put(box, "f", data)
        standin.fault("status", where="runtime", method="^HEAD$", code=405,
                      count=-1)
        assert exists(box, "f")
        assert exists(box, ".")
        assert not exists(box, "g")
        standin.clear_faults()


def test_without_a_shell_the_size_has_to_do(standin, start):
    """users.md 15, 35"""
    standin.pool()
    box = Box(standin, start())
    put(box, "g", b"old")
    for refused in ["^HEAD$"], []:
        standin.fault("status", where="runtime", path="Start", count=-1,
                      code="UNIMPLEMENTED")
        for method in refused:
            standin.fault("status", where="runtime", method=method, code=405,
                          count=-1)
        for data in b"x" * 1000, b"":
            out = put(box, "f", data)
            assert (out["size"], out["verified"]) == (len(data), "size")
        standin.clear_faults()
        assert get(box, "f") == b""


def test_files_need_our_shell_where_the_user_has_none(standin, start):
    """MCP_SANDBOX_SHELL is about the user's commands."""
    standin.pool(runtime="legacy")
    box = Box(standin, start("--connection", "tunnel",
                             env={"MCP_SANDBOX_SHELL": "false"}))
    put(box, "f", ALL)
    put(box, "f", b"more", offset=-1)
    assert get(box, "f") == ALL + b"more"
    assert success(box.tool("stat_file", path="f"))["size"] == 260
    success(box.tool("move_file", path="f", to="g"))
    success(box.tool("delete_file", path="g"))
    assert not exists(box, "g")


def test_one_request_a_call_after_the_first(box):
    """agent-sandbox 8: a GET of the claim, or the exec itself."""
    put(box, "f", b"x")
    box.standin.forget_requests()
    put(box, "f", b"y")
    assert get(box, "f") == b"y"
    assert exists(box, "f")
    listed(box)
    # A session's pod is watched from its second use on.
    asked = [r for r in box.standin.requests() if "watch=" not in r["path"]]
    seen = [r for r in asked if "/sandboxclaims/" not in r["path"]
            and "labelSelector=" not in r["path"]]
    assert len(asked) - len(seen) == \
        (0 if box.runtime == "none" else 4)
    if box.runtime == "agent":          # activity is noted, once in a while
        assert [r for r in seen if r["method"] != "PATCH"] == []
    elif box.runtime != "none":
        assert seen == []
    else:                               # no runtime: the exec itself
        assert all("/exec" in r["path"] for r in seen), seen
        assert len(seen) == 4


def test_what_was_known_of_a_claim_is_doubted_when_exec_fails(standin, start):
    standin.pool(runtime="none")
    box = Box(standin, start("--session-id", "one"))
    other = Box(standin, start("--session-id", "two", "--handles", "any"),
                box.claim)
    put(box, "f", b"x")
    assert box.run("echo x")["stdout"] == "x\n"
    success(other.tool("suspend_sandbox"))
    for said in (failure(box.tool("download_file", path="f")),
                 failure(box.tool("upload_file", path="f", content="y")),
                 failure(box.result("true"))):
        assert "suspended" in said
    success(other.tool("resume_sandbox"))
    assert box.run("echo y")["stdout"] == "y\n"
    assert put(box, "g", b"z")["size"] == 1
    pod = box.pod
    success(other.tool("delete_sandbox"))
    wait_for(lambda: pod not in [o["metadata"]["name"]
                                 for o in standin.objects("Pod")],
             "the pod's end")
    for said in (failure(box.result("true")),
                 failure(box.tool("file_exists", path="f"))):
        assert f"'{box.claim}' is not found" in said


@pytest.mark.parametrize("runtime", ["none", "sandboxd"])
def test_a_claim_that_has_no_sandbox_yet_says_so(
        standin, start, runtime):
    """agent-sandbox 7.1, 19 and 27: at once, with its state."""
    standin.pool(runtime=runtime)
    box = Box(standin, start())
    path = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/default/" \
        "sandboxclaims"
    labels = standin.claim(box.claim)["metadata"]["labels"]
    standin.config(controller=False)
    standin.call("POST", path, {
        "apiVersion": "extensions.agents.x-k8s.io/v1beta1",
        "kind": "SandboxClaim", "metadata": {"name": "new", "labels": labels},
        "spec": {"warmPoolRef": {"name": "py-pool"}}})
    new = Box(standin, box.program, "new")
    for said in (failure(new.tool("file_exists", path="f")),
                 failure(new.result("true"))):
        assert "not ready" in said.lower()
    listed_ = success(box.program.tool("list_sandboxes", {
        "namespace": "default"}))["sandboxes"]
    assert {x["sandbox_claim_name"]: x["ready"] for x in listed_} == \
        {"new": False, box.claim: True}


def test_what_we_change_ourselves_is_not_taken_as_known(standin, start):
    standin.pool(runtime="none")
    box = Box(standin, start())
    assert box.run("echo x")["stdout"] == "x\n"
    success(box.tool("suspend_sandbox"))
    assert "suspended" in failure(box.result("true"))


def test_another_sessions_files_are_not_there(standin, start):
    standin.pool()
    claim = create(start("--session-id", "one"))
    other = Box(standin, start("--session-id", "two"), claim)
    said = failure(other.tool("upload_file", path="x", content="x"))
    assert f"Sandbox claim '{claim}' is not found in namespace" in said
    both = Box(standin, start("--session-id", "two", "--handles", "any"),
               claim)
    assert put(both, "x", b"x")["size"] == 1


@not_sanitized
def test_large_files_need_little_memory(box):
    """users.md 37"""
    data = os.urandom(256 << 10)
    for at in range(0, 8 << 20, len(data)):
        put(box, "big", data, offset=at)
    for at in range(0, 8 << 20, len(data)):
        assert get(box, "big", offset=at, length=len(data)) == data
    assert memory_kb(box.program.pid, "VmHWM") < 4 << 10
