"""New episodes in some rows of data, in place: only those rows are computed, and nothing is merged afterwards.

What :mod:`marlenv.envs.resetting` does for any env by making whole new data and choosing row by row; here the kept values
go into the reset, for the groups of the world and masks at the root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.groups.reset import RESET
from marlenv.keys import Path
from marlenv.physics.kernel import result_fields
from marlenv.physics.simulation import SHARED, leaves
from marlenv.tensordicts import anything, drop, get, is_nested, put, raw, rows

if TYPE_CHECKING:
    from marlenv.physics.env import ScenarioEnv


CPU = torch.device("cpu")
SHARED_BY_AGENTS = (1, 0, 1)  # strides of flags ``[B, A, 1]`` that are views of their row's


class Place(NamedTuple):
    """Where the data of an env hold an observation or an info."""

    key: tuple[str, ...]
    """Its path in the simulation."""
    node: Path
    """The tensordict that holds it."""
    name: str
    shape: torch.Size
    """Its shape in the data."""
    column: bool
    """Whether the data have a last dimension of one that the simulation has not."""
    dtype: torch.dtype


def places_of(env: ScenarioEnv) -> list[Place] | None:
    """Where the data of an env hold what is seen and told; None where groups are not those of the world."""
    seating = env.seating
    if len(seating.whole) != len(env.tree.groups) or seating.padded:
        return None
    paths = {group: path for path, group in seating.whole.items()}
    fields, seen = result_fields(env.simulation)
    out = []
    for field in fields[:seen]:
        group, what, *rest = field.name
        shared = group == SHARED
        where = (*(() if shared else paths[group]), what, *rest)
        column = what == "info" and len(field.shape) < 2 - shared
        shape = torch.Size((*env.batch_size, *field.shape, *[1] * column))
        out.append(Place(field.name, where[:-1], where[-1], shape, column, field.dtype))
    return out


def restart(env: ScenarioEnv, td: TensorDictBase, mask: Any) -> bool:
    """Starts new episodes in the rows ``mask`` (bool ``[B]`` or ``[B, 1]``) and writes what follows into ``td``.

    Returns:
        False, and nothing has happened, where the data or the mask are not the plain ones.

    """
    if not _plain(env, td, mask):
        return False
    found = _found(env, td)
    if found is None:
        return False
    kept, holders, flags = found
    where = rows(mask, 1)
    with env._gradients():
        seen, infos = env._begin(where, kept)
    fresh = leaves(seen, infos)
    for node, place in holders:
        x = fresh[place.key]
        put(node, place.name, x.unsqueeze(-1) if place.column else x)
    _undo(flags, ~where.unsqueeze(-1))
    drop(td, RESET)
    env._on_reset(td)
    return True


def _undo(flags: list[tuple[Any, dict[str, Tensor]]], goes_on: Tensor) -> None:
    """Writes flags that are False but in the rows that go on, bool ``[B, 1]``; those that are False already stay."""
    done: dict[tuple[str, int], Tensor | None] = {}
    for node, names in flags:
        for name, flag in names.items():
            here, strides = (name, flag.data_ptr()), flag.stride()
            shared = strides == SHARED_BY_AGENTS and here in done
            now = done[here] if shared else None
            if not shared and anything(flag):
                now = flag & (goes_on if flag.ndim == 2 else goes_on.reshape(-1, *(1,) * (flag.ndim - 1)))
            if strides == (1, 1):
                done[here] = now
            if now is not None:
                put(node, name, now.as_strided(flag.shape, strides) if shared else now)


def _plain(env: ScenarioEnv, td: Any, mask: Any) -> bool:
    """Whether nothing special is asked for, on the CPU: elsewhere all rows are computed anyway."""
    return (
        env._now is not None
        and env._places is not None
        and not env.is_closed
        and env.device == CPU
        and raw(td) is not None
        and td.batch_size == env.batch_size
        and isinstance(mask, Tensor)
        and mask.dtype == torch.bool
        and mask.is_cpu
        and mask.shape in (env.batch_size, (*env.batch_size, 1))
        and not (env.grad_enabled and torch.is_grad_enabled())
    )


def _found(env: ScenarioEnv, td: TensorDictBase) -> Any:
    """What rows see, where that is held, and the done flags with the nodes that hold them.

    None unless all is there and nothing else asked for.
    """
    kept, holders, flags = {}, [], []
    path, node = None, None
    for place in env._places or ():
        if place.node != path:
            path, node = place.node, _node(td, place.node)
        x = None if node is None else get(node, place.name)
        if type(x) is not Tensor or x.dtype != place.dtype or x.shape != place.shape or not x.is_cpu:
            return None
        kept[place.key] = x.squeeze(-1) if place.column else x
        holders.append((node, place))
    for level in env.plan.done.levels:
        node = _node(td, level.path)
        if node is None or raw(node) is None or (level.path and get(node, RESET) is not None):
            return None
        names = {}
        for name in level.names:
            names[name] = flag = get(node, name)
            if type(flag) is not Tensor or flag.shape != level.shape:
                return None
        flags.append((node, names))
    return kept, holders, flags


def _node(td: Any, path: Path) -> Any:
    for name in path:
        td = get(td, name) if is_nested(td) else None
        if td is None:
            return None
    return td
