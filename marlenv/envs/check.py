"""``check_env_specs``: whether an env answers what its specs say."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from tensordict import TensorDictBase
from torch import Size, Tensor

from marlenv.envs.access import where_to_declare
from marlenv.errors import ContractBroken, DtypeError, NotInSpec, SpecTypeError
from marlenv.groups.masks import open_rows
from marlenv.keys import NestedKey, Path, nested, under
from marlenv.specs import Composite, StackedComposite
from marlenv.specs.shapes import fits
from marlenv.tensordicts import NON_TENSOR, entries, get, is_nested, parts

if TYPE_CHECKING:
    from marlenv.envs.env import EnvBase


def check_env_specs(
    env: EnvBase,
    return_contiguous: bool | None = None,
    check_dtype: bool = True,
    seed: int | None = None,
    tensordict: TensorDictBase | None = None,
    break_when_any_done: bool | Literal["both"] | None = None,
    *,
    steps: int = 3,
) -> None:
    """Plays a few random steps and compares keys, shapes, dtypes, devices and values with the specs.

    Args:
        env: is reset and stepped, so its episode is lost; its seed too when ``seed`` is given.
        return_contiguous: as in ``rollout``.
        check_dtype: compare dtypes too.
        seed: seeds the env first.
        tensordict: what to reset from, for envs that take a batch size or a state from it.
        break_when_any_done: as in ``rollout``; ``"both"`` checks both ways.
        steps: how many steps to play.

    Raises:
        SpecTypeError: it is no env of marlenv.
        ContractBroken: an AssertionError that names the entry, what the spec says and what came.
    """
    who = type(env).__name__
    if not hasattr(type(env), "step_and_maybe_reset") or not hasattr(type(env), "plan"):  # the class, not what it wraps
        raise SpecTypeError(
            f"check_env_specs: expected an env of marlenv, got {who}; from_torchrl(env) makes one of TorchRL's"
        )
    if seed is not None:
        env.set_seed(seed)
    ways = [True, False] if break_when_any_done == "both" else [break_when_any_done]
    for way in ways:
        played: list[TensorDictBase] = []
        try:
            env.rollout(
                steps,
                callback=partial(_keep, played),
                tensordict=None if tensordict is None else tensordict.copy(),
                auto_reset=tensordict is None or not _is_start(env, tensordict),
                break_when_any_done=way,
                return_contiguous=return_contiguous,
            )
        except DtypeError as error:  # such as a flag that is not bool, with which no step goes on
            raise ContractBroken(str(error)) from error
        finally:  # steps that do not stack, or do not go on, are told apart by their specs first
            for i, data in enumerate(played):
                try:
                    check_step(env, data, check_dtype)
                    _check_causes(env, data.get("next"))
                except ContractBroken as error:
                    error.add_note(f"in step {i} of a rollout of {who}")
                    raise


def _keep(played: list[TensorDictBase], _: EnvBase, data: TensorDictBase) -> None:
    played.append(data)


def _is_start(env: EnvBase, td: TensorDictBase) -> bool:
    """Whether a tensordict holds the data of a reset."""
    return all(key in td.keys(True, True) for key in env.observation_keys)


def check_step(env: EnvBase, data: TensorDictBase, check_dtype: bool = True) -> None:
    """Compares the data of one step with the specs of the env."""
    families = [
        ("observation", env.full_observation_spec, ()),
        ("done", env.full_done_spec, ()),
        ("action", env.full_action_spec, ()),
        ("state", env.full_state_spec, ()),
        ("observation", env.full_observation_spec, ("next",)),
        ("reward", env.full_reward_spec, ("next",)),
        ("done", env.full_done_spec, ("next",)),
    ]
    lead = data.batch_size[: data.ndim - len(env.batch_size)]
    expected: set[NestedKey] = set()
    for kind, spec, prefix in families:
        for where, agent, leaf, value in _leaves(spec, data.get("next") if prefix else data, prefix):
            expected.add(where)
            name = f"{kind} {where!r}" + ("" if agent is None else f" of agent {agent} of its group")
            if value is None:
                raise ContractBroken(f"{name} is in the {kind} spec but the env did not give it")
            if isinstance(value, Tensor):
                leaf = _as_masked(env, where, leaf, data) if kind == "action" else leaf
                _check_leaf(name, leaf, value, lead, check_dtype)
            elif isinstance(value, NON_TENSOR) and not leaf.is_in(value):
                raise ContractBroken(f"{name} must be a tensor of {leaf.dtype}, got {value.tolist()!r}")
    carried = {under("next", key) for key in env.full_state_spec.keys(True, True)}
    got = set(_keys(data, ()))
    if surplus := got - expected - carried:
        raise ContractBroken(
            f"the env gave entries that are in no spec: {sorted(map(str, surplus))}; {where_to_declare(surplus)}"
        )


def _check_causes(env: EnvBase, following: TensorDictBase) -> None:
    """Raises where something is done without a cause, or has a cause and is not done."""
    for level in env.plan.done.levels:
        node = env.plan.done.node(following, level)
        flags = {} if node is None else {name: get(node, name) for name in {*level.names, "truncated"}}
        done, terminated = flags.pop("done", None), flags.get("terminated")
        if not isinstance(done, Tensor) or not isinstance(terminated, Tensor):
            continue
        causes = terminated
        for flag in flags.values():  # a transform may call its own by another name
            causes = causes | flag if isinstance(flag, Tensor) else causes
        where = nested(("next", *level.path, "done"))
        if bool((done & ~causes).any()):
            raise ContractBroken(
                f"done {where!r} is True where neither 'terminated' nor 'truncated' is; return these two and leave "
                f"'done' to the base"
            )
        for name in ("terminated", "truncated"):
            flag = flags.get(name)
            if isinstance(flag, Tensor) and bool((flag & ~done).any()):
                raise ContractBroken(f"done {where!r} is False where {name!r} is True; leave 'done' to the base")


def _as_masked(env: EnvBase, key: NestedKey, leaf: Any, data: TensorDictBase) -> Any:
    """An action spec with the mask that was emitted with the data, rather than a later one."""
    where = next((entry.mask for entry in env.plan.actions if entry.key == key), None)
    emitted = None if where is None else data.get(nested(where), None)
    if emitted is None or emitted.shape != leaf._mask_shape:
        return leaf
    masked = leaf.clone()
    masked.update_mask(open_rows(emitted.bool()))
    return masked


def _leaves(
    spec: Composite, td: TensorDictBase | None, prefix: Path, agent: int | None = None
) -> Iterator[tuple[NestedKey, int | None, Any, Any]]:
    """Key, agent (in a lazily stacked group), spec and value of every leaf; the value is None where ``td`` lacks it."""
    if isinstance(spec, StackedComposite):
        count = len(spec.parts)
        dim = 0 if td is None else td.ndim - spec.ndim + spec.dim
        tds: Any = [None] * count if td is None else td.unbind(dim)
        for i, (part, one) in enumerate(zip(spec.parts, tds, strict=True)):
            yield from _leaves(part, one, prefix, i)
        return
    for name, child in spec.items():
        value = None if td is None else get(td, name)
        if isinstance(child, Composite):
            if isinstance(value, Tensor):
                where = nested((*prefix, name))
                raise ContractBroken(f"{where!r} is a group in the specs, got a tensor {list(value.shape)}")
            yield from _leaves(child, value, (*prefix, name), agent)
        else:
            yield nested((*prefix, name)), agent, child, value


def _keys(td: TensorDictBase, prefix: Path) -> Iterator[NestedKey]:
    """Every leaf's key, those that only some agents of a lazily stacked group have too."""
    if (agents := parts(td)) is not None:
        for one in agents:
            yield from _keys(one, prefix)
        return
    for name, value in entries(td):
        if is_nested(value):
            yield from _keys(value, (*prefix, name))
        else:
            yield nested((*prefix, name))


def _check_leaf(name: str, leaf: Any, value: Tensor, lead: Size, check_dtype: bool) -> None:
    want = Size((*lead, *leaf.shape))
    if not value.is_nested and not (value.ndim == len(want) and fits(value.shape, want)):
        raise ContractBroken(f"{name} must have shape {list(want)}, got {list(value.shape)}")
    if check_dtype and value.dtype != leaf.dtype:
        raise ContractBroken(f"{name} must be {leaf.dtype}, got {value.dtype}")
    if leaf.device is not None and value.device.type != leaf.device.type:
        raise ContractBroken(f"{name} must be on {leaf.device}, got {value.device}")
    cast = value if value.dtype == leaf.dtype else value.to(leaf.dtype)
    try:
        leaf.assert_is_in(cast)
    except NotInSpec as error:
        raise ContractBroken(f"{name} lies outside its spec: {error}") from error
