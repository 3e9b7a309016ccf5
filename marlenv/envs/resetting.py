"""Starting anew: full and partial resets, and the step that resets what is done."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.envs.stepping import advance, check_input, present, reopen, step_in_one, under_transforms
from marlenv.errors import ResetError, ShapeError
from marlenv.groups.done import DonePlan, strip
from marlenv.groups.reset import RESET, merge, read_masks
from marlenv.keys import Path, nested
from marlenv.options import check_options
from marlenv.tensordicts import anything, drop, get, is_nested, new, put, raw, rows

if TYPE_CHECKING:
    from marlenv.envs.env import EnvBase

Masks = dict[Path, Tensor | None]


def reset(env: EnvBase, td: TensorDictBase | None, kwargs: dict[str, Any]) -> TensorDictBase:
    """Resets what the masks in ``td`` ask for, and merges it into ``td``."""
    if kwargs:
        check_reset_options(env, kwargs)
    plan = env.plan.done
    env.__dict__["_was_reset"] = True
    if td is None:
        check_open(env)
        out = checked(env, plan, env._reset(None, **kwargs), None, {})
        env._on_reset(out)
        return out
    check_input(env, td)
    masks = read_masks(plan, td)
    mask = masks.get(()) if env.resets_in_place and not kwargs and len(masks) == 1 else None
    if mask is not None and env._restart(td, mask):
        strip(td, RESET)
        env._on_reset(td)
        return td
    if not kwargs and not env.resets_without_looking and _mark_nothing(masks):
        fresh = present(env, td)
    else:
        fresh = checked(env, plan, env._reset(td, **kwargs), td, masks)
    strip(td, RESET)
    td = merge(masks, fresh, td)
    env._on_reset(td)
    return td


def _mark_nothing(masks: Masks) -> bool:
    """Whether all that decide are there and False everywhere: then nothing is reset."""
    return all(mask is not None and not anything(mask) for mask in masks.values())


def check_reset_options(env: EnvBase, given: Iterable[str], method: str = "reset", also: Iterable[str] = ()) -> None:
    """Raises for options that ``_reset`` does not have, unless it hands them on to something that may.

    Args:
        env: whose.
        given: their names.
        method: the method that was given them.
        also: options of its own.

    Raises:
        TypeError: names the nearest option.
    """
    known = _reset_options(env)
    if known is not None:
        more = "; set_seed(...) seeds an env" if "seed" in given else ""
        check_options(f"{type(env).__name__}.{method}", given, known, also, more)


def _reset_options(env: EnvBase) -> list[str] | None:
    """The options that ``_reset`` takes, itself or for the env under transforms or the children of a pool; None where
    nobody knows.
    """
    own = inspect.signature(env._reset).parameters
    if all(one.kind is not one.VAR_KEYWORD for one in own.values()):
        return list(own)[1:]
    if (inner := under_transforms(env)) is not env:
        return _reset_options(inner)
    many = [_reset_options(child) for child in env._reset_goes_to()]
    if not many or any(one is None for one in many):
        return None
    return [name for name in many[0] or () if all(name in (one or ()) for one in many)] + ["list_of_kwargs"]


def check_open(env: EnvBase) -> None:
    """Raises if the env was closed, and does not start again."""
    if env.is_closed:
        reopen(env)


def checked(env: EnvBase, plan: DonePlan, fresh: Any, td: TensorDictBase | None, masks: Masks) -> TensorDictBase:
    """Checks what ``_reset`` returned when given ``td`` and completes its done flags, in place."""
    who = type(env).__name__
    if type(fresh) is not TensorDict and not isinstance(fresh, TensorDictBase):
        raise TypeError(f"{who}._reset: must return a tensordict, returned {type(fresh).__name__}")
    if fresh is td:
        raise ResetError(f"{who}._reset: must return a new tensordict, returned its input; start from td.empty()")
    want = env._batch_size if td is None else td.batch_size
    if fresh.batch_size != want and (want or env.batch_locked):
        raise ShapeError(f"{who}._reset: must return batch size {list(want)}, returned {list(fresh.batch_size)}")
    if not env.gives_all_flags:
        plan.complete(fresh, env, "_reset")
    if not env._allow_done_after_reset and not (env.device is not None and env.device.type != "cpu"):
        _refuse_done(who, plan, fresh, masks)
    return fresh


def _refuse_done(who: str, plan: DonePlan, fresh: TensorDictBase, masks: Masks) -> None:
    """Raises if anything that was reset is done."""
    for level in plan.levels:
        node = plan.node(fresh, level)
        if node is None:
            continue
        for name in level.names:
            value = get(node, name)
            if not anything(value):
                continue
            mask = masks.get(next((p for p in masks if level.path[: len(p)] == p), level.path))
            if anything(_within(value, mask, plan.batch_ndim)):
                raise ResetError(
                    f"{who}._reset: {nested((*level.path, name))!r} is True after a reset; nothing may be done before "
                    f"its first step (an env that needs it passes allow_done_after_reset=True)"
                )


def _within(flags: Tensor, mask: Tensor | None, batch_ndim: int) -> Tensor:
    """The flags of what was reset."""
    if mask is None or mask.shape == flags.shape:
        return flags if mask is None else flags & mask
    flat = rows(mask, batch_ndim)
    return flags & flat.reshape(*flat.shape, *[1] * (flags.ndim - flat.ndim))


def maybe_reset(env: EnvBase, td: TensorDictBase) -> TensorDictBase:
    """Resets the rows of ``td`` that are done; ``td`` itself when nothing is."""
    plan = env.plan.done
    look = env.device is None or env.device.type == "cpu" or not env.resets_without_looking
    if look and not plan.any_done(td):
        return td
    top = plan.top[0]
    if env.resets_in_place and not top.path and env._restart(td, plan.done_of(td, top)):
        if type(td) is not TensorDict or RESET in td._tensordict:  # what any_done wrote is used up
            drop(td, RESET)
        env._on_reset(td)
        return td
    return reset_done(env, plan, td)


def reset_done(env: EnvBase, plan: DonePlan, td: TensorDictBase) -> TensorDictBase:
    """Resets the rows of ``td`` whose top flags are done, whether or not there are any."""
    masks: Masks = {}
    request = td.empty() if raw(td) is None else new({}, td.batch_size, td.device)
    for level in plan.top:
        node = plan.node(td, level)
        if node is None:
            continue
        if type(node) is not TensorDict or RESET in node._tensordict:
            drop(node, RESET)
        masks[level.path] = mask = plan.done_of(node, level).clone()
        _request(request, td, level.path, mask)
    return reset_rows(env, request, masks, td)


def reset_rows(env: EnvBase, request: TensorDictBase, masks: Masks, td: TensorDictBase) -> TensorDictBase:
    """Resets what the masks in ``request`` mark, and merges it into ``td``, the data of the step before."""
    plan = env.plan.done
    fresh = checked(env, plan, env._reset_rows(request, td), request, masks)
    td = merge(masks, fresh, td)
    env._on_reset(td)
    return td


def _request(request: TensorDictBase, td: TensorDictBase, path: Path, mask: Tensor) -> None:
    """Writes a mask into what ``_reset`` is given, at its level."""
    for name in path:
        td = get(td, name)
        below = get(request, name)
        if not is_nested(below):
            below = td.empty() if raw(td) is None else new({}, td.batch_size, td.device)
            put(request, name, below)
        request = below
    put(request, RESET, mask)


def step_and_maybe_reset(env: EnvBase, td: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
    """Steps, and returns the step's data and the data that the next step starts from, reset where done."""
    if env.device is not None and td.device is not None and td.device != env.device:
        td = td.to(env.device)
    tree = env.plan.reward_tree
    fresh: Any = step_in_one(env, td) if env.resets_in_one else False
    if fresh is None:  # nothing is done
        return td, advance(td, tree)
    if fresh is False:
        td = env.step(td)
    elif not _names(get(td, "next")) - tree.keys() - _names(fresh):  # it has all that others wrote
        following = advance(td, tree, fresh)
        env._on_reset(following)
        return td, following
    return td, env.maybe_reset(advance(td, tree))


def _names(td: TensorDictBase) -> Any:
    """The names of a tensordict's entries, as a set."""
    plain = raw(td)
    return td.keys() if plain is None else plain.keys()
