"""The agents of an env one by one, for adapters to libraries whose data are dicts by agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.errors import DtypeError, SpecTypeError, Unsupported
from marlenv.groups import GroupTree, Packer
from marlenv.interop.entries import check_action, reward_entry
from marlenv.interop.spaces import check_mask, space_of, value_of
from marlenv.keys import DONE_NAMES, Path, nested
from marlenv.specs import Composite
from marlenv.tensordicts import columns, fetch, lazy, parts, plant, put, shallow, split, write

HIDDEN = ("alive", "mask", "info", "pad_mask")
"""Entries of groups that are no observations for other libraries."""


def shown(name: str, hide: tuple[str, ...] = HIDDEN) -> bool:
    """Whether an entry is an observation for other libraries; what a transform remembers, ``_line``, is none.

    >>> [name for name in ("observation", "_line", "alive") if shown(name)]
    ['observation']
    """
    return not name.startswith("_") and name not in hide


def begun(env: EnvBase, seed: int | None, options: Mapping[str, Any] | None) -> TensorDictBase:
    """Starts an episode as other libraries do: with a seed, if there is one, and options of the env's reset."""
    if seed is not None:
        env.set_seed(seed)
    return env.reset(**(options or {}))


def check_one_row_of_groups(who: str, env: Any) -> None:
    """Raises unless it is an env of ours with groups of agents and one row."""
    if not isinstance(env, EnvBase) or not getattr(env, "group_map", None):
        raise SpecTypeError(f"{who}: expected an env of marlenv with groups of agents, got {type(env).__name__}")
    if env.batch_size.numel() != 1:
        raise Unsupported(f"{who}: expected an env with one row, got batch size {list(env.batch_size)}; num_envs=1")


def acting_groups(who: str, env: EnvBase) -> GroupTree:
    """The groups that the env takes actions of; an opponent's belong to nobody here.

    Args:
        who: the adapter, for errors.
        env: with groups.

    Raises:
        SpecTypeError: it takes actions of none of its groups.
    """
    spec, acting = env.full_action_spec_unbatched, dict[str, Any]()
    for path, names in GroupTree(env.group_map).groups.items():
        if spec.get(nested(path), None) is not None:
            plant(acting, path, list(names))
    if not acting:
        raise SpecTypeError(f"{who}: expected actions of the groups {env.group_map}, got actions {env.action_keys}")
    return GroupTree(acting)


def to_the_end(
    td: TensorDictBase, name: str, own: dict[str, Any], done: Callable[[], Mapping[str, Any]]
) -> dict[str, Any]:
    """Done flags by agent where the episode may be over: those who go on then take the flags of the root.

    Args:
        td: the data.
        name: the entry; others than done flags stay as they are.
        own: its values.
        done: who is done by flags of their own.
    """
    if name not in DONE_NAMES:
        return own
    root, over = fetch(td, (name,)), fetch(td, ("done",))
    if root is None or over is None or not bool(over.all()):
        return own
    before, ended = done(), bool(root.all())
    return {agent: bool(flag) or (ended and not before[agent]) for agent, flag in own.items()}


def cut_off(terminated: Mapping[str, bool], truncated: Mapping[str, bool]) -> bool:
    """Whether an episode that is over is cut off: one of its agents is, and did not end in the same step.

    >>> cut_off({"x": True, "o": True}, {"x": True, "o": True})  # won in the step of the limit
    False
    """
    return any(truncated[agent] and not terminated[agent] for agent in truncated)


def lone(td: TensorDictBase) -> TensorDictBase:
    """The data of the only row, without a batch."""
    while td.ndim:
        td = split(td)[0]
    return td


def check_nobody_returns(who: str, left: set[str], agents: list[str]) -> None:
    """Raises where agents that are done act again, which libraries with names of agents do not know.

    Args:
        who: the adapter, for errors.
        left: those that were done before, in this episode.
        agents: those that act now.

    Raises:
        Unsupported: some are in both.
    """
    if back := [agent for agent in agents if agent in left]:
        raise Unsupported(
            f"{who}: {back} were done and are born again, and a done agent may not come back there; make an env "
            f"without births, such as predator_prey with birth=0"
        )


class Agents:
    """What each agent of an env observes, does and gets; seats that the env plays itself are no agents.

    Args:
        who: the adapter, for errors.
        env: with groups, and one row.

    Raises:
        SpecTypeError: it is no env of ours, or has no groups.
        SpecError: a group has several actions, or a reward of several numbers.
        KeyMissing: none of several rewards of a group is called ``"reward"``.
        Unsupported: it has several rows.
    """

    def __init__(self, who: str, env: Any) -> None:
        check_one_row_of_groups(who, env)
        self.who, self.env = who, env
        self.tree = acting_groups(who, env)
        self.names = [name for names in self.tree.groups.values() for name in names]
        for path in self.tree.groups:
            check_action(who, env, path)
        self._rewards = {path: reward_entry(who, env, path, len(names)) for path, names in self.tree.groups.items()}
        observed = {name: _shown(spec) for name, spec in self._own("observation").items()}
        self._observations = Packer(self.tree, observed)
        self._actions = Packer(self.tree, self._own("action"))
        self._alone = {name: list(spec) == ["observation"] for name, spec in observed.items()}
        self._wrapped = {name: _wraps(spec.get("observation", None)) for name, spec in observed.items()}
        self.observation_spaces = {name: space_of(who, name, self._seen(name, spec)) for name, spec in observed.items()}
        self.action_spaces = {
            name: space_of(who, f"{name}/action", spec["action"], acts=True)
            for name, spec in self._own("action").items()
        }
        for name, spec in observed.items():
            check_mask(who, name, spec.get("action_mask", None), self.action_spaces[name])
        self._acting: dict[str, bool] | None = None
        """Who acts in the data of the last reset or step, once somebody has asked."""

    def _own(self, kind: str) -> dict[str, Composite]:
        """The entries of one kind of every agent."""
        whole = getattr(self.env, f"full_{kind}_spec_unbatched")
        return {
            name: whole[nested(path)][i] for path, names in self.tree.groups.items() for i, name in enumerate(names)
        }

    def reset(self, seed: int | None, options: Mapping[str, Any] | None = None) -> TensorDictBase:
        """Starts an episode, with options of the env's reset; the data of its start."""
        self._acting = None
        return begun(self.env, seed, options)

    def step(self, td: TensorDictBase, actions: Mapping[str, Any]) -> TensorDictBase:
        """Plays actions, by agent and as spaces have them; agents that are left out do anything legal.

        Returns:
            What followed.
        """
        packed = self.pack(td, actions)
        self._acting = None
        for path in self.tree.groups:
            group = fetch(packed, path)
            if (agents := parts(group)) is None:
                write(td, (*path, "action"), _batched(td, fetch(group, "action")))
                continue
            rows = [shallow(one) for one in columns(fetch(td, path), td.ndim)]
            for row, mine in zip(rows, agents, strict=True):
                put(row, "action", _batched(td, fetch(mine, "action")))
            write(td, path, lazy(rows, td.ndim))
        following: TensorDictBase = self.env.step(td).get("next")
        return following

    def pack(self, td: TensorDictBase, actions: Mapping[str, Any]) -> TensorDict:
        """Actions by agent as those of groups.

        Args:
            td: the data that they are chosen in.
            actions: by agent; None of those who are not to act.

        Raises:
            SpecTypeError: there is no such agent.
            ShapeError: an action has another shape than its space.
            DtypeError: None of an agent that is to act, or a fraction where actions are numbered.
        """
        if unknown := sorted(set(actions) - set(self.names)):
            raise SpecTypeError(f"{self.who}: no agents are called {unknown}; there are {self.names}")
        given = {name: {"action": action} for name, action in actions.items() if action is not None}
        if len(given) < len(actions):
            acting = self.acting(td)
            if silent := [name for name in actions if name not in given and acting[name]]:
                space = self.action_spaces[silent[0]]
                raise DtypeError(f"{self.who}: {silent[0]!r} is to act, and gave no action (None); give one of {space}")
        return self._actions.pack(given, device=self.env.device)

    def acting(self, td: TensorDictBase) -> dict[str, bool]:
        """Whose actions the next step reads: those who are alive, and whose turn it is; in the data that came last."""
        if self._acting is None:
            mask, alive = self.column(td, "mask", True), self.living(td)
            self._acting = {name: bool(mask[name] and alive[name]) for name in self.names}
        return self._acting

    def living(self, td: TensorDictBase) -> dict[str, bool]:
        """Who is alive; where the data do not say it, those who are not done."""
        alive = self._column(td, "alive", None)
        if None in alive.values():
            done = self._column(td, "done", False)
            alive = {name: not done[name] if alive[name] is None else alive[name] for name in self.names}
        return {name: bool(alive[name]) for name in self.names}

    def observations(self, td: TensorDictBase, only: Any = None) -> dict[str, Any]:
        """What agents observe, as values of their spaces."""
        found = self._observations.unpack(lone(td), only)
        return {
            name: value_of(self.observation_spaces[name], self._seen(name, found[name])) if name in found else {}
            for name in self.names
            if only is None or name in only
        }

    def _seen(self, name: str, given: Any) -> Any:
        """What an agent is given to see, or the spec of it, without wrappings around an observation."""
        if not self._wrapped[name]:
            return given["observation"] if self._alone[name] else given
        seen = given["observation"]["observation"]
        return seen if self._alone[name] else type(given)({**dict(given.items()), "observation": seen})

    def column(self, td: TensorDictBase, name: str, default: Any = None) -> dict[str, Any]:
        """An entry with one number for each agent, such as rewards or flags; where groups have none, the root's."""
        return to_the_end(td, name, self._column(td, name, default), lambda: self._column(td, "done", False))

    def _column(self, td: TensorDictBase, name: str, default: Any) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for path, names in self.tree.groups.items():
            values = self._numbers(td, path, name)
            out |= dict.fromkeys(names, default) if values is None else dict(zip(names, values, strict=True))
        return out

    def _numbers(self, td: TensorDictBase, path: Path, name: str) -> list[Any] | None:
        own = self._rewards[path] if name == "reward" else (*path, name)
        value: Tensor | None = None if own is None else fetch(td, own)
        value = fetch(td, (name,)) if value is None else value
        if value is None:
            return None
        numbers: list[Any] = value.reshape(-1).tolist()
        return numbers * len(self.tree.groups[path]) if len(numbers) == 1 else numbers


def _batched(td: TensorDictBase, action: Any) -> Any:
    """An action with the batch of the data."""
    return action.reshape((*td.batch_size, *action.shape))


def _wraps(spec: Any) -> bool:
    """Whether an observation is nothing but entries around one, such as PettingZoo's games with masks have."""
    return isinstance(spec, Composite) and list(spec.keys()) == ["observation"]


def _shown(spec: Composite) -> Composite:
    return Composite({name: one for name, one in spec.items() if shown(name)})
