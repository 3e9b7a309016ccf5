"""Clauses about randomness and independence: what a seed decides, and what neither reads nor disturbs anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensordict import TensorDictBase

from marlenv.envs import EnvBase
from marlenv.testing.checks import PLAYED, check, require
from marlenv.testing.trace import MADE, SEEDED, TraceStep, follow, repeat

if TYPE_CHECKING:
    from marlenv.testing.case import Case

GLOBAL = "global_generators_stay_where_they_are"
MAKING = "making_and_seeding_move_no_global_generator"
EQUAL = "equal_seeds_give_equal_episodes"


@check(
    "give the env a generator of its own, marlenv.RowRNG(seed, batch_size); never call torch.manual_seed, "
    "numpy.random.seed "
    "or random.seed, which are everybody's, and draw nothing from them"
)
def making_and_seeding_move_no_global_generator(case: Case) -> None:
    """Making an env and seeding it leave the global generators where they are."""
    _require_still(case, made=True)


@check("draw from the env's own generator (marlenv.RowRNG); never from torch.rand, numpy.random or random")
def global_generators_stay_where_they_are(case: Case) -> None:
    """Resets, steps and random actions move no global generator."""
    _require_still(case, made=False)


def _require_still(case: Case, *, made: bool) -> None:
    for trace in (case.trace, case.several):
        for where, name in () if trace is None else trace.moved:
            require((where in (MADE, SEEDED)) != made, f"the global generator of {name} was moved {where}")


@check(
    "seed every source of randomness in _set_seed, and keep no state in classes or modules; if the simulator cannot be "
    "seeded, raise Unsupported in _set_seed",
    (PLAYED, GLOBAL),
)
def equal_seeds_give_equal_episodes(case: Case) -> None:
    """Two envs with the same seed, told the same actions, answer the same."""
    trace = case.twinned
    follow(trace, case.make(), "with the same seed, another env differs")


@check(
    "draw from the env's own generator; do not look at the state or the seed of a global one", (PLAYED, EQUAL, MAKING)
)
def global_generators_are_not_read(case: Case) -> None:
    """Two envs with the same seed answer the same wherever the global generators stand."""
    trace = case.twinned
    says = "with other global generators, the same seed differs"
    follow(trace, case.make(generators_at=1), says, generators_at=1)


@check("keep state per env object: no class attributes, no module globals", (PLAYED, EQUAL))
def envs_do_not_disturb_each_other(case: Case) -> None:
    """Making, seeding, resetting and stepping another env changes nothing for this one."""
    trace = case.twinned
    others: list[tuple[EnvBase, TensorDictBase]] = []

    def beside(i: int, env: EnvBase, td: TensorDictBase, moment: TraceStep) -> TensorDictBase:
        if i in (0, len(trace.moments) // 2):
            other = case.open(number=99)
            others.append((other, other.reset()))
        if i % 2 == 0:
            other, data = others[-1]
            others[-1] = other, other.step_and_maybe_reset(other.rand_action(data))[1]
        return repeat(i, env, td, moment)

    follow(trace, case.make(), "beside another env, the same seed differs", act=beside)
