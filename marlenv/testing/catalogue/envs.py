"""Every env of the env layer, in the forms that go wrong: mocks, series, transformed and model-based envs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from marlenv.envs import DreamerEnv, EnvBase, EnvMetaData, ModelBasedEnvBase, RandomPolicy
from marlenv.games.chess import Chess, GroupedChessEnv
from marlenv.specs import Bounded, Composite, Unbounded
from marlenv.testing.catalogue.groups import LAYOUTS
from marlenv.testing.counting import CheapEnv
from marlenv.testing.mocks import CountingEnv, GroupedEnv, MaskedEnv, UnevenEnv
from marlenv.transforms import AutoResetEnv, AutoResetTransform, Compose, RewardSum, StepCounter, TransformedEnv
from marlenv.vector import AsyncEnvPool, EnvCreator, ParallelEnv, SerialEnv

ABSTRACT: tuple[type, ...] = (AsyncEnvPool, EnvBase, ModelBasedEnvBase)
"""Public classes of which there are no instances."""


class Example(NamedTuple):
    """An env with a name.

    >>> ENVS[0].make()
    CountingEnv(batch_size=[], device=None)
    """

    name: str
    make: Callable[[], EnvBase]


class _Clock(CountingEnv):
    """Starts again by itself when it is done."""

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        out = super()._step(tensordict)
        return out.update(self._reset(None)) if bool(out["done"].all()) else out


class _Imagined(nn.Module):
    """A world model without parameters: the state moves by the action, the belief fades."""

    def forward(self, state: Tensor, belief: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return state + action, belief * 0.5, state.sum(-1, keepdim=True)


class _Latent(EnvBase):
    """What a dreamer takes its specs from."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_spec = Composite(state=Unbounded((3,)), belief=Unbounded((2,)))
        self.action_spec = Bounded(-1, 1, (1,))
        self.reward_spec = Unbounded((1,))

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        return self.full_observation_spec.zero()

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self.full_observation_spec.zero().update(self.full_reward_spec.zero())

    def _set_seed(self, seed: int | None) -> None:
        pass


class _Pictures(CountingEnv):
    """A counting env that shows its count as a shade of grey, ``[*B, 4, 6, 3]``."""

    def __init__(self) -> None:
        super().__init__(max_steps=3, batch_size=[2])
        self.observation_spec = Composite(
            observation=Unbounded((2, 1)), pixels=Bounded(0, 255, (2, 4, 6, 3), dtype=torch.uint8), shape=(2,)
        )

    def _show(self, td: TensorDictBase) -> TensorDictBase:
        shade = (td["observation"] * 40).to(torch.uint8)
        return td.set("pixels", shade.reshape(2, 1, 1, 1).expand(2, 4, 6, 3).clone())

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        return self._show(super()._reset(tensordict))

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._show(super()._step(tensordict))

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        return self._show(super()._set_state(state))


def _dreamer() -> DreamerEnv:
    model = TensorDictModule(_Imagined(), in_keys=["state", "belief", "action"], out_keys=["state", "belief", "reward"])
    decoder = TensorDictModule(nn.Identity(), in_keys=["state"], out_keys=["decoded"])
    return DreamerEnv(model, prior_shape=(3,), belief_shape=(2,), obs_decoder=decoder).set_specs_from_env(_Latent())


def _uneven_lengths() -> list[dict[str, Any]]:
    return [{"max_steps": n} for n in (1, 2, 4)]


ENVS = [
    Example("counting", CountingEnv),
    Example("counting rows", lambda: CountingEnv(max_steps=2, batch_size=[3])),
    Example("counting grid", lambda: CountingEnv(max_steps=2, batch_size=[2, 2])),
    Example("pictures", _Pictures),
    Example("masked", MaskedEnv),
    Example("masked rows", lambda: MaskedEnv(n=3, max_steps=3, batch_size=[2])),
    *(Example(f"groups: {one.name}", lambda one=one: GroupedEnv(one.group_map)) for one in LAYOUTS),  # type: ignore[misc]
    Example("ends apart", lambda: GroupedEnv(terminate={"agent_0": 1}, truncate={"agent_1": 2}, batch_size=[2])),
    Example("ends together", lambda: GroupedEnv(terminate={"agent_0": 1}, truncate={"agent_1": 2}, rule="all")),
    Example(
        "groups by themselves",
        lambda: GroupedEnv({"g": ["a", "b"], "h": ["c"]}, terminate={"a": 1, "c": 2}, root_flags=False, batch_size=[2]),
    ),
    Example("uneven agents", UnevenEnv),
    Example("padded agents", lambda: UnevenEnv("pad")),
    Example("cheap", lambda: CheapEnv([2])),
    Example("series", lambda: SerialEnv(3, CountingEnv, create_env_kwargs=_uneven_lengths())),
    Example("series of rows", lambda: SerialEnv(2, lambda: GroupedEnv(terminate={"agent_0": 2}, batch_size=[2]))),
    Example("series of series", lambda: SerialEnv(2, lambda: SerialEnv(2, MaskedEnv))),
    Example("series of uneven agents", lambda: SerialEnv(2, UnevenEnv)),
    Example("threads", lambda: AsyncEnvPool([CountingEnv] * 2)),
    Example("asynchronous", lambda: AsyncEnvPool([CountingEnv] * 2, backend="multiprocessing", envs_per_worker=2)),
    Example("processes", lambda: ParallelEnv(2, CountingEnv, num_processes=1)),
    Example("resets itself", lambda: AutoResetEnv(_Clock(3), AutoResetTransform(fill_float=-1.0))),
    Example("transformed", lambda: TransformedEnv(CountingEnv(), StepCounter(3))),
    Example(
        "transformed series", lambda: TransformedEnv(SerialEnv(2, GroupedEnv), Compose(RewardSum(), StepCounter(3)))
    ),
    Example("series of transformed", lambda: SerialEnv(2, lambda: TransformedEnv(GroupedEnv(), Compose(RewardSum())))),
    Example("dreamer", _dreamer),
    Example("chess", lambda: GroupedChessEnv(Chess(), batch_size=[2])),
]

HELPERS: dict[type, Callable[[], Any]] = {
    EnvCreator: lambda: EnvCreator(CountingEnv),
    EnvMetaData: lambda: EnvMetaData.metadata_from_env(CountingEnv()),
    RandomPolicy: lambda: RandomPolicy(CountingEnv().action_spec),
}
"""Public classes that are no envs, and how to make one."""
