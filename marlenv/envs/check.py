"""``check_env_specs``: whether an env answers what its specs say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import ContractBroken, NotInSpec
from marlenv.keys import NestedKey, under
from marlenv.specs.base import fits

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
        ContractBroken: an AssertionError that names the entry, what the spec says and what came.
    """
    who = type(env).__name__
    if seed is not None:
        env.set_seed(seed)
    ways = [True, False] if break_when_any_done == "both" else [break_when_any_done]
    for way in ways:
        real = env.rollout(
            steps,
            tensordict=None if tensordict is None else tensordict.copy(),
            auto_reset=tensordict is None or not _is_start(env, tensordict),
            break_when_any_done=way,
            return_contiguous=return_contiguous,
        )
        for i, data in enumerate(real.unbind(-1)):
            try:
                check_step(env, data, check_dtype)
            except ContractBroken as error:
                error.add_note(f"in step {i} of a rollout of {who}")
                raise


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
    expected: set[NestedKey] = set()
    for kind, spec, prefix in families:
        for key, leaf in spec.items(True, True):
            where = under(prefix, key) if prefix else key
            expected.add(where)
            value = data.get(where, None)
            if value is None:
                raise ContractBroken(f"{kind} {where!r} is in the {kind} spec but the env did not give it")
            if isinstance(value, Tensor):
                _check_leaf(kind, where, leaf, value, check_dtype)
    carried = {under("next", key) for key in env.full_state_spec.keys(True, True)}
    got = set(data.keys(True, True))
    if surplus := sorted(map(str, got - expected - carried)):
        raise ContractBroken(
            f"the env gave entries that are in no spec: {surplus}; add them to observation_spec or drop them"
        )


def _check_leaf(kind: str, where: NestedKey, leaf: Any, value: Tensor, check_dtype: bool) -> None:
    if not value.is_nested and not fits(value.shape, leaf.shape):
        raise ContractBroken(f"{kind} {where!r} must have shape {list(leaf.shape)}, got {list(value.shape)}")
    if check_dtype and value.dtype != leaf.dtype:
        raise ContractBroken(f"{kind} {where!r} must be {leaf.dtype}, got {value.dtype}")
    if leaf.device is not None and value.device.type != leaf.device.type:
        raise ContractBroken(f"{kind} {where!r} must be on {leaf.device}, got {value.device}")
    cast = value if value.dtype == leaf.dtype else value.to(leaf.dtype)
    try:
        leaf.assert_is_in(cast)
    except NotInSpec as error:
        raise ContractBroken(f"{kind} {where!r} lies outside its spec: {error}") from error
