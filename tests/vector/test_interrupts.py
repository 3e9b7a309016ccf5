"""Whoever presses Ctrl-C is heard, at whatever moment."""

from __future__ import annotations

import sys

from marlenv import ParallelEnv
from marlenv.testing import CountingEnv
from marlenv.vector.buffers import ANSWER
from marlenv.vector.protocol import Answer, Command


def interrupted_at(call, run):
    """Runs something, with an interrupt as its n-th call of a Python function begins; whether it made so many."""
    calls = 0

    def press(frame, event, arg):
        nonlocal calls
        calls += event == "call"
        if event == "call" and calls == call:
            raise KeyboardInterrupt

    sys.setprofile(press)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls >= call


def test_no_interrupt_is_lost_while_a_pool_reads_and_writes_flags(monkeypatch):
    env = ParallelEnv(1, CountingEnv)
    env.reset()
    worker = env._workers[0]

    def talk():
        worker.rang()
        worker.read()
        worker.tell(Command.NONE)

    with monkeypatch.context() as patch:
        patch.setattr(worker.go, "ring", lambda: None)  # the worker does not hear of it
        lost, call, more = [], 0, True
        while more:
            call += 1
            worker.flags[ANSWER], worker.busy = int(Answer.BUFFERS), True
            try:
                if more := interrupted_at(call, talk):
                    lost.append(call)
            except KeyboardInterrupt:
                pass
    assert call > 5
    assert lost == []
    worker.busy = False
    assert env.rand_step(env.reset())["next", "observation"].tolist() == [[1]]
    env.close()
