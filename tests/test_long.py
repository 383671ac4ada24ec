# SPDX-License-Identifier: Apache-2.0
"""Files too long for memory, in one call: their content is put into a file as
it arrives and read from there piece by piece."""

import base64
import contextlib
import hashlib
import json
import os
import resource

import pytest

from blackbox import NS, Box, failure, memory_kb, success
from program import META, SANITIZED, VERSION
from standin.client import wait_for
from test_http import children
from web import INETD, Server, post, tool

MB = 1 << 20
LIMIT = 8 * MB


@pytest.fixture(params=["sandboxd", "none", "legacy"])
def box(request, standin, start):
    standin.pool(runtime=request.param)
    how = ["--connection", "tunnel"] if request.param == "legacy" else []
    box = Box(standin, start(*how))
    box.runtime = request.param
    return box


@pytest.fixture
def one(standin, start):
    """A box of the default runtime."""
    standin.pool()
    return Box(standin, start())


def pieces(size, seed=b"x"):
    """So many bytes that do not repeat, in pieces divisible by three."""
    block = b"".join(hashlib.sha256(seed + bytes([i])).digest()
                     for i in range(96)) * 256
    for at in range(0, size, len(block)):
        yield block[:size - at]


def head(id, name, args, last):
    """A request up to the opening quote of its last argument."""
    meta = {META + "protocolVersion": VERSION,
            META + "clientInfo": {"name": "t", "version": "1"},
            META + "clientCapabilities": {}}
    text = json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                       "params": {"_meta": meta, "name": name,
                                  "arguments": {**args, last: ""}}})
    at = text.rindex('""') + 1
    return text[:at].encode(), text[at:].encode()


def upload(box, size, path="big", tail=b"", **more):
    """Send it, line by line; returns the request's id."""
    id, box.program.next_id = box.program.next_id, box.program.next_id + 1
    before, after = head(id, "upload_file", box.arguments(
        path=path, binary=True, timeout=600, **more), "content")
    box.program.send(before)
    for piece in pieces(size):
        box.program.send(base64.b64encode(piece))
    box.program.send(tail + after + b"\n")
    return id


def digest(size):
    sum = hashlib.sha256()
    for piece in pieces(size):
        sum.update(piece)
    return sum.hexdigest()


def done(box, id):
    return success(box.program.reply(id, 120)["result"])


def spooled(program):
    """Disk space of the file without a name, in KiB."""
    for fd in os.listdir(f"/proc/{program.pid}/fd"):
        path = f"/proc/{program.pid}/fd/{fd}"
        if os.readlink(path).endswith("(deleted)"):
            return os.stat(path).st_blocks // 2
    raise AssertionError("there is no such file")


def given_back(program):
    wait_for(lambda: spooled(program) == 0, "the space")


def flat(program):
    if not SANITIZED:
        assert memory_kb(program.pid, "VmHWM") <= 4 << 10


def test_64_mb_go_in_with_flat_memory(box):
    """issue 4: 1 GB in and out with flat memory; users.md 37"""
    size = 64 * MB + 1
    out = done(box, upload(box, size))
    assert out == {"bytes_written": size, "size": size,
                   "sha256": digest(size), "verified": "sha256"}
    assert spooled(box.program) == 0
    flat(box.program)


def test_text_is_what_its_escapes_say(box):
    text = ("Größe \U0001f600 \"quoted\" \\ \t\n\x7f日本語" * 20000) + "end"
    for ascii in (True, False):
        before, after = head(77, "upload_file", box.arguments(path="text"),
                             "content")
        box.program.send(before + json.dumps(
            text, ensure_ascii=ascii).encode()[1:-1] + after + b"\n")
        out = success(box.program.reply(77, 60)["result"])
        assert out["size"] == len(text.encode())
        assert out["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert spooled(box.program) == 0


def test_several_at_once_do_not_mix(one):
    ids = {upload(one, size * MB, f"f{size}"): size * MB
           for size in (3, 9, 1, 12)}
    for id, size in ids.items():
        assert done(one, id)["sha256"] == digest(size)
    assert spooled(one.program) == 0
    flat(one.program)


def test_a_range_of_a_file_takes_a_long_content(one):
    assert done(one, upload(one, MB, "a"))["size"] == MB
    assert done(one, upload(one, 2 * MB, "a", offset=-1))["size"] == 3 * MB
    assert one.run("head -c 1048576 a | sha256sum")["stdout"].split()[0] == \
        digest(MB)
    assert one.run("tail -c +1048577 a | sha256sum")["stdout"].split()[0] == \
        digest(2 * MB)


def test_what_is_cancelled_gives_its_space_back(one):
    id = upload(one, 48 * MB, "gone")
    one.program.send({"jsonrpc": "2.0", "method": "notifications/cancelled",
                      "params": {"requestId": id}})
    given_back(one.program)
    assert one.program.silence() == []
    assert success(one.tool("file_exists", path="gone")) == {"exists": False}


@pytest.mark.parametrize("tail", [b"!", b"A", b"====", b"\\n=\\n="])
def test_what_is_not_base64_at_its_end_changes_no_file(box, tail):
    done(box, upload(box, MB, "kept"))
    id = upload(box, 2 * MB, "kept", tail)
    text = failure(box.program.reply(id, 60)["result"])
    assert "Failed to decode or encode content" in text and "base64" in text
    assert box.run("sha256sum <kept")["stdout"].split()[0] == digest(MB)
    assert spooled(box.program) == 0


@pytest.mark.parametrize("tail", [b"\\x", b"\\ud800", b"\xff", b"\xc3", b"\x01",
                                  b'","content":"a'])
def test_what_is_no_json_is_refused_whatever_its_length(one, tail):
    upload(one, MB, "bad", tail)
    reply = one.program.recv()
    assert "id" not in reply and reply["error"]["code"] == -32700, reply
    assert spooled(one.program) == 0
    assert success(one.tool("file_exists", path="bad")) == {"exists": False}


def long_argument(program, size, name, args, last):
    before, after = head("x", name, args, last)
    program.send(before)
    for _ in range(size // MB):
        program.send(b"y" * MB)
    program.send(after + b"\n")
    return program.recv()


def test_a_long_string_has_its_place(one):
    """Elsewhere it is as ever: up to the limit of a message."""
    args = one.arguments(command="wc -c")
    reply = long_argument(one.program, MB, "execute_command", args, "stdin")
    assert int(success(reply["result"])["stdout"]) == MB
    reply = long_argument(one.program, 9 * MB, "execute_command", args,
                          "stdin")
    assert failure(reply["result"]) == (
        "execute_command: stdin must have at most 262144 bytes as it is sent")
    reply = long_argument(one.program, 9 * MB, "upload_file",
                          one.arguments(path="p"), "elsewhere")
    assert "elsewhere is not known" in failure(reply["result"])
    reply = long_argument(one.program, 9 * MB, "no_such_tool", {}, "content")
    assert reply["error"]["code"] == -32602 and reply["id"] == "x"
    assert spooled(one.program) == 0


def test_a_full_disk_is_told_and_the_next_call_served(standin, start):
    standin.pool()
    program = start(wrap=["prlimit", f"--fsize={2 * MB}"])
    box = Box(standin, program)
    id = upload(box, 4 * MB)
    text = failure(program.reply(id)["result"])
    assert "File too large" in text and "/tmp" in text
    assert spooled(program) == 0
    out = done(box, upload(box, MB))
    assert out["sha256"] == digest(MB)


def test_without_a_folder_messages_have_their_old_limit(standin, start):
    standin.pool()
    program = start(env={"TMPDIR": "/nowhere"})
    box = Box(standin, program)
    assert done(box, upload(box, 5 * MB))["sha256"] == digest(5 * MB)
    upload(box, 7 * MB)
    reply = program.recv()
    assert reply["error"]["code"] == -32600
    assert "8388608" in reply["error"]["message"]
    assert "/nowhere" in reply["error"]["message"]
    assert "TMPDIR" in reply["error"]["message"]
    assert box.run("echo on")["stdout"] == "on\n"


def test_files_have_a_limit(one):
    assert resource.prlimit(one.program.pid, resource.RLIMIT_FSIZE) == (
        4096 * MB, 4096 * MB)


def test_a_client_that_leaves_halfway_leaves_nothing(one):
    before, _ = head(1, "upload_file", one.arguments(path="half"), "content")
    one.program.send(before + b"z" * (3 * MB))
    assert one.program.close() == 0


# Answers

ANSWER = 64 * MB        # LIMIT_DOWNLOAD_LONG
NEEDLESS = 1433600      # LIMIT_DOWNLOAD


def download(box, path="big", **more):
    return box.program.request("tools/call", {
        "name": "download_file", "arguments": box.arguments(
            path=path, binary=True, timeout=600, **more)})


def read(reply):
    """The bytes of an answer, which says them twice."""
    out = success(reply["result"])
    assert json.loads(reply["result"]["content"][0]["text"]) == out
    data = base64.b64decode(out["content"], validate=True)
    assert out["bytes_read"] == len(data) and out["encoding"] == "base64"
    assert out["sha256"] == hashlib.sha256(data).hexdigest()
    return data


def stop_reading(program):
    """After a last line, so that none is being read."""
    program.reading.clear()
    program.ask("ping", modern=False)


def test_16_mb_come_out_in_one_answer(box):
    """issue 4: 1 GB in and out with flat memory"""
    done(box, upload(box, 16 * MB + 5))
    out = read(box.program.reply(download(box, length=16 * MB), 120))
    assert len(out) == 16 * MB
    assert hashlib.sha256(out).hexdigest() == digest(16 * MB)
    given_back(box.program)
    assert len(read(box.program.reply(
        download(box, length=ANSWER, offset=16 * MB), 60))) == 5
    assert "67108864" in failure(box.program.reply(
        download(box, length=ANSWER + 1))["result"])
    flat(box.program)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 49151, 49152, 49153, 65537,
                                  MB + 1])
def test_an_answer_of_any_length_is_whole(one, size):
    done(one, upload(one, size, "f"))
    assert read(one.program.reply(download(one, "f"), 60)) == \
        b"".join(pieces(size))


def test_answers_at_once_do_not_mix(one):
    done(one, upload(one, 9 * MB))
    whole = b"".join(pieces(9 * MB))
    ids = {download(one, offset=at, length=size): (at, size)
           for at, size in ((0, 3 * MB), (7, 9 * MB), (MB, 10), (5, 2 * MB))}
    ping = one.program.request("ping", modern=False)
    for id, (at, size) in ids.items():
        assert read(one.program.reply(id, 60)) == whole[at:at + size]
    assert one.program.reply(ping)["result"] == {}
    given_back(one.program)
    flat(one.program)


def test_a_client_that_reads_slowly_costs_no_memory(one):
    done(one, upload(one, 8 * MB))
    whole = b"".join(pieces(8 * MB))
    stop_reading(one.program)
    ids = [download(one, length=8 * MB) for _ in range(3)]
    wait_for(lambda: spooled(one.program) >= 3 * 10 << 10, "all of them")
    one.program.reading.set()
    for id in ids:
        assert read(one.program.reply(id, 60)) == whole
    given_back(one.program)
    flat(one.program)


def test_a_download_is_cancelled_while_it_comes(one):
    done(one, upload(one, 24 * MB))
    one.program.cancel(download(one, length=24 * MB))
    assert one.program.silence() == []
    given_back(one.program)
    # One that has been answered is not called back.
    id = download(one, length=MB)
    reply = one.program.reply(id, 60)
    one.program.cancel(id)
    assert len(read(reply)) == MB


def test_who_leaves_amid_an_answer_leaves_nothing(one):
    done(one, upload(one, 24 * MB))
    stop_reading(one.program)
    download(one, length=24 * MB)
    wait_for(lambda: spooled(one.program) >= 30 << 10, "all of it")
    one.program.end_input()
    assert one.program.child.wait(10) == 0


def test_an_answer_that_the_disk_has_no_room_for(standin, start):
    standin.pool()
    program = start(wrap=["prlimit", f"--fsize={2 * MB}"])
    box = Box(standin, program)
    box.run(f"head -c {4 * MB} /dev/zero >big")
    text = failure(program.reply(download(box, length=4 * MB), 60)["result"])
    assert "File too large" in text and "/tmp" in text
    given_back(program)
    assert read(program.reply(download(box, length=MB), 60)) == bytes(MB)


def test_without_a_folder_answers_have_their_old_limit(standin, start):
    standin.pool()
    box = Box(standin, start(env={"TMPDIR": "/nowhere"}))
    box.run(f"head -c {4 * MB} /dev/zero >big")
    reply = box.program.reply(download(box, length=NEEDLESS), 60)
    assert read(reply) == bytes(NEEDLESS)
    text = failure(box.program.reply(download(box, length=NEEDLESS + 1))[
        "result"])
    assert "TMPDIR" in text and str(NEEDLESS) in text


def test_a_text_is_never_that_long(one):
    one.run(f"head -c {NEEDLESS} /dev/zero | tr '\\0' x >text")
    for more in ({}, {"binary": False}):
        arguments = one.arguments(path="text", **more)
        out = success(one.program.tool("download_file", {
            **arguments, "length": NEEDLESS}, 60))
        assert out["content"] == "x" * NEEDLESS
        assert "binary=true" in failure(one.program.tool("download_file", {
            **arguments, "length": NEEDLESS + 1}))


def test_a_long_answer_goes_in_no_batch(one):
    one.program.initialize("2025-03-26")
    one.run(f"head -c {2 * MB} /dev/zero >big")

    def ask(size):
        one.program.send([{
            "jsonrpc": "2.0", "id": size, "method": "tools/call", "params": {
                "name": "download_file", "arguments": one.arguments(
                    path="big", binary=True, length=size)}}])
        return one.program.recv()[0]
    assert read(ask(MB)) == bytes(MB)
    assert "batch" in failure(ask(2 * MB)["result"])


# Files of jobs

@pytest.fixture
def jobs(start):
    return start(env={"MCP_K8S_ALLOWED_IMAGES": "busybox:1.36",
                      "MCP_K8S_NAMESPACE": "default"})


def job(server, name, script, sizes, tails=None):
    """Send run_job or submit_job with files f0, f1, ...; its id."""
    id, server.next_id = server.next_id, server.next_id + 1
    files = [{"path": f"f{i}", "content_b64": f"@{i}@"}
             for i in range(len(sizes))]
    before, after = head(id, name, {
        "image": "busybox:1.36", "command": ["sh", "-c", script],
        "files": files}, "workdir")
    rest = before + b"/work" + after + b"\n"
    for i, size in enumerate(sizes):
        part, rest = rest.split(b"@%d@" % i)
        server.send(part)
        for piece in pieces(size):
            server.send(base64.b64encode(piece))
        server.send((tails or {}).get(i, b""))
    server.send(rest)
    return id


def sums(sizes):
    return "".join(f"{digest(size)}  f{i}\n" for i, size in enumerate(sizes))


@pytest.mark.parametrize("sizes", [
    [100 * MB], [300000, 5, 3 * MB + 1, 0o7777777, 512 << 10], [4, 600000]])
def test_files_of_a_job_are_as_large_as_they_are(jobs, sizes):
    """issue 6: files in, by stream, 100 MB with flat memory"""
    r = success(jobs.reply(job(jobs, "run_job", "sha256sum f*", sizes), 120)[
        "result"])
    assert (r["stdout"], r["stderr"], r["exit_code"]) == (sums(sizes), "", 0)
    assert r["artifacts"] == []
    given_back(jobs)
    flat(jobs)


def test_a_job_needs_no_disk_here_while_it_runs(jobs):
    id = job(jobs, "run_job", "sleep 5; sha256sum f*", [MB])
    wait_for(lambda: spooled(jobs) > 0, "its file")
    given_back(jobs)
    assert jobs.silence(0.3) == []
    assert success(jobs.reply(id, 30)["result"])["stdout"] == sums([MB])


def test_a_submitted_job_has_its_long_files(jobs):
    sizes = [2 * MB, 7]
    token = success(jobs.reply(job(jobs, "submit_job", "sha256sum f*", sizes),
                               60)["result"])["job_token"]
    given_back(jobs)
    r = success(jobs.tool("fetch_job", {"job_token": token, "wait_s": 30}, 40))
    assert r["result"]["stdout"] == sums(sizes)


def test_a_long_file_that_is_no_base64_makes_no_job(jobs, standin):
    for tail in (b"!", b"A", b"===="):
        id = job(jobs, "run_job", "true", [4, MB, MB], {2: tail})
        assert failure(jobs.reply(id, 30)["result"]) == (
            "invalid arguments: files: content_b64 of f2 is not base64")
    assert spooled(jobs) == 0
    assert not standin.objects("Job")
    assert not standin.requests(method="POST")


def test_a_long_string_of_a_job_that_is_no_file(jobs):
    reply = long_argument(jobs, 9 * MB, "run_job", {
        "image": "busybox:1.36", "command": ["true"]}, "workdir")
    assert failure(reply["result"]) == (
        "run_job: workdir must have at most 262144 bytes as it is sent")
    reply = long_argument(jobs, 9 * MB, "submit_job", {
        "image": "busybox:1.36", "command": ["true"]}, "workdir")
    assert "workdir must have at most 262144 bytes" in failure(
        reply["result"])


# By HTTP

FIELDS = {"MCP_Protocol_Version": VERSION, "Mcp_Method": "tools/call",
          "Mcp_Name": "upload_file"}


@pytest.fixture(params=["serve", pytest.param("inetd", marks=pytest.mark.skipif(
    INETD is None, reason="systemd is not installed"))])
def web(request, standin):
    standin.pool()
    server = Server(request.param, "--session-id", "me",
                    kubeconfig=standin.kubeconfig)
    yield server
    server.close()


class Served:
    """The process of one connection."""

    def __init__(self, web):
        self.connection = web.connect()
        self.handle = success(self.connection.ask(tool("create_sandbox", {
            "warmpool": "py-pool", "namespace": NS})).reply()["result"])[
                "sandbox_claim_name"]
        # That of the look whether the server is up may end a little later.
        self.pid = int(wait_for(lambda: children(web.process.pid)[1:] == []
                                and children(web.process.pid)[0], "its pid"))

    def arguments(self, **more):
        return {"sandbox_claim_name": self.handle, "namespace": NS, **more}

    def ask(self, *request):
        return self.connection.ask(tool(*request))


def parts(before, size, after):
    yield before
    for piece in pieces(size):
        yield base64.b64encode(piece)
    yield after


def length(before, size, after):
    return len(before) + len(after) + (size + 2) // 3 * 4


@pytest.mark.parametrize("chunked", [False, True])
def test_64_mb_go_in_by_http(web, chunked):
    box = Served(web)
    size = 64 * MB - 1
    before, after = head(1, "upload_file", box.arguments(
        path="big", binary=True, timeout=600), "content")
    more = ({"Content_Length": None, "Transfer_Encoding": "chunked"}
            if chunked else {"Content_Length": length(before, size, after)})
    box.connection.send(post(b"", **{**FIELDS, **more}))
    for part in parts(before, size, after):
        box.connection.send(b"%x\r\n%s\r\n" % (len(part), part) if chunked
                            else part)
    if chunked:
        box.connection.send(b"0\r\n\r\n")
    out = success(box.connection.answer().reply()["result"])
    assert out["size"] == size and out["sha256"] == digest(size)
    assert spooled(box) == 0
    flat(box)
    assert success(box.ask("file_exists", box.arguments(path="big")).reply()[
        "result"]) == {"exists": True}


def test_what_is_too_long_by_http_is_refused_with_413(web):
    connection = web.connect()
    connection.send(post(b"", **FIELDS, Content_Length=2000 * MB + 1))
    assert connection.answer().status == 413
    # Without a long string the limit is the old one.
    connection = web.connect()
    connection.send(post(b"", **FIELDS, Content_Length=20 * MB))
    with contextlib.suppress(ConnectionError):
        for _ in range(20):
            connection.send(b"[1,\n" * (MB // 4))
    assert connection.answer().status == 413
    assert connection.ended()


def test_a_bad_string_by_http(web):
    box = Served(web)
    for tail, code in ((b"\\x", -32700), (b"\n", -32700)):
        before, after = head(1, "upload_file", box.arguments(
            path="bad", binary=True), "content")
        answer = box.connection.ask(post(
            before + b"A" * MB + tail + after, **FIELDS))
        assert answer.status == 400
        assert answer.json()["error"]["code"] == code
        assert spooled(box) == 0
    assert success(box.ask("file_exists", box.arguments(path="bad")).reply()[
        "result"]) == {"exists": False}


def test_half_a_body_gives_its_space_back(web):
    box = Served(web)
    connection = box.connection
    before, after = head(1, "upload_file", box.arguments(
        path="bad", binary=True), "content")
    connection.send(post(b"", **FIELDS, Content_Length=64 * MB))
    connection.send(before + b"A" * (4 * MB))
    wait_for(lambda: spooled(box) >= 3 << 10, "its bytes")
    connection.close()
    wait_for(lambda: not os.path.exists(f"/proc/{box.pid}"), "its end")


@pytest.mark.parametrize("accept", [
    "application/json, text/event-stream", "text/event-stream"])
def test_a_long_answer_by_http(web, accept):
    box = Served(web)
    success(box.ask("execute_command", box.arguments(
        command=f"seq {3 * MB} >big")).reply()["result"])
    whole = "".join(f"{i}\n" for i in range(1, 3 * MB + 1)).encode()
    for size in (len(whole), 17, 5 * MB):
        answer = box.connection.ask(tool("download_file", box.arguments(
            path="big", binary=True, length=size), Accept=accept))
        assert read(answer.reply()) == whole[:size]
    given_back(box)
    flat(box)


def test_who_leaves_amid_an_answer_by_http_leaves_nothing(web):
    box = Served(web)
    success(box.ask("execute_command", box.arguments(
        command=f"head -c {24 * MB} /dev/zero >big")).reply()["result"])
    box.connection.send(tool("download_file", box.arguments(
        path="big", binary=True, length=24 * MB)))
    wait_for(lambda: spooled(box) >= 30 << 10, "all of it")
    box.connection.reset()
    wait_for(lambda: not os.path.exists(f"/proc/{box.pid}"), "its end")
