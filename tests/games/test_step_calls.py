"""A step of few games costs what is called in it: how much that is, and that what is called less is the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sizes import first
from tensordict import TensorDict, TensorDictBase

from marlenv.games import Breakthrough, GameEnv, Hex, KuhnPoker, LeducPoker
from marlenv.games.fast.data_pool import DataPool
from marlenv.tensordicts import new
from marlenv.testing.comparison import differences

pytest.importorskip("numba", reason="without numba games are played by their rules")

MOST = {"hex": (Hex(), 239), "breakthrough": (Breakthrough(), 247), "leduc": (LeducPoker(), 255)}
"""Games, and how many calls of functions a step of theirs may take: drawing, playing, beginning anew."""


def calls(play: Callable[[], Any]) -> int:
    """How many functions are called, those of C too."""
    count = 0

    def note(frame: Any, event: str, what: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        play()
    finally:
        sys.setprofile(None)
    return count


def stepped(env: GameEnv[Any], steps: int) -> TensorDictBase:
    td = env.reset()
    for _ in range(steps):
        _, td = env.step_and_maybe_reset(env.rand_action(td))
    return td


@pytest.mark.parametrize("name", first(MOST, 3))
def test_a_step_takes_few_calls(name: str) -> None:
    rules, most = MOST[name]
    env = GameEnv(rules, batch_size=[64], seed=0)
    held = [stepped(env, 30)]

    def play() -> None:
        _, following = env.step_and_maybe_reset(env.rand_action(held.pop()))
        held.append(following)

    assert min(calls(play) for _ in range(5)) <= most  # memory for data is laid out in the first ones


@pytest.mark.parametrize(
    "group_map", [None, {"a": ["player_0"], "b": ["player_1", "player_2"]}, {"b": ["player_1", "player_2", "player_0"]}]
)
@pytest.mark.parametrize("rows", [[64], [8, 10], [3]])
def test_groups_share_no_actions_and_nobodys_are_changed_later(rows: list[int], group_map: Any) -> None:
    env = GameEnv(KuhnPoker(3), batch_size=rows, seed=0, group_map=group_map)
    td = env.rand_action(env.reset())
    first = [td[key] for key in env.action_keys]
    was = [x.clone() for x in first]
    assert len({x.untyped_storage().data_ptr() for x in first}) == len(first)
    assert all(x.shape == env.full_action_spec[key].shape for key, x in zip(env.action_keys, first, strict=True))
    assert all(x.dtype == torch.int64 and x.is_contiguous() for x in first)
    acting = torch.cat([x.flatten(len(rows)) for x in first], -1)
    assert bool((acting == acting[..., :1]).all())  # those who do not move get the same number
    for _ in range(3):
        _, td = env.step_and_maybe_reset(td)
        td = env.rand_action(td)
        for key, old in zip(env.action_keys, first, strict=True):
            assert td[key].untyped_storage().data_ptr() != old.untyped_storage().data_ptr()
    for a, b in zip(first, was, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", first(MOST, 3))
def test_actions_drawn_by_the_short_way_are_those_of_the_long_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    envs = [GameEnv(MOST[name][0], batch_size=[8, 8], seed=0) for _ in range(2)]
    for env in envs:
        env.set_seed(5)
    monkeypatch.setattr(envs[1], "fast_action", lambda td, draws: False)
    for td, other in zip(*[list(_all(env, 30)) for env in envs], strict=True):
        assert not differences(td, other)
    assert envs[0].action_stream.used == envs[1].action_stream.used


def _all(env: GameEnv[Any], steps: int) -> Any:
    td = env.reset()
    for _ in range(steps):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        yield data.clone()


def test_data_come_again_as_they_were_laid_out() -> None:
    """Entries in their order, among them empty nodes, one entry alone, and entries behind nodes."""
    batch = torch.Size([2])

    def laid_out() -> tuple[TensorDict, None]:
        seen, one = torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64)
        inner = new({"deep": new({"one": one}, torch.Size([2, 1])), "empty": new({}, batch)}, batch)
        return new({"a": seen, "inner": inner, "b": seen[:, 0], "again": seen}, batch), None

    pool = DataPool()
    for _ in range(2):
        td, _ = pool.take("kind", laid_out)
        assert list(td.keys(True)) == list(laid_out()[0].keys(True))
        assert td["inner", "deep"].batch_size == (2, 1)
        assert td["inner", "empty"].is_empty()
        assert td["a"].shape == (2, 3)
        assert td["again"] is td["a"]
        assert not td["a"].requires_grad
        td["b"].fill_(4.0)
        assert bool((td["a"][:, 0] == 4).all())
        assert td["inner", "deep", "one"].dtype == torch.int64
        del td
