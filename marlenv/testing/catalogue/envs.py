"""Every env of the env layer, in the forms that go wrong: mocks, series, transformed and model-based envs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from marlenv.envs import DreamerEnv, EnvBase, EnvMetaData, ModelBasedEnvBase, RandomPolicy
from marlenv.games import ChessEnv
from marlenv.specs import Bounded, Composite, Unbounded
from marlenv.testing.catalogue.groups import LAYOUTS
from marlenv.testing.counting import CheapEnv
from marlenv.testing.mocks import CountingEnv, GroupedEnv, MaskedEnv, UnevenEnv
from marlenv.transforms import Compose, RewardSum, StepCounter, TransformedEnv
from marlenv.vector import SerialEnv

ABSTRACT: tuple[type, ...] = (EnvBase, ModelBasedEnvBase)
"""Public classes of which there are no instances."""


class Example(NamedTuple):
    """An env with a name.

    >>> ENVS[0].make()
    CountingEnv(batch_size=[], device=None)
    """

    name: str
    make: Callable[[], EnvBase]


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

    def _reset(self, tensordict: TensorDictBase | None, **_: Any) -> TensorDictBase:
        return self.full_observation_spec.zero()

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self.full_observation_spec.zero().update(self.full_reward_spec.zero())

    def _set_seed(self, seed: int | None) -> None:
        pass


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
    Example("transformed", lambda: TransformedEnv(CountingEnv(), StepCounter(3))),
    Example(
        "transformed series", lambda: TransformedEnv(SerialEnv(2, GroupedEnv), Compose(RewardSum(), StepCounter(3)))
    ),
    Example("series of transformed", lambda: SerialEnv(2, lambda: TransformedEnv(GroupedEnv(), Compose(RewardSum())))),
    Example("dreamer", _dreamer),
    Example("chess", lambda: ChessEnv(layout="grouped", batch_size=[2])),
]

HELPERS: dict[type, Callable[[], Any]] = {
    EnvMetaData: lambda: EnvMetaData.metadata_from_env(CountingEnv()),
    RandomPolicy: lambda: RandomPolicy(CountingEnv().action_spec),
}
"""Public classes that are no envs, and how to make one."""
