"""What an environment is: :class:`EnvBase`, the public face of everything that can be stepped.

The bodies are one call each into the modules beside this one.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import torch
from tensordict import TensorDictBase
from torch import Size, Tensor, nn

from marlenv.envs import access, check, infer, resetting, stepping
from marlenv.envs.autoreset import AutoReset
from marlenv.envs.plan import Locking
from marlenv.envs.pooling import Pooling
from marlenv.envs.private_names import PrivateNames
from marlenv.envs.random_actions import ActionStream, rand_action, rand_step
from marlenv.envs.rollout import Callback, RolloutOptions, rollout
from marlenv.envs.seeding import as_seed, fresh_seed, next_seed
from marlenv.envs.states import get_state, set_state
from marlenv.errors import ShapeError, SpecError, Unsupported
from marlenv.groups import GroupTree
from marlenv.groups.maps import GroupMap
from marlenv.keys import NestedKey, beside
from marlenv.options import naming_nearest
from marlenv.specs import Composite
from marlenv.specs.dtypes import usable_device
from marlenv.specs.shapes import size
from marlenv.tensordicts import choose, rows

if TYPE_CHECKING:
    from marlenv.transforms import TransformedEnv


class EnvMeta(ABCMeta):
    """Finishes an env when its whole chain of constructors has run: default specs, checks, locks."""

    def __call__(
        cls,
        *args: Any,
        spec_locked: bool = True,
        auto_reset: bool = False,
        auto_reset_replace: bool = True,
        **kwargs: Any,
    ) -> Any:
        with naming_nearest(cls, kwargs):
            env = super().__call__(*args, **kwargs)
        env._finish_init(spec_locked)
        return _auto_resetting(env, auto_reset_replace, spec_locked) if auto_reset else env


def _auto_resetting(env: EnvBase, replace: bool, spec_locked: bool) -> EnvBase:
    """An env that resets itself, under the transform that tells the end of an episode from the next beginning."""
    from marlenv.transforms import AutoResetEnv, AutoResetTransform

    made: EnvBase = AutoResetEnv(env, AutoResetTransform(replace=replace), spec_locked=spec_locked)
    return made


class EnvBase(PrivateNames, access.SpecViews, Locking, Pooling, nn.Module, metaclass=EnvMeta):
    """An environment: it is reset, stepped, and says by specs what goes in and out.

    A subclass assigns specs in ``__init__`` and writes ``_reset``, ``_step`` and ``_set_seed``. Data are tensordicts of
    the env's batch size; what concerns single agents is nested under the key of their group, with one more dimension.

    Args:
        device: where the data live; None leaves it to the data.
        batch_size: how many envs are stepped at once.
        run_type_checks: check every action and every answer against its spec, dtype and domain.
        allow_done_after_reset: allow flags that are True right after a reset.
        group_map: group -> agents, of envs whose specs are nested by group; may be assigned as ``self.group_map`` too.

    Keyword arguments that every env takes besides its own: ``spec_locked=True``; ``auto_reset=False`` for envs that
    reset themselves when they are done, which makes an :class:`marlenv.AutoResetEnv`, and ``auto_reset_replace=True``
    to blank the observations that belong to the next episode.

    >>> class Count(EnvBase):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.observation_spec = Composite(count=Unbounded((1,)))
    ...         self.action_spec = Bounded(0, 1, shape=(1,))
    ...     def _reset(self, tensordict):
    ...         return TensorDict({"count": torch.zeros(1)}, [])
    ...     def _step(self, tensordict):
    ...         count = tensordict["count"] + tensordict["action"]
    ...         return TensorDict({"count": count, "reward": count, "done": count > 2}, [])
    ...     def _set_seed(self, seed):
    ...         pass
    >>> Count().rollout(3)["next", "reward"].shape
    torch.Size([3, 1])
    """

    auto_complete_done_specs: bool = True
    """Whether missing ``done`` and ``terminated`` entries are added to the specs."""
    handles_partial_steps: bool = False
    """Whether ``_step`` reads ``"_step"`` masks itself."""
    gives_all_flags: bool = False
    """Whether what the env returns holds every done flag in its shape, so that none need be completed."""
    resets_without_looking: bool = False
    """Whether a partial reset costs no more than a look at the flags; on GPUs the look is then left out."""
    starts_again: bool = False  # whether a closed env starts when it is used

    _side_by_side: Any = None
    """Makes what steps a list of envs of this class and packs their data at once, see :class:`~marlenv.SerialEnv`."""
    _auto_reset: AutoReset | None = None
    _mask_keys: Mapping[NestedKey, NestedKey] = {}
    """Where the masks of actions stand that are not called ``action_mask`` or after their action."""
    _batch_size: Size
    _device: torch.device | None

    def __new__(
        cls, *args: Any, _inplace_update: bool = False, _batch_locked: bool | None = None, **kwargs: Any
    ) -> Self:
        env = super().__new__(cls)
        state = env.__dict__
        state["_cache"], state["_locked"], state["is_closed"] = {}, False, False
        state["_batch_size"], state["_device"] = Size(), None
        state["_input_spec"], state["_output_spec"] = Composite(), Composite()
        state["_actions"], state["_was_reset"] = None, False
        state["_allow_done_after_reset"], state["run_type_checks"] = False, False
        if _batch_locked is not None:
            state["batch_locked"] = _batch_locked
        return env

    def __init__(
        self,
        *,
        device: torch.device | str | int | None = None,
        batch_size: Iterable[int] | int | None = None,
        run_type_checks: bool = False,
        allow_done_after_reset: bool = False,
        group_map: GroupMap | None = None,
    ) -> None:
        super().__init__()
        if device is not None:
            self.device = device
        if batch_size is not None or not self._batch_size:
            self.batch_size = batch_size
        self.run_type_checks = run_type_checks
        self._allow_done_after_reset = allow_done_after_reset
        if group_map is not None:
            self.group_map = group_map

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__ and not isinstance(value, (Tensor, nn.Module)):
            object.__setattr__(self, name, value)  # nothing for nn.Module, which takes 5 us to see it
        else:
            if not isinstance(value, nn.Module):  # of a policy that was a module, nn.Module refuses any other
                self.__dict__.get("_modules", {}).pop(name, None)
            super().__setattr__(name, value)

    def _finish_init(self, spec_locked: bool) -> None:
        """Fills in specs and the tree of groups where none were assigned, checks that no entry has two specs, locks."""
        for kind in access.SIDE:
            access.family(self, kind)
        if self.auto_complete_done_specs:
            access.complete_done_spec(self.full_done_spec)
        access.check_collisions(self)
        if "group_map" in self.__dict__ and "tree" not in self.__dict__:
            self.tree = GroupTree(self.group_map)
        self.set_spec_lock_(spec_locked)
        self._finished = True

    # --- hooks: what a subclass writes -----------------------------------------------------------

    @abstractmethod
    def _reset(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        """Starts anew; returns observations (and done flags) as a new tensordict.

        ``tensordict`` may carry ``"_reset"`` masks. What is returned for rows that are not reset is ignored. Options of
        :meth:`reset` that an env has are named arguments; others are refused.
        """

    @abstractmethod
    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Plays the actions in ``tensordict``; returns observations, rewards and done flags as a new tensordict."""

    @abstractmethod
    def _set_seed(self, seed: int | None) -> Any:
        """Seeds the env's own randomness."""

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        """The whole state, randomness included; written by envs that declare a state."""
        raise Unsupported(f"{type(self).__name__}: the env does not give its state away")

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        """Puts the env into a state; returns observations as :meth:`_reset` does."""
        raise Unsupported(f"{type(self).__name__}: the env cannot be put into a state")

    def _reset_rows(self, request: TensorDictBase, tensordict: TensorDictBase) -> TensorDictBase:
        """The reset inside ``step_and_maybe_reset``: ``request`` holds the masks only, ``tensordict`` the data."""
        if self._auto_reset is not None:
            return self._auto_reset.first_observations(self, tensordict)
        return self._reset(request)

    # hooks for what an env can do faster, with the same result; None or False: it is done the general way

    resets_in_one = False
    """Whether there is a :meth:`_step_and_reset`."""

    def _step_and_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase | None] | None:
        """What :meth:`_step` returns, and the same without rewards after a reset of the rows that are done (None: none
        are).
        """
        return None

    resets_in_place = False
    """Whether there is a :meth:`_restart`."""

    def _restart(self, tensordict: TensorDictBase, mask: Tensor) -> bool:
        """Resets the rows that ``mask`` (the shape of the root's ``done``) marks, within the data of all rows."""
        return False

    def _rollout(self, max_steps: int, policy: Any, options: RolloutOptions) -> TensorDictBase | None:
        """The whole rollout."""
        return None

    def _on_reset(self, tensordict: TensorDictBase) -> None:
        """Called after every reset with the data to go on from, reset and kept rows merged."""

    def _on_move(self) -> None:
        """Called when the env has moved to another device: forgets what was made for the old one."""

    # --- acting ----------------------------------------------------------------------------------

    def reset(
        self, tensordict: TensorDictBase | None = None, *, set_state: bool | None = None, **kwargs: Any
    ) -> TensorDictBase:
        """Starts anew and returns the first data of a rollout.

        Args:
            tensordict: may hold ``"_reset"`` masks beside done flags: then only what they mark is reset, and the data
                of the rest are kept; entries that they lack are zeros there, so hand over what the step before gave.
                The result is written into it.
            set_state: start from the state in ``tensordict``, for envs that can.
            **kwargs: options of ``_reset``.

        Raises:
            TypeError: ``_reset`` has no such option.
            ResetError: a mask without a done flag beside it, or something that is done after its reset.
        """
        if set_state is not None:
            if set_state and not self.supports_set_state:
                raise Unsupported(f"{type(self).__name__}.reset: cannot start from a given state (set_state=True)")
            if self.supports_set_state:
                kwargs["set_state"] = set_state
        return resetting.reset(self, tensordict, kwargs)

    def step(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Plays one step and writes observations, rewards and done flags under ``"next"``.

        Args:
            tensordict: holds the actions. A ``"_step"`` mask ``[*B]`` steps only the rows that it marks.

        Raises:
            KeyMissing: an action is missing, or the env has a reward spec and gave no reward.
            ShapeError, DeviceError: an action does not fit.
            EnvClosed: the env was closed.
        """
        return stepping.step(self, tensordict)

    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """Plays one step and resets what is done.

        Returns:
            The data of the step, whose ``"next"`` holds the final observations; and the data to go on from.
        """
        return resetting.step_and_maybe_reset(self, tensordict)

    def maybe_reset(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Resets the rows of data without ``"next"`` that are done."""
        return resetting.maybe_reset(self, tensordict)

    def any_done(self, tensordict: TensorDictBase) -> bool:
        """Whether any row of data without ``"next"`` is done; writes ``"_reset"`` masks if so."""
        plan = self.plan.done
        if not plan.any_done(tensordict):
            return False
        for level in plan.top:
            if (node := plan.node(tensordict, level)) is not None:
                node.set("_reset", plan.done_of(node, level).clone())
        return True

    def step_mdp(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        """The data that the next step starts from: ``"next"`` over the root, actions kept, rewards left out."""
        return stepping.advance(next_tensordict, self.plan.reward_tree)

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Draws random actions from the env's own stream; legal ones where ``tensordict`` holds an ``action_mask``.

        The stream starts at the seed of :meth:`set_seed`; no global generator is read. Row ``i`` draws the same
        numbers in a batch of any size.
        """
        return rand_action(self, tensordict)

    def rand_step(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Plays one step with random actions; without data an env that was never reset begins with a reset."""
        return rand_step(self) if tensordict is None else self.step(self.rand_action(tensordict))

    def rollout(
        self,
        max_steps: int,
        policy: Any = None,
        callback: Callback | None = None,
        *,
        actions: Iterable[Any] | None = None,
        auto_reset: bool = True,
        auto_cast_to_device: bool = False,
        break_when_any_done: bool | None = None,
        break_when_all_done: bool | None = None,
        return_contiguous: bool | None = None,
        tensordict: TensorDictBase | None = None,
        set_truncated: bool = False,
        out: Any = None,
        trust_policy: bool = False,
        storing_device: torch.device | str | int | None = None,
        compact: bool = False,
        set_state: bool | None = None,
        **reset_options: Any,
    ) -> TensorDictBase:
        """Plays up to ``max_steps`` steps; returns them stacked along a last batch dimension called ``"time"``.

        Args:
            max_steps: the most steps to play.
            policy: writes actions into the data; a tensordict module, a function of the tensordict, or a module that
                takes observations and returns actions. Random actions when left out.
            callback: called with the env and the data after every step.
            actions: actions to play instead of a policy, one item per step.
            auto_reset: start with a reset; else go on from ``tensordict``, where rows that are done begin anew.
            auto_cast_to_device: move the data to the policy's device and back.
            break_when_any_done: stop when any row is done (what happens when nothing is said); with False, rows that
                are done are reset and the rollout goes on.
            break_when_all_done: stop when all rows are done; rows that are done wait.
            return_contiguous: False keeps steps of different shapes as a lazy stack; decided by the specs when left
                out.
            tensordict: where to go on from, or what ``reset`` is given.
            set_truncated: mark the last step as truncated.
            out: a tensordict to write into.
            trust_policy: call the policy with the tensordict without looking at its signature.
            storing_device: where the steps are kept.
            compact: leave out the observations that follow on steps, which are those before the next steps but where
                rows are done.
            set_state: start from the state in ``tensordict``, for envs that can.
            **reset_options: options of ``reset``.
        """
        if reset_options:
            resetting.check_reset_options(self, reset_options, "rollout", RolloutOptions._fields)
            if not auto_reset:
                raise TypeError(
                    f"{type(self).__name__}.rollout: {', '.join(map(repr, reset_options))} would be for reset, "
                    f"and nothing is reset with auto_reset=False"
                )
        reset_options |= {} if set_state is None else {"set_state": set_state}
        given = {name: value for name, value in locals().items() if name in RolloutOptions._fields}
        options = RolloutOptions(**given)
        options.check(self, max_steps, policy)
        made = self._rollout(int(max_steps), policy, options)  # not of NumPy, as sizes of data are made of it
        return rollout(self, max_steps, policy, options) if made is None else made

    # --- randomness and state --------------------------------------------------------------------

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seeds the env and its random actions; returns the seed for the next env of a chain.

        Args:
            seed: any int; None lets the env choose.
            static_seed: return ``seed`` itself.

        Raises:
            DtypeError: the seed is something else.
        """
        if seed is not None:
            seed = as_seed(type(self).__name__, seed)
        self._set_seed(seed)
        self.__dict__["_actions"] = None if seed is None else ActionStream(seed, self.device)
        return seed if seed is None or static_seed else next_seed(seed)

    @property
    def action_stream(self) -> ActionStream:
        """Where :meth:`rand_action` draws from."""
        stream = self.__dict__["_actions"]
        if stream is None:
            stream = self.__dict__["_actions"] = ActionStream(self._action_seed(), self.device)
        return stream

    def _action_seed(self) -> int:
        """The seed of random actions where :meth:`set_seed` was not called."""
        return fresh_seed()

    @property
    def remembered(self) -> list[NestedKey]:
        """The entries of the data, besides the state, that a step goes on from: what transforms remember."""
        return []

    def get_state(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """The whole state as a tensordict ``[*B]``, randomness included; index and expand it to branch.

        Args:
            tensordict: the data, for envs whose state travels in it.
        """
        return get_state(self, tensordict)

    def set_state(
        self, state: TensorDictBase, mask: Tensor | None = None, tensordict: TensorDictBase | None = None
    ) -> TensorDictBase:
        """Puts the env into a state, or the rows of it that ``mask`` (bool ``[*B]``) marks.

        Args:
            state: as :meth:`get_state` gives it.
            mask: the rows; all when left out.
            tensordict: with a mask, the data of the rows that go on, for envs whose state travels in it and envs with
                transforms that remember.

        Returns:
            The data to go on from, as after a reset.
        """
        return set_state(self, state, mask, tensordict)

    def _state_of(self, state: TensorDictBase, mask: Tensor, tensordict: TensorDictBase | None) -> TensorDictBase:
        """``state`` where the mask says so, and elsewhere the one that the env is in."""
        return choose(rows(mask, len(self.batch_size)), state, self._get_state(tensordict), len(self.batch_size))

    # --- what it is ------------------------------------------------------------------------------

    @property
    def batch_size(self) -> Size:
        """How many envs are stepped at once."""
        return self._batch_size

    @batch_size.setter
    def batch_size(self, value: Iterable[int] | int | None) -> None:
        want = size(value)
        if min(want, default=0) < 0:
            raise ShapeError(f"{type(self).__name__}: batch_size cannot be negative, got {list(want)}")
        for side in (self._input_spec, self._output_spec):
            locked = side.is_locked
            if locked:
                side.unlock_()
            side.shape = want
            if locked:
                side.lock_()
        self.__dict__["_batch_size"] = want
        self._cache.clear()

    @property
    def batch_dims(self) -> int:
        """The number of batch dimensions."""
        return len(self._batch_size)

    ndim = batch_dims
    shape = batch_size

    def ndimension(self) -> int:
        """The number of batch dimensions."""
        return len(self._batch_size)

    def numel(self) -> int:
        """The number of envs in the batch."""
        return self._batch_size.numel()

    @property
    def device(self) -> torch.device | None:
        """Where the data live; None where it is left to the data."""
        return self._device

    @device.setter
    def device(self, value: torch.device | str | int | None) -> None:
        device = None if value is None else usable_device(type(self).__name__, value)
        if self._device is not None and device != self._device:
            raise SpecError(
                f"{type(self).__name__}.device: already {self._device}; move the env with env.to({str(value)!r})"
            )
        self.__dict__["_device"] = device

    def to(self, device: torch.device | str | int) -> Self:  # type: ignore[override]
        """Moves the env: specs, buffers and what it draws."""
        target = usable_device(f"{type(self).__name__}.to", device)
        if target == self._device:
            return self
        locked = self.is_spec_locked
        self.set_spec_lock_(False)
        self.__dict__["_device"] = target
        self.__dict__["_input_spec"], self.__dict__["_output_spec"] = (
            self._input_spec.to(target),
            self._output_spec.to(target),
        )
        if self.__dict__["_actions"] is not None:
            self.__dict__["_actions"] = self.__dict__["_actions"].to(target)
        self.set_spec_lock_(locked)
        self._on_move()
        return super().to(target)

    @access.SideSpec
    def input_spec(self) -> Composite:
        """What goes in: ``full_action_spec`` and ``full_state_spec``."""
        self._family("action"), self._family("state")
        return self._input_spec

    @access.SideSpec
    def output_spec(self) -> Composite:
        """What comes out: ``full_observation_spec``, ``full_reward_spec`` and ``full_done_spec``."""
        self._family("observation"), self._family("reward"), self._family("done")
        return self._output_spec

    @property
    def input_spec_unbatched(self) -> Composite:
        """:attr:`input_spec` of a single env."""
        return access.unbatched(self, self.input_spec)

    @property
    def output_spec_unbatched(self) -> Composite:
        """:attr:`output_spec` of a single env."""
        return access.unbatched(self, self.output_spec)

    @property
    def specs(self) -> Composite:
        """All specs: ``input_spec`` and ``output_spec``."""
        return Composite(output_spec=self.output_spec, input_spec=self.input_spec, shape=self.batch_size)

    @property
    def reset_keys(self) -> list[NestedKey]:
        """The keys of the reset masks, one beside each group of done flags, from the root down."""
        return self.plan.done.reset_keys

    @property
    def done_keys_groups(self) -> list[list[NestedKey]]:
        """The done keys, grouped by level in the order of :attr:`reset_keys`."""
        return self.plan.done.key_groups

    @property
    def has_dynamic_specs(self) -> bool:
        """Whether any entry has a size that is not known in advance."""
        return self.plan.dynamic

    _has_dynamic_specs = has_dynamic_specs

    def add_truncated_keys(self) -> Self:
        """Adds a ``truncated`` flag beside every ``done`` flag."""
        spec = self.full_done_spec.clone()
        for key in self.done_keys:
            if beside(key, "truncated") not in spec:
                spec[beside(key, "truncated")] = spec[key].clone()
        self.full_done_spec = spec
        return self

    def fake_tensordict(self) -> TensorDictBase:
        """Zeros in the shape of a step's data; what buffers are allocated from."""
        return infer.fake_tensordict(self)

    def auto_specs_(
        self,
        policy: Callable[[TensorDictBase], TensorDictBase],
        *,
        tensordict: TensorDictBase | None = None,
        action_key: NestedKey | list[NestedKey] = "action",
        done_key: NestedKey | list[NestedKey] | None = None,
        observation_key: NestedKey | list[NestedKey] = "observation",
        reward_key: NestedKey | list[NestedKey] = "reward",
    ) -> Self:
        """Reads the specs off two steps played with ``policy``; entries whose size changes become dynamic (-1)."""
        infer.auto_specs(self, policy, tensordict, action_key, done_key, observation_key, reward_key)
        return self

    def check_env_specs(self, *args: Any, **kwargs: Any) -> None:
        """Compares a short rollout with the specs; see :func:`marlenv.check_env_specs`."""
        check.check_env_specs(self, *args, **kwargs)

    def all_actions(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Every action of an env with discrete actions, stacked along a new first dimension."""
        if tensordict is not None:
            self.reset(tensordict, set_state=True if self.supports_set_state else None)
        return self.full_action_spec.enumerate(use_mask=True)

    def cardinality(self, tensordict: TensorDictBase | None = None) -> float:
        """How many different actions there are, for env with discrete actions."""
        return self.full_action_spec.cardinality()

    def append_transform(self, transform: Any) -> TransformedEnv:
        """This env seen through a transform."""
        from marlenv.transforms import TransformedEnv

        return TransformedEnv(self, transform)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Not meaningful: an env is stepped, not called."""
        raise Unsupported(f"{type(self).__name__}: {access.NOT_CALLED}")

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Ends the env; it cannot be used afterwards."""
        self.is_closed = True

    def __del__(self) -> None:
        self.__dict__["is_closed"] = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_size={list(self.batch_size)}, device={self.device})"
