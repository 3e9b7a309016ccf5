"""What an env with one agent, or with one group, shows to those who know neither: one observation, action, reward."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDictBase

from marlenv.envs import EnvBase
from marlenv.errors import SpecTypeError
from marlenv.interop.agents import HIDDEN
from marlenv.interop.spaces import space_of, value_of
from marlenv.keys import Path, nested, path
from marlenv.specs import Composite
from marlenv.tensordicts import fetch


class Face:
    """One agent's, or one group's, side of an env.

    Args:
        who: the adapter, for errors.
        env: our env.

    Raises:
        SpecTypeError: it is no env of ours, or more than one group acts.
    """

    def __init__(self, who: str, env: Any) -> None:
        if not isinstance(env, EnvBase):
            raise SpecTypeError(f"{who}: expected an env of marlenv, got {type(env).__name__}")
        if len(env.action_keys) != 1:
            raise SpecTypeError(
                f"{who}: expected an env in which one agent, or one group, acts, got actions {env.action_keys}; "
                f"to_pettingzoo_parallel takes every env with groups"
            )
        self.env = env
        *at, self._action = path(env.action_keys[0])
        self.path: Path = tuple(at)
        whole: Composite = env.full_observation_spec_unbatched
        seen = whole[nested(self.path)] if self.path else whole
        action = env.full_action_spec_unbatched[env.action_keys[0]]
        self.agents = seen.shape[0] if seen.ndim else 1
        self.lone = bool(seen.ndim) and self.agents == 1
        """Whether there is a dimension of agents with one agent in it, which nobody needs."""
        if self.lone:
            seen, action = seen[0], action[0]
        shown = {name: spec for name, spec in seen.items() if name not in HIDDEN}
        self._names = list(shown)
        self._bare = self._names == ["observation"]
        self.observation_space = space_of(who, "observation", shown["observation"] if self._bare else Composite(shown))
        self.action_space = space_of(who, "action", action)

    def seen(self, td: TensorDictBase) -> Any:
        """What is observed in data ``[*B]``, as values of the space, with the batch in front."""
        node: Any = fetch(td, self.path) if self.path else td
        batch = td.ndim
        values = {}
        for name in self._names:
            value = node.get(name)
            spec = self.env.full_observation_spec[nested((*self.path, name))]
            array = spec.to_numpy(value) if not self._plain(spec) else value.detach().cpu().numpy()
            values[name] = array.squeeze(batch) if self.lone and isinstance(array, np.ndarray) else array
        return self._as_space(values)

    def _plain(self, spec: Any) -> bool:
        return type(spec).__name__ in ("Bounded", "Unbounded", "Binary", "Categorical", "MultiCategorical")

    def _as_space(self, values: dict[str, Any]) -> Any:
        if self._bare:
            space, value = self.observation_space, values["observation"]
            return value_of(space, value) if np.ndim(value) or isinstance(value, dict) else space.dtype.type(value)
        return {name: value_of(self.observation_space[name], value) for name, value in values.items()}

    def told(self, td: TensorDictBase, action: Any) -> TensorDictBase:
        """The data with an action of the space, with the batch in front."""
        spec = self.env.full_action_spec[self.env.action_keys[0]]
        if self._plain(spec):
            value = torch.as_tensor(np.asarray(action)).to(spec.dtype).reshape(spec.shape)
        else:
            value = spec.encode(np.asarray(action).reshape(spec.shape[:-1]))
        return td.set(self.env.action_keys[0], value)

    def paid(self, following: TensorDictBase) -> NDArray[np.float64]:
        """The reward of every row, the sum over agents; ``[*B]``."""
        reward = fetch(following, path(self.env.reward_keys[0]))
        return np.asarray(reward.detach().cpu().double().flatten(following.ndim).sum(-1).numpy())

    def flags(self, following: TensorDictBase) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether rows are terminated, and truncated; bool ``[*B]``."""
        found = []
        for name in ("terminated", "truncated"):
            flag = following.get(name, None)
            if flag is None:
                flag = fetch(following, (*self.path, name))
            none = np.zeros(tuple(following.batch_size), dtype=bool)
            found.append(none if flag is None else flag.flatten(following.ndim).all(-1).cpu().numpy())
        return found[0], found[1]
