"""Where infos of gym's may stand in the data of an env."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from warnings import warn

from marlenv.errors import KeyCollision, users_line
from marlenv.keys import DONE_NAMES, Path, nested, path
from marlenv.specs import Composite, TensorSpec

OWN = {("next",), ("action",), ("reward",), *((name,) for name in DONE_NAMES)}
"""Entries of every env's data, whose names no info can have."""


def places(env: Any) -> set[Path]:
    """Where the entries of an env stand."""
    specs = (env.full_observation_spec, env.full_action_spec, env.full_reward_spec, env.full_done_spec)
    return {path(key) for spec in specs for key in spec.keys(True, True)}


def with_infos(who: str, seen: Composite, infos: Mapping[Path, TensorSpec], own: set[Path]) -> Composite:
    """Observation specs with those of infos of one env; raises KeyCollision if one stands where another entry does."""
    seen, batch = seen.clone(), tuple(seen.shape)
    for where, leaf in infos.items():
        if _taken(where, own):
            raise KeyCollision(
                f"{who}.set_info_dict_reader: the info {nested(where)!r} has the name of another entry of the env; "
                f"leave it out of the reader's keys, or rename it in the simulator"
            )
        seen[nested(where)] = leaf.expand(*batch, *leaf.shape) if batch else leaf
    return seen


def without(who: str, info: Mapping[Any, Any], own: set[Path]) -> dict[Any, Any]:
    """The infos without those that have the name of another entry of an env, of which it warns."""
    taken = [name for name in info if _taken((name,), own)]
    if taken:
        said = f"{who}: infos with the names of other entries of the env are left out: {taken}"
        warn(said, stacklevel=users_line())
    return {name: value for name, value in info.items() if name not in taken}


def _taken(where: Path, own: set[Path]) -> bool:
    return any(one[: len(where)] == where[: len(one)] for one in own | OWN)
