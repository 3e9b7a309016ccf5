"""``DiscreteActionProjection`` of an env that says which of its actions are legal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tensordict import TensorDictBase

from marlenv import (
    ActionMask,
    Bounded,
    Compose,
    Composite,
    DiscreteActionProjection,
    ExcludeTransform,
    OneHot,
    RenameTransform,
    SerialEnv,
    Transform,
    TransformedEnv,
    Unbounded,
)
from marlenv.testing.mocks import MaskedEnv


class Legal(MaskedEnv):
    """Its actions are one-hot; the env rewards an illegal one with -1, and keeps what it was told."""

    def __init__(self, batch_size: Any = (), dtype: torch.dtype = torch.bool) -> None:
        super().__init__(batch_size=batch_size)
        self.action_spec = OneHot(4, (*self.batch_size, 4), dtype=dtype)
        self.run_type_checks = True
        self.told: list[torch.Tensor] = []

    def _step(self, tensordict: TensorDictBase) -> Any:
        number = tensordict["action"].long().argmax(-1)
        self.told.append(number)
        return super()._step(tensordict.copy().set("action", number))


class Called(Legal):
    """Its mask has a name of its own."""

    def __init__(self, batch_size: Any = ()) -> None:
        super().__init__(batch_size)
        mask = Bounded(0, 1, (*self.batch_size, 4), dtype=torch.int8)
        shape = self.batch_size
        self.observation_spec = Composite(observation=Unbounded((*shape, 1)), legal=mask, shape=shape)

    def _reset(self, tensordict: TensorDictBase | None) -> Any:
        out = super()._reset(tensordict)
        return out.set("legal", out.pop("action_mask").to(torch.int8))

    def _step(self, tensordict: TensorDictBase) -> Any:
        out = super()._step(tensordict)
        return out.set("legal", out.pop("action_mask").to(torch.int8))


class Reads(Legal):
    """It reads in the data which actions are legal, and they are those that it gave."""

    def __init__(self, batch_size: Any = (), state: bool = False) -> None:
        super().__init__(batch_size)
        if state:
            mask = self.observation_spec["action_mask"].clone()
            self.full_state_spec = Composite(action_mask=mask, shape=self.batch_size)

    def _step(self, tensordict: TensorDictBase) -> Any:
        assert torch.equal(tensordict["action_mask"], self._observed()["action_mask"].expand(*self.batch_size, 4))
        return super()._step(tensordict)


CHAINS: dict[str, tuple[type[Legal], Callable[[int], list[Transform]]]] = {
    "alone": (Legal, lambda n: [DiscreteActionProjection(4, n)]),
    "before ActionMask": (Legal, lambda n: [DiscreteActionProjection(4, n), ActionMask()]),
    "behind ActionMask": (Legal, lambda n: [ActionMask(), DiscreteActionProjection(4, n)]),
    "twice": (Legal, lambda n: [ActionMask(), DiscreteActionProjection(4, n), DiscreteActionProjection(n, n + 2)]),
    "the mask left out": (Legal, lambda n: [DiscreteActionProjection(4, n), ExcludeTransform("action_mask")]),
    "the mask renamed": (
        Legal,
        lambda n: [ActionMask(), DiscreteActionProjection(4, n), RenameTransform(["action_mask"], ["allowed"])],
    ),
    "another name": (Called, lambda n: [ActionMask(mask_key="legal"), DiscreteActionProjection(4, n)]),
    "another name, between": (
        Called,
        lambda n: [ActionMask(mask_key="legal"), DiscreteActionProjection(4, n), ActionMask(mask_key="legal")],
    ),
}


@pytest.mark.parametrize("n", [4, 5, 7])
@pytest.mark.parametrize("chain", CHAINS)
def test_random_actions_stay_legal(chain: str, n: int) -> None:
    kind, made = CHAINS[chain]
    env = TransformedEnv(kind([16]), Compose(*made(n)))
    env.check_env_specs()
    wide, count = env.action_spec.shape[-1], 24
    out = env.rollout(count, break_when_any_done=False)
    assert (out["next", "reward"] == 1).all()
    counts = out["action"].long().argmax(-1).flatten().bincount(minlength=wide)
    assert (counts > 0).all()  # numbers beyond the few are played, too
    td = env.reset()
    if env.action_spec.mask is not None:
        for _ in range(4):
            td = env.step_mdp(env.step(td.set("action", env.action_spec.rand())))
            assert env.action_spec.mask.shape == (16, wide)
            assert env.action_spec.mask[:, 4:].all()


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64])
def test_the_env_is_told_its_own_dtype(dtype: torch.dtype) -> None:
    env = TransformedEnv(Legal([3], dtype), DiscreteActionProjection(4, 6))
    beyond = torch.zeros(3, 6, dtype=dtype)
    beyond[:, 5] = 1
    told = env.transform.inv(env.reset().set("action", beyond))["action"]
    assert told.dtype == dtype
    assert env.base_env.action_spec.is_in(told)
    assert told.long().argmax(-1).remainder(2).eq(0).all()  # even actions are legal at first


def test_a_row_draws_what_it_draws_in_a_batch_of_any_size() -> None:
    def told(rows: int) -> torch.Tensor:
        env = TransformedEnv(Legal([rows]), DiscreteActionProjection(4, 9))
        env.set_seed(5)
        env.rollout(6)
        return torch.stack(env.base_env.told, -1)

    assert torch.equal(told(3), told(8)[:3])


def test_masks_of_the_envs_of_a_vector() -> None:
    pool = SerialEnv(5, lambda: TransformedEnv(Called(), ActionMask(mask_key="legal")))
    env = TransformedEnv(pool, DiscreteActionProjection(4, 9))
    assert (env.rollout(6)["next", "reward"] == 1).all()


def test_a_mask_that_is_only_read_is_kept_once() -> None:
    env = Legal().append_transform(DiscreteActionProjection(4, 6)).append_transform(ActionMask())
    assert env.reset()["action_mask"].int().tolist() == [1, 0, 1, 0, 1, 1]
    assert {*env.observation_keys} == {"observation", "action_mask"}


@pytest.mark.parametrize("state", [False, True])
def test_an_env_reads_the_mask_that_it_gave(state: bool) -> None:
    env = TransformedEnv(Reads([16], state), Compose(DiscreteActionProjection(4, 6), DiscreteActionProjection(6, 7)))
    env.check_env_specs()
    assert (env.rollout(12, break_when_any_done=False)["next", "reward"] == 1).all()
    some = torch.arange(16) % 3 > 0  # rows that are stepped
    out = env.step(env.rand_action(env.reset()).set("_step", some))["next"]
    assert torch.equal(out["observation"].squeeze(-1), some.float())
    assert torch.equal(out["action_mask"][:, 0], ~some)
