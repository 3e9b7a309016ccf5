"""Transforms of several moments: frames put together, maxima over time, steps repeated, idle steps after a reset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.envs.random_actions import ActionStream, drawing_from
from marlenv.envs.stepping import holds_rows
from marlenv.errors import ShapeError, SpecError, Unsupported, whole
from marlenv.groups.reset import merge
from marlenv.keys import NestedKey, Path, beside, last, nested, path, under
from marlenv.specs import Binary, Bounded, Composite, MultiOneHot, OneHot, Stacked, TensorSpec, Unbounded
from marlenv.tensordicts import anything, choose, fetch, get, put, rows, write
from marlenv.transforms.base import Kind, ObservationTransform, Transform, unbounded
from marlenv.transforms.checks import remembered
from marlenv.transforms.streams import Drawing

if TYPE_CHECKING:
    from marlenv.envs import EnvBase

Keys = Sequence[NestedKey] | None


class CatFrames(ObservationTransform):
    """Concatenates the last ``N`` frames of observations, the newest last.

    The frames live in the data: after a reset (of a row, or of a group by itself) there is one, and the others are
    copies of it or a constant. On stored data (:meth:`forward`), whose last dimension is time, frames never reach over
    the end of an episode.

    Args:
        N: how many frames.
        dim: along which dimension, counted from the end.
        in_keys: observations; those called ``pixels`` when left out.
        out_keys: where the results go.
        padding: ``"same"`` or ``"constant"``: what stands before the first frame.
        padding_value: the constant.
        as_inverse: only concatenate in ``inv``, when stored data are extended.
        reset_key: TorchRL's argument; the env knows which flags govern an entry.
        done_key: the name of the flag that ends an episode in stored data; that of a group ends it agent by agent.
        future: of stored data, concatenate a frame and those after it; without flags a row is one episode.
        mask_key: of stored data, also write which frames stand for those that are not there, bool ``[*B, T, N]``; with
            the flags of a group ``[*B, T, A, N]``.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(), CatFrames(3, -1, in_keys=["observation"]))
    >>> env.rollout(3)["next", "observation"]
    tensor([[0., 0., 1.],
            [0., 1., 2.],
            [1., 2., 3.]])
    """

    default_name: ClassVar[str | None] = "pixels"
    batch_ndim = 0
    one_for_each: ClassVar[bool] = True

    def __init__(
        self,
        N: int,
        dim: int,
        in_keys: Keys = None,
        out_keys: Keys = None,
        padding: Literal["same", "constant"] = "same",
        padding_value: float = 0,
        as_inverse: bool = False,
        reset_key: NestedKey | None = None,
        done_key: NestedKey | None = None,
        future: bool = False,
        mask_key: NestedKey | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys)
        if dim >= 0:
            raise SpecError(f"CatFrames: dim must be negative, so that it fits batches of any size, got {dim}")
        if padding not in ("same", "constant"):
            raise SpecError(f"CatFrames: padding must be 'same' or 'constant', got {padding!r}")
        self.N, self.dim = whole("CatFrames", "N", N, 1), dim
        self.padding, self.padding_value, self.as_inverse = padding, padding_value, as_inverse
        self.done_key: NestedKey = "done" if done_key is None else done_key
        self.future, self.mask_key = bool(future), mask_key

    def join(self, env: EnvBase) -> None:
        """Finds the entries.

        Raises:
            SpecError: it was made for stored data only.
        """
        stored = {"as_inverse": self.as_inverse, "future": self.future, "mask_key": self.mask_key is not None}
        for name in (name for name, given in stored.items() if given):
            raise SpecError(f"CatFrames: {name}={getattr(self, name)!r} is for stored data; leave it out in an env")
        super().join(env)
        self.batch_ndim = len(env.batch_size)

    def _apply_transform(self, obs: Tensor) -> Tensor:
        """A first frame with those before it."""
        if self.padding == "same":
            return torch.cat([obs] * self.N, self.dim)
        none = torch.full_like(obs, self.padding_value)
        return torch.cat([*[none] * (self.N - 1), obs], self.dim)

    def derive(self, spec: TensorSpec) -> TensorSpec:
        """The spec of the frames."""
        self.need_dim(spec, self.dim, self.batch_ndim)
        if isinstance(spec, Bounded):
            low, high = (torch.cat([end] * self.N, self.dim) for end in spec.space)
            if self.padding == "constant":
                low, high = low.clamp(max=self.padding_value), high.clamp(min=self.padding_value)
            return Bounded(low, high, low.shape, device=low.device, dtype=low.dtype)
        return super().derive(spec)

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds what later transforms change, as it was."""
        for key in self.out_keys or ():
            if (kept := self.memory_of(key)) != key:
                specs["observation"][kept] = specs["observation"][key].clone()

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        self._each(tensordict_reset, must=False)
        return self._remember(tensordict_reset)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for old, new in zip(self.in_keys or (), self.out_keys or (), strict=True):
            frame = fetch(next_tensordict, old)
            if frame is None:
                raise self.no_entry(old, next_tensordict.keys(True, True))
            size = frame.shape[self.dim]
            before = remembered("CatFrames", tensordict, self.memory_of(new), self.N * size, self.dim)
            later = before.narrow(self.dim, size, before.shape[self.dim] - size)
            write(next_tensordict, new, torch.cat((later, frame), self.dim))
        return self._remember(next_tensordict)

    def memories(self) -> list[NestedKey]:
        """What is shown, which does not follow from the env's state alone."""
        return list(self.out_keys or ())

    def _remember(self, td: TensorDictBase) -> TensorDictBase:
        for key in self.out_keys or ():
            if (kept := self.memory_of(key)) != key and (value := fetch(td, key)) is not None:
                write(td, kept, value.clone())
        return td

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Concatenates the frames of stored data ``[*B, T]``, in place; ``"next"`` too where its keys are named."""
        return tensordict if self.as_inverse else self.unfolding(tensordict)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self.unfolding(tensordict) if self.as_inverse else tensordict

    def unfolding(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Concatenates the frames of stored data along the dimension called ``"time"``, or else the last one.

        Raises:
            KeyMissing: there are no flags that say where episodes end.
            ShapeError: the flags are those of agents, who end at different times, and an entry is not theirs.
        """
        names = list(tensordict.names)
        time = names.index("time") if "time" in names else tensordict.ndim - 1
        if tensordict.ndim == 0:
            raise SpecError("CatFrames: stored data need a dimension of time, got none")
        ended = self._ended(tensordict, time)
        ins, outs = self._keys()
        for old, new in sorted(zip(ins, outs, strict=True), key=lambda pair: path(pair[0])[0] == "next"):
            value = fetch(tensordict, old)
            if value is None:
                raise self.no_entry(old, tensordict.keys(True, True))
            here = nested(path(old)[1:]) if path(old)[0] == "next" else None
            if here in ins and not self.future:  # the continuation of what stands at the root
                before = fetch(tensordict, outs[ins.index(here)])
                size = value.shape[self.dim]
                made = torch.cat((before.narrow(self.dim, size, before.shape[self.dim] - size), value), self.dim)
            else:
                made = self._windows(value, self._fitting(ended, old, value, tensordict.ndim), time, tensordict.ndim)
            tensordict.set(new, made)
        if self.mask_key is not None:
            absent = [early for _, early in self._places(ended)]
            tensordict.set(self.mask_key, torch.stack([one.movedim(-1, time) for one in absent], -1))
        return tensordict

    def _ended(self, tensordict: TensorDictBase, time: int) -> Tensor:
        """Where episodes end in stored data, the time last; bool ``[*B, T]``, of a group's agents ``[*B, A, T]``."""
        done = fetch(tensordict, under("next", self.done_key))
        if done is None and not self.future:
            raise self.no_entry(under("next", self.done_key), tensordict.keys(True, True))
        if done is None:
            done = torch.zeros(tensordict.batch_size, dtype=torch.bool, device=tensordict.device)
        if done.ndim > tensordict.ndim and done.shape[-1] == 1:
            done = done.squeeze(-1)
        return done.movedim(time, -1)

    def _fitting(self, ended: Tensor, key: NestedKey, value: Tensor, ndim: int) -> Tensor:
        """The flags for an entry: agent by agent where it is theirs, else those of the rows."""
        theirs = value.shape[ndim : ended.ndim] == ended.shape[ndim - 1 : -1] and value.ndim + self.dim >= ended.ndim
        if theirs or ended.ndim == ndim:
            return ended
        flags = ended.flatten(ndim - 1, -2)
        if not bool((flags == flags[..., :1, :]).all()):
            raise ShapeError(
                f"CatFrames: the flags {self.done_key!r} of {list(ended.shape[ndim - 1 : -1])} agents end their "
                f"episodes at different times, and {key!r} is not theirs, got {list(value.shape)}; name its own flag "
                f"in done_key, or take another CatFrames for it"
            )
        return flags[..., 0, :]

    def _places(self, ended: Tensor) -> list[tuple[Tensor, Tensor]]:
        """For every frame of a window where it is, and where it is not of the episode; both like the flags."""
        size = ended.shape[-1]
        now = torch.arange(size, device=ended.device).expand(ended.shape)
        if self.future:
            end = torch.cat((ended[..., :-1], torch.ones_like(ended[..., -1:])), -1)
            final = torch.where(end, now, size).flip(-1).cummin(-1).values.flip(-1)
            return [(torch.minimum(now + lead, final), now + lead > final) for lead in range(self.N)]
        fresh = torch.cat((torch.ones_like(ended[..., :1]), ended[..., :-1]), -1)
        first = torch.where(fresh, now, 0).cummax(-1).values
        return [(torch.maximum(now - lag, first), now - lag < first) for lag in range(self.N - 1, -1, -1)]

    def _windows(self, value: Tensor, ended: Tensor, time: int, ndim: int) -> Tensor:
        """Every frame of stored data with its neighbours in its episode."""
        value = value.movedim(time, ndim - 1)
        frames = []
        for index, absent in self._places(ended):
            index, absent = index.movedim(-1, ndim - 1), absent.movedim(-1, ndim - 1)
            wide = (*index.shape, *[1] * (value.ndim - index.ndim))
            frame = value.gather(ndim - 1, index.reshape(wide).expand(value.shape))
            if self.padding == "constant":
                frame = frame.masked_fill(absent.reshape(wide), self.padding_value)
            frames.append(frame)
        return torch.cat(frames, self.dim).movedim(ndim - 1, time)

    def __repr__(self) -> str:
        return f"CatFrames(N={self.N}, dim={self.dim}, in_keys={self.in_keys})"


class TimeMaxPool(ObservationTransform):
    """The greatest value of the last ``T`` steps at every place, as for screens that flicker.

    After a reset there is one, which stands for those before it. The last ``T`` values live in the data, in an entry of
    the same name with underscores.

    Args:
        in_keys: observations; ``"observation"`` when left out.
        out_keys: where the results go.
        T: how many steps, the present one included.
        reset_key: TorchRL's argument; the env knows which flags govern an entry.

    >>> env = marlenv.testing.MaskedEnv(n=3).append_transform(TimeMaxPool(in_keys=["observation"], T=2))
    >>> env.rollout(3)["next", "observation"].squeeze(-1)
    tensor([1., 2., 3.])
    """

    only_in_env = "stored data keep the pooled values"
    default_name: ClassVar[str | None] = "observation"
    one_for_each: ClassVar[bool] = True

    def __init__(
        self, in_keys: Keys = None, out_keys: Keys = None, T: int = 1, reset_key: NestedKey | None = None
    ) -> None:
        super().__init__(in_keys, out_keys)
        self.T = whole("TimeMaxPool", "T", T, 1)

    def _past(self, key: NestedKey) -> NestedKey:
        return self.own(beside(key, f"_{last(key)}_past"))

    def join(self, env: EnvBase) -> None:
        """Finds the entries."""
        super().join(env)
        for key in self.in_keys or ():
            if key not in env.full_observation_spec:
                raise self.no_entry(key, env.observation_keys, "the env observes")

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the pools, and the values that they are made from."""
        spec = specs["observation"]
        for old, new in zip(self.in_keys or (), self.out_keys or (), strict=True):
            leaf = spec[old]
            spec[new] = _of_maxima(leaf)
            spec[self._past(new)] = Unbounded((*leaf.shape, self.T), dtype=leaf.dtype, device=leaf.device)

    def memories(self) -> list[NestedKey]:
        """What is shown, which does not follow from the env's state alone."""
        return list(self.out_keys or ())

    def _pool(self, td: TensorDictBase, before: TensorDictBase | None) -> TensorDictBase:
        for old, new in zip(self.in_keys or (), self.out_keys or (), strict=True):
            value = fetch(td, old)
            if value is None:
                raise self.no_entry(old, td.keys(True, True))
            if before is None:
                past = torch.stack([value] * self.T, -1)
            else:
                kept = remembered("TimeMaxPool", before, self._past(new), self.T)
                past = torch.cat((value.unsqueeze(-1), kept[..., : self.T - 1]), -1)
            write(td, self._past(new), past)
            write(td, new, past.amax(-1) if past.dtype != torch.bool else past.any(-1))
        return td

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._pool(tensordict_reset, None)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        return self._pool(next_tensordict, tensordict)


def _of_maxima(spec: TensorSpec) -> TensorSpec:
    """The spec of the greatest values at every place: one-hot vectors together may have several ones."""
    if isinstance(spec, Stacked):
        return Stacked(*[_of_maxima(part) for part in spec.parts], dim=spec.dim)
    if isinstance(spec, OneHot | MultiOneHot):
        return Binary(shape=spec.shape, device=spec.device, dtype=spec.dtype)
    return spec.clone()


class FrameSkipTransform(Transform):
    """Plays every action ``frame_skip`` times and adds up the rewards; rows and agents that are done stop there.

    Args:
        frame_skip: how often.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(), FrameSkipTransform(2))
    >>> out = env.rollout(9)["next"]
    >>> out["observation"].squeeze(-1), out["reward"].squeeze(-1)
    (tensor([2., 4., 5.]), tensor([2., 2., 1.]))
    """

    only_in_env = "it steps the env"
    asks_what_was_told: ClassVar[bool] = True

    def __init__(self, frame_skip: int = 1) -> None:
        super().__init__()
        self.frame_skip = whole("FrameSkipTransform", "frame_skip", frame_skip, 1)

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Gives the sums no bounds."""
        for key, leaf in [*specs["reward"].items(True, True)] if self.frame_skip > 1 else ():
            specs["reward"][key] = unbounded(leaf)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        if self.frame_skip == 1:
            return next_tensordict
        env: Any = self.parent
        told = self.told(tensordict)
        before = ended_before(env.plan.done, told, next_tensordict)
        for _ in range(self.frame_skip - 1):
            still = standing_still(env.plan.done, told, next_tensordict, before)
            next_tensordict = step_on(env, told, next_tensordict, {}, still, add=True)
        return next_tensordict

    def __repr__(self) -> str:
        return f"FrameSkipTransform({self.frame_skip})"


def step_on(
    env: Any,
    td: TensorDictBase,
    following: TensorDictBase,
    actions: dict[NestedKey, Tensor],
    still: dict[Path, Tensor],
    *,
    add: bool,
) -> TensorDictBase:
    """One more step within a step: what followed; what is done by now, or stands still, stays as it is.

    Args:
        env: the env.
        td: the data of the step.
        following: what followed so far.
        actions: what is played; what was played before where left out.
        still: what is done by now, of :func:`standing_still`.
        add: add the rewards up; else those of the step are given.
    """
    over = still[()]
    if bool(over.all()):
        return following
    now = env.step_mdp(td.copy().set("next", following))
    for key, action in actions.items():
        now.set(key, action)
    if bool(over.any()):
        put(now, "_step", ~over)
    made = get(env.step(now), "next")
    for key in env.reward_keys if add else ():
        write(made, key, fetch(following, key) + fetch(made, key))
    if not any(anything(flags) for flags in still.values()):
        return made
    states = [(key, fetch(following, key), fetch(made, key)) for key in env.state_keys]
    made = merge({**still}, following, made)
    for key, before, after in states:  # what an env goes on from is not held back, where the row goes on
        if isinstance(before, Tensor) and isinstance(after, Tensor):
            write(made, key, choose(over, before, after, td.ndim))
    return made


def ended_before(plan: Any, td: TensorDictBase, first: TensorDictBase) -> dict[Path, Tensor]:
    """Who had ended before a step, and has not begun anew in it: flags ``[*B, A]`` by level.

    Args:
        plan: the done flags of the env.
        td: the data of the step.
        first: what followed first.
    """
    found = {}
    for one in plan.levels:
        then, now = _flags(plan, td, one), _flags(plan, first, one)
        if then is not None and now is not None and then.shape == now.shape:
            found[one.path] = then & now
    return found


def standing_still(
    plan: Any, td: TensorDictBase, following: TensorDictBase, before: dict[Path, Tensor]
) -> dict[Path, Tensor]:
    """What does not change any more within a step: rows ``[*B]``, under ``()``, and what ended at the levels below.

    Rows that are over, or are not stepped. Of agents, and groups, ``[*B, A]``, also those that ended within the step:
    what followed so far is the last that is known of them. Who had ended before goes on as the env has it.

    Args:
        plan: the done flags of the env.
        td: the data of the step.
        following: what followed so far.
        before: who had ended before, of :func:`ended_before`.
    """
    over, mask = rows_done(plan, following), get(td, "_step")
    found: dict[Path, Tensor] = {(): over if mask is None else over | ~rows(mask, td.ndim)}
    for one in plan.levels:
        flags = _flags(plan, following, one) if one.path else None
        if flags is not None:
            flags = flags & ~before[one.path] if one.path in before else flags
            found[one.path] = flags | spread(governing(found, one.path), flags, td.ndim)
    return found


def governing(found: dict[Path, Tensor], where: Path) -> Tensor:
    """The flags of the nearest level at or above a place."""
    return found[max((p for p in found if where[: len(p)] == p), key=len)]


def spread(flags: Tensor, value: Tensor, ndim: int) -> Tensor:
    """Flags ``[*B, ...]`` with as many dimensions as a value: one by one where it begins like them, else by rows."""
    if value.shape[: flags.ndim] != flags.shape:
        flags = rows(flags, ndim)
    return flags.reshape((*flags.shape, *[1] * (value.ndim - flags.ndim)))


def _flags(plan: Any, td: TensorDictBase, level: Any) -> Tensor | None:
    """The done flags of a level, ``[*B]`` or ``[*B, A]``; None where the data have none."""
    node = plan.node(td, level)
    if node is None or all(get(node, name) is None for name in level.names):
        return None
    done: Tensor = plan.done_of(node, level)
    return done.squeeze(-1) if done.ndim > td.ndim else done


def ask_reset(plan: Any, td: TensorDictBase, where: Tensor) -> TensorDictBase:
    """Writes reset masks into data, in place: rows ``[*B]`` as flags of every top level."""
    for level in plan.top:
        shape = (*where.shape, *level.shape[plan.batch_ndim :])
        mask = where.reshape(*where.shape, *[1] * (len(shape) - where.ndim)).expand(shape).clone()
        write(td, nested((*level.path, "_reset")), mask)
    return td


def rows_done(plan: Any, td: TensorDictBase) -> Tensor:
    """Which rows are over at every top level; bool ``[*B]``."""
    over: Any = None
    for level in plan.top:
        node = plan.node(td, level)
        done = plan.done_of(node, level).flatten(td.ndim).all(-1)
        over = done if over is None else over & done
    return over


class NoopResetEnv(Drawing):
    """Plays random actions after every reset, so that episodes begin in different places.

    How many, and which, is drawn from a stream of the transform's own per row, which moves on when the row is reset. A
    row that is done before is reset and begins anew. Envs of several rows must be able to step some of them.

    Args:
        noops: the most steps.
        random: draw their number from 0 to ``noops - 1``; else always ``noops``.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(9), NoopResetEnv(3, random=False))
    >>> env.reset()["observation"]
    tensor([3.])
    """

    only_in_env = "it steps the env"

    TRIALS = 10

    def __init__(self, noops: int = 30, random: bool = True) -> None:
        super().__init__()
        self.noops, self.random = whole("NoopResetEnv", "noops", noops, 1), random

    def join(self, env: EnvBase) -> None:
        """Looks whether rows can be stepped by themselves."""
        super().join(env)
        if env.batch_size.numel() > 1 and not holds_rows(env):
            raise SpecError(
                f"NoopResetEnv: {type(env.base_env).__name__} cannot step some of its {env.batch_size.numel()} rows "
                f"only; put the transform into the envs of a SerialEnv"
            )

    @property
    def base_env(self) -> EnvBase | None:
        """The env that the idle steps are played in."""
        return self.parent

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        env: Any = self.parent
        asked = self.asked(tensordict)
        fresh = asked.any(-1)
        if not bool((fresh == asked.all(-1)).all()):
            raise Unsupported(
                f"NoopResetEnv: {type(env.base_env).__name__} resets some of {env.reset_keys} in a row and not the "
                f"others, which would be stepped along; reset whole rows, or leave the transform out"
            )
        total = self._count(fresh)
        stream = ActionStream.of(self.draw(fresh, lambda stream: stream.bits()))
        with drawing_from(env, stream), drawing_from(env.base_env, stream):  # whichever of them draws
            return self._idle(env, tensordict_reset, fresh, total).exclude(*env.action_keys)

    def _idle(self, env: Any, td: TensorDictBase, fresh: Tensor, total: Tensor) -> TensorDictBase:
        """Plays as many steps as a row is to begin with, int64 ``[*B]``, in the rows that are reset."""
        plan = env.plan.done
        left = torch.where(fresh, total, 0)
        for _ in range(self.TRIALS * self.noops + 1):
            go_on = left > 0
            if not bool(go_on.any()):
                return td
            now = env.rand_action(td)
            put(now, "_step", go_on)
            after = env.step_mdp(env.step(now)).exclude(*env.action_keys)
            over = go_on & rows_done(plan, after)
            if bool(over.any()):
                after = env.reset(ask_reset(plan, after, over))
            left = torch.where(over, total, left - go_on.long())
            td = after
        raise Unsupported(f"NoopResetEnv: episodes end again and again before {self.noops} idle steps; take fewer")

    def _restored(self, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return tensordict_reset  # a state is put back, and nothing played

    def _count(self, where: Tensor) -> Tensor:
        """How many steps to play."""
        if not self.random:
            return torch.full_like(where, self.noops, dtype=torch.int64)
        return self.draw(where, lambda stream: stream.randint(0, self.noops))

    def __repr__(self) -> str:
        return f"NoopResetEnv(noops={self.noops}, random={self.random})"
