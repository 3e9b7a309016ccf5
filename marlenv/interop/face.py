"""What an env with one agent, or with one group, shows to those who know neither: one observation, action, reward."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.errors import GroupError, KeyMissing, SpecTypeError
from marlenv.interop.agents import HIDDEN, shown
from marlenv.interop.entries import action_entry, named, reward_entry
from marlenv.interop.spaces import check_mask, check_numbers, check_shape, space_of, value_of
from marlenv.keys import NestedKey, Path, nested, path
from marlenv.specs import Composite, MultiOneHot, StackedComposite
from marlenv.specs.plain import is_plain
from marlenv.tensordicts import fetch, write


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
        SpecError: it has several actions, or a reward of several numbers.
        KeyMissing: none of several rewards is called ``"reward"``, or there is none.
        GroupError: with ``each``, the agents of the group differ.
    """

    def __init__(
        self, who: str, env: Any, *, each: bool = False, hide: tuple[str, ...] = (), group: Path | None = None
    ) -> None:
        if not isinstance(env, EnvBase):
            raise SpecTypeError(f"{who}: expected an env of marlenv, got {type(env).__name__}")
        self.who, self.env, self.each = who, env, each
        self.action_key: NestedKey = action_entry(who, env, group)
        self.path: Path = path(self.action_key)[:-1]
        whole: Composite = env.full_observation_spec_unbatched
        if self.path and not getattr(env, "group_map", None) and whole.get(nested(self.path), None) is None:
            self.path = ()  # the action is an entry in others, and what is observed is at the root
        observed = whole[nested(self.path)] if self.path else whole
        action = env.full_action_spec_unbatched[self.action_key]
        self.agents = observed.shape[0] if observed.ndim else 1
        self.rows = env.batch_size.numel()
        self.reward_path = reward_entry(who, env, self.path, self.agents)
        """Where the reward is; None where the group is paid nothing."""
        if self.reward_path is None and group is None:
            raise KeyMissing(f"{who}: no reward of {named(self.path)}; the env has {env.reward_keys}")
        self._dim = bool(observed.ndim)
        self.lone = self._dim and (each or self.agents == 1)
        """Whether spaces are those of one agent, without a dimension of agents."""
        self.action_spec = action
        if self.lone:
            if each:
                self._refuse_unequal(observed, action)
            observed, action = observed[0], action[0]
        seen = {name: spec for name, spec in observed.items() if shown(name, (*HIDDEN, *hide))}
        self._names = list(seen)
        self._plain = {name: is_plain(spec) for name, spec in observed.items()}
        self._bare = self._names == ["observation"]
        where = "/".join((*self.path, ""))
        whole = seen["observation"] if self._bare else Composite(seen)
        self.observation_space = space_of(
            who, f"{where}observation" if self._bare else where[:-1] or "observation", whole
        )
        self.action_space = space_of(who, f"{where}action", action, acts=True)
        self.masked = "action_mask" in observed.keys()
        batch = (self.rows * self.agents,) if each else tuple(env.batch_size) if self.rows > 1 else ()
        self._acts: tuple[int, ...] = (*batch, *self.action_space.shape)
        if self.masked and self.lone:
            check_mask(who, "/".join(self.path), observed["action_mask"], self.action_space)

    def _refuse_unequal(self, observed: Any, action: Any) -> None:
        """Raises where the agents of the group cannot stand for one another."""
        for what, spec in (("observations", observed), ("actions", action)):
            lazy = isinstance(spec, StackedComposite)
            if lazy or any(spec[i] != spec[0] for i in range(1, self.agents)):
                raise GroupError(
                    f"{self.who}: the {what} of the agents of group {nested(self.path)!r} differ, and every agent is "
                    f"one of many equal envs here; put them into groups of their own, or pad them (unequal='pad')"
                )

    def observations(self, td: TensorDictBase) -> Any:
        """What is observed in data ``[*B]``, as values of the space, with the batch in front."""
        return self._as_space(self.entries(td, self._names))

    def check_names(self, option: str, names: Iterable[str]) -> None:
        """Raises unless all names are entries of the agents.

        Args:
            option: who names them, for the error.
            names: of entries.
        """
        spec: Composite = self.env.full_observation_spec
        known = sorted((spec[nested(self.path)] if self.path else spec).keys())
        if wrong := [name for name in names if name not in known]:
            raise KeyMissing(f"{self.who}: {option} names {wrong}, which are not observed; there are {known}")

    def entries(self, td: TensorDictBase, names: Iterable[str]) -> dict[str, Any]:
        """Entries of the agents as numbers, with the batch in front."""
        return {name: self._array(td, name) for name in names}

    def _array(self, td: TensorDictBase, name: str) -> Any:
        """An entry of the agents as numbers, with the batch in front."""
        node: Any = fetch(td, self.path) if self.path else td
        batch, value = td.ndim, node.get(name)
        array = value.detach().cpu().numpy() if self._plain[name] else self._observation_spec(name).to_numpy(value)
        return self._shaped(array, batch)

    def _shaped(self, value: Any, batch: int) -> Any:
        """Numbers ``[*B, A, ...]``, or dicts of them, as the space has them, with the batch in front."""
        if isinstance(value, dict):
            return {name: self._shaped(one, batch) for name, one in value.items()}
        if not isinstance(value, np.ndarray):
            return value
        if self.each:
            return value.reshape(self.rows * self.agents, *value.shape[batch + self._dim :])
        return value.squeeze(batch) if self.lone else value

    def _observation_spec(self, name: str) -> Any:
        return self.env.full_observation_spec[nested((*self.path, name))]

    def action_masks(self, td: TensorDictBase) -> NDArray[np.bool_]:
        """Which actions are legal; bool, with the batch in front."""
        return np.asarray(self._array(td, "action_mask"))

    def _as_space(self, values: dict[str, Any]) -> Any:
        if self._bare:
            space, value = self.observation_space, values["observation"]
            return value_of(space, value) if np.ndim(value) or isinstance(value, dict) else space.dtype.type(value)
        return {name: value_of(self.observation_space[name], value) for name, value in values.items()}

    def set_action(self, td: TensorDictBase, action: Any) -> TensorDictBase:
        """The data with an action of the space, with the batch in front.

        Raises:
            DtypeError: it is no number, or a fraction where actions are numbered.
            ShapeError: it has another shape than the space, with the batch in front; sizes of 1 may be left out.
        """
        spec, array = self.env.full_action_spec[self.action_key], np.asarray(action)
        check_numbers(self.who, self.action_key, spec, array, self.action_space)
        check_shape(self.who, array.shape, self._acts, self.action_space)
        if is_plain(spec):
            value = torch.as_tensor(array).to(td.device or spec.device, spec.dtype).reshape(spec.shape)
        else:
            several = (len(spec.nvec),) if isinstance(spec, MultiOneHot) else ()
            value = spec.encode(array.reshape((*spec.shape[:-1], *several)))
        write(td, self.action_key, value)
        return td

    def rewards(self, following: TensorDictBase) -> NDArray[np.float64]:
        """The reward of every row, the sum over agents, ``[*B]``; with ``each`` of every agent, ``[B * A]``."""
        value = fetch(following, self.reward_path or ("reward",))
        reward = _numbers(value, following.ndim).astype(np.float64)
        return self._of_agents(reward) if self.each else np.asarray(reward.sum(-1))

    def flags(self, following: TensorDictBase) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether rows are terminated, and truncated; bool ``[*B]``."""
        found = []
        for name in ("terminated", "truncated"):
            flag = following.get(name, None)
            if flag is None:
                flag = fetch(following, (*self.path, name))
            none = np.zeros(tuple(following.batch_size), dtype=bool)
            found.append(none if flag is None else np.asarray(_numbers(flag, following.ndim).all(-1)))
        return found[0], found[1]

    def flags_of_agents(
        self, following: TensorDictBase, of_rows: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether agents are terminated, and truncated, by themselves or with their row; bool ``[B * A]``."""
        found = []
        for name, of_row in zip(("terminated", "truncated"), of_rows, strict=True):
            flag = fetch(following, (*self.path, name)) if self.path else None
            whole = self._of_agents(of_row)
            found.append(whole if flag is None else whole | _numbers(flag, following.ndim).reshape(-1))
        return found[0], found[1]

    def absent(self, td: TensorDictBase, dead: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which agents are not there, before they are born or after their end; bool ``[B * A]``.

        Args:
            td: the data.
            dead: those that are done, where nothing in the data says who is there.
        """
        alive = fetch(td, (*self.path, "alive"))
        return dead if alive is None else self._of_agents(~alive.detach().cpu().numpy().astype(bool))

    def _of_agents(self, values: Any) -> NDArray[Any]:
        """Numbers of agents, or of rows, as numbers of agents; ``[B * A]``."""
        return values.reshape(-1) if values.size == self.rows * self.agents else values.reshape(-1).repeat(self.agents)


def _numbers(value: Tensor, batch_ndim: int) -> NDArray[Any]:
    """A tensor ``[*B, ...]`` as numbers ``[*B, n]``, in the same memory where it is this machine's."""
    array: NDArray[Any] = value.detach().cpu().numpy()
    return array.reshape(*array.shape[:batch_ndim], -1)
