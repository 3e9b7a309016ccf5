"""Done flags that a transform changed, and what follows from them.

A user's transform may set one flag and leave the rest to us: ``done`` is ``terminated | truncated``, ``done`` alone is
``terminated``, and a row that ends takes along the agents in it that had not ended. Agents that are done do not live
and act, where their group says who does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.keys import DONE_NAMES, LIFE_NAMES
from marlenv.tensordicts import anything, entries, get, is_nested, parts, put


class Level(NamedTuple):
    """The flags of a place in the data as they stood, copies, and the places below."""

    flags: dict[str, Tensor]
    below: dict[str | int, Level]


def note_flags(td: TensorDictBase) -> Level:
    """The done flags of data, as they stand."""
    below = {name: level for name, node in _below(td) if (level := note_flags(node)).flags or level.below}
    if parts(td) is not None:
        return Level({}, below)
    return Level({name: flag.clone() for name, flag in _flags(td).items()}, below)


def _flags(td: TensorDictBase) -> dict[str, Tensor]:
    return {name: flag for name in DONE_NAMES if isinstance(flag := get(td, name), Tensor)}


def _below(td: TensorDictBase) -> list[tuple[str | int, Any]]:
    """The agents of a lazy stack, or the groups in data."""
    if (agents := parts(td)) is not None:
        return list(enumerate(agents))
    return [(name, value) for name, value in entries(td) if is_nested(value)]


def complete_changed(td: TensorDictBase, before: Level) -> None:
    """Writes, in place, what follows from the flags that are not what they were ``before``."""
    _complete_levels(td, before)
    _end_lives(td, before)


def _complete_levels(td: TensorDictBase, before: Level) -> None:
    for name, node in _below(td):
        if name in before.below:
            _complete_levels(node, before.below[name])
    if _complete(td, before.flags) and before.below:
        done = get(td, "done")
        flags = (done & ~before.flags["done"].to(done.device), get(td, "terminated"), get(td, "truncated"))
        _end_below(td, *(None if flag is None else _of_rows(flag, td.ndim) for flag in flags))


def _end_lives(td: TensorDictBase, before: Level) -> None:
    """Writes that agents do not live and act who are done, and were not ``before``."""
    for name, node in _below(td):
        level = before.below.get(name)
        if level is None:
            continue
        done, was = get(node, "done"), level.flags.get("done")
        if was is not None and isinstance(done, Tensor) and was.shape == done.shape:
            ended = done & ~was.to(done.device)
            for key in LIFE_NAMES if tells_of(get(node, "alive"), done) else ():
                if tells_of(flag := get(node, key), done):
                    put(node, key, flag & ~ended.squeeze(-1))
        _end_lives(node, level)


def tells_of(value: Any, done: Any) -> bool:
    """Whether a value, or its spec, has one bool for each done flag: bool ``[*B, A]`` for ``[*B, A, 1]``."""
    return getattr(value, "dtype", None) == torch.bool and value.shape == done.shape[:-1]


def _complete(td: TensorDictBase, before: dict[str, Tensor]) -> bool:
    """Completes the flags of one place where any of them is not what it was ``before``; whether any is."""
    flags = _flags(td)
    done, terminated = flags.get("done"), flags.get("terminated")
    if done is None or "done" not in before or before["done"].shape != done.shape:
        return False
    none = torch.zeros_like(done)
    new = {name: flag != before.get(name, none).to(flag.device) for name, flag in flags.items()}
    of_causes = new.get("terminated", none) | new.get("truncated", none)
    some = new["done"] | of_causes
    if some.is_cpu and not torch.compiler.is_compiling() and not anything(some):  # no GPU is waited for
        return False
    if terminated is None:
        return True
    truncated = flags.get("truncated", none)
    alone = new["done"] & ~of_causes  # then it is the cause of itself
    made = {
        "terminated": torch.where(new["done"], (terminated & ~alone) | (done & ~truncated), terminated),
        "truncated": truncated & (done | ~alone),
    }
    made["done"] = made["terminated"] | made["truncated"]
    for name, flag in flags.items():
        put(td, name, torch.where(some, made[name], flag))
    return True


def _of_rows(flag: Tensor, ndim: int) -> Tensor:
    """A flag as one bool per row; bool ``[*B]``."""
    return flag.flatten(ndim).any(-1) if flag.ndim > ndim else flag


def _end_below(td: TensorDictBase, ended: Any, terminated: Tensor | None, truncated: Tensor | None) -> None:
    """Ends what has not ended below ``td`` in the rows that have ``ended``, for the same cause; bool ``[*B]`` each."""
    for _, node in _below(td):
        done = get(node, "done")
        if isinstance(done, Tensor):
            going = ~done
            for name, cause in (("terminated", terminated), ("truncated", truncated)):
                flag = get(node, name)
                if cause is not None and isinstance(flag, Tensor):
                    new = (ended & cause).reshape(*cause.shape, *[1] * (flag.ndim - cause.ndim)) & going
                    put(node, name, flag | new)
                    done = done | new
            put(node, "done", done)
        _end_below(node, ended, terminated, truncated)
