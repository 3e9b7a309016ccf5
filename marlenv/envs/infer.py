"""Specs from data, and data from specs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from tensordict import LazyStackedTensorDict, TensorDictBase, is_tensorclass
from torch import Size, Tensor

from marlenv.errors import SpecError
from marlenv.keys import DONE_NAMES, NestedKey
from marlenv.specs import Categorical, Composite, NonTensor, TensorSpec, Unbounded
from marlenv.tensordicts import NON_TENSOR, entries, is_nested, unite

if TYPE_CHECKING:
    from marlenv.envs.env import EnvBase


def fake_tensordict(env: EnvBase) -> TensorDictBase:
    """Zeros in the shape of a step's data."""
    out = env.full_state_spec.zero()
    for spec in (env.full_action_spec, env.full_observation_spec, env.full_done_spec):
        out = unite(out, spec.zero())
    following = env.full_observation_spec.zero()
    for spec in (env.full_reward_spec, env.full_done_spec):
        following = unite(following, spec.zero())
    out.set("next", following)
    return out if env.device is None else out.to(env.device)


def make_composite_from_td(
    data: TensorDictBase, *, unsqueeze_null_shapes: bool = True, dynamic_shape: bool = False
) -> Composite:
    """The spec of a tensordict, taking every tensor for unbounded.

    Args:
        data: example data.
        unsqueeze_null_shapes: give numbers the shape ``(1,)``.
        dynamic_shape: take the size of every last dimension behind the batch for variable (-1).

    >>> from tensordict import TensorDict
    >>> print(make_composite_from_td(TensorDict({"obs": torch.zeros(3), "t": 1}, [])))
    Composite []
      obs  [3]  float32  Unbounded
      t    [1]  int64    Unbounded
    """
    if isinstance(data, LazyStackedTensorDict):
        parts = [
            make_composite_from_td(part, unsqueeze_null_shapes=unsqueeze_null_shapes, dynamic_shape=dynamic_shape)
            for part in data.tensordicts
        ]
        return torch.stack(parts, data.stack_dim)  # type: ignore[arg-type, return-value]
    out = Composite(shape=data.shape, data_cls=type(data) if is_tensorclass(data) else None)
    for name, value in entries(data):
        if is_nested(value):
            spec: TensorSpec = make_composite_from_td(
                value, unsqueeze_null_shapes=unsqueeze_null_shapes, dynamic_shape=dynamic_shape
            )
        elif isinstance(value, NON_TENSOR):
            example = value.data if not value.batch_size else value.reshape(-1)[0].data
            spec = NonTensor(value.batch_size, example_data=example, device=value.device)
        else:
            shape = value.shape
            if not shape and unsqueeze_null_shapes:
                shape = Size([1])
            elif len(shape) > data.ndim and dynamic_shape:
                shape = Size((*shape[:-1], -1))
            spec = Unbounded(shape, dtype=value.dtype, device=value.device)
        out[name] = spec
    return out


def _compared(one: TensorDictBase, other: TensorDictBase) -> Composite:
    """The spec of two examples of the same data; sizes in which they differ are variable (-1)."""
    spec = make_composite_from_td(one, unsqueeze_null_shapes=False)
    for key in list(spec.keys(True, True)):
        a, b = one.get(key), other.get(key, None)
        if isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape != b.shape:
            if a.ndim != b.ndim:
                raise SpecError(f"auto_specs_: {key!r} has {a.ndim} dimensions in one step and {b.ndim} in another")
            shape = Size(m if m == n else -1 for m, n in zip(a.shape, b.shape, strict=True))
            spec[key] = Unbounded(shape, dtype=a.dtype, device=a.device)
    return spec


def auto_specs(
    env: EnvBase,
    policy: Callable[[TensorDictBase], TensorDictBase],
    tensordict: TensorDictBase | None,
    action_key: NestedKey | list[NestedKey],
    done_key: NestedKey | list[NestedKey] | None,
    observation_key: NestedKey | list[NestedKey],
    reward_key: NestedKey | list[NestedKey],
) -> None:
    """Plays two steps and writes the specs that their data have."""
    env.set_spec_lock_(False)
    first = env._reset(None) if tensordict is None else tensordict
    first = policy(first.copy())
    next_0 = env._step(first)
    second = policy(next_0.copy())
    next_1 = env._step(second)
    inputs = _compared(first, second.select(*[k for k in first.keys(True, True) if k in second.keys(True, True)]))
    outputs = _compared(next_0, next_1)
    extra = max(0, first.ndim - len(env.batch_size))
    if extra:
        inputs, outputs = inputs[(0,) * extra], outputs[(0,) * extra]
    empty = Composite(shape=env.batch_size)
    actions = inputs.separates(*_list(action_key)) or empty.clone()
    wanted_done: list[NestedKey] = list(DONE_NAMES) if done_key is None else _list(done_key)
    done = outputs.separates(*wanted_done)
    rewards = outputs.separates(*_list(reward_key))
    observations = outputs.separates(*_list(observation_key)) or empty.clone()
    if not outputs.is_empty(recurse=True):
        raise SpecError(
            f"{type(env).__name__}.auto_specs_: entries {list(outputs.keys(True, True))} belong to no family; "
            f"name them in observation_key, reward_key or done_key"
        )
    for name in [*wanted_done, *observations.keys(True, True)]:
        if name in inputs:
            del inputs[name]
    env.full_action_spec, env.full_observation_spec, env.full_state_spec = actions, observations, inputs
    if done is not None:
        for key, leaf in list(done.items(True, True)):
            done[key] = Categorical(2, _at_least_one(leaf, env), dtype=leaf.dtype, device=leaf.device)
        env.full_done_spec = done
    if rewards is not None:
        for key, leaf in list(rewards.items(True, True)):
            rewards[key] = Unbounded(_at_least_one(leaf, env), dtype=leaf.dtype, device=leaf.device)
        env.full_reward_spec = rewards
    env.set_spec_lock_(True)


def _at_least_one(leaf: TensorSpec, env: EnvBase) -> Size:
    """The shape of a flag or a reward, which has a dimension behind the batch."""
    return leaf.shape if len(leaf.shape) > len(env.batch_size) else Size((*leaf.shape, 1))


def _list(keys: Any) -> list[NestedKey]:
    return list(keys) if isinstance(keys, list) else [keys]
