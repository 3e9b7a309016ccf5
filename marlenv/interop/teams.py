"""The groups of an env, each as one agent, for adapters to libraries whose data are dicts by agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tensordict import TensorDictBase

from marlenv.errors import GroupError, SpecTypeError
from marlenv.interop.agents import acting_groups, begun, check_one_row_of_groups, lone, to_the_end
from marlenv.interop.face import Face
from marlenv.keys import nested
from marlenv.tensordicts import fetch

SEPARATOR = "."
"""Between the names of nested groups: RLlib's policies, which may be called as agents are, hold no slashes."""


class Teams:
    """What each group of an env observes, does and gets, as :class:`~marlenv.interop.agents.Agents` has it of agents.

    A group observes and acts in vectors, those of its agents one after another; masks and images stay ``[A, ...]``. Its
    reward is the sum, and it is done when all of its agents are. Groups that the env plays itself are nobody's. A group
    within others is called by all of their names, ``"red.scouts"``.

    Args:
        who: the adapter, for errors.
        env: with groups, and one row.

    Raises:
        SpecTypeError: it is no env of ours, or has no groups.
        GroupError: two groups would have one name.
        Unsupported: it has several rows.
    """

    def __init__(self, who: str, env: Any) -> None:
        check_one_row_of_groups(who, env)
        self.who, self.env = who, env
        groups = {path: SEPARATOR.join(path) for path in acting_groups(who, env).groups}
        self.names = list(groups.values())
        if twice := sorted({name for name in self.names if self.names.count(name) > 1}):
            raise GroupError(
                f"{who}: several groups would be called {twice}, of {[nested(one) for one in groups]}; rename groups"
            )
        self._faces = {name: Face(who, env, group=path) for path, name in groups.items()}
        self.observation_spaces = {name: _flat(face.observation_space) for name, face in self._faces.items()}
        self.action_spaces = {name: _flat(face.action_space) for name, face in self._faces.items()}

    def reset(self, seed: int | None, options: Mapping[str, Any] | None = None) -> TensorDictBase:
        """Starts an episode, with options of the env's reset; the data of its start."""
        return begun(self.env, seed, options)

    def step(self, td: TensorDictBase, actions: Mapping[str, Any]) -> TensorDictBase:
        """Plays actions, by group and as spaces have them; groups that are left out do anything legal.

        Returns:
            What followed.
        """
        if unknown := sorted(set(actions) - set(self.names)):
            raise SpecTypeError(f"{self.who}: no groups are called {unknown}; there are {self.names}")
        for name, face in self._faces.items():
            if name in actions:
                action = np.asarray(actions[name])
                flat = action.shape == self.action_spaces[name].shape
                face.set_action(td, action.reshape(face.action_space.shape) if flat else action)
            else:
                spec = self.env.full_action_spec[face.action_key]
                td.set(face.action_key, spec.zero())
        following: TensorDictBase = self.env.step(td).get("next")
        return following

    def observations(self, td: TensorDictBase, only: Any = None) -> dict[str, Any]:
        """What groups observe, as values of their spaces."""
        out, row = dict[str, Any](), lone(td)
        for name, face in self._faces.items():
            if only is None or name in only:
                found, space = face.observations(row), self.observation_spaces[name]
                out[name] = found.reshape(space.shape) if isinstance(found, np.ndarray) else found
        return out

    def column(self, td: TensorDictBase, name: str, default: Any = None) -> dict[str, Any]:
        """Rewards, the sum of a group; flags, where all of a group have them; ``mask`` and ``alive``, where one has.

        A group is done when all of its agents are: terminated where all are, cut off where one is not.
        """
        return to_the_end(td, name, self._column(td, name, default), lambda: self._column(td, "done", False))

    def _column(self, td: TensorDictBase, name: str, default: Any) -> dict[str, Any]:
        if name == "truncated":
            done, terminated = (self._column(td, one, False) for one in ("done", "terminated"))
            return {group: over and not terminated[group] for group, over in done.items()}
        out: dict[str, Any] = {}
        for group, face in self._faces.items():
            own = face.reward_path if name == "reward" else (*face.path, name)
            value = None if own is None else fetch(td, own)
            if value is None:
                value = fetch(td, (name,))
            if value is None:
                out[group] = default
            elif name == "reward":
                out[group] = float(value.double().sum())
            else:
                out[group] = bool(value.any() if name in ("mask", "alive") else value.all())
        return out


def _flat(space: Any) -> Any:
    """A space of vectors for one of matrices, a row for each agent; other spaces as they are."""
    if type(space).__name__ != "Box" or len(space.shape) != 2:
        return space
    return type(space)(space.low.reshape(-1), space.high.reshape(-1), dtype=space.dtype)
