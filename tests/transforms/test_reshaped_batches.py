"""Rows in another batch: what transforms remember is saved, restored and begun as in the batch of the env."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from tensordict import TensorDict

import marlenv
from marlenv import (
    BatchSizeTransform,
    Compose,
    EnvBase,
    SerialEnv,
    StepCounter,
    Transform,
    TransformedEnv,
)
from marlenv.testing.comparison import differences
from marlenv.testing.mocks import CountingEnv

GRID = (2, 3)
RANDOM = marlenv.ActionDiscretizer.SamplingStrategy.RANDOM
REMEMBER: dict[str, Callable[[], Transform]] = {
    "StepCounter": StepCounter,
    "RewardSum": marlenv.RewardSum,
    "TrajCounter": marlenv.TrajCounter,
    "InitTracker": marlenv.InitTracker,
    "CatFrames": lambda: marlenv.CatFrames(2, -1, in_keys=["observation"]),
    "DropMessages": lambda: marlenv.DropMessages(0.5, in_keys=["observation"]),
    "NoopResetEnv": lambda: marlenv.NoopResetEnv(2),
    "ActionDiscretizer": lambda: marlenv.ActionDiscretizer(3, sampling=RANDOM),
    "RandomTruncationTransform": lambda: Compose(StepCounter(), marlenv.RandomTruncationTransform(1, 4, prob=1.0)),
    "FiniteTensorDictCheck": marlenv.FiniteTensorDictCheck,
    "VecNormV2 in the data": lambda: marlenv.VecNormV2(["observation"], stateful=False),
}


def of_children(i: int) -> EnvBase:
    return TransformedEnv(CountingEnv(3 + i), marlenv.RewardSum(out_keys=["all"]))


BASES: dict[str, Callable[[], EnvBase]] = {
    "one env": lambda: CountingEnv(3, batch_size=[6]),
    "a pool that remembers": lambda: SerialEnv(6, [partial(of_children, i) for i in range(6)]),
}


def grid() -> Transform:
    return BatchSizeTransform(reshape_fn=lambda td: td.reshape(GRID))


def pair(base: str, name: str, order: str) -> tuple[EnvBase, EnvBase]:
    """An env of 6 rows, and one of 2 x 3."""
    made = []
    for other in (Transform(), grid()):
        parts = (other, REMEMBER[name]()) if order == "behind" else (REMEMBER[name](), other)
        made.append(TransformedEnv(BASES[base](), Compose(*parts)))
        made[-1].set_seed(3)
    return made[0], made[1]


def play(flat: EnvBase, shaped: EnvBase, begun: tuple[TensorDict, TensorDict], n: int) -> tuple[TensorDict, TensorDict]:
    """Goes on with the same actions in both, which give the same."""
    one, two = begun
    for i in range(n):
        for key, spec in flat.full_action_spec.items(True, True):
            action = spec.project(spec.zero() + i % 2)
            one, two = one.set(key, action), two.set(key, action.reshape(*GRID, *action.shape[1:]))
        step, one = flat.step_and_maybe_reset(one)
        same, two = shaped.step_and_maybe_reset(two)
        assert not differences(step.reshape(GRID), same), i
    return one, two


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("order", ["behind", "before"])
@pytest.mark.parametrize("name", REMEMBER)
def test_a_state_is_gone_on_from_in_another_batch(name, order, base) -> None:
    flat, shaped = pair(base, name, order)
    at = play(flat, shaped, (flat.reset(), shaped.reset()), 5)
    saved = flat.get_state(at[0]), shaped.get_state(at[1])
    assert saved[1].batch_size == (6,)
    later = play(flat, shaped, at, 3)
    again = flat.set_state(saved[0]), shaped.set_state(saved[1])
    assert not differences(again[0].reshape(GRID), again[1])
    twice = play(flat, shaped, again, 3)
    seen = [key for key in flat.observation_keys if key != "traj_count"]  # whose numbers are never given twice
    assert not differences(later[1].select(*seen), twice[1].select(*seen))


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("order", ["behind", "before"])
@pytest.mark.parametrize("name", REMEMBER)
def test_some_rows_are_put_back_in_another_batch(name, order, base) -> None:
    flat, shaped = pair(base, name, order)
    at = play(flat, shaped, (flat.reset(), shaped.reset()), 2)
    saved = flat.get_state(at[0]), shaped.get_state(at[1])
    at = play(flat, shaped, at, 3)
    mask = torch.tensor([[True], [False], [False], [True], [True], [False]])
    again = flat.set_state(saved[0], mask, at[0]), shaped.set_state(saved[1], mask.reshape(*GRID, 1), at[1])
    assert not differences(again[0].reshape(GRID), again[1])
    play(flat, shaped, again, 3)


def test_some_rows_are_put_back_where_nothing_is_remembered() -> None:
    env = TransformedEnv(CountingEnv(9, batch_size=[6]), grid())
    state, mask = env.get_state(env.reset()), torch.zeros(*GRID, 1, dtype=torch.bool)
    mask[0, 1] = True
    env.rollout(3)
    assert env.set_state(state, mask)["observation"].squeeze(-1).tolist() == [[3.0, 0.0, 3.0], [3.0, 3.0, 3.0]]


def test_statistics_in_the_data_begin_in_the_batch_that_they_are_of() -> None:
    """The running mean and deviation of 0 and 1, of every row."""
    norm = marlenv.VecNormV2(["observation"], stateful=False, decay=1.0)
    env = TransformedEnv(CountingEnv(9, batch_size=[6]), Compose(norm, grid()))
    seen = env.rollout(1)["next", "observation"]
    assert seen.shape == (*GRID, 1, 1)
    assert torch.allclose(seen, torch.ones(*GRID, 1, 1))  # (1 - 0.5) / 0.5


def test_rows_that_an_env_of_any_number_is_given_draw_for_themselves() -> None:
    drop = marlenv.DropMessages(0.5, in_keys=["th"], flag_name="arrived")
    env = TransformedEnv(marlenv.PendulumEnv(), Compose(BatchSizeTransform(batch_size=[4]), drop))
    env.set_seed(0)
    arrived = env.rollout(20)["next", "arrived"].flatten(1)
    assert len({tuple(row.tolist()) for row in arrived}) == 4
    assert env.set_state(env.get_state(env.reset())).batch_size == (4,)
