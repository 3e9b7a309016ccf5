"""Rollouts: many steps in a row, stacked along a last batch dimension called ``"time"``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, is_tensor_collection
from torch import Size, Tensor

from marlenv.envs.policies import Policy, as_policy, ask
from marlenv.envs.stepping import STEP, advance, check_input, rows_done
from marlenv.errors import DtypeError, KeyMissing, ResetError, ShapeError, Unsupported, whole
from marlenv.keys import DONE_NAMES, NestedKey, beside, last, under
from marlenv.specs.dtypes import usable_device
from marlenv.tensordicts import fetch, is_nested, lazy, name_last, new, parts, put, raw, shallow

if TYPE_CHECKING:
    from marlenv.envs.env import EnvBase

Callback = Callable[["EnvBase", TensorDictBase], Any]


OPEN = ("break_when_any_done", "break_when_all_done", "return_contiguous")
"""Switches that are decided otherwise when they are left out."""
SWITCHES = (*OPEN, "auto_reset", "auto_cast_to_device", "set_truncated", "trust_policy", "compact")


class RolloutOptions(NamedTuple):
    """What :meth:`marlenv.EnvBase.rollout` was asked for, besides steps and a policy."""

    callback: Callback | None = None
    actions: Iterable[Any] | None = None
    auto_reset: bool = True
    auto_cast_to_device: bool = False
    break_when_any_done: bool | None = None
    break_when_all_done: bool | None = None
    return_contiguous: bool | None = None
    tensordict: TensorDictBase | None = None
    set_truncated: bool = False
    out: Any = None
    trust_policy: bool = False
    storing_device: Any = None
    compact: bool = False
    reset_options: Mapping[str, Any] = {}

    def check(self, env: EnvBase, max_steps: int, policy: Any) -> None:
        """Raises where an option is none, or where two of them contradict each other; before anything happens."""
        who = f"{type(env).__name__}.rollout"
        for name in SWITCHES:
            value = getattr(self, name)
            if not isinstance(value, (bool, np.bool_)) and (value is not None or name not in OPEN):
                raise TypeError(f"{who}: {name} must be True or False, got {value!r}")
        if self.break_when_any_done and self.break_when_all_done:
            raise TypeError(f"{who}: break_when_any_done and break_when_all_done cannot both be True")
        whole(who, "max_steps", max_steps, 1)
        if self.actions is not None and policy is not None:
            raise ValueError(f"{who}: give a policy or actions, not both")
        if isinstance(self.actions, Sized) and not len(self.actions):
            raise ValueError(f"{who}: actions must hold the actions of one step at least, got none")
        if not (self.callback is None or callable(self.callback)):
            raise TypeError(f"{who}: callback must be a function of the env and the data, got {self.callback!r}")
        if self.storing_device is not None:
            usable_device(f"{who}: storing_device", self.storing_device)
        if self.set_truncated:
            truncations(env)
        self._check_data(who, env, max_steps)

    def _check_data(self, who: str, env: EnvBase, max_steps: int) -> None:
        td = self.tensordict
        if td is not None:
            check_input(env, td)
        elif not self.auto_reset:
            raise ResetError(f"{who}: auto_reset=False needs the data to go on from; pass tensordict=")
        if self.out is None:
            return
        if not isinstance(self.out, TensorDictBase):
            raise TypeError(f"{who}: out must be a tensordict, got {type(self.out).__name__}")
        batch = env.batch_size if td is None else td.batch_size
        if self.out.ndim != len(batch) + 1 or self.out.batch_size[:-1] != batch or self.out.shape[-1] > max_steps:
            raise ShapeError(
                f"{who}: out must have the batch size of the data and, last, that of the steps, "
                f"{[*batch, max_steps]} or less of them, got {list(self.out.batch_size)}"
            )

    @property
    def stops(self) -> bool:
        """Whether the rollout ends where any row is done."""
        return not self.break_when_all_done if self.break_when_any_done is None else self.break_when_any_done


class RolloutLoop(NamedTuple):
    """What the two loops need."""

    env: EnvBase
    policy: Policy
    max_steps: int
    callback: Callback | None
    policy_device: torch.device | None
    cast: bool
    storing_device: torch.device | None

    def act(self, td: TensorDictBase) -> TensorDictBase:
        """Lets the policy write its action into ``td``, on its own device if asked for."""
        if self.cast:
            td = td.to(self.policy_device) if self.policy_device is not None else td.clear_device_()
        td = ask(self.policy, td, f"{type(self.env).__name__}.rollout")
        if self.cast:
            td = td.to(self.env.device) if self.env.device is not None else td.clear_device_()
        return td

    def keep(self, kept: list[TensorDictBase], td: TensorDictBase) -> None:
        """Stores a step."""
        kept.append(td if self.storing_device is None else td.to(self.storing_device))


def rollout(env: EnvBase, max_steps: int, policy: Any, options: RolloutOptions) -> TensorDictBase:
    """The body of :meth:`marlenv.EnvBase.rollout` for any env."""
    actions, trust, store = options.actions, options.trust_policy, options.storing_device
    if actions is not None:
        policy, trust = _replay(env, actions), True
        max_steps = min(max_steps, len(actions)) if isinstance(actions, Sized) else max_steps
    act = env.rand_action if policy is None else as_policy(policy, env, trust)
    td = start(env, options)
    batch = td.batch_size
    device = next((p.device for p in policy.parameters()), None) if hasattr(policy, "parameters") else None
    cast = options.auto_cast_to_device and policy is not None
    store = None if store is None else usable_device("storing_device", store)
    loop = RolloutLoop(env, act, max_steps, options.callback, device, cast, store)
    going_on = not options.stops and not options.break_when_all_done
    steps = _on_and_on(loop, td) if going_on else _until_done(loop, td, bool(options.break_when_all_done))
    return stacked(env, steps, len(batch), options)


def start(env: EnvBase, options: RolloutOptions) -> TensorDictBase:
    """What the first step starts from; data that were given stay as they are."""
    td = options.tensordict
    if options.auto_reset or td is None:
        return env.reset(td, **options.reset_options)
    return env.maybe_reset(env.plan.done.complete(shallow(td)))


def go_on(
    env: EnvBase,
    td: TensorDictBase,
    policy: Policy,
    steps: list[TensorDictBase],
    max_steps: int,
    options: RolloutOptions,
) -> TensorDictBase:
    """The data of a rollout of which some steps were played already.

    Args:
        env: the env, which stands before the step of ``td``.
        td: data in which the policy has acted.
        policy: acts in the steps that follow.
        steps: the data of the steps before.
        max_steps: the most steps to play from here on.
        options: of the rollout; stops where any row is done, or never.
    """
    first = [td]

    def act(data: TensorDictBase) -> TensorDictBase:
        return first.pop() if first else policy(data)

    loop = RolloutLoop(env, act, max_steps, None, None, cast=False, storing_device=None)
    more = _until_done(loop, td, False) if options.stops else _on_and_on(loop, td)
    return stacked(env, [*steps, *more], len(env.batch_size), options)


def _replay(env: EnvBase, actions: Iterable[Any]) -> Policy:
    """A policy that plays given actions."""
    source, who = enumerate(actions), f"{type(env).__name__}.rollout"

    def play(td: TensorDictBase) -> TensorDictBase:
        step, action = next(source, (0, None))
        if action is None:
            raise ValueError(f"{who}: the actions ran out before max_steps")
        wrong: RuntimeError | None = None
        try:
            if isinstance(action, TensorDictBase):
                return td.update(action)
            if is_tensor_collection(action) or isinstance(action, (Tensor, np.ndarray)):
                return td.set(env.action_key, action)
        except RuntimeError as error:
            wrong = error
        raise ShapeError(
            f"{who}: actions of step {step}: expected a tensordict, or a tensor for {env.action_key!r} of shape "
            f"{list(env.action_spec.shape)}, got {action!r}"
        ) from wrong

    return play


def _until_done(loop: RolloutLoop, td: TensorDictBase, wait_for_all: bool) -> list[TensorDictBase]:
    """Steps until any row is done, or until all are; rows that are done wait without being stepped."""
    env, plan = loop.env, loop.env.plan
    kept: list[TensorDictBase] = []
    if wait_for_all:
        _mark_going(env, td)
    for i in range(loop.max_steps):
        td = env.step(loop.act(td))
        if loop.callback is not None:
            loop.callback(env, td)
        step = td
        td = advance(td, plan.reward_tree)
        loop.keep(kept, step)
        if i == loop.max_steps - 1:
            break
        if not wait_for_all:
            if plan.done.any_done(td):
                break
            continue
        if not _mark_going(env, td):
            break
    return kept


def _mark_going(env: EnvBase, td: TensorDictBase) -> bool:
    """Marks the rows that go on, where others are over; whether any goes on."""
    going = ~ended_rows(env, td)
    if not bool(going.all()):
        put(td, STEP, going)
    return bool(going.any())


def ended_rows(env: EnvBase, td: TensorDictBase) -> Tensor:
    """Which rows of the batch are over: everything that is reset by itself is done; bool ``[*B]``."""
    over = rows_done(env, td)
    if over is None:
        raise KeyMissing(
            f"{type(env).__name__}.rollout: no done flags in the data; it has {sorted(map(str, td.keys()))}"
        )
    return over


def _on_and_on(loop: RolloutLoop, td: TensorDictBase) -> list[TensorDictBase]:
    """Steps and resets what is done, to the last step."""
    env = loop.env
    kept: list[TensorDictBase] = []
    for i in range(loop.max_steps):
        td = loop.act(td)
        if i == loop.max_steps - 1:
            step = env.step(td)
        else:
            step, td = env.step_and_maybe_reset(td)
        loop.keep(kept, step)
        if loop.callback is not None:
            loop.callback(env, step)
    return kept


def stacked(env: EnvBase, steps: list[TensorDictBase], dim: int, options: RolloutOptions) -> TensorDictBase:
    """The data of a rollout from its steps, side by side along ``dim``."""
    contiguous, out = options.return_contiguous, options.out
    steps = _without_rewards_of_resets(env, steps)
    if contiguous is None:
        contiguous = not env.plan.dynamic
    if options.compact:
        steps = [_compact(env, step) for step in steps]
    if out is not None and out.shape[-1] != len(steps):
        raise ShapeError(
            f"{type(env).__name__}.rollout: out holds {out.shape[-1]} steps, and the rollout had {len(steps)}"
        )
    if out is not None:
        _check_entries(env, steps[0], out)
    if not contiguous:
        made = LazyStackedTensorDict.maybe_dense_stack(steps, dim, out=out)
    else:
        made = _stack_or_explain(env, steps, dim) if out is None else torch.stack(steps, dim, out=out)
    return finish(env, made, options)


def _check_entries(env: EnvBase, step: TensorDictBase, out: TensorDictBase) -> None:
    """Raises where ``out`` has no place for what steps have."""
    who, keys = f"{type(env).__name__}.rollout: out", set(step.keys(True, True))
    if missing := sorted(map(str, keys - set(out.keys(True, True)))):
        raise KeyMissing(f"{who} has no {missing}; make it from a rollout like this one, such as env.rollout(n)")
    for key in keys:
        x, place = fetch(step, key), fetch(out, key)
        if isinstance(x, Tensor) and (not isinstance(place, Tensor) or place.dtype != x.dtype):
            got = place.dtype if isinstance(place, Tensor) else type(place).__name__
            raise DtypeError(f"{who}: {key!r} must be of {x.dtype}, got {got}")


def _compact(env: EnvBase, step: TensorDictBase) -> TensorDictBase:
    """A step without the observations that follow on it; a callback may hold the data that have them."""
    out = shallow(step)
    put(out, "next", step.get("next").exclude(*env.observation_keys).filter_empty_())
    return out


def _without_rewards_of_resets(env: EnvBase, steps: list[TensorDictBase]) -> list[TensorDictBase]:
    """The steps without rewards beside observations, which ``_reset`` may have returned though there was no step."""
    keys = [key for key in env.plan.left_out if any(fetch(step, key) is not None for step in steps)]
    return [step.exclude(*keys) for step in steps] if keys else steps


def finish(env: EnvBase, td: TensorDictBase, options: RolloutOptions) -> TensorDictBase:
    """Stacked steps as the data of a rollout: the last one is truncated if asked for, the time has its name."""
    if options.set_truncated:
        _truncate_last(env, td)
    name_last(td, "time")
    return td


def _stack_or_explain(env: EnvBase, steps: list[TensorDictBase], dim: int) -> TensorDictBase:
    try:
        return stack_steps(steps, dim)
    except RuntimeError as error:
        if env.plan.dynamic:
            raise ShapeError(
                f"{type(env).__name__}.rollout: the env has dynamic specs (sizes of -1), so steps differ in shape; "
                f"pass return_contiguous=False"
            ) from error
        first = set(steps[0].keys(True, True))
        if odd := next((set(s.keys(True, True)) ^ first for s in steps if set(s.keys(True, True)) != first), None):
            raise KeyMissing(
                f"{type(env).__name__}.rollout: entries {sorted(map(str, odd))} are in some steps and not in others; "
                f"_reset and _step must return the same observations, and only _step returns rewards; "
                f"check_env_specs(env) says what is in no spec"
            ) from error
        for key in first:
            values = [fetch(step, key) for step in steps]
            shapes = {value.shape for value in values if isinstance(value, Tensor)}
            if len(shapes) > 1:
                raise ShapeError(
                    f"{type(env).__name__}.rollout: {key!r} has the shapes {sorted(map(list, shapes))}, each in some "
                    f"steps; check_env_specs(env) says which of _reset and _step breaks the spec"
                ) from error
        raise


def stack_steps(steps: list[TensorDictBase], dim: int) -> TensorDictBase:
    """The steps of a rollout side by side along ``dim``: like ``torch.stack``, without checks for plain tensordicts."""
    first = steps[0]
    dicts = [raw(step) for step in steps]
    if any(d is None or d.keys() != dicts[0].keys() for d in dicts):  # type: ignore[union-attr]
        return torch.stack(steps, dim)
    data: dict[str, Any] = {}
    for name, value in dicts[0].items():  # type: ignore[union-attr]
        column = [d[name] for d in dicts]  # type: ignore[index]
        if type(value) is TensorDict:
            data[name] = stack_steps(column, dim)
        elif (groups := [parts(one) for one in column])[0] is not None and all(groups):
            at = value.stack_dim
            agents = [stack_steps(list(one), dim - (at < dim)) for one in zip(*groups, strict=True)]
            data[name] = lazy(agents, at + (dim <= at))
        elif is_nested(value) or not isinstance(value, Tensor):
            data[name] = LazyStackedTensorDict.maybe_dense_stack(column, dim)
        else:
            data[name] = torch.stack(column, dim)
    batch = first.batch_size
    return new(data, Size((*batch[:dim], len(steps), *batch[dim:])), first.device)


def truncations(env: EnvBase) -> list[NestedKey]:
    """The keys of the flags that say what is cut off; raises where there are none."""
    keys = [key for key in env.done_keys if last(key) == "truncated"]
    if not keys:
        raise Unsupported(
            f"{type(env).__name__}.rollout: set_truncated=True needs a 'truncated' flag; call env.add_truncated_keys()"
        )
    return keys


def _truncate_last(env: EnvBase, td: TensorDictBase) -> None:
    """Marks the last step of what is not done as truncated and done."""
    if (envs := parts(td)) is not None and td.stack_dim < td.ndim - 1:  # of unequal sizes
        for one in envs:
            _truncate_last(env, one)
        return
    end = (slice(None),) * (td.ndim - 1) + (-1,)
    for key in truncations(env):
        where = {name: under("next", beside(key, name)) for name in DONE_NAMES}
        flags = {name: flag.clone() for name, at in where.items() if (flag := td.get(at, None)) is not None}
        truncated = flags["truncated"]
        truncated[end] |= ~flags.get("done", truncated | flags.get("terminated", truncated))[end]
        if "done" in flags:
            flags["done"][end] = True
        for name, flag in flags.items():
            td.set(where[name], flag)
