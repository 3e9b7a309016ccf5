"""A short soak: processes are killed at random, and every transition is accounted for."""

from __future__ import annotations

import os

import torch
from soak import FLAT, Grown, resident, soak


def test_a_short_soak():
    found = soak(400, 60)
    assert found.transitions == 1600
    assert found.kills > 2
    assert found.failures == found.cut
    assert (
        2 * found.kills >= found.failures >= found.kills
    )  # a process has two envs; one may be killed twice in one step
    assert found.ends > 200
    assert found.descriptors == 0
    assert found.memory <= FLAT
    assert found.workers <= FLAT


def test_a_worker_that_grows_is_found():
    """The gate works."""
    grown, kept = Grown(age=1), []
    for step in range(3):
        grown.look(step, [os.getpid()])
        kept.append(torch.ones(resident(os.getpid()) // 40))  # a tenth more
    assert grown.most > FLAT
