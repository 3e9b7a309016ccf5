"""Partial steps: only what ``"_step"`` marks is stepped; the rest keeps what it had, or gets zeros."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict
from twin_envs import load

from marlenv import SerialEnv, TransformedEnv
from marlenv.errors import ResetError
from marlenv.testing.mocks import CountingEnv, GroupedEnv

counting = lambda: CountingEnv(max_steps=9)  # noqa: E731
PARTIAL = torch.tensor([True, False])
MAKERS = {
    "batch-locked": lambda: CountingEnv(batch_size=[2]),
    "serial": lambda: SerialEnv(2, counting),
    "transformed": lambda: TransformedEnv(CountingEnv(batch_size=[2])),
    "transformed serial": lambda: TransformedEnv(SerialEnv(2, counting)),
    "serial transformed": lambda: SerialEnv(2, lambda: TransformedEnv(counting())),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_only_marked_rows_are_stepped(make):
    env = make()
    td = env.step_mdp(env.rand_step(env.reset()))
    td = env.rand_action(td).set("_step", PARTIAL)
    out = env.step(td)
    assert out is td
    assert "_step" not in out
    assert out["next", "observation"].flatten().tolist() == [2, 1]
    assert out["next", "reward"].flatten().tolist() == [1, 0]
    later = env.rand_step(env.step_mdp(out))
    assert later["next", "observation"].flatten().tolist() == [3, 2]  # the other row's state did not move


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_rows_without_data_get_zeros(make):
    env = make()
    env.rand_step(env.reset())
    td = env.rand_action().set("_step", PARTIAL)  # no observations in the input
    out = env.step(td)["next"]
    assert out["observation"].flatten().tolist() == [2, 0]
    assert out["done"].flatten().tolist() == [False, False]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_no_row_and_all_rows(make):
    env = make()
    td = env.step_mdp(env.rand_step(env.reset()))
    still = env.step(env.rand_action(td.copy()).set("_step", torch.zeros(2, dtype=torch.bool)))
    assert still["next", "observation"].flatten().tolist() == [1, 1]
    moved = env.step(env.rand_action(td.copy()).set("_step", torch.ones(2, dtype=torch.bool)))
    assert moved["next", "observation"].flatten().tolist() == [2, 2]
    assert "_step" not in moved


def test_envs_without_a_batch_look_for_step_first():
    env = counting()
    td = env.step_mdp(env.rand_step(env.reset()))
    still = env.step(env.rand_action(td.copy()).set("_step", torch.tensor(False)))
    assert (still["next", "observation"].item(), still["next", "reward"].item(), env.count.item()) == (1, 0, 1)
    assert env.step(env.rand_action(td).set("_step", torch.tensor([True])))["next", "observation"].item() == 2


@pytest.mark.parametrize("rows", [[True, False, True], [False] * 3, [True] * 3])
def test_batch_unlocked_envs_step_the_marked_part(rows):
    """A stateless env never sees the rows that are not stepped."""
    env = load("conventions", "marlenv").FullSpecs()
    td = env.reset(TensorDict({}, [3])).update({"position": torch.arange(3.0).unsqueeze(-1)})
    td["move"], td["turn"] = torch.ones(3, 1), torch.ones(3, 1, dtype=torch.int64)
    sizes, whole = [], env._step
    env._step = lambda td: sizes.append(td.batch_size) or whole(td)
    out = env.step(td.set("_step", torch.tensor(rows)))
    assert sizes == [torch.Size([sum(rows)])] * any(rows)
    assert out["next", "position"].flatten().tolist() == [i + rows[i] for i in range(3)]
    assert out["next", "speed"].flatten().tolist() == [float(r) for r in rows]
    assert out["position"].flatten().tolist() == [0, 1, 2]


def test_batch_unlocked_envs_with_a_batch_size_are_masked():
    env = load("conventions", "marlenv").FullSpecs((2,))
    td = env.reset().update({"move": torch.ones(2, 1), "turn": torch.ones(2, 1, dtype=torch.int64)})
    assert env.step(td.set("_step", PARTIAL))["next", "position"].flatten().tolist() == [1, 0]


def test_groups_stand_still_with_their_row():
    env = GroupedEnv(batch_size=[2], terminate={"agent_0": 2})
    env.set_seed(0)
    td = env.step_mdp(env.rand_step(env.reset()))
    out = env.step(env.rand_action(td).set("_step", PARTIAL))["next", "agents"]
    assert out["observation"][..., 2].tolist() == [[2, 2, 2], [1, 1, 1]]
    assert out["done"].squeeze(-1).tolist() == [[True, False, False], [False] * 3]
    assert not out["reward"][1].any()


def test_waiting_rows_of_a_rollout():
    env = CountingEnv(max_steps=2, batch_size=[3])
    rollout = env.rollout(9, break_when_all_done=True)
    assert rollout.shape == (3, 4)
    assert rollout["next", "observation"].squeeze(-1).tolist() == [[1, 2, 2, 2], [1, 2, 3, 3], [1, 2, 3, 4]]
    assert rollout["next", "reward"].squeeze(-1).sum(-1).tolist() == [2, 3, 4]
    assert rollout["done"].squeeze(-1).tolist() == [[False, False, True, True], [False] * 3 + [True], [False] * 4]
    assert "_step" not in rollout.keys()


@pytest.mark.parametrize("root_flags", [True, False])
def test_a_rollout_waits_until_everybody_is_done(root_flags):
    env = GroupedEnv(
        {"g": ["a", "b"], "h": ["c"]}, terminate={"a": 1, "b": 3, "c": 2}, rule="all", root_flags=root_flags
    )
    assert env.rollout(9, break_when_all_done=True).shape == (3,)


@pytest.mark.parametrize(
    ("mask", "text"),
    [
        (torch.ones(2), r"'_step' must be a bool mask of shape \[2\], got torch.float32 \[2\]"),
        (torch.ones(2, 1, dtype=torch.int64), r"must be a bool mask of shape \[2\], got torch.int64"),
    ],
)
def test_faults_of_masks(mask, text):
    env = CountingEnv(batch_size=[2])
    with pytest.raises(ResetError, match=text):
        env.step(env.rand_action(env.reset()).set("_step", mask))
