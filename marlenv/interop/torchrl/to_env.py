"""Our env as one of TorchRL's, for its collectors, transforms, pools and losses. Imported when it is first needed.

Source: torchrl 0.14.1, ``torchrl.envs.EnvBase``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch
from tensordict import TensorDictBase

from marlenv.envs import EnvBase
from marlenv.envs.access import SIDE
from marlenv.envs.attributes import names
from marlenv.errors import KeyMissing, SpecError, Unsupported
from marlenv.interop.torchrl.drawn import Drawer, drawn
from marlenv.interop.torchrl.end_flags import EndFlags
from marlenv.interop.torchrl.specs import spec_to_torchrl
from marlenv.interop.torchrl.stacks import Place, named_by, places
from marlenv.keys import Path
from marlenv.optional import need
from marlenv.specs import StackedComposite
from marlenv.tensordicts import drop, get, put, shallow
from marlenv.transforms import Transform, TransformedEnv

theirs: Any = need("torchrl.envs", "marlenv.to_torchrl")


class TorchRLEnv(theirs.EnvBase):
    """An env of ours behind TorchRL's interface; its data are those of our env, not copies of them.

    Random actions are those of our env, legal and from its own seeded stream, for all who hold the action spec; those
    of ``rand_action(td)`` are legal in ``td``. The masks of action specs follow the ``action_mask`` in the data, so
    that ``project`` and ``is_in`` know what is legal. Attributes that TorchRL's envs do not have are those of our env,
    and are set there.

    Args:
        env: our env.
    """

    def __init__(self, env: EnvBase) -> None:
        super().__init__(
            device=env.device, batch_size=env.batch_size, allow_done_after_reset=env._allow_done_after_reset
        )
        self.inner = env
        self.__dict__.update(_held=None, _asked=None, _draws={}, _drawer=Drawer(), _rests=False)
        self.__dict__["rand_action"] = partial(_rand_action, self)  # in the class, TransformedEnv would ask no other
        self._write_specs()
        self.is_closed = env.is_closed
        self.register_load_state_dict_post_hook(_follow)  # loaded statistics of transforms may be bounds

    def _write_specs(self) -> None:
        self._drawer.env = self
        self._drawer.legal.clear()
        specs = {kind: self._spec(kind) for kind in SIDE}
        live, drawing = list[tuple[Any, Place, Path]](), list[Place]()
        for place, entry in places(self.inner.plan, self.inner.full_action_spec):
            spec = place.leaf(specs["action"])
            if hasattr(spec, "_encode_eager") and not hasattr(spec, "_specs"):
                drawn(spec, self._drawer, place)
                drawing.append(place)
                live += [(spec, place, entry.mask)] if entry.mask is not None else []
        plan = self.inner.plan
        self.__dict__.update(_live=live, _drawing=drawing, _ends=EndFlags(plan.done), _plan=plan)
        self.__dict__["_unlike"] = any(isinstance(one, StackedComposite) for one in _groups(self.inner))
        for kind, spec in specs.items():
            side = self._input_spec if SIDE[kind] == "_input_spec" else self._output_spec
            side[f"full_{kind}_spec"] = spec

    def _spec(self, kind: str) -> Any:
        try:
            return spec_to_torchrl(getattr(self.inner, f"full_{kind}_spec"))
        except SpecError as error:
            error.add_note(f"in the {kind} spec of {self.inner!r}")
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        now = self._now()
        return TorchRLEnv, (self.inner,), (self._drawer, None if now is None else now.detach())

    def __setstate__(self, state: tuple[Drawer, TensorDictBase | None]) -> None:
        self.__dict__["_drawer"], now = state
        self._rewrite_specs()
        if now is not None and not self.inner.is_closed:  # pools of processes leave theirs behind
            self._hold(now, now)

    # --- stepping --------------------------------------------------------------------------------

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        td = self.inner.step(shallow(tensordict))
        following = td.get("next")
        self._hold(td, following)
        return self._ends.write(shallow(following))  # transforms write into what they get

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        inner = self.inner
        if self._rests:
            self._wake()
        if tensordict is None:
            out = inner.reset(**kwargs)
        else:
            masks = {key: mask for key in inner.reset_keys if (mask := tensordict.get(key, None)) is not None}
            before = self._before(tensordict) if masks else shallow(tensordict)
            for key, mask in masks.items():
                before.set(key, mask.clone())
            out = inner.reset(before, **kwargs)
        if self._unlike:
            out = named_by([inner.full_observation_spec, inner.full_done_spec, inner.full_state_spec], out)
        else:
            out = out.select(*inner.observation_keys, *inner.done_keys, *inner.state_keys, strict=False)
        self._hold(out, out)
        return out

    def _before(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The data of all rows before a partial reset; TorchRL often hands over no more than the masks."""
        whole = set(self.inner.done_keys) <= set(tensordict.keys(True, True))
        now = None if whole else self._now()
        return shallow(tensordict if now is None else now)

    def _step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        td, following = self.inner.step_and_maybe_reset(tensordict)
        self._hold(following, following)
        put(td, "next", self._ends.write(get(td, "next")))
        return td, following

    def _post_step_mdp_hooks(
        self, tensordict: TensorDictBase, following: TensorDictBase
    ) -> tuple[TensorDictBase, TensorDictBase]:
        """Takes back the marks of groups that stand still: TorchRL's rollout does so at the root only.

        Raises:
            Unsupported: there is no root flag, without which that rollout would play on past the end.
        """
        levels = self._ends.plan.levels
        rooted = any(not level.path for level in levels)
        for td in (tensordict, following):
            for level in levels:
                node = self._ends.plan.node(td, level) if level.path else None
                if node is None or get(node, "_neg_step") is None:
                    continue
                if not rooted:
                    raise Unsupported(
                        f"to_torchrl: TorchRL's rollout(break_when_all_done=True) reads done flags of the root, and "
                        f"{self.inner!r} has none: it would play on past the end; roll out our env, or use a collector"
                    )
                drop(node, "_neg_step")
        return tensordict, following

    def _hold(self, td: TensorDictBase, now: TensorDictBase) -> None:
        """Keeps what a partial reset and random actions start from, and tells the action specs what is legal."""
        self.__dict__["_held"], self.__dict__["_asked"] = td, None
        self._draws.clear()
        self._drawer.moves += 1
        self._follow(now)

    def _follow(self, td: TensorDictBase) -> None:
        """Tells the action specs what is legal in data, but those that a caller told otherwise since the last move."""
        for spec, place, mask in self._live:
            if (legal := place.read(td, mask)) is not None and spec._given != self._drawer.moves:
                spec.follow(legal)

    def _now(self) -> TensorDictBase | None:
        """The data that the env stands before, as it gave them."""
        held = self._held
        if held is not None and "next" in held.keys():
            held = self.__dict__["_held"] = self.inner.step_mdp(held)
        return held

    def _drawn_action(self, place: Place) -> Any:
        """A random action from our env's stream; all entries of one action are drawn together."""
        if place not in self._draws:
            now = self._now() if self._asked is None else self._asked
            action = self.inner.rand_action(None if now is None else shallow(now))
            self._draws.update({one: one.read(action) for one in self._drawing})
        return self._draws.pop(place)

    # --- the rest --------------------------------------------------------------------------------

    def _set_seed(self, seed: int | None) -> None:
        self.inner.set_seed(seed)

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seeds the env and returns the next seed of the chain."""
        return self.inner.set_seed(seed, static_seed)

    @property
    def batch_locked(self) -> bool:
        """Whether inputs must have the env's batch size."""
        return self.inner.batch_locked

    @property
    def _supports_set_state(self) -> bool:
        return self.inner.supports_set_state

    def set_state(
        self, state: TensorDictBase, mask: torch.Tensor | None = None, tensordict: TensorDictBase | None = None
    ) -> TensorDictBase:
        """Puts the env into a state, or the rows of it that ``mask`` marks, and returns the data to go on from."""
        now = self.inner.set_state(state, mask, tensordict)
        self._hold(now, now)
        return shallow(now)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Loads what ``state_dict`` gave.

        Raises:
            KeyMissing: it is empty, as TorchRL's collectors save that of any env that is not TorchRL's own.
        """
        if strict and not state_dict and self.state_dict():
            raise KeyMissing(
                f"{self!r}.load_state_dict: expected the state of the env's transforms, got none: TorchRL's collectors "
                f"save it of TorchRL's own envs only; save collector.state_dict() | "
                f"{{'env_state_dict': env.state_dict()}} instead, or load with strict=False to do without"
            )
        return super().load_state_dict(state_dict, strict=strict, assign=assign)

    def to(self, device: torch.device | str | int) -> TorchRLEnv:
        """Moves the env."""
        now = self._now()
        self.inner.to(device)
        self.__dict__["_device"] = self.inner.device
        for side in (self._input_spec, self._output_spec):
            side._device = self.inner.device
        self._rewrite_specs()
        if now is not None:
            now = now.to(self.inner.device)
            self._hold(now, now)
        return self

    def _rewrite_specs(self) -> None:
        locked = self.is_spec_locked
        self.set_spec_lock_(False)
        self._write_specs()
        self.set_spec_lock_(locked)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Closes our env too; one that holds nothing, such as a scenario or a game, begins again with a reset."""
        self.__dict__["_rests"] = self._rests or (not self.inner.is_closed and _holds_nothing(self.inner))
        self.inner.close(raise_if_closed=raise_if_closed)
        super().close(raise_if_closed=raise_if_closed)

    def _wake(self) -> None:
        """Begins again after TorchRL has closed the env, as its evaluations do that go on."""
        for env in _levels(self.inner):
            env.is_closed = False
        self.__dict__["_rests"] = False

    def __del__(self) -> None:
        """TorchRL's closes the env; ours goes on, and whoever made it closes it."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or "inner" not in self.__dict__.get("_modules", {}):
                raise
            return getattr(self.inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        inner = self.__dict__.get("_modules", {}).get("inner")
        if inner is None or name in self.__dict__ or hasattr(type(self), name) or name not in names(inner):
            super().__setattr__(name, value)
        else:  # where it is read
            setattr(inner, name, value)
            _follow(self)  # it may have been another transform

    def __repr__(self) -> str:
        return f"to_torchrl({self.inner!r})"


def _follow(env: TorchRLEnv, _: Any = None) -> None:
    """Lets the specs be those of our env, where they have changed."""
    if env.inner.plan is not env._plan:
        now = env._now()
        env._rewrite_specs()
        if now is not None:
            env._hold(now, now)


def _groups(env: EnvBase) -> Iterator[Any]:
    """The specs of what an env shows, and of the groups in them."""
    for spec in (env.full_observation_spec, env.full_done_spec, env.full_state_spec):
        yield from (spec, *spec.values(True))


def _levels(env: EnvBase) -> Iterator[EnvBase]:
    """The env, and those that it transforms."""
    while isinstance(env, TransformedEnv):
        yield env
        env = env.base_env
    yield env


def _holds_nothing(env: EnvBase) -> bool:
    """Whether closing the env lets nothing go, so that it can begin again."""
    *above, base = list[Any](_levels(env))
    transforms = [one for level in above for one in level.chain.leaves()]
    return type(base).close is EnvBase.close and all(type(one).close is Transform.close for one in transforms)


def _rand_action(env: TorchRLEnv, tensordict: TensorDictBase | None = None) -> TensorDictBase:
    """TorchRL's ``rand_action``, by the masks in ``tensordict`` where it has them, and else by those of the env."""
    masks = [] if tensordict is None else [place.read(tensordict, mask) for _, place, mask in env._live]
    if tensordict is not None and masks and all(mask is not None for mask in masks):
        env.__dict__["_asked"] = shallow(tensordict)
        env._draws.clear()
        env._follow(tensordict)
    return theirs.EnvBase.rand_action(env, tensordict)
