"""The contract of an env, as checks that run on any env: ours, a wrapped one, or a user's own.

>>> from marlenv.testing import CountingEnv, run_contract
>>> [result.name for result in run_contract(CountingEnv) if result.verdict == "broken"]
[]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Literal, NamedTuple

from marlenv.envs import EnvBase
from marlenv.errors import ContractBroken, MarlenvError, Unsupported
from marlenv.testing import checks_flags, checks_flow, checks_specs
from marlenv.testing.checks import Check, collect

MakeEnv = Callable[[], EnvBase]
Verdict = Literal["held", "broken", "skipped"]

CHECKS: dict[str, Check] = collect(checks_specs, checks_flow, checks_flags)
"""Every check by name, in the order in which they are best read."""


class Result(NamedTuple):
    """What came of one check."""

    name: str
    verdict: Verdict
    says: str
    """What broke, where; or why it was skipped."""
    mend: str
    """What to do about it."""


def run_check(name: str, make_env: MakeEnv) -> Result:
    """Runs one check on a fresh env."""
    check = CHECKS[name]
    try:
        check.run(make_env)
    except Unsupported as error:
        return Result(name, "skipped", str(error), "")
    except ContractBroken as error:
        return Result(name, "broken", _told(error), check.mend)
    except Exception as error:  # an env may fail in any way; the report says how, and goes on
        return Result(name, "broken", f"{type(error).__name__}: {_told(error)}", check.mend)
    return Result(name, "held", "", "")


def _told(error: BaseException) -> str:
    notes = getattr(error, "__notes__", [])
    return "; ".join([str(error), *notes]) if isinstance(error, MarlenvError) or notes else str(error)


def run_contract(make_env: MakeEnv, exempt: Mapping[str, str] | None = None) -> Iterator[Result]:
    """Runs the whole contract, check by check.

    Args:
        make_env: makes a fresh env; called once or more per check.
        exempt: name of a check -> the reason why this env cannot keep it.
    """
    for name in CHECKS:
        if exempt and name in exempt:
            yield Result(name, "skipped", exempt[name], "")
        else:
            yield run_check(name, make_env)


class EnvContract:
    """The contract as a test class: inherit, write ``make_env``, and pytest runs every check on your env.

    >>> class TestMyEnv(EnvContract):
    ...     def make_env(self):
    ...         return marlenv.testing.CountingEnv(max_steps=3)
    >>> TestMyEnv().test_done_has_a_cause()
    """

    exempt: ClassVar[Mapping[str, str]] = {}
    """Name of a check -> the reason why this env cannot keep it."""

    def make_env(self) -> EnvBase:
        """A fresh env, always the same."""
        raise NotImplementedError("EnvContract: write make_env(self), which returns a fresh env")


def _as_test(name: str) -> Callable[[EnvContract], None]:
    def test(self: EnvContract) -> None:
        if name in self.exempt:
            _skip(self.exempt[name])
            return
        try:
            CHECKS[name].run(self.make_env)
        except Unsupported as error:
            _skip(str(error))
        except ContractBroken as error:
            error.add_note(f"how to mend it: {CHECKS[name].mend}")
            raise

    test.__name__ = f"test_{name}"
    test.__doc__ = CHECKS[name].says
    return test


def _skip(reason: str) -> None:
    from marlenv.optional import need

    need("pytest", "EnvContract").skip(reason)


for _name in CHECKS:
    setattr(EnvContract, f"test_{_name}", _as_test(_name))


def explain(result: Result) -> list[str]:
    """A broken check in a few lines of text."""
    return (
        [f"{result.name}: {result.says}", f"  mend: {result.mend}"]
        if result.mend
        else [f"{result.name}: {result.says}"]
    )
