# SPDX-License-Identifier: Apache-2.0
"""What the program may not do, seen from outside, and what it costs."""

import os
import resource
import signal

from blackbox import NS, Box, memory_kb, not_sanitized, success
from standin.client import wait_for

pytestmark = not_sanitized


def field(pid, name):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(line.split(":")[1].split()[0] for line in f
                    if line.startswith(name + ":"))


def served(program):
    program.ask("ping", modern=False)
    return program.pid


def test_it_is_confined_before_it_answers(server):
    """Issue 3, confinement: in force before the first byte of input."""
    pid = served(server)
    assert field(pid, "NoNewPrivs") == "1"
    assert field(pid, "Seccomp") == "2"
    assert field(pid, "Threads") == "1"
    assert resource.prlimit(pid, resource.RLIMIT_CORE) == (0, 0)
    assert resource.prlimit(pid, resource.RLIMIT_NPROC) == (0, 0)
    assert resource.prlimit(pid, resource.RLIMIT_NOFILE)[1] <= 1024


def test_it_inherits_no_descriptor_but_three(standin, start):
    reader, writer = os.pipe()
    os.set_inheritable(reader, True)
    try:
        program = start(wrap=["env"])
        pid = served(program)
        mine = os.readlink(f"/proc/self/fd/{reader}")
        theirs = [os.readlink(f"/proc/{pid}/fd/{fd}")
                  for fd in os.listdir(f"/proc/{pid}/fd")]
        assert mine not in theirs
        assert len(theirs) <= 12
    finally:
        os.close(reader)
        os.close(writer)


def test_it_starts_with_closed_descriptors(standin, start):
    """A caller that closes stderr must not get our sockets there."""
    standin.pool()
    program = start(wrap=["sh", "-c", 'exec "$@" 2>&-', "sh"])
    box = Box(standin, program)
    assert box.run("echo x")["stdout"] == "x\n"
    assert program.close() == 0 and program.stderr == ""


def test_it_is_not_stopped_by_a_broken_pipe_of_its_log(standin, start):
    program = start("-v", wrap=["sh", "-c", 'exec "$@" 2>/dev/full', "sh"])
    success(program.tool("list_sandboxes", {"namespace": NS}))
    assert program.close() == 0


def test_an_idle_server_costs_a_megabyte_at_most(server):
    """Issue 3: at most 1 MB of memory idle. How much of the file is mapped
    along with a page that is used is the kernel's choice (+- 30 KB); what only
    the set-up used goes back a moment after the first answer."""
    pid = served(server)
    wait_for(lambda: memory_kb(pid, "VmRSS") <= (1 << 10) + 64, "a megabyte")
    assert memory_kb(pid, "RssAnon") <= 256


def test_a_used_server_gives_its_memory_back(standin, start):
    standin.pool()
    box = Box(standin, start())
    for _ in range(3):
        box.run("head -c 3000000 /dev/zero | tr '\\0' x",
                max_output_chars=300000)
    success(box.tool("delete_sandbox"))
    assert memory_kb(box.program.pid, "VmHWM") <= 4 << 10
    served(box.program)
    wait_for(lambda: memory_kb(box.program.pid, "VmRSS") <= 2 << 10,
             "what it had used")


def test_a_signal_it_does_not_know_of_is_not_handled(server):
    served(server)
    server.kill(signal.SIGUSR1)
    assert server.wait() == -signal.SIGUSR1
