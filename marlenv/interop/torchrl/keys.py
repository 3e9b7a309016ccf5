"""Which nested keys a loss of TorchRL reads for one group."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

from marlenv.errors import GroupError, KeyMissing, SpecTypeError, nearest
from marlenv.groups import GroupTree
from marlenv.keys import NestedKey, Path, nested, path

FLAGS = ("done", "terminated")
FROM_ENV = ("action", "reward", *FLAGS)
SHARED = ("global_value", "priority", "priority_weight", "steps_to_next_obs")
"""What stands at the root: one number for the whole team, or for a sample of a replay buffer, as n-step rewards are."""

FILLED = ("sample_log_prob", "log_prob")
"""Keys of no default that losses fill in themselves; others of none are of what is off."""
PLACEHOLDER = ("agents",)
"""The group in TorchRL's own defaults."""

Keys: TypeAlias = "NestedKey | list[NestedKey]"


def group_keys(env: Any, group: NestedKey, loss: Any = None) -> dict[str, Keys]:
    """The dict for ``loss.set_keys(**group_keys(env, group, loss))``: where the data of one group are.

    Action, reward and flags are the env's entries; what only the loss knows (values, advantages, log-probabilities)
    goes under the group's key, with the names that the loss gives them; what it reads after the step under ``"next"``.
    Entries that the loss does without, such as the ``pad_mask`` of ``BCLoss``, are not in the answer. Of an action of
    several entries the key is a list, that of the loss's actor where there is one.

    Args:
        env: one of our envs, or what :func:`to_torchrl` made of it.
        group: the group's key, ``"agents"`` or ``("red", "attack")``.
        loss: TorchRL's loss module, its class, or a value estimator; the answer has the keys that it takes. When left
            out, ``action``, ``reward``, ``done`` and ``terminated``.

    Raises:
        SpecTypeError: it is no env.
        GroupError: there is no such group, or its agents differ, so that one network cannot play them all.
        KeyMissing: the group has no flags or no reward of its own, or several rewards.

    >>> env = marlenv.make("simple_tag")
    >>> group_keys(env, "adversary")["reward"]
    ('adversary', 'reward')
    """
    if not hasattr(env, "full_action_spec"):
        raise SpecTypeError(f"group_keys: expected an env, got {type(env).__name__}; pass marlenv.make(...)")
    where = path(group)
    actions = _below(env, where)
    found = {kind: _entries(env, kind, where) for kind in ("reward", "done")}
    groups = _groups(env)
    if not actions or (where not in groups and not found["reward"]):
        raise _no_group(env, group, groups)
    _refuse_unequal(env, where)
    known: dict[str, Keys] = {"action": actions[0] if len(actions) == 1 else actions}
    for name, kind in (("reward", "reward"), ("done", "done"), ("terminated", "done")):
        names = found[kind]
        if name in FLAGS and name not in names:
            raise KeyMissing(
                f"group_keys: group {group!r} has no {name!r} flag of its own, only {_keys(env, 'done')}; "
                f"expand the root's to the reward's shape in the data"
            )
        if name not in FLAGS and len(names) != 1:
            raise KeyMissing(f"group_keys: group {group!r} has {len(names)} {kind} entries, {names}; name the one")
        known[name] = nested((*where, name if name in FLAGS else names[0]))
    if loss is None:
        return known
    placed = {name: _place(name, default, known, where, groups) for name, default in _accepted(loss).items()}
    return {name: key for name, key in placed.items() if key is not None}


def _keys(env: Any, kind: str) -> list[NestedKey]:
    return list(getattr(env, f"full_{kind}_spec").keys(True, True))


def _entries(env: Any, kind: str, where: Path) -> list[str]:
    """The names of the entries of one kind right under a group."""
    return [p[-1] for key in _keys(env, kind) if (p := path(key))[:-1] == where]


def _below(env: Any, where: Path) -> list[NestedKey]:
    """The actions under a group, at any depth: several where an action is composed."""
    return [
        nested(p) for key in _keys(env, "action") if (p := path(key))[: len(where)] == where and len(p) > len(where)
    ]


def _groups(env: Any) -> list[Path]:
    """The groups with actions: those of the env's map, or what holds its actions."""
    group_map = getattr(env, "group_map", None)
    if group_map:
        return [one for one in GroupTree(group_map).groups if _below(env, one)]
    return list(dict.fromkeys(p for key in _keys(env, "action") if (p := path(key)[:-1])))


def _no_group(env: Any, group: NestedKey, groups: list[Path]) -> GroupError:
    if not groups:
        return GroupError(
            f"group_keys: no group {group!r}: the env has no groups, its actions are {_keys(env, 'action')}, which "
            f"losses read as they are"
        )
    known = sorted(str(nested(one)) for one in groups)
    return GroupError(f"group_keys: no group {group!r} with actions; {nearest(str(group), known)}")


def _refuse_unequal(env: Any, where: Path) -> None:
    for kind in ("action", "observation"):
        spec = getattr(env, f"full_{kind}_spec").get(nested(where), None)
        if spec is not None and type(spec).__name__ == "StackedComposite":
            raise GroupError(
                f"group_keys: the agents of group {nested(where)!r} differ in their {kind}, and a loss reads one "
                f"tensor per group; put them into groups of their own, or pad them (unequal='pad')"
            )


def _accepted(loss: Any) -> dict[str, NestedKey]:
    """The keys that a loss or an estimator lets be set, with what they are when nothing is said."""
    accepted = getattr(loss, "_AcceptedKeys", None)
    if accepted is None or not dataclasses.is_dataclass(accepted):
        raise KeyMissing(
            f"group_keys: {type(loss).__name__} has no keys that can be set; pass a loss module of TorchRL, its class, "
            f"or its value estimator"
        )
    held = getattr(loss, "tensor_keys", None) if not isinstance(loss, type) else None
    keys: dict[str, Any] = {one.name: one.default for one in dataclasses.fields(accepted)}
    return {name: getattr(held, name, default) for name, default in keys.items()}


def _place(name: str, default: Any, known: dict[str, Keys], where: Path, groups: list[Path]) -> Keys | None:
    """The key of a loss for a group; None for what is off."""
    if isinstance(known["action"], list) and isinstance(default, list):
        return default  # the parts of a composed action, as the loss's own actor writes them
    if name in known:
        return known[name]
    if name in SHARED:
        return default if default is not None else name
    if default is None:
        return nested((*where, name)) if name in FILLED else None
    lead, names = _split(path(default), groups)
    return nested((*lead, *where, *names))


def _split(default: Path, groups: list[Path]) -> tuple[Path, Path]:
    """The ``"next"`` that a key begins with, if it does, and its names within a group, whichever it names."""
    lead = default[:1] if default[0] == "next" and len(default) > 1 else ()
    names = default[len(lead) :]
    for group in sorted([*groups, PLACEHOLDER], key=len, reverse=True):
        if names[: len(group)] == group and len(names) > len(group):
            return lead, names[len(group) :]
    return lead, names
