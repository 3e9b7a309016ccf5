"""Turns: one trajectory per agent, from decision to decision, out of the data of any env.

At every step of a rollout all agents have data, though only those of ``mask`` act. Here a step of a trajectory is a
decision of its agent: what it observed and did, and, under ``"next"``, all that it was paid until its next decision or
the end, and what it observed then. A reward that comes after an agent's last decision, such as that of a loser who does
not move any more, goes to that decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.errors import KeyMissing, ShapeError, SpecError, SpecTypeError, Unsupported
from marlenv.keys import DONE_NAMES, Path, nested
from marlenv.tensordicts import NON_TENSOR, entries, get, is_nested, lazy, new, parts, plant

MASKS = ("action_mask",)  # padding allows everything, as for those who do not act


def compact_turns(td: TensorDictBase, gamma: float = 1.0) -> TensorDictBase:
    """A rollout as trajectories of decisions: per group ``[*B, A, K]``, K the most decisions of any agent.

    The steps of an agent are its data where it decided, in order, episodes one after another. Under ``"next"`` are its
    data at its next decision or its end, and

    - ``reward``: all that it was paid from this decision until the next, the end included;
    - ``done``, ``terminated``, ``truncated``: its own flags, or those of the episode where that ended; the last
      decision in the data is truncated where it goes on;
    - ``discount``: ``gamma`` to the power of the steps in between, ``[*B, A, K, 1]``.

    ``mask`` is True where there is a decision; the rest is padding, zeros, and None where data are no tensors. Under
    ``"undecided"`` is what came when an agent had no decision of this episode to pay for, ``[*B, A, 1]`` per group:
    with it, and with ``gamma=1``, every agent's return is what it was. Sums have the dtype of the rewards; those of
    whole numbers are int64, or with ``gamma`` below 1 fractions.

    Args:
        td: data of a rollout ``[*B, T]``; agents without ``mask`` decide at every step that they live. Where ``"mask"``
            or ``("collector", "mask")`` ``[*B, T]`` of the data, which no env observes, is False, there is no step, as
            in the padding of :func:`~marlenv.envs.split_trajectories`.
        gamma: discount of rewards within a turn, from 0 to 1.

    Raises:
        SpecTypeError: ``td`` is no tensordict, or ``gamma`` no number.
        SpecError: ``gamma`` is not from 0 to 1.
        KeyMissing: there is no ``"next"``, no reward, or no done flag.
        ShapeError: there is no time dimension.
        Unsupported: an entry of a group has another shape at every step.

    >>> game = marlenv.make("tic_tac_toe", num_envs=1, seed=0).rollout(9)
    >>> turns = compact_turns(game)
    >>> [turns[seat, "next", "reward"].sum().item() for seat in ("x", "o")]
    [1.0, -1.0]
    """
    _check_gamma("compact_turns", gamma)
    _check_data("compact_turns", td)
    if not td.batch_dims:
        raise ShapeError("compact_turns: expected the data of a rollout, [*B, T], got those of one step; see TurnView")
    following = _following(td, "compact_turns")
    out: TensorDictBase = new({}, td.batch_size[:-1], td.device)
    for level in _levels(following, "compact_turns"):
        turns = _Turns(td, level, gamma)
        plant(out, level.path or ("agent",), turns.data())
        plant(out, ("undecided", *(level.path or ("agent",))), turns.undecided)
    return out


class _Level(NamedTuple):
    """A group with rewards, and the highest level above it that has a done flag: what starts anew together."""

    path: Path
    over: Path


def _levels(following: TensorDictBase, who: str) -> list[_Level]:
    found = list(_walk(following, (), None, who))
    if not found:
        raise KeyMissing(f"{who}: no reward under 'next' in {sorted(map(str, following.keys(True, True)))}")
    return found


def _walk(node: TensorDictBase, path: Path, over: Path | None, who: str) -> Iterator[_Level]:
    if over is None and get(node, "done") is not None:
        over = path
    if get(node, "reward") is not None:
        if over is None:
            raise KeyMissing(f"{who}: no 'done' flag beside or above the reward of {nested((*path, 'reward'))!r}")
        yield _Level(path, over)
    for name, value in entries(node):
        if is_nested(value):
            yield from _walk(value, (*path, name), over, who)


def _following(td: TensorDictBase, who: str) -> TensorDictBase:
    following = get(td, "next")
    if not is_nested(following):
        raise KeyMissing(f"{who}: no 'next' entry; the data has {sorted(map(str, td.keys()))}")
    return following


def _check_data(who: str, td: TensorDictBase) -> None:
    if not isinstance(td, TensorDictBase):
        raise SpecTypeError(f"{who}: expected a tensordict, the data of an env, got {type(td).__name__}")


def _check_gamma(who: str, gamma: float) -> None:
    if not isinstance(gamma, Real) and not (isinstance(gamma, Tensor) and gamma.numel() == 1):
        raise SpecTypeError(f"{who}: gamma must be a number from 0 to 1, got {gamma!r}")
    if not 0 <= gamma <= 1:
        raise SpecError(f"{who}: gamma must be from 0 to 1, got {gamma}")


def _at(td: TensorDictBase, path: Path) -> Any:
    for name in path:
        td = get(td, name)
    return td


def _flag(td: TensorDictBase, path: Path, name: str, like: Size) -> Tensor:
    """A flag of a level for every agent of a group, bool of the group's batch size; False where there is none."""
    node = _at(td, path)
    flag = None if node is None else get(node, name)
    if flag is None:
        return torch.zeros(like, dtype=torch.bool, device=td.device)
    shape = node.batch_size  # the flag has one more dimension, of one element
    return flag.reshape(*shape, *[1] * (len(like) - len(shape))).expand(like)


def _stepped(td: TensorDictBase, like: Size) -> Tensor:
    """Where there is a step at all, and no padding of split trajectories; bool of the shape of the group's batch."""
    observed = get(get(td, "next"), "mask") is not None  # the env's own mask says who acts
    nodes: list[Any] = [get(td, "collector"), None if observed else td]
    for node in nodes:
        mask = get(node, "mask") if is_nested(node) and node.batch_size == td.batch_size else None
        if isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.shape in (td.shape, (*td.shape, 1)):
            return mask.reshape(*td.shape, *[1] * (len(like) - td.ndim)).expand(like)
    return torch.ones(like, dtype=torch.bool, device=td.device)


def _acting(td: TensorDictBase, level: _Level, like: Size) -> Tensor:
    """Who decides; bool of the shape of the group's batch."""
    mask = get(_at(td, level.path), "mask")
    acts = torch.ones(like, dtype=torch.bool, device=td.device) if mask is None else mask.reshape(like)
    return acts & ~_flag(td, level.path, "done", like) & ~_flag(td, level.over, "done", like)


def _ends(following: TensorDictBase, level: _Level, like: Size) -> tuple[Tensor, dict[str, Tensor]]:
    """Where the episode is over, and the flags of every agent after the step: its own, or those of its episode."""
    over, own = (_flag(following, path, "done", like) for path in (level.over, level.path))
    flags = {}
    for name in DONE_NAMES:
        whole, mine = (_flag(following, path, name, like) for path in (level.over, level.path))
        flags[name] = torch.where(own, mine, whole & over)
    return over, flags


def _summed_as(reward: Tensor, gamma: float) -> torch.dtype:
    """In which dtype rewards are added up: their own; whole ones in int64, or discounted in the default one."""
    if reward.dtype.is_floating_point:
        return reward.dtype
    return torch.int64 if gamma == 1 else torch.get_default_dtype()


def _power(gamma: float, steps: Tensor, dtype: torch.dtype) -> Tensor:
    """``gamma`` to the power of numbers of steps; only 1 is in whole numbers."""
    if not dtype.is_floating_point:
        return torch.ones_like(steps, dtype=dtype)
    exact = torch.promote_types(dtype, torch.float32)  # bfloat16 counts whole steps to 256 only
    return (gamma ** steps.to(exact)).to(dtype)


def _discount(gamma: float, steps: Tensor, reward: Tensor) -> Tensor:
    """``gamma`` to the power of numbers of steps, in the dtype of a reward where that has fractions."""
    floating = reward.dtype.is_floating_point
    return _power(gamma, steps, reward.dtype if floating else torch.get_default_dtype())


class _Turns:
    """The turns of one group: when its agents decide, what they are paid for it and when it ends.

    Inside, time is the last dimension: ``[*B, A, T]`` in, ``[*B, A, K]`` out.
    """

    def __init__(self, td: TensorDictBase, level: _Level, gamma: float) -> None:
        self.time = td.batch_dims - 1
        self.node, self.following = _at(td, level.path), _at(_following(td, "compact_turns"), level.path)
        like = self.node.batch_size
        over, flags = _ends(_following(td, "compact_turns"), level, like)
        real = self._last(_stepped(td, like))
        acts, over = self._last(_acting(td, level, like)) & real, self._last(over) & real
        self.flags = {name: self._last(flag) & real for name, flag in flags.items()}
        done, steps = self.flags["done"] | over, acts.shape[-1]
        now = torch.arange(steps, device=acts.device).expand(acts.shape)
        first = torch.ones_like(over[..., :1])
        begins = torch.cat([first, (over | ~real)[..., :-1]], -1)
        last = torch.cat([~real[..., 1:], first], -1)  # of the data, or of what is not padding
        latest = torch.where(acts, now, -1).cummax(-1).values
        paid = latest >= torch.where(begins, now, 0).cummax(-1).values  # by a decision of this episode
        order = acts.cumsum(-1)  # 1 for the first decision
        count = order[..., -1:]
        k = max(1, int(count.max()))
        earned = self._reward(gamma).masked_fill(~real.unsqueeze(-1), 0)
        rewards = earned * _power(gamma, now - latest, earned.dtype).unsqueeze(-1)
        where = torch.where(paid, order, 0).unsqueeze(-1).expand(rewards.shape)
        sums = torch.zeros(*rewards.shape[:-2], k + 1, rewards.shape[-1], dtype=rewards.dtype, device=rewards.device)
        self.reward = sums.scatter_add(-2, where, rewards)[..., 1:, :]
        self.undecided = earned.masked_fill(paid.unsqueeze(-1), 0).sum(-2)
        at = torch.zeros(*acts.shape[:-1], k + 1, dtype=torch.long, device=acts.device)
        self.begin = at.scatter(-1, torch.where(acts, order, 0), now)[..., 1:]
        self.valid = torch.arange(k, device=acts.device) < count
        stop = torch.where(done | last, now, steps - 1).flip(-1).cummin(-1).values.flip(-1)
        following = torch.cat([self.begin[..., 1:], torch.full_like(count, steps)], -1)
        following = torch.where(torch.arange(1, k + 1, device=acts.device) < count, following, steps)
        self.end = torch.minimum(stop.gather(-1, self.begin), following - 1)
        self.cut = (last & ~done).gather(-1, self.end)
        self.gamma = gamma

    def _last(self, x: Tensor) -> Tensor:
        return x.movedim(self.time, x.ndim - 1)

    def _reward(self, gamma: float) -> Tensor:
        reward = get(self.following, "reward")
        return reward.to(_summed_as(reward, gamma)).flatten(len(self.node.batch_size)).movedim(self.time, -2)

    def data(self) -> TensorDictBase:
        """The group's trajectories."""
        out = self._take(self.node, self.begin)
        following = self._take(self.following, self.end)
        following.set(
            "reward", self.reward.reshape(*self.valid.shape, *get(self.following, "reward").shape[self.node.ndim :])
        )
        for name in DONE_NAMES:
            flag = self.flags[name].gather(-1, self.end)
            flag = flag | self.cut if name != "terminated" else flag
            following.set(name, (flag & self.valid).unsqueeze(-1))
        steps = (self.end - self.begin + 1) * self.valid
        following.set("discount", (_discount(self.gamma, steps, self.reward) * self.valid).unsqueeze(-1))
        out.set("mask", self.valid.clone())
        out.set("next", following)
        out.refine_names(..., "time")
        return out

    def _take(self, node: TensorDictBase, when: Tensor) -> TensorDictBase:
        """The data at these times, zeros in the padding."""
        if (agents := parts(node)) is not None and node.stack_dim > self.time:
            dim = node.stack_dim - 1
            taken = [
                self._take_one(one, when.select(dim, i), self.valid.select(dim, i)) for i, one in enumerate(agents)
            ]
            return lazy(taken, dim)
        return self._take_one(node, when, self.valid)

    def _take_one(self, node: TensorDictBase, when: Tensor, valid: Tensor) -> TensorDictBase:
        data: dict[str, Any] = {}
        for name, value in entries(node):
            if is_nested(value):
                data[name] = self._take_one(value, when, valid)
            elif isinstance(value, Tensor):
                x = value.movedim(self.time, when.ndim - 1)
                extra = x.ndim - when.ndim
                index, kept = (i.reshape(*i.shape, *[1] * extra) for i in (when, valid))
                x = x.gather(when.ndim - 1, index.expand(*when.shape, *x.shape[when.ndim :]))
                data[name] = x.masked_fill(~kept, name in MASKS)
            else:
                data[name] = _things_at("compact_turns", name, value, when, valid, self.time)
        return new(data, when.shape, node.device)


class TurnView:
    """Turns while they are played: takes the data of a step, gives the decisions that are settled by it.

    The decisions are those of :func:`compact_turns`, one by one as they end: for replay buffers, and for rollouts that
    are never kept.

    Args:
        gamma: discount of rewards within a turn, from 0 to 1.

    Raises:
        SpecTypeError: ``gamma`` is no number.
        SpecError: it is not from 0 to 1.

    >>> env, view = marlenv.make("tic_tac_toe", num_envs=2, seed=0), TurnView()
    >>> td, count = env.reset(), 0
    >>> for _ in range(20):
    ...     step, td = env.step_and_maybe_reset(env.rand_action(td))
    ...     count += len(view.add(step)["x"])
    >>> count + len(view.flush()["x"])  # 20 steps of two rows, in half of which or a little more x moves
    22
    """

    def __init__(self, gamma: float = 1.0) -> None:
        _check_gamma("TurnView", gamma)
        self.gamma = gamma
        self._open: dict[Path, _Open] = {}

    def add(self, td: TensorDictBase) -> dict[Any, TensorDictBase]:
        """Takes the data of one step ``[*B]``.

        Returns:
            Per group the decisions that ended with it, ``[n]``, with the entries of :func:`compact_turns` and
            ``index``, int64 ``[n, b + 1]``: row and agent.

        Raises:
            SpecTypeError: it is no tensordict.
            KeyMissing: there is no ``"next"``, no reward, or no done flag.
            ShapeError: the rows or the agents of a group are others than before.
            Unsupported: the agents of a group differ and cannot be indexed together, or an entry has no place for
                each of them.
        """
        _check_data("TurnView.add", td)
        following = _following(td, "TurnView.add")
        out: dict[Any, TensorDictBase] = {}
        for level in _levels(following, "TurnView.add"):
            node = _at(td, level.path)
            if parts(node) is not None:
                raise Unsupported(
                    f"TurnView.add: the agents of group {nested(level.path)!r} differ; put them into groups of their "
                    f"own"
                )
            held = self._open.get(level.path)
            if held is None:
                held = self._open[level.path] = _Open(node, _at(following, level.path), self.gamma)
            name = nested(level.path) if level.path else "agent"
            if held.open.shape != node.batch_size:
                raise ShapeError(
                    f"TurnView.add: this view began with {name!r} of {list(held.open.shape)} (rows and agents), got "
                    f"{list(node.batch_size)}; make one TurnView per env"
                )
            out[name] = held.add(td, level)
        return out

    def flush(self) -> dict[Any, TensorDictBase]:
        """The decisions that are not settled yet, truncated; the view begins anew."""
        out = {nested(path) if path else "agent": held.flush() for path, held in self._open.items()}
        self._open = {}
        return out

    @property
    def undecided(self) -> dict[Any, Tensor]:
        """What came when an agent had no decision to pay for, so far; ``[*B, A, 1]`` per group."""
        return {nested(path) if path else "agent": held.undecided for path, held in self._open.items()}


class _Open:
    """The decisions of one group that are not settled yet."""

    def __init__(self, node: TensorDictBase, following: TensorDictBase, gamma: float) -> None:
        self.gamma = gamma
        shape, reward = node.batch_size, get(following, "reward")
        self.open = torch.zeros(shape, dtype=torch.bool, device=reward.device)
        self.ended, self.steps, self.age = self.open.clone(), self.open.long(), self.open.long()
        self.flags = {name: self.open.clone() for name in DONE_NAMES}
        self.reward = torch.zeros_like(reward, dtype=_summed_as(reward, gamma))
        self.undecided = self.reward.clone()
        self.node, self.following = _indexed(node).clone(), _indexed(following).clone()

    def add(self, td: TensorDictBase, level: _Level) -> TensorDictBase:
        node, following = _at(td, level.path), _at(_following(td, "TurnView.add"), level.path)
        like = node.batch_size
        real = _stepped(td, like)
        acts = _acting(td, level, like) & real
        over, flags = _ends(_following(td, "TurnView.add"), level, like)
        self._put(self.node, node, acts)
        self.open, self.ended = self.open | acts, self.ended & ~acts
        self.age = torch.where(acts, 0, self.age)
        reward = get(following, "reward").to(self.reward.dtype)
        reward = reward.masked_fill(self._spread(~real, reward), 0)
        self.undecided = self.undecided + reward.masked_fill(self._spread(self.open, reward), 0)
        weight = _power(self.gamma, self.age, reward.dtype)
        kept = torch.where(self._spread(acts, reward), 0, self.reward)
        owed = reward.masked_fill(self._spread(~self.open, reward), 0)
        self.reward = kept + self._spread(weight, reward) * owed
        self.age = self.age + 1
        self._cut(~real)
        goes_on = self.open & ~self.ended & real
        self._put(self.following, following, goes_on)
        self.steps = torch.where(goes_on, self.age, self.steps)
        self.flags = {name: torch.where(goes_on, flag, self.flags[name]) for name, flag in flags.items()}
        self.ended = self.ended | (goes_on & (flags["done"] | over))
        settled = self.open & (over | ~real | self._acts_next(following, flags["done"]))
        return self._given(settled)

    def flush(self) -> TensorDictBase:
        self._cut(self.open)
        return self._given(self.open)

    def _cut(self, where: Tensor) -> None:
        """Truncates what is open there and has not ended."""
        cut = self.open & ~self.ended & where
        self.flags["truncated"], self.flags["done"] = self.flags["truncated"] | cut, self.flags["done"] | cut

    @staticmethod
    def _acts_next(following: TensorDictBase, done: Tensor) -> Tensor:
        mask = get(following, "mask")
        return ~done if mask is None else mask.reshape(done.shape)

    @staticmethod
    def _spread(x: Tensor, like: Tensor) -> Tensor:
        return x.reshape(*x.shape, *[1] * (like.ndim - x.ndim))

    def _put(self, held: TensorDictBase, data: TensorDictBase, where: Tensor) -> None:
        if bool(where.any()):
            held[where] = _indexed(data)[where]

    def _given(self, which: Tensor) -> TensorDictBase:
        """The decisions of these agents, which are not open any more."""
        out, following = (_chosen(one, which).copy() for one in (self.node, self.following))
        following.set("reward", self.reward[which])
        for name, flag in self.flags.items():
            following.set(name, flag[which].unsqueeze(-1))
        following.set("discount", _discount(self.gamma, self.steps[which], self.reward).unsqueeze(-1))
        out.set("mask", torch.ones(len(out), dtype=torch.bool, device=which.device))
        out.set("next", following)
        out.set("index", which.nonzero())
        self.open = self.open & ~which
        return out


def _indexed(td: TensorDictBase) -> TensorDictBase:
    """The entries, each with a place of its own for every agent of every row."""
    data: dict[str, Any] = {}
    for name, value in entries(td):
        if is_nested(value):
            data[name] = _indexed(value)
        elif isinstance(value, Tensor):
            data[name] = value
        else:
            things = _things("TurnView.add", name, value)
            data[name] = _stacked(td.batch_size, partial(_item, things))
    return TensorDict(data, td.batch_size)


def _chosen(td: TensorDictBase, which: Tensor) -> TensorDictBase:
    """``td[which]``, which tensordict knows of data that are no tensors only where something is chosen."""
    if bool(which.any()):
        return td[which]
    data: dict[str, Any] = {}
    for name, value in entries(td):
        tensor = isinstance(value, Tensor)
        nothing = value[which] if tensor else NonTensorData(None, batch_size=[0])
        data[name] = _chosen(value, which) if is_nested(value) else nothing
    return new(data, Size([0]), td.device)


def _things(who: str, name: str, value: Any) -> Any:
    """Data that are no tensors as nested lists, over the dimensions of the batch."""
    if isinstance(value, NON_TENSOR):
        return value.tolist()
    raise Unsupported(
        f"{who}: entry {name!r} is {type(value).__name__}, which cannot be indexed; pad it, or leave it out by "
        f"td.exclude"
    )


def _item(things: Any, index: tuple[int, ...]) -> Any:
    for i in index:
        things = things[i]
    return things


def _things_at(who: str, name: str, value: Any, when: Tensor, valid: Tensor, time: int) -> Any:
    """Data that are no tensors at these times, None in the padding."""
    things, steps, kept = _things(who, name, value), when.tolist(), valid.tolist()

    def at(index: tuple[int, ...]) -> Any:
        place = (*index[:time], _item(steps, index), *index[time:-1])
        return _item(things, place) if _item(kept, index) else None

    return _stacked(when.shape, at)


def _stacked(shape: Size, item: Callable[[tuple[int, ...]], Any], index: tuple[int, ...] = ()) -> Any:
    """Data that are no tensors by their index, as a stack of a shape."""
    if len(index) == len(shape):
        return NonTensorData(item(index))
    return NonTensorStack(*[_stacked(shape, item, (*index, i)) for i in range(shape[len(index)])])
