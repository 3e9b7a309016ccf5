"""Entries of our data as nests of ALF's, and what keeps them as they were before transforms."""

from __future__ import annotations

from typing import Any

from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.interop.agents import shown
from marlenv.interop.alf.time_step import alf_spec
from marlenv.keys import Path, nested
from marlenv.specs import Composite
from marlenv.specs.plain import is_plain
from marlenv.tensordicts import fetch
from marlenv.transforms import Transform
from marlenv.transforms.base import Kind

UNTRANSFORMED = "untransformed"


class Nest:
    """The entries at one place in an env's data as a nest of ALF's: a tensor where there is ``"observation"`` alone.

    Args:
        who: the adapter, for errors.
        env: our env.
        at: where the entries are.
        lone: whether there is a dimension of agents with one agent in it, which is left out.
        hide: entries that are no part of it.

    Raises:
        SpecError: ALF cannot express an entry; the text says which.
    """

    def __init__(self, who: str, env: EnvBase, at: Path, lone: bool, hide: tuple[str, ...] = ()) -> None:
        whole: Any = env.full_observation_spec_unbatched
        node = whole[nested(at)] if at else whole
        self.at, self.lone = at, lone
        self._specs = {key: one for key, one in (node[0] if lone else node).items() if shown(key, hide)}
        self._alone = list(self._specs) == ["observation"]
        whole = self._specs["observation"] if self._alone else Composite(self._specs)
        self.spec = alf_spec(who, "/".join((*at, "observation") if self._alone else at) or "observation", whole)

    def read(self, td: TensorDictBase) -> Any:
        """The values in data ``[B]``."""
        node = fetch(td, self.at) if self.at else td
        if self._alone:
            return self._value(node.get("observation"), self._specs["observation"])
        return {key: self._value(node.get(key), spec) for key, spec in self._specs.items()}

    def _value(self, value: Any, spec: Any) -> Any:
        if isinstance(value, TensorDictBase):
            return {key: self._value(value.get(key), spec[key]) for key in value.keys()}
        return numbers(value, spec, self.lone)


def numbers(value: Tensor, spec: Any, lone: bool) -> Tensor:
    """Values as ALF's specs have them: one-hot ones as numbers, and without a lone agent's dimension."""
    value = value if is_plain(spec) else value.byte().argmax(-1)
    return value.squeeze(1) if lone else value


class KeepUntransformed(Transform):
    """Keeps what an env observes and is paid in ``"untransformed"``, before the transforms that come after this one.

    :func:`marlenv.to_alf` makes ``TimeStep.untransformed`` of it.

    >>> env = marlenv.PendulumEnv()
    >>> env = marlenv.TransformedEnv(env, marlenv.Compose(KeepUntransformed(), marlenv.RewardScaling(0, 0.1)))
    >>> step = env.rollout(1)["next"]
    >>> torch.allclose(step["untransformed", "reward"] * 0.1, step["reward"])
    True
    """

    def join(self, env: EnvBase) -> None:
        """Learns which entries the env has."""
        self._reward_keys = list(env.reward_keys)

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds copies of observations and rewards."""
        kept, rewards = specs["observation"].clone(), specs["reward"].clone()
        for key in self._reward_keys:
            kept[key] = rewards[key]
        self._spec = kept
        specs["observation"][UNTRANSFORMED] = kept

    def _reset(self, tensordict: TensorDictBase | None, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._keep(tensordict_reset)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        return self._keep(next_tensordict)

    def _keep(self, td: TensorDictBase) -> TensorDictBase:
        """Adds copies of what is there, and zeros for the rewards that a reset lacks."""
        kept = TensorDict({}, td.batch_size, device=td.device)
        for key in self._spec.keys(True, True):
            value = fetch(td, key)
            kept.set(key, self._spec[key].zero() if value is None else value.clone())
        return td.set(UNTRANSFORMED, kept)
