"""A short soak: processes are killed at random, and every transition is accounted for."""

from __future__ import annotations

from soak import soak


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
