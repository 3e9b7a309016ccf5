"""What an env with one agent, or with one group, shows to those who know neither: one observation, action, reward."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDictBase

from marlenv.envs import EnvBase
from marlenv.errors import GroupError, SpecTypeError
from marlenv.interop.agents import HIDDEN
from marlenv.interop.spaces import check_mask, space_of, value_of
from marlenv.keys import NestedKey, Path, nested, path
from marlenv.specs import Composite, StackedComposite
from marlenv.specs.plain import is_plain
from marlenv.tensordicts import fetch


class Face:
    """One agent's, or one group's, side of an env.

    Args:
        who: the adapter, for errors.
        env: our env.
        each: every agent of every row is one of many, ``[B * A]``, instead of a group that acts as one.
        hide: entries of the group that are not observed, besides those that no library knows.
        group: the group; the one that acts when left out.

    Raises:
        SpecTypeError: it is no env of ours, or more than one group acts and none is named.
        GroupError: with ``each``, the agents of the group differ.
    """

    def __init__(
        self, who: str, env: Any, *, each: bool = False, hide: tuple[str, ...] = (), group: Path | None = None
    ) -> None:
        if not isinstance(env, EnvBase):
            raise SpecTypeError(f"{who}: expected an env of marlenv, got {type(env).__name__}")
        if group is None and len(env.action_keys) != 1:
            raise SpecTypeError(
                f"{who}: expected an env in which one agent, or one group, acts, got actions {env.action_keys}; "
                f"to_pettingzoo_parallel takes every env with groups"
            )
        self.who, self.env, self.each = who, env, each
        own = [key for key in env.action_keys if group in (None, path(key)[:-1])]
        self.action_key: NestedKey = own[0]
        self.path: Path = path(own[0])[:-1]
        whole: Composite = env.full_observation_spec_unbatched
        seen = whole[nested(self.path)] if self.path else whole
        action = env.full_action_spec_unbatched[self.action_key]
        self.agents = seen.shape[0] if seen.ndim else 1
        self.rows = env.batch_size.numel()
        self._dim = bool(seen.ndim)
        self.lone = self._dim and (each or self.agents == 1)
        """Whether spaces are those of one agent, without a dimension of agents."""
        self.action_spec = action
        if self.lone:
            if each:
                self._refuse_unequal(seen, action)
            seen, action = seen[0], action[0]
        shown = {name: spec for name, spec in seen.items() if name not in HIDDEN and name not in hide}
        self._names = list(shown)
        self._bare = self._names == ["observation"]
        self.observation_space = space_of(who, "observation", shown["observation"] if self._bare else Composite(shown))
        self.action_space = space_of(who, "action", action)
        self.masked = "action_mask" in seen.keys()
        if self.masked and self.lone:
            check_mask(who, "/".join(self.path), seen["action_mask"], self.action_space)

    def _refuse_unequal(self, seen: Any, action: Any) -> None:
        """Raises where the agents of the group cannot stand for one another."""
        for what, spec in (("observations", seen), ("actions", action)):
            lazy = isinstance(spec, StackedComposite)
            if lazy or any(spec[i] != spec[0] for i in range(1, self.agents)):
                raise GroupError(
                    f"{self.who}: the {what} of the agents of group {nested(self.path)!r} differ, and every agent is "
                    f"one of many equal envs here; put them into groups of their own, or pad them (unequal='pad')"
                )

    def seen(self, td: TensorDictBase) -> Any:
        """What is observed in data ``[*B]``, as values of the space, with the batch in front."""
        return self._as_space({name: self._array(td, name) for name in self._names})

    def _array(self, td: TensorDictBase, name: str) -> Any:
        """An entry of the agents as numbers, with the batch in front."""
        node: Any = fetch(td, self.path) if self.path else td
        batch, value = td.ndim, node.get(name)
        spec = self.env.full_observation_spec[nested((*self.path, name))]
        array = value.detach().cpu().numpy() if is_plain(spec) else spec.to_numpy(value)
        if not isinstance(array, np.ndarray):
            return array
        if self.each:
            return array.reshape(self.rows * self.agents, *array.shape[batch + self._dim :])
        return array.squeeze(batch) if self.lone else array

    def masks(self, td: TensorDictBase) -> NDArray[np.bool_]:
        """Which actions are legal; bool, with the batch in front."""
        return np.asarray(self._array(td, "action_mask"))

    def _as_space(self, values: dict[str, Any]) -> Any:
        if self._bare:
            space, value = self.observation_space, values["observation"]
            return value_of(space, value) if np.ndim(value) or isinstance(value, dict) else space.dtype.type(value)
        return {name: value_of(self.observation_space[name], value) for name, value in values.items()}

    def told(self, td: TensorDictBase, action: Any) -> TensorDictBase:
        """The data with an action of the space, with the batch in front."""
        spec = self.env.full_action_spec[self.action_key]
        if is_plain(spec):
            value = torch.as_tensor(np.asarray(action)).to(device=spec.device, dtype=spec.dtype).reshape(spec.shape)
        else:
            value = spec.encode(np.asarray(action).reshape(spec.shape[:-1]))
        return td.set(self.action_key, value)

    def paid(self, following: TensorDictBase) -> NDArray[np.float64]:
        """The reward of every row, the sum over agents, ``[*B]``; with ``each`` of every agent, ``[B * A]``."""
        keys = [path(key) for key in self.env.reward_keys]
        reward = fetch(following, next((key for key in keys if key[:-1] == self.path), keys[0]))
        flat = reward.detach().cpu().double().flatten(following.ndim)
        return self._of_agents(flat.numpy()) if self.each else np.asarray(flat.sum(-1).numpy())

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

    def flags_of_agents(self, following: TensorDictBase) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether agents are terminated, and truncated, by themselves or with their row; bool ``[B * A]``."""
        found = []
        for name, of_row in zip(("terminated", "truncated"), self.flags(following), strict=True):
            flag = fetch(following, (*self.path, name)) if self.path else None
            whole = self._of_agents(of_row.reshape(-1, 1))
            own = whole if flag is None else flag.flatten(following.ndim).cpu().numpy().reshape(-1)
            found.append(whole | own)
        return found[0], found[1]

    def _of_agents(self, values: Any) -> NDArray[Any]:
        """Numbers of agents, or of rows, as numbers of agents; ``[B * A]``."""
        return np.broadcast_to(values.reshape(self.rows, -1), (self.rows, self.agents)).reshape(-1)
