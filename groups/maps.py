"""Group maps: which agent belongs to which group, made by rule or checked when given.

A group map is a mapping ``group name -> agent names``; a value may be a group map itself, which makes a tree of groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias

from marlenv.errors import GroupError, nearest
from marlenv.specs import TensorSpec

GroupMap: TypeAlias = "Mapping[str, Sequence[str] | GroupMap]"

RESERVED = {"next", "done", "terminated", "truncated", "action", "reward", "observation", "_reset", "_step"}
EXAMPLE = ["agent_0", "agent_1"]


class MarlGroupMapType(Enum):
    """The usual ways to group agents.

    - ``ALL_IN_ONE_GROUP``: one group, ``"agents"``.
    - ``ONE_GROUP_PER_AGENT``: a group per agent, named like the agent.
    - ``BY_NAME_PREFIX``: ``"wolf_0"`` and ``"wolf_1"`` make the group ``"wolf"``; a name without a number is a group.
    - ``BY_SPEC``: agents with equal specs together.

    >>> MarlGroupMapType.BY_NAME_PREFIX.get_group_map(["wolf_0", "wolf_1", "shepherd"])
    {'wolf': ['wolf_0', 'wolf_1'], 'shepherd': ['shepherd']}
    """

    ALL_IN_ONE_GROUP = 1
    ONE_GROUP_PER_AGENT = 2
    BY_NAME_PREFIX = 3
    BY_SPEC = 4

    def get_group_map(
        self, agent_names: Sequence[str], specs: Mapping[str, TensorSpec] | None = None
    ) -> dict[str, list[str]]:
        """The group map of these agents.

        Args:
            agent_names: all agents, in order.
            specs: agent name -> everything it sees and does; needed by ``BY_SPEC``.

        Raises:
            GroupError: ``BY_SPEC`` without specs; ``agent_names`` is no list of strings that differ.
        """
        names = agents_of(agent_names)
        if self is MarlGroupMapType.ALL_IN_ONE_GROUP:
            return {"agents": names}
        if self is MarlGroupMapType.ONE_GROUP_PER_AGENT:
            return {name: [name] for name in names}
        if self is MarlGroupMapType.BY_NAME_PREFIX:
            groups: dict[str, list[str]] = {}
            for name in names:
                groups.setdefault(prefix_of(name), []).append(name)
            return groups
        if specs is None:
            raise GroupError("MarlGroupMapType.BY_SPEC: needs the agents' specs, got none; pass specs={agent: spec}")
        return _by_spec(names, specs)


def agents_of(names: Iterable[str]) -> list[str]:
    """The names of all agents as a list.

    Raises:
        GroupError: they are not strings in an order, or not unique.

    >>> agents_of(("wolf_0", "wolf_1"))
    ['wolf_0', 'wolf_1']
    """
    if not _ordered(names):
        raise GroupError(f"group map: agent_names must be a list of strings, such as {EXAMPLE}, got {_shown(names)}")
    agents = list(names)
    if odd := [agent for agent in agents if not isinstance(agent, str)]:
        raise GroupError(f"group map: agent_names must name agents by strings, got {odd}")
    if repeated := _repeated(agents):
        raise GroupError(f"group map: agent names must be unique, got {repeated} more than once")
    return agents


def _ordered(names: Any) -> bool:
    """Whether these are several things in an order."""
    return isinstance(names, Iterable) and not isinstance(names, str | bytes | set | frozenset)


def _shown(names: Any) -> str:
    """What came in place of a list of names; of a set sorted, and why it is none."""
    if not isinstance(names, set | frozenset):
        return repr(names)
    return f"a set of {sorted(map(str, names))}; a set has no order: it comes otherwise in every process"


def prefix_of(name: str) -> str:
    """The name without a trailing number.

    >>> prefix_of("wolf_12"), prefix_of("wolf"), prefix_of("red_wolf")
    ('wolf', 'wolf', 'red_wolf')
    """
    head, _, tail = name.rpartition("_")
    return head if head and tail.isdigit() else name


def numbered_groups(names: Sequence[str]) -> GroupMap:
    """The groups of TorchRL's ``VmasEnv``: by name prefix if every name has a number; a lone ``"agent"`` is
    ``"agents"``.
    """
    if any(prefix_of(name) == name for name in names):
        return {"agents": list(names)}
    found = MarlGroupMapType.BY_NAME_PREFIX.get_group_map(names)
    return {"agents": found["agent"]} if list(found) == ["agent"] else found


def _by_spec(names: Sequence[str], specs: Mapping[str, TensorSpec]) -> dict[str, list[str]]:
    if missing := [name for name in names if name not in specs]:
        raise GroupError(f"MarlGroupMapType.BY_SPEC: no spec for agents {missing}; specs are given for {sorted(specs)}")
    kinds: list[list[str]] = []
    for name in names:
        alike = next((kind for kind in kinds if specs[kind[0]] == specs[name]), None)
        if alike is None:
            kinds.append([name])
        else:
            alike.append(name)
    prefixes = [{prefix_of(name) for name in kind} for kind in kinds]
    titles = [next(iter(p)) if len(p) == 1 else "" for p in prefixes]
    unique = all(titles) and len(set(titles)) == len(titles)
    return {titles[i] if unique else f"group_{i}": kind for i, kind in enumerate(kinds)}


def check_marl_grouping(group_map: GroupMap, agent_names: Sequence[str]) -> None:
    """Raises unless every agent is in exactly one group and no group is empty.

    Args:
        group_map: group name -> agent names, nested to any depth.
        agent_names: all agents of the env.

    Raises:
        GroupError: names the agent or the group at fault.

    >>> check_marl_grouping({"wolves": ["wolf_0"]}, ["wolf_0", "wolf_1"])
    Traceback (most recent call last):
    marlenv.errors.GroupError: group map: agents in no group: ['wolf_1']; groups are {'wolves': ['wolf_0']}
    """
    agents = agents_of(agent_names)
    if not agents:
        raise GroupError("group map: there are no agents to group, got an empty list of agent names")
    group_map = plain(group_map) if isinstance(group_map, Mapping) else group_map  # an iterator is read once
    if not group_map:
        raise GroupError(f"group map: it has no groups; agents are {agents}")
    placed = [agent for _, members in leaves(group_map) for agent in members]
    known, found = set(agents), set(placed)
    if twice := _repeated(placed):
        where = {a: ["/".join(p) for p, members in leaves(group_map) for b in members if a == b] for a in twice}
        raise GroupError(f"group map: agents in more than one place: {where}; an agent belongs to exactly one group")
    if unknown := [a for a in placed if a not in known]:
        raise GroupError(f"group map: unknown agents {unknown}; {nearest(unknown[0], agents)}")
    if missing := [a for a in agents if a not in found]:
        raise GroupError(f"group map: agents in no group: {missing}; groups are {plain(group_map)}")


def _repeated(names: Iterable[str]) -> list[str]:
    """The names that come more than once."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def leaves(group_map: GroupMap, prefix: tuple[str, ...] = ()) -> Iterable[tuple[tuple[str, ...], list[str]]]:
    """Every group of a tree with its path and its agents, in order.

    >>> list(leaves({"red": {"attack": ["a"], "defence": ["b"]}}))
    [(('red', 'attack'), ['a']), (('red', 'defence'), ['b'])]
    """
    if not isinstance(group_map, Mapping):
        raise GroupError(
            f"group map: expected a mapping of the names of groups to lists of agent names, such as "
            f"{{'agents': {EXAMPLE}}}, got {group_map!r}"
        )
    for name, members in group_map.items():
        where = (*prefix, name)
        _check_name(name, where)
        if isinstance(members, Mapping):
            if not members:
                raise GroupError(f"group map: group {'/'.join(where)!r} has no groups below it")
            yield from leaves(members, where)
        elif not _ordered(members):
            raise GroupError(
                f"group map: group {'/'.join(where)!r} must be a list of agent names, got {_shown(members)}"
            )
        else:
            agents = list(members)
            if not agents:
                raise GroupError(f"group map: group {'/'.join(where)!r} has no agents")
            if odd := [a for a in agents if not isinstance(a, str)]:
                raise GroupError(f"group map: group {'/'.join(where)!r} must name agents by strings, got {odd}")
            yield where, agents


def _check_name(name: Any, where: tuple[Any, ...]) -> None:
    if not isinstance(name, str) or not name:
        raise GroupError(f"group map: a group's name must be a non-empty string, got {name!r}")
    if name in RESERVED:
        raise GroupError(
            f"group map: {name!r} cannot name a group ({'/'.join(where)}); it names an entry of the tensordict"
        )


def plain(group_map: GroupMap) -> dict[str, Any]:
    """The same map as plain dicts and lists; what is no list of names stays as it is."""

    def held(members: Any) -> Any:
        if isinstance(members, Mapping):
            return plain(members)
        return list(members) if _ordered(members) else members

    return {name: held(members) for name, members in group_map.items()}


def resolve(
    group_map: GroupMap | MarlGroupMapType | str | None,
    agent_names: Sequence[str],
    *,
    default: MarlGroupMapType | GroupMap = MarlGroupMapType.BY_NAME_PREFIX,
    specs: Mapping[str, TensorSpec] | None = None,
) -> dict[str, Any]:
    """The group map that a user asked for, checked.

    Args:
        group_map: a map, a :class:`MarlGroupMapType` or its name; the default when None.
        agent_names: all agents.
        default: what to do when nothing was asked for.
        specs: agent name -> spec, for ``BY_SPEC``.

    >>> resolve("all_in_one_group", ["a", "b"])
    {'agents': ['a', 'b']}
    """
    chosen = default if group_map is None else group_map
    if isinstance(chosen, str):
        kinds = {kind.name.lower(): kind for kind in MarlGroupMapType}
        if chosen.lower() not in kinds:
            raise GroupError(f"group map: no rule is called {chosen!r}; {nearest(chosen.lower(), kinds)}")
        chosen = kinds[chosen.lower()]
    if isinstance(chosen, MarlGroupMapType):
        chosen = chosen.get_group_map(agent_names, specs)
    if not isinstance(chosen, Mapping):
        raise GroupError(f"group map: expected a mapping, a MarlGroupMapType or its name, got {type(chosen).__name__}")
    chosen = plain(chosen)  # first, since an iterator can be read once only
    check_marl_grouping(chosen, agent_names)
    return chosen
