"""Some children of a pool as a pool: what ``pool[1:3]`` gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.errors import BadIndex
from marlenv.vector.base import BatchedEnv, Options
from marlenv.vector.parallel import ParallelEnv
from marlenv.vector.protocol import Description
from marlenv.vector.serial import SerialEnv
from marlenv.vector.state_dicts import followed


def numbers(who: str, index: Any, count: int) -> list[int]:
    """The children that an index names.

    Args:
        who: the pool, for errors.
        index: a number, a slice, numbers, or a mask bool ``[count]``.
        count: how many children there are.

    Raises:
        BadIndex: it names none, one twice, or one that there is not.

    >>> numbers("SerialEnv", slice(1, None), 3), numbers("SerialEnv", -1, 3)
    ([1, 2], [2])
    """
    try:
        place = index[0] if isinstance(index, tuple) and len(index) == 1 else index
        place = list(place) if isinstance(place, range | tuple) else place
        found: list[int] = torch.arange(count)[place].reshape(-1).tolist()
    except (IndexError, TypeError, ValueError, RuntimeError) as error:
        raise BadIndex(
            f"{who}[{index!r}]: there are {count} envs; expected a number from {-count} to {count - 1}, a slice, or "
            f"several numbers"
        ) from error
    if not found or len(set(found)) < len(found):
        raise BadIndex(f"{who}[{index!r}]: expected one env or more, each once, got {found}")
    return found


def _options(pool: BatchedEnv, rows: Sequence[int]) -> dict[str, Any]:
    """What a pool of some of the children of ``pool`` is made with."""
    return {
        "num_workers": len(rows),
        "create_env_fn": [pool.create_env_fn[i] for i in rows],
        "create_env_kwargs": [pool.create_env_kwargs[i] for i in rows],
        "device": pool._given_device,
        "share_individual_td": pool._share_given,
        "non_blocking": pool.non_blocking,
    }


class Shared:
    """What the views of pools share with theirs: how often children failed, which were not reset since, seeds."""

    _pool: Any
    _rows: list[int]
    _seeds: list[int | None]

    def _tell_seeds(self) -> None:
        """Lets the pool know the seeds of its children."""
        for i, seed in zip(self._rows, self._seeds, strict=True):
            self._pool._seeds[i] = seed

    def _load(self, states: list[Any], strict: bool, assign: bool) -> None:
        with followed(self._pool, dict(zip(self._rows, states, strict=True))):
            super()._load(states, strict, assign)  # type: ignore[misc]

    @property
    def failures(self) -> Tensor:
        """How often each child failed and was started again; int64 ``[num_workers]``."""
        return self._pool.failures[self._rows]

    @failures.setter
    def failures(self, counts: Tensor) -> None:
        """The pool counts."""

    @property
    def _unreset(self) -> set[int]:
        if self._pool.is_closed:
            self._pool.start()
        return {n for n, i in enumerate(self._rows) if i in self._pool._unreset}

    @_unreset.setter
    def _unreset(self, left: set[int]) -> None:
        mine = {i for n, i in enumerate(self._rows) if n not in left}
        self._pool._unreset = self._pool._unreset - mine


class Places:
    """Tells a pool which of its children is at work for a view.

    Args:
        pool: the pool.
        rows: the numbers of its children.
    """

    def __init__(self, pool: SerialEnv, rows: Sequence[int]) -> None:
        self.pool, self.rows = pool, rows

    def __setitem__(self, _: int, i: int) -> None:
        self.pool._at[0] = self.rows[i]


class SerialView(Shared, SerialEnv):
    """Some children of a :class:`~marlenv.SerialEnv`: the same objects, so that what is done here is done there.

    Args:
        pool: the pool.
        rows: the numbers of its children.
    """

    def __init__(self, pool: SerialEnv, rows: Sequence[int]) -> None:
        self.__dict__.update(_pool=pool, _rows=list(rows), _assigned=[pool._assigned[i] for i in rows])
        super().__init__(**_options(pool, rows), on_failure=pool.on_failure)
        self.is_closed = False

    @property
    def children_envs(self) -> list[EnvBase]:  # type: ignore[override]
        """The children, in order."""
        if self._pool.is_closed:
            self._pool.start()
        return [self._pool.children_envs[i] for i in self._rows]

    def _describe(self) -> None:
        self.__dict__["children_envs"] = ()  # the mark that there are some
        self._adopt(self.children_envs)
        self._made, self._seeds, self._fits = True, [None] * self.num_workers, {}
        self._at = Places(self._pool, self._rows)

    def _start(self) -> None:
        """Nothing: the pool starts its children."""

    def _stop(self) -> None:
        """Nothing: the children are the pool's."""

    def _number(self, i: int) -> int:
        return self._pool._number(self._rows[i])

    def _restarted(self, i: int, error: BaseException, options: Options) -> TensorDictBase:
        return self._pool._restarted(self._rows[i], error, options)

    def _set_seed(self, seed: int | None) -> None:
        super()._set_seed(seed)
        self._tell_seeds()


@dataclass
class Part:
    """Neighbouring rows of a view that one process has.

    Args:
        number: of the part.
        worker: the number of the process.
        first: the first row in the view.
        rows: the numbers of the children within the process.
    """

    number: int
    worker: int
    first: int
    rows: list[int]

    @property
    def count(self) -> int:
        """How many rows."""
        return len(self.rows)


class ParallelView(Shared, ParallelEnv):
    """Some children of a :class:`~marlenv.ParallelEnv`, in its processes; data are sent piece by piece.

    Args:
        pool: the pool.
        rows: the numbers of its children.
    """

    def __init__(self, pool: ParallelEnv, rows: Sequence[int]) -> None:
        self.__dict__.update(_pool=pool, _rows=list(rows), _assigned=[pool._assigned[i] for i in rows])
        super().__init__(**_options(pool, rows), timeout=pool.timeout)
        self.is_closed = False

    def _describe(self) -> None:
        if self._pool.is_closed:
            self._pool.start()
        self._known, self._seeds = {}, [None] * self.num_workers
        owners = [next(w for w in self._pool._workers if w.first <= i < w.first + w.count) for i in self._rows]
        first, self._workers = 0, []
        for number, group in groupby(zip(self._rows, owners, strict=True), lambda pair: pair[1].number):
            local = [i - owner.first for i, owner in group]
            self._workers.append(Part(len(self._workers), number, first, local))
            first += len(local)
        children = [one for part in self._ask("describe") for one in part]
        self._adopt(children)
        self._all_hold_rows = all(child.holds_rows for child in children)

    @property
    def _cut(self) -> set[int]:
        return {n for n, i in enumerate(self._rows) if i in self._pool._cut}

    @_cut.setter
    def _cut(self, left: set[int]) -> None:
        self._pool._cut = self._pool._cut - {i for n, i in enumerate(self._rows) if n not in left}

    def _start(self) -> None:
        """Nothing: the pool starts its processes."""

    def _stop(self) -> None:
        """Nothing: the processes are the pool's."""

    def _abort(self) -> None:
        self._pool._abort()

    def _take_specs(self, children: Sequence[Description]) -> None:
        self._adopt(children)

    def _answers(self, name: str, each: Sequence[tuple[Any, ...]]) -> dict[int, Any]:
        return self._told_parts(name, list(zip(self._workers, each, strict=True)))

    def _told_parts(self, name: str, left: list[tuple[Part, tuple[Any, ...]]]) -> dict[int, Any]:
        """What parts answer, by their numbers; a process is asked about one part at a time."""
        if self._pool.is_closed:
            self._pool.start()
        self._pool._refuse_fork()
        answers: dict[int, Any] = {}
        questions = {
            part.number: self._pool._workers[part.worker].pack(type(self).__name__, "among", (part.rows, name, args))
            for part, args in left
        }
        try:
            while left:
                now = {part.worker: (part, args) for part, args in reversed(left)}
                workers = [self._pool._workers[number] for number in now]
                for worker, (part, _) in zip(workers, now.values(), strict=True):
                    worker.ask(questions[part.number])
                found = self._pool._watch.wait(workers, name, self.timeout)
                self._pool._settle(name, {number: answer for number, answer in found.items() if number not in now})
                answers |= {now[number][0].number: answer for number, answer in found.items() if number in now}
                left = [(part, args) for part, args in left if now[part.worker][0] is not part]
        except BaseException:
            self._abort()
            raise
        return answers

    def _set_seed(self, seed: int | None) -> None:
        self._seeds = []
        for part in self._workers:
            answers = self._told_parts("seed", [(part, (seed, self._static_seed))])
            self._refuse_failures("set_seed", answers)
            seed, own = answers[part.number]
            self._seeds += own
        self._last_seed = seed
        self._tell_seeds()
