"""Which entries of an env are the one action and the one reward that other libraries know of a group."""

from __future__ import annotations

from marlenv.envs import EnvBase
from marlenv.errors import KeyMissing, SpecError, SpecTypeError
from marlenv.groups import GroupTree
from marlenv.keys import NestedKey, Path, nested, path


def named(group: Path) -> str:
    """A group, or the env where it has none, for errors.

    >>> named(("red", "scouts")), named(())
    ("group ('red', 'scouts')", 'the env')
    """
    return f"group {nested(group)!r}" if group else "the env"


def action_entry(who: str, env: EnvBase, group: Path | None = None) -> NestedKey:
    """The one action of a group.

    Args:
        who: the adapter, for errors.
        env: our env.
        group: the group; the one that acts when left out.

    Raises:
        SpecTypeError: more than one group acts, and none is named.
        SpecError: the group has several actions.

    >>> action_entry("here", marlenv.make("simple_spread"))
    ('agents', 'action')
    """
    keys = list(env.action_keys)
    if group is None:
        groups = GroupTree(env.group_map).groups if getattr(env, "group_map", None) else {}
        acting = [one for one in groups if any(path(key)[: len(one)] == one for key in keys)]
        if len(acting) > 1:
            raise SpecTypeError(
                f"{who}: expected an env in which one agent, or one group, acts, got actions {keys}; "
                f"to_pettingzoo_parallel takes every env with groups"
            )
        group = acting[0] if acting else path(keys[0])[:-1] if len(keys) == 1 else ()
    own = [key for key in keys if path(key)[: len(group)] == group]
    if len(own) == 1 and path(own[0])[:-1] == group:
        return own[0]
    mend = "make one of them by a transform"
    if group:
        mend += "; to_pettingzoo_parallel and to_rllib(agents='agents') take dicts of them, under one entry 'action'"
    raise SpecError(f"{who}: {named(group)} has {len(own)} action entries, {own}, and one is taken; {mend}")


def check_action(who: str, env: EnvBase, group: Path) -> None:
    """Raises unless all that an agent of a group does is its entry ``"action"``, a tensor or a dict of them.

    Args:
        who: the adapter, for errors.
        env: our env.
        group: the group.

    Raises:
        SpecError: it has other actions.
    """
    spec = env.full_action_spec_unbatched[nested(group)]
    if (names := [str(name) for name in spec.keys()]) != ["action"]:
        now, then = ([nested((*group, *more, name)) for name in names] for more in ((), ("action",)))
        then = [nested((*group, "action"))] if len(names) == 1 else then
        raise SpecError(
            f"{who}: {named(group)} has {len(names)} action entries, {now}, and what an agent does is one entry "
            f"'action'; RenameTransform([], [], in_keys_inv={now}, out_keys_inv={then})"
        )


def reward_entry(who: str, env: EnvBase, group: Path, agents: int) -> Path | None:
    """The one reward of a group: its own, or that of a level above; of several the one called ``"reward"``.

    Args:
        who: the adapter, for errors.
        env: our env.
        group: the group.
        agents: how many it has.

    Returns:
        Where it is; None where the group is paid nothing.

    Raises:
        KeyMissing: it has several, and none is called ``"reward"``.
        SpecError: it is not one number for each agent.

    >>> reward_entry("here", marlenv.make("simple_spread"), ("agents",), 3)
    ('agents', 'reward')
    """
    keys = [path(key) for key in env.reward_keys]
    levels = ([key for key in keys if key[:-1] == group[:n]] for n in range(len(group), -1, -1))
    own = next(filter(None, levels), keys if len(keys) == 1 and not group else [])
    if not own:
        return None
    chosen = own[0] if len(own) == 1 else (*own[0][:-1], "reward")
    if chosen not in own:
        raise KeyMissing(
            f"{who}: {named(group)} has {len(own)} reward entries, {[nested(key) for key in own]}, and none is called "
            f"'reward'; name the one so: RenameTransform"
        )
    _check_one_number(who, env, chosen, agents if chosen[:-1] == group else 1)
    return chosen


def _check_one_number(who: str, env: EnvBase, key: Path, agents: int) -> None:
    """Raises unless a reward is one number for each agent, or one for all of a level."""
    spec = env.full_reward_spec_unbatched
    node = spec[nested(key[:-1])] if len(key) > 1 else spec
    shape = spec[nested(key)].shape
    if shape.numel() not in (1, node.shape.numel(), agents):
        raise SpecError(
            f"{who}: entry {nested(key)!r} is several numbers, {list(shape)}, and a reward is one for each agent; "
            f"weigh them: LineariseRewards([{nested(key)!r}], weights=...)"
        )
