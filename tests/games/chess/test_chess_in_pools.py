"""Chess in pools, which draw random actions by masks alone: these are bits, 64 moves in each number."""

from __future__ import annotations

import pytest
import torch

import marlenv
from marlenv import SerialEnv
from marlenv.envs.plan import unpacked


def test_bits_are_the_masks_that_chess_gives_as_bools() -> None:
    bits, bools = (marlenv.make("chess", num_envs=3, seed=0, mask=mask) for mask in ("bits", "bool"))
    one, two = bits.rollout(20), bools.rollout(20)
    for player in ("white", "black"):
        assert torch.equal(unpacked(one[player, "action_mask"]), two[player, "action_mask"])


@pytest.mark.parametrize("mask", ["bits", "bool"])
def test_random_actions_of_a_pool_are_legal(mask: str) -> None:
    """They were any numbers, so that the first step of nearly every pool of chess was an IllegalAction."""
    pool = SerialEnv(2, lambda: marlenv.make("chess", num_envs=3, mask=mask))
    pool.set_seed(0)
    data = pool.rollout(60, break_when_any_done=False)
    moved = data["white", "action"][data["white", "mask"]]
    assert len(moved) == 2 * 3 * 30
    assert len(moved.unique()) > 60


def test_pools_draw_by_bits_what_they_draw_by_bools() -> None:
    drawn = []
    for mask in ("bits", "bool"):
        pool = SerialEnv(2, lambda mask=mask: marlenv.make("chess", num_envs=3, mask=mask))
        pool.set_seed(5)
        drawn.append(pool.rollout(30, break_when_any_done=False))
    for player in ("white", "black"):
        assert torch.equal(*(data[player, "action"] for data in drawn))
