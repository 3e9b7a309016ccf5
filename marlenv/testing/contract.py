"""The contract of an env, as checks that run on any env: ours, a wrapped one, or a user's own.

>>> from marlenv.testing import CountingEnv, run_contract
>>> [result.name for result in run_contract(CountingEnv) if result.verdict == "broken"]
[]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Literal, NamedTuple

from marlenv.envs import EnvBase
from marlenv.errors import ContractBroken, SpecError, nearest
from marlenv.testing import blame, checks_flags, checks_flow, checks_memory, checks_random, checks_rows, checks_specs
from marlenv.testing.case import STEPS, Case
from marlenv.testing.checks import Check, NotJudged, NotReached, collect
from marlenv.testing.generators import kept

Verdict = Literal["held", "broken", "skipped", "not reached"]

CHECKS: dict[str, Check] = collect(checks_specs, checks_flags, checks_memory, checks_random, checks_rows, checks_flow)
"""Every check by name, in the order in which they are best read."""


class Result(NamedTuple):
    """What came of one check."""

    name: str
    verdict: Verdict
    says: str
    """What broke, where; or why it was not judged."""
    mend: str
    """What to do about it."""


class Contract:
    """The whole contract on one env: every clause is judged once, on the same recorded steps.

    Args:
        make_env: makes a fresh env.
        exempt: name of a clause -> the reason why this env cannot keep it.
        steps: how many steps the clauses look at.
    """

    def __init__(
        self, make_env: Callable[..., EnvBase], exempt: Mapping[str, str] | None = None, steps: int = STEPS
    ) -> None:
        self.case = Case(make_env, steps)
        self.exempt = dict(exempt or {})
        if unknown := sorted(self.exempt.keys() - CHECKS.keys()):
            raise SpecError(
                f"exempt: no clause of the contract is called {unknown[0]!r}; {nearest(unknown[0], CHECKS)}"
            )
        self.results: dict[str, Result] = {}
        self.errors: dict[object, str] = {}
        self.judging: set[str] = set()
        """The clauses that are being judged."""

    def result(self, name: str) -> Result:
        """What comes of one clause, and of those that it needs."""
        if name not in self.results:
            self.judging.add(name)
            try:
                with kept():
                    self.results[name] = self._judge(CHECKS[name])
            finally:
                self.judging.remove(name)
        return self.results[name]

    def _judge(self, check: Check) -> Result:
        if check.name in self.exempt:
            return Result(check.name, "skipped", self.exempt[check.name], "")
        for name in check.needs:
            if name not in self.judging and self.result(name).verdict in ("broken", "not reached"):
                return self._not_reached(check, name)
        try:
            check.run(self.case)
        except NotJudged as reason:
            return Result(check.name, "skipped", str(reason), "")
        except NotReached as reason:
            return self._not_reached(check, str(reason))
        except ContractBroken as error:
            return Result(check.name, "broken", blame.text_of(error), check.mend)
        except Exception as error:  # an env may fail in any way; the report says how, and goes on
            return self._failed(check, error)
        return Result(check.name, "held", "", "")

    def _not_reached(self, check: Check, name: str) -> Result:
        """What cannot be judged since another clause is broken, or was not reached itself; that one is judged now.

        Something broken stands behind whatever is not reached: a clause that sees an error, and leaves it to one that
        does not tell it, tells it itself.
        """
        if name in self.judging or (other := self.result(name)).verdict == "held":
            error = self.case.trace.error
            says = f"nothing of its own, and {name} tells nothing" if error is None else self._told(error)
            return Result(check.name, "broken", says, check.mend)
        if other.verdict == "skipped":
            return Result(check.name, "skipped", f"{name} is exempt: {other.says}", "")
        says = f"{name} is broken" if other.verdict == "broken" else other.says
        return Result(check.name, "not reached", says, "")

    def _failed(self, check: Check, error: Exception) -> Result:
        """An error of the env: told once, by the first clause that met it."""
        known = self.errors.setdefault(blame.signature(error), check.name)
        if known != check.name:
            return self._not_reached(check, known)
        for name in (checks_specs.MATCH, "data_live_on_the_device"):  # errors follow from those
            if name in self.results and self.results[name].verdict == "broken":
                return self._not_reached(check, name)
        return Result(check.name, "broken", self._told(error), check.mend)

    def _told(self, error: Exception) -> str:
        """An error as a report tells it: what was being done, and where."""
        trace = self.case.trace
        where = f" {trace.where}" if error is trace.error else ""
        return f"{type(error).__name__}{where}: {blame.text_of(error)} ({blame.place(error)})"


def run_check(name: str, make_env: Callable[..., EnvBase], steps: int = STEPS) -> Result:
    """Runs one check, and those that it needs."""
    return Contract(make_env, None, steps).result(name)


def run_contract(
    make_env: Callable[..., EnvBase], exempt: Mapping[str, str] | None = None, *, steps: int = STEPS
) -> Iterator[Result]:
    """Runs the whole contract, check by check.

    Args:
        make_env: makes a fresh env; called once or more per check. If it takes ``num_envs`` or ``batch_size``, as a
            class may, the clauses about rows make envs with other numbers of rows.
        exempt: name of a check -> the reason why this env cannot keep it.
        steps: how many steps all checks look at.
    """
    contract = Contract(make_env, exempt, steps)
    for name in CHECKS:
        yield contract.result(name)


class EnvContract:
    """The contract as a test class: inherit, write ``make_env``, and pytest runs every check on your env.

    >>> class TestMyEnv(EnvContract):
    ...     def make_env(self):
    ...         return marlenv.testing.CountingEnv(max_steps=3)
    >>> TestMyEnv().test_done_has_a_cause()
    """

    exempt: ClassVar[Mapping[str, str]] = {}
    """Name of a check -> the reason why this env cannot keep it."""
    steps: ClassVar[int] = STEPS
    """How many steps all checks look at."""

    def make_env(self) -> EnvBase:
        """A fresh env, always the same; with an argument ``num_envs`` or ``batch_size``, of so many rows."""
        raise NotImplementedError("EnvContract: write make_env(self), which returns a fresh env")

    def contract(self) -> Contract:
        """The contract on this env, whose steps are recorded once for all tests of the class."""
        kind = type(self)
        if "_contract" not in vars(kind):
            kind._contract = Contract(self.make_env, self.exempt, self.steps)  # type: ignore[attr-defined]
        return kind._contract  # type: ignore[attr-defined]


def _as_test(name: str) -> Callable[[EnvContract], None]:
    def test(self: EnvContract) -> None:
        result = self.contract().result(name)
        if result.verdict == "broken":
            error = ContractBroken(result.says)
            error.add_note(f"how to mend it: {result.mend}")
            raise error
        if result.verdict != "held":
            from marlenv.optional import need

            need("pytest", "EnvContract").skip(f"{result.verdict}: {result.says}")

    test.__name__ = f"test_{name}"
    test.__doc__ = CHECKS[name].says
    return test


for _name in CHECKS:
    setattr(EnvContract, f"test_{_name}", _as_test(_name))
