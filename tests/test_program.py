# SPDX-License-Identifier: Apache-2.0
"""The line client itself, against cat."""

from program import Program


def test_what_goes_in_comes_out_and_the_end_is_seen():
    program = Program("-u", binary="/bin/cat")
    program.send({"id": 1})
    program.send(b'{"id": 2, "x": "' + b"y" * 200000)
    assert program.recv() == {"id": 1}
    assert program.silence(0.1) == []
    program.send(b'"}\n')
    assert len(program.reply(2)["x"]) == 200000
    assert program.close() == 0
    assert program.recv() is None
    program.dispose()


def test_replies_are_matched_by_id():
    program = Program(binary="/bin/cat")
    program.send({"id": 1, "result": 1})
    program.send({"method": "notifications/progress"})
    program.send({"id": 2, "result": 2})
    assert program.reply(2)["result"] == 2
    assert program.reply(1)["result"] == 1
    assert [m["method"] for m in program.aside] == ["notifications/progress"]
    program.dispose()
