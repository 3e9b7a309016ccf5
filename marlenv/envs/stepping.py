"""One step: calling the env, completing what it answered, and moving on to the next step's data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDict, TensorDictBase, is_tensorclass
from torch import Size, Tensor

from marlenv.envs.plan import Plan
from marlenv.errors import (
    DeviceError,
    DtypeError,
    EnvClosed,
    KeyMissing,
    NotInSpec,
    ResetError,
    ShapeError,
    Unsupported,
)
from marlenv.groups.done import DoneLevel, complete_level
from marlenv.keys import NestedKey, Path, nested, path
from marlenv.specs import Composite, StackedComposite
from marlenv.specs.shapes import concrete
from marlenv.tensordicts import (
    choose,
    drop,
    entries,
    fetch,
    get,
    is_nested,
    lazy,
    new,
    parts,
    put,
    raw,
    rows,
    shallow,
    unite,
    write,
)

if TYPE_CHECKING:
    from marlenv.envs.env import EnvBase

STEP = "_step"
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, *UNSIGNED)
"""The dtypes that actions which number choices come in, besides that of their spec."""


def step(env: EnvBase, td: TensorDictBase) -> TensorDictBase:
    """Steps the env from ``td`` and writes what follows under ``"next"``."""
    check_input(env, td)
    mask = get(td, STEP)
    if mask is not None:
        return partial_step(env, td, mask)
    plan = env.plan
    check_actions(env, plan, td)
    preset = get(td, "next")
    following = finish(env, plan, env._step(td), td)
    if preset is not None:  # values that are already under "next" and that the env does not give
        _fill(following, preset)
    put(td, "next", following)
    return td


def step_in_one(env: EnvBase, td: TensorDictBase) -> Any:
    """Steps like :func:`step` by an env that resets in one go.

    Returns:
        The data after the reset of what is done, without rewards; None where nothing is; False where nothing was
        stepped.
    """
    if raw(td) is None or get(td, STEP) is not None or env._auto_reset is not None:
        return False
    check_input(env, td)
    plan = env.plan
    check_actions(env, plan, td)
    made = env._step_and_reset(td)
    if made is None:
        return False
    following = finish(env, plan, made[0], td)
    if (preset := get(td, "next")) is not None:
        _fill(following, preset)
    put(td, "next", following)
    return made[1]


def check_input(env: EnvBase, td: Any) -> None:
    """Raises unless ``td`` is a tensordict of the env's batch size and the env is open."""
    if env.is_closed:
        reopen(env)
    if type(td) is not TensorDict and not isinstance(td, TensorDictBase):  # an abstract class looks longer
        raise TypeError(f"{type(env).__name__}: expected a tensordict, got {type(td).__name__}")
    want = env.batch_size
    if td.batch_size != want and (want or env.batch_locked):
        raise ShapeError(
            f"{type(env).__name__}: expected a tensordict of batch size {list(want)}, got {list(td.batch_size)}; "
            f"begin with env.reset(), whose data have it"
        )


def reopen(env: Any) -> None:
    """Starts a closed env again, or raises."""
    if not env.starts_again:
        raise EnvClosed(
            f"{type(env).__name__}: the env is closed; make a new one (collectors of TorchRL close theirs at the end)"
        )
    env.start()
    env.is_closed = False


def check_actions(env: EnvBase, plan: Plan, td: TensorDictBase, where: Tensor | None = None) -> None:
    """Raises unless every action is there, with its shape, on the env's device.

    Values are looked at with ``run_type_checks`` only, and in the rows ``where`` (bool ``[*B]``) only, if given.
    """
    lead = td.batch_size
    lead = None if lead == env.batch_size else lead
    device = env.device
    for entry in plan.actions:
        value: Any = td
        for name in entry.path:
            value = get(value, name)
            if value is None:
                raise KeyMissing(
                    f"{type(env).__name__}.step: no action under {entry.key!r}; the data has "
                    f"{sorted(map(str, td.keys(True, True)))}"
                )
        if type(value) is not Tensor:
            if isinstance(value, list):
                _check_parts(env, entry.key, entry.spec, value, lead or Size())
            if not isinstance(value, Tensor):
                continue
        want = entry.spec.shape if lead is None else Size((*lead, *entry.spec.shape))
        if value.shape != want and -1 not in want and not value.is_nested:
            raise ShapeError(
                f"{type(env).__name__}.step: action {entry.key!r} must have shape {list(want)}, got {list(value.shape)}"
            )
        if entry.numbered and value.dtype not in WHOLE and value.dtype != entry.spec.dtype:
            raise DtypeError(
                f"{type(env).__name__}.step: action {entry.key!r} must be {entry.spec.dtype}, got {value.dtype}; it "
                f"is the "
                f"number of a choice"
            )
        if device is not None and value.device != device:
            raise DeviceError(
                f"{type(env).__name__}.step: action {entry.key!r} must be on {device}, got {value.device}; "
                f"move the data with td.to({str(device)!r})"
            )
    if env.run_type_checks:
        leaves: list[tuple[NestedKey, Any]] = [(entry.key, entry.spec) for entry in plan.actions]
        if where is not None and not bool(where.all()):
            td, leaves = td[where], [(key, spec if lead is not None else spec[where]) for key, spec in leaves]
        if td.numel():
            _check_values(env, td, leaves, "step")


def _check_parts(env: EnvBase, key: NestedKey, stacked: Any, values: list[Any], lead: Size) -> None:
    """Raises unless the actions of lazily stacked agents have the shapes of their specs."""
    for i, (spec, value) in enumerate(zip(stacked.parts, values, strict=True)):
        want = Size((*lead, *spec.shape))
        if value.shape != want and -1 not in want:
            raise ShapeError(
                f"{type(env).__name__}.step: action {key!r} of agent {i} of its group must have shape {list(want)}, "
                f"got {list(value.shape)}"
            )


def _check_values(env: EnvBase, td: TensorDictBase, leaves: list[tuple[NestedKey, Any]], verb: str) -> None:
    for key, spec in leaves:
        value = td.get(key, None)
        if value is None:
            raise KeyMissing(
                f"{type(env).__name__}.{verb}: no entry {key!r}; there are {sorted(map(str, td.keys(True, True)))}"
            )
        if isinstance(value, Tensor) and value.dtype != spec.dtype:
            raise DtypeError(f"{type(env).__name__}.{verb}: {key!r} must be {spec.dtype}, got {value.dtype}")
        try:
            spec.assert_is_in(value)
        except NotInSpec as error:
            error.add_note(f"under {key!r}, in {type(env).__name__}.{verb}")
            raise


def finish(env: EnvBase, plan: Plan, following: Any, td: TensorDictBase) -> TensorDictBase:
    """Checks what ``_step`` returned and completes its done flags, in place."""
    if following is td or (type(following) is not TensorDict and not isinstance(following, TensorDictBase)):
        what = "its input" if following is td else f"a {type(following).__name__}"
        raise TypeError(f"{type(env).__name__}._step: must return a new tensordict, returned {what}")
    batch = following.batch_size
    if batch != td.batch_size:
        raise ShapeError(
            f"{type(env).__name__}._step: must return batch size {list(td.batch_size)}, returned {list(batch)}"
        )
    lead = batch[: len(batch) - plan.batch_ndim] if len(batch) > plan.batch_ndim else None
    for where, shape in plan.rewards:
        node: Any = following
        for name in where[:-1]:
            node = get(node, name)
            if node is None:
                break
            if isinstance(node, Tensor):
                raise TypeError(
                    f"{type(env).__name__}._step: {name!r} is a group, got a tensor {list(node.shape)}; return a "
                    f"tensordict with {nested(where)!r}"
                )
        reward = None if node is None else get(node, where[-1])
        if reward is None:
            more = "; what follows is returned by itself, not under 'next'" if "next" in following.keys() else ""
            raise KeyMissing(
                f"{type(env).__name__}._step: returned no reward under {nested(where)!r}; "
                f"it returned {sorted(map(str, following.keys(True, True)))}{more}"
            )
        want = shape if lead is None else Size((*lead, *shape))
        if reward.shape != want and -1 not in want and not reward.is_nested:
            if reward.numel() != want.numel():
                raise ShapeError(
                    f"{type(env).__name__}._step: reward {nested(where)!r} must have shape {list(want)}, got "
                    f"{list(reward.shape)}"
                )
            put(node, where[-1], reward.reshape(want))
    if not env.gives_all_flags:
        for level in plan.undeclared:
            if level.path or type(following) is not TensorDict or "truncated" in following._tensordict:
                _heed_truncated(env, plan, level, following, lead)
        plan.done.complete(following, env)
    if env._auto_reset is not None:
        env._auto_reset.blank(env, following)
    if env.run_type_checks:
        families = (env.full_observation_spec, env.full_reward_spec, env.full_done_spec)
        _check_values(env, following, [item for spec in families for item in spec.items(True, True)], "_step")
    return following


def _heed_truncated(env: EnvBase, plan: Plan, level: DoneLevel, following: TensorDictBase, lead: Size | None) -> None:
    """Completes the flags of a level whose spec has no ``truncated`` with the one that a step gave all the same."""
    node = plan.done.node(following, level)
    if node is not None and get(node, "truncated") is not None:
        complete_level(node, level, level.shape if lead is None else Size((*lead, *level.shape)), env)


def _fill(td: TensorDictBase, source: TensorDictBase) -> None:
    """Copies the entries of ``source`` that ``td`` lacks."""
    for name, value in entries(source):
        mine = get(td, name)
        if mine is None:
            put(td, name, value)
        elif is_nested(mine) and is_nested(value):
            _fill(mine, value)


def partial_step(env: EnvBase, td: TensorDictBase, mask: Tensor) -> TensorDictBase:
    """Steps the rows where ``mask`` is True; the others keep their data, or get zeros where they have none."""
    want, plan = td.batch_size, env.plan
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape[: len(want)] != want:
        got = f"{mask.dtype} {list(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
        raise ResetError(f"{type(env).__name__}.step: '_step' must be a bool mask of shape {list(want)}, got {got}")
    flat = rows(mask, len(want))
    if not env.handles_partial_steps and bool(flat.all()):
        return _step_unmasked(env, td)
    check_actions(env, plan, td, flat)
    if not bool(flat.any()):
        following = standing(env, td)
    elif not env.batch_locked and want and not env.batch_size:
        following = standing(env, td).clone()
        following[flat] = get(_step_unmasked(env, td[flat]), "next")
    else:
        check_waiting(env, td, flat)
        following = choose(flat, finish(env, plan, env._step(td), td), standing(env, td), len(want))
    drop(td, STEP)
    put(td, "next", following)
    return td


def _step_unmasked(env: EnvBase, td: TensorDictBase) -> TensorDictBase:
    """Steps all rows; the mask goes if that works."""
    mask = drop(td, STEP)
    try:
        return step(env, td)
    except BaseException:
        put(td, STEP, mask)
        raise


def check_waiting(env: EnvBase, td: TensorDictBase, where: Tensor) -> None:
    """Raises if rows that are not done are to wait for those ``where`` (bool ``[*B]``), and the env would move them.

    Rows that are done may be stepped on: nothing but a reset follows on them.
    """
    if holds_rows(env):
        return
    over = rows_done(env, td)
    held = ~where if over is None else ~where & ~over.to(where.device)
    if bool(held.any()):
        found = held.nonzero()
        which = (found.flatten() if held.ndim == 1 else found).tolist()
        raise Unsupported(
            f"{type(env).__name__}.step: all rows of {type(under_transforms(env)).__name__} are stepped at once, got a "
            f"'_step' that leaves out {which}, which are not done; SerialEnv and ParallelEnv step rows one by one "
            f"(an env whose _step obeys masks says handles_partial_steps = True, one whose state is in the data "
            f"full_state_spec)"
        )


def holds_rows(env: EnvBase) -> bool:
    """Whether rows can wait while others are stepped.

    They can if the env reads masks, or its state travels in the data, of which what it had is kept.
    """
    return bool(env.handles_partial_steps or not env.batch_locked or under_transforms(env).plan.state_keys)


def under_transforms(env: EnvBase) -> EnvBase:
    """The env itself, or the one that it transforms."""
    below: Any = env
    while (inner := below._modules.get("base_env")) is not None:
        below = inner
    return below


def rows_done(env: EnvBase, td: TensorDictBase) -> Tensor | None:
    """Which rows of the batch are over: everything that is reset by itself is done; bool ``[*B]``.

    None where the data have no done flags.
    """
    plan = env.plan.done
    over: Tensor | None = None
    for level in plan.top:
        node = plan.node(td, level)
        if node is not None and any(get(node, name) is not None for name in level.names):
            done = plan.done_of(node, level)
            flag = done.flatten(td.ndim).all(-1) if done.ndim > td.ndim else done
            over = flag if over is None else over & flag
    return over


def standing(env: EnvBase, td: TensorDictBase) -> TensorDictBase:
    """The "next" data of an env that is not stepped: its present observations and flags, zero rewards."""
    lead = td.batch_size[: td.ndim - len(env.batch_size)]
    out = unite(present(env, td), env.full_reward_spec.zero(lead))
    for key in env.plan.carried:
        if (value := td.get(key, None)) is not None:
            out.set(key, value)
    return out


def present(env: EnvBase, td: TensorDictBase) -> TensorDictBase:
    """The observations and flags of an env, and what else it carries, as they stand in ``td``; zeros for what it
    lacks.
    """
    lead = td.batch_size[: td.ndim - len(env.batch_size)]
    out = _present(env.full_observation_spec, td, lead)
    out = unite(out, _present(env.full_done_spec, td, lead))
    for key in env.plan.state_keys:
        value = fetch(td, key)
        if isinstance(value, Tensor) and fetch(out, key) is None:
            write(out, key, value)
    return out


def _present(spec: Composite, td: TensorDictBase | None, lead: Size) -> TensorDictBase:
    """The entries of a spec as they stand in ``td``; zeros for those that it lacks."""
    if isinstance(spec, StackedComposite):
        dim = len(lead) + spec.dim
        tds: Any = [None] * len(spec.parts) if td is None else td.unbind(dim)
        return lazy([_present(part, one, lead) for part, one in zip(spec.parts, tds, strict=True)], dim)
    if (tds := parts(td)) is not None and td.stack_dim >= len(lead):  # type: ignore[union-attr]
        dim = td.stack_dim  # type: ignore[union-attr]
        return lazy([_present(p, one, lead) for p, one in zip(spec.unbind(dim - len(lead)), tds, strict=True)], dim)
    data: dict[str, Any] = {}
    for name, child in spec.items():
        value = None if td is None else get(td, name)
        if isinstance(child, Composite):
            data[name] = _present(child, value, lead)
        else:
            data[name] = child.zero(lead) if value is None else value
    return new(data, Size((*lead, *concrete(spec.shape))), None if td is None else td.device)


def advance(td: TensorDictBase, rewards: dict[str, Any], top: TensorDictBase | None = None) -> TensorDictBase:
    """The data that the next step starts from: ``"next"`` over the root, without rewards.

    Containers are new, leaves are shared: writing entries to the result does not touch ``td``.

    Args:
        td: what :func:`step` returned.
        rewards: the reward keys as a tree.
        top: what takes the place of ``"next"``, if anything does.
    """
    plain = raw(td)
    following = top if top is not None or plain is None else plain.get("next")
    if plain is None or raw(following) is None:
        td = td if top is None else td.copy().set("next", top)
        return step_mdp(td, exclude_action=False, reward_keys=_tree_keys(rewards))
    return _overlay(plain, following._tensordict, rewards, td.batch_size, td.device)  # type: ignore[union-attr]


def _overlay(
    old: dict[str, Any], top: dict[str, Any], drop_: dict[str, Any], batch: Size, device: Any
) -> TensorDictBase:
    data, empty = {**old, **top}, []
    if "next" in data and "next" not in top:
        del data["next"]
    for name, below in drop_.items():
        if below is None:
            data.pop(name, None)
    for name, value in data.items():
        if type(value) is Tensor or not is_nested(value):
            continue
        below = drop_.get(name)
        if name in top:
            mine, plain = old.get(name), raw(value)
            if plain is not None and (inner := raw(mine)) is not None:  # as most are
                group = _overlay(inner, plain, below or {}, value.batch_size, value.device)
            else:
                group = _overlay_group(mine, value, below or {})
        elif below is None:
            group = shallow(value)
        else:
            group = _overlay(_inner(value), {}, below, value.batch_size, value.device)
        data[name] = group
        if below is not None and not _inner(group):  # its rewards were all that it had
            empty.append(name)
    for name in empty:
        del data[name]
    return new(data, batch, device)


def _overlay_group(old: Any, top: TensorDictBase, drop_: dict[str, Any]) -> TensorDictBase:
    plain, mine = raw(top), old if is_nested(old) else None
    if plain is None:
        return _overlay_any(mine, top, drop_)
    inner = {} if mine is None else raw(mine)
    if inner is None:  # a stack of agents, some of whose values may not stack
        inner = _inner(old)
        if any(type(kept) is list and key not in plain for key, kept in inner.items()):
            return _overlay_any(mine, top, drop_)
    return _overlay(inner, plain, drop_, top.batch_size, top.device)


def _inner(td: TensorDictBase) -> dict[str, Any]:
    plain = raw(td)
    return dict(entries(td)) if plain is None else plain


def _overlay_any(old: TensorDictBase | None, top: TensorDictBase, drop_: dict[str, Any]) -> TensorDictBase:
    """The same for tensordicts of other kinds (lazy stacks, tensorclasses)."""
    stacked = top if parts(top) is not None else old
    if stacked is not None and parts(stacked) is not None:
        dim = stacked.stack_dim
        tops = top.unbind(dim)
        olds: Any = [None] * len(tops) if old is None else old.unbind(dim)
        return lazy([_overlay_one(o, t, drop_) for o, t in zip(olds, tops, strict=True)], dim)
    out = top.exclude(*_tree_keys(drop_)) if drop_ else top.copy()
    for key, value in [] if old is None else list(old.items(True, True)):
        if key not in out.keys(True) and key not in _tree_keys(drop_):
            out.set(key, value)
    return out


def _overlay_one(old: TensorDictBase | None, top: TensorDictBase, drop_: dict[str, Any]) -> TensorDictBase:
    """:func:`_overlay` of one agent of a lazily stacked group."""
    plain = raw(top)
    if plain is None or (old is not None and raw(old) is None):
        return _overlay_any(old, top, drop_)
    return _overlay({} if old is None else _inner(old), plain, drop_, top.batch_size, top.device)


def _tree_keys(tree: dict[str, Any], prefix: tuple[str, ...] = ()) -> list[NestedKey]:
    keys: list[NestedKey] = []
    for name, below in tree.items():
        keys += [nested((*prefix, name))] if below is None else _tree_keys(below, (*prefix, name))
    return keys


def step_mdp(
    tensordict: TensorDictBase,
    next_tensordict: TensorDictBase | None = None,
    keep_other: bool = True,
    exclude_reward: bool = True,
    exclude_done: bool = False,
    exclude_action: bool = True,
    reward_keys: NestedKey | Iterable[NestedKey] = "reward",
    done_keys: NestedKey | Iterable[NestedKey] = "done",
    action_keys: NestedKey | Iterable[NestedKey] = "action",
) -> TensorDictBase:
    """The data that the next step starts from, made from the data of a step.

    Args:
        tensordict: data with a ``"next"`` entry.
        next_tensordict: where to write the result; a new tensordict when left out.
        keep_other: keep the entries of the root that are not in ``"next"``.
        exclude_reward: leave out rewards.
        exclude_done: leave out done flags.
        exclude_action: leave out actions.
        reward_keys: which entries are rewards.
        done_keys: which entries are done flags.
        action_keys: which entries are actions.

    >>> from tensordict import TensorDict
    >>> td = TensorDict({"obs": 0, "action": 1, "next": {"obs": 2, "reward": 3.0, "done": False}}, [])
    >>> sorted(step_mdp(td).keys()), step_mdp(td)["obs"]
    (['done', 'obs'], tensor(2))
    """
    if isinstance(tensordict.get("next", None), TensorDictBase) is False:
        raise KeyMissing(f"step_mdp: no 'next' entry; the data has {sorted(map(str, tensordict.keys()))}")
    left_out = {
        path(k)
        for group, on in ((reward_keys, exclude_reward), (done_keys, exclude_done), (action_keys, exclude_action))
        if on
        for k in _keys(group)
    }
    out = _select(tensordict.get("next"), left_out, ())
    if keep_other:
        _merge_missing(out, tensordict, left_out, ())
    elif not exclude_action:
        _take(out, tensordict, [path(key) for key in _keys(action_keys)])
    return out if next_tensordict is None else next_tensordict.update(out)


def _take(out: TensorDictBase, source: TensorDictBase, paths: list[Path]) -> None:
    """Writes the entries of ``source`` at ``paths`` into ``out``, with the batch sizes that their groups have."""
    for where in paths:
        nodes: list[Any] = [source]
        for name in where:
            nodes.append(None if nodes[-1] is None else get(nodes[-1], name))
        if nodes[-1] is None:
            continue
        mine: Any = out
        for name, node in zip(where[:-1], nodes[1:], strict=False):
            below = get(mine, name)
            if below is None:
                below = new({}, node.batch_size, node.device)
                put(mine, name, below)
            if type(nodes[-1]) is list and parts(node) is not None and parts(below) is None:
                below = lazy(below.unbind(node.stack_dim), node.stack_dim)
                put(mine, name, below)
            mine = below
        put(mine, where[-1], nodes[-1])


def _keys(keys: NestedKey | Iterable[NestedKey]) -> list[NestedKey]:
    if isinstance(keys, str) or (isinstance(keys, tuple) and all(isinstance(k, str) for k in keys)):
        return [keys]
    return list(keys)


def _select(td: TensorDictBase, left_out: set[Path], prefix: Path) -> TensorDictBase:
    """A new tensordict with the same leaves, without some of them and without tensordicts that are empty."""
    if (agents := parts(td)) is not None:
        return lazy([_select(one, left_out, prefix) for one in agents], td.stack_dim)
    out = td.empty() if is_tensorclass(td) or td._has_names() else new({}, td.batch_size, td.device)
    for name, value in entries(td):
        where = (*prefix, name)
        if where in left_out:
            continue
        chosen = _select(value, left_out, where) if is_nested(value) else value
        if not is_nested(chosen) or not chosen.is_empty():
            put(out, name, chosen)
    return out


def _merge_missing(
    out: TensorDictBase, root: TensorDictBase, left_out: set[tuple[str, ...]], prefix: tuple[str, ...]
) -> None:
    if (outs := parts(out)) is not None:
        for one, other in zip(outs, root.unbind(out.stack_dim), strict=True):
            _merge_missing(one, other, left_out, prefix)
        return
    for name, value in entries(root):
        where = (*prefix, name)
        if where in left_out or where == ("next",):
            continue
        mine = get(out, name)
        if mine is None:
            chosen = _select(value, left_out, where) if is_nested(value) else value
            if not is_nested(chosen) or not chosen.is_empty():
                put(out, name, chosen)
        elif is_nested(mine) and is_nested(value):
            if parts(mine) is None and parts(value) is not None and any(type(x) is list for _, x in entries(value)):
                mine = lazy(mine.unbind(value.stack_dim), value.stack_dim)  # agents whose actions differ in size
                put(out, name, mine)
            _merge_missing(mine, value, left_out, where)
