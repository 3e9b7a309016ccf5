"""Transforms of how episodes end and how they are counted: numbers of episodes, limits, lost lives, records."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import KeyMissing, SpecError, whole
from marlenv.groups.reset import RESET
from marlenv.keys import NestedKey, beside, level, nested
from marlenv.rng import WORDS
from marlenv.specs import Bounded, Composite, Unbounded
from marlenv.tensordicts import fetch, rows, write
from marlenv.transforms.base import Kind, Transform
from marlenv.transforms.episodes import PerLevel, StepCounter, Truncation
from marlenv.transforms.streams import Drawing

if TYPE_CHECKING:
    from marlenv.envs import EnvBase

START = "start from env.reset(), and hand on what it gives"
MOST = torch.iinfo(torch.int64).max


class TimeLimit(StepCounter):
    """Cuts episodes off after ``max_steps`` steps: they are truncated, never terminated.

    Args:
        max_steps: the length of an episode.
        truncated_key: the name of the flag.
        step_count_key: the name of the counter, which is added.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(max_steps=9), TimeLimit(2))
    >>> out = env.rollout(5)["next"]
    >>> out["truncated"].squeeze(-1), out["terminated"].any()
    (tensor([False,  True]), tensor(False))
    """

    def __init__(self, max_steps: int, truncated_key: str = "truncated", step_count_key: str = "step_count") -> None:
        super().__init__(whole("TimeLimit", "max_steps", max_steps, 1), truncated_key, step_count_key)

    def __repr__(self) -> str:
        return f"TimeLimit({self.max_steps})"


class TrajCounter(Transform):
    """Numbers the episodes, over all rows, in the order in which they begin.

    Args:
        out_key: where the number goes: beside the flags of the root, or of the group that it is nested under.
        repeats: TorchRL's argument; how often a collector gives an episode.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(2, batch_size=[2]), TrajCounter())
    >>> env.rollout(4, break_when_any_done=False)["traj_count"].squeeze(-1)
    tensor([[0, 0, 2, 2],
            [1, 1, 1, 3]])
    """

    only_in_env = "stored data keep their numbers"

    def __init__(self, out_key: NestedKey = "traj_count", *, repeats: int | None = None) -> None:
        super().__init__(out_keys=[out_key])
        self.repeats = repeats or 0
        self.traj_count: Tensor
        self.register_buffer("traj_count", torch.zeros((), dtype=torch.int64))

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the numbers."""
        key = (self.out_keys or [])[0]
        self.done_key = beside(key, "done")
        if self.done_key not in specs["done"]:
            raise self.no_entry(self.done_key, specs["done"].keys(True, True), "the flags are")
        flag = specs["done"][self.done_key]
        for where in {key, self.memory_of(key)}:
            specs["observation"][where] = Bounded(0, MOST, flag.shape, device=flag.device, dtype=torch.int64)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        self._pass(fetch(tensordict, self.memory_of((self.out_keys or [])[0])))
        mask = self._numbered(tensordict, tensordict_reset)
        self.traj_count += mask.sum()
        return tensordict_reset

    def _restored(self, tensordict_reset: TensorDictBase) -> TensorDictBase:
        """The next numbers, which count once they are stepped: those that were saved are put in their place."""
        self._numbered(tensordict_reset.empty(), tensordict_reset)
        return tensordict_reset

    def _pass(self, numbers: Tensor | None) -> None:
        """Moves the counter past numbers that are in use."""
        if numbers is not None and numbers.numel():
            torch.maximum(self.traj_count, numbers.max() + 1, out=self.traj_count)

    def _numbered(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> Tensor:
        """Writes the next numbers where a reset is asked for, in place; returns where, in the shape of the flags."""
        key, done = (self.out_keys or [])[0], fetch(tensordict_reset, self.done_key)
        mask = fetch(tensordict, beside(key, RESET))
        if mask is None and level(key):
            root = fetch(tensordict, RESET)
            mask = None if root is None else root.reshape(*root.shape, *[1] * (done.ndim - root.ndim))
        mask = torch.ones_like(done) if mask is None else mask.expand(done.shape)
        number = self.traj_count + mask.flatten().cumsum(0).reshape(mask.shape) - 1
        for where in {key, self.memory_of(key)}:
            write(tensordict_reset, where, torch.where(mask, number, 0))
        return mask

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        key = (self.out_keys or [])[0]
        before = fetch(tensordict, self.memory_of(key))
        if before is None:
            raise KeyMissing(f"TrajCounter: no entry {key!r} in the data; {START}")
        self._pass(before)
        for where in {key, self.memory_of(key)}:
            write(next_tensordict, where, before.clone())
        return next_tensordict

    def __repr__(self) -> str:
        return f"TrajCounter({(self.out_keys or [''])[0]!r})"


class RandomTruncationTransform(Truncation, Drawing):
    """Cuts episodes off at random, so that rows that began together do not end together.

    The first episode of every row gets a limit from 1 to ``max_horizon``; later ones ``max_horizon``, or with the
    probability ``prob`` a limit from ``min_horizon`` on. Needs a :class:`StepCounter` before it. As with its limit, the
    levels below are truncated too (TorchRL: the root only), except agents that had terminated before.

    Args:
        min_horizon: the least limit after the first episode.
        max_horizon: the greatest limit, up to 2**31.
        prob: of a limit that is drawn.
        first_episode_prob: the same for the second episode of a row; ``prob`` when left out.
        step_count_key: the name of the counter.
        truncated_key: the name of the flag.
        done_key: the name of its union with the others.

    >>> chain = Compose(StepCounter(), RandomTruncationTransform(1, 4))
    >>> env = TransformedEnv(marlenv.testing.CountingEnv(9, batch_size=[50]), chain)
    >>> int(env.rollout(8, break_when_any_done=False)["next", "step_count"].max())
    4
    """

    only_in_env = "it ends episodes"

    def __init__(
        self,
        min_horizon: int,
        max_horizon: int,
        prob: float = 0.0,
        first_episode_prob: float | None = None,
        *,
        step_count_key: str = "step_count",
        truncated_key: str = "truncated",
        done_key: str = "done",
    ) -> None:
        super().__init__()
        self.min_horizon = whole("RandomTruncationTransform", "min_horizon", min_horizon, 1)
        self.max_horizon = whole("RandomTruncationTransform", "max_horizon", max_horizon, min_horizon, WORDS)
        self.prob = prob
        self.first_episode_prob = prob if first_episode_prob is None else first_episode_prob
        for name in ("prob", "first_episode_prob"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise SpecError(f"RandomTruncationTransform: {name} must be from 0 to 1, got {getattr(self, name)}")
        self.step_count_key, self.truncated_key, self.done_key = step_count_key, truncated_key, done_key

    def _kept(self, key: NestedKey, name: str) -> NestedKey:
        """Where a number that is remembered stands beside a done flag."""
        return self.own(beside(key, name))

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the flags, and the limits and numbers of the episodes, which are remembered."""
        for key in self.levels:
            count = beside(key, self.step_count_key)
            if count not in specs["observation"]:
                raise SpecError(f"RandomTruncationTransform: no entry {count!r}; put a StepCounter() before it")
            flag = specs["done"][key]
            for name in ("_horizon", "_episode"):
                specs["observation"][self._kept(key, name)] = Bounded(
                    0, MOST, flag.shape, device=flag.device, dtype=torch.int64
                )
        super().respec(specs)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        self.fit(tensordict_reset.batch_size)
        for key in self.levels:
            done = fetch(tensordict_reset, key)
            before, mask = fetch(tensordict, self._kept(key, "_episode")), fetch(tensordict, beside(key, RESET))
            number = torch.zeros_like(done, dtype=torch.int64) if before is None else before + 1
            where = torch.ones_like(done) if mask is None else mask.expand(done.shape)
            write(tensordict_reset, self._kept(key, "_episode"), number)
            write(tensordict_reset, self._kept(key, "_horizon"), self._limits(number, where))
        return super()._reset(tensordict, tensordict_reset)

    def _limits(self, number: Tensor, where: Tensor) -> Tensor:
        """How long the episodes are; streams of rows that go on do not move."""
        ndim = len(self.stream.rows)
        shape, asked = number.shape[ndim:], rows(where, ndim)
        early = self.draw(asked, lambda stream: stream.randint(1, self.max_horizon + 1, shape))
        late = self.draw(asked, lambda stream: stream.randint(self.min_horizon, self.max_horizon + 1, shape))
        chance = torch.where(number == 1, self.first_episode_prob, self.prob)
        drawn = self.draw(asked, lambda stream: stream.uniform(shape=shape)) < chance
        return torch.where(number == 0, early, torch.where(drawn, late, self.max_horizon))

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key in self.levels:
            limit = fetch(tensordict, self._kept(key, "_horizon"))
            if limit is None:
                raise KeyMissing(
                    f"RandomTruncationTransform: no entry {self._kept(key, '_horizon')!r} in the data; {START}"
                )
            for name in ("_horizon", "_episode"):
                kept = self._kept(key, name)
                write(next_tensordict, kept, fetch(tensordict, kept).clone())
            over = fetch(next_tensordict, beside(key, self.step_count_key)) >= limit
            for keys in self.flags[key]:
                self._cut(keys, over, tensordict, next_tensordict)
        return next_tensordict

    def __repr__(self) -> str:
        return f"RandomTruncationTransform({self.min_horizon}, {self.max_horizon}, prob={self.prob})"


class EndOfLifeTransform(Transform):
    """Marks the loss of a life in Atari games, which ends no episode but may end a trajectory for a loss.

    Args:
        eol_key: where the mark goes; bool, the shape of the done flag.
        lives_key: where the number of lives goes; int64 ``[*B]``.
        done_key: the flag of the env.
        eol_attribute: where the env says how many lives are left: attributes with dots between, called at the end.

    >>> class Game(marlenv.testing.CountingEnv):
    ...     def lives(self):
    ...         return 3 - int(self.count) // 2
    >>> TransformedEnv(Game(), EndOfLifeTransform(eol_attribute="lives")).rollout(4)["next", "end-of-life"].squeeze(-1)
    tensor([False,  True, False,  True])
    """

    only_in_env = "it asks the game for its lives"

    def __init__(
        self,
        eol_key: NestedKey = "end-of-life",
        lives_key: NestedKey = "lives",
        done_key: NestedKey = "done",
        eol_attribute: str = "unwrapped.ale.lives",
    ) -> None:
        super().__init__()
        self.eol_key, self.lives_key, self.done_key, self.eol_attribute = eol_key, lives_key, done_key, eol_attribute

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the marks and the numbers of lives."""
        if self.done_key not in specs["done"]:
            raise self.no_entry(self.done_key, specs["done"].keys(True, True), "the flags are")
        specs["observation"][self.eol_key] = specs["done"][self.done_key].clone()
        shape = specs["observation"].shape
        for where in {self.lives_key, self.memory_of(self.lives_key)}:
            specs["observation"][where] = Unbounded(shape, device=specs["done"].device, dtype=torch.int64)

    def memories(self) -> list[NestedKey]:
        """The number of lives."""
        return [self.lives_key]

    def _lives(self, batch_size: torch.Size) -> Tensor:
        def found(node: Any, name: str) -> Any:
            return [getattr(one, name) for one in node] if isinstance(node, list) else getattr(node, name)

        try:
            lives = reduce(found, self.eol_attribute.split("."), self.container.base_env)
        except AttributeError as error:
            raise SpecError(
                f"EndOfLifeTransform: {error} on the way to {self.eol_attribute!r}; say by eol_attribute= where the "
                f"env has its number of lives"
            ) from error
        if isinstance(lives, list):
            lives = [one() if callable(one) else one for one in lives]
        lives = torch.as_tensor(lives() if callable(lives) else lives, dtype=torch.int64, device=self.container.device)
        return lives.expand(batch_size).clone()

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        write(tensordict_reset, self.eol_key, torch.zeros_like(fetch(tensordict_reset, self.done_key)))
        return self._keep(tensordict_reset, self._lives(tensordict_reset.batch_size))

    def _keep(self, td: TensorDictBase, lives: Tensor) -> TensorDictBase:
        """Writes the number of lives, where it is seen and where it is remembered, in place."""
        for where in {self.lives_key, self.memory_of(self.lives_key)}:
            write(td, where, lives.clone())
        return td

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        before = fetch(tensordict, self.memory_of(self.lives_key))
        if before is None:
            raise KeyMissing(f"EndOfLifeTransform: no entry {self.lives_key!r} in the data; {START}")
        lives, done = self._lives(next_tensordict.batch_size), fetch(next_tensordict, self.done_key)
        lost = (before > lives).reshape(*before.shape, *[1] * (done.ndim - before.ndim))
        write(next_tensordict, self.eol_key, lost | done)
        return self._keep(next_tensordict, lives)

    def register_keys(self, loss_or_advantage: Any) -> None:
        """Tells a loss of TorchRL that a lost life ends a trajectory."""
        loss_or_advantage.set_keys(done=self.eol_key, terminated=self.eol_key)


class RecordEpisodeStats(PerLevel):
    """Records finished episodes: for every reward what it added up to, how long the episode was and how it ended.

    Beside every reward it writes ``episode``: ``return``, ``length`` and ``outcome`` (1 terminated, 2 truncated, 3
    both); zeros while an episode goes on. What is added up so far is remembered under ``_return`` and ``_length``. An
    agent's episode ends with its own flags, or with those of a level above it; one that was not ``alive`` has none.

    Args:
        name: of the group of entries.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(2), RecordEpisodeStats())
    >>> out = env.rollout(4, break_when_any_done=False)["next", "episode"]
    >>> out["return"].squeeze(-1), out["length"].squeeze(-1)
    (tensor([0., 2., 0., 2.]), tensor([0, 2, 0, 2]))
    """

    def __init__(self, name: str = "episode") -> None:
        super().__init__()
        self.name = name

    def join(self, env: EnvBase) -> None:
        """Finds, for every reward, the flags that govern it: those at its level and above, the nearest first."""
        super().join(env)
        done = [nested((*one.path, "done")) for one in env.plan.done.levels]
        self.of: dict[NestedKey, list[NestedKey]] = {}
        for key in env.reward_keys:
            above = [flag for flag in done if level(key)[: len(level(flag))] == level(flag)]
            if not above:
                raise SpecError(f"RecordEpisodeStats: no done flags govern the reward {key!r}")
            self.of[key] = sorted(above, key=lambda flag: -len(level(flag)))

    def _under(self, key: NestedKey, name: str) -> NestedKey:
        return nested((*level(key), self.name, name))

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the records, and what is added up so far."""
        self.shapes = {}
        for key in self.of:
            reward = specs["reward"][key]
            kept: Any = {"shape": reward.shape, "device": reward.device, "dtype": torch.int64}
            entries = {"return": reward.clone(), "length": Bounded(0, MOST, **kept), "outcome": Bounded(0, 3, **kept)}
            self.shapes[key] = {name: spec.clone() for name, spec in entries.items()}
            entries |= {"_return": reward.clone(), "_length": Bounded(0, MOST, **kept)}
            for name, spec in entries.items():
                made = Unbounded(spec.shape, device=spec.device, dtype=spec.dtype) if "return" in name else spec
                specs["observation"][self._under(key, name)] = made

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        lead = tensordict_reset.batch_size[: tensordict_reset.ndim - len(self.container.batch_size)]
        for key, entries in self.shapes.items():
            for name in (*entries, "_return", "_length"):
                tensordict_reset.set(self._under(key, name), entries[name.lstrip("_")].zero(lead))
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key, flags in self.of.items():
            before = fetch(tensordict, self._under(key, "_return"))
            if before is None:
                raise KeyMissing(f"RecordEpisodeStats: no entry {self._under(key, '_return')!r} in the data; {START}")
            active = ~_over(tensordict, flags, before)  # agents whose episode was over before go on no more
            total = before + fetch(next_tensordict, key)
            length = fetch(tensordict, self._under(key, "_length")) + (active & self._alive(tensordict, key, before))
            ended = _over(next_tensordict, flags, before) & active & (length > 0)
            outcome = _outcome(next_tensordict, flags, before)
            found = {"return": total * ended, "length": length * ended, "outcome": outcome * ended}
            for name, value in {**found, "_return": total, "_length": length}.items():
                next_tensordict.set(self._under(key, name), value)
        return next_tensordict

    def _alive(self, tensordict: TensorDictBase, key: NestedKey, value: Tensor) -> Tensor:
        """Which agents exist, where the data say so; of the shape of a reward."""
        alive = fetch(tensordict, beside(key, "alive"))
        fits = alive is not None and alive.dtype == torch.bool and alive.shape == value.shape[:-1]
        return alive.unsqueeze(-1).expand_as(value) if fits else torch.ones_like(value, dtype=torch.bool)

    def __repr__(self) -> str:
        return f"RecordEpisodeStats({self.name!r})"


def _over(td: TensorDictBase, flags: list[NestedKey], value: Tensor) -> Tensor:
    """Where an episode is over, by any of some done flags; of the shape of a reward."""
    found = [_fit(flag, value) for key in flags if (flag := fetch(td, key)) is not None]
    return reduce(torch.logical_or, found, torch.zeros_like(value, dtype=torch.bool))


def _outcome(td: TensorDictBase, flags: list[NestedKey], value: Tensor) -> Tensor:
    """How it ended: 1 terminated, 2 truncated, 3 both; by the first of the done flags that is set."""
    how = torch.zeros_like(value, dtype=torch.int64)
    for key in reversed(flags):
        both = [fetch(td, beside(key, name)) for name in ("terminated", "truncated")]
        here = sum((i + 1) * _fit(flag, value).long() for i, flag in enumerate(both) if flag is not None)
        how = torch.where(_fit(fetch(td, key), value), here, how)
    return how


def _fit(flag: Tensor, value: Tensor) -> Tensor:
    """A flag of a level above with the dimensions of a value below it."""
    while flag.ndim < value.ndim:
        flag = flag.unsqueeze(-2)
    return flag.expand(value.shape)
