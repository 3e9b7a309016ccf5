"""Transforms that only envs of several agents need: other groups, rewards of teams, numbers of agents, what all see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.errors import GroupError, SpecError, Unsupported
from marlenv.groups import GroupTree, RegroupPlan, regroup_spec
from marlenv.groups.maps import GroupMap, MarlGroupMapType, resolve
from marlenv.groups.regroup import regroup_moment, trees
from marlenv.keys import NestedKey, level, nested
from marlenv.specs import Categorical, Composite, OneHot, TensorSpec, Unbounded
from marlenv.tensordicts import fetch, shallow, write
from marlenv.transforms.base import Kind, ObservationTransform, Transform, unbounded

if TYPE_CHECKING:
    from marlenv.envs import EnvBase


def tree_of(who: Transform, env: EnvBase) -> GroupTree:
    """The groups of an env.

    Raises:
        GroupError: it has none.
    """
    tree = getattr(env, "tree", None)
    if tree is None:
        raise GroupError(f"{type(who).__name__}: the env has no groups of agents; assign env.group_map")
    return tree


def _check_flags(done: Composite, old: GroupTree, new: GroupTree) -> None:
    """Raises if done flags that stay at a branch of the tree would decide about other agents than they are about.

    Raises:
        GroupError: they would.
    """
    levels = {level(key) for key in done.keys(True, True)} - {()}
    for where in sorted(levels):
        if any(where[: len(group)] == group for group in old.groups):
            continue  # an agent's own, which goes with it
        before, after = (
            {agent for agent, (group, _) in tree.place.items() if group[: len(where)] == where} for tree in (old, new)
        )
        if after and after != before:
            raise GroupError(
                f"RegroupTransform: done flags stand at {'/'.join(where)!r}, and are about {sorted(before)}; below it "
                f"the new groups have {sorted(after)}; name the new groups otherwise, or keep the same agents there"
            )


class RegroupTransform(Transform):
    """The same agents in other groups; what is outside of groups stays where it is.

    A group that is a run of agents of an old one is a view of its data.

    Args:
        group_map: the groups as the outside sees them, of the same agents: a map, a tree of maps, or a rule
            (:class:`MarlGroupMapType`, or its name).

    Raises:
        GroupError: on joining an env: the agents differ, or done flags at a branch of the env's tree, which stay there,
            would stand above other agents than before.

    >>> env = marlenv.testing.GroupedEnv({"all": ["a", "b", "c"]})
    >>> env = TransformedEnv(env, RegroupTransform({"left": ["a", "b"], "right": ["c"]}))
    >>> env.group_map, env.rollout(2)["next", "left", "reward"].shape
    ({'left': ['a', 'b'], 'right': ['c']}, torch.Size([2, 2, 1]))
    """

    def __init__(self, group_map: GroupMap | MarlGroupMapType | str) -> None:
        super().__init__()
        self.group_map = group_map
        self.inner: GroupTree | None = None

    def join(self, env: EnvBase) -> None:
        """Finds the groups as they are."""
        super().join(env)
        inner = tree_of(self, env)
        self.inner, self.outer = trees(inner, self._resolved(env, inner))
        self._out, self._in = RegroupPlan(inner, self.outer), RegroupPlan(self.outer, inner)

    def _resolved(self, env: EnvBase, tree: GroupTree) -> GroupMap:
        """The map that was given, or what the rule makes of the agents."""
        if isinstance(self.group_map, Mapping):
            return self.group_map
        both = {"observation": env.full_observation_spec, "action": env.full_action_spec}
        specs: dict[str, TensorSpec] = {
            agent: Composite(
                {kind: spec[nested(group)].unbind(spec.ndim)[i] for kind, spec in both.items() if nested(group) in spec}
            )
            for agent, (group, i) in tree.place.items()
        }
        return resolve(self.group_map, tree.agents, specs=specs)

    def transform_tree(self, tree: GroupTree | None) -> GroupTree | None:
        """The new groups."""
        return self.outer

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Moves the specs of every agent."""
        _check_flags(specs["done"], self._out.old, self._out.new)
        for kind, spec in specs.items():
            specs[kind] = regroup_spec(spec, self._out.old, self._out.new)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return regroup_moment(next_tensordict, self._out)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        here = [path for path in self.outer.groups if fetch(tensordict, nested(path)) is not None]
        for path in here:
            group = fetch(tensordict, nested(path))
            if group.ndim == tensordict.ndim:  # data of users, who need not say that it holds agents
                sized = TensorDict({**group}, (*group.batch_size, len(self.outer.groups[path])), device=group.device)
                write(tensordict, nested(path), sized)
        return regroup_moment(tensordict, self._in) if len(here) == len(self.outer.groups) else tensordict

    def known_before(self, tensordict: TensorDictBase, resetting: bool = False) -> TensorDictBase:
        """The data in the groups as they were, where those that remember something look for it."""
        given = shallow(tensordict)
        known = self._reset_env_preprocess(given) if resetting else self._inv_call(given)
        return tensordict if known is None else known

    def _reset_env_preprocess(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        if tensordict is None:
            return None
        asked = tensordict.exclude(*[nested(path) for path in self.outer.groups])
        masks = {path: fetch(tensordict, nested((*path, "_reset"))) for path in self.outer.groups}
        if fetch(tensordict, "_reset") is not None or any(mask is None for mask in masks.values()):
            return asked  # the mask of the root decides, or everything starts anew
        for path, mask in masks.items():
            asked.set(nested(path), TensorDict({"_reset": mask}, mask.shape[: tensordict.ndim + 1]))
        return self._inv_call(asked)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Regroups stored data; a new tensordict.

        Raises:
            Unsupported: no env has said what the groups are.
        """
        if self.inner is None:
            raise Unsupported("RegroupTransform: the groups as they are come from an env; put it into one first")
        following = tensordict.get("next", None)
        made = self._call(tensordict.exclude("next"))
        return made if following is None else made.set("next", self._call(following))

    def overwrites(self, key: NestedKey) -> bool:
        """Whether an entry moves."""
        return self.inner is not None and any(level(key)[: len(path)] == path for path in self.inner.groups)

    def __repr__(self) -> str:
        return f"RegroupTransform({self.group_map})"


class TeamReward(Transform):
    """Gives every agent what its team got.

    Args:
        mode: ``"sum"`` or ``"mean"`` of the rewards of the agents.
        per: ``"group"``, or ``"team"`` for the agents of all groups together.
        in_keys: rewards of groups, ``[*B, A, 1]``; all of them when left out.
        out_keys: where the results go.

    >>> env = TransformedEnv(marlenv.testing.GroupedEnv(), TeamReward())
    >>> reward = env.rollout(1)["next", "agents", "reward"]
    >>> bool((reward == reward[:, :1]).all())
    True
    """

    on: ClassVar[Kind] = "reward"
    one_for_each: ClassVar[bool] = True

    def __init__(
        self,
        mode: Literal["sum", "mean"] = "sum",
        per: Literal["group", "team"] = "group",
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys)
        if mode not in ("sum", "mean") or per not in ("group", "team"):
            raise SpecError(f"TeamReward: mode is 'sum' or 'mean' and per 'group' or 'team', got {mode!r} and {per!r}")
        self.mode, self.per = mode, per

    def default_in_keys(self, env: EnvBase) -> list[NestedKey]:
        """The rewards of groups."""
        return [key for key in env.reward_keys if level(key)]

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Gives the results no bounds."""
        if not self.in_keys:
            raise self.no_entry(("agents", "reward"), specs["reward"].keys(True, True), "the rewards are")
        for key, new in zip(self.in_keys, self.out_keys or (), strict=True):
            specs["reward"][new] = unbounded(specs["reward"][key])

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        rewards = [fetch(next_tensordict, key) for key in self.in_keys or ()]
        if any(reward is None for reward in rewards):
            return next_tensordict
        at = next_tensordict.ndim
        sums = [reward.sum(at, keepdim=True) for reward in rewards]
        counts = [reward.shape[at] for reward in rewards]
        if self.per == "team":
            sums, counts = [torch.stack(sums).sum(0)] * len(sums), [sum(counts)] * len(counts)
        for new, reward, total, count in zip(self.out_keys or (), rewards, sums, counts, strict=True):
            made = total / count if self.mode == "mean" else total
            next_tensordict.set(new, made.expand(reward.shape).clone())
        return next_tensordict

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Adds up rewards of stored data, under ``"next"``."""
        self.need_keys()
        self._call(tensordict.get("next", tensordict))
        return tensordict

    def __repr__(self) -> str:
        return f"TeamReward({self.mode!r}, per={self.per!r})"


class AgentIndex(Transform):
    """Tells every agent which one it is: ``agent_index`` beside its observation.

    Args:
        one_hot: float32 ``[*B, A, n]``; else int64 ``[*B, A]``.
        of: ``"group"`` numbers the agents within their group, ``"all"`` over all groups.
        name: of the entry.

    >>> env = marlenv.testing.GroupedEnv({"a": ["x"], "b": ["y", "z"]})
    >>> env = TransformedEnv(env, AgentIndex(one_hot=False, of="all"))
    >>> env.reset()["b", "agent_index"]
    tensor([1, 2])
    """

    def __init__(self, one_hot: bool = True, of: Literal["group", "all"] = "group", name: str = "agent_index") -> None:
        super().__init__()
        if of not in ("group", "all"):
            raise SpecError(f"AgentIndex: of must be 'group' or 'all', got {of!r}")
        self.one_hot, self.of, self.name = one_hot, of, name
        self.numbers: dict[NestedKey, tuple[Tensor, int]] = {}

    def join(self, env: EnvBase) -> None:
        """Numbers the agents."""
        super().join(env)
        groups, start, self.numbers = tree_of(self, env).groups, 0, {}
        total = sum(len(agents) for agents in groups.values())
        for path, agents in groups.items():
            first, count = (start, total) if self.of == "all" else (0, len(agents))
            number = torch.arange(first, first + len(agents), device=env.device)
            self.numbers[nested((*path, self.name))] = (number, count)
            start += len(agents)

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the numbers."""
        for key, (number, count) in self.numbers.items():
            shape = (*specs["observation"].shape, len(number))
            spec = specs["observation"]
            if self.one_hot:
                spec[key] = OneHot(count, (*shape, count), dtype=torch.float32, device=spec.device)
            else:
                spec[key] = Categorical(count, shape, device=spec.device)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key, (number, count) in self.numbers.items():
            value = torch.nn.functional.one_hot(number, count).float() if self.one_hot else number
            next_tensordict.set(key, value.expand(*next_tensordict.batch_size, *value.shape).clone())
        return next_tensordict

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Adds the numbers to stored data, under ``"next"`` too.

        Raises:
            Unsupported: no env has said who the agents are.
        """
        if not self.numbers:
            raise Unsupported("AgentIndex: who the agents are comes from an env; put it into one first")
        if (following := tensordict.get("next", None)) is not None:
            self._call(following)
        return self._call(tensordict)

    def __repr__(self) -> str:
        return f"AgentIndex(one_hot={self.one_hot}, of={self.of!r})"


class SharedObservation(ObservationTransform):
    """The state of everything, for a critic: the observations of all agents, one after the other.

    Args:
        in_keys: observations of groups, ``[*B, A, d]``; those called ``observation`` when left out.
        out_key: where the state goes, ``[*B, n]``; nested under a group, every agent of it has it, ``[*B, A, n]``.

    >>> env = TransformedEnv(marlenv.testing.GroupedEnv(), SharedObservation())
    >>> env.reset()["state"].shape
    torch.Size([9])
    """

    default_name: ClassVar[str | None] = "observation"

    def __init__(self, in_keys: Sequence[NestedKey] | None = None, out_key: NestedKey = "state") -> None:
        super().__init__(in_keys)
        self.out_keys = [out_key]

    def _state(self, td: TensorDictBase) -> Tensor | None:
        found = [fetch(td, key) for key in self.in_keys or ()]
        if any(value is None for value in found):
            return None
        parts = [
            v for value in found for v in (value if isinstance(value, list) else [value])
        ]  # unequal agents are a list
        state = torch.cat([part.flatten(td.ndim) for part in parts], -1)
        where = level((self.out_keys or [])[0])
        return state if not where else state.unsqueeze(-2).expand(*td[where].batch_size, state.shape[-1]).clone()

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the state."""
        spec = specs["observation"]
        if not self.in_keys or any(key not in spec for key in self.in_keys):
            raise self.no_entry((self.in_keys or ["observation"])[0], spec.keys(True, True), "the env observes")
        state = self._state(spec.zero())
        spec[(self.out_keys or [])[0]] = Unbounded(state.shape, device=state.device, dtype=state.dtype)  # type: ignore[union-attr]

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        state = self._state(next_tensordict)
        if state is not None:
            next_tensordict.set((self.out_keys or [])[0], state)
        return next_tensordict

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Adds the state to stored data, under ``"next"`` too."""
        self.need_keys()
        if (following := tensordict.get("next", None)) is not None:
            self._call(following)
        return self._call(tensordict)

    def __repr__(self) -> str:
        return f"SharedObservation({(self.out_keys or [''])[0]!r})"
