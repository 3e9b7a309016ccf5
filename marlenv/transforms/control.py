"""Transforms that say which rows are stepped, by whom, and in which batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase
from torch import Size, Tensor

from marlenv.envs.stepping import holds_rows
from marlenv.errors import ShapeError, SpecError, SpecTypeError, Unsupported
from marlenv.groups.reset import RESET
from marlenv.keys import NestedKey, level, nested, path
from marlenv.specs import Composite
from marlenv.tensordicts import choose, fetch, get, put, rows
from marlenv.transforms.base import Kind, Transform
from marlenv.transforms.checks import called
from marlenv.transforms.frames import rows_done


def as_rows(who: str, cond: Any, td: TensorDictBase) -> Tensor:
    """What a condition answered, as one bool per row; ``[*B]``.

    Raises:
        SpecTypeError, ShapeError: it is no bool, or has another shape.
    """
    if not isinstance(cond, bool) and not (isinstance(cond, Tensor) and cond.dtype == torch.bool):
        what = f"one of {cond.dtype}" if isinstance(cond, Tensor) else type(cond).__name__
        raise SpecTypeError(f"{who}: the condition must give a bool or a tensor of bools, got {what}")
    made = torch.as_tensor(cond, device=td.device)
    if made.numel() == 1:
        return made.reshape(()).expand(td.batch_size)
    if made.shape[: td.ndim] != td.batch_size or made.numel() != td.numel():
        raise ShapeError(
            f"{who}: the condition must give one bool per row, {list(td.batch_size)}, got {list(made.shape)}"
        )
    return made.reshape(td.batch_size)


class ConditionalSkip(Transform):
    """Does not step the rows where a condition holds: they stand still, and no transform sees them.

    Args:
        cond: a function of the data of the step; a bool, or one per row ``[*B]``.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(), ConditionalSkip(lambda td: td["observation"] >= 2))
    >>> env.rollout(4)["next", "observation"].squeeze(-1)
    tensor([1., 2., 2., 2.])
    """

    only_in_env = "it steers the env"

    def __init__(self, cond: Callable[[TensorDictBase], Any]) -> None:
        super().__init__()
        self.cond = called("ConditionalSkip", "cond", cond)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        stepped = ~as_rows("ConditionalSkip", self.cond(tensordict), tensordict)
        held = get(tensordict, "_step")
        put(tensordict, "_step", stepped if held is None else stepped & rows(held, tensordict.ndim))
        return tensordict


class ConditionalPolicySwitch(Transform):
    """Lets another policy play the next step, unseen by the first, wherever a condition holds; as an opponent does.

    After a step (and after a reset) the condition is asked; in the rows where it holds and that are not done, the
    policy acts and the env is stepped once more. What the outside is given is what followed, rewards too.

    Args:
        policy: writes actions into data.
        condition: a function of what a step answered; a bool, or one per row ``[*B]``.

    >>> stay, odd = lambda td: td.set("action", torch.zeros(1)), lambda td: td["observation"] % 2 == 1
    >>> twice = ConditionalPolicySwitch(stay, odd)
    >>> TransformedEnv(marlenv.testing.CountingEnv(9), twice).rollout(3)["next", "observation"].squeeze(-1)
    tensor([2., 4., 6.])
    """

    only_in_env = "it steps the env"
    asks_what_was_told: ClassVar[bool] = True

    def __init__(
        self, policy: Callable[[TensorDictBase], TensorDictBase], condition: Callable[[TensorDictBase], Any]
    ) -> None:
        super().__init__()
        self.policy: Callable[[TensorDictBase], TensorDictBase]
        called("ConditionalPolicySwitch", "policy", policy)
        self.__dict__["policy"] = policy  # it belongs to itself, also where it is a module
        self.condition = called("ConditionalPolicySwitch", "condition", condition)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        where = as_rows("ConditionalPolicySwitch", self.condition(next_tensordict), next_tensordict)
        held = get(tensordict, "_step")
        where = where if held is None else where & rows(held, tensordict.ndim)
        where = where & ~rows_done(self.parent.plan.done, next_tensordict)  # type: ignore[union-attr]
        if not bool(where.any()):
            return next_tensordict
        now = self.parent.step_mdp(self.told(tensordict).set("next", next_tensordict))  # type: ignore[union-attr]
        return self._played(now, next_tensordict, where)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        env: Any = self.parent
        where = as_rows("ConditionalPolicySwitch", self.condition(tensordict_reset), tensordict_reset)
        masks = [rows(m, len(env.batch_size)) for key in env.reset_keys if (m := fetch(tensordict, key)) is not None]
        where = where & torch.stack(masks).any(0) if masks else where
        if not bool(where.any()):
            return tensordict_reset
        return self._played(tensordict_reset.copy(), tensordict_reset, where).exclude(*env.reward_keys)

    def _restored(self, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return tensordict_reset  # a state is put back, and nothing played

    def _played(self, now: TensorDictBase, otherwise: TensorDictBase, where: Tensor) -> TensorDictBase:
        """What follows where the policy plays, and what stood there elsewhere."""
        env: Any = self.parent
        everywhere = bool(where.all())
        if not (everywhere or holds_rows(env)):
            raise Unsupported(
                f"ConditionalPolicySwitch: {type(env.base_env).__name__} cannot step some of its rows only; put the "
                f"transform into the envs of a SerialEnv"
            )
        now = self.policy(now)
        if not everywhere:
            put(now, "_step", where)
        made = get(env.step(now), "next")
        return made if everywhere else choose(where, made, otherwise, len(env.batch_size))


class BatchSizeTransform(Transform):
    """Gives an env another batch size: by reshaping its own, or for one that takes any, by expanding its resets.

    Args:
        batch_size: of an env that takes any batch size (``batch_locked=False``).
        reshape_fn: reshapes data of the env's batch size, such as ``lambda td: td.reshape(2, 3)``.
        reset_func: called with what a reset was given and what it answered; returns what it shall have answered.
        env_kwarg: hand the env to ``reset_func`` too, as ``env=``.

    >>> grid = BatchSizeTransform(reshape_fn=lambda td: td.reshape(2, 3))
    >>> env = TransformedEnv(marlenv.testing.CountingEnv(9, batch_size=[6]), grid)
    >>> env.batch_size, env.rollout(4).shape
    (torch.Size([2, 3]), torch.Size([2, 3, 4]))
    """

    def __init__(
        self,
        *,
        batch_size: Size | None = None,
        reshape_fn: Callable[[Any], Any] | None = None,
        reset_func: Callable[..., TensorDictBase] | None = None,
        env_kwarg: bool = False,
    ) -> None:
        super().__init__()
        if (batch_size is None) == (reshape_fn is None):
            raise SpecError("BatchSizeTransform: give batch_size or reshape_fn, one of them")
        self.batch_size = None if batch_size is None else Size(batch_size)
        self.reshape_fn, self.reset_func, self.env_kwarg = reshape_fn, reset_func, env_kwarg

    def join(self, env: Any) -> None:
        """Notes the batch size of the env.

        Raises:
            SpecError: a batch size for an env that has its own.
        """
        super().join(env)
        if self.batch_size is not None and env.batch_locked and env.batch_size:
            raise SpecError(
                f"BatchSizeTransform: {type(env.base_env).__name__} has the batch size {list(env.batch_size)}; give "
                f"reshape_fn"
            )
        self.inner = env.batch_size

    def _shaped(self, value: Any) -> Any:
        if self.reshape_fn is not None:
            return self.reshape_fn(value)
        return value if value.shape == self.batch_size else value.expand(self.batch_size)

    def transform_env_batch_size(self, batch_size: Size) -> Size:
        """The new batch size."""
        return self._shaped(torch.zeros(batch_size, device="meta")).shape

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """The specs in the new batch size."""
        return self._shaped(output_spec)

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        """The specs in the new batch size."""
        return self._shaped(input_spec)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        if self.reset_func is not None:
            options = {"env": self.container} if self.env_kwarg else {}
            tensordict_reset = self.reset_func(tensordict, tensordict_reset, **options)
        shaped = self._shaped(tensordict_reset)
        return shaped if self.batch_size is None else shaped.clone()

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict if self.reshape_fn is None else self.reshape_fn(next_tensordict)

    forward = _call

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        return tensordict if self.reshape_fn is None else tensordict.reshape(self.inner)

    def known_before(self, tensordict: TensorDictBase, resetting: bool = False) -> TensorDictBase:
        """The data in the batch of the env."""
        return self._inv_call(tensordict)

    def _reset_env_preprocess(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        return None if tensordict is None else self._inv_call(tensordict)


class _ResetsItself(Transform):
    """A transform of an env whose answer, where it is done, is the first of the next episode. Abstract.

    The first observations stand in the data, under ``_first``, until the reset gives them.
    """

    only_in_env = "it belongs to an env that resets itself"

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the place of the first observations."""
        self.keys = list(specs["observation"].keys(True, True))
        self.done_keys = [key for key in specs["done"].keys(True, True) if path(key)[-1] == "done"]
        for key in self.keys:
            specs["observation"][nested(("_first", *path(key)))] = specs["observation"][key].clone()

    def _flag_of(self, key: NestedKey, td: TensorDictBase) -> Tensor:
        """The flag that governs an entry; ``[*B]`` or ``[*B, A]``."""
        above = [flag for flag in self.done_keys if level(key)[: len(level(flag))] == level(flag)]
        done = fetch(td, max(above, key=lambda flag: len(level(flag))) if above else self.done_keys[0])
        return done.squeeze(-1)

    def _swapped(self, td: TensorDictBase, finals: dict[NestedKey, Any]) -> TensorDictBase:
        """Puts the first observations aside, and the final ones, where they are known, into their place."""
        for key in self.keys:
            value = fetch(td, key)
            td.set(nested(("_first", *path(key))), value.clone())
            if key not in finals:
                continue
            done, final = self._flag_of(key, td), finals[key]
            if isinstance(value, Tensor):
                done = done.reshape((*done.shape, *[1] * (value.ndim - done.ndim)))
                td.set(key, torch.where(done, torch.as_tensor(final, dtype=value.dtype), value))
            else:
                td.set(key, choose(done, final, value, td.ndim))
        return td

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        partial = any(fetch(tensordict, nested((*level(key), RESET))) is not None for key in self.done_keys)
        for key in self.keys:
            first = nested(("_first", *path(key)))
            kept = fetch(tensordict, first) if partial else None
            if kept is not None:
                tensordict_reset.set(key, kept)
            tensordict_reset.set(first, fetch(tensordict_reset, key).clone())
        return tensordict_reset


class VecGymEnvTransform(_ResetsItself):
    """Puts the final observations of a vectorised gym env, which resets itself, where they belong.

    Args:
        final_name: the group of entries in which the env gives final observations.
        missing_obs_value: what stands in their place where it gives none; texts are left.
        native_autoreset: leave the data as the env gives them.

    >>> VecGymEnvTransform("final_obs").final_name
    'final_obs'
    """

    def __init__(
        self, final_name: str = "final", missing_obs_value: Any = float("nan"), *, native_autoreset: bool = False
    ) -> None:
        super().__init__()
        self.final_name, self.native_autoreset = final_name, native_autoreset
        self.missing_obs_value = torch.as_tensor(missing_obs_value)

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Leaves the final observations out: they come under ``"next"``."""
        if self.final_name in specs["observation"].keys():
            del specs["observation"][self.final_name]
        super().respec(specs)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        final = next_tensordict.pop(self.final_name, None)
        if self.native_autoreset:
            return self._swapped(next_tensordict, {})
        finals: dict[NestedKey, Any] = {}
        for key in self.keys:
            known, value = None if final is None else fetch(final, key), fetch(next_tensordict, key)
            if known is not None or isinstance(value, Tensor):
                finals[key] = self._missing(value) if known is None else known
        return self._swapped(next_tensordict, finals)

    def _missing(self, value: Tensor) -> Tensor:
        odd = self.missing_obs_value.is_floating_point() and not value.is_floating_point()
        return value.new_zeros(()) if odd and bool(self.missing_obs_value.isnan().any()) else self.missing_obs_value

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        tensordict_reset.pop(self.final_name, None)
        return super()._reset(tensordict, tensordict_reset)
