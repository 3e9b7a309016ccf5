"""An env played with random actions, recorded step by step; and twins that play what was recorded."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.tensordicts import choose, fetch
from marlenv.testing import generators
from marlenv.testing.checks import require
from marlenv.testing.comparison import differences

SEED = 7
MADE, SEEDED = "while the env was made", "in set_seed"
T = TypeVar("T")


@dataclass
class TraceStep:
    """One step of a trace."""

    given: TensorDictBase
    """What the step was given, as it was before."""
    actions: TensorDictBase
    data: TensorDictBase
    """What it returned, the very object."""
    data_then: TensorDictBase
    """The same as it was then."""
    following: TensorDictBase
    following_then: TensorDictBase
    illegal: str | None
    """What is wrong with the random action."""


@dataclass
class Trace:
    """A random rollout that goes on after ends, as far as it went."""

    env: EnvBase | None = None
    start: TensorDictBase | None = None
    """The data of the reset, as they were."""
    moments: list[TraceStep] = field(default_factory=list)
    moved: list[tuple[str, str]] = field(default_factory=list)
    """Where a global generator moved, and which."""
    unseeded: str | None = None
    """What the env says that cannot be seeded."""
    error: Exception | None = None
    """What ended it before its time."""
    where: str = ""
    """What was being done last."""

    def during(self, where: str, run: Callable[[], T]) -> T:
        """Runs a part of it, with an eye on the global generators."""
        self.where, before = where, generators.states()
        try:
            return run()
        finally:
            self.moved += [(where, name) for name in generators.moved(before, generators.states())]

    @property
    def played(self) -> EnvBase:
        """The env, which was made."""
        assert self.env is not None
        return self.env

    @property
    def first(self) -> TensorDictBase:
        """The data of the reset, which was done."""
        assert self.start is not None
        return self.start

    @functools.cached_property
    def edited(self) -> str | None:
        """Which step changed what it was given."""
        for i, moment in enumerate(self.moments):
            if odd := differences(moment.data_then.exclude("next"), moment.given):
                return f"step {i} changed its input in {odd}"
        return None

    def before(self, i: int) -> TensorDictBase:
        """The data that step ``i`` started from."""
        return self.first if i == 0 else self.moments[i - 1].following_then


def seed(env: EnvBase, number: int = SEED) -> str | None:
    """Seeds an env; returns what it says when it cannot be."""
    try:
        env.set_seed(number)
    except NotImplementedError as error:
        return f"the env says that it cannot be seeded: {error}"
    return None


def record(make: Callable[[], EnvBase], steps: int) -> Trace:
    """Makes an env, seeds it and plays it; an error ends the trace and is kept in it."""
    trace = Trace()
    generators.place(0)  # and not in make, which is watched
    try:
        trace.env = env = trace.during(MADE, make)
        generators.place(0)
        trace.unseeded = trace.during(SEEDED, lambda: seed(env))
        td = trace.during("in the reset", env.reset)
        trace.start = td.clone()
        for i in range(steps):
            trace.moments.append(_moment(trace, env, td, i))
            td = trace.moments[-1].following
    except Exception as error:  # an env may fail in any way; the trace says how
        trace.error = error
    return trace


def _moment(trace: Trace, env: EnvBase, td: TensorDictBase, i: int) -> TraceStep:
    acted = trace.during(f"in the random action of step {i}", lambda: env.rand_action(td))
    given = acted.clone()
    illegal = why_illegal(env, acted)
    data, following = trace.during(f"in step {i}", lambda: env.step_and_maybe_reset(acted))
    actions = given.select(*env.action_keys)
    return TraceStep(given, actions, data, data.clone(), following, following.clone(), illegal)


def why_illegal(env: EnvBase, td: TensorDictBase) -> str | None:
    """What is wrong with the actions in ``td``, by the specs and the masks that the env emitted."""
    for entry in env.plan.actions:
        value: Any = fetch(td, entry.key)
        spec: Any = entry.spec
        if isinstance(value, list):  # agents of unequal sizes
            legal = all(one.is_in(x) for one, x in zip(spec.parts, value, strict=True))
        else:
            legal = spec.is_in(value)
        if not legal:
            return f"{entry.key!r} is not in its spec {spec!r}"
    for data, entry in env.plan.acts(td):
        value = fetch(data, entry.path)
        if isinstance(value, list) or entry.mask is None or value.dtype.is_floating_point:
            continue
        mask: Any = fetch(data, entry.mask)
        if mask is not None and mask.shape == (*value.shape, mask.shape[-1]):
            legal = mask.gather(-1, value.long().unsqueeze(-1)).squeeze(-1)
            if not bool((legal | ~mask.any(-1)).all()):
                return f"{entry.key!r} is masked out"
    return None


# --- twins -----------------------------------------------------------------------------------------

Act = Callable[[int, EnvBase, TensorDictBase, TraceStep], TensorDictBase]
Step = Callable[[EnvBase, TensorDictBase], tuple[TensorDictBase, TensorDictBase]]


def repeat(_: int, env: EnvBase, td: TensorDictBase, moment: TraceStep) -> TensorDictBase:
    """The action that was recorded."""
    return td.update(moment.actions.clone())


def together(env: EnvBase, td: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
    """A step and the reset of what is done, in one."""
    return env.step_and_maybe_reset(td)


def apart(env: EnvBase, td: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
    """A step, and then the reset of what is done."""
    data = env.step(td)
    return data, env.maybe_reset(env.step_mdp(data))


def only(keep: Tensor) -> Act:
    """The recorded actions in the rows ``keep`` (bool ``[*B]``), other legal ones in the rest."""

    def act(i: int, env: EnvBase, td: TensorDictBase, moment: TraceStep) -> TensorDictBase:
        if i == 0:
            env.rand_action(td.clone())  # or the twin would draw what the trace drew
        drawn = env.rand_action(td)
        return drawn.update(choose(keep, moment.actions.clone(), drawn.select(*env.action_keys), keep.ndim))

    return act


def follow(
    trace: Trace,
    env: EnvBase,
    says: str,
    *,
    act: Act = repeat,
    step: Step = together,
    rows: Sequence[int] | None = None,
    watch: Callable[[TraceStep, TensorDictBase], None] | None = None,
    generators_at: int = 0,
) -> None:
    """Plays with ``env`` what was recorded, from a seed and a reset on.

    Args:
        trace: what the twin must do too.
        env: the twin.
        says: how a break is told: ``"says in ['reward'] of step 3"``.
        act: what the twin does.
        step: how it steps.
        rows: the rows that are compared; all when left out.
        watch: is shown every step, before what follows it is compared.
        generators_at: where the global generators are put before the seed.

    Raises:
        ContractBroken: the twin did something else.
    """
    generators.place(generators_at)
    seed(env)
    td = env.reset()
    compare(trace.first, td, rows, says, "the reset")
    for i, moment in enumerate(trace.moments):
        data, td = step(env, act(i, env, td, moment))
        compare(moment.data_then["next"], data["next"], rows, says, f"step {i}")
        if watch is not None:
            watch(moment, data)
        compare(moment.following_then, td, rows, says, f"what follows step {i}")


def compare(a: TensorDictBase, b: TensorDictBase, rows: Sequence[int] | None, says: str, where: str) -> None:
    """Raises unless two tensordicts, or those rows of them, are equal."""
    if rows is None:
        require(not (odd := differences(a, b)), f"{says} in {odd} of {where}")
        return
    for row in rows:
        odd = differences(row_of(a, row), row_of(b, row))
        require(not odd, f"{says} in {odd} of row {row} in {where}")


def row_of(td: TensorDictBase, row: int) -> TensorDictBase:
    """One row of data whose batch dimensions are counted as one."""
    return td[tuple(int(i) for i in np.unravel_index(row, td.batch_size))]
